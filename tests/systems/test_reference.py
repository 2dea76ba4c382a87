"""The reference of systems against SciPy, plain loops and known numbers."""

import math
import sys
import unittest
from fractions import Fraction

import numpy
import scipy.ndimage

import expressions
import reference

MODES = {"{constant: 0.5}": ("constant", 0.5), "nearest": ("nearest", 0), "periodic": ("wrap", 0),
         "reflect": ("reflect", 0), "mirror": ("mirror", 0)}


def system_of(stages, fields="[u]", operators="{}", dimensions=2, storage="f64", more=""):
    return reference.read(f"stencil: s\ndimensions: {dimensions}\nstorage: {storage}\nfields: {fields}\noperators: {operators}\n"
                          f"stages:\n{stages}\n{more}\n")


def cells(array, halo=None):
    return reference.Cells.of(array, halo or [(0, 0)] * array.ndim)


class Expressions(unittest.TestCase):
    def value(self, text, **names):
        return expressions.constant(expressions.parse(text), names)

    def test_precedence(self):
        self.assertEqual(self.value("-2^2"), -4)
        self.assertEqual(self.value("2^3^2"), 512)
        self.assertEqual(self.value("2^-1 + 8/4/2"), 1.5)
        self.assertEqual(self.value("1 - 2 - 3*-a", a=2.0), 5)
        self.assertEqual(self.value("max(1, 3, 2) + round(-2.5)"), 0)

    def test_what_is_no_expression(self):
        for text in ("1 +", "a b", "(1", "1 < 2", "f(,)", "$"):
            with self.assertRaises(ValueError):
                expressions.parse(text)

    def test_the_bound_of_a_sum(self):
        rng = numpy.random.default_rng(1)
        terms = [rng.standard_normal(1000).astype(numpy.float32) for _ in range(5)]
        exact = [expressions.Bounded.exact(term, 2.0**-24) for term in terms]
        found, bound = terms[0] * terms[1], exact[0] * exact[1]
        for term, one in zip(terms[2:], exact[2:]):
            found, bound = found + term * terms[0], bound + one * exact[0]
        self.assertTrue((numpy.abs(found.astype(float) - bound.value) <= bound.error).all())
        self.assertLess((bound.error / bound.magnitude).max(), 8 * 2.0**-24)


class Weights(unittest.TestCase):
    def test_differences(self):
        half = Fraction(1, 2)
        fourth = {-1: Fraction(1, 24), 0: Fraction(-9, 8), 1: Fraction(9, 8), 2: Fraction(-1, 24)}
        self.assertEqual(reference.derivative_weights(1, 4, half), fourth)
        self.assertEqual(reference.derivative_weights(1, 4, -half), {o - 1: w for o, w in fourth.items()})
        self.assertEqual(reference.derivative_weights(1, 2, half), {0: -1, 1: 1})
        self.assertEqual(reference.derivative_weights(1, 2, 0), {-1: -half, 1: half})
        self.assertEqual(reference.derivative_weights(2, 2, 0), {-1: 1, 0: -2, 1: 1})
        self.assertEqual(reference.derivative_weights(2, 2, half), {-1: half, 0: -half, 1: -half, 2: half})

    def test_accuracy(self):
        """Of powers up to order + accuracy - 1 the differences are exact, of the next not."""
        for order in range(1, 5):
            for accuracy in (2, 4, 6):
                for at in (0, Fraction(1, 2), Fraction(-1, 2)):
                    weights = reference.derivative_weights(order, accuracy, at)
                    for power in range(order + accuracy + 1):
                        found = sum(weight * (offset - at) ** power for offset, weight in weights.items())
                        exact = math.factorial(order) if power == order else 0
                        self.assertEqual(found == exact, power < order + accuracy, (order, accuracy, at, power))

    def test_shapes(self):
        operators = reference.Operators(2, {"h": 0.5})
        laplacian = operators.read({"shape": "laplacian", "spacing": "h"})
        star = {"shape": "star", "scale": "1/h^2", "coefficients": {"y": ["1", "-2", "1"], "x": ["1", "-2", "1"]}}
        self.assertEqual(laplacian, operators.read(star))
        self.assertEqual(laplacian, operators.read(
            {"shape": "star", "coefficients": {"center": "-4/h^2", "y": ["4", "4"], "x": ["4", "4"]}}))
        gaussian = operators.read({"shape": "gaussian", "sigma": {"y": "1", "x": "1.5"}})
        impulse = numpy.zeros((21, 21))
        impulse[10, 10] = 1
        blurred = scipy.ndimage.gaussian_filter(impulse, (1, 1.5))
        self.assertTrue(all(abs(blurred[10 + y, 10 + x] - weight) < 1e-15 for (y, x), weight in gaussian.items()))
        self.assertEqual(operators.read({"shape": "formula", "radius": {"y": "0", "x": "1"}, "weight": "x + 2*y"}),
                         {(0, -1): -1, (0, 1): 1})
        self.assertEqual(operators.read({"shape": "taps", "coefficients": [{"at": {"x": "-1"}, "weight": "2"}]}), {(0, -1): 2})


