#!/usr/bin/env python3
"""Builds and measures other stencil programs beside ours, one after the other on one GPU.

  measure.py build --build DIR [--arch sm_90] NAME=CHECKOUT...   compiles what the checkouts have; needs nvcc
  measure.py run --build DIR --csv FILE [--ours COMMAND]... [--only NAME]...
                                                                 runs it; COMMAND is spider-bench's, before --csv
  measure.py table FILE...                                       a table in Markdown from such CSV files
  measure.py list                                                the peers: where they are, what each leaves out, edits

A copy of a checkout is compiled as its authors do it but for the GPU's architecture; what a newer CUDA or GPU lacks is
defined on the command line or edited in the copy, with the reason (PEERS). Rates are those that the programs print, or follow
from the times that they print; each peer computes in the precision that is named, and nothing is converted between
precisions. Standard library only.
"""

import argparse
import csv
import dataclasses
import functools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

COLUMNS = ("peer", "stencil", "storage", "size", "steps_a_sweep", "gstencils", "checked", "note")


@dataclasses.dataclass(frozen=True)
class Program:
    """One compilation: sources and flags for nvcc, relative to the checkout, after a command of the shell."""
    name: str
    arguments: str
    before: str = ""


@dataclasses.dataclass(frozen=True)
class Edit:
    """What is replaced in the copy of a file of the checkout."""
    file: str
    old: str
    new: str
    why: str


@dataclasses.dataclass(frozen=True)
class Run:
    program: str
    arguments: str
    stencil: str
    size: str
    steps: int        # that one of its sweeps advances
    found: str        # a pattern whose only group is a number in the output
    unit: str         # "gstencils", or "ms" for so many points and steps:
    points: float = 0
    storage: str = ""  # where it is not the peer's


@dataclasses.dataclass(frozen=True)
class Peer:
    name: str
    where: str
    storage: str
    computes: str
    leaves_out: str
    programs: tuple[Program, ...]
    runs: tuple[Run, ...]
    edits: tuple[Edit, ...] = ()


RATE = r"GStencil/s = ([\d.]+)"
FAST = r"([\d.]+) GStencil/s"


def an5d_programs() -> tuple[tuple[Program, ...], tuple[Run, ...]]:
    """Two of the configurations that its model puts first, for 16384^2 and 512^3."""
    shapes = {"star2d1r": ("256-10-256", "256-10-128"), "box2d1r": ("256-10-256", "512-8-128"),
              "star3d1r": ("32x32-5-128", "32x32-4-128"), "box3d1r": ("32x32-3-256", "32x32-3-128"), "star3d4r": ("64x16-1-256", "32x32-1-128")}
    points = {"star2d1r": "5-point", "box2d1r": "9-point", "star3d1r": "7-point 3D", "box3d1r": "27-point 3D", "star3d4r": "25-point 3D"}
    programs, runs = [], []
    for stencil, configurations in shapes.items():
        edge, dimensions = (16384, 2) if "2d" in stencil else (512, 3)
        for configuration in configurations:
            name = f"{stencil}-{configuration}"
            programs.append(Program(name, f"--use_fast_math -Xcompiler -fopenmp -D SB_TYPE=float -I . compiled/float/{name}_host.cu "
                                          f"compiled/float/{name}_kernel.cu"))
            runs.append(Run(name, f"-s {edge} -t 1000 -n 3", points[stencil], "x".join([str(edge)] * dimensions),
                            int(configuration.split("-")[1]), r"Average: .* ([\d.]+) ms", "ms", float(edge) ** dimensions * 1000))
    return tuple(programs), tuple(runs)


