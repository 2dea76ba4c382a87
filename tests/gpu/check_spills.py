#!/usr/bin/env python3
"""Draws kernels of every scheme, face and storage, compiles them for sm_90, and a shipped one of each scheme for other
architectures, and compares their stack frames and spilled bytes with known_spills.csv: a new one fails, and so does one that
became smaller or went, until the list says so.

  check_spills.py --spider-gen FILE [--nvcc FILE] [--count N] [--systems-python FILE] [--seed N] [--half-of DAY]
                  [--architectures] [--update]
  check_spills.py --self-test

--count  how many are compiled (default 24): one of each scheme, of which the headers of kernels tell, then of each scheme with
         each storage, then the rest; 0: all 182
--systems-python  a Python with NumPy and PyYAML: 8 systems of equations are drawn with it, and compiled beside the others
--seed   of what is drawn (default 20261701). known_spills.csv is of the default: of other seeds every spill fails
--half-of compiles every second of them, the others on the next day, and a fortieth of the shipped ones; 0: today, by days
         since 1970
--architectures  compiles the shipped ones for all these architectures, and nothing that is drawn: an hour of a core
--update writes what is found of the kernels that were compiled into known_spills.csv: read the difference before it is
         committed

The figures are those of one version of nvcc. With another one the exit status is 77. Standard library only."""

import argparse
import collections
import concurrent.futures
import csv
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
KNOWN = HERE / "known_spills.csv"
COLUMNS = ("kernel", "what", "function", "entries", "stack", "stores", "loads")
NVCC_VERSION = "V13.0.88"
SEED = 20261701
SPECS = ("--count", "60", "--steps-count", "70")
UPDATES = ("--count", "24", "--sparse-count", "10", "--passes-count", "8")
# Shipped stencils with other faces; the 25 points in f32 once spilled 40 bytes and took 30 % longer with these.
MIXED_FACES = {2: "{y: {low: mirror, high: reflect}, x: {low: nearest, high: {constant: 0.5}}}",
               3: "{z: periodic, y: mirror, x: mirror}"}
MIXED = ("star3d_r4_f32", "star3d_r4", "star3d_r4_f64", "star3d_r2", "star3d_r1_f32", "box3d_r2", "acoustic3d", "gauss3d",
         "box2d_r7", "box2d_r3_f32")
SYSTEMS = 8
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_100", "sm_103", "sm_120")  # beside sm_90
SHIPPED = ("acoustic3d", "box1d_r2", "box2d_r1_steps", "box2d_r3", "box2d_r3_f32", "box2d_r7_f32", "box3d_r1_steps",
           "box3d_r1_steps_f32", "elastic3d", "gauss2d_r16_f32", "gauss2d_r7", "heat1d_steps", "heat1d_steps_f32", "heat2d",
           "heat2d_f32", "heat2d_steps", "heat2d_steps_f32", "heat3d_steps_f32", "laplacian2d_r4", "maxwell3d", "star3d_r2",
           "star3d_r4_f32")
DAYS = 40  # until each of the shipped ones was compiled
LOWEST_SHARE = 0.8  # of the kernels that are asked for; fewer would mean that the sample lost its schemes
FRAME = re.compile(r"Function properties for (.+)\s+(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
Case = tuple[pathlib.Path, str]  # a generated file, and an architecture
Spills = dict[tuple[str, str], tuple[int, ...]]  # (kernel, function): entries that spill; their stack, stores and loads


def run(*command: str | pathlib.Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:4]))} ...: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def draw(spider_gen: str, seed: int, folder: pathlib.Path) -> list[pathlib.Path]:
    """The generated files of all kernels, in an order that the seed gives; the mixed ones first. Each has its spec as
    ../specs/NAME.yaml."""
    harness = ROOT / "tests/harness"
    (folder / "no_stencils").mkdir()
    run(sys.executable, "-B", harness / "generate_cases.py", "--spider-gen", spider_gen, "--stencils", folder / "no_stencils",
        "--folder", folder / "specs", *SPECS, "--seed", str(seed))
    run(sys.executable, "-B", harness / "random_updates.py", "--spider-gen", spider_gen, "--folder", folder / "updates", *UPDATES,
        "--seed", str(seed))
    mixed = folder / "mixed"
    (mixed / "specs").mkdir(parents=True)
    for name in MIXED:
        text = (ROOT / f"stencils/{name}.yaml").read_text(encoding="utf-8")
        text = re.sub(r"^boundary:.*\n", "", text.replace(f"stencil: {name}", f"stencil: mix_{name}"), flags=re.MULTILINE)
        text += f"boundary: {MIXED_FACES[int(value_of('dimensions', text))]}\n"
        (mixed / f"specs/mix_{name}.yaml").write_text(text, encoding="utf-8")
    run(spider_gen, *(mixed / f"specs/mix_{name}.yaml" for name in MIXED), "-o", mixed / "kernels")
    drawn = [*(folder / "specs/kernels").glob("*.cu"), *(folder / "updates/kernels").glob("*.cu")]
    random.Random(seed).shuffle(drawn := sorted(drawn))
    return [mixed / f"kernels/mix_{name}.cu" for name in MIXED] + drawn


