#include <gtest/gtest.h>

#include <clocale>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <regex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "spec/finite_differences.h"
#include "spec/names.h"
#include "spec/read_spec.h"

namespace spidergen::spec {
namespace {

const std::string head = "stencil: t\ndimensions: 2\nstorage: f16\n";
const std::string point = "shape: taps\ncoefficients: [{at: [0, 0], weight: 1}]\n";

std::string messages(const ReadResult& result) {
  std::string out;
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) out += to_string(diagnostic) + '\n';
  return out;
}

StencilSpec read(const std::string& text, const std::vector<ParameterOverride>& overrides = {}) {
  const ReadResult result = read_spec({"folder/t.yaml", text}, overrides);
  EXPECT_EQ(messages(result), "");
  return result.spec;
}

using Weights = std::map<Offset, double>;

Weights weights(const StencilSpec& spec) {
  Weights out;
  for (const Tap& tap : spec.taps) out[tap.at] = tap.weight;
  EXPECT_EQ(out.size(), spec.taps.size());
  return out;
}

Weights weights(const std::string& text) {
  return weights(read(text));
}

std::string with_dimensions(int dimensions, const std::string& rest) {
  return "stencil: t\ndimensions: " + std::to_string(dimensions) + "\nstorage: f16\n" + rest;
}

// ---- coefficients ----

TEST(Sums, EachHasAShapeOfItsOwn) {
  const StencilSpec spec =
      read(head +
           "parameters: {h: 2}\n"
           "sums:\n"
           "  gx: {shape: derivative, order: {x: 1}, spacing: h}\n"
           "  mean: {shape: star, coefficients: {center: 1, y: [3, 4], x: []}, scale: 1/8, center: 1}\n"
           "  g2: {shape: gaussian, sigma: {y: 0, x: 1}, truncate: 1}\n"
           "update: g2 + gx * mean * gx\n");
  EXPECT_EQ(spec.sums,
            (std::vector<Sum>{{"gx", Shape::derivative}, {"mean", Shape::star}, {"g2", Shape::gaussian}}));
  std::map<std::pair<Offset, int>, double> taps;
  for (const Tap& tap : spec.taps) taps[{tap.at, tap.sum}] = tap.weight;
  const double side = taps.at({{0, 0, 1}, 2});
  EXPECT_NEAR(side, 0.2741, 1e-4);
  const std::map<std::pair<Offset, int>, double> expected = {{{{0, -1, 0}, 1}, 0.375},
                                                             {{{0, 0, -1}, 0}, -0.25},
                                                             {{{0, 0, -1}, 2}, side},
                                                             {{{0, 0, 0}, 1}, 1.125},
                                                             {{{0, 0, 0}, 2}, taps.at({{0, 0, 0}, 2})},
                                                             {{{0, 0, 1}, 0}, 0.25},
                                                             {{{0, 0, 1}, 2}, side},
                                                             {{{0, 1, 0}, 1}, 0.5}};
  EXPECT_EQ(taps, expected);
  EXPECT_TRUE(std::is_sorted(spec.taps.begin(), spec.taps.end(), [](const Tap& a, const Tap& b) {
    return std::pair(a.at, a.sum) < std::pair(b.at, b.sum);
  }));
  ASSERT_TRUE(spec.update);
  std::vector<int> which;
  for (const UpdateNode& node : spec.update->nodes) {
    if (node.operation == UpdateOperation::sum) which.push_back(node.which);
  }
  EXPECT_EQ(which, (std::vector<int>{2, 0, 1}));
}

TEST(Sums, OneByItselfNeedsNoUpdate) {
  const StencilSpec spec = read(head + "sums: {only: {shape: laplacian}}\nupdate: only\n");
  EXPECT_FALSE(spec.update);
  EXPECT_EQ(spec.sums, (std::vector<Sum>{{"only", Shape::laplacian}}));
  EXPECT_EQ(weights(spec), weights(head + "shape: laplacian\n"));
  const StencilSpec updated = read(head + "sums: {only: {shape: laplacian}}\nupdate: -only\n");
  EXPECT_TRUE(updated.update);
}

TEST(Coefficients, BoxIsSlowestAxisFirst) {
  const Weights expected = {{{0, -1, -1}, 1}, {{0, -1, 0}, 2}, {{0, -1, 1}, 3},
                            {{0, 0, -1}, 4},  {{0, 0, 0}, 5},  {{0, 0, 1}, 6},
                            {{0, 1, -1}, 7},  {{0, 1, 0}, 8},  {{0, 1, 1}, 9}};
  EXPECT_EQ(weights(head + "shape: box\ncoefficients: [[1, 2, 3], [4, 5, 6], [7, 8, 9]]\n"), expected);
  EXPECT_EQ(weights(head + "shape: box\nradius: 1\ncoefficients:\n- [1, 2, 3]\n- [4, 5, 6]\n- [7, 8, 9]\n"),
            expected);
}

TEST(Coefficients, BoxOfOneAndThreeDimensionsAndOfUnequalRadii) {
  EXPECT_EQ(weights(with_dimensions(1, "shape: box\ncoefficients: [1, 2, 3]\n")),
            (Weights{{{0, 0, -1}, 1}, {{0, 0, 0}, 2}, {{0, 0, 1}, 3}}));
  EXPECT_EQ(weights(with_dimensions(
                3, "shape: box\nradius: {z: 1, y: 0, x: 0}\ncoefficients: [[[1]], [[2]], [[3]]]\n")),
            (Weights{{{-1, 0, 0}, 1}, {{0, 0, 0}, 2}, {{1, 0, 0}, 3}}));
  EXPECT_EQ(weights(head + "shape: box\nradius: {y: 0, x: 1}\ncoefficients: [[1, 2, 3]]\n"),
            (Weights{{{0, 0, -1}, 1}, {{0, 0, 0}, 2}, {{0, 0, 1}, 3}}));
}

TEST(Coefficients, StarWithCenter) {
  EXPECT_EQ(weights(head + "shape: star\ncoefficients: {center: 9, y: [1, 2], x: [3, 4, 5, 6]}\n"),
            (Weights{{{0, -1, 0}, 1},
                     {{0, 1, 0}, 2},
                     {{0, 0, -2}, 3},
                     {{0, 0, -1}, 4},
                     {{0, 0, 0}, 9},
                     {{0, 0, 1}, 5},
                     {{0, 0, 2}, 6}}));
  EXPECT_EQ(weights(head + "shape: star\ncoefficients: {center: 9, y: [], x: [3, 4]}\n"),
            (Weights{{{0, 0, -1}, 3}, {{0, 0, 0}, 9}, {{0, 0, 1}, 4}}));
}

TEST(Coefficients, StarWithoutCenterAddsTheMiddles) {
  EXPECT_EQ(weights(with_dimensions(
                3, "shape: star\nradius: 1\ncoefficients: {z: [1, 10, 2], y: [3, 20, 4], x: [5, 40, 6]}\n")),
            (Weights{{{-1, 0, 0}, 1},
                     {{1, 0, 0}, 2},
                     {{0, -1, 0}, 3},
                     {{0, 1, 0}, 4},
                     {{0, 0, -1}, 5},
                     {{0, 0, 1}, 6},
                     {{0, 0, 0}, 70}}));
}

TEST(Coefficients, ProductIsTheOuterProduct) {
  const Weights found =
      weights(head + "shape: product\nscale: 1/4\ncoefficients: {x: [1, 2, 3], y: [5, 0, 7]}\n");
  EXPECT_EQ(found, (Weights{{{0, -1, -1}, 1.25},
                            {{0, -1, 0}, 2.5},
                            {{0, -1, 1}, 3.75},
                            {{0, 1, -1}, 1.75},
                            {{0, 1, 0}, 3.5},
                            {{0, 1, 1}, 5.25}}));
  EXPECT_EQ(weights(with_dimensions(1, "shape: product\ncoefficients: {x: [1, 2, 3]}\n")).size(), 3U);
  EXPECT_EQ(
      weights(with_dimensions(3, "shape: product\ncoefficients: {z: [1, 2, 3], y: [4], x: [5, 6, 7]}\n"))
          .size(),
      9U);
}

TEST(Coefficients, TapsTakeListsAndMappings) {
  EXPECT_EQ(weights(head + "shape: taps\ncoefficients:\n"
                           "  - {at: [1, -31], weight: 2}\n"
                           "  - {at: {x: -2}, weight: 3}\n"
                           "  - {weight: 1/8, at: {\"y\": -3/3, x: 2*2}}\n"
                           "  - {at: {}, weight: 4}\n"),
            (Weights{{{0, 1, -31}, 2}, {{0, 0, -2}, 3}, {{0, -1, 4}, 0.125}, {{0, 0, 0}, 4}}));
  EXPECT_EQ(weights(with_dimensions(3, "shape: taps\ncoefficients: [{at: [1, 2, 3], weight: 1}]\n")),
            (Weights{{{1, 2, 3}, 1}}));
  EXPECT_EQ(weights(with_dimensions(1, "shape: taps\ncoefficients: [{at: [7], weight: 1}]\n")),
            (Weights{{{0, 0, 7}, 1}}));
}

TEST(Coefficients, TapsAreSortedLocatedAndWithoutZeros) {
  const StencilSpec spec = read(head +
                                "shape: taps\ncoefficients:\n"
                                "  - {at: [1, 0], weight: 1}\n"
                                "  - {at: [0, 5], weight: 0}\n"
                                "  - {at: [0, -1], weight: 2}\n");
  ASSERT_EQ(spec.taps.size(), 2U);
  EXPECT_EQ(spec.taps[0].at, (Offset{0, 0, -1}));
  EXPECT_EQ(spec.taps[0].where, (diag::SourceLocation{"folder/t.yaml", 8, 27}));
  EXPECT_EQ(spec.taps[1].at, (Offset{0, 1, 0}));
}

// ---- shapes that make their coefficients ----

/// The weights along x, lowest offset first, times `unit`.
std::vector<double> along_x(const std::string& shape, double unit = 1) {
  std::vector<double> found;
  for (const auto& [at, weight] : weights("stencil: t\ndimensions: 1\nstorage: f32\n" + shape))
    found.push_back(weight * unit);
  return found;
}

// B. Fornberg, Generation of finite difference formulas on arbitrarily spaced grids, table 1. Middle weights
// of odd derivatives are 0, and dropped.
TEST(Differences, AreThoseOfFornbergsTable) {
  const auto expect = [](const std::string& order, int accuracy, const std::vector<double>& weights) {
    EXPECT_EQ(
        along_x("shape: derivative\norder: {x: " + order + "}\naccuracy: " + std::to_string(accuracy) + '\n'),
        weights)
        << order << ' ' << accuracy;
  };
  expect("1", 2, {-1. / 2, 1. / 2});
  expect("1", 4, {1. / 12, -2. / 3, 2. / 3, -1. / 12});
  expect("1", 6, {-1. / 60, 3. / 20, -3. / 4, 3. / 4, -3. / 20, 1. / 60});
  expect("1", 8, {1. / 280, -4. / 105, 1. / 5, -4. / 5, 4. / 5, -1. / 5, 4. / 105, -1. / 280});
  expect("2", 2, {1, -2, 1});
  expect("2", 4, {-1. / 12, 4. / 3, -5. / 2, 4. / 3, -1. / 12});
  expect("2", 6, {1. / 90, -3. / 20, 3. / 2, -49. / 18, 3. / 2, -3. / 20, 1. / 90});
  expect("2", 8, {-1. / 560, 8. / 315, -1. / 5, 8. / 5, -205. / 72, 8. / 5, -1. / 5, 8. / 315, -1. / 560});
  expect("3", 2, {-1. / 2, 1, -1, 1. / 2});
  expect("3", 4, {1. / 8, -1, 13. / 8, -13. / 8, 1, -1. / 8});
  expect("4", 2, {1, -4, 6, -4, 1});
  expect("4", 4, {-1. / 6, 2, -13. / 2, 28. / 3, -13. / 2, 2, -1. / 6});
}

// A difference of order m and accuracy p over r points on each side is exact for polynomials of degree 2 r.
TEST(Differences, AreExactForPolynomials) {
  for (int order = 1; order <= 6; ++order) {
    for (int accuracy = 2; accuracy <= 12; accuracy += 2) {
      const int radius = difference_radius(order, accuracy);
      const std::vector<Rational> found = difference_weights(order, radius);
      for (int degree = 0; degree <= 2 * radius; ++degree) {
        Rational sum = 0;
        for (int x = -radius; x <= radius; ++x) {
          Rational power = 1;
          for (int i = 0; i < degree; ++i) power *= x;
          sum += found[static_cast<std::size_t>(x + radius)] * power;
        }
        Rational factorial = degree == order ? 1 : 0;
        for (int i = 2; i <= order; ++i) factorial *= i;
        EXPECT_EQ(sum, factorial) << order << ' ' << accuracy << ' ' << degree;
      }
    }
  }
}

TEST(Differences, AreDividedByTheSpacingAndRoundedOnce) {
  // In doubles 0.1 * 0.1 is 0.010000000000000002, and its reciprocal 99.99999999999999.
  EXPECT_EQ(along_x("shape: laplacian\nspacing: 0.1\n"),
            (std::vector<double>{99.99999999999999, -199.99999999999997, 99.99999999999999}));
  EXPECT_EQ(along_x("shape: derivative\norder: {x: 4}\nspacing: {x: 2}\n", 16),
            (std::vector<double>{1, -4, 6, -4, 1}));
}

TEST(Differences, OfSeveralAxesMultiply) {
  EXPECT_EQ(weights(head + "shape: derivative\norder: {y: 1, x: 1}\nspacing: {y: 0.5, x: 1}\n"),
            (Weights{{{0, -1, -1}, 0.5}, {{0, -1, 1}, -0.5}, {{0, 1, -1}, -0.5}, {{0, 1, 1}, 0.5}}));
  EXPECT_EQ(weights(head + "shape: derivative\norder: {y: 2}\nspacing: {y: 0.5}\nradius: {y: 1, x: 0}\n"),
            (Weights{{{0, -1, 0}, 4}, {{0, 0, 0}, -8}, {{0, 1, 0}, 4}}));
}

TEST(Differences, LaplacianAddsTheAxes) {
  EXPECT_EQ(weights(with_dimensions(3, "shape: laplacian\nspacing: {z: 1, y: 0.5, x: 0.25}\n")),
            (Weights{{{0, 0, 0}, -42},
                     {{-1, 0, 0}, 1},
                     {{1, 0, 0}, 1},
                     {{0, -1, 0}, 4},
                     {{0, 1, 0}, 4},
                     {{0, 0, -1}, 16},
                     {{0, 0, 1}, 16}}));
}

TEST(Gaussian, IsThatOfSciPy) {
  // scipy.ndimage.gaussian_filter1d([0, 0, 0, 1, 0, 0, 0], sigma=0.8, mode="constant")
  const std::vector<double> expected = {0.00044074336693235636, 0.0219103141713648,  0.22831071645846546,
                                        0.49867645200647487,    0.22831071645846546, 0.0219103141713648,
                                        0.00044074336693235636};
  const std::vector<double> found = along_x("shape: gaussian\nsigma: 0.8\nradius: 3\n");
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-15) << i;
  EXPECT_EQ(along_x("shape: gaussian\nsigma: 0.8\ntruncate: 2\n").size(), 5);
}

