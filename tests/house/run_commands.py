#!/usr/bin/env python3
"""Runs the commands of the documentation in a copy of the repository, as they are written there.

  run_commands.py --tree DIR --home DIR --python FILE [--library FILE] [--updates FILE] [--fuzz DIR] NAME...
  run_commands.py --tree DIR --home DIR --python FILE --gpu NAME...

NAME is that of a block, `<!-- block: NAME -->`. The tree was configured by the preset `default` before, and spider-gen is
installed in HOME/.local: check_docs.py build does both. What would take a GPU, root, or the time of the whole test suite is
done by the programs of stand_ins/, which come first on PATH and say what they stand in for; all scripts of ours are the
real ones. The kernels that a GPU would run are those of --library, the emulated accuracy tests'.

With --gpu nothing stands in for the GPU, and what is to be done elsewhere (`# here`) has been: tests/gpu/
run_documentation.sh. Exit status 77: skipped, what is missing was said. Standard library only.
"""

import argparse
import csv
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field

import check_docs

STAND_INS = pathlib.Path(__file__).resolve().parent / "stand_ins"
GPU = ("nvidia-smi", "nvcc", "compute-sanitizer", "python3")
ROOT = ("apt-get", "sudo", "dpkg-query")
SUITE = ("cmake", "ctest")
SMALL_KERNEL = "box1d_r1"
FEW_KERNELS = f"{SMALL_KERNEL} random_057"  # checked in the stead of all: a small one, and the one that a page names
SKIPPED = 77


class Failed(Exception):
    """A command or what it left behind is not as promised."""


@dataclass
class Place:
    """Where commands run, and with what."""

    arguments: argparse.Namespace
    log: str = ""  # what the commands said
    stood_in: list[str] = field(default_factory=list)  # how the stand-ins were called

    @property
    def tree(self) -> pathlib.Path:
        return self.arguments.tree

    def run(self, commands: str, stand_ins: tuple[str, ...] = (), folder: str = ".", fails: int = 0, **variables: str) -> None:
        """Runs the commands; the stand-ins are on PATH for them."""
        with tempfile.TemporaryDirectory() as work:
            self.run_beside(commands, stand_ins, folder, fails, pathlib.Path(work), variables)

    def run_beside(self, commands: str, stand_ins: tuple[str, ...], folder: str, fails: int, work: pathlib.Path,
                   variables: dict[str, str]) -> None:
        for name in stand_ins:
            # Where there is no dpkg, nothing asks it.
            if name != "dpkg-query" or shutil.which(name):
                (work / name).symlink_to(STAND_INS / name)
        calls = work / "calls"
        calls.touch()
        path = f"{self.arguments.home}/.local/bin:{os.environ['PATH']}"
        environment = os.environ | {
            "HOME": str(self.arguments.home), "TMPDIR": str(work), "PATH": f"{work}:{path}", "SPIDER_REAL_PATH": path, "SPIDER_STAND_INS_LOG": str(calls),
            "SPIDER_STAND_INS_PYTHON": self.arguments.python, "SPIDER_STAND_INS_LIBRARY": str(self.arguments.library),
            "SPIDER_STAND_INS_KERNELS": FEW_KERNELS,
            "SPIDER_STAND_INS_ROWS": str(self.tree / "tests/benchmarks/unit/sample.csv")} | variables
        if "python3" in stand_ins:
            environment["PYTHON"] = str(work / "python3")
        print(commands, flush=True)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=self.tree / folder, env=environment, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.log, self.stood_in = done.stdout, calls.read_text(encoding="utf-8").splitlines()
        if done.returncode == SKIPPED:
            print(self.log)
            sys.exit(SKIPPED)
        if done.returncode != fails:
            raise Failed(f"exit status {done.returncode}\n{self.log}")

    def block(self, page: str, name: str) -> str:
        text = check_docs.named_block(self.tree / page, name)
        if self.arguments.gpu:
            text = "".join(line for line in text.splitlines(keepends=True) if "# here" not in line)
        return text

    def expect(self, pattern: str) -> None:
        if not re.search(pattern, self.log, re.MULTILINE):
            raise Failed(f"it does not say {pattern}:\n{self.log}")

    def expect_stand_in(self, pattern: str) -> None:
        if not any(re.search(pattern, call) for call in self.stood_in):
            raise Failed(f"no stand-in was called as {pattern}, but: {self.stood_in}")

    def expect_installation(self, package: str) -> None:
        """Where there are packages of Debian."""
        if shutil.which("dpkg-query"):
            self.expect_stand_in(rf"^apt-get install .* {package}\b")

    def on_gpu(self, *stand_ins: str) -> tuple[str, ...]:
        """The stand-ins that are wanted here."""
        return () if self.arguments.gpu else stand_ins

    def link(self, name: str, target: pathlib.Path) -> None:
        place = self.tree / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_symlink():
            place.unlink()
        if not place.exists():
            place.symlink_to(target)

    def need_library(self) -> None:
        if not self.arguments.gpu and self.arguments.library is None:
            print("skipped: there is no library of emulated kernels")
            sys.exit(SKIPPED)

    def need_cases(self) -> None:
        """The kernels of the accuracy tests, as the target spider-cases writes them."""
        if not (self.tree / "build/tests/cases/plans").is_dir() and not self.arguments.gpu:
            self.run("cmake --build --preset default --target spider-cases")


