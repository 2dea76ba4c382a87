/// 3D stencils on CUDA cores. A block of threads walks along z with a ring of input planes in shared memory,
/// and the sums of all output planes that an input plane adds to in registers. A thread has four neighbouring
/// outputs along x, two of f64, in each of some rows, a warp 32 threads side by side, a block some warps side
/// by side and one below the other.
///
/// A `Stencil` has, as static members, the members that spider/loads/plane_ring.h requires of the stencil and
/// of rows of the ring, and
/// - Cells: of spider/values/cells.h;
/// - tap_count, taps: CoreTap, ascending in row, plane (its step) and column;
/// - plane_low, plane_high, row_low, row_high: of the taps' offsets;
/// - rows_per_thread, warps_across, warps_down, blocks_per_multiprocessor;
/// - planes_at_once, groups_ahead: planes that are copied and waited for together; groups of them in flight;
/// - preferred_planes: output planes of a walk;
/// - kept_groups_ahead, groups_ahead of KeepingPoints, at most the taps' planes less one.
#pragma once

#include <spider/field/boundary.h>
#include <spider/field/rims_first.h>
#include <spider/kernel.h>
#include <spider/loads/plane_ring.h>
#include <spider/machine/instructions.h>
#include <spider/sums/cores.h>
#include <spider/sums/point_inputs.h>
#include <spider/sums/point_queue.h>
#include <spider/values/cells.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>
#include <utility>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct Cores3d;

/// The same with the inputs of an update at points in shared memory, not in registers. The ring retains input
/// planes until they are complete; a queue next to it has planes of the other fields. Waits for one plane at
/// a time.
template <class Stencil>
struct KeepingPoints : Stencil {
  static constexpr int groups_ahead = Stencil::kept_groups_ahead;
};

template <class Stencil>
struct KeepsPoints : std::false_type {};
template <class Stencil>
struct KeepsPoints<KeepingPoints<Stencil>> : std::true_type {};

// Only blocks that need care pay for it.
template <class Stencil>
SPIDER_GLOBAL(Stencil::warps_across* Stencil::warps_down * 32, Stencil::blocks_per_multiprocessor)
sweep_cores3d(SPIDER_GRID_CONSTANT const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  const TellRimsAtExit tells(field);
  using Kernel = Cores3d<Stencil>;
  const typename Kernel::Block block = Kernel::Planes::make_block(field);
  const Path path = Kernel::Planes::path_of(field, block);
  if (path == Path::interior) {
    Kernel::template walk_planes<Path::interior>(field, block);
  } else if (path == Path::boundary) {
    Kernel::template walk_planes<Path::boundary>(field, block);
  } else {
    Kernel::template walk_planes<Path::unaligned>(field, block);
  }
}

template <class Stencil>
struct Cores3d {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Number = typename Cells::Number;
  using Word = typename Cells::Word;
  using Shared = device::Shared;
  static constexpr int per_word = Cells::per_word;
  static constexpr int outputs = Cells::element_bytes == 8 ? 2 : 4;
  static constexpr int warp_columns = 32 * outputs;
  static constexpr int rows_per_thread = Stencil::rows_per_thread;
  static constexpr int warps_per_block = Stencil::warps_across * Stencil::warps_down;
  static constexpr int block_columns = Stencil::warps_across * warp_columns;
  static constexpr int block_rows = Stencil::warps_down * rows_per_thread;
  static constexpr int column_anchor = 128 / Cells::element_bytes;  // blocks begin on a line of 128 bytes
  static constexpr int vector_bytes = outputs * Cells::element_bytes;
  static constexpr int row_low = Stencil::row_low;
  static constexpr int tap_row_count = Stencil::row_high - row_low + 1;
  static constexpr int input_rows = rows_per_thread + tap_row_count - 1;  // ring rows that a thread reads
  static constexpr int planes_at_once = Stencil::planes_at_once;
  static constexpr int groups_ahead = Stencil::groups_ahead;

  // Every input plane adds to this many output planes.
  static constexpr int planes_in_flight = Stencil::plane_high - Stencil::plane_low + 1;

  /// Planes that stay in the ring after the newest.
  static constexpr bool keeps_points = KeepsPoints<Stencil>::value;
  SPIDER_DEVICE static constexpr int count_kept_planes() {
    if constexpr (keeps_points) return Stencil::reads_input ? Stencil::plane_high : 0;
    return 0;
  }
  static constexpr int kept_planes = count_kept_planes();

