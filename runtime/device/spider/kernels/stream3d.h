/// 3D stencils of f16 fields on tensor cores. A block of warps, one below the other, owns 128 columns of some
/// rows and walks along z with a ring of input planes in shared memory; the sums of all output planes that an
/// input plane adds to are in registers. A product makes 128 outputs, 8 columns of 16: 16 along x, or 8 along
/// x in both of two rows.
///
/// A `Stencil` has, as static members, the members that spider/loads/plane_ring.h requires of the stencil and
/// of its ring, and
/// - plane_low, plane_high, row_low, row_high: of the taps' offsets;
/// - pairs_rows: products of two rows;
/// - rows_per_warp, warps_per_block, blocks_per_multiprocessor; preferred_planes: output planes of a walk;
/// - planes_in_flight: output planes with partial sums; largest_distance: planes back that a product reads;
/// - unrolled_planes: a multiple of planes_in_flight, so that each accumulator keeps its registers, or 1,
///   where they move;
/// - source_count, source(i), product_count, product(i): PlaneSource and PlaneProduct;
/// - operands_in_registers: or in shared memory, after the ring; the tables of spider/sums/operands.h;
/// - result_scale: undoes the weights' scaling;
/// - if constants outside faces add to sums, Constants: low_planes, high_planes, low_rows, high_rows,
///   low_columns, high_columns, how many are near a face; number(i) of a table of planes of rows; along each
///   axis the entry far from both faces comes after the low ones.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/rims_first.h>
#include <spider/kernel.h>
#include <spider/loads/plane_ring.h>
#include <spider/loads/shifted_rows.h>
#include <spider/machine/instructions.h>
#include <spider/sums/added_by_constants.h>
#include <spider/sums/epilogue.h>
#include <spider/sums/operands.h>
#include <spider/values/storage.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct Stream3d;

// Only blocks that need care pay for it.
template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_per_block * 32, Stencil::blocks_per_multiprocessor)
sweep_stream3d(SPIDER_GRID_CONSTANT const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  const TellRimsAtExit tells(field);
  using Kernel = Stream3d<Stencil>;
  if constexpr (!Stencil::operands_in_registers) place_operands<Stencil>(Kernel::Planes::bytes);
  typename Kernel::Operands operands(Kernel::Planes::bytes);
  operands.settle();
  const typename Kernel::Block block = Kernel::Planes::make_block(field);
  const Path path = Kernel::path_of(field, block);
  const Span regular = Kernel::Planes::regular_steps(block);
  if (path == Path::interior && regular.begin == 0 && regular.end == block.steps) {
    Kernel::template walk_planes<Path::interior>(field, block, regular, operands);
  } else if (path != Path::unaligned) {
    Kernel::template walk_planes<Path::boundary>(field, block, regular, operands);
  } else {
    Kernel::template walk_planes<Path::unaligned>(field, block, regular, operands);
  }
}

/// The contents of a fragment: 16 inputs along x next to 16 others in the same row, or, for a pair, in a row
/// `rows` below, in a plane `planes` further. `vector` is the first in the ring's rows. For pairs of rows it
/// is 16 inputs of either row, from the middle of a vector on.
struct PlaneSource {
  int vector;
  bool pair;
  int rows, planes;
};

/// The input row that is `row` above an output row's lowest, times an operand. It adds to the output plane
/// whose sums began `plane` planes ago; to `sum`, if there are several.
struct PlaneProduct {
  int plane, row, source, operand, metadata, selector;
  int sum = 0;
};

