#include "spec/names.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

#include "spec/header_names.h"

namespace spidergen::spec {
namespace {

// Between blanks: C17 and C++20 keywords, alternative tokens, and macros of the standard headers that look
// like identifiers.
constexpr std::string_view keywords =
    " alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char16_t char32_t "
    "char8_t class co_await co_return co_yield compl concept const const_cast consteval constexpr "
    "constinit continue decltype default delete do double dynamic_cast else enum errno explicit export "
    "extern false float for friend goto if inline int linux long main mutable namespace new noexcept not "
    "not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires "
    "restrict return short signed sizeof static static_assert static_cast std struct switch template this "
    "thread_local throw true try typedef typeid typename typeof union unix unsigned using virtual void "
    "volatile wchar_t while xor xor_eq EOF INFINITY NAN NULL NDEBUG ";

constexpr std::string_view cuda_names =
    " blockDim blockIdx dim3 gridDim threadIdx warpSize half half2 nvcuda cuda ";

// A kernel lives in the namespace spider_<name>, next to the runtime's own names.
constexpr std::string_view runtime_names =
    " abi_version allocate apply apply_box clear download field halo free info iterate kernel kernel_info "
    "last_error prepare shared_memory status status_string synchronize upload part run reductions "
    "reductions_create reductions_free reductions_read run_steps run_until scratch_bytes sweep grid "
    "grid_create grid_create_f grid_exchange grid_free grid_gather grid_info grid_iterate grid_layout "
    "grid_read_npy grid_run grid_scatter grid_wait grid_write_npy select_device select_device_f points "
    "points_add points_create points_free points_read halo_of_fields halo_of_part halo_of_field "
    "points_create_of_field ";

struct ForeignNames {
  std::string_view right;
  std::string_view words;
};

// Names in other tools. One may have several of ours; the one known at that place is suggested.
constexpr ForeignNames foreign_names[] = {
    {"dimensions", " dim dims ndim "},
    {"storage", " type dtype datatype precision "},
    {"stencil", " name "},
    {"boundary", " bc boundaries boundary_conditions "},
    {"parameters", " params constants variables "},
    {"coefficients", " coeffs values "},
    {"center", " middle "},
    {"at", " offset position "},
    {"weight", " w value "},
    {"spacing", " dx h "},
    {"sigma", " std stddev "},
    {"gaussian", " gauss "},
    {"laplacian", " laplace "},
    {"derivative", " diff gradient "},
    {"constant", " value "},
    {"f16", " half float16 "},
    {"f32", " float float32 single "},
    {"f64", " double float64 "},
    {"bf16", " bfloat16 "},
};

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// Letters inserted, deleted or changed between two names, ignoring case.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (lower(a[i]) == lower(b[j]) ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t longest = 60;
  if (text.size() <= longest) return fmt::format("'{}'", text);
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // whole characters
  return fmt::format("'{}...'", text.substr(0, end));
}

std::string list_names(const std::vector<std::string>& names, std::string_view last_word) {
  constexpr std::size_t most_listed = 30;
  if (names.size() > most_listed) {
    const std::vector<std::string> first(names.begin(), names.begin() + most_listed);
    return fmt::format("{} {} {} more", list_names(first, ","), last_word, names.size() - most_listed);
  }
  std::string out;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) out += i + 1 == names.size() && last_word != "," ? fmt::format(" {} ", last_word) : ", ";
    out += fmt::format("'{}'", names[i]);
  }
  return out;
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > longest_name) return {};
  for (const ForeignNames& foreign : foreign_names) {
    if (is_word_of(foreign.words, name) &&
        std::find(candidates.begin(), candidates.end(), foreign.right) != candidates.end())
      return std::string(foreign.right);
  }
  const std::string* nearest = nullptr;
  std::size_t smallest = 3;
  for (const std::string& candidate : candidates) {
    if (candidate.size() > longest_name) continue;
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < smallest && 2 * distance < candidate.size()) {
      smallest = distance;
      nearest = &candidate;
    }
  }
  return nearest ? *nearest : std::string();
}

std::string did_you_mean(std::string_view name, const std::vector<std::string>& candidates) {
  const std::string nearest = nearest_name(name, candidates);
  return nearest.empty() ? nearest : fmt::format(" (did you mean '{}'?)", nearest);
}

bool is_word_of(std::string_view words, std::string_view name) {
  return name.find(' ') == std::string_view::npos &&
         words.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

bool is_identifier(std::string_view name) {
  return !name.empty() && is_letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [](char c) { return is_letter(c) || is_digit(c); });
}

std::string objection_to_stencil_name(std::string_view name) {
  if (name.size() > longest_name) {
    return fmt::format("a stencil's name of {} characters is too long; use at most {}", name.size(),
                       longest_name);
  }
  if (!is_identifier(name)) {
    return fmt::format("{} cannot name a stencil; use a letter, then letters, digits and underscores",
                       shown(name));
  }
  if (name.front() == '_' || name.find("__") != std::string_view::npos) {
    return fmt::format("'{}' is reserved in C++; a stencil's name has no leading and no double underscore",
                       name);
  }
  if (is_word_of(keywords, name)) {
    return fmt::format("'{}' has a meaning in C or C++; give the stencil another name", name);
  }
  if (is_word_of(cuda_names, name)) {
    return fmt::format("'{}' has a meaning in CUDA; give the stencil another name", name);
  }
  if (is_word_of(runtime_names, name)) {
    return fmt::format("'{0}' would clash with spider_{0} of the runtime; give the stencil another name",
                       name);
  }
  if (is_header_name(name)) {
    return fmt::format(
        "'{0}' would hide the header <{0}.h>; give the stencil another name, such as '{0}_stencil'", name);
  }
  return {};
}

}  // namespace spidergen::spec
