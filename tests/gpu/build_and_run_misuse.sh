#!/usr/bin/env bash
# Builds misuse.cu with the generated heat2d, heat3d_f32 and the runtime by nvcc alone, and runs it. Exit 77: cannot run here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/steps.sh"
root=${1:-$here/../..}
build=${2:-${TMPDIR:-/tmp}/spider-gpu-misuse}

arch=
find_gpu 80
find_nvcc
arch=${capability/./}
# Device code of another generation, without PTX that could be translated.
other=$((arch < 90 ? 90 : 80))
mkdir -p "$build"
flags=(-std=c++17 -O2 "-I$root/runtime/include" "-I$root/runtime/device" "-I$root/generated" "-arch=sm_$arch")
kernel=$root/generated/heat2d.cu
"$nvcc" "${flags[@]}" -c "$here/misuse.cu" -o "$build/misuse.o"
"$nvcc" "${flags[@]}" -c "$kernel" -o "$build/own.o"
"$nvcc" "${flags[@]}" -c "$root/generated/heat3d_f32.cu" -o "$build/volume.o"
"$nvcc" "${flags[@]/-arch=sm_$arch/-gencode=arch=compute_$other,code=sm_$other}" -c "$kernel" -o "$build/other.o"
"$nvcc" "${flags[@]}" -o "$build/misuse" "$build/misuse.o" "$build/own.o" "$build/volume.o" "$root"/runtime/src/*.cpp
"$nvcc" "${flags[@]}" -o "$build/misuse_image" "$build/misuse.o" "$build/other.o" "$build/volume.o" "$root"/runtime/src/*.cpp
failed=0
"$build/misuse" || failed=1
"$build/misuse" lost || failed=1
"$build/misuse" reset || failed=1
"$build/misuse_image" image || failed=1
exit "$failed"
