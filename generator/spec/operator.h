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

/// The keys that describe a sum: `shape`, and the keys of each shape.
[[nodiscard]] const std::vector<std::string>& operator_keys();

/// The sums at a point.
struct Operator {
  std::vector<Sum> sums;        ///< at least one
  std::vector<Tap> taps;        ///< finished, ascending in (offset, sum); a sum with errors has none
  std::vector<AxisList> lists;  ///< as in StencilSpec
  diag::SourceLocation where;   ///< of `coefficients`, of `shape` where it makes the taps, or of `sums`
};

/// Does `accuracy` mean the order of accuracy for this shape, not the `accuracy` of f32 fields?
[[nodiscard]] bool has_order_of_accuracy(Shape shape);

/// The value of `shape`; nothing where it is missing or wrong, without a report.
[[nodiscard]] std::optional<Shape> find_shape(const Node& mapping);

/// Reads the operator of a spec: one sum from the document's own operator_keys(), or the entries of `sums`,
/// each with such keys. Messages about missing keys point to `start`. Where the spec's dimensions are in
/// error, only the keys that do not depend on them are checked.
[[nodiscard]] Operator read_operator(const Node& root, const diag::SourceLocation& start,
                                     std::optional<int> dimensions, Storage storage, Context& context);

/// Reads one named sum: the mapping `entry` with operator_keys(). `kind` is the word for it in messages, such
/// as "sum". No taps where it is in error.
[[nodiscard]] Operator read_named_operator(const Entry& entry, std::string_view kind,
                                           std::optional<int> dimensions, Storage storage, Context& context);

}  // namespace spidergen::spec
