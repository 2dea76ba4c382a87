/// 2D stencils with many products, and f32 fields: a warp walks down a strip of tiles. Input rows wait in a
/// ring in shared memory; the sums of all output rows that an input row is read for are in flight together.
///
/// A `Stencil` has, besides members for spider/field/field2d.h and spider/sums/operands.h, as static ones:
/// - Storage: of spider/values/storage.h;
/// - row_low, row_high: lowest and highest dy; gapless: is there a tap row for each between them?
/// - rows_in_flight: output rows with partial sums at the same time;
/// - tiles: of a strip, side by side; warps_per_block, blocks_per_multiprocessor; preferred_rows: of a walk;
/// - ring_rows, ring_vectors, ring_row_bytes: of a warp's ring, whose rows begin with column first_column of
///   the strip; rows_kept: older rows that stay, for pairs, or for adding own inputs to results;
/// - batch_rows, staged_vectors: of vectors at edges, which are fetched for that many rows together;
/// - shift_count, shift_group(i): the windows of an input row, in groups of eight inputs from the first;
/// - pair_distance: of the pair of rows whose inputs in the outputs' own columns are one more fragment; 0:
///   none;
/// - operands_in_registers: otherwise they wait in shared memory;
/// - product_count, products(): a TableOf RowProduct, in the order of the output rows in flight, the oldest
///   first;
/// - rotates_by_unrolling: accumulators keep their registers, otherwise they move from row to row;
/// - result_scale: of sums; adds_input: are own inputs added to them? product_unit: of products of scaled
///   inputs.
#pragma once

#include <spider/field/beside_rims.h>
#include <spider/field/field2d.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/sums/epilogue.h>
#include <spider/sums/operands.h>
#include <spider/values/storage.h>
#include <spider/values/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct Stream2d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_stream2d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Stream2d<Stencil>;
  using Path = typename Kernel::Path;
  const JoinRimsAtExit<Stencil> ends_behind_rims;
  const bool block_has_edges =
      device::block_index() * Stencil::warps_per_block < field.grid.strips.edge_walks;
  const bool takes_care = block_has_edges || !field.aligned_input || !field.aligned_output;
  if (!Stencil::operands_in_registers || takes_care) place_operands<Stencil>(Kernel::operands_begin);
  const Walk walk = find_walk(field, device::block_index() * Stencil::warps_per_block + device::warp_index());
  if (walk.rows == 0) return;
  const typename Kernel::Strip strip(field, walk);
  const bool all_fast = strip.vector_begin == 0 && strip.vector_end == Kernel::ring_vectors;
  const bool aligned = field.aligned_input && field.aligned_output;
  const bool whole_outputs = strip.has_plain_outputs();
  // In this order nvcc 13.0 schedules the interior loop so that it waits once a row for complete sums; with
  // the interior path first it waits twice (gauss2d_r7 +1.9 %, box2d_r7_f32_exact +2.8 %).
  if (!aligned || strip.edge_vectors() > Stencil::staged_vectors) {
    Kernel::template walk_down<Path::unaligned>(strip);
  } else if (!all_fast || !whole_outputs) {
    Kernel::template walk_down<Path::boundary>(strip);
  } else {
    Kernel::template walk_down<Path::interior>(strip);
  }
}

/// How lanes load the 32 inputs of a column of a product, four lanes eight each: which of the four groups of
/// eight a lane has, or that its eight are not adjacent.
template <class Stencil>
struct Stream2d {
  using Accumulator = device::Accumulator;
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Storage = typename Stencil::Storage;
  using Element = typename Storage::Element;
  using Fragment = typename Storage::Fragment;
  using Outputs = typename Storage::Outputs;
  using Partial = typename Storage::Partial;

  static constexpr int element_bytes = Storage::element_bytes;
  static constexpr int vector_elements = Storage::vector_elements;
  static constexpr int vector_bytes = 16;
  static constexpr int group_bytes =
      Storage::fragment_vectors * vector_bytes;  // of eight neighbouring inputs

  static constexpr int row_low = Stencil::row_low;
  static constexpr int row_high = Stencil::row_high;
  static constexpr int lead_rows =
      row_high - row_low;  // input rows before the one that completes an output row
  static constexpr int rows_in_flight = Stencil::rows_in_flight;

  // A tile is one product: 16 outputs along x in each of 8 columns.
  static constexpr int tile_outputs = 128;
  static constexpr int tiles = Stencil::tiles;
  static constexpr int strip_outputs = tiles * tile_outputs;

