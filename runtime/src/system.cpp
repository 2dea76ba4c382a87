#include "system.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "fields.h"
#include "ready_sweep.h"
#include "reductions.h"
#include "system_fields.h"
#include "tiling.h"

namespace spider {
namespace {

using backend::Outcome;

/// A launch that only needs to be started.
struct ReadyLaunch {
  const SweepForm* form;
  SystemArguments arguments;
  std::int64_t blocks;
  std::int64_t resident;  ///< blocks that the device runs together
  bool early = false;
  const spider_kernel* update_kernel = nullptr;
  std::optional<ReadySweep> update;  ///< of that, in the place of the form
};

bool is_box_given(const spider_sweep& sweep) {
  return std::any_of(std::begin(sweep.extent), std::end(sweep.extent), [](std::int64_t n) { return n != 0; });
}

/// The points to write, in the fields' interior.
Box box_of(const spider_sweep& sweep, const SystemGiven& given) {
  Box box{{0, 0, 0}, {given.extent[0], given.extent[1], given.extent[2]}};
  if (!is_box_given(sweep)) return box;
  std::copy_n(sweep.offset, 3, box.offset);
  std::copy_n(sweep.extent, 3, box.extent);
  return box;
}

/// Does the box leave out cells of the fields?
bool leaves_cells(const Box& box, const SystemGiven& given) {
  return !std::equal(std::begin(box.extent), std::end(box.extent), std::begin(given.extent));
}

/// Whether the box lies in the fields, and may be run by itself.
Outcome check_system_box(const spider_kernel& kernel, const spider_sweep& sweep, const SystemGiven& given) {
  const Box box = box_of(sweep, given);
  if (is_box_given(sweep)) {
    const spider_field all{nullptr, {given.extent[0], given.extent[1], given.extent[2]}, {0, 0}};
    if (Outcome inside = check_box(all, box); inside.status != SPIDER_OK) return inside;
  }
  if (given.launch_count == 1 || (!given.is_cut && !leaves_cells(box, given))) return {};
  return {SPIDER_ERROR_UNSUPPORTED, "a sweep of " + std::string(kernel.info.name) +
                                        " has several launches, and each reads what those "
                                        "before it wrote around a box, or a part: run them one by one, with "
                                        "first_launch and launch_count 1, "
                                        "each for all boxes and parts before the next"};
}

Outcome check_memory_of(const spider_kernel& kernel, const SystemGiven& given) {
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    for (int which = 0; which < (needs_second_buffer(kernel, i) ? 2 : 1); ++which) {
      const auto& buffers = given.buffers[static_cast<std::size_t>(i)];
      const void* data = buffers[static_cast<std::size_t>(which)].field.data;
      if (Outcome reached = backend::check_memory(data, name_of_buffer(kernel, i, which).c_str());
          reached.status != SPIDER_OK)
        return reached;
    }
  }
  return {};
}

/// The buffer that has a field's values, or the other one.
const SystemBuffer& buffer_of(const SystemGiven& given, const CurrentBuffers& current, std::int32_t field,
                              bool other = false) {
  const auto index = static_cast<std::size_t>(field);
  return given.buffers[index][other ? 1U - current[index] : std::size_t{current[index]}];
}

/// Fills in where the fields of a launch are, and whether their rows can be read and written in vectors.
void fill_fields(const spider_kernel& kernel, const SystemGiven& given, const SystemSweep& sweep,
                 const CurrentBuffers& current, SystemArguments& arguments) {
  arguments.aligned_input = arguments.aligned_output = true;
  const auto is_aligned = [&](std::int32_t i, const spider_field& placed) {
    const SystemField& field = kernel.system->fields[i];
    return !field.axes[axis_x] ||
           rows_aligned(placed, field.storage, sweep.columns * bytes_of(field.storage));
  };
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    const SystemBuffer& buffer = buffer_of(given, current, i);
    const spider_field placed = place_buffer(kernel, given, i, buffer.field, buffer.cells);
    arguments.fields[i] = {
        placed.data, {placed.stride[0], placed.stride[1]}, placed.data, {placed.stride[0], placed.stride[1]}};
    const bool reads = std::any_of(sweep.rows, sweep.rows + sweep.row_count,
                                   [&](const ReadRow& row) { return row.field == i; });
    if (reads && !is_aligned(i, placed)) arguments.aligned_input = false;
  }
  for (std::int32_t k = 0; k < sweep.written_count; ++k) {
    const auto [i, into_other] = sweep.written[k];
    const SystemBuffer& buffer = buffer_of(given, current, i, into_other);
    const spider_field placed = place_buffer(kernel, given, i, buffer.field, interior_of(buffer.field));
    arguments.fields[i].target = placed.data;
    std::copy_n(placed.stride, 2, arguments.fields[i].target_stride);
    if (!is_aligned(i, placed)) arguments.aligned_output = false;
  }
}

