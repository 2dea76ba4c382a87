"""Calls kernels that spider-gen generated, from Python. Standard library only; copy this file or put it on PYTHONPATH.

    import numpy as np
    import spider

    library = spider.load("libkernels.so")  # a shared library of kernels and the runtime, as CMake makes it
    heat = library.kernel("heat2d")
    a = np.zeros((302, 402), np.float16)  # 300 x 400 cells in a frame of one halo cell
    b = a.copy()
    result = heat.iterate(a[1:-1, 1:-1], b[1:-1, 1:-1], steps=20)

Fields are arrays: anything with `__cuda_array_interface__` (CuPy, PyTorch, Numba) where the library is for CUDA, anything
with `__array_interface__` (NumPy) where it runs on the host, and `Library.field` in both. An array is the *interior* of a
field: a kernel with `halo` faces reads the cells around it, so pass a view into a larger array, as above. A call whose
kernel reads what is not known to belong to the array is refused. Axes are z, y, x, slowest first, as many as the kernel
has; x is contiguous, other strides are free. Nothing is copied.
"""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import math
import operator
import os
import tempfile
import threading
from typing import Any, Callable, Sequence

__all__ = ["Error", "Field", "Info", "Kernel", "Library", "Points", "load"]

ABI = 1
STORAGES = {0: "f16", 1: "f32", 2: "bf16", 3: "f64", 4: "u8", 5: "u16", 6: "i16"}
_BACKENDS = ("cuda", "emulated", "host")  # by number
#: What the array interfaces call each storage. No Python type is bf16: "<V2" is that of ml_dtypes and PyTorch. Bit
#: patterns ("<u2") serve for both kinds of 16 bits.
_TYPES = {"f16": ("<f2", "<u2"), "f32": ("<f4",), "bf16": ("<V2", "<u2"), "f64": ("<f8",), "u8": ("|u1",), "u16": ("<u2",),
          "i16": ("<i2",)}
#: Those of whole numbers: the least and the largest one.
INTEGERS = {"u8": (0, 255), "u16": (0, 65535), "i16": (-32768, 32767)}
#: Of Info.uses: what sweeps of a system do with a field.
FIELD_READ, FIELD_WRITTEN, FIELD_TWO_BUFFERS, FIELD_RESULT_IN_OUTPUT = 1, 2, 4, 8
_MOST_HALOS = 256  # remembered
_ELEMENT_BYTES = {"f16": 2, "f32": 4, "bf16": 2, "f64": 8, "u8": 1, "u16": 2, "i16": 2}


class Error(RuntimeError):
    """A call of the runtime that failed: `status` is a SPIDER_ERROR_ of spider.h, the text its words."""

    def __init__(self, status: int, words: str):
        super().__init__(words)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Info:
    """What a kernel says of itself. Reaches run along z, y, x, whatever the dimensions."""

    name: str
    generator: str
    spec_hash: str
    dimensions: int
    storage: str  #: f16, f32, bf16, f64, u8, u16, i16
    accumulate: str
    steps: int  #: time steps that one sweep advances
    reach_low: tuple[int, int, int]  #: how far taps go below a point, >= 0
    reach_high: tuple[int, int, int]
    minimum_arch: int  #: compute capability x 10
    backend: str  #: what it was compiled for: cuda, host, emulated
    previous: str | None = None  #: the input one step back, as the spec calls it
    fields: tuple[tuple[str, str], ...] = ()  #: names and storages of further fields
    scalars: tuple[str, ...] = ()  #: names of numbers given with each launch
    launches: int = 0  #: kernels that a sweep of a system of equations runs; 0: it is no system
    #: Of a system, of each field: SPIDER_FIELD_READ (1), WRITTEN (2), TWO_BUFFERS (4), RESULT_IN_OUTPUT (8), added up.
    uses: tuple[int, ...] = ()
    axes: tuple[tuple[bool, bool, bool], ...] = ()  #: of a system, of each field: has it cells along z, y, x?
    reductions: tuple[str, ...] = ()  #: of a system, names of numbers that a sweep makes of all points
    output: str = ""  #: storage of results

    @property
    def is_system(self) -> bool:
        return self.launches > 0

    @property
    def emulated(self) -> bool:
        return self.backend == "emulated"

    @property
    def on_host(self) -> bool:
        """Are its arrays in the host's memory?"""
        return self.backend != "cuda"


_pointer, _text, _int, _long, _size, _number = (
    ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_double)
_ints, _longs, _numbers, _texts, _pointers = map(ctypes.POINTER, (_int, _long, _number, _text, _pointer))
_three = _long * 3


class _Field(ctypes.Structure):
    """struct spider_field"""

    _fields_ = [("data", _pointer), ("extent", _three), ("stride", _long * 2)]


class _KernelInfo(ctypes.Structure):
    """struct spider_kernel_info; later versions append to it"""

    _fields_ = [
        ("size", ctypes.c_uint32), ("abi", ctypes.c_uint32), ("name", _text), ("generator", _text), ("spec_hash", _text),
        ("dimensions", _int), ("storage", _int), ("accumulate", _int), ("steps", _int), ("reach_low", _int * 3),
        ("reach_high", _int * 3), ("minimum_arch", _int), ("emulated", _int), ("backend", _int), ("previous", _text),
        ("field_count", _int), ("scalar_count", _int), ("field_names", _texts), ("field_storages", _ints),
        ("scalar_names", _texts), ("launch_count", _int), ("field_uses", _ints), ("field_axes", _ints),
        ("reduction_names", _texts), ("reduction_count", _int), ("output", _int)]


class _Part(ctypes.Structure):
    """struct spider_part"""

    _fields_ = [("origin", _three), ("whole", _three)]


_fields = ctypes.POINTER(_Field)
_part = ctypes.POINTER(_Part)


class _Sweep(ctypes.Structure):
    """struct spider_sweep"""

    _fields_ = [
        ("size", ctypes.c_uint32), ("source", _fields), ("target", _fields), ("previous", _fields),
        ("fields", ctypes.POINTER(_fields)), ("scalars", _numbers), ("offset", _three), ("extent", _three), ("part", _part),
        ("stream", _pointer), ("target_previous", _fields), ("outputs", ctypes.POINTER(_fields)), ("first_launch", _int),
        ("launch_count", _int), ("reductions", _pointer), ("batch", _long), ("batch_stride", _long),
        ("target_batch_stride", _long), ("field_batch_strides", _longs), ("scratch", _pointer), ("scratch_bytes", _size)]


_sweeps = ctypes.POINTER(_Sweep)
#: Arguments of the C interface. Functions return a status, but those of _RESULTS.
_ARGUMENTS = {
    "spider_abi_version": [],
    "spider_info": [_pointer],
    "spider_halo": [_pointer, _longs, _longs, _longs],
    "spider_halo_of_part": [_pointer, _longs, _part, _longs, _longs],
    "spider_halo_of_fields": [_pointer, _longs, _longs, _longs],
    "spider_halo_of_field": [_pointer, _int, _longs, _part, _longs, _longs],
    "spider_prepare": [_pointer],
    "spider_apply": [_pointer, _fields, _fields, _pointer],
    "spider_apply_box": [_pointer, _fields, _fields, _longs, _longs, _pointer],
    "spider_iterate": [_pointer, _fields, _fields, _long, _pointer, ctypes.POINTER(_fields)],
    "spider_run": [_pointer, _sweeps],
    "spider_run_steps": [_pointer, _sweeps, _long, ctypes.POINTER(_fields)],
    "spider_points_create": [_pointer, _longs, _longs, _long, _pointers],
    "spider_points_create_of_field": [_pointer, _int, _longs, _longs, _long, _pointers],
    "spider_points_free": [_pointer],
    "spider_points_add": [_pointer, _fields, _pointer, _pointer],
    "spider_points_read": [_pointer, _fields, _pointer, _pointer],
    "spider_reductions_create": [_pointer, _pointers],
    "spider_reductions_free": [_pointer],
    "spider_reductions_read": [_pointer, _numbers, _pointer],
    "spider_run_until": [_pointer, _sweeps, _long, _int, _number, _long, _longs, _numbers],
    "spider_status_string": [_int],
    "spider_last_error": [],
    "spider_allocate": [_size, _pointers],
    "spider_free": [_pointer],
    "spider_upload": [_pointer, _size, _pointer, _size, _size, _size],
    "spider_download": [_pointer, _size, _pointer, _size, _size, _size],
    "spider_synchronize": [_pointer],
    "spider_clear": [_pointer, _size],
}
_RESULTS = {"spider_info": ctypes.POINTER(_KernelInfo), "spider_status_string": _text, "spider_last_error": _text}


