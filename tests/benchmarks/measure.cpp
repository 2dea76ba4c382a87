#include "measure.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>
#include <stdexcept>
#include <utility>

#include "baselines.h"
#include "check.h"
#include "contestant.h"
#include "cudnn_baseline.h"
#include "prediction.h"
#include "storage.h"
#include "timing.h"

namespace bench {
namespace {

constexpr double least_batch_microseconds = 300;
constexpr double expected_bytes_per_microsecond = 4e6;  // decides lengths of batches only

/// A line on the terminal that the next one replaces; nothing where standard error is no terminal.
class Progress {
 public:
  void show(const std::string& words) const {
    if (shown_) std::fprintf(stderr, "\r\033[K%s", words.c_str());
  }
  void clear() const { show(""); }

 private:
  bool shown_ = isatty(STDERR_FILENO) != 0;
};

/// More points than any memory holds; asked before sizes are multiplied as integers.
bool exceeds_any_device(const Extents& extents) {
  double points = 1;
  for (const std::int64_t extent : extents) points *= static_cast<double>(extent);
  return points > 0x1p44;
}

Halo reach_of(const spider_kernel_info& info) {
  Halo halo;
  std::copy_n(info.reach_low, 3, halo.low.begin());
  std::copy_n(info.reach_high, 3, halo.high.begin());
  return halo;
}

Contestant make_contestant(const Entry& entry, const DeviceFields& fields) {
  const spider_kernel& kernel = *entry.kernel;
  Contestant contestant;
  contestant.label = entry.label;
  contestant.name = kernel.info.name;
  contestant.detail = entry.detail;
  contestant.fields = &fields;
  contestant.layout = fields.layout();
  contestant.stencil = stencil_of(kernel);
  // 18 additions are allowed for per product: an engine without products adds tap by tap.
  const int products = kernel.info.storage == SPIDER_F64
                           ? kernel.tap_count
                           : std::max(kernel.products, kernel.tap_count / 18 + 1);
  contestant.arithmetic = {fields.storage(), products * kernel.info.steps, false, kernel.neighbourhood};
  contestant.steps = kernel.info.steps;
  contestant.products = kernel.products;
  contestant.launch = [&entry, &fields](int pair, cudaStream_t stream) {
    entry.library->apply(*entry.kernel, fields.input(pair), fields.output(pair), stream);
  };
  return contestant;
}

std::int64_t free_device_bytes() {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  require(cudaMemGetInfo(&free_bytes, &total_bytes), "asking for free memory");
  return static_cast<std::int64_t>(free_bytes);
}

/// Everything that is done for one group.
class GroupMeasurement {
 public:
  GroupMeasurement(const Options& options, const Device& device, const Nvml& nvml, const Group& group,
                   Report& report, const Progress& progress)
      : options_(options),
        device_(device),
        nvml_(nvml),
        group_(group),
        report_(report),
        progress_(progress) {}

  /// False where a result was wrong.
  bool run() {
    if (!make_fields()) return true;
    enter_all();
    const Method method = fields_->pairs() > 1 ? Method::graph : Method::single;
    const int batch = method == Method::graph ? batch_launches() : 1;
    // Sustained runs need to know how long a launch takes, too.
    show("bursts");
    const std::vector<Timing> bursts = time_bursts(contestants_, method, batch, options_.launches);
    if (options_.burst) add_rows("burst", method, bursts);
    if (options_.sustained) {
      show("sustained");
      std::vector<double> estimates;
      for (const Timing& timing : bursts) estimates.push_back(timing.summary.median);
      add_rows("sustained", method,
               time_sustained(contestants_, method, batch, options_.seconds, estimates, nvml_));
    }
    return all_right_;
  }

 private:
  void show(const std::string& words) const {
    progress_.show(name_of(group_.extents, group_.dimensions) + " " + storage_name(group_.storage) + ": " +
                   words);
  }

