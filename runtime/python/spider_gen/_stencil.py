"""A stencil as a function of arrays."""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
import threading
import time
from typing import Any, Callable, Mapping, Sequence

import numpy

from . import _arrays, _compilers, _generator, _progress, spider

_STATUS_ERRORS = {3: ValueError, 4: ValueError, 5: ValueError, 6: ValueError, 7: ValueError, 10: MemoryError}
_SECONDS_PER_REPORT = 0.2
_MOST_LAUNCHES = 64
_OWN_WORDS = ("out", "stream", "steps", "progress")


def stencil(
    spec: str | os.PathLike | Mapping[str, Any] | None = None,
    *,
    weights: Any = None,
    boundary: Any = None,
    storage: str | None = None,
    steps: int | str | None = None,
    name: str | None = None,
    backend: str = "auto",
    options: Sequence[str] = (),
    **parameters: float | str,
) -> Stencil:
    """A stencil that arrays can be passed to.

    spec: path of a YAML file, or a mapping of the same keys. Or none of them, and
    weights: an array of 1 to 3 axes (z, y, x): out[p] = sum of weights[q] * in[p + q - size // 2]; with it
    boundary, storage, steps, name: as the keys of a spec. `storage` is f16 if nothing is said; it is that of the arrays.
    backend: "auto" (device arrays on their device; arrays of the host on the GPU if there is one and a compiler for it,
      else on the processor), "cuda", or "host".
    options: of the command line, e.g. ("--engine", "cuda").
    parameters: replace those of the spec, e.g. alpha=0.2; numbers, or expressions as text.

    Raises SpecError with all that is wrong with the spec. The kernel is compiled when the first array comes.
    """
    keys = {"boundary": boundary, "storage": storage, "steps": steps, "stencil": name}
    keys = {key: value for key, value in keys.items() if value is not None}
    if (spec is None) == (weights is None):
        raise TypeError("stencil() takes either a spec or weights")
    if backend not in ("auto", "cuda", "host"):
        raise ValueError(f'backend is "auto", "cuda" or "host", not {backend!r}')
    all_options = [*_generator.parameter_options(parameters), *map(str, options)]
    if weights is not None:
        return Stencil(_generator.from_weights(weights, keys, all_options), backend)
    if isinstance(spec, Mapping):
        return Stencil(_generator.from_mapping({**spec, **keys}, all_options), backend)
    if keys:
        raise TypeError(f"{', '.join(keys)}: with a file of a spec these are written there")
    return Stencil(_generator.from_file(spec, all_options), backend)


