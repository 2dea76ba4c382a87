"""States that a gradient reads later, in 16 bits where that is asked for: f16 times a power of two of each state."""

from __future__ import annotations

import functools
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
        if not _is_swept("half: wide*scale", u, half.view, scale):
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
        inverse = (1 / scale).reshape([1] * half.view.dim())  # with axes, so that products are of its type
        if not _is_swept("wide: half*scale", to.view, half.view, inverse):
            library.mul(half.view, inverse, out=to.view)
    else:
        library.multiply(half.view, 1 / scale, out=to.view, dtype=to.view.dtype)


@functools.lru_cache(maxsize=None)
def products(stage: str, storage: str) -> Any:
    """A system of rows of cells, each with its scale: `wide` of the storage, `half` of f16."""
    from ._stencil import stencil

    field, expression = stage.split(": ")
    return stencil({"stencil": "snapshots", "dimensions": 2, "storage": storage, "boundary": {"constant": 0},
                    "fields": {"wide": {}, "half": {"storage": "f16"}, "scale": {"axes": ["y"]}}, "stages": [{field: expression}]})


def _is_swept(stage: str, wide: Any, half: Any, scale: Any) -> bool:
    """Products by a sweep, on a GPU, since PyTorch's of two types take twice its time. False for tensors on the
    host, and for those that are not contiguous."""
    if not (wide.is_cuda and wide.is_contiguous() and half.is_contiguous()):
        return False
    rows = {name: one.view(-1, one.shape[-1]) for name, one in (("wide", wide), ("half", half))}
    rows["scale"] = scale.reshape(1).expand(len(rows["half"])).contiguous()
    products(stage, f"f{8 * wide.element_size()}")._call(rows, in_place=True)
    return True


def _library(view: Any) -> Any:
    return sys.modules[type(view).__module__.partition(".")[0]]
