"""Arrays of JAX: kernels as custom calls of XLA, inside jit, vmap and grad. Loaded when the first of them comes."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import math
import operator
import pathlib
import re
from typing import Any, Callable, Mapping, Sequence

import jax
import numpy
from jax import numpy as jnp

from . import _autograd, _cache, _compilers, _further, _generator, _images, _package, _snapshots, spider
from ._adjoint import adjoint_spec as _adjoint_spec, array_storages
from ._calls import in_python
from ._points import Points

try:
    import jax.ffi
    from jax.extend.core import Primitive
    from jax.interpreters import batching, mlir
except ImportError as missing:
    raise TypeError(f"arrays of JAX need JAX 0.5 or newer, and this is {jax.__version__}") from missing

_TYPES = {"f16": jnp.float16, "f32": jnp.float32, "bf16": jnp.bfloat16, "f64": jnp.float64, "u8": jnp.uint8, "u16": jnp.uint16,
          "i16": jnp.int16}
_TARGET = "spider_gen_sweep"
_PLATFORMS = {"cpu": "host", "cuda": "cuda"}  # of JAX, and our back ends
_ONLY_READ, _IN_PLACE, _TWO_BUFFERS, _INTO_SECOND = range(4)  # of a system's fields, as in jax_calls.cpp


@dataclasses.dataclass(frozen=True)
class _Sweeps:
    """What runs: a sweep, or steps. Arrays, and the scalars that have no value yet, are its operands."""

    made: Any  #: a Stencil or a System
    steps: int  #: 0: one sweep
    scalars: tuple[float | None, ...]  #: None: an operand
    snapshots: str | None = None  #: the storage of what a gradient keeps of arrays that sweeps change
    zeros: tuple[int, ...] = ()  #: operands that are 0, which on a GPU XLA has once for all: no result takes their memory

    @property
    def info(self) -> spider.Info:
        return _info(self.made)

    @property
    def is_system(self) -> bool:
        return self.info.is_system

    @property
    def places(self) -> list[int]:
        """Of scalars that are operands."""
        return [i for i, one in enumerate(self.scalars) if one is None]

    @property
    def array_count(self) -> int:
        info = self.info
        return len(info.fields) + (0 if info.is_system else 1 + (info.previous is not None))

    @property
    def full(self) -> list[bool]:
        """Of each array: has it the axes of the batch in any case? Others may be the same for all images."""
        info = self.info
        if info.is_system:
            return [bool(use & spider.FIELD_WRITTEN) for use in info.uses]
        return [i < 1 + (info.previous is not None) for i in range(self.array_count)]

    def changing(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        """Those that sweeps change."""
        return tuple(array for array, full in zip(arrays, self.full) if full)

    @property
    def rooms(self) -> list[int]:
        """How the fields of a system lie in operands and results."""
        info = self.info
        rooms = []
        for use in info.uses:
            stays = not use & spider.FIELD_WRITTEN or (
                self.steps == 0 and info.launches == 1 and use & spider.FIELD_RESULT_IN_OUTPUT)
            doubles = use & spider.FIELD_TWO_BUFFERS
            rooms.append((_INTO_SECOND if doubles else _ONLY_READ) if stays else _TWO_BUFFERS if doubles else _IN_PLACE)
        return rooms

    def results(self, buffers: Sequence[Any]) -> list[Any]:
        """Of all buffers that come out those that hold results."""
        info = self.info
        if not info.is_system:
            return list(buffers[:1 if self.steps == 0 or info.previous is None else 2])
        found, buffers = [], list(buffers)
        for use, room in zip(info.uses, self.rooms):
            own = [buffers.pop(0) for _ in range((0, 1, 2, 1)[room])]
            moves = use & spider.FIELD_RESULT_IN_OUTPUT and (self.steps == 0 or self.steps % 2 == 1)
            if use & spider.FIELD_WRITTEN:
                found.append(own[-1] if moves else own[0])
        return found

    def buffers(self, arrays: Sequence[Any]) -> tuple[list[Any], dict[int, int]]:
        """The types of all buffers that come out, and which operands they share memory with."""
        info = self.info
        if not info.is_system:
            if self.steps == 0:
                return [jax.core.ShapedArray(arrays[0].shape, _TYPES[info.output])], {}
            pairs = 1 + (info.previous is not None)
            count = 2 * pairs if pairs > 1 and info.steps > 1 else pairs + 1
            like = jax.core.ShapedArray(arrays[0].shape, arrays[0].dtype)
            return [like] * count, {i: i for i in range(pairs)}
        found: list[Any] = []
        shared: dict[int, int] = {}
        for i, (array, room) in enumerate(zip(arrays, self.rooms)):
            if room in (_IN_PLACE, _TWO_BUFFERS) and i not in self.zeros:
                shared[i] = len(found)
            found += [jax.core.ShapedArray(array.shape, array.dtype)] * (0, 1, 2, 1)[room]
        return found, shared


def _info(made: Any) -> spider.Info:
    return _kernel(made)[1].info


def _kernel(made: Any) -> tuple[Any, Any]:
    """One that tells what the spec is: of the back end that JAX computes on where nothing else is said."""
    known = next(iter(made._kernels.values()), None)
    if known is not None:
        return known
    on_host = jax.default_backend() == "cpu" and made._backend == "auto"
    return made._kernel_to_run(_compilers.host() if on_host else _compilers.choose(made._backend))


# The custom call


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    """The handlers of the custom call, registered. They are compiled once."""
    toolchain = _compilers.host()
    headers = jax.ffi.include_dir()
    options = (*toolchain.compile_options, f"-I{_package.RUNTIME / 'include'}", "-isystem", headers, "-fvisibility=default", "-shared")
    source = _package.RUNTIME / "python" / "jax_calls.cpp"
    key = _package.key(toolchain.key, source.read_bytes(), jax.__version__, *options)

    def make(folder: pathlib.Path) -> None:
        _compilers._run([toolchain.compiler, *options, str(source), *toolchain.link_options, "-ldl", "-o", str(folder / "jax.so")])

    library = ctypes.CDLL(str(_cache.entry("jax-" + key, make) / "jax.so"))
    for platform, name in _PLATFORMS.items():
        capsule = jax.ffi.pycapsule(getattr(library, f"spider_jax_{name}"))
        jax.ffi.register_ffi_target(_TARGET, capsule, platform="CUDA" if platform == "cuda" else platform)
    return library


def _know(library: Any, kernel: Any) -> str:
    """Tells the handlers of a kernel. Returns its name there, which is the same in each process."""
    _compilers.compile_all(library)  # nothing is compiled while XLA runs
    name = f"{pathlib.Path(library.path).parent.name}/{kernel.info.name}"
    functions = [ctypes.cast(getattr(library._c, f"spider_{one}"), ctypes.c_void_p)
                 for one in ("info", "run", "run_steps", "last_error", "download", "synchronize")]
    _library().spider_jax_know(name.encode(), ctypes.c_void_p(kernel._handle), *functions)
    return name


def _toolchain(made: Any, platform: str) -> _compilers.Toolchain:
    backend = _PLATFORMS[platform]
    if made._backend not in ("auto", backend):
        where = "the processor" if backend == "host" else "a GPU"
        raise TypeError(f'{made.name} was made with backend="{made._backend}", and JAX computes on {where}')
    return _compilers.host() if backend == "host" else _compilers.cuda()


def _lower(platform: str, context: Any, *operands: Any, sweeps: _Sweeps) -> Any:
    library, kernel = sweeps.made._kernel_to_run(_toolchain(sweeps.made, platform))
    name = _know(library, kernel)
    _, shared = sweeps.buffers(context.avals_in[:sweeps.array_count])
    lower = jax.ffi.ffi_lowering(_TARGET, operand_output_aliases=shared)
    scalars = numpy.array([one or 0.0 for one in sweeps.scalars], numpy.float64)
    rooms = sweeps.rooms if sweeps.is_system else []
    return lower(context, *operands, kernel=name, steps=numpy.int64(sweeps.steps), scalars=scalars,
                 places=numpy.array(sweeps.places, numpy.int64), rooms=numpy.array(rooms, numpy.int64))


def _batch(operands: Sequence[Any], dims: Sequence[Any], *, sweeps: _Sweeps) -> tuple[list[Any], list[int]]:
    """One more axis ahead of those that arrays have. Scalars that differ take one image after the other."""
    count = sweeps.array_count
    size = next(x.shape[d] for x, d in zip(operands, dims) if d is not None)
    if any(d is not None for d in dims[count:]):
        mapped = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, dims)]
        among = [d is not None for d in dims]

        def one(own: Sequence[Any]) -> Any:
            own = iter(own)
            return _primitive.bind(*[next(own) if is_mapped else x for x, is_mapped in zip(mapped, among)], sweeps=sweeps)

        results = jax.lax.map(one, [x for x, is_mapped in zip(mapped, among) if is_mapped])
        return results, [0] * len(results)
    own = sweeps.info.dimensions
    ahead = next((x.shape[:x.ndim - own] if d is None else _without(x.shape, d)[:x.ndim - 1 - own]
                  for x, d, full in zip(operands, dims, sweeps.full) if full))
    arrays = []
    for x, d, full in zip(operands[:count], dims, sweeps.full):
        is_mapped = d is not None
        if not is_mapped and not full and x.ndim == own:
            arrays.append(x)
            continue
        x = jnp.moveaxis(x, d, 0) if is_mapped else x[None]
        shape = (x.shape[0], *[1] * (own + len(ahead) + 1 - x.ndim), *x.shape[1:])
        arrays.append(jnp.broadcast_to(x.reshape(shape), (size, *ahead, *x.shape[x.ndim - own:])))
    results = _primitive.bind(*arrays, *operands[count:], sweeps=sweeps)
    return results, [0] * len(results)


def _without(shape: Sequence[int], axis: int) -> tuple[int, ...]:
    return (*shape[:axis], *shape[axis + 1:])


@functools.lru_cache(maxsize=512)
def _compiled(sweeps: _Sweeps) -> Callable[..., Any]:
    return jax.jit(functools.partial(_primitive.bind, sweeps=sweeps))


_primitive = Primitive(_TARGET)
_primitive.multiple_results = True
_primitive.def_impl(lambda *operands, sweeps: _compiled(sweeps)(*operands))
_primitive.def_abstract_eval(lambda *operands, sweeps: sweeps.buffers(operands)[0])
batching.primitive_batchers[_primitive] = _batch
for _platform in _PLATFORMS:
    mlir.register_lowering(_primitive, functools.partial(_lower, _platform), platform=_platform)


# Derivatives


def _single(made: Any) -> Any:
    """The same with one step in a sweep."""
    if _info(made).steps == 1:
        return made
    text = re.sub(rb'^"?steps"?[ \t]*:.*$', b"", made._spec.text, flags=re.MULTILINE)
    return _remade(made, text, made._spec.options)


def _remade(made: Any, text: bytes, options: Sequence[str]) -> Any:
    from ._stencil import Stencil
    from ._system import System

    spec = dataclasses.replace(made._spec, text=text, options=tuple(options))
    try:
        return (System if _generator.generate(spec).is_system else Stencil)(spec, made._backend)
    except _generator.SpecError as error:
        raise _no_gradient(made, error) from error


def _no_gradient(made: Any, error: Exception) -> TypeError:
    return TypeError(f"{made.name} has no gradient{' of its own' if _order(made) else ''}: {error}")


@functools.lru_cache(maxsize=256)
def _adjoint(made: Any) -> Any:
    """The adjoint of a sweep. TypeError with the generator's words where there is none."""
    try:
        spec = _adjoint_spec(made._spec)
    except _generator.SpecError as error:
        raise _no_gradient(made, error) from error
    # The adjoint of an adjoint has names of its own.
    return _remade(made, re.sub(rb"_bar\b", b"_bar" + b"t" * (1 + _order(made)), spec.text), spec.options)


