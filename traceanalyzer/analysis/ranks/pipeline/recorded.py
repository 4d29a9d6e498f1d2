"""A pipeline's operations from the recordings of its ranks.

A rank sends activations to the next stage and gradients to the one before: its first receive,
before anything was sent, is of the first microbatch's activations, its first send hands them on.
Between these calls it computes; the n-th piece of a direction is that of the n-th microbatch, whose
data the n-th receive of that direction brought. A computation is taken to begin when it could have:
after the one before it and its data, so that a late host counts."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.names.collectives import KINDS as CALLS
from traceanalyzer.analysis.names.phase_names import Role
from traceanalyzer.analysis.ranks.digest import SENDS, DigestedCalls, Pieces, RankDigest
from traceanalyzer.analysis.ranks.pipeline import operations as by
from traceanalyzer.analysis.ranks.pipeline.operations import (
    BACKWARD,
    FORWARD,
    KINDS,
    PEERS,
    Operations,
)
from traceanalyzer.base import NS_PER_S, TraceAnalyzerError, dataclass
from traceanalyzer.trace import I32, I64, Bool

_SEND = CALLS.index("send")
_RECEIVE = CALLS.index("recv")
_FORWARD_SEND, _FORWARD_RECEIVE, _BACKWARD_SEND, _BACKWARD_RECEIVE = PEERS
ROUNDING_NS = 1_000
"""Times of kernels are rounded: one that follows another may seem to begin before that has
ended."""


class OperationTimes(NamedTuple):
    """[step, which]; ns."""

    start: I64
    end: I64


@dataclass(frozen=True, eq=False)
class _Worker:
    """A rank, and which rows of its digest are of which type of operation."""

    digest: RankDigest
    steps: I64  # its steps, by index, that all ranks have
    rows: Mapping[str, tuple[DigestedCalls | Pieces, I64]]
    clock: int = 0  # what to subtract from its times
    times: dict[str, OperationTimes] = field(default_factory=dict)
    free: dict[str, I64] = field(default_factory=dict)
    """When what was launched before each call of a type had ended, [step, which]."""

    def rows_of(self, kind: str, complete: Bool) -> I64:
        """Rows of a type in the steps that all have as many, [step, which]."""
        table, rows = self.rows[kind]
        is_complete = np.isin(table.step[rows], self.steps[complete])
        return rows[is_complete].reshape(int(complete.sum()), -1)

    def of_steps(self, kind: str, complete: Bool) -> OperationTimes:
        """When they ran."""
        table = self.rows[kind][0]
        rows = self.rows_of(kind, complete)
        return OperationTimes(table.start[rows] - self.clock, table.end[rows] - self.clock)

    def busy_of(self, kind: str, complete: Bool) -> I64:
        """How long the device computed in each; nothing in calls."""
        computes = kind in (FORWARD, BACKWARD)
        return (
            self.digest.pieces.busy[self.rows_of(kind, complete)]
            if computes
            else np.zeros_like(self.times[kind].start)
        )

    def free_of(self, kind: str, complete: Bool) -> I64:
        """When what was launched before these calls had ended; the step's begin, for the first."""
        digest = self.digest
        rows = self.rows_of(kind, complete)
        never = np.iinfo(np.int64).min
        ends = np.append(np.maximum.accumulate(digest.pieces.end), never)
        begun = digest.steps.start[digest.calls.step[rows]]
        return np.maximum(ends[digest.calls.after[rows] - 1], begun) - self.clock


def operations_of(digests: Sequence[RankDigest], offset: I64 | None) -> Operations | None:
    """The operations of the steps that all ranks have, None where ranks make no pipeline; `offset`
    is what to subtract from the times of each as far as collectives tell. Raises TraceAnalyzerError
    where they make one of another form."""
    chains = _chains(digests)
    if not chains:
        return None
    some = [digests[i] for i in chain.from_iterable(chains)]
    steady = [set(one.steps.names[one.steps.warmup :]) for one in some]
    shared = set.intersection(*steady)
    names = [name for name in some[0].steps.names if name in shared]
    found = [
        [_worker(digests, ranks, stage, names) for stage in range(len(ranks))] for ranks in chains
    ]
    recorded = _whole([*chain.from_iterable(found)])
    clocks = np.zeros(len(digests), np.int64) if offset is None else offset
    workers = [
        _on_one_clock(of, recorded, clocks[ranks].tolist())
        for of, ranks in zip(found, chains, strict=True)
    ]
    _settle_times(workers, recorded)
    return _laid_out(workers, recorded)


