#include "plan/make_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "plan/bands.h"
#include "plan/compose.h"
#include "plan/core_lists.h"
#include "plan/error_bound.h"
#include "plan/group_taps.h"
#include "plan/list_pairs.h"
#include "plan/low_rank.h"
#include "plan/row_pairs.h"
#include "plan/stepping.h"
#include "plan/weights.h"
#include "plan/windows.h"

namespace spidergen::plan {
namespace {

constexpr int largest_core_reach = 65535;

/// `advice` is said where a tap is too far, but not so far that it would not help.
void check_reach(const Problem& problem, int axis, int limit, std::string_view advice,
                 diag::Diagnostics& diagnostics) {
  const std::vector<spec::Tap>& taps = problem.op.composed;
  const auto beyond = [&](const spec::Tap& tap) { return std::abs(tap.at[axis]) > limit; };
  const auto first = std::find_if(taps.begin(), taps.end(), beyond);
  if (first == taps.end()) return;
  const auto others = std::count_if(taps.begin(), taps.end(), beyond) - 1;
  const std::string more = others == 0   ? ""
                           : others == 1 ? " (as is 1 other)"
                                         : fmt::format(" (as are {} others)", others);
  const int distance = std::abs(first->at[axis]);
  const bool helps = problem.spec.dimensions == 1 || distance <= largest_core_reach;
  diagnostics.error(
      first->where,
      fmt::format("this tap is {} points away along {}{}; kernels reach at most {} there{}", distance,
                  spec::axis_letters[axis], more, helps ? limit : largest_core_reach, helps ? advice : ""));
}

void check_accumulate(const spec::StencilSpec& spec, int steps, diag::Diagnostics& diagnostics) {
  if (spec.accumulate != spec::Accumulate::f16) return;
  if (steps > 1) {
    diagnostics.error(spec.where.accumulate,
                      "'accumulate: f16' does not go with 'steps', whose values between steps are f32; write "
                      "'accumulate: f32' or remove it");
    return;
  }
  diagnostics.error(spec.where.accumulate,
                    "only 'accumulate: f32' is generated; f16 sums lose accuracy and are no faster");
}

/// Is there a plan for sparse tensor cores for these dimensions and this storage?
bool has_sparse_plan(const spec::StencilSpec& spec) {
  if (spec.dimensions == 1) return spec::is_half(spec.storage);
  return spec.storage == spec::Storage::f16 || (spec.dimensions == 2 && spec.storage != spec::Storage::f64);
}

/// What CUDA cores do not take. Places along y and z count 32 bits.
void check_cores(const Problem& problem, diag::Diagnostics& diagnostics) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.dimensions > 1) {
    for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis)
      check_reach(problem, axis, largest_core_reach, "", diagnostics);
  }
  if (!problem.op.composed.empty()) diagnostics.append(core_weights(spec).diagnostics);
}

/// Of a message: what it says of CUDA cores at its end.
void remove_advice(std::string& text) {
  if (text.ends_with(cuda_cores_take_it)) text.resize(text.size() - cuda_cores_take_it.size());
}

/// Is there an `antisymmetric` face that is no constant 0 to steps that are taken one by one in 3D?
bool negates_far(const spec::StencilSpec& spec) {
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    const auto& [low, high] = spec.boundary[axis];
    const bool negates =
        low.rule == spec::BoundaryRule::antisymmetric || high.rule == spec::BoundaryRule::antisymmetric;
    if (negates && (spec.dimensions < 3 || radius_of(spec, axis) > 1)) return true;
  }
  return false;
}

