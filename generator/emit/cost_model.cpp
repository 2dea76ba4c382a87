#include "emit/cost_model.h"

namespace spidergen::emit {
namespace {

/// Tiles are padded to the fragments of 8 x 8 x 4 that the paper counts with.
constexpr int fragment = 8;
constexpr int fragment_depth = 4;

constexpr int ceil_div(int value, int divisor) {
  return (value + divisor - 1) / divisor;
}

constexpr double square(double value) {
  return value * value;
}

}  // namespace

PointCost lower_bound_cost(const BoxTile& tile) {
  const double taps = square(2 * tile.radius + 1);
  const double points = square(tile.side);
  return {taps, square(tile.side + 2 * tile.radius) / points, taps / points};
}

PointCost conv_stencil_cost(const BoxTile& tile) {
  const int width = 2 * tile.radius + 1;
  const double steps = ceil_div(width * width, fragment_depth) * ceil_div(tile.side, fragment);
  const double halves = ceil_div(tile.radius + 1, fragment_depth);
  // B ceil(A / (2 c (r + 1))) of Table 1, for one of the A B points of a large field.
  const double per_point = 1.0 / (2.0 * tile.side * (tile.radius + 1));
  return {512 * steps * halves * per_point, 64 * steps * per_point, 64 * steps * halves * per_point};
}

std::optional<PointCost> tc_stencil_cost(const BoxTile& tile) {
  constexpr int length = 16;
  if (2 * tile.radius >= length) return std::nullopt;
  const double width = 2 * tile.radius + 1;
  const double elements = length * length * width / square(length - 2 * tile.radius);
  return PointCost{elements * length, elements, elements};
}

PointCost lora_stencil_cost(const BoxTile& tile) {
  const int reach = 2 * tile.radius + tile.side;
  const double points = square(tile.side);
  const int columns = ceil_div(tile.side, fragment);
  const double depth = ceil_div(reach, fragment_depth);
  return {256 * tile.radius / points * columns * depth * (ceil_div(reach, fragment) + columns),
          32 / points * depth * ceil_div(reach, fragment),
          4.0 * tile.radius / ceil_div(tile.radius, fragment_depth)};
}

std::optional<PointCost> spider_cost(const BoxTile& tile) {
  if (tile.side < 2 * tile.radius + 2) return std::nullopt;
  const double columns = ceil_div(tile.side, fragment);
  const double steps = (2 * tile.radius + 1) / square(tile.side) * columns *
                       ceil_div(2 * tile.radius + tile.side, fragment_depth);
  return PointCost{128 * steps * columns, 32 * steps, 16 * steps};
}

int common_tile_side(int radius) {
  return fragment * ceil_div(2 * radius + 2, fragment);
}

double spider_operations_as_printed(const BoxTile& tile) {
  return 256 / square(tile.side) * (tile.radius + 1) * square(ceil_div(tile.side, fragment)) *
         ceil_div(2 * tile.radius + tile.side, fragment_depth);
}

std::vector<MethodCost> paper_costs(const BoxTile& tile) {
  return {{"lower bound", lower_bound_cost(tile)},
          {"ConvStencil", conv_stencil_cost(tile)},
          {"TCStencil", tc_stencil_cost(tile)},
          {"LoRAStencil", lora_stencil_cost(tile)},
          {"SPIDER", spider_cost(tile)}};
}

}  // namespace spidergen::emit
