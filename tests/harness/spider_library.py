"""The public C API (spider/spider.h, spider/memory.h) as Python calls, and nothing beside it: the same script drives
all back ends."""

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_uint32, c_uint64, c_void_p

import numpy

OK = 0
NULL = 1
KERNEL = 2
EXTENT = 3
STRIDE = 4
ALIGNMENT = 5
OVERLAP = 6
STEPS = 7
UNSUPPORTED = 8
EMULATION = 12
STATUS_VALUES = range(13)
CUDA = 0  # of spider_kernel_info.backend
ABI = 1
PER_THREAD_STREAM = c_void_p(2)  # as CUDA calls it


class Field(ctypes.Structure):
    """spider_field: extents z, y, x; strides, in elements, from plane to plane and from row to row."""

    _fields_ = [("data", c_void_p), ("extent", c_int64 * 3), ("stride", c_int64 * 2)]


class Part(ctypes.Structure):
    """spider_part."""

    _fields_ = [("origin", c_int64 * 3), ("whole", c_int64 * 3)]


class Sweep(ctypes.Structure):
    """spider_sweep."""

    _fields_ = [
        ("size", c_uint32),
        ("input", POINTER(Field)),
        ("output", POINTER(Field)),
        ("previous", POINTER(Field)),
        ("fields", POINTER(POINTER(Field))),
        ("scalars", POINTER(ctypes.c_double)),
        ("offset", c_int64 * 3),
        ("extent", c_int64 * 3),
        ("part", POINTER(Part)),
        ("stream", c_void_p),
        ("out_previous", POINTER(Field)),
    ]


def make_sweep(source, target, previous=None, fields=(), scalars=(), box=None, part=None, out_previous=None):
    """A spider_sweep; `box` is (offset, extent), `part` (origin, whole). It keeps what it points to alive."""
    sweep = Sweep(size=ctypes.sizeof(Sweep), input=ctypes.pointer(source), output=ctypes.pointer(target))
    if previous is not None:
        sweep.previous = ctypes.pointer(previous)
    if out_previous is not None:
        sweep.out_previous = ctypes.pointer(out_previous)
    if fields:
        sweep.fields = (POINTER(Field) * len(fields))(*map(ctypes.pointer, fields))
    if scalars:
        sweep.scalars = (ctypes.c_double * len(scalars))(*scalars)
    if box is not None:
        sweep.offset, sweep.extent = (c_int64 * 3)(*box[0]), (c_int64 * 3)(*box[1])
    if part is not None:
        sweep.part = ctypes.pointer(Part((c_int64 * 3)(*part[0]), (c_int64 * 3)(*part[1])))
    return sweep


class KernelInfo(ctypes.Structure):
    """spider_kernel_info."""

    _fields_ = [
        ("size", c_uint32),
        ("abi", c_uint32),
        ("name", c_char_p),
        ("generator", c_char_p),
        ("spec_hash", c_char_p),
        ("dimensions", c_int32),
        ("storage", c_int32),
        ("accumulate", c_int32),
        ("steps", c_int32),
        ("reach_low", c_int32 * 3),
        ("reach_high", c_int32 * 3),
        ("minimum_arch", c_int32),
        ("emulated", c_int32),
        ("backend", c_int32),
        ("previous", c_char_p),
        ("field_count", c_int32),
        ("scalar_count", c_int32),
        ("field_names", POINTER(c_char_p)),
        ("field_storages", POINTER(c_int32)),
        ("scalar_names", POINTER(c_char_p)),
    ]


class CallFailed(Exception):
    """A call that had to succeed did not."""

    def __init__(self, function, status, text, reason):
        super().__init__(f"{function}: status {status} ({text}): {reason}")
        self.status = status


