#!/usr/bin/env bash
# A stranger's project of three lines on the installed package: run_stranger.sh CASE PREFIX SPEC WORK [NVCC]
# SPEC is heat2d.yaml; WORK is emptied before. The cases are the functions below whose names begin with case_.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/steps.sh"
case=$1 prefix=$2 spec=$3 work=$4 nvcc=${5:-}
build=$work/build
log=$work/build.log
rm -rf -- "$work"
mkdir -p -- "$work/source"

# write_project LANGUAGES [sed command for the three lines]
write_project() {
  {
    printf 'cmake_minimum_required(VERSION 3.25)\nproject(stranger LANGUAGES %s)\n' "$1"
    sed "${2:-}" "$here/three_lines/spider.cmake"
  } >"$work/source/CMakeLists.txt"
  cp -- "$here/three_lines/heat.c" "$spec" "$work/source"
}

emulated='s/heat2d.yaml/heat2d.yaml BACKEND emulated/'

# Takes nvcc away, wherever it is.
hide_nvcc() {
  local folder path=
  while IFS= read -r -d : folder; do
    [[ -x $folder/nvcc ]] || path=$path${path:+:}$folder
  done <<<"$PATH:"
  export PATH=$path
  unset CUDACXX CUDA_PATH CUDA_HOME CUDAToolkit_ROOT
  ! command -v nvcc >/dev/null || fail "nvcc is still there"
}

without_cuda=-DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON

case_without_nvcc() {
  hide_nvcc
  write_project "C CXX" "$emulated"
  configure -S "$work/source" "-DCMAKE_PREFIX_PATH=$prefix" $without_cuda
  build "three lines"
  "$build/heat"
  expect_nothing_to_do "second build"
  expect_optimised
  # The default is no silent emulation.
  write_project "C CXX"
  if cmake -S "$work/source" -B "$work/default" "-DCMAKE_PREFIX_PATH=$prefix" $without_cuda >"$log" 2>&1; then
    fail "BACKEND cuda was accepted without CUDA"
  fi
  expect_words 'project(... LANGUAGES CXX CUDA)' "the default back end without CUDA"
}

# optimised_as COUNT [cmake option...]: in how many configurations the emulator and the kernel have -O2.
optimised_as() {
  local wanted=$1 file count
  shift
  cmake -S "$work/source" -B "$work/options" "-DCMAKE_PREFIX_PATH=$prefix" $without_cuda -DCMAKE_EXPORT_COMPILE_COMMANDS=ON "$@" \
    >"$log" 2>&1 || { cat "$log" >&2; fail "configuring with $*"; }
  for file in heat2d_emulated.cpp spider_emulator.dir/Unity/; do
    count=$(grep '"command":' "$work/options/compile_commands.json" | grep -F "$file" | grep -c -e ' -O2 ' || true)
    [[ $count == "$wanted" ]] || fail "$file has -O2 in $count configurations, not $wanted, with ${*:-nothing}"
  done
  rm -rf -- "$work/options"
}

# Without a build type emulated kernels are optimised; what a project says comes first.
expect_optimised() {
  optimised_as 1
  optimised_as 0 -DCMAKE_BUILD_TYPE=Debug
  optimised_as 0 -DCMAKE_CXX_FLAGS='-g -O1'
  optimised_as 0 -G "Ninja Multi-Config" "-DCMAKE_CONFIGURATION_TYPES=Debug;Release"
  sed -i 's/^project.*/&\nadd_compile_options(-Og)/' "$work/source/CMakeLists.txt"
  optimised_as 0
}

case_with_nvcc() {
  write_project "C CXX CUDA"
  configure -S "$work/source" "-DCMAKE_PREFIX_PATH=$prefix" "-DCMAKE_CUDA_COMPILER=$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90
  build "three lines"
  did 'Building CUDA object' || fail "nothing was compiled by nvcc"
  if nvidia-smi >/dev/null 2>&1; then "$build/heat"; fi
  expect_nothing_to_do "second build"
}

case_moved() {
  write_project "C CXX" "$emulated"
  cp -rp -- "$prefix" "$work/first place"
  configure -S "$work/source" -G Ninja "-DCMAKE_PREFIX_PATH=$work/first place"
  build "first place"
  mv -- "$work/first place" "$work/other place"
  configure -S "$work/source" "-DCMAKE_PREFIX_PATH=$work/other place"
  build "other place"
  "$build/heat"
  expect_nothing_to_do "after the move"
  ! grep -rIlF -- "first place" "$build/build.ninja" || fail "the build still looks at the first place"
}

# A prefix for another machine, whose spider-gen does not run here.
case_cross() {
  write_project "C CXX" "$emulated"
  cp -rp -- "$prefix" "$work/sysroot"
  printf 'no program of this machine' >"$work/sysroot/bin/spider-gen"
  printf 'set(CMAKE_SYSTEM_NAME Linux)\nset(CMAKE_SYSTEM_PROCESSOR foreign)\n' >"$work/toolchain.cmake"
  printf '#!/bin/sh\necho "$@" >>"%s/calls"\nexec "%s/bin/spider-gen" "$@"\n' "$work" "$prefix" >"$work/host-tool"
  chmod +x -- "$work/host-tool"
  local options=("-DCMAKE_TOOLCHAIN_FILE=$work/toolchain.cmake" "-DCMAKE_PREFIX_PATH=$work/sysroot")
  if cmake -S "$work/source" -B "$work/refused" "${options[@]}" >"$log" 2>&1; then
    fail "a spider-gen that does not run was accepted"
  fi
  expect_words 'Set SpiderGen_EXECUTABLE' "a spider-gen of another machine"

  configure -S "$work/source" "${options[@]}" "-DSpiderGen_EXECUTABLE=$work/host-tool"
  build "cross build"
  grep -q -- '-o .*heat2d' "$work/calls" || fail "the host's tool was not called"
  "$build/heat"
  expect_nothing_to_do "second build"

  sed -i 's/^exec.*/echo spider-gen version 0.0.9/' "$work/host-tool"
  if cmake "$build" >"$log" 2>&1; then
    fail "a host tool of another version was accepted"
  fi
  expect_words "is 'spider-gen version 0.0.9'" "a host tool of another version"
}

# What is installed names neither this machine's build nor a place of its own.
case_installed_files() {
  local found
  found=$(grep -rIlF -e "${prefix%/tests/consumer/*}/" -e "$(cd -- "$here/../.." && pwd)" -- "$prefix") || true
  [[ -z $found ]] || fail "these files name a folder of the machine that built them: $found"
  for file in bin/spider-gen share/cmake/SpiderGen/SpiderGenConfig{,Version}.cmake share/spider-gen/{LICENSE,spider-gen.schema.json} \
    share/spider-gen/runtime/{include/spider/spider.h,src/api.cpp,emulator/block.cpp,python/spider.py,fortran/spider.f90}; do
    [[ -e $prefix/$file ]] || fail "$file is not installed"
  done
  [[ -z $(find "$prefix" -name '__pycache__' -o -name '*.yaml' -path '*tests*') ]] || fail "too much is installed"
}

"case_$case"
printf 'passed: %s\n' "$case"