def draw_systems(spider_gen: str, python: str, seed: int, folder: pathlib.Path) -> list[pathlib.Path]:
    """The generated files of random systems of equations."""
    (folder / "specs").mkdir(parents=True)
    specs = []
    for one in range(seed, seed + SYSTEMS):
        specs.append(folder / f"specs/system{one}.yaml")
        specs[-1].write_text(run(python, "-B", ROOT / "tests/systems/random_system.py", str(one)), encoding="utf-8")
    run(spider_gen, *specs, "-o", folder / "kernels")
    return [folder / f"kernels/{spec.stem}.cu" for spec in specs]


def shipped_cases() -> list[Case]:
    """Those of SHIPPED with the architectures that they are for. Kernels for tensor cores begin with sm_80."""
    files = [ROOT / f"generated/{name}.cu" for name in SHIPPED]
    missing = {header for file in (ROOT / "generated").glob("*.cu") for header in headers_of(file)}
    missing -= {header for file in files for header in headers_of(file)}
    if missing:
        sys.exit(f"no kernel of SHIPPED has the scheme {', '.join(sorted(missing))}")
    on_cuda_cores = [file for file in files if re.search(r"(SPIDER_\w+|\}), 75,", file.read_text(encoding="utf-8"))]
    return [(file, arch) for arch in ARCHITECTURES for file in (on_cuda_cores if arch == "sm_75" else files)]


def name_of_case(case: Case) -> str:
    """The file's, and of a shipped one the architecture's."""
    kernel, arch = case
    return f"{kernel.stem}.{arch}" if kernel.parent == ROOT / "generated" else kernel.stem


def read_spec(kernel: pathlib.Path) -> str:
    folder = ROOT / "stencils" if kernel.parent == ROOT / "generated" else kernel.parents[1] / "specs"
    return (folder / f"{kernel.stem}.yaml").read_text(encoding="utf-8")


def value_of(key: str, spec: str) -> str:
    found = re.search(rf"^{key}: *(.*)", spec, re.MULTILINE)
    return found[1] if found else ""


def headers_of(kernel: pathlib.Path) -> tuple[str, ...]:
    return tuple(re.findall(r"#include <spider/kernels/(\w+)\.h>", kernel.read_text(encoding="utf-8")))


def describe(kernel: pathlib.Path) -> str:
    spec = read_spec(kernel)
    if "\nstages:\n" in spec:
        stages = len(re.findall("^  - ", spec, re.MULTILINE))
        return f"{value_of('dimensions', spec)}D, system of {stages} {'stage' if stages == 1 else 'stages'}"
    told = [f"{value_of('dimensions', spec)}D {value_of('storage', spec)}", "+".join(headers_of(kernel))]
    told += [f"{steps} steps"] if (steps := value_of("steps", spec)) else []
    told += ["update"] if value_of("update", spec) else []
    return ", ".join([*told, value_of("boundary", spec) or "halo"])


