#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "plan/bands.h"
#include "plan/half.h"
#include "plan/make_plan.h"
#include "plan/weights.h"
#include "plan/windows.h"
#include "random_stencil.h"

namespace spidergen::plan {
namespace {

using Names = std::vector<std::string>;

KernelPlan plan_of(const spec::StencilSpec& stencil, Engine engine = Engine::sparse) {
  return make_plan(stencil, {engine}).plan;
}

Contraction contraction_of(const spec::StencilSpec& stencil, Engine engine = Engine::sparse) {
  return plan_of(stencil, engine).contraction;
}

/// What is taken where no engine is asked for.
Engine default_of(const spec::StencilSpec& stencil) {
  return make_plan(stencil).plan.engine;
}

diag::Diagnostics check_supported(const spec::StencilSpec& stencil, Engine engine = Engine::sparse) {
  return make_plan(stencil, {engine}).diagnostics;
}

template <class Taken>
bool is(const KernelPlan& plan) {
  return std::holds_alternative<Taken>(plan.scheme);
}

/// The plan's scheme, which has to be this one.
template <class Taken>
Taken scheme_of(const spec::StencilSpec& stencil, Engine engine = Engine::sparse) {
  return std::get<Taken>(plan_of(stencil, engine).scheme);
}

int shared_bytes(const KernelPlan& plan) {
  return std::visit([](const auto& scheme) { return scheme.shared_bytes; }, plan.scheme);
}

/// Those that are in tiles in registers or in shared memory.
std::vector<TileForm> forms_of(const KernelPlan& plan) {
  if (const auto* tiles = std::get_if<Block2d>(&plan.scheme)) return tiles->forms;
  return {};
}

/// The fastest of an engine's candidates; null where it has an objection to all.
const Candidate* fastest(const KernelPlan& plan, Engine engine) {
  const auto found = std::find_if(
      plan.candidates.begin(), plan.candidates.end(),
      [&](const Candidate& candidate) { return candidate.engine == engine && candidate.objection.empty(); });
  return found == plan.candidates.end() ? nullptr : &*found;
}

/// Products of windows and of pairs of rows; 0 where there is no such contraction.
std::pair<int, int> products_by_mapping(const KernelPlan& plan) {
  std::pair<int, int> products{0, 0};
  for (const Candidate& candidate : plan.candidates) {
    if (candidate.engine != Engine::sparse) continue;
    if (candidate.grouping == Grouping::windows) products.first = candidate.products;
    if (candidate.grouping == Grouping::row_pairs) products.second = candidate.products;
  }
  return products;
}

spec::StencilSpec with_weights(std::initializer_list<double> weights) {
  spec::StencilSpec stencil;
  stencil.name = "row";
  int dx = -static_cast<int>(weights.size()) / 2;
  for (const double weight : weights) stencil.taps.push_back({{0, 0, dx++}, weight, {"row.yaml", 3, 4}});
  return stencil;
}

TEST(Weights, ExactWeightsTakeOneTerm) {
  const WeightsResult result = round_weights(with_weights({0.25, -0.5, 0.25}));
  EXPECT_EQ(result.weights.terms, 1);
  EXPECT_TRUE(result.weights.exact);
  EXPECT_EQ(result.weights.largest_error, 0);
  EXPECT_TRUE(result.diagnostics.items.empty());
}

TEST(Weights, InexactWeightsTakeTwoTermsWithinTheBound) {
  const spec::StencilSpec stencil = with_weights({0.2, 0.21737, 0.17791, 0.19981, 0.20491});
  const WeightsResult result = round_weights(stencil);
  EXPECT_EQ(result.weights.terms, 2);
  EXPECT_EQ(result.weights.factor, 1);
  EXPECT_LE(result.weights.largest_error, std::ldexp(0.2, -21));
  EXPECT_NEAR(result.weights.packed_sum, 1.0, 5 * std::ldexp(0.2, -21));
}

TEST(Weights, TermsAddUpToThePackedWeight) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const WeightsResult result = round_weights(testing::random_stencil(seed, 7, 31, false));
    for (const RoundedTap& tap : result.weights.taps) {
      double sum = 0;
      for (const double term : tap.terms) {
        EXPECT_EQ(round_to_f16(term), term) << "seed " << seed;
        sum += term;
      }
      EXPECT_EQ(result.weights.factor * std::ldexp(sum, -result.weights.exponent), tap.packed)
          << "seed " << seed;
    }
  }
}

TEST(Weights, SmallWeightsGetACommonPowerOfTwo) {
  const WeightsResult result = round_weights(with_weights({1.1371e-5, 3.3e-5, 1.7e-5}));
  EXPECT_GT(result.weights.exponent, 0);
  EXPECT_LE(result.weights.largest_error, std::ldexp(3.3e-5, -21));
  EXPECT_FALSE(result.diagnostics.has_errors());
}

TEST(Weights, ThoseOfF32BeyondF16GetOneToo) {
  spec::StencilSpec stencil = with_weights({-3e6, 65505, 1e6});
  stencil.storage = spec::Storage::f32;
  stencil.accuracy = spec::Accuracy::f16;
  const WeightsResult result = round_weights(stencil);
  EXPECT_EQ(result.weights.exponent, -21);
  EXPECT_LE(result.weights.largest_error, std::ldexp(3e6, -11));
  EXPECT_FALSE(result.diagnostics.has_errors());
}

TEST(Weights, PlainF16WarnsAtTheKeyWithBothSums) {
  spec::StencilSpec stencil = with_weights({0.2, 0.2, 0.2, 0.2, 0.2});
  stencil.weights = spec::WeightMode::f16;
  stencil.where.weights = {"row.yaml", 7, 10};
  const WeightsResult result = round_weights(stencil);
  ASSERT_EQ(result.diagnostics.items.size(), 1U);
  const std::string text = to_string(result.diagnostics.items.front());
  EXPECT_EQ(text.find("row.yaml:7:10: warning: "), 0U) << text;
  EXPECT_NE(text.find("0.999755859375"), std::string::npos) << text;
  EXPECT_NE(text.find("'weights: auto' keeps them and is as fast"), std::string::npos) << text;
  EXPECT_FALSE(result.diagnostics.has_errors());
}

TEST(Weights, AWeightThatVanishesIsAnError) {
  EXPECT_TRUE(round_weights(with_weights({1.0, 1e-9, 1.0})).diagnostics.has_errors());
}

TEST(Weights, AllThatVanishAreOneErrorWithAdviceForTheirShape) {
  spec::StencilSpec stencil = with_weights({1.0, 1e-9, 1.0, 1e-10, 1e-11});
  const auto text_of = [&](spec::Shape shape) {
    stencil.sums.front().shape = shape;
    const diag::Diagnostics diagnostics = round_weights(stencil).diagnostics;
    EXPECT_EQ(diagnostics.errors, 1U);
    return diagnostics.items.front().text;
  };
  EXPECT_EQ(
      text_of(spec::Shape::taps),
      "the weight 1e-09 (as do 2 others) vanishes beside the largest, 1, in 2 f16 terms; drop these taps; "
      "'--engine cuda' takes it");
  EXPECT_NE(text_of(spec::Shape::product).find("; shorten the lists, or write a box with 0 there; "),
            std::string::npos);
  EXPECT_NE(text_of(spec::Shape::star).find("; write 0 there; "), std::string::npos);
  stencil.taps[1].weight = 1e-70;  // not in f32 either
  EXPECT_EQ(text_of(spec::Shape::box), "the weight 1e-70 vanishes in f32; write 0 there");
  const diag::Diagnostics of_cores = round_weights_to_f32(stencil).diagnostics;
  ASSERT_EQ(of_cores.errors, 1U);
  EXPECT_EQ(of_cores.items.front().text, "the weight 1e-70 vanishes in f32; write 0 there");
}

TEST(Weights, WeightsThatMakeEveryResultZeroAreAnError) {
  EXPECT_TRUE(round_weights(with_weights({1e-60, 3e-61})).diagnostics.has_errors());
  EXPECT_FALSE(round_weights(with_weights({1e-11, 3e-12})).diagnostics.has_errors());
}

spec::StencilSpec heat(double alpha) {
  spec::StencilSpec stencil;
  stencil.storage = spec::Storage::f32;
  for (const int dy : {-1, 0, 1}) {
    for (const int dx : {-1, 0, 1}) {
      if (dy != 0 && dx != 0) continue;
      stencil.taps.push_back({{0, dy, dx}, dy == 0 && dx == 0 ? 1 - 4 * alpha : alpha, {}});
    }
  }
  return stencil;
}

TEST(Weights, ThoseOfF32KeepTwentyTwoDigitsEach) {
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    spec::StencilSpec stencil = testing::random_stencil(seed, 7, 31, false);
    stencil.storage = spec::Storage::f32;
    stencil.taps.front().weight *= 1e-6;
    const RoundedWeights weights = round_weights(stencil).weights;
    EXPECT_EQ(weights.terms, stencil.taps.size() > 1 ? 2 : 1) << "seed " << seed;
    for (const RoundedTap& tap : weights.taps) {
      EXPECT_LE(std::fabs(tap.packed - tap.weight), std::ldexp(std::fabs(tap.weight), -22))
          << "seed " << seed;
    }
  }
}

TEST(Weights, SumsOfF32WeightsAreTheSpecs) {
  // Nearest remainders alone leave some 1e-8 of the sum.
  for (const int taps : {5, 9, 49}) {
    spec::StencilSpec stencil;
    stencil.storage = spec::Storage::f32;
    for (int i = 0; i < taps; ++i) stencil.taps.push_back({{0, 0, i - taps / 2}, 1.0 / (3 + i), {}});
    const RoundedWeights weights = round_weights(stencil).weights;
    EXPECT_NEAR(weights.packed_sum, weights.sum, taps == 5 ? 0x1p-26 : 0x1p-28) << taps;
  }
}

TEST(Weights, ATimeStepAddsTheOldValueByItself) {
  const RoundedWeights weights = round_weights(heat(0.1)).weights;
  ASSERT_TRUE(weights.adds_identity);
  double increments = 0;
  for (const RoundedTap& tap : weights.taps) increments += weights.total(tap.terms);
  EXPECT_EQ(increments, 0);
  EXPECT_EQ(weights.packed_sum, 1);
}

TEST(Weights, WhatIsNoTimeStepDoesNot) {
  EXPECT_FALSE(round_weights(heat(0.2)).weights.adds_identity);  // the centre would grow fourfold
  spec::StencilSpec stencil = heat(0.1);
  stencil.taps.front().weight *= 1.01;  // the sum is not 1
  EXPECT_FALSE(round_weights(stencil).weights.adds_identity);
  stencil = heat(0.1);
  stencil.accuracy = spec::Accuracy::tf32;
  EXPECT_FALSE(round_weights(stencil).weights.adds_identity);
  stencil.storage = spec::Storage::f16;
  EXPECT_FALSE(round_weights(stencil).weights.adds_identity);
}

TEST(Weights, Bf16TakesAsManyTermsAsKeepThem) {
  spec::StencilSpec stencil = with_weights({0.2, 0.17791, 0.2, 0.2, 0.2});
  stencil.storage = spec::Storage::bf16;
  const RoundedWeights rounded = round_weights(stencil).weights;
  EXPECT_EQ(rounded.terms, 3);
  EXPECT_LE(rounded.largest_error, std::ldexp(0.2, -21));
  stencil = with_weights({0.25, 257.0, -0x1.01p100});
  stencil.storage = spec::Storage::bf16;
  EXPECT_EQ(round_weights(stencil).weights.terms, 2);
  stencil.taps[1].weight = 256;
  stencil.taps[2].weight = 0x1p100;
  EXPECT_EQ(round_weights(stencil).weights.terms, 1);
}

