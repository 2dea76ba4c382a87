/// What --new writes, through the real generator.
#include "cli/starter_spec.h"

#include <gtest/gtest.h>

#include <string>

#include "cli/generate.h"

namespace spidergen::cli {
namespace {

TEST(StarterSpec, GeneratesAsItIs) {
  const GenerateResult result = generate({"folder/heat.yaml", starter_spec("heat")}, {}, {"sm_80"});
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
  EXPECT_FALSE(
      generate({"heat.yaml", starter_spec("heat")}, {{"alpha", "0.1"}}, {"sm_80"}).diagnostics.has_errors());
}

}  // namespace
}  // namespace spidergen::cli
