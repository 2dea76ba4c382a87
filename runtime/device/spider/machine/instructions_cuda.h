/// The instructions on the device: one function, one instruction. Sections are those of the PTX ISA.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#define SPIDER_DEVICE __device__ __forceinline__
#define SPIDER_DEVICE_APART static __device__ __noinline__
#define SPIDER_GLOBAL(threads, blocks) __global__ void __launch_bounds__(threads, blocks)
/// Before a kernel's argument: functions apart may take references to it, and nobody copies it.
#define SPIDER_GRID_CONSTANT __grid_constant__
#define SPIDER_TABLE static __device__ const
/// A function's own table: unrolled loops leave nothing of it. Were it not static, the compiler would build
/// it anew for every use, and take up to five times as long.
#define SPIDER_CONSTANTS static constexpr
#define SPIDER_UNROLL _Pragma("unroll")
#define SPIDER_NO_UNROLL _Pragma("unroll 1")
/// Behind a lambda's parameters: each of its calls has its own code.
#define SPIDER_INLINED __attribute__((always_inline))

namespace spider {
inline namespace device_3 {
namespace device {

/// Which machine this header is of.
inline constexpr int backend = SPIDER_BACKEND_CUDA;

/// Four 32-bit registers; 16 bytes in memory, on a multiple of 16.
struct alignas(16) Vector {
  std::uint32_t word[4];
};

/// Two 32-bit registers; 8 bytes in memory, on a multiple of 8.
struct alignas(8) Pair {
  std::uint32_t word[2];
};

/// A byte offset in the block's shared memory.
using Shared = std::uint32_t;

/// The C and D fragment of one lane (9.7.14.5, m16n8k32): value[2 h + b] is row lane / 4 + 8 h, column 2
/// (lane % 4) + b.
struct Accumulator {
  float value[4];
};

SPIDER_DEVICE int lane_index() {
  return static_cast<int>(threadIdx.x % 32);
}
SPIDER_DEVICE int warp_index() {
  return static_cast<int>(threadIdx.x / 32);
}
SPIDER_DEVICE int block_index() {
  return static_cast<int>(blockIdx.x);
}

SPIDER_DEVICE void sync_warp() {
  __syncwarp();
}
SPIDER_DEVICE void sync_block() {
  __syncthreads();
}
/// redux.sync.max.u32 and .min.u32 (9.7.13.6): the largest or smallest that any lane of the warp brings.
SPIDER_DEVICE std::uint32_t largest_in_warp(std::uint32_t value) {
  return __reduce_max_sync(0xffffffffU, value);
}
SPIDER_DEVICE std::uint32_t smallest_in_warp(std::uint32_t value) {
  return __reduce_min_sync(0xffffffffU, value);
}

/// shfl.sync.idx.b32 (9.7.9.6): what lane `source` % 32 brings.
SPIDER_DEVICE std::uint32_t take_from_lane(std::uint32_t value, int source) {
  return __shfl_sync(0xffffffffU, value, source);
}
/// Of 64 bits by two of them.
SPIDER_DEVICE std::uint64_t take_from_lane(std::uint64_t value, int source) {
  return __shfl_sync(0xffffffffU, value, source);
}

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

/// add.rn.f32, sub, mul and sqrt: one operation each, rounded once; the compiler joins none of them.
SPIDER_DEVICE float add(float a, float b) {
  return __fadd_rn(a, b);
}
SPIDER_DEVICE float subtract(float a, float b) {
  return __fsub_rn(a, b);
}
SPIDER_DEVICE float multiply(float a, float b) {
  return __fmul_rn(a, b);
}
/// div.full.f32 (9.7.3.8): within 2 units in the last place. Rounded to nearest it has a branch, for which
/// neighbouring points wait in turn: an update with one takes a quarter longer.
SPIDER_DEVICE float divide(float a, float b) {
  float quotient;
  asm("div.full.f32 %0, %1, %2;" : "=f"(quotient) : "f"(a), "f"(b));
  return quotient;
}
/// sqrt.approx.f32 (9.7.3.15), within 2^-23: rounded to nearest it would be four times as many instructions.
SPIDER_DEVICE float square_root(float a) {
  float root;
  asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(a));
  return root;
}
/// sqrt.approx.ftz.f32: the same, where subnormal numbers count as 0, in a quarter of the instructions.
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

/// max.f32 and min.f32 of magnitudes (9.7.3.12): of a NaN and a number it is the number.
SPIDER_DEVICE float larger_magnitude(float a, float b) {
  return fmaxf(fabsf(a), fabsf(b));
}
SPIDER_DEVICE float smaller_magnitude(float a, float b) {
  return fminf(fabsf(a), fabsf(b));
}

/// A value of a table baked into the generated file.
SPIDER_DEVICE Vector load_table(const Vector* from) {
  return *from;
}
SPIDER_DEVICE std::uint32_t load_table(const std::uint32_t* from) {
  return *from;
}

/// The value, which is there from here on. Else the compiler may wait for a load of before a loop inside the
/// loop, and that wait is one for later loads, too. It cannot know that blocks are counted in x only.
SPIDER_DEVICE std::uint32_t settle(std::uint32_t loaded) {
  std::uint32_t settled;
  asm volatile(
      "{\n"
      ".reg .b32 zero;\n"
      "mov.b32 zero, %%ctaid.y;\n"
      "xor.b32 %0, %1, zero;\n"
      "}"
      : "=r"(settled)
      : "r"(loaded));
  return settled;
}

/// A table's value, loaded where the program has it.
SPIDER_DEVICE Vector load_table_now(const Vector* from) {
  Vector v;
  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(from));
  return v;
}
SPIDER_DEVICE std::uint32_t load_table_now(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}

/// griddepcontrol.wait (9.7.13.13): until what the launch depends on is complete and its writes are visible.
/// Devices that cannot start a launch early have nothing to wait for.
SPIDER_DEVICE void wait_on_dependency() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/// griddepcontrol.launch_dependents: the launch behind this one may start once all blocks have said so or are
/// done. It waits before it touches fields, or is a sweep beside rims (spider/field/beside_rims.h).
SPIDER_DEVICE void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}

