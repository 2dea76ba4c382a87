"""Kernels of random systems of equations, system_000 and so on, that ranks can cut along most axes:

    generate.py --spider-gen PROGRAM --folder FOLDER [--count N] [--seed FIRST] [--shipped SPEC...]

Specs go to FOLDER/specs, kernels to FOLDER/kernels, those of shipped ones, too."""

import argparse
import pathlib
import subprocess
import sys

import random_system

ATTEMPTS = 20  # draws, until the generator has a plan
UNCUT = 6  # of so many systems one may be periodic along an axis for some fields alone


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spider-gen", type=pathlib.Path, required=True)
    parser.add_argument("--folder", type=pathlib.Path, required=True)
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shipped", type=pathlib.Path, nargs="*", default=[], metavar="SPEC")
    arguments = parser.parse_args()
    specs = arguments.folder / "specs"
    specs.mkdir(parents=True, exist_ok=True)
    paths = list(arguments.shipped)
    for index in range(arguments.count):
        path = specs / f"system_{index:03}.yaml"
        for attempt in range(ATTEMPTS):
            seed = arguments.seed + 1000 * index + attempt
            path.write_text(random_system.make(seed, path.stem, cut=index % UNCUT != 0), encoding="utf-8")
            done = subprocess.run([arguments.spider_gen, path, "--explain"], capture_output=True, text=True, check=False)
            if done.returncode == 0:
                break
        else:
            sys.exit(f"{path}: {ATTEMPTS} draws in turn were refused, the last one with\n{done.stderr}")
        paths.append(path)
    subprocess.run([arguments.spider_gen, *paths, "-o", arguments.folder / "kernels"], check=True)


if __name__ == "__main__":
    main()
