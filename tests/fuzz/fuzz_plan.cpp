/// Well-formed specs of any storage, accuracy, taps, weights and boundaries, for any engine, all the way to
/// the generated files: what the other targets seldom reach by changing text. No exception, which would be an
/// internal error.
#include <fuzzer/FuzzedDataProvider.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
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

int pick_number(FuzzedDataProvider& data, std::initializer_list<int> numbers) {
  return numbers.begin()[data.ConsumeIntegralInRange<std::size_t>(0, numbers.size() - 1)];
}

std::string weight(FuzzedDataProvider& data) {
  switch (data.ConsumeIntegralInRange(0, 19)) {
    case 0:  // at the ends of what f16 and bf16 hold, and beyond
      return pick(data, {"65504", "-65504", "65505", "6e-8", "3e-8", "2^-24", "2^-25", "1e-30", "3e38", "0"});
    case 1:
      return std::to_string(data.ConsumeIntegralInRange(-99999, 99999)) + "/2^" +
             std::to_string(data.ConsumeIntegralInRange(0, 60));
    case 2:
    case 3:
    case 4:
      return pick(data, {"1/3", "0.1", "-2/7"});
    case 5:
    case 6:
    case 7:
      return std::to_string(data.ConsumeFloatingPointInRange(-1.0, 1.0));
    default:
      return std::to_string(data.ConsumeIntegralInRange(-9, 9)) + ".5";
  }
}

/// How far taps go along x: as far as one window, as several, or as many; in 3D mostly as far as is
/// generated.
int largest_reach(FuzzedDataProvider& data, int dimensions) {
  if (dimensions == 3 && data.ConsumeIntegralInRange(0, 3) != 0) return 4;
  return pick_number(data, {2, 8, 34, 130});
}