def load(path: str | os.PathLike) -> Library:
    """A shared library with kernels and the runtime, as the file is now: one that was built again since it was last loaded
    is another library, and the earlier one goes on as it was. OSError where it cannot be loaded, Error where it holds no
    runtime or one of another ABI."""
    return Library(path)


_opened: dict[bytes, ctypes.CDLL] = {}  # by the hash of the content
_opened_in_place: set[str] = set()
_opening = threading.Lock()


def _open(path: str) -> ctypes.CDLL:
    """Loads a copy of the file. For the file itself the loader would answer with what it has loaded of this name before; and
    a library that is written over changes under those who run it."""
    if not os.path.exists(path):
        return ctypes.CDLL(path)  # a name that the loader looks for
    path = os.path.realpath(path)
    with open(path, "rb") as file:
        content = file.read()
    key = hashlib.sha256(content).digest()
    with _opening:
        if key in _opened:
            return _opened[key]
        for folder in (os.path.dirname(path), None):  # None: that of temporary files
            try:
                with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=os.path.basename(path)) as copy:
                    copy.write(content)
                    copy.flush()
                    return _opened.setdefault(key, ctypes.CDLL(copy.name))
            except OSError:
                continue  # no place to write to, or to run from; or a file that is no library, of which the next says so
        if path in _opened_in_place:
            raise OSError(f"{path} has changed since it was loaded, and there is no folder to load a copy from")
        _opened[key] = ctypes.CDLL(path)
        _opened_in_place.add(path)
        return _opened[key]


class Library:
    """A loaded library. It stays loaded for the life of the process."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self._c = _open(self.path)
        for name, arguments in _ARGUMENTS.items():
            function = getattr(self._c, name, None)
            if function is None:
                what = "an older spider runtime" if hasattr(self._c, "spider_abi_version") else "no spider runtime"
                raise Error(2, f"{self.path} holds {what}: it has no function {name}")
            function.restype, function.argtypes = _RESULTS.get(name, _int), arguments
        if self._c.spider_abi_version() != ABI:
            raise Error(2, f"{self.path} has ABI {self._c.spider_abi_version()}; this module is for {ABI}")

    def kernel(self, name: str) -> Kernel:
        """The kernel of the stencil `name`. AttributeError where the library has none."""
        try:
            function = getattr(self._c, f"{name}_kernel")
        except AttributeError:
            raise AttributeError(f"{self.path} has no function {name}_kernel") from None
        function.restype, function.argtypes = _pointer, []
        return Kernel(self, function())

    def field(self, kernel: Kernel, *extents: int, name: str | None = None) -> Field:
        """A field of these extents, e.g. `rows, columns`, for one of the library's kernels; all zero at first. Of a system
        the field `name`, where the extents are those of fields with all axes."""
        return Field(self, kernel, extents, name)

    def synchronize(self, stream: Any = None) -> None:
        """Waits for the stream's work; None is the legacy default stream."""
        self._check(self._c.spider_synchronize(_stream_handle(stream)))

    def _check(self, status: int) -> None:
        if status != 0:
            words = self._c.spider_last_error() or self._c.spider_status_string(status)
            raise Error(status, words.decode())


