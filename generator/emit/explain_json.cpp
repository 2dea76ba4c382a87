#include "emit/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emit/figures.h"
#include "emit/schemes/schemes.h"
#include "emit/storage_text.h"
#include "emit/update_text.h"
#include "plan/error_bound.h"

namespace spidergen::emit {
namespace {

/// The text of each item, separated.
template <class Items, class ToText>
std::string joined(const Items& items, std::string_view separator, ToText to_text) {
  std::string all;
  for (const auto& item : items) {
    if (!all.empty()) all += separator;
    all += to_text(item);
  }
  return all;
}

std::string face_json(const spec::Face& face, spec::Storage storage) {
  return fmt::format(R"({{"rule": "{}", "value": {}}})", spec::rule_name(face.rule),
                     plan::stored_value(storage, face.value));
}

std::string boundary_json(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  for (int axis = 3 - spec.dimensions; axis < 3; ++axis) {
    axes.push_back(fmt::format(R"("{}": {{"low": {}, "high": {}}})", spec::axis_letters[axis],
                               face_json(spec.boundary[axis].low, spec.storage),
                               face_json(spec.boundary[axis].high, spec.storage)));
  }
  return fmt::format("{{{}}}", fmt::join(axes, ", "));
}

/// With several sums each tap names its own.
std::string taps_json(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  return joined(plan.weights.taps, ",\n", [&](const plan::RoundedTap& tap) {
    const std::string sum = spec.sums.size() > 1 ? fmt::format(R"(, "sum": {})", tap.sum) : "";
    return fmt::format(R"(    {{"at": [{}], "weight": {}, "packed": {}{}}})", fmt::join(tap.at, ", "),
                       tap.weight, tap.packed, sum);
  });
}

/// With several sums, includes the power of two that scales the weights of each in operands, if any.
std::string sums_json(const spec::StencilSpec& spec, const plan::RoundedWeights& weights) {
  std::vector<std::string> sums;
  for (int i = 0; i < std::ssize(spec.sums); ++i) {
    const spec::Sum& sum = spec.sums[static_cast<std::size_t>(i)];
    const std::string shift =
        weights.sum_shifts.empty() ? "" : fmt::format(R"(, "shift": {})", weights.shift_of(i));
    sums.push_back(
        fmt::format(R"({{"name": "{}", "shape": "{}"{}}})", sum.name, spec::shape_name(sum.shape), shift));
  }
  return fmt::format("  \"sums\": [{}],\n", fmt::join(sums, ", "));
}

std::string tap_rows_json(const plan::KernelPlan& plan) {
  return joined(plan.tap_rows, ",\n", [](const plan::TapRow& row) {
    return fmt::format(R"(    {{"dz": {}, "dy": {}, "low": {}, "high": {}}})", row.dz, row.dy, row.low,
                       row.high);
  });
}

std::string error_bound_json(const plan::KernelPlan& plan) {
  const plan::ErrorBound& bound = plan.error_bound;
  return fmt::format(
      "  \"error_bound\": {{\"result\": {}, \"sum\": {}, \"absolute\": {}, \"neighbourhood\": {}}},\n",
      bound.result, bound.sum, bound.absolute, bound.neighbourhood);
}

std::string figures_json(const plan::KernelPlan& plan) {
  const Figures figures = figures_of(plan);
  return fmt::format("  \"mmas_per_128_outputs\": {},\n  \"bytes_per_point\": {},\n", figures.mmas,
                     figures.bytes_per_point) +
         fmt::format("  \"sparsity\": {{\"nonzeros\": {}, \"slots\": {}}},\n", figures.nonzeros,
                     figures.slots);
}

std::string bound_json(const ArchitectureBound& item) {
  if (item.rates == nullptr) {
    return fmt::format(R"(      {{"architecture": "{}", "rates": null}})", item.architecture);
  }
  const plan::DeviceRates& rates = *item.rates;
  return fmt::format(
      R"(      {{"architecture": "{}", "device": "{}", "rates": "{}", "multiprocessors": {}, )"
      R"("sparse_mma_ns": {}, "dense_mma_ns": {}, "copy_bytes_per_second": {:.0f}, )"
      R"("core_products_per_second": {:.0f}, )"
      R"("memory_us": {:.3f}, "tensor_us": {:.3f}, "cores_us": {:.3f}, "floor_us": {:.3f}, "bound": "{}"}})",
      item.architecture, rates.device, rates.measured ? "measured" : "predicted", rates.multiprocessors,
      rates.sparse_mma_ns, rates.dense_mma_ns, rates.copy_bytes_per_second, rates.core_products_per_second,
      item.bound.memory_us, item.bound.tensor_us, item.bound.cores_us, item.bound.floor_us(),
      item.bound.binding());
}

std::string bounds_json(int dimensions, const std::vector<ArchitectureBound>& bounds) {
  return fmt::format(
      "  \"prediction\": {{\n    \"extent\": [{}],\n    \"architectures\": [\n{}\n    ]\n  }},\n",
      fmt::join(plan::reference_extent(dimensions), ", "), joined(bounds, ",\n", bound_json));
}

std::string method_json(const MethodCost& item) {
  if (!item.cost) {
    return fmt::format(R"(      {{"method": "{}", "operations": null, "input": null, "parameters": null}})",
                       item.method);
  }
  return fmt::format(R"(      {{"method": "{}", "operations": {}, "input": {}, "parameters": {}}})",
                     item.method, item.cost->operations, item.cost->input, item.cost->parameters);
}

std::string costs_json(const CostComparison& costs) {
  if (costs.methods.empty()) return "  \"cost_model\": null,\n";
  return fmt::format(
      "  \"cost_model\": {{\n    \"radius\": {},\n    \"tile_side\": {},\n    \"per_point\": [\n{}\n    ]\n  "
      "}},\n",
      costs.tile.radius, costs.tile.side, joined(costs.methods, ",\n", method_json));
}

std::string positions_json(const std::vector<plan::Position>& positions) {
  return '[' +
         joined(
             positions, ", ",
             [](const plan::Position& position) { return fmt::format("[{}, {}]", position.y, position.x); }) +
         ']';
}

std::string mapping_json(const plan::TileMapping& mapping) {
  return fmt::format(
      "    \"mapping\": {{\"name\": \"{}\", \"window_low\": {}, \"window_width\": {}, "
      "\"outputs_per_column\": {},\n      \"row_output\": {},\n      \"column_input\": {}}},\n",
      mapping.name, mapping.window_low, mapping.window_width, mapping.outputs_per_column,
      positions_json(mapping.row_output), positions_json(mapping.column_input));
}

/// With several sums each product names its own.
std::string products_json(const plan::Contraction& contraction) {
  const auto product_json = [&contraction](const plan::Product& product) {
    const Range columns = columns_of(contraction, product);
    const std::string sum = contraction.sums() > 1 ? fmt::format(R"(, "sum": {})", product.sum) : "";
    return fmt::format(
        R"(      {{"dz": {}, "dy": {}, "shift": {}, "low": {}, "high": {}, "term": {}, "input_term": {}, )"
        R"("operand": {}, "source": {}{}}})",
        contraction.plane_low + product.plane, contraction.row_low + product.row,
        contraction.sources[product.source].shift, columns.low, columns.high, product.term,
        product.input_term, product.operand, product.source, sum);
  };
  return fmt::format("    \"products\": [\n{}\n    ],\n", joined(contraction.products, ",\n", product_json));
}

/// [z, y, x] of each position.
std::string places_json(const plan::Source& source, const std::vector<plan::Position>& positions) {
  return '[' +
         joined(positions, ", ",
                [&source](const plan::Position& position) {
                  const plan::Position place = source.place(position);
                  return fmt::format("[{}, {}, {}]", place.z, place.y, place.x);
                }) +
         ']';
}

std::string sources_json(const plan::Contraction& contraction) {
  const auto source_json = [](const plan::Source& source) {
    return fmt::format(
        "      {{\"name\": \"{}\", \"shift\": {},\n       \"row_output\": {},\n       \"column_input\": {}}}",
        source.mapping.name, source.shift, places_json(source, source.mapping.row_output),
        places_json(source, source.mapping.column_input));
  };
  return fmt::format("    \"sources\": [\n{}\n    ],\n", joined(contraction.sources, ",\n", source_json));
}

std::string matrix_json(const plan::Matrix& matrix) {
  std::vector<std::string> rows;
  for (int row = 0; row < matrix.rows; ++row) {
    const auto first = matrix.values.begin() + static_cast<std::ptrdiff_t>(row) * matrix.columns;
    rows.push_back(fmt::format("[{}]", fmt::join(first, first + matrix.columns, ", ")));
  }
  return fmt::format("[\n        {}]", fmt::join(rows, ",\n        "));
}

template <class Numbers>
std::string list_json(const Numbers& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ", "));
}

