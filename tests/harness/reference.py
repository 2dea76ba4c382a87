"""What a sweep must compute, in float64 and independently of the generator: boundary rules as index maps, the halo's
cells, the sum over taps, the error bound, and scipy.ndimage.correlate as an oracle for all of that."""

import dataclasses
import json
import pathlib

import numpy
import scipy.ndimage

HALO, CONSTANT, NEAREST = "halo", "constant", "nearest"
SIDES = ("low", "high")


@dataclasses.dataclass(frozen=True)
class Face:
    rule: str
    value: float = 0.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """One kernel as `spider-gen --explain --explain-format json` tells it."""

    name: str
    faces: dict  # axis "y" or "x" -> (low Face, high Face)
    taps: tuple  # ((dy, dx, weight of the spec, packed weight), ...)
    chained_mmas: int
    tap_rows: tuple  # ((dy, low, high), ...)

    @property
    def reach(self):
        """How far taps go: (rows below, rows above, columns below, columns above), each >= 0."""
        rows = [row[0] for row in self.tap_rows]
        return (
            max(0, -min(rows)),
            max(0, max(rows)),
            max(0, -min(row[1] for row in self.tap_rows)),
            max(0, max(row[2] for row in self.tap_rows)),
        )

    @property
    def halo_reach(self):
        """The same, counting only what is read through faces with rule `halo`."""
        rules = [face.rule for axis in "yx" for face in self.faces[axis]]
        return tuple(far if rule == HALO else 0 for far, rule in zip(self.reach, rules))

    @property
    def rules(self):
        """The four rules: y low, y high, x low, x high."""
        return tuple(face.rule for axis in "yx" for face in self.faces[axis])

    @property
    def kind(self):
        """The rules that occur, for summaries."""
        return "+".join(sorted(set(self.rules)))


def load_plan(path):
    """Reads one explanation; the error of a malformed one names the file."""
    path = pathlib.Path(path)
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        faces = {
            axis: tuple(
                Face(data["boundary"][axis][side]["rule"], float(data["boundary"][axis][side].get("value", 0)))
                for side in SIDES
            )  # the value as f16 holds it: it is a cell of the field like any other
            for axis in "yx"
        }
        taps = tuple((tap["at"][1], tap["at"][2], float(tap["weight"]), float(tap["packed"])) for tap in data["taps"])
        rows = tuple((row["dy"], row["low"], row["high"]) for row in data["tap_rows"])
        plan = Plan(data["stencil"], faces, taps, int(data["chained_mmas"]), rows)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"{path}: not an explanation of a 2D kernel: {error!r}") from error
    check_plan(plan, data)
    return plan


