"""Step 5 of the tutorial: derivatives. A camera sees the plate after 100 steps; from its picture the diffusivity is found, by the
gradient of the misfit with respect to all of its cells."""

import pathlib

import numpy as np

import spider_gen

STEPS = 100
heat = spider_gen.stencil(pathlib.Path(__file__).with_name("heat.yaml"))
true = {"u": np.zeros((40, 50), np.float32), "k": np.full((40, 50), 1.1e-4, np.float32)}
true["k"][10:30, 30:33] = 1e-5  # the crack
y, x = np.ogrid[:40, :50]
true["u"][:] = 50 * ((y // 5 + x // 5) % 2)  # a pattern of hot squares
seen = heat.iterate(true, STEPS)["u"]


def misfit(k):
    """Half of the sum of squares, and its gradient."""
    state = {"u": true["u"], "k": k}
    off = heat.iterate(state, STEPS)["u"] - seen
    bars, _ = spider_gen.iterate_vjp(heat, state, {"u": off}, STEPS)
    return 0.5 * np.sum(off.astype(float) ** 2), bars["k"].astype(float)


k = np.full_like(true["k"], 1e-4)
first, gradient = misfit(k)

# The gradient is the slope: a small step along it against the difference of two misfits.
along = (1e-7 * gradient / abs(gradient).max()).astype(np.float32)
slope = (misfit(k + along)[0] - misfit(k - along)[0]) / 2
print(f"the slope is {slope:.4g}, by the gradient {np.sum(gradient * along):.4g}")
assert abs(slope / np.sum(gradient * along) - 1) < 1e-2

mean, square = 0, 0
for turn in range(1, 61):  # Adam's steps, of at most some 4e-6
    value, gradient = misfit(k)
    mean, square = 0.9 * mean + 0.1 * gradient, 0.99 * square + 0.01 * gradient**2
    step = mean / (1 - 0.9**turn) / np.sqrt(square / (1 - 0.99**turn) + 1e-30)
    k = np.clip(k - 4e-6 * step, 1e-6, 1.2e-4).astype(np.float32)
crack, rest = k[10:30, 30:33].mean(), np.median(k)
print(f"the misfit fell from {first:.3g} to {value:.3g}; k is {crack:.2g} in the crack and {rest:.2g} elsewhere")
assert value < 0.1 * first and crack < 0.5 * rest
