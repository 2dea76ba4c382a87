#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace spidergen::emit {

/// The cost of a method for one point of a large field, in the SPIDER paper's model (section 2, Table 1).
struct PointCost {
  double operations = 0;  ///< multiply-adds, including those with zeros
  double input = 0;       ///< elements read from the field
  double parameters = 0;  ///< elements read from the kernel matrices

  bool operator==(const PointCost&) const = default;
};

/// A 2D box stencil of `radius` >= 1 that updates a tile of side x side points at a time.
struct BoxTile {
  int radius = 1;
  int side = 8;
};

/// Only the weights and the points themselves (Table 1).
[[nodiscard]] PointCost lower_bound_cost(const BoxTile& tile);
/// ConvStencil (Table 1).
[[nodiscard]] PointCost conv_stencil_cost(const BoxTile& tile);
/// TCStencil (Table 1) with its L = 16, whose tiles are (L - 2 r) x (L - 2 r) for any `side`; nothing from
/// radius 8 on, where no outputs are left.
[[nodiscard]] std::optional<PointCost> tc_stencil_cost(const BoxTile& tile);
/// LoRAStencil (Table 1), which needs symmetric weights.
[[nodiscard]] PointCost lora_stencil_cost(const BoxTile& tile);
/// SPIDER (section 3.1, "Quantitative Analysis"). The printed formula for its operations does not give the
/// figure of the paper's Table 2; this one does, see spider_operations_as_printed. Nothing where side < 2 r +
/// 2: with fewer points in a row less than half of the matrix is zero, so that it is not 2:4.
[[nodiscard]] std::optional<PointCost> spider_cost(const BoxTile& tile);

/// The smallest multiple of 8 that is wide enough for all methods but TCStencil: 8 up to radius 3, 16 up
/// to 7.
[[nodiscard]] int common_tile_side(int radius);

/// SPIDER's operations by the printed formula, 256 / c^2 (r + 1) ceil(c / 8)^2 ceil((2 r + c) / 4): 64 for
/// radius 3 and c = 8, where Table 2 says 56. With 128 (2 r + 1) in place of 256 (r + 1), one product a row
/// of taps, it is 56.
[[nodiscard]] double spider_operations_as_printed(const BoxTile& tile);

struct MethodCost {
  std::string_view method;
  std::optional<PointCost> cost;  ///< none where the method does not support the radius
};

/// The rows of the paper's Table 2, in its order.
[[nodiscard]] std::vector<MethodCost> paper_costs(const BoxTile& tile);

}  // namespace spidergen::emit