TEST(Weights, TinyOnesOfBf16DoNotOverflowSums) {
  constexpr double largest_field = 0x1.fep127;
  for (const double scale : {0x1p-62, 1e-20, 1e-30, 1e-38, 1e-44}) {
    spec::StencilSpec stencil = with_weights({3.14159265 * scale, 1.41421356 * scale, 1.7320508 * scale,
                                              2.7182818 * scale, -1.123456 * scale, 1.9999 * scale});
    stencil.storage = spec::Storage::bf16;
    const RoundedWeights rounded = round_weights(stencil).weights;
    EXPECT_LE(rounded.largest_error, std::ldexp(3.15 * scale, -21)) << scale;
    double magnitudes = 0;
    for (const RoundedTap& tap : rounded.taps) {
      for (const double term : tap.terms) magnitudes += std::fabs(term);
    }
    EXPECT_LT(magnitudes * largest_field, 0x1p128) << scale;
  }
}

TEST(Windows, SmallReachIsOneWindowARow) {
  for (int radius = 1; radius <= 7; ++radius) {
    RoundedWeights weights;
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = -radius; dx <= radius; ++dx) weights.taps.push_back({{0, dy, dx}, 1, {1}, 1});
    }
    const auto windows = cut_windows(weights.taps, pair_swap_mapping());
    EXPECT_EQ(windows.size(), static_cast<std::size_t>(2 * radius + 1));
    for (const Window& window : windows) EXPECT_EQ(window.shift, 0);
  }
}

TEST(Windows, NumbersOfWindowsForWideRows) {
  const auto count = [](int low, int high) {
    std::vector<RoundedTap> taps;
    for (int dx = low; dx <= high; ++dx) taps.push_back({{0, 0, dx}, 1, {1}, 1});
    return cut_windows(taps, pair_swap_mapping()).size();
  };
  EXPECT_EQ(count(-8, 7), 1U);
  EXPECT_EQ(count(-8, 8), 2U);
  EXPECT_EQ(count(-15, 15), 2U);
  EXPECT_EQ(count(-31, 31), 4U);
  EXPECT_EQ(count(16, 31), 1U);
}

TEST(Windows, EveryTapIsInExactlyOneWindowThatHoldsIt) {
  const TileMapping mapping = pair_swap_mapping();
  for (std::uint32_t seed = 1; seed <= 100; ++seed) {
    const auto rounded = round_weights(testing::random_stencil(seed, 7, 31, true)).weights.taps;
    std::size_t found = 0;
    for (const Window& window : cut_windows(rounded, mapping)) {
      EXPECT_EQ(window.shift % 8, 0);
      for (const RoundedTap& tap : window.taps) {
        const int index = tap.at[spec::axis_x] - window.shift - mapping.window_low;
        EXPECT_TRUE(index >= 0 && index < mapping.window_width) << "seed " << seed;
        EXPECT_EQ(tap.at[spec::axis_y], window.dy);
        ++found;
      }
    }
    EXPECT_EQ(found, rounded.size()) << "seed " << seed;
  }
}

TEST(Plan, EqualOperandsAreStoredOnce) {
  spec::StencilSpec stencil;
  for (int dy = -2; dy <= 2; ++dy) {
    for (int dx = -2; dx <= 2; ++dx) stencil.taps.push_back({{0, dy, 2 * dx}, dy == 0 ? 0.5 : 0.25, {}});
  }  // too far for pairs of rows
  const Contraction contraction = contraction_of(stencil, Engine::sparse);
  EXPECT_EQ(contraction.products.size(), 5U);
  EXPECT_EQ(contraction.operands.size(), 2U);
}

TEST(Plan, ArmsOfA3DStarArePaired) {
  for (int radius = 2; radius <= 8; ++radius) {
    const Contraction contraction = contraction_of(testing::random_volume(1, radius, 0, 0));
    const int center_windows = radius == 8 ? 2 : 1;
    EXPECT_EQ(static_cast<int>(contraction.products.size()), center_windows + 2 * radius) << radius;
    EXPECT_EQ(contraction.planes_in_flight(), radius + 1) << radius;
    const auto at_distance = [&](const Source& source) {
      const Position distance = source.distance();
      return distance == Position{} ||
             (distance.y + distance.z == radius + 1 && distance.y * distance.z == 0);
    };
    EXPECT_TRUE(std::all_of(contraction.sources.begin(), contraction.sources.end(), at_distance)) << radius;
  }
}

/// A 3D star of radius 4 with the same weights along y and z.
spec::StencilSpec even_volume_star() {
  spec::StencilSpec star;
  star.dimensions = 3;
  star.taps.push_back({{0, 0, 0}, -3, {}});
  for (int i = 1; i <= 4; ++i) {
    for (const int at : {-i, i}) {
      const double weight = (at > 0 ? 9 - i : i) / 16.0;
      star.taps.push_back({{0, 0, at}, 0.5, {}});
      star.taps.push_back({{0, at, 0}, weight, {}});
      star.taps.push_back({{at, 0, 0}, weight, {}});
    }
  }
  return star;
}

TEST(Plan, PairsOfBothAxesShareOperands) {
  spec::StencilSpec star = even_volume_star();
  const auto operands = [](const spec::StencilSpec& spec) {
    return contraction_of(spec, Engine::sparse).operands.size();
  };
  EXPECT_EQ(operands(star), 5U);
  star.taps.back().weight = 0.75;
  EXPECT_EQ(operands(star), 6U);
}

TEST(Plan, ARowIsAddedWhereItCostsNoWarps) {
  EXPECT_EQ(scheme_of<Stream3d>(even_volume_star()).rows_per_warp, 5);
  // Nine different operands leave no registers for it.
  const auto uneven = scheme_of<Stream3d>(testing::random_volume(1, 4, 0, 0));
  EXPECT_EQ(uneven.rows_per_warp, 4);
  EXPECT_EQ(uneven.warps_per_block * uneven.blocks_per_multiprocessor, 8);
}

/// A 3D box of `radius` along z and y whose taps along x are dx = low .. high.
spec::StencilSpec volume_box(int radius, int low, int high) {
  spec::StencilSpec stencil;
  stencil.dimensions = 3;
  for (int dz = -radius; dz <= radius; ++dz) {
    for (int dy = -radius; dy <= radius; ++dy) {
      for (int dx = low; dx <= high; ++dx)
        stencil.taps.push_back({{dz, dy, dx}, (16 + dz + 2 * dy - dx) / 64.0, {}});
    }
  }
  return stencil;
}

TEST(Plan, RowsOf3DBoxesArePaired) {
  for (int radius = 1; radius <= 3; ++radius) {
    const Contraction contraction = contraction_of(volume_box(radius, -radius, radius));
    EXPECT_TRUE(contraction.mapping.pairs_rows()) << radius;
    EXPECT_EQ(static_cast<int>(contraction.products.size()), (radius + 1) * (2 * radius + 1)) << radius;
    // Rows of pairs come two by two, the same in every plane.
    EXPECT_EQ(contraction.rows_spanned(), 2 * radius + 1) << radius;
    EXPECT_TRUE(std::all_of(contraction.products.begin(), contraction.products.end(),
                            [](const Product& product) { return product.row % 2 == 0; }))
        << radius;
    const auto planes = scheme_of<Stream3d>(volume_box(radius, -radius, radius));
    EXPECT_EQ(planes.rows_per_warp % 2, 0) << radius;
    EXPECT_EQ(planes.first_column, -8) << radius;
    EXPECT_EQ(planes.left_vectors, 1) << radius;
    EXPECT_EQ(planes.right_vectors, 1) << radius;
  }
  EXPECT_TRUE(contraction_of(volume_box(1, -4, 3)).mapping.pairs_rows());
  EXPECT_FALSE(contraction_of(volume_box(1, -4, 4)).mapping.pairs_rows());
  EXPECT_FALSE(contraction_of(volume_box(1, -5, 3)).mapping.pairs_rows());
  EXPECT_FALSE(contraction_of(testing::random_volume(1, 1, 0, 0)).mapping.pairs_rows());
}

TEST(Plan, DiagonalsThatDoNotMatchAreNotPaired) {
  spec::StencilSpec stencil = testing::random_volume(1, 4, 0, 0);
  // Without one of its taps an arm of y has no partner; those of z keep theirs.
  const auto gone = std::find_if(stencil.taps.begin(), stencil.taps.end(), [](const spec::Tap& tap) {
    return tap.at == spec::Offset{0, 3, 0};
  });
  stencil.taps.erase(gone);
  EXPECT_EQ(contraction_of(stencil).products.size(), 1U + 4U + 7U);
}

/// A 2D star whose taps along x are at dx = shift - reach .. shift + reach.
spec::StencilSpec flat_star(int radius, int reach, int shift = 0) {
  spec::StencilSpec stencil;
  for (int dy = -radius; dy <= radius; ++dy) {
    if (dy != 0) stencil.taps.push_back({{0, dy, 0}, (radius + dy + 1) / 64.0, {}});
    if (dy != 0) continue;
    for (int dx = shift - reach; dx <= shift + reach; ++dx) stencil.taps.push_back({{0, 0, dx}, 0.25, {}});
  }
  return stencil;
}

TEST(Plan, ArmsOfA2DStarArePaired) {
  for (int radius = 4; radius <= 15; ++radius) {
    for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16}) {
      spec::StencilSpec stencil = flat_star(radius, 3, 9);  // too far for bands
      stencil.storage = storage;
      const KernelPlan plan = plan_of(stencil);
      const Contraction& contraction = plan.contraction;
      const auto windows =
          std::count_if(contraction.products.begin(), contraction.products.end(),
                        [](const Product& product) { return product.term == 0 && product.input_term == 0; });
      EXPECT_EQ(windows, 1 + radius) << radius;
      EXPECT_EQ(contraction.rows_in_flight(), radius + 1) << radius;
      EXPECT_EQ(contraction.rows_spanned(), 2 * radius + 1) << radius;
      // The first row of a pair waits for the second, and rows are on their way all the while.
      if (const auto* stream = std::get_if<Stream2d>(&plan.scheme)) {
        EXPECT_EQ(stream->rows_kept, radius + 1) << radius;
        EXPECT_GT(stream->ring_rows, stream->rows_kept + 5) << radius;
      } else {
        EXPECT_TRUE(is<Block2d>(plan)) << radius;
      }
      // A product is made as soon as both rows are there, those of the row that completes first.
      EXPECT_EQ(contraction.last_row(contraction.products.front()), 2 * radius) << radius;
      EXPECT_FALSE(check_supported(stencil).has_errors()) << radius;
    }
  }
}

TEST(Plan, StarsOfManyRowsAreBands) {
  const auto has_bands = [](const spec::StencilSpec& stencil) { return contraction_of(stencil).is_bands(); };
  const auto with_tap = [](spec::StencilSpec stencil, int dy, int dx, double weight = 0.5) {
    stencil.taps.push_back({{0, dy, dx}, weight, {}});
    std::sort(stencil.taps.begin(), stencil.taps.end(),
              [](const spec::Tap& a, const spec::Tap& b) { return a.at < b.at; });
    return stencil;
  };
  for (int radius = 4; radius <= 7; ++radius) {
    spec::StencilSpec stencil = flat_star(radius, radius);
    EXPECT_TRUE(has_bands(stencil)) << radius;
    const KernelPlan plan = plan_of(stencil);
    const auto star = std::get<Star2d>(plan.scheme);
    EXPECT_EQ(plan.contraction.chained_products(), 4)
        << radius;  // one along y, and one for each of three chunks along x
    EXPECT_LE(star.shared_bytes, 227 * 1024 / star.forms.front().blocks_per_multiprocessor - 1024) << radius;
    EXPECT_FALSE(check_supported(stencil).has_errors()) << radius;
    stencil.storage = spec::Storage::bf16;
    EXPECT_TRUE(has_bands(stencil)) << radius;
    stencil.storage = spec::Storage::f32;
    EXPECT_FALSE(has_bands(stencil)) << radius;
  }
  const spec::StencilSpec star = flat_star(7, 7);
  EXPECT_FALSE(has_bands(flat_star(3, 3)));  // few rows
  EXPECT_TRUE(has_bands(with_tap(star, -8, 0)));
  EXPECT_FALSE(has_bands(with_tap(star, 8, 0)));
  EXPECT_TRUE(has_bands(with_tap(with_tap(star, 0, 8), 0, -8)));
  EXPECT_FALSE(has_bands(with_tap(star, 0, 9)));
  EXPECT_FALSE(has_bands(with_tap(star, 1, 1)));
  EXPECT_TRUE(has_bands(with_tap(star, -8, 0, std::sqrt(2))));  // remainders along y take one product more
  EXPECT_FALSE(has_bands(with_tap(star, 0, 8, std::sqrt(2))));  // those along x a band more
}

