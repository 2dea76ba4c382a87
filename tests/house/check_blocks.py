#!/usr/bin/env python3
"""Every block of code in the documentation is tested; one that nothing tests is an error.

  check_blocks.py ROOT --spider-gen FILE [--cxx COMPILER] [--cc COMPILER]

How a block is tested follows from its language, and from a comment in the line before it:

  <!-- from: FILE -->    the block is part of FILE, word for word; what stands between lines `...` may be left out
  ```yaml                a spec, or some of its keys: spider-gen reads and plans it. A key that is there twice makes
                         several specs
  ```c, ```cpp           compiles by itself
  ```sh                  commands: programs, files, presets, targets and options that they name exist, and the test that
                         has "NAME" of <!-- block: NAME --> in its source runs them (run_commands.py, check_docs.py)
  ```text, ```cmake      <!-- block: NAME -->, and a test that has "NAME" in its source compares or builds it
  <!-- block: explain SPEC OPTION... -->   part of what spider-gen --explain prints
  <!-- block: command line -->             commands that run here, beside the specs of stencils/

Standard library only.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import check_docs

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
# Programs that need no file of ours, and whose options are not ours to check.
FOREIGN = {"venv/bin/pip", "cd", "g++", "mpiexec", "nvcc", "ctest", "cmake", "ninja", "doxygen", "git", "export", "sudo", "./heat"}
DEFAULTS = {"stencil": "example", "dimensions": "2", "storage": "f16", "shape": "star",
            "coefficients": "{center: 1, y: [1, 1], x: [1, 1]}"}


class Checker:
    def __init__(self, arguments: argparse.Namespace) -> None:
        self.root: pathlib.Path = arguments.root.resolve()
        self.spider_gen = str(arguments.spider_gen.resolve())
        self.compilers = {"cpp": [arguments.cxx, "-std=c++20", "-x", "c++"], "c": [arguments.cc, "-std=c99", "-x", "c"]}
        sources = [path for pattern in ("*.py", "*.sh", "*.cpp", "*.txt", "*.cmake")
                   for path in (self.root / "tests").rglob(pattern)]
        self.tests = "\n".join(path.read_text(encoding="utf-8") for path in sources if path.name != "check_blocks.py")
        self.cmake_text = "\n".join(path.read_text(encoding="utf-8") for folder in ("generator", "runtime", "tests")
                                    for path in (self.root / folder).rglob("CMakeLists.txt"))
        self.cmake_text += "".join(path.read_text(encoding="utf-8") for path in (self.root / "tests").rglob("*.cmake"))
        self.presets = [preset["name"] for preset in
                        json.loads((self.root / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]]
        done = subprocess.run([self.spider_gen, "--help"], capture_output=True, text=True, check=True)
        self.options = set(re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", done.stdout))

    def problems(self, page: pathlib.Path) -> Iterator[str]:
        for block in check_docs.blocks(page):
            first = block.text.split("\n", 1)[0]
            for problem in self.check(page, block):
                yield f"{page.relative_to(self.root)}: the block that begins with '{first[:60]}': {problem}"

    def check(self, page: pathlib.Path, block: check_docs.Block) -> list[str]:
        if block.source:
            return self.check_excerpt(block)
        if block.name.startswith("explain "):
            return self.check_explanation(block)
        if block.name in HANDLERS:
            return HANDLERS[block.name](self, block)
        if block.language == "yaml":
            return self.check_specs(block.text)
        if block.language in self.compilers:
            return self.check_program(block)
        if block.language in ("", "sh"):
            return self.check_commands(page, block)[:1] + self.check_named(block)
        return self.check_named(block)

    def check_named(self, block: check_docs.Block) -> list[str]:
        if not block.name:
            how = "<!-- from: FILE --> or <!-- block: NAME --> before it says which test does (tests/house/check_blocks.py)"
            return [f"nothing tests it; {how}"]
        return [] if f'"{block.name}"' in self.tests else [f'no test has the name "{block.name}" in its source']

    def check_excerpt(self, block: check_docs.Block) -> list[str]:
        source = self.root / block.source
        if not source.is_file():
            return [f"{block.source} does not exist"]
        return find_pieces(block.text, source.read_text(encoding="utf-8"), block.source)

    def check_explanation(self, block: check_docs.Block) -> list[str]:
        _, spec, *options = block.name.split()
        done = subprocess.run([self.spider_gen, "--explain", *options, str(self.root / spec)], capture_output=True, text=True,
                              check=False)
        return find_pieces(block.text, done.stdout, block.name) if done.returncode == 0 else [done.stderr]

    def check_flow(self, block: check_docs.Block) -> list[str]:
        """The way of a stencil through the rooms: its functions and values are declared there."""
        headers = "".join(path.read_text(encoding="utf-8") for path in (self.root / "generator").glob("*/*.h"))
        functions = [*re.findall(r"--(\w+)-->", block.text), "prove"]
        types = re.findall(r"--> ([A-Z]\w+)", block.text)
        problems = [f"there is no function {name}" for name in functions if not re.search(rf"\b{name}\(", headers)]
        return problems + [f"there is no struct {name}" for name in types if f"struct {name} " not in headers]

    def run_commands(self, block: check_docs.Block) -> list[str]:
        """Runs commands of spider-gen where all specs of stencils/ lie."""
        with tempfile.TemporaryDirectory() as folder:
            for spec in (self.root / "stencils").glob("*.yaml"):
                shutil.copy(spec, folder)
            path = f"{pathlib.Path(self.spider_gen).parent}:{os.environ['PATH']}"
            done = subprocess.run(["bash", "-euo", "pipefail", "-c", block.text], cwd=folder, env=os.environ | {"PATH": path},
                                  capture_output=True, text=True, check=False)
        return [] if done.returncode == 0 else [f"exit status {done.returncode}\n{done.stderr}"]

    def check_specs(self, text: str) -> list[str]:
        return [problem for spec in specs_of(text) for problem in self.check_spec(spec)]

    def check_spec(self, spec: str) -> list[str]:
        keys = dict(re.findall(r"^(\w+):\s*(\S*)", spec, re.MULTILINE))
        for key, value in DEFAULTS.items():
            if key in ("shape", "coefficients") and ("sums" in keys or "stages" in keys):
                continue
            # Coefficients are of the shape that is written there, or else of the default shape.
            if key not in keys and not (key == "coefficients" and "shape" in keys):
                spec = f"{key}: {value}\n" + spec
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / f"{keys.get('stencil', DEFAULTS['stencil'])}.yaml"
            file.write_text(spec, encoding="utf-8")
            done = subprocess.run([self.spider_gen, "--explain", str(file)], capture_output=True, text=True, check=False)
        problems = [line for line in done.stderr.splitlines() if "is read but not computed yet" not in line]
        return [f"is not a spec:\n{done.stderr}"] if done.returncode != 0 and problems else []

    def check_program(self, block: check_docs.Block) -> list[str]:
        include = ["-I", str(self.root / "runtime/include"), "-I", str(self.root / "generated")]
        command = [*self.compilers[block.language], *STRICT, *include, "-"]
        done = subprocess.run(command, input=block.text, capture_output=True, text=True, check=False)
        return [] if done.returncode == 0 else [f"does not compile:\n{done.stderr}"]

    def check_commands(self, page: pathlib.Path, block: check_docs.Block) -> list[str]:
        problems = []
        for line in block.text.replace("\\\n", " ").splitlines():
            for words in pipeline(line):
                problems += self.check_command(page, words)
        return problems

    def check_command(self, page: pathlib.Path, words: list[str]) -> list[str]:
        program, rest = words[0], words[1:]
        if program == "spider-gen":
            used = {word.split("=")[0] for word in rest if re.match(r"--?[A-Za-z]", word)}
            return [f"spider-gen has no option {option}" for option in sorted(used - self.options)]
        if program == "cmake":
            return self.check_cmake(rest)
        if program in FOREIGN or program.startswith("build/"):
            return []
        if program in ("bash", "python", "python3", "/usr/bin/python3"):
            if rest[0] == "-m":
                known = rest[1] == "venv" or (self.root / "runtime/python" / rest[1] / "__main__.py").is_file()
                return [] if known else [f"there is no module {rest[1]}"]
            program, rest = rest[0], rest[1:]
        script = next((base / program for base in (self.root, page.parent) if (base / program).is_file()), None)
        if any(block.name == program for block in check_docs.blocks(page)):
            return []  # a program that the page shows
        if script is None:
            return [f"there is no {program}, and no test knows such a program"]
        text = script.read_text(encoding="utf-8")
        ours = rest[:rest.index("--")] if "--" in rest else rest
        used = {word.split("=")[0] for word in ours if word.startswith("--")}
        return [f"{program} has no option {option}" for option in sorted(used) if option not in text]

    def check_cmake(self, words: list[str]) -> list[str]:
        after = {option: word for option, word in zip(words, words[1:]) if option in ("--preset", "--target")}
        problems = []
        if after.get("--preset", "default") not in self.presets:
            problems.append(f"there is no preset {after['--preset']}")
        target = after.get("--target")
        adds = r"(add_(custom_target|executable|library)|spider_cases_library)"
        if target and not re.search(rf"{adds}\(\s*{re.escape(target)}\b", self.cmake_text):
            problems.append(f"there is no target {target}")
        return problems


HANDLERS = {"rooms": Checker.check_flow, "command line": Checker.run_commands}


def find_pieces(text: str, whole: str, where: str) -> list[str]:
    """The text is in the whole; a line of three dots, in a comment or not, stands for whatever is there."""
    place = 0
    for piece in re.split(r"^\s*(?://|#|!)?\s*\.\.\.\n", text, flags=re.MULTILINE):
        found = whole.find(piece, place)
        if found < 0:
            return [f"this is not in {where}, or not in this order:\n{piece}"]
        place = found + len(piece)
    return []


def specs_of(text: str) -> list[str]:
    """The specs that a block stands for: one for each time that its first repeated key is there."""
    parts = re.findall(r"^\S.*\n(?:^[ \t#].*\n|^\n)*", text, re.MULTILINE)
    keys = [match[1] if (match := re.match(r"(\w+):", part)) else "" for part in parts]
    repeated = next((key for key in keys if key and keys.count(key) > 1), None)
    if repeated is None:
        return [text]
    others = "".join(part for part, key in zip(parts, keys) if key != repeated)
    return [others + part for part, key in zip(parts, keys) if key == repeated]


def pipeline(line: str) -> Iterator[list[str]]:
    """The commands of a line, as words, without what is assigned before them and where they write."""
    words = shlex.split(line, comments=True)
    command: list[str] = []
    for word in [*words, ";"]:
        if word in ("|", "&&", ";", "||"):
            while command and re.match(r"\w+=", command[0]):
                command.pop(0)
            if command:
                yield command
            command = []
        else:
            command.append(word)


def check_examples(root: pathlib.Path) -> list[str]:
    """Every key of a spec has an example on the page that explains it."""
    page = root / "stencils/README.md"
    text = page.read_text(encoding="utf-8")
    table = text.split("\n## Keys\n", 1)[1].split("\n## ", 1)[0]
    told = re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    shown = {key for block in check_docs.blocks(page) if block.language == "yaml"
             for key in re.findall(r"^(\w+):", block.text, re.MULTILINE)}
    return [f"stencils/README.md: the key {key} has no example" for key in told if key not in shown]


def check_options(root: pathlib.Path, options: set[str]) -> list[str]:
    """The page of the command line has every option, and no other."""
    page = root / "generator/cli/README.md"
    rows = re.findall(r"^\| `(-[^`]*)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    told = {re.split(r"[ ,]", row)[0] for row in rows}
    wanted = {option for option in options if option not in ("--output", "--define")}
    return check_docs.compare("generator/cli/README.md", sorted(told), sorted(wanted))


def check_cmake_keywords(root: pathlib.Path) -> list[str]:
    """The page of the CMake function has every keyword, and no other."""
    text = (root / "generator/SpiderGen.cmake").read_text(encoding="utf-8")
    found = re.search(r'cmake_parse_arguments\(PARSE_ARGV 1 arg "([^"]*)"\s+"([^"]*)"\s+"([^"]*)"\)', text)
    if found is None:
        return ["SpiderGen.cmake: no keywords are found"]
    keywords = [word for group in found.groups() for word in group.split(";") if word]
    page = (root / "generator/cli/README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([A-Z_]+)\b[^`]*` \|", page, re.MULTILINE)
    return check_docs.compare("generator/cli/README.md", rows, keywords)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("--spider-gen", type=pathlib.Path, required=True)
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--cc", default="cc")
    arguments = parser.parse_args()
    checker = Checker(arguments)
    problems = [problem for page in check_docs.pages(checker.root) for problem in checker.problems(page)]
    problems += check_examples(checker.root) + check_options(checker.root, checker.options)
    problems += check_cmake_keywords(checker.root)
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
