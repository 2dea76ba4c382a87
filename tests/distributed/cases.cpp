/// Random cases on 1 to 8 ranks against one: the bits of the whole. Runs under mpiexec; kernels come from a
/// shared library.
///
///     mpiexec -n 8 distributed_cases names.txt --seed 1 --cases 200
#include <dlfcn.h>
#include <spider/distributed.h>
#include <spider/memory.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace {

using Extents = std::array<std::int64_t, 3>;
using Random = std::mt19937_64;

std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// A number in (-1/64, 1/64) that depends on the cell only, as the bits of the kernel's storage.
std::uint64_t cell_bits(std::uint64_t seed, std::int64_t z, std::int64_t y, std::int64_t x, int storage) {
  std::uint64_t hash = seed ^ (static_cast<std::uint64_t>(z + 100) * 0x9E3779B97F4A7C15U) ^
                       (static_cast<std::uint64_t>(y + 100) * 0xC2B2AE3D27D4EB4FU) ^
                       (static_cast<std::uint64_t>(x + 100) * 0x165667B19E3779F9U);
  hash = (hash ^ (hash >> 31U)) * 0xBF58476D1CE4E5B9U;
  hash ^= hash >> 29U;
  const auto sign = static_cast<std::uint32_t>(hash & 1U);
  const auto fraction = static_cast<std::uint32_t>(hash >> 8U);
  // The exponent of 2^-7, and one bit less: numbers of two sizes.
  const auto exponent = static_cast<std::uint32_t>((hash >> 4U) & 1U);
  if (storage == SPIDER_F64) {
    const std::uint64_t digits = hash * 0x9E3779B97F4A7C15U >> 12U;
    return static_cast<std::uint64_t>(sign) << 63U | static_cast<std::uint64_t>(1016U - exponent) << 52U |
           digits;
  }
  if (storage == SPIDER_F16) return sign << 15U | (8U - exponent) << 10U | (fraction & 0x3FFU);
  if (storage == SPIDER_BF16) return sign << 15U | (120U - exponent) << 7U | (fraction & 0x7FU);
  return sign << 31U | (120U - exponent) << 23U | (fraction & 0x7FFFFFU);
}

