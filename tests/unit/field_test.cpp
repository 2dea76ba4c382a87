#include <spider/instructions_emulated.h>
#include <spider/kernel.h>
#include <spider/spider.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

#include "kernel_by_hand.h"

namespace {

using spider::Error;
using spider::Extents;
using spider::Field;
using spider::half;
using spider::Halo;

/// 1, 2, 3, ...
std::vector<float> counting(std::int64_t size) {
  std::vector<float> values(static_cast<std::size_t>(size));
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

/// The status of the Error that `action` throws; SPIDER_OK if it throws none.
template <typename Action>
spider_status status_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_STRNE(error.what(), "");
    return error.status();
  }
  return SPIDER_OK;
}

TEST(FieldLayout, RowsStartOn128BytesAndHoldTheHalo) {
  for (const std::int64_t element_bytes : {2, 4}) {
    for (const std::int64_t columns : {1, 63, 64, 65, 1000}) {
      for (const std::int64_t low : {0, 1, 7, 64, 65}) {
        for (const std::int64_t high : {0, 3, 8, 130}) {
          const Halo halo{{1, 2, low}, {3, 4, high}};
          const spider::FieldLayout layout = spider::make_field_layout({5, 6, columns}, halo, element_bytes);
          EXPECT_EQ(layout.origin * element_bytes % 128, 0);
          EXPECT_EQ(layout.row_stride * element_bytes % 128, 0);
          EXPECT_GE(layout.row_stride, low + columns + high) << "neighbouring rows' halos stay apart";
          EXPECT_EQ(layout.plane_stride, layout.row_stride * (2 + 6 + 4));
          const std::int64_t first = layout.origin - layout.plane_stride - 2 * layout.row_stride - low;
          const std::int64_t last = layout.origin + (4 + 3) * layout.plane_stride +
                                    (5 + 4) * layout.row_stride + columns - 1 + high;
          EXPECT_GE(first, 0);
          EXPECT_LT(last, layout.size);
        }
      }
    }
  }
}

