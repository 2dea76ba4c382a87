"""Draws random specs random_000.yaml ... and says what each of them means: taps and boundary as this writer knows them,
so that the reader and the plan are checked too. Standard library only."""

import dataclasses
import itertools
import random
import struct

DEFAULT_SEED = 20250117
DEFAULT_COUNT = 200
AXES = "zyx"
RULES = ("halo", "constant", "nearest", "periodic", "reflect", "mirror", "antisymmetric")
# rational: small integers times powers of two over a common number; mostly: the same but for some; unit: a star whose
# weights sum to 1
WEIGHT_KINDS = ("exact", "inexact", "rational", "tiny", "large", "mostly", "wide", "unit")
COMMON_DENOMINATOR = 315
PRODUCT_DENOMINATORS = (21, 21**2, 7**3)  # of one, two and three axes
TYPICAL = (1, 3, 5)  # how far most taps reach on z, y, x


@dataclasses.dataclass(frozen=True)
class Space:
    """What specs to draw from: one number of dimensions and one storage, and what goes with them."""

    dimensions: int
    storage: str
    rules: tuple
    limits: tuple  # the farthest reach on z, y, x
    modes: tuple = ()  # values of 'weights' beside auto
    accuracies: tuple = ("full",)
    options: tuple = ((),)  # command line options to choose from, beside the spec

    @property
    def axes(self):
        return tuple(range(3 - self.dimensions, 3))

    def typical(self, axis):
        return min(TYPICAL[axis] + (2 if self.dimensions == 1 else 0), self.limits[axis])


def is_exact(value, storage):
    """Is a number exact as one operand term: f16 for f16 and f32 fields, bf16 for bf16 ones? Doubles are the spec's."""
    if storage == "f64":
        return True
    if storage == "bf16":
        return struct.unpack("<I", struct.pack("<f", value))[0] & 0xFFFF == 0 and as_f32(value) == value
    return struct.unpack("<e", struct.pack("<e", value))[0] == value


def has_short_numerator(value, storage):
    """Is a number an integer as short as an operand term over the common denominator, or one over a product's?"""
    for denominator in (8 * COMMON_DENOMINATOR, *PRODUCT_DENOMINATORS):
        numerator = round(abs(value) * denominator)
        if numerator and abs(numerator - abs(value) * denominator) < 1e-9 * numerator:
            return numerator // (numerator & -numerator) < (256 if storage == "bf16" else 2048)
    return False


def as_f32(value):
    return struct.unpack("<f", struct.pack("<f", value))[0]


def make_weight(rng, kind, spread=1.0):
    """One non-zero weight, short enough to be read in the spec. `spread` narrows the wide kind for factors."""
    sign = rng.choice((-1, 1))
    if kind == "exact":
        return sign * rng.randint(1, 255) / rng.choice((16, 64, 256))
    if kind == "rational" or (kind == "mostly" and rng.random() < 0.9):
        return sign * rng.randint(1, 255) * rng.choice((0.125, 1, 2)) / COMMON_DENOMINATOR
    if kind == "tiny":
        return sign * float(f"{rng.uniform(0.4e-4, 2.5e-4):.6g}")
    if kind == "minute":  # bf16 alone has such weights
        return sign * float(f"{1e-20 * rng.uniform(1, 4):.6g}")
    if kind == "large":
        return sign * float(f"{rng.uniform(200, 5000):.7g}")
    if kind == "wide":
        return sign * float(f"{10 ** rng.uniform(-4.6 * spread, 0):.6g}")
    return sign * float(f"{rng.uniform(0.02, 2):.6g}")


def make_reach(rng, limit, typical):
    """(low, high) with low <= high: mostly around 0, sometimes far, lopsided or on one side only."""
    form = rng.random()
    if form < 0.55 or limit < 2:
        return -rng.randint(0, typical), rng.randint(0, typical)
    if form < 0.7:
        return -rng.randint(0, limit), rng.randint(0, limit)
    if form < 0.8:
        low = rng.randint(1, limit)
        return low, rng.randint(low, limit)
    if form < 0.9:
        high = -rng.randint(1, limit)
        return -rng.randint(-high, limit), high
    return (-limit, rng.randint(-2, 2)) if rng.random() < 0.5 else (rng.randint(-2, 2), limit)


def axis_list(weights):
    return f"[{', '.join(map(repr, weights))}]"


def per_axis(space, texts):
    return "{" + ", ".join(f"{AXES[axis]}: {texts[axis]}" for axis in space.axes if axis in texts) + "}"


