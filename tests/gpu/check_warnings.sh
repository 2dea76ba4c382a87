#!/usr/bin/env bash
# The random kernels of the accuracy tests pass nvcc's front end without a warning, every second one, the others the day after;
# several to a translation unit, for sm_80 and sm_90 in turn. The device compiler warns of nothing that the front end does not, templates included, and takes four fifths of
# the time: check_spills.py runs it, on fewer kernels.
# usage: check_warnings.sh ROOT KERNELS NVCC
set -euo pipefail
root=$1
kernels=$2
kernels_per_unit=24
out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
day=$((10#$(date +%s) / 86400))
mapfile -t all < <(find "$kernels" -name 'random_*.cu' | sort | awk -v day="$day" 'NR % 2 == day % 2')
((${#all[@]})) || { echo "no random kernels in $kernels" >&2; exit 1; }
for ((first = 0, unit = 0; first < ${#all[@]}; first += kernels_per_unit, ++unit)); do
  cat "${all[@]:first:kernels_per_unit}" >"$out/$unit.cu"  # of what is included nvcc tells less
  architecture=compute_80
  if ((unit % 2)); then architecture=compute_90; fi
  echo "$3" -std=c++17 -ptx -o "$out/$unit.ptx" "$out/$unit.cu" -arch="$architecture" -fdevice-syntax-only \
    -Werror all-warnings -I "$kernels" -I "$root/runtime/include" -I "$root/runtime/device"
done | xargs -P "$(nproc)" -d '\n' -n 1 bash -c
echo "day $day: ${#all[@]} kernels without a warning"
