"""Wraps arrays of NumPy, CuPy, PyTorch and of libraries that share memory by a protocol, as the runtime takes them."""

from __future__ import annotations

import contextlib
import sys
from typing import Any, ContextManager, Iterator, Sequence

import numpy

from . import _autograd, spider

_TORCH_NAMES = {"f16": "float16", "f32": "float32", "f64": "float64", "bf16": "bfloat16", "u8": "uint8", "u16": "uint16",
                "i16": "int16"}
_TORCH_TYPES = {"torch.float16": "<f2", "torch.float32": "<f4", "torch.float64": "<f8", "torch.bfloat16": "<V2",
                "torch.uint16": "<u2", "torch.uint8": "|u1", "torch.int16": "<i2"}
_ON_HOST = (1, 3)  # kDLCPU, kDLCUDAHost
_ON_CUDA = (2, 13)  # kDLCUDA, kDLCUDAManaged

Halo = Sequence[tuple[int, int]]


def _host_type(storage: str) -> str:
    """NumPy's and CuPy's type of a storage."""
    return "<u2" if storage == "bf16" else spider._TYPES[storage][0]


class Array:
    """A caller's array: what it is, where it is, and how to get another one like it."""

    on_device = False
    lent = False  #: its library does not know the stream and may reuse the memory while a kernel runs

    def __init__(self, given: Any, view: Any):
        self.given = given  #: the caller's
        self.view = view  #: the same memory, for the runtime

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.view.shape)

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    @property
    def typestr(self) -> str:
        """The type of the elements, as the array interfaces call it."""
        return self.view.__array_interface__["typestr"]

    def cast(self, what: str, storage: str) -> str:
        """Words that say how to get an array of this storage."""
        if storage == "bf16":
            return "pass ml_dtypes.bfloat16, or bits as numpy.uint16"
        return f"pass {what}.astype(numpy.{numpy.dtype(spider._TYPES[storage][0]).name})"

    def _empty(self, shape: Any, storage: str | None = None) -> Array:
        """Another array of the same library and device, undefined: of this one's type, or of a storage; of bf16 the bits, where
        the library has no such type."""
        return Array(*2 * (numpy.empty(shape, _host_type(storage) if storage else self.view.dtype),))

    def new(self) -> Array:
        """Another array of the same type, shape and device; its elements are undefined."""
        return self._empty(self.shape)

    def new_as(self, storage: str) -> Array:
        """The same of elements of a storage."""
        return self._empty(self.shape, storage)

    def new_result(self, info: Any) -> Array:
        """Another one for a kernel's results."""
        return self.new() if info.output == info.storage else self.new_as(info.output)

    def numbers(self, count: int, storage: str) -> Array:
        """A list of numbers, undefined, for the same library and device."""
        return self._empty(count, storage)

    def filled(self, numbers: numpy.ndarray) -> Array:
        """The numbers where the array is."""
        return Array(numbers, numbers)

    @property
    def device(self) -> Any:
        """The number of its device, if it is on one and says so."""
        return None

    def copy(self) -> Array:
        fresh = self.new()
        fresh.view[...] = self.view
        return fresh

    can_permute = True  #: does permuted() work?

    def permuted(self, axes: Sequence[int]) -> Array:
        """The same memory, with the axes in this order."""
        return type(self)(*2 * (self.view.transpose(axes),))

    def reshaped(self, index: Sequence[int], shape: Sequence[int]) -> Array:
        """The same memory: what is at an index of the first axes, in another shape, which the strides allow."""
        return type(self)(*2 * (self.view[tuple(index)].reshape(tuple(shape)),))

    def repeated(self, shape: Sequence[int]) -> Array:
        """The same memory along further axes, ahead of its own: to read."""
        return type(self)(*2 * (numpy.broadcast_to(self.view, tuple(shape)),))

    def spread(self, axes: Sequence[bool]) -> Array:
        """The same memory with one cell along the axes that are not set, unless it has all."""
        if len(self.shape) == len(axes):
            return self
        spread = type(self)(self.given, self.view[tuple(slice(None) if has else None for has in axes)])
        spread.lent = self.lent
        return spread

    def padded(self, halo: Halo) -> Array:
        """A dense copy with its halo, which the caller has checked to be there, and the interior of it."""
        inner = _interior(numpy.array(extended(self.view, halo), order="C"), self.shape, halo)
        return Array(inner, inner)

    can_align_rows = False  #: does with_aligned_rows() make an array?

    def with_aligned_rows(self) -> Array | None:
        """Another array of the shape on the device, undefined, whose rows start on 128 bytes; None where nobody makes one."""
        return None

    def here(self, stream: Any = None) -> ContextManager:
        """Makes the array's device the current one, and the stream, if one is given, that of its library."""
        return contextlib.nullcontext()

    def stream(self) -> Any:
        """The stream that the caller's library works on now; None on the host."""
        return None

    def synchronize(self) -> None:
        """Waits until the array's contents are there."""


