"""Fields on the ranks of an MPI communicator, beside spider.py and in its manner. The library was linked with
SpiderGen::distributed; communicators are mpi4py's, of the same MPI.

    from mpi4py import MPI
    import spider, spider_distributed

    library = spider.load("libkernels.so")
    grid = spider_distributed.Grid(MPI.COMM_WORLD, library.kernel("heat2d"), (20000, 30000))
    a, b = grid.field(), grid.field()
    grid.read_npy("before.npy", a)
    grid.write_npy(grid.iterate(a, b, steps=1000), "after.npy")

All calls but those that only tell are collective: every rank makes them, and if one fails, all raise spider.Error.
"""

from __future__ import annotations

import ctypes
import dataclasses
import math
import os
from typing import Any, Sequence

import spider

__all__ = ["FieldGrid", "Grid", "select_device"]

_pointer = ctypes.c_void_p
_triple = ctypes.c_int64 * 3
_places = ctypes.c_int32 * 3


class _Layout(ctypes.Structure):
    """struct spider_grid_layout"""

    _fields_ = [
        ("size", ctypes.c_uint32),
        ("ranks", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("parts", _places),
        ("place", _places),
        ("periodic", _places),
        ("origin", _triple),
        ("whole", _triple),
        ("extent", _triple),
        ("low", _triple),
        ("high", _triple),
    ]


_field = ctypes.POINTER(spider._Field)
_SIGNATURES = {
    "spider_grid_create_f": [ctypes.c_int, _pointer, _triple, ctypes.POINTER(_places), ctypes.POINTER(_pointer)],
    "spider_grid_free": [_pointer],
    "spider_grid_exchange": [_pointer, _field, _pointer],
    "spider_grid_iterate": [_pointer, _field, _field, ctypes.c_int64, _pointer, ctypes.POINTER(_field)],
    "spider_grid_run": [_pointer, ctypes.POINTER(spider._Sweep), ctypes.c_int64, ctypes.POINTER(_field)],
    "spider_grid_read_reductions": [_pointer, _pointer, ctypes.POINTER(ctypes.c_double), _pointer],
    "spider_grid_run_until": [_pointer, ctypes.POINTER(spider._Sweep), ctypes.c_int64, ctypes.c_int32, ctypes.c_double,
                              ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_double)],
    "spider_grid_wait": [_pointer, _pointer, ctypes.c_double],
    "spider_grid_scatter": [_pointer, _pointer, ctypes.c_int32, _field],
    "spider_grid_gather": [_pointer, _field, ctypes.c_int32, _pointer],
    "spider_grid_read_npy": [_pointer, ctypes.c_char_p, _field],
    "spider_grid_write_npy": [_pointer, _field, ctypes.c_char_p],
    "spider_select_device_f": [ctypes.c_int],
}


def _open(library: spider.Library) -> Any:
    functions = library._c
    for name, arguments in _SIGNATURES.items():
        function = getattr(functions, name, None)
        if function is None:
            raise spider.Error(8, f"{library.path} has no {name}: link it with SpiderGen::distributed")
        function.restype, function.argtypes = ctypes.c_int32, arguments
    functions.spider_grid_info.restype, functions.spider_grid_info.argtypes = ctypes.POINTER(_Layout), [_pointer]
    functions.spider_grid_transport.restype, functions.spider_grid_transport.argtypes = ctypes.c_char_p, [_pointer]
    functions.spider_grid_of_field.restype, functions.spider_grid_of_field.argtypes = _pointer, [_pointer, ctypes.c_int32]
    return functions


def select_device(library: spider.Library, communicator: Any) -> None:
    """Makes a device current that no other rank takes; does nothing on the host."""
    library._check(_open(library).spider_select_device_f(communicator.py2f()))


class _Part:
    """A kernel, as spider.Field asks it: for a part it has the part's halo."""

    def __init__(self, info: spider.Info, halo: tuple[tuple[int, int], ...]):
        self.info, self._halo = info, halo

    def halo(self, *extents: int) -> tuple[tuple[int, int], ...]:
        return self._halo