/// What steps above 1 do not take where they are stepped one by one.
void check_steps(const Problem& problem, diag::Diagnostics& diagnostics) {
  const spec::StencilSpec& spec = problem.spec;
  const int steps = problem.op.steps;
  const auto refuse = [&](const std::string& reason) { diagnostics.error(spec.where.steps, reason); };
  const int largest = largest_stepping_reach_of(spec.dimensions);
  const bool is_far = radius_of(spec, spec::axis_z) > largest || radius_of(spec, spec::axis_y) > largest ||
                      radius_of(spec, spec::axis_x) > largest;
  bool refused = false;
  const auto refuse_if = [&](bool is_so, const std::string& reason) {
    if (is_so) refuse(reason);
    refused = refused || is_so;
  };
  refuse_if(is_far, fmt::format("steps above 1 are generated for taps that reach up to {} in {}D; write "
                                "'steps: 1' or remove it",
                                largest, spec.dimensions));
  refuse_if(
      negates_far(spec),
      "steps above 1 take 'antisymmetric' faces only where they are composed into one stencil, and in 3D "
      "where taps reach one cell along the axis; write 'steps: 1' or remove it");
  if (refused) return;
  if (!spec.taps.empty() && !estimate_stepping(spec, steps)) {
    const int most = most_stepping(spec);
    refuse(most > 1
               ? fmt::format("{} steps of this stencil find no room in registers and shared memory; at most "
                             "{} do",
                             steps, most)
               : std::string("steps above 1 of this stencil find no room in registers and shared memory; "
                             "write 'steps: 1' or remove it, and spider_iterate, of an update "
                             "spider_run_steps, takes the steps one by one"));
  }
}

/// What an engine does not take, whatever the scheme.
diag::Diagnostics find_objections(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  const Engine engine = problem.engine;
  diag::Diagnostics diagnostics;
  check_accumulate(spec, problem.op.steps, diagnostics);
  if (problem.op.steps > 1) check_steps(problem, diagnostics);
  if (engine == Engine::cuda) {
    check_cores(problem, diagnostics);
    return diagnostics;
  }
  if (!has_sparse_plan(spec)) {
    diagnostics.error(
        spec.where.storage,
        fmt::format("'--engine {}' does not take this storage in {}D yet; '--engine cuda' does, and is the "
                    "default for it",
                    engine_name(engine), spec.dimensions));
  } else if (!problem.op.composed.empty()) {
    if (spec.dimensions == 3) {
      for (const int axis : {spec::axis_z, spec::axis_y, spec::axis_x})
        check_reach(problem, axis, largest_volume_reach, cuda_cores_take_it, diagnostics);
    } else {
      check_reach(problem, spec::axis_y, largest_row_reach, cuda_cores_take_it, diagnostics);
      check_reach(problem, spec::axis_x, largest_column_reach, cuda_cores_take_it, diagnostics);
    }
    diagnostics.append(round_weights(spec).diagnostics);
  }
  return diagnostics;
}

/// A contraction, or why there is none of its grouping.
struct ContractionOffer {
  Contraction contraction;
  std::string objection;
};

/// The one of windows comes last: where no scheme holds it, none holds the stencil.
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

/// A candidate and what its plan would be.
struct Draft {
  Candidate candidate;
  RoundedWeights weights;
  Contraction contraction;
  Scheme scheme;
  std::optional<Composition> composition;

  [[nodiscard]] bool is_possible() const { return candidate.objection.empty(); }
};

/// Is a scheme for sweeps of more than one time step?
template <class Taken>
constexpr bool advances_steps() {
  return requires {
    Taken::advances_steps;
  };
}

/// How long a sweep of one step takes with the spec's update, that without one takes `microseconds`.
double time_with_update(const Problem& problem, const Contraction& contraction, double microseconds) {
  const spec::StencilSpec& spec = problem.spec;
  // What an update reads beside the input takes as long as memory does.
  const double further_us =
      bound_reference(spec.dimensions, {.bytes_per_point = static_cast<double>(further_bytes(spec))})
          .memory_us;
  // In 2D the rest of an update takes time of its own on tensor cores: with one field, 10240 x 10240 f16
  // points took 171 to 187 us on an H200 for boxes of radius 1 to 3, where the estimates add up to 156 to
  // 159. Of sums alone it waits for nothing: Sobel's magnitude took 106.1 us, where its products alone are
  // 107.5. Two passes have the input at hand: unsharp masks of radius 7, 15 and 20 took 122, 139 and 167.
  const bool waits = spec.update && !spec.update->is_of_sums_alone() && spec.dimensions == 2 &&
                     contraction.on_tensor_cores();
  const bool at_hand = contraction.is_low_rank() && further_us == 0;
  return (!waits ? 1 : at_hand ? 1.06 : 1.15) * (microseconds + further_us);
}

