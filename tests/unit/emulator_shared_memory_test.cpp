#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <string>

#include "emulator_launch.h"

namespace spider::test {
namespace {

using device::Shared;
using device::Vector;

Shared own_slot() {
  return static_cast<Shared>(16 * device::lane_index());
}
Shared neighbour_slot() {
  return static_cast<Shared>(16 * ((device::lane_index() + 1) % 32));
}
Vector filled(std::uint32_t value) {
  return {{value, value, value, value}};
}

/// 16 bytes of input for every lane, each cell its own column's number.
struct Copies : ::testing::Test {
  LaunchCase launch_case;
  Field input{1, 256, 264};
  Field output{1, 256, 264};

  Copies() {
    launch_case.columns = 256;
    for (std::uint16_t x = 0; x < 256; ++x) input.at(0, x) = x;
  }
  backend::Outcome launch(Sweep sweep) { return test::launch(sweep, launch_case, input, output); }
};

const std::uint16_t* own_cells(const SweepArguments& arguments) {
  return input_of(arguments) + 8 * device::lane_index();
}

std::array<std::uint32_t, 32> first_words;
void expect_first_words(std::uint32_t shift) {
  for (std::uint32_t lane = 0; lane < 32; ++lane) {
    const std::uint32_t cell = 8 * ((lane + shift) % 32);
    EXPECT_EQ(first_words[lane], cell | (cell + 1) << 16) << "lane " << lane;
  }
}

TEST(SharedMemory, IsSeenByTheWarpAfterSyncWarp) {
  expect_good(launch(
      [](SweepArguments arguments) {
        device::store_shared(own_slot(), filled(static_cast<std::uint32_t>(device::lane_index())));
        device::sync_warp();
        EXPECT_EQ(device::load_shared(neighbour_slot()).word[3], (device::lane_index() + 1U) % 32);
        device::sync_warp();
        device::store_shared(neighbour_slot() + 2, std::uint16_t{9});
        EXPECT_EQ(device::load_shared(neighbour_slot()).word[0] >> 16, 9U);
        write_output(arguments);
      },
      {}));
}

TEST(SharedMemory, IsSeenByTheBlockAfterSyncBlockOnly) {
  LaunchCase launch_case;
  launch_case.warps = 2;
  expect_good(launch(
      [](SweepArguments arguments) {
        const Shared half = 512;
        const auto warp = static_cast<Shared>(device::warp_index());
        device::store_shared(half * warp + own_slot(), filled(warp));
        device::sync_block();
        EXPECT_EQ(device::load_shared(half * (1 - warp) + own_slot()).word[0], 1 - warp);
        device::sync_block();
        device::store_shared(half * (1 - warp) + own_slot(), filled(warp));
        write_output(arguments);
      },
      launch_case));
  expect_violation(launch(
                       [](SweepArguments) {
                         if (device::warp_index() == 0) device::store_shared(own_slot(), filled(1));
                         device::sync_warp();
                         if (device::warp_index() == 1) device::load_shared(own_slot());
                         if (device::warp_index() == 0) device::load_shared(own_slot());
                         device::sync_warp();
                         if (device::warp_index() == 1) device::store_shared(own_slot(), filled(1));
                       },
                       launch_case),
                   {"kernel probe, block 0, warp 1, lane "});
}

TEST(SharedMemory, UnwrittenIsNotRead) {
  expect_violation(launch([](SweepArguments) { device::load_shared(own_slot()); }, {}),
                   {"kernel probe, block 0, warp 0, lane ", "reads shared byte ", ", which nobody wrote",
                    "[SPIDER_EMULATOR_SEED="});
  // Seven of eight cells are not enough.
  expect_violation(launch(
                       [](SweepArguments) {
                         if (device::lane_index() != 0) return;
                         for (Shared i = 0; i < 7; ++i) device::store_shared(2 * i, std::uint16_t{1});
                         device::load_shared(0);
                       },
                       {}),
                   {"reads shared byte 14, which nobody wrote"});
}

TEST(SharedMemory, OfTheBlockBeforeIsUnwritten) {
  LaunchCase launch_case;
  launch_case.blocks = 2;
  expect_violation(launch(
                       [](SweepArguments arguments) {
                         if (device::block_index() == 0) device::store_shared(own_slot(), filled(1));
                         device::load_shared(own_slot());
                         write_output(arguments);
                       },
                       launch_case),
                   {"block 1, warp 0", "which nobody wrote"});
}

TEST(SharedMemory, IsNotWrittenWhereThatIsNotWanted) {
  expect_good(launch(
      [](SweepArguments arguments) {
        const device::Shared own = device::lane_index() * sizeof(device::Vector);
        device::store_shared(own, device::Vector{{1, 2, 3, 4}});
        device::store_shared_if(false, own, std::uint16_t{9});
        device::store_shared_if(true, own + 4, std::uint16_t{9});
        EXPECT_EQ(device::load_shared(own).word[0], 1U);
        EXPECT_EQ(device::load_shared(own).word[1], 9U);
        write_output(arguments);
      },
      {}));
}

TEST(SharedMemory, GivesAWordAtATime) {
  expect_good(launch(
      [](SweepArguments arguments) {
        const auto lane = static_cast<std::uint32_t>(device::lane_index());
        device::store_shared(own_slot(), Vector{{lane, lane + 1, lane + 2, lane + 3}});
        device::sync_warp();
        EXPECT_EQ(device::load_shared_word(neighbour_slot() + 12), (lane + 1) % 32 + 3);
        write_output(arguments);
      },
      {}));
  expect_violation(launch([](SweepArguments) { device::load_shared_word(1020); }, {}),
                   {"reads shared byte 1020, which nobody wrote"});
  expect_violation(launch([](SweepArguments) { device::load_shared_word(6); }, {}),
                   {"reads shared bytes 6..9, which do not start on a multiple of 4"});
}

TEST(SharedMemory, TakesTwoWordsAtATime) {
  expect_good(launch(
      [](SweepArguments arguments) {
        const auto lane = static_cast<std::uint32_t>(device::lane_index());
        device::store_shared(8 * lane, device::Pair{{lane, lane + 100}});
        device::sync_warp();
        EXPECT_EQ(device::load_shared_word(8 * ((lane + 1) % 32) + 4), (lane + 1) % 32 + 100);
        write_output(arguments);
      },
      {}));
  expect_violation(launch([](SweepArguments) { device::store_shared(4, device::Pair{}); }, {}),
                   {"writes shared bytes 4..11, which do not start on a multiple of 8"});
}

TEST(SharedMemory, GivesTwoBytesAtATime) {
  expect_good(launch(
      [](SweepArguments arguments) {
        device::store_shared(own_slot(), filled(0x00050004U + static_cast<unsigned>(device::lane_index())));
        device::sync_warp();
        const auto neighbour = static_cast<std::uint16_t>((device::lane_index() + 1) % 32);
        EXPECT_EQ(device::load_shared_half(neighbour_slot() + 4), neighbour + 4);
        EXPECT_EQ(device::load_shared_half(neighbour_slot() + 14), 5);
        write_output(arguments);
      },
      {}));
  expect_violation(launch([](SweepArguments) { device::load_shared_half(1022); }, {}),
                   {"reads shared byte 1022, which nobody wrote"});
  expect_violation(launch([](SweepArguments) { device::load_shared_half(1024); }, {}),
                   {"reads shared bytes 1024..1025, outside the block's 1024"});
  expect_violation(launch([](SweepArguments) { device::load_shared_half(5); }, {}),
                   {"reads shared bytes 5..6, which do not start on a multiple of 2"});
  expect_violation(launch(
                       [](SweepArguments) {
                         device::store_shared(own_slot(), filled(1));
                         device::sync_warp();
                         device::store_shared(own_slot(), filled(2));
                         device::load_shared_half(neighbour_slot());
                       },
                       {}),
                   {"with no sync_warp or sync_block between"});
}

TEST(SharedMemory, EndsWhereTheTilingSays) {
  expect_violation(launch([](SweepArguments) { device::store_shared(1024, std::uint16_t{1}); }, {}),
                   {"writes shared bytes 1024..1025, outside the block's 1024"});
  expect_violation(launch([](SweepArguments) { device::load_shared(1024 - 8); }, {}),
                   {"outside the block's 1024"});
  expect_violation(launch([](SweepArguments) { device::load_shared(0xfffffff0U); }, {}),
                   {"outside the block's 1024"});
}

TEST(SharedMemory, RefusesMisalignedVectors) {
  expect_violation(launch([](SweepArguments) { device::store_shared(8, filled(1)); }, {}),
                   {"writes shared bytes 8..23, which do not start on a multiple of 16"});
  expect_violation(launch([](SweepArguments) { device::store_shared(3, std::uint16_t{1}); }, {}),
                   {"multiple of 2"});
}

TEST(SharedMemory, ReadAfterWriteNeedsASynchronisation) {
  expect_violation(
      launch(
          [](SweepArguments) {
            if (device::lane_index() == 5) device::store_shared(0, filled(1));
            device::transpose_8x8(0);  // all lanes meet, but that orders no memory
            if (device::lane_index() == 6) device::load_shared(0);
          },
          {}),
      {"lane 6: reads shared byte 0, written by warp 0, lane 5, with no sync_warp or sync_block between"});
}

TEST(SharedMemory, WriteAfterReadNeedsASynchronisation) {
  // Every lane in turn, for one of them is the last that read.
  static int writer;
  for (writer = 0; writer < 32; ++writer) {
    expect_violation(
        launch(
            [](SweepArguments) {
              if (device::lane_index() == 5) device::store_shared(0, filled(1));
              device::sync_warp();
              device::load_shared(0);
              device::transpose_8x8(0);
              if (device::lane_index() == writer) device::store_shared(0, std::uint16_t{1});
            },
            {}),
        {"lane " + std::to_string(writer) + ": overwrites shared byte 0, read by warp 0, lane "});
  }
}

TEST(SharedMemory, WriteAfterWriteNeedsASynchronisation) {
  expect_violation(launch([](SweepArguments) { device::store_shared(32, std::uint16_t{1}); }, {}),
                   {"overwrites shared byte 32, written by warp 0, lane "});
}

TEST(SharedMemory, WriteAfterAnotherWarpsReadNeedsSyncBlock) {
  LaunchCase launch_case;
  launch_case.warps = 2;
  const Sweep sweep = [](SweepArguments) {
    if (device::warp_index() == 0) device::store_shared(own_slot(), filled(1));
    device::sync_block();
    device::load_shared(own_slot());
    device::sync_warp();
    if (device::warp_index() == 1) device::store_shared(own_slot(), filled(2));
  };
  // Whichever of the two comes first, the other is one too many; both orders must occur.
  bool read_first = false;
  bool write_first = false;
  for (int seed = 1; seed <= 20; ++seed) {
    const Environment environment("SPIDER_EMULATOR_SEED", std::to_string(seed));
    const auto outcome = launch(sweep, launch_case);
    expect_violation(outcome, {"with no sync_block between"});
    read_first |= outcome.reason.find("warp 1, lane ") < outcome.reason.find(": overwrites shared byte ");
    write_first |= outcome.reason.find("warp 0, lane ") < outcome.reason.find(": reads shared byte ");
  }
  EXPECT_TRUE(read_first);
  EXPECT_TRUE(write_first);
}

TEST_F(Copies, ArriveForTheLaneAfterItsWait) {
  expect_good(launch([](SweepArguments arguments) {
    device::copy_async_if(true, own_slot(), own_cells(arguments));
    device::copy_async_commit();
    device::copy_async_wait<0>();
    first_words[static_cast<std::size_t>(device::lane_index())] = device::load_shared(own_slot()).word[0];
    write_output(arguments);
  }));
  expect_first_words(0);
}

TEST_F(Copies, ArriveForOthersAfterASynchronisationBehindTheWait) {
  expect_good(launch([](SweepArguments arguments) {
    device::copy_async_if(true, own_slot(), own_cells(arguments));
    device::copy_async_commit();
    device::copy_async_wait<0>();
    device::sync_warp();
    first_words[static_cast<std::size_t>(device::lane_index())] =
        device::load_shared(neighbour_slot()).word[0];
    write_output(arguments);
  }));
  expect_first_words(1);
}

TEST_F(Copies, AreWaitedForByGroups) {
  launch_case.shared_bytes = 4096;
  static constexpr Shared stage = 512;
  expect_good(launch([](SweepArguments arguments) {
    for (Shared i = 0; i < 6; ++i) {
      if (i != 2) device::copy_async_if(true, stage * i + own_slot(), own_cells(arguments));
      device::copy_async_commit();  // group 2 is empty and counts
    }
    device::copy_async_wait<2>();
    EXPECT_EQ(device::load_shared(stage * 3 + own_slot()).word[0] & 0xffff, 8U * device::lane_index());
    device::copy_async_wait<2>();
    device::copy_async_commit();
    device::copy_async_wait<2>();
    EXPECT_EQ(device::load_shared(stage * 4 + own_slot()).word[0] & 0xffff, 8U * device::lane_index());
    write_output(arguments);
  }));
  expect_violation(launch([](SweepArguments arguments) {
                     for (Shared i = 0; i < 4; ++i) {
                       device::copy_async_if(true, stage * i + own_slot(), own_cells(arguments));
                       device::copy_async_commit();
                     }
                     device::copy_async_wait<2>();
                     device::load_shared(stage + own_slot());
                     device::load_shared(2 * stage + own_slot());
                   }),
                   {"into which a copy of warp 0, lane ", " is in flight"});
}

TEST_F(Copies, AreNotReadBeforeTheWait) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_async_if(true, own_slot(), own_cells(arguments));
                     device::copy_async_commit();
                     device::load_shared(own_slot());
                   }),
                   {"reads shared byte ", "is in flight"});
}

