#include "output/output.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "diag/diagnostic.h"

namespace spidergen::output {
namespace {

namespace fs = std::filesystem;

/// A folder of its own for every test.
class Output : public testing::Test {
 protected:
  Output() {
    std::string pattern = (fs::temp_directory_path() / "spider-output-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) {
      throw std::runtime_error("no temporary folder");
    }
    folder_ = pattern;
  }
  ~Output() override { fs::remove_all(folder_); }

  std::string text(const std::string& name) const {
    std::ifstream stream(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  std::set<std::string> names() const {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder_)) {
      all.insert(entry.path().filename().string());
    }
    return all;
  }

  fs::path folder_;
};

TEST_F(Output, CreatesFoldersAndFiles) {
  const fs::path deep = folder_ / "a" / "b";
  EXPECT_FALSE(write_files(deep, {{"x.cu", "one\n"}, {"x.h", "two\n"}}));
  EXPECT_EQ(text("a/b/x.cu"), "one\n");
  EXPECT_EQ(text("a/b/x.h"), "two\n");
}

TEST_F(Output, KeepsTheTimeStampOfAnUnchangedFile) {
  const fs::path path = folder_ / "x.h";
  ASSERT_FALSE(write_files(folder_, {{"x.h", "one\n"}}));
  const auto old = fs::last_write_time(path) - std::chrono::hours(1);
  fs::last_write_time(path, old);
  EXPECT_FALSE(write_files(folder_, {{"x.h", "one\n"}}));
  EXPECT_EQ(fs::last_write_time(path), old);
  EXPECT_FALSE(write_files(folder_, {{"x.h", "two\n"}}));
  EXPECT_NE(fs::last_write_time(path), old);
  EXPECT_EQ(text("x.h"), "two\n");
}

TEST_F(Output, ChangesNothingWhereOneFileCannotBeWritten) {
  put("x.cu", "old");
  fs::create_directory(folder_ / "x.h");
  const auto problem = write_files(folder_, {{"x.cu", "new"}, {"x.h", "new"}});
  ASSERT_TRUE(problem);
  EXPECT_EQ(*problem, (Problem{(folder_ / "x.h").string(), "cannot be written: Is a directory"}));
  EXPECT_EQ(text("x.cu"), "old");
  EXPECT_EQ(names(), (std::set<std::string>{"x.cu", "x.h"}));
}

TEST_F(Output, SaysWhyAFolderCannotBeCreated) {
  put("file", "");
  const auto problem = write_files(folder_ / "file" / "below", {{"x.h", ""}});
  ASSERT_TRUE(problem);
  EXPECT_EQ(*problem, (Problem{(folder_ / "file" / "below").string(), "cannot be created: Not a directory"}));
}

TEST_F(Output, LeavesNoOtherFileBehind) {
  ASSERT_FALSE(write_files(folder_, {{"x.h", "one"}}));
  ASSERT_FALSE(write_files(folder_, {{"x.h", "two"}}));
  EXPECT_EQ(names(), std::set<std::string>{"x.h"});
}

TEST_F(Output, WorksBesideTheLeftoverOfAKilledRun) {
  const std::string leftover = ".x.h." + std::to_string(getpid()) + ".0";
  put(leftover, "half");
  EXPECT_FALSE(write_files(folder_, {{"x.h", "one"}}));
  EXPECT_EQ(text("x.h"), "one");
  EXPECT_EQ(text(leftover), "half");
}

TEST_F(Output, ReplacesALinkInsteadOfWritingThroughIt) {
  put("elsewhere", "mine");
  fs::create_symlink(folder_ / "elsewhere", folder_ / "x.h");
  EXPECT_FALSE(write_files(folder_, {{"x.h", "one"}}));
  EXPECT_EQ(text("elsewhere"), "mine");
  EXPECT_EQ(text("x.h"), "one");
}

TEST_F(Output, RefusesNamesWithFolders) {
  for (const char* name : {"../x.h", "a/x.h", "..", "", "/x.h"}) {
    EXPECT_THROW((void)write_files(folder_, {{name, ""}}), diag::InternalError) << name;
    EXPECT_THROW((void)check_files(folder_, {{name, ""}}), diag::InternalError) << name;
  }
  EXPECT_TRUE(names().empty());
}

TEST_F(Output, ChecksWithoutWriting) {
  put("same.h", "a\nb\n");
  put("stale.h", "a\n");
  const auto problems = check_files(folder_, {{"same.h", "a\nb\n"}, {"stale.h", "b\n"}, {"absent.h", ""}});
  EXPECT_EQ(problems, (std::vector<Problem>{{(folder_ / "stale.h").string(), "is not up to date"},
                                            {(folder_ / "absent.h").string(), "is missing"}}));
  EXPECT_EQ(names(), (std::set<std::string>{"same.h", "stale.h"}));
  EXPECT_EQ(text("stale.h"), "a\n");
}

TEST_F(Output, SaysWhyAFileCannotBeChecked) {
  fs::create_directory(folder_ / "x.h");
  EXPECT_EQ(check_files(folder_, {{"x.h", ""}}),
            (std::vector<Problem>{{(folder_ / "x.h").string(), "cannot be read: Is a directory"}}));
}

TEST_F(Output, ChecksAllButTheVersionLine) {
  put("x.h", "// spider-gen version 0.1.0\nint a;\n");
  EXPECT_TRUE(check_files(folder_, {{"x.h", "// spider-gen version 0.2.0\nint a;\n"}}).empty());
  EXPECT_FALSE(check_files(folder_, {{"x.h", "// spider-gen version 0.2.0\nint b;\n"}}).empty());
  EXPECT_FALSE(check_files(folder_, {{"x.h", "// spider-gen version 0.2.0\nint a;"}}).empty());
  // What else stands on such a line counts: the spec's hash, code.
  EXPECT_FALSE(check_files(folder_, {{"x.h", "// spider-gen version 0.1.0 (hash 1)\nint a;\n"}}).empty());
  EXPECT_FALSE(check_files(folder_, {{"x.h", "int b;  // spider-gen version 0.1.0\nint a;\n"}}).empty());
}

TEST_F(Output, ChecksInAFolderThatIsNotThere) {
  const fs::path absent = folder_ / "absent";
  EXPECT_EQ(check_files(absent, {{"x.h", ""}}),
            (std::vector<Problem>{{(absent / "x.h").string(), "is missing"}}));
  EXPECT_FALSE(fs::exists(absent));
}

TEST_F(Output, DoesNotWaitForPipes) {
  ASSERT_EQ(mkfifo((folder_ / "a").c_str(), 0600), 0);
  const Problem expected{(folder_ / "a").string(), "is no ordinary file; remove it or take another folder"};
  EXPECT_EQ(write_files(folder_, {{"a", "text"}}), expected);
  EXPECT_EQ(check_files(folder_, {{"a", "text"}}), std::vector<Problem>{expected});
  EXPECT_EQ(names(), std::set<std::string>{"a"});
}

TEST_F(Output, ReplacesALinkAndNotWhatItLeadsTo) {
  put("precious", "old");
  fs::create_symlink("precious", folder_ / "a");
  EXPECT_EQ(write_files(folder_, {{"a", "new"}}), std::nullopt);
  EXPECT_EQ(text("precious"), "old");
  EXPECT_EQ(text("a"), "new");
}

/// While it lives, files cannot grow beyond some bytes: what a full disk does.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) : old_handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit small{bytes, old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
  }
  SmallFiles(const SmallFiles&) = delete;
  SmallFiles& operator=(const SmallFiles&) = delete;
  ~SmallFiles() {
    setrlimit(RLIMIT_FSIZE, &old_);
    (void)std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_{};
  void (*old_handler_)(int);
};

TEST_F(Output, LeavesNoPartOfAFileBehind) {
  put("a", "old");
  const std::string large(100'000, 'x');
  std::optional<Problem> written;
  std::optional<Problem> created;
  {
    const SmallFiles limit(10'000);
    written = write_files(folder_, {{"a", large}, {"b", large}});
    created = create_file(folder_, {"c", large});
  }
  EXPECT_EQ(written, (Problem{(folder_ / "a").string(), "cannot be written: File too large"}));
  EXPECT_EQ(created, (Problem{(folder_ / "c").string(), "cannot be written: File too large"}));
  EXPECT_EQ(names(), std::set<std::string>{"a"});
  EXPECT_EQ(text("a"), "old");
}

bool is_temporary(const std::string& name) {
  return name.starts_with(".");
}

/// A process of its own writes the files, and gets the signal as soon as the folder has a temporary one.
/// Returns how it ended, for waitpid's macros; nothing where it was through before that was seen.
std::optional<int> interrupted_writing(const fs::path& folder, const std::vector<OutputFile>& files,
                                       int signal) {
  const pid_t writer = fork();
  if (writer == 0) {
    const rlimit none{};
    setrlimit(RLIMIT_CORE, &none);  // SIGQUIT would leave an image of the process
    _exit(write_files(folder, files) ? 1 : 0);
  }
  bool seen = false;
  int status = 0;
  while (waitpid(writer, &status, WNOHANG) == 0) {
    if (seen) continue;
    std::error_code error;  // entries come and go while we look
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
      seen = seen || is_temporary(entry->path().filename().string());
    if (seen) kill(writer, signal);
  }
  return seen ? std::optional(status) : std::nullopt;
}

TEST_F(Output, WritesAllBeforeASignalEndsIt) {
  std::vector<OutputFile> files;
  for (int i = 0; i < 300; ++i) files.push_back({std::to_string(i), std::string(20'000, 'x')});
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM}) {
    std::optional<int> status;
    for (int attempt = 0; attempt < 50 && !status; ++attempt) {
      fs::remove_all(folder_);
      fs::create_directory(folder_);
      status = interrupted_writing(folder_, files, signal);
    }
    ASSERT_TRUE(status) << "the writer was always faster";
    EXPECT_TRUE(WIFSIGNALED(*status) && WTERMSIG(*status) == signal) << "status " << *status;
    const std::set<std::string> left = names();
    EXPECT_EQ(left.size(), files.size());
    EXPECT_EQ(std::count_if(left.begin(), left.end(), is_temporary), 0);
  }
}

TEST_F(Output, CreatesAFileOnlyOnce) {
  EXPECT_EQ(create_file(folder_ / "new", {"a", "first"}), std::nullopt);
  EXPECT_EQ(text("new/a"), "first");
  EXPECT_EQ(create_file(folder_ / "new", {"a", "second"}),
            (Problem{(folder_ / "new/a").string(), "is there already; remove it or take another name"}));
  EXPECT_EQ(text("new/a"), "first");
  EXPECT_EQ(create_file(folder_ / "new/a", {"b", "x"})->reason, "cannot be created: Not a directory");
}

}  // namespace
}  // namespace spidergen::output