TEST(Gaussian, SumsToOneAndLeavesAxesOut) {
  const Weights found = weights(with_dimensions(3, "shape: gaussian\nsigma: {z: 0, y: 1, x: 2}\n"));
  EXPECT_EQ(found.size(), 9U * 17U);
  double sum = 0;
  for (const auto& [at, weight] : found) {
    sum += weight;
    EXPECT_EQ(weight, found.at({0, -at[1], at[2]}));
    EXPECT_EQ(weight, found.at({0, at[1], -at[2]}));
  }
  EXPECT_NEAR(sum, 1, 1e-15);
}

TEST(Formula, IsComputedForEachOffset) {
  EXPECT_EQ(weights(head + "parameters: {a: 10}\nshape: formula\nradius: {y: 1, x: 1}\nweight: a*y + x\n"),
            (Weights{{{0, -1, -1}, -11},
                     {{0, -1, 0}, -10},
                     {{0, -1, 1}, -9},
                     {{0, 0, -1}, -1},
                     {{0, 0, 1}, 1},
                     {{0, 1, -1}, 9},
                     {{0, 1, 0}, 10},
                     {{0, 1, 1}, 11}}));
}

TEST(Formula, KeepsItsOffsetsToItself) {
  const ReadResult result =
      read_spec({"t.yaml", head + "shape: formula\nradius: 0\nweight: 1 + x\nboundary: {constant: x}\n"}, {});
  EXPECT_EQ(messages(result),
            "t.yaml:7:22: error: the constant of a boundary: unknown name 'x'; known here: 'pi'\n");
}

