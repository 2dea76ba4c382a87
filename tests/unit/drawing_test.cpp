/// The drawings of generator/README.md are what the generator draws of its own matrices.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "emit/draw.h"
#include "plan/tile_mapping.h"

namespace {

using spidergen::plan::Matrix;
using spidergen::plan::TileMapping;

Matrix full_window(const TileMapping& mapping) {
  return spidergen::plan::kernel_matrix(mapping, std::vector<double>(mapping.window_width, 1.0));
}

std::string readme() {
  std::ifstream file(SPIDER_SOURCE_DIR "/generator/README.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

void expect_drawn(const std::string& name, const std::string& drawing) {
  EXPECT_NE(readme().find("<!-- block: " + name + " -->\n```text\n" + drawing + "```\n"), std::string::npos)
      << "generator/README.md should hold\n"
      << drawing;
}

}  // namespace

TEST(Drawing, ElementSwapIsAsDrawn) {
  const TileMapping mapping = spidergen::plan::element_swap_mapping(3);
  expect_drawn("element swap", spidergen::emit::draw_swap(mapping, full_window(mapping)));
}

TEST(Drawing, PairSwapIsAsDrawn) {
  const TileMapping mapping = spidergen::plan::pair_swap_mapping();
  expect_drawn("pair swap", spidergen::emit::draw_swap(mapping, full_window(mapping)));
}

TEST(Drawing, CompressedOperandIsAsDrawn) {
  const TileMapping mapping = spidergen::plan::pair_swap_mapping();
  expect_drawn("compressed", spidergen::emit::draw_compressed(mapping, full_window(mapping)));
}

// Letters stand for places in the window, not for values: equal weights have different letters, zeros none.
TEST(Drawing, DrawsWhatIsInTheMatrix) {
  const TileMapping mapping = spidergen::plan::element_swap_mapping(1);
  const Matrix matrix = spidergen::plan::kernel_matrix(mapping, {2.0, 0.0, 2.0});
  EXPECT_EQ(spidergen::emit::draw_swap(mapping, matrix),
            "x+0   a.c. ....    x+0   a.c. ....\n"
            "x+1   .a.c ....    x+1   .... .a.c\n"
            "x+2   ..a. c...    x+2   ..a. c...\n"
            "x+3   ...a .c..    x+3   .c.. ...a\n");
}
