"""Smoothed elevation, slope and curvature of an elevation model, computed by generated f16 kernels.

    terrain.py [grid.npy] --library libterrain.so --kernels out/kernels --out out

Every result is compared with the same steps in double precision, on the data as they are and with the weights as the
specs have them. The exit status is 1 where an error exceeds what f16 rounding explains.
"""

import argparse
import ctypes
import dataclasses
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
from scipy import ndimage

EARTH_RADIUS = 6371008.8  # metres, mean
DEFAULT_CELL = 30.0  # metres, the spacing of the usual global elevation models
F16_UNIT = 2.0**-11  # rounding to f16 changes a normal number by at most this part of it,
F16_FLOOR = 2.0**-25  # and a subnormal one by at most this much
EXACT_WHOLE = 2048.0  # every whole number up to here is an f16
SAFE_LARGEST = 32768.0  # half of what overflows f16


class TerrainError(Exception):
    """What is wrong, in words for the user."""


@dataclasses.dataclass(frozen=True)
class Elevation:
    """A grid of heights; row 0 is the northernmost. Everything in metres."""

    name: str
    heights: np.ndarray  # double precision
    dy: float
    dx: float

    @property
    def aspect(self):
        """Height of a cell over its width, rounded to what is worth writing down."""
        return round(self.dy / self.dx, 6)


@dataclasses.dataclass(frozen=True)
class Result:
    """One quantity from the kernels, with the truth beside it; all in the quantity's unit."""

    name: str
    unit: str
    values: np.ndarray
    reference: np.ndarray  # double precision, from the data as they are
    from_rounded: np.ndarray  # double precision, from the data rounded to f16
    bound: np.ndarray  # pointwise, on |values - reference|


# --- data ---------------------------------------------------------------------------------------------------------


def jacksboro_path():
    """The elevation model that matplotlib ships: beside the module, or where Debian's python-matplotlib-data has it."""
    import matplotlib

    file = "jacksboro_fault_dem.npz"
    folders = [pathlib.Path(matplotlib.get_data_path()), pathlib.Path("/usr/share/matplotlib/mpl-data")]
    for folder in folders:
        path = folder / "sample_data" / file
        if path.exists():
            return path
    raise TerrainError(f"{file} is in none of {', '.join(map(str, folders))}; install python-matplotlib-data")


def load_jacksboro():
    """USGS elevations around the Jacksboro fault, Tennessee, on a geographic grid."""
    with np.load(jacksboro_path()) as file:
        latitude = math.radians(float(file["ymin"] + file["ymax"]) / 2)
        metres_per_degree = math.radians(1) * EARTH_RADIUS
        return Elevation(
            name="USGS Jacksboro fault DEM",
            heights=file["elevation"].astype(np.float64),
            dy=float(file["dy"]) * metres_per_degree,
            dx=float(file["dx"]) * metres_per_degree * math.cos(latitude),
        )


def load_grid(path, cell):
    """Any 2D .npy of heights in metres, on square cells."""
    try:
        values = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise TerrainError(f"{path}: cannot be read as .npy: {error}") from error
    if not isinstance(values, np.ndarray) or values.ndim != 2 or min(values.shape) < 2:
        raise TerrainError(f"{path}: a 2D grid of at least 2 x 2 is needed, this is {getattr(values, 'shape', values)}")
    if values.dtype.kind not in "iuf":
        raise TerrainError(f"{path}: real numbers are needed, this has {values.dtype}")
    heights = values.astype(np.float64)
    unusable = np.count_nonzero(~np.isfinite(heights))
    if unusable:
        raise TerrainError(f"{path}: {unusable} of {heights.size} cells are NaN or infinite; fill them first")
    return Elevation(name=path.name, heights=heights, dy=cell, dx=cell)


def load(path, cell):
    if path is None:
        return load_jacksboro()
    return load_grid(path, DEFAULT_CELL if cell is None else cell)


# --- kernels ------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Stencil:
    """The spec's weights, as a centred array."""

    weights: np.ndarray
    chained_mmas: int  # that one output goes through
    neighbourhood: float  # of the error bound: what two passes round in between, relative to sum |w| and the largest input


def centred(taps):
    reach = [max(abs(tap["at"][axis]) for tap in taps) for axis in (1, 2)]
    array = np.zeros((2 * reach[0] + 1, 2 * reach[1] + 1))
    for tap in taps:
        array[reach[0] + tap["at"][1], reach[1] + tap["at"][2]] = tap["weight"]
    return array


