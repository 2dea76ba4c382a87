#include "plan/group_taps.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "plan/diagonals.h"
#include "plan/row_pairs.h"
#include "plan/weights.h"
#include "plan/windows.h"

namespace spidergen::plan {
namespace {

/// The taps of one product: a window along x, or a pair of diagonals.
struct Group {
  int source = 0;
  Window window;                        ///< its own tap row
  std::vector<const RoundedTap*> taps;  ///< by window row and dx of the mapping; null where there is none
};

Group group_of(const Window& window, int source, const TileMapping& mapping) {
  Group group{source, window, std::vector<const RoundedTap*>(mapping.window_width)};
  for (const RoundedTap& tap : window.taps)
    group.taps[tap.at[spec::axis_x] - window.shift - mapping.window_low] = &tap;
  return group;
}

Group group_of(const RowPair& pair, const TileMapping& mapping) {
  Group group{0, {pair.dy, 0, pair.taps, pair.dz}, {}};
  group.taps.resize(mapping.window_rows.size() * mapping.window_width);
  const int first_row = mapping.window_rows.front().y;
  for (const RoundedTap& tap : pair.taps) {
    const int row = tap.at[spec::axis_y] - pair.dy - first_row;
    group.taps[row * mapping.window_width + tap.at[spec::axis_x] - mapping.window_low] = &tap;
  }
  return group;
}

Matrix group_matrix(const Group& group, int term, const TileMapping& mapping) {
  std::vector<double> weights(group.taps.size(), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (group.taps[i] != nullptr) weights[i] = group.taps[i]->terms[term];
  }
  return kernel_matrix(mapping, weights);
}

/// Do the mappings differ at most in the rows of their input columns? Then equal matrices make one operand.
bool differ_in_rows(const TileMapping& a, const TileMapping& b) {
  const auto same_column = [](const Position& p, const Position& q) { return p.x == q.x; };
  return a.name == b.name && a.row_output == b.row_output &&
         std::equal(a.column_input.begin(), a.column_input.end(), b.column_input.begin(),
                    b.column_input.end(), same_column);
}

/// The index of the operand with this matrix; a new one if there is none yet.
int find_or_add_operand(Operand operand, Contraction& contraction) {
  const TileMapping& mapping = contraction.sources[operand.source].mapping;
  const auto same =
      std::find_if(contraction.operands.begin(), contraction.operands.end(), [&](const Operand& other) {
        return other.matrix == operand.matrix &&
               differ_in_rows(contraction.sources[other.source].mapping, mapping);
      });
  if (same != contraction.operands.end()) return static_cast<int>(same - contraction.operands.begin());
  contraction.operands.push_back(std::move(operand));
  return static_cast<int>(contraction.operands.size()) - 1;
}

bool all_zero(const Matrix& matrix) {
  return std::all_of(matrix.values.begin(), matrix.values.end(), [](double value) { return value == 0; });
}

int find_or_add_source(const Source& source, std::vector<Source>& sources) {
  const auto same = std::find(sources.begin(), sources.end(), source);
  if (same != sources.end()) return static_cast<int>(same - sources.begin());
  sources.push_back(source);
  return static_cast<int>(sources.size()) - 1;
}

using TermPairs = std::vector<std::pair<int, int>>;

/// The terms of weights and inputs that are multiplied: remainders only by leading terms. The leading weights
/// are in the middle, so that they are loaded once for both products.
TermPairs multiplied_terms(const RoundedWeights& weights, const InputTerms& inputs) {
  TermPairs terms;
  for (int term = 0; term < weights.terms; ++term) terms.emplace_back(term, 0);
  if (inputs.count > 1) std::reverse(terms.begin(), terms.end());
  for (int input_term = 1; input_term < inputs.count; ++input_term) terms.emplace_back(0, input_term);
  return terms;
}

/// The number of products of the windows: a remainder of zeros takes none.
int count_products(const std::vector<Window>& windows, const TermPairs& terms) {
  std::ptrdiff_t count = 0;
  for (const Window& window : windows) {
    count += std::count_if(terms.begin(), terms.end(), [&](const auto& pair) {
      const int term = pair.first;
      return std::any_of(window.taps.begin(), window.taps.end(),
                         [&](const RoundedTap& tap) { return tap.terms[term] != 0; });
    });
  }
  return static_cast<int>(count);
}

/// The sources of the windows along x, by shift.
void set_shifts(const std::vector<Window>& windows, Contraction& contraction) {
  for (const Window& window : windows) contraction.shifts.push_back(window.shift);
  std::sort(contraction.shifts.begin(), contraction.shifts.end());
  contraction.shifts.erase(std::unique(contraction.shifts.begin(), contraction.shifts.end()),
                           contraction.shifts.end());
  for (const int shift : contraction.shifts) {
    contraction.sources.push_back({contraction.mapping, shift});
  }
}

void add_products(const Group& group, const TermPairs& terms, Contraction& contraction) {
  for (const auto& [term, input_term] : terms) {
    Matrix matrix = group_matrix(group, term, contraction.sources[group.source].mapping);
    if (all_zero(matrix)) continue;  // remainder of exact weights
    const Window& window = group.window;
    const int operand = find_or_add_operand(
        {window.dy, window.shift, term, std::move(matrix), window.dz, group.source}, contraction);
    contraction.products.push_back({window.dy - contraction.row_low, group.source, operand, term,
                                    window.dz - contraction.plane_low, input_term, window.sum()});
  }
}

/// Makes a contraction of pairs of rows alone. Its rows are those of the pairs, even where no tap reaches the
/// second row of the last pair.
void take_row_pair_mapping(const std::vector<RowPair>& row_pairs, int dimensions, Contraction& contraction) {
  contraction.grouping = Grouping::row_pairs;
  contraction.mapping = row_pair_mapping(dimensions == 2 ? LaneOutputs::quad : LaneOutputs::pairs);
  contraction.shifts = {0};
  contraction.sources = {{contraction.mapping, 0}};
  const auto [low, high] = std::minmax_element(
      row_pairs.begin(), row_pairs.end(), [](const RowPair& a, const RowPair& b) { return a.dy < b.dy; });
  contraction.row_low = low->dy;
  contraction.row_high = high->dy;
}

/// A contraction without products: only what the spec and the engine determine.
Contraction empty_contraction(const Problem& problem) {
  const LaneOutputs outputs =
      problem.spec.storage == spec::Storage::f32 ? LaneOutputs::pairs : LaneOutputs::quad;
  Contraction contraction;
  contraction.inputs = input_terms(problem.spec);
  contraction.element_bytes = spec::element_bytes(problem.spec.storage);
  contraction.column_reach = column_reach_of(problem.tap_rows);
  contraction.mapping = pair_swap_mapping(outputs);
  return contraction;
}

/// Sets the rows and planes of all windows, before any of them become pairs of diagonals.
void set_rows(const std::vector<Window>& windows, Contraction& contraction) {
  const auto [low, high] = std::minmax_element(windows.begin(), windows.end(),
                                               [](const Window& a, const Window& b) { return a.dy < b.dy; });
  contraction.row_low = low->dy;
  contraction.row_high = high->dy;
  contraction.plane_low = windows.front().dz;
  contraction.plane_high = windows.back().dz;
}

/// The groups of taps: windows and pairs of diagonals, or pairs of rows alone.
struct Groups {
  std::vector<Window> windows;
  std::vector<DiagonalPair> diagonals;
  std::vector<RowPair> row_pairs;
};

/// In 3D: windows or pairs of rows, whichever are fewer.
Groups groups_of_planes(const RoundedWeights& weights, std::vector<Window> windows) {
  Groups groups{std::move(windows), {}, {}};
  groups.diagonals = take_diagonal_pairs(groups.windows);
  std::vector<RowPair> row_pairs = pair_rows(weights.taps);
  const bool are_fewer = row_pairs.size() < groups.windows.size() + groups.diagonals.size();
  return row_pairs.empty() || !are_fewer ? groups : Groups{{}, {}, std::move(row_pairs)};
}

/// In 2D: pairs diagonals where their products would limit the speed. For f32 one more fragment takes longer
/// than the products that pairs save (measured on an H200).
Groups groups_of_rows(std::vector<Window> windows, const TermPairs& terms, const Contraction& contraction) {
  Groups groups{std::move(windows), {}, {}};
  if (contraction.element_bytes == 2 &&
      !hides_behind_memory(count_products(groups.windows, terms), contraction.inputs))
    groups.diagonals = take_diagonal_pairs_of_rows(groups.windows);
  return groups;
}

void add_products(const Groups& groups, const TermPairs& terms, int dimensions, Contraction& contraction) {
  if (!groups.row_pairs.empty()) take_row_pair_mapping(groups.row_pairs, dimensions, contraction);
  if (!groups.windows.empty()) set_shifts(groups.windows, contraction);
  for (const Window& window : groups.windows) {
    for (int source = 0; source < static_cast<int>(contraction.sources.size()); ++source) {
      if (contraction.sources[source].shift != window.shift) continue;
      add_products(group_of(window, source, contraction.mapping), terms, contraction);
    }
  }
  for (const RowPair& pair : groups.row_pairs)
    add_products(group_of(pair, contraction.mapping), terms, contraction);
  for (const DiagonalPair& pair : groups.diagonals) {
    Group group{
        find_or_add_source({diagonal_pair_mapping(pair.distance())}, contraction.sources), pair.first, {}};
    group.taps = {&pair.first.taps.front(), &pair.second.taps.front()};
    add_products(group, terms, contraction);
  }
  // Sums that complete first are stored first, while products of the others keep the tensor cores busy.
  std::stable_sort(
      contraction.products.begin(), contraction.products.end(), [&](const Product& a, const Product& b) {
        if (dimensions < 3) return contraction.last_row(a) > contraction.last_row(b);
        return std::pair(contraction.last_plane(a), a.row) > std::pair(contraction.last_plane(b), b.row);
      });
}

std::vector<Window> start(const Problem& problem, Contraction& contraction) {
  contraction = empty_contraction(problem);
  std::vector<Window> windows = cut_windows(problem.weights.taps, contraction.mapping);
  set_rows(windows, contraction);
  return windows;
}

}  // namespace

Contraction contract_windows(const Problem& problem) {
  Contraction contraction;
  std::vector<Window> windows = start(problem, contraction);
  const TermPairs terms = multiplied_terms(problem.weights, contraction.inputs);
  const Groups groups = problem.spec.dimensions == 3 ? groups_of_planes(problem.weights, std::move(windows))
                                                     : groups_of_rows(std::move(windows), terms, contraction);
  add_products(groups, terms, problem.spec.dimensions, contraction);
  return contraction;
}

Contraction contract_row_pairs(const Problem& problem) {
  Contraction contraction;
  start(problem, contraction);
  add_products({{}, {}, pair_rows(problem.weights.taps)},
               multiplied_terms(problem.weights, contraction.inputs), problem.spec.dimensions, contraction);
  return contraction;
}

std::string objection_to_row_pairs(const Problem& problem) {
  if (problem.engine != Engine::sparse || problem.spec.storage == spec::Storage::f32)
    return "pairs of rows are for sparse products of 16-bit fields";
  return pair_rows(problem.weights.taps).empty() ? "pairs of rows are for taps from dx = -4 to 3" : "";
}

}  // namespace spidergen::plan
