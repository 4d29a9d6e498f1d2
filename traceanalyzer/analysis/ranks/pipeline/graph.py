"""What each operation of a pipeline waits for.

As arXiv 2505.05713 has it: the operations of a worker's stream run in order; a send and the receive
of the same data meet; parameters and gradients meet in their data-parallel group, gradients of
embeddings between the first and the last stage, and the norm of all gradients
(`optimizer-clip-main-grad`) on all workers. The order of a stream is the one that the first
data-parallel rank recorded in its first step."""

from graphlib import CycleError, TopologicalSorter
from itertools import chain, pairwise
from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.ranks.pipeline import operations as by
from traceanalyzer.analysis.ranks.pipeline.operations import BACKWARD, FORWARD, PEERS, Operations
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.trace import I64

CLOCK_S = 5e-5  # what the clocks of a worker's streams differ by
_SERVED = ((FORWARD, 1), (FORWARD, -1), (BACKWARD, -1), (BACKWARD, 1))
SERVES = dict(zip(PEERS, _SERVED, strict=True))
"""The computation that a type of send or receive is for, and whether its peer is the next stage or
the one before."""
ACROSS = (
    by.PARAMETERS,
    by.GRADIENTS,
    by.SEPARATE,
    by.CLIP,
)  # what meets in the data-parallel group


STREAMS = ((FORWARD, BACKWARD), (by.PARAMETERS, by.GRADIENTS), *zip(PEERS, strict=True))
"""What a worker runs one after the other: computation, data-parallel communication, and each kind of
send and receive."""


class Meeting(NamedTuple):
    """Operations that start when the last of them can."""

    members: tuple[int, ...]
    waits_for: tuple[int, ...]  # operations that end before any of the members may start
    across: bool  # whether all data-parallel ranks meet
    is_communication: bool
    """Whether what it takes counts from the last member's start; else it is the operation's own
    duration."""


class _Stage:
    """A stage's operations in the order of their starts."""

    def __init__(self, ops: Operations, stage: int) -> None:
        of_stage = np.flatnonzero(ops.stage == stage)
        self.ops = ops
        self.stage = stage
        self.start = ops.start[:, 0, 0]
        self.end = ops.end[:, 0, 0]
        by_start = np.lexsort((ops.kind[of_stage], ops.seq[of_stage], self.start[of_stage]))
        self.order = of_stage[by_start]

    def of(self, *kinds: str) -> list[int]:
        """Its operations of these types."""
        return self.order[self.ops.of(*kinds)[self.order]].tolist()

    def of_chunks(self, kind: str, direction: int) -> dict[int, int]:
        """The last of a type in each model chunk; where the direction is -1 the first."""
        found = self.of(kind)[::direction]
        return {int(self.ops.chunk[one]): one for one in found}


def meetings(ops: Operations) -> list[Meeting]:
    """All operations as meetings (mostly of one), in an order in which each comes after what it
    waits for.

    Raises TraceAnalyzerError where sends and receives do not fit each other."""
    stages = [_Stage(ops, stage) for stage in range(ops.stages)]
    before: list[set[int]] = [set() for _ in ops.kind]
    partners: dict[tuple[str, int], list[int]] = {}
    for stage in stages:
        _in_stream(before, stage)
        _around_gradients(before, stage)
        for kind in PEERS:
            partners[kind, stage.stage] = _around_computation(before, stage, kind)
    for op, after in enumerate(() if ops.after is None else ops.after.tolist()):
        before[op].update([after] if after >= 0 else ())
    # what meets on all stages that have it: the n-th of each
    on_all = (
        np.flatnonzero(of_kind & (ops.seq == n)).tolist()
        for of_kind in map(ops.of, (by.CLIP, by.EMBEDDING))
        for n in np.unique(ops.seq[of_kind])
    )
    return _in_order(ops, before, [*_pairs(partners, ops), *on_all])


def _chain(before: list[set[int]], in_order: list[int]) -> None:
    for earlier, following in pairwise(in_order):
        before[following].add(earlier)


def _in_stream(before: list[set[int]], stage: _Stage) -> None:
    """Computation, each kind of send and receive, and data-parallel communication are streams. The
    first backward send and receive are launched after the last but one forward computation before
    the first backward one."""
    compute = stage.of(FORWARD, BACKWARD)
    for stream in STREAMS:
        _chain(before, stage.of(*stream))
    first = next((i for i, one in enumerate(compute) if one in stage.of(BACKWARD)), 0)
    for kind in ("backward-send", "backward-recv") if first > 1 else ():
        for call in stage.of(kind)[:1]:
            before[call].add(compute[first - 2])