class Stencil:
    """A stencil: call it with an array. Made by spider_gen.stencil."""

    def __init__(self, spec: _generator.Spec, backend: str):
        self._spec = spec
        self._backend = backend
        self._generated = _generator.generate(spec)
        self._kernels: dict[str, tuple[Any, Any]] = {}  # by back end: library and kernel
        self._launches: dict[Any, Any] = {}  # by the places of what a sweep is given
        self._loading = threading.Lock()

    def __repr__(self) -> str:
        return f"<spider_gen stencil {self.name}>"

    @property
    def name(self) -> str:
        return self._generated.name

    @property
    def source(self) -> str:
        """The generated CUDA source file."""
        return self._generated.source.read_text(encoding="utf-8")

    def explain(self) -> str:
        """The plan: what computes, what bounds it, a drawing of its matrices."""
        return _generator.explain(self._spec)

    @property
    def info(self) -> spider.Info:
        """Storage, dimensions, reach, steps of a sweep; compiles the kernel for what arrays of the host run on."""
        return self._kernel(_compilers.choose(self._backend))[1].info

    def compile(self) -> Stencil:
        """Compiles now for what arrays of the host run on, instead of at the first array. Returns itself."""
        self._kernel(_compilers.choose(self._backend))
        return self

    def halo(self, *shape: int) -> tuple[tuple[int, int], ...]:
        """How many cells before and after an array of this shape are read, axis by axis: 0 but at `halo` faces."""
        return self._kernel(_compilers.choose(self._backend))[1].halo(*shape)

    def halo_of_fields(self, *shape: int) -> tuple[tuple[int, int], ...]:
        """The same of the spec's `fields`: what `steps` after the first read of them."""
        return self._kernel(_compilers.choose(self._backend))[1].halo_of_fields(*shape)

    def __call__(self, u: Any, out: Any = None, stream: Any = None, **given: Any) -> Any:
        """One sweep of the array, of the spec's storage and dimensions; x is the last axis and contiguous.

        Returns `out`, or a new array of the same library and device. With `halo` faces `u` is a view into a padded array,
        whose cells around it are read; for all others it is all that is read. `stream` is one of CuPy or PyTorch, or a
        number; without it work goes to the stream that the array's library is on, and calls return when it is queued.
        NumPy arrays are ready on return.

        What the spec's `update` takes beside its input is given by the names it has there: the input one step back
        (`previous`), further fields, and scalars: wave(u, u_old=u_old, c2dt2=c2dt2). They have the shape of `u` and are read
        at the point itself; `out` may be one of them, unless the spec has `steps` above 1. Then fields, like `u`, are views
        into padded arrays where faces are `halo`.

        TypeError: no array, another type of elements, `u` and `out` in different places. ValueError: another number of
        dimensions or shape, a read-only `out`, overlap, x not contiguous.
        """
        if out is None and self._launches:
            out = _arrays.new_on_device(u)  # often where an earlier one was, and its launch is known
        if out is not None and self._launch_again(u, out, stream, given):
            return out
        source = _arrays.wrap(u)
        library, kernel = self._kernel_for(source)
        _arrays.check_type(source, kernel.info, "u")
        if _in_pairs(kernel.info):
            raise TypeError(f"{self.name} takes {kernel.info.steps} steps in a sweep, and a step reads the one before: call "
                            f"iterate(), which returns the last two")
        target = source.new() if out is None else _arrays.wrap(out)
        self._check_pair(source, target, kernel)
        further = _Further.of(kernel.info, source, given)
        with source.here():
            if source.on_device == kernel.info.on_host:
                self._through_device(library, kernel, source, target, further)
            else:
                stream = source.stream() if stream is None else stream
                if further.some:
                    _in_python(kernel.run, source.view, target.view, *further.views(), None, stream)
                else:
                    _in_python(kernel.apply, source.view, target.view, stream)
                self._remember(kernel, source, target, given, further)
        return target.given

    def _launch_again(self, u: Any, out: Any, stream: Any, given: Mapping[str, Any]) -> bool:
        """Launches what the same memory was launched with before, without looking at the arrays again."""
        found = self._launches and self._launches.get(self._places(u, out, given))
        if not found:
            return False
        kernel, launch = found
        handle = _arrays.stream_on_device(u) if stream is None else spider._stream_handle(stream)
        status = launch(handle, [float(given[name]) for name in kernel.info.scalars])
        if status != 0:
            _in_python(kernel.library._check, status)
        return True

    @staticmethod
    def _places(u: Any, out: Any, given: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """What decides how a kernel takes all this, whatever the values; None where an array is not on the current device."""
        arrays = (value for value in given.values() if not isinstance(value, (int, float)))
        places = _arrays.places_on_device(u, out, *arrays)
        return places and (*given, *places)

    def _remember(self, kernel: Any, source: _arrays.Array, target: _arrays.Array, given: Mapping[str, Any],
                  further: _Further) -> None:
        # Whether cells around an array are its own, an address does not tell.
        if any(map(any, (*kernel.halo(*source.shape), *kernel.halo_of_fields(*source.shape)))):
            return
        places = self._places(source.given, target.given, given)
        if places is None:
            return
        if len(self._launches) >= _MOST_LAUNCHES:
            self._launches.clear()
        self._launches[places] = kernel, kernel._launcher(source.view, target.view, *further.views())

    update = __call__

    def iterate(self, u: Any, steps: int, out: Any = None, stream: Any = None,
                progress: bool | Callable[[int, int], None] = False, **given: Any) -> Any:
        """`steps` time steps: each sweep's result is the next one's input. `u` stays as it is.

        Returns `out`, or a new array. Cells beyond `halo` faces stay what they are around `u`. `progress` is True for a bar
        on standard error with the time left, or a function of the steps done and all steps.

        Of a spec with `previous` both the last step and the one before it, to go on from: u, u_old = wave.iterate(u, 100,
        u_old=u_old, c2dt2=c2dt2).
        """
        source = _arrays.wrap(u)
        library, kernel = self._kernel_for(source)
        _arrays.check_type(source, kernel.info, "u")
        target = None if out is None else _arrays.wrap(out)
        if target is not None:
            self._check_pair(source, target, kernel)
        report = _progress.make(progress, self.name)
        further = _Further.of(kernel.info, source, given)
        if further.some:
            with source.here():
                return self._iterate_update(library, kernel, source, target, steps, stream, report, further)
        with source.here():
            if source.on_device == kernel.info.on_host:
                return self._iterate_through_device(library, kernel, source, target, steps, report)
            halo = kernel.halo(*source.shape)
            if any(low or high for low, high in halo):
                if source.on_device:
                    raise NotImplementedError("iterate() with halo faces takes arrays on the host: call the stencil step by "
                                              "step, and fill the halo between")
                spider._require_halo(source.view, spider._Cells.of(source.view), halo, kernel.info)
                a, b = _arrays.padded(source, halo), _arrays.padded(source, halo)
            else:
                a, b = source.copy(), source.new()
            stream = source.stream() if stream is None else stream
            result = _steps(kernel, (a.view, b.view), steps, stream, report, source.synchronize)
        last = a if result is a.view else b
        if target is None:
            return last.copy().given if any(map(any, halo)) else last.given
        target.view[...] = last.view
        return target.given

    def points(self, shape: Sequence[int], cells: Sequence[Sequence[int]]) -> Points:
        """Cells of arrays of this shape, an index for each axis: sources and receivers.

            source, line = wave.points(u.shape, [(60, 60, 20)]), wave.points(u.shape, [(60, y, 2) for y in range(120)])
            for step in range(steps):
                wave(u, out=u_old, u_old=u_old, c2dt2=c2dt2)
                u, u_old = u_old, u
                source.add(u, signal[step])
                line.read(u, out=trace[step])
        """
        return Points(self, shape, cells)

    def _kernel_for(self, array: _arrays.Array) -> tuple[Any, Any]:
        if array.on_device:
            if self._backend == "host":
                raise TypeError(f"{self.name} was made with backend=\"host\", and the array is on a device")
            return self._kernel(_compilers.cuda())
        return self._kernel(_compilers.choose(self._backend))

    def _kernel(self, toolchain: _compilers.Toolchain) -> tuple[Any, Any]:
        found = self._kernels.get(toolchain.backend)
        if found is None:
            with self._loading:
                library = spider.load(_compilers.compile_kernel(self._generated, toolchain))
                found = self._kernels.setdefault(toolchain.backend, (library, library.kernel(self.name)))
        return found

    @staticmethod
    def _check_pair(source: _arrays.Array, target: _arrays.Array, kernel: Any) -> None:
        _arrays.check_type(target, kernel.info, "out")
        if source.on_device != target.on_device:
            places = [f"on {'a device' if array.on_device else 'the host'}" for array in (source, target)]
            raise TypeError(f"u is {places[0]} and out {places[1]}: both must be in one place")
        if source.shape != target.shape:
            raise ValueError(f"out has the shape {target.shape}, and u {source.shape}")
        if getattr(getattr(target.view, "flags", None), "writeable", True) is False:
            raise ValueError("out is read-only")

    @staticmethod
    def _iterate_update(library: Any, kernel: Any, source: _arrays.Array, target: _arrays.Array | None, steps: int,
                        stream: Any, report: Any, further: _Further) -> Any:
        """Time steps of a kernel that takes more than its input."""
        halo = kernel.halo(*source.shape)
        uploads = source.on_device == kernel.info.on_host
        if any(map(any, halo)):
            raise NotImplementedError("iterate() of an update takes no halo faces: call it step by step, and fill the halo "
                                      "between")
        in_pairs = _in_pairs(kernel.info)
        count = 4 if in_pairs else 3 if further.previous else 2
        if uploads:
            turns = [_in_python(library.field, kernel, *source.shape) for _ in range(count)]
            _arrays.to_field(turns[0], source, halo)
            if further.previous:
                _arrays.to_field(turns[2], further.previous, halo)
            fields = further.uploaded(library, kernel)[1]
            stream = None
        else:
            arrays = [source.copy(), source.new(), *([further.previous.copy()] if further.previous else [])]
            arrays += [source.new()] if in_pairs else []
            turns = [array.view for array in arrays]
            fields = further.views()[1]
            stream = source.stream() if stream is None else stream

        def run(now: int) -> None:
            previous = turns[2] if further.previous else None
            before = turns[3] if in_pairs else None
            last = _in_python(kernel.run, turns[0], turns[1], previous, fields, further.scalars, now, stream, before)
            place = next(i for i, one in enumerate(turns) if one is last)
            if in_pairs:  # (0, 2) and (1, 3)
                turns[:] = [turns[place ^ other] for other in range(4)]
            else:
                turns[:] = turns[place:] + turns[:place]  # the input one step back is the last of the turn

        _chunks(kernel, steps, report, run, library.synchronize if uploads else source.synchronize)
        results = []
        for turn in (turns[0], turns[2]) if further.previous else (turns[0],):
            result = source.new() if target is None or results else target
            if uploads:
                _arrays.from_field(turn, result)
            else:
                result.view[...] = turn
            results.append(result.given)
        return tuple(results) if further.previous else results[0]

    @staticmethod
    def _through_device(library: Any, kernel: Any, source: _arrays.Array, target: _arrays.Array, further: _Further) -> None:
        """A sweep of arrays on the host by a kernel of a device."""
        halo = kernel.halo(*source.shape)
        spider._require_halo(source.view, spider._Cells.of(source.view), halo, kernel.info)
        a, b = (_in_python(library.field, kernel, *source.shape) for _ in range(2))
        _arrays.to_field(a, source, halo)
        if further.some:
            _in_python(kernel.run, a, b, *further.uploaded(library, kernel))
        else:
            _in_python(kernel.apply, a, b)
        _arrays.from_field(b, target)

    @staticmethod
    def _iterate_through_device(library: Any, kernel: Any, source: _arrays.Array, target: _arrays.Array | None, steps: int,
                                report: Any) -> Any:
        halo = kernel.halo(*source.shape)
        spider._require_halo(source.view, spider._Cells.of(source.view), halo, kernel.info)
        fields = tuple(_in_python(library.field, kernel, *source.shape) for _ in range(2))
        for field in fields:
            _arrays.to_field(field, source, halo)
        result = _steps(kernel, fields, steps, None, report, library.synchronize)
        target = source.new() if target is None else target
        _arrays.from_field(result, target)
        return target.given


class Points:
    """Cells of arrays of one shape. Made by Stencil.points."""

    def __init__(self, stencil: Stencil, shape: Sequence[int], cells: Sequence[Sequence[int]]):
        self._stencil = stencil
        self._shape, self._cells = tuple(shape), [tuple(cell) for cell in cells]
        self._by_place: dict[Any, Any] = {}  # by device
        self._accesses: dict[Any, Any] = {}  # by the place of the array and the kind of the values

    def __len__(self) -> int:
        return len(self._cells)

    def add(self, u: Any, values: Any, stream: Any = None) -> Any:
        """Adds values[i] to cell i of the array, in place. Cells that are listed more than once add up in the order of the list,
        rounded once. `values` are f32 (f64 for f64 arrays), on the device if `u` is there; on the host anything that NumPy makes
        an array of. Returns `u`. Errors as those of a sweep; a cell outside is a ValueError."""
        if self._access_again("spider_points_add", u, values, stream):
            return u
        array = _arrays.wrap(u)
        with array.here():
            points = self._of(array)
            if not array.on_device and not hasattr(values, "data_ptr"):
                values = numpy.ascontiguousarray(values, _arrays.NUMBERS[points.kernel.info.accumulate])
            stream = array.stream() if stream is None else stream
            _in_python(points.add, array.view, _arrays.wrap(values).view, stream)
            self._remember(points, u, array, values)
        return u

    def read(self, u: Any, out: Any = None, stream: Any = None) -> Any:
        """What the cells hold, exactly: `out`, e.g. a row of a larger array, or a new array of the same library."""
        if out is not None and self._access_again("spider_points_read", u, out, stream):
            return out
        array = _arrays.wrap(u)
        with array.here():
            points = self._of(array)
            numbers = array.numbers(len(self), points.kernel.info.accumulate) if out is None else _arrays.wrap(out)
            stream = array.stream() if stream is None else stream
            _in_python(points.read, array.view, numbers.view, stream)
            self._remember(points, u, array, numbers.given)
        return numbers.given

    def _access_again(self, call: str, u: Any, values: Any, stream: Any) -> bool:
        """The same with an array and a kind of values that were checked before."""
        if not self._accesses:
            return False
        places = _arrays.places_on_device(u, values)
        found = places and self._accesses.get((places[0], places[1][1:]))
        if not found:
            return False
        points, field = found
        handle = _arrays.stream_on_device(u) if stream is None else spider._stream_handle(stream)
        library = points.kernel.library
        status = getattr(library._c, call)(points._memory, field, places[1][0], handle)
        if status != 0:
            _in_python(library._check, status)
        return True

    def _remember(self, points: Any, u: Any, array: _arrays.Array, values: Any) -> None:
        places = _arrays.places_on_device(u, values)
        if places is None:
            return
        if len(self._accesses) >= _MOST_LAUNCHES:
            self._accesses.clear()
        self._accesses[places[0], places[1][1:]] = points, points.kernel._view(array.view).field

    def _of(self, array: _arrays.Array) -> Any:
        """The points where the array is: those of the host are computed there."""
        toolchain = _compilers.cuda() if array.on_device else _compilers.host()
        kernel = self._stencil._kernel(toolchain)[1]
        _arrays.check_type(array, kernel.info, "u")
        place = toolchain.backend, array.device
        if place not in self._by_place:
            self._by_place[place] = _in_python(kernel.points, self._shape, self._cells)
        return self._by_place[place]


@dataclasses.dataclass
class _Further:
    """What an update takes beside its input."""

    previous: _arrays.Array | None
    fields: list[_arrays.Array]
    scalars: list[float]
    storages: list[str]

    @property
    def some(self) -> bool:
        return self.previous is not None or bool(self.fields) or bool(self.scalars)

    @staticmethod
    def of(info: spider.Info, source: _arrays.Array, given: Mapping[str, Any]) -> _Further:
        """TypeError where a name is missing or not the spec's."""
        arrays = {info.previous: info.storage} if info.previous else {}
        arrays |= dict(info.fields)
        wanted = [*arrays, *info.scalars]
        for name in wanted:
            if name in _OWN_WORDS:
                raise TypeError(f"{info.name} takes a {name}, which calls have a meaning of their own for: give it another name "
                                f"in the spec")
        if set(wanted) != set(given):
            missing = [name for name in wanted if name not in given]
            unknown = [name for name in given if name not in wanted]
            what = f"needs {', '.join(missing)} by name" if missing else f"takes no {', '.join(unknown)}"
            raise TypeError(f"{info.name} {what}: beside u it takes {', '.join(wanted) or 'nothing'}")
        found = {name: _arrays.wrap(given[name]) for name in arrays}
        for name, array in found.items():
            _arrays.check_type(array, info, name, arrays[name])
            if array.shape != source.shape:
                raise ValueError(f"{name} has the shape {array.shape}, and u {source.shape}")
            if array.on_device != source.on_device:
                raise TypeError(f"{name} and u are not in one place: both on the host, or both on a device")
        return _Further(found.get(info.previous), [found[name] for name, _ in info.fields],
                        [float(given[name]) for name in info.scalars], [storage for _, storage in info.fields])

    def views(self) -> tuple[Any, list[Any], list[float]]:
        return self.previous and self.previous.view, [field.view for field in self.fields], self.scalars

    def uploaded(self, library: Any, kernel: Any) -> tuple[Any, list[Any], list[float]]:
        """In memory of the device."""
        up = functools.partial(_arrays.further_field, library, kernel)
        previous = self.previous and up(self.previous, kernel.info.storage)
        return previous, [up(field, storage) for field, storage in zip(self.fields, self.storages)], self.scalars


def _in_pairs(info: spider.Info) -> bool:
    """Do sweeps take two fields to two, the last step and the one before?"""
    return info.previous is not None and info.steps > 1


def _steps(kernel: Any, pair: tuple[Any, Any], steps: int, stream: Any, report: Any, synchronize: Any) -> Any:
    """Of the pair that which holds the last step. Between reports there are so many steps as take a moment."""
    turns = list(pair)

    def run(now: int) -> None:
        if _in_python(kernel.iterate, *turns, now, stream) is turns[1]:
            turns.reverse()

    _chunks(kernel, steps, report, run, synchronize)
    return turns[0]


def _chunks(kernel: Any, steps: int, report: Any, run: Callable[[int], None], synchronize: Callable[[], None]) -> None:
    """Runs so many steps, with reports between."""
    steps = spider._int64("steps", steps)
    if report is None or steps <= 0:
        return run(steps)
    done, chunk = 0, kernel.info.steps
    report(0, steps)
    while done < steps:
        now = min(chunk, steps - done)
        begin = time.monotonic()
        run(now)
        synchronize()
        seconds = time.monotonic() - begin
        done += now
        report(done, steps)
        if seconds < _SECONDS_PER_REPORT:
            chunk = min(2 * chunk, kernel.info.steps * (1 << 20))


def _in_python(call: Callable[..., Any], *arguments: Any) -> Any:
    """The call's result; a refusal of the runtime as the exception that Python has for it."""
    try:
        return call(*arguments)
    except spider.Error as error:
        kind = _STATUS_ERRORS.get(error.status)
        if kind is None:
            raise
        raise kind(str(error)) from error


assert sys.version_info >= (3, 9)
