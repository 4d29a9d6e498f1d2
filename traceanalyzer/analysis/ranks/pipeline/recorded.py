"""A pipeline's operations from the recordings of its ranks.

A rank sends activations to the next stage and gradients to the one before: its first receive, before anything was sent,
is of the first microbatch's activations, its first send hands them on. Between these calls it computes; the n-th piece
of a direction is that of the n-th microbatch, whose data the n-th receive of that direction brought. A computation is
taken to begin when it could have: when the one before it had ended and its data was sent and transferred, so that a
host that is late counts with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.names.collectives import KINDS as CALLS
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.ranks.digest import SENDS, DigestedCalls, Pieces, RankDigest
from traceanalyzer.analysis.ranks.pipeline.operations import (
    BACKWARD,
    FORWARD,
    GRADIENTS,
    KINDS,
    OPTIMIZER,
    PEERS,
    Operations,
)
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.base.figures import NS_PER_S
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.trace import I64, Bool

_SEND, _RECEIVE = CALLS.index("send"), CALLS.index("recv")
_FORWARD_SEND, _FORWARD_RECEIVE, _BACKWARD_SEND, _BACKWARD_RECEIVE = PEERS
INTERLEAVED = "its stages are interleaved, several model chunks a rank: the slowdown of such pipelines is not known"


class Times(NamedTuple):
    """[step, which]; ns."""

    start: I64
    end: I64


@dataclass(frozen=True, eq=False)
class _Worker:
    """A rank, and which rows of its digest are of which type of operation."""

    digest: RankDigest
    steps: I64
    """Its steps, by index, that all ranks have."""
    rows: Mapping[str, tuple[DigestedCalls | Pieces, I64]]
    clock: int = 0
    """What to subtract from its times."""
    times: dict[str, Times] = field(default_factory=dict)

    def count(self, kind: str) -> I64:
        """How many of this type each step has."""
        table, rows = self.rows[kind]
        counted: I64 = np.bincount(table.step[rows], minlength=len(self.digest.steps))[self.steps]
        return counted

    def of_steps(self, kind: str, whole: Bool) -> Times:
        """When they ran, on its own clock, in steps that all have as many."""
        table, rows = self.rows[kind]
        rows = rows[np.isin(table.step[rows], self.steps[whole])].reshape(int(whole.sum()), -1)
        return Times(table.start[rows] - self.clock, table.end[rows] - self.clock)


def operations_of(digests: Sequence[RankDigest], offset: I64 | None) -> Operations | None:
    """The operations of the steps that all ranks have, None where ranks make no pipeline; `offset` is what to subtract
    from the times of each as far as collectives tell. Raises TraceAnalyzerError where they make one of another form."""
    chains = _chains(digests)
    if not chains:
        return None
    found = [[_worker(digests, chain, stage, _steps(digests, chains)) for stage in range(len(chain))] for chain in chains]
    whole = _whole([one for chain in found for one in chain])
    workers = [
        _on_one_clock(chain, whole, 0 if offset is None else int(offset[ranks[0]]))
        for chain, ranks in zip(found, chains, strict=True)
    ]
    for chain in workers:
        for one, following in pairwise(chain):
            _exchange(one, _FORWARD_SEND, following, _FORWARD_RECEIVE)
            _exchange(following, _BACKWARD_SEND, one, _BACKWARD_RECEIVE)
        for one in chain:
            _at_the_end(one, whole)
            _begun(one, whole)
    return _laid_out(workers, int((~whole).sum()))


def _chains(digests: Sequence[RankDigest]) -> list[list[int]]:
    """The ranks (by position) of each replica, by stage; none where their calls make no chains. Raises
    TraceAnalyzerError for stages that are interleaved."""
    first = {one.rank: _first_calls(one) for one in digests if len(one.pieces) and one.steps.steady_count}
    position = {one.rank: i for i, one in enumerate(digests)}
    found = []
    for root, (receive, send) in first.items():
        if send is None or (receive is not None and receive[0] < send[0]):
            continue
        chain: list[int | None] = [root]
        at: int | None = send[1]
        while at in first and at not in chain:
            receive, send = first[at]
            if receive is None or send is None or receive[1] != chain[-1]:
                return []
            chain.append(at)
            at = send[1] if send[1] != receive[1] else None
        if at == root:
            raise TraceAnalyzerError(INTERLEAVED)
        if at is None:
            found.append([position[rank] for rank in chain])
    longest = max(map(len, found), default=0)
    return [chain for chain in found if len(chain) == longest > 1]


def _first_calls(one: RankDigest) -> tuple[tuple[int, int] | None, ...]:
    """When the rank first receives, and first sends, and the peer; in its first steady step."""
    calls = one.calls
    here = (calls.step == one.steps.warmup) & (calls.peer >= 0)
    rows = [np.flatnonzero(here & (calls.kind == kind))[:1] for kind in (_RECEIVE, _SEND)]
    return tuple((int(calls.start[row[0]]), int(calls.peer[row[0]])) if len(row) else None for row in rows)


def _steps(digests: Sequence[RankDigest], chains: list[list[int]]) -> list[str]:
    """Names of the steps that are steady on all ranks."""
    some = [digests[i] for chain in chains for i in chain]
    shared = set.intersection(*(set(one.steps.names[one.steps.warmup :]) for one in some))
    return [name for name in some[0].steps.names if name in shared]


def _worker(digests: Sequence[RankDigest], chain: Sequence[int], stage: int, names: Sequence[str]) -> _Worker:
    one = digests[chain[stage]]
    pieces, calls = one.pieces, one.calls
    place = {name: i for i, name in enumerate(one.steps.names)}
    rows: dict[str, tuple[DigestedCalls | Pieces, I64]] = {
        kind: (pieces, np.flatnonzero(pieces.role == role))
        for kind, role in ((FORWARD, Role.FORWARD), (BACKWARD, Role.BACKWARD))
    }
    peers = (stage + 1, _SEND), (stage - 1, _RECEIVE), (stage - 1, _SEND), (stage + 1, _RECEIVE)
    for kind, (peer, call) in zip(PEERS, peers, strict=True):
        if 0 <= peer < len(chain):
            rank = digests[chain[peer]].rank
            rows[kind] = calls, np.flatnonzero((calls.kind == call) & (calls.peer == rank))
    return _Worker(one, np.array([place[name] for name in names], np.int64), rows)


def _whole(workers: Sequence[_Worker]) -> Bool:
    """Which steps have as many of everything, on all ranks. Raises TraceAnalyzerError where none has."""
    counts = [(one, kind, one.count(kind)) for one in workers for kind in one.rows]
    microbatches = counts[0][2]
    whole: Bool = np.logical_and.reduce([count == microbatches for *_, count in counts]) & (microbatches > 0)
    if not len(whole):
        raise TraceAnalyzerError("its ranks recorded no step in common")
    if not whole.any():
        one, kind, count = next((found for found in counts if (found[2] != microbatches).all()), counts[0])
        ranks, some = f"rank {one.digest.rank}", f"rank {workers[0].digest.rank}"
        if (count > microbatches).all():
            raise TraceAnalyzerError(f"{ranks} has {count[0]} {kind} a step, {some} {microbatches[0]} {FORWARD}")
        raise TraceAnalyzerError(f"{some} has {microbatches[0]} {FORWARD} a step, {ranks} {count[0]} {kind}")
    return whole


def _on_one_clock(chain: Sequence[_Worker], whole: Bool, clock: int) -> list[_Worker]:
    """The times of all on the clock of the first stage: where clocks are apart, what is sent one way seems to take as
    much longer as what is sent back seems to take shorter."""
    done: list[_Worker] = []
    for worker in chain:
        one = worker
        if done:
            there = one.of_steps(_FORWARD_RECEIVE, whole).end - done[-1].times[_FORWARD_SEND].start
            back = done[-1].times[_BACKWARD_RECEIVE].end - one.of_steps(_BACKWARD_SEND, whole).start
            clock = int(there.min() - back.min()) // 2
        one = _Worker(one.digest, one.steps, one.rows, clock)
        one.times.update({kind: one.of_steps(kind, whole) for kind in one.rows})
        done.append(one)
    return done


def _exchange(sender: _Worker, send: str, receiver: _Worker, receive: str) -> None:
    """Data travels from when it is sent for as long as both were there: what a receiver comes late, its host does."""
    sent, got = sender.times[send], receiver.times[receive]
    took = np.minimum(sent.end, got.end) - np.maximum(sent.start, got.start)
    sender.times[send] = receiver.times[receive] = Times(sent.start, sent.start + np.maximum(took, 0))


def _at_the_end(one: _Worker, whole: Bool) -> None:
    """Collectives that end after the last backward computation, as one, and the optimizer."""
    calls, pieces, steps = one.digest.calls, one.digest.pieces, one.steps[whole]
    done = one.times[BACKWARD].end.max(axis=1)
    optimizer = _first_to_last(pieces, np.flatnonzero(pieces.role == Role.OPTIMIZER), steps)
    until = np.full(len(steps), np.iinfo(np.int64).max) if optimizer is None else optimizer.start
    which = np.full(len(one.digest.steps), -1)
    which[steps] = np.arange(len(steps))
    rows = np.flatnonzero(~np.isin(calls.kind, SENDS) & (which[calls.step] >= 0))
    of = which[calls.step[rows]]
    rows = rows[(calls.end[rows] > done[of] + one.clock) & (calls.start[rows] < np.append(until, 0)[of])]
    gradients = _first_to_last(calls, rows, steps)
    for kind, found in ((GRADIENTS, gradients), (OPTIMIZER, optimizer)):
        if found is not None:
            start = np.maximum(found.start - one.clock, done)
            one.times[kind] = Times(start[:, None], (found.end - one.clock)[:, None])


def _first_to_last(table: DigestedCalls | Pieces, rows: I64, steps: I64) -> Times | None:
    """From the first start to the last end of each step; None where a step has none."""
    step = table.step[rows]
    first, after = np.searchsorted(step, steps), np.searchsorted(step, steps, side="right")
    if (first >= after).any():
        return None
    return Times(table.start[rows[first]], table.end[rows[after - 1]])


def _begun(one: _Worker, whole: Bool) -> None:
    """Computations begin when they could have."""
    digest, times = one.digest, one.times
    calls = digest.calls
    sends = (calls.kind == _SEND) & ~np.isin(calls.row, calls.row[calls.kind == _RECEIVE])
    others = sends | ~np.isin(calls.kind, SENDS)
    free = np.concatenate((digest.pieces.end, calls.end[others], digest.steps.start[one.steps])) - one.clock
    free = np.sort(free)
    for kind, receive in ((FORWARD, _FORWARD_RECEIVE), (BACKWARD, _BACKWARD_RECEIVE), (OPTIMIZER, "")):
        if kind in times:
            start, end = times[kind]
            begun = free[np.maximum(np.searchsorted(free, start, side="right") - 1, 0)]
            if receive in times:
                begun = np.maximum(begun, times[receive].end)
            times[kind] = Times(np.minimum(begun, start), end)


def _laid_out(workers: Sequence[Sequence[_Worker]], left_out: int) -> Operations:
    """In the form of a log: what all replicas have."""
    rows, start, end = [], [], []
    for stage, of_stage in enumerate(zip(*workers, strict=True)):
        for kind in _kinds(of_stage):
            each = [one.times[kind] for one in of_stage]
            for seq in range(each[0].start.shape[1]):
                rows.append((KINDS.index(kind), seq, stage))
                start.append([times.start[:, seq] for times in each])
                end.append([times.end[:, seq] for times in each])
    kind, seq, of = np.array(rows, np.int64).T
    first = workers[0][0]
    note = f"{left_out:,} steps do not have the same operations on all ranks, and are left out."
    return Operations(
        kind, seq, of, np.zeros_like(of), of, seq, np.array(start) / NS_PER_S, np.array(end) / NS_PER_S,
        np.array([[one.digest.rank for one in chain] for chain in workers], np.int64),
        np.arange(len(first.times[FORWARD].start)), (note,) if left_out else (),
    )  # fmt: skip


def _kinds(of_stage: Sequence[_Worker]) -> Iterator[str]:
    """What all workers of a stage do."""
    return (kind for kind in of_stage[0].times if all(kind in one.times for one in of_stage))
