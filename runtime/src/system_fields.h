/// The fields of a sweep of a system of equations, and the checks that they fit. Independent of back ends.
#pragma once

#include <spider/kernel.h>

#include <array>
#include <cstdint>
#include <string>

#include "backend.h"
#include "field_memory.h"

namespace spider {

/// Memory of a field: the caller's field, or its output.
struct SystemBuffer {
  spider_field field{};
  CellBox cells{};  ///< that sweeps read, or write
  bool read = false;
  bool written = false;
};

/// The buffer that contains each field's values after the launches so far: 0 of `fields`, 1 of `outputs`.
using CurrentBuffers = std::array<std::uint8_t, most_system_fields>;

/// The arguments of a sweep, checked.
struct SystemGiven {
  std::array<std::array<SystemBuffer, 2>, most_system_fields> buffers;  ///< of each field
  std::int64_t extent[3] = {1, 1, 1};  ///< of fields along the axes they have
  spider_part part{};
  bool is_cut = false;          ///< does the part lack some of the whole?
  std::int64_t origin[3] = {};  ///< of the part, among the cells that kernels see
  std::int64_t in_all[3] = {};  ///< extents that kernels see
  std::int32_t first_launch = 0;
  std::int32_t launch_count = 0;  ///< of launches to run
  [[nodiscard]] bool is_empty() const { return extent[0] == 0 || extent[1] == 0 || extent[2] == 0; }
};

/// True if a launch writes this field to another buffer than it reads.
[[nodiscard]] bool needs_second_buffer(const spider_kernel& kernel, std::int32_t field);

/// Updates `current` after a launch.
void take_turn(const SystemSweep& sweep, CurrentBuffers& current);

/// Whether a system can take that many steps with its arguments, returned in `found`; the reason if not. The
/// sweep has the size of this runtime's.
[[nodiscard]] backend::Outcome check_system_fields(const spider_kernel& kernel, const spider_sweep& sweep,
                                                   std::int64_t steps, SystemGiven& found);

inline constexpr std::int32_t all_fields = -1;

/// The halo that sweeps of fields of these extents read of one of them, or the hull for all_fields.
[[nodiscard]] backend::Outcome find_system_halo(const spider_kernel& kernel, std::int32_t field,
                                                const std::int64_t* extent, const spider_part* part,
                                                HaloWidth (&halo)[3]);

/// Whether a system has a field of this index; the reason if not.
[[nodiscard]] backend::Outcome check_field_index(const spider_kernel& kernel, std::int32_t field);

/// "the field u", or "the output of u".
[[nodiscard]] std::string name_of_buffer(const spider_kernel& kernel, std::int32_t field, int buffer);

/// A buffer as kernels see it: begins with the first of all cells; a stride that does not matter is 0.
/// `cells` are the cells used.
[[nodiscard]] spider_field place_buffer(const spider_kernel& kernel, const SystemGiven& given,
                                        std::int32_t field, const spider_field& buffer, const CellBox& cells);

}  // namespace spider