  // A warp's ring, in vectors of 16 bytes.
  static constexpr int ring_rows = Stencil::ring_rows;
  static constexpr int ring_vectors = Stencil::ring_vectors;
  static constexpr int ring_row_bytes = Stencil::ring_row_bytes;
  static constexpr int ring_bytes = ring_rows * ring_row_bytes;
  static constexpr int first_column = Stencil::first_column;
  static constexpr int rows_ahead = ring_rows - 1 - Stencil::rows_kept;

  static constexpr int line_bytes = 128;
  // Vectors at a field's edge are fetched for batch_rows rows together, a batch ahead, and wait in a stage
  // after the warp's ring. A lane has an element of each batch_stride-th row.
  static constexpr int batch_rows = Stencil::batch_rows;
  static constexpr int staged_vectors = Stencil::staged_vectors;
  static constexpr int stage_bytes = batch_rows * staged_vectors * vector_bytes;
  static constexpr int batch_stride = 32 / vector_elements;
  static constexpr int batch_lane_rows = (batch_rows + batch_stride - 1) / batch_stride;
  static constexpr bool fetch_ahead = staged_vectors * batch_lane_rows <= 8;  // they wait in registers

  // After the stage, the places of rows that a face may map, one per lane.
  static constexpr int mapped_rows = 32;
  static constexpr int row_table_bytes = mapped_rows * vector_bytes;
  static constexpr int warp_bytes =
      (ring_bytes + stage_bytes + row_table_bytes + line_bytes - 1) / line_bytes * line_bytes;

  // Fragments are windows of the ring row at the shifts, and the pair: the inputs in the outputs' own columns
  // in two rows, pair_distance apart, the row and an earlier one.
  static constexpr int shift_count = Stencil::shift_count;
  static constexpr int pair_distance = Stencil::pair_distance;
  static constexpr bool has_pair = pair_distance > 0;
  static constexpr int fragment_count = shift_count + (has_pair ? 1 : 0);
  static constexpr float product_unit = Stencil::product_unit;

  /// The field as one lane of one strip sees it.
  struct Strip : Field2d<Element>, UpdateSource<Stencil> {
    std::int32_t first_row;  ///< input row of step 0
    std::int32_t left;       ///< column of the ring's first element
    std::int32_t steps;
    std::int32_t needed_begin, needed_end;  ///< vectors that a result may need
    std::int32_t vector_begin,
        vector_end;  ///< the ones in memory, at their own columns, in every row
    Shared ring;
    int lane;

    SPIDER_DEVICE Strip(const ArgumentsOf<Stencil>& arguments, const Walk& walk)
        : Field2d<Element>(arguments, device::image_index()),
          UpdateSource<Stencil>(arguments),
          first_row(walk.first_row + row_low),
          left(arguments.grid.strips.first_column + walk.across * strip_outputs + first_column),
          steps(walk.rows + lead_rows),
          ring(device::warp_index() * warp_bytes + line_offset<vector_elements>(first_column)),
          lane(device::lane_index()) {
      const std::int32_t begin = this->wanted.column_begin + Stencil::column_reach_low - left;
      const std::int32_t end = this->wanted.column_end + Stencil::column_reach_high - left;
      needed_begin = clamp(begin / vector_elements, 0, ring_vectors);
      needed_end = clamp((end + vector_elements - 1) / vector_elements, needed_begin, ring_vectors);
      const Span fast =
          vectors_within<vector_elements>(columns_in_memory<Stencil>(*this, left), needed_begin, needed_end);
      vector_begin = fast.begin;
      vector_end = fast.end;
    }

    /// The needed vectors that are not fast: they cross an edge.
    SPIDER_DEVICE std::int32_t edge_vectors() const {
      return needed_end - needed_begin - (vector_end - vector_begin);
    }
    SPIDER_DEVICE bool is_fast(int vector) const { return vector >= vector_begin && vector < vector_end; }

    /// True if all outputs are stored.
    SPIDER_DEVICE bool has_plain_outputs() const {
      const std::int32_t first = left - first_column;
      return first >= this->wanted.column_begin && first + strip_outputs <= this->wanted.column_end;
    }
  };