class _Cupy(Array):
    on_device = True

    @property
    def typestr(self) -> str:
        return self.view.dtype.str

    def _empty(self, shape: Any, storage: str | None = None) -> Array:
        import cupy

        with self.here():
            return _Cupy(*2 * (cupy.empty(shape, _host_type(storage) if storage else self.view.dtype),))

    def filled(self, numbers: numpy.ndarray) -> Array:
        import cupy

        with self.here():
            return _Cupy(*2 * (cupy.asarray(numbers),))

    @property
    def device(self) -> Any:
        return self.view.device.id

    def padded(self, halo: Halo) -> Array:
        import cupy

        view = self.view
        first = view.data - sum(low * stride for (low, _), stride in zip(halo, view.strides))
        shape = _with_halo(self.shape, halo)
        inner = _interior(cupy.ndarray(shape, view.dtype, first, view.strides).copy(order="C"), self.shape, halo)
        return _Cupy(inner, inner)

    can_align_rows = True

    def with_aligned_rows(self) -> Array:
        import cupy

        with self.here():
            whole = cupy.empty(_aligned_shape(self.shape, self.view.itemsize), self.view.dtype)
        return _Cupy(*2 * (whole[..., : self.shape[-1]],))

    def repeated(self, shape: Sequence[int]) -> Array:
        import cupy

        return _Cupy(*2 * (cupy.broadcast_to(self.view, tuple(shape)),))

    @contextlib.contextmanager
    def here(self, stream: Any = None) -> Iterator[None]:
        import cupy

        with self.view.device:
            if stream is None:
                yield
                return
            handle = spider._stream_handle(stream)
            with cupy.cuda.ExternalStream(handle) if handle else cupy.cuda.Stream.null:
                yield

    def stream(self) -> Any:
        import cupy

        return cupy.cuda.get_current_stream()

    def synchronize(self) -> None:
        self.stream().synchronize()


class _Tensor(Array):
    """A tensor of PyTorch."""

    @property
    def typestr(self) -> str:
        kind = str(self._tensor.dtype)
        return _TORCH_TYPES.get(kind, kind)

    def cast(self, what: str, storage: str) -> str:
        return f"pass {what}.to(torch.{_TORCH_NAMES[storage]})"

    def _type_of(self, storage: str | None) -> Any:
        """PyTorch's type of a storage, or the tensor's."""
        return getattr(sys.modules["torch"], _TORCH_NAMES[storage]) if storage else self._tensor.dtype

    @property
    def _tensor(self) -> Any:
        """On the host the view is an array of NumPy."""
        return self.view if self.on_device else self.given


class _Torch(_Tensor):
    """A tensor on a device."""

    on_device = True

    def _empty(self, shape: Any, storage: str | None = None) -> Array:
        import torch

        return _Torch(*2 * (torch.empty(shape, dtype=self._type_of(storage), device=self.view.device),))

    def filled(self, numbers: numpy.ndarray) -> Array:
        import torch

        return _Torch(*2 * (torch.from_numpy(numbers).to(self.view.device),))

    @property
    def device(self) -> Any:
        return self.view.get_device()

    def copy(self) -> Array:
        fresh = self.new()
        fresh.view.copy_(self.view)
        return fresh

    def permuted(self, axes: Sequence[int]) -> Array:
        return _Torch(*2 * (self.view.permute(axes),))

    def repeated(self, shape: Sequence[int]) -> Array:
        return _Torch(*2 * (self.view.expand(tuple(shape)),))

    def padded(self, halo: Halo) -> Array:
        import torch

        view = self.view
        first = view.storage_offset() - sum(low * stride for (low, _), stride in zip(halo, view.stride()))
        whole = view.as_strided(_with_halo(self.shape, halo), view.stride(), first)
        inner = _interior(whole.clone(memory_format=torch.contiguous_format), self.shape, halo)
        return _Torch(inner, inner)

    can_align_rows = True

    def with_aligned_rows(self) -> Array:
        import torch

        view = self.view
        whole = torch.empty(_aligned_shape(self.shape, view.element_size()), dtype=view.dtype, device=view.device)
        return _Torch(*2 * (whole[..., : self.shape[-1]],))

    @contextlib.contextmanager
    def here(self, stream: Any = None) -> Iterator[None]:
        import torch

        device = self.view.device
        with torch.cuda.device(device):
            if stream is None:
                yield
                return
            handle = spider._stream_handle(stream)
            with torch.cuda.stream(torch.cuda.ExternalStream(handle, device) if handle else
                                   torch.cuda.default_stream(device)):
                yield

    def stream(self) -> Any:
        import torch

        return torch.cuda.current_stream(self.view.device)

    def synchronize(self) -> None:
        self.stream().synchronize()