template <class Stencil>
struct Stream3d {
  using Accumulator = device::Accumulator;
  using Shared = device::Shared;
  using Vector = device::Vector;
  using Source = PlaneSource;
  using Product = PlaneProduct;
  static constexpr bool pairs_rows = Stencil::pairs_rows;
  static constexpr int tile_outputs = 128;
  static constexpr int product_rows = pairs_rows ? 2 : 1;
  static constexpr int products_abreast = pairs_rows ? 2 : 1;
  static constexpr int product_columns = tile_outputs / products_abreast;
  static constexpr int neighbours = pairs_rows ? 2 : 4;  // outputs of a lane in a row of a product
  static constexpr int rows_per_warp = Stencil::rows_per_warp;
  static constexpr int warps_per_block = Stencil::warps_per_block;
  static constexpr int block_rows = warps_per_block * rows_per_warp;
  static constexpr int row_low = Stencil::row_low;
  static constexpr int input_rows = rows_per_warp + Stencil::row_high - row_low;  // that a warp reads
  static constexpr int vector_bytes = 16;
  static constexpr int source_count = Stencil::source_count;
  static constexpr int operand_count = Stencil::operand_count;
  static constexpr int product_count = Stencil::product_count;
  static constexpr bool operands_in_registers = Stencil::operands_in_registers;
  static constexpr int lead_planes = Stencil::plane_high - Stencil::plane_low;

  // A product is computed when its last input plane has arrived; earlier planes wait in the ring, as far back
  // as largest_distance. Later planes are in flight.
  static constexpr int ring_planes = Stencil::ring_planes;
  static constexpr int planes_in_flight = Stencil::planes_in_flight;
  static constexpr int planes_ahead = ring_planes - Stencil::largest_distance - 1;

  /// The ring of input planes. A vector lies in the same half of 32 bytes as in memory, or copies are slow;
  /// rows and planes are padded where fragments of two of them would conflict in a bank.
  struct Ring : Stencil {
    using Element = std::uint16_t;
    static constexpr int block_threads = warps_per_block * 32;
    static constexpr bool walks_on = false;  // some would spill
    static constexpr int planes_at_once = 1, planes_ahead = Stream3d::planes_ahead;
    static constexpr int tile_rows = block_rows;
    static constexpr int row_anchor = product_rows;
    static constexpr int ring_rows = block_rows + Stencil::row_high - row_low;
    static constexpr int tile_vectors = tile_outputs * 2 / vector_bytes;
    static constexpr int lowest_dz = Stencil::plane_low;
    static constexpr int lowest_dy = row_low;
    static constexpr int lead_planes = Stream3d::lead_planes;
    static constexpr int edge_warps = 1;
    static constexpr bool finds_all_edges = false, edges_in_memory = false;
  };
  using Planes = PlaneRing<Ring>;
  using Block = typename Planes::Block;
  using Operands = spider::Operands<Stencil, operands_in_registers>;
  static constexpr int constants =
      Planes::bytes + (operands_in_registers ? 0 : operand_count * operand_bytes);

  static constexpr bool adds_constants = HasConstants<Stencil>::value;
  using Table = ConstantsTable<Stencil>;
  /// A row of the table in the order of lanes: pairs of columns, two per lane.
  static constexpr int pair_bytes = 8, added_row_bytes = 2 * 32 * pair_bytes;
  static constexpr int shared_bytes = constants + Table::planes * Table::rows * added_row_bytes;

  /// Where the plane of a step lies in the ring. Steps ring_planes apart have the same place.
  SPIDER_DEVICE static Shared ring_plane(int step) {
    return static_cast<unsigned>(step + ring_planes) % ring_planes * Stencil::ring_plane_bytes;
  }

  /// The sums of a product of a warp: rows product_rows (i / products_abreast) .. of the warp, columns
  /// product_columns (i % products_abreast) .. of the tile.
  struct Place {
    int row, column;

    SPIDER_DEVICE explicit Place(int i)
        : row(i / products_abreast * product_rows), column(i % products_abreast * product_columns) {}
  };

  /// True if any product from place `place` of a warp's ring rows on uses a fragment of a source.
  SPIDER_DEVICE static bool is_multiplied(int source, int place) {
    bool found = false;
    for (int i = 0; i < product_count; ++i) {
      const int output = place - Stencil::product(i).row;
      found |= Stencil::product(i).source == source && output >= 0 && output < rows_per_warp;
    }
    return found;
  }

  /// Where a lane finds its fragments: in the plane of a step, for the warp's first product.
  struct FragmentPlaces {
    Shared place[source_count];
    Shared rest[pairs_rows ? source_count : 1];  ///< of the second half of a pair of rows' vector
  };

