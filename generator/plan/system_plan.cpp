#include "plan/system_plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>

#include "plan/fuse_stages.h"

namespace spidergen::plan {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

std::vector<ReadRow> rows_of(const std::vector<UpdateNode>& nodes) {
  std::map<std::array<int, 3>, std::array<int, 2>> columns;  // by field, dz, dy
  for (const UpdateNode& node : nodes) {
    if (node.operation != UpdateOperation::cell) continue;
    const int dx = node.at[spec::axis_x];
    const auto [row, is_new] =
        columns.try_emplace({node.which, node.at[spec::axis_z], node.at[spec::axis_y]}, std::array{dx, dx});
    row->second = {std::min(row->second[0], dx), std::max(row->second[1], dx)};
  }
  std::vector<ReadRow> rows;
  rows.reserve(columns.size());
  for (const auto& [at, dx] : columns) rows.push_back({at[0], at[1], at[2], dx[0], dx[1]});
  return rows;
}

bool reads_around(const std::vector<ReadRow>& rows, int field) {
  return std::any_of(rows.begin(), rows.end(), [field](const ReadRow& row) {
    return row.field == field && (row.dz != 0 || row.dy != 0 || row.low != 0 || row.high != 0);
  });
}

/// Which fields are read near faces at other points than those of their rows.
std::vector<bool> reads_folded(const spec::SystemSpec& spec, const std::vector<UpdateNode>& nodes) {
  std::vector<bool> within(nodes.size());
  std::vector<bool> fields(spec.fields.size());
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (within[i] && nodes[i].operation == UpdateOperation::cell)
      fields[static_cast<std::size_t>(nodes[i].which)] = true;
    if (!within[i] && nodes[i].operation != UpdateOperation::folded) continue;
    for (const int argument : nodes[i].arguments) within[static_cast<std::size_t>(argument)] = true;
  }
  return fields;
}

bool reads(const std::vector<ReadRow>& rows, int field) {
  return std::any_of(rows.begin(), rows.end(), [field](const ReadRow& row) { return row.field == field; });
}

/// Cells of a row in whole vectors of `columns`, as a lane has them in registers
/// (runtime/device/spider/sums/system_rows.h).
int cells_in_registers(const spec::SystemSpec& spec, const ReadRow& row, int columns) {
  if (!spec.fields[static_cast<std::size_t>(row.field)].axes[spec::axis_x]) return 1;
  const auto vector_of = [columns](int column) { return column / columns - (column % columns < 0 ? 1 : 0); };
  return (vector_of(columns - 1 + row.high) - vector_of(row.low) + 1) * columns;
}

/// Registers for all that a lane reads and computes. A row that several lines read is counted once.
int registers_of(const spec::SystemSpec& spec, bool in_doubles, const SystemSweep& sweep, int lines) {
  std::map<std::array<int, 3>, ReadRow> rows;
  for (int line = 0; line < lines; ++line) {
    for (ReadRow row : sweep.rows) {
      if (spec.fields[static_cast<std::size_t>(row.field)].axes[spec::axis_y]) row.dy += line;
      ReadRow& read = rows.try_emplace({row.field, row.dz, row.dy}, row).first->second;
      read.low = std::min(read.low, row.low);
      read.high = std::max(read.high, row.high);
    }
  }
  int cells = lines * sweep.columns * static_cast<int>(sweep.results.size());
  for (const auto& [at, row] : rows) cells += cells_in_registers(spec, row, sweep.columns);
  return cells * (in_doubles ? 2 : 1);
}

