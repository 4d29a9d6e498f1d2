"""Logs of operations of pipelines that never ran: times worked out by waiting, not by a graph."""

import itertools
from collections.abc import Callable
from pathlib import Path

import pandas as pd

Duration = Callable[[str, int, int, int, int], float]
"""Seconds of an operation: its type, data-parallel rank, stage, chunk in the stage, microbatch."""
SEND_S = 0.01
SYNC_S = 0.2


def one_forward_one_backward(
    stage: int, stages: int, microbatches: int
) -> list[tuple[str, int, int]]:
    """The order of a stage's computations: type, chunk, microbatch."""
    warm = min(stages - 1 - stage, microbatches)
    order = [("forward", 0, m) for m in range(warm)]
    for m in range(microbatches - warm):
        order += [("forward", 0, warm + m), ("backward", 0, m)]
    return order + [("backward", 0, m) for m in range(microbatches - warm, microbatches)]


def interleaved(
    stage: int, stages: int, microbatches: int, chunks: int
) -> list[tuple[str, int, int]]:
    """The same of Megatron's interleaved schedule: `stages` microbatches of a chunk, then those of
    the next."""
    turns = [
        (chunk, first + m)
        for first in range(0, microbatches, stages)
        for chunk in range(chunks)
        for m in range(stages)
    ]
    back = [(chunks - 1 - chunk, m) for chunk, m in turns]
    warm = min(2 * (stages - stage - 1) + (chunks - 1) * stages, len(turns))
    order = [("forward", *turn) for turn in turns[:warm]]
    for forward, backward in zip(turns[warm:], back, strict=False):
        order += [("forward", *forward), ("backward", *backward)]
    return order + [("backward", *turn) for turn in back[len(turns) - warm :]]


class Run:
    """A step of a pipeline: `rows` of the log, `end` when its last operation ends."""

    def __init__(
        self,
        stages: int,
        dps: int,
        orders: dict[int, list[tuple[str, int, int]]],
        chunks: int,
        took: Duration,
    ):
        self.stages = stages
        self.dps = dps
        self.orders = orders
        self.last = stages * chunks - 1
        self.took = took
        self.compute: dict[tuple[int, int, str, int, int], tuple[float, float]] = {}
        self.posted: dict[tuple[int, int, str, str, int, int], float] = {}
        self.rows: list[tuple[object, ...]] = []
        while sum(map(self._advance, itertools.product(range(dps), range(stages)))):
            pass
        assert len(self.compute) == dps * sum(map(len, orders.values())), "the schedule is stuck"
        self._transfers()
        self.end = self._synchronise()

    def _arrival(
        self, dp: int, stage: int, way: str, chunk: int, m: int, posted: float
    ) -> float | None:
        """When the data of a computation is there; None: it has not been sent."""
        place = chunk * self.stages + stage
        source = place - 1 if way == "forward" else place + 1
        if not 0 <= source <= self.last:
            return posted + SEND_S * (self.last >= self.stages)
        sent = self.compute.get((dp, source % self.stages, way, source // self.stages, m))
        return None if sent is None else max(sent[1], posted) + SEND_S

    def _advance(self, worker: tuple[int, int]) -> bool:
        """Run the worker's next computation, if its data has been sent."""
        dp, stage = worker
        mine = [one for one in self.compute if one[:2] == worker]
        if len(mine) == len(self.orders[stage]):
            return False
        way, chunk, m = self.orders[stage][len(mine)]
        same = [one for one in mine if one[2] == way]
        posted = self.compute[same[-1]][1] if same else 0.0
        ways = [one[2] for one in mine]
        if way == "backward" and not same and ways.count("forward") > 1:
            posted = self.compute[mine[-2]][1]  # launched before the last forward computation
        there = self._arrival(dp, stage, way, chunk, m, posted)
        if there is None:
            return False
        start = max(there, self.compute[mine[-1]][1] if mine else 0.0)
        self.compute[*worker, way, chunk, m] = (
            start,
            start + self.took(f"{way}-compute", dp, stage, chunk, m),
        )
        self.posted[*worker, way, "recv", chunk, m] = posted
        return True

    def _transfers(self) -> None:
        seen: dict[tuple[object, ...], int] = {}

        def add(dp, stage, kind, start, end, chunk=-1, place=-1, m=-1):
            seq = seen[dp, stage, kind] = seen.get((dp, stage, kind), -1) + 1
            self.rows.append(
                (dp, stage, dp + self.dps * stage, kind, start, end - start, seq, chunk, m, place)
            )

        self.add = add
        for (dp, stage, way, chunk, m), (start, end) in self.compute.items():
            place = chunk * self.stages + stage
            posted = self.posted[dp, stage, way, "recv", chunk, m]
            forward = way == "forward"
            if self.last >= self.stages or 0 <= place + (-1 if forward else 1) <= self.last:
                add(
                    dp,
                    stage,
                    f"{way}-recv",
                    posted,
                    self._arrival(dp, stage, way, chunk, m, posted),
                )
            add(dp, stage, f"{way}-compute", start, end, chunk, place, m)
            target = place + (1 if forward else -1)
            if 0 <= target <= self.last:
                where = (dp, target % self.stages, way, "recv", target // self.stages, m)
                add(dp, stage, f"{way}-send", end, max(end, self.posted[where]) + SEND_S)
            elif self.last >= self.stages:
                add(dp, stage, f"{way}-send", end, end + SEND_S)

    def _synchronise(self) -> float:
        last = {
            worker: max(end for one, (_, end) in self.compute.items() if one[:2] == worker)
            for worker in itertools.product(range(self.dps), range(self.stages))
        }
        met = {
            stage: max(last[dp, stage] for dp in range(self.dps)) for stage in range(self.stages)
        }
        for (dp, stage), end in last.items():
            self.add(dp, stage, "grads-reduce-scatter", end, met[stage] + SYNC_S, chunk=0)
            after = met[stage] + SYNC_S
            self.add(dp, stage, "optimizer-clip-main-grad", after, max(met.values()) + 2 * SYNC_S)
            self.add(
                dp,
                stage,
                "optimizer",
                max(met.values()) + 2 * SYNC_S,
                max(met.values()) + 3 * SYNC_S,
            )
        return max(met.values()) + 3 * SYNC_S


def run(stages: int, dps: int, microbatches: int, took: Duration, chunks: int = 1) -> Run:
    """A step of so many stages and data-parallel ranks."""
    orders = {
        stage: interleaved(stage, stages, microbatches, chunks)
        if chunks > 1
        else one_forward_one_backward(stage, stages, microbatches)
        for stage in range(stages)
    }
    return Run(stages, dps, orders, chunks, took)


def frame(*steps: Run) -> pd.DataFrame:
    """The log of the steps."""
    names = [
        "dp_rank",
        "stage",
        "rank",
        "optype",
        "start_ts",
        "duration",
        "seq_id",
        "mc",
        "mb_id",
        "gmc",
    ]
    parts = [pd.DataFrame(one.rows, columns=names).assign(step=i) for i, one in enumerate(steps)]
    return pd.concat(parts, ignore_index=True).astype({"optype": "category"})


def write(path: Path, *steps: Run) -> Path:
    """The log as a file."""
    frame(*steps).to_parquet(path)
    return path
