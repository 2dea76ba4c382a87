#!/usr/bin/env bash
# Looks at what the program prints of its times: check.sh LAUNCHER... PROGRAM
set -euo pipefail
said=$("$@" heat_block --measure 32 24 48)
fail() { printf '%s\nFAILED: %s\n' "$said" "$1" >&2; exit 1; }

grep -qE '^heat_block, 32 x 24 x 48 a rank, [0-9]+ ranks: sweep [0-9.]+ us, exchange [0-9.]+ us .* step [0-9.]+ us: ' <<<"$said" ||
  fail "no line of what was measured"
# A row of the model for each power of two up to 1024 ranks, whose parts are as many; one rank exchanges nothing, eight, cut
# along three axes, more than four, along two.
awk '$2 ~ /^[0-9]+$/ && $3 == "x" && $5 == "x" && /%$/ && $1 ~ /^[0-9]+$/ {
       right = right + ($1 == 2^rows && $2 * $4 * $6 == $1 && $8 > 0 && $9 > 0 && ($1 == 1 ? $7 == 0 && $9 == 100 : $7 > 0))
       exchange[$1] = $7
       ++rows
     }
     END { exit !(rows == 11 && right == 11 && exchange[8] > exchange[4]) }' <<<"$said" || fail "the model has not its 11 rows, of 1 to 1024 ranks"
