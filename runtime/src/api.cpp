/// The C interface: checks arguments, cuts the sweep, and passes it to the back end of this link.
#include <spider/kernel.h>
#include <spider/memory.h>
#include <spider/reductions.h>
#include <spider/spider.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "backend.h"
#include "batch.h"
#include "fields.h"
#include "passes.h"
#include "ready_sweep.h"
#include "report.h"
#include "system.h"
#include "system_fields.h"
#include "tiling.h"
#include "turns.h"

namespace {

using spider::check_kernel;
using spider::guarded;
using spider::make_ready;
using spider::other_fields;
using spider::ReadySweep;
using spider::SweepFields;
using spider::whole_interior;
using spider::writes_before;
using spider::backend::Outcome;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

static_assert(sizeof(spider_kernel) == 1808, "another layout must have another size, or another SPIDER_ABI");
// check_kernel compares sizes only: reordering members requires another SPIDER_ABI.
static_assert(sizeof(spider::SweepArguments) == 216 && offsetof(spider::SweepArguments, box) == 72 &&
                  offsetof(spider::SweepArguments, grid) == 120 &&
                  offsetof(spider::SweepArguments, aligned_input) == 212 &&
                  sizeof(spider::BoxesArguments) == 472 && sizeof(spider::SystemArguments) == 2000,
              "another layout must have another size, or another SPIDER_ABI");

/// Whether a sweep of several steps can write the step before the last one to the field given for it.
Outcome check_out_previous(const spider_kernel& kernel, const SweepFields& given, const spider_part& part,
                           std::int32_t steps) {
  const std::string text = "out_previous, for the step before the last one";
  if (given.out_previous == nullptr) {
    return {SPIDER_ERROR_NULL,
            "the kernel " + std::string(kernel.info.name) + " takes " + std::to_string(steps) +
                " steps in a sweep and needs " + text +
                "; it is null. Without it spider_run_steps takes the steps of whole fields one by one"};
  }
  const spider_field& out = *given.out_previous;
  const auto told = [&](Outcome found) {
    if (found) found.reason = text + ", as an output: " + found.reason;
    return found;
  };
  if (Outcome failed = told(spider::check_fields(kernel, *given.in, out, part))) return failed;
  for (const spider::OtherField& other : other_fields(kernel, given)) {
    if (Outcome failed = told(spider::check_other(kernel, *given.in, out, other, part, steps))) return failed;
  }
  if (!spider::is_empty(out) && spider::share_cells(kernel, *given.out, out))
    return {SPIDER_ERROR_OVERLAP, text + ", and the output share cells: give it memory of its own"};
  return {};
}

/// Whether the kernel is given everything that sweeps of that many steps take, and nothing else.
Outcome check_given(const spider_kernel& kernel, const SweepFields& given, const spider_part& part,
                    std::int32_t steps) {
  const spider_kernel_info& info = kernel.info;
  const std::string name = "the kernel " + std::string(info.name);
  if (given.in == nullptr || given.out == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  if (Outcome failed = spider::check_fields(kernel, *given.in, *given.out, part)) return failed;
  const bool surplus = (info.previous == nullptr && given.previous != nullptr) ||
                       (info.field_count == 0 && given.further != nullptr) ||
                       (info.scalar_count == 0 && given.scalars != nullptr);
  if (!writes_before(kernel) && given.out_previous != nullptr) {
    return {SPIDER_ERROR_UNSUPPORTED,
            name + " has no sweep of several steps with a previous input: out_previous must be null"};
  }
  if (surplus) {
    return {SPIDER_ERROR_UNSUPPORTED, name + " takes " + (info.previous == nullptr ? "no" : "a") +
                                          " previous input, " + std::to_string(info.field_count) +
                                          " further fields and " + std::to_string(info.scalar_count) +
                                          " scalars; what it does not take must be null"};
  }
  if (info.scalar_count > 0 && given.scalars == nullptr) {
    return {SPIDER_ERROR_NULL,
            name + " takes " + std::to_string(info.scalar_count) + " scalars, which are null"};
  }
  for (const spider::OtherField& other : other_fields(kernel, given)) {
    if (Outcome failed = spider::check_other(kernel, *given.in, *given.out, other, part, steps))
      return failed;
  }
  if (!writes_before(kernel)) return {};
  if (steps > 1) return check_out_previous(kernel, given, part, steps);
  if (given.out_previous == nullptr) return {};
  return {SPIDER_ERROR_UNSUPPORTED, name +
                                        " writes no out_previous in a sweep of one step, before which is the "
                                        "input: it must be null"};
}

/// The same of all images of a batch.
Outcome check_images(const spider_kernel& kernel, const SweepFields& given, const spider_part& part,
                     std::int32_t steps) {
  Outcome fit = check_given(kernel, given, part, steps);
  return fit.status == SPIDER_OK && given.batch.count > 1 ? spider::check_apart(kernel, given, part) : fit;
}

/// Whether a kernel takes no more than spider_apply and spider_iterate give it.
Outcome check_short_form(const spider_kernel* kernel) {
  if (Outcome failed = check_kernel(kernel)) return failed;
  const spider_kernel_info& info = kernel->info;
  if (info.previous == nullptr && info.field_count == 0 && info.scalar_count == 0) return {};
  return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(info.name) +
                                        " takes more than input and output; call spider_run or "
                                        "spider_run_steps"};
}

/// Whether the back end can reach all fields.
Outcome check_memory(const spider_kernel& kernel, const SweepFields& given) {
  const auto check = [](const spider_field& field, const char* name) {
    return spider::backend::check_memory(field.data, name);
  };
  if (Outcome failed = check(*given.in, "the input")) return failed;
  if (Outcome failed = check(*given.out, "the output")) return failed;
  for (const spider::OtherField& other : other_fields(kernel, given)) {
    if (Outcome failed = check(*other.field, other.name.c_str())) return failed;
  }
  return given.out_previous == nullptr ? Outcome{} : check(*given.out_previous, "out_previous");
}

/// Checks that a copy keeps its rows apart.
Outcome check_pitches(std::uint64_t to_pitch, std::uint64_t from_pitch, std::uint64_t row_bytes,
                      std::uint64_t rows) {
  if (rows < 2 || std::min(to_pitch, from_pitch) >= row_bytes) return {};
  return {SPIDER_ERROR_STRIDE, "rows of " + std::to_string(row_bytes) + " bytes overlap at a pitch of " +
                                   std::to_string(std::min(to_pitch, from_pitch))};
}

/// Whether the caller's scratch is large enough for a sweep over a box; null is.
Outcome check_scratch(const spider_kernel& kernel, const SweepFields& given, const spider::Box& box,
                      const spider_part* part) {
  constexpr std::uintptr_t alignment = 128;
  if (given.scratch == nullptr && given.scratch_bytes == 0) return {};
  if (given.scratch == nullptr) return {SPIDER_ERROR_NULL, "the scratch is null and has bytes"};
  const std::uint64_t needed =
      kernel.pass_count > 0 ? spider::bytes_between_passes(kernel, *given.in, box, part) : 0;
  if (given.scratch_bytes < needed) {
    return {SPIDER_ERROR_MEMORY, "the scratch has " + std::to_string(given.scratch_bytes) +
                                     " bytes; this sweep needs " + std::to_string(needed) +
                                     ", as spider_scratch_bytes says"};
  }
  if (needed == 0) return {};
  if (reinterpret_cast<std::uintptr_t>(given.scratch) % alignment != 0)
    return {SPIDER_ERROR_ALIGNMENT, "the scratch is not on a multiple of 128 bytes"};
  // Scratch for more than one image lets several go together.
  const std::uint64_t most =
      std::min(given.scratch_bytes / needed, static_cast<std::uint64_t>(given.batch.count)) * needed;
  if (Outcome failed = spider::check_scratch_apart(
          kernel, given, part == nullptr ? spider::whole_part(*given.in) : *part, most))
    return failed;
  return spider::backend::check_memory(given.scratch, "the scratch");
}

/// run_passes() if the scratch is fit.
Outcome run_in_passes(const spider_kernel& kernel, const SweepFields& given, const spider::Box& box,
                      const spider_part* part, std::int64_t steps, void* stream) {
  if (Outcome failed = check_scratch(kernel, given, box, part)) return failed;
  return spider::run_passes(kernel, given, box, part, steps, stream);
}

/// Advances `box`, or the whole interior if it is null, by that many time steps in one sweep; 0 stands for
/// the kernel's. The fields are a part of a whole, or `part` is null.
Outcome apply(const spider_kernel* kernel, const SweepFields& given, const spider::Box* box,
              const spider_part* part, std::int32_t steps, void* stream) {
  if (Outcome failed = check_kernel(kernel)) return failed;
  if (given.in == nullptr || given.out == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  const spider_field& in = *given.in;
  if (steps == 0) steps = kernel->info.steps;
  if (Outcome failed = check_images(*kernel, given, part == nullptr ? spider::whole_part(in) : *part, steps))
    return failed;
  if (box == nullptr && spider::is_empty(in)) return {};
  const spider::Box points = box == nullptr ? whole_interior(in) : *box;
  if (Outcome failed = spider::check_box(in, points)) return failed;
  spider::backend::Residencies residencies;
  if (Outcome failed = spider::backend::prepare(*kernel, residencies)) return failed;
  if (Outcome failed = check_memory(*kernel, given)) return failed;
  if (kernel->pass_count > 0) return run_in_passes(*kernel, given, points, part, 1, stream);
  if (!are_loaded(*kernel, residencies)) {
    const spider::backend::FormSet forms = forms_for(*kernel, given, part, residencies, steps);
    if (Outcome failed = spider::backend::load(*kernel, forms, residencies)) return failed;
  }
  return make_ready(*kernel, given, points, part, residencies, steps).launch(*kernel, stream);
}

/// The halo of one field of a system, or of all.
Outcome tell_system_halo(const spider_kernel& kernel, std::int32_t field, const int64_t* extent,
                         const spider_part* part, int64_t* low, int64_t* high) {
  spider::HaloWidth widths[3];
  if (Outcome failed = spider::find_system_halo(kernel, field, extent, part, widths)) return failed;
  for (int axis = 0; axis < 3; ++axis) {
    low[axis] = widths[axis].low;
    high[axis] = widths[axis].high;
  }
  return {};
}

/// Evaluates `width` for fields of these extents, axis by axis; they are whole if `part` is null.
template <class Width>
Outcome tell_halo(const spider_kernel* kernel, const int64_t* extent, const spider_part* part, int64_t* low,
                  int64_t* high, const Width& width) {
  if (Outcome failed = check_kernel(kernel)) return failed;
  if (extent == nullptr || low == nullptr || high == nullptr)
    return {SPIDER_ERROR_NULL, "the extents or a place for the halo is null"};
  if (kernel->system != nullptr)
    return tell_system_halo(*kernel, spider::all_fields, extent, part, low, high);
  const spider_field field{nullptr, {extent[0], extent[1], extent[2]}, {0, 0}};
  if (Outcome failed = spider::check_extents(*kernel, field, "the field")) return failed;
  const spider_part place = part == nullptr ? spider::whole_part(field) : *part;
  if (Outcome failed = spider::check_part(*kernel, field, place)) return failed;
  const bool reads = !spider::is_empty(field);
  for (int axis = 0; axis < 3; ++axis) {
    const spider::HaloWidth found = reads ? width(*kernel, field, place, axis) : spider::HaloWidth{};
    low[axis] = found.low;
    high[axis] = found.high;
  }
  return {};
}

/// A number of sweeps one after the other, with the same number of steps each.
struct Sweeps {
  std::int32_t steps;
  std::int64_t count;
};

/// Sweeps of at most `most` steps that add up to `steps`, the longest first; `steps` becomes the remainder,
/// for which the kernel has no form.
std::vector<Sweeps> divide_steps(const spider_kernel& kernel, std::int64_t& steps, std::int32_t most) {
  std::vector<Sweeps> sweeps;
  for (std::int32_t i = 0; i < kernel.form_count && steps > 0; ++i) {
    const std::int32_t of_form = kernel.forms[i].steps;
    if (steps < of_form || of_form > most) continue;
    sweeps.push_back({of_form, steps / of_form});
    steps %= of_form;
  }
  return sweeps;
}

/// Arguments of a sweep besides its fields. NULL boxes and parts stand for the whole.
Outcome check_sweep(const spider_kernel* kernel, const spider_sweep* sweep) {
  if (Outcome failed = check_kernel(kernel)) return failed;
  if (sweep == nullptr) return {SPIDER_ERROR_NULL, "the sweep is null"};
  if (!spider::is_sweep_size(sweep->size)) {
    return {SPIDER_ERROR_UNSUPPORTED, "the sweep says that it has " + std::to_string(sweep->size) +
                                          " bytes; set its size to sizeof(spider_sweep), here " +
                                          std::to_string(sizeof(spider_sweep))};
  }
  const spider_sweep whole = spider::extended(*sweep);
  if (Outcome failed = spider::check_batch(*kernel, whole)) return failed;
  if (kernel->system != nullptr) return {};
  if (whole.outputs == nullptr && whole.first_launch == 0 && whole.launch_count == 0 &&
      whole.reductions == nullptr)
    return {};
  return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(kernel->info.name) +
                                        " is no system of equations: outputs, first_launch, launch_count and "
                                        "reductions must be null and 0"};
}

/// One sweep of that many steps; 0 stands for the kernel's.
Outcome run(const spider_kernel* kernel, const spider_sweep* sweep, std::int32_t steps) {
  if (Outcome failed = check_sweep(kernel, sweep)) return failed;
  if (kernel->system != nullptr) return spider::run_system(*kernel, spider::extended(*sweep));
  const auto& [z, y, x] = sweep->extent;
  const spider::Box box{{sweep->offset[0], sweep->offset[1], sweep->offset[2]}, {z, y, x}};
  const bool all = z == 0 && y == 0 && x == 0;
  return apply(kernel, spider::given_by(*sweep), all ? nullptr : &box, sweep->part, steps, sweep->stream);
}

/// True if a further field is the memory of an output, and would change from step to step.
Outcome check_steps_in_place(const spider_kernel& kernel, const std::vector<SweepFields>& turns) {
  for (const SweepFields& turn : turns) {
    for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
      if (!spider::is_in_place(*turn.out, *turn.further[i])) continue;
      return {SPIDER_ERROR_OVERLAP, "the field " + std::string(kernel.info.field_names[i]) +
                                        " is the memory of an output, and would change from step to step"};
    }
  }
  return {};
}

