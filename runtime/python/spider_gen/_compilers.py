"""Compilers that are found, and kernels as shared libraries in the cache."""

from __future__ import annotations

import concurrent.futures
import ctypes
import dataclasses
import functools
import os
import pathlib
import platform
import shutil
import subprocess
import sysconfig
from typing import Sequence

from . import _cache, _package
from ._generator import Generated

_SHARED_SOURCES = ("src/api.cpp", "src/fields.cpp", "src/points.cpp", "src/tiling.cpp")


class CompileError(RuntimeError):
    """A compiler that failed: its command and its words."""


class NoBackend(RuntimeError):
    """Nothing that the caller asked for can run here: says what to install."""


@dataclasses.dataclass(frozen=True)
class Toolchain:
    """A compiler and how it makes a library of a kernel and the runtime."""

    backend: str  #: cuda, host
    compiler: str
    compile_options: tuple[str, ...]
    link_options: tuple[str, ...]
    runtime_sources: tuple[str, ...]
    kernel_options: tuple[str, ...]  #: before a generated file
    target: str  #: what it compiles for

    def __str__(self) -> str:
        return f"{self.backend}: {self.compiler} for {self.target}"

    @property
    def key(self) -> str:
        state = os.stat(self.compiler)
        return _package.key(_package.identity(), *dataclasses.astuple(self), os.path.realpath(self.compiler),
                            state.st_size, state.st_mtime_ns)


def compile_kernel(generated: Generated, toolchain: Toolchain) -> pathlib.Path:
    """The shared library of a kernel, from the cache or compiled."""
    key = _package.key(toolchain.key, generated.source.read_bytes())

    def make(folder: pathlib.Path) -> None:
        runtime = _cache.entry("runtime-" + toolchain.key, lambda fresh: _compile_runtime(fresh, toolchain))
        _compile(toolchain, [*toolchain.kernel_options, str(generated.source), f"-I{generated.folder}"],
                 folder / "kernel.o")
        objects = [str(folder / "kernel.o"), *map(str, sorted(runtime.glob("*.o")))]
        _run([toolchain.compiler, "-shared", *objects, *toolchain.link_options, "-o", str(folder / "kernel.so")])
        (folder / "kernel.o").unlink()

    return _cache.entry("kernel-" + key, make) / "kernel.so"


def _compile_runtime(folder: pathlib.Path, toolchain: Toolchain) -> None:
    _cache.say_once(f"compiling the runtime by {toolchain.compiler} for {toolchain.target}, once: it takes up to a minute")

    def one(source: str) -> None:
        _compile(toolchain, [str(_package.RUNTIME / source)], folder / (pathlib.Path(source).stem + ".o"))

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(one, toolchain.runtime_sources))


def _compile(toolchain: Toolchain, sources: Sequence[str], to: pathlib.Path) -> None:
    _run([toolchain.compiler, *toolchain.compile_options, "-c", *sources, "-o", str(to)])


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    except OSError as error:
        raise CompileError(f"{command[0]} cannot be run: {error}") from error
    if done.returncode != 0:
        raise CompileError(f"{' '.join(command)}\nends with {done.returncode}:\n{(done.stderr or done.stdout).strip()}")


def _include_options(*folders: str) -> tuple[str, ...]:
    return tuple(f"-I{_package.RUNTIME / folder}" for folder in ("include", "device", "src", ".", *folders))


# The host


@functools.lru_cache(maxsize=None)
def host() -> Toolchain:
    """$CXX, g++ or clang++. NoBackend where there is none that works."""
    asked = os.environ.get("CXX")
    for name in [asked] if asked else ["g++", "clang++", "c++"]:
        compiler = shutil.which(name)
        if compiler:
            break
    else:
        raise NoBackend(f"{'CXX is ' + asked + ', which is not there' if asked else 'there is no C++ compiler'}: install g++ "
                        "10 or newer, or clang++ (Debian: apt-get install g++; conda: conda install gxx)")
    options = ["-std=c++20", "-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=off", "-DSPIDER_HOST"]
    links: list[str] = []
    if _accepts(compiler, "-march=native"):
        options.append("-march=native")
    if _accepts(compiler, "-fopenmp"):
        options.append("-fopenmp")
        links.append("-fopenmp")
    sources = tuple(f"host/{file.name}" for file in sorted((_package.RUNTIME / "host").glob("*.cpp")))
    return Toolchain("host", compiler, (*options, *_include_options("host")), tuple(links),
                     _SHARED_SOURCES + sources, ("-x", "c++"), _processor())


