"""The nsys reader on exports of every schema: what each table becomes in a Trace."""

from __future__ import annotations

import gzip
import os
import sqlite3
import struct
import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.nsys_builder import PID, SCHEMAS, Export, global_pid, global_tid, small_run
from traceanalyzer.analysis.joined.backward import made_by
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.analysis.joined.linked import TraceJoins
from traceanalyzer.base.errors import EmptyRecordingError
from traceanalyzer.ingest import nsys
from traceanalyzer.trace import (
    CopyKind,
    DeviceOpKind,
    MemoryKind,
    OverheadKind,
    RangeKind,
    WaitKind,
)

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.trace import Trace


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "export.sqlite"


def read_one(export: Export, target: Path) -> Trace:
    (trace,) = nsys.read(export.write(target))
    return trace


def names(trace: Trace, table: str) -> list[str | None]:
    return [trace.text(int(code)) for code in getattr(trace, table).name]


@pytest.mark.parametrize("schema", SCHEMAS)
@pytest.mark.parametrize("lazy", [True, False])
def test_every_schema_gives_the_same_trace(schema: str, lazy: bool, target: Path) -> None:
    export = small_run(schema)
    export.lazy = lazy
    trace = read_one(export, target)
    ops = trace.device_ops
    assert ops.kind.tolist() == [
        DeviceOpKind.KERNEL,
        DeviceOpKind.MEMCPY,
        DeviceOpKind.KERNEL,
        DeviceOpKind.MEMSET,
    ]
    assert names(trace, "device_ops") == [
        "void kernel()",
        "Memcpy HtoD (Pageable -> Device)",
        "void other()",
        "Memset (Device)",
    ]
    assert ops.start.tolist() == [120, 150, 210, 400]
    assert ops.end.tolist() == [200, 250, 300, 450]
    assert ops.stream.tolist() == [7, 9, 7, 7]
    assert ops.correlation.tolist() == [1, 3, 2, 4]
    assert set(ops.graph.tolist()) == {-1}
    assert names(trace, "api_calls") == [
        "cudaLaunchKernel",
        "cudaLaunchKernel",
        "cudaMemcpyAsync",
        "cudaMemsetAsync",
        "cudaStreamSynchronize",
    ]
    assert names(trace, "host_ranges") == ["step_0", "aten::linear"]
    assert trace.host_ranges.kind.tolist() == [RangeKind.ANNOTATION, RangeKind.OP]
    assert trace.host_ranges.sequence.tolist() == [-1, 7]
    assert trace.waits.kind.tolist() == [WaitKind.STREAM_SYNC]
    assert trace.process.pid == PID
    assert trace.rank is None
    assert trace.epoch_ns == 1_700_000_000_000_000_000
    assert trace.window == (0, 10_000)
    (device,) = trace.devices
    assert (device.id, device.name) == (0, "GPU A")
    assert [thread.tid for thread in trace.threads] == [str(PID)]


def test_names_are_without_folders_and_arguments(target: Path) -> None:
    trace = read_one(small_run("3.24.0"), target)
    assert trace.process.name == "train"
    assert trace.threads[0].name == "worker"


def test_kernel_without_demangled_name_has_its_short_one(target: Path) -> None:
    export = Export()
    export.kernel(10, 20, demangledName=None)
    export.kernel(30, 40, demangledName=None, shortName=None)
    assert names(read_one(export, target), "device_ops") == ["kernel", "unnamed kernel"]


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        (0, 2, MemoryKind.PAGEABLE),
        (1, 2, MemoryKind.PINNED),
        (4, 2, MemoryKind.MANAGED),
        (7, 2, MemoryKind.UNKNOWN),
    ],
)
def test_memory_kinds_are_of_nsys_not_of_cupti(
    source: int, destination: int, expected: int, target: Path
) -> None:
    trace = read_one(Export().copy(10, 20, srcKind=source, dstKind=destination), target)
    assert trace.device_ops.source_memory.tolist() == [expected]
    assert trace.device_ops.target_memory.tolist() == [MemoryKind.DEVICE]


