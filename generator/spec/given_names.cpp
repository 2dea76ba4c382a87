#include "spec/given_names.h"

#include <fmt/format.h>

#include <cstddef>

#include "spec/expression.h"
#include "spec/names.h"

namespace spidergen::spec {
namespace {

/// "a field", "an operator".
std::string with_article(const std::string& kind) {
  return (kind.starts_with('o') ? "an " : "a ") + kind;
}

constexpr std::size_t most_scalars = 16;  // room in a launch (runtime/device/spider/kernel.h)

}  // namespace

std::optional<std::string> meaning_of_axes(const std::string& name) {
  if (name.size() != 2 || std::string("zyx").find(name[1]) == std::string::npos) return std::nullopt;
  if (name[0] == 'i') return "a point's index";
  if (name[0] == 'n') return "the field's extent";
  return std::nullopt;
}

void GivenNames::refuse(const diag::SourceLocation& where, std::string text) {
  context_->diagnostics.error(where, std::move(text));
}

void GivenNames::take_parameters(const Node& root, bool checked) {
  const Entry* const parameters = find_entry(root, "parameters");
  if (parameters == nullptr || parameters->value.kind != NodeKind::mapping) return;
  for (const Entry& parameter : parameters->value.entries) {
    const std::string what = fmt::format("parameter '{}'", parameter.key);
    if (const auto meaning = own_meaning_(parameter.key); meaning && checked) {
      refuse(parameter.where, fmt::format("{} clashes with {}, which {} call so; give it another name", what,
                                          *meaning, owner_));
    }
    taken_[parameter.key] = what;
  }
}

bool GivenNames::take(const std::string& name, const diag::SourceLocation& where, const std::string& kind) {
  if (!is_identifier(name)) {
    refuse(where, fmt::format("{} cannot name {}; use a letter or underscore, then letters, digits and "
                              "underscores",
                              shown(name), with_article(kind)));
    return false;
  }
  if (name.size() > longest_name) {
    refuse(where, fmt::format("{}'s name of {} characters is too long; use at most {}", with_article(kind),
                              name.size(), longest_name));
    return false;
  }
  const std::string what = fmt::format("{} '{}'", kind, name);
  given_.push_back({name, where, what});
  if (const auto meaning = own_meaning_(name)) {
    refuse(where,
           fmt::format("{} clashes with {}, which {} call so; give it another name", what, *meaning, owner_));
  } else if (is_built_in(name)) {
    refuse(where, fmt::format("'{}' is built into expressions; give the {} another name", name, kind));
  } else if (const auto [before, is_new] = taken_.try_emplace(name, what); !is_new) {
    refuse(where, fmt::format("{} has the name of {}; give one of them another", what,
                              before->second == what ? "another " + kind : before->second));
  }
  return true;
}

std::vector<std::string> read_scalars(const Node& root, GivenNames& names, Context& context) {
  std::vector<std::string> scalars;
  const Entry* const entry = find_entry(root, "scalars");
  if (entry == nullptr || !expect(entry->value, NodeKind::sequence, "'scalars' is a list of names", context))
    return scalars;
  for (const Node& item : entry->value.items) {
    if (expect(item, NodeKind::scalar, "'scalars' lists names", context) &&
        names.take(item.text, item.where, "scalar"))
      scalars.push_back(item.text);
  }
  if (entry->value.items.empty()) context.diagnostics.error(entry->where, "'scalars' names none; remove it");
  if (scalars.size() > most_scalars) {
    context.diagnostics.error(entry->where, "{} scalars; a kernel takes at most {}", scalars.size(),
                              most_scalars);
  }
  return scalars;
}

}  // namespace spidergen::spec
