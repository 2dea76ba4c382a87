#!/usr/bin/env python3
"""Runs spider-gen on every bad spec of this folder and compares what it says with what its case expects (cases.py).

A run must end with status 1, print nothing to standard output and leave no file. With --update what is said is written
into the cases instead: read the difference before it is committed.
"""

import argparse
import difflib
import pathlib
import subprocess
import sys
import tempfile

import cases

LONGEST_RUN_S = 20


def check(generator: pathlib.Path, case: cases.Case, update: bool) -> list[str]:
    """What is wrong with one case."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / f"{case.name}.yaml").write_bytes(case.text)
        command = [generator, f"{case.name}.yaml", "-o", "output", *case.arguments]
        result = subprocess.run(command, cwd=folder, capture_output=True, timeout=LONGEST_RUN_S, check=False)
        written = sorted(path.name for path in folder.rglob("*") if path.name != f"{case.name}.yaml")
    problems = []
    if result.returncode != 1:
        problems.append(f"exit status {result.returncode} instead of 1")
    if result.stdout:
        problems.append(f"standard output holds {result.stdout!r}")
    if written:
        problems.append(f"files were written: {', '.join(written)}")

    said = result.stderr.decode("utf-8", errors="backslashreplace")
    if update:
        case.expected = said
    if said != case.expected:
        problems += difflib.unified_diff(case.expected.splitlines(), said.splitlines(), "expected", "said", lineterm="")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", type=pathlib.Path, help="the spider-gen to run")
    parser.add_argument("--update", action="store_true", help="write what is said into the cases")
    options = parser.parse_args()

    generator = options.generator.resolve()
    try:
        sections = cases.read_sections(complete=not options.update)
    except cases.Malformed as problem:
        print(f"FAILED {problem}")
        return 1
    count = failures = 0
    for section in sections:
        for case in section.cases:
            problems = check(generator, case, options.update)
            count += 1
            failures += bool(problems)
            if problems:
                print(f"FAILED {case.name} of {section.path.name}", *problems, sep="\n  ")
        if options.update:
            section.write()
    print(f"{count} cases, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
