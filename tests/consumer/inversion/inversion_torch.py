"""The speed of sound in a plane, found from seismograms with torch.optim: the problem of inversion.py, in PyTorch 2.4 or newer.

With spider_gen and PyTorch installed: inversion_torch.py --picture inversion.png, on the GPU if there is one. --check looks whether
the gradient is that of inversion.py, and a few rounds of L-BFGS come closer to the truth."""

import argparse
import sys

import numpy as np
import spider_gen

import inversion

try:
    import torch
except ImportError:
    torch = None


def misfit(survey, speed, seen):
    """Half of the sum of squares: a tensor that has a gradient."""
    total = 0
    state = {name: torch.from_numpy(array).to(speed.device) for name, array in survey.state(inversion.SPEED).items()}
    pulse = torch.from_numpy(survey.pulse).to(speed.device)
    for source, wanted in zip(survey.sources, seen):
        _, records = survey.waves.iterate({**state, "k": speed**2}, survey.steps, inject={"p": (source, pulse)},
                                          record={"p": survey.receivers})
        total = total + 0.5 * ((records["p"] - wanted) ** 2).sum()
    return total


def invert(survey, wanted, rounds, device, say=print):
    """The speed after so many rounds, and the misfits."""
    with torch.no_grad():
        seen = [torch.from_numpy(survey.seismogram(wanted, source)).to(device) for source in survey.sources]
    inside = torch.from_numpy(survey.inside).to(device)
    change = torch.zeros(wanted.shape, device=device, requires_grad=True)  # in tens of m/s
    optimiser = torch.optim.LBFGS([change], lr=1, max_iter=2, line_search_fn="strong_wolfe")
    misfits = []

    def evaluate():
        optimiser.zero_grad()
        found = misfit(survey, inversion.SPEED + 10 * change * inside, seen)
        found.backward()
        return found

    for number in range(rounds):
        misfits.append(float(optimiser.step(evaluate).detach()))
        say(f"{number}: misfit {misfits[-1] / misfits[0]:.3f} of the first")
    return inversion.SPEED + 10 * (change * inside).detach(), misfits


def check():
    survey = inversion.Survey(64, 200, 2, backend="host")
    wanted = inversion.truth(64)
    seen = [survey.seismogram(wanted, source) for source in survey.sources]
    speed = torch.full((64, 64), inversion.SPEED, requires_grad=True)
    misfit(survey, speed, [torch.from_numpy(one) for one in seen]).backward()
    core = survey.gradient(np.full((64, 64), inversion.SPEED), seen)[1]
    np.testing.assert_allclose(speed.grad.numpy() * survey.inside, core, rtol=1e-3, atol=1e-5 * np.abs(core).max())
    found, misfits = invert(survey, wanted, 5, "cpu")
    off, first = (np.abs(one - wanted)[survey.inside].mean() for one in (found.numpy(), inversion.SPEED))
    print(f"{first:.1f} m/s off, then {off:.1f}")
    assert misfits[-1] < 0.3 * misfits[0] and off < 0.9 * first


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=120, help="rows and columns")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--shots", type=int, default=6)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--picture", metavar="FILE", help="of the truth, left, and of what was found, as PNG")
    arguments = parser.parse_args()
    if torch is None or not hasattr(torch.library, "custom_op"):
        print("skipped: no PyTorch 2.4 or newer")
        return None
    if arguments.check:
        return check()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    survey, wanted = inversion.Survey(arguments.size, 3 * arguments.size, arguments.shots), inversion.truth(arguments.size)
    speed, _ = invert(survey, wanted, arguments.rounds, device)
    if arguments.picture:
        spider_gen.write_picture(arguments.picture, np.hstack([wanted, speed.cpu().numpy()]))


if __name__ == "__main__":
    sys.exit(main())
