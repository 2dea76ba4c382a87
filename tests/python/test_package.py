"""The Python package on the host: test_package.py ROOT [unittest options]. Kernels come from the cache that SPIDER_GEN_CACHE
names; tests of the cache itself have their own."""

import concurrent.futures
import errno
import inspect
import multiprocessing
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import warnings
import zlib

import numpy as np

import spider_gen
from spider_gen import _arrays, _cache, _compilers, _picture

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
HEAT = {"stencil": "heat", "dimensions": 2, "storage": "f32", "shape": "star", "parameters": {"alpha": 0.1},
        "coefficients": {"center": "1 - 4*alpha", "y": ["alpha", "alpha"], "x": ["alpha", "alpha"]}, "boundary": "nearest"}


def block(name):
    text = (ROOT / "runtime/python/package.md").read_text(encoding="utf-8")
    return re.search(rf"<!-- block: {re.escape(name)} -->\n```\w+\n(.*?)```", text, re.DOTALL)[1]


def heat(**parameters):
    return spider_gen.stencil(HEAT, backend="host", **parameters)


def step(u, alpha=0.1):
    p = np.pad(u.astype(np.float64), 1, mode="edge")
    return u + alpha * (p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4.0 * u)


def field(shape=(40, 50), dtype=np.float32):
    return np.random.default_rng(7).random(shape).astype(dtype)


class Calls(unittest.TestCase):
    def test_a_sweep_is_that_of_numpy(self):
        u = field()
        np.testing.assert_allclose(heat()(u), step(u), rtol=1e-6)
        np.testing.assert_allclose(heat(alpha=0.2)(u), step(u, 0.2), rtol=1e-6)
        np.testing.assert_allclose(heat(alpha="1/5")(u), step(u, 0.2), rtol=1e-6)

    def test_steps(self):
        u = field()
        wanted = u
        for _ in range(7):
            wanted = step(wanted)
        before = u.copy()
        said = []
        got = heat().iterate(u, 7, progress=lambda done, steps: said.append((done, steps)))
        np.testing.assert_allclose(got, wanted, rtol=2e-6)
        np.testing.assert_array_equal(u, before)
        self.assertEqual((said[0], said[-1]), ((0, 7), (7, 7)))
        np.testing.assert_array_equal(heat().iterate(u, 0), u)
        out = np.empty_like(u)
        self.assertIs(heat().iterate(u, 7, out=out), out)
        np.testing.assert_array_equal(out, got)

    def test_halo_faces_take_a_view(self):
        one = spider_gen.stencil({**HEAT, "boundary": "halo"}, backend="host")
        padded = field((12, 14))
        u = padded[1:-1, 1:-1]
        got = one(u)
        np.testing.assert_allclose(got, step(padded)[1:-1, 1:-1], rtol=1e-6)
        twice = one.iterate(u, 2)
        again = padded.copy()
        again[1:-1, 1:-1] = got
        np.testing.assert_array_equal(twice, one(again[1:-1, 1:-1]))
        with self.assertRaisesRegex(ValueError, "halo"):
            one(u.copy())

    def test_weights_are_those_of_scipy(self):
        import scipy.ndimage

        u = field((9, 11))
        for shape in ((3, 3), (2, 4), (1, 5)):
            weights = np.random.default_rng(3).uniform(-1, 1, shape)
            one = spider_gen.stencil(weights=weights, boundary="mirror", storage="f32", backend="host")
            np.testing.assert_allclose(one(u), scipy.ndimage.correlate(u.astype(float), weights, mode="mirror"), atol=1e-6)

    def test_kinds_of_arrays(self):
        u = field()
        wanted = heat()(u)

        class Dlpack:
            def __dlpack__(self, **_):
                return u.__dlpack__()

            def __dlpack_device__(self):
                return u.__dlpack_device__()

        np.testing.assert_array_equal(heat()(Dlpack()), wanted)
        np.testing.assert_array_equal(heat()(np.pad(u, 3)[3:-3, 3:-3]), wanted)
        np.testing.assert_array_equal(heat()(np.repeat(u, 2, axis=0)[::2]), wanted)
        np.testing.assert_array_equal(heat()(memoryview_like(u)), wanted)

    def test_doubles(self):
        one = spider_gen.stencil({**HEAT, "storage": "f64"}, backend="host")
        u = field(dtype=np.float64)
        self.assertTrue((u != u.astype(np.float32)).any())
        wanted = u
        for _ in range(3):
            wanted = step(wanted)
        got = one.iterate(u, 3)
        self.assertEqual(got.dtype, np.float64)
        np.testing.assert_allclose(got, wanted, rtol=4e-16 * 3 * 5)
        np.testing.assert_allclose(one(np.pad(u, 3)[3:-3, 3:-3]), step(u), rtol=4e-16 * 5)
        with self.assertRaisesRegex(TypeError, "takes f64, and u is float32: pass u.astype.numpy.float64"):
            one(u.astype(np.float32))

    def test_doubles_with_other_fields(self):
        one = spider_gen.stencil({**HEAT, "storage": "f64", "previous": "u_old", "scalars": ["s"],
                                  "fields": {"c": {"storage": "f16"}, "d": {"storage": "f64"}},
                                  "update": "u_old + c*sum + d/s"}, backend="host")
        rng = np.random.default_rng(5)
        u, old, d = (rng.random((20, 30)) for _ in range(3))
        c = rng.random((20, 30)).astype(np.float16)
        np.testing.assert_allclose(one(u, u_old=old, c=c, d=d, s=0.1), old + c.astype(float) * step(u) + d / 0.1, rtol=4e-16 * 9)

    def test_bf16_by_its_bits(self):
        one = spider_gen.stencil({**HEAT, "storage": "bf16"}, backend="host")
        bits = (field().view(np.uint32) >> 16).astype(np.uint16)
        wide = lambda cells: (cells.astype(np.uint32) << 16).view(np.float32)
        np.testing.assert_allclose(wide(one(bits)), step(wide(bits)), rtol=2**-8)

    def test_what_it_tells(self):
        self.assertIn("heat_kernel", heat().source)
        self.assertIn("Boundary  y nearest; x nearest", heat().explain())
        self.assertEqual((heat().info.storage, heat().info.backend, heat().name), ("f32", "host", "heat"))

    def test_a_file_again_is_quick(self):
        path = ROOT / "stencils/heat2d.yaml"
        spider_gen.stencil(path, backend="host").compile()
        seconds = []
        for _ in range(5):
            begin = time.monotonic()
            spider_gen.stencil(path, backend="host")
            seconds.append(time.monotonic() - begin)
        self.assertLess(min(seconds), 0.05)


