/// Kernels, fields and numbers of random cases on several ranks. Kernels come from a shared library.
#pragma once

#include <dlfcn.h>
#include <mpi.h>
#include <spider/distributed.h>
#include <spider/memory.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace random_cases {

using Extents = std::array<std::int64_t, 3>;
using Random = std::mt19937_64;

inline std::int64_t draw(Random& random, std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(random);
}

/// A number in (-1/64, 1/64) that depends on the cell only, as the bits of the kernel's storage.
inline std::uint64_t cell_bits(std::uint64_t seed, std::int64_t z, std::int64_t y, std::int64_t x,
                               int storage) {
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
    host_.assign(cells_ * static_cast<std::size_t>(bytes), 0xFF);
    void* memory = nullptr;
    if (spider_allocate(host_.size(), &memory) != SPIDER_OK) std::abort();
    memory_ = static_cast<unsigned char*>(memory);
    first_ = static_cast<std::size_t>((lead + (low[0] * rows + low[1]) * row) * bytes);
    field_.data = memory_ + first_;
    std::copy(extent.begin(), extent.end(), field_.extent);
    field_.stride[0] = rows * row;
    field_.stride[1] = row;
  }
  Field(const Field&) = delete;
  Field& operator=(const Field&) = delete;
  ~Field() { spider_free(memory_); }

  [[nodiscard]] const spider_field& view() const { return field_; }
  /// A cell of the copy on the host, that of the last fill() or fetch().
  [[nodiscard]] const unsigned char* at(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return host_.data() + place_of(z, y, x);
  }
  /// Copies the field to the host.
  void fetch() {
    if (spider_download(host_.data(), host_.size(), memory_, host_.size(), host_.size(), 1) != SPIDER_OK)
      std::abort();
  }
  /// Sets cells inside the whole's box `begin` to `end`, with the origin of this field in it.
  template <class Wanted>
  void fill(const Extents& origin, std::uint64_t seed, int storage, const Wanted& wanted) {
    for (std::int64_t z = -low_[0]; z < field_.extent[0] + high_[0]; ++z) {
      for (std::int64_t y = -low_[1]; y < field_.extent[1] + high_[1]; ++y) {
        for (std::int64_t x = -low_[2]; x < field_.extent[2] + high_[2]; ++x) {
          const Extents cell{origin[0] + z, origin[1] + y, origin[2] + x};
          if (!wanted(cell)) continue;
          const std::uint64_t bits = cell_bits(seed, cell[0], cell[1], cell[2], storage);
          std::memcpy(host_.data() + place_of(z, y, x), &bits, static_cast<std::size_t>(bytes_));
        }
      }
    }
    if (spider_upload(memory_, host_.size(), host_.data(), host_.size(), host_.size(), 1) != SPIDER_OK)
      std::abort();
  }

 private:
  [[nodiscard]] std::size_t place_of(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return first_ + static_cast<std::size_t>((z * field_.stride[0] + y * field_.stride[1] + x) * bytes_);
  }

  std::int64_t bytes_;
  Extents low_;
  Extents high_;
  std::size_t cells_ = 0;
  unsigned char* memory_ = nullptr;
  std::vector<unsigned char> host_;
  std::size_t first_ = 0;  ///< bytes before the first interior cell
  spider_field field_{};
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

  /// Those that a file names and the program has; none where one is of another ABI.
  [[nodiscard]] static Kernels read(const char* path) {
    Kernels kernels;
    std::ifstream list(path);
    for (std::string name; list >> name;) {
      const spider_kernel* const kernel = find(name);
      if (kernel == nullptr) continue;
      if (spider_info(kernel) == nullptr) {
        std::fprintf(stderr, "%s: %s\n", name.c_str(), spider_last_error());
        return {};
      }
      kernels.names.push_back(name);
    }
    if (kernels.names.empty()) std::fprintf(stderr, "%s names no kernel\n", path);
    return kernels;
  }
};

inline std::int64_t bytes_of(std::int32_t storage) {
  if (storage == SPIDER_F64) return 8;
  return storage == SPIDER_F32 ? 4 : 2;
}

