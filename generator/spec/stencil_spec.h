#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/offset.h"
#include "spec/update.h"

namespace spidergen::spec {

/// The type of a value in memory.
enum class Storage { f16, f32, bf16, f64, u8, u16, i16 };

/// Bytes of a value in memory.
[[nodiscard]] constexpr int element_bytes(Storage storage) {
  if (storage == Storage::f64) return 8;
  if (storage == Storage::u8) return 1;
  return storage == Storage::f32 ? 4 : 2;
}

/// Is the storage an integer type, to which results are rounded and saturated?
[[nodiscard]] constexpr bool is_integer(Storage storage) {
  return storage == Storage::u8 || storage == Storage::u16 || storage == Storage::i16;
}

/// The largest finite value of a storage type, and the smallest one.
[[nodiscard]] double largest_value(Storage storage);
[[nodiscard]] double least_value(Storage storage);

/// Does the storage have 16 bits, as tensor cores read it?
[[nodiscard]] constexpr bool is_half(Storage storage) {
  return storage == Storage::f16 || storage == Storage::bf16;
}

/// The type in which products are summed.
enum class Accumulate { f32, f16, f64 };
/// How weights become tensor-core operands: one term of the storage's type, two, or as many as represent the
/// spec's weights exactly.
enum class WeightMode { automatic, f16, f16x2, bf16, bf16x2 };
/// How f32 fields become operands: in full, with the 11 digits of tf32, or as f16.
enum class Accuracy { full, tf32, f16 };
/// The source of a spec's taps: its coefficients, or for the last four the shape's own keys.
enum class Shape { star, box, product, taps, derivative, laplacian, gaussian, formula };
/// SciPy's meanings (scipy.ndimage.correlate: constant, wrap, nearest, reflect, mirror); `halo` reads the
/// caller's cells. `antisymmetric` is 0 in the first ghost cell, and then takes the field's negatives.
/// `antireflect` and `antimirror` negate the ghost cells of `reflect` and `mirror`; systems alone have them.
enum class BoundaryRule {
  halo,
  constant,
  periodic,
  nearest,
  reflect,
  mirror,
  antisymmetric,
  antireflect,
  antimirror
};

/// The axes, slowest first, as indices of every three-element array here; x is contiguous.
enum Axis : int { axis_z = 0, axis_y = 1, axis_x = 2 };

inline constexpr std::array<std::string_view, 3> axis_letters{"z", "y", "x"};

/// The names of an enumeration's values in a spec, in their order.
inline constexpr std::array<std::string_view, 7> storage_names{"f16", "f32", "bf16", "f64",
                                                               "u8",  "u16", "i16"};
inline constexpr std::array<std::string_view, 3> accumulate_names{"f32", "f16", "f64"};
inline constexpr std::array<std::string_view, 5> weight_mode_names{"auto", "f16", "f16x2", "bf16", "bf16x2"};
inline constexpr std::array<std::string_view, 3> accuracy_names{"full", "tf32", "f16"};
inline constexpr std::array<std::string_view, 8> shape_names{
    "star", "box", "product", "taps", "derivative", "laplacian", "gaussian", "formula"};
inline constexpr std::array<std::string_view, 9> rule_names{"halo",          "constant",    "periodic",
                                                            "nearest",       "reflect",     "mirror",
                                                            "antisymmetric", "antireflect", "antimirror"};

[[nodiscard]] constexpr std::string_view storage_name(Storage storage) {
  return storage_names[static_cast<std::size_t>(storage)];
}
[[nodiscard]] constexpr std::string_view weight_mode_name(WeightMode mode) {
  return weight_mode_names[static_cast<std::size_t>(mode)];
}
[[nodiscard]] constexpr std::string_view accuracy_name(Accuracy accuracy) {
  return accuracy_names[static_cast<std::size_t>(accuracy)];
}
[[nodiscard]] constexpr std::string_view shape_name(Shape shape) {
  return shape_names[static_cast<std::size_t>(shape)];
}
[[nodiscard]] constexpr std::string_view rule_name(BoundaryRule rule) {
  return rule_names[static_cast<std::size_t>(rule)];
}

/// Adds weight * in[p + at] to the sum at p.
struct Tap {
  Offset at{};
  double weight = 0;
  diag::SourceLocation where;  ///< of the weight, for messages
  int sum = 0;                 ///< index of its sum in StencilSpec::sums