class FieldGrid:
    """The parts of one field: of a kernel's input, or of a system's field, which Grid.of_field gives.

    `shape` and `origin` are those of this rank's part, `whole` the extents of all parts, `halo` the cells around the part, `parts`
    the ranks along each axis, `place` this one's among them. A system's field has one cell along axes on which it has none, and
    all ranks along those have all of it. `has_images` where the first of the axes is that of a batch's images.
    """

    def __init__(self, kernel: spider.Kernel, storage: str, handle: Any, has_images: bool = False):
        self.kernel, self.library, self.has_images = kernel, kernel.library, has_images
        self._handle = handle
        self._c = _open(self.library)
        self._info = dataclasses.replace(kernel.info, storage=storage)
        layout = self._c.spider_grid_info(handle).contents
        self.rank, self.ranks = layout.rank, layout.ranks
        axes = [*([0] if has_images else []), *range(3 - kernel.info.dimensions, 3)]
        self.parts, self.place, self.shape, self.origin, self.whole, self.halo = (
            tuple(values[axis] for axis in axes)
            for values in (layout.parts, layout.place, layout.extent, layout.origin, layout.whole,
                           list(zip(layout.low, layout.high))))

    def field(self) -> spider.Field:
        """A field for this rank's part, all zero."""
        return spider.Field(self.library, _Part(self._info, self.halo), self.shape)

    def exchange(self, field: Any, stream: Any = None) -> Any:
        """Fills the halo. Returns the field."""
        self.library._check(self._c.spider_grid_exchange(self._open(), self._view(field), spider._stream_handle(stream)))
        return field

    def scatter(self, whole: Any, field: Any, root: int = 0) -> Any:
        """From a NumPy array of the whole on `root`, of real numbers, which are rounded to the storage; unsigned integers of 16
        bits are those of bf16. Others pass None. Returns the field."""
        given = None
        try:
            if self.rank == root and whole is not None:
                given = self._bits(whole)
        finally:  # the others wait, whatever is wrong
            address = None if given is None else given.ctypes.data
            status = self._c.spider_grid_scatter(self._open(), address, root, self._view(field))
        self.library._check(status)
        return field

    def gather(self, field: Any, root: int = 0) -> Any:
        """The whole as a NumPy array on `root`, None elsewhere. bf16 comes as its bits."""
        import numpy

        whole = None
        if self.rank == root:
            types = {"f16": numpy.float16, "f32": numpy.float32, "bf16": numpy.uint16, "f64": numpy.float64}
            whole = numpy.empty(self.whole, types[self._info.storage])
        address = None if whole is None else whole.ctypes.data
        self.library._check(self._c.spider_grid_gather(self._open(), self._view(field), root, address))
        return whole

    def read_npy(self, path: str | os.PathLike, field: Any) -> Any:
        """Reads the whole from a .npy file, all ranks at once. Returns the field."""
        self.library._check(self._c.spider_grid_read_npy(self._open(), os.fsencode(path), self._view(field)))
        return field

    def write_npy(self, field: Any, path: str | os.PathLike) -> None:
        """Writes the whole to one."""
        self.library._check(self._c.spider_grid_write_npy(self._open(), self._view(field), os.fsencode(path)))

    def _open(self) -> ctypes.c_void_p:
        if not self._handle:
            raise ValueError("the grid is closed")
        return self._handle

    def _view(self, array: Any) -> Any:
        """An array of the grid's storage, with its halo."""
        view = spider._View.of(array, self._info, True, self.has_images)
        self._require_halo(array, view)
        return self._field_of(view)

    def _field_of(self, view: spider._View) -> spider._Field:
        """As the grid takes it: images are planes."""
        if self.has_images:
            view.field.extent[0], view.field.stride[0] = view.images, view.image_stride
        return view.field

    def _require_halo(self, array: Any, view: Any) -> None:
        if math.prod(view.cells.shape) and view.cells.shape == self.shape:
            spider._require_halo(array, view.cells, self.halo, self._info)

    def _bits(self, whole: Any) -> Any:
        """The array as the kernel stores it, without gaps; a wrong shape is for the others to know, too."""
        import numpy

        array = numpy.asanyarray(whole)
        is_stored = self._info.storage == "bf16" and array.dtype == numpy.uint16
        bits = numpy.ascontiguousarray(array if is_stored else spider._bits(array, self._info.storage))
        return bits if bits.shape == self.whole else None


