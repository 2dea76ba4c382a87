"""A system of equations as a function of its fields."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy

from . import _arrays, _autograd, _compilers, _labels, _made, _progress, _repeats, _snapshots, _traced, _transfers, spider
from ._calls import in_python
from ._points import Points

_OWN_WORDS = ("state", "steps", "stream", "progress", "inject", "record", "in_place", "reductions", "until", "check_every",
              "checkpoint", "snapshots")

Accesses = Mapping[str, Any]


class System(_traced.SystemCalls, _made.Made):
    """A system of equations: call it with its fields by name. Made by spider_gen.stencil of a spec with `stages`. It can be
    pickled: where it is loaded it is made again from the spec's text, through the cache. A copy is the system itself, which
    nothing changes."""

    _kind = "system"

    def halo(self, *shape: int) -> dict[str, tuple[tuple[int, int], ...]]:
        """How many cells before and after each field are read, by name, along the axes it has: 0 but at `halo` faces. The shape
        is that of a field with all axes."""
        kernel = self._kernel(_compilers.choose(self._backend))[1]
        if len(shape) != kernel.info.dimensions:
            raise ValueError(f"{self.name} has {kernel.info.dimensions} dimensions, not {len(shape)}")
        halos = {}
        for (name, _), axes in zip(kernel.info.fields, kernel.info.axes):
            widths = in_python(kernel.halo_of_field, name, *shape)
            halos[name] = tuple(width for width, has in zip(widths, axes[3 - len(shape):]) if has)
        return halos

    @_autograd.untraced
    def _call(self, state: Mapping[str, Any], stream: Any = None, in_place: Any = False, reductions: bool = False,
              **scalars: Any) -> Any:
        """One sweep by the kernel."""
        if _is_for_jax(state, scalars, stream, in_place, reductions):
            from . import _jax

            return _jax.sweep_system(self, state, scalars, stream=stream, in_place=in_place, reductions=reductions)
        in_place = in_place if in_place is _repeats.EITHER else bool(in_place)
        key = _repeats.key_of(state, in_place, scalars) if stream is None and not reductions else None
        remembered = key and self._launches.get(key)
        if remembered:
            _autograd.keep_dynamo_out()
            found = remembered.run(state, in_place, scalars)
            if found is not None:
                return found
        if isinstance(state, Mapping) and _labels.among(state.values()):
            return _labels.call_system(self._call, self.info, state, in_place, None, stream=stream, reductions=reductions, **scalars)
        results, _, numbers = self._advance(_Call(state, 1, stream, in_place, scalars, reductions=bool(reductions)), key)
        return (results, numbers) if reductions else results

    @_autograd.untraced
    def _iterate(self, state: Mapping[str, Any], steps: int, stream: Any = None,
                 progress: bool | Callable[[int, int], None] = False, inject: Accesses | None = None,
                 record: Accesses | None = None, in_place: bool = False, reductions: bool = False,
                 until: tuple[str, float] | None = None, check_every: int = 10, checkpoint: int | None = None,
                 snapshots: str | None = None, **scalars: Any) -> Any:
        """Time steps by the kernel."""
        _snapshots.check(snapshots)
        asked_for = {"stream": stream, "progress": progress, "in_place": in_place, "reductions": reductions, "until": until}
        if _is_for_jax(state, scalars, *asked_for.values(), accesses=inject):
            from . import _jax

            return _jax.iterate_system(self, state, steps, scalars, inject, record, checkpoint, snapshots, **asked_for)
        if isinstance(state, Mapping) and _labels.among(state.values()):
            asked_for.pop("in_place")
            return _labels.call_system(self._iterate, self.info, state, in_place, inject, steps=steps, record=record,
                                       check_every=check_every, checkpoint=checkpoint, snapshots=snapshots, **asked_for, **scalars)
        for what, asked, value in (("inject", inject, "(points, values)"), ("record", record, "points")):
            if asked is not None and not isinstance(asked, Mapping):
                raise TypeError(f"{what} is a dict by the names of fields, {{NAME: {value}}}, not a {type(asked).__name__}")
        call = _Call(state, spider._int64("steps", steps), stream, in_place, scalars, dict(inject or {}), dict(record or {}),
                     _progress.make(progress, self.name), iterates=True, reductions=bool(reductions), until=_Bound.of(until, check_every))
        if call.steps < 0:
            raise ValueError(f"{steps} steps; there must be 0 or more")
        if reductions and call.steps == 0:
            raise ValueError("0 steps make no reductions")
        results, records, numbers = self._advance(call)
        found = [results] + ([] if record is None else [records]) + ([numbers] if reductions else [])
        return found[0] if len(found) == 1 else tuple(found)

    def _advance(self, call: _Call, key: Any = None) -> tuple[dict[str, Any], dict[str, Any], Reductions]:
        """`key`: what a sweep is remembered by."""
        _autograd.keep_dynamo_out()
        if not isinstance(call.state, Mapping) or not call.state:
            raise TypeError(f"{self.name} takes its fields by name, as a dict of arrays, not "
                            f"{'an empty one' if isinstance(call.state, Mapping) else 'a ' + type(call.state).__name__}")
        arrays = {name: _arrays.wrap(array, str(name)) for name, array in call.state.items()}
        first = next(iter(arrays.values()))
        library, kernel = self._kernel_for(first)
        given = _Given.of(kernel, arrays, call)
        _check_reductions(kernel.info, call)
        with first.here(call.stream):
            accesses = _Access.all_of(self, kernel, given, call)
            if given.empty:
                if call.reductions or call.until:
                    raise ValueError(f"{self.name} has no points to reduce: an axis has no cells")
                results, records = given.nothing(call), {one.name: one.nothing(call.steps) for one in accesses if one.reads}
                numbers = Reductions()
            else:
                kind = _OnDeviceOfRuntime if first.on_device == kernel.info.on_host else _WhereTheyAre
                buffers = kind(library, kernel, given, call)
                results, records, numbers = _run(buffers, given, accesses, call)
                repeat = key and buffers.repeat()
                if repeat:
                    self._keep_launch(key, repeat)
            _arrays.settle(*given.arrays)
        for array in results.values():
            _autograd.mark_written(array)
        return results, records, numbers


def _is_for_jax(state: Any, scalars: Mapping[str, Any], *asked: Any, accesses: Any = None) -> bool:
    if not isinstance(state, Mapping):
        return False
    pairs = accesses.values() if isinstance(accesses, Mapping) else []
    values = [pair[1] for pair in pairs if isinstance(pair, (tuple, list)) and len(pair) == 2 and _autograd.is_jax_tracer(pair[1])]
    return _autograd.is_for_jax((*state.values(), *scalars.values(), *values), *asked)


class Reductions(dict):
    """Numbers of the last step by name, and how many steps there were."""

    steps = 0


@dataclasses.dataclass
class _Bound:
    """Where steps stop."""

    name: str
    bound: float
    check_every: int

    @staticmethod
    def of(until: Any, check_every: Any) -> _Bound | None:
        every = spider._int64("check_every", check_every)
        if every < 1:
            raise ValueError(f"check_every is {check_every}; it must be 1 or more")
        if until is None:
            return None
        if not isinstance(until, (tuple, list)) or len(until) != 2 or not isinstance(until[0], str):
            raise TypeError("until is a pair, the name of a reduction and its bound, such as (\"change\", 1e-6)")
        return _Bound(until[0], _autograd.number(until[1], "the bound of until"), every)


def _check_reductions(info: spider.Info, call: _Call) -> None:
    if (call.reductions or call.until) and not info.reductions:
        raise ValueError(f"{info.name} has no reductions: its spec has no `reduce`")
    if call.until and call.until.name not in info.reductions:
        raise ValueError(f"until names {call.until.name}, and the reductions of {info.name} are {', '.join(info.reductions)}")


@dataclasses.dataclass
class _Call:
    """What a caller asks for."""

    state: Mapping[str, Any]
    steps: int
    stream: Any
    in_place: Any
    scalars: Mapping[str, Any]
    inject: Accesses = dataclasses.field(default_factory=dict)
    record: Accesses = dataclasses.field(default_factory=dict)
    report: Any = None
    iterates: bool = False
    reductions: bool = False
    until: _Bound | None = None


@dataclasses.dataclass
class _Given:
    """The arrays of a state, in the order of the spec, and the scalars. They are checked."""

    info: spider.Info
    names: list[str]
    arrays: list[_arrays.Array]  #: with all axes
    given: list[_arrays.Array]  #: as they came
    scalars: list[float]
    halos: list[Any]  #: of each field

    @property
    def empty(self) -> bool:
        return any(array.empty for array in self.arrays)

    @property
    def written(self) -> list[int]:
        return [i for i, use in enumerate(self.info.uses) if use & spider.FIELD_WRITTEN]

    def nothing(self, call: _Call) -> dict[str, Any]:
        """The result of empty arrays."""
        if call.report is not None:
            call.report(call.steps, call.steps)
        return {self.names[i]: (self.arrays[i] if call.in_place else self.arrays[i].new()).given for i in self.written}

    @staticmethod
    def of(kernel: Any, arrays: Mapping[str, _arrays.Array], call: _Call) -> _Given:
        info = kernel.info
        names = [name for name, _ in info.fields]
        _check_words(info, names)
        _check_names(f"{info.name} takes the fields", names, arrays)
        _check_names(f"{info.name} takes the scalars", info.scalars, call.scalars)
        found = [arrays[name] for name in names]
        _check_place(names, found)
        for (name, storage), array in zip(info.fields, found):
            _arrays.check_elements(array, info, name, storage)
        extents = common_extents(info, names, [array.shape for array in found])
        spread = [array.spread(axes[3 - info.dimensions:]) for array, axes in zip(found, info.axes)]
        scalars = [_autograd.number(call.scalars[name], name) for name in info.scalars]
        halos = [[(0, 0)] * info.dimensions if 0 in extents else in_python(kernel.halo_of_field, name, *extents) for name in names]
        given = _Given(info, names, spread, found, scalars, halos)
        if call.in_place:
            given._check_written(call.state)
        if call.iterates and found[0].on_device and any(map(any, (side for halo in given.halos for side in halo))):
            raise NotImplementedError("iterate() with halo faces takes arrays on the host: call the system step by step, and fill "
                                      "the halo between")
        return given

    def _check_written(self, state: Mapping[str, Any]) -> None:
        """The arrays that in_place writes."""
        for i in self.written:
            name = self.names[i]
            _arrays.check_written(_arrays.wrap(state[name], name, written=True), name)
            for other, array in zip(self.names, self.arrays):
                if other != name and not array.on_device and numpy.shares_memory(self.arrays[i].view, array.view):
                    raise ValueError(f"{name}, which in_place writes, and {other} share cells")


def _check_words(info: spider.Info, names: Sequence[str]) -> None:
    for name in info.scalars:
        if name in _OWN_WORDS:
            raise TypeError(f"{info.name} takes a scalar {name}, which calls have a meaning of their own for: give it another "
                            f"name in the spec")


def _check_names(takes: str, wanted: Sequence[str], given: Mapping[str, Any]) -> None:
    """TypeError where one is missing, or is none."""
    missing = [name for name in wanted if name not in given]
    unknown = [str(name) for name in given if name not in wanted]
    words = [f"{', '.join(missing)} is missing"] if missing else []
    words += [f"there is no {', '.join(unknown)}"] if unknown else []
    if words:
        raise TypeError(f"{takes} {', '.join(wanted) or '(none)'} by name: {'; '.join(words)}")


def _check_place(names: Sequence[str], arrays: Sequence[_arrays.Array]) -> None:
    first = arrays[0]
    for name, array in zip(names, arrays):
        if array.on_device != first.on_device:
            places = [f"{what} is on {'a device' if one.on_device else 'the host'}"
                      for what, one in ((names[0], first), (name, array))]
            raise TypeError(f"{' and '.join(places)}: all fields must be in one place")
        if array.device != first.device:
            raise TypeError(f"{names[0]} is on device {first.device} and {name} on device {array.device}: all fields must be on "
                            f"one")


def common_extents(info: spider.Info, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The extents of fields with all axes. ValueError where arrays of these shapes do not fit together."""
    letters = "zyx"[3 - info.dimensions:]
    extents: dict[str, int] = {}
    tellers: dict[str, str] = {}
    for name, axes, given in zip(names, info.axes, shapes):
        own = [letter for letter, has in zip("zyx", axes) if has]
        shape = dict(zip(letters if len(given) == len(letters) else own, given))
        if len(given) not in (len(own), len(letters)) or any(shape.get(letter, 1) != 1 for letter in letters if letter not in own):
            raise ValueError(f"{name} has the axes {', '.join(own)} in {info.name}, and the array has the shape {given}")
        for letter in own:
            teller = tellers.setdefault(letter, name)
            if extents.setdefault(letter, shape[letter]) != shape[letter]:
                raise ValueError(f"{name} has {shape[letter]} cells along {letter}, and {teller} {extents[letter]}")
    return tuple(extents.get(letter, 1) for letter in letters)


