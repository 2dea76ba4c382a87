#!/usr/bin/env python3
"""Runs spider-gen on input that no user would write by hand, and on output folders that do not take files.

Every case either works (exit status 0 and the two files) or ends with exit status 1 and at least one located error; and
in no case is more than 5 s of processor time, 1 GiB of memory or 256 KiB of messages used, is anything left in or beside
the output folder that does not belong there, or does a message hold a control character.

run_hostile.py GENERATOR [NAME...]     NAME: only these cases
"""

import argparse
import contextlib
import dataclasses
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable

PROCESSOR_S = 5
MEMORY_BYTES = 1 << 30
MESSAGE_BYTES = 1 << 18
LONGEST_RUN_S = 60  # of the clock: the machine may be busy with other tests

HEAD = "stencil: t\ndimensions: 2\nstorage: f16\n"
GOOD = HEAD + "shape: taps\ncoefficients: [{at: [0, 0], weight: 1}]\n"


@dataclasses.dataclass
class Run:
    """What one run sees; a case changes what it needs."""

    spec: bytes = b""
    name: str = "t.yaml"
    works: bool | None = False  # None: as the generator sees fit
    says: str = ""  # a pattern that the messages match somewhere
    located: bool = True  # an error names a line and column; else a file
    arguments: list[str] = dataclasses.field(default_factory=list)
    stdin: bytes | None = None
    file_size: int | None = None  # limit of a written file, in bytes
    prepare: Callable[[pathlib.Path], None] = lambda folder: None  # noqa: E731
    leaves: set[str] = dataclasses.field(default_factory=set)  # beside the spec, once the run is over
    output: str = "out"


CASES: dict[str, Callable[[], Run]] = {}


def case(function: Callable[[], Run]) -> Callable[[], Run]:
    CASES[function.__name__] = function
    return function


def text(spec: str, **more) -> Run:
    return Run(spec=spec.encode("utf-8"), **more)


def taps(weight: str, **more) -> Run:
    return text(HEAD + f"shape: taps\ncoefficients: [{{at: [0, 0], weight: {weight}}}]\n", **more)


def shape(kind: str, coefficients: str, dimensions: int = 2, **more) -> Run:
    return text(f"stencil: t\ndimensions: {dimensions}\nstorage: f16\nshape: {kind}\ncoefficients: {coefficients}\n", **more)


SPARSE = ["--engine", "sparse"]  # which CUDA cores would take instead


# ---- YAML: depth, size, aliases ----

@case
def deep_lists() -> Run:
    return text(HEAD + "shape: box\ncoefficients: " + "[" * 4_000_000 + "\n", says="nested deeper than 64")


@case
def deep_mappings() -> Run:
    return text("{a: " * 200_000, says="nested deeper than 64")


@case
def deep_block_lists() -> Run:
    return text("- " * 300_000 + "1\n", says="nested deeper than 64")


@case
def deep_keys() -> Run:
    return text("? " * 300_000 + "1\n", says="nested deeper than 64")


@case
def deep_indentation() -> Run:
    return text("".join(" " * level + "a:\n" for level in range(1000)), says="nested deeper than 64")


@case
def many_closing_brackets() -> Run:
    return text("]" * 4_000_000)


@case
def aliases_that_multiply() -> Run:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * 9) + "]" for i in range(1, 12)]
    return text(GOOD + "\n".join(lines) + "\n", says="anchor")


@case
def alias_of_itself() -> Run:
    return text(HEAD + "shape: box\ncoefficients: &a [*a]\n", says="anchor")


@case
def many_anchors() -> Run:
    return text(GOOD + "x: [" + ", ".join(f"&a{i} {i}" for i in range(230_000)) + "]\n", says="anchor")


@case
def many_aliases() -> Run:
    return text(GOOD + "x: [&a 1" + ", *a" * 900_000 + "]\n", says="alias")


@case
def many_tags() -> Run:
    return text(GOOD + "x: [" + "!!str a, " * 450_000 + "]\n", says="tag")


@case
def many_documents() -> Run:
    return text(GOOD + "---\na\n" * 600_000, says="one YAML document")


