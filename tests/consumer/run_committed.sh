#!/usr/bin/env bash
# Kernels committed to a foreign repository, by the way of runtime/building.md: run_committed.sh PREFIX ROOT PYTHON WORK [NVCC]
# They are generated, committed, compiled with nvcc and the installed folder alone, and checked by that repository's CI while
# spider-gen changes. WORK is emptied before.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/steps.sh"
prefix=$1 root=$2 python=$3 work=$4 nvcc=${5:-}
log=$work/log
if ! command -v git >/dev/null; then
  printf 'skipped: there is no git\n'
  exit 0
fi
rm -rf -- "$work"
mkdir -p -- "$work/application/stencils"

# block NAME FILE: the commands that the pages have under that name.
block() {
  PYTHONPATH=$root/tests/house "$python" -B -c '
import pathlib, sys, check_docs
print("set -eu\n" + check_docs.block_of_any_page(pathlib.Path(sys.argv[1]), sys.argv[2]))' "$root" "$1" >"$2"
}
block "commit kernels" "$work/commit.sh"
block "check kernels" "$work/ci.sh"
grep -q -- --check "$work/ci.sh" || fail "the page's commands for CI check nothing"

cd "$work/application"
cp -- "$root/stencils/heat2d.yaml" stencils
cp -- "$here/three_lines/heat.c" .
export PATH=$prefix/bin:$PATH HOME=$work GIT_CONFIG_NOSYSTEM=1
git init -q
git config user.name Stranger
git config user.email stranger@example.org

quietly "generating and committing" bash "$work/commit.sh"
[[ $(git ls-files kernels) == $'kernels/heat2d.cu\nkernels/heat2d.h' ]] || fail "committed: $(git ls-files)"
ci() { bash "$work/ci.sh" >"$log" 2>&1; }
ci || { cat "$log" >&2; fail "CI fails on what was just committed"; }
git diff --quiet || fail "CI wrote something"

if [[ -n $nvcc ]]; then
  runtime=$prefix/share/spider-gen/runtime
  quietly "compiling" env -i "PATH=$(dirname -- "$nvcc"):/usr/bin:/bin" "$nvcc" -std=c++17 -arch=sm_90 heat.c \
    kernels/heat2d.cu "$runtime"/src/*.cpp -I kernels -I "$runtime/include" -I "$runtime/device" -o "$work/heat"
  if nvidia-smi >/dev/null 2>&1; then "$work/heat"; fi
else
  printf 'There is no nvcc: nothing is compiled.\n'
fi

# Kernels of another version: the version alone is no difference, a changed text is.
sed -i 's/spider-gen version [0-9.]*[0-9]/spider-gen version 0.0.9/' kernels/heat2d.cu kernels/heat2d.h
git commit -qam "Pretend that an older spider-gen wrote the kernels"
ci || { cat "$log" >&2; fail "CI fails where only the version differs"; }
sed -i 's/^constexpr .*/&  \/\/ as an older version wrote it/' kernels/heat2d.cu
git commit -qam "Pretend that it wrote them differently"
if ci; then fail "CI passes although the kernel is not what would be written"; fi
grep -q '^kernels/heat2d\.cu: error: ' "$log" || { cat "$log" >&2; fail "CI does not name the stale file"; }
! grep -q '^kernels/heat2d\.h: ' "$log" || fail "CI names a file that is only of another version"
git diff --quiet || fail "CI wrote something"

# The command that the message gives mends it, and what was committed first comes back.
mending=$(sed -n 's/.*mend it with: //p' "$log" | head -n 1)
[[ $mending == spider-gen\ * ]] || { cat "$log" >&2; fail "the message has no command that mends it"; }
quietly "$mending" bash -euc "$mending"
ci || { cat "$log" >&2; fail "CI fails after: $mending"; }
git diff --quiet HEAD~2 -- kernels || fail "generating again gives other files than before"

# So does a spec that was changed without its kernels.
git commit -qam "Generate again"
sed -i 's/^description:.*/description: another one/' stencils/heat2d.yaml
if ci; then fail "CI passes although the spec has changed"; fi
rm -- kernels/heat2d.h
if ci; then fail "CI passes although a file is missing"; fi
grep -q '^kernels/heat2d\.h: error: is missing' "$log" || { cat "$log" >&2; fail "CI does not name the missing file"; }
printf 'passed\n'
