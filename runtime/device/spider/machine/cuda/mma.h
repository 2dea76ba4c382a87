/// Products of tensor cores, and the transposition of their results.
#pragma once

#include <spider/machine/cuda/lanes.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {
namespace device {

/// The C and D fragment of one lane (9.7.14.5, m16n8k32): value[2 h + b] is row lane / 4 + 8 h, column 2
/// (lane % 4) + b.
struct Accumulator {
  float value[4];
};

/// movmatrix.sync.aligned.m8n8.trans.b16 (9.7.14.5.17): lane 4 r + c gives elements 2 c, 2 c + 1 of row r and
/// receives elements 2 c, 2 c + 1 of column r.
SPIDER_DEVICE std::uint32_t transpose_8x8(std::uint32_t row_pair) {
  std::uint32_t column_pair;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column_pair) : "r"(row_pair));
  return column_pair;
}

/// True if there are the MMA instructions that kernels use, from sm_80 on.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
inline constexpr bool has_products = false;
#else
inline constexpr bool has_products = true;
#endif

/// mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 (9.7.14.6): sum += A * B, A
/// compressed 2:4.
template <int selector>
SPIDER_DEVICE void multiply_sparse(Accumulator& sum, const Vector& a, const Vector& b,
                                   std::uint32_t metadata) {
  static_assert(selector == 0 || selector == 1, "m16n8k32 knows two sparsity selectors");
  static_assert(has_products || selector < 0,
                "this kernel takes sm_80; spider-gen --engine cuda writes one for sm_75");
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
      "%7}, "
      "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
      : "+f"(sum.value[0]), "+f"(sum.value[1]), "+f"(sum.value[2]), "+f"(sum.value[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]),
        "r"(b.word[2]), "r"(b.word[3]), "r"(metadata), "n"(selector));
}

/// The same for bf16: mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32.
template <int selector>
SPIDER_DEVICE void multiply_sparse_bf16(Accumulator& sum, const Vector& a, const Vector& b,
                                        std::uint32_t metadata) {
  static_assert(selector == 0 || selector == 1, "m16n8k32 knows two sparsity selectors");
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, "
      "%6, %7}, "
      "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
      : "+f"(sum.value[0]), "+f"(sum.value[1]), "+f"(sum.value[2]), "+f"(sum.value[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]),
        "r"(b.word[2]), "r"(b.word[3]), "r"(metadata), "n"(selector));
}

/// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 (9.7.14.5.8): sum += A * B.
SPIDER_DEVICE void multiply_dense(Accumulator& sum, const Vector& a, const Pair& b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum.value[0]), "+f"(sum.value[1]), "+f"(sum.value[2]), "+f"(sum.value[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
}

/// The same for bf16: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32.
SPIDER_DEVICE void multiply_dense_bf16(Accumulator& sum, const Vector& a, const Pair& b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum.value[0]), "+f"(sum.value[1]), "+f"(sum.value[2]), "+f"(sum.value[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
}

}  // namespace device
}  // namespace device_4
}  // namespace spider
