"""Arrays as the Python package takes or refuses them, on the host: test_arrays.py [unittest options]. With PyTorch and JAX where
they are installed. Random cases print their seed; SEED repeats one."""

import array
import contextlib
import dataclasses
import os
import random
import sys
import types
import unittest
import unittest.mock

import numpy as np

import spider_gen
from spider_gen import _arrays, _compilers, _thin, spider

try:
    import torch
except ImportError:
    torch = None
try:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax
except ImportError:
    jax = None

HEAT = {"stencil": "heat", "dimensions": 2, "storage": "f32", "shape": "star", "parameters": {"alpha": 0.1},
        "coefficients": {"center": "1 - 4*alpha", "y": ["alpha", "alpha"], "x": ["alpha", "alpha"]}, "boundary": "nearest"}
WAVE = {"stencil": "wave", "dimensions": 2, "storage": "f32", "shape": "star", "boundary": {"constant": 0}, "previous": "u_old",
        "coefficients": {"center": -4, "y": [1, 1], "x": [1, 1]}, "fields": ["speed"], "scalars": ["damping"],
        "update": "(2*u - (1 - damping)*u_old + speed*sum) / (1 + damping)"}


def host(spec, **changes):
    return spider_gen.stencil({**spec, **changes}, backend="host")


def field(shape=(20, 30), dtype=np.float32):
    return np.random.default_rng(7).random(shape).astype(dtype)


class Test(unittest.TestCase):
    def refuse(self, kind, words, call, *arguments, **named):
        for _ in range(2):  # also where a launch is remembered
            with self.assertRaisesRegex(kind, words):
                call(*arguments, **named)