/// Loads the forms that run_sweeps() may choose, before the first sweep overwrites anything.
Outcome load_for_sweeps(const spider_kernel& kernel, const std::vector<Sweeps>& all_sweeps, bool in_pairs,
                        const std::vector<SweepFields>& turns, spider::backend::Residencies& residencies) {
  if (are_loaded(kernel, residencies)) return {};
  spider::backend::FormSet forms;
  for (const Sweeps& sweeps : all_sweeps) {
    const bool takes_turns = in_pairs && sweeps.steps == 1;
    for (const SweepFields& turn : turns) {
      const std::vector<SweepFields> fields =
          takes_turns ? spider::rotate_in_place(turn) : std::vector<SweepFields>{turn};
      for (const SweepFields& given : fields)
        forms |= forms_for(kernel, given, nullptr, residencies, sweeps.steps);
    }
  }
  return spider::backend::load(kernel, forms, residencies);
}

/// Runs the sweeps of many steps, one after the other; `turns` are the fields in turn, `done` counts sweeps.
Outcome run_sweeps(const spider_kernel& kernel, const std::vector<Sweeps>& all_sweeps, bool in_pairs,
                   spider::backend::Residencies& residencies, void* stream, std::vector<SweepFields>& turns,
                   std::int64_t& done) {
  if (Outcome failed = load_for_sweeps(kernel, all_sweeps, in_pairs, turns, residencies)) return failed;
  const auto count = static_cast<std::int64_t>(turns.size());
  const auto turn_of = [&](std::int64_t sweep) { return static_cast<std::size_t>(sweep % count); };
  for (const Sweeps& sweeps : all_sweeps) {
    if (in_pairs && sweeps.steps == 1) {
      turns = spider::rotate_in_place(turns[turn_of(done)]);
      done = 0;
    }
    std::vector<ReadySweep> ready;
    ready.reserve(turns.size());
    for (const SweepFields& turn : turns) {
      ready.push_back(make_ready(kernel, turn, whole_interior(*turn.in), nullptr, residencies, sweeps.steps));
    }
    for (std::int64_t i = 0; i < sweeps.count; ++i, ++done) {
      if (Outcome failed = ready[turn_of(done)].launch(kernel, stream)) return failed;
    }
  }
  return {};
}

