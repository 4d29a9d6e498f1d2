"""Recordings that are not ranks of one run are refused in one line that says why."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest

from tests.analysis.ranks.test_compare import rank_trace
from tests.recorded import recording
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.analysis.ranks.one_run import (
    refuse_apart,
    refuse_other_jobs,
    refuse_several_runs,
)
from traceanalyzer.analysis.ranks.rank_clocks import Clocks
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.selection import measured
from traceanalyzer.ingest import load
from traceanalyzer.trace import Device


def named(rank, **values):
    return replace(rank_trace(rank, compute=300, **values), path=f"rank{rank}.json")


def jobs(kernels, counts):
    traces = [
        named(rank, kernel=kernel, collectives=count)
        for rank, (kernel, count) in enumerate(zip(kernels, counts, strict=True))
    ]
    return traces, [measure(trace).timed.memo(digest_of) for trace in traces]


def test_ranks_that_never_make_the_same_collectives_are_of_two_jobs():
    with pytest.raises(SeveralRunsError, match="ranks 0 and 1 make other collectives in every"):
        refuse_other_jobs(*jobs(("allreduce", "allgather"), (5, 5)))


@pytest.mark.parametrize(
    ("kernels", "counts"),
    [
        (("allreduce", "allreduce"), (5, 5)),
        (("allreduce", "allreduce"), (5, 4)),  # one at the edge of a step
        (("allreduce", "allgather"), (2, 2)),  # too few to tell
    ],
)
def test_ranks_of_one_job_are_not_refused(kernels, counts):
    refuse_other_jobs(*jobs(kernels, counts))


def test_ranks_one_after_the_other_whose_collectives_do_not_end_together():
    first = named(0)
    later = named(1, clock=100_000.0)
    zero = digest_of(measure(first).timed).calls.start[:0]
    apart = Clocks(zero, zero, 2e6, False)
    with pytest.raises(SeveralRunsError, match="scatter by 2 ms"):
        refuse_apart([first, later], apart)
    refuse_apart([first, named(1)], apart)
    refuse_apart([first, later], apart._replace(comparable=True))


def test_a_file_given_twice_is_refused(tmp_path):
    path = recording("kineto/gemm_fp32.base")
    for name in ("a.json.gz", "b.json.gz"):
        shutil.copy(path, tmp_path / name)
    run = load([tmp_path / "a.json.gz", tmp_path / "b.json.gz"])
    with pytest.raises(SeveralRunsError, match=r"b\.json\.gz is a copy of .*a\.json\.gz"):
        measured(run)


def numbered(path, clock, uid, host="node1"):
    """A recording of nsys, which knows no rank, of one GPU."""
    trace = replace(rank_trace(0, compute=300, clock=clock), path=path)
    process = replace(trace.process, rank=0 if path == "a" else 1, world_size=None, host=host)
    gpu = Device(0, "GPU", uid=uid)
    return replace(trace, process=replace(process, numbered=True), devices=(gpu,))


def test_sessions_on_one_gpu_one_after_the_other_are_two_runs():
    first = numbered("a", 0.0, "GPU-1")
    with pytest.raises(SeveralRunsError, match="the same GPU ran them one after the other"):
        refuse_several_runs([first, numbered("b", 1_000_000.0, "GPU-1")])
    refuse_several_runs([first, numbered("b", 1_000_000.0, "GPU-2")])
    refuse_several_runs([first, numbered("b", 1_000_000.0, "GPU-1", host="node2")])
    refuse_several_runs([first, numbered("b", 10.0, "GPU-1")])
