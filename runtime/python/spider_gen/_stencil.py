"""A stencil as a function of arrays."""

from __future__ import annotations

import dataclasses
import functools
import math
import os
import sys
import warnings
from typing import Any, Callable, Mapping, Sequence

from . import (_arrays, _autograd, _compilers, _generator, _images, _labels, _made, _places, _progress, _snapshots, _thin, _traced,
               _transfers, spider)
from ._calls import REFUSED, in_python
from ._further import Further
from ._system import System


def stencil(
    spec: str | os.PathLike | Mapping[str, Any] | None = None,
    *,
    weights: Any = None,
    boundary: Any = None,
    storage: str | None = None,
    output: str | None = None,
    steps: int | str | None = None,
    name: str | None = None,
    backend: str = "auto",
    options: Sequence[str] = (),
    **parameters: float | str,
) -> Stencil | System:
    """A stencil that arrays can be passed to; of a spec with `stages` a System, which takes its fields by name.

    spec: path of a YAML file, or a mapping of the same keys. Or none of them, and
    weights: an array of 1 to 3 axes (z, y, x): out[p] = sum of weights[q] * in[p + q - size // 2]; with it
    boundary, storage, output, steps, name: as the keys of a spec. `storage` is f16 if nothing is said; it is that of the arrays,
      `output` that of results, where it is another.
    backend: "auto" (device arrays on their device; arrays of the host on the GPU if there is one and a compiler for it,
      else on the processor), "cuda", or "host".
    options: of the command line, e.g. ("--engine", "cuda").
    parameters: replace those of the spec, e.g. alpha=0.2; numbers, or expressions as text.

    Raises SpecError with all that is wrong with the spec; warns, with SpecWarning, of what the generator warns of. The kernel
    is compiled when the first array comes.
    """
    if output is not None and weights is None and _has_parameter(spec, "output"):
        parameters, output = {**parameters, "output": output}, None
    keys = {"boundary": boundary, "storage": storage, "output": output, "steps": steps, "stencil": name}
    keys = {key: value for key, value in keys.items() if value is not None}
    if (spec is None) == (weights is None):
        raise TypeError("stencil() takes either a spec or weights")
    if backend not in ("auto", "cuda", "host"):
        raise ValueError(f'backend is "auto", "cuda" or "host", not {backend!r}')
    all_options = [*_generator.parameter_options(parameters), *map(str, options)]
    read = _spec_of(spec, weights, keys, all_options)
    made = (System if _generator.generate(read).is_system else Stencil)(read, backend)
    for text in made._generated.warnings:
        warnings.warn(text, _generator.SpecWarning, stacklevel=2)
    return made


def _pays_for_aligned_rows(info: spider.Info, source: _arrays.Array, steps: int) -> bool:
    """Are two copies, to rows that start on 16 bytes and back, made up for by so many steps? Rows that start elsewhere cost sweeps of
    many steps, and of 16 bits, about as much as two copies of a single sweep take, and others next to nothing."""
    cell_bytes = spider._ELEMENT_BYTES[info.storage]
    fewest_sweeps = 4
    return (source.on_device and len(source.shape) > 1 and source.shape[-1] * cell_bytes % 16 != 0
            and (info.steps > 1 or cell_bytes == 2) and spider._int64("steps", steps) >= fewest_sweeps * info.steps)


def _has_parameter(spec: Any, name: str) -> bool:
    """May a spec have a parameter of the name of a key? A file is asked later."""
    return name in spec.get("parameters", {}) if isinstance(spec, Mapping) else spec is not None


def _spec_of(spec: Any, weights: Any, keys: Mapping[str, Any], options: Sequence[str]) -> _generator.Spec:
    if weights is not None:
        return _generator.from_weights(weights, keys, options)
    if isinstance(spec, Mapping):
        return _generator.from_mapping({**spec, **keys}, options)
    if keys:
        raise TypeError(f"{', '.join(keys)}: with a file of a spec these are written there")
    return _generator.from_file(spec, options)


