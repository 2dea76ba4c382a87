#!/usr/bin/env python3
"""Draws how a kernel works, from its plan.

  spider-gen --explain --explain-format json stencils/box2d_r5.yaml > plan.json
  spider-gen --explain --explain-format json --engine sparse stencils/gauss2d_r7.yaml > streamed.json
  spider-gen --explain --explain-format json stencils/heat2d_steps.yaml > passes.json
  python3 generator/pictures/draw.py FOLDER plan.json streamed.json passes.json
      writes swap.svg and registers.svg of the first plan, streaming.svg of the second and passes.svg of the third into FOLDER
  python3 generator/pictures/draw.py --check FOLDER plan.json streamed.json passes.json
      compares them with what is there, and exits 1 where they differ

Everything drawn is read from the plan: which output a row of the kernel matrix is, which input a column is, what is in a
lane's registers, which rows are in flight. Standard library only.
"""

import argparse
import colorsys
import json
import math
import pathlib
import struct
import sys
from xml.sax.saxutils import escape

CELL = 22
FONT = 'font-family="DejaVu Sans, Verdana, sans-serif"'
BLANK = "#ffffff"
LINE = "#b8bec6"
STRONG = "#3b4252"
ACCENT = "#d1495b"
GREY = "#e5e9ee"


class Picture:
    """An SVG under construction; lengths are pixels."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" {FONT}>',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" fill="{BLANK}"/>',
        ]

    def box(self, x: int, y: int, width: int, height: int, fill: str = "none", edge: str = LINE, thick: int = 1) -> None:
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{edge}" '
                          f'stroke-width="{thick}"/>')

    def text(self, x: int, y: int, words: str, size: int = 13, anchor: str = "start", colour: str = STRONG,
             bold: bool = False) -> None:
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
                          f"{escape(words)}</text>")

    def cell(self, x: int, y: int, width: int, words: str, fill: str, size: int = 13) -> None:
        self.box(x, y, width, CELL, fill)
        self.text(x + width // 2, y + 16, words, size, "middle")

    def grid(self, x: int, y: int, columns: int, rows: int) -> None:
        """The lines of a matrix of blank cells."""
        lines = [f"M{x} {y + row * CELL}h{columns * CELL}" for row in range(rows + 1)]
        lines += [f"M{x + column * CELL} {y}v{rows * CELL}" for column in range(columns + 1)]
        self.parts.append(f'<path d="{"".join(lines)}" stroke="{LINE}" fill="none"/>')

    def arrow(self, x1: int, y1: int, x2: int, y2: int, colour: str = STRONG) -> None:
        """A line with a head, to the right or down."""
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="2"/>')
        back, aside = ((-8, 0), (0, 4)) if y1 == y2 else ((0, -8), (4, 0))
        corners = [(x2 + back[0] + side * aside[0], y2 + back[1] + side * aside[1]) for side in (-1, 1)]
        head = " ".join(f"{x},{y}" for x, y in [(x2, y2), *corners])
        self.parts.append(f'<polygon points="{head}" fill="{colour}"/>')

    def finished(self) -> str:
        return "\n".join([*self.parts, "</svg>\n"])


class Operand:
    """A kernel matrix: what stands where, and what its letters are."""

    def __init__(self, plan: dict, index: int) -> None:
        one_pass = plan["passes"][0]
        self.mapping = one_pass["mapping"]
        self.operand = one_pass["operands"][index]
        self.metadata = one_pass["metadata"][self.operand["metadata"]]
        self.matrix = self.operand["matrix"]
        self.outputs = [position[-1] for position in self.mapping["row_output"]]
        self.inputs = [position[-1] for position in self.mapping["column_input"]]

    def place(self, row: int, column: int) -> int | None:
        """Which weight of the window this is, or None for a zero."""
        if self.matrix[row][column] == 0:
            return None
        return self.inputs[column] - self.outputs[row] - self.mapping["window_low"]

    def kept(self, row: int) -> list[int]:
        """The columns that 2:4 keeps of a row, as the metadata says."""
        columns = []
        for group in range(8):
            lane = 4 * (row % 8) + 2 * self.operand["selector"] + group // 4
            nibble = self.metadata[lane] >> (16 * (row // 8) + 4 * (group % 4)) & 0xF
            columns += [4 * group + position for position in (nibble & 3, nibble >> 2)]
        return columns


def letter(place: int | None) -> str:
    return "" if place is None else chr(ord("a") + place)


def colour(place: int | None) -> str:
    if place is None:
        return BLANK
    red, green, blue = colorsys.hls_to_rgb(place * 5 % 16 / 16, 0.82, 0.7)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def name(offset: int) -> str:
    return f"x{offset:+d}" if offset else "x"


def draw_matrix(picture: Picture, top: int, operand: Operand, rows: list[int], columns: list[int], title: str) -> None:
    left = 64
    picture.text(left, top - 34, title, 15, bold=True)
    picture.grid(left, top, len(columns), len(rows))
    for at, column in enumerate(columns):
        picture.text(left + at * CELL + CELL // 2, top - 8, f"{operand.inputs[column]:+d}", 10, "middle")
    for down, row in enumerate(rows):
        y = top + down * CELL
        picture.text(left - 8, y + 16, name(operand.outputs[row]), 12, "end")
        for at, column in enumerate(columns):
            place = operand.place(row, column)
            if place is not None:
                picture.cell(left + at * CELL, y, CELL, letter(place), colour(place))
    for group in range(len(columns) // 4):
        picture.box(left + group * 4 * CELL, top, 4 * CELL, len(rows) * CELL, edge=STRONG, thick=2)


def swap_picture(operand: Operand, plan: dict) -> str:
    """The kernel matrix before and after the swap."""
    rows, columns = range(len(operand.outputs)), range(len(operand.inputs))
    height = len(rows) * CELL
    picture = Picture(64 + len(columns) * CELL + 20, 2 * height + 190, "A kernel matrix before and after the swap")
    draw_matrix(picture, 64, operand, sorted(rows, key=lambda row: operand.outputs[row]),
                sorted(columns, key=lambda column: operand.inputs[column]),
                f"{plan['stencil']}, one row of weights: rows are outputs, columns are inputs")
    draw_matrix(picture, height + 154, operand, list(rows), list(columns),
                f"after the swap ({operand.mapping['name']}): no group of four holds more than two weights")
    return picture.finished()


def telling_lane(operand: Operand) -> int:
    """A lane whose metadata differ among each other and whose registers hold many weights."""
    def worth(lane: int) -> tuple[int, int]:
        nibbles = {operand.metadata[lane] >> 4 * nibble & 0xF for nibble in range(8)}
        halves = [word >> shift & 0xFFFF for word in operand.operand["registers"][lane] for shift in (0, 16)]
        return sum(half != 0 for half in halves), len(nibbles)
    return max((lane for lane in range(32) if lane % 4 // 2 == operand.operand["selector"]), key=worth)


def half_text(bits: int) -> str:
    value = struct.unpack("<e", struct.pack("<H", bits))[0]
    return f"{value:.4g}"


def draw_kept(picture: Picture, left: int, top: int, operand: Operand, lane: int) -> None:
    """The compressed matrix, with what a lane holds of it."""
    picture.text(left, top - 18, "kept by 2:4: two of each four columns", 15, bold=True)
    picture.grid(left, top, 16, 16)
    for row in range(16):
        picture.text(left - 22, top + row * CELL + 16, name(operand.outputs[row]), 12, "end")
        for at, column in enumerate(operand.kept(row)):
            place = operand.place(row, column)
            if place is not None:
                picture.cell(left + at * CELL, top + row * CELL, CELL, letter(place), colour(place))
    for word in range(4):
        x, y = left + (2 * (lane % 4) + 8 * (word // 2)) * CELL, top + (lane // 4 + 8 * (word % 2)) * CELL
        picture.box(x, y, 2 * CELL, CELL, edge=ACCENT, thick=3)
        picture.text(x - 3, y + 10, f"a{word}", 10, "end", ACCENT, bold=True)


def draw_values(picture: Picture, left: int, top: int, operand: Operand, lane: int) -> None:
    """The four registers of A: a half each for two kept neighbours."""
    picture.text(left, top - 26, f"A, lane {lane}: 16 bytes, one load", 15, bold=True)
    for word in range(4):
        y = top + word * (CELL + 6)
        row = lane // 4 + 8 * (word % 2)
        picture.text(left, y + 16, f"a{word}", 13, colour=ACCENT, bold=True)
        bits = operand.operand["registers"][lane][word]
        for half in range(2):
            column = operand.kept(row)[2 * (lane % 4) + half + 8 * (word // 2)]
            place = operand.place(row, column)
            told = f"{letter(place)} = {half_text(bits >> 16 * half & 0xFFFF)}" if place is not None else "0"
            picture.cell(left + 30 + half * 130, y, 130, told, colour(place), 12)
        picture.text(left + 300, y + 16, f"0x{bits:08x}", 12)


def draw_metadata(picture: Picture, left: int, top: int, operand: Operand, lane: int) -> None:
    """Eight nibbles: four groups of two rows. A lane whose selector is another's holds nothing of this operand."""
    picture.text(left, top - 26, f"metadata, lane {lane}: which two of each four", 15, bold=True)
    word = operand.metadata[lane]
    for nibble in range(8):
        row = lane // 4 + 8 * (nibble // 4)
        group = 4 * (lane % 4 % 2) + nibble % 4
        y = top + nibble // 4 * (CELL + 6)
        bits = word >> 4 * nibble & 0xF
        picture.cell(left + 50 + nibble % 4 * 92, y, 92, f"group {group}: {bits & 3}, {bits >> 2}", GREY, 12)
        picture.text(left, y + 16, name(operand.outputs[row]), 12)
    picture.text(left + 50, top + 2 * (CELL + 6) + 14, f"0x{word:08x}: all operands of a mapping share it", 12)


