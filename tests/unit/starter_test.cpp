/// What --new writes, through the real generator.
#include "cli/starter_spec.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "cli/generate.h"

namespace spidergen::cli {
namespace {

TEST(StarterSpec, GeneratesAsItIs) {
  const GenerateResult result = generate({"folder/heat.yaml", starter_spec("heat")}, {}, {}, {"sm_80"});
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) ADD_FAILURE() << to_string(diagnostic);
  ASSERT_EQ(result.files.size(), 2U);
  EXPECT_EQ(result.files.front().name, "heat.cu");
}

TEST(StarterSpec, IsCalledByItsNameEverywhere) {
  const std::string text = starter_spec("heat");
  EXPECT_EQ(text.find('@'), std::string::npos);
  EXPECT_NE(text.find("\nstencil: heat "), std::string::npos);
  EXPECT_NE(text.find("spider-gen heat.yaml -o kernels"), std::string::npos);
}

TEST(StarterSpec, HasParametersToOverride) {
  EXPECT_FALSE(generate({"heat.yaml", starter_spec("heat")}, {{"alpha", "0.1"}}, {}, {"sm_80"})
                   .diagnostics.has_errors());
}

TEST(StarterSpec, OfASystemGeneratesAsItIs) {
  const std::string text = starter_system("waves");
  EXPECT_EQ(text.find('@'), std::string::npos);
  const spec::ReadResult result = spec::read_spec({"folder/waves.yaml", text}, {});
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) ADD_FAILURE() << to_string(diagnostic);
  ASSERT_TRUE(result.system.has_value());
  EXPECT_EQ(result.system->name, "waves");
  EXPECT_EQ(result.system->fields.size(), 4U);
  EXPECT_EQ(result.system->stages.size(), 2U);
  const GenerateResult generated = generate({"waves.yaml", text}, {{"h", "5"}}, {}, {"sm_80"});
  EXPECT_FALSE(generated.diagnostics.has_errors());
  EXPECT_EQ(generated.files.size(), 2U);
}

TEST(StarterSpec, OfASystemHasCommentsThatHold) {
  std::string text = starter_system("waves");
  const auto uncomment = [&text](const std::string& mark) {
    const std::size_t at = text.find(mark);
    ASSERT_NE(at, std::string::npos) << mark;
    text.erase(at + mark.find('#'), 2);
  };
  uncomment("# reduce:");
  const spec::ReadResult result = spec::read_spec({"waves.yaml", text}, {});
  for (const diag::Diagnostic& diagnostic : result.diagnostics.items) ADD_FAILURE() << to_string(diagnostic);
  ASSERT_TRUE(result.system.has_value());
  EXPECT_EQ(result.system->reductions.size(), 1U);
}

// What includes the header is not compiled again.
TEST(GeneratedFiles, KeepTheHeaderWhereACommentChanges) {
  const std::string spec = starter_spec("heat");
  const std::vector<emit::EmittedFile> before = generate({"heat.yaml", spec}, {}, {}, {"sm_80"}).files;
  const std::vector<emit::EmittedFile> after =
      generate({"heat.yaml", spec + "\n# A comment.\n"}, {}, {}, {"sm_80"}).files;
  ASSERT_EQ(before.size(), 2U);
  ASSERT_EQ(after.size(), 2U);
  EXPECT_NE(before.front().text, after.front().text) << "the hash of the spec";
  EXPECT_EQ(before.back().name, "heat.h");
  EXPECT_EQ(before.back().text, after.back().text);
}

}  // namespace
}  // namespace spidergen::cli
