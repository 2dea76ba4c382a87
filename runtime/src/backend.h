/// The interface of a back end. runtime/src/backend_cuda.cpp, runtime/host/backend_host.cpp and
/// runtime/emulator/backend_emulated.cpp implement it; one of them is in a link.
#pragma once

#include <spider/kernel.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace spider::backend {

/// A status and, unless it is SPIDER_OK, the reason; true where a call failed.
struct Outcome {
  spider_status status = SPIDER_OK;
  std::string reason;

  explicit operator bool() const { return status != SPIDER_OK; }
};

/// How the current device runs a form of a kernel.
struct Residency {
  std::int32_t multiprocessors = 1;
  std::int32_t blocks_per_multiprocessor = 1;  ///< 0: a block needs more than the device has
  bool starts_early = false;                   ///< the form does, or overlaps_rims, and the device can
  bool is_loaded = true;                       ///< false: load() it before it runs, and then query again
};

/// The residency of each of a kernel's forms.
using Residencies = std::array<Residency, most_forms>;

/// Forms of a kernel, by their index.
using FormSet = std::bitset<most_forms>;
constexpr FormSet all_forms{(1U << most_forms) - 1};

/// True if all forms of a kernel are loaded.
[[nodiscard]] inline bool are_loaded(const spider_kernel& kernel, const Residencies& residencies) {
  return std::all_of(residencies.begin(), residencies.begin() + kernel.form_count,
                     [](const Residency& residency) { return residency.is_loaded; });
}

/// How to start a sweep.
struct Start {
  const SweepForm& form;
  std::int64_t blocks;
  bool early;  ///< it may start while the work ahead of it on the stream still runs: Residency::starts_early
  void* stream;
  std::int32_t images = 1;  ///< of SweepForm::takes_images; SweepArguments has their distances
};

/// SPIDER_BACKEND_CUDA, ...
[[nodiscard]] std::int32_t kind();

/// Loads the kernel on the current device, or finds it loaded; does not touch the device after the first
/// call. Does not compile forms: Residency::is_loaded.
[[nodiscard]] Outcome prepare(const spider_kernel& kernel, Residencies& residencies);

/// Loads forms on the current device, loaded or not: they may be lost with a context. Compiles the ones that
/// are not compiled yet, in parallel. `residencies` are those of all forms.
[[nodiscard]] Outcome load(const spider_kernel& kernel, const FormSet& forms, Residencies& residencies);

/// Compiles all forms of these kernels that are not compiled yet, in parallel.
[[nodiscard]] Outcome compile(const std::vector<const spider_kernel*>& kernels);

/// Whether the current device can reach `memory`; the reason, which begins with `name`, if it is known to be
/// unreachable.
[[nodiscard]] Outcome check_memory(const void* memory, const char* name);

/// Starts one sweep; the arguments are UpdateArguments or BoxesArguments if the form's function takes them.
/// `input` and `output` are those of the arguments, with all three extents, for back ends that check which
/// cells the kernel touches.
[[nodiscard]] Outcome launch(const spider_kernel& kernel, const Start& start, const SweepArguments& arguments,
                             const spider_field& input, const spider_field& output);

/// Loads the code that accesses points of the kernel's fields on the current device.
[[nodiscard]] Outcome prepare_points(const spider_kernel& kernel);

/// Adds to points or reads them, in stream order.
[[nodiscard]] Outcome access_points(const spider_kernel& kernel, const PointArguments& points, void* stream);

[[nodiscard]] Outcome allocate(std::uint64_t bytes, void** memory);
[[nodiscard]] Outcome release(void* memory);

/// Memory for work on a stream: released memory may be reused by later work there.
[[nodiscard]] Outcome allocate_scratch(std::uint64_t bytes, void** memory, void* stream);
[[nodiscard]] Outcome release_scratch(void* memory, void* stream);

struct Release {
  void operator()(void* memory) const noexcept { static_cast<void>(release(memory)); }
};
/// Memory from `allocate`.
using Memory = std::unique_ptr<void, Release>;

[[nodiscard]] Outcome upload(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                             std::uint64_t row_bytes, std::uint64_t rows);
[[nodiscard]] Outcome download(void* to, std::uint64_t to_pitch, const void* from, std::uint64_t from_pitch,
                               std::uint64_t row_bytes, std::uint64_t rows);
[[nodiscard]] Outcome synchronize(void* stream);
[[nodiscard]] Outcome clear(void* memory, std::uint64_t bytes);

}  // namespace spider::backend
