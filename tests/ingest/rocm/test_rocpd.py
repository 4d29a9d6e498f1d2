"""Databases of rocprofv3: every layout of the schema, merged files, damage, and what a file of a
stranger may try."""

from __future__ import annotations

import random
import shutil
import sqlite3
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.rocpd_builder import SCHEMAS, Rocpd, small_run
from traceanalyzer.base.errors import EmptyRecordingError, UnreadableInputError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.trace import CopyKind, DeviceOpKind, RangeKind, Trace


def only(path: Path) -> Trace:
    (trace,) = load([path]).traces
    return trace


@pytest.mark.parametrize("keyless", [False, True], ids=["keyed", "keyless"])
@pytest.mark.parametrize("schema", SCHEMAS)
def test_every_layout_gives_the_same_trace(tmp_path: Path, schema: str, keyless: bool) -> None:
    trace = only(small_run(schema, keyless=keyless).write(tmp_path / "run.db"))
    ops = trace.device_ops
    assert [trace.text(code) for code in ops.name] == ["gemm", "softmax", "Memcpy DtoH"] * 2
    assert ops.kind.tolist() == [DeviceOpKind.KERNEL, DeviceOpKind.KERNEL, DeviceOpKind.MEMCPY] * 2
    assert ops.device.tolist() == [0, 0, 0, 1, 1, 1]
    assert (ops.end - ops.start).tolist() == [190_000, 120_000, 270_000] * 2
    assert ops.copy_kind.tolist() == [0, 0, CopyKind.DEVICE_TO_HOST] * 2
    assert ops.bytes.tolist() == [-1, -1, 4096] * 2
    assert ops.blocks.tolist()[:2] == [8, 8]  # 1,024 by 2 work items in groups of 256
    assert ops.threads.tolist()[:2] == [256, 256]
    assert ops.shared_bytes.tolist()[0] == 512
    calls = {
        trace.text(code): i
        for code, i in zip(trace.api_calls.name, trace.api_calls.correlation, strict=True)
    }
    assert calls == {
        "hipLaunchKernel": 102,
        "hipGraphLaunch": 103,
        "hipMemcpyWithStream": 105,
        "hipStreamSynchronize": 106,
    }
    assert ops.correlation.tolist() == [
        2,
        3,
        5,
        102,
        103,
        105,
    ]  # softmax: of the call that the HSA call lies in
    kinds = dict(
        zip(
            (trace.text(code) for code in trace.host_ranges.name),
            trace.host_ranges.kind,
            strict=True,
        )
    )
    assert kinds == {
        "step 0": RangeKind.ANNOTATION,
        "step 1": RangeKind.ANNOTATION,
        "hsa_signal_store_screlease": RangeKind.LIBRARY,
    }
    assert [thread.tid for thread in trace.threads] == ["4242"]
    assert (trace.process.pid, trace.process.name, trace.process.host) == (77, "python", "host0")
    assert trace.devices[0].name == "AMD Instinct MI300X"
    assert (trace.devices[0].sm_count, trace.devices[0].compute_capability) == (304, (9, 4))
    assert trace.source == "rocpd"
    assert trace.collected.api


def test_the_whole_report_is_made_of_it(tmp_path: Path) -> None:
    report = build_report(load([small_run(steps=6).write(tmp_path / "run.db")]))
    assert report.inputs[0].kind == "rocpd"
    assert report.metrics.step_source == "annotation"
    assert report.metrics.launches is not None


def test_graph_replays_have_their_graph_and_node(tmp_path: Path) -> None:
    made = Rocpd("3.0.2").kernel(10, 20, graph_exec_id=5, graph_node_id=7).kernel(30, 40)
    ops = only(made.write(tmp_path / "run.db")).device_ops
    assert (ops.graph.tolist(), ops.graph_node.tolist()) == ([5, -1], [7, -1])


def test_kernels_alone_know_of_no_calls(tmp_path: Path) -> None:
    made = Rocpd().kernel(1_000, 2_000, region_name_id=None).kernel(9_000, 10_000)
    path = made.write(tmp_path / "run.db")
    trace = only(path)
    assert (len(trace.device_ops), len(trace.api_calls), trace.collected.api) == (2, 0, False)
    report = build_report(load([path]))
    assert report.metrics.launches_per_step is None
    assert any("API calls were not recorded" in note for note in report.notes)


def test_merged_databases_are_apart_though_their_ids_are_alike(tmp_path: Path) -> None:
    path = small_run().write(tmp_path / "merged.db")
    other = small_run(uuid="_0198bb", pid=78).kernel(5_000_000, 5_000_500, "late", stack=2)
    other.write(path)
    traces = load([path]).traces
    assert [trace.process.pid for trace in traces] == [77, 78]
    assert [trace.rank for trace in traces] == [0, 1]
    assert [len(trace.device_ops) for trace in traces] == [6, 7]
    assert "numbered" in traces[0].health.notes[0]


