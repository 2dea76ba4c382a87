"""Kernels by NVRTC, on a machine without a GPU: test_nvrtc.py ROOT [unittest options]. What NVRTC says of a kernel is what a
compiler makes of it, its machine code is nvcc's, and the runtime gives a driver, here a made-up one, what CUDA's would get."""

import concurrent.futures
import ctypes
import json
import os
import pathlib
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import unittest.mock
import uuid

import spider_gen
from spider_gen import _compilers, _generator, _nvrtc, spider

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
FOUND = _nvrtc.find(None)
NVCC = shutil.which("nvcc")
PASSES = {"stencil": "blur", "dimensions": 3, "storage": "f32", "shape": "gaussian", "sigma": 4, "boundary": "reflect"}


def job_of(generated, target):
    return _nvrtc.Job(generated, FOUND.library, _nvrtc.options(FOUND, target), uuid.uuid4().hex)


def one_of_each_scheme():
    """The smallest generated file of each."""
    files = {}
    for file in sorted((ROOT / "generated").glob("*.cu"), key=lambda file: file.stat().st_size):
        files.setdefault(tuple(re.findall(r"<spider/(kernels/\w+)", file.read_text(encoding="utf-8"))), file)
    return [_generator.Generated(file.stem, file.parent) for file in files.values()]


class Descriptions(unittest.TestCase):
    """Against the same file compiled for the emulator, word by word."""

    opener = ctypes.CDLL(None)
    opener.dlopen.restype = ctypes.c_void_p

    def compare(self, generated, folder):
        folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
        kernel = _nvrtc.describe_into(folder, generated, FOUND.library, _nvrtc.options(FOUND, "compute_90"))
        includes = [f"-I{ROOT / 'runtime' / one}" for one in ("emulator", "include", "device")]
        subprocess.run(["g++", "-std=c++20", "-O0", "-w", "-fPIC", "-shared", *includes, "-x", "c++", generated.source, "-o",
                        folder / "emulated.so"], check=True)
        # Lazily, since no emulator is there, nor needed.
        handle = self.opener.dlopen(str(folder / "emulated.so").encode(), os.RTLD_LAZY)
        function = getattr(ctypes.CDLL(None, handle=handle), f"{generated.name}_kernel")
        function.restype = ctypes.c_void_p
        differ, pointers = [], dict(kernel.addresses)
        of_functions, waiting, seen = dict(kernel.functions), [(kernel.kernel, function())], set()
        while waiting:
            place, address = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            compiled = ctypes.string_at(address, kernel.sizes[place])
            for at in range(0, kernel.sizes[place], 4):
                own = place + at
                if own in pointers:
                    waiting.append((pointers[own], struct.unpack_from("<Q", compiled, at)[0]))
                if not {own, own - 4} & (pointers.keys() | of_functions.keys()) and compiled[at:at + 4] != kernel.memory[own:own + 4][:len(compiled) - at]:
                    differ.append((place == kernel.kernel, at))
        return differ

    def test_are_what_compilers_make(self):
        seed = random.randrange(1 << 32)
        print("seed", seed)
        every = one_of_each_scheme()
        systems = [one for one in every if "kernels/system" in one.source.read_text(encoding="utf-8")]
        given = [spider_gen.stencil(PASSES)._generated, *systems, *random.Random(seed).sample(every, 3)]
        info = spider._KernelInfo
        allowed = {16 + info.emulated.offset, 16 + info.backend.offset}
        with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
            for generated, differ in zip(given, pool.map(lambda one: self.compare(one, folder), given)):
                self.assertEqual({at for _, at in differ}, allowed, generated.name)


def code_of(cubin):
    """The machine code of each function of an ELF file, without the places at which it finds addresses of variables."""
    begin, = struct.unpack_from("<Q", cubin, 40)
    size, count, names = struct.unpack_from("<HHH", cubin, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, begin + i * size) for i in range(count)]
    code = {}
    for name, _, _, _, offset, length, *_ in sections:
        named = cubin[sections[names][4] + name:].split(b"\0", 1)[0].decode()
        if named.startswith(".text."):
            code[named[len(".text."):]] = [masked(*struct.unpack_from("<QQ", cubin, offset + at)) for at in range(0, length, 16)]
    return code