class _TorchOnHost(_Tensor):
    def permuted(self, axes: Sequence[int]) -> Array:
        return wrap(self.given.detach().permute(axes))

    def reshaped(self, index: Sequence[int], shape: Sequence[int]) -> Array:
        return wrap(self.given.detach()[tuple(index)].reshape(tuple(shape)))

    def repeated(self, shape: Sequence[int]) -> Array:
        return wrap(self.given.detach().expand(tuple(shape)))

    def _empty(self, shape: Any, storage: str | None = None) -> Array:
        import torch

        return wrap(torch.empty(shape, dtype=self._type_of(storage)))


class _OnDevice(Array):
    """An array on a device that only has __cuda_array_interface__, where neither CuPy nor PyTorch is installed. Its device is the
    current one, and work goes to the stream that the interface names."""

    on_device = True
    can_permute = False  #: and no other view of it can be made

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.view.__cuda_array_interface__["shape"])

    @property
    def typestr(self) -> str:
        return self.view.__cuda_array_interface__["typestr"]

    def _refuse(self, *_: Any) -> Any:
        raise TypeError(f"no library here makes another array like this {type(self.given).__name__} on a device: install CuPy "
                        f"or PyTorch, or call the stencil with out=, which takes an array of the same kind")

    _empty = filled = padded = _refuse


class _Field(Array):
    """Memory that the runtime allocated."""

    can_permute = False

    def __init__(self, field: Any):
        super().__init__(field, field)
        self.on_device = not field._on_host

    @property
    def typestr(self) -> str:
        return spider._TYPES[self.view.storage][0]

    def _refuse(self, *_: Any) -> Any:
        raise TypeError("pass out=: a field of the runtime does not say how to make another one")

    new = new_as = filled = padded = _refuse


def wrap(array: Any, what: str = "u", written: bool = False) -> Array:
    """The caller's array, which messages call `what`. TypeError where it is none, where it is none that is shared with others,
    or where a library records what is computed from it; ValueError where it is `written` and read-only."""
    if isinstance(array, Array):
        return array
    if isinstance(array, spider.Field):
        return _Field(array)
    wrapped = _wrap(array, what, written)
    if written and getattr(getattr(wrapped.view, "flags", None), "writeable", True) is False:
        raise ValueError(f"{what} is read-only")
    return wrapped


def _wrap(array: Any, what: str, written: bool) -> Array:
    if isinstance(array, numpy.ndarray):
        spider._refuse_masked(array)
        return Array(array, array)
    _autograd.refuse(array, what)
    torch, cupy, jax = (sys.modules.get(name) for name in ("torch", "cupy", "jax"))
    if torch is not None and isinstance(array, torch.Tensor):
        return _wrap_tensor(torch, array, what)
    if cupy is not None and isinstance(array, cupy.ndarray):
        return _Cupy(array, array)
    if jax is not None and isinstance(array, jax.Array):
        return _wrap_jax(array, what, written)
    if hasattr(array, "__cuda_array_interface__"):
        return _from_cuda_interface(array, what, written)
    if hasattr(array, "__dlpack__"):
        return _from_dlpack(array, what)
    return _from_buffer(array, what)


def _wrap_tensor(torch: Any, given: Any, what: str) -> Array:
    tensor = given.detach()
    if tensor.layout != torch.strided or tensor.is_quantized or getattr(tensor, "is_nested", False):
        raise TypeError(f"{what} is no dense tensor: pass to_dense(), dequantize() or to_padded_tensor() of it")
    if tensor.is_neg() or tensor.is_conj():
        raise TypeError(f"{what} is to be negated when it is read: pass {what}.resolve_neg()")
    if tensor.is_cuda:
        return _Torch(given, tensor)
    if tensor.device.type == "meta":
        raise TypeError(f"{what} is on meta, where tensors have no values: pass a tensor on cuda or cpu")
    if tensor.device.type != "cpu":
        raise TypeError(f"{what} is on {tensor.device}; kernels take tensors on cuda or cpu: pass {what}.cpu()")
    plain = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
    host = plain.numpy()
    return _TorchOnHost(given, host.view(numpy.uint16) if plain is not tensor else host)


