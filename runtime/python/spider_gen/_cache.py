"""A folder of generated and compiled files, by what they are made from. A folder in it is complete or not there: it is made
beside and renamed, so that an interrupted or failed build, a full disk, or two processes at once leave nothing half done."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pathlib
import shutil
import tempfile
import time
from typing import Callable, Iterator

try:
    import fcntl
except ImportError:  # no locks here: two processes may then do the same work, and one of the two results is kept
    fcntl = None

_MANIFEST = "complete.json"
_STALE_SECONDS = 24 * 3600


class CacheError(OSError):
    """The cache cannot be written."""


def cache_folder() -> pathlib.Path:
    """$SPIDER_GEN_CACHE, or spider_gen in the user's cache directory."""
    chosen = os.environ.get("SPIDER_GEN_CACHE")
    if chosen:
        return pathlib.Path(chosen).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (pathlib.Path(base) if base else pathlib.Path.home() / ".cache") / "spider_gen"


def entry(name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The folder `name` of the cache, which `make` fills if it is not there, or not as it was made."""
    cache = cache_folder()
    folder = cache / name
    if _is_whole(folder):
        return folder
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with _locked(cache / f"{name}.lock"):
            if _is_whole(folder):  # another process was faster
                return folder
            _sweep_out(cache)
            _make(cache, folder, make)
    except OSError as error:
        if isinstance(error, CacheError):
            raise
        raise CacheError(error.errno, f"the cache {cache} cannot be written ({error.strerror or error}); set "
                                      "SPIDER_GEN_CACHE to a folder that can") from error
    return folder


def _make(cache: pathlib.Path, folder: pathlib.Path, make: Callable[[pathlib.Path], None]) -> None:
    fresh = pathlib.Path(tempfile.mkdtemp(prefix=".new-", dir=cache))
    try:
        make(fresh)
        sums = {file.name: _sum(file) for file in sorted(fresh.iterdir())}
        with open(fresh / _MANIFEST, "w", encoding="utf-8") as manifest:
            json.dump(sums, manifest)
            manifest.flush()
            os.fsync(manifest.fileno())
        if folder.exists():  # and damaged, or it would have been taken
            shutil.rmtree(folder, ignore_errors=True)
        try:
            os.rename(fresh, folder)
        except OSError:
            if not _is_whole(folder):
                raise
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _sum(file: pathlib.Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _is_whole(folder: pathlib.Path) -> bool:
    try:
        sums = json.loads((folder / _MANIFEST).read_bytes())
        return all(_sum(folder / name) == value for name, value in sums.items())
    except (OSError, ValueError, AttributeError):
        return False


@contextlib.contextmanager
def _locked(path: pathlib.Path) -> Iterator[None]:
    if fcntl is None:
        yield
        return
    with open(path, "a", encoding="utf-8") as file:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep_out(cache: pathlib.Path) -> None:
    """Removes what interrupted builds have left."""
    for left in cache.glob(".new-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)
