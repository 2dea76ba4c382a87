#include "render/render.h"

#include <gtest/gtest.h>

#include "diag/diagnostic.h"

namespace spidergen::render {
namespace {

std::string failure(std::string_view text, const Bindings& bindings) {
  try {
    return "no failure, but: " + render({"a.in", text}, bindings);
  } catch (const diag::InternalError& error) {
    return error.what();
  }
}

TEST(Render, ReplacesInsideALine) {
  EXPECT_EQ(render({"a.in", "int ${name} = ${value};  // ${name}\n"}, {{"name", "n"}, {"value", "3"}}),
            "int n = 3;  // n\n");
  EXPECT_EQ(render({"a.in", "[${empty}]"}, {{"empty", ""}}), "[]");
  EXPECT_EQ(render({"a.in", "${a}${b}\n"}, {{"a", "1"}, {"b", "2"}}), "12\n");
}

TEST(Render, IndentsEveryLineOfABlock) {
  EXPECT_EQ(render({"a.in", "{\n  ${body}\n}\n"}, {{"body", "one;\ntwo;"}}), "{\n  one;\n  two;\n}\n");
  EXPECT_EQ(render({"a.in", "\t${body}\n"}, {{"body", "one\n  two\n"}}), "\tone\n\t  two\n");
}

TEST(Render, LeavesEmptyLinesOfABlockEmpty) {
  EXPECT_EQ(render({"a.in", "  ${body}\n"}, {{"body", "one\n\ntwo"}}), "  one\n\n  two\n");
}

TEST(Render, RemovesTheLineOfAnEmptyBlock) {
  EXPECT_EQ(render({"a.in", "before\n  ${body}\nafter\n"}, {{"body", ""}}), "before\nafter\n");
}

TEST(Render, KeepsAnUnterminatedLastLine) {
  EXPECT_EQ(render({"a.in", "x\n${body}"}, {{"body", "one\ntwo\n"}}), "x\none\ntwo");
}

TEST(Render, LeavesOtherTextAlone) {
  const std::string_view text = "asm(\"{%0, %1}\" : : \"r\"(a)); $x {{1, 2}, {3, 4}} #define A $ {b}\n";
  EXPECT_EQ(render({"a.in", text}, {}), text);
}

TEST(Render, DoesNotSearchValues) {
  EXPECT_EQ(render({"a.in", "x ${a}\n${b}\n"}, {{"a", "${b}"}, {"b", "${a}"}}), "x ${b}\n${a}\n");
}

TEST(Render, NamesAnUnknownPlaceholder) {
  EXPECT_EQ(failure("ok\nint ${nmae};\n", {}), "a.in:2:5: nothing is bound to the placeholder 'nmae'");
  EXPECT_EQ(failure("  ${block}\n", {}), "a.in:1:3: nothing is bound to the placeholder 'block'");
}

TEST(Render, NamesAnUnusedBinding) {
  EXPECT_EQ(failure("${a}\n", {{"a", ""}, {"b", ""}}), "a.in: no placeholder uses the binding 'b'");
}

TEST(Render, RefusesAMalformedPlaceholder) {
  const std::string rule = "a placeholder is '${', lower-case letters, digits or underscores, and '}'";
  EXPECT_EQ(failure("x ${a\n}", {{"a", ""}}), "a.in:1:3: " + rule);
  EXPECT_EQ(failure("${}\n", {}), "a.in:1:1: " + rule);
  EXPECT_EQ(failure("${a b}\n", {}), "a.in:1:1: " + rule);
  EXPECT_EQ(failure("x ${A}\n", {}), "a.in:1:3: " + rule);
}

TEST(Render, RefusesSeveralLinesInsideALine) {
  EXPECT_EQ(failure("// ${a}\n", {{"a", "one\ntwo"}}),
            "a.in:1:4: 'a' has several lines and must stand alone on its line");
}

}  // namespace
}  // namespace spidergen::render