TEST(Center, IsAddedToTheScaledMiddleOfEveryShape) {
  EXPECT_EQ(weights(head + "shape: laplacian\nscale: 0.125\ncenter: 1\n"), (Weights{{{0, -1, 0}, 0.125},
                                                                                    {{0, 0, -1}, 0.125},
                                                                                    {{0, 0, 0}, 0.5},
                                                                                    {{0, 0, 1}, 0.125},
                                                                                    {{0, 1, 0}, 0.125}}));
  EXPECT_EQ(weights(head + "shape: product\nscale: 2\ncenter: -1\ncoefficients: {y: [1], x: [1, 2, 1]}\n"),
            (Weights{{{0, 0, -1}, 2}, {{0, 0, 0}, 3}, {{0, 0, 1}, 2}}));
  EXPECT_EQ(weights(head + "shape: box\ncenter: -2\ncoefficients: [[1, 2, 1]]\n"),
            (Weights{{{0, 0, -1}, 1}, {{0, 0, 1}, 1}}));
  EXPECT_EQ(weights(head + "shape: derivative\norder: {x: 1}\ncenter: 3\n"),
            (Weights{{{0, 0, -1}, -0.5}, {{0, 0, 0}, 3}, {{0, 0, 1}, 0.5}}));
  EXPECT_EQ(weights(head + "shape: taps\ncenter: 3\ncoefficients: [{at: [1, 1], weight: 2}]\n"),
            (Weights{{{0, 0, 0}, 3}, {{0, 1, 1}, 2}}));
}

