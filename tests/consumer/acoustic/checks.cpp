#include "checks.h"

#include <periodic_acoustic.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <iterator>
#include <numbers>
#include <random>
#include <spider/spider.hpp>
#include <vector>

#include "wave.h"

namespace {

using std::numbers::pi;

// A source 1 below the surface and a receiver 0.5 below it, 1 aside; the speed is 1, the peak frequency 1.
// Faces other than the surface are so far that nothing comes back from them before `end`.
constexpr double courant = 0.35;
constexpr double delay = 1.5;
constexpr double end = 4.4;
constexpr double source_depth = 1;
constexpr double receiver_depth = 0.5;
constexpr double offset = 1;

/// What the program sees there, and what is right, step by step.
struct Traces {
  std::vector<double> seen;
  std::vector<double> exact;   ///< s(t - r) / (4 pi r), less that of the source's image above the surface
  std::vector<double> spaced;  ///< the same where only time is cut into steps: exact derivatives in space
  double predicted;            ///< how far the grid's wavenumbers move that one, as a part of it
};

/// Of -d^2/dx^2 by differences of order 8, times h^2, for a wavenumber times h.
double symbol(double kh) {
  return 205.0 / 72 - 2 * (8.0 / 5 * std::cos(kh) - 1.0 / 5 * std::cos(2 * kh) +
                           8.0 / 315 * std::cos(3 * kh) - 1.0 / 560 * std::cos(4 * kh));
}

/// The wavenumber of the grid, in a direction, for that of exact derivatives; both times h. Newton's method,
/// from the differences' symbol.
double on_grid(double kh, const std::array<double, 3>& direction) {
  const auto total = [&](double k) {
    double sum = 0;
    for (const double part : direction) sum += symbol(k * part);
    return sum;
  };
  double k = kh;
  for (int i = 0; i < 20; ++i) k -= (total(k) - kh * kh) / ((total(k + 1e-6) - total(k - 1e-6)) / 2e-6);
  return k;
}

constexpr double everything = 1e9;

/// A wave from the source's cell, or from its image, as the sum of its frequencies up to `highest`: each
/// travels with the wavenumber that time steps give it, 2 / dt sin(w dt / 2), or with what a grid of spacing
/// h makes of that.
void add_wave(std::vector<double>& sum, const std::vector<double>& signal, double dt,
              const std::array<double, 3>& way, double sign, double highest, double h = 0) {
  const auto steps = static_cast<int>(signal.size());
  const int count = 4 * steps;  // a period so long that no wave runs into the next
  const double r = std::hypot(way[0], way[1], way[2]);
  for (int i = 1; i < count / 2 && i < highest * count * dt; ++i) {
    const double turn = 2 * pi * i / count;  // w dt
    std::complex<double> part = 0;
    for (int n = 0; n < steps; ++n) part += signal[static_cast<std::size_t>(n)] * std::polar(1.0, -turn * n);
    double k = 2 / dt * std::sin(turn / 2);
    if (h > 0) k = on_grid(k * h, {way[0] / r, way[1] / r, way[2] / r}) / h;
    part *= sign * 2 / (4 * pi * r * count) * std::polar(1.0, -k * r);
    for (int n = 0; n < steps; ++n)
      sum[static_cast<std::size_t>(n)] += std::real(part * std::polar(1.0, turn * (n + 1)));
  }
}

double norm(const std::vector<double>& a) {
  double sum = 0;
  for (const double number : a) sum += number * number;
  return std::sqrt(sum);
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> difference;
  std::transform(a.begin(), a.end(), b.begin(), std::back_inserter(difference), std::minus<>());
  return norm(difference);
}

Traces point_source(int cells) {
  const double h = 1.0 / cells;
  const double dt = courant * h;
  const auto index = [&](double length) { return static_cast<std::int64_t>(std::lround(length * cells)); };
  Shot shot;
  shot.extents = {index(3.0), index(4.4), index(5.5)};
  const auto count = static_cast<std::size_t>(shot.extents[0] * shot.extents[1] * shot.extents[2]);
  shot.c2dt2.assign(count, static_cast<float>(courant * courant));
  shot.damping.assign(count, 0);
  shot.source = {index(source_depth) - 1, index(2.2), index(2.75 - offset / 2)};
  shot.receivers = {{index(receiver_depth) - 1, shot.source[1], shot.source[2] + index(offset)}};
  std::vector<double> signal;
  for (int n = 0; n * dt < end; ++n) {
    signal.push_back(ricker(1, n * dt - delay));
    shot.signal.push_back(static_cast<float>(signal.back() * dt * dt / (h * h * h)));
  }

  const Record record = run(shot);
  const std::vector<double> none(signal.size(), 0);
  Traces traces{{record.trace.begin(), record.trace.end()}, none, none, 0};
  constexpr double highest = 3.5;  // of the peak; a Ricker pulse has next to nothing there
  std::vector<double> pulse = none;
  std::vector<double> pulse_on_grid = none;
  for (const double sign : {1.0, -1.0}) {
    const std::array<double, 3> way{receiver_depth - sign * source_depth, 0, offset};
    const double r = std::hypot(way[0], way[2]);
    for (std::size_t n = 0; n < signal.size(); ++n)
      traces.exact[n] += sign * ricker(1, static_cast<double>(n + 1) * dt - delay - r) / (4 * pi * r);
    add_wave(traces.spaced, signal, dt, way, sign, everything);
    add_wave(pulse, signal, dt, way, sign, highest);
    add_wave(pulse_on_grid, signal, dt, way, sign, highest, h);
  }
  traces.predicted = distance(pulse_on_grid, pulse) / norm(pulse);
  return traces;
}

bool report(bool passed, const char* words) {
  std::printf("%s: %s\n", passed ? "passed" : "FAILED", words);
  return passed;
}

double order(double coarse, double fine, double ratio) {
  return std::log(coarse / fine) / std::log(ratio);
}

/// The program against the exact wave, and against that of its time steps: on grids that are finer and finer
/// the first comes nearer by order 2, the second by order 8. How near the second is, and how much nearer it
/// comes from grid to grid, follows from the differences' symbol: it gives each frequency's wavenumber and so
/// its phase, off by d k r. The amplitude is off by some 9 d, of which the symbol says nothing: with k r of 7
/// and more for the peak frequency, at most 1.3 times as much again.
bool point_sources_are_right() {
  constexpr std::array<int, 3> grids{8, 12, 18};
  constexpr double ratio = 1.5;
  std::array<double, 3> exact{};
  std::array<double, 3> spaced{};
  std::array<double, 3> predicted{};
  bool near = true;
  for (std::size_t i = 0; i < grids.size(); ++i) {
    const Traces traces = point_source(grids[i]);
    exact[i] = distance(traces.seen, traces.exact) / norm(traces.exact);
    spaced[i] = distance(traces.seen, traces.spaced) / norm(traces.exact);
    predicted[i] = traces.predicted;
    std::printf(
        "%2d cells a wavelength: %.1e off the exact wave; %.1e off that of the time steps, by the symbol "
        "%.1e\n",
        grids[i], exact[i], spaced[i], predicted[i]);
    near = near && spaced[i] > predicted[i] / 2 && spaced[i] < 2.3 * predicted[i];
  }
  const double in_time = order(exact[1], exact[2], ratio);
  const double in_space = order(spaced[0], spaced[1], ratio);
  const double by_symbol = order(predicted[0], predicted[1], ratio);
  std::printf("order %.2f in time; %.2f in space, by the symbol %.2f of grids so coarse\n", in_time, in_space,
              by_symbol);
  // In time: the next term of sin(w dt / 2) is (w dt)^2 / 48 of the first, at most a hundredth here up to
  // twice the peak. In space: amplitudes have the same order to leading terms.
  const bool values = report(near, "a point source below the surface");
  const bool time = report(std::abs(in_time - 2) < 0.1, "its order in time");
  const bool space = report(std::abs(in_space - by_symbol) < 0.25, "its order in space");
  return values && time && space;
}

/// Numbers of a periodic grid.
struct Periodic {
  std::array<int, 3> n{24, 20, 28};

