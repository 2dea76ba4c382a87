"""Systems of equations in double precision, by stencils/README.md: reads the YAML and shares nothing with the generator.

    system = read(text)                       # or a path
    state = {"u": Cells.of(array, (0, 0)), ...}
    state = sweep(system, state, {"dt": 0.1})

A sweep also returns the errors that a kernel's results may have: of each operation by its number type, propagated, then rounded to
the field's storage. A kernel's number k is right if abs(k - values) <= errors."""

import dataclasses
import fractions
import functools
import itertools
import math
import pathlib

import numpy
import yaml

from expressions import Bounded, constant, parse

AXES = "zyx"
EPSILONS = {"f32": 2.0**-24, "f64": 2.0**-53}
_OFFSETS = {"i": "index", "n": "extent"}


# What fields hold


def stored(values, storage):
    """The numbers as a storage holds them, in double precision."""
    values = numpy.asarray(values, float)
    if storage == "f64":
        return values
    with numpy.errstate(over="ignore"):
        if storage != "bf16":
            return values.astype({"f16": numpy.float16, "f32": numpy.float32}[storage]).astype(float)
        mantissa, exponent = numpy.frexp(values)
        least = numpy.maximum(exponent, -125)  # subnormal numbers have fewer digits
        return numpy.ldexp(numpy.rint(numpy.ldexp(mantissa, 8 + exponent - least)), least - 8)


@dataclasses.dataclass(frozen=True)
class Field:
    name: str
    storage: str
    axes: tuple  # whether there are cells, for each axis of the system
    faces: tuple  # for each axis low and high: "halo", "nearest", ... or a number


@dataclasses.dataclass
class Cells:
    """A field's numbers: with the caller's cells around it, `low` before it along each axis. Its extent is 1 along axes that it
    does not have."""

    values: numpy.ndarray
    errors: numpy.ndarray
    low: tuple
    extent: tuple

    @staticmethod
    def of(padded, halo):
        """Of an array with its halo, (low, high) along each axis."""
        padded = numpy.asarray(padded, float)
        extent = tuple(n - low - high for n, (low, high) in zip(padded.shape, halo))
        return Cells(padded.copy(), numpy.zeros(padded.shape), tuple(low for low, _ in halo), extent)

    @property
    def _inner(self):
        return tuple(slice(low, low + n) for low, n in zip(self.low, self.extent))

    @property
    def interior(self):
        return self.values[self._inner]

    @property
    def interior_errors(self):
        return self.errors[self._inner]

    def written(self, values, errors):
        fresh = Cells(self.values.copy(), self.errors.copy(), self.low, self.extent)
        fresh.interior[...] = values
        fresh.interior_errors[...] = errors
        return fresh


def source_of(index, n, faces):
    """Where a cell beyond a face of one axis comes from: index, sign, and the constant there or None. Mapped again and again."""
    sign = 1.0
    while not 0 <= index < n:
        high = index >= n
        rule = faces[high]
        if rule == "halo":
            break
        if not isinstance(rule, str):
            return 0, sign, sign * rule
        if rule == "nearest":
            index = n - 1 if high else 0
        elif rule == "periodic":
            index %= n
        elif rule in ("reflect", "antireflect"):
            index = 2 * n - 1 - index if high else -1 - index
        elif rule in ("mirror", "antimirror"):
            index = 0 if n == 1 else 2 * n - 2 - index if high else -index
        else:  # antisymmetric
            if index in (-1, n):
                return 0, sign, 0.0
            index = 2 * n - index if high else -2 - index
        if rule.startswith("anti"):
            sign = -sign
    return index, sign, None


def extended(cells, field, region):
    """The field's numbers and their errors in a region, (begin, end) along each axis. Axes are extended z, then y, then x. Cells
    that the caller has not given are NaN: kernels do not read what becomes no result."""
    sources = []
    for has, (begin, end), n, faces in zip(field.axes, region, cells.extent, field.faces):
        sources.append([source_of(i, n, faces) for i in range(begin, end)] if has else [(0, 1.0, None)])
    places = [numpy.array([index + low for index, _, _ in along]) for along, low in zip(sources, cells.low)]
    given = functools.reduce(numpy.logical_and.outer, [(along >= 0) & (along < size)
                                                       for along, size in zip(places, cells.values.shape)])
    at = numpy.ix_(*(numpy.clip(along, 0, size - 1) for along, size in zip(places, cells.values.shape)))
    values, errors = numpy.where(given, cells.values[at], numpy.nan), cells.errors[at]
    for axis, along in enumerate(sources):
        shape = [-1 if other == axis else 1 for other in range(len(sources))]
        signs = numpy.array([sign for _, sign, _ in along]).reshape(shape)
        fixed = numpy.array([value is not None for _, _, value in along]).reshape(shape)
        constants = numpy.array([value or 0.0 for _, _, value in along]).reshape(shape)
        values = numpy.where(fixed, constants, signs * values)
        errors = numpy.where(fixed, 0.0, errors)
    return values, errors


