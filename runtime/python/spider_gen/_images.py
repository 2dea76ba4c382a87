"""Batches: arrays with more axes than a spec. Each image is swept by itself, all of them by one call where they lie evenly."""

from __future__ import annotations

import dataclasses
import itertools
import math
import operator
from typing import Any, Callable, Sequence

from . import _arrays, _progress, spider
from ._calls import in_python
from ._further import Further


@dataclasses.dataclass(frozen=True)
class Layout:
    """Which axes of an array are those of its images, and which those of the spec."""

    order: tuple[int, ...]  #: of the axes: those of the batch, then those of the spec, slowest first
    batch: tuple[int, ...]
    own: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.batch + self.own

    @staticmethod
    def of(info: spider.Info, shape: Sequence[int], axes: Any) -> Layout:
        """ValueError where the array has too few axes, or `axes` are none of its."""
        count, own = len(shape), info.dimensions
        if count < own:
            raise ValueError(f"{info.name} has {own} dimensions, and u has {count}, with the shape {tuple(shape)}: it has the spec's "
                             f"axes, or those of a batch as well")
        found = tuple(range(count - own, count)) if axes is None else _indices(info, shape, axes)
        batch = tuple(axis for axis in range(count) if axis not in found)
        return Layout(batch + found, tuple(shape[axis] for axis in batch), tuple(shape[axis] for axis in found))

    def arranged(self, array: _arrays.Array, what: str) -> _arrays.Array:
        """The array with its axes in this order."""
        if self.order == tuple(range(len(self.order))):
            return array
        if not array.can_permute:
            raise TypeError(f"{what}, a {type(array.given).__name__}, cannot be seen in another order of its axes: leave axes out, "
                            f"or pass an array of NumPy, CuPy or PyTorch")
        return array.permuted(self.order)


def are_last(axes: Any, array: Any, own: int) -> bool:
    """Are these axes the last of the array, in their order, as they are without `axes`?"""
    count = len(getattr(array, "shape", ()))
    return type(axes) is tuple and axes in (tuple(range(count - own, count)), tuple(range(-own, 0)))


def _indices(info: spider.Info, shape: Sequence[int], axes: Any) -> tuple[int, ...]:
    count = len(shape)
    given = [operator.index(axis) for axis in (axes if hasattr(axes, "__iter__") else (axes,))]
    found = tuple(axis + count if axis < 0 else axis for axis in given)
    if len(found) == info.dimensions == len(set(found)) and all(0 <= axis < count for axis in found):
        return found
    letters = ", ".join("zyx"[-info.dimensions:])
    raise ValueError(f"axes={tuple(given)} of an array of shape {tuple(shape)}: {info.name} takes {info.dimensions} different axes "
                     f"from {-count} to {count - 1}, those of its {letters}")


def around(kernel: Any, shape: Sequence[int]) -> list[tuple[int, int]]:
    """The halo of arrays of this shape, whose last axes are the kernel's."""
    images = len(shape) - kernel.info.dimensions
    return [*[(0, 0)] * images, *kernel.halo(*shape[images:])]


def _even_axes(array: _arrays.Array, batch: int) -> int:
    """How many of the last of so many first axes lie evenly in memory, as one axis."""
    cells = spider._Cells.of(array.view)
    even, stride, span = 0, None, 1
    for n, own in zip(reversed(cells.shape[:batch]), reversed(cells.strides[:batch])):
        if n > 1 and own is not None and stride is not None and own != stride * span:
            break
        if n > 1 and own is not None and stride is None:
            stride = own
        span *= n
        even += 1
    return even


def pieces(arrays: Sequence[_arrays.Array | None], batch: int) -> Any:
    """The arrays with one axis of images before those of the kernel, piece by piece: all in one piece where the batch lies
    evenly in each of them. They have the same batch, in so many first axes."""
    even = min(_even_axes(array, batch) for array in arrays if array is not None)
    shape = next(array for array in arrays if array is not None).shape
    outer, inner = shape[:batch - even], shape[batch - even:batch]
    for index in itertools.product(*map(range, outer)):
        yield [array and array.reshaped(index, (math.prod(inner), *array.shape[batch:])) for array in arrays]


