"""Fields in files: .npy, and by xarray NetCDF (.nc) and Zarr (.zarr). They are written by a thread, behind the steps."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import pathlib
import queue
import shutil
import threading
from collections.abc import Callable
from typing import Any

import numpy

from . import _picture

_STEP = "step"
#: By suffixes: names, and the packages that each of xarray's engines takes.
_FORMATS = {".nc": ("NetCDF", {"netcdf4": ("netCDF4",), "h5netcdf": ("h5netcdf", "h5py")}), ".zarr": ("Zarr", {"zarr": ("zarr",)})}
_WAITING = 2  # snapshots in memory that are not written yet
_SLACK = 1 << 16  # bytes of a .nc for its own tables, more than a snapshot adds to them


def is_labelled(path: pathlib.Path) -> bool:
    """Is it of a format that has dimensions and coordinates?"""
    return path.suffix in _FORMATS


def read(path: pathlib.Path, variable: str | None) -> tuple[numpy.ndarray, Any]:
    """The array of a file, and of a labelled one the DataArray that it is. ValueError where the file has no such array, or several
    and none is named."""
    if not is_labelled(path):
        if variable is not None:
            raise ValueError(f"{path} is no .nc or .zarr, and has no variable {variable}")
        given = numpy.load(path)
        if not isinstance(given, numpy.ndarray):
            given.close()
            raise ValueError(f"{path} holds several arrays; a field is one, in a .npy file")
        return given, None
    xarray, engine = _library(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    with xarray.open_dataset(path, engine=engine) as dataset:
        names = [str(name) for name in dataset.data_vars]
        if variable is None and len(names) != 1:
            raise ValueError(f"{path} has {len(names)} variables; name one by --variable: {', '.join(names)}")
        if variable is not None and variable not in names:
            raise ValueError(f"{path} has no variable {variable}; it has {', '.join(names)}")
        array = dataset[variable or names[0]].load()
    for one in (array, *array.coords.values()):
        one.encoding = {}  # how this format stores it is not how another does
    return array.values, array


def _library(path: pathlib.Path) -> tuple[Any, str]:
    """xarray, and what it reads and writes the format by. ValueError with what to install."""
    name, engines = _FORMATS[path.suffix]
    found = [engine for engine, packages in engines.items() if all(map(importlib.util.find_spec, ("xarray", *packages)))]
    if not found:
        wanted = [" ".join(packages) for packages in engines.values()]
        raise ValueError(f"{path}: {name} takes the packages xarray and {' or '.join(wanted)}: pip install xarray {wanted[0]}")
    import xarray

    return xarray, found[0]


def _check_place(path: pathlib.Path) -> None:
    """Says before the run where a file cannot be written, or would replace something else."""
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {path.parent}")
    if path.suffix == ".zarr" and path.exists() and not any((path / file).exists() for file in (".zgroup", "zarr.json")):
        raise ValueError(f"{path} is no Zarr store: it is not replaced")
    if path.suffix != ".zarr" and path.is_dir():
        raise ValueError(f"{path} is a folder: it is not replaced")


class Writer:
    """Writes snapshots in a thread, in order. A file has its name when it is whole. Use it by `with`."""

    def __init__(self, path: pathlib.Path, like: Any, every: bool, name: str, picture: Callable[[int], str] | None):
        """`like`: the DataArray of the input, or None. `every`: is it all snapshots that a labelled file gets, along `step`, and not
        the last one alone? `picture`: names of pictures, by the step. ValueError where the file cannot become one."""
        self.path = path
        self.saved: int | None = None  #: the last step that is written
        if path.suffix not in (".npy", *_FORMATS):
            raise ValueError(f"{path} ends in {path.suffix or 'nothing'}: results go to .npy, {', '.join(_FORMATS)}")
        _check_place(path)
        self._picture = picture
        self._file = (_Labelled if is_labelled(path) else _Npy)(path, like, every, name)
        self._waiting: queue.Queue[Any] = queue.Queue(_WAITING)
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="spider_gen writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """Waits for what is to be written, and gives the file its name, also when the steps were stopped or one could not be
        written: then it has those before."""
        self._waiting.put(None)
        self._thread.join()
        try:
            if self.saved is not None:
                self._guarded(self._file.finish, self.saved)
        finally:
            self._file.abandon()
        if self._error is not None and error is not self._error:
            raise self._error

    def put(self, values: numpy.ndarray, step: int, whole: bool = True) -> None:
        """Has a snapshot written, which nobody changes any more; with `whole` false its picture alone. OSError where an earlier
        one could not be."""
        if self._error is None:
            self._waiting.put((values, step, whole))
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        while True:
            one = self._waiting.get()
            if one is None:
                return
            if self._error is None:
                self._guarded(lambda: self._write(*one), one[1])

    def _write(self, values: numpy.ndarray, step: int, whole: bool) -> None:
        if whole:
            self._file.add(values, step)
            self.saved = step
        if self._picture is not None:
            _picture.write(self._picture(step), values)

    def _guarded(self, act: Callable[[], None], step: int) -> None:
        try:
            act()
        except Exception as error:  # libraries of files have exceptions of their own
            if self._error is None:
                before = "" if self.saved is None else f"; the last one there is that of step {self.saved}"
                self._error = OSError(f"{self.path}: step {step} could not be written: {error}{before}")
                self._error.__cause__ = error


class _Npy:
    """The last snapshot."""

    def __init__(self, path: pathlib.Path, *_: Any):
        self._path = path

    def add(self, values: numpy.ndarray, step: int) -> None:
        data = io.BytesIO()
        numpy.save(data, values)
        _picture.write_whole(self._path, data.getvalue())

    def finish(self) -> None:
        """Each one is whole already."""

    abandon = finish


class _Labelled:
    """The last snapshot, or all along `step`, in a file of another name until it is finished."""

    def __init__(self, path: pathlib.Path, like: Any, every: bool, name: str):
        self._xarray, self._engine = _library(path)
        self._path, self._like, self._every, self._name = path, like, every, name
        self._temporary = path.with_name(f"{path.name}.{os.getpid()}.new")
        self._count = 0
        if like is not None and _STEP in like.dims:
            raise ValueError(f"the input has a dimension {_STEP}, which {path} has for the steps: rename it")

    def add(self, values: numpy.ndarray, step: int) -> None:
        dataset, more = self._dataset(values, step), self._every and self._count > 0
        try:
            if self._engine == "zarr":
                self._add_to_zarr(dataset, more)
            elif more:
                self._append(dataset)
            else:
                dataset.to_netcdf(self._temporary, engine=self._engine, unlimited_dims=[_STEP] if self._every else [])
        except Exception:
            if not more:
                self.abandon()
            raise
        self._count += 1
        if not self._every:
            self.finish()

    def finish(self) -> None:
        """Gives the file its name."""
        if not self._temporary.exists():
            return
        if self._path.is_dir():  # a folder is not replaced in one move
            old = self._temporary.with_suffix(".old")
            os.replace(self._path, old)
            os.replace(self._temporary, self._path)
            shutil.rmtree(old)
        else:
            os.replace(self._temporary, self._path)

    def abandon(self) -> None:
        """Removes what is not finished."""
        if self._temporary.is_dir():
            shutil.rmtree(self._temporary, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._temporary.unlink()

    def _dataset(self, values: numpy.ndarray, step: int) -> Any:
        if values.dtype == numpy.float16 and self._engine != "zarr":
            values = values.astype(numpy.float32)  # NetCDF has no halves
        array = self._xarray.DataArray(values, dims=list("zyx"[-values.ndim:]), name=self._name)
        if self._like is not None:
            like = self._like.drop_vars(_STEP, errors="ignore")
            array = self._xarray.DataArray(values, coords=like.coords, dims=like.dims, name=like.name, attrs=like.attrs)
        return (array.expand_dims({_STEP: [step]}) if self._every else array).to_dataset()

    def _add_to_zarr(self, dataset: Any, more: bool) -> None:
        """The metadata that readers take come last, so that a store has whole snapshots alone."""
        import zarr

        along = {"append_dim": _STEP} if more else {"mode": "w"}
        if int(zarr.__version__.partition(".")[0]) > 2:
            along["zarr_format"] = 2  # which all versions read; of 3 they warn that it is not settled
        dataset.to_zarr(self._temporary, **along)

    def _append(self, dataset: Any) -> None:
        """xarray does not write along a dimension of NetCDF. Room is taken before: on a full disk HDF5 leaves a file that nobody
        can read."""
        library = importlib.import_module({"netcdf4": "netCDF4", "h5netcdf": "h5netcdf.legacyapi"}[self._engine])
        with open(self._temporary, "r+b") as plain:
            os.posix_fallocate(plain.fileno(), 0, self._temporary.stat().st_size + 2 * dataset.nbytes + _SLACK)
        with library.Dataset(self._temporary, "a") as file:
            name = next(iter(dataset.data_vars))
            file.variables[name][self._count] = dataset[name].values[0]
            file.variables[_STEP][self._count] = dataset[_STEP].values[0]
