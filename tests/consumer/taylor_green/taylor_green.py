"""Taylor and Green's vortices decay as they should: their energy by exp(-4 nu t).

With spider_gen installed: taylor_green.py --picture flow.png, on the GPU if there is one. The picture is the vorticity of two
layers of shear that roll up, by the same equations."""

import argparse
import pathlib

import numpy as np
import spider_gen

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--backend", default="auto")
parser.add_argument("--picture", metavar="FILE", help="of the vorticity, as PNG")
arguments = parser.parse_args()
SPEC = pathlib.Path(__file__).with_name("flow.yaml")


def box(n, dt):
    """The equations on n x n cells of a box with sides of 2 pi; where p lies, and half a cell."""
    h = 2 * np.pi / n
    return spider_gen.stencil(SPEC, backend=arguments.backend, h=h, dt=dt), *np.mgrid[:n, :n] * h, h / 2


def fields(**arrays):
    return {name: np.asarray(array, np.float32) for name, array in arrays.items()}


nu, dt, steps = 0.02, 2e-3, 2500
flow, y, x, half = box(64, dt)
state = fields(u=np.sin(x + half) * np.cos(y), v=-np.cos(x) * np.sin(y + half), p=(np.cos(2 * x) + np.cos(2 * y)) / 4)
new = flow.iterate(state, steps, nu=nu)
energy = [sum((one[name].astype(float) ** 2).mean() for name in "uv") for one in (state, new)]
rate = -np.log(energy[1] / energy[0]) / (steps * dt)
print(f"energy decays at a rate of {rate:.5f}, exact is {4 * nu:.5f}: {100 * (rate / (4 * nu) - 1):+.2f} %")
# Differences make it (2 pi / 64)^2 / 12 = 0.1 % slower. Compressibility changes it by up to the square of the flow's speed
# over that of sound, 1 %.
assert abs(rate / (4 * nu) - 1) < 0.011
assert max(abs(new[name] - state[name] * np.exp(-2 * nu * steps * dt)).max() for name in "uv") < 0.011

if arguments.picture:
    flow, y, x, half = box(192, 5e-4)
    layers = np.tanh(5 * np.where(y < np.pi, y - np.pi / 2, 3 * np.pi / 2 - y))
    new = flow.iterate(fields(u=layers, v=0.1 * np.sin(x), p=0 * x), 12000, nu=4e-3)
    u, v = new["u"], new["v"]
    spider_gen.write_picture(arguments.picture, np.roll(v, -1, 1) - v - np.roll(u, -1, 0) + u)
