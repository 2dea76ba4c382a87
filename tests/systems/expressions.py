"""Expressions of specs (stencils/README.md): from text to trees, and their values with bounds of the rounding errors.

A tree is a tuple: ("number", value), ("name", name), ("cell", name, trees of offsets), ("call", name, trees), ("new", name),
("negate", a), ("+" "-" "*" "/" "^", a, b), ("choose", comparison, left, right, yes, no)."""

import dataclasses
import math
import re

import numpy

COMPARISONS = ("<=", ">=", "==", "!=", "<", ">")
_TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?)|([A-Za-z_]\w*)|(<=|>=|==|!=|[-+*/^()\[\],?:<>]))")


class Parser:
    """Recursive descent: choices, comparisons, sums, products, signs, powers."""

    def __init__(self, text):
        self._text, self._tokens, self._next = text, [], 0
        end = 0
        while text[end:].strip():
            found = _TOKEN.match(text, end)
            if not found:
                raise ValueError(f"{text!r}: unexpected text at {end}")
            self._tokens.append(found.group().strip())
            end = found.end()

    def parse(self):
        tree = self._choice()
        if self._next < len(self._tokens):
            raise ValueError(f"{self._text!r}: unexpected {self._tokens[self._next]!r}")
        return tree

    def _peek(self):
        return self._tokens[self._next] if self._next < len(self._tokens) else ""

    def _take(self, *wanted):
        token = self._peek()
        if wanted and token not in wanted:
            raise ValueError(f"{self._text!r}: {token!r} instead of {' or '.join(wanted)}")
        self._next += 1
        return token

    def _choice(self):
        left = self._sum()
        if self._peek() not in COMPARISONS:
            return left
        comparison, right = self._take(), self._sum()
        self._take("?")
        yes = self._choice()
        self._take(":")
        return ("choose", comparison, left, right, yes, self._choice())

    def _sum(self):
        tree = self._product()
        while self._peek() in ("+", "-"):
            tree = (self._take(), tree, self._product())
        return tree

    def _product(self):
        tree = self._signed()
        while self._peek() in ("*", "/"):
            tree = (self._take(), tree, self._signed())
        return tree

    def _signed(self):
        if self._peek() in ("+", "-"):
            return ("negate", self._power()) if self._take() == "-" else self._power()
        return self._power()

    def _power(self):
        base = self._primary()
        if self._peek() != "^":
            return base
        self._take()
        return ("^", base, self._signed())

    def _primary(self):
        token = self._take()
        if token == "(":
            tree = self._choice()
            self._take(")")
            return tree
        if re.match(r"[\d.]", token):
            return ("number", float(token))
        if not re.match(r"[A-Za-z_]", token):
            raise ValueError(f"{self._text!r}: unexpected {token!r}")
        if self._peek() == "(":
            arguments = self._list("(", ")")
            return ("new", arguments[0][1]) if token == "new" else ("call", token, arguments)
        if self._peek() == "[":
            return ("cell", token, self._list("[", "]"))
        return ("name", token)

    def _list(self, opening, closing):
        self._take(opening)
        found = [self._choice()]
        while self._peek() == ",":
            self._take()
            found.append(self._choice())
        self._take(closing)
        return tuple(found)


def parse(text):
    return Parser(str(text)).parse()


def away_from_zero(x):
    """`round` of specs."""
    return numpy.copysign(numpy.floor(numpy.abs(x) + 0.5), x)


def erf(x):
    return numpy.vectorize(math.erf, otypes=[float])(x)


FUNCTIONS = {
    "abs": numpy.abs, "sqrt": numpy.sqrt, "cbrt": numpy.cbrt, "exp": numpy.exp, "log": numpy.log, "log2": numpy.log2,
    "log10": numpy.log10, "sin": numpy.sin, "cos": numpy.cos, "tan": numpy.tan, "asin": numpy.arcsin, "acos": numpy.arccos,
    "atan": numpy.arctan, "sinh": numpy.sinh, "cosh": numpy.cosh, "tanh": numpy.tanh, "erf": erf, "floor": numpy.floor,
    "ceil": numpy.ceil, "round": away_from_zero,
}
_EXACT = ("abs", "floor", "ceil", "round")
_NOT_NEGATIVE = ("sqrt", "log", "log2", "log10")
COMPARE = {"<": numpy.less, "<=": numpy.less_equal, ">": numpy.greater, ">=": numpy.greater_equal, "==": numpy.equal,
           "!=": numpy.not_equal}


def constant(tree, names):
    """The value of a tree of numbers and names alone, in double precision."""
    kind = tree[0]
    if kind == "number":
        return tree[1]
    if kind == "name":
        return math.pi if tree[1] == "pi" else names[tree[1]]
    if kind == "negate":
        return -constant(tree[1], names)
    if kind == "call":
        arguments = [constant(one, names) for one in tree[2]]
        if tree[1] in ("min", "max"):
            return float({"min": min, "max": max}[tree[1]](arguments))
        return float(FUNCTIONS[tree[1]](*arguments))
    a, b = constant(tree[1], names), constant(tree[2], names)
    return {"+": lambda: a + b, "-": lambda: a - b, "*": lambda: a * b, "/": lambda: a / b, "^": lambda: a**b}[kind]()


