/// Input planes of a 3D field in a ring in shared memory: a block of threads walks along z, with copies of
/// later planes in flight while it computes. This file handles the boundary, boxes and unaligned rows: in the
/// ring a kernel finds every cell that its taps reach.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/rims_first.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/values/vectors.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// Offsets low .. high along an axis.
struct Offsets {
  std::int32_t low, high;
};

/// Neighbouring tap rows that span the same columns.
struct VolumeBand {
  Offsets dz, dy, dx;
};

/// True if one of the offsets leads from a place of the span to i.
SPIDER_DEVICE bool leads_to(const Offsets& offsets, const Span& from, std::int32_t i) {
  return i - offsets.high < from.end && i - offsets.low >= from.begin;
}

/// The field as one block of threads sees it.
template <class Element>
struct VolumeBlock {
  const Element* input;
  std::int64_t plane_stride, row_stride;
  std::int32_t extent[3];     ///< of the field, z, y, x
  Span box[3];                ///< the outputs of the sweep
  std::int32_t first_plane;   ///< input plane of step 0
  std::int32_t top;           ///< row of the ring's first row
  std::int32_t left;          ///< column of the ring's first vector
  std::int32_t first_output;  ///< the first output plane to complete
  std::int32_t steps;
  std::int32_t vector_begin,
      vector_end;             ///< vectors of a row that are in the box wherever the row is reached
  std::int32_t edge_begin;    ///< the first column of a ring row before them that a result may need
  std::int32_t edge_columns;  ///< columns before and after them that a result may need
};

/// Blocks of a sweep to the left of one, above it along y, and before it along z.
struct VolumePlace {
  std::int32_t across, down, walk;
};

/// The place of block `index` of a sweep with that many planes. Blocks are numbered along x, then y, then z.
/// With `walks_on`, numbers run along y through one wave, then along z, then through the rest of y: planes
/// that the next walk along z reads again are then still in the L2 cache.
template <bool walks_on>
SPIDER_DEVICE VolumePlace find_in_volume(const VolumeGrid& grid, std::int32_t planes, std::int32_t index) {
  const std::int32_t above = index / grid.across;
  if (!walks_on) return {index % grid.across, above % grid.down, above / grid.down};
  const std::int32_t most = grid.first_wave > grid.across ? grid.first_wave / grid.across : 1;
  const std::int32_t groups = (grid.down + most - 1) / most;
  const std::int32_t rows = (grid.down + groups - 1) / groups;  // of a group, along y
  const std::int32_t walks = (planes + grid.planes - 1) / grid.planes;
  const std::int32_t group = above / (rows * walks);
  const std::int32_t behind = above - group * rows * walks;
  const std::int32_t left = grid.down - group * rows;
  const std::int32_t rows_here = left < rows ? left : rows;
  return {index % grid.across, group * rows + behind % rows_here, behind / rows_here};
}

/// A block's part of a launch whose rims may come first: output planes `first` to before `end`.
struct VolumeWalk {
  std::int32_t across, down, first, end;
};
template <bool walks_on>
SPIDER_DEVICE VolumeWalk find_volume_walk(const SweepArguments& field, std::int32_t index) {
  const VolumeGrid& grid = field.grid.volume;
  const BlocksOfPlanes part = find_planes(field, index);
  if (part.is_rim) {
    return {part.block % grid.across, part.block / grid.across, part.begin, part.end};
  }
  std::int32_t long_walks = (part.end - part.begin + grid.planes - 1) / grid.planes;
  std::int32_t walks = long_walks;
  const RimGrid rims = rims_of(field);
  if (has_rims_first(rims) && rims.long_walks < walks) {
    long_walks = rims.long_walks;
    const std::int32_t rest = part.end - part.begin - long_walks * grid.planes;
    walks = long_walks + (rest + grid.rest_planes - 1) / grid.rest_planes;
  }
  const VolumePlace place = find_in_volume<walks_on>(grid, walks * grid.planes, part.block);
  const bool is_long = place.walk < long_walks;
  const std::int32_t first =
      part.begin + (is_long ? place.walk * grid.planes
                            : long_walks * grid.planes + (place.walk - long_walks) * grid.rest_planes);
  const std::int32_t planes = is_long ? grid.planes : grid.rest_planes;
  return {place.across, place.down, first, part.end - first < planes ? part.end : first + planes};
}

/// The ring of a kernel. `Shape` has, as static members:
/// - Element: the bits of a cell;
/// - block_threads: threads of a block; walks_on: of find_in_volume;
/// - ring_planes, ring_rows: input planes in the ring, rows of each;
/// - tile_rows: output rows of a block; row_anchor: its first row is a multiple of this;
/// - planes_at_once: planes that are copied together; planes_ahead: planes in flight, a multiple of it;
/// - tile_vectors: vectors of 16 bytes of the block's own columns in a row;
/// - left_vectors, right_vectors: vectors that taps reach before and after them;
/// - ring_row_bytes, ring_plane_bytes: from row to row, from plane to plane; a multiple of 32, since copies
///   are slow if shared and global addresses differ modulo that;
/// - ring_lead_bytes: before the block's own columns in the first row; the same;
/// - edge_warps: warps that find the elements of a group of planes at edges, a divisor of the block's;
/// - finds_all_edges: do they find all of them once for all planes, or, to save registers, only those at one
///   edge between vectors? The others are then fetched plane by plane;
/// - lowest_dz, lowest_dy: of the taps' offsets along z, y;
/// - lead_planes: from the lowest offset along z to the highest;
/// - highest_low, lowest_high: columns that every tap row may read, from that far after a box's first column
///   to that far before its end;
/// - column_reach_low, column_reach_high: lowest offset along x, at most 0; highest, at least 0;
/// - edges_in_memory: the sources of cells at edges wait in shared memory, to save registers;
/// - full_low, full_high: a tap with an offset between them along z leads to all cells that any tap leads to
///   in a plane;
/// - band_count, band(i): the taps;
/// - plane_rules(), row_rules(), column_rules(): the boundary.
template <class Shape>
struct PlaneRing {
  using Element = typename Shape::Element;
  using Block = VolumeBlock<Element>;
  using Shared = device::Shared;
  using Vector = device::Vector;

  static constexpr int vector_bytes = 16;
  static constexpr int element_bytes = static_cast<int>(sizeof(Element));
  static constexpr int vector_elements = vector_bytes / element_bytes;
  static constexpr int ring_vectors = Shape::left_vectors + Shape::tile_vectors + Shape::right_vectors;
  static constexpr int left_columns = Shape::left_vectors * vector_elements;
  static constexpr int ring_bytes = Shape::ring_lead_bytes + Shape::ring_planes * Shape::ring_plane_bytes;

  // Vectors of each plane that a thread copies: the block's own columns come first, as whole lines of memory,
  // then the neighbouring ones.
  static constexpr int own_vectors = Shape::ring_rows * Shape::tile_vectors;
  static constexpr int side_vectors = ring_vectors - Shape::tile_vectors;
  static constexpr int plane_vectors = Shape::ring_rows * ring_vectors;
  static constexpr int copies = (plane_vectors + Shape::block_threads - 1) / Shape::block_threads;
  static_assert(Shape::block_threads % Shape::tile_vectors == 0, "threads copy whole rows at once");

