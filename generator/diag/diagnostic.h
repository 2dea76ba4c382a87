#pragma once

#include <fmt/format.h>

#include <compare>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace spidergen::diag {

/// The name of a file, shared by all locations in it: a spec may have hundreds of thousands.
class FileName {
 public:
  FileName() = default;
  FileName(std::string name) : name_(std::make_shared<const std::string>(std::move(name))) {}
  FileName(const char* name) : FileName(std::string(name)) {}

  [[nodiscard]] std::string_view text() const {
    return name_ ? std::string_view(*name_) : std::string_view();
  }

  bool operator==(const FileName& other) const { return name_ == other.name_ || text() == other.text(); }
  auto operator<=>(const FileName& other) const { return text() <=> other.text(); }

 private:
  std::shared_ptr<const std::string> name_;
};

/// A place in a spec. `line` and `column` count from 1; 0 means the file as a whole.
struct SourceLocation {
  FileName file;
  int line = 0;
  int column = 0;

  auto operator<=>(const SourceLocation&) const = default;
};

enum class Severity { error, warning };

/// One message to the user: the error, and the correction.
struct Diagnostic {
  SourceLocation where;
  Severity severity = Severity::error;
  std::string text;

  bool operator==(const Diagnostic&) const = default;
};

/// Further errors of a spec are not reported: nobody reads them, and a large file may have very many.
inline constexpr std::size_t most_errors = 100;

/// The diagnostics of one spec, in order of detection.
struct Diagnostics {
  std::vector<Diagnostic> items;
  std::size_t errors = 0;  ///< among `items`

  /// Adds an error; does nothing once there are `most_errors`.
  void error(SourceLocation where, std::string text);
  void warning(SourceLocation where, std::string text);
  /// The same of a format and its arguments.
  template <class First, class... Rest>
  void error(SourceLocation where, fmt::format_string<First, Rest...> format, First&& first, Rest&&... rest) {
    error(std::move(where), fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  template <class First, class... Rest>
  void warning(SourceLocation where, fmt::format_string<First, Rest...> format, First&& first,
               Rest&&... rest) {
    warning(std::move(where), fmt::format(format, std::forward<First>(first), std::forward<Rest>(rest)...));
  }
  void append(const Diagnostics& other);
  [[nodiscard]] bool has_errors() const { return errors > 0; }
  /// Whether further errors are dropped.
  [[nodiscard]] bool full() const { return errors >= most_errors; }
  /// Sorts by place, so that a file's messages read from top to bottom; stable for equal places.
  void sort_by_location();
};

/// The text with every character that could control a terminal, or reorder its output, escaped, such as
/// `\x1b` or `\u202e`.
[[nodiscard]] std::string printable(std::string_view text);

/// `file:line:column`, printable; line and column are left out where they are 0.
[[nodiscard]] std::string to_string(const SourceLocation& where);

/// `file:line:column: error: text`, printable; line and column are left out where they are 0.
[[nodiscard]] std::string to_string(const Diagnostic& diagnostic);

/// A bug of the generator: what() names the broken promise. Users should never see one.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace spidergen::diag
