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

/// Which cells of a launch's fields a kernel may touch. Of the input: the launch's boxes, and what the tap
/// rows reach from them, wherever the faces' rules take that from, inside the memory that spider_allocate
/// gave. Of the output: the boxes, each cell exactly once. Of fields that an update reads: the box, and where
/// it is written in place no cell after that; where a sweep has several steps, what all but the first reach.
/// Of `previous` of several steps, and where the step before goes, what of input and output. Every broken
/// rule is a Violation that names the cell. One object serves all threads of a launch.
class FieldAccess {
 public:
  FieldAccess(const spider_kernel& kernel, const SweepArguments& arguments);
  /// Of a launch of several boxes.
  FieldAccess(const spider_kernel& kernel, const BoxesArguments& arguments);

  /// `count` neighbouring cells from `cell` are about to be read; `verb` begins the message ("reads").
  void check_input(const void* cell, int count, const char* verb) const;

  /// `bytes` of neighbouring cells of a further field from `cell` on are about to be read.
  void check_further(const void* cell, int bytes) const;

  /// `count` neighbouring cells from `cell` are about to be written.
  void note_output(const void* cell, int count);

  /// Of a cell, in bytes.
  [[nodiscard]] int element_bytes() const { return element_bytes_; }
  /// Of a cell of the output.
  [[nodiscard]] int output_bytes() const { return output_bytes_; }

  /// After the launch: says which cell was never written, and how many.
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
    // Where a sweep has several steps:
    CellRanges readable;
    std::optional<Bytes> memory;
  };

  void add_further(const spider_kernel& kernel, const UpdateArguments& arguments);
  /// `previous`, and where the step before the last one goes, as input and output of several steps.
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
  std::optional<Bytes> input_memory_;               // where it is known
  CellRanges readable_;                             // offsets from the first interior element
  std::vector<std::atomic<std::uint8_t>> written_;  // of the box, x fastest
};

}  // namespace spider::emulator
