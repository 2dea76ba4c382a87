/// Many time steps of a 1D stencil in one sweep, in registers, on CUDA cores.
///
/// A warp has a strip of 32 x columns columns, `columns` neighbours a lane, and takes all steps, with the
/// cells of neighbouring lanes from shuffles. Strips overlap by the columns that all steps reach on each
/// side, whose results are not exact and are not stored. If a face that is neither `halo` nor `periodic` lies
/// in a strip, its ghost cells are filled before every step, through shared memory. Their places are found
/// before the first step: registers used within a step would be used by all strips.
///
/// A `Stencil` has, as static members:
/// - Cells: of spider/values/cells.h;
/// - columns of a lane, steps of a sweep, warps of a block;
/// - column_low, column_high: lowest and highest offset of a tap, at most and at least 0;
/// - weight(dx), of several sums sum_count and weight(sum, dx); last: the factor of results, so that the
///   weights have the right sum;
/// - column_rules(): the boundary; values are numbers, whatever the cells are.
/// Where it is Updated (spider/sums/update.h), the update replaces each step's sums by its results; further
/// fields wait in registers. Then `last` is 1. Where it reads `previous`, strips have two rows, and both are
/// stored.
#pragma once

#include <spider/field/boundary.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>
#include <spider/steps/stepped_points.h>
#include <spider/steps/stepping.h>
#include <spider/sums/update.h>
#include <spider/values/cells.h>
#include <spider/values/words.h>

#include <cstdint>
#include <type_traits>

