"""What the texts of NVTX ranges say: a name, and with PyTorch's `emit_nvtx` numbers and input
shapes. With it no two calls have the same text, so the numbers at the end are taken off many texts
at once, and each name that is left is looked at once."""

import re
from functools import cache

import numpy as np

from traceanalyzer.base import regex
from traceanalyzer.ingest.nsys.events import Strings
from traceanalyzer.ingest.nsys.shape_lists import grouped
from traceanalyzer.trace import I32, I64, U8, Bool, distinct

_EMITTED = regex(
    r"(?P<name>.+?)(?:, seq = (?P<seq>\d{1,18}))?(?:, op_id = \d+)?"
    r"(?:, sizes = (?P<sizes>\[[\[\]\d, -]*\]))?(?:, input_op_ids = \[[\[\]()\d, -]*\])?",
    re.DOTALL,
)
"""The text that PyTorch's `emit_nvtx` gives a range: every call has its own numbers."""
_CALLED = regex(r"\{'mod': ?'(?P<module>[\w.]+)', ?'op': ?'(?P<op>\w+)'")
"""A call as pyprof and DLProf mark it: its whole description as a dictionary, of which module and
function name it."""
_OPERATOR = regex(r"^(?:[A-Za-z_]\w*::)+[\w.]+|^autograd::engine::evaluate_function: .*")
"""Names of PyTorch operators and autograd nodes, as against those of `record_function` blocks."""
_AUTOGRAD = regex(r"^autograd::engine::evaluate_function: .*|^[\w:]+Backward\d*")
"""Names of the ranges around autograd's nodes, which carry the number of the forward operator."""
_ENGINE = "autograd::engine::evaluate_function: "
_MOST_DIGITS = 18  # longer numbers are left where they are: they may not fit 64 bits


class RangeNames:
    """Names, autograd sequence numbers and input shapes from the texts of ranges."""

    def __init__(self, strings: Strings) -> None:
        self._strings = strings
        self._code = cache(
            lambda name: strings.code(name.decode("utf-8", "replace")) if name else -1
        )
        self._numbered: set[int] = set()

    def of(self, texts: list[bytes]) -> tuple[I32, I64, I32]:
        """For each text the code of its name (-1: the range has no text of its own), the autograd
        sequence number and the code of the input shapes (-1 without)."""
        bare, sequence, numbered = without_trailing_numbers(texts)
        place = {text: i for i, text in enumerate(dict.fromkeys(bare))}
        of_text = np.fromiter(map(place.__getitem__, bare), np.int64, len(bare))
        odd = np.array([b"," in text or b"\n" in text for text in place], bool)
        codes = np.array(
            [-1 if no else self._code(text) for no, text in zip(odd, place, strict=True)], np.int32
        )
        name = codes[of_text]
        shapes = np.full(len(texts), -1, np.int32)
        self._numbered.update(distinct(name[numbered & ~odd[of_text]]).tolist())
        parsed = cache(self._said)
        for i in np.flatnonzero(odd[of_text]).tolist():
            name[i], sequence[i], shapes[i] = parsed(texts[i])
        return name, sequence, shapes

    def inner_of(self, name: I32) -> dict[int, int]:
        """By the name code of the engine's range around an autograd node that of the node."""
        codes = {code: self._strings.values[code] for code in distinct(name).tolist()}
        around = {code: text for code, text in codes.items() if text.startswith(_ENGINE)}
        return {
            code: self._strings.code(text.removeprefix(_ENGINE)) for code, text in around.items()
        }

    def operators(self, name: I32, sequence: I64) -> Bool:
        """Which of the ranges, with these name codes and sequence numbers, are PyTorch
        operators."""
        is_operator = np.zeros(len(self._strings.values) + 1, bool)
        for code in distinct(name).tolist():
            text = self._strings.values[code]
            numbered = code in self._numbered and _OPERATOR.fullmatch(text) is not None
            is_operator[code] = numbered or text.startswith(
                "aten::"
            )  # PyTorch's own even without numbers
        return is_operator[name] | (sequence >= 0)

    def of_backward(self, name: I32, sequence: I64) -> Bool:
        """Which of the ranges, with these name codes and sequence numbers, are autograd nodes that
        carry the number of the forward operator that made them."""
        is_autograd = np.zeros(len(self._strings.values) + 1, bool)
        for code in distinct(name[sequence >= 0]).tolist():
            is_autograd[code] = _AUTOGRAD.fullmatch(self._strings.values[code]) is not None
        return is_autograd[name] & (sequence >= 0)

    def _said(self, raw: bytes) -> tuple[int, int, int]:
        """What a text of any form says: name, sequence number, shapes."""
        text = raw.decode("utf-8", "replace")
        match = _EMITTED.fullmatch(text)
        called = _CALLED.match(text)
        parts: dict[str, str | None] = match.groupdict() if match else {"name": text}
        name = f"{called['module']}.{called['op']}" if called else parts["name"]
        sizes = parts.get("sizes")
        code = self._strings.code(name) if name else -1
        shapes = self._strings.code(grouped(name or "", sizes)) if sizes else -1
        if name != text and not called:
            self._numbered.add(code)
        return code, int(parts.get("seq") or -1), shapes


def bare_name(text: str) -> str:
    """The text without the numbers that `emit_nvtx` appends."""
    match = _EMITTED.fullmatch(text)
    return match["name"] if match else text


def without_trailing_numbers(texts: list[bytes]) -> tuple[list[bytes], I64, Bool]:
    """The texts without `, seq = N` and `, op_id = N` at their end, that N of the first (-1
    without), and whether there was the second."""
    raw = b"".join(texts)
    data = np.frombuffer(raw, np.uint8)
    end = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    start = np.append(np.int64(0), end[:-1]) if len(end) else end
    end, call = _without(data, start, end, b", op_id = ")
    end, sequence = _without(data, start, end, b", seq = ")
    return (
        [raw[a:b] for a, b in zip(start.tolist(), end.tolist(), strict=True)],
        sequence,
        call >= 0,
    )


def _without(data: U8, start: I64, end: I64, word: bytes) -> tuple[I64, I64]:
    """The ends of texts without a word and a number, and the number; -1 and the same end where that
    is not there."""
    at = end.copy()
    value = np.full(len(end), -1, np.int64)
    left = np.flatnonzero(at > start)
    for digit in range(_MOST_DIGITS + 1):
        figure = data[at[left] - 1] - np.uint8(ord("0"))
        left = left[figure < 10]
        if not len(left):
            break
        figure = figure[figure < 10].astype(np.int64)
        value[left] = np.maximum(value[left], 0) + figure * 10 ** min(digit, _MOST_DIGITS)
        at[left] -= 1
        left = left[at[left] > start[left]]
    is_number = (value >= 0) & (end - at <= _MOST_DIGITS)
    cut = np.flatnonzero(is_number & (at - len(word) > start))
    for i, letter in enumerate(word):
        cut = cut[data[at[cut] - len(word) + i] == letter]
    result = end.copy()
    number = np.full(len(end), -1, np.int64)
    result[cut] = at[cut] - len(word)
    number[cut] = value[cut]
    return result, number
