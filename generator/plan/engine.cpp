#include "plan/engine.h"

namespace spidergen::plan {

std::string_view engine_name(Engine engine) {
  switch (engine) {
    case Engine::sparse:
      return "sparse";
    case Engine::dense:
      return "dense";
    case Engine::cuda:
      return "cuda";
  }
  return "";
}

std::optional<Engine> engine_named(std::string_view name) {
  for (const Engine engine : {Engine::sparse, Engine::dense, Engine::cuda}) {
    if (engine_name(engine) == name) return engine;
  }
  return std::nullopt;
}

}  // namespace spidergen::plan
