"""Calls of the runtime, with its refusals as Python's exceptions."""

from __future__ import annotations

from typing import Any, Callable

from . import spider

#: Statuses that say what the arrays are; nothing was launched.
REFUSED = (3, 4, 5, 6)
MOST_LAUNCHES = 64  #: that are remembered
_STATUS_ERRORS = {3: ValueError, 4: ValueError, 5: ValueError, 6: ValueError, 7: ValueError, 10: MemoryError}


def in_python(call: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """The call's result; a refusal of the runtime as the exception that Python has for it."""
    try:
        return call(*arguments, **named)
    except spider.Error as error:
        kind = _STATUS_ERRORS.get(error.status)
        if kind is None:
            raise
        raise kind(str(error)) from error