def dense(source: _arrays.Array, kernel: Any) -> _arrays.Array:
    """A copy without gaps, with its halo, and with one axis of images."""
    halo = around(kernel, source.shape)
    if any(map(any, halo)):
        _arrays.require_halo(source, halo, kernel.info)
        fresh = source.padded(halo)
    else:
        fresh = source.copy()
    batch = len(source.shape) - kernel.info.dimensions
    return fresh.reshaped((), (math.prod(source.shape[:batch]), *source.shape[batch:]))


def sweep(kernel: Any, source: _arrays.Array, target: _arrays.Array, further: Further, stream: Any) -> bool:
    """One sweep of all images, where the kernel runs. Returns whether one call did it, and no array was copied."""
    batch = len(source.shape) - kernel.info.dimensions
    readable = _readable(source, kernel, around(kernel, source.shape))
    own = source.shape[batch:]
    others = [*([further.previous] if further.previous else []), *further.fields]
    of_fields = [*[(0, 0)] * batch, *kernel.halo_of_fields(*own)]
    others_readable = [_readable(array, kernel, [(0, 0)] * len(of_fields) if array is further.previous else of_fields)
                       for array in others]
    count = 0
    for one, to, *rest in pieces([readable, target, *others_readable], batch):
        previous, fields = (rest[0], rest[1:]) if further.previous else (None, rest)
        in_python(kernel.run, one.view, to.view, previous and previous.view, [field.view for field in fields], further.scalars,
                  None, stream, images=True)
        count += 1
    return count == 1 and readable is source and all(a is b for a, b in zip(others, others_readable))


def _readable(array: _arrays.Array, kernel: Any, halo: _arrays.Halo) -> _arrays.Array:
    """The array, or a copy with its halo where the C interface does not take its strides. Images may be one in memory."""
    cells = spider._Cells.of(array.view)
    batch = len(cells.shape) - kernel.info.dimensions
    counted = [axis for axis, stride in enumerate(cells.strides) if axis >= batch or stride != 0]
    some = dataclasses.replace(cells, shape=tuple(cells.shape[axis] for axis in counted),
                               strides=tuple(cells.strides[axis] for axis in counted))
    if _arrays.is_laid_out(some, [halo[axis] for axis in counted]):
        return array
    _arrays.require_halo(array, halo, kernel.info)
    return array.padded(halo)


def iterate(kernel: Any, source: _arrays.Array, steps: int, stream: Any, report: Any, further: Further,
            in_pairs: bool) -> list[_arrays.Array]:
    """Time steps of all images where the kernel runs: the last one, and of a kernel with `previous` the one before. The results
    have one axis of images."""
    batch = len(source.shape) - kernel.info.dimensions
    u = dense(source, kernel)
    turns = [u, dense(source, kernel) if any(map(any, around(kernel, source.shape))) else u.new()]
    if further.previous:
        turns.append(dense(further.previous, kernel))
    if in_pairs:
        turns.append(u.new())
    fields = [_as_one_axis(_readable(field, kernel, [(0, 0)] * batch + list(kernel.halo_of_fields(*u.shape[1:]))), batch)
              for field in further.fields]

    def run(now: int) -> None:
        views = [turn.view for turn in turns]
        last = in_python(kernel.run, views[0], views[1], views[2] if further.previous else None, [field.view for field in fields],
                         further.scalars, now, stream, views[3] if in_pairs else None, images=True)
        place = next(i for i, one in enumerate(views) if one is last)
        if in_pairs:  # (0, 2) and (1, 3)
            turns[:] = [turns[place ^ other] for other in range(4)]
        else:
            turns[:] = turns[place:] + turns[:place]

    _progress.in_chunks(kernel, steps, report, run, source.synchronize)
    return [turns[0], turns[2]] if further.previous else [turns[0]]


def _as_one_axis(field: _arrays.Array, batch: int) -> _arrays.Array:
    """A field with one axis of images, a copy where its batch does not lie evenly."""
    shape = (math.prod(field.shape[:batch]), *field.shape[batch:])
    return field.reshaped((), shape) if _even_axes(field, batch) == batch else field.copy().reshaped((), shape)


def one_by_one(run: Callable[..., Any], arrays: Sequence[_arrays.Array | None], batch: Sequence[int]) -> None:
    """Calls with each image of each array."""
    for index in itertools.product(*map(range, batch)):
        run(*(array and array.reshaped(index, array.shape[len(batch):]) for array in arrays))


