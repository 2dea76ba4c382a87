#!/usr/bin/env bash
# The reference of the public headers can be written, without a warning: check_doxygen.sh ROOT
set -euo pipefail
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed"; exit 77; }
output=$(mktemp -d)
trap 'rm -rf -- "$output"' EXIT
cd "$1"
{ cat runtime/Doxyfile; printf 'OUTPUT_DIRECTORY = "%s"\n' "$output"; } | doxygen -
test -s "$output/html/index.html"