@unittest.skipIf(torch is None, "skipped: no PyTorch")
class Tensors(Test):
    def setUp(self):
        self.heat, self.wave = host(HEAT), host(WAVE)
        self.u = torch.from_numpy(field())
        self.wanted = self.heat(field())
        self.leaf = self.u.clone().requires_grad_()
        self.heat(self.u)  # so that a launch is remembered
        self.wave(self.u, u_old=self.u, speed=self.u, damping=0.5)

    def test_a_gradient_is_not_lost(self):
        words = r"%s requires a gradient, and a kernel gives none: detach it: %s\.detach\(\)"
        u, leaf, points = self.u, self.leaf, self.heat.points(self.u.shape, [(1, 2)])
        one, needs = torch.ones(1), torch.ones(1, requires_grad=True)
        points.add(u, one)
        for name, call in (
                ("u", lambda: self.heat(leaf, out=u.clone())), ("u", lambda: self.heat(torch.nn.Parameter(u), stream=0)),
                ("out", lambda: self.heat(u, out=leaf)), ("u", lambda: self.heat.iterate(leaf, 2, progress=lambda *_: None)),
                ("out", lambda: self.heat.iterate(u, 2, out=leaf)),
                ("u_old", lambda: self.wave(u, u_old=leaf, speed=u, damping=0.5, out=u.clone())),
                ("speed", lambda: self.wave(u, u_old=u, speed=leaf, damping=0.5, out=u.clone())),
                ("speed", lambda: self.wave.iterate(u, 2, u_old=u, speed=leaf, damping=0.5, out=u.clone())),
                ("damping", lambda: self.wave(u, u_old=u, speed=u, damping=needs[0])),
                ("u", lambda: points.add(leaf, [1])), ("values", lambda: points.add(u, needs)),
                ("out", lambda: points.read(u, out=needs)), ("weights", lambda: spider_gen.stencil(weights=needs.expand(3))),
                ("alpha", lambda: spider_gen.stencil(HEAT, alpha=needs))):
            self.refuse(TypeError, words % (name, name), call)
        with torch.no_grad():
            np.testing.assert_array_equal(self.heat(leaf), self.wanted)
        np.testing.assert_array_equal(self.heat(leaf.detach()), self.wanted)
        self.refuse(TypeError, words % ("u", "u"), self.heat, leaf, out=u.clone())

    def test_within_a_function_that_has_a_gradient(self):
        one = self.heat

        class Function(torch.autograd.Function):
            @staticmethod
            def forward(context, u):
                return one(u)

            @staticmethod
            def backward(context, gradient):
                return one(gradient)

        Function.apply(self.leaf).sum().backward()
        np.testing.assert_allclose(self.leaf.grad, 1, rtol=1e-6)

    def test_a_tensor_that_a_backward_pass_saved_is_not_overwritten_silently(self):
        for call in (lambda u: self.heat(self.u, out=u), lambda u: self.heat.iterate(self.u, 2, out=u),
                     lambda u: self.heat.points(u.shape, [(0, 0)]).add(u, [1])):
            for _ in range(2):
                saved = self.u.clone()
                total = (self.leaf * saved).sum()
                call(saved)
                with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                    total.backward()

    def test_transformed_and_traced(self):
        one, u = self.heat, self.u
        self.refuse(TypeError, "traced by torch.jit.trace", torch.jit.trace, lambda u: one(u), (u,))
        with torch.inference_mode():
            inference = u.clone()
            np.testing.assert_array_equal(one(inference), self.wanted)
        np.testing.assert_array_equal(one(inference), self.wanted)
        self.refuse(TypeError, "u is on meta, where tensors have no values", one, u.to("meta"))
        self.refuse(TypeError, "traced by torch.fx", torch.fx.symbolic_trace, lambda u: one(u))
        if hasattr(torch, "func"):
            for transformed in (lambda: torch.func.vmap(lambda u: one(u, stream=0))(torch.stack([u, u])),
                                lambda: torch.func.grad(lambda u: one(u, stream=0).sum())(u),
                                lambda: torch.func.jvp(lambda u: one(u, out=torch.empty_like(u)), (u,), (u,))):
                self.refuse(TypeError, "u is transformed by torch.func", transformed)
        import torch.autograd.forward_ad as forward

        with forward.dual_level():
            self.refuse(TypeError, "u has a tangent", one, forward.make_dual(u, u))
            np.testing.assert_array_equal(one(u), self.wanted)
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode() as mode:
            self.refuse(TypeError, "u is a FakeTensor", one, mode.from_tensor(u), stream=0)

    @unittest.skipIf(torch is None or not hasattr(torch, "compile"), "skipped: no torch.compile")
    def test_compiled(self):
        one, u = self.heat, self.u
        points = one.points(u.shape, [(1, 2)])
        three = one.iterate(u.numpy(), 3)
        for call, wanted in ((lambda u: one(2 * u, stream=0) + u, one(2 * u.numpy()) + u.numpy()),
                             (lambda u: points.read(one.iterate(u, 3)), three[1:2, 2])):
            torch._dynamo.reset()
            compiled = torch.compile(call, backend="eager")
            for _ in range(2):
                np.testing.assert_array_equal(compiled(u), wanted)
            torch._dynamo.reset()
            with self.assertRaisesRegex(Exception, "calls a compiled kernel, which cannot be traced"):
                torch.compile(call, backend="eager", fullgraph=True)(u)

    def test_what_tensors_are(self):
        one, u = self.heat, self.u
        half, brain = host(HEAT, storage="f16"), host(HEAT, storage="bf16")
        for call, words in ((lambda: one(u.double()), r"takes f32, and u is torch.float64: pass u.to\(torch.float32\)"),
                            (lambda: half(u.bfloat16()), r"takes f16, and u is torch.bfloat16: pass u.to\(torch.float16\)"),
                            (lambda: brain(u.half()), r"takes bf16, and u is torch.float16: pass u.to\(torch.bfloat16\)"),
                            (lambda: one(u.to_sparse()), "u is no dense tensor"),
                            (lambda: one(torch.complex(u, u).conj().imag), "u is to be negated")):
            self.refuse(TypeError, words, call)
        self.assertEqual((brain(u.bfloat16()).dtype, half(u.half()).dtype), (torch.bfloat16, torch.float16))
        for view in (lambda a: a.T, lambda a: a[::2, ::2], lambda a: a[:1].expand(20, 30), lambda a: a[:, :1].expand(20, 30)):
            np.testing.assert_array_equal(one(view(u)), one(view(u).clone(memory_format=torch.contiguous_format)))
        self.refuse(ValueError, "out has strides of 0, 4 bytes", one, u, out=torch.empty(1, 30).expand(20, 30))


@unittest.skipIf(jax is None, "skipped: no JAX")
class Jax(Test):
    """Beside test_jax.py."""

    def test_into_others(self):
        one, u = host(HEAT), field()
        of_jax = jax.numpy.asarray(u)
        out = np.empty_like(u)
        self.assertIs(one(of_jax, out=out), out)
        np.testing.assert_array_equal(out, one(u))
        self.refuse(TypeError, "out is an array of JAX, and these are immutable", one, u, out=of_jax)
        self.refuse(TypeError, "u is an array of JAX, and these are immutable", one.points(u.shape, [(0, 0)]).add, of_jax, [1])
        self.refuse(TypeError, r"u is traced by JAX \(jit, vmap, grad\)", jax.jit(one.points(u.shape, [(0, 0)]).read), of_jax)
        shape = jax.ShapeDtypeStruct(u.shape, u.dtype)
        np.testing.assert_array_equal(jax.jit(lambda u: jax.pure_callback(lambda u: one(np.asarray(u)), shape, u))(u), one(u))


