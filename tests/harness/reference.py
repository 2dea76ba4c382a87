"""What a sweep must compute, in float64, for f64 fields in long doubles, and independently of the generator: boundary rules
as index maps, the cells that a kernel may read, the sum over taps, the error bound, and SciPy with numpy.pad as an oracle for
all of that.

Everything has three axes, z, y, x; those that a stencil lacks have extent 1."""

import dataclasses
import functools
import json
import pathlib

import numpy
import scipy.ndimage

from storage import STORAGES, Storage

HALO, CONSTANT, NEAREST, PERIODIC, REFLECT, MIRROR, ANTISYMMETRIC = RULES = (
    "halo",
    "constant",
    "nearest",
    "periodic",
    "reflect",
    "mirror",
    "antisymmetric",
)
AXES = "zyx"
SIDES = ("low", "high")
COMPOSITION_TERMS = ("taps", "terms", "magnitude", "packed_magnitude", "deviation")
BOUND_TERMS = ("result", "sum", "absolute", "neighbourhood")
CORE_LIST_TERMS = ("rank", "passed", "y_magnitude")
LOW_RANK_TERMS = ("deviation", "magnitude", "passed", "y_magnitude")
SCIPY_MODES = {CONSTANT: "constant", NEAREST: "nearest", PERIODIC: "wrap", REFLECT: "reflect", MIRROR: "mirror"}
# numpy.pad's names for what a single step past a face shows.
SETTLED_MODES = {CONSTANT: "constant", NEAREST: "edge"}
REFLECTING_MODES = {REFLECT: "symmetric", MIRROR: "reflect"}


@dataclasses.dataclass(frozen=True)
class Face:
    rule: str
    value: float = 0.0


@dataclasses.dataclass(frozen=True)
class Tap:
    at: tuple  # dz, dy, dx
    weight: float  # the spec's
    packed: float  # the sum of its terms
    sum: int = 0  # whose tap it is, of a spec that names several


@dataclasses.dataclass(frozen=True)
class TapRow:
    """The hull of the taps that share dz and dy."""

    dz: int
    dy: int
    low: int
    high: int


def block_of(data):
    """Rows and columns of a block that streams planes through shared memory, of what the explanation says; else none."""
    if data.get("template") == "stream3d":
        streaming = data["passes"][0]["streaming"]
        return streaming["warps_per_block"] * streaming["rows_per_warp"], 128
    cores = data.get("cores") or {}
    ring = cores.get("ring")
    return (ring["warps_down"] * ring["rows_per_thread"], ring["warps_across"] * 32 * cores["outputs"]) if ring else ()


def tile_of(data):
    """Rows and columns of the highest tile whose inputs wait in shared memory, of what the explanation says, and the forms
    of the kernel that have it, counted from 1: the first one, and the first for rows that are not aligned. Else none."""
    forms = [form for one in data.get("passes") or [] for form in one["streaming"].get("tile_forms", [])]
    shared = [(number, form) for number, form in enumerate(forms, 1) if form["in_shared_memory"]]
    if not shared:
        return (), ()
    rows = max(form["tile_rows"] for _, form in shared)
    highest = [(number, form) for number, form in shared if form["tile_rows"] == rows]
    of_any_rows = next(number for number, form in highest if form["any_rows"])
    return (rows, 512), (highest[0][0], of_any_rows)


def low_rank_of(data):
    """What an explanation says of lists along y and along x, if it has any."""
    if data.get("template") != "lowrank2d":
        return ()
    told = data["passes"][0]["streaming"]
    return tuple(max(float(lists[key]) for lists in told.get("lists", [told])) for key in LOW_RANK_TERMS)


def core_lists_of(data):
    """Of two passes on CUDA cores what an explanation says of its lists: pairs, `passed` and `y_magnitude`."""
    if data.get("template") != "passes2d":
        return ()
    told = data["cores"]
    return tuple(max(float(lists[key]) for lists in told.get("lists", [told])) for key in CORE_LIST_TERMS)


def list_reach_of(data):
    """How far the lists of two passes reach along y and along x, below and above; nothing of other plans."""
    if data.get("template") != "lowrank2d":
        return ()
    told = data["passes"][0]["streaming"]
    reaches = [lists["list_reach"] for lists in told.get("lists", [told])]
    return tuple(tuple(max(reach[axis][side] for reach in reaches) for side in (0, 1)) for axis in (0, 1))


def composition_of(data):
    """What an explanation says of steps that are taken as one, if they are: values of COMPOSITION_TERMS."""
    told = data.get("composition")
    return tuple(float(told[key]) for key in COMPOSITION_TERMS) if told else ()


