"""The fast lane for a snapshot's events: thousands of dictionaries with the same keys in the same
opcodes.

The opcodes of one event that was interpreted become a pattern, keys as they stand and values open.
What fits it means what the interpreter would have made of it, at a third of the time; what does not
fit is left to the interpreter."""

import pickletools
import re
from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import Any

from traceanalyzer.base import regex
from traceanalyzer.ingest.memory.shapes import EVENT, KeptStack, PickleMemo, Shapes

PUSH = rb"j.{4}|h.|K.|J.{4}|M..|\x8a(?:\x06.{6}|\x07.{7}|\x05.{5}|\x08.{8}|\x09.{9}|\x04.{4}|\x00)|[N\x88\x89]"
"""Opcodes that only push a value: of the memo (`j`, `h`), an int, None, a bool. Four of five
opcodes are."""
FRAMES = rb"\](\x94)?(?:\(((?:j.{4}|h.)+)e)?"
"""A list of values of the memo, as stacks are; whether it is kept in the memo, and what is in
it."""
GET = regex(rb"j(.{4})|h(.)", re.DOTALL)
MIN_TRIES = 20
EVENTS_A_TRY = 200
"""Patterns made whatever they bring, and events that must fit for each further one: making one
costs as much."""
PATIENCE = 8
"""Events in a row that do not fit before there is a new pattern: one with a new stack in it fits
none."""
MAX_TOKENS = 400  # opcodes of an event that a pattern is made of
_DEPTH = {"MARK": 1, "APPENDS": -1, "SETITEMS": -1}
"""By how much an opcode makes lists and dictionaries lie deeper."""


class Templates:
    """The pattern of the last event that was interpreted."""

    def __init__(self, memo: PickleMemo, value_of: Callable[[bytes], Any], shapes: Shapes) -> None:
        self._memo = memo
        self._value_of = value_of
        self._shapes = shapes
        self._learned = self._fitted = self._missed = 0
        self._stacks: dict[bytes, KeptStack] = {}
        self._match: Callable[..., re.Match[bytes] | None] | None = None
        self._groups: dict[
            str, int
        ] = {}  # the number of each key's group; `frames` has two groups of its own inside
        self._texts_at: list[int] = []  # those of the groups that may hold texts, or the stack
        self._memoized = False

    def forget(self) -> None:
        """The memo has changed: what was learned of it no longer holds."""
        self._stacks.clear()
        self._match = None

    def learn(self, opcodes: bytes) -> None:
        """Take the pattern from an event's opcodes, `}` to `u`."""
        self._missed += 1
        early = self._match is not None and self._missed < PATIENCE
        if (
            early
            or len(opcodes) > MAX_TOKENS * 5
            or self._learned > MIN_TRIES + self._fitted // EVENTS_A_TRY
        ):
            return
        self._learned += 1
        self._missed = 0
        found = islice(pickletools.genops(opcodes + b"."), MAX_TOKENS)
        tokens = [(op.name, at) for op, _, at in found]
        texts = [(name, opcodes[at:end]) for (name, at), (_, end) in pairwise(tokens)]
        self._memoized = texts[1][0] == "MEMOIZE"
        pattern = self._pattern(texts[2 if self._memoized else 1 :])
        self._match = None if pattern is None else re.compile(pattern, re.DOTALL).match

    def _pattern(self, tokens: list[tuple[str, bytes]]) -> bytes | None:
        """The pattern of what follows the (memoized) empty dictionary; None where keys are not of
        the memo."""
        pattern = [rb"\}\x94\(" if self._memoized else rb"\}\("]
        groups = {}
        number = 0
        at = 1
        while tokens[at][0] != "SETITEMS":
            name, get = tokens[at]
            if name not in ("BINGET", "LONG_BINGET"):
                return None
            key = self._value_of(get)
            groups[key] = number
            pattern.append(re.escape(get))
            number += 3 if key == "frames" else 1
            at += 1
            more = b""
            after = at + 1
            if key == "frames":
                more = b"|" + FRAMES
                after = _after_value(tokens, at)
            elif tokens[at][0] == "SHORT_BINUNICODE" and tokens[at + 1][0] == "MEMOIZE":
                more = b"|" + re.escape(tokens[at][1]) + rb"\x94"
                after = at + 2
            pattern.append(b"(" + PUSH + more + b")")
            at = after
        self._groups = groups
        self._texts_at = [
            number
            for key, number in groups.items()
            if key not in ("addr", "size", "time_us", "stream")
        ]
        return b"".join([*pattern, b"u"])

    def events(self, data: bytes, at: int, end: int, push: Callable[[Any], None]) -> int:
        """Read events from `at` on as long as they fit the pattern; where that ends."""
        groups = self._groups
        if self._match is None or not {"action", "addr", "size"} <= groups.keys():
            return at
        match = self._match
        memo = self._memo
        value_of = self._value_of
        take = self._shapes.event
        action_at = groups["action"]
        address_at = groups["addr"]
        size_at = groups["size"]
        time_at = groups.get("time_us")
        frames_at = groups.get("frames")
        while (found := match(data, at, end)) is not None:
            values = found.groups()
            if self._memoized:
                memo.append_event()
            stack = self._remembered(values, frames_at)
            time_us = -1 if time_at is None else value_of(values[time_at])
            take(
                value_of(values[action_at]),
                value_of(values[address_at]),
                value_of(values[size_at]),
                time_us,
                stack,
            )
            push(EVENT)
            at = found.end()
            self._fitted += 1
            self._missed = 0
        return at

    def _remembered(self, values: Sequence[bytes], frames_at: int | None) -> Any:
        """Put the texts and the stack of an event into the memo, as they come; the stack."""
        stack: Any = ()
        for number in self._texts_at:
            value = values[number]
            if value[0] == 0x8C:  # SHORT_BINUNICODE
                self._memo.append(self._shapes.text(str(value[2:-1], "utf-8")))
            elif number != frames_at:
                continue
            elif value[0] == 0x5D:  # EMPTY_LIST, "]"
                gets = values[number + 2] or b""
                stack = self._stacks.get(gets)
                if stack is None:
                    frames = [
                        self._memo[int.from_bytes(far or near, "little")]
                        for far, near in GET.findall(gets)
                    ]
                    stack = self._stacks[gets] = self._shapes.stack(frames)
                if values[number + 1]:
                    self._memo.append(stack)
            else:
                stack = self._value_of(value)
        return stack


def _after_value(tokens: list[tuple[str, bytes]], at: int) -> int:
    """Where the value that begins at `at` ends: a list goes on to its APPENDS."""
    if tokens[at][0] != "EMPTY_LIST":
        return at + 1
    at += 2 if tokens[at + 1][0] == "MEMOIZE" else 1
    if tokens[at][0] != "MARK":
        return at
    depth = 0
    for end in range(at, len(tokens)):
        name, _ = tokens[end]
        depth += _DEPTH.get(name, 0)
        if not depth:
            return end + 1
    raise ValueError("a list without an end")
