#pragma once

#include <spider/kernel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace spider::emulator {

/// Which cells of a launch's fields a kernel may touch. Of the input: the interior and what the tap rows
/// reach from it, where a face's rule is `halo` (beyond a `nearest` face a coordinate means the clamped one,
/// beyond a `constant` face no memory at all). Of the output: the interior, each cell exactly once. Every
/// broken rule is a Violation that names the cell. One object serves all threads of a launch.
class FieldAccess {
 public:
  FieldAccess(const spider_kernel& kernel, const SweepArguments& arguments);

  /// `count` neighbouring cells from `cell` are about to be read; `verb` begins the message ("reads").
  void check_input(const std::uint16_t* cell, int count, const char* verb) const;

  /// `count` neighbouring cells from `cell` are about to be written.
  void note_output(const std::uint16_t* cell, int count);

  /// After the launch: says which cell was never written, and how many.
  [[nodiscard]] std::optional<std::string> missing_output() const;

 private:
  /// Cells from the first to the last, as offsets from the first interior element.
  struct Range {
    std::int64_t first, last;
  };

  void add_input_cells(std::int64_t y, std::int64_t first_x, std::int64_t last_x);
  void add_tap_row(const TapRow& taps, const spider_kernel& kernel);
  void merge_ranges();

  SweepArguments arguments_;
  std::vector<Range> readable_;                     // ascending, disjoint, never adjacent
  std::vector<std::atomic<std::uint8_t>> written_;  // by row, then column
};

}  // namespace spider::emulator
