"""Arrays of JAX, on the host: results, jit, vmap, gradients, and what is refused. Prints `skipped` where JAX is not installed."""

import dataclasses
import os
import pathlib
import pickle
import re
import subprocess
import sys
import unittest

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
except ImportError:
    print("skipped: there is no JAX")
    sys.exit()
import ml_dtypes
import numpy as np
import spider_gen
from jax import numpy as jnp
from jax.test_util import check_grads
from spider_gen import _compilers

jax.config.update("jax_enable_x64", True)

FACES = {"y": "nearest", "x": {"low": "reflect", "high": {"constant": 1.5}}}
HEAT = {"stencil": "heat", "dimensions": 2, "storage": "f64", "shape": "star", "boundary": FACES,
        "coefficients": {"center": 0.6, "y": [0.1, 0.15], "x": [0.05, 0.1]}}
SECOND = {"shape": "star", "coefficients": {"y": [1, -2, 1], "x": [1, -2, 1]}}
WAVE = {"stencil": "wave", "dimensions": 2, "storage": "f64", **SECOND, "previous": "u_old", "fields": ["c2"], "scalars": ["a"],
        "update": "2*u - u_old + a*c2*sum", "boundary": {"constant": 0}}
SYSTEM = {"stencil": "sound", "dimensions": 2, "storage": "f64", "boundary": "nearest", "scalars": ["dt"],
          "fields": {"p": {}, "v": {"boundary": {"constant": 0}}, "k": {}, "d": {"axes": ["x"]}},
          "stages": [{"v": "v + dt*d*(p[0, 1] - p)"}, {"p": "p + dt*k*k*(v - v[0, -1]) + 0.1*p*p[1, 0]"}]}
SHAPE = (8, 11)


def compile_fast():
    """Kernels are small and swept a few times."""
    host = _compilers.host()
    fast = dataclasses.replace(host, compile_options=tuple("-O1" if one == "-O3" else one for one in host.compile_options))
    _compilers.host = lambda: fast


def host(spec, **changes):
    return spider_gen.stencil({**spec, **changes}, backend="host")


def draw(*shape, seed=3, dtype=np.float64):
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape or SHAPE).astype(dtype)


def same(found, wanted):
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype, (found.dtype, wanted.dtype)
    np.testing.assert_array_equal(found, wanted)


def gradients(function, *arguments, order=1):
    check_grads(function, arguments, order=order, modes=["rev"])


class Test(unittest.TestCase):
    def refuse(self, kind, words, call, *arguments, **named):
        with self.assertRaisesRegex(kind, words):
            call(*arguments, **named)


