"""The same collective in the recordings of several ranks, on one clock.

The collectives of a process group run in the same order on all its ranks, so the n-th of a group in a step is
the same one everywhere, as long as all of them recorded equally many. One that synchronises ends at nearly the
same time on all its ranks: what their ends differ by in the median is what the clocks are apart (`clocks`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.lookup import one_of
from traceanalyzer.analysis.names.collectives import KINDS, POINT_TO_POINT, SYNCHRONISING
from traceanalyzer.analysis.ranks.digest import DigestedCalls, RankDigest
from traceanalyzer.analysis.ranks.rank_clocks import Clocks, align_clocks
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I32, I64, Bool
from traceanalyzer.trace.distinct import distinct

_POINT_TO_POINT = [KINDS.index(kind) for kind in POINT_TO_POINT]
_SYNCHRONISING = [KINDS.index(kind) for kind in SYNCHRONISING]

_MAX_ORDINAL = 2**24
"""Collectives of one group in a step that fit a key."""


@dataclass(frozen=True, eq=False)
class Matches:
    """Collectives matched across ranks: a row for each, in order of start; a column for each rank."""

    start: I64
    end: I64
    """Times on the first rank's clock, ns; meaningless where the rank takes no part."""
    present: Bool
    """Which ranks take part in each."""
    row: I64
    """Row of its first kernel in each rank's `Trace.device_ops`, -1 where the rank takes no part."""
    kind: I32
    """Index in `KINDS`, one a row."""
    bytes: I64
    group: tuple[str | None, ...]
    group_size: I64
    """Ranks in the group, -1 if not known."""
    steady: Bool
    """Whether it belongs to a steady-state step on all its ranks."""
    clocks: Clocks
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.kind)


Group = tuple[str, str, str]
"""Process group: its name, its ranks, and the communicator's id where its operations are numbered."""


class _Entries(NamedTuple):
    """A rank's collectives on the device of its steps, and what it has in common with other ranks."""

    calls: DigestedCalls
    rows: I64
    block: list[tuple[Group, str]]
    """Process group and step of each."""
    ordinal: I64
    """Which one of its block it is."""
    steps: frozenset[str]


def match_collectives(recordings: Sequence[RankDigest]) -> Matches:
    """Match the collectives of a run's ranks; no rows where no two ranks share any."""
    ranks = [_entries(digest) for digest in recordings]
    blocks = list(dict.fromkeys(block for entries in ranks for block in entries.block))
    index = {block: i for i, block in enumerate(blocks)}
    keys = [np.array([index[b] for b in e.block], np.int64) * _MAX_ORDINAL + e.ordinal for e in ranks]
    key = distinct(np.concatenate(keys))
    row_of = np.full((len(key), len(ranks)), -1, np.int64)
    for rank, (entries, mine) in enumerate(zip(ranks, keys, strict=True)):
        row_of[np.searchsorted(key, mine), rank] = entries.rows
    block_of = key // _MAX_ORDINAL
    numbered = np.array([bool(group[2]) for group, _ in blocks], bool)
    left_out = _without_damaged(row_of, block_of, numbered)
    complete = (row_of >= 0).sum(axis=1) > 1
    group_of = [blocks[b][0] for b in block_of]
    same = _same_kind(ranks, row_of, group_of, complete)
    notes = [*_left_out(recordings, left_out), *_notes(row_of, complete, same)]
    return _on_one_clock(recordings, ranks, row_of[same], [g for g, s in zip(group_of, same, strict=True) if s], notes)


def _entries(digest: RankDigest) -> _Entries:
    calls, names = digest.calls, digest.steps.names
    rows = np.flatnonzero(~one_of(calls.kind, _POINT_TO_POINT))
    block = [
        (digest.groups[g].key, names[s])
        for g, s in zip(calls.group[rows].tolist(), calls.step[rows].tolist(), strict=True)
    ]
    seen: dict[tuple[Group, str], int] = {}
    ordinal = np.empty(len(rows), np.int64)
    for i, (one, sequence) in enumerate(zip(block, calls.sequence[rows].tolist(), strict=True)):
        seen[one] = seen.get(one, -1) + 1
        ordinal[i] = sequence % _MAX_ORDINAL if one[0][2] else seen[one]
    return _Entries(calls, rows, block, ordinal, frozenset(names))


def _without_damaged(row_of: I64, block_of: I64, numbered: Bool) -> Bool:
    """Take ranks that recorded another number of a group's collectives in a step than most did out of it (in place);
    which ranks these are. Collectives that carry their number are matched by it, however many there are."""
    count = np.zeros((int(block_of.max(initial=-1)) + 1, row_of.shape[1]), np.int64)
    np.add.at(count, block_of, (row_of >= 0).astype(np.int64))
    odd = np.zeros(count.shape, bool)
    for block in np.flatnonzero(~numbered).tolist():
        here = count[block]
        there = here[here > 0]
        values, ranks = np.unique(there, return_counts=True)
        usual = values[ranks == ranks.max()]
        # Without a majority nobody knows who is right.
        agreed = len(usual) == 1 and (ranks.max() > 1 or len(there) == 1)
        odd[block] = np.logical_and(here > 0, here != usual[0]) if agreed else here > 0
    row_of[odd[block_of]] = -1
    return np.asarray(odd.any(axis=0))


