#include "system_fields.h"

#include <algorithm>
#include <iterator>

#include "fields.h"

namespace spider {
namespace {

using backend::Outcome;

std::string name_of_system(const spider_kernel& kernel) {
  return "the kernel " + std::string(kernel.info.name);
}

/// How far all sweeps read around a point of a field.
struct FieldReach {
  HaloWidth along[3];
  bool read = false;
};

bool has_halo(const SystemField& field, int axis) {
  return field.faces[axis][0].rule == FaceRule::halo || field.faces[axis][1].rule == FaceRule::halo;
}

/// What a sweep reads of a field around a point. A ghost cell that is folded back reads as far on the other
/// side of the cell that takes it as rows reach on this one.
FieldReach reach_of(const spider_kernel& kernel, const SystemSweep& sweep, std::int32_t field) {
  FieldReach reach;
  for (std::int32_t i = 0; i < sweep.row_count; ++i) {
    const ReadRow& row = sweep.rows[i];
    if (row.field != field) continue;
    reach.read = true;
    const std::int32_t low[3] = {row.dz, row.dy, row.low};
    const std::int32_t high[3] = {row.dz, row.dy, row.high};
    for (int axis = 0; axis < 3; ++axis) {
      HaloWidth& along = reach.along[axis];
      along.low = std::max<std::int64_t>(along.low, -low[axis]);
      along.high = std::max<std::int64_t>(along.high, high[axis]);
    }
  }
  for (int axis = 0; axis < 3; ++axis) {
    HaloWidth& along = reach.along[axis];
    if (sweep.folded_reach[axis] == 0 || has_halo(kernel.system->fields[field], axis)) continue;
    along.low = along.high = std::max(along.low, along.high);
  }
  return reach;
}

FieldReach reach_of(const spider_kernel& kernel, std::int32_t field) {
  FieldReach reach;
  for (std::int32_t launch = 0; launch < kernel.form_count; ++launch) {
    const FieldReach own = reach_of(kernel, kernel.system->sweeps[launch], field);
    reach.read = reach.read || own.read;
    for (int axis = 0; axis < 3; ++axis) {
      reach.along[axis].low = std::max(reach.along[axis].low, own.along[axis].low);
      reach.along[axis].high = std::max(reach.along[axis].high, own.along[axis].high);
    }
  }
  return reach;
}

bool is_written(const spider_kernel& kernel, std::int32_t field) {
  for (std::int32_t launch = 0; launch < kernel.form_count; ++launch) {
    const SystemSweep& sweep = kernel.system->sweeps[launch];
    if (std::any_of(sweep.written, sweep.written + sweep.written_count,
                    [&](const WrittenField& written) { return written.field == field; }))
      return true;
  }
  return false;
}

PlacedAxis axis_of(const SystemField& field, const std::int64_t* extent, const spider_part& part, int axis) {
  return {field.faces[axis][0].rule, field.faces[axis][1].rule, extent[axis], part.origin[axis],
          part.whole[axis]};
}

/// The cells outside a field that are read.
HaloWidth halo_along(const SystemField& field, const FieldReach& reach, const std::int64_t* extent,
                     const spider_part& part, int axis) {
  return field.axes[axis] ? halo_of_reach(axis_of(field, extent, part, axis), reach.along[axis])
                          : HaloWidth{};
}

/// Whether a sweep has all fields that a system takes, and nothing else.
Outcome check_pointers(const spider_kernel& kernel, const spider_sweep& sweep) {
  const spider_kernel_info& info = kernel.info;
  const std::string name = name_of_system(kernel);
  if (sweep.in != nullptr || sweep.out != nullptr || sweep.previous != nullptr ||
      sweep.out_previous != nullptr) {
    return refuse(SPIDER_ERROR_UNSUPPORTED,
                  name +
                      " is a system of equations, whose fields are all in `fields` and `outputs`: in, out, "
                      "previous and out_previous must be null");
  }
  if (sweep.fields == nullptr) {
    return refuse(SPIDER_ERROR_NULL,
                  name + " takes " + std::to_string(info.field_count) + " fields; `fields` is null");
  }
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    if (sweep.fields[i] == nullptr)
      return refuse(SPIDER_ERROR_NULL, name + " takes " + name_of_buffer(kernel, i, 0) + ", which is null");
    const bool given = sweep.outputs != nullptr && sweep.outputs[i] != nullptr;
    const bool needed = needs_second_buffer(kernel, i);
    if (needed == given) continue;
    if (given) {
      return refuse(SPIDER_ERROR_UNSUPPORTED, name + " writes the field " + info.field_names[i] +
                                                  " in place, or not at all: its output must be null");
    }
    return refuse(SPIDER_ERROR_NULL, name + " writes " + name_of_buffer(kernel, i, 1) +
                                         ", which is null: it reads that field around the points that it "
                                         "writes, and needs a second buffer");
  }
  if ((info.scalar_count == 0) == (sweep.scalars == nullptr)) return {};
  return refuse(info.scalar_count == 0 ? SPIDER_ERROR_UNSUPPORTED : SPIDER_ERROR_NULL,
                name + " takes " + std::to_string(info.scalar_count) + " scalars; `scalars` is " +
                    (info.scalar_count == 0 ? "not null" : "null"));
}

Outcome find_launches(const spider_kernel& kernel, const spider_sweep& sweep, SystemGiven& found) {
  const std::int32_t all = kernel.form_count;
  const bool is_whole = sweep.first_launch == 0 && sweep.launch_count == 0;
  found.first_launch = sweep.first_launch;
  found.launch_count = is_whole ? all : sweep.launch_count;
  if (found.first_launch >= 0 && found.launch_count >= 1 && found.launch_count <= all - found.first_launch)
    return {};
  return refuse(SPIDER_ERROR_EXTENT, name_of_system(kernel) + " has " + std::to_string(all) +
                                         " launches; it cannot run " + std::to_string(sweep.launch_count) +
                                         " from launch " + std::to_string(sweep.first_launch) + " on");
}

/// The extents of fields along the axes that they have: those of the first field with each axis.
void find_extents(const spider_kernel& kernel, const spider_sweep& sweep, SystemGiven& found) {
  for (int axis = 0; axis < 3; ++axis) {
    for (std::int32_t i = kernel.info.field_count - 1; i >= 0; --i) {
      if (kernel.system->fields[i].axes[axis]) found.extent[axis] = sweep.fields[i]->extent[axis];
    }
  }
}

Outcome check_extents_of(const spider_kernel& kernel, std::int32_t field, const std::string& name,
                         const std::int64_t (&given)[3], const SystemGiven& found) {
  for (int axis = 0; axis < 3; ++axis) {
    const bool has = kernel.system->fields[field].axes[axis];
    const std::int64_t wanted = has ? found.extent[axis] : 1;
    if (given[axis] == wanted) continue;
    const std::string is = name + " has extent " + std::to_string(given[axis]) + on_axis(axis);
    return refuse(SPIDER_ERROR_EXTENT, has ? is + "; other fields have " + std::to_string(wanted)
                                           : is + ", along which it has no cells: it must be 1");
  }
  return {};
}

Outcome check_system_extents(const spider_kernel& kernel, const std::int64_t (&extent)[3]) {
  const spider_field field{nullptr, {extent[0], extent[1], extent[2]}, {0, 0}};
  if (Outcome failed = check_extents(kernel, field, "a field")) return failed;
  for (int axis = 0; axis < 3; ++axis) {
    if (extent[axis] <= largest_extent) continue;
    return refuse(SPIDER_ERROR_EXTENT, "a field has extent " + std::to_string(extent[axis]) + on_axis(axis) +
                                           "; systems take at most " + std::to_string(largest_extent));
  }
  return {};
}

/// Where a part lies among the cells that kernels see. Where a periodic axis is cut, cells are added to the
/// whole, so that no index crosses a face (place_fields).
Outcome place_part(const spider_kernel& kernel, SystemGiven& found) {
  for (int axis = 0; axis < 3; ++axis) {
    bool rings = false;
    std::int32_t other = -1;
    for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
      const SystemField& field = kernel.system->fields[i];
      if (!field.axes[axis]) continue;
      const HaloWidth reach = reach_of(kernel, i).along[axis];
      if (is_cut_ring(axis_of(field, found.extent, found.part, axis))) {
        rings = true;
      } else if (reach.low > 0 || reach.high > 0 || is_written(kernel, i)) {
        other = i;
      }
    }
    if (rings && other >= 0) {
      return refuse(SPIDER_ERROR_UNSUPPORTED,
                    "the part cuts a periodic axis of some fields, along which " +
                        name_of_buffer(kernel, other, 0) +
                        " is not periodic: such systems run only where this axis is whole" + on_axis(axis));
    }
    const std::int64_t added = rings ? added_cells(kernel, axis) : 0;
    found.origin[axis] = found.part.origin[axis] + added;
    found.in_all[axis] = found.part.whole[axis] + 2 * added;
  }
  return {};
}

