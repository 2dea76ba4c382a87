/// cuDNN's convolution as a baseline. cudnn_baseline.cpp defines it, or cudnn_baseline_missing.cpp where
/// cuDNN is not installed.
#pragma once

#include <vector>

#include "contestant.h"
#include "device_fields.h"

namespace bench {

/// Whether this build can call cuDNN.
[[nodiscard]] bool has_cudnn();

/// The version, e.g. "9.19.0"; empty where there is none.
[[nodiscard]] std::string cudnn_version();

/// How a field is told to cuDNN: as an image of one channel, what one would write down; or as one of 8
/// channels, 8 neighbouring columns being the channels of a pixel and the filter a band, what it takes to
/// make tensor cores busy.
enum class CudnnView { plain, blocked };

/// The stencil as a convolution, zeros beyond the faces, weights rounded to the storage, sums in f32: what
/// cuDNN's heuristics propose for the layouts NCHW and NHWC (blocked: NHWC) and can run, fastest first by a
/// few runs of each. `fields` are of a dense layout and outlive the result. Throws std::runtime_error where
/// nothing runs; blocked needs rows of a multiple of 8.
[[nodiscard]] std::vector<Contestant> cudnn_baselines(const Contestant& kernel, const DeviceFields& fields,
                                                      CudnnView view);

}  // namespace bench