TEST(Coefficients, TheLargestWeightsOfEachStorage) {
  for (const auto& [storage, largest] : std::map<std::string, std::string>{
           {"f16", "65504"}, {"bf16", "3.3895313892515355e38"}, {"f32", "3.4028234663852886e38"}}) {
    const std::string start = "stencil: t\ndimensions: 2\nstorage: " + storage +
                              "\nshape: taps\ncoefficients: [{at: [0, 0], weight: ";
    EXPECT_EQ(weights(start + "-" + largest + "}]\n").size(), 1U);
    EXPECT_TRUE(read_spec({"t.yaml", start + largest + "*1.001}]\n"}, {}).diagnostics.has_errors())
        << storage;
  }
}

// ---- parameters ----

TEST(Parameters, GoFromTopToBottom) {
  const StencilSpec spec =
      read(head +
           "parameters: {kappa: 0.01, dt: 0.1, dx: 0.1, alpha: kappa*dt/dx^2}\n"
           "shape: star\ncoefficients: {center: 1 - 4*alpha, y: [alpha, alpha], x: [alpha, alpha]}\n");
  ASSERT_EQ(spec.parameters.size(), 4U);
  EXPECT_EQ(spec.parameters[3].name, "alpha");
  EXPECT_EQ(spec.parameters[3].expression, "kappa*dt/dx^2");
  EXPECT_DOUBLE_EQ(spec.parameters[3].value, 0.1);
  EXPECT_FALSE(spec.parameters[3].overridden);
  EXPECT_DOUBLE_EQ(weights(spec).at({0, 0, 0}), 0.6);
}

