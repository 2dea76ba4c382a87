#include "plan/schemes/cores2d.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "plan/stepping.h"

namespace spidergen::plan {
namespace {

// Most multiply-adds of a tile, all of them unrolled: more overflow the instruction cache of a multiprocessor
// whose warps are at different places of the code (measured on an H200). Then registers in addition to sums
// and inputs, and the most lanes without outputs at the ends of a warp.
constexpr int most_products = 1700;
// For f64 more spill: a box of radius 3 took 638 us with 12 rows and 723 with 16.
constexpr int most_products_of_doubles = 1300;
constexpr int base_registers = 4;
constexpr int usual_registers = 104;
constexpr int most_registers = 144;
constexpr int conversion_registers = 32;  // for 16-bit cells
// Sums of shared rows begin late: with 96 registers and no spills, sobel2d took 126 us instead of 132.
constexpr int shared_row_registers = 32;
constexpr int register_unit = 8;
constexpr int most_warps = 20;  // of a multiprocessor: more are no faster
// The same where an update prefetches rows of fields; with constant faces more registers are needed.
constexpr int most_warps_of_fields = 16;
constexpr int most_warps_of_fields_and_constants = 12;
// With more, multiply-adds take longer than memory, and idle lanes cost time. Walks of f64 are slower.
constexpr int most_taps = 40;
constexpr int most_taps_of_doubles = 81;
constexpr int fewest_rows = 8;
constexpr int most_rows = 16;
constexpr int most_input_rows = 32;
constexpr int most_idle_lanes = 4;

int registers_of(const Contraction& contraction, int rows, int steps_in_flight) {
  constexpr int vector_words = vector_bytes / word_bytes;
  const int outputs = vector_bytes / contraction.element_bytes;
  const int numbers = sums_in_flight(contraction.taps) * outputs + outputs +
                      range_of(contraction.taps, &CoreTap::column).count() - 1;
  return base_registers + (rows + steps_in_flight - 1) * vector_words + numbers * number_words(contraction);
}

/// The smallest tile whose own rows are three quarters of its input rows: many are resident, and few rows are
/// read again. With a far reach there is none; then the largest that leaves registers for other warps. Where
/// an update reads fields, `many_warps` are faster than large tiles.
int choose_rows(const Contraction& contraction, int steps_in_flight, bool many_warps) {
  const int outputs = vector_bytes / contraction.element_bytes;
  const auto taps = static_cast<int>(contraction.taps.size());
  const int most = contraction.element_bytes > word_bytes ? most_products_of_doubles : most_products;
  const auto fits = [&](int rows, int registers) {
    return rows + steps_in_flight - 1 <= most_input_rows && rows * taps * outputs <= most &&
           registers_of(contraction, rows, steps_in_flight) <= registers;
  };
  if (many_warps) return fits(fewest_rows, most_registers) ? fewest_rows : 0;
  for (int rows = fewest_rows; rows <= most_rows; rows += 4) {
    if (3 * (rows + steps_in_flight - 1) <= 4 * rows && fits(rows, usual_registers)) return rows;
  }
  for (int rows = most_rows; rows >= fewest_rows; rows -= 4) {
    if (fits(rows, most_registers)) return rows;
  }
  return 0;
}

constexpr int for_constants = 48;

/// Registers for locating ghost cells while loaded rows wait in registers, so that none spill.
int registers_at_faces(const spec::StencilSpec& spec) {
  constexpr int for_maps = 24;
  int most = 0;
  for (const spec::AxisBoundary& axis : spec.boundary) {
    for (const spec::Face& face : {axis.low, axis.high}) {
      const bool has_constants = face.rule == spec::BoundaryRule::constant ||
                                 face.rule == spec::BoundaryRule::antisymmetric;  // zeros, and signs
      if (has_constants) return for_constants;
      if (face.rule != spec::BoundaryRule::halo) most = for_maps;
    }
  }
  return most;
}

/// The most warps of a multiprocessor.
int most_warps_of(const spec::StencilSpec& spec) {
  if (work_of_update(spec).fields == 0) return most_warps;
  return registers_at_faces(spec) == for_constants ? most_warps_of_fields_and_constants
                                                   : most_warps_of_fields;
}

/// The tap rows of sum `sum`, where each is a multiple of the first, as in Sobel's operators: the row is then
/// summed once for each input row. None for other sums.
std::vector<SharedRow> find_shared_rows(const Contraction& contraction, int sum) {
  std::map<int, std::vector<CoreTap>> rows;  // by step
  for (const CoreTap& tap : contraction.taps) {
    if (tap.sum == sum) rows[tap.step].push_back(tap);
  }
  const std::vector<CoreTap>& first = rows.begin()->second;
  if (rows.size() < 2 || first.size() < 2) return {};
  std::vector<SharedRow> shared;
  for (const auto& [step, taps] : rows) {
    const double weight = static_cast<float>(taps.front().weight / first.front().weight);
    const bool is_multiple =
        std::equal(taps.begin(), taps.end(), first.begin(), first.end(),
                   [&](const CoreTap& tap, const CoreTap& of_first) {
                     return tap.column == of_first.column && tap.weight == weight * of_first.weight;
                   });
    if (!is_multiple) return {};
    shared.push_back({sum, step, weight});
  }
  return shared;
}

}  // namespace

bool Cores2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.grouping == Grouping::multiply_adds && problem.spec.dimensions == 2;
}

