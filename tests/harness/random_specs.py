"""Writes random 2D f16 specs random_000.yaml ... and beside each what it means, random_000.expected.json: taps and
boundary as this writer knows them, so that the reader and the plan are checked too. Standard library only."""

import argparse
import json
import pathlib
import random
import struct

MAXIMUM_DX = 31
MAXIMUM_DY = 7
DEFAULT_SEED = 20250117
DEFAULT_COUNT = 200
WEIGHT_KINDS = ("exact", "inexact", "f16", "f16x2", "tiny", "large", "wide")


def is_exact_in_f16(value):
    return struct.unpack("<e", struct.pack("<e", value))[0] == value


def make_weight(rng, kind, spread=1.0):
    """One non-zero weight, short enough to be read in the spec. `spread` narrows the wide kind for factors."""
    sign = rng.choice((-1, 1))
    if kind == "exact":
        return sign * rng.randint(1, 255) / rng.choice((16, 64, 256))
    if kind == "tiny":
        return sign * float(f"{rng.uniform(0.4e-4, 2.5e-4):.6g}")
    if kind == "large":
        return sign * float(f"{rng.uniform(200, 5000):.7g}")
    if kind == "wide":
        return sign * float(f"{10 ** rng.uniform(-4.6 * spread, 0):.6g}")
    return sign * float(f"{rng.uniform(0.02, 2):.6g}")


def make_reach(rng, limit, typical):
    """(low, high) with low <= high: mostly around 0, sometimes far, lopsided or on one side only."""
    form = rng.random()
    if form < 0.55:
        return -rng.randint(0, typical), rng.randint(0, typical)
    if form < 0.7:
        return -rng.randint(0, limit), rng.randint(0, limit)
    if form < 0.8:
        low = rng.randint(1, limit)
        return low, rng.randint(low, limit)
    if form < 0.9:
        high = -rng.randint(1, limit)
        return -rng.randint(-high, limit), high
    return (-limit, rng.randint(-2, 2)) if rng.random() < 0.5 else (rng.randint(-2, 2), limit)


def taps_spec(rng, kind, offsets=None):
    if offsets is None:
        y_low, y_high = make_reach(rng, MAXIMUM_DY, 3)
        x_low, x_high = make_reach(rng, MAXIMUM_DX, 5)
        cells = [(dy, dx) for dy in range(y_low, y_high + 1) for dx in range(x_low, x_high + 1)]
        offsets = sorted(rng.sample(cells, min(len(cells), rng.choice((1, 2, 3, 5, 8, 13, 24, 40)))))
    taps = {offset: make_weight(rng, kind) for offset in offsets}
    order = list(taps)
    rng.shuffle(order)
    lines = []
    for dy, dx in order:
        at = f"[{dy}, {dx}]"
        if rng.random() < 0.3:
            named = [f"{axis}: {value}" for axis, value in (("y", dy), ("x", dx)) if value != 0]
            at = "{" + ", ".join(named) + "}" if named else at
        lines.append(f"  - {{at: {at}, weight: {taps[dy, dx]!r}}}")
    return taps, "shape: taps\ncoefficients:\n" + "\n".join(lines) + "\n"


def box_spec(rng, kind, radius_y=None, radius_x=None, density=None):
    if radius_y is None:
        radius_y = rng.choice((0, 1, 1, 1, 2, 2, 3, 4, 5))
        radius_x = rng.choice((0, 1, 1, 2, 2, 3, 4, 7, 8, 9, 12))
        density = rng.choice((1.0, 1.0, 1.0, 0.4))
    rows = []
    taps = {}
    for dy in range(-radius_y, radius_y + 1):
        row = []
        for dx in range(-radius_x, radius_x + 1):
            weight = make_weight(rng, kind) if (dy, dx) == (0, 0) or rng.random() < density else 0
            row.append(repr(weight))
            if weight:
                taps[dy, dx] = weight
        rows.append("[" + ", ".join(row) + "]")
    return taps, "shape: box\ncoefficients:\n" + "".join(f"  - {row}\n" for row in rows)