template <class Taken>
void consider(const Problem& problem, const ContractionOffer& offer, std::vector<Draft>& drafts) {
  const Contraction& contraction = offer.contraction;
  if (!contraction.is_low_rank() && advances_steps<Taken>() != (problem.op.steps > 1)) return;
  if (!Taken::takes(problem, contraction)) return;
  const Offer<Taken> taken =
      offer.objection.empty() ? Taken::plan(problem, contraction) : Offer<Taken>::none(offer.objection);
  // Schemes of steps count it themselves.
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

/// Fastest first; then those whose time has not been measured, and those with an objection.
void sort_drafts(std::vector<Draft>& drafts) {
  std::stable_sort(drafts.begin(), drafts.end(), [](const Draft& a, const Draft& b) {
    const auto key = [](const Draft& draft) {
      const Candidate& candidate = draft.candidate;
      return std::tuple(!draft.is_possible(), !candidate.measured,
                        draft.is_possible() ? candidate.microseconds : 0);
    };
    return key(a) < key(b);
  });
}

/// Of one engine and these weights, the best first; or where there is none, what holds most.
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

/// The weights of one step that lists along y and x stand for, those of each sum.
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

/// Do taps reach as far in every row, so that no product of lists reaches farther than they do?
bool fills_its_box(const Problem& problem) {
  const Operator& op = problem.op;
  const std::vector<TapRow>& rows = problem.tap_rows;
  const auto is_full = [&](const TapRow& row) {
    return row.low == -op.reach_low[spec::axis_x] && row.high == op.reach_high[spec::axis_x];
  };
  return static_cast<int>(rows.size()) == op.reach_low[spec::axis_y] + op.reach_high[spec::axis_y] + 1 &&
         std::all_of(rows.begin(), rows.end(), is_full);
}

/// Why no lists of one step are looked for; empty where they may be.
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

/// The lists of each sum, as `find` has them of one, or why there are none.
std::pair<std::vector<LowRank>, std::string> find_lists(const Problem& problem,
                                                        LowRankOffer (*find)(const Problem&)) {
  std::pair<std::vector<LowRank>, std::string> found{{}, objection_to_passes(problem)};
  for (int sum = 0; sum < std::ssize(problem.spec.sums) && found.second.empty(); ++sum) {
    const spec::StencilSpec one = spec_of_sum(problem.spec, sum);
    if (one.taps.empty()) return {{}, "a sum has no taps"};  // an error that is told
    const Operator op = operator_of(one, problem.op.steps);
    LowRankOffer offer = find({one, op, problem.engine, {}, {}});
    found.first.push_back(std::move(offer.low_rank));
    found.second = std::move(offer.objection);
  }
  return found;
}

/// Two passes on CUDA cores; nothing where there are none for such fields.
std::vector<Draft> draft_core_lists(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.dimensions != 2 || spec::is_half(spec.storage) || problem.op.steps > 1 || spec.taps.empty())
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

/// A common factor that does not suit all weights is taken where it saves products: two rows that share an
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

/// What no kernel can hold: `general` is of the scheme that holds most.
void report_size(const spec::StencilSpec& spec, const Draft& general, diag::Diagnostics& diagnostics) {
  const bool could_halve = general.weights.terms > 1 && spec.storage == spec::Storage::f16;
  diagnostics.error(
      spec.where.coefficients,
      fmt::format("the stencil is too large for one sweep: {}{}{}", general.candidate.objection,
                  could_halve ? "; 'weights: f16' would halve the products" : "", cuda_cores_take_it));
}

/// An engine's candidates, unless it has objections.
struct EngineDrafts {
  Engine engine = Engine::sparse;
  diag::Diagnostics diagnostics;
  std::vector<Draft> drafts;
};

/// The first error.
std::string first_error(const diag::Diagnostics& diagnostics) {
  const auto error =
      std::find_if(diagnostics.items.begin(), diagnostics.items.end(),
                   [](const diag::Diagnostic& item) { return item.severity == diag::Severity::error; });
  std::string text = error->text;
  remove_advice(text);
  return text;
}

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

/// All steps of a sweep as one of a spec whose weights are rounded so; without those that vanish in operands.
spec::StencilSpec compose_spec(const Problem& problem, spec::WeightMode mode) {
  const Operator& op = problem.op;
  RoundedWeights exact;
  const std::vector<Matrix> planes = compose_taps(op);
  for (int plane = 0; plane < std::ssize(planes); ++plane) {
    for (int row = 0; row < planes[plane].rows; ++row) {
      for (int column = 0; column < planes[plane].columns; ++column) {
        const double weight = planes[plane].at(row, column);
        const spec::Offset at{plane - op.reach_low[spec::axis_z], row - op.reach_low[spec::axis_y],
                              column - op.reach_low[spec::axis_x]};
        if (weight != 0) exact.taps.push_back({at, weight, {}, 0, 0, weight});
      }
    }
  }
  spec::StencilSpec composed = composed_spec(problem.spec, exact);
  composed.weights = mode;
  RoundedWeights rounded = round_weights(composed).weights;
  std::erase_if(rounded.taps, [](const RoundedTap& tap) { return tap.packed == 0; });
  composed.taps = composed_spec(problem.spec, rounded).taps;
  return composed;
}

/// Scales results such that the weights sum to what the exact ones of all steps do, unless these nearly
/// cancel.
ComposedSums settle_sum(const Operator& op, RoundedWeights& weights) {
  ComposedSums sums = compare_composed(op, weights);
  if (std::fabs(sums.sum) <= sums.magnitude / 2) return sums;
  weights.factor = static_cast<float>(weights.factor * (sums.sum / sums.packed_sum));
  weights.packed_sum = weights.largest_error = 0;
  for (RoundedTap& tap : weights.taps) {
    tap.packed = weights.packed_of(tap);
    weights.packed_sum += tap.packed;
    weights.largest_error = std::max(weights.largest_error, std::fabs(tap.packed - tap.weight));
  }
  return compare_composed(op, weights);
}

/// All steps of a sweep as one of a spec, with as few terms a weight as it allows: one, unless its tolerance
/// or the sum of the weights want more.
spec::StencilSpec choose_composed(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  spec::StencilSpec composed = compose_spec(problem, spec.weights);
  if (spec.weights != spec::WeightMode::automatic || round_weights(composed).weights.terms == 1)
    return composed;
  const bool f16 = spec.storage == spec::Storage::f16;
  spec::StencilSpec of_one_term = compose_spec(problem, f16 ? spec::WeightMode::f16 : spec::WeightMode::bf16);
  RoundedWeights weights = round_weights(of_one_term).weights;
  const ComposedSums sums = settle_sum(problem.op, weights);
  const bool is_near = !spec.tolerance || sums.deviation <= *spec.tolerance;
  return is_near && sums.sums_agree() ? of_one_term : composed;
}

/// Do so many steps reach few enough points to be taken as one? With more, steps in registers are faster.
bool are_few(const Operator& op) {
  constexpr std::int64_t most_taps = 1000;
  std::int64_t taps = 1;
  for (int axis = 0; axis < 3; ++axis) taps *= op.reach_low[axis] + op.reach_high[axis] + 1;
  return taps <= most_taps;
}

std::string objection_to_composed(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.update || spec.previous) return "steps of an update are not composed";
  if (!spec::is_half(spec.storage) || !has_sparse_plan(spec))
    return "steps are composed of f16 fields, and in 1D and 2D of bf16 fields";
  if (spec.accumulate != spec::Accumulate::f32) return "steps are composed with f32 sums";
  if (!are_few(problem.op)) return "so many steps reach too many points";
  return objection_to_composing(spec);
}