TEST(Plan, ArmsArePairedWhereARingHoldsThem) {
  const auto is_paired = [](const spec::StencilSpec& stencil) {
    const Contraction contraction = contraction_of(stencil, Engine::sparse);
    return !contraction.mapping.pairs_rows() && contraction.sources.back().distance() != Position{};
  };
  EXPECT_FALSE(is_paired(flat_star(3, 3)));   // nothing to gain: memory binds
  EXPECT_FALSE(is_paired(flat_star(16, 3)));  // too many rows
  EXPECT_TRUE(is_paired(flat_star(4, 3, 11)));
  EXPECT_FALSE(is_paired(flat_star(4, 3, 20)));  // windows all to one side leave out the outputs' own columns
  EXPECT_FALSE(is_paired(flat_star(4, 3, -20)));
  spec::StencilSpec full = flat_star(4, 3);
  full.storage = spec::Storage::f32;
  EXPECT_FALSE(is_paired(full));
}

TEST(Plan, RingsOfPlanesFitEveryDevice) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const KernelPlan plan =
        plan_of(testing::random_volume(seed, static_cast<int>(seed % 9), 15, static_cast<int>(seed)));
    const auto& planes = std::get<Stream3d>(plan.scheme);
    EXPECT_LE(planes.shared_bytes, 160 * 1024) << "seed " << seed;
    EXPECT_GE(planes.row_bytes, planes.lead_bytes + 16 * (16 + planes.right_vectors)) << "seed " << seed;
  }
}

TEST(Plan, RoundsOfPlanesRotateAccumulators) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const KernelPlan plan =
        plan_of(testing::random_volume(seed, static_cast<int>(seed % 9), 15, static_cast<int>(seed)));
    const int planes = std::get<Stream3d>(plan.scheme).unrolled_planes;
    EXPECT_TRUE(planes == 1 || planes % plan.contraction.planes_in_flight() == 0) << "seed " << seed;
  }
  // Where memory binds and all is small, a round of the walk is one of the ring.
  const auto planes = scheme_of<Stream3d>(volume_box(1, -1, 1));
  EXPECT_EQ(planes.unrolled_planes, planes.ring_planes);
  EXPECT_EQ(planes.ring_planes, 6);
}

TEST(Plan, TheCompletingRowGoesFirst) {
  const Contraction contraction = contraction_of(testing::random_stencil(3, 7, 20, false));
  EXPECT_TRUE(std::is_sorted(contraction.products.begin(), contraction.products.end(),
                             [](const Product& a, const Product& b) { return a.row > b.row; }));
}

TEST(Plan, SharedMemoryFitsTheSmallestDevice) {
  // Compute capability 8.6 and 8.9 have 99 KiB a block.
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    const KernelPlan planned = plan_of(testing::random_stencil(seed, 7, 31, false));
    EXPECT_LE(shared_bytes(planned), 99 * 1024);
  }
  spec::StencilSpec widest;
  for (int dy = -7; dy <= 7; ++dy) {
    for (int dx = -31; dx <= 31; ++dx) widest.taps.push_back({{0, dy, dx}, 0.3 + 0.001 * dx + 0.01 * dy, {}});
  }
  EXPECT_LE(shared_bytes(plan_of(widest)), 99 * 1024);
  widest.storage = spec::Storage::f32;
  EXPECT_LE(shared_bytes(plan_of(widest)), 99 * 1024);
  EXPECT_FALSE(check_supported(widest).has_errors());
  widest.storage = spec::Storage::bf16;
  EXPECT_LE(shared_bytes(plan_of(widest)), 99 * 1024);
}

TEST(Plan, ReachBeyondOnePassIsRefusedAtTheTap) {
  spec::StencilSpec stencil = with_weights({1.0});
  stencil.taps.push_back({{0, 32, 0}, 1.0, {"row.yaml", 9, 5}});
  const diag::Diagnostics diagnostics = check_supported(stencil);
  ASSERT_TRUE(diagnostics.has_errors());
  EXPECT_EQ(diagnostics.items.front().where.line, 9);
}

/// Taps of weight 1 at the corners of a box and its middle, or everywhere in it.
spec::StencilSpec far_stencil(int dy, int dx, bool full) {
  spec::StencilSpec stencil;
  for (int y = -dy; y <= dy; y += full ? 1 : std::max(dy, 1)) {
    for (int x = -dx; x <= dx; x += full ? 1 : dx)
      stencil.taps.push_back({{0, y, x}, full ? 1.0 + x * 0x1p-10 : 1.0, {}});
  }
  stencil.where.coefficients = {"far.yaml", 3, 1};
  return stencil;
}

TEST(Plan, FarTapsAreCutIntoWindows) {
  const Contraction contraction = contraction_of(far_stencil(0, 127, true));
  EXPECT_EQ(contraction.shifts.size(), 16U);  // 255 columns, 16 to a window
  EXPECT_FALSE(check_supported(far_stencil(0, 127, true)).has_errors());
  EXPECT_FALSE(check_supported(far_stencil(24, 3, false)).has_errors());
}

TEST(Plan, WhatNoKernelCanHoldIsRefused) {
  const auto message = [](const spec::StencilSpec& stencil) {
    const diag::Diagnostics diagnostics = check_supported(stencil);
    return diagnostics.has_errors() ? diagnostics.items.front().text : "";
  };
  EXPECT_NE(message(far_stencil(31, 1, false)).find("63 rows in flight"), std::string::npos);
  EXPECT_NE(message(far_stencil(16, 127, true)).find("products a row"), std::string::npos)
      << message(far_stencil(16, 127, true));
  EXPECT_EQ(message(far_stencil(31, 1, false)).find("weights: f16"), std::string::npos);
}

TEST(Plan, WhatIsNotGeneratedYetIsRefused) {
  spec::StencilSpec stencil = with_weights({1.0});
  EXPECT_TRUE(check_supported(stencil).items.empty());
  stencil.dimensions = 1;
  stencil.storage = spec::Storage::f32;
  stencil.accumulate = spec::Accumulate::f16;
  EXPECT_EQ(check_supported(stencil).items.size(), 2U);
}

TEST(Plan, EnginesAreNamedAndKept) {
  for (const Engine engine : {Engine::sparse, Engine::dense, Engine::cuda})
    EXPECT_EQ(engine_named(engine_name(engine)), engine);
  EXPECT_EQ(engine_named("Sparse"), std::nullopt);
  EXPECT_EQ(plan_of(with_weights({1.0}), Engine::sparse).engine, Engine::sparse);
}

spec::StencilSpec flat_box(int radius) {
  spec::StencilSpec stencil;
  stencil.name = "box";
  for (int dy = -radius; dy <= radius; ++dy) {
    for (int dx = -radius; dx <= radius; ++dx)
      stencil.taps.push_back({{0, dy, dx}, (dy * 15 + dx + 200) / 512.0, {}});
  }
  return stencil;
}

TEST(Plan, TilesAreInRegistersWhereTheyFitAndMemoryBinds) {
  const auto forms_of = [](const spec::StencilSpec& stencil) {
    return plan::forms_of(plan_of(stencil, Engine::sparse));
  };
  spec::StencilSpec box = flat_box(1);
  box.taps.push_back({{0, 1, 5}, 0.5, {}});  // too far for pairs of rows
  const std::vector<TileForm> forms = forms_of(box);
  ASSERT_EQ(forms.size(), 5U);
  const Contraction contraction = contraction_of(box, Engine::sparse);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(forms[i].in_registers);
    EXPECT_FALSE(forms[i].allows_unaligned);
    constexpr int registers_per_operand = 4;
    const int least_registers =
        (forms[i].rows + 2 + static_cast<int>(contraction.products.size())) * registers_per_operand;
    const int threads = 32 * forms[i].across * forms[i].down * forms[i].blocks_per_multiprocessor;
    EXPECT_LE(least_registers * threads, 65536);
    if (i == 0) continue;
    EXPECT_LT(forms[i].rows, forms[i - 1].rows);
    EXPECT_LT(forms[i].min_blocks_per_sm, forms[i - 1].min_blocks_per_sm);
  }
  EXPECT_EQ(forms[0].rows, 12);
  EXPECT_EQ(forms[2].rows, TileForm::low_rows);
  EXPECT_EQ(forms[2].min_blocks_per_sm, 0);
  for (std::size_t i = 3; i < 5; ++i) {
    EXPECT_TRUE(forms[i].allows_unaligned);
    EXPECT_FALSE(forms[i].in_registers);
  }
  EXPECT_EQ(forms[4].min_blocks_per_sm, 0);
  spec::StencilSpec wide = flat_box(1);
  wide.storage = spec::Storage::f32;
  EXPECT_TRUE(forms_of(wide).empty());
}

TEST(Plan, OfMoreThanThreeProductsHighTilesAreInSharedMemoryAndLowOnesInRegisters) {
  for (const auto& [radius, length] : {std::pair{3, 8}, {4, 16}}) {
    const KernelPlan plan = plan_of(flat_box(radius), Engine::sparse);
    const Contraction& contraction = plan.contraction;
    ASSERT_TRUE(is<Block2d>(plan));
    const std::vector<TileForm> forms = forms_of(plan);
    ASSERT_EQ(forms.size(), 6U) << length;
    EXPECT_FALSE(forms[0].in_registers);
    EXPECT_FALSE(forms[0].allows_unaligned);
    EXPECT_EQ(forms[0].across, 4);
    // Outputs of two pairs of rows a warp wait behind the inputs, in rows of 320 bytes.
    const int stage = length == 8 ? 4 * 4 * 320 : 0;
    EXPECT_EQ(shared_bytes(plan), 256 + (forms[0].rows + contraction.rows_spanned() - 1) * 1152 + stage);
    for (std::size_t i = 1; i < 4; ++i) {
      EXPECT_TRUE(forms[i].in_registers) << length;
      EXPECT_FALSE(forms[i].allows_unaligned) << length;
      EXPECT_LE(forms[i].rows, forms[i - 1].rows) << length;
      EXPECT_LT(forms[i].min_blocks_per_sm, forms[i - 1].min_blocks_per_sm) << length;
      // Inputs and operands.
      const int warps = forms[i].across * forms[i].down;
      const int inputs = forms[i].rows + contraction.rows_spanned() - 1;
      const int registers = 4 * (inputs + static_cast<int>(contraction.operands.size()));
      EXPECT_LE(32 * warps * registers * forms[i].blocks_per_multiprocessor, 65536) << length;
      EXPECT_GE(warps * forms[i].blocks_per_multiprocessor, 16) << length;
    }
    EXPECT_EQ(forms[3].rows, TileForm::low_rows) << length;
    EXPECT_EQ(forms[3].min_blocks_per_sm, 0) << length;
    TileForm high_of_any_rows = forms[0];
    high_of_any_rows.allows_unaligned = true;
    EXPECT_EQ(forms[4], high_of_any_rows) << length;
    EXPECT_FALSE(forms[5].in_registers) << length;
    EXPECT_TRUE(forms[5].allows_unaligned) << length;
    EXPECT_EQ(forms[5].min_blocks_per_sm, 0) << length;
  }
}

