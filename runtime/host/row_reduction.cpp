#include "row_reduction.h"

#include <algorithm>
#include <atomic>

namespace spider::host {
namespace {

void spill(std::int64_t* to, double value) {
  accumulate(value, [to](int word, std::int64_t part) {
    std::atomic_ref<std::int64_t>(to[word]).fetch_add(part, std::memory_order_relaxed);
  });
}

}  // namespace

/// In vectors while nothing spills; a group in which a value spills is summed again one by one.
template <class Number>
void RowReduction::add_sums(const Number* values, std::int64_t count, std::int64_t* to) {
  constexpr std::int64_t group = 32 * sums;
  for (std::int64_t begin = 0; begin < count; begin += group) {
    const std::int64_t end = std::min(begin + group, count);
    const std::int64_t whole = begin + (end - begin) / sums * sums;
    double high[sums];
    double low[sums];
    double rest[sums] = {};
    for (int k = 0; k < sums; ++k) {
      high[k] = sums_[k].high;
      low[k] = sums_[k].low;
    }
    for (std::int64_t i = begin; i < whole; i += sums) {
      for (int k = 0; k < sums; ++k) {
        const auto value = static_cast<double>(values[i + k]);
        const double sum = high[k] + value;
        const double error = left_out_of(sum, high[k], value);
        const double errors = low[k] + error;
        const double left = left_out_of(errors, low[k], error);
        rest[k] += left < 0 ? -left : left;  // a NaN stays one
        high[k] = sum;
        low[k] = errors;
      }
    }
    const bool fits = std::all_of(rest, rest + sums, [](double left) { return left == 0; });
    for (int k = 0; k < sums && fits; ++k) sums_[k] = {high[k], low[k]};
    for (std::int64_t i = fits ? whole : begin; i < end; ++i)
      add_exactly(sums_[0], static_cast<double>(values[i]), [to](double left) { spill(to, left); });
  }
}

template <class Number>
void RowReduction::add_keys(bool reversed, const Number* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    key_ = std::max(key_, key_of(static_cast<double>(values[i]), reversed));
}

void RowReduction::add(ReductionKind kind, const float* values, std::int64_t count, std::int64_t* to) {
  if (kind == ReductionKind::sum) return add_sums(values, count, to);
  add_keys(kind == ReductionKind::min, values, count);
}
void RowReduction::add(ReductionKind kind, const double* values, std::int64_t count, std::int64_t* to) {
  if (kind == ReductionKind::sum) return add_sums(values, count, to);
  add_keys(kind == ReductionKind::min, values, count);
}

void RowReduction::finish(ReductionKind kind, std::int64_t* to) const {
  if (kind == ReductionKind::sum) {
    for (const ExactSum& sum : sums_) {
      spill(to, sum.high);
      spill(to, sum.low);
    }
    return;
  }
  const std::atomic_ref<std::int64_t> word(*to);
  std::int64_t known = word.load(std::memory_order_relaxed);
  while (static_cast<std::uint64_t>(known) < key_ &&
         !word.compare_exchange_weak(known, static_cast<std::int64_t>(key_), std::memory_order_relaxed)) {
  }
}

}  // namespace spider::host
