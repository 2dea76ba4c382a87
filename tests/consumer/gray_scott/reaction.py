"""Gray and Scott's reaction as one spec, a system of two fields: the same as the two kernels of gray_scott.py.

With spider_gen installed: reaction.py --size 512 --steps 10000 --picture reaction.png, on the GPU if there is one."""

import argparse
import pathlib

import numpy as np
import spider_gen
from gray_scott import Reaction, begin

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--size", type=int, default=160, help="rows and columns")
parser.add_argument("--steps", type=int, default=9000)
parser.add_argument("--backend", default="auto")
parser.add_argument("--picture", metavar="FILE", help="of b, as PNG")
arguments = parser.parse_args()

reaction = spider_gen.stencil(pathlib.Path(__file__).with_name("gray_scott.yaml"), backend=arguments.backend)
two_kernels = Reaction(arguments.backend)
a, b = begin(arguments.size, arguments.size)
state = {"a": a, "b": b}

# One step from the same fields, of which all values are at most 1: either way rounds at most 12 products and sums.
worst = 0.0
for _ in range(20):
    new = reaction.iterate(state, 10)
    state, before = reaction(new), new
    for name, other in zip("ab", two_kernels.run(before["a"], before["b"], 1)):
        worst = max(worst, np.abs(state[name] - other).max())
print(f"one spec and two differ by {worst:.1e} after a step")
assert worst <= 2 * 12 * 2.0**-24

begun = (b > 0.1).mean()
state = reaction.iterate(state, arguments.steps)
alive = (state["b"] > 0.1).mean()
print(f"after {arguments.steps} more steps b lives on {100 * alive:.0f} % of the cells, at first on {100 * begun:.1f} %")
assert alive > 4 * begun, "the spots did not divide"
if arguments.picture:
    spider_gen.write_picture(arguments.picture, state["b"])
