"""From a spec, given as a file, a mapping or weights, to generated files in the cache."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import pathlib
import re
import subprocess
from typing import Any, Mapping, Sequence

from . import _autograd, _cache, _package

_MESSAGES = "messages.txt"
_PLAN = "plan.json"  # of systems


class SpecError(ValueError):
    """What is wrong with a spec, in the generator's words: file:line:column: error: text."""


class SpecWarning(UserWarning):
    """The generator warns of a spec: it is valid, but may not do what its author wants."""


@dataclasses.dataclass(frozen=True)
class Spec:
    """A spec's text, where it comes from, and the options that it is generated with."""

    text: bytes
    shown: str  #: in messages
    options: tuple[str, ...]

    @property
    def key(self) -> str:
        return _package.key(_package.identity(), self.shown, self.text, *self.options)


@dataclasses.dataclass(frozen=True)
class Generated:
    """A kernel's source in the cache."""

    name: str
    folder: pathlib.Path

    @property
    def source(self) -> pathlib.Path:
        return self.folder / f"{self.name}.cu"

    @property
    def warnings(self) -> list[str]:
        """The generator's warnings, also where an earlier process generated the files."""
        said = (self.folder / _MESSAGES).read_text(encoding="utf-8")
        return re.findall(r"^.*?:\d+:\d+: warning: .*$", said, flags=re.MULTILINE)

    @property
    def is_system(self) -> bool:
        """Does the spec have `stages`?"""
        plan = self.folder / _PLAN
        return plan.exists() and json.loads(plan.read_text(encoding="utf-8")).get("system", False)


def from_file(path: str | os.PathLike, options: Sequence[str]) -> Spec:
    file = pathlib.Path(path)
    return Spec(file.read_bytes(), file.name, tuple(options))


def from_mapping(keys: Mapping[str, Any], options: Sequence[str]) -> Spec:
    """The same keys as in a file; `stencil` may be missing."""
    keys = dict(keys)
    keys.setdefault("stencil", "stencil")
    lines = [f"{json.dumps(str(key))}: {_flow(value, str(key))}" for key, value in keys.items()]
    return Spec(("\n".join(lines) + "\n").encode(), "<mapping>", tuple(options))


def from_weights(weights: Any, keys: Mapping[str, Any], options: Sequence[str]) -> Spec:
    """out[p] = sum of weights[q] * in[p + q - size // 2], the middle of an even size as SciPy has it."""
    _autograd.refuse(weights, "weights")
    values = weights.tolist() if hasattr(weights, "tolist") else weights
    shape = _shape(values)
    if not 1 <= len(shape) <= 3 or 0 in shape:
        raise SpecError(f"weights have 1 to 3 axes and at least one element along each; these have the shape {shape}")
    spec: dict[str, Any] = {"stencil": "weights", "dimensions": len(shape), "storage": "f16", **keys}
    if all(n % 2 for n in shape):
        spec |= {"shape": "box", "coefficients": values}
    else:
        spec |= {"shape": "taps", "coefficients": _taps(values, [-(n // 2) for n in shape])}
    return from_mapping(spec, options)


def _shape(values: Any) -> tuple[int, ...]:
    if not isinstance(values, (list, tuple)):
        return ()
    shapes = {_shape(value) for value in values}
    if len(shapes) > 1:
        raise SpecError("weights are lists of different lengths")
    return (len(values), *(shapes.pop() if shapes else ()))


def _taps(values: Any, first: Sequence[int], at: tuple[int, ...] = ()) -> list[dict]:
    if not isinstance(values, (list, tuple)):
        return [{"at": list(at), "weight": values}] if values else []
    low = first[len(at)]
    return [tap for i, value in enumerate(values) for tap in _taps(value, first, (*at, low + i))]


def _flow(value: Any, where: str) -> str:
    """A value as YAML in one line: JSON is such, and its strings are read as others are."""
    if hasattr(value, "tolist"):  # of NumPy
        _autograd.refuse(value, where)
        value = value.tolist()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_flow(one, where)}" for key, one in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_flow(one, where) for one in value) + "]"
    if isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{where}: {value} is no finite number")
    if value is None or isinstance(value, (bool, int, float, str)):
        return json.dumps(value)
    raise SpecError(f"{where}: a {type(value).__name__} is neither number, text, list nor mapping")


def parameter_options(parameters: Mapping[str, Any]) -> list[str]:
    """-D name=value for each."""
    options = []
    for name, value in parameters.items():
        if hasattr(value, "item"):
            _autograd.refuse(value, name)
            value = value.item()
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise TypeError(f"{name}: a parameter is a number, or an expression as text, not a {type(value).__name__}")
        options.append(f"-D{name}={value}" if isinstance(value, str) else f"-D{name}={value!r}")
    return options


def generate(spec: Spec) -> Generated:
    """Generates the files, or finds them in the cache. SpecError with all messages where the spec is wrong."""
    folder = _cache.entry("source-" + spec.key, lambda fresh: _generate(spec, fresh))
    return Generated(next(folder.glob("*.cu")).stem, folder)


def _generate(spec: Spec, folder: pathlib.Path) -> None:
    said = run([*spec.options, "-o", str(folder)], spec)
    (folder / _MESSAGES).write_text(said.stderr, encoding="utf-8")
    if b"stages" in spec.text:  # no other spec needs to be asked
        (folder / _PLAN).write_text(explain(spec, as_json=True), encoding="utf-8")


def explain(spec: Spec, as_json: bool = False) -> str:
    """The plan, for a person or as JSON."""
    return run([*spec.options, "--explain", "--explain-format", "json" if as_json else "text"], spec).stdout


def run(options: Sequence[str], spec: Spec) -> subprocess.CompletedProcess:
    done = subprocess.run([_package.GENERATOR, "-", *options], input=spec.text, capture_output=True, check=False,
                          env=os.environ | {"NO_COLOR": "1"})
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    err = re.sub(r"^(-|<stdin>)(?=:\d+:\d+: )", lambda _: spec.shown, err, flags=re.MULTILINE)
    if done.returncode in (1, 2):
        raise SpecError(err.strip())
    if done.returncode != 0:
        raise RuntimeError(f"spider-gen ends with {done.returncode}: {err.strip()}")
    return subprocess.CompletedProcess(done.args, 0, out, err)
