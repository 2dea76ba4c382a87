/// Arithmetic and conversions of numbers, and of the halves of words.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <spider/machine/cuda/lanes.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {
namespace device {

/// The bits of an f32 or an f64, and the number of bits.
SPIDER_DEVICE std::uint32_t bits_of(float value) {
  return __float_as_uint(value);
}
SPIDER_DEVICE float float_of(std::uint32_t bits) {
  return __uint_as_float(bits);
}
SPIDER_DEVICE std::uint64_t bits_of(double value) {
  return static_cast<std::uint64_t>(__double_as_longlong(value));
}
SPIDER_DEVICE double double_of(std::uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits));
}

/// fma.rn.f32: a * b + c, rounded once.
SPIDER_DEVICE float multiply_add(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}

/// add.rn.f32, sub, mul and sqrt: one operation each, rounded once; the compiler does not fuse them.
SPIDER_DEVICE float add(float a, float b) {
  return __fadd_rn(a, b);
}
SPIDER_DEVICE float subtract(float a, float b) {
  return __fsub_rn(a, b);
}
SPIDER_DEVICE float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
/// div.full.f32 (9.7.3.8): within 2 units in the last place. Division rounded to nearest has a branch that
/// serialises neighbouring points: an update with one takes a quarter longer.
SPIDER_DEVICE float divide(float a, float b) {
  float quotient;
  asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
  return quotient;
}
/// sqrt.approx.f32 (9.7.3.15), within 2^-23: rounded to nearest it takes four times as many instructions.
SPIDER_DEVICE float square_root(float a) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(a));
  return root;
}
/// sqrt.approx.ftz.f32: the same, but subnormal numbers count as 0, in a quarter of the instructions.
SPIDER_DEVICE float square_root_of_normal(float a) {
  float root;
  asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(a));
  return root;
}
/// max.f32 and min.f32 (9.7.3.12): of a NaN and a number it is the number, and -0 lies below +0.
SPIDER_DEVICE float larger(float a, float b) {
  return fmaxf(a, b);
}
SPIDER_DEVICE float smaller(float a, float b) {
  return fminf(a, b);
}

/// The same in f64: fma.rn, add.rn, sub.rn, mul.rn, div.rn, sqrt.rn, max and min.
SPIDER_DEVICE double multiply_add(double a, double b, double c) {
  return __fma_rn(a, b, c);
}
SPIDER_DEVICE double add(double a, double b) {
  return __dadd_rn(a, b);
}
SPIDER_DEVICE double subtract(double a, double b) {
  return __dsub_rn(a, b);
}
SPIDER_DEVICE double multiply(double a, double b) {
  return __dmul_rn(a, b);
}
SPIDER_DEVICE double divide(double a, double b) {
  return __ddiv_rn(a, b);
}
SPIDER_DEVICE double square_root(double a) {
  return __dsqrt_rn(a);
}
SPIDER_DEVICE double larger(double a, double b) {
  return fmax(a, b);
}
SPIDER_DEVICE double smaller(double a, double b) {
  return fmin(a, b);
}

/// max.NaN.f32 and min.NaN.f32 (9.7.3.11): NaN if either is.
SPIDER_DEVICE float larger_or_nan(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
SPIDER_DEVICE float smaller_or_nan(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
/// The same in f64, which has no such instruction.
SPIDER_DEVICE double larger_or_nan(double a, double b) {
  return a != a ? a : b != b ? b : larger(a, b);
}
SPIDER_DEVICE double smaller_or_nan(double a, double b) {
  return a != a ? a : b != b ? b : smaller(a, b);
}

/// max.f32 and min.f32 of magnitudes (9.7.3.12): of a NaN and a number it is the number.
SPIDER_DEVICE float larger_magnitude(float a, float b) {
  return fmaxf(fabsf(a), fabsf(b));
}
SPIDER_DEVICE float smaller_magnitude(float a, float b) {
  return fminf(fabsf(a), fabsf(b));
}

/// shf.r.wrap.b32: the lower word of both, shifted right by `bits` below 32.
SPIDER_DEVICE std::uint32_t funnel_shift_right(std::uint32_t low, std::uint32_t high, int bits) {
  return __funnelshift_r(low, high, static_cast<unsigned>(bits));
}

/// prmt.b32: the low halves of both, or the high ones, `low` in bits 0-15. The compiler would use two
/// instructions, a mask and a shift.
SPIDER_DEVICE std::uint32_t join_low_halves(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x5410);
}
SPIDER_DEVICE std::uint32_t join_high_halves(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x7632);
}

/// The same for the low bytes of both halves of both words.
SPIDER_DEVICE std::uint32_t join_even_bytes(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x6420);
}
/// Bytes 0 and 1 of a word as two f16 numbers, or bytes 2 and 3, exactly: prmt.b32 puts a byte into the last
/// digits of 1024, sub.f16x2 subtracts 1024. Zero-extended bytes would be subnormal numbers, whose products
/// tensor cores may sum with fewer digits.
template <unsigned bytes>
SPIDER_DEVICE std::uint32_t f16_of_bytes(std::uint32_t word) {
  const std::uint32_t digits = __byte_perm(word, 0x64646464U, bytes);
  const std::uint32_t most = 0x64006400U;
  const __half2 numbers =
      __hsub2(*reinterpret_cast<const __half2*>(&digits), *reinterpret_cast<const __half2*>(&most));
  return *reinterpret_cast<const std::uint32_t*>(&numbers);
}
SPIDER_DEVICE std::uint32_t f16_of_low_bytes(std::uint32_t word) {
  return f16_of_bytes<0x4140>(word);
}
SPIDER_DEVICE std::uint32_t f16_of_high_bytes(std::uint32_t word) {
  return f16_of_bytes<0x4342>(word);
}

/// cvt.rn.f16x2.f32: `low` in bits 0-15, `high` in bits 16-31.
SPIDER_DEVICE std::uint32_t pack_f16(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// cvt.rn.bf16x2.f32: `low` in bits 0-15, `high` in bits 16-31.
SPIDER_DEVICE std::uint32_t pack_bf16(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// cvt.f32.f16 of bits 0-15, and of bits 16-31.
SPIDER_DEVICE float low_f16(std::uint32_t both) {
  return __low2float(*reinterpret_cast<const __half2*>(&both));
}
SPIDER_DEVICE float high_f16(std::uint32_t both) {
  return __high2float(*reinterpret_cast<const __half2*>(&both));
}

}  // namespace device
}  // namespace device_4
}  // namespace spider