#: A sweep of rows that do not start on vectors takes 1.7 to 2.5 times as long (H200), and copies as long as two or three sweeps.
_FEWEST_STEPS_TO_ALIGN = 4


def _aligns_rows(given: _Given, call: _Call) -> bool:
    """Do steps pay for copies of the fields whose rows start on vectors?"""
    if not call.iterates or call.steps < _FEWEST_STEPS_TO_ALIGN or any(map(any, (side for halo in given.halos for side in halo))):
        return False
    return any(array.can_align_rows and not _arrays.has_aligned_rows(array) for array in given.arrays)


class _WhereTheyAre:
    """Buffers of sweeps where the arrays are."""

    def __init__(self, library: Any, kernel: Any, given: _Given, call: _Call):
        self._given, self._in_place = given, call.in_place
        once = kernel.info.launches == 1 and not call.iterates
        self._aligns = _aligns_rows(given, call)
        pairs = [self._pair(i, once, call.in_place) for i in range(len(given.arrays))]
        self._by_view = {id(array.view): array for pair in pairs for array in pair if array is not None}
        views = [[array and array.view for array in own] for own in zip(*pairs)]
        self._pairs, self._views = pairs, views
        stream = given.arrays[0].stream() if call.stream is None else call.stream
        self.sweep = in_python(spider.SystemSweep, kernel, *views, given.scalars, stream, not call.iterates)
        self.synchronize = given.arrays[0].synchronize

    def repeat(self) -> _repeats.Repeat | None:
        """The sweep for arrays that lie alike; None where cells around them are read, or where it copied what it reads."""
        given, kernel = self._given, self.sweep.kernel
        copied = [first is not array for (first, _), array in zip(self._pairs, given.arrays)]
        for i, halo in enumerate(given.halos):
            is_written = bool(given.info.uses[i] & spider.FIELD_WRITTEN)
            if any(map(any, halo)) or (copied[i] and not is_written) or (is_written and given.arrays[i] is not given.given[i]):
                return None
        return _repeats.Repeat(kernel, kernel._system_launcher(*self._views, given.scalars), copied)

    def _pair(self, i: int, once: bool, in_place: bool) -> tuple[_arrays.Array, _arrays.Array | None]:
        """A field's buffers. `once`: is there a single launch, which writes no field that it reads around a point?"""
        array, halo, use = self._given.arrays[i], self._given.halos[i], self._given.info.uses[i]
        around = any(map(any, halo))
        if self._aligns:
            first = array.with_aligned_rows()
            first.view[...] = array.view
            return first, array.with_aligned_rows() if use & spider.FIELD_TWO_BUFFERS else None
        if around:
            _arrays.require_halo(array, halo, self._given.info)
        first = array
        stays = not use & spider.FIELD_WRITTEN or (once and use & spider.FIELD_RESULT_IN_OUTPUT)
        if stays:
            first = _arrays.readable(array, halo, self._given.info)
        elif not in_place:
            first = array.padded(halo) if around else array.copy()
        if not use & spider.FIELD_TWO_BUFFERS:
            return first, None
        return first, array.padded(halo) if around and not once else array.new()

    def result(self, i: int) -> Any:
        array, view = self._given.arrays[i], self.sweep.buffer(i)
        if self._in_place and self._in_place is not _repeats.EITHER:
            if view is not array.view:
                array.view[...] = view
            return array.given
        found = self._by_view[id(view)]
        return found.copy().given if self._aligns or any(map(any, self._given.halos[i])) else found.given

    def numbers(self, values: numpy.ndarray | _arrays.Array) -> Any:
        """Numbers of the caller, where the sweeps can read them."""
        return values.view if isinstance(values, _arrays.Array) else self._given.arrays[0].filled(values).view

    def room(self, count: int, kind: str) -> tuple[Any, Callable[[], _arrays.Array]]:
        """Memory for numbers, and what gives them to the caller."""
        array = self._given.arrays[0].numbers(count, kind)
        return array.view, lambda: array