def memoryview_like(u):
    class Interface:
        __array_interface__ = u.__array_interface__
        held = u

    return Interface()


class Again(unittest.TestCase):
    """Calls with arrays that lie as earlier ones did: without a second look at them."""

    def again(self, call):
        with unittest.mock.patch.object(_arrays, "wrap", side_effect=AssertionError("a second look")):
            return call()

    def test_sweeps(self):
        one, u = heat(), field()
        out = np.empty_like(u)
        one(u, out=out)
        u *= 3
        self.assertIs(self.again(lambda: one(u, out=out)), out)
        np.testing.assert_allclose(out, step(u), rtol=1e-6)
        np.testing.assert_array_equal(self.again(lambda: one(u)), out)
        other = field() + 1
        np.testing.assert_allclose(self.again(lambda: one(other)), step(other), rtol=1e-6)
        for other in (field((40, 48)), u[::2], u.astype(np.float64), np.ma.masked_array(u)):  # these lie otherwise
            with self.assertRaises(AssertionError):
                self.again(lambda: one(other, out=np.empty_like(other)))
        with self.assertRaisesRegex(ValueError, "share cells"):
            one(u, out=u)
        read_only = np.empty_like(u)
        read_only.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "out is read-only"):
            one(u, out=read_only)
        unaligned = np.frombuffer(bytearray(4 * u.size + 1), np.float32, offset=1).reshape(u.shape)
        unaligned[...] = u
        np.testing.assert_array_equal(one(unaligned), one(u))
        with self.assertRaisesRegex(ValueError, "shape"):
            one(u, out=out[:20])

    def test_updates(self):
        wave = spider_gen.stencil(WAVE, backend="host")
        rng = np.random.default_rng(5)
        u, old, speed, slow = (rng.random((30, 40)).astype(np.float32) for _ in range(4))
        start = u.copy(), old.copy()
        wanted = []
        for damping in (0.5, 0.25):
            wanted.append(wave(u, u_old=old, speed=speed, damping=damping))
        out = np.empty_like(u)
        wave(u, out=out, u_old=old, speed=speed, damping=0.5)
        np.testing.assert_array_equal(out, wanted[0])
        self.again(lambda: wave(u, out=out, u_old=old, speed=speed, damping=0.25))
        np.testing.assert_array_equal(out, wanted[1])
        self.again(lambda: wave(u, out=out, u_old=old, speed=speed, damping=np.float64(0.5)))
        np.testing.assert_array_equal(out, wanted[0])
        other = wave(u, u_old=old, speed=np.ascontiguousarray(slow[::-1])[::-1], damping=0.5)  # which is copied
        np.testing.assert_array_equal(self.again(lambda: wave(u, u_old=old, speed=slow, damping=0.5)), other)
        np.testing.assert_array_equal(wave(u, damping=0.5, speed=old, u_old=speed),  # by name, in any order
                                      self.again(lambda: wave(u, u_old=speed, speed=old, damping=0.5)))
        with self.assertRaisesRegex(TypeError, "needs damping"):
            wave(u, out=out, u_old=old, speed=speed)
        # In place, turn about.
        once = wave.iterate(start[0], 4, u_old=start[1], speed=speed, damping=0.5)
        for turn in range(4):
            call = lambda: wave(u, out=old, u_old=old, speed=speed, damping=0.5)  # noqa: B023
            self.again(call)
            u, old = old, u
        np.testing.assert_array_equal((u, old), once)

    def test_halos_of_fields(self):
        one = spider_gen.stencil({**HEAT, "boundary": "halo", "fields": ["c"], "update": "u + c*sum", "steps": 3},
                                 backend="host")
        self.assertEqual((one.halo(10, 12), one.halo_of_fields(10, 12)), (((3, 3), (3, 3)), ((2, 2), (2, 2))))

    def test_halo_faces_are_looked_at(self):
        one = spider_gen.stencil({**HEAT, "boundary": "halo"}, backend="host")
        padded = field((12, 14))
        out = np.empty((10, 12), np.float32)
        one(padded[1:-1, 1:-1], out=out)
        other = padded + 1
        self.again(lambda: one(other[1:-1, 1:-1], out=out))
        np.testing.assert_allclose(out, step(other)[1:-1, 1:-1], rtol=1e-6)
        np.testing.assert_array_equal(self.again(lambda: one(other[1:-1, 1:-1])), out)
        wide = np.zeros((12, 28), np.float32)
        for outside in (np.ascontiguousarray(padded[1:-1, 1:-1]), padded[:-2, 1:-1], padded[1:-1, 2:], field((10, 14))[:, 1:-1],
                        field(12 * 14)[14:154].reshape(10, 14)[:, :12], wide[1:-1, 1:-1][:, :12].copy()):
            with self.assertRaisesRegex(ValueError, "halo"):
                one(outside, out=out)
        for inside in (np.asfortranarray(padded)[1:-1, 1:-1], memoryview_like(other[1:-1, 1:-1])):
            with self.assertRaises(AssertionError):
                self.again(lambda: one(inside, out=out))  # noqa: B023

    def test_points(self):
        one, u = heat(), np.zeros((30, 40), np.float32)
        points = one.points(u.shape, [(3, 4), (29, 39)])
        trace, values = np.zeros((3, 2), np.float32), np.float32([1, 2])
        points.add(u, values)
        values *= 2
        self.again(lambda: points.add(u, values))
        np.testing.assert_array_equal((u[3, 4], u[29, 39], u.sum()), (3, 6, 9))
        points.read(u, out=trace[0])
        u *= 2
        self.again(lambda: points.read(u, out=trace[2]))
        np.testing.assert_array_equal(trace, [[3, 6], [0, 0], [6, 12]])
        with self.assertRaisesRegex(ValueError, "there are 2 points, and 1 values"):
            points.read(u, out=trace[0, :1])


