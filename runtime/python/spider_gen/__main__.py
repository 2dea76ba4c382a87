"""python -m spider_gen run SPEC in.npy -o out.npy --steps N"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import warnings
from typing import Any

import numpy

from . import __version__, _files, _progress, spider
from ._cache import CacheError
from ._compilers import CompileError, NoBackend
from ._generator import SpecError
from ._stencil import Stencil, stencil

_INTERRUPTED = 130


def _stored(path: pathlib.Path, given: numpy.ndarray, storage: str, convert: bool) -> numpy.ndarray:
    """A file's array of real numbers in the storage; of bf16 the bits. Where that changes numbers: not without `convert`, and
    then says how many."""
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


def _writer(arguments: argparse.Namespace, like: Any, name: str) -> _files.Writer:
    stem, digits = arguments.output.with_suffix(""), len(str(arguments.steps))
    pictures = (lambda step: f"{stem}_{step:0{digits}}.png") if arguments.every else (lambda step: f"{stem}.png")
    return _files.Writer(arguments.output, like, bool(arguments.every), name, pictures if arguments.picture else None)


def _run(arguments: argparse.Namespace) -> int:
    heat = _stencil(arguments, backend=arguments.backend)
    if not isinstance(heat, Stencil):
        raise SystemExit(f"spider_gen: {heat.name} is a system of equations, and the command takes one field: write a program that "
                         f"calls spider_gen.stencil({str(arguments.spec)!r}).iterate({{name: array, ...}}, steps)")
    storage = heat.info.storage
    given, like = _files.read(arguments.input, arguments.variable)
    if given.ndim != heat.info.dimensions:
        dims = "" if like is None else f" ({', '.join(map(str, like.dims))})"
        raise SystemExit(f"{arguments.input}: {given.ndim} dimensions{dims}; {heat.name} has {heat.info.dimensions}")
    field = _stored(arguments.input, given, storage, arguments.convert)
    every = arguments.every or arguments.steps
    bar = None if arguments.quiet else _progress.Bar(heat.name)
    done = 0
    writer = _writer(arguments, like, heat.name)
    try:
        with writer:
            if arguments.picture and arguments.every:
                writer.put(spider._readable(field, storage), 0, whole=False)
            while done < arguments.steps or arguments.steps == 0:
                now = min(every, arguments.steps - done)
                begun = done
                report = (lambda part, _: bar(begun + part, arguments.steps)) if bar else False
                field = heat.iterate(field, now, progress=report)
                done += now
                writer.put(spider._readable(field, storage), done)
                if arguments.steps == 0:
                    break
    except KeyboardInterrupt:
        held = f"{arguments.output} " + ("was not written" if writer.saved is None else f"holds step {writer.saved}")
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
    run = commands.add_parser("run", help="time steps of a field in a file", allow_abbrev=False)
    run.add_argument("spec", type=pathlib.Path, metavar="SPEC", help="a stencil in YAML")
    run.add_argument("input", type=pathlib.Path, help="the field: .npy, .nc (NetCDF) or .zarr")
    run.add_argument("-o", "--output", type=pathlib.Path, required=True, help="the file to write, of one of these")
    run.add_argument("--variable", metavar="NAME", help="of a .nc or .zarr with several")
    run.add_argument("--steps", type=_count, default=1, help="time steps (1)")
    run.add_argument("--every", type=_count, default=0, metavar="K",
                     help="write after every K steps, not only the last; .nc and .zarr get all of them, along `step`")
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
