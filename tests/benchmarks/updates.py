#!/usr/bin/env python3
"""Times kernels with updates beside a copy of the same bytes, after checking each against float64.

  updates.py --library libspider_cases_cuda.so --plans updates/plans --kernels acoustic3d --size 768 768 768

The library is one of tests/gpu/build_and_run.sh, of kernels and plans that tests/harness/random_updates.py wrote. What a sweep
makes of random fields is compared cell by cell, within the bound of tests/harness/check_updates.py, in windows at all corners,
edges and faces and inside. Then a sweep's time: the median of single launches between events, in turns with copies of half
the bytes that a sweep must move, which move as many. Where it can be, the result takes the place of `previous`, as in a time
loop. Rates are points x steps / time. Needs NumPy and SciPy, and on a GPU CuPy."""

import argparse
import csv
import dataclasses
import itertools
import math
import pathlib
import statistics
import sys
import time
from ctypes import byref

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "harness"))
import reference  # noqa: E402
from check_updates import Subject, rounded_bound  # noqa: E402
from spider_library import Library, make_sweep  # noqa: E402
from sweep_case import Layout, input_around  # noqa: E402

COLUMNS = ("kernel", "storage", "size", "steps", "in_place", "us", "copy_us", "gpoint_steps", "worst_error_of_bound", "device")
WINDOW = (5, 6, 40)  # cells along z, y, x that are compared at once


class Host:
    """Arrays and times of the host's back ends."""

    arrays = numpy
    device = "host"

    @staticmethod
    def address(array):
        return array.ctypes.data

    @staticmethod
    def copy(target, source):
        numpy.copyto(target, source)

    @staticmethod
    def seconds(call, _):
        begin = time.perf_counter()
        call()
        return time.perf_counter() - begin


class Device:
    """The same of the GPU that is current."""

    def __init__(self):
        import cupy

        self.arrays = cupy
        self.device = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())["name"].decode()

    @staticmethod
    def address(array):
        return array.data.ptr

    @staticmethod
    def copy(target, source):
        target.data.copy_from_device_async(source.data, source.nbytes)

    def seconds(self, call, delay):
        """Of a call on the device alone: it is queued behind another one."""
        delay()
        begin, end = self.arrays.cuda.Event(), self.arrays.cuda.Event()
        begin.record()
        call()
        end.record()
        end.synchronize()
        return self.arrays.cuda.get_elapsed_time(begin, end) / 1e3


