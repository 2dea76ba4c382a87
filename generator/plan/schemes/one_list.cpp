#include "plan/schemes/one_list.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace spidergen::plan {
namespace {

int place_of(const CoreTap& tap, int dimensions, int axis) {
  const CoreAxes axes = core_axes(dimensions);
  if (axis == spec::axis_x) return tap.column;
  return axis == axes.step ? tap.step : tap.row;
}

/// The only axis along which taps lie; -1 where there is none.
int axis_of(int dimensions, const std::vector<CoreTap>& taps) {
  int found = -1;
  for (int axis = spec::axis_x; axis > spec::axis_x - dimensions; --axis) {
    const bool lies = std::any_of(taps.begin(), taps.end(),
                                  [&](const CoreTap& tap) { return place_of(tap, dimensions, axis) != 0; });
    if (!lies) continue;
    if (found >= 0) return -1;
    found = axis;
  }
  return found;
}

/// Shared memory of a block, as the kernel's header has it: rows with what taps reach, and a number left out
/// behind those of each lane.
int shared_bytes_of(const OneList& scheme, int taps, int number_bytes) {
  if (scheme.axis != spec::axis_x) return 0;
  const int columns = threads_per_warp * scheme.outputs + taps - 1;
  return scheme.warps_per_block * scheme.lines * (columns + columns / scheme.outputs + 1) * number_bytes;
}

/// On an H200 two sweeps of f32 over 4096 x 4096 points took 433 us with 161 taps and 1955 with 801, of f16
/// over 10240 x 10240 1847 with 137 and 3827 with 321: 1.9 to 2.7 times what the units need. Of u8 over 8192
/// x 8192, with 33 taps, 488 us.
double estimate_us(const Problem& problem, const Contraction& contraction) {
  constexpr double slower_than_copy = 2;
  constexpr double slower_than_units = 2.5;
  constexpr double exponent = 4;  // how the two overlap, as in passes2d
  const int bytes =
      spec::element_bytes(problem.spec.storage) + spec::element_bytes(spec::output_of(problem.spec));
  const SweepBound bound = bound_reference(
      problem.spec.dimensions,
      {.bytes_per_point = static_cast<double>(bytes), .core_products_per_point = core_work(contraction)});
  return std::pow(std::pow(slower_than_copy * bound.memory_us, exponent) +
                      std::pow(slower_than_units * bound.cores_us, exponent),
                  1 / exponent);
}

}  // namespace

bool OneList::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.grouping == Grouping::multiply_adds && !problem.spec.update &&
         problem.spec.sums.size() == 1 && axis_of(problem.spec.dimensions, contraction.taps) >= 0;
}

Offer<OneList> OneList::plan(const Problem& problem, const Contraction& contraction) {
  const int dimensions = problem.spec.dimensions;
  const std::vector<CoreTap>& taps = contraction.taps;
  OneList scheme;
  scheme.axis = axis_of(dimensions, taps);
  scheme.low = place_of(taps.front(), dimensions, scheme.axis);
  const auto count = static_cast<int>(taps.size());
  const auto vanishes = [](const CoreTap& tap) { return tap.weight == 0; };
  if (place_of(taps.back(), dimensions, scheme.axis) - scheme.low + 1 != count ||
      std::any_of(taps.begin(), taps.end(), vanishes))
    return Offer<OneList>::none("a weight between others is 0");
  const bool doubles = contraction.element_bytes > word_bytes;
  const int number_bytes = doubles ? contraction.element_bytes : word_bytes;
  constexpr int outputs_of_doubles = 8;
  constexpr int lines_of_doubles = 2;
  if (doubles) scheme.outputs = outputs_of_doubles;
  // Cells that are converted take registers: of u16 results with a constant face 76 bytes spilled.
  const bool converts = spec::converts_cells(problem.spec) || spec::is_half(problem.spec.storage);
  if (scheme.axis != spec::axis_x && converts) scheme.blocks_per_multiprocessor = 2;
  scheme.lines = dimensions == 1 ? 1 : doubles ? lines_of_doubles : 4;
  const int most_shared = shared_per_multiprocessor / scheme.blocks_per_multiprocessor - reserved_per_block;
  while (scheme.lines > 1 && shared_bytes_of(scheme, count, number_bytes) > most_shared) scheme.lines /= 2;
  scheme.shared_bytes = shared_bytes_of(scheme, count, number_bytes);
  if (scheme.shared_bytes > most_shared)
    return Offer<OneList>::none("shared memory has no room for its rows");
  constexpr int base_registers = 40;
  constexpr int inputs_of_turn = 8;
  const int numbers = scheme.outputs * (scheme.lines + 1) + inputs_of_turn * (scheme.lines + 1);
  scheme.estimated_registers = base_registers + numbers * number_words(contraction);
  scheme.cells_loaded = scheme.lines * (scheme.outputs + count - 1);
  return {scheme, estimate_us(problem, contraction), "", false};
}

}  // namespace spidergen::plan
