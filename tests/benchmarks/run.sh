#!/usr/bin/env bash
# Builds spider-bench and libraries of generated kernels with nvcc alone, and runs it.
# usage: run.sh [--generated [LABEL=]DIR]... [--arch sm_90] [--build DIR] [--build-only] [--strict] [-- options of spider-bench]
# --strict makes warnings errors. Only kernels that spider-bench's --kernels asks for are compiled.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
root=$(cd -- "$here/../.." && pwd)
generated=()
arch=sm_90
build=${TMPDIR:-/tmp}/spider-bench
build_only=no
strict=()
while (($#)); do
  case $1 in
    --generated) generated+=("$2"); shift 2 ;;
    --arch) arch=$2; shift 2 ;;
    --build) build=$2; shift 2 ;;
    --build-only) build_only=yes; shift ;;
    --strict) strict=(-Werror all-warnings -Xcompiler -Werror); shift ;;
    --) shift; break ;;
    -h | --help) sed -n '2,5s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "run.sh: unknown option $1" >&2; exit 2 ;;
  esac
done
((${#generated[@]})) || generated=("sparse=$root/generated")
nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
mkdir -p "$build"

patterns=('*')
for ((i = 1; i < $#; ++i)); do
  if [[ ${!i} == --kernels ]]; then
    next=$((i + 1))
    IFS=, read -r -a patterns <<<"${!next}"
  fi
done
wanted() {
  local pattern
  for pattern in "${patterns[@]}"; do
    # shellcheck disable=SC2053  # it is a pattern
    [[ $1 == $pattern ]] && return
  done
  return 1
}

# The folder above include/ and lib/ of cuDNN: of the toolkit or the system, or what pip installed for a Python.
find_cudnn() {
  local folder python
  for python in python3 /usr/bin/python3; do
    folder=$("$python" -c 'import nvidia.cudnn as found; print(list(found.__path__)[0])' 2>/dev/null) || continue
    [[ -e $folder/include/cudnn.h && -e $folder/lib/libcudnn.so.9 ]] && echo "$folder/include $folder/lib" && return
  done
  for folder in "$(dirname -- "$(dirname -- "$nvcc")")" /usr; do
    [[ -e $folder/include/cudnn.h ]] || continue
    for library in "$folder"/lib64 "$folder"/lib "$folder"/lib/*-linux-gnu; do
      [[ -e $library/libcudnn.so.9 ]] && echo "$folder/include $library" && return
    done
  done
  return 1
}

flags=(-O3 -cudart shared -Xcompiler "-fPIC,-Wall,-Wextra" "${strict[@]}" -I"$root/runtime/include" -I"$root/runtime/device")
commands=()  # one line each, run side by side
compile() {  # compile OBJECT SOURCE [FLAG...]
  local object=$1 source=$2
  shift 2
  commands+=("$(printf '%q ' "$nvcc" -arch="$arch" "${flags[@]}" "$@" -c "$source" -o "$object")")
}

bench_objects=()
baseline=cudnn_baseline_missing
bench_libraries=(-ldl)
cudnn_include=()
if found=$(find_cudnn); then
  read -r cudnn_include_folder cudnn_library_folder <<<"$found"
  baseline=cudnn_baseline
  # Its header marks an attribute as deprecated that older versions need.
  cudnn_include=(-I"$cudnn_include_folder" -Xcompiler -Wno-deprecated-declarations)
  bench_libraries+=(-L"$cudnn_library_folder" -l:libcudnn.so.9 -Xlinker "-rpath=$cudnn_library_folder")
else
  echo "run.sh: no cuDNN found (nvidia-cudnn-cu13 of pip, or libcudnn9-dev): its baseline will be skipped"
fi
for source in "$here"/*.cpp "$here"/*.cu; do
  name=$(basename -- "$source")
  [[ ${name%.cpp} == cudnn* && ${name%.cpp} != "$baseline" ]] && continue
  extra=()
  [[ $name == cudnn_baseline.cpp ]] && extra=("${cudnn_include[@]}")
  compile "$build/bench_$name.o" "$source" -std=c++20 --expt-relaxed-constexpr "${extra[@]}"
  bench_objects+=("$build/bench_$name.o")
done
runtime_objects=()
for source in "$root"/runtime/src/*.cpp; do
  compile "$build/runtime_$(basename -- "$source").o" "$source" -std=c++17 -I"$root/runtime/src"
  runtime_objects+=("$build/runtime_$(basename -- "$source").o")
done

links=()
libraries=()
for item in "${generated[@]}"; do
  label=sparse
  folder=$item
  [[ $item == *=* ]] && label=${item%%=*} && folder=${item#*=}
  mkdir -p "$build/$label"
  objects=()
  names=()
  for source in "$folder"/*.cu; do
    name=$(basename -- "$source" .cu)
    wanted "$name" || continue
    compile "$build/$label/$name.o" "$source" -std=c++17 -I"$folder"
    objects+=("$build/$label/$name.o")
    names+=("$name")
  done
  if ((${#names[@]} == 0)); then
    echo "run.sh: no kernel in $folder matches --kernels" >&2
    exit 2
  fi
  {
    printf '#include "%s.h"\n' "${names[@]}"
    printf 'extern "C" SPIDER_PUBLIC const spider_kernel* spider_bench_kernel(int i) {\n'
    printf '  const spider_kernel* const all[] = {'
    printf '%s_kernel(), ' "${names[@]}"
    printf 'nullptr};\n  return i >= 0 && i < %d ? all[i] : nullptr;\n}\n' "${#names[@]}"
  } >"$build/$label/kernels.cpp"
  compile "$build/$label/kernels.o" "$build/$label/kernels.cpp" -std=c++17 -I"$folder"
  objects+=("$build/$label/kernels.o")
  links+=("$(printf '%q ' "$nvcc" -shared -cudart shared -arch="$arch" "${objects[@]}" "${runtime_objects[@]}" \
    -o "$build/$label/libkernels.so")")
  libraries+=(--library "$label=$build/$label/libkernels.so")
done
links+=("$(printf '%q ' "$nvcc" -cudart shared -arch="$arch" "${bench_objects[@]}" "${bench_libraries[@]}" \
  -o "$build/spider-bench")")

echo "compiling ${#commands[@]} files for $arch" >&2
printf '%s\n' "${commands[@]}" | xargs -P "$(nproc)" -d '\n' -n 1 bash -c
printf '%s\n' "${links[@]}" | xargs -P "$(nproc)" -d '\n' -n 1 bash -c
[[ $build_only == yes ]] || exec "$build/spider-bench" "${libraries[@]}" "$@"