class _OnDeviceOfRuntime:
    """Buffers on a device for arrays of the host."""

    def __init__(self, library: Any, kernel: Any, given: _Given, call: _Call):
        self._library, self._given, self._in_place = library, given, call.in_place
        self._info = kernel.info
        for array, halo in zip(given.arrays, given.halos):
            _arrays.require_halo(array, halo, kernel.info)
        fields = [self._upload(i) for i in range(len(given.arrays))]
        outputs = [self._upload(i) if use & spider.FIELD_TWO_BUFFERS else None for i, use in enumerate(kernel.info.uses)]
        self.sweep = in_python(spider.SystemSweep, kernel, fields, outputs, given.scalars, None, not call.iterates)
        self.synchronize = library.synchronize

    @staticmethod
    def repeat() -> None:
        """Nothing: arrays are copied."""

    def _upload(self, i: int) -> Any:
        return _transfers.uploaded(self._library, self._info, self._given.arrays[i], self._info.fields[i][1], self._given.halos[i])

    def result(self, i: int) -> Any:
        target = self._given.arrays[i] if self._in_place else self._given.arrays[i].new()
        _transfers.from_field(self.sweep.buffer(i), target)
        return target.given

    def numbers(self, values: numpy.ndarray) -> Any:
        kind = "f64" if values.dtype == numpy.float64 else "f32"
        return _transfers.uploaded(self._library, self._info, _arrays.Array(values, values), kind, [(0, 0)])

    def room(self, count: int, kind: str) -> tuple[Any, Callable[[], _arrays.Array]]:
        field = _transfers.room(self._library, self._info, (count,), kind, [(0, 0)])
        array = self._given.arrays[0].numbers(count, kind)
        return field, lambda: _transfers.from_field(field, array) or array


