/// Copies boxes of a field on a GPU to where they lie packed, row after row, and back: narrow ones by a
/// kernel, others by copy engines. The packed cells may be in another GPU's memory.
#pragma once

#include <cuda_runtime_api.h>

#include "cuda_calls.h"

namespace spider::distributed {

constexpr int most_boxes = 26;
constexpr int threads_per_block = 256;

/// A box of a field, and its packed cells.
struct PackedBox {
  long long offset[3];
  int extent[3];
  void* packed;
};

struct PackedBoxes {
  PackedBox box[most_boxes];
};

/// Copies the cells of box blockIdx.y: groups of lanes take pieces of rows. A group has as many lanes as a
/// row has cells, up to a warp, and each of its lanes takes four cells of a piece.
template <class Cell, bool packs>
__global__ void __launch_bounds__(threads_per_block)
    copy_boxes(Cell* __restrict__ field, long long plane_stride, long long row_stride,
               const PackedBoxes boxes) {
  constexpr unsigned cells_of_lane = 4;
  const PackedBox& box = boxes.box[blockIdx.y];
  const auto width = static_cast<unsigned>(box.extent[2]);
  const auto height = static_cast<unsigned>(box.extent[1]);
  const unsigned log_lanes = width >= 32 ? 5 : 32 - __clz(static_cast<int>(width - 1));
  const unsigned lanes = 1U << log_lanes;
  const unsigned pieces = (width + cells_of_lane * lanes - 1) / (cells_of_lane * lanes);
  const unsigned count = static_cast<unsigned>(box.extent[0]) * height * pieces;
  const unsigned step = (gridDim.x * threads_per_block) >> log_lanes;
  for (unsigned i = (blockIdx.x * threads_per_block + threadIdx.x) >> log_lanes; i < count; i += step) {
    const unsigned row = i / pieces;
    const unsigned z = row / height;
    const unsigned y = row - z * height;
    Cell* const cells =
        field + (box.offset[0] + z) * plane_stride + (box.offset[1] + y) * row_stride + box.offset[2];
    Cell* const packed = static_cast<Cell*>(box.packed) + static_cast<long long>(row) * width;
    const unsigned first = (i - row * pieces) * cells_of_lane * lanes + (threadIdx.x & (lanes - 1));
#pragma unroll
    for (unsigned j = 0; j < cells_of_lane; ++j) {
      const unsigned x = first + j * lanes;
      if (x >= width) break;
      if (packs) {
        packed[x] = cells[x];
      } else {
        cells[x] = packed[x];
      }
    }
  }
}

/// Does nothing of the field lie between a box's first and last cell but the box?
inline bool lies_together(const spider_field& field, const Box& box) {
  const std::int64_t row = box.extent[1] == 1 ? box.extent[2] : field.stride[1];
  const std::int64_t plane = box.extent[0] == 1 ? box.extent[1] * row : field.stride[0];
  return row == box.extent[2] && plane == box.extent[1] * row;
}

/// The first cell of a box.
inline void* start_of(const spider_field& field, const Box& box, std::int64_t element_bytes) {
  return static_cast<char*>(field.data) +
         (box.offset[0] * field.stride[0] + box.offset[1] * field.stride[1] + box.offset[2]) * element_bytes;
}

/// Can copy engines take a box? They are slow at narrow rows, and want whole rows between planes.
inline bool suits_engines(const spider_field& field, const Box& box, std::int64_t element_bytes) {
#if defined(SPIDER_LEAST_ENGINE_ROW)  // of tests, whose fields are small
  constexpr std::int64_t least_row = SPIDER_LEAST_ENGINE_ROW;
#else
  constexpr std::int64_t least_row = 512;  // bytes
#endif
  constexpr std::int64_t most_pitch = 1 << 30;  // bytes; CUDA's own limit is twice that
  if (lies_together(field, box)) return true;
  if (box.extent[2] * element_bytes < least_row) return false;
  if (box.extent[1] == 1) return field.stride[0] * element_bytes <= most_pitch;
  return field.stride[1] * element_bytes <= most_pitch &&
         (box.extent[0] == 1 || field.stride[0] % field.stride[1] == 0);
}

/// Copies of bytes that lie together, to be started with one call, so that engines take them side by side.
class EngineCopies {
 public:
  void add(void* to, const void* from, std::size_t bytes) {
    to_[count_] = to;
    from_[count_] = from;
    bytes_[count_++] = bytes;
  }
  Outcome start(cudaStream_t stream) {
    if (count_ == 0) return {};
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    Outcome started = of_cuda(cudaStreamIsCapturing(stream, &status), "asking the stream");
    if (started.status == SPIDER_OK && status == cudaStreamCaptureStatusNone && start_together(stream))
      return {};
    for (std::size_t i = 0; i < count_ && started.status == SPIDER_OK; ++i)
      started =
          of_cuda(cudaMemcpyAsync(to_[i], from_[i], bytes_[i], cudaMemcpyDefault, stream), "copying halos");
    return started;
  }

