"""Messages from Python in terms of the command line: `n_components=3` is `--n-components 3`."""

from __future__ import annotations

import re
from collections.abc import Mapping

# Options whose names are not those of the parameters with dashes.
OTHERWISE = {"random_state": "seed", "missing": "na"}
# Every option of every command, by the name of its parameter; filled as commands are declared.
OPTIONS: set[str] = set(OTHERWISE)
# Remedies in messages of `io`, with the options for them.
ASKED = {
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


def on_the_command_line(message: str) -> str:
    """A message with options as they are typed; names that are not options stay unchanged."""
    for words, option in ASKED.items():
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
