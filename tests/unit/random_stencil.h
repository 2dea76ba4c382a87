#pragma once

#include <cstdint>
#include <random>
#include <set>
#include <utility>

#include "spec/stencil_spec.h"

namespace spidergen::testing {

/// A 2D stencil with taps at random places within the reach, weights random or multiples of 1/256.
inline spec::StencilSpec random_stencil(std::uint32_t seed, int reach_y, int reach_x, bool exact_weights) {
  std::mt19937 random(seed);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  spec::StencilSpec stencil;
  stencil.name = "random";
  std::set<std::pair<int, int>> places;
  const int wanted = between(1, 40);
  for (int i = 0; i < wanted; ++i) places.insert({between(-reach_y, reach_y), between(-reach_x, reach_x)});
  for (const auto& [dy, dx] : places) {
    double weight =
        exact_weights ? between(1, 127) / 256.0 : std::uniform_real_distribution<>(0.01, 1)(random);
    if (between(0, 1) == 1) weight = -weight;
    stencil.taps.push_back({{0, dy, dx}, weight, {}});
  }
  return stencil;
}

/// A 3D star of the given radius with random weights, multiples of 1/256, and a random set of other taps
/// besides.
inline spec::StencilSpec random_volume(std::uint32_t seed, int radius, int reach, int others) {
  std::mt19937 random(seed);
  const auto between = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  std::set<spec::Offset> places;
  for (int axis = 0; axis < 3; ++axis) {
    for (int i = -radius; i <= radius; ++i) {
      spec::Offset at{};
      at[axis] = i;
      places.insert(at);
    }
  }
  for (int i = 0; i < others; ++i)
    places.insert({between(-reach, reach), between(-reach, reach), between(-reach, reach)});
  spec::StencilSpec stencil;
  stencil.name = "random";
  stencil.dimensions = 3;
  for (const spec::Offset& at : places) stencil.taps.push_back({at, between(1, 127) / 256.0, {}});
  return stencil;
}

}  // namespace spidergen::testing