WAVE = {"stencil": "wave", "dimensions": 2, "storage": "f32", "shape": "star", "boundary": {"constant": 0}, "previous": "u_old",
        "coefficients": {"center": -4, "y": [1, 1], "x": [1, 1]}, "fields": ["speed"], "scalars": ["damping"],
        "update": "(2*u - (1 - damping)*u_old + speed*sum) / (1 + damping)"}


class Updates(unittest.TestCase):
    def setUp(self):
        self.wave = spider_gen.stencil(WAVE, backend="host")
        rng = np.random.default_rng(5)
        self.u, self.old, self.speed = (rng.random((30, 40)).astype(np.float32) for _ in range(3))
        self.speed *= 0.3

    def wanted(self, u, old, damping):
        p = np.pad(u.astype(float), 1)
        total = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * p[1:-1, 1:-1]
        return (2 * u - (1 - damping) * old + self.speed * total) / (1 + damping)

    def test_a_sweep(self):
        wanted = self.wanted(self.u, self.old, 0.01)
        got = self.wave.update(self.u, u_old=self.old, speed=self.speed, damping=0.01)
        np.testing.assert_allclose(got, wanted, atol=2e-6)
        over = self.old.copy()
        self.assertIs(self.wave(self.u, out=over, u_old=over, speed=self.speed, damping=0.01), over)
        np.testing.assert_array_equal(over, got)

    def test_steps(self):
        u, old = self.u.astype(float), self.old.astype(float)
        for _ in range(7):
            u, old = self.wanted(u, old, 0.01), u
        kept = self.u.copy(), self.old.copy()
        for progress in (False, lambda done, steps: None):
            for steps in (7,):
                got = self.wave.iterate(self.u, steps, u_old=self.old, speed=self.speed, damping=0.01, progress=progress)
                np.testing.assert_allclose(got[0], u, atol=2e-5)
                np.testing.assert_allclose(got[1], old, atol=2e-5)
        halfway = self.wave.iterate(self.u, 3, u_old=self.old, speed=self.speed, damping=0.01)
        np.testing.assert_array_equal(
            self.wave.iterate(halfway[0], 4, u_old=halfway[1], speed=self.speed, damping=0.01)[0], got[0])
        none = self.wave.iterate(self.u, 0, u_old=self.old, speed=self.speed, damping=0.01)
        np.testing.assert_array_equal(none, (self.u, self.old))
        np.testing.assert_array_equal((self.u, self.old), kept)

    def test_several_steps_in_a_sweep(self):
        wave = spider_gen.stencil({**WAVE, "steps": 3}, backend="host")
        for steps in (0, 1, 2, 3, 5, 6, 7, 10):  # in pairs of fields, and the rest in place
            u, old = self.u.astype(float), self.old.astype(float)
            for _ in range(steps):
                u, old = self.wanted(u, old, 0.01), u
            got = wave.iterate(self.u, steps, u_old=self.old, speed=self.speed, damping=0.01)
            np.testing.assert_allclose(got[0], u, atol=3e-5)
            np.testing.assert_allclose(got[1], old, atol=3e-5)
        with self.assertRaisesRegex(TypeError, "wave takes 3 steps in a sweep, and a step reads the one before: call iterate"):
            wave(self.u, u_old=self.old, speed=self.speed, damping=0.01)

    def test_what_is_missing(self):
        with self.assertRaisesRegex(TypeError, "wave needs speed, damping by name: beside u it takes u_old, speed, damping"):
            self.wave(self.u, u_old=self.old)
        with self.assertRaisesRegex(TypeError, "heat takes no speed: beside u it takes nothing"):
            heat()(self.u, speed=self.speed)
        spec = {**HEAT, "fields": ["stream"], "update": "sum*stream"}
        with self.assertRaisesRegex(TypeError, "takes a stream, which calls have a meaning of their own for"):
            spider_gen.stencil(spec, backend="host")(self.u, stream=self.speed)
        with self.assertRaisesRegex(ValueError, r"speed has the shape \(3, 4\)"):
            self.wave(self.u, u_old=self.old, speed=self.speed[:3, :4], damping=0)
        with self.assertRaisesRegex(TypeError, "takes f32, and speed is float64"):
            self.wave(self.u, u_old=self.old, speed=self.speed.astype(float), damping=0)


