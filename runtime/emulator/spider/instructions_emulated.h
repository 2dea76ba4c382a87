/// The instructions on the host, with the names, types and meaning of instructions_cuda.h. A broken rule of
/// the machine stops the launch (runtime/emulator/README.md).
#pragma once

#include <spider/call_site.h>
#include <spider/spider.h>

#include <cstdint>

#define SPIDER_DEVICE inline
#define SPIDER_DEVICE_NOINLINE static
#define SPIDER_GLOBAL(threads, blocks) void
#define SPIDER_GRID_CONSTANT
#define SPIDER_ENTRY static_cast<void>(0)
#define SPIDER_TABLE [[maybe_unused]] static const
/// Nothing is unrolled here: a table that is not static would be built at each call.
#define SPIDER_CONSTANTS static constexpr
#define SPIDER_UNROLL
#define SPIDER_NO_UNROLL
#define SPIDER_INLINED

namespace spider {
inline namespace device_4 {
namespace device {

/// The machine that this header implements.
inline constexpr int backend = SPIDER_BACKEND_EMULATED;

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

int lane_index();
int warp_index();
int block_index();
/// Index of the block's image in the launch.
int image_index();

/// Every lane of the warp comes here; orders their accesses to shared memory.
void sync_warp(emulator::CallSite site = emulator::CallSite::current());
/// Every lane of the block comes here; orders their accesses to shared memory.
void sync_block(emulator::CallSite site = emulator::CallSite::current());
/// redux.sync.max.u32 and .min.u32: the largest or smallest word of the warp's lanes.
std::uint32_t warp_max(std::uint32_t value, emulator::CallSite site = emulator::CallSite::current());
std::uint32_t smallest_in_warp(std::uint32_t value, emulator::CallSite site = emulator::CallSite::current());

/// shfl.sync.idx.b32: the word of lane `source` % 32.
std::uint32_t shuffle(std::uint32_t value, int source,
                      emulator::CallSite site = emulator::CallSite::current());
/// The same for 64 bits, by two of them.
std::uint64_t shuffle(std::uint64_t value, int source,
                      emulator::CallSite site = emulator::CallSite::current());

/// The bits of an f32 or an f64, and the number of bits.
std::uint32_t bits_of(float value);
float float_of(std::uint32_t bits);
std::uint64_t bits_of(double value);
double double_of(std::uint64_t bits);

/// fma.rn.f32: a * b + c, rounded once.
float multiply_add(float a, float b, float c);
/// add.rn.f32, sub, mul, div and sqrt: one operation each, rounded once.
float add(float a, float b);
float subtract(float a, float b);
float multiply(float a, float b);
float divide(float a, float b);
float square_root(float a);
/// sqrt.ftz.f32: subnormal numbers count as 0.
float square_root_of_normal(float a);
/// max.f32 and min.f32: of a NaN and a number it is the number, and -0 lies below +0.
float larger(float a, float b);
float smaller(float a, float b);
/// The same in f64.
double multiply_add(double a, double b, double c);
double add(double a, double b);
double subtract(double a, double b);
double multiply(double a, double b);
double divide(double a, double b);
double square_root(double a);
double larger(double a, double b);
double smaller(double a, double b);
/// max.NaN.f32 and min.NaN.f32: NaN if either is; and the same in f64.
template <class Number>
Number larger_or_nan(Number a, Number b) {
  return a != a ? a : b != b ? b : larger(a, b);
}
template <class Number>
Number smaller_or_nan(Number a, Number b) {
  return a != a ? a : b != b ? b : smaller(a, b);
}
/// max.f32 and min.f32 of magnitudes: of a NaN and a number it is the number.
float larger_magnitude(float a, float b);
float smaller_magnitude(float a, float b);

/// A value of a table baked into the generated file.
Vector load_table(const Vector* from);
std::uint32_t load_table(const std::uint32_t* from);
/// The value; it has arrived from here on.
SPIDER_DEVICE std::uint32_t pin_in_register(std::uint32_t loaded) {
  return loaded;
}

/// A lane of a form that starts early touches fields only after this.
void wait_on_dependency();
inline void launch_dependents() {}

/// ld.shared.v4.b32: `from` is a multiple of 16.
Vector load_shared(Shared from);
/// st.shared.v4.b32: `to` is a multiple of 16.
void store_shared(Shared to, const Vector& v);
/// ld.shared.v2.b32: `from` is a multiple of 8.
Pair load_shared_pair(Shared from);
/// ld.shared.b32: `from` is a multiple of 4.
std::uint32_t load_shared_word(Shared from);
/// The same for words that no lane writes until the next synchronisation of the block.
SPIDER_DEVICE Pair load_settled_pair(Shared from) {
  return load_shared_pair(from);
}
/// ld.shared.b16: `from` is a multiple of 2.
std::uint16_t load_shared_half(Shared from);
/// st.shared.v2.b32: `to` is a multiple of 8.
void store_shared(Shared to, const Pair& v);
/// st.shared.b32: `to` is a multiple of 4.
void store_shared(Shared to, std::uint32_t v);
/// st.shared.b64: `to` is a multiple of 8.
void store_shared(Shared to, std::uint64_t v);
/// st.shared.b16: `to` is a multiple of 2.
void store_shared(Shared to, std::uint16_t v);
/// st.shared.u8.
void store_shared(Shared to, std::uint8_t v);
/// The same where `wanted`.
SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, std::uint16_t v) {
  if (wanted) store_shared(to, v);
}
SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, std::uint8_t v) {
  if (wanted) store_shared(to, v);
}
SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, std::uint32_t v) {
  if (wanted) store_shared(to, v);
}
SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, std::uint64_t v) {
  if (wanted) store_shared(to, v);
}
SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, const Vector& v) {
  if (wanted) store_shared(to, v);
}

