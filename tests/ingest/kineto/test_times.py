"""Times of many events at once: as text of one form, as numbers, and one after the other are the
same nanoseconds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traceanalyzer.ingest import load
from traceanalyzer.ingest.kineto.times import exact_ns, starts_ns, times_ns

MANY = 40
FAR_US = 1_712_345_678_901_234


@given(st.integers(1, 16), st.booleans(), st.data())
def test_texts_of_one_form_are_exact(digits, decimals, data):
    least = 10 ** (digits - 1)
    most = min(10**digits - 1, 4_600_000_000_000_000)
    whole = data.draw(st.lists(st.integers(least, most), min_size=MANY, max_size=MANY))
    texts = [f"{w}.{w % 997:03d}".encode() if decimals else str(w).encode() for w in whole]
    assert starts_ns(texts).tolist() == [exact_ns(text) for text in texts]


@pytest.mark.parametrize(
    "odd", [b"1712345678901234,567", b"171234567890123.4567", b'"12345678901234.567"', b"-" * 20]
)
def test_one_text_of_another_form(odd):
    texts = [b"1712345678901234.567"] * MANY
    texts[7] = odd
    try:
        expected = [exact_ns(text) for text in texts]
    except ValueError:
        with pytest.raises((ValueError, DeprecationWarning)):
            starts_ns(texts)
    else:
        assert starts_ns(texts).tolist() == expected


def test_a_time_beyond_all_reason_is_none():
    with pytest.raises(ValueError, match="not a time"):
        starts_ns([b"9712345678901234.567"] * MANY)


@given(st.lists(st.integers(-(2**43) * 1000 + 1, 2**43 * 1000 - 1), min_size=1, max_size=MANY))
def test_numbers_and_texts_are_the_same(nanoseconds):
    texts = [f"{ns / 1000!r}".encode() for ns in nanoseconds]
    assert times_ns([float(text) for text in texts]).tolist() == starts_ns(texts).tolist()


def starts(folder: Path, times: list[str]) -> list[int]:
    """The start times of operators at these times, as they are written."""
    event = (
        '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": %s, "dur": 1}'
    )
    path = folder / "trace.json"
    path.write_text('{"traceEvents": [\n' + ",\n".join(event % time for time in times) + "\n]}")
    return load([path]).traces[0].host_ranges.start.tolist()


def test_near_and_far_times_in_one_recording(tmp_path):
    near = [f"{i * 7}.{i:03d}" for i in range(4000)]
    far = [f"{FAR_US + i * 7}.{i % 1000:03d}" for i in range(4000)]
    odd = [json.dumps(far[-1]), f"{FAR_US}e0", str(FAR_US)]
    assert starts(tmp_path, near + far) == [exact_ns(text.encode()) for text in near + far]
    assert starts(tmp_path, near + far + odd) == sorted(
        exact_ns(text.encode()) for text in near + far + odd
    )