  [[nodiscard]] std::size_t size() const { return static_cast<std::size_t>(n[0] * n[1] * n[2]); }
  [[nodiscard]] std::size_t cell(int z, int y, int x) const {
    const auto around = [](int i, int count) { return (i + count) % count; };
    return static_cast<std::size_t>((around(z, n[0]) * n[1] + around(y, n[1])) * n[2] + around(x, n[2]));
  }

  /// The kernel's sum, with its weights, which are floats.
  [[nodiscard]] std::vector<double> laplacian(const std::vector<float>& u) const {
    constexpr std::array weights{3 * -205.0F / 72, 8.0F / 5, -1.0F / 5, 8.0F / 315, -1.0F / 560};
    std::vector<double> sums(size());
    for (int z = 0; z < n[0]; ++z) {
      for (int y = 0; y < n[1]; ++y) {
        for (int x = 0; x < n[2]; ++x) {
          double sum = double{weights[0]} * u[cell(z, y, x)];
          for (int i = 1; i < static_cast<int>(weights.size()); ++i) {
            double around = 0;
            for (const int j : {-i, i})
              around += double{u[cell(z + j, y, x)]} + u[cell(z, y + j, x)] + u[cell(z, y, x + j)];
            sum += double{weights[static_cast<std::size_t>(i)]} * around;
          }
          sums[cell(z, y, x)] = sum;
        }
      }
    }
    return sums;
  }
};

/// sum (u - u_old)^2 / q - sum other L u_old, with q = (c dt / h)^2 and the symmetric sum L. With `other` = u
/// it is what leapfrog keeps, not only in the limit of small steps: from u'' - 2 u' + u = q L u', times (u''
/// - u) / q.
double energy(const Periodic& grid, const std::vector<float>& u, const std::vector<float>& u_old,
              const std::vector<float>& c2dt2, const std::vector<float>& other) {
  const std::vector<double> sums = grid.laplacian(u_old);
  double total = 0;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    const double change = double{u[i]} - u_old[i];
    total += change * change / c2dt2[i] - other[i] * sums[i];
  }
  return total;
}

