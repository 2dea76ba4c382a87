#include "emit/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "emit/describe.h"
#include "plan/half.h"
#include "plan/streaming.h"

namespace spidergen::emit {
namespace {

std::string face_json(const spec::Face& face) {
  return fmt::format(R"({{"rule": "{}", "value": {}}})", spec::rule_name(face.rule),
                     plan::round_to_f16(face.value));
}

std::string boundary_json(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  for (int axis = 3 - spec.dimensions; axis < 3; ++axis) {
    axes.push_back(fmt::format(R"("{}": {{"low": {}, "high": {}}})", spec::axis_letters[axis],
                               face_json(spec.boundary[axis].low), face_json(spec.boundary[axis].high)));
  }
  return fmt::format("{{{}}}", fmt::join(axes, ", "));
}

std::string taps_json(const plan::KernelPlan& plan) {
  std::vector<std::string> taps;
  for (const plan::RoundedTap& tap : plan.weights.taps) {
    taps.push_back(fmt::format(R"(    {{"at": [{}], "weight": {}, "packed": {}}})", fmt::join(tap.at, ", "),
                               tap.weight, tap.packed));
  }
  return fmt::format("{}", fmt::join(taps, ",\n"));
}

std::string tap_rows_json(const plan::KernelPlan& plan) {
  std::vector<std::string> rows;
  for (const plan::TapRow& row : plan.tap_rows) {
    rows.push_back(fmt::format(R"(    {{"dz": {}, "dy": {}, "low": {}, "high": {}}})", row.dz, row.dy,
                               row.low, row.high));
  }
  return fmt::format("{}", fmt::join(rows, ",\n"));
}

}  // namespace

std::string explain_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::string text = fmt::format("{}: {}\n", spec.name, summary(spec));
  for (const std::string& line : report(spec, plan)) text += "  " + line + "\n";
  for (const plan::Pass& pass : plan.passes) {
    text += fmt::format("  Registers {} estimated; {} bytes of shared memory a block\n",
                        pass.streaming.estimated_registers, plan::shared_bytes(pass));
  }
  return text;
}

std::string explain_json(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::size_t products = 0;
  std::size_t operands = 0;
  for (const plan::Pass& pass : plan.passes) {
    products += pass.products.size();
    operands += pass.operands.size();
  }
  const plan::RoundedWeights& weights = plan.weights;
  std::string json = "{\n";
  json += fmt::format("  \"stencil\": \"{}\",\n  \"hash\": \"{}\",\n", spec.name, spec.source_hash);
  json += fmt::format("  \"dimensions\": {},\n  \"storage\": \"f16\",\n  \"accumulate\": \"f32\",\n",
                      spec.dimensions);
  json += fmt::format("  \"boundary\": {},\n", boundary_json(spec));
  json += fmt::format("  \"reach\": {{\"low\": [{}], \"high\": [{}]}},\n", fmt::join(plan.reach_low, ", "),
                      fmt::join(plan.reach_high, ", "));
  json += fmt::format(
      "  \"weights\": {{\"terms\": {}, \"exponent\": {}, \"exact\": {}, \"sum\": {}, \"packed_sum\": {}}},\n",
      weights.terms, weights.exponent, weights.exact, weights.sum, weights.packed_sum);
  json += fmt::format("  \"chained_mmas\": {},\n  \"operands\": {},\n", products, operands);
  json += fmt::format("  \"tap_rows\": [\n{}\n  ],\n", tap_rows_json(plan));
  json += fmt::format("  \"taps\": [\n{}\n  ]\n}}\n", taps_json(plan));
  return json;
}

}  // namespace spidergen::emit
