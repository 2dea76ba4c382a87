"""Checks kernels with updates (random_updates.py) through spider_run and spider_run_steps: every cell against the update in
float64, within a bound that follows the rounding of each operation; boxes, parts, steps and fields in place by their bits."""

import argparse
import dataclasses
import json
import math
import pathlib
import random
import sys
import time
import traceback
from ctypes import byref, c_void_p

import numpy
import reference
from random_specs import DEFAULT_SEED
from spider_library import NULL, OK, OVERLAP, UNSUPPORTED, Buffer, CallFailed, Field, Library, make_field, make_sweep
from storage import STORAGES
from sweep_case import input_around, make_guard, make_layout

QUOTIENT_ROUNDINGS = 4  # of quotients and roots, in roundings to nearest: of f32 two units in the last place on a device
FUNCTION_ROUNDINGS = 8  # of C's functions, on a device or a host: a few units
COMPARISONS = {
    "<": numpy.less,
    "<=": numpy.less_equal,
    ">": numpy.greater,
    ">=": numpy.greater_equal,
    "==": numpy.equal,
    "!=": numpy.not_equal,
}
FUNCTIONS = {
    "abs": numpy.abs,
    "sqrt": lambda x: numpy.sqrt(numpy.maximum(x, 0)),
    "cbrt": numpy.cbrt,
    "exp": numpy.exp,
    "log": lambda x: numpy.log(numpy.maximum(x, 1e-30)),
    "sin": numpy.sin,
    "cos": numpy.cos,
    "tanh": numpy.tanh,
    "atan": numpy.arctan,
    "erf": numpy.vectorize(math.erf, otypes=[float]),
    "floor": numpy.floor,
    "ceil": numpy.ceil,
    "round": lambda x: numpy.copysign(numpy.floor(numpy.abs(x) + 0.5), x),
}
EXACT = ("abs", "floor", "ceil", "round")


def evaluate(node, known, storage):
    """(values, bounds of their errors) of a tree, in float64, of f64 fields in long doubles; `known` gives those of
    leaves."""
    kind = node[0]
    rounding, least = storage.arithmetic
    number = numpy.longdouble if storage.name == "f64" else numpy.float64

    def rounded(value, error, roundings=1):
        """A result with the rounding of the operation that made it."""
        return value, error + roundings * rounding * (numpy.abs(value) + error) + least

    if kind == "number":
        return rounded(number(node[1]), 0.0)
    if kind in ("name", "index", "extent"):
        return known[node[1]]
    parts = [evaluate(one, known, storage) for one in node[1:]]
    if kind in COMPARISONS:
        (a, a_error), (b, b_error) = parts
        return COMPARISONS[kind](a, b), numpy.abs(a - b) <= a_error + b_error
    if kind == "?":
        (holds, unsure), (first, first_error), (second, second_error) = parts
        value = numpy.where(holds, first, second)
        error = numpy.where(holds, first_error, second_error)
        either = numpy.abs(first - second) + numpy.maximum(first_error, second_error)
        return value, numpy.where(unsure, either, error)
    if kind == "negate":
        return -parts[0][0], parts[0][1]
    if kind in FUNCTIONS:
        (x, error) = parts[0]
        value = FUNCTIONS[kind](x)
        if kind in ("sin", "cos"):  # whose extremes may lie between: slopes of at most 1, values from -1 to 1
            change = numpy.minimum(error, 2)
        else:
            change = numpy.maximum(*(numpy.abs(FUNCTIONS[kind](x + side * error) - value) for side in (-1, 1)))
        if kind in EXACT:
            return value, change
        return rounded(value, 1.01 * change, QUOTIENT_ROUNDINGS if kind == "sqrt" else FUNCTION_ROUNDINGS)
    (a, a_error), (b, b_error) = parts
    if kind == "min":
        return numpy.minimum(a, b), numpy.maximum(a_error, b_error)
    if kind == "max":
        return numpy.maximum(a, b), numpy.maximum(a_error, b_error)
    if kind == "+":
        return rounded(a + b, a_error + b_error)
    if kind == "-":
        return rounded(a - b, a_error + b_error)
    if kind == "*":
        return rounded(a * b, numpy.abs(a) * b_error + numpy.abs(b) * a_error + a_error * b_error)
    if kind == "/":
        smallest = numpy.maximum(numpy.abs(b) - b_error, 1e-30)
        return rounded(a / b, (a_error + numpy.abs(a / b) * b_error) / smallest, QUOTIENT_ROUNDINGS)
    if kind == "^":
        power = int(node[2][1])
        change = (numpy.abs(a) + a_error) ** power - numpy.abs(a) ** power
        return rounded(a**power, change, power)
    raise ValueError(f"an operation that this harness does not know: {kind}")


