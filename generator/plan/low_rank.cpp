#include "plan/low_rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <tuple>
#include <utility>

namespace spidergen::plan {
namespace {

using List = std::vector<double>;

constexpr int most_pairs = 4;

double sum_of(const List& list) {
  return std::accumulate(list.begin(), list.end(), 0.0);
}

double magnitude_of(const List& list) {
  return std::accumulate(list.begin(), list.end(), 0.0,
                         [](double sum, double value) { return sum + std::fabs(value); });
}

double distance(const Matrix& a, const Matrix& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) sum += std::fabs(a.values[i] - b.values[i]);
  return sum;
}

int count_groups(int rows) {
  return divide_up(rows, group_rows);
}

/// Of the first chunk of inputs, from a tile's first output.
int first_column_of(int x_low) {
  return -round_up(-x_low, vector_bytes / 2);
}

int count_chunks(int x_low, int x_high) {
  return divide_up(-first_column_of(x_low) + tile_columns + x_high, tile_columns);
}

/// The entries of a list whose offsets begin at `low` that are in a span.
List cut_list(const List& list, int low, const TapRange& kept) {
  return {list.begin() + (kept.low - low), list.begin() + (kept.high - low + 1)};
}

/// Spans of an axis that end where operands do. Those of even weights keep as many on both sides, so that
/// cut ones are even.
std::vector<TapRange> spans_of(const TapRange& whole, bool is_even) {
  constexpr int step = vector_bytes / 2;  // of first columns; and group_rows
  std::vector<TapRange> spans;
  for (int low = 0; low > whole.low - step; low -= step) {
    for (int high = 0; high < whole.high + step; high += step) {
      if (is_even && low != -high) continue;
      spans.push_back({std::max(low, whole.low), std::min(high, whole.high)});
    }
  }
  return spans;
}

void add_product(double factor, const List& y, const List& x, Matrix& matrix) {
  for (int row = 0; row < matrix.rows; ++row) {
    for (int column = 0; column < matrix.columns; ++column)
      matrix.at(row, column) += factor * y[row] * x[column];
  }
}

/// A list times a scale as terms of a type, highest first.
std::vector<List> round_list(OperandType type, const List& list, double scale, int terms) {
  std::vector<List> rounded(terms, List(list.size()));
  for (std::size_t i = 0; i < list.size(); ++i) {
    double rest = list[i] * scale;
    for (int term = 0; term < terms; ++term) {
      rounded[term][i] = round_to(type, rest);
      rest -= rounded[term][i];
    }
  }
  return rounded;
}

List total_of(const std::vector<List>& terms) {
  List total(terms.front().size(), 0.0);
  for (const List& term : terms) {
    for (std::size_t i = 0; i < total.size(); ++i) total[i] += term[i];
  }
  return total;
}

/// The scale from `scale` to below its double whose rounded list lies nearest to the list.
double best_scale(OperandType type, const List& list, double scale, int terms) {
  constexpr int candidates = 128;
  double best = scale;
  double least = -1;
  for (int i = 0; i < candidates; ++i) {
    const double tried = scale * (1 + static_cast<double>(i) / candidates);
    const List rounded = total_of(round_list(type, list, tried, terms));
    double error = 0;
    for (std::size_t k = 0; k < list.size(); ++k) error += std::fabs(rounded[k] / tried - list[k]);
    if (least < 0 || error < least) {
      least = error;
      best = tried;
    }
  }
  return best;
}

/// Unit in the last place of a rounded value.
double unit_of(OperandType type, double value) {
  return std::max(smallest_value(type), std::ldexp(1.0, std::ilogb(value) - digits_of(type) + 1));
}

/// Moves weights of the last term by their last digit, an offset and its opposite alike, those first that are
/// rounded least well, until they sum to `target` as nearly as constant cells need that are rounded
/// afterwards. `list` has the exact values.
void balance_list(OperandType type, const List& list, double target, std::vector<List>& terms) {
  constexpr int most_moves = 64;
  const double near = target * rounding_error(type) / 4;
  List& last = terms.back();
  for (int move = 0; move < most_moves; ++move) {
    const List total = total_of(terms);
    const double missing = target - sum_of(total);
    if (std::fabs(missing) <= near) return;
    double least = 0;
    std::size_t best = last.size();
    for (std::size_t i = 0; 2 * i < last.size(); ++i) {
      const std::size_t other = last.size() - 1 - i;
      double step = 0;
      double cost = 0;
      for (const std::size_t k : {i, other}) {
        if (last[k] == 0 || (k == other && other == i && step != 0)) continue;
        const double unit = std::copysign(unit_of(type, last[k]), missing);
        step += unit;
        cost += std::fabs(total[k] + unit - list[k]) - std::fabs(total[k] - list[k]);
      }
      const double gain = std::fabs(missing) - std::fabs(missing - step);
      if (gain <= 0) continue;
      if (best == last.size() || cost / gain < least) {
        least = cost / gain;
        best = i;
      }
    }
    if (best == last.size()) return;
    for (const std::size_t k : {best, last.size() - 1 - best}) {
      if (last[k] == 0 || (k != best && 2 * best + 1 == last.size())) continue;
      last[k] = round_to(type, last[k] + std::copysign(unit_of(type, last[k]), missing));
      if (2 * best + 1 == last.size()) break;
    }
  }
}

/// Do the values of a list sum up, not cancel?
bool sums_up(const List& list) {
  return std::fabs(sum_of(list)) > magnitude_of(list) / 2;
}

/// The pairs as terms of operands. Lists along x are at most 1 in sum of magnitudes, so that what passes
/// between the lists is finite where the field is.
LowRank round_pairs(OperandType type, const SingularValues& values, int pairs, int terms) {
  // Sums of pass y are f32, which bf16 fields fill: there the lists along y are below 1 in sum, too.
  constexpr double largest_y = 256;
  LowRank result;
  result.type = type;
  result.terms = terms;
  double product = 0;  // of the scales of both lists, of all pairs alike
  for (int pair = 0; pair < pairs; ++pair) {
    List x = values.right[pair];
    List y = values.left[pair];
    if (sum_of(x) < 0) {
      for (double& value : x) value = -value;
      for (double& value : y) value = -value;
    }
    for (double& value : y) value *= values.value[pair];
    const bool balanced = pair == 0 && sums_up(x);
    const double share = std::fabs(sum_of(x)) / magnitude_of(x);
    const double target = balanced ? std::ldexp(1.0, std::ilogb(share)) : 0;
    const double x_scale = balanced ? target / sum_of(x) : best_scale(type, x, 0.5 / magnitude_of(x), terms);
    ListPair rounded;
    rounded.x = round_list(type, x, x_scale, terms);
    if (balanced) {
      List exact = x;
      for (double& value : exact) value *= x_scale;
      balance_list(type, exact, target, rounded.x);
    }
    if (pair == 0) {
      double largest = 0;
      for (const double value : y) largest = std::max(largest, std::fabs(value));
      const double y_scale = type == OperandType::f16 ? largest_y / largest / 2 : 0.25 / magnitude_of(y);
      product = x_scale * best_scale(type, y, y_scale, terms);
    }
    rounded.y = round_list(type, y, product / x_scale, terms);
    result.pairs.push_back(std::move(rounded));
  }
  result.scale = 1 / product;
  return result;
}

/// The pairs that a sweep takes, cut to the offsets that it keeps.
struct CutPairs {
  int pairs = 0;
  TapRange rows, columns;
  double truncation = 0;  ///< sum |w' - w| / sum |w|
  int products = 0;
};

/// For each number of pairs what is left of the weights by how much of them is kept.
class Truncation {
 public:
  Truncation(const Matrix& weights, const SingularValues& values, const TapRange& rows,
             const TapRange& columns)
      : weights_(weights),
        values_(values),
        rows_(rows),
        columns_(columns),
        exact_(weights.rows, weights.columns) {}

