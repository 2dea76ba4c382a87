#include "diag/diagnostic.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <tuple>
#include <utility>

namespace spidergen::diag {
namespace {

/// The code point of the two- or three-byte UTF-8 character that begins `text`; 0 without one.
unsigned code_point(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto continues = [&](std::size_t i) { return i < text.size() && (byte(i) & 0xC0U) == 0x80U; };
  if ((byte(0) & 0xE0U) == 0xC0U && continues(1)) return (byte(0) & 0x1FU) << 6U | (byte(1) & 0x3FU);
  if ((byte(0) & 0xF0U) == 0xE0U && continues(1) && continues(2)) {
    return (byte(0) & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU);
  }
  return 0;
}

/// C1 controls, line separators, marks that change the direction of text, and the byte order mark.
bool is_steering(unsigned code) {
  return (code >= 0x80 && code < 0xA0) || code == 0x061C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF;
}

std::string escaped(const char* format, unsigned code) {
  std::array<char, 16> text{};
  (void)std::snprintf(text.data(), text.size(), format, code);
  return text.data();
}

}  // namespace

void Diagnostics::error(SourceLocation where, std::string text) {
  if (full()) return;
  items.push_back({std::move(where), Severity::error, std::move(text)});
  ++errors;
}

void Diagnostics::warning(SourceLocation where, std::string text) {
  items.push_back({std::move(where), Severity::warning, std::move(text)});
}

void Diagnostics::append(const Diagnostics& other) {
  for (const Diagnostic& item : other.items) {
    if (item.severity == Severity::error) {
      error(item.where, item.text);
    } else {
      items.push_back(item);
    }
  }
}

void Diagnostics::sort_by_location() {
  std::stable_sort(items.begin(), items.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.where.line, a.where.column) < std::tie(b.where.line, b.where.column);
  });
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const unsigned code = code_point(text.substr(i));
    const std::size_t length = code == 0 ? 1 : (code < 0x800 ? 2 : 3);
    if (byte < 0x20 || byte == 0x7F) {
      out += escaped("\\x%02x", byte);
    } else if (is_steering(code)) {
      out += escaped("\\u%04x", code);
    } else {
      out += text.substr(i, length);
    }
    i += length;
  }
  return out;
}

std::string to_string(const SourceLocation& where) {
  std::string out = printable(where.file.text());
  if (where.line > 0) out += ':' + std::to_string(where.line) + ':' + std::to_string(where.column);
  return out;
}

std::string to_string(const Diagnostic& diagnostic) {
  std::string out = to_string(diagnostic.where);
  out += diagnostic.severity == Severity::error ? ": error: " : ": warning: ";
  return out + printable(diagnostic.text);
}

}  // namespace spidergen::diag
