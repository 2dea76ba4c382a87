#include "adjoint/differentiate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <numbers>
#include <string_view>

namespace spidergen::adjoint {
namespace {

using spec::UpdateNode;
using spec::UpdateOperation;

/// Operations that omit factors of 1 and summands of 0.
class Algebra {
 public:
  explicit Algebra(spec::ExpressionNodes& nodes) : nodes_(nodes) {}

  int number(double value) { return checked(nodes_.number(value)); }
  int operation(UpdateOperation operation, std::vector<int> arguments, std::string_view function = {}) {
    return checked(nodes_.combine(operation, std::move(arguments), function));
  }
  int call(std::string_view function, int argument) {
    return operation(UpdateOperation::call, {argument}, function);
  }
  int multiply(int a, int b) {
    if (is(a, 1) || is(b, 0)) return b;
    if (is(b, 1) || is(a, 0)) return a;
    return operation(UpdateOperation::multiply, {a, b});
  }
  int divide(int a, int b) { return is(b, 1) ? a : operation(UpdateOperation::divide, {a, b}); }
  int add(int a, int b) {
    if (is(a, 0)) return b;
    return is(b, 0) ? a : operation(UpdateOperation::add, {a, b});
  }
  int subtract(int a, int b) { return is(b, 0) ? a : operation(UpdateOperation::subtract, {a, b}); }
  /// The square, and other powers of numbers.
  int power(int base, double exponent) {
    if (exponent == 0) return number(1);
    return exponent == 1 ? base : operation(UpdateOperation::power, {base, number(exponent)});
  }
  int choose(int condition, int first, int second) {
    if (first == second) return first;
    return checked(nodes_.add({UpdateOperation::choose, 0, 0, {}, {condition, first, second}}));
  }
  int compare(UpdateOperation comparison, int a, int b) {
    return checked(nodes_.add({comparison, 0, 0, {}, {a, b}}));
  }

 private:
  [[nodiscard]] bool is(int node, double value) const {
    return nodes_.is_number(node) && nodes_[node].value == value;
  }
  int checked(int node) const {
    if (node == spec::ExpressionNodes::none) throw Objection{nodes_.objection()};
    return node;
  }

  spec::ExpressionNodes& nodes_;
};

class Differentiator {
 public:
  Differentiator(spec::ExpressionNodes& nodes, const std::map<int, Terms>& seeds)
      : nodes_(nodes), of_(nodes), open_(seeds.begin(), seeds.end()) {
    depends_.reserve(nodes.all().size());
    for (const UpdateNode& node : nodes.all()) {
      bool depends = node.operation == UpdateOperation::cell;
      for (const int argument : node.arguments) depends = depends || depends_[std::size_t(argument)];
      depends_.push_back(depends);
    }
  }

  Derivatives run() {
    while (!open_.empty()) {  // users are visited before their arguments
      const int place = open_.begin()->first;
      const Terms terms = std::move(open_.begin()->second);
      open_.erase(open_.begin());
      const UpdateNode node = nodes_[place];
      if (node.operation == UpdateOperation::cell) {
        add(derivatives_[{node.which, node.at}], terms, 1);
      } else if (depends_[static_cast<std::size_t>(place)]) {
        pass(place, node, terms);
      }
    }
    return std::move(derivatives_);
  }

 private:
  static void add(Terms& to, const Terms& terms, double weight) {
    for (const auto& [own, node] : terms) {
      const auto same =
          std::find_if(to.begin(), to.end(), [n = node](const auto& t) { return t.second == n; });
      if (same == to.end()) {
        to.emplace_back(weight * own, node);
      } else {
        same->first += weight * own;
      }
    }
    std::erase_if(to, [](const auto& term) { return term.first == 0; });
  }

  /// Adds `weight` times the terms to the argument.
  void give(int argument, const Terms& terms, double weight = 1) {
    if (depends_[static_cast<std::size_t>(argument)]) add(open_[argument], terms, weight);
  }

  /// Adds the function of the terms to the argument, as one value apart from a weight.
  template <class Function>
  void give_product(int argument, const Terms& terms, const Function& product, double weight = 1) {
    if (!depends_[static_cast<std::size_t>(argument)]) return;
    const bool is_single = terms.size() == 1;
    const int value = is_single ? terms.front().second : sum_of(nodes_, terms);
    give(argument, {{is_single ? terms.front().first : 1.0, product(value)}}, weight);
  }

  void pass(int place, const UpdateNode& node, const Terms& terms) {
    const std::vector<int>& to = node.arguments;
    switch (node.operation) {
      case UpdateOperation::negate:
        return give(to[0], terms, -1);
      case UpdateOperation::add:
      case UpdateOperation::subtract:
        give(to[0], terms);
        return give(to[1], terms, node.operation == UpdateOperation::add ? 1 : -1);
      case UpdateOperation::multiply:
        return pass_product(to[0], to[1], terms);
      case UpdateOperation::divide:
        return pass_quotient(place, to[0], to[1], terms);
      case UpdateOperation::power:
        return pass_power(place, to[0], to[1], terms);
      case UpdateOperation::choose:
        give_product(to[1], terms, [&](int t) { return of_.choose(to[0], t, of_.number(0)); });
        return give_product(to[2], terms, [&](int t) { return of_.choose(to[0], of_.number(0), t); });
      case UpdateOperation::call:
        return pass_call(place, node, terms);
      default:
        throw Objection{
            "'adjoint' has no adjoint here; of a linear system the spec that it was made from is the adjoint "
            "of the adjoint"};
    }
  }

  void pass_product(int a, int b, const Terms& terms) {
    if (nodes_.is_number(a)) return give(b, terms, nodes_[a].value);
    if (nodes_.is_number(b)) return give(a, terms, nodes_[b].value);
    give_product(a, terms, [&](int t) { return of_.multiply(b, t); });
    give_product(b, terms, [&](int t) { return of_.multiply(a, t); });
  }