/// Memory of the back end for a field with room around it, in which everything else is NaN.
class Field {
 public:
  Field(const Extents& extent, const Extents& low, const Extents& high, std::int64_t bytes,
        std::int64_t extra)
      : bytes_(bytes), low_(low), high_(high) {
    const std::int64_t cells = low[2] + extent[2] + high[2];
    const std::int64_t row = extra < 0 ? (cells + 15) / 16 * 16 : cells + extra;
    const std::int64_t rows = low[1] + extent[1] + high[1];
    const std::int64_t planes = low[0] + extent[0] + high[0];
    const std::int64_t lead = (low[2] + 15) / 16 * 16;
    cells_ = static_cast<std::size_t>(lead + planes * rows * row);
    void* memory = nullptr;
    if (spider_allocate(cells_ * static_cast<std::size_t>(bytes), &memory) != SPIDER_OK) std::abort();
    memory_ = static_cast<unsigned char*>(memory);
    std::memset(memory_, 0xFF, cells_ * static_cast<std::size_t>(bytes));
    field_.data = memory_ + (lead + (low[0] * rows + low[1]) * row) * bytes;
    std::copy(extent.begin(), extent.end(), field_.extent);
    field_.stride[0] = rows * row;
    field_.stride[1] = row;
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;
  ~Field() { spider_free(memory_); }

  [[nodiscard]] const spider_field& view() const { return field_; }
  [[nodiscard]] unsigned char* at(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return static_cast<unsigned char*>(field_.data) +
           (z * field_.stride[0] + y * field_.stride[1] + x) * bytes_;
  }
  void set(std::int64_t z, std::int64_t y, std::int64_t x, std::uint64_t bits) const {
    std::memcpy(at(z, y, x), &bits, static_cast<std::size_t>(bytes_));
  }
  /// Sets cells inside the whole's box `begin` to `end`, with the origin of this field in it.
  template <class Wanted>
  void fill(const Extents& origin, std::uint64_t seed, int storage, const Wanted& wanted) const {
    for (std::int64_t z = -low_[0]; z < field_.extent[0] + high_[0]; ++z) {
      for (std::int64_t y = -low_[1]; y < field_.extent[1] + high_[1]; ++y) {
        for (std::int64_t x = -low_[2]; x < field_.extent[2] + high_[2]; ++x) {
          const Extents cell{origin[0] + z, origin[1] + y, origin[2] + x};
          if (wanted(cell)) set(z, y, x, cell_bits(seed, cell[0], cell[1], cell[2], storage));
        }
      }
    }
  }

 private:
  std::int64_t bytes_;
  Extents low_;
  Extents high_;
  std::size_t cells_ = 0;
  unsigned char* memory_ = nullptr;
  spider_field field_{};
};

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

struct Kernels {
  std::vector<std::string> names;
  [[nodiscard]] static const spider_kernel* find(const std::string& name) {
    using Function = const spider_kernel* (*)();
    void* const symbol = dlsym(RTLD_DEFAULT, (name + "_kernel").c_str());
    Function function = nullptr;
    std::memcpy(&function, &symbol, sizeof function);
    return function == nullptr ? nullptr : function();
  }
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

std::int64_t bytes_of(std::int32_t storage) {
  if (storage == SPIDER_F64) return 8;
  return storage == SPIDER_F32 ? 4 : 2;
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
  [[nodiscard]] const Field& at(const spider_field* view) const {
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
  const Field& last = inputs.at(result);
  std::vector<unsigned char> cells;
  for (std::int64_t z = 0; z < drawn.whole[0]; ++z) {
    for (std::int64_t y = 0; y < drawn.whole[1]; ++y) {
      const unsigned char* const row = last.at(z, y, 0);
      cells.insert(cells.end(), row, row + drawn.whole[2] * bytes_of(info.storage));
    }
  }
  return cells;
}

/// Is no cell infinite or NaN? How far those spread depends on where tiles of tensor cores begin.
bool are_finite(const std::vector<unsigned char>& cells, std::int32_t storage) {
  const std::uint64_t exponent = storage == SPIDER_F64    ? 0x7FF0000000000000U
                                 : storage == SPIDER_F32  ? 0x7F800000U
                                 : storage == SPIDER_BF16 ? 0x7F80U
                                                          : 0x7C00U;
  const auto bytes = static_cast<std::size_t>(bytes_of(storage));
  for (std::size_t at = 0; at < cells.size(); at += bytes) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &cells[at], bytes);
    if ((bits & exponent) == exponent) return false;
  }
  return true;
}

enum class Verdict { same, differs, refused };

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
  const char* separator = drawn.cartesian ? " as " : " as MPI divides them, not ";
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
  std::uint64_t seed = 1;
  int cases = 200;
  int only = -1;
  for (int i = 2; i + 1 < count; i += 2) {
    const std::string_view key = arguments[i];
    const std::string_view value = arguments[i + 1];
    const auto read = [&](auto& number) {
      std::from_chars(value.data(), value.data() + value.size(), number);
    };
    if (key == "--seed") read(seed);
    if (key == "--cases") read(cases);
    if (key == "--case") read(only);
  }
  Kernels kernels;
  std::ifstream list(arguments[1]);
  for (std::string name; list >> name;) {
    const spider_kernel* const kernel = Kernels::find(name);
    if (kernel == nullptr) continue;
    if (spider_info(kernel) == nullptr) {
      std::fprintf(stderr, "%s: %s\n", name.c_str(), spider_last_error());
      return 1;
    }
    kernels.names.push_back(name);
  }
  int rank = 0;
  int all = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  if (kernels.names.empty()) {
    std::fprintf(stderr, "%s names no kernel\n", arguments[1]);
    return 1;
  }
  const std::array<int, 6> sizes{8, 6, 4, 3, 2, 1};
  int checked = 0;
  int refused = 0;
  int failed = 0;
  int of_steps = 0;
  std::array<int, 4> by_dimension{};
  for (int number = 0; checked + failed < cases && number < 10 * cases; ++number) {
    const int ranks = std::min(sizes[static_cast<std::size_t>(number) % sizes.size()], all);
    Random random(seed * 1000003 + static_cast<std::uint64_t>(number));
    const Case drawn = draw_case(kernels, ranks, random);
    if (only >= 0 && number != only) continue;
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &some);
    int verdict = static_cast<int>(Verdict::refused);
    if (some != MPI_COMM_NULL) {
      verdict = static_cast<int>(check_case(drawn, some));
      MPI_Comm_free(&some);
    }
    MPI_Bcast(&verdict, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (verdict == static_cast<int>(Verdict::refused)) {
      ++refused;
    } else if (verdict == static_cast<int>(Verdict::same)) {
      ++checked;
      const spider_kernel_info& info = *spider_info(Kernels::find(drawn.name));
      ++by_dimension[static_cast<std::size_t>(info.dimensions)];
      of_steps += info.steps > 1 ? 1 : 0;
    } else {
      ++failed;
      if (rank == 0) std::printf("case %d differs: %s\n", number, in_words(drawn, ranks).c_str());
    }
    if (only >= 0 && rank == 0) std::printf("case %d: %s\n", number, in_words(drawn, ranks).c_str());
    if (only >= 0) break;
  }
  if (rank == 0) {
    std::printf(
        "%d cases with the bits of one rank (1D %d, 2D %d, 3D %d; %d of many steps a sweep), %d differ, %d "
        "drawn "
        "again since parts were narrower than the halo, a field of another storage has one or numbers "
        "overflowed; seed %llu\n",
        checked, by_dimension[1], by_dimension[2], by_dimension[3], of_steps, failed, refused,
        static_cast<unsigned long long>(seed));
  }
  return failed == 0 && checked > 0 ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  MPI_Init(&count, &arguments);
  const int status = count < 2 ? 2 : run(count, arguments);
  MPI_Finalize();
  return status;
}
