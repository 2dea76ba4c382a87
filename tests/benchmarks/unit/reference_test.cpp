#include "reference.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include <spider/spider.h>

#include "storage.h"

namespace bench {
namespace {

using spider::Face;
using spider::FaceRule;

constexpr std::int64_t margin = 4;

/// A field with `margin` cells beyond every face, by which the reference is checked: every axis is extended
/// in turn, as numpy.pad does, cells of a halo being there already.
class Padded {
 public:
  Padded(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell)
      : extents_(layout.extents) {
    for (std::size_t axis = 0; axis < 3; ++axis) size_[axis] = extents_[axis] + 2 * margin;
    values_.resize(static_cast<std::size_t>(point_count(size_)));
    for_all([&](const Extents& at) { (*this)(at) = cell(layout.index(at[0], at[1], at[2])); });
    for (std::size_t axis = 0; axis < 3; ++axis) extend(stencil.faces[axis], axis);
  }

  double& operator()(const Extents& at) {
    std::int64_t index = 0;
    for (std::size_t axis = 0; axis < 3; ++axis) index = index * size_[axis] + at[axis] + margin;
    return values_[static_cast<std::size_t>(index)];
  }

 private:
  template <class Body>
  void for_all(Body body) {
    Extents at{};
    for (at[0] = -margin; at[0] < extents_[0] + margin; ++at[0])
      for (at[1] = -margin; at[1] < extents_[1] + margin; ++at[1])
        for (at[2] = -margin; at[2] < extents_[2] + margin; ++at[2]) body(at);
  }

  void extend(const std::array<Face, 2>& faces, std::size_t axis) {
    for_all([&](const Extents& at) {
      const std::int64_t i = at[axis];
      if (i >= 0 && i < extents_[axis]) return;
      const Face& face = faces[i < 0 ? 0 : 1];
      const std::int64_t last = extents_[axis] - 1;
      // Extents are larger than the margin, so that one rule is enough.
      Extents from = at;
      if (face.rule == FaceRule::nearest) from[axis] = i < 0 ? 0 : last;
      if (face.rule == FaceRule::periodic) from[axis] = i < 0 ? i + last + 1 : i - last - 1;
      if (face.rule == FaceRule::reflect) from[axis] = i < 0 ? -i - 1 : last - (i - last - 1);
      if (face.rule == FaceRule::mirror) from[axis] = i < 0 ? -i : last - (i - last);
      (*this)(at) = face.rule == FaceRule::constant ? static_cast<double>(face.value) : (*this)(from);
    });
  }

