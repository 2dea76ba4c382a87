#!/usr/bin/env bash
# Generates the kernels that the evaluation compares with the plan's own: dense ones, other swaps and mappings, one tile a
# warp, and other boundaries.
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

ablated='box2d_r2 box2d_r7'
variant dense 'box2d_r1 box2d_r2 box2d_r3 box2d_r7 star2d_r1 star2d_r2 star2d_r3 star2d_r7' --engine dense
variant dense_none box2d_r7 --engine dense --swap none
variant dense_element "$ablated" --engine dense --swap element --tiles 1
variant sparse_element "$ablated" --swap element --tiles 1
variant sparse_pair "$ablated" --tiles 1
variant sparse_none 'box2d_r1 box2d_r2' --swap none
mapped='box2d_r1 box2d_r2 box2d_r3 star2d_r3'
variant windows "$mapped" --length 16
variant row_pairs "$mapped" --length 8
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