TEST(Parameters, AreOverriddenInTheirPlaces) {
  const std::string text = head +
                           "parameters: {a: 1, b: 2*a, c: a + b}\n"
                           "shape: taps\ncoefficients: [{at: [0, 0], weight: c}]\n";
  EXPECT_EQ(read(text).taps[0].weight, 3.0);
  EXPECT_EQ(read(text, {{"a", "1/2"}}).taps[0].weight, 1.5);
  const StencilSpec spec = read(text, {{"b", "10*a"}});
  EXPECT_EQ(spec.taps[0].weight, 11.0);
  EXPECT_TRUE(spec.parameters[1].overridden);
  EXPECT_EQ(spec.parameters[1].expression, "10*a");
  EXPECT_TRUE(read_spec({"t.yaml", text}, {{"b", "c"}}).diagnostics.has_errors()) << "c comes later";
  EXPECT_TRUE(read_spec({"t.yaml", text}, {{"a", "1"}, {"a", "2"}}).diagnostics.has_errors());
  const ReadResult unknown = read_spec({"t.yaml", text}, {{"d", "1"}});
  ASSERT_EQ(unknown.diagnostics.items.size(), 1U);
  EXPECT_EQ(unknown.diagnostics.items[0].where, (diag::SourceLocation{"t.yaml", 0, 0}));
}

TEST(Parameters, AreUsableInEveryNumber) {
  const StencilSpec spec =
      read(head +
           "parameters: {r: 1, v: 0.5}\nshape: box\nradius: r\nscale: v\n"
           "coefficients: [[0, 0, 0], [v, r, 2^r], [0, 0, 0]]\nboundary: {constant: 2*v}\n");
  EXPECT_EQ(weights(spec), (Weights{{{0, 0, -1}, 0.25}, {{0, 0, 0}, 0.5}, {{0, 0, 1}, 1}}));
  EXPECT_EQ(spec.boundary[axis_x].low.value, 1.0);
}

// ---- boundary ----

std::array<BoundaryRule, 4> rules(const StencilSpec& spec) {
  const auto& [z, y, x] = spec.boundary;
  EXPECT_EQ(z.low.rule, BoundaryRule::halo);
  EXPECT_EQ(z.high.rule, BoundaryRule::halo);
  return {y.low.rule, y.high.rule, x.low.rule, x.high.rule};
}

std::array<BoundaryRule, 4> rules(const std::string& boundary) {
  return rules(read(head + point + boundary));
}

TEST(Boundary, OneRuleForAll) {
  using enum BoundaryRule;
  using Rules = std::array<BoundaryRule, 4>;
  EXPECT_EQ(rules(""), (Rules{halo, halo, halo, halo}));
  EXPECT_EQ(rules("boundary: halo\n"), (Rules{halo, halo, halo, halo}));
  EXPECT_EQ(rules("boundary: periodic\n"), (Rules{periodic, periodic, periodic, periodic}));
  EXPECT_EQ(rules("boundary: nearest\n"), (Rules{nearest, nearest, nearest, nearest}));
  EXPECT_EQ(rules("boundary: \"reflect\"\n"), (Rules{reflect, reflect, reflect, reflect}));
  EXPECT_EQ(rules("boundary: mirror\n"), (Rules{mirror, mirror, mirror, mirror}));
  EXPECT_EQ(rules("boundary: {constant: 1}\n"), (Rules{constant, constant, constant, constant}));
  EXPECT_EQ(rules("boundary: antisymmetric\n"),
            (Rules{antisymmetric, antisymmetric, antisymmetric, antisymmetric}));
  EXPECT_EQ(rules("boundary: {}\n"), (Rules{halo, halo, halo, halo}));
}

TEST(Boundary, PerAxisAndPerFace) {
  using enum BoundaryRule;
  using Rules = std::array<BoundaryRule, 4>;
  EXPECT_EQ(rules("boundary: {x: nearest}\n"), (Rules{halo, halo, nearest, nearest}));
  EXPECT_EQ(rules("boundary: {y: periodic, x: {low: {constant: 1}, high: nearest}}\n"),
            (Rules{periodic, periodic, constant, nearest}));
  EXPECT_EQ(rules("boundary: {y: {high: mirror}, x: {constant: 2}}\n"),
            (Rules{halo, mirror, constant, constant}));
  EXPECT_EQ(rules("boundary: {y: {low: periodic, high: periodic}}\n"),
            (Rules{periodic, periodic, halo, halo}));
}

TEST(Boundary, PeriodicNeedsBothFaces) {
  for (const std::string boundary : {"{y: {low: periodic}}", "{x: {low: nearest, high: periodic}}"}) {
    const ReadResult result = read_spec({"t.yaml", head + point + "boundary: " + boundary + "\n"}, {});
    EXPECT_EQ(result.diagnostics.items.size(), 1U) << boundary;
  }
}

TEST(Boundary, ValuesAndPlaces) {
  const StencilSpec spec = read(head + point + "boundary: {y: {low: {constant: -1/4}}, x: nearest}\n");
  EXPECT_EQ(spec.boundary[axis_y].low.value, -0.25);
  EXPECT_EQ(spec.boundary[axis_x].high.where, (diag::SourceLocation{"folder/t.yaml", 6, 43}));
  EXPECT_EQ(spec.boundary[axis_y].high.where, (diag::SourceLocation{"folder/t.yaml", 1, 1}));
}

// ---- the other keys ----

