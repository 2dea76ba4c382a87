# What the scripts of this folder share that build for a GPU by nvcc alone; sourced. `wants` reads $steps, with commas between.

skip() {
  echo "skipped: $1"
  exit 77
}

wants() { [[ ,$steps, == *,$1,* ]]; }

# find_gpu [LEAST]: sets arch, where it is empty, to that of the first GPU, and capability; without one, or below compute
# capability LEAST, such as 80, skips.
find_gpu() {
  command -v nvidia-smi >/dev/null || skip "no nvidia-smi, so no NVIDIA GPU"
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>&1 | head -n 1) || skip "nvidia-smi: $capability"
  [[ $capability =~ ^[0-9]+\.[0-9]+$ ]] || skip "nvidia-smi finds no GPU: $capability"
  ((${capability/./} >= ${1:-0})) || skip "compute capability $capability: sparse tensor cores begin at 8.0"
  arch=${arch:-sm_${capability/./}}
}

# Sets nvcc; skips without one.
find_nvcc() {
  nvcc=$(command -v nvcc || echo "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
  [[ -x $nvcc ]] || skip "no nvcc on PATH or in ${nvcc%/nvcc}"
}

# side_by_side COMMAND...: each as one word of bash, $jobs at a time.
side_by_side() { (($# == 0)) || printf '%s\n' "$@" | xargs -P "$jobs" -d '\n' -n 1 bash -c; }
