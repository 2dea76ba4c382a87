/// Random systems of equations on 1 to 8 ranks against one: the bits of the whole. Runs under mpiexec;
/// kernels come from a shared library.
///
///     mpiexec -n 8 distributed_systems names.txt --seed 1 --cases 200
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "random_cases.h"

namespace {

using namespace random_cases;

struct Case {
  std::string name;
  Cut cut;
  std::int64_t steps;
  std::int64_t calls;  ///< that take the steps
  std::int64_t extra;  ///< columns that rows are longer; below 0 so many that rows are aligned
  std::uint64_t seed;
};

/// Drawn alike on all ranks.
Case draw_case(const Kernels& kernels, int ranks, Random& random) {
  Case drawn{};
  drawn.name = kernels.names[static_cast<std::size_t>(
      draw(random, 0, static_cast<std::int64_t>(kernels.names.size()) - 1))];
  const spider_kernel_info& info = *spider_info(Kernels::find(drawn.name));
  const std::array<Extents, 3> largest{Extents{1, 1, 900}, Extents{1, 90, 160}, Extents{30, 36, 60}};
  drawn.cut =
      draw_cut(largest[static_cast<std::size_t>(info.dimensions - 1)], info.dimensions, ranks, random);
  drawn.steps = draw(random, 1, 4);
  drawn.calls = draw(random, 1, 2);
  drawn.extra = draw(random, -2, 1) * 5;
  drawn.seed = random();
  return drawn;
}

/// The extents of a field of a system.
Extents extent_of(const spider_kernel_info& info, std::int32_t field, const Extents& whole) {
  Extents extent = whole;
  for (int axis = 0; axis < 3; ++axis) {
    if ((info.field_axes[field] >> axis & 1) == 0) extent[static_cast<std::size_t>(axis)] = 1;
  }
  return extent;
}

/// Fields and outputs of a system.
class State {
 public:
  explicit State(const spider_kernel* kernel) {
    const spider_kernel_info& info = *spider_info(kernel);
    for (std::int32_t i = 0; i < info.scalar_count; ++i) scalars_.push_back(0.25 + 0.25 * i);
    uses_.assign(info.field_uses, info.field_uses + info.field_count);
    if (info.reduction_count > 0 && spider_reductions_create(kernel, &reductions_) != SPIDER_OK) std::abort();
  }
  ~State() { spider_reductions_free(reductions_); }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  /// A field, and an output where it needs one, with numbers in the cells that `is_given` names.
  template <class IsGiven>
  void add(const spider_kernel_info& info, const Case& drawn, const Extents& origin, const Extents& extent,
           const Extents& low, const Extents& high, const IsGiven& is_given) {
    const std::size_t i = fields_.size();
    const std::int32_t storage = info.field_storages[i];
    for (auto* buffers : {&fields_, &outputs_}) {
      auto& made = buffers->emplace_back();
      if (buffers == &outputs_ && (uses_[i] & SPIDER_FIELD_TWO_BUFFERS) == 0) continue;
      made = std::make_unique<Field>(extent, low, high, bytes_of(storage), drawn.extra);
      made->fill(origin, drawn.seed + i, storage, is_given);
    }
  }

  /// Steps that begin where fields are, and end there.
  template <class Take>
  bool step(std::int64_t steps, const Take& take) {
    std::vector<const spider_field*> views;
    for (const auto* buffers : {&fields_, &outputs_}) {
      for (const auto& field : *buffers) views.push_back(field == nullptr ? nullptr : &field->view());
    }
    spider_sweep sweep{};
    sweep.size = sizeof sweep;
    sweep.fields = views.data();
    sweep.outputs = views.data() + fields_.size();
    sweep.scalars = scalars_.empty() ? nullptr : scalars_.data();
    sweep.reductions = reductions_;
    if (take(sweep) != SPIDER_OK) return false;
    for (std::size_t i = 0; i < fields_.size() && steps % 2 != 0; ++i) {
      if ((uses_[i] & SPIDER_FIELD_RESULT_IN_OUTPUT) != 0) std::swap(fields_[i], outputs_[i]);
    }
    return true;
  }

  [[nodiscard]] Field& field(std::size_t i) const { return *fields_[i]; }
  /// Null where the kernel has none.
  [[nodiscard]] spider_reductions* reductions() const { return reductions_; }

