/// Adds values to cells of a field, or reads them: sources and receivers (spider/points.h). One thread owns a
/// cell and adds its values in the caller's order: the bits are the same on every run and back end.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>

#if defined(__CUDACC__)
#include <spider/values/cells.h>
#endif

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// `Cells` has Element, the type in the field, Number, the type of values, and number() and cell() to
/// convert, rounded to nearest.
template <class Cells>
SPIDER_DEVICE void access_cell(const PointArguments& points, std::int64_t index) {
  const PointCell& at = points.cells[index];
  auto* const cell = static_cast<typename Cells::Element*>(points.field) +
                     (at.place[0] * points.stride[0] + at.place[1] * points.stride[1] + at.place[2]);
  auto* const values = static_cast<typename Cells::Number*>(points.values);
  typename Cells::Number number = Cells::number(*cell);
  for (std::int64_t i = at.first; i < at.end; ++i) {
    if (points.adds) {
      number += values[points.order[i]];
    } else {
      values[points.order[i]] = number;
    }
  }
  if (points.adds) *cell = Cells::cell(number);
}

/// `Storages` names the cells of each storage: F16, BF16, F32, F64.
template <class Storages>
SPIDER_DEVICE void access_point(const PointArguments& points, std::int64_t index) {
  switch (points.storage) {
    case SPIDER_F16:
      return access_cell<typename Storages::F16>(points, index);
    case SPIDER_BF16:
      return access_cell<typename Storages::BF16>(points, index);
    case SPIDER_F64:
      return access_cell<typename Storages::F64>(points, index);
    default:
      return access_cell<typename Storages::F32>(points, index);
  }
}

#if defined(__CUDACC__)

/// Single cells of a storage of spider/values/cells.h.
template <class Cells>
struct SingleCells {
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  SPIDER_DEVICE static Number number(Element cell) { return Cells::number(cell, 0); }
  SPIDER_DEVICE static Element cell(Number number) { return Cells::cell(number); }
};

struct DevicePoints {
  using F16 = SingleCells<F16Cells>;
  using BF16 = SingleCells<Bf16Cells>;
  using F32 = SingleCells<F32Cells>;
  using F64 = SingleCells<F64Cells>;
};

template <class File>
__global__ void access_points(const PointArguments points) {
  SPIDER_ENTRY;
  const std::int64_t index = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (index < points.cell_count) access_point<DevicePoints>(points, index);
}

#endif

}  // namespace device_4
}  // namespace spider