/// Has cells stepped that lie near faces which do not commute. Else the objection.
std::string plan_rims(const Problem& problem, Composition& composition) {
  if (problem.spec.dimensions != 2) return "";
  composition.rims = rims_of(problem.spec, problem.op);
  if (composition.rims == Rims{}) return "";
  composition.least = least_beside(composition.rims);
  composition.rim_steps = plan_rim_tiles(problem.spec, problem.op.steps);
  if (!composition.rim_steps) return "steps at faces find no room in shared memory, or turn signs round";
  composition.rims_us = estimate_rims_us(*composition.rim_steps, composition.rims);
  return "";
}

/// Where constants beyond faces add to what all steps make of fields, or a `mirror` is beside another rule,
/// has small fields stepped, near two faces at once, and what is left of a number of steps with them. Else
/// the objection.
std::string plan_large_fields(const Problem& problem, Composition& composition) {
  if (!compose_when_large(problem.spec)) return "";
  composition.added = added_by_constants(problem.spec, problem.op);
  if (!composition.added.is_moderate()) return "what constants beyond faces add grows beyond 2^100";
  Problem of_steps = problem;
  of_steps.engine = Engine::cuda;
  of_steps.weights = round_weights_to_f32(problem.spec).weights;
  const auto plan_steps = [&]<class Stepping>(Offer<Stepping> steps) {
    if (steps.objection.empty()) composition.single_scheme = std::move(steps.scheme);
    return steps.objection;
  };
  const std::string objection = problem.spec.dimensions == 1 ? plan_steps(Stepping1d::plan(of_steps, {}))
                                                             : plan_steps(Stepping3d::plan(of_steps, {}));
  if (!objection.empty()) return objection;
  for (int axis = 0; axis < 3; ++axis) {
    composition.fewest =
        std::max({composition.fewest, 2 * problem.op.reach_low[axis], 2 * problem.op.reach_high[axis]});
  }
  return "";
}