TEST(Spec, Defaults) {
  const StencilSpec spec = read(head + point);
  EXPECT_EQ(spec.name, "t");
  EXPECT_EQ(spec.description, "");
  EXPECT_EQ(spec.source_name, "t.yaml");
  EXPECT_EQ(spec.dimensions, 2);
  EXPECT_EQ(spec.storage, Storage::f16);
  EXPECT_EQ(spec.accumulate, Accumulate::f32);
  EXPECT_EQ(spec.weights, WeightMode::automatic);
  EXPECT_EQ(spec.sums, (std::vector<Sum>{{"sum", Shape::taps}}));
  EXPECT_EQ(spec.where.storage, (diag::SourceLocation{"folder/t.yaml", 3, 1}));
  EXPECT_EQ(spec.where.accumulate, (diag::SourceLocation{"folder/t.yaml", 1, 1}));
}

TEST(Spec, ChoicesAndQuotes) {
  const StencilSpec spec = read(
      "\"schema\": '1'\nstencil: 't'\n'dimensions': \"3\"\nstorage: bf16\naccumulate: f16\nweights: bf16x2\n"
      "description: >\n  one line\n  on two\n\nshape: star\ncoefficients: {center: 1, 'z': [], \"y\": [1, "
      "1], x: []}\n");
  EXPECT_EQ(spec.dimensions, 3);
  EXPECT_EQ(spec.storage, Storage::bf16);
  EXPECT_EQ(spec.accumulate, Accumulate::f16);
  EXPECT_EQ(spec.weights, WeightMode::bf16x2);
  EXPECT_EQ(spec.description, "one line on two");
}

TEST(Spec, NullIsTextAsAnyOther) {
  EXPECT_EQ(read(head + "description: ~\nparameters: {null: 3}\n" + point).description, "~");
  const std::string taps = "shape: taps\ncoefficients:\n- {at: [0, 0], weight: null}\n";
  for (const char* parameters : {"{null: 3}", "{a: 1, ? null : 3}", "\n  ? null\n  : 3", "\n  null: 3"})
    EXPECT_EQ(weights(head + "parameters: " + parameters + "\n" + taps), (Weights{{{0, 0, 0}, 3}}));
}

TEST(Spec, MayBeCalledOtherwise) {
  const ReadResult result = read_spec({"folder/t.yaml", head + point, "fast"}, {});
  EXPECT_EQ(messages(result), "");
  EXPECT_EQ(result.spec.name, "fast");
  EXPECT_EQ(result.spec.source_name, "t.yaml");
  const ReadResult other = read_spec({"folder/u.yaml", head + point, "fast"}, {});
  EXPECT_EQ(
      messages(other),
      "folder/u.yaml:1:10: error: stencil 't' stands in a file called 'u'; the names agree, so rename one of "
      "them\n");
}

TEST(Spec, StandardInputHasNoStem) {
  const ReadResult result = read_spec({"-", head + point}, {});
  EXPECT_EQ(messages(result), "");
  EXPECT_EQ(result.spec.source_name, "-");
}

TEST(Spec, LineEndsAndByteOrderMarkChangeNothing) {
  const std::string text = head + point;
  std::string dos;
  std::string classic_mac;
  for (const char c : text) {
    dos += c == '\n' ? std::string("\r\n") : std::string(1, c);
    classic_mac += c == '\n' ? '\r' : c;
  }
  const StencilSpec spec = read(text);
  for (const std::string& same : {dos, classic_mac, "\xEF\xBB\xBF" + text}) {
    const StencilSpec other = read(same);
    EXPECT_EQ(other.source_hash, spec.source_hash);
    EXPECT_EQ(other.taps[0].where, spec.taps[0].where);
  }
  EXPECT_NE(read(text + "# changed\n").source_hash, spec.source_hash);
}

TEST(Spec, HashIsFnv1a) {
  // Test vectors of the algorithm's authors.
  EXPECT_EQ(read_spec({"t.yaml", ""}, {}).spec.source_hash, "cbf29ce484222325");
  EXPECT_EQ(read_spec({"t.yaml", "a"}, {}).spec.source_hash, "af63dc4c8601ec8c");
  EXPECT_EQ(read_spec({"t.yaml", "foobar"}, {}).spec.source_hash, "85944171f73967e8");
}

TEST(Spec, ColumnsCountCharacters) {
  const ReadResult result = read_spec(
      {"t.yaml", head + "shape: taps\ncoefficients: [{at: [0, 0], \"größe\": 1, weight: q}]\n"}, {});
  EXPECT_EQ(messages(result),
            "t.yaml:5:29: error: unknown key 'größe' in a tap; known keys are 'at' and 'weight'\n"
            "t.yaml:5:49: error: a weight: unknown name 'q'; known here: 'pi'\n");
}

TEST(Spec, BytesThatAreNoText) {
  const auto said = [](const std::string& description) {
    return messages(read_spec({"t.yaml", head + "description: " + description + "\n" + point}, {}));
  };
  EXPECT_EQ(said(std::string("a\0b", 3)),
            "t.yaml:4:15: error: control character 0x00; a spec is plain text\n");
  EXPECT_EQ(said("\x04"), "t.yaml:4:14: error: control character 0x04; a spec is plain text\n");
  for (const std::string bad : {"\xFF", "\xC0\xAF", "\xE2\x82", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\x80"}) {
    EXPECT_NE(said(bad).find("not valid UTF-8"), std::string::npos) << bad;
  }
  EXPECT_EQ(said("Wärmeleitung ∇² 🌡"), "");
}

TEST(Spec, DecimalPointInEveryLocale) {
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8"}) {
    if (!std::setlocale(LC_ALL, name)) continue;
    EXPECT_EQ(read(head + "parameters: {a: 0.5}\nshape: taps\ncoefficients: [{at: [0, 0], weight: 2.5*a}]\n")
                  .taps[0]
                  .weight,
              1.25);
  }
  std::setlocale(LC_ALL, "C");
}

