#pragma once

#include <string>
#include <vector>

#include "emit/kernel_text.h"

namespace spidergen::emit {

/// What a scheme puts into templates/kernel.cu.in.
struct SchemeText {
  std::string stencil;             ///< `struct Stencil`, for the scheme's device header, with its tables
  std::vector<std::string> forms;  ///< ways to sweep, from large boxes to small ones
};
SchemeText cores2d_text(const Kernel& kernel);
SchemeText cores3d_text(const Kernel& kernel);
SchemeText stream2d_text(const Kernel& kernel);
SchemeText stream1d_text(const Kernel& kernel);
SchemeText stream3d_text(const Kernel& kernel);
SchemeText split2d_text(const Kernel& kernel);
SchemeText cuda_cores_text(const Kernel& kernel);
SchemeText block2d_text(const Kernel& kernel);
SchemeText star2d_text(const Kernel& kernel);
SchemeText tile2d_text(const Kernel& kernel);

}  // namespace spidergen::emit
