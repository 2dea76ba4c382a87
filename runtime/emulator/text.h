#pragma once

#include <spider/call_site.h>

#include <cstdint>
#include <string>

namespace spider::emulator {

/// `0xd9c8c84e`, without leading zeros.
[[nodiscard]] std::string hexadecimal(std::uint64_t value);

/// `file:line:column`.
[[nodiscard]] std::string to_string(const CallSite& site);

}  // namespace spider::emulator
