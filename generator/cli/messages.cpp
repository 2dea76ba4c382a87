#include "cli/messages.h"

#include <string>

namespace spidergen::cli {
namespace {

// ECMA-48, section 8.3.117 (SGR): bold; bold and red; bold and magenta; all off.
constexpr std::string_view bold = "\x1b[1m";
constexpr std::string_view bold_red = "\x1b[1;31m";
constexpr std::string_view bold_magenta = "\x1b[1;35m";
constexpr std::string_view plain = "\x1b[0m";

}  // namespace

void Messages::print(const diag::Diagnostic& diagnostic) const {
  line(diag::to_string(diagnostic.where), diagnostic.severity, diagnostic.text);
}

void Messages::error(std::string_view place, std::string_view text) const {
  line(place, diag::Severity::error, text);
}

void Messages::line(std::string_view place, diag::Severity severity, std::string_view text) const {
  const bool is_error = severity == diag::Severity::error;
  const std::string words = diag::printable(place) + ": ";
  const std::string_view kind = is_error ? "error: " : "warning: ";
  if (coloured_) {
    stream_ << bold << words << (is_error ? bold_red : bold_magenta) << kind << plain;
  } else {
    stream_ << words << kind;
  }
  stream_ << diag::printable(text) << '\n';
}

}  // namespace spidergen::cli