def taps_spec(rng, kind, space, offsets=None):
    """Taps at chosen or drawn offsets, in any order and either notation."""
    if offsets is None:
        reaches = [(0, 0)] * 3
        for axis in space.axes:
            reaches[axis] = make_reach(rng, space.limits[axis], space.typical(axis))
        cells = list(itertools.product(*(range(low, high + 1) for low, high in reaches)))
        offsets = sorted(rng.sample(cells, min(len(cells), rng.choice((1, 2, 3, 5, 8, 13, 24, 40)))))
    taps = {offset: make_weight(rng, kind) for offset in offsets}
    order = list(taps)
    rng.shuffle(order)
    lines = []
    for offset in order:
        at = axis_list([offset[axis] for axis in space.axes])
        named = {axis: offset[axis] for axis in space.axes if offset[axis] != 0}
        if rng.random() < 0.3 and named:
            at = per_axis(space, named)
        lines.append(f"  - {{at: {at}, weight: {taps[offset]!r}}}")
    return taps, "shape: taps\ncoefficients:\n" + "\n".join(lines) + "\n"


def nested(values, radii):
    """A flat list of weights as nested lists, slowest axis first, each list of the last two axes a line of its own."""
    if len(radii) == 1:
        return axis_list(values)
    size = len(values) // (2 * radii[0] + 1)
    parts = [nested(values[i * size : (i + 1) * size], radii[1:]) for i in range(2 * radii[0] + 1)]
    return "[" + ", ".join(parts) + "]"


BOX_RADII = ((0, 1, 1, 1, 2, 4), (0, 1, 1, 1, 2, 2, 3, 4, 5), (0, 1, 1, 2, 2, 3, 4, 7, 8, 9, 12, 40))
MOST_F64_RADIUS = 4


def box_spec(rng, kind, space, radii=None, density=None):
    """A box of given or drawn radii; a density below 1 leaves weights out."""
    if radii is None:
        fitting = ([radius for radius in BOX_RADII[axis] if radius <= space.limits[axis]] for axis in space.axes)
        radii = [rng.choice(radii) for radii in fitting]
        if space.storage == "f64":  # the reference takes long doubles, twenty times as long
            radii = [min(radius, MOST_F64_RADIUS) for radius in radii]
        density = rng.choice((1.0, 1.0, 1.0, 0.4))
    full = (0,) * (3 - len(radii)) + tuple(radii)
    values = []
    taps = {}
    for offset in itertools.product(*(range(-radius, radius + 1) for radius in full)):
        weight = make_weight(rng, kind) if offset == (0, 0, 0) or rng.random() < density else 0
        values.append(weight)
        if weight:
            taps[offset] = weight
    return taps, f"shape: box\ncoefficients: {nested(values, list(radii))}\n"


def star_spec(rng, kind, space, radii=None):
    """A star of given or drawn radii, with a center or with a list of 2r+1 for each axis."""
    radii = radii or {
        axis: rng.randint(1, space.limits[axis] if rng.random() < 0.2 else min(space.limits[axis], 3 + (axis == 2)))
        for axis in space.axes
    }
    with_center = rng.random() < 0.6
    axes = {}
    for axis, radius in radii.items():
        axes[axis] = [make_weight(rng, kind) for _ in range(2 * radius + (0 if with_center else 1))]
    taps = {}
    center = make_weight(rng, kind)
    if kind == "unit":
        with_center = True
        axes = {axis: [as_f32(0.2 * w / max(sum(radii.values()), 1)) for w in weights] for axis, weights in axes.items()}
        axes = {axis: weights[: 2 * radii[axis]] for axis, weights in axes.items()}
        center = 1 - sum(itertools.chain(*axes.values()))
    middle = center
    if not with_center:
        middle = 0.0
        for axis, radius in radii.items():
            middle += axes[axis][radius]
    if middle:
        taps[0, 0, 0] = middle
    for axis, radius in radii.items():
        outer = axes[axis] if with_center else axes[axis][:radius] + axes[axis][radius + 1 :]
        for distance, weight in zip([d for d in range(-radius, radius + 1) if d], outer):
            taps[tuple(distance if other == axis else 0 for other in range(3))] = weight
    text = "shape: star\n"
    if rng.random() < 0.3:
        text += f"radius: {per_axis(space, radii)}\n"
    named = [f"center: {center!r}"] if with_center else []
    named += [f"{AXES[axis]}: {axis_list(weights)}" for axis, weights in axes.items()]
    return taps, text + "coefficients: {" + ", ".join(named) + "}\n"


PRODUCT_RADII = ((0, 1, 1, 2), (0, 1, 2, 3, 5), (0, 1, 2, 3, 7, 8))


