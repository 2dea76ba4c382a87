// Smooths a field by way of a library, carries it along by a second kernel, takes means in f32 and in bf16,
// lets a membrane swing that a source pushes, steps a system until it settles, and compares with what must
// come out.
#include <fast_upwind.h>
#include <filters.h>
#include <membrane.h>
#include <settle.h>
#include <smooth.h>
#include <swing.h>
#include <tilt.h>
#include <tint.h>
#include <upwind.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <spider/spider.hpp>
#include <string>
#include <utility>
#include <vector>

namespace {

using spider::half;

/// The smoothing keeps linear functions away from the faces, and constants everywhere.
int wrong_after_smoothing(int rows, int columns) {
  std::vector<half> image;
  for (int i = 0; i < rows * columns; ++i) {
    image.push_back(half(i / columns + 2 * (i % columns)));
  }
  const std::vector<half> result = smoothed(image, rows, columns, 2);
  int wrong = 0;
  for (int y = 4; y < rows - 4; ++y) {
    for (int x = 4; x < columns - 4; ++x) {
      wrong += result[y * columns + x] == image[y * columns + x] ? 0 : 1;
    }
  }
  for (const half value : smoothed(std::vector<half>(rows * columns, half(3)), rows, columns, 3)) {
    wrong += value == 3.0F ? 0 : 1;
  }
  return wrong;
}

/// out = (1 - c) in(x) + c in(x - 1), the halo left of the field being 8.
int wrong_after_advection(const spider_kernel* kernel, float c, int rows, int columns) {
  spider::Field<half> in(rows, columns, spider::Halo::of(kernel));
  spider::Field<half> out(rows, columns);
  const int pitch = columns + 1;
  std::vector<half> padded;
  for (int i = 0; i < rows * pitch; ++i) {
    padded.push_back(half(i % pitch == 0 ? 8 : (i * 5) % 64));
  }
  in.upload_with_halo(padded);
  spider::apply(kernel, in, out);
  spider::synchronize();
  const std::vector<half> result = out.download();
  int wrong = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const float expected = (1 - c) * padded[y * pitch + x + 1] + c * padded[y * pitch + x];
      wrong += result[y * columns + x] == expected ? 0 : 1;
    }
  }
  return wrong;
}

/// A sweep in boxes gives the bits of a whole one. They may be of any size and in any order; a code with
/// neighbours computes its rim first, sends it, and then does the rest.
int wrong_in_boxes(int rows, int columns) {
  std::vector<half> image;
  for (int i = 0; i < rows * columns; ++i) image.push_back(half((i * 37) % 101));
  spider::Field<half> in(rows, columns, spider::Halo::of(smooth_kernel()));
  in.upload(image);
  spider::Field<half> whole(rows, columns);
  spider::Field<half> boxes(rows, columns);
  spider::apply(smooth_kernel(), in, whole);

  const int rim = 3;
  const auto sweep = [&](spider::Extents offset, spider::Extents extent) {
    spider::apply_box(smooth_kernel(), in, boxes, offset, extent);
  };
  sweep({0, 0, 0}, {1, rim, columns});  // z, y, x
  sweep({0, rows - rim, 0}, {1, rim, columns});
  sweep({0, rim, 0}, {1, rows - 2 * rim, rim});
  sweep({0, rim, columns - rim}, {1, rows - 2 * rim, rim});
  sweep({0, rim, rim}, {1, rows - 2 * rim, columns - 2 * rim});
  spider::synchronize();

  const std::vector<half> expected = whole.download();
  const std::vector<half> result = boxes.download();
  int wrong = 0;
  for (int i = 0; i < rows * columns; ++i) wrong += result[i].bits() == expected[i].bits() ? 0 : 1;
  return wrong;
}

float value_of(float stored) {
  return stored;
}

/// bf16 is the upper half of f32.
float value_of(std::uint16_t stored) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
}

float store_as(float value, float /*type*/) {
  return value;
}

std::uint16_t store_as(float value, std::uint16_t /*type*/) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

struct Star {
  double center, up, down, left, right;
};