  // A thread also fetches some elements where vectors cross an edge. Elements of four or eight bytes are
  // copied asynchronously. There are no such copies of two bytes: they are loaded, and stored on arrival.
  // Warps may take turns, edge_warps for every group of planes, so that loads have a round of turns to
  // arrive.
  static constexpr bool copies_edges = element_bytes >= 4;
  static constexpr int edge_threads = Shape::edge_warps * 32;
  static constexpr int turns = Shape::block_threads / edge_threads;
  static_assert(turns * edge_threads == Shape::block_threads && (turns == 1 || !copies_edges),
                "all warps have turns, but none at copies");
  static_assert(!copies_edges || Shape::finds_all_edges, "the table has all that is copied");

  // Columns of a row that are reached but in no fast vector: at both edges of the field or of a box, which
  // may cut vectors, or at one edge between vectors.
  static constexpr int low_edge_columns =
      (Shape::highest_low > 0 ? Shape::highest_low : 0) - Shape::column_reach_low;
  static constexpr int high_edge_columns =
      Shape::column_reach_high - (Shape::lowest_high < 0 ? Shape::lowest_high : 0);
  static constexpr int wider_edge_columns =
      low_edge_columns > high_edge_columns ? low_edge_columns : high_edge_columns;
  static constexpr int edge_columns = Shape::finds_all_edges
                                          ? low_edge_columns + high_edge_columns + 2 * (vector_elements - 1)
                                          : wider_edge_columns;
  static constexpr int edge_elements =
      edge_columns > 0 ? (edge_columns* Shape::ring_rows + edge_threads - 1) / edge_threads : 1;

  // A thread's data for both.
  static constexpr int table_words =
      copies + edge_elements + (Shape::edges_in_memory ? (edge_elements + 1) / 2 : edge_elements);
  static constexpr int table_vectors = (table_words + 3) / 4;
  static constexpr int bytes =
      ring_bytes + (Shape::edges_in_memory ? table_vectors * Shape::block_threads * vector_bytes : 0);
  static_assert(!Shape::edges_in_memory || Shape::ring_plane_bytes / element_bytes < 0xffff,
                "places of elements are 16 bits of a word");

  static constexpr bool has_row_signs = negates(Shape::row_rules());
  static constexpr bool has_signs = has_row_signs || negates(Shape::column_rules());
  static_assert(!has_signs || edge_elements <= 32, "negated elements are bits of a word");

  SPIDER_DEVICE static int thread_index() { return device::warp_index() * 32 + device::lane_index(); }
  SPIDER_DEVICE static int edge_thread_index() {
    return turns == 1 ? thread_index() : device::warp_index() % Shape::edge_warps * 32 + device::lane_index();
  }
  SPIDER_DEVICE static int first_turn() { return turns == 1 ? 0 : device::warp_index() / Shape::edge_warps; }

  using PlaneIndex = IndexBy<Shape::plane_rules>;
  SPIDER_DEVICE static PlaneIndex map_plane(const Block& block, std::int32_t z) {
    return map_by<Shape::plane_rules>(z, block.extent[0]);
  }
  SPIDER_DEVICE static auto map_row(const Block& block, std::int32_t y) {
    return map_by<Shape::row_rules>(y, block.extent[1]);
  }
  SPIDER_DEVICE static auto map_column(const Block& block, std::int32_t x) {
    return map_by<Shape::column_rules>(x, block.extent[2]);
  }

  /// True if any tap reaches a cell of row y in plane z.
  SPIDER_DEVICE static bool row_is_reached(const Block& block, std::int32_t z, std::int32_t y) {
    bool reached = false;
    SPIDER_UNROLL
    for (int i = 0; i < Shape::band_count; ++i) {
      const VolumeBand band = Shape::band(i);
      reached |= leads_to(band.dz, block.box[0], z) && leads_to(band.dy, block.box[1], y);
    }
    return reached;
  }

  /// True if any tap reaches cell (z, y, x).
  SPIDER_DEVICE static bool cell_is_reached(const Block& block, std::int32_t z, std::int32_t y,
                                            std::int32_t x) {
    bool reached = false;
    SPIDER_UNROLL
    for (int i = 0; i < Shape::band_count; ++i) {
      const VolumeBand band = Shape::band(i);
      reached |= leads_to(band.dz, block.box[0], z) && leads_to(band.dy, block.box[1], y) &&
                 leads_to(band.dx, block.box[2], x);
    }
    return reached;
  }

  /// Regular plane: inside the field, with the full reach of taps.
  SPIDER_DEVICE static bool is_regular(const Block& block, std::int32_t z) {
    return z >= 0 && z < block.extent[0] &&
           leads_to(Offsets{Shape::full_low, Shape::full_high}, block.box[0], z);
  }

  /// The steps of a walk with such planes: all but some at its ends.
  SPIDER_DEVICE static Span regular_steps(const Block& block) {
    Span steps = {0, block.steps};
    SPIDER_NO_UNROLL
    while (steps.begin < steps.end && !is_regular(block, block.first_plane + steps.begin)) ++steps.begin;
    SPIDER_NO_UNROLL
    while (steps.begin < steps.end && !is_regular(block, block.first_plane + steps.end - 1)) --steps.end;
    return steps;
  }

  /// The same as row_is_reached and cell_is_reached in regular planes.
  SPIDER_DEVICE static bool row_is_regular(const Block& block, std::int32_t y) {
    bool reached = false;
    SPIDER_UNROLL
    for (int i = 0; i < Shape::band_count; ++i) reached |= leads_to(Shape::band(i).dy, block.box[1], y);
    return reached;
  }
  SPIDER_DEVICE static bool cell_is_regular(const Block& block, std::int32_t y, std::int32_t x) {
    bool reached = false;
    SPIDER_UNROLL
    for (int i = 0; i < Shape::band_count; ++i) {
      reached |= leads_to(Shape::band(i).dy, block.box[1], y) && leads_to(Shape::band(i).dx, block.box[2], x);
    }
    return reached;
  }

  /// Where a vector of a ring row lies in its plane.
  SPIDER_DEVICE static Shared vector_place(int row, int vector) {
    return Shape::ring_lead_bytes + row * Shape::ring_row_bytes +
           (vector - Shape::left_vectors) * vector_bytes;
  }

  /// A vector with the same cell repeated.
  SPIDER_DEVICE static Vector filled_vector(WordOf<Element> value) {
    return repeat_word(element_bytes == 2 ? value * 0x10001U : value);
  }

