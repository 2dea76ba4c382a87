/// One size after another: fields, contestants, checks, times, rows.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel_library.h"
#include "nvml.h"
#include "options.h"
#include "report.h"

namespace bench {

/// A kernel that takes part, perhaps with another preferred_steps than its own.
struct Entry {
  std::string label;
  std::string detail;
  const KernelLibrary* library;
  std::shared_ptr<const spider_kernel> kernel;  ///< at one address for ever: the runtime knows kernels by it
};

struct Device {
  std::string name;
  int compute_capability;  ///< x 10
  int multiprocessors;
  std::int64_t cache_bytes;  ///< L2
};

/// Kernels that the options choose, in the libraries' order. Throws std::invalid_argument where a pattern
/// matches none.
[[nodiscard]] std::vector<Entry> choose_entries(const Options& options,
                                                const std::vector<std::unique_ptr<KernelLibrary>>& libraries);

/// Measures everything and adds the rows. Kernels of one dimension and storage share fields and run in turn.
/// False where a result was wrong; that kernel has a row without a time.
[[nodiscard]] bool measure_all(const Options& options, const Device& device, const Nvml& nvml,
                               const std::vector<Entry>& entries, Report& report);

}  // namespace bench