def masked(low, high):
    """Of an instruction that reads constant bank 4, where such addresses are, without the offset there."""
    return (low & ~(0xffff << 38) if low >> 54 & 31 == 4 else low), high


class Headers(unittest.TestCase):
    def test_kernels_begin_with_their_entry(self):
        for file in (ROOT / "runtime" / "device" / "spider" / "kernels").glob("*.h"):
            text = file.read_text(encoding="utf-8")
            functions = text.count("SPIDER_GLOBAL(")
            self.assertEqual(len(re.findall(r"SPIDER_GLOBAL\([^{]*\{\n  SPIDER_ENTRY;", text)), functions, file)


class MachineCode(unittest.TestCase):
    @unittest.skipIf(NVCC is None, "skipped: no nvcc")
    def test_is_that_of_nvcc(self):
        version = ctypes.c_int(), ctypes.c_int()
        ctypes.CDLL(FOUND.library).nvrtcVersion(*map(ctypes.byref, version))
        number = ".".join(str(one.value) for one in version)
        if f"release {number}," not in subprocess.run([NVCC, "--version"], capture_output=True, text=True, check=True).stdout:
            self.skipTest(f"NVRTC is of CUDA {number}, and nvcc is not")
        for name in ("heat1d", "heat2d_f32"):
            generated = _generator.Generated(name, ROOT / "generated")
            with tempfile.TemporaryDirectory() as made:
                folder = pathlib.Path(made)
                includes = [f"-I{ROOT / 'runtime' / one}" for one in ("include", "device")]
                subprocess.run([NVCC, "-std=c++17", "-arch=sm_90", "-cubin", *includes, generated.source, "-o", folder / "nvcc"], check=True)
                job = job_of(generated, "sm_90")
                by_nvcc = code_of((folder / "nvcc").read_bytes())
                numbers = json.loads((job.describe() / "kernel.json").read_text(encoding="utf-8"))["numbers"]
                self.assertEqual(set(by_nvcc), set(numbers), name)
                for function, number in numbers.items():
                    self.assertEqual(code_of(job.compile(number))[function], by_nvcc[function], function)


class Declarations(unittest.TestCase):
    def test_are_those_of_cuda(self):
        """Numbers and layouts of runtime/driver/cuda_runtime_api.h and driver.h."""
        toolkit = next((one for one in FOUND.includes if (pathlib.Path(one) / "cuda_runtime_api.h").exists()
                        and (pathlib.Path(one) / "cuda.h").exists()), None)
        if toolkit is None:
            self.skipTest("no cuda_runtime_api.h and cuda.h")
        own = (ROOT / "runtime" / "driver" / "cuda_runtime_api.h").read_text(encoding="utf-8")
        checks = [f"static_assert({name} == {number});" for name, number in re.findall(r"\b(cuda\w+) = (-?\d+)", own)]
        self.assertGreater(len(checks), 40)
        layouts = {"cudaLaunchAttribute": ("id", "val"), "cudaMemPoolProps": ("handleTypes", "location", "maxSize")}
        own_layouts = {"CUlaunchConfig": "LaunchConfig", "CUDA_MEMCPY2D": "Copy2d"}
        text = "#include <cstdio>\n#include <cstddef>\n%s\nint main() {\n"
        prints = [f'std::printf("%zu ", sizeof({one}));' for one in layouts]
        prints += [f'std::printf("%zu ", offsetof({one}, {member}));' for one, members in layouts.items() for member in members]
        said = []
        with tempfile.TemporaryDirectory() as folder:
            for includes, header, more in (
                    ([toolkit], "#include <cuda_runtime_api.h>\n#include <cuda.h>\n" + "\n".join(checks), own_layouts),
                    ([str(ROOT / "runtime" / "driver")], '#include "driver.h"\nusing namespace spider::driver;', own_layouts.values())):
                program = text % header + "\n".join([*prints, *(f'std::printf("%zu ", sizeof({one}));' for one in more)]) + "}\n"
                subprocess.run(["g++", "-std=c++20", "-w", *(f"-I{one}" for one in includes), "-x", "c++", "-", "-o", f"{folder}/sizes"],
                               input=program, text=True, check=True)
                said.append(subprocess.run([f"{folder}/sizes"], capture_output=True, text=True, check=True).stdout)
        self.assertEqual(*said)


