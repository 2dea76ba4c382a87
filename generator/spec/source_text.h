#pragma once

#include <string>
#include <string_view>

#include "diag/diagnostic.h"

namespace spidergen::spec {

/// The text that is parsed and hashed: without byte order mark, every CRLF and CR replaced by LF.
[[nodiscard]] std::string normalise(std::string_view text);

/// FNV-1a, 64 bits, as 16 lower-case hex digits. Parameters from http://www.isthe.com/chongo/tech/comp/fnv.
[[nodiscard]] std::string hash(std::string_view normalised_text);

/// Reports bytes that no spec may contain: control characters, invalid UTF-8, and tabs that indent a line.
/// False if any.
[[nodiscard]] bool check_bytes(std::string_view normalised_text, const std::string& file,
                               diag::Diagnostics& diagnostics);

/// The column, in characters, of a byte of a UTF-8 line; both count from 1.
[[nodiscard]] int character_column(std::string_view line, int byte_column);

/// Why a spec's file cannot have this name; empty where it can.
[[nodiscard]] std::string objection_to_file_name(std::string_view path);

/// A file's name without its folders; "-" is unchanged.
[[nodiscard]] std::string file_name(std::string_view path);

/// A file's name without folders and without its last extension.
[[nodiscard]] std::string file_stem(std::string_view path);

}  // namespace spidergen::spec
