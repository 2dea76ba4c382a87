"""Gray and Scott's reaction in 2D: food a, and b that eats it, each a kernel that reads the other at the point.

    a' = a + Da laplace(a) - a b^2 + feed (1 - a)
    b' = b + Db laplace(b) + a b^2 - (feed + kill) b

With spider_gen installed: gray_scott.py --size 512 --steps 10000 --picture gray_scott.png, on the GPU if there is one. --check
compares with NumPy in doubles."""

import argparse
import pathlib
import sys
import time

import numpy as np
import spider_gen

FOLDER = pathlib.Path(__file__).parent
FEED, KILL = 0.0367, 0.0649  # spots that divide


def begin(rows, columns):
    """Food everywhere, and a few squares of b."""
    random = np.random.default_rng(3)
    a, b = np.ones((rows, columns), np.float32), np.zeros((rows, columns), np.float32)
    for _ in range(max(1, rows * columns // 8000)):
        y, x = random.integers(0, (rows - 8, columns - 8))
        a[y : y + 8, x : x + 8] = 0.5
        b[y : y + 8, x : x + 8] = 0.25
    return a, b


class Reaction:
    def __init__(self, backend="auto", feed=FEED, kill=KILL):
        self.a = spider_gen.stencil(FOLDER / "gray_scott_a.yaml", backend=backend, feed=feed)
        self.b = spider_gen.stencil(FOLDER / "gray_scott_b.yaml", backend=backend, feed=feed, kill=kill)

    def run(self, a, b, steps):
        """Both after so many steps, in new arrays of the same library."""
        a, b, next_a, next_b = a + 0, b + 0, a + 0, b + 0
        for _ in range(steps):
            self.a(a, out=next_a, b=b)
            self.b(b, out=next_b, a=a)
            a, b, next_a, next_b = next_a, next_b, a, b
        return a, b


def step_in_doubles(a, b, feed, kill):
    def laplace(u):
        return np.roll(u, 1, 0) + np.roll(u, -1, 0) + np.roll(u, 1, 1) + np.roll(u, -1, 1) - 4 * u

    eaten = a * b**2
    return a + 0.16 * laplace(a) - eaten + feed * (1 - a), b + 0.08 * laplace(b) + eaten - (feed + kill) * b


def check():
    """Each of 200 steps within what rounding may make of it; and what cannot change is unchanged."""
    reaction = Reaction("host")
    flat = reaction.run(np.ones((30, 40), np.float32), np.zeros((30, 40), np.float32), 50)
    assert (flat[0] == 1).all() and (flat[1] == 0).all(), "food alone changed"

    start = a, b = begin(120, 150)
    rounding = 12 * 2.0**-24  # five products and sums, and seven beside them, parameters among them
    worst = 0.0
    for _ in range(200):
        exact = step_in_doubles(a.astype(float), b.astype(float), FEED, KILL)
        eaten = (a * b**2).max()
        bounds = (rounding * (a.max() * (1 + 8 * 0.16 + 2 * FEED) + eaten),
                  rounding * (b.max() * (1 + 8 * 0.08 + FEED + KILL) + eaten))
        a, b = reaction.run(a, b, 1)
        worst = max(worst, *(np.abs(got - right).max() / bound for got, right, bound in zip((a, b), exact, bounds)))
    moved = np.abs(b - start[1]).max()
    print(f"200 steps: each within {worst:.2f} of what rounding may make; b moved by {moved:.2f}")
    assert worst <= 1 and moved > 0.1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--size", type=int, default=256, metavar="CELLS")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--cupy", action="store_true", help="arrays of CuPy, which stay on the GPU")
    parser.add_argument("--picture", metavar="FILE", help="of b, as PNG")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    a, b = begin(arguments.size, arguments.size)
    if arguments.cupy:
        import cupy

        a, b = cupy.asarray(a), cupy.asarray(b)
    reaction = Reaction()
    reaction.run(a, b, 1)  # compiles
    start = time.monotonic()
    a, b = reaction.run(a, b, arguments.steps)
    b = b.get() if arguments.cupy else b
    seconds = time.monotonic() - start
    rate = arguments.size**2 * arguments.steps / seconds * 1e-9
    print(f"{arguments.size}^2 cells, {arguments.steps} steps in {seconds:.2f} s: {rate:.2f} Gpoints/s")
    if arguments.picture:
        spider_gen.write_picture(arguments.picture, b)


if __name__ == "__main__":
    sys.exit(main())
