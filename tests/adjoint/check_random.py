"""Random specs and their adjoints by `spider-gen --adjoint`, through the Python package on the host, in f64 or f32:

    check_random.py [--count N] [--seed FIRST] [--kinds KIND...] [--storage f32] [--emulator LIBRARY]

Of each kind, `stencil`, `update`, `linear` (systems that are linear but in their coefficients) and `system`, as many. Where the
sweep F is linear, <F du, v> is <du, F^T v> to 1e-12 (f32: 1e-5) of the sum of all magnitudes. Else the derivative along a random direction
is the central difference to 1e-6. Adjoints that are systems are also swept in boxes and in parts, which has to give the same bits."""

import argparse
import concurrent.futures
import dataclasses
import itertools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "systems"))

import check_random as systems  # noqa: E402
import random_system  # noqa: E402
import spider_gen  # noqa: E402
from spider_gen import _compilers, _package, spider  # noqa: E402

RULES = ("nearest", "reflect", "mirror", "antisymmetric", "constant")
OF_STENCILS, OF_FIELDS = ("halo",), ("antireflect", "antimirror")
EXTENTS = {1: ((40,), (3,), (9,)), 2: ((9, 21), (5, 4), (2, 17), (1, 8)), 3: ((6, 7, 13), (3, 2, 5))}
FAR = 40  # cells around an array that rows reach
STORAGE = "f64"  #: of linear stencils and systems; the derivatives of the others are compared with differences, in f64
LINEAR, NONLINEAR = {"f64": 1e-12, "f32": 1e-5}, 1e-6
KINDS = ("stencil", "update", "linear", "system")


# Specs


def faces(rng, axes, others=OF_STENCILS):
    """Random rules, each axis and face another one."""
    def rule():
        name = str(rng.choice((*RULES, *others)))
        return {"constant": round(float(rng.uniform(-1, 1)), 3)} if name == "constant" else name

    kind = rng.random()
    if kind < 0.2:
        return "periodic"
    if kind < 0.4:
        return rule()
    return {axis: "periodic" if rng.random() < 0.25 else {"low": rule(), "high": rule()} for axis in axes}


def random_taps(rng, dimensions, most=7):
    far = {1: 4, 2: 2, 3: 1}[dimensions]
    places = {tuple(int(k) for k in rng.integers(-far, far + 1, dimensions)) for _ in range(rng.integers(1, most + 1))}
    taps = {place: round(float(rng.uniform(0.1, 1) * rng.choice((-1, 1))), 3) for place in places}
    if rng.random() < 0.3:  # the same on both sides of each axis
        taps = {tuple(s * k for s, k in zip(signs, place)): weight for place, weight in taps.items()
                for signs in itertools.product((1, -1), repeat=dimensions)}
    return {"shape": "taps", "coefficients": [{"at": list(at), "weight": weight} for at, weight in sorted(taps.items())]}


def base(rng, name):
    dimensions = int(rng.integers(1, 4))
    return dimensions, {"stencil": name, "dimensions": dimensions, "storage": STORAGE}


def make_stencil(rng, name):
    dimensions, keys = base(rng, name)
    return {**keys, **random_taps(rng, dimensions), "boundary": faces(rng, "zyx"[3 - dimensions:])}


FUNCTIONS = ("abs({})", "sqrt(1.5 + {}^2)", "cbrt(2 + {})", "exp({})", "log(2.5 + {})", "log2(2.5 + {})", "log10(2.5 + {})", "sin({})",
             "cos({})", "tan(0.5*{})", "asin(0.4*{})", "acos(0.4*{})", "atan({})", "sinh({})", "cosh({})", "tanh({})", "erf({})",
             "floor(3*{})*{}", "ceil({})*{}", "round(2*{})*{}", "min({}, 0.1)", "max({}, {}^2)", "(2.5 + {})^1.7", "(1.6 + {})^{}",
             "{}^3", "{}^2", "({} < 0.2 ? {}^2 : 0.5*{})", "1/(2 + {})", "({})^(-2)/(1 + {}^(-2))")


