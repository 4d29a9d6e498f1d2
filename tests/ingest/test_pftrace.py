# ruff: noqa: S311, PT017 damage by chance, from a seed; either outcome is right, but an error has one line
"""torch.profiler's `.pftrace`: by hand, against the JSON of the same run, cut and damaged."""

from __future__ import annotations

import gzip
import random
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from tests.pftrace_builder import BASE_NS, Pftrace
from tests.protobuf import message, parse
from traceanalyzer.analysis.causes.start import find_starts
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base.errors import EmptyRecordingError, TraceAnalyzerError, UnreadableInputError
from traceanalyzer.ingest import load, pftrace, xplane
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import DeviceOpKind, RangeKind, WaitKind

DATA = Path(__file__).parents[1] / "data" / "pftrace"
BERT = DATA / "torch215_h100_bert.pftrace.gz"
GRAPH = DATA / "torch215_graph_synthetic.pftrace.gz"
LOST = {
    "device_ops": {
        "name",
        "external_id",
        "copy_kind",
        "source_memory",
        "target_memory",
        "shared_bytes",
        "occupancy",
    },
}
"""What the format does not have."""


def read(folder, data, name="run.pftrace"):
    path = folder / name
    path.write_bytes(bytes(data))
    (trace,) = load([path]).traces
    return trace


def small() -> Pftrace:
    made = Pftrace()
    made.host(
        ("user_annotation", "ProfilerStep#1", 0, 900_000, {"External id": 1}),
        (
            "cpu_op",
            "aten::mm",
            10_000,
            60_000,
            {"External id": 2, "Input Dims": [[4, 8], [8, 2], []]},
        ),
        ("cuda_runtime", "cudaLaunchKernel", 20_000, 30_000, {"cbid": 211, "correlation": 5}),
        (
            "",
            "Stream Wait Event",
            40_000,
            41_000,
            {"cuda_sync_kind": "Stream Wait Event", "device": 0, "stream": 9},
        ),
    )
    made.host(("", "Buffer Flush", 500_000, 510_000, {}), lane=(2**31 - 1, 0, "Overhead"))
    made.stage(
        1,
        "gemm",
        50_000,
        90_000,
        device_id=0,
        stream_id=7,
        context_id=1,
        correlation=5,
        arch="sm_103",
    )
    made.stage(2, "", 95_000, 99_000, device_id=0, stream_id=7, bytes=4096, correlation=6)
    made.stage(4, "ProfilerStep#1", 50_000, 99_000, device_id=0, stream_id=7)
    made.stage(5, "", 99_000, 99_100, device_id=0, stream_id=7)
    return made


def test_what_a_hand_made_trace_says(tmp_path):
    trace = read(tmp_path, small())
    ops = trace.device_ops
    assert (trace.source, trace.epoch_ns) == ("pftrace", BASE_NS)
    assert [trace.text(code) for code in ops.name] == ["gemm", "Memcpy"]
    assert ops.kind.tolist() == [DeviceOpKind.KERNEL, DeviceOpKind.MEMCPY]
    assert (ops.start.tolist(), ops.end.tolist()) == ([50_000, 95_000], [90_000, 99_000])
    assert (ops.blocks[0], ops.threads[0], ops.registers[0], ops.shared_bytes[0]) == (
        8,
        128,
        40,
        -1,
    )
    assert (ops.stream.tolist(), ops.correlation.tolist(), ops.bytes.tolist()) == (
        [7, 7],
        [5, 6],
        [-1, 4096],
    )
    assert trace.devices[0].compute_capability == (10, 3)
    assert [trace.text(code) for code in trace.host_ranges.shapes] == [None, "[[4, 8], [8, 2], []]"]
    assert trace.api_calls.correlation.tolist() == [5]
    assert trace.waits.kind.tolist() == [WaitKind.STREAM_WAIT_EVENT]
    assert [trace.text(code) for code in trace.overheads.name] == ["Buffer Flush"]
    assert len(trace.device_ranges) == 1
    assert trace.health.skipped == 1  # a record of an event is no work
    assert any("direction of copies" in note for note in trace.health.notes)


