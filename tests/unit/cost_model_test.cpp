/// The paper's cost model against its own figures, and the floors of --explain by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "emit/cost_model.h"
#include "plan/machine.h"

namespace {

using spidergen::emit::BoxTile;
using spidergen::emit::PointCost;
using spidergen::plan::DeviceRates;

/// The paper prints two decimals.
void expect_printed(const PointCost& cost, const PointCost& printed) {
  EXPECT_NEAR(cost.operations, printed.operations, 0.005);
  EXPECT_NEAR(cost.input, printed.input, 0.005);
  EXPECT_NEAR(cost.parameters, printed.parameters, 0.005);
}

}  // namespace

// Table 2: Box-2D3R, 8 x 8 points a tile.
TEST(CostModel, IsThePapersTable2) {
  const BoxTile tile{3, 8};
  expect_printed(spidergen::emit::lower_bound_cost(tile), {49, 3.06, 0.77});
  expect_printed(spidergen::emit::conv_stencil_cost(tile), {104, 13, 13});
  expect_printed(spidergen::emit::tc_stencil_cost(tile).value(), {286.72, 17.92, 17.92});
  expect_printed(spidergen::emit::lora_stencil_cost(tile), {144, 4, 12});
  expect_printed(spidergen::emit::spider_cost(tile).value(), {56, 14, 7});
}

TEST(CostModel, ThePrintedFormulaOfSpiderDiffersFromItsTable) {
  EXPECT_DOUBLE_EQ(spidergen::emit::spider_operations_as_printed({3, 8}), 64);
}

TEST(CostModel, NamesTheMethodsInThePapersOrder) {
  std::string names;
  for (const auto& [method, cost] : spidergen::emit::paper_costs({3, 8})) {
    names += std::string(method) + ";";
    EXPECT_TRUE(cost.has_value());
  }
  EXPECT_EQ(names, "lower bound;ConvStencil;TCStencil;LoRAStencil;SPIDER;");
}

TEST(CostModel, NothingIsBelowTheLowerBoundOfOperations) {
  for (int radius = 1; radius <= 31; ++radius) {
    for (const int side : {1, 8, 16, 64}) {
      const double least = spidergen::emit::lower_bound_cost({radius, side}).operations;
      for (const auto& [method, cost] : spidergen::emit::paper_costs({radius, side})) {
        if (cost) {
          EXPECT_GE(cost->operations, least) << method << ", radius " << radius << ", side " << side;
        }
      }
    }
  }
}

TEST(CostModel, TilesAreWideEnough) {
  EXPECT_EQ(spidergen::emit::common_tile_side(3), 8);
  EXPECT_EQ(spidergen::emit::common_tile_side(4), 16);
  EXPECT_EQ(spidergen::emit::common_tile_side(7), 16);
  for (int radius = 1; radius <= 31; ++radius) {
    const int side = spidergen::emit::common_tile_side(radius);
    EXPECT_TRUE(spidergen::emit::spider_cost({radius, side}).has_value()) << radius;
  }
  EXPECT_FALSE(spidergen::emit::spider_cost({4, 8}).has_value());
}

TEST(CostModel, TcStencilEndsAtRadius7) {
  EXPECT_TRUE(spidergen::emit::tc_stencil_cost({7, 8}).has_value());
  EXPECT_FALSE(spidergen::emit::tc_stencil_cost({8, 8}).has_value());
}

// 10240^2 points of f16, 15 products: the floor that tests/benchmarks/README.md derives.
TEST(DeviceRates, BoundASweepOnAnH200) {
  const DeviceRates* rates = spidergen::plan::find_device_rates("sm_90a");
  ASSERT_NE(rates, nullptr);
  EXPECT_TRUE(rates->measured);
  const double points = 10240.0 * 10240.0;
  const auto bound = spidergen::plan::bound_sweep(*rates, {points, 4, 15});
  EXPECT_NEAR(bound.memory_us, 102.3, 0.05);
  EXPECT_NEAR(bound.tensor_us, 107.1, 0.05);
  EXPECT_EQ(bound.binding(), "tensor");
  EXPECT_EQ(bound.floor_us(), bound.tensor_us);
  const auto dense = spidergen::plan::bound_sweep(*rates, {points, 4, 30, true});
  EXPECT_NEAR(dense.tensor_us, 161.5, 0.05);
  const auto light = spidergen::plan::bound_sweep(*rates, {points, 4, 3});
  EXPECT_EQ(light.binding(), "memory");
  EXPECT_EQ(light.floor_us(), light.memory_us);
  const auto cores = spidergen::plan::bound_sweep(*rates, {points, 4, 0, false, 225});
  EXPECT_NEAR(cores.cores_us, 704.3, 0.05);  // 67 TFLOP/s, two a multiply-add
  EXPECT_EQ(cores.binding(), "cores");
  EXPECT_EQ(cores.floor_us(), cores.cores_us);
}

// A data sheet's TFLOP/s come back when all quarters do nothing but MMAs.
TEST(DeviceRates, PredictedOnesAreTheDataSheets) {
  const DeviceRates* a100 = spidergen::plan::find_device_rates("sm_80");
  ASSERT_NE(a100, nullptr);
  EXPECT_FALSE(a100->measured);
  const double quarters = 4.0 * a100->multiprocessors;
  EXPECT_NEAR(quarters * 2 * 16 * 8 * 32 / a100->sparse_mma_ns * 1e-3, 624, 1e-9);
  EXPECT_NEAR(quarters * 2 * 16 * 8 * 16 / a100->dense_mma_ns * 1e-3, 312, 1e-9);
  EXPECT_EQ(a100->copy_bytes_per_second, 2.039e12);
}

TEST(DeviceRates, AreNoneWhereNothingIsKnown) {
  EXPECT_EQ(spidergen::plan::find_device_rates("sm_87"), nullptr);
  EXPECT_EQ(spidergen::plan::find_device_rates(""), nullptr);
  int measured = 0;
  for (const DeviceRates& rates : spidergen::plan::device_rates()) {
    EXPECT_EQ(spidergen::plan::find_device_rates(rates.architecture), &rates);
    measured += rates.measured ? 1 : 0;
  }
  EXPECT_EQ(measured, 1);
}