def test_unified_memory_migrations_belong_to_no_call(target: Path) -> None:
    export = (
        Export()
        .kernel(10, 20, correlationId=0)
        .copy(30, 40, copyKind=11, correlationId=0, srcKind=7, dstKind=7)
    )
    export.call(1, 2, "cudaMalloc_v3020", 0)
    trace = read_one(export, target)
    assert trace.device_ops.correlation.tolist() == [-1, -1]
    assert trace.device_ops.copy_kind.tolist() == [0, CopyKind.UNIFIED_HOST_TO_DEVICE]
    assert trace.api_calls.correlation.tolist() == [-1]


def test_whole_graphs_are_device_work_and_said_so(target: Path) -> None:
    trace = read_one(Export("3.24.0").kernel(10, 20).graph(30, 90), target)
    assert trace.device_ops.kind.tolist() == [DeviceOpKind.KERNEL, DeviceOpKind.GRAPH]
    assert trace.device_ops.graph.tolist() == [-1, 3]
    assert any("--cuda-graph-trace=node" in note for note in trace.health.notes)


def test_graph_nodes_are_told_from_launched_kernels(target: Path) -> None:
    export = (
        Export("3.24.0")
        .kernel(10, 20)
        .kernel(30, 40, graphNodeId=5, graphId=2)
        .kernel(50, 60, graphNodeId=6)
    )
    assert read_one(export, target).device_ops.graph.tolist() == [-1, 2, 0]


@pytest.mark.parametrize("schema", ["3.0.0", "3.24.0"])
def test_graph_events_of_either_meaning_are_no_device_work(schema: str, target: Path) -> None:
    export = small_run(schema).add(
        "CUDA_GRAPH_EVENTS", start=1, end=9999, eventClass=77, globalTid=global_tid()
    )
    assert len(read_one(export, target).device_ops) == 4


def read_altered(target: Path, *statements: str) -> Trace:
    """A small export in which these statements of SQL have changed something."""
    small_run("3.24.0").write(target)
    db = sqlite3.connect(target)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()
    (trace,) = nsys.read(target)
    return trace


def test_tables_with_a_version_suffix(target: Path) -> None:
    rename = "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME TO CUPTI_ACTIVITY_KIND_KERNEL_V2"
    assert len(read_altered(target, rename).device_ops) == 4


def test_columns_may_be_missing_or_more(target: Path) -> None:
    trace = read_altered(
        target,
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN correlationId",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL DROP COLUMN globalPid",
        "ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL ADD COLUMN kernel_name TEXT",
    )
    assert trace.device_ops.correlation.tolist() == [-1, 3, -1, 4]


def test_a_table_without_the_columns_that_choose_its_rows(target: Path) -> None:
    trace = read_altered(target, "ALTER TABLE NVTX_EVENTS DROP COLUMN eventType")
    assert len(trace.host_ranges) == 0
    assert not trace.health.truncated


def test_text_in_a_column_of_numbers_is_read_as_a_number(target: Path) -> None:
    export = Export().kernel(10, 20, deviceId="one").nvtx("15", 30, "range")  # type: ignore[arg-type]
    trace = read_one(export, target)
    assert trace.device_ops.device.tolist() == [0]
    assert trace.host_ranges.start.tolist() == [15]


class TestDamagedTimes:
    def test_work_without_timestamps_is_left_out_and_counted(self, target: Path) -> None:
        trace = read_one(Export().kernel(0, 0).kernel(10, 20).kernel(30, None), target)  # type: ignore[arg-type]
        assert trace.device_ops.start.tolist() == [10]
        assert trace.health.lost == 2

    def test_an_end_before_the_start_is_cut_and_counted(self, target: Path) -> None:
        trace = read_one(Export().kernel(30, 20), target)
        assert (trace.device_ops.start.tolist(), trace.device_ops.end.tolist()) == ([30], [30])
        assert trace.health.clipped == 1


