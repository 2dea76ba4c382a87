#!/usr/bin/env python3
"""Calls generated kernels of f16, f32 and bf16 from Python and compares with NumPy: consumer.py LIBRARY, spider.py being on PYTHONPATH.

Runs on the host with a library for it, or an emulated one. With one for CUDA the same calls take arrays of CuPy or PyTorch, or fields of
`Library.field`, as in `diffuse` here.
"""

import dataclasses
import sys

import numpy as np
import spider

import arrays
from arrays import OnDevice, OnHost, refuse


def nearest(values: np.ndarray) -> np.ndarray:
    """One step of diffusion.yaml in double precision."""
    padded = np.pad(values.astype(np.float64), 1, mode="edge")
    inner = slice(1, -1)
    return (padded[inner, inner] + padded[inner, :-2] + padded[inner, 2:]) / 4 + (
        padded[:-2, inner] + padded[2:, inner]) / 8


def diffuse(library: spider.Library) -> None:
    """Fields that the runtime allocates, on the device or on the host: `upload` and `download` copy."""
    diffusion = library.kernel("diffusion")
    values = np.random.default_rng(1).uniform(1, 2, (37, 133)).astype(np.float16)
    a = library.field(diffusion, 37, 133).upload(values)
    b = library.field(diffusion, 37, 133)
    result = diffusion.iterate(a, b, steps=3)
    library.synchronize()
    assert result is b
    expected = values
    for _ in range(3):
        expected = nearest(expected)
    check("diffusion, three steps", result.download(), expected, 3 * 2.0**-11)

    assert diffusion.iterate(a, b, steps=0) is a
    box = library.field(diffusion, 37, 133)
    diffusion.apply_box(a, box, offset=(5, 40), extent=(20, 70))
    whole = diffusion.apply(a, b).download()
    expected = np.zeros_like(whole)
    expected[5:25, 40:110] = whole[5:25, 40:110]
    assert (box.download() == expected).all()


def means(library: spider.Library) -> None:
    """Other storages: a field takes any real numbers, and rounds them to what its kernel stores."""
    values = np.random.default_rng(3).uniform(1, 2, (37, 133)).astype(np.float32)
    coarse = (values.view(np.uint32) & 0xFFFF0000).view(np.float32)  # bf16 is the upper half of f32
    for name, storage, given, (center, up, down, left, right), part in (
            ("tilt", "f32", values, (0.5, 0.1, 0.1, 0.2, 0.1), 2.0**-18),
            ("tint", "bf16", coarse, (1 / 2, 1 / 8, 1 / 16, 1 / 4, 1 / 16), 2.0**-8)):
        kernel = library.kernel(name)
        assert kernel.info.storage == storage
        field = library.field(kernel, 37, 133).upload(given)
        assert (field.download() == given).all()
        result = kernel.apply(field, library.field(kernel, 37, 133)).download()
        assert result.dtype == np.float32
        p = np.pad(given.astype(np.float64), 1, mode="edge")
        expected = (center * p[1:-1, 1:-1] + up * p[:-2, 1:-1] + down * p[2:, 1:-1] + left * p[1:-1, :-2]
                    + right * p[1:-1, 2:])
        check(f"mean in {storage}", result, expected, part)
        if kernel.info.on_host:  # arrays of NumPy: f32 as they are, bf16 as bit patterns
            bits = given if storage == "f32" else (given.view(np.uint32) >> 16).astype(np.uint16)
            again = kernel.apply(bits, np.empty_like(bits))
            wide = again if storage == "f32" else (again.astype(np.uint32) << 16).view(np.float32)
            assert (wide == result).all()


def relax(library: spider.Library) -> None:
    """Three dimensions: arrays are planes, rows, columns."""
    kernel = library.kernel("relax3d")
    values = np.random.default_rng(2).uniform(1, 2, (7, 11, 45)).astype(np.float16)
    a, b = library.field(kernel, 7, 11, 45).upload(values), library.field(kernel, 7, 11, 45)
    result = kernel.apply(a, b).download()
    p = np.pad(values.astype(np.float64), 1, mode="edge")
    n, low, high = slice(1, -1), slice(None, -2), slice(2, None)
    expected = (p[n, n, n] / 4 + p[low, n, n] / 8 + p[high, n, n] / 4 + p[n, low, n] / 8 + p[n, high, n] / 16
                + p[n, n, low] / 8 + p[n, n, high] / 16)
    check("relaxation in 3D", result, expected, 2.0**-11 + 2.0**-18)


