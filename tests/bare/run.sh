#!/usr/bin/env bash
# Runs the commands of README.md on a bare Debian 12, to find packages that no list names: a chroot by debootstrap with
# nothing in it but a clone of this repository's HEAD. One chroot a command, so that none has what another installed.
#
#   bash tests/bare/run.sh [--work DIR] [--cuda DIR] [--release NAME] [--mirror URL] [--with DIR] [COMMAND...]
#     --work     folder of the chroots, 3 GB each (default build/bare); the base is kept for the next run
#     --cuda     a CUDA toolkit, read-only at /usr/local/cuda there (default: none)
#     --release  another release of Debian (default bookworm, which is Debian 12)
#     --mirror   of that release where it is not Debian's, as http://archive.ubuntu.com/ubuntu for noble, which is Ubuntu
#                24.04 (signatures are checked where this machine has Ubuntu's keys)
#     --with     a folder of this machine that is copied into the clone, as dist/ with wheels
#     COMMAND default: 'bash stencils/quickstart.sh' and 'bash tests/run.sh'
#
# It takes root, debootstrap, git and a mirror of Debian that apt reaches. The last line counts.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/../.." && pwd)

work=$root/build/bare
cuda=
release=bookworm
mirror=
with=
commands=()
while (($#)); do
  case $1 in
    --work) work=$2; shift ;;
    --cuda) cuda=$(realpath -e -- "$2"); shift ;;
    --release) release=$2; shift ;;
    --mirror) mirror=$2; shift ;;
    --with) with=$(realpath -e -- "$2"); shift ;;
    -h | --help) sed -n '2,15s/^#$//; 2,15s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) printf 'usage: bash tests/bare/run.sh [--work DIR] [--cuda DIR] [--release NAME] [--mirror URL] [--with DIR] [COMMAND...]\n' >&2; exit 2 ;;
    *) commands+=("$1") ;;
  esac
  shift
done
((${#commands[@]})) || commands=('bash stencils/quickstart.sh' 'bash tests/run.sh')

fail() {
  printf 'tests/bare/run.sh: %s\n' "$*" >&2
  exit 1
}
((EUID == 0)) || fail "debootstrap and chroot take root"
for tool in debootstrap git unshare; do
  command -v "$tool" >/dev/null || fail "there is no $tool"
done
[[ -z $cuda || -x $cuda/bin/nvcc ]] || fail "$cuda has no bin/nvcc"
[[ -z $(git -C "$root" status --porcelain) ]] || printf 'Changes that are not committed are not tried.\n'

# The base, as Debian's container image has it: the essential packages and apt, with this machine's way to the mirror.
mkdir -p -- "$work"
work=$(realpath -- "$work")
base=$work/$release
if [[ ! -e $base/complete ]]; then
  rm -rf -- "$base"
  options=() script=()
  if [[ -n $mirror ]]; then
    options=("--components=main,universe")
    if ! compgen -G '/usr/share/keyrings/ubuntu-archive-keyring.*' >/dev/null; then
      options+=(--no-check-gpg)
      printf 'Signatures of %s are not checked: there is no ubuntu-archive-keyring here.\n' "$mirror"
    fi
    [[ -e /usr/share/debootstrap/scripts/$release ]] || script=(gutsy)  # of all releases of Ubuntu
  fi
  debootstrap --variant=minbase "${options[@]}" "$release" "$base" "${mirror:-http://deb.debian.org/debian}" "${script[@]}" >"$work/debootstrap.log" 2>&1 ||
    { tail -n 20 "$work/debootstrap.log"; fail "debootstrap failed"; }
  touch -- "$base/complete"
fi
apt-config dump | grep -E '^Acquire::(http|https|Retries|ForceIPv[46])\b' >"$base/etc/apt/apt.conf.d/90host" || true
cp -L -- /etc/resolv.conf /etc/hosts "$base/etc/"

# within FOLDER COMMAND: in its own mount name space, so that no mount outlives it.
within() {
  env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
    http_proxy="${http_proxy-}" https_proxy="${https_proxy-}" no_proxy="${no_proxy-}" \
    unshare --mount --fork --pid --kill-child bash -euc '
      mount -t proc proc "$1/proc"
      mount --rbind /dev "$1/dev"
      if [[ -n $3 ]]; then
        mkdir -p "$1/usr/local/cuda"
        mount --bind -o ro "$3" "$1/usr/local/cuda"
      fi
      exec chroot "$1" bash -c "cd /root/spider-gen && $2"' within "$1" "$2" "$cuda"
}

passed=0 failed=0
for command in "${commands[@]}"; do
  place=$work/place
  rm -rf --one-file-system -- "$place"
  cp -a -- "$base" "$place"
  git clone -q --no-hardlinks -- "$root" "$place/root/spider-gen"
  [[ -z $with ]] || cp -r -- "$with" "$place/root/spider-gen/"
  printf '\n== %s%s\n' "$command" "${cuda:+, with nvcc}"
  if within "$place" "$command"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s (it is left in %s)\n' "$command" "$place"
    break
  fi
done
printf '%d passed, %d failed\n' "$passed" "$failed"
((failed == 0))
