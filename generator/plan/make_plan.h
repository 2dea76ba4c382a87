#pragma once

#include <optional>
#include <string>
#include <vector>

#include "diag/diagnostic.h"
#include "plan/kernel_plan.h"
#include "plan/machine.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// What is a valid spec but cannot be generated with this engine and variant: not yet (errors), or not
/// without a loss that the user asked for (warnings); located. May be asked of a spec that has other errors,
/// so that all are told at once.
[[nodiscard]] diag::Diagnostics check_supported(const spec::StencilSpec& spec, Engine engine = Engine::sparse,
                                                const Variant& variant = {});

/// What a sweep over a 3D field of f16 takes at best on the device of sm_90, in microseconds, by either
/// engine.
struct EngineFloors {
  int mmas = 0;  ///< per 128 outputs on sparse tensor cores
  SweepBound sparse;
  SweepBound cores;

  /// Tensor cores are then at work longer than memory is, and longer than CUDA cores would be.
  [[nodiscard]] bool cores_are_faster() const {
    return sparse.binding() == "tensor" && cores.floor_us() < sparse.tensor_us;
  }
};

/// The floors of a spec that both engines take as fast as they can: in 3D, in f16, CUDA cores with three rows
/// a thread from a ring of planes. Nothing for others.
[[nodiscard]] std::optional<EngineFloors> compare_engines(const spec::StencilSpec& spec, double points);

/// The times of both engines for f32 fields in 2D that both take, in no variant, in code for these
/// architectures; nothing for others.
[[nodiscard]] std::optional<EngineTimes> estimate_engines(const spec::StencilSpec& spec,
                                                          const Variant& variant = {},
                                                          const std::vector<std::string>& architectures = {});

/// The only one of sparse tensor cores and CUDA cores that takes a spec.
struct SoleEngine {
  Engine engine = Engine::sparse;
  std::string objection;  ///< the first of the other one
};

/// That of a spec for which there are plans of both for its dimensions and storage; nothing where both take
/// it, or neither does.
[[nodiscard]] std::optional<SoleEngine> find_sole_engine(const spec::StencilSpec& spec);

/// The engine of a spec for which none is asked: the faster one, where estimate_engines gave times. Else
/// sparse tensor cores where there is a plan for its dimensions and storage, otherwise CUDA cores; these,
/// too, where compare_engines finds that they are faster, and where in no variant they alone take the spec.
[[nodiscard]] Engine default_engine(const spec::StencilSpec& spec, const Variant& variant,
                                    const std::optional<EngineTimes>& times);

/// Decides everything about the kernel of a spec that read_spec and check_supported, asked for the same
/// engine and variant, found no error in.
[[nodiscard]] KernelPlan make_plan(const spec::StencilSpec& spec, Engine engine = Engine::sparse,
                                   const Variant& variant = {});

}  // namespace spidergen::plan
