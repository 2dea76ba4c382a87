#include "emit/describe.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "emit/storage_text.h"
#include "plan/bands.h"

namespace spidergen::emit {
namespace {

std::string shape_name(spec::Shape shape) {
  switch (shape) {
    case spec::Shape::star:
      return "star";
    case spec::Shape::box:
      return "box";
    case spec::Shape::product:
      return "product";
    case spec::Shape::taps:
      return "taps";
  }
  return "";
}

/// "1 tap", "2 taps".
std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string reach_text(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::vector<std::string> axes;
  for (int axis = 3 - spec.dimensions; axis < 3; ++axis) {
    // Not "-0" where taps reach to one side only.
    const int low = plan.reach_low[axis];
    axes.push_back(
        fmt::format("{} {}..{}", spec::axis_letters[axis], low == 0 ? 0 : -low, plan.reach_high[axis]));
  }
  return fmt::format("{}", fmt::join(axes, ", "));
}

std::string face_text(const spec::Face& face, spec::Storage storage) {
  if (face.rule != spec::BoundaryRule::constant) return std::string(spec::rule_name(face.rule));
  return fmt::format("constant {}", stored_value(storage, face.value));
}

std::string boundary_text(const spec::StencilSpec& spec) {
  std::vector<std::string> axes;
  for (int axis = 3 - spec.dimensions; axis < 3; ++axis) {
    const std::string low = face_text(spec.boundary[axis].low, spec.storage);
    const std::string high = face_text(spec.boundary[axis].high, spec.storage);
    axes.push_back(low == high ? fmt::format("{} {}", spec::axis_letters[axis], low)
                               : fmt::format("{} {} (low), {} (high)", spec::axis_letters[axis], low, high));
  }
  return fmt::format("{}", fmt::join(axes, "; "));
}

/// How f32 values become operands.
std::string inputs_text(const spec::StencilSpec& spec, plan::Engine engine) {
  if (spec.storage != spec::Storage::f32 || engine == plan::Engine::cuda) return "";
  switch (spec.accuracy) {
    case spec::Accuracy::tf32:
      return "; accuracy tf32: values in one f16 term, scaled";
    case spec::Accuracy::f16:
      return "; accuracy f16: values rounded to f16";
    case spec::Accuracy::full:
      break;
  }
  return "; accuracy full: values in two f16 terms, scaled";
}

/// The error bound in words.
std::string bound_text(const plan::ErrorBound& bound) {
  return fmt::format("|error| <= {:.2g} |result| + {:.2g} sum |w x| + {:.2g}", bound.result, bound.sum,
                     bound.absolute);
}

std::string engine_text(plan::Engine engine) {
  std::string name(plan::engine_name(engine));
  switch (engine) {
    case plan::Engine::sparse:
      return name + ": tensor cores, operands compressed 2:4";
    case plan::Engine::dense:
      return name + ": tensor cores, whole operands";
    case plan::Engine::cuda:
      return name + ": CUDA cores, in f32";
  }
  return name;
}

void describe_planes(const plan::Pass& pass, std::vector<std::string>& lines) {
  const plan::PlaneStreaming& planes = pass.planes;
  const std::size_t pairs = pass.sources.size() - pass.shifts.size();
  if (pairs > 0)
    lines.push_back(fmt::format("          pairs of diagonals at {}", counted(pairs, "distance")));
  lines.push_back(fmt::format(
      "          {} in flight, {} of 128 x a warp, {} warps a block, ring of {} planes, operands in {}",
      counted(pass.planes_in_flight(), "plane"), counted(planes.rows_per_warp, "row"), planes.warps_per_block,
      planes.ring_planes, planes.operands_in_registers ? "registers" : "shared memory"));
}

/// Products of both bands, then the forms of tiles, from the largest.
void describe_bands(const plan::Pass& pass, std::vector<std::string>& lines) {
  const int column_products = plan::chained_products(pass) - plan::band_chunks;
  lines.push_back(fmt::format(
      "Plan      bands: {} mma.sp.m16n8k32 along y and {} mma.sync.m16n8k16 along x per 128 outputs",
      column_products, plan::band_chunks));
  lines.push_back(
      fmt::format("          {}, {}", pass.mapping.name, counted(pass.operands.size(), "distinct operand")));
  const std::vector<plan::TileForm>& forms = pass.streaming.tile_forms;
  lines.push_back(
      fmt::format("          {} rows of {} x a warp, whose inputs are all requested at once, into shared "
                  "memory; {} warps a block",
                  forms.front().rows, forms.front().columns, forms.front().across));
  for (std::size_t i = 1; i < forms.size(); ++i) {
    lines.push_back(
        fmt::format("          {} rows of {} where these would be fewer than {} blocks a multiprocessor",
                    forms[i].rows, forms[i].columns, forms[i - 1].least_blocks));
  }
}

/// The mapping that the plan did not choose, and why not.
std::string mapping_choice_text(const plan::Pass& pass, const plan::MappingChoice& choice) {
  if (pass.mapping.pairs_rows())
    return fmt::format("windows of one row, L = 16, would take {}", choice.windows);
  const bool in_registers = !pass.streaming.tile_forms.empty() && !pass.streaming.tiles_in_shared_memory;
  const std::string_view reason = choice.row_pairs >= choice.windows ? "no fewer"
                                  : in_registers ? "not chosen, since windows have tiles in registers"
                                                 : "not chosen, since they find no room in tiles";
  return fmt::format("pairs of rows, L = 8, would take {}: {}", choice.row_pairs, reason);
}

void describe_pass(const plan::Pass& pass, std::vector<std::string>& lines) {
  if (pass.is_bands()) {
    describe_bands(pass, lines);
    return;
  }
  lines.push_back(
      fmt::format("Plan      {}: {} {} per 128 outputs, {}, windows at x shift {}", pass.mapping.name,
                  pass.products.size(), pass.whole_operands ? "mma.sync.m16n8k16" : "mma.sp.m16n8k32",
                  counted(pass.operands.size(), "distinct operand"), fmt::join(pass.shifts, ", ")));
  if (pass.mapping_choice) lines.push_back("          " + mapping_choice_text(pass, *pass.mapping_choice));
  if (pass.walk == plan::Walk::planes) {
    describe_planes(pass, lines);
    return;
  }
  if (pass.walk == plan::Walk::lines) {
    lines.push_back(fmt::format("          {} of 128 x a warp, {} warps a block, a row by itself",
                                counted(pass.lines.tiles_per_warp, "tile"), pass.lines.warps_per_block));
    return;
  }
  const plan::Streaming& streaming = pass.streaming;
  if (const int distance = pass.sources.back().distance().y; distance > 0 && !pass.mapping.pairs_rows())
    lines.push_back(fmt::format("          pairs of diagonals, {} apart", counted(distance, "row")));
  if (streaming.warpgroups) {
    lines.push_back(
        "          wgmma.mma_async.sp.m64n64k32: four rows of 1024 a block and step, for sm_90a alone");
    return;
  }
  if (!streaming.tile_forms.empty()) {
    const plan::TileForm& high = streaming.tile_forms.front();
    lines.push_back(
        fmt::format("          {} of 128 x a warp, whose inputs are all requested at once{}; {} warps a "
                    "block, {} abreast",
                    counted(static_cast<std::size_t>(high.rows), "row"),
                    streaming.tiles_in_shared_memory ? ", into shared memory" : "", high.across * high.down,
                    high.across));
    std::vector<int> lower;
    for (std::size_t i = 1; i < streaming.tile_forms.size(); ++i) {
      // Behind one for all boxes that are left come only those for rows that are not aligned.
      if (i > 1 && streaming.tile_forms[i - 1].least_blocks == 0) break;
      const int rows = streaming.tile_forms[i].rows;
      if (lower.empty() || lower.back() != rows) lower.push_back(rows);
    }
    lines.push_back(
        fmt::format("          {} rows{} where these would be fewer than {} blocks a multiprocessor",
                    fmt::join(lower, " or "),
                    !high.in_registers && streaming.tile_forms[1].in_registers ? ", in registers," : "",
                    high.least_blocks));
    return;
  }
  lines.push_back(fmt::format(
      "          {} in flight, {} of 128 x a warp, {} warps a block, ring of {} rows, operands in {}",
      counted(pass.rows_in_flight(), "row"), counted(streaming.tiles_per_warp, "tile"),
      streaming.warps_per_block, streaming.ring_rows,
      streaming.operands_in_registers ? "registers" : "shared memory"));
}

void describe_core_tiles(const plan::CorePlan& cores, std::vector<std::string>& lines) {
  constexpr int lanes = 32;
  lines.push_back(fmt::format("Plan      {} a point in the code, tiles of {} x {} a warp",
                              counted(cores.taps.size(), "multiply-add"), cores.tile_rows,
                              (lanes - cores.left_lanes - cores.right_lanes) * cores.outputs));
  lines.push_back(
      fmt::format("          {} input rows requested at once, {} of a lane along x, {} warps a block",
                  cores.tile_input_rows, counted(static_cast<std::size_t>(cores.outputs), "output"),
                  cores.warps_per_block));
}

void describe_ring(const plan::CorePlan& cores, std::vector<std::string>& lines) {
  const plan::CoreRing& ring = *cores.ring;
  lines.push_back(fmt::format("Plan      {} a point in the code, walking along planes",
                              counted(cores.taps.size(), "multiply-add")));
  lines.push_back(fmt::format("          {} of {} x a thread, {} x {} warps a block, ring of {} planes",
                              counted(static_cast<std::size_t>(ring.rows_per_thread), "row"), cores.outputs,
                              ring.warps_down, ring.warps_across,
                              ring.planes_at_once * (ring.groups_ahead + 1)));
}

void describe_cores(const plan::CorePlan& cores, int dimensions, std::vector<std::string>& lines) {
  if (cores.tile_rows > 0) {
    describe_core_tiles(cores, lines);
    return;
  }
  if (cores.ring) {
    describe_ring(cores, lines);
    return;
  }
  if (!cores.unrolled) {
    lines.push_back(fmt::format("Plan      {} by a table, since in the code they would be {}",
                                counted(cores.taps.size(), "tap"), cores.objection));
  } else {
    lines.push_back(fmt::format("Plan      {} a point in the code{}",
                                counted(cores.taps.size(), "multiply-add"),
                                dimensions == 2 ? ", walking down rows" : ""));
  }
  const std::string ring =
      cores.row_ring_rows > 0
          ? fmt::format("ring of {}, ", counted(static_cast<std::size_t>(cores.row_ring_rows), "input row"))
          : "";
  lines.push_back(fmt::format("          {} of a thread along x, {}{} warps a block",
                              counted(static_cast<std::size_t>(cores.outputs), "output"), ring,
                              cores.warps_per_block));
}

}  // namespace

std::string summary(const spec::StencilSpec& spec) {
  if (!spec.description.empty()) return spec.description;
  return fmt::format("{}D {} stencil of {}", spec.dimensions, shape_name(spec.shape),
                     counted(spec.taps.size(), "tap"));
}

std::vector<std::string> report(const spec::StencilSpec& spec, const plan::KernelPlan& plan) {
  std::vector<std::string> lines;
  lines.push_back(fmt::format("Stencil   {}D {}, {} in {}, reach {}", spec.dimensions, shape_name(spec.shape),
                              counted(spec.taps.size(), "tap"), counted(plan.tap_rows.size(), "row"),
                              reach_text(spec, plan)));
  if (!spec.parameters.empty()) {
    std::vector<std::string> parameters;
    for (const spec::Parameter& parameter : spec.parameters) {
      parameters.push_back(
          fmt::format("{} = {}{}", parameter.name, parameter.value, parameter.overridden ? " (-D)" : ""));
    }
    lines.push_back(fmt::format("With      {}", fmt::join(parameters, ", ")));
  }
  lines.push_back(fmt::format("Boundary  {}", boundary_text(spec)));
  lines.push_back(fmt::format("Storage   {} fields, f32 sums{}", storage_name(spec.storage),
                              inputs_text(spec, plan.engine)));
  lines.push_back(fmt::format("Weights   {}", weights_text(plan.weights)));
  lines.push_back(
      fmt::format("          sum {} in the spec, {} packed", plan.weights.sum, plan.weights.packed_sum));
  if (plan.weights.adds_identity) {
    lines.emplace_back(
        "          the old value is added to the sum of the rest: the centre weight is packed less 1");
  }
  lines.push_back(fmt::format("Bound     {}", bound_text(plan.error_bound)));
  lines.push_back("Engine    " + engine_text(plan.engine));
  if (plan.variant != plan::Variant{})
    lines.push_back("Variant  " + plan::variant_options(plan.variant) + ", for measurements");
  if (plan.engine == plan::Engine::cuda) describe_cores(plan.cores, spec.dimensions, lines);
  for (const plan::Pass& pass : plan.passes) describe_pass(pass, lines);
  return lines;
}

}  // namespace spidergen::emit
