#!/usr/bin/env bash
# From stencils in YAML to results on real data, on a fresh Debian 12 machine: installs what is missing, builds
# spider-gen, generates kernels, builds an application around them (tests/consumer/terrain) and lets it analyse an
# elevation model.
set -euo pipefail

usage() {
  cat <<'END'
usage: bash stencils/quickstart.sh [grid.npy] [--cell METRES] [--diffuse STEPS] [--out DIR] [--build DIR]
                                   [--backend auto|cuda|host|emulated] [--no-install] [--installed DIR]

  grid.npy      2D heights in metres, row 0 northernmost; without it the Jacksboro fault DEM that matplotlib ships
  --cell        metres from cell to cell of grid.npy (30)
  --diffuse     steps of hillslope diffusion in f32, many in a sweep, beside single ones and double precision (none)
  --out         folder for kernels, fields and the picture (out)
  --build       folder for what is compiled (build/quickstart)
  --backend     where the kernels run; auto takes a GPU if there is one, and else the CPU
  --no-install  name the missing packages instead of installing them
  --installed   where spider-gen is installed already; without it, it is built here
END
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
started=$SECONDS

fail() {
  printf 'quickstart: error: %s\n' "$*" >&2
  exit 1
}

step() { printf '\n== %s\n' "$*"; }

show() {
  printf '$'
  printf ' %q' "$@"
  printf '\n'
}

# Shows the command, runs it, and says how long it took.
run() {
  show "$@"
  local begin=$EPOCHREALTIME
  "$@" || fail "that failed"
  took "$begin"
}

# The same, with standard output in a file.
run_into() {
  local file=$1
  shift
  printf '%s > %q\n' "$(show "$@")" "$file"
  local begin=$EPOCHREALTIME
  "$@" >"$file" || fail "that failed"
  took "$begin"
}

# The same for commands with much to say: it goes to a log, and to the terminal only if they fail.
run_quietly() {
  local log=$1
  shift
  show "$@"
  local begin=$EPOCHREALTIME
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    fail "that failed; all of its output is in $log"
  fi
  took "$begin"
}

took() {
  local now=$EPOCHREALTIME
  local milliseconds=$(((${now/[.,]/} - ${1/[.,]/}) / 1000))
  printf '  (%d.%03d s)\n' $((milliseconds / 1000)) $((milliseconds % 1000))
}

# --- the command line ---

grid=
cell=
diffuse=0
out=out
build=build/quickstart
backend=auto
install=yes
installed=

# A path as the user meant it, seen from the root of the checkout.
from_root() { realpath -m --relative-base="$root" -- "$1"; }

parse_arguments() {
  while (($# > 0)); do
    case $1 in
      --cell | --diffuse | --out | --build | --backend | --installed)
        (($# > 1)) || { usage >&2; exit 2; }
        case $1 in
          --cell) cell=$2 ;;
          --diffuse) diffuse=$2 ;;
          --out) out=$(from_root "$2") ;;
          --build) build=$(from_root "$2") ;;
          --backend) backend=$2 ;;
          --installed) installed=$(from_root "$2") ;;
        esac
        shift ;;
      --no-install) install=no ;;
      -h | --help) usage; exit 0 ;;
      -*) usage >&2; exit 2 ;;
      *)
        [[ -z $grid ]] || { usage >&2; exit 2; }
        grid=$(from_root "$1") ;;
    esac
    shift
  done
  [[ $backend =~ ^(auto|cuda|host|emulated)$ ]] || { usage >&2; exit 2; }
  [[ $diffuse =~ ^[0-9]+$ ]] || fail "--diffuse takes a number of steps, not $diffuse"
  [[ -z $cell || -n $grid ]] || fail "--cell belongs to a grid of your own"
}

# --- what the machine has ---

