#include "emit/update_text.h"

#include <gtest/gtest.h>

#include <string>

#include "spec/read_spec.h"

namespace spidergen::emit {
namespace {

std::string text_of(const std::string& update) {
  const spec::ReadResult result =
      spec::read_spec({"t.yaml",
                       "stencil: t\ndimensions: 1\nstorage: f32\nshape: star\nradius: 1\n"
                       "coefficients: {center: 1, x: [1, 1]}\nscalars: [p, q]\nupdate: " +
                           update + "\n"},
                      {});
  EXPECT_FALSE(result.diagnostics.has_errors()) << update;
  return update_struct(result.spec, 1);
}

// Two signs would be a decrement, which no compiler takes of a number.
TEST(UpdateText, NegatesNegativeNumbers) {
  for (const char* update :
       {"p*q - (-0.25) + sum", "sum - (-0.25)*p*q", "p*q*sum - (-0.25)*u", "-0.25 - p*q*sum"})
    EXPECT_EQ(text_of(update).find("--"), std::string::npos) << text_of(update);
}

}  // namespace
}  // namespace spidergen::emit
