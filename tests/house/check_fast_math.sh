#!/usr/bin/env bash
# check_fast_math.sh SOURCE SPIDER_GEN NVCC BUILD: a project with -use_fast_math, of its directory or in CMAKE_CUDA_FLAGS, gets
# the kernels of one without it: the same PTX. Of the flag that no target can leave out CMake warns.
set -euo pipefail
source=$1 spider_gen=$2 nvcc=$3 build=$4
rm -rf -- "$build"
mkdir -p "$build"

cat > "$build/rational.yaml" << 'EOF'
stencil: rational
dimensions: 2
storage: f32
shape: star
radius: 1
coefficients: {center: 0, y: [0.25, 0.25], x: [0.25, 0.25]}
boundary: nearest
fields: [b]
update: sum/b + b*b - sqrt(sum)
EOF
sed 's/rational/transcendental/; s/^update.*/update: sin(sum)*exp(b)/' "$build/rational.yaml" > "$build/transcendental.yaml"
cat > "$build/CMakeLists.txt" << 'EOF'
cmake_minimum_required(VERSION 3.25)
project(fast LANGUAGES CXX CUDA)
if(FAST_DIRECTORY)
  add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:-use_fast_math;-fmad=false>")
endif()
add_subdirectory("${SPIDER_SOURCE}" spider EXCLUDE_FROM_ALL)
file(WRITE "${CMAKE_BINARY_DIR}/none.cpp" "")
add_library(fast STATIC "${CMAKE_BINARY_DIR}/none.cpp")
spider_add_stencil(fast SPECS rational.yaml transcendental.yaml)
EOF

# ptx NAME [option of cmake...]: configures, and compiles both kernels by the project's own commands. In one build tree, so that
# compilers are tried once.
ptx() {
  cmake -S "$build" -B "$build/tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_EXPORT_COMPILE_COMMANDS=ON \
    -DCMAKE_CUDA_COMPILER="$nvcc" -DCMAKE_CUDA_ARCHITECTURES=90-virtual -DSPIDER_SOURCE="$source" \
    -DSpiderGen_EXECUTABLE="$spider_gen" "${@:2}" > "$build/$1.log" 2>&1 || { cat "$build/$1.log"; exit 1; }
  local spec command file
  for spec in rational transcendental; do
    command=$(sed -n "s/^ *\"command\": \"\(.*\/$spec\.cu\.o\)\".*/\1/p" "$build/tree/compile_commands.json")
    file=${command##* -c }
    "$spider_gen" "$build/$spec.yaml" -o "$(dirname "${file%% *}")" --arch sm_90
    (cd "$build/tree" && eval "$(sed -E 's/ -o [^ ]+/ -o kernel.ptx/; s/ -c / -ptx /' <<< "$command")")
    grep -v '^//' "$build/tree/kernel.ptx" > "$build/$1.$spec.ptx"
  done
}

warns() { tr -s ' \n' '  ' < "$build/$1.log" | grep -qF 'less accurate than the bounds'; }

ptx plain
ptx directory -DFAST_DIRECTORY=ON
ptx flags -DFAST_DIRECTORY=OFF -DCMAKE_CUDA_FLAGS=-use_fast_math
status=0
same() { cmp -s "$build/plain.$2.ptx" "$build/$1.$2.ptx" || { echo "$1: other PTX of $2"; status=1; }; }
same directory rational
same directory transcendental
same flags rational
if warns plain || warns directory; then echo "a warning without a reason"; status=1; fi
warns flags || { echo "no warning of CMAKE_CUDA_FLAGS"; status=1; }
exit "$status"
