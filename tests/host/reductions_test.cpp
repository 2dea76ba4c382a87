// Reductions of systems (spider/reductions.h) on the host: sums that are exact and rounded once, maxima,
// minima, steps until a bound, what is refused.
#include <spider/reductions.h>
#include <spider/spider.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernel_by_hand.h"
#include "systems_by_hand.h"

namespace {

using namespace by_hand;  // NOLINT(*-using-namespace)
using Extents = std::array<std::int64_t, 3>;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// v becomes u, and u half of it, in two launches; numbers of u before, and of u after.
template <int storage>
struct Halves {
  static constexpr spider::SystemField field{storage, {true, true, true}, {}};
  static constexpr spider::SystemField fields[] = {field, field};
  using Number = std::conditional_t<storage == SPIDER_F64, double, float>;

  struct First {
    using Number = Halves::Number;
    static constexpr const auto& fields = Halves::fields;
    [[maybe_unused]] static constexpr int dimensions = 3, columns = 4;
    static constexpr int row_count = 1, written_count = 1, reduced_count = 3;
    static constexpr int bounded_low[3] = {0, 0, 0}, bounded_high[3] = {0, 0, 0};
    static constexpr spider::ReadRow rows[row_count] = {{0, 0, 0, 0, 0}};
    static constexpr spider::WrittenField written[written_count] = {{1, false}};
    static constexpr spider::ReducedNumber reduced[reduced_count] = {
        {0, spider::ReductionKind::sum}, {1, spider::ReductionKind::max}, {2, spider::ReductionKind::min}};
    template <class P, class Numbers>
    SPIDER_DEVICE static void compute(const P& p, Numbers* results) {
      for (int i = 0; i < 4; ++i) results[i] = p.template read<0, 0>();
    }
  };
  struct Second {
    using Number = Halves::Number;
    static constexpr const auto& fields = Halves::fields;
    [[maybe_unused]] static constexpr int dimensions = 3, columns = 4;
    static constexpr int row_count = 1, written_count = 1, reduced_count = 1;
    static constexpr int bounded_low[3] = {0, 0, 0}, bounded_high[3] = {0, 0, 0};
    static constexpr spider::ReadRow rows[row_count] = {{1, 0, 0, 0, 0}};
    static constexpr spider::WrittenField written[written_count] = {{0, false}};
    static constexpr spider::ReducedNumber reduced[reduced_count] = {{3, spider::ReductionKind::sum}};
    template <class P, class Numbers>
    SPIDER_DEVICE static void compute(const P& p, Numbers* results) {
      results[0] = spider::device::multiply(Number{0.5}, p.template read<0, 0>());
      results[1] = results[0];
    }
  };

  static constexpr spider::SystemSweep sweeps[] = {spider::system_sweep<First>(1),
                                                   spider::system_sweep<Second>(1)};
  static constexpr spider::SystemFacts system = {fields, sweeps};
  static constexpr spider::SweepForm forms[] = {spider::system_form<First>(), spider::system_form<Second>()};
  static constexpr const char* names[] = {"u", "v"};
  static constexpr std::int32_t storages[] = {storage, storage};
  static constexpr std::int32_t uses[] = {3, 3};
  static constexpr std::int32_t axes[] = {7, 7};
  static constexpr const char* reductions[] = {"total", "largest", "least", "half"};
  static constexpr spider_kernel kernel =
      spider::make_system_kernel({"halves",
                                  "by hand",
                                  "",
                                  3,
                                  SPIDER_F32,
                                  80,
                                  {names, storages, uses, axes, 2, nullptr, 0, reductions, 4}},
                                 forms, system);

  /// u has these values, in order.
  static State make(const Extents& extents, const std::vector<double>& values) {
    State state{{}, std::vector<Grid>(2), {}};
    for (int i = 0; i < 2; ++i) state.first.emplace_back(field, extents);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const auto n = static_cast<std::int64_t>(i);
      state.first[0].store(n / (extents[1] * extents[2]), n / extents[2] % extents[1], n % extents[2],
                           values[i]);
    }
    return state;
  }
};

using F32 = Halves<SPIDER_F32>;
using F64 = Halves<SPIDER_F64>;

void expect_ok(spider_status status) {
  ASSERT_EQ(status, SPIDER_OK) << spider_last_error();
}

