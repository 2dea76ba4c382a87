#!/usr/bin/env bash
# Line coverage of generator/ by its unit tests, tests/errors and the shipped specs: coverage.sh [--build DIR] [--least PERCENT]
# Builds with gcc's --coverage (default build/coverage), runs the tests, and prints the figure of each file and of all;
# fails where less than PERCENT of all lines were run (default 90). Lines are those that gcov counts.
set -euo pipefail
root=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/coverage
least=90
while (($#)); do
  case $1 in
    --build) build=$2; shift ;;
    --least) least=$2; shift ;;
    -h | --help) sed -n '2,4s/^# //p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) printf 'usage: coverage.sh [--build DIR] [--least PERCENT]\n' >&2; exit 2 ;;
  esac
  shift
done

# The tests of the generator are those that include one of its rooms, as tests/CMakeLists.txt has it.
mapfile -t sources < <(grep -lE '^#include "(diag|spec|plan|pack|render|emit|output|cli)/' "$root"/tests/unit/*_test.cpp)
targets=()
for source in "${sources[@]}"; do targets+=("$(basename -- "$source" .cpp)"); done
names=$(IFS='|'; printf '%s' "${targets[*]%_test}")

log=$(mktemp)
trap 'rm -f -- "$log"' EXIT
{
  cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=g++ -DCMAKE_CXX_FLAGS='--coverage -O1' &&
    cmake --build "$build" -j "$(nproc)" --target spider-gen "${targets[@]}"
} >"$log" 2>&1 || { tail -n 50 "$log"; exit 1; }
find "$build" -name '*.gcda' -delete
ctest --test-dir "$build" -R "^unit\.($names)\$|^errors\$|^errors\.(mutations|schema)\$|^generated\.fresh\$" \
  --output-on-failure >"$log" 2>&1 || { tail -n 50 "$log"; exit 1; }
tail -n 3 "$log" | head -n 1

python3 - "$root/generator" "$build" "$least" <<'END_OF_PYTHON'
import collections
import json
import pathlib
import subprocess
import sys

generator, build, least = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), float(sys.argv[3])
counts = collections.defaultdict(collections.Counter)  # by file, by line: how often it ran
for data in sorted(build.rglob("*.gcda")):
    report = subprocess.run(["gcov", "--json-format", "--stdout", data], cwd=data.parent, capture_output=True, check=True)
    for line in report.stdout.splitlines():
        for file in json.loads(line)["files"]:
            path = pathlib.Path(file["file"])
            path = path if path.is_absolute() else (build / path).resolve()
            if generator in path.parents:
                for entry in file["lines"]:
                    counts[path][entry["line_number"]] += entry["count"]
total = run = 0
for path, lines in sorted(counts.items()):
    missed = sorted(line for line, count in lines.items() if count == 0)
    total += len(lines)
    run += len(lines) - len(missed)
    print(f"{100 * (1 - len(missed) / len(lines)):6.1f} %  {path.relative_to(generator)}", f" not {missed}" if missed else "")
if total == 0:
    sys.exit("no line was counted")
print(f"{100 * run / total:6.1f} %  of {total} lines of generator/")
sys.exit(100 * run / total < least)
END_OF_PYTHON
