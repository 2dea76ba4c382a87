"""Where calls begin: the functions that torch.compile traces, which lead tensors to operators of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


def _operators(made: Any, tensors: Sequence[Any], asked: bool) -> Any:
    """The module of operators, where one of the tensors needs them; None where the kernel is called as for other arrays.
    `asked`: is something asked for that operators do not do?"""
    arrays = [one for one in tensors if not isinstance(one, (int, float))]  # torch.compile makes symbols of numbers that change
    if asked or not any([hasattr(one, "requires_grad") and type(one).__module__.startswith("torch") for one in arrays]):
        return None
    import torch

    if not hasattr(torch.library, "custom_op"):  # PyTorch before 2.4
        return None
    from . import _torch

    if not _torch.wants(tensors):
        return None
    if not _torch.takes(made._key):
        _torch.refuse_halo(made.name, tensors)
        return None
    return _torch


class StencilCalls:
    """Calls of stencils and updates."""

    def __call__(self, u: Any, out: Any = None, stream: Any = None, axes: Any = None, **given: Any) -> Any:
        """One sweep of the array, of the spec's storage and dimensions; x is the last axis.

        An array with more axes is a batch of images, each swept by itself: s(stack) with a stack of shape (64, 512, 512) and a
        2D spec. `axes` are those of the spec, slowest first, e.g. (0, 1) of (rows, columns, channels); all others are the batch.
        `out` and the input one step back have the shape of `u`; a field that lacks the batch is the same for all images.

        Returns `out`, or a new array of the same library and device; NumPy's, where the array is on the host and of neither
        NumPy nor PyTorch, and CuPy's or PyTorch's, where it is on a device and of neither. Arrays of JAX give one of JAX, also
        inside jit, vmap and grad, unless `out` or `stream` is given. With `halo` faces `u` is a view into
        a padded array, whose cells around it are read; for all others it is all that is read. `stream` is one of CuPy or
        PyTorch, or a number; without it work goes to the stream that the array's library is on, and calls return when it is
        queued. Arrays on the host are ready on return.

        What the spec's `update` takes beside its input is given by the names it has there: the input one step back
        (`previous`), further fields, and scalars: wave(u, u_old=u_old, c2dt2=c2dt2). They have the shape of `u` and are read
        at the point itself; `out` may be one of them, unless the spec has `steps` above 1. Then fields, like `u`, are views
        into padded arrays where faces are `halo`.

        Inputs may have any strides: negative, 0 as numpy.broadcast_to gives them, or x not contiguous; the package copies them
        where the kernel does not take them. It never copies `out`. The result of an empty array is empty.

        Tensors of PyTorch 2.4 or newer that require a gradient get one, but with `out` and `stream`, and with scalars that do.

        TypeError: no array, another type of elements, axes of an array that cannot be permuted, `u` and `out` in different
        places, an array that requires a gradient where there is none, or is traced. ValueError: another number of dimensions
        or shape, overlap, an `out` that is read-only or whose rows are not contiguous, forward and apart.
        """
        torch = _operators(self, [u, *given.values()], out is not None or stream is not None)
        if torch is not None:
            return torch.sweep(self, u, axes, given)
        return self._call(u, out, stream, axes, **given)

    update = __call__

    def iterate(self, u: Any, steps: int, out: Any = None, stream: Any = None,
                progress: bool | Callable[[int, int], None] = False, axes: Any = None, checkpoint: int | None = None,
                snapshots: str | None = None, **given: Any) -> Any:
        """`steps` time steps: each sweep's result is the next one's input. `u` stays as it is.

        Returns `out`, or a new array. Cells beyond `halo` faces stay what they are around `u`. `progress` is True for a bar
        on standard error with the time left, or a function of the steps done and all steps.

        Of a spec with `previous` both the last step and the one before it, to go on from: u, u_old = wave.iterate(u, 100,
        u_old=u_old, c2dt2=c2dt2). Arrays, batches and `axes` are taken, and refused, as in a call.

        `checkpoint` is for gradients: every so many states are in memory in the backward pass, and those between are computed
        again; by default as many as the square root of the steps. `snapshots="f16"` keeps what gradients alone read, of f32 and
        f64, in 16 bits.
        """
        asked = out is not None or stream is not None or progress is not False
        torch = _operators(self, [u, *given.values()], asked)
        if torch is not None:
            return torch.iterate(self, u, steps, axes, checkpoint, snapshots, given)
        return self._iterate(u, steps, out, stream, progress, axes, checkpoint, snapshots, **given)


class SystemCalls:
    """Calls of systems of equations."""

    def __call__(self, state: Mapping[str, Any], stream: Any = None, in_place: bool = False, reductions: bool = False,
                 **scalars: Any) -> Any:
        """One sweep, all stages. `state` has an array for each field, by name, of the field's storage; a field with `axes` has
        an array with these axes alone, or one cell along the others. Scalars are given by the names that the spec has for
        them: wave(state, dt=0.1).

        Returns the fields that are written, by name: new arrays of the same library and device. Merge them for the next sweep:
        state | wave(state, dt=0.1). With `in_place` they are those of `state`, which hold the results; else `state` stays as it
        is. With `halo` faces a field is a view into a padded array, whose cells around it are read; for all others it is all
        that is read. `stream` is one of CuPy or PyTorch, or a number; without it work goes to the stream that the arrays'
        library is on, and calls return when it is queued. Arrays on the host are ready on return.

        With `reductions` the result is a pair, the fields and the numbers that the spec's `reduce` names, by name: of sums the
        exact ones, rounded once. It waits for them.

        Arrays are taken, and refused, as those of a stencil. TypeError: a field or a scalar that is missing or unknown, no
        array, another type of elements, arrays in different places, an array that requires a gradient where there is none
        (of PyTorch 2.4 or newer with `stream`, `in_place`, `reductions`, and of scalars), or is traced. ValueError: another
        shape; and with `in_place` overlap, and an array that is read-only or whose rows are not contiguous, forward and apart.
        """
        fields = list(state.values()) if isinstance(state, Mapping) else []
        torch = _operators(self, fields, stream is not None or in_place or reductions)
        if torch is not None:
            return torch.sweep_system(self, state, scalars)
        return self._call(state, stream, in_place, reductions, **scalars)

    def iterate(self, state: Mapping[str, Any], steps: int, stream: Any = None,
                progress: bool | Callable[[int, int], None] = False, inject: Mapping[str, Any] | None = None,
                record: Mapping[str, Any] | None = None, in_place: bool = False, reductions: bool = False,
                until: tuple[str, float] | None = None, check_every: int = 10, checkpoint: int | None = None,
                snapshots: str | None = None, **scalars: Any) -> Any:
        """`steps` sweeps, each of what the one before made. Returns the fields that are written, as a call does.

        `inject` adds to cells after each step: {"vx": (points, values)}, with values of steps x points; of one point one value
        for each step will do. `record` then reads cells: {"p": points}. Points are those of `points`, or lists of cells. With
        `record` the result is a pair, the fields and records by name, arrays of steps x points, of f32, of f64 fields f64.

        `until=(NAME, bound)` stops where a number of the spec's `reduce` is at most the bound: it is computed, and waited for,
        every `check_every` steps and after the last. With `reductions` the numbers of the last step follow the result, by name;
        their attribute `steps` says how many steps there were, of which records have as many rows.

        Cells beyond `halo` faces stay what they are around `state`. `progress` is True for a bar on standard error with the time
        left, or a function of the steps done and all steps.

        `checkpoint` is for gradients: every so many states are in memory in the backward pass, and those between are computed
        again; by default as many as the square root of the steps. `snapshots="f16"` keeps what gradients alone read, of f32 and
        f64, in 16 bits.
        """
        asked = stream is not None or progress is not False or in_place or reductions or until is not None
        fields = list(state.values()) if isinstance(state, Mapping) else []
        pairs = list(inject.values()) if isinstance(inject, Mapping) else []
        values = [pair[1] for pair in pairs if isinstance(pair, (tuple, list)) and len(pair) == 2]
        torch = _operators(self, [*fields, *values], asked)
        if torch is not None:
            return torch.iterate_system(self, state, steps, checkpoint, snapshots, inject, record, scalars)
        return self._iterate(state, steps, stream, progress, inject, record, in_place, reductions, until, check_every, checkpoint,
                             snapshots, **scalars)