def _left_out(recordings: Sequence[RankDigest], left_out: Bool) -> list[str]:
    """Who was left out of some comparison, where others were compared."""
    ranks = [i if one.rank is None else one.rank for i, one in enumerate(recordings)]
    damaged = [str(ranks[i]) for i in np.flatnonzero(left_out)]
    if not damaged or len(damaged) == len(ranks):
        return []
    return [
        f"Rank {', '.join(damaged)} recorded another number of collectives than most ranks in some steps, and is left "
        "out of the comparison there."
    ]


def _same_kind(ranks: list[_Entries], row_of: I64, group_of: list[Group], complete: Bool) -> Bool:
    """Which of the complete collectives precede the first one of their group whose kind differs between ranks."""
    kind = _column(ranks, row_of, "kind")
    first = np.take_along_axis(kind, (row_of >= 0).argmax(axis=1)[:, None], axis=1)
    differs = complete & ((kind != first) & (row_of >= 0)).any(axis=1)
    result, stopped = complete.copy(), set()
    for i in np.flatnonzero(complete).tolist() if differs.any() else []:
        if differs[i]:
            stopped.add(group_of[i])
        result[i] = group_of[i] not in stopped
    return result


def _column(ranks: list[_Entries], row_of: I64, name: str) -> I64:
    """A column of `DigestedCalls` for each matched collective and rank; 0 where the rank takes no part."""
    result = np.zeros(row_of.shape, np.int64)
    for r, entries in enumerate(ranks):
        here = row_of[:, r] >= 0
        result[here, r] = getattr(entries.calls, name)[row_of[here, r]]
    return result


def _notes(row_of: I64, complete: Bool, same: Bool) -> list[str]:
    notes = []
    alone = int((~complete).sum())
    if alone:
        notes.append(
            f"{alone} of {len(row_of)} collectives were not matched across ranks: other ranks did not record "
            "equally many of their group in that step."
        )
    differing = int((complete & ~same).sum())
    if differing:
        notes.append(
            f"{differing} collectives were not matched across ranks: from one on, the ranks of its group recorded "
            "different kinds."
        )
    return notes


def _on_one_clock(
    recordings: Sequence[RankDigest], ranks: list[_Entries], row_of: I64, groups: list[Group], notes: list[str]
) -> Matches:
    present = row_of >= 0
    kind, size = _first(ranks, row_of, "kind").astype(np.int32), _first(ranks, row_of, "bytes")
    end = _column(ranks, row_of, "end")
    together = one_of(kind, _SYNCHRONISING)
    clocks = align_clocks([digest.epoch_ns for digest in recordings], end[together], present[together])
    if len(row_of) and not clocks.comparable:
        notes.append(
            "Collectives were not compared across ranks: the clocks of the recordings do not agree "
            f"(ends of one collective scatter by {clocks.spread_ns / 1e6:.3g} ms)."
        )
        row_of, groups = row_of[:0], []
        present, kind, size, end = present[:0], kind[:0], size[:0], end[:0]
    start = _column(ranks, row_of, "start") - clocks.offset
    warm = np.array([digest.steps.warmup for digest in recordings])
    never = np.iinfo(np.int64).max
    order = np.argsort(np.where(present, start, never).min(axis=1, initial=never), kind="stable")
    sizes = [np.array([group.size for group in digest.groups], np.int64) for digest in recordings]
    group = _column(ranks, row_of, "group")
    group_size = np.stack([s[g] for s, g in zip(sizes, group.T, strict=True)], axis=1)
    return Matches(
        start=start[order],
        end=(end - clocks.offset)[order],
        present=present[order],
        row=np.where(present, _column(ranks, row_of, "row"), -1)[order],
        kind=kind[order],
        bytes=size[order],
        group=tuple(groups[i][0] or None for i in order),
        group_size=np.where(present, group_size, -1).max(axis=1, initial=-1)[order],
        steady=np.all((_column(ranks, row_of, "step") >= warm) | ~present, axis=1)[order],
        clocks=clocks,
        notes=tuple(notes),
    )


def _first(ranks: list[_Entries], row_of: I64, name: str) -> I64:
    """A column of `DigestedCalls` as the first rank that takes part has it."""
    first = (row_of >= 0).argmax(axis=1)[:, None]
    return np.take_along_axis(_column(ranks, row_of, name), first, axis=1)[:, 0]