def load_stencils(folder):
    """The stencils of every explanation (`spider-gen --explain --explain-format json`) in the folder, by name."""
    stencils = {}
    for path in sorted(folder.glob("*.json")):
        explained = json.loads(path.read_text(encoding="utf-8"))
        for entry in explained if isinstance(explained, list) else [explained]:
            stencils[entry["stencil"]] = Stencil(centred(entry["taps"]), entry["chained_mmas"],
                                                   entry["error_bound"]["neighbourhood"])
    if not stencils:
        raise TerrainError(f"{folder}: no explanation (*.json) of a kernel is here")
    return stencils


class Library:
    """libterrain, by way of ctypes."""

    def __init__(self, path):
        try:
            self._library = ctypes.CDLL(str(path.resolve()))
        except OSError as error:
            raise TerrainError(f"{path}: cannot be loaded: {error}") from error
        words = np.ctypeslib.ndpointer(dtype=np.uint16, ndim=2, flags="C_CONTIGUOUS")
        self._library.terrain_backend.restype = ctypes.c_char_p
        self._library.terrain_error.restype = ctypes.c_char_p
        self._library.terrain_filter.restype = ctypes.c_int32
        self._library.terrain_filter.argtypes = [
            ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, words, words, ctypes.c_int32,
            ctypes.POINTER(ctypes.c_double)]
        floats = np.ctypeslib.ndpointer(dtype=np.float32, ndim=2, flags="C_CONTIGUOUS")
        self._library.terrain_diffuse.restype = ctypes.c_int32
        self._library.terrain_diffuse.argtypes = [
            ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, floats, floats, ctypes.c_int64,
            ctypes.POINTER(ctypes.c_double)]
        self.backend = self._library.terrain_backend().decode()

    def device(self):
        """Where the kernels run, in words."""
        if self.backend != "cuda":
            return "on the CPU" if self.backend == "host" else "emulated on the CPU"
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        try:
            names = subprocess.run(query, capture_output=True, text=True, check=True).stdout.splitlines()
        except (OSError, subprocess.CalledProcessError):
            names = []
        return f"on the GPU, {names[0].strip()}" if names else "on the GPU"

    def filter(self, kernel, values):
        """One sweep over an f16 grid. Returns the f16 result and the seconds that a sweep took."""
        values = np.ascontiguousarray(values)
        out = np.empty_like(values)
        seconds = ctypes.c_double()
        sweeps = 20 if self.backend == "cuda" else 1  # a single sweep on a GPU is too short for a clock
        status = self._library.terrain_filter(
            kernel.encode(), *values.shape, values.view(np.uint16), out.view(np.uint16), sweeps, ctypes.byref(seconds))
        if status != 0:
            raise TerrainError(f"{kernel}: {self._library.terrain_error().decode()}")
        return out, seconds.value

    def diffuse(self, kernel, values, steps):
        """Time steps of a kernel on an f32 grid. Returns the result and the seconds of all steps."""
        values = np.ascontiguousarray(values, dtype=np.float32)
        out = np.empty_like(values)
        seconds = ctypes.c_double()
        status = self._library.terrain_diffuse(
            kernel.encode(), *values.shape, values, out, steps, ctypes.byref(seconds))
        if status != 0:
            raise TerrainError(f"{kernel}: {self._library.terrain_error().decode()}")
        return out, seconds.value


# --- hillslope diffusion ------------------------------------------------------------------------------------------

DIFFUSION_NUMBER = 0.1  # kappa dt / dx^2 of heat2d_f32 and heat2d_steps_f32
LARGEST_MASS_DRIFT = 2e-5  # of the total mass
LARGEST_DIFFUSION_ERROR = 0.02  # metres


def diffuse(library, heights, steps):
    """Explicit diffusion of the heights in f32, nothing flowing through the edges, many steps in a sweep, beside the same
    steps one by one and in double precision. Prints times and drifts; false where a drift is larger than promised."""
    start = heights.astype(np.float32)
    values, seconds = library.diffuse("heat2d_steps_f32", start, steps)
    _, single_seconds = library.diffuse("heat2d_f32", start, steps)
    exact = start.astype(np.float64)
    for _ in range(steps):
        padded = np.pad(exact, 1, mode="edge")
        neighbours = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
        exact = exact + DIFFUSION_NUMBER * (neighbours - 4 * exact)
    mass = start.astype(np.float64).sum()
    drift = (values.astype(np.float64).sum() - mass) / mass
    error = np.abs(values - exact).max()
    sooner = (f"{single_seconds / seconds:.1f} times as long" if library.backend == "cuda"
              else "times of a CPU say nothing of a GPU's")
    print(f"Diffusion: {steps} steps of heat2d_steps_f32 in {seconds:.3g} s, which heat2d_f32, a sweep a step, takes "
          f"{single_seconds:.3g} s for: {sooner}")
    print(f"           the mass drifts by {drift:.1e} of itself, {drift * mass / heights.size:+.1e} m a cell; "
          f"largest error against double precision {error:.1e} m")
    return abs(drift) <= LARGEST_MASS_DRIFT and error <= LARGEST_DIFFUSION_ERROR


