"""Shallow water on a rotating plane: flow in geostrophic balance stays, to the scheme's order, and mass is constant.

With spider_gen installed: shallow_water.py --picture water.png, on the GPU if there is one. The picture is of a hill of
water that collapses: waves leave, and what stays turns around it."""

import argparse
import pathlib

import numpy as np
import spider_gen

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--backend", default="auto")
parser.add_argument("--picture", metavar="FILE", help="of the surface, as PNG")
arguments = parser.parse_args()
SIDE, G, F, DEPTH = 1.28e6, 9.81, 1e-4, 1000.0  # metres, m/s^2, 1/s, metres


def drift(n):
    """How far a balanced surface of 1 m, sampled on n x n points, moves in 2 hours, in metres; and the change of its mean."""
    h = SIDE / n
    water = spider_gen.stencil(pathlib.Path(__file__).with_name("shallow_water.yaml"), backend=arguments.backend, h=h)
    k = 2 * np.pi / SIDE
    y, x = np.mgrid[:n, :n] * h
    half = h / 2
    start = {"eta": np.sin(k * x) * np.cos(2 * k * y),
             "u": 2 * G * k / F * np.sin(k * (x + half)) * np.sin(2 * k * y),  # -g/f of the slope along y
             "v": G * k / F * np.cos(k * x) * np.cos(2 * k * (y + half))}
    start = {name: array.astype(np.float32) for name, array in start.items()}
    steps = 4 * n  # the ratio of dt to h is that of all n
    end = water.iterate(start, steps, dt=7200 / steps)
    change = abs(end["eta"].mean(dtype=float) - start["eta"].mean(dtype=float))
    # Each step rounds each point once or twice, by up to 2^-24 of 1 m and up or down alike.
    assert change <= steps * 2.0**-24 * 1.1, change
    return abs(end["eta"] - start["eta"]).max()


coarse, fine = drift(32), drift(64)
order = np.log2(coarse / fine)
print(f"a balanced surface of 1 m moves by {1000 * coarse:.2f} mm, on half the spacing by {1000 * fine:.2f}: order {order:.2f}")
assert abs(order - 2) < 0.1
if arguments.picture:
    n, h = 256, 5e3
    water = spider_gen.stencil(pathlib.Path(__file__).with_name("shallow_water.yaml"), backend=arguments.backend, h=h)
    y, x = np.mgrid[:n, :n] - n / 2
    state = {"eta": np.exp(-(x**2 + y**2) / 15**2).astype(np.float32)}
    state |= {name: np.zeros((n, n), np.float32) for name in "uv"}
    spider_gen.write_picture(arguments.picture, water.iterate(state, 150, dt=25)["eta"])