def check_plan(plan, data):
    """Raises ValueError where the explanation contradicts itself: a test must not inherit a mistake from it."""
    rows = {}
    for dy, dx, _, _ in plan.taps:
        low, high = rows.get(dy, (dx, dx))
        rows[dy] = (min(low, dx), max(high, dx))
    if tuple((dy, *rows[dy]) for dy in sorted(rows)) != tuple(sorted(plan.tap_rows)):
        raise ValueError(f"{plan.name}: tap_rows are not the hulls of the taps")
    told = data["reach"]
    if tuple(told["low"][1:] + told["high"][1:]) != tuple(plan.reach[i] for i in (0, 2, 1, 3)):
        raise ValueError(f"{plan.name}: reach is not that of the taps")
    # Two terms per weight and windows of 16 columns at multiples of 8: more would loosen the bound without a reason.
    most = 2 * sum((high - low) // 16 + 2 for _, low, high in plan.tap_rows)
    if not 1 <= plan.chained_mmas <= most:
        raise ValueError(f"{plan.name}: {plan.chained_mmas} chained MMAs; between 1 and {most} are plausible")
    if any(face.rule not in (HALO, CONSTANT, NEAREST) for axis in "yx" for face in plan.faces[axis]):
        raise ValueError(f"{plan.name}: a boundary rule that this harness does not know")


def compare_with_expected(plan, expected):
    """Mistakes of a plan against the spec as its writer means it (random_specs.py), as a list of sentences."""
    mistakes = []
    wanted = {(tap[0], tap[1]): tap[2] for tap in expected["taps"]}
    got = {(dy, dx): (weight, packed) for dy, dx, weight, packed in plan.taps}
    if wanted.keys() != got.keys():
        return [f"taps {sorted(wanted.keys() ^ got.keys())[:4]} are in only one of spec and plan"]
    largest = max(abs(weight) for weight in wanted.values())
    for offset, weight in wanted.items():
        told, packed = got[offset]
        if abs(told - weight) > 1e-14 * abs(weight) + 1e-16 * largest:
            mistakes.append(f"weight at {offset} is {told!r}, the spec says {weight!r}")
        if expected["weights"] == "f16":
            allowed = 2.0**-11 * abs(weight) + 2.0**-25
        else:
            allowed = 0.0 if expected["exact"] else 2.0**-21 * largest
        if abs(packed - weight) > allowed + 1e-14 * abs(weight):
            mistakes.append(f"packed weight at {offset} is {packed!r} for {weight!r}")
    for axis in "yx":
        for side, face in zip(SIDES, plan.faces[axis]):
            rule, value = expected["boundary"][axis][side]
            if face.rule != rule or (rule == CONSTANT and face.value != value):
                mistakes.append(f"boundary {axis} {side} is {face}, the spec says {rule} {value}")
    return mistakes


@dataclasses.dataclass(frozen=True)
class IndexMap:
    """One axis extended: where each extended index is read from, and where it is the value of a constant face."""

    index: numpy.ndarray
    constant: numpy.ndarray  # bool
    value: numpy.ndarray


def extend_axis(extent, below, above, faces):
    """The map of -below .. extent-1+above."""
    position = numpy.arange(-below, extent + above)
    low, high = faces
    index = position.copy()
    constant = numpy.zeros(position.shape, bool)
    value = numpy.zeros(position.shape)
    for outside, face, edge in ((position < 0, low, 0), (position >= extent, high, extent - 1)):
        if face.rule == NEAREST:
            index[outside] = edge
        elif face.rule == CONSTANT:
            index[outside] = edge
            constant[outside] = True
            value[outside] = face.value
    return IndexMap(index, constant, value)


def extended_field(plan, rows, columns, read):
    """The field around the interior as taps see it; `read(row indices, column indices)` gives cells as float64. The x
    face wins where both axes are beyond a constant one."""
    down, up, left, right = plan.reach
    y = extend_axis(rows, down, up, plan.faces["y"])
    x = extend_axis(columns, left, right, plan.faces["x"])
    cells = read(y.index[:, None], x.index[None, :])
    cells = numpy.where(y.constant[:, None], y.value[:, None], cells)
    return numpy.where(x.constant[None, :], x.value[None, :], cells)


def valid_cells(plan, rows, columns):
    """The cells a kernel may read: the interior and, through halo faces, the hull of each tap row around it. Returns
    (mask, row of the mask's first cell, column of it)."""
    down, up, left, right = plan.reach
    mask = numpy.zeros((rows + down + up, columns + left + right), bool)
    mask[down : down + rows, left : left + columns] = True
    y = extend_axis(rows, down, up, plan.faces["y"])
    x = extend_axis(columns, left, right, plan.faces["x"])
    for dy, low, high in plan.tap_rows:
        row = slice(down + dy, down + dy + rows)
        column = slice(left + low, left + high + columns)
        read_rows = y.index[row][~y.constant[row]] + down
        read_columns = x.index[column][~x.constant[column]] + left
        mask[numpy.ix_(read_rows, read_columns)] = True
    return mask, -down, -left


def apply_taps(plan, extended, rows, columns, exact_weights=False):
    """(sum of weight * x, sum of |weight * x|) over the taps, per interior cell, in float64."""
    down, _, left, _ = plan.reach
    total = numpy.zeros((rows, columns))
    magnitude = numpy.zeros((rows, columns))
    for dy, dx, weight, packed in plan.taps:
        product = (weight if exact_weights else packed) * extended[
            down + dy : down + dy + rows, left + dx : left + dx + columns
        ]
        total += product
        magnitude += numpy.abs(product)
    return total, magnitude


def error_bound(plan, total, magnitude):
    """The pointwise bound of one sweep against the packed weights: rounding of the result to f16, at most 17 truncating
    adds of at least 24 bits and one product rounding in each chained MMA, and the subnormal step of f16."""
    return 2.0**-11 * numpy.abs(total) + 1.001 * 18 * plan.chained_mmas * 2.0**-23 * magnitude + 2.0**-25


def oracle(plan, rows, columns, read):
    """scipy.ndimage.correlate of the packed weights, padded by numpy.pad or left to scipy where all faces agree. None
    where halo faces meet others: then neither says what a corner holds."""
    down, up, left, right = plan.reach
    radius_y, radius_x = max(down, up), max(left, right)
    weights = numpy.zeros((2 * radius_y + 1, 2 * radius_x + 1))
    for dy, dx, _, packed in plan.taps:
        weights[radius_y + dy, radius_x + dx] = packed
    faces = plan.faces["y"] + plan.faces["x"]
    rules = {face.rule for face in faces}
    if rules == {HALO}:
        # What no tap reaches has weight zero, and zero times the NaN out there is not zero.
        around = read(numpy.arange(-down, rows + up)[:, None], numpy.arange(-left, columns + right)[None, :])
        mask, _, _ = valid_cells(plan, rows, columns)
        padded = numpy.pad(
            numpy.where(mask, around, 0.0), ((radius_y - down, radius_y - up), (radius_x - left, radius_x - right))
        )
    elif HALO in rules:
        return None
    else:
        interior = read(numpy.arange(rows)[:, None], numpy.arange(columns)[None, :])
        if all(face == faces[0] for face in faces):
            mode = faces[0].rule
            return scipy.ndimage.correlate(interior, weights, mode=mode, cval=faces[0].value)
        padded = interior
        for axis, radius in enumerate((radius_y, radius_x)):
            for side in range(2):
                width = [(0, 0), (0, 0)]
                width[axis] = (radius, 0) if side == 0 else (0, radius)
                face = faces[2 * axis + side]
                if face.rule == NEAREST:
                    padded = numpy.pad(padded, width, mode="edge")
                else:
                    padded = numpy.pad(padded, width, constant_values=face.value)
    swept = scipy.ndimage.correlate(padded, weights, mode="constant")
    return swept[radius_y : radius_y + rows, radius_x : radius_x + columns]
