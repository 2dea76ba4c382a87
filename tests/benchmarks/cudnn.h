/// cuDNN's convolution as a baseline. cudnn.cpp defines it, or cudnn_missing.cpp where cuDNN is not
/// installed.
#pragma once

#include <vector>

#include "contestant.h"
#include "device_fields.h"

namespace bench {

/// Whether this build can call cuDNN.
[[nodiscard]] bool has_cudnn();

/// The version, e.g. "9.19.0"; empty where there is none.
[[nodiscard]] std::string cudnn_version();

/// The stencil as a convolution of one channel, zeros beyond the faces, weights rounded to the storage, sums
/// in f32: what cuDNN's heuristics propose for the layouts NCHW and NHWC and can run, fastest first by a few
/// runs of each. `fields` are of a dense layout and outlive the result. Throws std::runtime_error where
/// nothing runs.
[[nodiscard]] std::vector<Contestant> cudnn_baselines(const Contestant& kernel, const DeviceFields& fields);

}  // namespace bench
