#!/usr/bin/env bash
# Generates shipped stencils with each boundary, for the part `faces` of the evaluation.
# usage: faces.sh SPIDER_GEN DIR
# DIR gets a folder for each boundary; evaluate.sh --faces DIR measures them, also on a machine without spider-gen.
set -euo pipefail
if (($# != 2)); then
  sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
stencils=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../stencils" && pwd)

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
for boundary in halo '{constant: 1}' nearest periodic reflect mirror; do
  specs=()
  for name in box2d_r1 box2d_r7 box2d_r3_f32 gauss2d_r7 star3d_r1 star3d_r4_f32 heat2d_steps star2d_r2_steps \
    heat2d_steps_f32 heat3d_steps_f32; do
    sed "s/^boundary: .*/boundary: $boundary/" "$stencils/$name.yaml" >"$work/$name.yaml"
    grep -q "^boundary: $boundary$" "$work/$name.yaml"
    specs+=("$work/$name.yaml")
  done
  "$1" "${specs[@]}" -o "$2/$(tr -dc a-z <<<"$boundary")"
done
