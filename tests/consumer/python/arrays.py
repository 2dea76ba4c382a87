"""Arrays that are not what they seem: views of one row, views without a halo, of every kind of array; and what is refused.

Kinds whose libraries may be absent, on devices above all, are classes here that show what those show.
"""

import copy
import dataclasses
import mmap
import os
import pickle
import tempfile

import numpy as np
import spider

class OnDevice:
    """What CuPy and PyTorch show of an array."""

    def __init__(self, **interface):
        self.__cuda_array_interface__ = {"data": (1 << 20, False), "version": 3} | interface


class OnHost:
    """An array of NumPy that tells something else of itself."""

    def __init__(self, array: np.ndarray, **interface):
        self.__array_interface__ = array.__array_interface__ | interface


def refuse(kind: type, words: str, function, *arguments, **options) -> None:
    try:
        function(*arguments, **options)
    except kind as error:
        assert words in str(error), f"{error} does not say {words}"
    else:
        raise AssertionError(f"{function} accepted what it must refuse: {words}")


class Cupy(OnDevice):
    """An array of CuPy over host memory: strides are left out where it has no gaps, `base` is the array of a view."""

    class Memory:
        def __init__(self, ptr: int, size: int, owner=None):
            self.ptr, self.size, self._owner = ptr, size, owner

    class Data:
        def __init__(self, ptr: int, mem):
            self.ptr, self.mem = ptr, mem

    def __init__(self, array: np.ndarray, base=None, owner=None):
        address = array.ctypes.data
        super().__init__(shape=array.shape, typestr=array.dtype.str, data=(address, False),
                         strides=None if array.flags.c_contiguous else array.strides)
        self.array, self.base, self.strides = array, base, array.strides
        self.data = self.Data(address, self.Memory(address, array.nbytes + 512, owner))

    def __getitem__(self, key) -> "Cupy":
        return Cupy(self.array[key], self if self.base is None else self.base)


class Torch(OnDevice):
    """A tensor: no attribute `strides`, but `stride()`, in elements."""

    class Storage:
        def __init__(self, array: np.ndarray):
            self.data_ptr, self.nbytes = (lambda: array.ctypes.data), (lambda: array.nbytes)

    def __init__(self, array: np.ndarray, base=None, storage=None):
        super().__init__(shape=array.shape, typestr=array.dtype.str, data=(array.ctypes.data, False),
                         strides=None if array.flags.c_contiguous else array.strides)
        self.array, self._base, self.shape = array, base, array.shape
        self._storage = self.Storage(array) if storage is None else storage

    def __getitem__(self, key) -> "Torch":
        return Torch(self.array[key], self if self._base is None else self._base, self._storage)

    def detach(self) -> "Torch":
        return Torch(self.array, None, self._storage)

    def data_ptr(self) -> int:
        return self.array.ctypes.data

    def element_size(self) -> int:
        return self.array.itemsize

    def stride(self) -> tuple:
        return tuple(stride // self.array.itemsize for stride in self.array.strides)

    def untyped_storage(self):
        return self._storage

    def is_neg(self) -> bool:
        return False


class Numba(OnDevice):
    """An array of Numba's: only its memory knows what it is a part of."""

    class Memory:
        def __init__(self, address: int, size: int, owner=None):
            self.device_ctypes_pointer = spider.ctypes.c_uint64(address)
            self.size, self.owner = size, self if owner is None else owner

    def __init__(self, array: np.ndarray, owner=None):
        super().__init__(shape=array.shape, typestr=array.dtype.str, data=(array.ctypes.data, False),
                         strides=None if array.flags.c_contiguous else array.strides)
        self.array, self.strides = array, array.strides
        self.gpu_data = self.Memory(array.ctypes.data, array.nbytes, owner)

    def __getitem__(self, key) -> "Numba":
        return Numba(self.array[key], self.gpu_data.owner)


class Plain(OnDevice):
    """Any other array: the interface is all there is, its strides left out where it has no gaps."""

    def __init__(self, array: np.ndarray):
        super().__init__(shape=array.shape, typestr=array.dtype.str, data=(array.ctypes.data, False))
        if not array.flags.c_contiguous:
            self.__cuda_array_interface__["strides"] = array.strides

    def __getitem__(self, key) -> "Plain":
        raise NotImplementedError


KINDS = (Cupy, Torch, Numba)


class FromDevice:
    """A kernel on the host that takes arrays for a device's: their memory is the host's here."""

    def __init__(self, kernel: spider.Kernel):
        self.kernel = copy.copy(kernel)
        self.kernel.info = dataclasses.replace(kernel.info, backend="cuda")

    def __call__(self, source, shape) -> np.ndarray:
        target = np.full(shape, -1, np.float32)
        self.kernel.apply(source, Plain(target))
        return target


def grid(*shape: int) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape).copy()


