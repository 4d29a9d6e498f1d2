"""Events read by kinds are, to the bit, what decoding each of them gives."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ingest.kineto.test_parallel import RECORDED
from tests.recorded import label
from traceanalyzer.ingest.kineto import repeating
from traceanalyzer.ingest.kineto.event_text import FIELDS
from traceanalyzer.ingest.kineto.masked import masked_text
from traceanalyzer.ingest.kineto.repair import BOUNDARY, Decoded, decode
from traceanalyzer.ingest.kineto.repeating import RepeatingEvents
from traceanalyzer.ingest.kineto.rows import KinetoRows
from traceanalyzer.trace.events import ApiCalls, DeviceOps, HostRanges

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

OP = (
    '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": %s, "dur": %s, "args": '
    '{"External id": %s, "Sequence number": %s, "Input Dims": [[2, 3]], "Ev Idx": %s}}'
)
CALL = (
    '{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 2, "ts": %s, "dur": 2.5, '
    '"args": {"correlation": %s}}'
)
KERNEL = (
    '{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": %s, "dur": 9, "args": '
    '{"stream": 7, "device": 0, "correlation": %s, "grid": [4, 1, 1], "block": [128, 1, 1]}}'
)
FLOW = '{"ph": "s", "id": %s, "pid": 1, "tid": 2, "ts": %s, "cat": "ac2g", "name": "ac2g"}'


def taken(chunks: Sequence[bytes], *, by_kind: bool) -> tuple[dict[str, Any], int]:
    """All that rows hold after these chunks, and how many kinds of events there were: the last of a
    chunk, behind which no event follows, is one of its own."""
    rows = KinetoRows()
    events = RepeatingEvents(rows, is_worthwhile=by_kind)
    for chunk in chunks:
        found = events.decode(chunk)
        events.add(decode(chunk) if found is None else Decoded(found))
    events.flush()
    held: dict[str, Any] = {
        f"{table.__name__}.{name}": column.tolist()
        for table, columns in rows.tables.items()
        for name, column in columns.take().items()
    }
    for name in (
        "events",
        "skipped",
        "repaired",
        "lost",
        "counts",
        "names",
        "window",
        "window_end",
    ):
        held[name] = getattr(rows, name)
    held["mended"] = rows.mended
    held["texts"] = rows.texts.in_order()
    held["threads"] = list(rows.threads)
    held["collectives"] = list(rows.collectives)
    return held, len(events._numbers)


def same(*chunks: str | bytes) -> int:
    """How many kinds of events the chunks have, which are the same rows in both ways."""
    texts = [chunk.encode() if isinstance(chunk, str) else chunk for chunk in chunks]
    decoded, _ = taken(texts, by_kind=False)
    by_kind, kinds = taken(texts, by_kind=True)
    assert by_kind == decoded
    return kinds


def joined(*events: str) -> str:
    return ",\n".join(events)


def chunks_of(text: bytes, size: int) -> Iterator[bytes]:
    """The events of a file, in chunks of at least this size."""
    begin = text.index(b"[", text.index(b'"traceEvents"')) + 1
    for cut in BOUNDARY.finditer(text):
        if cut.start() - begin > size:
            yield text[begin : cut.start() + 1]
            begin = cut.end()


@pytest.mark.parametrize("path", RECORDED, ids=label)
def test_real_recordings(path: Path) -> None:
    chunks = list(chunks_of(gzip.decompress(path.read_bytes()), 20_000))
    same(*chunks)


def test_rows_of_kinds() -> None:
    step = joined(
        OP % ("100.25", "4", "10", "3", "0"),
        CALL % ("101", "77"),
        FLOW % ("5", "101"),
        KERNEL % ("103.5", "77"),
        OP % ("200.123", "8", "11", "4", "1"),
    )
    rows = KinetoRows()
    events = RepeatingEvents(rows, is_worthwhile=True)
    assert events.decode(step.encode()) == []
    assert events.decode(step.replace("77", "78").replace("4.5", "9.5").encode()) == []
    events.flush()
    ops = rows.tables[HostRanges].take()
    assert ops["start"].tolist() == [100_250, 200_123] * 2
    assert ops["end"].tolist() == [104_250, 208_123] * 2
    assert ops["external_id"].tolist() == [10, 11] * 2
    assert ops["sequence"].tolist() == [3, 4] * 2
    assert rows.tables[ApiCalls].take()["correlation"].tolist() == [77, 78]
    assert rows.tables[DeviceOps].take()["correlation"].tolist() == [77, 78]
    assert (rows.events, rows.skipped, rows.kept) == (10, 2, 8)


@pytest.mark.parametrize(
    "time",
    [
        *(
            "5",
            "5.1",
            "5.25",
            "5.125",
            "5.1234",
            "1e3",
            "0e3",
            "5E1",
            "-5",
            "0",
            "0.5",
            "05",
            "5.",
            ".5",
        ),
        *(
            "1790857026000000.125",
            "9790857026000000.125",
            "4345842814510.844",
            "99999999999999999999",
        ),
        *('"5"', "null", "true", "[5]", "NaN", "5 ", "1.2.3", "1/2", "5_0"),
    ],
)
def test_times_of_any_form(time: str) -> None:
    usual = OP % ("7.125", "2.5", "1", "1", "1")
    for other in (OP % (time, "1.5", "1", "1", "1"), OP % ("7.5", time, "1", "1", "1")):
        same(joined(usual, usual, other), joined(usual, other), usual)
        same(other, joined(other.replace("5", "6"), other))


@pytest.mark.parametrize(
    "number",
    [
        "0",
        "7",
        "007",
        "-7",
        "123456789",
        "1234567890",
        "1e2",
        "0e2",
        "7.0",
        '"7"',
        "null",
        "{}",
        "7}",
    ],
)
def test_ids_of_any_form(number: str) -> None:
    usual = OP % ("7.125", "2.5", "1", "1", "1")
    for values in ((number, "1", "1"), ("1", number, "1"), ("1", "1", number)):
        other = OP % ("8", "2", *values)
        same(joined(usual, other), joined(other, usual), other.replace("7", "8"))


@pytest.mark.parametrize(
    "event",
    [
        KERNEL.replace("9,", '9, "correlation": %s,') % ("1", "5", "6"),
        CALL.replace('"correlation"', '"inner": {"correlation"').replace("}}", "}}}") % ("1", "5"),
        OP.replace("External id", "external id") % ("1", "2", "3", "4", "5"),
        OP.replace("Ev Idx", "External id") % ("1", "2", "3", "4", "5"),
        OP.replace("Ev Idx", "My correlation") % ("1", "2", "3", "4", "5"),
        OP.replace("aten::mm", r"\"ts\": 5, \"ph\": 1") % ("1", "2", "3", "4", "5"),
        OP.replace('"ph": "X", ', "").replace("}}", '}, "ph": "X"}') % ("1", "2", "3", "4", "5"),
        OP.replace('"Ev Idx": %s', '"of": [{"a": 1}, {"ph": "X", "ts": 1, "name": "x"}]')
        % ("1", "2", "3", "4"),
        '{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "python"}}',
        '{"ph": "i", "name": "[memory]", "pid": 1, "tid": 0, "ts": 5.5, "args": {"Bytes": 64, "Addr": 9}}',
        '{"ph": "i", "name": "Record Window End", "pid": 1, "tid": 0, "ts": 5.5}',
        '{"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "ts": 1.5, "dur": 9}',
        '{"ph": "C", "cat": "x", "name": "GPU 0 Utilization", "pid": 1, "ts": 5, "args": {"GPU": 5}}',
        '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 5, "dur": 1, '
        '"args": {"bytes": 64, "memory bandwidth (GB/s)": 0.0123456789, "correlation": 5}}',
        '{"ph": "X", "cat": "cuda_sync", "name": "Stream Sync", "pid": 0, "tid": 7, "ts": 5, "dur": 1, '
        '"args": {"cuda_sync_kind": "Stream Wait Event", "wait_on_cuda_event_record_corr_id": 12}}',
        '{"ph": "X", "cat": "cpu_op", "name": "unended", "ts": 1, "dur": 2',
        '{"ph": "X", "cat": "cpu_op", "ts": 1, "dur": 2}',
        OP.replace("2, 3", "2, 3]") % ("1", "2", "3", "4", "5"),
        '{"ph": "q", "ts": 5}',
        "5",
        "",
    ],
)
def test_events_unlike_the_usual(event: str) -> None:
    usual = OP % ("7.125", "2.5", "1", "1", "1")
    again = event.replace("5", "6")
    same(joined(usual, event, usual), joined(event, again), joined(usual, again), usual)
    same(event, event, joined(again, usual))


EVENT_NUMBERS = st.tuples(
    st.one_of(st.integers(0, 10**16), st.decimals(0, 10**13, places=3)).map(str),
    st.integers(0, 10**8).map(str),
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([CALL, KERNEL, FLOW]), EVENT_NUMBERS, st.sampled_from(["", " ", "\n  "])
        ),
        min_size=1,
    )
)
def test_any_numbers_in_any_layout(events: list[tuple[str, tuple[str, str], str]]) -> None:
    texts = [
        (event % (numbers if event is not FLOW else numbers[::-1])).replace(", ", f",{blank}")
        for event, numbers, blank in events
    ]
    same(",".join(texts), ",\n".join(texts), " , ".join(texts))


@given(st.data())
def test_a_byte_changed_anywhere(data: st.DataObject) -> None:
    step = joined(OP % ("1.5", "2", "3", "4", "5"), CALL % ("3", "7"), KERNEL % ("4", "7"))
    place = data.draw(st.integers(0, len(step) - 1))
    letter = data.draw(st.sampled_from('0159.,:"{}[]\\ -eE/'))
    same(step, step[:place] + letter + step[place + 1 :], step)


def test_kinds_are_given_up_where_events_do_not_repeat() -> None:
    chunks = [
        joined(
            *(
                OP.replace("aten", f"op{chunk}_{number}") % ("1", "2", "3", "4", "5")
                for number in range(5)
            )
        )
        for chunk in range(20)
    ]
    # A chunk of new events alone counts as two: of the five that may fail three are learned.
    assert same(*chunks) == 15


def test_of_many_events_that_are_new_none_is_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "_TELLING", 4)
    names = [OP.replace("aten", f"op{number}") % ("1", "2", "3", "4", "5") for number in range(9)]
    assert same(joined(*names[:4])) == 0
    assert same(joined(*names[:3])) == 3
    step = joined(*names[:1] * 5, *names[1:4])
    assert same(step, step) == 4


def test_kinds_are_given_up_where_they_take_much_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "MOST_TEXT_BYTES", 100)
    step = joined(*[OP % ("1", "2", "3", "4", "5")] * 9)
    assert same(step, step.replace("aten", "torch"), step.replace("aten", "xla")) == 2


def test_a_part_of_the_rows_is_packed_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeating, "MOST_PENDING", 2)
    step = joined(*[OP % ("1", "2", "3", "4", "5"), KERNEL % ("4", "7")] * 3)
    assert same(step, step) == 3


def test_numbers_with_more_digits_are_no_new_kind() -> None:
    short = OP % ("100.250", "4.500", "9", "3", "0")
    long = OP % ("100.250", "12345.500", "123456789", "10", "1234")
    chunk = joined(short, long, short).encode()
    rows = KinetoRows()
    events = RepeatingEvents(rows, is_worthwhile=True)
    assert events.decode(chunk) == []
    assert len(events._numbers_alike) == 1
    events.flush()
    ops = rows.tables[HostRanges].take()
    assert (ops["end"] - ops["start"]).tolist() == [4500, 12_345_500, 4500]
    assert ops["external_id"].tolist() == [9, 123_456_789, 9]
    assert ops["sequence"].tolist() == [3, 10, 3]
    same(chunk, joined(long, short), short)


@pytest.mark.parametrize("bandwidth", ["0.03125", "0.005208333333333333", "0.00012345678901234567"])
def test_figures_with_many_decimals_repeat(bandwidth: str) -> None:
    copy = (
        '{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "pid": 0, "tid": 7, "ts": 5.25, "dur": 1.5, '
        '"args": {"bytes": 64, "memory bandwidth (GB/s)": %s, "correlation": 5}}'
    )
    events = RepeatingEvents(KinetoRows(), is_worthwhile=True)
    assert events.decode((copy % bandwidth).encode()) == []
    assert events.decode((copy % bandwidth.replace("5", "6")).encode()) == []
    assert len(events._numbers) == 1


def test_fields_are_those_that_are_masked() -> None:
    """A key whose end is looked for, and that is no field, would cost its chunk the short way."""
    events = json.dumps([{"ph": "X", **dict.fromkeys(map(bytes.decode, FIELDS), 5)}])
    (kind,) = [masked_text(events[1:-1].encode())]
    assert kind is not None
    assert len(kind.numbers.starts) == len(FIELDS)
    assert np.all(kind.numbers.widths == 1)
