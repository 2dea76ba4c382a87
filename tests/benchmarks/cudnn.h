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
/// in f32: every algorithm that cuDNN finds in the layouts NCHW and NHWC, fastest first by its own
/// measurement. `fields` are of a dense layout. Throws std::runtime_error where cuDNN finds none.
[[nodiscard]] std::vector<Contestant> cudnn_baselines(const Contestant& kernel, const DeviceFields& fields);

}  // namespace bench
