"""One sweep of one kernel over one field: how the field lies in memory, what is in it and around it, and what must be
true afterwards."""

import dataclasses

import numpy

import reference
from spider_library import Buffer, make_field

POISON = 0xFDFD  # a NaN in f16, and no value that the guards hold
RELATIVE_L2_LIMIT = 1e-3
# Relative L2 is asked for where the result is not mostly cancellation, and not so small that f16's subnormal step
# (2^-24) is what one sees.
CANCELLATION = 0.05
SMALLEST_RMS = 2.0**-12


@dataclasses.dataclass(frozen=True)
class Layout:
    """A field in a buffer of `cells` cells; cell (row, column) is base + row * stride + column."""

    rows: int
    columns: int
    stride: int
    base: int
    cells: int

    def positions(self, mask, first_row, first_column):
        """Where the cells of a mask lie, ascending in row, then column."""
        row, column = numpy.nonzero(mask)
        return self.base + (row + first_row) * self.stride + column + first_column

    def interior(self):
        return self.base + numpy.arange(self.rows)[:, None] * self.stride + numpy.arange(self.columns)[None, :]

    def field(self, buffer, plane_stride=-7):
        return make_field(buffer.address + 2 * self.base, self.rows, self.columns, self.stride, plane_stride)


@dataclasses.dataclass(frozen=True)
class Case:
    """What distinguishes one case of a kernel from another."""

    rows: int
    columns: int
    values: str = "random"  # random | smooth | constant
    input_stride: str = "odd"  # tight | odd | aligned | large
    output_stride: str = "odd"
    input_offset: int = 0  # elements from a 16-byte boundary; -1: the buffer begins and ends with the field's cells
    output_offset: int = 0

    def __str__(self):
        def lies(stride, offset):
            return f"{stride} stride " + ("filling its buffer" if offset < 0 else f"at 16 bytes + {offset} elements")

        return (
            f"{self.rows} x {self.columns} {self.values}, in: {lies(self.input_stride, self.input_offset)}, "
            f"out: {lies(self.output_stride, self.output_offset)}"
        )


