#!/usr/bin/env bash
# Runs stencils/quickstart.sh on a corner of the elevation model, on the CPU, and checks what it leaves behind.
#
#   test_quickstart.sh BUILD_FOLDER [INSTALLED]
#
# What is compiled stays in BUILD_FOLDER for the next run. INSTALLED is where spider-gen is installed already.
#
# Exit 77: skipped, a Python library or the elevation model is not here.
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
quickstart=$here/../../../stencils/quickstart.sh
build=$(realpath -m -- "${1:?usage: test_quickstart.sh BUILD_FOLDER [INSTALLED]}")
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

fail() {
  printf 'test_quickstart: %s\n' "$*" >&2
  exit 1
}

# Expects the exit status $1 and the words $2 on the output of the rest.
expect() {
  local status=0
  "${@:3}" >"$work/log" 2>&1 || status=$?
  cat "$work/log"
  [[ $status == "$1" ]] || fail "exit status $status instead of $1: ${*:3}"
  grep -q -- "$2" "$work/log" || fail "the output does not say \"$2\": ${*:3}"
}

python=
for candidate in python3 /usr/bin/python3; do
  if "$candidate" -c 'import numpy, scipy.ndimage, matplotlib' >/dev/null 2>&1; then
    python=$candidate
    break
  fi
done
if [[ -z $python ]]; then
  printf 'skipped: no python3 has numpy, scipy and matplotlib\n'
  exit 77
fi

# Not whole metres, so that the input is rounded too; odd extents.
"$python" - "$here" "$work" <<'END' || { printf 'skipped: the elevation model is not here\n'; exit 77; }
import pathlib, sys
import numpy
sys.path.insert(0, sys.argv[1])
import terrain
work = pathlib.Path(sys.argv[2])
corner = terrain.load_jacksboro().heights[:61, :83] / 3
numpy.save(work / "corner.npy", corner)
corner[5, 7] = numpy.nan
numpy.save(work / "void.npy", corner)
END

common=(--out "$work/out" --build "$build" --backend host --no-install)
if (($# > 1)); then common+=(--installed "$2"); fi
expect 0 'Back end: host' bash "$quickstart" "$work/corner.npy" --cell 90 --diffuse 50 "${common[@]}"
grep -q 'Diffusion: 50 steps of heat2d_steps_f32 in ' "$work/log" || fail "nothing was diffused"
grep -q '61 x 83 cells of 90.00 m x 90.00 m' "$work/log" || fail "the grid is not the one that was given"
cp -r -- "$work/out" "$work/host"
# The kernels themselves, run lane by lane by the emulator, agree with the host's loops.
expect 0 'Back end: emulated' bash "$quickstart" "$work/corner.npy" --cell 90 "${common[@]/#host/emulated}"
"$python" - "$work" <<'END'
import pathlib, sys
import numpy
work = pathlib.Path(sys.argv[1])
for name in ("smoothed", "slope", "curvature"):
    host, emulated = numpy.load(work / "host" / f"{name}.npy"), numpy.load(work / "out" / f"{name}.npy")
    assert numpy.abs(host - emulated).max() <= 0.02 * numpy.abs(host).max(), name
END
for name in gauss2d_r7 sobel_x sobel_y terrain_curvature; do
  [[ -s $work/out/kernels/$name.cu && -s $work/out/kernels/$name.h ]] || fail "$name was not generated"
done

"$python" - "$work/out" <<'END'
import pathlib, sys
import numpy
from scipy import ndimage
out = pathlib.Path(sys.argv[1])
heights = numpy.load(out.parent / "corner.npy")
fields = {name: numpy.load(out / f"{name}.npy") for name in ("smoothed", "slope", "curvature")}
for name, field in fields.items():
    assert field.shape == heights.shape and field.dtype == numpy.float32 and numpy.isfinite(field).all(), name
# SciPy's own Gaussian has the same sigma: a check that shares no weights with the application.
smoothed = ndimage.gaussian_filter(heights, 7 / 3, mode="nearest", truncate=3)
assert numpy.abs(fields["smoothed"] - smoothed).max() < 0.2, numpy.abs(fields["smoothed"] - smoothed).max()
slope = numpy.hypot(*numpy.gradient(smoothed, 90.0))[10:-10, 10:-10]
assert numpy.abs(fields["slope"][10:-10, 10:-10] - slope).max() < 0.1 * slope.max()
curvature = ndimage.laplace(smoothed)[10:-10, 10:-10] / 90.0**2
assert numpy.abs(fields["curvature"][10:-10, 10:-10] - curvature).max() < 0.1 * numpy.abs(curvature).max()
assert (out / "terrain.png").read_bytes().startswith(b"\x89PNG")
END

# What must fail, fails: a void in the data, and results that are not those of the weights.
expect 1 'NaN or infinite' bash "$quickstart" "$work/void.npy" "${common[@]}"
sed -i '0,/"weight": 0\.125/s//"weight": 0.126/' "$work/out/kernels/shipped.json"
expect 1 'larger than rounding explains' "$python" "$here/terrain.py" "$work/corner.npy" --cell 90 \
  --library "$build/terrain-host/libterrain.so" --kernels "$work/out/kernels" --out "$work/wrong"

printf 'passed\n'
