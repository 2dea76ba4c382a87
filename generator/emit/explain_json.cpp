#include "emit/explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "emit/emit.h"
#include "emit/figures.h"
#include "emit/storage_text.h"
#include "plan/bands.h"
#include "plan/lines.h"
#include "plan/make_plan.h"
#include "plan/planes.h"
#include "plan/streaming.h"

namespace spidergen::emit {
namespace {

/// The text of each item, with the separator between them.
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
                     stored_value(storage, face.value));
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

std::string taps_json(const plan::KernelPlan& plan) {
  return joined(plan.weights.taps, ",\n", [](const plan::RoundedTap& tap) {
    return fmt::format(R"(    {{"at": [{}], "weight": {}, "packed": {}}})", fmt::join(tap.at, ", "),
                       tap.weight, tap.packed);
  });
}

std::string tap_rows_json(const plan::KernelPlan& plan) {
  return joined(plan.tap_rows, ",\n", [](const plan::TapRow& row) {
    return fmt::format(R"(    {{"dz": {}, "dy": {}, "low": {}, "high": {}}})", row.dz, row.dy, row.low,
                       row.high);
  });
}

std::string error_bound_json(const plan::KernelPlan& plan) {
  const plan::ErrorBound& bound = plan.error_bound;
  return fmt::format("  \"error_bound\": {{\"result\": {}, \"sum\": {}, \"absolute\": {}}},\n", bound.result,
                     bound.sum, bound.absolute);
}

std::string figures_json(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  const Figures figures = figures_of(spec, plan);
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

std::string bounds_json(const spec::StencilSpec& spec, const std::vector<ArchitectureBound>& bounds) {
  return fmt::format(
      "  \"prediction\": {{\n    \"extent\": [{}],\n    \"architectures\": [\n{}\n    ]\n  }},\n",
      fmt::join(sample_extent(spec.dimensions), ", "), joined(bounds, ",\n", bound_json));
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

std::string products_json(const plan::Pass& pass) {
  const auto product_json = [&pass](const plan::Product& product) {
    const Range columns = columns_of(pass, product);
    return fmt::format(
        R"(      {{"dz": {}, "dy": {}, "shift": {}, "low": {}, "high": {}, "term": {}, "input_term": {}, )"
        R"("operand": {}, "source": {}}})",
        pass.plane_low + product.plane, pass.row_low + product.row, pass.sources[product.source].shift,
        columns.low, columns.high, product.term, product.input_term, product.operand, product.source);
  };
  return fmt::format("    \"products\": [\n{}\n    ],\n", joined(pass.products, ",\n", product_json));
}

/// [z, y, x] of each.
std::string places_json(const plan::Source& source, const std::vector<plan::Position>& positions) {
  return '[' +
         joined(positions, ", ",
                [&source](const plan::Position& position) {
                  const plan::Position place = source.place(position);
                  return fmt::format("[{}, {}, {}]", place.z, place.y, place.x);
                }) +
         ']';
}

std::string sources_json(const plan::Pass& pass) {
  const auto source_json = [](const plan::Source& source) {
    return fmt::format(
        "      {{\"name\": \"{}\", \"shift\": {},\n       \"row_output\": {},\n       \"column_input\": {}}}",
        source.mapping.name, source.shift, places_json(source, source.mapping.row_output),
        places_json(source, source.mapping.column_input));
  };
  return fmt::format("    \"sources\": [\n{}\n    ],\n", joined(pass.sources, ",\n", source_json));
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

std::string operands_json(const plan::Pass& pass, const pack::PackedPass& packed) {
  std::vector<std::string> items;
  for (std::size_t i = 0; i < pass.operands.size(); ++i) {
    const plan::Operand& operand = pass.operands[i];
    items.push_back(fmt::format(
        "      {{\"dz\": {}, \"dy\": {}, \"shift\": {}, \"term\": {}, \"metadata\": {}, \"selector\": {},\n"
        "       \"matrix\": {},\n       \"registers\": {}}}",
        operand.dz, operand.dy, operand.shift, operand.term, packed.operands[i].metadata,
        packed.operands[i].selector, matrix_json(operand.matrix), registers_json(packed.operands[i].values)));
  }
  return fmt::format("    \"operands\": [\n{}\n    ],\n", fmt::join(items, ",\n"));
}

std::string planes_json(const plan::Pass& pass) {
  const plan::PlaneStreaming& planes = pass.planes;
  return fmt::format(
      R"("planes_in_flight": {}, "rows_per_warp": {}, "warps_per_block": {}, "ring_planes": {}, )"
      R"("preferred_planes": {}, "operands_in_registers": {}, "estimated_registers": {}, "shared_bytes": {})",
      pass.planes_in_flight(), planes.rows_per_warp, planes.warps_per_block, planes.ring_planes,
      planes.preferred_planes, planes.operands_in_registers, planes.estimated_registers,
      plan::plane_shared_bytes(pass));
}

std::string streaming_json(const plan::Pass& pass) {
  if (pass.walk == plan::Walk::planes) return planes_json(pass);
  if (pass.walk == plan::Walk::lines) {
    return fmt::format(
        R"("tiles_per_warp": {}, "warps_per_block": {}, "estimated_registers": {}, "shared_bytes": {})",
        pass.lines.tiles_per_warp, pass.lines.warps_per_block, pass.lines.estimated_registers,
        plan::line_shared_bytes(pass));
  }
  const plan::Streaming& streaming = pass.streaming;
  if (streaming.warpgroups) {
    return fmt::format(
        R"("warpgroups": true, "warps_per_block": {}, "estimated_registers": {}, "shared_bytes": {})",
        streaming.warps_per_block, streaming.estimated_registers, plan::shared_bytes(pass));
  }
  if (!streaming.tile_forms.empty()) {
    std::vector<std::string> forms;
    for (const plan::TileForm& form : streaming.tile_forms) {
      forms.push_back(fmt::format(
          R"({{"tile_rows": {}, "warps_per_block": {}, "tiles_across": {}, "least_blocks": {}, "any_rows": {}, "in_shared_memory": {}}})",
          form.rows, form.across * form.down, form.across, form.least_blocks, form.any_rows,
          !form.in_registers));
    }
    return fmt::format(R"("tile_forms": [{}], "estimated_registers": {}, "shared_bytes": {})",
                       fmt::join(forms, ", "), streaming.estimated_registers, plan::shared_bytes(pass));
  }
  return fmt::format(
      R"("rows_in_flight": {}, "tiles_per_warp": {}, "warps_per_block": {}, "ring_rows": {}, )"
      R"("preferred_rows": {}, "operands_in_registers": {}, "estimated_registers": {}, "shared_bytes": {})",
      pass.rows_in_flight(), streaming.tiles_per_warp, streaming.warps_per_block, streaming.ring_rows,
      streaming.preferred_rows, streaming.operands_in_registers, streaming.estimated_registers,
      plan::shared_bytes(pass));
}

std::string mapping_choice_json(const plan::Pass& pass) {
  if (!pass.mapping_choice) return "    \"mapping_choice\": null,\n";
  return fmt::format("    \"mapping_choice\": {{\"windows\": {}, \"row_pairs\": {}}},\n",
                     pass.mapping_choice->windows, pass.mapping_choice->row_pairs);
}

std::string pass_json(const plan::Pass& pass, const pack::PackedPass& packed) {
  const std::string metadata = joined(packed.metadata, ", ", list_json<pack::MetadataFragment>);
  return fmt::format("{{\n{}    \"shifts\": [{}],\n", mapping_json(pass.mapping),
                     fmt::join(pass.shifts, ", ")) +
         mapping_choice_json(pass) + sources_json(pass) + products_json(pass) + operands_json(pass, packed) +
         fmt::format("    \"metadata\": [{}],\n    \"streaming\": {{{}}}\n  }}", metadata,
                     streaming_json(pass));
}

std::string passes_json(const plan::KernelPlan& plan, const pack::PackedKernel& packed) {
  std::vector<std::string> passes;
  for (std::size_t i = 0; i < plan.passes.size(); ++i) {
    passes.push_back(pass_json(plan.passes[i], packed.passes[i]));
  }
  return fmt::format("{}", fmt::join(passes, ", "));
}

/// The ring of planes of CUDA cores; null where there is none.
std::string core_ring_json(const plan::CorePlan& cores) {
  if (!cores.ring) return "null";
  const plan::CoreRing& ring = *cores.ring;
  return fmt::format(
      "{{\"rows_per_thread\": {}, \"warps_across\": {}, \"warps_down\": {}, \"planes_at_once\": {}, "
      "\"groups_ahead\": {}}}",
      ring.rows_per_thread, ring.warps_across, ring.warps_down, ring.planes_at_once, ring.groups_ahead);
}

/// How CUDA cores compute; null for the other engines.
std::string cores_json(const plan::KernelPlan& plan) {
  if (plan.engine != plan::Engine::cuda) return "  \"cores\": null,\n";
  const plan::CorePlan& cores = plan.cores;
  return fmt::format(
      "  \"cores\": {{\"multiply_adds\": {}, \"taps_in_code\": {}, \"objection\": \"{}\", \"outputs\": {}, "
      "\"tile_rows\": {}, \"ring_rows\": {}, \"unrolled_steps\": {}, "
      "\"warps_per_block\": {}, "
      "\"blocks_per_multiprocessor\": {}, \"preferred_steps\": {}, \"estimated_registers\": {}, "
      "\"cells_loaded\": {}, \"ring\": {}}},\n",
      cores.taps.size(), cores.unrolled, cores.objection, cores.outputs, cores.tile_rows, cores.row_ring_rows,
      cores.unrolled_steps, cores.warps_per_block, cores.blocks_per_multiprocessor, cores.preferred_steps,
      cores.estimated_registers, cores.cells_loaded, core_ring_json(cores));
}

/// What the default engine is chosen by; null where there is no choice.
std::string engine_times_json(const plan::KernelPlan& plan) {
  if (!plan.engine_times) return "  \"engine_times\": null,\n";
  return fmt::format("  \"engine_times\": {{\"sparse_us\": {:.0f}, \"cuda_us\": {:.0f}}},\n",
                     plan.engine_times->sparse_us, plan.engine_times->cuda_us);
}

}  // namespace

std::string explain_json(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                         const pack::PackedKernel& packed, const std::vector<std::string>& architectures) {
  std::size_t products = 0;
  std::size_t operands = 0;
  for (const plan::Pass& pass : plan.passes) {
    products += static_cast<std::size_t>(plan::chained_products(pass));
    operands += pass.operands.size();
  }
  const plan::RoundedWeights& weights = plan.weights;
  std::string json = "{\n";
  json += fmt::format("  \"stencil\": \"{}\",\n  \"hash\": \"{}\",\n", spec.name, spec.source_hash);
  json += fmt::format("  \"dimensions\": {},\n  \"storage\": \"{}\",\n  \"accumulate\": \"f32\",\n",
                      spec.dimensions, storage_name(spec.storage));
  json += fmt::format("  \"engine\": \"{}\",\n  \"template\": \"{}\",\n", plan::engine_name(plan.engine),
                      template_of(plan));
  json += fmt::format("  \"variant\": {{\"swap\": \"{}\", \"most_tiles\": {}, \"length\": {}}},\n",
                      plan::swap_name(plan.variant.swap), plan.variant.most_tiles, plan.variant.length);
  json += fmt::format("  \"accuracy\": \"{}\",\n  \"adds_identity\": {},\n", accuracy_name(spec.accuracy),
                      weights.adds_identity);
  json += error_bound_json(plan);
  json += fmt::format("  \"boundary\": {},\n", boundary_json(spec));
  json += fmt::format("  \"reach\": {{\"low\": [{}], \"high\": [{}]}},\n", fmt::join(plan.reach_low, ", "),
                      fmt::join(plan.reach_high, ", "));
  json += fmt::format(
      "  \"weights\": {{\"type\": \"{}\", \"terms\": {}, \"exponent\": {}, \"remainder_exponent\": {}, "
      "\"factor\": {}, \"exact\": {}, \"sum\": {}, \"packed_sum\": {}}},\n",
      weights.in_f32 ? "f32" : plan::type_name(weights.type), weights.terms, weights.exponent,
      weights.remainder_exponent, weights.factor, weights.exact, weights.sum, weights.packed_sum);
  json += fmt::format("  \"chained_mmas\": {},\n  \"operands\": {},\n", products, operands);
  json += fmt::format("  \"tap_rows\": [\n{}\n  ],\n", tap_rows_json(plan));
  json += fmt::format("  \"taps\": [\n{}\n  ],\n", taps_json(plan));
  json += figures_json(spec, plan);
  json += bounds_json(spec, bounds_of(spec, plan, architectures));
  json += costs_json(costs_of(plan));
  json += engine_times_json(plan);
  json += cores_json(plan);
  json += fmt::format("  \"passes\": [{}]\n}}\n", passes_json(plan, packed));
  return json;
}

}  // namespace spidergen::emit
