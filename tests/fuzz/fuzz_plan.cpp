/// Well-formed specs with any taps, weights and boundaries, all the way to the generated files: what the
/// other targets seldom reach by changing text. No exception, which would be an internal error.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "cli/generate.h"
#include "expect.h"

namespace spidergen::fuzz {
namespace {

template <std::size_t count>
std::string pick(FuzzedDataProvider& data, const char* const (&words)[count]) {
  return words[data.ConsumeIntegralInRange<std::size_t>(0, count - 1)];
}

std::string weight(FuzzedDataProvider& data) {
  switch (data.ConsumeIntegralInRange(0, 3)) {
    case 0:
      return std::to_string(data.ConsumeIntegralInRange(-9, 9));
    case 1:
      return pick(data,
                  {"1/3", "65504", "-65504", "65505", "6e-8", "3e-8", "2^-24", "2^-25", "0.1", "1e-30"});
    case 2:
      return std::to_string(data.ConsumeIntegralInRange(-99999, 99999)) + "/2^" +
             std::to_string(data.ConsumeIntegralInRange(0, 60));
    default:
      return std::to_string(data.ConsumeFloatingPointInRange(-1.0, 1.0));
  }
}

std::string taps(FuzzedDataProvider& data, int dimensions) {
  const int reach = data.ConsumeIntegralInRange(0, data.ConsumeBool() ? 34 : 130);
  const int count = data.ConsumeIntegralInRange(1, 60);
  std::set<std::string> offsets;
  std::string text = "shape: taps\ncoefficients:\n";
  for (int tap = 0; tap < count; ++tap) {
    std::string at;
    for (int axis = 0; axis < dimensions; ++axis) {
      const int limit = axis + 1 == dimensions ? reach : reach / 4;
      at += (axis > 0 ? ", " : "") + std::to_string(data.ConsumeIntegralInRange(-limit, limit));
    }
    if (offsets.insert(at).second) text += "  - {at: [" + at + "], weight: " + weight(data) + "}\n";
  }
  return text;
}

std::string list(FuzzedDataProvider& data, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i > 0 ? ", " : "") + weight(data);
  return text + "]";
}

std::string star_or_product(FuzzedDataProvider& data, int dimensions) {
  const bool star = data.ConsumeBool();
  const bool center = star && data.ConsumeBool();
  std::string text = std::string("shape: ") + (star ? "star" : "product") + "\ncoefficients: {";
  if (center) text += "center: " + weight(data) + ", ";
  for (int axis = 3 - dimensions; axis < 3; ++axis) {
    const int radius = data.ConsumeIntegralInRange(0, axis == 2 ? (data.ConsumeBool() ? 32 : 128) : 16);
    text += std::string(1, "zyx"[axis]) + ": " + list(data, 2 * radius + (center ? 0 : 1)) + ", ";
  }
  return text + "}\n";
}

std::string face(FuzzedDataProvider& data) {
  return pick(data, {"halo", "nearest", "periodic", "reflect", "mirror", "{constant: 0}", "{constant: -1.5}",
                     "{constant: 65504}"});
}

std::string boundary(FuzzedDataProvider& data, int dimensions) {
  std::string text = "boundary: {";
  for (int axis = 3 - dimensions; axis < 3; ++axis) {
    text += std::string(1, "zyx"[axis]) + ": ";
    text += data.ConsumeBool() ? face(data) : "{low: " + face(data) + ", high: " + face(data) + "}";
    text += ", ";
  }
  return text + "}\n";
}

std::string make_spec(FuzzedDataProvider& data) {
  const int dimensions = data.ConsumeIntegralInRange(1, 3);
  std::string text = "stencil: t\ndimensions: " + std::to_string(dimensions) + "\n";
  text += "storage: " + pick(data, {"f16", "f16", "f32", "bf16"}) + "\n";
  text += "weights: " + pick(data, {"auto", "auto", "f16", "f16x2"}) + "\n";
  text += boundary(data, dimensions);
  return text + (data.ConsumeBool() ? taps(data, dimensions) : star_or_product(data, dimensions));
}

}  // namespace
}  // namespace spidergen::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace spidergen;
  FuzzedDataProvider data(bytes, size);
  const std::string text = fuzz::make_spec(data);
  try {
    const cli::GenerateResult result = cli::generate({"-", text}, {}, {"sm_80", "sm_90"});
    fuzz::expect(result.files.size() == (result.diagnostics.has_errors() ? 0 : 2), "errors or two files");
  } catch (const std::exception& error) {
    fuzz::expect(false, std::string(error.what()) + ", with this spec:\n" + text);
  }
  return 0;
}