@case
def many_directives() -> Run:
    return text("%TAG !a! b\n" * 340_000 + "---\n" + GOOD)


@case
def hundred_megabytes_of_spaces() -> Run:
    return text(" " * 100_000_000, says="larger than", located=False)


@case
def hundred_megabytes_of_taps() -> Run:
    return text(HEAD + "shape: taps\ncoefficients:\n" + "- {at: [0, 0], weight: 1}\n" * 4_000_000, says="larger than", located=False)


@case
def hundred_megabytes_on_standard_input() -> Run:
    return Run(name="-", stdin=GOOD.encode() + b"#" * 100_000_000, says="larger than", located=False)


@case
def endless_file() -> Run:
    return Run(name="/dev/zero", says="larger than", located=False)


@case
def empty_file() -> Run:
    return text("", says="empty")


@case
def comment_of_four_megabytes() -> Run:
    return text(GOOD + "#" + "x" * 4_000_000 + "\n", works=True)


@case
def line_breaks_without_end() -> Run:
    return text("\n" * 4_000_000, says="empty")


@case
def list_of_numbers_on_one_line() -> Run:
    return shape("box", "[[" + "1," * 499_999 + "1]]")


@case
def list_of_numbers_on_many_lines() -> Run:
    return shape("box", "\n- [\n" + "  1,\n" * 200_000 + "  1]")


@case
def list_of_wrong_numbers() -> Run:
    return shape("box", "[[" + "y," * 499_999 + "y]]", says=":100017: error: this is tap 50001")


@case
def list_of_two_million_numbers() -> Run:
    return shape("box", "[[" + "1," * 1_999_999 + "1]]", says="more than 600000 values")


@case
def list_of_a_million_lists() -> Run:
    return shape("box", "[" + "[]," * 1_000_000 + "]", says="more than 600000 values")


@case
def list_of_lists() -> Run:
    return shape("box", "[" + "[]," * 300_000 + "]", says="an odd count of entries")


@case
def many_keys() -> Run:
    return text(GOOD + "".join(f"k{i}: 1\n" for i in range(100_000)), says="more than 1000 entries")


@case
def same_key_many_times() -> Run:
    return text(GOOD + "k: 1\n" * 800_000, says="given twice")


@case
def key_of_four_megabytes() -> Run:
    return text(GOOD + "? " + "k" * 4_000_000 + "\n: 1\n", says="unknown key")


@case
def value_of_four_megabytes() -> Run:
    return text(GOOD.replace("f16", "f" * 4_000_000), says="'storage' is one of")


@case
def quoted_text_of_four_megabytes() -> Run:
    return text(GOOD + 'description: "' + "\\x41" * 1_000_000 + '"\n', says="description")


@case
def open_quotes() -> Run:
    return text(GOOD + 'description: "' + "a" * 4_000_000, says="close")


@case
def many_quotes() -> Run:
    return shape("box", "[[" + "'1'," * 999_999 + "'1']]")


@case
def folded_text_of_many_lines() -> Run:
    return text(GOOD + "description: >\n" + "  a\n" * 1_000_000, says="description")


@case
def flow_questions() -> Run:
    return text("{" + "?," * 2_000_000 + "}")


@case
def flow_colons() -> Run:
    return text("[" + ":" * 4_000_000 + "]")


@case
def flow_pairs() -> Run:
    return text("[" + "a: b, " * 10_000 + "]", says="a spec is a mapping")


# ---- bytes ----

@case
def not_utf8() -> Run:
    return Run(spec=GOOD.encode() + b"description: caf\xe9\n", says="not valid UTF-8")


@case
def overlong_utf8() -> Run:
    return Run(spec=GOOD.encode() + b"description: \xc0\xaf\n", says="not valid UTF-8")


@case
def binary() -> Run:
    return Run(spec=bytes(range(256)) * 16_000, says="control character")


@case
def utf16() -> Run:
    return Run(spec=GOOD.encode("utf-16"), says="not valid UTF-8")


@case
def utf32() -> Run:
    return Run(spec=GOOD.encode("utf-32"), says="not valid UTF-8")