def single_rows(library: spider.Library) -> None:
    """`down` reads the row above through a halo face, `rise` the plane below. One row or plane is wherever its array is."""
    down, rise = library.kernel("down"), library.kernel("rise")
    assert down.halo(5, 8) == ((1, 0), (0, 0)) and rise.halo(3, 4, 5) == ((1, 0), (0, 0), (0, 0))
    p, q = grid(5, 8), grid(4, 5, 6)
    views = [np.s_[1:, :], np.s_[2:3, 1:7], np.s_[2:3, :], np.s_[2:3, 3:4], np.s_[1:, 3:4], np.s_[4:, 7:], np.s_[2::2, :]]
    for view in views:
        out = np.empty_like(p[view])
        first, step = view[0].start, view[0].step or 1
        expected = np.roll(p, step, axis=0)[view]
        assert (down.apply(p[view], out) == expected).all(), view
        for kind in KINDS:
            assert (FromDevice(down)(kind(p)[view], out.shape) == expected).all(), (kind, view)
        if first + step >= 5:  # one row, and who does not tell where it is
            refuse(ValueError, "does not tell how far the next is", FromDevice(down), Plain(p[view]), out.shape)
    for view in (np.s_[1:2, 2:3, 3:4], np.s_[1:2, :, :], np.s_[3:, 2:3, :], np.s_[1:, 4:, 5:], np.s_[1:3, 1:3, 1:4]):
        out = np.empty_like(q[view])
        expected = np.roll(q, 1, axis=0)[view]
        assert (rise.apply(q[view], out) == expected).all(), view
        for kind in KINDS:
            assert (FromDevice(rise)(kind(q)[view], out.shape) == expected).all(), (kind, view)
    refuse(ValueError, "one cell along z and does not tell", FromDevice(rise), Plain(q[1:2]), (1, 5, 6))
    # Without a halo there is nothing to tell: any stride of a single row will do.
    tilt = library.kernel("tilt")
    expected = tilt.apply(p[2:3].copy(), np.empty((1, 8), np.float32))
    for single in (Plain(p[2:3]), Cupy(p)[2:3], Torch(p)[2:3], Numba(p)[2:3]):
        assert (FromDevice(tilt)(single, (1, 8)) == expected).all()
    assert (tilt.apply(p[2][np.newaxis], np.empty((1, 8), np.float32)) == expected).all()
    # An axis that was invented has no neighbours.
    refuse(spider.Error, "0 elements from row to row", down.apply, p[2][np.newaxis], np.empty((1, 8), np.float32))


