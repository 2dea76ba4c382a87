"""A plane P wave that a free surface turns back as a P and an S wave: their coefficients against those of theory, and the order
of the scheme. With --picture FILE an explosion below the surface, vertical velocity, as PNG.

With spider_gen installed: free_surface.py, on the GPU if there is one."""

import argparse
import pathlib

import numpy as np
import spider_gen

RHO, LAM, MU = 2.0, 3.0, 2.0
CP, CS = ((LAM + 2 * MU) / RHO) ** 0.5, (MU / RHO) ** 0.5
PLACES = {"vx": (0, 0), "vy": (1, 1), "sxx": (0, 1), "syy": (0, 1), "sxy": (1, 0)}  # half spacings along y and x
FACTORS = {"r": 0.25, "b": 1 / RHO, "lam": LAM, "mu": MU}


def slownesses(degrees):
    """Along x, and along y of P and S waves, of a P wave that comes up at an angle to the vertical."""
    p = np.sin(np.radians(degrees)) / CP
    return p, (1 / CP**2 - p**2) ** 0.5, (1 / CS**2 - p**2) ** 0.5


def coefficients(degrees):
    """Of the P and the S wave that go down, by Zoeppritz (Aki and Richards, Quantitative Seismology, section 5.2)."""
    p, up, us = slownesses(degrees)
    twist = 1 / CS**2 - 2 * p**2
    whole = twist**2 + 4 * p**2 * up * us
    return (4 * p**2 * up * us - twist**2) / whole, 4 * CP / CS * p * up * twist / whole


def modes(degrees):
    """The wave that comes up, and those of amplitude 1 that go down: their slowness and their motion along x and y."""
    p, up, us = slownesses(degrees)
    return [((p, -up), (p * CP, -up * CP)), ((p, up), (p * CP, up * CP)), ((p, us), (us * CS, -p * CS))]


def field_of(name, mode, shape, h, t, omega):
    """A wave's field as cosine and sine, on the staggered grid."""
    (kx, ky), (ux, uy) = mode
    size = {"vx": ux, "vy": uy, "sxx": -((LAM + 2 * MU) * ux * kx + LAM * uy * ky),
            "syy": -(LAM * ux * kx + (LAM + 2 * MU) * uy * ky), "sxy": -MU * (ux * ky + uy * kx)}[name]
    y, x = (np.mgrid[:shape[0], :shape[1]] + np.array(PLACES[name])[:, None, None] / 2) * h
    return size * np.exp(1j * omega * (kx * x + ky * y - t))


def reflect(waves, degrees, n, time=0.5):
    """After this time, with n cells to a wavelength along the surface: both coefficients, fitted where the waves that went down
    have met the surface since the beginning, and the largest error of vy there."""
    h, steps = 1 / n, round(time * n / FACTORS["r"])
    dt, omega = time / steps, 2 * np.pi / slownesses(degrees)[0]
    shape, sizes = (3 * n, n), (1, *coefficients(degrees))

    def sum_of(name, t):
        return sum(size * field_of(name, mode, shape, h, t, omega) for size, mode in zip(sizes, modes(degrees))).real

    # Stresses are half a step ahead of velocities. What comes up from below is right until the lower face is felt.
    state = {name: sum_of(name, 0 if name in ("vx", "vy") else dt / 2) for name in PLACES}
    state["syy"][0] = 0
    end = waves.iterate(state, steps, **FACTORS)
    rows = int(time / slownesses(degrees)[2] * n)
    columns = []
    for mode in modes(degrees):
        cells = np.concatenate([field_of(name, mode, shape, h, time, omega)[:rows].ravel() for name in ("vx", "vy")])
        columns += [cells.real, cells.imag]
    found = np.linalg.lstsq(np.array(columns).T, np.concatenate([end[name][:rows].ravel() for name in ("vx", "vy")]), rcond=None)[0]
    return found[2] / found[0], found[4] / found[0], abs(end["vy"] - sum_of("vy", time))[:rows].max()


def explode(waves, size):
    """An explosion a sixth of the depth below the surface."""
    steps, source = 2 * size, (size // 6, size)
    t = np.arange(steps) * FACTORS["r"] - 30
    pulse = (1 - 2 * (t / 10) ** 2) * np.exp(-((t / 10) ** 2))
    state = {name: np.zeros((size, 2 * size)) for name in PLACES}
    return waves.iterate(state, steps, inject={"sxx": ([source], pulse), "syy": ([source], pulse)}, **FACTORS)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--picture", metavar="FILE", help="of an explosion's vertical velocity, as PNG")
    arguments = parser.parse_args()
    waves = spider_gen.stencil(pathlib.Path(__file__).with_name("free_surface.yaml"), backend=arguments.backend)
    if arguments.picture:
        field = explode(waves, 300)["vy"]
        spider_gen.write_picture(arguments.picture, np.clip(field, *np.quantile(field, (0.002, 0.998))))
        return
    for degrees in (20, 40, 60):
        wanted = coefficients(degrees)
        p, s, coarse = reflect(waves, degrees, 40)
        p2, s2, fine = reflect(waves, degrees, 80)
        print(f"{degrees} degrees: P {p2:+.4f}, S {s2:+.4f}, by theory {wanted[0]:+.4f}, {wanted[1]:+.4f}; "
              f"order {np.log2(coarse / fine):.2f}")
        assert max(abs(p2 - wanted[0]), abs(s2 - wanted[1])) < 0.01
        assert np.log2(coarse / fine) > 1.8


if __name__ == "__main__":
    main()
