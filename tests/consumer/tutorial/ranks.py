"""Step 4 of the tutorial: the same plate, cut over the ranks of MPI: mpiexec -n 4 python3 ranks.py build/libplate.so"""

import sys

import numpy
from mpi4py import MPI

import spider
import spider_distributed

library = spider.load(sys.argv[1])
heat = library.kernel("heat")
ranks = MPI.COMM_WORLD
whole = rows, columns = 120, 160
spider_distributed.select_device(library, ranks)  # a GPU for each rank, where there are some

# Rank 0 has the whole plate. A plate that no rank can hold comes from a file: of_u.read_npy(path, u).
u0 = numpy.zeros(whole, numpy.float32)
u0[50:70, 50:70] = 50
k0 = numpy.full(whole, 1.1e-4, numpy.float32)
k0[30:90, 100:103] = 1e-6

with spider_distributed.Grid(ranks, heat, whole) as grid:
    of_u, of_k = grid.of_field("u"), grid.of_field("k")
    first = grid.rank == 0
    u, k = of_u.scatter(u0 if first else None, of_u.field()), of_k.scatter(k0 if first else None, of_k.field())
    second = of_u.field()  # u is written and read around the point: it has two buffers
    grid.run_system([u, k], [second, None], steps=400)
    last = second if heat.info.uses[0] & spider.FIELD_RESULT_IN_OUTPUT else u
    of_u.write_npy(last, "heat.npy")

if ranks.rank == 0:  # the bits of one rank
    u, second = (library.field(heat, *whole, name="u") for _ in range(2))
    k = library.field(heat, *whole, name="k").upload(k0)
    heat.run_system([u.upload(u0), k], [second, None], steps=400)
    library.synchronize()
    last = second if heat.info.uses[0] & spider.FIELD_RESULT_IN_OUTPUT else u
    assert (numpy.load("heat.npy") == last.download()).all(), "not what one rank computes"
    print(f"{ranks.size} ranks have the bits of one")