def missing_halos(library: spider.Library) -> None:
    """A kernel that reads through halo faces takes what is known to lie in a larger array."""
    down, shift, back = library.kernel("down"), library.kernel("shift"), library.kernel("back")
    assert back.halo(50) == ((100, 0),)
    words = "pass a view into a padded array, padded["
    line, out = grid(5000), np.zeros(5000, np.float32)
    for plain in (line, line.copy()[:], np.asarray(memoryview(line.copy())), np.matrix(line).A1.copy()):
        refuse(ValueError, words + "100:], or a field of Library.field", back.apply, plain, out)
        refuse(ValueError, "100 before it and 0 after it along x", back.iterate, plain, out, 1)
    assert not out.any()
    for kind in KINDS:
        refuse(ValueError, words, FromDevice(back), kind(line), (5000,))
        refuse(ValueError, words, FromDevice(back), kind(line)[99:], (4901,))
        assert (FromDevice(back)(kind(line)[100:], (4900,)) == line[:-100]).all()
    refuse(ValueError, words, FromDevice(back), Plain(line[100:]), (4900,))
    refuse(ValueError, words, FromDevice(back), Torch(line).detach(), (5000,))
    assert (FromDevice(back)(Torch(line)[100:].detach(), (4900,)) == line[:-100]).all()
    refuse(ValueError, words, back.apply, line[99:], out[99:])
    assert (back.apply(line[100:], out[100:])[:] == line[:-100]).all()

    # Rows of a larger array are not each other's halo; a box of it is where it is, in any order of its axes.
    wide = grid(6, 300)
    refuse(ValueError, words, back.apply, wide[3], out[:300])
    refuse(ValueError, words, back.apply, wide[3, 99:], out[:201])
    refuse(ValueError, words, FromDevice(back), Cupy(wide)[3], (300,))
    refuse(ValueError, words, FromDevice(back), Torch(wide)[3], (300,))
    assert (back.apply(wide[3, 100:], out[:200]) == wide[3, :-100]).all()
    assert (back.apply(wide.reshape(-1)[100:], out[:1700]) == wide.reshape(-1)[:-100]).all()
    deep = grid(3, 6, 300)
    assert (back.apply(deep[1, 3, 100:], out[:200]) == deep[1, 3, :-100]).all()
    refuse(ValueError, words, down.apply, deep[1], np.empty((6, 300), np.float32))
    assert (down.apply(deep[1, 1:], np.empty((5, 300), np.float32)) == deep[1, :-1]).all()
    assert (down.apply(deep[1:, 2], np.empty((2, 300), np.float32)) == deep[:-1, 2]).all()
    turned = np.asfortranarray(grid(300, 6)).T
    assert (down.apply(turned[1:], np.empty((5, 300), np.float32)) == turned[:-1]).all()
    refuse(ValueError, words, down.apply, turned, np.empty((6, 300), np.float32))

    # In 2D, `shift` reads a row above and two columns to the left, and rows that wrap round are none of its halo.
    p = np.arange(60, dtype=np.int32).reshape(6, 10).astype(np.float16)
    target = np.zeros((5, 8), np.float16)
    for view in (p, p[1:], p[:, 2:], p[1:, 1:], p[1:, :-2], p[:-1, 2:]):
        refuse(ValueError, words + "1:, 2:]", shift.apply, view, np.empty_like(view))
    assert (shift.apply(p[1:, 2:], target) == p[:-1, :-2]).all()
    # Boxes read what they read.
    line32 = grid(300)
    assert (back.apply_box(line32, out[:300], (100,), (200,))[100:300] == line32[:200]).all()
    refuse(ValueError, "1 before it", back.apply_box, line32, out[:300], (99,), (100,))

    # Memory of others: buffers, mapped files, fields.
    buffer = bytearray(4 * 300)
    inside = np.frombuffer(buffer, np.float32, offset=400)
    assert (back.apply(inside, out[:200]) == 0).all()
    refuse(ValueError, words, back.apply, np.frombuffer(buffer, np.float32, offset=396), out[:201])
    with tempfile.TemporaryFile() as file:
        file.write(line32.tobytes())
        file.flush()
        mapped = np.memmap(file, np.float32, mode="r")
        assert (back.apply(mapped[100:], out[:200]) == line32[:200]).all()
        refuse(ValueError, words, back.apply, mapped, out[:300])
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
            part = np.frombuffer(raw, np.float32, offset=400)
            assert (back.apply(part, out[:200]) == line32[:200]).all()
            del part
    field = library.field(back, 50).upload(line32[:50])
    assert field.halo == ((128, 0),)
    result = back.apply(field, library.field(back, 50)).download()
    assert not result.any()  # all of it comes from the halo, which nobody filled
    assert not back.apply(np.asarray(field)[10:20], out[:10]).any()
    refuse(ValueError, words, shift.apply, library.field(library.kernel("diffusion"), 5, 8), target)
    strided = np.lib.stride_tricks.as_strided(line32[100:], (200,), (4,))
    assert (back.apply(strided, out[:200]) == line32[:200]).all()
    refuse(ValueError, words, back.apply, np.lib.stride_tricks.as_strided(line32, (300,), (4,)), out[:300])
    # A field, and other memory, that CuPy or Numba wrapped, is still what it was.
    assert not FromDevice(back)(Cupy(np.asarray(field), owner=field), (50,)).any()
    assert not FromDevice(back)(Numba(np.asarray(field), owner=field), (50,)).any()
    inner = Cupy(line32[100:], owner="somebody")
    refuse(ValueError, words, FromDevice(back), inner, (200,))
    inner.data.mem.ptr, inner.data.mem.size = line32.ctypes.data, line32.nbytes
    assert (FromDevice(back)(inner, (200,)) == line32[:200]).all()


