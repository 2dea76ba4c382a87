#pragma once

#include <spider/kernel.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cell_ranges.h"

namespace spider::emulator {

/// Which cells of a system's fields a launch may touch. It reads the cells that the sweep's rows reach from
/// the lanes of the box, mapped by the rules of the faces, and the rest of their vectors inside fields; no
/// cell of a field once it is overwritten in place. It writes each cell of the box of each written field
/// once. Every broken rule is a Violation. One object serves all threads of a launch.
class SystemAccess {
 public:
  SystemAccess(const spider_kernel& kernel, const SystemSweep& sweep, const SystemArguments& arguments);

  /// Called before `bytes` of neighbouring cells are read.
  void check_read(const void* cell, int bytes) const;
  /// Called before `bytes` of neighbouring cells are written.
  void note_write(const void* cell, int bytes);
  /// After the launch: names a field that lacks cells, and how many.
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

  /// For lanes of the box.
  void add_row(const SystemField& facts, const ReadRow& row, int columns, const Box& box, Field& field) const;
  [[nodiscard]] std::optional<std::size_t> place_in_box(std::int64_t offset,
                                                        const std::int64_t (&stride)[2]) const;

  SystemArguments arguments_;
  std::vector<Field> fields_;
};

}  // namespace spider::emulator