TEST(Plan, SharedMemoryHasRoomForAllBlocksOfTilesThatAMultiprocessorIsPromised) {
  for (const int dx : {30, 127}) {
    spec::StencilSpec wide;
    for (int dy = -6; dy <= 6; ++dy)
      wide.taps.push_back({{0, dy, dy % 2 == 0 ? dx : -dx}, (dy + 7) / 64.0, {}});
    const KernelPlan plan = plan_of(wide);
    ASSERT_TRUE(is<Block2d>(plan)) << dx;
    const std::vector<TileForm> forms = forms_of(plan);
    constexpr int bytes_per_multiprocessor = 228 * 1024;  // of sm_90, 1 KiB of it for each block
    const TileForm& high = forms.front();
    EXPECT_LE(high.blocks_per_multiprocessor * (shared_bytes(plan) + 1024), bytes_per_multiprocessor) << dx;
    EXPECT_GE(high.blocks_per_multiprocessor, 3) << dx;
    // Low tiles in registers would mostly read rows that others read, too.
    for (const TileForm& form : forms) EXPECT_FALSE(form.in_registers) << dx;
    EXPECT_LT(forms[1].rows, high.rows) << dx;
  }
}

TEST(Plan, TilesAreInSharedMemoryWhereProductsAreMany) {
  const auto has_blocks = [](const spec::StencilSpec& stencil) {
    return is<Block2d>(plan_of(stencil, Engine::sparse));
  };
  for (const spec::StencilSpec& stencil :
       {flat_box(5), flat_box(6), flat_box(7), flat_star(4, 3, 9), flat_star(7, 5, 9)}) {
    const KernelPlan plan = plan_of(stencil);
    const Contraction& contraction = plan.contraction;
    const std::vector<TileForm> forms = forms_of(plan);
    EXPECT_TRUE(is<Block2d>(plan));
    ASSERT_EQ(forms.size(), 6U);
    EXPECT_GT(2 * forms[0].rows, 3 * contraction.rows_spanned());
    EXPECT_EQ(forms[2].min_blocks_per_sm, 0);
    for (std::size_t i = 0; i < 3; ++i) {
      if (i > 0) {
        EXPECT_LT(forms[i].rows, forms[i - 1].rows);
        EXPECT_LT(forms[i].min_blocks_per_sm, forms[i - 1].min_blocks_per_sm);
      }
      EXPECT_FALSE(forms[i].allows_unaligned);
      TileForm of_any_rows = forms[i];
      of_any_rows.allows_unaligned = true;
      EXPECT_EQ(forms[3 + i], of_any_rows);
    }
    for (const TileForm& form : forms) {
      EXPECT_FALSE(form.in_registers);
      EXPECT_EQ(form.across, 4);
      EXPECT_EQ(form.down, 1);
      // Sums and operands alone, of 128 threads.
      const std::size_t registers =
          4 * (contraction.operands.size() + static_cast<std::size_t>(contraction.rows_in_flight()));
      EXPECT_LT(128 * registers * static_cast<std::size_t>(form.blocks_per_multiprocessor), 65536U);
      EXPECT_GE(form.blocks_per_multiprocessor, 3);
    }
    // 66 vectors of 16 bytes a row, in lines.
    EXPECT_EQ(shared_bytes(plan), 256 + (forms[0].rows + contraction.rows_spanned() - 1) * 1152);
    EXPECT_FALSE(check_supported(stencil).has_errors());
  }
  EXPECT_FALSE(has_blocks(flat_box(8)));      // 34 products
  EXPECT_FALSE(has_blocks(flat_star(8, 1)));  // each tile would read 16 rows more
  spec::StencilSpec wide = flat_box(5);
  wide.storage = spec::Storage::f32;
  EXPECT_FALSE(has_blocks(wide));
}

/// Two sums of a row each, `rows` apart: a heat step of weights that f32 does not hold, and three times it.
spec::StencilSpec two_sums(int rows, spec::Storage storage) {
  spec::StencilSpec stencil = with_weights({0.1, 0.1, 0.6, 0.1, 0.1});
  stencil.storage = storage;
  stencil.sums = {{"a", spec::Shape::taps}, {"b", spec::Shape::taps}};
  stencil.update.emplace();
  stencil.update->nodes = {{spec::UpdateOperation::sum, 0, 0, {}, {}},
                           {spec::UpdateOperation::sum, 0, 1, {}, {}},
                           {spec::UpdateOperation::multiply, 0, 0, {}, {0, 1}}};
  const std::vector<spec::Tap> first = stencil.taps;
  for (spec::Tap tap : first) {
    tap.at[spec::axis_y] += rows;
    tap.weight *= 3;
    tap.sum = 1;
    stencil.taps.push_back(tap);
  }
  std::sort(stencil.taps.begin(), stencil.taps.end(), [](const spec::Tap& a, const spec::Tap& b) {
    return std::pair(a.at, a.sum) < std::pair(b.at, b.sum);
  });
  return stencil;
}

/// A box of radius 1 whose sum an update takes, with the value before.
spec::StencilSpec updated_box(spec::Storage storage) {
  spec::StencilSpec stencil;
  stencil.storage = storage;
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx) stencil.taps.push_back({{0, dy, dx}, 0.125, {}});
  }
  stencil.update.emplace();
  stencil.update->nodes = {{spec::UpdateOperation::input, 0, 0, {}, {}},
                           {spec::UpdateOperation::sum, 0, 0, {}, {}},
                           {spec::UpdateOperation::multiply, 0, 0, {}, {0, 1}}};
  return stencil;
}

TEST(Plan, RowsOf2DBoxesArePaired) {
  for (int radius = 2; radius <= 3; ++radius) {
    const Contraction contraction = contraction_of(flat_box(radius), Engine::sparse);
    EXPECT_TRUE(contraction.mapping.pairs_rows()) << radius;
    EXPECT_EQ(static_cast<int>(contraction.products.size()), radius + 1) << radius;
    EXPECT_EQ(contraction.rows_in_flight(), radius + 1) << radius;  // pairs of rows
    EXPECT_EQ(contraction.rows_spanned(), 2 * radius + 1) << radius;
    EXPECT_EQ(contraction.first_column(), -8) << radius;  // on 16 bytes
    EXPECT_EQ(vectors_across(contraction, 4), 66) << radius;
    const auto tiles = scheme_of<Block2d>(flat_box(radius), Engine::sparse);
    for (const TileForm& form : tiles.forms) EXPECT_EQ(form.rows % 2, 0) << radius;
  }
  // The plan does so where windows take more products, and not so few that they are faster in registers.
  const auto pairs_rows = [](const spec::StencilSpec& stencil) {
    return contraction_of(stencil, Engine::sparse).mapping.pairs_rows();
  };
  EXPECT_FALSE(pairs_rows(flat_box(1)));
  EXPECT_TRUE(pairs_rows(flat_box(2)));
  EXPECT_TRUE(pairs_rows(flat_box(3)));
  spec::StencilSpec tall = flat_box(7);
  std::erase_if(tall.taps, [](const spec::Tap& tap) { return std::abs(tap.at[spec::axis_x]) > 3; });
  EXPECT_TRUE(pairs_rows(tall));
  EXPECT_EQ(products_by_mapping(plan_of(tall)), (std::pair{15, 8}));
  tall.storage = spec::Storage::f32;
  EXPECT_FALSE(pairs_rows(tall));
  EXPECT_FALSE(pairs_rows(flat_star(4, 3)));  // as few with pairs of diagonals
  EXPECT_FALSE(pairs_rows(flat_box(4)));      // columns too far away
  EXPECT_EQ(products_by_mapping(plan_of(flat_box(3))), (std::pair{7, 4}));
  EXPECT_EQ(products_by_mapping(plan_of(flat_box(2))), (std::pair{5, 3}));
  EXPECT_EQ(products_by_mapping(plan_of(flat_box(4))).second, 0);
}

TEST(Plan, AnEngineThatIsNotThereIsRefusedByName) {
  spec::StencilSpec stencil = with_weights({1.0});
  stencil.dimensions = 3;
  const diag::Diagnostics diagnostics = check_supported(stencil, Engine::dense);
  ASSERT_EQ(diagnostics.items.size(), 1U);
  EXPECT_NE(diagnostics.items.front().text.find("--engine dense"), std::string::npos);
}

TEST(Plan, CoresTakeWhatSparseTensorCoresDoNot) {
  for (const int dimensions : {1, 2, 3}) {
    for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::f32}) {
      spec::StencilSpec stencil = with_weights({1.0, 0.1});
      stencil.dimensions = dimensions;
      stencil.storage = storage;
      EXPECT_FALSE(check_supported(stencil, Engine::cuda).has_errors());
      const bool sparse = !check_supported(stencil, Engine::sparse).has_errors();
      const bool has_choice = dimensions == 2 && storage == spec::Storage::f32;
      EXPECT_EQ(fastest(plan_of(stencil), Engine::sparse) != nullptr, sparse);
      EXPECT_NE(fastest(plan_of(stencil), Engine::cuda), nullptr);
      EXPECT_EQ(default_of(stencil), sparse && !has_choice ? Engine::sparse : Engine::cuda);
      EXPECT_FALSE(check_supported(stencil, default_of(stencil)).has_errors());
    }
  }
}

TEST(Plan, CoresHoldTapsInF32) {
  spec::StencilSpec stencil = with_weights({0.1, 1e-30, 0.5});
  const KernelPlan planned = plan_of(stencil, Engine::cuda);
  EXPECT_FALSE(planned.contraction.on_tensor_cores());
  EXPECT_TRUE(planned.contraction.products.empty());
  for (const RoundedTap& tap : planned.weights.taps) {
    EXPECT_EQ(tap.packed, static_cast<double>(static_cast<float>(tap.packed)));
    EXPECT_LE(std::fabs(tap.packed - tap.weight), std::ldexp(std::fabs(tap.weight), -23));
  }
  EXPECT_FALSE(planned.weights.exact);
  EXPECT_TRUE(plan_of(with_weights({0.5, 0.25}), Engine::cuda).weights.exact);
  EXPECT_TRUE(check_supported(with_weights({1.0, 1e-50}), Engine::cuda).has_errors());
}

/// A box of taps in 2D or 3D.
spec::StencilSpec box_of(int dimensions, int radius, spec::Storage storage) {
  spec::StencilSpec stencil;
  stencil.dimensions = dimensions;
  stencil.storage = storage;
  const int planes = dimensions == 3 ? radius : 0;
  for (int z = -planes; z <= planes; ++z) {
    for (int y = -radius; y <= radius; ++y) {
      for (int x = -radius; x <= radius; ++x)
        stencil.taps.push_back({{z, y, x}, 1.0 + x + 2 * y + 4 * z, {}});
    }
  }
  std::erase_if(stencil.taps, [](const spec::Tap& tap) { return tap.weight == 0; });
  return stencil;
}

TEST(Plan, TheFasterEngineIsTheDefault) {
  const auto engine_of = [](int radius) { return default_of(box_of(2, radius, spec::Storage::f32)); };
  EXPECT_EQ(engine_of(1), Engine::cuda);
  EXPECT_EQ(engine_of(3), Engine::cuda);
  EXPECT_EQ(engine_of(7), Engine::sparse);
  EXPECT_EQ(default_of(box_of(2, 1, spec::Storage::f16)), Engine::sparse);
}

