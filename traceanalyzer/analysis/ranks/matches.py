"""Collectives matched across the recordings of several ranks, on one clock.

The collectives of a process group run in the same order on all its ranks, so the n-th of a group in
a step is the same one everywhere, as long as all of them recorded equally many. One that
synchronises ends at nearly the same time on all its ranks: what their ends differ by in the median
is what the clocks are apart (`clocks`)."""

from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np

from traceanalyzer.analysis.algebra import Groups, counts, isin_few, stable_order, where_changed
from traceanalyzer.analysis.names.collectives import KINDS, SYNCHRONISING
from traceanalyzer.analysis.ranks.digest import SENDS, RankDigest
from traceanalyzer.analysis.ranks.rank_clocks import Clocks, align_clocks, member_sums
from traceanalyzer.base import dataclass, digits
from traceanalyzer.trace import I32, I64, Bool, distinct

T = TypeVar("T", bound=Hashable)
Group = tuple[str, str, str]
"""Process group: its name, its ranks, and the communicator's id where its operations are
numbered."""
_MAX_ORDINAL = 2**24  # collectives of one group in a step that fit a key


@dataclass(frozen=True, eq=False)
class Matches:
    """Collectives matched across ranks, in order of start. Their parts, one for each rank that
    takes part, lie one after the other: those of collective `i` from `first[i]` to before `first[i
    + 1]`, by rank."""

    first: I64  # where the parts of each collective begin, and the number of all of them
    rank: I32  # of each part the recording, by position
    start: I64
    end: I64  # times on the first recording's clock, ns
    held: Bool  # whether compute waited for its end on its rank
    # when it could have started on its rank: later than that it was held by a call before it
    ready: I64
    slowed: (
        I64  # how much longer its rank computed for communication beside it, since the call before
    )
    row: I64  # row of its first kernel in its rank's `Trace.device_ops`
    kind: I32  # index in `KINDS`, one a collective
    bytes: I64
    group: tuple[str | None, ...]
    group_size: I64  # ranks in the group, -1 if not known
    step: I32  # index in `steps`
    steady: Bool  # whether it belongs to a steady-state step on all its ranks
    steps: tuple[str, ...]  # names of the steps
    clocks: Clocks
    notes: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.kind)

    @cached_property
    def collective(self) -> I32:
        """The collective of each part, shape (parts,)."""
        numbers = np.arange(len(self), dtype=np.int32)
        return np.repeat(numbers, np.diff(self.first))

    @cached_property
    def of_rank(self) -> list[I64]:
        """The parts of each recording, in order of the collectives."""
        parts = counts(self.rank, len(self.clocks.offset))
        return np.split(stable_order(self.rank), np.cumsum(parts)[:-1])

    def arrived(self, rank: int) -> tuple[I64, I64]:
        """Rows of the parts of a recording, by position, and when the last rank came to each, ns on
        its own clock."""
        parts = self.of_rank[rank]
        last = self.most(self.start)[self.collective[parts]]
        return self.row[parts], last + self.clocks.offset[rank]

    @cached_property
    def before(self) -> I64:
        """The part before each on the same rank, -1 for the first; shape (parts,)."""
        before = np.full(len(self.rank), -1, np.int64)
        for calls in self.of_rank:
            before[calls[1:]] = calls[:-1]
        return before

    @cached_property
    def holds(self) -> Bool:
        """Per part: whether compute waited for its collective, on any rank; true of the last of a
        step."""
        holds = (self.most(self.held.astype(np.int64)) > 0)[self.collective]
        step = self.step[self.collective]
        after = np.flatnonzero(self.before >= 0)
        holds[self.before[after]] |= step[self.before[after]] != step[after]
        return holds

    @cached_property
    def follows(self) -> Bool:
        """Per part: whether it began after the one of its rank before it had ended."""
        return (self.before >= 0) & (self.end[self.before] <= self.start)

    @cached_property
    def held_by(self) -> I64:
        """Per part: the rank's last collective before it that blocked compute, -1 for none."""
        held_by = np.full(len(self.rank), -1, np.int64)
        for calls in self.of_rank:
            holding = np.where(self.holds[calls], np.arange(len(calls)), -1)
            last = np.maximum.accumulate(holding)[:-1]
            held_by[calls[1:]] = np.where(last < 0, -1, calls[last])
        return held_by

    @cached_property
    def stretch(self) -> I64:
        """For how long each rank worked until it was ready, ns: since the end of the collective
        that held its compute, at first since the first rank came to its first one; 0 where
        collectives overlap."""
        first = np.zeros(len(self.of_rank), np.int64)
        came = self.least(self.start)
        for rank, calls in enumerate(self.of_rank):
            first[rank] = came[self.collective[calls[0]]] if len(calls) else 0
        free = np.where(self.held_by < 0, first[self.rank], self.end[self.held_by])
        return np.maximum(self.undisturbed - free, 0)

    @cached_property
    def series(self) -> I64:
        """Per collective the first of its series: those that follow each other while all ranks
        compute, as when gradients are reduced during the backward pass."""
        parts = np.flatnonzero((self.before >= 0) & ~self.holds[self.before])
        found = np.arange(len(self))
        np.minimum.at(found, self.collective[parts], self.collective[self.before[parts]])
        while (found[found] != found).any():
            found = found[found]
        return found

    @cached_property
    def undisturbed(self) -> I64:
        """When each rank would have been ready had no compute of its series been slowed by
        communication beside it."""
        if not self.slowed.any():
            return self.ready
        follows = self.series != np.arange(len(self))
        lost = np.where(follows[self.collective], self.slowed, 0)
        for calls in self.of_rank:
            total = np.cumsum(lost[calls])
            series = self.series[self.collective[calls]]
            _, first, which = np.unique(series, return_index=True, return_inverse=True)
            lost[calls] = total - total[first[which]]
        return self.ready - lost

    @cached_property
    def members(self) -> I64:
        """A number for each collective that is the same where the same ranks take part."""
        return member_sums(self.first, self.rank)

    def least(self, values: I64) -> I64:
        """The smallest value of the parts of each collective."""
        return np.minimum.reduceat(values, self.first[:-1]) if len(self) else values[:0]

    def most(self, values: I64) -> I64:
        """The largest value of the parts of each collective."""
        return np.maximum.reduceat(values, self.first[:-1]) if len(self) else values[:0]


