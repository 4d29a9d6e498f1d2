"""The heat map: how much longer ranks work before their collectives than the middle one, step by
step."""

import numpy as np

from traceanalyzer.analysis.ranks.matches import largest_of
from traceanalyzer.base import NS_PER_MS
from traceanalyzer.fleet.job.model import Heat
from traceanalyzer.fleet.job.ranks import JobRanks
from traceanalyzer.fleet.job.simulate import middle_of_alike
from traceanalyzer.trace import F64, I64

MOST_ROWS = 256
MOST_STEPS = 128


def heat_of(job: JobRanks) -> Heat | None:
    """Ranks in the order of stage, host and number, binned by their maximum; the worst keep a row
    of their own. None without steps in which they were compared."""
    steps = job.steady_steps[:MOST_STEPS]
    size = len(job.digests)
    if not len(steps):
        return None
    table = _excess_ns(job)[:, steps] / NS_PER_MS
    stages = [-1 if stage is None else stage for stage in job.stages]
    hosts = [host or "" for host in job.hosts[0]]
    order = sorted(range(size), key=lambda i: (stages[i], hosts[i], i))
    names = []
    for i in order:
        rank = job.digests[i].rank
        stage = job.stages[i]
        name = f"rank {i if rank is None else rank}"
        names.append(name if stage is None else f"{name}, stage {stage}")
    shown = [job.steps[i] for i in steps.tolist()]
    return Heat(*_binned(table[order], names), shown, _folded(table, np.array(stages)))


def _excess_ns(job: JobRanks) -> F64:
    """[rank, step]: how much longer a rank works before its collectives than the middle one of those
    alike; of a pipeline, or without a plan, what it is late by itself."""
    plan = job.plan
    if plan is None or job.compared.pipeline is not None:
        return job.own_ns.T
    matches = plan.matches
    longer = np.maximum(matches.stretch - middle_of_alike(plan), 0)
    longer = largest_of(longer, matches.rank, matches.series[matches.collective])
    size = len(job.digests)
    count = len(job.steps)
    key = matches.rank.astype(np.int64) * count + matches.step[matches.collective]
    excess = np.bincount(key, longer, minlength=size * count)
    return excess.reshape(size, count).astype(np.float64)


def _binned(table: F64, names: list[str]) -> tuple[F64, list[str]]:
    """At most so many rows: neighbours share one, which shows the largest of them, and is named by
    it."""
    wide = -(-len(table) // MOST_ROWS)
    if wide < 2:
        return table, names
    rows = []
    labels = []
    for i in range(0, len(table), wide):
        neighbours = table[i : i + wide]
        worst = i + int(neighbours.max(axis=1).argmax())
        last = names[i + len(neighbours) - 1].removeprefix("rank ")
        rows.append(neighbours.max(axis=0))
        labels.append(f"{names[i]} to {last} (worst: {names[worst]})")
    return np.stack(rows), labels


def _folded(table: F64, stages: I64) -> F64 | None:
    """The mean excess of each stage (row) and place in it (column); None without stages."""
    if stages.min() < 0 or len(np.unique(stages)) < 2:
        return None
    mean = table.mean(axis=1)
    width = int(np.bincount(stages).max())
    wide = -(-width // MOST_ROWS)
    result = np.zeros((int(stages.max()) + 1, -(-width // wide)))
    for stage, row in enumerate(result):
        of_stage = mean[stages == stage]
        np.maximum.at(row, np.arange(len(of_stage)) // wide, of_stage)
    return result