def star_spec(rng, kind):
    radius_y = rng.randint(1, MAXIMUM_DY if rng.random() < 0.2 else 3)
    radius_x = rng.randint(1, MAXIMUM_DX if rng.random() < 0.2 else 4)
    with_center = rng.random() < 0.6
    axes = {}
    for axis, radius in (("y", radius_y), ("x", radius_x)):
        axes[axis] = [make_weight(rng, kind) for _ in range(2 * radius + (0 if with_center else 1))]
    taps = {}
    center = make_weight(rng, kind)
    middle = center if with_center else axes["y"][radius_y] + axes["x"][radius_x]
    if middle:
        taps[0, 0] = middle
    for axis, radius in (("y", radius_y), ("x", radius_x)):
        outer = axes[axis] if with_center else axes[axis][:radius] + axes[axis][radius + 1 :]
        for distance, weight in zip([d for d in range(-radius, radius + 1) if d], outer):
            taps[(distance, 0) if axis == "y" else (0, distance)] = weight
    text = "shape: star\n"
    if rng.random() < 0.3:
        text += f"radius: {{y: {radius_y}, x: {radius_x}}}\n"
    named = [f"center: {center!r}"] if with_center else []
    named += [f"{axis}: [{', '.join(map(repr, weights))}]" for axis, weights in axes.items()]
    return taps, text + "coefficients: {" + ", ".join(named) + "}\n"


