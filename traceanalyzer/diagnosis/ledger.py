"""The step ledger: where each part of the step goes, why, and how that is known, decided once.

It is built from the recorded step (its parts, and its gaps with the causes that `analysis/causes`
gave them), the replay, which says how long each of them is without the profiler, and the stopwatch,
where there is one. Verdict, culprit, findings, tables and other commands take their sums from it:
none derives its own."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra import Groups, at
from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.causes.idle_left import IdleLeft, Place
from traceanalyzer.analysis.tables.gap_rows import parts_of_gaps, place_names
from traceanalyzer.analysis.tables.path_rows import NodeNames
from traceanalyzer.analysis.tables.step_figures import Budget, Idle
from traceanalyzer.analysis.tables.step_parts import StepPart
from traceanalyzer.analysis.tables.syncs import steady_lengths
from traceanalyzer.base import NS_PER_MS, dataclass, maybe, metric
from traceanalyzer.replay.idle_pieces import IdlePieces
from traceanalyzer.replay.unprofiled import StepWithoutProfiler
from traceanalyzer.trace import F64, I64, distinct

Kind = Literal["compute", "communication", "waiting", "copy", "idle"]
Basis = Literal["recorded", "replayed", "measured"]
KINDS: tuple[Kind, ...] = ("compute", "communication", "waiting", "copy", "idle")
KIND_OF_PART: dict[str, Kind] = {
    "compute": "compute",
    "exposed_communication": "communication",
    "exposed_copy": "copy",
}
"""The kind of entry that each part of the budget is, but idle time."""
OTHERS = "(others)"
MOST_PLACES = 40
_CAUSES = {int(cause): cause.label for cause in IdleCause}
_DETAILS = {int(detail): detail.label or None for detail in IdleDetail}
"""Places that are told apart for a kind and a cause: what is behind the longest of them together is
hardly anything."""


@dataclass(frozen=True)
class LedgerEntry:
    """One part of the step. The `ms` of all entries sum to the step that the report speaks of, their
    `recorded_ms` to the recorded one."""

    kind: Kind = metric(
        "what the device did: `compute`, `communication` and `copy` (exposed), `waiting` (in a collective for "
        "another rank) or `idle`",
        text="own",
    )
    cause: str = metric(
        "of idle time what the device waits for (`launch`, `sync`, `input`, `host`, ...); of waiting what the other "
        "rank does; of work its class",
        text="own",
    )
    place: str | None = maybe(
        "operator, call, collective or direction of copies that it is charged to; null where nothing tells"
    )
    detail: str | None = maybe("what kind of host work, where that has a name", text="own")
    ms: float = metric("its time in the step that the report speaks of", default=0.0)
    recorded_ms: float = metric(
        "its time in the mean recorded step; waiting is within communication there", default=0.0
    )
    basis: Basis = metric(
        "how `ms` is known: `recorded`, `replayed` without the profiler, or `measured`: replayed, "
        "and as long as a stopwatch says",
        default="recorded",
        text="own",
    )


@dataclass(frozen=True)
class Ledger:
    """The entries of one step, by kind, in each the longest first."""

    entries: tuple[LedgerEntry, ...]

    @property
    def step_ms(self) -> float:
        """The step that the report speaks of."""
        return self.ms()

    @property
    def recorded_ms(self) -> float:
        """The mean recorded step."""
        return float(sum(one.recorded_ms for one in self.entries))

    def ms(self, kind: Kind | None = None, cause: str | None = None) -> float:
        """Time of the entries of a kind, a cause, or both."""
        return float(sum(one.ms for one in self.of(kind, cause)))

    def of(self, kind: Kind | None = None, cause: str | None = None) -> list[LedgerEntry]:
        """The entries of a kind, a cause, or both."""
        return [
            one
            for one in self.entries
            if (kind is None or one.kind == kind) and (cause is None or one.cause == cause)
        ]

    def largest(self, kind: Kind, cause: str | None = None) -> LedgerEntry | None:
        """The longest entry of a kind and a cause; None where there is none with any time."""
        found = max(self.of(kind, cause), key=lambda one: one.ms, default=None)
        return found if found is not None and found.ms > 0 else None

    def budget(self) -> Budget:
        """The step by what the device did; waiting is exposed communication."""
        communication = self.ms("communication") + self.ms("waiting")
        return Budget(self.ms("compute"), communication, self.ms("copy"), self.ms("idle"))

    def idle(self) -> Idle:
        """Its idle time by cause."""
        return Idle(**{cause.label: self.ms("idle", cause.label) for cause in IdleCause})

    def detail_ms(self, detail: IdleDetail) -> float:
        """Idle time of a kind of host work."""
        named = [one for one in self.of("idle") if one.detail == detail.label]
        return float(sum(one.ms for one in named))


def make_ledger(
    causes: Causes,
    parts: Sequence[StepPart],
    recorded_idle: Idle,
    without: StepWithoutProfiler | None,
    basis: Basis,
) -> Ledger:
    """The ledger of a rank: of the step `without` the profiler, on this basis, else of the recorded
    one. `parts`: the recorded step in its smallest named parts."""
    entries = [*_of_work(parts, without, basis), *_of_waiting(without, basis)]
    entries += _of_idle(causes, recorded_idle, without, basis)

    def place_of(entry: LedgerEntry) -> tuple[int, float, float]:
        return KINDS.index(entry.kind), -entry.ms, -entry.recorded_ms

    return Ledger(tuple(sorted(entries, key=place_of)))


class _Spent(NamedTuple):
    """What a `LedgerEntry` has. Of a hundred thousand places those become one that are long."""

    kind: Kind
    cause: str
    place: str | None
    detail: str | None
    ms: float
    recorded_ms: float
    basis: Basis


def _of_work(
    parts: Sequence[StepPart], without: StepWithoutProfiler | None, basis: Basis
) -> list[LedgerEntry]:
    """The device's work by class and operator. Without the profiler it is as recorded, in
    proportion to what the step has of it."""
    recorded: dict[tuple[Kind, str, str | None], float] = {}
    totals = dict.fromkeys(KINDS, 0.0)
    for part in parts:
        if part.part in KIND_OF_PART:
            key = _work_key(part)
            recorded[key] = recorded.get(key, 0.0) + part.ms
            totals[key[0]] += part.ms
    now = totals if without is None else _work_without(without)
    entries = []
    for (kind, cls, place), recorded_ms in recorded.items():
        time_ms = recorded_ms * now[kind] / totals[kind] if totals[kind] else 0.0
        entries.append(_Spent(kind, cls, place, None, time_ms, recorded_ms, basis))
    unseen = [kind for kind in KIND_OF_PART.values() if not totals[kind] and now[kind]]
    entries += [_Spent(kind, kind, None, None, now[kind], 0.0, basis) for kind in unseen]
    return _longest(entries)


def _work_key(part: StepPart) -> tuple[Kind, str, str | None]:
    """Kind, class and place of device work."""
    kind = KIND_OF_PART[part.part]
    place = part.op or part.kernel if kind == "compute" else part.kernel
    return kind, part.cls, place


def _work_without(without: StepWithoutProfiler) -> dict[Kind, float]:
    budget = without.budget
    waits = without.waiting.total if without.waiting is not None else 0.0
    return {
        "compute": budget.compute,
        "communication": max(budget.exposed_communication - waits, 0.0),
        "copy": budget.exposed_copy,
    }


def _of_waiting(without: StepWithoutProfiler | None, basis: Basis) -> list[LedgerEntry]:
    if without is None or without.waiting is None:
        return []
    times: Iterable[tuple[str, float]] = vars(without.waiting).items()
    return [
        LedgerEntry("waiting", part, ms=time_ms, basis=basis) for part, time_ms in times if time_ms
    ]


def _of_idle(
    causes: Causes, recorded: Idle, without: StepWithoutProfiler | None, basis: Basis
) -> list[LedgerEntry]:
    """Idle time by cause, kind of host work and place: each recorded gap, with what is left of it
    without the profiler, and the gaps that the replay alone has."""
    as_recorded = _recorded_idle(causes, recorded)
    now = as_recorded if without is None else _idle_without(causes, idle_left(causes, without.idle))
    entries = [
        _Spent(
            "idle",
            cause,
            place,
            detail,
            now.get((cause, place, detail), 0.0),
            as_recorded.get((cause, place, detail), 0.0),
            basis,
        )
        for cause, place, detail in dict.fromkeys([*as_recorded, *now])
    ]
    return _longest(entries)


_IdlePlace = tuple[str, str | None, str | None]
"""Cause, place and kind of host work of idle time."""


def _recorded_idle(causes: Causes, recorded: Idle) -> dict[_IdlePlace, float]:
    """The recorded idle time of a mean step, ms."""
    length = steady_lengths(causes.timed, causes.gaps)
    steady = np.flatnonzero(length > 0)
    result: dict[_IdlePlace, float] = {}
    _add(result, causes, steady, length[steady].astype(np.float64))
    total = dict.fromkeys([cause.label for cause in IdleCause], 0.0)
    for (cause, _, _), time in result.items():
        total[cause] += time
    for cause in total:
        if not total[cause] and getattr(recorded, cause):
            result[cause, None, None] = total[cause] = 1.0
    return {
        (cause, place, detail): getattr(recorded, cause) * time / total[cause]
        for (cause, place, detail), time in result.items()
    }


def _idle_without(causes: Causes, left: IdleLeft) -> dict[_IdlePlace, float]:
    """Idle time of the step without the profiler, ms."""
    result: dict[_IdlePlace, float] = {}
    gap = np.flatnonzero(left.of_gap > 0)
    _add(result, causes, gap, left.of_gap[gap])
    for (cause, place), time_ms in left.elsewhere.items():
        key = (cause, place, None)
        result[key] = result.get(key, 0.0) + time_ms
    return result


def idle_left(causes: Causes, pieces: IdlePieces) -> IdleLeft:
    """Idle time of the step without the profiler: what keeps the cause of a gap in the recorded
    steps is of that gap, the rest where the op that ends it was launched. That of which only the
    cause is known is spread over the gaps of it as they were recorded."""
    is_placed = (pieces.gap >= 0) | (pieces.op >= 0)
    spread = _spread(causes, pieces.take(np.flatnonzero(~is_placed)))
    if not is_placed.any():
        return spread
    pieces = pieces.take(np.flatnonzero(is_placed))
    kept = np.flatnonzero(pieces.gap >= 0)
    gap = pieces.gap[kept]
    in_steps = steady_lengths(causes.timed, causes.gaps)[gap] > 0
    kept = kept[in_steps & (causes.gaps.cause[gap] == pieces.cause[kept])]
    of_gap = np.zeros(len(causes.gaps))
    np.add.at(of_gap, pieces.gap[kept], pieces.ms[kept])
    new = np.ones(len(pieces), bool)
    new[kept] = False
    filled, left = _in_gaps_off_the_tape(causes, of_gap, pieces.take(new))
    elsewhere = _where_launched(causes, left)
    for place, time_ms in spread.elsewhere.items():
        elsewhere[place] = elsewhere.get(place, 0.0) + time_ms
    return IdleLeft(filled + spread.of_gap, elsewhere)


def _in_gaps_off_the_tape(causes: Causes, of_gap: F64, new: IdlePieces) -> tuple[F64, IdlePieces]:
    """Idle time by recorded gap with what of the `new` pieces is of gaps that no op of a tape ends:
    the replay has their time elsewhere. And what is left of the pieces."""
    missing = _missing_off_the_tape(causes, of_gap)
    if not missing.any() or not len(new):
        return of_gap, new
    filled = of_gap.copy()
    left = new.ms.copy()
    for cause in distinct(new.cause).tolist():
        room = np.where(causes.gaps.cause == cause, missing, 0.0)
        room_ms = float(room.sum())
        is_named = new.cause == cause
        new_ms = float(new.ms[is_named].sum())
        moved_ms = min(room_ms, new_ms)
        if moved_ms > 0:
            filled += room * (moved_ms / room_ms)
            left[is_named] *= 1.0 - moved_ms / new_ms
    return filled, replace(new, ms=left)


def _missing_off_the_tape(causes: Causes, of_gap: F64) -> F64:
    """What of each recorded gap is not in `of_gap`, of those that end with work which no call
    launched, ms a step."""
    gaps = causes.gaps
    steps = causes.timed.steps.steady_count
    recorded = steady_lengths(causes.timed, gaps) / NS_PER_MS / steps
    launched = at(causes.timed.linked.launch, gaps.next_op, 0) >= 0
    return np.where(launched, 0.0, np.maximum(recorded - of_gap, 0.0))


def _spread(causes: Causes, pieces: IdlePieces) -> IdleLeft:
    """Idle time of which only the causes are known, over the recorded gaps of each."""
    length = np.maximum(steady_lengths(causes.timed, causes.gaps), 0).astype(np.float64)
    of_gap = np.zeros(len(length))
    elsewhere = dict[Place, float]()
    for cause, time_ms in pieces.by_cause().items():
        share = np.where(causes.gaps.cause == cause, length, 0.0)
        if share.any():
            of_gap += share * (time_ms / share.sum())
        elif time_ms:
            elsewhere[cause.label, None] = time_ms
    return IdleLeft(of_gap, elsewhere)


def _where_launched(causes: Causes, pieces: IdlePieces) -> dict[Place, float]:
    """Idle time by cause and by what launched the op that ends it, ms."""
    names = place_names(causes.timed)
    node = at(causes.timed.joined.launch_node, pieces.op, -1).astype(np.int32)
    nowhere = len(causes.timed.trace.strings)
    code = NodeNames.of(causes.timed).at(node, nowhere)
    result = dict[Place, float]()
    for cause, name, time_ms in zip(
        pieces.cause.tolist(), code.tolist(), pieces.ms.tolist(), strict=True
    ):
        key = (IdleCause(cause).label, None if name == nowhere else names[name])
        result[key] = result.get(key, 0.0) + time_ms
    return result


def _add(result: dict[_IdlePlace, float], causes: Causes, gap: I64, time: F64) -> None:
    """Adds time of recorded gaps (rows) to their causes and places."""
    gaps = causes.gaps
    names = place_names(causes.timed)
    parts = parts_of_gaps(causes, gap)
    of_part = gap[parts.index]
    alike = Groups.of(gaps.cause[of_part], parts.name, gaps.detail[of_part])
    spent = alike.sum(parts.of(time)).tolist()
    for part, time_ms in zip(alike.first.tolist(), spent, strict=True):
        row = of_part[part]
        kind = (
            _CAUSES[int(gaps.cause[row])],
            names[parts.name[part]],
            _DETAILS[int(gaps.detail[row])],
        )
        result[kind] = result.get(kind, 0.0) + time_ms


def _longest(entries: list[_Spent]) -> list[LedgerEntry]:
    """The longest places of each kind, cause and detail, and the others as one."""
    by_cause: dict[tuple[Kind, str, str | None], list[_Spent]] = {}
    for entry in entries:
        by_cause.setdefault((entry.kind, entry.cause, entry.detail), []).append(entry)
    result = []
    for (kind, cause, detail), some in by_cause.items():
        some = sorted(some, key=lambda one: (-one.ms, -one.recorded_ms))
        result += [LedgerEntry(*one) for one in some[:MOST_PLACES]]
        rest = some[MOST_PLACES:]
        if rest:
            left_ms = float(sum(one.ms for one in rest))
            recorded_ms = float(sum(one.recorded_ms for one in rest))
            others = LedgerEntry(kind, cause, OTHERS, detail, left_ms, recorded_ms, rest[0].basis)
            result.append(others)
    return result