  /// Takes one pair more, and returns what it leaves where nothing is cut.
  double add_pair() {
    add_product(values_.value[pairs_], values_.left[pairs_], values_.right[pairs_], exact_);
    ++pairs_;
    // Sums over all rows above and columns to the left of what keeping a weight changes.
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

  /// The cut of the fewest products that leaves no more than `tolerated`, of spans that are as given.
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
    const int groups = count_groups(-rows.low) + 1 + count_groups(rows.high);
    return pairs_ * count_chunks(columns.low, columns.high) + divide_up(pairs_ * groups, 2);
  }

  const Matrix& weights_;
  const SingularValues& values_;
  TapRange rows_, columns_;  ///< of all weights
  Matrix exact_;             ///< of the pairs
  Matrix gain_{1, 1};
  double magnitude_ = magnitude_of(weights_.values);
  int pairs_ = 0;
};

/// Scales results such that the packed weights sum to what the composed ones do, and says how far they lie
/// from these, whose lowest offsets are `rows` and `columns`.
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
  SingularValues kept;
  for (int pair = 0; pair < cut.pairs; ++pair) {
    kept.value.push_back(values.value[pair]);
    kept.left.push_back(cut_list(values.left[pair], rows.low, cut.rows));
    kept.right.push_back(cut_list(values.right[pair], columns.low, cut.columns));
  }
  return kept;
}

