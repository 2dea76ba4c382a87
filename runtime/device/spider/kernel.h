/// What a generated file and the runtime know of each other. Private: no application includes it.
#pragma once

#include <spider/spider.h>

#include <cstdint>

namespace spider {

/// How a launch cuts a field. A warp walks down inner_rows or edge_rows output rows of a strip of
/// Tiling::columns_per_warp columns. Strips whose inputs cross an edge of the field in x are slower to walk:
/// their walks are shorter, and come first. Warps count through the blocks: edge_walks of them take the edge
/// strips in turn, segment by segment, the others the inner strips.
struct BlockGrid {
  std::int32_t inner_strips;  ///< strips 1 .. inner_strips
  std::int32_t edge_strips;   ///< strip 0 and those behind the inner ones
  std::int32_t edge_walks;    ///< a multiple of edge_strips
  std::int32_t edge_rows;
  std::int32_t inner_rows;
};

/// What one launch tells a kernel. Offsets are in elements; rows run along y, columns along x.
struct SweepArguments {
  const std::uint16_t* input;  ///< first interior element, f16 bits
  std::uint16_t* output;
  std::int64_t input_stride;  ///< elements from row to row
  std::int64_t output_stride;
  std::int32_t rows;  ///< interior extents, each >= 1
  std::int32_t columns;
  BlockGrid grid;
  bool aligned_input;   ///< every input row starts on 16 bytes
  bool aligned_output;  ///< every output row starts on 8 bytes
};

using Sweep = void (*)(SweepArguments);

/// What the runtime must know of a kernel to cut a field for it.
struct Tiling {
  std::int32_t columns_per_warp;
  std::int32_t right_margin;  ///< columns that a strip reads beyond its last
  std::int32_t warps_per_block;
  std::int32_t lead_rows;       ///< input rows a walk reads before its first output row is complete
  std::int32_t preferred_rows;  ///< rows of a walk that run best on a large field; 0: one wave of blocks
  std::int32_t shared_bytes;    ///< dynamic shared memory of a block
};

/// The taps of one (dz, dy): dx from `low` to `high`. The halo is the hull of these rows around the interior.
struct TapRow {
  std::int32_t dz, dy, low, high;
};

/// One tap with the weight that the kernel multiplies with: the sum of its packed terms.
struct Tap {
  std::int32_t dz, dy, dx;
  double weight;
};

enum class FaceRule : std::int32_t { halo, constant, nearest };

struct Face {
  FaceRule rule;
  float value;  ///< of FaceRule::constant
};

}  // namespace spider

/// Layout is ABI: abi and size come first for ever, so that any runtime can refuse any kernel.
struct spider_kernel {
  std::uint32_t abi;
  std::uint32_t size;
  spider_kernel_info info;
  spider::Sweep sweep;
  spider::Tiling tiling;
  const spider::TapRow* tap_rows;
  std::int32_t tap_row_count;
  const spider::Tap* taps;  ///< ascending in (dz, dy, dx)
  std::int32_t tap_count;
  std::int32_t products;     ///< MMAs chained into one output, for error bounds
  spider::Face faces[3][2];  ///< axes z, y, x; low, high
};
