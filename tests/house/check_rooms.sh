#!/usr/bin/env bash
# A room of the generator includes itself and the rooms that it may look into, nothing else, and a floor of the device headers
# only itself and lower ones: check_rooms.sh GENERATOR DEVICE
set -euo pipefail
generator=$1
device=$2

# room: the other rooms that it may include
rooms() {
  cat <<'END'
diag:
spec: diag
adjoint: diag spec plan
plan: diag spec
pack: diag spec plan
render: diag
emit: diag spec plan pack render
output: diag
cli: diag spec adjoint plan pack emit output
END
}

# The floors of the device headers, the lowest first (runtime/device/spider/README.md). Kernels do not include each other.
floors=(machine values field sums loads steps kernels)

# room: the libraries that it alone includes, as a regular expression of the header's path
libraries() {
  cat <<'END'
spec: yaml-cpp/|muParser|boost/(multiprecision|math)/
cli: boost/program_options
END
}

# in_sources OPTION PATTERN FOLDER: grep in the C++ files; finding nothing is no failure
in_sources() { grep -rE "$1" --include='*.h' --include='*.cpp' --exclude-dir=third_party -e "$2" "$3" || true; }

failures=0
while IFS=': ' read -r room allowed; do
  for included in $(in_sources -ho '^#include "[a-z_]+/' "$generator/$room" | sed 's/.*"//; s,/,,' | sort -u); do
    if [[ $included != "$room" && " $allowed " != *" $included "* ]]; then
      in_sources -n "^#include \"$included/" "$generator/$room"
      printf 'the room %s must not include the room %s\n' "$room" "$included"
      failures=$((failures + 1))
    fi
  done
done < <(rooms)
while IFS=': ' read -r room pattern; do
  if found=$(in_sources -n "^#include [<\"]($pattern)" "$generator" | grep -v "^$generator/$room/"); then
    printf '%s\nonly the room %s may include it\n' "$found" "$room"
    failures=$((failures + 1))
  fi
done < <(libraries)
for folder in "$generator"/*/; do
  compgen -G "$folder*.h" >/dev/null || compgen -G "$folder*.cpp" >/dev/null || continue
  if ! rooms | grep -q "^$(basename -- "$folder"):"; then
    printf 'the room %s has no place in the order\n' "$folder"
    failures=$((failures + 1))
  fi
done
lower=' '
for floor in "${floors[@]}"; do
  [[ $floor == kernels ]] || lower+="$floor "
  while IFS= read -r included; do
    [[ $lower == *" $included "* ]] && continue
    in_sources -n "^#include <spider/$included/" "$device/$floor"
    printf 'the floor %s must not include the floor %s\n' "$floor" "$included"
    failures=$((failures + 1))
  done < <(in_sources -ho '^#include <spider/[a-z_]+/' "$device/$floor" | sed 's,.*<spider/,,; s,/,,' | sort -u)
done
for folder in "$device"/*/; do
  if [[ " ${floors[*]} " != *" $(basename -- "$folder") "* ]]; then
    printf 'the floor %s has no place in the order\n' "$folder"
    failures=$((failures + 1))
  fi
done
# Nobody but the room `output` writes to the disk.
if found=$(in_sources -n 'ofstream|rename\(|O_CREAT|fopen\([^)]*"[wa]' "$generator" | grep -v "^$generator/output/"); then
  printf '%s\nonly the room output writes to the disk\n' "$found"
  failures=$((failures + 1))
fi
[[ $failures == 0 ]]
