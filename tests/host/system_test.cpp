// Sweeps of systems of equations (runtime/src/system.h, runtime/host/system_sweep.cpp), beside loops over
// cells.
#include <spider/points.h>
#include <spider/spider.hpp>

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <type_traits>
#include <utility>

#include "systems_by_hand.h"

namespace {

using namespace by_hand;  // NOLINT(*-using-namespace)
using Extents = std::array<std::int64_t, 3>;

constexpr spider::SystemField on_all_faces(std::int32_t storage, const bool (&axes)[3], Face low, Face high) {
  spider::SystemField field{storage, {axes[0], axes[1], axes[2]}, {}};
  for (auto& faces : field.faces) {
    faces[0] = low;
    faces[1] = high;
  }
  return field;
}

/// Acoustic waves in 2D, staggered.
namespace waves {

constexpr bool axes[] = {false, true, true};
constexpr spider::SystemField field =
    on_all_faces(SPIDER_F32, axes, {FaceRule::constant, 0}, {FaceRule::constant, 0});
constexpr spider::SystemField fields[] = {field, field, field, field};

struct Sweep0 {
  using Number = float;
  static constexpr const auto& fields = waves::fields;
  [[maybe_unused]] static constexpr int dimensions = 2, columns = 4;
  static constexpr int row_count = 4, written_count = 2, reduced_count = 0;
  static constexpr int bounded_low[3] = {0, 0, 0}, bounded_high[3] = {0, 0, 0};
  static constexpr spider::ReadRow rows[row_count] = {
      {0, 0, 0, 0, 1}, {0, 0, 1, 0, 0}, {1, 0, 0, 0, 0}, {2, 0, 0, 0, 0}};
  static constexpr spider::WrittenField written[written_count] = {{1, false}, {2, false}};
  template <class P>
  SPIDER_DEVICE static void compute(const P& p, Number* results) {
    namespace d = spider::device;
    const Number p0 = p.template read<0, 0>();
    results[0] =
        d::multiply_add(-p.scalar(0), d::subtract(p.template read<0, 1>(), p0), p.template read<2, 0>());
    results[1] =
        d::multiply_add(-p.scalar(0), d::subtract(p.template read<1, 0>(), p0), p.template read<3, 0>());
  }
};
struct Sweep1 {
  using Number = float;
  static constexpr const auto& fields = waves::fields;
  [[maybe_unused]] static constexpr int dimensions = 2, columns = 4;
  static constexpr int row_count = 5, written_count = 1, reduced_count = 0;
  static constexpr int bounded_low[3] = {0, 0, 0}, bounded_high[3] = {0, 0, 0};
  static constexpr spider::ReadRow rows[row_count] = {
      {0, 0, 0, 0, 0}, {1, 0, 0, -1, 0}, {2, 0, -1, 0, 0}, {2, 0, 0, 0, 0}, {3, 0, 0, 0, 0}};
  static constexpr spider::WrittenField written[written_count] = {{0, false}};
  template <class P>
  SPIDER_DEVICE static void compute(const P& p, Number* results) {
    namespace d = spider::device;
    const Number du = d::subtract(p.template read<1, 0>(), p.template read<1, -1>());
    const Number dv = d::subtract(p.template read<3, 0>(), p.template read<2, 0>());
    results[0] = d::multiply_add(-d::multiply(p.scalar(0), p.template read<4, 0>()), d::add(du, dv),
                                 p.template read<0, 0>());
  }
};

constexpr spider::SystemSweep sweeps[] = {spider::system_sweep<Sweep0>(1), spider::system_sweep<Sweep1>(1)};
constexpr spider::SystemFacts system = {fields, sweeps};
constexpr spider::SweepForm forms[] = {spider::system_form<Sweep0>(), spider::system_form<Sweep1>()};
constexpr const char* field_names[] = {"p", "u", "v", "k"};
constexpr std::int32_t field_storages[] = {SPIDER_F32, SPIDER_F32, SPIDER_F32, SPIDER_F32};
constexpr std::int32_t field_uses[] = {3, 3, 3, 1};
constexpr std::int32_t field_axes[] = {6, 6, 6, 6};
constexpr const char* scalar_names[] = {"dt"};
constexpr spider_kernel kernel =
    spider::make_system_kernel({"waves2d",
                                "by hand",
                                "",
                                2,
                                SPIDER_F32,
                                80,
                                {field_names, field_storages, field_uses, field_axes, 4, scalar_names, 1}},
                               forms, system);

State make(const Extents& extents) {
  State state{{}, std::vector<Grid>(4), {0.25}};
  for (std::uint32_t i = 0; i < 4; ++i) state.first.emplace_back(fields[i], extents).fill(i + 1);
  return state;
}

}  // namespace waves

/// Five fields: u has two buffers and faces of a pair of rules; c is f16 with others; hx and hy lie along one
/// axis; w is bf16. Of f64 the arithmetic is double.
namespace mix {

constexpr bool all[] = {true, true, true};

template <int storage, FaceRule low, FaceRule high>
struct Mix {
  static constexpr spider::SystemField u = on_all_faces(storage, all, {low, 0.75}, {high, -1.5});
  static constexpr spider::SystemField c = {SPIDER_F16,
                                            {true, true, true},
                                            {{{FaceRule::mirror, 0}, {FaceRule::reflect, 0}},
                                             {{high, -0.5}, {low, 2}},
                                             {{FaceRule::nearest, 0}, {FaceRule::constant, 0.375}}}};
  static constexpr spider::SystemField hx = {
      SPIDER_F32, {false, false, true}, {{}, {}, {{FaceRule::reflect, 0}, {FaceRule::halo, 0}}}};
  static constexpr spider::SystemField hy = {
      SPIDER_F16, {false, true, false}, {{}, {{FaceRule::constant, 0.25}, {FaceRule::nearest, 0}}, {}}};
  static constexpr spider::SystemField w =
      on_all_faces(SPIDER_BF16, all, {FaceRule::antisymmetric, 0}, {FaceRule::halo, 0});
  static constexpr spider::SystemField fields[] = {u, c, hx, hy, w};
  using Number = std::conditional_t<storage == SPIDER_F64, double, float>;