TEST(Plan, WhatOneEngineAloneTakesIsNoChoice) {
  for (const auto& [dimensions, storage] : {std::pair{2, spec::Storage::f32},
                                            {2, spec::Storage::f16},
                                            {2, spec::Storage::bf16},
                                            {3, spec::Storage::f16},
                                            {1, spec::Storage::f16}}) {
    const int axis = dimensions == 1 ? spec::axis_x : spec::axis_y;
    spec::StencilSpec stencil = with_weights({0.5, 0.25});
    stencil.dimensions = dimensions;
    stencil.storage = storage;
    EXPECT_NE(fastest(plan_of(stencil), Engine::sparse), nullptr);
    EXPECT_NE(fastest(plan_of(stencil), Engine::cuda), nullptr);
    stencil.taps.push_back({{}, 0.125, {}});
    stencil.taps.back().at[axis] = 200;
    const KernelPlan planned = plan_of(stencil);
    EXPECT_EQ(fastest(planned, Engine::sparse), nullptr);
    EXPECT_NE(fastest(planned, Engine::cuda), nullptr);
    const Candidate refused =
        *std::find_if(planned.candidates.begin(), planned.candidates.end(),
                      [](const Candidate& candidate) { return candidate.engine == Engine::sparse; });
    EXPECT_NE(refused.objection.find("this tap is 200 points away"), std::string::npos) << refused.objection;
    EXPECT_EQ(refused.objection.find("--engine"), std::string::npos) << refused.objection;
    EXPECT_EQ(default_of(stencil), Engine::cuda);
    if (dimensions == 1) continue;
    stencil.taps.back().at[axis] = 100000;  // neither takes it
    EXPECT_EQ(fastest(plan_of(stencil), Engine::cuda), nullptr);
    EXPECT_EQ(default_of(stencil), Engine::sparse);
  }
  // f16 and f32 do not hold these weights, but a power of two brings them into range.
  spec::StencilSpec tiny = with_weights({0x1p-155, 0x1.8p-154});
  tiny.storage = spec::Storage::f32;
  EXPECT_EQ(fastest(plan_of(tiny), Engine::cuda), nullptr);
  EXPECT_NE(fastest(plan_of(tiny), Engine::sparse), nullptr);
  EXPECT_EQ(default_of(tiny), Engine::sparse);
}

TEST(Plan, CoresKeepTheSumOfWeights) {
  // 0.6 and four times 0.1 rounded to nearest are 1 + 2^-25: as time steps, 3 % more after a million.
  const RoundedWeights weights = plan_of(with_weights({0.1, 0.1, 0.6, 0.1, 0.1}), Engine::cuda).weights;
  EXPECT_EQ(weights.packed_sum, 1);
}

TEST(Plan, UpdatesOnTensorCoresTakeTheSumBeforeItIsRounded) {
  const spec::StencilSpec stencil = updated_box(spec::Storage::f16);
  spec::StencilSpec plain = stencil;
  plain.update.reset();
  EXPECT_EQ(plan_of(stencil).error_bound.result, 0);
  EXPECT_LT(plan_of(stencil).error_bound.absolute, 1e-30);
  EXPECT_EQ(plan_of(stencil).error_bound.sum, plan_of(plain).error_bound.sum);
  EXPECT_GT(plan_of(plain).error_bound.result, 0);
}

TEST(Plan, ThreadsHaveRegistersForAnUpdate) {
  spec::StencilSpec stencil = updated_box(spec::Storage::f16);
  const int with_none = forms_of(plan_of(stencil)).front().blocks_per_multiprocessor;
  for (int i = 0; i < 8; ++i) stencil.fields.push_back({"field", spec::Storage::f16});
  EXPECT_LT(forms_of(plan_of(stencil)).front().blocks_per_multiprocessor, with_none);
}

TEST(Plan, SeveralSumsShareTheirInputs) {
  const KernelPlan plan = plan_of(two_sums(1, spec::Storage::f16), Engine::sparse);
  const Contraction& contraction = plan.contraction;
  EXPECT_EQ(contraction.sums(), 2);
  EXPECT_EQ(contraction.sources.size(), 1U);
  EXPECT_EQ(contraction.longest_chain() * 2, std::ssize(contraction.products));
  spec::StencilSpec single = with_weights({0.1, 0.1, 0.6, 0.1, 0.1});
  EXPECT_EQ(plan.error_bound.sum, plan_of(single, Engine::sparse).error_bound.sum);
}

/// What a sum's packed weights differ from the spec's by at most, over the largest of them.
double largest_error_of(const RoundedWeights& weights, int sum) {
  double error = 0;
  double largest = 0;
  for (const RoundedTap& tap : weights.taps) {
    if (tap.sum != sum) continue;
    error = std::max(error, std::fabs(tap.packed - tap.weight));
    largest = std::max(largest, std::fabs(tap.weight));
  }
  return error / largest;
}

TEST(Plan, SumsOfDifferentMagnitudesAreHeldAlike) {
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::f32}) {
    for (const double scale : {1e-8, 1.0 / 3, 1e7}) {
      spec::StencilSpec stencil = two_sums(0, storage);
      for (spec::Tap& tap : stencil.taps) {
        tap.weight = std::sqrt(std::abs(tap.at[spec::axis_x]) + 2.0 + tap.sum) * (tap.sum == 1 ? scale : 1);
      }
      const RoundedWeights weights = round_weights(stencil).weights;
      for (const int sum : {0, 1}) {
        EXPECT_LE(largest_error_of(weights, sum), 0x1p-21) << scale;
        EXPECT_GT(weights.result_scale(sum), 0) << scale;
      }
      EXPECT_NEAR(weights.result_scale(1) / weights.result_scale(0) / scale, 1, 1) << scale;
    }
  }
}

TEST(Plan, SmallWeightsKeepTheirDigitsBesideASmallerSum) {
  spec::StencilSpec stencil = two_sums(0, spec::Storage::f16);
  stencil.weights = spec::WeightMode::f16;
  stencil.taps = {{{0, 0, -1}, 1000.3, {}, 0},
                  {{0, 0, 1}, 0.0011, {}, 0},
                  {{0, -1, 0}, 0.2, {}, 1},
                  {{0, 1, 0}, -0.17, {}, 1}};
  for (const RoundedTap& tap : round_weights(stencil).weights.taps)
    EXPECT_NEAR(tap.packed, tap.weight, std::fabs(tap.weight) * 0x1p-11);
}

TEST(Plan, DiagonalsOfSeveralSumsAreAtOneDistanceIn2D) {
  // Stars of other radii would be paired at other distances, and kernels have one.
  for (const int other : {5, 6}) {
    spec::StencilSpec stencil = two_sums(0, spec::Storage::f16);
    stencil.taps.clear();
    for (int i = -6; i <= 6; ++i) {
      for (const int sum : {0, 1}) {
        const int radius = sum == 0 ? 6 : other;
        if (std::abs(i) > radius) continue;
        stencil.taps.push_back({{0, i, 0}, 1.0 + i * i, {}, sum});
        if (i != 0) stencil.taps.push_back({{0, 0, i}, 2.0 + i * i, {}, sum});
      }
    }
    stencil.taps.push_back({{0, 0, 9}, 0.5, {}, 0});  // too far for bands
    std::sort(stencil.taps.begin(), stencil.taps.end(), [](const spec::Tap& a, const spec::Tap& b) {
      return std::pair(a.at, a.sum) < std::pair(b.at, b.sum);
    });
    EXPECT_EQ(plan_of(stencil, Engine::sparse).contraction.pairs_diagonals(), other == 6);
  }
}

TEST(Plan, StarsOfSeveralSumsHaveBandsOfTheirOwn) {
  const auto stars = [](int along_x, int along_y, double largest) {
    spec::StencilSpec stencil = two_sums(0, spec::Storage::f16);
    stencil.taps.clear();
    for (int sum = 0; sum < 3; ++sum) {
      for (int i = -5; i <= 5; ++i) {
        if (sum < along_y) stencil.taps.push_back({{0, i, 0}, (i + 6.0) / 64, {}, sum});
        if (sum >= 3 - along_x && i != 0) stencil.taps.push_back({{0, 0, i}, (i + 7.0) / 64, {}, sum});
      }
    }
    stencil.taps.back().weight = largest;
    stencil.sums.push_back({"c", spec::Shape::taps});
    std::sort(stencil.taps.begin(), stencil.taps.end(), [](const spec::Tap& a, const spec::Tap& b) {
      return std::pair(a.at, a.sum) < std::pair(b.at, b.sum);
    });
    return stencil;
  };
  const auto counts = [](const spec::StencilSpec& stencil) {
    const Contraction contraction = contraction_of(stencil, Engine::sparse);
    EXPECT_TRUE(contraction.is_bands());
    return std::array{column_operands_of(contraction), row_bands_of(contraction),
                      contraction.chained_products(), contraction.longest_chain()};
  };
  EXPECT_EQ(counts(stars(1, 2, 0.5)), (std::array{2, 1, 2 + 3, 3}));
  EXPECT_EQ(counts(stars(3, 3, 0.5)), (std::array{3, 3, 3 + 9, 1 + 3}));
  EXPECT_EQ(counts(stars(1, 2, std::sqrt(0.5))), (std::array{2, 2, 2 + 6, 6}));  // its remainders

  const auto blocks_of = [](const spec::StencilSpec& stencil) {
    return std::get<Star2d>(plan_of(stencil, Engine::sparse).scheme).forms.front().blocks_per_multiprocessor;
  };
  EXPECT_LT(blocks_of(stars(3, 3, 0.5)), blocks_of(stars(1, 2, 0.5)));
  spec::StencilSpec with_remainders = stars(3, 3, 0.5);
  for (spec::Tap& tap : with_remainders.taps) tap.weight = std::sqrt(tap.weight);
  EXPECT_FALSE(is<Star2d>(plan_of(with_remainders, Engine::sparse)));  // registers have no room
}

TEST(Plan, EachOfSeveralSumsKeepsThatOfItsWeights) {
  const KernelPlan plan = plan_of(two_sums(0, spec::Storage::f32), Engine::cuda);
  double sums[2] = {};
  for (const RoundedTap& tap : plan.weights.taps) sums[tap.sum] += tap.packed;
  EXPECT_EQ(sums[0], 1);
  EXPECT_NEAR(sums[1], 3, 0x1p-25);
  // The bound is that of the sum with most taps, not of all.
  spec::StencilSpec one = with_weights({0.1, 0.1, 0.6, 0.1, 0.1});
  one.storage = spec::Storage::f32;
  EXPECT_EQ(plan.error_bound.sum, plan_of(one, Engine::cuda).error_bound.sum);
}

TEST(Plan, SumsWaitFromTheirFirstRowToTheLastOfAll) {
  for (const int rows : {0, 1, 4}) {
    const Contraction contraction = contraction_of(two_sums(rows, spec::Storage::f32), Engine::cuda);
    EXPECT_EQ(contraction.taps.size(), 10U);
    EXPECT_EQ(sums_in_flight(contraction.taps), 1 + 1 + rows);
    EXPECT_TRUE(std::is_sorted(
        contraction.taps.begin(), contraction.taps.end(), [](const CoreTap& a, const CoreTap& b) {
          return std::tuple(a.row, a.step, a.column, a.sum) < std::tuple(b.row, b.step, b.column, b.sum);
        }));
  }
}

TEST(Plan, TapRowsThatAreMultiplesAreSharedAmongSeveralSums) {
  spec::StencilSpec sobel = two_sums(0, spec::Storage::f16);
  const int smooth[] = {1, 2, 1};
  const auto make = [&](double last) {
    sobel.taps.clear();
    for (int dy = -1; dy <= 1; ++dy) {
      for (int dx = -1; dx <= 1; ++dx) {
        if (dx != 0) sobel.taps.push_back({{0, dy, dx}, 1.0 * smooth[dy + 1] * dx, {}, 0});
        if (dy != 0) sobel.taps.push_back({{0, dy, dx}, 1.0 * smooth[dx + 1] * dy, {}, 1});
      }
    }
    sobel.taps.back().weight = last;
    return scheme_of<Cores2d>(sobel, Engine::cuda).shared_rows;
  };
  const std::vector<SharedRow> of_x = {{0, -1, 1}, {0, 0, 2}, {0, 1, 1}};
  std::vector<SharedRow> both = of_x;
  both.insert(both.end(), {{1, -1, 1}, {1, 1, -1}});
  EXPECT_EQ(make(1), both);
  EXPECT_EQ(make(1 + 0x1p-20), of_x);
  EXPECT_EQ(make(0.1), of_x);
  // One sum is added in the order that it always had.
  EXPECT_TRUE(scheme_of<Cores2d>(box_of(2, 1, spec::Storage::f32), Engine::cuda).shared_rows.empty());
}

