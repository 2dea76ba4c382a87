// Acoustic waves below a free surface. Without arguments: the checks. Else
//
//   consumer --size 256 [--steps 600] [--picture wave.png] [--seismogram seismogram.png]
//
// shoots in a layered medium of that many cells along each axis, says how fast, and writes what was seen.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include "checks.h"
#include "picture.h"
#include "wave.h"

namespace {

constexpr double spacing = 10;  // m
constexpr double slowest = 1600;
constexpr double fastest = 4500;                        // m/s
constexpr double time_step = 0.4 * spacing / fastest;   // s; up to 0.45 is stable
constexpr double peak = slowest / (2.5 * 4 * spacing);  // Hz: four cells for the shortest waves

/// m/s at a place given as parts of the axes, 0 to 1.
double speed(double z, double y, double x) {
  if (std::hypot(z - 0.62, y - 0.5, x - 0.66) < 0.12) return fastest;
  if (z < 0.22 + 0.03 * std::sin(9 * x)) return slowest;
  if (z < 0.42 + 0.2 * (x - 0.5)) return 2200;
  return z < 0.75 ? 2900 : 3600;
}

/// Of a cell so many cells from the nearest face that is none of the surface: it grows with the square of the
/// depth in the sponge, and reflects a thousandth of a wave that comes straight (Collino and Tsogka's
/// profile).
double damping_at(std::int64_t distance, std::int64_t width, double c) {
  if (distance >= width) return 0;
  const double depth = static_cast<double>(width - distance) / static_cast<double>(width);
  const double rate = 1.5 * c / (static_cast<double>(width) * spacing) * std::log(1000) * depth * depth;
  return rate * time_step / 2;
}

Shot make_shot(std::int64_t size, std::int64_t steps) {
  Shot shot{{size, size, size}, {}, {}, {4, size / 2, size / 2}, {}, {}};
  const std::int64_t width = std::min<std::int64_t>(40, size / 6);
  const auto cells = static_cast<std::size_t>(size * size * size);
  shot.c2dt2.reserve(cells);
  shot.damping.reserve(cells);
  const double part = 1.0 / static_cast<double>(size);
  for (std::int64_t z = 0; z < size; ++z) {
    for (std::int64_t y = 0; y < size; ++y) {
      for (std::int64_t x = 0; x < size; ++x) {
        const double c = speed(static_cast<double>(z) * part, static_cast<double>(y) * part,
                               static_cast<double>(x) * part);
        const double courant = c * time_step / spacing;
        shot.c2dt2.push_back(static_cast<float>(courant * courant));
        const std::int64_t distance = std::min({size - 1 - z, y, size - 1 - y, x, size - 1 - x});
        shot.damping.push_back(static_cast<float>(damping_at(distance, width, c)));
      }
    }
  }
  for (std::int64_t x = 0; x < size; ++x) shot.receivers.push_back({2, size / 2, x});
  for (std::int64_t step = 0; step < steps; ++step)
    shot.signal.push_back(
        static_cast<float>(ricker(peak, static_cast<double>(step) * time_step - 1.5 / peak)));
  return shot;
}

/// The magnitude that all but a part of the numbers stay below.
float magnitude_of(const std::vector<float>& numbers, double part) {
  std::vector<float> sizes;
  for (const float number : numbers) sizes.push_back(std::abs(number));
  const auto place = static_cast<std::ptrdiff_t>((1 - part) * static_cast<double>(sizes.size() - 1));
  std::nth_element(sizes.begin(), sizes.begin() + place, sizes.end());
  return std::max(sizes[static_cast<std::size_t>(place)], 1e-30F);
}

/// Red where it is positive and blue where it is negative, over a grey ground.
Colour coloured(float number, double ground) {
  const double weight = std::min(1.0, std::abs(static_cast<double>(number)));
  const Colour ink = number > 0 ? Colour{200, 20, 30} : Colour{20, 60, 200};
  Colour mixed{};
  for (std::size_t i = 0; i < mixed.size(); ++i)
    mixed[i] = static_cast<std::uint8_t>((1 - weight) * ground + weight * ink[i]);
  return mixed;
}

/// The wave in the plane through the source, over the speed of the ground.
Picture picture_of(const Shot& shot, const Record& record) {
  const std::int64_t size = shot.extents[0];
  Picture picture{static_cast<std::uint32_t>(size), static_cast<std::uint32_t>(size), {}};
  const float scale = magnitude_of(record.slice, 0.02);
  for (std::int64_t z = 0; z < size; ++z) {
    for (std::int64_t x = 0; x < size; ++x) {
      const double courant =
          std::sqrt(shot.c2dt2[static_cast<std::size_t>((z * size + size / 2) * size + x)]);
      const double ground = 250 - 110 * (courant * spacing / time_step - slowest) / (fastest - slowest);
      picture.pixels.push_back(
          coloured(record.slice[static_cast<std::size_t>(z * size + x)] / scale, ground));
    }
  }
  return picture;
}

/// Time downwards, a column for each receiver. Later steps are louder, as echoes come from further away.
Picture seismogram_of(const Shot& shot, const Record& record) {
  const std::size_t columns = shot.receivers.size();
  const std::size_t steps = shot.signal.size();
  std::vector<float> louder;
  for (std::size_t i = 0; i < record.trace.size(); ++i) {
    const double time = static_cast<double>(i / columns + 1) / static_cast<double>(steps);
    louder.push_back(record.trace[i] * static_cast<float>(time * time));
  }
  const float scale = magnitude_of(louder, 0.1);
  const std::size_t every = std::max<std::size_t>(1, steps / std::max<std::size_t>(columns, 256));
  Picture picture{0, static_cast<std::uint32_t>(columns), {}};
  for (std::size_t step = 0; step < steps; step += every, ++picture.rows) {
    for (std::size_t i = 0; i < columns; ++i)
      picture.pixels.push_back(coloured(louder[step * columns + i] / scale, 250));
  }
  return picture;
}

struct Options {
  std::int64_t size = 0;
  std::int64_t steps = 0;
  std::string picture;
  std::string seismogram;
};

std::int64_t number_of(const std::string& name, const std::string& value) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error == std::errc() && end == value.data() + value.size()) return number;
  throw std::invalid_argument(name + " takes a whole number, not " + value);
}