class Cells:
    """A field of random values with so many cells around it; rows begin on 16 bytes."""

    def __init__(self, machine, storage, extent, around, rng):
        vector = 16 // storage.bytes
        low = -(-around[2][0] // vector) * vector
        row = -(-(low + extent[2] + around[2][1]) // vector) * vector
        rows = extent[1] + sum(around[1])
        planes = extent[0] + sum(around[0])
        base = (around[0][0] * rows + around[1][0]) * row + low
        self.machine, self.storage, self.cell = machine, storage, numpy.dtype(storage.cell)
        self.layout = Layout(tuple(extent), (rows * row, row), base, planes * rows * row)
        chunk = storage.encode(rng.uniform(-1.5, 1.5, min(self.layout.cells, 9_999_991)))  # a prime: rows differ
        self.cells = machine.arrays.resize(machine.arrays.asarray(chunk), self.layout.cells)
        self.address = machine.address(self.cells)

    def view(self):
        return self.layout.field(self)

    def read(self, z, y, x):
        """Cells at index arrays, as numbers; NaN where there is no memory."""
        places = self.layout.positions(z, y, x)
        inside = (places >= 0) & (places < self.layout.cells)
        found = self.cells[self.machine.arrays.asarray(numpy.where(inside, places, 0))]
        found = found if isinstance(found, numpy.ndarray) else found.get()
        return numpy.where(inside, self.storage.decode(found), numpy.nan)


@dataclasses.dataclass(frozen=True)
class Shifted:
    """Cells of a field by indices of a window."""

    field: Cells
    origin: tuple
    periods: tuple  # extents of the axes that are periodic, else none

    def read(self, *at):
        shifted = (index + first for index, first in zip(at, self.origin))
        return self.field.read(*(one % period if period else one for one, period in zip(shifted, self.periods)))

    def numbers(self, first, last):
        return self.read(*numpy.ix_(*map(numpy.arange, first, last)))


def windows(plan, extent, rng):
    """(origin, size) at both ends of all axes and between them, out of reach of faces that are not the window's."""
    places = []
    for count, size, reach in zip(extent, WINDOW, map(max, plan.reach)):
        if count < size + reach:
            places.append([(0, count)])
            continue
        origins = {0, count - size}
        if count >= size + 2 * reach:
            origins.add(int(rng.integers(reach, count - size - reach + 1)))
        places.append([(origin, size) for origin in sorted(origins)])
    for chosen in itertools.product(*places):
        yield tuple(origin for origin, _ in chosen), tuple(size for _, size in chosen)


def expect_window(subject, source, points, scalars, extent, origin, size):
    """(values, bounds) of a window: a field of its own whose faces are the whole's, or else lead into the whole."""
    plan = subject.plan
    halo = reference.Face(reference.HALO)
    faces, periods = [], []
    for axis, (low, high) in enumerate(plan.faces):
        periodic = low.rule == reference.PERIODIC
        ends = (origin[axis] == 0, origin[axis] + size[axis] == extent[axis])
        faces.append(tuple(face if end and not periodic else halo for face, end in zip((low, high), ends)))
        periods.append(extent[axis] if periodic else None)
    subject.plan = dataclasses.replace(plan, faces=tuple(faces))
    subject.later = dataclasses.replace(subject.plan, steps=plan.steps - 1)
    subject.origin, subject.whole = origin, extent
    shifted = {name: Shifted(point, origin, tuple(periods)) for name, point in points.items()}
    with numpy.errstate(invalid="ignore", over="ignore", divide="ignore"):
        last, _ = subject.expected(Shifted(source, origin, tuple(periods)).read, shifted, scalars, size, plan.steps)
    subject.plan = plan
    return last


def measure(library, machine, plans, name, size, launches, seed):
    """A row of COLUMNS; raises RuntimeError where a cell is wrong."""
    subject = Subject(library, plans, name)
    plan = subject.plan
    extent = (1,) * (3 - plan.dimensions) + tuple(size)
    if len(size) != plan.dimensions:
        raise RuntimeError(f"{name} has {plan.dimensions} dimensions, the size {len(size)}")
    if subject.failures:
        raise RuntimeError(f"{name}: {subject.failures[0]}")
    rng = numpy.random.default_rng([seed, *name.encode()])
    source = Cells(machine, plan.storage, extent, input_around(plan, extent), rng)
    points = {
        field: Cells(machine, storage, extent, subject.around_points(extent, False, field), rng)
        for field, storage in subject.storages().items()
    }
    scalars = {one: float(rng.uniform(-0.5, 0.5)) for one in subject.told["scalars"]}
    none = ((0, 0),) * 3
    kept = Cells(machine, plan.storage, extent, none, rng) if subject.keeps_previous() else None
    previous = subject.told["previous"]
    in_place = bool(previous) and not kept
    target = points[previous] if in_place else Cells(machine, plan.storage, extent, none, rng)
    expected = [
        (origin, *expect_window(subject, source, points, scalars, extent, origin, cells))
        for origin, cells in windows(plan, extent, rng)
    ]
    request = make_sweep(
        source.view(),
        target.view(),
        points[previous].view() if previous else None,
        [point.view() for field, point in points.items() if field != previous],
        list(scalars.values()),
        out_previous=kept.view() if kept else None,
    )
    library.run_sweep(subject.kernel, request)
    worst = 0.0
    for origin, value, error in expected:
        got = Shifted(target, origin, (None,) * 3).numbers((0, 0, 0), value.shape)
        with numpy.errstate(invalid="ignore"):
            ratio = numpy.abs(got - value) / rounded_bound(plan.storage, value, error)
        if not (ratio <= 1).all():
            first = tuple(numpy.argwhere(~(ratio <= 1))[0])
            cell = tuple(int(a + b) for a, b in zip(origin, first))
            raise RuntimeError(f"{name}: cell {cell} is {got[first]!r}, not {value[first]!r}: nothing is timed")
        worst = max(worst, float(ratio.max()))

    count = math.prod(extent)
    moved = count * (2 * plan.storage.bytes + sum(one.bytes for one in subject.storages().values()))
    moved += count * plan.storage.bytes if kept else 0
    half = machine.arrays.zeros(moved // 16, numpy.float64)
    other = machine.arrays.empty_like(half)
    sweep = lambda: library.require("spider_run", library.run(subject.kernel, byref(request)))  # noqa: E731
    copy = lambda: machine.copy(other, half)  # noqa: E731
    times = {sweep: [], copy: []}
    for turn in range(launches + 3):
        for call, found in times.items():
            seconds = machine.seconds(call, copy)
            if turn >= 3:
                found.append(1e6 * seconds)
    swept, copied = (statistics.median(found) for found in times.values())
    rate = count * plan.steps / swept / 1e3
    shape = "x".join(map(str, size))
    values = (name, plan.storage.name, shape, plan.steps, in_place, swept, copied, rate, worst, machine.device)
    return dict(zip(COLUMNS, values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--library", required=True, type=pathlib.Path)
    parser.add_argument("--plans", required=True, type=pathlib.Path)
    parser.add_argument("--kernels", required=True, nargs="+", metavar="NAME")
    parser.add_argument("--size", required=True, nargs="+", type=int, metavar="CELLS", help="of each axis, x last")
    parser.add_argument("--launches", type=int, default=25, help="that are timed")
    parser.add_argument("--seed", type=int, default=1, help="of fields, scalars and windows")
    parser.add_argument("--csv", type=pathlib.Path, help="appends rows; a new file gets the header")
    arguments = parser.parse_args()
    library = Library(arguments.library)
    on_host = library.on_host(library.kernel(arguments.kernels[0]))
    machine = Host() if on_host else Device()
    failed = False
    print(f"{machine.device}, seed {arguments.seed}, medians of {arguments.launches} launches, in turns with copies")
    for name in arguments.kernels:
        try:
            row = measure(library, machine, arguments.plans, name, arguments.size, arguments.launches, arguments.seed)
        except RuntimeError as error:
            print(f"FAILED: {error}", flush=True)
            failed = True
            continue
        ratio = row["us"] / row["copy_us"]
        print(
            f"{name} {row['storage']} {row['size']}: {row['us']:.1f} us, {ratio:.3f} x copy ({row['copy_us']:.1f} us), "
            f"{row['gpoint_steps']:.1f} Gpoint-steps/s, worst error/bound {row['worst_error_of_bound']:.2f}",
            flush=True,
        )
        if arguments.csv:
            fresh = not arguments.csv.exists()
            with arguments.csv.open("a", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, COLUMNS)
                if fresh:
                    writer.writeheader()
                writer.writerow(row)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
