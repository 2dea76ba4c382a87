/// What moves halos of fields on GPUs, on the host: its own text, with a CUDA and an NCCL that are made up
/// (fake_gpus/), in the place of what moves those of fields in host memory.
#include "peer_fields.cu"
#include "peers.cu"
#include "transport_gpus.cu"

namespace spider::distributed {
namespace {

/// Runs the kernel, a thread after the other, if it is this one.
template <class Cell, bool packs>
bool run_copy(const void* function, dim3 grid, dim3 block, void** arguments) {
  if (function != reinterpret_cast<const void*>(&copy_boxes<Cell, packs>)) return false;
  gridDim = grid;
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
      for (threadIdx.x = 0; threadIdx.x < block.x; ++threadIdx.x)
        copy_boxes<Cell, packs>(*static_cast<Cell**>(arguments[0]), *static_cast<long long*>(arguments[1]),
                                *static_cast<long long*>(arguments[2]),
                                *static_cast<PackedBoxes*>(arguments[3]));
    }
  }
  return true;
}

template <class Cell>
bool run_either(const void* function, dim3 grid, dim3 block, void** arguments) {
  return run_copy<Cell, true>(function, grid, block, arguments) ||
         run_copy<Cell, false>(function, grid, block, arguments);
}

}  // namespace

TransportOutcome make_mpi_transport(MPI_Comm communicator, const Exchanges& largest) {
  return make_gpu_transport(communicator, largest);
}

}  // namespace spider::distributed

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                             std::size_t /*shared_bytes*/, cudaStream_t /*stream*/) {
  using spider::distributed::run_either;
  const bool known = run_either<unsigned short>(function, grid, block, arguments) ||
                     run_either<unsigned>(function, grid, block, arguments) ||
                     run_either<unsigned long long>(function, grid, block, arguments);
  if (!known) std::abort();
  return cudaSuccess;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned /*version*/,
                                             unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* found) {
  *function = std::strcmp(name, "cuPointerGetAttribute") == 0
                  ? reinterpret_cast<void*>(&fake_pointer_attribute)
                  : reinterpret_cast<void*>(&fake_memory_operations);
  *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}

// Fields are of CUDA's memory where the program is linked so (ld --wrap), and other ranks open them.
// NOLINTBEGIN(bugprone-reserved-identifier): the linker's names
extern "C" {
[[gnu::weak]] void __real_free(void* memory);

void* __wrap_aligned_alloc(std::size_t /*alignment*/, std::size_t bytes) {
  void* memory = nullptr;
  return cudaMalloc(&memory, bytes) == cudaSuccess ? memory : nullptr;
}

void __wrap_free(void* memory) {
  for (const FakeMemory& known : fake_memories) {
    if (known.address != memory || memory == nullptr) continue;
    cudaFree(memory);
    return;
  }
  __real_free(memory);
}
}
// NOLINTEND(bugprone-reserved-identifier)
