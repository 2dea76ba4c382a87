#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test that this machine can run: bash tests/run.sh [--quick] [--no-install]
# --quick leaves out the tests that build projects, run nvcc or clang-tidy, change specs, draw them at random, or break kernels,
# some long ones of Python, and most emulated kernels: under 3 minutes.
# Says what it skipped and why, and how long it took; the last line counts. The build is in build/.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

slow='consumer|python\.(wheel|jax|nvrtc|gray_scott|random|inversion|processes)|fuzz|gpu|errors\.(mutations|hostile)|benchmarks\.compile|house\.(compilers|fast_math|headers)'
slow+='|(emulated|host)\.(kernels|updates)|emulated\.self_test|generated\.(compiles|warnings|spills)'
slow+='|house\.tidy|(systems|adjoint|images|passes)\.(random|sums|u8|emulat)'
install=yes
targets=(all fuzz_targets)
chosen=()
for argument in "$@"; do
  case $argument in
    --no-install) install=no ;;
    --quick) chosen=(-C Quick -E "^($slow)") targets=(all) ;;
    -h | --help) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) printf 'usage: bash tests/run.sh [--quick] [--no-install]\n' >&2; exit 2 ;;
  esac
done

packages=(git cmake make ninja-build g++ clang-format clang-tidy libyaml-cpp-dev libmuparser-dev libfmt-dev libboost-program-options-dev
  libboost-context-dev libgtest-dev python3-venv python3-numpy python3-scipy python3-matplotlib python3-yaml python3-jsonschema doxygen gfortran
  clang libclang-rt-14-dev libopenmpi-dev openmpi-bin libmpich-dev mpich python3-mpi4py ccache)

install_missing() {
  command -v dpkg-query >/dev/null || return 0  # not Debian: the build says what it misses
  local package missing=()
  for package in "${packages[@]}"; do
    # shellcheck disable=SC2016  # the braces are dpkg's
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null) == installed ]] || missing+=("$package")
  done
  if ((${#missing[@]} == 0)) || [[ $install == no && ${missing[*]} == ccache ]]; then  # without it all is slower
    return
  fi
  local as_root=()
  if [[ $install == yes ]] && ((EUID != 0)) && command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    as_root=(sudo)
  elif [[ $install == no ]] || ((EUID != 0)); then
    printf 'Packages are missing. Run:\n  sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n' \
      "${missing[*]}" >&2
    exit 1
  fi
  printf 'Installing %s\n' "${missing[*]}"
  "${as_root[@]}" apt-get update -q
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

install_missing
jobs=$(nproc)

# CMake looks for nvcc on PATH; a toolkit at its usual place counts, too.
if ! command -v nvcc >/dev/null && [[ -x ${CUDA_HOME:-/usr/local/cuda}/bin/nvcc ]]; then
  PATH=${CUDA_HOME:-/usr/local/cuda}/bin:$PATH
fi

# The tests' projects, pages and Python packages compile the same sources several times: compilers go through a cache, where one is.
if [[ -d /usr/lib/ccache ]]; then
  export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=${CCACHE_DIR:-$PWD/build/ccache}
fi

begin=$SECONDS
cmake --preset ci
cmake --build --preset ci -j "$jobs" --target "${targets[@]}"
built=$SECONDS
results=$PWD/build/test-results.xml
rm -f -- "$results"
status=0
# One more than there are processors: tests with projects wait for whole seconds of the clock, and for files.
ctest --preset ci -j "$((jobs + 1))" "${chosen[@]}" --output-junit "$results" || status=$?
times="build: $((built - begin)) s, tests: $((SECONDS - built)) s, $((jobs + 1)) at a time"

# The summary is made of what ctest wrote down. Exit status 0 without a result would be no success.
python3 - "$results" "$status" "$times" <<'END'
import sys
import xml.etree.ElementTree as tree

results, status, times = sys.argv[1], int(sys.argv[2]), sys.argv[3]
passed, failed, skipped = [], [], []
for case in tree.parse(results).getroot().iter("testcase"):
    outcome = case.get("status")
    if outcome == "run":
        passed.append(case.get("name"))
    elif outcome in ("notrun", "disabled"):
        text = case.findtext("system-out") or ""
        reasons = [line.split("skipped:", 1)[1].strip() for line in text.splitlines() if "skipped:" in line]
        skipped.append((case.get("name"), reasons[0] if reasons else outcome))
    else:
        failed.append(case.get("name"))
for name, reason in skipped:
    print(f"skipped: {name}: {reason}")
for name in failed:
    print(f"failed: {name}")
print(times)
print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
sys.exit(0 if passed and not failed and status == 0 else 1)
END