def spider_programs() -> tuple[tuple[Program, ...], tuple[Run, ...]]:
    """Both of its kernels for sparse tensor cores: radius 7, in which its Figure 10 embeds the smaller ones."""
    flags = "-std=c++17 --use_fast_math -rdc=true -I third_party/argparse/include"
    printed = r", [\d.]+, ([\d.]+)\s*$"
    return ((Program("spider_1d", f"{flags} src/1d_half_sparse/vector_reduction_half.cu src/1d_half_sparse/gpu_7r_half.cu"),
             Program("spider_2d", f"{flags} src/2d_half_sparse/2d_stencil_half.cu src/2d_half_sparse/gpu_2d_7r_half.cu")),
            (Run("spider_1d", "-M 1024 -N 10000 -T 2000 --profile", "line of radius 7", "1024x10000", 1, printed, "gstencils"),
             Run("spider_2d", "-M 10240 -N 10240 -T 1000 --profile", "box of radius 7", "10240x10240", 1, printed, "gstencils")))


def tcstencil_programs() -> tuple[tuple[Program, ...], tuple[Run, ...]]:
    """Two of the fifteen tiles that its script tries."""
    edge = 10240
    shapes = {"box2d1r": "box of radius 1", "box2d2r": "box of radius 2", "star2d1r": "star of radius 1", "star2d2r": "star of radius 2"}
    programs, runs = [], []
    for shape, stencil in shapes.items():
        for tile in (2, 4):
            name = f"tcstencil_{shape}_{tile}"
            programs.append(Program(name, f"-DMESH_SIZE={edge} -DTILE_SIZE={tile} common/main_{shape[-2:]}.cu common/gold_{shape}.cpp "
                                          f"layout16/host_{shape}.cu layout16/kernel_{shape}.cu"))
            runs.append(Run(name, "", stencil, f"{edge}x{edge}", 1, r"Time used: ([\d.]+) ms", "ms", float(edge) ** 2))
    return tuple(programs), tuple(runs)


def drstencil_programs() -> tuple[tuple[Program, ...], tuple[Run, ...]]:
    """Two configurations of the space that its tuning.py searches for hours: streaming, of one step and of three."""
    edge, iterations = 8192, 1200
    programs, runs = [], []
    for folder, stencil in (("2d5pt_star", "5-point"), ("2d9pt_box", "9-point")):
        for steps in (1, 3):
            name = f"drstencil_{folder}_{steps}"
            # Its specs have sizes of their own.
            before = (f"make -s && cp common.hpp benchmarks/{folder}/ && cd benchmarks/{folder} && "
                      f"sed -i 's/^M .*/M {edge}/; s/^N .*/N {edge}/; s/^iterations .*/iterations {iterations}/' {folder}.stc && "
                      f"../../drstencil --step {steps} --dist {steps} --bx 256 --streaming --sn 64 --stream-unroll 4 "
                      f"--block-merge-x 2 --merge-forward 5 -o {name}.cu {folder}.stc")
            programs.append(Program(name, "-maxrregcount=128 --use_fast_math -Xptxas -dlcm=cg -Xcompiler -fno-strict-aliasing "
                                          f"benchmarks/{folder}/{name}.cu", before))
            runs.append(Run(name, "", stencil, f"{edge}x{edge}", steps, r"computation time: ([\d.]+) ms", "ms", float(edge) ** 2 * iterations))
    return tuple(programs), tuple(runs)


