#include "spec/yaml_syntax.h"

#include <fmt/format.h>

namespace spidergen::spec {
namespace {

struct SyntaxHint {
  std::string_view message;  ///< the beginning of yaml-cpp's message
  std::string_view hint;
};

// yaml-cpp's messages, explained for the author of the file.
constexpr SyntaxHint syntax_hints[] = {
    {"end of sequence flow", "close the list with ']' and separate its entries by commas"},
    {"end of map flow",
     "close the mapping with '}', separate its entries by commas, and quote text that holds brackets or "
     "commas"},
    {"end of sequence", "begin the lines of one list in one column"},
    {"end of map", "begin the lines of one mapping in one column"},
    {"illegal flow end", "remove the bracket or open it before"},
    {"illegal map value", "check the indentation, end every key with ':', and quote text that holds ': '"},
    {"illegal map key", "check the indentation"},
    {"illegal block entry", "begin the list on a line of its own"},
    {"unknown token", "quote text that begins with this character"},
    {"unknown escape character", "use single quotes, in which a backslash is only that"},
    {"the referenced anchor", "quote text that begins with '*'; aliases are not read"},
    {"alias not found", "quote text that begins with '*'"},
    {"anchor not found", "quote text that begins with '&'"},
    {"illegal EOF in scalar", "close the quotes"},
};

}  // namespace

std::string explain(const std::string& message) {
  for (const SyntaxHint& known : syntax_hints) {
    if (message.rfind(known.message, 0) == 0)
      return fmt::format("not valid YAML: {}; {}", message, known.hint);
  }
  return fmt::format("not valid YAML: {}", message);
}

bool is_closed(std::string_view text, std::size_t begin) {
  const char quote = text[begin];
  for (std::size_t i = begin + 1; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (text[i] == quote) {
      const bool doubled = quote == '\'' && i + 1 < text.size() && text[i + 1] == quote;
      if (!doubled) return true;
      ++i;
    }
  }
  return false;
}

}  // namespace spidergen::spec
