"""The Python package in several processes, and how it finds GPUs, with made-up drivers: test_processes.py [unittest options]."""

import copy
import os
import pathlib
import pickle
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import spider_gen
from spider_gen import _compilers

SPEC = {"stencil": "line", "dimensions": 1, "storage": "f32", "shape": "star", "boundary": "nearest",
        "parameters": {"a": 0.25}, "coefficients": {"center": "1 - 2*a", "x": ["a", "a"]}}

# Environment variables say what they are: the compute capability of each GPU, and a file that tells of cuInit.
DRIVERS = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int arch(unsigned at) {
  const char* text = getenv("GPUS");
  for (; text && *text; text = strchr(text, ',') ? strchr(text, ',') + 1 : "")
    if (at-- == 0) return atoi(text);
  return 0;
}
static int count(void) { int n = 0; while (arch(n)) ++n; return n; }
#ifdef CUDA
static int owner, current;
int cuInit(unsigned flags) {
  FILE* said = fopen(getenv("SAID"), "a");
  fputs("cuInit\n", said);
  fclose(said);
  if (owner && owner != getpid()) return 3;
  owner = getpid();
  return count() ? 0 : 100;
}
int cuDeviceGet(int* device, int ordinal) { *device = ordinal; return ordinal < count() ? 0 : 101; }
int cuDeviceGetAttribute(int* value, int what, int device) {
  *value = what == 75 ? arch(device) / 10 : arch(device) % 10;
  return 0;
}
int cuCtxGetDevice(int* device) { *device = current; return owner ? 0 : 3; }
void choose(int ordinal) { current = ordinal; }
#else
int nvmlInit_v2(void) { return getenv("NO_NVML") ? 9 : 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* n) { *n = count(); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned at, void** handle) { *handle = (void*)(long)at; return 0; }
int nvmlDeviceGetUUID(void* handle, char* text, unsigned size) { snprintf(text, size, "GPU-%ld-abc", (long)handle); return 0; }
int nvmlDeviceGetCudaComputeCapability(void* handle, int* major, int* minor) {
  *major = arch((long)handle) / 10;
  *minor = arch((long)handle) % 10;
  return 0;
}
#endif
"""


def make(**named):
    return spider_gen.stencil(SPEC, backend="host", **named)


class Pickles(unittest.TestCase):
    def test_a_stencil_and_its_points(self):
        u = np.random.default_rng(3).random(50).astype(np.float32)
        one = make(a=0.125)
        wanted = one(u)
        points = one.points(u.shape, [(3,), (5,)])
        for again in (pickle.loads(pickle.dumps(one)), copy.copy(one), copy.deepcopy(one), copy.deepcopy({"a": [one]})["a"][0]):
            np.testing.assert_array_equal(again(u), wanted)
        for again in (pickle.loads(pickle.dumps(points)), copy.copy(points), copy.deepcopy(points)):
            np.testing.assert_array_equal(again.read(u), u[[3, 5]])

    def test_a_file_need_not_be_there_any_more(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "line.yaml"
            path.write_text("stencil: line\ndimensions: 1\nstorage: f32\nshape: taps\nboundary: nearest\n"
                            "coefficients: [{at: [0], weight: 2}]\n", encoding="utf-8")
            pickled = pickle.dumps(spider_gen.stencil(path, backend="host"))
        np.testing.assert_array_equal(pickle.loads(pickled)(np.float32([1, 2])), [2, 4])

    def test_pools(self):
        program = """
import concurrent.futures, multiprocessing
import numpy as np
import spider_gen

if __name__ == "__main__":
    one = spider_gen.stencil(%r, backend="host")
    fields = [np.full(40, i, np.float32) + np.arange(40, dtype=np.float32) ** 2 for i in range(4)]
    wanted = [one(u) for u in fields]
    spawn = multiprocessing.get_context("spawn")
    with spawn.Pool(2) as pool:
        np.testing.assert_array_equal(pool.map(one, fields), wanted)
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=spawn) as pool:
        np.testing.assert_array_equal(list(pool.map(one, fields)), wanted)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        np.testing.assert_array_equal(list(pool.map(one, fields * 50)), wanted * 50)
    print("right")