def draw_inputs(picture: Picture, left: int, top: int, operand: Operand, lane: int) -> None:
    """The four registers of B: column n of X, inputs as they lie in memory."""
    column, quad = lane // 4, lane % 4
    base = column * operand.mapping["outputs_per_column"]
    picture.text(left, top - 26, f"B, lane {lane}: 16 bytes of the field, one load", 15, bold=True)
    for word in range(4):
        y = top + word * (CELL + 6)
        picture.text(left, y + 16, f"b{word}", 13, bold=True)
        for half in range(2):
            offset = base + operand.inputs[8 * word + 2 * quad + half]
            picture.cell(left + 30 + half * 130, y, 130, f"in[{name(offset)}]", GREY, 12)
    first = operand.inputs[2 * quad]
    picture.text(left, top + 4 * (CELL + 6) + 14, f"inputs {name(base + first)} to {name(base + first + 7)}: "
                 f"the swap is nothing but this lane's address", 12)


def registers_picture(operand: Operand, plan: dict) -> str:
    """What a lane holds of an operand, its metadata and the inputs."""
    lane = telling_lane(operand)
    picture = Picture(940, 540, "What a lane holds")
    picture.text(20, 30, f"{plan['stencil']}: what a lane of the warp holds for one mma.sp.m16n8k32", 16, bold=True)
    draw_kept(picture, 80, 96, operand, lane)
    draw_values(picture, 510, 96, operand, lane)
    draw_metadata(picture, 510, 262, operand, lane)
    draw_inputs(picture, 510, 394, operand, lane)
    return picture.finished()


