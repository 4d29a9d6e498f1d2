"""Ranks that a script for a viewer merged into one file, as five such scripts do it."""

from __future__ import annotations

import copy
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.kineto_builder import KinetoTrace
from tests.recorded import recording
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.ingest import load

RANKS = "straggler.base", "tensor_parallel.base"
_ON_DEVICE = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation"}


def _labelled(row: dict[str, Any], rank: int) -> None:
    row["pid"] = f"[TP{rank:02d}] {row.get('pid')}"


def _offset(row: dict[str, Any], rank: int) -> None:
    if isinstance(row.get("pid"), int):
        row["pid"] += rank * 10_000_000
    if "correlation" in row.get("args", {}):
        row["args"]["correlation"] += rank * 100_000_000


def _one_process(row: dict[str, Any], rank: int) -> None:
    row["pid"] = rank + 1


def _host_and_device(row: dict[str, Any], rank: int) -> None:
    row["pid"] = 1000 * rank + (0 if row.get("cat") in _ON_DEVICE else 500)


def _as_it_is(row: dict[str, Any], rank: int) -> None:
    """Rows of both, one after the other."""


def merged(name: str, change: Callable[[dict[str, Any], int], None]) -> dict[str, Any]:
    rows = []
    for rank in (0, 1):
        content = json.loads(gzip.decompress(recording(f"ranks2/{name}.rank{rank}").read_bytes()))
        for row in copy.deepcopy(content["traceEvents"]):
            change(row, rank)
            rows.append(row)
    return {"traceEvents": rows}


@pytest.mark.parametrize("change", [_labelled, _offset, _one_process, _host_and_device, _as_it_is])
def test_merged_ranks_are_read_as_they_are_apart(
    tmp_path: Path, change: Callable[[dict[str, Any], int], None]
) -> None:
    for name in RANKS:
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(merged(name, change)))
        together = load([path]).traces
        apart = load([recording(f"ranks2/{name}.rank{rank}") for rank in (0, 1)]).traces
        assert [trace.rank for trace in together] == [0, 1]
        for one, other in zip(together, apart, strict=True):
            assert np.array_equal(one.device_ops.start, other.device_ops.start)
            assert np.array_equal(one.api_calls.correlation % 10**8, other.api_calls.correlation)
            assert len(one.host_ranges) == len(other.host_ranges)
        assert "2 ranks in one file" in together[0].health.notes[0]


def two_ranks(*devices: Any, late_us: float) -> KinetoTrace:
    """Two processes that number their launches alike; the second one's are later by this."""
    t = KinetoTrace()
    for rank, device in enumerate(devices):
        for i in range(4):
            at = 100 * i + rank * late_us
            args = {"correlation": i + 1, "device": 0, "stream": 7}
            call = {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "tid": 1}
            t.add(call | {"pid": 100 + rank, "ts": at, "dur": 2, "args": args})
            kernel = {"ph": "X", "cat": "kernel", "name": "gemm", "pid": device, "tid": 7}
            t.add(kernel | {"ts": at + 5, "dur": 4, "args": args})
    return t


def test_ranks_whose_work_either_may_have_launched_are_refused(tmp_path: Path) -> None:
    for t in (two_ranks(0, 1, late_us=1), two_ranks(0, 0, late_us=50)):
        with pytest.raises(UnreadableInputError, match="whose cannot be told"):
            load([t.write(tmp_path / "merged.json")])


def test_a_kernel_before_its_launch_is_another_ranks(tmp_path: Path) -> None:
    """Device 1's kernels end before the first process launches; so device 0 has the other."""
    first, second = load([two_ranks(1, 0, late_us=50).write(tmp_path / "merged.json")]).traces
    assert (first.process.pid, second.process.pid) == (100, 101)
    assert first.device_ops.start[0] == 5_000
    assert second.device_ops.start[0] == 55_000


def test_two_processes_with_one_id_are_refused(tmp_path: Path) -> None:
    """As containers number them: each call and its id is there twice."""
    t = two_ranks(0, 1, late_us=50)
    for row in t.rows:
        row["pid"] = 7 if row["cat"] == "cuda_runtime" else row["pid"]
    with pytest.raises(UnreadableInputError, match="same correlation ids twice"):
        load([t.write(tmp_path / "merged.json")])


def test_a_thread_that_polls_events_under_one_id_is_no_second_process(tmp_path: Path) -> None:
    """CUPTI gives the calls of NCCL's watchdog one id: 40 of 44 calls here."""
    t = two_ranks(0, late_us=0)
    args = {"correlation": 99, "device": 0, "stream": 7}
    poll = {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventQuery", "pid": 100, "tid": 9}
    for i in range(40):
        t.add(poll | {"ts": 10 * i, "dur": 2, "args": args})
    trace = load([t.write(tmp_path / "polled.json")]).traces[0]
    assert len(trace.api_calls) == 44
    assert trace.device_ops.start.tolist() == [5_000, 105_000, 205_000, 305_000]