""" % SPEC
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "program.py"
            path.write_text(program, encoding="utf-8")
            done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
        self.assertEqual((done.stdout, done.returncode), ("right\n", 0), done.stderr)


class Kernels(unittest.TestCase):
    def test_each_kind_of_gpu_has_its_own(self):
        """One stencil in one process."""
        one = make()
        built = _compilers.compile_kernel(one._generated, _compilers.host())
        compiled = []

        def toolchain(arch):
            return _compilers.Toolchain("cuda", "nvcc", (), (), (), (), f"sm_{arch}")

        with unittest.mock.patch.object(_compilers, "compile_kernel", lambda _, chain: compiled.append(chain.target) or built):
            for arch in (80, 90, 80):
                one._kernel(toolchain(arch))
        self.assertEqual(compiled, ["sm_80", "sm_90"])


@unittest.skipIf(sys.platform != "linux" or not shutil.which("gcc"), "skipped: no gcc on Linux")
class Devices(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        (cls.folder / "drivers.c").write_text(DRIVERS, encoding="utf-8")
        for name, options in (("libcuda.so.1", ["-DCUDA"]), ("libnvidia-ml.so.1", [])):
            subprocess.run(["gcc", "-shared", "-fPIC", *options, "-o", cls.folder / name, cls.folder / "drivers.c"], check=True)
        (cls.folder / "nvcc").write_text("#!/bin/sh\n", encoding="utf-8")
        (cls.folder / "nvcc").chmod(0o755)

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def run_with(self, gpus, program, **environment):
        """Returns the output of a program on such a machine, and whether it called cuInit."""
        said = self.folder / "said"
        said.unlink(missing_ok=True)
        inherited = {name: value for name, value in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        inherited |= {"PATH": f"{self.folder}:{os.environ['PATH']}", "LD_LIBRARY_PATH": str(self.folder)}
        done = subprocess.run([sys.executable, "-c", "from spider_gen import _compilers\n" + program], capture_output=True, text=True,
                              check=False, env={**inherited, "GPUS": gpus, "SAID": str(said), **environment})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip(), said.exists()

    def test_arrays_of_the_host_are_placed_without_cuda(self):
        chosen = "print(_compilers.choose('auto').target)"
        host = self.run_with("", chosen)[0]
        self.assertNotIn("sm_", host)
        for gpus, environment, wanted in (
                ("", {}, (host, False)), ("70", {}, (host, False)), ("90", {}, ("sm_90", False)), ("80,80", {}, ("sm_80", False)),
                ("90", {"CUDA_VISIBLE_DEVICES": ""}, (host, False)), ("90", {"CUDA_VISIBLE_DEVICES": "-1"}, (host, False)),
                ("90", {"CUDA_VISIBLE_DEVICES": "0"}, ("sm_90", False)), ("90", {"CUDA_VISIBLE_DEVICES": "1"}, (host, False)),
                ("90,90", {"CUDA_VISIBLE_DEVICES": "1,0"}, ("sm_90", False)),
                ("90,90", {"CUDA_VISIBLE_DEVICES": "7,0"}, (host, False)),
                ("90", {"CUDA_VISIBLE_DEVICES": "GPU-0"}, ("sm_90", False)),
                ("90", {"CUDA_VISIBLE_DEVICES": "GPU-5"}, (host, False)),
                ("90,90", {"CUDA_VISIBLE_DEVICES": "GPU-"}, (host, False)),  # which names no single one
                # CUDA has to be asked:
                ("90", {"CUDA_VISIBLE_DEVICES": "MIG-1"}, ("sm_90", True)), ("90,80", {}, ("sm_90", True)),
                ("86", {"NO_NVML": "1"}, ("sm_86", True))):
            with self.subTest(gpus=gpus, environment=environment):
                self.assertEqual(self.run_with(gpus, chosen, **environment), wanted)

    def test_arrays_on_devices_have_their_kernels(self):
        program = ("print(*(_compilers.cuda(ordinal).target for ordinal in (0, 1, 0)), _compilers.cuda().target)\n"
                   "import ctypes; ctypes.CDLL('libcuda.so.1').choose(1)\n"
                   "print(_compilers.cuda().target)")
        self.assertEqual(self.run_with("80,90", program)[0], "sm_80 sm_90 sm_80 sm_80\nsm_90")
        self.assertEqual(self.run_with("70,90", "print(_compilers.cuda(1).target, _compilers.device(0), _compilers.device())")[0],
                         "sm_90 None None")
        refused = "try:\n    _compilers.cuda()\nexcept _compilers.NoBackend as error:\n    print(error)"
        self.assertRegex(self.run_with("75", refused)[0], "compute capability 7.5, and from Python kernels run from 8.0 on")
        self.assertRegex(self.run_with("", refused)[0], "no NVIDIA GPU")

    def test_forks(self):
        program = """
import os, sys, numpy, spider_gen
one = spider_gen.stencil(%r)
one._kernel = lambda toolchain: (_ for _ in ()).throw(SystemExit(f"runs {toolchain.backend}"))
def call():
    try:
        one(numpy.zeros(5, numpy.float32))
    except (SystemExit, RuntimeError) as error:
        print(error, flush=True)
def child():
    if os.fork() == 0:
        call()
        os._exit(0)
    os.wait()
%s
"""
        for calls, wanted in (("child(); call()", ["runs cuda", "runs cuda"]),
                              ("call(); child()", ["runs cuda", "this process was forked from one that had used CUDA"])):
            for gpus in ("90", "90,80"):
                lines = self.run_with(gpus, program % (SPEC, calls))[0].splitlines()
                self.assertEqual([line[:len(start)] for line, start in zip(lines, wanted)], wanted)
        self.assertRegex(lines[1], r"does not work after a fork: .*\(\"spawn\"\)")


if __name__ == "__main__":
    unittest.main()
