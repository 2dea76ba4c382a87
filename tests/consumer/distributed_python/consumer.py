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

# Images of a batch: the grid has a part of each.
images = 3
with spider_distributed.Grid(ranks, kernel, (images, *whole)) as grid:
    a, b = grid.field(), grid.field()
    before = numpy.random.default_rng(4).random((images, *whole), numpy.float32)
    assert grid.has_images and grid.whole == before.shape and grid.shape[0] == images and grid.parts[0] == 1
    last = grid.iterate(grid.scatter(before if grid.rank == 0 else None, a), b, steps=7)
    grid.wait(seconds=60)
    grid.write_npy(last, "python_images.npy")
    after = grid.gather(last)
    if grid.rank == 0:
        for image, found in zip(before, after):
            one, other = library.field(kernel, *whole).upload(image), library.field(kernel, *whole)
            alone = kernel.iterate(one, other, steps=7)
            library.synchronize()
            assert (found == alone.download()).all(), "not what one rank computes of an image"
        assert (numpy.load("python_images.npy") == after).all()
        os.remove("python_images.npy")
        print(f"Python: {images} images on {grid.ranks} ranks as {grid.parts}, the bits of one")
try:
    spider_distributed.Grid(ranks, library.kernel("waves"), (images, *whole))
    sys.exit("images of a system were not refused")
except ValueError as error:
    assert "the number of images comes first" in str(error), error

# An update: a field, a number, the step before, which is also the output. Numbers of any type become those of the kernel.
wave = library.kernel("wave")
with spider_distributed.Grid(ranks, wave, whole) as grid:
    random = numpy.random.default_rng(2)
    before, speed = (random.random(whole) if grid.rank == 0 else None for _ in range(2))
    u, u_old, c = grid.field(), grid.field(), grid.field()
    grid.scatter(before, u)
    grid.scatter(before, u_old)
    grid.scatter(speed, c)
    last = grid.run(u, u_old, u_old, [c], [0.125], steps=5)
    grid.wait(seconds=60)
    assert last is u_old
    after = grid.gather(last)
    if grid.rank == 0:
        one, other, all_c = (library.field(wave, *whole).upload(values) for values in (before, before, speed))
        alone = wave.run(one, other, other, [all_c], [0.125], steps=5)
        library.synchronize()
        after = (after.astype(numpy.uint32) << 16).view(numpy.float32)
        assert (after == alone.download()).all() and after.std() > 0.1, "not what one rank computes"

    # Sources and receivers between steps, of the part that has them; their values are in the host's memory here.
    if wave.info.on_host:
        cells = [(30, 64), (31, 65)]
        own = [tuple(index - begin for index, begin in zip(cell, grid.origin)) for cell in cells
               if all(begin <= index < begin + n for index, begin, n in zip(cell, grid.origin, grid.shape))]
        points, found = wave.points(grid.shape, own), numpy.empty(len(own), numpy.float32)
        u, u_old = u_old, u
        for _ in range(3):
            points.add(u, numpy.ones(len(own), numpy.float32))
            u, u_old = grid.run(u, u_old, u_old, [c], [0.125]), u
        found = numpy.concatenate(ranks.allgather(points.read(u, found)))
        after = grid.gather(u)
        if grid.rank == 0:
            one, other, points = other, one, wave.points(whole, cells)
            for _ in range(3):
                points.add(one, numpy.ones(len(cells), numpy.float32))
                one, other = wave.run(one, other, other, [all_c], [0.125]), one
            alone = one.download()
            assert ((after.astype(numpy.uint32) << 16).view(numpy.float32) == alone).all(), "not what one rank computes"
            assert sorted(found) == sorted(alone[cell] for cell in cells)
    try:  # the other ranks do not wait for what one cannot give
        grid.scatter(before + 1j if grid.rank == 0 else None, u)
    except (TypeError, spider.Error) as error:
        assert ("real numbers, not complex128" if grid.rank == 0 else "null") in str(error), error
    else:
        sys.exit("complex numbers were scattered")

# A system of equations: each field by the grid of its own, that along x alone whole on ranks along y.
waves = library.kernel("waves")
names = [name for name, _ in waves.info.fields]
with spider_distributed.Grid(ranks, waves, whole, periodic=(True, False)) as grid:
    random = numpy.random.default_rng(3)
    of_fields = [grid.of_field(name) for name in names]
    before = [random.uniform(0.5, 1, own.whole) for own in of_fields]
    two = [bool(uses & spider.FIELD_TWO_BUFFERS) for uses in waves.info.uses]
    fields = [own.scatter(values if grid.rank == 0 else None, own.field()) for own, values in zip(of_fields, before)]
    outputs = [own.field() if needed else None for own, needed in zip(of_fields, two)]
    grid.run_system(fields, outputs, [0.125], steps=5)
    grid.wait(seconds=60)
    assert of_fields[names.index("damp")].whole == (1, 130), of_fields[names.index("damp")].whole
    last = [output if uses & spider.FIELD_RESULT_IN_OUTPUT else field
            for field, output, uses in zip(fields, outputs, waves.info.uses)]
    after = [own.gather(field) for own, field in zip(of_fields, last)]
    of_fields[0].write_npy(last[0], "python_pressure.npy")
    if grid.rank == 0:
        fields = [library.field(waves, *whole, name=name).upload(values) for name, values in zip(names, before)]
        outputs = [library.field(waves, *whole, name=name) if needed else None for name, needed in zip(names, two)]
        waves.run_system(fields, outputs, [0.125], steps=5)
        library.synchronize()
        for name, field, output, uses, found in zip(names, fields, outputs, waves.info.uses, after):
            alone = output if uses & spider.FIELD_RESULT_IN_OUTPUT else field
            assert (found == alone.download()).all(), f"{name} is not what one rank computes"
        assert (numpy.load("python_pressure.npy") == after[0]).all() and after[0].std() > 0.1
        os.remove("python_pressure.npy")
        print(f"Python: a system on {grid.ranks} ranks as {grid.parts}, the bits of one")
    try:
        grid.scatter(before[0] if grid.rank == 0 else None, fields[0])
    except (ValueError, spider.Error) as error:
        assert "system of equations" in str(error), error
    else:
        sys.exit("a system's whole grid scattered a field")