void expect_refused(spider_status found, spider_status status, const std::string& words) {
  EXPECT_EQ(found, status) << words;
  EXPECT_NE(std::string(spider_last_error()).find(words), std::string::npos) << spider_last_error();
}

/// The numbers that one sweep makes of values in a row.
template <class System>
spider::Numbers numbers_of(const std::vector<double>& values) {
  const Extents extents{1, 1, static_cast<std::int64_t>(values.size())};
  State state = System::make(extents, values);
  Call call(state);
  const spider::Reductions reductions(&System::kernel);
  call.sweep.reductions = reductions.c_reductions();
  expect_ok(spider_run(&System::kernel, &call.sweep));
  return reductions.read();
}

/// A sum that is rounded once, by another way than the runtime's: parts that do not overlap (Shewchuk 1997).
/// Without infinities on the way.
double exact_sum(const std::vector<double>& values) {
  std::vector<double> parts;  // ascending
  for (double value : values) {
    std::size_t count = 0;
    for (double part : parts) {
      if (std::fabs(value) < std::fabs(part)) std::swap(value, part);
      const double high = value + part;
      const double low = part - (high - value);
      if (low != 0) parts[count++] = low;
      value = high;
    }
    parts.resize(count);
    parts.push_back(value);
  }
  double sum = 0;
  double low = 0;
  while (!parts.empty() && low == 0) {
    const double before = sum;
    const double part = parts.back();
    parts.pop_back();
    sum = before + part;
    low = part - (sum - before);
  }
  // Half of a last digit: what comes behind decides.
  if (!parts.empty() && ((low < 0) == (parts.back() < 0)) && low != 0 && parts.back() != 0) {
    const double more = 2 * low;
    const double farther = sum + more;
    if (more == farther - sum) sum = farther;
  }
  return sum;
}

/// Numbers of random exponents and signs, some of which cancel.
template <class Number>
std::vector<double> random_values(std::mt19937& random, std::size_t count, int lowest, int highest) {
  std::uniform_int_distribution<int> exponent(lowest, highest);
  std::uniform_real_distribution<double> fraction(1, 2);
  std::vector<double> values;
  while (values.size() < count) {
    const auto value = static_cast<Number>(std::ldexp(fraction(random), exponent(random)));
    values.push_back(random() % 2 == 0 ? value : -value);
    if (random() % 4 == 0 && values.size() < count) values.push_back(-values[random() % values.size()]);
  }
  return values;
}

TEST(Reductions, SumWithoutRounding) {
  for (const auto& values : std::vector<std::vector<double>>{
           {1e30, 1, -1e30},
           {1, 0x1p-60, -1},
           {0x1p127, 0x1p-149, -0x1p127, 0x1p-149},
           {1, 0x1p-24, 0x1p-48, 0x1p-72, 0x1p-96, 0x1p-120, 0x1p-144, -1},
           {0x1.fffffep127, 0x1.fffffep127, 0x1.fffffep127, -0x1.fffffep127, -0x1.fffffep127, 0x1p-149},
           {0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F, 0.1F}}) {
    EXPECT_EQ(numbers_of<F32>(values).at("total"), exact_sum(values));
    EXPECT_EQ(numbers_of<F64>(values).at("total"), exact_sum(values));
  }
  EXPECT_EQ(numbers_of<F32>({1e30F, 1, -1e30F}).at("total"), 1);
}

TEST(Reductions, RoundToEvenOnce) {
  const double above = 1 + 0x1p-52;
  for (const auto& [values, sum] : std::vector<std::pair<std::vector<double>, double>>{
           {{1, 0x1p-53}, 1},
           {{1, 0x1p-53, 0x1p-1074}, above},
           {{1, 0x1p-53, -0x1p-1074}, 1},
           {{above, 0x1p-53}, 1 + 0x1p-51},
           {{above, 0x1p-53, -0x1p-1074}, above},
           {{-1, -0x1p-53, -0x1p-1074}, -above},
           {{-above, -0x1p-53}, -1 - 0x1p-51},
           {{0x1p-1022, -0x1p-1074}, 0x1p-1022 - 0x1p-1074},
           {{0x1p-1074, 0x1p-1074, 0x1p-1074}, 0x1.8p-1073},
           {{0x1.fffffffffffffp1023, 0x1p969}, 0x1.fffffffffffffp1023},
           {{0x1.fffffffffffffp1023, 0x1p970}, infinity},
           {{-0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023}, -infinity},
           {{0x1.fffffffffffffp1023, 0x1.fffffffffffffp1023, -0x1.fffffffffffffp1023},
            0x1.fffffffffffffp1023}}) {
    EXPECT_EQ(numbers_of<F64>(values).at("total"), sum) << values[0] << " and more";
  }
}

