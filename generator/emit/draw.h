#pragma once

#include <string>

#include "plan/tile_mapping.h"

namespace spidergen::emit {

/// A kernel matrix before and after the swap of its mapping, side by side, a line per row: a letter for each
/// non-zero (a is the weight at the window's lowest dx, b the next; capitals for the other tap row, where the
/// mapping has two), a dot for each zero, columns in groups of four. Before the swap, outputs and inputs are
/// in their natural order. Each line begins with its output.
[[nodiscard]] std::string draw_swap(const plan::TileMapping& mapping, const plan::Matrix& matrix);

/// The matrix after the swap, without the columns that 2:4 omits, and the metadata of its groups from left to
/// right, a hexadecimal digit each.
[[nodiscard]] std::string draw_compressed(const plan::TileMapping& mapping, const plan::Matrix& matrix);

}  // namespace spidergen::emit