  bool operator==(const Tap&) const = default;
};

/// A weighted sum of the input around a point.
struct Sum {
  std::string name{only_sum};
  Shape shape = Shape::taps;

  bool operator==(const Sum&) const = default;
};

struct Face {
  BoundaryRule rule = BoundaryRule::halo;
  double value = 0;            ///< of BoundaryRule::constant
  diag::SourceLocation where;  ///< of the rule; a default is located at the spec's first line
};

struct AxisBoundary {
  Face low;
  Face high;
};

/// A name of `parameters`, evaluated.
struct Parameter {
  std::string name;
  std::string expression;  ///< as written, or from the command line
  double value = 0;
  bool overridden = false;  ///< by -D name=value
};

/// The places of keys, for messages of later rooms. An absent key has the place where the document begins.
struct KeyLocations {
  diag::SourceLocation dimensions;
  diag::SourceLocation storage;
  diag::SourceLocation accumulate;
  diag::SourceLocation weights;
  diag::SourceLocation accuracy;
  diag::SourceLocation coefficients;  ///< or `shape`, where it makes them, or `sums`
  diag::SourceLocation steps;
  diag::SourceLocation update;
  diag::SourceLocation output;
};

/// A field in addition to input and output, read at the point itself.
struct FurtherField {
  std::string name;
  Storage storage = Storage::f16;

  bool operator==(const FurtherField&) const = default;
};

/// The weights along one axis of a product of lists, from offset `low` on.
struct AxisList {
  int axis = axis_x;
  int low = 0;
  std::vector<double> weights;

  bool operator==(const AxisList&) const = default;
};

/// A stencil as its user means it: everything is evaluated and checked, and nothing decided about kernels.
struct StencilSpec {
  std::string name;         ///< identifier; the file's stem, or from the command line
  bool renamed = false;     ///< by the command line
  std::string description;  ///< one line or empty
  std::string source_name;  ///< file name without folders, "-" for standard input
  std::string source_hash;  ///< 16 hex digits over the text with line ends normalised
  int dimensions = 2;
  /// The document's axis letters in memory order, slowest first, where that differs from its own
  /// (spec/store_axes.h); else empty.
  std::string stored_axes;
  Storage storage = Storage::f16;
  std::optional<Storage> output;  ///< of results, where it differs
  Accumulate accumulate = Accumulate::f32;
  WeightMode weights = WeightMode::automatic;
  Accuracy accuracy = Accuracy::full;    ///< for f32 storage
  std::vector<Sum> sums{1};              ///< at least one, in the spec's order
  std::vector<Parameter> parameters;     ///< in the spec's order
  std::array<AxisBoundary, 3> boundary;  ///< by Axis
  std::vector<Tap> taps;                 ///< sorted by offset and sum; no zeros, no duplicates in a sum
  /// The lists of a product with too many taps to list, x first, without axes along which no tap reaches;
  /// `taps` then has only the lines through the largest weight. Else empty.
  std::vector<AxisList> lists;
  std::optional<int> steps = 1;          ///< time steps of a sweep; none: as many as make a step fastest
  std::optional<double> tolerance;       ///< of composed weights; none: follows from the storage
  std::optional<FurtherField> previous;  ///< the input one time step back
  std::vector<FurtherField> fields;      ///< in the spec's order
  std::vector<std::string> scalars;      ///< numbers of a launch, in the spec's order
  std::optional<Update> update;          ///< of each point; none: the result is the only sum
  KeyLocations where;
};

/// Does the spec have integer cells or results of another storage? Few schemes support them.
[[nodiscard]] inline bool converts_cells(const StencilSpec& spec) {
  return is_integer(spec.storage) || spec.output;
}
/// The storage of results.
[[nodiscard]] inline Storage output_of(const StencilSpec& spec) {
  return spec.output.value_or(spec.storage);
}

/// Taps of all sums, including a product that stays a product of lists; and rows of taps along x.
[[nodiscard]] std::int64_t count_taps(const StencilSpec& spec);
[[nodiscard]] std::int64_t count_tap_rows(const StencilSpec& spec);

/// Does any face have this rule?
[[nodiscard]] inline bool has_rule(const StencilSpec& spec, BoundaryRule rule) {
  return std::any_of(spec.boundary.begin(), spec.boundary.end(), [rule](const AxisBoundary& axis) {
    return axis.low.rule == rule || axis.high.rule == rule;
  });
}

}  // namespace spidergen::spec