def _around_gradients(before: list[set[int]], stage: _Stage) -> None:
    """Parameters are there before the first forward computation of their chunk, gradients go after
    the last backward one: of their chunk where they overlap with the others
    (`separate-grads-all-reduce`), else of all."""
    overlapped = bool(stage.ops.of(by.SEPARATE).any())
    gradients = stage.of(by.GRADIENTS)
    for later, earlier in (
        (FORWARD, by.PARAMETERS),
        *([(by.GRADIENTS, BACKWARD)] if overlapped else []),
    ):
        first = stage.of_chunks(later, -1)
        last = stage.of_chunks(earlier, 1)
        for chunk in first.keys() & last.keys():
            before[first[chunk]].add(last[chunk])
    compute = sorted(stage.of(FORWARD, BACKWARD), key=lambda one: stage.end[one])
    after = [] if overlapped else gradients
    sooner = (by.COLLECT, by.LAYERNORM, by.EMBEDDING)
    later_on = (by.SEPARATE, by.CLIP, by.OPTIMIZER)
    collected = chain(*map(stage.of, sooner))
    ending = chain(*map(stage.of, later_on))
    _chain(before, [*compute[-1:], *collected, *after, *ending])
    if overlapped:
        reduced = stage.of(by.LAYERNORM) or stage.of(by.SEPARATE)
        for reduction in reduced[:1]:
            before[reduction].update(gradients[-1:])


def _around_computation(before: list[set[int]], stage: _Stage, kind: str) -> list[int]:
    """Ties each send to the computation before it and each receive to those around it; the calls
    that have a partner.

    Profilers log calls that were never launched: receives after the last computation, sends before
    the first one, and those at the ends of the model. They have no partner."""
    ops = stage.ops
    receives = kind.endswith("recv")
    compute, towards = SERVES[kind]
    served = np.array(stage.of(compute), np.int64)
    calls = np.array(stage.of(kind), np.int64)
    served = served[np.argsort(ops.seq[served], kind="stable")]
    launched = _launched(stage, calls, served, receives=receives)
    missing = len(served) - len(launched)
    if not launched:
        return []
    if missing not in (0, 1):
        counts = f"{len(launched)} {kind} for {len(served)} computations"
        raise TraceAnalyzerError(f"stage {stage.stage} has {counts}; log all of a step")
    computed = served[missing if receives else 0 :].tolist()
    pairs = list(zip(launched, computed, strict=False))
    if receives:
        _chain(before, [*served[:missing].tolist(), *chain.from_iterable(pairs)])
    else:
        for call, computation in pairs:
            before[call].add(computation)
    return [call for call, one in pairs if 0 <= ops.place[one] + towards <= ops.place.max()]


def _launched(stage: _Stage, calls: I64, served: I64, *, receives: bool) -> list[int]:
    """Receives before the last computation that they serve, sends after the first."""
    if receives:
        begun = stage.start[served].max(initial=-np.inf) + CLOCK_S
        return calls[stage.start[calls] <= begun].tolist()
    done = stage.end[served].min(initial=np.inf) - CLOCK_S
    return calls[stage.end[calls] >= done].tolist()


def _told(ops: Operations, op: int) -> str:
    return f"{by.KINDS[ops.kind[op]]} of stage {ops.stage[op]}"


def _pairs(
    partners: dict[tuple[str, int], list[int]],
    ops: Operations,
) -> list[list[int]]:
    """The n-th send to a stage and its n-th receive."""
    result = []
    for sends, receives, towards in (
        ("forward-send", "forward-recv", 1),
        ("backward-send", "backward-recv", -1),
    ):
        for stage in range(ops.stages):
            peer = (stage + towards) % ops.stages
            sent = partners[sends, stage]
            received = partners[receives, peer]
            if len(sent) != len(received):
                counts = (
                    f"stage {stage} has {len(sent)} {sends}, stage {peer} {len(received)} "
                    f"{receives}"
                )
                raise TraceAnalyzerError(f"{counts}; log all operations of a step")
            result += [list(pair) for pair in zip(sent, received, strict=True)]
    return result


def _in_order(
    ops: Operations,
    before: list[set[int]],
    together: list[list[int]],
) -> list[Meeting]:
    meets = set(chain.from_iterable(together))
    alone = [[one] for one in range(len(ops.kind)) if one not in meets]
    members = [*together, *alone]
    number = {one: i for i, those in enumerate(members) for one in those}
    communicates = ops.of(*PEERS, *ACROSS, by.EMBEDDING)
    across = ops.of(*ACROSS)
    waits = [set[int]().union(*map(before.__getitem__, those)) for those in members]
    needs = {i: set(map(number.__getitem__, some)) for i, some in enumerate(waits)}
    try:
        order = list(TopologicalSorter(needs).static_order())
    except CycleError as error:
        stuck = _told(ops, members[error.args[1][0]][0])
        raise TraceAnalyzerError(
            f"its operations wait for each other: {stuck} for itself"
        ) from error
    return [
        Meeting(
            tuple(members[i]),
            tuple(sorted(waits[i])),
            across=bool(across[members[i][0]]),
            is_communication=bool(communicates[members[i][0]]),
        )
        for i in order
    ]
