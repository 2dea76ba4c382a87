#!/usr/bin/env bash
# test_jax.sh PYTHON FOLDER PROGRAM...: runs Python programs, each with its options in one word, where there is JAX 0.5 or newer: of
# that Python, else of an environment in the folder, into which pip installs JAX for the CPU. Skipped where pip cannot.
set -euo pipefail
python=$1 folder=$2
shift 2
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_RETRIES=0 PIP_TIMEOUT=10 JAX_PLATFORMS=cpu
if ! "$python" -c 'import jax.ffi' 2>/dev/null; then
  mkdir -p -- "$folder"
  if ! "$folder/venv/bin/python" -c 'import jax.ffi' 2>/dev/null; then
    rm -rf -- "$folder/venv"
    if ! "$python" -m venv --system-site-packages "$folder/venv" >"$folder/log" 2>&1; then
      printf 'skipped: no module venv (python3-venv)\n'
      exit
    fi
    if ! "$folder/venv/bin/python" -m pip -q install 'jax>=0.5' >"$folder/log" 2>&1; then
      printf 'skipped: there is no JAX, and pip finds none\n'
      exit
    fi
  fi
  python=$folder/venv/bin/python
fi
for program; do
  read -ra words <<<"$program"
  "$python" -B "${words[@]}"
done
