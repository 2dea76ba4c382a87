"""Sources and receivers: cells of arrays."""

from __future__ import annotations

import itertools
import operator
import weakref
from typing import Any, MutableMapping, Sequence

from . import _arrays, _autograd, _compilers, _places, spider
from ._calls import MOST_LAUNCHES, REFUSED, in_python


def _cell(cell: Any) -> tuple[int, ...]:
    try:
        return tuple(operator.index(i) for i in cell)
    except TypeError:
        raise TypeError(f"points are a list of cells, such as [(3, 4)], and {cell!r} is no cell") from None

#: By their keys: operators of PyTorch take text, and no objects.
MADE: MutableMapping[str, Points] = weakref.WeakValueDictionary()
_NUMBERS = itertools.count()


class Points:
    """Cells of arrays of one shape. Made by Stencil.points and System.points; those of a system serve for its fields of all
    storages."""

    def __init__(self, stencil: Any, shape: Sequence[int], cells: Sequence[Sequence[int]]):
        self._stencil = stencil
        self._shape, self._cells = tuple(shape), [_cell(cell) for cell in cells]
        if 0 in self._shape and self._cells:
            raise ValueError(f"arrays of shape {self._shape} have no cells, and there are {len(self._cells)} points")
        self._key = f"points{next(_NUMBERS)}"
        MADE[self._key] = self
        self._by_place: dict[Any, Any] = {}  # by device
        self._accesses: dict[Any, Any] = {}  # by the place of the array and the kind of the values

    def __len__(self) -> int:
        return len(self._cells)

    def __reduce__(self) -> Any:
        return Points, (self._stencil, self._shape, self._cells)

    def __copy__(self) -> Points:
        return self

    def __deepcopy__(self, memo: Any) -> Points:
        return self

    @_autograd.untraced
    def add(self, u: Any, values: Any, stream: Any = None) -> Any:
        """Adds values[i] to cell i of the array, in place. Cells that are listed more than once add up in the order of the list,
        rounded once. `values` are f32 (f64 for f64 arrays), on the device if `u` is there; on the host any real numbers that
        NumPy makes an array of. Returns `u`. Errors as those of a sweep, `u` being written; a cell outside, or a number out of
        the range of f32, is a ValueError."""
        _autograd.keep_dynamo_out()
        if self._access_again("spider_points_add", u, values, stream):
            _autograd.mark_written(u)
            return u
        array = _arrays.wrap(u, written=True)
        with array.here(stream):
            array, kernel, points, kind = self._of(array)
            _arrays.check_written(array, "u")
            if not array.on_device and not hasattr(values, "data_ptr"):
                _autograd.refuse(values, "values")
                values = spider._bits(values, kind, "a point")
            numbers = _arrays.readable(_arrays.wrap(values, "values"), [(0, 0)], kernel.info)
            if self._has_cells(points, numbers):
                in_python(points.add, array.view, numbers.view, array.stream() if stream is None else stream)
                self._remember(points, "spider_points_add", u, array, values, numbers)
                _arrays.settle(array, numbers)
        _autograd.mark_written(u)
        return u

    @_autograd.untraced
    def read(self, u: Any, out: Any = None, stream: Any = None) -> Any:
        """Reads the cells' values exactly. Returns `out`, e.g. a row of a larger array, or a new array of the same library."""
        _autograd.keep_dynamo_out()
        if out is not None and self._access_again("spider_points_read", u, out, stream):
            _autograd.mark_written(out)
            return out
        array = _arrays.wrap(u)
        with array.here(stream):
            array, kernel, points, kind = self._of(array)
            dense = _arrays.readable(array, [(0, 0)] * len(array.shape), kernel.info)
            numbers = (array.numbers(len(self), kind) if out is None else
                       _arrays.wrap(out, "out", written=True))
            _arrays.check_written(numbers, "out")
            if self._has_cells(points, numbers):
                in_python(points.read, dense.view, numbers.view, array.stream() if stream is None else stream)
                self._remember(points, "spider_points_read", u, dense, numbers.given, numbers)
                _arrays.settle(array, numbers)
        _autograd.mark_written(numbers.given)
        return numbers.given

    @staticmethod
    def _has_cells(points: Any, numbers: _arrays.Array) -> bool:
        """Whether there is a cell to access. ValueError where empty arrays are given values."""
        if points is None and not numbers.empty:
            raise ValueError(f"there are 0 points, and {numbers.shape[0]} values")
        return points is not None

    def _access_again(self, call: str, u: Any, values: Any, stream: Any) -> bool:
        """Repeats an access that was checked before, for arrays of the same layouts."""
        if not self._accesses:
            return False
        places = _places.places(u, values)
        found = places and self._accesses.get((call, places[0][1], places[1][1]))
        if not found:
            return False
        points, pattern = found
        field = type(pattern).from_buffer_copy(pattern)
        field.data = places[0][0]
        handle = _places.stream_of(u) if stream is None else spider._stream_handle(stream)
        library = points.kernel.library
        status = getattr(library._c, call)(points._memory, field, places[1][0], handle)
        if status in REFUSED:
            return False
        if status != 0:
            in_python(library._check, status)
        return True

    def _remember(self, points: Any, call: str, u: Any, array: _arrays.Array, values: Any, numbers: _arrays.Array) -> None:
        places = _places.places(u, values)
        if places is None or array.given is not u or numbers.given is not values:  # or a copy was taken
            return
        if len(self._accesses) >= MOST_LAUNCHES:
            self._accesses.clear()
        self._accesses[call, places[0][1], places[1][1]] = points, points._view(array.view, False).field

    def _of(self, array: _arrays.Array) -> tuple[_arrays.Array, Any, Any, str]:
        """The array with all axes, the kernel and the points where it is, and the values' type; no points for empty arrays. Those
        of the host are computed there."""
        toolchain = _compilers.cuda(array.device) if array.on_device else _compilers.host()
        kernel = self._stencil._kernel_to_run(toolchain)[1]
        info, name, kind = kernel.info, None, kernel.info.accumulate
        nothing = array.empty and array.shape == self._shape
        if info.is_system:
            field = _field_like(info, array)
            name, kind = info.fields[field][0], spider.values_of(info.fields[field][1])
            array = array.spread(info.axes[field][3 - info.dimensions:])
        else:
            _arrays.check_type(array, info, "u")
        return array, kernel, None if nothing else self.of_kernel(kernel, name, (toolchain, array.device)), kind

    def of_kernel(self, kernel: Any, name: str | None, place: Any) -> Any:
        """The runtime's points of a kernel, of a system those of one of its fields, remembered by the place."""
        key = place, name
        if key not in self._by_place:
            shape, cells = self._shape, self._cells
            if name is not None:
                spread = kernel.spread_to_axes
                shape, cells = spread(name, shape, 1), [spread(name, cell, 0) for cell in cells]
            self._by_place[key] = in_python(kernel.points, shape, cells, name)
        return self._by_place[key]

    def check_shape(self, shape: Sequence[int], what: str) -> None:
        """ValueError where the points are of arrays of another shape."""
        if tuple(shape) != self._shape:
            raise ValueError(f"the points are of arrays of shape {self._shape}, and {what} has the shape {tuple(shape)}")


def _field_like(info: Any, array: _arrays.Array) -> int:
    """The place of a field of a system that the array may be."""
    found = {}
    for i, (_, storage) in enumerate(info.fields):
        if array.typestr in spider._TYPES[storage] and len(array.shape) == sum(info.axes[i]):
            found.setdefault(storage, i)
    if len(found) > 1:
        raise TypeError(f"{info.name} has fields of {' and of '.join(found)}, and u is {array.typestr}, which may be either: pass "
                        f"an array of float16, or of ml_dtypes.bfloat16")
    if not found:
        storages = " or ".join(dict.fromkeys(storage for _, storage in info.fields))
        raise TypeError(f"{info.name} takes {storages} in {info.dimensions} dimensions, and u is "
                        f"{getattr(array.given, 'dtype', array.typestr)} in {len(array.shape)}")
    return next(iter(found.values()))