class Stencil(_traced.StencilCalls, _made.Made):
    """A stencil: call it with an array. Made by spider_gen.stencil. It can be pickled: where it is loaded it is made again from
    the spec's text, through the cache. A copy is the stencil itself, which nothing changes."""

    def __init__(self, spec: _generator.Spec, backend: str):
        super().__init__(spec, backend)
        self._by_axes: dict[Any, _thin.Transposed | None] = {}  # for arrays of few columns
        self._reads_halos = False  # of any sweep so far
        self._dimensions: int | None = None  # once a launch is remembered

    def halo(self, *shape: int) -> tuple[tuple[int, int], ...]:
        """How many cells before and after an array of this shape are read, axis by axis: 0 but at `halo` faces."""
        return self._kernel(_compilers.choose(self._backend))[1].halo(*shape)

    def halo_of_fields(self, *shape: int) -> tuple[tuple[int, int], ...]:
        """The same of the spec's `fields`: what `steps` after the first read of them."""
        return self._kernel(_compilers.choose(self._backend))[1].halo_of_fields(*shape)

    @_autograd.untraced
    def _call(self, u: Any, out: Any = None, stream: Any = None, axes: Any = None, **given: Any) -> Any:
        """One sweep by the kernel."""
        _autograd.keep_dynamo_out()
        if _autograd.is_for_jax((u, *given.values()), out, stream):
            from . import _jax

            return _jax.sweep(self, u, axes, given, out=out, stream=stream)
        if axes is not None and self._dimensions is not None and _images.are_last(axes, u, self._dimensions):
            axes = None
        if axes is None:
            fresh = _places.new_like(u) if out is None and stream is None and self._launches else None
            if fresh is not None and self._launch_again(u, fresh, stream, given):
                return fresh
            if out is not None and self._launch_again(u, out, stream, given):
                _autograd.mark_written(out)
                return out
        if _labels.among((u, out, *given.values())):
            return _labels.call(functools.partial(self._call, stream=stream), u, out, axes, given)
        source = _arrays.wrap(u)
        results = axes is None and self._transposed_results(source, out, stream, False, given, Stencil._call)
        if results:
            return results[0]
        library, kernel = self._kernel_for(source)
        axes, given = _axes_of(kernel.info, axes, given)
        _arrays.check_elements(source, kernel.info, "u", kernel.info.storage)
        if _in_pairs(kernel.info):
            raise TypeError(f"{self.name} takes {kernel.info.steps} steps in a sweep, and a step reads the one before: call "
                            f"iterate(), which returns the last two")
        if axes is not None or len(source.shape) != kernel.info.dimensions:
            return self._call_images(library, kernel, source, out, stream, axes, given)
        with source.here(stream):
            target = source.new_result(kernel.info) if out is None else _arrays.wrap(out, "out", written=True)
            self._check_pair(source, target, kernel)
            further = Further.of(kernel.info, source, given)
            if source.empty:
                return target.given
            if source.on_device == kernel.info.on_host:
                self._through_device(library, kernel, source, target, further)
            elif self._sweep(kernel, source, target, further, stream):
                self._remember(kernel, source, target, given, further)
            _arrays.settle(source, target, *further.arrays)
        _autograd.mark_written(target.given)
        return target.given

    def _call_images(self, library: Any, kernel: Any, source: _arrays.Array, out: Any, stream: Any, axes: Any,
                     given: Mapping[str, Any]) -> Any:
        """One sweep of a batch."""
        layout = _images.Layout.of(kernel.info, source.shape, axes)
        with source.here(stream):
            target = source.new_result(kernel.info) if out is None else _arrays.wrap(out, "out", written=True)
            self._check_places(source, target, kernel)
            u, to = layout.arranged(source, "u"), layout.arranged(target, "out")
            is_own = out is None and not _arrays.is_writable(to)  # rows of the result have gaps
            result = u.new_result(kernel.info) if is_own else to
            _arrays.check_written(result, "out")
            further = Further.of(kernel.info, source, given, layout)
            if source.empty:
                return target.given
            if source.on_device == kernel.info.on_host:
                self._sweep_through_device(library, kernel, u, result, further, layout)
            elif _images.sweep(kernel, u, result, further, source.stream() if stream is None else stream):
                self._remember_images(kernel, source, target, given, further, u is source and not is_own)
            if is_own:
                to.view[...] = result.view
            _arrays.settle(source, target, *further.arrays)
        _autograd.mark_written(target.given)
        return target.given

    def _transposed_results(self, source: _arrays.Array, out: Any, stream: Any, repeats: bool, given: Mapping[str, Any],
                            run: Callable[..., Any]) -> tuple[Any, ...]:
        """Results of an array of few columns, by a kernel for the other order of its axes. Nothing where that does not pay, or
        where it is refused: then the kernel for this order says why."""
        transposed = self._transposed(source, repeats)
        if transposed is None:
            return ()
        target = None if out is None else _arrays.wrap(out, "out", written=True)
        others = [_arrays.wrap(value, name) for name, value in given.items() if not _thin.is_number(value)]
        if not all(array.can_permute for array in others) or (target is not None and not _thin.takes(source, target)):
            return ()
        with source.here(stream):
            try:
                found = transposed.call(source, given, functools.partial(run, stream=stream))
            except (TypeError, ValueError, NotImplementedError):
                return ()
            except _thin.FromProgress as error:
                raise error.__cause__ from None
            results = [one.new() if target is None or i > 0 else target for i, one in enumerate(found)]
            for result, one in zip(results, found):
                result.view[...] = one.view
            _arrays.settle(source, *results, *others)
        if target is not None:
            _autograd.mark_written(target.given)
        key = None if repeats else self._places(source.given, results[0].given, given)[1]
        if key is not None and source.on_device and not transposed.reads_around:
            self._keep_launch(key, _thin.Repeated(transposed))
        return tuple(result.given for result in results)

    def _transposed(self, array: _arrays.Array, repeats: bool) -> _thin.Transposed | None:
        axes = _thin.exchange_axes(array.shape)
        if axes is None or not array.can_permute or not _thin.pays(self._toolchain_for(array)):
            return None
        key = axes, repeats or _thin.pays_once(array.shape[-1])
        if key not in self._by_axes:
            spec = _thin.spec_in_order(self._spec, *key)
            self._by_axes[key] = None if spec is None else _thin.Transposed(Stencil(spec, self._backend), axes)
        return self._by_axes[key]

    @staticmethod
    def _sweep(kernel: Any, source: _arrays.Array, target: _arrays.Array, further: Further, stream: Any) -> bool:
        """A sweep of arrays where the kernel runs. Returns whether it copied none of them."""
        stream = source.stream() if stream is None else stream
        dense = _arrays.readable(source, kernel.halo(*source.shape), kernel.info)
        dense_further = further.laid_out(kernel)
        if further.some:
            in_python(kernel.run, dense.view, target.view, *dense_further.views(), None, stream)
        else:
            in_python(kernel.apply, dense.view, target.view, stream)
        return dense is source and dense_further is further

    def _launch_again(self, u: Any, out: Any, stream: Any, given: Mapping[str, Any]) -> bool:
        """Repeats a launch for arrays of the same layouts, without checking them again."""
        if not self._launches:
            return False
        addresses, key = self._places(u, out, given)
        found = key and self._launches.get(key)
        if not found:
            return False
        if isinstance(found, _thin.Repeated):
            return stream is None and found.run(u, out, given)
        return self._launch(found, addresses, _places.stream_of(u) if stream is None else spider._stream_handle(stream), given)

    @staticmethod
    def _launch(remembered: tuple[Any, Any, list[int]], addresses: Sequence[int], handle: int | None,
                given: Mapping[str, Any]) -> bool:
        """A remembered launch for arrays at other addresses: of u, of out, and of those that are given, in that order."""
        kernel, launch, order = remembered
        scalars = [_autograd.number(given[name], name) for name in kernel.info.scalars]
        status = launch([addresses[i] for i in order], handle, scalars)
        if status in REFUSED:
            return False  # the slow way raises in Python's words, or works on a copy
        if status != 0:
            in_python(kernel.library._check, status)
        return True

    def _remembered(self, u: Any, out: Any, given: Mapping[str, Any]) -> Any:
        """The launch for arrays of these layouts, or None."""
        return self._launches.get(self._places(u, out, given)[1])

    def _places(self, u: Any, out: Any, given: Mapping[str, Any]) -> tuple[list[int], Any]:
        """The addresses of all arrays, and a key of the names and layouts; the key is None where an array has to be checked."""
        arrays = [value for value in given.values() if type(value) not in (int, float) and getattr(value, "shape", ()) != ()]
        places = _places.places(u, out, *arrays)
        if places is None:
            return [], None
        key = (*given, *(layout for _, layout in places))
        if self._reads_halos:
            bases = [_places.base_of(array) for array in (u, *arrays)]
            return [address for address, _ in places], None if None in bases else (*key, *bases)
        return [address for address, _ in places], key

    def _remember(self, kernel: Any, source: _arrays.Array, target: _arrays.Array, given: Mapping[str, Any],
                  launched: Further | Sequence[_arrays.Array | None]) -> None:
        """`launched` is what a sweep of one image takes beside its input, or all arrays of a batch as they were launched."""
        own = source.shape[len(source.shape) - kernel.info.dimensions:]
        if not self._reads_halos and any(map(any, (*kernel.halo(*own), *kernel.halo_of_fields(*own)))):
            self._reads_halos = True
            self._launches.clear()
        key = self._places(source.given, target.given, given)[1]
        if key is None:
            return
        self._dimensions = kernel.info.dimensions
        arrays = [name for name in given if name not in kernel.info.scalars]
        names = [kernel.info.previous, *(name for name, _ in kernel.info.fields)]
        order = [0, 1, *(2 + arrays.index(name) for name in names if name is not None)]
        if isinstance(launched, Further):
            launcher = kernel._launcher(source.view, target.view, *launched.views())
        else:
            u, to, previous, *fields = launched
            scalars = [0.0] * len(kernel.info.scalars)
            launcher = kernel._launcher(u.view, to.view, previous and previous.view, [field.view for field in fields], scalars, True)
        self._keep_launch(key, (kernel, launcher, order))

    def _remember_images(self, kernel: Any, source: _arrays.Array, target: _arrays.Array, given: Mapping[str, Any],
                         further: Further, is_plain: bool) -> None:
        """Of a batch whose arrays are the caller's, in the order of their axes."""
        arrays = [value for name, value in given.items() if name not in kernel.info.scalars]
        if not is_plain or any(_arrays.wrap(array).shape != source.shape for array in arrays):
            return
        batch = len(source.shape) - kernel.info.dimensions
        views = next(_images.pieces([source, target, further.previous, *further.fields], batch))
        self._remember(kernel, source, target, given, views)

    @_autograd.untraced
    def _iterate(self, u: Any, steps: int, out: Any = None, stream: Any = None,
                 progress: bool | Callable[[int, int], None] = False, axes: Any = None, checkpoint: int | None = None,
                 snapshots: str | None = None, **given: Any) -> Any:
        """Time steps by the kernel."""
        _autograd.keep_dynamo_out()
        _snapshots.check(snapshots)
        if _autograd.is_for_jax((u, *given.values()), out, stream, progress):
            from . import _jax

            return _jax.iterate(self, u, steps, axes, given, checkpoint, snapshots, out=out, stream=stream, progress=progress)
        if _labels.among((u, out, *given.values())):
            run = functools.partial(self._iterate, steps=steps, stream=stream, progress=progress, checkpoint=checkpoint,
                                    snapshots=snapshots)
            return _labels.call(run, u, out, axes, given)
        source = _arrays.wrap(u)
        results = axes is None and self._transposed_results(source, out, stream, True, given, functools.partial(
            Stencil._iterate, steps=steps, progress=_thin.guard(progress)))
        if results:
            return results if len(results) > 1 else results[0]
        library, kernel = self._kernel_for(source)
        axes, given = _axes_of(kernel.info, axes, given)
        _arrays.check_elements(source, kernel.info, "u", kernel.info.storage)
        if kernel.info.output != kernel.info.storage:
            raise TypeError(f"{self.name} makes {kernel.info.output} of {kernel.info.storage}, which is no input of a next step: "
                            f"call it, or remove 'output' from the spec")
        if axes is not None or len(source.shape) != kernel.info.dimensions:
            return self._iterate_images(kernel, source, steps, out, stream, progress, axes, given)
        with source.here(stream):
            target = None if out is None else _arrays.wrap(out, "out", written=True)
            if target is not None:
                self._check_pair(source, target, kernel)
            report = _progress.make(progress, self.name)
            further = Further.of(kernel.info, source, given)
            if source.empty:
                return self._iterate_nothing(source, target, steps, report, further)
            if further.some:
                results = self._iterate_update(library, kernel, source, target, steps, stream, report, further)
            elif source.on_device == kernel.info.on_host:
                results = self._iterate_through_device(library, kernel, source, target, steps, report)
            else:
                results = self._iterate_plain(kernel, source, target, steps, stream, report)
            _arrays.settle(source, *([target] if target else []), *further.arrays)
        if target is not None:
            _autograd.mark_written(target.given)
        return results

    def _iterate_images(self, kernel: Any, source: _arrays.Array, steps: int, out: Any, stream: Any, progress: Any, axes: Any,
                        given: Mapping[str, Any]) -> Any:
        """Time steps of a batch."""
        layout = _images.Layout.of(kernel.info, source.shape, axes)
        with source.here(stream):
            target = None if out is None else _arrays.wrap(out, "out", written=True)
            if target is not None:
                self._check_places(source, target, kernel)
                _arrays.check_written(layout.arranged(target, "out"), "out")
            report = _progress.make(progress, self.name)
            u = layout.arranged(source, "u")
            further = Further.of(kernel.info, source, given, layout)
            if source.empty:
                return self._iterate_nothing(source, target, steps, report, further)
            if any(map(any, kernel.halo(*layout.own))) and (further.some or source.on_device):
                raise NotImplementedError("iterate() with halo faces takes arrays on the host, and no update: call the stencil step "
                                          "by step, and fill the halo between")
            count = 2 if further.previous else 1
            results = [source.new() if target is None or i > 0 else target for i in range(count)]
            places = [layout.arranged(result, "out") for result in results]
            if source.on_device == kernel.info.on_host:
                self._steps_one_by_one(u, places, steps, report, further, layout)
            else:
                stream = source.stream() if stream is None else stream
                last = _images.iterate(kernel, u, steps, stream, report, further, _in_pairs(kernel.info))
                for place, turn in zip(places, last):
                    place.view[...] = turn.view.reshape(layout.shape)
            _arrays.settle(source, *results, *further.arrays)
        _autograd.mark_written(results[0].given)
        return tuple(result.given for result in results) if further.previous else results[0].given

    def _steps_one_by_one(self, source: _arrays.Array, places: Sequence[_arrays.Array], steps: int, report: Any, further: Further,
                          layout: _images.Layout) -> None:
        """Of images on the host whose kernel runs on a device."""
        images = math.prod(layout.batch)
        done = 0

        def run(one: _arrays.Array, *rest: _arrays.Array) -> None:
            nonlocal done
            results = self.iterate(one.given, steps, **further.named([array.given for array in rest[len(places):]]))
            for place, result in zip(rest, results if isinstance(results, tuple) else (results,)):
                place.view[...] = _arrays.wrap(result).view
            done += 1
            if report is not None:
                report(steps * done // images, steps)

        _images.one_by_one(run, [source, *places, *further.arrays], layout.batch)

    @staticmethod
    def _iterate_nothing(source: _arrays.Array, target: _arrays.Array | None, steps: int, report: Any,
                         further: Further) -> Any:
        """Time steps of empty arrays."""
        if spider._int64("steps", steps) < 0:
            raise ValueError(f"{steps} steps; there must be 0 or more")
        if report is not None:
            report(steps, steps)
        last = (source.new() if target is None else target).given
        return (last, source.new().given) if further.previous else last

    @staticmethod
    def _iterate_plain(kernel: Any, source: _arrays.Array, target: _arrays.Array | None, steps: int, stream: Any,
                       report: Any) -> Any:
        """Time steps of a kernel that takes an input alone, where the array is."""
        halo = kernel.halo(*source.shape)
        has_halo = any(map(any, halo))
        pays = not has_halo and _pays_for_aligned_rows(kernel.info, source, steps)
        padded = source.with_aligned_rows() if pays else None
        if has_halo:
            if source.on_device:
                raise NotImplementedError("iterate() with halo faces takes arrays on the host: call the stencil step by step, "
                                          "and fill the halo between")
            _arrays.require_halo(source, halo, kernel.info)
            a, b = source.padded(halo), source.padded(halo)
        elif padded is not None:
            a, b = padded, source.with_aligned_rows()
            a.view[...] = source.view
        else:
            a, b = source.copy(), source.new()
        stream = source.stream() if stream is None else stream
        result = _steps(kernel, (a.view, b.view), steps, stream, report, source.synchronize)
        last = a if result is a.view else b
        if target is None:
            return last.copy().given if has_halo or padded is not None else last.given
        target.view[...] = last.view
        return target.given

    @staticmethod
    def _check_pair(source: _arrays.Array, target: _arrays.Array, kernel: Any) -> None:
        _arrays.check_type(target, kernel.info, "out", kernel.info.output)
        Stencil._check_places(source, target, kernel)
        _arrays.check_written(target, "out")

    @staticmethod
    def _check_places(source: _arrays.Array, target: _arrays.Array, kernel: Any) -> None:
        _arrays.check_elements(target, kernel.info, "out", kernel.info.output)
        if source.on_device != target.on_device:
            places = [f"on {'a device' if array.on_device else 'the host'}" for array in (source, target)]
            raise TypeError(f"u is {places[0]} and out {places[1]}: both must be in one place")
        if source.shape != target.shape:
            raise ValueError(f"out has the shape {target.shape}, and u {source.shape}")

    @staticmethod
    def _iterate_update(library: Any, kernel: Any, source: _arrays.Array, target: _arrays.Array | None, steps: int,
                        stream: Any, report: Any, further: Further) -> Any:
        """Time steps of a kernel that takes more than its input."""
        halo = kernel.halo(*source.shape)
        uploads = source.on_device == kernel.info.on_host
        if any(map(any, halo)):
            raise NotImplementedError("iterate() of an update takes no halo faces: call it step by step, and fill the halo "
                                      "between")
        in_pairs = _in_pairs(kernel.info)
        count = 4 if in_pairs else 3 if further.previous else 2
        if uploads:
            turns = [in_python(library.field, kernel, *source.shape) for _ in range(count)]
            _transfers.to_field(turns[0], source, halo)
            if further.previous:
                _transfers.to_field(turns[2], further.previous, halo)
            fields = further.uploaded(library, kernel)[1]
            stream = None
        else:
            arrays = [source.copy(), source.new(), *([further.previous.copy()] if further.previous else [])]
            arrays += [source.new()] if in_pairs else []
            turns = [array.view for array in arrays]
            further = further.laid_out(kernel)
            fields = further.views()[1]
            stream = source.stream() if stream is None else stream

        def run(now: int) -> None:
            previous = turns[2] if further.previous else None
            before = turns[3] if in_pairs else None
            last = in_python(kernel.run, turns[0], turns[1], previous, fields, further.scalars, now, stream, before)
            place = next(i for i, one in enumerate(turns) if one is last)
            if in_pairs:  # (0, 2) and (1, 3)
                turns[:] = [turns[place ^ other] for other in range(4)]
            else:
                turns[:] = turns[place:] + turns[:place]  # the input one step back is the last of the turn

        _progress.in_chunks(kernel, steps, report, run, library.synchronize if uploads else source.synchronize)
        results = []
        for turn in (turns[0], turns[2]) if further.previous else (turns[0],):
            result = source.new() if target is None or results else target
            if uploads:
                _transfers.from_field(turn, result)
            else:
                result.view[...] = turn
            results.append(result.given)
        return tuple(results) if further.previous else results[0]

    @staticmethod
    def _through_device(library: Any, kernel: Any, source: _arrays.Array, target: _arrays.Array, further: Further) -> None:
        """A sweep of arrays on the host by a kernel of a device."""
        halo = kernel.halo(*source.shape)
        _arrays.require_halo(source, halo, kernel.info)
        a = in_python(library.field, kernel, *source.shape)
        b = _transfers.room(library, kernel.info, source.shape, kernel.info.output, [(0, 0)] * len(source.shape))
        _transfers.to_field(a, source, halo)
        if further.some:
            in_python(kernel.run, a, b, *further.uploaded(library, kernel))
        else:
            in_python(kernel.apply, a, b)
        _transfers.from_field(b, target)

    def _sweep_through_device(self, library: Any, kernel: Any, source: _arrays.Array, target: _arrays.Array, further: Further,
                              layout: _images.Layout) -> None:
        """The same of a batch, image by image."""
        has_previous = further.previous is not None

        def run(one: _arrays.Array, to: _arrays.Array, *rest: _arrays.Array) -> None:
            own = dataclasses.replace(further, previous=rest[0] if has_previous else None, fields=list(rest[int(has_previous):]))
            self._through_device(library, kernel, one, to, own)

        _images.one_by_one(run, [source, target, *further.arrays], layout.batch)

    @staticmethod
    def _iterate_through_device(library: Any, kernel: Any, source: _arrays.Array, target: _arrays.Array | None, steps: int,
                                report: Any) -> Any:
        halo = kernel.halo(*source.shape)
        _arrays.require_halo(source, halo, kernel.info)
        fields = tuple(in_python(library.field, kernel, *source.shape) for _ in range(2))
        for field in fields:
            _transfers.to_field(field, source, halo)
        result = _steps(kernel, fields, steps, None, report, library.synchronize)
        target = source.new() if target is None else target
        _transfers.from_field(result, target)
        return target.given


def _axes_of(info: spider.Info, axes: Any, given: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """The axes of a call, and what it gives the update, which may have something of this name."""
    if axes is not None and "axes" in (info.previous, *(name for name, _ in info.fields), *info.scalars):
        return None, {**given, "axes": axes}
    return axes, given


def _in_pairs(info: spider.Info) -> bool:
    """Do sweeps take two fields to two, the last step and the one before?"""
    return info.previous is not None and info.steps > 1


def _steps(kernel: Any, pair: tuple[Any, Any], steps: int, stream: Any, report: Any, synchronize: Any) -> Any:
    """Of the pair that which holds the last step. Between reports there are so many steps as take a moment."""
    turns = list(pair)

    def run(now: int) -> None:
        if in_python(kernel.iterate, *turns, now, stream) is turns[1]:
            turns.reverse()

    _progress.in_chunks(kernel, steps, report, run, synchronize)
    return turns[0]


assert sys.version_info >= (3, 9)