@dataclasses.dataclass
class _Access:
    """Cells of a field that each step adds to, or that are read after it."""

    name: str
    field: int
    points: Any  #: the runtime's; None where there are none, of empty arrays
    count: int
    kind: str  #: of the values
    reads: bool
    values: Any  #: to add, steps x points one after the other
    nothing: Callable[[int], Any]  #: a record of no steps, or of no points

    @staticmethod
    def all_of(system: System, kernel: Any, given: _Given, call: _Call) -> list[_Access]:
        """First those that add."""
        found = []
        for what, asked in (("inject", call.inject), ("record", call.record)):
            unknown = [str(name) for name in asked if name not in given.names]
            if unknown:
                raise TypeError(f"{what} names {', '.join(unknown)}, and the fields are {', '.join(given.names)}")
            found += [_Access._of(system, kernel, given, call, name, one, what == "record") for name, one in asked.items()]
        return found

    @staticmethod
    def _of(system: System, kernel: Any, given: _Given, call: _Call, name: str, asked: Any, reads: bool) -> _Access:
        field, values = given.names.index(name), None
        if not reads:
            if not given.info.uses[field] & spider.FIELD_WRITTEN:
                raise ValueError(f"inject names {name}, which no stage writes: add to the array before the call")
            if not isinstance(asked, (tuple, list)) or len(asked) != 2:
                raise TypeError(f"inject takes a pair for {name}: the points, and values of steps x points")
            asked, values = asked
        array = given.given[field]
        points = asked if isinstance(asked, Points) else Points(system, array.shape, asked)
        points.check_shape(array.shape, name)
        kind = spider.values_of(given.info.fields[field][1])
        own = None if array.empty else points.of_kernel(kernel, name, (kernel, array.device))
        if values is not None:
            values = _values(values, f"the values of {name}", array, kind, call.steps, len(points))

        def nothing(steps: int) -> Any:
            return array.numbers(0, kind).given.reshape(steps, len(points))

        return _Access(name, field, own, len(points), kind, reads, values, nothing)

    def place(self, buffers: Any, steps: int) -> tuple[Any, Callable[[], _arrays.Array] | None]:
        return buffers.room(steps * self.count, self.kind) if self.reads else (buffers.numbers(self.values), None)


