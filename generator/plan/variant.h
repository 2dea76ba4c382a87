#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace spidergen::plan {

/// Where lanes load their inputs from: which columns of a kernel matrix change places.
enum class Swap {
  pair,     ///< 16-byte loads whose addresses swap them by pairs: 16 columns a window
  element,  ///< the SPIDER paper's, by elements: 2-byte loads, 15 columns a window
  none,     ///< 16-byte loads in the order of the field: 8 columns a sparse window
};

/// Its name on the command line: "pair", "element" or "none".
[[nodiscard]] std::string_view swap_name(Swap swap);

/// The swap of that name; nothing where there is none.
[[nodiscard]] std::optional<Swap> swap_named(std::string_view name);

/// Other ways to the same results, to measure what the plan's own is worth (generator/README.md, "Variants").
struct Variant {
  Swap swap = Swap::pair;
  int most_tiles = 2;  ///< of 128 outputs side by side in a warp's strip: 1 or 2
  int length = 0;  ///< outputs along x in a column of a product: 16, 8 of two rows, or 0: as the plan has it

  bool operator==(const Variant&) const = default;
};

/// The command line's options for it, each with a space before it; empty for the plan's own way.
[[nodiscard]] std::string variant_options(const Variant& variant);

}  // namespace spidergen::plan
