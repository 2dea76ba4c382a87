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
from typing import Any, Sequence

from . import _cache, _nvrtc, _package, spider
from ._generator import Generated
from ._nvrtc import CompileError

_SHARED_SOURCES = ("src/api.cpp", "src/batch.cpp", "src/field_memory.cpp", "src/fields.cpp", "src/passes.cpp", "src/points.cpp",
                   "src/ready_sweep.cpp", "src/reductions.cpp", "src/system.cpp", "src/system_fields.cpp", "src/tiling.cpp")


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


class Nvrtc(Toolchain):
    """NVRTC: its library in place of a compiler, which makes no library."""


def load_kernel(generated: Generated, toolchain: Toolchain) -> spider.Library:
    """The library of a kernel. NVRTC has described it, and compiles its functions when they are needed."""
    if isinstance(toolchain, Nvrtc):
        key = _package.key(toolchain.key, generated.source.read_bytes())
        return _nvrtc.Library(_nvrtc.Job(generated, toolchain.compiler, toolchain.compile_options, key))
    return spider.load(compile_kernel(generated, toolchain))


def compile_all(library: spider.Library) -> None:
    """What load_kernel() left for later."""
    if isinstance(library, _nvrtc.Library):
        library.compile()


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
                        "11 or newer, or clang++ (Debian: apt-get install g++; conda: conda install gxx)")
    if not _accepts(compiler, "-std=c++20", "#include <bit>\nint one = std::bit_cast<int>(1.0F);\n"):
        raise NoBackend(f"{compiler} does not compile C++20: install g++ 11 or newer, or clang++ 13, and set CXX to it")
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


def _accepts(compiler: str, option: str, source: str = "int one;\n") -> bool:
    command = [compiler, option, "-x", "c++", "-", "-shared", "-fPIC", "-o", os.devnull]
    return subprocess.run(command, input=source.encode(), capture_output=True, check=False).returncode == 0


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


def device(ordinal: int | None = None) -> Device | None:
    """The GPU with this number in CUDA, or the current one without a number; None where kernels cannot run on it. Without
    a number it avoids cuInit where it can, because a process cannot be forked after cuInit."""
    arch = _arch(ordinal)
    return Device(arch) if arch >= _LEAST_ARCH else None


_LEAST_ARCH = 80


def _arch(ordinal: int | None) -> int:
    """Compute capability x 10, 0 where there is no GPU."""
    arch = _arch_without_cuda() if ordinal is None else None
    return _arch_by_cuda(_current_ordinal() if ordinal is None else ordinal) if arch is None else arch


@functools.lru_cache(maxsize=None)
def _driver(name: str) -> Any:
    try:
        return ctypes.CDLL(name)
    except OSError:
        return None


@functools.lru_cache(maxsize=None)
def _arch_without_cuda() -> int | None:
    """Compute capability x 10 of the GPUs that CUDA will show, 0 where it will show none; None where they differ or only CUDA
    can tell."""
    if _driver("libcuda.so.1") is None:
        return 0
    management = _driver("libnvidia-ml.so.1")
    if management is None:
        return None
    gpus = _gpus_by(management)
    visible = None if gpus is None else _visible(os.environ.get("CUDA_VISIBLE_DEVICES"), [uuid for uuid, _ in gpus])
    if visible is None:
        return None
    archs = {arch for _, arch in gpus} if visible else {0}
    return archs.pop() if len(archs) == 1 else None


def _gpus_by(management: Any) -> list[tuple[str, int]] | None:
    """UUID and compute capability x 10 of each GPU from NVML, which does not initialise CUDA."""
    if management.nvmlInit_v2() != 0:
        return None
    try:
        count = ctypes.c_uint()
        if management.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
            return None
        return [_gpu_by(management, index) for index in range(count.value)]
    except (AttributeError, OSError):
        return None
    finally:
        management.nvmlShutdown()


def _gpu_by(management: Any, index: int) -> tuple[str, int]:
    handle, major, minor = ctypes.c_void_p(), ctypes.c_int(), ctypes.c_int()
    uuid = ctypes.create_string_buffer(96)
    for status in (management.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)),
                   management.nvmlDeviceGetUUID(handle, uuid, len(uuid)),
                   management.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))):
        if status != 0:
            raise OSError(f"NVML answers with {status}")
    return uuid.value.decode(), 10 * major.value + minor.value


def _visible(variable: str | None, uuids: Sequence[str]) -> bool | None:
    """Whether CUDA_VISIBLE_DEVICES shows a GPU: CUDA reads it up to the first entry that names none. None for MIG slices: only
    CUDA can tell."""
    if variable is None:
        return bool(uuids)
    first = variable.split(",")[0].strip()
    if first.startswith("MIG-"):
        return None
    if first.startswith("GPU-"):
        return sum(uuid.startswith(first) for uuid in uuids) == 1
    return first.isdecimal() and int(first) < len(uuids)