  struct First {
    using Number = Mix::Number;
    static constexpr const auto& fields = Mix::fields;
    [[maybe_unused]] static constexpr int dimensions = 3, columns = 4;
    static constexpr int row_count = 10, written_count = 2, reduced_count = 0;
    static constexpr int bounded_low[3] = {0, 0, 0}, bounded_high[3] = {0, 0, 0};
    static constexpr spider::ReadRow rows[row_count] = {
        {0, -1, 0, 0, 0}, {0, 0, -2, 0, 0}, {0, 0, 0, -2, 3}, {0, 0, 1, 1, 2}, {0, 2, 0, -1, 0},
        {1, 0, -1, 1, 1}, {2, 0, 0, -1, 1}, {3, 0, -1, 0, 0}, {3, 0, 1, 0, 0}, {4, 0, 0, 0, 0}};
    static constexpr spider::WrittenField written[written_count] = {{0, true}, {4, false}};
    template <class P>
    SPIDER_DEVICE static void compute(const P& p, Number* results) {
      namespace d = spider::device;
      Number sum = d::add(p.template read<0, 0>(), p.template read<1, 0>());
      sum = d::multiply_add(Number{-4}, p.template read<2, 0>(), sum);
      sum = d::add(sum, d::add(p.template read<2, -2>(), p.template read<2, 3>()));
      sum = d::add(sum, d::add(p.template read<3, 1>(), p.template read<3, 2>()));
      sum = d::add(sum, d::add(p.template read<4, -1>(), p.template read<4, 0>()));
      sum = d::multiply(sum, d::add(p.template read<6, -1>(), p.template read<6, 1>()));
      const Number slope =
          d::multiply(p.template read<5, 1>(), d::subtract(p.template read<8, 0>(), p.template read<7, 0>()));
      results[0] = d::multiply_add(p.scalar(1), d::add(sum, slope), p.template read<2, 0>());
      const Number place =
          d::divide(d::add(p.index(2), d::add(p.index(1), p.index(0))), d::add(p.extent(2), p.extent(0)));
      results[1] =
          d::multiply_add(p.scalar(0), d::multiply(p.template read<9, 0>(), place), p.template read<2, 0>());
    }
  };
  struct Second {
    using Number = Mix::Number;
    static constexpr const auto& fields = Mix::fields;
    [[maybe_unused]] static constexpr int dimensions = 3, columns = 4;
    static constexpr int row_count = 4, written_count = 1, reduced_count = 0;
    static constexpr int bounded_low[3] = {0, 1, 0}, bounded_high[3] = {0, 0, 2};
    static constexpr spider::ReadRow rows[row_count] = {
        {0, 0, 0, 0, 1}, {1, 0, 0, 0, 0}, {4, -2, 0, 0, 0}, {4, 0, 0, -3, 2}};
    static constexpr spider::WrittenField written[written_count] = {{1, false}};
    template <class P>
    SPIDER_DEVICE static void compute(const P& p, Number* results) {
      namespace d = spider::device;
      const Number beyond = p.template bounded<1, 0, -1, 2>(p.template read<3, 2>());
      const Number w = d::add(d::add(p.template read<3, -3>(), beyond), p.template read<2, 0>());
      results[0] = d::multiply_add(Number{0.5}, d::add(p.template read<1, 0>(), w),
                                   d::subtract(p.template read<0, 1>(), p.template read<0, 0>()));
    }
  };

