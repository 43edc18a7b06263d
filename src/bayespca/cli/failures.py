"""Failures, reported as one sentence and an exit code."""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .process import FAILED, INTERRUPTED, unwritten
from .standard import STANDARD, forget, named, streams
from .wording import on_the_command_line


@dataclass
class Setting:
    """Settings of the whole run of a command."""

    debug: bool = False
    json: bool = False
    streamed: bool = False


NO_MEMORY = "there is not enough memory: try --stream, or a file that can be streamed."
NO_MEMORY_FOR_BLOCKS = (
    "there is not enough memory, though the file is read in blocks: set columns aside with --drop, "
    "or run it on a machine with more memory."
)
SETTING = Setting()


@contextmanager
def reporting_failures(*, as_json: bool = False) -> Iterator[None]:
    """Run the body of a command; after a failure, print a sentence and exit with 1."""
    SETTING.json, SETTING.streamed = as_json, False
    try:
        with warnings.catch_warnings():
            # The notes of a summary repeat the warnings of its fit.
            warnings.simplefilter("default" if SETTING.debug else "ignore")
            with streams():
                yield
    except BrokenPipeError:
        # The reader closed the pipe; Python must not complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(FAILED)
    except KeyboardInterrupt:
        _say("interrupted; files that were complete are kept, no other was written.")
        sys.exit(INTERRUPTED)
    except Exception as error:
        if SETTING.debug:
            traceback.print_exc()
        _say(_sentence(error))
        sys.exit(FAILED)
    finally:
        forget()


def exit_on_sigterm() -> None:
    """Let SIGTERM end the command like an interruption, so that incomplete files are removed."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))


def _say(sentence: str) -> None:
    sentence = on_the_command_line(named(sentence))
    if SETTING.json:
        place = sys.stdout if STANDARD.written is None else sys.stderr
        print(json.dumps({"error": sentence}, ensure_ascii=False), file=place)
    else:
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in sentence)
        print(f"bayespca: {shown}", file=sys.stderr)


def _sentence(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return NO_MEMORY_FOR_BLOCKS if SETTING.streamed else NO_MEMORY
    if isinstance(error, OSError) and error.errno == errno.ENOSPC and error.strerror:
        # Errors about files carry a sentence without strerror, so this is standard output.
        return unwritten(error)
    text = " ".join(str(error).split())
    if isinstance(error, OSError | ValueError | ImportError | TypeError) and text:
        return text
    # A bug, not a mistake in the input.
    kind = type(error).__name__
    return f"something unexpected happened ({kind}: {text}); --debug shows where."
