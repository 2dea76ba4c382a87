#!/usr/bin/env bash
# Installs a wheel or an sdist of dist/ where no library of the generator is, and uses it; run.sh runs it in a chroot:
#   bash tests/bare/run.sh --with dist 'bash tests/bare/use_package.sh FILE'
#   FILE  in dist/, or a pattern of one; an sdist takes g++, CMake and make, and scikit-build-core's wheels in dist/
set -euo pipefail
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.."
# shellcheck disable=SC2206  # a pattern
files=(dist/${1:?FILE})
file=${files[0]}
install() {
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@" >/root/apt.log 2>&1 ||
    { tail -n 20 /root/apt.log; exit 1; }
}
apt-get update -q >/root/apt.log 2>&1
install python3-venv python3-numpy
if ldconfig -p | grep -E 'yaml-cpp|muparser|libfmt|libboost'; then
  echo "a library is here already"
  exit 1
fi
python3 -m venv --system-site-packages /root/venv
export PATH=/root/venv/bin:$PATH PIP_DISABLE_PIP_VERSION_CHECK=1
if [[ $file == *.whl ]]; then
  pip install -q --no-index --find-links dist "$file"
else
  install g++ cmake make
  pip install -q --no-index --find-links dist scikit-build-core
  export CMAKE_BUILD_PARALLEL_LEVEL; CMAKE_BUILD_PARALLEL_LEVEL=$(nproc)  # make has no default
  time pip install -q --no-index --no-build-isolation "$file"
fi
mkdir /root/elsewhere
cp -r stencils generated /root/elsewhere/
cd /root/elsewhere
spider-gen --version
spider-gen stencils/heat2d.yaml -o out
cmp out/heat2d.cu generated/heat2d.cu

cat >sweep.py <<'END'
import numpy as np
import spider_gen

heat = spider_gen.stencil("stencils/heat2d_f32.yaml", alpha=0.2, backend="host")
u = np.zeros((30, 40), np.float32)
u[15, 20] = 100
v = heat(u)
assert abs(v[15, 20] - 20) < 1e-4 and abs(v.sum() - 100) < 1e-3, v[14:17, 19:22]
print("a sweep on the host is right")
END
if ! command -v g++ >/dev/null; then
  if python3 sweep.py 2>said; then
    echo "there was a sweep without a compiler"
    exit 1
  fi
  grep 'g++ 11 or newer' said
  install g++
fi
python3 sweep.py