  /// The columns that are the same for all rows of this group.
  [[nodiscard]] Row make_row(const std::string& label, const std::string& kernel,
                             const std::string& detail) const {
    Row row;
    row.label = label;
    row.kernel = kernel;
    row.detail = detail;
    row.dimensions = group_.dimensions;
    row.storage = storage_name(group_.storage);
    row.size = name_of(group_.extents, group_.dimensions);
    return row;
  }

  void add_note(const std::string& label, const std::string& kernel, const std::string& note) const {
    Row row = make_row(label, kernel, "");
    row.note = note;
    progress_.clear();
    report_.add(row);
  }

  /// Bytes that a sweep must move: every point read once and written once.
  [[nodiscard]] std::int64_t moved_bytes() const {
    return 2 * point_count(group_.extents) * element_bytes(group_.storage);
  }

  bool skip_all() const {
    for (const Entry* entry : group_.entries) {
      add_note(entry->label, entry->kernel->info.name,
               "skipped: the fields do not fit into the device's memory");
    }
    return false;
  }

  /// False where the device is too small.
  bool make_fields() {
    show("filling fields");
    Halo halo;
    for (const Entry* entry : group_.entries) halo = hull(halo, reach_of(entry->kernel->info));
    if (exceeds_any_device(group_.extents)) return skip_all();
    const std::int64_t bytes = element_bytes(group_.storage);
    const FieldLayout layout = make_layout(group_.extents, halo, bytes, options_.offset);
    const int pairs = rotating_pairs(moved_bytes(), device_.cache_bytes);
    const std::int64_t needed = DeviceFields::bytes_needed(layout, group_.storage, pairs);
    if (needed > free_device_bytes() / 20 * 19) return skip_all();
    fields_ = std::make_unique<DeviceFields>(layout, group_.storage, pairs, options_.seed);
    return true;
  }

  void enter_all() {
    for (Contestant& copy : copy_baselines(*fields_, device_.multiprocessors)) enter(std::move(copy));
    std::set<std::string> convolved;
    for (const Entry* entry : group_.entries) {
      Contestant kernel = make_contestant(*entry, *fields_);
      if (options_.cudnn && kernel.steps == 1 && convolved.insert(kernel.name).second) {
        enter_cudnn(kernel, CudnnView::plain);
        enter_cudnn(kernel, CudnnView::blocked);
      }
      enter(std::move(kernel));
    }
  }

  /// Checks, and admits what is right.
  void enter(Contestant contestant) {
    show("checking " + contestant.name);
    const Errors errors = check(contestant, options_.seed);
    if (is_right(contestant, errors)) {
      contestants_.push_back(std::move(contestant));
      errors_.push_back(errors);
      return;
    }
    all_right_ = false;
    Row row = make_row(contestant.label, contestant.name, contestant.detail);
    row.relative_l2 = errors.relative_l2;
    row.of_bound = errors.worst_of_bound;
    row.note = "WRONG: no time is printed";
    progress_.clear();
    report_.add(row);
  }

  /// The fastest algorithm whose result is right.
  void enter_cudnn(const Contestant& kernel, CudnnView view) {
    try {
      if (!has_cudnn()) throw std::runtime_error("spider-bench was built without cuDNN");
      show("cuDNN's algorithms for " + kernel.name);
      if (dense_fields_ == nullptr) make_dense_fields();
      for (Contestant& candidate : cudnn_baselines(kernel, *dense_fields_, view)) {
        const Errors errors = check(candidate, options_.seed);
        if (!is_right(candidate, errors)) continue;
        contestants_.push_back(std::move(candidate));
        errors_.push_back(errors);
        return;
      }
      throw std::runtime_error("none of cuDNN's algorithms is accurate enough");
    } catch (const std::runtime_error& error) {
      add_note("baseline", (view == CudnnView::blocked ? "cudnn8:" : "cudnn:") + kernel.name,
               std::string("skipped: ") + error.what());
    }
  }

