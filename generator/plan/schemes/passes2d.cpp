#include "plan/schemes/passes2d.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

namespace spidergen::plan {
namespace {

constexpr int most_warps = 16;  // of a multiprocessor: more were no faster

/// As the kernel's header lays out a ring of rows.
int shared_bytes_of(const Contraction& contraction, const Passes2d& scheme) {
  const int line_cells = line_bytes / contraction.element_bytes;
  const int vector_cells = vector_bytes / contraction.element_bytes;
  const int before = (line_cells + scheme.first_column % line_cells) % line_cells;
  const int columns = scheme.warps_per_block * threads_per_warp * scheme.outputs - scheme.first_column +
                      contraction.low_rank.front().x_high();
  const int row_bytes =
      round_up((before + round_up(columns, vector_cells)) * contraction.element_bytes, line_bytes);
  return scheme.ring_groups * scheme.group_rows * row_bytes;
}

/// Of an output what waits: its sums in all rows under way, from where their lists begin on, and pairs; of
/// several sums all but one that are complete, too.
int sums_and_pairs(const Contraction& contraction) {
  int count = -1;
  for (const LowRank& lists : contraction.low_rank) {
    std::size_t first = lists.pairs.front().y.front().size();
    for (const ListPair& pair : lists.pairs) {
      const std::vector<double>& y = pair.y.front();
      const auto begin = std::find_if(y.begin(), y.end(), [](double weight) { return weight != 0; });
      first = std::min(first, static_cast<std::size_t>(begin - y.begin()));
    }
    count += static_cast<int>(lists.pairs.front().y.front().size() - first + lists.pairs.size());
  }
  return count;
}

/// The layout for so many outputs of a lane; nothing where registers do not hold it. A lane has its sums of
/// all output rows under way, the inputs around its outputs, and what passes between the lists. Beside these
/// nvcc 13 took some 40 registers for sm_90.
std::optional<Passes2d> fit(const Problem& problem, const Contraction& contraction, int outputs) {
  constexpr int base_registers = 40;
  constexpr int unit = 8;
  const LowRank& lists = contraction.low_rank.front();  // all reach as far
  Passes2d scheme;
  scheme.outputs = outputs;
  scheme.first_column = floor_divide(lists.x_low, vector_bytes / contraction.element_bytes) *
                        (vector_bytes / contraction.element_bytes);
  scheme.cells_loaded =
      round_up(outputs + lists.x_high() - floor_divide(lists.x_low, outputs) * outputs, outputs);
  const int numbers = sums_and_pairs(contraction) * outputs + scheme.cells_loaded;
  scheme.estimated_registers =
      base_registers + update_registers(problem.spec) + numbers * number_words(contraction);
  if (scheme.estimated_registers > largest_register_count) return std::nullopt;
  scheme.shared_bytes = shared_bytes_of(contraction, scheme);
  const int threads = scheme.warps_per_block * threads_per_warp;
  scheme.blocks_per_multiprocessor =
      std::min({most_warps / scheme.warps_per_block,
                registers_per_multiprocessor / (threads * round_up(scheme.estimated_registers, unit)),
                shared_per_multiprocessor / (scheme.shared_bytes + reserved_per_block)});
  return scheme;
}

/// Over 10240 x 10240 points on an H200, multiply-adds a point and outputs of a lane: f32 (14, 4) 232, (30,
/// 4) 246, (66, 4) 303, (82, 4) 413, (98, 2) 571; f64 (14, 2) 453, (30, 2) 481, (66, 2) 884. Of two sums (44,
/// 4) 256, (92, 2) 799.
double estimate_us(const Contraction& contraction, const Passes2d& scheme) {
  constexpr double memory_us = 230;
  constexpr double us_per_product = 4.2;
  constexpr double exponent = 4;  // how the two overlap
  // Of half a vector, or of a vector of doubles, inputs are loaded more often.
  constexpr double half_a_vector = 1.38;
  constexpr double doubles = 1.55;
  constexpr double several_sums = 1.3;
  const bool whole = scheme.outputs * contraction.element_bytes == vector_bytes;
  const double loads = (whole ? 1 : half_a_vector) * (contraction.element_bytes > word_bytes ? doubles : 1);
  const double memory = memory_us * contraction.element_bytes / word_bytes;
  const double compute =
      us_per_product * core_work(contraction) * loads * (contraction.low_rank.size() > 1 ? several_sums : 1);
  return std::pow(std::pow(memory, exponent) + std::pow(compute, exponent), 1 / exponent);
}

}  // namespace

bool Passes2d::takes(const Problem& problem, const Contraction& contraction) {
  return contraction.is_list_adds() && problem.spec.dimensions == 2;
}

Offer<Passes2d> Passes2d::plan(const Problem& problem, const Contraction& contraction) {
  const int vector = vector_bytes / contraction.element_bytes;
  for (const int outputs : {vector, vector / 2}) {
    const std::optional<Passes2d> scheme = fit(problem, contraction, outputs);
    if (scheme) return {*scheme, estimate_us(contraction, *scheme), ""};
  }
  return Offer<Passes2d>::none("sums and inputs of two passes find no room in registers");
}

}  // namespace spidergen::plan