def choose(kernels: list[pathlib.Path], count: int) -> list[pathlib.Path]:
    """The first of each list of headers of kernels, which the star of 25 points is, too; then of each storage with them; then
    the rest."""
    seen: set[tuple[str, ...]] = set()
    turns: tuple[list[pathlib.Path], ...] = [], [], []
    for kernel in kernels:
        spec = read_spec(kernel)
        headers = headers_of(kernel)
        with_storage = *headers, value_of("storage", spec)
        turns[0 if headers not in seen else 1 if with_storage not in seen else 2].append(kernel)
        seen |= {headers, with_storage}
    return sum(turns, [])[: count or None]


def name_of(function: str) -> str:
    """sweep_block2d of void spider::device_4::sweep_block2d<...>(...)."""
    before = ""
    while before != function:
        before, function = function, re.sub(r"<[^<>]*>|\([^()]*\)", "", function)
    return re.sub(r"^spider::device_\d+::", "", function.split()[-1])


def spills_of(kernel: str, said: str) -> Spills:
    """What `ptxas -v` said of one file: the functions that have a stack frame or save registers, with the sums of their
    instantiations."""
    readable = subprocess.run(["c++filt"], input=said, capture_output=True, text=True, check=True).stdout
    found: Spills = collections.defaultdict(lambda: (0, 0, 0, 0))
    for function, *figures in FRAME.findall(readable):
        if any(map(int, figures)):
            key = kernel, name_of(function)
            found[key] = tuple(map(sum, zip(found[key], (1, *map(int, figures)))))
    return dict(found)


