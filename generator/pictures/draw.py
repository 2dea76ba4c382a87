#!/usr/bin/env python3
"""Draws how a kernel works, from its plan.

  spider-gen --explain --explain-format json --length 16 stencils/box2d_r3.yaml > plan.json
  spider-gen --explain --explain-format json stencils/gauss2d_r7.yaml > streamed.json
  python3 generator/pictures/draw.py FOLDER plan.json streamed.json
      writes swap.svg, registers.svg and streaming.svg into FOLDER, the last of the second plan
  python3 generator/pictures/draw.py --check FOLDER plan.json streamed.json
      compares them with what is there, and exits 1 where they differ

Everything drawn is read from the plan: which output a row of the kernel matrix is, which input a column is, what is in a
lane's registers, which rows are in flight. Standard library only.
"""

import argparse
import colorsys
import json
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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("plan", type=pathlib.Path)
    parser.add_argument("streamed", type=pathlib.Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    plan = json.loads(arguments.plan.read_text(encoding="utf-8"))
    streamed = json.loads(arguments.streamed.read_text(encoding="utf-8"))
    middle = next(product["operand"] for product in plan["passes"][0]["products"] if product["dy"] == 0)
    operand = Operand(plan, middle)
    pictures = {
        "swap.svg": swap_picture(operand, plan),
        "registers.svg": registers_picture(operand, plan),
        "streaming.svg": streaming_picture(streamed),
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
