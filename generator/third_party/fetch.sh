#!/usr/bin/env bash
# Gets the sources of the libraries that the generator links, as Debian 12 has them, by its apt:
#   bash generator/third_party/fetch.sh [DIR]      DIR: where boost/, fmt/, muparser/ and yaml-cpp/ go (default: this folder)
# A wheel and an sdist take them from here (runtime/python/build_wheel.sh), so does a build where the system has none of them.
# It takes apt-get, dpkg-source and bcp (Debian: dpkg-dev, libboost-tools-dev), and skips what is there already.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
to=${1:-$here}
release=bookworm
versions=(boost1.74=1.74.0 fmtlib=9.1.0 muparser=2.3.3 yaml-cpp=0.7.0)

fail() {
  printf 'generator/third_party/fetch.sh: %s\n' "$*" >&2
  exit 1
}
mkdir -p -- "$to"
to=$(realpath -- "$to")
[[ "$(cat -- "$to/versions" 2>/dev/null)" != "${versions[*]}" ]] || exit 0
for tool in apt-get dpkg-source bcp; do
  command -v "$tool" >/dev/null || fail "there is no $tool (Debian: apt-get install dpkg-dev libboost-tools-dev)"
done
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
cd -- "$work"

# This machine's apt with a list of its own: apt checks the signature of the list, and of each source what the list says.
printf 'deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n' \
  "$release" >sources.list
mkdir -p lists/partial
apt=(apt-get -qq -o "Dir::Etc::sourcelist=$work/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$work/lists" -o APT::Sandbox::User=root)
"${apt[@]}" update
"${apt[@]}" source "${versions[@]%=*}" >log 2>&1 || { tail -n 20 log; fail "apt-get source failed"; }
for wanted in "${versions[@]}"; do
  [[ -d $(echo "${wanted%=*}-${wanted#*=}"*/) ]] || fail "Debian's ${wanted%=*} is not ${wanted#*=}; change the versions here"
done

# Sources, headers and licences alone.
take() {  # NAME FOLDER FILE...
  rm -rf -- "${to:?}/$1"
  mkdir -- "$to/$1"
  (cd -- "$2" && cp -r -- "${@:3}" "$to/$1")
}
take fmt fmtlib-*/ include src LICENSE.rst
take muparser muparser-*/ include src LICENSE
take yaml-cpp yaml-cpp-*/ include src LICENSE
cd boost1.74-*/
mkdir boost include
cp -r libs/*/include/boost/. libs/numeric/*/include/boost/. boost/
bcp --boost=. boost/math/constants/constants.hpp boost/multiprecision/cpp_bin_float.hpp boost/multiprecision/cpp_int.hpp \
  boost/program_options.hpp include >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "bcp failed"; }
rm -rf include/libs include/Jamroot
take boost . include libs/program_options/src LICENSE_1_0.txt
printf '%s\n' "${versions[*]}" >"$to/versions"