SPIDER_DEVICE std::uint32_t shared_address(Shared offset) {
  extern __shared__ __align__(128) unsigned char spider_shared_memory[];
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(spider_shared_memory)) + offset;
}

/// ld.shared.v4.b32: `from` is a multiple of 16.
SPIDER_DEVICE Vector load_shared(Shared from) {
  Vector v;
  asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(shared_address(from))
               : "memory");
  return v;
}

/// st.shared.v4.b32: `to` is a multiple of 16.
SPIDER_DEVICE void store_shared(Shared to, const Vector& v) {
  asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(to)), "r"(v.word[0]),
               "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3])
               : "memory");
}

/// ld.shared.v2.b32: `from` is a multiple of 8.
SPIDER_DEVICE Pair load_shared_pair(Shared from) {
  Pair v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "r"(shared_address(from))
               : "memory");
  return v;
}

/// ld.shared.b32: `from` is a multiple of 4.
SPIDER_DEVICE std::uint32_t load_shared_word(Shared from) {
  std::uint32_t v;
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(v) : "r"(shared_address(from)) : "memory");
  return v;
}

/// The same of what no lane writes until the next synchronisation of the block: stores to fields may come
/// before it.
SPIDER_DEVICE Pair load_settled_pair(Shared from) {
  Pair v;
  asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
               : "=r"(v.word[0]), "=r"(v.word[1])
               : "r"(shared_address(from)));
  return v;
}

/// ld.shared.b16: `from` is a multiple of 2.
SPIDER_DEVICE std::uint16_t load_shared_half(Shared from) {
  std::uint16_t v;
  asm volatile("ld.shared.b16 %0, [%1];" : "=h"(v) : "r"(shared_address(from)) : "memory");
  return v;
}

/// st.shared.v2.b32: `to` is a multiple of 8.
SPIDER_DEVICE void store_shared(Shared to, const Pair& v) {
  asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(shared_address(to)), "r"(v.word[0]), "r"(v.word[1])
               : "memory");
}

/// st.shared.b32: `to` is a multiple of 4.
SPIDER_DEVICE void store_shared(Shared to, std::uint32_t v) {
  asm volatile("st.shared.b32 [%0], %1;" ::"r"(shared_address(to)), "r"(v) : "memory");
}

/// st.shared.b64: `to` is a multiple of 8.
SPIDER_DEVICE void store_shared(Shared to, std::uint64_t v) {
  asm volatile("st.shared.b64 [%0], %1;" ::"r"(shared_address(to)), "l"(v) : "memory");
}

