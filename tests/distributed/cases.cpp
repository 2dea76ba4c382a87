/// Random cases on 1 to 8 ranks against one: the bits of the whole. Runs under mpiexec; kernels come from a
/// shared library.
///
///     mpiexec -n 8 distributed_cases names.txt --seed 1 --cases 200
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "random_cases.h"

namespace {

using namespace random_cases;

struct Case {
  std::string name;
  Cut cut;  ///< the planes of a whole whose kernel has none are images
  std::int64_t steps;
  std::int64_t calls;  ///< each takes the steps, with fields of its own
  /// Columns that rows are longer: 0, so that planes lie together, or some; below 0 so many that rows are
  /// aligned.
  std::int64_t extra;
  std::uint64_t seed;
  bool shares;    ///< have all images the same further fields?
  bool in_pairs;  ///< of several steps with a previous field: so many in a sweep, not one
};

/// Drawn alike on all ranks.
Case draw_case(const Kernels& kernels, int ranks, Random& random) {
  Case drawn{};
  drawn.name = kernels.names[static_cast<std::size_t>(
      draw(random, 0, static_cast<std::int64_t>(kernels.names.size()) - 1))];
  const spider_kernel_info& info = *spider_info(Kernels::find(drawn.name));
  const std::array<Extents, 3> largest{Extents{1, 1, 1500}, Extents{1, 60, 500}, Extents{14, 30, 180}};
  drawn.cut =
      draw_cut(largest[static_cast<std::size_t>(info.dimensions - 1)], info.dimensions, ranks, random);
  if (info.dimensions < 3 && draw(random, 0, 2) == 0) drawn.cut.whole[0] = draw(random, 2, 4);
  drawn.steps = draw(random, 1, info.steps > 1 ? info.steps + 1 : 3);
  drawn.calls = draw(random, 0, 3) == 0 ? 2 : 1;
  drawn.extra = draw(random, -2, 1) * 5;
  drawn.seed = random();
  drawn.shares = drawn.cut.whole[0] > 1 && info.dimensions < 3 && info.steps == 1 && draw(random, 0, 1) == 0;
  drawn.in_pairs = info.previous != nullptr && info.steps > 1 && draw(random, 0, 3) > 0;
  if (drawn.in_pairs) drawn.steps = draw(random, 1, 2 * info.steps + 1);
  return drawn;
}

/// All that a kernel takes, of the whole or of a part, with cells for all but the input's interior.
class Inputs {
 public:
  /// `is_given` tells of a cell, counted in the whole, whether the caller sets it.
  template <class IsGiven>
  Inputs(const Case& drawn, const spider_kernel_info& info, const Extents& origin, const Extents& extent,
         const Extents& low, const Extents& high, const IsGiven& is_given) {
    const auto add = [&](std::int32_t storage, std::uint64_t seed, const Extents& begin,
                         const Extents& cells) {
      fields_.push_back(std::make_unique<Field>(cells, low, high, bytes_of(storage), drawn.extra));
      fields_.back()->fill(begin, seed, storage, [&](const Extents& cell) {
        bool inside = fields_.size() > 1;
        for (std::size_t axis = 0; axis < 3; ++axis)
          inside = inside && cell[axis] >= begin[axis] && cell[axis] < begin[axis] + cells[axis];
        return inside || is_given(cell);
      });
    };
    const auto add_turn = [&](std::uint64_t seed) { add(info.storage, seed, origin, extent); };
    add_turn(drawn.seed);
    add_turn(drawn.seed);
    if (info.previous != nullptr) add_turn(drawn.seed + 1);
    if (drawn.in_pairs) add_turn(drawn.seed + 1);
    const Extents begin{drawn.shares ? 0 : origin[0], origin[1], origin[2]};
    const Extents cells{drawn.shares ? 1 : extent[0], extent[1], extent[2]};
    views_.reserve(static_cast<std::size_t>(info.field_count));
    for (std::int32_t i = 0; i < info.field_count; ++i) {
      add(info.field_storages[i], drawn.seed + 2 + static_cast<std::uint64_t>(i), begin, cells);
      spider_field& view = views_.emplace_back(fields_.back()->view());
      view.extent[0] = extent[0];
      if (drawn.shares) view.stride[0] = 0;
      further_.push_back(&view);
    }
    for (std::int32_t i = 0; i < info.scalar_count; ++i) scalars_.push_back(0.25 + 0.5 * i);
    sweep_.size = sizeof sweep_;
    sweep_.in = &fields_[0]->view();
    sweep_.out = &fields_[1]->view();
    if (info.previous != nullptr) sweep_.previous = &fields_[2]->view();
    if (drawn.in_pairs) sweep_.out_previous = &fields_[3]->view();
    if (!further_.empty()) sweep_.fields = further_.data();
    if (!scalars_.empty()) sweep_.scalars = scalars_.data();
  }
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  [[nodiscard]] const spider_sweep& sweep() const { return sweep_; }
  /// That which is the result of a call.
  [[nodiscard]] Field& at(const spider_field* view) const {
    std::size_t i = 0;
    while (&fields_[i]->view() != view) ++i;
    return *fields_[i];
  }