/// All steps of a sweep as one, on sparse tensor cores; what is left of a number of steps on CUDA cores.
Draft draft_composed(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  Draft draft;
  draft.candidate.engine = Engine::sparse;
  draft.candidate.scheme = "composed";
  std::string& objection = draft.candidate.objection;
  objection = objection_to_composed(problem);
  if (!objection.empty()) return draft;
  const Request sparse{.engine = Engine::sparse};
  const Request on_cores{.engine = Engine::cuda};
  const spec::StencilSpec as_one = choose_composed(problem);
  if (as_one.taps.empty()) {
    objection = "all weights of so many steps vanish";
    return draft;
  }
  PlanResult composed = make_plan(as_one, sparse);
  spec::StencilSpec single = spec;
  single.steps = 1;
  PlanResult left = make_plan(single, on_cores);
  for (const PlanResult* planned : {&composed, &left}) {
    if (objection.empty() && planned->diagnostics.has_errors()) objection = first_error(planned->diagnostics);
  }
  if (!objection.empty()) return draft;
  const ComposedSums sums = settle_sum(problem.op, composed.plan.weights);
  const double tolerance = spec.tolerance.value_or(1);
  if (sums.deviation > tolerance) {
    objection =
        fmt::format("rounded to operands the weights lie {:.1e} from the exact ones, the tolerance is {:.1e}",
                    sums.deviation, tolerance);
  } else if (!sums.sums_agree()) {
    objection = "rounded weights do not sum to what the exact ones do";
  } else if (!std::isnormal(static_cast<float>(composed.plan.weights.result_scale(0)))) {
    objection = "weights of all steps are scaled by no normal f32 number";
  }
  if (!objection.empty()) return draft;
  Composition composition{std::move(composed.plan.weights),
                          sums.magnitude,
                          sums.deviation,
                          std::move(left.plan.contraction),
                          std::move(left.plan.scheme),
                          {},
                          {},
                          {},
                          0,
                          {},
                          0};
  if (objection = plan_rims(problem, composition); !objection.empty()) return draft;
  if (objection = plan_large_fields(problem, composition); !objection.empty()) return draft;
  const auto taken =
      std::find_if(composed.plan.candidates.begin(), composed.plan.candidates.end(),
                   [](const Candidate& candidate) { return candidate.engine == Engine::sparse; });
  draft.candidate = *taken;
  draft.candidate.mapping = "composed, " + draft.candidate.mapping;
  draft.weights = round_weights_to_f32(spec).weights;
  draft.contraction = std::move(composed.plan.contraction);
  draft.scheme = std::move(composed.plan.scheme);
  if (auto* planes = std::get_if<Stream3d>(&draft.scheme)) objection = planes->hold(composition.added);
  draft.candidate.microseconds += composition.rims_us;
  draft.composition = std::move(composition);
  return draft;
}