/// st.shared.b16: `to` is a multiple of 2.
SPIDER_DEVICE void store_shared(Shared to, std::uint16_t v) {
  asm volatile("st.shared.b16 [%0], %1;" ::"r"(shared_address(to)), "h"(v) : "memory");
}

/// The same where `wanted`, without a branch around it.
SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, std::uint16_t v) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.shared.b16 [%0], %1; }" ::"r"(
                   shared_address(to)),
               "h"(v), "r"(static_cast<int>(wanted))
               : "memory");
}

SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, std::uint32_t v) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.shared.b32 [%0], %1; }" ::"r"(
                   shared_address(to)),
               "r"(v), "r"(static_cast<int>(wanted))
               : "memory");
}

SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, std::uint64_t v) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.shared.b64 [%0], %1; }" ::"r"(
                   shared_address(to)),
               "l"(v), "r"(static_cast<int>(wanted))
               : "memory");
}

SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, const Vector& v) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %5, 0; @wanted st.shared.v4.b32 [%0], {%1, %2, %3, %4}; }" ::
          "r"(shared_address(to)),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "r"(static_cast<int>(wanted))
      : "memory");
}

/// cp.async.cg, 16 bytes (9.7.9.25): both addresses are multiples of 16. The data is there for this lane
/// after its wait, for others after a synchronisation behind that. Lanes that do not want it copy nothing.
SPIDER_DEVICE void copy_async_if(bool wanted, Shared to, const void* from) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted cp.async.cg.shared.global.L2::128B [%0], "
      "[%1], 16; }" ::"r"(shared_address(to)),
      "l"(from), "r"(static_cast<int>(wanted))
      : "memory");
}

/// cp.async.ca, 4 bytes: both addresses are multiples of 4. Otherwise the same.
SPIDER_DEVICE void copy_word_async_if(bool wanted, Shared to, const void* from) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted cp.async.ca.shared.global [%0], [%1], 4; }" ::
          "r"(shared_address(to)),
      "l"(from), "r"(static_cast<int>(wanted))
      : "memory");
}

/// cp.async.ca, 8 bytes: both addresses are multiples of 8. Otherwise the same.
SPIDER_DEVICE void copy_pair_async_if(bool wanted, Shared to, const void* from) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted cp.async.ca.shared.global [%0], [%1], 8; }" ::
          "r"(shared_address(to)),
      "l"(from), "r"(static_cast<int>(wanted))
      : "memory");
}

/// The three of them of a field that an update reads at the point itself.
SPIDER_DEVICE void copy_point_vector_async_if(bool wanted, Shared to, const void* from) {
  copy_async_if(wanted, to, from);
}
SPIDER_DEVICE void copy_point_pair_async_if(bool wanted, Shared to, const void* from) {
  copy_pair_async_if(wanted, to, from);
}
SPIDER_DEVICE void copy_point_word_async_if(bool wanted, Shared to, const void* from) {
  copy_word_async_if(wanted, to, from);
}

/// shf.r.wrap.b32: the lower word of both, shifted right by `bits` below 32.
SPIDER_DEVICE std::uint32_t funnel_shift_right(std::uint32_t low, std::uint32_t high, int bits) {
  return __funnelshift_r(low, high, static_cast<unsigned>(bits));
}

/// prmt.b32: the low halves of both, or the high ones, `low` in bits 0-15. The compiler would make two
/// instructions of masks and shifts.
SPIDER_DEVICE std::uint32_t join_low_halves(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x5410);
}
SPIDER_DEVICE std::uint32_t join_high_halves(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x7632);
}

/// cp.async.commit_group: closes this lane's group of copies, which may be empty.
SPIDER_DEVICE void copy_async_commit() {
  asm volatile("cp.async.commit_group;" ::: "memory");
}

/// cp.async.wait_group: waits until at most `pending` of this lane's latest groups are unfinished.
template <int pending>
SPIDER_DEVICE void copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/// Are there bulk copies, which begin with sm_90? Elsewhere the functions of them do nothing.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 900
inline constexpr bool has_bulk_copies = false;
#else
inline constexpr bool has_bulk_copies = true;
#endif

