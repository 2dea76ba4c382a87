/// As much of CUDA's driver as halos on GPUs take, made up: a stream's operations are done, and waited for,
/// when they are asked for.
#pragma once

#include <cuda_runtime_api.h>
#include <sched.h>

#include <atomic>
#include <cstdint>

using CUdeviceptr = std::uintptr_t;
using CUstream = struct FakeStream*;
enum CUresult { CUDA_SUCCESS, CUDA_ERROR_INVALID_VALUE };
enum CUpointer_attribute { CU_POINTER_ATTRIBUTE_BUFFER_ID, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR };
enum CUstreamBatchMemOpType { CU_STREAM_MEM_OP_WAIT_VALUE_32, CU_STREAM_MEM_OP_WRITE_VALUE_32 };
inline constexpr unsigned CU_STREAM_WAIT_VALUE_GEQ = 0;
inline constexpr unsigned CU_STREAM_WRITE_VALUE_DEFAULT = 0;

struct FakeMemoryOperation {
  CUstreamBatchMemOpType operation;
  CUdeviceptr address;
  std::uint32_t value;
  unsigned flags;
};
/// Its first member tells which of the others counts.
union CUstreamBatchMemOpParams {
  CUstreamBatchMemOpType operation;
  FakeMemoryOperation waitValue;
  FakeMemoryOperation writeValue;
};

/// Allocations are numbered from 1.
inline CUresult fake_pointer_attribute(void* result, CUpointer_attribute attribute, CUdeviceptr pointer) {
  for (std::size_t i = 0; i < fake_memories.size(); ++i) {
    const auto base = reinterpret_cast<CUdeviceptr>(fake_memories[i].address);
    if (base == 0 || pointer < base || pointer >= base + fake_memories[i].bytes) continue;
    if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
      *static_cast<unsigned long long*>(result) = i + 1;
    } else {
      *static_cast<CUdeviceptr*>(result) = base;
    }
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

inline CUresult fake_memory_operations(CUstream /*stream*/, unsigned count,
                                       CUstreamBatchMemOpParams* operations, unsigned /*flags*/) {
  for (unsigned i = 0; i < count; ++i) {
    const FakeMemoryOperation& one = operations[i].waitValue;
    const std::atomic_ref<std::uint32_t> flag(*reinterpret_cast<std::uint32_t*>(one.address));
    if (operations[i].operation == CU_STREAM_MEM_OP_WRITE_VALUE_32) {
      flag.store(one.value);
    } else {
      while (flag.load() < one.value) sched_yield();
    }
  }
  return CUDA_SUCCESS;
}
