#!/usr/bin/env bash
# Builds generated kernels for this machine's GPU with nvcc alone and checks them there, also under compute-sanitizer.
# Needs nvcc (CUDA >= 12.5), a GPU and a Python with NumPy and SciPy; no CMake and no spider-gen. Exit 77: cannot run here.
set -euo pipefail

usage() {
  cat <<'END'
usage: build_and_run.sh --cases DIR [--runtime DIR] [--build DIR] [--arch sm_90] [--jobs N] [--seed N]
                        [--form quick|full] [--steps build,check,self-test,sanitize] [--kernels "NAME ..."]
                        [--watch N]
  --cases    folder with kernels/*.cu and plans/*.json (tests/harness/generate_cases.py writes it)
  --arch     default: that of the first GPU
  --steps    default: all of them
  --watch    how many kernels compute-sanitizer watches, chosen to have all properties (default 24)
A run of check, self-test or sanitize adds a line to runs.csv in the folder of --build, in the columns of tests/gpu/runs.csv.
PYTHON names the Python to use (default: the first of python3, /usr/bin/python3 that has NumPy and SciPy).
END
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/steps.sh"
harness=$here/../harness
command="$(basename -- "${BASH_SOURCE[0]}") $*"
cases=""
runtime=$here/../../runtime
build=${TMPDIR:-/tmp}/spider-gpu-tests
arch=""
jobs=$(nproc)
seed=20250117
form=quick
steps=build,check,self-test,sanitize
kernels=""
watch=24
while (($#)); do
  case $1 in
    --cases) cases=$2 ;;
    --runtime) runtime=$2 ;;
    --build) build=$2 ;;
    --arch) arch=$2 ;;
    --jobs) jobs=$2 ;;
    --seed) seed=$2 ;;
    --form) form=$2 ;;
    --steps) steps=$2 ;;
    --kernels) kernels=$2 ;;
    --watch) watch=$2 ;;
    --help) usage; exit 0 ;;
    *) usage >&2; exit 2 ;;
  esac
  shift 2
done
[[ -n $cases ]] || { usage >&2; exit 2; }

# A build alone needs no GPU, if it is told for which.
if wants check || wants self-test || wants sanitize || [[ -z $arch ]]; then
  find_gpu 80
fi
find_nvcc
python=""
for candidate in ${PYTHON:-} python3 /usr/bin/python3; do
  if "$candidate" -c 'import numpy, scipy' 2>/dev/null; then
    python=$candidate
    break
  fi
done
[[ -n $python ]] || skip "no Python with NumPy and SciPy; set PYTHON"

library=$build/libspider_cases_cuda.so
if wants build; then
  echo "building for $arch with $("$nvcc" --version | sed -n 's/^Cuda compilation tools, //p'), $jobs at a time"
  mkdir -p "$build/objects"
  begun=$SECONDS
  if [[ -n $kernels ]]; then
    sources=()
    for name in $kernels; do sources+=("$cases/kernels/$name.cu"); done
  else
    sources=("$cases"/kernels/*.cu)
  fi
  runtime_sources=("$runtime"/src/*.cpp "$harness/forms.cpp")
  flags=(-std=c++20 -O3 "-arch=$arch" -Werror all-warnings "-Xcompiler=-fPIC,-Wall,-Wextra,-Werror"
         "-I$runtime/include" "-I$runtime/device" "-I$runtime/src" "-I$cases/kernels")
  rm -f "$build"/objects/*.o
  export check_ptx=$here/check_ptx.py
  # shellcheck disable=SC2016  # expanded by the inner shell, once per file
  printf '%s\0' "${runtime_sources[@]}" "${sources[@]}" |
    xargs -0 -P "$jobs" -I{} bash -c '
      name=$(basename "$1")
      command=("${@:3}")
      kept=$(mktemp -d)
      trap "rm -rf -- $kept" EXIT
      [[ $name != *.cu ]] || command+=(--keep --keep-dir "$kept")
      "${command[@]}" -c "$1" -o "$2/objects/${name%.*}_${name##*.}.o" || { echo "does not compile: $1" >&2; exit 1; }
      [[ $name != *.cu ]] || "$check_ptx" "$name" <"$kept/${name%.cu}.ptx" >&2
    ' _ {} "$build" "$nvcc" "${flags[@]}"
  "$nvcc" -shared "-arch=$arch" -o "$library" "$build"/objects/*.o
  echo "${#sources[@]} kernels compiled and linked in $((SECONDS - begun)) s"
fi

mkdir -p "$build"
outputs=()
check=("$python" -B "$harness/check_kernels.py" --library "$library" --plans "$cases/plans" --seed "$seed")
# shellcheck disable=SC2206  # names of kernels have no spaces
[[ -z $kernels ]] || check+=(--kernels $kernels)
failed=()
if wants self-test; then
  "${check[@]}" --self-test || failed+=(self-test)
fi
if wants check; then
  nvidia-smi --query-gpu=name,driver_version --format=csv,noheader
  "${check[@]}" --cases "$form" --large 3 --jobs "$jobs" | tee "$build/check.txt" || failed+=(check)
  outputs+=("$build/check.txt")
fi
if wants sanitize; then
  sanitizer=$(command -v compute-sanitizer || true)
  [[ -n $sanitizer ]] || sanitizer=$(dirname "$nvcc")/compute-sanitizer
  if [[ -x $sanitizer ]]; then
    # All tools at once, each with the kernels shared out to as many processes as there are jobs for: what they wait for
    # is mostly each other's locks and the start of their processes. racecheck takes twice as long as the others.
    logs=$build/sanitizer
    rm -rf -- "$logs"
    mkdir -p "$logs"
    tools=(memcheck racecheck initcheck synccheck)
    declare -A shares=() watchers=()
    for tool in "${tools[@]}"; do
      of_jobs=$((jobs / (${#tools[@]} + 1)))
      [[ $tool != racecheck ]] || of_jobs=$((2 * of_jobs))
      shares[$tool]=$((of_jobs < 1 ? 1 : of_jobs < watch ? of_jobs : watch))
      extra=()
      # Allocations apart from each other, so that reading before one is not reading another; and for initcheck only
      # what a kernel may read is ever written.
      [[ $tool != memcheck ]] || extra=(--padding 4096)
      for ((share = 1; share <= shares[$tool]; ++share)); do
        watched=("${check[@]}" --cases sanitizer --representative "$watch" --share "$share/${shares[$tool]}" --jobs 0)
        [[ $tool != initcheck ]] || watched+=(--valid-only)
        "$sanitizer" --tool "$tool" --error-exitcode 99 "${extra[@]}" "${watched[@]}" >"$logs/$tool-$share.txt" 2>&1 &
        watchers[$tool-$share]=$!
        outputs+=("$logs/$tool-$share.txt")
      done
    done
    for tool in "${tools[@]}"; do
      echo "compute-sanitizer $tool"
      for ((share = 1; share <= shares[$tool]; ++share)); do
        status=0
        wait "${watchers[$tool-$share]}" || status=$?
        if ((status == 0)); then
          grep -hE ' SUMMARY: |^[0-9]+ kernels, ' "$logs/$tool-$share.txt" || true
        else
          failed+=("$tool")
          tail -n 60 "$logs/$tool-$share.txt"
        fi
      done
    done
  else
    echo "skipped: compute-sanitizer is not installed"
  fi
fi
if wants check || wants self-test || wants sanitize; then
  drawn=$(cat -- "$cases/drawn.txt" 2>/dev/null || true)
  "$python" -B "$here/record_run.py" --table "$build/runs.csv" --root "$here/../.." --drawn "$drawn" --command "$command" \
    --failed "${failed[*]}" "${outputs[@]}" || failed+=(record)
fi
if ((${#failed[@]})); then
  echo "FAILED: ${failed[*]}"
  exit 1
fi
echo "done: $steps"
