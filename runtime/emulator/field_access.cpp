#include "field_access.h"

#include <algorithm>

#include "violation.h"

namespace spider::emulator {

namespace {

std::int64_t floor_divide(std::int64_t value, std::int64_t divisor) {
  return value / divisor - (value % divisor < 0 ? 1 : 0);
}

struct Cell {
  std::int64_t y, x;
};

/// The cell at an offset from the first interior element, whichever row's interior it is nearest to.
Cell cell_at(std::int64_t offset, std::int64_t stride, std::int64_t columns) {
  if (stride <= 0 || stride < columns) return {0, offset};  // one row: its stride means nothing
  const std::int64_t y = floor_divide(offset + (stride - columns) / 2, stride);
  return {y, offset - y * stride};
}

std::string name(const Cell& cell) {
  return "(y = " + std::to_string(cell.y) + ", x = " + std::to_string(cell.x) + ")";
}

/// In elements. Through integers, since the address may lie outside the field.
std::int64_t offset_of(const std::uint16_t* cell, const std::uint16_t* origin) {
  const auto bytes = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(cell) -
                                               reinterpret_cast<std::uintptr_t>(origin));
  return floor_divide(bytes, sizeof(std::uint16_t));
}

void check_alignment(const std::uint16_t* cell, int count, const char* verb) {
  const std::uintptr_t size = sizeof(std::uint16_t) * static_cast<std::uintptr_t>(count);
  if (reinterpret_cast<std::uintptr_t>(cell) % size != 0) {
    throw Violation(std::string(verb) + " " + std::to_string(size) +
                    " bytes of a field at an address that is no multiple of " + std::to_string(size));
  }
}

}  // namespace

FieldAccess::FieldAccess(const spider_kernel& kernel, const SweepArguments& arguments)
    : arguments_(arguments),
      written_(static_cast<std::size_t>(arguments.rows) * static_cast<std::size_t>(arguments.columns)) {
  for (std::int64_t y = 0; y < arguments_.rows; ++y) add_input_cells(y, 0, arguments_.columns - 1);
  for (std::int32_t i = 0; i < kernel.tap_row_count; ++i) add_tap_row(kernel.tap_rows[i], kernel);
  merge_ranges();
}

void FieldAccess::add_input_cells(std::int64_t y, std::int64_t first_x, std::int64_t last_x) {
  if (first_x > last_x) return;
  const std::int64_t row = y * arguments_.input_stride;
  readable_.push_back({row + first_x, row + last_x});
}

void FieldAccess::add_tap_row(const TapRow& taps, const spider_kernel& kernel) {
  const std::int64_t rows = arguments_.rows;
  const std::int64_t columns = arguments_.columns;
  const FaceRule low_rule = kernel.faces[2][0].rule;
  const FaceRule high_rule = kernel.faces[2][1].rule;
  std::int64_t first_x = taps.low;
  std::int64_t last_x = columns - 1 + taps.high;
  if (low_rule == FaceRule::nearest) last_x = std::max<std::int64_t>(last_x, 0);
  if (low_rule != FaceRule::halo) first_x = std::max<std::int64_t>(first_x, 0);
  if (high_rule == FaceRule::nearest) first_x = std::min(first_x, columns - 1);
  if (high_rule != FaceRule::halo) last_x = std::min(last_x, columns - 1);

  for (std::int64_t y = taps.dy; y < rows + taps.dy; ++y) {
    const bool inside = y >= 0 && y < rows;
    const FaceRule rule = inside ? FaceRule::halo : kernel.faces[1][y < 0 ? 0 : 1].rule;
    if (rule == FaceRule::constant) continue;
    add_input_cells(rule == FaceRule::nearest ? std::clamp<std::int64_t>(y, 0, rows - 1) : y, first_x,
                    last_x);
  }
}

void FieldAccess::merge_ranges() {
  std::sort(readable_.begin(), readable_.end(),
            [](const Range& a, const Range& b) { return a.first < b.first; });
  std::size_t last = 0;
  for (const Range& range : readable_) {
    if (range.first <= readable_[last].last + 1) {
      readable_[last].last = std::max(readable_[last].last, range.last);
    } else {
      readable_[++last] = range;
    }
  }
  readable_.resize(last + 1);
}

void FieldAccess::check_input(const std::uint16_t* cell, int count, const char* verb) const {
  check_alignment(cell, count, verb);
  const std::int64_t first = offset_of(cell, arguments_.input);
  const auto after =
      std::upper_bound(readable_.begin(), readable_.end(), first,
                       [](std::int64_t value, const Range& range) { return value < range.first; });
  const std::int64_t readable_to = after == readable_.begin() ? first - 1 : std::prev(after)->last;
  if (first + count - 1 <= readable_to) return;
  const std::int64_t culprit = std::max(first, readable_to + 1);
  throw Violation(std::string(verb) + " input cell " +
                  name(cell_at(culprit, arguments_.input_stride, arguments_.columns)) +
                  ", outside the field and its halo");
}

void FieldAccess::note_output(const std::uint16_t* cell, int count) {
  check_alignment(cell, count, "writes");
  const std::int64_t first = offset_of(cell, arguments_.output);
  const std::int64_t stride = arguments_.rows == 1 ? 0 : arguments_.output_stride;
  for (std::int64_t offset = first; offset < first + count; ++offset) {
    const Cell at = cell_at(offset, stride, arguments_.columns);
    if (at.y < 0 || at.y >= arguments_.rows || at.x < 0 || at.x >= arguments_.columns) {
      throw Violation("writes output cell " + name(at) + ", outside the field");
    }
    if (written_[static_cast<std::size_t>(at.y * arguments_.columns + at.x)].exchange(
            1, std::memory_order_relaxed) != 0) {
      throw Violation("writes output cell " + name(at) + " a second time");
    }
  }
}

std::optional<std::string> FieldAccess::missing_output() const {
  std::int64_t missing = 0;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < written_.size(); ++i) {
    if (written_[i].load(std::memory_order_relaxed) == 0 && missing++ == 0)
      first = static_cast<std::int64_t>(i);
  }
  if (missing == 0) return std::nullopt;
  return "output cell " + name({first / arguments_.columns, first % arguments_.columns}) +
         " was never written (" + std::to_string(missing) + " of " + std::to_string(written_.size()) +
         " cells were not)";
}

}  // namespace spider::emulator
