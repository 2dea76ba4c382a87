"""Fields as large applications have them: strides beyond 32 bits, input and output side by side in one array; and what
infinities and NaN in a field do."""

import contextlib
import ctypes
import dataclasses
import fcntl
import mmap
import os
import pathlib
import tempfile

import numpy

import reference
from spider_library import Buffer
from sweep_case import (
    Case,
    Layout,
    Sweep,
    Verdict,
    check_bound,
    hull,
    input_around,
    make_guard,
    make_layout,
    make_values,
    prepare_input,
    prepare_output,
    runs,
)

FAR_BYTES = 9 * 2**30  # from the first cell of a far field to the last: beyond 2^32 bytes and 2^32 f16 cells
FAR_STRIDE_BYTES = 5 * 2**30  # where memory takes room only where it is written
MARGIN = 64  # guard cells on either side of what a far field has in a row


class NotPossible(Exception):
    """A check that this machine cannot do."""


class SparseMemory:
    """Memory of the host that takes room only where it is written; otherwise like Buffer."""

    def __init__(self, cells, cell):
        self.cell = numpy.dtype(cell)
        self.size = self.cell.itemsize * cells

    def __enter__(self):
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0x4000)
        try:
            self.memory = mmap.mmap(-1, self.size, flags=flags)
        except (OSError, OverflowError) as error:
            raise NotPossible(f"no addresses for {self.size / 2**30:.0f} GiB: {error}") from error
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            self.memory.madvise(mmap.MADV_NOHUGEPAGE)  # a cell would take 2 MiB
        # The address must not hold a view of the map while that is closed.
        view = ctypes.c_char.from_buffer(self.memory)
        self.address = ctypes.addressof(view)
        del view
        return self

    def __exit__(self, *_):
        self.memory.close()

    def upload(self, cells, first=0):
        cells = numpy.ascontiguousarray(cells, self.cell)
        ctypes.memmove(self.address + self.cell.itemsize * first, cells.ctypes.data, cells.nbytes)

    def download(self, first, count):
        cells = numpy.empty(count, self.cell)
        ctypes.memmove(cells.ctypes.data, self.address + self.cell.itemsize * first, cells.nbytes)
        return cells


class KeptField:
    """A large layout of which only what is near some positions is kept here. Positions of kept cells: those of the runs,
    one after the other."""

    def __init__(self, layout, positions):
        self.layout = layout
        self.positions = positions
        self.runs = merged(
            [(max(0, one - MARGIN), min(layout.cells, other + MARGIN)) for one, other in runs(positions)]
        )

    def whole(self, buffer):
        """What lies near the positions, as one array."""
        return numpy.concatenate([buffer.download(first, end - first) for first, end in self.runs])

    def fill(self, buffer, kept):
        done = 0
        for first, end in self.runs:
            buffer.upload(kept[done : done + end - first], first)
            done += end - first

    def kept(self):
        """How many cells are kept."""
        return sum(end - first for first, end in self.runs)

    def places(self, positions):
        """Where positions of the buffer are in the kept array."""
        firsts = numpy.array([first for first, _ in self.runs])
        before = numpy.concatenate(([0], numpy.cumsum([end - first for first, end in self.runs])[:-1]))
        run = numpy.searchsorted(firsts, positions, side="right") - 1
        return before[run] + positions - firsts[run]


class FarField(KeptField):
    """A field whose planes, or rows, lie so far apart that offsets exceed 32 bits."""

    def __init__(self, plan, extent, cells, around, misalignment, stride_bytes):
        axis = 0 if plan.dimensions == 3 else 1
        count = extent[axis] + sum(around[axis])
        stride_bytes = stride_bytes or FAR_BYTES // max(1, count - 1)
        far = stride_bytes // plan.storage.bytes // 8 * 8 + misalignment
        near = extent[2] + sum(around[2]) + 8
        strides = (far, near) if axis == 0 else (0, far)
        before, after = hull(extent, around, (*strides, 1))
        base = MARGIN + before
        end = base + after + MARGIN
        layout = Layout(extent, strides, base, end)
        super().__init__(layout, layout.positions(*cells.indices()))