def _order(made: Any) -> int:
    """How often it is an adjoint."""
    found = re.findall(r"_bar(t+)\b", made._spec.text.decode())
    return max(map(len, found), default=0)


def _sum_to(array: Any, shape: Sequence[int]) -> Any:
    """The transpose of broadcasting from a shape."""
    ahead = array.ndim - len(shape)
    axes = [i for i, n in enumerate(array.shape) if i < ahead or (n > 1 and shape[i - ahead] == 1)]
    return jnp.sum(array, axis=tuple(axes), keepdims=True).reshape(shape) if axes else array


@functools.lru_cache(maxsize=512)
def _differentiable(sweeps: _Sweeps, every: int = 0) -> Callable[..., Any]:
    """The sweeps as a function of operands, which returns results: with a gradient by the adjoint. `every`: of steps, after how
    many the gradient keeps one."""

    def run(*operands: Any) -> tuple[Any, ...]:
        return tuple(sweeps.results(_primitive.bind(*operands, sweeps=sweeps)))

    def forward(*operands: Any) -> tuple[Any, Any]:
        for place, one in zip(sweeps.places, operands[sweeps.array_count:]):
            if one.perturbed:
                raise TypeError(f"{sweeps.info.scalars[place]} is a scalar, of which kernels give no gradient: make it a field of the "
                                f"spec, or pass jax.lax.stop_gradient of it")
        values = [one.value for one in operands]
        if is_one:
            return found(*values), _kept(sweeps, values)  # which may be differentiated, too
        traced = values[sweeps.array_count:]
        results, pull_back = jax.vjp(lambda *own: _one_by_one(sweeps, every, own, traced), *values[:sweeps.array_count])
        return results, (pull_back, traced)

    is_one = sweeps.steps == 0 and sweeps.info.steps == 1

    def backward(kept: Any, bars: Any) -> tuple[Any, ...]:
        nothing = jax.custom_derivatives.SymbolicZero
        if is_one:
            bars = [None if isinstance(bar, nothing) else bar for bar in bars]
            traced = kept[sweeps.array_count:]
            kept = [one.whole() if isinstance(one, _Packed) else one for one in kept[:sweeps.array_count]]
            found = _pull_back(sweeps, kept, traced, bars)
        else:
            pull_back, traced = kept
            found = pull_back(tuple(jnp.zeros(bar.aval.shape, bar.aval.dtype) if isinstance(bar, nothing) else bar for bar in bars))
        return (*found, *[jnp.zeros_like(one) for one in traced])

    found = jax.custom_vjp(run)
    found.defvjp(forward, backward, symbolic_zeros=True)
    return found


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class _Forgotten:
    """An array whose values no derivative needs."""

    shape: tuple[int, ...]
    dtype: Any

    def tree_flatten(self) -> Any:
        return (), (self.shape, self.dtype)

    @classmethod
    def tree_unflatten(cls, known: Any, _: Any) -> _Forgotten:
        return cls(*known)


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass(frozen=True)
class _Packed:
    """An array as f16 times a power of two, as _snapshots has it."""

    half: Any
    scale: Any

    @classmethod
    def of(cls, array: Any, storage: str) -> _Packed:
        top = jnp.max(jnp.abs(array))
        power = jnp.minimum(_snapshots.EXPONENT - jnp.frexp(top)[1], _snapshots.HIGHEST[storage])
        power = jnp.where(jnp.isfinite(top), power, 0)
        scale = jnp.ldexp(jnp.ones_like(top), power)
        return cls((array * scale).astype(jnp.float16), scale)

    def whole(self) -> Any:
        return self.half.astype(self.scale.dtype) / self.scale

    def tree_flatten(self) -> Any:
        return (self.half, self.scale), None

    @classmethod
    def tree_unflatten(cls, _: Any, parts: Any) -> _Packed:
        return cls(*parts)