  /// The ring of input planes.
  struct Ring : Stencil {
    using Element = typename Cells::Element;
    static constexpr int block_threads = warps_per_block * 32;
    static constexpr bool walks_on = !HasUpdate<Stencil>::value;
    static constexpr int planes_ahead = groups_ahead * planes_at_once;
    static constexpr int ring_planes = planes_ahead + planes_at_once + kept_planes;
    static constexpr int tile_rows = block_rows;
    static constexpr int row_anchor = 1;
    static constexpr int ring_rows = block_rows + tap_row_count - 1;
    static constexpr int tile_vectors = block_columns * Cells::element_bytes / 16;
    static constexpr int ring_plane_bytes = ring_rows * Stencil::ring_row_bytes;
    static constexpr int edge_warps = warps_per_block;
    static constexpr bool finds_all_edges = true;
    static constexpr int lowest_dz = Stencil::plane_low;
    static constexpr int lowest_dy = row_low;
    static constexpr int lead_planes = planes_in_flight - 1;
  };
  using Planes = PlaneRing<Ring>;
  using Block = typename Planes::Block;
  static constexpr int lead_planes = Ring::lead_planes;
  static_assert(!keeps_points || (planes_at_once == 1 && groups_ahead <= lead_planes),
                "no plane of the queue is requested before the walk's first step");

  /// The queue of the other fields, after the ring.
  struct NoQueue {
    static constexpr int plane_bytes = 0;
  };
  struct Queue
      : std::conditional_t<keeps_points, PointQueue<Stencil, outputs, block_rows, block_columns>, NoQueue> {
    static constexpr int bytes = (groups_ahead + 1) * Queue::plane_bytes;
    static constexpr Shared begin = Planes::bytes;
    static constexpr Shared last = begin + groups_ahead * Queue::plane_bytes;
  };

  /// For input row j: the columns that any of the thread's outputs may need, from its first output on.
  SPIDER_DEVICE static constexpr TapColumns needed_columns(int j) {
    TapColumns needed = tap_columns<Stencil>(Stencil::plane_low, Stencil::plane_high,
                                             row_low + j - (rows_per_thread - 1), row_low + j);
    if (!needed.empty()) needed.high += outputs - 1;
    return needed;
  }

  /// `outputs` cells of the ring as numbers.
  SPIDER_DEVICE static void load_numbers(Shared from, Number* numbers) {
    if constexpr (vector_bytes == 16) {
      find_numbers(device::load_shared(from), numbers);
    } else {
      find_numbers(device::load_shared_pair(from), numbers);
    }
  }
  template <class Words>
  SPIDER_DEVICE static void find_numbers(const Words& words, Number* numbers) {
    SPIDER_UNROLL
    for (int i = 0; i < outputs; ++i)
      numbers[i] = Cells::number(word_of<Word>(words, i / per_word), i % per_word);
  }

  /// Sums of the output planes in flight; the next one to complete comes first.
  using RowSums = OutputSums<Stencil, outputs>;
  using Sums = RowSums[planes_in_flight][rows_per_thread];

  /// Adds a tap row's products to a row of outputs. Taps to the planes that complete first come first: sums
  /// then move from plane to plane without an extra instruction.
  template <int last, int row, int first, int... t>
  SPIDER_DEVICE static void add_taps(const Number* numbers, Sums& sums,
                                     std::integer_sequence<int, t...> /*taps*/) {
    (add_tap<Stencil, last - t, first>(numbers,
                                       sums[Stencil::plane_high - Stencil::taps[last - t].step][row]),
     ...);
  }

  /// Adds input row j of a plane to a row of outputs.
  template <int j, int first, int row>
  SPIDER_DEVICE static void add_to_row(const Number* numbers, Sums& sums) {
    constexpr int k = row_low + j - row;
    constexpr int begin = taps_before_row<Stencil>(k);
    constexpr int end = taps_before_row<Stencil>(k + 1);
    if constexpr (end > begin)
      add_taps<end - 1, row, first>(numbers, sums, std::make_integer_sequence<int, end - begin>{});
  }

  /// Adds input row j of a plane to all rows of outputs. The order of a sum's taps does not depend on where a
  /// walk begins.
  template <int j, int... row>
  SPIDER_DEVICE static void add_row(Shared place, Sums& sums, std::integer_sequence<int, row...> /*rows*/) {
    constexpr TapColumns needed = needed_columns(j);
    if constexpr (!needed.empty()) {
      constexpr int first = floor_divide(needed.low, outputs) * outputs;
      constexpr int count = floor_divide(needed.high, outputs) * outputs + outputs - first;
      Number numbers[count];
      SPIDER_UNROLL
      for (int i = 0; i < count; i += outputs)
        load_numbers(place + j * Stencil::ring_row_bytes + (first + i) * Cells::element_bytes, numbers + i);
      (add_to_row<j, first, row>(numbers, sums), ...);
    }
  }

