"""Copies between arrays of the host and memory of the runtime on a device."""

from __future__ import annotations

import dataclasses
from typing import Any, Sequence

import numpy

from . import _arrays, spider
from ._calls import in_python


def to_field(field: Any, array: _arrays.Array, halo: _arrays.Halo) -> None:
    """Uploads the interior and the halo that a kernel reads."""
    dense = numpy.ascontiguousarray(_arrays.extended(array.view, halo))
    field._copy(field.library._c.spider_upload, dense.ctypes.data, True, halo)


def further_field(library: Any, kernel: Any, array: _arrays.Array, storage: str) -> Any:
    """Memory of the runtime with what an update reads of the array."""
    halo = kernel.halo_of_fields(*array.shape)
    _arrays.require_halo(array, halo, kernel.info)
    return uploaded(library, kernel.info, array, storage, halo)


def uploaded(library: Any, info: spider.Info, array: _arrays.Array, storage: str, halo: _arrays.Halo) -> Any:
    """Memory of the runtime with the array and its halo, which the caller has checked to be there."""
    field = room(library, info, array.shape, storage, halo)
    to_field(field, array, halo)
    return field


def room(library: Any, info: spider.Info, shape: Sequence[int], storage: str, halo: _arrays.Halo) -> Any:
    """Memory of the runtime for an array of any storage and its halo."""

    class Like:
        """What spider.Field asks of a kernel."""

        @staticmethod
        def halo(*_: int) -> _arrays.Halo:
            return halo

    Like.info = dataclasses.replace(info, storage=storage)
    return in_python(spider.Field, library, Like, shape)


def from_field(field: Any, array: _arrays.Array) -> None:
    """Downloads the interior."""
    bits = numpy.empty(array.shape, array.view.dtype)
    field._copy(field.library._c.spider_download, bits.ctypes.data, False)
    array.view[...] = bits
