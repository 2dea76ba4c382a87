/// Steps of a system of equations on all ranks.
#include <algorithm>
#include <array>
#include <string>

#include "agreement.h"
#include "fields.h"
#include "grid.h"
#include "reductions.h"
#include "report.h"
#include "system_cut.h"
#include "system_fields.h"

namespace spider::distributed {
namespace {

/// A buffer of a field: of `fields`, or of `outputs`.
const spider_field* buffer_of(const spider_sweep& sweep, std::int32_t field, int buffer) {
  return buffer == 0 ? sweep.fields[field] : sweep.outputs[field];
}

int count_buffers(const spider_kernel& kernel, std::int32_t field) {
  return needs_second_buffer(kernel, field) ? 2 : 1;
}

/// The sweeps that take turns, and the tables that they refer to.
class Turns {
 public:
  Turns(const spider_grid& grid, const spider_sweep& sweep) {
    const auto count = static_cast<std::size_t>(grid.kernel->info.field_count);
    tables_[0].assign(sweep.fields, sweep.fields + count);
    tables_[1].assign(count, nullptr);
    if (sweep.outputs != nullptr) tables_[1].assign(sweep.outputs, sweep.outputs + count);
    tables_[2] = tables_[0];
    tables_[3] = tables_[1];
    for (std::size_t i = 0; i < count; ++i) {
      if ((grid.kernel->info.field_uses[i] & SPIDER_FIELD_RESULT_IN_OUTPUT) != 0)
        std::swap(tables_[2][i], tables_[3][i]);
    }
    for (std::size_t turn = 0; turn < 2; ++turn) {
      sweeps_[turn] = sweep;
      sweeps_[turn].part = &grid.layout.part;
      sweeps_[turn].fields = tables_[2 * turn].data();
      sweeps_[turn].outputs = tables_[2 * turn + 1].data();
      sweeps_[turn].launch_count = 1;
    }
  }
  Turns(const Turns&) = delete;
  Turns& operator=(const Turns&) = delete;

  [[nodiscard]] const spider_sweep& at(std::int64_t step) const {
    return sweeps_[static_cast<std::size_t>(step % 2)];
  }

 private:
  std::array<std::vector<const spider_field*>, 4> tables_;
  std::array<spider_sweep, 2> sweeps_{};
};

/// Are the halos of the fields' current buffers filled?
using Filled = std::array<bool, most_system_fields>;

/// What a launch needs and is not there. All is, then.
Exchanges find_missing(const spider_grid& grid, const GridLaunch& launch, const spider_sweep& sweep,
                       const CurrentBuffers& current, Filled& filled) {
  Exchanges missing;
  for (const GridLaunch::Halo& halo : launch.halos) {
    const auto field = static_cast<std::size_t>(halo.field);
    if (filled[field]) continue;
    filled[field] = true;
    missing.push_back(
        {*buffer_of(sweep, halo.field, current[field]), &halo.messages, grid.fields[field]->element_bytes});
  }
  return missing;
}

/// The launch that `sweep` names, behind the halos that are missing.
void take_launch(spider_grid& grid, const GridLaunch& launch, const spider_sweep& sweep,
                 const Exchanges& missing, Outcome& outcome) {
  const Box part{{0, 0, 0}, {grid.layout.extent[0], grid.layout.extent[1], grid.layout.extent[2]}};
  if (missing.empty()) return sweep_boxes(grid, sweep, {part}, 1, sweep.stream, outcome);
  Transport& transport = *grid.transport;
  keep_first(outcome, transport.begin(missing, sweep.stream, false));
  sweep_boxes(grid, sweep, launch.boxes.interior, 1, sweep.stream, outcome);
  keep_first(outcome, transport.complete());
  sweep_boxes(grid, sweep, launch.boxes.rims, 1, transport.rim_stream(sweep.stream), outcome);
  keep_first(outcome, transport.join(sweep.stream));
}

Messages messages_of(const CutField& field, const Extents& whole, const Parts& parts, std::int32_t rank) {
  return make_messages(field, make_layout(field, whole, parts, rank).layout);
}

/// A buffer whose halo may be filled, or whose cells are written.
struct BufferSpan {
  std::string name;
  const spider_field* field;
  Span span;
  bool is_written;
};

/// May both be there? Fields that are only read may be one.
bool are_apart(const BufferSpan& a, const BufferSpan& b) {
  if (!a.span.meets(b.span)) return true;
  return !a.is_written && !b.is_written && is_in_place(*a.field, *b.field);
}

/// Makes one accumulator of each reduction's copies. Points are so few that words keep their room.
std::vector<std::int64_t> merge_copies(const std::vector<ReductionKind>& kinds,
                                       const std::vector<std::int64_t>& words) {
  std::vector<std::int64_t> merged(kinds.size() * reduction_words);
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::size_t which = i / (std::size_t{reduction_copies} * reduction_words);
    std::int64_t& word = merged[which * reduction_words + i % reduction_words];
    if (kinds[which] == ReductionKind::sum) {
      word += words[i];
    } else if (static_cast<std::uint64_t>(words[i]) > static_cast<std::uint64_t>(word)) {
      word = words[i];  // a key
    }
  }
  return merged;
}

}  // namespace