  static constexpr spider::SystemSweep sweeps[] = {spider::system_sweep<First>(1),
                                                   spider::system_sweep<Second>(1)};
  static constexpr spider::SystemFacts system = {fields, sweeps};
  static constexpr spider::SweepForm forms[] = {spider::system_form<First>(), spider::system_form<Second>()};
  static constexpr const char* names[] = {"u", "c", "hx", "hy", "w"};
  static constexpr std::int32_t storages[] = {storage, SPIDER_F16, SPIDER_F32, SPIDER_F16, SPIDER_BF16};
  static constexpr std::int32_t uses[] = {15, 3, 1, 1, 3};
  static constexpr std::int32_t axes[] = {7, 7, 4, 2, 7};
  static constexpr const char* scalars[] = {"a", "b"};
  static constexpr spider_kernel kernel = spider::make_system_kernel(
      {"mix", "by hand", "", 3, SPIDER_F32, 80, {names, storages, uses, axes, 5, scalars, 2}}, forms, system);

  static State make(const Extents& extents) {
    State state{{}, {}, {0.5, 0.0625}};
    for (std::uint32_t i = 0; i < 5; ++i) {
      state.first.emplace_back(fields[i], extents).fill(7 * i + 1);
      state.second.emplace_back();
    }
    state.second[0] = Grid(fields[0], extents);
    state.second[0].fill(99);
    return state;
  }
  static void run(State& state, const Extents& extents, std::int64_t steps) {
    by_hand::run<First, Second>(state, extents, steps);
  }
};

using Plain = Mix<SPIDER_F32, FaceRule::halo, FaceRule::halo>;

}  // namespace mix

void expect_alike(const State& a, const State& b, const std::string& what) {
  for (std::size_t i = 0; i < a.first.size(); ++i) {
    for (const auto& [one, other] :
         {std::pair{&a.first[i], &b.first[i]}, std::pair{&a.second[i], &b.second[i]}}) {
      if (one->memory == other->memory) continue;
      std::int64_t count = 0;
      for (std::int64_t z = 0; z < one->extent[0]; ++z) {
        for (std::int64_t y = 0; y < one->extent[1]; ++y) {
          for (std::int64_t x = 0; x < one->extent[2]; ++x) {
            if (one->load(z, y, x) == other->load(z, y, x) || ++count > 3) continue;
            ADD_FAILURE() << what << ": field " << i << " at " << z << ", " << y << ", " << x << ": "
                          << one->load(z, y, x) << " instead of " << other->load(z, y, x);
          }
        }
      }
      if (count == 0) ADD_FAILURE() << what << ": field " << i << ": its halo was written";
    }
  }
}

void expect_ok(spider_status status) {
  ASSERT_EQ(status, SPIDER_OK) << spider_last_error();
}

TEST(System, KnowsItself) {
  const spider_kernel_info& info = *spider_info(&mix::Plain::kernel);
  EXPECT_EQ(info.launch_count, 2);
  EXPECT_EQ(info.steps, 1);
  EXPECT_EQ(info.accumulate, SPIDER_F32);
  const auto wide = mix::Mix<SPIDER_F64, FaceRule::halo, FaceRule::halo>::kernel;
  EXPECT_EQ(wide.info.accumulate, SPIDER_F64);
  const std::int32_t low[] = {2, 2, 3};
  const std::int32_t high[] = {2, 1, 3};
  for (int axis = 0; axis < 3; ++axis) {
    EXPECT_EQ(info.reach_low[axis], low[axis]);
    EXPECT_EQ(info.reach_high[axis], high[axis]);
  }
}

TEST(System, StepsWaves) {
  for (const Extents& extents :
       {Extents{1, 9, 13}, Extents{1, 1, 1}, Extents{1, 40, 700}, Extents{1, 3, 9000}}) {
    State found = waves::make(extents);
    State wanted = found;
    Call call(found);
    const spider_field* result = call.fields.data();
    expect_ok(spider_run_steps(&waves::kernel, &call.sweep, 5, &result));
    EXPECT_EQ(result, nullptr);
    run<waves::Sweep0, waves::Sweep1>(wanted, extents, 5);
    expect_alike(found, wanted, "waves");
  }
}

/// The equations once more, in doubles.
TEST(System, MeansTheEquations) {
  constexpr std::int64_t rows = 11;
  constexpr std::int64_t columns = 17;
  State state = waves::make({1, rows, columns});
  std::vector<double> p, u, v, k;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    for (const auto& [list, field] : {std::pair{&p, 0}, std::pair{&u, 1}, std::pair{&v, 2}, std::pair{&k, 3}})
      list->push_back(state.first[static_cast<std::size_t>(field)].load(0, i / columns, i % columns));
  }
  Call call(state);
  expect_ok(spider_run(&waves::kernel, &call.sweep));
  const auto at = [&](const std::vector<double>& list, std::int64_t y, std::int64_t x) {
    return y < 0 || x < 0 || y >= rows || x >= columns ? 0 : list[static_cast<std::size_t>(y * columns + x)];
  };
  const auto each = [&](std::vector<double>& list, const auto& value) {
    for (std::int64_t i = 0; i < rows * columns; ++i)
      list[static_cast<std::size_t>(i)] = value(i / columns, i % columns);
  };
  each(u, [&](auto y, auto x) { return at(u, y, x) - 0.25 * (at(p, y, x + 1) - at(p, y, x)); });
  each(v, [&](auto y, auto x) { return at(v, y, x) - 0.25 * (at(p, y + 1, x) - at(p, y, x)); });
  each(p, [&](auto y, auto x) {
    return at(p, y, x) - 0.25 * at(k, y, x) * (at(u, y, x) - at(u, y, x - 1) + at(v, y, x) - at(v, y - 1, x));
  });
  for (std::int64_t i = 0; i < rows * columns; ++i)
    EXPECT_NEAR(state.first[0].load(0, i / columns, i % columns), p[static_cast<std::size_t>(i)], 1e-6);
}

