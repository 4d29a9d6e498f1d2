"""Plain values are read as `pickle` reads them; anything else is refused in little memory."""

from __future__ import annotations

import io
import os
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.base.errors import RefusedPickleError
from traceanalyzer.ingest.pickles import read_untrusted_pickle


def twice(value: Any) -> list[Any]:
    return [value, value]


SCALARS = st.none() | st.booleans() | st.integers(-(2**71) + 1, 2**71 - 1) | st.floats(allow_nan=False) | st.text()
KEYS = st.text() | st.integers(0, 2**40) | st.booleans()
PLAIN = st.recursive(
    SCALARS,
    lambda inside: (
        st.lists(inside) | st.dictionaries(KEYS, inside) | st.lists(inside).map(tuple) | st.lists(inside).map(twice)
    ),
)


def plain(raw: bytes) -> Any:
    file = io.BytesIO(raw)
    return read_untrusted_pickle(lambda: file.read(1 << 18))


@given(PLAIN, st.integers(2, 5))
def test_what_is_read_is_what_pickle_gives(value: Any, protocol: int) -> None:
    raw = pickle.dumps(value, protocol)
    assert plain(raw) == pickle.loads(raw) == value  # noqa: S301 our own


@given(PLAIN, st.data())
def test_damage_is_refused_or_read(value: Any, data: st.DataObject) -> None:
    raw = bytearray(pickle.dumps(value, 4))
    raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    try:
        plain(bytes(raw[: data.draw(st.integers(1, len(raw)))]))
    except RefusedPickleError:
        return


OPEN = b"\x80\x04"
REFUSED = {
    "a call": (pickle.dumps(os.getcwd), "STACK_GLOBAL"),
    "a class": (b"cos\nsystem\n(S'echo'\ntR.", "GLOBAL"),
    "itself": (OPEN + b"]\x94h\0a.", "inside themselves"),
    "laughs": (
        OPEN + b"]\x94" + b"".join(b"](" + bytes((0x68, i)) * 10 + b"e\x94" for i in range(60)) + b"h\x3c.",
        "before its values|too many places",
    ),
    "doubled": (OPEN + b"]" + b"\x94(h\0h\0e" * 40 + b".", "inside themselves|too many places"),
    "lists": (OPEN + b"]" * 2_000_000, "part of nothing"),
    "tuples": (OPEN + b")" + b"\x85" * 1_000_000 + b".", "part of nothing|damaged|too many|inside"),
    "nones": (OPEN + b"N" * 5_000_000, "more values"),
    "a key of a list": (OPEN + b"}]K\x01s.", "no dictionary"),
    "empty": (b"", "damaged"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_all_else_is_refused(name: str) -> None:
    raw, why = REFUSED[name]
    with pytest.raises(RefusedPickleError, match=why):
        plain(raw)