class TestWaits:
    @pytest.mark.parametrize("schema", ["2.9.1", "3.13.2", "3.24.0", "3.25.0"])
    @pytest.mark.parametrize(
        ("call", "kind"),
        [
            ("cudaStreamWaitEvent_v3020", WaitKind.STREAM_WAIT_EVENT),
            ("cudaEventSynchronize_v3020", WaitKind.EVENT_SYNC),
            ("cudaStreamSynchronize_v3020", WaitKind.STREAM_SYNC),
            ("cudaDeviceSynchronize_v3020", WaitKind.CONTEXT_SYNC),
            ("cuCtxSynchronize", WaitKind.CONTEXT_SYNC),
        ],
    )
    @pytest.mark.parametrize("sync_type", [0, 1, 2, 3, 4])
    def test_the_call_says_the_kind_whatever_the_type(
        self, schema: str, call: str, kind: WaitKind, sync_type: int, target: Path
    ) -> None:
        export = (
            Export(schema)
            .kernel(1, 5)
            .call(10, 20, call, 9)
            .wait(12, 18, correlationId=9, syncType=sync_type)
        )
        assert read_one(export, target).waits.kind.tolist() == [kind]

    def test_a_query_is_no_wait(self, target: Path) -> None:
        export = (
            Export()
            .kernel(1, 5)
            .call(10, 20, "cudaEventQuery_v3020", 9)
            .wait(12, 18, correlationId=9, eventId=4)
        )
        trace = read_one(export, target)
        assert len(trace.waits) == 0
        assert trace.health.skipped == 1

    @pytest.mark.parametrize(
        ("schema", "kinds"),
        [
            ("3.4.0", [WaitKind.EVENT_SYNC, WaitKind.STREAM_WAIT_EVENT]),
            ("3.13.2", [WaitKind.STREAM_WAIT_EVENT]),
            ("3.24.0", [WaitKind.STREAM_WAIT_EVENT]),
            ("3.25.0", [WaitKind.STREAM_WAIT_EVENT]),
        ],
    )
    def test_without_a_call_the_type_means_what_it_did_in_that_version(
        self, schema: str, kinds: list[WaitKind], target: Path
    ) -> None:
        export = (
            Export(schema)
            .kernel(1, 5)
            .wait(12, 18, syncType=2, eventId=7)
            .wait(22, 28, syncType=3, eventId=7)
        )
        assert read_one(export, target).waits.kind.tolist() == kinds

    def test_without_a_call_and_an_event_the_stream_decides(self, target: Path) -> None:
        export = Export().kernel(1, 5).wait(12, 18).wait(22, 28, streamId=2**32 - 1)
        trace = read_one(export, target)
        assert trace.waits.kind.tolist() == [WaitKind.STREAM_SYNC, WaitKind.CONTEXT_SYNC]
        assert trace.waits.stream.tolist() == [7, -1]

    def test_the_waited_for_stream_is_that_of_the_last_record(self, target: Path) -> None:
        export = Export().kernel(1, 5)
        for stream, correlation, event in ((20, 3, 5), (21, 6, 5), (22, 9, 5), (23, 7, 6)):
            export.add(
                "CUPTI_ACTIVITY_KIND_CUDA_EVENT",
                streamId=stream,
                correlationId=correlation,
                eventId=event,
                contextId=1,
                deviceId=0,
                globalPid=global_pid(),
            )
        export.call(10, 11, "cudaStreamWaitEvent_v3020", 8).wait(12, 13, correlationId=8, eventId=5)
        assert read_one(export, target).waits.source_stream.tolist() == [21]

    def test_the_device_is_that_of_the_context(self, target: Path) -> None:
        export = (
            Export().kernel(1, 5, deviceId=1, contextId=2).wait(12, 18, deviceId=0, contextId=2)
        )
        assert read_one(export, target).waits.device.tolist() == [1]