# --- the analysis -------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Grid:
    """A grid on its way through the steps, four times over."""

    values: np.ndarray  # f16, from the kernels
    reference: np.ndarray
    from_rounded: np.ndarray
    bound: np.ndarray


def correlate(grid, weights):
    return ndimage.correlate(grid, weights, mode="nearest")  # the boundary of the specs


def propagate_bound(grid, stencil):
    """How far one sweep's f16 result can be from the double-precision sweep of the true input, point by point.

    With input x that is off by at most e, weights w and W = max |w|, the error is at most the sum of
      sum |w| e                         the input's error, weighted,
      sum 2^-21 W (|x| + e)             the weights: `weights: auto` keeps them to 2^-21 of the largest, two passes to 2^-20,
      18 M 2^-23 sum |w| (|x| + e)      M chained MMAs, each adding up to 18 numbers with at least 24 bits, truncating,
      n sum |w| max (|x| + e)           of two passes, what lies between them in f16; n as --explain says,
      2^-11 |result| + 2^-25            the rounding of the result to f16.
    """
    magnitude = np.abs(grid.reference) + grid.bound
    weights = np.abs(stencil.weights)
    packing = np.where(weights > 0, (2.0**-20 if stencil.neighbourhood else 2.0**-21) * weights.max(), 0)
    bound = correlate(grid.bound, weights)
    bound += correlate(magnitude, packing)
    bound += 1.001 * 18 * stencil.chained_mmas * 2.0**-23 * correlate(magnitude, weights + packing)
    bound += stencil.neighbourhood * (weights + packing).sum() * ndimage.maximum_filter(magnitude, weights.shape, mode="nearest")
    result = np.abs(correlate(grid.reference, stencil.weights)) + bound
    return bound + F16_UNIT * result + F16_FLOOR


class Progress:
    """Applies kernels, and tells of each as it is done."""

    def __init__(self, library, stencils, sweeps):
        self._library = library
        self._stencils = stencils
        self._sweeps = sweeps
        self._done = 0

    def sweep(self, kernel, grid, purpose):
        stencil = self._stencils[kernel]
        values, seconds = self._library.filter(kernel, grid.values)
        self._done += 1
        rate = values.size / seconds / 1e6
        print(f"  [{self._done}/{self._sweeps}] {kernel:<18} {purpose:<24} {1e3 * seconds:11.3f} ms"
              f" {rate:11.2f} Mpoints/s", flush=True)
        return Grid(
            values=values,
            reference=correlate(grid.reference, stencil.weights),
            from_rounded=correlate(grid.from_rounded, stencil.weights),
            bound=propagate_bound(grid, stencil),
        )


def centre_and_scale(heights, stencils):
    """An offset and a power of two with which (heights - offset) * scale loses as little as can be in f16.

    A stencil is linear, so both can be undone behind it. The offset takes the mean away, since f16 is finest near 0.
    The scale moves the largest deviation towards 2048, but no result beyond f16; the offset is whole in the scaled
    unit, so that whole metres less than 2048 m from it are exact.
    """
    mean = float(heights.mean())
    largest = float(np.abs(heights - mean).max())
    gain = max(1.0, *(np.abs(stencil.weights).sum() for stencil in stencils.values()))
    limit = min(EXACT_WHOLE - 1, SAFE_LARGEST / gain)
    scale = 2.0 ** math.floor(math.log2(limit / largest)) if largest > 0 else 1.0
    return float(np.rint(mean * scale)) / scale, scale


