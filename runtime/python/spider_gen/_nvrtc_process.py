"""One compilation by NVRTC, which compiles one program of a process after the other: so each has its own process. This file
runs by itself. Standard input is JSON: `library`, `source`, `options`, `kind` (PTX or CUBIN), and `to`, a file. It ends with 1
and the log on standard error where the program has errors."""

import ctypes
import json
import pathlib
import sys
from typing import Any


def _text(library: Any, program: Any, what: str) -> bytes:
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(max(size.value, 1))
    getattr(library, f"nvrtcGet{what}")(program, text)
    return text.raw[:size.value]


def _load(library: str) -> ctypes.CDLL:
    """NVRTC. It looks for its second library by name alone, which is next to it and loaded before."""
    for file in sorted(pathlib.Path(library).resolve().parent.glob("libnvrtc-builtins.so*")):
        ctypes.CDLL(str(file))
    return ctypes.CDLL(library)


def _compile(asked: Any) -> int:
    library, program = _load(asked["library"]), ctypes.c_void_p()
    with open(asked["source"], "rb") as file:
        source = file.read()
    library.nvrtcGetErrorString.restype = ctypes.c_char_p
    options = (ctypes.c_char_p * len(asked["options"]))(*[option.encode() for option in asked["options"]])
    failed = (library.nvrtcCreateProgram(ctypes.byref(program), source, asked["source"].encode(), 0, None, None)
              or library.nvrtcCompileProgram(program, len(options), options))
    if failed:
        log = _text(library, program, "ProgramLog").rstrip(b"\0\n") if program else b""
        print(log.decode(errors="replace") or library.nvrtcGetErrorString(failed).decode(), file=sys.stderr)
        return 1
    with open(asked["to"], "wb") as file:
        file.write(_text(library, program, asked["kind"]))
    return 0


if __name__ == "__main__":
    sys.exit(_compile(json.load(sys.stdin)))