template <class Mix>
void expect_steps(const std::string& what) {
  for (const Extents& extents : {Extents{5, 6, 37}, Extents{4, 3, 300}, Extents{1, 2, 3}, Extents{1, 1, 1}}) {
    for (const std::int64_t steps : {0, 1, 2, 3}) {
      State found = Mix::make(extents);
      State wanted = found;
      Call call(found);
      expect_ok(spider_run_steps(&Mix::kernel, &call.sweep, steps, nullptr));
      Mix::run(wanted, extents, steps);
      expect_alike(
          found, wanted,
          what + ", " + std::to_string(extents[2]) + " columns, " + std::to_string(steps) + " steps");
    }
  }
}

TEST(System, ObeysRules) {
  using mix::Mix;
  expect_steps<Mix<SPIDER_F32, FaceRule::halo, FaceRule::halo>>("halo");
  expect_steps<Mix<SPIDER_F32, FaceRule::periodic, FaceRule::periodic>>("periodic");
  expect_steps<Mix<SPIDER_F32, FaceRule::constant, FaceRule::antisymmetric>>("constant, antisymmetric");
  expect_steps<Mix<SPIDER_F32, FaceRule::antisymmetric, FaceRule::halo>>("antisymmetric, halo");
  expect_steps<Mix<SPIDER_F32, FaceRule::reflect, FaceRule::mirror>>("reflect, mirror");
  expect_steps<Mix<SPIDER_F32, FaceRule::nearest, FaceRule::constant>>("nearest, constant");
}

TEST(System, TakesStorages) {
  using mix::Mix;
  expect_steps<Mix<SPIDER_F64, FaceRule::mirror, FaceRule::antisymmetric>>("f64");
  expect_steps<Mix<SPIDER_F64, FaceRule::periodic, FaceRule::periodic>>("f64, periodic");
  expect_steps<Mix<SPIDER_F16, FaceRule::reflect, FaceRule::constant>>("f16");
  expect_steps<Mix<SPIDER_BF16, FaceRule::constant, FaceRule::halo>>("bf16");
}

/// Launch by launch, box by box.
TEST(System, RunsBoxesOfLaunches) {
  using Mix = mix::Mix<SPIDER_F32, FaceRule::reflect, FaceRule::constant>;
  const Extents extents{6, 7, 300};
  State found = Mix::make(extents);
  State wanted = found;
  Mix::run(wanted, extents, 1);
  Call call(found);
  for (std::int32_t launch = 0; launch < 2; ++launch) {
    call.sweep.first_launch = launch;
    call.sweep.launch_count = 1;
    for (const std::int64_t z : {0, 3}) {
      for (const std::int64_t x : {0, 1, 5, 290}) {
        const std::int64_t end = x == 0 ? 1 : x == 1 ? 5 : x == 5 ? 290 : 300;
        const std::int64_t box[2][3] = {{z, 0, x}, {3, 7, end - x}};
        std::copy_n(box[0], 3, call.sweep.offset);
        std::copy_n(box[1], 3, call.sweep.extent);
        expect_ok(spider_run(&Mix::kernel, &call.sweep));
      }
    }
  }
  expect_alike(found, wanted, "boxes");
}

/// A whole in four parts in one array, whose halos are the neighbours' cells.
template <class Mix>
void expect_parts(const std::string& what, int low_axis, int high_axis) {
  const Extents extents{6, 9, 40};
  State found = Mix::make(extents);
  State wanted = found;
  Mix::run(wanted, extents, 1);
  for (std::int32_t launch = 0; launch < 2; ++launch) {
    for (int i = 0; i < 4; ++i) {
      Extents origin{0, 0, 0};
      Extents own = extents;
      for (const auto& [axis, side] : {std::pair{low_axis, i % 2}, std::pair{high_axis, i / 2}}) {
        const auto a = static_cast<std::size_t>(axis);
        own[a] = side == 0 ? extents[a] / 2 : extents[a] - extents[a] / 2;
        origin[a] = side == 0 ? 0 : extents[a] / 2;
      }
      Call call(found, origin, own);
      spider_part part{};
      std::copy(origin.begin(), origin.end(), part.origin);
      std::copy(extents.begin(), extents.end(), part.whole);
      call.sweep.part = &part;
      call.sweep.first_launch = launch;
      call.sweep.launch_count = 1;
      expect_ok(spider_run(&Mix::kernel, &call.sweep));
    }
  }
  expect_alike(found, wanted, what);
}

