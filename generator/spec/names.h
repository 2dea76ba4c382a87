#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace spidergen::spec {

/// `'text'` for a message; the beginning and "..." where it is long.
[[nodiscard]] std::string shown(std::string_view text);

/// "'a', 'b' and 'c'", in the order given; the first thirty and the number of the others where there are
/// more.
[[nodiscard]] std::string list_names(const std::vector<std::string>& names,
                                     std::string_view last_word = "and");

/// "1 offset", "2 offsets".
[[nodiscard]] std::string counted(std::size_t count, std::string_view noun);

/// The candidate that a typing error could have turned into `name`, or that other tools call so; otherwise
/// empty.
[[nodiscard]] std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// " (did you mean 'radius'?)" for such a candidate; otherwise empty.
[[nodiscard]] std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// What C compilers tell apart; the longest name of a stencil or parameter.
inline constexpr std::size_t longest_name = 63;

/// A letter or underscore, then letters, digits and underscores; ASCII only.
[[nodiscard]] bool is_identifier(std::string_view name);

/// Why C, C++, CUDA or the generated files' names cannot have a stencil called `name`; empty where they can.
[[nodiscard]] std::string objection_to_stencil_name(std::string_view name);

}  // namespace spidergen::spec