TEST(Plan, SharedRowsOfHalfWordsHaveBlocksOfOneWarp) {
  spec::StencilSpec gradient = two_sums(0, spec::Storage::f16);
  gradient.taps.clear();
  for (const int dy : {-1, 1}) {
    for (const int dx : {-1, 1}) {
      gradient.taps.push_back({{0, dy, dx}, 1.0 * dx, {}, 0});
      gradient.taps.push_back({{0, dy, dx}, 1.0 * dy, {}, 1});
    }
  }
  const auto halves = scheme_of<Cores2d>(gradient, Engine::cuda);
  EXPECT_EQ(halves.warps_per_block, 1);
  EXPECT_EQ(halves.blocks_per_multiprocessor, 20);
  gradient.storage = spec::Storage::f32;
  EXPECT_EQ(scheme_of<Cores2d>(gradient, Engine::cuda).warps_per_block, 4);
}

TEST(Plan, SeveralSumsAreForTheFasterEngine) {
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::f32}) {
    const spec::StencilSpec stencil = two_sums(1, storage);
    EXPECT_EQ(default_of(stencil), storage == spec::Storage::f32 ? Engine::cuda : Engine::sparse);
    EXPECT_FALSE(check_supported(stencil, Engine::sparse).has_errors());
  }
}

TEST(Plan, GradientsIn3DAreForTensorCoresUnlessTheirUpdateReadsPoints) {
  spec::StencilSpec gradient = two_sums(0, spec::Storage::f16);
  gradient.dimensions = 3;
  gradient.taps.clear();
  gradient.sums.push_back({"c", spec::Shape::taps});
  for (const int axis : {0, 1, 2}) {
    for (const int side : {-1, 1}) {
      spec::Tap tap{{}, 0.5 * side, {}, axis};
      tap.at[axis] = side;
      gradient.taps.push_back(tap);
    }
  }
  std::sort(gradient.taps.begin(), gradient.taps.end(), [](const spec::Tap& a, const spec::Tap& b) {
    return std::pair(a.at, a.sum) < std::pair(b.at, b.sum);
  });
  EXPECT_EQ(default_of(gradient), Engine::sparse);
  gradient.update->nodes.front().operation = spec::UpdateOperation::input;
  EXPECT_EQ(default_of(gradient), Engine::cuda);
}

TEST(Plan, RowsWaitForSeveralSumsOfManySteps) {
  using enum spec::Storage;
  for (const spec::Storage storage : {f16, bf16, f32, f64}) {
    spec::StencilSpec spec = two_sums(1, storage);
    spec.steps = 4;
    const auto scheme = scheme_of<Stepping2d>(spec, Engine::cuda);
    EXPECT_EQ(scheme.form, Stepping2d::Form::window);
    EXPECT_EQ(scheme.operations, 10);
    EXPECT_EQ(scheme.unit, 1);
    for (const int sum : {0, 1}) {
      const auto is_its = [sum](const Stepping2d::Weight& weight) { return weight.sum == sum; };
      EXPECT_EQ(std::count_if(scheme.weights.begin(), scheme.weights.end(), is_its), 5);
    }
  }
}

TEST(Plan, CoresTake3DStencilsWhoseMmasTakeLonger) {
  // A star of radius 4: with weights of one term 9 MMAs, which take less than memory; of two terms 18.
  for (const double power : {1.0, 1.1}) {
    spec::StencilSpec star;
    star.dimensions = 3;
    for (const int axis : {0, 1, 2}) {
      for (int i = -4; i <= 4; ++i) {
        spec::Tap tap{{}, std::pow(axis + i + 10, power), {}};
        tap.at[axis] = i;
        if (i != 0 || axis == 0) star.taps.push_back(tap);
      }
    }
    std::sort(star.taps.begin(), star.taps.end(),
              [](const spec::Tap& a, const spec::Tap& b) { return a.at < b.at; });
    EXPECT_EQ(default_of(star), power == 1.0 ? Engine::sparse : Engine::cuda);
    star.storage = spec::Storage::f32;
    EXPECT_EQ(default_of(star), Engine::cuda);
  }
  // 125 multiply-adds take CUDA cores longer.
  EXPECT_EQ(default_of(box_of(3, 2, spec::Storage::f16)), Engine::sparse);
  const KernelPlan box = plan_of(box_of(3, 2, spec::Storage::f16));
  EXPECT_GT(fastest(box, Engine::cuda)->microseconds, fastest(box, Engine::sparse)->microseconds);
  EXPECT_TRUE(fastest(box, Engine::cuda)->measured);
  EXPECT_FALSE(fastest(plan_of(box_of(3, 7, spec::Storage::f16)), Engine::cuda)->measured);
}

TEST(Plan, CoresAddTapsInTheOrderOfTheirTable) {
  const std::vector<CoreTap> taps = contraction_of(box_of(3, 2, spec::Storage::f16), Engine::cuda).taps;
  EXPECT_TRUE(std::is_sorted(taps.begin(), taps.end(), [](const CoreTap& a, const CoreTap& b) {
    return std::tuple(a.row, a.step, a.column) < std::tuple(b.row, b.step, b.column);
  }));
  // Sums of the seven rows in flight rotate by unrolling.
  EXPECT_EQ(scheme_of<CudaCores>(box_of(2, 3, spec::Storage::f32), Engine::cuda).unrolled_steps % 7, 0);
}

TEST(Plan, CoresTakeTilesIn2DWhereTheyFit) {
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::f32}) {
    const auto cores = scheme_of<Cores2d>(box_of(2, 1, storage), Engine::cuda);
    EXPECT_GE(cores.tile_rows, 8);
    EXPECT_EQ(cores.tile_input_rows, cores.tile_rows + 2);
    EXPECT_EQ(cores.outputs, 16 / spec::element_bytes(storage));
    EXPECT_EQ(cores.left_lanes, 1);
    EXPECT_EQ(cores.right_lanes, 1);
  }
  // Five columns are in the next lane but one of four outputs; none are needed where no tap goes.
  spec::StencilSpec ahead = box_of(2, 0, spec::Storage::f32);
  ahead.taps.push_back({{0, 0, 5}, 2.0, {}});
  EXPECT_EQ(scheme_of<Cores2d>(ahead, Engine::cuda).left_lanes, 0);
  EXPECT_EQ(scheme_of<Cores2d>(ahead, Engine::cuda).right_lanes, 2);
  // Each lane finds the place of one input row.
  for (const int rows : {1, 4, 8, 15, 16}) {
    const KernelPlan plan = plan_of(far_stencil(rows, 1, false), Engine::cuda);
    const auto* cores = std::get_if<Cores2d>(&plan.scheme);
    EXPECT_LE(cores == nullptr ? 0 : cores->tile_input_rows, 32) << rows;
  }
  EXPECT_FALSE(is<Cores2d>(plan_of(box_of(3, 1, spec::Storage::f32), Engine::cuda)));
  EXPECT_FALSE(is<Cores2d>(plan_of(box_of(2, 7, spec::Storage::f32), Engine::cuda))) << "too much code";
}

TEST(Plan, CoresHaveDoublesOfManyTapsInTilesOfFewRows) {
  for (const int radius : {2, 3, 4, 5}) {
    const KernelPlan plan = plan_of(box_of(2, radius, spec::Storage::f64), Engine::cuda);
    const auto* cores = std::get_if<Cores2d>(&plan.scheme);
    ASSERT_EQ(cores != nullptr, radius < 5) << radius;
    if (cores == nullptr) continue;
    EXPECT_EQ(cores->tile_input_rows, cores->tile_rows + 2 * radius);
    EXPECT_LE(cores->tile_rows * static_cast<int>(plan.contraction.taps.size()) * cores->outputs, 1300);
    EXPECT_EQ(cores->shared_bytes, 0);
  }
}

TEST(Plan, CoresStreamPlanesWhereTheyFitSharedMemory) {
  constexpr int most_bytes = 99 * 1024;
  for (const spec::Storage storage : {spec::Storage::f16, spec::Storage::bf16, spec::Storage::f32}) {
    EXPECT_FALSE(is<Cores3d>(plan_of(box_of(2, 1, storage), Engine::cuda)));
    for (const int radius : {1, 2, 3}) {
      const auto ring = scheme_of<Cores3d>(box_of(3, radius, storage), Engine::cuda);
      EXPECT_LE(ring.shared_bytes, most_bytes);
      EXPECT_GE(ring.groups_ahead, 1);
      // Copies are fast where shared and global addresses agree modulo 128.
      EXPECT_EQ(ring.row_bytes % 128, 0);
      EXPECT_EQ(ring.lead_bytes % 128, 0);
    }
    EXPECT_FALSE(is<Cores3d>(plan_of(box_of(3, 7, storage), Engine::cuda)));
  }
}

TEST(Plan, CoresKeepEdgesInMemoryWhereRegistersRunShort) {
  const auto star_of = [](int radius, spec::Storage storage) {
    spec::StencilSpec star = box_of(3, 0, storage);
    for (int i = 1; i <= radius; ++i) {
      for (std::size_t axis = 0; axis < 3; ++axis) {
        for (const int offset : {-i, i}) {
          spec::Offset at{};
          at[axis] = offset;
          star.taps.push_back({at, 0.125 * i, {}});
        }
      }
    }
    return plan_of(star, Engine::cuda);
  };
  EXPECT_FALSE(std::get<Cores3d>(star_of(1, spec::Storage::f32).scheme).edges_in_memory);
  const KernelPlan wide = star_of(4, spec::Storage::f32);
  const auto& ring = std::get<Cores3d>(wide.scheme);
  EXPECT_TRUE(ring.edges_in_memory);
  EXPECT_FALSE(std::get<Cores3d>(star_of(4, spec::Storage::f16).scheme).edges_in_memory);
  // 44 rows of 34 vectors by 384 threads, 14 columns of them, places two to a word.
  EXPECT_EQ(core_edge_words(ring, wide.contraction), 4 + 2 + 1);
  Cores3d kept = ring;
  kept.edges_in_memory = false;
  EXPECT_EQ(ring.shared_bytes - core_ring_bytes(kept, wide.contraction), 384 * 8 * 4);
}

TEST(Plan, CoresKeepPointsOfUpdatesWhereTheRingHasThem) {
  constexpr int most_bytes = 227 * 1024;
  spec::StencilSpec stencil = box_of(3, 1, spec::Storage::f32);
  EXPECT_EQ(scheme_of<Cores3d>(stencil, Engine::cuda).kept_groups_ahead, 0) << "there is no update";
  stencil.update.emplace();
  stencil.update->nodes = {{spec::UpdateOperation::sum, 0, 0, {}, {}},
                           {spec::UpdateOperation::input, 0, 0, {}, {}},
                           {spec::UpdateOperation::add, 0, 0, {}, {0, 1}}};
  stencil.fields.resize(4, {"field", spec::Storage::f32});
  const auto ring = scheme_of<Cores3d>(stencil, Engine::cuda);
  EXPECT_GT(ring.kept_groups_ahead, 0);
  EXPECT_LE(ring.kept_groups_ahead, 2) << "a walk's first outputs are complete two planes behind its first";
  EXPECT_GT(ring.kept_shared_bytes, ring.shared_bytes);
  EXPECT_LE(ring.kept_shared_bytes, most_bytes);
  stencil.taps = {{{-1, 0, 0}, 0.5, {}}, {{1, 0, 0}, 0.5, {}}};
  EXPECT_EQ(scheme_of<Cores3d>(stencil, Engine::cuda).kept_groups_ahead, 0)
      << "no tap reaches the point itself";
}

