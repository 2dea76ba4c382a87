#!/usr/bin/env bash
# Builds the fuzz targets with clang, libFuzzer, the address and the undefined-behaviour sanitizer, and runs each of them
# from a corpus of all specs that there are: run_fuzz.sh [--build DIR] [--build-only] [--seconds N] [--seed N] [TARGET...]
#   --build    folder of the build and of what is found (default build/fuzz)
#   --build-only  runs nothing; exit status 0 where clang is missing
#   --seconds  of each target (default 10)
#   --seed     of the random numbers (default 1)
#   TARGET     read_spec, generate, plan (default all)
# Says "skipped: REASON", with exit status 77, where clang or libFuzzer is missing.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=$(cd -- "$here/../.." && pwd)

build=$root/build/fuzz
build_only=no
seconds=10
seed=1
targets=()
while (($#)); do
  case $1 in
    --build) build=$2; shift ;;
    --build-only) build_only=yes ;;
    --seconds) seconds=$2; shift ;;
    --seed) seed=$2; shift ;;
    -h | --help) sed -n '2,9s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    read_spec | generate | plan) targets+=("$1") ;;
    *) printf 'usage: run_fuzz.sh [--build DIR] [--build-only] [--seconds N] [--seed N] [read_spec|generate|plan...]\n' >&2; exit 2 ;;
  esac
  shift
done
((${#targets[@]})) || targets=(read_spec generate plan)

skip() {
  printf 'skipped: %s\n' "$1"
  [[ $build_only == no ]] || exit 0
  exit 77
}
clang=$(command -v clang++ || command -v clang++-14 || true)
[[ -n $clang ]] || skip 'there is no clang++ (clang)'
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT
printf 'extern "C" int LLVMFuzzerTestOneInput(const unsigned char*, unsigned long) { return 0; }\n' >"$scratch/probe.cpp"
"$clang" -fsanitize=fuzzer,address,undefined "$scratch/probe.cpp" -o "$scratch/probe" >/dev/null 2>&1 ||
  skip 'clang has no libFuzzer (libclang-rt-14-dev)'

# Another compiler's or another tree's leftovers would not configure.
generator=Ninja
command -v ninja >/dev/null || generator='Unix Makefiles'
cmake -S "$here" -B "$build" -G "$generator" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_COMPILER="$clang" \
  -DSPIDER_INSTALL=OFF >"$scratch/configure.log" 2>&1 || { cat "$scratch/configure.log"; exit 1; }
cmake --build "$build" -j "$(nproc)" --target "${targets[@]/#/fuzz_}" >"$scratch/build.log" 2>&1 ||
  { tail -n 50 "$scratch/build.log"; exit 1; }
[[ $build_only == no ]] || exit 0

seeds=$build/seeds
rm -rf -- "$seeds"
mkdir -p "$seeds"
python3 -B "$root/tests/errors/cases.py" "$seeds"
for folder in stencils tests/fuzz/seeds; do
  for spec in "$root/$folder"/*.yaml; do
    cp -- "$spec" "$seeds/${folder//\//_}_$(basename -- "$spec")"
  done
done

# Memory that the packaged libraries hand over is not annotated, so bounds within containers are not known.
export ASAN_OPTIONS=detect_container_overflow=0:allocator_may_return_null=1
status=0
for target in "${targets[@]}"; do
  mkdir -p "$build/corpus/$target" "$build/findings"
  given=("$build/corpus/$target" "$seeds")
  [[ $target == plan ]] && given=("$build/corpus/$target")  # its bytes are no text
  printf '%s: seed %s, %s s\n' "$target" "$seed" "$seconds"
  "$build/fuzz_$target" -seed="$seed" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -max_len=4096 \
    -dict="$here/spec.dict" -artifact_prefix="$build/findings/${target}_" -print_final_stats=1 \
    "${given[@]}" >"$scratch/$target.log" 2>&1 || status=1
  grep -E '^(stat::number_of_executed_units|==[0-9]+==ERROR|SUMMARY|broken promise|artifact_prefix)' "$scratch/$target.log" ||
    true
  ((status == 0)) || { tail -n 60 "$scratch/$target.log"; exit 1; }
done
exit "$status"
