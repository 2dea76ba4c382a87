#pragma once

#include <string>
#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// CUDA cores, for stencils without another scheme: threads walk with their sums in registers, and taps in
/// the code or in a table (runtime/device/spider/kernels/cuda_cores.h).
struct CudaCores {
  static constexpr std::string_view name = "cuda_cores";

  int outputs = 4;         ///< of a thread along x
  bool unrolled = true;    ///< taps are in the code; otherwise in a table
  std::string in_code;     ///< why taps are in a table: the size of their code
  int unrolled_steps = 1;  ///< of the loop along the walk; a multiple of the steps in flight, or 1
  int ring_rows = 0;       ///< in shared memory, of a warp that walks; 0: no ring buffer
  int ring_column = 0;     ///< of a ring row's first element, relative to the strip's first output
  int ring_vectors = 0;    ///< of 16 bytes, in a ring row
  int ring_row_bytes = 0;  ///< pitch of ring rows, in whole lines of 128 bytes
  int warps_per_block = 4;
  int blocks_per_multiprocessor = 1;  ///< in the launch bounds: the register budget
  int preferred_steps = 0;            ///< of a walk on a large field; 0: as many as fill one wave of blocks
  int cells_loaded = 0;               ///< by a thread for the outputs of a step
  int estimated_registers = 0;
  int shared_bytes = 0;

  [[nodiscard]] int outputs_of_thread() const { return outputs; }
  [[nodiscard]] double cells_per_output() const { return static_cast<double>(cells_loaded) / outputs; }
  static bool takes(const Problem& problem, const Contraction& contraction);
  static Offer<CudaCores> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const CudaCores&) const = default;
};

}  // namespace spidergen::plan
