#pragma once

#include <string>
#include <utility>
#include <vector>

#include "plan/half.h"
#include "plan/tile_mapping.h"
#include "spec/stencil_spec.h"

namespace spidergen::plan {

/// A tap with the spec's weight and its operands' terms.
struct RoundedTap {
  spec::Offset at{};
  double weight = 0;          ///< the spec's
  std::vector<double> terms;  ///< of the operands, highest first
  double packed = 0;          ///< the kernel's multiplier, identity and factor included
  double identity = 0;        ///< 1 where the kernel adds the old value itself: operands are of weight - 1
  double share = 0;           ///< multiple of the common factor: terms approximate it
  int sum = 0;                ///< index of its sum

  bool operator==(const RoundedTap&) const = default;
};

/// The weights as operands. A weight less its identity is its share times the factor, times 2^-shift of its
/// sum; a share is the sum of terms[i] 2^(-i remainder_exponent), times 2^-exponent.
struct RoundedWeights {
  OperandType type = OperandType::f16;
  bool in_f32 = false;  ///< no operands: each weight is one f32 number
  bool in_f64 = false;  ///< or one f64 number, the spec's
  int terms = 1;
  int exponent = 0;
  int remainder_exponent = 0;
  int sum_exponent = 0;  ///< sums are share * 2^sum_exponent; results are scaled back in f32
  /// For several sums, the powers of two that equalise their largest weights; else empty.
  std::vector<int> sum_shifts;
  double factor = 1;           ///< an f32 number from 1 to below 2 (plan/common_factor.h)
  bool exact = false;          ///< terms equal the shares
  bool adds_identity = false;  ///< results are the old value plus the sum (generator/accuracy.md)
  double sum = 0;              ///< of the spec's weights
  double packed_sum = 0;       ///< of the packed weights
  double largest_error = 0;
  std::vector<RoundedTap> taps;  ///< in the spec's order

  /// The sum of terms, still times 2^exponent.
  [[nodiscard]] double total(const std::vector<double>& parts) const;
  [[nodiscard]] int shift_of(int sum) const { return sum_shifts.empty() ? 0 : sum_shifts[sum]; }
  /// The value of a tap's terms, identity included.
  [[nodiscard]] double packed_of(const RoundedTap& tap) const;
  /// The factor of the results of a sum.
  [[nodiscard]] double result_scale(int sum) const;
  bool operator==(const RoundedWeights&) const = default;
};

/// How the values of a field become operands.
struct InputTerms {
  int count = 1;  ///< terms of each value
  bool scaled =
      false;  ///< by a power of two that the kernel finds; products of a window then have a sum of their own

  bool operator==(const InputTerms&) const = default;
};

/// The taps of one (dz, dy): dx from `low` to `high`.
struct TapRow {
  int dz = 0;
  int dy = 0;
  int low = 0;
  int high = 0;

  bool operator==(const TapRow&) const = default;
};

/// The common reach of all tap rows along x.
struct ColumnReach {
  int highest_low = 0;  ///< of the tap rows' lowest dx
  int lowest_high = 0;  ///< of their highest dx
  int low = 0;          ///< smallest dx of all, <= 0
  int high = 0;         ///< largest dx of all, >= 0

  bool operator==(const ColumnReach&) const = default;
};

/// The common reach of the tap rows along x; there is at least one.
[[nodiscard]] ColumnReach column_reach_of(const std::vector<TapRow>& rows);

/// Columns next to both edges of a field or box that taps reach and that may be part of an incomplete vector
/// of `vector_cells` cells: either edge may cut a vector.
[[nodiscard]] int columns_across_edges(const ColumnReach& reach, int vector_cells);

/// One operand matrix, and the first window that uses it.
struct Operand {
  int dy = 0;
  int shift = 0;
  int term = 0;  ///< 0: the weights' leading term; 1 and 2: remainders
  Matrix matrix;
  int dz = 0;
  int source = 0;  ///< index into Contraction::sources: the mapping of the matrix

  bool operator==(const Operand&) const = default;
};

/// The content of a fragment, or for dense products half of one, for every input row: the inputs of windows
/// with this mapping at this shift.
struct Source {
  TileMapping mapping;
  int shift = 0;         ///< 0 for pairs of diagonals
  bool along_y = false;  ///< the mapping's positions count along y instead of x (plan/bands.h)

