#include "text.h"

#include <array>
#include <charconv>

namespace spider::emulator {

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

std::string to_string(const CallSite& site) {
  std::string text = std::string(site.file_name()) + ':' + std::to_string(site.line());
  if (site.column() != 0) text += ':' + std::to_string(site.column());
  return text;
}

}  // namespace spider::emulator