def kept_halos(library: spider.Library) -> None:
    """A field has room for what is read, and no more."""
    for name, extents in (("diffusion", (4, 8)), ("relax3d", (2, 3, 4)), ("tilt", (4, 8))):
        kernel = library.kernel(name)
        assert kernel.halo(*extents) == ((0, 0),) * len(extents)
        field = library.field(kernel, *extents)
        assert field.halo == ((0, 0),) * len(extents) and field.strides[-2] == 128
    assert library.field(library.kernel("shift"), 4, 8).halo == ((1, 0), (64, 0))
    refuse(ValueError, "2 axes, not 3", library.kernel("shift").halo, 1, 4, 8)
    refuse(spider.Error, "extent -1 on axis y", library.kernel("shift").halo, -1, 8)


def odd_arrays(library: spider.Library) -> None:
    """Nothing is silently something else."""
    tilt, down = library.kernel("tilt"), library.kernel("down")
    good, out = grid(4, 8), np.zeros((4, 8), np.float32)
    expected = tilt.apply(good, out).copy()
    masked = np.ma.array(good, mask=good > 3)
    for array in (masked, np.ma.array(good), masked[1:]):
        refuse(TypeError, "masked arrays", tilt.apply, array, out)
        refuse(TypeError, "masked arrays", tilt.apply, good, array)
        refuse(TypeError, "masked arrays", tilt.iterate, good.copy(), array, 1)
        refuse(TypeError, "masked arrays", library.field(tilt, 4, 8).upload, array)
    for dtype in (np.complex64, np.complex128, np.float64, np.int32, np.uint32, np.int8, ">f4", "S4", "V4", "M8[s]"):
        other = np.zeros((4, 8), dtype)
        refuse(TypeError, "stores f32", tilt.apply, other, out)
        refuse(TypeError, "stores f32", tilt.apply, good, other)
    for dtype in (np.complex64, np.complex128, "S4", "V4", "M8[s]", object):
        refuse(TypeError, "real numbers", library.field(tilt, 4, 8).upload, np.zeros((4, 8), dtype))
    refuse(TypeError, "real numbers", library.field(library.kernel("tint"), 4, 8).upload, np.zeros((4, 8), "V2"))
    for dtype in (np.float64, np.int64, np.uint8, bool, ">f4", ">i2"):
        values = (np.arange(32) % 2).reshape(4, 8).astype(dtype)
        assert (library.field(tilt, 4, 8).upload(values).download() == values).all()
    refuse(ValueError, "x has to be contiguous", tilt.apply, np.zeros((4, 8), np.complex64).real, out)
    refuse(ValueError, "2 dimensions, the array 0", tilt.apply, np.float32(1) + np.zeros(()), out)
    assert tilt.apply(np.zeros((0, 8), np.float32), np.zeros((0, 8), np.float32)).shape == (0, 8)
    assert down.apply(np.zeros((4, 0), np.float32), np.zeros((4, 0), np.float32)).shape == (4, 0)
    refuse(spider.Error, "from row to row", tilt.apply, np.broadcast_to(good[0], (4, 8)), out)
    refuse(spider.Error, "from row to row", tilt.apply, good[::-1], out)
    refuse(ValueError, "x has to be contiguous", tilt.apply, good[:, ::-1], out)
    refuse(ValueError, "x has to be contiguous", tilt.apply, np.asfortranarray(good), out)
    refuse(ValueError, "read-only", tilt.apply, good, np.broadcast_to(np.float32(0), (4, 8)))
    refuse(ValueError, "read-only", tilt.apply, good, np.frombuffer(bytes(128), np.float32).reshape(4, 8))
    whole = grid(6, 8)
    refuse(spider.Error, "share cells", tilt.apply, whole[:4], whole[2:])
    refuse(spider.Error, "share cells", down.apply, whole[3:5], whole[1:3])
    assert (tilt.apply(np.matrix(good), np.asmatrix(out)) == expected).all()
    apart = np.zeros((8, 8), np.float32)
    apart[::2] = good
    assert (tilt.apply(apart[::2], apart[1::2]) == expected).all()

    negated = Torch(good)
    negated.is_neg = lambda: True
    refuse(TypeError, "resolve_neg", FromDevice(tilt), negated, (4, 8))
    refuse(TypeError, "no address", tilt.apply, OnHost(good, data=None), out)