namespace spider {
inline namespace device_4 {

template <class Stencil>
struct Stepping1d;

template <class Stencil>
SPIDER_GLOBAL(Stencil::warps * 32, 1)
sweep_stepping1d(const ArgumentsOf<Stencil> field) {
  SPIDER_ENTRY;
  using Kernel = Stepping1d<Stencil>;
  typename Kernel::Strip strip;
  if (!Kernel::find_strip(field, strip)) return;
  if (strip.at_face) {
    Kernel::template run<true>(field, strip);
  } else {
    Kernel::template run<false>(field, strip);
  }
}

template <class Stencil>
struct Stepping1d {
  using Cells = typename Stencil::Cells;
  using Element = typename Cells::Element;
  using Arguments = ArgumentsOf<Stencil>;
  using Number = typename Cells::Number;
  using Numbers = NumberCells<Cells>;
  static constexpr int vector_bytes = 16;
  static constexpr int vector_elements = vector_bytes / Cells::element_bytes;
  static constexpr int columns = Stencil::columns;
  static constexpr int steps = Stencil::steps;
  static constexpr int warps = Stencil::warps;
  static constexpr int rx =
      Stencil::column_high > -Stencil::column_low ? Stencil::column_high : -Stencil::column_low;
  static constexpr int width = 32 * columns;
  static constexpr int lost = (steps * rx + vector_elements - 1) / vector_elements * vector_elements;
  static constexpr int useful = width - 2 * lost;
  static_assert(columns % vector_elements == 0 && columns >= rx, "lanes have whole vectors");
  static_assert(useful > 0, "strips have outputs");
  static_assert(2 * rx <= 32, "a lane for each cell beyond faces that a tap leads to");
  static constexpr auto rules = Stencil::column_rules();
  /// A warp's shared memory: a strip, then constants, one for each cell that a tap reaches outside a face.
  static constexpr int warp_cells = width + 2 * rx;
  static constexpr int shared_bytes = warps * warp_cells * Numbers::element_bytes;

  using Row = Number[columns];
  static constexpr int sum_count = SumsOf<Stencil>::count;
  /// The sums of all columns; the first become the results.
  using Sums = OutputSums<Stencil, columns>;
  static constexpr bool reads_before = UpdateReads<Stencil>::before;
  static constexpr int point_fields = UpdateReads<Stencil>::fields;

  struct Strip {
    std::int64_t cols;  ///< of the field
    std::int64_t x0;    ///< the strip's first column
    FarSpan readable, stored;
    FarSpan points;     ///< where further fields can be read
    bool plain_points;  ///< all of them in vectors
    bool plain;         ///< all its columns can be read in vectors
    bool at_face;       ///< some cell of it is outside a face at which the field ends
  };

  SPIDER_DEVICE static bool find_strip(const SweepArguments& f, Strip& s) {
    const std::int64_t begin = f.box.offset[2];
    const std::int64_t end = begin + f.box.extent[2];
    const std::int64_t index = std::int64_t{device::block_index()} * warps + device::warp_index();
    const std::int64_t first = begin / vector_elements * vector_elements + index * useful;
    if (first >= end) return false;
    s.cols = f.extent[2];
    s.x0 = first - lost;
    s.stored = {first > begin ? first : begin, first + useful < end ? first + useful : end};
    constexpr auto of_field = Stencil::column_rules();
    s.readable = find_points(of_field,
                             find_readable(of_field, {begin, end}, steps * Stencil::column_low,
                                           steps * Stencil::column_high, s.cols),
                             s.cols);
    const std::int64_t behind = s.x0 + width;
    s.plain = f.aligned_input && s.x0 >= s.readable.begin && behind <= s.readable.end &&
              (rules.low != FaceRule::periodic || (s.x0 >= 0 && behind <= s.cols));
    if constexpr (point_fields > 0) {
      constexpr int later = steps - 1;
      s.points = find_points(of_field,
                             find_readable(of_field, {begin, end}, later * Stencil::column_low,
                                           later * Stencil::column_high, s.cols),
                             s.cols);
      s.plain_points = f.aligned_output && s.x0 >= s.points.begin && behind <= s.points.end &&
                       (rules.low != FaceRule::periodic || (s.x0 >= 0 && behind <= s.cols));
    }
    s.at_face = (!is_open(rules.low) && s.x0 < 0) || (!is_open(rules.high) && behind > s.cols);
    return true;
  }

  SPIDER_DEVICE static void load_row(const Strip& s, const void* field, bool plain, Row& u) {
    const auto* const row = static_cast<const Element*>(field);
    const std::int64_t x = s.x0 + device::lane_index() * columns;
    if (plain) {
      SPIDER_UNROLL
      for (int i = 0; i < columns / vector_elements; ++i) {
        const device::Vector v = device::load_field_vector(row + (x + i * vector_elements));
        SPIDER_UNROLL
        for (int j = 0; j < vector_elements; ++j) {
          const auto word = word_of<typename Cells::Word>(v, j / Cells::per_word);
          u[vector_elements * i + j] = Cells::number(word, j % Cells::per_word);
        }
      }
    } else {
      constexpr auto of_field = Stencil::column_rules();
      std::int64_t from = wrap_index(of_field, x, s.cols);
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        u[c] = Cells::number(device::load_field_if(s.readable.holds(x + c), row + from, Element{}), 0);
        from = rules.low == FaceRule::periodic && from + 1 == s.cols ? 0 : from + 1;
      }
    }
  }

  /// Inputs of the update of a lane's points.
  struct FieldRow {
    PointInputs<Stencil, vector_elements> piece[columns / vector_elements];
  };
  struct NoFields {};
  using Points = std::conditional_t<(point_fields > 0), FieldRow, NoFields>;

  SPIDER_DEVICE static void load_points(const Arguments& f, const Strip& s, Points& points) {
    if constexpr (point_fields > 0) {
      constexpr auto of_field = Stencil::column_rules();
      constexpr typename Stencil::FurtherFields fields{};
      const std::int64_t x = s.x0 + device::lane_index() * columns;
      SPIDER_UNROLL
      for (int i = 0; i < columns / vector_elements; ++i) {
        if (s.plain_points) {
          points.piece[i].load_fields(f, {0, 0, x + i * vector_elements}, true, 0, fields);
        } else {
          SPIDER_UNROLL
          for (int j = 0; j < vector_elements; ++j) {
            const std::int64_t from = find_point(of_field, s.points, x + i * vector_elements + j, s.cols);
            points.piece[i].put_fields(f, {0, 0, from}, j, fields);
          }
        }
      }
    }
  }

  /// Replaces a step's sums by its results.
  SPIDER_DEVICE static void update_row(const Arguments& f, const Strip& s, const Points& points, const Row& u,
                                       [[maybe_unused]] const Row& before, Sums& sums) {
    constexpr auto of_field = Stencil::column_rules();
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) {
      const std::int64_t x = s.x0 + device::lane_index() * columns + c;
      UpdatePointOf<Number> point{f, {0, 0, place_in_whole(of_field, f, 2, x)}, u[c], {}, {}};
      SPIDER_UNROLL
      for (int i = 0; i < sum_count; ++i) point.sums[i] = sums[i][c];
      if constexpr (point_fields > 0) {
        points.piece[c / vector_elements].find_numbers(c % vector_elements, point.field,
                                                       typename Stencil::FurtherFields{});
      }
      if constexpr (reads_before) point.before = before[c];
      sums[0][c] = Stencil::update(point);
    }
  }