class Refusals(unittest.TestCase):
    def find(self, *packages, driver=13):
        """With these files of pip's packages alone."""
        with tempfile.TemporaryDirectory() as folder:
            for file in packages:
                (pathlib.Path(folder) / file).parent.mkdir(parents=True, exist_ok=True)
                (pathlib.Path(folder) / file).touch()
            with unittest.mock.patch.object(_nvrtc, "_folders", lambda: sorted(pathlib.Path(folder).iterdir())):
                return _nvrtc.find.__wrapped__(driver)

    def test_say_what_mends_them(self):
        self.assertEqual(self.find(), "there is no NVRTC: pip install nvidia-cuda-nvrtc nvidia-cuda-runtime nvidia-cuda-cccl")
        self.assertRegex(self.find("cu13/lib/libnvrtc.so.13"), "header cuda_fp16.h is not: pip install .* nvidia-cuda-runtime")
        self.assertRegex(self.find("cu13/lib/libnvrtc.so.13", "cu13/include/cuda_fp16.h"), "header nv/target is not: pip .*-cccl")
        self.assertRegex(self.find("cuda_nvrtc/lib/libnvrtc.so.12", "cuda_nvrtc/lib/libnvrtc-builtins.so.12.4"), "older than CUDA 12.5")
        self.assertRegex(self.find("cu13/lib/libnvrtc.so.13", driver=12), "driver is for CUDA 12.* pip install nvidia-cuda-nvrtc-cu12")
        self.assertEqual(self.find("cuda_nvrtc/lib/libnvrtc.so.12", "cu13/lib/libnvrtc.so.13", "cu13/include/cuda_fp16.h",
                                   "cuda_runtime/include/cuda_fp16.h", "cu13/include/cccl/nv/target", driver=12).major, 12)

    def test_of_programs_have_nvrtcs_words(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "wrong.cu").write_text("int wrong = ;\n", encoding="utf-8")
            with self.assertRaisesRegex(_compilers.CompileError, r"wrong\.cu\(1\): error: expected an expression"):
                job_of(_generator.Generated("wrong", pathlib.Path(folder)), "sm_90").describe()


