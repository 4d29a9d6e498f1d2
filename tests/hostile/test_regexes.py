# ruff: noqa: E501, SIM905 lists of words
"""No regular expression of the program takes the square of a long text, whatever is repeated in
it."""

from __future__ import annotations

import importlib
import pkgutil
import re
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import traceanalyzer
from traceanalyzer.base.patterns import Regex

if TYPE_CHECKING:
    from types import FrameType

UNITS = (
    "a",
    "A",
    "1",
    " ",
    "/",
    "a/",
    "::",
    "a::",
    "(",
    "<",
    "\\",
    '\\"',
    ",",
    ':"',
    "1,",
    ".",
    "-",
    "_",
    "a.",
    "a-",
    "a_",
    '"',
    '": "',
    "}",
    "} ",
    "},{",
    "]",
    "=",
    "a=",
    "@",
    "a@",
    "~",
    "|",
    "%",
    "\n",
    "a ",
    "1:",
    "fe:",
    "1.",
    "step: ",
    "iter ",
    "#",
    ">",
    "'",
    "x=",
    "--a",
    "A_KEY",
    "Bearer ",
    "sk-",
    ", sizes = [",
    ", seq = 1",
    "/home/",
    "http://",
    "1e",
    "f16",
    "tile",
    "128x",
    "-> ",
    "rank1",
)
AROUND = (("", "\0!"), (': "', ""))
"""What stands before and after: an end that no pattern takes, and what a value follows."""
LENGTH = 5_000
"""Characters: read in a few milliseconds, while the square of it takes a good part of a second for
each text."""
LEFT_ALONE = (".collect.", ".integrations.", "__main__", "sitecustomize", "self_test")
"""Those read what this program, or the user's own, wrote."""
MATCHED_WHOLE = frozenset(
    "runs.REFERENCE chunks._EMPTY nvtx_names._OPERATOR special._PHASES special.MICRO_PHASES culprit.FRAME github.SHORT escape.SAFE_CELL "
    "secrets.SOURCE_FILE breaks._EXPECTED explained._NODE nvtx_names._AUTOGRAD special._ANY_BAR "
    "tables._QUANTITY tensors._NO_NUMBER key_averages._WHOLE ncu._HEAD".split()
)
"""Asked about a text from its beginning (`match`, `fullmatch`) and never searched for in one. By
module and name."""
SHORT_TEXTS = frozenset(
    ("health._PRIVATE", "breaks._EXPECTED", "breaks._WHERE", "frames._SOURCE", "capture._RANK")
)
"""Asked about texts of at most 2,000 characters."""
MOST_WORDS = 8  # of a pattern that are tried
PATIENCE_S = 2
"""Of the process's own time, for all texts of a pattern: a guard against those that do not end."""


def found(value, depth=0):
    if isinstance(value, Regex):
        yield value.compiled
    elif isinstance(value, re.Pattern):
        yield value
    elif depth < 4 and isinstance(value, list | tuple):
        for item in value:
            yield from found(item, depth + 1)
    elif depth < 4 and isinstance(value, dict):
        yield from found(list(value.values()), depth + 1)


def places():
    for module in pkgutil.walk_packages(traceanalyzer.__path__, "traceanalyzer."):
        if not any(part in module.name for part in LEFT_ALONE):
            for name, value in vars(importlib.import_module(module.name)).items():
                place = f"{module.name.rpartition('.')[2]}.{name}"
                yield from ((place, i, pattern) for i, pattern in enumerate(found(value)))


def patterns():
    for place, i, pattern in places():
        if place not in SHORT_TEXTS:
            yield pytest.param(pattern, place in MATCHED_WHOLE, id=f"{place}.{i}")


def test_exceptions_are_patterns_of_the_package() -> None:
    assert (MATCHED_WHOLE | SHORT_TEXTS) - {place for place, _, _ in places()} == set()


def search(pattern, text, whole):
    data = text.encode() if isinstance(pattern.pattern, bytes) else text
    if whole:
        pattern.match(data)
        pattern.fullmatch(data)
    else:
        for _ in pattern.finditer(data):
            pass


def words_of(pattern):
    """What stands in a pattern as it is in the text: beginnings of what it finds."""
    source = pattern.pattern
    source = source.decode("latin-1") if isinstance(source, bytes) else source
    plain = re.sub(r"\\[A-Za-z]|\?P?<\w+>|\{[\d,]+\}|\[[^\]]*\]", "\n", source)
    found = re.findall(r"(?:\\\W|[\w ,:%/-])+", plain)
    return [word for word in (one.replace("\\", "") for one in found) if len(word) > 1][:MOST_WORDS]


def texts_of(pattern):
    """Texts that begin as what a pattern finds and do not end, and those that begin again and
    again."""
    words = words_of(pattern)
    for word in words:
        for unit in (" ", f"{word} "):
            yield word + unit * (LENGTH // len(unit)) + "\0!"
    begun = " ".join(words[:-1])
    if begun:
        yield f"{begun} " * (LENGTH // len(begun)) + "\0!"


def never(_: int, __: FrameType | None) -> None:
    raise AssertionError("does not end")


@contextmanager
def that_ends():
    """Fail where the block takes more of the process's own time than anything that ends."""
    signal.signal(signal.SIGVTALRM, never)
    signal.setitimer(signal.ITIMER_VIRTUAL, PATIENCE_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


@pytest.mark.parametrize(("pattern", "whole"), list({p.values[0]: p for p in patterns()}.values()))
def test_no_pattern_takes_the_square(pattern, whole):
    with that_ends():
        for unit in UNITS:
            for before, after in AROUND:
                search(pattern, before + unit * (LENGTH // len(unit)) + after, whole)


@pytest.mark.parametrize(("pattern", "whole"), list({p.values[0]: p for p in patterns()}.values()))
def test_no_pattern_takes_the_square_of_what_begins_as_it_does(pattern, whole):
    with that_ends():
        for text in texts_of(pattern):
            search(pattern, text, whole)
