"""What the ranks that hold up a run cost, as its diagnosis says: what reports and fleets show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from traceanalyzer.analysis.ranks.compare import RankComparison, RankRow
from traceanalyzer.analysis.ranks.late import LateRank
from traceanalyzer.base import span
from traceanalyzer.diagnosis.finding import BottleneckClass, Diagnosis, Finding
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.straggler import (
    LATE_IN_REPLAY,
    Cause,
    LateByReplay,
    gain_without_late_ms,
    holding_up,
    how_late,
    late_by_replay,
    why_late,
)

STRAGGLER = "straggler"
"""The finding that names ranks."""
_OF_CLASS: Mapping[BottleneckClass, Cause] = {"host": "slow_host", "input": "input"}
"""Why ranks are late whose own work does not tell, by the class of the finding."""


class HeldUp(NamedTuple):
    """The ranks that a finding names."""

    costs: dict[int | None, float]
    """For each what the run gains without it, ms a step; empty where nobody is named."""
    how: str = "alone"
    """Whether they hold up the run `alone`, `together` or `by turns`."""
    cause: Cause | None = None
    """Why, where their own work tells."""
    shared: bool = False
    """Whether each cost is that of all of them."""

    def cost(self, step_ms: float | None) -> str:
        """What they cost of the step, `1.03 ms, 13%`; empty where it is not known, and of ranks
        that cost something else each."""
        ms = next(iter(self.costs.values()), 0.0)
        is_one_cost = len(self.costs) == 1 or self.shared
        return f"{span(ms)}, {ms / step_ms:.0%}" if step_ms and ms > 0 and is_one_cost else ""


def rank_costs(m: Measurements, found: Diagnosis) -> dict[int | None, float]:
    """For each rank that a finding names what the run gains without it, ms a step."""
    return held_up(m, found).costs


def held_up(m: Measurements, found: Diagnosis) -> HeldUp:
    """The ranks that a finding names, with what the advice gains; without advice, and of ranks that
    came late by turns, what each is late by as recorded, at most the finding's headroom."""
    finding = next((one for one in found.findings if one.id == STRAGGLER), None)
    if finding is None or m.ranks is None:
        return HeldUp({})
    gain_ms = _gain_ms(found)
    in_replay = m.memo(late_by_replay)
    if in_replay is not None and finding.evidence[0].metric == LATE_IN_REPLAY:
        return _by_replay(in_replay, gain_ms)
    late = holding_up(m)
    how = how_late(late)
    costs = _recorded_costs(m.ranks, late)
    if how == "by turns":
        return HeldUp(costs, how)
    most_ms = _most_ms(m, finding)
    costs = {rank: min(ms, most_ms) if gain_ms is None else gain_ms for rank, ms in costs.items()}
    cause = _cause(m) or _OF_CLASS.get(finding.cls)
    return HeldUp(costs, how, cause, shared=len(costs) > 1)


def _by_replay(late: LateByReplay, gain_ms: float | None) -> HeldUp:
    cost_ms = late.late_ms if gain_ms is None else gain_ms
    costs = dict.fromkeys(late.ranks, cost_ms)
    cause: Cause = "more_work" if late.computes else "slow_host"
    return HeldUp(costs, late.how, cause, shared=len(costs) > 1)


def _cause(m: Measurements) -> Cause | None:
    """Why ranks are late; stages of a pipeline do other work each, so that theirs does not tell."""
    return None if m.ranks is None or m.ranks.pipeline is not None else why_late(m)


def _most_ms(m: Measurements, finding: Finding) -> float:
    """What ranks that no advice is on cost at most: the finding's headroom, and what the replay
    gains without them."""
    known = (finding.headroom_ms, gain_without_late_ms(m))
    return min((ms for ms in known if ms is not None), default=math.inf)


def _recorded_costs(ranks: RankComparison, late: Sequence[LateRank]) -> dict[int | None, float]:
    """What each late rank is late by as recorded; of none the critical rank."""
    rows = ranks.rows
    if late:
        return {rows[one.position].rank: one.gain_ms for one in late}
    critical = rows[ranks.critical]
    return {critical.rank: critical.gain_ms or 0.0}


def with_costs(rows: list[RankRow], costs: Mapping[int | None, float]) -> list[RankRow]:
    """The rows, those named that the diagnosis names, with what each of them costs."""
    return [
        replace(row, straggler=row.rank in costs, gain_ms=costs.get(row.rank, row.gain_ms))
        for row in rows
    ]


def _gain_ms(found: Diagnosis) -> float | None:
    """What the step gains without the ranks that hold it up, as the advice says; None where it says
    nothing."""
    step_ms = found.summary.step_ms
    for advice in found.recommendations:
        if advice.remedy == "fix_straggler" and advice.predicted_step_ms and step_ms:
            return step_ms - advice.predicted_step_ms
    return None
