"""Paths, hosts and user names in the strings of a report: found in one place, removed
everywhere."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from traceanalyzer.base import regex
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.ingest.formats import SOURCES
from traceanalyzer.report.privacy.credentials import without_credentials
from traceanalyzer.report.privacy.disguised import undisguised
from traceanalyzer.report.privacy.identifiers import HOST, USER, without_identifiers
from traceanalyzer.report.privacy.places import (
    ACCOUNTS,
    ADDRESSES,
    BELOW_A_ROOT,
    BELOW_ANY_DOMAIN,
    HARDWARE,
    HOMES,
    HOST_LISTS,
    HOSTS,
    IN_NAMES,
    NAMED_HOSTS,
    NAMED_PERSONS,
    NO_HOST,
    NO_NAME,
    NO_PERSON,
    PATHS,
    PERSON,
    PLACED,
    QUOTED_PATH,
    RECORDER_HOST,
    RECORDINGS,
    SETTINGS,
    SOURCE_FILE,
    URLS,
    WITH_BLANKS,
    WITH_PORT,
)

FILE = "<path>"
MIN_NAME = 3
"""Shorter user and host names are not searched for outside paths: they are parts of ordinary
words."""

WORD = regex(r"[^\W_]+")
MOST_WORDS = 8
"""Parts of a host's name between dots, hyphens and underscores; what is longer is found by its
domain."""


@dataclass(frozen=True)
class Secrets:
    """What is to be removed from a report, and the aliases of its inputs in their order."""

    inputs: list[str]
    replacements: tuple[tuple[re.Pattern[str], str], ...]  # paths of inputs and their aliases
    names: Mapping[str, str] = field(
        default_factory=dict
    )  # users and hosts, in lower case, and what stands for them

    @classmethod
    def of(cls, inputs: Sequence[tuple[str, str]], texts: Iterable[str]) -> "Secrets":
        """The secrets in the inputs (path and kind of each) and in all the texts."""
        aliases = list[str]()
        literals = dict[str, str]()
        for n, (path, kind) in enumerate(inputs, 1):
            suffix = SOURCES[kind].suffix if kind in SOURCES else ""
            aliases.append(f"input-{n}{suffix}")
            literals |= dict.fromkeys((path, re.split(r"[/\\]", path)[-1]), aliases[-1])
        ordered = sorted(literals, key=len, reverse=True)
        replacements = tuple(
            (re.compile(re.escape(one)), literals[one]) for one in ordered if len(one) >= MIN_NAME
        )
        return cls(aliases, replacements, _names_in(texts))

    def clean(self, text: str) -> str:
        """A text without them. Input paths and names go last: they may be parts of longer paths."""
        text = without_identifiers(without_credentials(undisguised(text)))
        text = HOST_LISTS.sub(rf"\1\2{HOST}", text)
        text = NAMED_HOSTS.sub(HOST, SETTINGS.sub(_without_value, text))
        text = PLACED.sub(lambda m: m[0] if NO_HOST.fullmatch(m[2]) else m[1] + HOST, text)
        text = PERSON.sub(lambda m: m[0] if m[2] in NO_PERSON else m[1] + USER, text)
        for form in NAMED_PERSONS:
            text = form.sub(rf"\1{USER}", text)
        text = HARDWARE.sub(HOST, IN_NAMES.sub(_without_address, text))
        if any(mark in text for mark in "/\\@.:~"):
            for pattern, alias in self.replacements:
                if alias in self.inputs:
                    text = pattern.sub(alias, text)
            text = QUOTED_PATH.sub(_shorter_path, WITH_BLANKS.sub(FILE, text))
            text = PATHS.sub(_shorter_path, URLS.sub("<url>", text))
            text = BELOW_A_ROOT.sub(_shorter_path, text)
            text = ADDRESSES.sub(HOST, text)
            text = WITH_PORT.sub(lambda m: m[0] if NO_HOST.fullmatch(m[0]) else HOST, text)
            text = BELOW_ANY_DOMAIN.sub(HOST, text)
            text = HOSTS.sub(HOST, ACCOUNTS.sub(f"{USER}@{HOST}", text))
            text = RECORDINGS.sub(lambda m: m[0] if m[0] in self.inputs else FILE, text)
        for pattern, replacement in self.replacements:
            text = pattern.sub(replacement, text)
        return self._without_names(text) if self.names else text

    def _without_names(self, text: str) -> str:
        """The text without users and hosts: each word, and each few words in a row, is looked up,
        so that thousands of names take no longer than one. An underscore separates, too: recorders
        join host, process and time by it."""
        words = [match.span() for match in WORD.finditer(text)]
        parts = []
        done = 0
        i = 0
        while i < len(words):
            start = words[i][0]
            for n in range(min(MOST_WORDS, len(words) - i), 0, -1):
                alias = self.names.get(text[start : words[i + n - 1][1]].lower())
                if alias is not None:
                    parts += [text[done:start], alias]
                    done = words[i + n - 1][1]
                    i = i + n - 1
                    break
            i += 1
        return "".join([*parts, text[done:]])


def _add_names(text: str, users: set[str], hosts: set[str]) -> None:
    """Add the users and hosts that the text names as such."""
    for setting in filter(_is_name, SETTINGS.finditer(text)):
        (users if setting["user"] else hosts).add(setting["value"])
    users.update(HOMES.findall(text))
    hosts.update(RECORDER_HOST.findall(text))
    for user, host in ACCOUNTS.findall(text):
        users.add(user)
        hosts |= {host, host.split(".")[0]}


def _names_in(texts: Iterable[str]) -> dict[str, str]:
    """The users and hosts that the texts name, in lower case, and what stands for them."""
    users = set[str]()
    hosts = set[str]()
    for text in texts:
        _add_names(text, users, hosts)
    names = dict.fromkeys(map(_bare, hosts), HOST) | dict.fromkeys(map(_bare, users), USER)
    return {name: by for name, by in names.items() if len(name) >= MIN_NAME}


def _without_address(match: re.Match[str]) -> str:
    return f"{match[1] or ''}{HOST}"


def _is_name(setting: re.Match[str]) -> bool:
    """Whether it has the name of a user or a host. Of words in small letters, and before a blank,
    many are others."""
    name = setting["name"]
    sign = setting["sign"].strip()
    value = setting["value"]
    if NO_NAME.fullmatch(value) or "::" in value or value.lower() in NO_PERSON:
        return False
    if sign.startswith("=") or setting["json"] or setting["key"]:
        return True
    if sign:
        return not name.islower() or name in ("hostname", "username", "login")
    return name.isupper() and len(name) > len("HOST")


def _without_value(setting: re.Match[str]) -> str:
    hidden = f"{setting['name']}{setting['sign']}{USER if setting['user'] else HOST}"
    return hidden if _is_name(setting) else setting[0]


def _bare(name: str) -> str:
    """The name from its first to its last letter or digit, in lower case."""
    words = [match.span() for match in WORD.finditer(name)]
    return name[words[0][0] : words[-1][1]].lower() if words else ""


def _shorter_path(match: re.Match[str]) -> str:
    base = re.split(r"[/\\]", match[0])[-1]
    if not base and not match[0].strip("/\\."):
        return match[0]
    return base if SOURCE_FILE.fullmatch(base) else FILE
