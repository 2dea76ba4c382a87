"""Diffusion on all ranks against one: mpiexec -n 4 python3 consumer.py libconsumer.so"""

import os
import sys

import numpy
from mpi4py import MPI

import spider
import spider_distributed

library = spider.load(sys.argv[1])
kernel = library.kernel("diffusion")
ranks = MPI.COMM_WORLD
whole = (61, 130)

spider_distributed.select_device(library, ranks)
try:
    spider_distributed.Grid(ranks, kernel, whole, periodic=(False, False))
    sys.exit("rows that are no ring were not refused")
except spider.Error as error:
    assert error.status == 13 and "periodic along y" in str(error), error

with spider_distributed.Grid(ranks, kernel, whole, periodic=(True, False)) as grid:
    a, b = grid.field(), grid.field()
    before = numpy.random.default_rng(1).random(whole, numpy.float32) if grid.rank == 0 else None
    if grid.rank == 0:
        numpy.save("python_before.npy", before)
    ranks.Barrier()
    grid.read_npy("python_before.npy", a)
    grid.scatter(before, b)
    assert (a.download() == b.download()).all()
    assert a.shape == grid.shape and sum(ranks.allgather(a.download().size)) == 61 * 130
    last = grid.iterate(a, b, steps=7)
    grid.wait(seconds=60)
    grid.write_npy(last, "python_after.npy")
    after = grid.gather(last)
    if grid.rank == 0:
        one, other = library.field(kernel, *whole).upload(before), library.field(kernel, *whole)
        alone = kernel.iterate(one, other, steps=7)
        library.synchronize()
        assert (after == alone.download()).all(), "not what one rank computes"
        assert (numpy.load("python_after.npy") == after).all()
        os.remove("python_before.npy")
        os.remove("python_after.npy")
        print(f"Python: {grid.ranks} ranks as {grid.parts}, the bits of one")
