#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <vector>

#include "spec/fields.h"
#include "spec/stencil_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// Coefficients as taps, not yet scaled. `radius` is per axis; it is empty for Shape::taps, which has none.
struct Coefficients {
  std::vector<Tap> taps;
  std::optional<std::array<int, 3>> radius;
};

/// More taps than this are refused before they are made: lists are long, and products of lists grow fast.
constexpr std::size_t most_taps = 50'000;

/// No offset and no radius goes further.
constexpr int farthest_offset = 1'000'000;

/// Reads `coefficients` as the shape wants them. Zero weights are kept; offsets do not repeat.
[[nodiscard]] std::optional<Coefficients> read_coefficients(const Node& node, Shape shape, int dimensions,
                                                            Context& context);

/// Reports a `radius` that is malformed or does not agree with `actual`; `actual` is null where it is not
/// known.
void check_radius(const Node& node, int dimensions, const std::array<int, 3>* actual, Context& context);

/// The taps as the spec means them: scaled, checked against the storage type, without zeros, sorted by
/// offset. `coefficients` is where a stencil of zeros is reported.
[[nodiscard]] std::vector<Tap> finish_taps(std::vector<Tap> taps, double scale, Storage storage,
                                           const diag::SourceLocation& coefficients, Context& context);

}  // namespace spidergen::spec
