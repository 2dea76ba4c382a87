"""Which cases each kernel is checked with."""

import random

import numpy

from sweep_case import Case

DEFAULT_SEED = 20250117
EDGE_EXTENTS = (1, 7, 127, 128, 129, 255, 256, 257, 300)


def make_rng(seed, *labels):
    """A generator that depends on the seed and the labels only."""
    return numpy.random.default_rng(list("/".join(map(str, (seed, *labels))).encode()))


MOST_CELLS = {1: 4800, 2: 8000, 3: 4000}  # of small fields: emulated lanes are slow


def small_extents(choose, dimensions):
    """Extents 1 .. 300, along z at most 40, with at most so many cells."""
    most_cells = MOST_CELLS[dimensions]
    columns = choose.choice(EDGE_EXTENTS) if choose.random() < 0.6 else choose.randint(1, 300)
    if dimensions == 1:
        return 1, 1, columns * choose.choice((1, 1, 3, 16))
    most_rows = max(1, min(300, most_cells // columns))
    rows = choose.choice(EDGE_EXTENTS) if choose.random() < 0.3 else choose.randint(1, choose.choice((40, 300)))
    if dimensions == 2:
        return 1, min(rows, most_rows), columns
    rows = min(rows, most_rows, choose.choice((1, 4, 17, 40)))
    planes = choose.choice((1, 2, 3, choose.randint(1, 40)))
    return max(1, min(planes, most_cells // (rows * columns))), rows, columns


def tiny_extents(choose, dimensions):
    """Extents at which every point is at several faces, mostly smaller than the reach."""
    far = choose.randint(2, 300)
    if dimensions == 1:
        return [(1, 1, 1), (1, 1, 2), (1, 1, 7), (1, 1, far), (1, 1, 3), (1, 1, 16)]
    if dimensions == 2:
        return [(1, 1, 1), (1, 1, 7), (1, 7, 1), (1, 1, far), (1, far, 1), (1, 2, 3)]
    return [(1, 1, 1), (1, 1, far), (2, 3, 5), (1, far, 1), (choose.randint(2, 30), 1, 1), (3, 2, 17)]


def random_case(choose, dimensions, values):
    """A case of small extents, drawn."""
    return Case(
        small_extents(choose, dimensions),
        values,
        choose.choice(("tight", "odd", "aligned", "large")),
        choose.choice(("tight", "odd", "aligned", "large")),
        choose.choice((0, 0, 1, 3, 4, 5, 7, -1)),
        choose.choice((0, 0, 1, 2, 3, 4, 7, -1)),
    )


def wide_extents(choose, dimensions):
    """Strips that touch no edge, walks that meet neither the first row or plane nor the last."""
    columns = choose.choice((530, 640, 701, 776))
    if dimensions == 1:
        return 1, 1, 9 * columns
    return (1, choose.randint(36, 60), columns) if dimensions == 2 else (choose.randint(3, 6), 27, columns - 120)


MOST_INNER_CELLS = 120000


def rows_around(plan, block, rows):
    """Rows of a field that has a block of so many with others above and below it: `rows` and what taps reach; where all
    taps reach up, rows that end in a third block, all of whose inputs are before."""
    highest = max(tap.at[1] for tap in plan.taps)
    return 3 * block + highest if highest < 0 else rows + sum(plan.reach[1])


def inner_case(plan, index):
    """On CUDA cores a walk or tile takes no care only where all that it reads lies in the field: on a large device, whose
    walks are short, this field has such ones between those at its edges. Every other one ends half a vector of 16 bytes
    behind a strip: what is read in vectors would reach beyond it. Blocks of 3D kernels on tensor cores take none only
    where all planes lie in the field, too: a larger field, for one in four. None where it would be too large to
    emulate."""
    (planes, rows, sides) = (low + high for low, high in plan.reach)
    if plan.tile:
        return Case(plan.inner_tile_extent, "random", "aligned", "aligned", form=0 if index % 2 else plan.tile_forms[0])
    if plan.block:  # along z there may be edges
        extent = (3, rows_around(plan, plan.block[0], 2 * plan.block[0] + 1), 2 * plan.block[1] + sides + 8)
        if plan.engine != "cuda":
            chosen = planes <= 8 and (index % 4 == 1 or max(tap.at[1] for tap in plan.taps) < 0)
            return Case((12, *extent[1:]), "random", "aligned", "aligned", multiprocessors=132) if chosen else None
    columns = ((258, 290) if plan.storage.bytes == 4 else (516, 530))[index % 2]
    if not plan.block:
        extent = (1, rows_around(plan, 32, 34), columns) if plan.dimensions == 2 else (12 + planes, 9 + rows, columns)
    if plan.engine != "cuda" or plan.dimensions == 1 or extent[0] * extent[1] * columns > MOST_INNER_CELLS:
        return None
    return Case(extent, "random", "aligned", "aligned", multiprocessors=132)


def inner_tile_of_odd_rows(plan, index):
    """The same field in rows that begin anywhere, of the form for them whose tiles wait in shared memory; those of input
    or output may be aligned."""
    input_stride, output_stride = (("odd", "odd"), ("odd", "aligned"), ("aligned", "odd"))[index // 2 % 3]
    offset = int(input_stride == "odd")
    return Case(plan.inner_tile_extent, "random", input_stride, output_stride, offset, 0, form=plan.tile_forms[1])


def medium_extents(choose, dimensions, columns):
    """A few tiles and rows."""
    if dimensions == 1:
        return 1, 1, columns
    return (1, choose.randint(17, 48), columns) if dimensions == 2 else (choose.randint(3, 9), 9, columns)


LONG_EXTENTS = {
    1: ((1, 1, 37000), (1, 1, 16 * 1000), (1, 1, 30011)),
    2: ((1, 1000, 37), (1, 37, 1000), (1, 300, 300)),
    3: ((100, 5, 37), (5, 100, 37), (20, 20, 100)),
}
# Fields of some four million cells, as many as a device needs to be full: sweeps then have the forms and the walks that
# large fields have. A kernel of very many taps would keep the reference busy for minutes.
FILLING_EXTENTS = {1: (1, 1, 4000037), 2: (1, 1731, 2311), 3: (49, 277, 301)}
MOST_TAPS_OF_FILLING = 250
# Emulated, a sweep of 32 steps takes as long as some twenty of one: kernels of more take every second case.
MOST_STEPS_OF_ALL_CASES = 8
SANITIZER_EXTENTS = {
    1: ((1, 1, 5000), (1, 1, 129), (1, 1, 530), (1, 1, 776)),
    2: ((1, 40, 776), (1, 9, 129), (1, 5, 130), (1, 18, 136)),
    3: ((6, 9, 300), (3, 9, 129), (2, 5, 130), (5, 7, 136)),
}


def special_values(plan):
    """What else a storage must carry: values near its largest, f32 small differences and, like bf16, a wide range."""
    if plan.accuracy == "f16":
        return ("smooth",)
    return {
        "f16": ("smooth", "limit"),
        "bf16": ("small", "large", "limit"),
        "f32": ("offset", "small", "large", "steep", "limit"),
        "f64": ("offset", "small", "large", "steep", "limit"),
    }[plan.storage.name]


def filling_case(plan, choose):
    """A field that fills a device, in rows that are aligned or not; none where that would take too long."""
    if len(plan.taps) > MOST_TAPS_OF_FILLING:
        return []
    stride, offset = choose.choice((("aligned", 0), ("odd", 3)))
    values = choose.choice(("random", "smooth"))
    return [Case(FILLING_EXTENTS[plan.dimensions], values, stride, stride, offset, offset, with_oracle=False)]


def sanitizer_cases(plan, tiny):
    """Few, of small fields; some are large enough for walks and tiles that touch no edge, in rows aligned or not."""
    wide, odd, smooth, filling = SANITIZER_EXTENTS[plan.dimensions]
    cases = [
        Case(wide, "random", "aligned", "aligned"),
        Case(wide, "random", "odd", "odd", 3, 1),
        Case(odd, "random", "odd", "odd", 1, 3),
        Case(smooth, "smooth", "aligned", "odd", 0, 5),
        Case(tiny, "random", "tight", "tight", -1, -1),
        Case(filling, "random", "aligned", "aligned", -1, -1),
    ]
    if plan.tile:
        cases.append(Case(plan.inner_tile_extent, "random", "aligned", "aligned", form=plan.tile_forms[0]))
        cases.append(inner_tile_of_odd_rows(plan, 0))
    elif inner := inner_case(plan, 1):
        cases.append(inner)
    if plan.storage.name == "f32" and plan.accuracy == "full":
        cases.append(Case(smooth, "steep", "aligned", "aligned"))
    return cases


def make_cases(plan, seed, form, index, large=0):
    """The cases of one kernel: some chosen, the rest drawn. `index` spreads the larger ones over the kernels, of which
    one in `large`, if that is not 0, sweeps a field that fills a device."""
    choose = random.Random(f"{seed}/{plan.name}/cases")
    dimensions = plan.dimensions
    tiny = tiny_extents(choose, dimensions)
    aligned = {"input_stride": "aligned", "output_stride": "aligned"}
    if form == "sanitizer":
        return sanitizer_cases(plan, choose.choice(tiny))
    columns = choose.choice((127, 128, 129, 255, 256, 257))
    cases = [
        Case(wide_extents(choose, dimensions), "random", **aligned),
        Case(medium_extents(choose, dimensions, columns), "random", **aligned),
        Case(
            medium_extents(choose, dimensions, choose.randint(100, 300)),
            "random",
            "odd",
            "odd",
            choose.choice((1, 3, 5, 7)),
            1,
        ),
        Case(tiny[index % len(tiny)], "random", "tight", "tight", -1, -1),
        Case(tiny[(index // 2 + 3) % len(tiny)], "random", "large", "aligned", 0, 0),
        Case(small_extents(choose, dimensions), "smooth", "aligned", "odd", 0, choose.choice((0, 4, 5))),
        Case(
            small_extents(choose, dimensions),
            "constant",
            "odd",
            "aligned",
            choose.choice((0, 6)),
            choose.choice((0, 4)),
        ),
        random_case(choose, dimensions, "random"),
        random_case(choose, dimensions, choose.choice(("random", *special_values(plan)))),
    ]
    if dimensions == 3 and form == "quick" and index % 3:
        del cases[0]  # the largest
    if inner := inner_case(plan, index):
        cases[0] = inner
    if plan.tile and index % 2:
        cases.append(inner_tile_of_odd_rows(plan, index))
    if plan.storage.name == "f32" and plan.accuracy == "full":
        cases += [random_case(choose, dimensions, values) for values in special_values(plan)]
    elif plan.storage.name != "f16":
        special = special_values(plan)
        cases.append(random_case(choose, dimensions, special[index % len(special)]))
    if index % 12 == 0:
        cases.append(Case(LONG_EXTENTS[dimensions][0], "random", "odd", "aligned"))
    if index % 12 == 4:
        cases.append(Case(LONG_EXTENTS[dimensions][1], "smooth", **aligned))
    if index % 24 == 8:
        cases.append(Case(LONG_EXTENTS[dimensions][2], "random", **aligned))
    if form == "quick" and plan.steps > MOST_STEPS_OF_ALL_CASES:
        cases = cases[index % 2 :: 2]
    if plan.template == "stepping2d" and plan.steps > 1:  # rows that all steps reach, or one more
        rows = max(1, plan.reach[1][0]) + index % 2
        cases.append(Case((1, rows, choose.randint(20, 60)), "random", "tight", "tight", -1, -1))
    if large and index % large == 0:
        cases += filling_case(plan, choose)
    if form == "full":
        cases += [Case(extent, "random", "tight", "tight", 3, 1) for extent in tiny]
        cases += [Case(LONG_EXTENTS[dimensions][0], "random", "odd", "odd", 1, 1)]
        cases += [Case(LONG_EXTENTS[dimensions][2], "smooth", **aligned)]
        cases += [
            random_case(choose, dimensions, values) for values in ("random", "smooth", "constant") for _ in range(4)
        ]
    return cases
