"""Hand-built runs of several ranks that really wait for each other; times in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

from tests.analysis.collectives import ALL_REDUCE, GEMM, Ranked
from traceanalyzer.diagnosis.measurements import Measurements, measure

WORKERS = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
NO_WORKERS = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
LATENCY = 6.0
WARMUP = 3
"""First steps without an annotation: until then a host that need not wait runs ahead of its
device."""


@dataclass(frozen=True)
class Rank:
    """What a rank does in each step before its collective."""

    host: float = 20.0
    """Host time before each launch, dispatch where short, work where long."""
    compute: float = 300.0
    work: float = 0.0
    """Host time once a step, before the first launch."""
    turn: int | None = None
    """Every other step, the even (0) or the odd ones (1), in which alone it computes for so
    long."""
    loads: float = 0.0
    """Host time once a step in its loader, before the first launch."""
    has_workers: bool = False
    works_in: int | None = None
    """Every other step in which alone its host has that work."""


def run(
    *ranks: Rank, transfer: float = 50.0, steps: int = 9, elements: int = 1000
) -> list[Measurements]:
    """One recording a rank: a kernel, then a collective that ends on all at once, then the next
    step."""
    builders = [Ranked() for _ in ranks]
    now = [0.0] * len(ranks)
    free = [0.0] * len(ranks)
    for step in range(steps):
        begun = list(now)
        arrived = []
        for r, rank in enumerate(ranks):
            works = rank.works_in in (None, step % 2)
            if rank.loads:
                loader = WORKERS if rank.has_workers else NO_WORKERS
                builders[r].annotation(loader, now[r], now[r] + rank.loads)
            now[r] += rank.loads + rank.host + (rank.work if works else 0.0)
            compute = rank.compute if rank.turn in (None, step % 2) else Rank.compute
            start = max(now[r] + LATENCY, free[r] + 1)
            builders[r].launched(GEMM, start, start + compute, now[r])
            free[r] = start + compute
            now[r] += 10
            arrived.append(max(now[r] + LATENCY, free[r] + 1))
        end = max(arrived) + transfer
        for r in range(len(ranks)):
            builders[r].collective(
                arrived[r],
                end,
                now[r],
                kernel=ALL_REDUCE,
                elements=elements,
                ranks=len(ranks),
                thread=0,
            )
            free[r] = end
            now[r] += 10
            if step >= WARMUP:
                builders[r].annotation(f"ProfilerStep#{step}", begun[r], now[r])
    return [measure(builder.trace(r, len(ranks))) for r, builder in enumerate(builders)]
