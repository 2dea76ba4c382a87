/// Loads and stores: tables, shared memory, fields, points, and asynchronous copies between them.
#pragma once

#include <spider/machine/cuda/lanes.h>

#include <cstdint>

namespace spider {
inline namespace device_4 {
namespace device {

/// A value of a table baked into the generated file.
SPIDER_DEVICE Vector load_table(const Vector* from) {
  return *from;
}
SPIDER_DEVICE std::uint32_t load_table(const std::uint32_t* from) {
  return *from;
}

/// The value, which is there from here on. Else the compiler may wait for a load of before a loop inside the
/// loop, and that wait is one for later loads, too. It cannot know that blocks are counted in x only.
SPIDER_DEVICE std::uint32_t pin_in_register(std::uint32_t loaded) {
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

SPIDER_DEVICE std::uint32_t shared_address(Shared offset) {
  extern __shared__ __align__(128) unsigned char spider_shared_memory[];
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(spider_shared_memory)) + offset;
}

// A cell, which has a multiple of its own size as address, of each width: `Register` and `letter` are those
// of its values, `type` the instruction's. All are where the program has them, since the compiler would move
// loads to their value's use; those of `wanted` have no branch around them.
#define SPIDER_CELL_ACCESSES(Cell, Register, letter, type)                                                  \
  /** ld.global of a field's cell. */                                                                       \
  SPIDER_DEVICE Cell load_field(const Cell* from) {                                                         \
    Register value;                                                                                         \
    asm volatile("ld.global." type " %0, [%1];" : "=" letter(value) : "l"(from));                           \
    return static_cast<Cell>(value);                                                                        \
  }                                                                                                         \
  /** Where it is not `wanted`, the value `otherwise`. */                                                   \
  SPIDER_DEVICE Cell load_field_if(bool wanted, const Cell* from, Cell otherwise) {                         \
    Register value = otherwise;                                                                             \
    asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted ld.global." type " %0, [%1]; }"   \
                 : "+" letter(value)                                                                        \
                 : "l"(from), "r"(static_cast<int>(wanted)));                                               \
    return static_cast<Cell>(value);                                                                        \
  }                                                                                                         \
  /** The same of a system's field, of which no kernel writes what it reads at another point: the compiler  \
      may move it. */                                                                                       \
  SPIDER_DEVICE Cell load_cell_if(bool wanted, const Cell* from, Cell otherwise) {                          \
    Register value = otherwise;                                                                             \
    asm("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted ld.global." type " %0, [%1]; }"            \
        : "+" letter(value)                                                                                 \
        : "l"(from), "r"(static_cast<int>(wanted)));                                                        \
    return static_cast<Cell>(value);                                                                        \
  }                                                                                                         \
  SPIDER_DEVICE void store_field_if(bool wanted, Cell* to, Cell v) {                                        \
    asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.global." type                  \
                 " [%0], %1; }" ::"l"(to),                                                                  \
                 letter(static_cast<Register>(v)), "r"(static_cast<int>(wanted))                            \
                 : "memory");                                                                               \
  }                                                                                                         \
  SPIDER_DEVICE void store_shared(Shared to, Cell v) {                                                      \
    asm volatile("st.shared." type " [%0], %1;" ::"r"(shared_address(to)), letter(static_cast<Register>(v)) \
                 : "memory");                                                                               \
  }                                                                                                         \
  SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, Cell v) {                                      \
    asm volatile("{ .reg .pred wanted; setp.ne.b32 wanted, %2, 0; @wanted st.shared." type                  \
                 " [%0], %1; }" ::"r"(shared_address(to)),                                                  \
                 letter(static_cast<Register>(v)), "r"(static_cast<int>(wanted))                            \
                 : "memory");                                                                               \
  }
SPIDER_CELL_ACCESSES(std::uint8_t, std::uint16_t, "h", "u8")
SPIDER_CELL_ACCESSES(std::uint16_t, std::uint16_t, "h", "b16")
SPIDER_CELL_ACCESSES(std::uint32_t, std::uint32_t, "r", "b32")
SPIDER_CELL_ACCESSES(std::uint64_t, std::uint64_t, "l", "b64")
#undef SPIDER_CELL_ACCESSES

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

/// ldmatrix.sync.aligned.m8n8.x4.shared.b16 (9.7.14.5.15): four matrices of 8 x 8 cells of 16 bits. Lane
/// 8 i + r has the address of row r of matrix i, 16 bytes on a multiple of 16. Word i of lane 4 r + c is the
/// elements 2 c and 2 c + 1 of row r of matrix i.
SPIDER_DEVICE Vector load_matrices(Shared row) {
  Vector v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(shared_address(row))
               : "memory");
  return v;
}

