"""spider_apply_box: in a box the same bits as a sweep of the whole field gives there, nothing written beside the box,
and nothing read beyond the box and its reach."""

import numpy

import reference
import spider_library as api
from reference import Box
from spider_library import Buffer, CallFailed
from sweep_case import Case, make_guard, prepare_input, prepare_output

EXTENTS = {1: (1, 1, 701), 2: (1, 23, 419), 3: (5, 11, 203)}


def draw_box(extent, rng, form):
    """A box of the interior: anywhere, at one face or in a corner, thin, of one cell, or the whole."""
    if form == "whole":
        return Box((0, 0, 0), extent)
    offset, size = [], []
    for count in extent:
        low, high = sorted(int(end) for end in rng.integers(0, count + 1, 2))
        if form == "cell" or (form == "thin" and rng.random() < 0.5) or low == high:
            low = int(rng.integers(0, count))
            high = low + 1
        if form == "face" and rng.random() < 0.7:
            low, high = (0, high) if rng.random() < 0.5 else (min(low, count - 1), count)
        offset.append(low)
        size.append(high - low)
    return Box(tuple(offset), tuple(size))


FORMS = ("whole", "inside", "face", "face", "cell", "thin", "inside", "face")


class BoxChecks:
    """A field, what a whole sweep makes of it, and boxes of it."""

    def __init__(self, library, kernel, plan, case, rng):
        self.library, self.kernel, self.plan, self.rng = library, kernel, plan, rng
        self.case = case
        self.source_layout, self.content, _ = prepare_input(plan, case, rng)
        self.target_layout, self.poisoned = prepare_output(plan, case, rng)
        self.failures = []
        self.forms = library.forms(kernel)

    def run(self, forms):
        cell = self.plan.storage.cell
        with Buffer(self.library, len(self.content), cell) as source:
            with Buffer(self.library, len(self.poisoned), cell) as target:
                self.buffers = source, target
                self.fields = self.source_layout.field(source), self.target_layout.field(target)
                source.upload(self.content)
                target.upload(self.poisoned)
                self.library.sweep(self.kernel, *self.fields)
                self.whole = target.download()
                for form in forms:
                    self.check(draw_box(self.case.extent, self.rng, form))
                self.check_refusals()
        return self.failures

    def fail(self, box, what):
        where = ", ".join(
            f"{axis} {low}..{low + count - 1}" for axis, low, count in zip(reference.AXES, box.offset, box.extent)
        )
        self.failures.append(f"box {where} of ({self.case}): {what}")

    def swept(self, box, content):
        """What a sweep of the box makes of the poisoned output."""
        self.buffers[0].upload(content)
        self.buffers[1].upload(self.poisoned)
        form = self.forms[self.rng.integers(len(self.forms))]
        self.library.sweep_box(form, *self.fields, box)
        return self.buffers[1].download()

    def check(self, box):
        inside = numpy.zeros(len(self.poisoned), bool)
        ranges = [numpy.arange(low, low + count) for low, count in zip(box.offset, box.extent)]
        inside[self.target_layout.positions(*numpy.ix_(*ranges))] = True
        wanted = numpy.where(inside, self.whole, self.poisoned)
        valid = reference.valid_cells(self.plan, self.case.extent, box)
        positions = self.source_layout.positions(*valid.indices())
        bare = make_guard(self.plan.storage, len(self.content), self.rng)
        bare[positions] = self.content[positions]
        # What is right with the bare input is right with the whole one, which tells apart what went wrong.
        if failure := self.difference(box, bare, wanted, inside):
            both = self.difference(box, self.content, wanted, inside) is not None
            self.fail(box, failure + ("" if both else "; only with NaN beyond its reach"))

    def difference(self, box, content, wanted, inside):
        """What is wrong with a sweep of the box; None if nothing."""
        try:
            got = self.swept(box, content)
        except CallFailed as error:
            return str(error)
        if len(off := numpy.nonzero(got != wanted)[0]):
            place = "inside it" if inside[off[0]] else "outside it"
            return f"{len(off)} cells differ from the whole sweep, first {place}: {self.target_layout.describe(off[0])}"
        return None if numpy.array_equal(self.buffers[0].download(), content) else "input changed"

    def check_refusals(self):
        """Boxes that are empty or not inside the interior are refused and touch nothing."""
        extent = self.case.extent
        for axis in range(3 - self.plan.dimensions, 3):
            for low, count in ((-1, 1), (0, extent[axis] + 1), (extent[axis], 1), (0, -1), (0, 0), (2**62, 2**62)):
                offset, size = [0, 0, 0], list(extent)
                offset[axis], size[axis] = low, count
                box = Box(tuple(offset), tuple(size))
                try:
                    got = self.swept(box, self.content)
                except CallFailed as error:
                    if error.status == api.EXTENT:
                        continue
                    self.fail(box, f"refused with {error}, not as an extent out of range")
                    continue
                changed = "" if numpy.array_equal(got, self.poisoned) else ", and memory changed"
                self.fail(box, f"not refused{changed}")


def check_boxes(library, kernel, plan, rng, thorough=False):
    """Failures of random boxes of two fields, one of them with misaligned rows."""
    extent = EXTENTS[plan.dimensions]
    small = tuple(min(count, int(rng.integers(1, 12))) for count in extent)
    cases = [Case(extent, "random", "aligned", "aligned"), Case(extent, "random", "odd", "odd", 3, 1), Case(small)]
    failures = []
    count = 2 if plan.dimensions == 3 or plan.steps > 8 else 4  # these take long where lanes are emulated
    for case in cases:
        forms = FORMS * 2 if thorough else rng.choice(FORMS, count, replace=False)
        failures += BoxChecks(library, kernel, plan, case, rng).run(forms)
    return failures
