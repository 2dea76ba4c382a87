#!/usr/bin/env bash
# The pictures of generator/README.md are what the plan of today looks like: check_pictures.sh ROOT PYTHON SPIDER-GEN
set -euo pipefail
explain() { "$3" --explain --explain-format json --length 16 "$1/stencils/$4.yaml"; }
"$2" -B "$1/generator/pictures/draw.py" --check "$1/generator/pictures" \
  <(explain "$@" box2d_r3) <(explain "$@" gauss2d_r7)