def compile_kernel(nvcc: str, case: Case, folder: pathlib.Path) -> tuple[Spills, str]:
    """Its spills; and the error, if there is one."""
    kernel, arch = case
    command = [nvcc, "-std=c++17", "-cubin", "-o", folder / f"{name_of_case(case)}.cubin", kernel, f"-arch={arch}", "-Xptxas", "-v",
               "-Werror", "all-warnings", "-I", ROOT / "runtime/include", "-I", ROOT / "runtime/device"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode != 0 or not FRAME.search(said):
        return {}, f"{name_of_case(case)} does not compile, or ptxas says nothing of it:\n{said[-2000:]}"
    return spills_of(name_of_case(case), said), ""


def problems_of(found: Spills, known: Spills, compiled: set[str]) -> list[str]:
    """What is not as known of the kernels that were compiled."""
    def told(figures: tuple[int, ...] | None) -> str:
        return "{} entries with {} bytes of stack, {} stored and {} loaded".format(*figures) if figures else "no stack frame"

    known = {key: figures for key, figures in known.items() if key[0] in compiled}
    return [f"{' '.join(key)}: {told(found.get(key))} instead of {told(known.get(key))}" for key in sorted({*found, *known})
            if found.get(key) != known.get(key)]


def read_known() -> list[dict[str, str]]:
    with open(KNOWN, encoding="utf-8", newline="") as table:
        return list(csv.DictReader(table))


def write_known(found: Spills, what: dict[str, str]) -> None:
    """Replaces the lines of the kernels in `what`."""
    rows = [row for row in read_known() if row["kernel"] not in what] if KNOWN.exists() else []
    rows += [dict(zip(COLUMNS, (kernel, what[kernel], function, *figures))) for (kernel, function), figures in found.items()]
    with open(KNOWN, "w", encoding="utf-8", newline="") as table:
        writer = csv.DictWriter(table, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(sorted(rows, key=lambda row: (row["kernel"], row["function"])))


def check(arguments: argparse.Namespace) -> int:
    if NVCC_VERSION not in run(arguments.nvcc, "--version"):
        print(f"skipped: {KNOWN.name} has the figures of nvcc {NVCC_VERSION}")
        return 77
    shipped = shipped_cases()
    with tempfile.TemporaryDirectory() as folder:
        drawn = draw(arguments.spider_gen, arguments.seed, pathlib.Path(folder))
        chosen = choose(drawn, arguments.count)
        if len(chosen) < LOWEST_SHARE * arguments.count:
            sys.exit(f"{len(chosen)} kernels were drawn, {arguments.count} are asked for")
        if arguments.systems_python:
            systems = draw_systems(arguments.spider_gen, arguments.systems_python, arguments.seed, pathlib.Path(folder) / "systems")
            drawn, chosen = drawn + systems, chosen + systems
        cases = [(kernel, "sm_90") for kernel in chosen]
        if arguments.half_of is not None:
            day = arguments.half_of or int(time.time()) // 86400
            cases = cases[day % 2 :: 2] + shipped[day % DAYS :: DAYS]
            print(f"day {day}: every second kernel")
        elif arguments.architectures:
            cases = shipped
        what = {name_of_case(case): describe(case[0]) for case in cases}
        longest_first = sorted(cases, key=lambda case: -case[0].stat().st_size)
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            results = list(pool.map(lambda case: compile_kernel(arguments.nvcc, case, pathlib.Path(folder)), longest_first))
    found = {key: figures for spills, _ in results for key, figures in spills.items()}
    problems = [error for _, error in results if error]
    if arguments.update and not problems:
        write_known(found, what)
    known = {}
    if arguments.seed == SEED:
        known = {(row["kernel"], row["function"]): tuple(int(row[column]) for column in COLUMNS[3:]) for row in read_known()}
        unknown = {kernel for kernel, _ in known} - {kernel.stem for kernel in drawn} - set(map(name_of_case, shipped))
        if not arguments.systems_python:
            unknown = {kernel for kernel in unknown if not kernel.startswith("system")}
        problems += [f"{kernel} of {KNOWN.name} is no kernel that is drawn" for kernel in sorted(unknown)]
    problems += problems_of(found, known, set(what))
    for problem in problems:
        name = problem.split(" ", 1)[0]
        print(f"FAILED: {problem}" + (f"\n  {what[name]}" if name in what else ""))
    print(f"{len(cases)} of {len(drawn) + len(shipped)} kernels compiled, seed {arguments.seed}, "
          f"{len({kernel for kernel, _ in found})} with a stack frame, {len(problems)} problems")
    return 1 if problems else 0


BLOCK = ("_ZN6spider8device_413sweep_block2dINS0_10BesideRimsIN17spider_random_0667StencilEEENS0_11Block2dFormILi{}ELi4ELi1ELi1E"
         "Li6ELNS0_6InputsE0ELb1EEEEEvNSt11conditionalIXsr6spider8device_49HasUpdateIT_vEE5valueENS0_15UpdateArgumentsENS0_14Sweep"
         "ArgumentsEE4typeE")
SAID = f"""ptxas info    : Function properties for {BLOCK.format(4)}
    8 bytes stack frame, 8 bytes spill stores, 24 bytes spill loads
ptxas info    : Used 78 registers, used 1 barriers
ptxas info    : Function properties for {BLOCK.format(8)}
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Function properties for _ZN6spider8device_413access_pointsIN17spider_random_0658ThisFileEEEvNS0_14PointArgumentsE
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
"""


def self_test() -> None:
    found = spills_of("a", SAID)
    assert found == {("a", "sweep_block2d"): (2, 24, 8, 24)}, found
    method = "spider::device_4::Levels3d<spider_a::Stencil>::run_boundary_noinline(spider::device_4::SweepArguments const&)"
    assert name_of(method) == "Levels3d::run_boundary_noinline"
    assert not problems_of(found, found, {"a"})
    assert problems_of(found, {}, {"a"}) == ["a sweep_block2d: 2 entries with 24 bytes of stack, 8 stored and 24 loaded instead "
                                             "of no stack frame"]
    for less in ((1, 24, 8, 24), (2, 16, 8, 24), (2, 24, 0, 24), (2, 24, 8, 20)):
        assert problems_of({("a", "sweep_block2d"): less}, found, {"a"}), less
    assert problems_of({}, found, {"a"}) and not problems_of({}, found, {"b"})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spider-gen")
    parser.add_argument("--nvcc", default="nvcc")
    parser.add_argument("--count", type=int, default=24)
    parser.add_argument("--systems-python", metavar="FILE")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--half-of", type=int, metavar="DAY")
    parser.add_argument("--architectures", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    arguments = parser.parse_args()
    if arguments.self_test:
        self_test()
        return 0
    if not arguments.spider_gen:
        parser.error("--spider-gen is missing")
    if arguments.update and arguments.seed != SEED:
        parser.error(f"{KNOWN.name} is of seed {SEED}")
    return check(arguments)


if __name__ == "__main__":
    sys.exit(main())