TEST(System, RunsParts) {
  expect_parts<mix::Mix<SPIDER_F32, FaceRule::reflect, FaceRule::constant>>("parts along z and y", 0, 1);
  expect_parts<mix::Mix<SPIDER_F32, FaceRule::halo, FaceRule::antisymmetric>>("parts along y and x", 1, 2);
  expect_parts<mix::Mix<SPIDER_F64, FaceRule::nearest, FaceRule::mirror>>("parts along z and x", 0, 2);
}

/// Reads p around a point on a ring.
namespace ring {

constexpr bool axes[] = {false, false, true};
constexpr spider::SystemField fields[] = {
    on_all_faces(SPIDER_F32, axes, {FaceRule::periodic, 0}, {FaceRule::periodic, 0}),
    on_all_faces(SPIDER_F32, axes, {FaceRule::halo, 0}, {FaceRule::halo, 0})};
struct Sweep0 {
  using Number = float;
  static constexpr const auto& fields = ring::fields;
  [[maybe_unused]] static constexpr int dimensions = 1, columns = 4;
  static constexpr int row_count = 2, written_count = 1, reduced_count = 0;
  static constexpr int bounded_low[3] = {0, 0, 0}, bounded_high[3] = {0, 0, 0};
  static constexpr spider::ReadRow rows[row_count] = {{0, 0, 0, -2, 1}, {1, 0, 0, 0, 0}};
  static constexpr spider::WrittenField written[written_count] = {{0, true}};
  template <class P>
  SPIDER_DEVICE static void compute(const P& p, Number* results) {
    results[0] =
        spider::device::add(spider::device::subtract(p.template read<0, 1>(), p.template read<0, -2>()),
                            spider::device::multiply(p.template read<1, 0>(), p.index(2)));
  }
};
constexpr spider::SystemSweep sweeps[] = {spider::system_sweep<Sweep0>(1)};
constexpr spider::SystemFacts system = {fields, sweeps};
constexpr spider::SweepForm forms[] = {spider::system_form<Sweep0>()};
constexpr const char* names[] = {"p", "k"};
constexpr std::int32_t storages[] = {SPIDER_F32, SPIDER_F32};
constexpr std::int32_t uses[] = {15, 1};
constexpr std::int32_t axes_of[] = {4, 4};
constexpr spider_kernel kernel = spider::make_system_kernel(
    {"ring", "by hand", "", 1, SPIDER_F32, 80, {names, storages, uses, axes_of, 2, nullptr, 0}}, forms,
    system);

State make(const Extents& extents) {
  State state{{}, {}, {}};
  for (std::uint32_t i = 0; i < 2; ++i) state.first.emplace_back(fields[i], extents).fill(i + 1);
  state.second.emplace_back(fields[0], extents).fill(3);
  state.second.emplace_back();
  return state;
}

}  // namespace ring

TEST(System, RunsPartsOfARing) {
  const Extents extents{1, 1, 21};
  State found = ring::make(extents);
  for (std::int64_t x : {-2, -1}) found.first[0].store(0, 0, x, found.first[0].load(0, 0, x + 21));
  found.first[0].store(0, 0, 21, found.first[0].load(0, 0, 0));
  State wanted = found;
  run<ring::Sweep0>(wanted, extents, 1);
  spider_part part{{0, 0, 0}, {1, 1, 21}};
  for (const std::int64_t origin : {0, 8}) {
    Call call(found, {0, 0, origin}, {1, 1, origin == 0 ? 8 : 13});
    part.origin[2] = origin;
    call.sweep.part = &part;
    expect_ok(spider_run_steps(&ring::kernel, &call.sweep, 1, nullptr));
    std::int64_t low[3];
    std::int64_t high[3];
    expect_ok(spider_halo_of_part(&ring::kernel, call.fields[0].extent, &part, low, high));
    EXPECT_EQ(low[2], 2);
    EXPECT_EQ(high[2], 1);
  }
  expect_alike(found, wanted, "a ring");
}