/// 512 bytes for each of two warps, as two bulk copies of the first that meet at one barrier.
constexpr Shared bulk_barrier = 2048;
void start_bulk_copies(const SweepArguments& arguments, std::uint32_t expected) {
  if (device::warp_index() != 0) return;
  device::begin_bulk_copies(bulk_barrier, expected);
  device::sync_warp();
  const auto lane = static_cast<Shared>(device::lane_index());
  if (lane < 2) device::copy_bulk_async(256 * lane, input_of(arguments) + 128 * lane, 256, bulk_barrier);
}

TEST_F(Copies, InBulkArriveForEveryThreadAfterItsWait) {
  launch_case.shared_bytes = 4096;
  launch_case.warps = 2;
  expect_good(launch([](SweepArguments arguments) {
    start_bulk_copies(arguments, 512);
    device::sync_block();
    device::wait_for_bulk_copies(bulk_barrier);
    EXPECT_EQ(device::load_shared(own_slot()).word[0] & 0xffff, 8U * device::lane_index());
    EXPECT_EQ(device::load_shared(neighbour_slot()).word[0] & 0xffff,
              8U * ((device::lane_index() + 1U) % 32));
    write_output(arguments);
  }));
}

TEST_F(Copies, InBulkAreNotReadBeforeAWait) {
  launch_case.shared_bytes = 4096;
  expect_violation(launch([](SweepArguments arguments) {
                     start_bulk_copies(arguments, 512);
                     device::sync_block();
                     device::load_shared(own_slot());
                   }),
                   {"reads shared byte ", "is in flight"});
}

