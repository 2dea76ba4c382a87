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

# Labels of evaluate.sh --faces: the same stencil with each boundary.
BOUNDARIES = ("halo", "constant", "nearest", "periodic", "reflect", "mirror")


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
            if engine(row) not in BOUNDARIES and (engine(row) == "copy" or EVALUATED.match(stencil(row)))]


def boundary_costs(rows):
    """{(stencil, size): {boundary: row}} in bursts, where `halo` ran."""
    found = {}
    for row in select(rows, mode="burst", offset=0.0):
        if row["label"] in BOUNDARIES:
            found.setdefault((row["kernel"], row["size"]), {})[row["label"]] = row
    return {case: labels for case, labels in found.items() if "halo" in labels}


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
