"""Paths, hosts and user names in the strings of a report: found in one place, removed everywhere."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

USER, HOST, LINK, FILE = "<user>", "<host>", "<url>", "<path>"
SUFFIXES = {"kineto": ".json", "nsys": ".sqlite", "timing_log": ".log"}
MIN_NAME = 3
"""Shorter user and host names are not searched for outside paths: they are parts of ordinary words."""

URLS = re.compile(r"\b\w+://[^\s\"'<>|]+")
ACCOUNTS = re.compile(r"(?<![\w.+-])([\w.+-]+)@([A-Za-z0-9][\w.-]*)")
ADDRESSES = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b", re.I)
HOSTS = re.compile(
    r"(?<![\w.-])[\w-]+(?:\.[\w-]+)*"
    r"\.(?:com|net|org|edu|gov|io|ai|dev|cloud|local|lan|internal|intranet|corp|cluster)(?!\.?\w)"
)
HOMES = re.compile(r"(?:/home/|/Users/|[a-z]:[\\/]+Users[\\/]+|~)([^/\\\s\"'<>|:,;()]+)", re.I)
RECORDER_HOST = re.compile(r"(?:^|[/\\])([^/\\]+?)_\d+\.\d+\.pt\.trace\.json")
"""PyTorch's TensorBoard handler names its files HOST_PID.TIME.pt.trace.json."""
PATHS = re.compile(
    r"(?<![\w/\\])(?:~[\w.-]*|\.{1,2}|[A-Za-z]:)?(?:[/\\]+(?:[^\s/\\\"'<>|:][^/\\\n\"'<>|:]*(?=[/\\])|[^\s/\\\"'<>|:;,()]*))+"
    r"|(?<![\w/\\.~-])(?:[\w.~-]+[/\\])+[\w.~-]*\.\w+"
)
"""An absolute path, inner segments with blanks included; or a relative one that ends in a name with a suffix."""
SOURCE_FILE = re.compile(r"[\w.-]+\.(?:py|pyx|c|cc|cpp|cxx|cu|cuh|h|hpp)")
"""Files whose base names stay: they are the places in the code that the report is about."""
RECORDINGS = re.compile(r"(?<![\w.-])[\w.-]+\.(?:json|gz|zst|sqlite|db|nsys-rep|qdrep|csv|jsonl|log|txt)\b")
"""Names of recordings often hold a host or a user."""


@dataclass(frozen=True)
class Secrets:
    """What is to be removed from a report, and the aliases of its inputs in their order."""

    inputs: list[str]
    replacements: tuple[tuple[re.Pattern[str], str], ...]

    @classmethod
    def of(cls, inputs: Sequence[tuple[str, str]], texts: Iterable[str]) -> Secrets:
        """The secrets in the inputs (path and kind of each) and in all the texts."""
        users: set[str] = set()
        hosts: set[str] = set()
        for text in texts:
            users.update(HOMES.findall(text))
            hosts.update(RECORDER_HOST.findall(text))
            for user, host in ACCOUNTS.findall(text):
                users.add(user)
                hosts |= {host, host.split(".")[0]}
        aliases = [f"input-{n}{SUFFIXES.get(kind, '')}" for n, (_, kind) in enumerate(inputs, 1)]
        literals: dict[str, str] = {}
        for (path, _), alias in zip(inputs, aliases, strict=True):
            literals |= {path: alias, re.split(r"[/\\]", path)[-1]: alias}
        ordered = sorted((path for path in literals if len(path) >= MIN_NAME), key=len, reverse=True)
        return cls(
            aliases,
            (
                *((re.compile(re.escape(path)), literals[path]) for path in ordered),
                *((_word(name), USER) for name in users if len(name) >= MIN_NAME),
                *((_word(name), HOST) for name in hosts if len(name) >= MIN_NAME),
            ),
        )

    def clean(self, text: str) -> str:
        """A text without them. Input paths and names go last: they may be parts of longer paths."""
        if any(mark in text for mark in "/\\@.:~"):
            for pattern, alias in self.replacements:
                if alias in self.inputs:
                    text = pattern.sub(alias, text)
            text = URLS.sub(LINK, text)
            text = PATHS.sub(_shorter_path, text)
            text = ACCOUNTS.sub(f"{USER}@{HOST}", text)
            text = ADDRESSES.sub(HOST, text)
            text = HOSTS.sub(HOST, text)
            text = RECORDINGS.sub(lambda m: m[0] if m[0] in self.inputs else FILE, text)
        for pattern, replacement in self.replacements:
            text = pattern.sub(replacement, text)
        return text


def _word(name: str) -> re.Pattern[str]:
    # An underscore separates, too: recorders join host, process and time by it.
    return re.compile(rf"(?<![A-Za-z0-9]){re.escape(name)}(?![A-Za-z0-9])", re.IGNORECASE)


def _shorter_path(match: re.Match[str]) -> str:
    base = re.split(r"[/\\]", match[0])[-1]
    if not base and not match[0].strip("/\\."):
        return match[0]
    return base if SOURCE_FILE.fullmatch(base) else FILE
