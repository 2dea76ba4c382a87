"""Kernels by NVRTC and the driver, where neither nvcc nor a host compiler is: a cubin for each function of a generated file, and
what the runtime must know of it as data. The runtime is compiled in the package and calls the driver (runtime/driver)."""

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
from typing import Any, Iterator, Sequence

from . import _cache, _package, _ptx, spider
from ._generator import Generated

RUNTIME = _package.FOLDER / "lib" / "libspider_driver.so"
PACKAGES = "pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl"
_DESCRIPTION, _MEMORY = "kernel.json", "kernel.bin"
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


def compile_into(folder: pathlib.Path, generated: Generated, library: str, given: Sequence[str]) -> None:
    """Writes the description of the kernel and a cubin for each of its functions, which are compiled side by side."""
    numbers = describe_into(folder, generated, library, given).numbers.values()

    def one(number: int) -> None:
        _run(library, generated, [*given, f"-DSPIDER_ONLY_ENTRY={number}U"], "CUBIN", folder / f"{number:08x}.cubin")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(one, numbers))


def describe_into(folder: pathlib.Path, generated: Generated, library: str, given: Sequence[str]) -> _ptx.Description:
    """Writes the description of the kernel. Without the code of any function that takes as long as reading the headers."""
    ptx = folder / "kernel.ptx"
    _run(library, generated, [*given, "-DSPIDER_ONLY_ENTRY=0"], "PTX", ptx)
    kernel = _ptx.describe(ptx.read_bytes().rstrip(b"\0").decode(), generated.name)
    ptx.unlink()
    (folder / _MEMORY).write_bytes(kernel.memory)
    (folder / _DESCRIPTION).write_text(json.dumps({
        "kernel": kernel.kernel, "addresses": kernel.addresses, "functions": kernel.functions,
        "cubins": {entry: f"{number:08x}.cubin" for entry, number in kernel.numbers.items()}}), encoding="utf-8")
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

    _fields_ = [("cubin", ctypes.c_char_p), ("name", ctypes.c_char_p)]


class Library(spider.Library):
    """The package's runtime with one kernel, from the folder that compile_into() filled."""

    _loaded: dict[str, tuple[Any, ...]] = {}  # the runtime goes on to know kernels by their addresses

    def __init__(self, folder: pathlib.Path):
        super().__init__(RUNTIME)
        self.path = str(folder / _DESCRIPTION)

    def kernel(self, name: str) -> spider.Kernel:
        found = self._loaded.get(self.path)
        if found is None:
            found = self._loaded.setdefault(self.path, _place(pathlib.Path(self.path).parent))
        return spider.Kernel(self, found[0])


def _place(folder: pathlib.Path) -> tuple[Any, ...]:
    """The address of the kernel, and what has to stay in memory."""
    told = json.loads((folder / _DESCRIPTION).read_text(encoding="utf-8"))
    data = (folder / _MEMORY).read_bytes()
    memory = (ctypes.c_uint64 * (len(data) // 8 + 1))()
    begin = ctypes.addressof(memory)
    ctypes.memmove(begin, data, len(data))
    codes = {name: _Code((folder / file).read_bytes(), name.encode()) for name, file in told["cubins"].items()}

    def point(place: int, address: int) -> None:
        ctypes.c_uint64.from_address(begin + place).value = address

    for place, to in told["addresses"]:
        point(place, begin + to)
    for place, name in told["functions"]:
        point(place, ctypes.addressof(codes[name]))
    return begin + told["kernel"], memory, codes
