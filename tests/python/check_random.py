"""Random specs of the accuracy tests through the Python package against the reference of tests/harness (which SciPy agrees
with), and iterate against sweeps one after the other. On the host, or with --arrays cupy or torch on a GPU:

    check_random.py --cases DIR [--count N] [--seed N] [--arrays numpy|cupy|torch] [--kernels NAME...]"""

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


def to_library(padded, arrays):
    """An array of NumPy, as one of another library on a GPU; of bf16 the bits but for PyTorch."""
    if arrays == "cupy":
        import cupy

        return cupy.asarray(padded)
    if arrays == "torch":
        import torch

        if padded.dtype == numpy.uint16:
            return torch.from_numpy(padded.view(numpy.int16)).cuda().view(torch.bfloat16)
        return torch.from_numpy(padded).cuda()
    return padded


def cells(array, storage):
    """The bits of an array of any library, as one of NumPy."""
    if type(array).__module__.startswith("torch"):
        import torch

        array = (array.view(torch.int16) if array.dtype == torch.bfloat16 else array).cpu().numpy()
    elif type(array).__module__.startswith("cupy"):
        array = array.get()
    return numpy.ascontiguousarray(array).view(storage.cell)


def check(cases, name, number, seed, arrays):
    """What is wrong with one spec's results."""
    plan = reference.load_plan(cases / "plans" / f"{name}.json")
    path = cases / "specs" / f"{name}.yaml"
    spec = path if number % 2 else as_mapping(path)
    one = spider_gen.stencil(spec, backend="host" if arrays == "numpy" else "cuda", options=plan.options)
    rng = numpy.random.default_rng([seed, number])
    extent = EXTENTS[plan.dimensions]
    own = extent[3 - plan.dimensions:]
    halo = one.halo(*own)
    shape = [low + n + high for n, (low, high) in zip(own, halo)]
    numbers = rng.uniform(-1, 1, shape)
    padded = plan.storage.encode(numbers)
    if plan.storage.name != "bf16":
        padded = padded.view({"f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64}[plan.storage.name])
    inner = tuple(slice(low, low + n) for n, (low, _) in zip(own, halo))
    if number % 3 == 0:  # a slice of something larger
        u = to_library(numpy.pad(padded, 2), arrays)
        u = u[tuple(slice(2, 2 + n) for n in shape)][inner]
    elif number % 3 == 1 and plan.dimensions > 1:  # every second row, every third plane
        steps = (slice(None, None, 3), slice(None, None, 2), slice(None))[3 - plan.dimensions:]
        whole = numpy.zeros([n * (step.step or 1) for n, step in zip(shape, steps)], padded.dtype)
        whole[steps] = padded
        u = to_library(whole, arrays)[steps][inner]
    else:
        u = to_library(padded, arrays)[inner]
    before = cells(u, plan.storage).copy()
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
    found = plan.storage.decode(cells(got, plan.storage)).reshape(extent)
    bound = reference.error_bound(plan, total, magnitude, numpy.abs(values).max())
    beyond = ~(numpy.abs(found - total) <= bound) & (numpy.abs(total) < plan.storage.overflow)
    if beyond.any():
        problems.append(f"{name}: {beyond.sum()} of {beyond.size} values beyond the bound")
    out = got * 0
    if one(u, out=out) is not out or not numpy.array_equal(cells(out, plan.storage), cells(got, plan.storage)):
        problems.append(f"{name}: out= gives something else")
    # Single sweeps one after the other are what iterate does, but that steps of one sweep are not rounded between.
    sweeps = 3
    if not any(map(any, halo)):
        step = u
        for _ in range(sweeps):
            step = one(step)
        last = one.iterate(u, sweeps * plan.steps)
        if not numpy.array_equal(cells(last, plan.storage), cells(step, plan.storage)):
            problems.append(f"{name}: iterate differs from sweeps one after the other")
    if not numpy.array_equal(before, cells(u, plan.storage)):
        problems.append(f"{name}: the input has changed")
    return problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=random_specs.DEFAULT_SEED)
    parser.add_argument("--arrays", choices=("numpy", "cupy", "torch"), default="numpy")
    parser.add_argument("--kernels", nargs="*", metavar="NAME", help="only these")
    arguments = parser.parse_args()
    names = arguments.kernels or sorted(path.stem for path in (arguments.cases / "specs").glob("random_*.yaml"))
    chosen = random.Random(arguments.seed).sample(names, min(arguments.count, len(names)))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(lambda one: check(arguments.cases, one[1], one[0], arguments.seed, arguments.arrays),
                              enumerate(chosen)))
    problems = [problem for one in found for problem in one]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(chosen)} specs, seed {arguments.seed}: {len(problems)} problems")
    return 1 if problems or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