  SPIDER_DEVICE static void fill_in_all_planes(Shared place, const Vector& value) {
    SPIDER_NO_UNROLL
    for (int plane = 0; plane < Shape::ring_planes; ++plane)
      device::store_shared(plane * Shape::ring_plane_bytes + place, value);
  }
  SPIDER_DEVICE static void fill_in_all_planes(Shared place, Element value) {
    SPIDER_NO_UNROLL
    for (int plane = 0; plane < Shape::ring_planes; ++plane)
      device::store_shared(plane * Shape::ring_plane_bytes + place, value);
  }

  /// Vector number k among those that a thread copies of every plane.
  struct CopyPlace {
    bool always;      ///< does every thread have it? The compiler cannot deduce this.
    int row, vector;  ///< in the ring

    SPIDER_DEVICE explicit CopyPlace(int k) : always((k + 1) * Shape::block_threads <= plane_vectors) {
      constexpr int divisor = side_vectors > 0 ? side_vectors : 1;
      constexpr int rows_at_once = Shape::block_threads / Shape::tile_vectors;
      const int i = thread_index() + k * Shape::block_threads - own_vectors;
      if ((k + 1) * Shape::block_threads <= own_vectors || i < 0) {
        row = thread_index() / Shape::tile_vectors + k * rows_at_once;
        vector = Shape::left_vectors + thread_index() % Shape::tile_vectors;
      } else {
        const int side = i % divisor;
        row = side_vectors > 0 ? i / divisor : Shape::ring_rows;
        vector = side < Shape::left_vectors ? side : side + Shape::tile_vectors;
      }
    }
    SPIDER_DEVICE bool exists() const { return always || row < Shape::ring_rows; }
    SPIDER_DEVICE Shared offset() const { return vector_place(row, vector); }
    SPIDER_DEVICE bool is_fast(const Block& block) const {
      return exists() && vector >= block.vector_begin && vector < block.vector_end;
    }
  };

  /// The vectors that a thread copies of every regular plane.
  struct Copies {
    std::int32_t from[copies];  ///< offset from the plane's first interior element
    Shared to[copies];          ///< offset in the ring's plane
    std::uint32_t wanted;       ///< bit k: is there a vector k?
  };
  static_assert(copies <= 32, "wanted copies are bits of a word");

  /// For a block inside.
  SPIDER_DEVICE static Copies plan_plain_copies(const Block& block) {
    Copies plan;
    plan.wanted = 0;
    SPIDER_UNROLL
    for (int k = 0; k < copies; ++k) {
      const CopyPlace place(k);
      plan.from[k] = static_cast<std::int32_t>((block.top + place.row) * block.row_stride) + block.left +
                     place.vector * vector_elements;
      plan.to[k] = place.offset();
      plan.wanted |= static_cast<std::uint32_t>(place.exists()) << k;
    }
    return plan;
  }

  /// One of a plane's elements in vectors across an edge.
  struct EdgePlace {
    int row, column;  ///< in the ring

    SPIDER_DEVICE EdgePlace(const Block& block, int element) {
      const int before = block.vector_begin * vector_elements - block.edge_begin;
      const int i = element % block.edge_columns;
      row = element / block.edge_columns;
      column = i < before ? block.edge_begin + i : block.vector_end * vector_elements + i - before;
    }
    SPIDER_DEVICE bool exists() const { return row < Shape::ring_rows; }
    SPIDER_DEVICE Shared offset() const { return vector_place(row, 0) + column * element_bytes; }
  };

  /// Places of a thread's copies and elements at edges of every regular plane, as words.
  struct EdgeTable {
    std::uint32_t word[table_vectors * 4];

    /// Offsets from the plane's first interior element, of copies and of elements.
    SPIDER_DEVICE std::int32_t copy(int k) const { return static_cast<std::int32_t>(word[k]); }
    SPIDER_DEVICE std::int32_t element(int k) const { return static_cast<std::int32_t>(word[copies + k]); }
    /// True if there is an element k; then its offset in the ring's plane.
    SPIDER_DEVICE bool has_element(int k) const { return place(k) != nowhere; }
    SPIDER_DEVICE Shared offset(int k) const { return place(k) * place_unit; }

    SPIDER_DEVICE void put_copy(int k, std::int32_t from) { word[k] = static_cast<std::uint32_t>(from); }
    SPIDER_DEVICE void put_element(int k, std::int32_t from, Shared offset) {
      word[copies + k] = static_cast<std::uint32_t>(from);
      put_place(k, offset / place_unit);
    }
    SPIDER_DEVICE void put_no_element(int k) { put_place(k, nowhere); }

    /// Its place in shared memory, after the ring: only its thread reads it.
    SPIDER_DEVICE static Shared memory_place(int vector) {
      return ring_bytes +
             static_cast<Shared>((vector * Shape::block_threads + thread_index()) * vector_bytes);
    }
    SPIDER_DEVICE void store() const {
      SPIDER_UNROLL
      for (int v = 0; v < table_vectors; ++v) {
        const std::uint32_t* const w = word + 4 * v;
        device::store_shared(memory_place(v), Vector{{w[0], w[1], w[2], w[3]}});
      }
    }
    SPIDER_DEVICE static EdgeTable load() {
      EdgeTable table;
      SPIDER_UNROLL
      for (int v = 0; v < table_vectors; ++v) {
        const Vector vector = device::load_shared(memory_place(v));
        SPIDER_UNROLL
        for (int i = 0; i < 4; ++i) table.word[4 * v + i] = vector.word[i];
      }
      return table;
    }

   private:
    // Places of elements: in shared memory two to a word, counted in elements; in registers unpacked.
    static constexpr bool packed = Shape::edges_in_memory;
    static constexpr std::uint32_t nowhere = packed ? 0xffffU : 0xffffffffU;
    static constexpr int place_unit = packed ? element_bytes : 1;
    static constexpr int first_place = copies + edge_elements;

    SPIDER_DEVICE std::uint32_t place(int k) const {
      return packed ? word[first_place + k / 2] >> (k % 2 * 16) & 0xffffU : word[first_place + k];
    }
    SPIDER_DEVICE void put_place(int k, std::uint32_t place) {
      if constexpr (packed) {
        std::uint32_t& both = word[first_place + k / 2];
        both = (both & (k % 2 == 0 ? 0xffff0000U : 0xffffU)) | place << (k % 2 * 16);
      } else {
        word[first_place + k] = place;
      }
    }
  };

  /// The negated ones among a thread's copies and elements: bit k of a word stands for number k.
  struct EdgeSigns {
    std::uint32_t copies = 0, elements = 0;
  };
  struct NoEdgeSigns {};

  /// The part of the table in a thread's registers: all, or nothing if they would not suffice.
  struct Edges {
    std::uint32_t wanted = 0;  ///< bit k: is there a copy k?
    int elements = 0;          ///< one past the last element: many threads have none
    EdgeTable kept;
    std::conditional_t<has_signs, EdgeSigns, NoEdgeSigns> negated;

    SPIDER_DEVICE bool negates_copy(int k) const {
      if constexpr (has_signs) return (negated.copies >> k & 1U) != 0;
      return false;
    }
    SPIDER_DEVICE bool negates_element(int k) const {
      if constexpr (has_signs) return (negated.elements >> k & 1U) != 0;
      return false;
    }

