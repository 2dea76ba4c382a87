"""Derivatives through the package, on the host: the core with NumPy alone, and PyTorch's operators where there is 2.4 or newer."""

import pickle
import subprocess
import sys
import unittest

import numpy as np

import spider_gen
from spider_gen import _adjoint, _snapshots

try:
    import torch

    if not hasattr(torch.library, "custom_op"):
        torch = None
except ImportError:
    torch = None

TAPS = {"shape": "taps", "coefficients": [{"at": [0, 0], "weight": 0.5}, {"at": [0, 1], "weight": 0.2},
                                          {"at": [-2, 0], "weight": 0.1}]}
LINEAR = {"stencil": "linear", "dimensions": 2, "storage": "f64", **TAPS}
UPDATE = {"stencil": "wave", "dimensions": 2, "storage": "f64", "sums": {"lap": {"shape": "laplacian"}},
          "boundary": {"constant": 0}, "previous": "u_old", "fields": ["k"], "scalars": ["a"], "update": "2*u - u_old + a*k*lap + 0.01*u*u"}
DIFFERENCES = {f"d{axis}{sign}": {"shape": "derivative", "order": {axis: 1}, "at": {axis: half}}
               for axis in "xy" for sign, half in (("p", "1/2"), ("m", "-1/2"))}
SYSTEM = {"stencil": "waves", "dimensions": 2, "storage": "f64", "scalars": ["dt"], "operators": DIFFERENCES,
          "fields": {"p": {}, "u": {}, "v": {}, "k": {}, "d": {"axes": ["x"]}}, "boundary": {"constant": 0},
          "stages": [{"u": "u - dt*d*dxp(p)", "v": "v - dt*dyp(p)"}, {"p": "p - dt*k*(dxm(u) + dym(v))"}]}
FACES = ("nearest", "periodic", "mirror", "antisymmetric", {"constant": 3})
SHAPE = (5, 7)
CELLS, RECEIVERS = [(1, 1), (2, 3)], [(4, 4), (1, 1), (0, 0)]


def host(spec, **changes):
    return spider_gen.stencil({**spec, **changes}, backend="host")


def state_of(spec, seed=1):
    """Arrays by name."""
    rng = np.random.default_rng(seed)
    previous = [spec["previous"]] if "previous" in spec else []
    names = spec["fields"] if "stages" in spec else ["u", *previous, *spec.get("fields", [])]
    return {name: rng.uniform(0.5, 1, SHAPE[1:] if name == "d" else SHAPE) for name in names}


def dot(a, b):
    return sum(float((a[name] * b[name]).sum()) for name in b)


