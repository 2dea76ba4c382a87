#!/usr/bin/env bash
# Runs on a GPU what the tests of the documentation run emulated or with a stand-in for the GPU: the programs of README.md
# and of the pages for Fortran and Python, built with CMake and without, and the commands of the pages of tests/.
# Exit 77: cannot run here; 1: something is not as written.
set -euo pipefail

usage() {
  cat <<'END'
usage: run_documentation.sh [--prefix DIR] [--cases DIR] [--keep DIR] [NAME...]
  --prefix    where spider-gen is installed (default: ~/.local)
  --cases     kernels of the accuracy tests, as the target spider-cases writes them (default: build/tests/cases)
  --keep      gets the folder evaluation/ that benchmark and faces write
  NAME        programs, languages, 'gpu tests', 'gpu cases', 'more gpu cases', benchmark, faces
              (default: all; benchmark and faces measure for minutes)
It takes nvcc, CMake for the programs, and a Python with NumPy and SciPy (PYTHON names one). Fortran needs gfortran.
END
}

root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)
prefix=$HOME/.local
cases=$root/build/tests/cases
keep=
names=()
while (($#)); do
  case $1 in
    --help) usage; exit 0 ;;
    --prefix | --cases | --keep)
      (($# > 1)) || { usage >&2; exit 2; }
      [[ $1 != --keep ]] || mkdir -p -- "$2"
      printf -v "${1#--}" %s "$(realpath -- "$2")"
      shift ;;
    -*) usage >&2; exit 2 ;;
    *) names+=("$1") ;;
  esac
  shift
done
((${#names[@]})) || names=(programs languages 'gpu tests' 'gpu cases' 'more gpu cases' benchmark faces)

skip() {
  echo "skipped: $1"
  exit 77
}
nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null || skip 'nvidia-smi finds no GPU'
nvcc=$(command -v nvcc || command -v "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc") || skip 'there is no nvcc'
python=
for candidate in ${PYTHON:-} python3 /usr/bin/python3; do
  if "$candidate" -c 'import numpy, scipy' 2>/dev/null; then
    python=$(command -v "$candidate")
    break
  fi
done
[[ $python ]] || skip 'no Python has NumPy and SciPy; set PYTHON'
export PATH="$(dirname -- "$nvcc"):$PATH" CUDACXX=$nvcc PYTHON=$python

# A copy to work in, and a home with spider-gen in .local, as the pages have it.
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
mkdir -p -- "$work/home" "$work/tree/build/tests"
ln -s -- "$prefix" "$work/home/.local"
for folder in README.md generated generator runtime stencils templates tests; do cp -r -- "$root/$folder" "$work/tree"; done
[[ ! -d $cases ]] || ln -s -- "$cases" "$work/tree/build/tests/cases"
[[ ! -d $cases ]] || ln -s -- "$cases" "$work/tree/cases"

house=$root/tests/house
failed=()
for name in "${names[@]}"; do
  started=$SECONDS
  status=0
  case $name in
    programs) command=(check_docs.py run "$root" --prefix "$prefix" --nvcc "$nvcc" --gpu) ;;
    languages)
      command=(check_docs.py languages "$root" --prefix "$prefix" --python "$python" --gpu)
      if command -v gfortran >/dev/null; then command+=(--fortran); else echo 'skipped: Fortran: there is no gfortran'; fi ;;
    *) command=(run_commands.py --tree "$work/tree" --home "$work/home" --python "$python" --gpu "$name") ;;
  esac
  "$python" -B "$house/${command[0]}" "${command[@]:1}" >"$work/log" 2>&1 || status=$?
  if [[ $keep && -d $work/tree/evaluation ]]; then cp -r -- "$work/tree/evaluation" "$keep"; fi
  if ((status == 0)); then
    echo "$name: as written ($((SECONDS - started)) s)"
  else
    cat -- "$work/log"
    echo "$name: FAILED (exit status $status)"
    failed+=("$name")
  fi
done
if ((${#failed[@]})); then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
