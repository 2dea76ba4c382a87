#pragma once

#include <spider/kernel.h>
#include <spider/values/exact_sum.h>

#include <cstdint>

namespace spider::host {

/// A thread's part of a reduction, of rows of points.
class RowReduction {
 public:
  /// Takes `count` values. `to` is the accumulator, which all threads add to.
  void add(ReductionKind kind, const float* values, std::int64_t count, std::int64_t* to);
  void add(ReductionKind kind, const double* values, std::int64_t count, std::int64_t* to);

  /// Adds this thread's part to the accumulator.
  void finish(ReductionKind kind, std::int64_t* to) const;

 private:
  static constexpr int sums = 8;  ///< side by side, for vectors

  template <class Number>
  void add_sums(const Number* values, std::int64_t count, std::int64_t* to);
  template <class Number>
  void add_keys(bool reversed, const Number* values, std::int64_t count);

  ExactSum sums_[sums] = {};
  std::uint64_t key_ = 0;
};

}  // namespace spider::host
