/// Any bytes as a spec: reading ends, every error has a place within the text, and a spec without errors is
/// one that later rooms may rely on.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "expect.h"
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

}  // namespace
}  // namespace spidergen::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace spidergen;
  const std::string text(data, data + size);
  const spec::ReadResult result = spec::read_spec({"-", text}, {});
  fuzz::check_diagnostics(result.diagnostics, text);
  if (!result.diagnostics.has_errors()) fuzz::check_spec(result.spec);
  return 0;
}