class Sweeps(unittest.TestCase):
    def test_faces_are_those_of_scipy(self):
        rng = numpy.random.default_rng(2)
        weights = rng.uniform(-1, 1, (5, 7))
        rows = ", ".join(f"[{', '.join(map(str, row))}]" for row in weights)
        for rule, (mode, value) in MODES.items():
            for shape in ((9, 8), (3, 4), (2, 5)):
                system = system_of("  - u: s(u)", f"{{u: {{boundary: {rule}}}}}", f"{{s: {{shape: box, coefficients: [{rows}]}}}}")
                u = rng.uniform(-1, 1, shape)
                found = reference.sweep(system, {"u": cells(u)})["u"].interior
                expected = scipy.ndimage.correlate(u, weights, mode=mode, cval=value)
                self.assertLess(numpy.abs(found - expected).max(), 1e-14, (rule, shape))

    def test_antisymmetric_and_halo(self):
        system = system_of("  - u: u[-2] + 10*u[3]", "{u: {boundary: {x: {low: antisymmetric, high: halo}}}}", dimensions=1)
        u = numpy.array([1.0, 2, 3, 4, 50, 60, 70])
        found = reference.sweep(system, {"u": cells(u, [(0, 3)])})["u"]
        self.assertEqual(list(found.interior), [-1 + 40, 0 + 500, 1 + 600, 2 + 700])
        self.assertEqual(list(found.values[4:]), [50, 60, 70])

    def test_odd_rules(self):
        u = numpy.array([1.0, 2, 3, 4])
        for rule, beyond in (("antireflect", [-2, -1, -4, -3]), ("antimirror", [-3, -2, -3, -2])):
            system = system_of("  - u: u[-2] + 10*u[2]", f"{{u: {{boundary: {rule}}}}}", dimensions=1)
            found = reference.sweep(system, {"u": cells(u)})["u"].interior
            below, above = beyond[:2], beyond[2:]
            self.assertEqual(list(found), [below[0] + 30, below[1] + 40, 1 + 10*above[0], 2 + 10*above[1]])

    def test_corners(self):
        system = system_of("  - u: u[-1, -1]", "{u: {boundary: {y: {constant: 5}, x: antisymmetric}}}")
        u = numpy.arange(6.0).reshape(2, 3)
        found = reference.sweep(system, {"u": cells(u)})["u"].interior
        self.assertEqual(found.tolist(), [[0, 5, 5], [0, 0, 1]])

    def test_a_loop(self):
        """Stages, lets, offsets, one-axis fields, nested operators, indices, choices."""
        system = system_of(
            "  - let: {flux: k*dxp(u), twice: \"2*flux[0, -1]\"}\n    v: twice + h[0, 1]*iy\n"
            "  - u: \"u + 0.25*dxm(k*dxp(u)) - (ix > nx/2 ? v : -v)\"",
            "{u: {}, v: {}, k: {}, h: {axes: [x]}}",
            "{dxp: {shape: derivative, order: {x: 1}, at: {x: 1/2}}, dxm: {shape: derivative, order: {x: 1}, at: {x: -1/2}}}",
            more="boundary: periodic")
        rng = numpy.random.default_rng(3)
        u, v, k = (rng.uniform(-1, 1, (4, 6)) for _ in range(3))
        h = rng.uniform(-1, 1, (1, 6))
        found = reference.sweep(system, {name: cells(one) for name, one in zip("uvkh", (u, v, k, h))})
        for y in range(4):
            for x in range(6):
                def flux(x):
                    return k[y, x % 6] * (u[y, (x + 1) % 6] - u[y, x % 6])

                new_v = 2 * flux(x - 1) + h[0, (x + 1) % 6] * y
                self.assertAlmostEqual(found["v"].interior[y, x], new_v, 14)
                new_u = u[y, x] + 0.25 * (flux(x) - flux(x - 1)) - (new_v if x > 3 else -new_v)
                self.assertAlmostEqual(found["u"].interior[y, x], new_u, 14)

    def test_storages(self):
        values = numpy.random.default_rng(4).uniform(-100, 100, 750) * 10.0 ** numpy.arange(-40, 35).repeat(10)
        bits = values.astype(numpy.float32).view(numpy.uint32)
        rounded = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype(numpy.uint32).view(numpy.float32)
        found = reference.stored(values.astype(numpy.float32), "bf16")
        self.assertTrue((found == rounded).all())
        system = system_of("  - {u: v, v: u}", "{u: {storage: f16}, v: {storage: f32}}", storage="f32", dimensions=1)
        u, v = numpy.array([0.5, 1.0]), numpy.array([1 / 3, 2.0], numpy.float32)
        found = reference.sweep(system, {"u": cells(u), "v": cells(v)})
        self.assertEqual(found["u"].interior[0], float(numpy.float16(v[0])))
        self.assertEqual(found["u"].interior_errors[0], 0)

    def test_reductions(self):
        system = system_of("  - u: 2*u", dimensions=1, more='reduce: {change: {max: "abs(new(u) - u)"}, mass: {sum: u}}')
        before = {"u": cells(numpy.array([1.0, -3.0]))}
        found = reference.reductions(system, before, reference.sweep(system, before))
        self.assertEqual((found["change"][0], found["mass"][0]), (3, -2))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
