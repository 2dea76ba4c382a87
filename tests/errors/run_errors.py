#!/usr/bin/env python3
"""Runs spider-gen on every bad spec of this folder and compares what it says with the `.expected` file beside it.

NAME.yaml      the spec
NAME.expected  standard error, exactly
NAME.args      further arguments, one a line (optional)

A run must end with status 1, print nothing to standard output and leave no file. With --update the .expected files
are written instead of compared: read the difference before it is committed.
"""

import argparse
import difflib
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).resolve().parent
FEWEST_CASES = 40
LONGEST_RUN_S = 20


def run(generator: pathlib.Path, spec: pathlib.Path, output: pathlib.Path) -> subprocess.CompletedProcess:
    arguments = spec.with_suffix(".args")
    extra = arguments.read_text(encoding="utf-8").splitlines() if arguments.exists() else []
    command = [generator, spec.name, "-o", output, *extra]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, timeout=LONGEST_RUN_S, check=False)


def check(generator: pathlib.Path, spec: pathlib.Path, update: bool) -> list[str]:
    """What is wrong with one case."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "output"
        result = run(generator, spec, output)
        written = sorted(path.name for path in output.rglob("*")) if output.exists() else []
    problems = []
    if result.returncode != 1:
        problems.append(f"exit status {result.returncode} instead of 1")
    if result.stdout:
        problems.append(f"standard output holds {result.stdout!r}")
    if written:
        problems.append(f"files were written: {', '.join(written)}")

    said = result.stderr.decode("utf-8", errors="backslashreplace")
    expected = spec.with_suffix(".expected")
    if update:
        expected.write_text(said, encoding="utf-8")
    wanted = expected.read_text(encoding="utf-8") if expected.exists() else ""
    if not wanted:
        problems.append(f"{expected.name} is missing or empty")
    if said != wanted:
        problems += difflib.unified_diff(wanted.splitlines(), said.splitlines(), expected.name, "said", lineterm="")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", type=pathlib.Path, help="the spider-gen to run")
    parser.add_argument("--update", action="store_true", help="write the .expected files")
    options = parser.parse_args()

    generator = options.generator.resolve()
    specs = sorted(FOLDER.glob("*.yaml"))
    failures = 0
    for spec in specs:
        problems = check(generator, spec, options.update)
        failures += bool(problems)
        if problems:
            print(f"FAILED {spec.name}", *problems, sep="\n  ")
    orphans = [path.name for path in FOLDER.glob("*.expected") if not path.with_suffix(".yaml").exists()]
    if orphans:
        print(f"FAILED without a spec: {', '.join(sorted(orphans))}")
    if len(specs) < FEWEST_CASES:
        print(f"FAILED: {len(specs)} cases, at least {FEWEST_CASES} belong here")
    print(f"{len(specs)} cases, {failures} failed")
    return 1 if failures or orphans or len(specs) < FEWEST_CASES else 0


if __name__ == "__main__":
    sys.exit(main())
