"""One sweep of one kernel over one field: how the field lies in memory, what is in it and around it, and what must be
true afterwards."""

import dataclasses
import math

import numpy

import reference
from spider_library import Buffer, make_field

RELATIVE_L2_LIMITS = {"f16": 1e-3, "bf16": 8e-3, "f32": 1e-6, "f64": 1e-13}
REDUCED_ACCURACY_L2_LIMIT = 1e-3  # f32 fields with accuracy tf32 or f16
# Relative L2 is asked for where the result is not mostly cancellation, and not so small that the storage's subnormal step
# (of f16 2^-24) is what one sees. An error of the inputs, or of f32 sums, is one of sum |w x|: it is this share of it, and must
# be within the limit for the result.
CANCELLATION = 0.05
INPUT_ERRORS = {"full": 2.0**-23, "tf32": 2.0**-12, "f16": 2.0**-12}  # of f32 fields, by accuracy
SMALLEST_RMS = 4  # of the least normal number
MOST_ORACLE_WORK = 10**7  # weights x cells x steps: of each kernel SciPy sees the smaller fields


@dataclasses.dataclass(frozen=True)
class Layout:
    """A field in a buffer of `cells` cells; cell (z, y, x) is base + z * strides[0] + y * strides[1] + x."""

    extent: tuple
    strides: tuple  # from plane to plane, from row to row
    base: int
    cells: int

    def positions(self, z, y, x):
        """Where cells lie, by index arrays."""
        return self.base + z * self.strides[0] + y * self.strides[1] + x

    def interior(self):
        return self.positions(*numpy.ix_(*map(numpy.arange, self.extent)))

    def field(self, buffer):
        """The field as the C interface takes it; strides along axes of one cell are nonsense on purpose."""
        return make_field(buffer.address + buffer.cell.itemsize * self.base, self.extent, self.strides)

    def describe(self, position):
        """Which cell an element of the buffer is."""
        rest = int(position) - self.base
        z, rest = divmod(rest, self.strides[0]) if self.extent[0] > 1 else (0, rest)
        y, x = divmod(rest, self.strides[1])
        return f"cell z {z}, y {y}, x {x} (element {int(position)} of the buffer)"


@dataclasses.dataclass(frozen=True)
class Case:
    """What distinguishes one case of a kernel from another."""

    extent: tuple
    values: str = "random"  # random | smooth | constant | offset | small | large | limit | steep
    input_stride: str = "odd"  # tight | odd | aligned | large
    output_stride: str = "odd"
    input_offset: int = 0  # elements from a 16-byte boundary; -1: the buffer begins and ends with the field's cells
    output_offset: int = 0
    multiprocessors: int = 0  # of the emulated device; 0: drawn
    with_oracle: bool = True  # the reference is compared with SciPy
    form: int = 0  # by this form of the kernel alone, counted from 1, not by each kernel's next

    def __str__(self):
        def lies(stride, offset):
            return f"{stride} stride " + ("filling its buffer" if offset < 0 else f"at 16 bytes + {offset} elements")

        return (
            f"{' x '.join(map(str, self.extent))} {self.values}, in: {lies(self.input_stride, self.input_offset)}, "
            f"out: {lies(self.output_stride, self.output_offset)}"
        )