/// A field of T, whose cells T holds exactly, against plain loops: wrong is what is further off than a part
/// of the result.
template <typename T>
int wrong_means(const spider_kernel* kernel, const Star& star, float unit, double part) {
  const int rows = 23;
  const int columns = 141;
  std::vector<T> cells;
  for (int i = 0; i < rows * columns; ++i)
    cells.push_back(store_as(unit * static_cast<float>(1 + i * 37 % 101), T()));
  spider::Field<T> in(rows, columns);
  spider::Field<T> out(rows, columns);
  in.upload(cells);
  spider::apply(kernel, in, out);
  const std::vector<T> result = out.download();
  const auto at = [&](int y, int x) -> double {
    return value_of(cells[std::clamp(y, 0, rows - 1) * columns + std::clamp(x, 0, columns - 1)]);
  };
  int wrong = 0;
  for (int y = 0; y < rows; ++y) {
    for (int x = 0; x < columns; ++x) {
      const double expected = star.center * at(y, x) + star.up * at(y - 1, x) + star.down * at(y + 1, x) +
                              star.left * at(y, x - 1) + star.right * at(y, x + 1);
      wrong += std::fabs(value_of(result[y * columns + x]) - expected) <= part * expected ? 0 : 1;
    }
  }
  return wrong;
}

/// swing.yaml as loops. All numbers are small multiples of 2^-8, which f32 holds exactly.
struct Membrane {
  int rows;
  int columns;
  std::vector<float> u, before, stiffness;

  void step(float push) {
    std::vector<float> next(u.size());
    for (int y = 0; y < rows; ++y) {
      for (int x = 0; x < columns; ++x) {
        const auto at = [&](int dy, int dx) {
          return u[std::clamp(y + dy, 0, rows - 1) * columns + (x + dx + columns) % columns];
        };
        const int i = y * columns + x;
        const float sum = at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - 4 * u[i];
        next[i] = 2 * u[i] - before[i] + stiffness[i] * sum + push;
      }
    }
    before = std::exchange(u, next);
  }
};

Membrane make_membrane(int rows, int columns) {
  Membrane membrane{rows, columns, {}, std::vector<float>(rows * columns), {}};
  for (int i = 0; i < rows * columns; ++i) {
    membrane.u.push_back(static_cast<float>((i * 37) % 17));
    membrane.stiffness.push_back(i % 3 == 0 ? 0.5F : 0.25F);
  }
  return membrane;
}

/// A membrane's fields on the device.
struct Fields {
  spider::Field<float> u, before, out;
  spider::Field<half> stiffness;
  spider::Update update;

  explicit Fields(const Membrane& m, const spider_kernel* kernel = swing_kernel())
      : u(m.rows, m.columns),
        before(m.rows, m.columns),
        out(m.rows, m.columns),
        stiffness(m.rows, m.columns),
        update(kernel) {
    u.upload(m.u);
    before.upload(m.before);
    std::vector<half> values;
    for (const float value : m.stiffness) values.push_back(half(value));
    stiffness.upload(values);
    update.field("stiffness", stiffness).scalar("push", 2);
  }
};

int differences(const spider::Field<float>& field, const std::vector<float>& expected) {
  spider::synchronize();
  const std::vector<float> values = field.download();
  int wrong = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) wrong += values[i] == expected[i] ? 0 : 1;
  return wrong;
}

/// Time steps on three fields and on two end in `u` and `before`, however many.
int wrong_in_steps(int rows, int columns) {
  int wrong = 0;
  Membrane expected = make_membrane(rows, columns);
  for (int steps = 0; steps < 5; ++steps) {
    Fields three(make_membrane(rows, columns));
    three.update.run_steps(three.u, three.before, three.out, steps);
    Fields two(make_membrane(rows, columns));
    two.update.run_steps(two.u, two.before, two.before, steps);
    for (const Fields* fields : {&three, &two})
      wrong += differences(fields->u, expected.u) + differences(fields->before, expected.before);
    expected.step(2);
  }
  return wrong;
}

/// The same of sweeps of three steps, on four fields, and of one such sweep.
int wrong_in_pairs(int rows, int columns) {
  int wrong = 0;
  Membrane expected = make_membrane(rows, columns);
  for (int steps = 0; steps < 9; ++steps) {
    Fields fields(make_membrane(rows, columns), membrane_kernel());
    spider::Field<float> out_before(rows, columns);
    fields.update.run_steps(fields.u, fields.before, fields.out, out_before, steps);
    wrong += differences(fields.u, expected.u) + differences(fields.before, expected.before);
    if (steps == 3) {
      Fields one(make_membrane(rows, columns), membrane_kernel());
      one.update.run(one.u, one.out, one.before, out_before);
      wrong += differences(one.out, expected.u) + differences(out_before, expected.before);
    }
    expected.step(2);
  }
  return wrong;
}

