"""Systems of equations through the package, on the host: results, steps, sources and receivers, what is refused."""

import copy
import importlib.util
import json
import math
import pathlib
import pickle
import sys
import tempfile
import unittest
import unittest.mock

import numpy as np

import spider_gen
import spider_gen.__main__
from spider_gen import _arrays, _system

DIFFERENCES = {"dxp": {"shape": "derivative", "order": {"x": 1}, "at": {"x": "1/2"}},
               "dxm": {"shape": "derivative", "order": {"x": 1}, "at": {"x": "-1/2"}},
               "dyp": {"shape": "derivative", "order": {"y": 1}, "at": {"y": "1/2"}},
               "dym": {"shape": "derivative", "order": {"y": 1}, "at": {"y": "-1/2"}}}
WAVES = {"stencil": "waves", "dimensions": 2, "storage": "f32", "scalars": ["dt"], "fields": ["p", "u", "v", "k"],
         "operators": DIFFERENCES, "boundary": {"constant": 0},
         "stages": [{"u": "u - dt*dxp(p)", "v": "v - dt*dyp(p)"}, {"p": "p - dt*k*(dxm(u) + dym(v))"}]}
# Second buffers, storages, an array along an axis.
HEAT = {"stencil": "heat", "dimensions": 2, "storage": "f32", "boundary": "nearest",
        "fields": {"u": {}, "sum": {"storage": "f64"}, "c": {"storage": "f16"}, "hx": {"axes": ["x"]}},
        "operators": {"lap": {"shape": "laplacian"}}, "stages": [{"u": "u + c*hx*lap(u)", "sum": "sum + u"}]}
SHAPE = (23, 38)


def make(spec, **changes):
    return spider_gen.stencil({**spec, **changes}, backend="host")


def waves_state(seed=1, shape=SHAPE):
    rng = np.random.default_rng(seed)
    return {name: rng.uniform(0.5, 1, shape).astype(np.float32) for name in ("p", "u", "v", "k")}


def heat_state(seed=2, shape=SHAPE):
    rng = np.random.default_rng(seed)
    return {"u": rng.random(shape).astype(np.float32), "sum": np.zeros(shape), "c": rng.random(shape).astype(np.float16) / 8,
            "hx": rng.random(shape[1]).astype(np.float32)}


def waves_step(state, dt):
    p, u, v, k = (np.pad(state[name].astype(float), 1) for name in ("p", "u", "v", "k"))
    inner = np.s_[1:-1, 1:-1]
    new_u, new_v, new_p = u.copy(), v.copy(), p.copy()
    new_u[inner] -= dt * (p[1:-1, 2:] - p[inner])
    new_v[inner] -= dt * (p[2:, 1:-1] - p[inner])
    new_p[inner] -= dt * k[inner] * (new_u[inner] - new_u[1:-1, :-2] + new_v[inner] - new_v[:-2, 1:-1])
    return {**state, "p": new_p[inner], "u": new_u[inner], "v": new_v[inner]}


def heat_step(state):
    u = np.pad(state["u"].astype(float), 1, mode="edge")
    lap = u[1:-1, 2:] + u[1:-1, :-2] + u[2:, 1:-1] + u[:-2, 1:-1] - 4 * u[1:-1, 1:-1]
    return {**state, "u": state["u"] + state["c"].astype(float) * state["hx"] * lap, "sum": state["sum"] + state["u"]}