def product_spec(rng, kind):
    factor = "inexact" if kind in ("tiny", "large", "f16", "f16x2") else kind
    scale = {"tiny": 1.7e-4, "large": 800.0}.get(kind, 1)
    axes = {}
    for axis, radii in (("y", (0, 1, 2, 3, 5)), ("x", (0, 1, 2, 3, 7, 8))):
        radius = rng.choice(radii)
        if factor == "exact":  # short enough for the product to be exact in f16 too
            axes[axis] = [rng.choice((-1, 1)) * rng.randint(1, 31) / 16 for _ in range(2 * radius + 1)]
        else:
            axes[axis] = [make_weight(rng, factor, spread=0.45) for _ in range(2 * radius + 1)]
    taps = {}
    for i, at_y in enumerate(axes["y"]):
        for j, at_x in enumerate(axes["x"]):
            taps[i - len(axes["y"]) // 2, j - len(axes["x"]) // 2] = at_y * at_x * scale
    text = "shape: product\n" + (f"scale: {scale!r}\n" if scale != 1 else "")
    named = [f"{axis}: [{', '.join(map(repr, weights))}]" for axis, weights in axes.items()]
    return taps, text + "coefficients: {" + ", ".join(named) + "}\n"


def make_face(rng):
    rule = rng.choice(("halo", "constant", "nearest"))
    value = rng.choice((0, 1, -0.5, 3.25, rng.randint(-64, 64) / 16)) if rule == "constant" else 0
    return rule, value


def face_text(face):
    return f"{{constant: {face[1]!r}}}" if face[0] == "constant" else face[0]


def make_boundary(rng):
    """{axis: {side: (rule, value)}} and its text, in every form that a spec may have."""
    form = rng.random()
    if form < 0.1:
        face = ("halo", 0)
        return {axis: {"low": face, "high": face} for axis in "yx"}, ""
    if form < 0.45:
        face = make_face(rng)
        return {axis: {"low": face, "high": face} for axis in "yx"}, f"boundary: {face_text(face)}\n"
    faces = {}
    texts = []
    for axis in "yx":
        axis_form = rng.random()
        if axis_form < 0.1:
            faces[axis] = {"low": ("halo", 0), "high": ("halo", 0)}
        elif axis_form < 0.4:
            face = make_face(rng)
            faces[axis] = {"low": face, "high": face}
            texts.append(f"{axis}: {face_text(face)}")
        else:
            low, high = make_face(rng), make_face(rng)
            faces[axis] = {"low": low, "high": high}
            texts.append(f"{axis}: {{low: {face_text(low)}, high: {face_text(high)}}}")
    return faces, "boundary: {" + ", ".join(texts) + "}\n" if texts else ""


# The first specs are chosen: corners that a draw would rarely hit.
CHOSEN = (
    lambda rng: ("exact", taps_spec(rng, "exact", [(0, 0)])),
    lambda rng: ("exact", taps_spec(rng, "exact", [(7, 31)])),
    lambda rng: ("inexact", taps_spec(rng, "inexact", [(-7, -31)])),
    lambda rng: ("exact", box_spec(rng, "exact", 7, 7, 1.0)),
    lambda rng: ("inexact", box_spec(rng, "inexact", 7, 7, 1.0)),
    lambda rng: ("exact", box_spec(rng, "exact", 7, 31, 1.0)),
    lambda rng: ("f16x2", box_spec(rng, "f16x2", 7, 31, 0.5)),
    lambda rng: ("exact", box_spec(rng, "exact", 0, 31, 1.0)),
    lambda rng: ("inexact", box_spec(rng, "inexact", 7, 0, 1.0)),
    lambda rng: ("exact", taps_spec(rng, "exact", [(2, 9), (2, 31), (7, 17)])),
    lambda rng: ("exact", taps_spec(rng, "exact", [(-3, -31), (-3, -24), (-1, -9)])),
    lambda rng: ("inexact", taps_spec(rng, "inexact", [(-7, 31), (0, 0), (7, -31)])),
    lambda rng: ("exact", taps_spec(rng, "exact", [(0, dx) for dx in (-31, -25, -24, -17, -16, -9, -8)])),
    lambda rng: ("exact", taps_spec(rng, "exact", [(0, dx) for dx in (7, 8, 15, 16, 23, 24, 31)])),
    lambda rng: ("tiny", box_spec(rng, "tiny", 2, 2, 1.0)),
    lambda rng: ("large", box_spec(rng, "large", 1, 4, 1.0)),
)


def make_spec(index, seed):
    """(name, spec text, expected meaning) of one random spec."""
    rng = random.Random(f"{seed}/{index}")
    name = f"random_{index:03d}"
    if index < len(CHOSEN):
        kind, (taps, body) = CHOSEN[index](rng)
    else:
        kind = WEIGHT_KINDS[index % len(WEIGHT_KINDS)]
        make_shape = rng.choices((taps_spec, box_spec, star_spec, product_spec), (40, 22, 22, 16))[0]
        taps, body = make_shape(rng, kind)
    faces, boundary = make_boundary(rng)
    mode = kind if kind in ("f16", "f16x2") else "auto"
    text = f"stencil: {name}\ndescription: random, weights {kind}\ndimensions: 2\nstorage: f16\n"
    text += f"weights: {mode}\n" if mode != "auto" or rng.random() < 0.3 else ""
    expected = {
        "stencil": name,
        "seed": seed,
        "weights": mode,
        "exact": all(map(is_exact_in_f16, taps.values())),
        "taps": [[dy, dx, weight] for (dy, dx), weight in sorted(taps.items())],
        "boundary": faces,
    }
    return name, text + body + boundary, expected


def write_specs(folder, count, seed):
    """Writes `count` specs and their meanings; returns their names."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    for index in range(count):
        name, text, expected = make_spec(index, seed)
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
        (folder / f"{name}.expected.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")
        names.append(name)
    return names


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--count", type=int, default=DEFAULT_COUNT)
    parser.add_argument("--seed", type=int, default=DEFAULT_SEED)
    arguments = parser.parse_args()
    names = write_specs(arguments.folder, arguments.count, arguments.seed)
    print(f"{len(names)} random specs in {arguments.folder}, seed {arguments.seed}")


if __name__ == "__main__":
    main()
