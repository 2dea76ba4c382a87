"""Random filters of batches, of all storages and results, through the Python package, on the host, emulated, or on a GPU:

    check_images.py [--count N] [--seed FIRST] [--backend host|cuda] [--emulator LIBRARY] [--u8-images]

With --u8-images all are 2D and of u8, which tensor cores take, with tiles away from faces, too.

Each image of a batch has the bits that it has by itself, wherever it lies in memory, and the numbers that scipy.ndimage gives in
double precision, within the bound of the generated file; whole numbers within their range. With --backend cuda arrays are those of CuPy, or else of PyTorch."""

import argparse
import concurrent.futures
import itertools
import json
import os
import pathlib
import sys

import numpy
from scipy import ndimage

import spider_gen

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "systems"))

from check_random import decoded, emulate  # noqa: E402
from check_random import encoded as encoded_number  # noqa: E402
from spider_gen import spider  # noqa: E402

#: Of the rules, as scipy.ndimage calls them.
MODES = {"constant": "constant", "nearest": "nearest", "periodic": "grid-wrap", "reflect": "reflect", "mirror": "mirror"}
OWN = {1: ((131,), (7,), (300,)), 2: ((37, 143), (5, 6), (1, 70), (64, 260)), 3: ((7, 9, 45), (3, 4, 5))}
WIDE = ((38, 1184), (35, 1101))
BATCHES = ((3,), (1,), (2, 3), (5,), (2, 1, 2))
REACH = {1: 9, 2: 4, 3: 2}
FLOATS, INTEGERS = ("f16", "f32", "bf16", "f64"), tuple(spider.INTEGERS)
LARGEST = {"f16": 65504}  # beyond it results may be infinite


def encoded(values, storage):
    return numpy.rint(values).astype(spider._TYPES[storage][0]) if storage in INTEGERS else encoded_number(values, storage)


