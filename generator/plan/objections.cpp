#include "plan/objections.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "plan/stepping.h"
#include "plan/weights.h"
#include "plan/windows.h"

namespace spidergen::plan {
namespace {

constexpr int largest_core_reach = 65535;

/// `advice` is added where a tap is too far, but not too far for the advice to help.
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
  diagnostics.error(first->where, "this tap is {} points away along {}{}; kernels reach at most {} there{}",
                    distance, spec::axis_letters[axis], more, helps ? limit : largest_core_reach,
                    helps ? advice : "");
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

/// Limits of CUDA cores. Places along y and z are 32-bit numbers.
void check_cores(const Problem& problem, diag::Diagnostics& diagnostics) {
  const spec::StencilSpec& spec = problem.spec;
  if (spec.dimensions > 1) {
    for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis)
      check_reach(problem, axis, largest_core_reach, "", diagnostics);
  }
  if (!problem.op.composed.empty()) diagnostics.append(core_weights(spec).diagnostics);
}

/// True if a zero ghost cell cannot replace an `antisymmetric` face: outside 3D, or at a reach above 1.
bool negates_far(const spec::StencilSpec& spec) {
  for (int axis = 3 - spec.dimensions; axis <= spec::axis_x; ++axis) {
    const auto& [low, high] = spec.boundary[axis];
    const bool negates =
        low.rule == spec::BoundaryRule::antisymmetric || high.rule == spec::BoundaryRule::antisymmetric;
    if (negates && (spec.dimensions < 3 || radius_of(spec, axis) > 1)) return true;
  }
  return false;
}

/// Limits of `steps` above 1 where they are taken one by one.
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

}  // namespace

bool has_sparse_plan(const spec::StencilSpec& spec) {
  if (spec::converts_cells(spec))
    return spec.dimensions == 2 && spec.storage == spec::Storage::u8 && output_of(spec) != spec::Storage::f64;
  if (spec.dimensions == 1) return spec::is_half(spec.storage);
  return spec.storage == spec::Storage::f16 || (spec.dimensions == 2 && spec.storage != spec::Storage::f64);
}

void remove_advice(std::string& text) {
  if (text.ends_with(cuda_cores_take_it)) text.resize(text.size() - cuda_cores_take_it.size());
}

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
    diagnostics.error(spec.output ? spec.where.output : spec.where.storage,
                      "'--engine {}' does not take this {} in {}D yet; '--engine cuda' does, and is the "
                      "default for it",
                      engine_name(engine), spec.output ? "output" : "storage", spec.dimensions);
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

}  // namespace spidergen::plan
