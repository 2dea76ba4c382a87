"""Step 2 of the tutorial: sweeps in Python, beside what theory says. A wave of cosines in an even plate decays by the same factor in
each step."""

import pathlib

import numpy as np

import spider_gen

H, DT, K = 1e-3, 2e-3, 1e-4
heat = spider_gen.stencil(pathlib.Path(__file__).with_name("heat.yaml"))
rows, columns = 200, 300
y, x = np.arange(rows)[:, None] + 0.5, np.arange(columns) + 0.5
wave = np.cos(3 * np.pi * y / rows) * np.cos(2 * np.pi * x / columns)
state = {"u": wave.astype(np.float32), "k": np.full((rows, columns), K, np.float32)}

new = heat(state)
for _ in range(9):
    new = heat(state | new)
assert np.array_equal(new["u"], heat.iterate(state, steps=10)["u"])

decay = 1 - DT * K / H**2 * (4 - 2 * np.cos(3 * np.pi / rows) - 2 * np.cos(2 * np.pi / columns))
u = heat.iterate(state, steps=1000)["u"]
error = abs(u - decay**1000 * wave).max()
print(f"{decay**1000:.3f} of the wave is left after 1000 steps; the sweeps are off by {error:.0e}")
assert error < 1e-4
