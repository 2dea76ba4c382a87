"""spider_run with a part: fields that hold a part of a larger whole, and around it what neighbours would have sent, give
the bits of a sweep of the whole; nothing else is read or written."""

import numpy

import reference
import spider_library as api
from box_checks import EXTENTS, draw_box
from reference import Box
from spider_library import Buffer, CallFailed
from sweep_case import Case, make_guard, make_layout, prepare_input, prepare_output

FORMS = ("inside", "face", "cell", "thin", "whole", "slab")


def draw_part(extent, reach, rng, form):
    """A part of the whole. A slab begins and ends where vectors do, and is whole along other axes."""
    if form != "slab":
        return draw_box(extent, rng, form)
    axis = int(rng.choice([axis for axis in range(3) if extent[axis] > 1] or [2]))
    unit = 16 if axis == 2 else 1
    low = int(rng.integers(0, max(1, extent[axis] // (2 * unit)))) * unit
    high = min(extent[axis], low + unit * int(rng.integers(1, 8)))
    offset, size = [0, 0, 0], list(extent)
    offset[axis], size[axis] = low, high - low
    return Box(tuple(offset), tuple(size))


class PartChecks:
    """A whole, what a sweep makes of it, and parts of it."""

    def __init__(self, library, kernel, plan, case, rng):
        self.library, self.kernel, self.plan, self.case, self.rng = library, kernel, plan, case, rng
        self.layout, self.content, _ = prepare_input(plan, case, rng)
        self.failures = []

    def run(self, forms):
        """The failures of parts of these forms."""
        cell = self.plan.storage.cell
        target_layout, poisoned = prepare_output(self.plan, self.case, self.rng)
        with Buffer(self.library, len(self.content), cell) as source, Buffer(self.library, len(poisoned), cell) as target:
            source.upload(self.content)
            target.upload(poisoned)
            self.library.sweep(self.kernel, self.layout.field(source), target_layout.field(target))
            self.whole = target.download()[target_layout.interior()]
        for form in forms:
            part = draw_part(self.case.extent, self.plan.reach, self.rng, form)
            try:
                self.check(part)
            except CallFailed as error:
                self.fail(part, str(error))
        return self.failures

    def fail(self, part, what):
        place = ", ".join(
            f"{axis} {low}..{low + count - 1}" for axis, low, count in zip(reference.AXES, part.offset, part.extent)
        )
        self.failures.append(f"part {place} of ({self.case}): {what}")

    def known_along(self, axis, part):
        """(indices into the part, indices into the whole) of the cells that a caller has along an axis."""
        low, high = self.plan.reach[axis]
        far = max(low, high)  # a face that turns indices round changes sides
        own = numpy.arange(-far, part.extent[axis] + far)
        of_whole = own + part.offset[axis]
        count = self.case.extent[axis]
        faces = self.plan.faces[axis]
        if faces[0].rule == reference.PERIODIC and part.extent[axis] != count:
            return own, of_whole % count
        known = (of_whole >= 0) & (of_whole < count)
        around = self.around[axis]
        if faces[0].rule == reference.HALO:
            known |= (of_whole < 0) & (of_whole >= -around[0])
        if faces[1].rule == reference.HALO:
            known |= (of_whole >= count) & (of_whole < count + around[1])
        return own[known], of_whole[known]

    def check(self, part):
        """One part, and a box of it."""
        case, plan = self.case, self.plan
        vector = 16 // plan.storage.bytes
        self.around = tuple((max(pair), max(pair)) for pair in plan.reach)
        known = [self.known_along(axis, part) for axis in range(3)]
        layout = make_layout(part.extent, case.input_stride, case.input_offset, self.around, self.rng, vector)
        content = make_guard(plan.storage, layout.cells, self.rng)
        theirs = numpy.ix_(*(of_whole for _, of_whole in known))
        positions = numpy.clip(self.layout.positions(*theirs), 0, self.layout.cells - 1)
        content[layout.positions(*numpy.ix_(*(own for own, _ in known)))] = self.content[positions]
        out_layout = make_layout(part.extent, case.output_stride, case.output_offset, ((0, 0),) * 3, self.rng, vector)
        poisoned = numpy.full(out_layout.cells, plan.storage.poison, plan.storage.cell)
        box = draw_box(part.extent, self.rng, "whole" if self.rng.random() < 0.5 else "inside")
        wanted = poisoned.copy()
        ranges = [numpy.arange(low, low + count) for low, count in zip(box.offset, box.extent)]
        in_whole = numpy.ix_(*(rows + low for rows, low in zip(ranges, part.offset)))
        wanted[out_layout.positions(*numpy.ix_(*ranges))] = self.whole[in_whole]
        forms = self.library.forms(self.kernel)
        with Buffer(self.library, layout.cells, plan.storage.cell) as source:
            with Buffer(self.library, out_layout.cells, plan.storage.cell) as target:
                source.upload(content)
                target.upload(poisoned)
                self.library.sweep_part(
                    forms[self.rng.integers(len(forms))], layout.field(source), out_layout.field(target), box,
                    part.offset, case.extent,
                )
                got = target.download()
                if not numpy.array_equal(source.download(), content):
                    self.fail(part, "input changed")
        if len(off := numpy.nonzero(got != wanted)[0]):
            self.fail(part, f"{len(off)} cells differ from the whole's, first {out_layout.describe(off[0])}")

    def check_refusals(self):
        """Parts that do not lie in the whole are refused."""
        layout, content, _ = prepare_input(self.plan, self.case, self.rng)
        out_layout, poisoned = prepare_output(self.plan, self.case, self.rng)
        cell = self.plan.storage.cell
        with Buffer(self.library, len(content), cell) as source, Buffer(self.library, len(poisoned), cell) as target:
            target.upload(poisoned)
            for axis in range(3 - self.plan.dimensions, 3):
                for origin, extra in ((-1, 1), (1, 0), (2, 1), (0, -1), (2**62, 2**62)):
                    origins, whole = [0, 0, 0], list(self.case.extent)
                    origins[axis] = origin
                    whole[axis] += extra
                    part = Box(tuple(origins), self.case.extent)
                    try:
                        self.library.sweep_part(self.kernel, layout.field(source), out_layout.field(target),
                                                Box((0, 0, 0), self.case.extent), origins, whole)
                        self.fail(part, f"not refused in a whole of {whole}")
                    except CallFailed as error:
                        if error.status != api.EXTENT:
                            self.fail(part, f"refused with {error}, not as an extent out of range")
            if not numpy.array_equal(target.download(), poisoned):
                self.failures.append("refused parts changed memory")
        return self.failures


def check_parts(library, kernel, plan, rng):
    """Failures of random parts of three wholes, one of them with misaligned rows, one smaller than many reaches."""
    extent = EXTENTS[plan.dimensions]
    small = tuple(min(count, int(rng.integers(1, 12))) for count in extent)
    cases = [Case(extent, "random", "aligned", "aligned"), Case(extent, "random", "odd", "odd", 3, 1), Case(small)]
    failures = []
    count = 2 if plan.dimensions == 3 else 3
    for case in cases:
        checks = PartChecks(library, kernel, plan, case, rng)
        failures += checks.run(rng.choice(FORMS, count, replace=False))
    return failures + PartChecks(library, kernel, plan, cases[-1], rng).check_refusals()