@case
def nul_byte() -> Run:
    return Run(spec=GOOD.replace("t\n", "t\0\n", 1).encode(), says="control character 0x00")


@case
def nul_by_escape() -> Run:
    return text(GOOD.replace("stencil: t", 'stencil: "t\\0"'), says="cannot name a stencil")


@case
def escape_sequence_in_a_name() -> Run:
    return text(GOOD.replace("stencil: t", 'stencil: "\\e[31mt"'), says="cannot name a stencil")


@case
def escape_sequence_in_a_key() -> Run:
    return text(GOOD + '"\\e]0;owned\\a": 1\n', says="unknown key")


@case
def escape_sequence_in_a_number() -> Run:
    return taps('"\\e[2J"')


@case
def escape_sequence_in_an_override() -> Run:
    return text(GOOD + "parameters: {a: 1}\n", arguments=["-D", "a=\x1b[2J"], located=False)


@case
def controls_in_the_description() -> Run:
    return text(GOOD + 'description: "a\\r#error\\r"\n', says="description")


@case
def line_separator_in_the_description() -> Run:
    return text(GOOD + 'description: "a\\Lb\\Nc\\Pd"\n', says="description")


@case
def right_to_left_description() -> Run:
    return text(GOOD + 'description: "a \\u202e b"\n', says="description")


@case
def trigraph_in_the_description() -> Run:
    return text(GOOD + "description: what??/\n", says="description")


@case
def crlf() -> Run:
    return Run(spec=GOOD.replace("\n", "\r\n").encode(), works=True)


@case
def cr() -> Run:
    return Run(spec=GOOD.replace("\n", "\r").encode(), works=True)


@case
def byte_order_mark() -> Run:
    return Run(spec=b"\xef\xbb\xbf" + GOOD.encode(), works=True)


@case
def two_byte_order_marks() -> Run:
    return Run(spec=b"\xef\xbb\xbf" * 2 + GOOD.encode(), says="byte order mark")


@case
def tabs() -> Run:
    return text(GOOD.replace(": ", ":\t"), works=True)


@case
def tab_indentation() -> Run:
    return text(GOOD + "parameters:\n\ta: 1\n", says="a tab indents")


# ---- names ----

def named(name: str, **more) -> Run:
    return text(GOOD.replace("stencil: t", f"stencil: {name}"), name=f"{pathlib.PurePath(name).name}.yaml", **more)


for keyword in ("int", "class", "co_await", "__half", "_t", "half", "main", "std", "threadIdx", "stdio", "EOF"):
    CASES[f"name_{keyword}"] = lambda keyword=keyword: named(keyword, says="give the stencil another name|is reserved in C")


@case
def name_with_separators() -> Run:
    return named("../t", says="cannot name a stencil")


@case
def name_absolute() -> Run:
    return named("/tmp/t", says="cannot name a stencil")


@case
def name_of_a_folder() -> Run:
    return named("..", says="cannot name a stencil")


@case
def name_of_four_megabytes() -> Run:
    return text(GOOD.replace("stencil: t", "stencil: " + "t" * 1_000_000), says="too long")


@case
def name_that_is_code() -> Run:
    return text(GOOD.replace("stencil: t", "stencil: 't(){}; #error'"), says="cannot name a stencil")


@case
def file_name_that_is_code() -> Run:
    return text(GOOD, name="t.\n#error code", says="the file's name", located=False)


@case
def file_name_that_ends_a_comment() -> Run:
    return text(GOOD, name="t.\\", says="the file's name", located=False)


@case
def file_name_not_utf8() -> Run:
    return text(GOOD, name=os.fsdecode(b"t.\xff"), says="the file's name", located=False)


# ---- numbers and expressions ----

