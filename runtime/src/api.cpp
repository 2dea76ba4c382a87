/// The C interface: checks what it is given, cuts the sweep, hands it to the back end of this link.
#include <spider/kernel.h>
#include <spider/memory.h>
#include <spider/spider.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "backend.h"
#include "fields.h"
#include "report.h"
#include "system.h"
#include "system_fields.h"
#include "tiling.h"
#include "turns.h"

namespace {

using spider::check_kernel;
using spider::guarded;
using spider::backend::Outcome;

std::string& last_error() {
  thread_local std::string text;
  return text;
}

static_assert(sizeof(spider_kernel) == 1768, "another layout must have another size, or another SPIDER_ABI");
// check_kernel compares sizes only: members that change places within them need another SPIDER_ABI.
static_assert(sizeof(spider::SweepArguments) == 216 && offsetof(spider::SweepArguments, box) == 72 &&
                  offsetof(spider::SweepArguments, grid) == 120 &&
                  offsetof(spider::SweepArguments, aligned_input) == 212 &&
                  sizeof(spider::BoxesArguments) == 472 && sizeof(spider::SystemArguments) == 1992,
              "another layout must have another size, or another SPIDER_ABI");

spider::Box whole_interior(const spider_field& field) {
  return {{0, 0, 0}, {field.extent[0], field.extent[1], field.extent[2]}};
}

/// A box of a part, counted in the whole.
spider::Box box_in_whole(const spider::Box& box, const spider::PlacedFields& fields) {
  return {
      {fields.origin[0] + box.offset[0], fields.origin[1] + box.offset[1], fields.origin[2] + box.offset[2]},
      {box.extent[0], box.extent[1], box.extent[2]}};
}

/// Which fields' rows start where vectors of them can be read or written: all forms of a kernel ask for the
/// same.
struct AlignedRows {
  bool in;
  bool out;
};

AlignedRows find_aligned_rows(const spider_kernel& kernel, const spider_field& in, const spider_field& out,
                              const spider::Tiling& tiling) {
  // Time steps in 3D count the cells of a plane that they read in vectors with 32 bits: small fields may take
  // them where the first form is another.
  const bool counts_planes =
      std::any_of(kernel.forms, kernel.forms + kernel.form_count, [](const spider::SweepForm& form) {
        return form.tiling.kind == spider::TilingKind::blocks && form.tiling.balances_tail;
      });
  return {spider::rows_aligned(kernel, in, tiling.input_alignment, true) &&
              (!counts_planes || spider::plane_cells_fit_32_bits(kernel, in)),
          spider::rows_aligned(kernel, out, tiling.output_alignment, false)};
}

spider::SweepArguments make_arguments(const spider_field& in, const spider_field& out,
                                      const AlignedRows& aligned, const spider::Box& box,
                                      const spider::BlockGrid& grid) {
  return {in.data,
          out.data,
          {in.stride[0], in.stride[1]},
          {out.stride[0], out.stride[1]},
          {in.extent[0], in.extent[1], in.extent[2]},
          box,
          grid,
          aligned.in,
          aligned.out};
}

/// What a sweep is given: `previous`, `further` and `scalars` are null where the kernel takes none.
struct SweepFields {
  const spider_field* in = nullptr;
  const spider_field* out = nullptr;
  const spider_field* previous = nullptr;
  const spider_field* const* further = nullptr;
  const double* scalars = nullptr;
  const spider_field* out_previous = nullptr;
};

/// Does a sweep of the kernel's steps write the step before the last one, too?
bool writes_before(const spider_kernel& kernel) {
  return kernel.info.previous != nullptr && kernel.info.steps > 1;
}

/// The fields that the kernel takes beside input and output, given or not.
std::vector<spider::OtherField> other_fields(const spider_kernel& kernel, const SweepFields& given) {
  const spider_kernel_info& info = kernel.info;
  std::vector<spider::OtherField> others;
  if (info.previous != nullptr) {
    others.push_back({given.previous, info.storage, "the previous field " + std::string(info.previous),
                      writes_before(kernel)});
  }
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    others.push_back({given.further == nullptr ? nullptr : given.further[i], info.field_storages[i],
                      "the field " + std::string(info.field_names[i])});
  }
  return others;
}