# Memory is the host's, and launches are written down: the function, blocks, threads, shared memory and attributes.
DRIVER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef unsigned long long address;
int loads;  // that were not taken back
static void* current;
int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int* version) { *version = 13000; return 0; }
int cuGetErrorString(int error, const char** words) { *words = error == 1 ? "made-up words" : "others"; return 0; }
int cuCtxGetCurrent(void** context) { *context = current; return 0; }
int cuCtxSetCurrent(void* context) { current = context; return 0; }
int cuCtxGetDevice(int* device) { *device = 0; return current ? 0 : 201; }
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return 0; }
int cuDeviceGetAttribute(int* value, int what, int device) {
  *value = what == 75 ? 9 : what == 76 ? 0 : what == 16 ? 132 : what == 97 ? 232448 : 0;
  return 0;
}
int cuDevicePrimaryCtxRetain(void** context, int device) { *context = &current; return 0; }
int cuLibraryLoadData(void** library, const void* code, void* a, void* b, unsigned c, void* d, void* e, unsigned f) {
  if (memcmp(code, "\177ELF", 4)) return 200;
  *library = (void*)code;
  __atomic_add_fetch(&loads, 1, __ATOMIC_SEQ_CST);
  usleep(20000);
  return 0;
}
int cuLibraryUnload(void* library) { __atomic_sub_fetch(&loads, 1, __ATOMIC_SEQ_CST); return 0; }
int cuLibraryGetKernel(void** kernel, void* library, const char* name) {
  *kernel = strdup(name);
  return getenv("NO_KERNEL") ? 500 : 0;
}
int cuKernelGetFunction(void** function, void* kernel) { *function = kernel; return 0; }
int cuFuncGetAttribute(int* value, int what, void* function) { *value = 90; return 0; }
int cuFuncSetAttribute(void* function, int what, int value) { return getenv("BREAK") ? 1 : 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, void* function, int threads, size_t bytes) { *blocks = 2; return 0; }
struct config { unsigned grid[3], block[3], shared; void* stream; int* attributes; unsigned count; };
int cuLaunchKernelEx(const struct config* c, void* function, void** arguments, void** extra) {
  FILE* said = fopen(getenv("SAID"), "a");
  fprintf(said, "%s %u %u %u %u %d\n", (char*)function, c->grid[0], c->grid[1], c->block[0], c->shared, c->count ? *c->attributes : 0);
  fclose(said);
  return *arguments ? 0 : 1;
}
int cuPointerGetAttributes(unsigned n, const int* what, void** values, address pointer) {
  *(unsigned*)values[0] = 2;
  *(address*)values[1] = pointer;
  return 0;
}
int cuMemAlloc_v2(address* memory, size_t bytes) { *memory = (address)aligned_alloc(256, (bytes + 255) / 256 * 256); return 0; }
int cuMemFree_v2(address memory) { free((void*)memory); return 0; }
int cuMemsetD8_v2(address memory, unsigned char value, size_t bytes) { memset((void*)memory, value, bytes); return 0; }
int cuMemcpyHtoD_v2(address to, const void* from, size_t bytes) { memcpy((void*)to, from, bytes); return 0; }
int cuMemcpyDtoH_v2(void* to, address from, size_t bytes) { memcpy(to, (void*)from, bytes); return 0; }
struct copy { size_t x, y; int t; char* h; address d; void* a; size_t pitch, X, Y; int T; char* H; address D; void* A; size_t Pitch, w, n; };
int cuMemcpy2DUnaligned_v2(const struct copy* c) {
  for (size_t i = 0; i < c->n; ++i)
    memcpy((c->T == 1 ? c->H : (char*)c->D) + i * c->Pitch, (c->t == 1 ? c->h : (char*)c->d) + i * c->pitch, c->w);
  return 0;
}
int cuMemPoolCreate(void** pool, const void* wanted) { *pool = &current; return 0; }
int cuMemPoolSetAttribute(void* pool, int what, void* value) { return 0; }
int cuMemAllocFromPoolAsync(address* memory, size_t bytes, void* pool, void* stream) { return cuMemAlloc_v2(memory, bytes); }
int cuMemFreeAsync(address memory, void* stream) { return cuMemFree_v2(memory); }
int cuStreamSynchronize(void* stream) { return 0; }
int cuStreamIsCapturing(void* stream, int* status) { *status = 0; return 0; }
"""

PROGRAM = """
import ctypes, os
import numpy as np
ctypes.CDLL(os.environ["DRIVER"])  # who looks for libcuda.so.1 now finds it
import spider_gen
from spider_gen import _compilers
spec = {"stencil": "line", "dimensions": 1, "storage": "f32", "shape": "star", "boundary": "nearest",
        "coefficients": {"center": 0.5, "x": [0.25, 0.25]}}
system = {"stencil": "pair", "dimensions": 1, "storage": "f32", "fields": ["u"], "boundary": "nearest",
          "stages": [{"u": "u + u[1] - u[-1]"}], "reduce": {"most": {"max": "u"}}}
one, two = (spider_gen.stencil(given, backend="cuda") for given in (spec, system))
u = np.zeros(5000, np.float32)
one(u)
one.iterate(u, 3)
two.iterate({"u": u}, 2)
print(one._kernel(_compilers.cuda())[1].info.steps, two.info.reductions, type(_compilers.cuda()).__name__)
"""


FORMS = """
import ctypes, os, pathlib, sys, threading
import numpy as np
driver = ctypes.CDLL(os.environ["DRIVER"])
from spider_gen import _nvrtc
import spider_gen