@dataclasses.dataclass(frozen=True)
class Plan:
    """One kernel as `spider-gen --explain --explain-format json` tells it."""

    name: str
    dimensions: int
    storage: Storage
    accuracy: str  # of f32 fields; "full" elsewhere
    faces: tuple  # (low Face, high Face) of z, y, x
    taps: tuple
    tap_rows: tuple
    chained_mmas: int
    terms: int  # of each weight
    factor: float = 1.0  # of all weights, beside a power of two: results are multiplied by it
    adds_identity: bool = False  # the kernel adds the old value itself; its operands hold what is left of the weights
    stated_bound: tuple = ()  # coefficients of the explanation's own bound: result, sum, absolute, neighbourhood
    options: tuple = ()  # of the command line, beside the spec
    engine: str = "sparse"  # what multiplies
    template: str = ""  # that the kernel is made from
    block: tuple = ()  # rows and columns of a block that streams planes through shared memory
    tile: tuple = ()  # rows and columns of the highest tile whose inputs wait there, in 2D
    tile_forms: tuple = ()  # numbers of the forms that have it, as in tile_of
    steps: int = 1  # that a sweep advances; taps are of one, tap_rows of all of them
    low_rank: tuple = ()  # of two passes the values of LOW_RANK_TERMS
    core_lists: tuple = ()  # of two passes on CUDA cores the values of CORE_LIST_TERMS
    composition: tuple = ()  # of steps taken as one the values of COMPOSITION_TERMS
    list_reach: tuple = ()  # of two passes how far their lists reach along y and x: what lies beyond is truncated

    @property
    def inner_tile_extent(self):
        """A field with such a tile that has all that it reads around it, in vectors of 16 bytes."""
        return (1, 2 * self.tile[0] + sum(self.reach[1]) + 1, 2 * self.tile[1] + sum(self.reach[2]) + 32)

    @functools.cached_property
    def reach(self):
        """How far the taps of all steps go on axes z, y, x: ((low, high), ...), each >= 0."""
        return tuple((self.steps * low, self.steps * high) for low, high in self.step_reach)

    def leaves_out(self):
        """Are there cells that steps one by one reach, and steps taken as one do not?"""
        if not self.composition:
            return False
        reached = {(0, 0, 0)}
        for _ in range(self.steps):
            reached = {tuple(map(sum, zip(at, tap.at))) for at in reached for tap in self.taps}
        return len(reached) > self.composition[0]

    def continues_oddly(self):
        """Are there faces beyond which several steps, composed, see the field's negatives?"""
        return self.steps > 1 and any(face.rule == CONSTANT for faces in self.faces for face in faces)

    @functools.cached_property
    def step_reach(self):
        """The same of one step."""
        return tuple(
            (max(0, -min(tap.at[axis] for tap in self.taps)), max(0, max(tap.at[axis] for tap in self.taps)))
            for axis in range(3)
        )

    @property
    def own_faces(self):
        """The faces of the axes that the stencil has."""
        return tuple(face for axis in range(3 - self.dimensions, 3) for face in self.faces[axis])

    @property
    def kind(self):
        """Dimensions and storage, for summaries."""
        return f"{self.dimensions}D {self.storage.name}" + ("" if self.accuracy == "full" else f" {self.accuracy}")

    @property
    def rules(self):
        """The rules that occur, for summaries."""
        return "+".join(rule for rule in RULES if any(face.rule == rule for face in self.own_faces))


def read_faces(data):
    """Faces of z, y, x. A value is what the storage holds of it: it is a cell of the field like any other."""
    faces = []
    for axis in AXES:
        told = data.get(axis, {side: {"rule": HALO} for side in SIDES})  # an axis that the stencil lacks has no reach
        faces.append(tuple(Face(told[side]["rule"], float(told[side].get("value") or 0)) for side in SIDES))
    return tuple(faces)