class Sums(unittest.TestCase):
    """Several sums of the input by name."""

    def test_a_mapping_of_three_with_other_inputs(self):
        spec = {"dimensions": 2, "storage": "f32", "boundary": "periodic", "parameters": {"h": 0.5},
                "sums": {"xx": {"shape": "derivative", "order": {"x": 2}, "spacing": "h"},
                         "yy": {"shape": "derivative", "order": {"y": 2}, "spacing": "h"},
                         "xy": {"shape": "derivative", "order": {"y": 1, "x": 1}, "spacing": "h"}},
                "previous": "old", "fields": ["c"], "scalars": ["k"], "update": "old + k*c*(xx*yy - xy^2)"}
        determinant = spider_gen.stencil(spec, backend="host")
        rng = np.random.default_rng(8)
        u, old, c = (rng.random((33, 47)).astype(np.float32) for _ in range(3))

        def step(u, old):
            xx, yy = (4 * (np.roll(u, 1, axis) - 2 * u + np.roll(u, -1, axis)) for axis in (1, 0))
            xy = np.roll(np.roll(u, -1, 1) - np.roll(u, 1, 1), -1, 0) - np.roll(np.roll(u, -1, 1) - np.roll(u, 1, 1), 1, 0)
            return old + 0.01 * c.astype(float) * (xx * yy - xy**2)

        one = step(u.astype(float), old.astype(float))
        np.testing.assert_allclose(determinant(u, old=old, c=c, k=0.01), one, atol=4e-6)
        two = step(one, u.astype(float)), one
        np.testing.assert_allclose(determinant.iterate(u, 2, old=old, c=c, k=0.01), two, atol=4e-5)

    def test_what_is_wrong_has_a_place(self):
        spec = {"dimensions": 1, "storage": "f32", "sums": {"a": {"shape": "laplacian"}, "b": {"shape": "laplacian"}}}
        with self.assertRaisesRegex(spider_gen.SpecError, "sum 'b' is not used in 'update'"):
            spider_gen.stencil(spec | {"update": "a^2"})
        with self.assertRaisesRegex(spider_gen.SpecError, "'sum' is the stencil of a spec that names no sums; this one has 'a' and 'b'"):
            spider_gen.stencil(spec | {"update": "a + b + sum"})


class Points(unittest.TestCase):
    def test_values_are_added_in_order_and_read(self):
        one = heat()
        u = np.full((30, 40), 0.5, np.float32)
        source = one.points(u.shape, [(3, 4), (29, 39), (3, 4), (3, 4)])
        self.assertEqual(len(source), 4)
        # 1 + 2^-24 is 1 in f32: any other order would give more.
        self.assertIs(source.add(u, [0.5, 2, 2.0**-24, 2.0**-24]), u)
        self.assertEqual((u[3, 4], u[29, 39], (u == 0.5).sum()), (1, 2.5, 30 * 40 - 2))
        np.testing.assert_array_equal(source.read(u), np.float32([1, 2.5, 1, 1]))
        trace = np.zeros((3, 4), np.float32)
        self.assertIs(source.read(u, out=(row := trace[1])), row)
        np.testing.assert_array_equal(trace, [[0] * 4, [1, 2.5, 1, 1], [0] * 4])
        self.assertEqual(one.points(u.shape, []).read(u).shape, (0,))

    def test_halves_and_views(self):
        half = spider_gen.stencil({**HEAT, "storage": "f16"}, backend="host")
        u = np.ones((30, 64), np.float16)[:, 8:48]
        points = half.points(u.shape, [(29, 39)] * 4)
        points.add(u, np.full(4, 2.0**-12))
        self.assertEqual((u[29, 39], u.base.sum(dtype=float)), (1 + 2.0**-10, 30 * 64 + 2.0**-10))
        self.assertEqual(points.read(u).dtype, np.float32)

    def test_a_source_and_a_receiver_in_a_loop(self):
        wave = spider_gen.stencil(WAVE, backend="host")
        u, old = (np.zeros((30, 40), np.float32) for _ in range(2))
        given = {"speed": np.full_like(u, 0.25), "damping": 0}
        source, line = wave.points(u.shape, [(15, 20)]), wave.points(u.shape, [(15, x) for x in range(40)])
        trace = np.empty((12, 40), np.float32)
        for step in range(12):
            wave(u, out=old, u_old=old, **given)
            u, old = old, u
            source.add(u, [1.0 if step == 0 else 0.0])
            line.read(u, out=trace[step])
            np.testing.assert_array_equal(trace[step], u[15])
            reached = np.flatnonzero(trace[step])
            self.assertEqual((reached[0], reached[-1]), (20 - step, 20 + step))
        np.testing.assert_array_equal(trace[:, 1:20], trace[:, :20:-1])  # even about the source, in every bit

    def test_errors(self):
        one, u = heat(), field()
        points = one.points(u.shape, [(0, 0), (39, 49)])
        for kind, words, call in (
                (ValueError, "point 1 has index 50 on axis x; it must be 0 to 49",
                 lambda: one.points(u.shape, [(0, 0), (0, 50)]).read(u)),
                (ValueError, "has 2 axes, not 3", lambda: one.points(u.shape, [(0, 0, 0)]).read(u)),
                (ValueError, "there are 2 points, and 3 values", lambda: points.add(u, [1, 2, 3])),
                (ValueError, "the points are of fields with 40", lambda: points.add(u[1:], [1, 2])),
                (TypeError, "takes f32, and u is float64", lambda: points.read(u.astype(float))),
                (TypeError, "stores f32", lambda: points.read(u, out=np.empty(2)))):
            with self.assertRaisesRegex(kind, words):
                call()
        u.flags.writeable = False
        with self.assertRaisesRegex(ValueError, "read-only"):
            points.add(u, [1, 2])
        points.read(u)


