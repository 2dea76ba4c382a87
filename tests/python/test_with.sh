#!/usr/bin/env bash
# test_with.sh PYTHON FOLDER MODULES PACKAGES PROGRAM...: runs Python programs, each with its options in one word, where the modules
# are (in one word): of that Python, else of an environment in the folder, into which pip installs the packages. Skipped where pip
# cannot.
set -euo pipefail
python=$1 folder=$2 modules=$3
read -ra packages <<<"$4"
shift 4
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_RETRIES=0 PIP_TIMEOUT=10 JAX_PLATFORMS=cpu
if ! "$python" -c "import ${modules// /, }" 2>/dev/null; then
  mkdir -p -- "$folder"
  if ! "$folder/venv/bin/python" -c "import ${modules// /, }" 2>/dev/null; then
    rm -rf -- "$folder/venv"
    if ! "$python" -m venv --system-site-packages "$folder/venv" >"$folder/log" 2>&1; then
      printf 'skipped: no module venv (python3-venv)\n'
      exit
    fi
    if ! "$folder/venv/bin/python" -m pip -q install "${packages[@]}" >"$folder/log" 2>&1; then
      printf 'skipped: there is no %s, and pip finds none\n' "${packages[*]}"
      exit
    fi
  fi
  python=$folder/venv/bin/python
fi
for program; do
  read -ra words <<<"$program"
  "$python" -B "${words[@]}"
done
