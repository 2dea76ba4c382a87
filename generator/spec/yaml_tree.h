#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"

namespace spidergen::spec {

enum class NodeKind {
  missing,   ///< no value, or YAML's null
  scalar,    ///< text, quoted or not
  sequence,  ///< a list
  mapping,
  refused,  ///< already reported; readers skip it without a message
};

struct Entry;

/// A YAML value and its place. Only a scalar's text counts: `y`, `"y"` and `1.0` are texts.
struct Node {
  NodeKind kind = NodeKind::missing;
  diag::SourceLocation where;
  std::string text;            ///< of a scalar
  int text_column = 0;         ///< column of `text` where it is unbroken on one line; otherwise 0
  std::vector<Node> items;     ///< of a sequence
  std::vector<Entry> entries;  ///< of a mapping, in file order, without duplicate keys
};

/// One `key: value` of a mapping.
struct Entry {
  std::string key;
  diag::SourceLocation where;  ///< of the key
  Node value;
};

/// The place of one character of a scalar's text.
[[nodiscard]] diag::SourceLocation place_in_text(const Node& scalar, std::size_t offset);

/// The entry of a mapping with this key, or null.
[[nodiscard]] const Entry* find_entry(const Node& mapping, std::string_view key);

/// "text 'abc'", "a list", ...: for messages that describe a value.
[[nodiscard]] std::string describe(const Node& node);

/// Reads one YAML document into a tree. Reports unsupported YAML: tags, anchors, aliases, merge keys, keys
/// that are not scalars, duplicate keys, a second document, nesting deeper than 64, mappings of more than
/// 1000 entries, more than 600000 values, and syntax errors. Empty where nothing useful could be read; an
/// error has then been reported.
[[nodiscard]] std::optional<Node> read_yaml(const std::string& normalised_text, const std::string& file,
                                            diag::Diagnostics& diagnostics);

}  // namespace spidergen::spec