def load_expected(folder, name):
    """What the writer of a random spec means, or None for a shipped one."""
    path = pathlib.Path(folder) / f"{name}.expected.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def load_plan(path):
    """Reads one explanation; the error of a malformed one names the file."""
    path = pathlib.Path(path)
    expected = load_expected(path.parent, path.stem) or {}
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        tile, tile_forms = tile_of(data)
        plan = Plan(
            name=data["stencil"],
            dimensions=int(data["dimensions"]),
            storage=STORAGES[data["storage"]],
            accuracy=data.get("accuracy", "full"),
            faces=read_faces(data["boundary"]),
            taps=tuple(Tap(tuple(tap["at"]), float(tap["weight"]), float(tap["packed"]), int(tap.get("sum", 0))) for tap in data["taps"]),
            tap_rows=tuple(TapRow(row["dz"], row["dy"], row["low"], row["high"]) for row in data["tap_rows"]),
            chained_mmas=int(data["chained_mmas"]),
            terms=int(data["weights"]["terms"]),
            factor=float(data["weights"].get("factor", 1)),
            adds_identity=bool(data.get("adds_identity", False)),
            stated_bound=tuple(data.get("error_bound", {}).get(key, 0.0) for key in BOUND_TERMS),
            options=tuple(expected.get("options", ())),
            engine=data.get("engine", "sparse"),
            template=data.get("template", ""),
            block=block_of(data),
            tile=tile,
            tile_forms=tile_forms,
            steps=int(data.get("steps", 1)),
            low_rank=low_rank_of(data),
            core_lists=core_lists_of(data),
            list_reach=list_reach_of(data),
            composition=composition_of(data),
        )
    except (AttributeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not an explanation of a kernel: {error!r}") from error
    check_plan(plan, data)
    return plan


def check_plan(plan, data):
    """Raises ValueError where the explanation contradicts itself: a test must not inherit a mistake from it."""
    if not 1 <= plan.dimensions <= 3 or any(len(tap.at) != 3 for tap in plan.taps):
        raise ValueError(f"{plan.name}: {plan.dimensions} dimensions")
    if any(any(tap.at[: 3 - plan.dimensions]) for tap in plan.taps):
        raise ValueError(f"{plan.name}: a tap on an axis that the stencil does not have")
    rows = {}
    for tap in plan.taps:
        dz, dy, dx = tap.at
        low, high = rows.get((dz, dy), (dx, dx))
        rows[dz, dy] = (min(low, dx), max(high, dx))
    if plan.steps > 1:
        (front, back), (down, up), (left, right) = plan.reach
        rows = {(dz, dy): (-left, right) for dz in range(-front, back + 1) for dy in range(-down, up + 1)}
    if {((row.dz, row.dy), (row.low, row.high)) for row in plan.tap_rows} != set(rows.items()):
        raise ValueError(f"{plan.name}: tap_rows are not the hulls of the taps")
    told = data["reach"]
    if tuple(zip(told["low"], told["high"])) != plan.reach:
        raise ValueError(f"{plan.name}: reach is not that of the taps")
    # Windows of 16 columns at multiples of 8, and a product for each term of weight and value, or one for each half of
    # that where products are dense: more would loosen the bound without a reason.
    terms = int(plan.composition[1]) if plan.composition else plan.terms
    products = terms if plan.storage.bytes == 2 else max(3, terms)
    if data.get("engine") == "dense":
        products *= 2
    most = products * sum((row.high - row.low) // 16 + 2 for row in plan.tap_rows)
    if not 0 <= plan.chained_mmas <= most:
        raise ValueError(f"{plan.name}: {plan.chained_mmas} chained MMAs; at most {most} are plausible")
    if any(face.rule not in RULES for axis in plan.faces for face in axis):
        raise ValueError(f"{plan.name}: a boundary rule that this harness does not know")


def allowed_packing(plan, expected, weight, largest):
    """How far a packed weight may be off: exact weights stay exact, those with a common factor share its rounding to f32,
    terms of 11 (f16) or 8 (bf16) digits follow each other, and a low term may be corrected for the sum of the weights."""
    if expected["weights"] == "f16":
        return 2.0**-11 * abs(weight) + 2.0**-25
    if expected["weights"] == "bf16":
        return 2.0**-8 * abs(weight)
    if expected["weights"] == "bf16x2":
        return 2.0**-17 * abs(weight) + 2.0**-133
    if plan.core_lists and (plan.core_lists[0] > 1 or plan.storage.name == "f64" or not expected["exact"]):
        # Numbers of two lists are multiplied; of several pairs sums of products may cancel.
        rounding, _ = plan.storage.arithmetic
        return (8 if plan.storage.name == "f64" else 4) * rounding * (abs(weight) if plan.core_lists[0] == 1 else largest)
    if expected["exact"]:
        return 0.0
    if expected.get("rational"):
        return 2.0**-23 * abs(weight)
    if plan.low_rank:
        return 2.0**-20 * largest
    if plan.accuracy != "full":
        return 2.0**-11 * abs(weight) + 2.0**-24 * largest
    return 2.0**-21 * largest


def compare_with_expected(plan, expected):
    """Mistakes of a plan against the spec as its writer means it (random_specs.py), as a list of sentences."""
    mistakes = []
    if plan.steps != expected.get("steps", 1):
        mistakes.append(f"the plan takes {plan.steps} steps, the spec {expected.get('steps', 1)}")
    meant = tuple(expected[key] for key in ("dimensions", "storage", "accuracy"))
    if (plan.dimensions, plan.storage.name, plan.accuracy) != meant:
        mistakes.append(f"the plan is {plan.kind}, the spec {meant}")
    wanted = {tuple(tap[:3]): tap[3] for tap in expected["taps"]}
    got = {tap.at: tap for tap in plan.taps}
    if wanted.keys() != got.keys():
        return [*mistakes, f"taps {sorted(wanted.keys() ^ got.keys())[:4]} are in only one of spec and plan"]
    largest = max(abs(weight) for weight in wanted.values())
    if expected.get("rational") and expected["weights"] == "auto" and plan.terms != 1 and not plan.low_rank:
        mistakes.append(f"weights with a common factor take {plan.terms} terms")
    for offset, weight in wanted.items():
        tap = got[offset]
        if abs(tap.weight - weight) > 1e-14 * abs(weight) + 1e-16 * largest:
            mistakes.append(f"weight at {offset} is {tap.weight!r}, the spec says {weight!r}")
        if abs(tap.packed - weight) > allowed_packing(plan, expected, weight, largest) + 1e-14 * abs(weight):
            mistakes.append(f"packed weight at {offset} is {tap.packed!r} for {weight!r}")
    for axis in range(3 - plan.dimensions, 3):
        for side, face in zip(SIDES, plan.faces[axis]):
            rule, value = expected["boundary"][AXES[axis]][side]
            if face.rule != rule or (rule == CONSTANT and face.value != value):
                mistakes.append(f"boundary {AXES[axis]} {side} is {face}, the spec says {rule} {value}")
    return mistakes


@dataclasses.dataclass(frozen=True)
class IndexMap:
    """One axis extended: where each position first, first + 1, ... is read from, and where it is a constant."""

    first: int
    index: numpy.ndarray
    constant: numpy.ndarray  # bool
    value: numpy.ndarray
    sign: numpy.ndarray  # 1 or -1, of what is read

    def read_from(self, first, end):
        """The indices that are read for the positions first .. end-1."""
        part = slice(first - self.first, end - self.first)
        return self.index[part][~self.constant[part]]


def map_position(position, extent, faces):
    """(index, None, sign) or (0, value of a constant, sign): by the rule of the face that is crossed, again and again."""
    sign = 1.0
    while not 0 <= position < extent:
        low = position < 0
        face = faces[0 if low else 1]
        if face.rule == HALO:
            break
        if face.rule == CONSTANT:
            return 0, sign * face.value, sign
        if face.rule == NEAREST:
            position = 0 if low else extent - 1
        elif face.rule == PERIODIC:
            position += extent if low else -extent
        elif face.rule == REFLECT:
            position = -1 - position if low else 2 * extent - 1 - position
        elif face.rule == ANTISYMMETRIC:
            if position in (-1, extent):
                return 0, 0.0, sign
            position = -2 - position if low else 2 * extent - position
            sign = -sign
        elif extent == 1:
            position = 0
        else:
            position = -position if low else 2 * extent - 2 - position
    return position, None, sign


@functools.lru_cache(maxsize=64)
def extend_axis(extent, below, above, faces):
    """The map of -below .. extent-1+above."""
    positions = range(-below, extent + above)
    mapped = [map_position(position, extent, faces) for position in positions]
    return IndexMap(
        -below,
        numpy.array([index for index, _, _ in mapped]),
        numpy.array([value is not None for _, value, _ in mapped]),
        numpy.array([0.0 if value is None else value for _, value, _ in mapped]),
        numpy.array([sign for _, _, sign in mapped]),
    )


def extend_axes(plan, extent):
    """The maps of z, y, x."""
    return tuple(extend_axis(extent[axis], *plan.reach[axis], plan.faces[axis]) for axis in range(3))


def extended_field(plan, extent, read):
    """The field around the interior as taps see it; `read(z, y, x)` gives cells at index arrays as float64. Axes are
    extended z, then y, then x: where several constant faces meet, the fastest axis gives the value, and where an axis takes
    negatives it takes those of a slower one's constants, too."""
    maps = extend_axes(plan, extent)
    cells = read(*numpy.ix_(*(axis.index for axis in maps)))
    for axis, along in enumerate(maps):
        shape = [1, 1, 1]
        shape[axis] = -1
        cells = numpy.where(along.constant.reshape(shape), along.value.reshape(shape), along.sign.reshape(shape) * cells)
    return cells


@dataclasses.dataclass(frozen=True)
class Cells:
    """A set of cells: those of a mask whose first cell is at `first`."""

    first: tuple  # z, y, x
    mask: numpy.ndarray

    def indices(self):
        """(z, y, x) index arrays of the cells, ascending."""
        return tuple(found + first for found, first in zip(numpy.nonzero(self.mask), self.first))


@dataclasses.dataclass(frozen=True)
class Box:
    """A part of the interior."""

    offset: tuple
    extent: tuple


@functools.lru_cache(maxsize=8)
def valid_cells(plan, extent, box=None):
    """The cells that a kernel may read: the interior, or the box, and what the hull of each tap row reaches from it, as
    the boundary maps it."""
    box = box or Box((0, 0, 0), extent)
    maps = extend_axes(plan, extent)
    blocks = [tuple(numpy.arange(first, first + count) for first, count in zip(box.offset, box.extent))]
    for row in plan.tap_rows:
        ranges = []
        for axis, (low, high) in enumerate(((row.dz, row.dz), (row.dy, row.dy), (row.low, row.high))):
            ranges.append(maps[axis].read_from(box.offset[axis] + low, box.offset[axis] + box.extent[axis] + high))
        if all(len(found) for found in ranges):
            blocks.append(tuple(ranges))
    first = tuple(min(int(block[axis].min()) for block in blocks) for axis in range(3))
    last = tuple(max(int(block[axis].max()) for block in blocks) for axis in range(3))
    mask = numpy.zeros([high - low + 1 for low, high in zip(first, last)], bool)
    for block in blocks:
        mask[numpy.ix_(*(indices - low for indices, low in zip(block, first)))] = True
    return Cells(first, mask)


def apply_taps(plan, extended, extent, exact_weights=False):
    """(sum of weight * x, sum of |weight * x|) over the taps, per interior cell, in float64. Where the kernel adds the
    old value itself, the second sum is that of what its operands hold."""
    total = numpy.zeros(extent, extended.dtype)
    magnitude = numpy.zeros(extent, extended.dtype)
    for tap in plan.taps:
        part = tuple(
            slice(plan.reach[axis][0] + tap.at[axis], plan.reach[axis][0] + tap.at[axis] + extent[axis])
            for axis in range(3)
        )
        product = (tap.weight if exact_weights else tap.packed) * extended[part]
        total += product
        own = extended[part] if plan.adds_identity and tap.at == (0, 0, 0) else 0.0
        magnitude += numpy.abs(product - own)
    return total, magnitude


def sweep_field(plan, extent, read, exact_weights=False):
    """What a sweep makes of the interior, and of the magnitudes of all cells and weights, in float64. Of several steps:
    one after the other, each with the boundary's rules; cells beyond a halo face are stepped as far as they are known."""
    with numpy.errstate(invalid="ignore", over="ignore"):  # corners that no tap reaches are read along
        if plan.steps == 1:
            return apply_taps(plan, extended_field(plan, extent, read), extent, exact_weights)
        maps = extend_axes(plan, extent)
        first = tuple(min(0, int(along.index[~along.constant].min(initial=0))) for along in maps)
        last = tuple(max(n, int(along.index[~along.constant].max(initial=0)) + 1) for n, along in zip(extent, maps))
        total = read(*numpy.ix_(*map(numpy.arange, first, last)))
        magnitude = numpy.abs(total)
        for _ in range(plan.steps):
            total = step_cells(plan, extent, first, total, exact_weights, False)
            magnitude = step_cells(plan, extent, first, magnitude, exact_weights, True)
    inner = tuple(slice(-low, -low + n) for low, n in zip(first, extent))
    return total[inner], magnitude[inner]


def step_cells(plan, extent, first, cells, exact_weights, of_magnitudes):
    """One step of the cells from `first` on, some of them beyond halo faces; NaN where those that it needs are not there."""
    extended = cells
    for axis in range(3):
        low, high = plan.step_reach[axis]
        count = cells.shape[axis]
        along = extend_axis(extent[axis], low - first[axis], count + first[axis] - extent[axis] + high, plan.faces[axis])
        place = along.index - first[axis]
        extended = numpy.take(extended, numpy.clip(place, 0, count - 1), axis)
        shape = [1, 1, 1]
        shape[axis] = -1
        missing = (place < 0) | (place >= count)
        extended = numpy.where(missing.reshape(shape), numpy.nan, extended)
        value = numpy.abs(along.value) if of_magnitudes else along.value
        extended = numpy.where(along.constant.reshape(shape), value.reshape(shape), extended)
    total = numpy.zeros(cells.shape, cells.dtype)
    for tap in plan.taps:
        weight = tap.weight if exact_weights else tap.packed
        part = tuple(
            slice(plan.step_reach[axis][0] + tap.at[axis], plan.step_reach[axis][0] + tap.at[axis] + cells.shape[axis])
            for axis in range(3)
        )
        total += (abs(weight) if of_magnitudes else weight) * extended[part]
    return total


# f32 fields at full accuracy, |error| <= (a 2^-22 + b M 2^-23) sum |w x|: a for what splitting values and weights into
# terms leaves out, b for the adds of an MMA.
SPLIT_ERRORS = 4
MMA_ERRORS = 18
# f32 values are split after a common power of two is taken from those that share an operand: what is left out is also
# relative to the largest of them, at least 2^-48 with two terms and 2^-37 with one.
NEIGHBOUR_ERROR = {"full": 2.0**-48, "tf32": 2.0**-37, "f16": 0.0}


def error_bound(plan, total, magnitude, largest):
    """The pointwise bound of one sweep against the packed weights; `largest` is the field's largest magnitude. Two-byte
    storage: rounding of the result, at most 17 truncating adds of at least 24 bits and one product rounding in each
    chained MMA, and the subnormal step; a factor that is no power of two rounds once more to f32. f32: the adds, and what
    the split leaves out."""
    if plan.engine == "cuda":
        return core_lists_error_bound(plan, magnitude, largest) if plan.core_lists else core_error_bound(plan, total, magnitude)
    if plan.low_rank:
        return low_rank_error_bound(plan, total, largest)
    if plan.template == "passes":  # as bands, whose products the whole plan does not tell
        return stated_error_bound(plan, total, magnitude, largest)
    if plan.composition:
        rounding = 1.01 * (plan.storage.rounding + 2.0**-24) * numpy.abs(total) + plan.storage.subnormal_rounding
        return rounding + composed_error(plan) * largest
    adds = 1.001 * MMA_ERRORS * plan.chained_mmas * 2.0**-23
    rounding = plan.storage.rounding * numpy.abs(total) + plan.storage.subnormal_rounding
    if plan.storage.name != "f32":
        rescaling = 0 if plan.factor == 1 else 1.01 * 2.0**-24 * numpy.abs(total)
        return rounding + rescaling + adds * magnitude
    weights = sum(abs(tap.packed) for tap in plan.taps)
    lost = SPLIT_ERRORS * 2.0**-22 if plan.accuracy == "full" else 2.0**-10
    absolute = 2.0**-24 * weights if plan.accuracy == "f16" else NEIGHBOUR_ERROR[plan.accuracy] * weights * largest
    return rounding + (lost + adds) * magnitude + absolute


def core_error_bound(plan, total, magnitude):
    """The same on CUDA cores: a multiply-add for each tap, rounded once to f32, or f64, to nearest; then the result. Of several
    steps each adds as much, and what rounding weights in another unit, and changes of that unit, come to."""
    roundings = len(plan.taps) if plan.steps == 1 else plan.steps * (len(plan.taps) + 24)
    growth = 1 if plan.steps == 1 else 2.0**25 * max(1, sum(abs(tap.packed) for tap in plan.taps)) ** plan.steps
    rounding, least = plan.storage.arithmetic
    bound = 1.001 * roundings * rounding * magnitude + roundings * growth * least
    if plan.storage.name in ("f32", "f64"):
        return bound
    return bound + 1.001 * plan.storage.rounding * numpy.abs(total) + plan.storage.subnormal_rounding


def core_lists_error_bound(plan, magnitude, largest):
    """The same of two passes on CUDA cores: a multiply-add for each weight of a list, rounded once; one more for f64 weights,
    which are products of two lists' numbers. Products of several pairs of lists may cancel."""
    pairs, passed, of_y = plan.core_lists
    along_y, along_x = (sum(reach) + 1 for reach in plan.reach[1:])
    rounding, least = plan.storage.arithmetic
    roundings = 1.01 * (along_x + pairs * along_y + 1) * rounding
    subnormal = 1.01 * (along_x * of_y + pairs * along_y + 1) * least
    return roundings * (magnitude if pairs == 1 else passed * largest) + subnormal


def low_rank_error(plan):
    """What two passes add to a result's rounding, relative to the largest input. What passes between them is rounded to
    the storage, and every product adds as above; of several steps the weights are beside that by `deviation` off the
    composed ones, whose f32 rounding counts at each step, and four times more for what constants beyond faces add."""
    deviation, composed, passed, _ = plan.low_rank
    error = 1.01 * (plan.storage.rounding + MMA_ERRORS * plan.chained_mmas * 2.0**-23) * passed
    if plan.steps > 1:
        growth = max(1, sum(abs(tap.packed) for tap in plan.taps)) ** plan.steps
        error += 1.01 * (deviation * composed + (plan.steps + 2) * 2.0**-23 * growth)
    return error


def composed_error(plan):
    """What steps taken as one add to a result's rounding, relative to the largest input: every product as above, and how
    far the packed weights lie from the composed ones, whose f32 rounding counts at each step."""
    _, _, magnitude, packed, deviation = plan.composition
    growth = max(1, sum(abs(tap.packed) for tap in plan.taps)) ** plan.steps
    products = MMA_ERRORS * plan.chained_mmas * 2.0**-23 * packed
    return 1.01 * (products + deviation * magnitude + plan.steps * 2.0**-23 * growth)


def low_rank_error_bound(plan, total, largest):
    """The same of two passes."""
    *_, of_y = plan.low_rank
    subnormal = (1 + 1.01 * of_y) * plan.storage.subnormal_rounding
    rounding = 1.01 * (plan.storage.rounding + 2.0**-24) * numpy.abs(total)
    return rounding + low_rank_error(plan) * largest + subnormal


def stated_error_bound(plan, total, magnitude, largest):
    """What the explanation itself promises, or infinity where it promises nothing; its neighbourhood is at most the
    whole field."""
    if not any(plan.stated_bound):
        return numpy.full(total.shape, numpy.inf)
    of_result, of_sum, absolute, of_neighbourhood = plan.stated_bound
    weights = sum(abs(tap.packed) for tap in plan.taps)
    return of_result * numpy.abs(total) + of_sum * magnitude + absolute + of_neighbourhood * weights * largest


# SciPy prepares each position of a kernel near an edge: with more weights, zeros included, that takes minutes.
MOST_WEIGHTS = 5000


def oracle(plan, extent, read):
    """scipy.ndimage.correlate of the packed weights: by its own boundary modes where all faces agree, else on a field
    extended by numpy.pad, axis by axis."""
    own = slice(3 - plan.dimensions, 3)
    radius = [max(sides) for sides in plan.reach]
    largest = max(abs(tap.packed) for tap in plan.taps)  # SciPy drops weights below 2^-52
    weights = numpy.zeros([2 * far + 1 for far in radius])
    for tap in plan.taps:
        weights[tuple(far + at for far, at in zip(radius, tap.at))] = tap.packed / largest
    weights = weights.reshape(weights.shape[own])
    # Beyond twice the extent SciPy 1.10 itself misses `reflect`: every other turn ends one cell outside the array.
    near = all(far <= 2 * count for far, count in zip(radius, extent))
    small = weights.size <= MOST_WEIGHTS
    if small and len(set(plan.own_faces)) == 1 and plan.own_faces[0].rule in SCIPY_MODES and (near or REFLECT not in plan.rules):
        face = plan.own_faces[0]
        interior = read(*numpy.ix_(*map(numpy.arange, extent))).reshape(extent[own])
        swept = correlate(interior, weights, SCIPY_MODES[face.rule], face.value)
        return largest * swept.reshape(extent)
    padded = padded_field(plan, extent, read)
    around = [(far - low, far - high) for far, (low, high) in zip(radius, plan.reach)]
    padded = numpy.pad(padded, around)
    if not small and plan.dimensions > 1:
        return largest * correlate_by_slices(padded, weights.reshape([2 * far + 1 for far in radius]), radius, extent)
    swept = correlate(padded.reshape(padded.shape[own]), weights, "constant", 0.0).reshape(padded.shape)
    return largest * swept[tuple(slice(far, far + count) for far, count in zip(radius, extent))]


def correlate(field, weights, mode, value):
    """SciPy's correlation; that along one axis is another function."""
    if field.ndim == 1:
        return scipy.ndimage.correlate1d(field, weights, mode=mode, cval=value)
    return scipy.ndimage.correlate(field, weights, mode=mode, cval=value)


def correlate_by_slices(padded, weights, radius, extent):
    """SciPy's correlation of a padded field, a plane of the weights at a time, in 2D a row."""
    axis = 0 if len(weights) > 1 else 1
    total = numpy.zeros(extent)
    inner = [slice(far, far + count) for far, count in zip(radius, extent)]
    inner[axis] = slice(None)
    for place in range(weights.shape[axis]):
        part = numpy.take(weights, [place], axis)
        if part.any():
            rows = numpy.take(padded, range(place, place + extent[axis]), axis)
            total += correlate(rows, part, "constant", 0.0)[tuple(inner)]
    return total


def padded_field(plan, extent, read):
    """The field extended by the reach, by numpy.pad, z, then y, then x. What no tap reaches is zero: zero times the NaN
    out there would not be zero."""
    cells = valid_cells(plan, extent)
    maps = extend_axes(plan, extent)
    first = tuple(min(0, int(along.index.min())) for along in maps)
    last = tuple(max(count, int(along.index.max()) + 1) for along, count in zip(maps, extent))
    beyond = [
        (at - begin, end - at - size) for begin, end, at, size in zip(first, last, cells.first, cells.mask.shape)
    ]
    around = read(*numpy.ix_(*map(numpy.arange, first, last)))
    around = numpy.where(numpy.pad(cells.mask, beyond), around, 0.0)
    for axis in range(3):
        around = pad_axis(around, axis, -first[axis], extent[axis], plan.reach[axis], plan.faces[axis])
    return around


def pad_axis(cells, axis, before, extent, reach, faces):
    """`cells` cut or extended along one axis to reach[0] + extent + reach[1]; it begins `before` ahead of the interior."""
    cells = numpy.moveaxis(cells, axis, -1)
    widths = [(0, 0)] * cells.ndim
    rules = tuple(face.rule for face in faces)

    if rules[0] == PERIODIC:
        indices = numpy.arange(-reach[0], extent + reach[1])
        return numpy.moveaxis(numpy.take(cells[..., before : before + extent], indices, -1, mode="wrap"), -1, axis)

    def grown(part, low, high, mode, value=0.0):
        widths[-1] = (low, high)
        return numpy.pad(part, widths, mode, **({"constant_values": value} if mode == CONSTANT else {}))

    # Faces that end the search for a cell come first. What a reflecting face shows then includes what lies beyond the
    # other face, and where both reflect the line grows in turns.
    interior = cells[..., before : before + extent]
    enough = 2 * (reach[0] + reach[1] + extent)
    modes = [SETTLED_MODES.get(rule if extent > 1 or rule != MIRROR else NEAREST) for rule in rules]
    sides = [cells[..., :before], cells[..., before + extent :]]
    for side, (mode, face) in enumerate(zip(modes, faces)):
        if face.rule != HALO:
            sides[side] = cells[..., :0]
        if mode:
            beyond = grown(interior, enough * (side == 0), enough * (side == 1), mode, face.value)
            sides[side] = beyond[..., :enough] if side == 0 else beyond[..., extent:]
    folding = (*REFLECTING_MODES, ANTISYMMETRIC)
    reflecting = [side for side in range(2) if faces[side].rule in folding and not modes[side]]
    grows = bool(reflecting)
    while grows and any(sides[side].shape[-1] < reach[side] for side in range(2)):
        grows = False
        for side in reflecting:
            line = numpy.concatenate((interior, sides[1]) if side == 0 else (sides[0], interior), -1)
            width = line.shape[-1] - (rules[side] == MIRROR)
            if rules[side] == ANTISYMMETRIC:
                turned = (-line[..., ::-1], numpy.zeros_like(line[..., :1]))
                width += 1
                beyond = numpy.concatenate((*turned, line) if side == 0 else (line, *reversed(turned)), -1)
            else:
                beyond = grown(line, width * (side == 0), width * (side == 1), REFLECTING_MODES[rules[side]])
            grows = grows or width > sides[side].shape[-1]
            sides[side] = beyond[..., :width] if side == 0 else beyond[..., line.shape[-1] :]
    below, above = sides
    # Halo cells that no tap reaches are not there: zeros.
    line = numpy.concatenate((below, interior, above), -1)
    line = grown(line, max(0, reach[0] - below.shape[-1]), max(0, reach[1] - above.shape[-1]), CONSTANT)
    first = max(0, below.shape[-1] - reach[0])
    return numpy.moveaxis(line[..., first : first + reach[0] + extent + reach[1]], -1, axis)
