#!/usr/bin/env bash
# What spider_add_stencil must refuse, each with the words that help: run_refusals.sh PREFIX WORK
# PREFIX is where spider-gen is installed.
set -euo pipefail
prefix=$1 work=$2
rm -rf -- "$work"
mkdir -p -- "$work/specs/other"
cat >"$work/specs/blur.yaml" <<'END'
stencil: blur
dimensions: 2
storage: f16
shape: box
coefficients: [[1, 2, 1], [2, 4, 2], [1, 2, 1]]
END
cp "$work/specs/blur.yaml" "$work/specs/other/blur.yaml"
cp "$work/specs/blur.yaml" "$work/specs/3d.yaml"
failures=0

# expect STATUS NAME WORDS LANGUAGES: configures a project whose end is read from standard input. Projects of the same
# languages share a build tree, so that compilers are tried once.
expect() {
  local status=0 wanted=$1 name=$2 words=$3 languages=$4
  local source=$work/${languages// /_}
  log=$work/$name.log
  mkdir -p -- "$source"
  cat >"$work/$name.cmake"
  {
    printf 'cmake_minimum_required(VERSION 3.16)\nproject(refused LANGUAGES %s)\n' "$languages"
    printf 'file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/main.c" "int main(void) { return 0; }\\n")\n'
    printf 'add_executable(app "${CMAKE_CURRENT_BINARY_DIR}/main.c")\n'
    printf 'set(specs "%s")\ninclude("%s")\n' "$work/specs" "$work/$name.cmake"
  } >"$source/CMakeLists.txt"
  cmake -S "$source" -B "$source/build" -G "Unix Makefiles" -DCMAKE_PREFIX_PATH="$prefix" >"$log" 2>&1 || status=$?
  # CMake breaks long lines.
  if [[ $status == "$wanted" ]] && tr -s ' \n' '  ' <"$log" | grep -qF -- "$words"; then
    printf 'as expected: %s\n' "$name"
  else
    printf 'FAILED: %s: status %s, and not these words: %s\n' "$name" "$status" "$words"
    cat "$log"
    failures=$((failures + 1))
  fi
}

refuses() { expect 1 "$@"; }

expect 0 accepted "Generating done" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated)
add_library(part INTERFACE)
spider_add_stencil(part SPECS ${specs}/blur.yaml BACKEND emulated)
target_link_libraries(app part)
END
expect 0 options "Generating done" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated OPTIONS -D a=1 --engine cuda --axes=yx)
END
expect 0 two_kernels_of_a_spec "Generating done" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated NAME blur_fast DEFINE a=1 b=a/2)
END
refuses name_of_two_specs "NAME blur_fast is for one spec, and SPECS names 2" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml ${specs}/other/blur.yaml BACKEND emulated NAME blur_fast)
END
refuses name_no_identifier "names the kernel and must be an identifier" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated NAME blur-fast)
END
refuses name_in_options "NAME says how the kernel is called" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated OPTIONS --name blur_fast)
END
refuses definition_without_value "DEFINE wants NAME=VALUE, e.g. DEFINE alpha=0.2, not 'alpha'" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated DEFINE alpha 0.2)
END
# A shared library holds its kernels, so that it can be exported without the libraries that are made for them.
expect 0 exported "Generating done" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
add_library(shared SHARED "${CMAKE_CURRENT_BINARY_DIR}/main.c")
spider_add_stencil(shared SPECS ${specs}/blur.yaml BACKEND emulated)
target_link_libraries(app shared)
install(TARGETS shared EXPORT shared)
install(EXPORT shared DESTINATION cmake)
END
refuses no_cuda "project(... LANGUAGES CXX CUDA)" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml)
END
refuses no_cxx "SpiderGen needs the language CXX" "C" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
END
refuses other_version 'compatible with requested version "99.0"' "C CXX" <<'END'
find_package(SpiderGen 99.0 CONFIG REQUIRED)
END
refuses unknown_backend "BACKEND is cuda, host or emulated, not opencl" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND opencl)
END
refuses unknown_argument "unknown arguments: EMULATED" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app EMULATED SPECS ${specs}/blur.yaml)
END
refuses no_specs "SPECS is missing" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app BACKEND emulated)
END
refuses no_target "there is no such target" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(absent SPECS ${specs}/blur.yaml BACKEND emulated)
END
refuses no_spec "there is no spec $work/specs/absent.yaml" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/absent.yaml BACKEND emulated)
END
refuses bad_stem "must be an identifier" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/3d.yaml BACKEND emulated)
END
refuses other_options "another stencil named blur already" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated OPTIONS -D a=1)
END
refuses option_arch "OPTIONS --arch: ARCHITECTURES says" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated OPTIONS --arch sm_90)
END
refuses option_output "OPTIONS -okernels: OUTPUT_DIRECTORY says" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated OPTIONS -D a=1 -okernels)
END
refuses option_check "OPTIONS --check: with it spider-gen writes no kernel" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated OPTIONS --check)
END
refuses option_spec "OPTIONS other/blur.yaml: specs follow SPECS" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated OPTIONS -D a=1 other/blur.yaml)
END
refuses other_spec_in_a_library "SPIDER_KERNEL_blur" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
add_library(part STATIC "${CMAKE_CURRENT_BINARY_DIR}/main.c")
spider_add_stencil(part SPECS ${specs}/other/blur.yaml BACKEND emulated)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated)
target_link_libraries(app part)
END
refuses one_folder_for_two "give each its OUTPUT_DIRECTORY" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
add_library(part STATIC "${CMAKE_CURRENT_BINARY_DIR}/main.c")
spider_add_stencil(part SPECS ${specs}/blur.yaml BACKEND emulated OUTPUT_DIRECTORY kernels)
spider_add_stencil(app SPECS ${specs}/other/blur.yaml BACKEND emulated OUTPUT_DIRECTORY kernels)
END
refuses old_architecture "has no sparse tensor cores" "C CXX" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated ARCHITECTURES 75)
END
if command -v nvcc >/dev/null; then
  refuses both_backends "A program links one back end" "C CXX CUDA" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