  Extents extents_;
  Extents size_{};
  std::vector<double> values_;
};

Stencil random_stencil(std::mt19937_64& random, int dimensions) {
  Stencil stencil;
  const auto within = [&](int limit) {
    return static_cast<std::int32_t>(random() % (2 * limit + 1)) - limit;
  };
  for (int i = 0; i < 12; ++i) {
    stencil.taps.push_back({dimensions > 2 ? within(margin) : 0, dimensions > 1 ? within(margin) : 0,
                            within(margin), static_cast<double>(within(1000)) / 1024});
  }
  constexpr std::array rules{FaceRule::halo,     FaceRule::constant, FaceRule::nearest,
                             FaceRule::periodic, FaceRule::reflect,  FaceRule::mirror};
  for (auto& axis : stencil.faces) {
    for (Face& face : axis) face = {rules[random() % rules.size()], static_cast<float>(within(4))};
  }
  return stencil;
}

TEST(Reference, AgreesWithPaddingAndSumming) {
  constexpr std::uint64_t seed = 20261;
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  for (int repeat = 0; repeat < 60; ++repeat) {
    const int dimensions = 1 + repeat % 3;
    const Stencil stencil = random_stencil(random, dimensions);
    Extents extents{1, 1, 1};
    for (int axis = 3 - dimensions; axis < 3; ++axis) {
      extents[static_cast<std::size_t>(axis)] = margin + 1 + static_cast<std::int64_t>(random() % 9);
    }
    const FieldLayout layout =
        make_layout(extents, {{margin, margin, margin}, {margin, margin, margin}}, 2, repeat % 2);
    const CellValue cell = [&](std::int64_t index) { return cell_value(SPIDER_F16, 5, index); };
    Padded padded(stencil, layout, cell);
    for (const Extents& point : sample_points(extents, 50, seed)) {
      double sum = 0;
      double magnitude = 0;
      for (const spider::Tap& tap : stencil.taps) {
        const double product = tap.weight * padded({point[0] + tap.dz, point[1] + tap.dy, point[2] + tap.dx});
        sum += product;
        magnitude += std::fabs(product);
      }
      const Exact exact = exact_at(stencil, layout, cell, point);
      ASSERT_EQ(exact.value, sum) << "repeat " << repeat;
      ASSERT_EQ(exact.magnitude, magnitude);
    }
  }
}

TEST(Reference, RulesRepeatUntilACellIsInside) {
  // One row of 2 cells, 10 and 20; a tap reads 3 beyond either face.
  const FieldLayout layout = dense_layout({1, 1, 2});
  const CellValue cell = [](std::int64_t index) { return index == 0 ? 10.0 : 20.0; };
  const auto read = [&](FaceRule low, FaceRule high, int dx) {
    Stencil stencil{{{0, 0, dx, 1.0}}, {}};
    stencil.faces[2] = {Face{low, 7}, Face{high, 7}};
    return exact_at(stencil, layout, cell, {0, 0, 0}).value;
  };
  EXPECT_EQ(read(FaceRule::periodic, FaceRule::periodic, -3), 20);
  EXPECT_EQ(read(FaceRule::reflect, FaceRule::reflect, -3), 20);  // ... 10 20 20 10 | 10 20
  EXPECT_EQ(read(FaceRule::mirror, FaceRule::mirror, -3), 20);    // ... 20 10 20 | 10 20
  EXPECT_EQ(read(FaceRule::reflect, FaceRule::constant, -3), 7);
  EXPECT_EQ(read(FaceRule::nearest, FaceRule::mirror, 3), 10);
}

TEST(Reference, MirrorOfOneCellIsThatCell) {
  Stencil stencil{{{0, 0, -2, 1.0}}, {}};
  stencil.faces[2].fill({FaceRule::mirror, 0});
  EXPECT_EQ(exact_at(stencil, dense_layout({1, 1, 1}), [](std::int64_t) { return 5.0; }, {0, 0, 0}).value, 5);
}

TEST(Reference, SamplesCornersFacesAndInside) {
  const Extents extents{1, 1000, 3000};
  const std::vector<Extents> points = sample_points(extents, 4000, 1);
  int corners = 0;
  int edges = 0;
  int inside = 0;
  for (const Extents& point : points) {
    const bool y_edge = point[1] < 32 || point[1] >= 968;
    const bool x_edge = point[2] < 32 || point[2] >= 2968;
    for (std::size_t axis = 0; axis < 3; ++axis) {
      ASSERT_GE(point[axis], 0);
      ASSERT_LT(point[axis], extents[axis]);
    }
    corners += y_edge && x_edge ? 1 : 0;
    edges += y_edge != x_edge ? 1 : 0;
    inside += !y_edge && !x_edge ? 1 : 0;
  }
  EXPECT_GT(corners, 400);
  EXPECT_GT(edges, 1000);
  EXPECT_GT(inside, 1000);
  EXPECT_EQ(points, sample_points(extents, 4000, 1));
  EXPECT_NE(points, sample_points(extents, 4000, 2));
}

/// A result that is right, and how compare() sees it.
class Compared : public ::testing::Test {
 protected:
  [[nodiscard]] Errors errors(const Arithmetic& arithmetic) const {
    return compare(stencil, layout, cell, arithmetic, points, results);
  }

