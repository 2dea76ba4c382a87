#pragma once

#include <set>
#include <string>
#include <vector>

#include "pack/pack.h"
#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// A file before it is written. `name` has no folder.
struct EmittedFile {
  std::string name;
  std::string text;

  bool operator==(const EmittedFile&) const = default;
};

/// A kernel in a namespace of its own within a file: a pass of a sweep, or a sweep of a system.
struct InnerKernel {
  std::string title;  ///< a comment
  std::string name;   ///< of the namespace
  const spec::StencilSpec& spec;
  const plan::KernelPlan& plan;
};

/// Its text, which has `kernel` in the namespace. The schemes whose headers it takes go into `schemes`.
[[nodiscard]] std::string inner_kernel(const InnerKernel& inner, const std::string& version,
                                       std::set<std::string>& schemes);

/// The generated `<stencil>.h` and `<stencil>.cu`. The same input gives the same bytes on any machine.
/// `version` is spider-gen's.
[[nodiscard]] std::vector<EmittedFile> emit(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                                            const pack::PackedKernel& packed, const std::string& version);

}  // namespace spidergen::emit
