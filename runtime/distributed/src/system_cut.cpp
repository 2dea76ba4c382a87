#include "system_cut.h"

#include <algorithm>
#include <string>

namespace spider::distributed {
namespace {

/// Makes a field reach as far as a launch reads it.
void add_reach(const SystemSweep& sweep, std::int32_t field, CutField& read) {
  for (std::int32_t i = 0; i < sweep.row_count; ++i) {
    const ReadRow& row = sweep.rows[i];
    if (row.field != field) continue;
    const std::int64_t low[3] = {row.dz, row.dy, row.low};
    const std::int64_t high[3] = {row.dz, row.dy, row.high};
    for (int axis = 0; axis < 3; ++axis) {
      read.reach_low[axis] = std::max(read.reach_low[axis], -low[axis]);
      read.reach_high[axis] = std::max(read.reach_high[axis], high[axis]);
    }
  }
  // Ghost cells that are folded back read as far on the other side (runtime/src/system_fields.cpp).
  for (int axis = 0; axis < 3; ++axis) {
    const bool has_halo =
        read.faces[axis][0].rule == FaceRule::halo || read.faces[axis][1].rule == FaceRule::halo;
    if (sweep.folded_reach[axis] == 0 || has_halo) continue;
    read.reach_low[axis] = read.reach_high[axis] = std::max(read.reach_low[axis], read.reach_high[axis]);
  }
}

bool writes(const SystemSweep& sweep, std::int32_t field) {
  return std::any_of(sweep.written, sweep.written + sweep.written_count,
                     [&](const WrittenField& written) { return written.field == field; });
}

/// A field without any reach.
CutField facts_of(const spider_kernel& kernel, std::int32_t field) {
  const SystemField& facts = kernel.system->fields[field];
  CutField cut{"the field " + std::string(kernel.info.field_names[field]) + " of " + kernel.info.name,
               facts.storage};
  for (int axis = 0; axis < 3; ++axis) {
    cut.axes[axis] = facts.axes[axis];
    std::copy_n(facts.faces[axis], 2, cut.faces[axis]);
  }
  return cut;
}

bool is_read_around(const CutField& read) {
  return std::any_of(read.reach_low, read.reach_low + 3, [](std::int64_t n) { return n > 0; }) ||
         std::any_of(read.reach_high, read.reach_high + 3, [](std::int64_t n) { return n > 0; });
}

bool is_periodic(const spider_kernel& kernel, std::int32_t field, int axis) {
  const SystemField& facts = kernel.system->fields[field];
  return facts.axes[axis] && facts.faces[axis][0].rule == FaceRule::periodic;
}

}  // namespace

CutField field_of_system(const spider_kernel& kernel, std::int32_t field) {
  CutField cut = facts_of(kernel, field);
  for (std::int32_t i = 0; i < kernel.form_count; ++i) add_reach(kernel.system->sweeps[i], field, cut);
  return cut;
}

CutField hull_of_system(const spider_kernel& kernel) {
  CutField hull{kernel.info.name, kernel.info.storage};
  for (int axis = 0; axis < 3; ++axis) {
    hull.axes[axis] = axis >= 3 - kernel.info.dimensions;
    bool is_known = false;
    for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
      const SystemField& facts = kernel.system->fields[i];
      if (!facts.axes[axis] || (is_known && !is_periodic(kernel, i, axis))) continue;
      std::copy_n(facts.faces[axis], 2, hull.faces[axis]);
      is_known = true;
    }
  }
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    const CutField field = field_of_system(kernel, i);
    for (int axis = 0; axis < 3; ++axis) {
      hull.reach_low[axis] = std::max(hull.reach_low[axis], field.reach_low[axis]);
      hull.reach_high[axis] = std::max(hull.reach_high[axis], field.reach_high[axis]);
    }
  }
  return hull;
}

std::vector<NeededHalo> halos_needed(const spider_kernel& kernel, std::int32_t launch) {
  std::vector<NeededHalo> needed;
  for (std::int32_t field = 0; field < kernel.info.field_count; ++field) {
    CutField read = facts_of(kernel, field);
    add_reach(kernel.system->sweeps[launch], field, read);
    if (!is_read_around(read)) continue;
    for (std::int32_t i = 0; i < kernel.form_count; ++i) {
      const SystemSweep& sweep = kernel.system->sweeps[(launch + i) % kernel.form_count];
      add_reach(sweep, field, read);
      if (writes(sweep, field)) break;
    }
    needed.push_back({field, read});
  }
  return needed;
}

CutField reach_of_launch(const spider_kernel& kernel, std::int32_t launch) {
  CutField all{kernel.info.name, kernel.info.storage};
  for (std::int32_t field = 0; field < kernel.info.field_count; ++field)
    add_reach(kernel.system->sweeps[launch], field, all);
  return all;
}

std::int32_t uncut_by(const spider_kernel& kernel, int axis) {
  bool rings = false;
  std::int32_t other = -1;
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    if (!kernel.system->fields[i].axes[axis]) continue;
    const CutField field = field_of_system(kernel, i);
    const bool is_written = std::any_of(kernel.system->sweeps, kernel.system->sweeps + kernel.form_count,
                                        [&](const SystemSweep& sweep) { return writes(sweep, i); });
    if (is_periodic(kernel, i, axis)) {
      rings = true;
    } else if (other < 0 && (field.reach_low[axis] > 0 || field.reach_high[axis] > 0 || is_written)) {
      other = i;
    }
  }
  return rings ? other : -1;
}

}  // namespace spider::distributed
