"""Compares what nvcc makes of the generated kernels at two commits: compare_ptx.py BEFORE [AFTER] [--only NAME ...]

AFTER is the working tree where it is left out. A kernel whose sources are the same text is not compiled. Of the others
the PTX counts without what does not matter: names, the numbers of registers and labels, the order of tables and kernels.
Where it differs, registers, spills and instructions of each kernel before and after are printed, and the exit status is 1.
Needs nvcc; compiles two files at a time."""

import argparse
import collections
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

INCLUDE = re.compile(r'^#include ["<](.+?)[">]', re.MULTILINE)
FOLDERS = ("generated", "runtime/include", "runtime/device")


def take_tree(commit, folder):
    """The tree's files that kernels are made of, in `folder`; the working tree itself where there is no commit."""
    if commit is None:
        return pathlib.Path(".").resolve()
    folder.mkdir()
    archive = subprocess.run(["git", "archive", commit, *FOLDERS], check=True, capture_output=True)
    subprocess.run(["tar", "-x", "-C", folder], input=archive.stdout, check=True)
    return folder


def sources_of(tree, name):
    """The kernel's text with that of the tree's headers that it includes, each once."""
    texts = {}
    waiting = [tree / "generated" / name]
    while waiting:
        file = waiting.pop()
        if str(file) in texts:
            continue
        texts[str(file)] = file.read_text(encoding="utf-8")
        for included in INCLUDE.findall(texts[str(file)]):
            places = [tree / folder / included for folder in FOLDERS]
            waiting += [place for place in places if place.exists()][:1]
    return "".join(text for _, text in sorted((path.removeprefix(str(tree)), text) for path, text in texts.items()))


def compile_ptx(tree, name, arch, folder):
    target = folder / f"{name}.ptx"
    command = ["nvcc", "-std=c++17", "-ptx", f"-arch={arch}", "-I", tree / "runtime/include", "-I", tree / "runtime/device"]
    done = subprocess.run([*command, tree / "generated" / name, "-o", target], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{name}: {done.stderr[:3000]}")
    return target


def number_by_first_use(text):
    """Registers and labels by their first use in this text."""
    numbers = collections.defaultdict(dict)

    def renamed(match):
        known = numbers[match[1]]
        return f"{match[1]}{known.setdefault(match[2], len(known))}"

    return re.sub(r"(%[a-z]+|\$L__BB|\$L__tmp|__local_depot)(\d[\d_]*)", renamed, text)


def normalised(ptx):
    """The kernels of a file, each as text, and all functions besides, sorted."""
    text = re.sub(r"//.*", "", ptx)
    text = re.sub(r"^\s*\.(file|loc|section|version|target|address_size)\b.*$", "", text, flags=re.MULTILINE)
    tables = {}
    for match in re.finditer(r"^(\.[\w. ]*\.(?:global|const)[^;{=]*?)\b([\w$]+)(\[[^;=]*)?(=[^;]*)?;", text, re.MULTILINE):
        contents = f"{match[1]}{match[3]}{match[4]}"
        tables[match[2]] = "table_" + hashlib.sha256(contents.encode()).hexdigest()[:12]
    bodies = re.split(r"^(?=(?:\.visible |\.weak )?\.(?:entry|func)\b)", text, flags=re.MULTILINE)[1:]
    known = re.compile(r"\b(" + "|".join(map(re.escape, tables)) + r")\b") if tables else re.compile(r"(?!)")
    found = []
    for body in bodies:
        name = re.search(r"\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", body)[1]
        body = known.sub(lambda match: tables[match[1]], body.replace(name, "KERNEL"))
        # Declarations of registers count them; what is never used is declared too.
        body = re.sub(r"^\s*\.reg .*$", "", body, flags=re.MULTILINE)
        body = re.sub(r"\b_Z[\w$]+", "NAME", body)
        found.append(number_by_first_use("\n".join(line.strip() for line in body.split("\n") if line.strip())))
    return sorted(found)


def machine_facts(ptx, arch):
    """(registers, spilled bytes, machine instructions) of each kernel, as ptxas says it."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["ptxas", "-v", f"-arch={arch}", ptx, "-o", pathlib.Path(folder) / "kernel.cubin"]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    registers = [int(number) for number in re.findall(r"Used (\d+) registers", said)]
    spills = [int(number) for number in re.findall(r"(\d+) bytes spill stores", said)]
    return sorted(zip(registers, spills))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after", nargs="?")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="of stencils")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="keep the normalised PTX of both here, to look at")
    arguments = parser.parse_args()
    os.chdir(subprocess.run(["git", "rev-parse", "--show-toplevel"], check=True, capture_output=True, text=True).stdout.strip())
    with tempfile.TemporaryDirectory() as scratch:
        folders = [pathlib.Path(scratch) / side for side in ("before", "after")]
        trees = [take_tree(commit, folder) for commit, folder in zip((arguments.before, arguments.after), folders)]
        outputs = [pathlib.Path(scratch) / side for side in ("ptx_before", "ptx_after")]
        for output in outputs:
            output.mkdir()
        lists = [{path.name for path in (tree / "generated").glob("*.cu")} for tree in trees]
        names = sorted(lists[0] & lists[1])
        if arguments.only:
            names = [name for name in names if pathlib.Path(name).stem in arguments.only]
        for name in sorted(lists[0] ^ lists[1]):
            print(f"{name}: only {'before' if name in lists[0] else 'after'}")
        changed = [name for name in names if len({sources_of(tree, name) for tree in trees}) > 1]
        print(f"{len(names)} kernels, of which {len(changed)} have other sources")

        def compare(name):
            files = [compile_ptx(tree, name, arguments.arch, output) for tree, output in zip(trees, outputs)]
            return name, files, [normalised(file.read_text(encoding="utf-8")) for file in files]

        differing = 0
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for name, files, (before, after) in pool.map(compare, changed):
                if arguments.keep:
                    arguments.keep.mkdir(parents=True, exist_ok=True)
                    for side, kernels in (("before", before), ("after", after)):
                        (arguments.keep / f"{name}.{side}.ptx").write_text("\n\n".join(kernels) + "\n", encoding="utf-8")
                if before == after:
                    print(f"{name}: the same PTX", flush=True)
                    continue
                differing += 1
                left = list((collections.Counter(before) - collections.Counter(after)).elements())
                lines = [sum(text.count("\n") for text in kernels) for kernels in (before, after)]
                print(f"{name}: {len(left)} of {len(before)} kernels differ; PTX lines {lines[0]} -> {lines[1]}")
                facts = [machine_facts(file, arguments.arch) for file in files]
                print(f"    (registers, spilled bytes): {facts[0]} -> {facts[1]}", flush=True)
        sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
