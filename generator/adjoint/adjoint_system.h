#pragma once

#include <string>
#include <vector>

#include "spec/stencil_spec.h"
#include "spec/system_spec.h"
#include "spec/update.h"

namespace spidergen::adjoint {

/// `adjoint(taps of the field that is assigned, value)`.
struct Transposed {
  std::vector<spec::Tap> taps;  ///< ascending
  int node = 0;                 ///< the value's place in AdjointSystem::nodes
  /// The same as the sum of the value at the taps' opposites, whatever faces these cross.
  bool is_plain = false;
};

/// What a field becomes: a value at the point, and transposed reads.
struct AdjointAssignment {
  int field = 0;  ///< its place in AdjointSystem::fields
  int node = -1;  ///< its place in AdjointSystem::nodes; -1: nothing but transposed reads
  std::vector<Transposed> transposed;
};

struct AdjointStage {
  std::string comment;  ///< of which stage of the spec
  std::vector<AdjointAssignment> assignments;
};

/// The adjoint of a sweep, as a system of equations. A cell of a node is one of `fields`.
struct AdjointSystem {
  std::string name;
  std::string description;
  std::vector<std::string> notes;  ///< lines for those who use it
  int dimensions = 2;
  spec::Storage storage = spec::Storage::f32;
  std::vector<spec::SystemField> fields;
  std::vector<std::string> scalars;
  std::vector<spec::UpdateNode> nodes;  ///< arguments first
  std::vector<AdjointStage> stages;
};

/// What a derivative is called.
[[nodiscard]] std::string bar_of(const std::string& field);

/// Differentiates the stages of a system that has no errors, the last one first. Where derivatives need
/// values that a stage has written, stages that write these into further fields come before. Errors are
/// reported in `diagnostics`, and the result is then of no use.
[[nodiscard]] AdjointSystem adjoint_of(const spec::SystemSpec& spec, diag::Diagnostics& diagnostics);

}  // namespace spidergen::adjoint