class TestRanges:
    def test_text_or_text_id(self, target: Path) -> None:
        export = Export().kernel(1, 5).nvtx(10, 20, "written").nvtx(30, 40, None, domainId=1)
        export.rows["NVTX_EVENTS"][-1]["textId"] = export.text("registered")
        export.nvtx(50, 60, None)
        assert names(read_one(export, target), "host_ranges") == [
            "written",
            "registered",
            "unnamed range",
        ]

    @pytest.mark.parametrize(
        ("text", "name", "kind", "sequence", "shapes"),
        [
            ("aten::linear, op_id = 314279", "aten::linear", RangeKind.OP, -1, None),
            (
                "aten::linear, seq = 45440, op_id = 990760",
                "aten::linear",
                RangeKind.OP,
                45440,
                None,
            ),
            (
                "aten::mm, seq = 3, op_id = 4, sizes = [[2, 3], [3]]",
                "aten::mm",
                RangeKind.OP,
                3,
                "[[2, 3], [3]]",
            ),
            (
                "aten::mm, op_id = 4, sizes = [[2]], input_op_ids = [(1,0)]",
                "aten::mm",
                RangeKind.OP,
                -1,
                "[[2]]",
            ),
            ("aten::mm", "aten::mm", RangeKind.OP, -1, None),
            ("FlashAttnFunc, seq = 9, op_id = 4", "FlashAttnFunc", RangeKind.OP, 9, None),
            (
                "FSDP::post_forward (blocks.8), op_id = 4",
                "FSDP::post_forward (blocks.8)",
                RangeKind.ANNOTATION,
                -1,
                None,
            ),
            ("step_3, op_id = 5", "step_3", RangeKind.ANNOTATION, -1, None),
            ("load, epoch 1, batch 2", "load, epoch 1, batch 2", RangeKind.ANNOTATION, -1, None),
            ("load, epoch 1, op_id = 5", "load, epoch 1", RangeKind.ANNOTATION, -1, None),
            ("my::phase", "my::phase", RangeKind.ANNOTATION, -1, None),
            ("two\nlines, op_id = 5", "two\nlines", RangeKind.ANNOTATION, -1, None),
        ],
    )
    def test_pytorch_texts(
        self, text: str, name: str, kind: RangeKind, sequence: int, shapes: str | None, target: Path
    ) -> None:
        trace = read_one(Export().kernel(1, 5).nvtx(10, 20, text), target)
        assert names(trace, "host_ranges") == [name]
        assert trace.host_ranges.kind.tolist() == [kind]
        assert trace.host_ranges.sequence.tolist() == [sequence]
        assert trace.text(int(trace.host_ranges.shapes[0])) == shapes
        assert trace.collected.ops == (kind == RangeKind.OP)

    def test_autograd_nodes_know_the_operators_that_made_them(self, target: Path) -> None:
        engine = "autograd::engine::evaluate_function: "
        export = Export().kernel(1, 5).nvtx(10, 20, "aten::addmm, seq = 7, op_id = 1")
        export.nvtx(30, 90, f"{engine}AddmmBackward0, seq = 7, op_id = 2")
        export.nvtx(31, 89, "AddmmBackward0, seq = 7, op_id = 3, sizes = [[2, 4]]")
        export.nvtx(32, 80, "aten::mm, op_id = 4, sizes = [[4, 2], [2, 4]]")
        export.nvtx(91, 95, f"{engine}torch::autograd::AccumulateGrad, op_id = 5")
        trace = read_one(export, target)
        assert trace.host_ranges.forward_thread.tolist() == [0, 1, 1, 0, 0]
        linked = TraceJoins(trace, Knowledge())
        is_forward = linked.tree.of_ranges(trace.host_ranges.start == 10, False)
        gave_rise = made_by(linked, is_forward)
        assert gave_rise[linked.tree.of_ranges(trace.host_ranges.start == 32, False)].all()

    def test_the_engines_range_has_the_number_of_the_node_that_it_runs(self, target: Path) -> None:
        engine = "autograd::engine::evaluate_function: "
        export = Export().kernel(1, 5).nvtx(30, 90, f"{engine}MulBackward0, op_id = 2")
        export.nvtx(31, 89, "MulBackward0, seq = 7, op_id = 3, sizes = [[2, 4]]")
        export.nvtx(91, 95, f"{engine}MulBackward0, op_id = 4")  # the next range is no node of it
        export.nvtx(96, 97, "MulBackward0, seq = 8, op_id = 5, sizes = [[2, 4]]")
        trace = read_one(export, target)
        assert trace.host_ranges.sequence.tolist() == [7, 7, -1, 8]

    def test_ranges_never_closed_or_across_threads_are_left_out(self, target: Path) -> None:
        export = Export().kernel(1, 5).nvtx(10, None, "open").nvtx(10, 20, "closed")
        export.nvtx(10, 20, "across", eventType=60, endGlobalTid=global_tid(PID + 1))
        export.nvtx(10, 20, "same", eventType=60, endGlobalTid=global_tid())
        trace = read_one(export, target)
        assert names(trace, "host_ranges") == ["closed", "same"]
        assert (trace.health.lost, trace.health.skipped) == (1, 1)
        assert any("still open" in note for note in trace.health.notes)

    def test_marks_names_and_domains_are_no_ranges(self, target: Path) -> None:
        export = (
            Export()
            .kernel(1, 5)
            .nvtx(-5, None, "NCCL", eventType=75)
            .nvtx(6, None, "mark", eventType=34)
        )
        export.nvtx(7, None, "loader", eventType=39).nvtx(8, 9, "range")
        trace = read_one(export, target)
        assert names(trace, "host_ranges") == ["range"]
        assert trace.health.skipped == 3
        assert trace.threads[0].name == "loader"

    def test_library_and_system_calls(self, target: Path) -> None:
        export = Export().kernel(1, 5)
        for table, name in (("CUBLAS_EVENTS", "cublasSgemm_v2"), ("OSRT_API", "poll")):
            export.add(table, start=10, end=20, globalTid=global_tid(), nameId=export.text(name))
        trace = read_one(export, target)
        assert names(trace, "host_ranges") == ["cublasSgemm_v2", "poll"]
        assert trace.host_ranges.kind.tolist() == [RangeKind.LIBRARY, RangeKind.OS]

    def test_nccl_payloads_become_collectives(self, target: Path) -> None:
        export = Export("3.25.0").kernel(1, 5)
        init = 16777218
        message = 16777223
        entries = [
            (init, 18, "NCCL communicator ID", None),
            (init, 5, "No. of ranks", 8),
            (init, 5, "Rank", 12),
        ]
        entries += [
            (message, 18, "NCCL communicator ID", None),
            (message, 22, "Message size [bytes]", 8),
        ]
        for schema, kind, name, offset in entries:
            export.add(
                "NVTX_PAYLOAD_SCHEMA_ENTRIES", schemaId=schema, type=kind, name=name, offset=offset
            )
        export.nvtx(
            10, 20, "ncclCommInitRank", binaryData=_payload(init, struct.pack("<Qii", 77, 8, 3))
        )
        for start in (30, 50):
            data = _payload(message, struct.pack("<QQ", 77, 4096)).hex()
            export.nvtx(start, start + 5, "ncclAllGather", binaryData=data)
        export.nvtx(70, 75, "ncclAllReduce", binaryData=b"not a payload")
        trace = read_one(export, target)
        assert trace.host_ranges.collective.tolist() == [-1, 0, 0, -1]
        assert (
            trace.collectives.in_elements.tolist(),
            trace.collectives.out_elements.tolist(),
        ) == ([4096], [32768])
        assert trace.collectives.group_size.tolist() == [8]
        assert trace.text(int(trace.collectives.dtype[0])) == "Byte"
        assert (trace.rank, trace.process.world_size) == (3, 8)