def merged(ends):
    """Ascending runs, those that touch made one."""
    result = []
    for first, end in sorted(ends):
        if result and first <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((first, end))
    return result


def far_memory(library, on_host, layout, cell):
    """Memory for a large layout."""
    return SparseMemory(layout.cells, cell) if on_host else Buffer(library, layout.cells, cell)


@contextlib.contextmanager
def alone(on_host):
    """Keeps other processes of this harness out, where all of them together would need more than a device has."""
    path = pathlib.Path(tempfile.gettempdir()) / f"spider-far-memory-{os.getuid()}.lock"
    with open(path, "w", encoding="utf-8") as lock:
        if not on_host:
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def check_far_strides(library, kernel, plan, rng):
    """A sweep of a field whose offsets exceed 32 bits, against the same field in a small buffer, bit by bit."""
    if plan.dimensions == 1:
        return []
    with alone(library.on_host(kernel)):
        return compare_far_fields(library, kernel, plan, rng)


def compare_far_fields(library, kernel, plan, rng):
    extent = (1, 6, 150) if plan.dimensions == 2 else (4, 5, 140)
    case = Case(extent, "random", "aligned", "aligned")
    on_host = library.on_host(kernel)
    cell = plan.storage.cell
    near, content, _ = prepare_input(plan, case, rng)
    target_layout, poisoned = prepare_output(plan, case, rng)
    with Buffer(library, near.cells, cell) as source, Buffer(library, target_layout.cells, cell) as target:
        source.upload(content)
        target.upload(poisoned)
        library.sweep(kernel, near.field(source), target_layout.field(target))
        wanted = target.download()[target_layout.interior()].ravel()

    valid = reference.valid_cells(plan, extent)
    inner = reference.Cells((0, 0, 0), numpy.ones(extent, bool))
    failures = []
    for misalignment, stride_bytes in ((0, FAR_STRIDE_BYTES if on_host else None), (3, None)):
        far_in = FarField(plan, extent, valid, input_around(plan, extent), misalignment, stride_bytes)
        far_out = FarField(plan, extent, inner, ((0, 0),) * 3, misalignment, stride_bytes)
        with far_memory(library, on_host, far_in.layout, cell) as source, far_memory(
            library, on_host, far_out.layout, cell
        ) as target:
            kept = make_guard(plan.storage, far_in.kept(), rng)
            kept[far_in.places(far_in.positions)] = content[near.positions(*valid.indices())]
            far_in.fill(source, kept)
            blank = numpy.full(far_out.kept(), plan.storage.poison, cell)
            far_out.fill(target, blank)
            library.sweep(kernel, far_in.layout.field(source), far_out.layout.field(target))
            blank[far_out.places(far_out.positions)] = wanted
            what = f"strides {far_in.layout.strides} and {far_out.layout.strides}"
            if off := int((far_out.whole(target) != blank).sum()):
                failures.append(f"{what}: {off} cells are not what the same field gives in a small buffer")
            if not numpy.array_equal(far_in.whole(source), kept):
                failures.append(f"{what}: input changed")
    return failures


LONG = 2**31  # cells that a long line has more than a short one; a multiple of any tile, so that both are cut alike


