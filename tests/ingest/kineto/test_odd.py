"""Odd and damaged files, each from a public report: what can be read is, what cannot is counted,
nothing raises."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.kineto_builder import KinetoTrace, span
from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.ingest import load
from traceanalyzer.ingest.kineto import repair as kineto_repair
from traceanalyzer.ingest.kineto.repair import decode, mend

if TYPE_CHECKING:
    from traceanalyzer.trace import Trace

KERNELS = 30


@pytest.fixture
def read(tmp_path):
    def read(content: bytes, name: str = "trace.json") -> Trace:
        path = tmp_path / name
        path.write_bytes(content)
        (result,) = load([path]).traces
        return result

    return read


def kernels(count: int = KERNELS, **first: object) -> KinetoTrace:
    """Kernels one after the other; `first` replaces keys of the first row."""
    t = KinetoTrace()
    for i in range(count):
        t.kernel(f"kernel number {i}", 10 * i, 5)
    t.rows[0] |= first
    return t


def kineto_text(trace: KinetoTrace) -> bytes:
    """The layout that Kineto itself writes."""
    rows = ",\n  ".join(
        f'{{\n    "ph": "X", "cat": "{row["cat"]}", "name": "{row["name"]}", "pid": 0, "tid": 7,\n'
        f'    "ts": {row["ts"]}, "dur": {row["dur"]},\n'
        '    "args": {\n      "device": 0, "context": 1, "stream": 7\n    }\n  }'
        for row in trace.rows
    )
    return (
        b'{\n  "schemaVersion": 1,\n  "traceEvents": [\n  '
        + rows.encode()
        + b'\n  ],\n  "traceName": "x.json"\n}'
    )


def health(trace: Trace) -> tuple[int, int, int, bool]:
    found = trace.health
    return len(trace.device_ops), found.repaired, found.lost, found.truncated


def test_an_undamaged_file_in_every_layout(read):
    t = kernels()
    layouts = [
        kineto_text(t),
        t.json(),
        t.json(indent=4),
        t.json(indent=0),
        json.dumps(t.rows).encode(),
    ]
    layouts.append(json.dumps(t.metadata | {"traceEvents": t.rows}, separators=(",", ":")).encode())
    layouts.append(
        json.dumps(t.metadata | {"traceEvents": t.rows}, sort_keys=True, indent=2).encode()
    )
    layouts.append(t.json(indent=1).replace(b"\n", b"\r\n"))
    for content in layouts:
        assert health(read(content)) == (KERNELS, 0, 0, False)


@pytest.mark.parametrize("value", [b"Infinity", b"-Infinity", b"NaN", b"nan", b"inf", b"-nan"])
def test_values_that_json_does_not_know(read, value):
    content = (
        kernels()
        .json()
        .replace(b'"stream": 7', b'"stream": 7, "est. achieved occupancy %": ' + value)
    )
    found, _, lost, truncated = health(read(content))
    assert (found, lost, truncated) == (KERNELS, 0, False)
    content = kernels().json().replace(b'"dur": 5', b'"dur": ' + value, 1)
    trace = read(content)
    assert len(trace.device_ops) == KERNELS
    assert trace.device_ops.start[0] == trace.device_ops.end[0]
    assert trace.health.repaired >= 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (rb"C:\path\new", r"C:\path" + "\n" + "ew"),
        (rb"a\qb", r"a\qb"),
        (b'say "hi" twice', 'say "hi" twice'),
        (b"two\nlines", "two\nlines"),
        (b"tab\there", "tab\there"),
        (b"bell\x07 and \x01", "bell\x07 and \x01"),
        (b"caf\xe9", "caf\ufffd"),
        (rb"end\ ", "end\\ "),
        (rb"half \ud83d pair", "half \ufffd pair"),
        (rb"\u12", r"\u12"),
    ],
)
def test_damaged_names(read, written, meant):
    trace = read(
        kineto_text(kernels()).replace(b"kernel number 3", written, 1).replace(rb"end\ ", rb"end\ ")
    )
    found, repaired, lost, truncated = health(trace)
    assert (found, lost, truncated) == (KERNELS + 0, 0, False)
    assert repaired >= 1
    assert meant in trace.strings


def test_a_backslash_before_the_closing_quote(read):
    trace = read(kineto_text(kernels()).replace(b'kernel number 3"', b'C:\\dir\\"', 1))
    assert health(trace)[0] == KERNELS
    assert health(trace)[2] == 0
    assert "C:\\dir\\" in trace.strings


def test_one_damaged_name_costs_no_other_event(read):
    t = kernels(5000)
    content = kineto_text(t).replace(b'kernel number 2500"', b"kernel number 2500", 1)
    trace = read(content)
    assert len(trace.device_ops) + trace.health.lost == 5000
    assert trace.health.lost <= 1


@pytest.mark.parametrize("number", [2**64, 10**30, -(2**70)])
def test_integers_over_64_bits(read, number):
    t = kernels()
    t.rows[0]["args"] |= {"correlation": number, "Addr": number}
    trace = read(t.json())
    assert (len(trace.device_ops), trace.health.lost) == (KERNELS, 0)
    assert trace.device_ops.correlation[0] == -1
    assert trace.health.repaired >= 1


def test_duplicate_keys(read):
    content = (
        kernels()
        .json()
        .replace(b'"cat": "kernel"', b'"cat": "kernel", "cat": "kernel", "bytes": 1, "bytes": 2', 1)
    )
    assert health(read(content)) == (KERNELS, 0, 0, False)


def test_commas_too_many_and_too_few(read):
    content = kineto_text(kernels())
    assert health(read(content.replace(b"}\n  ],", b"},\n  ],")))[::2] == (KERNELS, 0)
    assert health(read(content.replace(b'"stream": 7\n', b'"stream": 7,\n', 3)))[::2] == (
        KERNELS,
        0,
    )
    assert health(read(content.replace(b"},\n  {", b"}\n  {", 3)))[::2] == (KERNELS, 0)


def test_a_missing_closing_bracket(read):
    content = json.dumps(kernels().rows).encode()
    assert health(read(content[:-1])) == (KERNELS, 0, 0, True)
    assert health(read(content[:-1] + b",\n")) == (KERNELS, 0, 0, True)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6))
@example(5396)
def test_a_file_cut_anywhere(tmp_path, where):
    content = kineto_text(kernels())
    cut = content[: where % len(content)]
    path = tmp_path / "cut.json"
    path.write_bytes(cut)
    whole = cut.count(b'"stream": 7\n    }\n  }')
    if whole:
        (trace,) = load([path]).traces
        assert len(trace.device_ops) == whole
        assert trace.health.lost <= 1
        assert trace.health.truncated == (b"\n  ]" not in cut)
    else:
        with pytest.raises(TraceAnalyzerError):
            load([path])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10**6), st.binary(min_size=1, max_size=6))
def test_any_bytes_anywhere(tmp_path, where, damage):
    """Whatever is written over: no traceback, no invented event, and few lost."""
    content = kineto_text(kernels())
    position = where % len(content)
    path = tmp_path / "damaged.json"
    path.write_bytes(content[:position] + damage + content[position + len(damage) :])
    try:
        (trace,) = load([path]).traces
    except TraceAnalyzerError as error:
        assert "\n" not in str(error)  # noqa: PT017
        return
    assert len(trace.device_ops) <= KERNELS
    assert len(trace.device_ops) >= KERNELS - 3 or trace.health.notes


@given(st.binary(max_size=300))
def test_any_text_as_a_chunk(text):
    decode(text)
    mend(text)


def test_two_ranks_written_into_one_file(read):
    """Two processes that write one file without a lock: pieces of one inside the other."""
    one = kineto_text(kernels(2000))
    other = kineto_text(kernels(2000))
    pieces = [text[i : i + 4096] for i in range(0, len(one), 4096) for text in (one, other)]
    trace = read(b"".join(pieces))
    assert len(trace.device_ops) > 2000
    assert trace.health.lost > 0
    assert trace.health.notes


def test_two_recordings_one_after_the_other(read):
    trace = read(kineto_text(kernels()) + b"\n" + kineto_text(kernels(7)))
    assert len(trace.device_ops) == KERNELS + 7
    assert "2 recordings" in " ".join(trace.health.notes)


@pytest.mark.parametrize("pids", [(100, 200), ("[TP00] 100", "[TP01] 100")])
def test_ranks_merged_into_one_file_are_told_apart(pids, tmp_path):
    """Both count their launches from one; devices are named after their processes."""
    t = KinetoTrace()
    for pid in pids:
        for i in range(4):
            row = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": pid}
            t.add(row | {"tid": 1, "ts": 10 * i, "dur": 2, "args": {"correlation": i + 1}})
            row = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": f"{pid} GPU", "tid": 7}
            args = {"correlation": i + 1, "device": 0, "stream": 7}
            t.add(row | {"ts": 10 * i + 5, "dur": 4, "args": args})
    traces = load([t.write(tmp_path / "merged.json")]).traces
    assert [trace.rank for trace in traces] == [0, 1]
    assert [len(trace.device_ops) for trace in traces] == [4, 4]


def test_events_of_two_processes_are_noted_and_not_clipped(read):
    t = kernels()
    t.rows[0]["dur"] = 1e6
    t.op("a", 0, 1)
    t.add(span("cpu_op", "b", 0, 1, 200, 200))
    trace = read(t.json())
    assert trace.health.clipped == 0
    assert "2 processes" in " ".join(trace.health.notes)


def test_times_as_text(read):
    t = kernels()
    for row in t.rows:
        row |= {"ts": f"{row['ts'] + 1712345678901234}.567", "dur": str(row["dur"])}
    trace = read(t.json())
    assert (len(trace.device_ops), trace.health.lost) == (KERNELS, 0)
    assert trace.device_ops.start[0] == 1712345678901234567
    assert trace.device_ops.end[0] == 1712345678901239567


@pytest.mark.parametrize("ts", [None, "soon", [1], {}, 1e300, True])
def test_an_event_without_a_time_is_lost(read, ts):
    trace = read(kernels(ts=ts).json())
    assert (len(trace.device_ops), trace.health.lost) == (KERNELS - 1, 1)


@pytest.mark.parametrize("key", ["pid", "tid", "cat", "name", "dur", "args", "ph"])
@pytest.mark.parametrize("value", [None, "", "x", -1, 1.5, [], {}, True, 2**70])
def test_any_value_of_any_key(read, key, value):
    trace = read(kernels(**{key: value}).json())
    assert len(trace.device_ops) >= KERNELS - 1
    assert trace.health.events + trace.health.lost == KERNELS


@pytest.mark.parametrize(
    "key", ["device", "stream", "correlation", "External id", "bytes", "Collective name"]
)
@pytest.mark.parametrize("value", [None, "", "7", -1, 1.5, [], {}, True, 2**70])
def test_any_value_of_any_argument(read, key, value):
    t = kernels()
    t.rows[0]["args"][key] = value
    trace = read(t.json())
    assert (len(trace.device_ops), trace.health.lost) == (KERNELS, 0)


def test_negative_and_zero_durations(read):
    t = kernels(dur=-3)
    t.rows[1]["dur"] = 0
    trace = read(t.json())
    assert (trace.device_ops.end - trace.device_ops.start).tolist()[:3] == [0, 0, 5000]
    assert trace.health.repaired == 1


def test_children_that_outlast_their_parents_and_equal_times(read):
    t = KinetoTrace()
    t.op("parent", 0, 10)
    t.op("child", 0, 12)
    t.op("twin", 0, 12)
    assert len(read(t.json()).host_ranges) == 3


def test_events_that_are_no_objects(read):
    content = kernels().json().replace(b'"traceEvents": [', b'"traceEvents": [null, 5, "text", ')
    trace = read(content)
    assert len(trace.device_ops) == KERNELS
    assert trace.health.lost == 3


def test_byte_order_mark(read):
    assert health(read(b"\xef\xbb\xbf" + kernels().json())) == (KERNELS, 0, 0, False)


def test_gzip_whatever_the_name(read):
    content = kernels().json()
    assert len(read(gzip.compress(content), "trace.json").device_ops) == KERNELS
    assert len(read(content, "trace.json.gz").device_ops) == KERNELS
    assert (
        len(read(gzip.compress(content[:99]) + gzip.compress(content[99:]), "a").device_ops)
        == KERNELS
    )


def test_gzip_cut_or_damaged(read):
    packed = gzip.compress(kineto_text(kernels(20000)))
    for content in (
        packed[:-40_000],
        packed[: len(packed) // 2] + b"\0" * 100 + packed[len(packed) // 2 + 100 :],
    ):
        trace = read(content)
        assert 0 < len(trace.device_ops) < 20000
        assert trace.health.truncated
        assert "ends early" in trace.health.notes[0]


def test_events_that_straddle_chunks(read):
    """Every event of a file of many chunks, whatever follows the array."""
    t = kernels(8000)
    t.metadata["deviceProperties"] = [{"id": i, "name": "GPU"} for i in range(8)]
    after = json.dumps({"traceEvents": t.rows} | t.metadata).encode()
    for content in (t.json(), after, kineto_text(t), t.json(indent=9)):
        assert health(read(content)) == (8000, 0, 0, False)


def test_one_event_larger_than_a_chunk(read):
    t = kernels()
    t.rows[3]["args"]["Python stack"] = "frame;" * 200_000
    assert health(read(t.json())) == (KERNELS, 0, 0, False)


def test_a_long_stretch_of_garbage(read):
    content = kineto_text(kernels()).replace(
        b"},\n  {", b"},\n" + b"\0garbage" * 4_000_000 + b"  {", 1
    )
    trace = read(content)
    assert len(trace.device_ops) == KERNELS - 1 or trace.health.lost
    assert len(trace.device_ops) >= KERNELS - 2


@pytest.mark.parametrize("count", [3, 300, 4000])
def test_nested_objects_in_arguments(read, count):
    t = kernels(count)
    for row in t.rows:
        row["args"]["inner"] = [{"name": "a", "x": [{"ph": "X"}]}, {"name": "b"}]
    content = json.dumps(t.metadata | {"traceEvents": t.rows}, separators=(",", ":")).encode()
    trace = read(content)
    assert health(trace) == (count, 0, 0, False)


def test_rows_that_repair_would_merge_are_reported(monkeypatch):
    """A repair that swallows an event must not pass unnoticed."""
    monkeypatch.setattr(
        kineto_repair, "mend", lambda _: b'{"ph": "X", "name": "all", "ts": 1, "dur": 1}'
    )
    found = decode(b'{"ph": "X", "name": "a" b", "ts": 1}, {"ph": "X", "name": "c" d", "ts": 2}, 7')
    assert found.lost + len(found.events) >= 2


def test_nothing_readable_in_it(read):
    with pytest.raises(UnreadableInputError, match="damaged or cut off"):
        read(b'{"schemaVersion": 1, "traceEvents": [ {"ph": "X", "name": ')
    with pytest.raises(UnreadableInputError, match="traceEvents"):
        read(b'{"schemaVersion": 1, "deviceProperties": []}')


def test_metadata_damaged_or_missing(read):
    content = (
        kernels()
        .rank(5)
        .json()
        .replace(b'"schemaVersion": 1', b'"name": "C:\\dir", "schemaVersion" 1')
    )
    trace = read(content)
    assert (trace.rank, len(trace.device_ops)) == (5, KERNELS)
    cut = kernels().rank(6).json()
    assert read(cut[:-200]).rank == 6