class Errors(unittest.TestCase):
    def refuse(self, kind, words, call, *arguments, **named):
        with self.assertRaisesRegex(kind, words):
            call(*arguments, **named)

    def test_in_terms_of_python(self):
        u = field()
        one = heat()
        self.refuse(TypeError, r"takes f32, and u is float64: pass u.astype\(numpy.float32\)", one, u.astype(float))
        self.refuse(TypeError, "out is float16", one, u, out=u.astype(np.float16))
        self.refuse(ValueError, "has 2 dimensions, and u has 1", one, u[0])
        self.refuse(ValueError, r"out has the shape \(3, 4\), and u \(40, 50\)", one, u, out=np.empty((3, 4), np.float32))
        self.refuse(ValueError, "out has strides of 400, 8 bytes; a kernel writes to rows of elements without gaps", one, u, out=np.empty((40, 100), np.float32)[:, ::2])
        self.refuse(ValueError, "share cells", one, u, out=u)
        self.refuse(ValueError, "share cells", one, u[1:], out=u[:-1])
        out = np.empty_like(u)
        out.flags.writeable = False
        self.refuse(ValueError, "out is read-only", one, u, out=out)
        self.refuse(TypeError, "u, a list, is no array", one, u.tolist())
        self.refuse(TypeError, "masked", one, np.ma.masked_array(u))
        self.refuse(ValueError, "-1 steps", one.iterate, u, -1)
        self.refuse(TypeError, "integer", one.iterate, u, 1.5)

    def test_of_devices(self):
        u = field()

        class OnDevice:
            __cuda_array_interface__ = u.__array_interface__

        self.refuse(TypeError, "the array is on a device", heat(), OnDevice())
        with unittest.mock.patch.object(_compilers, "device", lambda ordinal=None: None):
            self.refuse(spider_gen.NoBackend, "no NVIDIA GPU", spider_gen.stencil(HEAT, backend="cuda"), u)
            np.testing.assert_array_equal(spider_gen.stencil(HEAT)(u), heat()(u))
            with unittest.mock.patch.dict(os.environ, {"CXX": "no-such-compiler"}):
                _compilers.host.cache_clear()
                self.refuse(spider_gen.NoBackend, "no NVIDIA GPU.* and CXX is no-such-compiler.*install g",
                            spider_gen.stencil(HEAT), u)
        _compilers.host.cache_clear()

    def test_of_specs_are_the_readers(self):
        self.refuse(spider_gen.SpecError, r"<mapping>:3:12: error: 'storage' is one of .*'f32'", spider_gen.stencil,
                    {**HEAT, "storage": "f33"})
        self.refuse(spider_gen.SpecError, "unknown key 'colour'", spider_gen.stencil, {**HEAT, "colour": 3})
        self.refuse(spider_gen.SpecError, "beta", spider_gen.stencil, HEAT, beta=3)
        self.refuse(FileNotFoundError, "absent.yaml", spider_gen.stencil, "absent.yaml")
        self.refuse(spider_gen.SpecError, "different lengths", spider_gen.stencil, weights=[[1, 2], [3]])
        self.refuse(spider_gen.SpecError, "no finite number", spider_gen.stencil, weights=[1.0, float("nan"), 1.0])
        self.assertIn("f16 fields", spider_gen.stencil(weights=[1, 2, 1]).explain())  # if nothing is said
        self.refuse(TypeError, "either a spec or weights", spider_gen.stencil)
        self.refuse(TypeError, "written there", spider_gen.stencil, ROOT / "stencils/heat2d.yaml", boundary="halo")
        self.refuse(TypeError, "a parameter is a number", spider_gen.stencil, HEAT, alpha=[1])
        self.refuse(ValueError, "backend is", spider_gen.stencil, HEAT, backend="gpu")