  /// A position of the mapping, as a position in the field.
  [[nodiscard]] Position place(const Position& position) const {
    return along_y ? Position{position.x, position.y, position.z} : position;
  }
  /// From a window's own tap row to the mapping's other one; 0, 0 for windows along x.
  [[nodiscard]] Position distance() const { return mapping.window_rows.back(); }
  bool operator==(const Source&) const = default;
};

/// One MMA: the input row at `row` above the output row times an operand.
struct Product {
  int row = 0;      ///< dy - Contraction::row_low of the window's own tap row
  int source = 0;   ///< index into Contraction::sources
  int operand = 0;  ///< index into Contraction::operands
  int term = 0;
  int plane = 0;       ///< dz - Contraction::plane_low of the window's own tap row
  int input_term = 0;  ///< 0: the inputs' leading term; 1: their remainder
  int sum = 0;         ///< the sum to which it adds

  bool operator==(const Product&) const = default;
};

/// A tap of a kernel on CUDA cores: `step` is along z in 3D and along y in 2D, `row` along y in 3D.
struct CoreTap {
  int step = 0;
  int row = 0;
  int column = 0;
  double weight = 0;  ///< an f32 number except for f64 fields
  int sum = 0;        ///< the sum to which it adds

  bool operator==(const CoreTap&) const = default;
};

/// The taps of one product, or of one multiply-add.
enum class Grouping {
  windows,        ///< neighbouring dx of a tap row, or two diagonals
  row_pairs,      ///< two tap rows (plan/row_pairs.h)
  bands,          ///< all taps along an axis (plan/bands.h)
  low_rank,       ///< lists along x, then lists along y (plan/low_rank.h)
  multiply_adds,  ///< a tap, on CUDA cores
  list_adds,      ///< a weight of a list along x, or along y, on CUDA cores (plan/core_lists.h)
};

/// A list along y and one along x whose product is a part of the weights: by term, then from the lowest
/// offset on, as in operands.
struct ListPair {
  std::vector<std::vector<double>> y;
  std::vector<std::vector<double>> x;

  bool operator==(const ListPair&) const = default;
};

/// Weights as `scale` times a sum of products of lists (plan/low_rank.h). On CUDA cores lists are one term in
/// the compute type of the fields, and the scale is 1.
struct LowRank {
  std::vector<ListPair> pairs;  ///< the strongest first
  OperandType type = OperandType::f16;
  int terms = 1;  ///< of a list's value
  int y_low = 0;  ///< offset of the lists' first values; of several sums multiples of 8 apart
  int x_low = 0;
  double scale = 1;        ///< an f32 number
  double sum = 0;          ///< of the exact weights
  double packed_sum = 0;   ///< of the weights that the lists represent
  double magnitude = 0;    ///< sum of the exact weights' magnitudes
  double passed = 0;       ///< over all pairs: the product of both lists' sums of magnitudes, scaled
  double y_magnitude = 0;  ///< sum of the magnitudes of all lists along y, scaled
  double truncation = 0;   ///< sum |w' - w| / sum |w| of these truncated pairs before rounding
  double deviation = 0;    ///< the same for the packed lists
  int first_column = 0;    ///< of the first chunk of 16 inputs along x, from a tile's first output
  int chunks = 0;
  int row_chunks = 0;  ///< of 16 input rows along y, the first from y_low on, for 16 output rows
  int first_row = 0;   ///< y_low, from the lowest of all sums

