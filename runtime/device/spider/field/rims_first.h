/// Sweeps of a part of a field that signal when the planes that neighbours need are stored (RimGrid). Blocks
/// of these planes come first and increment a counter in memory; the sender waits for it. So a step stays one
/// launch. Only files compiled with SPIDER_TELLS_RIMS contain this code.
#pragma once

#include <spider/kernel.h>
#include <spider/machine/instructions.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {

#if defined(SPIDER_TELLS_RIMS)
constexpr bool tells_rims = true;
#else
constexpr bool tells_rims = false;
#endif

/// The blocks of a launch that take some planes of the box: a rim, or all other planes.
struct BlocksOfPlanes {
  std::int32_t begin, end;  ///< the planes
  std::int32_t block;       ///< among these blocks
  bool is_rim;              ///< then a block has one walk of all these planes
};

SPIDER_DEVICE RimGrid rims_of(const SweepArguments& field) {
  const StripGrid& told = field.grid.strips;
  return {{static_cast<std::uint32_t>(told.first_column), static_cast<std::uint32_t>(told.inner_strips)},
          told.edge_strips,
          told.edge_walks,
          told.edge_rows,
          told.inner_rows};
}

SPIDER_DEVICE std::uint32_t* counter_of(const RimGrid& rims) {
  const std::uintptr_t address =
      static_cast<std::uintptr_t>(rims.counter[0]) | static_cast<std::uintptr_t>(rims.counter[1]) << 32U;
  return reinterpret_cast<std::uint32_t*>(address);  // NOLINT(performance-no-int-to-ptr): as the host gave it
}

/// True if a launch signals when its rims are stored.
SPIDER_DEVICE bool has_rims_first(const RimGrid& rims) {
  return tells_rims && (rims.counter[0] | rims.counter[1]) != 0;
}

/// The planes of block `index`, in a launch whose blocks walk along z. The last planes come first: the blocks
/// after the first ones then find the planes they share with those in the L2 cache.
SPIDER_DEVICE BlocksOfPlanes find_planes(const SweepArguments& field, std::int32_t index) {
  const std::int32_t abreast = field.grid.volume.across * field.grid.volume.down;
  const auto begin = static_cast<std::int32_t>(field.box.offset[0]);
  const auto end = static_cast<std::int32_t>(field.box.offset[0] + field.box.extent[0]);
  const RimGrid rims = rims_of(field);
  if (!has_rims_first(rims)) return {begin, end, index, false};
  if (rims.high > 0) {
    if (index < abreast) return {end - rims.high, end, index, true};
    index -= abreast;
  }
  if (rims.low > 0) {
    if (index < abreast) return {begin, begin + rims.low, index, true};
    index -= abreast;
  }
  return {begin + rims.low, end - rims.high, index, false};
}

/// Lives as long as a kernel runs, however it ends; all threads of a block leave together.
class TellRimsAtExit {
 public:
  SPIDER_DEVICE explicit TellRimsAtExit(const SweepArguments& field) : field_(field) {}
  TellRimsAtExit(const TellRimsAtExit&) = delete;
  TellRimsAtExit& operator=(const TellRimsAtExit&) = delete;
  SPIDER_DEVICE ~TellRimsAtExit() {
    if constexpr (tells_rims) {
      const RimGrid rims = rims_of(field_);
      if (!has_rims_first(rims) || device::block_index() >= rims.blocks) return;
      device::sync_block();
      if (device::warp_index() == 0 && device::lane_index() == 0) device::count_stored(counter_of(rims));
    }
  }

 private:
  const SweepArguments& field_;
};

}  // namespace device_4
}  // namespace spider