def choose_strides(form, extent, around, rng, vector=8):
    """Strides at least as large as rows and planes with what is `around` them; `odd` ones misalign rows. `vector` cells
    are 16 bytes."""
    (_, _), (down, up), (left, right) = around
    row = extent[2] + left + right
    if form == "aligned":
        row = -(-row // vector) * vector + vector * int(rng.integers(0, 4))
    elif form == "large":
        row = -(-row // vector) * vector + int(rng.integers(500, 1500))
    elif form == "odd":
        row = (row + int(rng.integers(0, 9))) | 1
    rows = extent[1] + down + up
    plane = (rows - 1) * row + extent[2] + left + right
    if form == "aligned":
        plane = rows * row + row * int(rng.integers(0, 2))
        plane = -(-plane // vector) * vector
    elif form == "large":
        plane = rows * row + int(rng.integers(1, 5000))
    elif form == "odd":
        plane = (plane + int(rng.integers(0, 9))) | 1
    return plane, row


def hull(extent, around, steps):
    """(elements from the first cell of the field with all that is around it to the first of the interior, from there to
    one past the last)."""
    before = sum(low * step for (low, _), step in zip(around, steps))
    after = sum((count - 1 + high) * step for count, (_, high), step in zip(extent, around, steps))
    return before, after + 1


def make_layout(extent, form, offset, around, rng, vector=8):
    """Places a field with what is `around` it."""
    strides = choose_strides(form, extent, around, rng, vector)
    steps = (*strides, 1)
    before, after = hull(extent, around, steps)
    # An axis without a second cell, and without halo, has a stride that nobody may use.
    if extent[0] == 1 and not any(around[0]):
        strides = (int(rng.choice((-7, 0, 2**62))), strides[1])
    if offset < 0:
        return Layout(extent, strides, before, before + after)
    guard = 2 * steps[1] + 64
    base = -(-(before + guard) // vector) * vector + offset
    return Layout(extent, strides, base, base + after + guard)


def input_around(plan, extent):
    """How wide the halo is, by axis: how far taps reach, as the boundary maps it. The runtime takes all of this box for
    input, also the cells that no tap reads."""
    indices = [along.index[~along.constant] for along in reference.extend_axes(plan, extent)]
    return tuple((-int(index.min()), int(index.max()) - count + 1) for index, count in zip(indices, extent))


def make_guard(storage, cells, rng):
    """Cells that must never matter: NaNs, infinities and the largest numbers."""
    choices = numpy.array(storage.guards, storage.cell)
    return choices[rng.integers(0, len(choices), cells)]


def make_values(case, plan, indices, rng):
    """Cells of the plan's storage at the given (z, y, x) index arrays; halo cells are not the field's continuation."""
    z, y, x = indices
    weight_sum = sum(abs(tap.packed) for tap in plan.taps)
    room = 0.45 * plan.storage.overflow / max(weight_sum, 1e-30)  # keeps every result within the storage
    if plan.storage.name == "f64":  # and SciPy's sums, whose weights are over the largest
        room *= min(1.0, max(abs(tap.packed) for tap in plan.taps))
    if plan.steps > 1:  # and what is between them; in another unit f32 has room for 2^100, f64 for 2^990
        largest = 2.0 ** (990 if plan.storage.name == "f64" else 100)
        room = min(0.45 * plan.storage.overflow, largest) / max(weight_sum, 1) ** plan.steps
    scale = min({"small": 1e-20, "large": 1e20, "limit": 0.9 * plan.storage.overflow}.get(case.values, 1.0), room)
    if case.values == "constant":
        values = numpy.full(x.shape, min(room, float(rng.uniform(0.5, 2))))
    elif case.values in ("smooth", "offset"):
        mean = min(1000.0, 0.9 * room)
        variation = 0.001 if case.values == "offset" else 0.1
        wave = numpy.sin(2 * numpy.pi * x / 64 + 0.3) * numpy.cos(2 * numpy.pi * y / 48) * numpy.cos(z / 9)
        values = mean * (1 + variation * wave)
    elif case.values == "limit":  # all of one sign, and of weights that sum to less than half nearly the largest there are
        values = scale * rng.choice((-1, 1)) * rng.uniform(0.9, 1, x.shape)
    elif case.values == "steep":  # neighbours further apart than any one scale serves
        values = rng.uniform(-1, 1, x.shape) * 2.0 ** (-27.0 * ((x // 50 + y // 5 + z) % 4))
    else:
        values = scale * rng.uniform(-1, 1, x.shape)
    return plan.storage.encode(values)


@dataclasses.dataclass
class Sweep:
    """A case carried out: everything that the checks look at."""

    plan: reference.Plan
    case: Case
    input_layout: Layout
    output_layout: Layout
    input_before: numpy.ndarray  # cells of the whole buffer
    input_after: numpy.ndarray
    output_before: numpy.ndarray
    output_after: numpy.ndarray

    def read(self, z, y, x):
        """Input cells as numbers, by index arrays; the reading side of reference.py."""
        layout = self.input_layout
        position = numpy.clip(layout.positions(z, y, x), 0, layout.cells - 1)
        return self.plan.storage.decode(self.input_before[position])

    def largest(self):
        """The largest magnitude that the kernel may read: of the valid cells and of constant faces."""
        valid = reference.valid_cells(self.plan, self.case.extent)
        cells = numpy.abs(self.read(*valid.indices())).max()
        return float(max(cells, *(abs(face.value) for face in self.plan.own_faces)))

    def result(self):
        """The output's interior as numbers."""
        return self.plan.storage.decode(self.output_after[self.output_layout.interior()])


def prepare_input(plan, case, rng):
    """(layout, cells, positions of the valid ones) of a case's input buffer."""
    valid = reference.valid_cells(plan, case.extent)
    vector = 16 // plan.storage.bytes
    around = input_around(plan, case.extent)
    layout = make_layout(case.extent, case.input_stride, case.input_offset, around, rng, vector)
    cells = make_guard(plan.storage, layout.cells, rng)
    indices = valid.indices()
    positions = layout.positions(*indices)
    cells[positions] = make_values(case, plan, indices, rng)
    return layout, cells, positions


def prepare_output(plan, case, rng):
    """(layout, poisoned cells) of a case's output buffer."""
    around = ((0, 0),) * 3
    vector = 16 // plan.storage.bytes
    layout = make_layout(case.extent, case.output_stride, case.output_offset, around, rng, vector)
    return layout, numpy.full(layout.cells, plan.storage.poison, plan.storage.cell)


def runs(positions):
    """[(first, one past last)] of positions."""
    positions = numpy.unique(positions)
    cuts = numpy.nonzero(numpy.diff(positions) != 1)[0] + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in numpy.split(positions, cuts)]


def run_case(library, kernel, plan, case, rng, valid_only=False):
    """Carries out one case. `valid_only` leaves all other memory of the device as it was allocated, so that a tool which
    knows uninitialised memory sees reads of it."""
    input_layout, input_cells, valid = prepare_input(plan, case, rng)
    output_layout, output_cells = prepare_output(plan, case, rng)
    cell = plan.storage.cell
    with Buffer(library, input_layout.cells, cell) as source, Buffer(library, output_layout.cells, cell) as target:
        if valid_only:
            for first, end in runs(valid):
                source.upload(input_cells[first:end], first)
        else:
            source.upload(input_cells)
            target.upload(output_cells)
        library.sweep(kernel, input_layout.field(source), output_layout.field(target))
        if valid_only:
            input_after, output_after = input_cells.copy(), output_cells.copy()
            for first, end in runs(valid):
                input_after[first:end] = source.download(first, end - first)
            for first, end in runs(output_layout.interior().ravel()):
                output_after[first:end] = target.download(first, end - first)
        else:
            input_after, output_after = source.download(), target.download()
    return Sweep(plan, case, input_layout, output_layout, input_cells, input_after, output_cells, output_after)


@dataclasses.dataclass
class Verdict:
    """What the checks of one sweep found."""

    failures: list
    worst_ratio: float = 0.0  # of error to bound
    relative_l2: float = 0.0
    l2_counted: bool = False


def check_untouched(sweep, failures):
    """Input and everything of the output buffer beyond the interior keep every byte."""
    changed = numpy.nonzero(sweep.input_after != sweep.input_before)[0]
    if len(changed):
        where = sweep.input_layout.describe(changed[0])
        failures.append(f"input changed in {len(changed)} cells, first {where}")
    guard = numpy.ones(sweep.output_layout.cells, bool)
    guard[sweep.output_layout.interior()] = False
    changed = numpy.nonzero(guard & (sweep.output_after != sweep.output_before))[0]
    if len(changed):
        where = sweep.output_layout.describe(changed[0])
        failures.append(f"{len(changed)} cells written outside the interior, first {where}")


def distance(storage, result, total):
    """|result - total|; an infinite result counts as the least number that is rounded to infinity."""
    finite = numpy.abs(numpy.where(numpy.isfinite(result), result, 0.0) - total)
    beyond = numpy.maximum(0, storage.overflow - numpy.abs(total))
    infinite = numpy.where(numpy.sign(result) == numpy.sign(total), beyond, numpy.inf)
    return numpy.where(numpy.isfinite(result), finite, numpy.where(numpy.isnan(result), numpy.inf, infinite))


def check_bound(plan, result, total, magnitude, largest, verdict):
    """Every cell within the pointwise bound, and within the one that the explanation states; returns the errors."""
    bound = reference.error_bound(plan, total, magnitude, largest)
    bound = numpy.minimum(bound, 1.001 * reference.stated_error_bound(plan, total, magnitude, largest))
    error = distance(plan.storage, result, total)
    ratio = error / bound
    verdict.worst_ratio = float(ratio.max())
    if not verdict.worst_ratio <= 1:
        worst = numpy.unravel_index(numpy.argmax(ratio), ratio.shape)
        verdict.failures.append(
            f"{int((ratio > 1).sum())} of {ratio.size} cells beyond the bound; worst z {worst[0]}, y {worst[1]}, "
            f"x {worst[2]}: {result[worst]!r} for {total[worst]!r}, error {error[worst]:.3g}, bound {bound[worst]:.3g}"
        )
    return error


def check_relative_l2(plan, error, total, magnitude, scale, cells, verdict):
    """The relative L2 error where it says something."""
    norm = numpy.linalg.norm(total / scale)
    rms = norm / numpy.sqrt(total.size) * scale
    limit = RELATIVE_L2_LIMITS[plan.storage.name] if plan.accuracy == "full" else REDUCED_ACCURACY_L2_LIMIT
    # A limit of many roundings' root mean square. That of n cells lies around it by some 1 / sqrt(2 n), four times which is
    # allowed; a single cell may have an error of four standard deviations. `cells`: of which errors are their own.
    limit *= 1 + 3 / numpy.sqrt(cells)
    if (plan.low_rank or plan.composition) and norm:  # these count whatever cancels afterwards
        of_largest = reference.low_rank_error(plan) if plan.low_rank else reference.composed_error(plan)
        limit += of_largest * float(numpy.linalg.norm(magnitude / scale)) / norm
    elif plan.storage.name == "f32" and plan.steps > 1 and plan.continues_oddly():
        # Kernels multiply results by what the rounding of the weights takes from a field in t steps, which is at most
        # t 2^-24 sum |w| / |sum w|. Cells beside constants have what fewer steps made of these.
        weights = [tap.packed for tap in plan.taps]
        limit += plan.steps * 2.0**-24 * sum(map(abs, weights)) / abs(sum(weights)) if sum(weights) else 0
    input_error = INPUT_ERRORS[plan.accuracy] if plan.storage.name == "f32" else 0.0
    if norm < max(CANCELLATION, input_error / limit) * numpy.linalg.norm(magnitude / scale):
        return
    if rms < SMALLEST_RMS * 2.0**plan.storage.least_exponent:
        return
    verdict.l2_counted = True
    verdict.relative_l2 = float(numpy.linalg.norm(error / scale) / norm) if norm else 0.0
    if not verdict.relative_l2 <= limit:
        verdict.failures.append(f"relative L2 error {verdict.relative_l2:.3g} > {limit}")


def check_sweep(sweep, with_oracle=True):
    """Every check of one sweep."""
    plan, extent = sweep.plan, sweep.case.extent
    verdict = Verdict([])
    check_untouched(sweep, verdict.failures)
    total, magnitude = swept = reference.sweep_field(plan, extent, sweep.read)
    if not numpy.isfinite(total).all():
        verdict.failures.append("the harness itself reads beyond the halo: its reference is not finite")
        return verdict
    result = sweep.result()
    error = check_bound(plan, result, total, magnitude, sweep.largest(), verdict)
    if plan.storage.name == "f32" and plan.accuracy == "full" and plan.steps == 1:
        # The relative error counts against the spec's own weights. Of t steps it does not: what rounding the weights to f32
        # does, 2^-24 of each, adds up to t 2^-24 sum |w x|, and is more than the limit where t is 17.
        exact, _ = reference.sweep_field(plan, extent, sweep.read, exact_weights=True)
        error, total = numpy.abs(result - exact), exact
    if (plan.low_rank or plan.composition) and plan.continues_oddly():
        # Composed taps take the field's negatives there, which magnitudes of single steps do not count.
        magnitude = numpy.full(extent, sweep.largest())
    scale = float(numpy.abs(magnitude).max()) or 1.0  # squares of large fields stay finite
    cells = 1 if sweep.case.values == "constant" else total.size  # all cells of a constant field err alike
    check_relative_l2(plan, error, total, magnitude, scale if plan.storage.name != "f16" else 1.0, cells, verdict)
    if with_oracle and sweep.case.with_oracle:
        check_oracle(sweep, None if plan.adds_identity else swept, verdict)
    return verdict


def check_oracle(sweep, swept, verdict):
    """The reference, `swept` where it is known already, against SciPy, whose sums are float64, of the same terms in another
    order. Of several steps without a halo SciPy takes one after the other."""
    plain = sweep.plan if swept else dataclasses.replace(sweep.plan, adds_identity=False)
    window = math.prod(2 * max(sides) + 1 for sides in plain.reach)
    if window * math.prod(sweep.case.extent) * plain.steps > MOST_ORACLE_WORK or (plain.steps > 1 and reference.HALO in plain.rules):
        return
    total, magnitude = swept or reference.sweep_field(plain, sweep.case.extent, sweep.read)
    one_step = plain if plain.steps == 1 else dataclasses.replace(plain, steps=1)
    told = reference.oracle(one_step, sweep.case.extent, lambda *at: sweep.read(*at).astype(numpy.float64))
    for _ in range(1, plain.steps):
        told = reference.oracle(one_step, sweep.case.extent, lambda z, y, x, cells=told: cells[z, y, x])
    largest = max(abs(tap.packed) for tap in sweep.plan.taps)
    least = 2.0**-52 * largest * numpy.abs(magnitude).max()  # weights that SciPy takes for zero
    allowed = 4 * plain.steps * (len(sweep.plan.taps) + 2) * 2.0**-53 * magnitude + 1e-300
    if any(abs(tap.packed) <= 2.0**-52 * largest for tap in sweep.plan.taps):
        allowed = allowed + least
    off = numpy.abs(told - total) - allowed
    if not (off <= 0).all():
        worst = numpy.unravel_index(numpy.argmax(numpy.where(numpy.isnan(off), numpy.inf, off)), off.shape)
        verdict.failures.append(
            f"reference and SciPy differ, most at z {worst[0]}, y {worst[1]}, x {worst[2]}: "
            f"{total[worst]!r} and {told[worst]!r}"
        )
