#include "spec/source_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace spidergen::spec {
namespace {

constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";

unsigned char byte_at(std::string_view text, std::size_t index) {
  return static_cast<unsigned char>(text[index]);
}

bool is_continuation(std::string_view text, std::size_t index) {
  return index < text.size() && (byte_at(text, index) & 0xC0U) == 0x80U;
}

/// Bytes of the UTF-8 character at `index`; 0 where there is none. The ranges are those of Unicode's table
/// 3-7.
std::size_t character_length(std::string_view text, std::size_t index) {
  const unsigned first = byte_at(text, index);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4 || !is_continuation(text, index + 1)) return 0;
  if (first < 0xE0) return 2;
  const unsigned second = byte_at(text, index + 1);
  if (!is_continuation(text, index + 2)) return 0;
  if (first < 0xF0) {
    const bool overlong = first == 0xE0 && second < 0xA0;
    const bool surrogate = first == 0xED && second > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  const bool out_of_range = (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
  return out_of_range || !is_continuation(text, index + 3) ? 0 : 4;
}

bool is_forbidden_control(unsigned char byte) {
  return (byte < 0x20 && byte != '\t') || byte == 0x7F;
}

/// Reports the first error of a line.
bool check_line(std::string_view line, const diag::SourceLocation& start, diag::Diagnostics& diagnostics) {
  bool indenting = true;
  int column = 1;
  for (std::size_t i = 0; i < line.size(); ++column) {
    const diag::SourceLocation where{start.file, start.line, column};
    const unsigned char byte = byte_at(line, i);
    if (indenting && byte == '\t') {
      diagnostics.error(where, "a tab indents this line; indent with spaces");
      return false;
    }
    indenting = indenting && byte == ' ';
    if (is_forbidden_control(byte)) {
      diagnostics.error(where, "control character 0x{:02X}; a spec is plain text", byte);
      return false;
    }
    if (line.substr(i, byte_order_mark.size()) == byte_order_mark) {
      diagnostics.error(where, "a byte order mark stands within the text; remove it");
      return false;
    }
    const std::size_t length = character_length(line, i);
    if (length == 0) {
      diagnostics.error(where, "byte 0x{:02X} is not valid UTF-8; save the spec as UTF-8", byte);
      return false;
    }
    i += length;
  }
  return true;
}

}  // namespace

std::string normalise(std::string_view text) {
  if (text.substr(0, byte_order_mark.size()) == byte_order_mark) text.remove_prefix(byte_order_mark.size());
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\r') {
      out += text[i];
    } else if (i + 1 == text.size() || text[i + 1] != '\n') {
      out += '\n';
    }
  }
  return out;
}

std::string hash(std::string_view normalised_text) {
  std::uint64_t state = 0xCBF29CE484222325U;
  for (const char c : normalised_text) {
    state ^= static_cast<unsigned char>(c);
    state *= 0x100000001B3U;
  }
  return fmt::format("{:016x}", state);
}

bool check_bytes(std::string_view normalised_text, const std::string& file, diag::Diagnostics& diagnostics) {
  constexpr int most_reports = 10;  // a binary file has errors everywhere
  int reports = 0;
  for (int line = 1; !normalised_text.empty() && reports < most_reports; ++line) {
    const std::size_t end = std::min(normalised_text.find('\n'), normalised_text.size());
    if (!check_line(normalised_text.substr(0, end), {file, line, 1}, diagnostics)) ++reports;
    normalised_text.remove_prefix(std::min(end + 1, normalised_text.size()));
  }
  return reports == 0;
}

int character_column(std::string_view line, int byte_column) {
  int column = 1;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(std::max(byte_column, 1)); ++i) {
    if (i >= line.size() || !is_continuation(line, i)) ++column;
  }
  return column;
}

std::string objection_to_file_name(std::string_view path) {
  const std::string name = file_name(path);
  const bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return c >= ' ' && c <= '~' && c != '\\'; });
  if (plain) return {};
  return "the file's name goes into a comment of the generated files; rename it, without characters beyond "
         "ASCII, control characters and backslashes";
}

std::string file_name(std::string_view path) {
  return std::filesystem::path(path).filename().string();
}

std::string file_stem(std::string_view path) {
  return std::filesystem::path(path).stem().string();
}

}  // namespace spidergen::spec
