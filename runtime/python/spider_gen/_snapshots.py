"""States that a gradient reads later, in 16 bits where that is asked for: f16 times a power of two of each state."""

from __future__ import annotations

import sys
from typing import Any

from . import _arrays

#: The largest number of a state becomes at least half of 2 to this power, next to the end of f16's range.
EXPONENT = 15
HIGHEST = {"f32": 126, "f64": 1022}  #: powers of two whose reciprocal is no subnormal number


def check(snapshots: Any) -> str | None:
    """ValueError where it is no storage of snapshots."""
    if snapshots not in (None, "f16"):
        raise ValueError(f'snapshots is "f16", or None for the storage that the fields have, not {snapshots!r}')
    return snapshots


def packs(storage: str, snapshots: str | None) -> bool:
    """Does a snapshot of this storage take fewer bits?"""
    return snapshots is not None and storage in HIGHEST


def pack(array: _arrays.Array, storage: str, half: _arrays.Array) -> Any:
    """Writes the array as f16. Returns the power of two that unpack() divides by, where the array is: nothing waits for it. A
    state that is zero stays so. A cell that is not finite stays so, and leaves the others no scale: it is 1."""
    u = array.view
    library = _library(u)
    if library.__name__ == "torch":
        top = library.linalg.vector_norm(u, float("inf"))
        power = (EXPONENT - library.frexp(top)[1]).clamp(max=HIGHEST[storage]).where(top.isfinite(), 0)
        scale = library.ldexp(library.ones_like(top), power)
        library.mul(u, scale, out=half.view)
        return scale
    top = library.maximum(u.max(), -u.min())
    power = library.where(library.isfinite(top), library.minimum(EXPONENT - library.frexp(top)[1], HIGHEST[storage]), 0)
    scale = library.ldexp(library.ones_like(top), power)
    library.multiply(u, scale, out=half.view, casting="same_kind")
    return scale


def unpack(half: _arrays.Array, scale: Any, to: _arrays.Array) -> None:
    """Writes what pack() wrote to an array of the storage that it had."""
    library = _library(half.view)
    if library.__name__ == "torch":
        scale = scale.reshape([1] * half.view.dim())  # with axes, so that products are of its type
        library.mul(half.view, 1 / scale, out=to.view)
    else:
        library.multiply(half.view, 1 / scale, out=to.view, dtype=to.view.dtype)


def _library(view: Any) -> Any:
    return sys.modules[type(view).__module__.partition(".")[0]]