  /// True if all rows of a strip's walk are in memory, in place; otherwise some need the boundary's map.
  SPIDER_DEVICE static bool has_plain_rows(const Strip& strip) {
    constexpr AxisRules rules = Stencil::row_rules();
    constexpr bool halo_above = rules.low == FaceRule::halo;
    constexpr bool halo_below = rules.high == FaceRule::halo;
    const std::int32_t last_row = strip.first_row + strip.steps - 1;
    if (!Stencil::gapless) return has_row(strip.wanted, strip.first_row) && has_row(strip.wanted, last_row);
    return (halo_above || strip.first_row >= 0) && (halo_below || last_row < strip.rows);
  }

  SPIDER_DEVICE static Shared ring_row(const Strip& strip, int step) {
    return strip.ring + static_cast<unsigned>(step) % ring_rows * ring_row_bytes;
  }

  /// Starts the copies of an input row at its own place in memory; `cells` is its first vector. Lanes take
  /// the vectors from the first line on, and the ones before it last, so that a warp's copies cover whole
  /// lines.
  template <bool all_fast>
  SPIDER_DEVICE static void start_plain_row(const Strip& strip, int step, const Element* cells) {
    SPIDER_UNROLL
    for (int first = 0; first < ring_vectors; first += 32) {
      const int rotated = first + strip.lane + vectors_before_line<vector_elements>(first_column);
      const int vector = rotated < ring_vectors ? rotated : rotated - ring_vectors;
      const bool copied = first + strip.lane < ring_vectors && (all_fast || strip.is_fast(vector));
      device::copy_async_if(copied, ring_row(strip, step) + vector * vector_bytes,
                            cells + vector * vector_elements);
    }
  }

  SPIDER_DEVICE static Shared row_table(const Strip& strip) { return strip.ring + ring_bytes + stage_bytes; }

  /// Finds the rows of mapped_rows steps, one per lane: {0, the row's index, the bits that change a word's
  /// signs} or {1, a word of the constant}.
  SPIDER_DEVICE static void map_rows(const Strip& strip, int first_step) {
    const std::int32_t y = strip.first_row + first_step + strip.lane;
    const RowIndex<Stencil> row = map_row<Stencil>(strip, y);
    const bool in_memory = !row.constant && row_is_reached<Stencil>(strip, y);
    const std::uint32_t sign = sign_word<Element>(row.negated);
    const std::uint32_t word =
        Storage::repeat(static_cast<Element>(row.value)) ^ sign_word<Element>(row.negated && row.constant);
    const std::uint32_t place = in_memory ? static_cast<std::uint32_t>(row.index) : word;
    device::sync_warp();
    device::store_shared(row_table(strip) + strip.lane * vector_bytes,
                         Vector{{in_memory ? 0U : 1U, place, sign, 0}});
    device::sync_warp();
  }

  /// Copies the whole vectors of an input row with changed signs, which asynchronous copies cannot do.
  SPIDER_DEVICE static void bring_negated_row(const Strip& strip, int step, const Element* cells,
                                              std::uint32_t sign) {
    SPIDER_NO_UNROLL
    for (int vector = strip.vector_begin + strip.lane; vector < strip.vector_end; vector += 32) {
      Vector negated = device::load_field_vector(cells + vector * vector_elements);
      change_signs(negated, sign);
      device::store_shared(ring_row(strip, step) + vector * vector_bytes, negated);
    }
  }

  /// Starts the copies of an input row wherever the boundary takes it from: entry `i` of the row table.
  template <bool all_fast>
  SPIDER_DEVICE static void start_mapped_row(const Strip& strip, int step, int i) {
    const Vector row = device::load_shared(row_table(strip) + i * vector_bytes);
    if (row.word[0] == 0) {
      const std::int64_t index = static_cast<std::int32_t>(row.word[1]);
      if constexpr (negates(Stencil::row_rules())) {
        if (row.word[2] != 0) {
          bring_negated_row(strip, step, strip.input + index * strip.input_stride + strip.left, row.word[2]);
          return;
        }
      }
      start_plain_row<all_fast>(strip, step, strip.input + index * strip.input_stride + strip.left);
      return;
    }
    const std::uint32_t word = row.word[1];
    SPIDER_NO_UNROLL
    for (int vector = strip.vector_begin + strip.lane; vector < strip.vector_end; vector += 32) {
      device::store_shared(ring_row(strip, step) + vector * vector_bytes, Vector{{word, word, word, word}});
    }
  }

  /// An input row that may begin at any element: the first cell of its ring row and how many bytes of a
  /// vector lie before that cell; or a constant.
  struct UnalignedRow {
    const Element* cells;
    int bytes_before;
    Element value;
  };