def _kept(sweeps: _Sweeps, operands: Sequence[Any]) -> list[Any]:
    """Those operands of a sweep that its adjoint reads."""
    if sweeps.made in _forward_of_linear:
        needed = []
    else:
        adjoint = _info(_adjoint(sweeps.made))
        needed = [name for name, _ in adjoint.fields] if adjoint.is_system else []
    storages = array_storages(_info(sweeps.made))
    names = list(storages)
    changed = sweeps.changing(names)
    arrays = [_Forgotten(one.shape, one.dtype) if name not in needed else
              _Packed.of(one, storages[name]) if name in changed and _snapshots.packs(storages[name], sweeps.snapshots) else one
              for name, one in zip(names, operands)]
    return [*arrays, *operands[len(names):]]


def _run(sweeps: _Sweeps, operands: Sequence[Any], every: int = 0) -> Sequence[Any]:
    """The results, sooner where no operand can need a gradient."""
    if any(isinstance(one, jax.core.Tracer) for one in operands):
        return _differentiable(sweeps, every)(*operands)
    return sweeps.results(_compiled(sweeps)(*operands))


def _pull_back(sweeps: _Sweeps, arrays: Sequence[Any], traced: Sequence[Any], bars: Sequence[Any]) -> list[Any]:
    """The derivatives with respect to the arrays of a sweep, from those with respect to its results, None where they are 0."""
    made, info = sweeps.made, sweeps.info
    forward = _forward_of_linear.get(made)
    if forward is not None:
        known = dict(zip(info.scalars, _merged(sweeps.scalars, traced)))
        numbers, further = _split([known.get(name, 1.0) for name in _info(forward).scalars])
        once = _differentiable(_Sweeps(forward, 0, numbers))
        return [once(bars[0], *further)[0] - once(jnp.zeros_like(bars[0]), *further)[0]]
    adjoint = _adjoint(made)
    names = list(array_storages(_info(made)))
    suffix = "_bar" + "t" * (1 + _order(made))
    shape = jnp.broadcast_shapes(*[array.shape for array in arrays])
    if info.is_system:
        written = [name for name, use in zip(names, info.uses) if use & spider.FIELD_WRITTEN]
    else:
        written = ["u"]
    own_bars = dict(zip(written, bars))
    if not _info(adjoint).is_system:
        _forward_of_linear.setdefault(adjoint, made)
        return list(_differentiable(_Sweeps(adjoint, 0, ()))(bars[0]))
    given = dict(zip(names, arrays))
    operands, zeros, of_field = [], [], {}
    for name, storage in _info(adjoint).fields:
        stem = name[:-len(suffix)]
        if name.endswith(suffix) and stem in given:
            array = own_bars.get(stem)
            array = None if array is None else _spread_bar(array, shape)
            of_field[name] = stem
        else:
            array = given.get(name)
        zeros += [len(operands)] if array is None else []
        operands.append(jnp.zeros(shape, _TYPES[storage]) if array is None else array)
    if len(of_field) == len(_info(adjoint).fields) == 1 and len(names) == 1:
        _forward_of_linear.setdefault(adjoint, made)
    scalars = dict(zip(info.scalars, _merged(sweeps.scalars, traced)))
    numbers, further = _split([scalars[name] for name in _info(adjoint).scalars])
    results = _differentiable(_Sweeps(adjoint, 0, numbers, zeros=tuple(zeros)))(*operands, *further)
    adjoint_info = _info(adjoint)
    back = dict(zip((name for (name, _), use in zip(adjoint_info.fields, adjoint_info.uses) if use & spider.FIELD_WRITTEN), results))
    found = []
    for name, array in zip(names, arrays):
        bar = back.get(name + suffix)
        if bar is None:  # nothing was read of it; where it was not written, it is as it was
            bar = own_bars.get(name)
        found.append(_no_tangent(array) if not jnp.issubdtype(array.dtype, jnp.floating) else
                     jnp.zeros(array.shape, array.dtype) if bar is None else _sum_to(bar, array.shape).astype(array.dtype))
    return found


