#include "plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "plan/bands.h"
#include "plan/column_reach.h"
#include "plan/cores.h"
#include "plan/diagonals.h"
#include "plan/engine_times.h"
#include "plan/error_bound.h"
#include "plan/lines.h"
#include "plan/planes.h"
#include "plan/row_pairs.h"
#include "plan/streaming.h"
#include "plan/warpgroups.h"
#include "plan/weights.h"
#include "plan/windows.h"

namespace spidergen::plan {
namespace {

constexpr int largest_core_reach = 65535;

/// `advice` is said where a tap is too far, but not so far that it would not help.
void check_reach(const spec::StencilSpec& spec, int axis, int limit, std::string_view advice,
                 diag::Diagnostics& diagnostics) {
  const auto beyond = [&](const spec::Tap& tap) { return std::abs(tap.at[axis]) > limit; };
  const auto first = std::find_if(spec.taps.begin(), spec.taps.end(), beyond);
  if (first == spec.taps.end()) return;
  const auto others = std::count_if(spec.taps.begin(), spec.taps.end(), beyond) - 1;
  const std::string more = others == 0   ? ""
                           : others == 1 ? " (as is 1 other)"
                                         : fmt::format(" (as are {} others)", others);
  const int distance = std::abs(first->at[axis]);
  const bool helps = spec.dimensions == 1 || distance <= largest_core_reach;
  diagnostics.error(first->where,
                    fmt::format("this tap is {} points away along {}{}; kernels reach at most {} there{}",
                                distance, spec::axis_letters[axis], more, limit, helps ? advice : ""));
}

std::vector<TapRow> tap_rows_of(const spec::StencilSpec& spec) {
  std::vector<TapRow> rows;
  for (const spec::Tap& tap : spec.taps) {
    const auto [dz, dy, dx] = tap.at;
    if (rows.empty() || rows.back().dz != dz || rows.back().dy != dy) rows.push_back({dz, dy, dx, dx});
    rows.back().high = dx;
  }
  return rows;
}

void set_reach(const spec::StencilSpec& spec, KernelPlan& plan) {
  for (const spec::Tap& tap : spec.taps) {
    for (int axis = 0; axis < 3; ++axis) {
      plan.reach_low[axis] = std::max(plan.reach_low[axis], -tap.at[axis]);
      plan.reach_high[axis] = std::max(plan.reach_high[axis], tap.at[axis]);
    }
  }
}

/// A window along x, or a pair of diagonals: what one product multiplies with.
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

/// Do the mappings differ at most in the rows that their columns are inputs of? Then matrices that are equal
/// make one operand.
bool differ_in_rows(const TileMapping& a, const TileMapping& b) {
  const auto same_column = [](const Position& p, const Position& q) { return p.x == q.x; };
  return a.name == b.name && a.row_output == b.row_output &&
         std::equal(a.column_input.begin(), a.column_input.end(), b.column_input.begin(),
                    b.column_input.end(), same_column);
}

/// The index of the operand with this matrix; a new one if there is none yet.
int find_or_add_operand(Operand operand, Pass& pass) {
  const TileMapping& mapping = pass.sources[operand.source].mapping;
  const auto same = std::find_if(pass.operands.begin(), pass.operands.end(), [&](const Operand& other) {
    return other.matrix == operand.matrix && differ_in_rows(pass.sources[other.source].mapping, mapping);
  });
  if (same != pass.operands.end()) return static_cast<int>(same - pass.operands.begin());
  pass.operands.push_back(std::move(operand));
  return static_cast<int>(pass.operands.size()) - 1;
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

/// Which terms of weights and inputs are multiplied: remainders by leading terms only. The leading weights
/// stand between, so that they are loaded once for both of their products.
TermPairs multiplied_terms(const RoundedWeights& weights, const InputTerms& inputs) {
  TermPairs terms;
  for (int term = 0; term < weights.terms; ++term) terms.emplace_back(term, 0);
  if (inputs.count > 1) std::reverse(terms.begin(), terms.end());
  for (int input_term = 1; input_term < inputs.count; ++input_term) terms.emplace_back(0, input_term);
  return terms;
}

/// How many products windows take: a remainder of nothing but zeros takes none.
std::size_t count_products(const std::vector<Window>& windows, const TermPairs& terms) {
  std::size_t count = 0;
  for (const Window& window : windows) {
    count += static_cast<std::size_t>(std::count_if(terms.begin(), terms.end(), [&](const auto& pair) {
      const int term = pair.first;
      return std::any_of(window.taps.begin(), window.taps.end(),
                         [&](const RoundedTap& tap) { return tap.terms[term] != 0; });
    }));
  }
  return count;
}

/// The sources of the windows along x, by shift; of whole operands the halves of a fragment, two a shift.
void set_shifts(const std::vector<Window>& windows, Pass& pass) {
  for (const Window& window : windows) pass.shifts.push_back(window.shift);
  std::sort(pass.shifts.begin(), pass.shifts.end());
  pass.shifts.erase(std::unique(pass.shifts.begin(), pass.shifts.end()), pass.shifts.end());
  for (const int shift : pass.shifts) {
    if (pass.whole_operands) {
      for (const int half : {0, 1}) pass.sources.push_back({half_of(pass.mapping, half), shift});
    } else {
      pass.sources.push_back({pass.mapping, shift});
    }
  }
}

void add_products(const Group& group, const TermPairs& terms, Pass& pass) {
  for (const auto& [term, input_term] : terms) {
    Matrix matrix = group_matrix(group, term, pass.sources[group.source].mapping);
    if (all_zero(matrix)) continue;  // a remainder, or a half, that is nowhere needed
    const Window& window = group.window;
    const int operand = find_or_add_operand(
        {window.dy, window.shift, term, std::move(matrix), window.dz, group.source}, pass);
    pass.products.push_back(
        {window.dy - pass.row_low, group.source, operand, term, window.dz - pass.plane_low, input_term});
  }
}

/// Makes a pass one of pairs of rows alone. Its rows are those of the pairs, even where no tap reaches the
/// second row of the last one.
void take_row_pair_mapping(const std::vector<RowPair>& row_pairs, Pass& pass) {
  pass.mapping = row_pair_mapping(pass.walk == Walk::rows ? LaneOutputs::quad : LaneOutputs::pairs);
  pass.shifts = {0};
  pass.sources = {{pass.mapping, 0}};
  const auto [low, high] = std::minmax_element(
      row_pairs.begin(), row_pairs.end(), [](const RowPair& a, const RowPair& b) { return a.dy < b.dy; });
  pass.row_low = low->dy;
  pass.row_high = high->dy;
}

/// Kernels of lines have sparse products of 16-bit fields, and no variants; others walk down the rows.
Walk walk_of(const spec::StencilSpec& spec, const std::vector<TapRow>& tap_rows, Engine engine,
             const Variant& variant) {
  if (spec.dimensions == 3) return Walk::planes;
  const bool one_row = tap_rows.front().dy == 0 && tap_rows.back().dy == 0;
  const bool lines =
      one_row && engine == Engine::sparse && variant == Variant{} && spec.storage != spec::Storage::f32;
  return lines ? Walk::lines : Walk::rows;
}

TileMapping mapping_of(Swap swap, LaneOutputs outputs, bool whole_operands) {
  constexpr int sparse_taps = 8;
  constexpr int dense_taps = 16;
  switch (swap) {
    case Swap::pair:
      break;
    case Swap::element:
      return element_swap_operand_mapping();
    case Swap::none:
      return straight_mapping(whole_operands ? dense_taps : sparse_taps, outputs);
  }
  return pair_swap_mapping(outputs);
}

/// A pass without products: what follows from the spec and the engine alone.
Pass empty_pass(const spec::StencilSpec& spec, const std::vector<TapRow>& tap_rows, Engine engine,
                const Variant& variant) {
  const LaneOutputs outputs = spec.storage == spec::Storage::f32 ? LaneOutputs::pairs : LaneOutputs::quad;
  Pass pass;
  pass.whole_operands = engine == Engine::dense;
  pass.inputs = input_terms(spec);
  pass.element_bytes = spec::element_bytes(spec.storage);
  pass.walk = walk_of(spec, tap_rows, engine, variant);
  pass.column_reach = column_reach_of(tap_rows);
  pass.mapping = mapping_of(variant.swap, outputs, pass.whole_operands);
  return pass;
}

/// The rows and planes of all windows, before any of them become pairs of diagonals.
void set_rows(const std::vector<Window>& windows, Pass& pass) {
  const auto [low, high] = std::minmax_element(windows.begin(), windows.end(),
                                               [](const Window& a, const Window& b) { return a.dy < b.dy; });
  pass.row_low = low->dy;
  pass.row_high = high->dy;
  pass.plane_low = windows.front().dz;
  pass.plane_high = windows.back().dz;
}

/// What products multiply with: windows and pairs of diagonals, or pairs of rows alone.
struct Groups {
  std::vector<Window> windows;
  std::vector<DiagonalPair> diagonals;
  std::vector<RowPair> row_pairs;
};

/// In 3D: whichever are fewer.
Groups groups_of_planes(const RoundedWeights& weights, std::vector<Window> windows) {
  Groups groups{std::move(windows), {}, {}};
  groups.diagonals = take_diagonal_pairs(groups.windows);
  std::vector<RowPair> row_pairs = pair_rows(weights.taps);
  const bool are_fewer = row_pairs.size() < groups.windows.size() + groups.diagonals.size();
  return row_pairs.empty() || !are_fewer ? groups : Groups{{}, {}, std::move(row_pairs)};
}

/// In 2D: pairs of rows where `variant` asks for them, and diagonals where their products would be felt.
Groups groups_of_rows(const RoundedWeights& weights, std::vector<Window> windows, const TermPairs& terms,
                      const Pass& pass, const Variant& variant) {
  if (variant.length == row_pair_length) {
    std::vector<RowPair> row_pairs = pair_rows(weights.taps);
    if (!row_pairs.empty()) return {{}, {}, std::move(row_pairs)};
  }
  Groups groups{std::move(windows), {}, {}};
  // Of f32 values one fragment more takes longer than the products that pairs save (measured on an H200).
  const bool may_pair = !pass.whole_operands && variant.swap == Swap::pair &&
                        pass.element_bytes != spec::element_bytes(spec::Storage::f32);
  if (may_pair && !hides_behind_memory(count_products(groups.windows, terms), pass.inputs))
    groups.diagonals = take_diagonal_pairs_of_rows(groups.windows);
  return groups;
}

Groups choose_groups(const RoundedWeights& weights, std::vector<Window> windows, const TermPairs& terms,
                     const Pass& pass, const Variant& variant) {
  switch (pass.walk) {
    case Walk::lines:
      break;
    case Walk::planes:
      return groups_of_planes(weights, std::move(windows));
    case Walk::rows:
      return groups_of_rows(weights, std::move(windows), terms, pass, variant);
  }
  return {std::move(windows), {}, {}};
}

void add_products(const Groups& groups, const TermPairs& terms, Pass& pass) {
  if (!groups.row_pairs.empty()) take_row_pair_mapping(groups.row_pairs, pass);
  if (!groups.windows.empty()) set_shifts(groups.windows, pass);
  for (const Window& window : groups.windows) {
    for (int source = 0; source < static_cast<int>(pass.sources.size()); ++source) {
      if (pass.sources[source].shift != window.shift) continue;
      add_products(group_of(window, source, pass.mapping), terms, pass);
    }
  }
  for (const RowPair& pair : groups.row_pairs) add_products(group_of(pair, pass.mapping), terms, pass);
  for (const DiagonalPair& pair : groups.diagonals) {
    Group group{find_or_add_source({diagonal_pair_mapping(pair.distance())}, pass.sources), pair.first, {}};
    group.taps = {&pair.first.taps.front(), &pair.second.taps.front()};
    add_products(group, terms, pass);
  }
  // The sums that complete first are stored first, while the others' products keep the tensor cores busy.
  std::stable_sort(pass.products.begin(), pass.products.end(), [&](const Product& a, const Product& b) {
    if (pass.walk == Walk::rows) return pass.last_row(a) > pass.last_row(b);
    return std::pair(pass.last_plane(a), a.row) > std::pair(pass.last_plane(b), b.row);
  });
}

/// Rows that wait in the ring: for the second of a pair of diagonals, and to be added to results.
int rows_kept_of(const Groups& groups, const RoundedWeights& weights, const Pass& pass) {
  const int for_results = weights.adds_identity ? pass.row_high : 0;
  const bool waits = pass.walk == Walk::rows && !groups.diagonals.empty();
  return waits ? std::max(for_results, groups.diagonals.front().distance().y) : for_results;
}

void choose_walk(const spec::StencilSpec& spec, const Variant& variant, Pass& pass) {
  switch (pass.walk) {
    case Walk::lines:
      pass.lines = choose_line_streaming(pass, spec.boundary[spec::axis_x]);
      return;
    case Walk::planes:
      pass.planes = choose_plane_streaming(pass);
      return;
    case Walk::rows:
      pass.streaming = choose_streaming(pass, variant);
      fit_shared_memory(pass);
  }
}

/// Of Walk::rows with windows, unless `variant` asks for pairs of rows.
Pass make_one_pass(const spec::StencilSpec& spec, const RoundedWeights& weights,
                   const std::vector<TapRow>& tap_rows, Engine engine, const Variant& variant) {
  Pass pass = empty_pass(spec, tap_rows, engine, variant);
  std::vector<Window> windows = cut_windows(weights.taps, pass.mapping);
  set_rows(windows, pass);
  const TermPairs terms = multiplied_terms(weights, pass.inputs);
  const Groups groups = choose_groups(weights, std::move(windows), terms, pass, variant);
  add_products(groups, terms, pass);
  pass.rows_kept = rows_kept_of(groups, weights, pass);
  choose_walk(spec, variant, pass);
  return pass;
}

/// The plan's own mapping, where none is asked for.
Pass make_pass(const spec::StencilSpec& spec, const RoundedWeights& weights,
               const std::vector<TapRow>& tap_rows, Engine engine, const Variant& variant) {
  if (suits_bands(spec, weights, engine, variant)) return make_band_pass(weights, tap_rows);
  Pass windows = make_one_pass(spec, weights, tap_rows, engine, variant);
  const bool has_choice = windows.walk == Walk::rows && engine == Engine::sparse && variant == Variant{} &&
                          spec.storage != spec::Storage::f32 && !pair_rows(weights.taps).empty();
  if (!has_choice) return windows;
  Pass row_pairs = make_one_pass(spec, weights, tap_rows, engine, {.length = row_pair_length});
  const MappingChoice choice{static_cast<int>(windows.products.size()),
                             static_cast<int>(row_pairs.products.size())};
  Pass& chosen = prefers_row_pairs(windows, row_pairs) ? row_pairs : windows;
  chosen.mapping_choice = choice;
  return std::move(chosen);
}

/// A pass and the weights that its operands hold.
struct WeightedPass {
  RoundedWeights weights;
  Pass pass;
};

/// A common factor that does not suit all weights is taken where it saves products: two rows that share an
/// operand may need its remainders for one of them.
WeightedPass make_weighted_pass(const spec::StencilSpec& spec, Engine engine, const Variant& variant) {
  const std::vector<TapRow> tap_rows = tap_rows_of(spec);
  const auto with = [&](const RoundedWeights& weights) {
    return WeightedPass{weights, make_pass(spec, weights, tap_rows, engine, variant)};
  };
  WeightedPass result = with(round_weights(spec).weights);
  if (result.weights.factor == 1 || result.weights.exact) return result;
  const WeightsResult plain = round_weights(spec, CommonFactors::none);
  if (plain.diagnostics.has_errors()) return result;
  WeightedPass other = with(plain.weights);
  return chained_products(result.pass) < chained_products(other.pass) ? result : other;
}

/// Reports a stencil that no kernel can hold.
void check_size(const spec::StencilSpec& spec, Engine engine, const Variant& variant,
                diag::Diagnostics& diagnostics) {
  const auto [weights, pass] = make_weighted_pass(spec, engine, variant);
  if (pass.walk == Walk::lines) return;  // any reach fits
  const std::string objection = spec.dimensions == 3 ? objection_to_volume(pass) : objection_to_size(pass);
  if (objection.empty()) return;
  const bool could_halve = weights.terms > 1 && spec.storage == spec::Storage::f16;
  diagnostics.error(
      spec.where.coefficients,
      fmt::format("the stencil is too large for one sweep: {}{}{}", objection,
                  could_halve ? "; 'weights: f16' would halve the products" : "", cuda_cores_take_it));
}

/// Reports what pairs of rows do not take.
void check_row_pairs(const spec::StencilSpec& spec, Engine engine, const Variant& variant,
                     diag::Diagnostics& diagnostics) {
  if (spec.storage == spec::Storage::f32) {
    diagnostics.error(spec.where.storage,
                      "'--length 8' is of 16-bit fields: 'storage: f16' or 'storage: bf16'");
  }
  if (engine == Engine::dense || variant != Variant{.length = row_pair_length}) {
    diagnostics.error(spec.where.dimensions,
                      "'--length 8' has sparse products and inputs of its own; leave out the other option");
  }
  const TileMapping mapping = row_pair_mapping();
  const auto is_beyond = [&](const spec::Tap& tap) {
    const int index = tap.at[spec::axis_x] - mapping.window_low;
    return index < 0 || index >= mapping.window_width;
  };
  const auto beyond = std::find_if(spec.taps.begin(), spec.taps.end(), is_beyond);
  if (beyond != spec.taps.end()) {
    diagnostics.error(beyond->where,
                      fmt::format("'--length 8' holds taps from x = {} to {}, not at {}", mapping.window_low,
                                  mapping.window_low + mapping.window_width - 1, beyond->at[spec::axis_x]));
  }
}

/// Reports a variant of a kernel that has none.
void check_variant(const spec::StencilSpec& spec, Engine engine, const Variant& variant,
                   diag::Diagnostics& diagnostics) {
  if (variant == Variant{}) return;
  if (spec.dimensions != 2 || engine == Engine::cuda) {
    diagnostics.error(spec.where.dimensions,
                      fmt::format("there are variants of 2D kernels on tensor cores only; leave out '{}'",
                                  variant_options(variant).substr(1)));
  } else if (variant.swap == Swap::element && spec.storage == spec::Storage::f32) {
    diagnostics.error(spec.where.storage,
                      "'--swap element' loads 2 bytes at once: 'storage: f16' or 'storage: bf16'");
  } else if (variant.length == row_pair_length) {
    check_row_pairs(spec, engine, variant, diagnostics);
  }
}

void check_accumulate(const spec::StencilSpec& spec, diag::Diagnostics& diagnostics) {
  if (spec.accumulate == spec::Accumulate::f32) return;
  diagnostics.error(spec.where.accumulate,
                    "only 'accumulate: f32' is generated; f16 sums lose accuracy and are no faster");
}

/// Is there a plan for sparse tensor cores for these dimensions and this storage?
bool has_sparse_plan(const spec::StencilSpec& spec) {
  if (spec.dimensions == 1) return spec.storage != spec::Storage::f32;
  return spec.dimensions == 2 || spec.storage == spec::Storage::f16;
}

/// What CUDA cores do not take. Places along y and z count 32 bits.
void check_cores(const spec::StencilSpec& spec, diag::Diagnostics& diagnostics) {
  if (spec.dimensions > 1) {
    for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis)
      check_reach(spec, axis, largest_core_reach, "", diagnostics);
  }
  if (!spec.taps.empty()) diagnostics.append(round_weights_to_f32(spec).diagnostics);
}

/// Of a message: what it says of CUDA cores at its end.
void remove_advice(std::string& text) {
  if (text.ends_with(cuda_cores_take_it)) text.resize(text.size() - cuda_cores_take_it.size());
}

diag::Diagnostics find_objections(const spec::StencilSpec& spec, Engine engine, const Variant& variant) {
  diag::Diagnostics diagnostics;
  check_variant(spec, engine, variant, diagnostics);
  check_accumulate(spec, diagnostics);
  if (engine == Engine::cuda) {
    check_cores(spec, diagnostics);
    return diagnostics;
  }
  if (engine == Engine::dense && spec.dimensions != 2) {
    diagnostics.error(spec.where.dimensions, "'--engine dense' is generated in 2D only; leave it out");
    return diagnostics;
  }
  if (!has_sparse_plan(spec)) {
    diagnostics.error(
        spec.where.storage,
        fmt::format("'--engine {}' does not take this storage in {}D yet; '--engine cuda' does, and is the "
                    "default for it",
                    engine_name(engine), spec.dimensions));
  } else if (!spec.taps.empty()) {
    if (spec.dimensions == 3) {
      for (const int axis : {spec::axis_z, spec::axis_y, spec::axis_x})
        check_reach(spec, axis, largest_volume_reach, cuda_cores_take_it, diagnostics);
    } else {
      check_reach(spec, spec::axis_y, largest_row_reach, cuda_cores_take_it, diagnostics);
      check_reach(spec, spec::axis_x, largest_column_reach, cuda_cores_take_it, diagnostics);
    }
    diagnostics.append(round_weights(spec).diagnostics);
    if (!diagnostics.has_errors()) check_size(spec, engine, variant, diagnostics);
  }
  return diagnostics;
}

}  // namespace

diag::Diagnostics check_supported(const spec::StencilSpec& spec, Engine engine, const Variant& variant) {
  diag::Diagnostics diagnostics = find_objections(spec, engine, variant);
  if (variant != Variant{}) {  // which CUDA cores do not have
    for (diag::Diagnostic& item : diagnostics.items) remove_advice(item.text);
  }
  return diagnostics;
}

std::optional<EngineFloors> compare_engines(const spec::StencilSpec& spec, double points) {
  constexpr int fast_rows = 3;
  if (spec.dimensions != 3 || spec.storage != spec::Storage::f16 || spec.taps.empty()) return std::nullopt;
  if (check_supported(spec, Engine::sparse).has_errors() || check_supported(spec, Engine::cuda).has_errors())
    return std::nullopt;
  const CorePlan cores = plan_cores(spec, round_weights_to_f32(spec).weights);
  if (!cores.ring || cores.ring->rows_per_thread < fast_rows) return std::nullopt;
  const Pass pass = make_weighted_pass(spec, Engine::sparse, {}).pass;
  const DeviceRates& rates = *find_device_rates("sm_90");
  SweepWork work{points, 2.0 * spec::element_bytes(spec.storage), static_cast<double>(pass.products.size())};
  EngineFloors floors{static_cast<int>(pass.products.size()), bound_sweep(rates, work), {}};
  work.mmas_per_128_points = 0;
  work.core_products_per_point = static_cast<double>(cores.taps.size());
  floors.cores = bound_sweep(rates, work);
  return floors;
}

std::optional<EngineTimes> estimate_engines(const spec::StencilSpec& spec, const Variant& variant,
                                            const std::vector<std::string>& architectures) {
  if (spec.dimensions != 2 || spec.storage != spec::Storage::f32 || variant != Variant{} || spec.taps.empty())
    return std::nullopt;
  for (const Engine engine : {Engine::sparse, Engine::cuda}) {
    if (check_supported(spec, engine).has_errors()) return std::nullopt;
  }
  KernelPlan sparse = make_plan(spec, Engine::sparse);
  fit_to_architectures(architectures, spec, sparse);
  return estimate_times(sparse, make_plan(spec, Engine::cuda));
}

std::optional<SoleEngine> find_sole_engine(const spec::StencilSpec& spec) {
  if (!has_sparse_plan(spec) || spec.taps.empty()) return std::nullopt;
  const diag::Diagnostics of_sparse = check_supported(spec, Engine::sparse);
  const diag::Diagnostics of_cuda = check_supported(spec, Engine::cuda);
  if (of_sparse.has_errors() == of_cuda.has_errors()) return std::nullopt;
  const auto& items = (of_sparse.has_errors() ? of_sparse : of_cuda).items;
  const auto error = std::find_if(items.begin(), items.end(), [](const diag::Diagnostic& item) {
    return item.severity == diag::Severity::error;
  });
  SoleEngine sole{of_sparse.has_errors() ? Engine::cuda : Engine::sparse, error->text};
  remove_advice(sole.objection);
  return sole;
}

Engine default_engine(const spec::StencilSpec& spec, const Variant& variant,
                      const std::optional<EngineTimes>& times) {
  if (times) return times->faster();
  if (!has_sparse_plan(spec)) return Engine::cuda;
  if (variant != Variant{}) return Engine::sparse;
  if (const std::optional<SoleEngine> sole = find_sole_engine(spec)) return sole->engine;
  const std::optional<EngineFloors> floors = compare_engines(spec, 1);
  return floors && floors->cores_are_faster() ? Engine::cuda : Engine::sparse;
}

KernelPlan make_plan(const spec::StencilSpec& spec, Engine engine, const Variant& variant) {
  KernelPlan plan;
  const bool on_cores = engine == Engine::cuda;
  plan.engine = engine;
  plan.variant = variant;
  plan.dimensions = spec.dimensions;
  plan.tap_rows = tap_rows_of(spec);
  set_reach(spec, plan);
  if (on_cores) {
    plan.weights = round_weights_to_f32(spec).weights;
    plan.cores = plan_cores(spec, plan.weights);
  } else {
    WeightedPass chosen = make_weighted_pass(spec, engine, variant);
    plan.weights = std::move(chosen.weights);
    plan.passes.push_back(std::move(chosen.pass));
  }
  plan.error_bound = bound_error(spec, plan);
  return plan;
}

}  // namespace spidergen::plan