/// cp.async.cg, 16 bytes: both addresses are multiples of 16. The data is there for this lane after its wait,
/// for others after a synchronisation that follows. Lanes without `wanted` copy nothing.
void copy_async_if(bool wanted, Shared to, const void* from);
/// cp.async.ca, 4 bytes: both addresses are multiples of 4. Otherwise the same.
void copy_word_async_if(bool wanted, Shared to, const void* from);
/// cp.async.ca, 8 bytes: both addresses are multiples of 8.
void copy_pair_async_if(bool wanted, Shared to, const void* from);
/// The same three for a field that an update reads at the point itself.
void copy_point_vector_async_if(bool wanted, Shared to, const void* from);
void copy_point_pair_async_if(bool wanted, Shared to, const void* from);
void copy_point_word_async_if(bool wanted, Shared to, const void* from);
/// shf.r.wrap.b32: the lower word of both, shifted right by `bits` below 32.
SPIDER_DEVICE std::uint32_t funnel_shift_right(std::uint32_t low, std::uint32_t high, int bits) {
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32U | low) >> static_cast<unsigned>(bits));
}

/// prmt.b32: the low halves of both, or the high ones, `low` in bits 0-15.
SPIDER_DEVICE std::uint32_t join_low_halves(std::uint32_t low, std::uint32_t high) {
  return (low & 0xffffU) | high << 16U;
}
SPIDER_DEVICE std::uint32_t join_high_halves(std::uint32_t low, std::uint32_t high) {
  return low >> 16U | (high & 0xffff0000U);
}
/// The same for the low bytes of both halves of both words.
SPIDER_DEVICE std::uint32_t join_even_bytes(std::uint32_t low, std::uint32_t high) {
  return (low & 0xffU) | (low >> 8U & 0xff00U) | (high << 16U & 0xff0000U) | (high << 8U & 0xff000000U);
}

/// cp.async.commit_group: closes this lane's group of copies, which may be empty.
void copy_async_commit();

