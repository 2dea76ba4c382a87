#include "plan/low_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "plan/compose.h"
#include "plan/list_pairs.h"
#include "plan/singular_values.h"

namespace spidergen::plan {
namespace {

constexpr int most_pairs = 4;

int count_row_chunks(int y_low, int y_high) {
  return divide_up(group_rows + y_high - y_low, group_rows);
}

/// The first column of the first chunk of inputs, relative to a tile's first output.
int first_column_of(int x_low) {
  return -round_up(-x_low, vector_bytes / 2);
}

int count_chunks(int x_low, int x_high) {
  return divide_up(-first_column_of(x_low) + tile_columns + x_high, tile_columns);
}

/// The entries of a list within a span; its offsets begin at `low`.
List cut_list(const List& list, int low, const TapRange& span) {
  return {list.begin() + (span.low - low), list.begin() + (span.high - low + 1)};
}

/// Spans of an axis that end where operands do. For even weights they are symmetric, so that truncated lists
/// are even.
std::vector<TapRange> spans_of(const TapRange& whole, bool is_even) {
  constexpr int step = vector_bytes / 2;  // step of first columns; half of group_rows
  std::vector<TapRange> spans;
  for (int low = 0; low > whole.low - step; low -= step) {
    for (int high = 0; high < whole.high + step; high += step) {
      if (is_even && low != -high) continue;
      spans.push_back({std::max(low, whole.low), std::min(high, whole.high)});
    }
  }
  return spans;
}

/// The pairs of a sweep, truncated to spans of offsets.
struct CutPairs {
  int pairs = 0;
  TapRange rows, columns;
  double truncation = 0;  ///< sum |w' - w| / sum |w|
  int products = 0;
};

/// Tracks, for each number of pairs and each span, the error of the weights.
class Truncation {
 public:
  Truncation(const Matrix& weights, const SingularValues& values, const TapRange& rows,
             const TapRange& columns)
      : weights_(weights),
        values_(values),
        rows_(rows),
        columns_(columns),
        exact_(weights.rows, weights.columns) {}

  /// Adds a pair, and returns the error without truncation.
  double add_pair() {
    add_product(values_.value[pairs_], values_.left[pairs_], values_.right[pairs_], exact_);
    ++pairs_;
    // Prefix sums over rows and columns of the change in error from including a weight.
    gain_ = Matrix(weights_.rows + 1, weights_.columns + 1);
    for (int row = 0; row < weights_.rows; ++row) {
      for (int column = 0; column < weights_.columns; ++column) {
        const double weight = weights_.at(row, column);
        const double gain = std::fabs(weight - exact_.at(row, column)) - std::fabs(weight);
        gain_.at(row + 1, column + 1) =
            gain + gain_.at(row, column + 1) + gain_.at(row + 1, column) - gain_.at(row, column);
      }
    }
    return distance(exact_, weights_) / magnitude_;
  }

  /// The cut with the fewest products whose error is at most `tolerated`, among the given spans.
  [[nodiscard]] CutPairs cut(const std::vector<TapRange>& rows, const std::vector<TapRange>& columns,
                             double tolerated) const {
    CutPairs best{pairs_, rows_, columns_, left_of(rows_, columns_), products_of(rows_, columns_)};
    const auto key = [](const CutPairs& cut) {
      return std::tuple(cut.products, count_chunks(cut.columns.low, cut.columns.high), cut.truncation);
    };
    for (const TapRange& y : rows) {
      for (const TapRange& x : columns) {
        const CutPairs tried{pairs_, y, x, left_of(y, x), products_of(y, x)};
        if (tried.truncation <= tolerated && key(tried) < key(best)) best = tried;
      }
    }
    return best;
  }

 private:
  [[nodiscard]] double left_of(const TapRange& rows, const TapRange& columns) const {
    const int top = rows.low - rows_.low;
    const int bottom = rows.high - rows_.low + 1;
    const int left = columns.low - columns_.low;
    const int right = columns.high - columns_.low + 1;
    const double gain =
        gain_.at(bottom, right) - gain_.at(top, right) - gain_.at(bottom, left) + gain_.at(top, left);
    return (magnitude_ + gain) / magnitude_;
  }

