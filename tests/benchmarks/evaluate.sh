#!/usr/bin/env bash
# The evaluation: builds, measures for minutes on a GPU, longer with --faces, writes one CSV file, draws the figures.
# usage: evaluate.sh [--out DIR] [--generated LABEL=DIR]... [--faces DIR] [--arch sm_90] [--build DIR] [--parts "NAME ..."]
# --out (default: evaluation) gets evaluation.csv, log.txt, summary.md and the figures; --faces is a folder that
# faces.sh wrote, for the cost of boundaries; --parts measures only these, as the log calls them, and appends to the CSV
# file that is there; the other options are run.sh's.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
out=evaluation
build=${TMPDIR:-/tmp}/spider-bench
options=()
labels=()
faces=
parts=
while (($#)); do
  case $1 in
    --out) out=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --generated) options+=("$1" "$2"); labels+=("${2%%=*}"); shift 2 ;;
    --faces) faces=$2; shift 2 ;;
    --parts) parts=$2; shift 2 ;;
    --arch) options+=("$1" "$2"); shift 2 ;;
    -h | --help) sed -n '2,6s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "evaluate.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
if ((${#labels[@]} == 0)); then
  labels=(sparse)
  options+=(--generated "sparse=$here/../../generated")
fi
boundaries=(halo constant nearest periodic reflect mirror)
if [[ $faces ]]; then
  for name in "${boundaries[@]}"; do options+=(--generated "$name=$faces/$name"); done
fi
mkdir -p "$out"
csv=$out/evaluation.csv
[[ $parts ]] || rm -f -- "$csv"

bash "$here/run.sh" "${options[@]}" --build "$build" --build-only
libraries=()
for label in "${labels[@]}"; do libraries+=(--library "$label=$build/$label/libkernels.so"); done

part() {  # part NAME OPTION...: one run of spider-bench; a part that fails does not end the others
  local name=$1 started=$SECONDS status=0
  shift
  [[ -z $parts || " $parts " == *" $name "* ]] || return 0
  echo "== $name: $*"
  "$build/spider-bench" "$@" --csv "$csv" || status=$?
  echo "== $name: $((SECONDS - started)) s"
  if ((status == 2)); then
    echo "== $name: left out, no such kernels"
  elif ((status != 0)); then
    echo "== $name: exit status $status"
  fi
}

trend=$(seq -s, 512 512 10240),16384,20480,32768
lengths=10240000,1000000000  # points of a line; those of the paper's trend, from 1024 x 256 to 1024 x 40960
for rows in 256 512 1024 2048 4096 8192 16384 24576 32768 40960; do lengths+=,$((1024 * rows)); done
paper='box2d_r1,box2d_r2,box2d_r3,box2d_r5,box2d_r7,star2d_r1,star2d_r2,star2d_r3,star2d_r7'
first=(--library "${libraries[1]}")  # the kernels; the others are engines that they are compared with
measure_faces() {  # each stencil by itself, as what runs in turns with it changes the clock
  local libraries=() name
  for name in "${boundaries[@]}"; do libraries+=(--library "$name=$build/$name/libkernels.so"); done
  for name in "$faces"/halo/*.cu; do
    part faces "${libraries[@]}" --kernels "$(basename -- "$name" .cu)" --sizes 10240x10240,768x768x768
  done
}
measure() {
  part evaluation "${libraries[@]}" --kernels "$paper" --sizes 10240
  part cudnn "${first[@]}" --kernels 'box2d_r[1237]' --sizes 10240 --baselines copy,cudnn --launches 20
  part sustained "${first[@]}" --kernels "$paper" --sizes 10240 --mode sustained
  part sustained-f32 "${first[@]}" --kernels 'box2d_r[1237]_f32' --sizes 10240 --mode sustained
  if ((${#libraries[@]} > 2)); then
    part engines "${libraries[@]:2}" --kernels 'box2d_r[137]' --sizes 10240 --mode sustained
  fi
  part trend "${first[@]}" --kernels 'box2d_r[137]' --sizes "$trend" --launches 20
  part large "${first[@]}" --kernels "$paper" --sizes 20480
  part small "${first[@]}" --kernels 'box2d_r[123],star2d_r[123]' --sizes 512,1024,2048,4096
  part odd "${first[@]}" --kernels "$paper" --sizes 10007x9973
  part shifted "${first[@]}" --kernels "$paper" --sizes 10240,10007x9973 --offset 1
  part shifted-others "${first[@]}" --kernels 'box2d_r1_f32,gauss2d_r7,heat2d_steps,heat2d_steps_f32' --sizes 10240 --offset 1
  part shifted-volumes "${first[@]}" --kernels 'heat3d,heat3d_f32,star3d_r4,star3d_r4_f32,box3d_r2,heat3d_steps,heat3d_steps_f32' --sizes 768x768x768 --offset 1
  part others "${first[@]}" --kernels '*2d*' --sizes 10240x10240
  # Apart: kernels that take turns with power-hungry ones run at the clock that these leave.
  part volumes "${first[@]}" --kernels 'box3d_r1,star3d_r[12],heat3d,poisson3d,gauss3d,heat3d_steps,box3d_r1_steps' --sizes 768x768x768
  part volumes-large "${first[@]}" --kernels 'box3d_r2,star3d_r4' --sizes 768x768x768
  part volumes-f32 "${first[@]}" --kernels '*3d*_f32' --sizes 768x768x768
  if [[ $faces ]]; then measure_faces; fi
  part lines "${first[@]}" --kernels '*1d*' --sizes "$lengths"
}
measure 2>&1 | tee "$out/log.txt"
python3 "$here/summary.py" "$csv" | tee "$out/summary.md"
drawn=no
for python in python3 /usr/bin/python3; do
  "$python" -c 'import matplotlib' 2>/dev/null || continue
  "$python" "$here/figures.py" "$csv" "$out"
  drawn=yes
  break
done
[[ $drawn == yes ]] || echo "no figures: no Python here has matplotlib; figures.py $csv $out draws them elsewhere"
! grep -q '^== .*: exit status' "$out/log.txt"
