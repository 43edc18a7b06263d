"""How the process ends: with the exit code of its command, whatever happens until it is gone.

Once a command has ended, Python takes a while to tidy up. It gives up its signal handlers early on
the way, so that Ctrl-C would end the process by the signal, and it reports output that cannot be
flushed with a traceback. So the process flushes its output, runs what was registered for the exit,
and leaves.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

FAILED = 1
INTERRUPTED = 130


class _Interrupts:
    """The handler of SIGINT: an exception while a command runs, the exit code once it has ended."""

    ended = False

    def __call__(self, number: int, frame: object) -> None:
        if self.ended:
            os._exit(INTERRUPTED)
        raise KeyboardInterrupt


def run_and_leave(command: Callable[[], None]) -> NoReturn:
    """Run a command and end the process with its exit code."""
    interrupts = _Interrupts()
    # Where nobody is to interrupt, as after nohup, nobody may.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupts)
    code = INTERRUPTED
    try:
        code = _exit_code(command)
        interrupts.ended = True
        code = _flushed(code)
        _tidied()
    except KeyboardInterrupt:
        # It came between the command and the line after it.
        code = INTERRUPTED
    os._exit(code)


def _exit_code(command: Callable[[], None]) -> int:
    """Run the command; what it does not catch itself is about its output, or came before it."""
    try:
        command()
    except SystemExit as end:
        if isinstance(end.code, str):
            _complain(end.code)
            return FAILED
        return int(end.code or 0)
    except KeyboardInterrupt:
        _complain("bayespca: interrupted.")
        return INTERRUPTED
    except OSError as error:
        return _code_for(error)
    return 0


def _flushed(code: int) -> int:
    """The exit code, once all output is where it should be."""
    try:
        sys.stdout.flush()
    except OSError as error:
        code = code or _code_for(error)
    except (AttributeError, ValueError):  # there is no standard output, or it is closed
        pass
    return code


def _code_for(error: OSError) -> int:
    """Say why output cannot be written; who closes a pipe has seen enough."""
    if not isinstance(error, BrokenPipeError):
        _complain(f"bayespca: {unwritten(error)}")
    return FAILED


def unwritten(error: OSError) -> str:
    """A sentence on output that cannot be written."""
    return f"cannot write to standard output: {error.strerror or error}."


def _complain(sentence: str) -> None:
    with suppress(OSError):  # there may be nobody to complain to
        print(sentence, file=sys.stderr, flush=True)


def _tidied() -> None:
    """Wait for threads, and run what was registered for the exit, as Python does."""
    threading._shutdown()  # type: ignore[attr-defined]  # pools of threads end by it
    atexit._run_exitfuncs()
