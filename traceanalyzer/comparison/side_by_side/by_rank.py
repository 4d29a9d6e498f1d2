"""The ranks of two runs side by side: how long each takes, computes and waits in both, who became
later, and how unevenly they wait.

Ranks that exchange have steps of one length, so a rank is judged by how late it is: what the run
would gain without it. Times are of the recorded step."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.base import dataclass, digits, metric, plural
from traceanalyzer.report.model import Report

APART_SHARE = 0.05
"""Share of the step by which a rank must become later, or ranks wait less evenly, to be named: as
much as a run must gain without a rank that holds it up."""
NAMED_RANKS = 8


@dataclass(frozen=True)
class RankChange:
    """One rank that both runs recorded, in their mean recorded steps."""

    rank: int | None = metric("rank of the process")
    a_step_ms: float = metric("its step in A")
    b_step_ms: float = metric("its step in B")
    a_compute_ms: float = metric("time with compute on its device in A")
    b_compute_ms: float = metric("the same in B")
    a_waiting_ms: float | None = metric(
        "time in collectives for ranks that had not arrived, in A; null where that is not known"
    )
    b_waiting_ms: float | None = metric("the same in B")
    a_late_ms: float | None = metric(
        "what A would gain without it; null where no collectives were matched"
    )
    b_late_ms: float | None = metric("what B would gain without it")
    late_difference_ms: float | None = metric("B's less A's")


@dataclass(frozen=True)
class RanksChange:
    """All ranks of both runs."""

    a_ranks: int = metric("ranks recorded in A")
    b_ranks: int = metric("ranks recorded in B")
    a_critical: int | None = metric("the rank that A's figures are of")
    b_critical: int | None = metric("the rank that B's figures are of")
    slower: int | None = metric(
        "the rank that became later by most, and by 5 % of the step or more; null where none did"
    )
    faster: int | None = metric("the rank that is less late by most, and by as much")
    a_spread_ms: float | None = metric(
        "longest waiting of A's ranks less the shortest; null where that is not known of two"
    )
    b_spread_ms: float | None = metric("the same of B's")
    cannot_tell: str = metric(
        "what the two cannot tell, as where a run has other ranks; empty where all ranks are in both",
        text="own",
    )
    rows: list[RankChange] = metric("each rank that is in both, by rank")
    is_named: bool = metric(
        "whether the step changed, so that differences of ranks say why", default=True
    )

    @property
    def sentence(self) -> str:
        """Who became later, and how unevenly ranks wait; empty where nothing is to be said."""
        return " ".join(filter(None, (self._who(), self._spread(), self.cannot_tell)))

    def under(self, verdict: str) -> "RanksChange":
        """What is left to say under a verdict on the step: ranks of a program that did not change
        differ by their machines, so nobody is named."""
        if verdict != "no_change":
            return self
        return replace(self, slower=None, faster=None, is_named=False)

    def row(self, rank: int | None) -> RankChange | None:
        """The row of a rank; None for no rank."""
        return next((one for one in self.rows if rank is not None and one.rank == rank), None)

    def _who(self) -> str:
        found = []
        for rank, word in ((self.slower, "slower"), (self.faster, "faster")):
            row = self.row(rank)
            if row is not None and row.a_late_ms is not None and row.b_late_ms is not None:
                times = f"{digits(row.a_late_ms)} → {digits(row.b_late_ms)} ms"
                found.append(f"Rank {rank} became {word}: it holds up each step by {times}.")
        return " ".join(found)

    def _spread(self) -> str:
        if self.a_spread_ms is None or self.b_spread_ms is None or not self.is_named:
            return ""
        least_ms = APART_SHARE * max((row.a_step_ms for row in self.rows), default=0.0)
        if abs(self.b_spread_ms - self.a_spread_ms) < least_ms:
            return ""
        spread = f"{digits(self.a_spread_ms)} → {digits(self.b_spread_ms)} ms"
        return f"Ranks' waiting differs by {spread}."


def ranks_between(a: Report, b: Report) -> RanksChange | None:
    """What changed on each rank; None where both are of one rank."""
    of_a = _by_rank(a)
    of_b = _by_rank(b)
    if len(of_a) < 2 and len(of_b) < 2:
        return None
    shared = of_a.keys() & of_b.keys() if _world(a) == _world(b) else set()
    rows = [_row(of_a[rank], of_b[rank]) for rank in sorted(shared)]
    return RanksChange(
        a_ranks=max(len(of_a), 1),
        b_ranks=max(len(of_b), 1),
        a_critical=_critical(a),
        b_critical=_critical(b),
        slower=_later_by_most(rows, sign=1),
        faster=_later_by_most(rows, sign=-1),
        a_spread_ms=_spread_ms(of_a.values()),
        b_spread_ms=_spread_ms(of_b.values()),
        cannot_tell=_cannot_tell(a, b),
        rows=rows,
    )


def _by_rank(report: Report) -> dict[int, RankRow]:
    rows: Sequence[RankRow] = report.tables.get("ranks", [])
    known = {row.rank: row for row in rows if row.rank is not None}
    return {rank: row for rank, row in known.items() if row.step_mean_ms is not None}


def _row(a: RankRow, b: RankRow) -> RankChange:
    known = a.gain_ms is not None and b.gain_ms is not None
    return RankChange(
        rank=a.rank,
        a_step_ms=a.step_mean_ms or 0.0,
        b_step_ms=b.step_mean_ms or 0.0,
        a_compute_ms=a.compute_ms,
        b_compute_ms=b.compute_ms,
        a_waiting_ms=a.waiting_ms,
        b_waiting_ms=b.waiting_ms,
        a_late_ms=a.gain_ms,
        b_late_ms=b.gain_ms,
        late_difference_ms=(b.gain_ms or 0.0) - (a.gain_ms or 0.0) if known else None,
    )


def _spread_ms(rows: Collection[RankRow]) -> float | None:
    """The longest waiting of a run's ranks less the shortest; None where it is not known of two."""
    known = [row.waiting_ms for row in rows if row.waiting_ms is not None]
    return max(known) - min(known) if len(known) > 1 else None