/// Columns of a lane: 16 bytes of numbers, unless its rows take more registers than there are; in 2D lines,
/// as many as leave registers for two blocks. And blocks that their registers leave room for, as measured on
/// H100s and H200s: more blocks pay only where few rows are read.
void choose_launch(const spec::SystemSpec& spec, bool in_doubles, SystemSweep& sweep) {
  constexpr int most_row_registers = 256;
  constexpr int most_of_three_blocks = 56;
  constexpr int most_of_lines = 160;
  constexpr int most_of_lines_and_three_blocks = 74;
  int registers = 0;
  for (int columns = in_doubles ? 2 : 4; columns >= 1; columns /= 2) {
    sweep.columns = columns;
    registers = registers_of(spec, in_doubles, sweep, 1);
    if (registers <= most_row_registers) break;
  }
  const bool reduces = !sweep.reductions.empty();  // without it the compiler would take registers for 3
  sweep.blocks_per_multiprocessor = registers <= most_of_three_blocks ? (reduces ? 4 : 3)
                                    : registers <= most_row_registers ? 2
                                                                      : 1;
  if (spec.dimensions != 2) return;
  for (const int lines : {4, 2}) {
    registers = registers_of(spec, in_doubles, sweep, lines);
    if (registers > most_of_lines) continue;
    sweep.lines = lines;
    sweep.blocks_per_multiprocessor = registers <= most_of_lines_and_three_blocks ? 3 : 2;
    break;
  }
}

int bytes_per_point(const spec::SystemSpec& spec, const std::vector<ReadRow>& rows,
                    const std::vector<SystemResult>& results) {
  int bytes = 0;
  for (std::size_t i = 0; i < spec.fields.size(); ++i) {
    const spec::SystemField& field = spec.fields[i];
    const bool is_whole = field.axes[spec::axis_x] && (spec.dimensions < 2 || field.axes[spec::axis_y]) &&
                          (spec.dimensions < 3 || field.axes[spec::axis_z]);
    if (!is_whole) continue;
    if (reads(rows, static_cast<int>(i))) bytes += spec::element_bytes(field.storage);
  }
  for (const SystemResult& result : results)
    bytes += spec::element_bytes(spec.fields[static_cast<std::size_t>(result.field)].storage);
  return bytes;
}

/// `reductions` are nodes: what the sweep makes numbers of beside its fields.
SystemSweep sweep_of(const spec::SystemSpec& spec, const spec::ExpressionNodes& nodes,
                     const StageGroup& group, const std::vector<SystemReduction>& reductions = {}) {
  SystemSweep sweep;
  sweep.first_stage = group.first_stage;
  sweep.stages = group.stages;
  std::vector<int> roots;
  for (const auto& [field, node] : group.values) roots.push_back(node);
  for (const SystemReduction& reduction : reductions) roots.push_back(reduction.node);
  sweep.nodes = nodes.extract(roots);
  sweep.rows = rows_of(sweep.nodes);
  const std::vector<bool> folded = reads_folded(spec, sweep.nodes);
  std::size_t i = 0;
  for (const auto& [field, node] : group.values) {
    const bool around = reads_around(sweep.rows, field) || folded[static_cast<std::size_t>(field)];
    sweep.results.push_back({field, roots[i++], around});
  }
  for (const SystemReduction& reduction : reductions)
    sweep.reductions.push_back({reduction.which, roots[i++]});
  sweep.bytes_per_point = bytes_per_point(spec, sweep.rows, sweep.results);
  return sweep;
}

/// Finds the update that computes the sweep, if any, and estimates its time. The kernel of systems takes 1.25
/// copies of the bytes, or longer where it reads many rows: on an H200 at 384^3 f32 19 rows took 367 us, 53
/// rows 1077 us (a copy of a field: 110 us), where kernels of updates take 1.1 copies.
void choose_kernel(const spec::SystemSpec& spec, bool in_doubles, SystemSweep& sweep) {
  constexpr double of_update = 1.1;
  constexpr double of_system = 1.25;
  constexpr double numbers_of_row = 0.36;  // read or written in the time that a row takes
  sweep.update = find_update(spec, sweep);
  const double row_bytes = numbers_of_row * (in_doubles ? 8 : 4) * static_cast<double>(sweep.rows.size());
  sweep.time_in_bytes = sweep.update ? of_update * sweep.bytes_per_point
                                     : std::max(of_system * sweep.bytes_per_point, row_bytes);
}