def largest_of(values: I64, *keys: I64 | I32) -> I64:
    """The values, but 0 for all but the largest of those with the same keys."""
    order = np.lexsort((-values, *keys))
    differs = np.logical_or.reduce([np.diff(key[order]) != 0 for key in keys])
    largest = order[np.append(True, differs)[: len(order)]]
    result = np.zeros_like(values)
    result[largest] = values[largest]
    return result


class _Calls(NamedTuple):
    """The collectives of all ranks, rank by rank, each in order of start."""

    rank: I32
    start: I64
    end: I64
    queued: I64
    slowed: I64
    held: I32
    row: I64
    kind: I32
    bytes: I64
    group: I32  # index in the groups of the run
    size: I32  # ranks of the group
    step: I32  # index in the names of the run's steps
    steady: Bool
    sequence: I64

    def take(self, rows: I64 | Bool) -> "_Calls":
        return _Calls._make(column[rows] for column in self)


def match_collectives(recordings: Sequence[RankDigest]) -> Matches:
    """Match the collectives of a run's ranks; no rows where no two ranks share any."""
    calls, groups, names = _calls_of(recordings)
    numbered = np.array([bool(group[2]) for group in groups], bool)[calls.group]
    kept = _comparable(calls, numbered, len(names))
    notes = _left_out(recordings, kept.left_out)
    _, count = _bounds(kept.key)
    complete = count > 1
    notes += _unmatched(kept.total - int(complete.sum()), kept.total)
    shared = np.repeat(complete, count)
    calls = calls.take(kept.rows[shared])
    first, size = _bounds(kept.key[shared])
    same = _same_kind(calls, first)
    notes += _of_other_kinds(int((~same).sum()))
    calls = calls.take(np.repeat(same, size))
    bounds = np.append(0, np.cumsum(size[same]))
    return _on_one_clock(recordings, calls, bounds, groups, names, notes)


def _unmatched(alone: int, total: int) -> list[str]:
    if not alone:
        return []
    if alone == total:
        return [
            f"None of the {total} collectives is on two ranks: these may not be ranks of one run."
        ]
    why = "their group's ranks did not record equally many in that step."
    return [f"{alone} of {total} collectives have no counterpart on other ranks: {why}"]