@dataclasses.dataclass(frozen=True)
class Bounded:
    """Numbers that a kernel computes, of any shapes that broadcast: exact values, the sums of the magnitudes of their terms, and
    what a kernel's numbers may be off by, however it orders sums and products. `epsilon` is the relative error of one operation."""

    value: numpy.ndarray
    magnitude: numpy.ndarray
    error: numpy.ndarray
    epsilon: float

    @staticmethod
    def exact(value, epsilon, error=0.0):
        value = numpy.asarray(value, float)
        return Bounded(value, numpy.abs(value), numpy.asarray(error, float), epsilon)

    def _with(self, value, magnitude, error):
        return Bounded(value, magnitude, error, self.epsilon)

    def _rounded(self, other, value, magnitude, error):
        """Of an operation: nothing is rounded where indices and extents are computed with, in quarters."""
        quarters = 4 * value
        exact = (self.error + other.error == 0) & (quarters == numpy.floor(quarters)) & (numpy.abs(value) < 2.0**20)
        return self._with(value, magnitude, numpy.where(exact, 0.0, error))

    def __neg__(self):
        return self._with(-self.value, self.magnitude, self.error)

    def __add__(self, other):
        magnitude = self.magnitude + other.magnitude
        error = self.error + other.error + self.epsilon * magnitude
        return self._rounded(other, self.value + other.value, magnitude, error)

    def __sub__(self, other):
        return self + -other

    def __mul__(self, other):
        magnitude = self.magnitude * other.magnitude
        error = self.error * other.magnitude + other.error * self.magnitude + self.error * other.error
        return self._rounded(other, self.value * other.value, magnitude, error + self.epsilon * magnitude)

    def __truediv__(self, other):
        """Quotients of f32 are within two units in the last place."""
        least = numpy.abs(other.value) - other.error
        if (least <= 0).any():
            raise ValueError("a divisor may be 0")
        magnitude = self.magnitude / least
        value = self.value / other.value
        error = (self.error + numpy.abs(value) * other.error) / least
        return self._rounded(other, value, magnitude, error + 4 * self.epsilon * magnitude)

    def power(self, other):
        exponents = numpy.unique(other.value)
        if exponents.size == 1 and exponents[0] == numpy.floor(exponents[0]) and 1 <= exponents[0] <= 16:
            result = self
            for _ in range(int(exponents[0]) - 1):
                result = result * self
            return result
        low, high = self.value - self.error, self.value + self.error
        if (low <= 0).any():
            raise ValueError("what has a broken exponent may be 0")
        value = numpy.power(self.value, other.value)
        error = numpy.maximum(numpy.abs(numpy.power(low, other.value) - value), numpy.abs(numpy.power(high, other.value) - value))
        error = error + other.error * numpy.abs(numpy.log(self.value) * value) + 8 * self.epsilon * numpy.abs(value)
        return self._with(value, numpy.abs(value), error)

    def call(self, name):
        function = FUNCTIONS[name]
        low, high = self.value - self.error, self.value + self.error
        if name in _NOT_NEGATIVE:
            low = numpy.maximum(low, 0)
        if name in ("asin", "acos"):
            low, high = numpy.maximum(low, -1), numpy.minimum(high, 1)
        value = function(self.value)
        spread = numpy.maximum(numpy.abs(function(low) - value), numpy.abs(function(high) - value))
        if name in ("sin", "cos", "cosh"):  # which have extrema
            spread = spread + self.error**2 * (1 + numpy.abs(value))
        elif name == "abs":
            spread = self.error
        magnitude = numpy.abs(value)
        return self._with(value, magnitude, spread + (0 if name in _EXACT else 8 * self.epsilon * magnitude))

    @staticmethod
    def extreme(name, arguments):
        function = {"min": numpy.minimum, "max": numpy.maximum}[name]
        value, error = arguments[0].value, arguments[0].error
        for one in arguments[1:]:
            value, error = function(value, one.value), numpy.maximum(error, one.error)
        return arguments[0]._with(value, numpy.abs(value), error)

    @staticmethod
    def choose(comparison, left, right, yes, no):
        """Where the comparison is within its errors, the kernel may take either."""
        holds = COMPARE[comparison](left.value, right.value)
        unsure = (left.error + right.error > 0) & (numpy.abs(left.value - right.value) <= left.error + right.error)
        value = numpy.where(holds, yes.value, no.value)
        error = numpy.where(holds, yes.error, no.error)
        either = numpy.abs(yes.value - no.value) + yes.error + no.error
        return yes._with(value, numpy.where(holds, yes.magnitude, no.magnitude), numpy.where(unsure, either, error))
