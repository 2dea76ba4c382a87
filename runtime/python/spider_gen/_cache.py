"""A folder of generated and compiled files, by what they are made from. Each entry is built in a temporary folder of the
process, copied into the cache and renamed, so that an interrupted or failed build, a full disk, or two processes at the same
time leave nothing half done. Where the cache cannot take an entry, the process uses its own build."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import multiprocessing.util
import os
import pathlib
import shutil
import stat
import tempfile
import time
import uuid
from typing import Callable, Iterator

try:
    import fcntl
except ImportError:  # no locks here: two processes may then do the same work, and one of the two results is used
    fcntl = None

_MANIFEST = "complete.json"
_STALE_SECONDS = 24 * 3600
_SETTLED_SECONDS = 60  # a network file system may show less than all of a folder that is younger (NFS: acdirmax)

_log = logging.getLogger("spider_gen")
_own_builds: dict[tuple[int, pathlib.Path], pathlib.Path] = {}  # of a process, by its number, for forks
_process_folders: dict[int, pathlib.Path] = {}
_said: set[str] = set()


class CacheError(OSError):
    """An entry cannot be built: the temporary folder cannot be written, or the cache has no name."""


def say_once(text: str) -> None:
    """Logs a warning, which Python shows on standard error if nothing else is set up; the same one once a process."""
    if text not in _said:
        _said.add(text)
        _log.warning("spider_gen: %s", text)


def cache_folder() -> pathlib.Path:
    """$SPIDER_GEN_CACHE; else spider_gen in the user's cache directory, where there is one or it can be made; else a folder of
    the user in the temporary directory."""
    chosen = os.environ.get("SPIDER_GEN_CACHE")
    if chosen:
        try:
            return pathlib.Path(chosen).expanduser()
        except RuntimeError as error:
            raise CacheError(errno.ENOENT, f"SPIDER_GEN_CACHE is {chosen}: {error}; give the whole path") from error
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return pathlib.Path(base) / "spider_gen"
    try:
        folder = pathlib.Path.home() / ".cache" / "spider_gen"
    except RuntimeError:  # neither HOME nor an entry of this user in the password file
        return _user_folder()
    existing = next(path for path in (folder, *folder.parents) if os.path.exists(path))
    return folder if existing == folder or os.access(existing, os.W_OK) else _user_folder()


def entry(name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    """The folder `name` of the cache, which `make` fills if it is not there, or not as it was made; a folder of this process
    where the cache does not take it. CacheError where files cannot be written at all."""
    cache = cache_folder()
    folder = cache / name
    if _is_whole(folder):
        return folder
    with _locked(cache, name):
        if _is_whole(folder):  # another process was faster
            return folder
        given_out = _own_builds.get((os.getpid(), folder))
        own = given_out if given_out is not None and _is_whole(given_out) else _build(name, make)
        if not _publish(own, folder):
            _own_builds[os.getpid(), folder] = own
            return own
        if own is not given_out:
            shutil.rmtree(own, ignore_errors=True)
        return folder


def found(name: str) -> pathlib.Path | None:
    """The folder `name` of the cache, or this process's, where it is there as it was made."""
    folder = cache_folder() / name
    own = _own_builds.get((os.getpid(), folder))
    return next((one for one in (folder, own) if one is not None and _is_whole(one)), None)


def _build(name: str, make: Callable[[pathlib.Path], None]) -> pathlib.Path:
    own = None
    try:
        own = pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_process_folder()))
        make(own)
        sums = {file.name: _sum(file) for file in sorted(own.iterdir())}
        (own / _MANIFEST).write_text(json.dumps(sums), encoding="utf-8")
    except BaseException as error:
        if own is not None:
            shutil.rmtree(own, ignore_errors=True)
        if not isinstance(error, OSError) or isinstance(error, CacheError):
            raise
        raise CacheError(error.errno, f"an entry of the cache cannot be built ({error}); its files are written into the "
                                      "temporary folder first, which TMPDIR names") from error
    return own


def _publish(own: pathlib.Path, folder: pathlib.Path) -> bool:
    """Copies a build into the cache. True where the entry is then there, by this process or by another. A folder that is there
    and not whole may be an entry of another process that this machine does not see in full yet: it stays, unless it is old."""
    cache = folder.parent
    fresh = cache / f".new-{uuid.uuid4().hex}"
    try:
        cache.mkdir(parents=True, exist_ok=True)
        _sweep_out(cache)
        fresh.mkdir()
        for file in own.iterdir():
            shutil.copyfile(file, fresh / file.name)
        if _is_damaged(folder, fresh):  # others may have it mapped, so it is not removed
            os.rename(folder, cache / f".damaged-{uuid.uuid4().hex}")
        os.rename(fresh, folder)
        return True
    except OSError as error:
        if _is_whole(folder):
            return True
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            say_once(f"the cache {cache} cannot be written ({error.strerror or error}), so this process compiles for itself; "
                     "set SPIDER_GEN_CACHE to a folder that can")
        return False
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _is_damaged(folder: pathlib.Path, fresh: pathlib.Path) -> bool:
    """Whether an entry that may be read is not whole, and older than `fresh`, by the clock of their file system, by so much
    that all of it would be seen."""
    if not os.access(folder, os.R_OK | os.X_OK) or _is_whole(folder):
        return False
    return fresh.stat().st_mtime - folder.stat().st_mtime > _SETTLED_SECONDS


def _sum(file: pathlib.Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _is_whole(folder: pathlib.Path) -> bool:
    try:
        sums = json.loads((folder / _MANIFEST).read_bytes())
        return all(_sum(folder / name) == value for name, value in sums.items())
    except (OSError, ValueError, AttributeError):
        return False


@contextlib.contextmanager
def _locked(cache: pathlib.Path, name: str) -> Iterator[None]:
    """Of processes that want one entry the others wait for the first. Where that cannot be, each builds its own."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a cache that cannot be written, or a file system without locks
            cache.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(open(cache / f"{name}.lock", "a", encoding="utf-8"))
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _sweep_out(cache: pathlib.Path) -> None:
    """Removes copies that were interrupted."""
    for left in cache.glob(".new-*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > _STALE_SECONDS:
                shutil.rmtree(left, ignore_errors=True)


def _user_folder() -> pathlib.Path:
    """One in the temporary directory that no other user can write, else that of this process."""
    folder = pathlib.Path(tempfile.gettempdir()) / f"spider_gen-{os.getuid()}"
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        state = os.lstat(folder)
        if stat.S_ISDIR(state.st_mode) and state.st_uid == os.getuid() and not state.st_mode & 0o022:
            return folder
    return _process_folder() / "cache"


def _process_folder() -> pathlib.Path:
    """A temporary folder, removed when this process ends."""
    process = os.getpid()
    folder = _process_folders.get(process)
    if folder is None or not folder.is_dir():
        made = pathlib.Path(tempfile.mkdtemp(prefix="spider_gen-"))
        folder = _process_folders[process] = made
        # Not atexit: workers of multiprocessing end without it.
        multiprocessing.util.Finalize(None, _remove_own, args=(process, made), exitpriority=0)
    return folder


def _remove_own(process: int, folder: pathlib.Path) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