/// Whether a sweep of several steps can write the step before the last one where it is told to.
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
    if (found.status != SPIDER_OK) found.reason = text + ", as an output: " + found.reason;
    return found;
  };
  if (Outcome fit = told(spider::check_fields(kernel, *given.in, out, part)); fit.status != SPIDER_OK)
    return fit;
  for (const spider::OtherField& other : other_fields(kernel, given)) {
    if (Outcome fit = told(spider::check_other(kernel, *given.in, out, other, part, steps));
        fit.status != SPIDER_OK)
      return fit;
  }
  if (!spider::is_empty(out) && spider::share_cells(kernel, *given.out, out))
    return {SPIDER_ERROR_OVERLAP, text + ", and the output share cells: give it memory of its own"};
  return {};
}

/// Whether the kernel is given all that sweeps of so many steps take, and nothing else.
Outcome check_given(const spider_kernel& kernel, const SweepFields& given, const spider_part& part,
                    std::int32_t steps) {
  const spider_kernel_info& info = kernel.info;
  const std::string name = "the kernel " + std::string(info.name);
  if (given.in == nullptr || given.out == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  if (Outcome fit = spider::check_fields(kernel, *given.in, *given.out, part); fit.status != SPIDER_OK)
    return fit;
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
    if (Outcome fit = spider::check_other(kernel, *given.in, *given.out, other, part, steps);
        fit.status != SPIDER_OK)
      return fit;
  }
  if (!writes_before(kernel)) return {};
  if (steps > 1) return check_out_previous(kernel, given, part, steps);
  if (given.out_previous == nullptr) return {};
  return {SPIDER_ERROR_UNSUPPORTED, name +
                                        " writes no out_previous in a sweep of one step, before which is the "
                                        "input: it must be null"};
}

/// Whether a kernel takes no more than spider_apply and its kin give it.
Outcome check_short_form(const spider_kernel* kernel) {
  if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
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
  if (Outcome reached = check(*given.in, "the input"); reached.status != SPIDER_OK) return reached;
  if (Outcome reached = check(*given.out, "the output"); reached.status != SPIDER_OK) return reached;
  for (const spider::OtherField& other : other_fields(kernel, given)) {
    if (Outcome reached = check(*other.field, other.name.c_str()); reached.status != SPIDER_OK)
      return reached;
  }
  return given.out_previous == nullptr ? Outcome{} : check(*given.out_previous, "out_previous");
}

/// What an update takes in a sweep of so many steps, into the arguments. Do the rows of all its fields start
/// on 16 bytes?
bool add_update(const spider_kernel& kernel, const SweepFields& given, const spider::PlacedFields& placed,
                const spider_part& part, std::int32_t steps, spider::UpdateArguments& arguments) {
  constexpr std::int64_t vector_bytes = 16;
  bool aligned = true;
  std::int32_t count = 0;
  for (const spider::OtherField& other : other_fields(kernel, given)) {
    const spider_field field = spider::place_other(kernel, placed, other, part);
    if (other.takes_turns) {
      arguments.before = field.data;
      std::copy_n(field.stride, 2, arguments.before_stride);
    } else {
      arguments.further[count++] = {field.data, {field.stride[0], field.stride[1]}};
    }
    aligned = aligned && spider::rows_aligned(field, other.storage, vector_bytes);
  }
  if (given.out_previous != nullptr && steps > 1) {
    const spider_field field = spider::place_fields(kernel, *given.in, *given.out_previous, part).out;
    arguments.output_before = field.data;
    std::copy_n(field.stride, 2, arguments.output_before_stride);
    aligned = aligned && spider::rows_aligned(field, kernel.info.storage, vector_bytes);
  }
  for (std::int32_t i = 0; i < kernel.info.scalar_count; ++i) {
    arguments.scalars[i] = static_cast<float>(given.scalars[i]);
    arguments.wide_scalars[i] = given.scalars[i];
  }
  for (int axis = 0; axis < 3; ++axis) {
    arguments.first[axis] = placed.origin[axis] - part.origin[axis];
    arguments.whole[axis] = part.whole[axis];
  }
  return aligned;
}

/// Rows that a copy is to keep apart.
Outcome check_pitches(std::uint64_t to_pitch, std::uint64_t from_pitch, std::uint64_t row_bytes,
                      std::uint64_t rows) {
  if (rows < 2 || std::min(to_pitch, from_pitch) >= row_bytes) return {};
  return {SPIDER_ERROR_STRIDE, "rows of " + std::to_string(row_bytes) + " bytes overlap at a pitch of " +
                                   std::to_string(std::min(to_pitch, from_pitch))};
}