 private:
  /// False where the toolkit or the driver is older.
  bool start_together([[maybe_unused]] cudaStream_t stream) {
#if CUDART_VERSION >= 13000
    cudaMemcpyAttributes beside{};
    beside.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    beside.flags = cudaMemcpyFlagPreferOverlapWithCompute;
    std::size_t first = 0;
    const cudaError_t error = cudaMemcpyBatchAsync(to_, from_, bytes_, count_, &beside, &first, 1, stream);
    return of_cuda(error, "copying halos").status == SPIDER_OK;
#else
    return false;
#endif
  }

  void* to_[most_boxes] = {};
  const void* from_[most_boxes] = {};
  std::size_t bytes_[most_boxes] = {};
  std::size_t count_ = 0;
};

/// The packed cells of a box as a field of its extents.
inline spider_field packed_field(void* cells, const Box& box) {
  return {
      cells, {box.extent[0], box.extent[1], box.extent[2]}, {box.extent[1] * box.extent[2], box.extent[2]}};
}

/// A box of a field in memory of CUDA's.
struct FieldBox {
  const spider_field& field;
  const Box& box;
};

/// Copies between boxes of the same extents that suit copy engines, in the order of the stream; where the
/// cells of each lie together, when `together` is started.
inline Outcome copy_by_engine(const FieldBox& from, const FieldBox& to, std::int64_t element_bytes,
                              cudaStream_t stream, EngineCopies& together) {
  const std::int64_t* const extent = from.box.extent;
  const auto width = static_cast<std::size_t>(extent[2] * element_bytes);
  if (lies_together(from.field, from.box) && lies_together(to.field, to.box)) {
    together.add(start_of(to.field, to.box, element_bytes), start_of(from.field, from.box, element_bytes),
                 width * static_cast<std::size_t>(extent[0] * extent[1]));
    return {};
  }
  // A box with one row a plane is copied as one plane, whose rows are its planes.
  const bool is_flat = extent[1] == 1;
  const std::int64_t rows = is_flat ? extent[0] : extent[1];
  const std::int64_t planes = is_flat ? 1 : extent[0];
  const auto pitched = [&](const FieldBox& of) {
    const std::int64_t pitch = is_flat ? of.field.stride[0] : of.field.stride[1];
    const std::int64_t rows_apart = planes == 1 ? rows : of.field.stride[0] / pitch;
    return cudaPitchedPtr{start_of(of.field, of.box, element_bytes),
                          static_cast<std::size_t>(pitch * element_bytes), width,
                          static_cast<std::size_t>(rows_apart)};
  };
  cudaMemcpy3DParms copy{};
  copy.srcPtr = pitched(from);
  copy.dstPtr = pitched(to);
  copy.extent = {width, static_cast<std::size_t>(rows), static_cast<std::size_t>(planes)};
  copy.kind = cudaMemcpyDefault;
  return of_cuda(cudaMemcpy3DAsync(&copy, stream), "copying halos");
}

}  // namespace spider::distributed
