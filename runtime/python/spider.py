"""Calls kernels that spider-gen generated, from Python. Standard library only; copy this file or put it on PYTHONPATH.

    import numpy as np
    import spider

    library = spider.load("libkernels.so")  # a shared library of kernels and the runtime, as CMake makes it
    heat = library.kernel("heat2d")
    a = np.zeros((302, 402), np.float16)  # 300 x 400 cells in a frame of one halo cell
    b = a.copy()
    result = heat.iterate(a[1:-1, 1:-1], b[1:-1, 1:-1], steps=20)

Fields are arrays: anything with `__cuda_array_interface__` (CuPy, PyTorch, Numba) where the library is for CUDA, anything
with `__array_interface__` (NumPy) where it is emulated, and `Library.field` in both. An array is the *interior* of a
field: a kernel with `halo` faces reads the cells around it, so pass a view into a larger array, as above. That those
cells exist is the caller's promise. Axes are z, y, x, slowest first, as many as the kernel has; x is contiguous, other
strides are free. Nothing is copied.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import operator
import os
from typing import Any, Sequence

__all__ = ["Error", "Field", "Info", "Kernel", "Library", "load"]

ABI = 1
STORAGES = {0: "f16", 1: "f32", 2: "bf16"}
#: What the array interfaces call each storage. No Python type is bf16: "<V2" is that of ml_dtypes and PyTorch. Bit
#: patterns ("<u2") serve for both kinds of 16 bits.
_TYPES = {"f16": ("<f2", "<u2"), "f32": ("<f4",), "bf16": ("<V2", "<u2")}
_ELEMENT_BYTES = {"f16": 2, "f32": 4, "bf16": 2}


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
    storage: str  #: f16, f32, bf16
    accumulate: str
    steps: int  #: time steps that one sweep advances
    reach_low: tuple[int, int, int]  #: how far taps go below a point, >= 0
    reach_high: tuple[int, int, int]
    minimum_arch: int  #: compute capability x 10
    emulated: bool


class _Field(ctypes.Structure):
    """struct spider_field"""

    _fields_ = [("data", ctypes.c_void_p), ("extent", ctypes.c_int64 * 3), ("stride", ctypes.c_int64 * 2)]


class _KernelInfo(ctypes.Structure):
    """struct spider_kernel_info; later versions append to it"""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("abi", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("generator", ctypes.c_char_p),
        ("spec_hash", ctypes.c_char_p),
        ("dimensions", ctypes.c_int32),
        ("storage", ctypes.c_int32),
        ("accumulate", ctypes.c_int32),
        ("steps", ctypes.c_int32),
        ("reach_low", ctypes.c_int32 * 3),
        ("reach_high", ctypes.c_int32 * 3),
        ("minimum_arch", ctypes.c_int32),
        ("emulated", ctypes.c_int32),
    ]


_pointer = ctypes.c_void_p
_fields = ctypes.POINTER(_Field)
_triple = ctypes.POINTER(ctypes.c_int64)
_SIGNATURES = {
    "spider_abi_version": (ctypes.c_int32, []),
    "spider_info": (ctypes.POINTER(_KernelInfo), [_pointer]),
    "spider_prepare": (ctypes.c_int32, [_pointer]),
    "spider_apply": (ctypes.c_int32, [_pointer, _fields, _fields, _pointer]),
    "spider_apply_box": (ctypes.c_int32, [_pointer, _fields, _fields, _triple, _triple, _pointer]),
    "spider_iterate": (
        ctypes.c_int32,
        [_pointer, _fields, _fields, ctypes.c_int64, _pointer, ctypes.POINTER(_fields)],
    ),
    "spider_status_string": (ctypes.c_char_p, [ctypes.c_int32]),
    "spider_last_error": (ctypes.c_char_p, []),
    "spider_allocate": (ctypes.c_int32, [ctypes.c_uint64, ctypes.POINTER(_pointer)]),
    "spider_free": (ctypes.c_int32, [_pointer]),
    "spider_upload": (
        ctypes.c_int32,
        [_pointer, ctypes.c_uint64, _pointer, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64],
    ),
    "spider_download": (
        ctypes.c_int32,
        [_pointer, ctypes.c_uint64, _pointer, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint64],
    ),
    "spider_synchronize": (ctypes.c_int32, [_pointer]),
    "spider_clear": (ctypes.c_int32, [_pointer, ctypes.c_uint64]),
}


def load(path: str | os.PathLike) -> Library:
    """A shared library with kernels and the runtime. OSError where it cannot be loaded, Error where it holds no runtime or
    one of another ABI."""
    return Library(path)


class Library:
    """A loaded library. It stays loaded for the life of the process."""

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        self._c = ctypes.CDLL(os.path.abspath(self.path) if os.path.exists(self.path) else self.path)
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(self._c, name, None)
            if function is None:
                what = "an older spider runtime" if hasattr(self._c, "spider_abi_version") else "no spider runtime"
                raise Error(2, f"{self.path} holds {what}: it has no function {name}")
            function.restype, function.argtypes = result, arguments
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

    def field(self, kernel: Kernel, *extents: int) -> Field:
        """A field of these extents, e.g. `rows, columns`, for one of the library's kernels; all zero at first."""
        return Field(self, kernel, extents)

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
    caller orders it after other streams. Calls return when the work is queued; the emulator, when it is done.
    """

    def __init__(self, library: Library, handle: int):
        self.library = library
        self._handle = handle
        pointer = library._c.spider_info(handle)
        if not pointer:
            raise Error(2, (library._c.spider_last_error() or b"not a kernel").decode())
        raw = pointer.contents
        self.info = Info(
            raw.name.decode(), raw.generator.decode(), raw.spec_hash.decode(), raw.dimensions,
            STORAGES.get(raw.storage, str(raw.storage)), STORAGES.get(raw.accumulate, str(raw.accumulate)), raw.steps,
            tuple(raw.reach_low), tuple(raw.reach_high), raw.minimum_arch, raw.emulated != 0,
        )

    def __repr__(self) -> str:
        return f"<spider kernel {self.info.name}: {self.info.dimensions}D, {self.info.storage}>"

    def prepare(self) -> None:
        """Loads the kernel on the current device now: before timing, or before capturing a CUDA graph."""
        self.library._check(self.library._c.spider_prepare(self._handle))

    def apply(self, source: Any, target: Any, stream: Any = None) -> Any:
        """One sweep: `target` becomes the stencil of `source`. Returns `target`."""
        a, b = self._view(source), self._view(target, written=True)
        status = self.library._c.spider_apply(self._handle, a.field, b.field, _choose_stream(stream, a, b))
        self.library._check(status)
        return target

    def apply_box(self, source: Any, target: Any, offset: Sequence[int], extent: Sequence[int], stream: Any = None) -> Any:
        """The part of a sweep that writes `extent` cells from `offset`, with the same bits. Returns `target`."""
        a, b = self._view(source), self._view(target, written=True)
        box = self._triple(offset, 0), self._triple(extent, 1)
        status = self.library._c.spider_apply_box(self._handle, a.field, b.field, *box, _choose_stream(stream, a, b))
        self.library._check(status)
        return target

    def iterate(self, a: Any, b: Any, steps: int, stream: Any = None) -> Any:
        """`steps` time steps from `a` to `b` and back; returns whichever holds the last one."""
        views = self._view(a, written=True), self._view(b, written=True)
        result = _fields()
        status = self.library._c.spider_iterate(self._handle, views[0].field, views[1].field, _int64("steps", steps),
                                                _choose_stream(stream, *views), ctypes.byref(result))
        self.library._check(status)
        return a if ctypes.addressof(result.contents) == ctypes.addressof(views[0].field) else b

    def _view(self, array: Any, written: bool = False) -> _View:
        return _View.of(array, self.info, written)

    def _triple(self, values: Sequence[int], absent: int) -> Any:
        if len(values) != self.info.dimensions:
            raise ValueError(f"{self.info.name} has {self.info.dimensions} axes, not {len(values)}")
        return _int64s("the box", [absent] * (3 - len(values)) + list(values))


@dataclasses.dataclass
class _View:
    """An array as the C interface takes it."""

    field: _Field
    stream: int | None  #: that the array's interface asks to be ordered with

    @staticmethod
    def of(array: Any, info: Info, written: bool) -> _View:
        interface = _interface(array, info)
        shape = tuple(interface["shape"])
        if len(shape) != info.dimensions:
            raise ValueError(f"{info.name} has {info.dimensions} dimensions, the array {len(shape)}")
        if interface["typestr"] not in _TYPES[info.storage]:
            wanted = " or ".join(_TYPES[info.storage])
            raise TypeError(f"{info.name} stores {info.storage} ({wanted}), the array {interface['typestr']}")
        if interface.get("mask") is not None:
            raise TypeError("masked arrays have no meaning for a kernel")
        address, read_only = interface["data"]
        if written and read_only:
            raise ValueError("the array is read-only, and the kernel writes to it")

        size = _ELEMENT_BYTES[info.storage]
        strides = interface.get("strides")
        if strides is None:
            strides = [size * math.prod(shape[axis + 1:]) for axis in range(len(shape))]
        if strides[-1] != size and shape[-1] > 1:
            raise ValueError(f"elements along x lie {strides[-1]} bytes apart, not {size}: x has to be contiguous")
        counted = [0, 0]  # from plane to plane, from row to row
        for axis, stride in enumerate(strides[:-1]):
            if stride % size != 0 and shape[axis] > 1:
                raise ValueError(f"a stride of {stride} bytes is no whole number of elements")
            counted[2 - (len(shape) - 1) + axis] = stride // size
        extents = [1] * (3 - len(shape)) + list(shape)
        field = _Field(address, _int64s("the array's shape", extents), _int64s("the array's strides", counted))
        return _View(field, interface.get("stream"))


def _int64(what: str, value: Any) -> int:
    """The value as an integer that C's int64_t holds: ctypes would cut a longer one without a word."""
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise OverflowError(f"{what}: {number} does not fit into 64 bits")
    return number


