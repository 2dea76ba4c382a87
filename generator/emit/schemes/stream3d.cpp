#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emit/describe.h"
#include "emit/schemes/schemes.h"

namespace spidergen::emit {
namespace {

constexpr int vector_elements = 8;

/// {vector, pair, rows, planes} of each source, a spider::PlaneSource.
std::vector<std::string> sources_of(const plan::Contraction& contraction, int first_column) {
  std::vector<std::string> lines;
  for (const plan::Source& source : contraction.sources) {
    const plan::Position distance = source.distance();
    const int first = source.shift + source.mapping.window_low - first_column;
    add(lines, "{{{}, {}, {}, {}}},", first / vector_elements, distance != plan::Position{}, distance.y,
        distance.z);
  }
  return lines;
}

/// {plane, row, source, operand, metadata, selector} of each product, followed by its sum where it is not the
/// first: a spider::PlaneProduct.
std::vector<std::string> products_of(const plan::Contraction& contraction, const pack::PackedKernel& packed) {
  std::vector<std::string> lines;
  const int first_plane = contraction.plane_high - contraction.plane_low + 1 - contraction.planes_in_flight();
  for (const plan::Product& product : contraction.products) {
    const pack::PackedOperand& operand = packed.operands[product.operand];
    const std::string sum = product.sum == 0 ? "" : fmt::format(", {}", product.sum);
    add(lines, "{{{}, {}, {}, {}, {}, {}{}}},", contraction.last_plane(product) - first_plane, product.row,
        product.source, product.operand, operand.metadata, operand.selector, sum);
  }
  return lines;
}

}  // namespace

std::string boundary3d_struct(const plan::BoundaryContribution& added, double scale) {
  std::vector<std::string> rows;
  for (const plan::Matrix& plane : added.planes) {
    for (int row = 0; row < plane.rows; ++row) rows.push_back(float_row_text(plane, row, scale) + ",");
  }
  const auto& [near_planes, near_rows, near_columns] = added.near;
  return render_part("stream3d_constant.cu.in", {{"values", fmt::format("{}", fmt::join(rows, "\n"))},
                                                 {"low_planes", fmt::to_string(near_planes[0])},
                                                 {"high_planes", fmt::to_string(near_planes[1])},
                                                 {"low_rows", fmt::to_string(near_rows[0])},
                                                 {"high_rows", fmt::to_string(near_rows[1])},
                                                 {"low_columns", fmt::to_string(near_columns[0])},
                                                 {"high_columns", fmt::to_string(near_columns[1])}});
}

SchemeText text_of(const plan::Stream3d& stream, const Kernel& kernel) {
  render::Bindings bindings;
  const plan::Contraction& contraction = kernel.contraction();
  bindings["operands"] = operands_struct(kernel);
  bindings["reach"] =
      reach3d_struct(kernel, contraction.row_low, contraction.row_high, contraction.column_reach);
  bindings["product_count"] = fmt::to_string(contraction.products.size());
  bindings["products"] =
      constants_text("spider::PlaneProduct", "product", products_of(contraction, kernel.packed), "\n");
  int largest_distance = 0;
  for (const plan::Source& source : contraction.sources)
    largest_distance = std::max(largest_distance, source.distance().z);
  bindings["pairs_rows"] = contraction.mapping.pairs_rows() ? "true" : "false";
  bindings["rows_per_warp"] = fmt::to_string(stream.rows_per_warp);
  bindings["warps_per_block"] = fmt::to_string(stream.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(stream.blocks_per_multiprocessor);
  bindings["preferred_planes"] = fmt::to_string(stream.preferred_planes);
  bindings["ring_planes"] = fmt::to_string(stream.ring_planes);
  bindings["ring_row_bytes"] = fmt::to_string(stream.row_bytes);
  bindings["ring_plane_bytes"] = fmt::to_string(stream.plane_bytes);
  bindings["left_vectors"] = fmt::to_string(stream.left_vectors);
  bindings["right_vectors"] = fmt::to_string(stream.right_vectors);
  bindings["ring_lead_bytes"] = fmt::to_string(stream.lead_bytes);
  bindings["operands_in_registers"] = stream.operands_in_registers ? "true" : "false";
  bindings["planes_in_flight"] = fmt::to_string(contraction.planes_in_flight());
  bindings["largest_distance"] = fmt::to_string(largest_distance);
  bindings["unrolled_planes"] = fmt::to_string(stream.unrolled_planes);
  bindings["source_count"] = fmt::to_string(contraction.sources.size());
  bindings["sources"] =
      constants_text("spider::PlaneSource", "source", sources_of(contraction, stream.first_column), "\n");
  return {render_part("stream3d.cu.in", bindings), {"spider::stream3d_form<Stencil>(),"}};
}

void describe(const plan::Stream3d& stream, const plan::KernelPlan& plan, Lines& lines) {
  const plan::Contraction& contraction = plan.contraction;
  if (contraction.pairs_diagonals()) {
    add(lines, "          pairs of diagonals at {}",
        counted(std::ssize(contraction.sources) - std::ssize(contraction.shifts), "distance"));
  }
  add(lines,
      "          {} in flight, {} of 128 x a warp, {} warps a block, ring of {} planes, operands in {}",
      counted(contraction.planes_in_flight(), "plane"), counted(stream.rows_per_warp, "row"),
      stream.warps_per_block, stream.ring_planes,
      stream.operands_in_registers ? "registers" : "shared memory");
}

std::string json_of(const plan::Stream3d& stream, const plan::KernelPlan& plan) {
  return fmt::format(
      R"({{"planes_in_flight": {}, "rows_per_warp": {}, "warps_per_block": {}, "ring_planes": {}, )"
      R"("preferred_planes": {}, "operands_in_registers": {}, "estimated_registers": {}, "shared_bytes": {}}})",
      plan.contraction.planes_in_flight(), stream.rows_per_warp, stream.warps_per_block, stream.ring_planes,
      stream.preferred_planes, stream.operands_in_registers, stream.estimated_registers, stream.shared_bytes);
}

}  // namespace spidergen::emit
