"""Checks kernels by NVRTC on a GPU: a sweep, steps, an update, a system and a gradient against NumPy, how long the first result
takes, and, where nvcc is, that random specs of the accuracy tests give the bits that nvcc's kernels give.

    check_nvrtc.py [--bare] [--cases DIR --count N --seed N]

--bare: there must be no nvcc, no host compiler and no CMake on PATH, and the checks against nvcc are left out."""

import argparse
import concurrent.futures
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

import numpy

import spider_gen
from spider_gen import _compilers

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEAT = {"stencil": "heat", "dimensions": 2, "storage": "f32", "shape": "star", "boundary": "nearest",
        "coefficients": {"center": 0.5, "y": [0.125, 0.125], "x": [0.125, 0.125]}}
UPDATE = {"stencil": "wave", "dimensions": 2, "storage": "f32", "sums": {"lap": {"shape": "laplacian"}}, "boundary": {"constant": 0},
          "previous": "u_old", "fields": ["k"], "scalars": ["a"], "update": "2*u - u_old + a*k*lap"}
SYSTEM = {"stencil": "line", "dimensions": 1, "storage": "f32", "fields": ["p", "v"], "boundary": "periodic",
          "stages": [{"v": "v + 0.25*(p[1] - p)"}, {"p": "p + 0.25*(v - v[-1])"}], "reduce": {"mass": {"sum": "p"}, "most": {"max": "abs(v)"}}}
TIMED = """
import sys, time
import numpy
begin = time.perf_counter()
import spider_gen
one = spider_gen.stencil(sys.argv[1], backend="cuda")
one(numpy.zeros((1024, 1024), numpy.float16)[256:768, 256:768])
print(f"{time.perf_counter() - begin:.3f}")
"""


def around(u):
    padded = numpy.pad(u, 1, "edge")
    return 0.5 * u + 0.125 * (padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:])


def check_sweeps(rng):
    u = rng.random((300, 517)).astype(numpy.float32)
    one = spider_gen.stencil(HEAT, backend="cuda")
    numpy.testing.assert_allclose(one(u), around(u.astype(float)), rtol=8 * numpy.finfo("f4").eps)
    wanted = u.astype(float)
    for _ in range(32):
        wanted = around(wanted)
    numpy.testing.assert_allclose(one.iterate(u, 32), wanted, rtol=32 * 8 * numpy.finfo("f4").eps)


def check_steps(rng):
    """The shipped kernel that takes all in a sweep, against single steps in double precision."""
    one = spider_gen.stencil(ROOT / "stencils" / "heat2d_steps_f32.yaml", backend="cuda")
    u = rng.random((700, 900)).astype(numpy.float32)
    alone = spider_gen.stencil(ROOT / "stencils" / "heat2d_f64.yaml", backend="cuda").iterate(u.astype(float), 32)
    numpy.testing.assert_allclose(one.iterate(u, 32), alone, rtol=32 * 8 * numpy.finfo("f4").eps)


def check_update(rng):
    u, u_old, k = (rng.random((90, 130)).astype(numpy.float32) for _ in range(3))
    padded = numpy.pad(u.astype(float), 1)
    lap = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:] - 4 * u.astype(float)
    wanted = 2 * u.astype(float) - u_old + 0.1 * k * lap
    numpy.testing.assert_allclose(spider_gen.stencil(UPDATE, backend="cuda")(u, u_old=u_old, k=k, a=0.1), wanted, atol=2e-6)


def check_system(rng):
    p, v = (rng.random(4001).astype(numpy.float32) for _ in range(2))
    new = spider_gen.stencil(SYSTEM, backend="cuda").iterate({"p": p, "v": v}, 10)
    p, v = p.astype(float), v.astype(float)
    for _ in range(10):
        v = v + 0.25 * (numpy.roll(p, -1) - p)
        p = p + 0.25 * (v - numpy.roll(v, 1))
    numpy.testing.assert_allclose(new["p"], p, atol=1e-5)
    numpy.testing.assert_allclose(new["v"], v, atol=1e-5)


def check_gradient(rng):
    """The dot-product test of the adjoint, which is a system of its own."""
    try:
        import torch
    except ImportError:
        return "skipped: no PyTorch"
    one = spider_gen.stencil({**HEAT, "storage": "f64"}, backend="cuda")
    u, seed = (torch.from_numpy(rng.random((70, 90))).cuda() for _ in range(2))
    u.requires_grad_()
    out = one(u)
    out.backward(seed)
    numpy.testing.assert_allclose(float((out.detach() * seed).sum()), float((u.detach() * u.grad).sum()), rtol=1e-13)
    return ""


