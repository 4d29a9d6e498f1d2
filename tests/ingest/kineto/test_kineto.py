"""What a Kineto trace becomes: every era, vendor and kind of row, on traces written by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kineto_builder import KinetoTrace, span
from traceanalyzer.base.errors import EmptyRecordingError
from traceanalyzer.ingest import load
from traceanalyzer.ingest.durations import clip_impossible
from traceanalyzer.ingest.kineto.names import copy_ends, copy_kind, overhead_kind, wait_kind
from traceanalyzer.ingest.kineto.times import durations_ns, exact_ns, starts_ns
from traceanalyzer.trace import (
    CopyKind,
    DeviceOpKind,
    MemoryKind,
    OverheadKind,
    RangeKind,
    Trace,
    WaitKind,
)


@pytest.fixture
def read(tmp_path):
    def read(trace: KinetoTrace | bytes, name: str = "trace.json") -> Trace:
        path = tmp_path / name
        if isinstance(trace, bytes):
            path.write_bytes(trace)
        else:
            trace.write(path)
        (result,) = load([path]).traces
        return result

    return read


def names(trace: Trace, table) -> list[str]:
    return [trace.strings[code] for code in table.name]


def test_device_work_its_call_and_the_op_around_it(read):
    t = KinetoTrace()
    t.op(
        "aten::mm",
        1,
        20,
        External_id=7,
        Sequence_number=3,
        Input_Dims=[[2, 3], []],
        Input_type=["float", "Scalar"],
    )
    t.launched("gemm", 2, 30, 4.5, graph=1)
    t.rows[-1]["args"] |= {"External id": 7, "graph id": 12, "graph node id": 99}
    trace = read(t)
    ops = trace.device_ops
    calls = trace.api_calls
    ranges = trace.host_ranges
    assert names(trace, ops) == ["gemm"]
    assert (ops.kind[0], ops.start[0], ops.end[0]) == (DeviceOpKind.KERNEL, 30_000, 34_500)
    assert (ops.device[0], ops.context[0], ops.stream[0], ops.correlation[0]) == (0, 1, 7, 1)
    assert (ops.external_id[0], ops.graph[0], ops.bytes[0], ops.collective[0]) == (7, 12, -1, -1)
    assert (calls.correlation[0], calls.start[0], calls.end[0]) == (1, 2_000, 7_000)
    assert (ranges.external_id[0], ranges.sequence[0], ranges.forward_thread[0]) == (7, 3, 0)
    assert json.loads(trace.text(ranges.shapes[0])) == [[2, 3], []]
    assert json.loads(trace.text(ranges.dtypes[0])) == ["float", "Scalar"]
    assert trace.threads[ranges.thread[0]] == trace.threads[calls.thread[0]]
    assert trace.collected.shapes


@pytest.mark.parametrize(
    ("category", "table"),
    [
        ("Kernel", "device_ops"),
        ("Memcpy", "device_ops"),
        ("Memset", "device_ops"),
        ("Runtime", "api_calls"),
        ("cuda_driver", "api_calls"),
        ("mtia_runtime", "api_calls"),
        ("privateuse1_runtime", "api_calls"),
        ("privateuse1_driver", "api_calls"),
        ("xpu_runtime", "api_calls"),
        ("Operator", "host_ranges"),
        ("cpu_op", "host_ranges"),
        ("python_function", "host_ranges"),
    ],
)
def test_categories_of_every_era_and_vendor(read, category, table):
    t = KinetoTrace()
    t.op("aten::add", 0, 1)
    t.add(span(category, "x", 5, 1, device=0, stream=3))
    assert names(read(t), getattr(read(t), table))[-1] == "x"


def test_a_bare_array_and_metadata_after_the_events(read):
    t = KinetoTrace()
    t.kernel("k", 1, 1)
    assert len(read(json.dumps(t.rows).encode()).device_ops) == 1
    late = {
        "traceEvents": t.rows,
        "distributedInfo": {"rank": 3, "world_size": 8},
        "baseTimeNanoseconds": 17,
    }
    late |= {
        "deviceProperties": [
            {"id": 0, "name": "MI300X", "numSms": 304},
            {"id": 1, "name": "MI300X"},
        ]
    }
    trace = read(json.dumps(late).encode())
    assert (trace.rank, trace.process.world_size, trace.epoch_ns) == (3, 8, 17)
    assert [d.name for d in trace.devices] == ["MI300X", "MI300X"]
    assert not trace.health.truncated


def test_no_rank_no_host_rows(read):
    t = KinetoTrace()
    t.kernel("k", 1, 1)
    trace = read(t)
    assert trace.rank is None
    assert trace.collected.device
    assert not trace.collected.api
    assert not trace.collected.ops


def test_a_recording_of_the_cpu_alone(read):
    t = KinetoTrace()
    t.op("aten::add", 1, 1)
    trace = read(t)
    assert len(trace.host_ranges) == 1
    assert not trace.collected.device


def test_devices_without_stream_or_grid(read):
    """XPU rows say neither; the device is the row's process."""
    t = KinetoTrace()
    t.add(span("kernel", "gemm", 1, 1, 2, 55, correlation=4))
    ops = read(t).device_ops
    assert (ops.device[0], ops.stream[0], ops.correlation[0]) == (2, -1, 4)


