#!/usr/bin/env bash
# Builds misuse.cu with the generated heat2d, heat3d_f32 and the runtime by nvcc alone, and runs it. Exit 77: cannot run here.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=${1:-$here/../..}
build=${2:-${TMPDIR:-/tmp}/spider-gpu-misuse}

skip() {
  echo "skipped: $1"
  exit 77
}
command -v nvidia-smi >/dev/null || skip "no nvidia-smi, so no NVIDIA GPU"
capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>&1 | head -n 1) || skip "nvidia-smi: $capability"
[[ $capability =~ ^[0-9]+\.[0-9]+$ ]] || skip "nvidia-smi finds no GPU: $capability"
((${capability/./} >= 80)) || skip "compute capability $capability: sparse tensor cores begin at 8.0"
nvcc=$(command -v nvcc || true)
[[ -n $nvcc ]] || nvcc=/usr/local/cuda/bin/nvcc
[[ -x $nvcc ]] || skip "no nvcc on PATH or in /usr/local/cuda/bin"

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