def quick_start(place: Place) -> None:
    """On a fresh machine: packages are installed, as far as simulation goes; then the real quick start, on the generator that
    check_docs.py build has built with the same options."""
    place.link("build/quickstart/release", place.tree / "build/release")
    first, second = place.block("README.md", "quick start").splitlines()
    place.run(first, (*ROOT, "cmake"))
    place.expect_installation("libyaml-cpp-dev")
    place.expect(r"^Done in \d+ s\. Look at out/terrain\.png$")
    if not (place.tree / "out/terrain.png").read_bytes().startswith(b"\x89PNG"):
        raise Failed("out/terrain.png is no picture")
    all_tests(place, second)


def all_tests(place: Place, command: str | None = None) -> None:
    """tests/run.sh from the installation of packages to the summary."""
    command = command or place.block("tests/README.md", "all tests")
    place.run(command, ROOT + SUITE)
    place.expect_installation("libgtest-dev")
    place.expect_stand_in(r"^cmake --build --preset ci ")
    place.expect_stand_in(r"^ctest --preset ci ")
    place.expect(r"^skipped: \S+: it is a stand-in$")
    place.expect(r"^1 passed, 0 failed, 1 skipped$")
    place.run(command, ROOT + SUITE, fails=1, SPIDER_STAND_INS_FAIL="yes")
    place.expect(r"^failed: \S+$")
    if shutil.which("dpkg-query"):
        place.run(f"{command.strip()} --no-install", ROOT + SUITE, fails=1)
        place.expect(r"^  sudo apt-get update && sudo apt-get install -y .*\blibgtest-dev\b")


def one_part(place: Place) -> None:
    place.run(place.block("tests/README.md", "one part"), SUITE)
    for call in (r"^ctest .*-R \^unit", r"^ctest .*-L emulated", r"^ctest .*-N", r"^cmake .*--target tidy"):
        place.expect_stand_in(call)