/// Marks the cells that launches of that many steps read and write; two steps show all there are.
void find_uses(const spider_kernel& kernel, std::int64_t steps, SystemGiven& found) {
  CurrentBuffers current{};
  for (std::int64_t step = 0; step < std::min<std::int64_t>(steps, 2); ++step) {
    for (std::int32_t launch = 0; launch < kernel.form_count; ++launch) {
      const SystemSweep& sweep = kernel.system->sweeps[launch];
      for (std::int32_t i = 0; i < sweep.row_count; ++i) {
        const auto field = static_cast<std::size_t>(sweep.rows[i].field);
        found.buffers[field][current[field]].read = true;
      }
      take_turn(sweep, current);
      for (std::int32_t i = 0; i < sweep.written_count; ++i) {
        const auto field = static_cast<std::size_t>(sweep.written[i].field);
        found.buffers[field][current[field]].written = true;
      }
    }
  }
}

/// Checks strides, alignment and data of a buffer, and finds its cells.
Outcome check_buffer(const spider_kernel& kernel, std::int32_t i, int which, SystemGiven& found) {
  SystemBuffer& buffer = found.buffers[static_cast<std::size_t>(i)][static_cast<std::size_t>(which)];
  const std::string name = name_of_buffer(kernel, i, which);
  if (buffer.field.data == nullptr) return refuse(SPIDER_ERROR_NULL, name + " has no data");
  const SystemField& field = kernel.system->fields[i];
  const std::int64_t bytes = bytes_of(field.storage);
  const FieldReach reach = buffer.read ? reach_of(kernel, i) : FieldReach{};
  for (int axis = 0; axis < 3; ++axis) {
    const HaloWidth halo = halo_along(field, reach, found.extent, found.part, axis);
    buffer.cells[axis] = {-halo.low, halo.low + buffer.field.extent[axis] + halo.high};
  }
  if (Outcome failed = check_strides(buffer.field, buffer.cells, bytes, name)) return failed;
  if (Outcome failed = check_whole_span(strides_of(buffer.field, buffer.cells), bytes, found.part, name))
    return failed;
  return check_alignment(buffer.field, bytes, name);
}