class Warnings(unittest.TestCase):
    SPEC = {"stencil": "decay", "dimensions": 2, "storage": "bf16", "weights": "bf16", "shape": "star", "boundary": "nearest",
            "coefficients": {"center": 0.9604, "y": [0.0099, 0.0099], "x": [0.0099, 0.0099]}}

    def test_of_the_generator_reach_the_caller(self):
        for _ in range(2):  # generated now, and from the cache
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                one = spider_gen.stencil(self.SPEC, backend="host")
                line = inspect.currentframe().f_lineno - 1
                pickle.loads(pickle.dumps(one))
                one.compile()
            self.assertEqual([warning.category for warning in said], 2 * [spider_gen.SpecWarning])
            self.assertEqual([(warning.filename, warning.lineno) for warning in said], 2 * [(__file__, line)])
            self.assertRegex(str(said[0].message), "^<mapping>:3:1: warning: 'storage: bf16' loses small changes")
            self.assertRegex(str(said[1].message), "^<mapping>:4:1: warning: 'weights: bf16' rounds the weights: .* 1.00048")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            heat()

    def test_of_the_command(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "decay.yaml"
            path.write_text("".join(f"{key}: {value}\n" for key, value in self.SPEC.items()).replace("'", ""), encoding="utf-8")
            done = subprocess.run([sys.executable, "-m", "spider_gen", "explain", path], capture_output=True, text=True, check=False)
        self.assertRegex(done.stderr, r"\ndecay.yaml:4:1: warning: 'weights: bf16' rounds the weights")
        self.assertEqual((done.stderr.count("\n"), done.returncode), (2, 0))


class Cache(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name) / "cache"
        patch = unittest.mock.patch.dict(os.environ, {"SPIDER_GEN_CACHE": str(self.path)})
        patch.start()
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(patch.stop)

    def make(self, folder):
        (folder / "one").write_text("content")

    def test_is_made_once_and_again_if_damaged(self):
        calls = []

        def make(folder):
            calls.append(folder)
            self.make(folder)

        for _ in range(2):
            self.assertEqual((_cache.entry("a", make) / "one").read_text(), "content")
        self.assertEqual(len(calls), 1)
        (self.path / "a" / "one").write_text("cont")  # as a crash of the machine may leave it
        for mend in (lambda: None, (self.path / "a" / "complete.json").unlink):
            mend()
            os.utime(self.path / "a", (0, 0))
            self.assertEqual(_cache.entry("a", make), self.path / "a")
            self.assertEqual((self.path / "a" / "one").read_text(), "content")
        self.assertEqual(len(calls), 3)
        self.assertEqual((next(self.path.glob(".damaged-*/complete.json")).parent / "one").read_text(), "cont")  # may be mapped

    def test_a_failure_leaves_nothing(self):
        def full(folder):
            self.make(folder)
            raise OSError(28, "No space left on device")

        with self.assertRaisesRegex(spider_gen.CacheError, "No space left on device.*TMPDIR"):
            _cache.entry("a", full)
        self.assertEqual([file.name for file in self.path.iterdir() if file.is_dir()], [])
        self.assertTrue((_cache.entry("a", self.make) / "one").exists())

    def test_forked_workers_remove_their_own_builds(self):
        def child():
            with unittest.mock.patch("os.rename", side_effect=OSError(errno.ENOTEMPTY, "Directory not empty")):
                (pathlib.Path(self.folder.name) / "said").write_text(str(_cache.entry("a", self.make)))

        worker = multiprocessing.get_context("fork").Process(target=child)
        worker.start()
        worker.join()
        self.assertEqual(worker.exitcode, 0)
        self.assertFalse(pathlib.Path((pathlib.Path(self.folder.name) / "said").read_text()).exists())

    def own_build(self, words=None):
        """Of an entry that the cache does not take: right, outside it, made once, and no copy of it is left there."""
        made = []

        def make(folder):
            made.append(folder)
            self.make(folder)

        _cache._said.clear()
        with self.assertLogs("spider_gen") if words else self.assertNoLogs("spider_gen") as said:
            folders = [_cache.entry("a", make) for _ in range(2)]
        if words:
            self.assertEqual(len(said.output), 1)
            self.assertRegex(said.output[0], words)
        self.assertEqual([(folder / "one").read_text() for folder in folders], ["content"] * 2)
        self.assertEqual(len(made), 1)
        self.assertNotIn(self.path, folders[0].parents)
        self.assertEqual(list(self.path.glob(".*")), [])

    def test_an_entry_of_another_process_that_is_not_seen_in_full(self):
        (self.path / "a").mkdir(parents=True)
        (self.path / "a" / "one").write_text("content of another")  # and its manifest not yet, as on a network file system
        before = os.stat(self.path / "a").st_ino
        self.own_build()
        self.assertEqual(os.stat(self.path / "a").st_ino, before)
        self.assertEqual((self.path / "a" / "one").read_text(), "content of another")

    def test_an_entry_of_another_process_that_is_not_seen_at_all(self):
        with unittest.mock.patch("os.rename", side_effect=OSError(errno.ENOTEMPTY, "Directory not empty")):
            self.own_build()

    def test_no_locks(self):
        for place in ("fcntl.flock", "spider_gen._cache.open"):
            with self.subTest(place), unittest.mock.patch(place, create=True, side_effect=OSError(errno.ENOLCK, "No locks")):
                with concurrent.futures.ThreadPoolExecutor(8) as pool:
                    folders = set(pool.map(lambda _: _cache.entry(place, self.make), range(16)))
                self.assertEqual([(folder / "one").read_text() for folder in folders], ["content"] * len(folders))
                self.assertTrue((self.path / place / "complete.json").exists())
                self.assertEqual(list(self.path.glob(".*")), [])

    def test_a_full_disk(self):
        def full(_, to):
            pathlib.Path(to).write_text("cont")
            raise OSError(errno.ENOSPC, "No space left on device")

        with unittest.mock.patch("shutil.copyfile", full):
            self.own_build("cannot be written .No space left on device.*SPIDER_GEN_CACHE")
        self.assertEqual(_cache.entry("a", self.make), self.path / "a")

    def test_a_cache_that_is_read_only(self):
        _cache.entry("b", self.make)
        real = os.mkdir

        def mkdir(path, *mode):
            if self.path in pathlib.Path(path).parents:
                raise OSError(errno.EROFS, "Read-only file system")
            return real(path, *mode)

        with unittest.mock.patch("os.mkdir", mkdir), \
                unittest.mock.patch("spider_gen._cache.open", create=True, side_effect=OSError(errno.EROFS, "Read-only")):
            self.assertEqual(_cache.entry("b", self.make), self.path / "b")
            self.own_build("cannot be written .Read-only file system")
        self.assertEqual({file.name for file in self.path.iterdir()}, {"b", "b.lock"})

    def test_other_users_may_read_what_the_umask_allows(self):
        previous = os.umask(0o022)
        self.addCleanup(os.umask, previous)
        folder = _cache.entry("a", self.make)
        self.assertEqual(folder.stat().st_mode & 0o777, 0o755)
        self.assertEqual({file.stat().st_mode & 0o777 for file in folder.iterdir()}, {0o644})

    @unittest.skipIf(os.getuid() != 0, "only root can run a process of another user")
    def test_another_user(self):
        os.chmod(self.folder.name, 0o755)
        _cache.entry("a", self.make)
        module = pathlib.Path(self.folder.name) / "spider_cache.py"
        module.write_bytes(pathlib.Path(_cache.__file__).read_bytes())
        program = ("import spider_cache as c; make = lambda folder: (folder / 'one').write_text('content')\n"
                   "for name in 'ab': print(c.entry(name, make), (c.entry(name, make) / 'one').read_text())\n"
                   "del c.os.environ['SPIDER_GEN_CACHE']; print(c.cache_folder())")
        temporary = pathlib.Path(self.folder.name) / "tmp"
        temporary.mkdir()
        os.chmod(temporary, 0o1777)
        done = subprocess.run([sys.executable, "-c", program], user=65534, group=65534, extra_groups=[], capture_output=True,
                              text=True, check=False, cwd=self.folder.name,
                              env={"HOME": "/", "TMPDIR": str(temporary), "SPIDER_GEN_CACHE": str(self.path)})
        if "No module named" in done.stderr or done.returncode == 126:
            self.skipTest("skipped: another user cannot run this Python")
        self.assertRegex(done.stdout, f"(?s)^{self.path}/a content\n{temporary}/spider_gen-.*/b-.* content\n"
                                      f"{temporary}/spider_gen-65534\n$")
        self.assertRegex(done.stderr, "^spider_gen: the cache .* cannot be written .Permission denied.*SPIDER_GEN_CACHE.*\n$")
        self.assertEqual([file.name for file in temporary.iterdir()], ["spider_gen-65534"])

    def test_no_home(self):
        with unittest.mock.patch.dict(os.environ), unittest.mock.patch("tempfile.tempdir", self.folder.name), \
                unittest.mock.patch("pathlib.Path.home", side_effect=RuntimeError("Could not determine home directory.")):
            os.environ["SPIDER_GEN_CACHE"] = "~nobody-of-this-name/cache"
            with self.assertRaisesRegex(spider_gen.CacheError, "SPIDER_GEN_CACHE is ~nobody.*give the whole path"):
                _cache.cache_folder()
            del os.environ["SPIDER_GEN_CACHE"]
            os.environ.pop("XDG_CACHE_HOME", None)
            folder = _cache.cache_folder()
            self.assertEqual(folder, pathlib.Path(self.folder.name) / f"spider_gen-{os.getuid()}")
            self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
            folder.chmod(0o777)  # whoever made it, others can change what is in it
            self.assertNotEqual(_cache.cache_folder(), folder)
            folder.chmod(0o700)
            folder.rename(folder.with_name("elsewhere"))
            folder.symlink_to(folder.with_name("elsewhere"))
            self.assertNotEqual(_cache.cache_folder(), folder)

    def test_threads_and_an_interrupted_build(self):
        (self.path / ".new-left").mkdir(parents=True)
        os.utime(self.path / ".new-left", (0, 0))
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            folders = set(pool.map(lambda _: _cache.entry("a", self.make), range(16)))
        self.assertEqual(len(folders), 1)
        self.assertEqual([file.name for file in self.path.iterdir() if file.is_dir()], ["a"])

    def test_processes_at_once_and_one_that_is_killed(self):
        program = ("import sys, numpy, spider_gen; s = spider_gen.stencil(weights=[1, 2, 1], storage='f32', boundary='halo', "
                   "backend='host'); s.compile(); print(s.info.name)")
        killed = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL, start_new_session=True)
        time.sleep(0.7)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        runs = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
        self.assertEqual([run.communicate()[0] for run in runs], ["weights\n"] * 3)
        kept = sorted(file.name.split("-")[0] for file in self.path.iterdir() if file.is_dir() and file.name[0] != ".")
        self.assertEqual(kept, ["kernel", "runtime", "source"])

    def test_a_changed_spec_is_another_entry(self):
        path = pathlib.Path(self.folder.name) / "heat.yaml"
        text = (ROOT / "stencils/heat2d.yaml").read_text(encoding="utf-8")
        path.write_text(text.replace("heat2d", "heat"), encoding="utf-8")
        first = spider_gen.stencil(path).source
        path.write_text(text.replace("heat2d", "heat").replace("kappa: 0.01", "kappa: 0.02"), encoding="utf-8")
        self.assertNotEqual(spider_gen.stencil(path).source, first)

    def test_a_compiler_that_fails(self):
        bad = _compilers.Toolchain("host", "/bin/false", (), (), ("src/api.cpp",), (), "nothing")
        with self.assertRaisesRegex(spider_gen.CompileError, "/bin/false .*\nends with 1"), self.assertLogs("spider_gen") as said:
            _compilers.compile_kernel(heat()._generated, bad)
        self.assertRegex(said.output[0], "compiling the runtime by /bin/false for nothing, once")
        self.assertEqual([file for file in self.path.iterdir() if file.name.startswith(("kernel", ".new")) and file.is_dir()], [])