def check_long_line(library, kernel, plan, rng):
    """Boxes at both ends of a line of more than 2^31 cells, against those of a short line that has the same ends."""
    if plan.dimensions != 1:
        return []
    count, kept, size = 5000, 2500, 1100
    case = Case((1, 1, count), "random", "aligned", "aligned")
    short, content, _ = prepare_input(plan, case, rng)
    target_layout, poisoned = prepare_output(plan, case, rng)
    cell = plan.storage.cell
    ends = [(0, 0), (count - size, LONG + count - size)]  # where boxes begin in the short line and in the long one
    wanted = []
    with Buffer(library, short.cells, cell) as source, Buffer(library, target_layout.cells, cell) as target:
        source.upload(content)
        target.upload(poisoned)
        for first, _ in ends:
            box = reference.Box((0, 0, first), (1, 1, size))
            library.sweep_box(kernel, short.field(source), target_layout.field(target), box)
            wanted.append(target.download()[target_layout.base + first :][:size])
    on_host = library.on_host(kernel)
    long_in = dataclasses.replace(short, extent=(1, 1, count + LONG), cells=short.cells + LONG)
    long_out = dataclasses.replace(target_layout, extent=(1, 1, count + LONG), cells=target_layout.cells + LONG)
    middle = short.base + kept
    failures = []
    with alone(on_host):
        with far_memory(library, on_host, long_in, cell) as source, far_memory(
            library, on_host, long_out, cell
        ) as target:
            source.upload(content[:middle])
            source.upload(content[middle:], LONG + middle)
            for (_, first), bits in zip(ends, wanted):
                around = target_layout.base + first - 1, size + 2
                target.upload(numpy.full(size + 2, plan.storage.poison, cell), around[0])
                box = reference.Box((0, 0, first), (1, 1, size))
                library.sweep_box(kernel, long_in.field(source), long_out.field(target), box)
                got = target.download(*around)
                if not numpy.array_equal(got[1:-1], bits):
                    off = int((got[1:-1] != bits).sum())
                    failures.append(f"{off} cells of the {size} from {first} on differ from those of a short line")
                if (got[[0, -1]] != plan.storage.poison).any():
                    failures.append(f"a cell beside the {size} from {first} on was written")
    return failures


LARGEST_EXTENT = 2**31 - 65537  # of an axis in 2D and 3D
SHORT_EXTENT = 1023  # of an axis with the same ends; what it lacks is a multiple of any tile


def check_long_axis(library, kernel, plan, rng):
    """Boxes at both ends of each axis of the largest extent, in 2D and 3D, against those of a short field that has the
    same ends; on the host alone, since no device has the memory."""
    if plan.dimensions == 1 or not library.on_host(kernel):
        return []
    failures = []
    for axis in range(3 - plan.dimensions, 3):
        failures += compare_long_axis(library, kernel, plan, rng, axis)
    return failures