# Operators


def derivative_weights(order, accuracy, at):
    """Exact weights of a finite difference by offset, with the fewest points, symmetric around `at`, a multiple of 1/2."""
    at = fractions.Fraction(at)
    count = order + accuracy - 1
    whole = at.denominator == 1
    count += (count + whole) % 2  # an odd number around a point, an even one around the middle between two
    begin = math.ceil(at - fractions.Fraction(count - 1, 2))
    offsets = range(begin, begin + count)
    rows = [[(offset - at) ** power for offset in offsets] for power in range(count)]
    right = [fractions.Fraction(math.factorial(order) if power == order else 0) for power in range(count)]
    weights = solve(rows, right)
    return {offset: weight for offset, weight in zip(offsets, weights) if weight != 0}


def solve(rows, right):
    """Gauss' elimination, exact."""
    table = [list(map(fractions.Fraction, row)) + [value] for row, value in zip(rows, right)]
    for i in range(len(table)):
        pivot = next(k for k in range(i, len(table)) if table[k][i] != 0)
        table[i], table[pivot] = table[pivot], table[i]
        table[i] = [value / table[i][i] for value in table[i]]
        for k, row in enumerate(table):
            if k != i and row[i] != 0:
                table[k] = [a - row[i] * b for a, b in zip(row, table[i])]
    return [row[-1] for row in table]


