"""Pictures of fields as PNG, by the standard library's zlib."""

from __future__ import annotations

import os
import struct
import zlib

import numpy

# Viridis as polynomials of degree 6 in 0 .. 1, for red, green and blue (Matt Zucker's fit).
_VIRIDIS = numpy.array([
    (0.2777273272234177, 0.005407344544966578, 0.3340998053353061),
    (0.1050930431085774, 1.404613529898575, 1.384590162594685),
    (-0.3308618287255563, 0.214847559468213, 0.09509516302823659),
    (-4.634230498983486, -5.799100973351585, -19.33244095627987),
    (6.228269936347081, 14.17993336680509, 56.69055260068105),
    (4.776384997670288, -13.74514537774601, -65.35303263337234),
    (-5.435455855934631, 4.645852612178535, 26.3124352495832),
])
_MOST_PIXELS = 2048


def write(path: str | os.PathLike, field: numpy.ndarray) -> None:
    """Writes a field as a picture: a 2D field as it is, of a 3D field the middle plane, of a 1D field a band. From its
    least value, dark, to its greatest; what is not finite is grey. Large fields are drawn by every n-th point."""
    if field.ndim == 3:
        field = field[field.shape[0] // 2]
    if field.ndim == 1:
        field = numpy.broadcast_to(field, (32, len(field)))
    every = -(-max(field.shape) // _MOST_PIXELS)
    values = field[::every, ::every].astype(numpy.float64)
    finite = numpy.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 0.0)
    part = numpy.where(finite, (values - low) / (high - low) if high > low else 0.5, 0.0)
    colours = sum(coefficient * part[..., numpy.newaxis] ** power for power, coefficient in enumerate(_VIRIDIS))
    pixels = numpy.where(finite[..., numpy.newaxis], numpy.clip(255 * colours, 0, 255), 128).astype(numpy.uint8)
    _write_png(path, pixels)


def _write_png(path: str | os.PathLike, pixels: numpy.ndarray) -> None:
    """Rows, columns, red green blue."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = pixels.shape[:2]
    lines = numpy.zeros((rows, 1 + 3 * columns), numpy.uint8)  # each begins with its filter: none
    lines[:, 1:] = pixels.reshape(rows, -1)
    header = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)) + chunk(b"IEND", b"")
    write_whole(path, data)


def write_whole(path: str | os.PathLike, data: bytes) -> None:
    """Beside and renamed: whoever reads the path sees a complete file, whatever ends this process."""
    temporary = f"{os.fspath(path)}.{os.getpid()}.new"
    try:
        with open(temporary, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