def shift(library: spider.Library) -> None:
    """Arrays of NumPy, for a library on the host: a kernel with halo faces takes the interior of a larger array."""
    kernel = library.kernel("shift")
    assert (kernel.info.reach_low, kernel.info.reach_high) == ((0, 1, 2), (0, 0, 0))
    padded = np.arange(38 * 135, dtype=np.int32).reshape(38, 135).astype(np.float16)
    target = np.empty((37, 133), np.float16)
    assert kernel.apply(padded[1:, 2:], target) is target
    assert (target == padded[:-1, :-2]).all()
    # Bit patterns serve, too, and so do rows that lie apart.
    bits = padded.view(np.uint16)
    spaced = np.zeros((37, 200), np.uint16)
    kernel.apply(bits[1:, 2:], spaced[:, :133])
    assert (spaced[:, :133] == bits[:-1, :-2]).all() and not spaced[:, 133:].any()
    # A field is an array, as well.
    field = library.field(kernel, 5, 7).upload(np.ones((5, 7)))
    assert np.asarray(field).shape == (5, 7) and (np.asarray(field) == 1).all()


def parts(library: spider.Library) -> None:
    """Boxes, and arrays that are parts of a larger whole: the bits of a whole sweep, with the whole's rules at its faces."""
    kernel = library.kernel("diffusion")
    values = np.random.default_rng(4).uniform(1, 2, (37, 133)).astype(np.float16)
    whole = kernel.apply(values, np.empty_like(values))
    joined = np.zeros_like(values)
    for rows in (slice(0, 20), slice(20, 21), slice(21, 37)):
        assert kernel.run(values[rows], joined[rows], part=((rows.start, 0), values.shape)) is not None
    assert (joined == whole).all()
    boxed = np.zeros_like(values)
    kernel.run(values, boxed, box=((5, 40), (20, 70)))
    kernel.run(values[20:], boxed[20:], steps=1, box=((10, 0), (7, 3)), part=((20, 0), values.shape))
    expected = np.zeros_like(values)
    expected[5:25, 40:110], expected[30:, :3] = whole[5:25, 40:110], whole[30:, :3]
    assert (boxed == expected).all()
    assert kernel.halo(17, 133, part=((20, 0), (37, 133))) == ((1, 0), (0, 0)) and kernel.halo(37, 133) == ((0, 0), (0, 0))
    alone = values[20:].copy()
    refuse(ValueError, "reads cells beyond the array", kernel.run, alone, alone.copy(), part=((20, 0), (37, 133)))
    refuse(spider.Error, "it must lie inside the whole's 37", kernel.run, alone, alone.copy(), part=((21, 0), (37, 133)))
    refuse(spider.Error, "2 steps of a box or a part", kernel.run, alone, alone.copy(), steps=2, box=((0, 0), (2, 2)))
    refuse(ValueError, "the box is empty", kernel.run, alone, alone.copy(), box=((0, 0), (0, 0)))
    refuse(ValueError, "2 axes, not 3", kernel.run, alone, alone.copy(), part=((0, 0, 0), (1, 17, 133)))


def torch_tensors(library: spider.Library) -> None:
    """Tensors of PyTorch, for a library for CUDA: on a stream of PyTorch's, and captured in a graph of its."""
    try:
        import torch
    except ImportError:
        print("skipped: there is no PyTorch")
        return
    kernel = library.kernel("shift")
    padded = torch.arange(38 * 135, device="cuda").reshape(38, 135).remainder(2048).to(torch.float16)
    expected = padded[:-1, :-2]
    target = torch.empty(37, 133, dtype=torch.float16, device="cuda")
    kernel.apply(padded[1:, 2:], target)  # without a stream: the legacy default stream, which is PyTorch's, too
    assert torch.equal(target, expected)

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    target.zero_()
    kernel.prepare()
    with torch.cuda.graph(graph := torch.cuda.CUDAGraph(), stream=stream):
        kernel.apply(padded[1:, 2:], target, stream=torch.cuda.current_stream())
    assert not target.any()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(target, expected)
    refuse(TypeError, "takes arrays on the device", kernel.apply, padded.cpu().numpy()[1:, 2:], target)
    print("PyTorch: as expected")


