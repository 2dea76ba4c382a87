#!/usr/bin/env python3
"""Draws other programs beside ours, from the two CSV files of one run of measure.py: charts.py PEERS OURS FOLDER

Writes peer_sweeps and peer_loops, each as PNG and SVG: single sweeps, as Figure 10 of the SPIDER paper has them, and many time
steps. Of rows of one program, type and stencil the fastest counts. Needs matplotlib.
"""

import csv
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from figures import COLOURS, pyplot, save  # noqa: E402  (a folder above)
from measurements import engine, read_rows  # noqa: E402

# Kernels of ours and what measure.py calls their stencils.
SWEEPS = {"star of radius 1": ("star2d_r1", "heat2d_f32", "heat2d_f64"), "box of radius 1": ("box2d_r1", "box2d_r1_f32"),
          "star of radius 2": ("star2d_r2",), "box of radius 2": ("box2d_r2", "box2d_r2_f32"),
          "box of radius 3": ("box2d_r3", "box2d_r3_f32"), "box of radius 7": ("box2d_r7", "box2d_r7_f32")}
LOOPS = {"5-point": ("heat2d_steps", "heat2d_steps_f32", "heat2d_steps_f64"), "9-point": ("box2d_r1_steps_f32",),
         "7-point 3D": ("heat3d_steps", "heat3d_steps_f32"), "27-point 3D": ("box3d_r1_steps", "box3d_r1_steps_f32")}
SAME = {"star of radius 1": "5-point", "box of radius 1": "9-point", "box of radius 3": "49-point"}
OURS = "spider-gen"
PANELS = {"10240 x 10240": (10240**2, ("5-point", "9-point")), "768 x 768 x 768": (768**3, ("7-point 3D", "27-point 3D"))}


def rates(peers, ours, stencils, most_steps):
    """{stencil: {"program, type": rate}}, of peers' sweeps of no more steps than that."""
    found = {}
    for stencil, kernels in stencils.items():
        rows = [(f"{OURS}, {row['storage']}", row["gstencils"]) for row in ours if row["kernel"] in kernels and row["label"] != "baseline"]
        rows += [(f"cuDNN, {row['storage']}", row["gstencils"]) for row in ours if row["kernel"] == f"cudnn:{kernels[0]}"]
        rows += [(f"{row['peer']}, {row['storage']}", float(row["gstencils"])) for row in peers
                 if row["stencil"] in (stencil, SAME.get(stencil)) and int(row["steps_a_sweep"]) <= most_steps and row["gstencils"]]
        for name, rate in rows:
            best = found.setdefault(stencil, {})
            best[name] = max(rate, best.get(name, 0))
    return found


def draw(axes, found, names):
    """A group of bars for each stencil, ours first, then the others by their rates; each says what it is."""
    place, ticks = 0.0, []
    for stencil in names:
        bars = sorted(found[stencil].items(), key=lambda bar: (not bar[0].startswith(OURS), -bar[1]))
        ticks.append(place + (len(bars) - 1) / 2)
        for name, rate in bars:
            axes.bar(place, rate, 0.85, color=COLOURS["sparse" if name.startswith(OURS) else "dense"])
            axes.annotate(f"{name}: {rate:.0f}", (place, rate), (0, 3), textcoords="offset points", ha="center", va="bottom",
                          fontsize=6, rotation=90)
            place += 1
        place += 1
    axes.set_xticks(ticks, [name.replace(" of ", "\nof ") for name in names])
    axes.set_yscale("log")
    axes.grid(axis="x", visible=False)


def draw_sweeps(peers, ours, folder):
    found = rates(peers, ours, SWEEPS, 1)
    figure, axes = pyplot.subplots(figsize=(11, 5))
    draw(axes, found, [stencil for stencil in SWEEPS if stencil in found])
    for storage in ("f16", "f32", "f64"):
        copies = [row["gstencils"] for row in ours if engine(row) == "copy" and row["storage"] == storage and row["dimensions"] == 2]
        if copies:
            axes.axhline(max(copies), color=COLOURS["copy"], linestyle="--", linewidth=1)
            axes.annotate(f"copy, {storage}", (1, max(copies)), (-2, 2), xycoords=("axes fraction", "data"), textcoords="offset points",
                          ha="right", fontsize=6, color=COLOURS["copy"])
    axes.set_ylim(top=axes.get_ylim()[1] * 8)
    axes.set_ylabel("GStencils/s")
    axes.set_title("single sweeps, 2D, each program in its own type and size")
    save(figure, ours, folder, "peer_sweeps")


def draw_loops(peers, ours, folder):
    found = rates(peers, ours, LOOPS, 1000)
    figure, panels = pyplot.subplots(1, 2, figsize=(11, 5))
    for axes, (field, (points, stencils)) in zip(panels, PANELS.items()):
        draw(axes, found, [stencil for stencil in stencils if stencil in found])
        lowest, highest = axes.get_ylim()
        axes.set_ylim(lowest / 2, highest * 12)
        axes.set_ylabel("10^9 points x time steps / s")
        steps = axes.secondary_yaxis("right", functions=(lambda rate, points=points: rate * 1e9 / points,
                                                         lambda steps, points=points: steps * points / 1e9))
        steps.set_ylabel(f"steps / s of {field} points")
    figure.suptitle("many time steps, each program in its own type and size")
    save(figure, ours, folder, "peer_loops")


def main(arguments):
    if len(arguments) != 3:
        sys.exit(__doc__.splitlines()[0])
    with open(arguments[0], newline="", encoding="utf-8") as file:
        peers = list(csv.DictReader(file))
    ours = [row for row in read_rows(arguments[1]) if row["mode"] == "burst"]
    folder = pathlib.Path(arguments[2])
    folder.mkdir(parents=True, exist_ok=True)
    draw_sweeps(peers, ours, folder)
    draw_loops(peers, ours, folder)


if __name__ == "__main__":
    main(sys.argv[1:])
