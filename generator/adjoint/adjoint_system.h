#pragma once

#include <string>
#include <vector>

#include "spec/stencil_spec.h"
#include "spec/system_spec.h"
#include "spec/update.h"

namespace spidergen::adjoint {

/// `adjoint(taps of the assigned field, value)`.
struct Transposed {
  std::vector<spec::Tap> taps;  ///< ascending
  int node = 0;                 ///< index in AdjointSystem::nodes
  /// Equal to the sum of the value at the opposite taps, whatever faces they cross.
  bool is_plain = false;
};

/// The new value of a field: a value at the point, plus transposed reads.
struct AdjointAssignment {
  int field = 0;  ///< index in AdjointSystem::fields
  int node = -1;  ///< index in AdjointSystem::nodes; -1: only transposed reads
  std::vector<Transposed> transposed;
};

struct AdjointStage {
  std::string comment;  ///< names the stage of the spec
  std::vector<AdjointAssignment> assignments;
};

/// The adjoint of a sweep, as a system of equations. A cell of a node is one of `fields`.
struct AdjointSystem {
  std::string name;
  std::string description;
  std::vector<std::string> notes;  ///< lines for the user
  int dimensions = 2;
  spec::Storage storage = spec::Storage::f32;
  std::vector<spec::SystemField> fields;
  std::vector<std::string> scalars;
  std::vector<spec::UpdateNode> nodes;  ///< arguments first
  std::vector<AdjointStage> stages;
};

/// The name of a derivative.
[[nodiscard]] std::string bar_of(const std::string& field);

/// Differentiates the stages of a system without errors, the last one first. Where derivatives need values
/// that a stage has written, preceding stages write them to further fields. Errors are reported in
/// `diagnostics`; the result is then useless.
[[nodiscard]] AdjointSystem adjoint_of(const spec::SystemSpec& spec, diag::Diagnostics& diagnostics);

}  // namespace spidergen::adjoint
