#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/fields.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// A name that the spec gives, and its place.
struct GivenName {
  std::string name;
  diag::SourceLocation where;
  std::string what;  ///< "field 'c'"
};

/// The built-in meaning of a name in expressions; nothing for other names.
using OwnMeaning = std::optional<std::string> (*)(const std::string& name);

/// `ix`, `nx` and the like, which every expression of a point knows.
[[nodiscard]] std::optional<std::string> meaning_of_axes(const std::string& name);

/// The names that a spec gives, parameters among them. Every name has one meaning.
class GivenNames {
 public:
  /// `owner` names the expressions in which `own_meaning` applies: "updates".
  GivenNames(std::string owner, OwnMeaning own_meaning, Context& context)
      : owner_(std::move(owner)), own_meaning_(own_meaning), context_(&context) {}

  /// Adds the names of `parameters`; `checked`: reports those with a built-in meaning.
  void take_parameters(const Node& root, bool checked);

  /// Adds a name of `kind`; false where it is not allowed. Clashes are reported.
  bool take(const std::string& name, const diag::SourceLocation& where, const std::string& kind);

  [[nodiscard]] const std::vector<GivenName>& all() const { return given_; }

 private:
  void refuse(const diag::SourceLocation& where, std::string text);

  std::string owner_;
  OwnMeaning own_meaning_;
  Context* context_;
  std::vector<GivenName> given_;
  std::map<std::string, std::string> taken_;  ///< name to its owner
};

/// Reads `scalars`, a list of names.
[[nodiscard]] std::vector<std::string> read_scalars(const Node& root, GivenNames& names, Context& context);

}  // namespace spidergen::spec
