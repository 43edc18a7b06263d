"""A headless Chromium, controlled over a pair of pipes with the DevTools protocol.

It needs only the browser itself: no driver program and no other package.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 60.0


def find() -> str | None:
    """The path of Chromium or Chrome, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class BrowserError(RuntimeError):
    """The browser refused a command, or did not answer."""


class Browser:
    """One running browser; `call` sends a command and waits for its answer."""

    def __init__(self, program: str, profile: Path) -> None:
        # The browser reads commands from descriptor 3 and writes answers to 4. Ours are moved
        # out of the way first, so that the copies onto 3 and 4 cannot overwrite them.
        commands, answers = os.pipe(), os.pipe()
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in (*commands, *answers)]
        for end in (*commands, *answers):
            os.close(end)
        read_commands, self._to, self._from, write_answers = ends

        quiet = [(os.POSIX_SPAWN_OPEN, end, os.devnull, os.O_RDWR, 0) for end in (0, 1, 2)]
        self._process = os.posix_spawn(
            program,
            [program, *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
            os.environ,
            file_actions=[
                *quiet,
                (os.POSIX_SPAWN_DUP2, read_commands, 3),
                (os.POSIX_SPAWN_DUP2, write_answers, 4),
            ],
        )
        os.close(read_commands)
        os.close(write_answers)
        self._number, self._buffer = 0, b""
        self.events: list[dict[str, Any]] = []

    def call(self, method: str, session: str | None = None, **params: Any) -> dict[str, Any]:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._read(deadline)
            if answer.get("id") != self._number:
                self.events.append(answer)
            elif "error" in answer:
                raise BrowserError(f"{method}: {answer['error']['message']}")
            else:
                return answer["result"]

    def _read(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._from], [], [], left)[0]:
                raise BrowserError(f"no answer from the browser in {PATIENCE:.0f} s")
            data = os.read(self._from, 1 << 20)
            if not data:
                raise BrowserError("the browser ended")
            self._buffer += data
        text, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(text)

    def close(self) -> None:
        with contextlib.suppress(BrowserError, OSError):
            self.call("Browser.close")
        os.close(self._to)
        os.close(self._from)
        deadline = time.monotonic() + 10
        while os.waitpid(self._process, os.WNOHANG)[0] == 0:
            if time.monotonic() > deadline:
                os.kill(self._process, signal.SIGKILL)
            time.sleep(0.02)


class Page:
    """One tab, with everything it complained about or requested from the network."""

    def __init__(
        self, browser: Browser, *, width: int = 1200, height: int = 900, dark: bool = False
    ) -> None:
        self._browser, self._first = browser, len(browser.events)
        self._opened: set[str] = set()
        self._target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.call("Target.attachToTarget", targetId=self._target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.look(width, height, dark=dark)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.call(method, self._session, **params)

    def look(self, width: int, height: int = 900, *, dark: bool = False) -> None:
        """Set the size of the window and the preferred colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path, *, until: str) -> None:
        """Open a file, and wait until the expression `until` is true in the page."""
        self._opened.add(path.resolve().as_uri())
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait(
            f"location.protocol === 'file:' && document.readyState === 'complete' && ({until})"
        )

    def wait(self, expression: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not self.run(expression):
            if time.monotonic() > deadline:
                raise BrowserError(f"never true: {expression}; {self.complaints()}")
            time.sleep(0.05)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise BrowserError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def point_at(self, x: float, y: float) -> None:
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key: str, code: int, text: str = "") -> None:
        """Press and release a key."""
        key_of = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **key_of)
        self.call("Input.dispatchKeyEvent", type="keyUp", **key_of)

    def screenshot(self, path: Path) -> None:
        """Save an image of the whole page, not only of the part in the window."""
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def pdf(self, path: Path) -> None:
        answer = self.call("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)
        path.write_bytes(base64.b64decode(answer["data"]))

    def complaints(self) -> list[str]:
        """Errors and warnings on the console, and exceptions that nothing caught."""
        found = []
        for event in self._events():
            params = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif event["method"] == "Runtime.consoleAPICalled":
                if params["type"] in ("error", "warning", "assert"):
                    found.append(str([item.get("value") for item in params["args"]]))
            elif event["method"] == "Log.entryAdded":
                found.append(str(params["entry"]))
        return found

    def requests(self) -> list[str]:
        """Requested addresses, without the opened files and embedded data."""
        asked = [
            event["params"]["request"]["url"]
            for event in self._events()
            if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if not url.startswith("data:") and url not in self._opened]

    def _events(self) -> Iterator[dict[str, Any]]:
        self.call("Runtime.evaluate", expression="0")
        for event in self._browser.events[self._first :]:
            if event.get("sessionId") == self._session:
                yield event

    def close(self) -> None:
        self._browser.call("Target.closeTarget", targetId=self._target)