  SPIDER_DEVICE static UnalignedRow find_unaligned_row(const Strip& strip, int step) {
    const std::int32_t y = strip.first_row + step;
    const RowIndex<Stencil> row = map_row<Stencil>(strip, y);
    if (row.constant || !row_is_reached<Stencil>(strip, y))
      return {nullptr, 0, static_cast<Element>(row.value ^ sign_of<Element>(row.negated && row.constant))};
    const Element* cells = strip.input + row.index * strip.input_stride + strip.left;
    return {cells, static_cast<int>(reinterpret_cast<std::uintptr_t>(cells) % vector_bytes), 0};
  }

  /// Starts the copies of an input row as whole vectors of memory; realign_row shifts them into place.
  SPIDER_DEVICE static void start_unaligned_row(const Strip& strip, int step) {
    const UnalignedRow row = find_unaligned_row(strip, step);
    const std::uint32_t word = Storage::repeat(row.value);
    const int end =
        strip.vector_end + (row.bytes_before > 0 && strip.vector_end > strip.vector_begin ? 1 : 0);
    SPIDER_NO_UNROLL
    for (int vector = strip.vector_begin + strip.lane; vector < end; vector += 32) {
      const Shared to = ring_row(strip, step) + vector * vector_bytes;
      if (row.cells == nullptr) {
        device::store_shared(to, Vector{{word, word, word, word}});
      } else {
        device::copy_async_if(true, to,
                              row.cells + vector * vector_elements - row.bytes_before / element_bytes);
      }
    }
  }

  /// Shifts the vectors of an input row to the places of an aligned row's.
  SPIDER_DEVICE static void realign_row(const Strip& strip, int step) {
    constexpr int lane_vectors = (ring_vectors + 31) / 32;
    constexpr bool has_signs = negates(Stencil::row_rules());
    const UnalignedRow found = find_unaligned_row(strip, step);
    const int begin = found.bytes_before;
    std::uint32_t sign = 0;
    if constexpr (has_signs) {
      const bool negated = map_row<Stencil>(strip, strip.first_row + step).negated;
      sign = sign_word<Element>(negated && found.cells != nullptr);
    }
    if (begin == 0 && !(has_signs && sign != 0)) return;
    const int next = has_signs && begin == 0 ? 0 : vector_bytes;
    const Shared row = ring_row(strip, step);
    Vector shifted[lane_vectors] = {};
    SPIDER_UNROLL
    for (int i = 0; i < lane_vectors; ++i) {
      const int vector = strip.lane + 32 * i;
      if (!strip.is_fast(vector)) continue;
      const Shared from = row + vector * vector_bytes;
      shifted[i] = take_vector(device::load_shared(from), device::load_shared(from + next), begin);
      if constexpr (has_signs) change_signs(shifted[i], sign);
    }
    device::sync_warp();
    SPIDER_UNROLL
    for (int i = 0; i < lane_vectors; ++i) {
      const int vector = strip.lane + 32 * i;
      if (strip.is_fast(vector)) device::store_shared(row + vector * vector_bytes, shifted[i]);
    }
  }

  /// Index in the ring row of the strip's edge vector `i`: those before the fast vectors, then those after.
  SPIDER_DEVICE static int edge_vector(const Strip& strip, int i) {
    const int vector = strip.needed_begin + i;
    return vector < strip.vector_begin ? vector : vector - strip.vector_begin + strip.vector_end;
  }

  /// Column x of the input row of a step; `column` is x mapped. Cells that no tap reaches are 0.
  SPIDER_DEVICE static Element fetch_column(const Strip& strip, int step, std::int32_t x,
                                            const ColumnIndex<Stencil>& column, bool wanted) {
    const std::int32_t y = strip.first_row + step;
    const bool reached = wanted && step < strip.steps && cell_is_reached<Stencil>(strip, y, x);
    return fetch_cell(strip, reached, map_row<Stencil>(strip, y), column);
  }

