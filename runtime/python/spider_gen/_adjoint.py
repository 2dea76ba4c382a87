"""Derivatives by adjoints: of a sweep, and of time steps with checkpoints. Works on the arrays that stencils take."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy

from . import _arrays, _cache, _generator, _package, _repeats, _snapshots, spider
from ._points import Points
from ._stencil import Stencil
from ._system import System

_SPEC = "adjoint.yaml"
_OF_ADJOINT = ("-D", "--define")  # options that --adjoint takes; `--name` names the forward kernel alone

Fields = Mapping[str, Any]


def adjoint_of(made: Stencil | System) -> Stencil | System:
    """The adjoint of one sweep (`spider-gen --adjoint`): a stencil, or a system with a field NAME_bar for each NAME. It has the
    parameters, the order of the axes and the back end of `made`, and is pickled as any other.

    SpecError where there is none, such as of whole numbers."""
    if made._adjoint is None:
        spec = adjoint_spec(made._spec)
        kind = System if _generator.generate(spec).is_system else Stencil
        made._adjoint = kind(spec, made._backend)
    return made._adjoint


def _gradient_of(made: Stencil | System) -> Stencil | System:
    """adjoint_of(), with stages split where that is faster: then it has scratch fields NAME_bar_term."""
    if made._gradient is None:
        spec = adjoint_spec(made._spec, "--split")
        same = adjoint_of(made)
        made._gradient = same if spec.text == same._spec.text else System(spec, made._backend)
    return made._gradient


def adjoint_spec(spec: _generator.Spec, *asked: str) -> _generator.Spec:
    """What `spider-gen --adjoint` writes of a spec, as asked, with the options that a kernel of it takes."""
    defines, others = [], []
    options = iter(spec.options)
    for option in options:
        if option.startswith(_OF_ADJOINT):
            defines += [option] if option not in _OF_ADJOINT else [option, next(options, "")]
        elif option.startswith("--name"):
            next(options if option == "--name" else iter(()), None)
        else:
            others.append(option)

    def write(folder: Any) -> None:
        said = _generator.run(["--adjoint", *asked, *defines], spec)
        (folder / _SPEC).write_text(said.stdout, encoding="utf-8")

    folder = _cache.entry("adjoint-" + _package.key(spec.key, *asked), write)
    text = (folder / _SPEC).read_bytes()
    if b"stages" in text and b"stages" not in spec.text:  # engines compute stencils, and no systems
        others = _without_engine(others)
    return _generator.Spec(text, f"the adjoint of {spec.shown}", tuple(others))


def _without_engine(options: Sequence[str]) -> list[str]:
    found, rest = [], iter(options)
    for option in rest:
        if option == "--engine":
            next(rest, None)
        elif not option.startswith("--engine="):
            found.append(option)
    return found


def sweep_vjp(made: Stencil | System, inputs: Fields, bars: Fields) -> dict[str, Any]:
    """The derivatives of a number with respect to the arrays that one sweep takes.

    inputs: what the sweep was given, arrays and scalars by name; the input of a stencil is "u".
    bars: the derivatives with respect to what the sweep makes, by name: of a stencil {"u": bar}, of a system of fields that are
      written. With `previous: u_old` a sweep makes (u, u_old) of (u, u_old), the second being the u that it took. A name that is
      missing stands for 0. Shapes and storages are those of the arrays.

    Returns new arrays like the inputs, by name. Scalars have no derivative. Cells of a halo have none: it is that of the arrays
    themselves. Stencils take batches, with all arrays alike.

    SpecError where there is no adjoint. TypeError and ValueError: of names, shapes and elements, as those of a sweep."""
    return _Problem.of(made, inputs).by_image(bars, lambda problem, own: problem.sweep(own))


def iterate_vjp(made: Stencil | System, inputs: Fields, bars: Fields, steps: int, checkpoint: int | None = None,
                inject: Fields | None = None, record: Fields | None = None,
                snapshots: str | None = None, kept: Callable[[int], Fields] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The derivatives of a number with respect to what `iterate(..., steps)` takes.

    inputs, bars: as of sweep_vjp; bars are the derivatives with respect to the last step.
    checkpoint: every so many steps the state is kept, and computed again between; by default the square root of the steps. So
      there are steps/checkpoint + checkpoint states in memory at most. 1 keeps all. Linear sweeps need none.
    snapshots: "f16" keeps what the adjoint alone reads, of f32 and f64, as f16 times a power of two of each field and step.
      States from which steps are computed again keep their storage; with checkpoint=1 there are none.
    kept: gives the fields that iterate_keeping() was told to keep of a step; then nothing is computed again.
    inject: as of System.iterate: {"p": (points, values)}, values of steps x points.
    record: {"p": (points, bars)}, the derivatives with respect to the records, steps x points.

    Returns the derivatives with respect to the inputs, and to the values of `inject`, steps x points, by name.

    NotImplementedError: faces that are `halo`. Else as sweep_vjp."""
    steps = spider._int64("steps", steps)
    every = max(1, math.isqrt(max(steps, 0))) if checkpoint is None else spider._int64("checkpoint", checkpoint)
    if steps < 0 or every < 1:
        raise ValueError(f"{steps} steps and a checkpoint every {every}: steps are 0 or more, and checkpoints 1 or more apart")
    _snapshots.check(snapshots)
    problem = _Problem.of(made, inputs)
    if problem.has_halo():
        raise NotImplementedError("derivatives of iterate() take no halo faces: call the stencil step by step, and fill the halo "
                                  "between")
    if (inject or record) and not isinstance(made, System):
        raise TypeError(f"{made.name} is no system, and its steps neither inject nor record")
    injected: dict[str, Any] = {}

    def run(one: _Problem, own: Fields) -> dict[str, Any]:
        return _Steps(one, steps, every, dict(inject or {}), dict(record or {}), injected, snapshots, kept).run(own)

    return problem.by_image(bars, run), injected