/// A source of two values in one cell, and receivers along a row.
int wrong_at_points(int rows, int columns) {
  constexpr int steps = 4;
  Membrane expected = make_membrane(rows, columns);
  Fields fields(expected);
  const spider::Points source(swing_kernel(), fields.u.extents(), {{0, 3, 5}, {0, 3, 5}});
  std::vector<spider::Extents> row;
  for (int x = 0; x < columns; ++x) row.push_back({0, 2, x});
  const spider::Points line(swing_kernel(), fields.u.extents(), row);
  spider::Field<float> signal(steps, source.size());
  signal.upload({1, 0.5F, 2, 0.5F, 3, 0.5F, 4, 0.5F});
  spider::Field<float> trace(steps, line.size());
  std::vector<float> seen;
  for (int step = 0; step < steps; ++step) {
    fields.update.run_steps(fields.u, fields.before, fields.before, 1);
    source.add(fields.u, signal, step);
    line.read(fields.u, trace, step);
    expected.step(2);
    expected.u[3 * columns + 5] += static_cast<float>(step) + 1.5F;
    seen.insert(seen.end(), &expected.u[2 * columns], &expected.u[3 * columns]);
  }
  return differences(fields.u, expected.u) + differences(trace, seen);
}

/// The lower rows as a part of the whole: its halo above is the whole's, and of it a box is written.
int wrong_in_a_part(int rows, int columns) {
  Membrane m = make_membrane(rows, columns);
  const int first = rows / 3;
  const auto below = [&](const std::vector<float>& whole, int row) {
    return std::vector<float>(whole.begin() + row * columns, whole.end());
  };
  Fields fields(
      {rows - first, columns, below(m.u, first), below(m.before, first), below(m.stiffness, first)});
  spider::Field<float> in(rows - first, columns, {{0, 1, 0}, {0, 0, 0}});
  in.upload_with_halo(below(m.u, first - 1));
  m.step(2);
  spider::Launch launch;
  launch.part = spider_part{{0, first, 0}, {1, rows, columns}};
  fields.update.run(in, fields.out, fields.before, launch);
  int wrong = differences(fields.out, below(m.u, first));
  fields.out.clear();
  launch.offset = {0, 2, 0};
  launch.extent = {1, 1, columns};
  fields.update.run(in, fields.out, fields.before, launch);
  std::vector<float> box((rows - first) * columns);
  std::copy_n(&m.u[(first + 2) * columns], columns, &box[2 * columns]);
  wrong += differences(fields.out, box);
  return wrong;
}

