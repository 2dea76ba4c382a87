"""The speed of sound in a plane, found from seismograms by gradient descent: full-waveform inversion with NumPy alone.

With spider_gen installed: inversion.py --picture inversion.png. --check compares the gradient with differences, and looks whether
a few steps of descent come closer to the truth."""

import argparse
import pathlib
import sys

import numpy as np
import spider_gen

SPEC = pathlib.Path(__file__).with_name("inversion.yaml")
DT, FREQUENCY, SPONGE = 1.5e-3, 12.0, 12
SPEED = 2000.0  # m/s, of the first guess


class Survey:
    """Shots along the left side and the lower one, in turn; receivers along all but the left."""

    def __init__(self, size, steps, shots, **keywords):
        self.waves, self.size, self.steps = spider_gen.stencil(SPEC, **keywords), size, steps
        near, far = SPONGE + 3, size - SPONGE - 4
        line = range(near, far + 1)
        cells = [(y, far) for y in line] + [(near, x) for x in line] + [(far, x) for x in line]
        self.receivers = self.waves.points((size, size), cells)
        places = [int(place) for place in np.linspace(near, far, shots)]
        self.sources = [self.waves.points((size, size), [(far + 2, place) if i % 2 else (place, near)])
                        for i, place in enumerate(places)]
        t = FREQUENCY * (np.arange(steps) * DT - 1.2 / FREQUENCY)
        self.pulse = ((1 - 2 * (np.pi * t) ** 2) * np.exp(-((np.pi * t) ** 2))).astype(np.float32)[:, None]
        self.inside = np.zeros((size, size), bool)  # away from sources and receivers, where gradients are largest
        self.inside[near + 3:far - 2, near + 3:far - 2] = True

    def state(self, speed):
        """At rest."""
        depth = np.maximum(0, SPONGE - np.minimum(np.arange(self.size), np.arange(self.size)[::-1]))
        damp = np.exp(-((0.02 * depth) ** 2)).astype(np.float32)
        rest = {name: np.zeros((self.size, self.size), np.float32) for name in ("p", "u", "v")}
        return {**rest, "k": np.asarray(speed**2, np.float32), "damp_x": damp, "damp_y": damp}

    def seismogram(self, speed, source):
        """steps x receivers."""
        return self.waves.iterate(self.state(speed), self.steps, inject={"p": (source, self.pulse)},
                                  record={"p": self.receivers})[1]["p"]

    def gradient(self, speed, seen, checkpoint=None):
        """The misfit, half of the sum of squares, and its derivative with respect to the speed."""
        misfit, found = 0.0, np.zeros((self.size, self.size))
        for source, wanted in zip(self.sources, seen):
            off = self.seismogram(speed, source) - wanted
            misfit += 0.5 * float((off.astype(float) ** 2).sum())
            bars, _ = spider_gen.iterate_vjp(self.waves, self.state(speed), {}, self.steps, checkpoint,
                                             inject={"p": (source, self.pulse)}, record={"p": (self.receivers, off)})
            found += 2 * speed * bars["k"]  # k is the square of the speed
        return misfit, np.where(self.inside, found, 0)


def truth(size):
    """A fast disc and a slow one."""
    y, x = np.mgrid[:size, :size] / size
    return (SPEED + 200 * np.exp(-(((x - 0.58) ** 2 + (y - 0.38) ** 2) / 0.008)) -
            200 * np.exp(-(((x - 0.45) ** 2 + (y - 0.65) ** 2) / 0.008)))


def descend(survey, seen, rounds, say=print):
    """Gradient descent; steps are as long as the last change of the gradient tells (Barzilai and Borwein)."""
    speed = np.full((survey.size, survey.size), SPEED)
    before, misfits = None, []
    for number in range(rounds):
        misfit, gradient = survey.gradient(speed, seen)
        misfits.append(misfit)
        say(f"{number}: misfit {misfit / misfits[0]:.3f} of the first")
        length = 20 / np.abs(gradient).max()  # m/s at most, in the first step
        if before is not None:
            moved, turned = speed - before[0], gradient - before[1]
            curvature = float((moved * turned).sum())
            if curvature > 0:
                length = min(float((moved * moved).sum()) / curvature, 5 * length)
        before = speed, gradient
        speed = np.clip(speed - length * gradient, 0.7 * SPEED, 1.3 * SPEED)
    return speed, misfits


def check():
    survey = Survey(64, 200, 2, backend="host")
    wanted = truth(64)
    seen = [survey.seismogram(wanted, source) for source in survey.sources]
    start = np.full((64, 64), SPEED)
    misfit, gradient = survey.gradient(start, seen)
    for every in (1, 3):
        assert np.array_equal(survey.gradient(start, seen, every)[1], gradient), "checkpoints change the gradient"
    along = np.where(survey.inside, wanted - SPEED, 0)  # smooth, so that f32 shows the difference
    up, down = (survey.gradient(start + s * along, seen)[0] for s in (0.02, -0.02))
    slope, difference = float((gradient * along).sum()), (up - down) / 0.04
    print(f"along the truth the misfit changes by {slope:.4g}, by differences by {difference:.4g}")
    assert slope < 0 and abs(slope - difference) < 0.01 * abs(slope)
    speed, misfits = descend(survey, seen, 8)
    off, first = (np.abs(one - wanted)[survey.inside].mean() for one in (speed, start))
    print(f"{first:.1f} m/s off, then {off:.1f}")
    assert misfits[-1] < 0.3 * misfits[0] and off < 0.9 * first


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=120, help="rows and columns")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--shots", type=int, default=6)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", metavar="FILE", help="of the truth, left, and of what was found, as PNG")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    survey, wanted = Survey(arguments.size, 3 * arguments.size, arguments.shots), truth(arguments.size)
    speed, _ = descend(survey, [survey.seismogram(wanted, source) for source in survey.sources], arguments.rounds)
    if arguments.picture:
        spider_gen.write_picture(arguments.picture, np.kron(np.hstack([wanted, speed]), np.ones((3, 3))))


if __name__ == "__main__":
    sys.exit(main())
