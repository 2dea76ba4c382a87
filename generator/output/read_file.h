#pragma once

#include <cstddef>
#include <filesystem>
#include <string>

namespace spidergen::output {

struct FileContents {
  std::string text;
  int error = 0;  ///< errno; 0 where `text` is the file's content
};

/// The first bytes of a file, at most `most`: unexpectedly large files are not read to the end.
[[nodiscard]] FileContents read_file(const std::filesystem::path& path, std::size_t most);

/// The system's text for an errno, e.g. "No such file or directory".
[[nodiscard]] std::string system_reason(int error);

}  // namespace spidergen::output
