#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace spidergen::output {

struct FileContents {
  std::string text;
  int error = 0;  ///< errno; 0 where `text` is what the file holds
};

/// The first bytes of a file, at most `most`: what is larger than anyone expects is not read to its end.
[[nodiscard]] FileContents read_file(const std::filesystem::path& path, std::size_t most);

/// What the system calls an errno, e.g. "No such file or directory".
[[nodiscard]] std::string system_reason(int error);

}  // namespace spidergen::output