TEST_F(Copies, InBulkBringAllBytesThatTheBarrierExpects) {
  launch_case.shared_bytes = 4096;
  expect_violation(
      launch([](SweepArguments arguments) {
        start_bulk_copies(arguments, 528);
        device::sync_block();
        device::wait_for_bulk_copies(bulk_barrier);
      }),
      {"waits for the barrier at shared byte 2048, which expects 528 bytes where copies bring 512"});
}

TEST_F(Copies, InBulkStartBehindTheirBarrier) {
  launch_case.shared_bytes = 4096;
  launch_case.warps = 2;
  expect_violation(launch([](SweepArguments arguments) {
                     start_bulk_copies(arguments, 512);
                     device::wait_for_bulk_copies(bulk_barrier);
                   }),
                   {"the barrier at shared byte 2048"});
  expect_violation(launch([](SweepArguments arguments) {
                     if (device::lane_index() == 0) {
                       device::copy_bulk_async(0, input_of(arguments), 256, bulk_barrier);
                     }
                   }),
                   {"which nobody prepared"});
  expect_violation(launch([](SweepArguments) {
                     device::begin_bulk_copies(bulk_barrier, 16);
                     device::sync_block();
                     device::begin_bulk_copies(bulk_barrier, 16);
                   }),
                   {"prepares the barrier at shared byte 2048 a second time"});
  expect_violation(launch([](SweepArguments) { device::begin_bulk_copies(bulk_barrier + 4, 16); }),
                   {"which is no multiple of 8"});
  expect_violation(launch([](SweepArguments) {
                     if (device::lane_index() == 0) device::begin_bulk_copies(bulk_barrier, 16);
                   }),
                   {"sync_warp"});
}

