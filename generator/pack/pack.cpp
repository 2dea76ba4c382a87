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

PackedPass pack_whole(const plan::Pass& pass, plan::OperandType type) {
  std::vector<plan::Matrix> matrices;
  for (const plan::Operand& operand : pass.operands) matrices.push_back(operand.matrix);
  return pack_whole_matrices(matrices, type);
}

/// Operands of bands: those along y are compressed, and come first; those along x are whole.
PackedPass pack_bands(const plan::Pass& pass, plan::OperandType type) {
  const auto is_along_y = [&](const plan::Operand& operand) { return pass.sources[operand.source].along_y; };
  std::vector<SelectedMatrix> columns;
  for (const plan::Operand& operand : pass.operands) {
    if (is_along_y(operand))
      columns.push_back({operand.matrix, select_columns(pass.sources[operand.source].mapping)});
  }
  PackedPass packed = pack_matrices(columns, type);
  for (const plan::Operand& operand : pass.operands) {
    if (!is_along_y(operand))
      packed.operands.push_back({to_narrow_fragment(operand.matrix, type), 0, 0, true});
  }
  return packed;
}

PackedPass pack_compressed(const plan::Pass& pass, plan::OperandType type) {
  std::vector<Selection> selections;  // by source
  for (const plan::Source& source : pass.sources) selections.push_back(select_columns(source.mapping));
  std::vector<SelectedMatrix> matrices;
  for (const plan::Operand& operand : pass.operands)
    matrices.push_back({operand.matrix, selections[operand.source]});
  return pack_matrices(matrices, type);
}

}  // namespace

PackedPass pack_matrices(const std::vector<SelectedMatrix>& matrices, plan::OperandType type) {
  PackedPass pass;
  pass.type = type;
  const std::vector<Selection> selections = distinct_selections(matrices);
  for (auto first = selections.begin(); first != selections.end();) {
    const auto last = first + std::min<std::ptrdiff_t>(selections_per_register, selections.end() - first);
    pass.metadata.push_back(pack_metadata({first, last}));
    first = last;
  }
  for (const SelectedMatrix& matrix : matrices) {
    const auto index = static_cast<int>(std::find(selections.begin(), selections.end(), matrix.selection) -
                                        selections.begin());
    pass.operands.push_back({to_fragment(compress(matrix.matrix, matrix.selection), type),
                             index / selections_per_register, index % selections_per_register});
  }
  return pass;
}

PackedPass pack_whole_matrices(const std::vector<plan::Matrix>& matrices, plan::OperandType type) {
  PackedPass pass;
  pass.type = type;
  pass.whole = true;
  for (const plan::Matrix& matrix : matrices) pass.operands.push_back({to_fragment(matrix, type)});
  return pass;
}

plan::Matrix unpack(const PackedPass& pass, int operand) {
  const PackedOperand& packed = pass.operands[operand];
  if (packed.narrow) return from_narrow_fragment(packed.values, pass.type);
  if (pass.whole) return from_fragment(packed.values, pass.type);
  return expand(from_fragment(packed.values, pass.type),
                unpack_metadata(pass.metadata[packed.metadata], packed.selector));
}

PackedKernel pack(const plan::KernelPlan& plan) {
  PackedKernel kernel;
  for (const plan::Pass& pass : plan.passes) {
    const auto pack_pass =
        pass.is_bands() ? pack_bands : (pass.whole_operands ? pack_whole : pack_compressed);
    kernel.passes.push_back(pack_pass(pass, plan.weights.type));
  }
  return kernel;
}

}  // namespace spidergen::pack