set(CMAKE_CUDA_ARCHITECTURES 80)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND emulated)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND cuda)
END
  refuses both_backends_in_one_link "SPIDER_BACKEND" "C CXX CUDA" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
set(CMAKE_CUDA_ARCHITECTURES 80)
add_library(part STATIC "${CMAKE_CURRENT_BINARY_DIR}/main.c")
spider_add_stencil(part SPECS ${specs}/blur.yaml BACKEND emulated)
target_link_libraries(app part SpiderGen::runtime)
END
  refuses no_usable_architecture "-DCMAKE_CUDA_ARCHITECTURES=80" "C CXX CUDA" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
set(CMAKE_CUDA_ARCHITECTURES 75)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND cuda)
END
  # What CMake knows of this machine is set as it would be without a GPU, and with an old one.
  refuses native_without_a_gpu "CMake found no GPU on this machine. Name the one to compile for: -DCMAKE_CUDA_ARCHITECTURES=90" \
    "C CXX CUDA" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
set(CMAKE_CUDA_ARCHITECTURES native)
set(CMAKE_CUDA_ARCHITECTURES_NATIVE "")
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND cuda)
END
  refuses native_of_an_old_gpu "(native, 75-real) names no device with sparse tensor cores" "C CXX CUDA" <<'END'
find_package(SpiderGen CONFIG REQUIRED)
set(CMAKE_CUDA_ARCHITECTURES native)
set(CMAKE_CUDA_ARCHITECTURES_NATIVE 75-real)
spider_add_stencil(app SPECS ${specs}/blur.yaml BACKEND cuda)
END
fi
if [[ $failures -gt 0 ]]; then
  exit 1
fi