def compare_long_axis(library, kernel, plan, rng, axis):
    missing = LARGEST_EXTENT - SHORT_EXTENT
    extent = [1, 14, 70] if plan.dimensions == 2 else [3, 4, 40]
    extent[axis] = SHORT_EXTENT
    size = (6, 20, 300)[axis]
    boxes = []
    for first in (0, SHORT_EXTENT - size):
        offset, size_of_box = [0, 0, 0], list(extent)
        offset[axis], size_of_box[axis] = first, size
        boxes.append(reference.Box(tuple(offset), tuple(size_of_box)))

    def at_ends(cells, ends):
        """The cells beside both ends of the short axis, and where they are in the long one."""
        indices = [numpy.asarray(index) for index in cells.indices()]
        near = (indices[axis] < ends) | (indices[axis] >= SHORT_EXTENT - ends)
        indices = [index[near] for index in indices]
        moved = list(indices)
        moved[axis] = indices[axis] + missing * (indices[axis] >= ends)
        return indices, moved

    case = Case(tuple(extent), "random", "aligned", "aligned")
    cell = plan.storage.cell
    near, content, _ = prepare_input(plan, case, rng)
    target_layout, poisoned = prepare_output(plan, case, rng)
    with Buffer(library, near.cells, cell) as source, Buffer(library, target_layout.cells, cell) as target:
        source.upload(content)
        target.upload(poisoned)
        for box in boxes:
            library.sweep_box(kernel, near.field(source), target_layout.field(target), box)
        short = target.download()

    extent[axis] = LARGEST_EXTENT
    vector = 16 // plan.storage.bytes
    around = input_around(plan, case.extent)
    read, read_far = at_ends(reference.valid_cells(plan, case.extent), size + max(plan.reach[axis]))
    written, written_far = at_ends(reference.Cells((0, 0, 0), numpy.ones(case.extent, bool)), size)
    long_in = make_layout(tuple(extent), "aligned", 0, around, rng, vector)
    long_out = make_layout(tuple(extent), "aligned", 0, ((0, 0),) * 3, rng, vector)
    long_in = KeptField(long_in, long_in.positions(*read_far))
    long_out = KeptField(long_out, long_out.positions(*written_far))
    failures = []
    with SparseMemory(long_in.layout.cells, cell) as source, SparseMemory(long_out.layout.cells, cell) as target:
        kept = make_guard(plan.storage, long_in.kept(), rng)
        kept[long_in.places(long_in.positions)] = content[near.positions(*read)]
        long_in.fill(source, kept)
        blank = numpy.full(long_out.kept(), plan.storage.poison, cell)
        long_out.fill(target, blank)
        for box in boxes:
            offset = list(box.offset)
            offset[axis] += missing * (offset[axis] > 0)
            far = reference.Box(tuple(offset), box.extent)
            library.sweep_box(kernel, long_in.layout.field(source), long_out.layout.field(target), far)
        blank[long_out.places(long_out.positions)] = short[target_layout.positions(*written)]
        what = f"{reference.AXES[axis]} of extent {LARGEST_EXTENT}"
        if off := int((long_out.whole(target) != blank).sum()):
            failures.append(f"{what}: {off} cells at its ends are not what those of a short field are")
        if not numpy.array_equal(long_in.whole(source), kept):
            failures.append(f"{what}: input changed")
    return failures


def check_side_by_side(library, kernel, plan, rng):
    """Input and output as sub-fields of one array, columns beside columns: the same bits as in buffers of their own."""
    if plan.dimensions == 1:
        return []
    extent = (1, 12, 133) if plan.dimensions == 2 else (4, 7, 133)
    case = Case(extent, "random", "aligned", "aligned")
    valid = reference.valid_cells(plan, extent)
    around = input_around(plan, extent)
    (far_down, far_up), (down, up), (left, right) = around
    row = extent[2] + left + right + extent[2] + 5
    rows = extent[1] + down + up
    plane = rows * row + 7
    base = far_down * plane + down * row + left
    cells = (extent[0] + far_down + far_up) * plane
    before = Layout(extent, (plane, row), base, cells)
    beside = Layout(extent, (plane, row), base + extent[2] + right, cells)
    content = make_guard(plan.storage, cells, rng)
    content[before.positions(*valid.indices())] = make_values(case, plan, valid.indices(), rng)
    content[beside.interior()] = plan.storage.poison
    apart_layout, apart = prepare_output(plan, case, rng)
    cell = plan.storage.cell
    with Buffer(library, cells, cell) as array, Buffer(library, len(apart), cell) as target:
        array.upload(content)
        library.sweep(kernel, before.field(array), apart_layout.field(target))
        wanted = content.copy()
        wanted[beside.interior()] = target.download()[apart_layout.interior()]
        array.upload(content)
        library.sweep(kernel, before.field(array), beside.field(array))
        off = numpy.nonzero(array.download() != wanted)[0]
    if len(off):
        return [
            f"input and output side by side in one array: {len(off)} cells wrong, first {beside.describe(off[0])}"
        ]
    return []


