"""Reading a page as a browser would: its tags, its text, and the data inside it."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from typing import Any

INLINE = {"b", "i", "small", "span"}
VOID = {"meta", "link", "input", "br"}


class Reader(HTMLParser):
    """Collects tags, text outside scripts, and the contents of scripts; checks the nesting."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: dict[str | None, str] = {}
        self._id: str | None = None
        self.feed(page)
        self.close()
        assert self.open == [], f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self._id = dict(attrs).get("id")
            assert self._id not in self.scripts, "an unexpected script"
            self.scripts[self._id] = ""

    def handle_endtag(self, tag: str) -> None:
        self.text += "" if tag in INLINE else " "
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, f"</{tag}> closes another tag"

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[self._id] += data
        elif "style" not in self.open:
            self.text += data

    @property
    def words(self) -> str:
        """The text with single spaces."""
        return " ".join(self.text.split())

    @property
    def data(self) -> dict[str, Any]:
        """The data behind the figures."""
        return json.loads(self.scripts["data"], parse_constant=_no_constant)

    def ids(self) -> set[str | None]:
        return {attributes.get("id") for _, attributes in self.tags}


def _no_constant(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")
