#!/usr/bin/env bash
# The callers of tests/consumer and the misuse of misuse.cu, built for a GPU by nvcc alone and run on it: a line for each.
# Neither CMake nor, once the kernels are generated, spider-gen is needed. Exit 77: cannot run here; 1: a caller failed.
set -euo pipefail

usage() {
  cat <<'END_OF_USAGE'
usage: build_and_run_callers.sh [--spider-gen FILE] [--kernels DIR] [--build DIR] [--arch sm_90] [--jobs N]
                                [--steps generate,build,run] [--only "CALLER ..."]
  --spider-gen  generates the kernels, with the step generate
  --kernels     folder of the generated kernels, one folder a caller (default: in the folder of --build)
  --build       folder of what is compiled
  --arch        default: that of the first GPU
  --steps       default: build,run, and generate where --spider-gen is given; what one machine built another may run
  --only        some of: misuse c cpp graph acoustic fortran python (default: all)
PYTHON names the Python that calls (default: the first of python3, /usr/bin/python3 that has NumPy). PyTorch and CuPy take
part where it has them. Compilers of other languages that are missing are skipped, and said.
END_OF_USAGE
}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/steps.sh"
root=$(cd -- "$here/../.." && pwd)
callers=$root/tests/consumer
runtime=$root/runtime
spider_gen=
kernels=
build=${TMPDIR:-/tmp}/spider-gpu-callers
arch=
jobs=$(nproc)
steps=
only='misuse c cpp graph acoustic fortran python'
while (($#)); do
  case $1 in
    --help) usage; exit 0 ;;
    --spider-gen) spider_gen=${2:-} ;;
    --kernels) kernels=${2:-} ;;
    --build) build=${2:-} ;;
    --arch) arch=${2:-} ;;
    --jobs) jobs=${2:-} ;;
    --steps) steps=${2:-} ;;
    --only) only=${2:-} ;;
    *) usage >&2; exit 2 ;;
  esac
  (($# > 1)) || { usage >&2; exit 2; }
  shift 2
done
steps=${steps:-${spider_gen:+generate,}build,run}
kernels=${kernels:-$build/kernels}

asked() { [[ " $only " == *" $1 "* ]]; }
for caller in $only; do
  [[ " misuse c cpp graph acoustic fortran python " == *" $caller "* ]] || { usage >&2; exit 2; }
done

if wants run || { wants build && [[ -z $arch ]]; }; then
  find_gpu 80
fi
if wants build; then find_nvcc; fi
fortran=$(command -v gfortran || true)

if wants generate; then
  for caller in c cpp graph acoustic fortran python; do
    asked "$caller" || continue
    "$spider_gen" "$callers/$caller"/*.yaml -o "$kernels/$caller"
  done
  ! asked cpp || "$spider_gen" "$callers/cpp/upwind.yaml" --name fast_upwind -D c=1/2 -o "$kernels/cpp"
fi

objects=()
compile() {  # compile NAME SOURCE [FLAG...]: adds a command to the list, and its object to the current program's
  local object=$build/objects/$1.o source=$2
  shift 2
  objects+=("$object")
  commands+=("$(printf '%q ' "$nvcc" "-arch=$arch" -O2 -Werror all-warnings "$@" "-I$runtime/include" "-I$runtime/device" \
    -c "$source" -o "$object")")
}
link() { links+=("$(printf '%q ' "$nvcc" "-arch=$arch" "${objects[@]}" "${runtime_objects[@]}" "$@")"); }

build_callers() {
  local commands=() links=() runtime_objects=() source caller
  local cxx=(-std=c++17 -Xcompiler "-fPIC,-Wall,-Wextra,-Werror") c=(-Xcompiler "-std=c99,-Wall,-Wextra,-Wpedantic,-Werror")
  rm -rf -- "$build/objects"
  mkdir -p -- "$build/objects"
  for source in "$runtime"/src/*.cpp; do compile "runtime_$(basename -- "$source" .cpp)" "$source" "${cxx[@]}" "-I$runtime/src"; done
  runtime_objects=("${objects[@]}")
  for caller in $only; do
    objects=()
    if [[ $caller == misuse ]] || { [[ $caller == fortran ]] && [[ -z $fortran ]]; }; then continue; fi
    for source in "$kernels/$caller"/*.cu; do
      compile "${caller}_$(basename -- "$source" .cu)" "$source" "${cxx[@]}"
    done
    case $caller in
      c) compile c_main "$callers/c/main.c" "${c[@]}" "-I$kernels/c" ;;
      cpp)
        compile cpp_main "$callers/cpp/main.cpp" "${cxx[@]/c++17/c++20}" "-I$kernels/cpp" "-I$callers/cpp/filters"
        compile cpp_filters "$callers/cpp/filters/filters.cpp" "${cxx[@]/c++17/c++20}" "-I$kernels/cpp" ;;
      acoustic)
        for source in "$callers"/acoustic/*.cpp; do
          compile "acoustic_$(basename -- "$source" .cpp)_program" "$source" "${cxx[@]/c++17/c++20}" "-I$kernels/acoustic"
        done ;;
      graph) compile graph_main "$callers/graph/main.cpp" "${cxx[@]}" "-I$kernels/graph" ;;
    esac
    case $caller in
      fortran)
        # Its libraries go along, so that a machine without gfortran can run it.
        for source in "$runtime/fortran/spider.f90" "$callers/fortran/consumer.f90"; do
          objects+=("$build/objects/fortran_$(basename -- "$source" .f90).o")
          (cd -- "$build/objects" && "$fortran" -O2 -std=f2018 -Wall -Wextra -Werror -c "$source" -o "${objects[-1]}")
        done
        link "$("$fortran" -print-file-name=libgfortran.a)" "$("$fortran" -print-file-name=libquadmath.a)" -lm \
          -o "$build/fortran" ;;
      python) link -shared -o "$build/libconsumer.so" ;;
      *) link -lm -o "$build/$caller" ;;
    esac
  done
  side_by_side "${commands[@]}"
  side_by_side "${links[@]}"
}
if wants build; then build_callers; fi
wants run || exit 0

failed=()
report() {  # report CALLER COMMAND...: one line; all that it said where it failed
  local caller=$1 said
  shift
  if said=$("$@" 2>&1); then
    echo "$caller: passed: $(tail -n 1 <<<"$said")"
    grep -E '^skipped: |^one device|^two devices' <<<"$said" | sed "s/^/$caller: /" || true
  else
    echo "$caller: FAILED (exit status $?)"
    echo "$said"
    failed+=("$caller")
  fi
}
run_caller() {
  case $1 in
    misuse) report misuse bash "$here/build_and_run_misuse.sh" "$root" "$build/misuse" ;;
    python)
      local python
      for python in ${PYTHON:-} python3 /usr/bin/python3; do
        "$python" -c 'import numpy' 2>/dev/null || continue
        PYTHONPATH=$runtime/python report python "$python" -B "$callers/python/consumer.py" "$build/libconsumer.so"
        return
      done
      echo "python: skipped: no Python has NumPy" ;;
    *)
      if [[ -x $build/$1 ]]; then
        report "$1" "$build/$1"
      else
        echo "$1: skipped: there is no gfortran"
      fi ;;
  esac
}
for caller in $only; do run_caller "$caller"; done
if ((${#failed[@]})); then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
