"""Plane P and S waves across the grid: their speed, and the orders of the scheme, 2 in time and 4 in space.

With spider_gen installed: plane_waves.py, on the GPU if there is one."""

import argparse
import pathlib

import numpy as np
import spider_gen

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--backend", default="auto")
waves = spider_gen.stencil(pathlib.Path(__file__).with_name("plane_waves.yaml"), backend=parser.parse_args().backend)
RHO, LAM, MU = 2.0, 3.0, 2.0
K = 2 * np.pi * np.array([2, 1])  # along x and y, in a box of side 1
PLACES = {"vx": (0, 0), "vy": (1, 1), "sxx": (1, 0), "syy": (1, 0), "sxy": (0, 1)}  # half spacings along x and y


def travel(kind, n, steps, time=0.25):
    """The wave after this time by so many steps: the relative errors of vx and of its speed, and a bound of the latter."""
    length, (nx, ny) = np.hypot(*K), K / np.hypot(*K)
    speed, (ux, uy) = (((LAM + 2 * MU) / RHO) ** 0.5, (nx, ny)) if kind == "P" else ((MU / RHO) ** 0.5, (-ny, nx))
    size = {"vx": ux, "vy": uy, "sxx": -((LAM + 2 * MU) * nx * ux + LAM * ny * uy) / speed,
            "syy": -(LAM * nx * ux + (LAM + 2 * MU) * ny * uy) / speed, "sxy": -MU * (ny * ux + nx * uy) / speed}
    dt, omega = time / steps, speed * length

    def phase(name, t):
        y, x = (np.mgrid[:n, :n] + np.array(PLACES[name])[::-1, None, None] / 2) / n
        return K[0] * x + K[1] * y - omega * t

    # Stresses are half a step ahead of velocities.
    start = {name: one * np.cos(phase(name, 0 if name in ("vx", "vy") else dt / 2)) for name, one in size.items()}
    end = waves.iterate(start, steps, r=dt * n, b=1 / RHO, lam=LAM, mu=MU)["vx"]
    early = -np.angle((end * np.exp(-1j * phase("vx", time))).sum() * ux)
    bound = (omega * dt) ** 2 / 24 + 3 / 640 * (length / n) ** 4  # steps make waves faster, differences slower
    return abs(end - ux * np.cos(phase("vx", time))).max() / abs(ux), early / (omega * time), bound


for kind in "PS":
    in_space = np.log2(travel(kind, 32, 64)[0] / travel(kind, 64, 256)[0])  # the error in time falls by 16, too
    in_time = np.log2(travel(kind, 128, 110)[0] / travel(kind, 128, 220)[0])  # where that in space is small
    _, fast, bound = travel(kind, 64, 256)
    print(f"{kind}: order {in_space:.2f} in space, {in_time:.2f} in time; with 64 points its speed is {fast:+.1e} off")
    assert abs(in_space - 4) < 0.1 and abs(in_time - 2) < 0.1
    assert abs(fast) <= bound