/// The sparse engine: of more steps, all of them as one.
EngineDrafts ask_sparse(const Problem& problem) {
  if (problem.op.steps == 1 || problem.spec.taps.empty()) return ask_engine(problem);
  EngineDrafts asked{Engine::sparse, {}, {draft_composed(problem)}};
  const Draft& draft = asked.drafts.front();
  if (!draft.is_possible()) {
    asked.diagnostics.error(problem.spec.where.steps,
                            fmt::format("'--engine sparse' does not take so many steps: {}; leave it out",
                                        draft.candidate.objection));
  }
  return asked;
}

/// The plan of lists along x and along y, in two passes; nothing where there are none for such fields.
std::vector<Draft> draft_low_rank(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.dimensions != 2 || !spec::is_half(spec.storage) || spec.taps.empty() ||
      spec.accumulate != spec::Accumulate::f32)
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

/// The dense engine: two passes.
EngineDrafts ask_dense(const Problem& problem, bool is_asked_for) {
  EngineDrafts asked{Engine::dense, {}, draft_low_rank(problem)};
  const bool possible = !asked.drafts.empty() && asked.drafts.front().is_possible();
  if (possible || !is_asked_for || problem.op.composed.empty()) return asked;
  const spec::StencilSpec& spec = problem.spec;
  const bool is_of_steps = problem.op.steps > 1;
  const std::string what = is_of_steps ? "so many steps" : "this stencil";
  if (asked.drafts.empty()) {
    asked.diagnostics.error(
        spec.dimensions != 2 ? spec.where.dimensions : spec.where.storage,
        fmt::format("'--engine dense' does not take {}: it is for 2D fields of 16 bits with "
                    "f32 sums; leave it out",
                    what));
  } else {
    asked.diagnostics.error(is_of_steps ? spec.where.steps : spec.where.coefficients,
                            fmt::format("'--engine dense' does not take {}: {}; leave it out", what,
                                        asked.drafts.front().candidate.objection));
  }
  return asked;
}

/// The number of steps of two passes that is fastest a step, by whole groups of rows that they reach, and how
/// long a step then takes; 1 and 0 where there is none.
std::pair<int, double> fastest_low_rank(const Problem& single) {
  std::pair<int, double> fastest{1, 0};
  int radius = 0;
  for (const int axis : {spec::axis_y, spec::axis_x})
    radius = std::max({radius, single.op.reach_low[axis], single.op.reach_high[axis]});
  if (radius == 0) return fastest;
  constexpr int step = group_rows / 2;  // on each side
  for (int reach = step; reach <= largest_pass_reach; reach += step) {
    const int steps = reach / radius;
    if (steps < 2) continue;
    const Operator op = operator_of(single.spec, steps);
    const Problem problem{single.spec, op, Engine::dense, single.tap_rows, {}};
    const std::vector<Draft> drafts = draft_low_rank(problem);
    if (drafts.empty() || !drafts.front().is_possible()) continue;
    const double us = drafts.front().candidate.microseconds / steps;
    if (fastest.second == 0 || us < fastest.second) fastest = {steps, us};
  }
  return fastest;
}

/// The same of steps taken as one.
std::pair<int, double> fastest_composed(const Problem& single) {
  constexpr int all_up_to = 8;  // of more, multiples
  constexpr int most = 64;
  std::pair<int, double> fastest{1, 0};
  for (int steps = 2; steps <= most; steps += steps < all_up_to ? 1 : all_up_to) {
    const Operator op = operator_of(single.spec, steps);
    const Draft draft = draft_composed({single.spec, op, Engine::sparse, single.tap_rows, {}});
    if (!draft.is_possible()) continue;
    const double us = draft.candidate.microseconds / steps;
    if (fastest.second == 0 || us < fastest.second) fastest = {steps, us};
  }
  return fastest;
}