Outcome iterate(const spider_kernel* kernel, const SweepFields& given, std::int64_t steps, void* stream,
                const spider_field** result) {
  if (Outcome failed = check_kernel(kernel)) return failed;
  if (given.in == nullptr || given.out == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  if (steps < 0) return {SPIDER_ERROR_STEPS, std::to_string(steps) + " steps; there must be 0 or more"};
  if (spider::converts(*kernel)) {
    return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(kernel->info.name) +
                                          " has results of another storage than its input, which are no "
                                          "input of a next step: call spider_apply or spider_run"};
  }
  std::int64_t left = steps;
  const bool in_pairs = given.out_previous != nullptr;
  const std::int32_t most = writes_before(*kernel) && !in_pairs ? 1 : kernel->info.steps;
  const std::vector<Sweeps> all_sweeps = divide_steps(*kernel, left, most);
  if (left > 0) {
    return {SPIDER_ERROR_STEPS, std::to_string(steps) + " steps; they must be a multiple of the kernel's " +
                                    std::to_string(kernel->info.steps) + ", which has no sweep of fewer"};
  }
  // All turns must be fit before the first sweep overwrites anything.
  if (Outcome failed = check_images(*kernel, given, spider::whole_part(*given.in), most)) return failed;
  std::vector<SweepFields> turns = spider::rotate(given);
  for (const SweepFields& turn : turns) {
    if (Outcome failed = check_images(*kernel, turn, spider::whole_part(*turn.in), most)) return failed;
    if (!in_pairs || most == 1) continue;
    for (const SweepFields& single : spider::rotate_in_place(turn)) {
      if (Outcome failed = check_images(*kernel, single, spider::whole_part(*single.in), 1)) return failed;
    }
  }
  if (spider::is_empty(*given.in)) steps = 0;
  if (steps > 1) {
    if (Outcome failed = check_steps_in_place(*kernel, turns)) return failed;
  }
  const auto count = static_cast<std::int64_t>(turns.size());
  const auto turn_of = [&](std::int64_t sweep) { return static_cast<std::size_t>(sweep % count); };
  std::int64_t done = 0;  // sweeps
  if (steps > 0) {
    spider::backend::Residencies residencies;
    if (Outcome failed = spider::backend::prepare(*kernel, residencies)) return failed;
    if (Outcome failed = check_memory(*kernel, given)) return failed;
    Outcome swept;
    if (kernel->pass_count > 0) {
      done = steps;
      swept = run_in_passes(*kernel, given, whole_interior(*given.in), nullptr, steps, stream);
    } else {
      swept = run_sweeps(*kernel, all_sweeps, in_pairs, residencies, stream, turns, done);
    }
    if (swept) return swept;
  }
  if (result != nullptr) *result = turns[turn_of(done)].in;
  return {};
}

}  // namespace

