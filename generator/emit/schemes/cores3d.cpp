#include <fmt/format.h>

#include "emit/core_text.h"
#include "emit/schemes/schemes.h"
#include "plan/column_reach.h"
#include "plan/core_ring.h"

namespace spidergen::emit {

SchemeText cores3d_text(const Kernel& kernel) {
  render::Bindings bindings;
  const auto& [spec, plan, packed] = kernel;
  const plan::CorePlan& cores = plan.cores;
  const plan::CoreRing& ring = *cores.ring;
  const int element_bytes = spec::element_bytes(spec.storage);
  const plan::SideVectors sides = plan::side_vectors(cores.taps, element_bytes);
  bind_core_taps(kernel, bindings);
  bindings["reach"] = reach3d_struct(kernel, plan::column_reach_of(plan.tap_rows));
  bindings["preferred_steps"] = fmt::to_string(cores.preferred_steps);
  bindings["rows_per_thread"] = fmt::to_string(ring.rows_per_thread);
  bindings["warps_across"] = fmt::to_string(ring.warps_across);
  bindings["warps_down"] = fmt::to_string(ring.warps_down);
  bindings["planes_at_once"] = fmt::to_string(ring.planes_at_once);
  bindings["groups_ahead"] = fmt::to_string(ring.groups_ahead);
  bindings["edges_in_memory"] = ring.edges_in_memory ? "true" : "false";
  bindings["left_vectors"] = fmt::to_string(sides.left);
  bindings["right_vectors"] = fmt::to_string(sides.right);
  bindings["ring_row_bytes"] = fmt::to_string(plan::core_row_bytes(ring, sides, element_bytes));
  bindings["ring_lead_bytes"] = fmt::to_string(plan::core_lead_bytes(sides));
  bindings["edge_columns"] = fmt::to_string(plan::core_edge_columns(plan.tap_rows, element_bytes));
  return {render_part("cores3d.cu.in", bindings), {"spider::cores3d_form<Stencil>(),"}};
}

}  // namespace spidergen::emit
