"""The lock of a run's folder: one process trains into it at a time.

The file `.regard.lock` is held with flock, which the kernel gives back when a process ends, however it ends,
and which Linux carries over NFS; what is in it tells others who holds it. Where a file system has no such
locks, its content decides: it counts while the process that it names is alive, or is on another machine. Of
several processes that train together, rank 0 holds it.
"""

import errno
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from regard.core.errors import RunError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".regard.lock"


@contextmanager
def locked(folder: Path) -> Iterator[bool]:
    """Hold a folder, which is made if need be; RunError if another process does. Yields whether it was made.

    A folder that was made here and is empty in the end is removed again.
    """
    made = not folder.exists()
    handle = _held(folder)
    try:
        yield made
    finally:
        with suppress(OSError):
            (folder / LOCK).unlink()
        os.close(handle)
        if made:
            with suppress(OSError):  # there is something in it
                folder.rmdir()


def remove_dead_lock(folder: Path) -> None:
    """Remove the lock of a process that was killed; that of one that is alive stays."""
    if os.path.lexists(folder / LOCK):
        with suppress(RunError), locked(folder):
            pass


def _held(folder: Path) -> int:
    path = folder / LOCK
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"{folder} cannot be written into: {error.strerror}.") from None
        try:
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NONBLOCK | os.O_NOFOLLOW, 0o666)
        except FileNotFoundError:  # removed by a start that failed at this moment
            continue
        except OSError as error:
            raise RunError(f"{folder} cannot be written into: {error.strerror}.") from None
        try:
            if not _taken(handle):
                raise RunError(
                    f"{folder} is in use: {_holder(handle)}. Wait for it, or choose another --out."
                )
            if os.path.samestat(os.fstat(handle), os.stat(path)):
                os.truncate(handle, 0)
                facts = {"pid": os.getpid(), "host": socket.gethostname(), "since": f"{datetime.now():%F %T}"}
                with suppress(OSError):  # a full disk: it is held all the same
                    os.pwrite(handle, json.dumps(facts).encode(), 0)
                return handle
        except FileNotFoundError:  # by the time it was ours, its holder had removed it
            pass
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return False
    facts = _facts(handle)  # there are no locks here
    if facts.get("host") != socket.gethostname():
        return not facts
    try:
        os.kill(int(facts["pid"]), 0)
    except (ProcessLookupError, ValueError, TypeError, KeyError, OverflowError):
        return True
    except PermissionError:
        return False
    return int(facts["pid"]) == os.getpid()


def _holder(handle: int) -> str:
    facts = _facts(handle)
    if not facts:
        return "another process trains into it"
    return "process {pid} on {host} trains into it since {since}".format_map(facts)


def _facts(handle: int) -> dict[str, str]:
    """What the lock says about its holder; empty if it says nothing."""
    try:
        found = json.loads(os.pread(handle, 4096, 0))
        return {name: str(found[name]) for name in ("pid", "host", "since")}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return {}
