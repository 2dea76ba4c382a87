#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "emit/cost_model.h"
#include "plan/kernel_plan.h"
#include "plan/machine.h"

namespace spidergen::emit {

/// The figures of a plan for `--explain`.
struct Figures {
  int mmas = 0;                ///< per 128 outputs
  std::int64_t slots = 0;      ///< of the operands of those MMAs, without those that 2:4 omits
  std::int64_t nonzeros = 0;   ///< of the slots
  double bytes_per_point = 0;  ///< read once, written once
};

[[nodiscard]] Figures figures_of(const plan::KernelPlan& plan);

/// Products for each tile and row with either mapping, where there is a choice in 2D.
struct MappingChoice {
  int windows = 0;
  int row_pairs = 0;
};

[[nodiscard]] std::optional<MappingChoice> mapping_choice_of(const plan::KernelPlan& plan);

/// The bounds of a sweep over the reference field, by architecture.
struct ArchitectureBound {
  std::string architecture;
  const plan::DeviceRates* rates = nullptr;  ///< null where they are unknown
  plan::SweepBound bound;
};

[[nodiscard]] std::vector<ArchitectureBound> bounds_of(const plan::KernelPlan& plan,
                                                       const std::vector<std::string>& architectures);

/// The paper's methods and this kernel, on a box of the stencil's largest reach.
struct CostComparison {
  BoxTile tile;
  std::vector<MethodCost> methods;
};

/// Empty where the model does not apply: it is for 2D stencils with a neighbour. This kernel's operations are
/// those of its MMAs without the zeros that 2:4 skips. Its input is the data that lanes load from the ring
/// into fragments. It has no parameters where operands stay in registers for a whole walk. On CUDA cores
/// operations are multiply-adds, and the input is the data that threads load.
[[nodiscard]] CostComparison costs_of(const plan::KernelPlan& plan);

/// The smallest and the largest dx of a product's non-zeros.
struct Range {
  int low = 0;
  int high = 0;
};

[[nodiscard]] Range columns_of(const plan::Contraction& contraction, const plan::Product& product);
/// The same for dy, relative to the row of its window.
[[nodiscard]] Range rows_of(const plan::Contraction& contraction, const plan::Product& product);

}  // namespace spidergen::emit
