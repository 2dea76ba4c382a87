"""A line that says how far time steps are and how long they will take."""

from __future__ import annotations

import sys
import time
from typing import Any, Callable

from . import spider

_WIDTH = 30
_SECONDS_BETWEEN = 0.1
_SECONDS_PER_REPORT = 0.2


class Bar:
    """Called with the steps done and all steps; writes to standard error."""

    def __init__(self, name: str, stream: Any = None):
        self._name = name
        self._stream = stream or sys.stderr
        self._begin = time.monotonic()
        self._last = 0.0
        self._length = 0

    def __call__(self, done: int, steps: int) -> None:
        now = time.monotonic()
        if done < steps and now - self._last < _SECONDS_BETWEEN:
            return
        self._last = now
        share = done / steps if steps else 1.0
        spent = now - self._begin
        left = f"{_duration(spent / share - spent)} left" if 0 < share < 1 else f"{_duration(spent)}"
        filled = int(_WIDTH * share)
        line = f"{self._name} [{'#' * filled}{'.' * (_WIDTH - filled)}] {done} of {steps} steps, {left}"
        at_terminal = self._stream.isatty()
        if at_terminal:
            self._stream.write("\r" + line.ljust(self._length))
            if done == steps:
                self._stream.write("\n")
        elif done == steps:
            self._stream.write(line + "\n")
        self._length = len(line)
        self._stream.flush()


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def make(progress: bool | Callable[[int, int], None], name: str) -> Callable[[int, int], None] | None:
    """What `progress=` means."""
    if progress is True:
        return Bar(name)
    return progress or None


def in_chunks(kernel: Any, steps: int, report: Any, run: Callable[[int], None], synchronize: Callable[[], None]) -> None:
    """Runs so many steps, with reports between."""
    steps = spider._int64("steps", steps)
    if report is None or steps <= 0:
        return run(steps)
    done, chunk = 0, kernel.info.steps
    report(0, steps)
    while done < steps:
        now = min(chunk, steps - done)
        begin = time.monotonic()
        run(now)
        synchronize()
        seconds = time.monotonic() - begin
        done += now
        report(done, steps)
        if seconds < _SECONDS_PER_REPORT:
            chunk = min(2 * chunk, kernel.info.steps * (1 << 20))
