#!/usr/bin/env bash
# All C++ that people write is as clang-format leaves it: check_format.sh ROOT
set -euo pipefail
cd -- "$1"
if ! command -v clang-format >/dev/null; then
  echo "skipped: there is no clang-format"
  exit 77
fi
find generator runtime tests -path generator/third_party -prune -o \( -name '*.h' -o -name '*.hpp' -o -name '*.cpp' -o -name '*.c' -o -name '*.cu' \) -print0 |
  xargs -0 clang-format --dry-run --Werror
