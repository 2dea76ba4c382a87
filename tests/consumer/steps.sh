# Steps of the tests with foreign projects; sourced. The caller sets `build`, the build tree, and `log`, a file.

fail() {
  printf 'FAILED: %s\n' "$*" >&2
  exit 1
}

# quietly WHAT COMMAND...: the command's output is in $log, and on the terminal where it fails.
quietly() {
  "${@:2}" >"$log" 2>&1 || { cat "$log" >&2; fail "$1"; }
}

did() { grep -qE -- "$1" "$log"; }

# expect_words WORDS WHAT: CMake said them; it breaks long lines.
expect_words() {
  tr -s ' \n' '  ' <"$log" | grep -qF -- "$1" || { cat "$log" >&2; fail "$2: it does not say \"$1\""; }
}

times_done() { grep -cE -- "$1" "$log" || true; }

configure() { quietly "configuring" cmake -B "$build" "$@"; }

# build WHAT [option of cmake --build...]
build() { quietly "$1: the build" cmake --build "$build" -j 4 "${@:2}"; }

works='Generating|Building|Linking|Archiving|Re-checking|Re-running'

# expect_nothing_to_do WHEN [option of cmake --build...]: zero commands.
expect_nothing_to_do() {
  local changed marker=$build.marker
  if grep -q '^CMAKE_GENERATOR:INTERNAL=Ninja' "$build/CMakeCache.txt"; then
    quietly "$1" cmake --build "$build" "${@:2}" -- -n
    did '^ninja: no work to do\.$' || { cat "$log" >&2; fail "$1: ninja has work to do"; }
    return
  fi
  # The first build after another collects the dependencies that compilers found; from then on make writes no file.
  build "$1" "${@:2}"
  if did "$works"; then
    cat "$log" >&2
    fail "$1: make did something"
  fi
  touch -- "$marker"
  build "$1, again" "${@:2}"
  changed=$(find "$build" -type f -newer "$marker")
  [[ -z $changed ]] || fail "$1: make wrote $changed"
}

# touch_later FILE: a time that differs even where times are whole seconds.
touch_later() {
  sleep 1.1
  touch -- "$@"
}
