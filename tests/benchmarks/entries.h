/// Which kernels take part, and which of them share fields.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernel_library.h"
#include "options.h"
#include "sizes.h"

namespace bench {

/// A kernel that takes part, perhaps with another preferred_steps than its own.
struct Entry {
  std::string label;
  std::string detail;
  const KernelLibrary* library;
  std::shared_ptr<const spider_kernel> kernel;  ///< at one address for ever: the runtime knows kernels by it
};

/// Kernels that the options choose, in the libraries' order. Throws std::invalid_argument where a pattern
/// matches none.
[[nodiscard]] std::vector<Entry> choose_entries(const Options& options,
                                                const std::vector<std::unique_ptr<KernelLibrary>>& libraries);

/// Kernels that can share fields, on one size.
struct Group {
  int dimensions;
  int storage;
  Extents extents;
  std::vector<const Entry*> entries;
};

/// One group for each size and each kind of kernel that the size fits. Throws std::invalid_argument where
/// there is none.
[[nodiscard]] std::vector<Group> make_groups(const Options& options, const std::vector<Entry>& entries);

}  // namespace bench