class Others(Test):
    """Stand-ins for arrays of libraries that the package knows by a protocol alone."""

    def like(self, u, **members):
        return types.SimpleNamespace(__array_interface__=u.__array_interface__, array=u, **members)

    def test_on_the_host(self):
        one, u = host(HEAT), field()
        wanted = one(u)
        np.testing.assert_array_equal(one(self.like(u)), wanted)
        np.testing.assert_array_equal(one(memoryview(u)), wanted)
        out = self.like(np.empty_like(u))
        self.assertIs(one(u, out=out), out)
        np.testing.assert_array_equal(out.array, wanted)
        line = host({"stencil": "line", "dimensions": 1, "storage": "f32", "shape": "star", "boundary": "nearest",
                     "coefficients": {"center": 0, "x": [1, 1]}})
        np.testing.assert_array_equal(line(array.array("f", [1, 2, 4])), [3, 5, 6])
        self.refuse(ValueError, "out is read-only", one, u, out=memoryview(u.tobytes()).cast("f", u.shape))
        self.refuse(TypeError, "u, a list, is no array: pass one of NumPy, CuPy, PyTorch", one, u.tolist())

    def test_of_the_runtime(self):
        """Fields, in and out, in a sweep and for points."""
        one, u = host(HEAT), field()
        library, kernel = one.compile()._kernels.popitem()[1]
        a, b = (library.field(kernel, *u.shape).upload(u) for _ in range(2))
        self.assertIs(one(a, out=b), b)
        np.testing.assert_array_equal(b.download(), one(u))
        np.testing.assert_array_equal(one.points(u.shape, [(3, 4)]).read(a), u[3:4, 4])
        for call in (one, lambda u: one.iterate(u, 2)):
            self.refuse(TypeError, "pass out=: a field of the runtime", call, a)

    def test_that_record_a_gradient(self):
        one, u = host(HEAT), field()
        self.refuse(TypeError, "u requires a gradient", one, self.like(u, requires_grad=True))
        self.refuse(TypeError, "u requires a gradient", one, self.like(u, stop_gradient=False))
        self.refuse(TypeError, "out requires a gradient", one, u, out=self.like(u.copy(), requires_grad=True))
        np.testing.assert_array_equal(one(self.like(u, requires_grad=False)), one(u))

    def test_on_a_device(self):
        u = field()
        on_device = types.SimpleNamespace(__cuda_array_interface__=u.__array_interface__, array=u)
        read_only = types.SimpleNamespace(__cuda_array_interface__={**u.__array_interface__, "data": (u.ctypes.data, True)})
        dlpack = types.SimpleNamespace(__dlpack__=None, __dlpack_device__=lambda: (2, 0))
        with unittest.mock.patch.dict(sys.modules, {"cupy": None, "torch": None}):
            array = _arrays.wrap(on_device)
            self.assertEqual((array.on_device, array.shape, array.typestr), (True, u.shape, "<f4"))
            _arrays.check_type(array, host(HEAT).info, "u")
            for call in (array.new, array.copy, lambda: array.padded([(0, 0)] * 2), lambda: array.numbers(3, "f32")):
                self.refuse(TypeError, "install CuPy or PyTorch, or call the stencil with out=", call)
            self.refuse(ValueError, "out is read-only", _arrays.wrap, read_only, "out", True)
            self.refuse(TypeError, "is on a device: install CuPy or PyTorch", _arrays.wrap, dlpack)
            dlpack.__dlpack_device__ = lambda: (10, 0)
            self.refuse(TypeError, "u is on a device of DLPack's kind 10", _arrays.wrap, dlpack)
            self.refuse(TypeError, "made with backend=\"host\", and the array is on a device", host(HEAT), on_device)

    def test_on_a_device_by_a_library(self):
        """The first library that is there reads it."""
        u = field()
        on_device = types.SimpleNamespace(__cuda_array_interface__=u.__array_interface__)
        cupy = types.SimpleNamespace(ndarray=type("ndarray", (), {}), asarray=lambda given: ("cupy", given))
        fails = types.SimpleNamespace(ndarray=type("ndarray", (), {}), asarray=lambda given: {}["no"])
        with unittest.mock.patch.dict(sys.modules, {"cupy": cupy, "torch": None}):
            array = _arrays.wrap(on_device)
            self.assertEqual((type(array).__name__, array.view, array.given), ("_Cupy", ("cupy", on_device), on_device))
        with unittest.mock.patch.dict(sys.modules, {"cupy": fails, "torch": None}):
            self.refuse(TypeError, "u cannot be read on its device .cupy: 'no'", _arrays.wrap, on_device)


