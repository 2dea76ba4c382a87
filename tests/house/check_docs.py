#!/usr/bin/env python3
"""Checks that the documentation says what is so.

  check_docs.py check ROOT
      links lead somewhere; lines are not too long; tables name every function, status and placeholder (check_blocks.py checks the blocks of
      code); all languages and the generator name the same ABI
  check_docs.py build ROOT --work DIR
      a copy of the repository, DIR/tree, builds, installs and takes a new stencil by the README's commands; the preset
      that regenerates takes the spider-gen that they have installed, for nothing else is built differently
  check_docs.py languages ROOT --prefix DIR [--fortran] [--python FILE] [--gpu]
      the Fortran and Python programs of runtime/fortran and runtime/python give the right result, emulated or on a GPU
  check_docs.py run ROOT --prefix DIR [--nvcc FILE] [--emulated] [--gpu]
      the README's programs build by the README's commands, with spider-gen installed in DIR, and give the right result,
      on the host, emulated or, where there is one, on a GPU

A comment `<!-- block: NAME -->` before a block of code names it for `run`. Standard library only.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable


@dataclasses.dataclass
class Block:
    language: str
    name: str
    source: str
    text: str


def blocks(page: pathlib.Path) -> list[Block]:
    pattern = r"(?:<!-- (?:block: (.+?)|from: (\S+)) -->\n)?^```(\w*)\n(.*?)^```$"
    found = re.finditer(pattern, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [Block(match[3], match[1] or "", match[2] or "", match[4]) for match in found]


def named_block(page: pathlib.Path, name: str) -> str:
    matches = [block.text for block in blocks(page) if block.name == name]
    if len(matches) != 1:
        sys.exit(f"{page} has {len(matches)} blocks named {name}, not 1")
    return matches[0]


def block_of_any_page(root: pathlib.Path, name: str) -> str:
    """The block of that name, on whichever page it is."""
    matches = [block.text for page in pages(root) for block in blocks(page) if block.name == name]
    if len(matches) != 1:
        sys.exit(f"the pages have {len(matches)} blocks named {name}, not 1")
    return matches[0]


def first_column(page: pathlib.Path, pattern: str) -> list[str]:
    """What matches the pattern in the first cells of the page's tables."""
    rows = re.findall(r"^\| ([^|]*) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [match[1] for cell in rows if (match := re.match(pattern, cell))]


def compare(where: str, told: list[str], wanted: list[str]) -> list[str]:
    problems = [f"{where} lacks {name}" for name in sorted(set(wanted) - set(told))]
    problems += [f"{where} has {name}, which is no more" for name in sorted(set(told) - set(wanted))]
    return problems + [f"{where} has {name} twice" for name in sorted({name for name in told if told.count(name) > 1})]


def pages(root: pathlib.Path) -> list[pathlib.Path]:
    folders = ["generated", "generator", "runtime", "stencils", "templates", "tests"]
    found = sorted(root.glob("*.md")) + sorted(page for folder in folders for page in (root / folder).rglob("*.md"))
    return [page for page in found if "third_party" not in page.parts]  # fetched


def slug(title: str) -> str:
    """What a heading is called in links to it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def anchors(page: pathlib.Path) -> set[str]:
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {slug(title) for title in titles}


def check_links(root: pathlib.Path) -> list[str]:
    problems = []
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        if "@@" in text:
            problems.append(f"{page.relative_to(root)}: a cell marked @@ is not filled in")
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if ":" in link:
                continue
            path, _, anchor = link.partition("#")
            target = page.parent / path if path else page
            if not target.exists():
                problems.append(f"{page.relative_to(root)}: {link} leads nowhere")
            elif anchor and anchor not in anchors(target):
                problems.append(f"{page.relative_to(root)}: {link}: there is no such heading")
    return problems


LONGEST_LINE = 126  # of text; tables, blocks of code and pictures have lines of their own


def check_lines(root: pathlib.Path) -> list[str]:
    problems = []
    for page in pages(root):
        name = str(page.relative_to(root))
        text = re.sub(r"^```.*?^```$", lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"),
                      flags=re.MULTILINE | re.DOTALL)
        problems += [f"{name}:{number}: {len(line)} characters; wrap the paragraph at some 122"
                     for number, line in enumerate(text.split("\n"), 1)
                     if len(line) > LONGEST_LINE and not line.startswith(("|", "!["))]
    return problems


def check_tables(root: pathlib.Path) -> list[str]:
    include = root / "runtime/include/spider"
    headers = "".join((include / name).read_text(encoding="utf-8") for name in ("spider.h", "memory.h", "points.h", "reductions.h"))
    page = root / "runtime/README.md"
    functions = re.findall(r"^SPIDER_PUBLIC [^(]*?(spider_\w+)\(", headers, re.MULTILINE)
    problems = compare("runtime/README.md", first_column(page, r"`(spider_\w+)\("), functions)
    statuses = [f"{name} = {value}" for name, value in re.findall(r"^ *(SPIDER_(?:OK|ERROR_\w+)) =\s*(\d+)", headers, re.MULTILINE)]
    rows = re.findall(r"^\| `(SPIDER_\w+)` \| (\d+) \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    problems += compare("runtime/README.md", [f"{name} = {value}" for name, value in rows], statuses)

    distributed = root / "runtime/distributed"
    functions = re.findall(r"^SPIDER_PUBLIC [^(]*?(spider_\w+)\(",
                           (distributed / "include/spider/distributed.h").read_text(encoding="utf-8"), re.MULTILINE)
    problems += compare("runtime/distributed/README.md", first_column(distributed / "README.md", r"`(spider_\w+)\("), functions)

    told = re.findall(r"`(\w+\.(?:cu|h)\.in)`", (root / "templates/README.md").read_text(encoding="utf-8"))
    problems += compare("templates/README.md", sorted(set(told)), [path.name for path in (root / "templates").glob("*.in")])
    return problems


ABI_NUMBERS = {
    "runtime/include/spider/spider.h": r"^#define SPIDER_ABI (\d+)$",
    "runtime/fortran/spider.f90": r"parameter, public :: SPIDER_ABI = (\d+)$",
    "runtime/python/spider.py": r"^ABI = (\d+)$",
    "generator/emit/kernel_text.h": r"^inline constexpr int runtime_abi = (\d+);$",
}
DEVICE_ABI_NUMBERS = {
    "runtime/device/spider/abi.h": r"^constexpr int device_abi = (\d+);$",
    "generator/emit/kernel_text.h": r"^inline constexpr int device_abi = (\d+);$",
}


def check_abi(root: pathlib.Path) -> list[str]:
    """Every file that names the ABI of the runtime, or of the device headers, names the same."""
    namespaces = [path for folder in ("runtime/device/spider", "runtime/emulator/spider") for path in (root / folder).rglob("*.h")
                  if path.name not in ("instructions.h", "instructions_cuda.h", "call_site.h")]
    of_device = {**DEVICE_ABI_NUMBERS, **{str(path.relative_to(root)): r"^inline namespace device_(\d+) {$" for path in namespaces
                                          if path.name != "abi.h"}}
    problems = []
    for patterns in (ABI_NUMBERS, of_device):
        told = {file: sorted(set(re.findall(pattern, (root / file).read_text(encoding="utf-8"), re.MULTILINE)))
                for file, pattern in patterns.items()}
        first, wanted = next(iter(told.items()))
        problems += [f"{file} names ABI {', '.join(numbers) or 'none'}, and {first} {', '.join(wanted) or 'none'}"
                     for file, numbers in told.items() if numbers != wanted or len(numbers) != 1]
    return problems


def check(arguments: argparse.Namespace) -> list[str]:
    root = arguments.root
    return check_links(root) + check_lines(root) + check_tables(root) + check_abi(root)


def build(arguments: argparse.Namespace) -> list[str]:
    home, tree = arguments.work / "home", arguments.work / "tree"
    shutil.rmtree(arguments.work, ignore_errors=True)
    home.mkdir(parents=True)
    root = arguments.root.resolve()
    shutil.copytree(root, tree, ignore=lambda folder, names: [
        file for file in names if pathlib.Path(folder) == root and (file.startswith("build") or file in ("out", ".git"))])
    shell(block_of_any_page(arguments.root, "build"), tree, os.environ | {"HOME": str(home)})
    installed = home.resolve() / ".local/bin/spider-gen"
    subprocess.run([installed, "--version"], check=True)

    spec = (tree / "stencils/star2d_r1.yaml").read_text(encoding="utf-8")
    spec = re.sub(r"^stencil:.*$", "stencil: NAME", spec, flags=re.MULTILINE)
    (tree / "stencils/NAME.yaml").write_text(spec, encoding="utf-8")
    commands = block_of_any_page(arguments.root, "add")
    configure = "cmake --preset default\n"
    if not commands.startswith(configure):
        return [f"the block \"add\" does not begin with {configure}"]
    shell(commands.replace(configure, f"{configure[:-1]} -DSpiderGen_EXECUTABLE={shlex.quote(str(installed))}\n", 1), tree,
          dict(os.environ))
    missing = [file for file in ("NAME.cu", "NAME.h") if not (tree / "generated" / file).is_file()]
    return [f"'regenerate' did not write generated/{file}" for file in missing]


def shell(commands: str, folder: pathlib.Path, environment: dict[str, str]) -> str:
    print(commands, flush=True)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", commands], cwd=folder, env=environment,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def users_environment(folder: pathlib.Path, prefix: pathlib.Path) -> dict[str, str]:
    """That of a user with spider-gen in ~/.local, as the pages assume."""
    home = folder / "home"
    home.mkdir()
    (home / ".local").symlink_to(prefix.resolve())
    return os.environ | {"HOME": str(home), "PATH": f"{home}/.local/bin:{os.environ['PATH']}"}


def conserves_heat(said: str) -> bool:
    match = re.fullmatch(r"(?:heat2d(?:_f32)?: )?(\d+\.\d) of 1000 after 20 steps\n", said)
    return match is not None and abs(float(match[1]) - 1000) < 2


def holds_its_middle(said: str) -> bool:
    """The point source of 1000 after 20 steps of 0.1, by the solution in the plane: 1000 / (4 pi 20 0.1) in the middle."""
    match = re.fullmatch(r"heat2d_f32: after 20 steps the middle holds (\d+\.\d+)\n", said)
    return match is not None and abs(float(match[1]) - 39.8) < 1.5


def languages(arguments: argparse.Namespace) -> list[str]:
    problems = []
    for language, program, wanted in (("fortran", "heat.f90", arguments.fortran), ("python", "heat.py", arguments.python)):
        if not wanted:
            continue
        page = arguments.root / f"runtime/{language}/README.md"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            environment = users_environment(folder, arguments.prefix)
            project = named_block(page, "fortran CMakeLists.txt" if language == "fortran" else "python CMakeLists.txt")
            if language == "fortran" and not arguments.gpu:
                project = project.replace(" CUDA)", ")").replace("heat2d.yaml)", "heat2d.yaml BACKEND emulated)")
            (folder / "CMakeLists.txt").write_text(project, encoding="utf-8")
            (folder / program).write_text(named_block(page, program), encoding="utf-8")
            shutil.copy(arguments.root / "stencils/heat2d.yaml", folder)
            block = "python" if arguments.gpu else "python emulated"
            commands = named_block(arguments.root / "runtime/python/README.md", block)
            if language == "fortran":
                commands = "".join(commands.splitlines(keepends=True)[:2]) + "build/heat\n"
            else:
                commands = commands.replace(" python3 ", f" {arguments.python} ")
            said = shell(commands, folder, environment).splitlines(keepends=True)[-1]
            if not conserves_heat(said.lstrip()):
                problems.append(f"{page}: {program} said: {said}")
    return problems


def run(arguments: argparse.Namespace) -> list[str]:
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        environment = users_environment(folder, arguments.prefix)
        if arguments.nvcc:
            environment["PATH"] += f":{arguments.nvcc.parent}"
            environment["CUDACXX"] = str(arguments.nvcc)

        # Commands with stencils/ are for this folder, the others for one of the user's own.
        (folder / "stencils").mkdir()
        shutil.copy(arguments.root / "stencils/heat2d_f32.yaml", folder / "stencils")
        shutil.copy(arguments.root / "stencils/heat2d_f32.yaml", folder)
        for file in ("heat.cpp", "heat.c", "CMakeLists.txt"):
            (folder / file).write_text(block_of_any_page(arguments.root, file), encoding="utf-8")

        def here(block: str) -> None:
            shell(block_of_any_page(arguments.root, block), folder, environment)

        here("generate")
        problems = []

        def expect(program: str, right: Callable[[str], bool]) -> None:
            said = shell(f"./{program}\n", folder, environment)
            if not right(said):
                problems.append(f"{program} said: {said}")

        if arguments.nvcc:
            here("nvcc")
            here("cmake")
        if arguments.gpu:
            expect("heat", conserves_heat)
            expect("build/heat", conserves_heat)
            expect("heat_c", holds_its_middle)
        for backend in ("host", "emulated") if arguments.emulated else ("host",):
            here(backend)
            expect(f"heat_{backend}", conserves_heat)
        # The program in C, by the project of the page: other tests have compiled that runtime already.
        project = block_of_any_page(arguments.root, "CMakeLists.txt").replace("CXX CUDA", "C CXX").replace("heat.cpp", "heat.c")
        project = project.replace("heat2d_f32.yaml)", "heat2d_f32.yaml BACKEND host)")
        (folder / "CMakeLists.txt").write_text(project, encoding="utf-8")
        shell('cmake -S . -B build_c -DCMAKE_PREFIX_PATH="$HOME/.local"\ncmake --build build_c\n', folder, environment)
        expect("build_c/heat", holds_its_middle)
        return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for name, function in (("check", check), ("build", build), ("languages", languages), ("run", run)):
        command = commands.add_parser(name)
        command.set_defaults(function=function)
        command.add_argument("root", type=pathlib.Path)
        if function is build:
            command.add_argument("--work", type=pathlib.Path, required=True, help="a folder, emptied before")
        if function in (languages, run):
            command.add_argument("--prefix", type=pathlib.Path, required=True)
            command.add_argument("--gpu", action="store_true")
        if function is languages:
            command.add_argument("--fortran", action="store_true")
            command.add_argument("--python", help="a Python with NumPy")
        if function is run:
            command.add_argument("--nvcc", type=pathlib.Path)
            command.add_argument("--emulated", action="store_true")
    arguments = parser.parse_args()
    problems = arguments.function(arguments)
    print(*problems, sep="\n", end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
