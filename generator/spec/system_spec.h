#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "diag/diagnostic.h"
#include "spec/stencil_spec.h"
#include "spec/update.h"

namespace spidergen::spec {

// The room in a launch (runtime/device/spider/kernel.h).
inline constexpr int most_system_fields = 32;
inline constexpr int most_stages = 8;
inline constexpr int most_reductions = 8;
/// Most nodes of all expressions together, after operators have become sums of cells.
inline constexpr int most_system_nodes = 20'000;

/// A field of a system.
struct SystemField {
  std::string name;
  Storage storage = Storage::f32;
  /// By Axis: does the field have cells along it? If not, it is constant along the axis; always false along
  /// axes that the stencil lacks.
  std::array<bool, 3> axes{};
  std::array<AxisBoundary, 3> boundary;  ///< by Axis; the field's own, or the document's
  diag::SourceLocation where;
};

/// The new value of a field in a stage.
struct Assignment {
  int field = 0;     ///< index in SystemSpec::fields
  int node = 0;      ///< index of its value in SystemSpec::nodes
  std::string text;  ///< as written
  diag::SourceLocation where;
};

/// Assignments that all read the values before the stage.
struct Stage {
  std::vector<Assignment> assignments;  ///< at least one; no field twice
  diag::SourceLocation where;
};

enum class ReductionKind { sum, max, min };

inline constexpr std::array<std::string_view, 3> reduction_kind_names{"sum", "max", "min"};

[[nodiscard]] constexpr std::string_view reduction_kind_name(ReductionKind kind) {
  return reduction_kind_names[static_cast<std::size_t>(kind)];
}

/// A number that a sweep computes from a value at all points. Cells have the values before the sweep, at any
/// offset; UpdateOperation::written is the value after it.
struct Reduction {
  std::string name;
  ReductionKind kind = ReductionKind::sum;
  int node = 0;
  int stage = 0;     ///< computed after this stage, counted from 0; no earlier stage assigns its cells
  std::string text;  ///< as written
};

/// A system of equations as its user means it: everything is evaluated and checked, and nothing decided about
/// kernels. Operators have become sums of cells: a node reads a field at an offset.
struct SystemSpec {
  std::string name;         ///< as StencilSpec::name
  bool renamed = false;     ///< by the command line
  std::string description;  ///< one line or empty
  std::string source_name;  ///< as StencilSpec::source_name
  std::string source_hash;  ///< as StencilSpec::source_hash
  int dimensions = 2;
  std::string stored_axes;            ///< as StencilSpec::stored_axes
  Storage storage = Storage::f32;     ///< default of the fields
  std::vector<Parameter> parameters;  ///< in the spec's order
  std::vector<std::string> scalars;   ///< numbers of a launch, in the spec's order
  std::vector<SystemField> fields;    ///< in the spec's order
  std::vector<UpdateNode> nodes;      ///< of all expressions; arguments precede their users
  std::vector<Stage> stages;          ///< one after the other
  std::vector<Reduction> reductions;  ///< in order of execution
  diag::SourceLocation where;         ///< of `stages`
};

}  // namespace spidergen::spec