class Stencils(Test):
    def setUp(self):
        self.heat, self.u = host(HEAT), draw()

    def test_results(self):
        u = jnp.asarray(self.u)
        found = self.heat(u)
        self.assertIsInstance(found, jax.Array)
        for one in (found, jax.jit(self.heat)(u)):
            same(one, self.heat(self.u))
        for steps in (0, 1, 2, 7):
            same(self.heat.iterate(u, steps), self.heat.iterate(self.u, steps))
            same(jax.jit(lambda u: self.heat.iterate(u, steps))(u), self.heat.iterate(self.u, steps))  # noqa: B023
        same(u, self.u)
        self.assertEqual(self.heat(jnp.zeros((0, 4))).shape, (0, 4))

    def test_storages(self):
        for storage, kind in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16), ("f32", np.float32)):
            one, u = host(HEAT, storage=storage), self.u.astype(kind)
            same(jax.jit(one)(u), one(u.view(np.uint16)).view(kind) if storage == "bf16" else one(u))
        mean = spider_gen.stencil(weights=np.ones((3, 3)) / 9, storage="u8", output="f32", boundary="nearest", backend="host")
        image = np.arange(88, dtype=np.uint8).reshape(SHAPE)
        same(jax.jit(mean)(image), mean(image))

    def test_batches(self):
        stack = np.stack([self.u, 2 * self.u, self.u**2])
        wanted = self.heat(stack)
        same(jax.vmap(self.heat)(stack), wanted)
        same(self.heat(jnp.asarray(stack)), wanted)
        last = jnp.moveaxis(jnp.asarray(stack), 0, -1)
        same(jnp.moveaxis(self.heat(last, axes=(0, 1)), -1, 0), wanted)
        same(jax.vmap(self.heat, -1, -1)(last), jnp.moveaxis(jnp.asarray(wanted), 0, -1))
        same(jax.jit(jax.vmap(jax.vmap(self.heat)))(stack[None]), wanted[None])
        gradients(jax.vmap(self.heat), jnp.asarray(stack), order=2)
        gradients(self.heat, jnp.asarray(stack))

    def test_gradients(self):
        gradients(self.heat, jnp.asarray(self.u), order=3)
        gradients(host(HEAT, boundary="periodic"), jnp.asarray(self.u), order=2)
        gradients(lambda u: self.heat.iterate(u, 7), jnp.asarray(self.u), order=2)
        gradients(jax.jit(lambda u: self.heat.iterate(u, 7, checkpoint=3)), jnp.asarray(self.u))

    def test_gradient_in_another_order_of_the_axes(self):
        spec = {"stencil": "turn", "dimensions": 2, "storage": "f64", "shape": "taps", "boundary": "periodic",
                "coefficients": [{"at": [0, 1], "weight": 2}, {"at": [1, 0], "weight": 3}]}
        turn = spider_gen.stencil(spec, backend="host", options=("--axes", "xy"))
        u, bar, change = (jnp.asarray(np.random.default_rng(seed).random((9, 12))) for seed in range(3))
        gradient = jax.grad(lambda one: (turn(one) * bar).sum())(u)
        self.assertAlmostEqual(float((gradient * change).sum()), float((turn(change) * bar).sum()), places=10)

    def test_several_steps_in_a_sweep(self):
        one = host(HEAT, steps=4, boundary="nearest")
        for steps in (4, 8, 9, 12):
            same(jax.jit(lambda u: one.iterate(u, steps))(self.u), one.iterate(self.u, steps))  # noqa: B023
        same(one(jnp.asarray(self.u)), one(self.u))
        gradients(one, jnp.asarray(self.u))
        gradients(lambda u: one.iterate(u, 9), jnp.asarray(self.u))

    def test_inside_of_functions(self):
        u = jnp.asarray(self.u)
        wanted = self.heat.iterate(self.u, 5)
        same(jax.lax.scan(lambda u, _: (self.heat(u), None), u, length=5)[0], wanted)
        same(jax.lax.fori_loop(0, 5, lambda _, u: self.heat(u), u), wanted)
        other = host(HEAT, stencil="other", boundary="periodic")
        both = jax.jit(lambda u: self.heat(other(u)) + self.heat(u))(u)
        np.testing.assert_allclose(both, self.heat(other(self.u)) + self.heat(self.u), rtol=1e-15)
        again = pickle.loads(pickle.dumps(self.heat))
        same(jax.jit(again)(u), self.heat(self.u))
        gradients(again, u)

    def test_refused(self):
        u, narrow = jnp.asarray(self.u), jnp.asarray(self.u, jnp.float32)
        for one in (self.heat, jax.jit(self.heat)):
            self.refuse(TypeError, r"heat takes f64, and u is float32: pass u.astype\(float64\)", one, narrow)
        self.refuse(ValueError, "heat has 2 dimensions, and u has 1", jax.jit(self.heat), u[0])
        self.refuse(TypeError, "heat takes no k: beside u it takes nothing", self.heat, u, k=1)
        self.refuse(TypeError, "heat is given out, which arrays that JAX traces do not take", jax.jit(
            lambda u: self.heat(u, out=np.empty(SHAPE))), u)
        self.refuse(TypeError, "steps is traced by JAX", jax.jit(self.heat.iterate), u, 3)
        self.refuse(ValueError, "-1 steps; there must be 0 or more", self.heat.iterate, u, -1)
        self.refuse(ValueError, "checkpoint is 0", self.heat.iterate, u, 3, checkpoint=0)
        self.refuse(ValueError, "snapshots is \"f16\"", self.heat.iterate, u, 3, snapshots="f8")
        self.refuse(TypeError, "halo faces and reads cells around u, where an array of JAX has none", host(HEAT, boundary="halo"), u)
        self.refuse(TypeError, "forward-mode", jax.jvp, self.heat, (u,), (u,))
        other = host(HEAT, output="f32")
        self.refuse(TypeError, "heat has no gradient: .*there is no adjoint of results of another storage",
                    jax.grad(lambda u: other(u).sum()), u)
        self.refuse(TypeError, 'made with backend="cuda", and JAX computes on the processor', self.on_cuda, u)

    def on_cuda(self, u):
        made = host(HEAT)
        made._kernel(_compilers.host())
        made._backend = "cuda"
        made(u)