  /// Fetches the edge vectors of one row into the ring, one element a lane.
  SPIDER_DEVICE static void fetch_row(const Strip& strip, int step) {
    constexpr int loads = 4;  // in flight per lane
    const int elements = step < strip.steps ? strip.edge_vectors() * vector_elements : 0;
    SPIDER_NO_UNROLL
    for (int first = strip.lane; first < elements; first += 32 * loads) {
      Element values[loads];
      int columns[loads];
      SPIDER_UNROLL
      for (int k = 0; k < loads; ++k) {
        const int i = first + 32 * k;
        columns[k] = edge_vector(strip, i / vector_elements) * vector_elements + i % vector_elements;
        const std::int32_t x = strip.left + columns[k];
        values[k] = fetch_column(strip, step, x, map_column<Stencil>(strip, x), i < elements);
      }
      SPIDER_UNROLL
      for (int k = 0; k < loads; ++k) {
        if (first + 32 * k < elements) {
          device::store_shared(ring_row(strip, step) + columns[k] * element_bytes, values[k]);
        }
      }
    }
  }

  SPIDER_DEVICE static Shared stage_place(const Strip& strip, int row, int i) {
    return strip.ring + ring_bytes + (row * staged_vectors + i) * vector_bytes;
  }

  /// A lane's part of an edge vector in a batch of rows: one element of each batch_stride-th row.
  struct EdgeBatch {
    Element value[batch_lane_rows];
  };

  /// Starts to fetch edge vector `i` of the batch of rows from `step` on. A lane stays in one column, so that
  /// only rows need mapping.
  SPIDER_DEVICE static EdgeBatch fetch_edge(const Strip& strip, int step, int i) {
    const std::int32_t x =
        strip.left + edge_vector(strip, i) * vector_elements + strip.lane % vector_elements;
    const ColumnIndex<Stencil> column = map_column<Stencil>(strip, x);
    EdgeBatch batch;
    SPIDER_UNROLL
    for (int k = 0; k < batch_lane_rows; ++k) {
      const int row = strip.lane / vector_elements + batch_stride * k;
      batch.value[k] = fetch_column(strip, step + row, x, column, row < batch_rows);
    }
    return batch;
  }

  /// Stores fetched elements to the stage.
  SPIDER_DEVICE static void stage_edge(const Strip& strip, int i, const EdgeBatch& batch) {
    SPIDER_UNROLL
    for (int k = 0; k < batch_lane_rows; ++k) {
      const int row = strip.lane / vector_elements + batch_stride * k;
      if (row >= batch_rows) continue;
      device::store_shared(stage_place(strip, row, i) + strip.lane % vector_elements * element_bytes,
                           batch.value[k]);
    }
  }

  /// The edge vectors of the next batch of rows, in flight while the walk works on the batch before.
  class EdgeQueue {
   public:
    /// Starts to fetch the batch of rows from `step` on.
    SPIDER_DEVICE void fetch(const Strip& strip, int step) {
      if constexpr (fetch_ahead) {
        SPIDER_UNROLL
        for (int i = 0; i < staged_vectors; ++i) {
          if (i < strip.edge_vectors()) batches_[i] = fetch_edge(strip, step, i);
        }
      }
    }

    /// Stages the batch of rows from `step` on, and starts to fetch the next one.
    SPIDER_DEVICE void advance(const Strip& strip, int step) {
      device::sync_warp();
      if constexpr (fetch_ahead) {
        SPIDER_UNROLL
        for (int i = 0; i < staged_vectors; ++i) {
          if (i < strip.edge_vectors()) stage_edge(strip, i, batches_[i]);
        }
        fetch(strip, step + batch_rows);
      } else {
        SPIDER_NO_UNROLL
        for (int i = 0; i < strip.edge_vectors(); ++i) stage_edge(strip, i, fetch_edge(strip, step, i));
      }
    }

   private:
    EdgeBatch batches_[fetch_ahead ? staged_vectors : 1] = {};
  };

  /// Copies the staged edge vectors of a row to the ring; `row` counts from the batch's first.
  SPIDER_DEVICE static void place_edges(const Strip& strip, int step, int row) {
    if (step >= strip.steps) return;
    SPIDER_UNROLL
    for (int first = 0; first < staged_vectors; first += 32) {
      const int i = first + strip.lane;
      if (i >= strip.edge_vectors()) return;
      device::store_shared(ring_row(strip, step) + edge_vector(strip, i) * vector_bytes,
                           device::load_shared(stage_place(strip, row, i)));
    }
  }

  /// Zeroes cells that no copy fills: an operand's zero times stale data could be NaN.
  SPIDER_DEVICE static void clear_ring(const Strip& strip) {
    SPIDER_NO_UNROLL
    for (int i = strip.lane; i < ring_rows * ring_vectors; i += 32) {
      const int vector = i % ring_vectors;
      if (vector >= strip.needed_begin && vector < strip.needed_end) continue;
      device::store_shared(strip.ring + i / ring_vectors * ring_row_bytes + vector * vector_bytes, Vector{});
    }
  }

