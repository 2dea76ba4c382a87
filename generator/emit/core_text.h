#pragma once

#include <string>

#include "emit/kernel_text.h"

namespace spidergen::emit {

/// Binds the storage, the taps, and the blocks of a multiprocessor.
void bind_core_taps(const Kernel& kernel, render::Bindings& bindings);

/// Figures of a kernel on CUDA cores, for --explain's JSON.
struct CoreFigures {
  std::string in_code;  ///< why taps are in a table
  int outputs = 0;      ///< of a thread along x
  int tile_rows = 0;
  int ring_rows = 0;
  int unrolled_steps = 1;
  int warps_per_block = 0;
  int blocks_per_multiprocessor = 0;
  int preferred_steps = 0;
  int estimated_registers = 0;
  int cells_loaded = 0;
  std::string ring = "null";  ///< of planes
};

/// The figures that all schemes have.
template <class Scheme>
[[nodiscard]] CoreFigures core_figures(const Scheme& scheme) {
  CoreFigures figures;
  figures.blocks_per_multiprocessor = scheme.blocks_per_multiprocessor;
  figures.preferred_steps = scheme.preferred_steps;
  figures.estimated_registers = scheme.estimated_registers;
  figures.cells_loaded = scheme.cells_loaded;
  return figures;
}

[[nodiscard]] std::string cores_json(const CoreFigures& figures, const plan::KernelPlan& plan);

}  // namespace spidergen::emit