def _payload(schema: int, fields: bytes) -> bytes:
    return struct.pack("<IIIIQQ", 1, 0, schema, 0, len(fields), len(fields) + 32) + fields


class TestOverheads:
    def test_back_pressure_and_driver_apart_from_the_profiler(self, target: Path) -> None:
        export = Export("3.24.0").kernel(1, 5)
        for start, kind in ((10, 8), (20, 7), (30, 2), (40, 3)):
            export.add(
                "CUPTI_ACTIVITY_KIND_OVERHEAD",
                start=start,
                end=start + 5,
                globalTid=global_tid(),
                overheadType=kind,
            )
        trace = read_one(export, target)
        kinds = [
            OverheadKind.BACK_PRESSURE,
            OverheadKind.DRIVER,
            OverheadKind.DRIVER,
            OverheadKind.PROFILER,
        ]
        assert trace.overheads.kind.tolist() == kinds
        assert names(trace, "overheads")[0] == "Command buffer full"

    @pytest.mark.parametrize(
        "name",
        [
            "CUDA profiling data flush overhead",
            "CUPTI: Instrumentation",
            "CUPTI Buffer flush",
            "TLS allocation",
        ],
    )
    def test_the_profiler_under_all_its_names(self, name: str, target: Path) -> None:
        export = Export("3.4.0").kernel(1, 5)
        export.add(
            "PROFILER_OVERHEAD", start=10, end=15, globalTid=global_tid(), nameId=export.text(name)
        )
        trace = read_one(export, target)
        assert trace.overheads.kind.tolist() == [OverheadKind.PROFILER]
        assert names(trace, "overheads") == [name]