Options read_options(int count, char** words) {
  Options options;
  for (int i = 1; i < count; i += 2) {
    const std::string name = words[i];
    if (i + 1 == count) throw std::invalid_argument(name + " needs a value");
    const std::string value = words[i + 1];
    if (name == "--size") {
      options.size = number_of(name, value);
    } else if (name == "--steps") {
      options.steps = number_of(name, value);
    } else if (name == "--picture") {
      options.picture = value;
    } else if (name == "--seismogram") {
      options.seismogram = value;
    } else {
      throw std::invalid_argument("no option " + name +
                                  ": there are --size, --steps, --picture, --seismogram");
    }
  }
  if (options.steps == 0) options.steps = 4 * options.size;
  if (count > 1 && (options.size < 32 || options.steps < 1))
    throw std::invalid_argument("--size is at least 32, and --steps at least 1");
  return options;
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count == 1) return all_checks_pass() ? EXIT_SUCCESS : EXIT_FAILURE;
    const Options options = read_options(count, words);
    const Shot shot = make_shot(options.size, options.steps);
    const Record record = run(shot);
    const double points = std::pow(static_cast<double>(options.size), 3) * static_cast<double>(options.steps);
    std::printf("%lld^3 cells, %lld steps, %.2f s of time in %.3f s: %.2f Gpoints/s\n",
                static_cast<long long>(options.size), static_cast<long long>(options.steps),
                static_cast<double>(options.steps) * time_step, record.seconds,
                points / record.seconds * 1e-9);
    if (!options.picture.empty()) write_png(options.picture, picture_of(shot, record));
    if (!options.seismogram.empty()) write_png(options.seismogram, seismogram_of(shot, record));
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