/// Is no cell infinite or NaN? How far those spread depends on where tiles of tensor cores begin.
inline bool are_finite(const std::vector<unsigned char>& cells, std::int32_t storage) {
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

/// How halos moved, for the last line: "copies into slots of neighbours, NCCL with neighbours".
inline std::string& transports() {
  static std::string all;
  return all;
}
inline void note_transport(const spider_grid* grid) {
  std::string words;
  for (const char letter : std::string_view(spider_grid_transport(grid))) {
    if ((letter < '0' || letter > '9') && (letter != ' ' || words.empty() || words.back() != ' '))
      words += letter;
  }
  if (!words.empty() && transports().find(words) == std::string::npos)
    transports() += (transports().empty() ? "" : "; ") + words;
}

/// Where a case's whole is cut.
struct Cut {
  Extents whole;
  std::array<int, 3> parts;
  bool cartesian;
};

/// A whole of up to `largest` cells of a kernel's axes, and ranks along them.
inline Cut draw_cut(const Extents& largest, int dimensions, int ranks, Random& random) {
  Cut cut{{1, 1, 1}, {1, 1, 1}, false};
  for (auto axis = static_cast<std::size_t>(3 - dimensions); axis < 3; ++axis)
    cut.whole[axis] = draw(random, (largest[axis] + 3) / 4, largest[axis]);
  for (int left = ranks, factor = 2; left > 1;) {
    while (left % factor != 0) ++factor;
    cut.parts[static_cast<std::size_t>(draw(random, 3 - dimensions, 2))] *= factor;
    left /= factor;
  }
  cut.cartesian = draw(random, 0, 3) > 0;
  return cut;
}

inline std::string in_words(const std::string& name, const Cut& cut, int ranks) {
  std::string text = name + ", " + std::to_string(ranks) + " ranks";
  const char* separator = cut.cartesian ? " as " : " as the grid divides them, not ";
  for (const int count : cut.parts) {
    text += separator + std::to_string(count);
    separator = " x ";
  }
  separator = ", ";
  for (const std::int64_t count : cut.whole) {
    text += separator + std::to_string(count);
    separator = " x ";
  }
  return text;
}

struct FreeGrid {
  void operator()(spider_grid* grid) const { spider_grid_free(grid); }
};
using Grid = std::unique_ptr<spider_grid, FreeGrid>;

/// The grid of a case; null where it is refused.
inline Grid make_grid(const Cut& cut, const spider_kernel* kernel, MPI_Comm ranks, spider_status& made) {
  const spider_kernel_info& info = *spider_info(kernel);
  MPI_Comm given = ranks;
  if (cut.cartesian) {
    std::array<int, 3> periods{};
    spider_grid* alone = nullptr;
    if (spider_grid_create(MPI_COMM_SELF, kernel, cut.whole.data(), nullptr, &alone) != SPIDER_OK)
      std::abort();
    for (std::size_t axis = 0; axis < 3; ++axis) periods[axis] = spider_grid_info(alone)->periodic[axis];
    spider_grid_free(alone);
    const int first = 3 - info.dimensions;
    MPI_Cart_create(ranks, info.dimensions, cut.parts.data() + first, periods.data() + first, 0, &given);
  }
  spider_grid* grid = nullptr;
  made = spider_grid_create(given, kernel, cut.whole.data(), nullptr, &grid);
  if (given != ranks) MPI_Comm_free(&given);
  return Grid(grid);
}

inline Extents to_extents(const std::int64_t (&values)[3]) {
  return {values[0], values[1], values[2]};
}

/// Does the caller give a cell of this part, counted in the whole: those beyond the whole's `halo` faces, as
/// far as they belong to it?
inline bool is_callers(const spider_grid_layout& layout, const Extents& cell) {
  bool beyond = false;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const bool at_low = layout.place[axis] == 0 && layout.periodic[axis] == 0;
    const bool at_high = layout.place[axis] + 1 == layout.parts[axis] && layout.periodic[axis] == 0;
    const std::int64_t begin = layout.part.origin[axis];
    if (cell[axis] < begin && !at_low) return false;
    if (cell[axis] >= begin + layout.extent[axis] && !at_high) return false;
    beyond = beyond || cell[axis] < 0 || cell[axis] >= layout.part.whole[axis];
  }
  return beyond;
}

/// The numbers of all cells, row after row.
inline std::vector<unsigned char> cells_of(const Extents& extent, std::uint64_t seed, std::int32_t storage) {
  std::vector<unsigned char> cells;
  for (std::int64_t z = 0; z < extent[0]; ++z) {
    for (std::int64_t y = 0; y < extent[1]; ++y) {
      for (std::int64_t x = 0; x < extent[2]; ++x) {
        const std::uint64_t bits = cell_bits(seed, z, y, x, storage);
        const auto* const first = reinterpret_cast<const unsigned char*>(&bits);
        cells.insert(cells.end(), first, first + bytes_of(storage));
      }
    }
  }
  return cells;
}

