"""Arrays of xarray, and what `python -m spider_gen run` reads and writes, with NetCDF and Zarr: on the host."""

import contextlib
import importlib.util
import io
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings

import numpy as np
import xarray

import spider_gen
from spider_gen import __main__, _files

HEAT = """stencil: heat
dimensions: 2
storage: f32
shape: star
parameters: {alpha: 0.2}
coefficients: {center: 1 - 4*alpha, y: [alpha, alpha], x: [alpha, alpha]}
boundary: nearest
"""
FOLDER = tempfile.TemporaryDirectory()
SPEC = pathlib.Path(FOLDER.name) / "heat.yaml"
SPEC.write_text(HEAT, encoding="utf-8")
PACKAGES = {"netcdf4": ("netCDF4",), "h5netcdf": ("h5netcdf", "h5py")}
ENGINES = [engine for engine, packages in PACKAGES.items() if all(map(importlib.util.find_spec, packages))]
ENGINE = ENGINES[0]


def heat():
    return spider_gen.stencil(SPEC, backend="host")


def temperature(dtype=np.float32, shape=(12, 15)):
    """With an index, a coordinate of two dimensions, a scalar one, attributes, and how a file packs it."""
    values = np.random.default_rng(3).random(shape).astype(dtype)
    lat, lon = np.linspace(-5, 5, shape[0]), np.linspace(0, 30, shape[1])
    array = xarray.DataArray(values, dims=("lat", "lon"), name="t", attrs={"units": "K"},
                             coords={"lat": ("lat", lat, {"units": "degrees_north"}), "lon": lon, "height": 2.0,
                                     "area": (("lat", "lon"), np.ones(shape))})
    array.encoding = {"dtype": "int16", "scale_factor": 0.1, "_FillValue": -1}
    return array


