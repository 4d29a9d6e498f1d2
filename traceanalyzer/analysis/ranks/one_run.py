"""Refuses recordings that are not ranks of one run: figures of one of them would be taken for those
of all."""

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from traceanalyzer.analysis.algebra import isin_few
from traceanalyzer.analysis.ranks.compare import why_not_one_run
from traceanalyzer.analysis.ranks.copied import a_copy, copies
from traceanalyzer.analysis.ranks.digest import SENDS, RankDigest, RunClaim
from traceanalyzer.analysis.ranks.digested import claim_of
from traceanalyzer.analysis.ranks.rank_clocks import Clocks
from traceanalyzer.base import NS_PER_MS, digits, regex
from traceanalyzer.base.errors import SeveralRunsError
from traceanalyzer.trace import I64, Trace, distinct

_OF_A_RANK = regex(
    r"\.(?:part|pid)\d+"
)  # what `collect` adds to the name of a rank's second recording
NAMED = 4
LEAST_CALLS = 3  # of fewer collectives a step does not tell one program from another
EDGE_CALLS = 2
OTHER_JOBS = "make other collectives in every step of the group that they share"


def refuse_several_runs(traces: Sequence[Trace]) -> None:
    """Raises SeveralRunsError where several files are no ranks of one run, saying why and what to
    do.

    Processes in one file belong together, and so do a rank's recordings in one capture."""
    paths = [Path(trace.path) for trace in traces]
    if len({path.parent / _OF_A_RANK.sub("", path.name) for path in paths}) < 2:
        return
    copied = _copied(traces)
    if copied is not None:
        first, second = copied
        raise a_copy(first.path, second.path)
    claims = [claim_of(trace) for trace in traces]
    doubt = why_not_one_run(claims) or _unranked(traces) or _on_one_gpu(traces, claims)
    if doubt:
        raise _refusal(traces, doubt)


def refuse_other_jobs(traces: Sequence[Trace], digests: Sequence[RankDigest]) -> None:
    """Raises SeveralRunsError where ranks that should communicate with each other never make the
    same collectives: they are ranks of different jobs. What a damaged recording has lost tells
    nothing."""
    spans = [
        digest
        for trace, digest in zip(traces, digests, strict=True)
        if not trace.health.lost and not trace.health.truncated and digest.steps.found
    ]
    for before, after in pairwise(spans):
        for key in _shared_groups(before, after):
            of_a = _series(before, key)
            of_b = _series(after, key)
            if of_a and of_b and not of_a & of_b and not _is_part(of_a, of_b):
                raise _refusal(traces, f"ranks {before.rank} and {after.rank} {OTHER_JOBS}")


def refuse_apart(traces: Sequence[Trace], clocks: Clocks) -> None:
    """Raises SeveralRunsError where ranks were recorded one after the other, each in a file of its
    own, and the collectives that they would share do not end together."""
    if len({trace.path for trace in traces}) < 2 or not clocks.spread_ns:
        return
    claims = [claim_of(trace) for trace in traces]
    apart = max(claim.start_ns for claim in claims) > min(claim.end_ns for claim in claims)
    if apart and not clocks.comparable:
        scatter = f"ends of one collective scatter by {digits(clocks.spread_ns / NS_PER_MS)} ms"
        raise _refusal(traces, f"recorded one after the other, and {scatter}")


def _refusal(traces: Sequence[Trace], doubt: str) -> SeveralRunsError:
    names = list(dict.fromkeys(trace.path for trace in traces))
    shown = ", ".join(names[:NAMED])
    if len(names) > NAMED:
        shown += f" and {len(names) - NAMED} more"
    return SeveralRunsError(
        f"{len(names)} recordings that are not one run ({doubt}): {shown}; "
        f"name the files of one run, or compare two: traceanalyzer compare {names[0]} {names[1]}"
    )


def _copied(traces: Sequence[Trace]) -> tuple[Trace, Trace] | None:
    """Two recordings in different files of which one is a copy of the other; None without such."""
    timed = [trace for trace in traces if not trace.only_step_times]
    for i, k in copies([_times(trace) for trace in timed]):
        if timed[i].path != timed[k].path:
            return timed[i], timed[k]
    return None


def _times(trace: Trace) -> I64:
    """When each device op began and ended, else each range of the host, ns of the wall clock."""
    found = trace.device_ops if len(trace.device_ops) else trace.host_ranges
    return np.concatenate([found.start, found.end]) + trace.epoch_ns


def _shared_groups(a: RankDigest, b: RankDigest) -> set[tuple[str, str, str]]:
    """Keys of the groups that name their ranks, and that both recorded."""
    of_b = {group.key for group in b.groups if group.ranks}
    return {group.key for group in a.groups if group.ranks and group.key in of_b}


def _series(digest: RankDigest, key: tuple[str, str, str]) -> set[tuple[int, ...]]:
    """The kinds of a group's collectives in each steady step, in order."""
    calls = digest.calls
    codes = [i for i, group in enumerate(digest.groups) if group.key == key]
    rows = isin_few(calls.group, codes) & ~isin_few(calls.kind, SENDS)
    found = set()
    for step in range(len(digest.steps))[digest.steps.steady]:
        kinds = calls.kind[rows & (calls.step == step)]
        if len(kinds) >= LEAST_CALLS:
            found.add(tuple(kinds.tolist()))
    return found


def _is_part(
    a: set[tuple[int, ...]],
    b: set[tuple[int, ...]],
) -> bool:
    """Whether a step of one is the beginning or the end of one of the other: the edges of steps
    differ from rank to rank by a call or two."""
    for x in a:
        for y in b:
            short, long = sorted((x, y), key=len)
            if len(long) - len(short) <= EDGE_CALLS and short in (
                long[: len(short)],
                long[len(long) - len(short) :],
            ):
                return True
    return False


def _unranked(traces: Sequence[Trace]) -> str:
    """What tells that recordings without a rank are no processes of one run: they ran one after the
    other."""
    if any(trace.rank is not None for trace in traces):
        return ""
    if all(trace.is_companion for trace in traces):
        return "neither says its rank"
    if all(trace.only_step_times for trace in traces):
        return "neither says its rank, and logs of step times do not say when they were written"
    claims = list(map(claim_of, traces))
    begin = max(claim.start_ns for claim in claims)
    end = min(claim.end_ns for claim in claims)
    return (
        "neither says its rank, and they were recorded one after the other" if begin > end else ""
    )


def _on_one_gpu(traces: Sequence[Trace], claims: Sequence[RunClaim]) -> str:
    """What tells that processes which were numbered, because none says its rank, are no processes of
    one run: the same GPU ran them one after the other."""
    last: dict[tuple[str | None, str], tuple[Trace, RunClaim]] = {}
    in_time = sorted(zip(traces, claims, strict=True), key=lambda one: one[1].start_ns)
    for trace, claim in in_time:
        for gpu in _gpus_of(trace):
            before = last.get(gpu)
            if before and before[0].path != trace.path and before[1].end_ns < claim.start_ns:
                return "none says its rank, and the same GPU ran them one after the other"
            last[gpu] = trace, claim
    return ""


def _gpus_of(trace: Trace) -> list[tuple[str | None, str]]:
    """Host and identity of the GPUs on which a process worked whose rank is not its own; empty of
    others."""
    if not trace.process.numbered:
        return []
    used = set(distinct(trace.device_ops.device).tolist())
    known = [device for device in trace.devices if device.id in used]
    return [(trace.process.host, device.uid) for device in known if device.uid]
