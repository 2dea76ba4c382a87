"""Random specs of the accuracy tests through the Python package, on the host, against the reference of tests/harness (which
SciPy agrees with) and against NumPy where steps follow each other: check_random.py --cases DIR [--count N] [--seed N]"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import sys

import numpy

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "harness"))

import random_specs  # noqa: E402
import reference  # noqa: E402
import spider_gen  # noqa: E402

EXTENTS = {1: (1, 1, 501), 2: (1, 37, 143), 3: (7, 9, 45)}


def as_mapping(path):
    import yaml

    return yaml.safe_load(path.read_text(encoding="utf-8"))


def check(cases, name, number, seed):
    """What is wrong with one spec's results."""
    plan = reference.load_plan(cases / "plans" / f"{name}.json")
    path = cases / "specs" / f"{name}.yaml"
    spec = path if number % 2 else as_mapping(path)
    one = spider_gen.stencil(spec, backend="host", options=plan.options)
    rng = numpy.random.default_rng([seed, number])
    extent = EXTENTS[plan.dimensions]
    own = extent[3 - plan.dimensions:]
    halo = one.halo(*own)
    shape = [low + n + high for n, (low, high) in zip(own, halo)]
    numbers = rng.uniform(-1, 1, shape)
    padded = plan.storage.encode(numbers)
    if plan.storage.name != "bf16":
        padded = padded.view({"f16": numpy.float16, "f32": numpy.float32}[plan.storage.name])
    u = padded[tuple(slice(low, low + n) for n, (low, _) in zip(own, halo))]
    if number % 3 == 0 and not any(map(any, halo)):  # a slice of something larger
        larger = numpy.zeros([n + 3 for n in u.shape], u.dtype)
        view = larger[tuple(slice(1, 1 + n) for n in u.shape)]
        view[...] = u
        u = view
    before = u.copy()
    values = plan.storage.decode(padded.view(plan.storage.cell)).reshape(
        [1] * (3 - plan.dimensions) + shape)
    lows = [0] * (3 - plan.dimensions) + [low for low, _ in halo]

    def read(*indices):
        at = [numpy.asarray(index) + low for index, low in zip(indices, lows)]
        inside = [(index >= 0) & (index < n) for index, n in zip(at, values.shape)]
        known = inside[0] & inside[1] & inside[2]
        return numpy.where(known, values[tuple(numpy.clip(index, 0, n - 1) for index, n in zip(at, values.shape))], numpy.nan)

    problems = []
    total, magnitude = reference.sweep_field(plan, extent, read)
    got = one(u)
    found = plan.storage.decode(numpy.ascontiguousarray(got).view(plan.storage.cell)).reshape(extent)
    bound = reference.error_bound(plan, total, magnitude, numpy.abs(values).max())
    beyond = ~(numpy.abs(found - total) <= bound) & (numpy.abs(total) < plan.storage.overflow)
    if beyond.any():
        problems.append(f"{name}: {beyond.sum()} of {beyond.size} values beyond the bound")
    out = numpy.empty_like(u)
    if one(u, out=out) is not out or not numpy.array_equal(out.view(plan.storage.cell), got.view(plan.storage.cell)):
        problems.append(f"{name}: out= gives something else")
    # Single sweeps one after the other are what iterate does, but that steps of one sweep are not rounded between.
    sweeps = 3
    if not any(map(any, halo)) and got.size:
        step = u
        for _ in range(sweeps):
            step = one(step)
        last = one.iterate(u, sweeps * plan.steps)
        if not numpy.array_equal(last.view(plan.storage.cell), step.view(plan.storage.cell)):
            problems.append(f"{name}: iterate differs from sweeps one after the other")
    if not numpy.array_equal(before.view(plan.storage.cell), numpy.ascontiguousarray(u).view(plan.storage.cell)):
        problems.append(f"{name}: the input has changed")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random_specs.DEFAULT_SEED)
    arguments = parser.parse_args()
    names = sorted(path.stem for path in (arguments.cases / "specs").glob("random_*.yaml"))
    chosen = random.Random(arguments.seed).sample(names, min(arguments.count, len(names)))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda one: check(arguments.cases, one[1], one[0], arguments.seed), enumerate(chosen)))
    problems = [problem for one in found for problem in one]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(chosen)} specs, seed {arguments.seed}: {len(problems)} problems")
    return 1 if problems or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
