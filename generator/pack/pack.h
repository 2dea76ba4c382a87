#pragma once

#include <vector>

#include "pack/fragment.h"
#include "plan/kernel_plan.h"

namespace spidergen::pack {

/// One operand as a warp loads it, and where its metadata is.
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
  bool whole = false;                      ///< operands are not compressed, and there is no metadata
  std::vector<PackedOperand> operands;     ///< in the order of plan::Contraction::operands
  std::vector<MetadataFragment> metadata;  ///< two distinct selections to a register

  bool operator==(const PackedKernel&) const = default;
};

/// A matrix to pack and the selection its mapping gives it.
struct SelectedMatrix {
  plan::Matrix matrix;
  Selection selection;
};

/// Compresses and orders matrices that may come from different mappings; equal selections share metadata.
[[nodiscard]] PackedKernel pack_matrices(const std::vector<SelectedMatrix>& matrices,
                                         plan::OperandType type = plan::OperandType::f16);

/// Orders matrices of 16 x 16 as they are, for mma.sync.m16n8k16.
[[nodiscard]] PackedKernel pack_whole_matrices(const std::vector<plan::Matrix>& matrices,
                                               plan::OperandType type = plan::OperandType::f16);

/// The matrix of an operand, recovered from its registers alone.
[[nodiscard]] plan::Matrix unpack(const PackedKernel& kernel, int operand);

/// Packs every operand of a plan. Throws InternalError where a matrix that is to be compressed breaks 2:4.
[[nodiscard]] PackedKernel pack(const plan::KernelPlan& plan);

}  // namespace spidergen::pack