inline constexpr bool has_bulk_copies = true;
/// mbarrier.init and mbarrier.arrive.expect_tx: all lanes of a warp come here. The first one prepares the 8
/// bytes at `barrier`, a multiple of 8, for bulk copies of `bytes` in total, before any of them starts.
void begin_bulk_copies(Shared barrier, std::uint32_t bytes,
                       emulator::CallSite site = emulator::CallSite::current());
/// cp.async.bulk.shared::cluster.global: both addresses and `bytes` are multiples of 16. The data is there
/// for a thread after its wait_for_bulk_copies.
void copy_bulk_async(Shared to, const void* from, std::uint32_t bytes, Shared barrier);
/// mbarrier.try_wait.parity: waits until all bytes of the barrier's copies have arrived. A sync_block after
/// begin_bulk_copies makes the barrier known to the thread.
void wait_for_bulk_copies(Shared barrier);

/// ld.global.b32, .v2.b32 and .v4.b32 of neighbouring cells: `from` is a multiple of 4, 8 or 16 bytes.
std::uint32_t load_field_word(const void* from);
Pair load_field_pair(const void* from);
Vector load_field_vector(const void* from);
/// The same for a field that an update reads at the point itself: its memory may be the output's.
std::uint16_t load_point(const std::uint16_t* from);
std::uint32_t load_point(const std::uint32_t* from);
std::uint64_t load_point(const std::uint64_t* from);
std::uint32_t load_point_word(const void* from);
Pair load_point_pair(const void* from);
Vector load_point_vector(const void* from);
/// The same for a field that steps read again.
inline std::uint32_t load_kept_word(const void* from) {
  return load_point_word(from);
}
inline Pair load_kept_pair(const void* from) {
  return load_point_pair(from);
}
inline Vector load_kept_vector(const void* from) {
  return load_point_vector(from);
}
/// prefetch.global.L2 of the cell's cache line.
inline void prefetch_point(const void* /*from*/) {}
/// The last of them if `wanted`; otherwise `v` is unchanged.
SPIDER_DEVICE void load_field_vector_if(bool wanted, const void* from, Vector& v) {
  if (wanted) v = load_field_vector(from);
}

/// st.global.b32, .v2.b32 and .v4.b32 of neighbouring cells: `to` is a multiple of 4, 8 or 16 bytes.
void store_field_word(void* to, std::uint32_t v);
void store_field_pair(void* to, const Pair& v);
void store_field_vector(void* to, const Vector& v);
/// The first and the last of them if `wanted`.
SPIDER_DEVICE void store_field_word_if(bool wanted, void* to, std::uint32_t v) {
  if (wanted) store_field_word(to, v);
}
SPIDER_DEVICE void store_field_vector_if(bool wanted, void* to, const Vector& v) {
  if (wanted) store_field_vector(to, v);
}

/// The same for results of updates.
SPIDER_DEVICE void store_point_word_if(bool wanted, void* to, std::uint32_t v) {
  if (wanted) store_field_word(to, v);
}
SPIDER_DEVICE void store_point_pair_if(bool wanted, void* to, const Pair& v) {
  if (wanted) store_field_pair(to, v);
}
SPIDER_DEVICE void store_point_vector_if(bool wanted, void* to, const Vector& v) {
  if (wanted) store_field_vector(to, v);
}

/// ld.global.b16, .b32 and .b64 of a cell of a system's field, .v2.b32 and .v4.b32 of neighbours, which begin
/// with a multiple of 8 or 16 bytes, into 2 or 4 words.
std::uint16_t load_cell(const std::uint16_t* from);
std::uint32_t load_cell(const std::uint32_t* from);
std::uint64_t load_cell(const std::uint64_t* from);
void load_cell_pair(const void* from, std::uint32_t* words);
void load_cell_vector(const void* from, std::uint32_t* words);
/// The same if `wanted`; otherwise the destination is unchanged.
template <class Cell>
Cell load_cell_if(bool wanted, const Cell* from, Cell otherwise) {
  return wanted ? load_cell(from) : otherwise;
}
inline void load_cell_pair_if(bool wanted, const void* from, std::uint32_t* words) {
  if (wanted) load_cell_pair(from, words);
}
inline void load_cell_vector_if(bool wanted, const void* from, std::uint32_t* words) {
  if (wanted) load_cell_vector(from, words);
}

