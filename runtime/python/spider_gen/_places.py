"""Quick descriptions of arrays: a launch is repeated for arrays of the same description without checking them again."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy

from . import _autograd


def place(array: Any) -> tuple[int, tuple[Any, ...]] | None:
    """The address of an array of NumPy, CuPy or PyTorch, and its layout: everything else that decides how a kernel takes it, with
    the device last, -1 for the host. None for other arrays, and for arrays that have to be checked again."""
    kind = type(array)
    if kind is numpy.ndarray:
        interface = array.__array_interface__
        address, read_only = interface["data"]
        return address, (interface["typestr"], interface["shape"], interface["strides"], read_only, kind, -1)
    torch = sys.modules.get("torch")
    if torch is not None and kind is torch.Tensor:
        return _place_of_tensor(torch, array)
    cupy = sys.modules.get("cupy")
    if cupy is not None and kind is cupy.ndarray:
        return array.data.ptr, (array.dtype.str, array.shape, array.strides, kind, array.device.id)
    return None


def _place_of_tensor(torch: Any, tensor: Any) -> tuple[int, tuple[Any, ...]] | None:
    if not _autograd.is_plain(torch, tensor) or tensor.is_neg():
        return None
    device = tensor.get_device()
    if device < 0 and tensor.device.type != "cpu":
        return None
    try:
        address = tensor.data_ptr()
        return (address, (tensor.dtype, tensor.shape, tensor.stride(), torch.Tensor, device)) if address else None
    except RuntimeError:  # sparse, or transformed by torch.func
        return None


def base_of(array: Any) -> tuple[Any, ...] | None:
    """Where an array of NumPy lies in its base, which decides whether the cells around it belong to it. None for other arrays,
    and where the base is no array that owns its memory."""
    if type(array) is not numpy.ndarray:
        return None
    base = array.base
    if base is None:
        return ()
    if type(base) is not numpy.ndarray or base.base is not None:
        return None
    return array.ctypes.data - base.ctypes.data, base.shape, base.strides


def places(*arrays: Any) -> list[tuple[int, tuple[Any, ...]]] | None:
    """The places of all arrays; None where they are neither all on the host nor all on the current device."""
    found = [place(array) for array in arrays]
    if None in found:
        return None
    device = found[0][1][-1]
    if any(one[1][-1] != device for one in found) or (device >= 0 and current_device(arrays[0]) != device):
        return None
    return found


def current_device(array: Any) -> int:
    """Where the library of an array of CuPy or PyTorch works now."""
    if type(array).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"].cuda.runtime.getDevice()
    return sys.modules["torch"].cuda.current_device()


def transposed(array: Any, axes: tuple[int, ...]) -> Any:
    """A dense copy of an array of CuPy or PyTorch with its axes in this order."""
    if type(array).__module__.partition(".")[0] != "cupy":
        return array.permute(axes).contiguous()
    result = sys.modules["cupy"].empty([array.shape[axis] for axis in axes], array.dtype)
    assign_transposed(result, array, axes)
    return result


def assign_transposed(to: Any, array: Any, axes: tuple[int, ...]) -> None:
    """Copies an array of CuPy or PyTorch, with its axes in this order, to another one."""
    if type(array).__module__.partition(".")[0] != "cupy":
        to.copy_(array.permute(axes))
    elif axes == (1, 0) and to.flags.c_contiguous and array.flags.c_contiguous:
        _transpose(to, array)
    else:
        to[...] = array.transpose(axes)


#: A thread copies a column of at most some hundred cells. CuPy's copy divides for the place of each cell and takes twice as long.
_TRANSPOSE = """
template <typename Cell>
__global__ void transpose(Cell* to, const Cell* from, long long columns, int cells, long long to_column, long long to_cell,
                          long long from_column, long long from_cell) {
  const long long column = blockIdx.x * static_cast<long long>(blockDim.x) + threadIdx.x;
  for (int cell = 0; column < columns && cell < cells; ++cell) {
    to[column * to_column + cell * to_cell] = from[column * from_column + cell * from_cell];
  }
}
"""
_THREADS = 256


@functools.lru_cache(maxsize=None)
def _transpose_kernel(cell_bytes: int, device: int) -> Any:
    """The kernel for cells of so many bytes; CuPy compiles it once a device."""
    cell = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}[cell_bytes]
    module = sys.modules["cupy"].RawModule(code=_TRANSPOSE, options=("-std=c++17",), name_expressions=(f"transpose<{cell}>",))
    return module.get_function(f"transpose<{cell}>")


@functools.lru_cache(maxsize=256)
def _transpose_launch(rows: int, columns: int) -> tuple[tuple[int], tuple[Any, ...]]:
    """Blocks, and the kernel's arguments after the arrays. The longer axis is that of the threads."""
    numbers = (rows, columns, 1, rows, columns, 1) if rows >= columns else (columns, rows, rows, 1, 1, columns)
    kinds = (numpy.int64, numpy.int32, *4 * (numpy.int64,))
    return (-(-numbers[0] // _THREADS),), tuple(kind(number) for kind, number in zip(kinds, numbers))


def _transpose(to: Any, array: Any) -> None:
    """Copies a dense array of CuPy of two axes, transposed, to another dense one."""
    blocks, numbers = _transpose_launch(*array.shape)
    _transpose_kernel(array.itemsize, array.device.id)(blocks, (_THREADS,), (to, array, *numbers))


def new_like(array: Any) -> Any:
    """Another array like one of NumPy, of PyTorch, or of CuPy on the current device, undefined; None for all others."""
    return None if places(array) is None else empty_like(array)


def empty_like(array: Any) -> Any:
    """Another array like one of NumPy, of PyTorch, or of CuPy on the current device, undefined."""
    if type(array) is numpy.ndarray:
        return numpy.empty(array.shape, array.dtype)
    if type(array).__module__.partition(".")[0] == "cupy":
        return sys.modules["cupy"].empty(array.shape, array.dtype)
    torch = sys.modules["torch"]
    return torch.empty_like(array, memory_format=torch.contiguous_format)


def copy_of(array: Any) -> Any:
    """A dense copy of an array of NumPy, of PyTorch, or of CuPy on the current device."""
    copy = empty_like(array)
    copy[...] = array
    return copy


def address(array: Any) -> int:
    """Where an array of NumPy, CuPy or PyTorch begins."""
    if type(array) is numpy.ndarray:
        return array.__array_interface__["data"][0]
    return array.data.ptr if type(array).__module__.partition(".")[0] == "cupy" else array.data_ptr()


def stream_of(array: Any) -> int | None:
    """The stream that the library of such an array is on; None on the host."""
    library = type(array).__module__.partition(".")[0]
    if library == "cupy":
        return sys.modules["cupy"].cuda.get_current_stream().ptr
    return stream_on(array.get_device()) if library == "torch" else None


def stream_on(device: int) -> int | None:
    """The stream that PyTorch is on, on a device, or None for -1, the host."""
    if device < 0:
        return None
    torch = sys.modules["torch"]
    quick = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # what compiled functions of PyTorch call
    return torch.cuda.current_stream(device).cuda_stream if quick is None else quick(device)
