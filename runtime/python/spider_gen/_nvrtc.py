"""Kernels by NVRTC and the driver, where neither nvcc nor a host compiler is: a cubin for each function of a generated file, when
the runtime first needs it, and what the runtime must know of the kernel as data. The runtime is compiled in the package and calls
the driver (runtime/driver)."""

from __future__ import annotations

import concurrent.futures
import ctypes
import dataclasses
import functools
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import threading
from typing import Any, Iterator, Sequence

from . import _cache, _package, _ptx, spider
from ._generator import Generated

RUNTIME = _package.FOLDER / "lib" / "libspider_driver.so"
PACKAGES = "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl"
_DESCRIPTION, _MEMORY, _CUBIN = "kernel.json", "kernel.bin", "function.cubin"
_OLDEST = (12, 5)  #: CUDA version that kernels take
_HEADERS = ("cuda_fp16.h", "nv/target")  #: that device headers include


class CompileError(RuntimeError):
    """A compiler that failed: its command and its words."""


@dataclasses.dataclass(frozen=True)
class Found:
    """NVRTC's library and the folders of CUDA's headers."""

    library: str
    major: int
    includes: tuple[str, ...]


@functools.lru_cache(maxsize=None)
def find(driver: int | None) -> Found | str:
    """The newest NVRTC whose code a driver for this CUDA version (major) runs, of pip's packages and toolkits; else what is missing."""
    libraries = []
    for folder in _folders():
        for file in [*folder.glob("lib/libnvrtc.so*"), *folder.glob("lib64/libnvrtc.so*")]:
            version = re.search(r"libnvrtc\.so\.(\d+)", os.path.basename(os.path.realpath(file)))
            if version:
                libraries.append((int(version.group(1)), str(file), folder))
    young = [one for one in libraries if (_version(one[1]) or _OLDEST) >= _OLDEST]
    if libraries and not young:
        return (f"NVRTC is there, {libraries[0][1]}, but older than CUDA {'.'.join(map(str, _OLDEST))}, whose instructions kernels take: "
                "renew it")
    libraries = young
    fitting = [one for one in libraries if driver is None or one[0] <= driver]
    if not fitting:
        if libraries:
            return (f"NVRTC is there for CUDA {min(one[0] for one in libraries)}, and the driver is for CUDA {driver}: renew the driver, or "
                    f"pip install nvidia-cuda-nvrtc-cu{driver} nvidia-cuda-runtime-cu{driver} nvidia-cuda-cccl-cu{driver}")
        return f"there is no NVRTC: {PACKAGES}"
    major, library, home = max(fitting, key=lambda one: one[0])
    includes = []
    for header in _HEADERS:
        folder = next((one for one in _include_folders(home) if (one / header).is_file()), None)
        if folder is None:
            return f"NVRTC is there, {library}, and CUDA's header {header} is not: {PACKAGES}"
        includes.append(str(folder))
    return Found(library, major, tuple(dict.fromkeys(includes)))


def _version(library: str) -> tuple[int, int] | None:
    """Of NVRTC, by the name of its second library, which lies next to it."""
    for file in pathlib.Path(library).resolve().parent.glob("libnvrtc-builtins.so.*"):
        found = re.search(r"\.so\.(\d+)\.(\d+)", file.name)
        if found:
            return int(found.group(1)), int(found.group(2))
    return None


def _folders() -> Iterator[pathlib.Path]:
    """Of pip's packages and of toolkits."""
    packages = importlib.util.find_spec("nvidia")
    for parent in (packages.submodule_search_locations or []) if packages else []:
        yield from sorted(pathlib.Path(parent).iterdir())
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"), "/usr/local/cuda"):
        if home:
            yield pathlib.Path(home)


def _include_folders(home: pathlib.Path) -> Iterator[pathlib.Path]:
    """Those of NVRTC's own folder first: packages of CUDA 12 have a folder each."""
    for folder in (home, *_folders()):
        yield folder / "include"
        yield folder / "include" / "cccl"


def driver_major(driver: Any) -> int | None:
    """The CUDA version that a driver, as ctypes has it, is for."""
    version = ctypes.c_int()
    return version.value // 1000 if driver is not None and driver.cuDriverGetVersion(ctypes.byref(version)) == 0 else None


def options(found: Found, target: str) -> tuple[str, ...]:
    folders = (_package.RUNTIME / "nvrtc", _package.RUNTIME / "include", _package.RUNTIME / "device", *found.includes)
    return (f"--gpu-architecture={target}", "-std=c++17", "--device-as-default-execution-space", "--disable-warnings",
            *(f"-I{folder}" for folder in folders))


@dataclasses.dataclass(frozen=True)
class Job:
    """What a kernel is compiled from."""

    generated: Generated
    library: str  #: NVRTC's
    options: tuple[str, ...]
    key: str

    def describe(self) -> pathlib.Path:
        """The folder of the cache with the description of the kernel."""
        return _cache.entry("kernel-" + self.key, lambda folder: describe_into(folder, self.generated, self.library, self.options))

    def entry(self, number: int) -> str:
        """The name in the cache of the function with this number."""
        return f"function-{self.key}-{number:08x}"

    def compile(self, number: int) -> bytes:
        """The cubin of a function, from the cache or compiled."""
        def make(folder: pathlib.Path) -> None:
            _run(self.library, self.generated, [*self.options, f"-DSPIDER_ONLY_ENTRY={number}U"], "CUBIN", folder / _CUBIN)

        return (_cache.entry(self.entry(number), make) / _CUBIN).read_bytes()

    def compiled(self, number: int) -> bytes | None:
        """The same where the cache has it."""
        folder = _cache.found(self.entry(number))
        return None if folder is None else (folder / _CUBIN).read_bytes()


