#include "spec/document.h"

#include <cmath>

#include "spec/names.h"
#include "spec/source_text.h"

namespace spidergen::spec {
namespace {

constexpr int newest_schema = 1;
constexpr std::size_t longest_description = 500;

/// Why a text cannot be a comment in generated files; empty where it can.
std::string objection_to_description(std::string_view text) {
  if (text.find_first_of("\n\t") != std::string_view::npos)
    return "'description' is one line without tabs; shorten it";
  if (text.size() > longest_description)
    return fmt::format("'description' is one line of at most {} bytes; shorten it", longest_description);
  if (diag::printable(text) != text) {
    return "'description' holds a control character, or a mark that turns the direction of text; leave it "
           "out";
  }
  const bool ends_comment =
      text.find("*/") != std::string_view::npos || text.find("/*") != std::string_view::npos;
  if (ends_comment || text.ends_with('\\') || text.ends_with("?\?/")) {  // C99's trigraph for the backslash
    return "'description' becomes a comment of the generated files; leave out '/*', '*/' and a final "
           "backslash";
  }
  return {};
}

}  // namespace

bool check_schema(const Document& document) {
  const Node* node = document.find("schema");
  if (!node) return true;
  const std::optional<double> schema = read_number(*node, "'schema'", document.context);
  if (!schema) return true;
  const bool is_whole = std::trunc(*schema) == *schema;
  if (is_whole && *schema > newest_schema) {
    document.context.diagnostics.error(
        node->where, "schema {} needs a newer spider-gen; this one reads schema {}", *schema, newest_schema);
    return false;
  }
  if (!is_whole || *schema < 1) {
    document.context.diagnostics.error(node->where, "'schema' is a whole number from 1 on, not {}",
                                       describe(*node));
  }
  return true;
}

std::string read_name(const Document& document) {
  const std::string stem = file_stem(document.source.path);
  const Node* node =
      document.require("stencil", "'stencil: NAME', where NAME is the file's name without .yaml");
  if (!node || !expect(*node, NodeKind::scalar, "'stencil' is the stencil's name", document.context))
    return {};
  const std::string objection = objection_to_stencil_name(node->text);
  if (!objection.empty()) {
    document.context.diagnostics.error(node->where, objection);
  } else if (document.source.path != "-" && node->text != stem) {
    document.context.diagnostics.error(
        node->where, "stencil '{}' stands in a file called '{}'; the names agree, so rename one of them",
        node->text, stem);
  }
  return document.source.name.empty() ? node->text : document.source.name;
}

std::string read_description(const Document& document) {
  const Node* node = document.find("description");
  if (!node || !expect(*node, NodeKind::scalar, "'description' is a line of text", document.context))
    return {};
  std::string text =
      node->text.substr(0, node->text.find_last_not_of(" \n") + 1);  // block texts end with a line break
  const std::string objection = objection_to_description(text);
  if (objection.empty()) return text;
  document.context.diagnostics.error(node->where, objection);
  return {};
}

std::optional<int> read_dimensions(const Document& document) {
  const Node* node = document.require("dimensions", "'dimensions: 2' (or 1 or 3)");
  return node ? read_whole(*node, "'dimensions'", 1, 3, document.context) : std::nullopt;
}

}  // namespace spidergen::spec