def gpu_cases(place: Place, page: str, name: str) -> None:
    """The accuracy tests of a GPU, on an emulated kernel: compiled, checked, broken on purpose and watched."""
    place.need_library()
    place.link("build/generator/spider-gen", place.arguments.home / ".local/bin/spider-gen")
    commands = place.block(page, name)
    if not place.arguments.gpu:
        commands = commands.replace("--count 500", "--count 60")  # two of which are checked
    place.run(commands, place.on_gpu(*GPU, "cmake"), SPIDER_STAND_INS_KERNELS=SMALL_KERNEL)
    place.expect(r"^\d+ kernels compiled and linked in \d+ s$")
    place.expect(r"all within bounds, nothing else written$")
    place.expect(r"^done: build,check,self-test,sanitize$")
    with open(place.tree / "tests/gpu/runs.csv", encoding="utf-8", newline="") as table:
        columns, *runs = csv.reader(table)
    if columns != "date commit device command kernels sweeps checks result".split() or {len(run) for run in runs} != {8}:
        raise Failed(f"tests/gpu/runs.csv has the columns {columns}, and {sorted({len(run) for run in runs})} a line")
    place.expect(r"^recorded in .*/runs\.csv: \d{4}-\d\d-\d\d,.*,\d+,\d+,\d+,right(; \w+ of \d+ kernels)+$")


def harness(place: Place) -> None:
    place.need_library()
    place.need_cases()
    place.link("tests/harness/libspider_cases_emulated.so", place.arguments.library)
    place.link("tests/harness/plans", place.tree / "build/tests/cases/plans")
    place.run(place.block("tests/harness/README.md", "harness"), ("python3",), folder="tests/harness")
    place.expect(r"all within bounds, nothing else written$")


def more_emulated(place: Place) -> None:
    place.need_library()
    place.need_cases()
    place.link("build/tests/emulated/libspider_cases_emulated.so", place.arguments.library)
    place.run(place.block("tests/emulated/README.md", "more emulated"), (*SUITE, "python3"))
    place.expect_stand_in(r"--target spider_cases_emulated")
    place.expect(r"all within bounds, nothing else written$")
    place.run("cmake --preset default -DSPIDER_RANDOM_SPECS=200")


def benchmark(place: Place) -> None:
    place.need_library()
    place.run(place.block("tests/benchmarks/README.md", "benchmark"), place.on_gpu(*GPU))
    if not place.arguments.gpu:
        place.expect_stand_in(r"^spider-bench .*--kernels box2d_r\[137\] --mode burst,sustained")
    check_evaluation(place)


def updates(place: Place) -> None:
    """What times updates on a GPU, with the host's kernels and few cells."""
    if not place.arguments.gpu and place.arguments.updates is None:
        print("skipped: there is no library of the host's kernels with updates")
        sys.exit(SKIPPED)
    place.link("build/generator/spider-gen", place.arguments.home / ".local/bin/spider-gen")
    commands = place.block("tests/benchmarks/README.md", "updates")
    if not place.arguments.gpu:
        wanted = "--kernels acoustic3d acoustic acoustic3d_uniform acoustic3d_f16 --size 768 768 768"
        if wanted not in commands:
            raise Failed(f"it no longer has {wanted}")
        commands = commands.replace(wanted, "--kernels acoustic3d --size 20 40 100 --launches 1")
    place.run(commands, place.on_gpu("nvcc", "python3"), SPIDER_STAND_INS_LIBRARY=str(place.arguments.updates))
    place.expect(r"^acoustic3d f32 \d+x\d+x\d+: .* x copy .* Gpoint-steps/s, worst error/bound 0\.\d+$")


def faces(place: Place) -> None:
    place.need_library()
    place.link("build/generator/spider-gen", place.arguments.home / ".local/bin/spider-gen")
    place.run(place.block("tests/benchmarks/README.md", "faces"), place.on_gpu(*GPU))
    check_evaluation(place)
    if not place.arguments.gpu:
        place.expect_stand_in(r"^spider-bench .*--library halo=.*--library mirror=.*--kernels heat2d_steps_f32")


def check_evaluation(place: Place) -> None:
    missing = [file for file in ("evaluation.csv", "summary.md", "log.txt") if not (place.tree / "evaluation" / file).is_file()]
    if missing:
        raise Failed(f"evaluation/ lacks {', '.join(missing)}:\n{place.log}")