def cupy_arrays(library: spider.Library) -> None:
    """Arrays of CuPy, for a library for CUDA: they say which stream they are used on, and a field is one of them."""
    try:
        import cupy
    except ImportError:
        print("skipped: there is no CuPy")
        return
    kernel = library.kernel("shift")
    values = (np.arange(38 * 135) % 2048).reshape(38, 135).astype(np.float16)
    for stream in (cupy.cuda.Stream.null, cupy.cuda.Stream(non_blocking=True)):
        with stream:
            padded, target = cupy.asarray(values), cupy.asarray(np.zeros((37, 133), np.float16))
            assert kernel.apply(padded[1:, 2:], target) is target
            assert (cupy.asnumpy(target) == values[:-1, :-2]).all()
    field = library.field(kernel, 5, 7).upload(values[:5, :7])
    assert (cupy.asnumpy(cupy.asarray(field)) == values[:5, :7]).all()
    print("CuPy: as expected")


def points(library: spider.Library) -> None:
    """Values added to cells and cells read, in f32 whatever a field stores: of a NumPy array or a field."""
    kernel = library.kernel("tint")
    field = library.field(kernel, 5, 7).upload(np.ones((5, 7)))
    cells = kernel.points((5, 7), [(4, 6), (0, 1), (4, 6)])
    # 1 + 2^-8 is no bf16, 1 + 2^-7 is: the sum is rounded once.
    assert cells.add(field, np.float32([2.0**-8, 3, 2.0**-8])) is field
    trace = np.zeros((2, 3), np.float32)
    assert len(cells) == 3 and cells.read(field, trace[1]).base is trace
    assert (trace == [[0, 0, 0], [1 + 2.0**-7, 4, 1 + 2.0**-7]]).all() and field.download().sum() == 35 + 3 + 2.0**-7
    for values, words in ((np.zeros(2, np.float32), "there are 3 points, and 2 values"), (np.zeros(3), "stores f32")):
        try:
            cells.add(field, values)
        except (ValueError, TypeError) as error:
            assert words in str(error), error
        else:
            raise AssertionError(f"{values} were added")


