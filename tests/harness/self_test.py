"""Proves that the checks can fail: breaks results, plans and the library on purpose."""

import dataclasses
import itertools

import numpy

import box_checks
import memory_checks
import part_checks
import reference
import sweep_case
from case_lists import make_rng
from spider_library import CallFailed, make_field
from sweep_case import Case


class BrokenLibrary:
    """A library whose sweeps do one thing wrong; `change(sweep, source, target, box)` carries one out by calling
    `sweep(source, target, box)`; the box of a whole sweep is None."""

    def __init__(self, library, change):
        self.library, self.change = library, change

    def __getattr__(self, name):
        return getattr(self.library, name)

    def sweep(self, kernel, source, target):
        self.sweep_box(kernel, source, target, None)

    def sweep_box(self, kernel, source, target, box):
        def truly(source, target, box):
            if box is None:
                self.library.sweep(kernel, source, target)
            else:
                self.library.sweep_box(kernel, source, target, box)

        self.change(truly, source, target, box)

    def sweep_part(self, kernel, source, target, box, origin, whole):
        def truly(source, target, box):
            self.library.sweep_part(kernel, source, target, box, origin, whole)

        self.change(truly, source, target, box)


def change_cell(library, storage, field, offset, value=None):
    """Flips the least bit of the cell so many cells behind the field's first, or sets it."""
    cell = numpy.empty(1, storage.cell)
    address, size = field.data + offset * storage.bytes, storage.bytes
    library.require("spider_download", library.download(cell.ctypes.data, size, address, size, size, 1))
    before = cell.copy()
    cell[:] = before ^ 1 if value is None else value
    library.require("spider_upload", library.upload(address, size, cell.ctypes.data, size, size, 1))
    return before


def broken_libraries(library, plan):
    """(what is wrong, the check that must notice, library)."""
    storage = plan.storage

    def offset(field, cell):
        return sum(at * step for at, step in zip(cell, (*field.stride, 1)) if at)

    def wrong_bit(sweep, source, target, box):
        sweep(source, target, box)
        if box:
            change_cell(library, storage, target, offset(target, box.offset))

    def beside(sweep, source, target, box):
        sweep(source, target, box)
        if box:
            change_cell(library, storage, target, offset(target, box.offset) + box.extent[2], 0)

    def larger(sweep, source, target, box):
        if box:
            low = tuple(max(0, at - 1) for at in box.offset)
            box = reference.Box(low, tuple(at + n - first for at, n, first in zip(box.offset, box.extent, low)))
        sweep(source, target, box)

    def cells_beyond(field, box):
        """Cells of the interior next to those that taps reach from the box, along each axis from its first point."""
        for axis, (low, high) in enumerate(plan.reach):
            for at in (box.offset[axis] - low - 1, box.offset[axis] + box.extent[axis] + high):
                if 0 <= at < field.extent[axis]:
                    yield (*box.offset[:axis], at, *box.offset[axis + 1:])

    def reads_beyond(sweep, source, target, box):
        # What a cell beyond the box's reach holds is added to the box's first cell.
        sweep(source, target, box)
        for cell in itertools.islice(cells_beyond(source, box) if box else (), 1):
            held = change_cell(library, storage, source, offset(source, cell))
            change_cell(library, storage, source, offset(source, cell), held)
            if not (numpy.abs(storage.decode(held)) < 1000).all():  # a guard: NaN, or the largest number there is
                change_cell(library, storage, target, offset(target, box.offset))

    def nearer(sweep, source, target, box):
        far = max(source.stride) > 2**24

        def halved(field):
            return make_field(field.data, field.extent, [step >> far for step in field.stride])

        sweep(halved(source), halved(target), box)

    def slips(sweep, source, target, box):
        if box and max(box.offset) > 2**30:
            box = reference.Box(tuple(at - (at > 2**30) for at in box.offset), box.extent)
        sweep(source, target, box)

    def loses_nan(sweep, source, target, box):
        sweep(source, target, box)
        # All over the field, for what is near a NaN may be anything.
        for cell in itertools.product(*(range(0, count, step) for count, step in zip(target.extent, (2, 2, 8)))):
            change_cell(library, storage, target, offset(target, cell), 0)

    yield "a wrong bit in a box", box_checks.check_boxes, BrokenLibrary(library, wrong_bit)
    yield "a write beside a box", box_checks.check_boxes, BrokenLibrary(library, beside)
    yield "a larger box", box_checks.check_boxes, BrokenLibrary(library, larger)
    # Boxes need not begin further from the field's face than taps reach far.
    if plan.reach[2][0] < 32:
        yield "a read beyond a box's reach", box_checks.check_boxes, BrokenLibrary(library, reads_beyond)
    yield "a wrong bit in a part", part_checks.check_parts, BrokenLibrary(library, wrong_bit)
    yield "columns of zeros", memory_checks.check_not_finite, BrokenLibrary(library, loses_nan)
    if plan.dimensions > 1:
        yield "half the strides", memory_checks.check_far_strides, BrokenLibrary(library, nearer)
    if plan.dimensions > 1 and library.on_host(library.kernel(plan.name)):
        yield "a box far away in the wrong place", memory_checks.check_long_axis, BrokenLibrary(library, slips)


