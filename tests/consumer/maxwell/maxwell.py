"""Light: absorbing layers reflect less than -60 dB in 2D, and Yee's scheme keeps energy in a periodic box in 3D.

With spider_gen installed: maxwell.py --picture light.png, on the GPU if there is one."""

import argparse
import pathlib

import numpy as np
import spider_gen

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--backend", default="auto")
parser.add_argument("--picture", metavar="FILE", help="of the electric field between the layers, as PNG")
arguments = parser.parse_args()
FOLDER = pathlib.Path(__file__).parent
LAYER = 12  # cells


def pulse(n, steps, source):
    """Ez of n x n cells with layers at all faces after so many steps, and what a point at a distance of 20 cells saw."""
    light = spider_gen.stencil(FOLDER / "maxwell2d.yaml", backend=arguments.backend)
    written = ("ez", "hx", "hy", "hx_y", "hy_x", "ez_x", "ez_y")
    state = {name: np.zeros((n, n), np.float32) for name in written}
    for half in (0, 0.5):
        at = np.arange(n) + half
        depth = np.clip(np.maximum(LAYER - at, at - (n - 1 - LAYER)) / LAYER, 0, None)
        sigma, alpha = 0.8 * 4 * 0.5 * depth**3, 0.05 * (1 - depth)  # both times dt, at c = 1/2
        keep = np.where(depth > 0, np.exp(-sigma - alpha), 0)
        grow = np.where(depth > 0, sigma / (sigma + alpha + 1e-30) * (keep - 1), 0)
        for axis in "xy":
            end = axis + ("h" if half else "")
            state |= {"keep_" + end: keep.astype(np.float32), "grow_" + end: grow.astype(np.float32)}
    t = (np.arange(steps) - 60) / 20
    signal = (-2 * t * np.exp(-t * t))[:, None]
    y, x = source
    new, seen = light.iterate(state, steps, inject={"ez": ([source], signal)}, record={"ez": [(y, x - 20)]})
    return new["ez"], seen["ez"][:, 0]


STEPS = 500
ez, seen = pulse(120, STEPS, (60, 40))
_, wanted = pulse(420, STEPS, (210, 210))  # from its faces nothing can be back: 400 cells of way at half a cell a step
reflected = 20 * np.log10(abs(seen - wanted).max() / abs(wanted).max())
print(f"the layers reflect {reflected:.0f} dB")
assert reflected < -60

yee = spider_gen.stencil(FOLDER / "yee.yaml", backend=arguments.backend)
random = np.random.default_rng(1)
state = {name: random.standard_normal((24, 28, 32)).astype(np.float32) for name in ("ex", "ey", "ez", "hx", "hy", "hz")}
energies = []
for _ in range(2):
    # H is half a step behind E, and half a step ahead after the step: their product belongs to the time of E.
    new = yee(state)
    energies.append(sum((state["e" + axis].astype(float) ** 2).sum() + (state["h" + axis].astype(float) * new["h" + axis]).sum()
                        for axis in "xyz"))
    state = yee.iterate(new, 300)
print(f"after 300 steps the energy of random fields is {energies[1] / energies[0] - 1:.1e} off")
# A step rounds each number a few times, by 2^-24 of it, up and down alike.
assert abs(energies[1] / energies[0] - 1) < 300 * 2.0**-24
if arguments.picture:
    ez, _ = pulse(300, 380, (150, 110))
    spider_gen.write_picture(arguments.picture, ez[LAYER:-LAYER, LAYER:-LAYER])
