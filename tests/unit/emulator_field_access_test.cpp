#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "emulator_launch.h"

namespace spider::test {
namespace {

constexpr std::int32_t rows = 5;
constexpr std::int32_t columns = 6;

std::int64_t probed_y;
std::int64_t probed_x;

void probe(SweepArguments arguments) {
  if (device::lane_index() == 0) {
    (void)device::load_field(input_of(arguments) + probed_y * arguments.input_stride[1] + probed_x);
  }
  write_output(arguments);
}

using Cells = std::set<std::pair<std::int64_t, std::int64_t>>;

/// The cells around the interior that a kernel may read, found by trying.
Cells readable_halo(const LaunchCase& launch_case) {
  Cells cells;
  for (probed_y = -4; probed_y < rows + 4; ++probed_y) {
    for (probed_x = -8; probed_x < columns + 8; ++probed_x) {
      const bool inside = probed_y >= 0 && probed_y < rows && probed_x >= 0 && probed_x < columns;
      const auto outcome = launch(probe, launch_case);
      if (inside) {
        expect_good(outcome);
      } else if (outcome.status == SPIDER_OK) {
        cells.insert({probed_y, probed_x});
      } else {
        const std::string cell =
            "(y = " + std::to_string(probed_y) + ", x = " + std::to_string(probed_x) + ")";
        expect_violation(outcome, {"kernel probe, block 0, warp 0, lane 0: reads input cell " + cell +
                                   ", outside the field and its halo"});
      }
    }
  }
  return cells;
}

Cells rectangle(std::int64_t first_y, std::int64_t last_y, std::int64_t first_x, std::int64_t last_x) {
  Cells cells;
  for (std::int64_t y = first_y; y <= last_y; ++y) {
    for (std::int64_t x = first_x; x <= last_x; ++x) cells.insert({y, x});
  }
  return cells;
}

Cells united(std::initializer_list<Cells> parts) {
  Cells all;
  for (const Cells& part : parts) all.insert(part.begin(), part.end());
  return all;
}

LaunchCase field_case(std::vector<TapRow> taps) {
  LaunchCase launch_case;
  launch_case.rows = rows;
  launch_case.columns = columns;
  launch_case.taps = std::move(taps);
  return launch_case;
}

const Face constant{FaceRule::constant, 1.0F};
const Face nearest{FaceRule::nearest, 0.0F};

TEST(FieldAccess, HaloIsTheReachOfEachTapRow) {
  // A lopsided star: two up, one down, three to the left, one to the right.
  const LaunchCase launch_case = field_case({{0, -2, 0, 0}, {0, -1, 0, 0}, {0, 0, -3, 1}, {0, 1, 0, 0}});
  EXPECT_EQ(readable_halo(launch_case),
            united({rectangle(-2, -1, 0, columns - 1), rectangle(rows, rows, 0, columns - 1),
                    rectangle(0, rows - 1, -3, -1), rectangle(0, rows - 1, columns, columns)}));
}

TEST(FieldAccess, HaloOfABoxHasItsCorners) {
  const LaunchCase launch_case = field_case({{0, -1, -2, 2}, {0, 0, -2, 2}, {0, 1, -2, 2}});
  Cells expected = rectangle(-1, rows, -2, columns + 1);
  for (const auto& cell : rectangle(0, rows - 1, 0, columns - 1)) expected.erase(cell);
  EXPECT_EQ(readable_halo(launch_case), expected);
}

TEST(FieldAccess, TapRowsThatMissTheInteriorLeaveAGap) {
  // Only dx = 2..3, so a halo column to the right and nothing to the left.
  const LaunchCase launch_case = field_case({{0, 1, 2, 3}});
  EXPECT_EQ(readable_halo(launch_case),
            united({rectangle(1, rows - 1, columns, columns + 2), rectangle(rows, rows, 2, columns + 2)}));
}

TEST(FieldAccess, BeyondAConstantFaceIsNoMemory) {
  LaunchCase launch_case = field_case({{0, -1, -1, 1}, {0, 0, -1, 1}, {0, 1, -1, 1}});
  launch_case.y_low = launch_case.x_high = constant;
  EXPECT_EQ(readable_halo(launch_case),
            united({rectangle(0, rows, -1, -1), rectangle(rows, rows, 0, columns - 1)}));
}

TEST(FieldAccess, BeyondANearestFaceIsTheClampedCell) {
  // Row 0 stands for row -1, whose taps go three to the left; that makes (0, -3) readable and (1, -3) not.
  LaunchCase launch_case = field_case({{0, -1, -3, 0}, {0, 0, -1, 0}});
  launch_case.y_low = nearest;
  EXPECT_EQ(readable_halo(launch_case),
            united({rectangle(0, rows - 2, -3, -1), rectangle(rows - 1, rows - 1, -1, -1)}));
  launch_case.x_low = nearest;
  EXPECT_EQ(readable_halo(launch_case), Cells{});
}

TEST(FieldAccess, HaloRowsEndAsTheirNearestFacesDo) {
  // Taps so far to one side that all of them are beyond the face: only the halo row's outermost cell is left.
  LaunchCase launch_case =
      field_case({{0, 1, columns + 1, columns + 2}, {0, -1, -columns - 2, -columns - 1}});
  launch_case.x_low = launch_case.x_high = nearest;
  EXPECT_EQ(readable_halo(launch_case), (Cells{{rows, columns - 1}, {-1, 0}}));
  launch_case.x_low = launch_case.x_high = constant;
  EXPECT_EQ(readable_halo(launch_case), Cells{});
}

TEST(FieldAccess, BeyondOtherFacesIsTheInterior) {
  LaunchCase launch_case = field_case({{0, -3, -9, 9}, {0, 0, -9, 9}, {0, 3, -9, 9}});
  for (const FaceRule rule :
       {FaceRule::periodic, FaceRule::reflect, FaceRule::mirror, FaceRule::antisymmetric}) {
    launch_case.y_low = launch_case.y_high = launch_case.x_low = launch_case.x_high = {rule, 0.0F};
    EXPECT_EQ(readable_halo(launch_case), Cells{});
  }
}

TEST(FieldAccess, FoldsMayLeadIntoTheOtherFacesHalo) {
  // Column -9 of six comes out at column 8.
  LaunchCase launch_case = field_case({{0, 0, -9, 0}});
  launch_case.x_low = {FaceRule::reflect, 0.0F};
  EXPECT_EQ(readable_halo(launch_case), rectangle(0, rows - 1, columns, columns + 2));
}

TEST(FieldAccess, OfABoxIsItsReach) {
  LaunchCase launch_case = field_case({{0, 0, -1, 2}, {0, 2, 0, 0}});
  launch_case.box = {{0, 1, 2}, {1, 2, 1}};
  launch_case.y_high = {FaceRule::nearest, 0.0F};
  Cells readable;
  for (probed_y = -1; probed_y <= rows; ++probed_y) {
    for (probed_x = -1; probed_x <= columns; ++probed_x) {
      if (launch(probe, launch_case).status == SPIDER_OK) readable.insert({probed_y, probed_x});
    }
  }
  EXPECT_EQ(readable, united({rectangle(1, 2, 1, 4), rectangle(3, 4, 2, 2)}));
}

TEST(FieldAccess, OutsideTheBoxNothingIsWritten) {
  LaunchCase launch_case = field_case({{0, 0, 0, 0}});
  launch_case.box = {{0, 1, 2}, {1, 2, 1}};
  expect_violation(
      launch([](SweepArguments a) { device::store_field(output_of(a), std::uint16_t{0}); }, launch_case),
      {"writes output cell (y = 0, x = 0), outside the box"});
}

/// Writes columns first .. end - 1 of row y.
void write_row(const BoxesArguments& arguments, std::int64_t y, std::int64_t first, std::int64_t end) {
  if (device::block_index() != 0 || device::lane_index() != 0) return;
  for (std::int64_t x = first; x < end; ++x)
    device::store_field(output_of(arguments) + y * arguments.output_stride[1] + x, std::uint16_t{0});
}

TEST(FieldAccess, OfSeveralBoxesEachIsWrittenOnce) {
  LaunchCase launch_case = field_case({{0, 0, -1, 0}});
  launch_case.boxes = {{{0, 0, 0}, {1, 1, 6}}, {{0, 3, 4}, {1, 1, 2}}};
  expect_good(launch_boxes(
      [](BoxesArguments a) {
        write_row(a, 0, 0, 6);
        write_row(a, 3, 4, 6);
        (void)device::load_field(input_of(a) + 3 * a.input_stride[1] + 3);
      },
      launch_case));
  expect_violation(launch_boxes([](BoxesArguments a) { write_row(a, 3, 4, 6); }, launch_case),
                   {"output cell (y = 0, x = 0) was never written (6 of 8 cells were not)"});
  expect_violation(launch_boxes([](BoxesArguments a) { write_row(a, 3, 3, 6); }, launch_case),
                   {"writes output cell (y = 3, x = 3), outside the box"});
  expect_violation(
      launch_boxes(
          [](BoxesArguments a) { (void)device::load_field(input_of(a) + 2 * a.input_stride[1] + 4); },
          launch_case),
      {"reads input cell (y = 2, x = 4), outside the box and its reach"});
}

TEST(FieldAccess, OneRowNeedsNoStride) {
  LaunchCase launch_case;
  launch_case.columns = 6;
  Field input(1, 6, 2);
  Field output(1, 6, 3);
  probed_y = 0;
  probed_x = 5;
  expect_good(launch(probe, launch_case, input, output));
  probed_x = 6;
  expect_violation(launch(probe, launch_case, input, output), {"reads input cell (y = 0, x = 6)"});
}

TEST(FieldAccess, CellsOfOneDimensionHaveNoRow) {
  LaunchCase launch_case;
  launch_case.dimensions = 1;
  launch_case.columns = 6;
  probed_y = 0;
  probed_x = -60;  // nearer to the row that a 2D field would have before this one
  expect_violation(launch(probe, launch_case),
                   {"reads input cell (x = -60), outside the field and its halo"});
  expect_violation(launch([](SweepArguments) {}, launch_case), {"output cell (x = 0) was never written"});
}

TEST(FieldAccess, OutputIsWrittenOnlyInside) {
  LaunchCase launch_case = field_case({{0, 0, -1, 1}});
  expect_violation(
      launch([](SweepArguments a) { device::store_field(output_of(a) + a.extent[2], std::uint16_t{0}); },
             launch_case),
      {"writes output cell (y = 0, x = 6), outside the field"});
  expect_violation(
      launch(
          [](SweepArguments a) { device::store_field(output_of(a) - a.output_stride[1], std::uint16_t{0}); },
          launch_case),
      {"writes output cell (y = -1, x = 0), outside the field"});
  expect_violation(launch([](SweepArguments a) { device::store_field(output_of(a) + 4, 0, 0); }, launch_case),
                   {"writes output cell (y = 0, x = 6), outside the field"});
}

TEST(FieldAccess, OutputIsWrittenOnce) {
  expect_violation(
      launch(
          [](SweepArguments a) { device::store_field(output_of(a) + a.output_stride[1], std::uint16_t{0}); },
          field_case({{0, 0, 0, 0}})),
      {"writes output cell (y = 1, x = 0) a second time"});
}

TEST(FieldAccess, OutputIsWrittenWhole) {
  expect_violation(launch(
                       [](SweepArguments a) {
                         if (device::lane_index() != 0) return;
                         for (std::int64_t y = 0; y < rows; ++y) {
                           for (std::int64_t x = 0; x < columns; ++x) {
                             if (y != 3 || x < 4)
                               device::store_field(output_of(a) + y * a.output_stride[1] + x,
                                                   std::uint16_t{0});
                           }
                         }
                       },
                       field_case({{0, 0, 0, 0}})),
                   {"kernel probe, output cell (y = 3, x = 4) was never written (2 of 30 cells were not)"});
}

TEST(FieldAccess, FourCellStoresAreAligned) {
  expect_violation(launch([](SweepArguments a) { device::store_field(output_of(a) + 2, 0, 0); },
                          field_case({{0, 0, 0, 0}})),
                   {"writes 8 bytes of a field at an address that is no multiple of 8"});
}

TEST(FieldAccess, FourCellStoresKeepTheOrder) {
  LaunchCase launch_case;
  launch_case.columns = 4;
  Field input(1, 4, 64);
  Field output(1, 4, 64);
  expect_good(launch(
      [](SweepArguments a) {
        if (device::lane_index() == 9) device::store_field(output_of(a), 0x00020001U, 0x00040003U);
      },
      launch_case, input, output));
  for (std::uint16_t x = 0; x < 4; ++x) EXPECT_EQ(output.at(0, x), x + 1);
}

TEST(FieldAccess, WordsPairsAndVectorsOfCellsAreAligned) {
  LaunchCase launch_case;
  launch_case.columns = 16;
  expect_violation(
      launch([](SweepArguments a) { (void)device::load_field_word(input_of(a) + 1); }, launch_case),
      {"reads 4 bytes of a field at an address that is no multiple of 4"});
  expect_violation(
      launch([](SweepArguments a) { (void)device::load_field_pair(input_of(a) + 2); }, launch_case),
      {"reads 8 bytes of a field at an address that is no multiple of 8"});
  expect_violation(
      launch([](SweepArguments a) { (void)device::load_field_vector(input_of(a) + 4); }, launch_case),
      {"reads 16 bytes of a field at an address that is no multiple of 16"});
  expect_violation(
      launch([](SweepArguments a) { device::store_field_word(output_of(a) + 1, 0); }, launch_case),
      {"writes 4 bytes of a field at an address that is no multiple of 4"});
  expect_violation(
      launch([](SweepArguments a) { device::store_field_pair(output_of(a) + 2, {}); }, launch_case),
      {"writes 8 bytes of a field at an address that is no multiple of 8"});
  expect_violation(
      launch([](SweepArguments a) { device::store_field_vector(output_of(a) + 4, {}); }, launch_case),
      {"writes 16 bytes of a field at an address that is no multiple of 16"});
}

TEST(FieldAccess, WordsPairsAndVectorsOfCellsStayInside) {
  LaunchCase launch_case;
  launch_case.columns = 15;
  expect_violation(
      launch([](SweepArguments a) { (void)device::load_field_word(input_of(a) + 14); }, launch_case),
      {"reads input cell (y = 0, x = 15), outside the field"});
  expect_violation(
      launch([](SweepArguments a) { (void)device::load_field_pair(input_of(a) + 12); }, launch_case),
      {"reads input cell (y = 0, x = 15), outside the field"});
  expect_violation(
      launch([](SweepArguments a) { (void)device::load_field_vector(input_of(a) + 8); }, launch_case),
      {"reads input cell (y = 0, x = 15), outside the field"});
  expect_violation(
      launch([](SweepArguments a) { device::store_field_vector(output_of(a) + 8, {}); }, launch_case),
      {"writes output cell (y = 0, x = 15), outside the field"});
}

TEST(FieldAccess, WordsPairsAndVectorsOfCellsKeepTheOrder) {
  LaunchCase launch_case;
  launch_case.columns = 14;
  Field input(1, 14, 64);
  Field output(1, 14, 64);
  for (std::uint16_t x = 0; x < 14; ++x) input.at(0, x) = x;
  expect_good(launch(
      [](SweepArguments a) {
        if (device::lane_index() != 9) return;
        device::store_field_vector(output_of(a), device::load_field_vector(input_of(a)));
        device::store_field_pair(output_of(a) + 8, device::load_field_pair(input_of(a) + 8));
        device::store_field_word(output_of(a) + 12, device::load_field_word(input_of(a) + 12));
      },
      launch_case, input, output));
  for (std::uint16_t x = 0; x < 14; ++x) EXPECT_EQ(output.at(0, x), x);
}

TEST(FieldAccess, EightCellLoadsAreAligned) {
  LaunchCase launch_case;
  launch_case.columns = 16;
  expect_violation(launch([](SweepArguments a) { (void)device::load_vector(input_of(a) + 4); }, launch_case),
                   {"reads 16 bytes of a field at an address that is no multiple of 16"});
}

TEST(FieldAccess, EightCellLoadsStayInside) {
  LaunchCase launch_case;
  launch_case.columns = 15;
  expect_violation(
      launch([](SweepArguments a) { (void)device::load_vector_if(true, input_of(a) + 8); }, launch_case),
      {"reads input cell (y = 0, x = 15), outside the field and its halo"});
}

TEST(FieldAccess, EightCellLoadsKeepTheOrder) {
  LaunchCase launch_case;
  launch_case.columns = 16;
  Field input(1, 16, 64);
  Field output(1, 16, 64);
  for (std::uint16_t x = 0; x < 16; ++x) input.at(0, x) = x;
  expect_good(launch(
      [](SweepArguments a) {
        const device::Vector vector = device::load_vector(input_of(a) + 8);
        EXPECT_EQ(vector.word[0], 0x00090008U);
        EXPECT_EQ(vector.word[3], 0x000f000eU);
        write_output(a);
      },
      launch_case, input, output));
}

TEST(FieldAccess, WhatIsNotWantedIsNotRead) {
  expect_good(launch(
      [](SweepArguments a) {
        EXPECT_EQ(device::load_vector_if(false, input_of(a) + 1000).word[2], 0U);
        EXPECT_EQ(device::load_field_if(false, input_of(a) + 1000, 7), 7);
        EXPECT_EQ(device::load_field_if(true, input_of(a), 7), 0);
        write_output(a);
      },
      {}));
}

TEST(FieldAccess, TablesAreAligned) {
  alignas(16) static const std::array<std::uint32_t, 8> table = {1, 2, 3, 4, 5, 6, 7, 8};
  expect_violation(launch(
                       [](SweepArguments) {
                         (void)device::load_table(reinterpret_cast<const device::Vector*>(table.data() + 1));
                       },
                       {}),
                   {"reads 16 bytes of a table at an address that is no multiple of them"});
}

}  // namespace
}  // namespace spider::test
