"""A host that sleeps in calls to the operating system, as Nsight Systems records them, and one that
reads a file."""

from pathlib import Path

import pytest

from tests.nsys_builder import Export, global_tid
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.report.model import Report

MS = 1_000_000


def reported(folder: Path, call: str) -> Report:
    """Steps of 40 ms: 30 of them in a call of the system, 5 in a kernel."""
    export = Export()
    for step in range(8):
        at = 1_000 * MS + step * 40 * MS
        export.nvtx(at, at + 39 * MS, f"step {step}")
        export.add(
            "OSRT_API",
            start=at + MS // 10,
            end=at + 30 * MS,
            eventClass=27,
            globalTid=global_tid(),
            nameId=export.text(call),
            returnValue=0,
        )
        launch = at + 30 * MS + 100_000
        export.call(launch, launch + 10_000, "cudaLaunchKernel_v7000", 100 + step)
        export.kernel(launch + 20_000, launch + 5 * MS, "gemm", correlationId=100 + step)
        wait = launch + 15_000
        export.call(wait, launch + 5 * MS, "cudaDeviceSynchronize_v3020", 200 + step)
    return build_report(load([export.write(folder / f"{call}.sqlite")]))


@pytest.mark.parametrize("call", ["poll", "pthread_cond_timedwait", "sem_wait", "nanosleep"])
def test_a_host_that_sleeps_waits_for_work(tmp_path: Path, call: str) -> None:
    report = reported(tmp_path, call)
    assert "waits for work itself" in report.summary.headline
    assert report.summary.culprit == f"All of its wait: {call}."
    assert not report.recommendations


def test_a_host_that_reads_works(tmp_path: Path) -> None:
    report = reported(tmp_path, "read")
    assert "does other work" in report.summary.headline
    assert report.recommendations