/// Is the fused sweep worth it? It reads less, and computes little again.
bool pays(const SystemSweep& fused, const SystemSweep& first, const SystemSweep& second) {
  constexpr double most_time = 0.92;       // of the time of both sweeps apart
  constexpr double most_operations = 2.3;  // of theirs: 2 pay on an H100, 3.6 do not
  constexpr std::size_t most_rows = 48;
  const auto apart = static_cast<double>(first.nodes.size() + second.nodes.size());
  return fused.time_in_bytes <= most_time * (first.time_in_bytes + second.time_in_bytes) &&
         fused.rows.size() <= most_rows && static_cast<double>(fused.nodes.size()) <= most_operations * apart;
}

/// Adds to each sweep the reductions that take its stages' results.
void add_reductions(const spec::SystemSpec& spec, bool in_doubles, StageFuser& fuser,
                    const std::vector<StageGroup>& groups, std::vector<SystemSweep>& sweeps) {
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const StageGroup& group = groups[i];
    std::vector<SystemReduction> own;
    for (std::size_t k = 0; k < spec.reductions.size(); ++k) {
      const int stage = spec.reductions[k].stage - group.first_stage;
      if (stage >= 0 && stage < group.stages)
        own.push_back({static_cast<int>(k), fuser.reduce(group, spec.reductions[k])});
    }
    if (own.empty()) continue;
    sweeps[i] = sweep_of(spec, fuser.nodes(), group, own);
    choose_kernel(spec, in_doubles, sweeps[i]);
  }
}

std::vector<int> find_uses(const spec::SystemSpec& spec, const std::vector<SystemSweep>& sweeps) {
  std::vector<int> uses(spec.fields.size());
  for (const SystemSweep& sweep : sweeps) {
    for (const ReadRow& row : sweep.rows) uses[static_cast<std::size_t>(row.field)] |= field_read;
    for (const SystemResult& result : sweep.results) {
      int& use = uses[static_cast<std::size_t>(result.field)];
      use |= field_written;
      if (result.into_other) use = (use | field_two_buffers) ^ field_result_in_output;
    }
  }
  return uses;
}

}  // namespace

SystemPlan plan_system(const spec::SystemSpec& spec) {
  SystemPlan plan;
  plan.in_doubles = std::any_of(spec.fields.begin(), spec.fields.end(), [](const spec::SystemField& field) {
    return field.storage == spec::Storage::f64;
  });
  StageFuser fuser(spec, plan.in_doubles);
  std::vector<StageGroup> groups;
  for (int stage = 0; stage < static_cast<int>(spec.stages.size()); ++stage) {
    const StageGroup alone = fuser.alone(stage);
    SystemSweep own = sweep_of(spec, fuser.nodes(), alone);
    choose_kernel(spec, plan.in_doubles, own);
    plan.bytes_apart += own.bytes_per_point;
    if (!groups.empty()) {
      if (const std::optional<StageGroup> together = fuser.fuse(groups.back(), stage)) {
        SystemSweep fused = sweep_of(spec, fuser.nodes(), *together);
        choose_kernel(spec, plan.in_doubles, fused);
        if (pays(fused, plan.sweeps.back(), own)) {
          groups.back() = *together;
          plan.sweeps.back() = std::move(fused);
          continue;
        }
      }
    }
    groups.push_back(alone);
    plan.sweeps.push_back(std::move(own));
  }
  add_reductions(spec, plan.in_doubles, fuser, groups, plan.sweeps);
  for (SystemSweep& sweep : plan.sweeps) choose_launch(spec, plan.in_doubles, sweep);
  plan.uses = find_uses(spec, plan.sweeps);
  return plan;
}

double time_in_bytes(const SystemPlan& plan) {
  double time = 0;
  for (const SystemSweep& sweep : plan.sweeps) time += sweep.time_in_bytes;
  return time;
}

}  // namespace spidergen::plan