class FakePointer(int):
    """A pointer of CuPy: an address that takes offsets."""

    ptr, mem = property(int), None

    def __sub__(self, other):
        return FakePointer(int(self) - other)


class FakeArray:
    """An array of CuPy as far as the package uses one, in the host's memory."""

    def __init__(self, shape, dtype=np.float32, memptr=None, strides=None, cells=None, base=None):
        if cells is None:
            cells = np.empty(shape, dtype)
        if memptr is not None:
            interface = {"shape": tuple(shape), "typestr": np.dtype(dtype).str, "strides": strides, "data": (int(memptr), False)}
            cells = np.asarray(types.SimpleNamespace(__array_interface__={**interface, "version": 3}))
        self.cells, self.base = cells, base
        self.dtype, self.shape, self.strides = cells.dtype, cells.shape, cells.strides
        self.data = FakePointer(cells.__array_interface__["data"][0])
        self.device = FakeCupy.device

    @property
    def __cuda_array_interface__(self):
        return self.cells.__array_interface__

    def copy(self, order):
        return FakeArray(None, cells=self.cells.copy(order))

    def __getitem__(self, key):
        return FakeArray(None, cells=self.cells[key], base=self if self.base is None else self.base)

    def __setitem__(self, key, value):
        self.cells[key] = value.cells


class FakeStream(contextlib.AbstractContextManager):
    current = None

    def __init__(self, ptr=0):
        self.ptr = ptr

    def __enter__(self):
        self.before, FakeStream.current = FakeStream.current, self

    def __exit__(self, *_):
        FakeStream.current = self.before

    def synchronize(self):
        FakeCupy.synchronized.append(self.ptr)


class FakeDevice(contextlib.nullcontext):
    id = 0


class FakeCupy(types.ModuleType):
    """CuPy on a made-up device, whose kernels are those of the host."""

    ndarray, device, synchronized = FakeArray, FakeDevice(), []

    def __init__(self):
        super().__init__("cupy")
        self.cuda = types.SimpleNamespace(ExternalStream=FakeStream, Stream=types.SimpleNamespace(null=FakeStream()),
                                          get_current_stream=lambda: FakeStream.current or FakeStream(),
                                          runtime=types.SimpleNamespace(getDevice=lambda: 0))
        self.empty = FakeArray

    @staticmethod
    def asarray(array):
        return FakeArray(None, cells=np.asarray(types.SimpleNamespace(__array_interface__=array.__cuda_array_interface__)))


class MadeUpDevice(Test):
    """Arrays that say that they are CuPy's; the kernel says that it is the device's."""

    def setUp(self):
        FakeArray.__module__ = "cupy"
        for patch in (unittest.mock.patch.dict(sys.modules, {"cupy": FakeCupy()}),
                      unittest.mock.patch.object(_compilers, "cuda", lambda ordinal=None: _compilers.host()),
                      unittest.mock.patch.object(spider_gen.Stencil, "_kernel", self.kernel(spider_gen.Stencil._kernel))):
            patch.start()
            self.addCleanup(patch.stop)
        FakeCupy.synchronized.clear()

    @staticmethod
    def kernel(load):
        def on_device(stencil, toolchain):
            library, kernel = load(stencil, toolchain)
            if kernel.info.backend == "host":
                kernel.info = dataclasses.replace(kernel.info, backend="cuda")
            return library, kernel

        return on_device

    def make(self, **changes):
        return spider_gen.stencil({**HEAT, **changes})

    def test_strides_and_halos(self):
        of_numpy, one, padded = host(HEAT), self.make(), field((22, 32))
        whole = FakeArray(None, cells=padded)
        for key in ((slice(None, None, -1),), (slice(None), slice(None, None, 2)), (slice(1, -1), slice(1, -1))):
            u = whole[key]
            for _ in range(2):
                np.testing.assert_array_equal(one(u).cells, of_numpy(padded[key]))
            np.testing.assert_array_equal(one.iterate(u, 3).cells, of_numpy.iterate(padded[key], 3))
            np.testing.assert_array_equal(one(u, stream=7).cells, of_numpy(padded[key]))
        halo, inner = self.make(boundary="halo"), (slice(1, -1), slice(1, -1))
        wanted = host(HEAT, boundary="halo")(padded[::-1][inner])
        np.testing.assert_array_equal(halo(whole[::-1][inner]).cells, wanted)
        self.refuse(ValueError, "through halo faces", halo, whole[::-1])
        self.refuse(ValueError, "out has strides", one, whole, out=whole[::-1])
        self.assertEqual(one(whole[:0]).shape, (0, 32))
        self.assertIsNone(FakeStream.current)

    def test_copies_are_made_on_the_stream(self):
        used = []
        with unittest.mock.patch.object(FakeArray, "copy", lambda array, order: used.append(FakeStream.current.ptr) or FakeArray(
                None, cells=array.cells.copy(order))):
            self.make()(FakeArray(None, cells=field())[::-1], stream=7)
        self.assertEqual(used, [7])

    def test_memory_of_others_is_waited_for(self):
        u = field()
        one, wanted = self.make(), host(HEAT)(u)
        bare = types.SimpleNamespace(__cuda_array_interface__=u.__array_interface__, array=u)
        np.testing.assert_array_equal(one(bare).cells, wanted)
        self.assertEqual(FakeCupy.synchronized, [0])
        one(FakeArray(None, cells=u))
        self.assertEqual(FakeCupy.synchronized, [0])
        points = one.points(u.shape, [(3, 4)])
        np.testing.assert_array_equal(points.read(FakeArray(None, cells=u)).cells, u[3:4, 4])