def test_the_first_end_is_that_of_the_first_begin(tmp_path):
    """A stack would give the inner operator the outer one's end, by file order as well as by
    time."""
    made = small()
    made.host(
        ("cpu_op", "outer", 100, 200, {}),
        ("cpu_op", "inner", 100, 200, {}),
        ("cpu_op", "late", 200, 300, {}),
    )
    trace = read(tmp_path, made)
    ranges = trace.host_ranges
    found = {
        trace.text(n): (s, e) for n, s, e in zip(ranges.name, ranges.start, ranges.end, strict=True)
    }
    assert (found["outer"], found["inner"], found["late"]) == ((100, 200), (100, 200), (200, 300))


def test_a_run_that_lost_a_packet_does_not_shift_the_next(tmp_path):
    made = small()
    made.host(("cpu_op", "a", 1000, 2000, {}), ("cpu_op", "b", 3000, 4000, {}))
    made.packets.pop()
    made.host(("cpu_op", "c", 5000, 6000, {}))
    trace = read(tmp_path, made)
    lengths = {
        trace.text(n): int(e - s) for n, s, e in zip(*columns(trace.host_ranges), strict=True)
    }
    assert ("b" in lengths, lengths["a"], lengths["c"], trace.health.lost) == (False, 1000, 1000, 1)


def columns(table):
    return table.name, table.start, table.end


def test_counters_by_unit_and_without_what_is_no_measurement(tmp_path):
    made = small()
    for name, value in (
        ("SM Active (%)", 50.0),
        ("Power (W)", 650.2),
        ("Cycles (Current Kernel)", 9.0),
    ):
        made.sample(name, 60_000, value)
    trace = read(tmp_path, made)
    metrics = trace.gpu_metrics
    found = [
        (trace.text(n), int(d), int(v))
        for n, d, v in zip(metrics.name, metrics.device, metrics.value, strict=True)
    ]
    assert found == [("SM Active [%]", 0, 50), ("Power [W]", 0, 650)]


def test_names_begin_again_where_the_file_says_so(tmp_path):
    second = Pftrace()
    second.host(("cpu_op", "aten::other", 2_000_000, 2_100_000, {}))
    trace = read(tmp_path, bytes(small()) + bytes(second))
    assert "aten::other" in {trace.text(code) for code in trace.host_ranges.name}


def test_a_pair_of_one_run_says_the_same():
    """The JSON and the `.pftrace` of one run: all rows, but for what the format does not have."""
    (json_,), (packets,) = (
        load([path]).traces for path in (DATA / "torch_h100_bert.json.gz", BERT)
    )
    for name in ("device_ops", "api_calls", "host_ranges", "waits", "overheads", "gpu_metrics"):
        one = getattr(json_, name)
        other = getattr(packets, name)
        assert len(one) == len(other)
        for column in fields(one):
            if column.name in LOST.get(name, ()):
                continue
            a, b = (getattr(table, column.name).tolist() for table in (one, other))
            if column.metadata["text"]:
                a = [json_.text(code) for code in a]
                b = [packets.text(code) for code in b]
            assert a == b, (name, column.name)
    assert (json_.epoch_ns, json_.process.pid, json_.threads) == (
        packets.epoch_ns,
        packets.process.pid,
        packets.threads,
    )


def test_a_pair_of_one_run_has_the_same_report():
    reports = [build_report(load([path])) for path in (DATA / "torch_h100_bert.json.gz", BERT)]
    one, other = reports
    assert one.summary.bottleneck == other.summary.bottleneck
    assert [device.busy_ms for device in one.devices] == [
        device.busy_ms for device in other.devices
    ]
    for name in ("step_time_ms", "kernels_per_step", "launches_per_step"):
        assert getattr(one.metrics, name) == getattr(other.metrics, name)


