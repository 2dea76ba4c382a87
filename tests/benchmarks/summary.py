#!/usr/bin/env python3
"""Prints the results of the evaluation as Markdown tables, from a CSV file of spider-bench.

usage: summary.py CSV
"""

import collections
import sys

from measurements import (ABLATION, BOUNDARIES, EVALUATED, LARGE, LINES, MAPPINGS, OURS, VARIANTS, ablation, boundary_costs,
                          by_stencil_and_engine, caption, engine, evaluated, length, lines, mappings, order, read_rows, select,
                          side, stencil, swap_costs, title, title_of)


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
    cases = sorted({case for case in burst | sustained if case[1] in OURS}, key=lambda case: (order(case[0]), case[1]))
    lines = []
    for one, name in cases:
        fast, long = burst.get((one, name)), sustained.get((one, name))
        lines.append([title_of(one, name), cell(fast, "time_us", "{:.1f}"), cell(fast, "ratio", "{:.3f}"),
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
    chosen = [row for row in select(rows, mode="burst", offset=0.0, storage="f16") if row["label"] in OURS and side(row)]
    found = {(row["kernel"], row["label"], side(row)): row for row in chosen if EVALUATED.match(row["kernel"])}
    counts = collections.Counter((kernel, label) for kernel, label, _ in found)
    cases = sorted((case for case, count in counts.items() if count > 1), key=lambda case: (order(case[0]), case[1]))
    sizes = sorted({size for kernel, label, size in found if (kernel, label) in cases})
    lines = [[str(size)] + [cell(found.get((*case, size)), "ratio", "{:.3f}") for case in cases] for size in sizes]
    return table(["edge"] + [f"{title_of(*case)}, x copy" for case in cases], lines)


def line_table(rows):
    """Times of lines and their ratios to the copy over the number of points, bursts."""
    found = {(row["kernel"], length(row)): row for row in lines(rows) if engine(row) != "copy"}
    kernels = sorted({kernel for kernel, _ in found})
    cells = [[str(points)] + [cell(found.get((kernel, points)), column, pattern) for kernel in kernels
                              for column, pattern in (("time_us", "{:.1f}"), ("ratio", "{:.3f}"))]
             for points in sorted({points for _, points in found})]
    return table(["points"] + [head for kernel in kernels for head in (f"{kernel}, us", "x copy")], cells)


def odd_table(rows):
    """Time per point on odd extents and on shifted rows over that on the large aligned field."""
    chosen = [row for row in select(rows, mode="burst", storage="f16")
              if row["label"] in OURS and EVALUATED.match(row["kernel"])]
    aligned = {(row["kernel"], row["label"]): row["gstencils"] for row in select(chosen, size=LARGE, offset=0.0)}
    cases = {}
    for row in chosen:
        kernel = row["kernel"], row["label"]
        if kernel in aligned and (row["size"] == "10007x9973" or (row["size"] == LARGE and row["offset"])):
            name = row["size"] + (" shifted" if row["offset"] else "")
            cases.setdefault(name, {})[kernel] = aligned[kernel] / row["gstencils"]
    names = sorted(cases)
    kernels = sorted({one for values in cases.values() for one in values}, key=lambda one: (order(one[0]), one[1]))
    lines = [[title_of(*kernel)] + [f"{cases[name][kernel]:.3f}" if kernel in cases[name] else "-" for name in names]
             for kernel in kernels]
    return table(["stencil", *names], lines)


def ablation_table(rows):
    """Every step from dense products to the plan's own kernel, and how many times as fast it is as the step before."""
    found = ablation(rows)
    lines_of_table = []
    for name, edge in sorted(found, key=lambda case: (order(case[0]), case[1])):
        cells = [title(name), str(edge)]
        before = None
        for label in ABLATION:
            row = found[name, edge][label]
            factor = f" ({before['time_us'] / row['time_us']:.2f})" if before else ""
            cells.append(f"{row['time_us']:.1f}{factor}")
            before = row
        lines_of_table.append(cells)
    return table(["stencil", "edge", *[f"{step}, us" for step in ABLATION.values()]], lines_of_table)


def swap_table(rows):
    """The swap in the addresses: the same kernel without and with it."""
    lines_of_table = [
        [title(name), "dense" if engine(swapped) == "dense" else "sparse", f"{plain['time_us']:.2f}", f"{swapped['time_us']:.2f}",
         f"{swapped['time_us'] / plain['time_us']:.4f}", cell(plain, "gigabytes_per_s", "{:.0f}"),
         cell(swapped, "gigabytes_per_s", "{:.0f}")]
        for name, plain, swapped in swap_costs(rows)]
    return table(["stencil", "engine", "no swap, us", "pair swap, us", "ratio", "no swap, GB/s", "pair swap, GB/s"],
                 lines_of_table)


def mapping_table(rows):
    """Outputs of a product in one row, and in two, in bursts and sustained."""
    columns = [(label, mode) for mode in ("burst", "sustained") for label in MAPPINGS]
    lines_of_table = [
        [title(name), *[cell(found.get(column), "time_us", "{:.1f}") for column in columns]]
        for name, found in sorted(mappings(rows).items(), key=lambda item: order(item[0]))]
    return table(["stencil", *[f"{MAPPINGS[label]}, {mode}, us" for label, mode in columns]], lines_of_table)


def boundary_table(rows):
    """What other boundaries than halo cost, in the same run."""
    lines_of_table = [
        [name, size, f"{labels['sparse']['time_us']:.1f}"]
        + [f"{labels[label]['time_us'] / labels['sparse']['time_us']:.3f}" if label in labels else "-"
           for label in BOUNDARIES]
        for (name, size), labels in sorted(boundary_costs(rows).items())]
    return table(["kernel", "size", "halo, us", *[f"{label.removeprefix('boundary_')}, x halo" for label in BOUNDARIES]],
                 lines_of_table)


def other_table(rows):
    """Kernels beyond the evaluation, on their largest field: bursts, and sustained where that was measured."""
    largest = {}
    sustained = {(row["label"], row["kernel"], row["size"]): row for row in select(rows, mode="sustained", offset=0.0)}
    for row in select(rows, mode="burst", offset=0.0):
        if row["label"] == "baseline" or row["label"] in VARIANTS:
            continue
        if not EVALUATED.match(stencil(row)) and not LINES.match(stencil(row)):
            best = largest.get((row["label"], row["kernel"]))
            if best is None or row["time_us"] >= best["time_us"]:
                largest[row["label"], row["kernel"]] = row
    lines = []
    for (label, name), row in sorted(largest.items()):
        long = sustained.get((label, name, row["size"]))
        lines.append([name, label, row["storage"], row["size"], cell(row, "time_us", "{:.1f}"),
                      cell(row, "ratio", "{:.3f}"), cell(row, "gstencils", "{:.0f}"), cell(long, "time_us", "{:.1f}"),
                      cell(long, "ratio", "{:.3f}")])
    return table(["kernel", "engine", "storage", "size", "burst, us", "x copy", "GStencils/s", "sustained, us", "x copy"],
                 lines)


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
        (f"Time per point over that of {LARGE} aligned, bursts", odd_table(rows)),
        ("f16 lines in bursts", line_table(rows)),
        ("Steps to the kernel as it is, f16 in bursts, and how many times as fast as the step before",
         ablation_table(rows)),
        (f"The swap in the addresses, {LARGE} f16 in bursts", swap_table(rows)),
        (f"Outputs of a product, {LARGE} f16", mapping_table(rows)),
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
