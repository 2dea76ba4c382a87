#include "plan/one_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "plan/bands.h"
#include "plan/core_lists.h"
#include "plan/group_taps.h"
#include "plan/list_pairs.h"
#include "plan/low_rank.h"
#include "plan/objections.h"
#include "plan/row_pairs.h"
#include "plan/weights.h"
#include "plan/windows.h"

namespace spidergen::plan {
namespace {

/// A contraction, or the reason why its grouping has none.
struct ContractionOffer {
  Contraction contraction;
  std::string objection;
};

/// Windows come last: where no scheme supports them, none supports the stencil.
std::vector<ContractionOffer> offer_contractions(const Problem& problem) {
  if (problem.engine == Engine::cuda) return {{contract_taps(problem), ""}};
  std::vector<ContractionOffer> offers;
  const auto add = [&](Grouping grouping, const std::string& objection, auto contract) {
    offers.push_back({{}, objection});
    if (objection.empty()) offers.back().contraction = contract(problem);
    offers.back().contraction.grouping = grouping;
  };
  if (problem.spec.dimensions == 2) {
    add(Grouping::bands, objection_to_bands(problem), contract_bands);
    add(Grouping::row_pairs, objection_to_row_pairs(problem), contract_row_pairs);
  }
  offers.push_back({contract_windows(problem), ""});
  return offers;
}

/// Does a scheme advance several time steps in a sweep?
template <class Taken>
constexpr bool advances_steps() {
  return requires {
    Taken::advances_steps;
  };
}

/// The time of a sweep of one step with the spec's update; without it, it takes `microseconds`.
double time_with_update(const Problem& problem, const Contraction& contraction, double microseconds) {
  const spec::StencilSpec& spec = problem.spec;
  // Fields of an update take as long as their memory traffic.
  const double further_us =
      bound_reference(spec.dimensions, {.bytes_per_point = static_cast<double>(further_bytes(spec))})
          .memory_us;
  // In 2D on tensor cores the rest of an update adds time: with one field, 10240 x 10240 f16 points took 171
  // to 187 us on an H200 for boxes of radius 1 to 3, and the estimates add up to 156 to 159. Updates of sums
  // alone wait for nothing: Sobel's magnitude took 106.1 us, its products alone 107.5. In two passes the
  // input is at hand: unsharp masks of radius 7, 15 and 20 took 122, 139 and 167.
  const bool waits = spec.update && !spec.update->is_of_sums_alone() && spec.dimensions == 2 &&
                     contraction.on_tensor_cores();
  const bool at_hand = contraction.is_low_rank() && further_us == 0;
  return (!waits ? 1 : at_hand ? 1.06 : 1.15) * (microseconds + further_us);
}

template <class Taken>
void consider(const Problem& problem, const ContractionOffer& offer, std::vector<Draft>& drafts) {
  const Contraction& contraction = offer.contraction;
  if (!contraction.is_low_rank() && advances_steps<Taken>() != (problem.op.steps > 1)) return;
  constexpr bool may_convert =
      std::is_same_v<Taken, CudaCores> || std::is_same_v<Taken, OneList> || std::is_same_v<Taken, Block2d>;
  if (spec::converts_cells(problem.spec) && !may_convert) return;
  if (!Taken::takes(problem, contraction)) return;
  const Offer<Taken> taken =
      offer.objection.empty() ? Taken::plan(problem, contraction) : Offer<Taken>::none(offer.objection);
  // Schemes of steps include the update in their estimate.
  const double microseconds = advances_steps<Taken>()
                                  ? taken.microseconds
                                  : time_with_update(problem, contraction, taken.microseconds);
  const int products = contraction.on_tensor_cores() ? contraction.chained_products()
                                                     : static_cast<int>(contraction.taps.size());
  drafts.push_back({{problem.engine, Taken::name, contraction.grouping, contraction.mapping.name,
                     offer.objection.empty() ? products : 0, microseconds, taken.measured, taken.objection},
                    problem.weights,
                    contraction,
                    taken.scheme,
                    {}});
}

template <class... Schemes>
void consider_all(const Problem& problem, const ContractionOffer& offer, std::vector<Draft>& drafts,
                  const std::variant<Schemes...>& /*all*/) {
  (consider<Schemes>(problem, offer, drafts), ...);
}

/// The drafts of one engine with these weights, the best first; if none is possible, the most general first.
std::vector<Draft> draft_with(const Problem& problem) {
  std::vector<Draft> drafts;
  for (const ContractionOffer& offer : offer_contractions(problem))
    consider_all(problem, offer, drafts, Scheme{});
  const auto is_possible = [](const Draft& draft) { return draft.is_possible(); };
  if (std::none_of(drafts.begin(), drafts.end(), is_possible))
    std::rotate(drafts.begin(), std::prev(drafts.end()), drafts.end());
  sort_drafts(drafts);
  return drafts;
}

/// The weights of one step that the lists along y and x of each sum represent.
RoundedWeights weights_of(const spec::StencilSpec& spec, const std::vector<LowRank>& low_rank) {
  RoundedWeights weights;
  weights.type = operand_type(spec.storage);
  weights.in_f32 = spec.storage == spec::Storage::f32;
  weights.in_f64 = spec.storage == spec::Storage::f64;
  std::vector<Matrix> packed;
  for (const LowRank& lists : low_rank) {
    weights.terms = std::max(weights.terms, lists.terms);
    weights.sum += lists.sum;
    weights.packed_sum += lists.packed_sum;
    packed.push_back(expand(lists));
  }
  for (const spec::Tap& tap : spec.taps) {
    const LowRank& lists = low_rank[tap.sum];
    const double value =
        packed[tap.sum].at(tap.at[spec::axis_y] - lists.y_low, tap.at[spec::axis_x] - lists.x_low);
    weights.taps.push_back({tap.at, tap.weight, {value}, value, 0, value, tap.sum});
    weights.largest_error = std::max(weights.largest_error, std::fabs(value - tap.weight));
  }
  weights.exact = weights.largest_error == 0;
  return weights;
}

/// Do all rows have the same reach, so that products of lists reach no farther than taps?
bool fills_its_box(const Problem& problem) {
  const Operator& op = problem.op;
  const std::vector<TapRow>& rows = problem.tap_rows;
  const auto is_full = [&](const TapRow& row) {
    return row.low == -op.reach_low[spec::axis_x] && row.high == op.reach_high[spec::axis_x];
  };
  return static_cast<int>(rows.size()) == op.reach_low[spec::axis_y] + op.reach_high[spec::axis_y] + 1 &&
         std::all_of(rows.begin(), rows.end(), is_full);
}

/// Why a search for lists of one step is useless; empty where it is not.
std::string objection_to_passes(const Problem& problem) {
  const auto [reach_z, reach_y, reach_x] = problem.op.reach_low;
  static_cast<void>(reach_z);
  const int reach =
      std::max({reach_y, reach_x, problem.op.reach_high[spec::axis_y], problem.op.reach_high[spec::axis_x]});
  if (problem.op.steps > 1 && problem.spec.update) return "steps of an update are not composed";
  if (reach > largest_pass_reach)
    return fmt::format("two passes reach at most {} points, not {}", largest_pass_reach, reach);
  if (problem.op.steps == 1 && !fills_its_box(problem))
    return "the taps are no product of a list along y and one along x";
  return "";
}

/// The lists of each sum, each found by `find`, or the reason why there are none.
std::pair<std::vector<LowRank>, std::string> find_lists(const Problem& problem,
                                                        LowRankOffer (*find)(const Problem&)) {
  std::pair<std::vector<LowRank>, std::string> found{{}, objection_to_passes(problem)};
  for (int sum = 0; sum < std::ssize(problem.spec.sums) && found.second.empty(); ++sum) {
    const spec::StencilSpec one = spec_of_sum(problem.spec, sum);
    if (one.taps.empty()) return {{}, "a sum has no taps"};  // reported as an error elsewhere
    const Operator op = operator_of(one, problem.op.steps);
    LowRankOffer offer = find({one, op, problem.engine, {}, {}});
    found.first.push_back(std::move(offer.low_rank));
    found.second = std::move(offer.objection);
  }
  return found;
}

/// Two passes on CUDA cores; nothing where such fields have none.
std::vector<Draft> draft_core_lists(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.dimensions != 2 || spec::is_half(spec.storage) || spec::converts_cells(spec) ||
      problem.op.steps > 1 || spec.taps.empty())
    return {};
  auto [low_rank, objection] = find_lists(problem, find_core_lists);
  ContractionOffer offer{{}, std::move(objection)};
  offer.contraction.grouping = Grouping::list_adds;
  Problem rounded = problem;
  if (offer.objection.empty()) {
    rounded.weights = weights_of(spec, low_rank);
    offer.contraction = contract_core_lists(rounded, std::move(low_rank));
  }
  std::vector<Draft> drafts;
  consider_all(rounded, offer, drafts, Scheme{});
  return drafts;
}

/// A common factor that does not fit all weights is used where it saves products: two rows that share an
/// operand may need its remainders for one of them.
std::vector<Draft> draft_engine(Problem problem) {
  const bool on_cores = problem.engine == Engine::cuda;
  problem.weights = (on_cores ? core_weights(problem.spec) : round_weights(problem.spec)).weights;
  std::vector<Draft> drafts = draft_with(problem);
  if (on_cores) {
    std::vector<Draft> passes = draft_core_lists(problem);
    std::move(passes.begin(), passes.end(), std::back_inserter(drafts));
    return drafts;
  }
  if (problem.weights.factor == 1 || problem.weights.exact) return drafts;
  WeightsResult plain = round_weights(problem.spec, CommonFactors::none);
  if (plain.diagnostics.has_errors()) return drafts;
  problem.weights = std::move(plain.weights);
  std::vector<Draft> others = draft_with(problem);
  return drafts.front().candidate.products < others.front().candidate.products ? drafts : others;
}

/// Reports that no kernel supports the stencil: `general` is the draft of the most general scheme.
void report_size(const spec::StencilSpec& spec, const Draft& general, diag::Diagnostics& diagnostics) {
  const bool could_halve = general.weights.terms > 1 && spec.storage == spec::Storage::f16;
  diagnostics.error(spec.where.coefficients, "the stencil is too large for one sweep: {}{}{}",
                    general.candidate.objection,
                    could_halve ? "; 'weights: f16' would halve the products" : "", cuda_cores_take_it);
}

}  // namespace