class Calls(unittest.TestCase):
    def test_a_sweep_is_that_of_numpy(self):
        waves, state = make(WAVES), waves_state()
        before = copy.deepcopy(state)
        got, wanted = waves(state, dt=0.2), waves_step(state, 0.2)
        self.assertEqual(list(got), ["p", "u", "v"])
        for name, array in got.items():
            np.testing.assert_allclose(array, wanted[name], atol=1e-6)
            self.assertEqual(array.dtype, np.float32)
        for name, array in state.items():
            np.testing.assert_array_equal(array, before[name])

    def test_a_remembered_sweep_has_the_bits_of_a_checked_one(self):
        for system, states, scalars in ((make(WAVES), (waves_state(1), waves_state(2)), {"dt": 0.2}),
                                        (make(HEAT), (heat_state(1), heat_state(2)), {}),
                                        (make(WAVES, boundary="nearest"), (waves_state(1), waves_state(2)), {"dt": 0.1})):
            checked = []
            for state in states:
                checked.append(system(state, **scalars))
                system._launches.clear()
            system(states[0], **scalars)
            self.assertEqual(len(system._launches), 1)
            for state, wanted in zip(states, checked):
                before = copy.deepcopy(state)
                with unittest.mock.patch.object(system, "_advance", side_effect=AssertionError("checked again")):
                    got = system(state, **scalars)
                self.assertEqual(list(got), list(wanted))
                for name, array in got.items():
                    np.testing.assert_array_equal(array, wanted[name])
                    self.assertFalse(any(np.shares_memory(array, one) for one in state.values()))
                for name, array in state.items():
                    np.testing.assert_array_equal(array, before[name])

    def test_what_is_remembered_is_checked_where_it_differs(self):
        waves, state = make(WAVES), waves_state()
        waves(state, dt=0.2)
        np.testing.assert_array_equal(waves(state, dt=0.4)["u"], make(WAVES)(state, dt=0.4)["u"])  # another scalar
        with self.assertRaisesRegex(TypeError, "dt is missing"):
            waves(state)
        with self.assertRaisesRegex(TypeError, "there is no q"):
            waves({**state, "q": state["p"]}, dt=0.2)
        with self.assertRaisesRegex(TypeError, "dt"):
            waves(state, dt="0.2")
        with self.assertRaisesRegex(ValueError, "cells along x"):
            waves({**state, "p": state["p"][:, 1:]}, dt=0.2)
        wide = np.zeros((SHAPE[0], 2 * SHAPE[1]), np.float32)  # of other strides
        wide[:, ::2] = state["p"]
        np.testing.assert_array_equal(waves({**state, "p": wide[:, ::2]}, dt=0.2)["p"], waves(state, dt=0.2)["p"])

    def test_steps_of_odd_rows_are_those_of_aligned_copies(self):
        def aligned(array):
            shape = array.shape
            whole = np.full((*shape[:-1], -(-shape[-1] // 64) * 64), np.nan, array.view.dtype)
            return _arrays.Array(*2 * (whole[..., :shape[-1]],))

        odd = (SHAPE[0], 37)
        for system, state, scalars in ((make(WAVES), waves_state(shape=odd), {"dt": 0.2}), (make(HEAT), heat_state(shape=odd), {})):
            wanted = system.iterate(state, 5, **scalars)
            before = copy.deepcopy(state)
            with unittest.mock.patch.object(_arrays.Array, "can_align_rows", True), \
                    unittest.mock.patch.object(_arrays.Array, "with_aligned_rows", aligned):
                got = system.iterate(state, 5, **scalars)
                for name, array in state.items():
                    np.testing.assert_array_equal(array, before[name])
                system.iterate(state, 5, in_place=True, **scalars)
            for name, array in wanted.items():
                np.testing.assert_array_equal(got[name], array)
                self.assertTrue(got[name].flags.c_contiguous)
                np.testing.assert_array_equal(state[name], array)

    def test_a_sweep_that_reads_a_halo_is_not_remembered(self):
        system, whole = make(WAVES, boundary="halo"), waves_state(shape=(SHAPE[0] + 2, SHAPE[1] + 2))
        system({name: array[1:-1, 1:-1] for name, array in whole.items()}, dt=0.2)
        self.assertEqual(len(system._launches), 0)

    def test_second_buffers_storages_and_arrays_along_an_axis(self):
        heat, state = make(HEAT), heat_state()
        got, wanted = heat(state), heat_step(state)
        self.assertEqual(got["sum"].dtype, np.float64)
        np.testing.assert_allclose(got["u"], wanted["u"], atol=1e-6)
        np.testing.assert_array_equal(got["sum"], wanted["sum"])

    def test_steps_are_sweeps_one_after_the_other(self):
        for spec, state, scalars in ((WAVES, waves_state(), {"dt": 0.3}), (HEAT, heat_state(), {})):
            system = make(spec)
            for steps in (0, 1, 2, 5):
                wanted = dict(state)
                for _ in range(steps):
                    wanted |= system(wanted, **scalars)
                before = copy.deepcopy(state)
                got = system.iterate(state, steps, **scalars)
                for name, array in got.items():
                    np.testing.assert_array_equal(array, wanted[name], f"{name} after {steps}")
                for name, array in state.items():
                    np.testing.assert_array_equal(array, before[name])
                mine = copy.deepcopy(state)
                again = system.iterate(mine, steps, in_place=True, **scalars)
                for name, array in again.items():
                    self.assertIs(array, mine[name])
                    np.testing.assert_array_equal(array, wanted[name], f"{name} after {steps} in place")

    def test_one_sweep_has_the_bits_of_its_stages(self):
        # The first stage is a product, which the second adds; weights of the second stand beside those of the first.
        spec = {"stencil": "fused", "dimensions": 2, "storage": "f32", "fields": ["a", "b", "c", "k"],
                "boundary": {"constant": 0}, "stages": [{"a": "0.3*k"}, {"b": "b + 0.7*k + a + k*a[0, 1]"},
                                                        {"c": "c - 1.7*(k*b[1, 0] + 0.3*a) + k*(0.7*k + 0.3*b)"}]}
        whole = make(spec)
        self.assertEqual(whole.source.count("spider::system_sweep<"), 1)
        rng = np.random.default_rng(5)
        state = {name: rng.uniform(-1, 1, SHAPE).astype(np.float32) for name in spec["fields"]}
        apart = dict(state)
        for number, stage in enumerate(spec["stages"]):
            used = [name for name in "abck" if name in str(stage)]
            one = make({**spec, "stencil": f"stage_{number}", "fields": used, "stages": [stage]})
            apart |= one({name: apart[name] for name in used})
        for name, values in whole(state).items():
            self.assertEqual(values.tobytes(), apart[name].tobytes(), name)

    def test_in_place(self):
        for spec, state, scalars in ((WAVES, waves_state(), {"dt": 0.3}), (HEAT, heat_state(), {})):
            system = make(spec)
            wanted = system(state, **scalars)
            got = system(state, in_place=True, **scalars)
            for name, array in got.items():
                self.assertIs(array, state[name])
                np.testing.assert_array_equal(array, wanted[name])

    def test_progress(self):
        said = []
        make(HEAT).iterate(heat_state(), 7, progress=lambda done, steps: said.append((done, steps)))
        self.assertEqual((said[0], said[-1]), ((0, 7), (7, 7)))

    def test_strides(self):
        heat, state = make(HEAT), heat_state()
        wanted = heat(state)
        odd = {"u": np.asfortranarray(state["u"]), "sum": np.pad(state["sum"], 2)[2:-2, 2:-2],
               "c": np.repeat(state["c"], 2, axis=1)[:, ::2], "hx": state["hx"][::-1].copy()[::-1]}
        for name, array in heat(odd).items():
            np.testing.assert_array_equal(array, wanted[name])
        broadcast = {**state, "c": np.broadcast_to(np.float16(0.125), SHAPE)}
        np.testing.assert_array_equal(heat(broadcast)["u"], heat({**state, "c": np.full(SHAPE, 0.125, np.float16)})["u"])
        padded = np.pad(state["u"], 3)
        mine = {**state, "u": padded[3:-3, 3:-3]}
        heat.iterate(mine, 3, in_place=True)
        np.testing.assert_array_equal(padded[3:-3, 3:-3], heat.iterate(state, 3)["u"])
        self.assertEqual(abs(padded[:3]).max(), 0)

    def test_the_same_array_twice(self):
        system = make({"stencil": "twice", "dimensions": 1, "storage": "f32", "fields": ["u", "v", "w"], "boundary": "periodic",
                       "stages": [{"u": "v[1] + w"}]})
        one = np.arange(5, dtype=np.float32)
        np.testing.assert_array_equal(system({"u": one, "v": one, "w": one})["u"], np.roll(one, -1) + one)
        with self.assertRaisesRegex(ValueError, "u, which in_place writes, and v share cells"):
            system({"u": one, "v": one, "w": one}, in_place=True)

    def test_halo_faces_take_views(self):
        waves = make(WAVES, boundary={"y": "halo", "x": {"constant": 0}})
        self.assertEqual(waves.halo(*SHAPE), {"p": ((0, 1), (0, 0)), "u": ((0, 0), (0, 0)), "v": ((1, 0), (0, 0)),
                                              "k": ((0, 0), (0, 0))})
        padded = waves_state(shape=(SHAPE[0] + 2, SHAPE[1]))
        state = {name: array[1:-1] for name, array in padded.items()}
        got = waves(state, dt=0.25)
        for row in (0, 5, SHAPE[0] - 1):
            below = padded["p"][row + 2] if row == SHAPE[0] - 1 else state["p"][row + 1]
            np.testing.assert_allclose(got["v"][row], state["v"][row] - 0.25 * (below - state["p"][row]), atol=1e-6)
            above = padded["v"][row] if row == 0 else got["v"][row - 1]
            left = np.concatenate(([0], got["u"][row][:-1]))
            wanted = state["p"][row] - 0.25 * state["k"][row] * (got["u"][row] - left + got["v"][row] - above)
            np.testing.assert_allclose(got["p"][row], wanted, atol=1e-6)
        step = {name: array.copy() for name, array in padded.items()}
        for _ in range(3):
            for name, array in waves({name: array[1:-1] for name, array in step.items()}, dt=0.25).items():
                step[name][1:-1] = array
        for name, array in waves.iterate(state, 3, dt=0.25).items():
            np.testing.assert_array_equal(array, step[name][1:-1])
        waves.iterate(state, 3, dt=0.25, in_place=True)
        for name, array in padded.items():
            np.testing.assert_array_equal(array, step[name])
        with self.assertRaisesRegex(ValueError, "waves reads cells beyond the array.* pass a view into a padded array"):
            waves({**state, "p": state["p"].copy()}, dt=0.25)

    def test_bf16_by_its_bits(self):
        system = make({"stencil": "halves", "dimensions": 1, "storage": "bf16", "fields": ["u", "v"], "stages": [{"u": "v/2"}]})
        v = np.array([1.0, 3.0], np.float32)
        bits = (v.view(np.uint32) >> 16).astype(np.uint16)
        got = system({"u": bits, "v": bits})["u"]
        np.testing.assert_array_equal((got.astype(np.uint32) << 16).view(np.float32), v / 2)

    def test_empty_arrays(self):
        waves = make(WAVES)
        state = waves_state(shape=(0, 5))
        self.assertEqual({name: array.shape for name, array in waves(state, dt=1).items()}, dict.fromkeys("puv", (0, 5)))
        got, records = waves.iterate(state, 3, dt=1, record={"p": []})
        self.assertEqual((got["p"].shape, records["p"].shape), ((0, 5), (3, 0)))

    def test_what_it_tells(self):
        heat = make(HEAT)
        self.assertIsInstance(heat, spider_gen.System)
        self.assertEqual((repr(heat), heat.name), ("<spider_gen system heat>", "heat"))
        self.assertIn("heat_kernel", heat.source)
        self.assertIn("hx", heat.explain())
        self.assertEqual(dict(heat.info.fields), {"u": "f32", "sum": "f64", "c": "f16", "hx": "f32"})
        self.assertIs(heat.compile(), heat)
        self.assertEqual(heat.halo(*SHAPE)["hx"], ((0, 0),))

    def test_pickles_and_copies(self):
        heat, state = make(HEAT), heat_state()
        again = pickle.loads(pickle.dumps(heat))
        np.testing.assert_array_equal(again(state)["u"], heat(state)["u"])
        self.assertIs(copy.copy(heat), heat)
        self.assertIs(copy.deepcopy(heat), heat)

    def test_parameters(self):
        spec = {**WAVES, "parameters": {"c": 1}, "scalars": [], "stages": [
            {"u": "u - c*dxp(p)", "v": "v - c*dyp(p)"}, {"p": "p - c*k*(dxm(u) + dym(v))"}]}
        spec.pop("scalars")
        state = waves_state()
        got = spider_gen.stencil(spec, backend="host", c=0.25)(state)
        np.testing.assert_array_equal(got["p"], make(WAVES)(state, dt=0.25)["p"])


class Cells(unittest.TestCase):
    """Sources and receivers."""

    def test_steps_with_sources_and_receivers(self):
        waves, state = make(WAVES), waves_state()
        source, line = waves.points(SHAPE, [(11, 20), (11, 20), (3, 4)]), waves.points(SHAPE, [(5, x) for x in range(38)])
        values = np.random.default_rng(4).random((6, 3)).astype(np.float32)
        got, records = waves.iterate(state, 6, dt=0.3, inject={"p": (source, values)}, record={"p": line, "v": [(0, 0)]})
        wanted, trace = dict(state), []
        for step in range(6):
            wanted |= waves(wanted, dt=0.3)
            source.add(wanted["p"], values[step])
            trace.append(line.read(wanted["p"]))
        for name, array in got.items():
            np.testing.assert_array_equal(array, wanted[name])
        np.testing.assert_array_equal(records["p"], trace)
        self.assertEqual((records["v"].shape, records["v"].dtype), ((6, 1), np.float32))
        self.assertEqual(records["v"][-1, 0], got["v"][0, 0])
        mine = copy.deepcopy(state)
        waves.iterate(mine, 6, dt=0.3, inject={"p": ([(11, 20), (11, 20), (3, 4)], values)}, in_place=True)
        np.testing.assert_array_equal(mine["p"], wanted["p"])

    def test_fields_with_second_buffers_and_doubles(self):
        heat, state = make(HEAT), heat_state()
        signal = [1.0, -0.5, 1 / 3]
        got, records = heat.iterate(state, 3, inject={"u": ([(2, 3)], signal), "sum": ([(1, 1)], np.array(signal)[:, None])},
                                    record={"u": [(2, 3)], "sum": [(1, 1), (0, 0)], "c": [(4, 5)], "hx": [(7,)]})
        wanted = dict(state)
        for step in range(3):
            wanted |= heat(wanted)
            wanted["u"][2, 3] += np.float32(signal[step])
            wanted["sum"][1, 1] += signal[step]
            self.assertEqual(records["u"][step, 0], wanted["u"][2, 3])
            self.assertEqual(list(records["sum"][step]), [wanted["sum"][1, 1], wanted["sum"][0, 0]])
        self.assertEqual((records["sum"].dtype, records["c"][0, 0]), (np.float64, state["c"][4, 5]))
        self.assertEqual(records["hx"][2, 0], state["hx"][7])
        np.testing.assert_array_equal(got["u"], wanted["u"])

    def test_no_steps_and_no_points(self):
        heat, state = make(HEAT), heat_state()
        _, records = heat.iterate(state, 0, inject={"u": ([(0, 0)], [])}, record={"u": [(0, 0), (1, 1)], "c": []})
        self.assertEqual((records["u"].shape, records["c"].shape), ((0, 2), (0, 0)))
        self.assertEqual(heat.iterate(state, 2, record={})[1], {})

    def test_points_by_themselves(self):
        heat, state = make(HEAT), heat_state()
        points = heat.points(SHAPE, [(1, 2), (3, 4)])
        np.testing.assert_array_equal(points.read(state["c"]), state["c"][[1, 3], [2, 4]].astype(np.float32))
        points.add(state["sum"], [0.1, 0.2])
        self.assertEqual(state["sum"][1, 2], 0.1)
        with self.assertRaisesRegex(TypeError, "heat takes f32 or f64 or f16 in 2 dimensions, and u is int32 in 2"):
            points.read(np.zeros(SHAPE, np.int32))

    def test_refusals(self):
        waves, state = make(WAVES), waves_state()
        cell = [(1, 1)]
        for keywords, kind, words in (
                ({"inject": {"q": (cell, [1, 2])}}, TypeError, "inject names q, and the fields are p, u, v, k"),
                ({"record": {"q": cell}}, TypeError, "record names q, and the fields are p, u, v, k"),
                ({"inject": {"k": (cell, [1, 2])}}, ValueError, "inject names k, which no stage writes"),
                ({"inject": {"p": cell}}, TypeError, "inject takes a pair for p: the points, and values"),
                ({"inject": {"p": ((2, 3), [1, 2])}}, TypeError, r"points are a list of cells, such as \[\(3, 4\)\], and 2 is no"),
                ({"record": {"p": (2, 3)}}, TypeError, "and 2 is no cell"),
                ({"record": {"p": [(2, 3.5)]}}, TypeError, r"and \(2, 3.5\) is no cell"),
                ({"record": ["p"]}, TypeError, r"record is a dict by the names of fields, \{NAME: points\}, not a list"),
                ({"inject": (cell, [1, 2])}, TypeError, r"inject is a dict .*\{NAME: \(points, values\)\}, not a tuple"),
                ({"inject": {"p": (cell, [1, 2, 3])}}, ValueError,
                 r"the values of p have the shape \(3,\): there are 2 steps and 1 points, so pass \(2, 1\)"),
                ({"inject": {"p": (cell, np.zeros((1, 2)))}}, ValueError, r"so pass \(2, 1\)"),
                ({"inject": {"p": (cell, ["a", "b"])}}, TypeError, "the values of p takes? real numbers"),
                ({"inject": {"p": (cell, [1, 1e300])}}, ValueError, "out of the range of f32"),
                ({"record": {"p": [(23, 0)]}}, ValueError, "point 0 has index 23 on axis y; it must be 0 to 22"),
                ({"record": {"p": [(1, 1, 1)]}}, ValueError, "p has 2 axes, not 3"),
                ({"record": {"p": waves.points((5, 5), cell)}}, ValueError,
                 r"the points are of arrays of shape \(5, 5\), and p has the shape \(23, 38\)")):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                waves.iterate(state, 2, dt=0.1, **keywords)


class Reductions(unittest.TestCase):
    """Numbers of all points, and steps until one of them is small."""

    SPEC = {**HEAT, "stencil": "cooling", "reduce": {"change": {"max": "abs(new(u) - u)"}, "mass": {"sum": "u"},
                                                     "least": {"min": "new(u)"}, "summed": {"sum": "new(sum)"}}}

    def test_a_sweep_and_its_numbers(self):
        system, state = make(self.SPEC), heat_state()
        got, numbers = system(state, reductions=True)
        for name, array in make(HEAT)(state).items():
            np.testing.assert_array_equal(got[name], array)
        self.assertEqual((list(numbers), numbers.steps), (["change", "mass", "least", "summed"], 1))
        self.assertEqual(numbers["mass"], math.fsum(state["u"].ravel()))
        self.assertEqual(numbers["summed"], math.fsum(got["sum"].ravel()))
        self.assertEqual(numbers["least"], got["u"].min())
        self.assertAlmostEqual(numbers["change"], abs(got["u"] - state["u"].astype(float)).max(), delta=1e-7)
        self.assertEqual(list(system(state)), ["u", "sum"])

    def test_steps_give_the_numbers_of_the_last_one(self):
        system, state = make(self.SPEC), heat_state()
        before = state | system.iterate(state, 4)
        got, numbers = system.iterate(state, 5, reductions=True)
        self.assertEqual(numbers, system(before, reductions=True)[1])
        self.assertEqual(numbers.steps, 5)
        np.testing.assert_array_equal(got["u"], system.iterate(state, 5)["u"])

    def test_steps_until_a_bound(self):
        system, state = make(self.SPEC), heat_state()
        changes = []
        now = dict(state)
        for _ in range(12):
            new, numbers = system(now, reductions=True)
            changes.append(numbers["change"])
            now |= new
        for every, bound in ((1, changes[6]), (4, changes[6]), (5, changes[11]), (7, 0), (100, 0), (1, math.inf)):
            steps = next((n for n in range(1, 13) if (n % every == 0 or n == 12) and changes[n - 1] <= bound), 12)
            got, numbers = system.iterate(state, 12, reductions=True, until=("change", bound), check_every=every)
            self.assertEqual((numbers.steps, numbers["change"]), (steps, changes[steps - 1]))
            for name, array in system.iterate(state, steps).items():
                np.testing.assert_array_equal(got[name], array, f"{name} after {steps}")
        alone = system.iterate(state, 12, until=("change", changes[6]), check_every=1)
        np.testing.assert_array_equal(alone["u"], system.iterate(state, 7)["u"])
        np.testing.assert_array_equal(system.iterate(state, 0, until=("change", 1))["u"], state["u"])

    def test_nan_stops_nothing(self):
        system, state = make(self.SPEC), heat_state()
        state["u"][3, 4] = np.nan
        numbers = system.iterate(state, 4, reductions=True, until=("change", math.inf), check_every=1)[1]
        self.assertEqual(numbers.steps, 4)
        self.assertTrue(all(math.isnan(number) for number in numbers.values()))

    def test_sources_and_records_until_a_bound(self):
        system, state = make(self.SPEC), heat_state()
        signal = np.linspace(-1, 1, 9, dtype=np.float32)
        asked = {"inject": {"u": ([(2, 3)], signal)}, "record": {"u": [(2, 3), (5, 6)]}}
        got, records, numbers = system.iterate(state, 9, reductions=True, until=("mass", math.inf), check_every=4, **asked)
        self.assertEqual((numbers.steps, records["u"].shape), (4, (4, 2)))
        asked["inject"] = {"u": ([(2, 3)], signal[:4])}
        wanted, shorter = system.iterate(state, 4, **asked)
        np.testing.assert_array_equal(got["u"], wanted["u"])
        np.testing.assert_array_equal(records["u"], shorter["u"])
        self.assertEqual(records["u"][-1, 0], got["u"][2, 3])
        self.assertEqual(numbers["mass"], math.fsum(system.iterate(state, 3, inject={"u": ([(2, 3)], signal[:3])})["u"].ravel()))

    def test_progress(self):
        system, said = make(self.SPEC), []

        def report(done, steps):
            said.append((done, steps))

        system.iterate(heat_state(), 12, progress=report, until=("mass", math.inf), check_every=5)
        self.assertEqual(said, [(5, 5)])
        said.clear()
        system.iterate(heat_state(), 12, progress=report, until=("mass", 0), check_every=5)
        self.assertEqual(said, [(5, 12), (10, 12), (12, 12)])

    def test_in_place(self):
        system, state = make(self.SPEC), heat_state()
        for steps in (4, 5):
            mine = copy.deepcopy(state)
            got, numbers = system.iterate(mine, 20, in_place=True, reductions=True, until=("mass", math.inf), check_every=steps)
            self.assertEqual(numbers.steps, steps)
            self.assertIs(got["u"], mine["u"])
            np.testing.assert_array_equal(mine["u"], system.iterate(state, steps)["u"])

    def test_sums_are_exact_and_rounded_once(self):
        for storage, lowest, highest in (("f32", -148, 127), ("f64", -1073, 1000)):
            system = make({"stencil": "totals", "dimensions": 1, "storage": storage, "fields": ["u"], "stages": [{"u": "2*u"}],
                           "reduce": {"total": {"sum": "u"}}})
            rng = np.random.default_rng(5)
            for n in (1, 2, 7, 100, 3000, 50000):
                values = np.ldexp(rng.uniform(-2, 2, n), rng.integers(lowest, highest, n)).astype(f"f{int(storage[1:]) // 8}")
                values[n // 2:] = -values[:n - n // 2]
                values[rng.integers(n)] = rng.uniform(-1, 1)
                with np.errstate(over="ignore"):
                    total = system({"u": values}, reductions=True)[1]["total"]
                self.assertEqual(total, math.fsum(values.tolist()), f"{storage}, {n}")

    def test_halo_faces(self):
        state = heat_state()
        padded = np.pad(state["u"], 1, mode="edge")
        system = make(self.SPEC, fields={**HEAT["fields"], "u": {"boundary": "halo"}})
        numbers = system({**state, "u": padded[1:-1, 1:-1]}, reductions=True)[1]
        self.assertEqual(numbers, make(self.SPEC)(state, reductions=True)[1])

    def test_pickles(self):
        system, state = make(self.SPEC), heat_state()
        got, numbers = system(state, reductions=True)
        self.assertEqual(pickle.loads(pickle.dumps(system))(state, reductions=True)[1], numbers)
        again = pickle.loads(pickle.dumps(numbers))
        self.assertEqual((again, again.steps), (numbers, 1))

    def test_memory_of_the_runtime_is_no_value(self):
        kernel = make(self.SPEC)._kernel(spider_gen._compilers.choose("host"))[1]
        numbers = spider_gen.spider.Reductions(kernel)
        self.assertEqual(numbers.read(), {"change": -math.inf, "mass": 0, "least": math.inf, "summed": 0})
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with self.assertRaisesRegex(TypeError, "Reductions own memory and can be neither copied nor pickled"):
                use(numbers)

    def test_uploads(self):
        system, state = make(self.SPEC), heat_state()
        wanted = system.iterate(state, 9, reductions=True, until=("mass", math.inf), check_every=5)
        with unittest.mock.patch.object(_system, "_WhereTheyAre", _system._OnDeviceOfRuntime):
            got = system.iterate(state, 9, reductions=True, until=("mass", math.inf), check_every=5)
        self.assertEqual((got[1], got[1].steps), (wanted[1], 5))
        np.testing.assert_array_equal(got[0]["u"], wanted[0]["u"])

    def test_refusals(self):
        system, state = make(self.SPEC), heat_state()
        for keywords, kind, words in (
                ({"until": "change"}, TypeError, 'until is a pair, the name of a reduction and its bound, such as'),
                ({"until": ("change", 1, 2)}, TypeError, "until is a pair"),
                ({"until": (1, "change")}, TypeError, "until is a pair"),
                ({"until": ("change", "small")}, TypeError, "the bound of until is a number, not a str"),
                ({"until": ("u", 1)}, ValueError,
                 "until names u, and the reductions of cooling are change, mass, least, summed"),
                ({"until": ("mass", 1), "check_every": 0}, ValueError, "check_every is 0; it must be 1 or more"),
                ({"until": ("mass", 1), "check_every": -3}, ValueError, "check_every is -3; it must be 1 or more"),
                ({"until": ("mass", 1), "check_every": 2.5}, TypeError, "integer"),
                ({"until": ("mass", 1), "steps": -1}, ValueError, "-1 steps; there must be 0 or more"),
                ({"reductions": True, "steps": 0}, ValueError, "0 steps make no reductions")):
            with self.subTest(words), self.assertRaisesRegex(kind, words):
                system.iterate(state, **{"steps": 2, **keywords})
        for keywords in ({"reductions": True}, {"until": ("change", 1)}):
            with self.assertRaisesRegex(ValueError, "heat has no reductions: its spec has no `reduce`"):
                make(HEAT).iterate(state, 2, **keywords)
        with self.assertRaisesRegex(ValueError, "heat has no reductions"):
            make(HEAT)(state, reductions=True)
        empty = heat_state(shape=(0, 5))
        with self.assertRaisesRegex(ValueError, "cooling has no points to reduce: an axis has no cells"):
            system(empty, reductions=True)
        with self.assertRaisesRegex(ValueError, "no points to reduce"):
            system.iterate(empty, 3, until=("mass", 1))
        self.assertEqual(system.iterate(empty, 3)["u"].shape, (0, 5))

    def test_scalars_with_names_of_arguments(self):
        for name in ("until", "check_every", "reductions"):
            system = make({"stencil": "named", "dimensions": 1, "storage": "f32", "fields": ["u"], "scalars": [name],
                           "stages": [{"u": f"u*{name}"}]})
            with self.assertRaisesRegex(TypeError, f"named takes a scalar {name}, which calls have a meaning of their own for"):
                system({"u": np.ones(3, np.float32)}, **({} if name == "reductions" else {name: 2}))


class Refusals(unittest.TestCase):
    def check(self, kind, words, state, system=None, **keywords):
        with self.assertRaisesRegex(kind, words):
            (system or make(HEAT))(state, **keywords)

    def test_names(self):
        heat, state = make(HEAT), heat_state()
        self.check(TypeError, "heat takes its fields by name, as a dict of arrays, not a ndarray", state["u"])
        self.check(TypeError, "not an empty one", {})
        self.check(TypeError, "heat takes the fields u, sum, c, hx by name: u is missing; there is no v",
                   {"v" if name == "u" else name: array for name, array in state.items()})
        self.check(TypeError, "the fields u, sum, c, hx by name: there is no w", {**state, "w": state["u"]})
        self.check(TypeError, r"heat takes the scalars \(none\) by name: there is no dt", state, dt=1)
        waves = make(WAVES)
        self.check(TypeError, "waves takes the scalars dt by name: dt is missing", waves_state(), waves)
        self.check(TypeError, "dt is a number, not a str", waves_state(), waves, dt="1")
        with self.assertRaisesRegex(ValueError, "-1 steps; there must be 0 or more"):
            heat.iterate(state, -1)
        named = make(WAVES, scalars=["steps"], stages=[{"u": "u - steps*dxp(p)", "v": "v - dyp(p)"},
                                                       {"p": "p - k*(dxm(u) + dym(v))"}])
        self.check(TypeError, "takes a scalar steps, which calls have a meaning of their own for", waves_state(), named)

    def test_types(self):
        state = heat_state()
        self.check(TypeError, "heat takes f16, and c is float32: pass c.astype.numpy.float16", {**state, "c": state["u"]})
        self.check(TypeError, "sum, a list, is no array", {**state, "sum": [1.0]})
        self.check(TypeError, "masked arrays", {**state, "u": np.ma.masked_array(state["u"])})

    def test_shapes(self):
        state = heat_state()
        self.check(ValueError, "c has 5 cells along x, and u 38", {**state, "c": state["c"][:, :5]})
        self.check(ValueError, "hx has 5 cells along x, and u 38", {**state, "hx": state["hx"][:5]})
        self.check(ValueError, r"hx has the axes x in heat, and the array has the shape \(23, 38\)", {**state, "hx": state["u"]})
        self.check(ValueError, r"u has the axes y, x in heat, and the array has the shape \(38,\)", {**state, "u": state["hx"]})
        make(HEAT)({**state, "hx": state["hx"][None]})

    def test_arrays_that_in_place_cannot_write(self):
        state = heat_state()
        frozen = state["u"].copy()
        frozen.flags.writeable = False
        make(HEAT)({**state, "u": frozen})
        self.check(ValueError, "u is read-only", {**state, "u": frozen}, in_place=True)
        self.check(ValueError, "sum has strides", {**state, "sum": np.asfortranarray(state["sum"])}, in_place=True)

    def test_other_places_and_gradients(self):
        state = heat_state()

        class OnDevice:
            shape, dtype = SHAPE, np.dtype(np.float32)
            __cuda_array_interface__ = {"shape": SHAPE, "typestr": "<f4", "data": (4096, False), "version": 3}

        self.check(TypeError, "all fields must be in one place|cannot be read on its device", {**state, "c": OnDevice()})

        class Recorded:
            requires_grad = True
            __array_interface__ = state["u"].__array_interface__

        self.check(TypeError, "u requires a gradient, and a kernel gives none", {**state, "u": Recorded()})
        heat = make(HEAT)
        with self.assertRaisesRegex(TypeError, "the values of u requires a gradient"):
            heat.iterate(state, 1, inject={"u": ([(0, 0)], Recorded())})

    def test_the_command_takes_no_system(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "heat.yaml"
            path.write_text("\n".join(f"{key}: {json.dumps(value)}" for key, value in HEAT.items()), encoding="utf-8")
            words = "heat is a system of equations, and the command takes one field: write a program"
            with self.assertRaisesRegex(SystemExit, words):
                spider_gen.__main__.main(["run", str(path), str(path.with_suffix(".npy")), "-o", str(path.with_suffix(".out"))])


class Uploads(unittest.TestCase):
    """What arrays of the host go through for a device: memory of the runtime, here the host's."""

    def check(self, system, state, **keywords):
        wanted = system.iterate(copy.deepcopy(state) if "in_place" in keywords else state, 3, **keywords)
        with unittest.mock.patch.object(_system, "_WhereTheyAre", _system._OnDeviceOfRuntime):
            got = system.iterate(state, 3, **keywords)
        for mine, other in zip(got, wanted) if isinstance(got, tuple) else [(got, wanted)]:
            self.assertEqual(list(mine), list(other))
            for name, array in mine.items():
                np.testing.assert_array_equal(array, other[name])
        return got

    def test_steps(self):
        state = heat_state()
        state["hx"] = state["hx"][::-1]
        cells = {"inject": {"u": ([(2, 3), (4, 4)], np.ones((3, 2))), "sum": ([(0, 0)], [0.1, 0.2, 0.3])},
                 "record": {"u": [(2, 3)], "sum": [(0, 0), (1, 1)], "hx": [(5,)], "c": []}}
        self.check(make(HEAT), state, **cells)
        mine = copy.deepcopy(state)
        self.assertIs(self.check(make(HEAT), mine, in_place=True)["u"], mine["u"])

    def test_one_sweep(self):
        heat, state = make(HEAT), heat_state()
        wanted = heat(state)
        with unittest.mock.patch.object(_system, "_WhereTheyAre", _system._OnDeviceOfRuntime):
            np.testing.assert_array_equal(heat(state)["u"], wanted["u"])

    def test_halos(self):
        waves = make(WAVES, boundary={"y": "halo", "x": {"constant": 0}})
        padded = waves_state(shape=(SHAPE[0] + 2, SHAPE[1]))
        self.check(waves, {name: array[1:-1] for name, array in padded.items()}, dt=0.25)


@unittest.skipUnless(importlib.util.find_spec("torch"), "there is no PyTorch")
class Torch(unittest.TestCase):
    def test_tensors(self):
        import torch

        heat, state = make(HEAT), heat_state()
        tensors = {name: torch.from_numpy(array.copy()) for name, array in state.items()}
        wanted, records = heat.iterate(state, 3, record={"u": [(1, 1)]})
        got, own_records = heat.iterate(tensors, 3, record={"u": [(1, 1)]})
        self.assertIsInstance(got["u"], torch.Tensor)
        self.assertIsInstance(own_records["u"], torch.Tensor)
        np.testing.assert_array_equal(got["u"].numpy(), wanted["u"])
        np.testing.assert_array_equal(own_records["u"].numpy(), records["u"])
        traced = heat({**tensors, "u": tensors["u"].requires_grad_()})["u"]
        self.assertTrue(traced.requires_grad)
        with self.assertRaisesRegex(TypeError, "u requires a gradient"):
            heat(tensors, in_place=True)


class Choices(unittest.TestCase):
    def test_a_stencil_is_no_system(self):
        one = spider_gen.stencil({"stencil": "stages", "dimensions": 1, "storage": "f32", "shape": "star",
                                  "coefficients": {"center": 1, "x": []}}, backend="host")
        self.assertIsInstance(one, spider_gen.Stencil)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