TEST(System, TellsHalo) {
  const std::int64_t extent[3] = {8, 8, 8};
  std::int64_t low[3];
  std::int64_t high[3];
  using Mix = mix::Mix<SPIDER_F32, FaceRule::constant, FaceRule::halo>;
  expect_ok(spider_halo(&Mix::kernel, extent, low, high));
  EXPECT_EQ((Extents{low[0], low[1], low[2]}), (Extents{0, 1, 0}));  // c's along y
  EXPECT_EQ((Extents{high[0], high[1], high[2]}), (Extents{2, 1, 3}));
  expect_ok(spider_halo_of_fields(&Mix::kernel, extent, low, high));
  EXPECT_EQ(high[2], 3);
  const spider_part part{{0, 8, 8}, {8, 24, 24}};
  expect_ok(spider_halo_of_part(&Mix::kernel, extent, &part, low, high));
  EXPECT_EQ((Extents{low[0], low[1], low[2]}), (Extents{0, 2, 3}));
  const std::int64_t flat[3] = {1, 8, 8};
  expect_ok(spider_halo(&waves::kernel, flat, low, high));
  EXPECT_EQ((Extents{low[0], low[1], low[2]}), (Extents{0, 0, 0}));
  EXPECT_EQ(spider_halo(&waves::kernel, extent, low, high), SPIDER_ERROR_EXTENT);
}

TEST(System, TellsHaloOfAField) {
  using Mix = mix::Mix<SPIDER_F32, FaceRule::constant, FaceRule::halo>;
  const std::int64_t extent[3] = {8, 8, 8};
  std::int64_t low[3];
  std::int64_t high[3];
  expect_ok(spider_halo_of_field(&Mix::kernel, 0, extent, nullptr, low, high));
  EXPECT_EQ((Extents{low[0], low[1], low[2]}), (Extents{0, 0, 0}));
  EXPECT_EQ((Extents{high[0], high[1], high[2]}), (Extents{2, 1, 3}));
  expect_ok(spider_halo_of_field(&Mix::kernel, 2, extent, nullptr, low, high));  // along x alone
  EXPECT_EQ((Extents{high[0], high[1], high[2]}), (Extents{0, 0, 1}));
  const spider_part part{{0, 8, 8}, {8, 24, 24}};
  expect_ok(spider_halo_of_field(&Mix::kernel, 3, extent, &part, low, high));
  EXPECT_EQ((Extents{low[0], low[1], low[2]}), (Extents{0, 1, 0}));
  EXPECT_EQ(spider_halo_of_field(&Mix::kernel, 5, extent, nullptr, low, high), SPIDER_ERROR_UNSUPPORTED);
}

TEST(System, HasPoints) {
  State state = mix::Plain::make({4, 5, 6});
  const std::int64_t cells[] = {0, 0, 4, 0, 0, 0};
  const std::int64_t extent[3] = {1, 1, 6};
  spider_points* points = nullptr;
  EXPECT_EQ(spider_points_create(&mix::Plain::kernel, extent, cells, 2, &points), SPIDER_ERROR_UNSUPPORTED);
  const std::int64_t all[3] = {4, 5, 6};
  EXPECT_EQ(spider_points_create_of_field(&mix::Plain::kernel, 2, all, cells, 2, &points),
            SPIDER_ERROR_EXTENT);
  for (const std::int32_t field : {1, 2, 4}) {  // f16, f32, bf16
    Grid& grid = state.first[static_cast<std::size_t>(field)];
    const std::int64_t* shape = grid.extent.data();
    expect_ok(spider_points_create_of_field(&mix::Plain::kernel, field, shape, cells, 2, &points));
    const float before[] = {static_cast<float>(grid.load(0, 0, 4)), static_cast<float>(grid.load(0, 0, 0))};
    const float added[] = {0.5F, -0.25F};
    const spider_field c_field = grid.field();
    float found[2];
    expect_ok(spider_points_add(points, &c_field, added, nullptr));
    expect_ok(spider_points_read(points, &c_field, found, nullptr));
    for (int i = 0; i < 2; ++i) EXPECT_NEAR(found[i], before[i] + added[i], 0.01F) << field;
    expect_ok(spider_points_free(points));
  }
}