/// Where a launch of an update finds its fields.
struct UpdateFields {
  std::vector<const spider_field*> further;
  SweepFields fields;
};

UpdateFields fields_of(const SystemSweep& launch, const SystemGiven& given, const spider_sweep& sweep,
                       const CurrentBuffers& current) {
  const SweepUpdate& update = *launch.update;
  const auto field_of = [&](std::int32_t field) { return &buffer_of(given, current, field).field; };
  UpdateFields found;
  for (std::int32_t i = 0; i < update.kernel->info.field_count; ++i)
    found.further.push_back(field_of(update.fields[i]));
  found.fields.in = field_of(update.input);
  found.fields.out = &buffer_of(given, current, launch.written[0].field, launch.written[0].into_other).field;
  if (update.previous >= 0) found.fields.previous = field_of(update.previous);
  if (!found.further.empty()) found.fields.further = found.further.data();
  found.fields.scalars = sweep.scalars;
  return found;
}

/// As make_launch(), of a sweep that the kernel of an update computes; loads what of that is not loaded yet.
Outcome make_update_launch(const SystemGiven& given, const spider_sweep& sweep, const SystemSweep& launch,
                           const CurrentBuffers& current, ReadyLaunch& ready) {
  const spider_kernel& kernel = *launch.update->kernel;
  const UpdateFields found = fields_of(launch, given, sweep, current);
  const spider_part* part = given.is_cut ? &given.part : nullptr;
  backend::Residencies residencies;
  if (Outcome loaded = backend::prepare(kernel, residencies); loaded.status != SPIDER_OK) return loaded;
  if (!are_loaded(kernel, residencies)) {
    const backend::FormSet forms = forms_for(kernel, found.fields, part, residencies, 1);
    if (Outcome loaded = backend::load(kernel, forms, residencies); loaded.status != SPIDER_OK) return loaded;
  }
  ready.update_kernel = &kernel;
  ready.update = make_ready(kernel, found.fields, box_of(sweep, given), part, residencies, 1);
  return {};
}

/// The launch at `index` of a sweep whose fields are in their `current` buffers.
ReadyLaunch make_launch(const spider_kernel& kernel, const SystemGiven& given, const spider_sweep& sweep,
                        std::int32_t index, const CurrentBuffers& current,
                        const backend::Residencies& residencies) {
  const SweepForm& form = kernel.forms[index];
  const backend::Residency& residency = residencies.at(static_cast<std::size_t>(index));
  ReadyLaunch ready{&form, {}, 0, 0, form.starts_early && residency.starts_early, nullptr, {}};
  SystemArguments& arguments = ready.arguments;
  Box box = box_of(sweep, given);
  for (int axis = 0; axis < 3; ++axis) {
    box.offset[axis] += given.origin[axis];
    arguments.extent[axis] = given.in_all[axis];
    arguments.first[axis] = given.origin[axis] - given.part.origin[axis];
    arguments.whole[axis] = given.part.whole[axis];
  }
  const Launch cut = cut_system(form.tiling, box, residency);
  arguments.box = box;
  arguments.grid = cut.grid;
  ready.blocks = cut.blocks;
  ready.resident = std::int64_t{residency.multiprocessors} * std::max(residency.blocks_per_multiprocessor, 1);
  for (std::int32_t i = 0; i < kernel.info.scalar_count; ++i) {
    arguments.scalars[i] = static_cast<float>(sweep.scalars[i]);
    arguments.wide_scalars[i] = sweep.scalars[i];
  }
  fill_fields(kernel, given, kernel.system->sweeps[index], current, arguments);
  return ready;
}

