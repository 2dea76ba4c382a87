"""Sweeps of systems that are repeated for arrays of the same layouts, without checking them again."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import _autograd, _places, spider
from ._calls import REFUSED, in_python


#: For `in_place`: the arrays of a state are the sweep's, and results are these or new ones, whichever takes no copy.
EITHER: Any = object()


@dataclasses.dataclass
class Repeat:
    """A sweep that was launched once."""

    kernel: Any
    launch: Callable[[Sequence[int], int | None, Sequence[float]], int]
    copied: list[bool]  #: of each field: is it written in a copy, unless it is written in place?

    def run(self, state: Mapping[str, Any], in_place: Any, scalars: Mapping[str, Any]) -> dict[str, Any] | None:
        """What the fields become; None where the arrays are refused."""
        info = self.kernel.info
        given = [state[name] for name, _ in info.fields]
        fields = [_places.copy_of(array) if copied and not in_place else array for array, copied in zip(given, self.copied)]
        outputs = [_places.empty_like(array) if use & spider.FIELD_TWO_BUFFERS else None for array, use in zip(given, info.uses)]
        numbers = [_autograd.number(scalars[name], name) for name in info.scalars]
        addresses = [_places.address(array) for array in (*fields, *outputs) if array is not None]
        status = self.launch(addresses, _places.stream_of(given[0]), numbers)
        if status in REFUSED:
            return None  # the slow way raises in Python's words
        if status != 0:
            in_python(self.kernel.library._check, status)
        results = {}
        for (name, _), array, field, output, use in zip(info.fields, given, fields, outputs, info.uses):
            if not use & spider.FIELD_WRITTEN:
                continue
            result = output if use & spider.FIELD_RESULT_IN_OUTPUT else field
            if in_place is True and result is not array:
                array[...] = result
            results[name] = array if in_place is True else result
            _autograd.mark_written(results[name])
        return results


def key_of(state: Any, in_place: Any, scalars: Mapping[str, Any]) -> Any:
    """What a sweep is remembered by; None where the arrays have to be checked."""
    if not isinstance(state, Mapping) or not state:
        return None
    places = _places.places(*state.values())
    if places is None or (in_place and places[0][1][-1] < 0):  # arrays on the host may overlap
        return None
    return (in_place, *state, *scalars, *(layout for _, layout in places))
