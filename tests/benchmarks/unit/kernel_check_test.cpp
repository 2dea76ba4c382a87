// The check that stands before every time, on real kernels with all boundaries: the emulated ones.
#include <gtest/gtest.h>

#include <spider/kernel.h>
#include <spider/memory.h>
#include <spider/spider.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "advection2d.h"
#include "advection2d_periodic.h"
#include "box3d_r1.h"
#include "gauss2d_r7.h"
#include "heat1d.h"
#include "heat2d_steps.h"
#include "heat3d.h"
#include "hyperdiffusion2d_mirror.h"
#include "layout.h"
#include "mean2d_reflect.h"
#include "reference.h"
#include "storage.h"

namespace bench {
namespace {

class KernelCheck : public ::testing::TestWithParam<const spider_kernel* (*)()> {
 protected:
  void SetUp() override {
    std::vector<std::uint16_t> input(static_cast<std::size_t>(layout.elements));
    std::vector<std::uint16_t> output(input.size(), 0xFFFF);
    for (std::size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<std::uint16_t>(encode(SPIDER_F16, cell(static_cast<std::int64_t>(i))));
    }
    const spider_field in{input.data() + layout.origin,
                          {extents[0], extents[1], extents[2]},
                          {layout.plane_stride, layout.row_stride}};
    spider_field out = in;
    out.data = output.data() + layout.origin;
    ASSERT_EQ(spider_apply(kernel, &in, &out, nullptr), SPIDER_OK) << spider_last_error();
    for (const Extents& point : points) {
      const std::int64_t index = layout.index(point[0], point[1], point[2]);
      results.push_back(decode(SPIDER_F16, output[static_cast<std::size_t>(index)]));
    }
  }

  const spider_kernel* kernel = GetParam()();
  Extents extents = std::array{Extents{1, 1, 1500}, Extents{1, 37, 300},
                               Extents{7, 19, 150}}[static_cast<std::size_t>(kernel->info.dimensions - 1)];
  FieldLayout layout = make_layout(extents, {{2, 8, 8}, {2, 8, 8}}, 2, 0);
  CellValue cell = [](std::int64_t index) { return cell_value(SPIDER_F16, 11, index); };
  // Each point of many steps takes all that they reach.
  std::vector<Extents> points = sample_points(extents, kernel->info.steps > 1 ? 60 : 2000, 4);
  std::vector<double> results;
  Arithmetic arithmetic{SPIDER_F16, kernel->products, false, kernel->neighbourhood};
};

TEST_P(KernelCheck, AcceptsARightKernel) {
  const Errors errors = compare(stencil_of(*kernel), layout, cell, arithmetic, points, results);
  EXPECT_LE(errors.worst_of_bound, 1);
  EXPECT_LE(errors.relative_l2, largest_relative_l2(SPIDER_F16));
}

TEST_P(KernelCheck, RefusesAnotherStencil) {
  Stencil other = stencil_of(*kernel);
  // What two passes may be off by is relative to all weights: one that is small among them does not show.
  const auto largest = std::max_element(
      other.taps.begin(), other.taps.end(),
      [](const auto& a, const auto& b) { return std::fabs(a.weight) < std::fabs(b.weight); });
  largest->weight *= kernel->neighbourhood > 0 ? 1.1 : 1.01;
  EXPECT_GT(compare(other, layout, cell, arithmetic, points, results).worst_of_bound, 1);
}

TEST_P(KernelCheck, RefusesAnotherBoundary) {
  Stencil other = stencil_of(*kernel);
  for (auto& axis : other.faces) axis.fill({spider::FaceRule::constant, 0.5F});
  EXPECT_GT(compare(other, layout, cell, arithmetic, points, results).worst_of_bound, 1);
}

INSTANTIATE_TEST_SUITE_P(Shipped, KernelCheck,
                         ::testing::Values(advection2d_kernel, advection2d_periodic_kernel,
                                           hyperdiffusion2d_mirror_kernel, mean2d_reflect_kernel,
                                           box3d_r1_kernel, heat1d_kernel, heat3d_kernel, gauss2d_r7_kernel,
                                           heat2d_steps_kernel));

}  // namespace
}  // namespace bench
