#include "plan/engine.h"

#include <array>
#include <cstddef>

namespace spidergen::plan {

std::string_view engine_name(Engine engine) {
  constexpr std::array<std::string_view, 3> names{"sparse", "dense", "cuda"};
  return names[static_cast<std::size_t>(engine)];
}

std::optional<Engine> engine_named(std::string_view name) {
  for (const Engine engine : {Engine::sparse, Engine::dense, Engine::cuda}) {
    if (engine_name(engine) == name) return engine;
  }
  return std::nullopt;
}

}  // namespace spidergen::plan
