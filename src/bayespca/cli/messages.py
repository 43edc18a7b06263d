"""Failures, reported as one sentence and an exit code, in terms of the command line.

Messages from Python name parameters: `n_components=3` is `--n-components 3`.
"""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from .process import FAILED, INTERRUPTED, unwritten
from .standard import STANDARD, forget, named, streams

# Options whose names are not those of the parameters with dashes.
OTHERWISE = {"random_state": "seed", "missing": "na"}
# Every option of every command, by the name of its parameter; filled as commands are declared.
OPTIONS: set[str] = set(OTHERWISE)
# Remedies in messages of `io`, with the options for them.
REMEDIES = {
    "transpose the table": "--transpose",
    "name the delimiter": "--delimiter",
    "name the array to read": "--array",
}
VALUE = r"'[^']*'|\"[^\"]*\"|[-\w.+]*\w"
# Arguments in the parentheses of a call are Python code, and stay unchanged.
ASSIGNED = re.compile(rf"`?(?<![\w.\"'-])(?<!\w\()([a-z]\w*)=({VALUE})`?")
# A dictionary with one entry; a column that needs another likelihood; a column to leave out.
BY_COLUMN = re.compile(r"\blikelihood=\{'([^']*)': '([^']*)'\}")
FOR_IT = re.compile(r"^column '([^']*)' (.*)the likelihood '([^']*)' for it\b")
LEFT_OUT = re.compile(r"^column ('[^']*') (.*)leave it out\b")
# A single word is an option only in backticks, after "option", or with an underscore.
MENTIONED = re.compile(
    r"`([a-z]\w*)`|(?<=\boption )([a-z]\w*)\b(?!=)|(?<![\w.\"'-])([a-z]+_\w+)\b(?![=(])"
)
NO_MEMORY = "there is not enough memory: try --stream, or a file that can be streamed."
NO_MEMORY_FOR_BLOCKS = (
    "there is not enough memory, though the file is read in blocks: set columns aside with --drop, "
    "or run it on a machine with more memory."
)


def on_the_command_line(message: str) -> str:
    """A message with options as they are typed; names that are not options stay unchanged."""
    for words, option in REMEDIES.items():
        message = message.replace(words, f"{words} ({option})")
    message = LEFT_OUT.sub(r"column \1 \2leave it out (--drop \1)", message)
    message = BY_COLUMN.sub(r"--likelihood \1=\2", message)
    # Messages call a column of a table `table: column`, options call it `table:column`.
    message = FOR_IT.sub(
        lambda found: (
            f"column '{found[1]}' {found[2]}--likelihood {found[1].replace(': ', ':')}={found[3]}"
        ),
        message,
    )
    return MENTIONED.sub(_mentioned, ASSIGNED.sub(_assigned, message))


def option_name(name: str) -> str:
    """The option for a parameter, as it is typed."""
    return "--" + OTHERWISE.get(name, name).replace("_", "-")


def renamed(message: str, names: Mapping[str, str]) -> str:
    """A message with parameters replaced by these names of options."""
    if not names:
        return message
    known = "|".join(map(re.escape, names))
    return re.sub(
        rf"`?\b({known})\b`?(=?)",
        lambda found: f"{names[found[1]]}=" if found[2] else f"`{names[found[1]]}`",
        message,
    )


def _assigned(found: re.Match[str]) -> str:
    name, value = found[1], found[2].strip("'\"")
    if name not in OPTIONS or value == "None":
        return found[0]
    if value in ("True", "False"):
        return option_name(name) if value == "True" else "--no-" + option_name(name)[2:]
    return f"{option_name(name)} {value}"


def _mentioned(found: re.Match[str]) -> str:
    name = next(filter(None, found.groups()))
    return option_name(name) if name in OPTIONS else found[0]


@dataclass
class Setting:
    """Settings of the whole run of a command."""

    debug: bool = False
    json: bool = False
    streamed: bool = False


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