def views(rng, shape):
    """Views of the shape with strides of any kind, of random numbers; none has shared cells that differ."""
    make = np.random.default_rng(rng.randrange(2**32))
    order = list(range(len(shape)))
    rng.shuffle(order)
    steps = [rng.choice((1, 1, 2, -1, -2, 0)) for _ in shape]
    whole = [1 if step == 0 else n * abs(step) + 3 for n, step in zip(shape, steps)]
    base = make.random([whole[axis] for axis in order]).astype(np.float32).transpose(np.argsort(order))
    cut = []
    for n, step, size in zip(shape, steps, whole):
        if step == 0:
            cut.append(slice(None))
        elif step > 0:
            cut.append(slice(1, 1 + n * step, step))
        else:
            cut.append(slice(size - 2, size - 2 + n * step, step))
    return np.broadcast_to(base[tuple(cut)], shape), steps, order


class Strides(Test):
    def test_of_any_kind_are_as_a_copy(self):
        seed = int(os.environ.get("SEED", random.randrange(2**32)))
        print("seed", seed)
        rng = random.Random(seed)
        kernels = {2: (host(HEAT), host(WAVE)), 3: (host(HEAT, stencil="cube", dimensions=3, coefficients={
            "center": 0.4, "z": [0.1, 0.1], "y": [0.1, 0.1], "x": [0.1, 0.1]}), None)}
        for _ in range(120):
            shape = tuple(rng.randint(1, 9) for _ in range(rng.choice((2, 2, 3))))
            heat, wave = kernels[len(shape)]
            u, steps, order = views(rng, shape)
            dense = u.copy()
            with self.subTest(shape=shape, steps=steps, order=order):
                np.testing.assert_array_equal(heat(u), heat(dense))
                np.testing.assert_array_equal(heat.iterate(u, 3), heat.iterate(dense, 3))
                cells = [tuple(rng.randrange(n) for n in shape) for _ in range(3)]
                np.testing.assert_array_equal(heat.points(shape, cells).read(u), u[tuple(zip(*cells))])
                if wave:
                    old, speed = views(rng, shape)[0], views(rng, shape)[0]
                    given, copies = {"u_old": old, "speed": speed}, {"u_old": old.copy(), "speed": speed.copy()}
                    np.testing.assert_array_equal(wave(u, damping=0.5, **given), wave(dense, damping=0.5, **copies))
                    np.testing.assert_array_equal(wave.iterate(u, 3, damping=0.5, **given),
                                                  wave.iterate(dense, 3, damping=0.5, **copies))

    def test_a_profile_is_a_field(self):
        wave, u, profile = host(WAVE), field(), np.linspace(0.1, 0.3, 30, dtype=np.float32)
        for speed in (np.broadcast_to(profile, u.shape), np.broadcast_to(profile[:20, None], u.shape)):
            for call in (wave, lambda u, **given: wave.iterate(u, 3, **given)):
                np.testing.assert_array_equal(call(u, u_old=u, speed=speed, damping=0.5),
                                              call(u, u_old=u, speed=speed.copy(), damping=0.5))

    def test_out_is_right_or_refused(self):
        heat, u = host(HEAT), field()
        wide = np.zeros((20, 60), np.float32)
        for out in (np.empty_like(u)[::-1], np.empty((30, 20), np.float32).T, wide[:, ::2],
                    np.lib.stride_tricks.as_strided(np.empty(60, np.float32), (20, 30), (0, 4)),
                    np.lib.stride_tricks.as_strided(np.empty(60, np.float32), (20, 30), (4, 4))):
            for call in (heat, lambda u, out: heat.iterate(u, 2, out=out)):
                self.refuse(ValueError, "out has strides of .* bytes; a kernel writes to rows", call, u, out=out)
        self.refuse(ValueError, "u has strides", heat.points((20, 30), [(0, 0)]).add, u[::-1], [1])
        np.testing.assert_array_equal(heat(u, out=wide[:, 10:40]), heat(u))
        self.assertEqual((wide[:, :10].any(), wide[:, 40:].any()), (False, False))

    def test_halo_faces(self):
        one = host(HEAT, boundary="halo")
        padded = field((22, 32))
        inner = padded[1:-1, 1:-1]
        wanted = one(inner)
        for call in (one, lambda u: one.iterate(u, 1)):
            for flip in ((slice(None, None, -1),), (slice(None), slice(None, None, -1)), (slice(None, None, -1),) * 2):
                flipped = padded[flip].copy()
                np.testing.assert_array_equal(call(inner[flip]), call(flipped[1:-1, 1:-1]))
                np.testing.assert_array_equal(call(padded[flip][1:-1, 1:-1]), call(flipped[1:-1, 1:-1]))
            np.testing.assert_array_equal(call(np.asfortranarray(padded)[1:-1, 1:-1]), wanted)
            rows = np.broadcast_to(padded[3], (7, 32))[:, 1:-1]
            np.testing.assert_array_equal(call(rows), call(np.repeat(padded[3:4], 9, axis=0)[1:-1, 1:-1]))
        for outside in (padded[::-1], padded[1:-1][::-1], padded[1:-1, :-1][::-1], padded[1:-1, ::-1], padded[::2, ::2][1:-1, 1:],
                        np.broadcast_to(padded[3], (7, 32)), np.broadcast_to(padded[3, 1:-1], (1, 30))):
            for call in (one, lambda u: one.iterate(u, 1)):
                self.refuse(ValueError, "through halo faces|where it has one cell and a stride of 0", call, outside)

    def test_halos_of_fields(self):
        one = host(HEAT, boundary="halo", fields=["c"], update="u + c*sum", steps=2)
        u, c = field((24, 34)), field((24, 34)) + 1
        low = one.halo(20, 30)[0][0], one.halo_of_fields(20, 30)[0][0]
        self.assertEqual(low, (2, 1))
        np.testing.assert_array_equal(one(u[2:-2, 2:-2], c=np.ascontiguousarray(c[::-1])[::-1][2:-2, 2:-2]),
                                      one(u[2:-2, 2:-2], c=c[2:-2, 2:-2]))