def describe_into(folder: pathlib.Path, generated: Generated, library: str, given: Sequence[str]) -> _ptx.Description:
    """Writes the description of the kernel. Without the code of any function that takes as long as reading the headers."""
    ptx = folder / "kernel.ptx"
    _run(library, generated, [*given, "-DSPIDER_ONLY_ENTRY=0"], "PTX", ptx)
    kernel = _ptx.describe(ptx.read_bytes().rstrip(b"\0").decode(), generated.name)
    ptx.unlink()
    (folder / _MEMORY).write_bytes(kernel.memory)
    (folder / _DESCRIPTION).write_text(json.dumps({
        "kernel": kernel.kernel, "addresses": kernel.addresses, "functions": kernel.functions,
        "numbers": kernel.numbers}), encoding="utf-8")
    return kernel


def _run(library: str, generated: Generated, given: Sequence[str], kind: str, to: pathlib.Path) -> None:
    source, given = str(generated.source), [*given, f"-I{generated.folder}"]
    asked = {"library": library, "source": source, "options": given, "kind": kind, "to": str(to)}
    process = _package.FOLDER / "_nvrtc_process.py"
    done = subprocess.run([sys.executable, "-I", "-S", str(process)], input=json.dumps(asked), capture_output=True, text=True,
                          errors="replace", check=False)
    if done.returncode != 0:
        raise CompileError(f"{library} for {source} with {' '.join(given)}\nends with {done.returncode}:\n{done.stderr.strip()}")


class _Code(ctypes.Structure):
    """spider::driver::KernelCode"""


_Compile = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.POINTER(_Code)), ctypes.c_uint64)
_Code._fields_ = [("cubin", ctypes.c_char_p), ("name", ctypes.c_char_p), ("compile", _Compile)]


class _Function:
    """One of a kernel's. It is compiled when the runtime first needs it."""

    def __init__(self, job: Job, name: str, number: int):
        self._job, self._number = job, number
        self._cubins: list[bytes] = []  # stay: another thread may be loading one while this one puts its own
        self.code = _Code(job.compiled(number), name.encode(), _compile_codes)

    @property
    def address(self) -> int:
        return ctypes.addressof(self.code)

    def compile(self) -> None:
        if not self.code.cubin:
            self._cubins.append(self._job.compile(self._number))
            self.code.cubin = self._cubins[-1]


_functions: dict[int, _Function] = {}  #: by their addresses
_failure = threading.local()  #: what the runtime has no words for


@_Compile
def _compile_codes(codes: Any, count: int) -> int:
    """Of the runtime, in the thread that calls it."""
    try:
        _compile_all([_functions[ctypes.addressof(codes[i].contents)] for i in range(count)])
    except BaseException as error:  # also an interrupt: none can pass through the runtime
        _failure.error = error
        return 1
    return 0


def _compile_all(functions: Sequence[_Function]) -> None:
    """Side by side."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(_Function.compile, functions))


@dataclasses.dataclass(frozen=True)
class _Placed:
    """A kernel in memory, which has to stay: the runtime goes on to know kernels and functions by their addresses."""

    address: int
    memory: Any
    functions: tuple[_Function, ...]


_placed: dict[str, _Placed] = {}  #: by keys of jobs
_placing = threading.Lock()


class Library(spider.Library):
    """The package's runtime with one kernel, whose functions NVRTC compiles when they are first needed."""

    def __init__(self, job: Job):
        super().__init__(RUNTIME)
        self._job = job
        self.path = str(job.describe() / _DESCRIPTION)

    def _place(self) -> _Placed:
        with _placing:
            found = _placed.get(self._job.key)
            if found is None:
                found = _placed[self._job.key] = _place(pathlib.Path(self.path).parent, self._job)
        return found

    def kernel(self, name: str) -> spider.Kernel:
        return spider.Kernel(self, self._place().address)

    def compile(self) -> None:
        """All functions that are not compiled yet."""
        _compile_all(self._place().functions)

    def _check(self, status: int) -> None:
        error = _failure.__dict__.pop("error", None) if status != 0 else None
        if error is not None:
            raise error
        super()._check(status)


def _place(folder: pathlib.Path, job: Job) -> _Placed:
    told = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
    data = (folder / _MEMORY).read_bytes()
    memory = (ctypes.c_uint64 * (len(data) // 8 + 1))()
    begin = ctypes.addressof(memory)
    ctypes.memmove(begin, data, len(data))
    functions = {name: _Function(job, name, number) for name, number in told["numbers"].items()}
    _functions.update((one.address, one) for one in functions.values())

    def point(place: int, address: int) -> None:
        ctypes.c_uint64.from_address(begin + place).value = address

    for place, to in told["addresses"]:
        point(place, begin + to)
    for place, name in told["functions"]:
        point(place, functions[name].address)
    return _Placed(begin + told["kernel"], memory, tuple(functions.values()))
