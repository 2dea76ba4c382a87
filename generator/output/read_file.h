#pragma once

#include <filesystem>
#include <string>

namespace spidergen::output {

struct FileContents {
  std::string text;
  int error = 0;  ///< errno; 0 where `text` is all of the file
};

/// The bytes of a file.
[[nodiscard]] FileContents read_file(const std::filesystem::path& path);

/// What the system calls an errno, e.g. "No such file or directory".
[[nodiscard]] std::string system_reason(int error);

}  // namespace spidergen::output
