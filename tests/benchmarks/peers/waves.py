#!/usr/bin/env python3
"""Waves and their gradients by Deepwave, and by this project's package beside it: waves.py PROGRAM STORAGE WHAT EDGE STEPS

PROGRAM is deepwave, or spider_gen, which Python has to find; Deepwave's own absorbing layers of so many cells as deepwave:20.
STORAGE is f32; of a gradient by spider_gen also f16, that of its snapshots. WHAT:
  scalar2d, scalar3d    waves of order 8 in space, 2 in time, EDGE cells along each axis
  elastic2d, elastic3d  elastic waves of order 4, staggered
  gradient              of a number made of the last scalar3d wave with respect to the speed: forward and adjoint, each step kept
The gradient is compared with differences along a random direction, on a small model; then come the time and the rate of the
best of three runs, and the most memory that PyTorch had. --device cpu checks it without a GPU."""

import argparse
import time
import warnings

import torch

DT, SPACING, SPEED = 1e-3, 10.0, 2500.0
SCALAR2D = {"stencil": "scalar2d", "dimensions": 2, "storage": "f32", "sums": {"lap": {"shape": "laplacian", "accuracy": 8}},
            "boundary": {"constant": 0}, "previous": "u_old", "fields": ["c2dt2"], "update": "2*u - u_old + c2dt2*lap"}


def pulse(shape, device):
    """A bump in the middle."""
    axes = [torch.arange(n, device=device, dtype=torch.float32) - n // 2 for n in shape]
    squares = sum(one.reshape([-1 if i == axis else 1 for i in range(len(shape))]) ** 2 for axis, one in enumerate(axes))
    return torch.exp(-squares / 18)


def speeds(shape, device):
    draw = torch.Generator(device).manual_seed(1)
    return SPEED * (1 + 0.1 * torch.rand(shape, device=device, generator=draw))


def ground(shape, device):
    """Lame's parameters, and 1 / density."""
    field = 300 * speeds(shape, device) ** 2
    return field, field.clone(), torch.full_like(field, 1e-3)


class Deepwave:
    """pml: cells of its absorbing layers."""

    def __init__(self, device, pml):
        import deepwave
        warnings.simplefilter("ignore")  # of faces without layers, and of what it infers
        self.library, self.device, self.pml = deepwave, device, pml

    def padded(self, field):
        return torch.nn.functional.pad(field, [self.pml] * 2 * field.dim())[None]

    def scalar(self, speed, u, steps, snapshots=None):
        found = self.library.scalar(speed, SPACING, DT, nt=steps, wavefield_0=self.padded(u), wavefield_m1=self.padded(u), accuracy=8,
                                    pml_width=self.pml, pml_freq=25.0, check_output_finite=False)[0][0]
        return found if self.pml == 0 else found[(slice(self.pml, -self.pml),) * u.dim()]

    def elastic(self, shape, steps):
        lam, mu, b = ground(shape, self.device)
        middle = torch.tensor([[[n // 2 for n in shape]]], device=self.device)
        with torch.no_grad():
            found = self.library.elastic(lam, mu, b, SPACING, DT, source_amplitudes_p=torch.ones(1, 1, steps, device=self.device),
                                         source_locations_p=middle, accuracy=4, pml_width=self.pml, pml_freq=25.0,
                                         check_output_finite=False)
        return found[0]


class SpiderGen:
    def __init__(self, device, _):
        import spider_gen
        self.library, self.device = spider_gen, device
        self.made = {}

    def stencil(self, name):
        if name not in self.made:
            import pathlib
            folder = pathlib.Path(__file__).resolve().parents[3] / "stencils"
            self.made[name] = self.library.stencil(SCALAR2D if name == "scalar2d" else folder / f"{name}.yaml")
        return self.made[name]

    def scalar(self, speed, u, steps, snapshots=None):
        wave = self.stencil("acoustic3d" if u.dim() == 3 else "scalar2d")
        return wave.iterate(u, steps, u_old=u.clone(), c2dt2=(speed * (DT / SPACING)) ** 2, checkpoint=1, snapshots=snapshots)[0]

    def elastic(self, shape, steps):
        waves = self.stencil(f"elastic{len(shape)}d")
        unit = 1.0 if len(shape) == 2 else DT / SPACING  # its spec has dt and the spacing as parameters
        lam, mu, b = (unit * one for one in ground(shape, self.device))
        names = ("vx", "vy", "sxx", "syy", "sxy", *(("vz", "szz", "sxz", "syz") if len(shape) == 3 else ()))
        state = {name: torch.zeros_like(b) for name in names} | {"lam": lam, "mu": mu, "b": b}
        state["sxx"] = pulse(shape, self.device)
        return waves.iterate(state, steps, in_place=True)["sxx"]


def gradient(program, shape, steps, snapshots, speed=None):
    """The number and the gradient."""
    speed = (speeds(shape, program.device) if speed is None else speed).requires_grad_()
    last = program.scalar(speed, pulse(shape, program.device), steps, snapshots)
    number = (last**2).sum()
    number.backward()
    return number.detach(), speed.grad


def check(program, snapshots):
    """On a small model: the gradient against differences along a direction."""
    shape, steps = (40, 44, 48), 30
    direction = torch.rand(shape, device=program.device, generator=torch.Generator(program.device).manual_seed(2)) - 0.5
    _, slope = gradient(program, shape, steps, snapshots)
    step = 4.0
    up, down = (gradient(program, shape, steps, None, speed=speeds(shape, program.device) + sign * step * direction)[0].double()
                for sign in (1, -1))
    wanted = float((up - down) / (2 * step))
    found = float((slope.double() * direction).sum())
    scale = float((slope.double() * direction).abs().sum())
    if not abs(found - wanted) <= 1e-3 * abs(wanted) + 1e-4 * scale:
        raise SystemExit(f"the gradient along a direction is {found}, and the difference {wanted}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("storage", choices=("f32", "f16"))
    parser.add_argument("what", choices=("scalar2d", "scalar3d", "elastic2d", "elastic3d", "gradient"))
    parser.add_argument("edge", type=int)
    parser.add_argument("steps", type=int)
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    name, _, layers = arguments.program.partition(":")
    program = {"deepwave": Deepwave, "spider_gen": SpiderGen}[name](arguments.device, int(layers or 0))
    shape = (arguments.edge,) * (2 if arguments.what.endswith("2d") else 3)
    wait = torch.cuda.synchronize if arguments.device == "cuda" else lambda: None
    snapshots = "f16" if arguments.storage == "f16" else None

    def run():
        if arguments.what == "gradient":
            gradient(program, shape, arguments.steps, snapshots)
        elif arguments.what.startswith("scalar"):
            with torch.no_grad():
                program.scalar(speeds(shape, arguments.device), pulse(shape, arguments.device), arguments.steps)
        else:
            program.elastic(shape, arguments.steps)

    checked = ""
    if arguments.what == "gradient":
        check(program, snapshots)
        checked = "checked; "
    best = float("inf")
    for _ in range(3):
        wait()
        begin = time.perf_counter()
        run()
        wait()
        best = min(best, time.perf_counter() - begin)
    memory = torch.cuda.max_memory_allocated() / 2**30 if arguments.device == "cuda" else 0
    points = float(arguments.edge) ** len(shape) * arguments.steps
    print(f"{arguments.program} {arguments.storage} {arguments.what}: {checked}{1e3 * best:.1f} ms, {memory:.1f} GiB, "
          f"GStencil/s = {points / best / 1e9:.2f}")


if __name__ == "__main__":
    main()