def ebisu_programs() -> tuple[tuple[Program, ...], tuple[Run, ...]]:
    """The depths of its paper; widths such that its blocks fill an H200's 132 multiprocessors, 44 x 3 and 12 x 11."""
    programs, runs = [], []
    for folder, stencil, box, depths in (("2d5pt", "5-point", "", {"f32": 9, "f64": 12}), ("2d9pt", "9-point", "-box", {"f32": 8}),
                                         ("3d7pt", "7-point 3D", "", {"f32": 8, "f64": 8}), ("3d27pt", "27-point 3D", "-box", {"f32": 6})):
        d = folder[0]
        name, home = f"ebisu_{folder}", f"{d}dstencil"
        gold, main = ("jacobi", "jacobi") if d == "2" else (folder, "j3d")
        kernels = " ".join(f"{home}/{file}" for file in (("jacobi-2d.cu", f"jacobi-temporal-traditional{box}.cu") if d == "2" else
                                                         ("j3d.cu", f"j3d-temporal{box}.cu")))
        flags = f"-std=c++17 -D_TIMER_ -DTRATEMPORAL -DEBISU -I {home} -I {home}/{folder}"
        # Its host code is not for nvcc.
        before = (f"g++ -O3 {flags} -c {home}/{main}.driver.cpp -o driver.o && g++ -O3 {flags} -c {home}/{folder}/{gold}_gold.cpp -o gold.o && "
                  f"g++ -O3 {flags} -c {home}/{folder}/{gold}_gold_gen.cpp -o gold_gen.o")
        programs.append(Program(name, f"{flags} -rdc=true {kernels} driver.o gold.o gold_gen.o", before))
        for storage, depth in depths.items():
            flag = " --fp32" if storage == "f32" else ""
            if d == "2":
                width, height, sweeps = 44 * (256 - 2 * depth), 10240, 400
                extents, size = f"{height} {width}", f"{height}x{width}"
            else:
                width, sweeps = (12 * 64 if flag else 12 * 32), 40
                extents, size = f"{width} 352 640", f"640x352x{width}"
            runs.append(Run(name, f"{extents} --iter={depth * sweeps}{flag}", stencil, size, depth, r"([\d.]+)\s*$", "gstencils", storage=storage))
    return tuple(programs), tuple(runs)


def wave_runs(program: str, storages_of_gradient: tuple[str, ...] = ("f32",)) -> tuple[Run, ...]:
    """Waves of 200 steps, and their gradient, by waves.py."""
    asked = [("gradient", storage, 384) for storage in storages_of_gradient]
    asked += [(what, "f32", edge) for what, edge in (("scalar3d", 384), ("scalar2d", 4096), ("elastic3d", 384), ("elastic2d", 4096))]
    names = {"gradient": "scalar wave of order 8, 3D, forward and adjoint", "scalar3d": "scalar wave of order 8, 3D",
             "scalar2d": "scalar wave of order 8, 2D", "elastic3d": "elastic waves of order 4, 3D", "elastic2d": "elastic waves of order 4, 2D"}
    return tuple(Run("waves.py", f"{program} {storage} {what} {edge} 200", names[what], "x".join([str(edge)] * (2 if what.endswith("2d") else 3)),
                     1, RATE, "gstencils", storage=storage) for what, storage, edge in asked)


AN5D_PROGRAMS, AN5D_RUNS = an5d_programs()
SPIDER_PROGRAMS, SPIDER_RUNS = spider_programs()
TCSTENCIL_PROGRAMS, TCSTENCIL_RUNS = tcstencil_programs()
DRSTENCIL_PROGRAMS, DRSTENCIL_RUNS = drstencil_programs()
EBISU_PROGRAMS, EBISU_RUNS = ebisu_programs()