_forward_of_linear: dict[Any, Any] = {}  # of the adjoint of a linear stencil the stencil


def _no_tangent(array: Any) -> Any:
    return numpy.zeros(array.shape, jax.dtypes.float0)


def _spread_bar(bar: Any, shape: Sequence[int]) -> Any:
    """Of a result that has fewer axes than the derivative: the first cells take it, the others nothing."""
    if bar.shape == tuple(shape):
        return bar
    bar = bar.reshape((*[1] * (len(shape) - bar.ndim), *bar.shape))
    return jnp.zeros(shape, bar.dtype).at[tuple(slice(0, n) for n in bar.shape)].set(bar)


def _merged(scalars: Sequence[float | None], traced: Sequence[Any]) -> list[Any]:
    rest = iter(traced)
    return [next(rest) if one is None else one for one in scalars]


def _split(scalars: Sequence[Any]) -> tuple[tuple[float | None, ...], list[Any]]:
    """Scalars that have a value, and those that are operands."""
    return (tuple(one if isinstance(one, float) else None for one in scalars),
            [one for one in scalars if not isinstance(one, float)])


# Time steps


def _one_by_one(sweeps: _Sweeps, every: int, arrays: Sequence[Any], traced: Sequence[Any]) -> tuple[Any, ...]:
    """The results of steps, each of which is a sweep with a gradient."""
    made = _single(sweeps.made)
    once = dataclasses.replace(sweeps, made=made, steps=0)
    step = _step_of(once, arrays, traced)
    count = sweeps.steps or sweeps.info.steps
    state, _ = _scan(lambda state, _: (step(state), None), once.changing(arrays), None, count, every)
    return state if sweeps.is_system or sweeps.steps else state[:1]


