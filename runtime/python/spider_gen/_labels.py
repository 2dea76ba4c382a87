"""Arrays of xarray: kernels take their data, and results get the dimensions, coordinates, name and attributes of the input."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from . import spider


def among(arrays: Iterable[Any]) -> bool:
    """Is one of them a DataArray?"""
    return "xarray" in sys.modules and any(map(is_labelled, arrays))


def is_labelled(array: Any) -> bool:
    xarray = sys.modules.get("xarray")
    return xarray is not None and isinstance(array, xarray.DataArray)


def call(run: Callable[..., Any], u: Any, out: Any, axes: Any, given: Mapping[str, Any]) -> Any:
    """What `run(u, out=, axes=, **given)` makes of the data. Arrays beside `u` may have its dimensions in another order, and lack
    those of a batch. `axes` may be names. ValueError where dimensions or coordinates differ."""
    if not is_labelled(u):
        results = run(u, out=data_of(out, "out", True), axes=axes, **{name: data_of(one, name) for name, one in given.items()})
        return results if out is None else _with_first(results, out)
    named = {name: one for name, one in given.items() if is_labelled(one)}
    check_coordinates({"u": u, **({"out": out} if is_labelled(out) else {}), **named})
    axes = _numbers(u, axes)
    given = {**given, **{name: data_of(_in_order(one, u, axes, name), name) for name, one in named.items()}}
    if is_labelled(out) and out.dims != u.dims:
        raise ValueError(f"out has the dimensions {_list(out.dims)}, and u {_list(u.dims)}: pass an out with those of u, in their order")
    results = run(data_of(u, "u"), out=data_of(out, "out", True), axes=axes, **given)
    labelled = tuple(like(u, one) for one in (results if isinstance(results, tuple) else (results,)))
    labelled = labelled if isinstance(results, tuple) else labelled[0]
    return labelled if out is None else _with_first(labelled, out)


def call_system(run: Callable[..., Any], info: spider.Info, state: Mapping[str, Any], in_place: bool, inject: Any,
                **more: Any) -> Any:
    """The same of a system: fields that are DataArrays stay such. Each has its own dimensions, since grids may be staggered."""
    check_order(state, info)
    check_coordinates({name: one for name, one in state.items() if is_labelled(one)})
    if isinstance(inject, Mapping):
        more["inject"] = {name: (pair[0], data_of(pair[1], name)) if isinstance(pair, (tuple, list)) and len(pair) == 2 else pair
                          for name, pair in inject.items()}
    found = run({name: data_of(one, name, in_place) for name, one in state.items()}, in_place=in_place, **more)
    fields = found[0] if isinstance(found, tuple) else found
    fields = {name: _again(state[name], one, in_place) for name, one in fields.items()}
    return (fields, *found[1:]) if isinstance(found, tuple) else fields


def like(u: Any, data: Any) -> Any:
    """Other data of the same cells. How a file stores `u` is left behind: packed numbers would round the results."""
    return sys.modules["xarray"].DataArray(data, coords=u.coords, dims=u.dims, name=u.name, attrs=u.attrs)


def data_of(array: Any, what: str, written: bool = False) -> Any:
    """The array of a DataArray; all else as it is. TypeError where it is lazy."""
    if not is_labelled(array):
        return array
    if array.chunks is not None:
        raise TypeError(f"{what} is in chunks of dask, and a kernel takes arrays in memory: pass {what}.compute()")
    return (array.load() if written else array).data  # what is read from a file at each use cannot be written to


def check_coordinates(arrays: Mapping[str, Any]) -> None:
    """ValueError where arrays have other coordinates along a dimension of the same name."""
    first: dict[Any, str] = {}
    for name, array in arrays.items():
        for dim, index in array.indexes.items():
            if dim not in array.dims:
                continue
            other = first.setdefault(dim, name)
            if not arrays[other].indexes[dim].equals(index):
                raise ValueError(f"{name} and {other} have other coordinates along {dim}: align them, or pass {name}.data")


def check_order(arrays: Mapping[str, Any], info: spider.Info) -> None:
    """ValueError where a dimension is along one axis of one field and along another one of another: which one is x?"""
    letters = "zyx"[-info.dimensions:]
    own = {name: [axis for axis, has in zip(letters, axes[3 - info.dimensions:]) if has] for (name, _), axes in zip(info.fields, info.axes)}
    first: dict[Any, tuple[str, str]] = {}
    for name, array in arrays.items():
        if not is_labelled(array) or name not in own:
            continue
        for dim, axis in zip(array.dims, letters if len(array.dims) == len(letters) else own[name]):
            if axis not in own[name]:
                continue  # of a profile that has all axes
            other, before = first.setdefault(dim, (name, axis))
            if before != axis:
                raise ValueError(f"{dim} is along {axis} in {name}, {_list(array.dims)}, and along {before} in {other}, "
                                 f"{_list(arrays[other].dims)}: transpose one of them; x is the last")


def _in_order(array: Any, u: Any, axes: Any, what: str) -> Any:
    """The array with its dimensions in the order of those of `u`. A field for all images of a batch lacks some; it has the order
    of `axes`."""
    unknown = [dim for dim in array.dims if dim not in u.dims]
    if unknown:
        raise ValueError(f"{what} has the dimensions {_list(array.dims)}, and u {_list(u.dims)}: there is no {_list(unknown)}")
    own = axes if isinstance(axes, tuple) and array.ndim < u.ndim else ()
    order = dict.fromkeys([*(u.dims[axis] for axis in own if -u.ndim <= axis < u.ndim), *u.dims])
    return array.transpose(*[dim for dim in order if dim in array.dims])


def _numbers(u: Any, axes: Any) -> Any:
    """Axes, of which some may be named."""
    if isinstance(axes, str):
        return u.get_axis_num(axes)
    if not isinstance(axes, (tuple, list)):
        return axes
    return tuple(u.get_axis_num(axis) if isinstance(axis, str) else axis for axis in axes)


def _again(array: Any, data: Any, in_place: bool) -> Any:
    if not is_labelled(array):
        return data
    return array if in_place else like(array, data)


def _with_first(results: Any, out: Any) -> Any:
    """`out` in the place of its data."""
    return (out, *results[1:]) if isinstance(results, tuple) else out


def _list(dims: Iterable[Any]) -> str:
    return "(" + ", ".join(map(str, dims)) + ")"
