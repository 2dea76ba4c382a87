/// What the functions of expressions give, against values of mpmath 1.3 (2600 bits, rounded once).
#include "spec/functions.h"

#include <gtest/gtest.h>

#include <cfenv>
#include <cmath>
#include <limits>

namespace spidergen::spec {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr int watched = FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW;

TEST(Functions, AreRoundedToTheNearestDouble) {
  const struct {
    double (*function)(double);
    double argument;
    double result;
  } cases[] = {
      {rounded::exp, -0.6, 0x1.18fdd6b9604e3p-1},
      {rounded::exp, 1.0, 0x1.5bf0a8b145769p+1},
      {rounded::exp, -18.0, 0x1.05a628c699fa1p-26},
      {rounded::exp, 709.782712893384, 0x1.fffffffffff2ap+1023},
      {rounded::exp, -740.25, 0x0.0000000000042p-1022},
      {rounded::exp, -745.1332191019411, 0x0.0000000000001p-1022},
      {rounded::exp, 0.1, 0x1.1aec7b35a00d4p+0},
      {rounded::sin, 0.6, 0x1.2118d17a54159p-1},
      {rounded::sin, 1e+22, -0x1.b453ab76bf397p-1},
      {rounded::sin, 3.141592653589793, 0x1.1a62633145c07p-53},
      {rounded::sin, 1.7976931348623157e+308, 0x1.452fc98b34e97p-8},
      {rounded::cos, 1.5707963267948966, 0x1.1a62633145c07p-54},
      {rounded::cos, 2.5, -0x1.9a2f7ef858b7dp-1},
      {rounded::tan, 1.5707963267948966, 0x1.d02967c31cdb5p+53},
      {rounded::tan, -0.7, -0x1.af406c2fc78aep-1},
      {rounded::log, 0.9999999999999999, -0x1p-53},
      {rounded::log, 10.0, 0x1.26bb1bbb55516p+1},
      {rounded::log2, 3.0, 0x1.95c01a39fbd68p+0},
      {rounded::log10, 2.0, 0x1.34413509f79ffp-2},
      {rounded::cbrt, 2.0, 0x1.428a2f98d728bp+0},
      {rounded::cbrt, -10.0, -0x1.13c484138704fp+1},
      {rounded::asin, 0.3, 0x1.380159e14f6ffp-2},
      {rounded::asin, 1.0, 0x1.921fb54442d18p+0},
      {rounded::acos, 0.9999999999999999, 0x1p-26},
      {rounded::acos, -0.2, 0x1.c5abe698d8960p+0},
      {rounded::atan, 3.0, 0x1.3fc176b7a8560p+0},
      {rounded::atan, 1e+300, 0x1.921fb54442d18p+0},
      {rounded::sinh, 1e-08, 0x1.5798ee2308c3ap-27},
      {rounded::sinh, 710.25, 0x1.987d23750ae26p+1023},
      {rounded::cosh, 1.3, 0x1.f88dd5c279504p+0},
      {rounded::tanh, 0.4, 0x1.8511573c242d6p-2},
      {rounded::tanh, 19.0, 0x1.fffffffffffffp-1},
      {rounded::erf, 0.3, 0x1.50838881dea0fp-2},
      {rounded::erf, 2.7, 0x1.ffee648a8ce38p-1},
      {rounded::erf, 5.5, 0x1.fffffffffffbep-1},
  };
  for (const auto& [function, argument, result] : cases) EXPECT_EQ(function(argument), result) << argument;
}

TEST(Functions, PowersAreRoundedToTheNearestDouble) {
  const struct {
    double base;
    double exponent;
    double result;
  } cases[] = {
      {1.6, 2.3, 0x1.794c9af4cd944p+1},
      {10, -3, 0x1.0624dd2f1a9fcp-10},
      {2.25, 1.5, 0x1.b000000000000p+1},
      {68718952449.0, 1.5, 0x1.fffe800060000p+53},
      {208063.0, 3.0, 0x1.fffe6e1bdd63fp+52},
      {0.1, 3, 0x1.0624dd2f1a9fdp-10},
      {1.0000001, 1000000000.0, 0x1.349445c228792p+144},
      {2, -1074, 0x0.0000000000001p-1022},
      {3, -600.5, 0x1.2c3fe31a13ba2p-952},
      {-1.1, 7, -0x1.f2df1fb5a7ed7p+0},
  };
  for (const auto& [base, exponent, result] : cases)
    EXPECT_EQ(rounded::pow(base, exponent), result) << base << '^' << exponent;
}

TEST(Functions, PowersHalfWayBetweenTwoDoublesBecomeTheEvenOne) {
  for (const long long root : {262143LL, 262141LL, 208065LL, 250001LL}) {
    const auto cube = static_cast<double>(root * root * root);  // 54 digits, rounded to even
    const auto number = static_cast<double>(root);
    EXPECT_EQ(rounded::pow(number, 3), cube) << root;
    EXPECT_EQ(rounded::pow(number * number, 1.5), cube) << root;
    EXPECT_EQ(rounded::pow(std::ldexp(number, 40), 3), std::ldexp(cube, 120)) << root;
  }
}

TEST(Functions, WholeResultsAreWhole) {
  for (int i = -300; i <= 300; ++i) {
    EXPECT_EQ(rounded::log2(std::ldexp(1.0, i)), i);
    EXPECT_EQ(rounded::pow(2, i), std::ldexp(1.0, i));
    EXPECT_EQ(rounded::cbrt(static_cast<double>(i) * i * i), i);
  }
  double power = 1;
  for (int i = 0; i <= 22; ++i, power *= 10) {
    EXPECT_EQ(rounded::log10(power), i);
    EXPECT_EQ(rounded::pow(10, i), power);
  }
}

TEST(Functions, RaiseWhatTheyShould) {
  const auto raised = [](double (*function)(double), double argument) {
    std::feclearexcept(FE_ALL_EXCEPT);
    const double result = function(argument);
    EXPECT_FALSE(std::isfinite(result)) << argument;
    return std::fetestexcept(watched);
  };
  EXPECT_EQ(raised(rounded::log, 0), FE_DIVBYZERO);
  EXPECT_EQ(raised(rounded::log10, -1), FE_INVALID);
  EXPECT_EQ(raised(rounded::asin, 1.5), FE_INVALID);
  EXPECT_EQ(raised(rounded::acos, -1.5), FE_INVALID);
  EXPECT_EQ(raised(rounded::exp, 709.7827128933841), FE_OVERFLOW);
  EXPECT_EQ(raised(rounded::exp, 1e300), FE_OVERFLOW);
  EXPECT_EQ(raised(rounded::sinh, -710.475860073944), FE_OVERFLOW);
  EXPECT_EQ(raised(rounded::cosh, 1e9), FE_OVERFLOW);
  EXPECT_EQ(raised([](double exponent) { return rounded::pow(-2, exponent); }, 0.5), FE_INVALID);
  EXPECT_EQ(raised([](double exponent) { return rounded::pow(0, exponent); }, -1), FE_DIVBYZERO);
  EXPECT_EQ(raised([](double exponent) { return rounded::pow(10, exponent); }, 309), FE_OVERFLOW);
  EXPECT_EQ(raised([](double exponent) { return rounded::pow(1.5, exponent); }, 1e300), FE_OVERFLOW);
  EXPECT_EQ(raised(rounded::sin, infinity), 0) << "whoever made it infinite has said so";
}

TEST(Functions, RaiseNothingElse) {
  std::feclearexcept(FE_ALL_EXCEPT);
  EXPECT_EQ(rounded::exp(-1e300), 0);
  EXPECT_EQ(rounded::pow(1.5, -1e300), 0);
  EXPECT_EQ(rounded::pow(0, 3), 0);
  EXPECT_EQ(rounded::pow(0, 0), 1);
  EXPECT_EQ(rounded::tanh(-1e300), -1);
  EXPECT_EQ(rounded::erf(1e300), 1);
  EXPECT_EQ(rounded::sin(1e-320), 1e-320);
  EXPECT_EQ(rounded::cos(1e-320), 1);
  EXPECT_EQ(rounded::exp(-740), rounded::exp(-740));
  EXPECT_EQ(std::fetestexcept(watched), 0);
  std::feraiseexcept(FE_DIVBYZERO);
  EXPECT_GT(rounded::exp(1), 2);
  EXPECT_EQ(std::fetestexcept(watched), FE_DIVBYZERO) << "and take none away";
}

}  // namespace
}  // namespace spidergen::spec