TEST(Plan, SideVectorsHoldWhatTapsReach) {
  const auto ring_of = [](spec::Storage storage, int low, int high) {
    spec::StencilSpec stencil = box_of(3, 0, storage);
    stencil.taps = {{{0, 0, low}, 0.5, {}}, {{0, 0, high}, 0.25, {}}};
    return scheme_of<Cores3d>(stencil, Engine::cuda);
  };
  EXPECT_EQ(ring_of(spec::Storage::f32, -5, 3).left_vectors, 2);
  EXPECT_EQ(ring_of(spec::Storage::f32, -5, 3).right_vectors, 1);
  EXPECT_EQ(ring_of(spec::Storage::f16, -5, 3).left_vectors, 1);
  EXPECT_EQ(ring_of(spec::Storage::f16, 0, 1).left_vectors, 0);
  // Five columns to the low side and three to the high one, and what an edge may cut off a vector.
  EXPECT_EQ(columns_across_edges(column_reach_of({{0, 0, -5, 3}}), 4), 5 + 3 + 3 + 3);
  // Three input rows: one vector for dx = 0, two where dx = 1 is among the taps.
  Contraction contraction;
  contraction.element_bytes = 4;
  contraction.taps = {{0, 0, 0, 1}, {0, 1, 1, 1}};
  EXPECT_EQ(core_cells_loaded(2, contraction), 4 + 8 + 8);
  contraction.element_bytes = 8;  // a thread has two outputs: dx = 1 again takes a second vector
  EXPECT_EQ(core_cells_loaded(2, contraction), 2 + 4 + 4);
}

TEST(Plan, DoublesAreComputedAsTheSpecHasThem) {
  spec::StencilSpec stencil = box_of(2, 1, spec::Storage::f64);
  for (spec::Tap& tap : stencil.taps) tap.weight = 0.1;
  const PlanResult planned = make_plan(stencil);
  ASSERT_FALSE(planned.diagnostics.has_errors());
  EXPECT_EQ(planned.plan.engine, Engine::cuda);
  EXPECT_TRUE(planned.plan.weights.in_f64);
  for (const RoundedTap& tap : planned.plan.weights.taps) EXPECT_EQ(tap.packed, 0.1);
  EXPECT_NEAR(planned.plan.error_bound.sum, static_cast<double>(stencil.taps.size()) * 0x1p-53,
              0.2 * 0x1p-53);
  EXPECT_EQ(planned.plan.error_bound.result, 0);
  EXPECT_EQ(scheme_of<Cores2d>(stencil, Engine::cuda).outputs, 2);
  EXPECT_EQ(scheme_of<Cores3d>(box_of(3, 1, spec::Storage::f64), Engine::cuda).row_outputs, 2);
  stencil.steps.reset();  // auto
  EXPECT_GT(make_plan(stencil).plan.op.steps, 1);
}

TEST(Plan, CoresThatWalkIn2DHaveARing) {
  const auto cores = scheme_of<CudaCores>(box_of(2, 3, spec::Storage::f32), Engine::cuda);
  EXPECT_EQ(cores.ring_rows, cores.unrolled_steps) << "its places are constants";
  EXPECT_EQ(cores.ring_column, -4);
  EXPECT_EQ(cores.ring_vectors, 32 + 2);
  EXPECT_EQ(cores.ring_row_bytes, 640);
  EXPECT_EQ(cores.shared_bytes, cores.warps_per_block * cores.ring_rows * 640 + 128);
  EXPECT_EQ(cores.preferred_steps, 64);
  EXPECT_EQ(scheme_of<CudaCores>(box_of(2, 7, spec::Storage::f32), Engine::cuda).preferred_steps,
            8 * (15 + 1));
  EXPECT_EQ(shared_bytes(plan_of(box_of(2, 1, spec::Storage::f32), Engine::cuda)), 0);
}

TEST(Plan, CoresThatCannotHoldAStencilTakeATable) {
  EXPECT_EQ(scheme_of<Cores2d>(box_of(2, 1, spec::Storage::f16), Engine::cuda).outputs, 8);
  EXPECT_EQ(scheme_of<Cores2d>(box_of(2, 1, spec::Storage::f32), Engine::cuda).outputs, 4);
  // Sums and window are more than registers hold for eight outputs.
  const auto light = scheme_of<CudaCores>(box_of(2, 7, spec::Storage::f16), Engine::cuda);
  EXPECT_TRUE(light.unrolled);
  EXPECT_EQ(light.outputs, 4);
  const auto heavy = scheme_of<CudaCores>(box_of(3, 7, spec::Storage::f16), Engine::cuda);
  EXPECT_FALSE(heavy.unrolled);
  EXPECT_NE(heavy.in_code.find("multiply-adds a step"), std::string::npos) << heavy.in_code;
  const auto far = scheme_of<CudaCores>(far_stencil(0, 127, false), Engine::cuda);
  EXPECT_NE(far.in_code.find("registers"), std::string::npos) << far.in_code;
  EXPECT_NE(scheme_of<CudaCores>(far_stencil(31, 1, false), Engine::cuda).in_code.find("in flight"),
            std::string::npos);
}

spec::StencilSpec heat_of(int steps, spec::Storage storage = spec::Storage::f32) {
  spec::StencilSpec stencil;
  stencil.storage = storage;
  stencil.steps = steps;
  for (const auto& [dy, dx] : {std::pair(-1, 0), {0, -1}, {0, 0}, {0, 1}, {1, 0}})
    stencil.taps.push_back({{0, dy, dx}, dy == 0 && dx == 0 ? 0.6 : 0.1, {}});
  return stencil;
}

KernelPlan plan_of_steps(const spec::StencilSpec& stencil) {
  const PlanResult result = make_plan(stencil);
  EXPECT_FALSE(result.diagnostics.has_errors());
  return result.plan;
}

TEST(Steps, AnyNumberThatFitsIsTakenAsItIs) {
  for (const spec::Storage storage : {spec::Storage::f32, spec::Storage::f16, spec::Storage::f64}) {
    for (int steps = 2; steps <= 40; ++steps) {
      spec::StencilSpec stencil = heat_of(steps, storage);
      stencil.tolerance = 0;  // nothing but stepping has none
      const KernelPlan plan = plan_of_steps(stencil);
      ASSERT_TRUE(is<Stepping2d>(plan));
      EXPECT_EQ(std::get<Stepping2d>(plan.scheme).time_steps(), steps);
      EXPECT_EQ(plan.op.reach_low, (spec::Offset{0, steps, steps}));
      EXPECT_EQ(plan.tap_rows.size(), 2U * static_cast<unsigned>(steps) + 1);
    }
  }
}

TEST(Steps, ComposedWeightsSumToWhatTheSpecsDo) {
  for (const auto& [storage, near] :
       {std::pair(spec::Storage::f32, 0x1p-24), {spec::Storage::f64, 0x1p-46}}) {
    for (const int steps : {2, 7, 24, 32}) {
      const auto scheme = std::get<Stepping2d>(plan_of_steps(heat_of(steps, storage)).scheme);
      double sum = 0;
      for (const Stepping2d::Weight& weight : scheme.weights) sum += weight.scaled;
      const double composed = std::pow(sum, steps) * std::pow(scheme.back, scheme.warps - 1) * scheme.last;
      EXPECT_NEAR(composed, 1, near) << steps;
    }
  }
}

TEST(Steps, SharedSumsAreTakenWhereWeightsAllowThem) {
  using Form = Stepping2d::Form;
  const auto form_of = [](const spec::StencilSpec& stencil) {
    return std::get<Stepping2d>(plan_of_steps(stencil).scheme).form;
  };
  spec::StencilSpec stencil = heat_of(8);
  EXPECT_EQ(form_of(stencil), Form::cross);
  stencil.taps[1].weight = 0.2;
  EXPECT_EQ(form_of(stencil), Form::taps);
  stencil.taps.clear();
  for (int dy = -1; dy <= 1; ++dy) {
    for (int dx = -1; dx <= 1; ++dx)
      stencil.taps.push_back({{0, dy, dx}, (dy == 0 ? 0.2 : 0.1) * (dx == 0 ? 1.5 : 1), {}});
  }
  EXPECT_EQ(form_of(stencil), Form::even);
}

TEST(Steps, SumsOfAnUpdateAreOverAUnitThatKeepsThemFinite) {
  spec::StencilSpec stencil = heat_of(4);
  stencil.update.emplace();
  stencil.update->nodes = {{spec::UpdateOperation::sum, 0, 0, {}, {}}};
  EXPECT_EQ(std::get<Stepping2d>(plan_of_steps(stencil).scheme).form, Stepping2d::Form::cross);
  for (spec::Tap& tap : stencil.taps) tap.weight = tap.at == spec::Offset{} ? 1 : 1e-30;
  const auto scheme = std::get<Stepping2d>(plan_of_steps(stencil).scheme);
  EXPECT_EQ(scheme.form, Stepping2d::Form::taps);
  EXPECT_EQ(scheme.unit, 1);
}

/// A star of radius 1 in any number of dimensions, or all cells of its box with even weights.
spec::StencilSpec steps_in(int dimensions, std::optional<int> steps, bool box = false) {
  spec::StencilSpec stencil;
  stencil.dimensions = dimensions;
  stencil.storage = spec::Storage::f32;
  stencil.steps = steps;
  for (int place = 0; place < 27; ++place) {
    const spec::Offset at{place / 9 - 1, place / 3 % 3 - 1, place % 3 - 1};
    const int distance = std::abs(at[0]) + std::abs(at[1]) + std::abs(at[2]);
    const bool has_axes = (dimensions == 3 || at[0] == 0) && (dimensions > 1 || at[1] == 0);
    if (has_axes && (box || distance <= 1)) stencil.taps.push_back({at, 0.3 / (1 + 2 * distance), {}});
  }
  return stencil;
}

TEST(Steps, AutoTakesNoMoreTimeAStepThanASingleSweep) {
  for (const int dimensions : {1, 2, 3}) {
    const KernelPlan plan = plan_of_steps(steps_in(dimensions, std::nullopt));
    EXPECT_GT(plan.op.steps, 1) << dimensions;
    EXPECT_LT(plan.microseconds / plan.op.steps, plan.single_step_us) << dimensions;
  }
}

TEST(Steps, TilesOf3dHaveOutputsAndRoom) {
  const auto expect_room = [](const auto& scheme, int warps, int steps) {
    EXPECT_GT(scheme.height(), 2 * steps);
    EXPECT_GT(scheme.valid_columns(), 0);
    EXPECT_LE(scheme.blocks_per_multiprocessor * (scheme.shared_bytes + reserved_per_block),
              shared_per_multiprocessor);
    EXPECT_LE(scheme.blocks_per_multiprocessor * warps * threads_per_warp * scheme.estimated_registers,
              registers_per_multiprocessor);
  };
  for (const int steps : {2, 3, 4, 6}) {
    const KernelPlan box = plan_of_steps(steps_in(3, steps, true));
    ASSERT_TRUE(is<Stepping3d>(box));
    const auto scheme = std::get<Stepping3d>(box.scheme);
    EXPECT_EQ(scheme.form, Stepping3d::Form::even);
    EXPECT_EQ(box.op.reach_low, (spec::Offset{steps, steps, steps}));
    expect_room(scheme, scheme.warps(), steps);
    if (steps == 2) continue;  // memory binds stars of any layout
    const KernelPlan star = plan_of_steps(steps_in(3, steps));
    ASSERT_TRUE(is<Levels3d>(star)) << steps;
    expect_room(std::get<Levels3d>(star.scheme), Levels3d::warps, steps);
  }
  spec::StencilSpec uneven = steps_in(3, 3, true);
  uneven.taps.front().weight *= 2;
  EXPECT_EQ(std::get<Stepping3d>(plan_of_steps(uneven).scheme).form, Stepping3d::Form::taps);
}