def _step_of(once: _Sweeps, arrays: Sequence[Any], traced: Sequence[Any]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A sweep from the arrays that sweeps change to these; the others stay."""
    run, info = _differentiable(once), once.info

    def step(state: tuple[Any, ...]) -> tuple[Any, ...]:
        rest = iter(state)
        results = tuple(run(*[next(rest) if full else array for array, full in zip(arrays, once.full)], *traced))
        return results if info.is_system or info.previous is None else (results[0], state[0])

    return step


def _scan(body: Callable[[Any, Any], Any], state: Any, given: Any, count: int, every: int) -> tuple[Any, Any]:
    """jax.lax.scan whose gradient keeps every so-many-th state, and computes those between again."""
    every = max(1, min(every or math.isqrt(count), count))
    if every == 1:  # what the adjoint reads is kept, and none to compute others from
        return jax.lax.scan(body, state, given, length=count)
    chunk = jax.checkpoint(lambda state, own: jax.lax.scan(body, state, own, length=every), prevent_cse=False)
    whole = count // every * every
    first = jax.tree.map(lambda x: x[:whole].reshape(whole // every, every, *x.shape[1:]), given)
    state, seen = jax.lax.scan(chunk, state, first, length=whole // every)
    seen = jax.tree.map(lambda x: x.reshape(whole, *x.shape[2:]), seen)
    if whole == count:
        return state, seen
    rest = jax.tree.map(lambda x: x[whole:], given)
    last = jax.checkpoint(lambda state, own: jax.lax.scan(body, state, own, length=count - whole), prevent_cse=False)
    state, more = last(state, rest)
    return state, jax.tree.map(lambda a, b: jnp.concatenate([a, b]), seen, more)


# What callers give


def _array(value: Any, name: str, info: spider.Info, storage: str) -> Any:
    if isinstance(value, numpy.ndarray) or not isinstance(value, jax.Array):
        if not isinstance(value, (numpy.ndarray, numpy.generic)):
            raise TypeError(f"{name}, a {type(value).__name__}, comes with arrays of JAX: pass one of JAX or NumPy")
        value = jnp.asarray(value)
    if value.dtype != _TYPES[storage]:
        words = "" if storage != "f64" or jax.config.jax_enable_x64 else "; 64 bits need jax.config.update(\"jax_enable_x64\", True)"
        raise TypeError(f"{info.name} takes {storage}, and {name} is {value.dtype}: pass "
                        f"{name}.astype({numpy.dtype(_TYPES[storage]).name}){words}")
    return value


def _scalar(value: Any, name: str) -> Any:
    """A float, or an operand."""
    if not isinstance(value, jax.core.Tracer):
        return _autograd.number(value, name)
    if value.ndim > 0 or not jnp.issubdtype(value.dtype, jnp.number) or jnp.issubdtype(value.dtype, jnp.complexfloating):
        raise TypeError(f"{name} is a real number, not an array of {value.dtype} of shape {value.shape}")
    return value if value.dtype in (jnp.float32, jnp.float64) else value.astype(jnp.float32)


def _refuse_asked(made: Any, asked: Mapping[str, Any]) -> None:
    for word, value in asked.items():
        if value is not None and value is not False:
            raise TypeError(f"{made.name} is given {word}, which arrays that JAX traces do not take: leave it out")


def _refuse_halo(made: Any, halo: Sequence[tuple[int, int]], name: str) -> None:
    if any(map(any, halo)):
        raise TypeError(f"{made.name} has halo faces and reads cells around {name}, where an array of JAX has none: give the faces "
                        f"another rule in the spec, or pass an array of NumPy or CuPy that is a view into a padded one")


def _check_steps(steps: Any) -> int:
    if isinstance(steps, jax.core.Tracer):
        raise TypeError("steps is traced by JAX and has no value yet: make it a static argument, "
                        "jax.jit(..., static_argnames=\"steps\")")
    steps = spider._int64("steps", steps)
    if steps < 0:
        raise ValueError(f"{steps} steps; there must be 0 or more")
    return steps


def _check_every(every: Any) -> int:
    if every is None:
        return 0
    every = operator.index(every)
    if every < 1:
        raise ValueError(f"checkpoint is {every}: after how many steps the gradient keeps one, which is 1 or more")
    return every


def _ordered(array: Any, order: Sequence[int]) -> Any:
    return array if list(order) == list(range(len(order))) else jnp.transpose(array, order)


@dataclasses.dataclass
class _Given:
    """The operands of a stencil, in the order of its axes."""

    info: spider.Info
    layout: _images.Layout
    arrays: list[Any]
    scalars: list[Any]

    @staticmethod
    def of(stencil: Any, u: Any, axes: Any, given: Mapping[str, Any]) -> _Given:
        kernel = _kernel(stencil)[1]
        info = kernel.info
        u = _array(u, "u", info, info.storage)
        layout = _images.Layout.of(info, u.shape, axes)
        storages = _further.storages_of(info, given)
        arrays = [_ordered(u, layout.order)]
        for name, storage in storages.items():
            array = _array(given[name], name, info, storage)
            is_of_all = name != info.previous and array.shape == layout.own and layout.batch
            if array.shape != u.shape and not is_of_all:
                raise ValueError(f"{name} has the shape {array.shape}, and u {u.shape}")
            arrays.append(array if is_of_all else _ordered(array, layout.order))
        if 0 not in u.shape:
            for halo in (kernel.halo(*layout.own), kernel.halo_of_fields(*layout.own)):
                _refuse_halo(stencil, halo, "u")
        return _Given(info, layout, arrays, [_scalar(given[name], name) for name in info.scalars])

    def back(self, array: Any) -> Any:
        """In the order of the caller's axes."""
        return _ordered(array, numpy.argsort(self.layout.order))


def sweep(stencil: Any, u: Any, axes: Any, given: Mapping[str, Any], **asked: Any) -> Any:
    """Stencil.__call__"""
    _refuse_asked(stencil, asked)
    one = _Given.of(stencil, u, axes, given)
    if one.info.previous and one.info.steps > 1:
        raise TypeError(f"{stencil.name} takes {one.info.steps} steps in a sweep, and a step reads the one before: call "
                        f"iterate(), which returns the last two")
    if 0 in one.arrays[0].shape:
        return one.back(one.arrays[0].astype(_TYPES[one.info.output]))
    numbers, traced = _split(one.scalars)
    return one.back(_run(_Sweeps(stencil, 0, numbers), [*one.arrays, *traced])[0])


def iterate(stencil: Any, u: Any, steps: Any, axes: Any, given: Mapping[str, Any], checkpoint: Any = None, snapshots: Any = None,
            **asked: Any) -> Any:
    """Stencil.iterate"""
    _refuse_asked(stencil, asked)
    _snapshots.check(snapshots)
    steps, every = _check_steps(steps), _check_every(checkpoint)
    one = _Given.of(stencil, u, axes, given)
    if one.info.output != one.info.storage:
        raise TypeError(f"{stencil.name} makes {one.info.output} of {one.info.storage}, which is no input of a next step: "
                        f"call it, or remove 'output' from the spec")
    count = 2 if one.info.previous else 1
    if steps == 0 or 0 in one.arrays[0].shape:
        results = one.arrays[:count]
    else:
        numbers, traced = _split(one.scalars)
        results = _run(_Sweeps(stencil, steps, numbers, snapshots), [*one.arrays, *traced], every)
    back = tuple(one.back(array) for array in results)
    return back if count == 2 else back[0]


@dataclasses.dataclass
class _State:
    """The operands of a system."""

    info: spider.Info
    names: list[str]
    shapes: list[tuple[int, ...]]  #: as they came
    arrays: list[Any]  #: with all axes
    scalars: list[Any]

    @staticmethod
    def of(system: Any, state: Mapping[str, Any], scalars: Mapping[str, Any]) -> _State:
        from . import _system

        kernel = _kernel(system)[1]
        info = kernel.info
        names = [name for name, _ in info.fields]
        _system._check_words(info, names)
        _system._check_names(f"{info.name} takes the fields", names, state)
        _system._check_names(f"{info.name} takes the scalars", info.scalars, scalars)
        arrays = [_array(state[name], name, info, storage) for name, storage in info.fields]
        whole = _system.common_extents(info, names, [array.shape for array in arrays])
        spread = [array.reshape([n if has else 1 for n, has in zip(whole, axes[3 - info.dimensions:])])
                  for array, axes in zip(arrays, info.axes)]
        for name in names if 0 not in whole else []:
            _refuse_halo(system, in_python(kernel.halo_of_field, name, *whole), name)
        return _State(info, names, [array.shape for array in arrays], spread, [_scalar(scalars[name], name) for name in info.scalars])

    @property
    def written(self) -> list[int]:
        return [i for i, use in enumerate(self.info.uses) if use & spider.FIELD_WRITTEN]

    def named(self, results: Sequence[Any]) -> dict[str, Any]:
        return {self.names[i]: array.reshape(self.shapes[i]) for i, array in zip(self.written, results)}

    @property
    def empty(self) -> bool:
        return any(0 in array.shape for array in self.arrays)


def sweep_system(system: Any, state: Mapping[str, Any], scalars: Mapping[str, Any], **asked: Any) -> dict[str, Any]:
    """System.__call__"""
    return iterate_system(system, state, 0, scalars, once=True, **asked)


def iterate_system(system: Any, state: Mapping[str, Any], steps: Any, scalars: Mapping[str, Any], inject: Any = None,
                   record: Any = None, checkpoint: Any = None, snapshots: Any = None, once: bool = False, **asked: Any) -> Any:
    """System.iterate"""
    _refuse_asked(system, asked)
    _snapshots.check(snapshots)
    steps, every = _check_steps(steps), _check_every(checkpoint)
    one = _State.of(system, state, scalars)
    numbers, traced = _split(one.scalars)
    if inject is not None or record is not None:
        return _with_accesses(one, _Sweeps(system, 0, numbers, snapshots), steps, every, traced, inject or {}, record)
    if one.empty or (steps == 0 and not once):
        return one.named([one.arrays[i] for i in one.written])
    return one.named(_run(_Sweeps(system, steps, numbers, snapshots), [*one.arrays, *traced], every))


def _with_accesses(one: _State, once: _Sweeps, steps: int, every: int, traced: Sequence[Any], inject: Mapping[str, Any],
                   record: Mapping[str, Any] | None) -> Any:
    """Step by step, as cells are added to and read in between."""
    system = once.made
    adds = {name: _values(system, one, name, asked, steps) for name, asked in inject.items()}
    reads = {name: _cells(system, one, name, asked, "record") for name, asked in (record or {}).items()}
    step = _step_of(once, one.arrays, traced)
    changing = once.changing(one.names)

    def body(state: tuple[Any, ...], values: Mapping[str, Any]) -> Any:
        state = list(step(state))
        for name, (cells, _) in adds.items():
            i = changing.index(name)
            wide = state[i].astype(jnp.promote_types(state[i].dtype, jnp.float32))
            state[i] = wide.at[cells].add(values[name].astype(wide.dtype)).astype(state[i].dtype)
        seen = {}
        for name, cells in reads.items():
            array = (state[changing.index(name)] if name in changing else one.arrays[one.names.index(name)])[cells]
            seen[name] = array.astype(jnp.promote_types(array.dtype, jnp.float32))
        return tuple(state), seen

    given = {name: values for name, (_, values) in adds.items()}
    last = once.changing(one.arrays)
    if steps > 0 and not one.empty:
        last, seen = _scan(body, last, given, steps, every)
    else:
        seen = {name: jnp.zeros((steps, len(cells[0])), jnp.float32) for name, cells in reads.items()}
    results = one.named(last)
    return results if record is None else (results, seen)


def _cells(system: Any, one: _State, name: str, asked: Any, what: str) -> tuple[numpy.ndarray, ...]:
    """Indices along all axes."""
    if name not in one.names:
        raise TypeError(f"{what} names {name}, and the fields are {', '.join(one.names)}")
    i = one.names.index(name)
    shape = one.shapes[i]
    points = asked if isinstance(asked, Points) else Points(system, shape, asked)
    points.check_shape(shape, name)
    for cell in points._cells:
        if len(cell) != len(shape) or not all(0 <= k < n for k, n in zip(cell, shape)):
            raise ValueError(f"the cell {cell} is not in {name}, of shape {tuple(shape)}")
    flat = [int(numpy.ravel_multi_index(cell, shape)) for cell in points._cells]
    return tuple(numpy.array(axis, numpy.int32) for axis in numpy.unravel_index(numpy.array(flat, int), one.arrays[i].shape))


def _values(system: Any, one: _State, name: str, asked: Any, steps: int) -> tuple[Any, Any]:
    if name in one.names and not one.info.uses[one.names.index(name)] & spider.FIELD_WRITTEN:
        raise ValueError(f"inject names {name}, which no stage writes: add to the array before the call")
    if not isinstance(asked, (tuple, list)) or len(asked) != 2:
        raise TypeError(f"inject takes a pair for {name}: the points, and values of steps x points")
    cells = _cells(system, one, name, asked[0], "inject")
    values, count = jnp.asarray(asked[1]), len(cells[0])
    if not jnp.issubdtype(values.dtype, jnp.number) or jnp.issubdtype(values.dtype, jnp.complexfloating):
        raise TypeError(f"the values of {name} are {values.dtype}, and must be real numbers")
    if values.shape != (steps, count) and not (count == 1 and values.shape == (steps,)):
        raise ValueError(f"the values of {name} have the shape {tuple(values.shape)}: there are {steps} steps and {count} points, so "
                         f"pass ({steps}, {count})")
    return cells, values.reshape(steps, count)
