"""Texts that a regular expression may take long for, made from its own parse: what it repeats,
again and again, behind what has to come before it, and an end that it cannot take."""

from __future__ import annotations

import random
import re
from functools import cache
from re import _constants as sre  # type: ignore[attr-defined]
from re import _parser as parser  # type: ignore[attr-defined]
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

LETTERS = "aA1 \n_.-/\"'(,:=<"
"""What sets of a pattern are tried with, besides its own letters."""
LONG = 40  # a repeat that may take more than this grows with the text
WAYS = 4  # examples of a pattern: the first takes letters that most of its sets take, others by lot
SLICES = 4  # parts of a pattern in a row that are repeated together
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)
_SINGLE = (sre.LITERAL, sre.NOT_LITERAL, sre.ANY, sre.IN)
_CATEGORIES = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_GROUPS = (sre.SUBPATTERN, sre.ATOMIC_GROUP)
Node = tuple[Any, Any]


@cache
def is_of(category: Any, letter: str) -> bool:
    """Whether a letter is a digit, a space or of a word."""
    return re.match(_CATEGORIES[category], letter) is not None


def takes(op: Any, value: Any, letter: str) -> bool:
    """Whether a part of a pattern that is one letter takes this one."""
    if op is sre.IN:
        negated = value[0][0] is sre.NEGATE
        return negated != any(takes(*part, letter) for part in value[negated:])
    if op is sre.RANGE:
        return value[0] <= ord(letter) <= value[1]
    if op is sre.CATEGORY:
        return is_of(value, letter)
    if op is sre.ANY:
        return letter != "\n"
    return (ord(letter) == value) == (op is sre.LITERAL)


def inside(op: Any, value: Any) -> list[list[Node]]:
    """The patterns within a part of one."""
    if op in _REPEATS:
        return [value[2]]
    if op is sre.SUBPATTERN:
        return [value[3]]
    if op is sre.ATOMIC_GROUP:
        return [value]
    if op is sre.BRANCH:
        return list(value[1])
    return [value[1]] if op in (sre.ASSERT, sre.ASSERT_NOT) else []


def parts(tree: list[Node]) -> Iterator[Node]:
    """All parts of a pattern, from outside in."""
    for node in tree:
        yield node
        for within in inside(*node):
            yield from parts(within)


class Attacks:
    """Of one pattern: what stands before, and what is repeated."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self._tree = list(parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE))
        self._lot = random.Random(1)  # noqa: S311 the same each time
        single = [node for node in parts(self._tree) if node[0] in _SINGLE]
        own = [chr(value) for op, value in single if op is sre.LITERAL]
        sets = [node for node in single if node[0] is not sre.LITERAL]
        shared = {one: sum(takes(*node, one) for node in sets) for one in (*own, *LETTERS)}
        self._letters = sorted(shared, key=lambda one: -shared[one])
        self._first = True

    def __iter__(self) -> Iterator[tuple[str, str]]:
        met = {("", "")}
        for way in range(WAYS):
            self._first = way == 0
            for pair in self._pairs(self._tree, ""):
                if pair[1] and pair not in met:
                    met.add(pair)
                    yield pair

    def _pairs(self, tree: list[Node], before: str) -> Iterator[tuple[str, str]]:
        examples = [self._example(node) for node in tree]
        for i, (op, value) in enumerate(tree):
            begun = before + "".join(examples[:i])
            if op in _REPEATS and value[1] > LONG:
                unit = self._text(value[2])
                yield from ((begun, unit), ("", begun + unit), ("", begun), ("", f"{begun}\n"))
                if self._first:
                    for end in range(i + 1, min(i + SLICES, len(tree)) + 1):
                        yield begun, "".join(examples[i:end])
                        yield begun, "".join(examples[i + 1 : end])
            for within in inside(op, value):
                yield from self._pairs(within, begun)
        yield before, "".join(examples)

    def _text(self, tree: list[Node]) -> str:
        return "".join(self._example(node) for node in tree)

    def _example(self, node: Node) -> str:
        """A text that a part takes, as short as can be."""
        op, value = node
        if op is sre.LITERAL:
            return chr(value)
        if op in _SINGLE:
            taken = [one for one in self._letters if takes(op, value, one)] or ["µ"]
            return taken[0] if self._first else self._lot.choice(taken)
        if op in _REPEATS:
            least = value[0] if self._first or value[0] else self._lot.choice((0, 1))
            return "".join(self._text(value[2]) for _ in range(least))
        if op is sre.BRANCH:
            return self._text(value[1][0] if self._first else self._lot.choice(value[1]))
        return "".join(map(self._text, inside(op, value))) if op in _GROUPS else ""
