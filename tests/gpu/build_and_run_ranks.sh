#!/usr/bin/env bash
# Fields and systems of equations on several GPUs, built by nvcc alone and run under mpiexec, a GPU a rank: random sweeps, updates,
# systems and the application of tests/consumer/distributed against one rank, bit for bit. Exit 77: cannot run here; 1: something
# differed.
set -euo pipefail

usage() {
  cat <<'END_OF_USAGE'
usage: build_and_run_ranks.sh [--spider-gen FILE] [--kernels DIR] [--build DIR] [--arch sm_90] [--jobs N] [--ranks N]
                              [--steps generate,build,run] [--systems N] [--sweeps N] [--cases N] [--seed N]
  --spider-gen  generates the kernels, with the step generate, which takes a Python with NumPy and PyYAML
  --kernels     folder of the generated kernels (default: in the folder of --build)
  --build       folder of what is compiled
  --arch        default: that of the first GPU
  --ranks       default: as many as there are GPUs
  --steps       default: build,run, and generate where --spider-gen is given; what one machine built another may run
  --systems     how many random systems are generated (default: 24)
  --sweeps      how many random sweeps, a third as many of several steps, and a third as many with updates (default: 24)
  --cases       how many cases run of systems, of sweeps and of updates (default: 100); --seed draws others
MPICXX (default: mpicxx) and MPIEXEC (default: mpiexec) name those of one MPI, NCCL_ROOT a folder with include/nccl.h and a
libnccl in lib, PYTHON the Python that draws (default: python3).
END_OF_USAGE
}

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
. "$here/steps.sh"
root=$(cd -- "$here/../.." && pwd)
runtime=$root/runtime
spider_gen=
kernels=
build=${TMPDIR:-/tmp}/spider-gpu-ranks
arch=
jobs=$(nproc)
ranks=
steps=
systems=24
sweeps=24
cases=100
seed=20250117
while (($#)); do
  case $1 in
    --help) usage; exit 0 ;;
    --spider-gen) spider_gen=${2:-} ;;
    --kernels) kernels=${2:-} ;;
    --build) build=${2:-} ;;
    --arch) arch=${2:-} ;;
    --jobs) jobs=${2:-} ;;
    --ranks) ranks=${2:-} ;;
    --steps) steps=${2:-} ;;
    --systems) systems=${2:-} ;;
    --sweeps) sweeps=${2:-} ;;
    --cases) cases=${2:-} ;;
    --seed) seed=${2:-} ;;
    *) usage >&2; exit 2 ;;
  esac
  (($# > 1)) || { usage >&2; exit 2; }
  shift 2
done
steps=${steps:-${spider_gen:+generate,}build,run}
kernels=${kernels:-$build/kernels}

if wants run || { wants build && [[ -z $arch ]]; }; then
  find_gpu
fi
mpicxx=$(command -v "${MPICXX:-mpicxx}" || true)
mpiexec=$(command -v "${MPIEXEC:-mpiexec}" || true)
if wants build; then
  find_nvcc
  [[ -n $mpicxx ]] || skip "no ${MPICXX:-mpicxx}: an MPI with its headers is needed"
fi
if wants run; then
  [[ -n $mpiexec ]] || skip "no ${MPIEXEC:-mpiexec}"
  ranks=${ranks:-$(nvidia-smi --query-gpu=index --format=csv,noheader | wc -l)}
fi

if wants generate; then
  python=("${PYTHON:-python3}" -B)
  no_stencils=$(mktemp -d)
  trap 'rm -rf -- "$no_stencils"' EXIT
  "${python[@]}" "$root/tests/harness/generate_cases.py" --spider-gen "$spider_gen" --stencils "$no_stencils" \
    --folder "$kernels/sweeps" --count "$sweeps" --steps-count $((sweeps / 3)) --seed "$seed" >/dev/null
  "${python[@]}" "$root/tests/harness/random_updates.py" --spider-gen "$spider_gen" --folder "$kernels/updates" \
    --shipped "$root"/stencils/diffusion2d_steps_f32.yaml --count $((sweeps / 3)) --seed "$seed"
  "${python[@]}" "$root/tests/systems/generate.py" --spider-gen "$spider_gen" --folder "$kernels/systems" \
    --count "$systems" --seed "$seed" \
    --shipped "$root"/stencils/{shallow_water2d,maxwell3d,elastic2d,elastic3d}.yaml
  "$spider_gen" "$root"/tests/consumer/distributed/*.yaml -o "$kernels/application"
fi

# What mpicxx adds, as nvcc takes it: -I, -L and -l alone. Open MPI and MPICH tell it in different ways.
mpi_flags() {  # mpi_flags compile|link
  local said
  said=$("$mpicxx" "--showme:$1" 2>/dev/null || "$mpicxx" "-$1-info" 2>/dev/null || "$mpicxx" "-${1}_info")
  tr ' ' '\n' <<<"$said" | case $1 in
    compile) grep -E '^-I' || true ;;
    link) grep -E '^-(L|l)' | grep -vE 'mpi_cxx|mpicxx' || true ;;
  esac
}

build_programs() {
  local commands=() shared=() of_systems=() of_sweeps=() of_application=() source object includes links
  mapfile -t includes < <(mpi_flags compile)
  mapfile -t links < <(mpi_flags link)
  links+=(${NCCL_ROOT:+"-L$NCCL_ROOT/lib"} -lnccl)
  rm -rf -- "$build/objects"
  mkdir -p -- "$build/objects"
  compile() {  # compile NAME SOURCE [FLAG...]
    local name=$1 source=$2
    shift 2
    object=$build/objects/$name.o
    commands+=("$(printf '%q ' "$nvcc" "-arch=$arch" -O2 -Werror all-warnings -DOMPI_SKIP_MPICXX -DMPICH_SKIP_MPICXX "$@" \
      "-I$runtime/include" "-I$runtime/device" "-I$runtime/src" "-I$runtime/distributed/include" "${includes[@]}" \
      ${NCCL_ROOT:+"-I$NCCL_ROOT/include"} -Xcompiler "-fPIC,-Wall,-Wextra,-Werror" -c "$source" -o "$object")")
  }
  for source in "$runtime"/src/*.cpp "$runtime"/distributed/src/*.cpp "$runtime"/distributed/src/*.cu; do
    [[ $source != */gpus_missing.cpp ]] || continue
    compile "runtime_$(basename -- "${source%.*}")_$(basename -- "$(dirname -- "$(dirname -- "$source")")")" "$source" -std=c++20
    shared+=("$object")
  done
  for source in "$kernels"/systems/kernels/*.cu; do
    compile "system_$(basename -- "$source" .cu)" "$source" -std=c++17 -DSPIDER_TELLS_RIMS
    of_systems+=("$object")
  done
  compile systems_main "$root/tests/distributed/systems.cpp" -std=c++20
  of_systems+=("$object")
  for source in "$kernels"/{sweeps,updates}/kernels/*.cu; do
    compile "sweep_$(basename -- "$source" .cu)" "$source" -std=c++17 -DSPIDER_TELLS_RIMS
    of_sweeps+=("$object")
  done
  compile sweeps_main "$root/tests/distributed/cases.cpp" -std=c++20
  of_sweeps+=("$object")
  for source in "$kernels"/application/*.cu; do
    compile "application_$(basename -- "$source" .cu)" "$source" -std=c++17 -DSPIDER_TELLS_RIMS
    of_application+=("$object")
  done
  for source in "$root"/tests/consumer/distributed/*.cpp; do
    compile "application_$(basename -- "$source" .cpp)_program" "$source" -std=c++20 "-I$kernels/application"
    of_application+=("$object")
  done
  side_by_side "${commands[@]}"
  # The programs find kernels by their names (dlsym).
  "$nvcc" "-arch=$arch" -Xlinker --export-dynamic "${of_systems[@]}" "${shared[@]}" "${links[@]}" -ldl -o "$build/systems"
  "$nvcc" "-arch=$arch" -Xlinker --export-dynamic "${of_sweeps[@]}" "${shared[@]}" "${links[@]}" -ldl -o "$build/sweeps"
  "$nvcc" "-arch=$arch" "${of_application[@]}" "${shared[@]}" "${links[@]}" -o "$build/application"
}
if wants build; then build_programs; fi
wants run || exit 0

names_of() { for file in "$kernels/$1"/kernels/*.h; do basename -- "$file" .h; done >"$build/$1.txt"; }
[[ -z ${NCCL_ROOT:-} ]] || export LD_LIBRARY_PATH=$NCCL_ROOT/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
failed=0
for kind in sweeps updates systems; do
  names_of "$kind"
  program=$build/${kind/updates/sweeps}
  "$mpiexec" -n "$ranks" "$program" "$build/$kind.txt" --seed "$seed" --cases "$cases" || failed=1
done
(cd -- "$build" && "$mpiexec" -n "$ranks" ./application) || failed=1
exit "$failed"