PEERS = (
    Peer("SPIDER", "KevinWu2017/SPIDER (PPoPP'26)", "f16", "one sweep on sparse tensor cores, sums in f16; waits for the GPU after each",
         "faces other than zeros; other weights than its own", SPIDER_PROGRAMS, SPIDER_RUNS),
    Peer("TCStencil", "buaa-hipo/TCStencil (ICS'22)", "f16", "one sweep on tensor cores, sums in f16, of a field of ones",
         "laying the field out in bricks of 16 x 16, which happens before its time begins; other weights than its own",
         TCSTENCIL_PROGRAMS, TCSTENCIL_RUNS),
    Peer("DRStencil", "simple86/DRStencil (HPCC'21)", "f64", "fused steps on CUDA cores; its time includes ten sweeps to warm up",
         "cells near the faces; its tuning: two configurations of thousands", DRSTENCIL_PROGRAMS, DRSTENCIL_RUNS),
    Peer("EBISU", "neozhang307/EBISU-ICS23 (ICS'23)", "f32, f64", "many steps in a sweep, in shared memory", "faces: a rim is fixed",
         EBISU_PROGRAMS, EBISU_RUNS,
         (*(Edit(f"{d}dstencil/common/cuda_common.cuh", "__CUDA_ARCH__==800", "__CUDA_ARCH__>=800", "it knows no GPU after the A100")
            for d in (2, 3)),
          Edit("3dstencil/j3d.driver.cpp", "  delete[] output_gold;\n}", "  delete[] output_gold;\n  return 0;\n}",
               "a function without a result, which newer compilers take out"))),
    Peer("FastStencil", "jxm2001/FastStencil-SC26 (SC'26)", "f64",
         "many steps in a sweep, in registers; after 5 s of warming up",
         "faces: a rim of steps x radius cells is not computed, and its check leaves it out",
         tuple(Program(f"faststencil_{d}d", f"-std=c++20 -Xcompiler -fopenmp -DPERF_FUNC=FastStencil -I {d}dstencil/include "
                                            f"{d}dstencil/src/perf.cpp {d}dstencil/lib/FastStencil.cu {d}dstencil/lib/utils.cu")
               for d in (2, 3)),
         (Run("faststencil_2d", "j2d5pt 11616 11616 320 0", "5-point", "11616x11616", 32, FAST, "gstencils"),
          Run("faststencil_2d", "j2d9pt 9504 9504 240 0", "9-point", "9504x9504", 24, FAST, "gstencils"),
          Run("faststencil_3d", "j3d7pt 2560 216 572 60 0", "7-point 3D", "2560x216x572", 6, FAST, "gstencils"),
          Run("faststencil_3d", "j3d27pt 2560 220 540 30 0", "27-point 3D", "2560x220x540", 3, FAST, "gstencils"))),
    Peer("AN5D", "khaki3/AN5D-Artifact (CGO'20)", "f32", "many steps in a sweep; its own tuned files, the best of several",
         "faces: the outermost cells are fixed", AN5D_PROGRAMS, AN5D_RUNS),
    Peer("ConvStencil", "jxm2001/ConvStencil (PPoPP'24)", "f64", "three steps fused into one stencil of radius 3, on tensor cores",
         "cells near the faces",
         (Program("convstencil_2d", "-std=c++17 --use_fast_math -rdc=true src/2d/main.cu src/2d/gpu.cu"),),
         (Run("convstencil_2d", "box2d1r 8448 8448 30", "9-point", "8448x8448", 3, RATE, "gstencils"),
          Run("convstencil_2d", "box2d3r 8448 8448 10", "49-point", "8448x8448", 1, RATE, "gstencils"))),
    Peer("LoRAStencil", "jxm2001/LoRAStencil (SC'24)", "f64", "low rank on tensor cores",
         "cells near the faces",
         (Program("lorastencil_2d", "-std=c++17 --use_fast_math -rdc=true src/2d/main.cu src/2d/gpu.cu"),),
         (Run("lorastencil_2d", "box2d3r 8448 8448 10", "49-point", "8448x8448", 1, RATE, "gstencils"),)),
    Peer("FlashFFTStencil", "jxm2001/FlashFFTStencil (PPoPP'25)", "f64", "one step by FFTs on tensor cores",
         "laying the input out in tiles that overlap, which happens before its time begins; its loop sweeps the same input again",
         # Names of errors that cuFFT of CUDA 13 has no more.
         (Program("flashfft_2d", "--use_fast_math " + " ".join(
             f"'-DCUFFT_{name}=static_cast<cufftResult>({1000 + i})'" for i, name in
             enumerate(("INCOMPLETE_PARAMETER_LIST", "PARSE_ERROR", "LICENSE_ERROR"))) + " src/2D/2d_main.cu -lcufft"),),
         (Run("flashfft_2d", "Heat-2D 9504 10", "5-point", "9504x9504", 1, RATE, "gstencils"),)),
    *(Peer(name, "pip install deepwave torch", "f32", "waves and their gradients, each state kept in f32", "faces other than zeros and layers", (),
           wave_runs(program)) for name, program in (("Deepwave", "deepwave"), ("Deepwave, layers of 20 cells", "deepwave:20"))),
    Peer("spider_gen in PyTorch", "this project's package: pip install .", "f32, f16",
         "the same; in f16 what the gradient reads of each state is", "layers", (), wave_runs("spider_gen", ("f32", "f16"))),
    *(Peer(name, f"pip install {package}", "f16, f32", computes, leaves_out, (),
           tuple(Run("arrays.py", f"{library} {storage} 10240 1 2 3 7", f"box of radius {radius}", "10240x10240", 1,
                     f"radius {radius}: checked; {RATE}", "gstencils", storage=storage)
                 for storage in storages for radius in (1, 2, 3, 7)))
      for name, package, library, storages, computes, leaves_out in (
          ("PyTorch", "torch", "torch", ("f16", "f32"), "conv2d, which is cuDNN's convolution, without TF32", "faces other than zeros"),
          ("CuPy", "cupy-cuda13x", "cupy", ("f32",), "cupyx.scipy.ndimage.correlate", "nothing: all of SciPy's modes"),
          ("cuFFT", "cupy-cuda13x", "fft", ("f32",), "cupyx.scipy.signal.fftconvolve: three FFTs", "faces other than zeros"))),
)


