"""How long `fleet` takes for a job of many ranks, in how much memory: python -m benchmarks.fleet
[RANKS] [COLLECTIVES].

Digests of a job with tensor parallel 8 and data parallel over the rest are made by hand: half of
the collectives are of groups of 8, half of the others; one rank is late by 3 ms a step. Prints the
seconds and GiB of `fleet` on them.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from traceanalyzer.analysis.causes.idle_cause import IdleCause
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
from traceanalyzer.fleet.digests.files import SUFFIX, DigestedRank, encoded

TENSOR = 8
STEPS = 10
LATE_NS = 3_000_000
WORK_NS = 400_000
TRANSFER_NS = 100_000
SIGMA_NS = 5_000
EPOCH_NS = 1_700_000_000_000_000_000


def times(ranks: int, collectives: int, late: int) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of each collective (rows) on each rank, ns."""
    random = np.random.default_rng(1)
    clock = np.zeros(ranks, np.int64)
    starts, ends = (np.empty((collectives, ranks), np.int64) for _ in range(2))
    number = np.arange(ranks)
    groups = (number // TENSOR, number % TENSOR)
    for i in range(collectives):
        came = clock + WORK_NS + np.abs(random.normal(0, SIGMA_NS, ranks)).astype(np.int64)
        if i % (collectives // STEPS) == 0:
            came[late] += LATE_NS
        group = groups[i % 2]
        last = np.zeros(int(group.max()) + 1, np.int64)
        np.maximum.at(last, group, came)
        clock = last[group] + TRANSFER_NS
        starts[i] = came
        ends[i] = clock
    return starts, ends


def rank_of(rank: int, ranks: int, start: np.ndarray, end: np.ndarray, late: bool) -> DigestedRank:
    """A rank of these times."""
    count = len(start)
    a_step = count // STEPS
    step = np.minimum(np.arange(count) // a_step, STEPS - 1)
    edges = np.append(0, end[a_step - 1 :: a_step][: STEPS - 1])
    edges = np.append(edges, end[-1])
    each = np.ones(STEPS, np.int64)
    before = np.append(start[0], start[1:] - end[:-1])
    compute = np.bincount(step, before, minlength=STEPS).astype(np.int64)
    first = rank // TENSOR * TENSOR
    tensor = str(list(range(first, first + TENSOR)))
    data = f"[{rank % TENSOR}, {rank % TENSOR + TENSOR}, ..., {ranks - TENSOR + rank % TENSOR}]"
    columns = {
        "start": start,
        "end": end,
        "launched": start,
        "row": np.arange(count),
        "step": step,
        "kind": np.ones(count),
        "bytes": np.full(count, 1 << 20),
        "group": np.arange(count) % 2,
    }
    names = tuple(f"ProfilerStep#{i}" for i in range(STEPS))
    steps = Steps(
        "profiler_step",
        names,
        edges[:-1],
        edges[1:],
        edges[:-1],
        edges[1:],
        0,
        np.empty(0, np.int32),
    )
    digest = RankDigest(
        path=f"rank{rank}.json",
        claim=RunClaim(rank, ranks, 0, int(end[-1])),
        host=f"node{rank // TENSOR}",
        epoch_ns=EPOCH_NS,
        device=0,
        only_step_times=False,
        steps=steps,
        compute=compute,
        communication=0 * each,
        busy=compute,
        collectives=count,
        calls=DigestedCalls.from_columns(columns),
        groups=(
            ProcessGroup("tp", tensor, "", TENSOR),
            ProcessGroup("dp", data, "", ranks // TENSOR),
        ),
        pieces=Pieces.empty(),
    )
    idle = np.zeros((len(IdleCause), count), np.int64)
    family = Family("gemm", 10 * count, int(compute.sum()), 1 << 30)
    return DigestedRank(
        digest.path, digest, Why(0 * each, 0 * each, idle[:, :STEPS], before, idle, (family,), None)
    )


def main(ranks: int = 10_000, collectives: int = 1_000) -> None:
    late = ranks * 2 // 3
    with tempfile.TemporaryDirectory() as folder:
        starts, ends = times(ranks, collectives, late)
        size = 0
        for rank in range(ranks):
            data = encoded(rank_of(rank, ranks, starts[:, rank], ends[:, rank], rank == late))
            size += len(data)
            (Path(folder) / f"rank{rank:05}{SUFFIX}").write_bytes(data)
        del starts, ends
        begun = time.monotonic()
        command = [sys.executable, "-m", "traceanalyzer", "fleet", folder, "--format", "json"]
        done = subprocess.run(
            command, check=True, capture_output=True, env=os.environ | {"TRACEANALYZER_CACHE": ""}
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds = time.monotonic() - begun
    found = json.loads(done.stdout)["culprits"]
    print(
        f"{ranks:,} ranks x {collectives:,} collectives, {size / ranks:,.0f} bytes a digest: {seconds:.1f} s "
        f"({used.ru_utime + used.ru_stime:.1f} s of CPU), {used.ru_maxrss / 2**20:.2f} GiB; late: rank {late}, named: "
        + ", ".join(f"{one['rank']} ({one['cause']}, {one['gain_ms']:.3f} ms)" for one in found)
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