class Empty(Test):
    def test_results_are_empty(self):
        heat, wave = host(HEAT), host(WAVE)
        said = []
        for shape in ((0, 5), (5, 0), (0, 0)):
            u = np.empty(shape, np.float32)
            out = np.empty(shape, np.float32)
            self.assertEqual((heat(u).shape, heat.iterate(u, 3).shape), (shape, shape))
            self.assertIs(heat(u, out=out), out)
            self.assertIs(heat.iterate(u, 3, out=out, progress=lambda *steps: said.append(steps)), out)
            self.assertEqual(wave(u, u_old=u, speed=u, damping=0).shape, shape)
            self.assertEqual([a.shape for a in wave.iterate(u, 3, u_old=u, speed=u, damping=0)], [shape, shape])
            points = heat.points(shape, [])
            self.assertIs(points.add(u, []), u)
            self.assertEqual(points.read(u).shape, (0,))
            self.refuse(ValueError, "there are 0 points, and 1 values", points.add, u, [1])
            self.refuse(ValueError, "have no cells", heat.points, shape, [(0, 0)])
            self.refuse(ValueError, "-1 steps", heat.iterate, u, -1)
            self.refuse(TypeError, "takes f32, and u is float64", heat, u.astype(float))
            self.refuse(ValueError, "speed has the shape", wave, u, u_old=u, speed=field(), damping=0)
        self.assertEqual(said, [(3, 3)] * 3)
        self.refuse(ValueError, "has 2 dimensions, and u has 1", heat, np.empty(0, np.float32))
        if torch:
            self.assertEqual(heat(torch.empty(0, 5)).shape, (0, 5))
        halo = host(HEAT, boundary="halo")
        self.assertEqual((halo(np.empty((0, 5), np.float32)).shape, halo.iterate(np.empty((0, 5), np.float32), 2).shape), ((0, 5),) * 2)