def fail(text: str) -> None:
    sys.exit(f"measure.py: {text}")


def build(arguments: argparse.Namespace) -> None:
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    peers = {peer.name.lower(): peer for peer in PEERS}
    arguments.build.mkdir(parents=True, exist_ok=True)
    for item in arguments.checkouts:
        name, _, folder = item.partition("=")
        peer = peers.get(name.lower())
        if peer is None or not pathlib.Path(folder).is_dir():
            fail(f"{item}: write NAME=CHECKOUT, where NAME is one of {', '.join(peer.name for peer in PEERS)}")
        copy = arguments.build / "sources" / peer.name
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".git"))
        for edit in peer.edits:
            file = copy / edit.file
            text = file.read_text(encoding="utf-8")
            if edit.old not in text:
                fail(f"{folder}/{edit.file} has no {edit.old!r}: another version than the one that this was written for")
            file.write_text(text.replace(edit.old, edit.new), encoding="utf-8")
        failures = {}
        for program in peer.programs:
            command = [nvcc, "-O3", "-w", f"-arch={arguments.arch}", *shlex.split(program.arguments), "-o", str(arguments.build.resolve() / program.name)]
            done = subprocess.run(program.before or "true", cwd=copy, shell=True, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                done = subprocess.run(command, cwd=copy, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                failures[program.name] = next((line for line in (done.stderr + done.stdout).splitlines() if "error" in line), "failed")
            print(f"{peer.name}: {program.name}: {failures.get(program.name, 'built')}", flush=True)
        (arguments.build / f"{peer.name}.json").write_text(json.dumps(failures), encoding="utf-8")


@functools.cache
def output_of(command: tuple[str, ...], limit_s: float) -> subprocess.CompletedProcess[str]:
    """Runs once for all rows that it prints."""
    return subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)


def measure_run(build_folder: pathlib.Path, peer: Peer, run: Run, limit_s: float) -> dict[str, str]:
    row = {"peer": peer.name, "stencil": run.stencil, "storage": run.storage or peer.storage, "size": run.size, "steps_a_sweep": str(run.steps),
           "gstencils": "", "checked": "no", "note": run.program}
    if run.program.endswith(".py"):
        command = [sys.executable, str(pathlib.Path(__file__).with_name(run.program))]
    elif (build_folder / run.program).exists():
        command = [str((build_folder / run.program).resolve())]
    else:
        return row | {"note": f"{run.program} was not built"}
    try:
        done = output_of((*command, *shlex.split(run.arguments)), limit_s)
    except subprocess.TimeoutExpired:
        return row | {"note": f"{run.program}: more than {limit_s:.0f} s"}
    numbers = re.findall(run.found, done.stdout + done.stderr)
    if done.returncode != 0 or not numbers:
        said = (done.stderr.strip() or "no rate").splitlines()[-1]
        return row | {"note": f"{run.program}: exit status {done.returncode}: {said}"}
    number = float(numbers[-1])
    rate = run.points / number / 1e6 if run.unit == "ms" else number
    return row | {"gstencils": f"{rate:.1f}", "checked": "yes" if "checked" in done.stdout else "no"}


def run_all(arguments: argparse.Namespace) -> None:
    ours = arguments.csv.with_suffix(".ours.csv")
    ours.unlink(missing_ok=True)
    for command in arguments.ours:
        subprocess.run([*shlex.split(command), "--csv", str(ours)], check=True)
    with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for peer in PEERS:
            if arguments.only and peer.name not in arguments.only:
                continue
            if peer.programs and not (arguments.build / f"{peer.name}.json").exists():
                print(f"{peer.name}: no build, skipped")
                continue
            for run in peer.runs:
                begin = time.monotonic()
                row = measure_run(arguments.build, peer, run, arguments.limit)
                writer.writerow(row)
                file.flush()
                print(f"{peer.name}: {run.stencil} {run.size}: {row['gstencils'] or row['note']} ({time.monotonic() - begin:.0f} s)", flush=True)


def table(arguments: argparse.Namespace) -> None:
    best: dict[tuple[str, str, str], dict[str, str]] = {}
    for path in arguments.csv:
        with open(path, newline="", encoding="utf-8") as file:
            for row in csv.DictReader(file):
                if "peer" not in row:  # of spider-bench
                    row = {"peer": "spider-gen", "stencil": row["kernel"], "storage": row["storage"], "size": row["size"],
                           "steps_a_sweep": "", "gstencils": row["gstencils"], "note": row["mode"]}
                key = (row["peer"], row["storage"], row["stencil"] + row["note"] * (row["peer"] == "spider-gen"))
                if key not in best or float(row["gstencils"] or 0) > float(best[key]["gstencils"] or 0):
                    best[key] = row
    print("| program | type | stencil, size | steps a sweep | 10^9 points x steps / s |\n|---|---|---|---|---|")
    for row in best.values():
        print(f"| {row['peer']} | {row['storage']} | {row['stencil']}, {row['size'].replace('x', ' x ')} | {row['steps_a_sweep']} | "
              f"{row['gstencils'] or '- ' + row['note']} |")


def list_peers(_: argparse.Namespace) -> None:
    for peer in PEERS:
        print(f"{peer.name}, {peer.where}, {peer.storage}: {peer.computes}. Leaves out: {peer.leaves_out}.")
        for edit in peer.edits:
            print(f"  {edit.file}: {edit.old!r} becomes {edit.new!r}: {edit.why}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("build")
    command.set_defaults(function=build)
    command.add_argument("--build", type=pathlib.Path, required=True)
    command.add_argument("--arch", default="sm_90")
    command.add_argument("checkouts", nargs="+", metavar="NAME=CHECKOUT")
    command = commands.add_parser("run")
    command.set_defaults(function=run_all)
    command.add_argument("--build", type=pathlib.Path, required=True)
    command.add_argument("--csv", type=pathlib.Path, required=True)
    command.add_argument("--ours", action="append", default=[])
    command.add_argument("--limit", type=float, default=60, help="seconds a program may take")
    command.add_argument("--only", action="append", choices=[peer.name for peer in PEERS], default=[])
    command = commands.add_parser("table")
    command.set_defaults(function=table)
    command.add_argument("csv", nargs="+", type=pathlib.Path)
    commands.add_parser("list").set_defaults(function=list_peers)
    arguments = parser.parse_args()
    arguments.function(arguments)


if __name__ == "__main__":
    main()