def refusals(library: spider.Library) -> None:
    kernel = library.kernel("diffusion")
    good = np.zeros((4, 8), np.float16)
    read_only = good.copy()
    read_only.flags.writeable = False
    refuse(TypeError, "f16 (<f2 or <u2), the array <f4", kernel.apply, good.astype(np.float32), good)
    refuse(ValueError, "2 dimensions, the array 1", kernel.apply, good[0], good)
    refuse(ValueError, "x has to be contiguous", kernel.apply, good[:, ::2], good[:, :4])
    refuse(ValueError, "read-only", kernel.apply, good, read_only)
    refuse(TypeError, "takes arrays on the host", kernel.apply, OnDevice(shape=(4, 8), typestr="<f2"), good)
    refuse(TypeError, "is no array", kernel.apply, [1, 2], good)
    refuse(TypeError, "is no stream", kernel.apply, good, good.copy(), stream="fast")
    refuse(ValueError, "2 axes, not 3", kernel.apply_box, good, good.copy(), (0, 0, 0), (1, 1, 1))
    refuse(spider.Error, "spider_apply: ", kernel.apply, good, good)
    refuse(spider.Error, "spider_apply: ", kernel.apply, good[::-1], good.copy())
    refuse(spider.Error, "spider_iterate: ", kernel.iterate, good, good.copy(), -1)
    # ctypes cuts integers to 64 bits, which would make each of these a call that does nothing or too little.
    refuse(OverflowError, "steps: 18446744073709551616 does not fit", kernel.iterate, good, good.copy(), 2**64)
    refuse(OverflowError, "the box: ", kernel.apply_box, good, good.copy(), (0, 0), (2**64 + 1, 8))
    refuse(OverflowError, "the array's shape: ", kernel.apply, OnHost(good, shape=(2**64 + 4, 8)), good.copy())
    refuse(OverflowError, "the extents: ", library.field, kernel, 2**64 + 4, 8)
    refuse(spider.Error, "extent 1099511627776 on axis y", library.field, kernel, 2**40, 2**40)
    refuse(spider.Error, "extent -1 on axis x", library.field, kernel, 4, -1)
    refuse(OverflowError, "the field's bytes: ", library.field, library.kernel("relax3d"), 2**30, 2**30, 2**30)
    refuse(TypeError, "integer", kernel.iterate, good, good.copy(), 1.5)
    refuse(TypeError, "integer", kernel.apply_box, good, good.copy(), (0, 0.5), (1, 1))
    refuse(TypeError, "integer", library.field, kernel, 4.5, 8)
    assert kernel.iterate(good, good.copy(), np.int64(0)) is good
    empty = library.field(kernel, 4, 0)  # as an array without elements
    assert kernel.apply(empty, library.field(kernel, 4, 0)).download().shape == (4, 0)
    refuse(AttributeError, "no function absent_kernel", library.kernel, "absent")
    refuse(OSError, "", spider.load, "/nowhere/libkernels.so")
    refuse(spider.Error, "holds no spider runtime", spider.load, "libm.so.6")
    refuse(ValueError, "(4, 8), the array (8, 4)", library.field(kernel, 4, 8).upload, np.zeros((8, 4)))


def device_arrays(library: spider.Library) -> None:
    """How arrays of a device are read, as far as that can be seen without one."""
    on_device = dataclasses.replace(library.kernel("diffusion").info, backend="cuda")
    whole = spider._View.of(OnDevice(shape=(4, 8), typestr="<f2", strides=None, stream=7), on_device, True)
    assert list(whole.field.extent) == [1, 4, 8] and list(whole.field.stride) == [0, 8] and whole.stream == 7
    view = OnDevice(shape=(4, 8), typestr="<f2", strides=(64, 2))
    assert list(spider._View.of(view, on_device, True).field.stride) == [0, 32]
    assert spider._choose_stream(None, whole, whole) == 7 and spider._choose_stream(3, whole) == 3
    refuse(ValueError, "different streams", spider._choose_stream, None, whole, dataclasses.replace(whole, stream=8))
    refuse(TypeError, "takes arrays on the device", spider._View.of, np.zeros((4, 8), np.float16), on_device, False)

    class TorchStream:
        cuda_stream = 5

    assert spider._choose_stream(TorchStream(), whole) == 5
    # Any storage, any number of dimensions.
    volume = dataclasses.replace(on_device, dimensions=3, storage="f32")
    field = spider._View.of(OnDevice(shape=(3, 4, 5), typestr="<f4"), volume, False).field
    assert list(field.extent) == [3, 4, 5] and list(field.stride) == [20, 5]
    line = dataclasses.replace(on_device, dimensions=1, storage="bf16")
    field = spider._View.of(OnDevice(shape=(9,), typestr="<V2"), line, False).field
    assert list(field.extent) == [1, 1, 9] and list(field.stride) == [0, 0]


def check(what: str, result: np.ndarray, expected: np.ndarray, relative: float) -> None:
    error = (np.abs(result - expected) / np.abs(expected)).max()
    print(f"{what}: relative error {error:.1e}")
    assert error <= relative, what


def main() -> None:
    library = spider.load(sys.argv[1])
    diffuse(library)
    relax(library)
    means(library)
    if library.kernel("shift").info.on_host:
        shift(library)
        parts(library)
        points(library)
        refusals(library)
        device_arrays(library)
        arrays.check(library)
    else:
        torch_tensors(library)
        cupy_arrays(library)
    print("passed")


if __name__ == "__main__":
    main()