def test_stream_zero_is_a_stream(read):
    t = KinetoTrace()
    t.kernel("Cijk_Ailk", 1, 1, stream=0)
    t.api("hipLaunchKernel", 0, 1, 1)
    assert read(t).device_ops.stream[0] == 0


def test_calls_of_modules_among_the_operators_are_frames_and_no_stacks(read):
    t = KinetoTrace()
    t.op("nn.Module: Linear_0", 0, 10)
    t.op("aten::mm", 1, 5)
    trace = read(t)
    assert trace.host_ranges.kind.tolist() == [RangeKind.PYTHON, RangeKind.OP]
    assert not trace.collected.stacks


def test_what_lies_on_the_device_but_is_not_work(read):
    t = KinetoTrace()
    t.kernel("k", 1, 1)
    t.device_op("gpu_user_annotation", "ProfilerStep#1", 0, 50)
    t.device_op(
        "cuda_sync", "Stream Wait Event", 3, 4, cuda_sync_kind="Stream Wait Event", correlation=9
    )
    t.rows[-1]["args"] |= {"wait_on_stream": 20, "wait_on_cuda_event_id": 138}
    t.device_op("cuda_sync", "Context Sync", 5, 4, stream=-1)
    t.add(span("overhead", "Command Buffer Full", 9, 2, -1, 0))
    trace = read(t)
    assert len(trace.device_ops) == 1
    assert names(trace, trace.device_ranges) == ["ProfilerStep#1"]
    waits = trace.waits
    assert waits.kind.tolist() == [WaitKind.STREAM_WAIT_EVENT, WaitKind.CONTEXT_SYNC]
    assert (waits.stream.tolist(), waits.source_stream.tolist(), waits.event.tolist()) == (
        [7, -1],
        [20, -1],
        [138, -1],
    )
    assert trace.overheads.kind.tolist() == [OverheadKind.BACK_PRESSURE]
    assert trace.collected.sync_events


def test_allocator_events(read):
    t = KinetoTrace()
    t.op("aten::empty", 0, 2)
    for device_type, size in ((1, 512), (0, -64)):
        args = {"Total Reserved": 2048, "Total Allocated": 1024, "Bytes": size, "Addr": 2**64 - 1}
        args |= {"Device Id": 3, "Device Type": device_type}
        t.add(
            {
                "ph": "i",
                "cat": "cpu_instant_event",
                "s": "t",
                "name": "[memory]",
                "ts": 1,
                "args": args,
            }
        )
    trace = read(t)
    memory = trace.memory_events
    assert (memory.bytes.tolist(), memory.device.tolist()) == ([512, -64], [3, -1])
    assert (memory.allocated.tolist(), memory.reserved.tolist()) == ([1024, 1024], [2048, 2048])
    assert trace.collected.memory


@pytest.mark.parametrize("carrier", ["op", "kernel"])
def test_collective_metadata_on_the_op_or_on_the_kernel(read, carrier):
    args = {
        "Collective name": "allreduce",
        "In msg nelems": 10,
        "Out msg nelems": 10,
        "dtype": "Float",
        "Group size": 2,
    }
    args |= {
        "Process Group Name": "0",
        "Process Group Description": "default_pg",
        "Process Group Ranks": "[0, 1]",
    }
    t = KinetoTrace()
    t.op("record_param_comms", 0, 1)
    t.kernel("ncclDevKernel_AllReduce", 1, 1)
    t.rows[0 if carrier == "op" else 1]["args"] |= args
    trace = read(t)
    table = trace.host_ranges
    other = trace.device_ops
    if carrier == "kernel":
        table, other = other, table
    row = trace.collectives.take(table.collective)
    assert other.collective.tolist() == [-1]
    assert [trace.text(c[0]) for c in (row.name, row.dtype, row.group, row.ranks)] == [
        "allreduce",
        "Float",
        "default_pg",
        "[0, 1]",
    ]
    assert (row.in_elements[0], row.group_size[0]) == (10, 2)