def _later_by_most(rows: Sequence[RankChange], sign: int) -> int | None:
    """The rank that became later (or, with the other sign, less late) by most; None where none did
    by enough."""
    found = None
    most_ms = 0.0
    for row in rows:
        change_ms = sign * (row.late_difference_ms or 0.0)
        least_ms = APART_SHARE * max(row.a_step_ms, row.b_step_ms)
        if change_ms >= least_ms and change_ms > most_ms:
            found = row.rank
            most_ms = change_ms
    return found


def _critical(report: Report) -> int | None:
    rows: Sequence[RankRow] = report.tables.get("ranks", [])
    late = [row.rank for row in rows if row.straggler]
    if late:
        return late[0]
    return rows[0].rank if rows else next((item.rank for item in report.inputs), None)


def _cannot_tell(a: Report, b: Report) -> str:
    """What keeps ranks from being compared, and what can still be told; empty where nothing
    does."""
    worlds = _world(a), _world(b)
    if all(worlds) and worlds[0] != worlds[1]:
        return (
            f"A ran on {worlds[0]} ranks and B on {worlds[1]}: the step, what it is made of and the "
            "time for each sample (--samples A,B) can be compared; which rank became slower cannot "
            "be told."
        )
    of_a = _recorded(a)
    of_b = _recorded(b)
    is_one_process = not of_a or not of_b  # of which the conditions tell
    if of_a == of_b or is_one_process:
        return ""
    sides = [
        f"{name} has no recording of {plural('rank', len(lacking))} {_listed(lacking)}"
        for name, lacking in (("A", of_b - of_a), ("B", of_a - of_b))
        if lacking
    ]
    shared = sorted(of_a & of_b)
    how = f"; --rank {shared[0]} compares one that both have" if shared else ""
    return (
        f"{' and '.join(sides)}: whether another rank became slower, or holds up the run, cannot be "
        f"told{how}."
    )


def _recorded(report: Report) -> set[int]:
    """The ranks that were recorded, as far as recordings say theirs."""
    rows: Sequence[RankRow] = report.tables.get("ranks", [])
    known = [row.rank for row in rows] or [item.rank for item in report.inputs]
    return {rank for rank in known if rank is not None}


def _world(report: Report) -> int:
    """Ranks of the run: as stated, else as many as were recorded together; 0 where nothing tells."""
    stated = max((item.world_size or 0 for item in report.inputs), default=0)
    return stated or len(report.tables.get("ranks", []))


def _listed(ranks: Collection[int]) -> str:
    names = [str(rank) for rank in sorted(ranks)]
    more = len(names) - NAMED_RANKS
    shown = ", ".join(names[:NAMED_RANKS])
    return f"{shown} and {more} more" if more > 0 else shown