for number, words in (
    ("1e999", "beyond what a double holds"), ("-1e400", "beyond what a double holds"), ("1" * 900, ""), ("9" * 400, ""),
    ("1e-999", "beyond what a double holds"), ("1/0", "division by zero"), ("0/0", "not a number"), ("1/(1/0)", "division by zero"),
    ("10^10^10", "grows beyond"), ("1e308*10", "grows beyond"), ("exp(1e6)", "grows beyond"), ("(-8)^(1/3)", "not a number"),
    ("sqrt(-1)", "not a number"), ("log(0)", "division by zero"), ("asin(2)", "not a number"), ("1 - -1e400", ""),
    ("(" * 400 + "1" + ")" * 400, None), ("abs(" * 199 + "1" + ")" * 199, None), ("(" * 499, "missing|ends where"),
    ("1" + "+1" * 400, None), ("2^" * 400 + "1", "grows beyond"), ("-" * 900, ""), ("1" + "+1" * 100_000, "has 200001 characters"),
    ("(" * 100_000, "has 100000 characters"), ('"max(' + "1," * 300 + '1)"', None), ("sin" * 300, "unknown name"),
    ("0x" + "F" * 500, "decimal"), (".", ""), ("1e", ""), ("1" * 100_000, "has 100000 characters"),
):
    CASES[f"expression {number[:20]}{'...' if len(number) > 20 else ''} of {len(number)}"] = (
        lambda number=number, words=words: taps(number, works=words is None, says=words or ""))


@case
def many_parameters() -> Run:
    names = "".join(f"  p{i}: {f'p{i - 1}+1' if i else 1}\n" for i in range(50_000))
    return text(GOOD + "parameters:\n" + names, says="more than 1000 entries")


@case
def a_thousand_parameters() -> Run:
    names = "".join(f"  p{i}: {f'p{i - 1}+1' if i else 1}\n" for i in range(1000))
    return text(GOOD + "parameters:\n" + names, works=True)


@case
def unknown_names_among_many_parameters() -> Run:
    names = "".join(f"  {'a' * 60}{i}: 1\n" for i in range(900))
    weights = "".join(f"- {{at: [0, {i}], weight: {'b' * 60}}}\n" for i in range(6000))
    return text(HEAD + "parameters:\n" + names + "shape: taps\ncoefficients:\n" + weights, says="unknown name")


@case
def long_parameter_names() -> Run:
    return text(GOOD + f"parameters: {{{'a' * 900}: 1, b: 2}}\n", says="too long")


@case
def many_unknown_names() -> Run:
    names = "".join(f"  p{i}: q{i}\n" for i in range(900))
    return text(GOOD + "parameters:\n" + names, says="unknown name")


@case
def parameters_that_double() -> Run:
    names = "".join(f"  p{i}: p{i - 1}*p{i - 1}\n" for i in range(1, 500))
    return text(GOOD + "parameters:\n  p0: 2\n" + names, says="grows beyond")


@case
def override_of_a_hundred_kilobytes() -> Run:
    return text(GOOD + "parameters: {a: 1}\n", arguments=["-D", "a=1" + "+1" * 50_000], says="characters", located=False)


# ---- shapes of any size ----

@case
def radius_of_a_billion() -> Run:
    return text(HEAD + "shape: star\nradius: 1000000000\ncoefficients: {center: 1, y: [], x: []}\n", says="whole number from 0 to")


@case
def radius_of_1e300() -> Run:
    return text(HEAD + "shape: star\nradius: 1e300\ncoefficients: {center: 1, y: [], x: []}\n", says="whole number from 0 to")


@case
def offset_of_a_billion() -> Run:
    return shape("taps", "[{at: [1000000000, -1e18], weight: 1}]", says="whole number from")


@case
def far_offsets() -> Run:
    return shape("taps", "[{at: [-1000000, 1000000], weight: 1}]", says="points away")


@case
def dimensions_of_a_billion() -> Run:
    return text(GOOD.replace("dimensions: 2", "dimensions: 1e9"), says="'dimensions'")


@case
def schema_of_a_billion() -> Run:
    return text("schema: 1e9\n" + GOOD, says="newer spider-gen")


@case
def product_of_long_lists() -> Run:
    side = "[" + "1," * 60_000 + "1]"
    return shape("product", f"{{y: {side}, x: {side}}}", says="at most")