/// A buffer in bytes.
struct BytesOfBuffer {
  std::int32_t field = 0;
  int which = 0;
  bool written = false;
  ByteRows interior;
  ByteRows used;  ///< with the halo that is read
};

/// No buffer that is written shares a cell with another one.
Outcome check_overlaps(const spider_kernel& kernel, const SystemGiven& found) {
  std::array<BytesOfBuffer, std::size_t{2} * most_system_fields> all;
  std::size_t count = 0;
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    const std::int64_t bytes = bytes_of(kernel.system->fields[i].storage);
    for (int which = 0; which < (needs_second_buffer(kernel, i) ? 2 : 1); ++which) {
      const SystemBuffer& buffer =
          found.buffers[static_cast<std::size_t>(i)][static_cast<std::size_t>(which)];
      all[count++] = {i, which, buffer.written, rows_of(buffer.field, interior_of(buffer.field), bytes),
                      rows_of(buffer.field, buffer.cells, bytes)};
    }
  }
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(count);
  for (auto a = all.begin(); a != end; ++a) {
    for (auto b = a + 1; b != end; ++b) {
      if (!(a->written && overlap(a->interior, b->used)) && !(b->written && overlap(b->interior, a->used)))
        continue;
      return refuse(SPIDER_ERROR_OVERLAP,
                    name_of_buffer(kernel, a->field, a->which) + " and " +
                        name_of_buffer(kernel, b->field, b->which) +
                        ", with the halo that is read, share cells, and one of them is written: give each "
                        "memory of its own");
    }
  }
  return {};
}

/// Copies the fields that a sweep is given, and checks their extents.
Outcome take_fields(const spider_kernel& kernel, const spider_sweep& sweep, SystemGiven& found) {
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    for (int which = 0; which < (needs_second_buffer(kernel, i) ? 2 : 1); ++which) {
      const spider_field& field = which == 0 ? *sweep.fields[i] : *sweep.outputs[i];
      found.buffers[static_cast<std::size_t>(i)][static_cast<std::size_t>(which)].field = field;
      if (Outcome failed = check_extents_of(kernel, i, name_of_buffer(kernel, i, which), field.extent, found))
        return failed;
    }
  }
  return {};
}

/// Whether sweeps that fold ghost cells may run on a part: the cells that they read for a ghost cell must be
/// within the rows' reach of the point that takes it. They are if a face repeats or mirrors cells once.
Outcome check_cut(const spider_kernel& kernel, const SystemGiven& found) {
  for (std::int32_t launch = 0; launch < kernel.form_count; ++launch) {
    for (int axis = 0; axis < 3; ++axis) {
      const std::int32_t reach = kernel.system->sweeps[launch].folded_reach[axis];
      if (reach == 0 || found.extent[axis] == found.part.whole[axis]) continue;
      const SystemField* const fields = kernel.system->fields;
      const bool has_ring =
          std::any_of(fields, fields + kernel.info.field_count, [axis](const SystemField& field) {
            return field.axes[axis] && field.faces[axis][0].rule == FaceRule::periodic;
          });
      if (!has_ring && found.part.whole[axis] > 2 * std::int64_t{reach}) continue;
      return refuse(SPIDER_ERROR_UNSUPPORTED,
                    name_of_system(kernel) +
                        " has `adjoint` of fields whose ghost cells are copies of cells: its "
                        "parts need an axis that is periodic for no field, of more than " +
                        std::to_string(2 * reach) + " cells" + on_axis(axis));
    }
  }
  return {};
}