std::string registers_json(const pack::OperandFragment& fragment) {
  return fmt::format("[{}]", joined(fragment, ", ", list_json<pack::OperandFragment::value_type>));
}

std::string operands_json(const plan::Contraction& contraction, const pack::PackedKernel& packed) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < contraction.operands.size(); ++i) {
    const plan::Operand& operand = contraction.operands[i];
    items.push_back(fmt::format(
        "      {{\"dz\": {}, \"dy\": {}, \"shift\": {}, \"term\": {}, \"metadata\": {}, \"selector\": {},\n"
        "       \"matrix\": {},\n       \"registers\": {}}}",
        operand.dz, operand.dy, operand.shift, operand.term, packed.operands[i].metadata,
        packed.operands[i].selector, matrix_json(operand.matrix), registers_json(packed.operands[i].values)));
  }
  return fmt::format("    \"operands\": [\n{}\n    ],\n", fmt::join(items, ",\n"));
}

std::string mapping_choice_json(const plan::KernelPlan& plan) {
  const std::optional<MappingChoice> choice = mapping_choice_of(plan);
  if (!choice) return "    \"mapping_choice\": null,\n";
  return fmt::format("    \"mapping_choice\": {{\"windows\": {}, \"row_pairs\": {}}},\n", choice->windows,
                     choice->row_pairs);
}

