#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/coefficients.h"
#include "spec/fields.h"
#include "spec/stencil_spec.h"
#include "spec/yaml_tree.h"

namespace spidergen::spec {

/// The keys that say what is summed: `shape`, and all that goes with one.
[[nodiscard]] const std::vector<std::string>& operator_keys();

/// What is summed at a point.
struct Operator {
  std::vector<Sum> sums;        ///< at least one
  std::vector<Tap> taps;        ///< finished, ascending in (offset, sum); of a sum with errors none
  std::vector<AxisList> lists;  ///< as StencilSpec has them
  diag::SourceLocation where;   ///< of `coefficients`, or of `shape` where that makes them, or of `sums`
};

/// Does a shape have an order of accuracy in the place of the `accuracy` of f32 fields?
[[nodiscard]] bool has_order_of_accuracy(Shape shape);

/// The value of `shape`; nothing where it is missing or wrong, which is not reported here.
[[nodiscard]] std::optional<Shape> find_shape(const Node& mapping);

/// Reads the operator of a spec: one sum, that the document's own keys of operator_keys() say, or those of
/// `sums`, each of which has such keys. `start` is where messages about absent keys point. Where the spec's
/// dimensions are in error, what can be judged without them is.
[[nodiscard]] Operator read_operator(const Node& root, const diag::SourceLocation& start,
                                     std::optional<int> dimensions, Storage storage, Context& context);

/// Reads one sum by name: the mapping `entry` with keys of operator_keys(). `kind` is its word in messages,
/// such as "sum". Without taps where it is in error.
[[nodiscard]] Operator read_named_operator(const Entry& entry, std::string_view kind,
                                           std::optional<int> dimensions, Storage storage, Context& context);

}  // namespace spidergen::spec
