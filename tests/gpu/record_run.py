#!/usr/bin/env python3
"""Appends a line to a table of runs, in the columns of runs.csv, and prints it: what build_and_run.sh did and what came of it.

record_run.py --table TABLE --root ROOT --drawn TEXT --command TEXT --failed STEPS OUTPUT...

OUTPUT: what check_kernels.py said, once for the checks (check.txt) and once for each share of each tool of
compute-sanitizer (TOOL-SHARE.txt). Standard library only.
"""

import argparse
import csv
import datetime
import pathlib
import re
import subprocess

COLUMNS = ("date", "commit", "device", "command", "kernels", "sweeps", "checks", "result")
SUMMARY = re.compile(r"^(\d+) kernels, (\d+) sweeps .*?, (\d+) checks of ", re.MULTILINE)


def said_by(command: list[str]) -> str:
    """The first line of what it prints; nothing where it cannot run."""
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return ""
    return lines[0] if lines else ""


def commit_of(root: pathlib.Path) -> str:
    """With a `+` where files differ from it; `-` where there is no repository, as on a machine that got a copy."""
    commit = said_by(["git", "-C", str(root), "rev-parse", "--short", "HEAD"])
    changed = said_by(["git", "-C", str(root), "status", "--porcelain", "--untracked-files=no"])
    return f"{commit}{'+' if changed else ''}" if commit else "-"


def totals(texts: list[str]) -> tuple[int, int, int] | tuple[str, str, str]:
    """Kernels, sweeps and checks of all these outputs, those that ended before their summary left out; texts without
    a character where there are no outputs."""
    if not texts:
        return "", "", ""
    found = [tuple(map(int, match.groups())) for text in texts for match in SUMMARY.finditer(text)]
    return tuple(map(sum, zip(*found))) if found else (0, 0, 0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", required=True, type=pathlib.Path)
    parser.add_argument("--root", required=True, type=pathlib.Path)
    parser.add_argument("--drawn", required=True, help="how the kernels were drawn")
    parser.add_argument("--command", required=True)
    parser.add_argument("--failed", required=True, help="the steps that failed, or nothing")
    parser.add_argument("outputs", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()

    texts = {path.stem: path.read_text(encoding="utf-8", errors="replace") for path in arguments.outputs if path.exists()}
    kernels, sweeps, checks = totals([text for name, text in texts.items() if name == "check"])
    result = f"FAILED: {arguments.failed}" if arguments.failed else "right"
    tools = sorted({name.rpartition("-")[0] for name in texts} - {""})
    for tool in tools:
        watched = totals([text for name, text in texts.items() if name.startswith(f"{tool}-")])
        result += f"; {tool} of {watched[0]} kernels"
    device = said_by(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"])
    command = " of ".join(filter(None, (arguments.command, arguments.drawn)))
    row = (datetime.date.today(), commit_of(arguments.root), device, command, kernels, sweeps, checks, result)

    begins = not arguments.table.exists()
    with open(arguments.table, "a", encoding="utf-8", newline="") as table:
        writer = csv.writer(table, lineterminator="\n")
        if begins:
            writer.writerow(COLUMNS)
        writer.writerow(row)
    print(f"recorded in {arguments.table}: {arguments.table.read_text(encoding='utf-8').splitlines()[-1]}")


if __name__ == "__main__":
    main()
