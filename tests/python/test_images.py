"""Batches, whole numbers and results of another storage through the Python package, on the host: test_images.py [unittest
options]. tests/images/check_images.py draws random ones."""

import unittest
import unittest.mock

import numpy as np
from scipy import ndimage

import spider_gen

try:
    import torch
except ImportError:
    torch = None

WEIGHTS = np.array([[1, 2, 1], [2, -5, 4], [1, 0, 3]]) / 8
WAVE = {"stencil": "wave", "dimensions": 2, "storage": "f32", "shape": "star", "boundary": "nearest", "previous": "u_old",
        "coefficients": {"center": -4, "y": [1, 1], "x": [1, 1]}, "fields": ["speed"], "scalars": ["damping"],
        "update": "(2*u - (1 - damping)*u_old + speed*sum) / (1 + damping)"}


def host(spec=None, **changes):
    return spider_gen.stencil(spec, backend="host", **changes)


def numbers(*shape, kind=np.float32, most=1):
    values = np.random.default_rng(len(shape)).uniform(0, most, shape)
    return (np.rint(values) if np.dtype(kind).kind in "iu" else values).astype(kind)


class Batches(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.filter = host(weights=WEIGHTS, boundary="reflect", storage="f32")
        cls.wave = host(WAVE)

    def refuse(self, kind, words, call, *arguments, **named):
        for _ in range(2):
            with self.assertRaisesRegex(kind, words):
                call(*arguments, **named)

    def check(self, u, axes=None, **named):
        own = axes or (-2, -1)
        found = self.filter(u, axes=axes, **named)
        moved = np.moveaxis(np.asarray(u), own, (-2, -1))
        wanted = np.stack([self.filter(np.ascontiguousarray(one)) for one in moved.reshape(-1, *moved.shape[-2:])])
        self.assertEqual(np.asarray(found).shape, u.shape)
        np.testing.assert_array_equal(np.moveaxis(np.asarray(found), own, (-2, -1)).reshape(wanted.shape), wanted)
        return found

    def test_leading_axes_are_a_batch(self):
        self.check(numbers(3, 20, 30))
        self.check(numbers(2, 1, 3, 20, 30))
        self.check(numbers(4, 20, 30)[::-2])
        self.check(np.broadcast_to(numbers(20, 30), (3, 20, 30)))
        self.check(numbers(3, 20, 60)[:, :, ::2])

    def test_a_launch_is_remembered_where_axes_are_the_last(self):
        u = numbers(3, 20, 30)
        found = self.check(u, axes=(1, 2))
        with unittest.mock.patch.object(self.filter, "_call_images", side_effect=AssertionError("checked again")):
            for axes in (None, (1, 2), (-2, -1)):
                np.testing.assert_array_equal(self.filter(u, axes=axes), found)
        self.refuse(ValueError, "2 different axes", self.filter, u, axes=(2,))

    def test_axes_name_those_of_the_spec(self):
        photo = numbers(20, 30, 3)
        self.assertTrue(self.check(photo, (0, 1)).flags.c_contiguous)
        self.check(photo, (1, 0))
        self.check(numbers(20, 3, 30), (0, 2))
        self.check(numbers(3, 20, 2, 30), (1, -1))
        self.check(numbers(20, 30), (0, 1))
        one = host(weights=[1, -1, 2], boundary="periodic", storage="f32")
        np.testing.assert_allclose(one(photo, axes=1), ndimage.correlate1d(photo, [1, -1, 2], axis=1, mode="wrap"), atol=1e-6)

    def test_results_go_where_they_are_told(self):
        u = numbers(3, 20, 30)
        for out in (np.empty_like(u), np.zeros((20, 3, 30), np.float32).swapaxes(0, 1), np.zeros((6, 20, 30), np.float32)[::2]):
            for _ in range(3):
                self.assertIs(self.filter(u, out=out), out)
                np.testing.assert_array_equal(out, self.filter(u))

    def test_what_is_no_batch_is_refused(self):
        u = numbers(3, 20, 30)
        self.refuse(ValueError, r"2 dimensions, and u has 1, with the shape \(30,\)", self.filter, u[0, 0])
        self.refuse(ValueError, r"axes=\(0, 3\) of an array of shape \(3, 20, 30\): .* 2 different axes from -3 to 2, .* y, x",
                    self.filter, u, axes=(0, 3))
        self.refuse(ValueError, "2 different axes", self.filter, u, axes=(1, -2))
        self.refuse(ValueError, "2 different axes", self.filter, u, axes=(0, 1, 2))
        self.refuse(ValueError, r"out has the shape \(3, 20, 31\), and u \(3, 20, 30\)", self.filter, u, out=numbers(3, 20, 31))
        self.refuse(ValueError, "share cells", self.filter, u, out=u)
        whole = numbers(21, 30)
        images = np.lib.stride_tricks.as_strided(whole, (2, 20, 30), (120, 120, 4))
        self.refuse(ValueError, "apart", self.filter, u[:2], out=images)
        self.refuse(ValueError, "strides of", self.filter, u, axes=(0, 1), out=np.empty_like(u))
        self.refuse(TypeError, "takes f32, and u is float64", self.filter, u.astype(float))

    def test_updates_take_batches(self):
        u, old = numbers(3, 20, 30), numbers(3, 20, 30)[::-1]
        speed = numbers(20, 30)
        for field, of in ((speed, lambda i: speed), (u, lambda i: u[i])):
            wanted = np.stack([self.wave(u[i], u_old=old[i].copy(), speed=of(i), damping=0.5) for i in range(3)])
            for _ in range(3):
                np.testing.assert_array_equal(self.wave(u, u_old=old, speed=field, damping=0.5), wanted)
            last, before = self.wave.iterate(u, 5, u_old=old, speed=field, damping=0.5)
            for i in range(3):
                a, b = self.wave.iterate(u[i], 5, u_old=old[i].copy(), speed=of(i), damping=0.5)
                np.testing.assert_array_equal(last[i], a)
                np.testing.assert_array_equal(before[i], b)
        moved = self.wave(u.transpose(1, 2, 0), u_old=old.transpose(1, 2, 0), speed=speed, damping=0.5, axes=(0, 1))
        np.testing.assert_array_equal(moved, self.wave(u, u_old=old, speed=speed, damping=0.5).transpose(1, 2, 0))
        self.refuse(ValueError, r"speed has the shape \(3, 30\), .*; a field for all images has \(20, 30\)", self.wave, u, u_old=old,
                    speed=u[:, 0], damping=0.5)

    def test_halos_of_images(self):
        tilt = host(weights=[[1.0, 0, 2], [0, 3, 0], [4, 0, 5]], storage="f32")
        padded = numbers(4, 22, 32)
        inner = padded[:, 1:-1, 1:-1]
        np.testing.assert_array_equal(tilt(inner), np.stack([tilt(one) for one in inner]))
        np.testing.assert_array_equal(tilt.iterate(inner, 2), np.stack([tilt.iterate(one, 2) for one in inner]))
        self.refuse(ValueError, "cells beyond the array", tilt, numbers(3, 20, 30))

    def test_steps_of_images(self):
        u = numbers(2, 3, 20, 30)
        np.testing.assert_array_equal(self.filter.iterate(u, 3), self.filter(self.filter(self.filter(u))))
        photo = numbers(20, 30, 3)
        out = np.empty_like(photo)
        self.refuse(ValueError, "strides of", self.filter.iterate, photo, 2, out=out, axes=(0, 1))
        np.testing.assert_array_equal(self.filter.iterate(photo, 2, axes=(0, 1)),
                                      self.filter(self.filter(photo, axes=(0, 1)), axes=(0, 1)))
        steps = host(weights=WEIGHTS, boundary="reflect", storage="f32", steps=4)
        np.testing.assert_array_equal(steps.iterate(u, 9), np.stack([[steps.iterate(two, 9) for two in one] for one in u]))

    def test_empty_batches(self):
        for shape in ((0, 20, 30), (3, 0, 30), (2, 0, 3, 4)):
            self.assertEqual(self.filter(np.zeros(shape, np.float32)).shape, shape)
            self.assertEqual(self.filter.iterate(np.zeros(shape, np.float32), 2).shape, shape)

    def test_a_spec_may_have_a_field_of_the_name_axes(self):
        scaled = host({"stencil": "scaled", "dimensions": 1, "storage": "f32", "shape": "star", "boundary": "nearest",
                       "coefficients": {"center": 1, "x": [1, 1]}, "scalars": ["axes"], "update": "axes*sum"})
        u = numbers(20)
        np.testing.assert_allclose(scaled(u, axes=2.0), 2 * ndimage.correlate1d(u, [1, 1, 1], mode="nearest"), rtol=1e-6)

    @unittest.skipIf(torch is None, "skipped: no PyTorch")
    def test_tensors(self):
        u = torch.from_numpy(numbers(3, 20, 30))
        found = self.filter(u)
        self.assertIsInstance(found, torch.Tensor)
        np.testing.assert_array_equal(found.numpy(), self.filter(u.numpy()))
        np.testing.assert_array_equal(self.filter(u.permute(1, 2, 0), axes=(0, 1)).numpy(), found.permute(1, 2, 0).numpy())


class WholeNumbers(unittest.TestCase):
    KINDS = {"u8": np.uint8, "u16": np.uint16, "i16": np.int16}

    def test_results_are_rounded_and_stay_in_their_range(self):
        for storage, kind in self.KINDS.items():
            least, most = np.iinfo(kind).min, np.iinfo(kind).max
            u = np.random.default_rng(3).integers(least, most, (20, 30), kind, endpoint=True)
            found = host(weights=WEIGHTS, boundary="mirror", storage=storage)(u)
            self.assertEqual(found.dtype, kind)
            np.testing.assert_array_equal(found, np.clip(np.rint(ndimage.correlate(u.astype(float), WEIGHTS, mode="mirror")), least, most))

    def test_results_of_another_storage(self):
        u = numbers(20, 30, kind=np.uint8, most=255)
        exact = ndimage.correlate(u.astype(float), WEIGHTS, mode="constant", cval=9)
        for storage, kind in {**self.KINDS, "f32": np.float32, "f64": np.float64, "f16": np.float16}.items():
            found = host(weights=WEIGHTS, boundary={"constant": 9}, storage="u8", output=storage)(u)
            self.assertEqual(found.dtype, kind)
            wanted = np.clip(np.rint(exact), np.iinfo(kind).min, np.iinfo(kind).max) if storage in self.KINDS else exact.astype(kind)
            np.testing.assert_array_equal(found, wanted)
        image = host(weights=WEIGHTS, boundary="nearest", storage="f64", output="u8")
        np.testing.assert_array_equal(image(np.full((3, 3), 0.5 + 1e-12)), np.full((3, 3), np.rint((0.5 + 1e-12) * WEIGHTS.sum())))

    def test_what_does_not_go_together_is_refused(self):
        blur = host(weights=WEIGHTS, boundary="nearest", storage="u8", output="f32")
        u = numbers(20, 30, kind=np.uint8, most=255)
        with self.assertRaisesRegex(TypeError, "makes f32 of u8, which is no input of a next step"):
            blur.iterate(u, 2)
        with self.assertRaisesRegex(TypeError, "takes f32, and out is uint8"):
            blur(u, out=np.empty_like(u))
        with self.assertRaisesRegex(TypeError, "takes u8, and u is int16: pass u.astype"):
            blur(u.astype(np.int16))
        with self.assertRaisesRegex(spider_gen.SpecError, "goes with sweeps of one step"):
            host(weights=WEIGHTS, boundary="nearest", storage="u8", steps=2)
        with self.assertRaisesRegex(RuntimeError, "stores whole numbers; points are of fields of"):
            blur.points(u.shape, [(1, 1)]).read(u)

    def test_steps_are_rounded_one_by_one(self):
        blur = host(weights=WEIGHTS / 2, boundary="nearest", storage="u8")
        u = numbers(3, 20, 30, kind=np.uint8, most=255)
        np.testing.assert_array_equal(blur.iterate(u, 3), blur(blur(blur(u))))

    def test_a_parameter_may_be_called_output(self):
        scaled = host({"dimensions": 1, "storage": "f32", "shape": "star", "parameters": {"output": 2}, "boundary": "nearest",
                       "coefficients": {"center": "output", "x": [0, 0]}}, output=3)
        np.testing.assert_array_equal(scaled(np.ones(5, np.float32)), np.full(5, 3, np.float32))


if __name__ == "__main__":
    unittest.main()
