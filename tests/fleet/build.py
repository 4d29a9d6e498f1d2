"""Ranks by hand: steps of one matrix product and one all-reduce, of known times in microseconds."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from tests.kineto_builder import KinetoTrace
from traceanalyzer.analysis.ranks.digest import (
    DigestedCalls,
    Family,
    Pieces,
    ProcessGroup,
    RankDigest,
    RunClaim,
    Why,
)
from traceanalyzer.analysis.time.steps import Steps
from traceanalyzer.fleet.digests.files import DigestedRank

STEP = 1000
TRANSFER = 100
EPOCH_NS = 1_700_000_000_000_000_000
ALL_REDUCE = 1


def write_rank(
    folder: Path,
    rank: int,
    world: int,
    late: int = 0,
    *,
    steps: int = 6,
    most: int = 400,
    at: int = 0,
) -> Path:
    """A recording whose rank comes `late` us to the all-reduce of each step, which begins for all
    `most` us after the earliest one could; `at` is added to every time (seconds)."""
    trace = KinetoTrace().rank(rank, world)
    trace.metadata["baseTimeNanoseconds"] = EPOCH_NS
    for i in range(steps):
        begin = STEP * i + at * 1_000_000
        trace.step(i, begin, STEP - 20)
        trace.launched(
            "ampere_sgemm_128x64",
            begin + 5,
            begin + 20,
            300 + late,
            grid=[32, 1, 1],
            block=[128, 1, 1],
        )
        start = begin + 320 + late
        end = begin + 320 + most + TRANSFER
        trace.launched("ncclDevKernel_AllReduce_Sum_f32_RING_LL", begin + 12, start, end - start)
    return trace.write(folder / f"rank{rank}.json.gz")


def write_job(folder: Path, late: dict[int, int], world: int = 4) -> list[Path]:
    """All ranks of a job; `late` us of some of them."""
    folder.mkdir(exist_ok=True)
    most = max([*late.values(), 0])
    return [write_rank(folder, rank, world, late.get(rank, 0), most=most) for rank in range(world)]


def digest(
    rank: int,
    calls: list[tuple[int, int, int, str]],
    *,
    world: int = 4,
    steps: int = 1,
    host: str | None = None,
    start: int = 0,
    compute: int = 0,
    input_idle: int = 0,
    work: int = 100,
    path: str = "",
) -> DigestedRank:
    """A rank of calls (step, start, end, ranks of the group as text), ns; steps are as long as
    their calls."""
    groups = [
        ProcessGroup("pp" if name.startswith("pp") else "pg", name.removeprefix("pp"), "", -1)
        for name in dict.fromkeys(call[3] for call in calls)
    ]
    names = list(dict.fromkeys(call[3] for call in calls))
    columns = {
        "start": [call[1] for call in calls],
        "end": [call[2] for call in calls],
        "step": [call[0] for call in calls],
        "kind": [ALL_REDUCE] * len(calls),
        "group": [names.index(call[3]) for call in calls],
        "bytes": [1000] * len(calls),
    }
    ends = [max([call[2] for call in calls if call[0] == step], default=0) for step in range(steps)]
    times = np.array([0, *ends], np.int64)
    each = np.ones(steps, np.int64)
    idle = np.zeros((7, steps), np.int64)
    idle[2] = input_idle
    why = Why(
        0 * each,
        0 * each,
        idle,
        np.zeros(len(calls), np.int64),
        np.zeros((7, len(calls)), np.int64),
        (Family("gemm", work * steps, 1, 128 * work * steps),),
        None,
    )
    made = RankDigest(
        path=path or f"rank{rank}.json",
        claim=RunClaim(rank, world, start, start + int(times[-1])),
        host=host,
        epoch_ns=EPOCH_NS,
        device=0,
        only_step_times=False,
        steps=Steps(
            "profiler_step",
            tuple(f"ProfilerStep#{i}" for i in range(steps)),
            times[:-1],
            times[1:],
            times[:-1],
            times[1:],
            0,
            np.empty(0, np.int32),
        ),
        compute=compute * each,
        communication=0 * each,
        busy=each,
        collectives=len(calls),
        calls=DigestedCalls.from_columns(columns),
        groups=tuple(groups),
        pieces=Pieces.empty(),
    )
    return DigestedRank(made.path, made, why)