/// mbarrier.init and mbarrier.arrive.expect_tx (9.7.13.15): all lanes of a warp come here, whose first one
/// prepares the 8 bytes at `barrier`, a multiple of 8, for bulk copies of `bytes` together, before any of
/// them starts. A warp barrier stands between the two: compute-sanitizer's racecheck takes the first, which
/// ptxas makes an instruction of the whole warp, for one of each lane.
SPIDER_DEVICE void begin_bulk_copies(Shared barrier, std::uint32_t bytes) {
  if constexpr (has_bulk_copies) {
    const bool prepares = lane_index() == 0;
    if (prepares) {
      asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(barrier)) : "memory");
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    sync_warp();
    if (prepares) {
      asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                   "r"(bytes)
                   : "memory");
    }
  }
}

/// cp.async.bulk.shared::cluster.global (9.7.9.25.4.1): both addresses and `bytes` are multiples of 16. The
/// data is there for a thread after its wait_for_bulk_copies.
SPIDER_DEVICE void copy_bulk_async(Shared to, const void* from, std::uint32_t bytes, Shared barrier) {
  if constexpr (has_bulk_copies) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(to)),
        "l"(from), "r"(bytes), "r"(shared_address(barrier))
        : "memory");
  }
}

/// mbarrier.try_wait.parity (9.7.13.15.16): until all bytes of the barrier's copies have arrived. The thread
/// knows of the barrier by a sync_block behind begin_bulk_copies.
SPIDER_DEVICE void wait_for_bulk_copies(Shared barrier) {
  if constexpr (has_bulk_copies) {
    asm volatile(
        "{\n"
        ".reg .pred arrived;\n"
        "again:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 arrived, [%0], 0;\n"
        "@!arrived bra again;\n"
        "}" ::"r"(shared_address(barrier))
        : "memory");
  }
}

/// ld.global.b16 of a field's cell, where the program has it: the compiler would move it to the value's use.
SPIDER_DEVICE std::uint16_t load_field(const std::uint16_t* from) {
  std::uint16_t value;
  asm volatile("ld.global.b16 %0, [%1];" : "=h"(value) : "l"(from));
  return value;
}

/// The same of a cell of 32 bits.
SPIDER_DEVICE std::uint32_t load_field(const std::uint32_t* from) {
  std::uint32_t value;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}

/// And of 64 bits.
SPIDER_DEVICE std::uint64_t load_field(const std::uint64_t* from) {
  std::uint64_t value;
  asm volatile("ld.global.b64 %0, [%1];" : "=l"(value) : "l"(from));
  return value;
}

/// ld.global.v4.b32 of eight neighbouring cells: `from` is a multiple of 16 bytes.
SPIDER_DEVICE Vector load_vector(const std::uint16_t* from) {
  return *reinterpret_cast<const Vector*>(from);
}

/// A cell where `wanted`, without a branch around the load; else the value `otherwise`.
SPIDER_DEVICE std::uint16_t load_field_if(bool wanted, const std::uint16_t* from, std::uint16_t otherwise) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted ld.global.b16 %0, [%1]; }"
               : "+h"(otherwise)
               : "l"(from), "r"(static_cast<int>(wanted)));
  return otherwise;
}
SPIDER_DEVICE std::uint32_t load_field_if(bool wanted, const std::uint32_t* from, std::uint32_t otherwise) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted ld.global.b32 %0, [%1]; }"
               : "+r"(otherwise)
               : "l"(from), "r"(static_cast<int>(wanted)));
  return otherwise;
}
SPIDER_DEVICE std::uint64_t load_field_if(bool wanted, const std::uint64_t* from, std::uint64_t otherwise) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted ld.global.b64 %0, [%1]; }"
               : "+l"(otherwise)
               : "l"(from), "r"(static_cast<int>(wanted)));
  return otherwise;
}

