#!/usr/bin/env bash
# spider-gen refuses a stencil whose header would hide one that compiling a kernel and the usual headers of the system
# takes: check_header_names.sh ROOT SPIDER-GEN C++-COMPILER [NVCC]
# A consumer has -I with the folder of generated headers, which comes before the folders of the system.
set -euo pipefail
root=$1 generator=$2 compiler=$3 nvcc=${4:-}
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
include=(-I "$root/runtime/include" -I "$root/runtime/device" -I "$root/generated")

cat >"$work/usual.h" <<'END'
#if __has_include(<bits/stdc++.h>)
#include <bits/stdc++.h>
#endif
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spider/spider.hpp>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
END

# What one compiler reads, one file a line.
files_of() { "$@" -std=c++20 -M "${include[@]}" -include "$work/usual.h" "$root/generated/heat2d.cu" | tr -s ' \\' '\n'; }

# The folders that are searched for <NAME.h>: the compiler's, and that of the CUDA toolkit.
{
  files_of "$compiler" -I "$root/runtime/emulator" -x c++
  if [[ -n $nvcc ]]; then files_of "$nvcc"; fi
} | grep '^/.*\.h$' | xargs realpath | sort -u >"$work/files"
{
  "$compiler" -E -v -x c++ /dev/null 2>&1 >/dev/null | sed -n '/^#include </,/^End of/s/^ //p' | xargs realpath
  sed -n 's#/cuda_runtime\.h$##p' "$work/files"
} >"$work/folders"

tried=0
accepted=()
while read -r file; do
  name=$(basename -- "$file" .h)
  grep -qxF -- "$(dirname -- "$file")" "$work/folders" && [[ $name =~ ^[A-Za-z][A-Za-z0-9_]*$ ]] || continue
  tried=$((tried + 1))
  if "$generator" --new "$name" -o "$work/new" 2>"$work/said"; then accepted+=("$name"); fi
done <"$work/files"
printf '%d headers, accepted as names of stencils: %s\n' "$tried" "${accepted[*]:-none}"
((tried > 40 && ${#accepted[@]} == 0))
