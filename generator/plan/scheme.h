#pragma once

#include <string_view>
#include <variant>

#include "plan/schemes/banded_list.h"
#include "plan/schemes/block2d.h"
#include "plan/schemes/cores2d.h"
#include "plan/schemes/cores3d.h"
#include "plan/schemes/cuda_cores.h"
#include "plan/schemes/levels3d.h"
#include "plan/schemes/lowrank2d.h"
#include "plan/schemes/one_list.h"
#include "plan/schemes/passes2d.h"
#include "plan/schemes/star2d.h"
#include "plan/schemes/stepping1d.h"
#include "plan/schemes/stepping2d.h"
#include "plan/schemes/stepping3d.h"
#include "plan/schemes/stream1d.h"
#include "plan/schemes/stream2d.h"
#include "plan/schemes/stream3d.h"

namespace spidergen::plan {

/// The layout of a contraction on the machine. The first of two equally fast schemes is taken. An engine's
/// last one supports what others do not, and gives the reason where it does not either.
using Scheme =
    std::variant<Stream1d, Block2d, Star2d, Stream2d, Stream3d, Cores2d, Cores3d, OneList, CudaCores,
                 Stepping1d, Stepping2d, Levels3d, Stepping3d, Lowrank2d, Passes2d, BandedList>;

/// The name of the scheme in emit/schemes, templates/ and runtime/device/spider/kernels/.
[[nodiscard]] inline std::string_view scheme_name(const Scheme& scheme) {
  return std::visit([](const auto& chosen) { return chosen.name; }, scheme);
}

}  // namespace spidergen::plan
