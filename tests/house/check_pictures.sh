#!/usr/bin/env bash
# The pictures of generator/README.md are what the plan of today looks like: check_pictures.sh ROOT PYTHON SPIDER-GEN
set -euo pipefail
explain() {  # explain STENCIL OPTION...
  local stencil=$1
  shift
  "$spider_gen" --explain --explain-format json "$@" "$root/stencils/$stencil.yaml"
}
root=$1 python=$2 spider_gen=$3
"$python" -B "$root/generator/pictures/draw.py" --check "$root/generator/pictures" \
  <(explain box2d_r5) <(explain gauss2d_r7 --engine sparse) <(explain heat2d_steps)
