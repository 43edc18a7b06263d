"""Check a folder of HTML pages: links, anchors, loaded files, and their look in a browser.

usage: python tests/pages/walk.py build/site

Prints the faults, and exits with code 1 if there are any. Without Chromium it reads the files but
does not open the pages.
"""

from __future__ import annotations

import re
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from report import browser

# Attributes that make a page load something, as opposed to links that a reader follows.
LOADING = {
    ("script", "src"),
    ("img", "src"),
    ("source", "src"),
    ("iframe", "src"),
    ("link", "href"),
}
# Relations of <link> that load nothing.
NAMING = {
    "canonical",
    "index",
    "search",
    "next",
    "prev",
    "author",
    "help",
    "copyright",
    "top",
    "up",
}
PHONE = 400
LOADED = "document.readyState === 'complete'"
FORMULAS = "document.querySelectorAll('.math').length"
DRAWN = (
    f"{FORMULAS} === 0 || document.querySelectorAll('mjx-container').length >= {FORMULAS} "
    "&& document.querySelectorAll('mjx-merror, [data-mjx-error]').length === 0"
)
# Words to search the site for, and the page that the search must find.
SEARCHES = {"centring": "theory", "GeneralizedPCA": "GeneralizedPCA"}


@dataclass
class Page(HTMLParser):
    """The links, loads and anchors of one page."""

    path: Path
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.anchors.update(found[name] for name in ("id", "name") if name in found)
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        loading = (found[name] for kind, name in LOADING if kind == tag and name in found)
        if not (tag == "link" and set(found.get("rel", "").split()) & NAMING):
            self.loads += loading


def pages_of(site: Path) -> list[Path]:
    """The pages of a site, without the theme's files in _static."""
    return [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]


def faults_of_files(site: Path) -> list[str]:
    """Broken links and anchors, and everything that pages would load from other sites."""
    pages = {path: Page(path) for path in pages_of(site)}
    if not pages:
        return [f"{site}: there are no pages"]
    faults = []
    for page in pages.values():
        name = page.path.relative_to(site)
        for address in (*page.links, *page.loads):
            if why := _fault(address, page, pages, site):
                faults.append(f"{name}: {address}: {why}")
        faults += [
            f"{name}: {address}: loaded from elsewhere"
            for address in page.loads
            if urlsplit(address).scheme not in ("", "data") or address.startswith("//")
        ]
    return faults + list(_faults_of_styles(site))


def _fault(address: str, page: Page, pages: dict[Path, Page], site: Path) -> str | None:
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None
    target = (page.path.parent / unquote(parts.path)).resolve() if parts.path else page.path
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(site):
        return "outside of the site"
    if not target.exists():
        return "no such file"
    fragment = unquote(parts.fragment)
    if fragment and target in pages and fragment not in pages[target].anchors:
        return "no such anchor"
    return None


def _faults_of_styles(site: Path) -> Iterator[str]:
    for path in sorted(site.rglob("*.css")):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        for address in re.findall(
            r"""(?:url\(|@import\s)\s*["']?((?:https?:)?//[^"')\s]+)""", text
        ):
            yield f"{path.relative_to(site)}: {address}: loaded from elsewhere"


@contextmanager
def served(site: Path) -> Iterator[str]:
    """Serve the folder on localhost, and yield its address."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def _open(page: browser.Page, address: str, until: str = "true") -> None:
    page.call("Page.navigate", url=address)
    page.wait(f"location.href.startsWith({address!r}) && {LOADED} && ({until})")


def _faults_in_sight(running: browser.Browser, root: str, name: str) -> list[str]:
    """Complaints of a page, its requests to other sites, and its width if too wide for a phone."""
    page = browser.Page(running, width=PHONE)
    try:
        _open(page, f"{root}/{name}", DRAWN)
        width = page.run("document.documentElement.scrollWidth")
        wide = [f"{width} px wide on a phone of {PHONE}"] if width > PHONE else []
        elsewhere = [url for url in page.requests() if not url.startswith(root)]
        return [f"{name}: {what}" for what in (*page.complaints(), *elsewhere, *wide)]
    except browser.BrowserError as error:
        return [f"{name}: {error}"]
    finally:
        page.close()


def _faults_of_search(running: browser.Browser, root: str, words: str, expected: str) -> list[str]:
    page = browser.Page(running)
    answers = "[...document.querySelectorAll('#search-results a')]"
    found = f"{answers}.some(a => a.href.includes({expected!r}))"
    try:
        _open(page, f"{root}/search.html?q={words}", found)
        return [f"search for {words}: {what}" for what in page.complaints()]
    except browser.BrowserError as error:
        return [f"search for {words}: {expected} is not found ({error})"]
    finally:
        page.close()


def faults_in_browser(site: Path, program: str) -> list[str]:
    """Faults that Chromium finds page by page, and in the search if the site has one."""
    names = [path.relative_to(site).as_posix() for path in pages_of(site)]
    searches = SEARCHES if (site / "search.html").exists() else {}
    with tempfile.TemporaryDirectory() as profile, served(site) as root:
        running = browser.Browser(program, Path(profile))
        try:
            faults = [fault for name in names for fault in _faults_in_sight(running, root, name)]
            for words, expected in searches.items():
                faults += _faults_of_search(running, root, words, expected)
            return faults
        finally:
            running.close()


def main(folder: str) -> int:
    site = Path(folder).resolve()
    faults = faults_of_files(site)
    program = browser.find()
    if program is None:
        print("There is no Chromium: pages were read, but not opened.")
    else:
        faults += faults_in_browser(site, program)
    for fault in faults:
        print(fault)
    print(f"{folder}: {len(pages_of(site))} pages, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
