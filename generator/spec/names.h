#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace spidergen::spec {

/// `'text'` for a message; a long text is cut and ends in "...".
[[nodiscard]] std::string shown(std::string_view text);

/// "'a', 'b' and 'c'", in the order given; of more than thirty, the first thirty and the count of the rest.
[[nodiscard]] std::string list_names(const std::vector<std::string>& names,
                                     std::string_view last_word = "and");

/// "1 offset", "2 offsets".
[[nodiscard]] std::string counted(std::size_t count, std::string_view noun);

/// The candidate that `name` is a likely misspelling of, or that other tools call `name`; empty where there
/// is none.
[[nodiscard]] std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// " (did you mean 'radius'?)" for such a candidate; empty where there is none.
[[nodiscard]] std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates);

/// Significant characters of a C identifier; the longest name of a stencil or parameter.
inline constexpr std::size_t longest_name = 63;

/// Is the name one of the words, which stand between blanks: " f16 f32 "?
[[nodiscard]] bool is_word_of(std::string_view words, std::string_view name);

/// A letter or underscore, then letters, digits and underscores; ASCII only.
[[nodiscard]] bool is_identifier(std::string_view name);

/// Why a stencil cannot have this `name`: C, C++, CUDA or the generated files use it. Empty where it can.
[[nodiscard]] std::string objection_to_stencil_name(std::string_view name);

}  // namespace spidergen::spec
