#include "output/output.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <system_error>
#include <utility>

#include "diag/diagnostic.h"
#include "output/read_file.h"

namespace spidergen::output {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view version_words = "spider-gen version ";

/// While it lives, what a user or a build ends us with (^C, a closed terminal, kill) waits: it would leave
/// temporary files behind. Writing takes milliseconds, and the signal comes into its own right after.
class HeldSignals {
 public:
  HeldSignals() {
    sigset_t held;
    sigemptyset(&held);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) sigaddset(&held, signal);
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  HeldSignals(const HeldSignals&) = delete;
  HeldSignals& operator=(const HeldSignals&) = delete;
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_{};
};

/// Writes all bytes to an open file; 0 or the cause.
int write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return errno;
    }
    text.remove_prefix(written > 0 ? static_cast<std::size_t>(written) : 0);
  }
  return 0;
}

/// A new text beside the file that it will replace; removed if it never does.
class PreparedFile {
 public:
  explicit PreparedFile(fs::path target) : target_(std::move(target)) {}
  PreparedFile(PreparedFile&& other) noexcept
      : target_(std::move(other.target_)), temporary_(std::exchange(other.temporary_, {})) {}
  PreparedFile(const PreparedFile&) = delete;
  PreparedFile& operator=(const PreparedFile&) = delete;
  PreparedFile& operator=(PreparedFile&&) = delete;
  ~PreparedFile() {
    if (!temporary_.empty()) {
      ::unlink(temporary_.c_str());
    }
  }

  /// 0 or the cause.
  int prepare(std::string_view text) {
    int descriptor = -1;
    // Another run that writes the same files, or what a killed one left, must not share our temporary file.
    for (int attempt = 0; descriptor < 0; ++attempt) {
      fs::path candidate =
          target_.parent_path() / fmt::format(".{}.{}.{}", target_.filename().string(), getpid(), attempt);
      descriptor = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
      if (descriptor >= 0) {
        temporary_ = std::move(candidate);
      } else if (errno != EEXIST) {
        return errno;
      }
    }
    const int write_error = write_all(descriptor, text);
    const int close_error = ::close(descriptor) == 0 ? 0 : errno;
    return write_error != 0 ? write_error : close_error;
  }

  /// 0 or the cause.
  int replace_target() {
    if (::rename(temporary_.c_str(), target_.c_str()) != 0) {
      return errno;
    }
    temporary_.clear();
    return 0;
  }

  [[nodiscard]] const fs::path& target() const { return target_; }

 private:
  fs::path target_;
  fs::path temporary_;  ///< empty where there is nothing to remove
};

fs::path path_of(const fs::path& directory, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos) {
    throw diag::InternalError(fmt::format("'{}' is no plain file name", name));
  }
  return directory / name;
}

Problem cannot(std::string_view what, const fs::path& path, int error) {
  return {path.string(), fmt::format("cannot be {}: {}", what, system_reason(error))};
}

/// Something that can be opened and is neither a file nor a folder, such as a pipe, which would keep us
/// waiting.
bool is_special(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  return !error && fs::exists(status) && !fs::is_regular_file(status) && !fs::is_directory(status);
}

Problem not_ordinary(const fs::path& path) {
  return {path.string(), "is no ordinary file; remove it or take another folder"};
}

/// The text with every version number behind `version_words` replaced by a blank.
std::string without_versions(std::string_view text) {
  std::string rest;
  for (;;) {
    const std::size_t found = text.find(version_words);
    if (found == std::string_view::npos) {
      return rest.append(text);
    }
    const std::size_t number = found + version_words.size();
    rest.append(text.substr(0, number));
    text.remove_prefix(number);
    // Digits, dots and letters, as in 1.2.0rc1.
    const auto is_version = [](unsigned char c) { return std::isalnum(c) != 0 || c == '.'; };
    text.remove_prefix(
        static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_version) - text.begin()));
  }
}

}  // namespace

std::optional<Problem> write_files(const fs::path& directory, const std::vector<OutputFile>& files) {
  std::vector<std::pair<fs::path, std::string_view>> wanted;
  wanted.reserve(files.size());
  for (const OutputFile& file : files) {
    wanted.emplace_back(path_of(directory, file.name), file.text);
  }
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) {
    return cannot("created", directory, error.value());
  }
  const HeldSignals held;  // before the files, so that they are removed while it lives
  std::vector<PreparedFile> changes;
  for (const auto& [path, text] : wanted) {
    if (fs::is_directory(path, error)) {
      return cannot("written", path, EISDIR);
    }
    if (is_special(path)) return not_ordinary(path);
    if (const FileContents old = read_file(path, text.size() + 1); old.error == 0 && old.text == text) {
      continue;
    }
    if (const int cause = changes.emplace_back(path).prepare(text); cause != 0) {
      return cannot("written", path, cause);
    }
  }
  for (PreparedFile& change : changes) {
    if (const int cause = change.replace_target(); cause != 0) {
      return cannot("written", change.target(), cause);
    }
  }
  return std::nullopt;
}

std::optional<Problem> create_file(const fs::path& directory, const OutputFile& file) {
  const fs::path path = path_of(directory, file.name);
  std::error_code error;
  fs::create_directories(directory, error);
  if (error) return cannot("created", directory, error.value());
  const HeldSignals held;
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0 && errno == EEXIST) {
    return Problem{path.string(), "is there already; remove it or take another name"};
  }
  if (descriptor < 0) return cannot("created", path, errno);
  const int write_error = write_all(descriptor, file.text);
  const int close_error = ::close(descriptor) == 0 ? 0 : errno;
  if (write_error == 0 && close_error == 0) return std::nullopt;
  ::unlink(path.c_str());
  return cannot("written", path, write_error != 0 ? write_error : close_error);
}

std::vector<Problem> check_files(const fs::path& directory, const std::vector<OutputFile>& files) {
  std::vector<Problem> problems;
  for (const OutputFile& file : files) {
    const fs::path path = path_of(directory, file.name);
    if (is_special(path)) {
      problems.push_back(not_ordinary(path));
      continue;
    }
    constexpr std::size_t longest_version = 1000;  // the one part that may differ
    const FileContents found = read_file(path, file.text.size() + longest_version);
    if (found.error == ENOENT) {
      problems.push_back({path.string(), "is missing"});
    } else if (found.error != 0) {
      problems.push_back(cannot("read", path, found.error));
    } else if (without_versions(found.text) != without_versions(file.text)) {
      problems.push_back({path.string(), "is not up to date"});
    }
  }
  return problems;
}

}  // namespace spidergen::output