/// With periodic faces and a speed that varies from cell to cell nothing is lost but what rounding takes: a
/// step's result is off by d, and with it the energy by d (u'' - u) / q. These are of either sign, so that
/// together they make the root of the sum of their squares, and by chance, of millions, not eight times that.
bool energy_is_kept() {
  constexpr int steps = 200;
  constexpr double half_ulp = 0x1p-24;
  constexpr double weights =
      3 * (205.0 / 72 + 2 * (8.0 / 5 + 1.0 / 5 + 8.0 / 315 + 1.0 / 560));  // magnitudes
  constexpr double sum_roundings = 25;
  const Periodic grid;
  const spider::Extents extents{grid.n[0], grid.n[1], grid.n[2]};
  std::mt19937 random(7);
  const auto draw = [&](double from, double to) {
    return static_cast<float>(from + (to - from) * (random() / 4294967296.0));
  };
  std::vector<float> c2dt2;
  std::vector<float> u;
  for (std::size_t i = 0; i < grid.size(); ++i) {
    c2dt2.push_back(draw(0.02, 0.2));  // stable below 4 / 19.5
    u.push_back(draw(-1, 1));
  }
  std::vector<float> u_old = u;

  spider::Field<float> now(extents);
  spider::Field<float> before(extents);
  spider::Field<float> speed(extents);
  now.upload(u);
  before.upload(u);
  speed.upload(c2dt2);
  spider::Update wave(periodic_acoustic_kernel());
  wave.field("c2dt2", speed);

  const double first = energy(grid, u, u_old, c2dt2, u);
  double squares = 0;
  double change = 0;
  double change_of_other = 0;  // of one that is not kept
  for (int step = 0; step < steps; ++step) {
    wave.run_steps(now, before, before, 1);
    spider::synchronize();
    const std::vector<float> next = now.download();
    float most = 0;
    for (const float number : u) most = std::max(most, std::abs(number));
    for (std::size_t i = 0; i < grid.size(); ++i) {
      const double rounding = half_ulp * (std::abs(2.0 * u[i] - u_old[i]) + std::abs(double{next[i]}) +
                                          (1 + sum_roundings) * c2dt2[i] * weights * most);
      squares += std::pow(rounding * (double{next[i]} - u_old[i]) / c2dt2[i], 2);
    }
    u_old = u;
    u = next;
    if (step % 20 != 19) continue;
    change = std::max(change, std::abs(energy(grid, u, u_old, c2dt2, u) - first));
    change_of_other = std::max(change_of_other, std::abs(energy(grid, u, u_old, c2dt2, u_old) - first));
  }
  const double bound = 8 * std::sqrt(squares);
  std::printf(
      "energy: %.4f at first, then within %.1e of it; rounding may make %.1e, the usual one changes by "
      "%.1e\n",
      first, change, bound, change_of_other);
  return report(first > 0 && change <= bound && change_of_other > bound,
                "the energy of waves that nothing damps");
}

}  // namespace

bool all_checks_pass() {
  const bool sources = point_sources_are_right();
  return energy_is_kept() && sources;
}
