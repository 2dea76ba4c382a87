"""Step 3 of the tutorial: a program. A torch heats one cell of a plate with a crack, probes record, and steps go on until the heat
has spread."""

import pathlib

import numpy as np

import spider_gen


def plate(rows=120, columns=160):
    """Copper, with a crack that hardly conducts."""
    k = np.full((rows, columns), 1.1e-4, np.float32)
    k[30:90, 100:103] = 1e-6
    return {"u": np.zeros((rows, columns), np.float32), "k": k}


def main():
    heat = spider_gen.stencil(pathlib.Path(__file__).with_name("heat.yaml"))
    state = plate()
    torch = np.full(1000, 50, np.float32)  # kelvin that each step adds to the cell
    probes = [(60, 95), (60, 107)]  # before the crack and behind it
    new, records = heat.iterate(state, steps=1000, inject={"u": ([(60, 80)], torch)}, record={"u": probes})
    spider_gen.write_picture("heat.png", new["u"])
    print(f"after 1000 steps {records['u'][-1, 0]:.2f} K before the crack, {records['u'][-1, 1]:.2f} K behind it")
    assert records["u"][-1, 0] > 2 * records["u"][-1, 1]

    state |= new
    settled, numbers = heat.iterate(state, steps=100000, until=("change", 1e-4), check_every=100, reductions=True)
    print(f"{numbers.steps} more steps until none changes a cell by more than 1e-4 K; "
          f"the mean is {numbers['heat'] / state['u'].size:.4f} K")
    assert abs(numbers["heat"] / torch.sum(dtype=float) - 1) < 1e-3
    assert settled["u"].std() < new["u"].std()


if __name__ == "__main__":
    main()