  void SetUp() override {
    for (const Extents& point : points) {
      results.push_back(
          round_to_storage(SPIDER_F16, static_cast<double>(exact_at(stencil, layout, cell, point).value)));
    }
  }

  Stencil stencil{{{0, -1, 0, 0.25}, {0, 0, 0, 0.5}, {0, 0, 1, 0.25}}, {}};
  FieldLayout layout = make_layout({1, 100, 200}, {{0, 1, 1}, {0, 1, 1}}, 2, 0);
  CellValue cell = [](std::int64_t index) { return cell_value(SPIDER_F16, 3, index); };
  std::vector<Extents> points = sample_points({1, 100, 200}, 1000, 1);
  std::vector<double> results;
  Arithmetic f16{SPIDER_F16, 3};
};

TEST_F(Compared, RoundedResultsAreRight) {
  const Errors found = errors(f16);
  EXPECT_LE(found.worst_of_bound, 1);
  EXPECT_GT(found.worst_of_bound, 0.5);  // the bound is not far off
  EXPECT_LE(found.relative_l2, largest_relative_l2(SPIDER_F16));
  EXPECT_GT(found.relative_l2, 1e-5);
}

TEST_F(Compared, OneWrongPointIsSeen) {
  results[700] += 0.01;
  EXPECT_GT(errors(f16).worst_of_bound, 1);
}

TEST_F(Compared, NanIsSeen) {
  results[0] = std::numeric_limits<double>::quiet_NaN();
  EXPECT_GT(errors(f16).worst_of_bound, 1);
  EXPECT_FALSE(errors(f16).relative_l2 <= 1);
}

TEST_F(Compared, ASlightlyWrongWeightIsSeen) {
  stencil.taps[1].weight += 0x1p-8;
  EXPECT_GT(errors(f16).worst_of_bound, 1);
}

TEST_F(Compared, CopiesMustBeExact) {
  stencil = identity_stencil();
  results.clear();
  SetUp();
  const Arithmetic copy{SPIDER_F16, 0, true};
  EXPECT_EQ(errors(copy).worst_of_bound, 0);
  results[5] += 0x1p-11;
  EXPECT_GT(errors(copy).worst_of_bound, 1);
}

TEST(Reference, BoundsFollowTheStorage) {
  const Exact exact{1, 2};
  const double f16 = error_bound({SPIDER_F16, 3}, exact);
  EXPECT_NEAR(f16, 0x1p-11, 0.1 * 0x1p-11);
  EXPECT_NEAR(error_bound({SPIDER_BF16, 3}, exact), 0x1p-8, 0.1 * 0x1p-8);
  EXPECT_LT(error_bound({SPIDER_F32, 3}, exact), 0x1p-15);
  EXPECT_NEAR(error_bound({SPIDER_F64, 3}, exact), 0x1p-50, 0.01 * 0x1p-50);
  EXPECT_EQ(largest_relative_l2(SPIDER_F16), 1e-3);
  EXPECT_EQ(largest_relative_l2(SPIDER_BF16), 8e-3);
  EXPECT_EQ(largest_relative_l2(SPIDER_F32), 4e-6);
}

TEST(Reference, ZeroPaddingRoundsWeightsAndClosesFaces) {
  const Stencil padded = zero_padded({{{0, 0, 1, 0.1}}, {}}, SPIDER_F16);
  EXPECT_EQ(padded.taps[0].weight, round_to_storage(SPIDER_F16, 0.1));
  const FieldLayout layout = dense_layout({1, 2, 3});
  const CellValue ones = [](std::int64_t) { return 1.0; };
  EXPECT_EQ(exact_at(padded, layout, ones, {0, 0, 2}).value, 0);
  EXPECT_NE(exact_at(padded, layout, ones, {0, 0, 1}).value, 0);
}

}  // namespace
}  // namespace bench