class OnDevice:
    def __init__(self, array):
        self.array, self.__cuda_array_interface__ = array, array.__array_interface__

def tell(what):
    functions = len(list(pathlib.Path(os.environ["SPIDER_GEN_CACHE"]).glob("function-*[0-9a-f]")))
    print(what, functions, ctypes.c_int.in_dll(driver, "loads").value, threading.active_count())

one = spider_gen.stencil(sys.argv[1], backend="cuda")
u = np.zeros((300, 512), np.float16)
if "broken" in sys.argv:
    run = _nvrtc._run
    def broken(library, generated, given, *others):
        if "-DSPIDER_ONLY_ENTRY=0" not in given:
            raise _nvrtc.CompileError("a made-up error")
        run(library, generated, given, *others)
    _nvrtc._run = broken
    try:
        one(u)
    except _nvrtc.CompileError as error:
        print(error)
    _nvrtc._run = run
threads = [threading.Thread(target=one, args=(u,)) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
tell("aligned rows")
odd = np.zeros(301 * 513, np.float16)[1:1 + 300 * 512].reshape(300, 512)
one(OnDevice(odd), out=OnDevice(np.zeros_like(odd)))
tell("others")
one.compile()
tell("all")
"""


@unittest.skipIf(not shutil.which("gcc"), "skipped: no gcc")
class Launches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        made = tempfile.TemporaryDirectory()
        cls.addClassCleanup(made.cleanup)
        cls.folder = pathlib.Path(made.name)
        (cls.folder / "driver.c").write_text(DRIVER, encoding="utf-8")
        subprocess.run(["gcc", "-w", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", cls.folder / "driver.so", cls.folder / "driver.c"], check=True)

    def setUp(self):
        self.said = self.folder / self.id()

    def run_program(self, program, *arguments, **more):
        environment = {**os.environ, "DRIVER": str(self.folder / "driver.so"), "SAID": str(self.said), "SPIDER_GEN_CUDA_COMPILER": "nvrtc"}
        return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False, env={**environment, **more})

    def test_reach_the_driver(self):
        done = self.run_program(PROGRAM)
        self.assertEqual((done.returncode, done.stdout), (0, "1 ('most',) Nvrtc\n"), done.stderr)
        launches = [line.split() for line in self.said.read_text(encoding="utf-8").splitlines()]
        self.assertEqual(len(launches), 1 + 3 + 2, launches)
        self.assertTrue(all("sweep_" in name and int(blocks) > 0 and int(threads) % 32 == 0
                            for name, blocks, _, threads, *_ in launches), launches)
        self.assertRegex(self.run_program(PROGRAM, BREAK="1").stderr, "reserving shared memory failed: made-up words")

    def test_compile_what_they_need(self):
        """Functions in the cache, libraries of the driver, and threads: heat2d has three forms for aligned rows, two for others, and
        one function for points."""
        spec = str(ROOT / "stencils" / "heat2d.yaml")
        with tempfile.TemporaryDirectory() as cache:
            first, second = (self.run_program(FORMS, spec, *mode, SPIDER_GEN_CACHE=cache) for mode in (["broken"], []))
            self.assertEqual(first.stdout, "a made-up error\naligned rows 3 3 1\nothers 5 5 1\nall 6 5 1\n", first.stderr)
            self.assertEqual(second.stdout, "aligned rows 6 5 1\nothers 6 5 1\nall 6 5 1\n", second.stderr)
            failed = self.run_program(FORMS, spec, SPIDER_GEN_CACHE=cache, NO_KERNEL="1")
            self.assertRegex(failed.stdout, "aligned rows 6 0 1")


if __name__ == "__main__":
    if isinstance(FOUND, str):
        print(f"skipped: {FOUND}")
        sys.exit(0)
    unittest.main()