    SPIDER_DEVICE EdgeTable table() const {
      if constexpr (Shape::edges_in_memory) {
        return EdgeTable::load();
      } else {
        return kept;
      }
    }
  };

  /// Finds all that a thread copies of regular planes at edges: rows from wherever the boundary takes them,
  /// and the elements of vectors across an edge. Fills the boundary's constants in every plane of the ring,
  /// since no plane changes them. Elements that no tap reaches are unchanged.
  SPIDER_DEVICE static Edges plan_edges(const Block& block) {
    EdgeTable table{};
    Edges edges;
    plan_mapped_copies(block, table, edges);
    SPIDER_UNROLL
    for (int k = 0; k < edge_elements; ++k) {
      table.put_no_element(k);
      if (block.edge_columns == 0) continue;
      const EdgePlace place(block, edge_thread_index() + k * edge_threads);
      if (!place.exists()) continue;
      const std::int32_t y = block.top + place.row;
      const std::int32_t x = block.left + place.column;
      if (!cell_is_regular(block, y, x)) continue;
      const auto row = map_row(block, y);
      const auto column = map_column(block, x);
      if (column.constant || row.constant) {
        if (first_turn() == 0) {
          fill_in_all_planes(place.offset(),
                             static_cast<Element>((column.constant ? column.value : row.value) ^
                                                  sign_of<Element>(negates_cell(row, column))));
        }
        continue;
      }
      table.put_element(k, static_cast<std::int32_t>(row.index * block.row_stride) + column.index,
                        place.offset());
      if constexpr (has_signs) {
        if (negates_cell(row, column)) edges.negated.elements |= 1U << k;
      }
      edges.elements = k + 1;
    }
    if constexpr (Shape::edges_in_memory) {
      table.store();
    } else {
      edges.kept = table;
    }
    return edges;
  }

  SPIDER_DEVICE static void plan_mapped_copies(const Block& block, EdgeTable& table, Edges& edges) {
    SPIDER_UNROLL
    for (int k = 0; k < copies; ++k) {
      const CopyPlace place(k);
      const std::int32_t y = block.top + place.row;
      const auto row = map_row(block, y);
      const bool fast = place.is_fast(block);
      table.put_copy(k, static_cast<std::int32_t>(row.index * block.row_stride) + block.left +
                            place.vector * vector_elements);
      edges.wanted |= static_cast<std::uint32_t>(fast && !row.constant && row_is_regular(block, y)) << k;
      if constexpr (has_signs) {
        if (row.negated) edges.negated.copies |= 1U << k;
      }
      if (fast && row.constant)
        fill_in_all_planes(place.offset(), filled_vector(row.value ^ sign_of<Element>(row.negated)));
    }
  }

  /// Copies a vector with changed signs, which asynchronous copies cannot do.
  SPIDER_DEVICE static void bring_negated(bool wanted, Shared to, const Element* from) {
    if (!wanted) return;
    Vector cells = device::load_field_vector(from);
    change_signs(cells, sign_word<Element>(true));
    device::store_shared(to, cells);
  }

  /// Starts the copies of a regular plane to `to`; `plane` is its first interior element.
  SPIDER_DEVICE static void start_plane(const Copies& plan, Shared to, const Element* plane) {
    SPIDER_UNROLL
    for (int k = 0; k < copies; ++k)
      device::copy_async_if((plan.wanted >> k & 1U) != 0, to + plan.to[k], plane + plan.from[k]);
  }

  /// The same at edges, with elements of four bytes or eight.
  SPIDER_DEVICE static void start_edge_plane(const Edges& edges, Shared to, const Element* plane) {
    const EdgeTable table = edges.table();
    SPIDER_UNROLL
    for (int k = 0; k < copies; ++k) {
      const bool wanted = (edges.wanted >> k & 1U) != 0;
      const bool negated = edges.negates_copy(k);
      device::copy_async_if(wanted && !negated, to + CopyPlace(k).offset(), plane + table.copy(k));
      if constexpr (has_row_signs)
        bring_negated(wanted && negated, to + CopyPlace(k).offset(), plane + table.copy(k));
    }
    if constexpr (copies_edges) start_edge_elements(edges, table, to, plane);
  }
  SPIDER_DEVICE static void start_edge_elements(const Edges& edges, const EdgeTable& table, Shared to,
                                                const Element* plane) {
    SPIDER_UNROLL
    for (int k = 0; k < edge_elements; ++k) {
      if (k >= edges.elements) continue;
      const bool negated = edges.negates_element(k);
      copy_cell_async_if(table.has_element(k) && !negated, to + table.offset(k), plane + table.element(k));
      if constexpr (has_signs) {
        if (table.has_element(k) && negated) {
          device::store_shared(to + table.offset(k),
                               device::load_field(plane + table.element(k)) ^ sign_of<Element>(true));
        }
      }
    }
  }

  /// Edge elements of two bytes in flight.
  struct EdgeValues {
    Element value[edge_elements];
  };

  /// Loads them from a regular plane.
  SPIDER_DEVICE static void load_edges(const Edges& edges, const Element* plane, EdgeValues& values) {
    const EdgeTable table = edges.table();
    SPIDER_UNROLL
    for (int k = 0; k < edge_elements; ++k) {
      values.value[k] =
          device::load_field_if(table.has_element(k), plane + table.element(k), values.value[k]);
    }
  }

  /// Stores them to the ring's plane at `to`.
  SPIDER_DEVICE static void store_edges(const Edges& edges, Shared to, const EdgeValues& values) {
    const EdgeTable table = edges.table();
    SPIDER_UNROLL
    for (int k = 0; k < edge_elements; ++k) {
      const bool negated = edges.negates_element(k);
      device::store_shared_if(table.has_element(k), to + table.offset(k),
                              static_cast<Element>(values.value[k] ^ sign_of<Element>(negated)));
    }
  }

  /// The cell (z, y, x), wherever the boundary takes it from; 0 if no tap reaches it.
  SPIDER_DEVICE static Element fetch_cell(const Block& block, std::int32_t z, const PlaneIndex& plane,
                                          std::int32_t y, std::int32_t x) {
    if (!cell_is_reached(block, z, y, x)) return 0;
    const auto column = map_column(block, x);
    const auto column_sign = sign_of<Element>(column.negated);
    if (column.constant) return static_cast<Element>(column.value ^ column_sign);
    const auto row = map_row(block, y);
    const Element row_sign = column_sign ^ sign_of<Element>(row.negated);
    if (row.constant) return static_cast<Element>(row.value ^ row_sign);
    const Element sign = row_sign ^ sign_of<Element>(plane.negated);
    if (plane.constant) return static_cast<Element>(plane.value ^ sign);
    const Element cell = device::load_field(
        block.input + (plane.index * block.plane_stride + row.index * block.row_stride + column.index));
    return static_cast<Element>(cell ^ sign);
  }