def _wrap_jax(array: Any, what: str, written: bool) -> Array:
    """Results are NumPy's on the host, and CuPy's or PyTorch's on a device."""
    if written:
        raise TypeError(f"{what} is an array of JAX, and these are immutable: pass an array of NumPy, CuPy or "
                        f"PyTorch")
    devices = array.devices()
    if len(devices) > 1:
        raise TypeError(f"{what} lies on {len(devices)} devices, and a kernel takes an array on one: pass one of its "
                        f"addressable_shards")
    if next(iter(devices)).platform == "cpu":
        return Array(array, numpy.asarray(array))
    array.block_until_ready()
    if hasattr(array, "__cuda_array_interface__"):
        return _from_cuda_interface(array, what, written)
    return _from_dlpack(array, what)


def _from_cuda_interface(array: Any, what: str, written: bool) -> Array:
    """Results are of CuPy or PyTorch, whichever is there."""
    interface = array.__cuda_array_interface__
    if not isinstance(interface, dict):
        raise TypeError(f"the __cuda_array_interface__ of {what} is no dictionary")
    if interface.get("mask") is not None:
        raise TypeError("masked arrays have no meaning for a kernel")
    if written and interface["data"][1]:
        raise ValueError(f"{what} is read-only")
    reader = _reader({"cupy": lambda cupy: _Cupy(array, cupy.asarray(array)),
                      "torch": lambda torch: _Torch(array, _tensor_of(torch, array))}, what)
    return _lent(reader or _OnDevice(array, array), array)


def settle(*arrays: Array) -> None:
    """Waits for the launched kernel where an array's library would not."""
    for array in arrays:
        if array.lent:
            return array.synchronize()


def _lent(reader: Array, array: Any) -> Array:
    reader.given, reader.lent = array, True
    return reader


def _tensor_of(torch: Any, array: Any) -> Any:
    """A tensor of the same memory."""
    tensor = torch.as_tensor(array, device="cuda")
    if tensor.numel() > 0 and tensor.data_ptr() != array.__cuda_array_interface__["data"][0]:
        raise ValueError("it is not on the current device")  # and was copied
    return tensor


def _reader(readers: dict[str, Any], what: str) -> Array | None:
    """Reads the array by the first library that is installed and can. None where none is installed; TypeError with their reasons
    where none can."""
    reasons = []
    for name, read in readers.items():
        try:
            library = sys.modules.get(name) or __import__(name)
        except ImportError:
            continue
        try:
            return read(library)
        except MemoryError:
            raise
        except Exception as error:  # each library has exceptions of its own for what it cannot read
            reasons.append(f"{name}: {error}")
    if reasons:
        raise TypeError(f"{what} cannot be read on its device ({'; '.join(reasons)})")
    return None


def _from_dlpack(array: Any, what: str) -> Array:
    """Results are of the library that reads it: NumPy on the host, CuPy or PyTorch on a device."""
    kind = array.__dlpack_device__()[0]
    if kind in _ON_HOST:
        try:
            return Array(array, numpy.from_dlpack(array))
        except (TypeError, BufferError, RuntimeError, ValueError) as error:  # e.g. bf16, which DLPack has and NumPy has not
            if hasattr(array, "__array_interface__"):
                return _from_buffer(array, what)
            raise TypeError(f"NumPy cannot read {what}, a {type(array).__name__}, by DLPack: {error}") from error
    if kind not in _ON_CUDA:
        raise TypeError(f"{what} is on a device of DLPack's kind {int(kind)}; kernels take arrays on the host and on CUDA "
                        f"devices")
    reader = _reader({name: lambda library: wrap(library.from_dlpack(array), what) for name in ("cupy", "torch")}, what)
    if reader is None:
        raise TypeError(f"{what}, a {type(array).__name__}, is on a device: install CuPy or PyTorch, by which it is read")
    return _lent(reader, array)


def _from_buffer(array: Any, what: str) -> Array:
    """Reads the array by __array_interface__ or the buffer protocol."""
    if not hasattr(array, "__array_interface__"):
        try:
            array = memoryview(array)
        except TypeError:
            raise TypeError(f"{what}, a {type(array).__name__}, is no array: pass one of NumPy, CuPy, PyTorch, or one with "
                            f"DLPack, __cuda_array_interface__, __array_interface__ or the buffer protocol") from None
    return Array(array, numpy.asarray(array))


