# ruff: noqa: PT017 either outcome is right
"""Protobuf on the wire: many messages at a time give what one by one gives; damage ends no more
than its message."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.protobuf import message, parse, varint
from traceanalyzer.ingest.protobuf import wire
from traceanalyzer.ingest.protobuf.wire import DamagedMessageError, as_int64, fields, fields_of

VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.binary(max_size=9)
)
MESSAGES = st.lists(st.lists(st.tuples(st.integers(1, 3000), VALUES), max_size=6), max_size=90)


def placed(messages: list[bytes]) -> tuple[bytes, np.ndarray, np.ndarray]:
    """The messages one after the other, and where each begins and ends."""
    ends = np.cumsum([len(one) for one in messages], dtype=np.int64)
    return b"".join(messages), ends - [len(one) for one in messages], ends


def rows(found, data):
    """Fields of `fields_of`, by message."""
    columns = (found.message, found.number, found.value, found.start, found.end)
    result: dict[int, list[tuple[int, object]]] = {}
    for number, field, value, start, end in zip(*(c.tolist() for c in columns), strict=True):
        result.setdefault(number, []).append(
            (field, data[start:end] if end > start or value == 0 else value)
        )
    return result


def same(parsed):
    """What `parse` gives, with numbers as int64 and nothing told from zero."""
    return [(number, as_int64(v) if isinstance(v, int) and v else v or b"") for number, v in parsed]


@given(MESSAGES)
def test_many_messages_are_what_each_of_them_is(messages):
    raw = [message(*one) for one in messages]
    data, start, end = placed(raw)
    found, damaged = fields_of(data, start, end)
    assert not damaged.any()
    assert rows(found, data) == {i: same(parse(one)) for i, one in enumerate(raw) if one}


@given(st.binary(max_size=200), st.integers(1, 99))
def test_random_bytes_are_read_or_damaged(data, count):
    start = np.linspace(0, len(data), count).astype(np.int64)
    found, _ = fields_of(data, start, np.append(start[1:], len(data)))
    assert (found.end <= len(data)).all()
    try:
        list(fields(data))
    except DamagedMessageError as error:
        assert "byte" in str(error)


@pytest.mark.parametrize("many", [1, 99])
@pytest.mark.parametrize(
    "bad",
    [
        varint(1 << 3 | 2) + varint(2**62) + b"x",
        varint(1 << 3 | 2) + varint(2**64 - 1),
        varint(1 << 3 | 1) + b"1234",
        varint(1 << 3) + b"\xff" * 11,
        varint(1 << 3),
        varint(1 << 3 | 3),
        b"\x00\x00",
    ],
    ids=["giant", "negative", "cut", "endless", "nothing", "group", "zero"],
)
def test_damage_leaves_the_fields_before_it(bad, many):
    data, start, end = placed([message((7, 5)) + bad] * many)
    found, damaged = fields_of(data, start, end)
    assert damaged.all()
    assert (found.number.tolist(), found.value.tolist()) == ([7] * many, [5] * many)


def test_few_and_many_are_read_alike(monkeypatch):
    data, start, end = placed([message((1, i), (2, b"ab"), (9, 1.5), (4, -i)) for i in range(50)])
    at_once, _ = fields_of(data, start, end)
    monkeypatch.setattr(wire, "FEW", 1000)
    assert rows(fields_of(data, start, end)[0], data) == rows(at_once, data)
