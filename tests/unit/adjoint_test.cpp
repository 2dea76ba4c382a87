/// Adjoints of specs: derivatives of expressions, transposed reads, stages in reverse, and the text.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "adjoint/write_adjoint.h"
#include "plan/system_plan.h"
#include "spec/read_spec.h"

namespace spidergen::adjoint {
namespace {

AdjointSpec adjoint_of_text(const std::string& text, const std::string& storage = "f64",
                            bool may_split = false) {
  const spec::ReadResult read =
      spec::read_spec({"t.yaml", "stencil: t\nstorage: " + storage + "\n" + text}, {});
  for (const diag::Diagnostic& one : read.diagnostics.items) ADD_FAILURE() << to_string(one);
  return write_adjoint(read, may_split);
}

std::string text_of(const std::string& text, const std::string& storage = "f64", bool may_split = false) {
  const AdjointSpec made = adjoint_of_text(text, storage, may_split);
  for (const diag::Diagnostic& one : made.diagnostics.items) ADD_FAILURE() << to_string(one);
  EXPECT_EQ(made.name, "t_adjoint");
  return made.text;
}

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> errors;
  for (const diag::Diagnostic& one : adjoint_of_text(text).diagnostics.items) errors.push_back(one.text);
  return errors;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The lines behind `stages:` of a system in one dimension, u and v with mirror faces, k with constant ones.
std::string stages_of(const std::string& stages) {
  const std::string text = text_of(
      "dimensions: 1\nscalars: [a]\nfields: {u: {}, v: {}, k: {boundary: {constant: 2}}}\nboundary: mirror\n"
      "stages:\n" +
      stages);
  return text.substr(text.find("stages:\n") + 8);
}

/// What v_bar becomes where u is `expression` of v; without quotes.
std::string derivative(const std::string& expression) {
  const std::string stages = stages_of("  - u: \"" + expression + " + 0*a*k\"\n");
  const std::size_t begin = stages.find("v_bar: ") + 7;
  std::string text = stages.substr(begin, stages.find('\n', begin) - begin);
  std::erase(text, '"');
  return text;
}

// ---- expressions ----

TEST(Derivatives, OfSumsAndProducts) {
  EXPECT_EQ(derivative("v"), "v_bar + u_bar");
  EXPECT_EQ(derivative("-v"), "v_bar - u_bar");
  EXPECT_EQ(derivative("3*v - v/2"), "v_bar + 2.5*u_bar");
  EXPECT_EQ(derivative("k*v"), "v_bar + k*u_bar");
  EXPECT_EQ(derivative("a*(v - 2*v*k)"), "v_bar + t1 - 2*(k*t1)");
  EXPECT_EQ(derivative("v/k"), "v_bar + u_bar/k");
}

TEST(Derivatives, OfPowersAndQuotients) {
  EXPECT_EQ(derivative("v^2"), "v_bar + 2*(v*u_bar)");
  EXPECT_EQ(derivative("v^3"), "v_bar + 3*(v^2*u_bar)");
  EXPECT_EQ(derivative("v^(-1)"), "v_bar - v^(-2)*u_bar");
  EXPECT_EQ(derivative("1/v"), "v_bar - 1/v*u_bar/v");
  EXPECT_EQ(derivative("a^v"), "v_bar + (a > 0 ? a^v*log(a)*u_bar : 0)");
}

TEST(Derivatives, OfFunctions) {
  EXPECT_EQ(derivative("sin(v)"), "v_bar + cos(v)*u_bar");
  EXPECT_EQ(derivative("cos(v)"), "v_bar - sin(v)*u_bar");
  EXPECT_EQ(derivative("exp(v)"), "v_bar + exp(v)*u_bar");
  EXPECT_EQ(derivative("log(v)"), "v_bar + u_bar/v");
  EXPECT_EQ(derivative("sqrt(v)"), "v_bar + 0.5*(u_bar/sqrt(v))");
  EXPECT_EQ(derivative("tanh(v)"), "v_bar + (1 - tanh(v)^2)*u_bar");
  EXPECT_EQ(derivative("atan(v)"), "v_bar + u_bar/(1 + v^2)");
}

TEST(Derivatives, FollowTheBranchThatIsTaken) {
  EXPECT_EQ(derivative("v < a ? 2*v : k"), "v_bar + 2*(v < a ? u_bar : 0)");
  EXPECT_EQ(derivative("abs(v)"), "v_bar + (v < 0 ? -u_bar : u_bar)");
  EXPECT_EQ(derivative("min(v, a)"), "v_bar + (v <= a ? u_bar : 0)");
  EXPECT_EQ(derivative("max(a, v)"), "v_bar + (a >= v ? 0 : u_bar)");
}

// ---- reads ----

TEST(TransposedReads, OfCellsWithOneFactorAreTogether) {
  EXPECT_EQ(derivative("k*(v[1] - 2*v + v[-1])"), "v_bar + adjoint(v_bar[-1] - 2*v_bar + v_bar[1], k*u_bar)");
  EXPECT_EQ(derivative("k*v[1] + a*v[1]"), "v_bar + adjoint(v_bar[1], a*u_bar + k*u_bar)");
}

TEST(TransposedReads, ArePlainWhereFacesAreConstantOrPeriodic) {
  const std::string system = "dimensions: 1\nfields: [u, v]\nstages:\n  - u: v[1] - 3*v[-2]\nboundary: ";
  const std::string plain = "v_bar: v_bar + u_bar[-1] - 3*u_bar[2]\n";
  EXPECT_TRUE(has(text_of(system + "{constant: 2}\n"), plain));
  EXPECT_TRUE(has(text_of(system + "periodic\n"), plain));
  EXPECT_TRUE(has(text_of(system + "halo\n"), plain));
  EXPECT_TRUE(has(text_of(system + "nearest\n"), "v_bar: v_bar + adjoint(-3*v_bar[-2] + v_bar[1], u_bar)\n"));
}

TEST(TransposedReads, ContinueAsTheFieldDoesWithoutItsConstants) {
  const std::string text = text_of(
      "dimensions: 2\nboundary: {y: periodic, x: {low: {constant: 3}, high: mirror}}\nfields: [u]\n"
      "stages:\n  - u: \"u + u[1, 1]\"\n");
  EXPECT_TRUE(has(text, "boundary: {y: periodic, x: {low: {constant: 0}, high: mirror}}\n"));
}

// ---- stages ----

TEST(Stages, RunInReverse) {
  EXPECT_EQ(stages_of("  - u: u + k*v\n  - v: v + a*u\n"),
            "  # the adjoint of stage 2\n  - u_bar: u_bar + a*v_bar\n"
            "  # the adjoint of stage 1\n  - v_bar: v_bar + k*u_bar\n    k_bar: k_bar + v*u_bar\n");
}

TEST(Stages, AreComputedAgainWhereDerivativesNeedWhatTheyWrote) {
  EXPECT_EQ(stages_of("  - u: u + a*k\n  - v: u^2\n"),
            "  # stage 1 again\n  - u_2: u + a*k\n"
            "  # the adjoint of stage 2\n  - u_bar: u_bar + 2*(u_2*v_bar)\n    v_bar: 0\n"
            "  # the adjoint of stage 1\n  - k_bar: k_bar + a*u_bar\n");
}

// ---- split stages ----

/// A wave in 3D whose sum is a star of this reach.
std::string wave(int reach, const std::string& keys) {
  std::string list;
  for (int i = -reach; i <= reach; ++i) list += fmt::format("{}, ", i == 0 ? -6 : 1.0 / (i * i));
  return fmt::format("dimensions: 3\nshape: star\ncoefficients: {{z: [{0}], y: [{0}], x: [{0}]}}\n", list) +
         "previous: u_old\nfields: [k]\nupdate: 2*u - u_old + k*sum\n" + keys;
}

std::string split_text(const std::string& text, const std::string& storage = "f64") {
  return text_of(text, storage, true);
}

TEST(SplitStages, WriteWhatIsReadAroundFirst) {
  const std::string text =
      split_text(wave(4, "boundary: {z: {constant: 3}, y: periodic, x: {constant: 0}}\n"));
  const std::size_t k = text.find("    k_bar: k_bar + ");
  const std::size_t at_point =
      text.find("  - u_bar: 2*u_bar + u_old_bar\n    u_bar_term: k*u_bar\n    u_old_bar: \"-u_bar\"\n");
  const std::size_t sums = text.find("  - u_bar: u_bar + sum1(u_bar_term)\n");
  EXPECT_LT(k, at_point);
  EXPECT_LT(at_point, sums);
  EXPECT_LT(sums, text.size());
  EXPECT_TRUE(has(text, "  u_bar_term: {boundary: {z: {constant: 0}, y: periodic, x: {constant: 0}}}\n"));
}

TEST(SplitStages, AreUpdatesBeforeAndAfterTheSweepAtThePoint) {
  const spec::ReadResult read =
      spec::read_spec({"t_adjoint.yaml", split_text(wave(4, "boundary: {constant: 0}\n"))}, {});
  ASSERT_FALSE(read.diagnostics.has_errors());
  const plan::SystemPlan plan = plan::plan_system(read.system.value_or(spec::SystemSpec()));
  ASSERT_EQ(plan.sweeps.size(), 3U);
  EXPECT_TRUE(plan.sweeps[0].update.has_value());
  EXPECT_FALSE(plan.sweeps[1].update.has_value());
  EXPECT_TRUE(plan.sweeps[2].update.has_value());
  for (const plan::SystemSweep& sweep : plan.sweeps) {
    for (const plan::SystemResult& result : sweep.results) EXPECT_FALSE(result.into_other);
  }
}

TEST(SplitStages, AreLeftWholeWhereThatIsFasterOrMoreAccurate) {
  EXPECT_FALSE(has(split_text(wave(1, "boundary: {constant: 0}\n")), "_term"));  // few rows
  EXPECT_FALSE(has(split_text(wave(4, "boundary: nearest\n")), "_term"));        // folded ghost cells
  EXPECT_FALSE(has(split_text(wave(4, "boundary: {constant: 0}\n"), "f16"), "_term"));
  EXPECT_FALSE(has(text_of(wave(4, "boundary: {constant: 0}\n")), "_term"));  // not asked for
}

// ---- stencils and updates ----

TEST(Stencils, AreReversedWhereThatIsTheTranspose) {
  const std::string taps = "dimensions: 1\nshape: star\ncoefficients: {x: [1, 2, 5]}\nboundary: ";
  const std::string reversed =
      "- {at: [-1], weight: 5}\n  - {at: [0], weight: 2}\n  - {at: [1], weight: 1}\n";
  EXPECT_TRUE(has(text_of(taps + "periodic\n"), reversed + "boundary: periodic\n"));
  EXPECT_TRUE(has(text_of(taps + "{constant: 4}\n"), reversed + "boundary: {constant: 0}\n"));
  EXPECT_TRUE(has(text_of(taps + "halo\n"), reversed + "boundary: {constant: 0}\n"));
  EXPECT_TRUE(has(text_of(taps + "reflect\n"), "adjoint("));
  EXPECT_TRUE(has(text_of(taps + "periodic\nsteps: 3\n"), reversed + "boundary: periodic\nsteps: 3\n"));
}

TEST(Stencils, OfEvenWeightsStayAtReflectingFaces) {
  const std::string taps = "dimensions: 1\nshape: star\ncoefficients: {x: [1, 2, 1]}\nboundary: ";
  EXPECT_FALSE(has(text_of(taps + "reflect\n"), "adjoint("));
  EXPECT_FALSE(has(text_of(taps + "antisymmetric\n"), "adjoint("));
  EXPECT_TRUE(has(text_of(taps + "mirror\n"), "adjoint("));
  EXPECT_TRUE(has(text_of(taps + "nearest\n"), "adjoint("));
}

TEST(Updates, PassTheFieldOnAsThePreviousOne) {
  const std::string text = text_of(
      "dimensions: 1\nshape: star\ncoefficients: {x: [1, -2, 1]}\nboundary: {constant: 0}\nprevious: u_old\n"
      "fields: [c]\nupdate: 2*u - u_old + c*sum\n");
  EXPECT_TRUE(has(text, "u_bar: 2*u_bar + u_old_bar + t1[-1] - 2*t1 + t1[1]\n    u_old_bar: \"-u_bar\"\n"));
  EXPECT_TRUE(has(text, "t1: c*u_bar\n"));
}

TEST(Refused, IsWhatHasNoAdjoint) {
  const std::string stages = "dimensions: 1\nboundary: mirror\nfields: [u]\nstages:\n";
  EXPECT_EQ(errors_of(stages + "  - u: adjoint(u[1], u)\n").size(), 1U);
  EXPECT_EQ(
      errors_of("dimensions: 1\nboundary: mirror\nshape: star\ncoefficients: {x: [1, 2, 1]}\nsteps: 2\n")
          .size(),
      1U);
}

// ---- the primitive ----

plan::SystemPlan plan_of(const std::string& stages) {
  const spec::ReadResult read = spec::read_spec(
      {"t.yaml", "stencil: t\ndimensions: 1\nstorage: f32\nfields: [u, v]\nboundary: " + stages}, {});
  for (const diag::Diagnostic& one : read.diagnostics.items) ADD_FAILURE() << to_string(one);
  return plan::plan_system(read.system.value_or(spec::SystemSpec()));
}

TEST(Plan, WritesWhatTransposesReadIntoTheOtherBuffer) {
  const plan::SystemPlan plan = plan_of("mirror\nstages: [{u: \"adjoint(v[1], v*u[1])\"}]\n");
  EXPECT_TRUE(plan.sweeps.at(0).results.at(0).into_other);  // though its row is at the point
  EXPECT_EQ(plan.sweeps.at(0).rows.at(0), (plan::ReadRow{0, 0, 0, 0, 0}));
}

TEST(Plan, FusesNoTransposeWithWhatItReads) {
  EXPECT_EQ(plan_of("periodic\nstages: [{u: v + u}, {v: \"adjoint(v[1], u)\"}]\n").sweeps.size(), 2U);
  EXPECT_EQ(plan_of("periodic\nstages: [{u: \"adjoint(v[1], v)\"}, {v: \"u[1] - u\"}]\n").sweeps.size(), 2U);
}

}  // namespace
}  // namespace spidergen::adjoint