def test_processes_of_one_database_are_apart_and_idle_ones_left_out(tmp_path: Path) -> None:
    made = Rocpd()
    made.process(78)
    made.process(79)
    made.kernel(10, 20).kernel(30, 45, pid=78).region("HIP_RUNTIME_API", "hipInit", 1, 2, 9, pid=79)
    traces = load([made.write(tmp_path / "run.db")]).traces
    assert [(t.process.pid, int(t.device_ops.end[0] - t.device_ops.start[0])) for t in traces] == [
        (77, 10),
        (78, 15),
    ]
    assert any("1 processes without GPU work" in note for note in traces[0].health.notes)


def test_stream_handles_of_one_kernel_each_give_way_to_queues(tmp_path: Path) -> None:
    made = Rocpd()
    for i in range(40):
        made.kernel(100 * i + 1, 100 * i + 50, queue=1 + i % 2, stream=i)
    trace = only(made.write(tmp_path / "run.db"))
    assert set(trace.device_ops.stream.tolist()) == {1, 2}
    assert any("40 of 40 stream handles" in note for note in trace.health.notes)


def test_copies_between_gpus_are_peer_to_peer(tmp_path: Path) -> None:
    made = Rocpd().copy(10, 20, "MEMORY_COPY_DEVICE_TO_DEVICE", 1, source=1, target=2)
    made.copy(30, 40, "MEMORY_COPY_DEVICE_TO_DEVICE", 2, source=2, target=2)
    ops = only(made.write(tmp_path / "run.db")).device_ops
    assert ops.copy_kind.tolist() == [CopyKind.PEER_TO_PEER, CopyKind.DEVICE_TO_DEVICE]
    assert ops.device.tolist() == [1, 1]


def test_rows_without_times_are_lost_and_counted(tmp_path: Path) -> None:
    made = Rocpd().kernel(10, 20).kernel(0, 50).kernel(60, 55).kernel(-5, 2**62)
    health = only(made.write(tmp_path / "run.db")).health
    assert (health.lost, health.clipped) == (2, 1)


def test_a_database_without_work_is_empty(tmp_path: Path) -> None:
    with pytest.raises(EmptyRecordingError, match="rocprofv3 --sys-trace"):
        load([Rocpd().write(tmp_path / "run.db")])


def test_databases_of_rocprof_compute_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "workload.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE compute_workload (id INTEGER PRIMARY KEY, name TEXT)")
        database.execute("CREATE TABLE compute_kernel (id INTEGER PRIMARY KEY, name TEXT)")
        database.commit()
    with pytest.raises(UnreadableInputError, match="rocprof-compute"):
        load([path])


def test_packed_json_columns_cost_the_messages_alone(tmp_path: Path) -> None:
    made = small_run()
    for row in made.rows["event"]:
        row["extdata"] = b"\x04\x22\x4d\x18\x64\x40" + bytes(20)  # an LZ4 frame
    trace = only(made.write(tmp_path / "run.db"))
    assert len(trace.device_ops) == 6
    assert "roctxThreadRangeA" in {trace.text(code) for code in trace.host_ranges.name}


def test_what_a_schema_would_run_is_not_run(tmp_path: Path) -> None:
    path = small_run().write(tmp_path / "run.db")
    with closing(sqlite3.connect(path)) as database:
        database.execute("ALTER TABLE rocpd_region_0198aa RENAME TO hidden")
        database.execute(
            "CREATE VIEW rocpd_region_0198aa AS WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) "
            "SELECT i AS id, i AS start, i AS end, 1 AS name_id, 1 AS event_id, 77 AS pid, 1 AS tid FROM r"
        )
        database.commit()
    trace = only(path)
    assert (len(trace.device_ops), len(trace.api_calls)) == (6, 0)


@pytest.mark.parametrize("seed", range(30))
def test_damage_is_an_error_of_ours_or_counted(tmp_path: Path, seed: int) -> None:
    whole = small_run(SCHEMAS[seed % len(SCHEMAS)]).write(tmp_path / "whole.db")
    data = bytearray(whole.read_bytes())
    chance = random.Random(seed)  # noqa: S311
    if seed % 2:
        data = data[: chance.randrange(1, len(data))]
    for _ in range(chance.randrange(1, 40)):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path = tmp_path / "damaged.db"
    path.write_bytes(data)
    with suppress(UnreadableInputError, EmptyRecordingError):
        run = load([path])
        build_report(run)
        assert all(len(trace.device_ops) <= 6 for trace in run.traces)


def test_a_gzipped_database_is_the_same(tmp_path: Path) -> None:
    import gzip

    path = small_run().write(tmp_path / "run.db")
    with path.open("rb") as source, gzip.open(tmp_path / "run.db.gz", "wb") as target:
        shutil.copyfileobj(source, target)
    assert len(only(tmp_path / "run.db.gz").device_ops) == 6
