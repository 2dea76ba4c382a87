#include "plan/variant.h"

namespace spidergen::plan {

std::string_view swap_name(Swap swap) {
  switch (swap) {
    case Swap::pair:
      return "pair";
    case Swap::element:
      return "element";
    case Swap::none:
      return "none";
  }
  return "";
}

std::optional<Swap> swap_named(std::string_view name) {
  for (const Swap swap : {Swap::pair, Swap::element, Swap::none}) {
    if (swap_name(swap) == name) return swap;
  }
  return std::nullopt;
}

std::string variant_options(const Variant& variant) {
  const Variant own;
  std::string options;
  if (variant.swap != own.swap) options += " --swap " + std::string(swap_name(variant.swap));
  if (variant.most_tiles != own.most_tiles) options += " --tiles " + std::to_string(variant.most_tiles);
  if (variant.length != own.length) options += " --length " + std::to_string(variant.length);
  return options;
}

}  // namespace spidergen::plan
