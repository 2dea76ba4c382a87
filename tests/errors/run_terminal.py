#!/usr/bin/env python3
"""Messages are coloured at a terminal and nowhere else: run_terminal.py GENERATOR

A pseudo terminal stands for the user's. Exit status 77, with the reason: there is none here.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

SPEC = "stencil: t\ndimensions: 5\n"


def read_all(terminal: int) -> str:
    said = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # the other end is closed
            piece = b""
        if not piece:
            return said.decode()
        said += piece


def messages(generator: pathlib.Path, folder: str, at_terminal: bool, output_at_terminal: bool = False, **variables: str) -> str:
    """What is said on standard error, which is at the terminal or a pipe, of a wrong spec."""
    ours, theirs = os.openpty()
    variables = {"PATH": os.environ["PATH"], "TERM": "xterm"} | variables
    process = subprocess.Popen([generator, "t.yaml", "-o", "out"], cwd=folder, env=variables,
                               stdout=theirs if output_at_terminal else subprocess.DEVNULL,
                               stderr=theirs if at_terminal else subprocess.PIPE, text=True)
    os.close(theirs)
    said = read_all(ours) if at_terminal else process.stderr.read()
    assert process.wait() == 1
    os.close(ours)
    assert "t.yaml:2:13: " in said.replace("\x1b[1m", ""), said
    return said


def main() -> int:
    generator = pathlib.Path(sys.argv[1]).resolve()
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:
        print(f"skipped: no pseudo terminal: {error}")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "t.yaml").write_text(SPEC, encoding="utf-8")
        wrong = []
        for what, coloured, said in (
                ("a terminal", True, messages(generator, folder, True)),
                ("a terminal, NO_COLOR being empty", True, messages(generator, folder, True, NO_COLOR="")),
                ("a terminal whose user wants no colour", False, messages(generator, folder, True, NO_COLOR="1")),
                ("a terminal that has none", False, messages(generator, folder, True, TERM="dumb")),
                ("a pipe", False, messages(generator, folder, False)),
                ("a pipe, beside a terminal", False, messages(generator, folder, False, output_at_terminal=True))):
            if ("\x1b" in said) != coloured:
                wrong.append(f"{what}: {said!r}")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
