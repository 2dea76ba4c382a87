#include "plan/sweep_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "plan/make_plan.h"
#include "plan/system_plan.h"

namespace spidergen::plan {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

using Weights = std::map<spec::Offset, double>;

bool is_whole(const spec::SystemSpec& spec, int field) {
  const std::array<bool, 3>& axes = spec.fields[static_cast<std::size_t>(field)].axes;
  return std::all_of(axes.end() - spec.dimensions, axes.end(), [](bool has) { return has; });
}

/// Does an update of this field compute in the numbers of the system?
bool computes_alike(const spec::SystemSpec& spec, int input) {
  const auto is_double = [](const spec::SystemField& field) { return field.storage == spec::Storage::f64; };
  return is_double(spec.fields[static_cast<std::size_t>(input)]) ||
         std::none_of(spec.fields.begin(), spec.fields.end(), is_double);
}

/// Do kernels of stencils know the faces of the field? Systems have two rules more.
bool has_known_faces(const spec::SystemField& field) {
  const auto is_known = [](const spec::Face& face) {
    return face.rule != spec::BoundaryRule::antireflect && face.rule != spec::BoundaryRule::antimirror;
  };
  return std::all_of(field.boundary.begin(), field.boundary.end(), [&](const spec::AxisBoundary& axis) {
    return is_known(axis.low) && is_known(axis.high);
  });
}

/// The only field that the sweep reads around the point.
std::optional<int> find_input(const SystemSweep& sweep) {
  std::optional<int> input;
  for (const ReadRow& row : sweep.rows) {
    if (row.dz == 0 && row.dy == 0 && row.low == 0 && row.high == 0) continue;
    if (input && *input != row.field) return std::nullopt;
    input = row.field;
  }
  return input;
}

/// Finds weighted sums of one field's cells among expressions.
class WeightedSums {
 public:
  WeightedSums(const std::vector<UpdateNode>& nodes, int input) : nodes_(nodes), input_(input) {
    weights_.reserve(nodes.size());
    for (const UpdateNode& node : nodes) weights_.push_back(weights_of(node));
  }

  /// The weights of a node that is such a sum of more than the point's own cell.
  [[nodiscard]] const Weights* around(int node) const {
    const std::optional<Weights>& weights = weights_[static_cast<std::size_t>(node)];
    const bool reaches = weights && std::any_of(weights->begin(), weights->end(), [](const auto& tap) {
                           return tap.first != spec::Offset{} && tap.second != 0;
                         });
    return reaches ? &*weights : nullptr;
  }

 private:
  [[nodiscard]] std::optional<Weights> weights_of(const UpdateNode& node) const {
    const auto argument = [&](std::size_t i) -> const std::optional<Weights>& {
      return weights_[static_cast<std::size_t>(node.arguments[i])];
    };
    const auto number = [&](std::size_t i) -> std::optional<double> {
      const UpdateNode& of = nodes_[static_cast<std::size_t>(node.arguments[i])];
      return of.operation == UpdateOperation::number ? std::optional(of.value) : std::nullopt;
    };
    switch (node.operation) {
      case UpdateOperation::cell:
        return node.which == input_ ? std::optional(Weights{{node.at, 1.0}}) : std::nullopt;
      case UpdateOperation::negate:
        return scaled(argument(0), -1);
      case UpdateOperation::add:
        return added(argument(0), argument(1), 1);
      case UpdateOperation::subtract:
        return added(argument(0), argument(1), -1);
      case UpdateOperation::multiply:
        if (const auto factor = number(0)) return scaled(argument(1), *factor);
        if (const auto factor = number(1)) return scaled(argument(0), *factor);
        return std::nullopt;
      case UpdateOperation::divide:
        if (const auto divisor = number(1)) return scaled(argument(0), 1 / *divisor);
        return std::nullopt;
      default:
        return std::nullopt;
    }
  }

  static std::optional<Weights> scaled(std::optional<Weights> weights, double factor) {
    if (weights) {
      for (auto& [at, weight] : *weights) weight *= factor;
    }
    return weights;
  }