def streaming_picture(plan: dict) -> str:
    """One step of a walk: a row arrives, feeds all rows in flight, and one is complete."""
    one_pass = plan["passes"][0]
    streaming = one_pass["streaming"]
    products = one_pass["products"]
    rows, ring = streaming["rows_in_flight"], streaming["ring_rows"]
    high = max(product["dy"] for product in products)
    top, step = 92, 26
    height = top + max(ring, rows + 3) * step + 66
    picture = Picture(940, height, "How rows stream through a warp")
    width = 128 * streaming["tiles_per_warp"]
    title = f"{plan['stencil']}: a warp walks down its strip of {width} columns; this is one row step"
    picture.text(20, 30, title, 16, bold=True)

    picture.text(20, 72, f"ring of {ring} rows, shared memory", 13, bold=True)
    for slot in range(ring):
        y = top + slot * step
        picture.box(20, y, 200, CELL, ACCENT if slot == 0 else GREY)
        words = "input row y, arrived" if slot == 0 else f"y{slot:+d}, being copied"
        picture.text(120, y + 16, words, 12, "middle", BLANK if slot == 0 else STRONG)
    picture.text(20, top + ring * step + 18, "asynchronous copies run ahead", 12)

    picture.text(300, 72, f"{len(products)} products: one fragment, all operands", 13, bold=True)
    picture.text(640, 72, f"{rows} rows in flight, accumulators", 13, bold=True)
    middle = top + CELL // 2
    picture.arrow(220, middle, 296, middle, ACCENT)
    for index, row in enumerate(range(rows)):
        dy = high - row
        y = top + index * step
        of_row = [product for product in products if product["dy"] == dy]
        operands = ", ".join(str(product["operand"]) for product in of_row)
        picture.box(300, y, 260, CELL, GREY)
        words = f"row of weights dy = {dy}: operand {operands}" if of_row else f"dy = {dy}: none"
        picture.text(430, y + 16, words, 12, "middle")
        picture.arrow(560, y + CELL // 2, 636, y + CELL // 2)
        target = "y" if dy == 0 else f"y{-dy:+d}"
        picture.box(640, y, 150, CELL, "#cfe8d5" if index == 0 else GREY)
        picture.text(715, y + 16, f"output row {target}", 12, "middle")
    picture.arrow(790, middle, 836, middle)
    picture.text(842, middle + 5, "complete:", 12, bold=True)
    picture.text(842, middle + 21, "rounded,", 12)
    picture.text(842, middle + 37, "transposed,", 12)
    picture.text(842, middle + 53, "stored", 12)
    words = f"each input row is loaded once; output row y{rows - high:+d} begins with the next one"
    picture.text(300, top + rows * step + 18, words, 12)
    return picture.finished()


SHADES = 10


def draw_shades(picture: Picture, left: int, top: int, size: int, cells: dict[tuple[int, int], float]) -> None:
    """Cells (row, column) of a matrix, darker the larger their magnitude; one path a shade."""
    largest = max(abs(value) for value in cells.values())
    paths: dict[int, list[str]] = {}
    for (row, column), value in sorted(cells.items()):
        # By the logarithm: weights far out would not be seen otherwise.
        shade = math.floor(SHADES + 1.2 * math.log2(abs(value) / largest)) if value else 0
        if shade > 0:
            paths.setdefault(shade, []).append(f"M{left + column * size} {top + row * size}h{size}v{size}h-{size}z")
    for shade, path in sorted(paths.items()):
        picture.parts.append(f'<path d="{"".join(path)}" fill="{STRONG}" fill-opacity="{shade / SHADES:.1f}"/>')


def composed_weights(plan: dict) -> dict[tuple[int, int], float]:
    """The weights of all steps of a sweep: those of one, convolved."""
    taps = {(tap["at"][1], tap["at"][2]): tap["weight"] for tap in plan["taps"]}
    weights = {(0, 0): 1.0}
    for _ in range(plan["steps"]):
        following: dict[tuple[int, int], float] = {}
        for (y, x), weight in weights.items():
            for (dy, dx), tap in taps.items():
                following[y + dy, x + dx] = following.get((y + dy, x + dx), 0.0) + weight * tap
        weights = following
    return weights


class Passes:
    """The lists of a sweep in two passes, from its operands."""

    def __init__(self, plan: dict) -> None:
        one_pass = plan["passes"][0]
        self.rank = one_pass["streaming"]["rank"]
        (self.low, self.high), _ = one_pass["streaming"]["list_reach"]
        operands = {source: [one_pass["operands"][product["operand"]] for product in one_pass["products"] if product["source"] == source]
                    for source in (0, 1)}
        order = [position[-1] for position in one_pass["sources"][0]["row_output"]]
        self.x_matrices = self.matrices(operands[0], "shift", order)
        self.y_matrices = self.matrices(operands[1], "dy", list(range(16)))

    def matrices(self, operands: list[dict], first: str, order: list[int]) -> list[dict[tuple[int, int], float]]:
        """(output, input): weight, of each pair; outputs and inputs of an operand are in such an order."""
        chunks = len(operands) // self.rank
        pairs = []
        for pair in range(self.rank):
            matrix = {}
            for operand in operands[pair * chunks:(pair + 1) * chunks]:
                for row, weights in enumerate(operand["matrix"]):
                    for column, weight in enumerate(weights):
                        matrix[order[row], operand[first] + order[column]] = weight
            pairs.append(matrix)
        return pairs

    def along_x(self, pair: int) -> list[float]:
        return [self.x_matrices[pair][0, place] for place in range(-self.low, self.high + 1)]

    def along_y(self, pair: int) -> list[float]:
        return [self.y_matrices[pair][0, place] for place in range(-self.low, self.high + 1)]


def draw_list(picture: Picture, left: int, top: int, weights: list[float], upright: bool) -> None:
    """Bars of a list's weights from an axis, along y or along x."""
    scale = 30 / max(abs(weight) for weight in weights)
    for place, weight in enumerate(weights):
        long = round(abs(weight) * scale)
        before = long if weight < 0 else 0
        if long and upright:
            picture.box(left - before, top + 4 * place, long, 4, ACCENT, ACCENT, 0)
        elif long:
            picture.box(left + 4 * place, top - long + before, 4, long, ACCENT, ACCENT, 0)
    length = 4 * len(weights)
    picture.parts.append(f'<path d="M{left} {top}{"v" if upright else "h"}{length}" stroke="{STRONG}"/>')


def draw_lists(picture: Picture, plan: dict, passes: Passes) -> None:
    """The composed weights, and the lists whose products they nearly are."""
    span = passes.low + passes.high + 1
    composed = {(y + passes.low, x + passes.low): weight for (y, x), weight in composed_weights(plan).items()
                if -passes.low <= y <= passes.high and -passes.low <= x <= passes.high}
    truncation = plan["passes"][0]["streaming"]["truncation"]
    picture.text(20, 66, f"1  {plan['steps']} steps are one stencil", 13, bold=True)
    draw_shades(picture, 40, 86, 4, composed)
    picture.box(40, 86, 4 * span, 4 * span)
    picture.text(196, 158, "\u2248", 26)
    for pair in range(passes.rank):
        left = 260 + pair * 290
        if pair:
            picture.text(left - 70, 158, "+", 26)
        draw_list(picture, left, 86, passes.along_y(pair), upright=True)
        picture.text(left + 44, 158, "x", 18)
        draw_list(picture, left + 64, 164, passes.along_x(pair), upright=False)
    picture.text(250, 66, f"2  nearly a sum of {passes.rank} products of lists along y and x, off by {truncation:.1e}", 13, bold=True)


def draw_bands(picture: Picture, left: int, top: int, size: int, matrix: dict[tuple[int, int], float]) -> tuple[int, int]:
    """A list as the matrices of 16 outputs by 16 inputs of a pass; the first input and the last one."""
    inputs = [place for _, place in matrix]
    first, last = min(inputs), max(inputs)
    draw_shades(picture, left, top, size, {(row, place - first): weight for (row, place), weight in matrix.items()})
    for chunk in range((last - first + 1) // 16):
        picture.box(left + chunk * 16 * size, top, 16 * size, 16 * size, edge=STRONG, thick=2)
    return first, last


def draw_passes(picture: Picture, passes: Passes) -> None:
    """Pass x, the sums that stay in registers, pass y."""
    top, size = 300, 5
    side = 16 * size
    picture.text(20, 256, "3  pass x: 16 input rows times bands", 13, bold=True)
    picture.text(326, 256, "4  rounded", 13, bold=True)
    picture.text(496, 256, "5  pass y: times bands along y, each to other outputs", 13, bold=True)
    for pair, (along_x, along_y) in enumerate(zip(passes.x_matrices, passes.y_matrices)):
        y = top + pair * (side + 44)
        first, last = draw_bands(picture, 20, y, size, along_x)
        picture.text(20, y - 8, f"list {pair + 1} along x: 16 outputs from inputs x{first:+d} to x{last:+d}", 11)
        picture.arrow(270, y + side // 2, 316, y + side // 2)
        picture.box(326, y, 110, side, GREY, STRONG)
        picture.text(381, y + side // 2 - 4, "16 rows,", 11, "middle")
        picture.text(381, y + side // 2 + 12, "16 columns", 11, "middle")
        picture.arrow(440, y + side // 2, 486, y + side // 2)
        first, last = draw_bands(picture, 496, y, size, along_y)
        picture.text(496, y - 8, f"list {pair + 1} along y: from rows y{first:+d} to y{last:+d}", 11)
    middle = top + side + 22
    groups = (last - first + 1) // 16
    picture.arrow(746, middle, 780, middle)
    picture.box(790, middle - 36, 136, 72, "#cfe8d5")
    picture.text(858, middle - 12, f"{groups} groups of 16 rows", 11, "middle")
    picture.text(858, middle + 4, "under way, the first", 11, "middle")
    picture.text(858, middle + 20, "complete: stored", 11, "middle")


def passes_picture(plan: dict) -> str:
    """Many steps, or a separable stencil, as two small products of matrices instead of a large one."""
    passes = Passes(plan)
    picture = Picture(940, 530, "A sweep in two passes")
    products = len(plan["passes"][0]["products"])
    picture.text(20, 30, f"{plan['stencil']}: {plan['steps']} time steps of a warp in two passes, {products} products a tile", 16, bold=True)
    draw_lists(picture, plan, passes)
    draw_passes(picture, passes)
    return picture.finished()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("streamed", type=pathlib.Path)
    parser.add_argument("passes", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text(encoding="utf-8"))
    streamed = json.loads(arguments.streamed.read_text(encoding="utf-8"))
    passes = json.loads(arguments.passes.read_text(encoding="utf-8"))
    middle = next(product["operand"] for product in plan["passes"][0]["products"] if product["dy"] == 0)
    operand = Operand(plan, middle)
    pictures = {
        "swap.svg": swap_picture(operand, plan),
        "registers.svg": registers_picture(operand, plan),
        "streaming.svg": streaming_picture(streamed),
        "passes.svg": passes_picture(passes),
    }
    stale = 0
    for file, text in pictures.items():
        path = arguments.folder / file
        if not arguments.check:
            path.write_text(text, encoding="utf-8")
        elif not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path} is not what generator/pictures/draw.py draws; the first lines of that file say how to draw it anew")
            stale = 1
    return stale


if __name__ == "__main__":
    sys.exit(main())
