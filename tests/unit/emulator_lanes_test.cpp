#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "emulator_launch.h"

namespace spider::test {
namespace {

std::string here(int line) {
  return "emulator_lanes_test.cpp:" + std::to_string(line);
}

TEST(SquareRootOfNormal, TakesSubnormalNumbersForZero) {
  EXPECT_EQ(device::square_root_of_normal(4), 2);
  EXPECT_EQ(device::square_root_of_normal(0x1p-126F), 0x1p-63F);
  EXPECT_EQ(device::square_root_of_normal(0x1p-127F), 0);
  EXPECT_EQ(device::square_root_of_normal(-0x1p-127F), 0);  // and no NaN
  EXPECT_TRUE(std::isnan(device::square_root_of_normal(-1)));
}

TEST(Lanes, EachRunsOncePerBlock) {
  static std::array<std::array<std::array<int, 32>, 3>, 5> runs;
  runs = {};
  LaunchCase launch_case;
  launch_case.warps = 3;
  launch_case.blocks = 5;
  expect_good(launch(
      [](SweepArguments arguments) {
        ++runs[static_cast<std::size_t>(device::block_index())][static_cast<std::size_t>(
            device::warp_index())][static_cast<std::size_t>(device::lane_index())];
        write_output(arguments);
      },
      launch_case));
  for (const auto& block : runs) {
    for (const auto& warp : block) {
      for (const int count : warp) EXPECT_EQ(count, 1);
    }
  }
}

TEST(Lanes, RunInAnOrderThatTheSeedDecides) {
  static std::vector<int> order;
  const auto order_for = [](const char* seed) {
    order.clear();
    const Environment environment("SPIDER_EMULATOR_SEED", seed);
    expect_good(launch(
        [](SweepArguments arguments) {
          order.push_back(device::lane_index());
          device::sync_warp();
          order.push_back(device::lane_index());
          write_output(arguments);
        },
        {}));
    return order;
  };
  const std::vector<int> first = order_for("1");
  EXPECT_EQ(first.size(), 64U);
  EXPECT_EQ(std::set<int>(first.begin(), first.begin() + 32).size(), 32U);
  EXPECT_NE(std::vector<int>(first.begin(), first.begin() + 32),
            std::vector<int>(first.begin() + 32, first.end()));
  EXPECT_EQ(order_for("1"), first);
  EXPECT_NE(order_for("2"), first);
}

TEST(Lanes, TheSeedIsInTheMessage) {
  const Environment environment("SPIDER_EMULATOR_SEED", "77");
  expect_violation(launch([](SweepArguments) { (void)device::load_shared(0); }, {}),
                   {"[SPIDER_EMULATOR_SEED=77]"});
}

TEST(Lanes, WarpsWaitForEachOtherAtSyncBlock) {
  static int arrived;
  arrived = 0;
  LaunchCase launch_case;
  launch_case.warps = 4;
  expect_good(launch(
      [](SweepArguments arguments) {
        ++arrived;
        device::sync_block();
        EXPECT_EQ(arrived, 128);
        device::sync_block();
        write_output(arguments);
      },
      launch_case));
}

TEST(Divergence, OfCallSitesInAWarp) {
  const int line = __LINE__ + 4;
  const auto outcome = launch(
      [](SweepArguments) {
        if (device::lane_index() < 16) {
          device::sync_warp();
        } else {
          device::sync_warp();
        }
      },
      {});
  expect_violation(outcome,
                   {"diverged: calls sync_warp at ", " waits in sync_warp at ", here(line), here(line + 2)});
}

TEST(Divergence, OfKinds) {
  expect_violation(launch(
                       [](SweepArguments) {
                         if (device::lane_index() == 0) device::sync_block();
                         (void)device::transpose_8x8(0);
                       },
                       {}),
                   {"diverged: calls ", "transpose_8x8 at ", "sync_block at "});
}

template <int selector>
void multiply_nothing() {
  device::Accumulator sum{};
  device::multiply_sparse<selector>(sum, {}, {}, 0x44444444);
}

TEST(Divergence, OfSelectors) {
  expect_violation(launch(
                       [](SweepArguments) {
                         if (device::lane_index() == 0) {
                           multiply_nothing<0>();
                         } else {
                           multiply_nothing<1>();
                         }
                       },
                       {}),
                   {"diverged: ", "multiply_sparse<0> at ", "multiply_sparse<1> at "});
}

TEST(Divergence, ALaneThatReturned) {
  const int line = __LINE__ + 4;
  const auto outcome = launch(
      [](SweepArguments) {
        if (device::lane_index() == 7) return;
        device::sync_warp();
      },
      {});
  expect_violation(outcome, {"diverged: ", here(line)});
  const bool seen_first = outcome.reason.find("warp 0, lane 7 has returned") != std::string::npos;
  const bool seen_last = outcome.reason.find("lane 7: diverged: returns while ") != std::string::npos;
  EXPECT_TRUE(seen_first || seen_last) << outcome.reason;
}

TEST(Divergence, AWarpThatReturnedLeavesOthersAtTheBarrier) {
  LaunchCase launch_case;
  launch_case.warps = 2;
  for (const char* seed : {"1", "2", "3", "4", "5", "6"}) {
    const Environment environment("SPIDER_EMULATOR_SEED", seed);
    const auto outcome = launch(
        [](SweepArguments) {
          if (device::warp_index() == 0) device::sync_block();
        },
        launch_case);
    expect_violation(outcome, {"diverged: ", "sync_block at "});
  }
}

TEST(Divergence, WarpsAtDifferentBarriers) {
  LaunchCase launch_case;
  launch_case.warps = 2;
  const int line = __LINE__ + 4;
  const auto outcome = launch(
      [](SweepArguments) {
        if (device::warp_index() == 0) {
          device::sync_block();
        } else {
          device::sync_block();
        }
      },
      launch_case);
  expect_violation(
      outcome, {"diverged: calls sync_block at ", " waits in sync_block at ", here(line), here(line + 2)});
}

TEST(Launch, ReportsTheLowestFaultyBlockWhateverTheThreads) {
  LaunchCase launch_case;
  launch_case.blocks = 40;
  const auto run = [&](const char* threads) {
    const Environment environment("SPIDER_EMULATOR_THREADS", threads);
    return launch(
        [](SweepArguments arguments) {
          for (int i = 0; i < (device::block_index() == 17 ? 1000 : 1); ++i) device::sync_warp();
          if (device::block_index() >= 17) (void)device::load_shared(0);
          write_output(arguments);
        },
        launch_case);
  };
  const auto one = run("1");
  expect_violation(one, {"kernel probe, block 17, warp 0, lane "});
  EXPECT_EQ(run("4").reason, one.reason);
}

TEST(Launch, FormsThatStartBesideRimsWaitBeforeTheyEnd) {
  LaunchCase launch_case;
  launch_case.overlaps_rims = true;
  launch_case.blocks = 2;
  expect_good(launch(
      [](SweepArguments arguments) {
        write_output(arguments);
        if (device::block_index() == 0) device::wait_on_dependency();
      },
      launch_case));
  expect_violation(launch([](SweepArguments arguments) { write_output(arguments); }, launch_case),
                   {"returns before it waits for the rims that it may run beside"});
}

TEST(Launch, FormsThatStartEarlyWaitBeforeTheyTouchFields) {
  LaunchCase launch_case;
  launch_case.starts_early = true;
  launch_case.blocks = 2;
  expect_good(launch(
      [](SweepArguments arguments) {
        device::wait_on_dependency();
        write_output(arguments);
      },
      launch_case));
  // Each block waits for itself.
  expect_violation(launch(
                       [](SweepArguments arguments) {
                         if (device::block_index() == 1) device::wait_on_dependency();
                         write_output(arguments);
                       },
                       launch_case),
                   {"block 0, ", "touches a field before it waits for earlier work"});
  expect_violation(launch(
                       [](SweepArguments arguments) {
                         if (device::lane_index() == 0) device::wait_on_dependency();
                         (void)device::load_field(input_of(arguments));
                         write_output(arguments);
                       },
                       launch_case),
                   {"touches a field before it waits for earlier work"});
}

TEST(Launch, UnwindsTheStacksOfAllLanes) {
  static int alive;
  alive = 0;
  struct Counter {
    Counter() { ++alive; }
    ~Counter() { --alive; }
  };
  for (int round = 0; round < 3; ++round) {
    expect_violation(launch(
                         [](SweepArguments) {
                           const Counter counter;
                           device::sync_warp();
                           if (device::lane_index() == 3) (void)device::load_shared(0);
                           device::sync_warp();
                         },
                         {}),
                     {"lane 3: reads shared byte 0"});
    EXPECT_EQ(alive, 0);
  }
}

TEST(Launch, PrepareRefusesWhatNoDeviceCanRun) {
  spider_kernel kernel{};
  backend::Residencies residencies;
  kernel.form_count = 2;
  kernel.forms[1].tiling.warps_per_block = 1;
  kernel.forms[0].tiling.warps_per_block = 4;
  kernel.forms[0].tiling.shared_bytes = 49152;
  expect_good(backend::prepare(kernel, residencies));
  for (const int form : {0, 1}) {
    EXPECT_EQ(residencies.at(form).multiprocessors, 4);
    EXPECT_EQ(residencies.at(form).blocks_per_multiprocessor, 2);
  }
  kernel.forms[1].tiling.shared_bytes = 1 << 20;
  EXPECT_EQ(backend::prepare(kernel, residencies).status, SPIDER_ERROR_DEVICE);
}

TEST(Launch, MemoryStartsOn256BytesAndRowsAreCopied) {
  void* memory = nullptr;
  expect_good(backend::allocate(100, &memory));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 256, 0U);
  const std::array<char, 6> given = {'a', 'b', 'x', 'c', 'd', 'x'};
  std::array<char, 4> taken{};
  expect_good(backend::upload(memory, 10, given.data(), 3, 2, 2));
  expect_good(backend::download(taken.data(), 2, memory, 10, 2, 2));
  EXPECT_EQ(std::string(taken.data(), taken.size()), "abcd");
  expect_good(backend::release(memory));
}

}  // namespace
}  // namespace spider::test
