#include "system_access.h"

#include <algorithm>
#include <cstddef>

#include "src/fields.h"
#include "violation.h"

namespace spider::emulator {

namespace {

std::int64_t round_down(std::int64_t column, int columns) {
  return column - (column % columns + columns) % columns;
}

}  // namespace

SystemAccess::SystemAccess(const spider_kernel& kernel, const SystemSweep& sweep,
                           const SystemArguments& arguments)
    : arguments_(arguments), fields_(static_cast<std::size_t>(kernel.info.field_count)) {
  for (std::size_t i = 0; i < fields_.size(); ++i) {
    fields_[i].name = kernel.info.field_names[i];
    fields_[i].place = arguments.fields[i];
    fields_[i].element_bytes = static_cast<int>(spider::bytes_of(kernel.system->fields[i].storage));
  }
  // Folded points may lie anywhere.
  Box folded = {};
  bool folds = false;
  for (int axis = 0; axis < 3; ++axis) {
    folds = folds || sweep.folded_reach[axis] > 0;
    folded.offset[axis] = -sweep.folded_reach[axis];
    folded.extent[axis] = arguments.extent[axis] + 2 * sweep.folded_reach[axis];
  }
  for (std::int32_t i = 0; i < sweep.row_count; ++i) {
    const auto field = static_cast<std::size_t>(sweep.rows[i].field);
    add_row(kernel.system->fields[field], sweep.rows[i], sweep.columns, arguments.box, fields_[field]);
    if (folds) add_row(kernel.system->fields[field], sweep.rows[i], sweep.columns, folded, fields_[field]);
  }
  for (Field& field : fields_) merge(field.readable);
  const Box& box = arguments.box;
  for (std::int32_t i = 0; i < sweep.written_count; ++i) {
    Field& field = fields_[static_cast<std::size_t>(sweep.written[i].field)];
    field.is_written = true;
    field.written = std::vector<std::atomic<std::uint8_t>>(
        static_cast<std::size_t>(box.extent[0] * box.extent[1] * box.extent[2]));
  }
}

void SystemAccess::add_row(const SystemField& facts, const ReadRow& row, int columns, const Box& box,
                           Field& field) const {
  CellRanges reached{{0, 0}};
  if (facts.axes[2]) {
    // A lane reads for all of its points, including those outside the box.
    const std::int64_t box_end = box.offset[2] + box.extent[2];
    const std::int64_t lanes_end =
        std::min(round_down(box_end - 1, columns) + columns, std::max(arguments_.extent[2], box_end));
    const std::int64_t first = round_down(box.offset[2], columns) + row.low;
    const std::int64_t last = lanes_end - 1 + row.high;
    reached = mapped_columns(facts.faces[2], first, last, arguments_.extent[2]);
    // Vectors begin at multiples of their columns, and are read if all of the vector is inside.
    const std::int64_t begin = std::max<std::int64_t>(round_down(first, columns), 0);
    const std::int64_t end = std::min(round_down(last, columns) + columns, arguments_.extent[2]);
    if (begin < end) reached.push_back({begin, end - 1});
  }
  for (std::int64_t z = 0; z < box.extent[0]; ++z) {
    const auto plane = facts.axes[0]
                           ? map_index(facts.faces[0], box.offset[0] + z + row.dz, arguments_.extent[0])
                           : std::optional<std::int64_t>(0);
    if (!plane) continue;
    for (std::int64_t y = 0; y < box.extent[1]; ++y) {
      const auto line = facts.axes[1]
                            ? map_index(facts.faces[1], box.offset[1] + y + row.dy, arguments_.extent[1])
                            : std::optional<std::int64_t>(0);
      if (!line) continue;
      const std::int64_t first = *plane * field.place.stride[0] + *line * field.place.stride[1];
      for (const CellRange& range : reached)
        field.readable.push_back({first + range.first, first + range.last});
    }
  }
}

std::optional<std::size_t> SystemAccess::place_in_box(std::int64_t offset,
                                                      const std::int64_t (&stride)[2]) const {
  const Box& box = arguments_.box;
  std::int64_t place[3] = {0, 0, 0};
  for (int axis = 0; axis < 2; ++axis) {
    if (arguments_.extent[axis] == 1 || stride[axis] <= 0) continue;
    if (offset < 0) return std::nullopt;
    place[axis] = offset / stride[axis];
    offset %= stride[axis];
  }
  place[2] = offset;
  for (int axis = 0; axis < 3; ++axis) {
    place[axis] -= box.offset[axis];
    if (place[axis] < 0 || place[axis] >= box.extent[axis]) return std::nullopt;
  }
  return static_cast<std::size_t>((place[0] * box.extent[1] + place[1]) * box.extent[2] + place[2]);
}

void SystemAccess::check_read(const void* cell, int bytes) const {
  check_alignment(cell, bytes, "reads");
  for (const Field& field : fields_) {
    const std::int64_t first = offset_of(cell, field.place.data, field.element_bytes);
    const std::int64_t last = first + (bytes + field.element_bytes - 1) / field.element_bytes - 1;
    if (field.readable.empty() || last > last_readable(field.readable, first)) continue;
    if (!field.is_written || field.place.data != field.place.target) return;
    for (std::int64_t offset = first; offset <= last; ++offset) {
      const auto place = place_in_box(offset, field.place.stride);
      if (place && field.written[*place].load(std::memory_order_relaxed) != 0)
        throw Violation("reads a cell of " + field.name + " after it was written in place");
    }
    return;
  }
  throw Violation("reads " + std::to_string(bytes) +
                  " bytes that the sweep's rows do not reach in any field");
}

void SystemAccess::note_write(const void* cell, int bytes) {
  check_alignment(cell, bytes, "writes");
  for (Field& field : fields_) {
    if (!field.is_written) continue;
    const std::int64_t first = offset_of(cell, field.place.target, field.element_bytes);
    if (!place_in_box(first, field.place.target_stride)) continue;
    const std::int64_t count = std::max(bytes / field.element_bytes, 1);
    for (std::int64_t offset = first; offset < first + count; ++offset) {
      const auto place = place_in_box(offset, field.place.target_stride);
      if (!place) throw Violation("writes a cell of " + field.name + " outside the box");
      if (field.written[*place].exchange(1, std::memory_order_relaxed) != 0)
        throw Violation("writes a cell of " + field.name + " a second time");
    }
    return;
  }
  throw Violation("writes " + std::to_string(bytes) + " bytes that lie in the box of no written field");
}

std::optional<std::string> SystemAccess::missing() const {
  for (const Field& field : fields_) {
    const auto missing = std::count_if(field.written.begin(), field.written.end(), [](const auto& written) {
      return written.load(std::memory_order_relaxed) == 0;
    });
    if (missing > 0) {
      return std::to_string(missing) + " of " + std::to_string(field.written.size()) + " cells of " +
             field.name + " were never written";
    }
  }
  return std::nullopt;
}

}  // namespace spider::emulator
