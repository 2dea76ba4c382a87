"""Poisson's equation, 0 at all faces: Jacobi's method and its acceleration by Chebyshev's polynomials, until the residual is
small. Both take the steps that theory says, and end next to the exact discrete solution.

With spider_gen installed: poisson.py --picture poisson.png, on the GPU if there is one. The picture has steps to the right, a
decade in 100 columns, and the error downwards, a decade in 40 rows: bright that of Chebyshev."""

import argparse
import itertools
import pathlib

import numpy as np
import spider_gen

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--backend", default="auto")
parser.add_argument("--picture", metavar="FILE", help="of the errors, as PNG")
arguments = parser.parse_args()
N, EVERY = 64, 5  # points along each axis; steps between two looks at the residual
RADIUS = np.cos(np.pi / (N + 1))  # Jacobi's spectral radius
TOLERANCE = 1e-6  # of the residual's decrease


def method(name):
    return spider_gen.stencil(pathlib.Path(__file__).with_name(f"{name}.yaml"), backend=arguments.backend)


def problem():
    """A start of 0, the right side, and the exact solution: two of the discrete operator's eigenvectors."""
    along = np.pi * np.arange(1, N + 1) / (N + 1)
    solution, rhs = np.zeros((N, N)), np.zeros((N, N))
    for ky, kx, share in ((1, 1, 1.0), (2, 3, -0.25)):
        wave = share * np.outer(np.sin(ky * along), np.sin(kx * along))
        solution += wave
        rhs += (4 - 2 * np.cos(ky * np.pi / (N + 1)) - 2 * np.cos(kx * np.pi / (N + 1))) * wave
    return {"u": np.zeros((N, N)), "rhs": rhs}, solution


def omegas():
    """The factors of Chebyshev's steps."""
    yield 1.0
    omega = 1 / (1 - RADIUS**2 / 2)
    while True:
        yield omega
        omega = 1 / (1 - RADIUS**2 * omega / 4)


def chebyshev(state, bound, solution, most=100_000):
    """The solution, residuals by step, and errors: a call a step, for omega changes."""
    system, state, residuals, errors = method("chebyshev"), state | {"before": state["u"]}, {}, {}
    for step, omega in enumerate(itertools.islice(omegas(), most), 1):
        if step % EVERY:
            state |= system(state, omega=omega)
            continue
        new, numbers = system(state, reductions=True, omega=omega)
        state |= new
        residuals[step], errors[step] = numbers["residual"], abs(state["u"] - solution).max()
        if numbers["residual"] <= bound:
            break
    return state["u"], residuals, errors


def jacobi(state, bound, solution, every, most=100_000):
    """The solution, and residuals and errors behind each `every` steps."""
    system, residuals, errors, steps = method("jacobi"), {}, {}, 0
    while steps < most and not residuals.get(steps, np.inf) <= bound:
        new, numbers = system.iterate(state, every, until=("residual", bound), check_every=EVERY, reductions=True)
        state = state | new
        steps += numbers.steps
        residuals[steps], errors[steps] = numbers["residual"], abs(state["u"] - solution).max()
    return state["u"], residuals, errors


def check(name, found, solution, residuals, bound, theory):
    """`theory` is the steps after which the residual is at most the bound."""
    steps, residual = next(reversed(residuals.items()))
    # The inverse of the operator is at most (N + 1)^2/8 in the norm of the maximum.
    error, most = abs(found - solution).max(), 1.01 * residual * (N + 1)**2 / 8
    print(f"{name}: {steps} steps, in theory {theory:.0f}; off the exact discrete solution by {error:.1e}, at most {most:.1e}")
    assert residual <= bound and error <= most
    assert theory - EVERY <= steps <= 1.02 * theory + 2 * EVERY, (steps, theory)
    return steps


state, solution = problem()
bound = TOLERANCE * abs(state["rhs"]).max()
smooth = 4 * (1 - RADIUS)  # what the smoothest eigenvector begins with; the residual is of one step before
slow, jacobi_residuals, jacobi_errors = jacobi(state, bound, solution, EVERY if arguments.picture else 100_000)
fast, chebyshev_residuals, chebyshev_errors = chebyshev(state, bound, solution)
jacobi_steps = check("Jacobi", slow, solution, jacobi_residuals, bound, 1 + np.log(bound / smooth) / np.log(RADIUS))
chebyshev_steps = check("Chebyshev", fast, solution, chebyshev_residuals, bound,
                        1 + np.arccosh(smooth / bound) / np.arccosh(1 / RADIUS))
print(f"Chebyshev takes 1/{jacobi_steps / chebyshev_steps:.0f} of the steps")

if arguments.picture:
    picture = np.zeros((270, int(100 * np.log10(jacobi_steps)) + 10))
    for errors, brightness in ((jacobi_errors, 0.5), (chebyshev_errors, 1.0)):
        for step, error in errors.items():
            row, column = int(40 * np.log10(abs(solution).max() / error)) + 10, int(100 * np.log10(step))
            picture[max(row - 1, 0):row + 2, column - 1:column + 2] = brightness
    spider_gen.write_picture(arguments.picture, picture)