@case
def product_of_many_heavy_taps() -> Run:
    side = "[" + "1e5," * 222 + "1e5]"
    return shape("product", f"{{y: {side}, x: {side}}}", says="cannot hold the weight")


@case
def product_of_many_light_taps() -> Run:
    side = "[" + "1e-9," * 222 + "1]"
    return shape("product", f"{{y: {side}, x: {side}}}", says="points away", arguments=SPARSE)


@case
def product_of_many_light_taps_for_cuda_cores() -> Run:
    side = "[" + "1e-9," * 222 + "1]"
    return shape("product", f"{{y: {side}, x: {side}}}", works=True)


@case
def product_that_overflows() -> Run:
    return shape("product", "{y: [1e308], x: [1e308]}", says="cannot hold the weight")


@case
def star_of_a_hundred_thousand() -> Run:
    side = "[" + "1," * 200_000 + "1]"
    return shape("star", f"{{y: {side}, x: {side}}}")


@case
def box_of_two_hundred_squared() -> Run:
    side = "[" + "1," * 200 + "1]"
    return shape("box", "[" + ", ".join([side] * 201) + "]", says="points away", arguments=SPARSE)


@case
def seven_thousand_taps() -> Run:
    taps = "\n" + "".join(f"- {{at: [{i}, {i}], weight: 1}}\n" for i in range(7_000))
    return shape("taps", taps, says="points away", arguments=SPARSE)


@case
def seven_thousand_taps_for_cuda_cores() -> Run:
    return shape("taps", "\n" + "".join(f"- {{at: [{i}, {i}], weight: 1}}\n" for i in range(7_000)), works=True)


@case
def fifty_thousand_taps() -> Run:
    return shape("taps", "\n" + "".join(f"- {{at: [{i % 250}, {i // 250}], weight: {i + 1}/50000}}\n" for i in range(50_000)), works=True)


@case
def fifty_thousand_taps_in_space_in_a_deep_folder() -> Run:
    taps_ = "".join(f"- at: {{z: {i % 37 - 18}, y: {i // 37 % 37 - 18}, x: {i // 37 // 37 - 18}}}\n  weight: {i + 1}/50000\n"
                    for i in range(50_000))
    return in_deep_folder(shape("taps", "\n" + taps_, dimensions=3, says="points away", arguments=SPARSE, name=DEEP_NAME))


@case
def one_tap_too_many() -> Run:
    taps_ = "".join(f"- {{at: [{i}, {-i}], weight: 1}}\n" for i in range(50_001))
    return shape("taps", "\n" + taps_, says="t.yaml:50006:3: error: this is tap 50001; a stencil has at most 50000")


@case
def same_tap_fifty_thousand_times() -> Run:
    return shape("taps", "\n" + "- {at: [0, 0], weight: 1}\n" * 50_000, says="given twice")


@case
def all_taps_that_a_kernel_takes() -> Run:
    side = "[" + "1.7," * 62 + "1.3]"
    return shape("box", "[" + ", ".join([side] * 15) + "]", works=True)


@case
def widest_row_that_a_kernel_takes() -> Run:
    return shape("box", "[[" + "1.7," * 254 + "1.3]]", works=True)


@case
def scattered_taps() -> Run:
    taps_ = "".join(f"- {{at: [{i % 15 - 7}, {i * 37 % 255 - 127}], weight: {i}.1}}\n" for i in range(255))
    return shape("taps", "\n" + taps_, works=None)


@case
def weights_far_apart() -> Run:
    return shape("taps", "[{at: [0, 0], weight: 60000}, {at: [0, 1], weight: 1e-300}]", says="vanishes")


@case
def weights_of_denormals() -> Run:
    return shape("taps", "[{at: [0, 0], weight: 5e-324}]")


@case
def scale_that_overflows() -> Run:
    return text(GOOD + "scale: 1e308\n", says="cannot hold the weight")


DEEP_NAME = "/".join(["f" * 250] * 15) + "/t.yaml"  # every place in a spec names the file


def in_deep_folder(run: Run) -> Run:
    parents = {str(path) for path in pathlib.PurePath(run.name).parents if str(path) != "."}
    return dataclasses.replace(run, prepare=lambda folder: None, leaves=parents)