def _settle_times(workers: Sequence[Sequence[_Worker]], complete: Bool) -> None:
    """When data travelled, what follows the last computation, and when each could have begun."""
    for worker, following in chain.from_iterable(map(pairwise, workers)):
        _exchange(worker, _FORWARD_SEND, following, _FORWARD_RECEIVE)
        _exchange(following, _BACKWARD_SEND, worker, _BACKWARD_RECEIVE)
    for worker in chain.from_iterable(workers):
        _at_the_end(worker, complete)
        _begun(worker)


def _chains(digests: Sequence[RankDigest]) -> list[list[int]]:
    """The ranks (by position) of each replica, by stage; none where their calls make no chains.
    Raises TraceAnalyzerError for stages that are interleaved."""
    first = {
        one.rank: _first_calls(one) for one in digests if len(one.pieces) and one.steps.steady_count
    }
    position = {one.rank: i for i, one in enumerate(digests)}
    found = []
    for root, calls in first.items():
        if calls.leads:
            chain = _followed(first, root)
            if chain is None:
                return []
            found.append(list(map(position.__getitem__, chain)))
    longest = max(map(len, found), default=0)
    return [chain for chain in found if len(chain) == longest > 1]


class _First(NamedTuple):
    """Whom a rank first receives from, and first sends to; None for neither."""

    source: int | None
    target: int | None
    leads: bool  # whether it sends before it receives anything: it is the first stage


def _followed(
    first: Mapping[int | None, _First],
    root: int | None,
) -> list[int | None] | None:
    """The ranks that hand on what the first stage sends, where they end in one that sends back;
    None where one hands on what another sent. Raises TraceAnalyzerError where the first stage gets
    it again."""
    chain = [root]
    at = first[root].target
    while at in first and at not in chain:
        source, target, _ = first[at]
        if target is None or source != chain[-1]:
            return None
        chain.append(at)
        at = target if target != source else None
    if at == root:
        how = "its stages are interleaved, several model chunks a rank"
        raise TraceAnalyzerError(f"{how}: the slowdown of such pipelines is not known")
    return chain if at is None else []


def _first_calls(digest: RankDigest) -> _First:
    """In its first steady step."""
    calls = digest.calls
    first_step = (calls.step == digest.steps.warmup) & (calls.peer >= 0)
    received = np.flatnonzero(first_step & (calls.kind == _RECEIVE))[:1]
    sent = np.flatnonzero(first_step & (calls.kind == _SEND))[:1]
    source = int(calls.peer[received[0]]) if len(received) else None
    target = int(calls.peer[sent[0]]) if len(sent) else None
    is_later = (calls.start[received] < calls.start[sent]).any()
    return _First(source, target, leads=len(sent) > 0 and not is_later)


def _worker(
    digests: Sequence[RankDigest], chain: Sequence[int], stage: int, names: Sequence[str]
) -> _Worker:
    digest = digests[chain[stage]]
    pieces = digest.pieces
    calls = digest.calls
    place = {name: i for i, name in enumerate(digest.steps.names)}
    roles = ((FORWARD, Role.FORWARD), (BACKWARD, Role.BACKWARD))
    peers = (stage + 1, stage - 1, stage - 1, stage + 1)
    rows: dict[str, tuple[DigestedCalls | Pieces, I64]] = {
        kind: (pieces, np.flatnonzero(pieces.role == role)) for kind, role in roles
    }
    for kind, peer, call in zip(PEERS, peers, (_SEND, _RECEIVE) * 2, strict=True):
        if 0 <= peer < len(chain):
            rows[kind] = (
                calls,
                np.flatnonzero((calls.kind == call) & (calls.peer == digests[chain[peer]].rank)),
            )
    if _FORWARD_RECEIVE in rows:
        received = rows[_FORWARD_RECEIVE][1]
        rows[FORWARD] = (pieces, _of_microbatches(rows[FORWARD][1], calls.after[received]))
    return _Worker(digest, np.array([place[name] for name in names], np.int64), rows)


def _of_microbatches(forward: I64, before: I32) -> I64:
    """Of these pieces the first after each receive (`before`: how many pieces each comes after): a
    loss that is calculated between two sends of gradients is no microbatch of its own. All of them,
    where receives do not tell."""
    first = np.unique(np.searchsorted(forward, before))
    first = first[first < len(forward)]
    return forward[first] if len(first) == len(before) else forward


def _counted(worker: _Worker, steps: I32 | I64) -> I64:
    """How often each of its steps is among these."""
    return np.bincount(steps, minlength=len(worker.digest.steps))[worker.steps]


