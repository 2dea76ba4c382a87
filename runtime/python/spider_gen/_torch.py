"""Sweeps and time steps as operators of PyTorch: torch.ops.spider_gen.run and its vector-Jacobian product. Imported when a
tensor needs one of them: it requires a gradient, or torch.compile, torch.func or fake tensors trace it."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Callable, Mapping, Sequence

import torch

from . import _adjoint, _arrays, _autograd, _generator, _made, _places, _points, _snapshots, spider
from ._calls import MOST_LAUNCHES, REFUSED, in_python
from ._system import System

_ONE_SWEEP = -1
_ARGUMENTS = "float[] scalars, str text, SymInt steps, int checkpoint) -> Tensor[]"


def wants(tensors: Sequence[Any]) -> bool:
    """Are these tensors that only an operator can take?"""
    if torch.compiler.is_compiling():
        return True
    if torch._C._get_tracing_state() is not None:  # of torch.jit.trace, which is refused
        return False
    if torch._C._len_torch_dispatch_stack() > 0:
        return True
    return any(_needs_operator(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor))


def _needs_operator(tensor: torch.Tensor) -> bool:
    if _autograd.is_transformed(torch, tensor):
        return True
    if tensor.requires_grad and torch.is_grad_enabled():
        return not _autograd.has_tangent(tensor)
    return isinstance(tensor, torch._subclasses.FakeTensor)


def _is_transformed(tensors: Sequence[Any]) -> bool:
    """By torch.func, whose grad and jvp operators of torch.library do not take: functions of torch.autograd do."""
    return not torch.compiler.is_compiling() and any([_autograd.is_transformed(torch, one) for one in tensors])


@torch.compiler.assume_constant_result
def takes(key: str) -> bool:
    """Can the sweep be an operator? Not with halo faces: cells around an array are not its own. Nor has a step in pairs one."""
    made = _held(key)
    info = made.info
    return not _has_halo(made) and not (info.previous and info.steps > 1)


def refuse_halo(name: str, tensors: Sequence[Any]) -> None:
    """TypeError where a gradient would be lost."""
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad and torch.is_grad_enabled():
            raise TypeError(f"an array requires a gradient, and {name} gives none: it has `halo` faces, where cells around the "
                            f"array are read, or takes several steps of an update in a sweep. Detach the array, or give the spec other "
                            f"faces, and no 'steps'")


def sweep(made: Any, u: torch.Tensor, axes: Any, given: Mapping[str, Any]) -> torch.Tensor:
    """One sweep of a stencil or an update."""
    arrays, names, scalars, words = _sorted(u, axes, given)
    new = _one_sweep(arrays, scalars, _text(made._key, names, words))[0]
    return new if axes is None else new.movedim(_last(axes), axes)


def iterate(made: Any, u: torch.Tensor, steps: int, axes: Any, checkpoint: int | None, snapshots: str | None,
            given: Mapping[str, Any]) -> Any:
    """Time steps of a stencil or an update."""
    arrays, names, scalars, words = _sorted(u, axes, given)
    text = _text(made._key, names, words, snapshots=snapshots)
    found = _take_steps(made._key, u.dim(), (arrays, []), (scalars, text, steps, checkpoint or 0))[:_count(made._key)]
    found = found if axes is None else [one.movedim(_last(axes), axes) for one in found]
    return found[0] if len(found) == 1 else tuple(found)


def sweep_system(made: Any, state: Mapping[str, Any], scalars: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """One sweep of a system."""
    _check_tensors(state)
    found = _one_sweep(list(state.values()), _numbers(scalars), _text(made._key, list(state), list(scalars)))
    return dict(zip(_changed(made._key), found))


def _one_sweep(arrays: list[torch.Tensor], scalars: list[float], text: str) -> Sequence[torch.Tensor]:
    if _is_transformed(arrays):
        return _apply("run", (arrays, []), (scalars, text, _ONE_SWEEP, 0))
    if torch.is_grad_enabled() and any([one.requires_grad for one in arrays]):
        return torch.ops.spider_gen.run(arrays, [], scalars, text, _ONE_SWEEP, 0)
    return torch.ops.spider_gen.sweep(arrays, scalars, text)


def _check_tensors(state: Mapping[str, Any]) -> None:
    for name, array in state.items():
        if not isinstance(array, torch.Tensor):
            raise TypeError(f"{name} is a {type(array).__name__} next to tensors that an operator takes: pass a tensor")


def iterate_system(made: Any, state: Mapping[str, Any], steps: int, checkpoint: int | None, snapshots: str | None,
                   inject: Mapping[str, Any] | None, record: Mapping[str, Any] | None, scalars: Mapping[str, Any]) -> Any:
    """Time steps of a system."""
    _check_tensors(state)
    inject, asked = inject or {}, record or {}
    device = next(iter(state.values())).device
    values = [torch.as_tensor(values, device=device) for _, values in inject.values()]
    sources = [f"{name}={_key_of(made, state[name], points)}" for name, (points, _) in inject.items()]
    lines = [f"{name}={_key_of(made, state[name], points)}" for name, points in asked.items()]
    text = _text(made._key, list(state), list(scalars), sources, lines, snapshots)
    found = _take_steps(made._key, None, (list(state.values()), values), (_numbers(scalars), text, steps, checkpoint or 0))
    changed = _changed(made._key)
    fields = dict(zip(changed, found))
    return fields if record is None else (fields, dict(zip(asked, found[len(changed):])))


def _take_steps(key: str, axes: int | None, lists: tuple[list[torch.Tensor], ...], rest: tuple[Any, ...]) -> Sequence[torch.Tensor]:
    """Time steps by an operator that keeps all states for a gradient, or by one that computes them again. `axes` is how many a
    stencil's arrays have: images of a batch are computed again. `rest` is what operators take after tensors."""
    tensors = [*lists[0], *lists[1]]
    steps, checkpoint = rest[2:]
    if steps < 0:
        raise ValueError(f"{steps} steps; there must be 0 or more")
    if _is_transformed(tensors):
        return _apply("run", lists, rest)
    keeps = checkpoint == 1 and steps > 1 and torch.is_grad_enabled() and any([one.requires_grad for one in tensors])
    if keeps and _keeps(key) and axes in (None, _dimensions(key)):
        return torch.ops.spider_gen.run_keeping(*lists, *rest)
    return torch.ops.spider_gen.run(*lists, *rest)