  [[nodiscard]] int products_of(const TapRange& rows, const TapRange& columns) const {
    return pairs_ * (count_chunks(columns.low, columns.high) + count_row_chunks(rows.low, rows.high));
  }

  const Matrix& weights_;
  const SingularValues& values_;
  TapRange rows_, columns_;  ///< of all weights
  Matrix exact_;             ///< the sum of the pairs
  Matrix gain_{1, 1};
  double magnitude_ = magnitude_of(weights_.values);
  int pairs_ = 0;
};

/// Scales results so that the packed weights sum to the composed sum, and records their deviation from the
/// composed weights, whose lowest offsets are `rows` and `columns`.
void settle(const Matrix& weights, int rows, int columns, double tolerated_sum, LowRank& low_rank,
            std::string& objection) {
  low_rank.sum = sum_of(weights.values);
  low_rank.magnitude = magnitude_of(weights.values);
  double unscaled = 0;
  double passed = 0;
  double y_magnitude = 0;
  for (const ListPair& pair : low_rank.pairs) {
    const List x = total_of(pair.x);
    const List y = total_of(pair.y);
    unscaled += sum_of(x) * sum_of(y);
    passed += magnitude_of(x) * magnitude_of(y);
    y_magnitude += magnitude_of(y);
  }
  if (std::fabs(low_rank.sum) > low_rank.magnitude / 2) low_rank.scale = low_rank.sum / unscaled;
  low_rank.scale = static_cast<double>(static_cast<float>(low_rank.scale));
  low_rank.passed = passed * std::fabs(low_rank.scale);
  low_rank.y_magnitude = y_magnitude * std::fabs(low_rank.scale);
  low_rank.packed_sum = low_rank.scale * unscaled;
  const Matrix packed = expand(low_rank);
  Matrix all(weights.rows, weights.columns);
  for (int row = 0; row < packed.rows; ++row) {
    for (int column = 0; column < packed.columns; ++column)
      all.at(row + low_rank.y_low - rows, column + low_rank.x_low - columns) = packed.at(row, column);
  }
  low_rank.deviation = distance(all, weights) / low_rank.magnitude;
  if (!(std::fabs(low_rank.packed_sum - low_rank.sum) <= tolerated_sum * low_rank.magnitude))
    objection = "rounded lists do not sum to what the weights do";
}

/// The lists of all pairs of a cut.
SingularValues cut_values(const SingularValues& values, const TapRange& rows, const TapRange& columns,
                          const CutPairs& cut) {
  SingularValues shortened;
  for (int pair = 0; pair < cut.pairs; ++pair) {
    shortened.value.push_back(values.value[pair]);
    shortened.left.push_back(cut_list(values.left[pair], rows.low, cut.rows));
    shortened.right.push_back(cut_list(values.right[pair], columns.low, cut.columns));
  }
  return shortened;
}

/// The column of a chunk for column k of an operand of pass x: a lane's four inputs are neighbours.
int input_of(int k) {
  return 4 * (k % 8 / 2) + k % 2 + (k < 8 ? 0 : 2);
}

/// A value of a list from its lowest offset on; zero outside.
double value_of(const List& list, int index) {
  return index < 0 || index >= static_cast<int>(list.size()) ? 0 : list[index];
}

/// The same lists, starting at a lower row.
void begin_lower(int row, LowRank& lists) {
  const auto zeros = static_cast<std::size_t>(lists.y_low - row);
  for (ListPair& pair : lists.pairs) {
    for (List& term : pair.y) term.insert(term.begin(), zeros, 0);
  }
  lists.y_low = row;
}

void add_operand(Matrix matrix, Operand place, int sum, Contraction& contraction) {
  contraction.products.push_back(
      {0, place.source, static_cast<int>(contraction.operands.size()), place.term, 0, 0, sum});
  place.matrix = std::move(matrix);
  contraction.operands.push_back(std::move(place));
}

/// The operands of pass x of a sum.
void add_columns(const LowRank& lists, int sum, Contraction& contraction) {
  for (const ListPair& pair : lists.pairs) {
    for (int chunk = 0; chunk < lists.chunks; ++chunk) {
      for (int term = 0; term < lists.terms; ++term) {
        const int shift = lists.first_column + chunk * tile_columns;
        Matrix matrix(tile_columns, tile_columns);
        for (int m = 0; m < tile_columns; ++m) {
          for (int k = 0; k < tile_columns; ++k)
            matrix.at(m, k) = value_of(pair.x[term], shift + input_of(k) - input_of(m) - lists.x_low);
        }
        add_operand(std::move(matrix), {0, shift, term, {}, 0, 0}, sum, contraction);
      }
    }
  }
}

/// The operands of pass y of a sum.
void add_rows(const LowRank& lists, int sum, Contraction& contraction) {
  for (const ListPair& pair : lists.pairs) {
    for (int chunk = 0; chunk < lists.row_chunks; ++chunk) {
      for (int term = 0; term < lists.terms; ++term) {
        Matrix matrix(group_rows, group_rows);
        for (int m = 0; m < group_rows; ++m) {
          for (int k = 0; k < group_rows; ++k)
            matrix.at(m, k) = value_of(pair.y[term], chunk * group_rows + k - m);
        }
        add_operand(std::move(matrix), {lists.y_low + chunk * group_rows, 0, term, {}, 0, 1}, sum,
                    contraction);
      }
    }
  }
}

/// One term of an operand, or more where the weights of a single step must not lose digits.
int most_terms(const spec::StencilSpec& spec) {
  switch (spec.weights) {
    case spec::WeightMode::f16:
    case spec::WeightMode::bf16:
      return 1;
    case spec::WeightMode::f16x2:
    case spec::WeightMode::bf16x2:
      return 2;
    case spec::WeightMode::automatic:
      break;
  }
  return spec.storage == spec::Storage::f16 ? 2 : 3;
}

/// The allowed error of composed weights, relative to the sum of their magnitudes: the spec's tolerance, or
/// the storage's default; for one step without a tolerance, the error of weights of several terms.
double tolerance_of(const spec::StencilSpec& spec, int steps) {
  if (spec.tolerance) return *spec.tolerance;
  if (steps == 1) return 0x1p-21;
  return spec.storage == spec::Storage::f16 ? 0x1p-13 : 0x1p-10;
}

}  // namespace

LowRankOffer find_low_rank(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  const Operator& op = problem.op;
  LowRankOffer offer;
  const OperandType type = operand_type(spec.storage);
  const Matrix weights = compose_taps(op).front();
  const double tolerance = tolerance_of(spec, op.steps);
  const SingularValues values = singular_values(weights);
  const int most = std::min<int>(most_pairs, static_cast<int>(values.value.size()));
  const TapRange rows{-op.reach_low[spec::axis_y], op.reach_high[spec::axis_y]};
  const TapRange columns{-op.reach_low[spec::axis_x], op.reach_high[spec::axis_x]};
  const double tolerated = std::max(tolerance, 0x1p-45);
  Truncation truncation(weights, values, rows, columns);
  double left = 1;
  int pairs = 0;
  for (; pairs < most && (pairs == 0 || left > tolerated); ++pairs) left = truncation.add_pair();
  if (left > tolerated) {
    offer.objection = fmt::format(
        "the weights are no sum of {} products of a list along y and one along x: {:.1e} of them is left, "
        "the tolerance is {:.1e}",
        most, left, tolerance);
    return offer;
  }
  const bool counts_rounding = op.steps == 1 || spec.tolerance.has_value();
  // The tolerance, or half of it where rounding needs the rest, is spent on truncating far weights.
  std::vector<CutPairs> cuts{truncation.cut({rows}, {columns}, tolerated)};
  if (op.steps > 1) {
    const std::vector<TapRange> y = spans_of(rows, is_even(spec, spec::axis_y));
    const std::vector<TapRange> x = spans_of(columns, is_even(spec, spec::axis_x));
    const double cut_to = counts_rounding ? (left + tolerance) / 2 : tolerated;
    CutPairs fewest = truncation.cut(y, x, cut_to);
    if (pairs < most) {
      truncation.add_pair();
      const CutPairs more = truncation.cut(y, x, cut_to);
      if (more.products < fewest.products) fewest = more;
    }
    cuts.insert(cuts.begin(), fewest);
  }
  const int last = op.steps == 1 ? most_terms(spec) : 2;
  for (int terms = 1; terms <= last; ++terms) {
    for (const CutPairs& cut : cuts) {
      offer.objection.clear();
      offer.low_rank = round_pairs(type, cut_values(values, rows, columns, cut), cut.pairs, terms);
      offer.low_rank.y_low = cut.rows.low;
      offer.low_rank.x_low = cut.columns.low;
      offer.low_rank.truncation = cut.truncation;
      settle(weights, rows.low, columns.low, 0x1p-24, offer.low_rank, offer.objection);
      if (!counts_rounding || offer.low_rank.deviation <= tolerance) return offer;
    }
  }
  const bool as_asked = op.steps == 1 && !spec.tolerance;
  if (!as_asked)
    offer.objection = fmt::format(
        "rounded to operands the weights lie {:.1e} from the exact ones, the "
        "tolerance is {:.1e}",
        offer.low_rank.deviation, tolerance);
  return offer;
}

Contraction contract_low_rank(const Problem& problem, std::vector<LowRank> low_rank) {
  int low_y = 0;
  int high_y = 0;
  int low_x = 0;
  int high_x = 0;
  int pairs = 0;
  for (const LowRank& lists : low_rank) {
    low_y = std::min(low_y, lists.y_low);
    high_y = std::max(high_y, lists.y_high());
    low_x = std::min(low_x, lists.x_low);
    high_x = std::max(high_x, lists.x_high());
    pairs += static_cast<int>(lists.pairs.size());
  }
  for (LowRank& lists : low_rank) {
    lists.first_row = (lists.y_low - low_y) / half_group * half_group;
    begin_lower(low_y + lists.first_row, lists);
    lists.first_column = first_column_of(lists.x_low);
    lists.chunks = count_chunks(lists.x_low, lists.x_high());
    lists.row_chunks = count_row_chunks(lists.y_low, lists.y_high());
  }

  Contraction contraction;
  contraction.grouping = Grouping::low_rank;
  contraction.element_bytes = 2;
  contraction.row_low = low_y;
  contraction.row_high = high_y;
  contraction.column_reach = {low_x, high_x, low_x, high_x};
  contraction.shifts = {0};
  TileMapping along_x;
  along_x.name = pairs == 1 ? "two passes" : fmt::format("two passes of {}", pairs);
  along_x.outputs_per_column = tile_columns;
  TileMapping along_y;
  along_y.name = "pass along y";
  for (int i = 0; i < tile_columns; ++i) {
    along_x.row_output.push_back({0, input_of(i)});
    along_x.column_input.push_back({0, input_of(i)});
    along_y.column_input.push_back({0, i});
    along_y.row_output.push_back({0, i});
  }
  along_x.window_low = low_x;
  along_x.window_width = high_x - low_x + 1;
  contraction.mapping = along_x;
  contraction.sources = {{along_x, 0, false}, {along_y, 0, true}};
  for (int sum = 0; sum < std::ssize(low_rank); ++sum) add_columns(low_rank[sum], sum, contraction);
  for (int sum = 0; sum < std::ssize(low_rank); ++sum) add_rows(low_rank[sum], sum, contraction);
  contraction.low_rank = std::move(low_rank);
  // CUDA cores advance the rest of a number of steps.
  if (problem.op.steps > 1) contraction.taps = contract_taps(problem).taps;
  return contraction;
}

PassReach reach_of_passes(const std::vector<LowRank>& low_rank) {
  PassReach reach;
  int end = 0;
  for (const LowRank& lists : low_rank) {
    reach.first_column = std::min(reach.first_column, lists.first_column);
    end = std::max(end, lists.first_column + lists.chunks * tile_columns);
    reach.row_chunks = std::max(reach.row_chunks, divide_up(lists.first_row, group_rows) + lists.row_chunks);
  }
  reach.chunks = divide_up(end - reach.first_column, tile_columns);
  return reach;
}

int groups_in_flight(const LowRank& low_rank, const PassReach& reach) {
  return reach.row_chunks - divide_up(low_rank.first_row, group_rows);
}

}  // namespace spidergen::plan