class Command(unittest.TestCase):
    def run_command(self, folder, *words):
        return subprocess.run([sys.executable, "-m", "spider_gen", *map(str, words)], cwd=folder, capture_output=True, text=True,
                              check=False)

    def test_of_the_page(self):
        words = block("python command").split()[3:]
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "stencils").symlink_to(ROOT / "stencils")
            u = np.zeros((60, 80))
            u[30, 40] = 100
            np.save(pathlib.Path(folder) / "in.npy", u)
            done = self.run_command(folder, *words, "--backend", "host")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("1000 of 1000 steps", done.stderr)
            out = np.load(pathlib.Path(folder) / "out.npy")
            self.assertEqual(out.dtype, np.float32)
            self.assertLess(abs(out.sum(dtype=float) - 100), 100 * 1000 * 6 * 2**-24)  # six roundings a step
            pictures = sorted(pathlib.Path(folder).glob("out_*.png"))
            self.assertEqual([file.name for file in pictures], [f"out_{n:04}.png" for n in range(0, 1001, 100)])
            self.assertEqual(sizes_of(pictures[-1]), (80, 60))

    def test_numbers_that_the_storage_does_not_have(self):
        heat16, heat32 = ROOT / "stencils/heat2d.yaml", ROOT / "stencils/heat2d_f32.yaml"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for spec, values, words in (
                    (heat16, np.full((5, 5), 70000), "int64.* of 25 values 25 are out of its range and become infinite, 0 are rounded"),
                    (heat16, np.full((5, 5), 2049), "int64.* 0 are out of its range and become infinite, 25 are rounded"),
                    (heat16, np.full((5, 5), 0.1), "float64, and the stencil stores f16: .* 25 are rounded"),
                    (heat16, np.full((5, 5), 65535, np.uint16), "uint16.* 25 are out of its range"),
                    (heat32, np.full((5, 5), 2**24 + 1), "int64, and the stencil stores f32: .* 25 are rounded"),
                    (heat32, np.full((5, 5), 2**62 + 1), "int64.* 25 are rounded"),
                    (heat32, np.full((5, 5), 1e39), "float64.* 25 are out of its range and become infinite, 0 are rounded")):
                np.save(folder / "a.npy", values)
                words = rf"^spider_gen: a.npy: elements are {words}"
                run = lambda *more: self.run_command(folder, "run", spec, "a.npy", "-o", "o.npy", "--backend", "host", "--quiet", *more)
                done = run()
                self.assertEqual((done.returncode, (folder / "o.npy").exists()), (1, False))
                self.assertRegex(done.stderr, words + ".*; --convert does so$")
                done = run("--convert", "--steps", "0")
                self.assertRegex(done.stderr, words)
                kind = np.load(folder / "o.npy").dtype
                with np.errstate(over="ignore"):
                    np.testing.assert_array_equal(np.load(folder / "o.npy"), values.astype(kind))
                (folder / "o.npy").unlink()
            for exact in (np.array([[1.5, np.inf], [np.nan, -0.25]]), np.array([[2048, -65504]]), np.array([[True, False]])):
                np.save(folder / "a.npy", exact)
                done = self.run_command(folder, "run", heat16, "a.npy", "-o", "o.npy", "--backend", "host", "--quiet", "--steps", "0")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                np.testing.assert_array_equal(np.load(folder / "o.npy"), exact.astype(np.float16))
            np.savez(folder / "b.npz", a=exact, b=exact)
            done = self.run_command(folder, "run", heat16, "b.npz", "-o", "c.npy", "--backend", "host")
            self.assertEqual((done.returncode, "holds several arrays" in done.stderr, (folder / "c.npy").exists()), (1, True, False))

    def test_interrupted_it_leaves_the_last_file(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            np.save(folder / "in.npy", field((200, 300)))
            out = folder / "out.npy"
            run = subprocess.Popen([sys.executable, "-m", "spider_gen", "run", ROOT / "stencils/heat2d_f32.yaml", "in.npy", "-o",
                                    "out.npy", "--steps", "1000000000", "--every", "10", "--backend", "host"], cwd=folder,
                                   stderr=subprocess.PIPE, text=True)
            deadline = time.monotonic() + 120
            while not out.exists() and time.monotonic() < deadline:
                time.sleep(0.05)
            run.send_signal(signal.SIGINT)
            said = run.communicate(timeout=60)[1]
            self.assertEqual(run.returncode, 130, said)
            held = int(re.search(r"out.npy holds step (\d+)", said)[1])
            self.assertEqual((held % 10, np.load(out).shape), (0, (200, 300)))
            self.assertEqual(sorted(file.name for file in folder.iterdir()), ["in.npy", "out.npy"])

    def test_mistakes(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_command(folder, "run", ROOT / "stencils/heat2d.yaml", "absent.npy", "-o", "out.npy", "--backend", "host")
            self.assertEqual((done.returncode, "absent.npy" in done.stderr, "Traceback" in done.stderr), (1, True, False))
            done = self.run_command(folder, "run", ROOT / "stencils/heat2d.yaml", "in.npy", "-o", "out.npy", "-D", "beta=1")
            self.assertEqual((done.returncode, "beta" in done.stderr, "Traceback" in done.stderr), (1, True, False))
        self.assertIn("Bound", self.run_command("/", "explain", ROOT / "stencils/heat2d.yaml").stdout)


def sizes_of(png):
    """Columns and rows; reads all of it."""
    data = png.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, body, size = 8, b"", None
    while at < len(data):
        length = int.from_bytes(data[at:at + 4], "big")
        kind, content = data[at + 4:at + 8], data[at + 8:at + 8 + length]
        assert int.from_bytes(data[at + 8 + length:at + 12 + length], "big") == zlib.crc32(kind + content)
        if kind == b"IHDR":
            size = int.from_bytes(content[:4], "big"), int.from_bytes(content[4:8], "big")
        body += content if kind == b"IDAT" else b""
        at += 12 + length
    assert len(zlib.decompress(body)) == size[1] * (1 + 3 * size[0])
    return size


class Pictures(unittest.TestCase):
    def test_of_any_field(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "a.png"
            for shape, size in (((20, 30), (30, 20)), ((5, 20, 30), (30, 20)), ((30,), (30, 32)), ((5000, 3), (1, 1667))):
                values = field(shape)
                values.flat[0] = np.nan
                _picture.write(path, values)
                self.assertEqual(sizes_of(path), size)
            _picture.write(path, np.full((3, 4), np.inf))


class Page(unittest.TestCase):
    """The blocks of runtime/python/package.md; "python install" is what test_wheel.sh does."""

    def test_its_programs(self):
        wanted = {"python heat": r"^1000\.\d of 1000 after 20 steps$", "python mapping": "^True$", "python weights": r"^True 0\.\d\d 0\.\d\d$",
                  "python images": r"^\(64, 48, 60\) uint8\n\(48, 60, 3\)\nfloat32 True$", "python missing": "^True$",
                  "python dilation": r"^9\.0$", "python adjoint": r"^\(100, 120\) \(100, 120\)$",
                  "python edges": r"^\d+ cells lie on its edge, up to \d\.\d\d$", "python wave": r"^\d\.\d\d$", "python points": "^4[0-9] steps to a distance of 15$",
                  "python elastic": r"^(19|20)[0-9] ms to a distance of 500 m$"}
        for name, words in wanted.items():
            done = subprocess.run([sys.executable, "-c", block(name)], cwd=ROOT, capture_output=True, text=True, check=False)
            self.assertRegex(done.stdout.strip(), words, name + done.stderr)

    def test_the_source_in_the_page_on_updates_is_one_column(self):
        page = (ROOT / "stencils/README.md").read_text(encoding="utf-8")
        keys = re.search(r"```yaml\n(previous: u_old\n.*?)```", page, re.DOTALL)[1]
        with tempfile.TemporaryDirectory() as folder:
            spec = pathlib.Path(folder) / "wave.yaml"
            spec.write_text("stencil: wave\ndimensions: 2\nstorage: f32\nshape: laplacian\nboundary: nearest\n" + keys,
                            encoding="utf-8")
            wave = spider_gen.stencil(spec, backend="host")
        for columns in (12, 13):
            u = np.zeros((4, columns), np.float32)
            out = wave.update(u, u_old=u, c2dt2=u, damping=u.astype(np.float16), strength=1)
            self.assertEqual(np.flatnonzero(out[0]).tolist(), [columns // 2])


if __name__ == "__main__":
    unittest.main()