def analyse(elevation, library, stencils):
    """Smoothed elevation, slope and curvature.

    Derivatives come first and are smoothed afterwards. Inside the grid the order of linear steps does not matter to
    the mathematics, but it does to f16: differences of exact heights keep 11 bits of themselves, while differences of
    smoothed and rounded heights would keep 11 bits of the heights. Near the edges the results belong to a terrain that
    goes on level beyond them.
    """
    offset, scale = centre_and_scale(elevation.heights, stencils)
    true = (elevation.heights - offset) * scale
    rounded = true.astype(np.float16)
    heights = Grid(values=rounded, reference=true, from_rounded=rounded.astype(np.float64),
                   bound=np.abs(rounded.astype(np.float64) - true))
    print(f"  f16 holds (height - {offset:.10g} m) * 2^{math.log2(scale):.0f}: rounding the input changes it by at most"
          f" {heights.bound.max() / scale:.3g} m")

    progress = Progress(library, stencils, sweeps=7)
    smoothed = progress.sweep("gauss2d_r7", heights, "smoothed elevation")
    derivatives = {}
    for kernel, purpose in (("sobel_x", "slope along x"), ("sobel_y", "slope along y"),
                            ("terrain_curvature", "curvature")):
        rough = progress.sweep(kernel, heights, purpose)
        derivatives[kernel] = progress.sweep("gauss2d_r7", rough, purpose + ", smoothed")

    def slope(field):
        return np.hypot(field(derivatives["sobel_x"]).astype(np.float64) / (scale * elevation.dx),
                        field(derivatives["sobel_y"]).astype(np.float64) / (scale * elevation.dy))

    def scaled(name, unit, grid, factor, shift=0.0):
        return Result(name, unit, grid.values.astype(np.float64) * factor + shift, grid.reference * factor + shift,
                      grid.from_rounded * factor + shift, grid.bound * factor)

    return [
        scaled("smoothed", "m", smoothed, 1 / scale, offset),
        # | |g'| - |g| | <= |g' - g|: the bounds of the components are those of the difference.
        Result("slope", "m/m", slope(lambda g: g.values), slope(lambda g: g.reference),
               slope(lambda g: g.from_rounded), slope(lambda g: g.bound)),
        scaled("curvature", "1/m", derivatives["terrain_curvature"], 1 / (scale * elevation.dx**2)),
    ]


def rms(values):
    return float(np.sqrt(np.mean(np.square(values))))


def report(results):
    """Prints the errors; True where every point of every result is within its bound."""
    print("Error against the same steps in double precision, on the data as they are")
    print(f"  {'':<10} {'unit':<5} {'RMS value':>10} {'max error':>10} {'RMS error':>10} {'rounded in':>11}"
          f" {'max bound':>10} {'error/bound':>12}")
    within = True
    for result in results:
        error = np.abs(result.values - result.reference)
        from_input = np.abs(result.from_rounded - result.reference)
        ratio = float(np.max(error / result.bound))
        within = within and ratio <= 1  # false for NaN
        deviation = result.reference - result.reference.mean()
        print(f"  {result.name:<10} {result.unit:<5} {rms(deviation):10.3g} {error.max():10.3g} {rms(error):10.3g}"
              f" {from_input.max():11.3g} {result.bound.max():10.3g} {ratio:12.2f}")
    print("  RMS value: about the mean. Rounded in: the largest error that the f16 rounding of the input alone makes.\n"
          "  Bound: what the rounding of input, weights, sums and results can add up to, point by point.")
    return within


# --- pictures -----------------------------------------------------------------------------------------------------