  /// A lane of a window's fragment has the vector 2 (lane / 4) + (lane % 4) / 2 + 2 (lane % 2): the pair
  /// swap. In a pair's, lanes 4 n and 4 n + 1 have neighbouring vectors of the first row, the others of the
  /// second. In one for a pair of rows they have eight inputs from the middle of a vector on; the order in
  /// the second row avoids bank conflicts between lanes of both rows.
  SPIDER_DEVICE static FragmentPlaces find_fragments(int lane, int step) {
    const int column = lane / 4;
    const bool second = lane % 4 / 2 != 0;
    const int warp_row = device::warp_index() * rows_per_warp;
    FragmentPlaces places = {};
    SPIDER_UNROLL
    for (int i = 0; i < source_count; ++i) {
      const Source source = Stencil::source(i);
      if constexpr (pairs_rows) {
        constexpr Shared half = vector_bytes / 2;
        const Shared first = ring_plane(step) + Planes::vector_place(warp_row + (second ? 1 : 0),
                                                                     source.vector + column + lane % 2);
        places.place[i] = first + (second ? 2 * half : half);
        places.rest[i] = first + (second ? half : 2 * half);
      } else {
        const int window_vector = pair_swap_group(lane);
        const int pair_vector = 2 * column + lane % 2;
        const Shared plane = ring_plane(source.planes == 0 || second ? step : step - source.planes);
        places.place[i] =
            plane + Planes::vector_place(warp_row + (second ? source.rows : 0),
                                         source.vector + (source.pair ? pair_vector : window_vector));
      }
    }
    return places;
  }

  /// The fragment of a source for the product from place `place` of the warp's ring rows on.
  SPIDER_DEVICE static Vector load_fragment(const FragmentPlaces& places, int source, int place) {
    const Shared offset = Place(place).row * Stencil::ring_row_bytes + Place(place).column * 2;
    if constexpr (pairs_rows) {
      const device::Pair low = device::load_shared_pair(places.place[source] + offset);
      const device::Pair high = device::load_shared_pair(places.rest[source] + offset);
      return Vector{{low.word[0], low.word[1], high.word[0], high.word[1]}};
    } else {
      return device::load_shared(places.place[source] + offset);
    }
  }

  SPIDER_DEVICE static void multiply(const Operands& loaded, const Product& product, const Vector& matrix,
                                     const Vector& fragment, Accumulator& sum) {
    if (product.selector == 0) {
      device::multiply_sparse<0>(sum, matrix, fragment, loaded.metadata(product.metadata));
    } else {
      device::multiply_sparse<1>(sum, matrix, fragment, loaded.metadata(product.metadata));
    }
  }

  /// Where the sums of a product's output plane are.
  SPIDER_DEVICE static constexpr int sums_slot(const Product& product, int turn) {
    return (turn + planes_in_flight - product.plane) % planes_in_flight;
  }

  static constexpr int sum_count = SumsOf<Stencil>::count;
  using Sums = TileSums<Stencil>[planes_in_flight][rows_per_warp];

  /// The sums of a warp, in the output plane that begins with an input plane, that have begun. The others
  /// still contain an older plane: the first product sets them without an extra instruction, since it adds to
  /// other registers.
  struct Begun {
    bool sums[rows_per_warp][sum_count] = {};

    SPIDER_DEVICE explicit Begun(bool all) {
      for (auto& row : sums) {
        for (bool& sum : row) sum = all;
      }
    }

    SPIDER_DEVICE void begin(const Product& product, int output_row, Accumulator& sum) {
      if (product.plane != 0 || sums[output_row][product.sum]) return;
      sum = Accumulator{};
      sums[output_row][product.sum] = true;
    }
  };

  /// True if no tap of a sum reaches as far as those of others, so that none of its products begins an output
  /// plane.
  SPIDER_DEVICE static constexpr bool begins_late(int sum) {
    for (int i = 0; i < product_count; ++i) {
      if (Stencil::product(i).sum == sum && Stencil::product(i).plane == 0) return false;
    }
    return true;
  }

