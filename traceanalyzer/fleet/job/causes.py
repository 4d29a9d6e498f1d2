"""Why a rank was late: what it has, or takes, more of than the middle one of the ranks beside it."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.ranks.late import EXPLAINED, SAME_WORK
from traceanalyzer.fleet.digests.columns import Rank
from traceanalyzer.trace import I64

Cause = Literal["slow_gpu", "more_work", "slow_host", "input", "slow_link", "heavy_stage"]
WORDS: dict[Cause | None, str] = {
    "slow_gpu": "its kernels take longer for the same work",
    "more_work": "it computes longer: more kernels, or larger ones",
    "slow_host": "its host is late",
    "input": "its input is late",
    "slow_link": "its link is slow",
    "heavy_stage": "its stage is too heavy",
    None: "the digests do not tell why",
}
_OF_HOST = [IdleCause.LAUNCH, IdleCause.SYNC, IdleCause.HOST, IdleCause.OTHER]


def cause_of(late: Rank, others: Sequence[Rank], gain_ns: float) -> Cause | None:
    """Why `late` costs the job so much of a step; None where neither its stretches between collectives nor its steps
    tell as much as half of that."""
    for what in (_before_calls, _in_steps):
        own, theirs = what(late), np.median([what(one) for one in others], axis=0)
        compute, host, loading = (own - theirs).tolist()
        if max(compute, host, loading) < EXPLAINED * gain_ns:
            continue
        if compute >= max(host, loading):
            return "slow_gpu" if _same_work(late, others) else "more_work"
        return "input" if loading > host else "slow_host"
    return None


def _parts(compute: I64, idle: I64) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return np.array([compute.sum(), idle[_OF_HOST].sum(), idle[IdleCause.INPUT].sum()], np.float64)


def _before_calls(one: Rank) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Compute, idle time by the host and by input before the collectives of a mean steady step, ns."""
    digest, why = one.digest, one.why
    if why is None or not len(why.compute_before):
        return np.zeros(3)
    steady = digest.calls.step >= digest.steps.warmup
    return _parts(why.compute_before[steady], why.idle_before[:, steady]) / digest.steps.steady_count


def _in_steps(one: Rank) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """The same in all of a mean steady step."""
    digest, why = one.digest, one.why
    if why is None:
        return np.zeros(3)
    return _parts(digest.compute[digest.steps.steady], why.idle[:, digest.steps.steady]) / digest.steps.steady_count


def _same_work(late: Rank, others: Sequence[Rank]) -> bool:
    """Whether it launches as many kernels, with as many threads, as the middle one of the others."""
    own, theirs = _work(late), [_work(one) for one in others]
    if own is None or any(one is None for one in theirs):
        return False
    middle = np.median([one for one in theirs if one is not None], axis=0)
    return bool((np.abs(own / np.maximum(middle, 1e-9) - 1.0) <= SAME_WORK).all())


def _work(one: Rank) -> "np.ndarray[tuple[int], np.dtype[np.float64]] | None":
    if one.why is None or any(family.threads < 0 for family in one.why.families):
        return None
    sums = [sum(family.launches for family in one.why.families), sum(family.threads for family in one.why.families)]
    return np.array(sums, np.float64) / one.digest.steps.steady_count