  static std::optional<Weights> added(std::optional<Weights> sum, const std::optional<Weights>& more,
                                      double factor) {
    if (!sum || !more) return std::nullopt;
    for (const auto& [at, weight] : *more) (*sum)[at] += factor * weight;
    return sum;
  }

  const std::vector<UpdateNode>& nodes_;
  int input_;
  std::vector<std::optional<Weights>> weights_;  ///< by node
};

/// Writes a sweep's expression with its weighted sums as leaves.
class UpdateWriter {
 public:
  UpdateWriter(const spec::SystemSpec& spec, const SystemSweep& sweep, SweepUpdate& update)
      : spec_(spec), nodes_(sweep.nodes), sums_(sweep.nodes, update.input), update_(update) {
    update_.spec.sums.clear();
    update_.spec.update.emplace();
  }

  /// False where it has nodes that updates lack.
  [[nodiscard]] bool write(int root) {
    write_node(root);
    for (const auto& [weights, sum] : known_sums_) {
      for (const auto& [at, weight] : weights) {
        if (weight != 0) update_.spec.taps.push_back({at, weight, {}, sum});
      }
    }
    std::sort(update_.spec.taps.begin(), update_.spec.taps.end(), [](const spec::Tap& a, const spec::Tap& b) {
      return std::pair(a.at, a.sum) < std::pair(b.at, b.sum);
    });
    const bool is_sum = update_.spec.update->nodes.size() == 1;
    if (is_sum) update_.spec.update.reset();
    if (is_sum) update_.spec.scalars.clear();
    if (update_.spec.sums.size() == 1) update_.spec.sums.front().name = spec::only_sum;
    return is_known_;
  }

 private:
  /// `u + sum`, or a difference: an increment has errors of its own size alone.
  [[nodiscard]] bool adds_increment(const UpdateNode& node) const {
    if (node.operation != UpdateOperation::add && node.operation != UpdateOperation::subtract) return false;
    return std::any_of(node.arguments.begin(), node.arguments.end(), [this](int argument) {
      const UpdateNode& cell = nodes_[static_cast<std::size_t>(argument)];
      return cell.operation == UpdateOperation::cell && cell.which == update_.input &&
             cell.at == spec::Offset{};
    });
  }

  int write_node(int node) {
    if (const auto known = written_.find(node); known != written_.end()) return known->second;
    UpdateNode copy = nodes_[static_cast<std::size_t>(node)];
    const Weights* const weights = sums_.around(node);
    if (weights != nullptr && !adds_increment(copy)) {
      copy = {UpdateOperation::sum, 0, sum_of(*weights), {}, {}, {}};
    } else if (copy.operation == UpdateOperation::cell) {
      copy = cell_of(copy.which);
    } else {
      const bool of_systems =
          copy.operation == UpdateOperation::written || copy.operation > UpdateOperation::call;
      if (of_systems) is_known_ = false;
      for (int& argument : copy.arguments) argument = write_node(argument);
    }
    std::vector<UpdateNode>& nodes = update_.spec.update->nodes;
    nodes.push_back(std::move(copy));
    return written_[node] = static_cast<int>(nodes.size()) - 1;
  }

  int sum_of(const Weights& weights) {
    const auto [known, is_new] = known_sums_.try_emplace(weights, static_cast<int>(known_sums_.size()));
    if (is_new) update_.spec.sums.push_back({fmt::format("sum{}", known_sums_.size()), spec::Shape::taps});
    return known->second;
  }

  UpdateNode cell_of(int field) {
    if (field == update_.input) return {UpdateOperation::input, 0, 0, {}, {}, {}};
    if (field == update_.previous) return {UpdateOperation::previous, 0, 0, {}, {}, {}};
    const auto known = std::find(update_.fields.begin(), update_.fields.end(), field);
    const auto place = static_cast<int>(known - update_.fields.begin());
    if (known == update_.fields.end()) {
      const spec::SystemField& own = spec_.fields[static_cast<std::size_t>(field)];
      update_.fields.push_back(field);
      update_.spec.fields.push_back({own.name, own.storage});
    }
    return {UpdateOperation::field, 0, place, {}, {}, {}};
  }