class Library:
    """A shared library of generated kernels and the runtime."""

    def __init__(self, path):
        self.path = os.path.abspath(path)  # the loader would look for a bare name elsewhere
        self.handle = ctypes.CDLL(self.path)
        field_pointer = POINTER(Field)
        signatures = {
            "spider_abi_version": (c_int32, []),
            "spider_info": (POINTER(KernelInfo), [c_void_p]),
            "spider_prepare": (c_int32, [c_void_p]),
            "spider_apply": (c_int32, [c_void_p, field_pointer, field_pointer, c_void_p]),
            "spider_apply_box": (
                c_int32,
                [c_void_p, field_pointer, field_pointer, POINTER(c_int64), POINTER(c_int64), c_void_p],
            ),
            "spider_iterate": (
                c_int32,
                [c_void_p, field_pointer, field_pointer, c_int64, c_void_p, POINTER(c_void_p)],
            ),
            "spider_run": (c_int32, [c_void_p, POINTER(Sweep)]),
            "spider_run_steps": (c_int32, [c_void_p, POINTER(Sweep), c_int64, POINTER(c_void_p)]),
            "spider_status_string": (c_char_p, [c_int32]),
            "spider_last_error": (c_char_p, []),
            "spider_allocate": (c_int32, [c_uint64, POINTER(c_void_p)]),
            "spider_free": (c_int32, [c_void_p]),
            "spider_upload": (c_int32, [c_void_p, c_uint64, c_void_p, c_uint64, c_uint64, c_uint64]),
            "spider_download": (c_int32, [c_void_p, c_uint64, c_void_p, c_uint64, c_uint64, c_uint64]),
            "spider_synchronize": (c_int32, [c_void_p]),
        }
        for name, (result, arguments) in signatures.items():
            function = getattr(self.handle, name)
            function.restype = result
            function.argtypes = arguments
            setattr(self, name.removeprefix("spider_"), function)

    def kernel(self, name):
        """The address that `<name>_kernel()` answers."""
        function = getattr(self.handle, f"{name}_kernel")
        function.restype = c_void_p
        function.argtypes = []
        return function()

    def on_host(self, kernel):
        """Is the kernel's memory the host's?"""
        return self.info(kernel).contents.backend != CUDA

    def forms(self, kernel):
        """The kernel, which takes its forms by size, and kernels of each of its forms alone, if it has several. None beside
        the kernel where the library has no forms.cpp."""
        single = getattr(self.handle, "spider_test_form", None)
        if single is None:
            return [kernel]
        single.restype, single.argtypes = c_void_p, [c_void_p, c_int32]
        forms = []
        while form := single(kernel, len(forms)):
            forms.append(form)
        return [kernel, *forms] if len(forms) > 1 else [kernel]

    def words(self):
        """spider_last_error as text."""
        return (self.last_error() or b"").decode(errors="replace")

    def require(self, function, status):
        """Raises CallFailed where `status` is not SPIDER_OK."""
        if status != OK:
            raise CallFailed(function, status, (self.status_string(status) or b"").decode(), self.words())

    def sweep(self, kernel, source, target):
        """spider_apply on the default stream, and waits."""
        self.require("spider_apply", self.apply(kernel, byref(source), byref(target), None))
        self.require("spider_synchronize", self.synchronize(None))

    def run_sweep(self, kernel, sweep):
        """spider_run on the default stream, and waits."""
        self.require("spider_run", self.run(kernel, byref(sweep)))
        self.require("spider_synchronize", self.synchronize(None))

    def sweep_box(self, kernel, source, target, box):
        """spider_apply_box on the default stream, and waits."""
        offset, extent = (c_int64 * 3)(*box.offset), (c_int64 * 3)(*box.extent)
        status = self.apply_box(kernel, byref(source), byref(target), offset, extent, None)
        self.require("spider_apply_box", status)
        self.require("spider_synchronize", self.synchronize(None))


    def sweep_part(self, kernel, source, target, box, origin, whole):
        """spider_run of a box of a part on the default stream, and waits."""
        part = Part((c_int64 * 3)(*origin), (c_int64 * 3)(*whole))
        sweep = Sweep(size=ctypes.sizeof(Sweep), input=ctypes.pointer(source), output=ctypes.pointer(target))
        sweep.offset, sweep.extent = (c_int64 * 3)(*box.offset), (c_int64 * 3)(*box.extent)
        sweep.part = ctypes.pointer(part)
        self.require("spider_run", self.run(kernel, byref(sweep)))
        self.require("spider_synchronize", self.synchronize(None))


class Buffer:
    """Memory of the back end with `cells` cells of one unsigned type, freed on exit from its `with` block."""

    def __init__(self, library, cells, cell=numpy.uint16):
        self.library = library
        self.cells = cells
        self.cell = numpy.dtype(cell)
        self.address = 0

    def __enter__(self):
        address = c_void_p()
        size = self.cell.itemsize * self.cells
        self.library.require("spider_allocate", self.library.allocate(size, byref(address)))
        self.address = address.value
        return self

    def __exit__(self, *_):
        status = self.library.free(self.address)
        self.address = 0
        self.library.require("spider_free", status)

    def upload(self, cells, first=0):
        """Copies an array of cells to cell `first` of the buffer."""
        cells = numpy.ascontiguousarray(cells, self.cell)
        size = cells.nbytes
        to = self.address + self.cell.itemsize * first
        self.library.require("spider_upload", self.library.upload(to, size, cells.ctypes.data, size, size, 1))

    def download(self, first=0, count=None):
        """`count` cells from cell `first`."""
        cells = numpy.empty(self.cells - first if count is None else count, self.cell)
        size = cells.nbytes
        source = self.address + self.cell.itemsize * first
        self.library.require("spider_download", self.library.download(cells.ctypes.data, size, source, size, size, 1))
        return cells


def make_field(address, extent, strides):
    """A field of extents z, y, x with strides from plane to plane and from row to row."""
    return Field(address, (c_int64 * 3)(*extent), (c_int64 * 2)(*strides))