def make_update(rng, name):
    dimensions, keys = base(rng, name)
    axes = "zyx"[3 - dimensions:]
    sums = {f"s{i}": random_taps(rng, dimensions, 4) for i in range(rng.integers(1, 3))}
    fields = [f"k{i}" for i in range(rng.integers(0, 3))]
    scalars = ["a"] if rng.random() < 0.5 else []
    previous = rng.random() < 0.5
    names = [*(f"0.3*{one}" for one in sums), *fields, *scalars, *(["u_old"] if previous else []), "u", f"0.05*i{axes[0]}"]

    def leaf():
        return str(rng.choice(names))

    terms = []
    for one in names[:-2]:
        function = str(rng.choice(FUNCTIONS)) if rng.random() < 0.7 else "{}"
        terms.append(f"({function.format(*[f'({one})'] * 4)})*({leaf()})")
    return {**keys, "storage": "f64", "boundary": faces(rng, axes), "sums": sums, **({"previous": "u_old"} if previous else {}),
            **({"fields": fields} if fields else {}), **({"scalars": scalars} if scalars else {}), "update": " + ".join(terms)}


def make_linear(rng, name):
    """A system that is linear in u, v, ..., with coefficients k and d."""
    dimensions, keys = base(rng, name)
    axes = "zyx"[3 - dimensions:]
    unknowns = ["u", "v", "w"][:rng.integers(1, 4)]
    fields = {one: {"boundary": faces(rng, axes, OF_FIELDS)} for one in unknowns}
    fields["k"] = {"boundary": faces(rng, axes, OF_FIELDS)}
    if dimensions > 1:
        fields["d"] = {"axes": ["x"], "boundary": {"x": "nearest"}}
    operators = {f"o{i}": random_taps(rng, dimensions, 4) for i in range(2)}

    def term():
        one, operator = str(rng.choice(unknowns)), str(rng.choice(list(operators)))
        factor = str(rng.choice(("0.5", "k", "a", "d*k" if "d" in fields else "-1", f"(i{axes[0]} < 3 ? 0.3 : k)")))
        inner = str(rng.choice((one, f"(k*{one})", f"({one} - 2*{rng.choice(unknowns)})")))
        return f"{factor}*{rng.choice((inner, f'{operator}({inner})'))}"

    stages = []
    for _ in range(rng.integers(1, 4)):
        written = rng.choice(unknowns, rng.integers(1, len(unknowns) + 1), replace=False)
        stages.append({str(one): " + ".join(term() for _ in range(rng.integers(1, 4))) for one in written})
    said = yaml.safe_dump(stages) + " ".join(operators)
    stages[-1][next(iter(stages[-1]))] += " + " + " + ".join(
        f"0.1*k*a*o{i}({one})*{'d' if 'd' in fields else '1'}" for i in range(2) for one in unknowns)
    del said
    return {**keys, "scalars": ["a"], "fields": fields, "operators": operators, "stages": stages}


def make_system(rng, name):
    maker = random_system._Maker(int(rng.integers(1 << 30)), None, False)
    keys = yaml.safe_load(yaml.safe_dump(maker.make(name), sort_keys=False))
    keys["storage"] = "f64"
    for field in keys["fields"].values():
        field.pop("storage", None)
    return keys


# Sweeps


def placed(values):
    """The array in a larger one of zeros."""
    whole = numpy.zeros([n + 2 * FAR for n in values.shape], values.dtype)
    inner = whole[tuple(slice(FAR, FAR + n) for n in values.shape)]
    inner[...] = values
    return inner


class Forward:
    """A spec's sweep, from all fields to all fields."""

    def __init__(self, keys):
        self.keys = keys
        self.axes = "zyx"[3 - keys["dimensions"]:]
        self.made = spider_gen.stencil(as_text(keys), backend="host")
        self.scalars = keys.get("scalars", [])
        if "stages" in keys:
            self.fields = {name: list((own or {}).get("axes", self.axes)) for name, own in keys["fields"].items()}
        else:
            names = ["u", *([keys["previous"]] if "previous" in keys else []), *keys.get("fields", [])]
            self.fields = {name: list(self.axes) for name in names}

    def sweep(self, state, scalars):
        arrays = {name: placed(values) for name, values in state.items()}
        if "stages" in self.keys:
            return {**state, **self.made(arrays, **scalars)}
        if "update" not in self.keys:
            return {"u": numpy.array(self.made(arrays["u"]))}
        others = {name: array for name, array in arrays.items() if name != "u"}
        result = {**state, "u": numpy.array(self.made.update(arrays["u"], **others, **scalars))}
        if "previous" in self.keys:
            result[self.keys["previous"]] = state["u"]
        return result


