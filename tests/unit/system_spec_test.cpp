/// Systems of equations as they are read: stages, operators, offsets, values, reductions.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "spec/finite_differences.h"
#include "spec/read_spec.h"

namespace spidergen::spec {
namespace {

const std::string head = "stencil: t\ndimensions: 2\nstorage: f32\n";
const std::string differences =
    "operators:\n"
    "  dxp: {shape: derivative, order: {x: 1}, at: {x: 1/2}}\n"
    "  dxm: {shape: derivative, order: {x: 1}, at: {x: -1/2}}\n"
    "  dyp: {shape: derivative, order: {y: 1}, at: {y: 1/2}}\n"
    "  dym: {shape: derivative, order: {y: 1}, at: {y: -1/2}}\n";

std::string messages(const ReadResult& result) {
  std::string out;
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) out += to_string(diagnostic) + '\n';
  return out;
}

SystemSpec read(const std::string& text) {
  const ReadResult result = read_spec({"t.yaml", text}, {});
  EXPECT_EQ(messages(result), "");
  EXPECT_TRUE(result.system.has_value());
  return result.system.value_or(SystemSpec());
}

/// A node as a text: cells as `u[0,1]`, every operation in parentheses.
std::string text_of(const SystemSpec& spec, int place) {
  const UpdateNode& node = spec.nodes.at(static_cast<std::size_t>(place));
  std::vector<std::string> arguments;
  for (const int argument : node.arguments) {
    EXPECT_LT(argument, place) << "arguments come first";
    arguments.push_back(text_of(spec, argument));
  }
  const auto joined = [&](const std::string& symbol) {
    return "(" + arguments.at(0) + " " + symbol + " " + arguments.at(1) + ")";
  };
  const std::size_t which = static_cast<std::size_t>(node.which);
  switch (node.operation) {
    case UpdateOperation::number:
      return fmt::format("{}", node.value);
    case UpdateOperation::cell: {
      std::string at;
      for (int axis = 3 - spec.dimensions; axis < 3; ++axis)
        at += (at.empty() ? "" : ",") + std::to_string(node.at.at(static_cast<std::size_t>(axis)));
      return spec.fields.at(which).name + "[" + at + "]";
    }
    case UpdateOperation::written:
      return "new(" + spec.fields.at(which).name + ")";
    case UpdateOperation::scalar:
      return spec.scalars.at(which);
    case UpdateOperation::index:
      return fmt::format("i{}", axis_letters.at(which));
    case UpdateOperation::extent:
      return fmt::format("n{}", axis_letters.at(which));
    case UpdateOperation::negate:
      return "-" + arguments.at(0);
    case UpdateOperation::add:
      return joined("+");
    case UpdateOperation::subtract:
      return joined("-");
    case UpdateOperation::multiply:
      return joined("*");
    case UpdateOperation::divide:
      return joined("/");
    case UpdateOperation::less:
      return joined("<");
    case UpdateOperation::choose:
      return "(" + arguments.at(0) + " ? " + arguments.at(1) + " : " + arguments.at(2) + ")";
    case UpdateOperation::call:
      return node.function + "(" + fmt::format("{}", fmt::join(arguments, ", ")) + ")";
    default:
      ADD_FAILURE() << "an operation that this text does not know";
      return "?";
  }
}

/// What becomes of the first field of the first stage.
std::string first_of(const std::string& text) {
  const SystemSpec spec = read(text);
  if (spec.stages.empty() || spec.stages.front().assignments.empty()) return "nothing";
  return text_of(spec, spec.stages.front().assignments.front().node);
}

std::string of_expression(const std::string& expression, const std::string& keys = "") {
  return first_of(head + "fields: [u]\n" + keys + "stages:\n  - u: " + expression + "\n");
}

std::vector<std::pair<Offset, double>> taps(const std::string& derivative) {
  const ReadResult result = read_spec({"t.yaml", head + "shape: derivative\n" + derivative + "\n"}, {});
  EXPECT_EQ(messages(result), "");
  std::vector<std::pair<Offset, double>> all;
  for (const Tap& tap : result.spec.taps) all.emplace_back(tap.at, tap.weight);
  return all;
}

using Taps = std::vector<std::pair<Offset, double>>;

// ---- derivatives between points ----

TEST(Halves, HaveTheirExactWeights) {
  EXPECT_EQ(taps("order: {x: 1}\nat: {x: 1/2}"), (Taps{{{0, 0, 0}, -1.0}, {{0, 0, 1}, 1.0}}));
  EXPECT_EQ(taps("order: {x: 1}\nat: {x: -1/2}"), (Taps{{{0, 0, -1}, -1.0}, {{0, 0, 0}, 1.0}}));
  EXPECT_EQ(
      taps("order: {x: 1}\naccuracy: 4\nat: {x: 1/2}"),
      (Taps{{{0, 0, -1}, 1.0 / 24}, {{0, 0, 0}, -9.0 / 8}, {{0, 0, 1}, 9.0 / 8}, {{0, 0, 2}, -1.0 / 24}}));
  EXPECT_EQ(
      taps("order: {y: 1}\naccuracy: 4\nat: {y: -1/2}\nspacing: 2"),
      (Taps{{{0, -2, 0}, 1.0 / 48}, {{0, -1, 0}, -9.0 / 16}, {{0, 0, 0}, 9.0 / 16}, {{0, 1, 0}, -1.0 / 48}}));
}

TEST(Halves, AreOfOneAxisOrMore) {
  EXPECT_EQ(taps("order: {y: 1, x: 1}\nat: {y: 1/2, x: -1/2}"),
            (Taps{{{0, 0, -1}, 1.0}, {{0, 0, 0}, -1.0}, {{0, 1, -1}, -1.0}, {{0, 1, 0}, 1.0}}));
  EXPECT_EQ(taps("order: {y: 1, x: 1}\nat: {x: 0.5}"),
            (Taps{{{0, -1, 0}, 0.5}, {{0, -1, 1}, -0.5}, {{0, 1, 0}, -0.5}, {{0, 1, 1}, 0.5}}));
}

/// The difference of x^k at 0 is k! where k is the order, 0 for every other power below the degree.
TEST(Halves, AreExactForPolynomialsOfEveryOrder) {
  for (int order = 1; order <= 8; ++order) {
    for (int accuracy = 2; accuracy <= 8; accuracy += 2) {
      const int radius = staggered_radius(order, accuracy);
      const std::vector<Rational> weights = staggered_weights(order, radius);
      ASSERT_EQ(weights.size(), static_cast<std::size_t>(2 * radius));
      for (int degree = 0; degree < order + accuracy; ++degree) {
        Rational sum = 0;
        for (int i = 0; i < 2 * radius; ++i) {
          Rational power = weights.at(static_cast<std::size_t>(i));
          for (int k = 0; k < degree; ++k) power *= 2 * (i - radius) + 1;
          sum += power;
        }
        Rational expected = degree == order ? 1 : 0;
        for (int k = 1; k <= order; ++k) expected *= 2 * k;  // distances are in halves
        EXPECT_EQ(sum, expected) << "order " << order << ", accuracy " << accuracy << ", degree " << degree;
      }
    }
  }
}

// ---- expressions ----

TEST(SystemExpressions, OperatorsBecomeSumsOfCells) {
  EXPECT_EQ(of_expression("dxp(u)", differences.substr(0, differences.find("  dxm"))), "(-u[0,0] + u[0,1])");
  EXPECT_EQ(of_expression("lap(u)",
                          "operators: {lap: {shape: star, coefficients: {center: -4, y: [1, 1], x: "
                          "[1, 1]}}}\n"),
            "((((u[-1,0] + u[0,-1]) + (-4 * u[0,0])) + u[0,1]) + u[1,0])");
}

TEST(SystemExpressions, OperatorsTakeExpressions) {
  const std::string keys =
      "scalars: [k]\noperators: {d: {shape: taps, coefficients: [{at: [0, 0], weight: -1}, "
      "{at: [1, 0], weight: 1}]}}\n";
  EXPECT_EQ(of_expression("d(k*u)", keys), "(-(k * u[0,0]) + (k * u[1,0]))");
  EXPECT_EQ(of_expression("d(k*d(u))", keys), "(-(k * (-u[0,0] + u[1,0])) + (k * (-u[1,0] + u[2,0])))");
  EXPECT_EQ(of_expression("u + d(k)", keys), "(u[0,0] + 0)") << "the same everywhere";
  EXPECT_EQ(of_expression("k*u + d(2)", keys), "((k * u[0,0]) + 0)");
}

TEST(SystemExpressions, IndicesAreThoseOfTheTap) {
  const std::string keys = "operators: {e: {shape: taps, coefficients: [{at: [0, 2], weight: 3}]}}\n";
  EXPECT_EQ(of_expression("e(ix*u)", keys), "(3 * ((ix + 2) * u[0,2]))");
  EXPECT_EQ(of_expression("e(e(ix*u))", keys), "(3 * (3 * ((ix + 4) * u[0,4])))");
  EXPECT_EQ(of_expression("e(iy + nx + u)", keys), "(3 * ((iy + nx) + u[0,2]))");
  EXPECT_EQ(of_expression("\"e(ix < 3 ? u : 0)\"", keys), "(3 * (((ix + 2) < 3) ? u[0,2] : 0))");
}

TEST(SystemExpressions, OffsetsNameNeighbours) {
  EXPECT_EQ(of_expression("u[0, 1] - u[-1, 0]"), "(u[0,1] - u[-1,0])");
  EXPECT_EQ(of_expression("u[0, 2*r + 1] + u[ 0 , 0 ]", "parameters: {r: 2}\n"), "(u[0,5] + u[0,0])");
  EXPECT_EQ(of_expression("u[0, -(1)]"), "u[0,-1]");
}

TEST(SystemExpressions, LetNamesValues) {
  const std::string fields = head + "fields: [u, v]\n";
  EXPECT_EQ(first_of(fields + "stages:\n  - let: {w: u*v, twice: 2*w}\n    u: twice[0, 1] + w\n"),
            "((2 * (u[0,1] * v[0,1])) + (u[0,0] * v[0,0]))");
  EXPECT_EQ(first_of(fields + differences.substr(0, differences.find("  dxm")) +
                     "stages:\n  - u: dxp(w)\n    let: {w: u*v}\n"),
            "(-(u[0,0] * v[0,0]) + (u[0,1] * v[0,1]))")
      << "wherever it stands in the stage";
  const SystemSpec twice = read(fields + "stages:\n  - {let: {w: 2*u}, v: w}\n  - {let: {w: 3*v}, u: w}\n");
  EXPECT_EQ(text_of(twice, twice.stages.at(1).assignments.at(0).node), "(3 * v[0,0])");
}

TEST(SystemExpressions, AreThereOnce) {
  const SystemSpec spec =
      read(head + "fields: [u, v, w]\n" + differences.substr(0, differences.find("  dxm")) +
           "stages:\n  - u: v*dxp(w)\n    v: dxp(w) - w\n    w: v[0, 0]*dxp(w)\n");
  ASSERT_EQ(spec.stages.front().assignments.size(), 3U);
  EXPECT_EQ(spec.stages.front().assignments.at(0).node, spec.stages.front().assignments.at(2).node);
  for (std::size_t i = 0; i < spec.nodes.size(); ++i) {
    EXPECT_EQ(std::count(spec.nodes.begin(), spec.nodes.end(), spec.nodes.at(i)), 1) << "node " << i;
  }
  EXPECT_EQ(spec.nodes.size(), 7U) << "v, two of w, negate, add, multiply, subtract";
}

TEST(SystemExpressions, FieldsWithoutAnAxisHaveNoOffsetThere) {
  const std::string start = head + "fields: {u: {}, h: {axes: [x]}}\n" + differences;
  const std::string stages = "stages:\n  - u: u + dxp(h)*dym(h*u) + dyp(h) + dxm(u)\n";
  EXPECT_EQ(
      first_of(start + stages),
      "(((u[0,0] + ((-h[0,0] + h[0,1]) * (-(h[0,0] * u[-1,0]) + (h[0,0] * u[0,0])))) + 0) + (-u[0,-1] + "
      "u[0,0]))");
  EXPECT_EQ(first_of(head + "fields: {u: {}, h: {axes: [x]}}\nstages:\n  - u: h[3, 1] + u\n"),
            "(h[0,1] + u[0,0])");
}

// ---- the whole ----

TEST(SystemSpec, HasItsParts) {
  const SystemSpec spec = read(
      head +
      "description: two of it\n"
      "parameters: {c: 2}\nscalars: [dt]\n"
      "fields: {u: {}, v: {storage: f16, boundary: {x: periodic}}, k: {storage: bf16}, hy: {axes: [y]}}\n"
      "stages:\n"
      "  - u: u + dt*v*hy\n"
      "  - v: v + c*k*u\n"
      "    k: 2*u\n"
      "reduce: {change: {max: \"abs(new(u) - u)\"}, mass: {sum: u}, least: {min: new(v)}}\n"
      "boundary: {y: {low: {constant: 1}, high: nearest}, x: mirror}\n");
  EXPECT_EQ(spec.name, "t");
  EXPECT_EQ(spec.description, "two of it");
  EXPECT_EQ(spec.source_name, "t.yaml");
  EXPECT_EQ(spec.source_hash.size(), 16U);
  EXPECT_EQ(spec.where.line, 8);
  EXPECT_EQ(spec.scalars, std::vector<std::string>{"dt"});
  ASSERT_EQ(spec.fields.size(), 4U);
  EXPECT_EQ(spec.fields.at(1).storage, Storage::f16);
  EXPECT_EQ(spec.fields.at(2).storage, Storage::bf16);
  EXPECT_EQ(spec.fields.at(3).axes, (std::array<bool, 3>{false, true, false}));
  EXPECT_EQ(spec.fields.at(0).axes, (std::array<bool, 3>{false, true, true}));
  EXPECT_EQ(spec.fields.at(0).boundary.at(axis_y).low.rule, BoundaryRule::constant);
  EXPECT_EQ(spec.fields.at(0).boundary.at(axis_x).high.rule, BoundaryRule::mirror);
  EXPECT_EQ(spec.fields.at(1).boundary.at(axis_y).low.rule, BoundaryRule::halo)
      << "its own is the whole of it";
  EXPECT_EQ(spec.fields.at(1).boundary.at(axis_x).low.rule, BoundaryRule::periodic);
  EXPECT_EQ(spec.fields.at(3).boundary.at(axis_x).low.rule, BoundaryRule::halo) << "it has no cells there";
  ASSERT_EQ(spec.stages.size(), 2U);
  ASSERT_EQ(spec.stages.at(1).assignments.size(), 2U);
  EXPECT_EQ(spec.stages.at(1).assignments.at(0).field, 1);
  EXPECT_EQ(spec.stages.at(1).assignments.at(0).text, "v + c*k*u");
  ASSERT_EQ(spec.reductions.size(), 3U);
  EXPECT_EQ(spec.reductions.at(0).kind, ReductionKind::max);
  EXPECT_EQ(text_of(spec, spec.reductions.at(0).node), "abs((new(u) - u[0,0]))");
  EXPECT_EQ(spec.reductions.at(1).kind, ReductionKind::sum);
  EXPECT_EQ(text_of(spec, spec.reductions.at(2).node), "new(v)");
}

TEST(SystemSpec, RefusesGrowthBeforeItHappens) {
  const std::string box = "operators: {b: {shape: formula, radius: 20, weight: 1 + x + y^2}}\n";
  std::string expression = "u";
  for (int i = 0; i < 8; ++i) expression = "b(sin(" + expression + ")*u)";
  const ReadResult result =
      read_spec({"t.yaml", head + "fields: [u]\n" + box + "stages:\n  - u: " + expression + "\n"}, {});
  EXPECT_NE(messages(result).find("more than 20000 operations"), std::string::npos) << messages(result);
  EXPECT_EQ(result.diagnostics.items.size(), 1U) << "told once";
}

TEST(SystemSpec, ReadsSumsAsDeepAsTheyAre) {
  const std::string line = "operators: {b: {shape: formula, radius: {y: 0, x: 1200}, weight: 1 + x^2}}\n";
  const SystemSpec spec = read(head + "fields: [u]\n" + line + "stages:\n  - u: b(u) + 0*u\n");
  EXPECT_GT(spec.nodes.size(), 2400U);
  EXPECT_NE(messages(read_spec({"t.yaml", head + "fields: [u]\n" + line + "stages:\n  - u: b(b(u))\n"}, {})),
            "");
}

}  // namespace
}  // namespace spidergen::spec