def _int64s(what: str, values: Sequence[Any]) -> Any:
    return (ctypes.c_int64 * len(values))(*(_int64(what, value) for value in values))


def _interface(array: Any, info: Info) -> dict:
    name, other = "__cuda_array_interface__", "__array_interface__"
    if info.emulated:
        name, other = other, name
    found = getattr(array, name, None)
    if found is not None:
        return found
    kind = type(array).__name__
    if getattr(array, other, None) is not None:
        has, wants = ("the device", "the host (NumPy)") if info.emulated else ("the host", "the device (CuPy, PyTorch)")
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


class Field:
    """Memory for a field and a halo as wide as its kernel's taps reach, owned by this object; rows on 128 bytes.

    For the device, where there is no CuPy, and for fast rows anywhere. It has the array interfaces itself, of its interior,
    so that kernels, CuPy and NumPy take it. `upload` and `download` need NumPy.
    """

    def __init__(self, library: Library, kernel: Kernel, extents: Sequence[int]):
        info = kernel.info
        if len(extents) != info.dimensions:
            raise ValueError(f"{info.name} has {info.dimensions} axes, not {len(extents)}")
        if min(extents) < 1:
            raise ValueError("every extent must be at least 1")
        self.library, self.storage = library, info.storage
        self.shape = tuple(operator.index(n) for n in extents)
        self._emulated = info.emulated
        self._size = _ELEMENT_BYTES[info.storage]
        low, high = (list(reach[3 - info.dimensions:]) for reach in (info.reach_low, info.reach_high))
        alignment = 128 // self._size
        low[-1] = -(-low[-1] // alignment) * alignment  # so that the interior, too, starts on 128 bytes
        self.halo = tuple(zip(low, high))
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

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes, as NumPy counts them."""
        return tuple(self._size * math.prod(self._padded[axis + 1:]) for axis in range(len(self.shape)))

    @property
    def pointer(self) -> int:
        """Address of the first interior element."""
        return self._memory.value + sum(before * stride for (before, _), stride in zip(self.halo, self.strides))

    def _describe(self, emulated: bool) -> dict:
        if emulated != self._emulated:
            raise AttributeError("the memory is on the " + ("host" if self._emulated else "device"))
        return {"shape": self.shape, "typestr": _TYPES[self.storage][0], "strides": self.strides,
                "data": (self.pointer, False), "version": 3}

    @property
    def __array_interface__(self) -> dict:
        return self._describe(True)

    @property
    def __cuda_array_interface__(self) -> dict:
        return self._describe(False) | {"stream": 1}

    def upload(self, array: Any) -> Field:
        """Fills the interior from a NumPy array of the same shape, rounded to the storage. Returns the field."""
        import numpy

        values = self._bits(numpy.asarray(array))
        if values.shape != self.shape:
            raise ValueError(f"the field is {self.shape}, the array {values.shape}")
        self._copy(self.library._c.spider_upload, numpy.ascontiguousarray(values).ctypes.data, to_field=True)
        return self

    def download(self) -> Any:
        """The interior as a NumPy array: float16 for f16, float32 for f32 and for bf16."""
        import numpy

        bits = numpy.empty(self.shape, numpy.uint32 if self._size == 4 else numpy.uint16)
        self._copy(self.library._c.spider_download, bits.ctypes.data, to_field=False)
        if self.storage == "bf16":
            return (bits.astype(numpy.uint32) << 16).view(numpy.float32)
        return bits.view(numpy.float32 if self.storage == "f32" else numpy.float16)

    def _bits(self, array: Any) -> Any:
        import numpy

        if self.storage == "f16":
            return array.astype(numpy.float16)
        single = numpy.ascontiguousarray(array, numpy.float32)
        if self.storage == "f32":
            return single
        bits = single.view(numpy.uint32)
        rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16  # to nearest, ties to even
        return numpy.where(numpy.isnan(single), 0x7FC0, rounded).astype(numpy.uint16)

    def _copy(self, copy: Any, host: int, to_field: bool) -> None:
        """Copies the interior, a plane at a time; `host` is the address of an array without gaps."""
        planes, rows, columns = (1, 1, *self.shape)[-3:]
        width = columns * self._size
        pitch = self.strides[-2] if len(self.shape) > 1 else width
        for plane in range(planes):
            field = self.pointer + plane * self.strides[0], pitch
            array = host + plane * rows * width, width
            self.library._check(copy(*(field + array if to_field else array + field), width, rows))
