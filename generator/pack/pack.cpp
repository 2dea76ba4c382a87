#include "pack/pack.h"

#include <algorithm>
#include <vector>

namespace spidergen::pack {
namespace {

constexpr int selections_per_register = 2;

std::vector<Selection> distinct_selections(const std::vector<SelectedMatrix>& matrices) {
  std::vector<Selection> distinct;
  for (const SelectedMatrix& matrix : matrices) {
    if (std::find(distinct.begin(), distinct.end(), matrix.selection) == distinct.end()) {
      distinct.push_back(matrix.selection);
    }
  }
  return distinct;
}

PackedKernel pack_whole(const plan::Contraction& contraction, plan::OperandType type) {
  std::vector<plan::Matrix> matrices;
  for (const plan::Operand& operand : contraction.operands) matrices.push_back(operand.matrix);
  return pack_whole_matrices(matrices, type);
}

/// Operands of bands: those along y come first and are compressed; those along x are whole.
PackedKernel pack_bands(const plan::Contraction& contraction, plan::OperandType type) {
  const auto is_along_y = [&](const plan::Operand& operand) {
    return contraction.sources[operand.source].along_y;
  };
  std::vector<SelectedMatrix> columns;
  for (const plan::Operand& operand : contraction.operands) {
    if (is_along_y(operand))
      columns.push_back({operand.matrix, select_columns(contraction.sources[operand.source].mapping)});
  }
  PackedKernel packed = pack_matrices(columns, type);
  for (const plan::Operand& operand : contraction.operands) {
    if (!is_along_y(operand))
      packed.operands.push_back({to_narrow_fragment(operand.matrix, type), 0, 0, true});
  }
  return packed;
}

PackedKernel pack_compressed(const plan::Contraction& contraction, plan::OperandType type) {
  std::vector<Selection> selections;  // by source
  for (const plan::Source& source : contraction.sources) selections.push_back(select_columns(source.mapping));
  std::vector<SelectedMatrix> matrices;
  for (const plan::Operand& operand : contraction.operands)
    matrices.push_back({operand.matrix, selections[operand.source]});
  return pack_matrices(matrices, type);
}

}  // namespace

PackedKernel pack_matrices(const std::vector<SelectedMatrix>& matrices, plan::OperandType type) {
  PackedKernel kernel;
  kernel.type = type;
  const std::vector<Selection> selections = distinct_selections(matrices);
  for (auto first = selections.begin(); first != selections.end();) {
    const auto last = first + std::min<std::ptrdiff_t>(selections_per_register, selections.end() - first);
    kernel.metadata.push_back(pack_metadata({first, last}));
    first = last;
  }
  for (const SelectedMatrix& matrix : matrices) {
    const auto index = static_cast<int>(std::find(selections.begin(), selections.end(), matrix.selection) -
                                        selections.begin());
    kernel.operands.push_back({to_fragment(compress(matrix.matrix, matrix.selection), type),
                               index / selections_per_register, index % selections_per_register});
  }
  return kernel;
}

PackedKernel pack_whole_matrices(const std::vector<plan::Matrix>& matrices, plan::OperandType type) {
  PackedKernel kernel;
  kernel.type = type;
  kernel.whole = true;
  for (const plan::Matrix& matrix : matrices) kernel.operands.push_back({to_fragment(matrix, type)});
  return kernel;
}

plan::Matrix unpack(const PackedKernel& kernel, int operand) {
  const PackedOperand& packed = kernel.operands[operand];
  if (packed.narrow) return from_narrow_fragment(packed.values, kernel.type);
  if (kernel.whole) return from_fragment(packed.values, kernel.type);
  return expand(from_fragment(packed.values, kernel.type),
                unpack_metadata(kernel.metadata[packed.metadata], packed.selector));
}

PackedKernel pack(const plan::KernelPlan& plan) {
  const plan::Contraction& contraction = plan.contraction;
  if (contraction.is_low_rank()) return pack_whole(contraction, contraction.low_rank.front().type);
  if (contraction.is_bands()) return pack_bands(contraction, plan.weights.type);
  return pack_compressed(contraction, plan.weights.type);
}

}  // namespace spidergen::pack
