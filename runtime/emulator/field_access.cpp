#include "field_access.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "src/fields.h"
#include "violation.h"

namespace spider::emulator {

namespace {

std::int64_t floor_divide(std::int64_t value, std::int64_t divisor) {
  return value / divisor - (value % divisor < 0 ? 1 : 0);
}

/// Address of a field's first cell in the box. It lies in the field's memory; the first interior element of a
/// part of a whole may not.
std::uintptr_t first_of_box(const Box& box, const void* field, const std::int64_t (&stride)[2],
                            int element_bytes) {
  const auto& [z, y, x] = box.offset;
  const std::int64_t cells = z * stride[0] + y * stride[1] + x;
  return reinterpret_cast<std::uintptr_t>(field) + static_cast<std::uintptr_t>(cells * element_bytes);
}

/// The boxes, in a launch of several, that have blocks.
std::vector<Box> boxes_of(const BoxesArguments& arguments) {
  std::vector<Box> boxes;
  std::int32_t end = 0;
  for (const CutBox& cut : arguments.boxes) {
    if (cut.end_block > end) boxes.push_back(cut.box);
    end = cut.end_block;
  }
  return boxes;
}

bool holds(const Box& box, int axis, std::int64_t place) {
  return place >= box.offset[axis] && place < box.offset[axis] + box.extent[axis];
}

/// True if the bytes lie in this memory, or its extent is unknown.
bool is_within(const std::optional<Bytes>& memory, const void* cell, int bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(cell);
  return !memory || (begin >= memory->begin && begin + static_cast<std::uintptr_t>(bytes) <= memory->end);
}

}  // namespace

FieldAccess::FieldAccess(const spider_kernel& kernel, const SweepArguments& arguments)
    : FieldAccess(kernel, arguments, {arguments.box}) {}

FieldAccess::FieldAccess(const spider_kernel& kernel, const BoxesArguments& arguments)
    : FieldAccess(kernel, arguments, boxes_of(arguments)) {}

FieldAccess::FieldAccess(const spider_kernel& kernel, const SweepArguments& arguments, std::vector<Box> boxes)
    : faces_(kernel.faces),
      dimensions_(kernel.info.dimensions),
      element_bytes_(static_cast<int>(spider::bytes_of(kernel.info.storage))),
      output_bytes_(static_cast<int>(spider::bytes_of(kernel.info.output))),
      arguments_(arguments),
      boxes_(std::move(boxes)),
      input_memory_(allocation_around(
          first_of_box(arguments.box, arguments.input, arguments.input_stride, element_bytes_))),
      written_(static_cast<std::size_t>(arguments.box.extent[0] * arguments.box.extent[1] *
                                        arguments.box.extent[2])) {
  add_tap_row({0, 0, 0, 0}, arguments.input_stride, readable_);
  for (std::int32_t i = 0; i < kernel.tap_row_count; ++i)
    add_tap_row(kernel.tap_rows[i], arguments.input_stride, readable_);
  merge(readable_);
  if (kernel.forms[0].sweep.update == nullptr) return;
  const auto& update = static_cast<const UpdateArguments&>(arguments);
  add_further(kernel, update);
  if (update.before != nullptr) add_before(kernel, update);
}

void FieldAccess::add_before(const spider_kernel& kernel, const UpdateArguments& arguments) {
  UpdateArguments of_before = arguments;
  of_before.input = arguments.before;
  of_before.output = arguments.output_before;
  of_before.before = nullptr;
  std::copy_n(arguments.before_stride, 2, of_before.input_stride);
  std::copy_n(arguments.output_before_stride, 2, of_before.output_stride);
  before_ = std::make_unique<FieldAccess>(kernel, static_cast<const SweepArguments&>(of_before));
}

void FieldAccess::add_further(const spider_kernel& kernel, const UpdateArguments& arguments) {
  const int before = kernel.info.previous != nullptr && kernel.info.steps == 1 ? 1 : 0;
  for (int i = 0; i < before + kernel.info.field_count; ++i) {
    const std::int32_t storage = i < before ? kernel.info.storage : kernel.info.field_storages[i - before];
    const FurtherField& field = arguments.further[i];
    further_.push_back(
        {field, static_cast<int>(spider::bytes_of(storage)), field.data == arguments.output, {}, {}});
    if (kernel.info.steps == 1) continue;
    Further& further = further_.back();
    const auto later = [&](const std::int32_t(&reach)[3], int axis) {
      return reach[axis] / kernel.info.steps * (kernel.info.steps - 1);
    };
    const auto& low = kernel.info.reach_low;
    const auto& high = kernel.info.reach_high;
    for (std::int32_t dz = -later(low, 0); dz <= later(high, 0); ++dz) {
      for (std::int32_t dy = -later(low, 1); dy <= later(high, 1); ++dy)
        add_tap_row({dz, dy, -later(low, 2), later(high, 2)}, field.stride, further.readable);
    }
    merge(further.readable);
    further.memory =
        allocation_around(first_of_box(arguments.box, field.data, field.stride, further.element_bytes));
  }
}

CellRanges FieldAccess::columns_of(const TapRow& taps, const Box& box) const {
  const std::int64_t first = box.offset[2] + taps.low;
  const std::int64_t last = box.offset[2] + box.extent[2] - 1 + taps.high;
  return mapped_columns(faces_[2], first, last, arguments_.extent[2]);
}

void FieldAccess::add_tap_row(const TapRow& taps, const std::int64_t (&stride)[2],
                              CellRanges& readable) const {
  for (const Box& box : boxes_) {
    const CellRanges columns = columns_of(taps, box);
    for (std::int64_t z = 0; z < box.extent[0]; ++z) {
      const auto plane = map_index(faces_[0], box.offset[0] + z + taps.dz, arguments_.extent[0]);
      if (!plane) continue;
      for (std::int64_t y = 0; y < box.extent[1]; ++y) {
        const auto row = map_index(faces_[1], box.offset[1] + y + taps.dy, arguments_.extent[1]);
        if (!row) continue;
        const std::int64_t first = *plane * stride[0] + *row * stride[1];
        for (const CellRange& range : columns) readable.push_back({first + range.first, first + range.last});
      }
    }
  }
}

/// True if one box covers the whole interior.
bool FieldAccess::is_whole() const {
  return boxes_.size() == 1 && std::equal(std::begin(arguments_.extent), std::end(arguments_.extent),
                                          std::begin(boxes_.front().extent));
}

/// True if the launch has to write the cell.
bool FieldAccess::is_wanted(const Cell& at) const {
  return std::any_of(boxes_.begin(), boxes_.end(), [&](const Box& box) {
    return holds(box, 0, at.z) && holds(box, 1, at.y) && holds(box, 2, at.x);
  });
}

/// The cells that separate rows and planes in memory: the whole field, or the box if the field is part of a
/// whole whose rows are longer than the part's.
Box FieldAccess::frame(const std::int64_t* stride) const {
  const auto& [planes, rows, columns] = arguments_.extent;
  const bool long_rows = dimensions_ > 1 && rows > 1 && stride[1] < columns;
  const bool large_planes = dimensions_ > 2 && planes > 1 && stride[0] < (rows - 1) * stride[1] + columns;
  if (long_rows || large_planes) return arguments_.box;
  return {{0, 0, 0}, {planes, rows, columns}};
}

/// The cell at an offset from the first interior element, in the row whose interior is nearest.
FieldAccess::Cell FieldAccess::cell_at(std::int64_t offset, const std::int64_t* stride) const {
  const Box near = frame(stride);
  const auto& [planes, rows, columns] = near.extent;
  Cell cell{0, 0, offset - near.offset[0] * stride[0] - near.offset[1] * stride[1] - near.offset[2]};
  const std::int64_t plane_size = (rows - 1) * stride[1] + columns;
  const std::int64_t row_size = (planes - 1) * stride[0] + columns;  // if planes lie within rows
  const bool planes_within = dimensions_ == 3 && planes > 1 && rows > 1 && stride[0] < plane_size &&
                             stride[0] >= columns && stride[1] >= row_size;
  if (planes_within) {
    cell.y = floor_divide(cell.x + (stride[1] - row_size) / 2, stride[1]);
    cell.x -= cell.y * stride[1];
    cell.z = floor_divide(cell.x + (stride[0] - columns) / 2, stride[0]);
    cell.x -= cell.z * stride[0];
    return {cell.z + near.offset[0], cell.y + near.offset[1], cell.x + near.offset[2]};
  }
  if (dimensions_ == 3 && stride[0] >= plane_size && stride[0] > 0) {
    cell.z = floor_divide(cell.x + (stride[0] - plane_size) / 2, stride[0]);
    cell.x -= cell.z * stride[0];
  }
  // A single row: its stride has no meaning.
  if (dimensions_ > 1 && stride[1] > 0 && stride[1] >= columns) {
    cell.y = floor_divide(cell.x + (stride[1] - columns) / 2, stride[1]);
    cell.x -= cell.y * stride[1];
  }
  cell.z += near.offset[0];
  cell.y += near.offset[1];
  cell.x += near.offset[2];
  return cell;
}

std::string FieldAccess::name(const Cell& cell) const {
  return (dimensions_ > 2 ? "(z = " + std::to_string(cell.z) + ", " : "(") +
         (dimensions_ > 1 ? "y = " + std::to_string(cell.y) + ", " : "") + "x = " + std::to_string(cell.x) +
         ")";
}

void FieldAccess::check_input(const void* cell, int count, const char* verb) const {
  check_alignment(cell, count * element_bytes_, verb);
  const std::int64_t first = offset_of(cell, arguments_.input, element_bytes_);
  const std::int64_t readable_to = last_readable(readable_, first);
  if (first + count - 1 <= readable_to) {
    if (is_within(input_memory_, cell, count * element_bytes_)) return;
    throw Violation(std::string(verb) + " input cell " + name(cell_at(first, arguments_.input_stride)) +
                    ", outside the field's memory: it was allocated without the halo that this kernel reads");
  }
  if (before_) return before_->check_input(cell, count, verb);
  const std::int64_t culprit = std::max(first, readable_to + 1);
  throw Violation(std::string(verb) + " input cell " + name(cell_at(culprit, arguments_.input_stride)) +
                  (is_whole() ? ", outside the field and its halo" : ", outside the box and its reach"));
}

std::optional<std::size_t> FieldAccess::place_in_box(const Cell& at) const {
  const Box& box = arguments_.box;
  const std::int64_t z = at.z - box.offset[0];
  const std::int64_t y = at.y - box.offset[1];
  const std::int64_t x = at.x - box.offset[2];
  if (z < 0 || z >= box.extent[0] || y < 0 || y >= box.extent[1] || x < 0 || x >= box.extent[2])
    return std::nullopt;
  return static_cast<std::size_t>((z * box.extent[1] + y) * box.extent[2] + x);
}

/// True if the launch reads these cells of this field. Cells already written, or not allocated, are
/// violations.
bool FieldAccess::reads(const Further& further, const void* cell, int bytes) const {
  const auto& [field, element_bytes, is_output, readable, memory] = further;
  const std::int64_t first = offset_of(cell, field.data, element_bytes);
  const std::int64_t last = first + (bytes + element_bytes - 1) / element_bytes - 1;
  if (!readable.empty()) {
    if (last > last_readable(readable, first)) return false;
    if (is_within(memory, cell, bytes)) return true;
    throw Violation("reads cell " + name(cell_at(first, field.stride)) +
                    " of a further field, outside its memory: it was allocated without the halo that this "
                    "kernel reads");
  }
  const std::int64_t stride[2] = {arguments_.extent[0] == 1 ? 0 : field.stride[0],
                                  arguments_.extent[1] == 1 ? 0 : field.stride[1]};
  for (std::int64_t offset = first; offset <= last; ++offset) {
    const Cell at = cell_at(offset, stride);
    const std::optional<std::size_t> place = place_in_box(at);
    if (!place) return false;
    if (is_output && written_[*place].load(std::memory_order_relaxed) != 0)
      throw Violation("reads cell " + name(at) + " of a further field after it was written in place");
  }
  return true;
}

void FieldAccess::check_further(const void* cell, int bytes) const {
  check_alignment(cell, bytes, "reads");
  const auto is_of = [&](const Further& further) { return reads(further, cell, bytes); };
  if (std::any_of(further_.begin(), further_.end(), is_of)) return;
  if (before_) return before_->check_input(cell, bytes / element_bytes_, "reads");
  throw Violation("reads " + std::to_string(bytes) + " bytes that are of no further field in the box");
}

void FieldAccess::note_output(const void* cell, int count) {
  check_alignment(cell, count * output_bytes_, "writes");
  const std::int64_t first = offset_of(cell, arguments_.output, output_bytes_);
  const std::int64_t stride[2] = {arguments_.extent[0] == 1 ? 0 : arguments_.output_stride[0],
                                  arguments_.extent[1] == 1 ? 0 : arguments_.output_stride[1]};
  for (std::int64_t offset = first; offset < first + count; ++offset) {
    const Cell at = cell_at(offset, stride);
    const std::optional<std::size_t> place = place_in_box(at);
    if (!place || !is_wanted(at)) {
      if (before_ && before_->arguments_.output != nullptr) return before_->note_output(cell, count);
      throw Violation("writes output cell " + name(at) + ", outside the " + (is_whole() ? "field" : "box"));
    }
    if (written_[*place].exchange(1, std::memory_order_relaxed) != 0) {
      throw Violation("writes output cell " + name(at) + " a second time");
    }
  }
}

std::optional<std::string> FieldAccess::missing_output() const {
  if (before_ && before_->arguments_.output != nullptr) {
    if (const auto missing = before_->missing_output()) return "of the step before, " + *missing;
  }
  const Box& box = arguments_.box;
  std::int64_t wanted = 0;
  std::int64_t missing = 0;
  Cell first{};
  for (std::size_t i = 0; i < written_.size(); ++i) {
    const auto place = static_cast<std::int64_t>(i);
    const Cell cell{box.offset[0] + place / box.extent[2] / box.extent[1],
                    box.offset[1] + place / box.extent[2] % box.extent[1],
                    box.offset[2] + place % box.extent[2]};
    if (!is_wanted(cell)) continue;
    ++wanted;
    if (written_[i].load(std::memory_order_relaxed) == 0 && missing++ == 0) first = cell;
  }
  if (missing == 0) return std::nullopt;
  return "output cell " + name(first) + " was never written (" + std::to_string(missing) + " of " +
         std::to_string(wanted) + " cells were not)";
}

}  // namespace spider::emulator