/// Appends the interior of a field, row after row.
inline void append_cells(Field& field, std::int32_t storage, std::vector<unsigned char>& cells) {
  const spider_field& view = field.view();
  field.fetch();
  for (std::int64_t z = 0; z < view.extent[0]; ++z) {
    for (std::int64_t y = 0; y < view.extent[1]; ++y) {
      const unsigned char* const row = field.at(z, y, 0);
      cells.insert(cells.end(), row, row + view.extent[2] * bytes_of(storage));
    }
  }
}

/// Are the cells of a whole those wanted? Says which is the first that is not.
inline bool are_cells(const std::vector<unsigned char>& cells, const std::vector<unsigned char>& wanted,
                      const Extents& extent, std::int32_t storage, const char* name) {
  if (cells == wanted) return true;
  const auto at = std::mismatch(cells.begin(), cells.end(), wanted.begin()).first - cells.begin();
  const std::int64_t cell = at / bytes_of(storage);
  std::fprintf(stderr, "%s: the first cell is z %lld y %lld x %lld\n", name,
               static_cast<long long>(cell / extent[2] / extent[1]),
               static_cast<long long>(cell / extent[2] % extent[1]),
               static_cast<long long>(cell % extent[2]));
  return false;
}

enum class Verdict { same, differs, refused };

/// Of the command line: names.txt [--seed N] [--cases N] [--case NUMBER].
struct Wanted {
  std::uint64_t seed = 1;
  int cases = 200;
  int only = -1;

  [[nodiscard]] static Wanted read(int count, char** arguments) {
    Wanted wanted;
    for (int i = 2; i + 1 < count; i += 2) {
      const std::string_view key = arguments[i];
      const std::string_view value = arguments[i + 1];
      const auto set = [&](auto& number) {
        std::from_chars(value.data(), value.data() + value.size(), number);
      };
      if (key == "--seed") set(wanted.seed);
      if (key == "--cases") set(wanted.cases);
      if (key == "--case") set(wanted.only);
    }
    return wanted;
  }
};

struct Counts {
  int checked = 0;
  int refused = 0;
  int failed = 0;
};

/// Draws cases, alike on all ranks, and checks each on some of the ranks until so many are checked.
/// `draw_case(ranks, random)` draws one, `check_case(drawn, communicator)` has a verdict on it,
/// `tell(drawn, ranks)` tells it, `count(drawn)` counts one with the right bits.
template <class Draw, class Check, class Tell, class Count>
Counts for_each_case(const Wanted& wanted, const Draw& draw_case, const Check& check_case, const Tell& tell,
                     const Count& count) {
  int rank = 0;
  int all = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &all);
  constexpr std::array<int, 6> sizes{8, 6, 4, 3, 2, 1};
  Counts counts;
  for (int number = 0; counts.checked + counts.failed < wanted.cases && number < 10 * wanted.cases;
       ++number) {
    const int ranks = std::min(sizes[static_cast<std::size_t>(number) % sizes.size()], all);
    Random random(wanted.seed * 1000003 + static_cast<std::uint64_t>(number));
    const auto drawn = draw_case(ranks, random);
    if (wanted.only >= 0 && number != wanted.only) continue;
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank < ranks ? 0 : MPI_UNDEFINED, rank, &some);
    int verdict = static_cast<int>(Verdict::refused);
    if (some != MPI_COMM_NULL) {
      verdict = static_cast<int>(check_case(drawn, some));
      MPI_Comm_free(&some);
    }
    MPI_Bcast(&verdict, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (verdict == static_cast<int>(Verdict::refused)) {
      ++counts.refused;
    } else if (verdict == static_cast<int>(Verdict::same)) {
      ++counts.checked;
      count(drawn);
    } else {
      ++counts.failed;
      if (rank == 0) std::printf("case %d differs: %s\n", number, tell(drawn, ranks).c_str());
    }
    if (wanted.only >= 0 && rank == 0) std::printf("case %d: %s\n", number, tell(drawn, ranks).c_str());
    if (wanted.only >= 0) break;
  }
  return counts;
}

}  // namespace random_cases
