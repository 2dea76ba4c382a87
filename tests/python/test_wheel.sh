#!/usr/bin/env bash
# A wheel of this checkout, by build_wheel.sh, where no library of the generator is: test_wheel.sh ROOT WORK PYTHON SPIDER_GEN
# The generator is the one that is built already: zig takes minutes. Skipped where pip cannot get what that takes, or where no
# mount namespace hides libraries.
set -euo pipefail
root=$1 work=$2 python=$3 spider_gen=$4
rm -rf -- "$work" "$root/build/wheel/of"
mkdir -p -- "$work"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_RETRIES=0 PIP_TIMEOUT=10 PYTHON=$python
unset PYTHONPATH
if ! "$python" -m venv "$work/venv" >"$work/log" 2>&1; then
  printf 'skipped: no module venv (python3-venv)\n'
  exit
fi
pip() { "$work/venv/bin/python" -m pip -q "$@"; }
if ! pip download -d "$work/downloads" 'scikit-build-core>=0.10' auditwheel 'numpy>=1.22' >"$work/log" 2>&1; then
  printf 'skipped: pip finds no scikit-build-core, auditwheel and NumPy here\n'
  exit
fi
hide=(unshare --mount)
((EUID == 0)) || hide+=(--map-root-user)
if ! "${hide[@]}" mount --bind /dev/null "$work/log" 2>/dev/null; then
  printf 'skipped: unshare and mount hide no file here\n'
  exit
fi
bash "$root/runtime/python/build_wheel.sh" -o "$work/dist" --of "$spider_gen"
wheel=$(echo "$work"/dist/spider_gen-*.whl)

# What the package takes from its folder, whether RECORD has every file as it is, and the tag.
"$python" - "$wheel" "$root" <<'END'
import base64
import csv
import hashlib
import pathlib
import sys
import zipfile

wheel, root = zipfile.ZipFile(sys.argv[1]), pathlib.Path(sys.argv[2])
names = {name for name in wheel.namelist() if not name.endswith("/")}
record = next(name for name in names if name.endswith(".dist-info/RECORD"))
listed = {row[0]: row[1] for row in csv.reader(wheel.read(record).decode().splitlines())}
assert set(listed) == names, set(listed) ^ names
for name in names - {record}:
    digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest()).rstrip(b"=").decode()
    assert listed[name] == f"sha256={digest}", name
wanted = {"spider_gen/bin/spider-gen", "spider_gen/lib/libspider_driver.so", "spider_gen/spider.py"}
wanted |= {f"spider_gen/{file.relative_to(root)}" for file in (root / "runtime/nvrtc").rglob("*") if file.is_file()}
wanted |= {f"spider_gen/{file.name}" for file in (root / "runtime/python/spider_gen").glob("*.py")}
for folder in ("device", "include", "src", "host"):
    files = [file for file in (root / "runtime" / folder).rglob("*") if file.suffix in (".h", ".hpp", ".cpp")]
    assert files, folder
    wanted |= {f"spider_gen/{file.relative_to(root)}" for file in files}
assert wanted <= names, wanted - names
foreign = [name for name in names if ".pyc" in name or name.startswith(("tests", "generator"))]
assert not foreign, foreign
assert wheel.getinfo("spider_gen/bin/spider-gen").external_attr >> 16 & 0o111, "the generator cannot be run"
tags = wheel.read(record.replace("RECORD", "WHEEL")).decode()
assert "Tag: py3-none-manylinux_2_" in tags and "-py3-none-manylinux_2_" in sys.argv[1], tags
END

pip install --no-index --find-links "$work/downloads" "$wheel"
cd -- "$work"
cat >sweep.py <<'END'
import sys

import numpy as np
import spider_gen

assert "/venv/" in spider_gen.__file__, spider_gen.__file__
heat = spider_gen.stencil(f"{sys.argv[1]}/stencils/heat2d.yaml", alpha=0.2, backend="host")
u = np.zeros((30, 40), np.float16)
u[15, 20] = 100
v = heat(u)
assert v[15, 20] == np.float16(20) and abs(v.sum(dtype=float) - 100) < 0.1, v[14:17, 19:22]
END
# shellcheck disable=SC2016  # of the inner shell
"${hide[@]}" bash -euc '
  root=$1 spider_gen=$2
  hidden=0
  for library in $(ldd "$spider_gen" | grep -oE "/[^ ]*(yaml-cpp|muparser|libfmt|libboost)[^ ]*"); do
    mount --bind /dev/null "$library"
    hidden=$((hidden + 1))
  done
  if ((hidden)) && "$spider_gen" --version 2>/dev/null; then
    echo "the libraries are not hidden"
    exit 1
  fi
  venv/bin/spider-gen --version
  venv/bin/spider-gen "$root/stencils/heat2d.yaml" -o out
  cmp out/heat2d.cu "$root/generated/heat2d.cu"
  venv/bin/python sweep.py "$root"' within "$root" "$spider_gen"
printf 'passed: a wheel without the libraries\n'
