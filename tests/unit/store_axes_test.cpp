#include "spec/store_axes.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>

#include "spec/read_spec.h"

namespace spidergen::spec {
namespace {

const std::string text =
    "stencil: t\ndimensions: 3\nstorage: f32\nshape: taps\n"
    "coefficients: [{at: [1, 2, 3], weight: 5}, {at: [-1, 0, 0], weight: 7}]\n"
    "boundary: {z: periodic, y: {low: nearest, high: mirror}, x: {constant: 4}}\n"
    "update: sum + ix + 10*iz + nx\n";

ReadResult read(const std::string& axes) {
  return read_spec({"t.yaml", text, {}, axes}, {});
}

TEST(StoreAxes, MovesOffsetsFacesAndIndicesTogether) {
  const ReadResult plain = read("");
  const ReadResult stored = read("xzy");  // z, y, x of the result are x, z, y of the spec
  ASSERT_TRUE(plain.diagnostics.items.empty() && stored.diagnostics.items.empty());
  ASSERT_EQ(stored.spec.taps.size(), 2U);
  EXPECT_EQ(stored.spec.taps[0].at, (Offset{0, -1, 0}));
  EXPECT_EQ(stored.spec.taps[0].weight, 7);
  EXPECT_EQ(stored.spec.taps[1].at, (Offset{3, 1, 2}));
  EXPECT_EQ(stored.spec.boundary[axis_z].low.value, 4);
  EXPECT_EQ(stored.spec.boundary[axis_y].low.rule, BoundaryRule::periodic);
  EXPECT_EQ(stored.spec.boundary[axis_x].high.rule, BoundaryRule::mirror);
  ASSERT_EQ(plain.spec.update->nodes.size(), stored.spec.update->nodes.size());
  for (std::size_t i = 0; i < plain.spec.update->nodes.size(); ++i) {
    const UpdateNode& before = plain.spec.update->nodes[i];
    if (before.operation != UpdateOperation::index && before.operation != UpdateOperation::extent) continue;
    EXPECT_EQ(stored.spec.update->nodes[i].which, before.which == axis_x ? axis_z : axis_y);
  }
}

TEST(StoreAxes, KeepsTheOrderOfTheSpec) {
  const StencilSpec same = read("zyx").spec;
  EXPECT_EQ(same.taps, read("").spec.taps);
  EXPECT_EQ(same.stored_axes, "zyx");
}

TEST(StoreAxes, RefusesWhatIsNoOrder) {
  for (const std::string axes : {"xy", "xyzz", "xxy", "abc", "zy x"}) {
    const ReadResult result = read(axes);
    ASSERT_EQ(result.diagnostics.items.size(), 1U) << axes;
    EXPECT_EQ(result.diagnostics.items[0].where.line, 2);
    EXPECT_NE(result.diagnostics.items[0].text.find("such as xyz"), std::string::npos)
        << result.diagnostics.items[0].text;
  }
}

TEST(StoreAxes, MovesFieldsAndCellsOfASystem) {
  const std::string system =
      "stencil: t\ndimensions: 2\nstorage: f32\n"
      "fields: {u: {boundary: {y: nearest, x: mirror}}, h: {axes: [x]}}\n"
      "stages:\n  - u: u[1, -2]*ix + ny*h[0, 3]\n";
  const auto read_stored = [&system](const std::string& axes) {
    const ReadResult result = read_spec({"t.yaml", system, {}, axes}, {});
    EXPECT_TRUE(result.diagnostics.items.empty()) << axes;
    return result.system.value();
  };
  const SystemSpec plain = read_stored("");
  const SystemSpec stored = read_stored("xy");
  EXPECT_EQ(stored.stored_axes, "xy");
  EXPECT_EQ(stored.fields.at(0).boundary.at(axis_y).low.rule, BoundaryRule::mirror);
  EXPECT_EQ(stored.fields.at(0).boundary.at(axis_x).low.rule, BoundaryRule::nearest);
  EXPECT_EQ(stored.fields.at(1).axes, (std::array<bool, 3>{false, true, false}));
  ASSERT_EQ(stored.nodes.size(), plain.nodes.size());
  for (std::size_t i = 0; i < plain.nodes.size(); ++i) {
    const UpdateNode& before = plain.nodes[i];
    const UpdateNode& after = stored.nodes[i];
    EXPECT_EQ(after.at, (Offset{before.at[0], before.at[2], before.at[1]}));
    const bool is_of_axis =
        before.operation == UpdateOperation::index || before.operation == UpdateOperation::extent;
    EXPECT_EQ(after.which, is_of_axis ? axis_y + axis_x - before.which : before.which);
  }
  EXPECT_EQ(read_spec({"t.yaml", system, {}, "zx"}, {}).diagnostics.items.size(), 1U);
}

}  // namespace
}  // namespace spidergen::spec
