#!/usr/bin/env python3
"""Builds and runs a peer that stand-ins make up, prints the table and draws the charts: peers_test.py FOLDER

The compilers are stand-ins that write a program which prints what EBISU's does; its sources are as much as the edits need.
"""

import csv
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PEERS = HERE.parent / "peers"
COMPILER = """#!/bin/sh
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\\necho "900 1 10240 10472 9 1.5 987.5"\\n' > "$2"
chmod +x "$2"
"""
SOURCES = {
    "2dstencil/common/cuda_common.cuh": "#if __CUDA_ARCH__==800\n",
    "3dstencil/common/cuda_common.cuh": "#if __CUDA_ARCH__==800\n",
    "3dstencil/j3d.driver.cpp": "  delete[] output_gold;\n}\n",
}


def run(script, *arguments, **variables):
    command = [sys.executable, "-B", PEERS / script, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | variables)


def write(folder, files):
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def build(folder, checkout):
    return run("measure.py", "build", "--build", folder / "build", f"EBISU={checkout}", PATH=f"{folder / 'bin'}:{os.environ['PATH']}")


def check(folder):
    write(folder, {"bin/nvcc": COMPILER, "bin/g++": COMPILER})
    for name in ("nvcc", "g++"):
        (folder / "bin" / name).chmod(0o755)
    write(folder / "checkout", SOURCES)
    built = build(folder, folder / "checkout")
    assert built.returncode == 0 and "EBISU: ebisu_3d27pt: built" in built.stdout, built.stdout + built.stderr
    copy = folder / "build/sources/EBISU"
    assert "return 0;" in (copy / "3dstencil/j3d.driver.cpp").read_text(encoding="utf-8"), "the copy lacks an edit"
    for name, text in SOURCES.items():
        assert (folder / "checkout" / name).read_text(encoding="utf-8") == text, f"{name} of the checkout was changed"

    # Another version than the edits are for is told, not compiled.
    write(folder / "other", SOURCES | {"3dstencil/j3d.driver.cpp": "}\n"})
    refused = build(folder, folder / "other")
    assert refused.returncode == 1 and "j3d.driver.cpp has no" in refused.stderr, refused.stderr

    ran = run("measure.py", "run", "--build", folder / "build", "--csv", folder / "peers.csv", "--only", "EBISU")
    assert ran.returncode == 0, ran.stderr
    with open(folder / "peers.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 6 and all(row["gstencils"] == "987.5" for row in rows), rows
    table = run("measure.py", "table", folder / "peers.csv").stdout
    assert "| EBISU | f32 | 5-point, 10240 x 10472 | 9 | 987.5 |" in table.splitlines(), table

    try:
        import matplotlib  # noqa: F401, PLC0415  (a machine without it draws nothing)
    except ImportError:
        return
    drawn = run("charts.py", folder / "peers.csv", HERE / "sample.csv", folder / "charts")
    assert drawn.returncode == 0, drawn.stderr
    for chart, word in (("peer_sweeps", "spider-gen, f16"), ("peer_loops", "EBISU, f64: 988")):
        assert word in (folder / "charts" / f"{chart}.svg").read_text(encoding="utf-8"), f"{chart} lacks {word}"


def main():
    with tempfile.TemporaryDirectory(dir=sys.argv[1]) as name:
        check(pathlib.Path(name))
    print("built, run and drawn")


main()