/// Taps of radius 2 along all axes, which compilers have few registers for.
spec::StencilSpec long_star(int steps, spec::Storage storage, spec::BoundaryRule rule) {
  spec::StencilSpec stencil = steps_in(3, steps);
  stencil.storage = storage;
  for (int axis = 0; axis < 3; ++axis) {
    for (const int distance : {-2, 2}) {
      spec::Offset at{};
      at[axis] = distance;
      stencil.taps.push_back({at, 0.02, {}});
    }
    stencil.boundary[axis].low.rule = stencil.boundary[axis].high.rule = rule;
  }
  return stencil;
}

TEST(Steps, SingleStepsOf3dHaveTheRegistersThatTheyTake) {
  const auto blocks = [](const spec::StencilSpec& stencil) {
    return choose_stepping3d(stencil, *stencil.steps).value().scheme.single.blocks_per_multiprocessor;
  };
  EXPECT_EQ(blocks(steps_in(3, 3, true)), 2);
  EXPECT_EQ(blocks(long_star(2, spec::Storage::f16, spec::BoundaryRule::halo)), 2);
  // Two blocks of 256 threads leave 128 registers: nvcc 13.0 had stack frames of 264 to 568 bytes.
  EXPECT_EQ(blocks(long_star(2, spec::Storage::f32, spec::BoundaryRule::mirror)), 1);
  EXPECT_EQ(blocks(long_star(2, spec::Storage::bf16, spec::BoundaryRule::mirror)), 1);
  EXPECT_EQ(blocks(long_star(2, spec::Storage::f64, spec::BoundaryRule::halo)), 1);
}

TEST(Steps, SingleStepsOf3dHaveFewerRowsWhereSharedMemoryIsShort) {
  spec::StencilSpec stencil = steps_in(3, 3);
  stencil.storage = spec::Storage::f64;
  stencil.taps.clear();
  for (const spec::Offset& at : {spec::Offset{}, spec::Offset{-2, 0, 0}, spec::Offset{2, 0, 0},
                                 spec::Offset{0, 1, 0}, spec::Offset{0, 0, 2}})
    stencil.taps.push_back({at, 0.1, {}});
  stencil.update = updated_box(spec::Storage::f64).update;
  stencil.previous = spec::FurtherField{"u_old", spec::Storage::f64};
  // Seven planes of 32 rows and 2 beside them are 238 KiB of 227.
  const Stepping3d scheme = choose_stepping3d(stencil, 3).value().scheme;
  EXPECT_GE(scheme.rows, 4);
  EXPECT_EQ(scheme.ahead, 4);
  EXPECT_EQ(scheme.single.rows, 3);
}

TEST(Steps, RowsIn3dLeaveRegistersToHalvesAndToFacesThatAreWeighed) {
  const auto rows = [](spec::Storage storage, spec::BoundaryRule rule) {
    return choose_stepping3d(long_star(2, storage, rule), 2).value().scheme.rows;
  };
  // The most of which nvcc 13.0 has no stack frame for sm_90.
  EXPECT_LE(rows(spec::Storage::f32, spec::BoundaryRule::mirror), 10);
  EXPECT_LE(rows(spec::Storage::f16, spec::BoundaryRule::halo), 9);
  EXPECT_LE(rows(spec::Storage::bf16, spec::BoundaryRule::mirror), 8);
}

TEST(Steps, Levels3dTakeTheUnitWhereNeighboursHaveOneWeight) {
  spec::StencilSpec star = steps_in(3, 4);
  const auto levels = std::get<Levels3d>(plan_of_steps(star).scheme);
  EXPECT_EQ(levels.form, Levels3d::Form::cross);
  EXPECT_EQ(levels.scaled.low[spec::axis_y], 1);
  EXPECT_EQ(levels.unit, star.taps.front().weight);
  EXPECT_NEAR(levels.last / std::pow(levels.unit, 4), 1, 1e-6);
  star.taps.front().weight *= 2;
  const auto uneven = std::get<Levels3d>(plan_of_steps(star).scheme);
  EXPECT_EQ(uneven.form, Levels3d::Form::taps);
  EXPECT_EQ(uneven.unit, 1);
  EXPECT_EQ(uneven.scaled, uneven.single);
  for (spec::Tap& tap : star.taps) tap.weight = 1e-9;  // the unit's powers leave what f32 numbers hold
  EXPECT_EQ(std::get<Levels3d>(plan_of_steps(star).scheme).form, Levels3d::Form::taps);
}

TEST(Steps, Levels3dTakeUpdatesOfWhatRegistersHold) {
  spec::StencilSpec star = steps_in(3, 3);
  star.storage = spec::Storage::f32;
  star.update = updated_box(spec::Storage::f32).update;  // u times the sum
  const auto levels = std::get<Levels3d>(plan_of_steps(star).scheme);
  EXPECT_EQ(levels.form, Levels3d::Form::cross);
  EXPECT_EQ(levels.unit, 1);  // between steps cells are the field's
  EXPECT_EQ(levels.last, 1);
  EXPECT_EQ(levels.back, static_cast<float>(star.taps.front().weight));
  EXPECT_NEAR(levels.scaled.center, star.taps[3].weight / star.taps.front().weight, 1e-5);
  EXPECT_EQ(levels.update_operations, 2);  // and the unit

  const auto steps_planes = [](const spec::StencilSpec& stencil) {
    return is<Stepping3d>(plan_of_steps(stencil));
  };
  spec::StencilSpec of_place = star;
  of_place.update->nodes.front().operation = spec::UpdateOperation::index;
  EXPECT_TRUE(steps_planes(of_place));
  spec::StencilSpec of_last_step = star;
  of_last_step.previous = spec::FurtherField{"u_old", spec::Storage::f32};
  EXPECT_TRUE(steps_planes(of_last_step));
  // Long ones are left to the kernel that has fewer copies of them in its code.
  spec::StencilSpec long_one = star;
  for (int i = 0; i < 100; ++i)
    long_one.update->nodes.push_back({spec::UpdateOperation::multiply, 0, 0, {}, {0, i + 2}});
  EXPECT_TRUE(steps_planes(long_one));
}

TEST(Steps, Levels3dKeepFieldsThatUpdatesRead) {
  spec::StencilSpec star = steps_in(3, 3);
  star.storage = spec::Storage::f32;
  star.update = updated_box(spec::Storage::f32).update;
  const KernelPlan without = plan_of_steps(star);
  star.fields = {{"c", spec::Storage::f16}};
  const KernelPlan of_field = plan_of_steps(star);
  ASSERT_TRUE(is<Levels3d>(of_field));
  EXPECT_GT(of_field.microseconds, without.microseconds);
  const auto levels = std::get<Levels3d>(of_field.scheme);
  // Planes that three steps complete, and those that come, beside the input's, of which two wait.
  const int plane = levels.height() * 128;
  EXPECT_GT(levels.shared_bytes, plane * ((levels.ahead + 2) * 4 + (levels.ahead + 3) * 2));
  EXPECT_LE(levels.shared_bytes + reserved_per_block, shared_per_multiprocessor);
  for (int i = 0; i < 7; ++i) star.fields.push_back({"c" + std::to_string(i), spec::Storage::f32});
  EXPECT_FALSE(is<Levels3d>(plan_of_steps(star)));  // nor is there room for single steps
}

TEST(Steps, Levels3dHoldConstantsAlongX) {
  spec::StencilSpec star = steps_in(3, 4);
  const auto ghost_center = [](const spec::StencilSpec& stencil) {
    return std::get<Levels3d>(plan_of_steps(stencil).scheme).ghost_center;
  };
  const auto levels = std::get<Levels3d>(plan_of_steps(star).scheme);
  star.boundary[spec::axis_x].low = {spec::BoundaryRule::antisymmetric, 0, {}};
  star.boundary[spec::axis_x].high = {spec::BoundaryRule::constant, 0, {}};
  EXPECT_EQ(ghost_center(star), levels.scaled.center);  // any weights keep 0
  star.boundary[spec::axis_x].high.value = 2;
  const double neighbour = star.taps.front().weight;
  for (const double center : {1 - 6 * neighbour, 0.25}) {
    star.taps[3].weight = center;
    const std::optional<float> held = ghost_center(star);
    ASSERT_TRUE(held);
    EXPECT_NEAR((*held + 6) * neighbour, 1, 1e-6);
  }
  spec::StencilSpec without_center = star;
  without_center.taps.erase(without_center.taps.begin() + 3);
  EXPECT_FALSE(ghost_center(without_center));
  for (const double weight : {0.2, -0.05}) {  // errors beyond faces would grow
    spec::StencilSpec growing = star;
    for (spec::Tap& tap : growing.taps) tap.weight = weight;
    EXPECT_FALSE(ghost_center(growing));
    growing.boundary[spec::axis_x].high.value = 0;
    EXPECT_TRUE(ghost_center(growing));
  }
  star.boundary[spec::axis_x].high.value = 0;
  star.storage = spec::Storage::f32;
  star.update = updated_box(spec::Storage::f32).update;  // what it makes of a constant is another
  EXPECT_FALSE(ghost_center(star));
}

TEST(Steps, DoublesKeepTheSpecsWeights) {
  spec::StencilSpec stencil = heat_of(8, spec::Storage::f64);
  stencil.taps.front().weight = 0.3;  // no sums are shared, so that the unit is 1
  const auto scheme = std::get<Stepping2d>(plan_of_steps(stencil).scheme);
  ASSERT_EQ(scheme.weights.size(), stencil.taps.size());
  for (std::size_t i = 0; i < scheme.weights.size(); ++i) {
    EXPECT_EQ(scheme.weights[i].scaled, stencil.taps[i].weight);
    EXPECT_EQ(scheme.weights[i].single, stencil.taps[i].weight);
  }
  EXPECT_EQ(scheme.last, 1);
  spec::StencilSpec star = steps_in(3, 4);
  star.storage = spec::Storage::f64;
  EXPECT_TRUE(is<Stepping3d>(plan_of_steps(star)));  // of f32 all steps of a warp's rows are in its registers
}

TEST(Steps, StripsOf1dHaveOutputs) {
  for (int steps = 2; steps <= 300; steps += 7) {
    const KernelPlan plan = plan_of_steps(steps_in(1, steps));
    ASSERT_TRUE(is<Stepping1d>(plan));
    const auto scheme = std::get<Stepping1d>(plan.scheme);
    EXPECT_EQ(scheme.steps, steps);
    EXPECT_GT(scheme.columns * threads_per_warp, 2 * steps);
    double sum = 0;
    for (const double weight : scheme.weights) sum += weight;
    EXPECT_NEAR(std::pow(sum, steps) * scheme.last, std::pow(0.5, steps), std::pow(0.5, steps) * 0x1p-23);
  }
}

TEST(Plan, TapsOfOneRowAreNotStreamed) {
  spec::StencilSpec stencil;
  for (int dx = -127; dx <= 127; ++dx) stencil.taps.push_back({{0, 0, dx}, 0.5 + dx / 512.0, {}});
  for (const int dimensions : {1, 2}) {
    stencil.dimensions = dimensions;
    EXPECT_FALSE(check_supported(stencil).has_errors());
    const KernelPlan plan = plan_of(stencil);
    EXPECT_TRUE(is<Stream1d>(plan));
    EXPECT_EQ(plan.contraction.products.size(), 16U);
  }
}

}  // namespace
}  // namespace spidergen::plan