  template <int... j>
  SPIDER_DEVICE static void add_plane(Shared place, Sums& sums, std::integer_sequence<int, j...> /*rows*/) {
    (add_row<j>(place, sums, std::make_integer_sequence<int, rows_per_thread>{}), ...);
  }

  /// Moves all sums by one plane.
  SPIDER_DEVICE static void move_sums(Sums& sums) {
    SPIDER_UNROLL
    for (int plane = 0; plane < planes_in_flight; ++plane) {
      SPIDER_UNROLL
      for (int row = 0; row < rows_per_thread; ++row) {
        if (plane + 1 < planes_in_flight) {
          copy_sums(sums[plane + 1][row], sums[plane][row]);
        } else {
          clear_sums(sums[plane][row]);
        }
      }
    }
  }

  /// The update's inputs for a thread's rows of a plane.
  struct PlaneInputs {
    PointInputs<Stencil, outputs> rows[rows_per_thread];

    template <bool inside>
    SPIDER_DEVICE void load(const UpdateArguments& field, const PointPlace& place, int rows_left,
                            const OutputClip& clip) {
      SPIDER_UNROLL
      for (int k = 0; k < rows_per_thread; ++k) {
        const bool wanted = inside || k < rows_left;
        rows[k].load(field, {place.z, place.y + k, place.x}, wanted && (inside || clip.whole),
                     wanted ? clip.single : 0);
      }
    }

    /// The same with points in shared memory, once they have arrived: the plane of the queue and the row of
    /// the ring at these places. Outputs that are not stored together read their inputs from memory.
    template <bool inside>
    SPIDER_DEVICE void load_kept(const UpdateArguments& field, const PointPlace& place, int rows_left,
                                 const OutputClip& clip, Shared queued, int row, int column, Shared in_ring) {
      SPIDER_UNROLL
      for (int k = 0; k < rows_per_thread; ++k) {
        if (inside || (clip.whole && k < rows_left)) {
          Queue::load(queued, row + k, column, rows[k]);
        } else {
          rows[k].load_fields(field, {place.z, place.y + k, place.x}, false, k < rows_left ? clip.single : 0,
                              typename Stencil::FurtherFields{});
        }
        if constexpr (Stencil::reads_input)
          load_shared_neighbours<Cells, outputs>(in_ring + k * Stencil::ring_row_bytes, rows[k].input);
      }
    }

    SPIDER_DEVICE void update(const UpdateArguments& field, const PointPlace& place,
                              RowSums (&sums)[rows_per_thread]) const {
      SPIDER_UNROLL
      for (int k = 0; k < rows_per_thread; ++k)
        rows[k].update(field, {place.z, place.y + k, place.x}, sums[k]);
    }

    /// Starts the copies of a plane into the queue, of rows before `rows_left`.
    SPIDER_DEVICE static void queue(const UpdateArguments& field, const PointPlace& place, int rows_left,
                                    Shared to, int row, int column) {
      SPIDER_UNROLL
      for (int k = 0; k < rows_per_thread; ++k) {
        Queue::start(field, {place.z, place.y + k, place.x}, k < rows_left, to, row + k, column);
      }
    }

    /// Prefetches to L2 the cells that a later load takes.
    SPIDER_DEVICE static void prefetch(const UpdateArguments& field, const PointPlace& place) {
      SPIDER_UNROLL
      for (int k = 0; k < rows_per_thread; ++k)
        PointInputs<Stencil, outputs>::prefetch(field, {place.z, place.y + k, place.x});
    }
  };
  struct NoInputs {};

