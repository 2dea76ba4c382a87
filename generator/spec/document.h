#pragma once

#include <fmt/format.h>

#include <optional>
#include <string>
#include <string_view>

#include "diag/diagnostic.h"
#include "spec/fields.h"
#include "spec/read_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// The document being read, and the state that the readers of its keys share.
struct Document {
  const SpecSource& source;
  const Node& root;
  diag::SourceLocation start;  ///< where messages about missing keys point
  Context& context;

  [[nodiscard]] const Node* find(std::string_view key) const {
    const Entry* entry = find_entry(root, key);
    return entry ? &entry->value : nullptr;
  }

  [[nodiscard]] diag::SourceLocation place(std::string_view key) const {
    const Entry* entry = find_entry(root, key);
    return entry ? entry->where : start;
  }

  /// The value of a key that every spec has; `example` shows how to add it.
  [[nodiscard]] const Node* require(std::string_view key, std::string_view example) const {
    const Node* node = find(key);
    if (!node) context.diagnostics.error(start, fmt::format("'{}' is missing; add {}", key, example));
    return node;
  }
};

/// False for a spec of a later schema, whose keys may have other meanings.
[[nodiscard]] bool check_schema(const Document& document);

/// `stencil`, or the name that the command line gives; empty where it cannot be read.
[[nodiscard]] std::string read_name(const Document& document);

/// `description`; empty where it is absent or in error.
[[nodiscard]] std::string read_description(const Document& document);

[[nodiscard]] std::optional<int> read_dimensions(const Document& document);

/// A key that every spec has and that takes one of a few words.
template <typename Value>
[[nodiscard]] std::optional<Value> require_choice(const Document& document, const std::string& key,
                                                  const Choices<Value>& choices) {
  const Node* node = document.require(key, fmt::format("'{}: {}'", key, choices.front().first));
  return node ? read_choice(*node, fmt::format("'{}'", key), choices, document.context) : std::nullopt;
}

}  // namespace spidergen::spec