  /// Where operands that are not in registers wait: after all warps' rings.
  static constexpr Shared operands_begin = Stencil::warps_per_block * warp_bytes + line_bytes;

  /// Where a lane's inputs of the first tile and shift begin, in bytes from the first of the row. A column's
  /// inputs are four groups of eight from group 2 (lane / 4) on; a lane has group (lane % 4) / 2 + 2 (lane %
  /// 2).
  SPIDER_DEVICE static Shared fragment_begin(int lane) { return group_bytes * pair_swap_group(lane); }

  using Sums = TileSums<Stencil>;

  /// A row's inputs as operands.
  using Fragments = Fragment[tiles][fragment_count];

  /// Where a lane's inputs of the first tile begin: for the first shift, and for the pair.
  struct FragmentPlaces {
    Shared window, pair;
  };

  /// The places in the row of a step. In a pair, lanes 4 n and 4 n + 1 have neighbouring groups of the
  /// earlier row, the others of the step's own. Before there is an earlier row, a pair adds only to sums that
  /// are not stored.
  SPIDER_DEVICE static FragmentPlaces find_fragments(const Strip& strip, int step, Shared window_begin) {
    FragmentPlaces places{ring_row(strip, step) + window_begin, 0};
    if constexpr (has_pair) {
      const int earlier = step < pair_distance ? 0 : step - pair_distance;
      const Shared begin =
          group_bytes * (2 * (strip.lane / 4) + strip.lane % 2) - first_column * element_bytes;
      places.pair = ring_row(strip, strip.lane % 4 < 2 ? earlier : step) + begin;
    }
    return places;
  }

  /// Where a lane's inputs for a tile and a fragment begin.
  SPIDER_DEVICE static Shared fragment_place(const FragmentPlaces& places, int tile, int fragment) {
    const Shared tile_offset = tile * 16 * group_bytes;
    if (fragment >= shift_count) return places.pair + tile_offset;
    return places.window + tile_offset + Stencil::shift_group(fragment) * group_bytes;
  }

  SPIDER_DEVICE static void load_fragments(const FragmentPlaces& places, Fragments& fragments) {
    SPIDER_UNROLL
    for (int i = 0; i < tiles * fragment_count; ++i) {
      const int tile = i / fragment_count;
      const int k = i % fragment_count;
      fragments[tile][k] = Storage::load_fragment(fragment_place(places, tile, k), product_unit);
    }
  }

  /// Loads the parts that the fragments left out, if any.
  SPIDER_DEVICE static bool load_rest(const FragmentPlaces& places, Fragments& fragments) {
    bool rest = false;
    SPIDER_UNROLL
    for (int i = 0; i < tiles * fragment_count; ++i) {
      rest |= Storage::has_rest(fragments[i / fragment_count][i % fragment_count]);
    }
    if (rest) {
      SPIDER_UNROLL
      for (int i = 0; i < tiles * fragment_count; ++i) {
        const int tile = i / fragment_count;
        const int k = i % fragment_count;
        fragments[tile][k] =
            Storage::load_rest(fragment_place(places, tile, k), product_unit, fragments[tile][k]);
      }
    }
    return rest;
  }

  /// Adds an input row to the output rows in flight, which completes the oldest, in slot (turn + 1) %
  /// rows_in_flight. Its products come first in the table, so that it is stored while the others are
  /// computed.
  template <class Loaded>
  SPIDER_DEVICE static void multiply_row(const Loaded& loaded, const Fragments& fragments,
                                         Sums (&sums)[tiles][rows_in_flight], int turn) {
    constexpr TableOf<RowProduct, Stencil::product_count> products = Stencil::products();
    Partial partial[tiles] = {};
    Vector matrix{};
    SPIDER_UNROLL
    for (int i = 0; i < Stencil::product_count; ++i) {
      const RowProduct& product = products.entry[i];
      if (i == 0 || products.entry[i - 1].operand != product.operand) matrix = loaded.matrix(product.operand);
      const int slot = (turn + rows_in_flight - product.row) % rows_in_flight;
      const bool first = i == 0 || !have_one_window(products.entry[i - 1], product);
      const bool last = i + 1 == Stencil::product_count || !have_one_window(product, products.entry[i + 1]);
      SPIDER_UNROLL
      for (int tile = 0; tile < tiles; ++tile) {
        const Fragment& fragment = fragments[tile][product.fragment];
        Accumulator& sum = sums[tile][slot].of[product.sum];
        if (first) partial[tile] = {};
        multiply_selected<Storage>(product.selector, partial[tile], sum, matrix, fragment,
                                   loaded.metadata(product.metadata), product.part);
        if (last) Storage::finish(partial[tile], sum, fragment);
      }
    }
  }