/// A sweep that only needs to be launched.
struct ReadySweep {
  spider_field in;
  spider_field out;
  const spider::SweepForm* form;
  spider::UpdateArguments arguments;  ///< of kernels without an update the base alone counts
  std::int64_t blocks;
  bool early;  ///< may the sweep start while what is ahead of it still runs?
  // What the form of the rims computes, ahead of it: both read the input alone, and write other cells.
  const spider::SweepForm* rims_form;
  spider::BoxesArguments rims;
  std::int64_t rim_blocks;
  bool rims_early;  ///< as `early`
  bool beside;      ///< the same of what is ahead but for the launch of the rims

  [[nodiscard]] Outcome launch(const spider_kernel& kernel, void* stream) const {
    if (rim_blocks > 0) {
      Outcome launched =
          spider::backend::launch(kernel, {*rims_form, rim_blocks, rims_early, stream}, rims, in, out);
      if (launched.status != SPIDER_OK || blocks == 0) return launched;
    }
    const bool is_early = rim_blocks > 0 ? beside : early;
    return spider::backend::launch(kernel, {*form, blocks, is_early, stream}, arguments, in, out);
  }
};

/// Of `steps` time steps, of which the kernel has a form; the fields are a part of a whole, or `part` is
/// null. Kernel and fields are checked already.
ReadySweep make_ready(const spider_kernel& kernel, const SweepFields& given, const spider::Box& box,
                      const spider_part* part, const spider::backend::Residencies& residencies,
                      std::int32_t steps) {
  const spider_part place = part == nullptr ? spider::whole_part(*given.in) : *part;
  const spider::PlacedFields placed = part == nullptr
                                          ? spider::PlacedFields{*given.in, *given.out, {0, 0, 0}}
                                          : spider::place_fields(kernel, *given.in, *given.out, place);
  const spider::Box points = box_in_whole(box, placed);
  // Forms of as many steps read and store alike, but for those of rims.
  const spider::SweepForm* const end = kernel.forms + kernel.form_count;
  const spider::SweepForm* const first =
      std::find_if(kernel.forms, end, [&](const spider::SweepForm& form) { return form.steps == steps; });
  AlignedRows aligned = find_aligned_rows(kernel, placed.in, placed.out, first->tiling);
  spider::UpdateArguments arguments{};
  if (kernel.forms[0].sweep.update != nullptr)
    aligned.out = add_update(kernel, given, placed, place, steps, arguments) && aligned.out;
  const auto [chosen, launch, of_form, rims, rims_form] = spider::choose_form(
      kernel, points, aligned.in && aligned.out, residencies, steps, whole_interior(placed.in),
      {{0, 0, 0}, {place.whole[0], place.whole[1], place.whole[2]}});
  static_cast<spider::SweepArguments&>(arguments) =
      make_arguments(placed.in, placed.out, aligned, of_form, launch.grid);
  const AlignedRows rims_aligned =
      find_aligned_rows(kernel, placed.in, placed.out, kernel.forms[rims_form].tiling);
  spider::BoxesArguments of_rims{make_arguments(placed.in, placed.out, rims_aligned, points, {}), {}};
  std::copy(std::begin(rims.boxes), std::end(rims.boxes), std::begin(of_rims.boxes));
  const spider::SweepForm& form = kernel.forms[chosen];
  return {placed.in,
          placed.out,
          &form,
          arguments,
          launch.blocks,
          form.starts_early && residencies.at(chosen).starts_early,
          &kernel.forms[rims_form],
          of_rims,
          rims.blocks,
          kernel.forms[rims_form].starts_early && residencies.at(rims_form).starts_early,
          form.overlaps_rims && residencies.at(chosen).starts_early};
}

