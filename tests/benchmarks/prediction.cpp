#include "prediction.h"

#include <algorithm>
#include <string_view>

namespace bench {

std::optional<double> mma_nanoseconds(int compute_capability, const char* engine) {
  if (compute_capability != 90) return std::nullopt;
  const std::string_view label(engine);
  const std::string_view name = label.substr(0, label.find('_'));
  if (name == "sparse") return 4.60;
  if (name == "dense") return 3.47;
  return std::nullopt;
}

Prediction predict(double copy_us, std::int64_t points, int products, int multiprocessors,
                   std::optional<double> nanoseconds) {
  if (!nanoseconds) return {copy_us, std::nullopt, copy_us};
  const double tiles = static_cast<double>(points) / 128;
  const double tensor_us = tiles * products * *nanoseconds / (4.0 * multiprocessors) * 1e-3;
  return {copy_us, tensor_us, std::max(copy_us, tensor_us)};
}

}  // namespace bench
