"""Random valid systems of equations, well-conditioned: fields that begin within -1 .. 1 stay there.

    random_system.py [SEED]      # writes the YAML of one"""

import json
import random
import re
import sys

import reference

AXES = reference.AXES
NAMES = ("u", "v", "w", "p", "q", "r", "s", "vx", "vy", "sxx", "b", "lam")
RULES = ("nearest", "periodic", "reflect", "mirror", "antisymmetric", "constant", "constant")
MOST_NODES = 1500  # of a stage, about, so that compilers take a moment
MOST_REACH = {1: 40, 2: 12, 3: 6}


class Term:
    """An expression: its text, a bound of its magnitude, how far it reads, about how many nodes it has."""

    def __init__(self, text, bound, reach=0, nodes=1):
        self.text, self.bound, self.reach, self.nodes = text, bound, reach, nodes


def number(value):
    return f"{value:.3g}"


class _Operators:
    """Operators of every shape."""

    def __init__(self, rng, dimensions, parameters):
        self._rng, self._axes, self._parameters = rng, AXES[3 - dimensions:], parameters
        self._radius = {1: 5, 2: 2, 3: 1}[dimensions]

    def make(self):
        rng = self._rng
        shape = rng.choice(("star", "box", "product", "taps", "derivative", "derivative", "derivative", "laplacian", "gaussian",
                            "formula"))
        keys = {"shape": shape, **getattr(self, "_" + shape)()}
        if rng.random() < 0.2:
            keys["scale"] = rng.choice(["h", "1/h", number(rng.uniform(0.2, 2))])
        if rng.random() < 0.15:
            keys["center"] = number(rng.uniform(-1, 1))
        return keys

    def _weight(self):
        return self._rng.choice([number(self._rng.uniform(-1, 1)), "1/4", "-1/2", "h", "1/3"])

    def _list(self, count):
        return [self._weight() for _ in range(count)]

    def _star(self):
        radii = {axis: self._rng.randint(0, self._radius + 1) for axis in self._axes}
        if self._rng.random() < 0.5:
            lists = {axis: self._list(2 * radius) for axis, radius in radii.items()}
            return {"coefficients": {"center": self._weight(), **lists}}
        return {"coefficients": {axis: self._list(2 * radius + 1) for axis, radius in radii.items()}}

    def _box(self):
        def nested(counts):
            return self._list(counts[0]) if len(counts) == 1 else [nested(counts[1:]) for _ in range(counts[0])]

        return {"coefficients": nested([2 * self._rng.randint(0, self._radius) + 1 for _ in self._axes])}

    def _product(self):
        return {"coefficients": {axis: self._list(2 * self._rng.randint(0, self._radius) + 1) for axis in self._axes}}

    def _taps(self):
        far = self._radius + 2
        places = {tuple(self._rng.randint(-far, far) for _ in self._axes) for _ in range(self._rng.randint(1, 6))}
        return {"coefficients": [{"at": list(place), "weight": self._weight()} for place in sorted(places)]}

    def _derivative(self):
        rng = self._rng
        axes = rng.sample(self._axes, 1 if rng.random() < 0.8 else min(2, len(self._axes)))
        keys = {"order": {axis: rng.choice((1, 1, 1, 2, 3)) for axis in axes}}
        at = {axis: rng.choice(("1/2", "-1/2")) for axis in axes if rng.random() < 0.6}
        keys["accuracy"] = rng.choice((2, 2, 4)) if len(self._axes) > 1 else rng.choice((2, 4, 8))
        keys["spacing"] = rng.choice(["h", 1, "2*h", {axis: number(rng.uniform(0.5, 2)) for axis in self._axes}])
        return keys | ({"at": at} if at else {})

    def _laplacian(self):
        return {"accuracy": self._rng.choice((2, 4)), "spacing": self._rng.choice(("h", 1))}

    def _gaussian(self):
        sigma = {1: 1.2, 2: 0.6, 3: 0.4}[len(self._axes)]
        return {"sigma": sigma, "truncate": self._rng.choice((2, 3))}

    def _formula(self):
        radius = {axis: self._rng.randint(0, self._radius) for axis in self._axes}
        radius["x"] = max(1, radius["x"])
        terms = " + ".join(f"{self._rng.randint(1, 4)}*{axis}" for axis in self._axes)
        return {"radius": radius, "weight": f"cos({terms} + h)"}


