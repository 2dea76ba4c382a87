/// Points of fields in host memory (spider/field/point_access.h).
#pragma once

#include <spider/field/point_access.h>

#include <cstdint>

#include "cells.h"

namespace spider::backend {

/// Single cells of a storage of host/cells.h.
template <class Cells>
struct HostCells {
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  static Number number(Element cell) {
    Number number{};
    Cells::load(&cell, &number, 1);
    return number;
  }
  static Element cell(Number number) {
    Element cell{};
    Cells::store(&number, &cell, 1);
    return cell;
  }
};

struct HostPoints {
  using F16 = HostCells<host::F16Cells>;
  using BF16 = HostCells<host::Bf16Cells>;
  using F32 = HostCells<host::F32Cells>;
  using F64 = HostCells<host::F64Cells>;
};

inline void access_on_host(const PointArguments& points) {
  for (std::int64_t i = 0; i < points.cell_count; ++i) access_point<HostPoints>(points, i);
}

}  // namespace spider::backend
