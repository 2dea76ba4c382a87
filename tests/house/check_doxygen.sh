#!/usr/bin/env bash
# The reference of the public headers can be written, without a warning, and so could one of the device headers, where not
# every member has a comment: check_doxygen.sh ROOT
set -euo pipefail
command -v doxygen >/dev/null || { echo "skipped: doxygen is not installed"; exit 77; }
output=$(mktemp -d)
trap 'rm -rf -- "$output"' EXIT
cd "$1"
{ cat runtime/Doxyfile; printf 'OUTPUT_DIRECTORY = "%s"\n' "$output"; } | doxygen -
test -s "$output/html/index.html"
{
  cat runtime/Doxyfile
  printf 'OUTPUT_DIRECTORY = "%s/device"\nINPUT = runtime/device/spider\nRECURSIVE = YES\n' "$output"
  printf 'WARN_IF_UNDOCUMENTED = NO\nPREDEFINED += "SPIDER_DEVICE=inline" "SPIDER_GLOBAL(a,b)=void"\n'
} | doxygen -