  const spec::SystemSpec& spec_;
  const std::vector<UpdateNode>& nodes_;
  WeightedSums sums_;
  SweepUpdate& update_;
  std::map<int, int> written_;         ///< by node of the sweep, that of the update
  std::map<Weights, int> known_sums_;  ///< with the place of each
  bool is_known_ = true;
};

/// The keys of the stencil that follow from the fields; `written` is the field that the sweep writes.
spec::StencilSpec stencil_of(const spec::SystemSpec& spec, const SweepUpdate& update, int written) {
  const spec::SystemField& input = spec.fields[static_cast<std::size_t>(update.input)];
  const spec::SystemField& output = spec.fields[static_cast<std::size_t>(written)];
  spec::StencilSpec stencil;
  stencil.name = spec.name;
  stencil.source_name = spec.source_name;
  stencil.source_hash = spec.source_hash;
  stencil.dimensions = spec.dimensions;
  stencil.storage = input.storage;
  if (input.storage == spec::Storage::f64) stencil.accumulate = spec::Accumulate::f64;
  stencil.boundary = input.boundary;
  if (update.previous) stencil.previous = spec::FurtherField{output.name, output.storage};
  stencil.scalars = spec.scalars;
  return stencil;
}

/// The plan of a sweep whose sums are as accurate as the numbers that systems compute in. A scheme that is a
/// last resort is none: the kernel of systems has such taps in its code.
std::optional<KernelPlan> plan_accurately(const spec::StencilSpec& spec) {
  const double most = spec.storage == spec::Storage::f64 ? 0x1p-44 : 0x1p-16;
  for (const Request& request : {Request{}, Request{Engine::cuda}}) {
    PlanResult planned = make_plan(spec, request);
    if (planned.diagnostics.has_errors()) continue;
    const ErrorBound& bound = planned.plan.error_bound;
    const bool is_measured = planned.plan.candidates.front().measured;
    if (planned.plan.passes.empty() && is_measured && bound.neighbourhood == 0 && bound.sum <= most)
      return std::move(planned.plan);
  }
  return std::nullopt;
}

}  // namespace

std::optional<SweepUpdate> find_update(const spec::SystemSpec& spec, const SystemSweep& sweep) {
  constexpr std::size_t most_nodes = 4000;
  constexpr std::size_t most_sums = 4;
  constexpr std::size_t most_fields = 8;  // as a kernel of an update takes
  if (sweep.results.size() != 1 || !sweep.reductions.empty() || sweep.nodes.size() > most_nodes)
    return std::nullopt;
  const std::optional<int> input = find_input(sweep);
  const int written = sweep.results.front().field;
  if (!input || !is_whole(spec, written) || !computes_alike(spec, *input)) return std::nullopt;
  const spec::SystemField& read = spec.fields[static_cast<std::size_t>(*input)];
  const bool converts = read.storage != spec.fields[static_cast<std::size_t>(written)].storage;
  if (converts || !has_known_faces(read)) return std::nullopt;  // stencils that convert have no updates
  bool reads_written = false;
  for (const ReadRow& row : sweep.rows) {
    if (!is_whole(spec, row.field)) return std::nullopt;
    reads_written = reads_written || row.field == written;
  }
  SweepUpdate update;
  update.input = *input;
  if (reads_written && written != *input) update.previous = written;
  update.spec = stencil_of(spec, update, written);
  UpdateWriter writer(spec, sweep, update);
  if (!writer.write(sweep.results.front().node)) return std::nullopt;
  if (update.spec.sums.size() > most_sums || update.fields.size() > most_fields) return std::nullopt;
  std::optional<KernelPlan> plan = plan_accurately(update.spec);
  if (!plan) return std::nullopt;
  update.plan = std::move(*plan);
  return update;
}

}  // namespace spidergen::plan