class Labels(unittest.TestCase):
    def assert_like(self, got, given, values):
        np.testing.assert_array_equal(got.data, values)
        xarray.testing.assert_equal(got.coords.to_dataset(), given.coords.to_dataset())
        self.assertEqual((got.dims, got.name, got.attrs, got.encoding), (given.dims, given.name, given.attrs, {}))
        self.assertEqual(got.lat.attrs, given.lat.attrs)

    def test_sweeps_and_steps(self):
        u, s = temperature(), heat()
        for _ in range(2):  # the second call of a layout is remembered
            self.assert_like(s(u), u, s(u.values))
        self.assert_like(s.iterate(u, 5), u, s.iterate(u.values, 5))
        out = xarray.zeros_like(u)
        self.assertIs(s(u, out=out), out)
        np.testing.assert_array_equal(out, s(u.values))
        plain = np.empty_like(u.values)
        self.assertIs(s.iterate(u, 3, out=plain), plain)
        self.assertIs(s(u.values, out=out), out)

    def test_axes_have_names(self):
        u, s = temperature(), heat()
        stack = xarray.concat([u, 2 * u, 3 * u], "member").transpose("lon", "member", "lat")
        got = s(stack, axes=("lat", "lon"))
        self.assertEqual(got.dims, stack.dims)
        for i in range(3):
            np.testing.assert_array_equal(got.isel(member=i).transpose("lat", "lon"), s(stack.isel(member=i).transpose("lat", "lon")))
        with self.assertRaisesRegex(ValueError, "depth"):
            s(stack, axes=("depth", "lon"))

    def test_an_update_takes_its_fields_by_dimension(self):
        spec = {"dimensions": 2, "storage": "f32", "shape": "laplacian", "boundary": "nearest", "fields": ["k"], "update": "u + k*sum"}
        s, u = spider_gen.stencil(spec, backend="host"), temperature()
        k = 0.1 * temperature()
        self.assert_like(s(u, k=k.transpose()), u, s(u.values, k=k.values))
        self.assert_like(s(u, k=k.values), u, s(u.values, k=k.values))
        self.assertIs(type(s(u.values, k=k)), np.ndarray)
        with self.assertRaisesRegex(ValueError, "k and u have other coordinates along lat"):
            s(u, k=k.assign_coords(lat=k.lat + 1))
        with self.assertRaisesRegex(ValueError, r"k has the dimensions \(lat, x\), and u \(lat, lon\): there is no \(x\)"):
            s(u, k=k.rename(lon="x"))

    def test_a_field_for_all_images_has_the_order_of_axes(self):
        spec = {"dimensions": 2, "storage": "f32", "shape": "derivative", "order": {"x": 1}, "boundary": "nearest", "fields": ["k"],
                "update": "u + k*sum"}
        s = spider_gen.stencil(spec, backend="host")
        u = temperature(shape=(12, 12)).drop_vars("area")
        stack, k = xarray.concat([u, 2 * u], "member"), 0.1 * u
        wanted = [s(image.transpose("lon", "lat").values, k=k.transpose("lon", "lat").values) for image in (u, 2 * u)]
        for field in (k, k.transpose()):
            got = s(stack, k=field, axes=("lon", "lat"))
            for i in range(2):
                np.testing.assert_array_equal(got.isel(member=i).transpose("lon", "lat"), wanted[i])

    def test_what_is_refused(self):
        u, s = temperature(), heat()
        with self.assertRaisesRegex(TypeError, "float64.*astype"):
            s(u.astype(np.float64))
        with self.assertRaisesRegex(ValueError, r"out has the dimensions \(lon, lat\), and u \(lat, lon\)"):
            s(u, out=xarray.zeros_like(u).transpose())
        with unittest.mock.patch.object(xarray.DataArray, "chunks", ((12,), (15,))):
            with self.assertRaisesRegex(TypeError, r"chunks of dask.*u.compute\(\)"):
                s(u)

    def test_fields_of_a_system(self):
        spec = {"stencil": "pair", "dimensions": 2, "storage": "f32", "fields": ["a", "b"], "boundary": "periodic",
                "operators": {"d": {"shape": "derivative", "order": {"x": 1}, "accuracy": 2, "spacing": 1, "at": {"x": "1/2"}}},
                "stages": [{"a": "a + d(b)/8"}, {"b": "b + d(a)/8"}]}
        s = spider_gen.stencil(spec, backend="host")
        u = temperature()
        b = u.rename(lon="lon_u").drop_vars("area").rename("b")  # of a staggered grid
        wanted = s({"a": u.values, "b": b.values})
        for state in ({"a": u, "b": b}, {"a": u, "b": b.values}):
            got = s(state)
            self.assert_like(got["a"], u, wanted["a"])
            np.testing.assert_array_equal(got["b"], wanted["b"])
        self.assertEqual(s({"a": u, "b": b})["b"].dims, ("lat", "lon_u"))
        dataset = xarray.Dataset({"a": u, "b": b})
        self.assert_like(dataset.assign(s(dataset)).a, u.rename("a"), wanted["a"])
        found, records = s.iterate({"a": u, "b": b}, 3, record={"a": [(2, 3)]}, inject={"a": ([(2, 3)], xarray.DataArray(np.ones(3)))})
        plain = s.iterate({"a": u.values, "b": b.values}, 3, record={"a": [(2, 3)]}, inject={"a": ([(2, 3)], np.ones(3))})
        self.assert_like(found["a"], u, plain[0]["a"])
        np.testing.assert_array_equal(records["a"], plain[1]["a"])
        state = {"a": u.copy(), "b": b.copy()}
        self.assertIs(s(state, in_place=True)["a"], state["a"])
        np.testing.assert_array_equal(state["b"], wanted["b"])
        for turned in (u.transpose(), b.transpose()):
            with self.assertRaisesRegex(ValueError, r"lat is along x in b, \(lon\w*, lat\), and along y in a, \(lat, lon\): transpose one|"
                                                    r"lon is along y in b, \(lon, lat\), and along x in a, \(lat, lon\): transpose one"):
                s({"a": u, "b": turned})

    def test_a_profile_of_a_system_is_along_its_axis(self):
        spec = {"stencil": "damped", "dimensions": 2, "storage": "f32", "fields": {"u": {}, "d": {"axes": ["x"]}},
                "stages": [{"u": "u - d*u"}]}
        s, u = spider_gen.stencil(spec, backend="host"), temperature(shape=(12, 12)).drop_vars("area")
        self.assert_like(s({"u": u, "d": u[0]})["u"], u, s({"u": u.values, "d": u.values[0]})["u"])
        self.assert_like(s({"u": u, "d": u[:1].drop_vars("lat")})["u"], u, s({"u": u.values, "d": u.values[0]})["u"])
        with self.assertRaisesRegex(ValueError, r"lat is along x in d, \(lat\), and along y in u, \(lat, lon\): transpose one"):
            s({"u": u, "d": u[:, 0]})


