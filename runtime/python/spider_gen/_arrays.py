"""Arrays of NumPy, CuPy, PyTorch and of whoever speaks DLPack, as the runtime takes them."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import sys
from typing import Any, ContextManager, Sequence

import numpy

from . import spider

#: Types that numbers are computed in.
NUMBERS = {"f32": numpy.float32, "f64": numpy.float64}


class Array:
    """A caller's array: what it is, where it is, and how to get another one like it."""

    on_device = False

    def __init__(self, given: Any, view: Any):
        self.given = given  #: the caller's
        self.view = view  #: the same memory, for the runtime

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.view.shape)

    def new(self) -> Array:
        """Of the same type, shape and device; its elements are undefined."""
        return Array(*2 * (numpy.empty(self.shape, self.view.dtype),))

    def numbers(self, count: int, storage: str) -> Array:
        """A list of numbers, undefined, for the same library and device."""
        return Array(*2 * (numpy.empty(count, NUMBERS[storage]),))

    @property
    def device(self) -> Any:
        """Which one, if it is on a device."""
        return None

    def copy(self) -> Array:
        fresh = self.new()
        fresh.view[...] = self.view
        return fresh

    def here(self) -> ContextManager:
        """Makes the array's device the current one."""
        return contextlib.nullcontext()

    def stream(self) -> Any:
        """That the caller's library works on now."""
        return None

    def synchronize(self) -> None:
        """Waits until the array's contents are there."""


class _Cupy(Array):
    on_device = True

    def new(self) -> Array:
        import cupy

        with self.here():
            return _Cupy(*2 * (cupy.empty(self.shape, self.view.dtype),))

    def numbers(self, count: int, storage: str) -> Array:
        import cupy

        with self.here():
            return _Cupy(*2 * (cupy.empty(count, NUMBERS[storage]),))

    @property
    def device(self) -> Any:
        return self.view.device.id

    def here(self) -> ContextManager:
        return self.view.device

    def stream(self) -> Any:
        import cupy

        return cupy.cuda.get_current_stream()

    def synchronize(self) -> None:
        self.stream().synchronize()


class _Torch(Array):
    """A tensor on a device."""

    on_device = True

    def new(self) -> Array:
        import torch

        return _Torch(*2 * (torch.empty(self.shape, dtype=self.view.dtype, device=self.view.device),))

    def numbers(self, count: int, storage: str) -> Array:
        import torch

        kind = torch.float64 if storage == "f64" else torch.float32
        return _Torch(*2 * (torch.empty(count, dtype=kind, device=self.view.device),))

    @property
    def device(self) -> Any:
        return self.view.get_device()

    def copy(self) -> Array:
        fresh = self.new()
        fresh.view.copy_(self.view)
        return fresh

    def here(self) -> ContextManager:
        import torch

        return torch.cuda.device(self.view.device)

    def stream(self) -> Any:
        import torch

        return torch.cuda.current_stream(self.view.device)

    def synchronize(self) -> None:
        self.stream().synchronize()


class _TorchOnHost(Array):
    def numbers(self, count: int, storage: str) -> Array:
        import torch

        return wrap(torch.empty(count, dtype=torch.float64 if storage == "f64" else torch.float32))

    def new(self) -> Array:
        import torch

        return wrap(torch.empty(tuple(self.given.shape), dtype=self.given.dtype))


class _Field(Array):
    """Memory that the runtime allocated."""

    def __init__(self, field: Any):
        super().__init__(field, field)
        self.on_device = not field._on_host

    def new(self) -> Array:
        raise TypeError("pass out=: a field of the runtime does not say how to make another one")


def wrap(array: Any) -> Array:
    """The caller's array. TypeError where it is none, or none that is shared with others."""
    if isinstance(array, Array):
        return array
    if isinstance(array, spider.Field):
        return _Field(array)
    if isinstance(array, numpy.ndarray):
        spider._refuse_masked(array)
        return Array(array, array)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        tensor = array.detach()
        if tensor.is_neg() or tensor.is_conj():
            raise TypeError("the tensor is to be negated when it is read: pass resolve_neg() of it")
        if tensor.is_cuda:
            return _Torch(array, tensor)
        if tensor.device.type != "cpu":
            raise TypeError(f"the tensor is on {tensor.device}; kernels take tensors on cuda or cpu: pass u.cpu()")
        plain = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
        host = plain.numpy()
        return _TorchOnHost(array, host.view(numpy.uint16) if plain is not tensor else host)
    if hasattr(array, "__cuda_array_interface__"):
        return _Cupy(array, array)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array)
    if hasattr(array, "__array_interface__"):
        view = numpy.asarray(array)
        return Array(view, view)
    raise TypeError(f"a {type(array).__name__} is no array: pass one of NumPy, CuPy, PyTorch, or one with DLPack")


def place_on_device(array: Any) -> tuple[Any, ...] | None:
    """What of an array of CuPy or PyTorch on a device decides how a kernel takes it, quickly: its address first, its device
    last; None for all others."""
    library = type(array).__module__.partition(".")[0]
    if library == "cupy" and isinstance(array, sys.modules["cupy"].ndarray):
        return array.data.ptr, array.shape, array.strides, array.dtype.char, array.device.id
    if library == "torch" and isinstance(array, sys.modules["torch"].Tensor) and array.is_cuda and not array.is_neg():
        return array.data_ptr(), array.shape, array.stride(), array.dtype, array.get_device()
    return None


