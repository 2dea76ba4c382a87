"""Random systems of equations through the Python package against the reference in double precision, on the host:

    check_random.py [--count N] [--seed FIRST] [--also SEED...] [--backend host|cuda] [--emulator LIBRARY] [--specs FILE...]

Each is swept once and iterated three times, with its reductions, with arrays that lie in different ways, and on the CPU launch by launch in boxes,
which has to give the same bits. Systems of files are checked before random ones. With the library of the emulator,
libspider_emulator.a, kernels for GPUs run emulated."""

import argparse
import concurrent.futures
import itertools
import os
import pathlib
import sys
import tempfile

import numpy
import yaml

import random_system
import reference
import spider_gen
from spider_gen import spider

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTENTS = {1: ((501,), (3,)), 2: ((37, 143), (5, 4), (1, 30)), 3: ((7, 9, 45), (3, 2, 5))}
FAR = {1: 90, 2: 30, 3: 16}
NOT_A_NUMBER = {"bf16": 0x7FC0}
TYPES = {"f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64, "bf16": numpy.uint16}


def encoded(values, storage):
    """Numbers that the storage has, as the array that a caller passes; of bf16 the bits."""
    if storage != "bf16":
        return values.astype(TYPES[storage])
    return (values.astype(numpy.float32).view(numpy.uint32) >> 16).astype(numpy.uint16)


def decoded(array, storage):
    if storage != "bf16":
        return array.astype(float)
    return (array.astype(numpy.uint32) << 16).view(numpy.float32).astype(float)


class Case:
    """A system, its fields, the scalars."""

    def __init__(self, seed, text, backend, folder):
        self.seed, self.text = seed, text
        self.system = reference.read(self.text)
        self.made = self._make(backend, pathlib.Path(folder))
        self.rng = numpy.random.default_rng(seed)
        extents = EXTENTS[self.system.dimensions]
        self.extent = extents[self.rng.integers(len(extents))]
        self.scalars = {name: float(self.rng.uniform(-1, 1)) for name in self.system.scalars}
        self.halos = self.made.halo(*self.extent)
        self.cells, self.arrays = {}, {}
        for i, (name, field) in enumerate(self.system.fields.items()):
            self._make_field(i, name, field)

    def _make(self, backend, folder):
        if self.seed % 2:
            return spider_gen.stencil(yaml.load(self.text, yaml.BaseLoader), backend=backend)
        path = folder / f"{self.system.name}.yaml"
        path.write_text(self.text, encoding="utf-8")
        return spider_gen.stencil(path, backend=backend)

    def _make_field(self, i, name, field):
        own = [n for n, has in zip(self.extent, field.axes) if has]
        halo = self.halos[name]
        far = FAR[self.system.dimensions]  # cells that the reference has, and the kernel must not read
        wide = [(low + far, high + far) for low, high in halo]
        shape = [low + n + high for n, (low, high) in zip(own, wide)]
        values = reference.stored(self.rng.uniform(-1, 1, shape), field.storage)
        around, spread = iter(wide), iter(shape)
        self.cells[name] = reference.Cells.of(values.reshape([next(spread) if has else 1 for has in field.axes]),
                                              [next(around) if has else (0, 0) for has in field.axes])
        array = numpy.full(shape, NOT_A_NUMBER.get(field.storage, numpy.nan), TYPES[field.storage])
        read = tuple(slice(far, n - far) for n in shape)
        array[read] = encoded(values[read], field.storage)
        if self.seed % 4 == 3:  # each row begins on 128 bytes
            first = wide[-1][0] if field.axes[-1] else 0
            whole = numpy.zeros((*shape[:-1], -(-(shape[-1] + 64) // 64) * 64 + 64), array.dtype)
            skipped = -(whole.ctypes.data // array.itemsize + first) % 64
            array, whole = whole[..., skipped:skipped + shape[-1]], array
            array[...] = whole
        elif (self.seed + i) % 3 == 0:  # a part of something larger
            array = numpy.pad(array, 3)[tuple(slice(3, 3 + n) for n in shape)]
        elif (self.seed + i) % 3 == 1 and len(shape) > 1:  # every second row
            whole = numpy.zeros((2 * shape[0], *shape[1:]), array.dtype)
            whole[::2] = array
            array = whole[::2]
        self.arrays[name] = array[tuple(slice(low, low + n) for n, (low, _) in zip(own, wide))]

    def compare(self, found, expected, what):
        """What is wrong with the fields that are written."""
        problems = []
        if set(found) != set(self.system.written):
            problems.append(f"{self.system.name}, {what}: the result has {', '.join(found)}, not {', '.join(self.system.written)}")
        for name, array in found.items():
            cells, storage = expected[name], self.system.fields[name].storage
            off = numpy.abs(decoded(array, storage).reshape(cells.extent) - cells.interior)
            beyond = ~(off <= cells.interior_errors)
            if beyond.any():
                place = tuple(int(i) for i in numpy.argwhere(beyond)[0])
                problems.append(f"{self.system.name}, {what}: {name} has {beyond.sum()} of {beyond.size} values beyond the bound, "
                                f"the first at {place}: off by {off[place]:.3g}, bound {cells.interior_errors[place]:.3g}")
        return problems

    def check(self):
        before = {name: array.copy() for name, array in self.arrays.items()}
        once = reference.sweep(self.system, self.cells, self.scalars)
        first = self.made(self.arrays, **self.scalars)
        problems = self.compare(first, once, "a sweep")
        before_last = reference.sweep(self.system, once, self.scalars)
        last = reference.sweep(self.system, before_last, self.scalars)
        problems += self.compare(self.made.iterate(self.arrays, 3, **self.scalars), last, "3 steps")
        if self.system.reductions:
            problems += self.check_reductions(first, once, before_last, last)
        for name, array in self.arrays.items():
            if not numpy.array_equal(array, before[name]):
                problems.append(f"{self.system.name}: {name} has changed")
        if self.made.info.backend in ("host", "emulated"):
            problems += self.check_boxes(first)
        return problems

    def check_reductions(self, first, once, before_last, last):
        results, numbers = self.made(self.arrays, reductions=True, **self.scalars)
        problems = [f"{self.system.name}: {name} has other bits beside reductions" for name in first
                    if results[name].tobytes() != first[name].tobytes()]
        problems += self.compare_numbers(numbers, self.cells, once, "a sweep")
        steps = self.made.iterate(self.arrays, 3, reductions=True, **self.scalars)[1]
        problems += self.compare_numbers(steps, before_last, last, "3 steps")
        name, bound = next(iter(steps.items()))
        stopped = self.made.iterate(self.arrays, 3, reductions=True, until=(name, bound), check_every=2, **self.scalars)[1]
        if stopped.steps == 3 and stopped != steps or stopped[name] > bound:
            problems.append(f"{self.system.name}: steps until {name} is {bound} end with {stopped}, not {steps}")
        return problems

    def compare_numbers(self, found, before, after, what):
        problems = []
        for name, (value, error) in reference.reductions(self.system, before, after, self.scalars).items():
            if not abs(found[name] - value) <= error:
                problems.append(f"{self.system.name}, {what}: {name} is {found[name]!r}, not {value!r} within {error:.3g}")
        return problems

    def check_boxes(self, whole):
        """Launch by launch, each in boxes."""
        kernel = self.made._kernel(spider_gen._compilers.choose("host"))[1]
        fields = [self.padded_copy(name) for name in self.system.fields]
        outputs = [self.padded_copy(name) if use & spider.FIELD_TWO_BUFFERS else None
                   for name, use in zip(self.system.fields, kernel.info.uses)]
        scalars = [self.scalars[name] for name in kernel.info.scalars]
        reductions = spider.Reductions(kernel) if kernel.info.reductions else None
        for launch in range(kernel.info.launches):
            for box in self.boxes():
                kernel.run_system(fields, outputs, scalars, box=box, launches=(launch, 1), reductions=reductions)
        problems = []
        if reductions:
            numbers = self.made(self.arrays, reductions=True, **self.scalars)[1]
            if reductions.read() != numbers:
                problems.append(f"{self.system.name}: boxes give other reductions")
        for i, name in enumerate(self.system.fields):
            if name in whole:
                found = (outputs if kernel.info.uses[i] & spider.FIELD_RESULT_IN_OUTPUT else fields)[i]
                if found.tobytes() != whole[name].tobytes():
                    problems.append(f"{self.system.name}: boxes give other bits of {name}")
        return problems

    def padded_copy(self, name):
        array = self.arrays[name]
        around = spider_gen._arrays.extended(array, self.halos[name]).copy()
        inner = around[tuple(slice(low, low + n) for n, (low, _) in zip(array.shape, self.halos[name]))]
        return inner[tuple(slice(None) if has else None for has in self.system.fields[name].axes)]

    def boxes(self):
        """Boxes that make up the whole, in another order."""
        along = []
        for n in self.extent:
            cut = int(self.rng.integers(0, n + 1))
            along.append([(begin, end - begin) for begin, end in ((0, cut), (cut, n)) if end > begin])
        boxes = [tuple(zip(*box)) for box in itertools.product(*along)]
        self.rng.shuffle(boxes)
        return boxes


def emulate(library):
    """Has the package compile kernels for the emulator where it would for the host."""
    host = spider_gen._compilers.host()
    folders = [f"-I{ROOT / 'runtime' / folder}" for folder in ("include", "device", "emulator")]
    links = ("-Wl,--whole-archive", str(library.resolve()), "-Wl,--no-whole-archive", "-lboost_context", "-pthread")
    toolchain = spider_gen._compilers.Toolchain(
        "emulated", host.compiler, ("-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", *folders), links, (), ("-x", "c++"),
        f"the emulator of {library.stat().st_mtime_ns}")
    spider_gen._compilers.host = lambda: toolchain


def check(seed, text, backend, folder):
    """What is wrong; None where the generator has no plan for this system."""
    try:
        return Case(seed, text, backend, folder).check()
    except spider_gen.SpecError as error:
        return None, str(error)
    except Exception as error:
        return [f"{text.splitlines()[0]}: {type(error).__name__}: {error}"]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--also", type=int, nargs="*", default=[], metavar="SEED", help="of systems that were wrong once")
    parser.add_argument("--backend", choices=("host", "cuda"), default="host")
    parser.add_argument("--emulator", type=pathlib.Path, metavar="LIBRARY")
    parser.add_argument("--specs", type=pathlib.Path, nargs="*", default=[], metavar="FILE", help="of systems; others are left out")
    arguments = parser.parse_args()
    if arguments.emulator:
        emulate(arguments.emulator)
    texts = [path.read_text(encoding="utf-8") for path in arguments.specs]
    cases = [(2 * i, text) for i, text in enumerate(texts) if "\nstages:" in text]  # even ones come from files
    seeds = [*range(arguments.seed, arguments.seed + arguments.count), *arguments.also]
    cases += [(seed, random_system.make(seed)) for seed in seeds]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda case: check(*case, arguments.backend, folder), cases))
    refused = [one[1] for one in found if isinstance(one, tuple)]
    problems = [problem for one in found if isinstance(one, list) for problem in one]
    print(*refused, *problems, sep="\n", end="\n" if refused or problems else "")
    print(f"{len(cases)} systems, random ones from seed {arguments.seed}: {len(refused)} refused, {len(problems)} problems")
    return 1 if problems or 10 * len(refused) > len(cases) else 0


if __name__ == "__main__":
    sys.exit(main())
