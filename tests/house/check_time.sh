#!/usr/bin/env bash
# No stencil takes longer than 50 ms to generate, the best of five: check_time.sh SPIDER-GEN SPEC...
set -euo pipefail
spider_gen=$1
shift
output=$(mktemp -d)
trap 'rm -rf -- "$output"' EXIT
slow=0
for spec in "$@"; do
  best=1000000
  for _ in 1 2 3 4 5; do
    rm -rf -- "$output"
    begin=${EPOCHREALTIME/[.,]/}
    "$spider_gen" "$spec" -o "$output" 2>/dev/null
    end=${EPOCHREALTIME/[.,]/}
    if ((end - begin < best)); then best=$((end - begin)); fi
  done
  printf '%-16s %3d.%d ms\n' "$(basename -- "$spec" .yaml)" $((best / 1000)) $((best / 100 % 10))
  if ((best > 50000)); then slow=1; fi
done
exit $slow
