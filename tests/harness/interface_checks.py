"""What the C API promises beside a sweep's values: misuse answers the documented status and touches nothing, iteration
equals repeated sweeps, and the described kernel is the planned one."""

import copy
import ctypes
import dataclasses
import math
import threading
from ctypes import byref, c_int64, c_void_p

import numpy

import reference
import spider_library as api
from spider_library import Buffer, make_field
from sweep_case import Case, Verdict, check_bound, input_around, make_layout, make_values, prepare_input, run_case

# Small fields by dimensions; larger than the reach of most stencils.
EXTENTS = {1: (1, 1, 137), 2: (1, 20, 37), 3: (5, 9, 37)}


def check_info(library, kernel, plan):
    """spider_info, spider_prepare and the constants of the ABI."""
    failures = []
    info = library.info(kernel)
    if not info:
        return ["spider_info answers NULL"]
    told = info.contents
    wanted = {
        "abi": api.ABI,
        "name": plan.name.encode(),
        "dimensions": plan.dimensions,
        "storage": plan.storage.code,
        "steps": plan.steps,
        "reach_low": [low for low, _ in plan.reach],
        "reach_high": [high for _, high in plan.reach],
    }
    for key, value in wanted.items():
        got = getattr(told, key)
        got = list(got) if isinstance(value, list) else got
        if got != value:
            failures.append(f"spider_info: {key} is {got!r}, not {value!r}")
    if told.size < ctypes.sizeof(api.KernelInfo):
        failures.append(f"spider_info: size {told.size} is less than that of the documented fields")
    if library.abi_version() != api.ABI:
        failures.append(f"spider_abi_version is {library.abi_version()}")
    library.require("spider_prepare", library.prepare(kernel))
    return failures