  // Irregular planes are rare. Separate functions load them, and find the block again instead of receiving
  // it. Each does little: its registers are lost to the loop that calls it.

  /// Loads the vectors of irregular plane z to `to`, except rows that are constant in all planes.
  SPIDER_DEVICE_NOINLINE void load_irregular_plane(const SweepArguments& field, std::int32_t z, Shared to) {
    const Block block = make_block(field);
    const PlaneIndex plane = map_plane(block, z);
    SPIDER_NO_UNROLL
    for (int k = 0; k < copies; ++k) {
      const CopyPlace place(k);
      const std::int32_t y = block.top + place.row;
      const auto row = map_row(block, y);
      const bool wanted = place.is_fast(block) && !row.constant && row_is_reached(block, z, y);
      if constexpr (has_signs || negates(Shape::plane_rules())) {
        const bool negated = plane.negated != row.negated;
        const Element* from = block.input + (plane.index * block.plane_stride + row.index * block.row_stride +
                                             block.left + place.vector * vector_elements);
        if (wanted && plane.constant)
          device::store_shared(to + place.offset(), filled_vector(plane.value ^ sign_of<Element>(negated)));
        bring_negated(wanted && !plane.constant && negated, to + place.offset(), from);
        device::copy_async_if(wanted && !plane.constant && !negated, to + place.offset(), from);
      } else {
        if (wanted && plane.constant) device::store_shared(to + place.offset(), filled_vector(plane.value));
        device::copy_async_if(wanted && !plane.constant, to + place.offset(),
                              block.input + (plane.index * block.plane_stride + row.index * block.row_stride +
                                             block.left + place.vector * vector_elements));
      }
    }
  }

  /// Fetches the edge elements of plane z from number `first` on, except those that plan_edges has filled.
  SPIDER_DEVICE static void fetch_edges(const Block& block, std::int32_t z, int first, Shared to) {
    const PlaneIndex plane = map_plane(block, z);
    SPIDER_NO_UNROLL
    for (int i = first + thread_index(); i < Shape::ring_rows * block.edge_columns;
         i += Shape::block_threads) {
      const EdgePlace place(block, i);
      const std::int32_t y = block.top + place.row;
      const std::int32_t x = block.left + place.column;
      const bool found = Shape::finds_all_edges || i < edge_elements * edge_threads;
      if (found && (map_column(block, x).constant || map_row(block, y).constant)) continue;
      device::store_shared(to + place.offset(), fetch_cell(block, z, plane, y, x));
    }
  }

  /// fetch_edges() out of line.
  SPIDER_DEVICE_NOINLINE void fetch_edges_apart(const SweepArguments& field, std::int32_t z, int first,
                                                Shared to) {
    fetch_edges(make_block(field), z, first, to);
  }

  // Unaligned rows are copied in words, or in cells that are no shorter. A row whose columns are in other
  // halves of words in memory than in the ring arrives a cell after its place: realign_rows() moves it.

  static constexpr int piece_bytes = element_bytes < 4 ? 4 : element_bytes;
  static constexpr int piece_elements = piece_bytes / element_bytes;
  static constexpr bool splits_words = piece_elements > 1;
  // Columns of the ring that taps may reach, and the pieces that contain them.
  static constexpr int first_column = left_columns + Shape::column_reach_low;
  static constexpr int end_column =
      left_columns + Shape::tile_vectors * vector_elements + Shape::column_reach_high;
  static constexpr int first_piece = first_column / piece_elements;
  static constexpr int end_piece = (end_column + piece_elements - 1) / piece_elements;
  static constexpr int warps = Shape::block_threads / 32;
  static constexpr int rows_of_warp = (Shape::ring_rows + warps - 1) / warps;
  // Pieces of a row that every lane has. Lanes share the remaining pieces of all rows, including the extra
  // word of a row that is a cell behind.
  static constexpr int pieces_of_lane = (end_piece - first_piece) / 32;
  static constexpr int first_shared = first_piece + 32 * pieces_of_lane;
  static constexpr int shared_pieces = end_piece - first_shared + (splits_words ? 1 : 0);
  static constexpr int shared_turns = (rows_of_warp * shared_pieces + 31) / 32;
  /// True if there is room after them for the extra word of such a row.
  static constexpr bool has_spare = !splits_words || (end_piece + 1) * piece_bytes <= Shape::ring_row_bytes;

  /// Row number n of the ring rows that the warp copies; and whether there is one.
  SPIDER_DEVICE static int row_of_warp(int n) { return n * warps + device::warp_index(); }
  SPIDER_DEVICE static bool has_row(int n) {
    return (n + 1) * warps <= Shape::ring_rows || row_of_warp(n) < Shape::ring_rows;
  }
  /// A piece, among those that rows share, that a lane has in turn.
  struct SharedPiece {
    int n, piece;  ///< in row number n

    SPIDER_DEVICE explicit SharedPiece(int turn)
        : n((32 * turn + device::lane_index()) / (shared_pieces > 0 ? shared_pieces : 1)),
          piece(first_shared + (32 * turn + device::lane_index()) % (shared_pieces > 0 ? shared_pieces : 1)) {
    }
    SPIDER_DEVICE bool exists() const { return n < rows_of_warp && has_row(n); }
  };
  SPIDER_DEVICE static Shared piece_place(int row, int piece) {
    return vector_place(row, 0) + piece * piece_bytes;
  }

  SPIDER_DEVICE static int misalignment(const Element* cells) { return is_misaligned(cells) ? 1 : 0; }

  /// A row of the ring in memory.
  struct RowInMemory {
    const Element* cells;  ///< from column 0 of the ring on
    int behind;            ///< cells that it arrives after its place
    bool comes;            ///< as pieces
  };
  /// The columns of rows in memory that are copied as pieces. They end one column past those that taps may
  /// reach, if memory has that one, too.
  struct ColumnsInMemory {
    Span columns;

    SPIDER_DEVICE explicit ColumnsInMemory(const Block& block) {
      const std::int32_t begin =
          block.box[2].begin + (Shape::highest_low > 0 ? Shape::highest_low : 0) - block.left;
      const std::int32_t end =
          block.box[2].end + (Shape::lowest_high < 0 ? Shape::lowest_high : 0) - block.left;
      columns.begin = clamp(begin, first_column - 1, end_column + 1);
      columns.end = clamp(end, columns.begin, end_column + 1);
    }
    SPIDER_DEVICE bool are_all() const { return columns.begin < first_column && columns.end > end_column; }
    /// The pieces copied of a row that is that many cells behind.
    SPIDER_DEVICE Span pieces(int behind) const {
      return {clamp((columns.begin + behind + piece_elements - 1) / piece_elements, first_piece, end_piece),
              clamp((columns.end + behind) / piece_elements, first_piece, end_piece + behind)};
    }
  };

  /// The rows of a regular plane that a warp copies, if all are in memory, one after the other. If a table
  /// copies the cells next to vectors (copies_edges), only vectors are pieces.
  struct ContiguousRows : ColumnsInMemory {
    std::int64_t first;  ///< from the plane's first element to column 0 of the ring in row number 0
    std::int64_t stride;

