#!/usr/bin/env python3
"""Draws the figures of the evaluation from a CSV file of spider-bench, each as PNG and SVG.

usage: figures.py CSV FOLDER

Needs matplotlib. A figure whose rows are missing is left out, and that is said. Of rows of the same thing the last
counts. Exit status 0 if at least one figure was drawn, 1 if none was, 2 if the file is not one of spider-bench.
"""

import pathlib
import sys

import matplotlib

matplotlib.use("Agg")
matplotlib.rcParams.update({"svg.hashsalt": "spider-bench", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3,
                            "axes.axisbelow": True, "legend.frameon": False})
from matplotlib import pyplot  # noqa: E402  (the backend is chosen first)
from measurements import (  # noqa: E402
    EVALUATED, LARGE, by_stencil_and_engine, caption, engine, evaluated, length, lines, order, read_rows, select, side,
    title)

# Okabe and Ito's colours, which all eyes tell apart.
COLOURS = {"sparse": "#0072B2", "dense": "#E69F00", "cuda": "#009E73", "cudnn": "#CC79A7",
           "cudnn8": "#D55E00", "copy": "#555555"}
SPARE_COLOURS = ("#56B4E9", "#F0E442", "#000000")


def colour(name, names):
    """The same colour for the same engine in every figure."""
    others = [other for other in names if other not in COLOURS]
    return COLOURS.get(name) or SPARE_COLOURS[others.index(name) % len(SPARE_COLOURS)]


def save(figure, rows, folder, name, bottom=0.02):
    """Writes the figure twice; no date in it, so that the same rows give the same bytes."""
    figure.text(0.995, 0.005, caption(rows), ha="right", va="bottom", fontsize=6, color="#555555")
    figure.tight_layout(rect=(0, bottom, 1, 1))
    figure.savefig(folder / f"{name}.png", dpi=150, metadata={"Software": None})
    figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    pyplot.close(figure)


def grouped_bars(axes, stencils, engines, value, text="{:.0f}"):
    """One group per stencil, one bar per engine; value(stencil, engine) may be None."""
    width = 0.85 / len(engines)
    for index, name in enumerate(engines):
        places = [i + (index - (len(engines) - 1) / 2) * width for i in range(len(stencils))]
        values = [value(one, name) for one in stencils]
        known = [(place, number) for place, number in zip(places, values) if number is not None]
        axes.bar([place for place, _ in known], [number for _, number in known], width, label=name,
                 color=colour(name, engines))
        for place, number in known:
            axes.annotate(text.format(number), (place, number), (0, 2), textcoords="offset points", ha="center",
                          va="bottom", fontsize=6, rotation=90 if len(engines) > 2 else 0)
    axes.set_xticks(range(len(stencils)), [title(one) for one in stencils], rotation=30, ha="right")
    axes.grid(axis="x", visible=False)


def draw_rates(rows, folder):
    """GStencils/s of every engine for every stencil, bursts."""
    chosen = evaluated(rows, "burst")
    found = by_stencil_and_engine([row for row in chosen if engine(row) != "copy"])
    if not found:
        return False
    engines = sorted({name for _, name in found}, key=lambda name: (name.startswith("cudnn"), name != "sparse", name))
    stencils = sorted({one for one, _ in found}, key=order)
    figure, axes = pyplot.subplots(figsize=(9, 4))
    grouped_bars(axes, stencils, engines,
                 lambda one, name: found[one, name]["gstencils"] if (one, name) in found else None)
    copies = [row["gstencils"] for row in chosen if engine(row) == "copy"]
    if copies:
        axes.axhline(max(copies), color=COLOURS["copy"], linestyle="--", linewidth=1, label="device copy")
    axes.set_ylabel("GStencils/s")
    axes.set_title(f"{LARGE}, f16, single launches")
    axes.margins(y=0.15)
    axes.legend(ncols=len(engines) + 1, loc="upper center", bbox_to_anchor=(0.5, -0.2))
    save(figure, chosen, folder, "rates")
    return True


def draw_ratios(rows, folder):
    """Our kernels over the copy time, in bursts and sustained, with the floor."""
    modes = {mode: by_stencil_and_engine(evaluated(rows, mode)) for mode in ("burst", "sustained")}
    stencils = sorted({one for found in modes.values() for one, name in found if name == "sparse"}, key=order)
    if not stencils:
        return False
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for (mode, found), marker in zip(modes.items(), "os"):
        points = [(i, found[one, "sparse"]) for i, one in enumerate(stencils) if (one, "sparse") in found]
        points = [(i, row) for i, row in points if row["ratio"] is not None]
        if not points:
            continue
        axes.plot([i for i, _ in points], [row["ratio"] for _, row in points], marker, label=mode,
                  color=COLOURS["sparse"], fillstyle="full" if mode == "burst" else "none")
        if mode == "burst":
            floors = [(i, row["floor_us"] / row["copy_us"]) for i, row in points if row["floor_us"] is not None]
            axes.plot([i for i, _ in floors], [floor for _, floor in floors], "_", markersize=16,
                      label="floor: copy or tensor cores", color=COLOURS["dense"])
    axes.axhline(1, color=COLOURS["copy"], linestyle="--", linewidth=1, label="device copy")
    axes.set_xticks(range(len(stencils)), [title(one) for one in stencils], rotation=30, ha="right")
    axes.set_ylabel("time / copy time")
    axes.set_ylim(bottom=0.9)
    axes.set_title(f"{LARGE}, f16")
    axes.legend()
    save(figure, rows, folder, "ratios")
    return True