  SPIDER_DEVICE static device::Shared place_of(int cell) {
    return static_cast<device::Shared>(Numbers::element_bytes * (device::warp_index() * warp_cells + cell));
  }

  /// A lane's columns lie 32 cells apart, so that no lane waits for another.
  SPIDER_DEVICE static device::Shared place_in_strip(std::int64_t column) {
    const int c = static_cast<int>(column);
    return place_of(c % columns * 32 + c / columns);
  }

  /// A lane's cell of the strip outside a face at which the field ends, within the reach of a tap, and the
  /// place of its value; equal places mean none.
  struct Beyond {
    device::Shared to = 0;
    device::Shared from = 0;
  };

  SPIDER_DEVICE static Beyond find_beyond(const Strip& s) {
    constexpr auto of_field = Stencil::column_rules();
    const int i = device::lane_index();
    const std::int64_t x = i < rx ? i - rx : s.cols + (i - rx);
    const std::int64_t to = x - s.x0;
    if (i >= 2 * rx || to < 0 || to >= width || holds_index(of_field, x, s.cols)) return {};
    const auto found = find_far_index(of_field, x, s.cols);
    const std::int64_t from = found.index - s.x0;
    if (found.constant) {
      const device::Shared own = place_of(width + i);
      device::store_shared(own, found.value);
      return {place_in_strip(to), own};
    }
    if (from < 0 || from >= width) return {};
    return {place_in_strip(to), place_in_strip(from)};
  }