class Point:
    """A field in memory: its layout, with so many cells around it, and its cells before a sweep."""

    def __init__(self, storage, extent, rng, aligned, values, around=((0, 0),) * 3):
        form, offset = ("aligned", 0) if aligned else ("odd", int(rng.integers(0, 8)))
        vector = 16 // storage.bytes
        self.storage = storage
        kept = tuple(around[:2]) + ((-(-around[2][0] // vector) * vector, around[2][1]),) if aligned else around
        self.layout = make_layout(extent, form, offset, kept, rng, vector)
        self.cells = make_guard(storage, self.layout.cells, rng)
        if any(map(any, around)):
            ranges = (numpy.arange(-low, count + high) for count, (low, high) in zip(extent, around))
            places = self.layout.positions(*numpy.ix_(*ranges))
            self.cells[places] = storage.encode(rng.uniform(-1.5, 1.5, places.shape))
        self.cells[self.layout.interior()] = storage.encode(values)

    def numbers(self, first, last):
        """From one cell to before another, where they are in the buffer; others are NaN."""
        places = self.layout.positions(*numpy.ix_(*map(numpy.arange, first, last)))
        found = self.storage.decode(self.cells[numpy.clip(places, 0, self.layout.cells - 1)])
        return numpy.where((places >= 0) & (places < self.layout.cells), found, numpy.nan)


def nodes_to_tree(told, sums):
    """The tree of an explanation's list of nodes; `sums` are the names of its sums."""
    trees = []
    for kind, value, which, arguments in told["nodes"]:
        if kind == "number":
            trees.append(["number", value])
        elif kind in ("input", "sum"):
            trees.append(["name", "u" if kind == "input" else sums[which]])
        elif kind == "previous":
            trees.append(["name", told["previous"]])
        elif kind == "field":
            trees.append(["name", told["fields"][which]["name"]])
        elif kind == "scalar":
            trees.append(["name", told["scalars"][which]])
        elif kind in ("index", "extent"):
            trees.append([kind, kind[0].replace("e", "n") + "zyx"[which]])
        else:
            trees.append([kind, *(trees[one] for one in arguments)])
    return trees[-1]


class Subject:
    """A kernel with what its update means."""

    def __init__(self, library, plans, name):
        data = json.loads((plans / f"{name}.json").read_text(encoding="utf-8"))
        self.library, self.name = library, name
        self.kernel = library.kernel(name)
        self.forms = library.forms(self.kernel)
        self.form = 0  # which of them sweeps
        self.origin, self.whole = (0, 0, 0), None  # where its field lies in a whole of other extents, if it does
        self.told = data["update"]
        expected = plans / f"{name}.expected.json"
        data_plan = plans / "loaded" / f"{name}.json"
        data_plan.parent.mkdir(exist_ok=True)
        data_plan.write_text(json.dumps(data), encoding="utf-8")
        self.plan = reference.load_plan(data_plan)
        meaning = json.loads(expected.read_text(encoding="utf-8")) if expected.exists() else None
        names = [one["name"] for one in data["sums"]]
        self.later = dataclasses.replace(self.plan, steps=self.plan.steps - 1)  # all steps but the first
        self.sums = {one: [tap for tap in self.plan.taps if tap.sum == place] for place, one in enumerate(names)}
        self.tree = meaning["tree"] if meaning else nodes_to_tree(self.told, names)
        self.failures = []
        if meaning:
            self.check_taps(meaning["sums"])
            found = (self.told["previous"], {one["name"]: one["storage"] for one in self.told["fields"]}, self.told["scalars"])
            if found != (meaning["previous"], meaning["fields"], meaning["scalars"]):
                self.failures.append(f"the plan takes {found}")
            if self.plan.steps != meaning.get("steps", 1):
                self.failures.append(f"the plan takes {self.plan.steps} steps")
        self.check_info()

    def check_taps(self, meant):
        """The plan has the taps that the spec's writer means, in f32; of 16-bit fields on tensor cores in terms that keep each
        within 2^-21 of the largest of its sum, 2^-20 where they are products of two lists."""
        in_terms = self.plan.engine != "cuda" and self.plan.storage.bytes == 2
        digits = 20 if self.plan.low_rank else 21
        if list(self.sums) != list(meant):
            self.failures.append(f"the plan sums {list(self.sums)}, the spec {list(meant)}")
        for name, taps in self.sums.items():
            wanted = {tuple(tap[:3]): tap[3] for tap in meant.get(name, ()) if tap[3] != 0}
            got = {tap.at: tap.packed for tap in taps}
            largest = max(map(abs, wanted.values()), default=0)
            off = lambda at: abs(wanted.get(at, 0) - got.get(at, 0))  # noqa: B023, E731
            allowed = lambda at: largest * 2.0**-digits if in_terms else abs(wanted.get(at, 0)) * 2.0**-22  # noqa: B023, E731
            wrong = [at for at in wanted.keys() | got.keys() if off(at) > allowed(at)]
            if wrong:
                self.failures.append(f"{name} has other weights than the spec at {sorted(wrong)[:4]}")

    def check_info(self):
        info = self.library.info(self.kernel).contents
        names = [info.field_names[i].decode() for i in range(info.field_count)]
        storages = [info.field_storages[i] for i in range(info.field_count)]
        scalars = [info.scalar_names[i].decode() for i in range(info.scalar_count)]
        previous = info.previous.decode() if info.previous else None
        wanted = [(one["name"], STORAGES[one["storage"]].code) for one in self.told["fields"]]
        if (previous, list(zip(names, storages)), scalars) != (self.told["previous"], wanted, self.told["scalars"]):
            self.failures.append("spider_info tells other fields or scalars than the plan")

    def storages(self):
        """Of previous, where there is one, and the further fields, by name."""
        found = {self.told["previous"]: self.plan.storage} if self.told["previous"] else {}
        return found | {one["name"]: STORAGES[one["storage"]] for one in self.told["fields"]}

    def expected(self, read, points, scalars, extent, steps):
        """(values, bounds) of the update at every point, before the result is rounded; of several steps those of the
        step before, too."""
        of_result, of_sum, absolute, of_neighbourhood = self.plan.stated_bound
        if self.plan.steps > 1:
            return self.expected_of_steps(read, points, scalars, extent, steps)
        known = self.known(points, scalars, extent, (0, 0, 0), extent)
        known["u"] = (read(*numpy.ix_(*map(numpy.arange, extent))), 0.0)
        for name, taps in self.sums.items():
            plan = dataclasses.replace(self.plan, taps=tuple(taps))
            total, magnitude = reference.sweep_field(plan, extent, read)
            error = of_result * numpy.abs(total) + of_sum * magnitude + absolute
            if of_neighbourhood:  # at most the whole field
                largest = numpy.nanmax(numpy.abs(reference.extended_field(plan, extent, read)))
                error += of_neighbourhood * sum(abs(tap.packed) for tap in taps) * largest
            known[name] = (total, error)
        value, error = evaluate(self.tree, known, self.plan.storage)
        return (numpy.broadcast_to(value, extent), numpy.broadcast_to(error, extent)), None

    def known(self, points, scalars, extent, first, last):
        """What an update reads beside the input and its sums, of the cells from `first` to before `last`."""
        known = {name: (point.numbers(first, last), 0.0) for name, point in points.items()}
        held, number = (numpy.float64, numpy.longdouble) if self.plan.storage.name == "f64" else (numpy.float32, numpy.float64)
        known |= {name: (held(value).astype(number), 0.0) for name, value in scalars.items()}
        for axis, letter in enumerate("zyx"):
            shape = [1, 1, 1]
            shape[axis] = -1
            indices = numpy.arange(first[axis], last[axis], dtype=float) + self.origin[axis]
            known["i" + letter] = (indices.reshape(shape), 0.0)
            known["n" + letter] = (numpy.float64((self.whole or extent)[axis]), 0.0)
        return known

    def expected_of_steps(self, read, points, scalars, extent, steps):
        """The same of several steps: step by step, cells beyond halo faces as far as they are known. What a step makes of
        the errors before it is that of its weights, of which constants beyond faces have none."""
        plan = self.plan
        _, of_sum, absolute, _ = plan.stated_bound
        around = input_around(plan, extent)
        first = tuple(-low for low, _ in around)
        last = tuple(count + high for count, (_, high) in zip(extent, around))
        known = self.known(points, scalars, extent, first, last)
        blank = lambda face: dataclasses.replace(face, value=0.0)  # noqa: E731
        bare = tuple(tuple(map(blank, faces)) for faces in plan.faces)
        sums = {name: dataclasses.replace(plan, taps=tuple(taps)) for name, taps in self.sums.items()}
        value = read(*numpy.ix_(*map(numpy.arange, first, last)))
        error = numpy.zeros(value.shape)
        for _ in range(steps):
            earlier = value, error
            known["u"] = value, error
            for name, one in sums.items():
                total = reference.step_cells(one, extent, first, value, False, False)
                magnitude = reference.step_cells(one, extent, first, numpy.abs(value) + error, False, True)
                passed = reference.step_cells(dataclasses.replace(one, faces=bare), extent, first, error, False, True)
                known[name] = total, passed + of_sum * magnitude + absolute
            value, error = evaluate(self.tree, known, plan.storage)
            known[self.told["previous"]] = earlier
            value = numpy.broadcast_to(value, [end - begin for begin, end in zip(first, last)])
            error = numpy.broadcast_to(error, value.shape)
        inner = tuple(slice(-low, count - low) for low, count in zip(first, extent))
        return (value[inner], error[inner]), tuple(one[inner] for one in earlier)

    def keeps_previous(self, steps=None):
        """Does a sweep of so many steps, or of the kernel's, write the step before the last one, too?"""
        return self.told["previous"] and self.plan.steps > 1 and (steps or self.plan.steps) > 1

    def run(self, extent, rng, aligned, in_place=None, box=None, parts=None, steps=None):
        """Carries out a sweep, or one of so many steps, and checks it; the output's cells."""
        plan, library = self.plan, self.library
        storage = plan.storage
        values = lambda: rng.uniform(-1.5, 1.5, extent)  # noqa: E731
        points = {}
        for name, kind in self.storages().items():
            around = self.around_points(extent, parts is not None, name)
            points[name] = Point(kind, extent, rng, aligned, values(), around)
            if parts:
                self.wrap(points[name].layout, points[name].cells, extent, around)
        scalars = {name: float(rng.uniform(-2, 2)) for name in self.told["scalars"]}
        layout, cells = self.make_input(extent, rng, aligned, parts is not None)

        def read(z, y, x):
            return storage.decode(cells[numpy.clip(layout.positions(z, y, x), 0, layout.cells - 1)])

        target = Point(storage, extent, rng, aligned, numpy.zeros(extent))
        target.cells[:] = storage.poison
        if in_place:
            target = points[in_place]
        kept = Point(storage, extent, rng, aligned, numpy.zeros(extent)) if self.keeps_previous(steps) else None
        if kept:
            kept.cells[:] = storage.poison
        before = target.cells.copy()
        with numpy.errstate(invalid="ignore", over="ignore", divide="ignore"):
            last, one_before = self.expected(read, points, scalars, extent, steps or plan.steps)
        with Buffer(library, layout.cells, storage.cell) as source:
            source.upload(cells)
            after, changed, kept_after = self.sweep(source, layout, target, points, scalars, box, parts, in_place, steps, kept)
            if (source.download() != cells).any():
                self.failures.append("the input changed")
        if changed:
            self.failures.append(f"{changed} was written")
        self.compare(*last, target.layout, before, after, box, extent)
        if not kept:
            return after[target.layout.interior()]
        self.compare(*one_before, kept.layout, kept.cells, kept_after, box, extent)
        return numpy.stack((after[target.layout.interior()], kept_after[kept.layout.interior()]))

    def around_points(self, extent, for_parts, name=None):
        """What further fields have around them: where all steps but the first reach; the previous one what the input has."""
        if self.plan.steps == 1:
            return ((0, 0),) * 3
        plan = self.plan if name and name == self.told["previous"] else self.later
        around = input_around(plan, extent)
        return tuple(tuple(map(max, one, two)) for one, two in zip(around, plan.reach)) if for_parts else around

    def make_input(self, extent, rng, aligned, for_parts):
        """(layout, cells): parts find what lies beyond periodic faces in memory, as other parts would bring it."""
        plan = self.plan
        around = input_around(plan, extent)
        if for_parts:
            around = tuple(tuple(map(max, one, two)) for one, two in zip(around, plan.reach))
        filled = around
        form, offset = ("aligned", 0) if aligned else ("odd", int(rng.integers(0, 8)))
        vector = 16 // plan.storage.bytes
        around = tuple(around[:2]) + ((-(-around[2][0] // vector) * vector, around[2][1]),) if aligned else around
        layout = make_layout(extent, form, offset, around, rng, vector)
        cells = make_guard(plan.storage, layout.cells, rng)
        indices = reference.valid_cells(plan, extent).indices()
        cells[layout.positions(*indices)] = plan.storage.encode(rng.uniform(-1.5, 1.5, indices[0].shape))
        if for_parts:
            self.wrap(layout, cells, extent, filled)
        return layout, cells

    def wrap(self, layout, cells, extent, around):
        """Fills what lies beyond periodic faces, axis by axis, of all cells that may be read: `mirror` at one face may lead
        far beyond the other."""
        for axis in range(3):
            if self.plan.faces[axis][0].rule != reference.PERIODIC:
                continue
            low, high = around[axis]
            ranges = [numpy.arange(-around[other][0], extent[other] + around[other][1]) for other in range(3)]
            beyond = numpy.concatenate((numpy.arange(-low, 0), numpy.arange(extent[axis], extent[axis] + high)))
            if not len(beyond):
                continue
            to, source = list(ranges), list(ranges)
            to[axis], source[axis] = beyond, beyond % extent[axis]
            cells[layout.positions(*numpy.ix_(*to))] = cells[layout.positions(*numpy.ix_(*source))]

    def sweep(self, source, layout, target, points, scalars, box, parts, in_place, steps, kept):
        """(the output's cells, the name of a field that changed and must not, the cells of the step before)"""
        library = self.library
        buffers = {name: Buffer(library, point.layout.cells, point.storage.cell) for name, point in points.items()}
        out = buffers[in_place] if in_place else Buffer(library, target.layout.cells, target.storage.cell)
        opened = [*buffers.values()] + ([] if in_place else [out])
        beside = Buffer(library, kept.layout.cells, kept.storage.cell) if kept else None
        opened += [beside] if kept else []
        for buffer in opened:
            buffer.__enter__()
        try:
            for name, buffer in buffers.items():
                buffer.upload(points[name].cells)
            if not in_place:
                out.upload(target.cells)
            if kept:
                beside.upload(kept.cells)
            extent = layout.extent
            for origin, size in parts or [((0, 0, 0), extent)]:
                views = {name: view(points[name].layout, buffers[name], origin, size) for name in points}
                previous = views.pop(self.told["previous"]) if self.told["previous"] else None
                request = make_sweep(
                    view(layout, source, origin, size),
                    view(target.layout, out, origin, size),
                    previous,
                    list(views.values()),
                    list(scalars.values()),
                    box,
                    (origin, extent) if parts else None,
                    view(kept.layout, beside, origin, size) if kept else None,
                )
                if steps:
                    library.require("spider_run_steps", library.run_steps(self.kernel, byref(request), steps, None))
                else:
                    library.run_sweep(self.forms[self.form], request)
            after = out.download()
            kept_after = beside.download() if kept else None
            changed = [
                name
                for name, buffer in buffers.items()
                if name != in_place and (buffer.download() != points[name].cells).any()
            ]
        finally:
            for buffer in opened:
                buffer.__exit__()
        return after, ", ".join(changed), kept_after

    def compare(self, value, error, layout, before, after, box, extent):
        """Every cell of the box within its bound; every other cell as it was."""
        storage = self.plan.storage
        inside = tuple(slice(first, first + count) for first, count in zip(*(box or ((0, 0, 0), extent))))
        positions = layout.interior()[inside]
        guard = numpy.ones(layout.cells, bool)
        guard[positions] = False
        changed = numpy.nonzero(guard & (after != before))[0]
        if len(changed):
            self.failures.append(f"{len(changed)} cells written outside, first {layout.describe(changed[0])}")
        got = storage.decode(after[positions])
        value, error = value[inside], error[inside]
        bound = rounded_bound(storage, value, error)
        with numpy.errstate(invalid="ignore"):
            wrong = ~(numpy.abs(got - value) <= bound) & (numpy.abs(value) + error < storage.overflow)
        if wrong.any():
            first = tuple(numpy.argwhere(wrong)[0])
            self.failures.append(
                f"{wrong.sum()} of {wrong.size} cells beyond their bounds, first {layout.describe(positions[first])}: "
                f"{got[first]!r}, not {value[first]!r} +- {bound[first]:.3g}"
            )
        with numpy.errstate(invalid="ignore"):
            ratio = numpy.where(numpy.abs(value) + error < storage.overflow, numpy.abs(got - value) / bound, 0)
        self.worst = max(getattr(self, "worst", 0.0), float(numpy.nanmax(ratio, initial=0)))


def rounded_bound(storage, value, error):
    """How far a cell may be from `value`: the update's bound, and rounding its result to the storage."""
    return error + storage.rounding * (numpy.abs(value) + error) + storage.subnormal_rounding + storage.arithmetic[1]


def view(layout, buffer, origin, size):
    """A part of a field as a field of its own."""
    first = layout.base + origin[0] * layout.strides[0] + origin[1] * layout.strides[1] + origin[2]
    return make_field(buffer.address + buffer.cell.itemsize * first, size, layout.strides)


def draw_extent(plan, rng, large=False):
    """Extents around the sizes of tiles."""
    most = {1: (1, 1, 3000), 2: (1, 60, 700), 3: (14, 50, 300)}[plan.dimensions]
    least = {1: (1, 1, 1), 2: (1, 1, 1), 3: (1, 1, 1)}[plan.dimensions]
    if large:
        return most
    return tuple(int(rng.integers(low, high + 1)) for low, high in zip(least, (most[0], most[1], most[2] // 2)))


def draw_box(extent, rng):
    offset = tuple(int(rng.integers(0, count)) for count in extent)
    return offset, tuple(int(rng.integers(1, count - first + 1)) for count, first in zip(extent, offset))


def draw_parts(extent, rng):
    """Cuts of the whole along every axis that has room."""
    cuts = []
    for count in extent:
        places = sorted({0, count, *(int(one) for one in rng.integers(0, count + 1, 2))})
        cuts.append(list(zip(places, places[1:])))
    return [
        ((z, y, x), (z_end - z, y_end - y, x_end - x))
        for z, z_end in cuts[0]
        for y, y_end in cuts[1]
        for x, x_end in cuts[2]
    ]


def check_same_bits(subject, seed, case, rng):
    """Boxes, parts and fields in place give the bits of a whole sweep."""
    extent = draw_extent(subject.plan, rng)
    again = lambda: numpy.random.default_rng([seed, case])  # noqa: E731
    whole = subject.run(extent, again(), bool(case % 2))
    for name, kind in subject.storages().items():
        if kind == subject.plan.storage and subject.plan.steps == 1:
            # Another layout is drawn where the output has none of its own; the values are the same.
            if (subject.run(extent, again(), bool(case % 2), in_place=name) != whole).any():
                subject.failures.append(f"in place of {name} the bits are others")
            break
    whole = subject.run(extent, again(), bool(case % 2), parts=[((0, 0, 0), extent)])
    parts = draw_parts(extent, rng)
    if (subject.run(extent, again(), bool(case % 2), parts=parts) != whole).any():
        subject.failures.append(f"in {len(parts)} parts of {extent} the bits are others")


def check_steps(subject, rng):
    """spider_run_steps against as many spider_run, in place and not."""
    library, plan = subject.library, subject.plan
    storage = plan.storage
    extent = draw_extent(plan, rng)
    around = input_around(plan, extent)
    layout = make_layout(extent, "odd", 1, around, rng, 16 // storage.bytes)
    # Every field may become the input: each has a halo.
    start = [storage.encode(rng.uniform(-1, 1, layout.cells)) for _ in range(4)]
    beside = subject.around_points(extent, False)
    points = {
        name: Point(kind, extent, rng, False, rng.uniform(-1, 1, extent), beside) for name, kind in subject.storages().items()
    }
    points.pop(subject.told["previous"], None)
    scalars = [float(rng.uniform(-1, 1)) for _ in subject.told["scalars"]]
    steps = int(rng.integers(1, 5)) if plan.steps == 1 else int(rng.integers(1, 2 * plan.steps + 2))
    several = [plan.steps] * (steps // plan.steps) + [1] * (steps % plan.steps)
    one_by_one = [1] * steps if subject.keeps_previous() else several
    kinds = ("", " in place") if subject.told["previous"] else ("",)
    for kind in (*kinds, " in pairs") if subject.keeps_previous() else kinds:
        in_place, in_pairs = kind == " in place", kind == " in pairs"
        results = []
        for at_once in (True, False):
            buffers = [Buffer(library, layout.cells, storage.cell) for _ in start]
            others = [Buffer(library, one.layout.cells, one.storage.cell) for one in points.values()]
            for buffer, cells in zip([*buffers, *others], [*start, *(one.cells for one in points.values())]):
                buffer.__enter__()
                buffer.upload(cells)
            fields = [layout.field(buffer) for buffer in buffers]
            further = [one.layout.field(buffer) for one, buffer in zip(points.values(), others)]
            source, target, previous = fields[0], fields[1], fields[2] if subject.told["previous"] else None
            if in_place:
                target = previous
            beside = fields[3] if in_pairs else None
            request = make_sweep(source, target, previous, further, scalars, out_previous=beside)
            if at_once:
                result = c_void_p()
                library.require("spider_run_steps", library.run_steps(subject.kernel, byref(request), steps, byref(result)))
                data = Field.from_address(result.value).data
            else:
                for of_sweep in several if in_pairs else one_by_one:
                    several_at_once = in_pairs and of_sweep > 1
                    if in_pairs and of_sweep == 1:
                        target = previous
                    request = make_sweep(
                        source, target, previous, further, scalars, out_previous=beside if several_at_once else None
                    )
                    library.require(
                        "spider_run_steps", library.run_steps(subject.kernel, byref(request), of_sweep, None)
                    )
                    if several_at_once:
                        source, target, previous, beside = target, source, beside, previous
                        continue
                    source, target, previous = target, previous if previous else source, source if previous else None
                    if in_place:
                        target = previous
                data = source.data
            place = next(place for place, field in enumerate(fields) if field.data == data)
            wanted = (place, (2, 3, 0, 1)[place]) if in_pairs else (place,)  # and the other of its pair
            results.append(numpy.stack([buffers[one].download()[layout.interior()] for one in wanted]))
            for buffer in [*buffers, *others]:
                buffer.__exit__()
        if (results[0] != results[1]).any():
            subject.failures.append(f"{steps} steps at once are others than one by one{kind}")


def check_misuse(subject, rng):
    """What a sweep must be given, and what it must not."""
    library, plan = subject.library, subject.plan
    extent = (1, 1, 40) if plan.dimensions == 1 else (1, 20, 40) if plan.dimensions == 2 else (12, 20, 40)
    around = input_around(plan, extent)
    layout = make_layout(extent, "odd", 1, around, rng, 8)
    storages = subject.storages()
    make_buffer = lambda: Buffer(library, layout.cells, plan.storage.cell)  # noqa: E731
    with make_buffer() as a, make_buffer() as b, make_buffer() as c:
        others = {name: Buffer(library, layout.cells, kind.cell) for name, kind in storages.items()}
        for buffer in others.values():
            buffer.__enter__()
        for buffer in (a, b, c, *others.values()):  # tools that know uninitialised memory see reads of it
            buffer.upload(numpy.zeros(layout.cells, buffer.cell))
        given = {name: layout.field(buffer) for name, buffer in others.items()}
        previous = given.pop(subject.told["previous"], None)
        fields, scalars = list(given.values()), [1.0] * len(subject.told["scalars"])

        def status(**changes):
            usual = {"previous": previous, "fields": fields, "scalars": scalars}
            if subject.keeps_previous():
                usual["out_previous"] = layout.field(c)
            request = make_sweep(layout.field(a), layout.field(b), **(usual | changes))
            return library.run(subject.kernel, byref(request))

        def expect(wanted, got, what):
            if wanted != got:
                subject.failures.append(f"{what}: status {got}, not {wanted} ({library.words()})")

        expect(OK, status(), "all that it takes")
        expect(NULL if previous else UNSUPPORTED, status(previous=None if previous else layout.field(a)), "previous")
        expect(
            NULL if subject.keeps_previous() else UNSUPPORTED,
            status(out_previous=None if subject.keeps_previous() else layout.field(c)),
            "out_previous",
        )
        short = make_sweep(layout.field(a), layout.field(b), previous, fields, scalars)
        short.size = type(short).out_previous.offset  # that of callers before it was appended
        expect(NULL if subject.keeps_previous() else OK, library.run(subject.kernel, byref(short)), "a shorter sweep")
        expect(NULL if fields else UNSUPPORTED, status(fields=() if fields else [layout.field(a)]), "fields")
        expect(NULL if scalars else UNSUPPORTED, status(scalars=() if scalars else [1.0]), "scalars")
        if storages:
            short = library.apply(subject.kernel, byref(layout.field(a)), byref(layout.field(b)), None)
            expect(UNSUPPORTED, short, "spider_apply")
        if previous:
            shifted = make_field(b.address + plan.storage.bytes * (layout.base + 1), extent, layout.strides)
            expect(OVERLAP, status(previous=shifted), "previous, one cell into the output")
        if plan.steps > 1:
            for name in (name for name, kind in storages.items() if kind == plan.storage):
                target = previous if name == subject.told["previous"] else given[name]
                beside = layout.field(c) if subject.keeps_previous() else None
                request = make_sweep(layout.field(a), target, previous, fields, scalars, out_previous=beside)
                expect(OVERLAP, library.run(subject.kernel, byref(request)), f"{name}, which other steps read, written")
            if subject.keeps_previous():
                for target, what in ((layout.field(a), "the input"), (layout.field(b), "the output"), (previous, "previous")):
                    expect(OVERLAP, status(out_previous=target), f"{what} as out_previous")
                whole = make_sweep(
                    layout.field(a), layout.field(b), previous, fields, scalars, ((0, 0, 0), extent), out_previous=layout.field(c)
                )
                got = library.run_steps(subject.kernel, byref(whole), 1, None)
                expect(UNSUPPORTED, got, "one step of a box, which writes no out_previous")
                check_shared_halo(subject, layout, extent, around, (b, c), fields, scalars, expect)
        for buffer in others.values():
            buffer.__exit__()


def check_shared_halo(subject, layout, extent, around, outputs, fields, scalars, expect):
    """A previous field in the halo of the input, which turns of two pairs would write, is refused."""
    library, plan = subject.library, subject.plan
    axis = 2 if plan.dimensions == 1 else 1
    if not any(around[axis]):
        return
    with Buffer(library, 2 * layout.cells, plan.storage.cell) as both:
        both.upload(numpy.zeros(2 * layout.cells, both.cell))
        source, previous = (
            make_field(both.address + plan.storage.bytes * (layout.base + shift), extent, layout.strides)
            for shift in sorted((0, extent[axis] * (layout.strides[1] if axis == 1 else 1)), reverse=around[axis][1] == 0)
        )
        out, out_previous = map(layout.field, outputs)
        request = make_sweep(source, out, previous, fields, scalars, out_previous=out_previous)
        got = library.run_steps(subject.kernel, byref(request), 2 * plan.steps, None)
        expect(OVERLAP, got, "previous, in the halo of the input")


def check(subject, seed, cases):
    """All checks of one kernel."""
    for case in range(cases):
        rng = numpy.random.default_rng([seed, case, *subject.name.encode()])
        extent = draw_extent(subject.plan, rng, case == 0)
        box = draw_box(extent, rng) if case % 3 == 2 else None
        kinds = subject.storages().items() if subject.plan.steps == 1 else ()
        names = [name for name, kind in kinds if kind == subject.plan.storage]
        in_place = names[case % len(names)] if names and case % 2 else None
        subject.form = case % len(subject.forms)
        subject.run(extent, rng, case % 2 == 0, in_place, box)
    subject.form = 0
    rng = numpy.random.default_rng([seed, 99, *subject.name.encode()])
    if subject.plan.steps > 1:
        extent = draw_extent(subject.plan, rng)
        subject.run(extent, rng, True, box=((0, 0, 0), extent), steps=1)
    check_same_bits(subject, seed, 7, rng)
    check_steps(subject, rng)
    check_misuse(subject, rng)


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--plans", required=True, type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    parser.add_argument("--cases", type=int, default=4, help="sweeps of each kernel, beside those that compare bits")
    parser.add_argument("--kernels", nargs="+", metavar="NAME", help="only these")
    parser.add_argument("--half-of", type=int, metavar="DAY",
                        help="every second random kernel, others on the next day; 0: today, by days since 1970")
    parser.add_argument("--share", metavar="I/N", help="of these kernels every N-th from the I-th, counted from 1")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    names = sorted(path.stem for path in arguments.plans.glob("*.json") if not path.stem.endswith(".expected"))
    names = [name for name in names if not arguments.kernels or name in arguments.kernels]
    if arguments.half_of is not None:
        day = arguments.half_of or int(time.time()) // 86400
        names = [name for place, name in enumerate(names) if not name.startswith("update_") or place % 2 == day % 2]
    if arguments.share:
        number, shares = map(int, arguments.share.split("/"))
        names = names[number - 1 :: shares]
    failed, worst, begin = [], 0.0, time.monotonic()
    random.seed(arguments.seed)
    for name in names:
        subject = None
        try:
            subject = Subject(library, arguments.plans, name)
            check(subject, arguments.seed, arguments.cases)
            failures = subject.failures
        except CallFailed as error:
            failures = [*(subject.failures if subject else []), str(error)]
        except Exception:  # an error of the harness belongs to its kernel
            failures = ["the harness failed:\n" + traceback.format_exc()]
        worst = max(worst, getattr(subject, "worst", 0.0))
        if failures:
            failed.append(name)
            print(f"FAILED {name}:", *failures[:6], sep="\n  ", flush=True)
    print(
        f"{len(names)} kernels with updates, {arguments.cases} sweeps each and their bits, seed {arguments.seed}, "
        f"{time.monotonic() - begin:.0f} s, worst error/bound {worst:.3f}: "
        + (f"{len(failed)} FAILED: {' '.join(failed)}" if failed else "all within bounds, nothing else written")
    )
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