def failures_of(check, library, kernel, plan, seed):
    """What a check finds; a refused call is a find, too, and what this machine cannot do cannot fail."""
    try:
        return check(library, kernel, plan, make_rng(seed, plan.name, "self-test", check.__name__))
    except (CallFailed, memory_checks.NotPossible) as error:
        return [str(error)]


def run(library, plans, names, seed):
    """Breaks correct results, true plans and the library on purpose; every break must be reported. Returns failures."""
    failures = []
    tried = 0

    def must_fail(what, found):
        nonlocal tried
        tried += 1
        if not found:
            failures.append(f"self-test: {what} went unnoticed")

    for name in names:
        plan = reference.load_plan(plans / f"{name}.json")
        # More than taps reach, so that along no axis all that one reads lies beyond a face and hides the others' rules.
        least = {1: (1, 1, 377), 2: (1, 13, 77), 3: (4, 6, 77)}[plan.dimensions]
        extent = tuple(count + low + high for count, (low, high) in zip(least, plan.reach))
        case = Case(extent, "random", "odd", "odd", 1, 3)
        rng = make_rng(seed, name, "self-test")
        sweep = sweep_case.run_case(library, library.kernel(name), plan, case, rng)
        if found := sweep_case.check_sweep(sweep).failures:
            failures += [f"self-test: {name} is wrong before it is broken: {failure}" for failure in found]
            continue

        def changed(which, position, value, sweep=sweep):
            cells = getattr(sweep, which).copy()
            cells[position] = value
            return sweep_case.check_sweep(dataclasses.replace(sweep, **{which: cells})).failures

        layout, inner = sweep.output_layout, sweep.output_layout.interior()
        storage, last = plan.storage, tuple(count - 1 for count in case.extent)
        middle = inner[last[0] // 2, last[1] // 2, last[2] // 2]
        value = sweep.output_after[middle]
        largest = inner.ravel()[numpy.argmax(numpy.abs(storage.decode(sweep.output_after[inner])))]
        bits = sweep.output_after[largest]
        digit = {"f16": 1 << 6, "bf16": 1 << 3, "f32": 1 << 19, "f64": 1 << 48}[storage.name]  # a sixteenth of a power of two
        coarse = bits ^ storage.cell(digit)
        must_fail(f"{name}: a cell never written", changed("output_after", inner[last], storage.poison))
        must_fail(f"{name}: a NaN result", changed("output_after", inner[0, 0, 0], storage.quiet_nan))
        must_fail(f"{name}: a wrong sign", changed("output_after", largest, bits ^ storage.cell(storage.sign_bit)))
        must_fail(f"{name}: a result some percent off", changed("output_after", largest, coarse))
        must_fail(f"{name}: a write behind the field", changed("output_after", inner[last] + 1, value))
        must_fail(f"{name}: a write before the field", changed("output_after", inner[0, 0, 0] - 1, value))
        must_fail(f"{name}: one byte far away", changed("output_after", layout.cells - 1, storage.poison ^ 0x100))
        must_fail(f"{name}: a written input", changed("input_after", 0, sweep.input_before[0] ^ storage.cell(1)))
        for what, wrong in wrong_plans(plan):
            must_fail(f"{name}: {what}", sweep_case.check_sweep(dataclasses.replace(sweep, plan=wrong), False).failures)
        for what, check, broken in broken_libraries(library, plan):
            must_fail(f"{name}: {what}", failures_of(check, broken, library.kernel(name), plan, seed))
    print(f"self-test: {tried} breaks of {len(names)} kernels, {tried - len(failures)} of them noticed")
    return failures


def wrong_plans(plan):
    """(what is wrong, plan): stencils that a broken generator could have built instead."""
    taps = list(plan.taps)
    heaviest = max(range(len(taps)), key=lambda index: abs(taps[index].packed))
    heavy = taps[heaviest]

    def with_taps(changed):
        return dataclasses.replace(plan, taps=tuple(changed))

    rest = taps[:heaviest] + taps[heaviest + 1 :]
    # Among a thousand taps 2 % of one is less than the limit of the relative L2, and less than the bound, which grows with
    # the sum of all weights: it is what tensor cores may do, cutting one sum after the other. Four times the bound shows.
    norm = numpy.sqrt(sum(tap.packed**2 for tap in taps))
    # The relative L2 does not count where results cancel, as the sums of very many weights of both signs do.
    total = sum(abs(tap.packed) for tap in taps)
    counts = norm > 2 * sweep_case.CANCELLATION * total
    in_l2 = counts and 0.02 * abs(heavy.packed) / norm > 2 * sweep_case.RELATIVE_L2_LIMITS[plan.storage.name]
    hidden = plan.stated_bound[1] * total / abs(heavy.packed) if plan.stated_bound else 0
    part = 0.02 if in_l2 else max(0.02, 4 * hidden)
    yield f"a weight {100 * part:.0f} % off", with_taps(
        [*rest, dataclasses.replace(heavy, packed=heavy.packed * (1 + part))]
    )
    # Of a single tap its opposite stays, so that there is a reach.
    yield "a lost tap", with_taps(rest or [dataclasses.replace(heavy, packed=-heavy.packed)])
    packed = {tap.at: tap.packed for tap in taps}
    mirrored = [dataclasses.replace(tap, at=(*tap.at[:2], -tap.at[2])) for tap in taps]
    # Weights that differ by their rounding alone would look the same.
    least = 1e-3 * abs(heavy.packed)
    differs = any(abs(packed.get(tap.at, 0.0) - tap.packed) > least for tap in mirrored)
    if differs and {tap.at for tap in mirrored} == packed.keys():
        yield "taps mirrored in x", with_taps(mirrored)
    # Another rule needs other cells; those of all faces but halo ones are in the interior.
    for axis in range(3 - plan.dimensions, 3):
        for side in range(2):
            face = plan.faces[axis][side]
            if reference.HALO in (face.rule, plan.faces[axis][1 - side].rule) or not plan.reach[axis][side]:
                continue
            if face.rule == reference.CONSTANT:
                other = dataclasses.replace(face, value=face.value + 1)
            else:
                other = reference.Face(reference.CONSTANT, 3.0)
            faces = [list(pair) for pair in plan.faces]
            faces[axis][side] = other
            # A face is not seen where its cells lie beyond a constant face of a faster axis, too; and among many taps a
            # boundary weighs too little to be sure to show.
            reached = any(
                tap.at[axis] * (1, -1)[side] < 0 and abs(tap.packed) > 0.05 * abs(heavy.packed) for tap in taps
            )
            if reached and len(taps) < 30:
                yield f"{reference.AXES[axis]} {reference.SIDES[side]} as {other}", dataclasses.replace(
                    plan, faces=tuple(tuple(pair) for pair in faces)
                )