  SPIDER_DEVICE static void fill_beyond(const Beyond& beyond, Row& u) {
    const int first = device::lane_index();
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) device::store_shared(place_of(first + 32 * c), device::bits_of(u[c]));
    device::sync_warp();
    if (beyond.to != beyond.from)
      device::store_shared(beyond.to, device::bits_of(load_number<Numbers>(beyond.from)));
    device::sync_warp();
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) u[c] = load_number<Numbers>(place_of(first + 32 * c));
  }

  template <bool at_face>
  SPIDER_DEVICE static void take_step(const Arguments& f, const Strip& s, const Beyond& beyond,
                                      const Points& points, Row& u, const Row& before, Sums& next) {
    if constexpr (at_face) fill_beyond(beyond, u);
    Number left[rx > 0 ? rx : 1]{};   // left[d] is column -1 - d
    Number right[rx > 0 ? rx : 1]{};  // right[d] is column columns + d
    SPIDER_UNROLL
    for (int d = 0; d < rx; ++d) {
      left[d] = take_number<Numbers>(u[columns - 1 - d], device::lane_index() + 31);
      right[d] = take_number<Numbers>(u[d], device::lane_index() + 1);
    }
    SPIDER_UNROLL
    for (int i = 0; i < sum_count; ++i) {
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        Number sum = 0;
        SPIDER_UNROLL
        for (int dx = -rx; dx <= rx; ++dx) {
          const int at = c + dx;
          const Number value = at < 0 ? left[at < 0 ? -1 - at : 0]
                                      : (at >= columns ? right[at >= columns ? at - columns : 0]
                                                       : u[at >= 0 && at < columns ? at : 0]);
          const Number weight = weight_of<Stencil>(i, dx);
          if (weight != 0) sum = device::multiply_add(weight, value, sum);
        }
        next[i][c] = sum;
      }
    }
    if constexpr (HasUpdate<Stencil>::value) update_row(f, s, points, u, before, next);
  }

  SPIDER_DEVICE static void store_row(const SweepArguments& f, const Strip& s, void* field, Row& u) {
    const std::int64_t x = s.x0 + device::lane_index() * columns;
    Element* const to = static_cast<Element*>(field) + x;
    SPIDER_UNROLL
    for (int c = 0; c < columns; ++c) u[c] *= Stencil::last;
    SPIDER_UNROLL
    for (int i = 0; i < columns / vector_elements; ++i) {
      const std::int64_t begin = x + i * vector_elements;
      if (f.aligned_output && begin >= s.stored.begin && begin + vector_elements <= s.stored.end) {
        device::Vector v;
        SPIDER_UNROLL
        for (int j = 0; j < vector_elements / Cells::per_word; ++j)
          put_word(v, j, Cells::word(u + vector_elements * i + Cells::per_word * j));
        device::store_field_vector(to + vector_elements * i, v);
      } else {
        SPIDER_UNROLL
        for (int j = 0; j < vector_elements; ++j) {
          device::store_field_if(s.stored.holds(begin + j), to + (vector_elements * i + j),
                                 Cells::cell(u[vector_elements * i + j]));
        }
      }
    }
  }

  /// All steps, if each reads the one before, too.
  template <bool at_face>
  SPIDER_DEVICE static void take_steps_of_two(const Arguments& f, const Strip& s, const Beyond& beyond,
                                              const Points& points, Row& u) {
    Row before;
    Sums next;
    load_row(s, f.before, s.plain && f.aligned_output, before);
    SPIDER_NO_UNROLL
    for (int k = 0; k < steps; ++k) {
      take_step<at_face>(f, s, beyond, points, u, before, next);
      SPIDER_UNROLL
      for (int c = 0; c < columns; ++c) {
        before[c] = u[c];
        u[c] = next[0][c];
      }
    }
    store_row(f, s, f.output, u);
    if constexpr (steps > 1) store_row(f, s, f.output_before, before);
  }

  template <bool at_face>
  SPIDER_DEVICE static void run(const Arguments& f, const Strip& s) {
    Sums u;
    Points points{};
    load_points(f, s, points);
    load_row(s, f.input, s.plain, u[0]);
    const Beyond beyond = at_face ? find_beyond(s) : Beyond{};
    if constexpr (reads_before) {
      take_steps_of_two<at_face>(f, s, beyond, points, u[0]);
    } else {
      take_steps<at_face>(f, s, beyond, points, u);
    }
  }

  template <bool at_face>
  SPIDER_DEVICE static void take_steps(const Arguments& f, const Strip& s, const Beyond& beyond,
                                       const Points& points, Sums& u) {
    Sums next;
    SPIDER_NO_UNROLL
    for (int k = 0; k + 1 < steps; k += 2) {
      take_step<at_face>(f, s, beyond, points, u[0], u[0], next);
      take_step<at_face>(f, s, beyond, points, next[0], next[0], u);
    }
    if constexpr (steps % 2 != 0) {
      take_step<at_face>(f, s, beyond, points, u[0], u[0], next);
      store_row(f, s, f.output, next[0]);
    } else {
      store_row(f, s, f.output, u[0]);
    }
  }
};

template <class Stencil>
constexpr SweepForm stepping1d_form() {
  using Kernel = Stepping1d<Stencil>;
  SweepForm form{sweep_stepping1d<Stencil>,
                 {TilingKind::lines,
                  Stencil::warps,
                  Kernel::shared_bytes,
                  Kernel::vector_bytes,
                  Kernel::vector_bytes,
                  {1, 1, Kernel::useful},
                  0,
                  0,
                  Kernel::vector_elements}};
  form.steps = Stencil::steps;
  return form;
}

}  // namespace device_4
}  // namespace spider