def test_python_calls_and_the_window_and_names(read):
    t = KinetoTrace()
    t.python("train.py(3): step", 0, 10)
    t.name_process("python3")
    t.name_thread("main loop")
    t.window(0, 99.5)
    trace = read(t)
    assert trace.host_ranges.kind.tolist() == [RangeKind.PYTHON]
    assert trace.collected.stacks
    assert (trace.process.pid, trace.process.name, trace.threads[0].name) == (
        100,
        "python3",
        "main loop",
    )
    assert trace.window == (0, 99_500)


def test_text_pids_and_tids(read):
    t = KinetoTrace()
    t.op("a", 0, 1)
    t.add(span("user_annotation", "b", 1, 1, "Spans", "PyTorch Profiler"))
    t.add(span("user_annotation", "c", 2, 1, "", ""))
    trace = read(t)
    assert [trace.threads[i].tid for i in trace.host_ranges.thread] == [
        "100",
        "PyTorch Profiler",
        "",
    ]
    assert trace.process.pid == 100


def test_copies_say_direction_memory_and_bytes(read):
    t = KinetoTrace()
    t.copy("HtoD (Pinned -> Device)", 1, 1, bytes=4096)
    ops = read(t).device_ops
    assert (ops.copy_kind[0], ops.bytes[0]) == (CopyKind.HOST_TO_DEVICE, 4096)
    assert (ops.source_memory[0], ops.target_memory[0]) == (MemoryKind.PINNED, MemoryKind.DEVICE)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("Memcpy DtoH (Device -> Pageable)", CopyKind.DEVICE_TO_HOST),
        ("Memcpy DtoD (Device -> Device)", CopyKind.DEVICE_TO_DEVICE),
        ("Memcpy PtoP (Device -> Device)", CopyKind.PEER_TO_PEER),
        ("Memcpy HtoH (Pinned -> Pageable)", CopyKind.HOST_TO_HOST),
        ("CopyHostToDevice", CopyKind.HOST_TO_DEVICE),
        ("CopyDeviceToHost", CopyKind.DEVICE_TO_HOST),
        ("CopyDeviceToDevice", CopyKind.DEVICE_TO_DEVICE),
        ("hipMemcpyDeviceToHost", CopyKind.DEVICE_TO_HOST),
        ("Memcpy (Unknown -> Device)", CopyKind.UNKNOWN),
    ],
)
def test_directions_of_copies(name, kind):
    assert copy_kind(name) == kind


def test_ends_of_copies():
    assert copy_ends("Memcpy DtoH (Device -> Pageable)") == (MemoryKind.DEVICE, MemoryKind.PAGEABLE)
    assert copy_ends("Memcpy HtoD (Managed -> Array)") == (MemoryKind.MANAGED, MemoryKind.ARRAY)
    assert copy_ends("CopyHostToDevice") == (MemoryKind.UNKNOWN, MemoryKind.UNKNOWN)


def test_overheads_and_waits_by_name():
    assert overhead_kind("Activity Buffer Request") == OverheadKind.PROFILER
    assert overhead_kind("Instrumentation") == OverheadKind.PROFILER
    assert overhead_kind("Resource") == OverheadKind.PROFILER
    assert overhead_kind("Lazy Function Loading") == OverheadKind.DRIVER
    assert overhead_kind("Runtime Triggered Module Loading") == OverheadKind.DRIVER
    assert wait_kind("Event Synchronize") == WaitKind.EVENT_SYNC
    assert wait_kind("Stream Sync") == WaitKind.STREAM_SYNC
    assert wait_kind("?") == 0


def test_absolute_microseconds_are_exact(read):
    """Torch 2.2 writes wall-clock microseconds with decimals: a float is off by up to 253 ns."""
    t = KinetoTrace()
    t.kernel("k", 0, 0.001)
    content = t.json().replace(b'"ts": 0', b'"ts": 1712345678901234.567')
    ops = read(content).device_ops
    assert (ops.start[0], ops.end[0]) == (1712345678901234567, 1712345678901234568)


@given(st.lists(st.decimals(-(10**15) * 2, 10**15 * 4, places=3), min_size=1, max_size=5))
def test_times_with_three_decimals_are_exact(values):
    assert starts_ns([str(v).encode() for v in values]).tolist() == [int(v * 1000) for v in values]


@given(st.decimals(0, 10**10, places=3))
def test_durations_are_exact(value):
    lengths, bad = durations_ns([float(value)])
    assert (lengths[0], bad) == (int(value * 1000), 0)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        (b"5", 5000),
        (b"5.", 5000),
        (b"1.5e3", 1_500_000),
        (b'"12.25"', 12_250),
        (b"-3.5", -3500),
        (b"1.2344", 1234),
    ],
)
def test_times_in_every_notation(text, ns):
    assert exact_ns(text) == ns


