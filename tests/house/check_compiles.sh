#!/usr/bin/env bash
# Every committed kernel compiles for sm_80 and sm_90 with warnings as errors: nvcc and the folder of the runtime, nothing
# else; for sm_90 as its user would compile it, for sm_80, where the question is what nvcc and ptxas refuse, with the least
# optimisation. Those that include the same headers share a translation unit, as most of nvcc's time goes into headers; where
# one fails, its kernels are compiled one by one.
# usage: check_compiles.sh ROOT NVCC
set -euo pipefail
root=$1
kernels_per_unit=8
out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
export compile="$2 -std=c++17 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror -I $root/generated
  -I $root/runtime/include -I $root/runtime/device"
export sm_80='-cubin -arch=sm_80 -Xcicc -O1 -Xptxas -O1' sm_90='-c -arch=sm_90'

declare -A members=()  # of each list of includes, the unit that is being filled and how many it has
units=0
compiled=0
for kernel in "$root"/generated/*.cu; do
  includes=$(grep '^#include' "$kernel" | grep -vF "\"$(basename -- "$kernel" .cu).h\"" | sort)
  read -r unit count <<<"${members[$includes]:-$units 0}"
  ((count)) || units=$((units + 1))
  printf '%s\n' "$kernel" >>"$out/$unit.list"
  count=$((count + 1))
  compiled=$((compiled + 1))
  members[$includes]="$unit $count"
  ((count < kernels_per_unit)) || members[$includes]=""
done
((compiled)) || { echo "no kernels in $root/generated" >&2; exit 1; }

# The longest begin first.
# shellcheck disable=SC2016  # the shell that xargs starts expands it
for list in "$out"/*.list; do
  mapfile -t kernels <"$list"
  cat -- "${kernels[@]}" >"${list%.list}.cu"
done
ls -S "$out"/*.cu | xargs -P "$(nproc)" -n 1 bash -c '
  failed=0
  for target in "$sm_90" "$sm_80"; do
    $compile $target "$0" -o "$0.out" && continue
    failed=1
    while read -r kernel; do
      $compile $target "$kernel" -o "$0.out" || echo "FAILED: $kernel ($target)"
    done <"${0%.cu}.list"
  done
  exit $failed'
printf '%d kernels compiled, in %d units\n' "$compiled" "$units"
