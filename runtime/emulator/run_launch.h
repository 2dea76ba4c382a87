#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <optional>
#include <string>

namespace spider::emulator {

/// What a user may set by environment variables (README.md).
struct Settings {
  std::uint64_t seed = 1;     ///< SPIDER_EMULATOR_SEED
  int threads = 1;            ///< SPIDER_EMULATOR_THREADS; unset: one per processor
  int multiprocessors = 4;    ///< SPIDER_EMULATOR_MULTIPROCESSORS
  int products_at_once = 16;  ///< SPIDER_EMULATOR_PRODUCTS_AT_ONCE
};

/// Reads the environment; a variable that is no number in range counts as unset.
[[nodiscard]] Settings read_settings();

/// Runs blocks 0 .. blocks - 1 of a form of the kernel, for each of the images. Says which rule the kernel
/// broke, if any: of several broken rules that of the lowest block, so that the number of threads does not
/// matter.
[[nodiscard]] std::optional<std::string> run_launch(const spider_kernel& kernel, const SweepForm& form,
                                                    const SweepArguments& arguments, std::int64_t blocks,
                                                    const Settings& settings, std::int32_t images = 1);

}  // namespace spider::emulator