def raw_figures(path):
    """Kernels, copies, busy and span of the devices, and slices of the host: straight from the
    packets."""
    stages = []
    spans = []
    slices = 0
    names: dict[object, object] = {}
    for _, packet in parse(gzip.decompress(path.read_bytes())):
        found = dict(parse(packet))
        for _, entry in [e for e in parse(found.get(12, b"")) if e[0] == 24]:
            spec = dict(parse(entry))
            names[spec[1]] = spec[2]
        if 53 in found:
            event = dict(parse(found[53]))
            stages.append(names[event[14]])
            spans.append((found[8], found[8] + event.get(2, 0)))
        slices += dict(parse(found.get(11, b""))).get(9) == 1
    busy = 0
    reach = 0
    for start, end in sorted(spans):
        busy += max(end - max(start, reach), 0)
        reach = max(reach, end)
    return stages.count(b"Kernel"), stages.count(b"Memcpy"), busy, reach - min(spans)[0], slices


@pytest.mark.parametrize(
    ("path", "golden"),
    [(BERT, (60, 1, 309_437, 3_907_825, 1997)), (GRAPH, (425, 0, 10_674_517, 10_699_981, 1105))],
    ids=["bert", "graph"],
)
def test_figures_are_those_of_the_packets(path, golden):
    (trace,) = load([path]).traces
    ops = trace.device_ops
    counts = np.bincount(trace.device_ops.kind, minlength=3)
    busy = 0
    reach = 0
    for start, end in sorted(zip(ops.start.tolist(), ops.end.tolist(), strict=True)):
        busy += max(end - max(start, reach), 0)
        reach = max(reach, end)
    slices = len(trace.api_calls) + len(trace.host_ranges) + len(trace.waits) + len(trace.overheads)
    found = int(counts[1]), int(counts[2]), busy, int(ops.end.max() - ops.start.min()), slices
    assert found == golden == raw_figures(path)


def test_edges_of_a_graph_are_what_its_ops_wait_for(tmp_path):
    made = Pftrace()
    made.host(("cuda_runtime", "cudaGraphLaunch", 0, 5_000, {"correlation": 5}))
    node = {"correlation": 5, "graph_id": 1}
    made.stage(1, "a", 10_000, 20_000, stream_id=7, graph_node_id=1, **node)
    made.stage(1, "b", 10_000, 90_000, stream_id=8, graph_node_id=2, **node)
    first = len(made.packets) - 1
    made.stage(
        1,
        "c",
        120_000,
        130_000,
        stream_id=7,
        graph_node_id=3,
        waits=(first, first + 1, 999),
        **node,
    )
    trace = read(tmp_path, made)
    assert list(
        zip(trace.graph_edges.op.tolist(), trace.graph_edges.after.tolist(), strict=True)
    ) == [(2, 0), (2, 1)]
    assert trace.device_ops.external_id.tolist() == [-1, -1, -1]
    found = find_starts(Linked(trace)).dependencies
    assert (found.awaited.tolist()[2], found.delay.tolist()[2]) == (1, 30_000)


def test_graph_nodes_and_counters_of_the_encoder():
    (trace,) = load([GRAPH]).traces
    inside = trace.device_ops.graph == 5
    assert sorted(trace.device_ops.graph_node[inside].tolist()) == list(range(1, 422))
    assert len(trace.graph_edges) == 420
    assert (trace.graph_edges.op - trace.graph_edges.after == 1).all()
    assert len(trace.gpu_metrics) == 44
    assert not any("Cycles" in (trace.text(code) or "") for code in trace.gpu_metrics.name)


@pytest.mark.parametrize("share", [0.9, 0.999])
def test_a_cut_file_is_read_as_far_as_it_goes(tmp_path, share):
    data = gzip.decompress(BERT.read_bytes())
    trace = read(tmp_path, data[: int(len(data) * share)])
    assert trace.health.truncated
    assert any("ends early" in note for note in trace.health.notes)
    assert len(trace.host_ranges) > 1000


