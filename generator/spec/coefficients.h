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

/// Coefficients as taps, not yet scaled. `radius` is per axis; it is empty for Shape::taps, which has none.
struct Coefficients {
  std::vector<Tap> taps;
  std::optional<std::array<int, 3>> radius;
  std::vector<AxisList> lists = {};  ///< as StencilSpec has them
};

/// More taps than this are not made: of a product the lists are left, others are refused.
constexpr std::size_t most_taps = 50'000;

/// Why a product of more taps does not go with something.
[[nodiscard]] std::string too_many_taps(const StencilSpec& product, std::string_view with);

/// No offset and no radius goes further.
constexpr int farthest_offset = 1'000'000;

/// The keys of a shape, in a spec or in one of its sums.
struct ShapeKeys {
  const Node& mapping;
  diag::SourceLocation start;  ///< where messages about absent keys point
  int dimensions = 2;

  /// The value of a key, or null.
  [[nodiscard]] const Node* find(std::string_view key) const;
  /// The same where it has to be there; `example` shows how to add it.
  [[nodiscard]] const Node* require(std::string_view key, std::string_view example, Context& context) const;
};

/// Reads `coefficients`, or the keys in their place, as the shape wants them. Zero weights are kept; offsets
/// do not repeat.
[[nodiscard]] std::optional<Coefficients> read_coefficients(const ShapeKeys& keys, Shape shape,
                                                            Context& context);

/// Reads a `radius`, the same for all axes or one for each.
[[nodiscard]] std::optional<std::array<int, 3>> read_radius(const Node& node, int dimensions,
                                                            Context& context);

/// Reports a `radius` that is malformed or does not agree with `actual`; `actual` is null where it is not
/// known.
void check_radius(const Node& node, int dimensions, const std::array<int, 3>* actual, Context& context);

/// What is done to the weights of every shape.
struct Finish {
  double scale = 1;   ///< a factor of all
  double center = 0;  ///< added to the middle one, scaled before
};

/// The taps as the spec means them: scaled, the middle one added to, checked against the storage type,
/// without zeros, sorted by offset. `coefficients` is where a stencil of zeros is reported, and a middle that
/// `center` alone makes.
[[nodiscard]] std::vector<Tap> finish_taps(std::vector<Tap> taps, const Finish& finish, Storage storage,
                                           const diag::SourceLocation& coefficients, Context& context);

}  // namespace spidergen::spec