def _accepts(compiler: str, option: str) -> bool:
    command = [compiler, option, "-x", "c++", "-", "-shared", "-fPIC", "-o", os.devnull]
    return subprocess.run(command, input=b"int one;\n", capture_output=True, check=False).returncode == 0


def _processor() -> str:
    """What -march=native means here: a cache may be shared between machines."""
    flags = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            flags = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        pass
    return f"{platform.machine()} {_package.key(flags)[:8]}"


# CUDA


@dataclasses.dataclass(frozen=True)
class Device:
    """A GPU: compute capability x 10."""

    arch: int


@functools.lru_cache(maxsize=None)
def device() -> Device | None:
    """The first GPU that kernels can run on, or None."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    count = ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return None
    numbers = (ctypes.c_int(), ctypes.c_int())
    for ordinal in range(count.value):
        handle = ctypes.c_int()
        if driver.cuDeviceGet(ctypes.byref(handle), ordinal) != 0:
            continue
        for number, attribute in zip(numbers, (75, 76)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
            driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, handle)
        arch = 10 * numbers[0].value + numbers[1].value
        if arch >= 80:
            return Device(arch)
    return None


def _nvcc() -> str | None:
    """On PATH, in CUDA_HOME or CUDA_PATH, of pip's packages, or at its usual place."""
    found = shutil.which("nvcc")
    if found:
        return found
    folders = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")]
    candidates = [pathlib.Path(folder) / "bin" / "nvcc" for folder in folders if folder]
    packages = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    candidates += [*packages.glob("*/bin/nvcc"), pathlib.Path("/usr/local/cuda/bin/nvcc")]
    return next((str(file) for file in candidates if os.access(file, os.X_OK)), None)


@functools.lru_cache(maxsize=None)
def cuda() -> Toolchain:
    """NoBackend, with what to install, where there is no GPU or no nvcc."""
    gpu = device()
    if gpu is None:
        raise NoBackend("there is no NVIDIA GPU of compute capability 8.0 or newer here, or no driver for it; "
                        "backend=\"host\" runs on the processor")
    nvcc = _nvcc()
    if nvcc is None:
        raise NoBackend("there is a GPU, and no nvcc to compile for it: install the CUDA toolkit 12.5 or newer, or "
                        "pip install nvidia-cuda-nvcc nvidia-cuda-runtime, and put nvcc on PATH or set CUDA_HOME; "
                        "backend=\"host\" runs on the processor")
    packages = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    folders = [folder for folder in packages.glob("*/include") if (folder / "cuda_runtime.h").exists()]
    target = f"sm_{gpu.arch}" + ("a" if gpu.arch == 90 else "")  # kernels of --arch sm_90a want it, and others take it
    options = ("-std=c++17", "-O3", f"-arch={target}", "-Xcompiler=-fPIC,-fvisibility=hidden")
    libraries = tuple(f"-L{folder.parent / 'lib'}" for folder in folders)
    return Toolchain("cuda", nvcc, (*options, *_include_options(), *(f"-I{folder}" for folder in folders)),
                     (f"-arch={target}", *libraries), (*_SHARED_SOURCES, "src/backend_cuda.cpp"), (), target)


def choose(backend: str) -> Toolchain:
    """For arrays on the host: of `auto` the GPU where it can be used, else the processor."""
    if backend == "host":
        return host()
    if backend == "cuda":
        return cuda()
    if backend != "auto":
        raise ValueError(f'backend is "auto", "cuda" or "host", not {backend!r}')
    reasons = []
    for one in (cuda, host):
        try:
            return one()
        except NoBackend as reason:
            reasons.append(str(reason))
    raise NoBackend("; and ".join(reasons))
