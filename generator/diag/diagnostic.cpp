#include "diag/diagnostic.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

namespace spidergen::diag {

void Diagnostics::error(SourceLocation where, std::string text) {
  items.push_back({std::move(where), Severity::error, std::move(text)});
}

void Diagnostics::warning(SourceLocation where, std::string text) {
  items.push_back({std::move(where), Severity::warning, std::move(text)});
}

void Diagnostics::append(const Diagnostics& other) {
  items.insert(items.end(), other.items.begin(), other.items.end());
}

bool Diagnostics::has_errors() const {
  return std::any_of(items.begin(), items.end(),
                     [](const Diagnostic& d) { return d.severity == Severity::error; });
}

void Diagnostics::sort_by_location() {
  std::stable_sort(items.begin(), items.end(), [](const Diagnostic& a, const Diagnostic& b) {
    return std::tie(a.where.line, a.where.column) < std::tie(b.where.line, b.where.column);
  });
}

std::string to_string(const Diagnostic& diagnostic) {
  std::string out = diagnostic.where.file;
  if (diagnostic.where.line > 0) {
    out += ':' + std::to_string(diagnostic.where.line) + ':' + std::to_string(diagnostic.where.column);
  }
  out += diagnostic.severity == Severity::error ? ": error: " : ": warning: ";
  return out + diagnostic.text;
}

}  // namespace spidergen::diag
