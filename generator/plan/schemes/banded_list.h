#pragma once

#include <string_view>

#include "plan/problem.h"

namespace spidergen::plan {

/// Outputs of a group, and inputs of a chunk.
inline constexpr int band_group = 16;
/// f16 remainders of inputs are scaled by two to this power, and the weights that they meet by its inverse.
inline constexpr int band_remainder_digits = 11;

/// Taps one behind the other along one axis of 2D and 3D fields, as a band matrix of dense products
/// (runtime/device/spider/kernels/banded_list.h). Only passes along an axis are planned so
/// (plan/banded_pass.h).
struct BandedList {
  static constexpr std::string_view name = "banded_list";

  int axis = spec::axis_x;
  int first_tap = 0;  ///< offset
  int last_tap = 0;
  int low = 0;     ///< of a group's first input from its first output
  int chunks = 0;  ///< of 16 inputs, that a group of 16 outputs takes
  int weight_terms = 1;
  int leading_products = 1;    ///< terms of a weight that an input's first term meets
  int remainder_weight = 0;    ///< the first that its second term meets
  int remainder_products = 0;  ///< and how many
  double input_scale = 1;      ///< a power of two: of cells, before they become operands
  double remainder_scale = 1;  ///< another: of what their first term leaves
  double result_scale = 1;     ///< undoes that of inputs and of weights
  int line_warps = 4;          ///< of a block's four, those whose lines differ
  int walk = 0;                ///< outputs of a block along the axis
  int blocks_per_multiprocessor = 1;
  int estimated_registers = 0;
  int shared_bytes = 0;

  /// Third terms of inputs, where they have them, meet the weights' first.
  [[nodiscard]] int products_of_chunk(int input_terms) const {
    return leading_products + remainder_products + (input_terms == 3 ? 1 : 0);
  }
  static bool takes(const Problem& problem, const Contraction& contraction);
  /// Of a contraction whose inputs and operands are those of a banded pass.
  static Offer<BandedList> plan(const Problem& problem, const Contraction& contraction);
  bool operator==(const BandedList&) const = default;
};

}  // namespace spidergen::plan
