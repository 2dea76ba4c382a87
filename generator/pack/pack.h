#pragma once

#include <vector>

#include "pack/fragment.h"
#include "plan/kernel_plan.h"

namespace spidergen::pack {

/// One operand as a warp loads it, and the place of its metadata.
struct PackedOperand {
  OperandFragment values{};
  int metadata = 0;  ///< index into PackedKernel::metadata
  int selector = 0;  ///< sparsity selector, an immediate of the instruction
  bool narrow =
      false;  ///< whole, 8 outputs by 16 inputs: registers 0 and 2 are all of it, and there is no metadata

  bool operator==(const PackedOperand&) const = default;
};

/// The registers of a contraction's operands; none on CUDA cores.
struct PackedKernel {
  plan::OperandType type = plan::OperandType::f16;
  bool whole = false;                      ///< operands are not compressed and have no metadata
  std::vector<PackedOperand> operands;     ///< in the order of plan::Contraction::operands
  std::vector<MetadataFragment> metadata;  ///< two distinct selections per register

  bool operator==(const PackedKernel&) const = default;
};

/// A matrix to pack and its mapping's selection.
struct SelectedMatrix {
  plan::Matrix matrix;
  Selection selection;
};

/// Compresses and orders matrices, possibly of different mappings; equal selections share metadata.
[[nodiscard]] PackedKernel pack_matrices(const std::vector<SelectedMatrix>& matrices,
                                         plan::OperandType type = plan::OperandType::f16);

/// Orders 16 x 16 matrices without compression, for mma.sync.m16n8k16.
[[nodiscard]] PackedKernel pack_whole_matrices(const std::vector<plan::Matrix>& matrices,
                                               plan::OperandType type = plan::OperandType::f16);

/// The matrix of an operand, recovered from its registers alone.
[[nodiscard]] plan::Matrix unpack(const PackedKernel& kernel, int operand);

/// Packs every operand of a plan. Throws InternalError where a matrix to compress violates 2:4.
[[nodiscard]] PackedKernel pack(const plan::KernelPlan& plan);

}  // namespace spidergen::pack