  [[nodiscard]] int y_high() const { return y_low + static_cast<int>(pairs.front().y.front().size()) - 1; }
  [[nodiscard]] int x_high() const { return x_low + static_cast<int>(pairs.front().x.front().size()) - 1; }
  bool operator==(const LowRank&) const = default;
};

/// Neighbouring inputs of a lane in a fragment: windows begin at multiples of it.
inline constexpr int inputs_per_group = 8;

/// The products of a kernel, whatever the scheme: the input of packing and its proof.
struct Contraction {
  Grouping grouping = Grouping::windows;
  TileMapping mapping;
  InputTerms inputs;
  int element_bytes = 2;
  ColumnReach column_reach;
  int row_low = 0;                ///< smallest dy
  int row_high = 0;               ///< largest dy; with pairs of rows, that of the last pair's first row
  int plane_low = 0;              ///< smallest dz
  int plane_high = 0;             ///< largest dz
  std::vector<int> shifts;        ///< of the windows along x, ascending multiples of 8
  std::vector<Source> sources;    ///< those at the shifts first, then pairs of diagonals, in 2D at most one
  std::vector<Operand> operands;  ///< no duplicates
  std::vector<Product> products;  ///< in issue order: the completing output row first
  std::vector<LowRank> low_rank;  ///< for each sum of low_rank, whose operands are those along x of all sums,
                                  ///< then those along y; and of list_adds
  std::vector<CoreTap> taps;      ///< of multiply_adds, which use nothing above: ascending in (row, step,
                                  ///< column, sum); the step of low_rank; for list_adds, of each list by
                                  ///< itself

  [[nodiscard]] bool on_tensor_cores() const {
    return grouping != Grouping::multiply_adds && grouping != Grouping::list_adds;
  }
  [[nodiscard]] bool is_list_adds() const { return grouping == Grouping::list_adds; }
  [[nodiscard]] bool is_bands() const { return grouping == Grouping::bands; }
  [[nodiscard]] bool is_low_rank() const { return grouping == Grouping::low_rank; }
  /// Are tap rows with a single tap at dx = 0 paired?
  [[nodiscard]] bool pairs_diagonals() const {
    return grouping == Grouping::windows && sources.back().distance() != Position{};
  }
  /// In 2D: the first input column that a strip or tile loads, relative to its first output; it begins a
  /// vector.
  [[nodiscard]] int first_column() const;
  /// Output rows of a product: two where products of pairs of input rows make pairs of output rows.
  [[nodiscard]] int rows_per_product() const { return mapping.pairs_rows() ? 2 : 1; }
  /// Input rows that an output row needs, from the first to the last.
  [[nodiscard]] int rows_spanned() const { return row_high - row_low + 1; }
  /// dy - row_low of the last input row that a product reads; for pairs of rows, of the pair's first row.
  [[nodiscard]] int last_row(const Product& product) const {
    return product.row + (mapping.pairs_rows() ? 0 : sources[product.source].distance().y);
  }
  /// In 2D: output rows, or pairs of them, that accumulate at the same time; a product is issued once its
  /// last row is loaded.
  [[nodiscard]] int rows_in_flight() const;
  /// dz - plane_low of the last input plane that a product reads: it is issued once that plane is loaded.
  [[nodiscard]] int last_plane(const Product& product) const {
    return product.plane + sources[product.source].distance().z;
  }
  /// Output planes that accumulate at the same time.
  [[nodiscard]] int planes_in_flight() const;
  /// MMAs chained into one output, equal to the MMAs per 128 outputs. With bands: one for each operand along
  /// y, and those along x of the output's comb.
  [[nodiscard]] int chained_products() const;
  /// The chain of the sum with most products.
  [[nodiscard]] int longest_chain() const;
  /// The number of sums of an output.
  [[nodiscard]] int sums() const;
  /// Terms of the weights that products use.
  [[nodiscard]] int weight_terms() const;
  bool operator==(const Contraction&) const = default;
};

/// From the lowest to the highest offset of some taps along an axis, both included.
struct TapRange {
  int low = 0;
  int high = 0;
  [[nodiscard]] int count() const { return high - low + 1; }
};

/// Sums of output steps that accumulate at the same time: for each sum those from its lowest step to the
/// highest step of all, which completes an output.
[[nodiscard]] int sums_in_flight(const std::vector<CoreTap>& taps);

/// The range of the taps, at least one, along `axis`: a member of CoreTap.
[[nodiscard]] TapRange range_of(const std::vector<CoreTap>& taps, int CoreTap::*axis);

/// The axes of a kernel on CUDA cores: it steps along z in 3D and along y in 2D, has rows along y in 3D, and
/// columns along x. Axes that the stencil lacks have extent 1.
struct CoreAxes {
  int step = spec::axis_z;
  int row = spec::axis_y;
};
[[nodiscard]] CoreAxes core_axes(int dimensions);

}  // namespace spidergen::plan
