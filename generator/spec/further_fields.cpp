#include "spec/further_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "spec/given_names.h"
#include "spec/names.h"
#include "spec/update.h"

namespace spidergen::spec {
namespace {

// The room in a launch (runtime/device/spider/kernel.h).
constexpr std::size_t most_fields = 8;

/// Names that updates know in addition to those of the spec.
std::optional<std::string> own_meaning(const std::string& name) {
  if (name == "u") return "the input";
  if (name == "sum") return "the stencil's sum";
  return meaning_of_axes(name);
}

class Reader {
 public:
  Reader(const Node& root, bool names_axes, StencilSpec& spec, Context& context)
      : root_(root),
        names_axes_(names_axes),
        spec_(spec),
        context_(context),
        names_("updates", own_meaning, context) {}

  void read() {
    const Entry* const update = find_entry(root_, "update");
    names_.take_parameters(root_, update != nullptr);
    read_sum_names();
    read_previous();
    read_fields();
    spec_.scalars = read_scalars(root_, names_, context_);
    if (update != nullptr) {
      read_update(*update);
    } else {
      for (const GivenName& one : names_.all())
        refuse(one.where, fmt::format("{} is of no use without 'update', which says what becomes of it; add "
                                      "'update: ...' or remove it",
                                      one.what));
    }
  }

 private:
  void refuse(const diag::SourceLocation& where, std::string text) {
    context_.diagnostics.error(where, std::move(text));
  }

  /// The sums were read before.
  void read_sum_names() {
    const Entry* const entry = find_entry(root_, "sums");
    if (entry == nullptr) return;
    names_sums_ = true;
    for (const Entry& sum : entry->value.entries) (void)names_.take(sum.key, sum.where, "sum");
  }

  void read_previous() {
    const Entry* const entry = find_entry(root_, "previous");
    if (entry == nullptr) return;
    if (!expect(entry->value, NodeKind::scalar,
                "'previous' is the name of the input one step back, such as u_old", context_))
      return;
    if (names_.take(entry->value.text, entry->value.where, "previous field"))
      spec_.previous = {entry->value.text, spec_.storage};
  }

  void read_fields() {
    const Entry* const entry = find_entry(root_, "fields");
    if (entry == nullptr) return;
    const Node& node = entry->value;
    if (node.kind == NodeKind::sequence) {
      for (const Node& item : node.items) {
        if (item.kind == NodeKind::mapping) {
          refuse(item.where,
                 "a list of 'fields' has names alone; where one has a storage, write a mapping of all, such "
                 "as fields: {c: {}, d: {storage: f16}}");
        } else if (expect(item, NodeKind::scalar, "'fields' lists names", context_)) {
          add_field(item.text, item.where, spec_.storage);
        }
      }
    } else if (node.kind == NodeKind::mapping) {
      for (const Entry& one : node.entries) add_field(one.key, one.where, read_storage(one));
    } else if (node.kind != NodeKind::refused) {
      refuse(node.where, fmt::format("'fields' is a list of names, or a mapping of names to their storage "
                                     "such as {{c: {{storage: f16}}}}, not {}",
                                     describe(node)));
      return;
    }
    if (node.items.empty() && node.entries.empty()) refuse(entry->where, "'fields' names none; remove it");
    if (spec_.fields.size() > most_fields) {
      refuse(entry->where,
             fmt::format("{} fields; a kernel takes at most {}", spec_.fields.size(), most_fields));
    }
  }

  void add_field(const std::string& name, const diag::SourceLocation& where, Storage storage) {
    if (names_.take(name, where, "field")) spec_.fields.push_back({name, storage});
  }

