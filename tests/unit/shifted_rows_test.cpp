#include <spider/loads/shifted_rows.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "emulator_launch.h"

namespace spider::test {
namespace {

using device::Shared;

TEST(ShiftedRows, LeadsAreThoseOfTheRowsInMemory) {
  alignas(16) static const std::array<std::uint16_t, 64> cells{};
  for (int first = 0; first < 8; ++first) {
    for (int stride = 0; stride < 12; ++stride) {
      const Leads leads = find_leads(cells.data() + first, stride);
      for (int row = 0; row < 5; ++row) {
        const std::uint16_t* begin = cells.data() + first + row * stride;
        EXPECT_EQ(lead_of(leads, row), static_cast<int>(reinterpret_cast<std::uintptr_t>(begin) % 16));
      }
    }
  }
}

/// Fills words with numbers, shifts `words` of them by every lead, and looks at each half.
template <int words>
void shift_by_any_lead(SweepArguments arguments) {
  constexpr int first = 20;  // bytes
  for (int lead = 0; lead < 16; lead += 2) {
    for (int half = device::lane_index(); half < 2 * words + 16; half += 32) {
      device::store_shared(static_cast<Shared>(first + 2 * half), static_cast<std::uint16_t>(1000 + half));
    }
    device::sync_warp();
    shift_row<words, 2>(first, lead);
    device::sync_warp();
    for (int half = device::lane_index(); half < 2 * words; half += 32) {
      EXPECT_EQ(device::load_shared_half(static_cast<Shared>(first + 2 * half)), 1000 + half + lead / 2)
          << lead;
    }
    for (int half = 2 * words + device::lane_index(); half < 2 * words + 16; half += 32) {
      EXPECT_EQ(device::load_shared_half(static_cast<Shared>(first + 2 * half)), 1000 + half)
          << "behind the row";
    }
    device::sync_warp();
  }
  write_output(arguments);
}

TEST(ShiftedRows, AreMovedToTheirBegin) {
  expect_good(launch(shift_by_any_lead<1>, {}));
  expect_good(launch(shift_by_any_lead<32>, {}));
  expect_good(launch(shift_by_any_lead<33>, {}));
  expect_good(launch(shift_by_any_lead<72>, {}));
}

/// Four cells of each lane in row 0 from the first column on, in row 1 from the second.
void store_by_lanes(SweepArguments arguments) {
  const auto lane = static_cast<std::uint32_t>(device::lane_index());
  const std::uint32_t low = (4 * lane + 1) << 16 | (4 * lane);
  for (int row = 0; row < 2; ++row) {
    std::uint16_t* first = output_of(arguments) + row * arguments.output_stride[1];
    store_anywhere(first + row + 4 * lane, low, low + 0x20002U);
    if (lane == 0) device::store_field(first + (1 - row) * 128, std::uint16_t{999});
  }
}

/// The same 128 cells of a row, from shared memory.
void store_rows(SweepArguments arguments) {
  const auto lane = static_cast<std::uint32_t>(device::lane_index());
  const std::uint32_t low = (4 * lane + 1) << 16 | (4 * lane);
  device::store_shared(8 * lane, device::Pair{{low, low + 0x20002U}});
  device::sync_warp();
  for (int row = 0; row < 2; ++row) {
    std::uint16_t* first = output_of(arguments) + row * arguments.output_stride[1];
    store_row<128>(first + row, 0);
    if (lane == 0) device::store_field(first + (1 - row) * 128, std::uint16_t{999});
  }
}

/// Launches what stores 0 to 127 from the first column of row 0 and the second of row 1 on, and 999 beside
/// them.
void expect_rows_of_any_stride(void (*kernel)(SweepArguments)) {
  for (const std::int64_t stride : {136, 137, 138, 139}) {
    LaunchCase launch_case;
    launch_case.rows = 2;
    launch_case.columns = 129;
    Field input(2, 129, stride);
    Field output(2, 129, stride);
    expect_good(launch(kernel, launch_case, input, output));
    for (int row = 0; row < 2; ++row) {
      for (int i = 0; i < 128; ++i) EXPECT_EQ(output.at(row, row + i), i) << stride << " " << row;
      EXPECT_EQ(output.at(row, (1 - row) * 128), 999) << stride << " " << row;
    }
  }
}

TEST(ShiftedRows, OutputsAreStoredFromAnyCellOn) {
  expect_rows_of_any_stride(store_by_lanes);
  expect_rows_of_any_stride(store_rows);
}

}  // namespace
}  // namespace spider::test
