#pragma once

#include <iosfwd>
#include <string_view>

#include "diag/diagnostic.h"

namespace spidergen::cli {

/// Writes messages, a line each, to a stream: `place: error: text`. Colours them on a terminal; the text is
/// the same.
class Messages {
 public:
  Messages(std::ostream& stream, bool coloured) : stream_(stream), coloured_(coloured) {}

  void print(const diag::Diagnostic& diagnostic) const;
  /// `place` is a path or the program.
  void error(std::string_view place, std::string_view text) const;

 private:
  void line(std::string_view place, diag::Severity severity, std::string_view text) const;

  std::ostream& stream_;
  bool coloured_;
};

}  // namespace spidergen::cli
