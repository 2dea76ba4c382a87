#!/usr/bin/env bash
# Every header compiles by itself, the C ones as C, too: check_headers.sh ROOT C++-COMPILER
# One that is the first thing its own source includes is compiled by itself where that source is, in every build.
set -euo pipefail
cd -- "$1"
compiler=$2
cc=$(command -v cc || command -v gcc)
include=(-I generator -I runtime/include -I runtime/device -I runtime/emulator -I runtime -I runtime/src)
warnings=(-Wall -Wextra -Wpedantic -Werror -fsyntax-only)

is_first_in_its_source() {
  local source=${1%.h*}.cpp
  [[ -e $source ]] && [[ $(grep -m 1 '^#' "$source") =~ ^'#include "'(.*)'"'$ ]] && [[ $1 == */${BASH_REMATCH[1]} ]]
}

# A header is included by a file, not compiled as one: #pragma once in a main file is a warning.
for header in generator/*/*.h generator/*/*/*.h runtime/include/spider/*.{h,hpp} runtime/device/spider/{,*/,*/*/}*.h runtime/src/*.h \
  runtime/emulator/*.h runtime/emulator/spider/*.h; do
  [[ $header == */instructions_cuda.h || $header == */machine/cuda/* ]] || is_first_in_its_source "$header" || printf '%s\n' "$header"
done |
  xargs -P "$(nproc)" -I '{}' "$compiler" -std=c++20 "${warnings[@]}" "${include[@]}" -include '{}' -x c++ /dev/null
for header in spider.h memory.h points.h reductions.h; do
  "$cc" -std=c99 "${warnings[@]}" -I runtime/include -include "runtime/include/spider/$header" -x c /dev/null
done
for header in spider.hpp half.hpp; do
  first=$("$compiler" -std=c++17 -fsyntax-only -I runtime/include -include "spider/$header" -x c++ /dev/null 2>&1 |
    grep -m 1 'error:') || true
  [[ $first == *'need C++20'* ]] || { printf '%s in C++17: the first error is "%s"\n' "$header" "$first"; exit 1; }
done
for header in generated/*.h; do
  [[ -e $header ]] || continue
  "$cc" -std=c99 "${warnings[@]}" -I runtime/include -include "$header" -x c /dev/null
  "$compiler" -std=c++17 "${warnings[@]}" -I runtime/include -include "$header" -x c++ /dev/null
done