# The first Python that has the libraries: the one on PATH may be somebody's own, without Debian's packages.
find_python() {
  local candidate
  for candidate in python3 /usr/bin/python3; do
    if "$candidate" -c 'import numpy, scipy.ndimage, matplotlib' >/dev/null 2>&1; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

missing_packages() {
  local tool
  for tool in cmake:cmake c++:g++ make:make; do
    command -v "${tool%:*}" >/dev/null || printf '%s\n' "${tool#*:}"
  done
  local libraries=()
  if [[ -z $installed ]]; then
    libraries+=(libyaml-cpp-dev libmuparser-dev libfmt-dev libboost-program-options-dev)
  fi
  if [[ $backend != cuda ]]; then libraries+=(libboost-context-dev); fi
  local library
  for library in "${libraries[@]}"; do
    # shellcheck disable=SC2016  # the braces are dpkg's
    [[ $(dpkg-query -W -f '${db:Status-Status}' "$library" 2>/dev/null) == installed ]] || printf '%s\n' "$library"
  done
  find_python >/dev/null || printf '%s\n' python3-numpy python3-scipy python3-matplotlib
}

install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    printf 'This is no Debian: the build will say what it misses.\n'
    return
  fi
  local packages
  mapfile -t packages < <(missing_packages)
  if ((${#packages[@]} == 0)); then
    printf 'Nothing is missing.\n'
    return
  fi
  local command=(apt-get install -y --no-install-recommends "${packages[@]}")
  if [[ $install == no ]]; then
    fail "packages are missing; install them with: sudo ${command[*]}"
  elif ((EUID == 0)); then
    run apt-get update -q
    run env DEBIAN_FRONTEND=noninteractive "${command[@]}"
  elif command -v sudo >/dev/null && { sudo -n true 2>/dev/null || [[ -t 0 ]]; }; then
    run sudo apt-get update -q
    run sudo env DEBIAN_FRONTEND=noninteractive "${command[@]}"
  else
    fail "packages are missing and there is neither root nor sudo; run: sudo ${command[*]}"
  fi
}

# Sets nvcc and architectures; where there is no GPU to use, says why not and returns 1.
nvcc=
architectures=
find_gpu() {
  nvcc=$(command -v nvcc || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc") || {
    printf 'nvcc is not here\n'
    return 1
  }
  local release
  release=$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')
  if [[ $(printf '%s\n' 12.5 "$release" | sort -V | head -n 1) != 12.5 ]]; then
    printf 'CUDA 12.5 or newer is needed, %s is of CUDA %s\n' "$nvcc" "$release"
    return 1
  fi
  local capabilities
  capabilities=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null) || {
    printf 'nvidia-smi finds no GPU\n'
    return 1
  }
  architectures=$(tr -d '. ' <<<"$capabilities" | sort -un | paste -sd ';')
  if [[ ! $architectures =~ ^[0-9\;]+$ ]] || ((${architectures%%;*} < 80)); then
    printf 'a GPU of compute capability 8.0 or newer is needed, this is %s\n' "${capabilities//$'\n'/, }"
    return 1
  fi
}

choose_backend() {
  local reason
  if [[ $backend == emulated || $backend == host ]]; then
    reason="you asked for it"
  elif find_gpu >"$build/gpu.txt"; then
    backend=cuda
    reason="a GPU is here: $(nvidia-smi --query-gpu=name --format=csv,noheader | head -n 1)"
  else
    reason=$(<"$build/gpu.txt")
    [[ $backend == auto ]] || fail "the cuda back end cannot run here: $reason"
    backend=host
  fi
  printf 'Back end: %s (%s)\n' "$backend" "$reason"
}

# --- the steps ---

build_spider_gen() {
  if [[ -n $installed ]]; then
    printf 'It is installed in %s.\n' "$installed"
    return
  fi
  installed=$build/installed
  run_quietly "$build/configure.log" cmake -S . -B "$build/release" -DCMAKE_BUILD_TYPE=Release \
    -DSPIDER_BUILD_TESTS=OFF
  run_quietly "$build/build.log" cmake --build "$build/release" -j "$(nproc)"
  run_quietly "$build/install.log" cmake --install "$build/release" --prefix "$installed"
}

# The kernels, and beside them their explanations, from which the application takes the true weights for its reference.
generate_kernels() {
  local spider_gen=$installed/bin/spider-gen
  local options=(-o "$out/kernels" --explain --explain-format json)
  run_into "$out/kernels/shipped.json" "$spider_gen" stencils/gauss2d_r7.yaml stencils/sobel_x.yaml \
    stencils/sobel_y.yaml stencils/heat2d_f32.yaml stencils/heat2d_steps_f32.yaml "${options[@]}"
  run_into "$out/kernels/fitted.json" "$spider_gen" tests/consumer/terrain/terrain_curvature.yaml \
    -D "aspect=$aspect" "${options[@]}"
  (cd -- "$out/kernels" && wc -l -- *.cu *.h)
}

build_application() {
  local options=(-DCMAKE_BUILD_TYPE=Release -DTERRAIN_BACKEND="$backend" -DTERRAIN_ASPECT="$aspect"
    -DTERRAIN_KERNELS="$(realpath "$out")/kernels" -DCMAKE_PREFIX_PATH="$(realpath "$installed")")
  if [[ $backend == cuda ]]; then
    options+=(-DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architectures")
  fi
  local folder=$build/terrain-$backend
  run_quietly "$build/terrain-configure.log" cmake -S tests/consumer/terrain -B "$folder" "${options[@]}"
  run_quietly "$build/terrain-build.log" cmake --build "$folder" -j "$(nproc)"
}

main() {
  parse_arguments "$@"
  cd -- "$root"
  mkdir -p -- "$build" "$out/kernels"

  step "What is needed"
  install_packages
  local python data=()
  python=$(find_python) || fail "no python3 has numpy, scipy and matplotlib"
  printf 'Python: %s\n' "$python"
  if [[ -n $grid ]]; then data+=("$grid"); fi
  if [[ -n $cell ]]; then data+=(--cell "$cell"); fi
  # Reads the grid now, so that what is wrong with it is told before anything is built.
  local aspect
  aspect=$("$python" tests/consumer/terrain/terrain.py "${data[@]}" --print-aspect)
  printf 'A cell of the grid is %s times as high as wide.\n' "$aspect"
  choose_backend

  step "The generator"
  build_spider_gen

  step "The kernels"
  generate_kernels

  step "The application"
  build_application

  step "The analysis"
  run "$python" tests/consumer/terrain/terrain.py "${data[@]}" --library "$build/terrain-$backend/libterrain.so" \
    --kernels "$out/kernels" --out "$out" --diffuse "$diffuse"

  printf '\nDone in %d s. Look at %s\n' $((SECONDS - started)) "$out/terrain.png"
}

main "$@"