EngineDrafts ask_engine(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  EngineDrafts asked{problem.engine, find_objections(problem), {}};
  if (!asked.diagnostics.has_errors() && !problem.op.composed.empty()) {
    asked.drafts = draft_engine(problem);
    if (!asked.drafts.front().is_possible()) report_size(spec, asked.drafts.front(), asked.diagnostics);
  }
  if (!asked.drafts.empty() || problem.op.composed.empty()) return asked;
  Draft none;
  none.candidate.engine = problem.engine;
  none.candidate.objection = first_error(asked.diagnostics);
  asked.drafts.push_back(std::move(none));
  return asked;
}

std::vector<Draft> draft_low_rank(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.dimensions != 2 || !spec::is_half(spec.storage) || spec::converts_cells(spec) ||
      spec.taps.empty() || spec.accumulate != spec::Accumulate::f32)
    return {};
  Draft draft;
  draft.candidate.engine = Engine::dense;
  draft.candidate.scheme = Lowrank2d::name;
  draft.candidate.grouping = Grouping::low_rank;
  auto [low_rank, objection] = find_lists(problem, find_low_rank);
  draft.candidate.objection = std::move(objection);
  if (!draft.candidate.objection.empty()) return {draft};
  Problem rounded = problem;
  rounded.weights = problem.op.steps > 1 ? round_weights_to_f32(spec).weights : weights_of(spec, low_rank);
  const auto vanishes = [](const RoundedTap& tap) { return tap.packed == 0; };
  if (std::any_of(rounded.weights.taps.begin(), rounded.weights.taps.end(), vanishes)) {
    draft.candidate.objection = "a weight vanishes beside the largest";
    return {draft};
  }
  draft.contraction = contract_low_rank(rounded, std::move(low_rank));
  const Offer<Lowrank2d> layout = Lowrank2d::plan(rounded, draft.contraction);
  draft.weights = std::move(rounded.weights);
  draft.candidate.mapping = draft.contraction.mapping.name;
  draft.candidate.products = draft.contraction.chained_products();
  draft.candidate.microseconds = time_with_update(problem, draft.contraction, layout.microseconds);
  draft.candidate.objection = layout.objection;
  draft.scheme = layout.scheme;
  return {draft};
}