class Updates(Test):
    def setUp(self):
        self.wave = host(WAVE)
        self.u, self.old, self.c2 = (draw(seed=seed) for seed in range(3))

    def step(self, u, old, c2, a=0.3):
        return self.wave(u, u_old=old, c2=c2, a=a)

    def steps(self, u, old, c2, a=0.3, **how):
        return self.wave.iterate(u, 6, u_old=old, c2=c2, a=a, **how)

    def test_results(self):
        own = self.u, self.old, self.c2
        same(jax.jit(self.step)(*own), self.step(*own))  # `a` is traced
        for steps in range(1, 6):
            found = jax.jit(lambda u, old, c2: self.wave.iterate(u, steps, u_old=old, c2=c2, a=0.3))(*own)  # noqa: B023
            for one, wanted in zip(found, self.wave.iterate(own[0], steps, u_old=own[1], c2=own[2], a=0.3)):
                same(one, wanted)

    def test_pairs(self):
        """Sweeps of several steps from two fields to two."""
        own = {name: value for name, value in WAVE.items() if name not in ("fields", "scalars")}
        one = host(own, steps=4, update="1.9*u - 0.9*u_old + 0.1*sum")
        for steps in range(1, 11):
            found = jax.jit(lambda u, old: one.iterate(u, steps, u_old=old))(self.u, self.old)  # noqa: B023
            for got, wanted in zip(found, one.iterate(self.u, steps, u_old=self.old)):
                same(got, wanted)
        self.refuse(TypeError, "a step reads the one before: call iterate", jax.jit(one), self.u, u_old=self.old)
        gradients(lambda u, old: one.iterate(u, 5, u_old=old), jnp.asarray(self.u), jnp.asarray(self.old))

    def test_gradients(self):
        own = [jnp.asarray(one) for one in (self.u, self.old, self.c2)]
        gradients(self.step, *own, order=2)
        gradients(self.steps, *own, order=2)
        slopes = [jax.grad(lambda c2: (self.steps(*own[:2], c2, checkpoint=k)[0] ** 2).sum())(own[2])  # noqa: B023
                  for k in (1, 2, 4, 6, 100)]
        for slope in slopes[1:]:
            np.testing.assert_allclose(slope, slopes[0], rtol=1e-12, atol=1e-12 * np.abs(slopes[0]).max())
        # States rounded by 2^-11 of them, in a Laplacian whose weights have a sum of 8.
        for every in (1, 3, None):
            found = jax.grad(lambda c2: (self.steps(*own[:2], c2, checkpoint=every, snapshots="f16")[0] ** 2).sum())(own[2])  # noqa: B023
            np.testing.assert_allclose(found, slopes[0], rtol=0, atol=2**-8 * np.abs(slopes[0]).max())
        self.refuse(TypeError, "a is a scalar, of which kernels give no gradient", jax.grad(
            lambda a: self.step(*own, a).sum()), 0.3)
        same(jax.grad(lambda u: self.step(u, *own[1:], jax.lax.stop_gradient(u[0, 0])).sum())(own[0]),
             jax.grad(lambda u: self.step(u, *own[1:], own[0][0, 0]).sum())(own[0]))

    def test_batches(self):
        u, old = (np.stack([one, 2 * one, one**2]) for one in (self.u, self.old))
        found = jax.vmap(self.step, (0, 0, None))(u, old, self.c2)
        same(found, np.stack([self.step(*own, self.c2) for own in zip(u, old)]))
        found = jax.vmap(self.step, (0, None, None, 0))(u, self.old, self.c2, np.arange(3.0))
        same(found, np.stack([self.step(own, self.old, self.c2, a) for own, a in zip(u, range(3))]))
        found = jax.vmap(jax.vmap(self.steps, (0, None, None)), (None, None, 0))(u, self.old, u)
        same(found[0][1, 2], self.steps(u[2], self.old, u[1])[0])
        of_all = jax.grad(lambda c2: (self.step(jnp.asarray(u), old, c2) ** 2).sum())(jnp.asarray(self.c2))
        each = sum(jax.grad(lambda c2: (self.step(*own, c2) ** 2).sum())(jnp.asarray(self.c2)) for own in zip(u, old))  # noqa: B023
        np.testing.assert_allclose(of_all, each, rtol=1e-12)


