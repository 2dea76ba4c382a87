#!/usr/bin/env bash
# check_compilers.sh SOURCE BUILD [all]: the runtime, host kernels and a program with g++ and clang++, or with all versions of
# them that are installed, with warnings as errors. The program compares sweeps with plain loops.
set -euo pipefail
source=$1 build=$2
runtime=$source/runtime
mkdir -p "$build"

options=(-std=c++20 -O2 -Wall -Wextra -Wpedantic -Werror -ffp-contract=off -DSPIDER_HOST)
for folder in "$runtime"/{include,device,src,.,host} "$source"/{generated,tests/host}; do options+=("-I$folder"); done
# The runtime in one piece, as it is built.
for file in "$runtime"/src/*.cpp "$runtime"/host/*.cpp; do
  [[ $file == */backend_cuda.cpp ]] || printf '#include "%s"\n' "$file"
done >"$build/runtime.cpp"
sources=("$build/runtime.cpp" "$source"/tests/host/{host_bench,plain_loops}.cpp)

tried=()
compilers=(g++ clang++)
[[ ${3:-} == all ]] && compilers+=(g++-{10,11,12,13,14} clang++-{13,14,15,16,17,18,19})
for compiler in "${compilers[@]}"; do
  command -v "$compiler" > /dev/null || continue
  version=${compiler%%+*}$("$compiler" -dumpfullversion -dumpversion)  # behind a compiler cache all have the same file
  [[ " ${tried[*]} " == *" $version "* ]] && continue  # by another name
  tried+=("$version")
  openmp=()
  if echo '#include <omp.h>' | "$compiler" -fopenmp -x c++ - -shared -fPIC -o "$build/openmp.so" 2> /dev/null; then
    openmp=(-fopenmp)
  fi
  echo "$("$compiler" --version | sed -n 1p), ${openmp[*]:-without OpenMP}"
  "$compiler" "${options[@]}" "${openmp[@]}" "${sources[@]}" -o "$build/sweeps"
  "$build/sweeps" --extent 100 --repeats 1 > "$build/said" || { cat "$build/said"; exit 1; }
done
for family in g++ clang++; do
  command -v "$family" > /dev/null || echo "there is no $family here: not tried"
done
