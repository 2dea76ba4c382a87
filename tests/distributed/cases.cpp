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
  Extents whole;
  std::array<int, 3> parts;
  bool cartesian;
  std::int64_t steps;
  /// Columns that rows are longer: 0, so that planes lie together, or some; below 0 so many that rows are
  /// aligned.
  std::int64_t extra;
  std::uint64_t seed;
  bool in_pairs;  ///< of several steps with a previous field: so many in a sweep, not one
};

/// Drawn alike on all ranks.
Case draw_case(const Kernels& kernels, int ranks, Random& random) {
  Case drawn{};
  drawn.name = kernels.names[static_cast<std::size_t>(
      draw(random, 0, static_cast<std::int64_t>(kernels.names.size()) - 1))];
  const spider_kernel_info& info = *spider_info(Kernels::find(drawn.name));
  const std::array<Extents, 3> largest{Extents{1, 1, 1500}, Extents{1, 60, 500}, Extents{14, 30, 180}};
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t most = largest[static_cast<std::size_t>(info.dimensions - 1)][axis];
    drawn.whole[axis] = most == 1 ? 1 : draw(random, (most + 3) / 4, most);
  }
  drawn.parts = {1, 1, 1};
  for (int left = ranks, factor = 2; left > 1;) {
    while (left % factor != 0) ++factor;
    drawn.parts[static_cast<std::size_t>(draw(random, 3 - info.dimensions, 2))] *= factor;
    left /= factor;
  }
  drawn.cartesian = draw(random, 0, 3) > 0;
  drawn.steps = draw(random, 1, info.steps > 1 ? info.steps + 1 : 3);
  drawn.extra = draw(random, -2, 1) * 5;
  drawn.seed = random();
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
    const auto add = [&](std::int32_t storage, std::uint64_t seed) {
      fields_.push_back(std::make_unique<Field>(extent, low, high, bytes_of(storage), drawn.extra));
      fields_.back()->fill(origin, seed, storage, [&](const Extents& cell) {
        bool inside = fields_.size() > 1;
        for (std::size_t axis = 0; axis < 3; ++axis)
          inside = inside && cell[axis] >= origin[axis] && cell[axis] < origin[axis] + extent[axis];
        return inside || is_given(cell);
      });
    };
    add(info.storage, drawn.seed);
    add(info.storage, drawn.seed);
    if (info.previous != nullptr) add(info.storage, drawn.seed + 1);
    if (drawn.in_pairs) add(info.storage, drawn.seed + 1);
    const std::size_t taking_turns = fields_.size();
    for (std::int32_t i = 0; i < info.field_count; ++i)
      add(info.field_storages[i], drawn.seed + 2 + static_cast<std::uint64_t>(i));
    for (std::size_t i = taking_turns; i < fields_.size(); ++i) further_.push_back(&fields_[i]->view());
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
  std::vector<const spider_field*> further_;
  std::vector<double> scalars_;
  spider_sweep sweep_{};
};

/// The whole after its steps, row after row.
std::vector<unsigned char> sweep_whole(const Case& drawn, const spider_kernel* kernel) {
  const spider_kernel_info& info = *spider_info(kernel);
  Extents low{};
  Extents high{};
  if (spider_halo(kernel, drawn.whole.data(), low.data(), high.data()) != SPIDER_OK) std::abort();
  const Inputs inputs(drawn, info, {0, 0, 0}, drawn.whole, low, high, [](const Extents&) { return true; });
  const spider_field* result = nullptr;
  if (spider_run_steps(kernel, &inputs.sweep(), drawn.steps, &result) != SPIDER_OK) {
    std::fprintf(stderr, "%s: %s\n", drawn.name.c_str(), spider_last_error());
    std::abort();
  }
  Field& last = inputs.at(result);
  last.fetch();
  std::vector<unsigned char> cells;
  for (std::int64_t z = 0; z < drawn.whole[0]; ++z) {
    for (std::int64_t y = 0; y < drawn.whole[1]; ++y) {
      const unsigned char* const row = last.at(z, y, 0);
      cells.insert(cells.end(), row, row + drawn.whole[2] * bytes_of(info.storage));
    }
  }
  return cells;
}

/// Does it take an input and an output alone?
bool is_plain(const spider_kernel_info& info) {
  return info.previous == nullptr && info.field_count + info.scalar_count == 0;
}