class _Maker:
    def __init__(self, seed, dimensions, halo, cut=False):
        self._seed, self._rng = seed, random.Random(seed)
        self._odd = random.Random(f"odd {seed}")  # of its own, so that other draws stay as they were
        rng = self._rng
        self._dimensions = dimensions or rng.choice((1, 2, 2, 2, 3, 3))
        self._axes = AXES[3 - self._dimensions:]
        self._rings = {axis: rng.random() < 0.3 for axis in self._axes} if cut else None
        self._halo = rng.random() < 0.25 if halo is None else halo
        self._parameters = {"h": rng.choice(("0.5", "0.75", "2")), "c": "h/4 + 1/8"}
        self._scalars = [f"a{i}" for i in range(rng.choice((0, 1, 2, 3)))]
        self._lets = {}
        storages = rng.choice((("f32",), ("f32",), ("f64",), ("f32", "f16", "bf16"), ("f16",), ("bf16",), ("f16", "bf16"),
                               ("f32", "f16", "bf16", "f64")))
        self._storages = storages
        self._make_fields()
        self._make_operators()

    def _make_fields(self):
        rng = self._rng
        count = rng.choice((1, 2, 3, 3, 4, 5, 6, 8, 12))
        self._fields = {}
        for i, name in enumerate(NAMES[:count]):
            own = {"storage": rng.choice(self._storages)}
            axes = list(self._axes)
            if i > 0 and self._dimensions > 1 and rng.random() < 0.15:
                own["axes"] = axes = [axis for axis in axes if rng.random() < 0.4][:self._dimensions - 1] or ["x"]
            self._fields[name] = {**own, "boundary": self._boundary(axes)}
        self._whole = [name for name, own in self._fields.items() if "axes" not in own]

    def _boundary(self, axes):
        rng = self._rng
        if self._rings is None and rng.random() < 0.3:
            return self._rule(False)
        sides = {}
        for axis in axes:
            rule = self._rule(False) if self._rings is None else "periodic" if self._rings[axis] else self._rule(True)
            if rule != "periodic" and rng.random() < 0.4:
                rule = {"low": self._rule(True), "high": self._rule(True)}
            sides[axis] = rule
        return sides

    def _rule(self, one_side):
        rule = self._rng.choice([one for one in RULES if not (one_side and one == "periodic")])
        if self._halo and self._rng.random() < 0.5:
            return "halo"
        if rule in ("reflect", "mirror") and self._odd.random() < 0.4:
            return f"anti{rule}"
        return {"constant": self._rng.choice(("0", "0.5", "-1", "h/2"))} if rule == "constant" else rule

    def _make_operators(self):
        rng = self._rng
        parameters = {}
        for name, text in self._parameters.items():
            parameters[name] = reference.constant(reference.parse(text), parameters)
        make, read = _Operators(rng, self._dimensions, parameters), reference.Operators(self._dimensions, parameters)
        self._operators, self._weights = {}, {}
        for i in range(rng.choice((0, 1, 2, 3, 4, 6))):
            keys = make.make()
            weights = read.read(as_text(keys))
            reach = max((abs(o) for offset in weights for o in offset), default=0)
            if weights and reach <= MOST_REACH[self._dimensions]:
                self._operators[f"d{i}"], self._weights[f"d{i}"] = keys, weights

    # Expressions

    def _leaf(self):
        rng = self._rng
        kind = rng.random()
        if kind < 0.45 or (kind < 0.7 and not self._lets):
            return Term(rng.choice(list(self._fields)), 1)
        if kind < 0.6:
            return self._cell(rng.choice(list(self._fields)), Term("", 1))
        if kind < 0.7:
            name = rng.choice(list(self._lets))
            return self._cell(name, self._lets[name]) if rng.random() < 0.5 else self._let(name)
        if kind < 0.8 and self._scalars:
            return Term(rng.choice(self._scalars), 1)
        if kind < 0.87:
            axis = rng.choice(self._axes)
            return rng.choice((Term(f"sin(0.25*i{axis})", 1, nodes=3), Term(f"i{axis}/(n{axis} + 20)", 3, nodes=4)))
        return Term(rng.choice((number(rng.uniform(-1, 1)), "c", "pi/4", "h/2")), 1)

    def _let(self, name):
        return Term(name, self._lets[name].bound, self._lets[name].reach, self._lets[name].nodes)

    def _cell(self, name, inner):
        far = {1: 6, 2: 3, 3: 2}[self._dimensions]
        offsets = [self._rng.randint(-far, far) for _ in self._axes]
        return Term(f"{name}[{', '.join(map(str, offsets))}]", inner.bound, inner.reach + far, inner.nodes)

    def _expression(self, depth):
        rng = self._rng
        if depth == 0:
            return self._leaf()
        if self._operators and rng.random() < 0.45:
            term = self._applied(self._expression(depth - 1))
            if term is not None:
                return term
        a = self._expression(depth - 1)
        kind = rng.choice(("+", "-", "*", "*", "/", "call", "extreme", "choose", "power", "negate"))
        if kind == "call":
            return self._call(a)
        if kind == "negate":
            return Term(f"(-({a.text}))", a.bound, a.reach, a.nodes + 1)
        if kind == "power":
            if a.bound > 3:
                return a
            exponent = rng.choice((2, 3))
            return Term(f"({a.text})^{exponent}", a.bound**exponent, a.reach, a.nodes + 2)
        b = self._expression(depth - 1)
        reach, nodes = max(a.reach, b.reach), a.nodes + b.nodes + 2
        if kind in "+-":
            return Term(f"({a.text} {kind} ({b.text}))", a.bound + b.bound, reach, nodes)
        if kind == "*":
            return Term(f"({a.text})*({b.text})", a.bound * b.bound, reach, nodes)
        if kind == "/":
            return Term(f"({a.text})/(1.5 + abs({b.text}))", a.bound, reach, nodes + 2)
        if kind == "extreme":
            return Term(f"{rng.choice(('min', 'max'))}({a.text}, {b.text})", max(a.bound, b.bound), reach, nodes)
        return Term(f"({self._condition(a)} ? {a.text} : {b.text})", max(a.bound, b.bound), reach, 2 * nodes)

    def _condition(self, term):
        rng = self._rng
        axis = rng.choice(self._axes)
        comparison = rng.choice(("<", "<=", ">", ">=", "!="))
        return rng.choice((f"i{axis} {comparison} {rng.randint(0, 9)}", f"i{axis} == floor(n{axis}/2)",
                           f"i{axis} {comparison} n{axis} - 3", f"{term.text} {comparison} 0.1"))

    def _call(self, a):
        text, bound = self._rng.choice((
            (f"sin({a.text})", 1), (f"cos({a.text})", 1), (f"tanh({a.text})", 1), (f"atan({a.text})", 1.6), (f"erf({a.text})", 1),
            (f"exp(-abs({a.text}))", 1), (f"sqrt(abs({a.text}) + 0.5)", (a.bound + 0.5)**0.5), (f"abs({a.text})", a.bound),
            (f"log(abs({a.text}) + 1.5)", a.bound + 0.5), (f"(abs({a.text}) + 0.5)^0.7", a.bound + 1)))
        return Term(text, bound, a.reach, a.nodes + 3)

    def _applied(self, argument):
        """None where that would read too far, or be too much."""
        name = self._rng.choice(list(self._operators))
        weights = self._weights[name]
        reach = argument.reach + max(abs(o) for offset in weights for o in offset)
        nodes = len(weights) * (argument.nodes + 2)
        if reach > MOST_REACH[self._dimensions] or nodes > MOST_NODES // 3:
            return None
        return Term(f"{name}({argument.text})", argument.bound * sum(map(abs, weights.values())), reach, nodes)

    def _assignment(self, name, budget):
        """The field's next value, within -1 .. 1."""
        term = self._expression(self._rng.choice((0, 1, 2, 2, 3)))
        while term.nodes > budget or term.reach > MOST_REACH[self._dimensions]:
            term = self._expression(1)
        if self._rng.random() < 0.6:
            text = f"0.5*{name} + {number(0.49 / max(term.bound, 1))}*({term.text})"
        else:
            text = term.text if term.bound <= 1 else f"{number(0.99 / term.bound)}*({term.text})"
        return text, term.nodes

    def _stage(self):
        rng = self._rng
        self._lets = {}
        stage, budget = {}, MOST_NODES
        lets = {}
        for i in range(rng.choice((0, 0, 0, 1, 2))):
            term = self._expression(rng.choice((1, 2)))
            if term.bound <= 100 and term.nodes < MOST_NODES // 8 and term.reach <= MOST_REACH[self._dimensions] // 2:
                lets[f"l{i}"] = self._lets[f"l{i}"] = term
        for name in rng.sample(self._whole, rng.randint(1, min(len(self._whole), 4))):
            stage[name], nodes = self._assignment(name, budget)
            budget = max(budget - nodes, 20)
        used = " ".join(stage.values())
        kept = {}
        for name in reversed(lets):
            if mentions(used, name):
                kept[name] = lets[name].text
                used += " " + lets[name].text
        return ({"let": dict(reversed(kept.items()))} if kept else {}) | stage

    def make(self, name):
        stages = [self._stage() for _ in range(self._rng.choice((1, 1, 2, 2, 3, 4)))]
        said = " ".join(text for stage in stages for text in self._texts(stage))
        unread = [field for field, own in self._fields.items()
                  if not mentions(said, field) and not any(field in stage for stage in stages)]
        if unread:
            last = next(key for key in stages[-1] if key != "let")
            squares = " + ".join(f"{field}*{field}" for field in unread)
            stages[-1][last] = f"{number(0.99 / (1 + len(unread)))}*({stages[-1][last]} + {squares})"
        reductions = self._reductions(stages)
        said = " ".join(text for stage in [*stages, *reductions.values()] for text in self._texts(stage))
        operators = {name: keys for name, keys in self._operators.items() if mentions(said, name)}
        said += json.dumps(operators) + json.dumps(self._fields)
        keys = {"stencil": name, "dimensions": self._dimensions, "storage": self._storages[0],
                "parameters": self._parameters,
                "scalars": [scalar for scalar in self._scalars if mentions(said, scalar)], "fields": self._fields,
                "operators": operators, "stages": stages, "reduce": reductions}
        for key in ("scalars", "operators", "reduce"):
            if not keys[key]:
                del keys[key]
        return keys

    def _reductions(self, stages):
        """Of values before the sweep and after it, by a generator of their own, so that systems stay what they were."""
        self._rng = rng = random.Random(f"reductions {self._seed}")
        self._lets = {}
        reductions = {}
        for i in range(rng.choice((0, 0, 1, 1, 2, 3))):
            assigned = [name for name in self._whole if any(name in stage for stage in stages)]
            after = rng.sample(assigned, min(len(assigned), rng.choice((0, 1, 1, 2))))
            moment = max((k for k, stage in enumerate(stages) if any(name in stage for name in after)), default=0)
            lost = [name for name in assigned if any(name in stage for stage in stages[:moment])]
            term = self._expression(rng.choice((0, 1, 2)))
            if term.reach > MOST_REACH[self._dimensions] or any(mentions(term.text, name) for name in lost):
                term = Term("1", 1)
            text = " + ".join([*(f"{rng.choice((1, -2, 0.5))}*new({name})" for name in after), f"({term.text})"])
            kind = rng.choice(("sum", "sum", "max", "min"))
            reductions[f"r{i}"] = {kind: f"abs({text})" if rng.random() < 0.3 else text}
        return reductions

    @staticmethod
    def _texts(stage):
        return [*stage.get("let", {}).values(), *(text for key, text in stage.items() if key != "let")]


def mentions(text, name):
    return re.search(rf"\b{name}\b", text) is not None


def as_text(value):
    """What YAML's scalars become: text."""
    if isinstance(value, dict):
        return {key: as_text(one) for key, one in value.items()}
    return [as_text(one) for one in value] if isinstance(value, list) else str(value)


def make(seed, name=None, dimensions=None, halo=None, cut=False):
    """A system's YAML. With halo=False there are no `halo` faces; with cut=True each axis is periodic for all fields or for none,
    so that ranks can cut it."""
    keys = _Maker(seed, dimensions, halo, cut).make(name or f"system{seed}")
    lines = [f"# seed {seed}"]
    for key, value in keys.items():
        if key in ("fields", "operators"):
            lines += [f"{key}:", *(f"  {own}: {json.dumps(one)}" for own, one in value.items())]
        elif key == "stages":
            lines += [f"{key}:", *(f"  - {json.dumps(stage)}" for stage in value)]
        else:
            lines.append(f"{key}: {json.dumps(value)}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(make(int(sys.argv[1]) if len(sys.argv) > 1 else random.randrange(10**6)), end="")
