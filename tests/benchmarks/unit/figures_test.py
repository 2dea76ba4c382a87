#!/usr/bin/env python3
"""Draws every figure and prints every table from the committed example (made-up numbers), and checks that wrong files are
refused: figures_test.py FOLDER"""

import pathlib
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE = HERE / "sample.csv"
FIGURES = {
    "rates": ["Star-2D1R", "Box-2D7R", "sparse", "dense", "cudnn", "device copy", "example device"],
    "ratios": ["burst", "sustained", "floor"],
    "trend": ["box2d_r1", "box2d_r7"],
    "lines": ["box1d_r1", "box1d_r7", "million points of a line"],
    "load": ["copy engine", "Box-2D7R"],
    "odd_sizes": ["10007x9973", "10240x10240, rows shifted by 1"],
}


TABLE_LINES = [
    "example device, driver 0.0; 2026-01-02.",
    "| Box-2D7R | 150.0 | 1.471 | 107.1 | 699 | 165.0 | 1.618 | 1830 | 675 |",
    "| Box-2D3R | 118.0 | 1082.0 (9.17) | 160.0 (1.36) |",
    "| 512 | 1.200 | 1.600 |",
    "| box2d_r1 | 1.060 | 1.607 |",
    "| 10240000 | 11.0 | 1.100 | 12.0 | 1.200 |",
    "| 1000000000 | 1050.0 | 1.050 | - | - |",
    "| heat2d | f16 | 10240x10240 | 120.0 | 1.176 | 874 | 130.0 | 1.275 |",
    "| box3d_r1 | 768x768x768 | 500.0 | - | - | 1.020 | - | 1.040 |",
]


def run(script, *arguments):
    command = [sys.executable, "-B", HERE.parent / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def draw(csv, folder):
    return run("figures.py", csv, folder)


def bars_of_rates(folder):
    """The SVG, in which every number is drawn as text or as a length."""
    return (folder / "rates.svg").read_bytes()


def main(folder):
    try:
        import matplotlib  # noqa: F401, PLC0415  (a machine without it skips this test)
    except ImportError:
        print("skipped: there is no matplotlib")
        return
    tables = run("summary.py", SAMPLE)
    assert tables.returncode == 0, tables.stderr
    for line in TABLE_LINES:
        assert line in tables.stdout.splitlines(), f"{line} is not in\n{tables.stdout}"
    with tempfile.TemporaryDirectory(dir=folder) as name:
        out = pathlib.Path(name)
        result = draw(SAMPLE, out / "a")
        assert result.returncode == 0, result.stderr
        for figure, words in FIGURES.items():
            assert (out / "a" / f"{figure}.png").read_bytes().startswith(b"\x89PNG"), figure
            svg = (out / "a" / f"{figure}.svg").read_text(encoding="utf-8")
            xml.etree.ElementTree.fromstring(svg)
            for word in words:  # matplotlib leaves the text that it draws as a comment
                assert f"<!-- {word}" in svg or f"{word} -->" in svg or word in svg, f"{figure} lacks {word}"

        # The same rows give the same figure, another number another one.
        assert draw(SAMPLE, out / "b").returncode == 0
        assert bars_of_rates(out / "a") == bars_of_rates(out / "b")
        text = SAMPLE.read_text(encoding="utf-8")
        rate = next(line.split(",")[18] for line in text.splitlines() if ",sparse,box2d_r7," in line)
        (out / "changed.csv").write_text(text.replace(f",{rate},", ",500,"), encoding="utf-8")
        assert draw(out / "changed.csv", out / "c").returncode == 0
        assert bars_of_rates(out / "a") != bars_of_rates(out / "c")

        # No rows are no error of the file, but no success either.
        (out / "empty.csv").write_text(text.splitlines()[0] + "\n", encoding="utf-8")
        assert draw(out / "empty.csv", out / "d").returncode == 1

        (out / "other.csv").write_text("a,b\n1,2\n", encoding="utf-8")
        refused = draw(out / "other.csv", out / "e")
        assert refused.returncode == 2 and "no column device" in refused.stderr, refused.stderr
        (out / "text.csv").write_text(text.replace(f",{rate},", ",fast,"), encoding="utf-8")
        refused = draw(out / "text.csv", out / "f")
        assert refused.returncode == 2 and "gstencils is 'fast', not a number" in refused.stderr, refused.stderr
        assert draw(out / "missing.csv", out / "g").returncode == 2
        assert run("summary.py", out / "empty.csv").returncode == 1
        assert run("summary.py", out / "other.csv").returncode == 2
    print("every figure was drawn and every table printed")


main(pathlib.Path(sys.argv[1]))
