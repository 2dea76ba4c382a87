#include "spec/expression.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <variant>

namespace spidergen::spec {
namespace {

double value_of(const std::string& expression) {
  Calculator calculator;
  calculator.define("alpha", 0.25);
  calculator.define("e", 3);
  const Evaluation result = calculator.evaluate(expression);
  if (const auto* error = std::get_if<ExpressionError>(&result)) {
    ADD_FAILURE() << expression << ": " << error->text;
    return std::nan("");
  }
  return std::get<double>(result);
}

ExpressionError error_of(const std::string& expression) {
  Calculator calculator;
  calculator.define("alpha", 0.25);
  const Evaluation result = calculator.evaluate(expression);
  if (const auto* error = std::get_if<ExpressionError>(&result)) return *error;
  ADD_FAILURE() << expression << " is " << std::get<double>(result);
  return {};
}

TEST(Expression, NumbersAreTheNearestDoubles) {
  EXPECT_EQ(value_of("1"), 1.0);
  EXPECT_EQ(value_of("0.1"), 0.1);
  EXPECT_EQ(value_of(".5"), 0.5);
  EXPECT_EQ(value_of("5."), 5.0);
  EXPECT_EQ(value_of("1e-3"), 1e-3);
  EXPECT_EQ(value_of("2.5E+2"), 250.0);
  EXPECT_EQ(value_of("0.30000000000000004 + 0"), 0.30000000000000004);
  EXPECT_EQ(value_of("  7 "), 7.0);
}

TEST(Expression, OperatorsHaveTheUsualOrder) {
  EXPECT_EQ(value_of("1/2"), 0.5);
  EXPECT_EQ(value_of("1 + 2*3"), 7.0);
  EXPECT_EQ(value_of("(1 + 2)*3"), 9.0);
  EXPECT_EQ(value_of("8/4/2"), 1.0);
  EXPECT_EQ(value_of("8 - 4 - 2"), 2.0);
  EXPECT_EQ(value_of("2^3^2"), 512.0);
  EXPECT_EQ(value_of("2^-2^1"), 0.25);
  EXPECT_EQ(value_of("-2^2"), -4.0);
  EXPECT_EQ(value_of("2*-3"), -6.0);
  EXPECT_EQ(value_of("+3"), 3.0);
  EXPECT_EQ(value_of("1 - 4*alpha"), 0.0);
}

TEST(Expression, FunctionsAndConstants) {
  EXPECT_EQ(value_of("sqrt(16) + abs(-3)"), 7.0);
  EXPECT_EQ(value_of("exp(0) + log(1)"), 1.0);
  EXPECT_EQ(value_of("log2(8) + log10(100)"), 5.0);
  EXPECT_EQ(value_of("min(3, alpha, 2)"), 0.25);
  EXPECT_EQ(value_of("max(1)"), 1.0);
  EXPECT_EQ(value_of("floor(-1.5) + ceil(1.5) + round(2.5)"), 3.0);
  EXPECT_EQ(value_of("pi"), std::acos(-1.0));
  EXPECT_EQ(value_of("e"), 3.0) << "e is a free name";
}

TEST(Expression, TheSameTextAndValueGiveTheSameBits) {
  // Turning base^3 into products, for names only, would break this for some values.
  Calculator calculator;
  for (const std::string base : {"0.1", "1.7", "2.3e-5"}) {
    calculator.define("base", std::stod(base));
    EXPECT_EQ(calculator.evaluate("base^3"), calculator.evaluate(base + "^3"));
  }
}

TEST(Expression, EveryFunctionIsCallable) {
  for (const std::string& name : function_names()) EXPECT_TRUE(std::isfinite(value_of(name + "(1)"))) << name;
}

TEST(Expression, MuParsersOwnLanguageIsClosed) {
  for (const std::string text : {"1 < 2", "1 == 1", "a = 3", "1 && 1", "1 ? 2 : 3", "_pi", "_e", "rint(1)",
                                 "sign(1)", "sum(1, 2)", "avg(1, 2)", "1, 2", "ln(1)", "2 !", "\"text\""}) {
    EXPECT_FALSE(error_of(text).text.empty()) << text;
  }
}

TEST(Expression, ErrorsPointAtTheToken) {
  EXPECT_EQ(error_of("1 + alhpa").offset, 4U);
  EXPECT_NE(error_of("1 + alhpa").text.find("did you mean 'alpha'"), std::string::npos);
  EXPECT_EQ(error_of("  1 + * 2").offset, 6U);
  EXPECT_EQ(error_of("1 +").offset, 3U);
  EXPECT_EQ(error_of("1)").offset, 1U);
  EXPECT_EQ(error_of("sqrt(1, 2)").offset, 0U);
}

TEST(Expression, ResultsAreFinite) {
  for (const std::string text :
       {"1/0", "0/0", "1/(1/0)", "sqrt(-1)", "exp(1000)", "10^400", "1e400", "log(0)", "min(1, 1/0)", "inf",
        ".inf", "-.Inf", "nan", ".NaN", "infinity", "1e-400"}) {
    EXPECT_FALSE(error_of(text).text.empty()) << text;
  }
}

TEST(Expression, LongAndDeepTextsAreRefusedOrRead) {
  EXPECT_EQ(value_of(std::string(400, '(') + "1" + std::string(400, ')')), 1.0);
  EXPECT_FALSE(error_of(std::string(100'000, '(')).text.empty());
}

TEST(Expression, BrokenNamesAreNotReportedAgain) {
  Calculator calculator;
  calculator.define_broken("alpha");
  const Evaluation result = calculator.evaluate("2*alpha");
  ASSERT_TRUE(std::holds_alternative<ExpressionError>(result));
  EXPECT_TRUE(std::get<ExpressionError>(result).text.empty());
}

}  // namespace
}  // namespace spidergen::spec
