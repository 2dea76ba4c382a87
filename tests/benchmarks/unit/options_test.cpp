#include "options.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace bench {
namespace {

Options parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--library", "sparse=libkernels.so"});
  return parse_options(arguments);
}

std::string complaint(const std::vector<std::string>& arguments) {
  try {
    static_cast<void>(parse(arguments));
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Options, DefaultsAreABurstOfEverything) {
  const Options options = parse({});
  EXPECT_EQ(options.libraries.front().label, "sparse");
  EXPECT_EQ(options.libraries.front().path, "libkernels.so");
  EXPECT_EQ(options.sizes, std::vector<Size>{{10240}});
  EXPECT_TRUE(options.burst);
  EXPECT_FALSE(options.sustained);
  EXPECT_FALSE(options.cudnn);
}

TEST(Options, ReadsEveryOption) {
  const Options options = parse({"--library",   "dense=a=b.so",
                                 "--kernels",   "box2d_*,heat2d",
                                 "--sizes",     "512,10007x9973,8x9x10",
                                 "--mode",      "sustained",
                                 "--walks",     "0,25",
                                 "--offset",    "3",
                                 "--seed",      "18446744073709551615",
                                 "--csv",       "a.csv",
                                 "--json",      "a.json",
                                 "--seconds",   "2.5",
                                 "--launches",  "100",
                                 "--baselines", "copy,cudnn",
                                 "--list"});
  EXPECT_EQ(options.libraries.size(), 2U);
  EXPECT_EQ(options.libraries.back().path, "a=b.so");
  EXPECT_EQ(options.kernels, (std::vector<std::string>{"box2d_*", "heat2d"}));
  EXPECT_EQ(options.sizes, (std::vector<Size>{{512}, {10007, 9973}, {8, 9, 10}}));
  EXPECT_FALSE(options.burst);
  EXPECT_TRUE(options.sustained);
  EXPECT_EQ(options.walks, (std::vector<std::int32_t>{0, 25}));
  EXPECT_EQ(options.offset, 3);
  EXPECT_EQ(options.seed, 18446744073709551615U);
  EXPECT_EQ(options.csv, "a.csv");
  EXPECT_EQ(options.json, "a.json");
  EXPECT_EQ(options.seconds, 2.5);
  EXPECT_EQ(options.launches, 100);
  EXPECT_TRUE(options.cudnn);
  EXPECT_TRUE(options.list);
}

TEST(Options, SaysWhatIsWrong) {
  EXPECT_EQ(complaint({"--sizes", "10x"}), "'10x' is no size: 10240, 10007x9973 or 768x768x768 are");
  EXPECT_EQ(complaint({"--mode", "fast"}), "--mode is burst, sustained or both with a comma, not 'fast'");
  EXPECT_EQ(complaint({"--launches", "19"}), "--launches must be a number from 20 to 100000, not '19'");
  EXPECT_EQ(complaint({"--offset", "1x"}), "--offset must be a number from 0 to 4096, not '1x'");
  EXPECT_EQ(complaint({"--seed", "-1"}).rfind("--seed must be", 0), 0U);
  EXPECT_EQ(complaint({"--kernels", "a,,b"}), "--kernels has an empty item: a,,b");
  EXPECT_EQ(complaint({"--kernels", ""}), "--kernels needs at least one item");
  EXPECT_EQ(complaint({"--kernels"}), "--kernels needs a value");
  EXPECT_EQ(complaint({"--kernel", "a"}), "unknown option '--kernel'");
  EXPECT_EQ(complaint({"--library", "a.so"}), "--library must be LABEL=FILE, not 'a.so'");
  EXPECT_NE(complaint({"--baselines", "cub"}), "");
  EXPECT_THROW(static_cast<void>(parse_options({})), std::invalid_argument);
}

TEST(Options, HelpNeedsNoLibraryAndNamesEveryOption) {
  EXPECT_TRUE(parse_options({"--help"}).help);
  for (const char* option :
       {"--library", "--kernels", "--sizes", "--mode", "--baselines", "--walks", "--offset", "--seed",
        "--launches", "--seconds", "--csv", "--json", "--list", "--help"}) {
    EXPECT_NE(usage().find(std::string("  ") + option), std::string::npos) << option;
  }
}

TEST(Options, PatternsMatchWholeNames) {
  EXPECT_TRUE(matches_any({"heat2d", "box2d_r[13]"}, "box2d_r3"));
  EXPECT_FALSE(matches_any({"heat2d", "box2d_r[13]"}, "box2d_r33"));
  EXPECT_FALSE(matches_any({"box2d"}, "box2d_r1"));
}

TEST(Sizes, RefuseWhatIsNone) {
  for (const char* text :
       {"", "x", "0", "-1", "10x", "x10", "1x2x3x4", "1X2", "1 ", "1e3", "99999999999999999999"}) {
    EXPECT_THROW(static_cast<void>(parse_size(text)), std::invalid_argument) << text;
  }
}

TEST(Sizes, OneNumberFitsEveryDimension) {
  EXPECT_EQ(extents_for({7}, 1), (Extents{1, 1, 7}));
  EXPECT_EQ(extents_for({7}, 2), (Extents{1, 7, 7}));
  EXPECT_EQ(extents_for({7}, 3), (Extents{7, 7, 7}));
}

TEST(Sizes, SeveralNumbersFitTheirDimension) {
  EXPECT_EQ(extents_for({5, 9}, 2), (Extents{1, 5, 9}));
  EXPECT_EQ(extents_for({5, 9}, 3), std::nullopt);
  EXPECT_EQ(extents_for({4, 5, 9}, 3), (Extents{4, 5, 9}));
  EXPECT_EQ(name_of({4, 5, 9}, 3), "4x5x9");
  EXPECT_EQ(name_of({1, 5, 9}, 2), "5x9");
  EXPECT_EQ(point_count({4, 5, 9}), 180);
}

}  // namespace
}  // namespace bench