TEST_F(Copies, InBulkAreOfWholeVectorsAndOfCellsThatAreReached) {
  launch_case.shared_bytes = 4096;
  expect_violation(launch([](SweepArguments arguments) {
                     device::begin_bulk_copies(bulk_barrier, 24);
                     if (device::lane_index() != 0) return;
                     device::copy_bulk_async(0, input_of(arguments), 24, bulk_barrier);
                   }),
                   {"copies 24 bytes, which are no multiple of 16"});
  expect_violation(launch([](SweepArguments arguments) {
                     device::begin_bulk_copies(bulk_barrier, 32);
                     if (device::lane_index() != 0) return;
                     device::copy_bulk_async(0, input_of(arguments) + 248, 32, bulk_barrier);
                   }),
                   {"copies"});
}

TEST_F(Copies, OfNoGroupAreNotWaitedFor) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_async_if(true, own_slot(), own_cells(arguments));
                     device::copy_async_wait<0>();
                     device::load_shared(own_slot());
                   }),
                   {"reads shared byte ", "is in flight"});
}

TEST_F(Copies, AreNotReadByOthersBeforeASynchronisation) {
  expect_violation(launch([](SweepArguments arguments) {
                     if (device::lane_index() == 4) device::copy_async_if(true, 64, own_cells(arguments));
                     device::copy_async_commit();
                     device::sync_warp();  // too early
                     device::copy_async_wait<0>();
                     device::transpose_8x8(0);
                     if (device::lane_index() == 5) device::load_shared(64);
                   }),
                   {"lane 5: reads shared byte 64, written by warp 0, lane 4"});
}