  /// Walks along z, one group of planes after the other.
  template <Path path>
  SPIDER_DEVICE static void walk_planes(const ArgumentsOf<Stencil>& field, const Block& block) {
    constexpr bool inside = path == Path::interior;
    constexpr bool updates = HasUpdate<Stencil>::value;
    constexpr int planes_ahead = Ring::planes_ahead;
    constexpr Shared group_bytes = planes_at_once * Ring::ring_plane_bytes;
    // Not every cell of every plane is copied: cells that no stored result needs are added as they are.
    const Span regular = Planes::regular_steps(block);
    if (!inside || regular.begin > 0 || regular.end < block.steps) Planes::clear();
    typename Planes::template Supply<path> supply(block, regular);
    constexpr Shared last_group = (Ring::ring_planes - planes_at_once) * Ring::ring_plane_bytes;
    const auto place_behind = [](Shared place) { return place == last_group ? 0 : place + group_bytes; };
    SPIDER_NO_UNROLL
    for (int group = 0; group < groups_ahead; ++group)
      supply.start(field, block, group * planes_at_once, static_cast<Shared>(group) * group_bytes);
    supply.place_edges(block, 0, 0);

    const int column =
        device::warp_index() % Stencil::warps_across * warp_columns + device::lane_index() * outputs;
    const int row = device::warp_index() / Stencil::warps_across * rows_per_thread;
    const std::int32_t x = block.left + Planes::left_columns + column;
    const std::int32_t y = block.top - row_low + row;
    const std::int32_t rows_left = block.box[1].end - y;
    const OutputClip clip =
        clip_outputs<outputs>(x, block.box[2].begin, block.box[2].end, field.aligned_output);
    Element* next_output =
        static_cast<Element*>(field.output) +
        ((block.first_output - lead_planes) * field.output_stride[0] + y * field.output_stride[1] + x);
    const Shared own =
        Stencil::ring_lead_bytes + row * Stencil::ring_row_bytes + column * Cells::element_bytes;

    [[maybe_unused]] const auto place_of = [&](int step) {
      return PointPlace{block.first_output - lead_planes + step, y, x};
    };
    [[maybe_unused]] std::conditional_t<updates, PlaneInputs, NoInputs> points;
    if constexpr (updates && lead_planes == 0 && !keeps_points)
      points.template load<inside>(field, place_of(0), rows_left, clip);

    Sums sums = {};
    Shared next_place =
        planes_ahead * Ring::ring_plane_bytes;          // place of the next group; the oldest one follows it
    [[maybe_unused]] Shared next_queued = Queue::last;  // the same in the queue
    SPIDER_NO_UNROLL
    for (int first_step = 0; first_step < block.steps; first_step += planes_at_once) {
      Shared newest = place_behind(next_place);
      if constexpr (kept_planes > 0) {
        newest += kept_planes * Ring::ring_plane_bytes;
        if (newest > last_group) newest -= last_group + group_bytes;
      }
      device::copy_async_wait<groups_ahead - 1>();
      for (int i = 0; i < planes_at_once; ++i)
        supply.settle(field, block, first_step + i, newest + i * Ring::ring_plane_bytes);
      device::sync_block();
      if constexpr (keeps_points) {
        const int step = first_step + groups_ahead;
        const bool wanted = step >= lead_planes && step < block.steps && (inside || clip.whole);
        PlaneInputs::queue(field, place_of(step), wanted ? rows_left : 0, next_queued, row, column);
        next_queued = next_queued == Queue::last ? Queue::begin : next_queued + Queue::plane_bytes;
      }
      supply.start(field, block, first_step + planes_ahead, next_place);
      next_place = place_behind(next_place);
      supply.place_edges(block, first_step + planes_at_once, place_behind(newest));
      SPIDER_UNROLL
      for (int i = 0; i < planes_at_once; ++i) {
        const int step = first_step + i;
        if (i > 0 && step >= block.steps) break;
        add_plane(newest + i * Ring::ring_plane_bytes + own, sums,
                  std::make_integer_sequence<int, input_rows>{});
        // The first lead_planes planes to complete belong to the walk before.
        if constexpr (updates) {
          if constexpr (keeps_points) {
            if (step >= lead_planes) {
              points.template load_kept<inside>(
                  field, place_of(step), rows_left, clip, next_queued, row, column,
                  next_place + own - static_cast<Shared>(row_low * Stencil::ring_row_bytes));
            }
          }
          if (step >= lead_planes) points.update(field, place_of(step), sums[0]);
        }
        if (step >= lead_planes) {
          SPIDER_UNROLL
          for (int k = 0; k < rows_per_thread; ++k) {
            store_outputs<Cells, inside, updates>(next_output + k * field.output_stride[1],
                                                  inside || k < rows_left, clip, sums[0][k][0]);
          }
        }
        next_output += field.output_stride[0];
        // Requested a step ahead, update inputs arrive while the next plane is added.
        if constexpr (updates && !keeps_points) {
          if (step + 1 >= lead_planes && step + 1 < block.steps)
            points.template load<inside>(field, place_of(step + 1), rows_left, clip);
          if (inside && step + 3 >= lead_planes && step + 3 < block.steps)
            PlaneInputs::prefetch(field, place_of(step + 3));
        }
        move_sums(sums);
      }
    }
  }
};

template <class Stencil>
constexpr SweepForm cores3d_form() {
  using Kernel = Cores3d<Stencil>;
  SweepForm form{sweep_cores3d<Stencil>,
                 {TilingKind::blocks,
                  Kernel::warps_per_block,
                  Kernel::Planes::bytes + Kernel::Queue::bytes,
                  16,
                  Kernel::vector_bytes,
                  {1, Kernel::block_rows, Kernel::block_columns},
                  0,
                  0,
                  Kernel::column_anchor,
                  Kernel::lead_planes,
                  Stencil::preferred_planes}};
  form.needs_aligned_rows = Kernel::keeps_points;
  form.tiling.tells_rims = tells_rims;
  return form;
}

}  // namespace device_4
}  // namespace spider
