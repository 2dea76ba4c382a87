"""Sums, maxima and minima of hard numbers through the Python package, against math.fsum:

    check_sums.py [--count N] [--seed FIRST] [--emulator LIBRARY]

Exponents of the whole range, values that cancel, subnormals, -0, NaN and infinities, in fields of one to many blocks. With
the library of the emulator, libspider_emulator.a, kernels for GPUs run emulated, else those of the host."""

import argparse
import math
import pathlib
import sys

import numpy as np

import check_random
import spider_gen

SHAPES = {1: ((1,), (7,), (257,), (4099,)), 2: ((1, 1), (3, 130), (37, 41), (9, 1031)), 3: ((2, 3, 5), (5, 9, 67))}
EXPONENTS = {"f16": (-24, 16), "f32": (-149, 128), "f64": (-1074, 1000)}
TYPES = {"f16": np.float16, "f32": np.float32, "f64": np.float64}


def make(dimensions, storage):
    """Of two stages, the second of which halves; numbers of the field before and behind it."""
    return spider_gen.stencil({
        "stencil": f"sums_{storage}_{dimensions}d", "dimensions": dimensions, "storage": storage, "fields": ["u", "v"],
        "stages": [{"v": "u"}, {"u": "0.5*v"}],
        "reduce": {"total": {"sum": "u"}, "largest": {"max": "u"}, "least": {"min": "u"}, "half": {"sum": "new(u)"}}},
        backend="host")


def draw(rng, shape, storage):
    """Values of one kind."""
    n, kind = math.prod(shape), TYPES[storage]
    low, high = EXPONENTS[storage]
    centre = int(rng.integers(low, high))
    width = int(rng.choice([1, 4, 20, 40, 80, high - low]))
    exponents = np.clip(rng.integers(centre - width, centre + width + 1, n), low, high - 1)
    with np.errstate(all="ignore"):
        values = np.ldexp(rng.choice([-1, 1], n) * rng.uniform(0.5, 1, n), exponents).astype(kind)
    if rng.random() < 0.5:  # pairs that cancel, but for some of the last
        order = rng.permutation(n)
        values[order[n // 2:2 * (n // 2)]] = -values[order[:n // 2]]
        values[order[-1]] = rng.uniform(-1, 1)
    if rng.random() < 0.3:
        values[rng.random(n) < 0.9] = -0.0
    if rng.random() < 0.2:
        special = rng.choice([math.inf, -math.inf, math.nan])
        values[rng.integers(n)] = special
        values[rng.integers(n)] = rng.choice([special, math.inf])
    return values.reshape(shape)


def total(values):
    try:
        return math.fsum(values.ravel().tolist())
    except ValueError:  # infinities of both signs
        return math.nan


def alike(found, wanted):
    return math.isnan(found) if math.isnan(wanted) else found == wanted and not (found == 0 and math.copysign(1, found) < 0)


def check(system, values, storage):
    """What is wrong."""
    state = {"u": values, "v": np.zeros_like(values)}
    new, numbers = system(state, reductions=True)
    wanted = {"total": total(values), "half": total(new["u"]),
              "largest": float(values.max()), "least": float(values.min())}
    problems = []
    for name, number in wanted.items():
        found = numbers[name]
        right = alike(found, number) if name in ("total", "half") else (math.isnan(found) if math.isnan(number) else found == number)
        if not right:
            problems.append(f"{storage}, {values.shape}: {name} is {found!r}, not {number!r}")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=30, help="of fields for each system")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--emulator", type=pathlib.Path)
    arguments = parser.parse_args()
    if arguments.emulator:
        check_random.emulate(arguments.emulator)
    problems, count = [], 0
    rng = np.random.default_rng(arguments.seed)
    for dimensions, storage in ((1, "f32"), (2, "f32"), (3, "f32"), (2, "f64"), (1, "f64"), (2, "f16")):
        system = make(dimensions, storage)
        shapes = SHAPES[dimensions]
        for i in range(arguments.count):
            problems += check(system, draw(rng, shapes[i % len(shapes)], storage), storage)
            count += 1
    print("\n".join(problems[:20]) or f"{count} fields, seed {arguments.seed}: all numbers are right")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