 private:
  std::vector<std::unique_ptr<Field>> fields_;
  std::vector<spider_field> views_;  ///< of further fields
  std::vector<const spider_field*> further_;
  std::vector<double> scalars_;
  spider_sweep sweep_{};
};

/// The whole after its steps, row after row; each image by itself.
std::vector<unsigned char> sweep_whole(const Case& drawn, const spider_kernel* kernel) {
  const spider_kernel_info& info = *spider_info(kernel);
  Extents extent = drawn.cut.whole;
  if (info.dimensions < 3) extent[0] = 1;
  Extents low{};
  Extents high{};
  if (spider_halo(kernel, extent.data(), low.data(), high.data()) != SPIDER_OK) std::abort();
  std::vector<unsigned char> cells;
  for (std::int64_t z = 0; z < drawn.cut.whole[0]; z += extent[0]) {
    const Inputs inputs(drawn, info, {z, 0, 0}, extent, low, high, [](const Extents&) { return true; });
    const spider_field* result = nullptr;
    if (spider_run_steps(kernel, &inputs.sweep(), drawn.steps, &result) != SPIDER_OK) {
      std::fprintf(stderr, "%s: %s\n", drawn.name.c_str(), spider_last_error());
      std::abort();
    }
    append_cells(inputs.at(result), info.storage, cells);
  }
  return cells;
}

/// Does it take an input and an output alone?
bool is_plain(const spider_kernel_info& info) {
  return info.previous == nullptr && info.field_count + info.scalar_count == 0;
}

/// The steps of a case by one call, with fields that are new and gone behind it. Right: have they the cells
/// that are wanted, on rank 0?
struct Call {
  spider_status status;
  bool is_right;
};
Call take_steps(const Case& drawn, spider_grid* grid, const spider_kernel_info& info,
                const std::vector<unsigned char>& wanted) {
  const spider_grid_layout& layout = *spider_grid_info(grid);
  const bool is_root = layout.rank == 0;
  // The input's interior comes by scatter.
  const Inputs inputs(drawn, info, to_extents(layout.part.origin), to_extents(layout.extent),
                      to_extents(layout.low), to_extents(layout.high),
                      [&](const Extents& cell) { return is_callers(layout, cell); });
  std::vector<unsigned char> whole;
  if (is_root) whole = cells_of(drawn.cut.whole, drawn.seed, info.storage);
  const spider_sweep& sweep = inputs.sweep();
  Call call{spider_grid_scatter(grid, whole.data(), 0, sweep.in), false};
  const spider_field* result = nullptr;
  if (call.status == SPIDER_OK)
    call.status = is_plain(info)
                      ? spider_grid_iterate(grid, sweep.in, sweep.out, drawn.steps, nullptr, &result)
                      : spider_grid_run(grid, &sweep, drawn.steps, &result);
  note_transport(grid);
  if (call.status == SPIDER_OK) call.status = spider_grid_gather(grid, result, 0, whole.data());
  call.is_right = call.status == SPIDER_OK &&
                  (!is_root || are_cells(whole, wanted, drawn.cut.whole, info.storage, drawn.name.c_str()));
  return call;
}

/// On all ranks of the communicator.
Verdict check_case(const Case& drawn, MPI_Comm ranks) {
  const spider_kernel* const kernel = Kernels::find(drawn.name);
  const spider_kernel_info& info = *spider_info(kernel);
  int rank = 0;
  MPI_Comm_rank(ranks, &rank);
  spider_status made = SPIDER_OK;
  const Grid grid = make_grid(drawn.cut, kernel, ranks, made);
  if (grid == nullptr) {
    if (made == SPIDER_ERROR_EXTENT) return Verdict::refused;
    std::fprintf(stderr, "rank %d: %s: %s\n", rank, drawn.name.c_str(), spider_last_error());
    return Verdict::differs;
  }
  const std::vector<unsigned char> wanted =
      rank == 0 ? sweep_whole(drawn, kernel) : std::vector<unsigned char>{};
  int finite = rank != 0 || are_finite(wanted, info.storage) ? 1 : 0;
  MPI_Bcast(&finite, 1, MPI_INT, 0, ranks);
  if (finite == 0) return Verdict::refused;
  int same = 1;
  for (std::int64_t i = 0; i < drawn.calls; ++i) {
    const Call call = take_steps(drawn, grid.get(), info, wanted);
    if (call.status == SPIDER_ERROR_UNSUPPORTED) return Verdict::refused;
    if (call.status != SPIDER_OK) std::fprintf(stderr, "rank %d: %s\n", rank, spider_last_error());
    if (!call.is_right) same = 0;
  }
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, ranks);
  return same == 1 ? Verdict::same : Verdict::differs;
}

std::string tell(const Case& drawn, int ranks) {
  return in_words(drawn.name, drawn.cut, ranks) + ", " + std::to_string(drawn.steps) + " steps" +
         (drawn.calls > 1 ? ", twice" : "") + (drawn.shares ? " with shared fields" : "") +
         (drawn.in_pairs ? " in pairs" : "");
}

int run(int count, char** arguments) {
  const Wanted wanted = Wanted::read(count, arguments);
  const Kernels kernels = Kernels::read(arguments[1]);
  if (kernels.names.empty()) return 1;
  int of_steps = 0;
  int of_images = 0;
  std::array<int, 4> by_dimension{};
  const Counts counts = for_each_case(
      wanted, [&](int ranks, Random& random) { return draw_case(kernels, ranks, random); }, check_case, tell,
      [&](const Case& drawn) {
        const spider_kernel_info& info = *spider_info(Kernels::find(drawn.name));
        ++by_dimension[static_cast<std::size_t>(info.dimensions)];
        of_steps += info.steps > 1 ? 1 : 0;
        of_images += info.dimensions < 3 && drawn.cut.whole[0] > 1 ? 1 : 0;
      });
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::printf(
        "%d cases with the bits of one rank (1D %d, 2D %d, 3D %d; %d of many steps a sweep, %d of several "
        "images), "
        "%d differ, %d drawn again since parts were narrower than the halo, a field of another storage has "
        "one or numbers "
        "overflowed; seed %llu\n",
        counts.checked, by_dimension[1], by_dimension[2], by_dimension[3], of_steps, of_images, counts.failed,
        counts.refused, static_cast<unsigned long long>(wanted.seed));
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