bool is_even(const spec::StencilSpec& spec, int axis) {
  return std::all_of(spec.taps.begin(), spec.taps.end(), [&](const spec::Tap& tap) {
    spec::Offset opposite = tap.at;
    opposite[axis] = -opposite[axis];
    return std::any_of(spec.taps.begin(), spec.taps.end(), [&](const spec::Tap& other) {
      return other.at == opposite && other.weight == tap.weight;
    });
  });
}

bool reaches_one(const spec::StencilSpec& spec, int axis) {
  return std::all_of(spec.taps.begin(), spec.taps.end(),
                     [&](const spec::Tap& tap) { return std::abs(tap.at[axis]) <= 1; });
}

/// Column k of an operand of pass x as a column of a chunk: a lane's four inputs are neighbours.
int input_of(int k) {
  return 4 * (k % 8 / 2) + k % 2 + (k < 8 ? 0 : 2);
}

/// A value of a list from its lowest offset on, zero beyond.
double value_of(const List& list, int index) {
  return index < 0 || index >= static_cast<int>(list.size()) ? 0 : list[index];
}

std::string face_objection(const spec::StencilSpec& spec) {
  for (const int axis : {spec::axis_y, spec::axis_x}) {
    for (const spec::Face* face : {&spec.boundary[axis].low, &spec.boundary[axis].high}) {
      if (!commutes(spec, *face, axis)) {
        return fmt::format("'{}' along {} acts at every step, which steps taken at once do not see",
                           spec::rule_name(face->rule), spec::axis_letters[axis]);
      }
    }
  }
  return "";
}

/// One term of an operand, or more where the weights of a single step are to keep their digits.
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

}  // namespace

Matrix compose_taps(const Operator& op) {
  const auto [z, low_y, low_x] = op.reach_low;
  const auto [z_high, high_y, high_x] = op.reach_high;
  static_cast<void>(z);
  static_cast<void>(z_high);
  Matrix composed(low_y + high_y + 1, low_x + high_x + 1);
  composed.at(low_y, low_x) = 1;
  for (int step = 0; step < op.steps; ++step) {
    Matrix next(composed.rows, composed.columns);
    for (int row = 0; row < composed.rows; ++row) {
      for (int column = 0; column < composed.columns; ++column) {
        const double value = composed.at(row, column);
        if (value == 0) continue;
        for (const spec::Tap& tap : op.step)
          next.at(row + tap.at[spec::axis_y], column + tap.at[spec::axis_x]) += value * tap.weight;
      }
    }
    composed = std::move(next);
  }
  return composed;
}

