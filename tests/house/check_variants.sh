#!/usr/bin/env bash
# The kernels that only the benchmarks generate compile without warnings, spills or anything else in local memory; of those
# of each boundary every second one, in turn.
# usage: check_variants.sh ROOT SPIDER_GEN NVCC
set -euo pipefail
root=$1
out=$(mktemp -d)
trap 'rm -rf -- "$out"' EXIT
bash "$root/tests/benchmarks/variants.sh" "$2" "$out"
boundaries=("$out"/boundary_*)
for i in "${!boundaries[@]}"; do
  kernels=("${boundaries[i]}"/*.cu)
  for ((k = i % 2; k < ${#kernels[@]}; k += 2)); do rm -- "${kernels[k]}"; done
done
for kernel in "$out"/*/*.cu; do
  echo "$3" -std=c++17 -cubin -o "${kernel%.cu}.cubin" "$kernel" -arch=sm_90 -Werror all-warnings \
    -Xcompiler -Wall,-Wextra,-Werror -Xptxas -Werror,-warn-spills,-warn-lmem-usage \
    -I "$root/runtime/include" -I "$root/runtime/device"
done | xargs -P "$(nproc)" -d '\n' -n 1 bash -c
