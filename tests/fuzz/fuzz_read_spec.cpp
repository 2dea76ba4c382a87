/// Any bytes as a spec: reading ends, every error has a place within the text, and a spec without errors is
/// one that later rooms may rely on.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "expect.h"
#include "spec/coefficients.h"
#include "spec/read_spec.h"

namespace spidergen::fuzz {
namespace {

void check_diagnostics(const diag::Diagnostics& diagnostics, const std::string& text) {
  const auto lines =
      2 + std::count_if(text.begin(), text.end(), [](char c) { return c == '\n' || c == '\r'; });
  expect(diagnostics.errors <= diag::most_errors, "at most most_errors errors are kept");
  for (const diag::Diagnostic& item : diagnostics.items) {
    const auto size = static_cast<std::ptrdiff_t>(text.size());
    expect(item.where.line >= 1 && item.where.line <= lines, "an error has a line of the text: " + item.text);
    expect(item.where.column >= 1 && item.where.column <= size + 2, "and a column: " + item.text);
    expect(!item.text.empty() && item.text.size() < 10'000, "a message has a readable length");
    const std::string line = to_string(item);
    expect(line.find_first_of("\n\r\t\x1b\x7f") == std::string::npos, "a message is one line of plain text");
  }
}

void check_spec(const spec::StencilSpec& spec) {
  const auto place = [](const spec::Tap& tap) { return std::pair(tap.at, tap.sum); };
  const auto earlier = [&](const spec::Tap& a, const spec::Tap& b) { return place(a) < place(b); };
  const auto same = [&](const spec::Tap& a, const spec::Tap& b) { return place(a) == place(b); };
  expect(!spec.taps.empty(), "a stencil has taps");
  expect(std::is_sorted(spec.taps.begin(), spec.taps.end(), earlier), "taps are sorted");
  expect(std::adjacent_find(spec.taps.begin(), spec.taps.end(), same) == spec.taps.end(),
         "no offset comes twice in a sum");
  for (const spec::Tap& tap : spec.taps)
    expect(std::isfinite(tap.weight) && tap.weight != 0, "weights are numbers, and none is zero");
  std::vector<bool> has_taps(spec.sums.size());
  for (const spec::Tap& tap : spec.taps) has_taps.at(static_cast<std::size_t>(tap.sum)) = true;
  expect(std::find(has_taps.begin(), has_taps.end(), false) == has_taps.end(), "every sum has taps");
  expect(spec.sums.size() == 1 || spec.update, "several sums are for an update");
  expect(spec.dimensions >= 1 && spec.dimensions <= 3, "there are 1 to 3 dimensions");
  expect(!spec.name.empty() && spec.name.size() < 64, "a name is as long as compilers tell apart");
}

void check_system(const spec::SystemSpec& system) {
  const auto is_node = [&](int node, std::size_t end) {
    return node >= 0 && static_cast<std::size_t>(node) < end;
  };
  expect(system.dimensions >= 1 && system.dimensions <= 3, "there are 1 to 3 dimensions");
  expect(!system.name.empty() && system.name.size() < 64, "a name is as long as compilers tell apart");
  expect(!system.fields.empty() && system.fields.size() <= spec::most_system_fields, "there are fields");
  expect(!system.stages.empty() && system.stages.size() <= spec::most_stages, "there are stages");
  expect(system.nodes.size() <= spec::most_system_nodes, "expressions are as large as systems may be");
  for (std::size_t i = 0; i < system.nodes.size(); ++i) {
    const spec::UpdateNode& node = system.nodes[i];
    expect(std::isfinite(node.value), "constants are numbers");
    for (const int argument : node.arguments) expect(is_node(argument, i), "arguments come first");
    if (node.operation != spec::UpdateOperation::cell) continue;
    const spec::SystemField& field = system.fields.at(static_cast<std::size_t>(node.which));
    for (std::size_t axis = 0; axis < field.axes.size(); ++axis)
      expect(field.axes[axis] ? std::abs(node.at[axis]) <= spec::farthest_offset : node.at[axis] == 0,
             "offsets are within reach, and along axes that the field has");
  }
  for (const spec::Stage& stage : system.stages) {
    expect(!stage.assignments.empty(), "a stage assigns a field");
    for (const spec::Assignment& one : stage.assignments) {
      expect(is_node(one.node, system.nodes.size()), "a field gets a value");
      const auto& axes = system.fields.at(static_cast<std::size_t>(one.field)).axes;
      expect(std::count(axes.begin(), axes.end(), true) == system.dimensions,
             "assigned fields have all axes");
    }
  }
  for (const spec::Reduction& one : system.reductions)
    expect(is_node(one.node, system.nodes.size()), "a reduction is of a value");
}

}  // namespace
}  // namespace spidergen::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spidergen;
  const std::string text(data, data + size);
  const spec::ReadResult result = spec::read_spec({"-", text}, {});
  fuzz::check_diagnostics(result.diagnostics, text);
  if (result.diagnostics.has_errors()) return 0;
  if (result.system) {
    fuzz::check_system(*result.system);
  } else {
    fuzz::check_spec(result.spec);
  }
  return 0;
}