def single_fields(library: spider.Library) -> None:
    """A copy of a field would free its memory, too."""
    field = library.field(library.kernel("tilt"), 4, 8)
    for function in (copy.copy, copy.deepcopy, pickle.dumps):
        refuse(TypeError, "can be neither copied nor pickled", function, field)
        refuse(TypeError, "can be neither copied nor pickled", function, field)


def changed_libraries(library: spider.Library) -> None:
    """The file that a library was loaded from is built again: by a new file of its name, or over the old one."""
    with open(library.path, "rb") as file:
        content = file.read()
    old = library.kernel("tilt").info.spec_hash
    good = grid(4, 8)
    expected = library.kernel("tilt").apply(good, np.empty_like(good))
    with tempfile.TemporaryDirectory() as folder:
        path, aside = os.path.join(folder, "libkernels.so"), os.path.join(folder, "aside")
        loaded = []
        for digit, replace in ((b"0", False), (b"1", False), (b"2", True), (b"3", True)):
            hash_now = digit * 16
            with open(aside if replace else path, "wb") as file:
                file.write(content.replace(old.encode(), hash_now))
            if replace:
                os.replace(aside, path)
            loaded.append((spider.load(path), hash_now.decode()))
            for now, wanted in loaded:  # the earlier ones go on
                assert now.kernel("tilt").info.spec_hash == wanted, wanted
                assert (now.kernel("tilt").apply(good, np.empty_like(good)) == expected).all()
        assert spider.load(path)._c is loaded[-1][0]._c
        assert os.listdir(folder) == ["libkernels.so"]
        with open(path, "wb") as file:
            file.write(b"no library")
        refuse(OSError, path, spider.load, path)


def check(library: spider.Library) -> None:
    single_rows(library)
    missing_halos(library)
    kept_halos(library)
    odd_arrays(library)
    single_fields(library)
    changed_libraries(library)