/// The launches of a step, behind which `current` is what it is then.
Outcome make_step(const spider_kernel& kernel, const SystemGiven& given, const spider_sweep& sweep,
                  CurrentBuffers& current, const backend::Residencies& residencies,
                  std::vector<ReadyLaunch>& launches) {
  const std::int32_t end = given.first_launch + given.launch_count;
  for (std::int32_t i = 0; i < end; ++i) {
    const SystemSweep& launch = kernel.system->sweeps[i];
    if (i >= given.first_launch && launch.update == nullptr) {
      launches.push_back(make_launch(kernel, given, sweep, i, current, residencies));
    } else if (i >= given.first_launch) {
      Outcome made = make_update_launch(given, sweep, launch, current, launches.emplace_back());
      if (made.status != SPIDER_OK) return made;
    }
    take_turn(launch, current);
  }
  return {};
}

/// The forms of sweeps that no kernel of an update computes.
backend::FormSet own_forms(const spider_kernel& kernel) {
  backend::FormSet own;
  for (std::int32_t i = 0; i < kernel.form_count; ++i)
    own.set(static_cast<std::size_t>(i), kernel.system->sweeps[i].update == nullptr);
  return own;
}

/// Loads the system's own forms. Kernels of updates are loaded where their launches are made.
Outcome load_forms(const spider_kernel& kernel, backend::Residencies& residencies) {
  const backend::FormSet own = own_forms(kernel);
  if (own.none()) return {};
  if (Outcome loaded = backend::prepare(kernel, residencies); loaded.status != SPIDER_OK) return loaded;
  for (std::size_t i = 0; i < residencies.size(); ++i) {
    if (own.test(i) && !residencies.at(i).is_loaded) return backend::load(kernel, own, residencies);
  }
  return {};
}

/// Points that a sweep adds to each of its reductions.
std::int64_t points_of(const Box& box) {
  return box.extent[0] * box.extent[1] * box.extent[2];
}

/// Starts a launch. Its points are added to `reductions`, unless that is null, by as many blocks as take
/// 16 turns on the device: each reduces once, and with fewer those that are late hold up the end (a maximum
/// on an H200: 1.03 times the sweep without it, 1.42 times with one turn).
Outcome start(const spider_kernel& kernel, ReadyLaunch& ready, spider_reductions* reductions, void* stream) {
  if (ready.update) return ready.update->launch(*ready.update_kernel, stream);
  std::int64_t blocks = ready.blocks;
  ready.arguments.reductions = nullptr;
  if (reductions != nullptr) {
    ready.arguments.reductions = static_cast<std::int64_t*>(reductions->accumulators.get());
    constexpr std::int64_t turns = 16;
    if (ready.form->tiling.walks_tiles) blocks = std::min(blocks, turns * ready.resident);
  }
  ready.arguments.grid.volume.whole_blocks = static_cast<std::int32_t>(blocks);
  return backend::launch(kernel, {*ready.form, blocks, ready.early, stream}, ready.arguments, {}, {});
}

/// `until`, if any, says after which steps reductions are computed, and looked at; else the last step's are.
Outcome run_checked(const spider_kernel& kernel, const spider_sweep& sweep, const SystemGiven& given,
                    std::int64_t steps, ReductionBound* until = nullptr) {
  backend::Residencies residencies;
  if (Outcome loaded = load_forms(kernel, residencies); loaded.status != SPIDER_OK) return loaded;
  if (Outcome reached = check_memory_of(kernel, given); reached.status != SPIDER_OK) return reached;
  // Buffers are where they began after two steps, or after each.
  std::array<std::vector<ReadyLaunch>, 2> turns;
  CurrentBuffers current{};
  for (std::size_t turn = 0; turn < 2 && turn < static_cast<std::size_t>(steps); ++turn) {
    if (Outcome made = make_step(kernel, given, sweep, current, residencies, turns[turn]);
        made.status != SPIDER_OK)
      return made;
  }
  for (std::int64_t step = 0; step < steps; ++step) {
    const bool is_checked = until != nullptr && (step + 1) % until->check_every == 0;
    const bool reduces = sweep.reductions != nullptr && (is_checked || step + 1 == steps);
    if (reduces) {
      if (Outcome room = take_points(kernel, *sweep.reductions, points_of(box_of(sweep, given)));
          room.status != SPIDER_OK)
        return room;
    }
    for (ReadyLaunch& ready : turns[static_cast<std::size_t>(step % 2)]) {
      if (Outcome launched = start(kernel, ready, reduces ? sweep.reductions : nullptr, sweep.stream);
          launched.status != SPIDER_OK)
        return launched;
    }
    if (until == nullptr) continue;
    until->done = step + 1;
    if (!reduces) continue;
    if (Outcome read = read_reductions(*sweep.reductions, until->values, sweep.stream);
        read.status != SPIDER_OK)
      return read;
    if (until->values[until->reduction] <= until->bound) return {};
  }
  return {};
}

}  // namespace

