#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace spidergen::output {

struct OutputFile {
  std::string name;  ///< a plain file name, without folders
  std::string text;
};

/// The failure of a path, e.g. {"out/heat2d.cu", "cannot be written: Permission denied"}.
struct Problem {
  std::string path;
  std::string reason;

  bool operator==(const Problem&) const = default;
};

/// Creates the directory and writes the files whose bytes differ; the others are untouched, with their time
/// stamps. All texts are on the disk under temporary names before the first file changes. Each file is
/// replaced atomically: a reader sees the old or the new one. Returns the failure, if any. No temporary file
/// is left, even after SIGHUP, SIGINT, SIGQUIT or SIGTERM, which wait until all is written. Throws
/// diag::InternalError for a name with folders.
[[nodiscard]] std::optional<Problem> write_files(const std::filesystem::path& directory,
                                                 const std::vector<OutputFile>& files);

/// Creates the directory and a new file in it. Returns the failure, if any: an existing file, link or folder
/// of that name is unchanged, and no partial file is left, even after one of the signals above.
[[nodiscard]] std::optional<Problem> create_file(const std::filesystem::path& directory,
                                                 const OutputFile& file);

/// The files that are missing, or that differ from write_files' in more than the number after the words
/// "spider-gen version", in the two lines with the generator's version. Writes nothing.
[[nodiscard]] std::vector<Problem> check_files(const std::filesystem::path& directory,
                                               const std::vector<OutputFile>& files);

}  // namespace spidergen::output
