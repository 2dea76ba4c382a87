"""What the package does on a GPU beside sweeps, with arrays of CuPy and PyTorch: points, of f32 and f64, and what a call
costs. Prints both; a difference, or a call of 20 us or more, is an error.

    check_device.py [--only points|calls]"""

import argparse
import sys
import time

import cupy
import numpy
import torch

import spider_gen

HEAT = {"stencil": "heat", "dimensions": 2, "shape": "star", "radius": 1, "boundary": "nearest",
        "coefficients": {"center": 0.5, "y": [0.125, 0.125], "x": [0.125, 0.125]}}
MOST_MICROSECONDS = 20


def check_points(storage, rng):
    """Points at random cells, some of them listed more than once, of views whose rows are not aligned, against NumPy."""
    number = {"f32": numpy.float32, "f64": numpy.float64}[storage]
    one = spider_gen.stencil({**HEAT, "storage": storage}, backend="cuda")
    whole = rng.random((37, 61)).astype(number)
    cells = [(int(rng.integers(35)), int(rng.integers(57))) for _ in range(300)] + [(34, 56), (34, 56), (0, 0)]
    values = rng.random(len(cells)).astype(number)
    wanted = whole.copy()
    inner = wanted[1:36, 3:60]
    sums = {}
    for cell, value in zip(cells, values):  # in the order of the list, rounded once: with room for many in f32's case
        sums[cell] = sums.get(cell, numpy.longdouble(0)) + numpy.longdouble(value)
    for cell, total in sums.items():
        inner[cell] = numpy.longdouble(inner[cell]) + total
    at = tuple(zip(*cells))
    for library, to, back in ((cupy, cupy.asarray, cupy.asnumpy),
                              (torch, lambda a: torch.from_numpy(a).cuda(), lambda a: a.cpu().numpy())):
        device = to(whole.copy())
        u = device[1:36, 3:60]
        points = one.points(u.shape, cells)
        given = to(values)
        assert points.add(u, given) is u
        got = back(device)
        numpy.testing.assert_allclose(got, wanted, rtol=4 * numpy.finfo(number).eps, atol=0)
        untouched = numpy.ones(whole.shape, bool)
        untouched[1:36, 3:60][at] = False
        numpy.testing.assert_array_equal(got[untouched], whole[untouched])
        numpy.testing.assert_array_equal(back(points.read(u)), got[1:36, 3:60][at])
        trace = to(numpy.zeros((3, len(cells)), number))
        points.read(u, out=trace[1])
        numpy.testing.assert_array_equal(back(trace), [0 * values, got[1:36, 3:60][at], 0 * values])
    print(f"points of {storage}: {len(cells)} of CuPy and PyTorch as NumPy has them")


def microseconds(call, count=2000):
    """The least of ten runs, of the time in which calls return; the device is done with one before the next comes."""
    call()
    least = float("inf")
    for _ in range(10):
        cupy.cuda.runtime.deviceSynchronize()
        begin = time.perf_counter()
        for _ in range(count // 10):
            call()
        least = min(least, (time.perf_counter() - begin) / (count // 10))
        cupy.cuda.runtime.deviceSynchronize()
    return 1e6 * least


def check_calls():
    one = spider_gen.stencil({**HEAT, "storage": "f32"}, backend="cuda")
    wave = spider_gen.stencil({**HEAT, "stencil": "wave", "storage": "f32", "previous": "u_old", "fields": ["c"],
                               "update": "2*u - u_old + c*sum"}, backend="cuda")
    slow = []
    for name, make in (("CuPy", lambda: cupy.zeros((256, 256), cupy.float32)),
                       ("PyTorch", lambda: torch.zeros((256, 256), device="cuda"))):
        u, out, c, old = (make() for _ in range(4))
        points = one.points(u.shape, [(3, 4), (5, 6)])
        trace = points.read(u)
        for what, call in (("sweep", lambda: one(u, out=out)),
                           ("sweep into a new array", lambda: one(u)),
                           ("update with 2 fields", lambda: wave(u, out=old, u_old=old, c=c)),
                           ("points read", lambda: points.read(u, out=trace))):
            cost = microseconds(call)
            print(f"{name}: {what}: {cost:.1f} us a call")
            if not cost < MOST_MICROSECONDS:
                slow.append(f"{name}: {what}: {cost:.1f} us a call")
    if slow:
        sys.exit("; ".join(slow))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("points", "calls"))
    only = parser.parse_args().only
    if only != "calls":
        for storage in ("f32", "f64"):
            check_points(storage, numpy.random.default_rng(20262001))
    if only != "points":
        check_calls()


if __name__ == "__main__":
    main()
