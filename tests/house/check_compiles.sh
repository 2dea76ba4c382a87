#!/usr/bin/env bash
# Every committed kernel compiles for sm_90 with warnings as errors, and one of each storage with each set of headers for the
# oldest architecture that they take: nvcc and the folder of the runtime, nothing else. The question is what nvcc and ptxas refuse
# or warn of, so they optimise little, in half of the time. Kernels that include the same headers share a translation unit, as most of nvcc's time goes into headers; where
# one fails, its kernels are compiled one by one. nvcc's front end takes longer for systems of equations the less it optimises:
# they have units of their own, and begin first.
# usage: check_compiles.sh ROOT NVCC
set -euo pipefail
root=$1
kernels_per_unit=8
out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
export compile="$2 -std=c++17 -gencode arch=compute_90,code=sm_90
  -Xptxas -O1 -Werror all-warnings -Xcompiler -Wall,-Wextra,-Werror
  -I $root/generated -I $root/runtime/include -I $root/runtime/device"

declare -A members=()  # of each list of includes, the unit that is being filled and how many it has
units=0
compiled=0
for kernel in "$root"/generated/*.cu; do
  includes=$(grep '^#include' "$kernel" | grep -vF "\"$(basename -- "$kernel" .cu).h\"" | sort)
  if [[ -z ${members[$includes]+set} ]]; then
    if grep -qE ', 75,[ 0-9,]*(\},)?$' "$kernel"; then echo 75; else echo 80; fi >"$out/$units.oldest"
  fi
  read -r unit count <<<"${members[$includes]:-$units 0}"
  ((count)) || units=$((units + 1))
  printf '%s\n' "$kernel" >>"$out/$unit.list"
  count=$((count + 1))
  compiled=$((compiled + 1))
  members[$includes]="$unit $count"
  [[ $includes != *kernels/system.h* ]] && ((count < kernels_per_unit)) || members[$includes]=""
done
((compiled)) || { echo "no kernels in $root/generated" >&2; exit 1; }

for list in "$out"/*.list; do
  declare -A seen=()
  while read -r kernel; do
    storage=$(grep -m 1 '^// Storage ' "$kernel") || storage=several
    [[ -n ${seen[$storage]+set} ]] && guard='#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900' || guard='#if 1'
    seen[$storage]=yes
    printf '%s\n' "$guard"
    cat -- "$kernel"
    printf '#endif\n'
  done <"$list" >"${list%.list}.cu"
  unset seen
done
# What takes nvcc longest begins first: systems and planes in levels, then the most code.
# shellcheck disable=SC2016  # the shell that xargs starts expands it
{ grep -l -e kernels/system.h -e levels3d "$out"/*.cu; ls -S "$out"/*.cu; } | awk '!seen[$0]++' | xargs -P "$(nproc)" -n 1 bash -c '
  grep -q kernels/system.h "$0" || compile+=" -Xcicc -O1"
  oldest=${0%.cu}.oldest
  [[ ! -e $oldest ]] || compile+=" -gencode arch=compute_$(<"$oldest"),code=sm_$(<"$oldest")"
  $compile -c "$0" -o "$0.o" && exit
  while read -r kernel; do
    $compile -c "$kernel" -o "$0.o" || echo "FAILED: $kernel"
  done <"${0%.cu}.list"
  exit 1'
printf '%d kernels compiled, in %d units\n' "$compiled" "$units"
