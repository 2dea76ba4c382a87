#!/usr/bin/env bash
# CMAKE_CXX_COMPILER_LAUNCHER of the tests: compile_once.sh COMPILER ARGUMENT...
# The tests' projects compile the runtime and the generator again and again, from copies. What the preprocessor makes the same
# of, with the same options, is compiled once and copied from $SPIDER_OBJECTS from then on. What the compiler says anything of
# is not kept, so it is said again; all other commands run as they are. Of -fNAME and -fno-NAME the last counts, as for the
# compiler; with -w, options that warn do not.
set -euo pipefail
compiler=$1 source='' object='' flags=() preprocess=("$1")
for ((i = 2; i <= $#; ++i)); do
  next=$((i + 1))
  case ${!i} in
    -o) object=${!next} i=$next; continue ;;
    -MF | -MT | -MQ) preprocess+=("${!i}" "${!next}") i=$next; continue ;;
    -I | -isystem | -D) preprocess+=("${!i}" "${!next}") i=$next; continue ;;  # what they do is in the text
    -Winvalid-pch) continue ;;
    -include)
      if [[ ${!next} == *cmake_pch.hxx ]]; then i=$next; continue; fi  # precompiled headers declare nothing new
      flags+=("${!i}") ;;
    -I* | -D* | -MD | -MMD | -Werror) ;;
    -c) continue ;;
    -g*) object='' ; break ;;  # places of sources are in the object
    *.cpp | *.cxx | *.cc | *.cu) source=${!i} ;;
    *) flags+=("${!i}") ;;
  esac
  preprocess+=("${!i}")
done
if [[ -z $object || -z $source || " $* " != *" -c "* ]]; then
  exec "$@"
fi

mkdir -p -- "$SPIDER_OBJECTS"
scratch=$(mktemp -d "$SPIDER_OBJECTS/XXXXXX")
trap 'rm -rf -- "$scratch"' EXIT
if ! "${preprocess[@]}" -E -P -o "$scratch/text" 2>/dev/null; then
  rm -r -- "$scratch"
  exec "$@"
fi
last=() seen=' '
for ((i = ${#flags[@]} - 1; i >= 0; --i)); do
  name=${flags[i]#-f}
  name=${name#no-}
  if [[ ${flags[i]} == -O* ]]; then name=-O; fi
  if [[ ${flags[i]} == -O* || (${flags[i]} == -f* && ${flags[i]} != *=*) ]]; then
    [[ $seen != *" $name "* ]] || continue
    seen+="$name "
  fi
  last+=("${flags[i]}")
done
mapfile -t last < <(printf '%s\n' "${last[@]}" | sort -u)  # of no two that are left the order counts
mapfile -t effective < <(printf '%s\n' "${last[@]}" | grep -v '^-[Ww]')
key() {  # key FLAG...
  { stat -Lc %n%s%Y -- "$(command -v -- "$compiler")"; printf '%s\n' "$@"; cat -- "$scratch/text"; } | sha256sum | cut -d' ' -f1
}
quiet=$SPIDER_OBJECTS/$(key "${effective[@]}").o
kept=$quiet
[[ " ${flags[*]} " == *' -w '* ]] || kept=$SPIDER_OBJECTS/$(key warning "${last[@]}").o
if [[ -e $kept ]]; then
  cp -- "$kept" "$object"
  exit
fi
status=0
"$@" 2>"$scratch/said" || status=$?
cat -- "$scratch/said" >&2
if ((status == 0)) && [[ ! -s $scratch/said ]]; then
  for place in "$quiet" "$kept"; do
    cp -- "$object" "$scratch/object"
    mv -- "$scratch/object" "$place"
  done
fi
exit "$status"
