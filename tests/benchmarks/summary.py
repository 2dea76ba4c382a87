#!/usr/bin/env python3
"""Prints the results of the evaluation as Markdown tables, from a CSV file of spider-bench.

usage: summary.py CSV
"""

import collections
import sys

from measurements import (BOUNDARIES, EVALUATED, LARGE, LINES, boundary_costs, by_stencil_and_engine, caption, engine,
                          evaluated, length, lines, order, read_rows, select, side, stencil, title)


def cell(row, column, pattern):
    """A number of a row, or a dash where there is none."""
    return pattern.format(row[column]) if row is not None and row[column] is not None else "-"


def table(head, lines):
    """A Markdown table; nothing where there are no lines."""
    if not lines:
        return ""
    rule = ["---"] * len(head)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *lines]) + "\n"


def evaluation_table(rows):
    """Bursts and sustained runs of the evaluation's stencils on the large field."""
    burst = by_stencil_and_engine(evaluated(rows, "burst"))
    sustained = by_stencil_and_engine(evaluated(rows, "sustained"))
    lines = []
    for name in sorted({one for one, label in burst | sustained if label == "sparse"}, key=order):
        fast, long = burst.get((name, "sparse")), sustained.get((name, "sparse"))
        lines.append([title(name), cell(fast, "time_us", "{:.1f}"), cell(fast, "ratio", "{:.3f}"),
                      cell(fast, "floor_us", "{:.1f}"), cell(fast, "gstencils", "{:.0f}"),
                      cell(long, "time_us", "{:.1f}"), cell(long, "ratio", "{:.3f}"), cell(long, "sm_mhz", "{:.0f}"),
                      cell(long, "power_w", "{:.0f}")])
    return table(["stencil", "burst, us", "x copy", "floor, us", "GStencils/s", "sustained, us", "x copy", "MHz", "W"],
                 lines)


def engine_table(rows):
    """Every engine and cuDNN on the large field in bursts, and how many times as long each takes."""
    burst = by_stencil_and_engine([row for row in evaluated(rows, "burst") if engine(row) != "copy"])
    others = sorted({name for _, name in burst if name != "sparse"})
    stencils = sorted({one for one, name in burst if name == "sparse"}, key=order)
    lines = []
    for one in stencils if others else []:
        ours = burst[one, "sparse"]
        cells = [title(one), cell(ours, "time_us", "{:.1f}")]
        for name in others:
            row = burst.get((one, name))
            factor = f" ({row['time_us'] / ours['time_us']:.2f})" if row else ""
            cells.append(cell(row, "time_us", "{:.1f}") + factor)
        lines.append(cells)
    return table(["stencil", "sparse, us", *[f"{name}, us (x sparse)" for name in others]], lines)


def size_table(rows):
    """Ratios to the copy over the size of square fields, bursts."""
    chosen = [row for row in select(rows, mode="burst", offset=0.0, storage="f16", label="sparse") if side(row)]
    found = {(row["kernel"], side(row)): row for row in chosen if EVALUATED.match(row["kernel"])}
    counts = collections.Counter(kernel for kernel, _ in found)
    cases = sorted((kernel for kernel, count in counts.items() if count > 1), key=order)
    sizes = sorted({size for kernel, size in found if kernel in cases})
    lines = [[str(size)] + [cell(found.get((kernel, size)), "ratio", "{:.3f}") for kernel in cases] for size in sizes]
    return table(["edge"] + [f"{title(kernel)}, x copy" for kernel in cases], lines)


def line_table(rows):
    """Times of lines and their ratios to the copy over the number of points, bursts."""
    found = {(row["kernel"], length(row)): row for row in lines(rows) if engine(row) != "copy"}
    kernels = sorted({kernel for kernel, _ in found})
    cells = [[str(points)] + [cell(found.get((kernel, points)), column, pattern) for kernel in kernels
                              for column, pattern in (("time_us", "{:.1f}"), ("ratio", "{:.3f}"))]
             for points in sorted({points for _, points in found})]
    return table(["points"] + [head for kernel in kernels for head in (f"{kernel}, us", "x copy")], cells)


def odd_table(rows):
    """Time per point on odd extents and on shifted rows over that of the same kernel on aligned rows."""
    chosen = select(rows, mode="burst", label="sparse")
    aligned = {(row["kernel"], row["size"]): row["gstencils"] for row in select(chosen, offset=0.0)}
    cases = {}
    for row in chosen:
        large = aligned.get((row["kernel"], row["size"] if row["offset"] else LARGE))
        if large and (row["size"] == "10007x9973" or row["offset"]):
            name = row["size"] + (" shifted" if row["offset"] else "")
            cases.setdefault(row["kernel"], {})[name] = large / row["gstencils"]
    names = sorted({name for values in cases.values() for name in values})
    lines = [[kernel] + [f"{cases[kernel][name]:.3f}" if name in cases[kernel] else "-" for name in names]
             for kernel in sorted(cases)]
    return table(["kernel", *names], lines)


def boundary_table(rows):
    """The cost of boundaries: the time with `halo`, and that of the others over it."""
    lines_of_table = [
        [name, size, f"{labels['halo']['time_us']:.1f}"]
        + [f"{labels[label]['time_us'] / labels['halo']['time_us']:.3f}" if label in labels else "-"
           for label in BOUNDARIES[1:]]
        for (name, size), labels in sorted(boundary_costs(rows).items())]
    return table(["kernel", "size", "halo, us", *[f"{label}, x halo" for label in BOUNDARIES[1:]]], lines_of_table)


def other_table(rows):
    """Kernels beyond the evaluation, on their largest field: bursts, and sustained where that was measured."""
    largest = {}
    sustained = {(row["kernel"], row["size"]): row for row in select(rows, mode="sustained", offset=0.0, label="sparse")}
    for row in select(rows, mode="burst", offset=0.0, label="sparse"):
        if not EVALUATED.match(stencil(row)) and not LINES.match(stencil(row)):
            best = largest.get(row["kernel"])
            if best is None or row["time_us"] >= best["time_us"]:
                largest[row["kernel"]] = row
    lines = []
    for name, row in sorted(largest.items()):
        long = sustained.get((name, row["size"]))
        lines.append([name, row["storage"], row["size"], cell(row, "time_us", "{:.1f}"), cell(row, "ratio", "{:.3f}"),
                      cell(row, "gstencils", "{:.0f}"), cell(long, "time_us", "{:.1f}"), cell(long, "ratio", "{:.3f}")])
    return table(["kernel", "storage", "size", "burst, us", "x copy", "GStencils/s", "sustained, us", "x copy"], lines)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__.strip().splitlines()[2], file=sys.stderr)
        return 2
    try:
        rows = read_rows(arguments[0])
    except (OSError, ValueError) as error:
        print(f"summary.py: {error}", file=sys.stderr)
        return 2
    if not rows:
        print("summary.py: no row has a time", file=sys.stderr)
        return 1
    parts = [
        (f"{LARGE} f16 against the copy", evaluation_table(rows)),
        (f"{LARGE} f16 in bursts, all engines", engine_table(rows)),
        ("Square f16 fields in bursts", size_table(rows)),
        ("Time per point over that of aligned rows, bursts", odd_table(rows)),
        ("f16 lines in bursts", line_table(rows)),
        ("Boundaries in bursts", boundary_table(rows)),
        ("Other kernels", other_table(rows)),
    ]
    print(caption(rows) + ".")
    for heading, text in parts:
        if text:
            print(f"\n{heading}:\n\n{text}", end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