class Operators:
    """Reads operators to their weights by offset, the spec's parameters given."""

    def __init__(self, dimensions, parameters):
        self._axes = AXES[3 - dimensions:]
        self._parameters = parameters

    def read(self, keys):
        taps = getattr(self, "_" + keys["shape"])(keys)
        scale, center = self._number(keys.get("scale", "1")), self._number(keys.get("center", "0"))
        weights = {}
        for offset, weight in taps:
            weights[offset] = weights.get(offset, 0.0) + scale * float(weight)
        middle = (0,) * len(self._axes)
        weights[middle] = weights.get(middle, 0.0) + center
        return {offset: weight for offset, weight in weights.items() if weight != 0}

    def _number(self, text, **names):
        return constant(parse(text), {**self._parameters, **names})

    def _by_axis(self, value):
        """Of a number for all axes, or of one for each."""
        if isinstance(value, dict):
            return {axis: self._number(one) for axis, one in value.items()}
        return {axis: self._number(value) for axis in self._axes}

    def _along(self, axis, offset):
        return tuple(offset if other == axis else 0 for other in self._axes)

    def _star(self, keys):
        lists = {axis: [self._number(one) for one in values] for axis, values in keys["coefficients"].items() if axis != "center"}
        has_center = "center" in keys["coefficients"]
        if has_center:
            yield self._along("", 0), self._number(keys["coefficients"]["center"])
        for axis, values in lists.items():
            radius = len(values) // 2
            offsets = [i for i in range(-radius, radius + 1) if i != 0 or not has_center]
            yield from ((self._along(axis, offset), value) for offset, value in zip(offsets, values))

    def _box(self, keys):
        values = numpy.array(keys["coefficients"], dtype=object)
        for place in itertools.product(*map(range, values.shape)):
            yield tuple(i - n // 2 for i, n in zip(place, values.shape)), self._number(values[place])

    def _product(self, keys):
        lists = [[(i - len(values) // 2, self._number(one)) for i, one in enumerate(values)]
                 for values in (keys["coefficients"][axis] for axis in self._axes)]
        for taps in itertools.product(*lists):
            yield tuple(offset for offset, _ in taps), math.prod(weight for _, weight in taps)

    def _taps(self, keys):
        for tap in keys["coefficients"]:
            at = tap["at"]
            at = [at.get(axis, "0") for axis in self._axes] if isinstance(at, dict) else at
            yield tuple(int(self._number(one)) for one in at), self._number(tap["weight"])

    def _differences(self, keys, axis, order, at):
        spacing = fractions.Fraction(self._by_axis(keys.get("spacing", "1"))[axis]) ** order
        weights = derivative_weights(order, int(self._number(keys.get("accuracy", "2"))), at)
        return {offset: weight / spacing for offset, weight in weights.items()}

    def _derivative(self, keys):
        orders = {axis: int(self._number(order)) for axis, order in keys["order"].items()}
        at = {axis: self._number(value) for axis, value in keys.get("at", {}).items()}
        along = [self._differences(keys, axis, orders[axis], at.get(axis, 0)).items() if orders.get(axis, 0) else [(0, 1)]
                 for axis in self._axes]
        for taps in itertools.product(*along):
            yield tuple(offset for offset, _ in taps), math.prod(weight for _, weight in taps)

    def _laplacian(self, keys):
        for axis in self._axes:
            for offset, weight in self._differences(keys, axis, 2, 0).items():
                yield self._along(axis, offset), weight

    def _gaussian(self, keys):
        truncate = self._number(keys.get("truncate", "4"))
        sigmas = self._by_axis(keys["sigma"])
        along = []
        for axis in self._axes:
            sigma = sigmas.get(axis, 0.0)
            radius = int(truncate * sigma + 0.5)
            weights = [math.exp(-i * i / (2 * sigma * sigma)) if i else 1.0 for i in range(-radius, radius + 1)]
            along.append([(i - radius, weight / sum(weights)) for i, weight in enumerate(weights)])
        for taps in itertools.product(*along):
            yield tuple(offset for offset, _ in taps), math.prod(weight for _, weight in taps)

    def _formula(self, keys):
        radii = self._by_axis(keys["radius"])
        tree = parse(keys["weight"])
        for offset in itertools.product(*(range(-int(radii[axis]), int(radii[axis]) + 1) for axis in self._axes)):
            yield offset, constant(tree, {**self._parameters, **dict(zip(self._axes, map(float, offset)))})


# Systems


@dataclasses.dataclass(frozen=True)
class Stage:
    lets: dict  # trees by name
    assignments: dict  # trees by field


@dataclasses.dataclass(frozen=True)
class System:
    name: str
    dimensions: int
    parameters: dict
    scalars: list
    fields: dict
    operators: dict  # weights by offset, by name
    stages: list
    reductions: dict  # (kind, tree) by name

    @property
    def number(self):
        """The type of the arithmetic."""
        return "f64" if any(field.storage == "f64" for field in self.fields.values()) else "f32"

    @property
    def written(self):
        return [name for name in self.fields if any(name in stage.assignments for stage in self.stages)]


def read(source, definitions=None):
    """Of YAML text, or of a file. `definitions` replace parameters, as -D does."""
    text = source.read_text(encoding="utf-8") if isinstance(source, pathlib.Path) else source
    keys = yaml.load(text, yaml.BaseLoader)
    dimensions = int(keys["dimensions"])
    parameters = {}
    for name, expression in keys.get("parameters", {}).items():
        parameters[name] = constant(parse((definitions or {}).get(name, expression)), parameters)
    operators = Operators(dimensions, parameters)
    fields = keys["fields"]
    fields = {name: {} for name in fields} if isinstance(fields, list) else {name: own or {} for name, own in fields.items()}
    return System(
        keys["stencil"], dimensions, parameters, keys.get("scalars", []),
        {name: _field(name, own, keys, dimensions, parameters) for name, own in fields.items()},
        {name: operators.read(own) for name, own in keys.get("operators", {}).items()},
        [_stage(stage) for stage in keys["stages"]],
        {name: next((kind, parse(text)) for kind, text in own.items()) for name, own in keys.get("reduce", {}).items()})


def _field(name, own, keys, dimensions, parameters):
    axes = AXES[3 - dimensions:]
    storage = own.get("storage", keys["storage"])
    boundary = own.get("boundary", keys.get("boundary", "halo"))
    has = own.get("axes", list(axes))
    return Field(name, storage, tuple(axis in has for axis in axes),
                 tuple(_faces(boundary, axis, storage, parameters) for axis in axes))


def _faces(boundary, axis, storage, parameters):
    def rule(value):
        if isinstance(value, dict):
            return float(stored(constant(parse(value["constant"]), parameters), storage))
        return value

    if isinstance(boundary, dict) and "constant" not in boundary:
        boundary = boundary.get(axis, "halo")
        if isinstance(boundary, dict) and "constant" not in boundary:
            return tuple(rule(boundary.get(side, "halo")) for side in ("low", "high"))
    return (rule(boundary),) * 2


def _stage(keys):
    lets = {name: parse(text) for name, text in keys.get("let", {}).items()}
    return Stage(lets, {name: parse(text) for name, text in keys.items() if name != "let"})


class Evaluation:
    """Expressions of a stage on regions: boxes of points, (begin, end) along each axis, which may lie beyond the faces."""

    def __init__(self, system, state, scalars, lets, after=None):
        self._system, self._state, self._lets, self._after = system, state, lets, after
        self._epsilon = EPSILONS[system.number]
        self._scalars = {name: self._constant(stored(scalars[name], system.number)) for name in system.scalars}
        self.extent = extent_of(system, state)

    def everywhere(self, tree):
        """At all points."""
        return self.at(tree, tuple((0, n) for n in self.extent))

    def _constant(self, value):
        """Not rounded yet, unless the type has the number."""
        rounding = 0.0 if stored(value, self._system.number) == value else self._epsilon * abs(value)
        return Bounded.exact(value, self._epsilon, rounding)

    def at(self, tree, region):
        kind = tree[0]
        if kind == "number":
            return self._constant(tree[1])
        if kind == "name":
            return self._name(tree[1], region)
        if kind == "cell":
            offset = [int(constant(one, self._system.parameters)) for one in tree[2]]
            return self._name(tree[1], shifted(region, offset))
        if kind == "new":
            return self._cells(self._after, tree[1], region)
        if kind == "negate":
            return -self.at(tree[1], region)
        if kind == "choose":
            return Bounded.choose(tree[1], *(self.at(one, region) for one in tree[2:]))
        if kind == "call":
            return self._call(tree[1], tree[2], region)
        a, b = self.at(tree[1], region), self.at(tree[2], region)
        return {"+": a.__add__, "-": a.__sub__, "*": a.__mul__, "/": a.__truediv__, "^": a.power}[kind](b)

    def _name(self, name, region):
        if name in self._lets:
            return self.at(self._lets[name], region)
        if name in self._system.fields:
            return self._cells(self._state, name, region)
        if name in self._scalars:
            return self._scalars[name]
        if name == "pi" or name in self._system.parameters:
            return self._constant(math.pi if name == "pi" else self._system.parameters[name])
        axis = AXES[3 - self._system.dimensions:].index(name[1])
        if _OFFSETS[name[0]] == "extent":
            return self._constant(float(self.extent[axis]))
        shape = [-1 if other == axis else 1 for other in range(self._system.dimensions)]
        return Bounded.exact(numpy.arange(*region[axis], dtype=float).reshape(shape), self._epsilon)

    def _cells(self, state, name, region):
        values, errors = extended(state[name], self._system.fields[name], region)
        return Bounded.exact(values, self._epsilon, errors)

    def _call(self, name, arguments, region):
        if name in self._system.operators:
            return self._operator(self._system.operators[name], arguments[0], region)
        values = [self.at(one, region) for one in arguments]
        return Bounded.extreme(name, values) if name in ("min", "max") else values[0].call(name)

    def _operator(self, weights, tree, region):
        """The argument at all taps, then their sum."""
        lows = [min(offsets) for offsets in zip(*weights)]
        highs = [max(offsets) for offsets in zip(*weights)]
        around = tuple((begin + low, end + high) for (begin, end), low, high in zip(region, lows, highs))
        inner = self.at(tree, around)
        shape = [end - begin for begin, end in around]
        parts = [numpy.broadcast_to(part, shape) for part in (inner.value, inner.magnitude, inner.error)]
        sums = [0.0, 0.0, 0.0]
        for offset, weight in weights.items():
            place = tuple(slice(o - low, o - low + end - begin) for o, low, (begin, end) in zip(offset, lows, region))
            sums = [total + factor * part[place] for total, factor, part in zip(sums, (weight, abs(weight), abs(weight)), parts)]
        value, magnitude, error = sums
        return Bounded(value, magnitude, error + (len(weights) + 2) * self._epsilon * magnitude, self._epsilon)


def shifted(region, offset):
    return tuple((begin + by, end + by) for (begin, end), by in zip(region, offset))


def extent_of(system, state):
    """Of the fields that have an axis."""
    return tuple(next((state[name].extent[axis] for name, field in system.fields.items() if field.axes[axis]), 1)
                 for axis in range(system.dimensions))


def sweep(system, state, scalars=None):
    """All stages. Returns the new state; `state` stays. Cells beyond `halo` faces stay what they are."""
    with numpy.errstate(under="ignore"):
        for stage in system.stages:
            evaluation = Evaluation(system, state, scalars or {}, stage.lets)
            found = {name: evaluation.everywhere(tree) for name, tree in stage.assignments.items()}
            state = {**state, **{name: _stored(state[name], system.fields[name].storage, one) for name, one in found.items()}}
    return state


def _stored(cells, storage, result):
    """Rounding is monotone: a kernel's number lies between those of the ends of the interval."""
    values, low, high = (stored(one, storage) for one in (result.value, result.value - result.error, result.value + result.error))
    return cells.written(values, numpy.maximum(high - values, values - low))


def reductions(system, before, after, scalars=None):
    """The numbers of `reduce`, with what a kernel's may be off by. Its sums add nothing; NumPy's are rounded."""
    found = {}
    evaluation = Evaluation(system, before, scalars or {}, {}, after)
    for name, (kind, tree) in system.reductions.items():
        one = evaluation.everywhere(tree)
        value, error = (numpy.broadcast_to(part, evaluation.extent) for part in (one.value, one.error))
        if kind == "sum":
            found[name] = value.sum(), error.sum() + EPSILONS["f64"] * value.size * numpy.abs(value).sum()
        else:
            found[name] = getattr(value, kind)(), error.max()
    return found