SingularValues singular_values(const Matrix& matrix) {
  constexpr int most_sweeps = 40;
  constexpr double negligible = 0x1p-46;
  const int count = matrix.columns;
  std::vector<List> columns(count, List(matrix.rows));
  std::vector<List> right(count, List(count, 0.0));
  for (int i = 0; i < count; ++i) {
    right[i][i] = 1;
    for (int row = 0; row < matrix.rows; ++row) columns[i][row] = matrix.at(row, i);
  }
  const auto product = [](const List& a, const List& b) {
    return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
  };
  double largest = 0;
  for (const List& column : columns) largest = std::max(largest, product(column, column));
  bool rotated = true;
  for (int sweep = 0; rotated && sweep < most_sweeps; ++sweep) {
    rotated = false;
    for (int i = 0; i < count; ++i) {
      for (int j = i + 1; j < count; ++j) {
        const double a = product(columns[i], columns[i]);
        const double b = product(columns[j], columns[j]);
        const double c = product(columns[i], columns[j]);
        const double both = std::sqrt(a * b);
        if (std::fabs(c) <= negligible * both || both <= negligible * negligible * largest) continue;
        rotated = true;
        const double zeta = (b - a) / (2 * c);
        const double t = std::copysign(1.0, zeta) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta));
        const double cosine = 1 / std::sqrt(1 + t * t);
        const double sine = cosine * t;
        const auto rotate = [&](List& p, List& q) {
          for (std::size_t k = 0; k < p.size(); ++k) {
            const double before = p[k];
            p[k] = cosine * before - sine * q[k];
            q[k] = sine * before + cosine * q[k];
          }
        };
        rotate(columns[i], columns[j]);
        rotate(right[i], right[j]);
      }
    }
  }
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return product(columns[a], columns[a]) > product(columns[b], columns[b]);
  });
  SingularValues values;
  for (const int i : order) {
    const double value = std::sqrt(product(columns[i], columns[i]));
    List left = columns[i];
    for (double& entry : left) entry = value > 0 ? entry / value : 0;
    values.value.push_back(value);
    values.left.push_back(std::move(left));
    values.right.push_back(std::move(right[i]));
  }
  return values;
}

double tolerance_of(const spec::StencilSpec& spec, int steps) {
  if (spec.tolerance) return *spec.tolerance;
  if (steps == 1) return 0x1p-21;
  return spec.storage == spec::Storage::f16 ? 0x1p-13 : 0x1p-10;
}

bool commutes(const spec::StencilSpec& spec, const spec::Face& face, int axis) {
  switch (face.rule) {
    case spec::BoundaryRule::halo:
    case spec::BoundaryRule::periodic:
      return true;
    case spec::BoundaryRule::reflect:
    case spec::BoundaryRule::antisymmetric:
      return is_even(spec, axis);
    case spec::BoundaryRule::mirror: {
      // An axis of one cell takes that cell for what lies beyond, not what lies beyond the other face.
      const spec::AxisBoundary& faces = spec.boundary[axis];
      const auto turns = [](const spec::Face& side) {
        return side.rule == spec::BoundaryRule::mirror || side.rule == spec::BoundaryRule::reflect ||
               side.rule == spec::BoundaryRule::nearest;
      };
      return is_even(spec, axis) && turns(faces.low) && turns(faces.high);
    }
    case spec::BoundaryRule::nearest:
      return is_even(spec, axis) && reaches_one(spec, axis);
    case spec::BoundaryRule::constant:
      return face.value == 0 && is_even(spec, axis) && reaches_one(spec, axis);
  }
  return false;
}

