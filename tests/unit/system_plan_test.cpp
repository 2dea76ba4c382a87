/// How stages of a system become sweeps: what is fused, what is read, and which fields have two buffers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "plan/system_plan.h"
#include "spec/read_spec.h"

namespace spidergen::plan {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

constexpr int in_place = field_read | field_written;
constexpr int swapped = in_place | field_two_buffers | field_result_in_output;
constexpr int swapped_twice = in_place | field_two_buffers;

spec::SystemSpec read(const std::string& text) {
  const spec::ReadResult result = spec::read_spec({"t.yaml", text}, {});
  for (const diag::Diagnostic& one : result.diagnostics.items) ADD_FAILURE() << to_string(one);
  EXPECT_TRUE(result.system.has_value());
  return result.system.value_or(spec::SystemSpec());
}

SystemPlan plan_of(const std::string& keys) {
  return plan_system(read("stencil: t\ndimensions: 2\nstorage: f32\n" + keys));
}

/// Acoustic waves: the first stage writes u and v at the point, of neighbours of p, the second one p of
/// theirs.
std::string waves(const std::string& boundary, const std::string& fields = "[p, u, v, k]") {
  return fmt::format(
      "fields: {}\nboundary: {}\nstages:\n"
      "  - {{u: \"u - (p[0, 1] - p)\", v: \"v - (p[1, 0] - p)\"}}\n"
      "  - {{p: \"p - k*(u - u[0, -1] + v - v[-1, 0])\"}}\n",
      fields, boundary);
}

std::vector<UpdateNode> bounded_nodes(const SystemSweep& sweep) {
  std::vector<UpdateNode> found;
  std::copy_if(sweep.nodes.begin(), sweep.nodes.end(), std::back_inserter(found),
               [](const UpdateNode& node) { return node.operation == UpdateOperation::bounded; });
  return found;
}

// ---- buffers ----

TEST(Buffers, OneOfFieldsThatAreReadAtThePoint) {
  const SystemPlan plan = plan_of("fields: [u, a]\nstages: [{u: \"u + a[0, 1] - a[0, -1]\"}]\n");
  EXPECT_EQ(plan.uses, (std::vector{in_place, field_read}));
  EXPECT_FALSE(plan.sweeps.at(0).results.at(0).into_other);
}

TEST(Buffers, TwoOfFieldsThatAreReadAround) {
  const SystemPlan plan = plan_of("fields: [u, a]\nstages: [{u: \"u[0, 1] + a\", a: \"a + u\"}]\n");
  EXPECT_EQ(plan.uses, (std::vector{swapped, in_place}));
  EXPECT_TRUE(plan.sweeps.at(0).results.at(0).into_other);
  EXPECT_FALSE(plan.sweeps.at(0).results.at(1).into_other);
}

TEST(Buffers, AreCurrentInTurn) {
  const std::string stage = "  - u: u + u[1, 0]\n";
  const std::string head = "fields: [u]\nboundary: nearest\nstages:\n";
  EXPECT_EQ(plan_of(head + stage).uses, (std::vector{swapped}));
  EXPECT_EQ(plan_of(head + stage + stage).uses, (std::vector{swapped_twice}));
  EXPECT_EQ(plan_of(head + stage + stage + stage).uses, (std::vector{swapped}));
}

TEST(Buffers, AreNotSwappedByStagesThatReadThePoint) {
  const SystemPlan plan = plan_of("fields: [u]\nboundary: nearest\nstages: [{u: \"u[0, 1]\"}, {u: 2*u}]\n");
  EXPECT_EQ(plan.uses, (std::vector{swapped}));
}

TEST(Buffers, AreTwoWhereAFusedSweepReadsAround) {
  // Alone both stages write in place; together they read p, u and v around the point.
  EXPECT_EQ(plan_of(waves("nearest")).uses, (std::vector{in_place, in_place, in_place, field_read}));
  const SystemPlan fused = plan_of(waves("{constant: 0}"));
  EXPECT_EQ(fused.uses, (std::vector{swapped, swapped, swapped, field_read}));
}

TEST(Buffers, AreNoneOfFieldsThatAreOnlyWritten) {
  const SystemPlan plan = plan_of("fields: [u, a]\nstages: [{u: \"a[0, 1]\"}]\n");
  EXPECT_EQ(plan.uses, (std::vector<int>{field_written, field_read}));
}

// ---- fusing ----

TEST(Fusing, TakesConstantsAndPeriods) {
  for (const char* boundary :
       {"{constant: 0}", "{constant: 2.5}", "periodic", "{y: periodic, x: {constant: 1}}",
        "{y: periodic, x: {low: {constant: 1}, high: {constant: 2}}}"}) {
    const SystemPlan plan = plan_of(waves(boundary));
    ASSERT_EQ(plan.sweeps.size(), 1U) << boundary;
    EXPECT_EQ(plan.sweeps[0].first_stage, 0);
    EXPECT_EQ(plan.sweeps[0].stages, 2);
  }
}

TEST(Fusing, TakesNoOtherFaces) {
  for (const char* boundary :
       {"nearest", "halo", "mirror", "reflect", "antisymmetric", "{y: periodic, x: nearest}",
        "{y: {constant: 0}, x: {low: {constant: 0}, high: mirror}}"})
    EXPECT_EQ(plan_of(waves(boundary)).sweeps.size(), 2U) << boundary;
}

TEST(Fusing, AsksTheFacesOfFieldsBetweenAlone) {
  // Faces of p, which the first stage reads, do not matter where those of u and v are constant.
  const std::string own = "{p: {boundary: nearest}, u: {}, v: {}, k: {boundary: mirror}}";
  EXPECT_EQ(plan_of(waves("{constant: 0}", own)).sweeps.size(), 1U);
  // In a period the second stage reads u across the face as the first one would compute it there, of p there.
  EXPECT_EQ(plan_of(waves("periodic", own)).sweeps.size(), 2U);
}

TEST(Fusing, DoesNotSkipTheRoundingBetweenStages) {
  EXPECT_EQ(plan_of(waves("periodic", "{p: {}, u: {storage: f16}, v: {}, k: {}}")).sweeps.size(), 2U);
  EXPECT_EQ(plan_of(waves("periodic", "{p: {}, u: {}, v: {storage: bf16}, k: {}}")).sweeps.size(), 2U);
  EXPECT_EQ(plan_of(waves("periodic", "{p: {storage: f16}, u: {}, v: {}, k: {storage: f16}}")).sweeps.size(),
            1U);
  // In doubles those of f32 are rounded.
  EXPECT_EQ(plan_of(waves("periodic", "{p: {}, u: {}, v: {}, k: {storage: f64}}")).sweeps.size(), 2U);
  EXPECT_EQ(plan_of(waves("periodic", "{p: {}, u: {storage: f64}, v: {storage: f64}, k: {}}")).sweeps.size(),
            1U);
}

TEST(Fusing, BoundsWhatIsReadAround) {
  const SystemPlan plan = plan_of(waves("{constant: 0}"));
  const std::vector<UpdateNode> bounded = bounded_nodes(plan.sweeps.at(0));
  ASSERT_EQ(bounded.size(), 2U);  // none of u and v at the point
  EXPECT_EQ(bounded[0].which, 1);
  EXPECT_EQ(bounded[0].at, (spec::Offset{0, 0, -1}));
  EXPECT_EQ(bounded[1].which, 2);
  EXPECT_EQ(bounded[1].at, (spec::Offset{0, -1, 0}));
  for (const UpdateNode& node : bounded) ASSERT_EQ(node.arguments.size(), 1U);
}

TEST(Fusing, AtThePointNeedsNoBounds) {
  const SystemPlan plan =
      plan_of("fields: [u, w]\nboundary: mirror\nstages: [{u: \"u + w[0, 1]\"}, {w: \"w + u\"}]\n");
  ASSERT_EQ(plan.sweeps.size(), 1U);
  EXPECT_TRUE(bounded_nodes(plan.sweeps[0]).empty());
}

TEST(Fusing, ShiftsBounds) {
  // Of three stages the third reads the second, which is bounded, around the point.
  const SystemPlan plan = plan_of(
      "fields: [u, w]\nboundary: {constant: 0}\nstages:\n"
      "  - {u: \"u + w\"}\n  - {w: \"w + u[0, 1]\"}\n  - {u: \"u + w[1, 0] + w[0, -1]\"}\n");
  ASSERT_EQ(plan.sweeps.size(), 1U);
  const std::vector<UpdateNode> bounded = bounded_nodes(plan.sweeps[0]);
  const auto has = [&](int field, const spec::Offset& at) {
    return std::any_of(bounded.begin(), bounded.end(),
                       [&](const UpdateNode& node) { return node.which == field && node.at == at; });
  };
  EXPECT_TRUE(has(0, {0, 0, 1}));  // u of w's own value
  EXPECT_TRUE(has(0, {0, 1, 1}));  // and of w's a row further
  EXPECT_TRUE(has(1, {0, 1, 0}));
  EXPECT_TRUE(has(1, {0, 0, -1}));
  EXPECT_EQ(bounded.size(), 4U);  // none where u, shifted back, is at the point
}

TEST(Fusing, DoesNotTakeConstantsAcrossAPeriod) {
  // w has a period along x, and the value of u that it takes at the face is no value of the other side.
  const SystemPlan plan = plan_of(
      "fields: {u: {boundary: {constant: 0}}, w: {boundary: periodic}, v: {}}\nboundary: periodic\nstages:\n"
      "  - {u: \"u + 2\"}\n  - {w: \"w + u[0, 1]\"}\n  - {v: \"v + w[0, 1]\"}\n");
  ASSERT_EQ(plan.sweeps.size(), 2U);
  EXPECT_EQ(plan.sweeps[0].stages, 2);
}

TEST(Sweeps, HaveLinesWhereRegistersSuffice) {
  const SystemSweep heat =
      plan_of("fields: [u]\nstages: [{u: \"u + u[0, 1] + u[0, -1] + u[1, 0] + u[-1, 0]\"}]\n").sweeps.at(0);
  EXPECT_EQ(heat.lines, 4);
  const SystemSweep wide =
      plan_of(
          "fields: [u]\nstages: [{u: \"u[0, 9] + u[0, -9] + u[9, 9] + u[9, -9] + u[4, 9] + u[4, -9]\"}]\n")
          .sweeps.at(0);
  EXPECT_EQ(wide.lines, 1);
}

TEST(Fusing, DoesNotCountAcrossAPeriod) {
  const auto stages = [](const char* boundary, const char* index) {
    return fmt::format("fields: [u, w]\nboundary: {}\nstages: [{{u: u + w*{}}}, {{w: \"w + u[0, 1]\"}}]\n",
                       boundary, index);
  };
  EXPECT_EQ(plan_of(stages("periodic", "ix")).sweeps.size(), 2U);
  EXPECT_EQ(plan_of(stages("periodic", "iy")).sweeps.size(), 1U);  // not along the offset
  EXPECT_EQ(plan_of(stages("{constant: 0}", "ix")).sweeps.size(), 1U);
}

// ---- what a sweep moves, and whether fusing pays ----

TEST(Sweeps, HaveTheirRows) {
  const SystemPlan plan =
      plan_of("fields: [u, a]\nstages: [{u: \"u[-1, 2] + u[-1, -3] + u + a[0, 1] + a[4, 0] + a[0, 5]\"}]\n");
  EXPECT_EQ(plan.sweeps.at(0).rows,
            (std::vector<ReadRow>{{0, 0, -1, -3, 2}, {0, 0, 0, 0, 0}, {1, 0, 0, 1, 5}, {1, 0, 4, 0, 0}}));
}

TEST(Sweeps, ReadAFusedStagesFieldsShifted) {
  const SystemPlan plan = plan_of(waves("periodic"));
  EXPECT_EQ(plan.sweeps.at(0).rows, (std::vector<ReadRow>{{0, 0, -1, 0, 0},
                                                          {0, 0, 0, -1, 1},
                                                          {0, 0, 1, 0, 0},
                                                          {1, 0, 0, -1, 0},
                                                          {2, 0, -1, 0, 0},
                                                          {2, 0, 0, 0, 0},
                                                          {3, 0, 0, 0, 0}}));
}

TEST(Sweeps, CountTheBytesOfAPoint) {
  const SystemPlan apart = plan_of(waves("nearest"));
  EXPECT_EQ(apart.sweeps.at(0).bytes_per_point, 5 * 4);
  EXPECT_EQ(apart.sweeps.at(1).bytes_per_point, 5 * 4);
  EXPECT_EQ(apart.bytes_apart, 40);
  const SystemPlan fused = plan_of(waves("periodic"));
  EXPECT_EQ(fused.sweeps.at(0).bytes_per_point, 7 * 4);
  EXPECT_EQ(fused.bytes_apart, 40);
  // By their storage, and nothing for fields with fewer axes, which caches have.
  const SystemPlan mixed =
      plan_of("fields: {u: {storage: f16}, a: {storage: f64}, b: {axes: [x]}}\nstages: [{u: u + a*b}]\n");
  EXPECT_EQ(mixed.sweeps.at(0).bytes_per_point, 2 + 8 + 2);
}

TEST(Sweeps, AreNotFusedWhereThatMovesAsMuch) {
  const SystemPlan plan = plan_of("fields: [u, w, a, b]\nstages: [{u: u + a}, {w: w + b}]\n");
  EXPECT_EQ(plan.sweeps.size(), 2U);
}

TEST(Sweeps, AreNotFusedWhereTooMuchIsComputedAgain) {
  // The second stage reads u at `count` points, so that the first one's operations are there as often.
  const auto stages = [](int count, int operations) {
    std::string value = "u";
    for (int i = 0; i < operations; ++i) value = fmt::format("sin({})", value);
    std::string sum = "w";
    for (int dx = 1; dx <= count; ++dx) sum += fmt::format(" + u[0, {}]", dx);
    return fmt::format("fields: [u, w]\nboundary: periodic\nstages: [{{u: \"{}\"}}, {{w: \"{}\"}}]\n", value,
                       sum);
  };
  EXPECT_EQ(plan_of(stages(9, 2)).sweeps.size(), 1U);
  EXPECT_EQ(plan_of(stages(1, 60)).sweeps.size(), 1U);  // twice: u at the point, too, is a result
  EXPECT_EQ(plan_of(stages(2, 60)).sweeps.size(), 2U);
  EXPECT_EQ(plan_of(stages(9, 60)).sweeps.size(), 2U);
}

TEST(Sweeps, HaveFewerPointsALaneWhereRegistersAreFew) {
  const auto sweep_of = [](const std::string& storage, int rows) {
    std::string sum = "u";
    for (int dy = 1; dy < rows; ++dy) sum += fmt::format(" + u[{}, 1]", dy);
    return plan_of(fmt::format("fields: {{u: {{storage: {}}}}}\nstages: [{{u: \"{}\"}}]\n", storage, sum))
        .sweeps.at(0);
  };
  EXPECT_EQ(sweep_of("f32", 3).columns, 4);
  EXPECT_EQ(sweep_of("f16", 3).columns, 4);
  EXPECT_EQ(sweep_of("f64", 3).columns, 2);
  EXPECT_EQ(sweep_of("f32", 25).columns, 4);
  EXPECT_EQ(sweep_of("f32", 40).columns, 2);
  EXPECT_EQ(sweep_of("f64", 40).columns, 1);
  // Rows that do not fit either way leave no room for a second block.
  EXPECT_EQ(sweep_of("f32", 3).blocks_per_multiprocessor, 3);
  EXPECT_EQ(sweep_of("f32", 25).blocks_per_multiprocessor, 2);
  EXPECT_EQ(sweep_of("f32", 300).columns, 1);
  EXPECT_EQ(sweep_of("f32", 300).blocks_per_multiprocessor, 1);
}

// ---- reductions ----

std::vector<int> reduced_by(const SystemSweep& sweep) {
  std::vector<int> found;
  for (const SystemReduction& one : sweep.reductions) found.push_back(one.which);
  return found;
}

const UpdateNode& reduced_node(const SystemSweep& sweep, std::size_t i = 0) {
  return sweep.nodes.at(static_cast<std::size_t>(sweep.reductions.at(i).node));
}

TEST(Reductions, AreMadeByTheSweepThatHasTheirValues) {
  const std::string reduce =
      "reduce: {late: {max: \"abs(new(p))\"}, early: {sum: new(u)}, before: {min: \"p[0, 1] - k\"}}\n";
  const SystemPlan apart = plan_of(waves("nearest") + reduce);
  ASSERT_EQ(apart.sweeps.size(), 2U);
  EXPECT_EQ(reduced_by(apart.sweeps[0]), (std::vector{1, 2}));
  EXPECT_EQ(reduced_by(apart.sweeps[1]), (std::vector{0}));
  const SystemPlan fused = plan_of(waves("periodic") + reduce);
  ASSERT_EQ(fused.sweeps.size(), 1U);
  EXPECT_EQ(reduced_by(fused.sweeps[0]), (std::vector{0, 1, 2}));
}

TEST(Reductions, TakeTheResultThatIsStored) {
  const SystemPlan plan = plan_of(waves("nearest") + "reduce: {late: {max: new(p)}}\n");
  EXPECT_EQ(plan.sweeps.at(1).reductions.at(0).node, plan.sweeps[1].results.at(0).node);
  EXPECT_EQ(plan.uses, plan_of(waves("nearest")).uses);
}

TEST(Reductions, RoundToTheStorageOfTheField) {
  const std::string keys = "stages: [{u: u + a}]\nreduce: {m: {max: new(u)}}\n";
  const auto operation = [&](const char* u, const char* a) {
    const SystemPlan plan =
        plan_of(fmt::format("fields: {{u: {{storage: {}}}, a: {{storage: {}}}}}\n{}", u, a, keys));
    return reduced_node(plan.sweeps.at(0)).operation;
  };
  EXPECT_EQ(operation("f16", "f32"), UpdateOperation::stored);
  EXPECT_EQ(operation("bf16", "f32"), UpdateOperation::stored);
  EXPECT_EQ(operation("f32", "f64"), UpdateOperation::stored);  // of doubles
  EXPECT_NE(operation("f32", "f32"), UpdateOperation::stored);
  EXPECT_NE(operation("f64", "f32"), UpdateOperation::stored);
}

TEST(Reductions, ReadWhatAnEarlierSweepHasWritten) {
  // u is there in the second sweep as a cell, without rounding anew.
  const SystemPlan plan = plan_of(waves("nearest", "{p: {}, u: {storage: f16}, v: {}, k: {}}") +
                                  "reduce: {m: {sum: new(u)*new(p)}}\n");
  ASSERT_EQ(plan.sweeps.size(), 2U);
  ASSERT_EQ(reduced_by(plan.sweeps[1]), (std::vector{0}));
  const UpdateNode& product = reduced_node(plan.sweeps[1]);
  ASSERT_EQ(product.arguments.size(), 2U);
  const UpdateNode& u = plan.sweeps[1].nodes.at(static_cast<std::size_t>(product.arguments[0]));
  EXPECT_EQ(u.operation, UpdateOperation::cell);
  EXPECT_EQ(u.which, 1);
}

TEST(Numbers, AreDoublesWhereAnyFieldIs) {
  EXPECT_FALSE(plan_of("fields: {u: {}, a: {storage: f16}}\nstages: [{u: u + a}]\n").in_doubles);
  EXPECT_TRUE(plan_of("fields: {u: {}, a: {storage: f64}}\nstages: [{u: u + a}]\n").in_doubles);
}

/// Sweeps of u with the neighbours' sum `s`.
SystemPlan plan_of_sums(const std::string& fields, const std::string& stages) {
  return plan_of(
      "fields: " + fields +
      "\noperators: {s: {shape: star, radius: 1, coefficients: {center: 0, y: [1, 1], x: [1, 1]}}}\n"
      "stages:\n  - " +
      stages + "\n");
}

TEST(Updates, AreSweepsThatReadOneFieldAroundThePoint) {
  const SystemPlan heat = plan_of_sums("[u]", "{u: 0.6*u + 0.1*s(u)}");
  ASSERT_TRUE(heat.sweeps[0].update);
  EXPECT_FALSE(heat.sweeps[0].update->spec.update) << "the sum is all";
  ASSERT_EQ(heat.sweeps[0].update->spec.taps.size(), 5U);
  EXPECT_EQ(heat.sweeps[0].update->spec.taps[2].weight, 0.6);
  const SystemPlan step = plan_of_sums("[u]", "{u: u + 0.1*(s(u) - 4*u)}");
  ASSERT_TRUE(step.sweeps[0].update);
  ASSERT_TRUE(step.sweeps[0].update->spec.update) << "an increment";
  EXPECT_EQ(step.sweeps[0].update->spec.taps[2].weight, -0.4);
  const SystemPlan wave = plan_of_sums("[u, k, w]", "{w: 2*u - w + k*(s(u) - 4*u)}");
  ASSERT_TRUE(wave.sweeps[0].update);
  EXPECT_EQ(wave.sweeps[0].update->input, 0);
  EXPECT_EQ(wave.sweeps[0].update->previous, 2);
  EXPECT_EQ(wave.sweeps[0].update->fields, std::vector{1});
  const SystemPlan two = plan_of_sums("[u, g]", "{g: \"s(u)^2 + (u[0, 1] - u)^2\"}");
  ASSERT_TRUE(two.sweeps[0].update);
  EXPECT_EQ(two.sweeps[0].update->spec.sums.size(), 2U);
}

TEST(Updates, AreNoOtherSweeps) {
  EXPECT_FALSE(plan_of_sums("[u, v]", "{u: s(u), v: s(v)}").sweeps[0].update) << "writes two";
  EXPECT_FALSE(plan_of_sums("[u, v]", "{u: s(u) + s(v)}").sweeps[0].update) << "reads two around the point";
  EXPECT_FALSE(plan_of_sums("[u, k]", "{u: s(k*u)}").sweeps[0].update) << "weights that vary";
  EXPECT_FALSE(plan_of("fields: [u, v]\nstages: [{u: u + v}]\n").sweeps[0].update) << "no sum";
  EXPECT_FALSE(plan_of_sums("{u: {}, k: {axes: [x]}}", "{u: k*s(u)}").sweeps[0].update)
      << "a field of one axis";
  EXPECT_FALSE(plan_of_sums("{u: {}, w: {storage: f16}}", "{w: \"sqrt(s(u))\"}").sweeps[0].update)
      << "converts";
  EXPECT_FALSE(plan_of_sums("{u: {}, w: {storage: f64}}", "{w: s(u)}").sweeps[0].update)
      << "f32 sums of doubles";
}

TEST(Updates, HaveNoFacesOfSystemsAlone) {
  for (const std::string rule : {"antireflect", "antimirror", "antisymmetric"}) {
    const SystemPlan plan =
        plan_of_sums("[u]", "{u: 0.6*u + 0.1*s(u)}\nboundary: {x: " + rule + ", y: nearest}");
    EXPECT_EQ(plan.sweeps[0].update.has_value(), rule == "antisymmetric") << rule;
  }
}

TEST(Updates, AreAsAccurateAsF32) {
  const SystemPlan exact = plan_of_sums("{u: {storage: f16}}", "{u: 0.6*u + 0.1*s(u)}");
  ASSERT_TRUE(exact.sweeps[0].update);
  EXPECT_EQ(exact.sweeps[0].update->plan.engine, Engine::sparse) << "f16 has 6, times 0.1";
  EXPECT_LE(exact.sweeps[0].update->plan.error_bound.sum, 0x1p-16);
  const SystemPlan wide = plan_of(
      "fields: {u: {storage: f16}, w: {storage: f16}}\n"
      "operators: {s: {shape: gaussian, sigma: 5, truncate: 3}}\n"
      "stages: [{w: s(u)}]\n");
  EXPECT_FALSE(wide.sweeps[0].update) << "its weights are not f16 numbers, and CUDA cores have 961 to add";
}

}  // namespace
}  // namespace spidergen::plan