TEST(Spec, AllErrorsOfAFileAreReported) {
  const ReadResult result = read_spec({"t.yaml",
                                       "stencil: t\ndimensions: 2\nstorage: f8\nshape: box\nradius: "
                                       "1.5\ncoefficients: [[1], [b]]\nboundary: wrap\n"},
                                      {});
  std::vector<int> lines;
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) lines.push_back(diagnostic.where.line);
  EXPECT_EQ(lines, (std::vector<int>{3, 5, 6, 6, 7}));
}

// ---- robustness ----

std::vector<std::string> shipped_specs() {
  std::vector<std::string> texts;
  for (const auto& entry : std::filesystem::directory_iterator(SPIDER_SOURCE_DIR "/stencils")) {
    if (entry.path().extension() != ".yaml") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    std::ostringstream text;
    text << file.rdbuf();
    EXPECT_EQ(messages(read_spec({entry.path().string(), text.str()}, {})), "");
    texts.push_back(text.str());
  }
  return texts;
}

TEST(Spec, ShippedStencilsAreGoodAndDamagedOnesDoNoHarm) {
  const std::vector<std::string> texts = shipped_specs();
  ASSERT_GE(texts.size(), 16U);
  const std::string inserted = "[]{}:,-&*!|>'\"%@#?\n \t09.^()/~<=\\\xC3";
  std::mt19937 random(7);
  const auto below = [&random](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
  for (int trial = 0; trial < 2000; ++trial) {
    std::string text = texts[below(texts.size())];
    for (std::size_t damage = below(6); damage > 0 && !text.empty(); --damage) {
      const std::size_t at = below(text.size());
      if (below(2) == 0) {
        text.insert(at, 1, inserted[below(inserted.size())]);
      } else {
        text.erase(at, 1 + below(8));
      }
    }
    const ReadResult result = read_spec({"-", text}, {});
    const bool has_some = result.system ? !result.system->stages.empty() : !result.spec.taps.empty();
    EXPECT_TRUE(result.diagnostics.has_errors() || has_some) << text;
    for (const diag::Diagnostic& diagnostic : result.diagnostics.items) {
      EXPECT_GE(diagnostic.where.line, 1) << to_string(diagnostic) << '\n' << text;
    }
  }
}

TEST(Spec, HostileTextsAreRefusedQuickly) {
  for (const std::string piece : {"[", "{", "- ", "? ", "a: ", "[a, ", "\"", "*a ", "&a ", "!", "(", "|\n"}) {
    std::string text;
    for (int i = 0; i < 50'000; ++i) text += piece;
    EXPECT_TRUE(read_spec({"-", text}, {}).diagnostics.has_errors()) << piece;
    EXPECT_TRUE(read_spec({"-", head + "scale: " + text}, {}).diagnostics.has_errors()) << piece;
  }
}

TEST(Overrides, AreGivenOnce) {
  const ReadResult result =
      read_spec({"t.yaml", head + "parameters: {a: 1}\n" + point}, {{"a", "2"}, {"a", "3"}});
  EXPECT_EQ(messages(result), "t.yaml: error: -D 'a=3': 'a' is overridden twice; keep one\n");
}

TEST(Text, IsBounded) {
  const std::string comment(longest_text - head.size() - point.size() - 1, '#');
  EXPECT_EQ(messages(read_spec({"t.yaml", head + point + comment + '\n'}, {})), "");
  EXPECT_EQ(messages(read_spec({"t.yaml", head + point + comment + "#\n"}, {})),
            "t.yaml: error: larger than 4194304 bytes; no spec needs that\n");
  std::string many = "[";
  for (int i = 0; i < 600'000; ++i) many += "1,";
  EXPECT_EQ(messages(read_spec({"t.yaml", head + "shape: box\ncoefficients: " + many + "]\n"}, {})),
            "t.yaml:5:1199998: error: more than 600000 values; no spec needs that many\n");
}

TEST(Text, HasAsManyTapsInEveryShape) {
  // What is said of a spec whose coefficients are so many entries between two texts; '#' in one is its
  // number.
  const auto said = [](std::string_view shape, std::string_view begin, int count, std::string_view entry,
                       std::string_view end) {
    std::ostringstream spec;
    spec << head << "shape: " << shape << "\ncoefficients: " << begin;
    const std::size_t number = entry.find('#');
    for (int i = 0; i < count; ++i) {
      spec << entry.substr(0, number);
      if (number != std::string_view::npos) spec << i << entry.substr(number + 1);
      spec << ',';
    }
    spec << end << '\n';
    return messages(read_spec({"t.yaml", spec.str()}, {}));
  };
  const std::string_view tap = "{at: {y: 0, x: #}, weight: 1}";
  EXPECT_EQ(said("taps", "[", 50'000, tap, "]"), "");
  EXPECT_EQ(said("taps", "[", 50'001, tap, "]"),
            "t.yaml:5:1688906: error: this is tap 50001; a stencil has at most 50000\n");
  EXPECT_EQ(said("box", "[[", 49'999, "1", "]]"), "");
  EXPECT_EQ(said("box", "[[", 50'001, "1", "]]"),
            "t.yaml:5:100017: error: this is tap 50001; a stencil has at most 50000\n");
  EXPECT_EQ(said("star", "{center: 1, y: [1, 1], x: [", 49'998, "1", "]}"),
            "t.yaml:5:100036: error: this is tap 50001; a stencil has at most 50000\n");
}

TEST(Text, ComesFromAFileWithAPlainName) {
  for (const char* path : {"t.\n#error", "t.\\", "t.\xff", "folder/t.\x1b[2J"}) {
    const std::string found = messages(read_spec({path, head + point}, {}));
    EXPECT_NE(found.find(": error: the file's name goes into a comment"), std::string::npos) << found;
    EXPECT_EQ(found.find_first_of("\x1b\n"), found.size() - 1) << found;
  }
  EXPECT_EQ(messages(read_spec({"f\xffolder/t.y a(m)l", head + point}, {})), "");
}

TEST(Names, NoStencilIsCalledAsTheRuntimeCallsItsOwn) {
  const std::regex own("\\bspider_([a-z_0-9]+)");
  int found = 0;
  for (const char* folder : {"/runtime/include/spider", "/runtime/device/spider"}) {
    for (const auto& entry : std::filesystem::directory_iterator(std::string(SPIDER_SOURCE_DIR) + folder)) {
      std::ifstream stream(entry.path());
      for (std::string line; std::getline(stream, line);) {
        for (std::sregex_iterator name(line.begin(), line.end(), own); name != std::sregex_iterator();
             ++name) {
          EXPECT_NE(objection_to_stencil_name((*name)[1].str()), "") << entry.path() << ": " << line;
          ++found;
        }
      }
    }
  }
  EXPECT_GT(found, 20);
}

TEST(Names, NoStencilHidesAHeaderThatOthersInclude) {
  for (const char* name : {"features", "sched", "pthread", "cuda_runtime", "cuda_fp16", "vector_types",
                           "math", "acc_prof", "wordexp", "emmintrin", "stdbit", "omp", "spider", "error"}) {
    const std::string objection = objection_to_stencil_name(name);
    EXPECT_NE(objection.find(std::string("would hide the header <") + name + ".h>"), std::string::npos)
        << name << ": " << objection;
    EXPECT_EQ(objection_to_stencil_name(std::string(name) + "_stencil"), "");
  }
  for (const char* name :
       {"feature", "cuda_run", "runtime", "vector", "x", "heat2d", "fields", "laplace", "prof"}) {
    EXPECT_EQ(objection_to_stencil_name(name), "");
  }
}

TEST(Names, LongTextsAreShownInPart) {
  EXPECT_EQ(shown("short"), "'short'");
  const std::string sixty(60, 'a');
  std::string whole = "'";
  whole.append(sixty).append("'");
  EXPECT_EQ(shown(sixty), whole);
  EXPECT_EQ(shown(sixty + 'a'), whole.substr(0, 61) + "...'");
  EXPECT_EQ(shown(sixty.substr(1) + "\u00e9\u00e9"), whole.substr(0, 60) + "...'");
  EXPECT_EQ(list_names({"a", "b", "c"}, "or"), "'a', 'b' or 'c'");
  EXPECT_TRUE(list_names(std::vector<std::string>(33, "n")).ends_with("'n', 'n' and 3 more"));
}

TEST(Diagnostics, AreOneLineOfPlainText) {
  using diag::printable;
  EXPECT_EQ(printable("caf\u00e9 \u4e2d \U0001f577"), "caf\u00e9 \u4e2d \U0001f577");
  EXPECT_EQ(printable("a\nb\tc\x1b[31m\x7f"), "a\\x0ab\\x09c\\x1b[31m\\x7f");
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
  EXPECT_EQ(printable("\u009b\u202e\u2066\u2028\u200f\ufeff"), "\\u009b\\u202e\\u2066\\u2028\\u200f\\ufeff");
  EXPECT_EQ(printable("\xc3"), "\xc3");  // no character: as it is
}

TEST(Diagnostics, EndAtAHundredErrors) {
  diag::Diagnostics diagnostics;
  for (std::size_t i = 0; i < 2 * diag::most_errors; ++i) {
    EXPECT_EQ(diagnostics.full(), i >= diag::most_errors);
    diagnostics.error({"f", 1, 1}, "e");
    diagnostics.warning({"f", 1, 1}, "w");
  }
  EXPECT_EQ(diagnostics.items.size(), 3 * diag::most_errors);
  diag::Diagnostics all;
  all.error({"f", 1, 1}, "first");
  all.append(diagnostics);
  EXPECT_EQ(all.errors, diag::most_errors);
  EXPECT_EQ(all.items.size(), 3 * diag::most_errors);
}

}  // namespace
}  // namespace spidergen::spec