Outcome check_bound(const spider_kernel& kernel, const spider_sweep& sweep, const ReductionBound& until) {
  const std::int32_t count = kernel.info.reduction_count;
  if (until.reduction < 0 || until.reduction >= count) {
    return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(kernel.info.name) + " has " +
                                          std::to_string(count) + " reductions, and no reduction " +
                                          std::to_string(until.reduction)};
  }
  if (sweep.reductions == nullptr)
    return {SPIDER_ERROR_NULL,
            "the sweep's `reductions` are null: create them with spider_reductions_create"};
  if (until.check_every >= 1) return {};
  return {SPIDER_ERROR_STEPS,
          "the bound is to be checked every " + std::to_string(until.check_every) + " steps; give 1 or more"};
}

Outcome load_system(const spider_kernel& kernel) {
  backend::Residencies residencies;
  if (const backend::FormSet own = own_forms(kernel); own.any()) {
    if (Outcome loaded = backend::load(kernel, own, residencies); loaded.status != SPIDER_OK) return loaded;
  }
  for (std::int32_t i = 0; i < kernel.form_count; ++i) {
    const SweepUpdate* const update = kernel.system->sweeps[i].update;
    if (update == nullptr) continue;
    Outcome loaded = backend::load(*update->kernel, backend::all_forms, residencies);
    if (loaded.status != SPIDER_OK) return loaded;
  }
  return {};
}

Outcome check_system(const spider_kernel& kernel, const spider_sweep& sweep) {
  SystemGiven given;
  if (Outcome fit = check_system_fields(kernel, sweep, 1, given); fit.status != SPIDER_OK) return fit;
  if (given.is_empty() && !is_box_given(sweep)) return {};
  return check_system_box(kernel, sweep, given);
}

Outcome run_system(const spider_kernel& kernel, const spider_sweep& sweep) {
  SystemGiven given;
  if (Outcome fit = check_system_fields(kernel, sweep, 1, given); fit.status != SPIDER_OK) return fit;
  if (given.is_empty() && !is_box_given(sweep)) return {};
  if (Outcome fit = check_system_box(kernel, sweep, given); fit.status != SPIDER_OK) return fit;
  return run_checked(kernel, sweep, given, 1);
}

Outcome run_system_steps(const spider_kernel& kernel, const spider_sweep& sweep, std::int64_t steps,
                         ReductionBound* until) {
  if (until != nullptr) {
    if (Outcome fit = check_bound(kernel, sweep, *until); fit.status != SPIDER_OK) return fit;
  }
  if (steps < 0) return {SPIDER_ERROR_STEPS, std::to_string(steps) + " steps; there must be 0 or more"};
  SystemGiven given;
  if (Outcome fit = check_system_fields(kernel, sweep, steps, given); fit.status != SPIDER_OK) return fit;
  const bool runs_all = given.launch_count == kernel.form_count;
  if (steps != 1 && (!runs_all || given.is_cut || is_box_given(sweep))) {
    return {SPIDER_ERROR_STEPS,
            std::to_string(steps) +
                " steps of a box, a part or some launches; these take one step, since the "
                "next one needs the cells around it"};
  }
  if (given.is_empty() && !is_box_given(sweep)) return {};
  if (Outcome fit = check_system_box(kernel, sweep, given); fit.status != SPIDER_OK) return fit;
  return steps == 0 ? Outcome{} : run_checked(kernel, sweep, given, steps, until);
}

}  // namespace spider