LowRankOffer find_low_rank(const Problem& problem) {
  const spec::StencilSpec& spec = problem.spec;
  const Operator& op = problem.op;
  LowRankOffer offer;
  if (op.steps > 1) offer.objection = face_objection(spec);
  if (!offer.objection.empty()) return offer;
  const OperandType type = spec.storage == spec::Storage::f16 ? OperandType::f16 : OperandType::bf16;
  const Matrix weights = compose_taps(op);
  const double tolerance = tolerance_of(spec, op.steps);
  const SingularValues values = singular_values(weights);
  const int most = std::min<int>(most_pairs, static_cast<int>(values.value.size()));
  const TapRange rows{-op.reach_low[spec::axis_y], op.reach_high[spec::axis_y]};
  const TapRange columns{-op.reach_low[spec::axis_x], op.reach_high[spec::axis_x]};
  const double tolerated = std::max(tolerance, 0x1p-45);
  Truncation truncation(weights, values, rows, columns);
  double left = 1;
  int pairs = 0;
  for (; pairs < most && left > tolerated; ++pairs) left = truncation.add_pair();
  if (left > tolerated) {
    offer.objection = fmt::format(
        "the weights are no sum of {} products of a list along y and one along x: {:.1e} of them is left, "
        "the tolerance is {:.1e}",
        most, left, tolerance);
    return offer;
  }
  const bool counts_rounding = op.steps == 1 || spec.tolerance.has_value();
  // What the tolerance leaves, or half of it where rounding wants the other, goes to weights far out.
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

Matrix expand(const LowRank& low_rank) {
  const auto rows = static_cast<int>(low_rank.pairs.front().y.front().size());
  const auto columns = static_cast<int>(low_rank.pairs.front().x.front().size());
  Matrix matrix(rows, columns);
  for (const ListPair& pair : low_rank.pairs)
    add_product(low_rank.scale, total_of(pair.y), total_of(pair.x), matrix);
  return matrix;
}

Contraction contract_low_rank(const Problem& problem, LowRank low_rank) {
  const int high_y = low_rank.y_high();
  const int high_x = low_rank.x_high();
  const auto pairs = static_cast<int>(low_rank.pairs.size());
  low_rank.first_column = first_column_of(low_rank.x_low);
  low_rank.chunks = count_chunks(low_rank.x_low, high_x);
  low_rank.groups_above = count_groups(-low_rank.y_low);
  low_rank.groups_below = count_groups(high_y);

  Contraction contraction;
  contraction.grouping = Grouping::low_rank;
  contraction.whole_operands = true;
  contraction.element_bytes = 2;
  contraction.row_low = low_rank.y_low;
  contraction.row_high = high_y;
  contraction.column_reach = {low_rank.x_low, high_x, low_rank.x_low, high_x};
  contraction.shifts = {0};
  TileMapping along_x;
  along_x.name = pairs == 1 ? "two passes" : fmt::format("two passes of {}", pairs);
  along_x.outputs_per_column = tile_columns;
  TileMapping along_y;
  along_y.name = "pass along y";
  for (int i = 0; i < tile_columns; ++i) {
    along_x.row_output.push_back({0, input_of(i)});
    along_x.column_input.push_back({0, input_of(i)});
    along_y.column_input.push_back({0, i % group_rows});
    if (i < group_rows) along_y.row_output.push_back({0, i});
  }
  along_x.window_low = low_rank.x_low;
  along_x.window_width = high_x - low_rank.x_low + 1;
  contraction.mapping = along_x;
  contraction.sources = {{along_x, 0, false}, {along_y, 0, true}};

  const auto add = [&](const Matrix& matrix, int dy, int shift, int term, int source) {
    contraction.products.push_back({0, source, static_cast<int>(contraction.operands.size()), term, 0, 0});
    contraction.operands.push_back({dy, shift, term, matrix, 0, source});
  };
  for (const ListPair& pair : low_rank.pairs) {
    for (int chunk = 0; chunk < low_rank.chunks; ++chunk) {
      for (int term = 0; term < low_rank.terms; ++term) {
        const int shift = low_rank.first_column + chunk * tile_columns;
        Matrix matrix(tile_columns, tile_columns);
        for (int m = 0; m < tile_columns; ++m) {
          for (int k = 0; k < tile_columns; ++k)
            matrix.at(m, k) = value_of(pair.x[term], shift + input_of(k) - input_of(m) - low_rank.x_low);
        }
        add(matrix, 0, shift, term, 0);
      }
    }
  }
  const int halves = low_rank.groups() * pairs;
  for (int first = 0; first < halves; first += 2) {
    for (int term = 0; term < low_rank.terms; ++term) {
      Matrix matrix(group_rows, tile_columns);
      for (int half = first; half < std::min(first + 2, halves); ++half) {
        const int dy = (half / pairs - low_rank.groups_above) * group_rows;
        for (int n = 0; n < group_rows; ++n) {
          for (int k = 0; k < group_rows; ++k)
            matrix.at(n, (half - first) * group_rows + k) =
                value_of(low_rank.pairs[half % pairs].y[term], dy + k - n - low_rank.y_low);
        }
      }
      add(matrix, (first / pairs - low_rank.groups_above) * group_rows, 0, term, 1);
    }
  }
  contraction.low_rank = std::move(low_rank);
  // What is left of a number of steps is stepped on CUDA cores.
  if (problem.op.steps > 1) contraction.taps = contract_taps(problem).taps;
  return contraction;
}

}  // namespace spidergen::plan
