#pragma once

#include <optional>
#include <vector>

#include "plan/sweep_update.h"
#include "spec/system_spec.h"

namespace spidergen::plan {

/// A row of cells that each point of a sweep reads: of a field at (dz, dy), dx from `low` to `high`.
struct ReadRow {
  int field = 0, dz = 0, dy = 0, low = 0, high = 0;

  bool operator==(const ReadRow&) const = default;
};

/// What a field becomes in a sweep.
struct SystemResult {
  int field = 0;
  int node = 0;  ///< its place in SystemSweep::nodes
  /// Written to the buffer that the sweep does not read: it reads the field at other points, too.
  bool into_other = false;
};

/// A number that a sweep makes of its points.
struct SystemReduction {
  int which = 0;  ///< its place in SystemSpec::reductions
  int node = 0;   ///< its place in SystemSweep::nodes
};

/// A kernel of a system: one stage, or several that are fused.
struct SystemSweep {
  int first_stage = 0;
  int stages = 1;
  std::vector<spec::UpdateNode> nodes;  ///< that the results need; arguments first
  std::vector<SystemResult> results;    ///< ascending in field
  std::vector<SystemReduction> reductions;
  std::vector<ReadRow> rows;          ///< ascending in (field, dz, dy)
  int columns = 4;                    ///< neighbouring points of a lane of a device
  int lines = 1;                      ///< neighbouring rows of them
  int blocks_per_multiprocessor = 1;  ///< that registers shall leave room for
  int bytes_per_point = 0;            ///< each field that it reads, once, and each that it writes
  double time_in_bytes = 0;           ///< time_in_bytes() of this sweep
  std::optional<SweepUpdate> update;  ///< what computes it in the place of the kernel of systems
};

/// How a system's stages become kernels.
struct SystemPlan {
  bool in_doubles = false;          ///< numbers are f64, for any field is; else f32
  std::vector<SystemSweep> sweeps;  ///< one after the other
  std::vector<int> uses;            ///< by field: SPIDER_FIELD_READ and so on, added up
  int bytes_apart = 0;              ///< per point, if each stage were a sweep
};

/// Values of spider_kernel_info.field_uses (runtime/include/spider/spider.h).
inline constexpr int field_read = 1;
inline constexpr int field_written = 2;
inline constexpr int field_two_buffers = 4;
inline constexpr int field_result_in_output = 8;

/// Plans a system that has no errors.
[[nodiscard]] SystemPlan plan_system(const spec::SystemSpec& spec);

/// The estimated time of a step, as the bytes a point that a copy moves in it on an H200.
[[nodiscard]] double time_in_bytes(const SystemPlan& plan);

}  // namespace spidergen::plan
