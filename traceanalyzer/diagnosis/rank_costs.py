"""What the ranks that hold up a run cost, as its diagnosis says: what reports and fleets show."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from traceanalyzer.analysis.ranks.compare import RankComparison, RankRow
from traceanalyzer.analysis.ranks.late import LateRank
from traceanalyzer.diagnosis.diagnose import Diagnosis
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.straggler import (
    LATE_IN_REPLAY,
    holding_up,
    how_late,
    late_by_replay,
)

STRAGGLER = "straggler"
"""The finding that names ranks."""


def rank_costs(m: Measurements, found: Diagnosis) -> dict[int | None, float]:
    """For each rank that a finding names what the run gains without it, ms a step: what the advice
    gains; without advice, and of ranks by turns, what it is late by as recorded, at most the
    finding's headroom. Empty where nobody is named."""
    finding = next((one for one in found.findings if one.id == STRAGGLER), None)
    if finding is None or m.ranks is None:
        return {}
    in_replay = m.memo(late_by_replay) if finding.evidence[0].metric == LATE_IN_REPLAY else None
    late = holding_up(m)
    recorded = _recorded_costs(m.ranks, late)
    if in_replay is not None:
        recorded = {in_replay.rank: in_replay.late_ms}
    elif how_late(late) == "by turns":
        return recorded
    gain_ms = _gain_ms(found)
    if gain_ms is not None:
        return dict.fromkeys(recorded, gain_ms)
    most_ms = finding.headroom_ms
    return {rank: ms if most_ms is None else min(ms, most_ms) for rank, ms in recorded.items()}


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