class Misuse:
    """Calls on one pair of valid fields, each with one thing wrong."""

    def __init__(self, library, kernel, plan, rng):
        self.library, self.kernel, self.plan, self.rng = library, kernel, plan, rng
        self.extent = EXTENTS[plan.dimensions]
        self.failures = []

    def run(self):
        """The failures of every misuse of apply and iterate."""
        case = Case(self.extent, input_stride="aligned", output_stride="aligned")
        layout, cells, _ = prepare_input(self.plan, case, self.rng)
        size = layout.cells, self.plan.storage.cell
        with Buffer(self.library, *size) as source, Buffer(self.library, *size) as target:
            self.buffers = ((source, cells), (target, cells[::-1].copy()))
            for buffer, content in self.buffers:
                buffer.upload(content)
            self.good = lambda: (layout.field(source), layout.field(target))
            self.pointers()
            self.kernels()
            self.shapes()
            self.overlaps(layout, source)
            self.steps()
            self.strings()
        return self.failures

    def expect(self, what, wanted, status):
        """Records a status other than the wanted one, missing words, or a changed byte."""
        words = self.library.words()
        if status != wanted:
            self.failures.append(f"{what}: status {status} ({words}), not {wanted}")
        elif not words:
            self.failures.append(f"{what}: status {status}, but spider_last_error is empty")
        self.library.require("spider_synchronize", self.library.synchronize(None))
        for buffer, content in self.buffers:
            if not numpy.array_equal(buffer.download(), content):
                self.failures.append(f"{what}: memory changed")
                buffer.upload(content)

    def both(self, what, wanted, source, target):
        """The same fields, by reference or None, through apply and iterate."""
        self.expect(f"apply, {what}", wanted, self.library.apply(self.kernel, source, target, None))
        status = self.library.iterate(self.kernel, source, target, 2, None, None)
        self.expect(f"iterate, {what}", wanted, status)

    def changed(self, what, wanted, which, change):
        """Both calls with one field changed by `change(field)`."""
        fields = self.good()
        change(fields[which])
        self.both(f"{what} of {'in' if which == 0 else 'out'}", wanted, byref(fields[0]), byref(fields[1]))

    def pointers(self):
        source, target = self.good()
        self.both("no input field", api.NULL, None, byref(target))
        self.both("no output field", api.NULL, byref(source), None)
        for which in range(2):
            self.changed("null data", api.NULL, which, lambda field: setattr(field, "data", None))
            for off in range(1, self.plan.storage.bytes):
                self.changed(
                    f"address {off} bytes off",
                    api.ALIGNMENT,
                    which,
                    lambda field, off=off: setattr(field, "data", field.data + off),
                )

    def kernels(self):
        source, target = self.good()
        stranger = (ctypes.c_uint32 * 1024)(99, 4096)
        address = ctypes.addressof(stranger)
        for what, kernel, wanted in (("no kernel", None, api.NULL), ("a kernel of ABI 99", address, api.KERNEL)):
            self.expect(f"apply, {what}", wanted, self.library.apply(kernel, byref(source), byref(target), None))
            status = self.library.iterate(kernel, byref(source), byref(target), 1, None, None)
            self.expect(f"iterate, {what}", wanted, status)
            self.expect(f"prepare, {what}", wanted, self.library.prepare(kernel))
            if self.library.info(kernel):
                self.failures.append(f"spider_info of {what} is not NULL")

    def shapes(self):
        def extent(axis, value):
            return lambda field: field.extent.__setitem__(axis, value)

        def stride(place, value):
            return lambda field: field.stride.__setitem__(place, value)

        first = 3 - self.plan.dimensions
        for which in range(2):
            for axis in range(3):
                for value in (0, -3):
                    self.changed(f"extent[{axis}] {value}", api.EXTENT, which, extent(axis, value))
                if axis < first:
                    self.changed(f"extent {reference.AXES[axis]} 2", api.EXTENT, which, extent(axis, 2))
                else:
                    less = extent(axis, self.extent[axis] - 1)
                    self.changed(
                        f"extent {reference.AXES[axis]} one less than the other", api.EXTENT, which, less
                    )
            if self.plan.dimensions > 1:
                for value in (self.extent[2] - 1, 0, -64):
                    self.changed(f"row stride {value}", api.STRIDE, which, stride(1, value))
            if self.plan.dimensions > 2:
                for value in (self.extent[2] - 1, 0, -64):
                    self.changed(f"plane stride {value}", api.STRIDE, which, stride(0, value))
        least = self.extent[2] + sum(input_around(self.plan, self.extent)[2])
        if self.plan.dimensions > 1 and least > self.extent[2]:
            self.changed(f"row stride {least - 1} where the halo needs {least}", api.STRIDE, 0, stride(1, least - 1))

    def overlaps(self, layout, source):
        def call(what, target):
            self.both(what, api.OVERLAP, byref(layout.field(source)), byref(target))

        call("in == out", layout.field(source))
        size = self.plan.storage.bytes
        last = tuple(count - 1 for count in self.extent)
        field = layout.field(source)
        field.data += size
        if self.extent[2] > 1:
            call("out one element after in", field)
        field = layout.field(source)
        field.data += size * int(layout.positions(last[0], last[1], 0) - layout.base)
        call("out begins in the last row of in", field)
        up = input_around(self.plan, self.extent)[1][1]
        behind = [row for row in self.plan.tap_rows if row.dy == up and row.dz == 0]
        if up > 0 and behind and behind[0].low <= 0 <= behind[0].high:
            field = layout.field(source)
            field.data += size * int(layout.positions(last[0], last[1] + 1, 0) - layout.base)
            call("out begins in the halo behind in", field)

    def steps(self):
        source, target = self.good()
        status = self.library.iterate(self.kernel, byref(source), byref(target), -1, None, None)
        self.expect("iterate, -1 steps", api.STEPS, status)

    def strings(self):
        texts = [self.library.status_string(value) for value in api.STATUS_VALUES]
        if not all(texts) or len(set(texts)) != len(texts):
            self.failures.append(f"spider_status_string: {texts}")
        if not self.library.status_string(4711):
            self.failures.append("spider_status_string of an unknown value is empty")
        elsewhere = []
        thread = threading.Thread(target=lambda: elsewhere.append(self.library.words()))
        thread.start()
        thread.join()
        if elsewhere != [""]:
            self.failures.append(f"spider_last_error of another thread is {elsewhere}")


