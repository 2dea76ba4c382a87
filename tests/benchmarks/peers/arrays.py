#!/usr/bin/env python3
"""One sweep of a stencil by an array library, as its users would write it: arrays.py LIBRARY STORAGE EDGE RADIUS...

LIBRARY is torch (its convolution, which is cuDNN's), cupy (cupyx.scipy.ndimage.correlate) or fft (cupyx.scipy.signal.fftconvolve,
which is cuFFT); a square field of EDGE x EDGE cells of f16 or f32, boxes of weights that are all different. Compares 64 cells
with sums in double precision, then prints the rate of the best of three rounds, after a round that is not counted."""

import sys
import time

import numpy

ROUNDS, SWEEPS = 3, 5


def prepare_torch(field, weights):
    import torch
    radius = weights.shape[0] // 2
    cells = torch.from_numpy(field).cuda()[None, None]
    kernel = torch.from_numpy(weights).cuda()[None, None]
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = False
    return (lambda: torch.nn.functional.conv2d(cells, kernel, padding=radius)), torch.cuda.synchronize, lambda out: out[0, 0].cpu().numpy()


def prepare_cupy(field, weights):
    import cupy
    import cupyx.scipy.ndimage
    cells, kernel = cupy.asarray(field), cupy.asarray(weights)
    return (lambda: cupyx.scipy.ndimage.correlate(cells, kernel, mode="constant")), cupy.cuda.Device().synchronize, cupy.asnumpy


def prepare_fft(field, weights):
    import cupy
    import cupyx.scipy.signal
    cells, kernel = cupy.asarray(field), cupy.asarray(weights[::-1, ::-1])
    return (lambda: cupyx.scipy.signal.fftconvolve(cells, kernel, mode="same")), cupy.cuda.Device().synchronize, cupy.asnumpy


def measure(library, field, weights, draw):
    """Compares, then times."""
    edge, radius = field.shape[0], weights.shape[0] // 2
    sweep, wait, fetch = {"torch": prepare_torch, "cupy": prepare_cupy, "fft": prepare_fft}[library](field, weights)
    out = fetch(sweep())
    # Terms in the storage's precision; FFTs err by the whole field's largest values.
    sum_of_weights = float(numpy.abs(weights).sum(dtype=numpy.float64))
    allowed = float(numpy.finfo(field.dtype).eps) * (weights.size + 20) * float(numpy.abs(field).max()) * sum_of_weights
    for y, x in draw.integers(radius, edge - radius, (64, 2)):
        window = field[y - radius:y + radius + 1, x - radius:x + radius + 1].astype(numpy.float64)
        wanted = float((window * weights.astype(numpy.float64)).sum())
        if not abs(float(out[y, x]) - wanted) <= allowed:
            sys.exit(f"cell {y}, {x} is {out[y, x]}, not {wanted}")
    best = float("inf")
    for _ in range(ROUNDS):
        wait()
        begin = time.perf_counter()
        for _ in range(SWEEPS):
            sweep()
        wait()
        best = min(best, (time.perf_counter() - begin) / SWEEPS)
    print(f"radius {radius}: checked; GStencil/s = {edge * edge / best / 1e9:.2f}")


def main():
    library, storage, edge = sys.argv[1], sys.argv[2], int(sys.argv[3])
    kind = {"f16": numpy.float16, "f32": numpy.float32}[storage]
    draw = numpy.random.default_rng(1)
    field = draw.standard_normal((edge, edge), dtype=numpy.float32).astype(kind)
    for radius in map(int, sys.argv[4:]):
        weights = draw.random((2 * radius + 1,) * 2).astype(kind)
        weights /= weights.sum(dtype=numpy.float64).astype(kind)
        measure(library, field, weights, draw)


if __name__ == "__main__":
    main()