@torch.compiler.assume_constant_result
def _keeps(key: str) -> bool:
    """Do gradients read what single sweeps change?"""
    made = _held(key)
    try:
        return made.info.steps == 1 and bool(_adjoint.checkpoints_needed(made))
    except _generator.SpecError:
        return False  # and the operator says so


@torch.compiler.assume_constant_result
def _dimensions(key: str) -> int:
    return _held(key).info.dimensions


@torch.compiler.assume_constant_result
def _count(key: str) -> int:
    """How many fields steps of a stencil return."""
    return 1 + bool(_held(key).info.previous)


def _last(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(range(-len(axes), 0))


def _sorted(u: torch.Tensor, axes: Any, given: Mapping[str, Any]) -> tuple[list[Any], list[str], list[float], list[str]]:
    """Arrays with their axes in the order of the batch and the spec, and scalars."""
    arrays = {"u": u, **{name: value for name, value in given.items() if isinstance(value, torch.Tensor) and value.dim() > 0}}
    scalars = {name: value for name, value in given.items() if name not in arrays}
    if axes is not None:
        arrays = {name: array.movedim(axes, _last(axes)) if array.dim() == u.dim() else array for name, array in arrays.items()}
    whole = arrays["u"].shape
    found = [array.expand(whole) if array.dim() < len(whole) else array for array in arrays.values()]
    return found, list(arrays), _numbers(scalars), list(scalars)


def _numbers(scalars: Mapping[str, Any]) -> list[float]:
    for name, value in scalars.items():
        if isinstance(value, (int, float)):
            continue
        if len(getattr(value, "shape", ())) > 0:
            raise TypeError(f"{name} is a {type(value).__name__} next to tensors that an operator takes: pass a tensor")
        if isinstance(value, torch.Tensor) and value.requires_grad and torch.is_grad_enabled():
            raise TypeError(f"{name} requires a gradient, and a kernel gives none: detach it: {name}.detach(). Fields have "
                            f"gradients, scalars have none")
    return [*[float(value) for value in scalars.values()], 0.0]  # an empty list would be one of tensors, which have gradients


def _text(key: str, names: Sequence[str], scalars: Sequence[str], inject: Sequence[str] = (), record: Sequence[str] = (),
          snapshots: str | None = None) -> str:
    return ";".join([key, ",".join(names), ",".join(scalars), ",".join(inject), ",".join(record), str(snapshots or "")])


def _key_of(made: Any, array: torch.Tensor, points: Any) -> str:
    if isinstance(points, _points.Points):
        return points._key
    if torch.compiler.is_compiling():
        raise TypeError("torch.compile takes points that were made before: s.points(shape, cells), and no list of cells")
    points = _points.Points(made, array.shape, points)
    _OF_LISTS[points._key] = points
    while len(_OF_LISTS) > _MOST_LISTS:
        del _OF_LISTS[next(iter(_OF_LISTS))]
    return points._key


_HELD: dict[str, Any] = {}  #: what operators were called with: a graph, or a backward pass, may call them later
_OF_LISTS: dict[str, Any] = {}
_MOST_LISTS = 64


def _held(key: str) -> Any:
    if key not in _HELD:
        _HELD[key] = _made.MADE[key]
    return _HELD[key]


def _points_of(key: str) -> Any:
    """They live as long as the caller's, or the job that has them, does."""
    found = _points.MADE.get(key)
    if found is None:
        raise RuntimeError("the points of a compiled function are gone: keep what s.points() returned as long as the function")
    return found


@torch.compiler.assume_constant_result
def _changed(key: str) -> list[str]:
    """The fields that a sweep of a system writes."""
    info = _held(key).info
    return [name for (name, _), use in zip(info.fields, info.uses) if use & spider.FIELD_WRITTEN]


def _has_halo(made: Any) -> bool:
    halos = made.halo(*[64] * made.info.dimensions)
    widths = [width for field in halos.values() for width in field] if isinstance(halos, dict) else halos
    if not isinstance(made, System):
        widths = [*widths, *made.halo_of_fields(*[64] * made.info.dimensions)]
    return any(map(any, widths))


@dataclasses.dataclass(frozen=True)
class _Job:
    """What an operator is asked for by its text."""

    made: Any
    names: tuple[str, ...]
    scalars: tuple[str, ...]
    inject: dict[str, Any]
    record: dict[str, Any]
    snapshots: str | None

    @property
    def is_system(self) -> bool:
        return isinstance(self.made, System)

    @property
    def info(self) -> spider.Info:
        return self.made.info

    def check_names(self) -> None:
        """TypeError where a name is missing, or unknown."""
        info = self.info
        own = [] if self.is_system else ["u", *([info.previous] if info.previous else [])]
        arrays = [*own, *(name for name, _ in info.fields)]
        if set(arrays) != set(self.names) or set(info.scalars) != set(self.scalars):
            raise TypeError(f"{info.name} takes the arrays {', '.join(arrays)} and the scalars "
                            f"{', '.join(info.scalars) or '(none)'}, not {', '.join(self.names)} and {', '.join(self.scalars) or '(none)'}")

    def made_fields(self, steps: int) -> list[str]:
        """What a call returns before the records."""
        if self.is_system:
            return _changed(self.made._key)
        return ["u", *([self.info.previous] if self.info.previous and steps != _ONE_SWEEP else [])]

    @functools.cached_property
    def needed(self) -> tuple[str, ...]:
        """The arrays that derivatives read. TypeError where there are none."""
        try:
            return _adjoint._names(self.made, self.info).needed
        except _generator.SpecError as error:
            raise TypeError(f"an array requires a gradient, and {self.made.name} gives none: {error}") from error

    @functools.cached_property
    def kept(self) -> dict[str, str | None]:
        """The fields that are kept of each step, with their storage where they are packed."""
        storages = _adjoint.array_storages(self.info)
        return {name: storages[name] if _snapshots.packs(storages[name], self.snapshots) else None
                for name in self.made_fields(0) if name in self.needed}

    def inputs(self, arrays: Sequence[Any], scalars: Sequence[float]) -> dict[str, Any]:
        return {**dict(zip(self.names, arrays)), **dict(zip(self.scalars, scalars))}

    def kind(self, name: str) -> torch.dtype:
        storage = dict(self.info.fields)[name]
        return torch.float64 if spider.values_of(storage) == "f64" else torch.float32

    def rows(self, values: Sequence[torch.Tensor]) -> dict[str, Any]:
        return {name: (points, value.detach().to(self.kind(name)).contiguous())
                for (name, points), value in zip(self.inject.items(), values)}


@functools.lru_cache(maxsize=1024)
def _job(text: str) -> _Job:
    key, names, scalars, inject, record, snapshots = text.split(";")

    def points(said: str) -> dict[str, Any]:
        return {name: _points_of(key) for name, _, key in (one.partition("=") for one in said.split(",") if one)}

    def words(said: str) -> tuple[str, ...]:
        return tuple(said.split(",")) if said else ()

    job = _Job(_held(key), words(names), words(scalars), points(inject), points(record), _snapshots.check(snapshots or None))
    job.check_names()
    return job


def _run(arrays: Sequence[torch.Tensor], values: Sequence[torch.Tensor], scalars: Sequence[float], text: str, steps: int,
         checkpoint: int) -> list[torch.Tensor]:
    if steps == _ONE_SWEEP:
        return _sweep(arrays, scalars, text)
    job = _job(text)
    made, given = job.made, job.inputs(arrays, scalars)
    with torch.no_grad():
        if job.is_system:
            state = {name: given.pop(name) for name in job.names}
            fields, records = made._iterate(state, steps, inject=job.rows(values), record=job.record, **given)
            return [*fields.values(), *records.values()]
        u = given.pop("u")
        found = made._iterate(u, steps, **given)
        return list(found) if isinstance(found, tuple) else [found]


#: Launches by the text and the layouts of all arrays.
_SWEEPS: dict[Any, Callable[[Sequence[torch.Tensor], Sequence[float]], list[torch.Tensor] | None]] = {}


def _sweep(arrays: Sequence[torch.Tensor], scalars: Sequence[float], text: str) -> list[torch.Tensor]:
    """One sweep. As an operator of its own it takes arrays that need no gradient: torch.compile calls it for each of them."""
    key = (text, *[(one.shape, one.stride(), one.dtype, one.get_device()) for one in arrays])
    again = _SWEEPS.get(key)
    found = again and again(arrays, scalars)
    if found:
        return found
    job = _job(text)
    given = job.inputs(arrays, scalars)
    with torch.no_grad():
        if job.is_system:
            return list(job.made._call({name: given.pop(name) for name in job.names}, **given).values())
        found = [job.made._call(given.pop("u"), **given)]
        again = _repeat_of(job, arrays, found[0], given)
    if again:
        if len(_SWEEPS) >= MOST_LAUNCHES:
            _SWEEPS.clear()
        _SWEEPS[key] = again
    return found


def _repeat_of(job: _Job, arrays: Sequence[torch.Tensor], result: torch.Tensor, given: Mapping[str, Any]) -> Any:
    """The sweep of a stencil for arrays that lie alike; None where it takes more than a launch."""
    u = arrays[0]
    remembered = job.made._remembered(u, result, given)
    if not isinstance(remembered, tuple):
        return None
    kernel, launch, order = remembered
    places = [job.scalars.index(name) for name in kernel.info.scalars]
    device, kind = u.get_device(), result.dtype

    def again(arrays: Sequence[torch.Tensor], scalars: Sequence[float]) -> list[torch.Tensor] | None:
        if device >= 0 and torch.cuda.current_device() != device:
            return None
        out = torch.empty_like(arrays[0], dtype=kind, memory_format=torch.contiguous_format)
        addresses = [arrays[0].data_ptr(), out.data_ptr(), *[one.data_ptr() for one in arrays[1:]]]
        status = launch([addresses[i] for i in order], _places.stream_on(device), [scalars[i] for i in places])
        if status in REFUSED:
            return None  # the slow way raises in Python's words
        if status != 0:
            in_python(kernel.library._check, status)
        return [out]

    return again


def _sweep_fake(arrays: Sequence[torch.Tensor], scalars: Sequence[float], text: str) -> list[torch.Tensor]:
    return _run_fake(arrays, [], scalars, text, _ONE_SWEEP, 0)


def _sweep_batched(info: Any, in_dims: tuple[Any, ...], arrays: Any, scalars: Any, text: str) -> tuple[Any, Any]:
    return _batched("run", 2, info, (in_dims[0], [], *in_dims[1:]), arrays, [], scalars, text, _ONE_SWEEP, 0)


def _run_fake(arrays: Sequence[torch.Tensor], values: Sequence[torch.Tensor], scalars: Sequence[float], text: str, steps: int,
              checkpoint: int) -> list[torch.Tensor]:
    job = _job(text)
    of = dict(zip(job.names, arrays))
    if job.is_system:
        found = [_like(of[name]) for name in job.made_fields(steps)]
        return found + [of[name].new_empty((steps, len(points)), dtype=job.kind(name)) for name, points in job.record.items()]
    kind = getattr(torch, _arrays._TORCH_NAMES[job.info.output])
    return [_like(of["u"], kind) for _ in job.made_fields(steps)]


def _like(array: torch.Tensor, kind: torch.dtype | None = None) -> torch.Tensor:
    return array.new_empty(array.shape, dtype=kind or array.dtype)


def _rooms(job: _Job, arrays: Sequence[torch.Tensor], steps: int) -> list[torch.Tensor]:
    """For each field that is kept its states, and, where they are packed, the powers of two that they are times of."""
    found = []
    for name, storage in job.kept.items():
        array = arrays[job.names.index(name)]
        found.append(array.new_empty((steps, *array.shape), dtype=array.dtype if storage is None else torch.float16))
        found += [] if storage is None else [array.new_empty((steps,))]
    return found


def _run_keeping(arrays: Sequence[torch.Tensor], values: Sequence[torch.Tensor], scalars: Sequence[float], text: str, steps: int,
                 checkpoint: int) -> list[torch.Tensor]:
    """The results, and then what the adjoint reads."""
    job = _job(text)
    rooms = _rooms(job, arrays, steps)

    def keep(step: int, state: Mapping[str, Any]) -> None:
        own = iter(rooms)
        for name, storage in job.kept.items():
            one = next(own)[step]
            if storage is None:
                one.copy_(state[name])
            else:
                scale = _snapshots.pack(_arrays.wrap(state[name]), storage, _arrays.wrap(one))
                _arrays.wrap(next(own)[step:step + 1]).view[...] = scale

    with torch.no_grad():
        fields, records = _adjoint.iterate_keeping(job.made, job.inputs(arrays, scalars), steps, keep, job.rows(values), job.record)
        return [*(fields[name] for name in job.made_fields(steps)), *records.values(), *rooms]


def _run_keeping_fake(arrays: Sequence[torch.Tensor], values: Sequence[torch.Tensor], scalars: Sequence[float], text: str,
                      steps: int, checkpoint: int) -> list[torch.Tensor]:
    return [*_run_fake(arrays, values, scalars, text, steps, checkpoint), *_rooms(_job(text), arrays, steps)]


def _vjp_of_kept(arrays: Sequence[torch.Tensor], values: Sequence[torch.Tensor], bars: Sequence[torch.Tensor],
                 rooms: Sequence[torch.Tensor], scalars: Sequence[float], text: str, steps: int,
                 checkpoint: int) -> list[torch.Tensor]:
    job = _job(text)

    def kept(step: int) -> dict[str, Any]:
        own, state = iter(rooms), {}
        for name, storage in job.kept.items():
            one = next(own)[step]
            state[name] = one
            if storage is not None:
                scales = next(own)
                state[name] = torch.empty(one.shape, dtype=scales.dtype, device=one.device)
                _snapshots.unpack(_arrays.wrap(one), _arrays.wrap(scales[step:step + 1]).view, _arrays.wrap(state[name]))
        return state

    return _vjp(arrays, values, bars, scalars, text, steps, checkpoint, kept)


def _vjp(arrays: Sequence[torch.Tensor], values: Sequence[torch.Tensor], bars: Sequence[torch.Tensor], scalars: Sequence[float],
         text: str, steps: int, checkpoint: int, kept: Any = None) -> list[torch.Tensor]:
    job = _job(text)
    inputs, names = job.inputs(arrays, scalars), job.made_fields(steps)
    own = dict(zip(names, bars))
    with torch.no_grad():
        if steps == _ONE_SWEEP:
            return list(map(_dense, map(_adjoint.sweep_vjp(job.made, inputs, own).__getitem__, job.names)))
        record = {name: (points, bar.contiguous()) for (name, points), bar in zip(job.record.items(), bars[len(names):])}
        found, injected = _adjoint.iterate_vjp(job.made, inputs, own, steps, checkpoint or None, job.rows(values), record,
                                               job.snapshots, kept)
        return ([_dense(found[name]) for name in job.names] +
                [injected[name].reshape(value.shape).to(value.dtype) for name, value in zip(job.inject, values)])


def _dense(bar: torch.Tensor) -> torch.Tensor:
    return bar.contiguous()


def _vjp_fake(arrays: Sequence[torch.Tensor], values: Sequence[torch.Tensor], *_: Any) -> list[torch.Tensor]:
    return [_like(array) for array in (*arrays, *values)]


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    arrays, values, ctx.scalars, ctx.text, ctx.steps, ctx.checkpoint = inputs
    job = ctx.job = _job(ctx.text)  # with its points, which live as long as the graph
    changed = {"u", job.info.previous} if not job.is_system else set(job.made_fields(ctx.steps))
    ctx.count = len(arrays)
    if ctx.steps != _ONE_SWEEP and changed & set(job.needed):
        changed = set()  # steps are computed again
    saved = [None if name in changed and name not in job.needed else array for name, array in zip(job.names, arrays)]
    ctx.save_for_backward(*saved, *values)


def _backward(ctx: Any, bars: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    job = _job(ctx.text)
    places = {name: i for i, name in enumerate(job.made_fields(ctx.steps))}
    arrays, values = ctx.saved_tensors[:ctx.count], list(ctx.saved_tensors[ctx.count:])
    # Of an array whose values nothing reads, the bar tells the shape.
    arrays = [bars[places.get(name, 0)] if array is None else array for name, array in zip(job.names, arrays)]
    found = _apply("run_vjp", (arrays, values, list(bars)), (ctx.scalars, ctx.text, ctx.steps, ctx.checkpoint))
    return found[:ctx.count], found[ctx.count:], None, None, None, None


def _save_kept(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    arrays, values, ctx.scalars, ctx.text, ctx.steps, ctx.checkpoint = inputs
    job = ctx.job = _job(ctx.text)
    made = len(job.made_fields(ctx.steps)) + len(job.record)
    ctx.counts = len(arrays), len(values)
    ctx.mark_non_differentiable(*output[made:])
    ctx.set_materialize_grads(False)  # of all states
    # Of what steps change the shape is enough.
    changed = job.made_fields(ctx.steps)
    ctx.shapes = [(one.shape, one.dtype) for one in output[:made]]
    ctx.save_for_backward(*[None if name in changed else array for name, array in zip(job.names, arrays)], *values, *output[made:])


def _backward_kept(ctx: Any, bars: Sequence[torch.Tensor | None]) -> tuple[Any, ...]:
    job = _job(ctx.text)
    own, values = ctx.counts
    saved = ctx.saved_tensors
    like = saved[-1]
    bars = [like.new_zeros(shape, dtype=kind) if bar is None else bar for bar, (shape, kind) in zip(bars, ctx.shapes)]
    places = {name: i for i, name in enumerate(job.made_fields(ctx.steps))}
    arrays = [bars[places[name]] if array is None else array for name, array in zip(job.names, saved[:own])]
    found = torch.ops.spider_gen.vjp_of_kept(arrays, list(saved[own:own + values]), bars, list(saved[own + values:]), ctx.scalars,
                                             ctx.text, ctx.steps, ctx.checkpoint)
    return found[:own], found[own:], None, None, None, None


def _refuse_twice(ctx: Any, *_: Any) -> Any:
    job = _job(ctx.text)
    raise NotImplementedError(f"{job.made.name} has no second derivative here: its first one depends on {', '.join(job.needed)}")


def _save_text(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.text = inputs[5]


def _save_twice(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    arrays, values, bars, ctx.scalars, ctx.text, ctx.steps, ctx.checkpoint = inputs
    ctx.counts = len(arrays), len(values)


def _backward_twice(ctx: Any, grads: Sequence[torch.Tensor]) -> tuple[Any, ...]:
    """The product of derivatives is linear in the bars; its transpose is the sweep of the gradients, without constant faces."""
    if _job(ctx.text).needed:
        _refuse_twice(ctx)
    count = ctx.counts[0]
    rest = ctx.scalars, ctx.text, ctx.steps, ctx.checkpoint
    bars = _linear("run", (list(grads[:count]), list(grads[count:])), rest)
    return [None] * count, [None] * ctx.counts[1], bars, None, None, None, None


def _linear(name: str, lists: Sequence[list[torch.Tensor]], rest: tuple[Any, ...]) -> list[torch.Tensor]:
    """What an operator that is linear, but for constant faces, makes of a change."""
    there, still = (_apply(name, own, rest) for own in (lists, [[torch.zeros_like(one) for one in own] for own in lists]))
    return [a - b for a, b in zip(there, still)]


def _batched(name: str, lists: int, info: Any, in_dims: tuple[Any, ...], *arguments: Any) -> tuple[Any, Any]:
    """torch.vmap: stencils take batches; systems are swept one by one."""
    tensors, rest = arguments[:lists], arguments[lists:]
    front = [[one.expand(info.batch_size, *one.shape) if dim is None else one.movedim(dim, 0) for one, dim in zip(own, dims)]
             for own, dims in zip(tensors, in_dims)]
    if name in ("run", "run_vjp") and not _job(rest[1]).is_system:
        found = _apply(name, front, rest)
    else:
        images = [_apply(name, [[one[i] for one in own] for own in front], rest) for i in range(info.batch_size)]
        found = [torch.stack(own) for own in zip(*images)]
    return found, [0] * len(found)


def _apply(name: str, lists: Sequence[list[torch.Tensor]], rest: tuple[Any, ...]) -> Sequence[torch.Tensor]:
    """The operator, or the function that torch.func transforms."""
    tensors = [one for own in lists for one in own]
    if not _is_transformed(tensors):
        return getattr(torch.ops.spider_gen, name)(*lists, *rest)
    return _FUNCTIONS[name].apply(tuple(map(len, lists)), rest, *tensors)


def _parted(counts: Sequence[int], flat: Sequence[Any]) -> list[list[Any]]:
    """Lists of so many."""
    found, rest = [], iter(flat)
    for count in counts:
        found.append([next(rest) for _ in range(count)])
    return found


def _function(name: str, save: Any, backward: Any) -> Any:
    """An operator as a function of torch.autograd, of counts, of what comes after tensors, and of all tensors."""

    class Function(torch.autograd.Function):
        @staticmethod
        def forward(counts: Any, rest: Any, *tensors: Any) -> Any:
            return tuple(_apply(name, _parted(counts, tensors), rest))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.parts, ctx.rest, *tensors = inputs
            save(ctx, (*_parted(ctx.parts, tensors), *ctx.rest), output)

        @staticmethod
        def backward(ctx: Any, *bars: Any) -> Any:
            found = backward(ctx, bars)[:len(ctx.parts)]
            return (None, None, *[one for own in found for one in own])

        @staticmethod
        def vmap(info: Any, in_dims: Any, counts: Any, rest: Any, *tensors: Any) -> Any:
            found, dims = _batched(name, len(counts), info, tuple(_parted(counts, in_dims[2:])), *_parted(counts, tensors), *rest)
            return tuple(found), tuple(dims)

        @staticmethod
        def jvp(ctx: Any, *tangents: Any) -> Any:
            job = _job(ctx.rest[1])
            if job.needed or any(one is None for one in tangents[2:]):
                raise NotImplementedError(f"{job.made.name} has no derivative in forward mode here: sweeps that are linear, with "
                                          f"numbers as coefficients, have one, along all that they take. torch.func.vjp and grad "
                                          f"go in reverse")
            return tuple(_linear(name, _parted(ctx.parts, tangents[2:]), ctx.rest))

    return Function


_FUNCTIONS = {"run": _function("run", _save, _backward), "run_vjp": _function("run_vjp", _save_twice, _backward_twice)}


def _define() -> torch.library.Library:
    """The operators, which exist as long as the result. Entries of torch.library.Library take a third of the time of custom_op's."""
    library = torch.library.Library("spider_gen", "FRAGMENT")
    library.define("sweep(Tensor[] arrays, float[] scalars, str text) -> Tensor[]", tags=torch.Tag.pt2_compliant_tag)
    for backend in ("CPU", "CUDA"):
        library.impl("sweep", _sweep, backend)
    torch.library.register_fake("spider_gen::sweep", _sweep_fake, lib=library)
    if hasattr(torch.library, "register_vmap"):  # from PyTorch 2.5
        torch.library.register_vmap("spider_gen::sweep", _sweep_batched, lib=library)
    own, barred = ("arrays", "values"), ("arrays", "values", "bars")
    for name, lists, kernel, fake, backward, save in (
            ("run", own, _run, _run_fake, _backward, _save),
            ("run_vjp", barred, _vjp, _vjp_fake, _backward_twice, _save_twice),
            ("run_keeping", own, _run_keeping, _run_keeping_fake, _backward_kept, _save_kept),
            ("vjp_of_kept", (*barred, "rooms"), _vjp_of_kept, _vjp_fake, _refuse_twice, _save_text)):
        tensors = ", ".join(f"Tensor[] {one}" for one in lists)
        library.define(f"{name}({tensors}, {_ARGUMENTS}", tags=torch.Tag.pt2_compliant_tag)
        for backend in ("CPU", "CUDA"):
            library.impl(name, kernel, backend)
        qualified = f"spider_gen::{name}"
        torch.library.register_fake(qualified, fake, lib=library)
        torch.library.register_autograd(qualified, backward, setup_context=save, lib=library)
        if hasattr(torch.library, "register_vmap"):  # from PyTorch 2.5
            torch.library.register_vmap(qualified, functools.partial(_batched, name, len(lists)), lib=library)
    return library


_LIBRARY = _define()