TEST(FieldLayout, RefusesWhatIsNoField) {
  const auto layout_status = [](const Extents& extents, const Halo& halo) {
    return status_of([&] { (void)spider::make_field_layout(extents, halo, 2); });
  };
  EXPECT_EQ(layout_status({1, 0, 8}, {}), SPIDER_OK);
  EXPECT_EQ(layout_status({1, 8, -1}, {}), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(layout_status({1, 8, 8}, {{0, -1, 0}, {}}), SPIDER_ERROR_EXTENT);
  const std::int64_t huge = INT64_MAX;
  EXPECT_EQ(layout_status({huge, 8, 8}, {}), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(layout_status({1, 8, 8}, {{}, {0, 0, huge}}), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(layout_status({1, huge / 8, huge / 8}, {}), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(layout_status({1 << 22, 1 << 22, 1 << 22}, {}), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(layout_status({1, 1 << 20, 1 << 20}, {}), SPIDER_OK);
}

TEST(Field, IsZeroAtFirst) {
  const Field<half> field(5, 70, Halo{{0, 2, 3}, {0, 1, 9}});
  EXPECT_EQ(field.size_with_halo(), 8 * 82);
  for (const half value : field.download_with_halo()) EXPECT_EQ(value.bits(), 0);
  Field<float> used(2, 3);
  used.upload(counting(6));
  used.clear();
  EXPECT_EQ(used.download(), std::vector<float>(6, 0.0F));
}

TEST(Field, TellsItsShape) {
  const Halo halo = Halo::symmetric(3, 4);
  const Field<half> field(10, 20, halo);
  EXPECT_EQ(field.planes(), 1);
  EXPECT_EQ(field.rows(), 10);
  EXPECT_EQ(field.columns(), 20);
  EXPECT_EQ(field.extents(), (Extents{1, 10, 20}));
  EXPECT_EQ(field.halo(), halo);
  EXPECT_EQ(field.c_field().extent[2], 20);
  EXPECT_EQ(field.c_field().stride[1], field.layout().row_stride);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(field.c_field().data) % 128, 0U);
}

TEST(Field, BringsBackWhatWentIn) {
  Field<float> field({3, 5, 7}, Halo{{1, 2, 3}, {2, 1, 4}});
  const std::vector<float> values = counting(field.size());
  field.upload(values);
  EXPECT_EQ(field.download(), values);
  const std::vector<float> padded = field.download_with_halo();
  EXPECT_EQ(std::accumulate(padded.begin(), padded.end(), 0.0),
            std::accumulate(values.begin(), values.end(), 0.0))
      << "the halo stays zero";
  EXPECT_EQ(padded[((1 * 8 + 2) * 14) + 3], 1.0F) << "the first interior element";
}

TEST(Field, BringsBackTheHalo) {
  Field<float> field({2, 4, 6}, Halo{{1, 0, 2}, {0, 3, 1}});
  const std::vector<float> values = counting(field.size_with_halo());
  field.upload_with_halo(values);
  EXPECT_EQ(field.download_with_halo(), values);
  EXPECT_EQ(field.download().front(), values[(1 * 7 + 0) * 9 + 2]);

  const std::vector<float> interior(static_cast<std::size_t>(field.size()), -1.0F);
  field.upload(interior);
  std::vector<float> expected = values;
  for (std::size_t z = 1; z < 3; ++z) {
    for (std::size_t y = 0; y < 4; ++y) {
      for (std::size_t x = 2; x < 8; ++x) expected[(z * 7 + y) * 9 + x] = -1.0F;
    }
  }
  EXPECT_EQ(field.download_with_halo(), expected) << "an upload of the interior leaves the halo";
}

TEST(Field, TakesHostRowsWithGaps) {
  constexpr std::int64_t stride = 11;
  Field<float> field(4, 6);
  const std::vector<float> host = counting(4 * stride);
  field.upload(host.data(), stride);
  EXPECT_EQ(field.download()[6], host[stride]);
  std::vector<float> back(host.size(), 0.0F);
  field.download(back.data(), stride);
  for (std::size_t i = 0; i < back.size(); ++i) EXPECT_EQ(back[i], i % stride < 6 ? host[i] : 0.0F);
}

TEST(Field, MovesItsMemory) {
  Field<float> first(3, 4);
  const std::vector<float> values = counting(12);
  first.upload(values);
  Field<float> second = std::move(first);
  EXPECT_EQ(second.download(), values);
  EXPECT_EQ(first.c_field().data, nullptr);  // NOLINT(bugprone-use-after-move): what is left is specified
  EXPECT_EQ(status_of([&] { first.upload(values.data()); }), SPIDER_ERROR_NULL);
  Field<float> third(1, 1);
  third = std::move(second);
  EXPECT_EQ(third.download(), values);
  EXPECT_EQ(third.rows(), 3);
}

TEST(Field, MayBeEmpty) {
  Field<float> field(0, 4);
  field.upload(std::vector<float>{});
  EXPECT_TRUE(field.download().empty());
  EXPECT_EQ(field.extents(), (Extents{1, 0, 4}));
}

TEST(Field, RefusesHostArraysThatDoNotFit) {
  Field<float> field(3, 4, Halo::symmetric(1, 1));
  EXPECT_EQ(status_of([&] { field.upload(counting(11)); }), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(status_of([&] { field.upload_with_halo(counting(12)); }), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(status_of([&] { field.upload(counting(12).data(), 3); }), SPIDER_ERROR_STRIDE);
  EXPECT_EQ(status_of([&] { field.upload(static_cast<const float*>(nullptr)); }), SPIDER_ERROR_NULL);
}

TEST(Error, CarriesTheStatusOfTheRuntime) {
  EXPECT_EQ(status_of([] { spider::check(SPIDER_OK); }), SPIDER_OK);
  EXPECT_EQ(status_of([] { spider::prepare(nullptr); }), spider_prepare(nullptr));
  EXPECT_NE(spider_prepare(nullptr), SPIDER_OK);
  Field<half> a(2, 2);
  Field<half> b(2, 2);
  EXPECT_EQ(status_of([&] { spider::apply(nullptr, a, b); }), SPIDER_ERROR_KERNEL);
  EXPECT_EQ(status_of([&] { spider::iterate(nullptr, a, b, 3); }), SPIDER_ERROR_KERNEL);
}

constexpr spider::TapRow own_cell[] = {{0, 0, 0, 0}};

/// Adds one to every cell's bit pattern; one lane does it all.
void count_sweep(spider::SweepArguments arguments) {
  if (spider::device::block_index() != 0 || spider::device::lane_index() != 0) return;
  const auto* input = static_cast<const std::uint16_t*>(arguments.input);
  auto* output = static_cast<std::uint16_t*>(arguments.output);
  const spider::Box& box = arguments.box;
  for (std::int64_t y = box.offset[1]; y < box.offset[1] + box.extent[1]; ++y) {
    for (std::int64_t x = box.offset[2]; x < box.offset[2] + box.extent[2]; ++x) {
      const std::uint16_t value = spider::device::load_field(input + y * arguments.input_stride[1] + x);
      spider::device::store_field(output + y * arguments.output_stride[1] + x,
                                  static_cast<std::uint16_t>(value + 1));
    }
  }
}

/// A kernel made by hand, of one warp a block and one time step a sweep.
spider_kernel counting_kernel() {
  spider_kernel kernel = kernel_by_hand("counting", 2, SPIDER_F16);
  kernel.info.reach_low[1] = 2;
  kernel.info.reach_high[2] = 3;
  kernel.info.minimum_arch = 80;
  kernel.form_count = 1;
  kernel.forms[0].sweep = count_sweep;
  kernel.forms[0].tiling.kind = spider::TilingKind::strips;
  kernel.forms[0].tiling.warps_per_block = 1;
  kernel.forms[0].tiling.input_alignment = kernel.forms[0].tiling.output_alignment = 16;
  kernel.forms[0].tiling.tile_extent[2] = 128;
  kernel.forms[0].tiling.anchor = 64;
  kernel.forms[0].tiling.preferred_steps = 64;
  kernel.tap_rows = own_cell;
  kernel.tap_row_count = 1;
  return kernel;
}

TEST(Kernel, GivesItsReachAsHalo) {
  const spider_kernel kernel = counting_kernel();
  EXPECT_EQ(Halo::of(&kernel), (Halo{{0, 2, 0}, {0, 0, 3}}));
  EXPECT_STREQ(spider::info(&kernel).name, "counting");
  EXPECT_EQ(status_of([] { (void)Halo::of(nullptr); }), SPIDER_ERROR_KERNEL);
}

TEST(Kernel, AsksForAHaloOnlyWhereAFaceIsOne) {
  spider_kernel kernel = counting_kernel();
  EXPECT_EQ(Halo::of(&kernel, {1, 3, 5}), (Halo{{0, 2, 0}, {0, 0, 3}}));
  kernel.faces[1][0].rule = spider::FaceRule::constant;
  EXPECT_EQ(Halo::of(&kernel, {1, 3, 5}), (Halo{{0, 0, 0}, {0, 0, 3}}));
  // With one cell along x, an index 3 beyond the upper face is turned to 2 below the lower one.
  kernel.faces[2][1].rule = spider::FaceRule::reflect;
  EXPECT_EQ(Halo::of(&kernel, {1, 3, 1}), (Halo{{0, 0, 2}, {0, 0, 0}}));
  EXPECT_EQ(Halo::of(&kernel, {1, 3, 3}), (Halo{}));

  EXPECT_EQ(Halo::of(&kernel, {1, 0, 5}), Halo{});
  EXPECT_EQ(status_of([&] { (void)Halo::of(&kernel, {1, -1, 5}); }), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(status_of([&] { (void)Halo::of(&kernel, {2, 3, 5}); }), SPIDER_ERROR_EXTENT);
  EXPECT_EQ(status_of([] { (void)Halo::of(nullptr, {1, 1, 1}); }), SPIDER_ERROR_NULL);
  std::int64_t cells[3] = {1, 1, 1};
  EXPECT_EQ(spider_halo(&kernel, nullptr, cells, cells), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_halo(&kernel, cells, nullptr, cells), SPIDER_ERROR_NULL);
  EXPECT_EQ(spider_halo(&kernel, cells, cells, nullptr), SPIDER_ERROR_NULL);
}

TEST(Kernel, AsksForAHaloWhereAPartEndsAndTheWholeDoesNot) {
  spider_kernel kernel = counting_kernel();
  for (auto& axis : kernel.faces) {
    for (spider::Face& face : axis) face.rule = spider::FaceRule::nearest;
  }
  EXPECT_EQ(Halo::of(&kernel, {1, 4, 6}, spider_part{{0, 0, 0}, {1, 4, 6}}), (Halo{}));
  EXPECT_EQ(Halo::of(&kernel, {1, 4, 6}, spider_part{{0, 3, 2}, {1, 9, 9}}), (Halo{{0, 2, 0}, {0, 0, 1}}));
  // A ring that is cut: the cells of its other end, whichever part it is.
  kernel.faces[1][0].rule = kernel.faces[1][1].rule = spider::FaceRule::periodic;
  EXPECT_EQ(Halo::of(&kernel, {1, 4, 6}, spider_part{{0, 0, 0}, {1, 9, 6}}), (Halo{{0, 2, 0}, {0, 0, 0}}));
  EXPECT_EQ(status_of([&] {
              (void)Halo::of(&kernel, {1, 4, 6}, spider_part{{0, 6, 0}, {1, 9, 6}});
            }),
            SPIDER_ERROR_EXTENT);
}

TEST(Kernel, AsksForAHaloOfFieldsWhereStepsButTheFirstReachOne) {
  spider_kernel kernel = counting_kernel();
  EXPECT_EQ(Halo::of_fields(&kernel, {1, 3, 5}), (Halo{}));
  kernel.info.steps = 2;
  kernel.info.reach_high[2] = 4;
  EXPECT_EQ(Halo::of_fields(&kernel, {1, 3, 5}), (Halo{{0, 1, 0}, {0, 0, 2}}));
  kernel.faces[1][0].rule = spider::FaceRule::constant;
  EXPECT_EQ(Halo::of_fields(&kernel, {1, 3, 5}), (Halo{{0, 0, 0}, {0, 0, 2}}));
  std::int64_t cells[3] = {1, 1, 1};
  EXPECT_EQ(spider_halo_of_fields(&kernel, cells, nullptr, cells), SPIDER_ERROR_NULL);
}

TEST(Kernel, IsAppliedFromFieldToField) {
  const spider_kernel kernel = counting_kernel();
  Field<std::uint16_t> in(3, 5, Halo::of(&kernel));
  Field<std::uint16_t> out(3, 5);
  EXPECT_EQ(&spider::apply(&kernel, in, out), &out);
  EXPECT_EQ(out.download(), std::vector<std::uint16_t>(15, 1));
  EXPECT_EQ(in.download(), std::vector<std::uint16_t>(15, 0));
  EXPECT_EQ(status_of([&] { spider::apply(&kernel, in, in); }), SPIDER_ERROR_OVERLAP);
}

constexpr spider::TapRow cell_above[] = {{0, -2, 0, 0}};

/// Reads one cell, two rows above the first.
void read_above(spider::SweepArguments arguments) {
  if (spider::device::block_index() == 0 && spider::device::lane_index() == 0) {
    const auto* input = static_cast<const std::uint16_t*>(arguments.input);
    (void)spider::device::load_field(input - 2 * arguments.input_stride[1]);
  }
  count_sweep(arguments);
}

TEST(Kernel, DoesNotReadBeyondAFieldWithoutTheHaloThatItTakes) {
  spider_kernel kernel = counting_kernel();
  kernel.tap_rows = cell_above;
  kernel.forms[0].sweep = read_above;
  Field<half> kept(3, 5, Halo::of(&kernel, {1, 3, 5}));
  Field<half> out(3, 5);
  EXPECT_EQ(&spider::apply(&kernel, kept, out), &out);
  Field<half> bare(3, 5);
  try {
    spider::apply(&kernel, bare, out);
    FAIL() << "nobody noticed";
  } catch (const spider::Error& error) {
    EXPECT_EQ(error.status(), SPIDER_ERROR_EXTENT);
    EXPECT_NE(std::string(error.what())
                  .find("along y the kernel counting reads 2 cells before and 0 behind the "
                        "interior, and the field keeps 0 cells before and 0 behind"),
              std::string::npos)
        << error.what();
  }
  // C sees addresses alone; the emulated back end knows what was allocated.
  EXPECT_EQ(spider_apply(&kernel, &bare.c_field(), &out.c_field(), nullptr), SPIDER_ERROR_EMULATION);
  EXPECT_NE(std::string(spider_last_error()).find("(y = -2, x = 0), outside the field's memory"),
            std::string::npos)
      << spider_last_error();
  EXPECT_EQ(status_of([&] { spider::iterate(&kernel, kept, bare, 2); }), SPIDER_ERROR_EXTENT);
}

TEST(Kernel, IsAppliedToABox) {
  const spider_kernel kernel = counting_kernel();
  Field<half> in(3, 5);
  Field<half> out(3, 5);
  EXPECT_EQ(&spider::apply_box(&kernel, in, out, {0, 1, 2}, {1, 1, 2}), &out);
  const std::vector<half> result = out.download();
  for (std::size_t i = 0; i < result.size(); ++i) EXPECT_EQ(result[i].bits(), i == 7 || i == 8 ? 1 : 0) << i;
  EXPECT_EQ(status_of([&] {
              spider::apply_box(&kernel, in, out, {0, 1, 2}, {1, 3, 2});
            }),
            SPIDER_ERROR_EXTENT);
}

TEST(Kernel, IsIteratedAndSaysWhereTheResultIs) {
  const spider_kernel kernel = counting_kernel();
  Field<half> a(3, 5, Halo::of(&kernel));
  Field<half> b(3, 5, a.halo());
  EXPECT_EQ(&spider::iterate(&kernel, a, b, 0), &a);
  EXPECT_EQ(&spider::iterate(&kernel, a, b, 2), &a);
  EXPECT_EQ(a.download().back().bits(), 2);
  EXPECT_EQ(&spider::iterate(&kernel, a, b, 3), &b);
  EXPECT_EQ(b.download().back().bits(), 5);
  EXPECT_EQ(status_of([&] { spider::iterate(&kernel, a, b, -1); }), SPIDER_ERROR_STEPS);
}

TEST(Kernel, RefusesFieldsOfAnotherType) {
  const spider_kernel kernel = counting_kernel();
  Field<float> a(3, 5);
  Field<float> b(3, 5);
  EXPECT_EQ(status_of([&] { spider::apply(&kernel, a, b); }), SPIDER_ERROR_UNSUPPORTED);
  EXPECT_EQ(status_of([&] { spider::iterate(&kernel, a, b, 1); }), SPIDER_ERROR_UNSUPPORTED);
}

}  // namespace