TEST(Reductions, SumWhatNoNumberIs) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const int filler : {0, 5, 300}) {
    const auto sum = [&](std::vector<double> values) {
      values.insert(values.begin() + 1, static_cast<std::size_t>(filler), 0.25);
      return numbers_of<F32>(values).at("total");
    };
    EXPECT_EQ(sum({1, infinity}), infinity);
    EXPECT_EQ(sum({-infinity, 1}), -infinity);
    EXPECT_TRUE(std::isnan(sum({infinity, -infinity})));
    EXPECT_TRUE(std::isnan(sum({1, nan})));
    EXPECT_TRUE(std::isnan(sum({infinity, nan})));
    EXPECT_FALSE(std::signbit(sum({-0.0, 0.0})));
  }
  EXPECT_EQ(numbers_of<F32>({-0.0, -0.0}).at("total"), 0);
}

TEST(Reductions, FindTheLargestAndTheLeast) {
  const auto expect = [](const std::vector<double>& values, double largest, double least) {
    for (const spider::Numbers& found : {numbers_of<F32>(values), numbers_of<F64>(values)}) {
      EXPECT_EQ(found.at("largest"), largest);
      EXPECT_EQ(found.at("least"), least);
      EXPECT_EQ(std::signbit(found.at("largest")), std::signbit(largest));
      EXPECT_EQ(std::signbit(found.at("least")), std::signbit(least));
    }
  };
  expect({-3, -1, -2}, -1, -3);
  expect({0x1p-149, -0x1p-149}, 0x1p-149, -0x1p-149);
  expect({infinity, 1, -infinity}, infinity, -infinity);
  expect({-infinity}, -infinity, -infinity);
  expect({0.0, -0.0}, 0.0, -0.0);
  for (const double sign : {1.0, -1.0}) {
    const double nan = std::copysign(std::numeric_limits<double>::quiet_NaN(), sign);
    const spider::Numbers found = numbers_of<F32>({1, nan, infinity});
    EXPECT_TRUE(std::isnan(found.at("largest")));
    EXPECT_TRUE(std::isnan(found.at("least")));
  }
}

TEST(Reductions, SumRandomNumbers) {
  std::mt19937 random(20251128);
  for (int i = 0; i < 60; ++i) {
    const std::size_t count = 1 + random() % 3000;
    const std::vector<double> narrow = random_values<float>(random, count, -148, 127);
    EXPECT_EQ(numbers_of<F32>(narrow).at("total"), exact_sum(narrow)) << i;
    const std::vector<double> alike = random_values<float>(random, count, 0, 3);
    EXPECT_EQ(numbers_of<F32>(alike).at("total"), exact_sum(alike)) << i;
    const std::vector<double> wide = random_values<double>(random, count, -1073, 1000);
    const spider::Numbers found = numbers_of<F64>(wide);
    EXPECT_EQ(found.at("total"), exact_sum(wide)) << i;
    EXPECT_EQ(found.at("largest"), *std::max_element(wide.begin(), wide.end()));
    EXPECT_EQ(found.at("least"), *std::min_element(wide.begin(), wide.end()));
  }
}

/// The same bits however points are divided; the numbers of a launch are those of its stages.
TEST(Reductions, AreThoseOfBoxesTogether) {
  const Extents extents{3, 5, 211};
  std::mt19937 random(7);
  const auto values = random_values<float>(random, 3 * 5 * 211, -100, 100);
  State state = F32::make(extents, values);
  Call call(state);
  const spider::Reductions reductions(&F32::kernel);
  call.sweep.reductions = reductions.c_reductions();
  for (std::int32_t launch = 0; launch < 2; ++launch) {
    call.sweep.first_launch = launch;
    call.sweep.launch_count = 1;
    for (const auto& [offset, extent] : std::vector<std::pair<Extents, Extents>>{{{2, 0, 0}, {1, 5, 211}},
                                                                                 {{0, 1, 3}, {2, 4, 208}},
                                                                                 {{0, 0, 0}, {2, 1, 211}},
                                                                                 {{0, 1, 0}, {2, 4, 3}}}) {
      std::copy(offset.begin(), offset.end(), call.sweep.offset);
      std::copy(extent.begin(), extent.end(), call.sweep.extent);
      expect_ok(spider_run(&F32::kernel, &call.sweep));
    }
  }
  const spider::Numbers found = reductions.read();
  EXPECT_EQ(found.at("total"), exact_sum(values));
  EXPECT_EQ(found.at("half"), exact_sum(values) / 2);
  EXPECT_EQ(found.at("largest"), *std::max_element(values.begin(), values.end()));
  EXPECT_EQ(found.at("least"), *std::min_element(values.begin(), values.end()));
}