Outcome cut_system(spider_grid& grid, const Extents& whole, const Parts& parts) {
  const spider_kernel& kernel = *grid.kernel;
  for (int axis = 0; axis < 3; ++axis) {
    const std::int32_t other = uncut_by(kernel, axis);
    if (other < 0 || parts[static_cast<std::size_t>(axis)] == 1) continue;
    return {
        SPIDER_ERROR_UNSUPPORTED,
        std::string("fields of ") + kernel.info.name + " are periodic" + on_axis(axis) + ", and " +
            kernel.info.field_names[other] +
            " is not: such an axis cannot be cut; give it one rank, for which a Cartesian communicator is "
            "the means"};
  }
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    auto field = std::make_unique<spider_grid>();
    field->communicator = grid.communicator;
    field->kernel = grid.kernel;
    field->cut = field_of_system(kernel, i);
    field->element_bytes = bytes_of(field->cut.storage);
    field->is_of_field = true;
    const LayoutOutcome made = make_layout(field->cut, whole, parts, grid.layout.rank);
    if (made.outcome.status != SPIDER_OK) return made.outcome;
    field->layout = made.layout;
    field->messages = make_messages(field->cut, field->layout);
    for (int axis = 0; axis < 3; ++axis) {
      grid.layout.low[axis] = std::max(grid.layout.low[axis], field->layout.low[axis]);
      grid.layout.high[axis] = std::max(grid.layout.high[axis], field->layout.high[axis]);
    }
    grid.fields.push_back(std::move(field));
  }
  for (std::int32_t i = 0; i < kernel.form_count; ++i) {
    GridLaunch launch{{}, divide_part(reach_of_launch(kernel, i), grid.layout)};
    for (const NeededHalo& needed : halos_needed(kernel, i))
      launch.halos.push_back({needed.field, messages_of(needed.as_read, whole, parts, grid.layout.rank)});
    grid.launches.push_back(std::move(launch));
  }
  return {};
}

Outcome check_system_steps(const spider_grid& grid, const spider_sweep& sweep) {
  const spider_kernel& kernel = *grid.kernel;
  if (sweep.first_launch != 0 || sweep.launch_count != 0)
    return {SPIDER_ERROR_UNSUPPORTED,
            "a sweep of a grid runs all launches: leave first_launch and launch_count 0"};
  spider_sweep of_part = sweep;
  of_part.part = &grid.layout.part;
  of_part.launch_count = 1;
  if (Outcome fit = check_run(grid.kernel, &of_part); fit.status != SPIDER_OK) return fit;
  std::vector<BufferSpan> buffers;
  for (std::int32_t i = 0; i < kernel.info.field_count; ++i) {
    const spider_grid& part = *grid.fields[static_cast<std::size_t>(i)];
    for (int buffer = 0; buffer < count_buffers(kernel, i); ++buffer) {
      const spider_field* const field = buffer_of(sweep, i, buffer);
      const std::string name = name_of_buffer(kernel, i, buffer);
      if (Outcome fit = check_part_field(part, field, name.c_str()); fit.status != SPIDER_OK) return fit;
      const bool is_written = (kernel.info.field_uses[i] & SPIDER_FIELD_WRITTEN) != 0;
      const BufferSpan added{name, field, span_of(part, *field), is_written};
      for (const BufferSpan& other : buffers) {
        if (!are_apart(added, other))
          return {SPIDER_ERROR_OVERLAP,
                  "the memory of " + other.name + " and " + name + ", with their halos, interleaves"};
      }
      buffers.push_back(added);
    }
  }
  return {};
}

