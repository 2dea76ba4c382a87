#include "emit/update_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "emit/expression_text.h"
#include "emit/kernel_text.h"
#include "emit/storage_text.h"

namespace spidergen::emit {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

/// The text of a leaf of an update. `reads_before`: the kernel has several steps, so that `previous` is not a
/// constant field.
LeafText leaf_of_update(const spec::StencilSpec& spec, bool reads_before, const UpdateNode& node) {
  const std::size_t before = spec.previous && !reads_before ? 1 : 0;
  const auto which = static_cast<std::size_t>(node.which);
  switch (node.operation) {
    case UpdateOperation::input:
      return {"p.u", ""};
    case UpdateOperation::sum:
      return {fmt::format("p.sums[{}]", which), spec.sums[which].name};
    case UpdateOperation::previous:
      return {reads_before ? "p.before" : "p.field[0]", spec.previous->name};
    case UpdateOperation::field:
      return {fmt::format("p.field[{}]", before + which), spec.fields[which].name};
    case UpdateOperation::scalar:
      return {fmt::format("p.sweep.{}[{}]", spec.storage == spec::Storage::f64 ? "wide_scalars" : "scalars",
                          which),
              spec.scalars[which]};
    case UpdateOperation::index:
      return {fmt::format("p.index({})", which), fmt::format("i{}", spec::axis_letters[which])};
    default:
      return {fmt::format("p.extent({})", which), fmt::format("n{}", spec::axis_letters[which])};
  }
}

std::vector<std::string> update_statements(const spec::StencilSpec& spec, bool reads_before) {
  const std::vector<UpdateNode>& nodes = spec.update->nodes;
  ExpressionText text = write_expressions(
      {nodes, {static_cast<int>(nodes.size()) - 1}, spec.storage, spec.storage == spec::Storage::f16},
      [&](const UpdateNode& node) { return leaf_of_update(spec, reads_before, node); });
  text.statements.push_back(fmt::format("return {};", text.values.front()));
  return std::move(text.statements);
}

/// `previous`, where it is read unchanged, and the further fields.
std::vector<spec::FurtherField> all_fields(const spec::StencilSpec& spec, bool reads_before) {
  std::vector<spec::FurtherField> fields;
  if (spec.previous && !reads_before) fields.push_back(*spec.previous);
  fields.insert(fields.end(), spec.fields.begin(), spec.fields.end());
  return fields;
}

/// The tables of the update's inputs, for spider_kernel_info.
std::string update_tables(const spec::StencilSpec& spec) {
  std::string text;
  const auto add = [&](std::string_view type, std::string_view name, const std::vector<std::string>& values) {
    if (!values.empty())
      text += fmt::format("constexpr {} {}[] = {{{}}};\n", type, name, fmt::join(values, ", "));
  };
  std::vector<std::string> names;
  std::vector<std::string> storages;
  for (const spec::FurtherField& field : spec.fields) {
    names.push_back('"' + field.name + '"');
    storages.push_back(storage_code(field.storage));
  }
  std::vector<std::string> scalars;
  for (const std::string& scalar : spec.scalars) scalars.push_back('"' + scalar + '"');
  add("const char*", "field_names", names);
  add("std::int32_t", "field_storages", storages);
  add("const char*", "scalar_names", scalars);
  return text;
}

}  // namespace

std::string update_struct(const spec::StencilSpec& spec, int steps) {
  const bool reads_before = spec.previous && steps > 1;
  std::vector<std::string> cells;
  std::vector<std::string> names;
  for (const spec::FurtherField& field : all_fields(spec, reads_before)) {
    cells.push_back("spider::" + cells_struct(field.storage));
    names.push_back(field.name);
  }
  render::Bindings bindings;
  bindings["cells"] = fmt::format("{}", fmt::join(cells, ", "));
  bindings["number"] = number_type(spec.storage);
  bindings["point"] = wide_name(spec.storage, "UpdatePoint");
  bindings["names"] = names.empty() ? "" : fmt::format("  // {}", fmt::join(names, ", "));
  bindings["reads_input"] = spec.update->uses(UpdateOperation::input) ? "true" : "false";
  bindings["reads_before"] = reads_before ? "true" : "false";
  bindings["of_sums_alone"] = spec.update->is_of_sums_alone() ? "true" : "false";
  bindings["statements"] = fmt::format("{}", fmt::join(update_statements(spec, reads_before), "\n"));
  bindings["tables"] = update_tables(spec);
  return render_part("update.cu.in", bindings);
}

std::string update_facts(const spec::StencilSpec& spec) {
  const bool fields = !spec.fields.empty();
  const bool scalars = !spec.scalars.empty();
  return fmt::format(
      "{{{}, {}, {}, {}, {}, {}}}", spec.previous ? '"' + spec.previous->name + '"' : std::string("nullptr"),
      spec.fields.size(), fields ? "field_names" : "nullptr", fields ? "field_storages" : "nullptr",
      spec.scalars.size(), scalars ? "scalar_names" : "nullptr");
}

std::string update_json(const spec::StencilSpec& spec) {
  std::vector<std::string> nodes;
  for (const UpdateNode& node : spec.update->nodes) {
    nodes.push_back(fmt::format(R"(["{}", {}, {}, [{}]])", name_of(node), node.value, node.which,
                                fmt::join(node.arguments, ", ")));
  }
  std::vector<std::string> fields;
  for (const spec::FurtherField& field : spec.fields)
    fields.push_back(
        fmt::format(R"({{"name": "{}", "storage": "{}"}})", field.name, storage_name(field.storage)));
  std::vector<std::string> scalars;
  for (const std::string& scalar : spec.scalars) scalars.push_back('"' + scalar + '"');
  const std::string previous = spec.previous ? '"' + spec.previous->name + '"' : std::string("null");
  return fmt::format(
      "  \"update\": {{\"previous\": {}, \"fields\": [{}], \"scalars\": [{}],\n    \"nodes\": [{}]}},\n",
      previous, fmt::join(fields, ", "), fmt::join(scalars, ", "), fmt::join(nodes, ", "));
}

}  // namespace spidergen::emit