/// The same of columns in place of rows: .trans.
SPIDER_DEVICE Vector load_matrices_transposed(Shared row) {
  Vector v;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.word[0]), "=r"(v.word[1]), "=r"(v.word[2]), "=r"(v.word[3])
               : "r"(shared_address(row))
               : "memory");
  return v;
}

/// load_shared_pair() of what no lane writes until the next synchronisation of the block: stores to fields
/// may come before it.
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

/// The same where `wanted`, without a branch around it.
SPIDER_DEVICE void store_shared_if(bool wanted, Shared to, const Vector& v) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %5, 0; @wanted st.shared.v4.b32 [%0], {%1, %2, %3, %4}; }" ::
          "r"(shared_address(to)),
      "r"(v.word[0]), "r"(v.word[1]), "r"(v.word[2]), "r"(v.word[3]), "r"(static_cast<int>(wanted))
      : "memory");
}

/// Devices before sm_80 copy through registers, and every copy is there when it returns.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
SPIDER_DEVICE void copy_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) store_shared(to, *static_cast<const Vector*>(from));
}
SPIDER_DEVICE void copy_word_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) store_shared(to, *static_cast<const std::uint32_t*>(from));
}
SPIDER_DEVICE void copy_pair_async_if(bool wanted, Shared to, const void* from) {
  if (wanted) store_shared(to, *static_cast<const Pair*>(from));
}
#else
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

#endif

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

/// ld.global.v4.b32 of eight neighbouring cells: `from` is a multiple of 16 bytes.
SPIDER_DEVICE Vector load_vector(const std::uint16_t* from) {
  return *reinterpret_cast<const Vector*>(from);
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

/// ld.global.b16, .b32 and .b64 of a cell of a system's field, .v2.b32 and .v4.b32 of neighbours, which begin
/// with a multiple of 8 or 16 bytes, into 2 or 4 words. The compiler may move them.
template <class Cell>
SPIDER_DEVICE Cell load_cell(const Cell* from) {
  return *from;
}
SPIDER_DEVICE void load_cell_pair(const void* from, std::uint32_t* words) {
  const uint2 v = *static_cast<const uint2*>(from);
  words[0] = v.x;
  words[1] = v.y;
}
SPIDER_DEVICE void load_cell_vector(const void* from, std::uint32_t* words) {
  const uint4 v = *static_cast<const uint4*>(from);
  words[0] = v.x;
  words[1] = v.y;
  words[2] = v.z;
  words[3] = v.w;
}

/// Those of neighbours where `wanted`, without a branch around the load; else what is there stays as it is.
/// The compiler may move these, too (load_cell_if).
SPIDER_DEVICE void load_cell_pair_if(bool wanted, const void* from, std::uint32_t* words) {
  asm("{ .reg .pred wanted; setp.ne.b32 wanted, %3, 0; @wanted ld.global.v2.b32 {%0, %1}, [%2]; }"
      : "+r"(words[0]), "+r"(words[1])
      : "l"(from), "r"(static_cast<int>(wanted)));
}
SPIDER_DEVICE void load_cell_vector_if(bool wanted, const void* from, std::uint32_t* words) {
  asm("{ .reg .pred wanted; setp.ne.b32 wanted, %5, 0; @wanted ld.global.v4.b32 {%0, %1, %2, %3}, [%4]; }"
      : "+r"(words[0]), "+r"(words[1]), "+r"(words[2]), "+r"(words[3])
      : "l"(from), "r"(static_cast<int>(wanted)));
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
SPIDER_DEVICE Cell* opaque_advance(Cell* from, std::int64_t cells) {
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

/// The same where `wanted`, without a branch around it.
SPIDER_DEVICE void store_field_if(bool wanted, void* to, std::uint32_t low, std::uint32_t high) {
  asm volatile(
      "{ .reg .pred wanted; setp.ne.b32 wanted, %3, 0; @wanted st.global.v2.b32 [%0], {%1, %2}; }" ::"l"(to),
      "r"(low), "r"(high), "r"(static_cast<int>(wanted))
      : "memory");
}

/// red.global.add.u64 (9.7.13.7): adds to a word that any block may add to.
SPIDER_DEVICE void add_to(std::int64_t* word, std::int64_t value) {
  atomicAdd(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}

/// red.global.max.u64: makes a word that any block may raise at least so large.
SPIDER_DEVICE void raise(std::uint64_t* word, std::uint64_t value) {
  atomicMax(reinterpret_cast<unsigned long long*>(word), static_cast<unsigned long long>(value));
}

/// red.release.sys.global.add.u32 (9.7.13.7): counts up for what waits outside the launch and then reads what
/// threads of the block stored before its last sync_block.
SPIDER_DEVICE void count_stored(std::uint32_t* counter) {
  asm volatile("red.release.sys.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

}  // namespace device
}  // namespace device_4
}  // namespace spider
