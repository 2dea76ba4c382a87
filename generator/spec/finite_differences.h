#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <vector>

namespace spidergen::spec {

/// Exact weights.
using Rational = boost::multiprecision::cpp_rational;

/// Points on each side of the middle in the central difference of a derivative: the fewest whose error has
/// order `accuracy`, an even number, in the spacing.
[[nodiscard]] int difference_radius(int order, int accuracy);

/// The weights of the central difference of `order` over the points -radius ... radius, one apart: exact for
/// polynomials of degree 2 * radius. B. Fornberg, Generation of finite difference formulas on arbitrarily
/// spaced grids, Mathematics of Computation 51 (1988), 699-706. Needs order <= 2 * radius.
[[nodiscard]] std::vector<Rational> difference_weights(int order, int radius);

/// Points on each side in the difference of a derivative at the middle between two points.
[[nodiscard]] int staggered_radius(int order, int accuracy);

/// The weights of the difference of `order` at the middle between two points, over the `radius` points on
/// each side: exact for polynomials of degree 2 * radius - 1. Needs order < 2 * radius.
[[nodiscard]] std::vector<Rational> staggered_weights(int order, int radius);

}  // namespace spidergen::spec