/// ld.global.u8 and .b16 of a field's cell.
std::uint8_t load_field(const std::uint8_t* from);
std::uint16_t load_field(const std::uint16_t* from);
/// ld.global.v4.b32 of eight neighbouring cells: `from` is a multiple of 16 bytes.
Vector load_vector(const std::uint16_t* from);
/// The loads above where `wanted`; else zeros, or the value `otherwise`.
SPIDER_DEVICE Vector load_vector_if(bool wanted, const std::uint16_t* from) {
  return wanted ? load_vector(from) : Vector{};
}
SPIDER_DEVICE std::uint8_t load_field_if(bool wanted, const std::uint8_t* from, std::uint8_t otherwise) {
  return wanted ? load_field(from) : otherwise;
}
SPIDER_DEVICE std::uint16_t load_field_if(bool wanted, const std::uint16_t* from, std::uint16_t otherwise) {
  return wanted ? load_field(from) : otherwise;
}
/// add.s64: the cell `cells` further.
template <class Cell>
SPIDER_DEVICE Cell* opaque_advance(Cell* from, std::int64_t cells) {
  return from + cells;
}

/// st.global.u8 and .b16 of one cell.
void store_field(std::uint8_t* to, std::uint8_t v);
void store_field(std::uint16_t* to, std::uint16_t v);
/// st.global.v2.b32 of four neighbouring cells: `to` is a multiple of 8 bytes.
void store_field(std::uint16_t* to, std::uint32_t low, std::uint32_t high);

/// The same for cells of 32 bits; two neighbouring ones where `to` is a multiple of 8 bytes.
std::uint32_t load_field(const std::uint32_t* from);
SPIDER_DEVICE std::uint32_t load_field_if(bool wanted, const std::uint32_t* from, std::uint32_t otherwise) {
  return wanted ? load_field(from) : otherwise;
}
void store_field(std::uint32_t* to, std::uint32_t v);
void store_field(std::uint32_t* to, std::uint32_t low, std::uint32_t high);

/// And of 64 bits, one at a time.
std::uint64_t load_field(const std::uint64_t* from);
SPIDER_DEVICE std::uint64_t load_field_if(bool wanted, const std::uint64_t* from, std::uint64_t otherwise) {
  return wanted ? load_field(from) : otherwise;
}
void store_field(std::uint64_t* to, std::uint64_t v);

/// The stores above where `wanted`.
SPIDER_DEVICE void store_field_if(bool wanted, std::uint8_t* to, std::uint8_t v) {
  if (wanted) store_field(to, v);
}
SPIDER_DEVICE void store_field_if(bool wanted, std::uint64_t* to, std::uint64_t v) {
  if (wanted) store_field(to, v);
}
SPIDER_DEVICE void store_field_if(bool wanted, std::uint16_t* to, std::uint16_t v) {
  if (wanted) store_field(to, v);
}
SPIDER_DEVICE void store_field_if(bool wanted, std::uint16_t* to, std::uint32_t low, std::uint32_t high) {
  if (wanted) store_field(to, low, high);
}
SPIDER_DEVICE void store_field_if(bool wanted, std::uint32_t* to, std::uint32_t v) {
  if (wanted) store_field(to, v);
}
SPIDER_DEVICE void store_field_if(bool wanted, std::uint32_t* to, std::uint32_t low, std::uint32_t high) {
  if (wanted) store_field(to, low, high);
}