def choose_stride(form, least, rng):
    """A row stride of at least `least` elements."""
    if form == "tight":
        return least
    if form == "aligned":
        return -(-least // 8) * 8 + 8 * int(rng.integers(0, 3))
    if form == "large":
        return least + int(rng.integers(500, 1500))
    return (least + int(rng.integers(0, 9))) | 1


def make_layout(case_rows, case_columns, form, offset, mask_span, least, rng):
    """Places a field; `mask_span` are the first and last rows and columns that the kernel may touch."""
    (first_row, last_row), (first_column, last_column) = mask_span
    stride = choose_stride(form, least, rng)
    before = -first_row * stride - first_column
    after = last_row * stride + last_column + 1
    if offset < 0:
        return Layout(case_rows, case_columns, stride, before, before + after)
    base = -(-(before + 2 * stride + 64) // 8) * 8 + offset
    return Layout(case_rows, case_columns, stride, base, base + after + 2 * stride + 64)


def least_stride(plan, columns):
    """The smallest stride that keeps rows with their halo apart."""
    _, _, left, right = plan.halo_reach
    return columns + left + right


def touched_span(plan, rows, columns):
    """Rows and columns from the first to the last valid cell, relative to the interior's first cell."""
    mask, first_row, first_column = reference.valid_cells(plan, rows, columns)
    row = numpy.nonzero(mask.any(axis=1))[0]
    column = numpy.nonzero(mask.any(axis=0))[0]
    return (
        (int(row[0]) + first_row, int(row[-1]) + first_row),
        (int(column[0]) + first_column, int(column[-1]) + first_column),
    )


def make_guard(cells, rng):
    """Cells that must never matter: NaNs, infinities and the largest numbers."""
    choices = numpy.array([0x7E00, 0xFE01, 0x7C00, 0xFC00, 0x7BFF, 0xFBFF], numpy.uint16)
    return choices[rng.integers(0, len(choices), cells)]


def make_values(case, plan, row, column, rng):
    """f16 values at the given rows and columns (arrays of one length); halo cells are not the field's continuation."""
    weight_sum = sum(abs(packed) for _, _, _, packed in plan.taps)
    room = 30000.0 / max(weight_sum, 1e-30)  # keeps every result within f16
    if case.values == "constant":
        return numpy.full(row.shape, min(room, float(rng.uniform(0.5, 2)))).astype(numpy.float16)
    if case.values == "smooth":
        mean = min(1000.0, 0.9 * room)
        wave = 1 + 0.1 * numpy.sin(2 * numpy.pi * column / 64 + 0.3) * numpy.cos(2 * numpy.pi * row / 48)
        return (mean * wave).astype(numpy.float16)
    return (min(1.0, room) * rng.uniform(-1, 1, row.shape)).astype(numpy.float16)


@dataclasses.dataclass
class Sweep:
    """A case carried out: everything that the checks look at."""

    plan: reference.Plan
    case: Case
    input_layout: Layout
    output_layout: Layout
    input_before: numpy.ndarray  # 16-bit cells of the whole buffer
    input_after: numpy.ndarray
    output_before: numpy.ndarray
    output_after: numpy.ndarray

    def read(self, row, column):
        """Input cells as float64, by index arrays; the reading side of reference.py."""
        layout = self.input_layout
        position = numpy.clip(layout.base + row * layout.stride + column, 0, layout.cells - 1)
        return self.input_before.view(numpy.float16)[position].astype(numpy.float64)


def prepare_input(plan, case, rng):
    """(layout, 16-bit cells, positions of the valid ones) of a case's input buffer."""
    span = touched_span(plan, case.rows, case.columns)
    least = least_stride(plan, case.columns)
    layout = make_layout(case.rows, case.columns, case.input_stride, case.input_offset, span, least, rng)
    cells = make_guard(layout.cells, rng)
    mask, first_row, first_column = reference.valid_cells(plan, case.rows, case.columns)
    row, column = numpy.nonzero(mask)
    valid = layout.positions(mask, first_row, first_column)
    cells[valid] = make_values(case, plan, row + first_row, column + first_column, rng).view(numpy.uint16)
    return layout, cells, valid


def runs(positions):
    """[(first, one past last)] of ascending positions."""
    positions = numpy.unique(positions)
    cuts = numpy.nonzero(numpy.diff(positions) != 1)[0] + 1
    return [(int(part[0]), int(part[-1]) + 1) for part in numpy.split(positions, cuts)]


def run_case(library, kernel, plan, case, rng, valid_only=False):
    """Carries out one case. `valid_only` leaves all other memory of the device as it was allocated, so that a tool which
    knows uninitialised memory sees reads of it."""
    input_layout, input_cells, valid = prepare_input(plan, case, rng)
    interior = ((0, case.rows - 1), (0, case.columns - 1))
    output_layout = make_layout(
        case.rows, case.columns, case.output_stride, case.output_offset, interior, case.columns, rng
    )
    output_cells = numpy.full(output_layout.cells, POISON, numpy.uint16)
    with Buffer(library, input_layout.cells) as source, Buffer(library, output_layout.cells) as target:
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
    return Sweep(
        plan, case, input_layout, output_layout, input_cells, input_after, output_cells, output_after
    )


@dataclasses.dataclass
class Verdict:
    """What the checks of one sweep found."""

    failures: list
    worst_ratio: float = 0.0  # of error to bound
    relative_l2: float = 0.0
    l2_counted: bool = False
    oracle_counted: bool = False


def describe_cell(layout, position):
    row, column = divmod(int(position) - layout.base, layout.stride)
    return f"cell y {row}, x {column} (element {int(position)} of the buffer)"


def check_untouched(sweep, failures):
    """Input and everything of the output buffer beyond the interior keep every byte."""
    changed = numpy.nonzero(sweep.input_after != sweep.input_before)[0]
    if len(changed):
        where = describe_cell(sweep.input_layout, changed[0])
        failures.append(f"input changed in {len(changed)} cells, first {where}")
    guard = numpy.ones(sweep.output_layout.cells, bool)
    guard[sweep.output_layout.interior()] = False
    changed = numpy.nonzero(guard & (sweep.output_after != sweep.output_before))[0]
    if len(changed):
        where = describe_cell(sweep.output_layout, changed[0])
        failures.append(f"{len(changed)} cells written outside the interior, first {where}")


def distance(result, total):
    """|result - total|; an infinite result counts as the least number that f16 rounds to infinity."""
    overflow = 65520.0
    finite = numpy.abs(numpy.where(numpy.isfinite(result), result, 0.0) - total)
    infinite = numpy.where(numpy.sign(result) == numpy.sign(total), numpy.maximum(0, overflow - abs(total)), numpy.inf)
    return numpy.where(numpy.isfinite(result), finite, numpy.where(numpy.isnan(result), numpy.inf, infinite))


def check_sweep(sweep, with_oracle=True):
    """Every check of one sweep."""
    plan, case = sweep.plan, sweep.case
    verdict = Verdict([])
    check_untouched(sweep, verdict.failures)
    extended = reference.extended_field(plan, case.rows, case.columns, sweep.read)
    total, magnitude = reference.apply_taps(plan, extended, case.rows, case.columns)
    if not numpy.isfinite(total).all():
        verdict.failures.append("the harness itself reads beyond the halo: its reference is not finite")
        return verdict
    result = sweep.output_after[sweep.output_layout.interior()].view(numpy.float16).astype(numpy.float64)
    bound = reference.error_bound(plan, total, magnitude)
    error = distance(result, total)
    ratio = error / bound
    verdict.worst_ratio = float(ratio.max())
    if verdict.worst_ratio > 1:
        row, column = numpy.unravel_index(numpy.argmax(ratio), ratio.shape)
        verdict.failures.append(
            f"{int((ratio > 1).sum())} of {ratio.size} cells beyond the bound; worst y {row}, x {column}: "
            f"{result[row, column]!r} for {total[row, column]!r}, error {error[row, column]:.3g}, "
            f"bound {bound[row, column]:.3g}"
        )
    norm = numpy.linalg.norm(total)
    rms = norm / numpy.sqrt(total.size)
    if norm >= CANCELLATION * numpy.linalg.norm(magnitude) and rms >= SMALLEST_RMS:
        verdict.l2_counted = True
        verdict.relative_l2 = float(numpy.linalg.norm(error) / norm)
        if not verdict.relative_l2 <= RELATIVE_L2_LIMIT:
            verdict.failures.append(f"relative L2 error {verdict.relative_l2:.3g} > {RELATIVE_L2_LIMIT}")
    if with_oracle:
        check_oracle(sweep, total, magnitude, verdict)
    return verdict


def check_oracle(sweep, total, magnitude, verdict):
    """The reference against scipy.ndimage.correlate: both are float64 sums of the same terms in another order."""
    told = reference.oracle(sweep.plan, sweep.case.rows, sweep.case.columns, sweep.read)
    if told is None:
        return
    verdict.oracle_counted = True
    allowed = 4 * len(sweep.plan.taps) * 2.0**-53 * magnitude + 1e-300
    off = numpy.abs(told - total) - allowed
    if not (off <= 0).all():
        row, column = numpy.unravel_index(numpy.argmax(off), off.shape)
        verdict.failures.append(
            f"reference and scipy.ndimage.correlate differ, most at y {row}, x {column}: "
            f"{total[row, column]!r} and {told[row, column]!r}"
        )