/// What does not fit is an Error that says so.
template <class Call>
int not_refused(spider_status status, const std::string& words, const Call& call) {
  try {
    call();
  } catch (const spider::Error& error) {
    if (error.status() == status && std::string(error.what()).find(words) != std::string::npos) return 0;
    std::fprintf(stderr, "refused otherwise: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "not refused: %s\n", words.c_str());
  return 1;
}

/// Numbers of all points of a system: a sum that is exact, and steps until changes are small.
int wrong_reductions(int rows, int columns) {
  std::vector<float> u(rows * columns);
  for (int i = 0; i < rows * columns; ++i) u[i] = static_cast<float>(i * 37 % 101);
  spider::Field<float> first(rows, columns);
  spider::Field<float> second(rows, columns);
  spider::System settle(settle_kernel());
  settle.field("u", first, second).scalar("share", 0.5);
  const spider::Reductions reductions(settle_kernel());
  spider::Launch launch;
  launch.reductions = &reductions;
  std::vector<float> large = u;
  large.front() = 0x1p100F;
  large.back() = -0x1p100F;
  first.upload(large);
  settle.run(launch);
  double mass = 0;
  for (int i = 1; i < rows * columns - 1; ++i) mass += u[i];
  int wrong = reductions.read().at("mass") == mass ? 0 : 1;

  double change = 0;
  std::int64_t steps = 0;
  std::vector<float> expected = u;
  do {
    change = 0;
    for (int y = 0; y < rows; ++y) {
      float* row = &expected[y * columns];
      const float before = row[0];
      for (int x = 0; x < columns; ++x) {
        const float next = row[x] + 0.5F * ((x + 1 < columns ? row[x + 1] : before) - row[x]);
        change = std::max(change, std::fabs(static_cast<double>(next - row[x])));
        row[x] = next;
      }
    }
    ++steps;
  } while (change > 9 || steps % 3 != 0);
  first.upload(u);
  const spider::Stop stop = settle.run_until(1000, "change", 9, 3, launch);
  wrong += differences(first, expected);
  wrong += stop.steps == steps && stop.numbers.at("change") == change ? 0 : 1;
  const spider::Stop last = settle.run_until(4, "change", -1);
  return wrong + (last.steps == 4 ? 0 : 1) +
         not_refused(SPIDER_ERROR_UNSUPPORTED, "has no reduction speed; it has change, mass",
                     [&] { (void)settle.run_until(9, "speed", 1); }) +
         not_refused(SPIDER_ERROR_STEPS, "every 0 steps; give 1 or more",
                     [&] { (void)settle.run_until(9, "mass", 1, 0); }) +
         not_refused(SPIDER_ERROR_UNSUPPORTED, "has no reductions",
                     [] { (void)spider::Reductions{swing_kernel()}; });
}

int wrong_refusals() {
  Fields f(make_membrane(9, 20));
  const spider::Update none(swing_kernel());
  spider::Update some(swing_kernel());
  some.scalar("push", 1);
  const spider::Points points(swing_kernel(), f.u.extents(), {{0, 1, 1}, {0, 2, 2}});
  spider::Field<float> values(3, 2);
  return not_refused(SPIDER_ERROR_UNSUPPORTED, "has no field stiff; it has stiffness",
                     [&] { some.field("stiff", f.stiffness); }) +
         not_refused(SPIDER_ERROR_UNSUPPORTED, "stores another type in stiffness",
                     [&] { some.field("stiffness", f.u); }) +
         not_refused(SPIDER_ERROR_UNSUPPORTED, "has no scalar pull; it has push",
                     [&] { some.scalar("pull", 1); }) +
         not_refused(SPIDER_ERROR_NULL, "takes the scalar push, which is not given",
                     [&] { none.run(f.u, f.out, f.before); }) +
         not_refused(SPIDER_ERROR_NULL, "the field stiffness, which is null",
                     [&] { some.run(f.u, f.out, f.before); }) +
         not_refused(SPIDER_ERROR_NULL, "the previous field before, which is null",
                     [&] { f.update.run(f.u, f.out); }) +
         not_refused(SPIDER_ERROR_UNSUPPORTED, "call spider_run",
                     [&] { spider::apply(swing_kernel(), f.u, f.out); }) +
         not_refused(SPIDER_ERROR_EXTENT, "point 0 has index 20 on axis x",
                     [&] {
                       spider::Points(swing_kernel(), f.u.extents(), {{0, 0, 20}});
                     }) +
         not_refused(SPIDER_ERROR_EXTENT, "row 3 of a field of 1 x 3 x 2 cells has no values for 2 points",
                     [&] { points.add(f.u, values, 3); }) +
         not_refused(SPIDER_ERROR_EXTENT, "no values for 2 points", [&] { points.read(f.u, f.out); }) +
         not_refused(SPIDER_ERROR_UNSUPPORTED, "another type", [&] { points.read(f.u, f.stiffness); });
}

}  // namespace

int main() {
  try {
    spider::prepare(smooth_kernel());
    const int smoothing = wrong_after_smoothing(29, 141);
    const int advection = wrong_after_advection(upwind_kernel(), 0.25F, 18, 70) +
                          wrong_after_advection(fast_upwind_kernel(), 0.5F, 18, 70);
    const int boxes = wrong_in_boxes(29, 141);
    const int single = wrong_means<float>(tilt_kernel(), {0.5, 0.1, 0.1, 0.2, 0.1}, 1.0F / 7, 0x1p-18);
    const int bfloat =
        wrong_means<std::uint16_t>(tint_kernel(), {0.5, 0.125, 0.0625, 0.25, 0.0625}, 1, 0x1p-8);
    const int swinging = wrong_in_steps(21, 150) + wrong_in_pairs(21, 150) + wrong_at_points(21, 150) +
                         wrong_in_a_part(21, 150) + wrong_refusals();
    const int settling = wrong_reductions(21, 150);
    std::printf("cells wrong: %s %d, %s %d, in boxes %d, f32 %d, bf16 %d, %s %d, %s %d\n",
                spider::info(smooth_kernel()).name, smoothing, spider::info(upwind_kernel()).name, advection,
                boxes, single, bfloat, spider::info(swing_kernel()).name, swinging,
                spider::info(settle_kernel()).name, settling);
    return smoothing + advection + boxes + single + bfloat + swinging + settling == 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
