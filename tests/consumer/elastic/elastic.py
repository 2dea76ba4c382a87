"""Elastic waves in 2D from an explosion in a layered ground, and the seismogram of a line of receivers.

With spider_gen installed: elastic.py --size 400 --steps 900 --picture elastic.png, on the GPU if there is one. --check compares
with NumPy."""

import argparse
import pathlib
import sys

import numpy as np
import spider_gen

SPEC = pathlib.Path(__file__).with_name("elastic.yaml")
DT, H, FREQUENCY = 1e-3, 10.0, 12.0


def ground(rows, columns):
    """All fields: at rest, three layers from 1800 to 3600 m/s, a sponge of 20 cells at the faces."""
    layer = np.minimum(3 * np.arange(rows) // rows, 2)[:, None] + np.zeros(columns, int)
    speed, density = np.array([1800.0, 2600, 3600])[layer], np.array([1900.0, 2200, 2500])[layer]
    mu = density * speed**2 / 3  # shear waves at 1/sqrt(3) of that speed
    state = {name: np.zeros((rows, columns), np.float32) for name in ("vx", "vy", "sxx", "syy", "sxy")}
    state |= {"b": 1 / density, "lam": density * speed**2 - 2 * mu, "mu": mu}
    for name, n in (("damp_x", columns), ("damp_y", rows)):
        depth = np.maximum(0, 20 - np.minimum(np.arange(n), np.arange(n)[::-1]))
        state[name] = np.exp(-((0.01 * depth) ** 2))
    return {name: np.asarray(array, np.float32) for name, array in state.items()}


def run(rows, columns, steps, **keywords):
    """The last state, and vy of receivers near the surface: steps x receivers."""
    waves = spider_gen.stencil(SPEC, **keywords)
    state = ground(rows, columns)
    t = FREQUENCY * (np.arange(steps) * DT - 1.2 / FREQUENCY)
    ricker = 1e6 * (1 - 2 * (np.pi * t) ** 2) * np.exp(-((np.pi * t) ** 2))
    source, receivers = [(rows // 2, columns // 2)], [(25, x) for x in range(columns)]
    written, records = waves.iterate(state, steps, record={"vy": receivers},
                                     inject={"sxx": (source, ricker), "syy": (source, ricker)})
    return state | written, records["vy"], ricker


def by_numpy(state, steps, ricker):
    """The same in double precision."""
    state = {name: np.asarray(array, float) for name, array in state.items()}

    def along(axis, u, shift):
        """Between the two grids: shift 0 forward, -1 backward."""
        padded = np.pad(u, [(2, 2) if one == axis else (0, 0) for one in range(2)])
        at = [np.roll(padded, -(offset + shift), axis) for offset in (-1, 0, 1, 2)]
        found = (at[0] / 24 - 9 / 8 * at[1] + 9 / 8 * at[2] - at[3] / 24) / H
        return found[2:-2] if axis == 0 else found[:, 2:-2]

    vx, vy, sxx, syy, sxy, b, lam, mu = (state[name] for name in ("vx", "vy", "sxx", "syy", "sxy", "b", "lam", "mu"))
    damp = state["damp_y"][:, None] * state["damp_x"]
    middle = tuple(n // 2 for n in vx.shape)
    for step in range(steps):
        vx = damp * (vx + DT * b * (along(1, sxx, -1) + along(0, sxy, -1)))
        vy = damp * (vy + DT * b * (along(1, sxy, 0) + along(0, syy, 0)))
        exx, eyy = along(1, vx, 0), along(0, vy, -1)
        sxx = damp * (sxx + DT * ((lam + 2 * mu) * exx + lam * eyy))
        syy = damp * (syy + DT * (lam * exx + (lam + 2 * mu) * eyy))
        sxy = damp * (sxy + DT * mu * (along(0, vx, 0) + along(1, vy, -1)))
        sxx[middle] += ricker[step]
        syy[middle] += ricker[step]
    return {"vx": vx, "vy": vy, "sxx": sxx, "syy": syy, "sxy": sxy}


def check():
    rows, columns, steps = 90, 110, 160
    state, record, ricker = run(rows, columns, steps, backend="host")
    wanted = by_numpy(ground(rows, columns), steps, ricker)
    worst = max(np.abs(state[name] - one).max() / np.abs(one).max() for name, one in wanted.items())
    print(f"{worst:.1e} of the largest value off, {np.abs(record).max():.2e} m/s at a receiver")
    # Each step rounds to f32 a few times, and errors of steps add up.
    assert worst <= steps * 2.0**-22
    assert np.array_equal(record[-1], state["vy"][25])
    assert np.abs(record[:20]).max() < 1e-3 * np.abs(record).max()  # nothing is there before the wave


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=300, help="rows and columns")
    parser.add_argument("--steps", type=int, default=700)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", metavar="FILE", help="of vy, as PNG")
    parser.add_argument("--seismogram", metavar="FILE", help="of the receivers, time downwards, as PNG")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    state, record, _ = run(arguments.size, arguments.size, arguments.steps)
    print(f"{arguments.size} x {arguments.size} cells, {arguments.steps * DT:.2f} s, up to {np.abs(record).max():.2e} m/s")
    for path, field in ((arguments.picture, state["vy"]), (arguments.seismogram, record)):
        if path:
            spider_gen.write_picture(path, field)


if __name__ == "__main__":
    sys.exit(main())
