"""What a spec means, read by another hand than spider-gen's: for changed specs that it takes. Standard library only."""

import copy
import fractions
import itertools
import math

from spec_trees import Mapping, Scalar, Tree

AXES = "zyx"
FUNCTIONS = {name: getattr(math, name) for name in (
    "sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "erf")}
FUNCTIONS |= {"abs": abs, "min": min, "max": max, "floor": math.floor, "ceil": math.ceil, "pi": math.pi,
              "cbrt": lambda x: math.copysign(abs(x) ** (1 / 3), x), "round": lambda x: math.copysign(math.floor(abs(x) + 0.5), x)}
DIFFERENCES = ("derivative", "laplacian")  # whose `accuracy` is another


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

    def number(self, scalar: Scalar, offsets: dict[str, int] | None = None) -> float:
        names = FUNCTIONS | getattr(self, "parameters", {}) | (offsets or {})
        return float(eval(scalar.text.strip().replace("^", "**"), {"__builtins__": {}}, names))  # noqa: S307: a test's own text

    def of_sum(self, tree: Mapping) -> "Reader":
        """The same spec with the keys of one of its sums."""
        other = copy.copy(self)
        other.keys = entries(tree)
        return other

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

    def by_axis(self, key: str, absent: float | None = None) -> list[float]:
        """The numbers of a key that is one number, or one for each axis."""
        tree = self.keys.get(key)
        if isinstance(tree, Mapping):
            return [self.number(entries(tree)[axis]) if axis in entries(tree) else absent for axis in self.axes]
        return [absent if tree is None else self.number(tree)] * len(self.axes)

    def outer(self, lists: list[list[float]]) -> dict[tuple[int, ...], float]:
        return {self.full(tuple(place - len(one) // 2 for place, one in zip(places, lists))):
                math.prod(one[place] for place, one in zip(places, lists))
                for places in itertools.product(*(range(len(one)) for one in lists))}

    def difference(self, order: int, spacing: float) -> list[float]:
        """Of one axis: what differentiates all polynomials that so many points can tell apart."""
        if order == 0:
            return [1.0]
        accuracy = int(self.number(self.keys["accuracy"])) if "accuracy" in self.keys else 2
        radius = (order + 1) // 2 - 1 + accuracy // 2
        points = range(-radius, radius + 1)
        rows = [[fractions.Fraction(x) ** degree for x in points] +
                [fractions.Fraction(math.factorial(order) if degree == order else 0)] for degree in range(len(points))]
        for column in range(len(rows)):  # Gauss and Jordan
            pivot = next(row for row in range(column, len(rows)) if rows[row][column] != 0)
            rows[column], rows[pivot] = rows[pivot], rows[column]
            rows[column] = [value / rows[column][column] for value in rows[column]]
            for row in range(len(rows)):
                if row != column:
                    rows[row] = [a - rows[row][column] * b for a, b in zip(rows[row], rows[column])]
        return [float(row[-1] / fractions.Fraction(spacing) ** order) for row in rows]

    def derivative(self, _: None) -> dict[tuple[int, ...], float]:
        orders = entries(self.keys["order"])
        return self.outer([self.difference(int(self.number(orders[axis])) if axis in orders else 0, spacing)
                           for axis, spacing in zip(self.axes, self.by_axis("spacing", 1.0))])

    def laplacian(self, _: None) -> dict[tuple[int, ...], float]:
        taps: dict[tuple[int, ...], float] = {}
        for axis, spacing in enumerate(self.by_axis("spacing", 1.0)):
            weights = self.difference(2, spacing)
            for place, weight in enumerate(weights):
                offset = self.full(tuple(place - len(weights) // 2 if axis == one else 0 for one in range(len(self.axes))))
                taps[offset] = taps.get(offset, 0.0) + weight
        return taps

    def gaussian(self, _: None) -> dict[tuple[int, ...], float]:
        truncate = self.number(self.keys["truncate"]) if "truncate" in self.keys else 4.0
        lists = []
        for sigma in self.by_axis("sigma"):
            radius = int(truncate * sigma + 0.5)
            weights = [math.exp(-0.5 * (x / sigma) ** 2) if x else 1.0 for x in range(-radius, radius + 1)]
            lists.append([weight / math.fsum(weights) for weight in weights])
        return self.outer(lists)

    def formula(self, _: None) -> dict[tuple[int, ...], float]:
        ranges = [range(-int(radius), int(radius) + 1) for radius in self.by_axis("radius")]
        return {self.full(offset): self.number(self.keys["weight"], dict(zip(self.axes, offset)))
                for offset in itertools.product(*ranges)}

    def weights(self) -> dict[tuple[int, ...], float]:
        scale = self.number(self.keys["scale"]) if "scale" in self.keys else 1.0
        found = {offset: scale * weight
                 for offset, weight in getattr(self, self.keys["shape"].text)(self.keys.get("coefficients")).items()}
        if "center" in self.keys:
            found[0, 0, 0] = found.get((0, 0, 0), 0.0) + self.number(self.keys["center"])
        return {offset: weight for offset, weight in found.items() if weight != 0}

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


def system_differences(spec: Reader, told: dict) -> list[str]:
    """The same of a system of equations: its fields, scalars and stages. tests/systems reads its expressions."""
    fields = spec.keys["fields"]
    own = entries(fields) if isinstance(fields, Mapping) else {name.text: Mapping([]) for name in fields}
    stages = [[name for name in entries(stage) if name != "let"] for stage in spec.keys["stages"]]
    wanted = []
    for name, value in own.items():
        keys = entries(value)
        axes = sorted((axis.text for axis in keys["axes"]), reverse=True) if "axes" in keys else list(spec.axes)
        wanted.append((name, keys.get("storage", spec.keys["storage"]).text, axes, any(name in stage for stage in stages)))
    found = [(field["name"], field["storage"], field["axes"], field["written"]) for field in told["fields"]]
    problems = [] if found == wanted else [f"the fields are {found} and not {wanted}"]
    scalars = [scalar.text for scalar in spec.keys.get("scalars", [])]
    if told["scalars"] != scalars:
        problems.append(f"the scalars are {told['scalars']} and not {scalars}")
    taken = [sweep["first_stage"] + i for sweep in told["sweeps"] for i in range(sweep["stages"])]
    if taken != list(range(len(stages))):
        problems.append(f"sweeps take the stages {taken} of {len(stages)}")
    if (told["storage"], told["dimensions"]) != (spec.keys["storage"].text, len(spec.axes)):
        problems.append(f"it is of {told['dimensions']}D {told['storage']}")
    return problems


def differences(tree: Mapping, told: dict) -> list[str]:
    """Where what --explain tells of a kernel is not what the spec says."""
    spec = Reader(tree)
    if "stages" in spec.keys:
        return system_differences(spec, told)
    shape = spec.keys["shape"].text if "shape" in spec.keys else None
    defaults = {"accumulate": "f64" if told["storage"] == "f64" else "f32", "accuracy": "full"}
    problems = [f"{key} is {told[key]}" for key, default in defaults.items()
                if told[key] != (spec.keys[key].text
                                 if key in spec.keys and not (key == "accuracy" and shape in DIFFERENCES)
                                 else default)]
    if told["storage"] != spec.keys["storage"].text or told["dimensions"] != len(spec.axes):
        problems.append(f"it is of {told['dimensions']}D {told['storage']}")
    sums = entries(spec.keys["sums"]) if "sums" in spec.keys else {"sum": tree}
    if [one["name"] for one in told["sums"]] != list(sums):
        problems.append(f"the sums are {told['sums']} and not {list(sums)}")
    for place, (name, keys) in enumerate(sums.items()):
        wanted = spec.of_sum(keys).weights()
        taps = {tuple(tap["at"]): tap["weight"] for tap in told["taps"] if tap.get("sum", 0) == place}
        # Weights that cancel leave what rounding leaves.
        largest = max(map(abs, wanted.values()))
        for offset in wanted.keys() | taps.keys():
            if not math.isclose(wanted.get(offset, 0), taps.get(offset, 0), rel_tol=1e-12, abs_tol=1e-14 * largest):
                problems.append(f"the weight of {name} at {offset} is {taps.get(offset, 0)} and not {wanted.get(offset, 0)}")
    for axis, faces in spec.faces().items():
        for side, (rule, value) in zip(("low", "high"), faces):
            face = told["boundary"][axis][side]
            if (face["rule"], face["value"]) != (rule, value):
                problems.append(f"the {side} face of {axis} is {face} and not {rule} {value}")
    return problems
