#include "reference.h"

#include <spider/spider.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <stdexcept>

#include "storage.h"

namespace bench {
namespace {

constexpr std::int64_t rim = 32;

/// Where a coordinate beyond a face is taken from: another coordinate, or nowhere, the value being constant.
struct Mapped {
  std::int64_t coordinate;
  bool is_constant = false;
  double value = 0;
  double sign = 1;  ///< of what lies there
};

/// The rule of the face that was crossed, again and again until the coordinate is inside or meets a constant
/// or a halo.
Mapped map_axis(const std::array<spider::Face, 2>& faces, std::int64_t i, std::int64_t extent) {
  double sign = 1;
  while (i < 0 || i >= extent) {
    const spider::Face& face = faces[i < 0 ? 0 : 1];
    switch (face.rule) {
      case spider::FaceRule::halo:
        return {i, false, 0, sign};  // in memory
      case spider::FaceRule::constant:
        return {i, true, sign * static_cast<double>(face.value)};
      case spider::FaceRule::nearest:
        return {i < 0 ? 0 : extent - 1, false, 0, sign};
      case spider::FaceRule::periodic:
        i += i < 0 ? extent : -extent;
        break;
      case spider::FaceRule::reflect:  // the face lies between two cells
        i = i < 0 ? -1 - i : 2 * extent - 1 - i;
        break;
      case spider::FaceRule::mirror:  // the face is the middle of its cell
        if (extent == 1) return {0, false, 0, sign};
        i = i < 0 ? -i : 2 * extent - 2 - i;
        break;
      case spider::FaceRule::antisymmetric:
        if (i == -1 || i == extent) return {0, true, 0};
        i = i < 0 ? -2 - i : 2 * extent - i;
        sign = -sign;
        break;
      default:
        throw std::invalid_argument("a boundary rule that spider-bench does not know");
    }
  }
  return {i, false, 0, sign};
}

/// Axes are extended z, y, x: where two constants meet, the faster axis gives the value.
double read_cell(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell,
                 const Extents& at) {
  Extents source{};
  double sign = 1;
  for (std::size_t axis : {2, 1, 0}) {
    const Mapped mapped = map_axis(stencil.faces[axis], at[axis], layout.extents[axis]);
    if (mapped.is_constant) return sign * mapped.value;
    sign *= mapped.sign;
    source[axis] = mapped.coordinate;
  }
  return sign * cell(layout.index(source[0], source[1], source[2]));
}

/// error / bound, where no error is 0 of any bound, and NaN is infinitely far off.
double of_bound(double error, double bound) {
  if (error == 0) return 0;
  return std::isnan(error) || bound == 0 ? std::numeric_limits<double>::infinity() : error / bound;
}

}  // namespace

Stencil stencil_of(const spider_kernel& kernel) {
  Stencil stencil;
  stencil.steps = kernel.info.steps;
  stencil.taps.assign(kernel.taps, kernel.taps + kernel.tap_count);
  for (std::size_t axis = 0; axis < 3; ++axis) {
    for (std::size_t side = 0; side < 2; ++side) stencil.faces[axis][side] = kernel.faces[axis][side];
  }
  return stencil;
}

Stencil identity_stencil() {
  return {{{0, 0, 0, 1.0}}, {}, 1};
}

Stencil zero_padded(const Stencil& stencil, int storage) {
  Stencil padded = stencil;
  for (spider::Tap& tap : padded.taps) tap.weight = round_to_storage(storage, tap.weight);
  for (auto& axis : padded.faces) axis.fill({spider::FaceRule::constant, 0.0F});
  return padded;
}

namespace {

/// The cells that all steps reach from a point, and what a step makes of those that it still needs.
class Window {
 public:
  Window(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell, const Extents& point)
      : stencil_(stencil), layout_(layout), point_(point) {
    for (const spider::Tap& tap : stencil.taps) {
      const Extents offset{tap.dz, tap.dy, tap.dx};
      for (std::size_t axis = 0; axis < 3; ++axis)
        radius_[axis] = std::max(radius_[axis], std::abs(offset[axis]));
    }
    for_all(0, [&](const Extents& at) {
      const double value =
          read_cell(stencil, layout, cell, {point[0] + at[0], point[1] + at[1], point[2] + at[2]});
      cells_.push_back({value, std::fabs(value)});
      largest_ = std::max(largest_, std::fabs(value));
    });
  }

  /// The point after all steps.
  Exact step_all() {
    for (int step = 1; step <= stencil_.steps; ++step) {
      std::vector<Exact> next = cells_;
      for_all(step, [&](const Extents& at) { next[place(at)] = step_cell(at); });
      cells_ = std::move(next);
    }
    Exact exact = cells_[place({0, 0, 0})];
    for (const spider::Tap& tap : stencil_.taps) exact.largest += std::fabs(tap.weight) * largest_;
    return exact;
  }

 private:
  [[nodiscard]] std::int64_t far(std::size_t axis) const { return radius_[axis] * stencil_.steps; }

  /// Cells around the point that are needed after so many steps, ascending.
  template <class Visit>
  void for_all(int steps, Visit visit) const {
    const auto needed = [&](std::size_t axis) { return far(axis) - steps * radius_[axis]; };
    for (std::int64_t z = -needed(0); z <= needed(0); ++z) {
      for (std::int64_t y = -needed(1); y <= needed(1); ++y) {
        for (std::int64_t x = -needed(2); x <= needed(2); ++x) visit(Extents{z, y, x});
      }
    }
  }

  [[nodiscard]] std::size_t place(const Extents& at) const {
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) index = index * (2 * far(axis) + 1) + at[axis] + far(axis);
    return static_cast<std::size_t>(index);
  }