# Checks and layouts


def check_type(array: Array, info: Any, what: str, storage: str | None = None) -> None:
    """TypeError, with what would be right, where the elements are not the kernel's; ValueError of the dimensions."""
    check_elements(array, info, what, storage or info.storage)
    if len(array.shape) != info.dimensions:
        raise ValueError(f"{info.name} has {info.dimensions} dimensions, and {what} has {len(array.shape)}")


def check_elements(array: Array, info: Any, what: str, storage: str) -> None:
    """TypeError, with what would be right, where the elements are of another type."""
    if array.typestr not in spider._TYPES[storage]:
        given = getattr(array.given, "dtype", array.typestr)
        raise TypeError(f"{info.name} takes {storage}, and {what} is {given}: {array.cast(what, storage)}")


def check_written(array: Array, what: str) -> None:
    """ValueError where a kernel cannot write to the array: x is not contiguous, or rows run backwards or overlap."""
    if is_writable(array):
        return
    cells = spider._Cells.of(array.view)
    strides = ", ".join(str(stride) for stride in cells.strides)
    raise ValueError(f"{what} has strides of {strides} bytes; a kernel writes to rows of elements without gaps along the last "
                     f"axis, one after the other in memory, aligned, and apart: pass another {what} and copy from it")


def is_writable(array: Array) -> bool:
    """Can a kernel write to it, as far as its strides say?"""
    cells = spider._Cells.of(array.view)
    return array.empty or cells is None or is_laid_out(cells, [(0, 0)] * len(cells.shape))


def is_laid_out(cells: Any, halo: Halo) -> bool:
    """Whether the C interface takes these strides: x contiguous, rows and planes with their halo forward and apart."""
    counts = [low + n + high for n, (low, high) in zip(cells.shape, halo)]
    if cells.address % cells.size != 0 or (counts[-1] > 1 and cells.strides[-1] not in (None, cells.size)):
        return False
    span = counts[-1] * cells.size
    apart = [(stride, count) for stride, count in zip(cells.strides[:-1], counts) if count > 1 and stride is not None]
    for stride, count in sorted(apart):
        if stride < span or stride % cells.size != 0:
            return False
        span += stride * (count - 1)
    return True


def has_aligned_rows(array: Array) -> bool:
    """Do all rows start on 16 bytes?"""
    cells = spider._Cells.of(array.view)
    starts = [stride or 0 for stride, n in zip(cells.strides[:-1], cells.shape) if n > 1]
    return all(start % 16 == 0 for start in (cells.address, *starts))


def readable(array: Array, halo: Halo, info: Any) -> Array:
    """The array, or a copy with its halo where the C interface does not take its strides."""
    cells = spider._Cells.of(array.view)
    if cells is None or is_laid_out(cells, halo):
        return array
    require_halo(array, halo, info)
    return array.padded(halo)


def require_halo(array: Array, halo: Halo, info: Any) -> None:
    """ValueError where a copy with the halo would read cells that may not belong to the array."""
    cells = spider._Cells.of(array.view)
    for name, n, stride, width in zip(spider._axis_names(len(halo)), cells.shape, cells.strides, halo):
        if n == 1 and stride == 0 and any(width):
            raise ValueError(f"{info.name} reads cells beyond the array along {name}, where it has one cell and a stride of 0, "
                             f"which does not tell where the next is: pass a view into a padded array")
    spider._require_halo(array.view, cells, halo, info)


def _aligned_shape(shape: Sequence[int], cell_bytes: int) -> tuple[int, ...]:
    cells = 128 // cell_bytes
    return (*shape[:-1], -(-shape[-1] // cells) * cells)


def _with_halo(shape: Sequence[int], halo: Halo) -> tuple[int, ...]:
    return tuple(low + n + high for n, (low, high) in zip(shape, halo))


def _interior(whole: Any, shape: Sequence[int], halo: Halo) -> Any:
    return whole[tuple(slice(low, low + n) for n, (low, _) in zip(shape, halo))]


def extended(view: numpy.ndarray, halo: Halo) -> numpy.ndarray:
    """An interior with its halo, which the caller has checked to be there."""
    address = view.ctypes.data - sum(low * stride for (low, _), stride in zip(halo, view.strides))
    interface = {"shape": _with_halo(view.shape, halo), "strides": view.strides,
                 "typestr": view.__array_interface__["typestr"], "data": (address, True), "version": 3}
    holder = type("Extended", (), {"__array_interface__": interface, "interior": view})()
    return numpy.asarray(holder).view(view.dtype)
