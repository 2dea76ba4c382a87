"""A process that multiprocessing forks sweeps as its parent, which has threads by then: also a kernel that the parent has
not loaded."""

import multiprocessing
import sys

import numpy
import spider_gen


def make(weight):
    weights = [[0, weight, 0], [weight, 0.5, weight], [0, weight, 0]]
    return spider_gen.stencil(weights=weights, backend="host", boundary="nearest", storage="f32")


def child(array, wanted, results):
    results.put([bool((make(weight)(array) == one).all()) for weight, one in wanted.items()])


def main():
    array = numpy.random.default_rng(1).random((1500, 1500), dtype=numpy.float32)
    fork = multiprocessing.get_context("fork")
    # The second kernel is compiled, and in the cache, by a process that is no ancestor of the child.
    wanted = {}
    for weight in (0.125, 0.25):
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            wanted[weight] = pool.apply(sweep, (weight, array))
    assert (make(0.125)(array) == wanted[0.125]).all()
    results = fork.SimpleQueue()
    process = fork.Process(target=child, args=(array, wanted, results))
    process.start()
    process.join(60)
    if process.exitcode is None:
        process.kill()
        sys.exit("the child hangs")
    right = results.get() if process.exitcode == 0 else "no results"
    if right != [True, True]:
        sys.exit(f"exit status {process.exitcode}, {right}")


def sweep(weight, array):
    return make(weight)(array)


if __name__ == "__main__":
    main()
