/// The reference, in double precision and for f64 fields in long double: what a sweep must give at a point,
/// how far the arithmetic may be off, and which points are looked at.
#pragma once

#include <spider/kernel.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "layout.h"
#include "sizes.h"

namespace bench {

/// What is to be computed: out[p] = sum of weight * in[p + offset], so many times.
struct Stencil {
  std::vector<spider::Tap> taps;
  std::array<std::array<spider::Face, 2>, 3> faces{};  ///< axes z, y, x; low, high
  int steps = 1;
};

[[nodiscard]] Stencil stencil_of(const spider_kernel& kernel);

/// Copying as a stencil.
[[nodiscard]] Stencil identity_stencil();

/// The taps with weights rounded to the storage and zeros beyond the faces: what a convolution library
/// computes.
[[nodiscard]] Stencil zero_padded(const Stencil& stencil, int storage);

/// The value of the cell at an index of the input's memory.
using CellValue = std::function<double(std::int64_t)>;

/// One point of the reference.
struct Exact {
  long double value;
  double magnitude;    ///< sum of |weight * in|, which rounding errors are measured by
  double largest = 0;  ///< sum of one step's |weight| times the largest |in| of all that are taken
};

/// Of several steps one after the other, each with the boundary's rules, in 2D.
[[nodiscard]] Exact exact_at(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell,
                             const Extents& point);

/// All corners, and `count` points: a quarter anywhere, the others within 32 of one to three faces. The same
/// seed gives the same points.
[[nodiscard]] std::vector<Extents> sample_points(const Extents& extents, int count, std::uint64_t seed);

/// How the sums were made.
struct Arithmetic {
  int storage;
  int chained_products;      ///< MMAs, or as many additions, into one accumulator; of f64 additions
  bool exact = false;        ///< a copy: no error at all is right
  double neighbourhood = 0;  ///< as spider_kernel has it, in place of the sums' error
};

/// What |result - exact| may be: one rounding to the storage, and per chained product 18 truncating additions
/// of at least 24 bits. f32 fields are products of two f16 terms, which leave 2^-22 of each factor out. f64:
/// a rounding for each addition. Two passes round what passes between them, and truncate the weights of
/// several steps: their kernels say by how much (generator/time_steps.md).
[[nodiscard]] double error_bound(const Arithmetic& arithmetic, const Exact& exact);

/// The largest relative L2 error over all sampled points that still is right: 1e-3 for f16, and for other
/// types in proportion to their rounding, but no less than the sums' own: of f64 2^-45.
[[nodiscard]] double largest_relative_l2(int storage);

struct Errors {
  double relative_l2 = 0;
  double worst_of_bound = 0;  ///< the largest |error| over error_bound; infinite where there is a NaN
};

/// `results[i]` is what was computed for `points[i]`.
[[nodiscard]] Errors compare(const Stencil& stencil, const FieldLayout& layout, const CellValue& cell,
                             const Arithmetic& arithmetic, const std::vector<Extents>& points,
                             const std::vector<double>& results);

}  // namespace bench
