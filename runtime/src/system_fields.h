/// The fields that a sweep of a system of equations is given, and what makes them fit. No back end is asked
/// here.
#pragma once

#include <spider/kernel.h>

#include <array>
#include <cstdint>
#include <string>

#include "backend.h"
#include "field_memory.h"

namespace spider {

/// Memory of a field: what the caller calls its field, or its output.
struct SystemBuffer {
  spider_field field{};
  CellBox cells{};  ///< that sweeps read, or write
  bool read = false;
  bool written = false;
};

/// The buffers that hold each field's values, by the launches that ran: 0 of `fields`, 1 of `outputs`.
using CurrentBuffers = std::array<std::uint8_t, most_system_fields>;

/// What a sweep is given, checked.
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

/// Does a launch write this field into the buffer that it does not read?
[[nodiscard]] bool needs_second_buffer(const spider_kernel& kernel, std::int32_t field);

/// Makes `current` what it is after a launch.
void take_turn(const SystemSweep& sweep, CurrentBuffers& current);

/// Whether a system can take so many steps of what it is given, all of it in `found` then; the reason if not.
/// The sweep has the size of this runtime's.
[[nodiscard]] backend::Outcome check_system_fields(const spider_kernel& kernel, const spider_sweep& sweep,
                                                   std::int64_t steps, SystemGiven& found);

inline constexpr std::int32_t all_fields = -1;

/// What sweeps of fields of these extents read around one of them, or the hull of all_fields.
[[nodiscard]] backend::Outcome find_system_halo(const spider_kernel& kernel, std::int32_t field,
                                                const std::int64_t* extent, const spider_part* part,
                                                HaloWidth (&halo)[3]);

/// Whether a system has a field at this place; the reason if not.
[[nodiscard]] backend::Outcome check_field_index(const spider_kernel& kernel, std::int32_t field);

/// "the field u", or "the output of u".
[[nodiscard]] std::string name_of_buffer(const spider_kernel& kernel, std::int32_t field, int buffer);

/// A buffer as kernels see it: with the first of all cells, and a stride 0 where none counts. `cells` are
/// those that are used.
[[nodiscard]] spider_field place_buffer(const spider_kernel& kernel, const SystemGiven& given,
                                        std::int32_t field, const spider_field& buffer, const CellBox& cells);

}  // namespace spider
