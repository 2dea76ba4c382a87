#!/usr/bin/env python3
"""The bad specs of this folder: one file NAME.cases for each section of stencils/README.md, which begins with comments.

=== name [structural] [escaped] [made] [ARGUMENT...]
the spec, as the file name.yaml
--- expected
what spider-gen writes to standard error, exactly

structural  the schema for editors has to reject it, too
escaped     \\xNN stands for a byte, and a backslash at the end of a line for no line end
made        lines of MADE follow the spec
ARGUMENT    goes to spider-gen

cases.py FOLDER writes all specs there, as NAME.yaml. Standard library only.
"""

import dataclasses
import pathlib
import re
import shlex
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
FEWEST_CASES = 300
DIVIDER = b"--- expected\n"
HEADER = re.compile(rb"^=== (.*)\n", re.MULTILINE)
ESCAPE = re.compile(rb"\\(?:x([0-9a-f]{2})|\n)")
MADE = {
    "product_huge": "".join(f"  {axis}: [{', '.join(['1'] * 1001)}]\n" for axis in "yx"),
    "too_many_entries": "".join(f"  p{number}: 1\n" for number in range(1001)),
}


class Malformed(Exception):
    """A file of cases that is not as the head of this file says."""


@dataclasses.dataclass
class Case:
    header: str
    body: bytes  # the spec as it stands in the file
    expected: str

    @property
    def words(self) -> list[str]:
        return shlex.split(self.header)

    @property
    def name(self) -> str:
        return self.words[0]

    def is_marked(self, mark: str) -> bool:
        return mark in self.words[1:]

    @property
    def arguments(self) -> list[str]:
        return [word for word in self.words[1:] if word not in ("structural", "escaped", "made")]

    @property
    def text(self) -> bytes:
        """The bytes of name.yaml."""
        text = self.body
        if self.is_marked("escaped"):
            text = ESCAPE.sub(lambda found: bytes.fromhex((found[1] or b"").decode()), text)
        return text + MADE[self.name].encode() if self.is_marked("made") else text


@dataclasses.dataclass
class Section:
    path: pathlib.Path
    comments: bytes
    cases: list[Case]

    def write(self) -> None:
        texts = [b"=== %s\n%s%s%s" % (case.header.encode(), case.body, DIVIDER, case.expected.encode()) for case in self.cases]
        self.path.write_bytes(self.comments + b"\n".join(texts))


def read_section(path: pathlib.Path, complete: bool) -> Section:
    """Unless `complete`, what is expected may be missing. Raises Malformed."""
    comments, *parts = HEADER.split(path.read_bytes())
    cases = []
    for header, rest in zip(parts[::2], parts[1::2]):
        body, divider, expected = rest.partition(DIVIDER)
        case = Case(header.decode(), body, expected.decode().rstrip("\n") + "\n")
        if not re.fullmatch(r"\w+", case.name):
            raise Malformed(f"{path.name}: '{case.name}' is no name of a case")
        if complete and not expected.strip():
            raise Malformed(f"{path.name}: {case.name} lacks '{DIVIDER.decode().strip()}' or what is expected")
        if body and not body.endswith(b"\n"):
            raise Malformed(f"{path.name}: the spec of {case.name} does not end with a line")
        cases.append(case)
    return Section(path, comments, cases)


def read_sections(complete: bool = True) -> list[Section]:
    """All of them. Raises Malformed, also where two cases have one name and where a case stands in a file of its own."""
    if stray := [path.name for pattern in ("*.yaml", "*.expected", "*.args") for path in FOLDER.glob(pattern)]:
        raise Malformed(f"{', '.join(sorted(stray))}: cases stand in the files *.cases")
    sections = [read_section(path, complete) for path in sorted(FOLDER.glob("*.cases"))]
    names = [case.name for section in sections for case in section.cases]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise Malformed(f"{', '.join(twice)}: more than one case has this name")
    if len(names) < FEWEST_CASES:
        raise Malformed(f"{len(names)} cases, at least {FEWEST_CASES} belong here")
    return sections


def read_cases() -> list[Case]:
    return [case for section in read_sections() for case in section.cases]


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for one in read_cases():
        (folder / f"{one.name}.yaml").write_bytes(one.text)