def consumer(place: Place) -> None:
    place.run(place.block("tests/consumer/README.md", "consumer"))
    place.run("build/cpp/consumer")
    place.expect(r"^cells wrong: smooth 0, upwind 0, in boxes 0, f32 0, bf16 0, swing 0, settle 0$")
    place.run(place.block("tests/consumer/README.md", "acoustic"))
    place.expect(r"^48\^3 cells, 192 steps, .* Gpoints/s$")


#: More ranks than processors, by root in a container: Open MPI asks for a word on both.
ANY_RANKS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
             "OMPI_MCA_mpi_yield_when_idle": "1", "OMPI_MCA_btl_vader_single_copy_mechanism": "none", "OMP_NUM_THREADS": "1"}


def tutorial_ranks(place: Place) -> None:
    """Step 4 of the tutorial; tests/python/test_tutorial.py runs the others."""
    has_mpi = shutil.which("mpiexec") and shutil.which("mpicxx")
    if not has_mpi or subprocess.run([place.arguments.python, "-c", "import numpy, mpi4py"], capture_output=True, check=False).returncode:
        print("skipped: there is no MPI with mpi4py (libopenmpi-dev, python3-mpi4py)")
        sys.exit(SKIPPED)
    place.run(place.block("tests/consumer/tutorial/README.md", "tutorial ranks"), ("python3",), **ANY_RANKS)
    place.expect(r"^4 ranks have the bits of one$")
    (place.tree / "heat.npy").unlink()


def pictures(place: Place) -> None:
    folder = place.tree / "generator/pictures"
    before = {path.name: path.read_bytes() for path in folder.glob("*.svg")}
    for path in folder.glob("*.svg"):
        path.unlink()
    place.run(place.block("generator/README.md", "pictures"))
    if before != {path.name: path.read_bytes() for path in folder.glob("*.svg")}:
        raise Failed("the pictures are others than before")


def fuzz(place: Place) -> None:
    """The run of 900 s takes 2 here."""
    commands = place.block("tests/fuzz/README.md", "fuzz")
    if "--seconds 900" not in commands:
        raise Failed("no run of 900 s is there any more")
    script = f"run_fuzz.sh --build {shlex.quote(str(place.arguments.fuzz))}"
    place.run(commands.replace("--seconds 900", "--seconds 2").replace("run_fuzz.sh", script))
    place.expect(r"^generate: seed 7, 2 s$")


BLOCKS: dict[str, Callable[[Place], None]] = {
    "quick start": quick_start,
    "all tests": all_tests,
    "one part": one_part,
    "gpu tests": lambda place: gpu_cases(place, "tests/README.md", "gpu tests"),
    "gpu cases": lambda place: gpu_cases(place, "tests/gpu/README.md", "gpu cases"),
    "more gpu cases": lambda place: gpu_cases(place, "tests/gpu/README.md", "more gpu cases"),
    "harness": harness,
    "more emulated": more_emulated,
    "benchmark": benchmark,
    "updates": updates,
    "faces": faces,
    "consumer": consumer,
    "tutorial ranks": tutorial_ranks,
    "pictures": pictures,
    "fuzz": fuzz,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=BLOCKS, metavar="NAME")
    parser.add_argument("--tree", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--home", type=lambda path: pathlib.Path(path).resolve(), required=True)
    parser.add_argument("--python", required=True, help="with NumPy and SciPy")
    parser.add_argument("--library", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--updates", type=lambda path: pathlib.Path(path).resolve(), help="library of the host's updates")
    parser.add_argument("--fuzz", type=lambda path: pathlib.Path(path).resolve(), help="folder of the fuzz targets' build")
    parser.add_argument("--gpu", action="store_true")
    arguments = parser.parse_args()
    failed = []
    for name in arguments.names:
        try:
            BLOCKS[name](Place(arguments))
            print(f"== {name}: as written")
        except Failed as error:
            failed.append(name)
            print(f"== {name}: FAILED: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