  /// Clears such sums of the output plane that begins.
  SPIDER_DEVICE static void clear_late_sums(Sums& sums, int turn) {
    SPIDER_UNROLL
    for (int sum = 0; sum < sum_count; ++sum) {
      if (!begins_late(sum)) continue;
      SPIDER_UNROLL
      for (int row = 0; row < rows_per_warp; ++row)
        sums[turn % planes_in_flight][row].of[sum] = Accumulator{};
    }
  }

  /// Adds an input plane to the output planes in flight, fragment by fragment, which completes the oldest, in
  /// slot (turn + 1) % planes_in_flight. `all_begun`: its sums have begun with what constants add.
  template <bool all_begun>
  SPIDER_DEVICE static void multiply_by_rows(const Operands& loaded, const FragmentPlaces& places, Sums& sums,
                                             int turn) {
    Begun begun(all_begun);
    SPIDER_UNROLL
    for (int row = 0; row < input_rows; ++row) {
      SPIDER_UNROLL
      for (int source = 0; source < source_count; ++source) {
        if (!is_multiplied(source, row)) continue;
        const Vector fragment = load_fragment(places, source, row);
        SPIDER_UNROLL
        for (int i = 0; i < product_count; ++i) {
          const int output_row = row - Stencil::product(i).row;
          if (Stencil::product(i).source != source || output_row < 0 || output_row >= rows_per_warp) continue;
          Accumulator& sum =
              sums[sums_slot(Stencil::product(i), turn)][output_row].of[Stencil::product(i).sum];
          begun.begin(Stencil::product(i), output_row, sum);
          multiply(loaded, Stencil::product(i), loaded.matrix(Stencil::product(i).operand), fragment, sum);
        }
      }
    }
  }

  /// The same, operand by operand, so that each is loaded once.
  template <bool all_begun>
  SPIDER_DEVICE static void multiply_by_operands(const Operands& loaded, const FragmentPlaces& places,
                                                 Sums& sums, int turn) {
    constexpr int rows = input_rows;
    Begun begun(all_begun);
    SPIDER_UNROLL
    for (int source = 0; source < source_count; ++source) {
      Vector fragments[rows] = {};
      SPIDER_UNROLL
      for (int row = 0; row < rows; ++row) {
        if (is_multiplied(source, row)) fragments[row] = load_fragment(places, source, row);
      }
      SPIDER_UNROLL
      for (int i = 0; i < product_count; ++i) {
        if (Stencil::product(i).source != source) continue;
        const Vector matrix = loaded.matrix(Stencil::product(i).operand);
        SPIDER_UNROLL
        for (int output_row = 0; output_row < rows_per_warp; ++output_row) {
          Accumulator& sum =
              sums[sums_slot(Stencil::product(i), turn)][output_row].of[Stencil::product(i).sum];
          begun.begin(Stencil::product(i), output_row, sum);
          multiply(loaded, Stencil::product(i), matrix, fragments[output_row + Stencil::product(i).row], sum);
        }
      }
    }
  }

  /// Moves the accumulators by one slot if they do not rotate by unrolling.
  template <int turns>
  SPIDER_DEVICE static void rotate_sums(Sums& sums) {
    if constexpr (turns % planes_in_flight != 0) {
      SPIDER_UNROLL
      for (int row = 0; row < rows_per_warp; ++row) {
        const TileSums<Stencil> first = sums[0][row];
        SPIDER_UNROLL
        for (int i = 0; i + 1 < planes_in_flight; ++i) sums[i][row] = sums[i + 1][row];
        sums[planes_in_flight - 1][row] = first;
      }
    }
  }

  /// Four outputs of a lane as f16 bits: neighbours, columns 16 (lane / 4) + 4 (lane % 4) .. + 3 of the tile;
  /// for a pair of rows two of either row, columns 8 (lane / 4) + 2 (lane % 4) and the next of the product's.
  struct Outputs {
    std::uint32_t low, high;
  };