class Kernel:
    """A generated kernel.

    `stream` is a number, or an object of CuPy (`.ptr`) or PyTorch (`.cuda_stream`), or anything with `__cuda_stream__`.
    Without one the work goes to the stream that the arrays' interface names, otherwise to the legacy default stream; the
    caller orders it after other streams. Calls return when the work is queued; on the host, when it is done.
    """

    def __init__(self, library: Library, handle: int):
        self.library = library
        self._handle = handle
        self._halos: dict[Any, tuple[tuple[int, int], ...]] = {}
        pointer = library._c.spider_info(handle)
        if not pointer:
            raise Error(2, (library._c.spider_last_error() or b"not a kernel").decode())
        raw = pointer.contents
        self.info = Info(
            raw.name.decode(), raw.generator.decode(), raw.spec_hash.decode(), raw.dimensions,
            STORAGES.get(raw.storage, str(raw.storage)), STORAGES.get(raw.accumulate, str(raw.accumulate)), raw.steps,
            tuple(raw.reach_low), tuple(raw.reach_high), raw.minimum_arch, _BACKENDS[raw.backend],
            raw.previous.decode() if raw.previous else None,
            tuple((raw.field_names[i].decode(), STORAGES[raw.field_storages[i]]) for i in range(raw.field_count)),
            tuple(raw.scalar_names[i].decode() for i in range(raw.scalar_count)), raw.launch_count,
            tuple(raw.field_uses[i] for i in range(raw.field_count)) if raw.launch_count else (),
            tuple(tuple(bool(raw.field_axes[i] >> axis & 1) for axis in range(3)) for i in range(raw.field_count))
            if raw.launch_count else (),
            tuple(raw.reduction_names[i].decode() for i in range(raw.reduction_count)), STORAGES.get(raw.output, str(raw.output)),
        )

        self._info_by_storage = {storage: dataclasses.replace(self.info, storage=storage) for storage in _TYPES}

    def __repr__(self) -> str:
        return f"<spider kernel {self.info.name}: {self.info.dimensions}D, {self.info.storage}>"

    def halo(self, *extents: int, part: tuple[Sequence[int], Sequence[int]] | None = None) -> tuple[tuple[int, int], ...]:
        """How many cells a sweep over a field of these extents reads before and after it, axis by axis: 0 but at `halo`
        faces, and of a `part`, its origin in a whole of these extents, (origin, whole), also at faces between parts."""
        if part is None:
            return self._whole_halo("spider_halo", extents)
        return self._halo_by(self.library._c.spider_halo_of_part, extents, self._part(part))

    def halo_of_fields(self, *extents: int) -> tuple[tuple[int, int], ...]:
        """The same of the further fields that an update of whole fields reads: nothing where a sweep has one step."""
        return self._whole_halo("spider_halo_of_fields", extents)

    def halo_of_field(self, name: str, *extents: int,
                      part: tuple[Sequence[int], Sequence[int]] | None = None) -> tuple[tuple[int, int], ...]:
        """Of one field of a system, of which `extents` are those of fields with all axes; nothing along others."""
        def find() -> tuple[tuple[int, int], ...]:
            low, high = _three(), _three()
            shape = self._triple("the extents", extents, 1)
            call = self.library._c.spider_halo_of_field
            self.library._check(call(self._handle, self._field_index(name), shape, self._part(part), low, high))
            return tuple(zip(low, high))[3 - self.info.dimensions:]

        return find() if part is not None else self._remembered((name, *map(operator.index, extents)), find)

    def spread_to_axes(self, name: str, values: Sequence[int], absent: int) -> tuple[int, ...]:
        """Numbers for the axes that a field of a system has, with `absent` for those that it lacks."""
        axes = self.info.axes[self._field_index(name)][3 - self.info.dimensions:]
        if len(values) == len(axes):
            return tuple(values)
        if len(values) != sum(axes):
            raise ValueError(f"{name} has {sum(axes)} axes, not {len(values)}")
        given = iter(values)
        return tuple(next(given) if has else absent for has in axes)

    def _field_index(self, name: str) -> int:
        """The place of a field of a system. KeyError where it has none of this name."""
        names = [known for known, _ in self.info.fields]
        if not self.info.is_system or name not in names:
            raise KeyError(f"{self.info.name} is no system with a field {name}; its fields are {', '.join(names) or 'none'}")
        return names.index(name)

    def _whole_halo(self, call: str, extents: Sequence[int]) -> tuple[tuple[int, int], ...]:
        """The halo of whole fields, remembered by their extents."""
        return self._remembered((call, *map(operator.index, extents)),
                                lambda: self._halo_by(getattr(self.library._c, call), extents))

    def _remembered(self, key: Any, find: Callable[[], tuple[tuple[int, int], ...]]) -> tuple[tuple[int, int], ...]:
        found = self._halos.get(key)
        if found is None:
            found = find()
            if len(self._halos) >= _MOST_HALOS:
                self._halos.clear()
            self._halos[key] = found
        return found

    def _halo_by(self, tell: Any, extents: Sequence[int], *part: Any) -> tuple[tuple[int, int], ...]:
        low, high = _three(), _three()
        self.library._check(tell(self._handle, self._triple("the extents", extents, 1), *part, low, high))
        return tuple(zip(low, high))[3 - self.info.dimensions:]

    def _part(self, part: tuple[Sequence[int], Sequence[int]] | None) -> Any:
        if part is None:
            return None
        origin, whole = part
        return _Part(self._triple("the part's origin", origin, 0), self._triple("the whole", whole, 1))

    def prepare(self) -> None:
        """Loads the kernel on the current device now: before timing, or before capturing a CUDA graph."""
        self.library._check(self.library._c.spider_prepare(self._handle))

    def apply(self, source: Any, target: Any, stream: Any = None) -> Any:
        """One sweep: `target` becomes the stencil of `source`. Returns `target`."""
        a, b = self._view(source, read=True), self._view(target, written=True, output=True)
        status = self.library._c.spider_apply(self._handle, a.field, b.field, _choose_stream(stream, a, b))
        self.library._check(status)
        return target

    def apply_box(self, source: Any, target: Any, offset: Sequence[int], extent: Sequence[int], stream: Any = None) -> Any:
        """The part of a sweep that writes `extent` cells from `offset`, with the same bits. Returns `target`."""
        box = self._triple("the box", offset, 0), self._triple("the box", extent, 1)
        a, b = self._view(source, read=True, box=box), self._view(target, written=True, output=True)
        status = self.library._c.spider_apply_box(self._handle, a.field, b.field, *box, _choose_stream(stream, a, b))
        self.library._check(status)
        return target

    def iterate(self, a: Any, b: Any, steps: int, stream: Any = None) -> Any:
        """`steps` time steps from `a` to `b` and back; returns whichever holds the last one."""
        views = self._view(a, read=True, written=True), self._view(b, read=True, written=True)
        result = _fields()
        status = self.library._c.spider_iterate(self._handle, views[0].field, views[1].field, _int64("steps", steps),
                                                _choose_stream(stream, *views), ctypes.byref(result))
        self.library._check(status)
        return a if ctypes.addressof(result.contents) == ctypes.addressof(views[0].field) else b

    def run(self, source: Any, target: Any, previous: Any = None, fields: Sequence[Any] = (), scalars: Sequence[float] = (),
            steps: int | None = None, stream: Any = None, target_previous: Any = None,
            box: tuple[Sequence[int], Sequence[int]] | None = None,
            part: tuple[Sequence[int], Sequence[int]] | None = None, images: bool = False) -> Any:
        """A sweep of a kernel that takes more than its input: the input one step back, further fields and numbers, in the
        order of `info`. `target` may be the memory of `previous` or, where a sweep has one step, of a field. Fields of sweeps of
        several steps have a halo (halo_of_fields). Returns `target`; with `steps`, after so many of them, whichever of the
        three holds the last one: each output becomes the input, the input `previous`, and that the output. Sweeps of several
        steps with `previous` write the step before the last one to `target_previous`; then `source` and `previous` take turns
        with `target` and `target_previous`, and of the two that hold the last steps the other one has the step before.

        `box`, (offset, extent), is what is written, with the bits of a whole sweep. With `part`, (origin, whole), the arrays lie
        there in a larger whole, whose faces the rules act at; at the others the cells around the arrays are read
        (halo). Of both, `steps` are as many as one sweep does.

        `images`: all arrays have one more axis, the first, and each index along it is swept by itself. `target` and
        `target_previous` have one stride along it, `source` and `previous` another or the same one; a field may have a stride of
        0, and is the same for all."""
        turns = steps is not None and box is None and part is None
        sweep, views, further = self._sweep(source, target, previous, fields, scalars, turns, box, part, images)
        if target_previous is not None:
            views.append(self._view(target_previous, read=turns, written=True, images=images))
            if images:
                self._take_images(sweep, views, further)
            sweep.target_previous = ctypes.pointer(views[-1].field)
        sweep.stream = _choose_stream(stream, *views, *further)
        if steps is None:
            self.library._check(self.library._c.spider_run(self._handle, sweep))
            return target
        result = _fields()
        status = self.library._c.spider_run_steps(self._handle, sweep, _int64("steps", steps), ctypes.byref(result))
        self.library._check(status)
        last = ctypes.addressof(result.contents)
        arrays = (source, target, previous, target_previous)
        return next(array for array, view in zip(arrays, views) if ctypes.addressof(view.field) == last)

    def run_system(self, fields: Sequence[Any], outputs: Sequence[Any] | None = None, scalars: Sequence[float] = (),
                   steps: int | None = None, stream: Any = None, box: tuple[Sequence[int], Sequence[int]] | None = None,
                   part: tuple[Sequence[int], Sequence[int]] | None = None, launches: tuple[int, int] | None = None,
                   reductions: Reductions | None = None) -> None:
        """A sweep of a system of equations, or so many `steps` of it. `fields` and `outputs` are arrays in the order of `info`,
        with one cell along axes on which a field has none (info.axes); of outputs those that are TWO_BUFFERS (info.uses), None for
        the others. Each launch finds a field where the launches before it leave it; behind an odd number of steps fields with
        RESULT_IN_OUTPUT are in `outputs`. `launches`, (first, count), are those to run. A `box`, (offset, extent), or a `part`,
        (origin, whole), of a system of several launches takes them one by one, and one step. The points of the last step are
        added to `reductions`."""
        sweep, _ = self._system_sweep(fields, outputs, scalars, 1 if steps is None else _int64("steps", steps), stream, part)
        if box is not None:
            sweep.offset, sweep.extent = self._triple("the box", box[0], 0), self._triple("the box", box[1], 1)
            if 0 in tuple(sweep.extent):  # zeros mean all to C
                raise ValueError("the box is empty")
        place = self._part(part)
        if place is not None:
            sweep.part = ctypes.pointer(place)
        if launches is not None:
            sweep.first_launch, sweep.launch_count = (_int32("launches", number) for number in launches)
        if reductions is not None:
            sweep.reductions = reductions._memory
        if steps is None:
            self.library._check(self.library._c.spider_run(self._handle, sweep))
        else:
            self.library._check(self.library._c.spider_run_steps(self._handle, sweep, steps, None))

    def _system_sweep(self, fields: Sequence[Any], outputs: Sequence[Any] | None, scalars: Sequence[float], steps: int,
                      stream: Any, part: Any = None) -> tuple[_Sweep, list[_View | None]]:
        """A sweep of a system, and the views of fields and then of outputs."""
        info = self.info
        if not info.is_system:
            raise ValueError(f"{info.name} is no system of equations: call run")
        outputs = [None] * len(fields) if outputs is None else outputs
        if len(fields) != len(info.fields) or len(outputs) != len(info.fields):
            raise ValueError(f"{info.name} takes {len(info.fields)} fields and as many outputs or None, not {len(fields)} and "
                             f"{len(outputs)}")
        if len(scalars) != len(info.scalars):
            raise ValueError(f"{info.name} takes {len(info.scalars)} scalars, not {len(scalars)}")
        sweep = _Sweep(size=ctypes.sizeof(_Sweep))
        views = self._system_views(fields, outputs, steps, part)
        pointers = [_fields() if view is None else ctypes.pointer(view.field) for view in views]
        array = _fields * len(fields)
        sweep.fields, sweep.outputs = array(*pointers[:len(fields)]), array(*pointers[len(fields):])
        if scalars:
            sweep.scalars = (_number * len(scalars))(*scalars)
        sweep.stream = _choose_stream(stream, *(view for view in views if view is not None))
        return sweep, views

    def _system_views(self, fields: Sequence[Any], outputs: Sequence[Any], steps: int, part: Any) -> list[_View | None]:
        """Of fields, then of outputs, which have the halo that they are read with."""
        info = self.info
        once = steps <= 1 and info.launches == 1  # then of two buffers the first is only read, the second only written
        views: list[_View | None] = []
        for is_output, arrays in ((False, fields), (True, outputs)):
            for array, (name, storage), uses in zip(arrays, info.fields, info.uses):
                if array is None and is_output:
                    views.append(None)
                    continue
                written = bool(uses & FIELD_WRITTEN) and (is_output or not (once and uses & FIELD_TWO_BUFFERS))
                views.append(_View.of(array, self._info_by_storage[storage], written))
        shape = [1] * info.dimensions  # of fields with all axes
        for view, axes in zip(views, info.axes):
            for axis, n in enumerate(view.cells.shape):
                if axes[3 - info.dimensions + axis]:
                    shape[axis] = n
        read = len(fields) if once else 2 * len(fields)
        for view, array, (name, _) in zip(views[:read], [*fields, *outputs], [*info.fields, *info.fields]):
            if view is not None:
                _require_halo(array, view.cells, self.halo_of_field(name, *shape, part=part), info)
        return views

    def _launcher(self, source: Any, target: Any, previous: Any, fields: Sequence[Any], scalars: Sequence[float],
                  images: bool = False) -> Callable[[Sequence[int], int | None, Sequence[float]], int]:
        """A function that launches this sweep again and returns the status. It takes the addresses of source, target, previous
        (if the kernel has one) and fields, the stream, and the scalars. The caller knows that arrays at these addresses have the
        types, shapes and strides of the arrays given here. Several threads may call the function."""
        model, views, further = self._sweep(source, target, previous, fields, scalars, False, images=images)
        count, fields_count = len(views), len(further)
        # No view, which has the memory of its array.
        batch = {name: getattr(model, name) for name in ("batch", "batch_stride", "target_batch_stride", "field_batch_strides")}

        def describe(sweep: _Sweep, pointers: Sequence[Any]) -> None:
            for name, pointer in zip(("source", "target", "previous"), pointers[:count]):
                setattr(sweep, name, pointer)
            if fields_count:
                sweep.fields = (_fields * fields_count)(*pointers[count:])
            for name, value in batch.items():
                setattr(sweep, name, value)

        return self._repeater([view.field for view in views + further], len(scalars), describe)

    def _system_launcher(self, fields: Sequence[Any], outputs: Sequence[Any],
                         scalars: Sequence[float]) -> Callable[[Sequence[int], int | None, Sequence[float]], int]:
        """The same of a sweep of a system: addresses are those of fields and then of the outputs that are not None."""
        _, views = self._system_sweep(fields, outputs, scalars, 1, None)
        some, is_there = [view for view in views if view is not None], [view is not None for view in views]
        field_count = len(fields)  # and no array or view, which have memory

        def describe(sweep: _Sweep, pointers: Sequence[Any]) -> None:
            given = iter(pointers)
            own = [next(given) if one else _fields() for one in is_there]
            array = _fields * field_count
            sweep.fields, sweep.outputs = array(*own[:field_count]), array(*own[field_count:])

        return self._repeater([view.field for view in some], len(scalars), describe)

    def _repeater(self, patterns: Sequence[_Field], scalar_count: int,
                  describe: Callable[[_Sweep, Sequence[Any]], None]) -> Callable[[Sequence[int], int | None, Sequence[float]], int]:
        """The function of _launcher: `describe` tells a sweep the fields that pointers lead to, which lie like the patterns."""
        numbers = _number * scalar_count
        idle: list[tuple[_Sweep, list[_Field], Any]] = []  # a call takes one out, or makes one

        def make() -> tuple[_Sweep, list[_Field], Any]:
            own = [_Field.from_buffer_copy(pattern) for pattern in patterns]
            sweep = _Sweep(ctypes.sizeof(_Sweep))
            describe(sweep, [ctypes.pointer(field) for field in own])
            if scalar_count:
                sweep.scalars = numbers()
            return sweep, own, ctypes.byref(sweep)

        def launch(addresses: Sequence[int], stream: int | None, scalars: Sequence[float]) -> int:
            try:
                one = idle.pop()
            except IndexError:
                one = make()
            sweep, own, reference = one
            for field, address in zip(own, addresses):
                field.data = address
            for i, scalar in enumerate(scalars):
                sweep.scalars[i] = scalar
            sweep.stream = stream
            status = self.library._c.spider_run(self._handle, reference)
            idle.append(one)
            return status

        return launch

    def _sweep(self, source: Any, target: Any, previous: Any, fields: Sequence[Any], scalars: Sequence[float],
               turns: bool, box: Any = None, part: Any = None,
               images: bool = False) -> tuple[_Sweep, list[_View], list[_View]]:
        """A sweep, the views of what takes turns, and those of further fields."""
        sweep = _Sweep(size=ctypes.sizeof(_Sweep))
        if box is not None:
            box = self._triple("the box", box[0], 0), self._triple("the box", box[1], 1)
            if 0 in tuple(box[1]):  # in 3D zeros mean all to C
                raise ValueError("the box is empty")
            sweep.offset, sweep.extent = box
        place = self._part(part)
        if place is not None:
            sweep.part = ctypes.pointer(place)
        a = self._view(source, read=True, written=turns, box=box, part=part, images=images)
        b = self._view(target, read=turns, written=True, images=images, output=True)
        views = [a, b]
        sweep.source, sweep.target = ctypes.pointer(a.field), ctypes.pointer(b.field)
        if previous is not None:
            views.append(self._view(previous, read=turns or self.info.steps > 1, written=turns, box=box, part=part,
                                    images=images))
            sweep.previous = ctypes.pointer(views[-1].field)
        if len(fields) != len(self.info.fields):
            raise ValueError(f"{self.info.name} takes {len(self.info.fields)} further fields, not {len(fields)}")
        if len(scalars) != len(self.info.scalars):
            raise ValueError(f"{self.info.name} takes {len(self.info.scalars)} scalars, not {len(scalars)}")
        further = []
        for array, (_, storage) in zip(fields, self.info.fields):
            further.append(_View.of(array, dataclasses.replace(self.info, storage=storage), False, images))
            own = further[-1].cells.shape[int(images):]
            _require_halo(array, further[-1].cells, _with_images(self._halo_of_further(own, part), images), self.info)
        if further:
            sweep.fields = (_fields * len(further))(*(ctypes.pointer(view.field) for view in further))
        if scalars:
            sweep.scalars = (_number * len(scalars))(*scalars)
        if images:
            self._take_images(sweep, views, further)
        return sweep, views, further

    def _take_images(self, sweep: _Sweep, views: Sequence[_View], further: Sequence[_View]) -> None:
        """Tells a sweep its batch. `views` are of source, target, previous and target_previous, as far as there are any."""
        names = ["source", "target", *(["previous"] if sweep.previous else []), "target_previous"]
        counts = {view.images for view in [*views, *further]}
        if len(counts) > 1:
            raise ValueError(f"{self.info.name}: the arrays have {' and '.join(map(str, sorted(counts)))} images")
        sweep.batch = counts.pop()
        for i, (name, view) in enumerate(zip(names, views)):
            if i > 1 and view.image_stride != views[i % 2].image_stride:
                raise ValueError(f"{self.info.name}: the images of {name} lie {view.image_stride} elements apart, those of "
                                 f"{names[i % 2]} {views[i % 2].image_stride}: both must lie alike")
        if sweep.batch > 1 and any(view.image_stride == 0 for view in views[1::2]):  # to C a stride like the source's
            raise ValueError(f"{self.info.name}: the images of the target are one in memory")
        sweep.batch_stride, sweep.target_batch_stride = views[0].image_stride, views[1].image_stride
        if further:
            sweep.field_batch_strides = _int64s("the fields' strides", [view.image_stride for view in further])

    def points(self, shape: Sequence[int], cells: Sequence[Sequence[int]], field: str | None = None) -> Points:
        """Cells of arrays of this shape: sources and receivers; of a system of arrays of one `field`."""
        return Points(self, shape, cells, field)

    def _view(self, array: Any, read: bool = False, written: bool = False, box: Any = None, part: Any = None,
              images: bool = False, output: bool = False) -> _View:
        converts = output and self.info.output != self.info.storage
        view = _View.of(array, self._info_by_storage[self.info.output] if converts else self.info, written, images)
        if read and (any(self.info.reach_low) or any(self.info.reach_high)):
            own = view.cells.shape[int(images):]
            halo = self.halo(*own, part=part)
            if box is not None:
                halo = self._halo_of_box(halo, own, *box)
            _require_halo(array, view.cells, _with_images(halo, images), self.info)
        return view

    def _halo_of_further(self, shape: Sequence[int], part: Any) -> Any:
        """What of the halo of a further field is read, or more."""
        steps = self.info.steps
        if part is None or steps == 1:
            return self.halo_of_fields(*shape)
        axes = slice(3 - self.info.dimensions, 3)
        reaches = zip(self.info.reach_low[axes], self.info.reach_high[axes])
        return tuple(
            # Where an index may be turned round at one face and leave by the other, as far as the input's.
            halo if max(reach) > n else tuple(min(cells, far // steps * (steps - 1)) for cells, far in zip(halo, reach))
            for halo, reach, n in zip(self.halo(*shape, part=part), reaches, shape))

    def _halo_of_box(self, halo: Any, shape: Sequence[int], offset: Any, extent: Any) -> Any:
        """What of the halo a sweep over a box reads, or more."""
        absent = 3 - self.info.dimensions
        reaches = zip(self.info.reach_low[absent:], self.info.reach_high[absent:])
        read = []
        for (low, high), reach, n, begin, count in zip(halo, reaches, shape, offset[absent:], extent[absent:]):
            if max(reach) < n:  # otherwise an index may be turned round at one face and leave by the other
                low, high = (min(low, max(0, reach[0] - begin)), min(high, max(0, begin + count + reach[1] - n)))
            read.append((low, high))
        return tuple(read)

    def _triple(self, what: str, values: Sequence[int], absent: int) -> Any:
        if len(values) != self.info.dimensions:
            raise ValueError(f"{self.info.name} has {self.info.dimensions} axes, not {len(values)}")
        return _int64s(what, [absent] * (3 - len(values)) + list(values))


class SystemSweep:
    """Sweeps of a system of equations over the same arrays, one after the other. `fields` and `outputs` are as in
    Kernel.run_system. `once`: there will be one sweep."""

    def __init__(self, kernel: Kernel, fields: Sequence[Any], outputs: Sequence[Any], scalars: Sequence[float], stream: Any = None,
                 once: bool = False):
        self.kernel, self._once = kernel, once
        self._buffers = [list(fields), list(outputs)]
        self._sweep, views = kernel._system_sweep(fields, outputs, scalars, 1 if once else 2, stream)
        self._views = [views[:len(fields)], views[len(fields):]]

    def run(self, steps: int = 1, reductions: Reductions | None = None) -> None:
        """So many time steps. `buffer` then says where the last one is. The points of the last one are added to `reductions`."""
        if self._once and steps != 1:
            raise ValueError(f"{steps} steps of what is swept once")
        library = self.kernel.library
        self._sweep.reductions = None if reductions is None else reductions._memory
        library._check(library._c.spider_run_steps(self.kernel._handle, self._sweep, _int64("steps", steps), None))
        if steps % 2 == 0:
            return
        for i, uses in enumerate(self.kernel.info.uses):
            if uses & FIELD_RESULT_IN_OUTPUT:
                for both in (self._buffers, self._views):
                    both[0][i], both[1][i] = both[1][i], both[0][i]
                self._sweep.fields[i] = ctypes.pointer(self._views[0][i].field)
                self._sweep.outputs[i] = ctypes.pointer(self._views[1][i].field)

    @property
    def stream(self) -> int | None:
        return self._sweep.stream

    def buffer(self, field: int) -> Any:
        """The array that holds a field now: of those given as fields, or as outputs."""
        return self._buffers[0][field]

    def _points(self, call: Any, points: Points, field: int, values: int) -> None:
        """Adds to points of a field, or reads them. `values` is an address."""
        self.kernel.library._check(call(points._memory, self._views[0][field].field, values, self._sweep.stream))


class Reductions:
    """Numbers that sweeps of a system make of all points, on the device that was current. `read` has those of all sweeps since
    the last one."""

    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self._memory = _pointer()
        kernel.library._check(kernel.library._c.spider_reductions_create(kernel._handle, ctypes.byref(self._memory)))

    def __del__(self):
        memory, self._memory = getattr(self, "_memory", None), None
        if memory:
            self.kernel.library._c.spider_reductions_free(memory)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("Reductions own memory and can be neither copied nor pickled: make others")

    def read(self, stream: Any = None) -> dict[str, float]:
        """By name, behind the sweeps on the stream, which it waits for."""
        names, library = self.kernel.info.reductions, self.kernel.library
        values = (_number * len(names))()
        library._check(library._c.spider_reductions_read(self._memory, values, _choose_stream(stream)))
        return dict(zip(names, values))


class Points:
    """Cells of a kernel's fields of one shape, on the device that was current: sources and receivers. `cells` are indices, a
    tuple with one for each axis a cell, slowest first. Values are arrays with one number a cell, of `info.accumulate` whatever
    the fields store (of one field of a system f64 where it stores that, otherwise f32), where the fields are: e.g. a row of
    an array that has one for each step. Calls return as a kernel's do."""

    def __init__(self, kernel: Kernel, shape: Sequence[int], cells: Sequence[Sequence[int]], field: str | None = None):
        self.kernel = kernel
        self._storage, self._values = kernel.info.storage, kernel.info.accumulate
        if field is not None:
            self._storage = kernel.info.fields[kernel._field_index(field)][1]
            self._values = values_of(self._storage)
        elif kernel.info.is_system:
            raise ValueError(f"{kernel.info.name} is a system of equations: name the field whose cells these are")
        self.cells = tuple(tuple(operator.index(index) for index in cell) for cell in cells)
        flat = [index for cell in self.cells for index in kernel._triple("a cell", cell, 0)]
        self._memory = _pointer()
        extents = kernel._triple("the shape", shape, 1)
        of_field = () if field is None else (kernel._field_index(field),)
        create = kernel.library._c.spider_points_create_of_field if of_field else kernel.library._c.spider_points_create
        kernel.library._check(create(kernel._handle, *of_field, extents, _int64s("the cells", flat), len(self.cells),
                                     ctypes.byref(self._memory)))

    def __del__(self):
        memory, self._memory = getattr(self, "_memory", None), None
        if memory:
            self.kernel.library._c.spider_points_free(memory)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("Points own memory and can be neither copied nor pickled: make others")

    def __len__(self) -> int:
        return len(self.cells)

    def add(self, field: Any, values: Any, stream: Any = None) -> Any:
        """Adds values[i] to cell i. A cell that is there more than once adds up in the order of the list, rounded to the
        field's storage once. Returns `field`."""
        self._access(self.kernel.library._c.spider_points_add, field, values, stream, adds=True)
        return field

    def read(self, field: Any, values: Any, stream: Any = None) -> Any:
        """Makes values[i] what cell i holds. Returns `values`."""
        self._access(self.kernel.library._c.spider_points_read, field, values, stream, adds=False)
        return values

    def _view(self, array: Any, written: bool) -> _View:
        info = self.kernel.info
        return _View.of(array, info if self._storage == info.storage else self.kernel._info_by_storage[self._storage], written)

    def _access(self, call: Any, field: Any, values: Any, stream: Any, adds: bool) -> None:
        info = self.kernel.info
        cells = self._view(field, adds)
        numbers = _View.of(values, dataclasses.replace(info, storage=self._values, dimensions=1), written=not adds)
        if numbers.cells.shape != (len(self),):
            raise ValueError(f"there are {len(self)} points, and {numbers.cells.shape[0]} values")
        status = call(self._memory, cells.field, numbers.cells.address, _choose_stream(stream, cells, numbers))
        self.kernel.library._check(status)


def values_of(storage: str) -> str:
    """The type of values of points of a field of a system."""
    return "f64" if storage == "f64" else "f32"


@dataclasses.dataclass
class _Cells:
    """Where an array's elements lie, in bytes."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int | None, ...]  #: None where there is one element along the axis, and the array does not tell
    size: int  #: of an element

    @staticmethod
    def of(array: Any, interface: dict | None = None) -> _Cells | None:
        """None where it is no array."""
        if callable(getattr(array, "data_ptr", None)):  # PyTorch, whose tensors on the host have no interface
            size = array.element_size()
            return _Cells(array.data_ptr(), tuple(array.shape), tuple(size * n for n in array.stride()), size)
        if interface is None:
            interface = getattr(array, "__array_interface__", None) or getattr(array, "__cuda_array_interface__", None)
        if interface is None or not isinstance(interface.get("data"), tuple):
            return None
        shape, size = tuple(interface["shape"]), int(interface["typestr"][2:])
        return _Cells(interface["data"][0], shape, _strides(array, interface, shape, size), size)

    def span(self, halo: Sequence[tuple[int, int]] | None = None) -> tuple[int, int]:
        """The addresses of the first byte and of that behind the last, with the halo."""
        begin = end = self.address
        if 0 in self.shape:
            return begin, end
        for n, stride, (low, high) in zip(self.shape, self.strides, halo or [(0, 0)] * len(self.shape)):
            ends = -low * (stride or 0), (n - 1 + high) * (stride or 0)
            begin, end = begin + min(ends), end + max(ends)
        return begin, end + self.size

    def forward(self, halo: Sequence[tuple[int, int]]) -> tuple[_Cells, list[tuple[int, int]]]:
        """These cells and their halo with positive strides; axes of stride 0 are left out, as they repeat one cell."""
        address, axes, widths = self.address, [], []
        for n, stride, (low, high) in zip(self.shape, self.strides, halo):
            if stride is not None and stride < 0:
                address, stride, low, high = address + (n - 1) * stride, -stride, high, low
            if stride != 0 or n == 0:
                axes.append((n, stride))
                widths.append((low, high))
        shape, strides = zip(*axes) if axes else ((), ())
        return _Cells(address, shape, strides, self.size), widths

    def holds(self, part: _Cells, halo: Sequence[tuple[int, int]]) -> bool | None:
        """Whether the halo of `part` are elements of this array, each at its place. None where `part` is no box of this
        array's elements, but another arrangement of the same memory."""
        whole, _ = self.forward([(0, 0)] * len(self.shape))
        return whole._holds(*part.forward(halo))

    def _holds(self, part: _Cells, halo: Sequence[tuple[int, int]]) -> bool | None:
        """`holds` for positive strides."""
        axes = sorted(((stride, n) for stride, n in zip(self.strides, self.shape) if n > 1), reverse=True)
        inner = self.size
        for stride, n in reversed(axes):
            if stride < inner:
                return None
            inner = stride * n
        steps: dict[int, tuple[int, int, int, int]] = {}  # by the stride of an axis: what `part` takes of it
        for n, stride, (low, high) in zip(part.shape, part.strides, halo):
            if n == 1 and low == high == 0:
                continue
            along = next((own for own, count in axes if stride > 0 and stride % own == 0 and stride < own * count), None)
            if along is None or along in steps:
                return None
            steps[along] = n, stride // along, low, high
        rest, inside = part.address - self.address, True
        for stride, count in axes:
            index, rest = divmod(rest, stride)
            n, step, low, high = steps.get(stride, (1, 1, 0, 0))
            if index < 0 or index + (n - 1) * step >= count:
                return None
            inside = inside and index - low * step >= 0 and index + (n - 1 + high) * step < count
        return inside if rest == 0 else None


def _strides(array: Any, interface: dict, shape: tuple[int, ...], size: int) -> tuple[int | None, ...]:
    """Interfaces leave out the strides of an array without gaps, and one that is a single row counts as such whatever it is
    a row of. So those of the array itself come first."""
    told = interface.get("strides")
    if told is not None:
        return tuple(told)
    dense = [size * math.prod(shape[axis + 1:]) for axis in range(len(shape))]
    own = getattr(array, "strides", None)
    if own is not None and len(own) == len(shape) and all(n < 2 or a == b for n, a, b in zip(shape, own, dense)):
        return tuple(own)
    return tuple(None if n == 1 else stride for n, stride in zip(shape, dense))


def _require_halo(array: Any, cells: _Cells, halo: Sequence[tuple[int, int]], info: Info) -> None:
    """Stops where a kernel would read beyond the array what is not known to belong to it."""
    if not any(low or high for low, high in halo):
        return
    names = _axis_names(len(halo))
    read = [f"{low} before it and {high} after it along {name}" for name, (low, high) in zip(names, halo) if low or high]
    slices = ", ".join(f"{low or ''}:{-high or ''}" for low, high in halo)
    mend = f"pass a view into a padded array, padded[{slices}], or a field of Library.field"
    for name, n, stride, (low, high) in zip(names, cells.shape, cells.strides, halo):
        if n == 1 and (low or high) and (stride is None or (name == "x" and stride != cells.size)):
            raise ValueError(f"{info.name} reads cells beyond the array, {'; '.join(read)}, and the array has one cell along "
                             f"{name} and does not tell how far the next is: {mend}")
    around, begin, end = _memory_around(array, cells)
    held = None if around is None else around.holds(cells, halo)
    if held is None:
        first, last = cells.span(halo)
        held = begin <= first and last <= end
    if not held:
        raise ValueError(f"{info.name} reads cells beyond the array, through halo faces: {'; '.join(read)}. They do not lie "
                         f"in memory that this {type(array).__name__} is known to be a view of: {mend}")


def _memory_around(array: Any, cells: _Cells) -> tuple[_Cells | None, int, int]:
    """What the array is a view of: the outermost array, if there is one, and where its memory begins and ends."""
    outer = None
    while True:
        if isinstance(array, Field):
            return array._with_halo()
        base, memory = _origin(array)
        if memory is not None:
            return outer, *memory
        if base is None:
            return outer, *cells.span()
        array, found = base, _Cells.of(base)
        if found is not None:
            cells = outer = found


def _origin(array: Any) -> tuple[Any, tuple[int, int] | None]:
    """The object that an array has its memory from; or where that memory begins and ends."""
    if isinstance(array, memoryview):
        return array.obj, None
    base = getattr(array, "base", None)
    if base is None and callable(getattr(array, "data_ptr", None)):  # PyTorch
        base = getattr(array, "_base", None)
        if base is None:
            storage = array.untyped_storage() if hasattr(array, "untyped_storage") else array.storage()
            return None, (storage.data_ptr(), storage.data_ptr() + storage.nbytes())
    if base is not None:
        return base, None
    memory = getattr(getattr(array, "data", None), "mem", None)  # CuPy
    if memory is not None:
        owner = getattr(memory, "_owner", None)  # of memory that is not CuPy's
        if isinstance(owner, Field) or _Cells.of(owner) is not None:
            return owner, None
        # Memory of its own is rounded up, and what it is rounded by belongs to nobody.
        whole = owner is None and array.data.ptr == memory.ptr
        return None, None if whole else (memory.ptr, memory.ptr + memory.size)
    owner = getattr(getattr(array, "gpu_data", None), "owner", None)  # Numba
    if owner is not None:
        begin = getattr(getattr(owner, "device_ctypes_pointer", None), "value", None)
        return (owner, None) if begin is None else (None, (begin, begin + owner.size))
    return None, None if _Cells.of(array) is not None else _bytes_of(array)


def _bytes_of(buffer: Any) -> tuple[int, int] | None:
    """Where the memory of a bytearray, of a file that is mapped, and the like begins and ends."""
    try:
        import numpy

        cells = _Cells.of(numpy.frombuffer(buffer, numpy.uint8))
    except (ImportError, TypeError, ValueError, BufferError):
        return None
    return cells.span()


@dataclasses.dataclass
class _View:
    """An array as the C interface takes it."""

    field: _Field
    stream: int | None  #: that the array's interface asks to be ordered with
    cells: _Cells  #: of all images
    images: int = 1
    image_stride: int = 0  #: elements from image to image

    @staticmethod
    def of(array: Any, info: Info, written: bool, images: bool = False) -> _View:
        _refuse_masked(array)
        interface = _interface(array, info)
        shape = tuple(interface["shape"])
        if len(shape) != info.dimensions + int(images):
            raise ValueError(f"{info.name} has {info.dimensions} dimensions{' and one of images' if images else ''}, the array "
                             f"{len(shape)}")
        if interface["typestr"] not in _TYPES[info.storage]:
            wanted = " or ".join(_TYPES[info.storage])
            raise TypeError(f"{info.name} stores {info.storage} ({wanted}), the array {interface['typestr']}")
        if interface.get("mask") is not None:
            raise TypeError("masked arrays have no meaning for a kernel")
        if callable(getattr(array, "is_neg", None)) and array.is_neg():
            raise TypeError("the tensor is to be negated when it is read, and a kernel would not: pass resolve_neg() of it")
        cells = _Cells.of(array, interface)
        if cells is None:
            raise TypeError("the array's interface gives no address")
        if written and interface["data"][1]:
            raise ValueError("the array is read-only, and the kernel writes to it")

        size = _ELEMENT_BYTES[info.storage]
        if cells.strides[-1] != size and shape[-1] > 1:
            raise ValueError(f"elements along x lie {cells.strides[-1]} bytes apart, not {size}: x has to be contiguous")
        counted = [0, 0, 0]  # from image to image, from plane to plane, from row to row
        for axis, stride in enumerate(cells.strides[:-1]):
            if stride is None:
                continue  # one cell, and no halo
            if stride % size != 0 and shape[axis] > 1:
                raise ValueError(f"a stride of {stride} bytes is no whole number of elements")
            counted[0 if images and axis == 0 else 3 - (len(shape) - 1) + axis] = stride // size
        own = shape[int(images):]
        extents = [1] * (3 - len(own)) + list(own)
        field = _Field(cells.address, _int64s("the array's shape", extents), _int64s("the array's strides", counted[1:]))
        return _View(field, interface.get("stream"), cells, shape[0] if images else 1, counted[0])


def _with_images(halo: Sequence[tuple[int, int]], images: bool) -> Sequence[tuple[int, int]]:
    """The halo of arrays that have an axis of images before those of the kernel."""
    return [(0, 0), *halo] if images else halo


def _axis_names(count: int) -> list[str]:
    """Of arrays of so many axes, the last ones those of a kernel."""
    return [*("batch",) * (count - 3), *"zyx"][-count:]


def _refuse_masked(array: Any) -> None:
    if hasattr(array, "mask") and hasattr(array, "filled"):  # of NumPy, of Astropy
        raise TypeError("masked arrays have no meaning for a kernel: pass filled(value) of it")


def _int64(what: str, value: Any) -> int:
    """The value as an integer that C's int64_t holds: ctypes would cut a longer one without a word."""
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{what}: {number} does not fit into 64 bits")
    return number


def _int32(what: str, value: Any) -> int:
    number = operator.index(value)
    if not -(2**31) <= number < 2**31:
        raise OverflowError(f"{what}: {number} does not fit into 32 bits")
    return number


def _int64s(what: str, values: Sequence[Any]) -> Any:
    return (_long * len(values))(*(_int64(what, value) for value in values))


def _interface(array: Any, info: Info) -> dict:
    name, other = "__cuda_array_interface__", "__array_interface__"
    if info.on_host:
        name, other = other, name
    found = getattr(array, name, None)
    if found is not None:
        return found
    kind = type(array).__name__
    if getattr(array, other, None) is not None:
        has, wants = ("the device", "the host (NumPy)") if info.on_host else ("the host", "the device (CuPy, PyTorch)")
        raise TypeError(f"this {kind} is on {has}; {info.name} takes arrays on {wants}, or Library.field")
    raise TypeError(f"a {kind} is no array: it has no {name}")


def _stream_handle(stream: Any) -> int | None:
    if stream is None or isinstance(stream, int):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        return (protocol() if callable(protocol) else protocol)[1]
    for name in ("ptr", "cuda_stream"):
        handle = getattr(stream, name, None)
        if isinstance(handle, int):
            return handle
    raise TypeError(f"a {type(stream).__name__} is no stream: it has none of __cuda_stream__, ptr, cuda_stream")


def _choose_stream(stream: Any, *views: _View) -> int | None:
    if stream is not None:
        return _stream_handle(stream)
    named = {view.stream for view in views if view.stream is not None}
    if len(named) > 1:
        raise ValueError("the arrays are in use on different streams: pass the stream to run on")
    return named.pop() if named else None


_LARGEST = {"f16": "to 65504 either way, and would become infinite", "f32": "to 3.4e38 either way, and would become infinite",
            "bf16": "to 3.4e38 either way, and would become infinite", "f64": "to 1.8e308 either way, and would become infinite"}
_LARGEST |= {storage: f"{least} to {most}" for storage, (least, most) in INTEGERS.items()}


def _bits(array: Any, storage: str, what: str = "a field") -> Any:
    """Real numbers as a NumPy array of what a kernel stores, rounded to nearest. TypeError where they are none, ValueError
    where a finite one is out of the storage's range."""
    import numpy

    _refuse_masked(array)
    given = numpy.asarray(array)
    if given.dtype.kind not in "biuf" and given.dtype.name != "bfloat16":
        raise TypeError(f"{what} takes real numbers, not {given.dtype}")
    if given.dtype.name == "bfloat16":
        given = given.astype(numpy.float32)
    bits = _rounded(given, storage)
    lost = _out_of_range(given, bits, storage)
    if lost:
        raise ValueError(f"{lost} of {given.size} values are out of the range of {storage}, {_LARGEST[storage]}")
    return bits


def _rounded(given: Any, storage: str) -> Any:
    """Rounds real numbers to a storage, to nearest and only once. A number out of its range becomes infinite, of whole ones the
    least or the largest."""
    import numpy

    if storage in INTEGERS:
        whole = given if given.dtype.kind in "biu" else numpy.rint(numpy.nan_to_num(given, nan=INTEGERS[storage][0]))
        return numpy.clip(whole, *INTEGERS[storage]).astype(_TYPES[storage][0])
    if storage != "bf16":
        with numpy.errstate(over="ignore"):
            return given.astype({"f16": numpy.float16, "f32": numpy.float32, "f64": numpy.float64}[storage])
    with numpy.errstate(over="ignore"):
        single = numpy.ascontiguousarray(given, numpy.float32).reshape(given.shape)
    bits = single.view(numpy.uint32)
    if not numpy.can_cast(given.dtype, numpy.float32):  # to odd: then the second rounding gives the bits of a single one
        exact = given.astype(numpy.longdouble)
        away = numpy.abs(single) > numpy.abs(exact)
        bits = numpy.where((single != exact) & numpy.isfinite(single), (bits - away) | 1, bits)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to nearest, ties to even
    return numpy.where(numpy.isnan(single), 0x7FC0, rounded).astype(numpy.uint16)


def _readable(bits: Any, storage: str) -> Any:
    """Stored bits as numbers of NumPy, which has no bf16: float32 for these."""
    import numpy

    return (bits.astype(numpy.uint32) << 16).view(numpy.float32) if storage == "bf16" else bits


def _out_of_range(given: Any, bits: Any, storage: str) -> int:
    """Counts the finite numbers that are out of the storage's range."""
    import numpy

    if storage in INTEGERS:
        least, most = INTEGERS[storage]
        return int(((given < least) | (given > most)).sum())
    if given.dtype.itemsize == 1 or (storage != "bf16" and numpy.can_cast(given.dtype, bits.dtype)):
        return 0
    return int((numpy.isfinite(given) & ~numpy.isfinite(_readable(bits, storage))).sum())


class Field:
    """Memory for a field and the halo that its kernel reads, owned by this object, which cannot be copied; rows on 128 bytes.

    For the device, where there is no CuPy, and for fast rows anywhere. It has the array interfaces itself, of its interior,
    so that kernels, CuPy and NumPy take it. `upload` and `download` need NumPy.
    """

    def __init__(self, library: Library, kernel: Kernel, extents: Sequence[int], name: str | None = None):
        info = kernel.info
        self.library, self.storage = library, info.storage
        self.shape = tuple(operator.index(n) for n in extents)
        if name is None:
            halo = kernel.halo(*self.shape)
        else:
            index, halo = kernel._field_index(name), kernel.halo_of_field(name, *self.shape)
            self.storage, axes = info.fields[index][1], info.axes[index][3 - info.dimensions:]
            self.shape = tuple(n if has else 1 for n, has in zip(self.shape, axes))
        self._on_host = info.on_host
        self._size = _ELEMENT_BYTES[self.storage]
        alignment = 128 // self._size
        low, high = halo[-1]
        self.halo = (*halo[:-1], (-(-low // alignment) * alignment, high))  # the interior, too, starts on 128 bytes
        self._padded = [before + n + after for (before, after), n in zip(self.halo, self.shape)]
        self._padded[-1] = -(-self._padded[-1] // alignment) * alignment
        self._memory = _pointer()
        size = _int64("the field's bytes", math.prod(self._padded) * self._size)
        library._check(library._c.spider_allocate(size, ctypes.byref(self._memory)))
        library._check(library._c.spider_clear(self._memory, size))

    def __del__(self):
        memory, self._memory = getattr(self, "_memory", None), None
        if memory:
            self.library._c.spider_free(memory)

    def __reduce_ex__(self, protocol: Any) -> Any:  # what copy, deepcopy and pickle call
        raise TypeError("a Field owns its memory and can be neither copied nor pickled: make another with Library.field and "
                        "upload what this one's download() returns")

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes, as NumPy counts them."""
        return tuple(self._size * math.prod(self._padded[axis + 1:]) for axis in range(len(self.shape)))

    @property
    def pointer(self) -> int:
        """Address of the first interior element."""
        return self._memory.value + sum(before * stride for (before, _), stride in zip(self.halo, self.strides))

    def _with_halo(self) -> tuple[_Cells, int, int]:
        cells = _Cells(self._memory.value, tuple(self._padded), self.strides, self._size)
        return cells, *cells.span()

    def _describe(self, on_host: bool) -> dict:
        if on_host != self._on_host:
            raise AttributeError("the memory is on the " + ("host" if self._on_host else "device"))
        return {"shape": self.shape, "typestr": _TYPES[self.storage][0], "strides": self.strides,
                "data": (self.pointer, False), "version": 3}

    @property
    def __array_interface__(self) -> dict:
        return self._describe(True)

    @property
    def __cuda_array_interface__(self) -> dict:
        return self._describe(False) | {"stream": 1}

    def upload(self, array: Any) -> Field:
        """Fills the interior from a NumPy array of the same shape, of real numbers, which are rounded to the storage. Returns
        the field. ValueError where a finite number is out of the storage's range."""
        import numpy

        values = _bits(array, self.storage)
        if values.shape != self.shape:
            raise ValueError(f"the field is {self.shape}, the array {values.shape}")
        self._copy(self.library._c.spider_upload, numpy.ascontiguousarray(values).ctypes.data, to_field=True)
        return self

    def download(self) -> Any:
        """The interior as a NumPy array: float16 for f16, float32 for f32 and for bf16, float64 for f64."""
        import numpy

        bits = numpy.empty(self.shape, f"<u{self._size}")
        self._copy(self.library._c.spider_download, bits.ctypes.data, to_field=False)
        if self.storage == "bf16":
            return _readable(bits, "bf16")
        return bits.view(_TYPES[self.storage][0])

    def _copy(self, copy: Any, host: int, to_field: bool, halo: Sequence[tuple[int, int]] | None = None) -> None:
        """Copies the interior, with so much of its halo, a plane at a time; `host` is the address of an array without gaps."""
        halo = halo or [(0, 0)] * len(self.shape)
        planes, rows, columns = (1, 1, *(low + n + high for n, (low, high) in zip(self.shape, halo)))[-3:]
        width = columns * self._size
        pitch = self.strides[-2] if len(self.shape) > 1 else width
        first = self.pointer - sum(low * stride for (low, _), stride in zip(halo, self.strides))
        for plane in range(planes):
            field = first + plane * self.strides[0], pitch
            array = host + plane * rows * width, width
            self.library._check(copy(*(field + array if to_field else array + field), width, rows))
