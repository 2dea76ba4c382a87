#pragma once

#include <spider/kernel.h>

#include <cstdint>
#include <optional>
#include <string>

namespace spider::emulator {

/// Settings that a user makes by environment variables (README.md).
struct Settings {
  std::uint64_t seed = 1;     ///< SPIDER_EMULATOR_SEED
  int threads = 1;            ///< SPIDER_EMULATOR_THREADS; unset: one per processor
  int multiprocessors = 4;    ///< SPIDER_EMULATOR_MULTIPROCESSORS
  int products_at_once = 16;  ///< SPIDER_EMULATOR_PRODUCTS_AT_ONCE
};

/// Reads the environment; a variable that is no number in range is ignored.
[[nodiscard]] Settings read_settings();

/// Runs blocks 0 .. blocks - 1 of a form of the kernel, for each of the images. Returns the rule that the
/// kernel broke, if any: the one of the lowest block, so that the number of threads does not matter.
[[nodiscard]] std::optional<std::string> run_launch(const spider_kernel& kernel, const SweepForm& form,
                                                    const SweepArguments& arguments, std::int64_t blocks,
                                                    const Settings& settings, std::int32_t images = 1);

}  // namespace spider::emulator
