"""python -m spider_gen run SPEC in.npy -o out.npy --steps N"""

from __future__ import annotations

import argparse
import io
import os
import pathlib
import sys
import warnings

import numpy

from . import __version__, _picture, _progress, spider
from ._cache import CacheError
from ._compilers import CompileError, NoBackend
from ._generator import SpecError
from ._stencil import Stencil, stencil

_INTERRUPTED = 130


def _load(path: pathlib.Path, storage: str, convert: bool) -> numpy.ndarray:
    """The file's array of real numbers in the storage; of bf16 the bits. Where that changes numbers: not without `convert`, and
    then says how many."""
    given = numpy.load(path)
    if not isinstance(given, numpy.ndarray):
        raise SystemExit(f"{path} holds several arrays; a field is one, in a .npy file")
    if given.dtype.kind not in "biuf":
        raise SystemExit(f"{path}: elements are {given.dtype}; a field is of real numbers")
    bits = numpy.ascontiguousarray(spider._rounded(given, storage)).reshape(given.shape)
    stored = spider._readable(bits, storage)
    lost = spider._out_of_range(given, bits, storage)
    rounded = int((numpy.isfinite(stored) & (stored.astype(numpy.longdouble) != given.astype(numpy.longdouble))).sum())
    if lost or rounded:
        changes = (f"{path}: elements are {given.dtype}, and the stencil stores {storage}: of {given.size} values {lost} are out "
                   f"of its range and become infinite, {rounded} are rounded")
        if not convert:
            raise SystemExit(f"spider_gen: {changes}; --convert does so")
        print(f"spider_gen: {changes}", file=sys.stderr)
    return bits


def _stencil(arguments: argparse.Namespace, **named: str) -> Stencil:
    """The stencil that is asked for; what the generator warns of goes to standard error."""
    parameters = dict(definition.split("=", 1) for definition in arguments.define)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        made = stencil(arguments.spec, **named, **parameters)
    for warning in said:
        print(warning.message, file=sys.stderr)
    return made


def _save(arguments: argparse.Namespace, field: numpy.ndarray, storage: str, step: int) -> None:
    values = spider._readable(field, storage)
    data = io.BytesIO()
    numpy.save(data, values)
    _picture.write_whole(arguments.output, data.getvalue())
    if arguments.picture:
        stem = arguments.output.with_suffix("")
        name = f"{stem}_{step:0{len(str(arguments.steps))}}.png" if arguments.every else f"{stem}.png"
        _picture.write(name, values)


def _run(arguments: argparse.Namespace) -> int:
    heat = _stencil(arguments, backend=arguments.backend)
    if not isinstance(heat, Stencil):
        raise SystemExit(f"spider_gen: {heat.name} is a system of equations, and the command takes one field: write a program that "
                         f"calls spider_gen.stencil({str(arguments.spec)!r}).iterate({{name: array, ...}}, steps)")
    storage = heat.info.storage
    field = _load(arguments.input, storage, arguments.convert)
    if field.ndim != heat.info.dimensions:
        raise SystemExit(f"{arguments.input}: {field.ndim} dimensions; {heat.name} has {heat.info.dimensions}")
    every = arguments.every or arguments.steps
    bar = None if arguments.quiet else _progress.Bar(heat.name)
    saved = done = 0
    try:
        if arguments.picture and arguments.every:
            _save(arguments, field, storage, 0)
        while done < arguments.steps or arguments.steps == 0:
            now = min(every, arguments.steps - done)
            begun = done
            report = (lambda part, _: bar(begun + part, arguments.steps)) if bar else False
            field = heat.iterate(field, now, progress=report)
            done += now
            _save(arguments, field, storage, done)
            saved = done
            if arguments.steps == 0:
                break
    except KeyboardInterrupt:
        held = f"{arguments.output} holds step {saved}" if saved else f"{arguments.output} was not written"
        print(f"\nstopped in step {done} to {min(done + every, arguments.steps)}: {held}", file=sys.stderr)
        return _INTERRUPTED
    return 0


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError("there must be 0 or more")
    return number


def main(words: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="spider_gen", description=__doc__, allow_abbrev=False)
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run = commands.add_parser("run", help="time steps of a field in a .npy file", allow_abbrev=False)
    run.add_argument("spec", type=pathlib.Path, metavar="SPEC", help="a stencil in YAML")
    run.add_argument("input", type=pathlib.Path, help="a .npy file with the field")
    run.add_argument("-o", "--output", type=pathlib.Path, required=True, help="the .npy file to write")
    run.add_argument("--steps", type=_count, default=1, help="time steps (1)")
    run.add_argument("--every", type=_count, default=0, metavar="K", help="write after every K steps, not only the last")
    run.add_argument("--picture", action="store_true", help="also a PNG beside the output; of a volume its middle plane")
    run.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE", help="replaces a parameter")
    run.add_argument("--backend", choices=("auto", "cuda", "host"), default="auto")
    run.add_argument("--convert", action="store_true", help="round values that the storage does not hold, and say how many")
    run.add_argument("--quiet", action="store_true", help="no progress bar")
    explain = commands.add_parser("explain", help="the plan of a stencil", allow_abbrev=False)
    explain.add_argument("spec", type=pathlib.Path, metavar="SPEC")
    explain.add_argument("-D", "--define", action="append", default=[], metavar="NAME=VALUE")
    run.set_defaults(function=_run)
    explain.set_defaults(function=lambda given: print(_stencil(given).explain(), end="") or 0)
    arguments = parser.parse_args(words)
    for definition in arguments.define:
        if "=" not in definition:
            parser.error(f"-D {definition}: write NAME=VALUE")
    try:
        return arguments.function(arguments)
    except (SpecError, NoBackend, CompileError, CacheError, OSError, TypeError, ValueError, spider.Error) as error:
        print(f"spider_gen: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    # A terminal's ^C reaches compilers, too; what they leave is not in the cache.
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except BrokenPipeError:
        os._exit(1)