class Files(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_command(self, given, out, *words):
        """Its status and what it said."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said), warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            try:
                status = __main__.main(["run", str(SPEC), str(self.folder / given), "-o", str(self.folder / out), "--backend", "host",
                                        "--quiet", *words])
            except SystemExit as exit_:
                status = exit_.code
        return status, said.getvalue()

    def entries(self):
        return sorted(entry.name for entry in self.folder.iterdir())

    def test_every_format_into_every_other(self):
        u = temperature()
        u.encoding = {}
        np.save(self.folder / "in.npy", u)
        u.to_netcdf(self.folder / "in.nc", engine=ENGINE)
        with warnings.catch_warnings():  # of Zarr's third format
            warnings.simplefilter("ignore")
            u.to_dataset().to_zarr(self.folder / "in.zarr")
        wanted = heat().iterate(u.values, 7)
        for given in ("in.npy", "in.nc", "in.zarr"):
            for out in ("out.npy", "out.nc", "out.zarr"):
                for _ in range(2):  # the second one replaces the first
                    self.assertEqual(self.run_command(given, out, "--steps", "7"), (0, ""))
                if out == "out.npy":
                    np.testing.assert_array_equal(np.load(self.folder / out), wanted)
                    continue
                with xarray.open_dataset(self.folder / out, engine="zarr" if out.endswith("zarr") else ENGINE) as found:
                    if given == "in.npy":
                        self.assertEqual((list(found.data_vars), found.heat.dims), (["heat"], ("y", "x")))
                        np.testing.assert_array_equal(found.heat, wanted)
                    else:
                        xarray.testing.assert_identical(found.load(), u.copy(data=wanted).to_dataset())
        self.assertEqual(self.entries(), ["in.nc", "in.npy", "in.zarr", "out.nc", "out.npy", "out.zarr"])

    def test_snapshots_along_step(self):
        u = temperature()
        u.to_netcdf(self.folder / "in.nc", engine=ENGINE)  # packed
        with xarray.open_dataset(self.folder / "in.nc", engine=ENGINE) as packed:
            start = packed.t.values.astype(np.float32)
        for engine in ENGINES:
            others = {name: importlib.util.find_spec(name) for name in (*PACKAGES[engine], "xarray", "zarr")}
            for out in ("out.nc", "out.zarr"):
                with unittest.mock.patch.object(_files.importlib.util, "find_spec", others.get):
                    self.assertEqual(self.run_command("in.nc", out, "--steps", "7", "--every", "3", "--convert")[0], 0)
                with xarray.open_dataset(self.folder / out, engine="zarr" if out.endswith("zarr") else engine) as found:
                    self.assertEqual((found.t.dims, list(found.step.values)), (("step", "lat", "lon"), [3, 6, 7]))
                    self.assertEqual((found.t.attrs, found.t.dtype), ({"units": "K"}, np.float32))
                    for step in (3, 6, 7):
                        np.testing.assert_array_equal(found.t.sel(step=step), heat().iterate(start, step))
                    found.t.isel(step=-1).load().to_netcdf(self.folder / "last.nc", engine=engine)
                self.assertEqual(self.run_command("last.nc", "more.nc", "--every", "1"), (0, ""))
                self.assertRegex(self.run_command(out, "b.npy")[0], r"3 dimensions \(step, lat, lon\); heat has 2$")

    def test_halves(self):
        u = temperature(np.float16).values
        for out, kind in (("out.nc", np.float32), ("out.zarr", np.float16)):
            with _files.Writer(self.folder / out, None, True, "heat", None) as writer:
                for step in (1, 2):
                    writer.put(u, step)
            with xarray.open_dataset(self.folder / out, engine="zarr" if out.endswith("zarr") else ENGINE) as found:
                self.assertEqual(found.heat.dtype, kind)
                np.testing.assert_array_equal(found.heat.isel(step=1), u)

    def test_variables(self):
        u = temperature()
        u.encoding = {}
        xarray.Dataset({"t": u, "q": 2 * u}).to_netcdf(self.folder / "in.nc", engine=ENGINE)
        status, said = self.run_command("in.nc", "out.npy")
        self.assertEqual(status, 1)
        self.assertRegex(said, "in.nc has 2 variables; name one by --variable: t, q")
        self.assertRegex(self.run_command("in.nc", "out.npy", "--variable", "s")[1], "has no variable s; it has t, q")
        self.assertEqual(self.run_command("in.nc", "out.npy", "--variable", "q"), (0, ""))
        np.testing.assert_array_equal(np.load(self.folder / "out.npy"), heat()((2 * u).values))
        self.assertRegex(self.run_command("out.npy", "a.npy", "--variable", "q")[1], "out.npy is no .nc or .zarr")

    def test_what_is_missing_is_told_before_a_step(self):
        np.save(self.folder / "in.npy", temperature())
        with unittest.mock.patch.object(spider_gen.Stencil, "iterate", side_effect=AssertionError):
            with unittest.mock.patch.object(_files.importlib.util, "find_spec", lambda name: None):
                for name, words in (("a.nc", "NetCDF takes the packages xarray and netCDF4 or h5netcdf h5py: pip install xarray netCDF4"),
                                    ("a.zarr", "Zarr takes the packages xarray and zarr: pip install xarray zarr")):
                    self.assertRegex(self.run_command("in.npy", name)[1], words)
                    self.assertRegex(self.run_command(name, "a.npy")[1], words)
            self.assertRegex(self.run_command("no.nc", "a.npy")[1], "no.nc: there is no such file")
            for name in ("none/a.nc", "none/a.npy"):
                self.assertRegex(self.run_command("in.npy", name)[1], "there is no folder .*none")
            (self.folder / "file.zarr").touch()
            for name in ("mine.zarr", "mine.npy", "mine.nc"):
                (self.folder / name).mkdir()
            for name, what in (("mine.zarr", "no Zarr store"), ("file.zarr", "no Zarr store"), ("mine.npy", "a folder"),
                               ("mine.nc", "a folder")):
                self.assertRegex(self.run_command("in.npy", name)[1], f"{name} is {what}: it is not replaced")
        self.assertEqual(self.entries(), ["file.zarr", "in.npy", "mine.nc", "mine.npy", "mine.zarr"])

    def test_errors_of_the_writer_reach_the_caller(self):
        np.save(self.folder / "in.npy", temperature())
        for out in ("out.npy", "out.nc", "out.zarr"):
            for fails_at in (0, 2):
                count = iter(range(10**9))
                add = _files._Labelled.add if out != "out.npy" else _files._Npy.add

                def full(file, values, step):
                    if next(count) == fails_at:
                        raise OSError(28, "No space left on device")
                    add(file, values, step)

                with unittest.mock.patch.object(_files._Npy, "add", full), unittest.mock.patch.object(_files._Labelled, "add", full):
                    status, said = self.run_command("in.npy", out, "--every", "1", "--steps", "9")
                self.assertEqual(status, 1)
                self.assertRegex(said, rf"{out}: step {fails_at + 1} could not be written: .*No space left")
                if fails_at:
                    self.assertRegex(said, "; the last one there is that of step 2")
        self.assertEqual(self.entries(), ["in.npy", "out.nc", "out.npy", "out.zarr"])
        for out in ("out.nc", "out.zarr"):
            with xarray.open_dataset(self.folder / out, engine="zarr" if out == "out.zarr" else ENGINE) as found:
                self.assertEqual(list(found.step.values), [1, 2])

    def test_a_full_disk_leaves_the_snapshots_before(self):
        """No file may become so large that it takes the third one. Another process writes, whose library has nothing open here."""
        for out, most in (("out.nc", 215000), ("out.zarr", 3000)):
            program = f"""
import pathlib, resource, numpy
from spider_gen import _files
resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
noise = numpy.random.default_rng(1).random((100, 100)).astype(numpy.float32)
with _files.Writer(pathlib.Path({str(self.folder / out)!r}), None, True, "heat", None) as writer:
    for step in 3, 6, 9:
        writer.put(noise if step == 9 else numpy.full_like(noise, step), step)
"""
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
            self.assertRegex(done.stderr, f"{out}: step 9 could not be written: .*; the last one there is that of step 6")
            with xarray.open_dataset(self.folder / out, engine="zarr" if out == "out.zarr" else ENGINE) as found:
                self.assertEqual(list(found.step.values), [3, 6])
                np.testing.assert_array_equal(found.heat, np.broadcast_to(np.float32([[[3]], [[6]]]), (2, 100, 100)))
        self.assertEqual(self.entries(), ["out.nc", "out.zarr"])

    def test_stopped_it_holds_the_steps_that_were_done(self):
        np.save(self.folder / "in.npy", temperature())
        iterate, calls = spider_gen.Stencil.iterate, iter(range(10))

        def interrupted(*arguments, **named):
            if next(calls) == 4:
                raise KeyboardInterrupt
            return iterate(*arguments, **named)

        with unittest.mock.patch.object(spider_gen.Stencil, "iterate", interrupted):
            status, said = self.run_command("in.npy", "out.nc", "--every", "2", "--steps", "20")
        self.assertEqual(status, 130)
        self.assertRegex(said, "out.nc holds step 8")
        with xarray.open_dataset(self.folder / "out.nc", engine=ENGINE) as found:
            self.assertEqual(list(found.step.values), [2, 4, 6, 8])
        self.assertEqual(self.entries(), ["in.npy", "out.nc"])

    def test_snapshots_are_written_behind_the_steps_in_order(self):
        """The second steps end while the first snapshot is being written."""
        went_on, order = threading.Event(), []

        def slow(file, values, step):
            self.assertTrue(step > 1 or went_on.wait(60))
            order.append((step, threading.current_thread().name))

        with unittest.mock.patch.object(_files._Npy, "add", slow), _files.Writer(self.folder / "a.npy", None, True, "a", None) as writer:
            for step in (1, 2, 3):
                writer.put(np.zeros(3), step)
            went_on.set()
            writer.put(np.zeros(3), 4)
        self.assertEqual(order, [(step, "spider_gen writer") for step in (1, 2, 3, 4)])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + ["-q"] + sys.argv[1:])