def _whole(workers: Sequence[_Worker]) -> Bool:
    """Which steps have as many of everything, on all ranks. Raises TraceAnalyzerError where none
    has."""
    counts = [
        (one, kind, _counted(one, table.step[rows]))
        for one in workers
        for kind, (table, rows) in one.rows.items()
    ]
    microbatches = counts[0][2]
    recorded: Bool = np.logical_and.reduce([count == microbatches for *_, count in counts]) & (
        microbatches > 0
    )
    if not len(recorded):
        raise TraceAnalyzerError("its ranks recorded no step in common")
    if not recorded.any():
        worker, kind, count = next(
            (found for found in counts if (found[2] != microbatches).all()), counts[0]
        )
        ranks = f"rank {worker.digest.rank}"
        some = f"rank {workers[0].digest.rank}"
        if (count > microbatches).all():
            raise TraceAnalyzerError(
                f"{ranks} has {count[0]} {kind} a step, {some} {microbatches[0]} {FORWARD}"
            )
        raise TraceAnalyzerError(
            f"{some} has {microbatches[0]} {FORWARD} a step, {ranks} {count[0]} {kind}"
        )
    return recorded


def _on_one_clock(chain: Sequence[_Worker], complete: Bool, clocks: Sequence[int]) -> list[_Worker]:
    """The times of all on one clock. Nothing arrives before it was sent, either way: clocks that
    say so are apart by as much as what is sent one way seems to take longer, and what is sent back
    shorter."""
    done: list[_Worker] = []
    apart = 0
    for worker, known in zip(chain, clocks, strict=True):
        settled = replace(worker, clock=known + apart, times={}, free={})
        if done:
            sent = done[-1].times[_FORWARD_SEND].start
            forth = int((settled.of_steps(_FORWARD_RECEIVE, complete).end - sent).min())
            got_back = done[-1].times[_BACKWARD_RECEIVE].end
            back = int((got_back - settled.of_steps(_BACKWARD_SEND, complete).start).min())
            if forth < 0 or back < 0:
                apart += (forth - back) // 2
                settled = replace(settled, clock=known + apart)
        settled.times.update({kind: settled.of_steps(kind, complete) for kind in settled.rows})
        settled.free.update(
            {kind: settled.free_of(kind, complete) for kind in PEERS if kind in settled.rows}
        )
        done.append(settled)
    return done


def _exchange(sender: _Worker, send: str, receiver: _Worker, receive: str) -> None:
    """Data travels for as long as both were there, from when it is sent and the receiver could have
    come."""
    sent = sender.times[send]
    got = receiver.times[receive]
    took = np.minimum(sent.end, got.end) - np.maximum(sent.start, got.start)
    start = np.maximum(sent.start, receiver.free[receive])
    sender.times[send] = receiver.times[receive] = OperationTimes(
        start, start + np.maximum(took, 0)
    )


def _at_the_end(worker: _Worker, complete: Bool) -> None:
    """Collectives that end after the last backward computation, as one, and the optimizer."""
    calls = worker.digest.calls
    pieces = worker.digest.pieces
    steps = worker.steps[complete]
    done = worker.times[BACKWARD].end.max(axis=1)
    optimizer = _first_to_last(pieces, np.flatnonzero(pieces.role == Role.OPTIMIZER), steps)
    until = np.full(len(steps), np.iinfo(np.int64).max)
    if optimizer is not None:
        until = optimizer.start
    rows = _collectives_between(worker, steps, done + worker.clock, until)
    gradients = _first_to_last(calls, rows, steps)
    for kind, found in ((by.GRADIENTS, gradients), (by.OPTIMIZER, optimizer)):
        if found is not None:
            start = np.maximum(found.start - worker.clock, done)
            end = found.end - worker.clock
            worker.times[kind] = OperationTimes(start[:, None], end[:, None])


def _collectives_between(worker: _Worker, steps: I64, after: I64, before: I64) -> I64:
    """Rows of collectives in these steps that end after and start before a moment of each."""
    calls = worker.digest.calls
    place = np.full(len(worker.digest.steps), -1)
    place[steps] = np.arange(len(steps))
    in_group = ~np.isin(calls.kind, SENDS)
    rows = np.flatnonzero(in_group & (place[calls.step] >= 0))
    chosen = place[calls.step[rows]]
    ends_after = calls.end[rows] > after[chosen]
    starts_before = calls.start[rows] < before[chosen]
    return rows[ends_after & starts_before]


def _first_to_last(table: DigestedCalls | Pieces, rows: I64, steps: I64) -> OperationTimes | None:
    """From the first start to the last end of each step; None where a step has none."""
    step = table.step[rows]
    first = np.searchsorted(step, steps)
    after = np.searchsorted(step, steps, side="right")
    if (first >= after).any():
        return None
    return OperationTimes(table.start[rows[first]], table.end[rows[after - 1]])


