#pragma once

#include <cstdint>
#include <version>

#if defined(__cpp_lib_source_location)
#include <source_location>
#endif

namespace spider::emulator {

/// Where a kernel calls a collective: `CallSite::current()` as a default argument is the caller's place.
#if defined(__cpp_lib_source_location)
using CallSite = std::source_location;
#else
class CallSite {
 public:
  static constexpr CallSite current(const char* file = __builtin_FILE(),
                                    std::uint_least32_t line = __builtin_LINE()) {
    CallSite site;
    site.file_ = file;
    site.line_ = line;
    return site;
  }
  [[nodiscard]] constexpr const char* file_name() const { return file_; }
  [[nodiscard]] constexpr std::uint_least32_t line() const { return line_; }
  [[nodiscard]] constexpr std::uint_least32_t column() const { return column_; }

 private:
  const char* file_ = "";
  std::uint_least32_t line_ = 0;
  std::uint_least32_t column_ = 0;  // unknown
};
#endif

}  // namespace spider::emulator