  /// Rounds the sums of a product and transposes them, so that stores are wide.
  SPIDER_DEVICE static Outputs round_tile(const Accumulator& sum) {
    constexpr float scale = Stencil::result_scale;
    return {device::transpose_8x8(device::pack_f16(sum.value[0] * scale, sum.value[1] * scale)),
            device::transpose_8x8(device::pack_f16(sum.value[2] * scale, sum.value[3] * scale))};
  }

  /// The neighbouring outputs that a lane stores.
  struct Clip {
    Span rows;                       ///< of the warp, to store
    Span columns[products_abreast];  ///< the neighbours that are stored
    bool whole[products_abreast];    ///< all of them, by one store
    bool all_columns;                ///< are all of the block?
    bool pieces;                     ///< does any lane of the block store single outputs?

    /// Bit i: output i of a product is stored.
    SPIDER_DEVICE unsigned wanted(int product) const {
      unsigned bits = 0;
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = Place(product).row + i / neighbours;
        if (rows.holds(row) && columns[product % products_abreast].holds(i % neighbours)) bits |= 1U << i;
      }
      return bits;
    }
  };

  SPIDER_DEVICE static Clip clip_outputs(const SweepArguments& field, const Block& block, std::int32_t y,
                                         std::int32_t x) {
    const std::int32_t first_x = block.left + Planes::left_columns;
    const auto cuts = [&](std::int32_t at) {
      return at > first_x && at < first_x + tile_outputs && (at - first_x) % neighbours != 0;
    };
    Clip clip;
    clip.rows = {block.box[1].begin - y, block.box[1].end - y};
    SPIDER_UNROLL
    for (int i = 0; i < products_abreast; ++i) {
      const Span columns = {block.box[2].begin - x - Place(i).column, block.box[2].end - x - Place(i).column};
      clip.columns[i] = columns;
      clip.whole[i] = field.aligned_output && columns.begin <= 0 && columns.end >= neighbours;
    }
    clip.all_columns = block.box[2].holds(Span{first_x, first_x + tile_outputs});
    clip.pieces = !field.aligned_output || cuts(block.box[2].begin) || cuts(block.box[2].end);
    return clip;
  }

  /// The outputs of a lane in all rows of its warp.
  struct Results {
    Outputs products[rows_per_warp];
  };

  /// Column of a lane's first output.
  SPIDER_DEVICE static std::int32_t output_column(const Block& block) {
    const int lane = device::lane_index();
    return block.left + Planes::left_columns + neighbours * lane;
  }

  /// Row of a warp's first output.
  SPIDER_DEVICE static std::int32_t output_row(const Block& block) {
    return block.top - row_low + device::warp_index() * rows_per_warp;
  }

  // Contributions of constants outside faces, in blocks near them.

  SPIDER_DEVICE static Path path_of(const SweepArguments& field, const Block& block) {
    const Path path = Planes::path_of(field, block);
    if constexpr (adds_constants) {
      if (path == Path::interior && is_near_face(block)) return Path::boundary;
    }
    return path;
  }

  SPIDER_DEVICE static bool is_near_planes(const Block& block, std::int32_t first, int count) {
    using Constants = typename Stencil::Constants;
    return spider::is_near_face(first, count, block.extent[0], Constants::low_planes, Constants::high_planes);
  }
  SPIDER_DEVICE static bool is_near_rows(const Block& block, std::int32_t first, int count) {
    using Constants = typename Stencil::Constants;
    return spider::is_near_face(first, count, block.extent[1], Constants::low_rows, Constants::high_rows);
  }
  SPIDER_DEVICE static bool is_near_face(const Block& block) {
    using Constants = typename Stencil::Constants;
    return is_near_planes(block, block.first_output, block.steps - lead_planes) ||
           is_near_rows(block, block.top - row_low, block_rows) ||
           spider::is_near_face(block.left + Planes::left_columns, tile_outputs, block.extent[2],
                                Constants::low_columns, Constants::high_columns);
  }

  /// The column of the table of each of a lane's sums of a row.
  SPIDER_DEVICE static void find_added_columns(const Block& block, int (&column)[4]) {
    const int lane = device::lane_index();
    SPIDER_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int in_product = 2 * (lane % 4) + i % 2;
      const int x = pairs_rows ? i / 2 * product_columns + 8 * in_product + lane / 4
                               : 16 * in_product + i / 2 * 8 + lane / 4;
      column[i] = Table::column(block.extent[2], block.left + Planes::left_columns + x);
    }
  }

  /// The place of number i of a row's four: the product side by side, and the index there.
  SPIDER_DEVICE static constexpr int added_product(int i) { return pairs_rows ? i / 2 : 0; }
  SPIDER_DEVICE static constexpr int added_value(int row, int i) {
    return pairs_rows ? 2 * (row % 2) + i % 2 : i;
  }

  /// Sums begin with the contributions of constants: a product that adds to numbers takes as long as one that
  /// adds to zeros. Rows of the table are spread after the ring in the order of lanes, so that all tiles load
  /// them alike, before the barrier of the step that begins the sums.
  struct Added {
    Shared row[rows_per_warp];  ///< where the lane's pairs are, in the first plane of the table

    SPIDER_DEVICE void find(const Block& block, std::int32_t y) {
      SPIDER_UNROLL
      for (int i = 0; i < rows_per_warp; ++i) {
        row[i] = static_cast<Shared>(constants + Table::row(block.extent[1], y + i) * added_row_bytes +
                                     pair_bytes * device::lane_index());
      }
    }

    /// Begins the sums of plane z.
    SPIDER_DEVICE void begin(const Block& block, std::int32_t z,
                             TileSums<Stencil> (&sums)[rows_per_warp]) const {
      const auto plane =
          static_cast<Shared>(Table::plane(block.extent[0], z) * Table::rows * added_row_bytes);
      SPIDER_UNROLL
      for (int i = 0; i < rows_per_warp; ++i) {
        SPIDER_UNROLL
        for (int half = 0; half < 2; ++half) {
          const device::Pair pair =
              device::load_shared_pair(row[i] + plane + static_cast<Shared>(half * 32 * pair_bytes));
          Accumulator& sum = sums[i / product_rows * products_abreast + added_product(2 * half)].of[0];
          SPIDER_UNROLL
          for (int j = 0; j < 2; ++j)
            sum.value[added_value(i, 2 * half + j)] = device::float_of(pair.word[j]);
        }
      }
    }
  };

  /// Spreads the rows of the table that the block needs, before any copy is in flight: loads from memory
  /// would wait for it.
  SPIDER_DEVICE static void spread_table(const Block& block) {
    using Constants = typename Stencil::Constants;
    // Sums of planes after the last one begin, too.
    const bool near_planes = is_near_planes(block, block.first_output, block.steps + 1);
    const bool near_rows = is_near_rows(block, block.top - row_low, block_rows);
    const int lane = device::lane_index();
    int column[4];
    find_added_columns(block, column);
    SPIDER_NO_UNROLL
    for (int i = device::warp_index(); i < Table::planes * Table::rows; i += warps_per_block) {
      if (!near_planes && i / Table::rows != Constants::low_planes) continue;
      if (!near_rows && i % Table::rows != Constants::low_rows) continue;
      SPIDER_UNROLL
      for (int half = 0; half < 2; ++half) {
        device::Pair pair;
        for (int j = 0; j < 2; ++j)
          pair.word[j] = device::bits_of(Constants::number(i * Table::columns + column[2 * half + j]));
        device::store_shared(
            static_cast<Shared>(constants + i * added_row_bytes + (half * 32 + lane) * pair_bytes), pair);
      }
    }
    device::sync_block();
  }

  /// Stores the outputs of all products in rows that begin anywhere; `to` is the first of the warp's first
  /// row.
  SPIDER_DEVICE static void store_rows(const Clip& clip, bool wanted, const Results& results,
                                       std::uint16_t* to, std::int64_t row_stride) {
    constexpr int words = neighbours / 2;
    SPIDER_UNROLL
    for (int product = 0; product < rows_per_warp; ++product) {
      const Place place(product);
      const std::uint32_t pairs[2] = {results.products[product].low, results.products[product].high};
      SPIDER_UNROLL
      for (int i = 0; i < 2; i += words) {
        const int row = place.row + i / words;
        std::uint32_t own[words];
        for (int k = 0; k < words; ++k) own[k] = pairs[i + k];
        const bool is_row = wanted && clip.rows.holds(row);
        std::uint16_t* const cells = to + (row * row_stride + place.column);
        if (clip.all_columns) {
          store_lanes(is_row, {-1, neighbours + 1}, cells, own);  // known to the compiler: fewer instructions
        } else {
          store_lanes(is_row, clip.columns[product % products_abreast], cells, own);
        }
      }
    }
  }

  /// Stores neighbours one by one, if not all are stored or they are unaligned; `to` is the first of the
  /// first row.
  SPIDER_DEVICE_NOINLINE void store_pieces(const SweepArguments& field, std::uint16_t* to,
                                           const Results results) {
    const Block block = Planes::make_block(field);
    const Clip clip = clip_outputs(field, block, output_row(block), output_column(block));
    SPIDER_UNROLL
    for (int product = 0; product < rows_per_warp; ++product) {
      const Place place(product);
      const int abreast = product % products_abreast;
      const std::uint32_t pairs[2] = {results.products[product].low, results.products[product].high};
      SPIDER_UNROLL
      for (int i = 0; i < 4; ++i) {
        const int row = place.row + i / neighbours;
        const int column = i % neighbours;
        device::store_field_if(
            clip.rows.holds(row) && !clip.whole[abreast] && clip.columns[abreast].holds(column),
            to + row * field.output_stride[1] + place.column + column,
            static_cast<std::uint16_t>(pairs[i / 2] >> (16 * (i % 2))));
      }
    }
  }

  /// Stores the outputs of a product if all neighbours are stored; `to` is the first of the warp's first row.
  SPIDER_DEVICE static void store_whole(const Clip& clip, bool all, bool wanted, int product,
                                        const Outputs& outputs, std::uint16_t* to, std::int64_t row_stride) {
    const Place place(product);
    const bool whole = wanted && (all || clip.whole[product % products_abreast]);
    to += place.row * row_stride + place.column;
    if constexpr (pairs_rows) {
      device::store_field_word_if(whole && (all || clip.rows.holds(place.row)), to, outputs.low);
      device::store_field_word_if(whole && (all || clip.rows.holds(place.row + 1)), to + row_stride,
                                  outputs.high);
    } else {
      device::store_field_if(whole && (all || place.row < clip.rows.end), to, outputs.low, outputs.high);
    }
  }

  /// Walks along z.
  template <Path path>
  SPIDER_DEVICE static void walk_planes(const ArgumentsOf<Stencil>& field, const Block& block,
                                        const Span& regular, const Operands& loaded) {
    constexpr bool inside = path == Path::interior;
    constexpr int turns = path == Path::unaligned ? 1 : Stencil::unrolled_planes;
    const int lane = device::lane_index();

    // Pairs read planes before the first one; their results are never stored, but that memory has to be
    // initialised: an operand's zero times stale data could be NaN.
    constexpr bool begins = adds_constants && !inside;
    if constexpr (begins) spread_table(block);
    Planes::clear(inside ? ring_planes - Stencil::largest_distance : 0);
    typename Planes::template Supply<path, inside> supply(block, regular);
    SPIDER_NO_UNROLL
    for (int step = 0; step < planes_ahead; ++step) supply.start(field, block, step, ring_plane(step));
    supply.place_edges(block, 0, ring_plane(0));

    const std::int32_t x = output_column(block);
    const std::int32_t y = output_row(block);
    const Clip clip = clip_outputs(field, block, y, x);
    std::uint16_t* next_output = static_cast<std::uint16_t*>(field.output) +
                                 (block.first_output - lead_planes) * field.output_stride[0] +
                                 y * field.output_stride[1] + x;

    // Where the outputs of a product that a step completes lie, for the update.
    [[maybe_unused]] const auto place_of = [&](int step, int product) {
      const Place own(product);
      const PointPlace first{block.first_output - lead_planes + step, y + own.row, x + own.column};
      return OutputPlace{first, inside ? 15 : clip.wanted(product), inside || field.aligned_output};
    };
    // Update inputs of the next ones are in flight.
    [[maybe_unused]] OutputUpdate<Stencil, F16Storage, pairs_rows> updates[rows_per_warp] = {};
    [[maybe_unused]] const auto load_updates = [&](int step) {
      if constexpr (HasUpdate<Stencil>::value) {
        if (step < lead_planes || step >= block.steps) return;
        SPIDER_UNROLL
        for (int i = 0; i < rows_per_warp; ++i) updates[i].load(field, place_of(step, i));
        if constexpr (!inside) device::sync_warp();
      }
    };
    load_updates(0);
    Sums sums = {};
    [[maybe_unused]] Added added{};
    if constexpr (begins) {
      added.find(block, y);
      added.begin(block, block.first_output - lead_planes + planes_in_flight - 1, sums[0]);
    }
    SPIDER_NO_UNROLL
    for (int first_step = 0; first_step < block.steps; first_step += turns) {
      SPIDER_UNROLL
      for (int turn = 0; turn < turns; ++turn) {
        const int step = first_step + turn;
        if (step >= block.steps) break;
        // If turns have the period of the ring, the place of a step in the ring is a constant.
        const int place = turns % ring_planes == 0 ? turn : step;
        device::copy_async_wait<planes_ahead - 1>();
        supply.settle(field, block, step, ring_plane(place));
        device::sync_block();
        supply.start(field, block, step + planes_ahead, ring_plane(place + planes_ahead));
        supply.place_edges(block, step + 1, ring_plane(place + 1));

        const FragmentPlaces places = find_fragments(lane, place);
        if constexpr (sum_count > 1) clear_late_sums(sums, turn);
        if constexpr (operands_in_registers) {
          multiply_by_rows<begins>(loaded, places, sums, turn);
        } else {
          multiply_by_operands<begins>(loaded, places, sums, turn);
        }

        // The first lead_planes planes to complete belong to the walk before.
        const bool wanted = step >= lead_planes;
        const int complete = (turn + 1) % planes_in_flight;
        Results results;
        SPIDER_UNROLL
        for (int i = 0; i < rows_per_warp; ++i) {
          if constexpr (HasUpdate<Stencil>::value) {
            const F16Storage::Outputs outputs =
                updates[i].apply(field, place_of(step, i), scale_sums<Stencil>(sums[complete][i]));
            results.products[i] = {outputs.word[0], outputs.word[1]};
          } else {
            results.products[i] = round_tile(sums[complete][i].of[0]);
          }
        }
        // The plane whose sums begin with the next step takes their place.
        if constexpr (begins)
          added.begin(block, block.first_output - lead_planes + planes_in_flight + step, sums[complete]);
        load_updates(step + 1);
        if constexpr (path == Path::unaligned) {
          store_rows(clip, wanted, results, next_output, field.output_stride[1]);
        } else {
          SPIDER_UNROLL
          for (int i = 0; i < rows_per_warp; ++i)
            store_whole(clip, inside, wanted, i, results.products[i], next_output, field.output_stride[1]);
          if (!inside && wanted && clip.pieces) store_pieces(field, next_output, results);
        }
        next_output += field.output_stride[0];
        rotate_sums<turns>(sums);
      }
    }
  }
};

template <class Stencil>
constexpr SweepForm stream3d_form() {
  using Kernel = Stream3d<Stencil>;
  SweepForm form{sweep_stream3d<Stencil>,
                 {TilingKind::blocks,
                  Kernel::warps_per_block,
                  Kernel::shared_bytes,
                  Kernel::vector_bytes,
                  Kernel::vector_bytes / 2,
                  {1, Kernel::block_rows, Kernel::tile_outputs},
                  0,
                  0,
                  Kernel::tile_outputs,
                  Kernel::lead_planes,
                  Stencil::preferred_planes,
                  Kernel::product_rows}};
  form.tiling.tells_rims = tells_rims;
  return form;
}

}  // namespace device_4
}  // namespace spider