  /// Cells beyond a periodic or halo face are stepped like others; elsewhere the rule says where they are
  /// taken from.
  [[nodiscard]] Mapped map(std::size_t axis, std::int64_t at) const {
    const auto& faces = stencil_.faces[axis];
    const std::int64_t extent = layout_.extents[axis];
    const spider::FaceRule rule = faces[at < 0 ? 0 : 1].rule;
    if ((at >= 0 && at < extent) || rule == spider::FaceRule::periodic) return {at};
    return map_axis(faces, at, extent);
  }

  [[nodiscard]] Exact step_cell(const Extents& at) const {
    Exact sum{0, 0};
    for (const spider::Tap& tap : stencil_.taps) {
      const Extents offset{tap.dz, tap.dy, tap.dx};
      Extents from{};
      bool is_constant = false;
      bool is_known = true;
      Exact cell{0, 0};
      for (std::size_t axis = 0; axis < 3; ++axis) {
        const Mapped mapped = map(axis, point_[axis] + at[axis] + offset[axis]);
        from[axis] = mapped.coordinate - point_[axis];
        if (mapped.is_constant) {  // where two meet, the faster axis gives the value
          is_constant = true;
          cell.value = mapped.value;
        } else if (std::abs(from[axis]) > far(axis)) {
          is_known = false;  // of a cell beyond a face, not needed
        }
      }
      if (is_constant) {
        cell.magnitude = static_cast<double>(std::fabs(cell.value));
      } else if (is_known) {
        cell = cells_[place(from)];
      }
      sum.value += tap.weight * cell.value;
      sum.magnitude += std::fabs(tap.weight) * cell.magnitude;
    }
    return sum;
  }

  const Stencil& stencil_;
  const FieldLayout& layout_;
  Extents point_;
  Extents radius_{};
  std::vector<Exact> cells_;
  double largest_ = 0;  ///< of all cells before the first step
};

}  // namespace

Exact exact_at(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell,
               const Extents& point) {
  if (stencil.steps > 1) return Window(stencil, layout, cell, point).step_all();
  Exact exact{0, 0};
  double weights = 0;
  double largest = 0;
  for (const spider::Tap& tap : stencil.taps) {
    const double value =
        read_cell(stencil, layout, cell, {point[0] + tap.dz, point[1] + tap.dy, point[2] + tap.dx});
    const long double product = static_cast<long double>(tap.weight) * value;
    exact.value += product;
    exact.magnitude += static_cast<double>(std::fabs(product));
    weights += std::fabs(tap.weight);
    largest = std::max(largest, std::fabs(value));
  }
  exact.largest = weights * largest;
  return exact;
}

std::vector<Extents> sample_points(const Extents& extents, int count, std::uint64_t seed) {
  std::vector<Extents> points;
  for (unsigned corner = 0; corner < 8; ++corner) {
    Extents point{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      point[axis] = (corner >> axis & 1U) == 0 ? 0 : extents[axis] - 1;
    }
    points.push_back(point);
  }
  std::mt19937_64 random(seed);
  for (int i = 0; i < count; ++i) {
    Extents point{};
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const auto extent = static_cast<std::uint64_t>(extents[axis]);
      const std::uint64_t near = std::min<std::uint64_t>(extent, rim);
      const bool at_rim = i % 4 != 0 && random() % 2 == 0;
      const std::uint64_t from_low = random() % (at_rim ? near : extent);
      point[axis] = static_cast<std::int64_t>(at_rim && random() % 2 == 0 ? extent - 1 - from_low : from_low);
    }
    points.push_back(point);
  }
  return points;
}

double error_bound(const Arithmetic& arithmetic, const Exact& exact) {
  if (arithmetic.exact) return 0;
  const auto magnitude = static_cast<double>(std::fabs(exact.value));
  if (arithmetic.storage == SPIDER_F64 && arithmetic.neighbourhood > 0)
    return 1.001 * arithmetic.neighbourhood * exact.largest + std::ldexp(magnitude, -53);
  if (arithmetic.storage == SPIDER_F64)
    return 1.001 * (arithmetic.chained_products + 1) * std::ldexp(exact.magnitude, -53);
  // To the storage, and before that to f32, where weights have a common factor.
  const double rounding =
      std::ldexp(magnitude, -significant_bits(arithmetic.storage)) + std::ldexp(magnitude, -24);
  const double sums = arithmetic.neighbourhood > 0
                          ? arithmetic.neighbourhood * exact.largest
                          : 1.001 * 18 * arithmetic.chained_products * std::ldexp(exact.magnitude, -23);
  const double split = element_bytes(arithmetic.storage) == 4 ? std::ldexp(exact.magnitude, -20) : 0;
  return rounding + sums + split + 0x1p-25;
}

double largest_relative_l2(int storage) {
  if (storage == SPIDER_F64) return 0x1p-45;
  return std::max(std::ldexp(1e-3, 11 - significant_bits(storage)), 4e-6);
}

Errors compare(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell,
               const Arithmetic& arithmetic, const std::vector<Extents>& points,
               const std::vector<double>& results) {
  Errors errors;
  double error_squares = 0;
  double squares = 0;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const Exact exact = exact_at(stencil, layout, cell, points[i]);
    const auto error = static_cast<double>(std::fabs(results[i] - exact.value));
    const double bound = error_bound(arithmetic, exact);
    errors.worst_of_bound = std::max(errors.worst_of_bound, of_bound(error, bound));
    error_squares += error * error;
    squares += static_cast<double>(exact.value * exact.value);
  }
  errors.relative_l2 = error_squares == 0 ? 0 : std::sqrt(error_squares / squares);
  return errors;
}

}  // namespace bench