@case
def many_taps_in_a_deep_folder() -> Run:
    side = "[" + "1," * 222 + "1]"
    return in_deep_folder(shape("product", f"{{y: {side}, x: {side}}}", says="points away", arguments=SPARSE, name=DEEP_NAME))


# ---- output folders ----

def with_output(prepare: Callable[[pathlib.Path], None], **more) -> Run:
    return text(GOOD, prepare=prepare, located=False, **more)


@case
def output_is_a_file() -> Run:
    return with_output(lambda folder: (folder / "out").write_bytes(b""), leaves={"out"}, says="cannot be created|Not a directory")


@case
def output_below_a_file() -> Run:
    return with_output(lambda folder: (folder / "out").write_bytes(b""), output="out/a/b", leaves={"out"}, says="Not a directory")


@case
def output_is_missing() -> Run:
    return with_output(lambda folder: None, output="out/a/b/c", works=True)


@case
def output_is_a_link_to_nowhere() -> Run:
    return with_output(lambda folder: (folder / "out").symlink_to("nowhere"), leaves={"out"}, says="cannot be")


@case
def output_is_a_link_to_itself() -> Run:
    return with_output(lambda folder: (folder / "out").symlink_to("out"), leaves={"out"}, says="cannot be")


@case
def output_is_a_link_to_a_folder() -> Run:
    def prepare(folder: pathlib.Path) -> None:
        (folder / "real").mkdir()
        (folder / "out").symlink_to("real")
    return with_output(prepare, works=True, leaves={"out", "real", "real/t.cu", "real/t.h"})


@case
def output_files_are_links() -> Run:
    def prepare(folder: pathlib.Path) -> None:
        (folder / "out").mkdir()
        (folder / "precious").write_text("precious")
        (folder / "out/t.cu").symlink_to("../precious")
        (folder / "out/t.h").symlink_to("../nowhere")
    return with_output(prepare, works=True, leaves={"precious"})


@case
def output_file_is_a_folder() -> Run:
    return with_output(lambda folder: (folder / "out/t.h").mkdir(parents=True), leaves={"out", "out/t.h"}, says="Is a directory")


@case
def output_file_is_endless() -> Run:
    def prepare(folder: pathlib.Path) -> None:
        (folder / "out").mkdir()
        (folder / "out/t.h").symlink_to("/dev/zero")
    return with_output(prepare, leaves={"out", "out/t.h"}, says="no ordinary file")


@case
def output_file_is_a_pipe() -> Run:
    def prepare(folder: pathlib.Path) -> None:
        (folder / "out").mkdir()
        os.mkfifo(folder / "out/t.cu")
    return with_output(prepare, leaves={"out", "out/t.cu"}, says="no ordinary file")


@case
def output_file_is_a_pipe_to_check() -> Run:
    def prepare(folder: pathlib.Path) -> None:
        (folder / "out").mkdir()
        os.mkfifo(folder / "out/t.cu")
    return with_output(prepare, arguments=["--check"], leaves={"out", "out/t.cu"}, says="no ordinary file")


@case
def output_is_full_by_limit() -> Run:
    return with_output(lambda folder: None, file_size=1000, leaves={"out"}, says="cannot be written: File too large")


@case
def output_is_read_only() -> Run:
    return with_output(lambda folder: (folder / "out").mkdir(mode=0o555), leaves={"out"}, says="cannot be written: Permission denied")


@case
def output_is_a_system_file() -> Run:
    return with_output(lambda folder: None, output="/proc/self/fd/none", says="cannot be")


@case
def output_of_a_long_name() -> Run:
    return with_output(lambda folder: None, output="o" * 5000, says="too long")


@case
def output_is_full() -> Run:
    return with_output(lambda folder: None, output="full", leaves={"full"}, says="cannot be written: No space left on device")


# ---- the runs ----

def limits(run: Run) -> Callable[[], None]:
    def apply() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (PROCESSOR_S, PROCESSOR_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if run.file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (run.file_size, run.file_size))
    return apply


