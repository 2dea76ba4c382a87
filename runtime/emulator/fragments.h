#pragma once

#include <spider/instructions_emulated.h>

#include <array>
#include <cstdint>

namespace spider::emulator {

inline constexpr int lanes_per_warp = 32;

/// One warp's registers for multiply_sparse, by lane.
struct SparseOperands {
  std::array<device::Accumulator*, lanes_per_warp> sum;
  std::array<const device::Vector*, lanes_per_warp> a;
  std::array<const device::Vector*, lanes_per_warp> b;
  std::array<std::uint32_t, lanes_per_warp> metadata;
};

/// The same for multiply_dense.
struct DenseOperands {
  std::array<device::Accumulator*, lanes_per_warp> sum;
  std::array<const device::Vector*, lanes_per_warp> a;
  std::array<const device::Pair*, lanes_per_warp> b;
};

/// Which row of B each stored element of A meets: the decoded metadata of a warp.
class SparsePattern {
 public:
  /// Decodes the words of the lanes that `selector` picks, unless they are those of the last call. A code
  /// other than 4, 8, C, 9, D, E is a Violation.
  void decode(const std::array<std::uint32_t, lanes_per_warp>& metadata, int selector);

  /// For each row of A, its stored elements' columns in the order of the compressed row.
  using Columns = std::array<std::array<std::uint8_t, 16>, 16>;
  [[nodiscard]] const Columns& columns() const { return columns_; }

 private:
  bool decoded_ = false;
  std::array<std::uint32_t, 16> words_{};
  Columns columns_{};
};

/// Element type of A and B of an MMA.
enum class OperandType { f16, bf16 };

/// mma.sp m16n8k32, f16 or bf16 to f32: sum += A * B. Products are exact. `products_at_once`, a divisor of
/// 16, of an element's 16 products are added to C in double and the sum is cut towards zero to f32; the next
/// group is added to that. Tensor cores do not round to nearest either, and err to the same side.
void multiply_sparse(const SparseOperands& operands, OperandType type, int products_at_once, int selector,
                     SparsePattern& pattern);

/// mma.sync m16n8k16, f16 or bf16 to f32: sum += A * B, added and cut in the same way.
void multiply_dense(const DenseOperands& operands, OperandType type, int products_at_once);

/// movmatrix m8n8 .trans, in place: element 2 c + h of row r is half h of lane 4 r + c.
void transpose_8x8(std::array<std::uint32_t, lanes_per_warp>& matrix);

}  // namespace spider::emulator
