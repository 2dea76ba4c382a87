#!/usr/bin/env bash
# Builds a foreign project and runs it, then looks at what a second build does.
#
#   run_consumer.sh PROJECT WORK GENERATOR BACKEND RUN [cmake options...]
#
# PROJECT is copied to WORK, which is emptied before; GENERATOR is CMake's; BACKEND is cuda or emulated; RUN is yes, or
# no where this machine has no device for what was built.
set -euo pipefail
project=$1 work=$2 generator=$3 backend=$4 run=$5
shift 5

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

log=$work/build.log

# Builds; the output is in $log, and on the terminal where it fails.
build() {
  cmake --build "$work/build" -j 2 >"$log" 2>&1 || { cat "$log" >&2; fail "$1: the build failed"; }
}

did() { grep -qE "$1" "$log"; }

expect_nothing_to_do() {
  build "$1"
  if did 'Generating|Building|Linking|Archiving'; then
    cat "$log" >&2
    fail "$1: the build did something"
  fi
}

expect_right_result() {
  [[ $run == no ]] || "$work/build/consumer" || fail "$1: the program failed"
}

rm -rf -- "$work"
mkdir -p -- "$work"
# A generator that is named is copied, so that touching it disturbs nobody.
tool=
options=()
if [[ $backend == cuda ]]; then
  options+=("-DCMAKE_CUDA_ARCHITECTURES=80;90")
fi
for option in "$@"; do
  if [[ $option == -DSpiderGen_EXECUTABLE=* ]]; then
    tool=$work/spider-gen
    cp -p -- "${option#*=}" "$tool"
    option=-DSpiderGen_EXECUTABLE=$tool
  fi
  options+=("$option")
done
cp -r -- "$project" "$work/source"
cmake -S "$work/source" -B "$work/build" -G "$generator" -DCMAKE_BUILD_TYPE=Release -DCONSUMER_BACKEND="$backend" \
  "${options[@]}" >"$log" 2>&1 || { cat "$log" >&2; fail "configuring"; }
build "first build"
did 'Generating stencil' || fail "first build: no kernel was generated"
expect_right_result "first build"
expect_nothing_to_do "second build"

if [[ -n $tool ]]; then
  sleep 1.1  # make compares whole seconds on some file systems
  touch -- "$tool"
  build "touched generator"
  did 'Generating stencil' || fail "touched generator: no kernel was generated"
  expect_nothing_to_do "after the touched generator"
fi

# A touched spec is read again; as the same files come out, what follows must not repeat it for ever.
spec=$(find "$work/source" -name '*.yaml' | sort | head -n 1)
stem=$(basename -- "$spec" .yaml)
kernel=$(find "$work/build" -name "$stem.cu")
[[ $(wc -l <<<"$kernel") == 1 ]] || fail "$stem.cu is generated more than once: $kernel"
sleep 1.1
touch -- "$spec"
build "touched spec"
did "Generating stencil $stem" || fail "touched spec: $stem was not generated"
[[ $(grep -c 'Generating stencil' "$log") == 1 ]] || fail "touched spec: other kernels were generated, too"
if [[ $generator == Ninja ]] && did 'Building|Linking'; then
  fail "touched spec: the same files were compiled again"
fi
expect_nothing_to_do "after the touched spec"

# A changed spec changes the kernel; a wrong one stops the build and says where.
sleep 1.1
before=$(sha256sum -- "$kernel")
cp -- "$spec" "$work/spec.yaml"
sed 's/^description:.*/description: changed/' "$work/spec.yaml" >"$spec"
build "changed spec"
[[ $(sha256sum -- "$kernel") != "$before" ]] || fail "changed spec: $kernel is as it was"
did 'Linking.*consumer' || fail "changed spec: the program was not linked again"
expect_right_result "changed spec"
expect_nothing_to_do "after the changed spec"

sleep 1.1
sed 's/^dimensions:.*/dimensions: 5/' "$work/spec.yaml" >"$spec"
if cmake --build "$work/build" -j 2 >"$log" 2>&1; then
  fail "wrong spec: the build succeeded"
fi
did "$stem\\.yaml:[0-9]+:[0-9]+: error: " || { cat "$log" >&2; fail "wrong spec: the message names no place"; }
sleep 1.1
cp -- "$work/spec.yaml" "$spec"
build "mended spec"
expect_right_result "mended spec"
[[ $(sha256sum -- "$kernel") == "$before" ]] || fail "mended spec: $kernel is not as it was"

printf 'passed: %s, %s, %s\n' "$(basename -- "$project")" "$generator" "$backend"