class Systems(Test):
    CELLS = [(1, 2), (3, 4)]

    def setUp(self):
        self.sound = host(SYSTEM)
        self.state = {**{name: draw(seed=seed) for seed, name in enumerate("pvk")}, "d": draw(SHAPE[1])}
        self.of_jax = {name: jnp.asarray(one) for name, one in self.state.items()}

    def check(self, found, wanted):
        self.assertEqual(sorted(found), sorted(wanted))
        for name, one in wanted.items():
            same(found[name], one)

    def shot(self, state, values):
        return self.sound.iterate(state, 5, dt=0.1, inject={"p": (self.CELLS, values)}, record={"p": [(1, 2), (0, 0)], "v": [(2, 2)]})

    def test_results(self):
        wanted = self.sound(self.state, dt=0.1)
        self.check(self.sound(self.of_jax, dt=0.1), wanted)
        self.check(jax.jit(lambda state, dt: self.sound(state, dt=dt))(self.state, 0.1), wanted)
        for steps in (0, 1, 2, 5):
            found = jax.jit(lambda state: self.sound.iterate(state, steps, dt=0.1))(self.state)  # noqa: B023
            self.check(found, self.sound.iterate(self.state, steps, dt=0.1))
        self.check(self.of_jax, self.state)

    def test_points(self):
        values = draw(5, 2)
        wanted = self.shot(self.state, values)
        for found in (self.shot(self.of_jax, values), jax.jit(self.shot)(self.state, values)):
            for one, other in zip(found, wanted):
                self.check(one, other)
        gradients(self.shot, self.of_jax, jnp.asarray(values))
        points = self.sound.points(SHAPE, self.CELLS)
        same(self.sound.iterate(self.of_jax, 3, dt=0.1, record={"p": points})[1]["p"],
             self.sound.iterate(self.state, 3, dt=0.1, record={"p": points})[1]["p"])

    def test_gradients(self):
        gradients(lambda state: self.sound(state, dt=0.1), self.of_jax)
        gradients(jax.jit(lambda state: self.sound.iterate(state, 5, dt=0.1)), self.of_jax)
        stack = jnp.stack([self.of_jax["p"], 2 * self.of_jax["p"]])

        def energy(p):
            return (self.sound.iterate({**self.of_jax, "p": p}, 3, dt=0.1)["p"] ** 2).sum()

        np.testing.assert_allclose(jax.vmap(jax.grad(energy))(stack), jnp.stack([jax.grad(energy)(p) for p in stack]), rtol=1e-12)
        self.refuse(TypeError, "sound_adjoint has no gradient of its own: .*'adjoint' has no adjoint here",
                    jax.grad(lambda p: jax.grad(energy)(p).sum()), stack[0])

    def test_batches(self):
        stack = jnp.stack([self.of_jax["p"], 2 * self.of_jax["p"]])
        found = jax.vmap(lambda p: self.sound({**self.of_jax, "p": p}, dt=0.1))(stack)
        for name in ("p", "v"):
            same(found[name], jnp.stack([self.sound({**self.of_jax, "p": p}, dt=0.1)[name] for p in stack]))

    def test_refused(self):
        step = jax.jit(lambda state, **words: self.sound(state, **{"dt": 0.1, **words}))
        self.refuse(TypeError, "fields p, v, k, d by name: d is missing", step, {name: self.state[name] for name in "pvk"})
        self.refuse(TypeError, "there is no other", step, self.state, other=1.0)
        self.refuse(ValueError, "v has 11 cells along x, and p 3", step,
                    {**self.state, "p": self.state["p"][:, :3]})
        self.refuse(TypeError, "sound is given reductions, which arrays that JAX traces do not take", jax.jit(
            lambda state: self.sound(state, dt=0.1, reductions=True)), self.state)
        self.refuse(TypeError, "k, a list, comes with arrays of JAX", self.sound, {**self.of_jax, "k": [1.0]}, dt=0.1)
        self.refuse(ValueError, r"the cell \(9, 0\) is not in p", self.sound.iterate, self.of_jax, 2, dt=0.1, record={"p": [(9, 0)]})
        self.refuse(ValueError, "values of p have the shape", self.sound.iterate, self.of_jax, 2, dt=0.1,
                    inject={"p": (self.CELLS, jnp.zeros((3, 2)))})


class Page(Test):
    def test_its_program(self):
        root = pathlib.Path(__file__).resolve().parents[2]
        page = (root / "runtime/python/jax.md").read_text(encoding="utf-8")
        program = re.search(r"<!-- block: python jax -->\n```python\n(.*?)```", page, re.DOTALL)[1]
        done = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=False)
        self.assertEqual(done.stdout.strip(), "True", "python jax" + done.stderr)


class WithoutWideNumbers(Test):
    def test_f64(self):
        jax.config.update("jax_enable_x64", False)
        try:
            one = host(HEAT)
            self.refuse(TypeError, "64 bits need jax.config.update", one, jnp.zeros(SHAPE))
            wave = host(WAVE, storage="f32")
            own = [draw(seed=seed, dtype=np.float32) for seed in range(3)]
            same(jax.jit(lambda u, old, c2: wave(u, u_old=old, c2=c2, a=0.3))(*own), wave(own[0], u_old=own[1], c2=own[2], a=0.3))
        finally:
            jax.config.update("jax_enable_x64", True)


if __name__ == "__main__":
    compile_fast()
    unittest.main()
