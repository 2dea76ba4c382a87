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
#include "plan/schemes/tile2d.h"

namespace spidergen::plan {

/// How a contraction is laid out on the machine. Of two as fast the first is taken; of each engine the last
/// holds what the others do not, and says why where it does not hold a stencil either.
using Scheme =
    std::variant<Stream1d, Tile2d, Block2d, Star2d, Stream2d, Stream3d, Cores2d, Cores3d, OneList, CudaCores,
                 Stepping1d, Stepping2d, Levels3d, Stepping3d, Lowrank2d, Passes2d, BandedList>;

/// By it emit/schemes, templates/ and runtime/device/spider/kernels/ know the scheme.
[[nodiscard]] inline std::string_view scheme_name(const Scheme& scheme) {
  return std::visit([](const auto& chosen) { return chosen.name; }, scheme);
}

}  // namespace spidergen::plan
