"""The end of the process, with the exit code of its command whatever happens on the way.

After a command, Python takes a while to shut down. It removes its signal handlers early, so that
Ctrl-C would kill the process by the signal, and it shows a traceback for output that cannot be
flushed. Therefore the process flushes its output, runs the registered exit functions, and exits.
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
    """Handler of SIGINT: raises while a command runs, and exits once it has ended."""

    ended = False

    def __call__(self, number: int, frame: object) -> None:
        if self.ended:
            os._exit(INTERRUPTED)
        raise KeyboardInterrupt


def run_and_exit(command: Callable[[], None]) -> NoReturn:
    """Run a command and end the process with its exit code."""
    interrupts = _Interrupts()
    # If SIGINT is ignored, as after nohup, it stays ignored.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupts)
    code = INTERRUPTED
    try:
        code = _exit_code(command)
        interrupts.ended = True
        try:
            sys.stdout.flush()
        except OSError as error:
            code = code or _code_for(error)
        except (AttributeError, ValueError):  # standard output does not exist or is closed
            pass
        # As Python does: wait for threads and pools of threads, and run the exit functions.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
    except KeyboardInterrupt:
        # The signal came between the end of the command and the next line.
        code = INTERRUPTED
    os._exit(code)


def _exit_code(command: Callable[[], None]) -> int:
    """Run the command and return its exit code.

    Errors that it does not catch itself concern its output, or came before it.
    """
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


def _code_for(error: OSError) -> int:
    """Say why output cannot be written, unless the reader closed the pipe; return the exit code."""
    if not isinstance(error, BrokenPipeError):
        _complain(f"bayespca: {unwritten(error)}")
    return FAILED


def unwritten(error: OSError) -> str:
    """A sentence on output that cannot be written."""
    return f"cannot write to standard output: {error.strerror or error}."


def _complain(sentence: str) -> None:
    with suppress(OSError):  # standard error may be closed
        print(sentence, file=sys.stderr, flush=True)