class Grid(FieldGrid):
    """A whole field of these extents (planes, rows, columns), or those of a system of equations, cut into a part for each rank
    of the communicator. One extent more than a kernel of one or two dimensions has, the first, is a number of images: each rank
    has its part of each, and calls are for all.

    `periodic` is what the caller expects of the kernel's rules, axis by axis. Of a system of_field() has the parts of each field,
    and `halo` is the most that one of them keeps.
    """

    def __init__(self, communicator: Any, kernel: spider.Kernel, whole: Sequence[int], periodic: Sequence[bool] | None = None):
        self._handle = None
        self._of_fields: dict[str, FieldGrid] = {}
        functions, axes, whole = _open(kernel.library), kernel.info.dimensions, tuple(whole)
        has_images = len(whole) == axes + 1 and axes < 3 and not kernel.info.is_system
        if len(whole) != axes and not has_images:
            raise ValueError(f"{kernel.info.name} has {axes} axes, not {len(whole)}; of a batch, which kernels of one and two "
                             "dimensions that are no systems take, the number of images comes first")
        expected = None
        if periodic is not None:
            expected = ctypes.byref(_places(*([0] * (3 - axes)), *(int(bool(value)) for value in periodic)))
        handle = _pointer()
        images = whole[0] if has_images else 1
        extents = _triple(*([images, 1, 1][:3 - axes]), *whole[has_images:])
        status = functions.spider_grid_create_f(communicator.py2f(), kernel._handle, extents, expected, ctypes.byref(handle))
        kernel.library._check(status)
        super().__init__(kernel, kernel.info.storage, handle, has_images)

    def close(self) -> None:
        """Before MPI ends; mpi4py ends it when Python does."""
        handle, self._handle = self._handle, None
        for field in self._of_fields.values():
            field._handle = None
        if handle:
            self._c.spider_grid_free(handle)

    def __enter__(self) -> Grid:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    @property
    def transport(self) -> str:
        """How halos come to this rank and leave it, in words."""
        return self._c.spider_grid_transport(self._open()).decode()

    def of_field(self, name: str) -> FieldGrid:
        """The parts of one field of a system: makes, exchanges, scatters, gathers, reads and writes it. Closed with this grid."""
        if name not in self._of_fields:
            index = self.kernel._field_index(name)
            handle = _pointer(self._c.spider_grid_of_field(self._open(), index))
            self._of_fields[name] = FieldGrid(self.kernel, self.kernel.info.fields[index][1], handle)
        return self._of_fields[name]

    def iterate(self, a: Any, b: Any, steps: int, stream: Any = None) -> Any:
        """`steps` time steps of the whole from `a` to `b` and back; returns whichever holds the last one."""
        views = self._view(a), self._view(b)
        result = _field()
        status = self._c.spider_grid_iterate(self._open(), *views, spider._int64("steps", steps),
                                             spider._stream_handle(stream), ctypes.byref(result))
        self.library._check(status)
        return a if ctypes.addressof(result.contents) == ctypes.addressof(views[0]) else b

    def run(self, source: Any, target: Any, previous: Any = None, fields: Sequence[Any] = (), scalars: Sequence[float] = (),
            steps: int = 1, stream: Any = None, target_previous: Any = None) -> Any:
        """`steps` time steps of the whole by a kernel that takes more than its input, as spider.Kernel.run takes it; returns
        whichever holds the last one. What takes turns has the grid's halo, and so have further fields where a sweep has several
        steps."""
        info = self.kernel.info
        if (len(fields), len(scalars)) != (len(info.fields), len(info.scalars)):
            raise ValueError(f"{info.name} takes {len(info.fields)} further fields and {len(info.scalars)} scalars, "
                             f"not {len(fields)} and {len(scalars)}")
        arrays = [array for array in (source, target, previous, target_previous) if array is not None]
        views = [ctypes.pointer(self._view(array)) for array in arrays]
        turns = iter(views)
        sweep = spider._Sweep(size=ctypes.sizeof(spider._Sweep), source=next(turns), target=next(turns))
        if previous is not None:
            sweep.previous = next(turns)
        if target_previous is not None:
            sweep.target_previous = next(turns)
        further = [ctypes.pointer(self._further(array, storage)) for array, (_, storage) in zip(fields, info.fields)]
        if further:
            sweep.fields = (_field * len(further))(*further)
        if scalars:
            sweep.scalars = (ctypes.c_double * len(scalars))(*scalars)
        sweep.stream = spider._stream_handle(stream)
        result = _field()
        status = self._c.spider_grid_run(self._open(), sweep, spider._int64("steps", steps), ctypes.byref(result))
        self.library._check(status)
        last = ctypes.addressof(result.contents)
        return next(array for array, view in zip(arrays, views) if ctypes.addressof(view.contents) == last)

    def run_system(self, fields: Sequence[Any], outputs: Sequence[Any] | None = None, scalars: Sequence[float] = (),
                   steps: int = 1, stream: Any = None, reductions: spider.Reductions | None = None) -> None:
        """`steps` time steps of the whole by a system, as spider.Kernel.run_system takes them: `fields` and `outputs` are those
        that of_field() makes, and behind an odd number of steps fields with RESULT_IN_OUTPUT are in `outputs`. The points of the
        last step are added to `reductions`, which read_reductions() reads."""
        sweep, _views = self._system_sweep(fields, outputs, scalars, stream, reductions)
        self.library._check(self._c.spider_grid_run(self._open(), sweep, spider._int64("steps", steps), None))

    def run_system_until(self, fields: Sequence[Any], outputs: Sequence[Any] | None, scalars: Sequence[float],
                         until: tuple[str, float], steps: int, check_every: int = 10, stream: Any = None,
                         reductions: spider.Reductions | None = None) -> tuple[int, dict[str, float]]:
        """Steps as of run_system() until a number of the spec's `reduce` is at most a bound, `until=(NAME, bound)`: at most `steps`
        of them, of which every `check_every`th and the last compute the numbers of all ranks' points, and are waited for. Returns
        how many there were, the same on all ranks, and the numbers of the last one. `reductions` have been read; without them
        the call makes its own."""
        name, bound = until
        names = self.kernel.info.reductions
        if name not in names:
            raise ValueError(f"until names {name}, and the reductions of {self.kernel.info.name} are {', '.join(names) or '(none)'}")
        own = spider.Reductions(self.kernel) if reductions is None else reductions
        sweep, _views = self._system_sweep(fields, outputs, scalars, stream, own)
        done, values = ctypes.c_int64(), (ctypes.c_double * len(names))()
        self.library._check(self._c.spider_grid_run_until(self._open(), sweep, spider._int64("steps", steps), names.index(name),
                                                          bound, spider._int64("check_every", check_every), ctypes.byref(done),
                                                          values))
        return done.value, dict(zip(names, values)) if done.value else {}

    def _system_sweep(self, fields: Sequence[Any], outputs: Sequence[Any] | None, scalars: Sequence[float], stream: Any,
                      reductions: spider.Reductions | None) -> tuple[spider._Sweep, list[Any]]:
        """A sweep of this rank's fields, and what has to live as long."""
        sweep, views = self.kernel._system_sweep(fields, outputs, scalars, 2, stream, (self.origin, self.whole))
        for i, view in enumerate(views):
            if view is not None:
                name = self.kernel.info.fields[i % len(fields)][0]
                self.of_field(name)._require_halo((*fields, *(outputs or ()))[i], view)
        if reductions is not None:
            sweep.reductions = reductions._memory
        return sweep, views

    def read_reductions(self, reductions: spider.Reductions, stream: Any = None) -> dict[str, float]:
        """The numbers, by name, of the points of all ranks since the last read: the bits of one rank. Waits for the stream."""
        names = self.kernel.info.reductions
        values = (ctypes.c_double * len(names))()
        self.library._check(self._c.spider_grid_read_reductions(self._open(), reductions._memory, values,
                                                                spider._stream_handle(stream)))
        return dict(zip(names, values))

    def wait(self, stream: Any = None, seconds: float = 0) -> None:
        """Waits for the stream at most so many seconds; 0: for ever."""
        self.library._check(self._c.spider_grid_wait(self._open(), spider._stream_handle(stream), seconds))

    def field(self) -> spider.Field:
        """A field for this rank's part, all zero."""
        self._require_no_system()
        return super().field()

    def _view(self, array: Any) -> Any:
        self._require_no_system()
        return super()._view(array)

    def _require_no_system(self) -> None:
        if self.kernel.info.is_system:
            raise ValueError(f"{self.kernel.info.name} is a system of equations: take the grid of one of its fields, of_field(name)")

    def _further(self, array: Any, storage: str) -> Any:
        """A further field of that storage, with the halo that a sweep of several steps reads."""
        view = spider._View.of(array, dataclasses.replace(self.kernel.info, storage=storage), False, self.has_images)
        if self.kernel.info.steps > 1:
            self._require_halo(array, view)
        return self._field_of(view)
