#!/usr/bin/env python3
"""Counts the instructions of kernels as the compiler gives them: of the whole kernel, and of one round of its main
loop, the innermost one with the most MMAs, and the shortest of those: that of walks away from the edges.

usage: instructions.py NVDISASM CUBIN...

CUBIN is what nvcc -cubin makes of a generated file; a kernel is called by the file's name. Prints a table in Markdown.
"""

import collections
import re
import subprocess
import sys

INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9_]*)")
LABEL = re.compile(r"^\s*(\.L_x_\w+):")
JUMP = re.compile(r"\bBRA\b.*`\((\.L_x_\w+)\)")
COLUMNS = ("HMMA", "LDS", "PRMT", "LDGSTS", "STG")


def read(nvdisasm, path):
    """The kernel's instructions in order, without NOPs and what never runs, and the (first, last) of its loops."""
    text = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=True).stdout
    names, places, loops = [], {}, []
    for line in text.splitlines():
        if found := LABEL.match(line):
            places[found[1]] = len(names)
        elif (found := INSTRUCTION.search(line)) and found[1] != "NOP" and "@!PT" not in line:
            jump = JUMP.search(line)
            if jump and jump[1] in places:
                loops.append((places[jump[1]], len(names)))
            names.append(found[1])
    return names, loops


def main_loop(names, loops):
    """Counts of the loop with the most MMAs among those that have no loop with MMAs inside."""
    busy = [loop for loop in set(loops) if "HMMA" in names[loop[0] : loop[1] + 1]]
    inner = [loop for loop in busy
             if not any(other != loop and loop[0] <= other[0] and other[1] <= loop[1] for other in busy)]
    counts = [collections.Counter(names[first : last + 1]) for first, last in inner]
    return max(counts, key=lambda count: (count["HMMA"], -count.total()), default=collections.Counter())


def main(arguments):
    if len(arguments) < 2:
        print(__doc__.strip().splitlines()[3], file=sys.stderr)
        return 2
    print("| kernel | all | main loop | " + " | ".join(f"{name} in it" for name in COLUMNS) + " |")
    print("|---|" + "---|" * (2 + len(COLUMNS)))
    for path in arguments[1:]:
        names, loops = read(arguments[0], path)
        loop = main_loop(names, loops)
        name = path.rpartition("/")[2].removesuffix(".cubin")
        cells = [name, len(names), loop.total(), *(loop[column] for column in COLUMNS)]
        print("| " + " | ".join(map(str, cells)) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