def _of_other_kinds(count: int) -> list[str]:
    if not count:
        return []
    why = "from one on, the ranks of its group recorded different kinds."
    return [f"{count} collectives have no counterpart on other ranks: {why}"]


class _Kept(NamedTuple):
    """The calls that can be compared, those of one collective after each other, by rank."""

    rows: I64
    key: I64  # of the collective
    total: int  # collectives, with those that cannot be compared
    left_out: set[int]  # positions of ranks of which calls cannot


def _comparable(calls: _Calls, numbered: Bool, steps: int) -> _Kept:
    """By the number of a call in its communicator where it has one, else by how many its rank made
    of its group in the step before it."""
    block = calls.group.astype(np.int64) * steps + calls.step
    odd = _damaged(calls.rank, np.where(numbered, -1, block))
    sequence = calls.sequence % _MAX_ORDINAL
    ordinal = np.where(numbered, sequence, _ordinals(calls.rank, block))
    rows, key = _sorted_once(block * _MAX_ORDINAL + ordinal, calls.rank)
    kept = ~odd[rows]
    return _Kept(
        rows=rows[kept],
        key=key[kept],
        total=int(np.count_nonzero(np.diff(key, prepend=-1))),
        left_out=set(calls.rank[odd].tolist()),
    )


def _calls_of(recordings: Sequence[RankDigest]) -> tuple[_Calls, list[Group], list[str]]:
    """The collectives of all ranks, the groups and the names of the steps that they refer to."""
    groups: dict[Group, int] = {}
    names: dict[str, int] = {}
    parts = []
    for rank, digest in enumerate(recordings):
        calls = digest.calls
        group = _codes(groups, [group.key for group in digest.groups])
        size = np.array([group.size for group in digest.groups], np.int32)
        step = _codes(names, digest.steps.names)
        every = _Calls(
            rank=np.full(len(calls), rank, np.int32),
            start=calls.start,
            end=calls.end,
            queued=calls.queued,
            slowed=calls.slowed,
            held=calls.held,
            row=calls.row,
            kind=calls.kind,
            bytes=calls.bytes,
            group=group[calls.group],
            size=size[calls.group],
            step=step[calls.step],
            steady=calls.step >= digest.steps.warmup,
            sequence=calls.sequence,
        )
        parts.append(every.take(~isin_few(calls.kind, SENDS)))
    every_call = _Calls(*map(np.concatenate, zip(*parts, strict=True)))
    return every_call, list(groups), list(names)


def _codes(known: dict[T, int], values: Iterable[T]) -> I32:
    """The number of each value; one that is not known gets the next."""
    return np.array([known.setdefault(value, len(known)) for value in values], np.int32)


def _ordinals(rank: I32, block: I64) -> I64:
    """Which call of its rank and block each is, from 0."""
    pairs = Groups.of(rank, block)
    order = np.argsort(pairs.index, kind="stable")
    result = np.empty(len(rank), np.int64)
    begin = np.cumsum(pairs.count) - pairs.count
    result[order] = np.arange(len(rank)) - np.repeat(begin, pairs.count)
    return result


def _damaged(rank: I32, block: I64) -> Bool:
    """Calls of ranks that recorded another number of a group's collectives in a step (block) than
    most did. Those of block -1 carry their number and are matched by it, however many there are."""
    pairs = Groups.of(block, rank)
    blocks = Groups.of(block)
    odd = np.zeros(len(pairs), bool)
    in_block = blocks.index[pairs.first]
    most = np.zeros(len(blocks), np.int64)
    np.maximum.at(most, in_block, pairs.count)
    least = most.copy()
    np.minimum.at(least, in_block, pairs.count)
    differing = (least < most) & (block[blocks.first] >= 0)
    for number in np.flatnonzero(differing).tolist():
        members_of = np.flatnonzero(in_block == number)
        values, ranks = np.unique(pairs.count[members_of], return_counts=True)
        usual = values[ranks == ranks.max()]
        # Without a majority nobody knows who is right.
        is_known = len(usual) == 1 and ranks.max() > 1
        odd[members_of] = pairs.count[members_of] != usual[0] if is_known else True
    return odd[pairs.index]


