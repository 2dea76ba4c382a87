#!/usr/bin/env bash
# A wheel of this checkout, installed into a bare virtual environment and used: test_wheel.sh ROOT WORK PYTHON SPIDER_GEN
# The generator is the one that is built already. Skipped where pip cannot get scikit-build-core and NumPy.
set -euo pipefail
root=$1 work=$2 python=$3 spider_gen=$4
rm -rf -- "$work"
mkdir -p -- "$work"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_RETRIES=0 PIP_TIMEOUT=10
unset PYTHONPATH
if ! "$python" -m venv "$work/venv" >"$work/log" 2>&1; then
  printf 'skipped: no module venv (python3-venv)\n'
  exit
fi
pip() { "$work/venv/bin/python" -m pip -q "$@"; }
if ! pip download -d "$work/downloads" 'scikit-build-core>=0.10' 'numpy>=1.22' >"$work/log" 2>&1; then
  printf 'skipped: pip finds no scikit-build-core and NumPy here\n'
  exit
fi
pip wheel --no-deps --find-links "$work/downloads" -w "$work/wheels" \
  --config-settings cmake.define.SpiderGen_EXECUTABLE="$spider_gen" "$root"
wheel=$(echo "$work"/wheels/spider_gen-*.whl)
case $wheel in
  *-py3-none-*.whl) ;;
  *) printf '%s is not for any Python 3\n' "$wheel"; exit 1 ;;
esac
pip install --no-index --find-links "$work/downloads" "$wheel"
cd -- "$work"
"$work/venv/bin/python" - "$root" <<'END'
import sys

import numpy as np
import spider_gen

assert "/venv/" in spider_gen.__file__, spider_gen.__file__
heat = spider_gen.stencil(f"{sys.argv[1]}/stencils/heat2d.yaml", alpha=0.2, backend="host")
u = np.zeros((30, 40), np.float16)
u[15, 20] = 100
v = heat(u)
assert v[15, 20] == np.float16(20) and abs(v.sum(dtype=float) - 100) < 0.1, v[14:17, 19:22]
print("passed: a wheel in a bare environment")
END
