#!/usr/bin/env bash
# Generates the kernels that the evaluation compares with the plan's own: both engines of f32, and other boundaries. The tag
# v0.2-evaluation has those of the ablation: dense products, other swaps and mappings, one tile a warp, warpgroups.
# usage: variants.sh SPIDER_GEN DIR
# DIR gets a folder for each label; evaluate.sh --variants DIR measures them, also on a machine without spider-gen.
set -euo pipefail
if (($# != 2)); then
  sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}" >&2
  exit 2
fi
spider_gen=$1
out=$2
stencils=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../../stencils" && pwd)

variant() {  # variant LABEL STENCILS OPTION...
  local label=$1 specs=() name
  for name in $2; do specs+=("$stencils/$name.yaml"); done
  shift 2
  "$spider_gen" "${specs[@]}" -o "$out/$label" "$@"
}

singles='box2d_r1_f32 box2d_r2_f32 box2d_r3_f32 box2d_r7_f32'
variant cuda "$singles" --engine cuda
variant tensor "$singles" --engine sparse

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
for boundary in '{constant: 1}' nearest periodic reflect mirror; do
  specs=()
  for name in box2d_r1 box2d_r3 box2d_r7 box2d_r3_f32 star3d_r1 box3d_r1 star3d_r1_f32; do
    sed "s/^boundary: halo$/boundary: $boundary/" "$stencils/$name.yaml" >"$work/$name.yaml"
    grep -q "^boundary: $boundary$" "$work/$name.yaml"
    specs+=("$work/$name.yaml")
  done
  label=$(tr -dc a-z <<<"$boundary")
  "$spider_gen" "${specs[@]}" -o "$out/boundary_$label"
done
