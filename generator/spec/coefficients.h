#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spec/fields.h"
#include "spec/stencil_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// Coefficients as taps, not yet scaled. `radius` is per axis; Shape::taps has none, and leaves it empty.
struct Coefficients {
  std::vector<Tap> taps;
  std::optional<std::array<int, 3>> radius;
  std::vector<AxisList> lists = {};  ///< as in StencilSpec
};

/// Most taps that are listed. A product with more stays a product of lists; other shapes are refused.
constexpr std::size_t most_taps = 50'000;

/// Why a product with more taps cannot be combined with something.
[[nodiscard]] std::string too_many_taps(const StencilSpec& product, std::string_view with);

/// The farthest offset and the largest radius.
constexpr int farthest_offset = 1'000'000;

/// The keys of a shape, in a spec or in one of its sums.
struct ShapeKeys {
  const Node& mapping;
  diag::SourceLocation start;  ///< where messages about missing keys point
  int dimensions = 2;

  /// The value of a key, or null.
  [[nodiscard]] const Node* find(std::string_view key) const;
  /// The same for a required key; `example` shows how to add it.
  [[nodiscard]] const Node* require(std::string_view key, std::string_view example, Context& context) const;
};

/// Reads `coefficients`, or the keys that replace it, as the shape requires. Zero weights stay; offsets do
/// not repeat.
[[nodiscard]] std::optional<Coefficients> read_coefficients(const ShapeKeys& keys, Shape shape,
                                                            Context& context);

/// Reads a `radius`, the same for all axes or one for each.
[[nodiscard]] std::optional<std::array<int, 3>> read_radius(const Node& node, int dimensions,
                                                            Context& context);

/// Reports a malformed `radius`, and one that contradicts `actual`; `actual` is null where it is unknown.
void check_radius(const Node& node, int dimensions, const std::array<int, 3>* actual, Context& context);

/// Changes to the weights of every shape.
struct Finish {
  double scale = 1;   ///< multiplies all weights
  double center = 0;  ///< added to the middle weight after scaling
};

/// The finished taps: scaled, `center` added, checked against the storage type, without zeros, sorted by
/// offset. Errors are located at `coefficients` where all weights are 0 or where `center` alone makes the
/// middle.
[[nodiscard]] std::vector<Tap> finish_taps(std::vector<Tap> taps, const Finish& finish, Storage storage,
                                           const diag::SourceLocation& coefficients, Context& context);

}  // namespace spidergen::spec