# A tile's operands span 32 columns, in some mappings two rows, in some both of these for each of two results: what
# is not finite shows that far around.
SPREAD = (1, 3, 31)
# Stars as two bands: 16 rows along y, and along x all 32 columns that are computed together.
SPREAD_OF_BANDS = (1, 8, 39)
# Two passes: groups of 16 rows, tiles of 16 columns and chunks of as many inputs, whole.
SPREAD_OF_PASSES = (1, 30, 31)
# Passes as bands: groups of 16 outputs along the axis and chunks of as many inputs, whole.
SPREAD_OF_BANDED_PASSES = (30, 30, 37)


def check_not_finite(library, kernel, plan, rng):
    """NaN and infinities in the field: wherever a tap reaches one the result is not finite, away from them it is what
    it is without them."""
    extent = {1: (1, 1, 900), 2: (1, 40, 300), 3: (12, 14, 200)}[plan.dimensions]
    case = Case(extent, "random", "aligned", "aligned")
    layout, cells, _ = prepare_input(plan, case, rng)
    target_layout, poisoned = prepare_output(plan, case, rng)
    places = [tuple(int(rng.integers(0, count)) for count in extent) for _ in range(3)]
    storage = plan.storage
    clean = Sweep(plan, case, layout, target_layout, cells, cells, poisoned, poisoned)
    spoilt = cells.copy()
    for place, value in zip(places, (storage.quiet_nan, storage.infinity, storage.infinity | storage.sign_bit)):
        spoilt[layout.positions(*place)] = value
    with Buffer(library, layout.cells, storage.cell) as source:
        with Buffer(library, target_layout.cells, storage.cell) as target:
            source.upload(spoilt)
            target.upload(poisoned)
            library.sweep(kernel, layout.field(source), target_layout.field(target))
            after = target.download()
    result = storage.decode(after[target_layout.interior()])

    total, magnitude = reference.sweep_field(plan, extent, clean.read)
    wrong = Sweep(plan, case, layout, target_layout, spoilt, spoilt, poisoned, poisoned)
    spoilt_total, _ = reference.sweep_field(plan, extent, wrong.read)
    failures = []
    reached = ~numpy.isfinite(spoilt_total)
    if plan.list_reach:  # what steps reach beyond is truncated
        reached &= points_near(plan, extent, places, ((0, 0), *plan.list_reach))
    if plan.leaves_out():
        reached[:] = False
    if stayed := int((reached & numpy.isfinite(result)).sum()):
        failures.append(f"NaN or infinities in the field: {stayed} results that they reach are finite")
    near = grown(plan, extent, places)
    verdict = Verdict([])
    kept = numpy.where(near, total, result)  # what is near counts as right
    check_bound(plan, kept, total, magnitude, clean.largest(), verdict)
    return failures + [f"NaN or infinities at {places}, away from them: {failure}" for failure in verdict.failures]


def grown(plan, extent, places):
    """The points that may show something of a cell: those whose taps, or neighbours of taps in an operand, reach it
    through any face."""
    spread = {"star2d": SPREAD_OF_BANDS, "lowrank2d": SPREAD_OF_PASSES, "passes": SPREAD_OF_BANDED_PASSES}.get(plan.template, SPREAD)
    return points_near(plan, extent, places, tuple((low + far, high + far) for (low, high), far in zip(plan.reach, spread)))


def points_near(plan, extent, places, reach):
    """The points from which so many cells below and above, by axis, are one of `places`, through any face."""
    maps = []
    for axis, (low, high) in enumerate(reach):
        along = reference.extend_axis(extent[axis], low, high, plan.faces[axis])
        maps.append((low, high, along))
    near = numpy.zeros(extent, bool)
    for place in places:
        hits = []
        for axis, (low, high, along) in enumerate(maps):
            found = numpy.nonzero((along.index == place[axis]) & ~along.constant)[0] - low
            hit = numpy.zeros(extent[axis], bool)
            for position in found:
                hit[max(0, position - high) : max(0, position + low + 1)] = True
            hits.append(hit)
        near |= hits[0][:, None, None] & hits[1][None, :, None] & hits[2][None, None, :]
    return near