def check_misuse(library, kernel, plan, rng):
    """Every misuse of the API; returns failures."""
    return Misuse(library, kernel, plan, rng).run()


def check_iteration(library, kernel, plan, rng):
    """spider_iterate against spider_apply, sweep by sweep and bit by bit, and against single steps of its own for what is
    left; the halos of both fields are read. On a stream on which sweeps may start while the one ahead still runs."""
    failures = []
    case = Case({1: (1, 1, 150), 2: (1, 11, 150), 3: (4, 6, 150)}[plan.dimensions])
    valid = reference.valid_cells(plan, case.extent)
    around = input_around(plan, case.extent)
    storage = plan.storage
    layouts, contents = [], []
    for form, offset in (("aligned", 0), ("odd", 3)):
        layout = make_layout(case.extent, form, offset, around, rng, 16 // storage.bytes)
        cells = numpy.full(layout.cells, storage.quiet_nan, storage.cell)
        cells[layout.positions(*valid.indices())] = make_values(case, plan, valid.indices(), rng)
        layouts.append(layout)
        contents.append(cells)
    sizes = [(layout.cells, storage.cell) for layout in layouts]
    with Buffer(library, *sizes[0]) as first, Buffer(library, *sizes[1]) as second:
        buffers = (first, second)

        def reset():
            for buffer, content in zip(buffers, contents):
                buffer.upload(content)

        def both():
            return [buffer.download() for buffer in buffers]

        fields = [layout.field(buffer) for layout, buffer in zip(layouts, buffers)]
        if plan.steps > 1:
            failures += check_single_step(library, kernel, plan, layouts, buffers, fields, reset)
        for steps in (0, 1, 2, 5) if plan.steps == 1 else (0, plan.steps, 2 * plan.steps + 1):
            reset()
            sweeps, single = divmod(steps, plan.steps)
            for sweep in range(sweeps):
                library.sweep(kernel, fields[sweep % 2], fields[(sweep + 1) % 2])
            if single:
                one = [byref(fields[(sweeps + place) % 2]) for place in range(2)]
                library.require("spider_iterate of one step", library.iterate(kernel, *one, 1, None, None))
                library.require("spider_synchronize", library.synchronize(None))
            wanted = both()
            reset()
            result = c_void_p()
            stream = api.PER_THREAD_STREAM
            status = library.iterate(kernel, byref(fields[0]), byref(fields[1]), steps, stream, byref(result))
            library.require("spider_iterate", status)
            library.require("spider_synchronize", library.synchronize(stream))
            last = (sweeps + single) % 2
            if result.value != ctypes.addressof(fields[last]):
                failures.append(f"{steps} steps: result is not the {'ab'[last]} that was passed")
            for which, (told, expected) in enumerate(zip(both(), wanted)):
                off = numpy.nonzero(told != expected)[0]
                if len(off):
                    failures.append(
                        f"{steps} steps: {len(off)} cells of {'ab'[which]} differ from repeated spider_apply, "
                        f"first element {off[0]}"
                    )
        status = library.iterate(kernel, byref(fields[0]), byref(fields[1]), 1, None, None)
        library.require("spider_iterate with no result pointer", status)
        library.require("spider_synchronize", library.synchronize(None))
    return failures


def check_single_step(library, kernel, plan, layouts, buffers, fields, reset):
    """One step of a kernel that advances several in a sweep, within the bound of one."""
    reset()
    library.require("spider_iterate", library.iterate(kernel, byref(fields[0]), byref(fields[1]), 1, None, None))
    library.require("spider_synchronize", library.synchronize(None))
    one = dataclasses.replace(plan, steps=1, stated_bound=())
    if plan.composition:
        one = dataclasses.replace(one, engine="cuda", composition=())
    cells = buffers[0].download()
    result = plan.storage.decode(buffers[1].download()[layouts[1].interior()])

    def read(z, y, x):
        return plan.storage.decode(cells[numpy.clip(layouts[0].positions(z, y, x), 0, len(cells) - 1)])

    total, magnitude = reference.sweep_field(one, layouts[0].extent, read)
    verdict = Verdict([])
    check_bound(one, result, total, magnitude, 1.0, verdict)
    return [f"one step: {failure}" for failure in verdict.failures]


def check_forms(library, kernel, plan, rng):
    """All forms of a kernel give the same bits."""
    forms = library.forms(kernel)[1:]
    extent = {1: (1, 1, 1500), 2: (1, 33, 650), 3: (5, 9, 150)}[plan.dimensions]
    stride, offset = (("aligned", 0), ("odd", 3))[rng.integers(2)]
    if plan.tile:  # of which there must be one with nothing but field around it
        extent, stride, offset = plan.inner_tile_extent, "aligned", 0
    case = Case(extent, "random", stride, "aligned", offset, 0)
    results = [run_case(library, form, plan, case, copy.deepcopy(rng)).output_after for form in forms]
    return [
        f"form {number} gives other bits than form 0 ({case})"
        for number, result in enumerate(results)
        if not numpy.array_equal(result, results[0])
    ]


def check_ignored_stride(library, kernel, plan, rng):
    """A stride is ignored where its extent is 1 and no halo is read along that axis."""
    case = Case((1, 1, 50))
    planes, rows, _ = input_around(plan, case.extent)
    if any(planes) or any(rows):
        return []
    layout, cells, _ = prepare_input(plan, case, rng)
    results = []
    cell = plan.storage.cell
    with Buffer(library, layout.cells, cell) as source, Buffer(library, 64, cell) as target:
        source.upload(cells)
        for stride in (layout.strides[1], 0, -5, 2**62):
            target.upload(numpy.zeros(64, cell))
            field = make_field(source.address + plan.storage.bytes * layout.base, (1, 1, 50), (stride, stride))
            library.sweep(kernel, field, make_field(target.address, (1, 1, 50), (stride, stride if stride < 1 else 50)))
            results.append(target.download())
    if any(not numpy.array_equal(result, results[0]) for result in results):
        return ["one row: the result depends on a stride that is to be ignored"]
    return []


DIFFUSION_STEPS = 1000
DIFFUSION_LIMIT = 5e-5


def check_diffusion(library, kernel, plan, rng):
    """Many steps of diffusion in f32 against the same steps in double, with the spec's own weights; beside them NumPy's
    in f32, which rounds each product and each sum. Returns (failures, report)."""
    extent = 1, 180, 260
    _, rows, columns = numpy.indices(extent)
    smooth = 100 * numpy.sin(rows / 20) * numpy.cos(columns / 31)
    start = (300 + smooth + rng.uniform(-5, 5, extent)).astype(numpy.float32)
    with Buffer(library, start.size, plan.storage.cell) as first, Buffer(library, start.size, plan.storage.cell) as second:
        first.upload(plan.storage.encode(start.astype(float)).ravel())
        fields = [make_field(buffer.address, extent, (0, extent[2])) for buffer in (first, second)]
        status = library.iterate(kernel, byref(fields[0]), byref(fields[1]), DIFFUSION_STEPS, None, None)
        library.require("spider_iterate", status)
        library.require("spider_synchronize", library.synchronize(None))
        told = plan.storage.decode((first, second)[DIFFUSION_STEPS % 2].download()).reshape(extent)

    def stepped(field):
        weight = field.dtype.type
        for _ in range(DIFFUSION_STEPS):
            extended = reference.extended_field(plan, extent, lambda z, y, x, cells=field: cells[z, y, x])
            extended = extended.astype(field.dtype)
            result = numpy.zeros_like(field)
            for tap in plan.taps:
                start_of = [plan.reach[axis][0] + tap.at[axis] for axis in range(3)]
                part = tuple(slice(first, first + count) for first, count in zip(start_of, extent))
                result += weight(tap.weight) * extended[part]
            field = result
        return field

    exact = stepped(start.astype(float))
    error, simple = (float(numpy.linalg.norm(one - exact) / numpy.linalg.norm(exact)) for one in (told, stepped(start)))
    report = (
        f"{plan.name}, {plan.engine}: relative L2 error {error:.3g} after {DIFFUSION_STEPS} steps (limit {DIFFUSION_LIMIT}); "
        f"NumPy in f32 {simple:.3g}"
    )
    failures = [] if error <= DIFFUSION_LIMIT else [f"diffusion: relative L2 error {error:.3g} > {DIFFUSION_LIMIT}"]
    return failures, report


def conserves(plan):
    """Does what a step leaves sum up to what it found? With weights that sum to 1 on periodic axes, and on axes where they
    are even and faces give back what would leave."""
    weights = {tap.at: tap.weight for tap in plan.taps}
    if abs(sum(weights.values()) - 1) > 1e-12:
        return False
    for axis in range(3 - plan.dimensions, 3):
        rules = {face.rule for face in plan.faces[axis]}
        if rules == {"periodic"}:
            continue
        reach = max(plan.step_reach[axis])
        gives_back = rules <= ({"reflect", "nearest"} if reach <= 1 else {"reflect"})
        turned = ((tuple(-d if a == axis else d for a, d in enumerate(at)), weight) for at, weight in weights.items())
        if not gives_back or any(weights.get(at) != weight for at, weight in turned):
            return False
    return True


CONSERVED_EXTENTS = {1: (1, 1, 9001), 2: (1, 97, 131), 3: (19, 26, 37)}


def check_conservation(library, kernel, plan, rng):
    """The sum of a field after all steps of a sweep of f32. Composed weights sum to the spec's within 2^-23; roundings, one
    for each tap of each step and cell, each at most 2^-24 of a cell, add up like a random walk: eight standard deviations."""
    extent = CONSERVED_EXTENTS[plan.dimensions]
    start = (1000 + 500 * rng.random(extent)).astype(numpy.float32)
    strides = (extent[1] * extent[2], extent[2])
    with Buffer(library, start.size, plan.storage.cell) as source, Buffer(library, start.size, plan.storage.cell) as target:
        source.upload(plan.storage.encode(start.astype(float)).ravel())
        library.sweep(kernel, make_field(source.address, extent, strides), make_field(target.address, extent, strides))
        told = plan.storage.decode(target.download())
    drift = abs(told.sum() / start.astype(float).sum() - 1)
    magnitude = sum(abs(tap.weight) for tap in plan.taps)
    allowed = 2.0**-23 + 8 * magnitude * 2.0**-24 * math.sqrt(plan.steps * len(plan.taps) / start.size)
    return [] if drift <= allowed else [f"{plan.steps} steps: the sum drifts by {drift:.3g} of itself > {allowed:.3g}"]


def check_smooth_laplacian(library, kernel, plan, rng):
    """The 8th-order Laplacian of 1 + 0.5 sin(2 pi x / 64); returns (failures, report).

    Against the spec's own weights on the same f16 input the kernel may only add its own error. Against the double result
    on the unrounded field f16 storage adds two: each input is off by at most half a step of f16 (2^-12 in [1/2, 1), 2^-11
    in [1, 2)), hence sum |w| * half step at worst; as independent uniform errors they have a root mean square of
    sqrt(sum W(dx)^2 step^2 / 12), where W(dx) is the sum of the weights over dy, since the field, and so its rounding
    error, is the same in all rows. The result's own rounding is 2^-11 |result|, root mean square 2^-11 / sqrt(3)."""
    extent = 1, 24, 512
    columns = extent[2]
    case = Case(extent, input_stride="aligned", output_stride="aligned")
    layout, cells, valid = prepare_input(plan, case, rng)
    column = reference.valid_cells(plan, extent).indices()[2]
    cells[valid] = plan.storage.encode(1 + 0.5 * numpy.sin(2 * numpy.pi * column / 64))
    cell = plan.storage.cell
    with Buffer(library, layout.cells, cell) as source, Buffer(library, extent[1] * columns, cell) as target:
        source.upload(cells)
        library.sweep(kernel, layout.field(source), make_field(target.address, extent, (0, columns)))
        result = plan.storage.decode(target.download()).reshape(extent)

    _, (down, up), (left, right) = plan.reach
    along = numpy.arange(-left, columns + right)
    smooth = numpy.broadcast_to(1 + 0.5 * numpy.sin(2 * numpy.pi * along / 64), (1, extent[1] + down + up, len(along)))
    rounded = plan.storage.decode(plan.storage.encode(smooth))
    inner = (slice(None), slice(None), slice(left, columns - right))  # what no x face reaches; in y the field is constant
    result = result[inner]

    def swept(field):
        total, magnitude = reference.apply_taps(plan, field, extent, exact_weights=True)
        return total[inner], magnitude[inner]

    def relative(error, of):
        return float(numpy.linalg.norm(error) / numpy.linalg.norm(of))

    same, magnitude = swept(rounded)
    true, _ = swept(smooth)
    largest = max(abs(tap.weight) for tap in plan.taps)
    packing = 2.0**-21 * largest * len(plan.taps) * 1.5
    bound_same = reference.error_bound(plan, same, magnitude, 1.5) + packing
    half_step = numpy.where(smooth < 1, 2.0**-12, 2.0**-11)
    worst_input = reference.apply_taps(plan, half_step, extent, exact_weights=True)[1][inner]
    by_column = {}
    for tap in plan.taps:
        by_column[tap.at[2]] = by_column.get(tap.at[2], 0.0) + tap.weight
    spread = numpy.zeros(extent)
    for dx, weight in by_column.items():
        step = 2 * half_step[:, down : down + extent[1], left + dx : left + dx + columns]
        spread += (weight * step) ** 2 / 12
    typical = numpy.sqrt(spread[inner] + (2.0**-11 * true) ** 2 / 3)

    error_same, error_true = relative(result - same, true), relative(result - true, true)
    # Each chained MMA truncates once at a partial sum of at most sum |w x|: the pointwise bound allows 18 of them.
    limit_same = 2.0**-11 + (2 * plan.chained_mmas * 2.0**-23 * numpy.linalg.norm(magnitude) / numpy.linalg.norm(true))
    limit_true, typical_true = 2 * relative(typical, true), relative(typical, true)
    worst_true = relative(bound_same + worst_input, true)
    failures = []
    if (numpy.abs(result - same) > bound_same).any():
        failures.append("smooth field: beyond the pointwise bound against the spec's weights on the same input")
    if not error_same <= limit_same:
        failures.append(f"smooth field: relative L2 {error_same:.3g} on the same input, limit {limit_same:.3g}")
    if (numpy.abs(result - true) > bound_same + worst_input).any():
        failures.append("smooth field: beyond what rounding of the input explains")
    if not error_true <= limit_true:
        failures.append(f"smooth field: relative L2 {error_true:.3g} on the unrounded field, limit {limit_true:.3g}")
    report = (
        f"{plan.name} on 1 + 0.5 sin(2 pi x / 64): relative L2 error {error_same:.3g} on the same f16 input "
        f"(limit {limit_same:.3g}); {error_true:.3g} against the unrounded field, where f16 storage explains "
        f"{typical_true:.3g} as independent rounding errors (limit: twice that) and {worst_true:.3g} at worst"
    )
    return failures, report