class Case:
    """A filter and its arrays."""

    def __init__(self, seed, backend, u8_images):
        self.rng = numpy.random.default_rng(seed)
        self.seed, self.backend = seed, backend
        self.dimensions = 2 if u8_images else int(self.rng.integers(1, 4))
        self.storage = "u8" if u8_images else self.pick(*FLOATS, *INTEGERS, *INTEGERS)
        self.output = self.pick(None, None, *FLOATS, *INTEGERS)
        self.result = self.output or self.storage
        self.rule = self.pick(*MODES)
        self.weights = self.make_weights(7 if u8_images else REACH[self.dimensions])
        self.fill = self.make_fill()
        boundary = {"constant": self.fill} if self.rule == "constant" else self.rule
        self.made = spider_gen.stencil(weights=self.weights, boundary=boundary, storage=self.storage, output=self.output,
                                       name=f"images{seed}", backend=backend)
        self.plan = json.loads(spider_gen._generator.explain(self.made._spec, as_json=True))
        self.own = self.pick(*OWN[self.dimensions], *WIDE * u8_images)
        self.batch = (2,) if self.own in WIDE else self.pick(*BATCHES)

    def pick(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]

    def make_fill(self):
        return self.pick(0, 7, 255) if self.storage in INTEGERS else float(self.pick(0, 1, -0.5))

    def make_weights(self, reach):
        size = 2 * self.rng.integers(0, reach + 1, self.dimensions) + 1
        weights = self.rng.uniform(-1, 1, size)
        if self.rng.integers(2):
            weights = numpy.round(8 * weights) / 8
        weights[tuple(n // 2 for n in size)] = 1
        if self.rng.integers(2):
            weights /= numpy.abs(weights).sum()
        return weights

    def values(self, shape):
        least, most = spider.INTEGERS.get(self.storage, (-1, 1) if self.result not in INTEGERS else (-300, 300))
        return encoded(self.rng.uniform(least, most, shape), self.storage)

    def expected(self, image):
        """The numbers of one image, and how far results may be off."""
        def correlate(values, weights, fill):
            return ndimage.correlate(values, weights, mode=MODES[self.rule], cval=fill)

        numbers = decoded(image, self.storage)
        fill = float(decoded(encoded(numpy.array([self.fill]), self.storage), self.storage)[0])
        total = correlate(numbers, self.weights, fill)
        size = correlate(numpy.abs(numbers), numpy.abs(self.weights), abs(fill))
        if self.result in INTEGERS:
            total = numpy.clip(total, *spider.INTEGERS[self.result])
        bound = self.plan["error_bound"]
        neighbourhood = numpy.abs(self.weights).sum() * max(numpy.abs(numbers).max(), abs(fill))
        return total, (bound["result"] * numpy.abs(total) + bound["sum"] * size + bound["absolute"]
                       + bound["neighbourhood"] * neighbourhood)

    @property
    def iterates(self):
        return self.output in (None, self.storage)

    def arrangements(self):
        """Arrays of the same images that lie in different ways, with the axes that a call names, or None."""
        stack = self.values((*self.batch, *self.own))
        axes = tuple(range(len(self.batch), stack.ndim))
        yield "dense", stack, None
        whole = numpy.zeros((*(2 * n for n in self.batch), *(n + 3 for n in self.own)), stack.dtype)
        part = whole[(*(slice(None, None, 2),) * len(self.batch), *(slice(1, n + 1) for n in self.own))]
        part[...] = stack
        yield "a part", part, None
        yield "backwards", stack[::-1], None
        order = self.rng.permutation(stack.ndim)
        mixed = numpy.ascontiguousarray(stack.transpose(order))
        yield "mixed", mixed, tuple(int(numpy.flatnonzero(order == axis)[0]) for axis in axes)
        yield "mixed, from the end", mixed, tuple(int(numpy.flatnonzero(order == axis)[0]) - stack.ndim for axis in axes)

    def to_library(self, array):
        if self.backend != "cuda":
            return array
        try:
            import cupy

            base = cupy.zeros(_room(array), cupy.uint8)
        except ImportError:
            return _to_torch(array, self.storage)
        first = min(0, sum((n - 1) * stride for n, stride in zip(array.shape, array.strides) if stride < 0))
        view = cupy.ndarray(array.shape, array.dtype, base.data - first, array.strides)
        view[...] = cupy.asarray(numpy.ascontiguousarray(array))
        return view

    def check(self):
        problems = []
        for name, array, axes in self.arrangements():
            problems += self.check_array(name, array, axes)
        return problems

    def check_array(self, name, array, axes):
        own = axes or tuple(range(array.ndim - self.dimensions, array.ndim))
        images = numpy.moveaxis(array, [axis % array.ndim for axis in own], range(-self.dimensions, 0))
        given = self.to_library(array)
        found = to_numpy(self.made(given, axes=axes))
        say = f"seed {self.seed}, {self.storage}, {self.result}, {self.rule}, {name}, shape {array.shape}, axes {axes}: "
        if found.shape != array.shape:
            return [say + f"the result has the shape {found.shape}"]
        last = to_numpy(self.made.iterate(given, 2, axes=axes)) if self.iterates else None
        problems = []
        at = [axis % array.ndim for axis in own]
        results = [None if one is None else numpy.moveaxis(one, at, range(-self.dimensions, 0)) for one in (found, last)]
        for index in itertools.product(*map(range, images.shape[:-self.dimensions])):
            problems += [say + f"image {index} {words}" for words in self.check_image(images[index], *(
                None if one is None else one[index] for one in results))]
            if problems:
                break
        again = to_numpy(self.made(given, axes=axes))
        if again.tobytes() != found.tobytes():
            problems.append(say + "a second call gives other bits")
        return problems

    def check_image(self, image, found, last):
        alone = to_numpy(self.made(self.to_library(numpy.ascontiguousarray(image))))
        if alone.tobytes() != found.tobytes():
            yield "differs from a sweep of itself"
        total, bound = self.expected(image)
        beyond = ~(numpy.abs(decoded(found, self.result) - total) <= bound) & (numpy.abs(total) <= LARGEST.get(self.result, 1e300))
        if beyond.any():
            yield f"has {beyond.sum()} of {beyond.size} values beyond the bound"
        if last is not None:
            two = to_numpy(self.made.iterate(self.to_library(numpy.ascontiguousarray(image)), 2))
            if two.tobytes() != last.tobytes():
                yield "differs from steps of itself"


def _room(array):
    return sum((n - 1) * abs(stride) for n, stride in zip(array.shape, array.strides)) + array.itemsize


def _to_torch(array, storage):
    import torch

    forward = numpy.ascontiguousarray(array)  # PyTorch has no negative strides
    if array.dtype == numpy.uint16 and storage == "bf16":
        return torch.from_numpy(forward.view(numpy.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(forward).cuda()


def to_numpy(array):
    if type(array).__module__.startswith("torch"):
        import torch

        bits = array.view(torch.int16) if array.dtype == torch.bfloat16 else array
        return bits.cpu().numpy().view(numpy.uint16) if bits is not array else array.cpu().numpy()
    return array if isinstance(array, numpy.ndarray) else array.get()


def check(seed, backend, u8_images):
    try:
        return Case(seed, backend, u8_images).check()
    except Exception as error:
        return [f"seed {seed}: {type(error).__name__}: {error}"]


def parser_of(description):
    """The options that checks of random filters have in common."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--count", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1, help="the first")
    parser.add_argument("--backend", choices=("host", "cuda"), default="host")
    parser.add_argument("--emulator", type=pathlib.Path, metavar="LIBRARY")
    return parser


def check_seeds(check_one, arguments):
    """The seeds, and what check_one(seed) returns for each."""
    if arguments.emulator:
        emulate(arguments.emulator)
    seeds = range(arguments.seed, arguments.seed + arguments.count)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return seeds, list(pool.map(check_one, seeds))


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--u8-images", action="store_true")
    arguments = parser.parse_args()
    seeds, found = check_seeds(lambda seed: check(seed, arguments.backend, arguments.u8_images), arguments)
    problems = [problem for one in found for problem in one]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(seeds)} filters from seed {arguments.seed}: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
