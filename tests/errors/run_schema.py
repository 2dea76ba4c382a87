#!/usr/bin/env python3
"""Checks the JSON Schema of specs: it is one, it accepts every good spec, it rejects every bad one of structural.txt, and
it describes every key.

run_schema.py ROOT GENERATOR [FOLDER]     FOLDER: random specs of the accuracy tests, where they have been written
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import jsonschema
import spec_trees

FOLDER = pathlib.Path(__file__).resolve().parent


def errors_of(validator: jsonschema.protocols.Validator, spec: pathlib.Path) -> list[str]:
    value = spec_trees.json_value(spec_trees.parse(spec.read_text(encoding="utf-8")))
    return [f"{list(error.absolute_path)}: {error.message[:200]}" for error in validator.iter_errors(value)]


def good_specs(root: pathlib.Path, generator: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """All that are shipped or used by other tests, what --new writes, and those that only wait for their kernels."""
    subprocess.run([generator, "--new", "starter", "-o", folder], check=True)
    specs = [folder / "starter.yaml", *FOLDER.glob("not_yet_*.yaml")]
    for pattern in ("stencils/*.yaml", "tests/consumer/**/*.yaml", "tests/fuzz/seeds/*.yaml"):
        found = sorted(root.glob(pattern))
        assert found, pattern
        specs += found
    return specs


def check_keys(root: pathlib.Path, schema: dict) -> list[str]:
    """The schema has the keys of the reference, and describes each."""
    page = (root / "stencils/README.md").read_text(encoding="utf-8")
    table = page.split("\n## Keys\n", 1)[1].split("\n## ", 1)[0]
    keys = set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE))
    problems = [f"only the schema or only stencils/README.md has the key {key}" for key in keys ^ set(schema["properties"])]
    return problems + [f"the key {key} has no description" for key, value in schema["properties"].items()
                       if not value.get("description")]


def main() -> int:
    root, generator, *drawn = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    schema = json.loads((root / "stencils/spider-gen.schema.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    problems = check_keys(root, schema)

    with tempfile.TemporaryDirectory() as folder:
        good = good_specs(root, generator, pathlib.Path(folder))
        good += [spec for folder in drawn for spec in folder.glob("*.yaml")]
        problems += [f"rejects {spec.name}: {errors}" for spec in good if (errors := errors_of(validator, spec))]

    lines = (FOLDER / "structural.txt").read_text(encoding="utf-8").splitlines()
    structural = [line for line in lines if line and not line.startswith("#")]
    for name in structural:
        spec = FOLDER / f"{name}.yaml"
        if not spec.exists():
            problems.append(f"structural.txt names {name}, which is no spec")
        elif not errors_of(validator, spec):
            problems.append(f"accepts {spec.name}")
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(good)} good specs, {len(structural)} bad ones, {len(problems)} problems")
    return 1 if problems or len(structural) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