class Core(unittest.TestCase):
    def along(self, function, state, bars, found):
        """The derivative along a random direction is the central difference."""
        along = {name: np.random.default_rng(9).uniform(-1, 1, array.shape) for name, array in state.items()}
        h = 1e-6
        up, down = (dot(function({name: state[name] + s * h * along[name] for name in state}), bars) for s in (1, -1))
        self.assertAlmostEqual((up - down) / (2 * h), dot(found, along), delta=1e-6 * max(1, abs(up)))

    def test_stencils(self):
        for faces in FACES:
            one, state = host(LINEAR, boundary=faces), state_of(LINEAR)
            bars = state_of(LINEAR, 2)
            self.along(lambda s: {"u": one(s["u"])}, state, bars, spider_gen.sweep_vjp(one, state, bars))
            self.along(lambda s: {"u": one.iterate(s["u"], 5)}, state, bars, spider_gen.iterate_vjp(one, state, bars, 5)[0])
            stack, bar = (np.random.default_rng(i).random((3, *SHAPE)) for i in range(2))
            found = spider_gen.sweep_vjp(one, {"u": stack}, {"u": bar})["u"]
            for i in range(3):
                np.testing.assert_array_equal(found[i], spider_gen.sweep_vjp(one, {"u": stack[i]}, {"u": bar[i]})["u"])

    def test_halo_cells_have_none(self):
        one = host(LINEAR, boundary="halo")
        whole, bar = np.random.default_rng(3).random((12, 14)), np.random.default_rng(4).random(SHAPE)
        inner, moved = np.s_[3:8, 3:10], whole.copy()
        moved[inner] += 1
        found = spider_gen.sweep_vjp(one, {"u": whole[inner]}, {"u": bar})["u"]
        self.assertAlmostEqual(float(((one(moved[inner]) - one(whole[inner])) * bar).sum()), float(found.sum()))
        with self.assertRaisesRegex(NotImplementedError, "take no halo faces"):
            spider_gen.iterate_vjp(one, {"u": whole[inner]}, {"u": bar}, 2)

    def test_updates(self):
        wave, state = host(UPDATE), state_of(UPDATE)
        bars = {name: state_of(UPDATE, 2)[name] for name in ("u", "u_old")}

        def steps(s):
            return dict(zip(("u", "u_old"), wave.iterate(s["u"], 7, u_old=s["u_old"], k=s["k"], a=0.1)))

        first, _ = spider_gen.iterate_vjp(wave, {**state, "a": 0.1}, bars, 7)
        self.along(steps, state, bars, first)
        for every in (1, 3, 7, 100):
            again, _ = spider_gen.iterate_vjp(wave, {**state, "a": 0.1}, bars, 7, checkpoint=every)
            for name, bar in again.items():
                np.testing.assert_array_equal(bar, first[name])
        sweep = spider_gen.sweep_vjp(wave, {**state, "a": 0.1}, {"u": bars["u"]})
        self.along(lambda s: {"u": wave(s["u"], u_old=s["u_old"], k=s["k"], a=0.1)}, state, {"u": bars["u"]}, sweep)

    def test_split_stages(self):
        """The adjoint of a wide sum in 3D: several stages, of which two are sweeps by kernels of stencils."""
        wave = host(UPDATE, dimensions=3, sums={"lap": {"shape": "laplacian", "accuracy": 8}},
                    boundary={"z": "periodic", "y": {"constant": 0}, "x": {"constant": 2}})
        self.assertNotIn("u_bar_term", dict(spider_gen.adjoint_of(wave).info.fields))
        self.assertIn("u_bar_term", dict(_adjoint._gradient_of(wave).info.fields))
        rng = np.random.default_rng(6)
        state, bars = ({name: rng.uniform(0.5, 1, (9, 5, 7)) for name in names} for names in (("u", "u_old", "k"), ("u", "u_old")))
        found, _ = spider_gen.iterate_vjp(wave, {**state, "a": 0.1}, bars, 3)
        self.along(lambda s: dict(zip(("u", "u_old"), wave.iterate(s["u"], 3, u_old=s["u_old"], k=s["k"], a=0.1))), state, bars, found)

    def test_systems_with_sources_and_receivers(self):
        waves, state, rng = host(SYSTEM), state_of(SYSTEM), np.random.default_rng(5)
        bars = {name: rng.random(SHAPE) for name in ("p", "u")}
        values, rows = rng.random((8, 2)), rng.random((8, 3))

        def steps(s):
            s = dict(s)
            injected = s.pop("values")
            fields, records = waves.iterate(s, 8, dt=0.2, inject={"p": (CELLS, injected)}, record={"p": RECEIVERS})
            return {**fields, "rows": records["p"]}

        def vjp(every):
            found, injected = spider_gen.iterate_vjp(waves, {**state, "dt": 0.2}, bars, 8, every, {"p": (CELLS, values)},
                                                   {"p": (waves.points(SHAPE, RECEIVERS), rows)})
            return {**found, "values": injected["p"]}

        first = vjp(None)
        self.along(steps, {**state, "values": values}, {**bars, "rows": rows}, first)
        self.assertEqual(first["d"].shape, state["d"].shape)
        for every in (1, 3, 8):
            for name, bar in vjp(every).items():
                np.testing.assert_array_equal(bar, first[name])
        found = spider_gen.sweep_vjp(waves, {**state, "dt": 0.2}, bars)
        self.along(lambda s: waves(s, dt=0.2), state, bars, found)

    def test_snapshots(self):
        """States far out of the range of f16, each rounded by 2^-11 of it, in a Laplacian whose weights have a sum of 8."""
        for storage, kind in (("f32", np.float32), ("f64", np.float64)):
            wave, state = host(UPDATE, storage=storage), {name: array.astype(kind) for name, array in state_of(UPDATE).items()}
            bars = {"u": state_of(UPDATE, 2)["u"].astype(kind)}
            for name in ("u", "u_old"):
                state[name] *= kind(1e-20)
            exact, _ = spider_gen.iterate_vjp(wave, {**state, "a": 0.1}, bars, 7)
            for every in (1, 3, None):
                found, _ = spider_gen.iterate_vjp(wave, {**state, "a": 0.1}, bars, 7, every, snapshots="f16")
                for name, bar in found.items():
                    np.testing.assert_allclose(bar, exact[name], rtol=0, atol=2**-8 * abs(exact[name]).max())
            self.assertTrue((found["k"] != exact["k"]).any())
        waves, state = host(SYSTEM), {**state_of(SYSTEM), "dt": 0.2}
        inject = {"p": (CELLS, np.random.default_rng(5).random((8, 2)))}
        exact, found = (spider_gen.iterate_vjp(waves, state, {"p": state["p"]}, 8, 1, inject, snapshots=one)[0] for one in (None, "f16"))
        for name, bar in found.items():
            np.testing.assert_allclose(bar, exact[name], rtol=0, atol=2**-8 * abs(exact[name]).max())
        zero = {name: array * 0 if hasattr(array, "shape") else array for name, array in state.items()}
        self.assertFalse(spider_gen.iterate_vjp(waves, zero, {"p": state["p"]}, 3, 1, snapshots="f16")[0]["k"].any())

    def test_sweeps_of_snapshots(self):
        """What a GPU packs and unpacks with, rows of cells with a scale each, rounds as NumPy does."""
        wide, scale = np.random.default_rng(7).normal(size=(3, 9)).astype(np.float32), np.float32([4, 2**-20, 1])
        wide[2, :5] = np.inf, np.nan, 65519, 65520, 3e-8
        half = _snapshots.products("half: wide*scale", "f32")({"wide": wide, "half": np.empty((3, 9), np.float16), "scale": scale})["half"]
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(half, (wide * scale[:, None]).astype(np.float16))
        found = _snapshots.products("wide: half*scale", "f32")({"wide": np.empty_like(wide), "half": half, "scale": scale})["wide"]
        np.testing.assert_array_equal(found, half * scale[:, None])

    def test_no_steps(self):
        waves, state = host(SYSTEM), state_of(SYSTEM)
        found, _ = spider_gen.iterate_vjp(waves, {**state, "dt": 0.2}, {"p": state["p"]}, 0)
        np.testing.assert_array_equal(found["p"], state["p"])
        self.assertFalse(found["k"].any())

    def test_storages(self):
        for storage, bound in (("f16", 2e-3), ("f32", 1e-6)):
            one = host(LINEAR, storage=storage, boundary="nearest")
            kind = {"f16": np.float16, "f32": np.float32}[storage]
            u, v = (state_of(LINEAR, i)["u"].astype(kind) for i in range(2))
            found = spider_gen.sweep_vjp(one, {"u": u}, {"u": v})["u"]
            self.assertEqual(found.dtype, kind)
            there, here = ((a.astype(float) * b).sum() for a, b in ((one(u), v), (u, found)))
            self.assertLess(abs(there - here), bound * abs(there))

    def test_what_is_made(self):
        one = spider_gen.stencil({**LINEAR, "boundary": "nearest", "parameters": {"c": 1}, "update": "c*sum"}, backend="host", c=2)
        adjoint = spider_gen.adjoint_of(one)
        self.assertIs(spider_gen.adjoint_of(one), adjoint)
        again = pickle.loads(pickle.dumps(adjoint))
        bar = state_of(LINEAR)["u"]
        for made in (adjoint, again):
            np.testing.assert_allclose(made({"u_bar": bar})["u_bar"].sum(), 2 * spider_gen.sweep_vjp(
                host(LINEAR, boundary="nearest"), {"u": bar}, {"u": bar})["u"].sum())

    def test_refusals(self):
        waves, state = host(SYSTEM), state_of(SYSTEM)
        inputs = {**state, "dt": 0.2}
        for kind, words, call in (
                (spider_gen.SpecError, "adjoint", lambda: spider_gen.adjoint_of(host(LINEAR, storage="u8"))),
                (TypeError, "bars name k", lambda: spider_gen.sweep_vjp(waves, inputs, {"k": state["k"]})),
                (TypeError, "the inputs of waves are p, u, v, k, d, dt, not", lambda: spider_gen.sweep_vjp(waves, state, {})),
                (ValueError, "the bar of p has the shape", lambda: spider_gen.sweep_vjp(waves, inputs, {"p": state["p"][1:]})),
                (TypeError, "takes f64", lambda: spider_gen.sweep_vjp(waves, inputs, {"p": state["p"].astype(np.float32)})),
                (ValueError, "-1 steps", lambda: spider_gen.iterate_vjp(waves, inputs, {}, -1)),
                (ValueError, "checkpoint every 0", lambda: spider_gen.iterate_vjp(waves, inputs, {}, 2, 0)),
                (ValueError, "snapshots is \"f16\", or None", lambda: spider_gen.iterate_vjp(waves, inputs, {}, 2, snapshots="f8")),
                (ValueError, "snapshots is \"f16\", or None", lambda: waves.iterate(state, 2, dt=0.2, snapshots="bf16")),
                (ValueError, "inject names k, which no stage writes",
                 lambda: spider_gen.iterate_vjp(waves, inputs, {}, 2, None, {"k": (CELLS, np.zeros((2, 2)))})),
                (ValueError, "record of p has the shape",
                 lambda: spider_gen.iterate_vjp(waves, inputs, {}, 2, None, None, {"p": (CELLS, np.zeros((3, 2)))}))):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()

    def test_nothing_imports_torch(self):
        code = ("import sys, numpy, spider_gen; "
                f"s = spider_gen.stencil({LINEAR | {'boundary': 'nearest'}!r}, backend='host'); u = numpy.ones((5, 7)); s(u); "
                "spider_gen.sweep_vjp(s, {'u': u}, {'u': u}); assert 'torch' not in sys.modules")
        subprocess.run([sys.executable, "-B", "-c", code], check=True)


