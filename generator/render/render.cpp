#include "render/render.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>
#include <utility>

#include "diag/diagnostic.h"

namespace spidergen::render {
namespace {

constexpr std::string_view placeholder_start = "${";

bool is_name(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

/// One pass over a template; records the bindings that it uses.
class Renderer {
 public:
  Renderer(const Template& source, const Bindings& bindings) : source_(source), bindings_(bindings) {}

  std::string run() {
    std::string_view rest = source_.text;
    while (!rest.empty()) {
      const std::size_t end = rest.find('\n');
      const bool terminated = end != std::string_view::npos;
      ++line_;
      render_line(rest.substr(0, end), terminated ? "\n" : "");
      rest.remove_prefix(terminated ? end + 1 : rest.size());
    }
    for (const auto& [name, value] : bindings_) {
      if (!used_.contains(name)) {
        throw diag::InternalError(
            fmt::format("{}: no placeholder uses the binding '{}'", source_.name, name));
      }
    }
    return std::move(output_);
  }

 private:
  void render_line(std::string_view line, std::string_view line_end) {
    std::size_t position = line.find(placeholder_start);
    if (position == line.find_first_not_of(" \t") && position != std::string_view::npos) {
      const std::string_view name = name_at(line, position);
      if (after(position, name) == line.size()) {
        render_block(line.substr(0, position), value_of(name, position), line_end);
        return;
      }
    }
    std::size_t copied = 0;
    for (; position != std::string_view::npos; position = line.find(placeholder_start, copied)) {
      const std::string_view name = name_at(line, position);
      const std::string_view value = value_of(name, position);
      if (value.find('\n') != std::string_view::npos) {
        fail(position, fmt::format("'{}' has several lines and must stand alone on its line", name));
      }
      output_.append(line.substr(copied, position - copied)).append(value);
      copied = after(position, name);
    }
    output_.append(line.substr(copied)).append(line_end);
  }

  /// Indented lines of the value; an empty line stays empty, so that no line ends in blanks.
  void render_block(std::string_view indentation, std::string_view value, std::string_view line_end) {
    while (!value.empty()) {
      const std::size_t end = std::min(value.find('\n'), value.size());
      if (end > 0) {
        output_.append(indentation).append(value.substr(0, end));
      }
      const bool last = end + 1 >= value.size();
      output_.append(last ? line_end : "\n");
      value.remove_prefix(last ? value.size() : end + 1);
    }
  }

  [[nodiscard]] std::string_view name_at(std::string_view line, std::size_t position) const {
    const std::size_t begin = position + placeholder_start.size();
    const std::size_t end = line.find('}', begin);
    const std::string_view name = line.substr(begin, end == std::string_view::npos ? end : end - begin);
    if (end == std::string_view::npos || !is_name(name)) {
      fail(position, "a placeholder is '${', lower-case letters, digits or underscores, and '}'");
    }
    return name;
  }

  static std::size_t after(std::size_t position, std::string_view name) {
    return position + placeholder_start.size() + name.size() + 1;
  }

  std::string_view value_of(std::string_view name, std::size_t position) {
    const auto found = bindings_.find(name);
    if (found == bindings_.end()) {
      fail(position, fmt::format("nothing is bound to the placeholder '{}'", name));
    }
    used_.insert(found->first);
    return found->second;
  }

  [[noreturn]] void fail(std::size_t position, std::string_view text) const {
    throw diag::InternalError(fmt::format("{}:{}:{}: {}", source_.name, line_, position + 1, text));
  }

  const Template& source_;
  const Bindings& bindings_;
  std::set<std::string_view> used_;
  std::size_t line_ = 0;
  std::string output_;
};

}  // namespace

std::string render(const Template& source, const Bindings& bindings) {
  return Renderer(source, bindings).run();
}

}  // namespace spidergen::render