def places_on_device(*arrays: Any) -> tuple[tuple[Any, ...], ...] | None:
    """Those of all arrays, if they are on the current device."""
    places = tuple(place_on_device(array) for array in arrays)
    if None in places:
        return None
    device = current_device(arrays[0])
    return places if all(place[-1] == device for place in places) else None


def current_device(array: Any) -> int:
    """Where the library of an array of CuPy or PyTorch works now."""
    if type(array).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"].cuda.runtime.getDevice()
    return sys.modules["torch"].cuda.current_device()


def new_on_device(array: Any) -> Any:
    """Another array like one of CuPy or PyTorch on the current device, undefined; None for all others."""
    if places_on_device(array) is None:
        return None
    if type(array).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"].empty(array.shape, array.dtype)
    return sys.modules["torch"].empty(array.shape, dtype=array.dtype, device=array.device)


def stream_on_device(array: Any) -> int:
    """The stream that the library of such an array is on."""
    if type(array).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return sys.modules["torch"].cuda.current_stream(array.get_device()).cuda_stream


def _from_dlpack(array: Any) -> Array:
    """Results are of the library that reads it: NumPy on the host, CuPy or PyTorch on a device."""
    if array.__dlpack_device__()[0] == 1:  # kDLCPU
        view = numpy.from_dlpack(array)
        return Array(view, view)
    for name in ("cupy", "torch"):
        with contextlib.suppress(ImportError):
            return wrap(__import__(name).from_dlpack(array))
    raise TypeError(f"this {type(array).__name__} is on a device: install CuPy or PyTorch, by which it is read")


def check_type(array: Array, info: Any, what: str, storage: str | None = None) -> None:
    """TypeError, with what would be right, where the elements are not the kernel's; ValueError of the dimensions."""
    storage = storage or info.storage
    wanted = spider._TYPES[storage]
    view = array.view
    interface = getattr(view, "__array_interface__", None) if not array.on_device else None
    if interface is not None and interface["typestr"] not in wanted:
        kind = {"f16": "numpy.float16", "f32": "numpy.float32", "f64": "numpy.float64"}.get(storage)
        mend = f"pass {what}.astype({kind})" if kind else "pass ml_dtypes.bfloat16, or bits as numpy.uint16"
        if array.given is not view:
            mend = f"pass {what}.to(torch.{ {'f16': 'float16', 'bf16': 'bfloat16', 'f64': 'float64'}.get(storage, 'float32')})"
        raise TypeError(f"{info.name} takes {storage}, and {what} is {getattr(array.given, 'dtype', '?')}: {mend}")
    if len(array.shape) != info.dimensions:
        raise ValueError(f"{info.name} has {info.dimensions} dimensions, and {what} has {len(array.shape)}")
    strides = interface and getattr(view, "strides", None)
    if strides and array.shape[-1] > 1 and strides[-1] != view.itemsize:
        raise ValueError(f"elements of {what} along the last axis lie {strides[-1]} bytes apart, not {view.itemsize}: pass "
                         f"numpy.ascontiguousarray({what})")


def extended(view: numpy.ndarray, halo: Sequence[tuple[int, int]]) -> numpy.ndarray:
    """An interior with its halo, which the caller has checked to be there."""
    address = view.ctypes.data - sum(low * stride for (low, _), stride in zip(halo, view.strides))
    shape = tuple(low + n + high for n, (low, high) in zip(view.shape, halo))
    interface = {"shape": shape, "strides": view.strides, "typestr": view.__array_interface__["typestr"],
                 "data": (address, True), "version": 3}
    holder = type("Extended", (), {"__array_interface__": interface, "interior": view})()
    return numpy.asarray(holder).view(view.dtype)


def padded(array: Array, halo: Sequence[tuple[int, int]]) -> Array:
    """A copy with its halo, and the interior of it."""
    whole = numpy.array(extended(array.view, halo))
    inner = whole[tuple(slice(low, low + n) for n, (low, _) in zip(array.shape, halo))]
    return Array(inner, inner)


def to_field(field: Any, array: Array, halo: Sequence[tuple[int, int]]) -> None:
    """Uploads the interior and the halo that a kernel reads."""
    _copy(field, field.library._c.spider_upload, numpy.ascontiguousarray(extended(array.view, halo)), halo, True)


def further_field(library: Any, kernel: Any, array: Array, storage: str) -> Any:
    """Memory of the runtime with what an update reads of the array."""

    class Further:
        info = dataclasses.replace(kernel.info, storage=storage)
        halo = kernel.halo_of_fields

    halo = Further.halo(*array.shape)
    spider._require_halo(array.view, spider._Cells.of(array.view), halo, kernel.info)
    field = spider.Field(library, Further, array.shape)
    to_field(field, array, halo)
    return field


def from_field(field: Any, array: Array) -> None:
    """Downloads the interior."""
    bits = numpy.empty(array.shape, array.view.dtype)
    _copy(field, field.library._c.spider_download, bits, [(0, 0)] * bits.ndim, False)
    array.view[...] = bits


def _copy(field: Any, copy: Any, array: numpy.ndarray, halo: Sequence[tuple[int, int]], to_field: bool) -> None:
    planes, rows, columns = (1, 1, *array.shape)[-3:]
    strides = field.strides
    width = columns * array.itemsize
    pitch = strides[-2] if array.ndim > 1 else width
    first = field.pointer - sum(low * stride for (low, _), stride in zip(halo, strides))
    for plane in range(planes):
        there = ctypes.c_void_p(first + plane * strides[0]), pitch
        here = ctypes.c_void_p(array.ctypes.data + plane * rows * width), width
        field.library._check(copy(*(there + here if to_field else here + there), width, rows))

