#!/usr/bin/env bash
# Builds spider-bench and a library of generated kernels with nvcc alone, and runs it.
# usage: run.sh [--generated DIR] [--arch sm_90] [--build DIR] [-- options of spider-bench]
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
generated=$root/generated
arch=sm_90
build=${TMPDIR:-/tmp}/spider-bench
while (($#)); do
  case $1 in
    --generated) generated=$2; shift 2 ;;
    --arch) arch=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --) shift; break ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
mkdir -p "$build"
includes=(-I"$root/runtime/include" -I"$root/runtime/device" -I"$root/runtime/src" -I"$generated")
flags=(-O3 -arch="$arch" -cudart shared -Xcompiler -fPIC,-Wall,-Wextra "${includes[@]}")
compile() { nvcc "${flags[@]}" -c "$1" -o "$build/$(basename "$1").o"; }
sources=("$generated"/*.cu "$root"/runtime/src/*.cpp)
echo "compiling ${#sources[@]} files for $arch"
running=0
for source in "${sources[@]}"; do
  compile "$source" &
  if ((++running >= $(nproc))); then wait -n; ((running--)); fi
done
while ((running-- > 0)); do wait -n; done
objects=("${sources[@]##*/}")
(cd "$build" && nvcc -shared -cudart shared -arch="$arch" "${objects[@]/%/.o}" -o libkernels.so)
nvcc -std=c++17 "${flags[@]}" "$root/tests/benchmarks/spider_bench.cu" -o "$build/spider-bench" -ldl
"$build/spider-bench" --library "$build/libkernels.so" "$@"
