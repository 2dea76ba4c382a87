#pragma once

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

/// The generated `<stencil>.h` and `<stencil>.cu`. The same input gives the same bytes on any machine.
/// `version` is spider-gen's.
[[nodiscard]] std::vector<EmittedFile> emit(const spec::StencilSpec& spec, const plan::KernelPlan& plan,
                                            const pack::PackedKernel& packed, const std::string& version);

}  // namespace spidergen::emit