@functools.lru_cache(maxsize=None)
def _arch_by_cuda(ordinal: int) -> int:
    """Compute capability x 10 of the GPU with this number in CUDA, 0 where there is none. Initialises CUDA."""
    driver = _driver("libcuda.so.1")
    handle, major, minor = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    if driver is None:
        return 0
    use_cuda()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(handle), ordinal) != 0:
        return 0
    for number, attribute in ((major, 75), (minor, 76)):  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, _MINOR
        driver.cuDeviceGetAttribute(ctypes.byref(number), attribute, handle)
    return 10 * major.value + minor.value


def _current_ordinal() -> int:
    """The number of the GPU that is current in this thread, 0 where none was chosen."""
    driver, handle = _driver("libcuda.so.1"), ctypes.c_int()
    if driver is None or driver.cuCtxGetDevice(ctypes.byref(handle)) != 0:  # fails where CUDA is not initialised
        return 0
    return handle.value


_cuda_in_use = False
_forked = False  # after CUDA was in use


def use_cuda() -> None:
    """Notes that this process uses CUDA. RuntimeError in a child that was forked after its parent used CUDA."""
    global _cuda_in_use
    if _forked:
        raise RuntimeError("this process was forked from one that had used CUDA, which does not work after a fork: start "
                           "processes by multiprocessing.get_context(\"spawn\"), or fork before the first call")
    _cuda_in_use = True


def _after_fork() -> None:
    global _forked
    _forked = _forked or _cuda_in_use


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


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


def cuda(ordinal: int | None = None) -> Toolchain:
    """The toolchain for the GPU with this number in CUDA, or for the current one. NoBackend says what to install where no GPU can
    run kernels, or there is no nvcc."""
    gpu = device(ordinal)
    if gpu is None:
        arch = _arch(ordinal)
        if arch > 0:
            raise NoBackend(f"the GPU has compute capability {arch / 10}, and from Python kernels run from 8.0 on; on 7.5 those of "
                            "`--engine cuda` and of systems run from C, C++ and Fortran; backend=\"host\" runs on the processor")
        raise NoBackend("there is no NVIDIA GPU of compute capability 8.0 or newer here, or no driver for it; "
                        "backend=\"host\" runs on the processor")
    return _cuda_for(gpu)


def _cuda_for(gpu: Device) -> Toolchain:
    """By nvcc where it and its host compiler are found, else by NVRTC; or by what SPIDER_GEN_CUDA_COMPILER names."""
    asked = os.environ.get("SPIDER_GEN_CUDA_COMPILER")
    if asked not in (None, "", "nvcc", "nvrtc"):
        raise NoBackend(f"SPIDER_GEN_CUDA_COMPILER is nvcc or nvrtc, not {asked}")
    by_nvcc = _by_nvcc(gpu) if asked != "nvrtc" else None
    if by_nvcc is not None:
        return by_nvcc
    if asked == "nvcc":
        raise NoBackend("there is no nvcc with a host compiler: install the CUDA toolkit 12.5 or newer and g++, and put both on PATH "
                        "or set CUDA_HOME; SPIDER_GEN_CUDA_COMPILER=nvrtc needs neither")
    return _by_nvrtc(gpu)


@functools.lru_cache(maxsize=None)
def _by_nvcc(gpu: Device) -> Toolchain | None:
    nvcc = _nvcc()
    if nvcc is None or not (os.environ.get("NVCC_CCBIN") or shutil.which("g++")):
        return None
    packages = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia"
    folders = [folder for folder in packages.glob("*/include") if (folder / "cuda_runtime.h").exists()]
    target = f"sm_{gpu.arch}"
    options = ("-std=c++17", "-O3", f"-arch={target}", "-Xcompiler=-fPIC,-fvisibility=hidden")
    libraries = tuple(f"-L{folder.parent / 'lib'}" for folder in folders)
    return Toolchain("cuda", nvcc, (*options, *_include_options(), *(f"-I{folder}" for folder in folders)),
                     (f"-arch={target}", *libraries), (*_SHARED_SOURCES, "src/backend_cuda.cpp"), (), target)


@functools.lru_cache(maxsize=None)
def _by_nvrtc(gpu: Device) -> Toolchain:
    target = f"sm_{gpu.arch}"
    if not _nvrtc.RUNTIME.exists():
        raise NoBackend(f"this package was built without its runtime, {_nvrtc.RUNTIME}, so kernels for a GPU take nvcc and g++: "
                        "install the CUDA toolkit 12.5 or newer, or the wheel of spider-gen")
    found = _nvrtc.find(_nvrtc.driver_major(_driver("libcuda.so.1")))
    if isinstance(found, str):
        raise NoBackend(f"there is a GPU, and nothing to compile for it: {found}; or install the CUDA toolkit 12.5 or newer and g++; "
                        "backend=\"host\" runs on the processor")
    return Nvrtc("cuda", found.library, _nvrtc.options(found, target), (), (), (), target)


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
