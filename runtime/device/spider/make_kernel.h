/// The registration of a generated file.
#pragma once

#include <spider/abi.h>
#include <spider/kernel.h>
#include <spider/machine/instructions.h>

#if defined(__CUDACC__)
#include <spider/field/point_access.h>
#endif

#include <cstdint>

namespace spider {
inline namespace device_4 {

/// Arguments of an update besides the input, as in spider_kernel_info. The tables outlive the kernel.
struct UpdateFacts {
  const char* previous = nullptr;
  std::int32_t field_count = 0;
  const char* const* field_names = nullptr;
  const std::int32_t* field_storages = nullptr;
  std::int32_t scalar_count = 0;
  const char* const* scalar_names = nullptr;
};

/// A generated file's description of its kernel; the rest of spider_kernel_info is the same for all files.
struct KernelFacts {
  const char* name;
  const char* generator;  ///< version of spider-gen
  const char* spec_hash;
  std::int32_t dimensions;
  std::int32_t storage;  ///< SPIDER_F16, ...
  std::int32_t reach_low[3], reach_high[3];
  std::int32_t minimum_arch;
  std::int32_t products;   ///< as spider_kernel::products
  std::int32_t steps = 1;  ///< time steps of a sweep
  UpdateFacts update = {};
  double neighbourhood = 0;  ///< as spider_kernel::neighbourhood
  std::int32_t output = -1;  ///< SPIDER_F16, ... of results; -1: `storage`
};

/// Code that accesses points of a generated file's fields. `File` is a type of that file only: files of one
/// program may be compiled for different architectures.
template <class File>
constexpr PointFunction point_function =
#if defined(__CUDACC__)
    function_address<PointFunction>(access_points<File>);
#else
    nullptr;
#endif

/// A form whose stencil is that many time steps, composed.
constexpr SweepForm composed_form(SweepForm form, std::int32_t steps) {
  form.steps = steps;
  return form;
}

/// The kernel for a runtime of the ABI that this is compiled for. `forms`, `rows` and `taps` outlive it.
template <int form_count, int row_count, int tap_count>
constexpr spider_kernel make_kernel(const KernelFacts& facts, const SweepForm (&forms)[form_count],
                                    const TapRow (&rows)[row_count], const Tap (&taps)[tap_count],
                                    const Face (&faces)[3][2], PointFunction points = nullptr) {
  static_assert(form_count <= most_forms, "the runtime has room for these");
  spider_kernel kernel{};
  kernel.abi = SPIDER_ABI;
  kernel.size = sizeof(spider_kernel);
  kernel.launch_size = largest_arguments(forms, form_count);
  kernel.info = {sizeof(spider_kernel_info),
                 SPIDER_ABI,
                 facts.name,
                 facts.generator,
                 facts.spec_hash,
                 facts.dimensions,
                 facts.storage,
                 facts.storage == SPIDER_F64 ? SPIDER_F64 : SPIDER_F32,
                 facts.steps,
                 {facts.reach_low[0], facts.reach_low[1], facts.reach_low[2]},
                 {facts.reach_high[0], facts.reach_high[1], facts.reach_high[2]},
                 facts.minimum_arch,
                 device::backend == SPIDER_BACKEND_EMULATED,
                 device::backend,
                 facts.update.previous,
                 facts.update.field_count,
                 facts.update.scalar_count,
                 facts.update.field_names,
                 facts.update.field_storages,
                 facts.update.scalar_names,
                 0,
                 nullptr,
                 nullptr,
                 nullptr,
                 0,
                 facts.output < 0 ? facts.storage : facts.output};
  for (int i = 0; i < form_count; ++i) kernel.forms[i] = forms[i];
  kernel.form_count = form_count;
  kernel.tap_rows = rows;
  kernel.tap_row_count = row_count;
  kernel.taps = taps;
  kernel.tap_count = tap_count;
  kernel.products = facts.products;
  kernel.neighbourhood = facts.neighbourhood;
  for (int axis = 0; axis < 3; ++axis) {
    for (int side = 0; side < 2; ++side) kernel.faces[axis][side] = faces[axis][side];
  }
  kernel.points = points;
  return kernel;
}

/// The kernel of a sweep in passes, which outlive it; the rest as in make_kernel().
template <int pass_count, int row_count, int tap_count>
constexpr spider_kernel make_passes_kernel(const KernelFacts& facts,
                                           const spider_kernel* const (&passes)[pass_count],
                                           const std::int32_t (&row_axes)[pass_count],
                                           const TapRow (&rows)[row_count], const Tap (&taps)[tap_count],
                                           const Face (&faces)[3][2], PointFunction points = nullptr) {
  // Stands for the forms of all passes: a sweep has one step.
  const SweepForm forms[] = {passes[0]->forms[0]};
  spider_kernel kernel = make_kernel(facts, forms, rows, taps, faces, points);
  kernel.passes = passes;
  kernel.pass_row_axes = row_axes;
  kernel.pass_count = pass_count;
  return kernel;
}

/// Arguments of a system, as in spider_kernel_info. The tables outlive the kernel.
struct SystemNames {
  const char* const* field_names;  ///< of all fields, in the spec's order
  const std::int32_t* field_storages;
  const std::int32_t* field_uses;
  const std::int32_t* field_axes;
  std::int32_t field_count;
  const char* const* scalar_names;  ///< NULL where there are none
  std::int32_t scalar_count;
  const char* const* reduction_names = nullptr;  ///< the same
  std::int32_t reduction_count = 0;
};

/// A generated file's description of its system; the rest of spider_kernel_info follows from its sweeps.
struct SystemKernelFacts {
  const char* name;
  const char* generator;  ///< version of spider-gen
  const char* spec_hash;
  std::int32_t dimensions;
  std::int32_t storage;  ///< the spec's; SystemNames has those of fields
  std::int32_t minimum_arch;
  SystemNames names;
};

/// Sweep::folded_reach of an axis, 0 if a sweep has none.
template <class Sweep, class = void>
struct FoldedReach {
  static constexpr std::int32_t along(int /*axis*/) { return 0; }
};
template <class Sweep>
struct FoldedReach<Sweep, decltype(static_cast<void>(Sweep::folded_reach))> {
  static constexpr std::int32_t along(int axis) { return Sweep::folded_reach[axis]; }
};

/// One sweep of a system, from a generated file's sweep (members: spider/loads/system_point.h).
template <class System>
constexpr SystemSweep system_sweep(std::int32_t stages, const SweepUpdate* update = nullptr) {
  SystemSweep sweep{stages, nullptr, System::row_count, nullptr, System::written_count,
                    {},     {},      System::columns,   nullptr, System::reduced_count,
                    {},     update};
  for (int axis = 0; axis < 3; ++axis) sweep.folded_reach[axis] = FoldedReach<System>::along(axis);
  if constexpr (System::row_count > 0) sweep.rows = System::rows;
  if constexpr (System::written_count > 0) sweep.written = System::written;
  if constexpr (System::reduced_count > 0) sweep.reduced = System::reduced;
  for (std::int32_t i = 0; i < System::row_count; ++i) {
    const ReadRow& row = sweep.rows[i];
    const std::int32_t low[3] = {row.dz, row.dy, row.low};
    const std::int32_t high[3] = {row.dz, row.dy, row.high};
    for (int axis = 0; axis < 3; ++axis) {
      if (-low[axis] > sweep.reach_low[axis]) sweep.reach_low[axis] = -low[axis];
      if (high[axis] > sweep.reach_high[axis]) sweep.reach_high[axis] = high[axis];
    }
  }
  return sweep;
}

/// The kernel of a system for a runtime of the ABI that this is compiled for. `forms` computes
/// `system.sweeps` in this order; all tables outlive the kernel.
template <int form_count>
constexpr spider_kernel make_system_kernel(const SystemKernelFacts& facts,
                                           const SweepForm (&forms)[form_count], const SystemFacts& system,
                                           PointFunction points = nullptr) {
  static_assert(form_count <= most_forms, "the runtime has room for these");
  spider_kernel kernel{};
  kernel.abi = SPIDER_ABI;
  kernel.size = sizeof(spider_kernel);
  kernel.launch_size = largest_arguments(forms, form_count);
  spider_kernel_info& info = kernel.info;
  info.size = sizeof(spider_kernel_info);
  info.abi = SPIDER_ABI;
  info.name = facts.name;
  info.generator = facts.generator;
  info.spec_hash = facts.spec_hash;
  info.dimensions = facts.dimensions;
  info.storage = facts.storage;
  info.output = facts.storage;
  info.accumulate = SPIDER_F32;
  info.steps = 1;
  info.minimum_arch = facts.minimum_arch;
  info.emulated = device::backend == SPIDER_BACKEND_EMULATED;
  info.backend = device::backend;
  info.field_count = facts.names.field_count;
  info.scalar_count = facts.names.scalar_count;
  info.field_names = facts.names.field_names;
  info.field_storages = facts.names.field_storages;
  info.scalar_names = facts.names.scalar_names;
  info.launch_count = form_count;
  info.field_uses = facts.names.field_uses;
  info.field_axes = facts.names.field_axes;
  info.reduction_names = facts.names.reduction_names;
  info.reduction_count = facts.names.reduction_count;
  for (int i = 0; i < facts.names.field_count; ++i) {
    if (facts.names.field_storages[i] == SPIDER_F64) info.accumulate = SPIDER_F64;
  }
  for (int i = 0; i < form_count; ++i) {
    kernel.forms[i] = forms[i];
    for (int axis = 0; axis < 3; ++axis) {
      const SystemSweep& sweep = system.sweeps[i];
      if (sweep.reach_low[axis] > info.reach_low[axis]) info.reach_low[axis] = sweep.reach_low[axis];
      if (sweep.reach_high[axis] > info.reach_high[axis]) info.reach_high[axis] = sweep.reach_high[axis];
    }
  }
  kernel.form_count = form_count;
  kernel.system = &system;
  kernel.points = points;
  return kernel;
}

}  // namespace device_4
}  // namespace spider
