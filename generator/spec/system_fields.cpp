#include "spec/system_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>

#include "spec/boundary.h"
#include "spec/names.h"

namespace spidergen::spec {
namespace {

class Reader {
 public:
  Reader(const Document& document, int dimensions, Storage storage, GivenNames& names)
      : document_(document),
        context_(document.context),
        dimensions_(dimensions),
        storage_(storage),
        names_(names) {}

  std::vector<SystemField> read() {
    // Constants are checked field by field.
    common_ = read_boundary(document_.find("boundary"), dimensions_, Storage::f64, document_.start, context_);
    const Node* const node =
        document_.require("fields", "'fields: [u, v]', the names of the system's fields");
    if (node != nullptr) read_list(*node);
    return std::move(fields_);
  }

 private:
  void refuse(const diag::SourceLocation& where, std::string text) {
    context_.diagnostics.error(where, std::move(text));
  }

  void read_list(const Node& node) {
    if (node.kind == NodeKind::sequence) {
      for (const Node& item : node.items) {
        if (item.kind == NodeKind::mapping) {
          refuse(item.where,
                 "a list of 'fields' has names alone; where one has keys, write a mapping of all, such as "
                 "fields: {u: {}, c: {storage: f16}}");
        } else if (expect(item, NodeKind::scalar, "'fields' lists names", context_)) {
          add_field(item.text, item.where, nullptr);
        }
      }
    } else if (node.kind == NodeKind::mapping) {
      for (const Entry& one : node.entries) add_field(one.key, one.where, &one.value);
    } else if (node.kind != NodeKind::refused) {
      refuse(node.where, fmt::format("'fields' is a list of names, or a mapping of names to their keys such "
                                     "as {{c: {{storage: f16}}}}, not {}",
                                     describe(node)));
      return;
    }
    if (node.items.empty() && node.entries.empty())
      refuse(node.where, "'fields' names none; a system has at least one");
    if (fields_.size() > most_system_fields) {
      refuse(node.where,
             fmt::format("{} fields; a system has at most {}", fields_.size(), most_system_fields));
    }
  }

  void add_field(const std::string& name, const diag::SourceLocation& where, const Node* keys) {
    if (!names_.take(name, where, "field")) return;
    SystemField field;
    field.name = name;
    field.storage = storage_;
    field.where = where;
    for (int axis = first_axis(dimensions_); axis <= axis_x; ++axis)
      field.axes[static_cast<std::size_t>(axis)] = true;
    const std::string what = fmt::format("field '{}'", name);
    const bool has_keys =
        keys != nullptr && keys->kind != NodeKind::missing &&
        expect(*keys, NodeKind::mapping, what + " is a mapping such as {storage: f16}", context_);
    const Entry* boundary = nullptr;
    if (has_keys) {
      check_keys(*keys, {"storage", "boundary", "axes"}, what, context_);
      if (const Entry* storage = find_entry(*keys, "storage")) {
        field.storage =
            read_choice(storage->value, "'storage'", float_storages(), context_).value_or(storage_);
      }
      if (const Entry* axes = find_entry(*keys, "axes")) read_axes(axes->value, what, field);
      boundary = find_entry(*keys, "boundary");
    }
    read_faces(boundary, what, field);
    fields_.push_back(std::move(field));
  }

  /// `axes: [x]`, in any order.
  void read_axes(const Node& node, const std::string& what, SystemField& field) {
    const std::vector<std::string> known = axis_names(dimensions_);
    if (!expect(node, NodeKind::sequence,
                fmt::format("'axes' of {} lists the axes along which it has cells, such as [x]", what),
                context_))
      return;
    if (node.items.empty()) {
      refuse(node.where,
             fmt::format("'axes' of {} names none; a number that is the same everywhere is one of "
                         "'scalars' or 'parameters'",
                         what));
      return;
    }
    std::array<bool, 3> axes{};
    for (const Node& item : node.items) {
      const auto found =
          item.kind == NodeKind::scalar ? std::find(known.begin(), known.end(), item.text) : known.end();
      if (found == known.end()) {
        report_choice(item, fmt::format("an axis of {}", what), known, context_);
        return;
      }
      bool& axis = axes[static_cast<std::size_t>(first_axis(dimensions_) + (found - known.begin()))];
      if (axis) refuse(item.where, fmt::format("'axes' of {} names {} twice; remove one", what, item.text));
      axis = true;
    }
    field.axes = axes;
  }

  void read_faces(const Entry* entry, const std::string& what, SystemField& field) {
    const Face halo{BoundaryRule::halo, 0, document_.start};
    field.boundary = entry == nullptr ? common_
                                      : read_boundary(&entry->value, dimensions_, field.storage,
                                                      document_.start, context_);
    for (std::size_t axis = 0; axis < field.axes.size(); ++axis) {
      if (field.axes[axis]) continue;
      field.boundary[axis] = {halo, halo};
      const Entry* rule = entry == nullptr ? nullptr : find_entry(entry->value, axis_letters[axis]);
      if (rule == nullptr) continue;
      refuse(rule->where, fmt::format("{} has no cells along {}, and needs no rule there; remove it", what,
                                      axis_letters[axis]));
    }
    if (entry == nullptr) check_constants(what, field);
  }

  /// The document's constants in this field's storage; each is reported once a face.
  void check_constants(const std::string& what, const SystemField& field) {
    diag::SourceLocation told;
    for (const AxisBoundary& axis : field.boundary) {
      for (const Face& face : {axis.low, axis.high}) {
        if (face.rule != BoundaryRule::constant || std::fabs(face.value) <= largest_value(field.storage) ||
            face.where == told)
          continue;
        told = face.where;
        refuse(face.where,
               fmt::format("{} is of {}, which cannot hold the constant {}; its largest value is "
                           "{}: give the field a 'boundary' of its own",
                           what, storage_name(field.storage), face.value, largest_value(field.storage)));
      }
    }
  }

  const Document& document_;
  Context& context_;
  int dimensions_;
  Storage storage_;
  GivenNames& names_;
  std::array<AxisBoundary, 3> common_;
  std::vector<SystemField> fields_;
};

}  // namespace

std::vector<SystemField> read_system_fields(const Document& document, int dimensions, Storage storage,
                                            GivenNames& names) {
  return Reader(document, dimensions, storage, names).read();
}

}  // namespace spidergen::spec