def draw(path, elevation, results, device):
    """Hillshade before and after, slope and curvature, side by side."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import colors, pyplot

    smoothed, slope, curvature = (result.values for result in results)
    rows, columns = elevation.heights.shape
    extent = (0, columns * elevation.dx / 1e3, 0, rows * elevation.dy / 1e3)
    light = colors.LightSource(azdeg=315, altdeg=45)
    relief = max(np.ptp(elevation.heights), 1e-9)
    exaggeration = 0.06 * min(rows * elevation.dy, columns * elevation.dx) / relief
    height_range = colors.Normalize(elevation.heights.min(), elevation.heights.max())

    panel = 3.95  # inches that colour bar and labels leave of half the width
    width = 10.5
    height = min(max(2 * panel * extent[3] / extent[1] + 1.7, 6), 16)
    lowlands = colors.LinearSegmentedColormap.from_list(  # without the colours of the sea
        "lowlands", pyplot.get_cmap("gist_earth")(np.linspace(0.32, 1, 256)))
    figure, axes = pyplot.subplots(2, 2, figsize=(width, height), sharex=True, sharey=True, layout="constrained")
    figure.suptitle(f"{elevation.name}: {rows} x {columns} cells of {elevation.dy:.0f} m x {elevation.dx:.0f} m\n"
                    f"f16 stencils on sparse tensor cores, {device}", fontsize=12)

    def bar(axis, mappable, label, **options):
        figure.colorbar(mappable, ax=axis, shrink=0.9, pad=0.02, **options).set_label(label)

    def error(result, factor, unit):
        return f"max error {factor * np.abs(result.values - result.reference).max():.2g} {unit}"

    for axis, heights, title in ((axes[0, 0], elevation.heights, "Elevation, as it came"),
                                 (axes[0, 1], smoothed, f"Gaussian, radius 7: {error(results[0], 1, 'm')}")):
        shaded = light.shade(heights, cmap=lowlands, norm=height_range, blend_mode="soft",
                             vert_exag=exaggeration, dx=elevation.dx, dy=elevation.dy)
        axis.imshow(shaded, extent=extent)
        axis.set_title(title, fontsize=11)
        bar(axis, pyplot.cm.ScalarMappable(height_range, lowlands), "elevation (m)")

    axes[1, 0].set_title(f"Sobel slope: {error(results[1], 1, 'm/m')}", fontsize=11)
    steepest = max(float(np.percentile(slope, 99.8)), 1e-12)
    bar(axes[1, 0], axes[1, 0].imshow(slope, extent=extent, cmap="magma", vmin=0, vmax=steepest), "slope (m/m)",
        extend="max")

    axes[1, 1].set_title(f"Laplacian curvature: {error(results[2], 1e3, '1/km')}", fontsize=11)
    sharpest = max(float(np.percentile(np.abs(curvature), 99.5)), 1e-12) * 1e3
    bar(axes[1, 1], axes[1, 1].imshow(curvature * 1e3, extent=extent, cmap="RdBu", vmin=-sharpest, vmax=sharpest),
        "curvature (1/km): ridges red, valleys blue", extend="both")

    for axis in axes[1]:
        axis.set_xlabel("east (km)")
    for axis in axes[:, 0]:
        axis.set_ylabel("north (km)")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def write(folder, elevation, results, device):
    folder.mkdir(parents=True, exist_ok=True)
    for result in results:
        path = folder / f"{result.name}.npy"
        np.save(path, result.values.astype(np.float32))
        print(f"  {path} ({result.unit})")
    path = folder / "terrain.png"
    draw(path, elevation, results, device)
    print(f"  {path}")


# --- command line -------------------------------------------------------------------------------------------------


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description="Smoothed elevation, slope and curvature by generated f16 kernels.")
    parser.add_argument("grid", nargs="?", type=pathlib.Path,
                        help="2D .npy of heights in metres, row 0 northernmost (default: the Jacksboro fault DEM)")
    parser.add_argument("--cell", type=float, help=f"metres from cell to cell of the grid (default: {DEFAULT_CELL:g})")
    parser.add_argument("--library", type=pathlib.Path, help="libterrain.so")
    parser.add_argument("--kernels", type=pathlib.Path, help="folder with the kernels' explanations, *.json")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("out"), help="folder for results")
    parser.add_argument("--diffuse", type=int, default=0, metavar="STEPS", help="steps of hillslope diffusion in f32")
    parser.add_argument("--print-aspect", action="store_true",
                        help="print the height of a cell over its width, and stop")
    options = parser.parse_args(arguments)
    if options.cell is not None and not (options.cell > 0 and math.isfinite(options.cell)):
        parser.error("--cell must be positive")
    if options.cell is not None and options.grid is None:
        parser.error("--cell belongs to a grid of your own; the Jacksboro fault DEM knows its cells")
    if options.diffuse < 0:
        parser.error("--diffuse takes a number of steps")
    if not options.print_aspect and (options.library is None or options.kernels is None):
        parser.error("--library and --kernels are needed")
    return options


def run(options):
    elevation = load(options.grid, options.cell)
    if options.print_aspect:
        print(elevation.aspect)
        return 0
    library = Library(options.library)
    device = library.device()
    rows, columns = elevation.heights.shape
    print(f"{elevation.name}: {rows} x {columns} cells of {elevation.dy:.2f} m x {elevation.dx:.2f} m, heights"
          f" {elevation.heights.min():g} to {elevation.heights.max():g} m")
    if options.grid is not None and options.cell is None:
        print(f"  the size of a cell was not given: {DEFAULT_CELL:g} m is assumed (--cell)")
    print(f"Kernels run {device} (back end: {library.backend})", flush=True)
    results = analyse(elevation, library, load_stencils(options.kernels))
    within = report(results)
    if options.diffuse > 0:
        within = diffuse(library, elevation.heights, options.diffuse) and within
    print("Writing")
    write(options.out, elevation, results, device)
    if not within:
        print("terrain.py: error: an error is larger than rounding explains", file=sys.stderr)
        return 1
    return 0


def main():
    try:
        return run(parse_arguments(sys.argv[1:]))
    except TerrainError as error:
        print(f"terrain.py: error: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