class Numbers(Test):
    def test_scalars(self):
        wave, u = host(WAVE), field()
        call = lambda damping: wave(u, u_old=u, speed=u, damping=damping)
        wanted = call(0.5)
        for half in (np.float32(0.5), np.array(0.5), np.float64(0.5), *([torch.tensor(0.5)] if torch else [])):
            np.testing.assert_array_equal(call(half), wanted)
        for wrong, words in (("0.5", "not a str"), (1j, "real number, not a complex"), (np.complex64(1), "not a complex"),
                             (np.ones(1), r"not an array of shape \(1,\)"), (None, "not a NoneType"), ([0.5], "not a list")):
            self.refuse(TypeError, "damping is a (real )?number, not|damping is a real number", call, wrong)
            self.refuse(TypeError, words, call, wrong)

    def test_values_of_points(self):
        u = field()
        points = host(HEAT).points(u.shape, [(0, 0)])
        before = u.copy()
        self.refuse(TypeError, "a point takes real numbers, not complex128", points.add, u, [1j])
        self.refuse(TypeError, "a point takes real numbers, not <U3", points.add, u, ["1.5"])
        self.refuse(ValueError, "1 of 1 values are out of the range of f32", points.add, u, [1e39])
        np.testing.assert_array_equal(u, before)
        points.add(u, [np.inf])
        self.assertEqual(u[0, 0], np.inf)

    def test_uploads(self):
        for storage, most in (("f16", 65504), ("bf16", 3.38e38), ("f32", 3.4e38)):
            library, kernel = host(HEAT, storage=storage).compile()._kernels.popitem()[1]
            one = library.field(kernel, 1, 3)
            one.upload(np.array([[most, -np.inf, np.nan]]))
            np.testing.assert_allclose(one.download(), [[most, -np.inf, np.nan]], rtol=2**-8)
            self.refuse(ValueError, f"1 of 3 values are out of the range of {storage}", one.upload, np.array([[0, 1.1 * most, np.inf]]))

    def test_bf16_is_rounded_once(self):
        given = np.array([1 + 2.0**-8 + 2.0**-40, -1 - 2.0**-8 - 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8 - 2.0**-40])
        np.testing.assert_array_equal(spider._readable(spider._bits(given, "bf16"), "bf16"), [1 + 2.0**-7, -1 - 2.0**-7, 1, 1 + 2.0**-7])


