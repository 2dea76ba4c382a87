"""Reads the CSV files of spider-bench; what figures.py and summary.py share. Standard library only."""

import csv
import re

NEEDED = ("device", "driver", "date", "label", "kernel", "dimensions", "storage", "size", "offset", "mode", "time_us",
          "copy_us", "ratio", "gstencils", "gigabytes_per_s", "floor_us", "sm_mhz", "power_w")
NUMBERS = ("dimensions", "offset", "time_us", "copy_us", "ratio", "gstencils", "gigabytes_per_s", "floor_us",
           "sm_mhz", "power_w")
EVALUATED = re.compile(r"(star|box)2d_r(1|2|3|5|7)$")
LINES = re.compile(r"box1d_r(1|2|7)$")
LARGE = "10240x10240"

# Engines that are measured in full: the kernels of generated/, and those of the tag v0.2-evaluation for sm_90a.
OURS = ("sparse", "warpgroup")

# Labels of evaluate.sh --variants. The steps of the ablation, each with one thing more than that before:
ABLATION = {"dense_element": "dense products, 2-byte loads", "sparse_element": "sparse products, element swap",
            "sparse_pair": "pair swap, 16-byte loads", "sparse": "tiles, as planned"}
# Without the swap in the addresses, and with it:
SWAPS = {"sparse_none": "windows", "dense_none": "dense"}
# The same stencil with another boundary than halo, which is what `sparse` has:
BOUNDARIES = tuple(f"boundary_{rule}" for rule in ("constant", "nearest", "periodic", "reflect", "mirror"))
# Outputs of a product in one row, and in two:
MAPPINGS = {"windows": "one row, L = 16", "row_pairs": "pairs of rows, L = 8"}
VARIANTS = (set(ABLATION) | set(SWAPS) | set(BOUNDARIES) | set(MAPPINGS)) - {"sparse"}


def read_rows(path):
    """Rows that have a time, as dictionaries; numbers are floats, or None where absent."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        missing = [name for name in NEEDED if name not in (reader.fieldnames or [])]
        if missing:
            raise ValueError(f"{path} has no column {', '.join(missing)}: it is no CSV file of spider-bench")
        rows = list(reader)
    for number, row in enumerate(rows, start=2):
        for name in NUMBERS:
            try:
                row[name] = float(row[name]) if row[name] else None
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {name} is '{row[name]}', not a number") from error
    return [row for row in rows if row["time_us"] is not None]


def select(rows, **wanted):
    """Rows whose columns have these values."""
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def engine(row):
    """What a row is compared as: a library's label, cudnn, cudnn8 or copy."""
    if row["label"] != "baseline":
        return row["label"]
    name, _, convolved = row["kernel"].partition(":")
    return name if convolved else "copy"


def stencil(row):
    """The stencil that a row computes: cuDNN's rows name it, too."""
    return row["kernel"].rpartition(":")[2]


def by_stencil_and_engine(rows):
    """{(stencil, engine): row}, the last of each."""
    return {(stencil(row), engine(row)): row for row in rows}


def order(name):
    """Stencils of the evaluation: star before box, small radius first."""
    shape, radius = EVALUATED.match(name).groups()
    return int(radius), shape != "star"


def title(name):
    """E.g. star2d_r1 -> Star-2D1R, as the paper calls it."""
    shape, radius = EVALUATED.match(name).groups()
    return f"{shape.capitalize()}-2D{radius}R"


def title_of(name, label):
    """The same of a kernel of OURS."""
    return title(name) + ("" if label == "sparse" else f" ({label})")


def caption(rows):
    """Device, driver and days of measurement."""
    days = sorted({row["date"][:10] for row in rows})
    span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    devices = ", ".join(sorted({f"{row['device']}, driver {row['driver']}" for row in rows}))
    return f"{devices}; {span}"


def evaluated(rows, mode):
    """Rows of the evaluation's stencils on the large aligned field, and the copies of it."""
    chosen = select(rows, mode=mode, size=LARGE, offset=0.0, storage="f16")
    return [row for row in chosen
            if engine(row) not in VARIANTS and (engine(row) == "copy" or EVALUATED.match(stencil(row)))]


def ablation(rows):
    """{(stencil, edge): {label: row}} of squares on which every step of the ablation ran, in bursts."""
    found = {}
    for row in select(rows, mode="burst", offset=0.0, storage="f16"):
        if row["label"] in ABLATION and side(row) and EVALUATED.match(row["kernel"]):
            found.setdefault((row["kernel"], side(row)), {})[row["label"]] = row
    return {case: steps for case, steps in found.items() if len(steps) == len(ABLATION)}


def swap_costs(rows):
    """(stencil, row without the swap in the addresses, row with it), in bursts on the large field."""
    found = by_stencil_and_engine(select(rows, mode="burst", size=LARGE, offset=0.0))
    return [(one, row, found[one, SWAPS[label]]) for (one, label), row in sorted(found.items())
            if label in SWAPS and (one, SWAPS[label]) in found]


def boundary_costs(rows):
    """{(stencil, size): {label: row}} of one run each, with the row of `sparse`, in bursts."""
    found = {}
    for row in select(rows, mode="burst", offset=0.0):
        if row["label"] == "sparse" or row["label"] in BOUNDARIES:
            found.setdefault((row["kernel"], row["size"], row["date"]), {})[row["label"]] = row
    return {case[:2]: labels for case, labels in found.items() if "sparse" in labels and len(labels) > 1}


def mappings(rows):
    """{stencil: {(label, mode): row}} of the mappings of outputs, on the large field."""
    found = {}
    for row in select(rows, size=LARGE, offset=0.0):
        if row["label"] in MAPPINGS:
            found.setdefault(row["kernel"], {})[row["label"], row["mode"]] = row
    return found


def lines(rows):
    """Bursts of f16 lines, and the copies of them."""
    chosen = select(rows, mode="burst", dimensions=1.0, storage="f16", offset=0.0)
    return [row for row in chosen if engine(row) == "copy" or (row["label"] == "sparse" and LINES.match(row["kernel"]))]


def length(row):
    """The points of a line, or None."""
    return int(row["size"]) if row["dimensions"] == 1 else None


def side(row):
    """The edge of a square field, or None."""
    extents = row["size"].split("x")
    return int(extents[0]) if len(extents) == 2 and extents[0] == extents[1] else None