def iterate_keeping(made: Stencil | System, inputs: Fields, steps: int, keep: Callable[[int, Fields], None],
                    inject: Fields | None = None, record: Fields | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
    """What `iterate(..., steps)` returns, fields and records by name, by single sweeps. keep(step, state) copies what `kept` of
    iterate_vjp() gives: what the adjoint reads, before each step, of the fields that steps change."""
    problem = _Problem.of(made, inputs)
    return _Steps(problem, steps, 1, dict(inject or {}), {}, {}).forward(keep, dict(record or {}))


def checkpoints_needed(made: Stencil | System, info: Any = None) -> tuple[str, ...]:
    """The fields whose values, before each sweep, the adjoint reads and a sweep changes; none of linear sweeps."""
    names = _names(made, info or made.info)
    return tuple(name for name in names.changed if name in names.needed)


@dataclasses.dataclass(frozen=True)
class _Names:
    """What a sweep takes and makes."""

    arrays: dict[str, str]  #: storages by name
    scalars: tuple[str, ...]
    changed: tuple[str, ...]  #: by a sweep
    needed: tuple[str, ...]  #: arrays that the adjoint reads


def array_storages(info: Any) -> dict[str, str]:
    """The storage of each array that a sweep takes, in its order, by the name that the adjoint calls it."""
    if info.is_system:
        return dict(info.fields)
    return {"u": info.storage, **({info.previous: info.storage} if info.previous else {}), **dict(info.fields)}


def _names(made: Stencil | System, info: Any) -> _Names:
    arrays = array_storages(info)
    if info.is_system:
        changed = tuple(name for (name, _), use in zip(info.fields, info.uses) if use & spider.FIELD_WRITTEN)
    else:
        changed = ("u", *([info.previous] if info.previous else []))
    adjoint = _gradient_of(made)
    fields = [name for name, _ in adjoint.info.fields] if isinstance(adjoint, System) else []
    needed = tuple(name for name in fields if name in arrays)
    return _Names(arrays, tuple(info.scalars), changed, needed)


@dataclasses.dataclass
class _Problem:
    """A sweep with its inputs, which are checked."""

    made: Any
    adjoint: Any
    info: Any
    names: _Names
    state: dict[str, Any]
    scalars: dict[str, Any]

    @staticmethod
    def of(made: Stencil | System, inputs: Fields) -> _Problem:
        adjoint = _gradient_of(made)
        known = [name for name in inputs if hasattr(inputs[name], "shape") and inputs[name].shape != ()]
        if not known:
            raise TypeError(f"the inputs of {made.name} are given by name, as a dict of arrays")
        info = made._kernel_for(_arrays.wrap(inputs[known[0]], known[0]))[1].info
        names = _names(made, info)
        wanted = (*names.arrays, *names.scalars)
        if set(wanted) != set(inputs):
            raise TypeError(f"the inputs of {made.name} are {', '.join(wanted)}, not {', '.join(map(str, inputs))}")
        for name, storage in names.arrays.items():
            _arrays.check_elements(_arrays.wrap(inputs[name], name), info, name, storage)
        return _Problem(made, adjoint, info, names, {name: inputs[name] for name in names.arrays},
                        {name: inputs[name] for name in names.scalars})

    @property
    def shape(self) -> tuple[int, ...]:
        """Of fields with all axes."""
        return tuple(self.state[self.names.changed[0]].shape)

    def has_halo(self) -> bool:
        own = self.shape[len(self.shape) - self.info.dimensions:]
        halos = self.made.halo(*own)
        widths = [width for field in halos.values() for width in field] if isinstance(halos, dict) else halos
        return any(map(any, widths))

    def by_image(self, bars: Fields, run: Any) -> dict[str, Any]:
        """run(problem, bars) of each image of a batch, or of the arrays themselves."""
        self._check_bars(bars)
        axes = len(self.shape) - self.info.dimensions
        if axes <= 0 or isinstance(self.made, System) or isinstance(self.adjoint, Stencil) or 0 in self.shape:
            return run(self, bars)
        results = {name: self.zeros(name) for name in self.state}
        for index in itertools.product(*map(range, self.shape[:axes])):
            one = dataclasses.replace(self, state={name: array[index] for name, array in self.state.items()})
            for name, bar in run(one, {name: bar[index] for name, bar in bars.items()}).items():
                _arrays.wrap(results[name]).view[index] = _arrays.wrap(bar).view
        return results

    def _check_bars(self, bars: Fields) -> None:
        for name, bar in bars.items():
            if name not in self.names.changed:
                raise TypeError(f"bars name {name}, and a sweep of {self.made.name} makes {', '.join(self.names.changed)}")
            array = _arrays.wrap(bar, f"the bar of {name}")
            _arrays.check_elements(array, self.info, f"the bar of {name}", self.names.arrays[name])
            if array.shape != tuple(self.state[name].shape):
                raise ValueError(f"the bar of {name} has the shape {array.shape}, and {name} {tuple(self.state[name].shape)}")

    def empty(self, storage: str) -> Any:
        return _arrays.wrap(self.state[self.names.changed[0]]).new_as(storage)

    def zeros(self, name: str) -> Any:
        """Of all axes."""
        fresh = self.empty(self.names.arrays[name])
        if not fresh.empty:
            fresh.view[...] = 0
        return fresh.given

    def owned(self, bars: Fields) -> dict[str, Any]:
        """Bars of all arrays, which sweeps may write."""
        return {name: _arrays.wrap(bars[name]).copy().given if name in bars else self.zeros(name) for name in self.names.arrays}

    def sweep(self, bars: Fields) -> dict[str, Any]:
        own = self.owned(bars)
        self.back(own, self.state)
        return self.finished(own)

    def back(self, bars: dict[str, Any], state: Fields, steps: int = 1) -> None:
        """One adjoint sweep of the bars, which it replaces, or several where states do not matter. `state` is that before the
        sweep."""
        if 0 in self.shape:
            return
        if isinstance(self.adjoint, Stencil):
            bars["u"] = self.adjoint._call(bars["u"])
            return
        fields = self._fields(bars, state)
        found = (self.adjoint._call(fields, in_place=_repeats.EITHER, **self._scalars()) if steps == 1 else
                 self.adjoint._iterate(fields, steps, in_place=True, **self._scalars()))
        bars.update({name: found[name + "_bar"] for name in self.names.arrays if name + "_bar" in found})

    def _fields(self, bars: Fields, state: Fields) -> dict[str, Any]:
        """The adjoint's: bars, values, and room for what it computes again."""
        of_bars = {name + "_bar": bar for name, bar in bars.items()}
        return {name: of_bars[name] if name in of_bars else state[name] if name in state else self.empty(storage).given
                for name, storage in self.adjoint.info.fields}

    def _scalars(self) -> dict[str, Any]:
        return {name: self.scalars[name] for name in self.adjoint.info.scalars}

    def finished(self, bars: dict[str, Any]) -> dict[str, Any]:
        """The bars in the shapes of the inputs: those of fields with fewer axes are sums along the others."""
        if isinstance(self.made, System):
            for (name, storage), axes in zip(self.info.fields, self.info.axes):
                missing = tuple(i for i, has in enumerate(axes[3 - self.info.dimensions:]) if not has)
                if missing:
                    bars[name] = _summed(bars[name], missing, storage).reshape(self.state[name].shape)
        return bars

    def advanced(self, state: dict[str, Any], steps: int, inject: Fields) -> dict[str, Any]:
        """The state so many steps later."""
        if steps == 1 and self.info.steps == 1 and not inject and 0 not in self.shape:
            return self.swept(state)
        if isinstance(self.made, System):
            return {**state, **self.made._iterate(state, steps, inject=inject, **self.scalars)}
        others = {name: array for name, array in state.items() if name != "u"}
        new = self.made._iterate(state["u"], steps, **others, **self.scalars)
        if self.info.previous:
            return {**state, "u": new[0], self.info.previous: new[1]}
        return {**state, "u": new}


    def swept(self, state: dict[str, Any]) -> dict[str, Any]:
        """The state after a sweep, which copies nothing that a sweep makes anew."""
        if isinstance(self.made, System):
            return {**state, **self.made._call(state, **self.scalars)}
        others = {name: array for name, array in state.items() if name != "u"}
        new = {"u": self.made._call(state["u"], **others, **self.scalars)}
        return {**state, **new, **({self.info.previous: state["u"]} if self.info.previous else {})}


def _summed(array: Any, axes: tuple[int, ...], storage: str) -> Any:
    """Sums along axes; of 16-bit numbers in f32."""
    if hasattr(array, "data_ptr"):
        import torch

        kind = torch.float32 if storage in ("f16", "bf16") else array.dtype
        return array.sum(axes, dtype=kind).to(array.dtype)
    if storage == "bf16" and array.dtype.kind == "u":
        raise TypeError("derivatives of a field with fewer axes are sums, which bits of bf16 have none of: pass arrays of "
                        "ml_dtypes.bfloat16")
    kind = numpy.float32 if storage in ("f16", "bf16") else array.dtype
    return array.sum(axis=axes, dtype=kind).astype(array.dtype)


@dataclasses.dataclass
class _Steps:
    """Time steps, with sources and receivers."""

    problem: _Problem
    steps: int
    every: int
    inject: dict[str, Any]
    record: dict[str, Any]
    injected: dict[str, Any]  #: derivatives with respect to what is injected: the result
    snapshots: str | None = None
    kept: Callable[[int], Fields] | None = None

    def forward(self, keep: Callable[[int, Fields], None], record: Fields) -> tuple[dict[str, Any], dict[str, Any]]:
        problem, state = self.problem, dict(self.problem.state)
        lines = {name: self._forward_points(points) for name, points in record.items()}
        rows = {name: _rows(state[name], self.steps, len(points), problem.names.arrays[name]) for name, points in lines.items()}
        adds = {name: self._points(name, "inject", asked, problem.made) for name, asked in self.inject.items()}
        for step in range(self.steps):
            keep(step, state)
            state = problem.swept(state)
            for name, (points, values) in adds.items():
                points.add(state[name], values[step])
            for name, points in lines.items():
                points.read(state[name], out=rows[name][step])
        return {name: state[name] for name in problem.names.changed}, rows

    def run(self, given: Fields) -> dict[str, Any]:
        problem = self.problem
        bars = problem.owned(given)
        if isinstance(problem.adjoint, Stencil):  # steps of a sweep are counted as forward
            bars["u"] = problem.adjoint._iterate(bars["u"], self.steps)
            return bars
        if not self.inject and not self.record and not self._reads_states() and 0 not in problem.shape:
            problem.back(bars, problem.state, self.steps)
            return problem.finished(bars)
        adds = {name: self._points(name, "inject", asked) for name, asked in self.inject.items()}
        reads = {name: self._points(name, "record", asked) for name, asked in self.record.items()}
        rows = {name: _rows(bars[name], self.steps, len(points), problem.names.arrays[name])
                for name, (points, _) in adds.items()}
        for step, state in self._backwards(adds):
            for name, (points, values) in reads.items():
                points.add(bars[name], values[step])
            for name, (points, _) in adds.items():
                points.read(bars[name], out=rows[name][step])
            problem.back(bars, state)
        self.injected.update(rows)
        return problem.finished(bars)

    def _reads_states(self) -> bool:
        return any(name in self.problem.names.needed for name in self.problem.names.changed)

    @functools.cached_property
    def sources(self) -> dict[str, Points]:
        """Of the forward sweeps."""
        return {name: self._forward_points(points) for name, (points, _) in self.inject.items()}

    def _forward_points(self, points: Any) -> Points:
        return points if isinstance(points, Points) else Points(self.problem.made, self.problem.shape, points)

    def _points(self, name: str, what: str, asked: Any, made: Any = None) -> tuple[Points, Any]:
        """Points of the adjoint, or of `made`, and the values of each step there."""
        problem = self.problem
        if name not in problem.names.changed:
            raise ValueError(f"{what} names {name}, which no stage writes")
        if not isinstance(asked, (tuple, list)) or len(asked) != 2:
            raise TypeError(f"{what} takes a pair for {name}: the points, and numbers of steps x points")
        cells, values = asked
        cells = cells._cells if isinstance(cells, Points) else cells
        points = Points(made or problem.adjoint, problem.shape, cells)
        shape = tuple(values.shape) if hasattr(values, "shape") else numpy.shape(values)
        if shape not in ((self.steps, len(points)), (self.steps,) if len(points) == 1 else ()):
            raise ValueError(f"{what} of {name} has the shape {shape}: there are {self.steps} steps and {len(points)} points")
        values = values if hasattr(values, "shape") else numpy.asarray(values)
        return points, values.reshape(self.steps, len(points))

    def _backwards(self, adds: Mapping[str, tuple[Points, Any]]) -> Iterator[tuple[int, Fields]]:
        """The steps from the last one, each with the state before it."""
        problem, state = self.problem, dict(self.problem.state)
        if not self._reads_states():
            yield from ((step, state) for step in reversed(range(self.steps)))
            return
        if self.kept is not None:
            yield from ((step, {**state, **self.kept(step)}) for step in reversed(range(self.steps)))
            return
        every = self.every if self.every > 1 else max(self.steps, 1)  # all are kept for the adjoint, none to compute others from
        starts = list(range(0, self.steps, every))
        kept = [state]
        for start in starts[1:]:
            kept.append(self._advanced(kept[-1], start - every, start, adds))
        for start in reversed(starts):
            state = kept.pop()
            between = [self._needed(state)]
            for step in range(start + 1, min(start + every, self.steps)):
                state = self._advanced(state, step - 1, step, adds)
                between.append(self._needed(state))
            for step in reversed(range(start, start + len(between))):
                kept_now = between.pop().items()
                yield step, {name: array.whole() if isinstance(array, _Snapshot) else array for name, array in kept_now}

    def _needed(self, state: dict[str, Any]) -> dict[str, Any]:
        """What the adjoint reads, so that no more is in memory."""
        names = self.problem.names
        return {name: _Snapshot.of(self.problem, name, state[name])
                if name in names.changed and _snapshots.packs(names.arrays[name], self.snapshots) else state[name]
                for name in names.needed}

    def _advanced(self, state: dict[str, Any], start: int, end: int, adds: Mapping[str, tuple[Points, Any]]) -> dict[str, Any]:
        """The state after the steps from `start` to `end`."""
        inject = {name: (self.sources[name], values[start:end]) for name, (_, values) in adds.items()}
        return self.problem.advanced(state, end - start, inject)


@dataclasses.dataclass(frozen=True)
class _Snapshot:
    """A field in 16 bits."""

    problem: _Problem
    storage: str
    half: Any
    scale: Any

    @staticmethod
    def of(problem: _Problem, name: str, array: Any) -> _Snapshot:
        storage, half = problem.names.arrays[name], problem.empty("f16")
        return _Snapshot(problem, storage, half, None if half.empty else _snapshots.pack(_arrays.wrap(array), storage, half))

    def whole(self) -> Any:
        """The field in its own storage."""
        fresh = self.problem.empty(self.storage)
        if not fresh.empty:
            _snapshots.unpack(self.half, self.scale, fresh)
        return fresh.given


def _rows(like: Any, steps: int, count: int, storage: str) -> Any:
    kind = spider.values_of(storage)
    return _arrays.wrap(like).numbers(steps * count, kind).given.reshape(steps, count)