/// On all ranks of the communicator.
Verdict check_case(const Case& drawn, MPI_Comm ranks) {
  const spider_kernel* const kernel = Kernels::find(drawn.name);
  const spider_kernel_info& info = *spider_info(kernel);
  const std::int64_t bytes = bytes_of(info.storage);
  MPI_Comm given = ranks;
  if (drawn.cartesian) {
    std::array<int, 3> periods{};
    spider_grid* alone = nullptr;
    if (spider_grid_create(MPI_COMM_SELF, kernel, drawn.whole.data(), nullptr, &alone) != SPIDER_OK)
      std::abort();
    for (std::size_t axis = 0; axis < 3; ++axis) periods[axis] = spider_grid_info(alone)->periodic[axis];
    spider_grid_free(alone);
    const int first = 3 - info.dimensions;
    MPI_Cart_create(ranks, info.dimensions, drawn.parts.data() + first, periods.data() + first, 0, &given);
  }
  spider_grid* grid = nullptr;
  const spider_status made = spider_grid_create(given, kernel, drawn.whole.data(), nullptr, &grid);
  if (given != ranks) MPI_Comm_free(&given);
  int rank = 0;
  MPI_Comm_rank(ranks, &rank);
  if (made != SPIDER_OK) {
    if (made == SPIDER_ERROR_EXTENT) return Verdict::refused;
    std::fprintf(stderr, "rank %d: %s: %s\n", rank, drawn.name.c_str(), spider_last_error());
    return Verdict::differs;
  }
  note_transport(grid);
  const spider_grid_layout& layout = *spider_grid_info(grid);
  Extents extent{};
  Extents low{};
  Extents high{};
  Extents origin{};
  std::copy_n(layout.extent, 3, extent.begin());
  std::copy_n(layout.low, 3, low.begin());
  std::copy_n(layout.high, 3, high.begin());
  std::copy_n(layout.part.origin, 3, origin.begin());
  // The caller's: the cells beyond the whole's `halo` faces, as far as they belong to this part; the input's
  // interior comes by scatter.
  const auto is_ours = [&](const Extents& cell) {
    bool beyond = false;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      const bool at_low = layout.place[axis] == 0 && layout.periodic[axis] == 0;
      const bool at_high = layout.place[axis] + 1 == layout.parts[axis] && layout.periodic[axis] == 0;
      if (cell[axis] < origin[axis] && !at_low) return false;
      if (cell[axis] >= origin[axis] + extent[axis] && !at_high) return false;
      beyond = beyond || cell[axis] < 0 || cell[axis] >= drawn.whole[axis];
    }
    return beyond;
  };
  const Inputs inputs(drawn, info, origin, extent, low, high, is_ours);
  std::vector<unsigned char> whole;
  std::vector<unsigned char> wanted;
  if (rank == 0) {
    for (std::int64_t z = 0; z < drawn.whole[0]; ++z) {
      for (std::int64_t y = 0; y < drawn.whole[1]; ++y) {
        for (std::int64_t x = 0; x < drawn.whole[2]; ++x) {
          const std::uint64_t bits = cell_bits(drawn.seed, z, y, x, info.storage);
          const auto* const first = reinterpret_cast<const unsigned char*>(&bits);
          whole.insert(whole.end(), first, first + bytes);
        }
      }
    }
    wanted = sweep_whole(drawn, kernel);
  }
  int finite = rank != 0 || are_finite(wanted, info.storage) ? 1 : 0;
  MPI_Bcast(&finite, 1, MPI_INT, 0, ranks);
  if (finite == 0) {
    spider_grid_free(grid);
    return Verdict::refused;
  }
  const spider_sweep& sweep = inputs.sweep();
  bool good = spider_grid_scatter(grid, whole.data(), 0, sweep.in) == SPIDER_OK;
  const spider_field* result = nullptr;
  const spider_status stepped =
      is_plain(info) ? spider_grid_iterate(grid, sweep.in, sweep.out, drawn.steps, nullptr, &result)
                     : spider_grid_run(grid, &sweep, drawn.steps, &result);
  if (good && stepped == SPIDER_ERROR_UNSUPPORTED) {
    spider_grid_free(grid);
    return Verdict::refused;
  }
  good = good && stepped == SPIDER_OK;
  good = good && spider_grid_gather(grid, result, 0, whole.data()) == SPIDER_OK;
  if (!good) std::fprintf(stderr, "rank %d: %s\n", rank, spider_last_error());
  int same = good && (rank != 0 || whole == wanted) ? 1 : 0;
  if (good && same == 0) {
    std::size_t first = 0;
    while (whole[first] == wanted[first]) ++first;
    first /= static_cast<std::size_t>(bytes);
    const auto columns = static_cast<std::size_t>(drawn.whole[2]);
    const auto rows = static_cast<std::size_t>(drawn.whole[1]);
    std::fprintf(stderr, "first at z %zu y %zu x %zu\n", first / columns / rows, first / columns % rows,
                 first % columns);
  }
  MPI_Allreduce(MPI_IN_PLACE, &same, 1, MPI_INT, MPI_MIN, ranks);
  spider_grid_free(grid);
  return same == 1 ? Verdict::same : Verdict::differs;
}

std::string in_words(const Case& drawn, int ranks) {
  std::string text = drawn.name + ", " + std::to_string(ranks) + " ranks";
  const char* separator = drawn.cartesian ? " as " : " as the grid divides them, not ";
  for (const int count : drawn.parts) {
    text += separator + std::to_string(count);
    separator = " x ";
  }
  separator = ", ";
  for (const std::int64_t count : drawn.whole) {
    text += separator + std::to_string(count);
    separator = " x ";
  }
  return text + ", " + std::to_string(drawn.steps) + " steps" + (drawn.in_pairs ? " in pairs" : "");
}

int run(int count, char** arguments) {
  const Wanted wanted = Wanted::read(count, arguments);
  const Kernels kernels = Kernels::read(arguments[1]);
  if (kernels.names.empty()) return 1;
  int of_steps = 0;
  std::array<int, 4> by_dimension{};
  const Counts counts = for_each_case(
      wanted, [&](int ranks, Random& random) { return draw_case(kernels, ranks, random); }, check_case,
      in_words,
      [&](const Case& drawn) {
        const spider_kernel_info& info = *spider_info(Kernels::find(drawn.name));
        ++by_dimension[static_cast<std::size_t>(info.dimensions)];
        of_steps += info.steps > 1 ? 1 : 0;
      });
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    std::printf(
        "%d cases with the bits of one rank (1D %d, 2D %d, 3D %d; %d of many steps a sweep), %d differ, %d "
        "drawn "
        "again since parts were narrower than the halo, a field of another storage has one or numbers "
        "overflowed; seed %llu\n",
        counts.checked, by_dimension[1], by_dimension[2], by_dimension[3], of_steps, counts.failed,
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
