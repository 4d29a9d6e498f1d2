"""No regular expression of the program takes the square of a text that its own parse suggests: what
it repeats, many times, with an end that it cannot take."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import pkgutil
import re
import signal
import time
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import traceanalyzer
from tests.hostile.attacks import Attacks
from traceanalyzer.base.patterns import Regex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LEFT_ALONE = (".collect.", ".integrations.", "__main__", "sitecustomize", "self_test")
"""Those read what this program, or the user's own, wrote."""
MEANT = {
    "analysis.names.kernel_names._SAYS_NOTHING": "words of a name's first 1,000 characters",
    "ingest.capture._RANK": "names of files",
    "ingest.nsys.health._PRIVATE": "50 messages of 1,000 characters",
    "ingest.timing.pairs._OF_TOTAL": "a part of a line that is bounded",
    "ingest.timing.printed._SIZE_FIRST": "a line's first 1,024 characters",
    "report.privacy.named_values._VALUE": "asked at one place, of 4,096 characters",
}
"""Patterns that may take the square of what is never long, with the reason."""
TRIED, SHORT, LONG = 1_000, 2_000, 8_000  # characters
QUICK_S = 0.01
"""Of the process's own time for `TRIED` characters: what takes less is left alone, five times what the
slowest pattern of bounded names takes on two quiet cores, so that a busy machine decides nothing."""
SQUARE = 8.0  # times as long for four times the text: in proportion it is 4, for the square 16
LEAST_S = 0.0025  # for `SHORT`: below it a busy machine decides
CONFIRMED = 3  # times in a row
PATIENCE_S = 10.0  # by the clock on the wall, whatever else the machine does
END = "\0!"


SEARCH = re.compile(r"\bre\.(?!compile|escape)\w+\(")


class TooLongError(Exception):
    """A pattern does not come to an end."""


def found(value: object, depth: int = 0) -> Iterator[re.Pattern[Any]]:
    """The patterns that a value of a module holds."""
    if isinstance(value, Regex):
        yield value.compiled
    elif isinstance(value, re.Pattern):
        yield value
    elif depth < 5:
        held: list[object] = []
        if isinstance(value, list | tuple | set | frozenset):
            held = list(value)
        elif isinstance(value, Mapping):
            held = [*value.keys(), *value.values()]
        elif dataclasses.is_dataclass(value) and not isinstance(value, type):
            held = [getattr(value, field.name, None) for field in dataclasses.fields(value)]
        for one in held:
            yield from found(one, depth + 1)


def patterns_of_modules() -> Iterator[tuple[str, re.Pattern[Any]]]:
    """Compiled patterns and their places in the package."""
    for module in pkgutil.walk_packages(traceanalyzer.__path__, "traceanalyzer."):
        if not any(part in module.name for part in LEFT_ALONE):
            for name, value in vars(importlib.import_module(module.name)).items():
                place = f"{module.name.removeprefix('traceanalyzer.')}.{name}"
                yield from ((place, pattern) for pattern in found(value))


def searches() -> dict[re.Pattern[Any], tuple[str, Callable[[re.Pattern[Any], Any], object]]]:
    """For each pattern its place, and how it is asked."""
    result = {pattern: (place, every) for place, pattern in patterns_of_modules()}
    of_modules = {pattern.pattern for pattern in result}
    root = Path(traceanalyzer.__path__[0])
    for path in root.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        calls = ast.walk(ast.parse(text)) if SEARCH.search(text) else ()
        for call in calls:
            if is_search(call) and call.args[0].value not in of_modules:
                asked = at_once if call.func.attr in ("match", "fullmatch") else every
                place = f"{path.relative_to(root)}:{call.lineno}"
                result.setdefault(re.compile(call.args[0].value), (place, asked))
    return result


def is_search(call: Any) -> bool:
    """Whether it is `re.search("...", text)` or one of its kind."""
    return (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and isinstance(call.func.value, ast.Name)
        and call.func.value.id == "re"
        and bool(call.args)
        and isinstance(call.args[0], ast.Constant)
        and call.func.attr not in ("compile", "escape")
    )


def every(pattern: re.Pattern[Any], text: Any) -> None:
    for _ in pattern.finditer(text):
        pass


def at_once(pattern: re.Pattern[Any], text: Any) -> None:
    pattern.match(text)
    pattern.fullmatch(text)


def give_up(*_: object) -> None:
    raise TooLongError


def seconds(
    ask: Callable[[re.Pattern[Any], Any], object], pattern: re.Pattern[Any], text: str
) -> float:
    """The process's own time for a text, the shorter of two; infinite where it does not end."""
    data = text.encode() if isinstance(pattern.pattern, bytes) else text
    taken = []
    for _ in range(2):
        began = time.process_time()
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)
        try:
            ask(pattern, data)
        except TooLongError:
            return float("inf")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
        taken.append(time.process_time() - began)
        if taken[0] < QUICK_S:
            break
    return min(taken)


def takes_the_square(ask: Any, pattern: re.Pattern[Any], before: str, unit: str) -> bool:
    def timed(length: int) -> float:
        return seconds(ask, pattern, before + unit * max(1, length // len(unit)) + END)

    if timed(TRIED) < QUICK_S:
        return False
    return all(timed(LONG) > SQUARE * max(timed(SHORT), LEAST_S) for _ in range(CONFIRMED))


def test_no_pattern_takes_the_square_of_what_it_repeats() -> None:
    signal.signal(signal.SIGALRM, give_up)
    slow = []
    for pattern, (place, ask) in searches().items():
        if place not in MEANT:
            attacks = (pair for pair in Attacks(pattern) if takes_the_square(ask, pattern, *pair))
            slow += [(place, *pair) for pair in islice(attacks, 1)]
    assert slow == []


def test_exceptions_are_patterns_of_the_package() -> None:
    assert MEANT.keys() <= {place for place, _ in patterns_of_modules()}
