"""What goes wrong becomes one sentence and an exit code."""

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

from .ending import FAILED, INTERRUPTED, unwritten
from .standard import STANDARD, forget, named, streams
from .wording import on_the_command_line


@dataclass
class Setting:
    """What holds for the whole run of a command: set once, from the options."""

    debug: bool = False
    json: bool = False
    streamed: bool = False


NO_MEMORY = "there is not enough memory: try --stream, or a file that can be streamed."
NO_MEMORY_FOR_BLOCKS = (
    "there is not enough memory, though the file is read in blocks: set columns aside with --drop, "
    "or run it where there is more."
)
SETTING = Setting()


@contextmanager
def in_one_sentence(*, as_json: bool = False) -> Iterator[None]:
    """Run the body of a command; print what went wrong as a sentence, and exit with 1."""
    SETTING.json, SETTING.streamed = as_json, False
    try:
        with warnings.catch_warnings():
            # What a fit warns of is among the notes of its summary.
            warnings.simplefilter("default" if SETTING.debug else "ignore")
            with streams():
                yield
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python must not complain at exit.
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


def end_when_told() -> None:
    """Let SIGTERM end the command as an interruption does: files that are half written go."""
    signal.signal(signal.SIGTERM, _end)


def _end(number: int, frame: object) -> None:
    sys.exit(128 + number)


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
        # Whoever writes a file says which one.
        return unwritten(error)
    text = " ".join(str(error).split())
    if isinstance(error, OSError | ValueError | ImportError | TypeError) and text:
        return text
    # An error in our code, not in what was given.
    kind = type(error).__name__
    return f"something unexpected happened ({kind}: {text}); --debug shows where."
