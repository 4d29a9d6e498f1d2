"""The formats that can be read, in the order in which they are asked."""

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol, cast

from traceanalyzer.base import UnreadableInputError, dataclass
from traceanalyzer.base.files import may_read
from traceanalyzer.ingest.foreign import what_it_is
from traceanalyzer.ingest.stream import cannot_open, head_of
from traceanalyzer.trace import Trace


@dataclass(frozen=True)
class Abilities:
    """What a format of recordings can and cannot tell, and how it is recorded: in words for a
    table; Markdown."""

    name: str  # what the files are
    tells: str
    cannot: str  # what they never hold, so that it is `null` in every report on them
    record: str  # how to make one


class Format(Protocol):
    """A kind of recording: one module."""

    ABILITIES: Abilities  # what such recordings tell

    def recognise(self, head: bytes, path: Path) -> bool:
        """Whether the file is of this kind. `head`: its first bytes, decompressed."""

    def read(self, path: Path, progress: Callable[[float], None] | None = None) -> list[Trace]:
        """A trace for each process recorded; `progress` is called with the share done, 0 to 1."""


FORMATS = (
    "kineto",
    "pftrace",
    "xplane",
    "unitrace",
    "proton",
    "rocm",
    "nsys",
    "memory",
    "torch_log",
    "timing",
    "key_averages",
)
"""Packages and modules of this one, each imported when those before it did not recognise a file,
and not sooner."""
COMPANIONS = ("memory", "torch_log")
"""Looked for in a folder that holds nothing else: in a capture they lie beside the recording that
they go with."""
NAMED_ALONE = ("key_averages", *COMPANIONS)
"""Read where the file itself is named: in a folder it lies beside the recording that it was printed
from."""


def formats(pattern: str | None = None) -> Iterator[Format]:
    """Every format, in order; with a `pattern` for the lines of a timing log that comes before the
    known ones."""
    for name in FORMATS:
        module = importlib.import_module(f"traceanalyzer.ingest.{name}")
        if name == "timing" and pattern is not None:
            yield module.PatternLog(pattern)
        yield cast("Format", module)


def detect(path: Path, pattern: str | None = None) -> Format:
    """The format of a file, from its content. Raises UnreadableInputError (missing, empty, of no
    known kind)."""
    try:
        size = may_read(path).stat().st_size
    except OSError as error:
        raise cannot_open(path, error) from error
    if not size:
        raise UnreadableInputError(f"{path}: the file is empty; record or export it again")
    head = head_of(path)
    for candidate in formats(pattern):
        if candidate.recognise(head, path):
            return candidate
    with path.open("rb") as file:
        raise UnreadableInputError(f"{path}: {what_it_is(path, head, file.read(64))}")


def is_recording(path: Path, pattern: str | None = None) -> bool:
    """Whether the file is of a format that is looked for in folders."""
    return _name_of(path, pattern) not in ("", *NAMED_ALONE)


def is_companion(path: Path) -> bool:
    """Whether the file is a memory snapshot or a log of torch.compile."""
    return _name_of(path) in COMPANIONS


def _name_of(path: Path, pattern: str | None = None) -> str:
    """What reads the file; empty where nothing does, or another file in its folder holds the
    same."""
    try:
        found = detect(path, pattern)
    except UnreadableInputError:
        return ""
    repeats = getattr(found, "repeats", None)
    return (
        ""
        if repeats and repeats(path)
        else getattr(found, "__name__", "pattern").rpartition(".")[2]
    )
