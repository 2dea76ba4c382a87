#!/usr/bin/env python3
"""Deletes, doubles and retypes each key and value of every shipped spec, of those that differ in numbers alone of the first,
and runs spider-gen on what comes of it.

Each mutant ends in located errors, or in a kernel of the stencil that it says, as spec_meaning.py reads it: never in a crash,
an internal error, or an error without a place. Of long lists the first, the middle and the last entry are changed. What has
errors and what has none is found in one run of many mutants; those without are then generated and explained. What two changes
make alike of a spec is tried once.

run_mutations.py GENERATOR SPEC...
"""

import argparse
import collections
import json
import pathlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator

import spec_meaning
import spec_trees
from spec_trees import Mapping, Scalar, Tree

BATCH = 400
LONGEST_RUN_S = 300

REPLACEMENTS: list[Tree] = [
    Scalar("~"), Scalar("abc"), Scalar("7"), Scalar("-1"), Scalar("1.5"), Scalar("0"), Scalar("1e999"), Scalar("1/0"),
    Scalar("", plain=False), Scalar("true"), [], [Scalar("1")], [[]], Mapping([]), Mapping([(Scalar("a"), Scalar("1"))]),
]


def places(tree: Tree, path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The paths of all entries of mappings, and of some of lists."""
    if isinstance(tree, Mapping):
        children = [(index, value) for index, (_, value) in enumerate(tree.pairs)]
    elif isinstance(tree, list):
        chosen = sorted({0, len(tree) // 2, len(tree) - 1}) if tree else []
        children = [(index, tree[index]) for index in chosen]
    else:
        return
    for index, child in children:
        yield (*path, index)
        yield from places(child, (*path, index))


def changed(tree: Tree, path: tuple[int, ...], change: Callable[[list, int, bool], None]) -> Tree:
    """The tree with the entry at `path` changed; what is beside the path is shared with the tree that was given."""
    is_mapping = isinstance(tree, Mapping)
    items = list(tree.pairs if is_mapping else tree)
    index, *rest = path
    if not rest:
        change(items, index, is_mapping)
    elif is_mapping:
        items[index] = (items[index][0], changed(items[index][1], tuple(rest), change))
    else:
        items[index] = changed(items[index], tuple(rest), change)
    return Mapping(items) if is_mapping else items


def mutants(tree: Tree) -> Iterator[tuple[str, Tree]]:
    """A word on what was done, and the changed tree."""
    for path in places(tree):
        def replace_by(value: Tree):
            def change(items: list, index: int, is_mapping: bool) -> None:
                items[index] = (items[index][0], value) if is_mapping else value
            return change

        def wrap(items: list, index: int, is_mapping: bool) -> None:
            items[index] = (items[index][0], [items[index][1]]) if is_mapping else [items[index]]

        def rename(items: list, index: int, is_mapping: bool) -> None:
            if is_mapping:
                items[index] = (Scalar(getattr(items[index][0], "text", "") + "x"), items[index][1])

        def list_as_key(items: list, index: int, is_mapping: bool) -> None:
            if is_mapping:
                items[index] = ([items[index][0]], items[index][1])

        where = ".".join(map(str, path))
        yield f"delete {where}", changed(tree, path, lambda items, index, _: items.pop(index))
        yield f"double {where}", changed(tree, path, lambda items, index, _: items.insert(index, items[index]))
        yield f"double {where} at the end", changed(tree, path, lambda items, index, _: items.append(items[index]))
        yield f"wrap {where}", changed(tree, path, wrap)
        yield f"rename {where}", changed(tree, path, rename)
        yield f"list as key {where}", changed(tree, path, list_as_key)
        for value in REPLACEMENTS:
            yield f"set {where} to {value}", changed(tree, path, replace_by(value))


WORDS = ("dimensions", "storage", "shape", "boundary")


def form(tree: Tree) -> tuple:
    """The keys of a spec, and those of its values that say what it is."""
    if isinstance(tree, Mapping):
        return tuple((key.text, value.text if key.text in WORDS and isinstance(value, Scalar) else form(value))
                     for key, value in tree.pairs)
    return tuple(form(entry) for entry in tree[:1]) if isinstance(tree, list) else ()


def named(text: str, name: str) -> str:
    """The spec with this name, where it still has one."""
    return re.sub("^stencil: '@'$", f"stencil: {name}", text, flags=re.MULTILINE)


def run(generator: pathlib.Path, specs: list[str], folder: pathlib.Path, *options: str) -> subprocess.CompletedProcess:
    return subprocess.run([generator, *specs, "-o", "out", *options], cwd=folder, capture_output=True, text=True,
                          timeout=LONGEST_RUN_S, check=False)


def check_batch(generator: pathlib.Path, batch: list[tuple[str, str]], counts: collections.Counter) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        told = {}
        for index, (words, spec) in enumerate(batch):
            text = named(spec, f"m{index}")
            (folder / f"m{index}.yaml").write_text(text, encoding="utf-8")
            told[f"m{index}.yaml"] = f"{words}\n{text}"
        first = run(generator, list(told), folder)
        if first.returncode not in (0, 1):
            if len(batch) > 1:
                half = len(batch) // 2
                return check_batch(generator, batch[:half], counts) + check_batch(generator, batch[half:], counts)
            return [f"exit status {first.returncode}: {first.stderr}{told.popitem()[1]}"]

        problems = []
        wrong = set()
        for line in first.stderr.splitlines():
            match = re.match(r"(m\d+\.yaml)(:\d+:\d+)?: (error|warning): (.*)", line)
            if match is None:
                problems.append(f"neither an error nor a warning: {line}")
            elif match[3] == "error":
                wrong.add(match[1])
                lines = told[match[1]].count("\n")
                if match[2] is None and not match[4].startswith("more errors may follow"):
                    problems.append(f"no place: {line}\n{told[match[1]]}")
                elif match[2] and int(match[2].split(":")[1]) > lines:
                    problems.append(f"a place beyond the file: {line}\n{told[match[1]]}")
        if first.returncode != (1 if wrong else 0):
            problems.append(f"exit status {first.returncode} with {len(wrong)} wrong specs")
        if wrong and (folder / "out").exists():
            problems.append("files were written in spite of errors")

        good = [spec for spec in told if spec not in wrong]
        counts["errors"] += len(wrong)
        counts["kernels"] += len(good)
        if good:
            second = run(generator, good, folder, "--explain", "--explain-format", "json")
            files = {path.name for path in (folder / "out").glob("*")}
            wanted = {pathlib.PurePath(spec).stem + suffix for spec in good for suffix in (".cu", ".h")}
            if second.returncode != 0 or files != wanted:
                return [*problems, f"exit status {second.returncode}, {len(files)} files of {len(wanted)}: {second.stderr}"]
            told_of = json.loads(second.stdout)
            explained = {one["stencil"]: one for one in (told_of if isinstance(told_of, list) else [told_of])}
            for spec in good:
                tree = spec_trees.parse((folder / spec).read_text(encoding="utf-8"))
                problems += [f"{difference}\n{told[spec]}" for difference in
                             spec_meaning.differences(tree, explained[pathlib.PurePath(spec).stem])]
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", type=pathlib.Path)
    parser.add_argument("spec", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    generator = options.generator.resolve()

    problems = []
    counts: collections.Counter = collections.Counter()
    batch: list[tuple[str, str]] = []
    forms: dict[tuple, tuple[pathlib.Path, Tree]] = {}
    for spec in options.spec:
        tree = spec_trees.parse(spec.read_text(encoding="utf-8"))
        forms.setdefault(form(tree), (spec, tree))
    for spec, tree in forms.values():
        for pair in tree.pairs:
            if pair[0].text == "stencil":
                pair[1].text = "@"  # every mutant gets a name
        seen: set[str] = set()
        for words, mutant in mutants(tree):
            text = spec_trees.write(mutant)
            if text in seen:
                continue
            seen.add(text)
            batch.append((f"{spec.name}: {words}", text))
            if len(batch) == BATCH:
                problems += check_batch(generator, batch, counts)
                batch = []
    if batch:
        problems += check_batch(generator, batch, counts)
    print(*problems[:20], sep="\n", end="\n" if problems else "")
    print(f"{counts.total()} mutants of {len(forms)} specs: {counts['errors']} with errors, {counts['kernels']} kernels; "
          f"{len(problems)} problems")
    return 1 if problems or not counts["errors"] or not counts["kernels"] else 0


if __name__ == "__main__":
    sys.exit(main())