TEST(System, HasAnOwner) {
  const Extents extents{4, 5, 6};
  State wanted = mix::Plain::make(extents);
  const auto of = [&](const char* name) {
    return spider::Halo::of_field(&mix::Plain::kernel, name, extents);
  };
  spider::Field<float> u(extents, of("u"));
  spider::Field<float> second(extents, of("u"));
  spider::Field<spider::half> c(extents, of("c"));
  spider::Field<float> hx(Extents{1, 1, 6}, of("hx"));
  spider::Field<spider::half> hy(Extents{1, 5, 1}, of("hy"));
  spider::Field<std::uint16_t> w(extents, of("w"));
  spider::System system(&mix::Plain::kernel);
  EXPECT_THROW(system.field("q", u), spider::Error);
  EXPECT_THROW(system.field("u", hy, hy), spider::Error);
  EXPECT_THROW(system.field("w", std::as_const(w)), spider::Error);
  spider::Field<float> bare(extents);
  EXPECT_THROW(system.field("u", bare, second), spider::Error);
  system.field("u", u, second).field("c", c).field("hx", std::as_const(hx)).field("hy", hy).field("w", w);
  system.scalar("a", 0.5);
  EXPECT_THROW(system.run(), spider::Error);
  system.scalar("b", 0.0625);
  const auto fill = [](const spider_field& to, const Grid& from) {
    // Rows with their halo of 8, as far as the field keeps it.
    for (std::int64_t z = 0; z < from.extent[0]; ++z) {
      for (std::int64_t y = 0; y < from.extent[1]; ++y)
        std::memcpy(static_cast<std::byte*>(to.data) + (z * to.stride[0] + y * to.stride[1]) * from.bytes(),
                    from.memory.data() + from.place(z, y, 0),
                    static_cast<std::size_t>(from.extent[2] * from.bytes()));
    }
  };
  const spider_field* fields[] = {&u.c_field(), &c.c_field(), &hx.c_field(), &hy.c_field(), &w.c_field()};
  const auto clear_halo = [](Grid& grid) {
    const Grid kept = grid;
    std::fill(grid.memory.begin(), grid.memory.end(), std::byte{});
    for (std::int64_t z = 0; z < kept.extent[0]; ++z) {
      for (std::int64_t y = 0; y < kept.extent[1]; ++y) {
        for (std::int64_t x = 0; x < kept.extent[2]; ++x) grid.store(z, y, x, kept.load(z, y, x));
      }
    }
  };
  for (std::size_t i = 0; i < 5; ++i) {
    clear_halo(wanted.first[i]);
    fill(*fields[i], wanted.first[i]);
  }
  clear_halo(wanted.second[0]);
  mix::Plain::run(wanted, extents, 4);
  system.run();
  system.run_steps(2);
  for (const std::int32_t launch : {0, 1}) system.run_launch(launch);
  system.end_launches();
  const std::vector<float> found = u.download();
  for (std::int64_t i = 0; i < u.size(); ++i)
    EXPECT_EQ(found[static_cast<std::size_t>(i)], wanted.first[0].load(i / 30, i / 6 % 5, i % 6));
  const spider::Points points(&mix::Plain::kernel, "c", extents, {{1, 2, 3}});
  spider::Field<float> values(1, 1);
  EXPECT_EQ(points.read(c, values).download()[0], wanted.first[1].load(1, 2, 3));
  EXPECT_THROW(spider::Points(&mix::Plain::kernel, extents, {{1, 2, 3}}), spider::Error);
}

/// A call of the mixed system that one thing is wrong with.
class Refusals : public testing::Test {
 protected:
  State state_ = mix::Plain::make({4, 5, 6});
  Call call_{state_};

  void expect(spider_status status, const std::string& words) {
    const State before = state_;
    EXPECT_EQ(spider_run(&mix::Plain::kernel, &call_.sweep), status) << words;
    EXPECT_NE(std::string(spider_last_error()).find(words), std::string::npos) << spider_last_error();
    expect_alike(state_, before, words);
  }
};

TEST_F(Refusals, OfPointers) {
  call_.sweep.in = call_.fields.data();
  expect(SPIDER_ERROR_UNSUPPORTED, "in, out, previous and out_previous must be null");
  call_.sweep.in = nullptr;
  call_.sweep.out_previous = call_.fields.data();
  expect(SPIDER_ERROR_UNSUPPORTED, "in, out, previous and out_previous must be null");
  call_.sweep.out_previous = nullptr;
  call_.field_pointers[2] = nullptr;
  expect(SPIDER_ERROR_NULL, "takes the field hx, which is null");
  call_.field_pointers[2] = &call_.fields[2];
  call_.output_pointers[0] = nullptr;
  expect(SPIDER_ERROR_NULL, "writes the output of u, which is null");
  call_.sweep.outputs = nullptr;
  expect(SPIDER_ERROR_NULL, "writes the output of u, which is null");
  call_.sweep.outputs = call_.output_pointers.data();
  call_.output_pointers[0] = call_.second.data();
  call_.output_pointers[1] = call_.second.data();
  expect(SPIDER_ERROR_UNSUPPORTED, "writes the field c in place, or not at all");
  call_.output_pointers[1] = nullptr;
  call_.sweep.scalars = nullptr;
  expect(SPIDER_ERROR_NULL, "takes 2 scalars");
  call_.sweep.scalars = state_.scalars.data();
  call_.sweep.fields = nullptr;
  expect(SPIDER_ERROR_NULL, "takes 5 fields");
}