Outcome read_all_reductions(const spider_grid& grid, spider_reductions* reductions, double* values,
                            void* stream) {
  MPI_Comm communicator = grid.communicator->get();
  const std::vector<ReductionKind> kinds = grid.kernel->system == nullptr || grid.is_of_field
                                               ? std::vector<ReductionKind>{}
                                               : reduction_kinds(*grid.kernel);
  std::vector<std::int64_t> own;
  std::vector<std::int64_t> all;
  Outcome fetched;
  if (reductions == nullptr || values == nullptr) {
    fetched = {SPIDER_ERROR_NULL, "the reductions or the place for their values is null"};
  } else if (kinds.empty() || reductions->kernel != grid.kernel) {
    fetched = {SPIDER_ERROR_KERNEL, "the reductions were created for the kernel " +
                                        std::string(reductions->kernel->info.name) +
                                        ", which is not that of the grid"};
  } else {
    fetched = caught([&] {
      std::vector<std::int64_t> words;
      Outcome outcome = fetch_accumulators(*reductions, stream, words);
      own = merge_copies(kinds, words);
      all.resize(own.size() * static_cast<std::size_t>(grid.layout.ranks));
      return outcome;
    });
  }
  if (fetched = agree(communicator, fetched); fetched.status != SPIDER_OK) return fetched;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (Outcome told = of_mpi(MPI_Allgather(own.data() + i * reduction_words, reduction_words, MPI_INT64_T,
                                            all.data(), reduction_words, MPI_INT64_T, communicator),
                              "gathering reductions");
        told.status != SPIDER_OK)
      return told;
    values[i] = number_of(kinds[i], all.data(), grid.layout.ranks);
  }
  return {};
}

Outcome take_system_steps(spider_grid& grid, const spider_sweep& sweep, std::int64_t begin,
                          std::int64_t end) {
  const spider_kernel& kernel = *grid.kernel;
  const Turns turns(grid, sweep);
  Outcome outcome;
  Filled filled{};
  for (std::int64_t step = begin; step < end; ++step) {
    CurrentBuffers current{};
    for (std::int32_t i = 0; i < kernel.form_count; ++i) {
      spider_sweep of_launch = turns.at(step);
      of_launch.first_launch = i;
      if (step + 1 < end) of_launch.reductions = nullptr;
      const GridLaunch& launch = grid.launches[static_cast<std::size_t>(i)];
      const Exchanges missing = find_missing(grid, launch, of_launch, current, filled);
      take_launch(grid, launch, of_launch, missing, outcome);
      const SystemSweep& done = kernel.system->sweeps[i];
      take_turn(done, current);
      for (std::int32_t k = 0; k < done.written_count; ++k)
        filled[static_cast<std::size_t>(done.written[k].field)] = false;
    }
  }
  return outcome;
}

Outcome take_system_steps_until(spider_grid& grid, const spider_sweep& sweep, std::int64_t steps,
                                ReductionBound& until) {
  while (until.done < steps) {
    const std::int64_t end = std::min(steps, until.done + until.check_every);
    const Outcome taken = agree(grid.communicator->get(),
                                caught([&] { return take_system_steps(grid, sweep, until.done, end); }));
    until.done = end;
    if (taken.status != SPIDER_OK) return taken;
    if (Outcome read = read_all_reductions(grid, sweep.reductions, until.values, sweep.stream);
        read.status != SPIDER_OK)
      return read;
    if (until.values[until.reduction] <= until.bound) return {};
  }
  return {};
}

}  // namespace spider::distributed
