#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "emit/schemes/schemes.h"
#include "plan/planes.h"

namespace spidergen::emit {
namespace {

constexpr int vector_elements = 8;

/// {vector, pair, rows, planes} of each source, a spider::PlaneSource.
std::vector<std::string> sources_of(const plan::Pass& pass) {
  std::vector<std::string> lines;
  for (const plan::Source& source : pass.sources) {
    const plan::Position distance = source.distance();
    const int first = source.shift + source.mapping.window_low - plan::plane_first_column(pass);
    lines.push_back(fmt::format("{{{}, {}, {}, {}}},", first / vector_elements, distance != plan::Position{},
                                distance.y, distance.z));
  }
  return lines;
}

/// {plane, row, source, operand, metadata, selector} of each product: a spider::PlaneProduct.
std::vector<std::string> products_of(const plan::Pass& pass, const pack::PackedPass& packed) {
  std::vector<std::string> lines;
  const int first_plane = pass.plane_high - pass.plane_low + 1 - pass.planes_in_flight();
  for (const plan::Product& product : pass.products) {
    const pack::PackedOperand& operand = packed.operands[product.operand];
    lines.push_back(fmt::format("{{{}, {}, {}, {}, {}, {}}},", pass.last_plane(product) - first_plane,
                                product.row, product.source, product.operand, operand.metadata,
                                operand.selector));
  }
  return lines;
}

}  // namespace

SchemeText stream3d_text(const Kernel& kernel) {
  render::Bindings bindings;
  const plan::Pass& pass = kernel.pass();
  bindings["operands"] = operands_struct(kernel);
  bindings["reach"] = reach3d_struct(kernel, pass.column_reach);
  bindings["product_count"] = fmt::to_string(pass.products.size());
  bindings["products"] =
      constants_text("spider::PlaneProduct", "product", products_of(pass, kernel.packed_pass()), "\n");
  const plan::PlaneStreaming& planes = pass.planes;
  int largest_distance = 0;
  for (const plan::Source& source : pass.sources)
    largest_distance = std::max(largest_distance, source.distance().z);
  bindings["pairs_rows"] = pass.mapping.pairs_rows() ? "true" : "false";
  bindings["rows_per_warp"] = fmt::to_string(planes.rows_per_warp);
  bindings["warps_per_block"] = fmt::to_string(planes.warps_per_block);
  bindings["blocks_per_multiprocessor"] = fmt::to_string(planes.blocks_per_multiprocessor);
  bindings["preferred_planes"] = fmt::to_string(planes.preferred_planes);
  bindings["ring_planes"] = fmt::to_string(planes.ring_planes);
  bindings["ring_row_bytes"] = fmt::to_string(planes.row_bytes);
  bindings["ring_plane_bytes"] = fmt::to_string(planes.plane_bytes);
  const plan::SideVectors sides = plan::plane_side_vectors(pass);
  bindings["left_vectors"] = fmt::to_string(sides.left);
  bindings["right_vectors"] = fmt::to_string(sides.right);
  bindings["ring_lead_bytes"] = fmt::to_string(plan::plane_lead_bytes(pass));
  bindings["edge_columns"] = fmt::to_string(plan::plane_edge_columns(pass));
  bindings["operands_in_registers"] = planes.operands_in_registers ? "true" : "false";
  bindings["planes_in_flight"] = fmt::to_string(pass.planes_in_flight());
  bindings["largest_distance"] = fmt::to_string(largest_distance);
  bindings["unrolled_planes"] = fmt::to_string(planes.unrolled_planes);
  bindings["source_count"] = fmt::to_string(pass.sources.size());
  bindings["sources"] = constants_text("spider::PlaneSource", "source", sources_of(pass), "\n");
  return {render_part("stream3d.cu.in", bindings), {"spider::stream3d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