def _sorted_once(key: I64, rank: I32) -> tuple[I64, I64]:
    """The calls by key, then rank, and their keys; of several of a rank with one key the last."""
    order = np.argsort(key, kind="stable")
    key = key[order]
    rank = rank[order]
    if not len(key):
        return order, key
    begins = where_changed(key) | where_changed(rank)
    last = np.append(begins[1:], True)
    return order[last], key[last]


def _bounds(key: I64) -> tuple[I64, I64]:
    """Where each run of equal keys begins, with the end of all; and how long each is."""
    begins = np.flatnonzero(where_changed(key))
    first = np.append(begins, len(key))
    return first, np.diff(first)


def _left_out(recordings: Sequence[RankDigest], damaged: set[int]) -> list[str]:
    """Who was left out of some comparison, where others were compared."""
    ranks = [i if one.rank is None else one.rank for i, one in enumerate(recordings)]
    if not damaged or len(damaged) == len(ranks):
        return []
    return [
        f"Rank {', '.join(str(ranks[i]) for i in sorted(damaged))} recorded another number of collectives than most "
        "ranks in some steps, and is left out of the comparison there."
    ]


def _same_kind(calls: _Calls, first: I64) -> Bool:
    """Which of the collectives precede the first one of their group whose kind differs between
    ranks."""
    size = np.diff(first)
    group = calls.group[first[:-1]]
    other = calls.kind != np.repeat(calls.kind[first[:-1]], size)
    differs = distinct(np.repeat(np.arange(len(size)), size)[other])
    begin = np.full(int(group.max(initial=-1)) + 1, len(size))
    np.minimum.at(begin, group[differs], differs)
    return np.arange(len(size)) < begin[group]


def _on_one_clock(
    recordings: Sequence[RankDigest],
    calls: _Calls,
    first: I64,
    groups: list[Group],
    names: list[str],
    notes: list[str],
) -> Matches:
    """The matched collectives on the clock of the first recording, in order of start; none where
    the clocks do not agree. `first`: where the calls of each collective begin."""
    clocks = _clocks(recordings, calls, first)
    if len(calls.rank) and not clocks.comparable:
        notes.append(
            "Collectives were not compared across ranks: the clocks of the recordings do not agree "
            f"(ends of one collective scatter by {digits(clocks.spread_ns / 1e6)} ms)."
        )
        calls = calls.take(np.empty(0, np.int64))
        first = first[:1]
    offset = clocks.offset[calls.rank]
    calls = calls._replace(start=calls.start - offset, end=calls.end - offset)
    calls, first = _by_start(calls, first)
    one_call = calls.take(first[:-1])  # of each collective: what is the same on all its ranks
    return Matches(
        first=first,
        rank=calls.rank,
        start=calls.start,
        end=calls.end,
        held=calls.held > 0,
        ready=calls.start - calls.queued,
        slowed=calls.slowed,
        row=calls.row,
        kind=one_call.kind,
        bytes=one_call.bytes,
        group=tuple(groups[group][0] or None for group in one_call.group.tolist()),
        group_size=np.maximum.reduceat(calls.size, first[:-1]).astype(np.int64),
        step=one_call.step,
        steady=np.logical_and.reduceat(calls.steady, first[:-1]),
        steps=tuple(names),
        clocks=clocks,
        notes=tuple(notes),
    )


def _clocks(recordings: Sequence[RankDigest], calls: _Calls, first: I64) -> Clocks:
    """The clocks of the recordings, aligned at the ends of the collectives that synchronise."""
    size = np.diff(first)
    kinds = [KINDS.index(kind) for kind in SYNCHRONISING]
    synchronises = isin_few(calls.kind[first[:-1]], kinds)
    synchronous = np.repeat(synchronises, size)
    return align_clocks(
        [digest.epoch_ns for digest in recordings],
        np.append(0, np.cumsum(size[synchronises])),
        calls.rank[synchronous],
        calls.end[synchronous],
    )


def _by_start(calls: _Calls, first: I64) -> tuple[_Calls, I64]:
    """The collectives in order of their earliest start on any rank: their calls, and where those of
    each begin."""
    size = np.diff(first)
    order = np.argsort(np.minimum.reduceat(calls.start, first[:-1]), kind="stable")
    place = np.argsort(order)  # of each collective in that order
    rows = np.argsort(np.repeat(place, size), kind="stable")
    return calls.take(rows), np.append(0, np.cumsum(size[order]))