def _values(values: Any, what: str, array: _arrays.Array, kind: str, steps: int, count: int) -> Any:
    """steps x points numbers one after the other: of NumPy, or an array on the device of the fields."""
    _autograd.refuse(values, what)
    if _on_device(values):
        given = _arrays.wrap(values, what)
        if not array.on_device or given.device != array.device:
            raise TypeError(f"{what} and the fields are not in one place: both on the host, or both on one device")
        shape = given.shape
        if given.typestr not in spider._TYPES[kind]:
            raise TypeError(f"{what} are {getattr(values, 'dtype', given.typestr)}, and must be {kind}: "
                            f"{given.cast('values', kind)}")
        dense = given if given.empty else given.copy()
    else:
        dense = numpy.ascontiguousarray(spider._bits(values, kind, what))
        shape = dense.shape
    if shape != (steps, count) and not (count == 1 and shape == (steps,)):
        raise ValueError(f"{what} have the shape {tuple(shape)}: there are {steps} steps and {count} points, so pass "
                         f"({steps}, {count})")
    return dense if isinstance(dense, _arrays.Array) else dense.reshape(steps * count)


def _on_device(values: Any) -> bool:
    if getattr(values, "is_cuda", False):
        return True
    return not hasattr(values, "__array_interface__") and hasattr(values, "__cuda_array_interface__")