  /// Empties the accumulators of a complete row. If they do not rotate by unrolling, moves all by one slot.
  template <int turns>
  SPIDER_DEVICE static void retire_row(Sums (&sums)[rows_in_flight], int complete) {
    sums[complete] = Sums{};
    if constexpr (turns != rows_in_flight) {
      Sums carried = sums[0];
      SPIDER_UNROLL
      for (int i = rows_in_flight - 1; i >= 0; --i) {
        const Sums before = sums[i];
        sums[i] = carried;
        carried = before;
      }
    }
  }

  /// What a strip's walk must take care of.
  enum class Path {
    interior,   ///< nothing: every vector of every input row is in memory and aligned, and every output is
                ///< stored
    boundary,   ///< a few vectors of each row cross the field's edges; some outputs may be outside
    unaligned,  ///< rows that are not aligned: input rows are shifted into place, and results stored one by
                ///< one
  };

  /// Stores a lane's outputs of a tile: all if `wanted`, or those of `bits`.
  template <Path path>
  SPIDER_DEVICE static void store_tile(bool wanted, unsigned bits, Element* to, const Outputs& outputs) {
    if constexpr (path == Path::interior) {
      if (wanted) store_outputs<Storage>(to, outputs);
    } else if constexpr (path == Path::boundary) {
      store_clipped<Storage>(to, outputs, bits);
    } else {
      store_single_outputs<Storage>(to, outputs, bits);
    }
  }

  /// The outputs of a lane's sums that `step` completes: in the row row_high above the newest.
  template <class Update, class Place>
  SPIDER_DEVICE static Outputs finish_tile(const Strip& strip, const Update& update, const Place& place_of,
                                           int step, int tile, const TileSums<Stencil>& sums) {
    // The first lead_rows rows to complete belong to the walk above.
    const Shared own_inputs = ring_row(strip, step >= lead_rows ? step - row_high : step) +
                              (tile * tile_outputs - first_column) * element_bytes;
    if constexpr (HasUpdate<Stencil>::value) {
      return update.apply(*strip.sweep, place_of(step, tile), scale_sums<Stencil>(sums, own_inputs));
    } else {
      return finish_outputs<Stencil>(sums, own_inputs);
    }
  }

  /// Requests the row of a step, if there is one: from `next_row`, which advances, or from the place in the
  /// table.
  template <Path path>
  SPIDER_DEVICE static void start_row(const Strip& strip, bool plain_rows, int step, int entry,
                                      const Element*& next_row) {
    constexpr bool inside = path == Path::interior;
    if constexpr (path == Path::unaligned) {
      if (step < strip.steps) start_unaligned_row(strip, step);
    } else if (step < strip.steps) {
      if (plain_rows) {
        start_plain_row<inside>(strip, step, next_row);
        next_row += strip.input_stride;
      } else {
        start_mapped_row<inside>(strip, step, entry);
      }
    }
    device::copy_async_commit();
  }