@pytest.mark.parametrize(
    ("name", "value", "epoch", "window"),
    [
        ("EXPORT_PARAM_TIME_SHIFT", "0", 1_700_000_000_000_000_000, (0, 10_000)),
        ("EXPORT_PARAM_TIME_SHIFT", "500", 0, None),
        (
            "EXPORT_PARAM_TIME_NORMALIZE",
            "true",
            0,
            (1_700_000_000_000_000_000, 1_700_000_000_000_010_000),
        ),
    ],
)
def test_exports_with_moved_times(
    name: str, value: str, epoch: int, window: tuple[int, int] | None, target: Path
) -> None:
    trace = read_one(small_run("3.24.0").add("META_DATA_EXPORT", name=name, value=value), target)
    assert (trace.epoch_ns, trace.window) == (epoch, window)


def test_error_codes_of_calls(target: Path) -> None:
    export = Export().kernel(1, 5).call(10, 20, "cudaMalloc_v3020", 2, returnValue=2)
    assert read_one(export, target).api_calls.error.tolist() == [2]


def test_driver_names_keep_their_own_version(target: Path) -> None:
    export = (
        Export()
        .kernel(1, 5)
        .call(10, 20, "cuMemcpyHtoDAsync_v2", 2)
        .call(30, 40, "cudaLaunchKernelExC_v11060", 3)
    )
    assert names(read_one(export, target), "api_calls") == [
        "cuMemcpyHtoDAsync_v2",
        "cudaLaunchKernelExC",
    ]


def test_allocations(target: Path) -> None:
    export = Export("3.24.0").kernel(1, 5)
    for start, kind, operation in ((10, 2, 0), (20, 2, 1), (30, 1, 0)):
        export.add(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            start=start,
            globalPid=global_pid(),
            deviceId=0,
            contextId=1,
            bytes=256,
            memKind=kind,
            memoryOperationType=operation,
        )
    trace = read_one(export, target)
    assert trace.memory_events.bytes.tolist() == [256, -256, 256]
    assert trace.memory_events.device.tolist() == [0, 0, -1]


def test_gpu_metrics_are_found_by_name_and_given_to_the_process_of_the_device(target: Path) -> None:
    export = small_run("3.24.0")  # its device 0 is the host's GPU 2
    export.add("TARGET_INFO_GPU", id=1, name="GPU B", busLocation="0000:d1:00.0", cuDevice=1)
    for gpu in (1, 2):
        kind = 0x1234500 + gpu
        for number, name in ((5, "SMs Active [Throughput %]"), (6, "GPC Clock Frequency [MHz]")):
            export.add("TARGET_INFO_GPU_METRICS", typeId=kind, metricId=number, metricName=name)
            export.add(
                "GPU_METRICS", timestamp=100 + gpu, typeId=kind, metricId=number, value=10 * gpu
            )
    metrics = read_one(export, target).gpu_metrics
    assert (metrics.start.tolist(), metrics.device.tolist(), metrics.value.tolist()) == (
        [102],
        [0],
        [20],
    )


