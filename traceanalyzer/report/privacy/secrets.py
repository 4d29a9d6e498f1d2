"""Paths, hosts and user names in the strings of a report: found in one place, removed
everywhere."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from traceanalyzer.base.frozen import dataclass
from traceanalyzer.ingest.formats import SOURCES
from traceanalyzer.report.privacy.credentials import without_credentials

USER = "<user>"
HOST = "<host>"
FILE = "<path>"
MIN_NAME = 3
"""Shorter user and host names are not searched for outside paths: they are parts of ordinary
words."""

URLS = re.compile(r"\b\w+://[^\s\"'<>|]+")
ACCOUNTS = re.compile(r"(?<![\w.+-])([\w.+-]+)@([A-Za-z0-9][\w.-]*)")
ADDRESSES = re.compile(
    r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])|\b(?:[0-9a-f]{1,4}:){4,7}[0-9a-f]{1,4}\b"
    r"|(?<![\w:])(?:fe[89ab][0-9a-f]|f[cd][0-9a-f]{2}|2[0-9a-f]{3}|64:ff9b)(?::{1,2}[0-9a-f]{1,4}){1,7}(?:::)?(?:%\w+)?"
    r"(?![\w:])",
    re.I,
)
"""IPv4, IPv6 in full, and the short forms of those IPv6 addresses that hosts have: others look like
C++ names."""
SETTINGS = re.compile(
    r"(?<![A-Za-z0-9_])(?P<name>(?P<user>(?i:user[_ ]?name|user[_ ]?id|user|logname|login|uid)|SUDO_USER|SLURM_JOB_USER"
    r"|USERPROFILE|\w{0,40}_USER)"
    r"|(?i:host[_ ]?name|host|computer[_ ]?name|node_?name|master_?addr|master_?host)|SLURMD_NODENAME"
    r"|SLURM_\w{0,30}?NODE\w{0,20}|\w{0,40}_HOST|\w{0,40}_HOSTNAME|\w{0,40}_ADDR)"
    r"(?P<sign>\s?=\s?[\"']?|\s?:\s?[\"']?|[ ])"
    r"(?P<value>[^\s\"',;<>()=]{1,255}+)"
)
"""Settings of an environment whose value is a user or a host."""
NO_NAME = re.compile(
    r"(?i:0x[\da-f]+|[\d.,%+-]+\w{0,2}|true|false|none|null|nan|any|all|cpu|gpu|cuda|device|pinned|pageable)"
)
"""Values of such settings that name neither."""
NAMED_HOSTS = re.compile(
    r"(?<![\w.-])(?:DESKTOP|LAPTOP|WIN)-[A-Z0-9]{3,15}(?![\w-])|(?<![\w.-])ip-\d{1,3}-\d{1,3}-\d{1,3}-\d{1,3}(?!\w)"
)
"""Names that Windows and clouds give."""
PLACED = re.compile(
    r"\b((?i:on|at|from|host|hostname|node|server|machine)[ =:]\s?)(?=[a-z])([a-z-]{2,30}\d[\w-]{0,40})(?![\w.(:/%])"
)
"""A name with a number after a word that a host stands after. Those of devices, streams and types
are left."""
NO_HOST = re.compile(
    r"(?:cuda|gpu|gpus|device|stream|rank|step|thread|worker|input|sm|tf|fp|bf|int|uint|float|bfloat|bit|aten|nccl|gemm|"
    r"cudnn|python|libcu\w*|page|layer|block|core|cpu|numa|stage|level|pid|tid|kernel|name)[_-]?\d[\w-]*"
)
PERSON = re.compile(
    r"\b((?:[Uu]ser|USER|login|account|owner)[ :]\s?)([a-z][a-z0-9_-]{2,31})(?![\w(:/.])"
)
NO_PERSON = {
    "and",
    "annotation",
    "annotations",
    "are",
    "asked",
    "can",
    "cannot",
    "code",
    "data",
    "default",
    "defined",
    "does",
    "event",
    "events",
    "for",
    "from",
    "function",
    "functions",
    "gives",
    "group",
    "had",
    "has",
    "have",
    "hook",
    "hooks",
    "id",
    "input",
    "interface",
    "is",
    "kernel",
    "library",
    "marked",
    "mode",
    "name",
    "named",
    "names",
    "of",
    "or",
    "output",
    "process",
    "program",
    "range",
    "ranges",
    "said",
    "says",
    "script",
    "space",
    "stack",
    "step",
    "steps",
    "that",
    "the",
    "time",
    "was",
    "with",
}
"""Words that follow `user` where it is not a name."""
HOSTS = re.compile(
    r"(?<![\w.-])[\w-]+(?:\.[\w-]+)*"
    r"\.(?:com|net|org|edu|gov|io|ai|dev|cloud|local|lan|internal|intranet|corp|cluster)(?!\.?\w)"
)
HOMES = re.compile(r"(?:/home/|/Users/|[a-z]:[\\/]+Users[\\/]+|~)([^/\\\s\"'<>|:,;()]+)", re.I)
RECORDER_HOST = re.compile(
    r"(?:^|[/\\])([^/\\]+?)_\d+\.\d+\.pt\.trace\.json"
)  # PyTorch's HOST_PID.TIME.pt.trace.json
PATHS = re.compile(
    r"(?<![\w/\\])(?:~[\w.-]*|\.{1,2}|[A-Za-z]:)?(?:[/\\]+(?:[^\s/\\\"'<>|:][^/\\\n\"'<>|:]*(?=[/\\])|[^\s/\\\"'<>|:;,()]*))+"
    r"|(?<![\w/\\.~-])(?:[\w.~-]+[/\\])+[\w.~-]*\.\w+"
)
"""An absolute path, inner segments with blanks included; or a relative one that ends in a name with
a suffix."""
SOURCE_FILE = re.compile(r"[\w.-]+\.(?:py|pyx|c|cc|cpp|cxx|cu|cuh|h|hpp)")
"""Files whose base names stay: they are the places in the code that the report is about."""
RECORDINGS = re.compile(
    r"(?<![\w.-])[\w.-]+\.(?:json|gz|zst|sqlite|db|pftrace|pb|nsys-rep|qdrep|csv|jsonl|log|txt)\b"
)
"""Names of recordings often hold a host or a user."""
WORD = re.compile(r"[^\W_]+")
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
        users = set[str]()
        hosts = set[str]()
        for text in texts:
            for setting in filter(_is_name, SETTINGS.finditer(text)):
                (users if setting["user"] else hosts).add(setting["value"])
            users.update(HOMES.findall(text))
            hosts.update(RECORDER_HOST.findall(text))
            for user, host in ACCOUNTS.findall(text):
                users.add(user)
                hosts |= {host, host.split(".")[0]}
        aliases = list[str]()
        literals = dict[str, str]()
        for n, (path, kind) in enumerate(inputs, 1):
            suffix = SOURCES[kind].suffix if kind in SOURCES else ""
            aliases.append(f"input-{n}{suffix}")
            literals |= dict.fromkeys((path, re.split(r"[/\\]", path)[-1]), aliases[-1])
        ordered = sorted(literals, key=len, reverse=True)
        names = dict.fromkeys(map(_bare, hosts), HOST) | dict.fromkeys(map(_bare, users), USER)
        replacements = tuple(
            (re.compile(re.escape(one)), literals[one]) for one in ordered if len(one) >= MIN_NAME
        )
        return cls(
            aliases, replacements, {name: by for name, by in names.items() if len(name) >= MIN_NAME}
        )

    def clean(self, text: str) -> str:
        """A text without them. Input paths and names go last: they may be parts of longer paths."""
        text = NAMED_HOSTS.sub(HOST, SETTINGS.sub(_without_value, without_credentials(text)))
        text = PLACED.sub(
            lambda m: m[0] if NO_HOST.fullmatch(m[2]) else m[1] + HOST,
            text,
        )
        text = PERSON.sub(
            lambda m: m[0] if m[2] in NO_PERSON else m[1] + USER,
            text,
        )
        if any(mark in text for mark in "/\\@.:~"):
            for pattern, alias in self.replacements:
                if alias in self.inputs:
                    text = pattern.sub(alias, text)
            text = PATHS.sub(_shorter_path, URLS.sub("<url>", text))
            text = HOSTS.sub(HOST, ADDRESSES.sub(HOST, ACCOUNTS.sub(f"{USER}@{HOST}", text)))
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


def _is_name(setting: re.Match[str]) -> bool:
    """Whether it has the name of a user or a host. Of words in small letters, and before a blank,
    many are others."""
    name = setting["name"]
    sign = setting["sign"].strip()
    value = setting["value"]
    if NO_NAME.fullmatch(value) or "::" in value or value.lower() in NO_PERSON:
        return False
    if sign.startswith("="):
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