TEST_F(Copies, DoNotOverwriteWhatOthersMayStillRead) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::store_shared(own_slot(), filled(1));
                     device::sync_warp();
                     device::load_shared(neighbour_slot());
                     device::transpose_8x8(0);
                     device::copy_async_if(true, own_slot(), own_cells(arguments));
                   }),
                   {"overwrites shared byte ", ", read by warp 0, lane "});
}

TEST_F(Copies, InFlightAreNotOverwritten) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_async_if(true, own_slot(), own_cells(arguments));
                     device::store_shared(own_slot(), std::uint16_t{1});
                   }),
                   {"overwrites shared byte ", "is in flight"});
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_async_if(true, own_slot(), own_cells(arguments));
                     device::copy_async_if(true, own_slot(), own_cells(arguments));
                   }),
                   {"overwrites shared byte ", "is in flight"});
}

TEST_F(Copies, MayBeInFlightAtTheEnd) {
  expect_good(launch([](SweepArguments arguments) {
    device::copy_async_if(true, own_slot(), own_cells(arguments));
    write_output(arguments);
  }));
}

TEST_F(Copies, StayInsideTheField) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_async_if(true, own_slot(), own_cells(arguments) + 8);
                   }),
                   {"lane 31: copies input cell (y = 0, x = 256), outside the field and its halo"});
}

