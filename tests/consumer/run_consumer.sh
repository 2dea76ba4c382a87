#!/usr/bin/env bash
# Builds a foreign project and runs it, then looks at what later builds do: after nothing, a touched generator, a touched
# spec, a touched file of DEPENDS, a changed spec, a wrong one.
#
#   run_consumer.sh [--quick] PROJECT WORK GENERATOR BACKEND RUN [cmake options...]
#
# With --quick, only after nothing and a touched spec.
# PROJECT is copied to WORK, which is emptied before; GENERATOR is CMake's; BACKEND is cuda, host or emulated; RUN is yes, or
# no where this machine has no device for what was built.
set -euo pipefail
. "$(dirname -- "${BASH_SOURCE[0]}")/steps.sh"
quick=no
if [[ $1 == --quick ]]; then
  quick=yes
  shift
fi
project=$1 work=$2 generator=$3 backend=$4 run=$5
shift 5
build=$work/build
log=$work/build.log
program=$build/consumer
config=()
if [[ $generator == "Ninja Multi-Config" ]]; then
  program=$build/Debug/consumer
  config=(--config Debug)
fi

# A project with a consumer.py makes a library for it; SPIDER_PYTHON names the Python, PYTHONPATH has spider.py. One with a
# check.sh has more of its program looked at.
expect_right_result() {
  if [[ $run == no ]]; then
    return
  elif [[ -e $work/source/consumer.py ]]; then
    (cd -- "$work" && ${CONSUMER_LAUNCHER:-} "$SPIDER_PYTHON" -B "$work/source/consumer.py" "$build/libconsumer.so") || fail "$1: the program failed"
  else
    (cd -- "$work" && ${CONSUMER_LAUNCHER:-} "$program") || fail "$1: the program failed"
  fi
}

rm -rf -- "$work"
mkdir -p -- "$work"
# A generator that is named is copied, so that touching it disturbs nobody.
tool=
options=()
for option in "$@"; do
  if [[ $option == -DSpiderGen_EXECUTABLE=* ]]; then
    tool=$work/spider-gen
    cp -p -- "${option#*=}" "$tool"
    option=-DSpiderGen_EXECUTABLE=$tool
  fi
  options+=("$option")
done
cp -r -- "$project" "$work/source"
configure -S "$work/source" -G "$generator" -DCONSUMER_BACKEND="$backend" "${options[@]}"
build "first build" "${config[@]}"
did 'Generating stencil' || fail "first build: no kernel was generated"
for kernel in "$work"/source/*.yaml; do
  [[ $(times_done "Generating stencil $(basename -- "$kernel" .yaml)( |$)") == 1 ]] || fail "first build: $kernel, not once"
done
expect_right_result "first build"
if [[ $run == yes && -e $work/source/check.sh ]]; then
  bash "$work/source/check.sh" ${CONSUMER_LAUNCHER:-} "$program" || fail "first build: the program's words are wrong"
fi
if [[ -e $work/source/consumer.py ]]; then
  ! nm -DC --defined-only "$build/libconsumer.so" | grep -F 'spider::' || fail "the library exports what it is made of"
fi
expect_nothing_to_do "second build" "${config[@]}"

# Configurations share the generated files.
if [[ $generator == "Ninja Multi-Config" ]]; then
  build "other configuration" --config Release
  ! did 'Generating stencil' || fail "other configuration: kernels were generated again"
  [[ $run == no ]] || "$build/Release/consumer" || fail "other configuration: the program failed"
  expect_nothing_to_do "after the other configuration" --config Release
  expect_nothing_to_do "after the other configuration" "${config[@]}"
fi

if [[ -n $tool ]]; then
  touch_later "$tool"
  build "touched generator" "${config[@]}"
  did 'Generating stencil' || fail "touched generator: no kernel was generated"
  expect_nothing_to_do "after the touched generator" "${config[@]}"
fi

# A touched spec is read again; as the same files come out, what follows must not repeat it for ever. So is what DEPENDS
# names, which is notes.txt in some projects.
spec=$(find "$work/source" -name '*.yaml' | sort | head -n 1)
stem=$(basename -- "$spec" .yaml)
kernel=$(find "$build" -name "$stem.cu")
[[ $(wc -l <<<"$kernel") == 1 ]] || fail "$stem.cu is generated more than once: $kernel"
for cause in "$spec" "$work/source/notes.txt"; do
  [[ -e $cause ]] || continue
  touch_later "$cause"
  build "touched $cause" "${config[@]}"
  did "Generating stencil $stem" || fail "touched $cause: $stem was not generated"
  if [[ $cause == "$spec" && $(times_done 'Generating stencil') != 1 ]]; then
    fail "touched $cause: other kernels were generated, too"
  elif [[ $generator == Ninja* ]] && did 'Building|Linking'; then
    fail "touched $cause: the same files were compiled again"
  fi
  expect_nothing_to_do "after the touched $cause" "${config[@]}"
done

if [[ $quick == yes ]]; then
  printf 'passed: %s, %s, %s, quick\n' "$(basename -- "$project")" "$generator" "$backend"
  exit
fi

# A comment in a spec changes nothing that others include: one file is compiled again.
sleep 1.1
cp -- "$spec" "$work/spec.yaml"
printf '# A new comment.\n' >>"$spec"
build "new comment" "${config[@]}"
[[ $(times_done 'Building') == 1 ]] || { cat "$log" >&2; fail "new comment: not one file was compiled"; }
cp -- "$work/spec.yaml" "$spec"
build "comment removed" "${config[@]}"

# A changed spec changes the kernel; a wrong one stops the build and says where.
sleep 1.1
before=$(sha256sum -- "$kernel")
sed 's/^description:.*/description: changed/' "$work/spec.yaml" >"$spec"
build "changed spec" "${config[@]}"
[[ $(sha256sum -- "$kernel") != "$before" ]] || fail "changed spec: $kernel is as it was"
did 'Linking.*consumer' || fail "changed spec: the program was not linked again"
expect_right_result "changed spec"
expect_nothing_to_do "after the changed spec" "${config[@]}"

sleep 1.1
sed 's/^dimensions:.*/dimensions: 5/' "$work/spec.yaml" >"$spec"
if cmake --build "$build" -j 4 "${config[@]}" >"$log" 2>&1; then
  fail "wrong spec: the build succeeded"
fi
did "$stem\\.yaml:[0-9]+:[0-9]+: error: " || { cat "$log" >&2; fail "wrong spec: the message names no place"; }
sleep 1.1
cp -- "$work/spec.yaml" "$spec"
build "mended spec" "${config[@]}"
expect_right_result "mended spec"
[[ $(sha256sum -- "$kernel") == "$before" ]] || fail "mended spec: $kernel is not as it was"

printf 'passed: %s, %s, %s\n' "$(basename -- "$project")" "$generator" "$backend"
