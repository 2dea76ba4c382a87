"""Checks the package on a GPU, with arrays of CuPy and PyTorch: points in f32 and f64, arrays of any strides and of other
libraries, gradients, and the time of a call. A difference, or a call of 40 us or more, is an error.

    check_device.py [--only points|arrays|gradients|calls]"""

import argparse
import importlib
import sys
import time

import cupy
import numpy
import torch

import spider_gen

HEAT = {"stencil": "heat", "dimensions": 2, "shape": "star", "radius": 1, "boundary": "nearest",
        "coefficients": {"center": 0.5, "y": [0.125, 0.125], "x": [0.125, 0.125]}}
MOST_IN_COMPILED = 50  # 24 to 44 were seen on H200s' hosts
MOST_MICROSECONDS = 40  # twice what calls took on an H200's host: machines of one kind differ by half


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


class Bare:
    """An array that has __cuda_array_interface__ alone."""

    def __init__(self, array):
        self.held, self.__cuda_array_interface__ = array, array.__cuda_array_interface__


def refuse(kind, words, call):
    try:
        call()
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError(f"not refused: {words}")


def check_strides():
    """Backwards, with gaps, and 0, with and without halo faces, and on a stream of the caller's."""
    host = numpy.random.default_rng(7).random((64, 82)).astype(numpy.float32)
    one = spider_gen.stencil({**HEAT, "storage": "f32"}, backend="cuda")
    halo = spider_gen.stencil({**HEAT, "storage": "f32", "boundary": "halo"}, backend="cuda")
    libraries = (("CuPy", cupy.asarray, cupy.asnumpy, cupy.cuda.Stream(non_blocking=True), True),
                 ("PyTorch", lambda a: torch.from_numpy(a).cuda(), lambda a: a.cpu().numpy(), torch.cuda.Stream(), False))
    for name, to, back, stream, has_negative in libraries:
        views = [lambda a: a[::2], lambda a: a[:, ::2], lambda a: a.T, lambda a: a[1:-1, 1:-1],
                 lambda a: cupy.broadcast_to(a[:1], a.shape) if isinstance(a, cupy.ndarray) else a[:1].expand(*a.shape)]
        views += [lambda a: a[::-1], lambda a: a[::-1, ::-2]] if has_negative else []
        for view in views:
            u = view(to(host))
            dense = to(numpy.ascontiguousarray(back(u)))
            numpy.testing.assert_array_equal(back(one(u)), back(one(dense)))
            numpy.testing.assert_array_equal(back(one.iterate(u, 3)), back(one.iterate(dense, 3)))
            cupy.cuda.runtime.deviceSynchronize()
            results = one(u, stream=stream), one.iterate(u, 3, stream=stream)
            cupy.cuda.runtime.deviceSynchronize()
            for result, wanted in zip(results, (one(dense), one.iterate(dense, 3))):
                numpy.testing.assert_array_equal(back(result), back(wanted))
        padded = to(host)
        numpy.testing.assert_array_equal(back(halo(padded.T[1:-1, 1:-1])), back(halo(to(host.T.copy())[1:-1, 1:-1])))
        if has_negative:
            numpy.testing.assert_array_equal(back(halo(padded[::-1][1:-1, 1:-1])), back(halo(to(host[::-1].copy())[1:-1, 1:-1])))
        refuse(ValueError, "out has strides", lambda: one(to(host), out=to(host.T.copy()).T))  # noqa: B023
        assert tuple(one(to(host)[:0]).shape) == (0, 82)
        print(f"{name}: arrays of {len(views)} kinds of strides as dense ones")


def check_libraries():
    """Arrays of other libraries, and tensors that record what is computed."""
    host = numpy.random.default_rng(7).random((64, 80)).astype(numpy.float32)
    one = spider_gen.stencil({**HEAT, "storage": "f32"}, backend="cuda")
    u = cupy.asarray(host)
    wanted, out = cupy.asnumpy(one(u)), cupy.empty_like(u)
    got = one(Bare(u))
    assert isinstance(got, cupy.ndarray)
    numpy.testing.assert_array_equal(cupy.asnumpy(got), wanted)
    bare = Bare(out)
    assert one(u, out=bare) is bare
    numpy.testing.assert_array_equal(cupy.asnumpy(out), wanted)
    found = ["__cuda_array_interface__"]
    for name, make in (("numba.cuda", lambda library: library.to_device(host)),
                       ("jax.numpy", lambda library: library.asarray(host)), ("warp", lambda library: library.array(host, device="cuda"))):
        try:
            library = importlib.import_module(name)
        except ImportError:
            continue
        array = make(library)
        on_host = numpy.asarray if name == "jax.numpy" else cupy.asnumpy
        numpy.testing.assert_array_equal(on_host(one(array)), wanted)
        numpy.testing.assert_array_equal(on_host(one.iterate(array, 3)), cupy.asnumpy(one.iterate(u, 3)))
        if name == "jax.numpy":
            refuse(TypeError, "immutable", lambda: one(u, out=array))  # noqa: B023
        found.append(name)
    leaf = torch.from_numpy(host).cuda().requires_grad_()
    for _ in range(2):
        refuse(TypeError, "u requires a gradient", lambda: one(leaf, out=torch.empty_like(leaf)))
        numpy.testing.assert_array_equal(one(leaf.detach()).cpu().numpy(), wanted)
    saved = leaf.detach().clone()
    for _ in range(2):
        total = (leaf * saved).sum()
        one(leaf.detach(), out=saved)
        refuse(RuntimeError, "modified by an inplace operation", total.backward)
    print(f"arrays of {', '.join(found)} as CuPy's; gradients are refused where there are none")