  void pass_quotient(int quotient, int a, int b, const Terms& terms) {
    if (nodes_.is_number(b)) return give(a, terms, 1 / nodes_[b].value);
    give_product(a, terms, [&](int t) { return of_.divide(t, b); });
    give_product(
        b, terms, [&](int t) { return of_.divide(of_.multiply(quotient, t), b); }, -1);
  }

  void pass_power(int power, int a, int b, const Terms& terms) {
    if (nodes_.is_number(b)) {
      const double exponent = nodes_[b].value;
      if (exponent == 0) return;
      if (exponent == 0.5)
        return give_product(
            a, terms, [&](int t) { return of_.divide(t, power); }, exponent);
      return give_product(
          a, terms, [&](int t) { return of_.multiply(of_.power(a, exponent - 1), t); }, exponent);
    }
    give_product(a, terms, [&](int t) {
      const int less = of_.subtract(b, of_.number(1));
      return of_.multiply(of_.multiply(b, of_.operation(UpdateOperation::power, {a, less})), t);
    });
    // Where the base is 0, the power is 0 for all exponents near a positive one.
    give_product(b, terms, [&](int t) {
      const int is_positive = of_.compare(UpdateOperation::greater, a, of_.number(0));
      return of_.choose(is_positive, of_.multiply(of_.multiply(power, of_.call("log", a)), t), of_.number(0));
    });
  }

  void pass_extreme(const UpdateNode& node, const Terms& terms) {
    const int a = node.arguments[0];
    if (node.arguments.size() == 1) return give(a, terms);
    const int b = node.arguments[1];
    const bool is_least = node.function == "min";
    const auto takes_first = [&] {
      return of_.compare(is_least ? UpdateOperation::less_equal : UpdateOperation::greater_equal, a, b);
    };
    give_product(a, terms, [&](int t) { return of_.choose(takes_first(), t, of_.number(0)); });
    give_product(b, terms, [&](int t) { return of_.choose(takes_first(), of_.number(0), t); });
  }

  void pass_call(int result, const UpdateNode& node, const Terms& terms) {
    const std::string& name = node.function;
    const int a = node.arguments[0];
    if (name == "min" || name == "max") return pass_extreme(node, terms);
    if (name == "floor" || name == "ceil" || name == "round") return;
    const auto times = [&](const std::function<int()>& factor, double weight = 1) {
      give_product(
          a, terms, [&](int t) { return of_.multiply(factor(), t); }, weight);
    };
    const auto over = [&](const std::function<int()>& divisor, double weight = 1) {
      give_product(
          a, terms, [&](int t) { return of_.divide(t, divisor()); }, weight);
    };
    const auto one_and = [&](UpdateOperation sign, int of) {
      return of_.operation(sign, {of_.number(1), of_.power(of, 2)});
    };
    const auto rest_of_circle = [&] { return of_.call("sqrt", one_and(UpdateOperation::subtract, a)); };
    if (name == "abs") {
      return give_product(a, terms, [&](int t) {
        const int is_negative = of_.compare(UpdateOperation::less, a, of_.number(0));
        return of_.choose(is_negative, of_.operation(UpdateOperation::negate, {t}), t);
      });
    }
    if (name == "sqrt") return over([&] { return result; }, 0.5);
    if (name == "cbrt") return over([&] { return of_.power(result, 2); }, 1.0 / 3);
    if (name == "exp") return times([&] { return result; });
    if (name == "log") return over([&] { return a; });
    if (name == "log2") return over([&] { return a; }, std::numbers::log2e);
    if (name == "log10") return over([&] { return a; }, std::numbers::log10e);
    if (name == "sin") return times([&] { return of_.call("cos", a); });
    if (name == "cos") return times([&] { return of_.call("sin", a); }, -1);
    if (name == "tan") return times([&] { return one_and(UpdateOperation::add, result); });
    if (name == "asin") return over(rest_of_circle);
    if (name == "acos") return over(rest_of_circle, -1);
    if (name == "atan") return over([&] { return one_and(UpdateOperation::add, a); });
    if (name == "sinh") return times([&] { return of_.call("cosh", a); });
    if (name == "cosh") return times([&] { return of_.call("sinh", a); });
    if (name == "tanh") return times([&] { return one_and(UpdateOperation::subtract, result); });
    if (name == "erf") {
      const auto bell = [&] {
        return of_.call("exp", of_.operation(UpdateOperation::negate, {of_.power(a, 2)}));
      };
      return times(bell, 2 * std::numbers::inv_sqrtpi);
    }
    throw Objection{fmt::format("'{}' has no derivative here", name)};
  }

  spec::ExpressionNodes& nodes_;
  Algebra of_;
  std::map<int, Terms, std::greater<>> open_;  ///< by node, the terms from its users
  std::vector<bool> depends_;                  ///< on cells; for the original nodes
  Derivatives derivatives_;
};

}  // namespace

Derivatives differentiate(spec::ExpressionNodes& nodes, const std::map<int, Terms>& seeds) {
  return Differentiator(nodes, seeds).run();
}

int sum_of(spec::ExpressionNodes& nodes, const Terms& terms) {
  Algebra of(nodes);
  int sum = of.number(0);
  for (const auto& [weight, node] : terms) {
    const bool subtracts = weight < 0 && sum != of.number(0);
    const int term = weight == -1 && !subtracts ? of.operation(UpdateOperation::negate, {node})
                                                : of.multiply(of.number(subtracts ? -weight : weight), node);
    sum = subtracts ? of.subtract(sum, term) : of.add(sum, term);
  }
  return sum;
}

}  // namespace spidergen::adjoint
