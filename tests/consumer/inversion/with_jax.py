"""The speed of sound found from what receivers saw, by jax.grad: sources on the left and above, receivers on the right and below, and
between them a disc that is faster than the rest, of which the first guess knows nothing.

With spider_gen and JAX installed: with_jax.py --picture found.png. --check says whether it was found."""

import argparse
import pathlib
import sys

import jax
import jax.numpy as jnp
import numpy as np
import spider_gen

SPEC = pathlib.Path(__file__).parent / "acoustic2d.yaml"
SHAPE, STEPS, DT, EDGE = (56, 56), 150, 0.3, 6
NEAR, FAR = EDGE + 3, 56 - EDGE - 4
SOURCES = [(18, NEAR), (36, NEAR), (NEAR, 18), (NEAR, 36)]
RECEIVERS = [*((row, FAR) for row in range(NEAR, FAR, 2)), *((FAR, column) for column in range(NEAR, FAR, 2))]


def disc():
    """Speeds: 1, and 10 % more in a disc."""
    z, x = np.ogrid[: SHAPE[0], : SHAPE[1]]
    return (1 + 0.1 * ((z - 27) ** 2 + (x - 29) ** 2 < 7**2)).astype(np.float32)


def sponge():
    """1 inside; towards the faces waves fade."""
    z, x = (np.minimum(np.arange(n), n - 1 - np.arange(n)) for n in SHAPE)
    near = np.maximum(0, EDGE - np.minimum(z[:, None], x[None, :]))
    return np.exp(-((0.06 * near) ** 2)).astype(np.float32)


def signal():
    """Ricker's wavelet, of some 12 cells."""
    t = (np.arange(STEPS) * DT - 12) / 4
    return ((1 - 2 * t**2) * np.exp(-(t**2))).astype(np.float32)


def make_records(backend):
    """A function of the speeds: what receivers see, of each source."""
    wave = spider_gen.stencil(SPEC, backend=backend)
    rest = jnp.zeros(SHAPE, jnp.float32)
    keep = jnp.asarray(sponge())
    # Each shot injects at all sources, and 0 at all but one.
    shots = jnp.asarray(signal()[None, :, None] * np.eye(len(SOURCES), dtype=np.float32)[:, None, :])

    def record(speed, values):
        state = {"p": rest, "vx": rest, "vz": rest, "modulus": speed**2, "keep": keep}
        _, seen = wave.iterate(state, STEPS, dt=DT, inject={"p": (SOURCES, values)}, record={"p": RECEIVERS})
        return seen["p"]

    return jax.vmap(record, (None, 0)), shots


def descend(loss, guess, rounds, rate=0.012):
    """Adam's gradient descent."""
    step = jax.jit(jax.value_and_grad(loss))
    first = second = jnp.zeros_like(guess)
    losses = []
    for i in range(1, rounds + 1):
        value, slope = step(guess)
        losses.append(float(value))
        first = 0.9 * first + 0.1 * slope
        second = 0.99 * second + 0.01 * slope**2
        guess -= rate * (first / (1 - 0.9**i)) / (jnp.sqrt(second / (1 - 0.99**i)) + 1e-12)
    return guess, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=24)
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", metavar="FILE", help="the disc, and what was found, as PNG")
    arguments = parser.parse_args()
    records, shots = make_records(arguments.backend)
    truth = disc()
    seen = jax.jit(records)(jnp.asarray(truth), shots)
    scale = float(jnp.sum(records(jnp.ones(SHAPE, jnp.float32), shots) ** 2))
    inside = jnp.asarray(sponge() == 1)

    def loss(speed):
        return jnp.sum((records(jnp.where(inside, speed, 1), shots) - seen) ** 2) / scale

    found, losses = descend(loss, jnp.ones(SHAPE, jnp.float32), arguments.rounds)
    found = np.where(inside, np.asarray(found), 1)
    off = np.sqrt(np.mean((found - truth) ** 2) / np.mean((1 - truth) ** 2))
    print(f"{len(SOURCES)} shots of {STEPS} steps: the misfit fell from {losses[0]:.3g} to {losses[-1]:.3g} in {len(losses)} rounds; "
          f"off by {off:.2f} of the disc")
    if arguments.picture:
        spider_gen.write_picture(arguments.picture, np.concatenate([truth, found], axis=1))
    if arguments.check:
        assert losses[-1] < 0.2 * losses[0] and off < 0.75, (losses, off)


if __name__ == "__main__":
    sys.exit(main())