class Skipped(Exception):
    """A case that this machine cannot show."""


@contextlib.contextmanager
def full_disk(folder: pathlib.Path):
    """A tiny file system on folder/full with no space left."""
    target = folder / "full"
    target.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(target)]
    if shutil.which("mount") is None or subprocess.run(options, capture_output=True, check=False).returncode != 0:
        raise Skipped("a small file system cannot be mounted here")
    try:
        yield
    finally:
        subprocess.run(["umount", str(target)], check=True)


def as_other_user(name: str) -> list[str]:
    """Nothing is read-only to root."""
    if name != "output_is_read_only" or os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise Skipped("root writes everywhere, and there is no setpriv")
    return ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]


def expected_files(run: Run) -> set[str]:
    files = set(run.leaves)
    if run.name != "-" and not run.name.startswith("/"):
        files.add(run.name)
    if run.works and "real" not in run.leaves:
        parents = [str(path) for path in pathlib.PurePath(run.output).parents if str(path) != "."]
        files |= {run.output, f"{run.output}/t.cu", f"{run.output}/t.h", *parents}
    return files


def check(generator: pathlib.Path, name: str, run: Run, folder: pathlib.Path) -> list[str]:
    """What is wrong with one case."""
    folder.chmod(0o755)
    if run.name != "-" and not run.name.startswith("/"):
        (folder / run.name).parent.mkdir(parents=True, exist_ok=True)
        (folder / run.name).write_bytes(run.spec)
    run.prepare(folder)
    with full_disk(folder) if run.output == "full" else contextlib.nullcontext():
        command = [*as_other_user(name), generator, run.name, "-o", run.output, *run.arguments]
        try:
            result = subprocess.run(command, cwd=folder, input=run.stdin, stdin=subprocess.DEVNULL if run.stdin is None else None,
                                    capture_output=True, timeout=LONGEST_RUN_S, check=False, preexec_fn=limits(run))
        except subprocess.TimeoutExpired:
            return [f"still runs after {LONGEST_RUN_S} s"]
        found = {str(path.relative_to(folder)) for path in folder.rglob("*")}

    problems = []
    if run.works is None:
        run.works = result.returncode == 0
    if result.returncode < 0:
        return [f"killed by {signal.Signals(-result.returncode).name}", result.stderr[:1000].decode(errors="replace")]
    if result.returncode != (0 if run.works else 1):
        problems.append(f"exit status {result.returncode}")
    if result.stdout:
        problems.append(f"standard output holds {result.stdout[:100]!r}")
    if found != expected_files(run):
        problems.append(f"files are {sorted(found)[:10]} instead of {sorted(expected_files(run))[:10]}")
    if (folder / "precious").exists() and (folder / "precious").read_text() != "precious":
        problems.append("a file outside the output folder was written")
    said = result.stderr
    if len(said) > MESSAGE_BYTES:
        problems.append(f"{len(said)} bytes of messages")
    if re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", said):
        problems.append("a message holds a control character")
    words = said.decode("utf-8", errors="backslashreplace")
    place = r":\d+:\d+: error: " if run.located else r": error: "
    if not run.works and not re.search(place, words):
        problems.append("no located error")
    if not re.search(run.says, words):
        problems.append(f"nothing says '{run.says}'")
    if problems and words:
        problems.append("said: " + words[:1000])
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("generator", type=pathlib.Path, help="the spider-gen to run")
    parser.add_argument("name", nargs="*", help="only these cases")
    options = parser.parse_args()
    generator = options.generator.resolve()
    failures = 0
    names = [name for name in CASES if not options.name or name in options.name]
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            try:
                problems = check(generator, name, CASES[name](), pathlib.Path(folder))
            except Skipped as reason:
                print(f"not tried: {name}: {reason}")
                continue
        failures += bool(problems)
        if problems:
            print(f"FAILED {name}", *problems, sep="\n  ", flush=True)
    print(f"{len(names)} cases, {failures} failed")
    return 1 if failures or not names else 0


if __name__ == "__main__":
    sys.exit(main())
