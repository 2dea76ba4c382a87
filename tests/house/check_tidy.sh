#!/usr/bin/env bash
# The device headers are as clang-tidy wants them, where the emulator compiles a kernel of every scheme:
# check_tidy.sh ROOT SPIDER-GEN
set -euo pipefail
cd -- "$1"
command -v clang-tidy >/dev/null || { echo "skipped: there is no clang-tidy"; exit 77; }
# Beside what .clang-tidy leaves out: registers stay uninitialised until a loop fills them, loops that are unrolled count, what
# is multiplied is an offset within a tile, and what a walk does is one function.
checks=-modernize-use-nodiscard,-modernize-loop-convert,-cppcoreguidelines-pro-type-member-init
checks+=,-bugprone-implicit-widening-of-multiplication-result,-readability-function-cognitive-complexity
checks+=,-cppcoreguidelines-prefer-member-initializer  # members that follow from each other are computed in order
folder=$(mktemp -d)
trap 'rm -rf -- "$folder"' EXIT
unit=$folder/unit.cpp
# No stencil that is shipped has rims (generator/time_steps.md).
cat >"$folder/rims.yaml" <<'EOF'
stencil: rims
dimensions: 2
storage: f16
shape: box
scale: 1/128
coefficients: [[17, 11, 2], [7, 29, 19], [23, 1, 19]]
boundary: nearest
steps: 4
EOF
# None along y, which no tap reaches.
cat >"$folder/rims_of_lines.yaml" <<'EOF'
stencil: rims_of_lines
dimensions: 2
storage: f16
shape: taps
coefficients: [{at: [0, 0], weight: 0.7}, {at: [0, 1], weight: 0.18}]
boundary: nearest
steps: 4
EOF
for name in rims rims_of_lines; do
  "$2" "$folder/$name.yaml" -o "$folder" >/dev/null
  printf '#include "%s.cu"\n' "$name" >>"$unit"
done
for header in runtime/device/spider/kernels/*.h; do
  if kernel=$(grep -lF "<spider/kernels/${header##*/}>" generated/*.cu "$folder"/*.cu | head -n 1); [[ -n $kernel ]]; then
    line="#include \"${kernel##*/}\""  # one kernel may take several schemes
    grep -qxF "$line" "$unit" || echo "$line" >>"$unit"
  else
    printf '#include <spider/kernels/%s>\n' "${header##*/}" >>"$unit"  # no stencil that is shipped takes it
  fi
done
clang-tidy --quiet --config-file=.clang-tidy --checks="$checks" --header-filter='/device/spider/' "$unit" -- -std=c++20 \
  -Wpedantic -I generated -I "$folder" -I runtime/include -I runtime/device -I runtime/emulator