TEST_F(Copies, AreAlignedOnBothSides) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_async_if(true, own_slot(), input_of(arguments) + 4);
                   }),
                   {"copies 16 bytes of a field at an address that is no multiple of 16"});
  expect_violation(launch([](SweepArguments arguments) { device::copy_async_if(true, 8, arguments.input); }),
                   {"copies to shared bytes 8..23, which do not start on a multiple of 16"});
}

TEST_F(Copies, OfWordsChangeNoMore) {
  expect_good(launch([](SweepArguments arguments) {
    device::store_shared(own_slot(), filled(7));
    device::copy_word_async_if(true, own_slot() + 4, own_cells(arguments));
    device::copy_word_async_if(false, own_slot() + 8, own_cells(arguments));
    device::copy_async_commit();
    device::copy_async_wait<0>();
    const Vector slot = device::load_shared(own_slot());
    const std::uint32_t cell = 8U * static_cast<std::uint32_t>(device::lane_index());
    EXPECT_EQ(slot.word[0], 7U);
    EXPECT_EQ(slot.word[1], cell | (cell + 1) << 16);
    EXPECT_EQ(slot.word[2], 7U);
    EXPECT_EQ(slot.word[3], 7U);
    write_output(arguments);
  }));
}

TEST_F(Copies, OfPairsChangeNoMore) {
  expect_good(launch([](SweepArguments arguments) {
    device::store_shared(own_slot(), filled(7));
    device::copy_pair_async_if(true, own_slot() + 8, own_cells(arguments));
    device::copy_pair_async_if(false, own_slot(), own_cells(arguments));
    device::copy_async_commit();
    device::copy_async_wait<0>();
    const Vector slot = device::load_shared(own_slot());
    const std::uint32_t cell = 8U * static_cast<std::uint32_t>(device::lane_index());
    EXPECT_EQ(slot.word[0], 7U);
    EXPECT_EQ(slot.word[1], 7U);
    EXPECT_EQ(slot.word[2], cell | (cell + 1) << 16);
    EXPECT_EQ(slot.word[3], (cell + 2) | (cell + 3) << 16);
    write_output(arguments);
  }));
}

TEST_F(Copies, OfPairsAreAlignedOnBothSides) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_pair_async_if(true, own_slot(), input_of(arguments) + 2);
                   }),
                   {"copies 8 bytes of a field at an address that is no multiple of 8"});
}

TEST_F(Copies, OfWordsAreNotReadBeforeTheWait) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::store_shared(own_slot(), filled(7));
                     device::copy_word_async_if(true, own_slot() + 4, own_cells(arguments));
                     device::copy_async_commit();
                     device::load_shared(own_slot());
                   }),
                   {"reads shared byte ", "is in flight"});
}

TEST_F(Copies, OfWordsAreAlignedOnBothSides) {
  expect_violation(launch([](SweepArguments arguments) {
                     device::copy_word_async_if(true, own_slot(), input_of(arguments) + 1);
                   }),
                   {"copies 4 bytes of a field at an address that is no multiple of 4"});
  expect_violation(
      launch([](SweepArguments arguments) { device::copy_word_async_if(true, 2, arguments.input); }),
      {"copies to shared bytes 2..5, which do not start on a multiple of 4"});
}

}  // namespace
}  // namespace spider::test
