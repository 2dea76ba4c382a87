"""Generates everything the accuracy tests need into one folder, with spider-gen alone: specs/ (random ones, by seed),
kernels/ (<kernel>.cu, .h) and plans/ (<kernel>.json from --explain, and what random specs mean). The folder can be
carried to a machine that has a GPU and no spider-gen. Standard library only."""

import argparse
import concurrent.futures
import os
import pathlib
import shutil
import subprocess
import sys

import random_specs


def run(command):
    """The standard output of a command that has to succeed; what it says on standard error is passed on if not."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command[:6]))} ...: exit {done.returncode}\n{done.stderr}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--spider-gen", required=True)
    parser.add_argument("--stencils", required=True, type=pathlib.Path, help="folder of the shipped specs")
    parser.add_argument("--folder", required=True, type=pathlib.Path)
    parser.add_argument("--count", type=int, default=random_specs.DEFAULT_COUNT)
    parser.add_argument("--seed", type=int, default=random_specs.DEFAULT_SEED)
    arguments = parser.parse_args()

    specs = arguments.folder / "specs"
    kernels = arguments.folder / "kernels"
    plans = arguments.folder / "plans"
    for folder in (specs, plans):  # kernels that did not change keep their time stamp
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
    random_names = random_specs.write_specs(specs, arguments.count, arguments.seed)
    paths = [specs / f"{name}.yaml" for name in random_names] + sorted(arguments.stencils.glob("*.yaml"))
    names = {path.stem for path in paths}
    for stale in kernels.glob("*"):
        if stale.stem not in names:
            stale.unlink()
    run([arguments.spider_gen, *paths, "-o", kernels])

    def explain(path):
        text = run([arguments.spider_gen, "--explain", "--explain-format", "json", path])
        (plans / f"{path.stem}.json").write_text(text, encoding="utf-8")

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(explain, paths))
    for name in random_names:
        shutil.copy(specs / f"{name}.expected.json", plans)
    print(f"{len(paths)} kernels in {kernels}: {len(random_names)} random ones, seed {arguments.seed}")


if __name__ == "__main__":
    main()