  /// Walks down a strip; only strips that need care pay for it.
  template <Path path>
  SPIDER_DEVICE static void walk_down(const Strip& strip) {
    constexpr bool inside = path == Path::interior;
    // If many rows were unrolled, the code for edges would be too much for the compiler to keep sums in
    // registers.
    constexpr int most_turns_with_care = 4;
    constexpr bool rotates = inside || (path == Path::boundary && rows_in_flight <= most_turns_with_care);
    constexpr int turns = rotates && Stencil::rotates_by_unrolling ? rows_in_flight : 1;
    const Operands<Stencil, inside && Stencil::operands_in_registers> loaded(operands_begin);
    const bool plain_rows = path == Path::unaligned || has_plain_rows(strip);
    const Element* next_row = strip.input + strip.first_row * strip.input_stride + strip.left;
    const auto start_next_row = [&](int step, int entry) {
      start_row<path>(strip, plain_rows, step, entry, next_row);
    };
    if constexpr (!inside) clear_ring(strip);
    if (!plain_rows) map_rows(strip, 0);
    SPIDER_NO_UNROLL
    for (int step = 0; step < rows_ahead; ++step) start_next_row(step, step);
    EdgeQueue edges;
    if constexpr (path == Path::boundary) {
      edges.fetch(strip, 1);
      fetch_row(strip, 0);
    }

    const Shared fragment_offset = fragment_begin(strip.lane);
    const std::int32_t x = strip.left - first_column + Storage::first_output(strip.lane);
    Element* next_output = strip.output + (strip.first_row - row_low - lead_rows) * strip.output_stride + x;

    const unsigned wanted_bits = outputs_within<Storage, tiles>(columns_of(strip.wanted), x);
    // Where the outputs that a step completes lie, for the update.
    [[maybe_unused]] const auto place_of = [&](int step, int tile) {
      const PointPlace first{0, strip.first_row + step - row_low - lead_rows, x + tile * tile_outputs};
      return OutputPlace{first, inside ? 15 : wanted_bits >> (4 * tile) & 15, path != Path::unaligned};
    };
    Sums sums[tiles][rows_in_flight] = {};
    SPIDER_NO_UNROLL
    for (int first_step = 0; first_step < strip.steps; first_step += turns) {
      constexpr int table_steps = mapped_rows / turns * turns;
      static_assert(table_steps > 0, "the row table serves a round of turns");
      const int first_entry = first_step % table_steps;
      if (!plain_rows && first_entry == 0) map_rows(strip, first_step + rows_ahead);
      if constexpr (path == Path::boundary) {
        static_assert(batch_rows % turns == 0, "batches begin between two rounds of turns");
        if (first_step % batch_rows == 0) edges.advance(strip, first_step + 1);
      }
      // Separate from its loop, so that the compiler unrolls the loop before it analyses the body: with one
      // tile it would give up, and put sums in memory.
      const auto take_row = [&](int turn, int step) {
        [[maybe_unused]] OutputUpdate<Stencil, Storage> updates[tiles] = {};
        if constexpr (HasUpdate<Stencil>::value) {
          SPIDER_UNROLL
          for (int tile = 0; tile < tiles; ++tile) {
            if (step >= lead_rows) updates[tile].load(*strip.sweep, place_of(step, tile));
          }
        }
        device::copy_async_wait<rows_ahead - 1>();
        device::sync_warp();
        if constexpr (path == Path::unaligned) {
          realign_row(strip, step);
          fetch_row(strip, step);
          device::sync_warp();
        }
        Fragments fragments;
        const FragmentPlaces places = find_fragments(strip, step, fragment_offset);
        load_fragments(places, fragments);
        start_next_row(step + rows_ahead, first_entry + turn);

        if constexpr (path == Path::boundary) place_edges(strip, step + 1, step % batch_rows);

        bool rest = false;
        do {
          multiply_row(loaded, fragments, sums, turn);
          rest = load_rest(places, fragments);
        } while (rest);

        // The first lead_rows rows to complete belong to the walk above.
        const bool wanted = step >= lead_rows;
        const int complete = (turn + 1) % rows_in_flight;
        SPIDER_UNROLL
        for (int tile = 0; tile < tiles; ++tile) {
          const Outputs outputs =
              finish_tile(strip, updates[tile], place_of, step, tile, sums[tile][complete]);
          Element* to = next_output + tile * tile_outputs;
          const unsigned bits = wanted ? wanted_bits >> (4 * tile) & 15 : 0;
          store_tile<path>(wanted, bits, to, outputs);
        }
        next_output += strip.output_stride;
        SPIDER_UNROLL
        for (int tile = 0; tile < tiles; ++tile) retire_row<turns>(sums[tile], complete);
      };
      SPIDER_UNROLL
      for (int turn = 0; turn < turns; ++turn) {
        const int step = first_step + turn;
        if (step >= strip.steps) break;
        take_row(turn, step);
      }
    }
  }
};

/// Boxes are cut into strips that warps walk down.
template <class Stencil>
constexpr SweepForm stream2d_form() {
  using Kernel = Stream2d<Stencil>;
  SweepForm form =
      strips_form<Stencil>(sweep_stream2d<Stencil>, Stencil::warps_per_block, 1,
                           Kernel::operands_begin + Stencil::operand_count * operand_bytes,
                           Kernel::strip_outputs, Stencil::ring_vectors * Kernel::vector_elements);
  form.tiling.preferred_steps = Stencil::preferred_rows;
  form.takes_images = true;
  return form;
}

}  // namespace device_4
}  // namespace spider