std::string scheme_text(const plan::KernelPlan& plan) {
  return std::visit([&](const auto& scheme) { return json_of(scheme, plan); }, plan.scheme);
}

/// The work of tensor cores, as a list of one; CUDA cores have another key.
std::string passes_json(const plan::KernelPlan& plan, const pack::PackedKernel& packed) {
  const plan::Contraction& contraction = plan.contraction;
  if (!contraction.on_tensor_cores())
    return fmt::format("  \"cores\": {},\n  \"passes\": []\n", scheme_text(plan));
  const std::string metadata = joined(packed.metadata, ", ", list_json<pack::MetadataFragment>);
  return fmt::format("  \"cores\": null,\n  \"passes\": [{{\n{}    \"shifts\": [{}],\n",
                     mapping_json(contraction.mapping), fmt::join(contraction.shifts, ", ")) +
         mapping_choice_json(plan) + sources_json(contraction) + products_json(contraction) +
         operands_json(contraction, packed) +
         fmt::format("    \"metadata\": [{}],\n    \"streaming\": {}\n  }}]\n", metadata, scheme_text(plan));
}

/// The weights of composed steps; null for others.
std::string composition_json(const plan::KernelPlan& plan) {
  if (!plan.composition) return "  \"composition\": null,\n";
  const plan::RoundedWeights& weights = plan.composition->weights;
  double packed = 0;
  for (const plan::RoundedTap& tap : weights.taps) packed += std::fabs(tap.packed);
  return fmt::format(
             "  \"composition\": {{\"taps\": {}, \"type\": \"{}\", \"terms\": {}, \"exponent\": {}, "
             "\"remainder_exponent\": {}, \"factor\": {},\n    ",
             weights.taps.size(), plan::type_name(weights.type), weights.terms, weights.exponent,
             weights.remainder_exponent, weights.factor) +
         fmt::format(
             "\"magnitude\": {}, \"packed_magnitude\": {}, \"deviation\": {}, \"packed_sum\": {}, "
             "\"single_step\": \"{}\", \"us_per_step\": {:.2f}, \"single_step_us\": {:.1f}, ",
             plan.composition->magnitude, packed, plan.composition->deviation, weights.packed_sum,
             plan::scheme_name(plan.composition->single_scheme), plan.microseconds / plan.op.steps,
             plan.single_step_us) +
         fmt::format("\"rims\": [[{}], [{}]], \"rims_us\": {:.1f}}},\n",
                     fmt::join(plan.composition->rims[0], ", "), fmt::join(plan.composition->rims[1], ", "),
                     plan.composition->rims_us);
}

/// The passes; empty where there are none.
std::string axis_passes_json(const plan::KernelPlan& plan) {
  const auto pass_json = [](const plan::PassPlan& pass) {
    return fmt::format(R"({{"axes": "{}", "template": "{}", "taps": {}, "us": {:.1f}}})",
                       plan::axis_names(pass), plan::scheme_name(pass.plan.scheme),
                       pass.plan.weights.taps.size(), pass.plan.microseconds);
  };
  return fmt::format("  \"axis_passes\": [{}],\n", joined(plan.passes, ", ", pass_json));
}