@pytest.mark.parametrize(
    "text", [b"null", b"", b'"x"', b"1e400", b"NaN", b"Infinity", b"[1]", b"true"]
)
def test_what_is_not_a_time(text):
    with pytest.raises(ValueError, match="not a time"):
        exact_ns(text)


def test_flows_and_counters_are_skipped_and_counted(read):
    t = KinetoTrace()
    t.kernel("k", 1, 1)
    t.add({"ph": "s", "id": 1, "pid": 1, "tid": 1, "ts": 1, "cat": "ac2g", "name": "ac2g"})
    t.add({"ph": "C", "name": "counter", "ts": 1, "args": {"value": 1}})
    t.add(span("something_new", "x", 1, 1))
    health = read(t).health
    assert (health.events, health.skipped, health.lost, health.repaired) == (4, 3, 0, 0)


def test_impossible_durations_are_clipped_and_counted(read):
    t = KinetoTrace()
    for i in range(20):
        t.kernel(f"k{i}", 100 * i, 50)
    t.rows[4]["dur"] = 5e9
    t.rows[9]["dur"] = 1030
    trace = read(t)
    assert trace.health.clipped == 2
    assert "impossible" in " ".join(trace.health.notes)
    assert len(trace.device_ops) == 20
    assert (trace.device_ops.end - trace.device_ops.start)[[4, 9]].tolist() == [100_000, 100_000]


@pytest.mark.parametrize("marker", ["span", "instant"])
def test_an_impossible_last_kernel_ends_with_the_recording(read, marker):
    t = KinetoTrace()
    t.kernel("a", 0, 10)
    t.kernel("b", 20, 1e9)
    if marker == "span":
        t.window(0, 100)
    else:
        t.add({"ph": "i", "s": "g", "name": "Record Window End", "pid": "", "tid": "", "ts": 100})
    trace = read(t)
    assert trace.health.clipped == 1
    assert trace.device_ops.end.max() == 100_000


def clip(rows: list[tuple[int, int, int, int]]) -> tuple[list[int], int]:
    """Rows of start, end, stream, correlation."""
    start, end, stream, correlation = (np.array(c, np.int64) for c in zip(*rows, strict=True))
    zero = np.zeros(len(rows), np.int64)
    columns = {"start": start, "end": end, "stream": stream, "correlation": correlation}
    ends, clipped = clip_impossible(columns | {"device": zero, "context": zero}, None)
    return ends.tolist(), int(clipped.sum())


@pytest.mark.parametrize(
    "rows",
    [
        [(0, 80_000, 7, 1), (76_000, 90_000, 7, 2)],
        [(0, 10_050, 0, 1), (10_000, 20_000, 0, 2)],
        [(0, 90_000, 7, 1), (30_000, 95_000, 7, 2)],
        [(0, 9_000_000, 7, 5), (10, 50, 7, 5), (60, 90, 7, 5)],
        [(0, 9_000_000, 7, 1), (10, 50, 8, 2)],
        [(0, 9_000_000, -1, 1), (10, 50, -1, 2)],
        [(5, 9_000_000, 7, 1), (5, 9_000_000, 7, 2)],
    ],
    ids=[
        "split-k",
        "rocm",
        "programmatic launch",
        "one graph",
        "other stream",
        "no stream",
        "same start",
    ],
)
def test_overlaps_that_are_real_are_left(rows):
    assert clip(rows) == ([row[1] for row in rows], 0)


intervals = st.lists(
    st.tuples(st.integers(0, 10**7), st.integers(0, 10**9), st.integers(-1, 2), st.integers(0, 4)),
    min_size=1,
)


@given(intervals)
def test_clipping_never_lengthens_and_never_turns_back(rows):
    spans = [
        (start, start + length, stream, correlation) for start, length, stream, correlation in rows
    ]
    ends, count = clip(spans)
    assert all(start <= end <= old for (start, old, *_), end in zip(spans, ends, strict=True))
    assert count == sum(end != old for (_, old, *_), end in zip(spans, ends, strict=True))


def test_a_clock_that_disagrees_is_noted(read):
    t = KinetoTrace()
    for i in range(10):
        t.launched("k", 100.0 * i + 50, 100 * i, 10)
    assert "clocks of host and device disagree" in " ".join(read(t).health.notes)


def test_a_recording_of_nothing(read):
    with pytest.raises(EmptyRecordingError, match="ProfilerActivity") as caught:
        read(b'{"schemaVersion": 1, "traceEvents": []}')
    assert "\n" not in str(caught.value)