/// What `steps` says, or where that is auto, what is fastest a step.
int choose_steps(const spec::StencilSpec& spec, const Request& request, double single_us) {
  if (spec.steps) return *spec.steps;
  if (spec.taps.empty() || single_us <= 0) return 1;
  const auto may_use = [&](Engine engine) { return request.engine.value_or(engine) == engine; };
  int fastest = 1;
  double least_us = single_us;
  if (may_use(Engine::cuda)) {
    fastest = fastest_stepping(spec, single_us);
    if (fastest > 1) least_us = *estimate_stepping(spec, fastest) / fastest;
  }
  const Operator op = operator_of(spec);
  const Problem single{spec, op, Engine::sparse, tap_rows_of(op), {}};
  const auto take = [&](const std::pair<int, double>& found) {
    if (found.first > 1 && found.second < least_us) std::tie(fastest, least_us) = found;
  };
  if (may_use(Engine::dense)) take(fastest_low_rank(single));
  if (may_use(Engine::sparse)) take(fastest_composed(single));
  return fastest;
}

/// The taps of all steps of a sweep together: as far as so many steps reach.
void reach_all_steps(KernelPlan& plan) {
  plan.tap_rows.clear();
  for (int dz = -plan.op.reach_low[spec::axis_z]; dz <= plan.op.reach_high[spec::axis_z]; ++dz) {
    for (int dy = -plan.op.reach_low[spec::axis_y]; dy <= plan.op.reach_high[spec::axis_y]; ++dy)
      plan.tap_rows.push_back({dz, dy, -plan.op.reach_low[spec::axis_x], plan.op.reach_high[spec::axis_x]});
  }
}

/// About how many microseconds a sweep of one step takes; 0 where there is no plan for it.
double estimate_single_step(const spec::StencilSpec& spec) {
  spec::StencilSpec single = spec;
  single.steps = 1;
  const PlanResult planned = make_plan(single);
  return planned.diagnostics.has_errors() ? 0 : planned.plan.microseconds;
}

}  // namespace

PlanResult make_plan(const spec::StencilSpec& spec, const Request& request) {
  const double single_us = spec.steps == 1 ? 0 : estimate_single_step(spec);
  const Operator op = operator_of(spec, choose_steps(spec, request, single_us));
  Problem problem{spec, op, Engine::sparse, tap_rows_of(op), {}};
  std::vector<Draft> drafts;
  std::map<Engine, diag::Diagnostics> diagnostics;
  for (const Engine engine : {Engine::sparse, Engine::cuda, Engine::dense}) {
    problem.engine = engine;
    EngineDrafts asked = engine == Engine::dense    ? ask_dense(problem, request.engine == Engine::dense)
                         : engine == Engine::sparse ? ask_sparse(problem)
                                                    : ask_engine(problem);
    diagnostics[engine] = std::move(asked.diagnostics);
    std::move(asked.drafts.begin(), asked.drafts.end(), std::back_inserter(drafts));
  }
  sort_drafts(drafts);
  const auto fits = [&](const Draft& draft) {
    return draft.candidate.engine == request.engine.value_or(draft.candidate.engine);
  };
  const auto chosen = std::find_if(drafts.begin(), drafts.end(), fits);

  PlanResult result;
  KernelPlan& plan = result.plan;
  const Engine last_resort = has_sparse_plan(spec) ? Engine::sparse : Engine::cuda;
  const bool found = chosen != drafts.end() && chosen->is_possible();
  plan.engine =
      found ? chosen->candidate.engine : request.engine.value_or(op.steps > 1 ? Engine::cuda : last_resort);
  result.diagnostics = std::move(diagnostics[plan.engine]);
  plan.dimensions = spec.dimensions;
  plan.further_bytes = further_bytes(spec);
  plan.tap_rows = std::move(problem.tap_rows);
  plan.op = op;
  plan.single_step_us = single_us;
  if (op.steps > 1) reach_all_steps(plan);
  for (const Draft& draft : drafts) plan.candidates.push_back(draft.candidate);
  if (!found) return result;
  plan.microseconds = chosen->candidate.microseconds;
  plan.weights = std::move(chosen->weights);
  plan.contraction = std::move(chosen->contraction);
  plan.scheme = std::move(chosen->scheme);
  plan.composition = std::move(chosen->composition);
  plan.error_bound = bound_error(spec, plan);
  return result;
}

}  // namespace spidergen::plan