 private:
  std::vector<std::unique_ptr<Field>> fields_;
  std::vector<std::unique_ptr<Field>> outputs_;
  std::vector<double> scalars_;
  std::vector<std::int32_t> uses_;
  spider_reductions* reductions_ = nullptr;
};

/// Steps until the first reduction is at most what it was before, which few fields make at the first check:
/// the number of steps and all reductions.
template <class Run>
std::vector<double> step_until(State& state, double bound, const Run& run) {
  std::vector<double> found(9, 0.0);
  std::int64_t done = 0;
  const bool good =
      state.step(0, [&](const spider_sweep& sweep) { return run(sweep, 5, bound, &done, found.data() + 1); });
  found[0] = good ? static_cast<double>(done) : -1;
  return found;
}

/// What a sweep leaves: numbers of all cells of each field, and its reductions.
struct Results {
  std::vector<std::vector<unsigned char>> fields;
  std::vector<double> reductions;
  std::vector<double> stopped;  ///< of step_until
};

/// Numbers of all cells of a field, row after row.
std::vector<unsigned char> numbers_of(const Case& drawn, const spider_kernel_info& info, std::int32_t field) {
  return cells_of(extent_of(info, field, drawn.cut.whole), drawn.seed + static_cast<std::uint64_t>(field),
                  info.field_storages[field]);
}

/// The whole after the calls.
Results step_whole(const Case& drawn, const spider_kernel* kernel) {
  const spider_kernel_info& info = *spider_info(kernel);
  State state(kernel);
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    Extents low{};
    Extents high{};
    if (spider_halo_of_field(kernel, i, drawn.cut.whole.data(), nullptr, low.data(), high.data()) !=
        SPIDER_OK)
      std::abort();
    state.add(info, drawn, {0, 0, 0}, extent_of(info, i, drawn.cut.whole), low, high,
              [](const Extents&) { return true; });
  }
  for (std::int64_t call = 0; call < drawn.calls; ++call) {
    if (state.step(drawn.steps, [&](const spider_sweep& sweep) {
          return spider_run_steps(kernel, &sweep, drawn.steps, nullptr);
        }))
      continue;
    std::fprintf(stderr, "%s: %s\n", drawn.name.c_str(), spider_last_error());
    std::abort();
  }
  Results results;
  results.reductions.resize(static_cast<std::size_t>(info.reduction_count));
  if (state.reductions() != nullptr &&
      spider_reductions_read(state.reductions(), results.reductions.data(), nullptr) != SPIDER_OK)
    std::abort();
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    append_cells(state.field(static_cast<std::size_t>(i)), info.field_storages[i],
                 results.fields.emplace_back());
  }
  if (state.reductions() != nullptr) {
    results.stopped = step_until(
        state, results.reductions[0],
        [&](const spider_sweep& sweep, std::int64_t steps, double bound, std::int64_t* done, double* values) {
          return spider_run_until(kernel, &sweep, steps, 0, bound, 2, done, values);
        });
  }
  return results;
}

/// Do steps until a bound end as those of one rank do?
bool stop_alike(State& state, spider_grid* grid, double bound, const Results& wanted, int rank) {
  const std::vector<double> stopped = step_until(
      state, bound,
      [&](const spider_sweep& sweep, std::int64_t steps, double until, std::int64_t* done, double* values) {
        return spider_grid_run_until(grid, &sweep, steps, 0, until, 2, done, values);
      });
  if (rank != 0 || std::memcmp(stopped.data(), wanted.stopped.data(), stopped.size() * sizeof(double)) == 0)
    return true;
  std::fprintf(stderr, "steps until a bound end elsewhere: %g of one rank, %g\n", wanted.stopped[0],
               stopped[0]);
  return false;
}

