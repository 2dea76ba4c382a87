"""What a spec means, read by another hand than spider-gen's: for changed specs that it takes. Standard library only."""

import itertools
import math

from spec_trees import Mapping, Scalar, Tree

AXES = "zyx"
FUNCTIONS = {name: getattr(math, name) for name in (
    "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf")}
FUNCTIONS |= {"abs": abs, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil, "pi": math.pi,
              "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x), "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x)}
DEFAULTS = {"accumulate": "f32", "accuracy": "full"}


def entries(tree: Mapping) -> dict[str, Tree]:
    return {key.text: value for key, value in tree.pairs}


class Reader:
    """One spec without errors."""

    def __init__(self, tree: Mapping):
        self.keys = entries(tree)
        self.axes = AXES[3 - int(self.number(self.keys["dimensions"])):]
        self.parameters: dict[str, float] = {}
        for name, value in entries(self.keys.get("parameters", Mapping([]))).items():
            self.parameters[name] = self.number(value)

    def number(self, scalar: Scalar) -> float:
        names = FUNCTIONS | getattr(self, "parameters", {})
        return float(eval(scalar.text.strip().replace("^", "**"), {"__builtins__": {}}, names))  # noqa: S307: a test's own text

    def full(self, offset: tuple[int, ...]) -> tuple[int, ...]:
        return (0,) * (3 - len(self.axes)) + offset

    def box(self, tree: Tree) -> dict[tuple[int, ...], float]:
        def cells(tree: Tree, offset: tuple[int, ...]):
            if isinstance(tree, list):
                for place, item in enumerate(tree):
                    yield from cells(item, (*offset, place - len(tree) // 2))
            else:
                yield offset, self.number(tree)
        return {self.full(offset): weight for offset, weight in cells(tree, ())}

    def product(self, tree: Mapping) -> dict[tuple[int, ...], float]:
        factors = [[self.number(item) for item in entries(tree)[axis]] for axis in self.axes]
        taps = {}
        for places in itertools.product(*(range(len(factor)) for factor in factors)):
            offset = tuple(place - len(factor) // 2 for place, factor in zip(places, factors))
            taps[self.full(offset)] = math.prod(factor[place] for place, factor in zip(places, factors))
        return taps

    def star(self, tree: Mapping) -> dict[tuple[int, ...], float]:
        lists = entries(tree)
        has_center = "center" in lists
        taps = {(0, 0, 0): self.number(lists["center"]) if has_center else 0.0}
        for number, axis in enumerate(self.axes):
            weights = [self.number(item) for item in lists[axis]]
            middle = len(weights) // 2
            if has_center:
                weights.insert(middle, 0.0)
            for place, weight in enumerate(weights):
                offset = [0] * len(self.axes)
                offset[number] = place - middle
                taps[self.full(tuple(offset))] = taps.get(self.full(tuple(offset)), 0.0) + weight
        return taps

    def taps(self, tree: list) -> dict[tuple[int, ...], float]:
        taps = {}
        for item in tree:
            keys = entries(item)
            at = keys["at"]
            named = entries(at) if isinstance(at, Mapping) else dict(zip(self.axes, at))
            offset = tuple(int(self.number(named[axis])) if axis in named else 0 for axis in self.axes)
            taps[self.full(offset)] = self.number(keys["weight"])
        return taps

    def weights(self) -> dict[tuple[int, ...], float]:
        scale = self.number(self.keys["scale"]) if "scale" in self.keys else 1.0
        found = getattr(self, self.keys["shape"].text)(self.keys["coefficients"])
        return {offset: scale * weight for offset, weight in found.items() if scale * weight != 0}

    def face(self, tree: Tree) -> tuple[str, float]:
        if isinstance(tree, Scalar):
            return tree.text, 0.0
        return "constant", self.number(entries(tree)["constant"])

    def faces(self) -> dict[str, tuple]:
        """{axis: (low, high)}"""
        tree = self.keys.get("boundary", Scalar("halo"))
        if isinstance(tree, Scalar) or "constant" in entries(tree):
            return {axis: (self.face(tree),) * 2 for axis in self.axes}
        found = {}
        for axis in self.axes:
            rule = entries(tree).get(axis, Scalar("halo"))
            if isinstance(rule, Mapping) and "constant" not in entries(rule):
                found[axis] = tuple(self.face(entries(rule).get(side, Scalar("halo"))) for side in ("low", "high"))
            else:
                found[axis] = (self.face(rule),) * 2
        return found


def differences(tree: Mapping, told: dict) -> list[str]:
    """Where what --explain tells of a kernel is not what the spec says."""
    spec = Reader(tree)
    problems = [f"{key} is {told[key]}" for key, default in DEFAULTS.items()
                if told[key] != (spec.keys[key].text if key in spec.keys else default)]
    if told["storage"] != spec.keys["storage"].text or told["dimensions"] != len(spec.axes):
        problems.append(f"it is of {told['dimensions']}D {told['storage']}")
    wanted, taps = spec.weights(), {tuple(tap["at"]): tap["weight"] for tap in told["taps"]}
    # Sums that cancel leave what rounding leaves.
    largest = max(map(abs, wanted.values()))
    for offset in wanted.keys() | taps.keys():
        if not math.isclose(wanted.get(offset, 0), taps.get(offset, 0), rel_tol=1e-12, abs_tol=1e-14 * largest):
            problems.append(f"the weight at {offset} is {taps.get(offset, 0)} and not {wanted.get(offset, 0)}")
    for axis, faces in spec.faces().items():
        for side, (rule, value) in zip(("low", "high"), faces):
            face = told["boundary"][axis][side]
            if (face["rule"], face["value"]) != (rule, value):
                problems.append(f"the {side} face of {axis} is {face} and not {rule} {value}")
    return problems