    SPIDER_DEVICE explicit ContiguousRows(const Block& block)
        : ColumnsInMemory(block),
          first((block.top + row_of_warp(0)) * block.row_stride + block.left),
          stride(warps * block.row_stride) {
      if (copies_edges)
        this->columns = {block.vector_begin * vector_elements, block.vector_end * vector_elements};
    }
    SPIDER_DEVICE RowInMemory find(const Element* plane, int n) const {
      const Element* const cells = plane + (first + n * stride);
      const int behind = misalignment(warps % 2 == 0 ? plane + first : cells);
      return {cells, behind, has_row(n) && (has_spare || behind == 0)};
    }
    /// True if no row of a plane is behind its place. Rows of an even number of warps begin alike.
    SPIDER_DEVICE bool are_in_place(const Element* plane) const {
      return warps % 2 == 0 && misalignment(plane + first) == 0;
    }
  };
  SPIDER_DEVICE static bool has_plain_rows(const Block& block) {
    bool plain = true;
    for (int row = device::lane_index(); row < Shape::ring_rows; row += 32) {
      const auto mapped = map_row(block, block.top + row);
      plain = plain && !mapped.constant && mapped.index == block.top + row &&
              row_is_regular(block, block.top + row);
    }
    return device::smallest_in_warp(plain ? 1 : 0) != 0;
  }

  /// The rows of any plane: each lane knows one.
  struct MappedRows : ColumnsInMemory {
    std::uint64_t offset;         ///< of row number `lane`, as ContiguousRows::first
    std::uint32_t in_memory = 0;  ///< bit n: is row number n in memory as taps read it?

    SPIDER_DEVICE MappedRows(const Block& block, std::int32_t z, const PlaneIndex& plane)
        : ColumnsInMemory(block) {
      static_assert(rows_of_warp <= 32, "a lane for each row");
      const int own = device::lane_index() < rows_of_warp ? device::lane_index() : 0;
      const std::int32_t y = block.top + row_of_warp(own);
      const auto row = map_row(block, y);
      const bool is_there = has_row(own) && row_is_reached(block, z, y) && !plane.constant && !row.constant &&
                            plane.negated == row.negated;
      offset = static_cast<std::uint64_t>(row.index * block.row_stride + block.left);
      for (int n = 0; n < rows_of_warp; ++n) in_memory |= device::shuffle(is_there ? 1U : 0U, n) << n;
    }
    SPIDER_DEVICE RowInMemory find(const Element* plane, int n) const {
      const Element* const cells = plane + static_cast<std::int64_t>(device::shuffle(offset, n));
      const int behind = misalignment(cells);
      return {cells, behind, (in_memory >> n & 1U) != 0 && (has_spare || behind == 0)};
    }
    SPIDER_DEVICE static bool are_in_place(const Element* /*plane*/) { return false; }
  };