def tensor(*shape):
    return torch.rand(*shape, dtype=torch.float64, requires_grad=True)


@unittest.skipIf(torch is None, "skipped: no PyTorch 2.4 or newer")
class Tensors(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(1)
        torch._dynamo.reset()

    def check(self, function, *inputs, twice=False):
        self.assertTrue(torch.autograd.gradcheck(function, inputs))
        if twice:
            self.assertTrue(torch.autograd.gradgradcheck(function, inputs))

    def compiled(self, function, *inputs):
        """The same results and gradients, without a graph break."""
        for backend in ("aot_eager", "inductor"):
            torch._dynamo.reset()
            compiled = torch.compile(function, fullgraph=True, backend=backend)
            for a, b in zip(*(torch.autograd.grad(one(*inputs), inputs) for one in (compiled, function))):
                torch.testing.assert_close(a, b)

    def test_stencils(self):
        for faces in FACES:
            one = host(LINEAR, boundary=faces)
            self.check(one, tensor(*SHAPE), twice=True)
            self.check(lambda u: one.iterate(u, 3), tensor(*SHAPE), twice=True)
            self.check(one, tensor(2, 4, 5))
            self.check(lambda u: one(u, axes=(0, 1)), tensor(4, 5, 2))
            self.compiled(lambda u: (one(2 * u) ** 2 + one.iterate(u, 3)).sum(), tensor(*SHAPE))

    def test_updates(self):
        wave, arrays = host(UPDATE), [tensor(4, 5) for _ in range(3)]
        self.check(lambda u, old, k: wave.update(u, u_old=old, k=k, a=0.1), *arrays)
        for every in (None, 1, 3, 7):
            self.check(lambda u, old, k: wave.iterate(u, 7, u_old=old, k=k, a=0.1, checkpoint=every), *arrays)
        self.check(lambda u, old, k: wave.iterate(u, 3, u_old=old, k=k, a=0.1), tensor(2, 4, 5), tensor(2, 4, 5), tensor(4, 5))
        for keeps in ({}, {"checkpoint": 1}):
            self.compiled(lambda u, old, k: wave.iterate(u, 7, u_old=old, k=k, a=0.1, **keeps)[0].sum(), *arrays)
        self.check_snapshots(lambda u, old, k, **keeps: wave.iterate(u, 7, u_old=old, k=k, a=0.1, **keeps), *arrays)

    def check_snapshots(self, function, *arrays):
        """Gradients of all results, of states in 16 bits."""
        def slopes(**keeps):
            found = function(*arrays, **keeps)
            return torch.autograd.grad(sum((one**2).sum() for one in found), arrays)

        exact = slopes(checkpoint=1)
        for every in (1, 3, None):
            for a, b in zip(slopes(checkpoint=every, snapshots="f16"), exact):
                torch.testing.assert_close(a, b, rtol=0, atol=2**-8 * float(b.abs().max()))

    def test_systems(self):
        waves, names = host(SYSTEM), list(SYSTEM["fields"])
        arrays = [*(tensor(4, 5) for _ in range(4)), tensor(5)]
        source, line = waves.points((4, 5), CELLS), waves.points((4, 5), [(3, 4), (1, 1)])

        def steps(values, *arrays, source=source, every=None):
            fields, records = waves.iterate(dict(zip(names, arrays)), 5, dt=0.2, inject={"p": (source, values)},
                                            record={"v": line, "p": line}, checkpoint=every)
            return (*fields.values(), *records.values())

        self.check(lambda *arrays: tuple(waves(dict(zip(names, arrays)), dt=0.2).values()), *arrays)
        for every in (None, 1, 3):
            self.check(lambda *arrays: steps(*arrays, every=every), tensor(5, 2), *arrays)
        self.check(lambda *arrays: steps(*arrays, source=CELLS), tensor(5, 2), *arrays)
        for every in (None, 1):
            self.compiled(lambda *arrays: sum(one.sum() for one in steps(*arrays, every=every)), tensor(5, 2), *arrays)

    def test_the_operators(self):
        one = host(LINEAR, boundary="nearest")
        text = f"{one._key};u;;;;"
        u, bar = tensor(*SHAPE), tensor(*SHAPE)
        one(u)
        for steps in (-1, 3):
            torch.library.opcheck(torch.ops.spider_gen.run.default, ([u], [], [0.0], text, steps, 0))
            torch.library.opcheck(torch.ops.spider_gen.run_vjp.default, ([u.detach()], [], [bar], [0.0], text, steps, 0))
        torch.library.opcheck(torch.ops.spider_gen.sweep.default, ([u.detach()], [0.0], text))
        wave, arrays = host(UPDATE), [tensor(4, 5) for _ in range(3)]
        wave.update(arrays[0].detach(), u_old=arrays[1].detach(), k=arrays[2].detach(), a=0.1)
        for snapshots in ("", "f16"):
            rest = [0.1], f"{wave._key};u,u_old,k;a;;;{snapshots}", 3, 1
            torch.library.opcheck(torch.ops.spider_gen.run_keeping.default, (arrays, [], *rest))
            plain = [one.detach() for one in arrays]
            _, _, *rooms = torch.ops.spider_gen.run_keeping(plain, [], *rest)
            torch.library.opcheck(torch.ops.spider_gen.vjp_of_kept.default, (plain, [], plain[:2], rooms, *rest))

    def test_sweeps_of_compiled_functions(self):
        """Calls that are remembered: of other arrays, layouts, scalars."""
        one, wave = host(LINEAR, boundary="nearest"), host(UPDATE)
        chain = torch.compile(lambda u, old, a: wave(one(one(u)), u_old=old, k=u, a=a), fullgraph=True, backend="aot_eager", dynamic=True)
        for shape in (SHAPE, SHAPE, (4, 9)):
            for a in (0.1, 0.3):
                u, old = (torch.rand(shape, dtype=torch.float64) for _ in range(2))
                for given in (u, u.t().contiguous().t()):
                    self.assertTrue(torch.equal(chain(given, old, a), wave(one(one(u)), u_old=old, k=u, a=a)))

    def test_func(self):
        """torch.func agrees with autograd; forward mode is there for linear sweeps."""
        func, (one, wave, waves) = torch.func, (host(LINEAR, boundary={"constant": 3}), host(UPDATE), host(SYSTEM))
        source, names = waves.points((4, 5), CELLS), list(SYSTEM["fields"])

        def cubes(u):
            return (one(u) ** 2).sum() + (one.iterate(u, 3) ** 3).sum()

        def steps(u, old, k):
            return (wave.update(u, u_old=old, k=k, a=0.1) ** 2).sum() + wave.iterate(u, 4, u_old=old, k=k, a=0.1, checkpoint=1)[0].sum()

        def record(values, *arrays):
            state = dict(zip(names, arrays))
            fields, records = waves.iterate(state, 5, dt=0.2, inject={"p": (source, values)}, record={"p": source})
            return (fields["p"] ** 2).sum() + records["p"].sum() + waves(state, dt=0.1)["u"].sum()

        arrays = [*(tensor(4, 5) for _ in range(4)), tensor(5)]
        for function, given in ((cubes, [tensor(*SHAPE)]), (steps, [tensor(4, 5) for _ in range(3)]), (record, [tensor(5, 2), *arrays])):
            plain, every = [one.detach() for one in given], tuple(range(len(given)))
            wanted = torch.autograd.grad(function(*given), given)
            torch.testing.assert_close(func.grad(function, every)(*plain), wanted)
            stacks = [torch.stack([array, 2 * array]) for array in plain]
            both = [func.grad(function, every)(*(stack[i] for stack in stacks)) for i in range(2)]
            torch.testing.assert_close(func.vmap(func.grad(function, every))(*stacks), tuple(map(torch.stack, zip(*both))))
        u, along = (torch.rand(SHAPE, dtype=torch.float64) for _ in range(2))
        torch.testing.assert_close(func.jvp(one, (u,), (along,))[1], one(along) - one(0 * along))
        torch.testing.assert_close(func.hessian(cubes)(u), torch.autograd.functional.hessian(cubes, u))
        with self.assertRaisesRegex(NotImplementedError, "wave has no derivative in forward mode"):
            func.jvp(lambda u: wave.update(u, u_old=u, k=u, a=0.1), (u,), (along,))

    def test_vmap_and_fake_tensors(self):
        one, waves, names = host(LINEAR, boundary="nearest"), host(SYSTEM), list(SYSTEM["fields"])
        stack = torch.rand(3, *SHAPE, dtype=torch.float64)
        self.assertTrue(torch.equal(torch.func.vmap(one)(stack), torch.stack([one(u) for u in stack])))
        arrays = [*(torch.rand(3, 4, 5, dtype=torch.float64) for _ in range(4)), torch.rand(5, dtype=torch.float64)]
        found = torch.func.vmap(lambda *arrays: waves(dict(zip(names, arrays)), dt=0.2)["p"], (0, 0, 0, 0, None))(*arrays)
        wanted = [waves(dict(zip(names, [*(one[i] for one in arrays[:4]), arrays[4]])), dt=0.2)["p"] for i in range(3)]
        self.assertTrue(torch.equal(found, torch.stack(wanted)))
        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode() as mode:
            self.assertEqual(one(mode.from_tensor(stack)).shape, stack.shape)

    def test_storages(self):
        for storage, kind in (("f16", torch.float16), ("bf16", torch.bfloat16), ("f32", torch.float32)):
            one = host(LINEAR, storage=storage, boundary="nearest")
            u = torch.rand(SHAPE).to(kind).requires_grad_()
            one(u).float().sum().backward()
            self.assertEqual(u.grad.dtype, kind)
            self.assertAlmostEqual(float(u.grad.double().sum()), 0.8 * u.numel(), delta=0.02 * u.numel())

    def test_refusals(self):
        leaf, square = tensor(*SHAPE), host(LINEAR, update="sum*u", boundary="nearest")
        one, waves = host(LINEAR, boundary="nearest"), host(SYSTEM)
        state = {name: torch.rand(SHAPE if name != "d" else SHAPE[1:], dtype=torch.float64) for name in SYSTEM["fields"]}
        state["p"].requires_grad_()
        whole, scale = tensor(12, 14), torch.tensor(0.2, requires_grad=True)
        first = torch.autograd.grad(square(leaf).sum(), leaf, create_graph=True)[0]
        for kind, words, call in (
                (TypeError, "u requires a gradient, and a kernel gives none", lambda: one(leaf, out=torch.empty_like(leaf))),
                (TypeError, "p requires a gradient, and a kernel gives none", lambda: waves(state, dt=0.2, in_place=True)),
                (TypeError, "p requires a gradient", lambda: waves.iterate(state, 3, dt=0.2, progress=lambda *_: None)),
                (TypeError, "dt requires a gradient", lambda: waves(state, dt=scale)),
                (TypeError, "k is a ndarray next to tensors", lambda: waves({**state, "k": state["k"].numpy()}, dt=0.2)),
                (TypeError, "it has `halo` faces", lambda: host(LINEAR, boundary="halo")(whole[3:8, 3:10])),
                (TypeError, "takes the arrays p, u, v, k, d", lambda: waves({"p": state["p"]}, dt=0.2)),
                (TypeError, "requires a gradient, and linear gives none: .*adjoint",
                 lambda: host(LINEAR, storage="f32", output="f64", boundary="nearest")(leaf.float())),
                (NotImplementedError, "has no second derivative", lambda: torch.autograd.grad(first.sum(), leaf)),
                (TypeError, "is transformed by torch.func",
                 lambda: torch.func.grad(lambda u: one(u, out=torch.empty_like(u)).sum())(leaf.detach()))):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                call()
        with torch.no_grad():
            self.assertFalse(one(leaf).requires_grad)


if __name__ == "__main__":
    unittest.main()