  void make_dense_fields() {
    const FieldLayout layout = dense_layout(group_.extents);
    if (DeviceFields::bytes_needed(layout, group_.storage, fields_->pairs()) > free_device_bytes() / 2) {
      throw std::runtime_error("its fields do not fit into the device's memory");
    }
    dense_fields_ = std::make_unique<DeviceFields>(layout, group_.storage, fields_->pairs(), options_.seed);
  }

  /// Launches of a graph: whole rounds through the fields, long enough to be timed well.
  [[nodiscard]] int batch_launches() const {
    const double estimate = 1 + static_cast<double>(moved_bytes()) / expected_bytes_per_microsecond;
    const double round = estimate * fields_->pairs();
    return fields_->pairs() * static_cast<int>(std::max(1.0, std::ceil(least_batch_microseconds / round)));
  }

  void add_rows(const std::string& mode, Method method, const std::vector<Timing>& timings) const {
    progress_.clear();
    std::optional<double> copy_us;
    for (std::size_t i = 0; i < timings.size(); ++i) {
      if (!contestants_[i].is_copy || !timings[i].failure.empty()) continue;
      copy_us = std::min(copy_us.value_or(timings[i].summary.median), timings[i].summary.median);
    }
    for (std::size_t i = 0; i < timings.size(); ++i) {
      const Contestant& contestant = contestants_[i];
      Row row = make_row(contestant.label, contestant.name, contestant.detail);
      row.mode = mode;
      row.method = method == Method::graph ? "graph" : "single";
      row.fields = fields_->pairs();
      row.relative_l2 = errors_[i].relative_l2;
      row.of_bound = errors_[i].worst_of_bound;
      if (timings[i].failure.empty()) {
        fill_times(row, contestant, timings[i], copy_us);
      } else {
        row.note = "not timed: " + timings[i].failure;
      }
      report_.add(row);
    }
  }

  void fill_times(Row& row, const Contestant& contestant, const Timing& timing,
                  const std::optional<double>& copy_us) const {
    const double time_us = timing.summary.median;
    const std::int64_t points = point_count(group_.extents);
    row.launches = timing.launches;
    row.time_us = time_us;
    row.spread_us = timing.summary.high - timing.summary.low;
    row.gstencils = static_cast<double>(points) * contestant.steps / time_us * 1e-3;
    row.gigabytes = static_cast<double>(moved_bytes()) / time_us * 1e-3;
    row.sm_mhz = timing.load.sm_mhz;
    row.power_w = timing.load.power_w;
    if (!copy_us) return;
    row.copy_us = copy_us;
    row.ratio = time_us / *copy_us;
    if (contestant.label == "baseline") return;
    const Prediction prediction =
        predict(*copy_us, points, contestant.products, device_.multiprocessors,
                mma_nanoseconds(device_.compute_capability, contestant.label.c_str()));
    row.tensor_us = prediction.tensor_us;
    row.floor_us = prediction.floor_us;
  }

  const Options& options_;
  const Device& device_;
  const Nvml& nvml_;
  const Group& group_;
  Report& report_;
  const Progress& progress_;
  std::unique_ptr<DeviceFields> fields_;
  std::unique_ptr<DeviceFields> dense_fields_;  ///< for cuDNN
  std::vector<Contestant> contestants_;
  std::vector<Errors> errors_;  ///< of contestants_
  bool all_right_ = true;
};

}  // namespace

bool measure_all(const Options& options, const Device& device, const Nvml& nvml,
                 const std::vector<Entry>& entries, Report& report) {
  const Progress progress;
  bool all_right = true;
  for (const Group& group : make_groups(options, entries)) {
    all_right = GroupMeasurement(options, device, nvml, group, report, progress).run() && all_right;
  }
  progress.clear();
  return all_right;
}

}  // namespace bench