/// ld.global.b32, .v2.b32 and .v4.b32 of neighbouring cells, where the program has them: `from` is a multiple
/// of 4, 8 or 16 bytes.
SPIDER_DEVICE std::uint32_t load_field_word(const void* from) {
  std::uint32_t value;
  asm volatile("ld.global.b32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
SPIDER_DEVICE Pair load_field_pair(const void* from) {
  Pair v;
  asm volatile("ld.global.v2.b32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(from));
  return v;
}
SPIDER_DEVICE Vector load_field_vector(const void* from) {
  Vector v;
  asm volatile("ld.global.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(from));
  return v;
}
/// The same of a field that an update reads at the point itself, each cell once: evicted first (.cs), so that
/// the L2 cache keeps inputs, which are read again. Its memory may be the output's: no load of memory that is
/// never written.
SPIDER_DEVICE std::uint16_t load_point(const std::uint16_t* from) {
  return load_field(from);
}
SPIDER_DEVICE std::uint32_t load_point(const std::uint32_t* from) {
  return load_field(from);
}
SPIDER_DEVICE std::uint64_t load_point(const std::uint64_t* from) {
  return __ldcs(reinterpret_cast<const unsigned long long*>(from));
}
SPIDER_DEVICE std::uint32_t load_point_word(const void* from) {
  std::uint32_t value;
  asm volatile("ld.global.cs.b32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
SPIDER_DEVICE Pair load_point_pair(const void* from) {
  Pair v;
  asm volatile("ld.global.cs.v2.b32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(from));
  return v;
}
SPIDER_DEVICE Vector load_point_vector(const void* from) {
  Vector v;
  asm volatile("ld.global.cs.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(from));
  return v;
}
/// The same of a field that steps read again and again, and nobody writes: it stays in the L2 cache.
SPIDER_DEVICE std::uint32_t load_kept_word(const void* from) {
  std::uint32_t value;
  asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(value) : "l"(from));
  return value;
}
SPIDER_DEVICE Pair load_kept_pair(const void* from) {
  Pair v;
  asm volatile("ld.global.nc.v2.b32 {%0, %1}, [%2];" : "=r"(v.word[0]), "=r"(v.word[1]) : "l"(from));
  return v;
}
SPIDER_DEVICE Vector load_kept_vector(const void* from) {
  Vector v;
  asm volatile("ld.global.nc.v4.b32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "l"(from));
  return v;
}
/// prefetch.global.L2 (9.7.9.15) of the line that the cell is in.
SPIDER_DEVICE void prefetch_point(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from));
}
/// The last of them where `wanted`, without a branch around it; else `v` stays as it is.
SPIDER_DEVICE void load_field_vector_if(bool wanted, const void* from, Vector& v) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %5, 0; @wanted ld.global.v4.b32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(v.word[0]), "+r"(v.word[1]), "+r"(v.word[2]), "+r"(v.word[3])
      : "l"(from), "r"(static_cast<int>(wanted)));
}
/// The same, else zeros.
SPIDER_DEVICE Vector load_vector_if(bool wanted, const std::uint16_t* from) {
  Vector v{};
  load_field_vector_if(wanted, from, v);
  return v;
}
/// Where it is not `wanted`, of a table: the compiler would wait for a load into registers that hold
/// something else meanwhile.
SPIDER_DEVICE Vector load_vector_or(bool wanted, const std::uint16_t* from, const Vector* otherwise) {
  return load_field_vector(wanted ? static_cast<const void*>(from) : otherwise);
}

/// st.global.b32, .v2.b32 and .v4.b32 of neighbouring cells: `to` is a multiple of 4, 8 or 16 bytes.
SPIDER_DEVICE void store_field_word(void* to, std::uint32_t v) {
  *static_cast<std::uint32_t*>(to) = v;
}
SPIDER_DEVICE void store_field_pair(void* to, const Pair& v) {
  *static_cast<uint2*>(to) = make_uint2(v.word[0], v.word[1]);
}
SPIDER_DEVICE void store_field_vector(void* to, const Vector& v) {
  *static_cast<uint4*>(to) = make_uint4(v.word[0], v.word[1], v.word[2], v.word[3]);
}
/// The first and the last of them where `wanted`, without a branch around it.
SPIDER_DEVICE void store_field_word_if(bool wanted, void* to, std::uint32_t v) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.global.b32 [%0], %1; }" ::"l"(to),
               "r"(v), "r"(static_cast<int>(wanted))
               : "memory");
}
SPIDER_DEVICE void store_field_vector_if(bool wanted, void* to, const Vector& v) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %5, 0; @wanted st.global.v4.b32 [%0], {%1, %2, %3, %4}; }" ::
          "l"(to),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "r"(static_cast<int>(wanted))
      : "memory");
}

