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

/// What went wrong with a path, e.g. {"out/heat2d.cu", "cannot be written: Permission denied"}.
struct Problem {
  std::string path;
  std::string reason;

  bool operator==(const Problem&) const = default;
};

/// Creates the directory and writes the files that are not there with the same bytes already; those keep
/// their time stamps. All texts are on the disk under temporary names before the first file changes, and each
/// file changes at once: a reader sees the old or the new one. Returns what went wrong, if anything; no
/// temporary file is left behind, nor by SIGHUP, SIGINT, SIGQUIT or SIGTERM, which wait until all is written.
/// Throws diag::InternalError for a name with folders.
[[nodiscard]] std::optional<Problem> write_files(const std::filesystem::path& directory,
                                                 const std::vector<OutputFile>& files);

/// Creates the directory and in it a file that is not there yet. Returns what went wrong, if anything: a
/// file, link or folder of that name is left as it is, and no part of a file stays behind, whatever signal of
/// those comes meanwhile.
[[nodiscard]] std::optional<Problem> create_file(const std::filesystem::path& directory,
                                                 const OutputFile& file);

/// The files that are missing or differ from what write_files would write in more than the number behind the
/// words "spider-gen version", in the two lines that tell the generator's version. Writes nothing.
[[nodiscard]] std::vector<Problem> check_files(const std::filesystem::path& directory,
                                               const std::vector<OutputFile>& files);

}  // namespace spidergen::output