def product_spec(rng, kind, space):
    """The outer product of one list for each axis."""
    factor = "inexact" if kind in ("tiny", "large", *space.modes) else kind
    scale = {"tiny": 1.7e-4, "large": 800.0}.get(kind, 1)
    axes = {}
    for axis in space.axes:
        radius = rng.choice([radius for radius in PRODUCT_RADII[axis] if radius <= space.limits[axis]])
        if factor == "exact":  # short enough for the product to be exact in f16 too
            most, unit = (31, 16) if space.dimensions < 3 else (12, 4)
            axes[axis] = [rng.choice((-1, 1)) * rng.randint(1, most) / unit for _ in range(2 * radius + 1)]
        elif factor == "rational":
            most, unit = (15, 21) if space.dimensions < 3 else (6, 7)
            axes[axis] = [rng.choice((-1, 1)) * rng.randint(1, most) / unit for _ in range(2 * radius + 1)]
        else:
            axes[axis] = [make_weight(rng, factor, spread=0.9 / space.dimensions) for _ in range(2 * radius + 1)]
    taps = {}
    for places in itertools.product(*(range(len(axes.get(axis, [1]))) for axis in range(3))):
        offset = tuple(place - len(axes.get(axis, [1])) // 2 for axis, place in enumerate(places))
        weight = 1.0
        for axis in space.axes:
            weight *= axes[axis][places[axis]]
        taps[offset] = weight * scale
    text = "shape: product\n" + (f"scale: {scale!r}\n" if scale != 1 else "")
    return taps, text + "coefficients: " + per_axis(space, {axis: axis_list(axes[axis]) for axis in axes}) + "\n"


def passes_spec(rng, kind, space, radii, pairs):
    """A box whose weights are a sum of so many products of a list along y and one along x; exact ones as derivatives have
    them, without a weight in the middle column."""
    lists = []
    for _ in range(pairs):
        lists.append([[make_weight(rng, kind) for _ in range(2 * radius + 1)] for radius in radii])
        if kind == "exact":
            lists[-1][1][radii[1]] = 0
    values = []
    taps = {}
    for dy, dx in itertools.product(*(range(-radius, radius + 1) for radius in radii)):
        values.append(sum(y[dy + radii[0]] * x[dx + radii[1]] for y, x in lists))
        if values[-1]:
            taps[0, dy, dx] = values[-1]
    return taps, f"shape: box\ncoefficients: {nested(values, list(radii))}\n"


def make_face(rng, rules):
    rule = rng.choice(rules)
    value = rng.choice((0, 1, -0.5, 3.25, rng.randint(-64, 64) / 16)) if rule == "constant" else 0
    return rule, value


def face_text(face):
    return f"{{constant: {face[1]!r}}}" if face[0] == "constant" else face[0]


def make_boundary(rng, space):
    """{axis: {side: (rule, value)}} and its text, in every form that a spec may have."""
    axes = [AXES[axis] for axis in space.axes]
    form = rng.random()
    if form < 0.1:
        face = ("halo", 0)
        return {axis: {"low": face, "high": face} for axis in axes}, ""
    if form < 0.4:
        face = make_face(rng, space.rules)
        return {axis: {"low": face, "high": face} for axis in axes}, f"boundary: {face_text(face)}\n"
    one_sided = tuple(rule for rule in space.rules if rule != "periodic")
    faces = {}
    texts = []
    for axis in axes:
        axis_form = rng.random()
        if axis_form < 0.1:
            faces[axis] = {"low": ("halo", 0), "high": ("halo", 0)}
        elif axis_form < 0.45:
            face = make_face(rng, space.rules)
            faces[axis] = {"low": face, "high": face}
            texts.append(f"{axis}: {face_text(face)}")
        else:
            low, high = make_face(rng, one_sided), make_face(rng, one_sided)
            faces[axis] = {"low": low, "high": high}
            texts.append(f"{axis}: {{low: {face_text(low)}, high: {face_text(high)}}}")
    return faces, "boundary: {" + ", ".join(texts) + "}\n" if texts else ""


def uniform_boundary(space, rule):
    """The same with this rule at all faces."""
    face = (rule, -3.25 if rule == "constant" else 0)
    return {AXES[axis]: {"low": face, "high": face} for axis in space.axes}, f"boundary: {face_text(face)}\n"


def constant_boundary(rng, space):
    """The same with a constant of its own at every face."""
    faces = {AXES[axis]: {side: make_face(rng, ("constant",)) for side in ("low", "high")} for axis in space.axes}
    texts = [f"{axis}: {{{', '.join(f'{side}: {face_text(face)}' for side, face in pair.items())}}}" for axis, pair in faces.items()]
    return faces, f"boundary: {{{', '.join(texts)}}}\n"


def folded_boundary(rng, space):
    """The same: along every axis one face turns back, and beyond the other lies a constant. In 2D both faces along x may be
    alike instead."""
    faces, texts = {}, []
    for axis in space.axes:
        pair = [(rng.choice(("reflect", "mirror", "nearest")), 0), make_face(rng, ("constant",))]
        if len(space.axes) == 2 and AXES[axis] == "x" and rng.random() < 0.5:
            pair = [(rng.choice(("periodic", "reflect", "nearest")), 0)] * 2
        rng.shuffle(pair)
        faces[AXES[axis]] = dict(zip(("low", "high"), pair))
        texts.append(f"{AXES[axis]}: {{low: {face_text(pair[0])}, high: {face_text(pair[1])}}}")
    return faces, "boundary: {" + ", ".join(texts) + "}\n"


def chosen_taps(kind, offsets):
    return kind, lambda rng, space: taps_spec(rng, kind, space, [(0,) * (3 - len(at)) + tuple(at) for at in offsets])


def chosen_box(kind, radii, density=1.0):
    return kind, lambda rng, space: box_spec(rng, kind, space, radii, density)


def chosen_star(kind, radius):
    return kind, lambda rng, space: star_spec(rng, kind, space, {axis: radius for axis in space.axes})


def chosen_passes(kind, radii, pairs=1):
    return kind, lambda rng, space: passes_spec(rng, kind, space, radii, pairs)


def with_faces(chosen, **rules):
    """The same with these rules on both faces of the axes that are named, instead of drawn ones."""
    kind, maker = chosen
    return kind, maker, {"faces": {axis: {"low": rule, "high": rule} for axis, rule in rules.items()}}


def with_options(chosen, *options):
    """The same with these options of the command line, instead of drawn ones."""
    kind, maker, *given = chosen
    return kind, maker, {**(given[0] if given else {}), "options": options}


def with_storage(chosen, storage):
    """The same in this storage, whichever's turn it is."""
    kind, maker, *given = chosen
    return kind, maker, {**(given[0] if given else {}), "storage": storage}


TWO_CONSTANTS = {"z": ("constant", 2), "y": ("constant", -3.25), "x": ("nearest", 0)}  # where constant faces meet, x takes precedence over y


# 16 rows of taps, or fewer of two terms: more than tiles in shared memory take.
MANY_ROWS = (
    with_faces(
        chosen_taps("exact", [(dy, dx) for dy in range(-13, 3) for dx in (-3, 2 + dy % 5)]),
        y=("constant", -3.25),
        x=("nearest", 0),
    ),
    with_faces(
        chosen_taps("exact", [(dy, dx) for dy in range(-7, 9) for dx in range(-7, 8)]), y=("mirror", 0), x=("reflect", 0)
    ),
    with_faces(chosen_box("f16x2", [4, 7]), y=("periodic", 0), x=("periodic", 0)),
)

# Of f32 on sparse tensor cores, with many tap rows: inputs and weights have two terms.
MANY_F32_ROWS = (
    with_faces(chosen_box("inexact", [7, 7]), y=("periodic", 0), x=("periodic", 0)),
    with_faces(chosen_box("inexact", [4, 7]), y=("mirror", 0), x=("constant", -3.25)),
    chosen_taps("exact", [(dy, dx) for dy in range(-14, 0) for dx in (-7, 7)]),
    with_faces(chosen_box("exact", [5, 3]), y=("constant", 2), x=("nearest", 0)),
)

# For pairs of rows: all that they hold, taps far from their outputs, and rows that no tap is in.
ROW_PAIRS = (
    ("f16", with_faces(chosen_box("exact", [3, 3]), y=("periodic", 0), x=("periodic", 0))),
    ("bf16", with_faces(chosen_box("inexact", [1, 1]), y=("mirror", 0), x=("constant", -3.25))),
    ("f16", chosen_box("inexact", [2, 2])),
    ("f16", chosen_taps("exact", [(dy, dx) for dy in (-6, -5, 1) for dx in (-4, 3)])),
    ("bf16", chosen_taps("exact", [(dy, dx) for dy in range(2, 10) for dx in (0, 2, 3)])),
)

# For stars as a band along y and one along x: all that the bands hold, both arms or one, and every rule of faces.
BANDS = (
    ("f16", with_faces(chosen_star("exact", 7), y=("periodic", 0), x=("periodic", 0))),
    ("bf16", with_faces(chosen_star("exact", 4), y=("mirror", 0), x=("constant", -3.25))),
    ("f16", with_faces(chosen_star("exact", 5), y=("constant", 2), x=("nearest", 0))),
    ("f16", chosen_star("rational", 6)),
    ("bf16", with_faces(chosen_star("exact", 7), y=("reflect", 0), x=("mirror", 0))),
    ("f16", chosen_taps("exact", [(dy, 0) for dy in range(-8, 8)] + [(0, dx) for dx in (-8, -1, 8)])),
    ("f16", with_faces(chosen_taps("exact", [(dy, 0) for dy in range(-8, 1)] + [(0, 3)]), y=("nearest", 0))),
    ("bf16", chosen_taps("exact", [(dy, 0) for dy in range(-1, 8)] + [(0, dx) for dx in (-8, -6)])),
)

# For two passes on CUDA cores: every rule of faces, exact weights, several pairs of lists, and so far a reach that a lane has
# half as many columns.
PASSES = (
    ("f32", with_faces(chosen_passes("inexact", [3, 5]), y=("periodic", 0), x=("mirror", 0))),
    ("f32", with_faces(chosen_passes("exact", [5, 4]), y=("antisymmetric", 0), x=("constant", 2))),
    ("f32", with_faces(chosen_passes("inexact", [4, 4], 2), y=("constant", -3.25), x=("periodic", 0))),
    ("f32", with_faces(chosen_passes("inexact", [22, 3]), y=("reflect", 0), x=("antisymmetric", 0))),
    ("f32", chosen_passes("inexact", [3, 9])),
    ("f64", with_faces(chosen_passes("inexact", [4, 4]), y=("nearest", 0), x=("constant", 0.1))),
    ("f64", with_faces(chosen_passes("inexact", [4, 5]), y=("constant", 1e-300), x=("reflect", 0))),
)

# Of f64, each way of CUDA cores: tiles, walks with two outputs a thread and with one, tables, planes; and a constant that no
# f32 holds.
TENTHS = {"z": ("constant", 0.1), "y": ("mirror", 0), "x": ("constant", 1e-300)}
F64 = {
    1: (chosen_box("inexact", [7]), chosen_taps("inexact", [(-127,), (31,), (127,)])),
    2: (
        with_faces(chosen_box("inexact", [1, 1]), **TENTHS),
        chosen_star("inexact", 4),
        with_faces(chosen_box("inexact", [3, 3]), **TENTHS),
        chosen_box("inexact", [7, 7]),
        chosen_box("inexact", [15, 15], 0.9),
        # A window above its results: a block may have all its inputs, and rows beyond the field.
        chosen_taps("inexact", [(dy, dx) for dy in range(-9, -2) for dx in range(-3, 4)]),
    ),
    3: (
        with_faces(chosen_star("inexact", 1), **TENTHS),
        chosen_star("inexact", 4),
        chosen_box("inexact", [2, 2, 2]),
        with_faces(chosen_taps("inexact", [(-3, 0, -1), (-1, 1, 2), (0, -14, 0)]), **TENTHS),
    ),
}

# The first specs of each number of dimensions are chosen: corners that a draw would rarely hit. They go to the storages
# in turn.
CHOSEN = {
    1: (
        chosen_taps("exact", [(0,)]),
        chosen_taps("inexact", [(-127,), (31,), (127,)]),
        chosen_box("exact", [127]),
        chosen_box("inexact", [1]),
        chosen_box("exact", [7]),
        chosen_box("inexact", [31]),
        chosen_taps("inexact", [(dx,) for dx in (-31, -25, -24, -17, -16, -9, -8, 7, 8, 15, 16, 23, 24, 31)]),
    ),
    2: (
        chosen_taps("exact", [(0, 0)]),
        # So many rows that a thread of f32 has fewer outputs than the vectors have cells that fill its ring.
        with_options(chosen_box("exact", [11, 1]), "--engine", "cuda"),
        chosen_taps("inexact", [(-7, -31)]),
        chosen_box("exact", [7, 7]),
        chosen_box("inexact", [7, 7]),
        chosen_box("exact", [7, 31]),
        chosen_box("f16x2", [7, 31], 0.5),
        chosen_box("exact", [0, 31]),
        chosen_box("inexact", [7, 0]),
        chosen_taps("exact", [(2, 9), (2, 31), (7, 17)]),
        chosen_taps("exact", [(-3, -31), (-3, -24), (-1, -9)]),
        chosen_taps("inexact", [(-7, 31), (0, 0), (7, -31)]),
        chosen_taps("exact", [(0, dx) for dx in (-31, -25, -24, -17, -16, -9, -8)]),
        chosen_taps("exact", [(0, dx) for dx in (7, 8, 15, 16, 23, 24, 31)]),
        chosen_box("tiny", [2, 2]),
        chosen_box("large", [1, 4]),
        chosen_taps("inexact", [(0, -127), (0, 3), (0, 127)]),
        chosen_box("exact", [0, 127]),
        chosen_taps("exact", [(31, 0), (30, 1)]),
        chosen_taps("tiny", [(1, -42), (1, 59), (1, 118), (-2, 88)]),  # the second strip, too, is at the left edge
        chosen_taps("inexact", [(-31, 17)]),
        # Walks on CUDA cores, and no tap that reads ahead of its result: nothing may be read behind the field's last row.
        with_options(chosen_taps("exact", [(dy, dx) for dy in range(-6, 1) for dx in range(-4, 5)]), "--engine", "cuda"),
        *(with_storage(with_options(chosen, "--engine", "sparse"), storage) for storage, chosen in ROW_PAIRS),
        *(with_storage(chosen, storage) for storage, chosen in BANDS),
        *MANY_ROWS,
        *(with_storage(with_options(chosen, "--engine", "sparse"), "f32") for chosen in MANY_F32_ROWS),
        with_options(chosen_taps("inexact", [(-40, 0), (0, 0), (2, 140)])),  # CUDA cores alone reach as far
        # Their sums must not overflow before they are scaled back.
        with_storage(chosen_star("minute", 1), "bf16"),
        with_storage(chosen_box("minute", [1, 2]), "bf16"),
        *(with_storage(with_options(chosen), storage) for storage, chosen in PASSES),
    ),
    3: (
        chosen_taps("exact", [(0, 0, 0)]),
        chosen_taps("inexact", [(2, -3, 7), (-2, 3, -8)]),
        chosen_box("inexact", [1, 1, 1]),
        chosen_star("inexact", 1),
        chosen_star("exact", 4),
        chosen_star("inexact", 2),
        chosen_box("exact", [2, 2, 2]),
        chosen_box("inexact", [0, 1, 2]),
        chosen_box("inexact", [1, 0, 0]),
        with_faces(chosen_box("inexact", [1, 1, 1]), **TWO_CONSTANTS),  # f16
        with_faces(chosen_box("inexact", [1, 2, 1]), **TWO_CONSTANTS),  # f32
        # No tap reads ahead of the plane of its result, so that nothing may be read behind the field's last.
        chosen_taps("exact", [(-2, 0, 0), (-1, -1, 1), (0, 0, 0)]),  # bf16
        chosen_taps("inexact", [(-3, 0, -1), (-1, 1, 2)]),  # f16
        # All taps reach up: what the last block reads ends before its rows do.
        with_options(chosen_taps("exact", [(0, -14, 0), (0, -13, 1), (1, -12, -1)]), "--engine", "cuda"),  # f32
        chosen_taps("exact", [(0, -11, 0), (-1, -9, 1)]),  # bf16
        chosen_taps("exact", [(0, -14, 0), (0, -13, 1), (1, -12, -1)]),  # f16
    ),
}
# How often each number of dimensions, and each storage, is drawn where it exists.
SHARES = {1: 15, 2: 45, 3: 40}
STORAGE_SHARES = {"f16": 50, "f32": 30, "bf16": 20, "f64": 15}


def choose_space(rng, spaces):
    shares = [SHARES[space.dimensions] * STORAGE_SHARES[space.storage] for space in spaces]
    return rng.choices(spaces, shares)[0]


def chosen_specs(spaces):
    """(space, kind, maker, what else is given) of all chosen specs that some space holds."""
    specs = []
    for dimensions, makers in CHOSEN.items():
        all_of_them = [space for space in spaces if space.dimensions == dimensions]
        having = [space for space in all_of_them if space.storage != "f64"] or all_of_them
        for number, (kind, maker, *given) in enumerate((*makers, *(with_storage(chosen, "f64") for chosen in F64[dimensions]))):
            if having:
                more = given[0] if given else {}
                of_storage = [space for space in all_of_them if space.storage == more.get("storage")]
                specs.append(((of_storage or having)[number % len(of_storage or having)], kind, maker, more))
    return specs


STEPPING_FORMS = ("cross", "even", "rings", "box", "taps", "star")


def stepping_taps(rng, dimensions, form):
    """Few taps of radius 1 to 3, positive or of both signs, which sum to 1 or not, in one of the forms that kernels add
    rows and planes in: {offset: weight}."""

    def weight():
        return rng.uniform(0.02, 0.2) * (rng.choice((-1, 1)) if signed else 1)

    def ring(distance, value):
        return {tuple(sign * distance * (a == axis) for a in range(3)): value for axis in axes for sign in (-1, 1)}

    def offsets(radius):
        spans = [range(-radius, radius + 1) if axis in axes else (0,) for axis in range(3)]
        return list(itertools.product(*spans))

    axes = range(3 - dimensions, 3)
    signed = rng.random() < 0.4
    if form == "cross":
        taps = ring(1, weight())
    elif form == "even":
        kinds = {kind: weight() for kind in itertools.product((0, 1), repeat=3)}
        taps = {offset: kinds[tuple(map(abs, offset))] for offset in offsets(1) if any(offset)}
    elif form == "rings":
        taps = ring(1, weight()) | ring(2, weight())
    elif form == "box":
        taps = {offset: weight() for offset in offsets(1)}
    elif form == "taps":
        cells = offsets(rng.choice((1, 2, 3)))
        taps = {offset: weight() for offset in rng.sample(cells, rng.randint(1, min(9, len(cells))))}
    else:
        radius = rng.choice((2, 3))
        taps = {offset: weight() for d in range(radius + 1) for offset in ring(d, 0)}
    if form in ("cross", "even", "rings"):
        taps[0, 0, 0] = weight()
    if rng.random() < 0.4:
        taps[0, 0, 0] = 1 - sum(weight for offset, weight in taps.items() if any(offset))
    most = max(1.0, sum(map(abs, taps.values())) / rng.choice((0.7, 1.0, 1.1)))
    return {offset: weight / most for offset, weight in taps.items()}


def product_taps(rng):
    """Products of a list along y and one along x, positive and not even, of radius 1 or 2: two passes take all steps of
    them away from faces, which act at each step."""
    y, x = ({d: rng.uniform(0.1, 1) for d in range(-radius, radius + 1)} for radius in (rng.choice((1, 2)), 1))
    return {(0, dy, dx): y[dy] * x[dx] / (sum(y.values()) * sum(x.values())) for dy in y for dx in x}


def diffusing_taps(rng):
    """Products of even lists of three, positive: two passes take them beside any constants, corners included."""
    y, x = ((near, 1, near) for near in (rng.uniform(0.1, 0.6), rng.uniform(0.1, 0.6)))
    most = sum(y) * sum(x) * rng.uniform(0.9, 1.1)
    return {(0, dy, dx): y[dy + 1] * x[dx + 1] / most for dy in (-1, 0, 1) for dx in (-1, 0, 1)}


def spreading_taps(rng, dimensions):
    """All neighbours, even along all axes, that sum to 1: few steps of them are composed into one stencil."""
    near = {kind: rng.uniform(0.02, 0.3 / 3**dimensions) for kind in itertools.product((0, 1), repeat=3)}
    spans = [(-1, 0, 1) if axis >= 3 - dimensions else (0,) for axis in range(3)]
    taps = {at: near[tuple(map(abs, at))] for at in itertools.product(*spans) if any(at)}
    return taps | {(0, 0, 0): 1 - sum(taps.values())}


def choose_steps(rng, dimensions, taps):
    """So many that there is room for them: in 3D a tile loses the rows that all steps reach."""
    if dimensions < 3:
        return rng.choice((2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 24, 32))
    radius = max(max(map(abs, offset)) for offset in taps)
    return rng.choice(((2, 3, 4, 5, 6), (2, 3), (2,))[max(radius, 1) - 1])


def make_steps_spec(index, seed, spaces, attempt, place):
    """The same of one that takes many steps in a sweep, the place-th of them."""
    rng = random.Random(f"{seed}/steps/{index}/{attempt}")
    name = f"random_{index:03d}"
    kinds = [kind for kind in (2, 3, 1) if any(space.dimensions == kind for space in spaces)]
    dimensions = kinds[place % len(kinds)]
    turn = place // len(kinds)
    having = [space for space in spaces if space.dimensions == dimensions]
    space = having[turn % len(having)]
    taps = stepping_taps(rng, dimensions, STEPPING_FORMS[turn % len(STEPPING_FORMS)])
    steps = choose_steps(rng, dimensions, taps)
    negating = dimensions == 3 and max(max(map(abs, offset)) for offset in taps) == 1
    stepped = tuple(rule for rule in space.rules if negating or rule != "antisymmetric")
    if space.dimensions != 2 and space.storage == "f16" and turn % 8 >= 4:
        taps, steps = spreading_taps(rng, dimensions), 7 if dimensions == 1 else 2
        commuting = ("halo", "periodic", "reflect", "nearest", "antisymmetric", "constant")  # in 3D constants add
        composed = commuting if dimensions == 3 else ("antisymmetric",)
        faces, boundary = make_boundary(rng, dataclasses.replace(space, rules=composed))
    elif space.dimensions == 2 and space.storage in ("f16", "bf16") and turn % 8 >= 4:  # few: fields have more than rims
        steps = rng.choice((3, 4))
        if space.storage == "f16" and turn // 8 % 2 == 0:  # a composed stencil
            taps = stepping_taps(rng, 2, "star")
            faces, boundary = folded_boundary(rng, space)
        elif space.storage == "f16":
            taps = product_taps(rng)
            ending = tuple(rule for rule in stepped if rule not in ("halo", "periodic"))
            faces, boundary = make_boundary(rng, dataclasses.replace(space, rules=ending))
        else:
            taps = diffusing_taps(rng)
            faces, boundary = constant_boundary(rng, space)
    elif dimensions == 3 and turn % 5 == 0:  # some stars of one weight keep constants beyond faces
        taps = stepping_taps(rng, dimensions, "cross")
        steps = choose_steps(rng, dimensions, taps)
        faces, boundary = constant_boundary(rng, space)
    elif (turn + turn // 6) % 3 == 2:  # tiny fields turn back at one face and end beyond the other
        faces, boundary = folded_boundary(rng, space)
    else:
        faces, boundary = make_boundary(rng, dataclasses.replace(space, rules=stepped))
    text = f"stencil: {name}\ndescription: random steps\ndimensions: {dimensions}\nstorage: {space.storage}\n"
    text += f"steps: {steps}\nshape: taps\ncoefficients:\n"
    for offset, weight in taps.items():
        text += f"  - {{at: {axis_list(offset[3 - dimensions :])}, weight: {weight!r}}}\n"
    expected = {
        "stencil": name,
        "seed": seed,
        "dimensions": dimensions,
        "storage": space.storage,
        "weights": "auto",
        "accuracy": "full",
        "exact": False,
        "options": [],
        "steps": steps,
        "taps": [[*offset, weight] for offset, weight in sorted(taps.items())],
        "boundary": faces,
    }
    return name, text + boundary, expected


def make_spec(index, seed, spaces, attempt=0, rule=None):
    """(name, spec text, expected meaning) of one random spec. A higher attempt draws another one in its place. With a
    rule, it is that at all faces."""
    rng = random.Random(f"{seed}/{index}" + (f"/{attempt}" if attempt else ""))
    name = f"random_{index:03d}" + (f"_{rule}" if rule else "")
    chosen = chosen_specs(spaces)
    given = {}
    if index < len(chosen) and attempt == 0:
        space, kind, maker, given = chosen[index]
        kind = "inexact" if kind == "f16x2" and kind not in space.modes else kind
        taps, body = maker(rng, space)
    else:
        space = choose_space(rng, spaces)
        kinds = WEIGHT_KINDS + space.modes
        kind = kinds[index % len(kinds)]
        make_shape = rng.choices((taps_spec, box_spec, star_spec, product_spec), (40, 22, 22, 16))[0]
        make_shape = star_spec if kind == "unit" else make_shape
        taps, body = make_shape(rng, kind, space)
    faces, boundary = make_boundary(rng, space)
    if "faces" in given:
        halo = {"low": ("halo", 0), "high": ("halo", 0)}
        faces = {AXES[axis]: given["faces"].get(AXES[axis], halo) for axis in space.axes}
        boundary = "boundary: {" + ", ".join(f"{axis}: {face_text(face['low'])}" for axis, face in faces.items()) + "}\n"
    if rule:
        faces, boundary = uniform_boundary(space, rule)
    mode = kind if kind in space.modes else "auto"
    accuracy = rng.choice(space.accuracies)
    text = f"stencil: {name}\ndescription: random, weights {kind}\n"
    text += f"dimensions: {space.dimensions}\nstorage: {space.storage}\n"
    text += f"weights: {mode}\n" if mode != "auto" or rng.random() < 0.3 else ""
    text += f"accuracy: {accuracy}\n" if accuracy != "full" else ""
    expected = {
        "stencil": name,
        "seed": seed,
        "dimensions": space.dimensions,
        "storage": space.storage,
        "weights": mode,
        "accuracy": accuracy,
        "exact": all(is_exact(weight, space.storage) for weight in taps.values()),
        "rational": kind == "rational" and all(has_short_numerator(weight, space.storage) for weight in taps.values()),
        "options": list(given.get("options", rng.choice(space.options))),
        "taps": [[*offset, weight] for offset, weight in sorted(taps.items())],
        "boundary": faces,
    }
    return name, text + body + boundary, expected