def as_text(value):
    return random_system.as_text(value)


class Adjoint:
    def __init__(self, forward, folder):
        path = folder / f"{forward.keys['stencil']}.yaml"
        path.write_text(yaml.safe_dump(forward.keys, sort_keys=False), encoding="utf-8")
        made = subprocess.run([_package.GENERATOR, "--adjoint", path], capture_output=True, text=True)
        if made.returncode != 0:
            raise spider_gen.SpecError(made.stderr.strip())
        self.text, self.forward = made.stdout, forward
        self.keys = yaml.safe_load(self.text)
        self.path = folder / f"{self.keys['stencil']}.yaml"
        self.path.write_text(self.text, encoding="utf-8")
        self.made = spider_gen.stencil(self.path, backend="host")
        self.is_system = "stages" in self.keys

    def arrays(self, state, bars):
        arrays = {}
        for name in self.keys["fields"]:
            stem = re.sub(r"_bar$", "", name)
            if name.endswith("_bar"):
                values = bars[stem]
            else:  # of a later stage, where the spec has no such field: anything
                values = state[name] if name in state else numpy.full_like(next(iter(bars.values())), numpy.nan)
            arrays[name] = placed(values)
        return arrays

    def sweep(self, state, bars, scalars):
        """By field, what of the derivatives returns."""
        if not self.is_system:
            return {"u": numpy.array(self.made(placed(bars["u"])))}
        own = {name: scalars[name] for name in self.keys.get("scalars", [])}
        arrays = self.arrays(state, bars)
        found = self.made(arrays, **own)
        self.boxes = self.differences(arrays, own, found) + self.differences_of_parts(arrays, own, found)
        result = dict(bars)
        for name, values in found.items():
            if name.endswith("_bar"):
                result[name[:-4]] = numpy.array(values)
        return result

    def differences(self, arrays, scalars, whole):
        """What is wrong launch by launch in boxes."""
        kernel, extent, fields, outputs = self.buffers(arrays)
        for launch in range(kernel.info.launches):
            cuts = [max(1, n // 3) for n in extent]
            along = [[(0, cut), (cut, n - cut)] if n > cut else [(0, n)] for n, cut in zip(extent, cuts)]
            for box in itertools.product(*along):
                kernel.run_system(fields, outputs, list(scalars.values()), box=tuple(zip(*box)), launches=(launch, 1))
        return self.other_bits(kernel, fields, outputs, whole, "boxes")

    def differences_of_parts(self, arrays, scalars, whole):
        """What is wrong launch by launch in parts, of which each has its halo and no other cells. Nothing where parts are refused."""
        kernel, extent, fields, outputs = self.buffers(arrays)
        axis = max(range(len(extent)), key=lambda axis: extent[axis])
        cut = extent[axis] // 3
        both = [buffer for buffer in (*fields, *outputs) if buffer is not None]
        for launch in range(kernel.info.launches):
            after = [buffer.copy() for buffer in both]
            for begin, end in ((0, cut), (cut, extent[axis])):
                origin = tuple(begin if i == axis else 0 for i in range(len(extent)))
                own = tuple(end - begin if i == axis else n for i, n in enumerate(extent))
                try:
                    views = iter([self.part_of(kernel, name, buffer, axis, origin, own, extent)
                                  for name, buffer in zip((*arrays, *arrays), (*fields, *outputs)) if buffer is not None])
                    given = [[None if buffer is None else next(views) for buffer in buffers] for buffers in (fields, outputs)]
                    kernel.run_system(*given, list(scalars.values()), part=(origin, extent), launches=(launch, 1))
                except spider.Error as error:
                    if any(words in str(error) for words in ("parts need an axis", "periodic", "fewer cells", "halo")):
                        Adjoint.uncut.append(f"{self.keys['stencil']}: {error}")
                        return []
                    raise
                for target, view in zip(after, [view for views in given for view in views if view is not None]):
                    here = tuple(slice(begin, end) if i == axis and n > 1 else slice(None) for i, n in enumerate(target.shape))
                    target[here] = view
            for buffer, new in zip(both, after):
                buffer[...] = new
        if "adjoint(" in self.text:
            Adjoint.cut.append(self.keys["stencil"])
        return self.other_bits(kernel, fields, outputs, whole, "parts")

    cut, uncut = [], []  #: adjoints that fold ghost cells and were swept in parts, and why others were not

    def part_of(self, kernel, name, buffer, axis, origin, own, extent):
        """A view into an array of NaN that has what a part may read of a buffer."""
        low, high = kernel.halo_of_field(name, *own, part=(origin, extent))[axis]
        if buffer.shape[axis] == 1 and extent[axis] > 1:  # of fewer axes
            return placed(buffer)
        begin, end = origin[axis], origin[axis] + own[axis]
        places = numpy.arange(begin - low, end + high)
        rule = (self.keys["fields"][name] or {}).get("boundary", self.keys.get("boundary"))
        rule = rule if isinstance(rule, str) else rule.get(self.forward.axes[axis])
        outside = ((places < 0) | (places >= extent[axis])) & (rule != "periodic")
        cells = numpy.take(buffer, places % extent[axis], axis)
        cells[tuple(outside if i == axis else slice(None) for i in range(len(extent)))] = 0  # as around the whole
        around = [(FAR, FAR)] * len(extent)
        whole = numpy.pad(cells, around, constant_values=numpy.nan)
        for i in range(len(extent)):
            if i != axis:  # beyond the whole
                whole[tuple(slice(FAR) if k == i else slice(None) for k in range(len(extent)))] = 0
                whole[tuple(slice(-FAR, None) if k == i else slice(None) for k in range(len(extent)))] = 0
        return whole[tuple(slice(FAR + low, FAR + low + end - begin) if i == axis else slice(FAR, -FAR) for i in range(len(extent)))]

    def buffers(self, arrays):
        """The kernel, the extents of fields with all axes, and copies of fields and outputs."""
        kernel = self.made._kernel(_compilers.choose("host"))[1]
        extent = max((array.shape for array in arrays.values()), key=len)
        axes = {name: list((own or {}).get("axes", self.forward.axes)) for name, own in self.keys["fields"].items()}
        spread = {name: tuple(slice(None) if axis in axes[name] else None for axis in self.forward.axes) for name in arrays}
        fields = [placed(array)[spread[name]] for name, array in arrays.items()]
        outputs = [placed(array)[spread[name]] if use & spider.FIELD_TWO_BUFFERS else None
                   for (name, array), use in zip(arrays.items(), kernel.info.uses)]
        return kernel, extent, fields, outputs

    @staticmethod
    def other_bits(kernel, fields, outputs, whole, what):
        wrong = []
        for i, (name, _) in enumerate(kernel.info.fields):
            found = (outputs if kernel.info.uses[i] & spider.FIELD_RESULT_IN_OUTPUT else fields)[i]
            if name in whole and found.tobytes() != numpy.ascontiguousarray(whole[name]).tobytes():
                wrong.append(f"{what} give other bits of {name}")
        return wrong


def dot(a, b):
    """Of two states, and the sum of the magnitudes."""
    terms = numpy.concatenate([(numpy.asarray(a[name], float) * b[name]).ravel() for name in b])
    return float(terms.sum()), float(numpy.abs(terms).sum())


class Case:
    def __init__(self, kind, seed, folder):
        self.rng = numpy.random.default_rng([seed, KINDS.index(kind)])
        self.kind = kind
        self.bytes = 4 if STORAGE == "f32" and kind in ("stencil", "linear") else 8
        self.forward = Forward(globals()[f"make_{kind}"](self.rng, f"{kind}{seed}"))
        self.adjoint = Adjoint(self.forward, folder)
        extents = EXTENTS[self.forward.keys["dimensions"]]
        self.extent = extents[self.rng.integers(len(extents))]

    def uniform(self, extent):
        return self.rng.uniform(-1, 1, extent).astype(numpy.dtype(f"f{self.bytes}"))

    def draw(self, names=None):
        lengths = dict(zip(self.forward.axes, self.extent))
        return {name: self.uniform([lengths[axis] for axis in axes if axis in self.forward.axes])
                for name, axes in self.forward.fields.items() if names is None or name in names}

    def full(self, state):
        """Fields of fewer axes on all of them, as their derivatives are."""
        return {name: numpy.broadcast_to(
            values[tuple(slice(None) if axis in self.forward.fields[name] else None for axis in self.forward.axes)],
            self.extent) for name, values in state.items()}

    def directional(self, state, along, scalars):
        """The derivative of the sweep along a direction."""
        if self.kind in ("stencil", "linear"):
            still = self.forward.sweep({n: numpy.zeros_like(x) if n in along else x for n, x in state.items()}, scalars)
            moved = self.forward.sweep({n: along.get(n, x) for n, x in state.items()}, scalars)
            return {name: numpy.subtract(moved[name], still[name], dtype=float) for name in still if name in along}
        h = 1e-6
        up, down = (self.forward.sweep({n: x + s * h * along[n] for n, x in state.items()}, scalars) for s in (1, -1))
        return {name: (up[name] - down[name]) / (2 * h) for name in up}

    def check(self):
        linear = self.kind in ("stencil", "linear")
        state = self.draw()
        scalars = {name: float(self.rng.uniform(-1, 1)) for name in self.forward.scalars}
        fixed = ("k", "d") if self.kind == "linear" else ()
        along = self.draw([name for name in self.forward.fields if name not in fixed])
        image = self.full(self.directional(state, along, scalars))
        bars = {name: numpy.zeros(self.extent, state[name].dtype) if name in fixed else self.uniform(self.extent)
                for name in self.forward.fields}
        back = self.adjoint.sweep(state, bars, scalars)
        there, size = dot({name: bars[name] for name in image}, image)
        here, size_back = dot(back, self.full(along))
        off = abs(there - here) / max(size, size_back, 1e-300)
        wrong = list(getattr(self.adjoint, "boxes", []))
        if not off <= (LINEAR[STORAGE] if linear else NONLINEAR):
            wrong.append(f"<F du, v> = {there!r}, <du, F^T v> = {here!r}: off by {off:.2g}")
        return [f"{self.forward.keys['stencil']}: {one}" for one in wrong], off


def check(kind, seed, folder):
    try:
        return Case(kind, seed, folder).check()
    except spider_gen.SpecError as error:
        return None, str(error)
    except Exception as error:
        return [f"{kind}{seed}: {type(error).__name__}: {error}"], 0


def compile_fast():
    """Kernels are small and swept a few times."""
    host = _compilers.host()
    options = tuple("-O1" if option == "-O3" else option for option in host.compile_options)
    fast = dataclasses.replace(host, compile_options=options)
    _compilers.host = lambda: fast


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=4, help="of each kind")
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--storage", choices=list(LINEAR), default=STORAGE, help="of linear stencils and systems")
    parser.add_argument("--emulator", type=pathlib.Path, metavar="LIBRARY")
    arguments = parser.parse_args()
    globals()["STORAGE"] = arguments.storage
    if arguments.emulator:
        systems.emulate(arguments.emulator)
    else:
        compile_fast()
    failed = False
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for kind in arguments.kinds:
            begin = time.monotonic()
            seeds = range(arguments.seed, arguments.seed + arguments.count)
            found = list(pool.map(lambda seed: check(kind, seed, pathlib.Path(folder)), seeds))
            refused = [text for problems, text in found if problems is None]
            problems = [problem for one, _ in found for problem in one or []]
            print(*refused, *problems, sep="\n", end="\n" if refused or problems else "")
            worst = max((off for one, off in found if one is not None), default=0)
            print(f"{kind}: {len(found)} from seed {arguments.seed}, {len(refused)} refused, {len(problems)} problems, "
                  f"at most {worst:.2g} off, {time.monotonic() - begin:.0f} s", flush=True)
            print(f"{len(Adjoint.cut)} adjoints so far that fold ghost cells also in parts, {len(Adjoint.uncut)} refused there")
            failed = failed or bool(problems) or 10 * len(refused) > len(found)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
