"""Arrays of few columns on a GPU, whose kernels compute some hundred columns side by side: they are transposed, and a kernel for
that order of the axes sweeps them."""

from __future__ import annotations

import dataclasses
import json
import math
from typing import Any, Callable, Mapping

from . import _arrays, _generator, _places, spider

# Below so many columns two transposing copies and the other kernel take less time than the kernel for rows: measured on an H200
# with 3.6e6 cells of a 5-point stencil, f16 and f32. Kernels of several steps have strips of 768 columns.
_FEW_COLUMNS, _FEW_COLUMNS_OF_STEPS = 32, 128
_FEWEST_CELLS = 1 << 16
_LEAST_RATIO = 16  # of the longest axis to the columns


@dataclasses.dataclass
class Transposed:
    """A stencil for arrays whose axes lie in another order, and that order: two axes are exchanged, so it is its own inverse."""

    stencil: Any
    axes: tuple[int, ...]
    reads_around: bool | None = None  #: do sweeps read cells around arrays? Known after the first one

    def call(self, source: _arrays.Array, given: Mapping[str, Any], run: Callable[..., Any]) -> tuple[_arrays.Array, ...]:
        """What run(stencil, array, fields...) gives, in the order of `source`."""
        array = source.permuted(self.axes)
        if self.reads_around is None:
            kernel = self.stencil._kernel_for(array)[1]
            self.reads_around = any(map(any, (*kernel.halo(*array.shape), *kernel.halo_of_fields(*array.shape))))
        arrays = {name: value if is_number(value) else _arrays.wrap(value, name).permuted(self.axes)
                  for name, value in given.items()}
        results = run(self.stencil, array, **arrays)
        return tuple(_arrays.wrap(result).permuted(self.axes) for result in (results if isinstance(results, tuple) else (results,)))


@dataclasses.dataclass
class Repeated:
    """Sweeps of arrays of CuPy or PyTorch that lie as others did in Transposed.call(), on the current stream."""

    transposed: Transposed
    launch: Any = None  #: of dense arrays in the kernel's order, known after the first sweep

    def run(self, u: Any, out: Any, given: Mapping[str, Any]) -> bool:
        """Whether it was done: not where the launch refuses the arrays."""
        stencil, axes = self.transposed.stencil, self.transposed.axes
        source = _places.transposed(u, axes)
        arrays = {name: value if is_number(value) else _places.transposed(value, axes) for name, value in given.items()}
        if self.launch is None:
            result = stencil(source, **arrays)
            self.launch = stencil._remembered(source, result, arrays)
        else:
            result = _places.empty_like(source)
            addresses = [_places.address(array) for array in (source, result, *arrays.values()) if not is_number(array)]
            if not stencil._launch(self.launch, addresses, _places.stream_of(source), arrays):
                return False
        _places.assign_transposed(out, result, axes)
        return True


def takes(source: _arrays.Array, target: _arrays.Array) -> bool:
    """Is this `out` one that the kernel for the array's own order would take?"""
    alike = target.can_permute and (target.shape, target.typestr, target.device) == (source.shape, source.typestr, source.device)
    if not alike or target.on_device != source.on_device:
        return False
    _arrays.check_written(target, "out")
    spans = [spider._Cells.of(array.view).span() for array in (source, target)]
    return spans[0][1] <= spans[1][0] or spans[1][1] <= spans[0][0]


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) or getattr(value, "shape", ()) == ()


def pays(toolchain: Any) -> bool:
    """On the host, kernels take rows of any length in about the same time a cell."""
    return toolchain.backend == "cuda"


def exchange_axes(shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order that makes the longest axis the last, if the array has few columns and is large enough for that to pay."""
    if not 2 <= len(shape) <= 3 or 0 in shape or shape[-1] >= _FEW_COLUMNS_OF_STEPS or math.prod(shape) < _FEWEST_CELLS:
        return None
    longest = max(range(len(shape) - 1), key=shape.__getitem__)
    if shape[longest] < _LEAST_RATIO * shape[-1]:
        return None
    axes = list(range(len(shape)))
    axes[-1], axes[longest] = longest, len(shape) - 1
    return tuple(axes)


def pays_once(columns: int) -> bool:
    """Does one sweep of one step pay for two copies?"""
    return columns < _FEW_COLUMNS


def spec_in_order(spec: _generator.Spec, axes: tuple[int, ...], pays: bool) -> _generator.Spec | None:
    """The spec for arrays in this order. None where the stencil has other dimensions, and where the plan for this order differs:
    it could take other steps, or have another error bound. pays: if not, the stencil has to take several steps in a sweep."""
    letters = "zyx"[-len(axes):]
    other = dataclasses.replace(spec, options=(*spec.options, "--axes", "".join(letters[axis] for axis in axes)))
    plan = json.loads(_generator.explain(spec, as_json=True))
    if plan["dimensions"] != len(axes) or (not pays and plan["steps"] == 1):
        return None
    try:
        other_plan = json.loads(_generator.explain(other, as_json=True))
    except _generator.SpecError:  # the spec has an order of its own, or the kernel asked for does not reach as far along this axis
        return None
    return other if all(other_plan[key] == plan[key] for key in ("engine", "template", "steps")) else None


class FromProgress(Exception):
    """Carries what a caller's progress function raised, which is no refusal of an array."""


def guard(progress: Any) -> Any:
    """The progress function, whose exceptions come as the cause of FromProgress."""
    if not callable(progress):
        return progress

    def report(done: int, steps: int) -> None:
        try:
            progress(done, steps)
        except Exception as error:
            raise FromProgress from error

    return report