std::string candidate_json(const plan::Candidate& candidate) {
  const bool holds = candidate.objection.empty();
  return fmt::format(
      R"(    {{"scheme": "{}", "engine": "{}", "mapping": "{}", "products": {}, "us": {}, "measured": {}, )"
      R"("objection": "{}"}})",
      candidate.scheme, plan::engine_name(candidate.engine), candidate.mapping, candidate.products,
      holds ? fmt::format("{:.1f}", candidate.microseconds) : "null", holds && candidate.measured,
      candidate.objection);
}

/// The fastest of both engines for f32 in 2D, where both support it; otherwise null.
std::string engine_times_json(const plan::KernelPlan& plan, spec::Storage storage) {
  const auto best = [&](plan::Engine engine) {
    return std::find_if(plan.candidates.begin(), plan.candidates.end(), [&](const auto& candidate) {
      return candidate.engine == engine && candidate.objection.empty();
    });
  };
  const auto sparse = best(plan::Engine::sparse);
  const auto cuda = best(plan::Engine::cuda);
  const auto none = plan.candidates.end();
  if (plan.dimensions != 2 || storage != spec::Storage::f32 || sparse == none || cuda == none)
    return "  \"engine_times\": null,\n";
  return fmt::format("  \"engine_times\": {{\"sparse_us\": {:.0f}, \"cuda_us\": {:.0f}}},\n",
                     sparse->microseconds, cuda->microseconds);
}

}  // namespace

std::string explain_json(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                         const pack::PackedKernel& packed, const std::vector<std::string>& architectures) {
  const plan::RoundedWeights& weights = plan.weights;
  std::string json = "{\n";
  json += fmt::format("  \"stencil\": \"{}\",\n  \"hash\": \"{}\",\n", spec.name, spec.source_hash);
  json += fmt::format("  \"dimensions\": {},\n  \"storage\": \"{}\",\n  \"accumulate\": \"{}\",\n",
                      spec.dimensions, storage_name(spec.storage), number_name(spec.storage));
  if (spec.output) json += fmt::format("  \"output\": \"{}\",\n", storage_name(*spec.output));
  json += fmt::format("  \"engine\": \"{}\",\n  \"template\": \"{}\",\n", plan::engine_name(plan.engine),
                      plan.passes.empty() ? plan::scheme_name(plan.scheme) : plan::passes_name);
  json += fmt::format("  \"steps\": {},\n", plan.op.steps);
  json += fmt::format("  \"accuracy\": \"{}\",\n  \"adds_identity\": {},\n", accuracy_name(spec.accuracy),
                      weights.adds_identity);
  json += error_bound_json(plan);
  const std::optional<double> lost = plan::lost_difference(spec, plan.op.steps);
  json += fmt::format("  \"lost_difference\": {},\n", lost ? fmt::format("{}", *lost) : "null");
  json += sums_json(spec, weights);
  if (spec.update) json += update_json(spec);
  json += fmt::format("  \"boundary\": {},\n", boundary_json(spec));
  json += fmt::format("  \"reach\": {{\"low\": [{}], \"high\": [{}]}},\n", fmt::join(plan.op.reach_low, ", "),
                      fmt::join(plan.op.reach_high, ", "));
  json += fmt::format(
      "  \"weights\": {{\"type\": \"{}\", \"terms\": {}, \"exponent\": {}, \"remainder_exponent\": {}, "
      "\"factor\": {}, \"exact\": {}, \"sum\": {}, \"packed_sum\": {}}},\n",
      weights.in_f32 || weights.in_f64 ? number_name(spec.storage) : plan::type_name(weights.type),
      weights.terms, weights.exponent, weights.remainder_exponent, weights.factor, weights.exact, weights.sum,
      weights.packed_sum);
  json += composition_json(plan);
  json += axis_passes_json(plan);
  json += fmt::format("  \"chained_mmas\": {},\n  \"operands\": {},\n", plan.contraction.longest_chain(),
                      plan.contraction.operands.size());
  json += fmt::format("  \"tap_rows\": [\n{}\n  ],\n", tap_rows_json(plan));
  json += fmt::format("  \"taps\": [\n{}\n  ],\n", taps_json(spec, plan));
  json += figures_json(plan);
  json += bounds_json(plan.dimensions, bounds_of(plan, architectures));
  json += costs_json(costs_of(plan));
  json += engine_times_json(plan, spec.storage);
  json += fmt::format("  \"candidates\": [\n{}\n  ],\n", joined(plan.candidates, ",\n", candidate_json));
  return json + passes_json(plan, packed) + "}\n";
}

}  // namespace spidergen::emit
