#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "plan/kernel_plan.h"
#include "spec/stencil_spec.h"

namespace spidergen::emit {

/// The bits of a value as a cell of a field.
[[nodiscard]] std::uint64_t stored_bits(spec::Storage storage, double value);

/// The storage struct of spider/values/storage.h in a kernel's template.
[[nodiscard]] std::string storage_struct(const spec::StencilSpec& spec, const plan::KernelPlan& plan);

/// The struct of spider/values/cells.h for a storage.
[[nodiscard]] std::string cells_struct(spec::Storage storage);

/// The compute type of CUDA cores for fields of this storage: C++'s type, its name in a spec, a literal, and
/// its struct in device headers, CoreTap or WideCoreTap.
[[nodiscard]] std::string number_type(spec::Storage storage);
[[nodiscard]] std::string_view number_name(spec::Storage storage);
[[nodiscard]] std::string number_literal(spec::Storage storage, double value);
[[nodiscard]] std::string wide_name(spec::Storage storage, std::string_view name);

/// "two f16 terms each, exact" and the like.
[[nodiscard]] std::string weights_text(const plan::RoundedWeights& weights);

}  // namespace spidergen::emit