def _begun(worker: _Worker) -> None:
    """Computations begin when they could have: after the rank computed, communicated with a group,
    or sent."""
    calls = worker.digest.calls
    times = worker.times
    receives = np.isin(calls.row, calls.row[calls.kind == _RECEIVE])
    alone = (calls.kind == _SEND) & ~receives
    called = calls.end[alone | ~np.isin(calls.kind, SENDS)]
    begins = worker.digest.steps.start[worker.steps]
    ends = np.sort(np.concatenate((worker.digest.pieces.end, called, begins))) - worker.clock
    for kind, receive in (
        (FORWARD, _FORWARD_RECEIVE),
        (BACKWARD, _BACKWARD_RECEIVE),
        (by.OPTIMIZER, ""),
    ):
        if kind in times:
            start, end = times[kind]
            begun = ends[np.maximum(np.searchsorted(ends, start + ROUNDING_NS) - 1, 0)]
            came = times[receive].end if receive in times else begun
            times[kind] = OperationTimes(np.minimum(np.maximum(begun, came), start), end)


def _laid_out(workers: Sequence[Sequence[_Worker]], complete: Bool) -> Operations:
    """In the form of a log: what all replicas have."""
    parts: list[_Part] = []
    count = 0
    for stage, of_stage in enumerate(zip(*workers, strict=True)):
        stage_parts = _parts_of(stage, of_stage, complete, count)
        parts += stage_parts
        count += sum(len(part.which) for part in stage_parts)
    start = np.concatenate([part.start for part in parts])
    base = start.min()
    stages = np.concatenate([np.full_like(part.which, part.stage) for part in parts])
    which = np.concatenate([part.which for part in parts])
    kinds = [np.full_like(part.which, KINDS.index(part.kind)) for part in parts]
    left_out = int((~complete).sum())
    note = f"{left_out:,} steps do not have the same operations on all ranks, and are left out."
    return Operations(
        kind=np.concatenate(kinds),
        seq=which,
        stage=stages,
        chunk=np.zeros_like(stages),
        place=stages,
        microbatch=which,
        start=(start - base) / NS_PER_S,
        end=(np.concatenate([part.end for part in parts]) - base) / NS_PER_S,
        worker=_ranks_of(workers),
        step=workers[0][0].steps[complete],
        after=np.concatenate([part.after for part in parts]),
        busy=np.concatenate([part.busy for part in parts]) / NS_PER_S,
        notes=(note,) if left_out else (),
    )


def _ranks_of(workers: Sequence[Sequence[_Worker]]) -> I64:
    """[replica, stage]: ranks in the job."""
    ranks = [[worker.digest.rank for worker in replica] for replica in workers]
    return np.array(ranks, np.int64)


@dataclass(frozen=True, eq=False)
class _Part:
    """The operations of one type of a stage; times are [which, replica, step], ns."""

    stage: int
    kind: str
    which: I64
    after: I64
    start: I64
    end: I64
    busy: I64


def _parts_of(stage: int, replicas: Sequence[_Worker], complete: Bool, begin: int) -> list[_Part]:
    """The parts of a stage; rows before `begin` are of other stages."""
    shared = set.intersection(*(set(worker.times) for worker in replicas))
    parts = []
    for kind in replicas[0].times:
        if kind not in shared:
            continue
        times = [worker.times[kind] for worker in replicas]
        busy = [worker.busy_of(kind, complete) for worker in replicas]
        parts.append(
            _Part(
                stage=stage,
                kind=kind,
                which=np.arange(times[0].start.shape[1]),
                after=_after(replicas[0], kind, complete, begin),
                start=_by_operation([each.start for each in times]),
                end=_by_operation([each.end for each in times]),
                busy=_by_operation(busy),
            )
        )
    return parts


def _by_operation(of_replicas: Sequence[I64]) -> I64:
    """[which, replica, step] of replicas' [step, which]."""
    return np.moveaxis(np.array(of_replicas), -1, 0)


def _after(worker: _Worker, kind: str, complete: Bool, begin: int) -> I64:
    """For each call of the first step the row of the computation that was launched last before it;
    -1 for none, and for what is no call. Rows of the stage's computations, forward then backward,
    follow each other from `begin` on."""
    if kind not in worker.free:
        return np.full(worker.times[kind].start.shape[1], -1)
    pieces = worker.digest.calls.after[worker.rows_of(kind, complete)[0]] - 1
    computed = np.concatenate([worker.rows_of(of, complete)[0] for of in (FORWARD, BACKWARD)])
    same = pieces[:, None] == computed
    return np.where(same.any(axis=1), begin + same.argmax(axis=1), -1)