def _run(buffers: Any, given: _Given, accesses: Sequence[_Access],
         call: _Call) -> tuple[dict[str, Any], dict[str, Any], Reductions]:
    """All steps, or those until the bound. Returns the fields that are written, what was recorded, and the reductions."""
    sweep, kernel = buffers.sweep, buffers.sweep.kernel
    records = {one.name: one.nothing(call.steps) for one in accesses if one.reads and call.steps * one.count == 0}
    placed = [(one, *one.place(buffers, call.steps)) for one in accesses if call.steps * one.count > 0]
    steps = [_step_of(sweep, one, memory) for one, memory, _ in placed]
    numbers, of_points = Reductions(), None
    if call.reductions or call.until:
        of_points = in_python(spider.Reductions, kernel)

    def run(now: int) -> None:
        end = numbers.steps + now
        reduced = of_points if call.until or end == call.steps else None
        if not steps and now > 0:
            in_python(sweep.run, now, reduced)
        for step in range(numbers.steps, end if steps else 0):
            in_python(sweep.run, 1, reduced if step + 1 == end else None)
            for access in steps:
                in_python(access, step)
        numbers.steps = end
        if reduced is not None:
            numbers.update(in_python(reduced.read, sweep.stream))

    while call.until and numbers.steps < call.steps and not numbers.get(call.until.name, math.nan) <= call.until.bound:
        run(min(call.until.check_every, call.steps - numbers.steps))
        if call.report is not None:
            is_met = numbers[call.until.name] <= call.until.bound
            call.report(numbers.steps, numbers.steps if is_met else call.steps)
    if not call.until:
        _progress.in_chunks(kernel, call.steps, call.report, run, buffers.synchronize)
    results = {given.names[i]: buffers.result(i) for i in given.written}
    for one, _, finish in placed:
        if one.reads:
            records[one.name] = finish().given.reshape(call.steps, one.count)
    return results, {name: record[:numbers.steps] for name, record in records.items()}, numbers


def _step_of(sweep: Any, access: _Access, memory: Any) -> Callable[[int], None]:
    """Adds to, or reads, the cells after the step with this number."""
    c = sweep.kernel.library._c
    call = c.spider_points_read if access.reads else c.spider_points_add
    first = spider._Cells.of(memory).address
    bytes_of_step = access.count * (8 if access.kind == "f64" else 4)
    return lambda step: sweep._points(call, access.points, access.field, first + step * bytes_of_step)