spider_status spider::report(const char* function, spider_status status, const char* reason) noexcept {
  if (status == SPIDER_OK) return status;
  try {
    last_error() = std::string(function) + ": " + reason;
  } catch (...) {
    last_error().clear();
  }
  return status;
}

Outcome spider::check_kernel(const spider_kernel* kernel) {
  if (kernel == nullptr) return {SPIDER_ERROR_NULL, "the kernel is null"};
  const auto refuse = [](const std::string& kernels, const std::string& ours) -> Outcome {
    return {SPIDER_ERROR_KERNEL,
            "the kernel was generated for " + kernels + "; this runtime has " + ours + ": generate it again"};
  };
  if (kernel->abi != SPIDER_ABI || kernel->size != sizeof(spider_kernel)) {
    const auto version = [](std::uint32_t abi, std::uint32_t size) {
      return "ABI " + std::to_string(abi) + " with " + std::to_string(size) + " bytes";
    };
    return refuse(version(kernel->abi, kernel->size), version(SPIDER_ABI, sizeof(spider_kernel)));
  }
  const std::size_t launch_size = spider::largest_arguments(kernel->forms, kernel->form_count);
  if (kernel->launch_size != launch_size) {
    const auto launches = [](std::size_t size) { return "launches with " + std::to_string(size) + " bytes"; };
    return refuse(launches(kernel->launch_size), launches(launch_size));
  }
  if (kernel->info.backend != spider::backend::kind()) {
    return {SPIDER_ERROR_KERNEL, "the kernel was compiled for another back end: link one back end only"};
  }
  return {};
}