std::string taps(FuzzedDataProvider& data, int dimensions) {
  const int reach = largest_reach(data, dimensions);
  const int count = data.ConsumeIntegralInRange(1, 60);
  std::set<std::string> offsets;
  std::string text = "shape: taps\ncoefficients:\n";
  for (int tap = 0; tap < count; ++tap) {
    std::string at;
    for (int axis = 0; axis < dimensions; ++axis) {
      const int limit = axis + 1 == dimensions || reach <= 4 ? reach : reach / 4;
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
  const int reach = largest_reach(data, dimensions);
  std::string text = std::string("shape: ") + (star ? "star" : "product") + "\ncoefficients: {";
  if (center) text += "center: " + weight(data) + ", ";
  for (int axis = 3 - dimensions; axis < 3; ++axis) {
    const int radius = data.ConsumeIntegralInRange(0, axis == 2 || reach <= 4 ? reach : reach / 4);
    text += std::string(1, "zyx"[axis]) + ": " + list(data, 2 * radius + (center ? 0 : 1)) + ", ";
  }
  return text + "}\n";
}

/// Nested lists of these many entries along each axis, the slowest first.
std::string nested_lists(FuzzedDataProvider& data, const std::vector<int>& counts, std::size_t axis) {
  if (axis + 1 == counts.size()) return list(data, counts[axis]);
  std::string text = "[";
  for (int i = 0; i < counts[axis]; ++i) text += (i > 0 ? ", " : "") + nested_lists(data, counts, axis + 1);
  return text + "]";
}

std::string box(FuzzedDataProvider& data, int dimensions) {
  std::vector<int> counts;
  for (int axis = 0; axis < dimensions; ++axis)
    counts.push_back(2 * data.ConsumeIntegralInRange(0, axis + 1 == dimensions ? 9 : 4) + 1);
  return "shape: box\ncoefficients: " + nested_lists(data, counts, 0) + "\n";
}

std::string face(FuzzedDataProvider& data) {
  return pick(data, {"halo", "nearest", "reflect", "mirror", "antisymmetric", "{constant: 0}",
                     "{constant: -1.5}", "{constant: 65504}"});
}

std::string boundary(FuzzedDataProvider& data, int dimensions) {
  std::string text = "boundary: {";
  for (int axis = 3 - dimensions; axis < 3; ++axis) {
    text += std::string(1, "zyx"[axis]) + ": ";
    const int kind = data.ConsumeIntegralInRange(0, 2);
    text += kind == 0   ? "periodic"
            : kind == 1 ? face(data)
                        : "{low: " + face(data) + ", high: " + face(data) + "}";
    text += ", ";
  }
  return text + "}\n";
}

/// The storage, and the key that says how exact its products are; seldom one that does not go with it.
std::string storage(FuzzedDataProvider& data) {
  const int kind = data.ConsumeIntegralInRange(0, 3);
  const bool matching = data.ConsumeIntegralInRange(0, 15) != 0;
  const std::string text = "storage: " + std::string(kind <= 1 ? "f16" : kind == 2 ? "f32" : "bf16") + "\n";
  if (!matching) {
    return text +
           pick(data, {"weights: f16x2\n", "weights: bf16x2\n", "accuracy: tf32\n", "accumulate: f16\n"});
  } else if (kind <= 1) {
    return text + "weights: " + pick(data, {"auto", "f16", "f16x2"}) + "\n";
  } else if (kind == 2) {
    return text + "accuracy: " + pick(data, {"full", "tf32", "f16"}) + "\n";
  }
  return text + "weights: " + pick(data, {"auto", "bf16", "bf16x2"}) + "\n";
}

/// Time steps of a sweep, in a quarter of the specs, up to more than there is room for.
std::string steps(FuzzedDataProvider& data) {
  const int kind = data.ConsumeIntegralInRange(0, 15);
  if (kind > 3) return "";
  const std::string count =
      kind == 0 ? "auto" : std::to_string(data.ConsumeIntegralInRange(1, kind == 1 ? 1024 : 32));
  return "steps: " + count + "\n" +
         (data.ConsumeBool() ? pick(data, {"tolerance: 0\n", "tolerance: 1e-3\n"}) : "");
}

std::string one_sum(FuzzedDataProvider& data, int dimensions) {
  switch (data.ConsumeIntegralInRange(0, 2)) {
    case 0:
      return taps(data, dimensions);
    case 1:
      return box(data, dimensions);
    default:
      return star_or_product(data, dimensions);
  }
}

/// Of its own, or by name, each in lines that are indented.
std::string coefficients(FuzzedDataProvider& data, int dimensions) {
  if (data.ConsumeIntegralInRange(0, 7) != 0) return one_sum(data, dimensions);
  std::string text = "sums:\n";
  std::string update = "update: u";
  const int count = data.ConsumeIntegralInRange(1, 3);
  for (int i = 0; i < count; ++i) {
    const std::string name = "s" + std::to_string(i);
    std::string sum = "    " + one_sum(data, dimensions);
    for (std::size_t end = sum.find('\n'); end + 1 < sum.size(); end = sum.find('\n', end + 1))
      sum.insert(end + 1, "    ");
    text += "  " + name + ":\n" + sum;
    update += " + " + name;
  }
  return text + update + "\n";
}

std::string make_spec(FuzzedDataProvider& data) {
  const int dimensions = data.ConsumeIntegralInRange(1, 3);
  std::string text = "stencil: t\ndimensions: " + std::to_string(dimensions) + "\n" + storage(data);
  const std::string sums = coefficients(data, dimensions);
  if (data.ConsumeBool() && sums.starts_with("shape")) text += "scale: " + weight(data) + "\n";
  return text + steps(data) + boundary(data, dimensions) + sums;
}

std::optional<plan::Engine> engine(FuzzedDataProvider& data) {
  constexpr std::optional<plan::Engine> engines[] = {std::nullopt, std::nullopt, plan::Engine::sparse,
                                                     plan::Engine::dense, plan::Engine::cuda};
  return data.PickValueInArray(engines);
}

}  // namespace
}  // namespace spidergen::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  using namespace spidergen;
  FuzzedDataProvider data(bytes, size);
  const std::optional<plan::Engine> engine = fuzz::engine(data);
  const std::string text = fuzz::make_spec(data);
  try {
    const cli::GenerateResult result = cli::generate({"-", text}, {}, {.engine = engine}, {"sm_80", "sm_90"});
    fuzz::expect(result.files.size() == (result.diagnostics.has_errors() ? 0 : 2), "errors or two files");
  } catch (const std::exception& error) {
    fuzz::expect(false, std::string(error.what()) + ", with this spec:\n" + text);
  }
  return 0;
}
