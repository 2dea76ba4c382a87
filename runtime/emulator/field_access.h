#pragma once

#include <spider/kernel.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocations.h"
#include "cell_ranges.h"

namespace spider::emulator {

/// Which cells of a launch's fields a kernel may touch. Input: the launch's boxes, and the cells that tap
/// rows reach from them by the rules of the faces, inside the memory that spider_allocate gave. Output: the
/// boxes, each cell exactly once. Fields that an update reads: the box, and no cell once it is overwritten in
/// place; in a sweep of several steps, the reach of all steps but the first. `previous` of several steps, and
/// the output of the step before: as input and output. Every broken rule is a Violation that names the cell.
/// One object serves all threads of a launch.
class FieldAccess {
 public:
  FieldAccess(const spider_kernel& kernel, const SweepArguments& arguments);
  /// For a launch of several boxes.
  FieldAccess(const spider_kernel& kernel, const BoxesArguments& arguments);

  /// Called before `count` neighbouring cells from `cell` are read; `verb` begins the message ("reads").
  void check_input(const void* cell, int count, const char* verb) const;

  /// Called before `bytes` of neighbouring cells of a further field are read, from `cell` on.
  void check_further(const void* cell, int bytes) const;

  /// Called before `count` neighbouring cells from `cell` are written.
  void note_output(const void* cell, int count);

  /// Bytes of an input cell.
  [[nodiscard]] int element_bytes() const { return element_bytes_; }
  /// Bytes of an output cell.
  [[nodiscard]] int output_bytes() const { return output_bytes_; }

  /// After the launch: names a cell that was never written, and how many there are.
  [[nodiscard]] std::optional<std::string> missing_output() const;

 private:
  struct Cell {
    std::int64_t z, y, x;
  };

  FieldAccess(const spider_kernel& kernel, const SweepArguments& arguments, std::vector<Box> boxes);

  [[nodiscard]] CellRanges columns_of(const TapRow& taps, const Box& box) const;
  void add_tap_row(const TapRow& taps, const std::int64_t (&stride)[2], CellRanges& readable) const;
  [[nodiscard]] bool is_whole() const;
  [[nodiscard]] bool is_wanted(const Cell& at) const;
  /// A further field as an update reads it.
  struct Further {
    FurtherField field;
    int element_bytes;
    bool is_output;
    // In sweeps of several steps:
    CellRanges readable;
    std::optional<Bytes> memory;
  };

  void add_further(const spider_kernel& kernel, const UpdateArguments& arguments);
  /// Adds `previous`, and the output of the step before the last one, as input and output of several steps.
  void add_before(const spider_kernel& kernel, const UpdateArguments& arguments);
  [[nodiscard]] bool reads(const Further& further, const void* cell, int bytes) const;
  [[nodiscard]] std::optional<std::size_t> place_in_box(const Cell& at) const;
  [[nodiscard]] Box frame(const std::int64_t* stride) const;
  [[nodiscard]] Cell cell_at(std::int64_t offset, const std::int64_t* stride) const;
  [[nodiscard]] std::string name(const Cell& cell) const;

  const Face (&faces_)[3][2];
  int dimensions_;
  int element_bytes_;
  int output_bytes_;
  SweepArguments arguments_;
  std::vector<Box> boxes_;  // of the launch, within arguments_.box
  std::vector<Further> further_;
  std::unique_ptr<FieldAccess> before_;             // of sweeps of several steps with `previous`
  std::optional<Bytes> input_memory_;               // if known
  CellRanges readable_;                             // offsets from the first interior element
  std::vector<std::atomic<std::uint8_t>> written_;  // of the box, x fastest
};

}  // namespace spider::emulator