Offer<Cores2d> Cores2d::plan(const Problem& problem, const Contraction& contraction) {
  const int most = contraction.element_bytes > word_bytes ? most_taps_of_doubles : most_taps;
  if (static_cast<int>(contraction.taps.size()) > most)
    return Offer<Cores2d>::none(
        fmt::format("{} taps; tiles are for {} at most", contraction.taps.size(), most));
  Cores2d tile;
  tile.outputs = vector_bytes / contraction.element_bytes;
  const TapRange columns = range_of(contraction.taps, &CoreTap::column);
  const int steps_in_flight = range_of(contraction.taps, &CoreTap::step).count();
  tile.left_lanes = divide_up(std::max(0, -columns.low), tile.outputs);
  tile.right_lanes = divide_up(std::max(0, columns.high), tile.outputs);
  const bool many_warps = contraction.element_bytes <= word_bytes && work_of_update(problem.spec).fields > 0;
  if (tile.left_lanes + tile.right_lanes <= most_idle_lanes)
    tile.tile_rows = choose_rows(contraction, steps_in_flight, many_warps);
  if (tile.tile_rows == 0) return Offer<Cores2d>::none("sums and inputs of a tile find no room in registers");
  tile.estimated_registers =
      registers_of(contraction, tile.tile_rows, steps_in_flight) + registers_at_faces(problem.spec);
  // A single sum is always added in the same order, and so has the same bits.
  for (int sum = 0; problem.spec.sums.size() > 1 && sum < std::ssize(problem.spec.sums); ++sum) {
    const std::vector<SharedRow> rows = find_shared_rows(contraction, sum);
    tile.shared_rows.insert(tile.shared_rows.end(), rows.begin(), rows.end());
  }
  if (!tile.shared_rows.empty()) {
    tile.estimated_registers -= shared_row_registers;
    // The next tile takes its place immediately: sobel2d took 111.4 us instead of 112.8.
    if (contraction.element_bytes < word_bytes) tile.warps_per_block = 1;
  } else if (contraction.element_bytes < word_bytes) {
    tile.estimated_registers += conversion_registers;
  }
  const int registers = round_up(tile.estimated_registers, register_unit);
  tile.blocks_per_multiprocessor =
      std::min(most_warps_of(problem.spec) / tile.warps_per_block,
               registers_per_multiprocessor / (registers * threads_per_warp * tile.warps_per_block));
  tile.tile_input_rows = tile.tile_rows + steps_in_flight - 1;
  tile.cells_loaded = tile.outputs * tile.tile_input_rows;
  return {tile, core_tile_us(contraction), "", contraction.element_bytes >= word_bytes};
}

}  // namespace spidergen::plan