class FewColumns(Test):
    """Arrays that would be transposed on a GPU, by kernels of the host."""

    SPEC = {"stencil": "mixed", "storage": "f32", "shape": "taps", "fields": ["k"], "scalars": ["s"],
            "boundary": {"y": "periodic", "x": {"low": {"constant": 2}, "high": "mirror"}}, "dimensions": 2,
            "coefficients": [{"at": [-2, 0], "weight": 0.1}, {"at": [1, 1], "weight": 0.3}, {"at": [0, -1], "weight": 0.5}],
            "update": "sum + k*s*u + 0.01*(ix - iy/ny)"}

    def setUp(self):
        for name, value in (("pays", lambda toolchain: True), ("_FEWEST_CELLS", 1)):
            patch = unittest.mock.patch.object(_thin, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        self.random = np.random.default_rng(3)

    def field(self, *shape):
        return self.random.random(shape).astype(np.float32)

    def plain(self, call):
        with unittest.mock.patch.object(_thin, "exchange_axes", lambda shape: None):
            return call()

    def same(self, stencil, call):
        """The order of a sum's taps differs, so results agree to the rounding of each of a few taps and steps."""
        found, wanted = call(), self.plain(call)
        self.assertTrue(any(stencil._by_axes.values()), "no array was transposed")
        for a, b in zip(found, wanted) if isinstance(found, tuple) else [(found, wanted)]:
            self.assertEqual(a.shape, b.shape)
            self.assertTrue(a.flags.c_contiguous)
            np.testing.assert_allclose(a, b, rtol=40 * 2**-24, atol=40 * 2**-24)

    def test_calls_and_steps_agree(self):
        mixed, u, k = host(self.SPEC), self.field(700, 3), self.field(700, 3)
        self.same(mixed, lambda: mixed(u, k=k, s=0.5))
        self.same(mixed, lambda: mixed(u, out=np.empty_like(u), k=k, s=0.5))
        self.same(mixed, lambda: mixed.iterate(u, 3, k=k, s=0.5))
        self.same(mixed, lambda: mixed.iterate(u[::-1], 3, k=k, s=0.5))

    def test_pairs_of_steps_and_three_dimensions_agree(self):
        wave = host(WAVE)
        u, u_old, speed = (self.field(500, 4) for _ in range(3))
        self.same(wave, lambda: wave.iterate(u, 5, u_old=u_old, speed=speed, damping=0.1))
        volume = host({"stencil": "v", "dimensions": 3, "storage": "f32", "shape": "star", "radius": 1, "boundary": "nearest",
                       "coefficients": {"center": 0.4, "z": [0.1, 0.2], "y": [0.05, 0.05], "x": [0.1, 0.1]}})
        v = self.field(5, 300, 3)
        self.same(volume, lambda: volume(v))

    def test_halos_are_read(self):
        heat, around = host(HEAT, boundary="halo"), self.field(602, 5)
        self.same(heat, lambda: heat(around[1:-1, 1:-1]))

    def test_refusals_are_those_of_the_order_at_hand(self):
        heat, u = host(HEAT), self.field(700, 3)
        self.refuse(ValueError, r"out has the shape \(3, 700\), and u \(700, 3\)", heat, u, out=np.empty((3, 700), np.float32))
        self.refuse(TypeError, "takes f32", heat, u.astype(np.float64))
        self.refuse(ValueError, "read-only", heat, u, out=np.broadcast_to(np.float32(0), u.shape))

    def test_what_progress_raises_comes_once(self):
        calls = []

        def stop(done, steps):
            calls.append(done)
            raise ValueError("enough")

        self.refuse(ValueError, "enough", host(HEAT).iterate, self.field(700, 3), 5, progress=stop)
        self.assertEqual(calls, [0, 0])  # refuse() calls twice

    def test_plans_that_differ_are_not_exchanged(self):
        far = {"stencil": "far", "dimensions": 2, "storage": "f32", "shape": "taps", "steps": "auto", "boundary": "nearest",
               "coefficients": [{"at": [0, -7], "weight": 0.4}, {"at": [0, 0], "weight": 0.2}, {"at": [0, 7], "weight": 0.4}]}
        for stencil in (host(far), spider_gen.stencil(HEAT, backend="host", options=("--axes", "xy"))):
            stencil(self.field(700, 5))
            self.assertFalse(any(stencil._by_axes.values()))

    def test_out_overlapping_u_is_refused(self):
        whole = self.field(701, 3)
        self.refuse(ValueError, "share cells", host(HEAT), whole[:-1], out=whole[1:])

    def test_wide_arrays_stay(self):
        heat = host(HEAT)
        heat(self.field(700, 40))
        self.assertFalse(any(heat._by_axes.values()))


class OnDevice(_arrays.Array):
    """An array of the host that says that it is on a device."""

    on_device = True
    shapes = []  #: of those made with aligned rows

    def new(self):
        return OnDevice(*2 * (np.empty(self.shape, self.view.dtype),))

    def with_aligned_rows(self):
        whole = np.full(_arrays._aligned_shape(self.shape, self.view.itemsize), np.nan, self.view.dtype)
        self.shapes.append(whole.shape)
        return OnDevice(*2 * (whole[..., : self.shape[-1]],))


class AlignedRows(Test):
    def test_many_steps_of_odd_rows_take_copies_with_aligned_ones(self):
        heat = host(HEAT, steps=4)
        kernel = heat._kernel(_compilers.choose("host"))[1]
        for columns, steps, count in ((37, 15, 0), (37, 16, 2), (37, 17, 2), (36, 40, 0)):
            u = field((30, columns))
            out = np.zeros_like(u)
            OnDevice.shapes.clear()
            found = heat._iterate_plain(kernel, OnDevice(u, u), None, steps, None, None)
            self.assertEqual(OnDevice.shapes, count * [(30, 64)])
            self.assertTrue(found.flags.c_contiguous)
            self.assertIs(heat._iterate_plain(kernel, OnDevice(u, u), OnDevice(out, out), steps, None, None), out)
            for result in (found, out):
                self.assertEqual(result.tobytes(), heat.iterate(u, steps).tobytes())


if __name__ == "__main__":
    unittest.main()
