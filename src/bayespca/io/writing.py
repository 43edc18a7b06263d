"""Atomic writing of files: a file is written whole or not at all.

The new contents go to a temporary file in the same folder, which replaces the old file in a single
step of the file system once everything is on the disk. Its name identifies the process that writes
it, so that the next process to write to the folder can remove what a killed one has left there.
"""

from __future__ import annotations

import errno
import os
import platform
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import IO

# Errors that only writing causes; others in the body of a `with` may concern other files.
FULL = {errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else [])}
# Longer suffixes are not endings, and would make the temporary name too long.
LONGEST_ENDING = 32
# Name of a temporary file: the machine and the process that write it, and a random part.
TEMPORARY = re.compile(r"\.bayespca-([0-9a-f]{12})-([0-9]+)-[0-9a-f]{16}(\..*)?")


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A binary file that becomes `path` if the body of the `with` ends well.

    Otherwise `path` stays as it was, and no other file is left behind. A symbolic link stays, and
    its target is replaced. Permissions are those of the old file, or those that `open` would give.
    The message of an OSError is a sentence about `path`.
    """
    with replacing_path(path) as temporary:
        file = open(temporary, "r+b")  # noqa: SIM115 (errors of closing differ)
        try:
            yield file
        except BaseException:
            with suppress(OSError):
                file.close()
            raise
        with _about(path, every=True):
            file.close()


@contextmanager
def replacing_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Like `replacing`, for writers that need a path: a temporary one with the ending of `path`."""
    path = Path(path)
    with _about(path, every=True):
        target = Path(os.path.realpath(path))
        mode = _checked_mode(target)
        # Temporary files of processes that no longer run on this machine go.
        with suppress(OSError), os.scandir(target.parent) as entries:
            for entry in entries:
                found = TEMPORARY.fullmatch(entry.name)
                if found and found[1] == _machine() and not _is_running(int(found[2])):
                    with suppress(OSError):
                        os.unlink(entry)
        # The ending, by which writers choose format and compression: `.csv`, `.csv.gz`.
        ending = "".join(path.suffixes[-2:])
        ending = ending if len(ending) <= LONGEST_ENDING else ""
        name = f".bayespca-{_machine()}-{os.getpid()}-{secrets.token_hex(8)}{ending}"
        temporary = target.parent / name
        temporary.touch(exist_ok=False)
    try:
        with _about(path, every=False):
            yield temporary
        with _about(path, every=True):
            with open(temporary, "r+b") as file:
                # Wait until the contents are on the disk.
                os.fsync(file.fileno())
            if mode is not None:
                temporary.chmod(mode)
            os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


@cache
def _machine() -> str:
    """Twelve hex digits that identify the host, to tell apart machines or containers that share a
    folder.
    """
    return blake2b(platform.node().encode(), digest_size=6).hexdigest()


def _is_running(process: int) -> bool:
    if os.name != "posix":  # elsewhere os.kill would end the process
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:  # it belongs to another user
        return True
    return True


def _checked_mode(target: Path) -> int | None:
    """Permissions of the file to replace, None if there is none; an error if it is protected."""
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(found):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(found):
        raise OSError(errno.EINVAL, "it is a device or a pipe, not a file")
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, "it is write-protected; choose another name")
    return stat.S_IMODE(found)


@contextmanager
def _about(path: str | os.PathLike[str], *, every: bool) -> Iterator[None]:
    """Turn errors of the operating system, all or only those of full disks, into sentences.

    The type and `errno` stay the same.
    """
    try:
        yield
    except OSError as error:
        # Without `strerror` it is not from the operating system, or already is a sentence.
        if error.strerror is None or not (every or error.errno in FULL):
            raise
        clearer = type(OSError(error.errno, ""))(_sentence(Path(path), error))
        clearer.errno = error.errno
        raise clearer from error


def _sentence(path: Path, error: OSError) -> str:
    parent = path.absolute().parent
    if error.errno in FULL:
        why = "the disk is full or the quota used up; free some space or write somewhere else"
    elif error.errno == errno.EISDIR:
        why = "it is a folder; add the name of a file to it"
    elif error.errno == errno.EROFS:
        why = f"the folder {parent} is read-only; write somewhere else"
    elif not parent.exists():
        why = f"the folder {parent} does not exist; create it first"
    elif not parent.is_dir():
        why = f"{parent} is not a folder"
    elif not os.access(parent, os.W_OK):
        why = f"no permission to write in the folder {parent}; choose another one"
    else:
        why = error.strerror or str(error)
    return f"cannot write {path}: {why}."