Outcome spider::check_run(const spider_kernel* kernel, const spider_sweep* sweep) {
  if (Outcome failed = check_sweep(kernel, sweep)) return failed;
  if (kernel->system != nullptr) return check_system(*kernel, extended(*sweep));
  if (sweep->in == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  const SweepFields given = spider::given_by(*sweep);
  const std::int32_t steps = writes_before(*kernel) && given.out_previous == nullptr ? 1 : kernel->info.steps;
  return check_images(*kernel, given, sweep->part == nullptr ? whole_part(*sweep->in) : *sweep->part, steps);
}

int32_t spider_abi_version(void) {
  return SPIDER_ABI;
}

const spider_kernel_info* spider_info(const spider_kernel* kernel) {
  return guarded("spider_info", [&] { return check_kernel(kernel); }) == SPIDER_OK ? &kernel->info : nullptr;
}

spider_status spider_halo(const spider_kernel* kernel, const int64_t extent[3], int64_t low[3],
                          int64_t high[3]) {
  return guarded("spider_halo",
                 [&] { return tell_halo(kernel, extent, nullptr, low, high, spider::halo_width); });
}

spider_status spider_halo_of_part(const spider_kernel* kernel, const int64_t extent[3],
                                  const spider_part* part, int64_t low[3], int64_t high[3]) {
  return guarded("spider_halo_of_part",
                 [&] { return tell_halo(kernel, extent, part, low, high, spider::halo_width); });
}

spider_status spider_halo_of_fields(const spider_kernel* kernel, const int64_t extent[3], int64_t low[3],
                                    int64_t high[3]) {
  return guarded("spider_halo_of_fields",
                 [&] { return tell_halo(kernel, extent, nullptr, low, high, spider::further_halo_width); });
}

spider_status spider_halo_of_field(const spider_kernel* kernel, int32_t field, const int64_t extent[3],
                                   const spider_part* part, int64_t low[3], int64_t high[3]) {
  return guarded("spider_halo_of_field", [&]() -> Outcome {
    if (Outcome failed = check_kernel(kernel)) return failed;
    if (extent == nullptr || low == nullptr || high == nullptr)
      return {SPIDER_ERROR_NULL, "the extents or a place for the halo is null"};
    if (Outcome failed = spider::check_field_index(*kernel, field)) return failed;
    return tell_system_halo(*kernel, field, extent, part, low, high);
  });
}

spider_status spider_prepare(const spider_kernel* kernel) {
  return guarded("spider_prepare", [&]() -> Outcome {
    if (Outcome failed = check_kernel(kernel)) return failed;
    if (kernel->system != nullptr) return spider::load_system(*kernel);
    if (kernel->pass_count > 0) {
      std::vector<spider::backend::Residencies> of_passes;
      if (Outcome failed = spider::load_passes(*kernel, of_passes)) return failed;
    }
    spider::backend::Residencies residencies;
    return spider::backend::load(*kernel, spider::backend::all_forms, residencies);
  });
}

spider_status spider_apply(const spider_kernel* kernel, const spider_field* in, const spider_field* out,
                           void* stream) {
  return guarded("spider_apply", [&]() -> Outcome {
    if (Outcome failed = check_short_form(kernel)) return failed;
    return apply(kernel, {in, out}, nullptr, nullptr, 0, stream);
  });
}

spider_status spider_apply_box(const spider_kernel* kernel, const spider_field* in, const spider_field* out,
                               const int64_t offset[3], const int64_t extent[3], void* stream) {
  return guarded("spider_apply_box", [&]() -> Outcome {
    if (offset == nullptr || extent == nullptr)
      return {SPIDER_ERROR_NULL, "the box's offset or extent is null"};
    const spider::Box box{{offset[0], offset[1], offset[2]}, {extent[0], extent[1], extent[2]}};
    if (Outcome failed = check_short_form(kernel)) return failed;
    return apply(kernel, {in, out}, &box, nullptr, 0, stream);
  });
}

spider_status spider_run(const spider_kernel* kernel, const spider_sweep* sweep) {
  return guarded("spider_run", [&] { return run(kernel, sweep, 0); });
}

spider_status spider_scratch_bytes(const spider_kernel* kernel, const spider_sweep* sweep, uint64_t* bytes) {
  return guarded("spider_scratch_bytes", [&]() -> Outcome {
    if (bytes == nullptr) return {SPIDER_ERROR_NULL, "the place for the number of bytes is null"};
    *bytes = 0;
    if (Outcome failed = check_sweep(kernel, sweep)) return failed;
    if (kernel->system != nullptr) return {};
    if (sweep->in == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
    const spider_field& in = *sweep->in;
    if (Outcome failed = spider::check_extents(*kernel, in, "the field")) return failed;
    const spider_part part = sweep->part == nullptr ? spider::whole_part(in) : *sweep->part;
    if (Outcome failed = spider::check_part(*kernel, in, part)) return failed;
    const auto& [z, y, x] = sweep->extent;
    const bool all = z == 0 && y == 0 && x == 0;
    if ((all && spider::is_empty(in)) || kernel->pass_count == 0) return {};
    const spider::Box box =
        all ? whole_interior(in)
            : spider::Box{{sweep->offset[0], sweep->offset[1], sweep->offset[2]}, {z, y, x}};
    if (Outcome failed = spider::check_box(in, box)) return failed;
    *bytes = spider::bytes_between_passes(*kernel, in, box, sweep->part);
    return {};
  });
}

spider_status spider_run_until(const spider_kernel* kernel, const spider_sweep* sweep, int64_t steps,
                               int32_t reduction, double bound, int64_t check_every, int64_t* done,
                               double* values) {
  return guarded("spider_run_until", [&]() -> Outcome {
    if (done == nullptr) return {SPIDER_ERROR_NULL, "the place for the number of steps is null"};
    *done = 0;
    if (Outcome failed = check_sweep(kernel, sweep)) return failed;
    if (kernel->system == nullptr) {
      return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(kernel->info.name) +
                                            " is no system of equations, and has no reductions"};
    }
    std::array<double, spider::most_reductions> numbers{};
    spider::ReductionBound until{reduction, bound, check_every, numbers.data()};
    Outcome outcome = spider::run_system_steps(*kernel, spider::extended(*sweep), steps, &until);
    *done = until.done;
    if (values != nullptr) std::copy_n(numbers.begin(), kernel->info.reduction_count, values);
    return outcome;
  });
}

spider_status spider_run_steps(const spider_kernel* kernel, const spider_sweep* sweep, int64_t steps,
                               const spider_field** result) {
  return guarded("spider_run_steps", [&]() -> Outcome {
    if (Outcome failed = check_sweep(kernel, sweep)) return failed;
    if (kernel->system != nullptr) {
      if (result != nullptr) *result = nullptr;
      return spider::run_system_steps(*kernel, spider::extended(*sweep), steps);
    }
    const auto& [z, y, x] = sweep->extent;
    if (sweep->part == nullptr && z == 0 && y == 0 && x == 0)
      return iterate(kernel, spider::given_by(*sweep), steps, sweep->stream, result);
    for (std::int32_t i = 0; i < kernel->form_count; ++i) {
      if (kernel->forms[i].steps != steps) continue;
      if (result != nullptr) *result = sweep->out;
      return run(kernel, sweep, static_cast<std::int32_t>(steps));
    }
    return {SPIDER_ERROR_STEPS, std::to_string(steps) +
                                    " steps of a box or a part; there one sweep must do them, "
                                    "since the next one needs the cells around it"};
  });
}

spider_status spider_iterate(const spider_kernel* kernel, const spider_field* a, const spider_field* b,
                             int64_t steps, void* stream, const spider_field** result) {
  return guarded("spider_iterate", [&]() -> Outcome {
    if (Outcome failed = check_short_form(kernel)) return failed;
    return iterate(kernel, {a, b}, steps, stream, result);
  });
}

const char* spider_status_string(spider_status status) {
  constexpr std::pair<spider_status, const char*> texts[] = {
      {SPIDER_OK, "ok"},
      {SPIDER_ERROR_NULL, "a pointer is null"},
      {SPIDER_ERROR_KERNEL, "not a kernel of this runtime"},
      {SPIDER_ERROR_EXTENT, "an extent is out of range or extents differ"},
      {SPIDER_ERROR_STRIDE, "a stride is out of range"},
      {SPIDER_ERROR_ALIGNMENT, "data is not aligned to its element type"},
      {SPIDER_ERROR_OVERLAP, "input and output overlap"},
      {SPIDER_ERROR_STEPS, "not a possible number of steps"},
      {SPIDER_ERROR_UNSUPPORTED, "not supported in this version"},
      {SPIDER_ERROR_DEVICE, "the device cannot run the kernel"},
      {SPIDER_ERROR_MEMORY, "out of memory"},
      {SPIDER_ERROR_LAUNCH, "a launch or copy failed"},
      {SPIDER_ERROR_EMULATION, "the emulated kernel broke a rule of the machine"},
      {SPIDER_ERROR_RANKS, "ranks do not agree, or cannot reach each other"},
  };
  for (const auto& [known, text] : texts) {
    if (known == status) return text;
  }
  return "unknown status";
}

const char* spider_last_error(void) {
  return last_error().c_str();
}

spider_status spider_allocate(uint64_t bytes, void** memory) {
  return guarded("spider_allocate", [&]() -> Outcome {
    if (memory == nullptr) return {SPIDER_ERROR_NULL, "the place for the pointer is null"};
    return spider::backend::allocate(std::max<uint64_t>(bytes, 1), memory);
  });
}

spider_status spider_free(void* memory) {
  return guarded("spider_free",
                 [&] { return memory == nullptr ? Outcome{} : spider::backend::release(memory); });
}

spider_status spider_upload(void* to, uint64_t to_pitch, const void* from_host, uint64_t from_pitch,
                            uint64_t row_bytes, uint64_t rows) {
  return guarded("spider_upload", [&]() -> Outcome {
    if (to == nullptr || from_host == nullptr) return {SPIDER_ERROR_NULL, "a pointer is null"};
    if (Outcome failed = check_pitches(to_pitch, from_pitch, row_bytes, rows)) return failed;
    return spider::backend::upload(to, to_pitch, from_host, from_pitch, row_bytes, rows);
  });
}

spider_status spider_download(void* to_host, uint64_t to_pitch, const void* from, uint64_t from_pitch,
                              uint64_t row_bytes, uint64_t rows) {
  return guarded("spider_download", [&]() -> Outcome {
    if (to_host == nullptr || from == nullptr) return {SPIDER_ERROR_NULL, "a pointer is null"};
    if (Outcome failed = check_pitches(to_pitch, from_pitch, row_bytes, rows)) return failed;
    return spider::backend::download(to_host, to_pitch, from, from_pitch, row_bytes, rows);
  });
}

spider_status spider_synchronize(void* stream) {
  return guarded("spider_synchronize", [&] { return spider::backend::synchronize(stream); });
}

spider_status spider_clear(void* memory, uint64_t bytes) {
  return guarded("spider_clear", [&]() -> Outcome {
    if (memory == nullptr) return {SPIDER_ERROR_NULL, "the memory is null"};
    return spider::backend::clear(memory, bytes);
  });
}
