#!/usr/bin/env python3
"""Checks the JSON Schema of specs: it is one, it accepts every good spec, it rejects every bad one that is marked as
structural, and it describes every key.

run_schema.py ROOT GENERATOR [FOLDER]     FOLDER: random specs of the accuracy tests, where they have been written
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

import cases
import jsonschema
import spec_trees


def errors_of(validator: jsonschema.protocols.Validator, text: bytes) -> list[str]:
    value = spec_trees.json_value(spec_trees.parse(text.decode()))
    return [f"{list(error.absolute_path)}: {error.message[:200]}" for error in validator.iter_errors(value)]


def good_specs(root: pathlib.Path, generator: pathlib.Path, folder: pathlib.Path) -> list[pathlib.Path]:
    """All that are shipped or used by other tests, and what --new writes."""
    subprocess.run([generator, "--new", "starter", "-o", folder], check=True)
    subprocess.run([generator, "--new", "system", "--system", "-o", folder], check=True)
    specs = [folder / "starter.yaml", folder / "system.yaml"]
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
        paths = good_specs(root, generator, pathlib.Path(folder))
        paths += [spec for folder in drawn for spec in folder.glob("*.yaml")]
        good = [(path.name, path.read_bytes()) for path in paths]
    bad = cases.read_cases()
    good += [(case.name, case.text) for case in bad if case.name.startswith("not_yet_")]  # they only wait for their kernels
    problems += [f"rejects {name}: {errors}" for name, text in good if (errors := errors_of(validator, text))]
    structural = [case for case in bad if case.is_marked("structural")]
    problems += [f"accepts {case.name}" for case in structural if not errors_of(validator, case.text)]
    print(*problems, sep="\n", end="\n" if problems else "")
    print(f"{len(good)} good specs, {len(structural)} bad ones, {len(problems)} problems")
    return 1 if problems or len(structural) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
