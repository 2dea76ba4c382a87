#!/usr/bin/env bash
# generated/ has the files of stencils/ and no others: check_complete.sh ROOT
set -euo pipefail
cd -- "$1"
diff <(for spec in stencils/*.yaml; do stem=$(basename -- "$spec" .yaml); printf '%s\n' "$stem.cu" "$stem.h"; done | sort) \
  <(cd generated && find . -name '*.cu' -o -name '*.h' | sed 's,^\./,,' | sort) ||
  { echo "generated/ (>) and stencils/ (<) differ"; exit 1; }
