#pragma once

#include <compare>
#include <stdexcept>
#include <string>
#include <vector>

namespace spidergen::diag {

/// A place in a spec. `line` and `column` count from 1; 0 means that the place is the file as a whole.
struct SourceLocation {
  std::string file;
  int line = 0;
  int column = 0;

  auto operator<=>(const SourceLocation&) const = default;
};

enum class Severity { error, warning };

/// One thing to tell the user: what is wrong, and what would be right.
struct Diagnostic {
  SourceLocation where;
  Severity severity = Severity::error;
  std::string text;

  bool operator==(const Diagnostic&) const = default;
};

/// The diagnostics of one spec in the order in which they were found.
struct Diagnostics {
  std::vector<Diagnostic> items;

  void error(SourceLocation where, std::string text);
  void warning(SourceLocation where, std::string text);
  void append(const Diagnostics& other);
  [[nodiscard]] bool has_errors() const;
  /// Sorts by place, so that a file's messages read from top to bottom; equal places keep their order.
  void sort_by_location();
};

/// `file:line:column: error: text`; line and column are left out where they are 0.
[[nodiscard]] std::string to_string(const Diagnostic& diagnostic);

/// A bug of ours: what() says which promise was broken. Users should never see one.
class InternalError : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

}  // namespace spidergen::diag
