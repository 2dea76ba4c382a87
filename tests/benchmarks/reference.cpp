#include "reference.h"

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
};

/// The rule of the face that was crossed, again and again until the coordinate is inside or meets a constant
/// or a halo.
Mapped map_axis(const std::array<spider::Face, 2>& faces, std::int64_t i, std::int64_t extent) {
  while (i < 0 || i >= extent) {
    const spider::Face& face = faces[i < 0 ? 0 : 1];
    switch (face.rule) {
      case spider::FaceRule::halo:
        return {i};  // in memory
      case spider::FaceRule::constant:
        return {i, true, static_cast<double>(face.value)};
      case spider::FaceRule::nearest:
        return {i < 0 ? 0 : extent - 1};
      case spider::FaceRule::periodic:
        i += i < 0 ? extent : -extent;
        break;
      case spider::FaceRule::reflect:  // the face lies between two cells
        i = i < 0 ? -1 - i : 2 * extent - 1 - i;
        break;
      case spider::FaceRule::mirror:  // the face is the middle of its cell
        if (extent == 1) return {0};
        i = i < 0 ? -i : 2 * extent - 2 - i;
        break;
      default:
        throw std::invalid_argument("a boundary rule that spider-bench does not know");
    }
  }
  return {i};
}

/// Axes are extended z, y, x: where two constants meet, the faster axis gives the value.
double read_cell(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell,
                 const Extents& at) {
  Extents source{};
  for (std::size_t axis : {2, 1, 0}) {
    const Mapped mapped = map_axis(stencil.faces[axis], at[axis], layout.extents[axis]);
    if (mapped.is_constant) return mapped.value;
    source[axis] = mapped.coordinate;
  }
  return cell(layout.index(source[0], source[1], source[2]));
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

/// The cells that all steps reach from a point of a 2D field, and what a step makes of those that it still
/// needs.
class Window {
 public:
  Window(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell, const Extents& point)
      : stencil_(stencil), layout_(layout), point_(point) {
    for (const spider::Tap& tap : stencil.taps)
      radius_ = std::max<std::int64_t>({radius_, std::abs(tap.dy), std::abs(tap.dx)});
    far_ = radius_ * stencil.steps;
    for (std::int64_t y = -far_; y <= far_; ++y) {
      for (std::int64_t x = -far_; x <= far_; ++x) {
        const double value = read_cell(stencil, layout, cell, {0, point[1] + y, point[2] + x});
        cells_.push_back({value, std::fabs(value)});
      }
    }
  }

  /// The point after all steps.
  Exact step_all() {
    for (int step = 1; step <= stencil_.steps; ++step) {
      const std::int64_t needed = far_ - step * radius_;
      std::vector<Exact> next = cells_;
      for (std::int64_t y = -needed; y <= needed; ++y) {
        for (std::int64_t x = -needed; x <= needed; ++x) next[place(y, x)] = step_cell(y, x);
      }
      cells_ = std::move(next);
    }
    return cells_[place(0, 0)];
  }

 private:
  [[nodiscard]] std::size_t place(std::int64_t y, std::int64_t x) const {
    return static_cast<std::size_t>((y + far_) * (2 * far_ + 1) + x + far_);
  }

  /// Cells beyond a periodic or halo face are stepped like others; elsewhere the rule says where they are
  /// taken from.
  [[nodiscard]] Mapped map(int axis, std::int64_t at) const {
    const auto& faces = stencil_.faces[static_cast<std::size_t>(axis)];
    const std::int64_t extent = layout_.extents[static_cast<std::size_t>(axis)];
    const spider::FaceRule rule = faces[at < 0 ? 0 : 1].rule;
    if ((at >= 0 && at < extent) || rule == spider::FaceRule::periodic) return {at};
    return map_axis(faces, at, extent);
  }

  [[nodiscard]] Exact step_cell(std::int64_t y, std::int64_t x) const {
    Exact sum{0, 0};
    for (const spider::Tap& tap : stencil_.taps) {
      const Mapped row = map(1, point_[1] + y + tap.dy);
      const Mapped column = map(2, point_[2] + x + tap.dx);
      Exact cell{0, 0};
      if (row.is_constant || column.is_constant) {
        cell.value = column.is_constant ? column.value : row.value;
        cell.magnitude = std::fabs(cell.value);
      } else {
        const std::int64_t from_y = row.coordinate - point_[1];
        const std::int64_t from_x = column.coordinate - point_[2];
        if (std::max(std::abs(from_y), std::abs(from_x)) > far_)
          continue;  // of a cell beyond a face, not needed
        cell = cells_[place(from_y, from_x)];
      }
      sum.value += tap.weight * cell.value;
      sum.magnitude += std::fabs(tap.weight) * cell.magnitude;
    }
    return sum;
  }

  const Stencil& stencil_;
  const FieldLayout& layout_;
  Extents point_;
  std::int64_t radius_ = 0;
  std::int64_t far_ = 0;
  std::vector<Exact> cells_;
};

}  // namespace

Exact exact_at(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell,
               const Extents& point) {
  if (stencil.steps > 1) return Window(stencil, layout, cell, point).step_all();
  Exact exact{0, 0};
  for (const spider::Tap& tap : stencil.taps) {
    const double product = tap.weight * read_cell(stencil, layout, cell,
                                                  {point[0] + tap.dz, point[1] + tap.dy, point[2] + tap.dx});
    exact.value += product;
    exact.magnitude += std::fabs(product);
  }
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
  // To the storage, and before that to f32, where weights have a common factor.
  const double rounding = std::ldexp(std::fabs(exact.value), -significant_bits(arithmetic.storage)) +
                          std::ldexp(std::fabs(exact.value), -24);
  const double sums = 1.001 * 18 * arithmetic.chained_products * std::ldexp(exact.magnitude, -23);
  const double split = element_bytes(arithmetic.storage) == 4 ? std::ldexp(exact.magnitude, -20) : 0;
  return rounding + sums + split + 0x1p-25;
}

double largest_relative_l2(int storage) {
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
    const double error = std::fabs(results[i] - exact.value);
    const double bound = error_bound(arithmetic, exact);
    errors.worst_of_bound = std::max(errors.worst_of_bound, of_bound(error, bound));
    error_squares += error * error;
    squares += exact.value * exact.value;
  }
  errors.relative_l2 = error_squares == 0 ? 0 : std::sqrt(error_squares / squares);
  return errors;
}

}  // namespace bench