TEST_F(Refusals, OfExtentsAndStrides) {
  call_.fields[1].extent[1] = 4;
  expect(SPIDER_ERROR_EXTENT, "the field c has extent 4 on axis y; other fields have 5");
  call_.fields[1].extent[1] = 5;
  call_.fields[2].extent[1] = 5;
  expect(SPIDER_ERROR_EXTENT, "the field hx has extent 5 on axis y, along which it has no cells");
  call_.fields[2].extent[1] = 1;
  call_.second[0].extent[0] = 3;
  expect(SPIDER_ERROR_EXTENT, "the output of u has extent 3 on axis z");
  call_.second[0].extent[0] = 4;
  call_.fields[0].stride[1] = 10;  // 6 and a halo of 2 and 3
  expect(SPIDER_ERROR_STRIDE, "the field u has 10 elements from row to row");
  call_.fields[0].stride[1] = state_.first[0].stride[1];
  void* const data = call_.fields[4].data;
  call_.fields[4].data = nullptr;
  expect(SPIDER_ERROR_NULL, "the field w has no data");
  call_.fields[4].data = static_cast<std::byte*>(data) + 1;
  expect(SPIDER_ERROR_ALIGNMENT, "the field w does not start on a multiple of its element size");
  call_.fields[4].data = data;
  call_.fields[2].stride[0] = call_.fields[2].stride[1] = -7;  // which it has no use for
  expect_ok(spider_run(&mix::Plain::kernel, &call_.sweep));
}

TEST_F(Refusals, OfOverlaps) {
  void* const data = call_.second[0].data;
  call_.second[0].data = static_cast<std::byte*>(call_.fields[0].data) - 4 * state_.first[0].stride[0];
  expect(SPIDER_ERROR_OVERLAP, "the field u and the output of u");
  call_.second[0].data = data;
  void* const own = call_.fields[1].data;
  call_.fields[1].data = call_.fields[4].data;  // both are written
  expect(SPIDER_ERROR_OVERLAP, "the field c and the field w");
  call_.fields[1].data = own;
}

TEST_F(Refusals, OfLaunchesAndBoxes) {
  call_.sweep.first_launch = 1;
  expect(SPIDER_ERROR_EXTENT, "has 2 launches; it cannot run 0 from launch 1 on");
  call_.sweep.launch_count = 2;
  expect(SPIDER_ERROR_EXTENT, "it cannot run 2 from launch 1 on");
  call_.sweep.first_launch = -1;
  expect(SPIDER_ERROR_EXTENT, "from launch -1 on");
  call_.sweep.first_launch = call_.sweep.launch_count = 0;
  std::fill_n(call_.sweep.extent, 3, 2);
  expect(SPIDER_ERROR_UNSUPPORTED, "run them one by one, with first_launch and launch_count 1");
  call_.sweep.launch_count = 1;
  call_.sweep.offset[1] = 4;
  expect(SPIDER_ERROR_EXTENT, "the box has offset 4 and extent 2 on axis y");
  call_.sweep.offset[1] = 0;
  EXPECT_EQ(spider_run_steps(&mix::Plain::kernel, &call_.sweep, 2, nullptr), SPIDER_ERROR_STEPS);
  EXPECT_EQ(spider_run_steps(&mix::Plain::kernel, &call_.sweep, -1, nullptr), SPIDER_ERROR_STEPS);
  std::fill_n(call_.sweep.extent, 3, 0);
  const spider_part part{{0, 0, 0}, {4, 6, 6}};
  call_.sweep.part = &part;
  call_.sweep.launch_count = 0;
  expect(SPIDER_ERROR_UNSUPPORTED, "run them one by one");
  const spider_part outside{{0, 2, 0}, {4, 6, 6}};
  call_.sweep.part = &outside;
  expect(SPIDER_ERROR_EXTENT, "the part has origin 2 and extent 5 on axis y");
}

TEST_F(Refusals, OfOtherCalls) {
  EXPECT_EQ(spider_apply(&mix::Plain::kernel, call_.fields.data(), call_.second.data(), nullptr),
            SPIDER_ERROR_UNSUPPORTED);
  EXPECT_EQ(
      spider_iterate(&mix::Plain::kernel, call_.fields.data(), call_.second.data(), 2, nullptr, nullptr),
      SPIDER_ERROR_UNSUPPORTED);
}

TEST(System, TakesNoCellsAndSharedReads) {
  State state = waves::make({1, 0, 5});
  Call call(state);
  for (spider_field& field : call.fields) field.data = nullptr;
  expect_ok(spider_run(&waves::kernel, &call.sweep));
  expect_ok(spider_run_steps(&waves::kernel, &call.sweep, 3, nullptr));
  // hx and hy may share memory with each other, not with what is written.
  State mixed = mix::Plain::make({4, 5, 6});
  Call shared(mixed);
  shared.fields[3].data = shared.fields[2].data;
  expect_ok(spider_run(&mix::Plain::kernel, &shared.sweep));
  shared.fields[3].data = shared.fields[4].data;
  EXPECT_EQ(spider_run(&mix::Plain::kernel, &shared.sweep), SPIDER_ERROR_OVERLAP);
}

}  // namespace
