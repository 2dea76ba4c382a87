#pragma once

#include <optional>
#include <string_view>

namespace spidergen::plan {

/// The unit that multiplies.
enum class Engine {
  sparse,  ///< tensor cores on matrices compressed 2:4: mma.sp
  dense,   ///< tensor cores on whole matrices: mma.sync
  cuda,    ///< CUDA cores in f32
};

/// Its name on the command line: "sparse", "dense" or "cuda".
[[nodiscard]] std::string_view engine_name(Engine engine);

/// The engine of that name; nothing where there is none.
[[nodiscard]] std::optional<Engine> engine_named(std::string_view name);

/// Ends a message about something that only CUDA cores support.
inline constexpr std::string_view cuda_cores_take_it = "; '--engine cuda' takes it";

}  // namespace spidergen::plan