/// On all ranks of the communicator.
Verdict check_case(const Case& drawn, MPI_Comm ranks) {
  const spider_kernel* const kernel = Kernels::find(drawn.name);
  const spider_kernel_info& info = *spider_info(kernel);
  spider_status made = SPIDER_OK;
  const Grid owner = make_grid(drawn.cut, kernel, ranks, made);
  spider_grid* const grid = owner.get();
  if (grid == nullptr) {  // where parts are too narrow, or an axis cannot be cut
    if (made == SPIDER_ERROR_EXTENT || made == SPIDER_ERROR_UNSUPPORTED) return Verdict::refused;
    std::fprintf(stderr, "%s: %s\n", drawn.name.c_str(), spider_last_error());
    return Verdict::differs;
  }
  note_transport(grid);
  int rank = 0;
  MPI_Comm_rank(ranks, &rank);
  const Results wanted = rank == 0 ? step_whole(drawn, kernel) : Results{};
  State state(kernel);
  bool good = true;
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    spider_grid* const own = spider_grid_of_field(grid, i);
    const spider_grid_layout& layout = *spider_grid_info(own);
    state.add(info, drawn, to_extents(layout.part.origin), to_extents(layout.extent), to_extents(layout.low),
              to_extents(layout.high), [&](const Extents& cell) { return is_callers(layout, cell); });
    const std::vector<unsigned char> whole = numbers_of(drawn, info, i);
    const spider_field& view = state.field(static_cast<std::size_t>(i)).view();
    good = spider_grid_scatter(own, rank == 0 ? whole.data() : nullptr, 0, &view) == SPIDER_OK && good;
  }
  for (std::int64_t call = 0; call < drawn.calls; ++call) {
    good = state.step(drawn.steps, [&](const spider_sweep& sweep) {
      return spider_grid_run(grid, &sweep, drawn.steps, nullptr);
    }) && good;
  }
  std::vector<double> reductions(static_cast<std::size_t>(info.reduction_count));
  if (state.reductions() != nullptr)
    good = spider_grid_read_reductions(grid, state.reductions(), reductions.data(), nullptr) == SPIDER_OK &&
           good;
  if (!good) std::fprintf(stderr, "rank %d: %s\n", rank, spider_last_error());
  int same = good ? 1 : 0;
  if (rank == 0 &&
      std::memcmp(reductions.data(), wanted.reductions.data(), reductions.size() * sizeof(double)) != 0) {
    std::fprintf(stderr, "a reduction differs\n");
    same = 0;
  }
  for (std::int32_t i = 0; i < info.field_count; ++i) {
    std::vector<unsigned char> whole = numbers_of(drawn, info, i);
    const spider_field& view = state.field(static_cast<std::size_t>(i)).view();
    if (spider_grid_gather(spider_grid_of_field(grid, i), &view, 0, whole.data()) != SPIDER_OK) same = 0;
    if (rank == 0 &&
        !are_cells(whole, wanted.fields[static_cast<std::size_t>(i)], extent_of(info, i, drawn.cut.whole),
                   info.field_storages[i], info.field_names[i]))
      same = 0;
  }
  if (state.reductions() != nullptr && !stop_alike(state, grid, reductions[0], wanted, rank)) same = 0;
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, ranks);
  return same == 1 ? Verdict::same : Verdict::differs;
}

std::string tell(const Case& drawn, int ranks) {
  return in_words(drawn.name, drawn.cut, ranks) + ", " + std::to_string(drawn.calls) + " calls of " +
         std::to_string(drawn.steps) + " steps";
}

int run(int count, char** arguments) {
  const Wanted wanted = Wanted::read(count, arguments);
  const Kernels kernels = Kernels::read(arguments[1]);
  if (kernels.names.empty()) return 1;
  std::array<int, 4> by_dimension{};
  int of_launches = 0;
  int with_reductions = 0;
  const Counts counts = for_each_case(
      wanted, [&](int ranks, Random& random) { return draw_case(kernels, ranks, random); }, check_case, tell,
      [&](const Case& drawn) {
        const spider_kernel_info& info = *spider_info(Kernels::find(drawn.name));
        ++by_dimension[static_cast<std::size_t>(info.dimensions)];
        of_launches += info.launch_count > 1 ? 1 : 0;
        with_reductions += info.reduction_count > 0 ? 1 : 0;
      });
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::printf(
        "%d systems with the bits of one rank (1D %d, 2D %d, 3D %d; %d of several launches, %d with "
        "reductions), %d "
        "differ, %d "
        "drawn again since parts were narrower than a halo, or an axis cannot be cut; seed %llu\n",
        counts.checked, by_dimension[1], by_dimension[2], by_dimension[3], of_launches, with_reductions,
        counts.failed, counts.refused, static_cast<unsigned long long>(wanted.seed));
  }
  if (rank == 0) std::printf("halos of rank 0: %s\n", transports().c_str());
  return counts.failed == 0 && counts.checked > 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const int status =
      count < 2 || spider_select_device(MPI_COMM_WORLD) != SPIDER_OK ? 2 : run(count, arguments);
  MPI_Finalize();
  return status;
}