TEST(Reductions, BeginAnewWhenRead) {
  State state = F32::make({1, 1, 3}, {4, 8, 12});
  Call call(state);
  const spider::Reductions reductions(&F32::kernel);
  call.sweep.reductions = reductions.c_reductions();
  const auto expect_none = [&] {
    const spider::Numbers none = reductions.read();
    EXPECT_EQ(none.at("total"), 0);
    EXPECT_EQ(none.at("largest"), -infinity);
    EXPECT_EQ(none.at("least"), infinity);
  };
  expect_none();
  expect_ok(spider_run(&F32::kernel, &call.sweep));
  expect_ok(spider_run(&F32::kernel, &call.sweep));  // of halves
  EXPECT_EQ(reductions.read().at("total"), 24 + 12);
  expect_none();
  expect_ok(spider_run_steps(&F32::kernel, &call.sweep, 2, nullptr));  // the last step alone
  EXPECT_EQ(reductions.read(),
            (spider::Numbers{{"total", 3}, {"largest", 1.5}, {"least", 0.5}, {"half", 1.5}}));
  expect_ok(spider_run_steps(&F32::kernel, &call.sweep, 0, nullptr));
  expect_none();
  call.sweep.reductions = nullptr;
  expect_ok(spider_run(&F32::kernel, &call.sweep));
  expect_none();
}

TEST(Reductions, StopSteps) {
  const auto run = [](std::int64_t steps, double bound, std::int64_t check_every) {
    State state = F32::make({1, 1, 2}, {64, 32});
    Call call(state);
    const spider::Reductions reductions(&F32::kernel);
    call.sweep.reductions = reductions.c_reductions();
    std::int64_t done = -1;
    std::array<double, 4> values{};
    expect_ok(
        spider_run_until(&F32::kernel, &call.sweep, steps, 3, bound, check_every, &done, values.data()));
    EXPECT_EQ(state.first[0].load(0, 0, 0), std::ldexp(64, static_cast<int>(-done)));
    EXPECT_EQ(values[3], done == 0 ? 0 : std::ldexp(96, static_cast<int>(-done)));
    return done;
  };
  EXPECT_EQ(run(100, 3, 1), 5);  // the sum is at most 3
  EXPECT_EQ(run(100, 2.9, 1), 6);
  EXPECT_EQ(run(100, 3, 4), 8);
  EXPECT_EQ(run(7, 3, 4), 7);
  EXPECT_EQ(run(2, 3, 10), 2);
  EXPECT_EQ(run(0, 3, 1), 0);
  EXPECT_EQ(run(100, infinity, 10), 10);
  EXPECT_EQ(run(5, std::numeric_limits<double>::quiet_NaN(), 1), 5);
}

TEST(Reductions, OfNaNStopNoSteps) {
  State state = F32::make({1, 1, 2}, {std::numeric_limits<double>::quiet_NaN(), 1});
  Call call(state);
  const spider::Reductions reductions(&F32::kernel);
  call.sweep.reductions = reductions.c_reductions();
  std::int64_t done = 0;
  expect_ok(spider_run_until(&F32::kernel, &call.sweep, 6, 1, infinity, 2, &done, nullptr));
  EXPECT_EQ(done, 6);
}

TEST(Reductions, AreNamedInCpp) {
  spider::Field<float> u(1, 2);
  spider::Field<float> v(1, 2);
  u.upload({64, 32});
  spider::System halves(&F32::kernel);
  halves.field("u", u).field("v", v);
  const spider::Reductions reductions(&F32::kernel);
  halves.run({.reductions = &reductions});
  EXPECT_EQ(reductions.read().at("half"), 48);
  const spider::Stop stop = halves.run_until(10, "half", 3, 1);
  EXPECT_EQ(stop.steps, 4);
  EXPECT_EQ(stop.numbers.at("half"), 3);
  EXPECT_EQ(stop.numbers.at("total"), 6);
  EXPECT_TRUE(halves.run_until(0, "half", 3).numbers.empty());
  EXPECT_THROW((void)halves.run_until(10, "third", 3), spider::Error);
  EXPECT_THROW((void)halves.run_until(10, "half", 3, 0), spider::Error);
  const spider::Reductions others(&F64::kernel);
  EXPECT_THROW(halves.run({.reductions = &others}), spider::Error);
}