EngineDrafts ask_dense(const Problem& problem, bool is_asked_for) {
  EngineDrafts asked{Engine::dense, {}, draft_low_rank(problem)};
  // Errors are up to 90 times those of a single sweep: the user has to request it.
  if (!asked.drafts.empty() && asked.drafts.front().is_possible() && problem.op.steps == 1 &&
      !problem.spec.tolerance && !is_asked_for) {
    asked.drafts.front().candidate.objection =
        "its passes round sums to 16 bits between them; 'tolerance' in the spec lets them";
  }
  const bool possible = !asked.drafts.empty() && asked.drafts.front().is_possible();
  if (possible || !is_asked_for || problem.op.composed.empty()) return asked;
  const spec::StencilSpec& spec = problem.spec;
  const bool is_of_steps = problem.op.steps > 1;
  const std::string what = is_of_steps ? "so many steps" : "this stencil";
  if (asked.drafts.empty()) {
    asked.diagnostics.error(spec.dimensions != 2 ? spec.where.dimensions : spec.where.storage,
                            "'--engine dense' does not take {}: it is for 2D fields of 16 bits with "
                            "f32 sums; leave it out",
                            what);
  } else {
    asked.diagnostics.error(is_of_steps ? spec.where.steps : spec.where.coefficients,
                            "'--engine dense' does not take {}: {}; leave it out", what,
                            asked.drafts.front().candidate.objection);
  }
  return asked;
}

PlanResult plan_one_step(const spec::StencilSpec& spec, const Request& request) {
  const Operator op = operator_of(spec);
  Problem problem{spec, op, Engine::sparse, tap_rows_of(op), {}};
  std::vector<EngineDrafts> asked;
  for (const Engine engine : {Engine::sparse, Engine::cuda, Engine::dense}) {
    problem.engine = engine;
    asked.push_back(engine == Engine::dense ? ask_dense(problem, request.engine == engine)
                                            : ask_engine(problem));
  }
  return choose_plan(problem, request, std::move(asked), 0);
}

}  // namespace spidergen::plan