  Storage read_storage(const Entry& field) {
    const Node& node = field.value;
    if (node.kind == NodeKind::missing) return spec_.storage;
    const std::string what = fmt::format("field '{}'", field.key);
    if (!expect(node, NodeKind::mapping, what + " is a mapping such as {storage: f16}", context_))
      return spec_.storage;
    check_keys(node, {"storage"}, what, context_);
    const Entry* const storage = find_entry(node, "storage");
    if (storage == nullptr) return spec_.storage;
    const Storage found =
        read_choice(storage->value, "'storage'", float_storages(), context_).value_or(spec_.storage);
    if (found == Storage::f64 && spec_.storage != Storage::f64) {
      refuse(storage->value.where,
             fmt::format("{} of f64 goes with 'storage: f64' of the stencil, whose updates are computed in "
                         "f64; here they are in f32: write 'storage: f32'",
                         what));
    }
    return found;
  }

  [[nodiscard]] UpdateNames update_names() const {
    UpdateNames names;
    names["u"] = {UpdateOperation::input, 0, 0, {}, {}};
    for (std::size_t i = 0; i < spec_.sums.size(); ++i)
      names[spec_.sums[i].name] = {UpdateOperation::sum, 0, static_cast<int>(i), {}, {}};
    if (spec_.previous) names[spec_.previous->name] = {UpdateOperation::previous, 0, 0, {}, {}};
    for (std::size_t i = 0; i < spec_.fields.size(); ++i)
      names[spec_.fields[i].name] = {UpdateOperation::field, 0, static_cast<int>(i), {}, {}};
    for (std::size_t i = 0; i < spec_.scalars.size(); ++i)
      names[spec_.scalars[i]] = {UpdateOperation::scalar, 0, static_cast<int>(i), {}, {}};
    for (int axis = names_axes_ ? first_axis(spec_.dimensions) : 0; axis <= axis_x; ++axis) {
      names[fmt::format("i{}", axis_letters[axis])] = {UpdateOperation::index, 0, axis, {}, {}};
      names[fmt::format("n{}", axis_letters[axis])] = {UpdateOperation::extent, 0, axis, {}, {}};
    }
    return names;
  }

  void read_update(const Entry& entry) {
    const Node& node = entry.value;
    if (!expect(node, NodeKind::scalar, "'update' is an expression, such as 2*u - u_old + c*sum", context_))
      return;
    std::vector<std::string> used;
    auto parsed = parse_update(node.text, update_names(), context_.calculator, used);
    if (const auto* error = std::get_if<ExpressionError>(&parsed)) {
      if (!error->text.empty()) refuse(place_in_text(node, error->offset), "'update': " + error->text);
      return;
    }
    auto& update = std::get<Update>(parsed);
    check_numbers(update, node);
    const auto is_used = [&](const std::string& name) {
      return std::find(used.begin(), used.end(), name) != used.end();
    };
    for (const GivenName& one : names_.all()) {
      if (!is_used(one.name))
        refuse(one.where, fmt::format("{} is not used in 'update'; use it or remove it", one.what));
    }
    if (!names_sums_ && !is_used(std::string(only_sum)))
      refuse(node.where,
             "'update' does not use 'sum', the stencil: then nothing needs its coefficients; use it, as in "
             "u + 0.1*sum");
    const bool is_plain = update.nodes.size() == 1 && names_.all().size() == (names_sums_ ? 1 : 0);
    if (is_plain) return;  // the only sum, as without an update
    spec_.update = std::move(update);
  }

  /// Constants that the kernel uses must be representable in f32.
  void check_numbers(const Update& update, const Node& node) {
    if (spec_.storage == Storage::f64) return;
    for (const UpdateNode& one : update.nodes) {
      if (one.operation != UpdateOperation::number) continue;
      const auto single = static_cast<float>(one.value);
      if (std::isfinite(single) && (single != 0 || one.value == 0)) continue;
      refuse(node.where, fmt::format("'update': the constant {} is beyond f32, in which updates are "
                                     "computed; its numbers reach from 1e-45 to 3e38",
                                     one.value));
    }
  }

  const Node& root_;
  bool names_axes_;
  StencilSpec& spec_;
  Context& context_;
  bool names_sums_ = false;
  GivenNames names_;
};

}  // namespace

void read_further_fields(const Node& root, bool names_axes, StencilSpec& spec, Context& context) {
  Reader(root, names_axes, spec, context).read();
}

}  // namespace spidergen::spec
