"""Random separable filters through the Python package, on the host, emulated, or on a GPU:

    check_random.py [--count N] [--seed FIRST] [--backend host|cuda] [--emulator LIBRARY] [--reach MOST] [--bands]

Lists along each axis, of all storages, results and rules, one for each axis, that reach up to MOST points: each image of a batch has
the bits that it has by itself, wherever it lies in memory, and the numbers that scipy.ndimage gives in double precision, list by list,
within the bound of the generated file. With --bands fields are no f64, in 2D and 3D, and lists reach MOST points or half as
far, which tensor cores take as bands. With --backend cuda arrays are those of CuPy, or else of PyTorch."""

import json
import pathlib
import sys
import time

import numpy
from scipy import ndimage

import spider_gen

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "images"))

import check_images  # noqa: E402
from check_images import BATCHES, FLOATS, INTEGERS, MODES, decoded, encoded  # noqa: E402
from spider_gen import spider  # noqa: E402

OWN = {1: ((131,), (7,), (1300,)), 2: ((37, 143), (5, 6), (1, 570), (264, 60)), 3: ((7, 9, 45), (3, 70, 5), (70, 2, 40))}


class Case(check_images.Case):
    """A separable filter and its arrays."""

    def __init__(self, seed, backend, most, bands):
        self.rng = numpy.random.default_rng(seed)
        self.seed, self.backend = seed, backend
        self.bands = bands
        self.dimensions = int(self.rng.integers(1 + bands, 4))
        self.storage = self.pick("f16", "bf16", "f32", *INTEGERS) if bands else self.pick(*FLOATS, *FLOATS, *INTEGERS)
        self.output = self.pick(None, None, *FLOATS, *INTEGERS)
        self.result = self.output or self.storage
        self.lists = [self.make_list(most) for _ in range(self.dimensions)]
        self.fill = self.make_fill()
        self.rules = [self.pick(*MODES) for _ in range(self.dimensions)]
        self.rule = ", ".join(self.rules)
        letters = "zyx"[-self.dimensions:]
        boundary = {a: {"constant": self.fill} if rule == "constant" else rule for a, rule in zip(letters, self.rules)}
        spec = {"stencil": f"separable{seed}", "dimensions": self.dimensions, "storage": self.storage, "shape": "product",
                "coefficients": {a: one.tolist() for a, one in zip(letters, self.lists)}, "boundary": boundary}
        if self.output:
            spec["output"] = self.output
        self.made = spider_gen.stencil(spec, backend=backend)
        self.plan = json.loads(spider_gen._generator.explain(self.made._spec, as_json=True))
        self.own = self.pick(*OWN[self.dimensions])
        self.batch = self.pick(*BATCHES)

    def make_list(self, most):
        reach = int(most ** self.rng.uniform(0, 1)) if self.rng.integers(4) else int(self.rng.integers(0, 3))
        if self.bands:
            reach = int(self.rng.integers(most // 2, most + 1))
        weights = self.rng.uniform(-0.2, 1, 2 * reach + 1)
        if self.rng.integers(3) == 0:
            weights = numpy.round(8 * weights) / 8
        weights[reach] = 1
        return weights / numpy.abs(weights).sum()

    def expected(self, image):
        """The numbers of one image, and how far results may be off."""
        fill = float(decoded(encoded(numpy.array([self.fill]), self.storage), self.storage)[0])
        total, numbers = decoded(image, self.storage), decoded(image, self.storage)
        size = numpy.abs(total)
        fill_of_size = abs(fill)
        for axis in reversed(range(self.dimensions)):
            weights, mode = self.lists[axis], MODES[self.rules[axis]]
            total = ndimage.correlate1d(total, weights, axis, mode=mode, cval=fill)
            size = ndimage.correlate1d(size, numpy.abs(weights), axis, mode=mode, cval=fill_of_size)
            fill, fill_of_size = fill * weights.sum(), fill_of_size * numpy.abs(weights).sum()
        if self.result in INTEGERS:
            total = numpy.clip(total, *spider.INTEGERS[self.result])
        bound = self.plan["error_bound"]
        neighbourhood = max(numpy.abs(numbers).max(), abs(self.fill))  # the lists have a sum of magnitudes of 1
        return total, (bound["result"] * numpy.abs(total) + bound["sum"] * size + bound["absolute"]
                       + bound["neighbourhood"] * neighbourhood + 1e-14 * size)


def check(seed, backend, most, bands):
    """What is wrong, and the plan's template."""
    try:
        case = Case(seed, backend, most, bands)
        template = case.plan["template"]
        passes = ", ".join(one["template"] for one in case.plan["axis_passes"])
        return case.check(), f"{template} ({passes})" if passes else template
    except Exception as error:
        return [f"seed {seed}: {type(error).__name__}: {error}"], "none"


def main():
    parser = check_images.parser_of(__doc__)
    parser.add_argument("--reach", type=int, default=300)
    parser.add_argument("--bands", action="store_true")
    arguments = parser.parse_args()
    start = time.monotonic()
    seeds, found = check_images.check_seeds(lambda seed: check(seed, arguments.backend, arguments.reach, arguments.bands), arguments)
    problems = [problem for one, _ in found for problem in one]
    print(*problems, sep="\n", end="\n" if problems else "")
    templates = [template for _, template in found]
    print("plans: " + "; ".join(f"{templates.count(one)} {one}" for one in sorted(set(templates))))
    print(f"{len(seeds)} separable filters from seed {arguments.seed}, {time.monotonic() - start:.0f} s: {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