Outcome take_part(const spider_kernel& kernel, const spider_part* part, SystemGiven& found) {
  const spider_field all{nullptr, {found.extent[0], found.extent[1], found.extent[2]}, {0, 0}};
  found.part = part == nullptr ? whole_part(all) : *part;
  if (Outcome failed = check_part(kernel, all, found.part)) return failed;
  if (Outcome failed = check_system_extents(kernel, found.part.whole)) return failed;
  found.is_cut = !std::equal(std::begin(found.extent), std::end(found.extent), std::begin(found.part.whole));
  if (found.is_cut) {
    if (Outcome failed = check_cut(kernel, found)) return failed;
  }
  return place_part(kernel, found);
}

}  // namespace

std::string name_of_buffer(const spider_kernel& kernel, std::int32_t field, int buffer) {
  return (buffer == 0 ? "the field " : "the output of ") + std::string(kernel.info.field_names[field]);
}

bool needs_second_buffer(const spider_kernel& kernel, std::int32_t field) {
  for (std::int32_t launch = 0; launch < kernel.form_count; ++launch) {
    const SystemSweep& sweep = kernel.system->sweeps[launch];
    for (std::int32_t i = 0; i < sweep.written_count; ++i) {
      if (sweep.written[i].field == field && sweep.written[i].into_other) return true;
    }
  }
  return false;
}

void take_turn(const SystemSweep& sweep, CurrentBuffers& current) {
  for (std::int32_t i = 0; i < sweep.written_count; ++i) {
    const auto field = static_cast<std::size_t>(sweep.written[i].field);
    if (sweep.written[i].into_other) current[field] = 1 - current[field];
  }
}

Outcome check_system_fields(const spider_kernel& kernel, const spider_sweep& sweep, std::int64_t steps,
                            SystemGiven& found) {
  if (Outcome failed = check_pointers(kernel, sweep)) return failed;
  if (Outcome failed = find_launches(kernel, sweep, found)) return failed;
  find_extents(kernel, sweep, found);
  if (Outcome failed = check_system_extents(kernel, found.extent)) return failed;
  if (Outcome failed = take_fields(kernel, sweep, found)) return failed;
  if (Outcome failed = take_part(kernel, sweep.part, found)) return failed;
  if (found.is_empty()) return {};
  find_uses(kernel, std::max<std::int64_t>(steps, 1), found);
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    for (int which = 0; which < (needs_second_buffer(kernel, i) ? 2 : 1); ++which) {
      if (Outcome failed = check_buffer(kernel, i, which, found)) return failed;
    }
  }
  return check_overlaps(kernel, found);
}

Outcome find_system_halo(const spider_kernel& kernel, std::int32_t field, const std::int64_t* extent,
                         const spider_part* part, HaloWidth (&halo)[3]) {
  SystemGiven found;
  std::copy_n(extent, 3, found.extent);
  if (Outcome failed = check_system_extents(kernel, found.extent)) return failed;
  if (Outcome failed = take_part(kernel, part, found)) return failed;
  if (found.is_empty()) return {};
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    if (field != all_fields && field != i) continue;
    const FieldReach reach = reach_of(kernel, i);
    for (int axis = 0; axis < 3; ++axis) {
      const HaloWidth width = halo_along(kernel.system->fields[i], reach, found.extent, found.part, axis);
      halo[axis] = {std::max(halo[axis].low, width.low), std::max(halo[axis].high, width.high)};
    }
  }
  return {};
}

Outcome check_field_index(const spider_kernel& kernel, std::int32_t field) {
  if (kernel.system == nullptr)
    return refuse(SPIDER_ERROR_UNSUPPORTED, name_of_system(kernel) + " is no system of equations");
  if (field >= 0 && field < kernel.info.field_count) return {};
  return refuse(SPIDER_ERROR_UNSUPPORTED, name_of_system(kernel) + " has fields 0 to " +
                                              std::to_string(kernel.info.field_count - 1) + ", no field " +
                                              std::to_string(field));
}

spider_field place_buffer(const spider_kernel& kernel, const SystemGiven& given, std::int32_t field,
                          const spider_field& buffer, const CellBox& cells) {
  const SystemField& facts = kernel.system->fields[field];
  spider_field placed = buffer;
  std::int64_t origin[3];
  for (int axis = 0; axis < 3; ++axis) origin[axis] = facts.axes[axis] ? given.origin[axis] : 0;
  move_to_first(placed, strides_of(buffer, cells), origin, bytes_of(facts.storage));
  return placed;
}

}  // namespace spider