def check_updates(leaf):
    """Gradients of time steps whose states are kept, in 16 bits, too, and by torch.func."""
    wave = spider_gen.stencil({"dimensions": 2, "storage": "f64", "sums": {"lap": {"shape": "laplacian"}}, "boundary": {"constant": 0},
                               "previous": "u_old", "fields": ["k"], "update": "2*u - u_old + 0.1*k*lap + 0.01*u*u"})

    def steps(u, k, **keeps):
        return wave.iterate(u, 7, u_old=u, k=k, **keeps)[0]

    given = leaf, torch.rand_like(leaf).requires_grad_()
    assert torch.autograd.gradcheck(lambda *own: steps(*own, checkpoint=1), given)
    wanted = torch.autograd.grad(steps(*given).sum(), given)
    for keeps in ({"checkpoint": 1}, {"checkpoint": 3}, {"checkpoint": 1, "snapshots": "f16"}, {"snapshots": "f16"}):
        # Of 16 bits 2^-11 of a state, in a Laplacian whose weights have a sum of 8.
        bound = 2**-8 if "snapshots" in keeps else 1e-12
        compiled = torch.compile(lambda *own: steps(*own, **keeps).sum(), fullgraph=True)  # noqa: B023
        for found in (torch.autograd.grad(steps(*given, **keeps).sum(), given), torch.autograd.grad(compiled(*given), given)):
            for a, b in zip(found, wanted):
                torch.testing.assert_close(a, b, rtol=0, atol=bound * float(b.abs().max()))
    plain = [one.detach() for one in given]
    torch.testing.assert_close(torch.func.grad(lambda *own: steps(*own).sum(), (0, 1))(*plain), wanted)
    stacks = [torch.stack([one, 2 * one]) for one in plain]
    found = torch.func.vmap(torch.func.grad(lambda *own: steps(*own).sum()))(*stacks)
    torch.testing.assert_close(found[0], wanted[0])


def check_gradients():
    """Operators of PyTorch: gradients, without a graph break, and in a CUDA graph."""
    taps = [{"at": [0, 0], "weight": 0.5}, {"at": [0, 1], "weight": 0.2}, {"at": [-2, 0], "weight": 0.1}]
    one = spider_gen.stencil({"dimensions": 2, "storage": "f64", "shape": "taps", "coefficients": taps, "boundary": "nearest"})
    leaf = torch.rand(5, 7, dtype=torch.float64, device="cuda", requires_grad=True)
    for call in (one, lambda u: one.iterate(u, 3)):
        assert torch.autograd.gradcheck(call, (leaf,)) and torch.autograd.gradgradcheck(call, (leaf,))
        compiled = torch.compile(lambda u: (call(2 * u) ** 2).sum(), fullgraph=True)  # noqa: B023
        wanted = torch.autograd.grad((call(2 * leaf) ** 2).sum(), leaf)[0]
        torch.testing.assert_close(torch.autograd.grad(compiled(leaf), leaf)[0], wanted)
    text, still = f"{one._key};u;;;;", leaf.detach().clone()
    for operator in (lambda: torch.ops.spider_gen.run([still], [], [0.0], text, -1, 0),
                     lambda: torch.ops.spider_gen.sweep([still], [0.0], text)):
        operator()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured = operator()[0]
        still.mul_(3)
        graph.replay()
        torch.testing.assert_close(captured, one(still))
    torch.library.opcheck(torch.ops.spider_gen.run.default, ([leaf], [], [0.0], text, 3, 0))
    torch.library.opcheck(torch.ops.spider_gen.sweep.default, ([still], [0.0], text))
    check_updates(leaf)
    print("gradients of PyTorch, compiled and in a CUDA graph")


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


def check_compiled_calls(slow):
    """One more call in a compiled function: eleven but one, by ten."""
    line = spider_gen.stencil({"dimensions": 1, "storage": "f32", "shape": "star", "radius": 1, "boundary": "periodic",
                               "coefficients": {"center": 0.5, "x": [0.25, 0.25]}}, backend="cuda")
    u = torch.rand(512, device="cuda")

    def chain(u, count):
        for _ in range(count):
            u = line(u)
        return u

    for mode in ("default", "reduce-overhead"):
        costs = []
        for count in (1, 11):
            torch._dynamo.reset()
            compiled = torch.compile(lambda u: chain(u, count), fullgraph=True, mode=mode)  # noqa: B023
            torch.testing.assert_close(compiled(u), chain(u, count))
            costs.append(microseconds(lambda: compiled(u)))  # noqa: B023
        cost = (costs[1] - costs[0]) / 10
        print(f"PyTorch: one more sweep in a compiled function, {mode}: {cost:.1f} us; a function of one: {costs[0]:.1f} us")
        if not cost < MOST_IN_COMPILED:
            slow.append(f"one more sweep in a compiled function, {mode}: {cost:.1f} us")


def check_calls():
    one = spider_gen.stencil({**HEAT, "storage": "f32"}, backend="cuda")
    wave = spider_gen.stencil({**HEAT, "stencil": "wave", "storage": "f32", "previous": "u_old", "fields": ["c"],
                               "update": "2*u - u_old + c*sum"}, backend="cuda")
    slow = []
    check_compiled_calls(slow)
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
    parser.add_argument("--only", choices=("points", "arrays", "gradients", "calls"))
    only = parser.parse_args().only
    if only in (None, "points"):
        for storage in ("f32", "f64"):
            check_points(storage, numpy.random.default_rng(20262001))
    if only in (None, "arrays"):
        check_strides()
        check_libraries()
    if only in (None, "gradients"):
        check_gradients()
    if only in (None, "calls"):
        check_calls()


if __name__ == "__main__":
    main()