TEST(Reductions, AreRefused) {
  spider_reductions* made = nullptr;
  expect_refused(spider_reductions_create(nullptr, &made), SPIDER_ERROR_NULL, "the kernel is null");
  expect_refused(spider_reductions_create(&F32::kernel, nullptr), SPIDER_ERROR_NULL,
                 "the place for the reductions is null");
  spider_kernel plain = kernel_by_hand("plain", 2, SPIDER_F32);
  plain.info.backend = SPIDER_BACKEND_HOST;
  expect_refused(spider_reductions_create(&plain, &made), SPIDER_ERROR_UNSUPPORTED,
                 "the kernel plain has no reductions: its spec has no `reduce`");
  expect_ok(spider_reductions_free(nullptr));
  std::array<double, 4> values{};
  expect_refused(spider_reductions_read(nullptr, values.data(), nullptr), SPIDER_ERROR_NULL,
                 "the reductions are null");
  const spider::Reductions reductions(&F32::kernel);
  expect_refused(spider_reductions_read(reductions.c_reductions(), nullptr, nullptr), SPIDER_ERROR_NULL,
                 "the place for the numbers is null");
  State state = F64::make({1, 1, 2}, {1, 2});
  Call call(state);
  call.sweep.reductions = reductions.c_reductions();
  const std::string other = "the reductions were created for the kernel halves, not for halves";
  expect_refused(spider_run(&F64::kernel, &call.sweep), SPIDER_ERROR_KERNEL, other);
  EXPECT_EQ(state.first[0].load(0, 0, 0), 1);
  spider_field field = call.fields[0];
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  sweep.in = sweep.out = &field;
  sweep.reductions = reductions.c_reductions();
  expect_refused(spider_run(&plain, &sweep), SPIDER_ERROR_UNSUPPORTED, "reductions must be null and 0");
}

TEST(Reductions, RefuseStepsWithoutABound) {
  State state = F32::make({1, 1, 2}, {1, 2});
  Call call(state);
  const spider::Reductions reductions(&F32::kernel);
  call.sweep.reductions = reductions.c_reductions();
  std::int64_t done = 7;
  const auto run = [&](std::int64_t steps, std::int32_t reduction, std::int64_t check_every) {
    return spider_run_until(&F32::kernel, &call.sweep, steps, reduction, 0, check_every, &done, nullptr);
  };
  expect_refused(run(3, 4, 1), SPIDER_ERROR_UNSUPPORTED, "has 4 reductions, and no reduction 4");
  EXPECT_EQ(done, 0);
  expect_refused(run(3, -1, 1), SPIDER_ERROR_UNSUPPORTED, "no reduction -1");
  expect_refused(run(3, 0, 0), SPIDER_ERROR_STEPS, "every 0 steps; give 1 or more");
  expect_refused(run(3, 0, -2), SPIDER_ERROR_STEPS, "every -2 steps; give 1 or more");
  expect_refused(run(-3, 0, 1), SPIDER_ERROR_STEPS, "-3 steps");
  call.sweep.reductions = nullptr;
  expect_refused(run(3, 0, 1), SPIDER_ERROR_NULL, "create them with spider_reductions_create");
  expect_refused(spider_run_until(&F32::kernel, &call.sweep, 3, 0, 0, 1, nullptr, nullptr), SPIDER_ERROR_NULL,
                 "the place for the number of steps is null");
  spider_kernel plain = kernel_by_hand("plain", 2, SPIDER_F32);
  plain.info.backend = SPIDER_BACKEND_HOST;
  spider_sweep sweep{};
  sweep.size = sizeof sweep;
  expect_refused(spider_run_until(&plain, &sweep, 3, 0, 0, 1, &done, nullptr), SPIDER_ERROR_UNSUPPORTED,
                 "is no system of equations, and has no reductions");
  EXPECT_EQ(state.first[0].load(0, 0, 0), 1);
}

}  // namespace