/// Advances `box`, or the whole interior where it is null, by so many time steps in one sweep; 0 stands for
/// the kernel's. The fields are a part of a whole, or `part` is null.
Outcome apply(const spider_kernel* kernel, const SweepFields& given, const spider::Box* box,
              const spider_part* part, std::int32_t steps, void* stream) {
  if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
  if (given.in == nullptr || given.out == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  const spider_field& in = *given.in;
  if (steps == 0) steps = kernel->info.steps;
  if (Outcome fit = check_given(*kernel, given, part == nullptr ? spider::whole_part(in) : *part, steps);
      fit.status != SPIDER_OK)
    return fit;
  if (box == nullptr && spider::is_empty(in)) return {};
  const spider::Box points = box == nullptr ? whole_interior(in) : *box;
  if (Outcome inside = spider::check_box(in, points); inside.status != SPIDER_OK) return inside;
  spider::backend::Residencies residencies;
  if (Outcome loaded = spider::backend::prepare(*kernel, residencies); loaded.status != SPIDER_OK)
    return loaded;
  if (Outcome reached = check_memory(*kernel, given); reached.status != SPIDER_OK) return reached;
  return make_ready(*kernel, given, points, part, residencies, steps).launch(*kernel, stream);
}

/// Of one field of a system, or all.
Outcome tell_system_halo(const spider_kernel& kernel, std::int32_t field, const int64_t* extent,
                         const spider_part* part, int64_t* low, int64_t* high) {
  spider::HaloWidth widths[3];
  if (Outcome fit = spider::find_system_halo(kernel, field, extent, part, widths); fit.status != SPIDER_OK)
    return fit;
  for (int axis = 0; axis < 3; ++axis) {
    low[axis] = widths[axis].low;
    high[axis] = widths[axis].high;
  }
  return {};
}

/// What `width` gives for fields of these extents, axis by axis; they are whole where `part` is null.
template <class Width>
Outcome tell_halo(const spider_kernel* kernel, const int64_t* extent, const spider_part* part, int64_t* low,
                  int64_t* high, const Width& width) {
  if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
  if (extent == nullptr || low == nullptr || high == nullptr)
    return {SPIDER_ERROR_NULL, "the extents or a place for the halo is null"};
  if (kernel->system != nullptr)
    return tell_system_halo(*kernel, spider::all_fields, extent, part, low, high);
  const spider_field field{nullptr, {extent[0], extent[1], extent[2]}, {0, 0}};
  if (Outcome fit = spider::check_extents(*kernel, field, "the field"); fit.status != SPIDER_OK) return fit;
  const spider_part place = part == nullptr ? spider::whole_part(field) : *part;
  if (Outcome fit = spider::check_part(*kernel, field, place); fit.status != SPIDER_OK) return fit;
  const bool reads = !spider::is_empty(field);
  for (int axis = 0; axis < 3; ++axis) {
    const spider::HaloWidth found = reads ? width(*kernel, field, place, axis) : spider::HaloWidth{};
    low[axis] = found.low;
    high[axis] = found.high;
  }
  return {};
}

/// So many sweeps one after the other, of as many steps each.
struct Sweeps {
  std::int32_t steps;
  std::int64_t count;
};

/// Sweeps of at most `most` steps that add up to `steps`, the longest first; `steps` becomes what no form of
/// the kernel is left for.
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

/// What a sweep is given beside its fields. NULL boxes and parts stand for all there is.
Outcome check_sweep(const spider_kernel* kernel, const spider_sweep* sweep) {
  if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
  if (sweep == nullptr) return {SPIDER_ERROR_NULL, "the sweep is null"};
  if (!spider::is_sweep_size(sweep->size)) {
    return {SPIDER_ERROR_UNSUPPORTED, "the sweep says that it has " + std::to_string(sweep->size) +
                                          " bytes; set its size to sizeof(spider_sweep), here " +
                                          std::to_string(sizeof(spider_sweep))};
  }
  if (kernel->system != nullptr) return {};
  const spider_sweep whole = spider::extended(*sweep);
  if (whole.outputs == nullptr && whole.first_launch == 0 && whole.launch_count == 0) return {};
  return {SPIDER_ERROR_UNSUPPORTED, "the kernel " + std::string(kernel->info.name) +
                                        " is no system of equations: outputs, first_launch and launch_count "
                                        "must be null and 0"};
}

SweepFields given_by(const spider_sweep& given) {
  const spider_sweep sweep = spider::extended(given);
  return {sweep.in, sweep.out, sweep.previous, sweep.fields, sweep.scalars, sweep.out_previous};
}

/// One sweep of so many steps; 0 stands for the kernel's.
Outcome run(const spider_kernel* kernel, const spider_sweep* sweep, std::int32_t steps) {
  if (Outcome fit = check_sweep(kernel, sweep); fit.status != SPIDER_OK) return fit;
  if (kernel->system != nullptr) return spider::run_system(*kernel, spider::extended(*sweep));
  const auto& [z, y, x] = sweep->extent;
  const spider::Box box{{sweep->offset[0], sweep->offset[1], sweep->offset[2]}, {z, y, x}};
  const bool all = z == 0 && y == 0 && x == 0;
  return apply(kernel, given_by(*sweep), all ? nullptr : &box, sweep->part, steps, sweep->stream);
}

/// Is a further field the memory of an output, and would change from step to step?
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

Outcome iterate(const spider_kernel* kernel, const SweepFields& given, std::int64_t steps, void* stream,
                const spider_field** result) {
  if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
  if (given.in == nullptr || given.out == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  if (steps < 0) return {SPIDER_ERROR_STEPS, std::to_string(steps) + " steps; there must be 0 or more"};
  std::int64_t left = steps;
  const bool in_pairs = given.out_previous != nullptr;
  const std::int32_t most = writes_before(*kernel) && !in_pairs ? 1 : kernel->info.steps;
  const std::vector<Sweeps> all_sweeps = divide_steps(*kernel, left, most);
  if (left > 0) {
    return {SPIDER_ERROR_STEPS, std::to_string(steps) + " steps; they must be a multiple of the kernel's " +
                                    std::to_string(kernel->info.steps) + ", which has no sweep of fewer"};
  }
  // All turns must be fit before the first sweep overwrites anything.
  if (Outcome fit = check_given(*kernel, given, spider::whole_part(*given.in), most); fit.status != SPIDER_OK)
    return fit;
  std::vector<SweepFields> turns = spider::rotate(given);
  for (const SweepFields& turn : turns) {
    if (Outcome fit = check_given(*kernel, turn, spider::whole_part(*turn.in), most); fit.status != SPIDER_OK)
      return fit;
    if (!in_pairs || most == 1) continue;
    for (const SweepFields& single : spider::rotate_in_place(turn)) {
      if (Outcome fit = check_given(*kernel, single, spider::whole_part(*single.in), 1);
          fit.status != SPIDER_OK)
        return fit;
    }
  }
  if (spider::is_empty(*given.in)) steps = 0;
  if (steps > 1) {
    if (Outcome fit = check_steps_in_place(*kernel, turns); fit.status != SPIDER_OK) return fit;
  }
  const auto count = static_cast<std::int64_t>(turns.size());
  const auto turn_of = [&](std::int64_t sweep) { return static_cast<std::size_t>(sweep % count); };
  std::int64_t done = 0;  // sweeps
  if (steps > 0) {
    spider::backend::Residencies residencies;
    if (Outcome loaded = spider::backend::prepare(*kernel, residencies); loaded.status != SPIDER_OK)
      return loaded;
    if (Outcome reached = check_memory(*kernel, given); reached.status != SPIDER_OK) return reached;
    for (const Sweeps& sweeps : all_sweeps) {
      if (in_pairs && sweeps.steps == 1) {
        turns = spider::rotate_in_place(turns[turn_of(done)]);
        done = 0;
      }
      std::vector<ReadySweep> ready;
      for (const SweepFields& turn : turns)
        ready.push_back(
            make_ready(*kernel, turn, whole_interior(*turn.in), nullptr, residencies, sweeps.steps));
      for (std::int64_t i = 0; i < sweeps.count; ++i, ++done) {
        if (Outcome swept = ready[turn_of(done)].launch(*kernel, stream); swept.status != SPIDER_OK)
          return swept;
      }
    }
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
  if (Outcome fit = check_sweep(kernel, sweep); fit.status != SPIDER_OK) return fit;
  if (kernel->system != nullptr) return check_system(*kernel, extended(*sweep));
  if (sweep->in == nullptr) return {SPIDER_ERROR_NULL, "a field is null"};
  const SweepFields given = given_by(*sweep);
  const std::int32_t steps = writes_before(*kernel) && given.out_previous == nullptr ? 1 : kernel->info.steps;
  return check_given(*kernel, given, sweep->part == nullptr ? whole_part(*sweep->in) : *sweep->part, steps);
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
    if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
    if (extent == nullptr || low == nullptr || high == nullptr)
      return {SPIDER_ERROR_NULL, "the extents or a place for the halo is null"};
    if (Outcome found = spider::check_field_index(*kernel, field); found.status != SPIDER_OK) return found;
    return tell_system_halo(*kernel, field, extent, part, low, high);
  });
}

spider_status spider_prepare(const spider_kernel* kernel) {
  return guarded("spider_prepare", [&]() -> Outcome {
    if (Outcome known = check_kernel(kernel); known.status != SPIDER_OK) return known;
    return spider::backend::load(*kernel);
  });
}

spider_status spider_apply(const spider_kernel* kernel, const spider_field* in, const spider_field* out,
                           void* stream) {
  return guarded("spider_apply", [&]() -> Outcome {
    if (Outcome enough = check_short_form(kernel); enough.status != SPIDER_OK) return enough;
    return apply(kernel, {in, out}, nullptr, nullptr, 0, stream);
  });
}

spider_status spider_apply_box(const spider_kernel* kernel, const spider_field* in, const spider_field* out,
                               const int64_t offset[3], const int64_t extent[3], void* stream) {
  return guarded("spider_apply_box", [&]() -> Outcome {
    if (offset == nullptr || extent == nullptr)
      return {SPIDER_ERROR_NULL, "the box's offset or extent is null"};
    const spider::Box box{{offset[0], offset[1], offset[2]}, {extent[0], extent[1], extent[2]}};
    if (Outcome enough = check_short_form(kernel); enough.status != SPIDER_OK) return enough;
    return apply(kernel, {in, out}, &box, nullptr, 0, stream);
  });
}

spider_status spider_run(const spider_kernel* kernel, const spider_sweep* sweep) {
  return guarded("spider_run", [&] { return run(kernel, sweep, 0); });
}

spider_status spider_run_steps(const spider_kernel* kernel, const spider_sweep* sweep, int64_t steps,
                               const spider_field** result) {
  return guarded("spider_run_steps", [&]() -> Outcome {
    if (Outcome fit = check_sweep(kernel, sweep); fit.status != SPIDER_OK) return fit;
    if (kernel->system != nullptr) {
      if (result != nullptr) *result = nullptr;
      return spider::run_system_steps(*kernel, spider::extended(*sweep), steps);
    }
    const auto& [z, y, x] = sweep->extent;
    if (sweep->part == nullptr && z == 0 && y == 0 && x == 0)
      return iterate(kernel, given_by(*sweep), steps, sweep->stream, result);
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
    if (Outcome enough = check_short_form(kernel); enough.status != SPIDER_OK) return enough;
    return iterate(kernel, {a, b}, steps, stream, result);
  });
}

const char* spider_status_string(spider_status status) {
  switch (status) {
    case SPIDER_OK:
      return "ok";
    case SPIDER_ERROR_NULL:
      return "a pointer is null";
    case SPIDER_ERROR_KERNEL:
      return "not a kernel of this runtime";
    case SPIDER_ERROR_EXTENT:
      return "an extent is out of range or extents differ";
    case SPIDER_ERROR_STRIDE:
      return "a stride is out of range";
    case SPIDER_ERROR_ALIGNMENT:
      return "data is not aligned to its element type";
    case SPIDER_ERROR_OVERLAP:
      return "input and output overlap";
    case SPIDER_ERROR_STEPS:
      return "not a possible number of steps";
    case SPIDER_ERROR_UNSUPPORTED:
      return "not supported in this version";
    case SPIDER_ERROR_DEVICE:
      return "the device cannot run the kernel";
    case SPIDER_ERROR_MEMORY:
      return "out of memory";
    case SPIDER_ERROR_LAUNCH:
      return "a launch or copy failed";
    case SPIDER_ERROR_EMULATION:
      return "the emulated kernel broke a rule of the machine";
    case SPIDER_ERROR_RANKS:
      return "ranks do not agree, or cannot reach each other";
    default:
      return "unknown status";
  }
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
    if (Outcome apart = check_pitches(to_pitch, from_pitch, row_bytes, rows); apart.status != SPIDER_OK)
      return apart;
    return spider::backend::upload(to, to_pitch, from_host, from_pitch, row_bytes, rows);
  });
}

spider_status spider_download(void* to_host, uint64_t to_pitch, const void* from, uint64_t from_pitch,
                              uint64_t row_bytes, uint64_t rows) {
  return guarded("spider_download", [&]() -> Outcome {
    if (to_host == nullptr || from == nullptr) return {SPIDER_ERROR_NULL, "a pointer is null"};
    if (Outcome apart = check_pitches(to_pitch, from_pitch, row_bytes, rows); apart.status != SPIDER_OK)
      return apart;
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