/// cvt.rn.f16x2.f32: `low` in bits 0-15, `high` in bits 16-31.
std::uint32_t pack_f16(float low, float high);
/// cvt.rn.bf16x2.f32: `low` in bits 0-15, `high` in bits 16-31.
std::uint32_t pack_bf16(float low, float high);
/// Bytes 0 and 1 of a word as two f16 numbers, or bytes 2 and 3, exactly.
SPIDER_DEVICE std::uint32_t f16_of_low_bytes(std::uint32_t word) {
  return pack_f16(static_cast<float>(word & 0xffU), static_cast<float>(word >> 8 & 0xffU));
}
SPIDER_DEVICE std::uint32_t f16_of_high_bytes(std::uint32_t word) {
  return f16_of_low_bytes(word >> 16);
}
/// cvt.f32.f16 of bits 0-15, and of bits 16-31.
float low_f16(std::uint32_t both);
float high_f16(std::uint32_t both);
/// movmatrix.sync.aligned.m8n8.trans.b16: lane 4 r + c gives elements 2 c, 2 c + 1 of row r and receives
/// elements 2 c, 2 c + 1 of column r.
std::uint32_t transpose_8x8(std::uint32_t row_pair, emulator::CallSite site = emulator::CallSite::current());

/// ldmatrix.sync.aligned.m8n8.x4.shared.b16: four matrices of 8 x 8 cells of 16 bits. Lane 8 i + r says where
/// row r of matrix i is, 16 bytes on a multiple of 16; word i of lane 4 r + c is elements 2 c, 2 c + 1 of row
/// r of matrix i.
Vector load_matrices(Shared row, emulator::CallSite site = emulator::CallSite::current());
/// The same of columns in place of rows: .trans.
Vector load_matrices_transposed(Shared row, emulator::CallSite site = emulator::CallSite::current());

/// mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32: sum += A * B.
void multiply_dense(Accumulator& sum, const Vector& a, const Pair& b,
                    emulator::CallSite site = emulator::CallSite::current());
/// The same for bf16: mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32.
void multiply_dense_bf16(Accumulator& sum, const Vector& a, const Pair& b,
                         emulator::CallSite site = emulator::CallSite::current());

}  // namespace device
}  // namespace device_4
}  // namespace spider

namespace spider::emulator {

/// The templates below, with their argument as a value.
void copy_async_wait(int pending);
void multiply_sparse(device::Accumulator& sum, const device::Vector& a, const device::Vector& b,
                     std::uint32_t metadata, int selector, CallSite site);
void multiply_sparse_bf16(device::Accumulator& sum, const device::Vector& a, const device::Vector& b,
                          std::uint32_t metadata, int selector, CallSite site);

}  // namespace spider::emulator

namespace spider {
inline namespace device_4 {
namespace device {

/// cp.async.wait_group: waits until at most `pending` of this lane's latest groups are unfinished.
template <int pending>
SPIDER_DEVICE void copy_async_wait() {
  static_assert(pending >= 0, "a number of groups");
  emulator::copy_async_wait(pending);
}

/// mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32: sum += A * B, A compressed 2:4.
template <int selector>
SPIDER_DEVICE void multiply_sparse(Accumulator& sum, const Vector& a, const Vector& b, std::uint32_t metadata,
                                   emulator::CallSite site = emulator::CallSite::current()) {
  static_assert(selector == 0 || selector == 1, "m16n8k32 knows two sparsity selectors");
  emulator::multiply_sparse(sum, a, b, metadata, selector, site);
}

/// The same for bf16: mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32.
template <int selector>
SPIDER_DEVICE void multiply_sparse_bf16(Accumulator& sum, const Vector& a, const Vector& b,
                                        std::uint32_t metadata,
                                        emulator::CallSite site = emulator::CallSite::current()) {
  static_assert(selector == 0 || selector == 1, "m16n8k32 knows two sparsity selectors");
  emulator::multiply_sparse_bf16(sum, a, b, metadata, selector, site);
}

/// red.global.add.u64 and .max.u64 on a word that any block may change.
void add_to(std::int64_t* word, std::int64_t value);
void raise(std::uint64_t* word, std::uint64_t value);
/// Increments a counter that is waited on outside the launch.
void count_stored(std::uint32_t* counter);

}  // namespace device
}  // namespace device_4
}  // namespace spider