class TestProcesses:
    def two(self, schema: str = "3.24.0") -> Export:
        """Two processes with the same correlation ids."""
        export = Export(schema)
        for pid, device in ((2000, 1), (1000, 0)):
            export.call(10, 20, f"cudaLaunchKernel{pid}_v7000", 5, globalTid=global_tid(pid, pid))
            export.kernel(
                30,
                40,
                f"k{pid}",
                correlationId=5,
                globalPid=global_pid(pid),
                deviceId=device,
                contextId=device + 1,
            )
        return export

    def test_one_trace_each_and_no_join_across(self, target: Path) -> None:
        first, second = nsys.read(self.two().write(target))
        assert (first.process.pid, second.process.pid) == (1000, 2000)
        assert (names(first, "device_ops"), names(first, "api_calls")) == (
            ["void k1000()"],
            ["cudaLaunchKernel1000"],
        )
        assert (names(second, "device_ops"), names(second, "api_calls")) == (
            ["void k2000()"],
            ["cudaLaunchKernel2000"],
        )
        assert second.devices[0].id == 1

    @pytest.mark.parametrize("pid", [1000, 2000])
    def test_only_one_of_them_has_ranges(self, target: Path, pid: int) -> None:
        export = self.two().nvtx(5, 45, "step", globalTid=global_tid(pid, pid))
        ranges = {
            trace.process.pid: names(trace, "host_ranges")
            for trace in nsys.read(export.write(target))
        }
        assert ranges == {1000: [], 2000: [], pid: ["step"]}

    def test_ranks_by_process_id_are_said_to_be_so(self, target: Path) -> None:
        first, second = nsys.read(self.two().write(target))
        assert (first.rank, second.rank) == (0, 1)
        assert any("numbered by process id" in note for note in first.health.notes)

    def test_ranks_of_mpi(self, target: Path) -> None:
        export = self.two()
        for pid, rank in ((1000, 1), (2000, 0)):
            export.add("MPI_RANKS", globalTid=global_tid(pid, pid), rank=rank)
        traces = nsys.read(export.write(target))
        assert [(trace.rank, trace.process.pid) for trace in traces] == [(0, 2000), (1, 1000)]
        assert not traces[0].health.notes or "numbered" not in traces[0].health.notes[0]

    def test_ranks_from_thread_names(self, target: Path) -> None:
        export = self.two("3.4.0")
        for pid, rank in ((1000, 4), (2000, 3)):
            export.nvtx(5, None, f"MPI Rank {rank}", eventType=39, globalTid=global_tid(pid, pid))
        assert [trace.rank for trace in nsys.read(export.write(target))] == [3, 4]

    def test_work_without_a_process_goes_by_its_context(self, target: Path) -> None:
        export = self.two().kernel(50, 60, "late", globalPid=None, contextId=2, correlationId=6)
        _, second = nsys.read(export.write(target))
        assert names(second, "device_ops") == ["void k2000()", "void late()"]

    def test_work_without_a_process_is_that_of_the_only_one_that_calls_cuda(
        self, target: Path
    ) -> None:
        export = Export().kernel(30, 40, globalPid=None).call(10, 20, "cudaLaunchKernel_v7000", 1)
        export.nvtx(10, 20, "launcher", globalTid=global_tid(3000, 3000))
        trace = read_one(export, target)
        assert (trace.process.pid, trace.health.lost) == (PID, 0)

    def test_an_export_that_names_no_process_at_all(self, target: Path) -> None:
        trace = read_one(
            Export().kernel(30, 40, globalPid=None).nvtx(10, 20, "range", globalTid=None), target
        )
        assert trace.process.pid is None
        assert (len(trace.device_ops), len(trace.host_ranges), trace.health.lost) == (1, 1, 0)

    def test_work_of_nobody_is_counted(self, target: Path) -> None:
        export = self.two().kernel(50, 60, globalPid=None, contextId=9, correlationId=6)
        first, _ = nsys.read(export.write(target))
        assert first.health.lost == 1
        assert any("name no process" in note for note in first.health.notes)

    def test_host_only_processes_are_left_out_and_said_so(self, target: Path) -> None:
        export = small_run("3.24.0").nvtx(10, 20, "launcher", globalTid=global_tid(3000, 3000))
        trace = read_one(export, target)
        assert names(trace, "host_ranges") == ["step_0", "aten::linear"]
        assert any("1 processes without GPU work" in note for note in trace.health.notes)

    def test_devices_by_the_map_of_the_process(self, target: Path) -> None:
        export = self.two("3.24.0")
        for gpu, bus in ((0, "0000:01:00.0"), (1, "0000:02:00.0")):
            export.add(
                "TARGET_INFO_GPU",
                id=gpu,
                name=f"GPU {gpu}",
                busLocation=bus,
                cuDevice=gpu,
                uuid="0" * 8,
            )
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=1, cudaId=0, pid=1000)
        export.add("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=1, pid=2000)
        first, second = nsys.read(export.write(target))
        assert (first.devices[0].name, first.devices[0].uid) == ("GPU 1", "0000:02:00.0")
        assert second.devices[0].name == "GPU 0"


class TestNothingThere:
    def test_nvtx_only(self, target: Path) -> None:
        trace = read_one(
            Export().captured("CAPTURE_EVENT_TYPE", "NvtxEvents").nvtx(10, 20, "phase"), target
        )
        assert len(trace.device_ops) == 0
        assert (
            "No GPU work: CUDA was not traced; record with nsys profile -t cuda"
            in trace.health.notes
        )
        assert not trace.collected.device

    def test_memset_only(self, target: Path) -> None:
        trace = read_one(Export().memset(10, 20), target)
        assert trace.device_ops.kind.tolist() == [DeviceOpKind.MEMSET]
        assert "The export has no kernels, only other GPU work" in trace.health.notes

    def test_calls_but_no_gpu_work(self, target: Path) -> None:
        export = (
            Export()
            .captured("CAPTURE_EVENT_TYPE", "Cuda")
            .call(10, 20, "cudaGetDeviceCount_v3020", 1)
        )
        trace = read_one(export, target)
        assert (
            "No GPU work: CUDA was traced, but none happened while recording" in trace.health.notes
        )
        assert trace.collected.device

    @pytest.mark.parametrize("schema", SCHEMAS)
    def test_zero_rows(self, schema: str, target: Path) -> None:
        with pytest.raises(EmptyRecordingError, match="holds no GPU work"):
            nsys.read(Export(schema, lazy=False).write(target))


def test_gzipped(target: Path) -> None:
    small_run("3.24.0").write(target)
    packed = target.with_name("anything.bin")
    packed.write_bytes(gzip.compress(target.read_bytes()))
    assert nsys.recognise(packed.read_bytes()[:64], packed)
    (trace,) = nsys.read(packed)
    assert len(trace.device_ops) == 4
    assert trace.path == str(packed)


def test_progress_ends_at_one(target: Path) -> None:
    shares: list[float] = []
    nsys.read(small_run("3.24.0").write(target), shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == 1.0


def test_columns_have_the_types_of_the_model(target: Path) -> None:
    trace = read_one(small_run("3.24.0"), target)
    assert trace.device_ops.start.dtype == np.int64
    assert trace.host_ranges.shapes.dtype == np.int32


def test_two_processes_read_an_export_alike(tmp_path):
    """String codes do not depend on the order of sets, which differs from process to process."""
    export = small_run("3.24.0")
    for i in range(20):
        export.nvtx(i * 10, i * 10 + 5, f"range {chr(97 + i)}")
    path = export.write(tmp_path / "run.sqlite")
    script = "import sys, traceanalyzer; print(traceanalyzer.load(sys.argv[1]).traces[0].strings)"
    seen = {
        subprocess.run(
            [sys.executable, "-c", script, str(path)],
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(seen) == 1


def test_a_write_ahead_log_beside_an_export_is_read(target: Path) -> None:
    small_run("3.24.0").write(target)
    with sqlite3.connect(target) as left_open:
        left_open.execute("PRAGMA journal_mode = WAL")
        left_open.execute("PRAGMA wal_autocheckpoint = 0")
        left_open.execute("DELETE FROM CUPTI_ACTIVITY_KIND_KERNEL WHERE start = 120")
        left_open.commit()
        before = target.read_bytes()
        (trace,) = nsys.read(target)
        assert int((trace.device_ops.kind == DeviceOpKind.KERNEL).sum()) == 1
        assert target.read_bytes() == before
    left_open.close()
    target.with_name(f"{target.name}-wal").write_bytes(b"no log of this database")
    (trace,) = nsys.read(target)
    assert int((trace.device_ops.kind == DeviceOpKind.KERNEL).sum()) == 1


def test_calls_that_are_described_get_their_names(target: Path) -> None:
    export = small_run("3.24.0")
    text = "{'mod': 'torch.nn.functional', 'op': 'conv2d', 'args': [{'name': '', 'type': 'tensor', 'shape': (1, 3)}]}"
    export.nvtx(100, 110, text).nvtx(120, 130, text.replace("conv2d", "relu") + ", seq = 3")
    ranges = names(read_one(export, target), "host_ranges")
    assert {"torch.nn.functional.conv2d", "torch.nn.functional.relu"} <= set(ranges)
    assert not any("args" in (name or "") for name in ranges)
