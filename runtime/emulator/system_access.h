#pragma once

#include <spider/kernel.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cell_ranges.h"

namespace spider::emulator {

/// Which cells of a system's fields a launch may touch. It reads what the sweep's rows reach from the lanes
/// of the box, wherever the faces' rules take that from, and what is left of vectors inside fields; of a
/// field that is written in place no cell after that. It writes each cell of the box of each written field
/// once. Every broken rule is a Violation. One object serves all threads of a launch.
class SystemAccess {
 public:
  SystemAccess(const spider_kernel& kernel, const SystemSweep& sweep, const SystemArguments& arguments);

  /// `bytes` of neighbouring cells are about to be read.
  void check_read(const void* cell, int bytes) const;
  /// `bytes` of neighbouring cells are about to be written.
  void note_write(const void* cell, int bytes);
  /// After the launch: says which field lacks cells, and how many.
  [[nodiscard]] std::optional<std::string> missing() const;

 private:
  struct Field {
    std::string name;
    SystemFieldPlace place = {};
    int element_bytes = 0;
    CellRanges readable;
    bool is_written = false;
    std::vector<std::atomic<std::uint8_t>> written;  // of the box, x fastest
  };

  /// Of lanes of the box.
  void add_row(const SystemField& facts, const ReadRow& row, int columns, const Box& box, Field& field) const;
  [[nodiscard]] std::optional<std::size_t> place_in_box(std::int64_t offset,
                                                        const std::int64_t (&stride)[2]) const;

  SystemArguments arguments_;
  std::vector<Field> fields_;
};

}  // namespace spider::emulator