@pytest.mark.parametrize("share", [0.001, 0.05, 0.5])
def test_a_file_cut_before_the_first_end_says_nothing(tmp_path, share):
    data = gzip.decompress(BERT.read_bytes())
    with pytest.raises(UnreadableInputError, match="damaged Perfetto trace"):
        read(tmp_path, data[: int(len(data) * share)])


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_costs_events_not_the_answer(tmp_path, seed):
    data = bytearray(gzip.decompress(BERT.read_bytes()))
    dice = random.Random(seed)
    for _ in range(dice.choice((1, 30, 3000))):
        data[dice.randrange(len(data))] = dice.randrange(256)
    read_or_refused(tmp_path, data)


def read_or_refused(folder, data):
    try:
        build_report(load([_written(folder, data)]))
    except TraceAnalyzerError as error:
        assert "\n" not in str(error)


def _written(folder, data):
    path = folder / "spoilt.pftrace"
    path.write_bytes(bytes(data))
    return path


@pytest.mark.parametrize("seed", range(3))
def test_random_bytes_after_a_sound_beginning(tmp_path, seed):
    data = bytes(small()) + random.Random(seed).randbytes(100_000)
    trace = read(tmp_path, data)
    assert trace.health.truncated
    assert len(trace.device_ops) == 2


def test_lists_within_lists_without_an_end(tmp_path):
    value: object = 1
    for _ in range(200):
        value = [value]
    made = small()
    made.host(("cpu_op", "deep", 0, 10, {"Input Dims": value}))
    trace = read(tmp_path, made)
    assert trace.health.lost > 0
    assert len(trace.device_ops) == 2


def test_a_packet_without_an_end_is_not_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr("traceanalyzer.ingest.pftrace.reader._MOST_BYTES", 100_000)
    trace = read(tmp_path, bytes(small()) + b"\x0a" + b"\xff" * 6 + b"\x01" + bytes(3_000_000))
    assert any("longer than packets are" in note for note in trace.health.notes)


def other_perfetto(*categories):
    names = [(1, message((1, i), (2, name))) for i, name in enumerate(categories, 1)]
    packets = [
        message((8, 5), (10, 1), (12, message(*names))),
        message((8, 6), (10, 1), (11, message((9, 1), (3, 1)))),
    ]
    return message(*((1, packet) for packet in packets))


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (other_perfetto("kernel_dispatch", "hip_api"), UnreadableInputError, "rocprofv3.*rocpd"),
        (other_perfetto("sched"), EmptyRecordingError, "not torch.profiler's"),
    ],
)
def test_traces_of_others_are_refused_by_name(tmp_path, data, error, words):
    with pytest.raises(error, match=words):
        read(tmp_path, data)


def test_conversion_to_text_is_named(tmp_path):
    data = gzip.decompress(BERT.read_bytes()).decode("utf-8", "replace").encode()
    with pytest.raises(UnreadableInputError, match="conversion to text"):
        read(tmp_path, data)
    with pytest.raises(UnreadableInputError, match="conversion to text"):
        read(tmp_path, BERT.read_bytes().decode("utf-8", "replace").encode(), "run.pftrace.gz")


def test_other_files_are_not_taken_for_it(tmp_path):
    for text in (
        b"\nstep 1 took 5 ms\nstep 2 took 6 ms\n",
        b"\x0a\x05hello",
        b"\x0a\xff\xff\xff",
        b"\x0a",
    ):
        assert not any(form.recognise(text, tmp_path) for form in (pftrace, xplane))


def test_the_range_kinds(tmp_path):
    trace = read(tmp_path, small())
    assert sorted(trace.host_ranges.kind.tolist()) == [RangeKind.OP, RangeKind.ANNOTATION]
