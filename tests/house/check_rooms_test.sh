#!/usr/bin/env bash
# check_rooms.sh sees what it is there to see: check_rooms_test.sh CHECK
set -euo pipefail
check=$1
house=$(mktemp -d)
trap 'rm -rf -- "$house"' EXIT

# refuses FILE LINE: a house in order, but for one line
refuses() {
  rm -rf -- "$house"
  mkdir -p -- "$house"/{diag,spec,plan,pack,render,emit,output,cli}
  printf '#include "diag/a.h"\n#include "plan/b.h"\n' >"$house/pack/a.cpp"
  bash "$check" "$house" >/dev/null || { echo "FAILED: refuses a house in order"; exit 1; }
  mkdir -p -- "$(dirname -- "$house/$1")"
  printf '%s\n' "$2" >>"$house/$1"
  if bash "$check" "$house" >/dev/null; then
    printf 'FAILED: %s may have %s\n' "$1" "$2"
    exit 1
  fi
}
refuses diag/a.h '#include "spec/a.h"'
refuses plan/a.h '#include "pack/a.h"'
refuses render/a.cpp '#include "plan/a.h"'
refuses output/a.cpp '#include "emit/emit.h"'
refuses emit/a.cpp '#include "cli/run.h"'
refuses plan/a.cpp '#include <yaml-cpp/yaml.h>'
refuses spec/a.cpp '#include <boost/program_options.hpp>'
refuses plan/a.cpp '#include <boost/multiprecision/cpp_bin_float.hpp>'
refuses attic/a.cpp '#include "diag/a.h"'
refuses cli/a.cpp 'std::ofstream file(path);'