def check_times():
    """From an empty cache to the first result, and again in another process, with the import of the package."""
    for name in ("heat2d", "box2d_r7"):
        with tempfile.TemporaryDirectory() as cache:
            said = [subprocess.run([sys.executable, "-c", TIMED, str(ROOT / "stencils" / f"{name}.yaml")], capture_output=True, text=True,
                                   check=True, env={**os.environ, "SPIDER_GEN_CACHE": cache}).stdout.strip() for _ in range(2)]
            one = spider_gen.stencil(ROOT / "stencils" / f"{name}.yaml", backend="cuda")
            one._kernel(_compilers.cuda())
            again = spider_gen.stencil(ROOT / "stencils" / f"{name}.yaml", backend="cuda")
            begin = time.perf_counter()
            again._kernel(_compilers.cuda())
            print(f"time {name}: first result {said[0]} s, cached in another process {said[1]} s; a cached kernel alone "
                  f"{1e3 * (time.perf_counter() - begin):.1f} ms", flush=True)


def check_bits(cases, count, seed):
    sys.path.insert(0, str(ROOT / "tests" / "harness"))
    import reference

    device = _compilers.device()
    toolchains = _compilers._by_nvcc(device), _compilers._by_nvrtc(device)
    assert toolchains[0] is not None, "no nvcc"
    names = sorted(path.stem for path in (cases / "specs").glob("random_*.yaml"))
    chosen = random.Random(seed).sample(names, min(count, len(names)))
    plans = [reference.load_plan(cases / "plans" / f"{name}.json") for name in chosen]
    made = [spider_gen.stencil(cases / "specs" / f"{name}.yaml", backend="cuda", options=plan.options) for name, plan in zip(chosen, plans)]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda given: given[0]._kernel(given[1]), [(one, toolchain) for one in made for toolchain in toolchains]))
    problems = []
    for number, (name, plan, one) in enumerate(zip(chosen, plans, made)):
        own = (7, 9, 45)[3 - plan.dimensions:] if plan.dimensions == 3 else (1, 137, 543)[3 - plan.dimensions:]
        halo = one.halo(*own)
        padded = plan.storage.encode(numpy.random.default_rng([seed, number]).uniform(-1, 1, [low + n + high for n, (low, high) in zip(own, halo)]))
        if plan.storage.name != "bf16":
            padded = padded.view({"f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64}[plan.storage.name])
        u = padded[tuple(slice(low, low + n) for n, (low, _) in zip(own, halo))]
        results = []
        for toolchain in toolchains:
            one._toolchain_for = lambda array, chain=toolchain: chain
            results.append([one(u)] + ([] if any(map(any, halo)) else [one.iterate(u, 2 * plan.steps)]))
        if any(a.tobytes() != b.tobytes() for a, b in zip(*results)):
            problems.append(name)
    print(f"{len(chosen)} specs, seed {seed}: {len(problems)} differ from nvcc's", *problems, flush=True)
    assert chosen and not problems


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bare", action="store_true")
    parser.add_argument("--cases", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=45)
    arguments = parser.parse_args()
    os.environ["SPIDER_GEN_CUDA_COMPILER"] = "nvrtc"
    if arguments.bare:
        found = [name for name in ("nvcc", "gcc", "g++", "cc", "c++", "clang", "cmake") if shutil.which(name)]
        assert not found, f"these are on PATH: {found}"
    print(_compilers.cuda(), flush=True)
    checks = {name: lambda check=check: check(numpy.random.default_rng(arguments.seed)) for name, check in (
        ("a sweep, 32 of them", check_sweeps), ("32 steps in a sweep", check_steps), ("an update", check_update),
        ("a system", check_system), ("a gradient", check_gradient))}
    checks["times"] = check_times
    if arguments.cases and not arguments.bare:
        checks = {"bits": lambda: check_bits(arguments.cases, arguments.count, arguments.seed)}
    failed = 0
    for name, check in checks.items():
        begin = time.perf_counter()
        try:
            said = check() or ""
            print(f"PASS {name} ({time.perf_counter() - begin:.1f} s) {said}", flush=True)
        except Exception as error:
            failed += 1
            print(f"FAIL {name}: {type(error).__name__}: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