  /// Starts the copies of a plane's pieces.
  template <class Rows>
  SPIDER_DEVICE static void start_pieces(const Rows& rows, const Element* plane, Shared to) {
    const int first = first_piece + device::lane_index();
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      const RowInMemory row = rows.find(plane, n);
      const Span pieces = rows.pieces(row.behind);
      const Shared place = to + piece_place(row_of_warp(n), first);
      const Element* const from = row.cells + (first * piece_elements - row.behind);
      SPIDER_UNROLL
      for (int i = 0; i < pieces_of_lane; ++i) {
        copy_piece_async_if<piece_bytes>(row.comes && pieces.holds(first + 32 * i),
                                         place + 32 * i * piece_bytes, from + 32 * i * piece_elements);
      }
    }
    SPIDER_UNROLL
    for (int turn = 0; turn < shared_turns; ++turn) {
      const SharedPiece shared(turn);
      const RowInMemory row = rows.find(plane, shared.n);
      copy_piece_async_if<piece_bytes>(
          shared.exists() && row.comes && rows.pieces(row.behind).holds(shared.piece),
          to + piece_place(row_of_warp(shared.n), shared.piece),
          row.cells + (shared.piece * piece_elements - row.behind));
    }
  }

  /// Moves the rows of a plane that are a cell behind, once all copies of the warp have arrived. Columns
  /// outside those that taps may reach become 0: an older plane's values there would enter products.
  template <class Rows>
  SPIDER_DEVICE static void realign_rows(const Rows& rows, const Element* plane, Shared to) {
    if (rows.are_in_place(plane)) return;
    const auto is_moved = [&](int n) {
      const RowInMemory row = rows.find(plane, n);
      return row.comes && row.behind != 0;
    };
    const auto load = [](int piece, Shared from) {
      std::uint32_t word = device::funnel_shift_right(device::load_shared_word(from),
                                                      device::load_shared_word(from + piece_bytes), 16);
      if (first_column % piece_elements != 0 && piece == first_piece) word &= 0xffff0000U;
      if (end_column % piece_elements != 0 && piece + 1 == end_piece) word &= 0xffffU;
      return word;
    };
    device::sync_warp();
    bool moves_shared[shared_turns];
    std::uint32_t moved_shared[shared_turns];
    SPIDER_UNROLL
    for (int turn = 0; turn < shared_turns; ++turn) {
      const SharedPiece shared(turn);
      moves_shared[turn] = is_moved(shared.n) && shared.exists();
      moved_shared[turn] = moves_shared[turn] && shared.piece < end_piece
                               ? load(shared.piece, to + piece_place(row_of_warp(shared.n), shared.piece))
                               : 0;
    }
    SPIDER_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      if (!is_moved(n)) continue;
      const int first = first_piece + device::lane_index();
      const Shared place = to + piece_place(row_of_warp(n), first);
      std::uint32_t moved[pieces_of_lane > 0 ? pieces_of_lane : 1];
      SPIDER_UNROLL
      for (int i = 0; i < pieces_of_lane; ++i)
        moved[i] = load(first + 32 * i, place + static_cast<Shared>(32 * i * piece_bytes));
      device::sync_warp();
      SPIDER_UNROLL
      for (int i = 0; i < pieces_of_lane; ++i)
        device::store_shared(place + static_cast<Shared>(32 * i * piece_bytes), moved[i]);
    }
    device::sync_warp();
    SPIDER_UNROLL
    for (int turn = 0; turn < shared_turns; ++turn) {
      const SharedPiece shared(turn);
      device::store_shared_if(moves_shared[turn], to + piece_place(row_of_warp(shared.n), shared.piece),
                              moved_shared[turn]);
    }
  }

  /// Copies a cell of plane z, which may lie anywhere, to `to`: asynchronously if possible.
  SPIDER_DEVICE static void bring_cell(const Block& block, std::int32_t z, const PlaneIndex& plane,
                                       std::int32_t y, std::int32_t x, Shared to) {
    if constexpr (!splits_words) {
      const auto row = map_row(block, y);
      const auto column = map_column(block, x);
      if (column.constant) {  // plan_edges has filled all planes, also where no tap reaches
        device::store_shared(to, static_cast<Element>(column.value ^ sign_of<Element>(column.negated)));
        return;
      }
      if (!plane.constant && !row.constant && cell_is_reached(block, z, y, x) &&
          (plane.negated != row.negated) == column.negated) {
        copy_cell_async_if(
            true, to,
            block.input + (plane.index * block.plane_stride + row.index * block.row_stride + column.index));
        return;
      }
    }
    device::store_shared(to, fetch_cell(block, z, plane, y, x));
  }

  // Blocks at faces, and planes outside these. The block is found again to save registers.

  SPIDER_DEVICE static const Element* plane_in_memory(const Block& block, const PlaneIndex& plane) {
    return block.input + (plane.constant ? 0 : plane.index * block.plane_stride);
  }

  /// Copies the cells of plane z, whose rows are `rows`, that are in no pieces.
  SPIDER_DEVICE static void bring_others(const Block& block, std::int32_t z, const PlaneIndex& plane,
                                         const MappedRows& rows, Shared to) {
    // Next to pieces, of all rows together: cells of two bytes wait for memory.
    const int begin = clamp(rows.columns.begin + piece_elements - 1, first_column, end_column);
    const int end = clamp(rows.columns.end - (piece_elements - 1), begin, end_column);
    const int beside = begin - first_column + end_column - end;
    const auto bring = [&](int n, int column, int behind) {
      bring_cell(block, z, plane, block.top + row_of_warp(n), block.left + column,
                 to + vector_place(row_of_warp(n), 0) + (column + behind) * element_bytes);
    };
    SPIDER_NO_UNROLL
    for (int first = 0; first < rows_of_warp * beside; first += 32) {
      const int i =
          first + device::lane_index() < rows_of_warp * beside ? first + device::lane_index() : first;
      const int n = i / beside;
      const int k = i % beside;
      const int column = k < begin - first_column ? first_column + k : end_column - beside + k;
      const RowInMemory row = rows.find(plane_in_memory(block, plane), n);
      if (i != first + device::lane_index() || !row.comes) continue;
      if (!rows.pieces(row.behind).holds((column + row.behind) / piece_elements))
        bring(n, column, row.behind);
    }
    SPIDER_NO_UNROLL
    for (int n = 0; n < rows_of_warp; ++n) {
      if (rows.find(plane_in_memory(block, plane), n).comes || !has_row(n)) continue;
      SPIDER_NO_UNROLL
      for (int column = first_column + device::lane_index(); column < end_column; column += 32)
        bring(n, column, 0);
    }
  }
  SPIDER_DEVICE_NOINLINE void bring_others_of_regular(const SweepArguments& field, std::int32_t z,
                                                      Shared to) {
    const Block block = make_block(field);
    const PlaneIndex plane = map_plane(block, z);
    bring_others(block, z, plane, MappedRows(block, z, plane), to);
  }
  SPIDER_DEVICE_NOINLINE void bring_any_plane(const SweepArguments& field, std::int32_t z, Shared to) {
    const Block block = make_block(field);
    const PlaneIndex plane = map_plane(block, z);
    const MappedRows rows(block, z, plane);
    start_pieces(rows, plane_in_memory(block, plane), to);
    bring_others(block, z, plane, rows, to);
  }
  SPIDER_DEVICE_NOINLINE void realign_irregular_rows(const SweepArguments& field, std::int32_t z, Shared to) {
    const Block block = make_block(field);
    const PlaneIndex plane = map_plane(block, z);
    realign_rows(MappedRows(block, z, plane), plane_in_memory(block, plane), to);
  }

  /// Zeroes the ring from plane `first` on, and waits for all threads.
  SPIDER_DEVICE static void clear(int first = 0) {
    SPIDER_NO_UNROLL
    for (int i = first * Shape::ring_plane_bytes / vector_bytes + thread_index();
         i < ring_bytes / vector_bytes; i += Shape::block_threads)
      device::store_shared(static_cast<Shared>(i * vector_bytes), Vector{});
    device::sync_block();
  }

  /// The place of a block; if rims may come first, also its first output and its steps.
  SPIDER_DEVICE static VolumePlace place_of_block(const SweepArguments& field,
                                                  [[maybe_unused]] Block& block) {
    if constexpr (tells_rims) {
      const VolumeWalk walk = find_volume_walk<Shape::walks_on>(field, device::block_index());
      block.first_output = walk.first;
      block.steps = walk.end - walk.first + Shape::lead_planes;
      return {walk.across, walk.down, 0};
    } else {
      return find_in_volume<Shape::walks_on>(field.grid.volume, block.box[0].end - block.box[0].begin,
                                             device::block_index());
    }
  }

  SPIDER_DEVICE static Block make_block(const SweepArguments& field) {
    constexpr int tile_columns = Shape::tile_vectors * vector_elements;
    const VolumeGrid& grid = field.grid.volume;
    Block block;
    block.input = static_cast<const Element*>(field.input);
    block.plane_stride = field.input_stride[0];
    block.row_stride = field.input_stride[1];
    SPIDER_UNROLL
    for (int axis = 0; axis < 3; ++axis) {
      const std::int64_t begin = field.box.offset[axis];
      block.extent[axis] = static_cast<std::int32_t>(field.extent[axis]);
      block.box[axis] = {static_cast<std::int32_t>(begin),
                         static_cast<std::int32_t>(begin + field.box.extent[axis])};
    }
    const VolumePlace place = place_of_block(field, block);
    block.left = grid.first_column + place.across * tile_columns - left_columns;
    block.top = block.box[1].begin / Shape::row_anchor * Shape::row_anchor + place.down * Shape::tile_rows +
                Shape::lowest_dy;
    if constexpr (!tells_rims) block.first_output = block.box[0].begin + place.walk * grid.planes;
    block.first_plane = block.first_output + Shape::lowest_dz;
    if constexpr (!tells_rims) {
      const std::int32_t remaining = block.box[0].end - block.first_output;
      block.steps = (remaining < grid.planes ? remaining : grid.planes) + Shape::lead_planes;
    }
    find_vectors(block);
    return block;
  }

  /// Finds the fast vectors of a row, and the needed columns next to them.
  SPIDER_DEVICE static void find_vectors(Block& block) {
    const std::int32_t inside_begin = block.box[2].begin + (Shape::highest_low > 0 ? Shape::highest_low : 0);
    const std::int32_t inside_end = block.box[2].end + (Shape::lowest_high < 0 ? Shape::lowest_high : 0);
    const std::int32_t needed_begin = block.box[2].begin + Shape::column_reach_low;
    const std::int32_t needed_end = block.box[2].end + Shape::column_reach_high;
    const auto vectors_before = [&](std::int32_t x) {
      return (x - block.left + vector_elements - 1) / vector_elements;
    };
    block.vector_begin = clamp(vectors_before(inside_begin), 0, ring_vectors);
    block.vector_end = clamp((inside_end - block.left) / vector_elements, block.vector_begin, ring_vectors);
    const std::int32_t first_fast = block.vector_begin * vector_elements;
    const std::int32_t end_of_fast = block.vector_end * vector_elements;
    block.edge_begin = clamp(needed_begin - block.left, 0, first_fast);
    const std::int32_t edge_end = clamp(needed_end - block.left, end_of_fast, ring_vectors * vector_elements);
    block.edge_columns = first_fast - block.edge_begin + edge_end - end_of_fast;
  }

  /// True if 32 bits count the places in a plane.
  SPIDER_DEVICE static bool is_near(const Block& block) {
    constexpr std::int64_t farthest = (std::int64_t{1} << 31) - 2 * ring_vectors * vector_elements;
    const std::int64_t rows = std::int64_t{block.extent[1]} + 2 * Shape::ring_rows;
    return block.row_stride < (farthest - block.extent[2]) / rows;
  }

  /// What a block has to take care of.
  SPIDER_DEVICE static Path path_of(const SweepArguments& field, const Block& block) {
    if (!field.aligned_input || !is_near(block)) return Path::unaligned;
    const bool all_fast = block.vector_begin == 0 && block.vector_end == ring_vectors;
    // If all taps reach up, the block's own rows end after those that it reads.
    constexpr std::int32_t own_end = Shape::tile_rows - Shape::lowest_dy;
    const Span touched = {block.top, block.top + (own_end > Shape::ring_rows ? own_end : Shape::ring_rows)};
    return all_fast && field.aligned_output && block.box[1].holds(touched) ? Path::interior : Path::boundary;
  }

  /// Copies the input planes of a walk to the ring, planes_at_once after the other. All threads of the block
  /// call this together. `all_regular`: all planes of the walk are.
  template <Path path, bool all_regular = false>
  class Supply {
   public:
    /// The ring must have been cleared, unless only copied cells of it are read.
    SPIDER_DEVICE Supply(const Block& block, const Span& regular)
        : next_(block.input + block.first_plane * block.plane_stride), regular_(regular), values_() {
      if constexpr (path == Path::interior) copies_ = plan_plain_copies(block);
      if constexpr (path == Path::boundary) {
        edges_ = plan_edges(block);
        has_others_ = block.edge_columns * Shape::ring_rows > edge_elements * edge_threads;
      }
      if constexpr (path == Path::unaligned) {
        is_plain_ = has_plain_rows(block) && (!copies_edges || is_near(block));  // the table has 32 bits
        if constexpr (copies_edges) {
          if (is_plain_) edges_ = plan_edges(block);
          device::sync_block();  // other threads fill planes that are not regular
        } else {
          has_others_ = !has_spare || !ColumnsInMemory(block).are_all();
        }
      }
      if constexpr (loads_edges) {
        turn_ = block.edge_columns > 0 ? first_turn() * Shape::planes_at_once : -1;
        load_edges_of_turn(block, next_ + turn_ * block.plane_stride);
      }
    }

    /// Starts the copies of the planes of `step` and later ones to the places from `to` on.
    SPIDER_DEVICE void start(const SweepArguments& field, const Block& block, int step, Shared to) {
      SPIDER_UNROLL
      for (int i = 0; i < Shape::planes_at_once; ++i) {
        if (step + i < block.steps) start_next(field, block, step + i, to + i * Shape::ring_plane_bytes);
        next_ += block.plane_stride;
      }
      device::copy_async_commit();
    }

    /// Stores the loaded edge elements of the same planes; planes_ahead planes from `step` on have been
    /// started. Called for all groups of planes in turn.
    SPIDER_DEVICE void place_edges(const Block& block, int step, Shared to) {
      if constexpr (loads_edges) {
        if (step != turn_) return;
        SPIDER_UNROLL
        for (int i = 0; i < Shape::planes_at_once; ++i) {
          if (regular_.holds(step + i)) store_edges(edges_, to + i * Shape::ring_plane_bytes, values_[i]);
        }
        constexpr int round = turns * Shape::planes_at_once;
        turn_ += round;
        load_edges_of_turn(block, next_ + (round - Shape::planes_ahead) * block.plane_stride);
      }
    }

    /// Moves rows of the plane of `step` at `to` that begin within words, once this warp's copies have
    /// arrived: planes_ahead planes from `step` on have been started.
    SPIDER_DEVICE void settle(const SweepArguments& field, const Block& block, int step, Shared to) const {
      if constexpr (path == Path::unaligned && splits_words && has_spare) {
        if (step >= block.steps) return;
        const std::int32_t z = block.first_plane + step;
        if (is_plain_ && regular_.holds(step)) {
          realign_rows(ContiguousRows(block), block.input + z * block.plane_stride, to);
        } else {
          realign_irregular_rows(field, z, to);
        }
      }
    }

   private:
    /// True if elements across edges are loaded rather than copied.
    static constexpr bool loads_edges = path == Path::boundary && !copies_edges;

    SPIDER_DEVICE void start_next(const SweepArguments& field, const Block& block, int step, Shared to) {
      if constexpr (path == Path::unaligned) {
        const std::int32_t z = block.first_plane + step;
        if (is_plain_ && regular_.holds(step)) {
          start_pieces(ContiguousRows(block), next_, to);
          if constexpr (copies_edges) {
            start_edge_elements(edges_, edges_.table(), to, next_);
          } else if (has_others_) {
            bring_others_of_regular(field, z, to);
          }
        } else {
          bring_any_plane(field, z, to);
        }
      } else if (all_regular || regular_.holds(step)) {
        if constexpr (path == Path::interior) start_plane(copies_, to, next_);
        if constexpr (path == Path::boundary) start_edge_plane(edges_, to, next_);
        if constexpr (path == Path::boundary && !Shape::finds_all_edges) {
          constexpr int first = edge_elements * edge_threads;  // no thread has found later ones
          if (has_others_) fetch_edges_apart(field, block.first_plane + step, first, to);
        }
      } else {
        load_irregular_plane(field, block.first_plane + step, to);
        fetch_edges_apart(field, block.first_plane + step, 0, to);
      }
    }

    /// `plane`: the first interior element of the plane of step turn_.
    SPIDER_DEVICE void load_edges_of_turn(const Block& block, const Element* plane) {
      SPIDER_UNROLL
      for (int i = 0; i < Shape::planes_at_once; ++i) {
        if (regular_.holds(turn_ + i)) load_edges(edges_, plane + i * block.plane_stride, values_[i]);
      }
    }

    const Element* next_;  ///< the first interior element of the next plane
    Span regular_;         ///< the steps of regular planes
    Copies copies_;
    Edges edges_;
    EdgeValues values_[Shape::planes_at_once];
    int turn_;               ///< the first step of the planes whose edge elements this warp has loaded, or -1
    bool is_plain_ = false;  ///< of Path::unaligned: are rows of regular planes ContiguousRows?
    bool has_others_ = false;  ///< are there edge elements that no thread has found, or cells in no pieces?
  };
};

}  // namespace device_4
}  // namespace spider
