"""What the wheel brings beside this module: the generator and the runtime's sources."""

from __future__ import annotations

import functools
import hashlib
import os
import pathlib
import sys
from typing import NoReturn

FOLDER = pathlib.Path(__file__).resolve().parent
GENERATOR = FOLDER / "bin" / "spider-gen"
RUNTIME = FOLDER / "runtime"


def run_generator() -> NoReturn:
    """The command spider-gen: the generator that the package brings, in this process."""
    os.execv(GENERATOR, ["spider-gen", *sys.argv[1:]])


@functools.lru_cache(maxsize=None)
def identity() -> str:
    """Changes with whatever the package generates from or compiles: names, sizes and times of its files."""
    digest = hashlib.sha256()
    for file in sorted([GENERATOR, *RUNTIME.rglob("*")]):
        if file.suffix in ("", ".h", ".hpp", ".cpp", ".in") and file.is_file():
            state = os.stat(file)
            digest.update(f"{file.relative_to(FOLDER)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def key(*parts: object) -> str:
    """A name for what was made from these parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode()
        digest.update(str(len(data)).encode() + b":" + data)
    return digest.hexdigest()[:32]