def draw_over_size(chosen, folder, name, size, what):
    """Rates and ratios of our kernels and rates of the copy over size(row), which `what` describes."""
    curves = {}
    for row in chosen:
        if row["label"] == "sparse":
            curves.setdefault(row["kernel"], {})[size(row)] = row
        elif engine(row) == "copy":
            best = curves.setdefault("device copy", {}).get(size(row))
            if best is None or row["gstencils"] > best["gstencils"]:
                curves["device copy"][size(row)] = row
    # Kernels that ran on a few sizes only are no trend.
    most = max((len(points) for points in curves.values()), default=0)
    curves = {kernel: points for kernel, points in curves.items() if len(points) > max(2, most / 2)}
    if not any(kernel != "device copy" for kernel in curves):
        return False
    figure, (rates, ratios) = pyplot.subplots(1, 2, figsize=(10, 4))
    for kernel in sorted(curves):
        places = sorted(curves[kernel])
        style = {"color": COLOURS["copy"], "linestyle": "--"} if kernel == "device copy" else {"marker": "."}
        rates.plot(places, [curves[kernel][place]["gstencils"] for place in places], label=kernel, **style)
        if kernel != "device copy":
            ratios.plot(places, [curves[kernel][place]["ratio"] for place in places], label=kernel, **style)
    ratios.axhline(1, color=COLOURS["copy"], linestyle="--", linewidth=1)
    for axes, label in ((rates, "GStencils/s"), (ratios, "time / copy time")):
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_xlabel(what)
        axes.set_ylabel(label)
    rates.legend()
    save(figure, chosen, folder, name)
    return True


def draw_trend(rows, folder):
    """Over the size of square fields, bursts."""
    chosen = [row for row in select(rows, mode="burst", offset=0.0, storage="f16") if side(row)]
    return draw_over_size(chosen, folder, "trend", side, "edge of a square field, f16")


def draw_lines(rows, folder):
    """Over the length of lines, bursts."""
    return draw_over_size(lines(rows), folder, "lines", lambda row: length(row) / 1e6, "million points of a line, f16")


def draw_load(rows, folder):
    """Clock and power of sustained runs."""
    chosen = [row for row in evaluated(rows, "sustained") if row["sm_mhz"] is not None]
    chosen = list({(row["kernel"], row["label"]): row for row in chosen if engine(row) in ("sparse", "copy")}.values())
    if not chosen:
        return False
    chosen.sort(key=lambda row: (engine(row) != "copy", order(row["kernel"]) if engine(row) != "copy" else (0, False)))
    names = [row["kernel"].replace("_", " ") if engine(row) == "copy" else title(row["kernel"])
             for row in chosen]
    figure, (clocks, powers) = pyplot.subplots(1, 2, figsize=(10, 4))
    for axes, column, label in ((clocks, "sm_mhz", "clock of the multiprocessors, MHz"), (powers, "power_w", "power, W")):
        known = [(i, row) for i, row in enumerate(chosen) if row[column] is not None]
        bars = axes.bar([i for i, _ in known], [row[column] for _, row in known],
                        color=[COLOURS[engine(row)] for _, row in known])
        axes.bar_label(bars, fmt="%.0f", fontsize=7)
        axes.set_xticks(range(len(names)), names, rotation=45, ha="right")
        axes.set_ylabel(label)
        axes.grid(axis="x", visible=False)
    figure.suptitle(f"{LARGE}, f16, back to back")
    save(figure, chosen, folder, "load")
    return True


def draw_odd_sizes(rows, folder):
    """Times per point on extents that divide nothing, and on rows that do not start on 16 bytes, over the aligned."""
    chosen = [row for row in select(rows, mode="burst", label="sparse", storage="f16") if EVALUATED.match(row["kernel"])]
    aligned = {row["kernel"]: row for row in select(chosen, size=LARGE, offset=0.0)}
    cases = {}
    for row in chosen:
        if row["kernel"] in aligned and (row["size"] == "10007x9973" or (row["size"] == LARGE and row["offset"])):
            name = row["size"] + (f", rows shifted by {row['offset']:.0f}" if row["offset"] else "")
            cases.setdefault(name, {})[row["kernel"]] = aligned[row["kernel"]]["gstencils"] / row["gstencils"]
    if not cases:
        return False
    stencils = sorted({one for values in cases.values() for one in values}, key=order)
    figure, axes = pyplot.subplots(figsize=(7, 4))
    grouped_bars(axes, stencils, sorted(cases), lambda one, name: cases[name].get(one), text="{:.2f}")
    axes.axhline(1, color=COLOURS["copy"], linestyle="--", linewidth=1)
    axes.set_ylabel(f"time per point / that of {LARGE}")
    axes.margins(y=0.15)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2))
    save(figure, chosen, folder, "odd_sizes")
    return True


def main(arguments):
    if len(arguments) != 2:
        print(__doc__.strip().splitlines()[2], file=sys.stderr)
        return 2
    try:
        rows = read_rows(arguments[0])
    except (OSError, ValueError) as error:
        print(f"figures.py: {error}", file=sys.stderr)
        return 2
    folder = pathlib.Path(arguments[1])
    folder.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for draw in (draw_rates, draw_ratios, draw_trend, draw_lines, draw_load, draw_odd_sizes):
        name = draw.__name__.removeprefix("draw_")
        if draw(rows, folder):
            drawn += 1
            print(f"{folder}/{name}.png and .svg")
        else:
            print(f"{name}: no rows for it")
    return 0 if drawn else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
