#!/usr/bin/env bash
# check_rooms.sh sees what it is there to see: check_rooms_test.sh CHECK
set -euo pipefail
check=$1
house=$(mktemp -d)
floors=$(mktemp -d)
trap 'rm -rf -- "$house" "$floors"' EXIT

# refuses FILE LINE: a house in order, but for one line of a file of $in
in=$house
refuses() {
  rm -rf -- "$house" "$floors"
  mkdir -p -- "$house"/{diag,spec,plan,pack,render,emit,output,cli} "$floors"/{machine,values,field,sums,loads,steps,kernels}
  printf '#include "diag/a.h"\n#include "plan/b.h"\n' >"$house/pack/a.cpp"
  printf '#include <spider/machine/a.h>\n#include <spider/sums/b.h>\n' >"$floors/loads/a.h"
  bash "$check" "$house" "$floors" >/dev/null || { echo "FAILED: refuses a house in order"; exit 1; }
  mkdir -p -- "$(dirname -- "$in/$1")"
  printf '%s\n' "$2" >>"$in/$1"
  if bash "$check" "$house" "$floors" >/dev/null; then
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
in=$floors
refuses values/a.h '#include <spider/field/boundary.h>'
refuses sums/a.h '#include <spider/loads/a.h>'
refuses kernels/a.h '#include <spider/kernels/b.h>'
refuses attic/a.h '#include <spider/machine/a.h>'