/// Those of results of updates, evicted first as well.
SPIDER_DEVICE void store_point_word_if(bool wanted, void* to, std::uint32_t v) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.global.cs.b32 [%0], %1; }" ::"l"(to),
      "r"(v), "r"(static_cast<int>(wanted))
      : "memory");
}
SPIDER_DEVICE void store_point_pair_if(bool wanted, void* to, const Pair& v) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %3, 0; @wanted st.global.cs.v2.b32 [%0], {%1, %2}; }" ::"l"(
          to),
      "r"(v.word[0]), "r"(v.word[1]), "r"(static_cast<int>(wanted))
      : "memory");
}
SPIDER_DEVICE void store_point_vector_if(bool wanted, void* to, const Vector& v) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %5, 0; @wanted st.global.cs.v4.b32 [%0], {%1, %2, %3, %4}; "
      "}" ::"l"(to),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "r"(static_cast<int>(wanted))
      : "memory");
}

/// add.s64: the cell `cells` further. Of an unrolled loop the compiler would hold the addresses of all rounds
/// in registers, each computed by itself; and nvcc 13.0 loses some of them.
template <class Cell>
SPIDER_DEVICE Cell* step_further(Cell* from, std::int64_t cells) {
  Cell* to;
  asm("add.s64 %0, %1, %2;" : "=l"(to) : "l"(from), "l"(cells * std::int64_t{sizeof *from}));
  return to;
}

/// st.global.b16, .b32 or .b64 of one cell.
template <class Cell>
SPIDER_DEVICE void store_field(Cell* to, Cell v) {
  *to = v;
}

/// st.global.v2.b32 of four or two neighbouring cells: `to` is a multiple of 8 bytes.
SPIDER_DEVICE void store_field(void* to, std::uint32_t low, std::uint32_t high) {
  *static_cast<uint2*>(to) = make_uint2(low, high);
}

/// The stores above where `wanted`, without a branch around them.
SPIDER_DEVICE void store_field_if(bool wanted, std::uint16_t* to, std::uint16_t v) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.global.b16 [%0], %1; }" ::"l"(to),
               "h"(v), "r"(static_cast<int>(wanted))
               : "memory");
}
SPIDER_DEVICE void store_field_if(bool wanted, std::uint32_t* to, std::uint32_t v) {
  store_field_word_if(wanted, to, v);
}
SPIDER_DEVICE void store_field_if(bool wanted, std::uint64_t* to, std::uint64_t v) {
  asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.global.b64 [%0], %1; }" ::"l"(to),
               "l"(v), "r"(static_cast<int>(wanted))
               : "memory");
}
SPIDER_DEVICE void store_field_if(bool wanted, void* to, std::uint32_t low, std::uint32_t high) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %3, 0; @wanted st.global.v2.b32 [%0], {%1, %2}; }" ::"l"(to),
      "r"(low), "r"(high), "r"(static_cast<int>(wanted))
      : "memory");
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

/// movmatrix.sync.aligned.m8n8.trans.b16 (9.7.14.5.17): lane 4 r + c gives elements 2 c, 2 c + 1 of row r and
/// receives elements 2 c, 2 c + 1 of column r.
SPIDER_DEVICE std::uint32_t transpose_8x8(std::uint32_t row_pair) {
  std::uint32_t column_pair;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(column_pair) : "r"(row_pair));
  return column_pair;
}

/// mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 (9.7.14.6): sum += A * B, A
/// compressed 2:4.
template <int selector>
SPIDER_DEVICE void multiply_sparse(Accumulator& sum, const Vector& a, const Vector& b,
                                   std::uint32_t metadata) {
  static_assert(selector == 0 || selector == 1, "m16n8k32 knows two sparsity selectors");
  asm("mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, "
      "%7}, "
      "{%8, %9, %10, %11}, {%0, %1, %2, %3}, %12, %13;"
      : "+f"(sum.value[0]), "+f"(sum.value[1]), "+f"(sum.value[2]), "+f"(sum.value[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]),
        "r"(b.word[2]), "r"(b.word[3]), "r"(metadata), "n"(selector));
}

/// The same of bf16: mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32.
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

/// The same of bf16: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32.
SPIDER_DEVICE void multiply_dense_bf16(Accumulator& sum, const Vector& a, const Pair& b) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum.value[0]), "+f"(sum.value[1]), "+f"(sum.value[2]), "+f"(sum.value[3])
      : "r"(a.word[0]), "r"(a.word[1]), "r"(a.word[2]), "r"(a.word[3]), "r"(b.word[0]), "r"(b.word[1]));
}

}  // namespace device
}  // namespace device_3
}  // namespace spider
