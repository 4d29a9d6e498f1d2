"""The verdict on a job in a sentence."""

from collections.abc import Sequence
from typing import cast

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.base import digits, ms
from traceanalyzer.diagnosis.finding import BASE_CONFIDENCE, MAX_CONFIDENCE, BottleneckClass, Summary
from traceanalyzer.fleet.digests.files import Rank
from traceanalyzer.fleet.job.model import WORDS, Culprit, ends_of
from traceanalyzer.fleet.job.whole import Whole

SHOWN = 4  # ranks named in a sentence
_NAMES = {
    "compute": "compute", "communication": "transfer", "transfer": "copies", "launch": "launch overhead",
    "sync": "syncs", "input": "waiting for input", "host": "host work",
}  # fmt: skip


def summary_of(whole: Whole, culprits: Sequence[Culprit]) -> Summary:
    """Class, confidence and headline. The class is the largest part of the step of the rank that is not waited on."""
    rank, digest = whole.compared.critical, whole.digests[whole.compared.critical]
    step_ms = ms(digest.mean_step_ns) if digest.steps.known else None
    parts = budget_of(whole.ranks[rank])
    if not step_ms or not parts:
        return Summary("inconclusive", 0.0, "Inconclusive: no rank has steps with work on a GPU.", "recorded", step_ms)
    waiting = whole.compared.rows[rank].waiting_ms or 0.0
    parts["communication"] = max(parts["communication"] - waiting, 0.0)
    first, second = sorted(parts, key=lambda name: -parts[name])[:2]
    margin = (parts[first] - parts[second]) / step_ms
    named = first not in ("profiler", "other", "unexplained")
    cls = cast("BottleneckClass", first) if named else "inconclusive"
    confidence = round(min(MAX_CONFIDENCE, BASE_CONFIDENCE + margin), 2) if named else 0.0
    return Summary(cls, confidence, _headline(whole, culprits, parts, first, step_ms), "recorded", step_ms)


def _headline(whole: Whole, culprits: Sequence[Culprit], parts: dict[str, float], first: str, step_ms: float) -> str:
    if not culprits:
        what, share = _NAMES.get(first, "what the digests do not tell"), parts[first] / step_ms
        part, step = f"{digits(parts[first])} ms ({share:.0%})", f"{digits(step_ms)} ms step"
        return f"No rank holds up the job: {what} takes {part} of each {step}, on all ranks alike."
    worst = culprits[0]
    if worst.cause == "heavy_stage":
        mine = [str(one.rank) for one, stage in zip(whole.digests, whole.stages, strict=True) if stage == worst.stage]
        ranks = f"rank{'s' * (len(mine) > 1)} {', '.join(mine[:SHOWN])}" + (", ..." if len(mine) > SHOWN else "")
        return f"Stage {worst.stage} ({ranks}) is too heavy. Evening out the stages gains {_cost(worst, step_ms)}."
    if worst.cause == "slow_link":
        where = f"host {worst.host}" if worst.host else f"the group of rank {worst.rank}"
        gain = f"{digits(worst.gain_ms)} ms of each {digits(step_ms)} ms step"
        return f"The links of {where} are slow: its transfers take {gain} longer."
    if len(culprits) > 1:
        ranks = ", ".join(str(one.rank) for one in culprits[:SHOWN]) + (", ..." if len(culprits) > SHOWN else "")
        hosts = {one.host for one in culprits}
        on = f" (all on host {next(iter(hosts))})" if len(hosts) == 1 and None not in hosts else ""
        if whole.compared.late[0].together:
            why = f" ({worst.cause.replace('_', ' ')})" if worst.cause else ""
            return f"Ranks {ranks}{on} hold up the job together{why}. They cost {_cost(worst, step_ms)}."
        return f"Ranks {ranks}{on} hold up the job by turns; rank {worst.rank} most: {_cost(worst, step_ms)}."
    host = f" (host {worst.host})" if worst.host else ""
    return f"Rank {worst.rank}{host} holds up the job: {WORDS[worst.cause]}. It costs {_cost(worst, step_ms)}."


def _cost(one: Culprit, step_ms: float) -> str:
    since = f", since {one.since}" if one.since else ", in all steps" if one.pattern == "recurring" else ""
    share = "; ".join(filter(None, (f"{one.gain_ms / step_ms:.0%}", ends_of(one))))
    return f"{digits(one.gain_ms)} ms ({share}) of each {digits(step_ms)} ms step{since}"


def budget_of(rank: Rank) -> dict[str, float]:
    """Parts of a rank's mean steady step, ms: compute, communication that does not overlap with it, copies that neither
    overlaps with, and idle time by cause; empty without work on a device."""
    digest, why = rank.digest, rank.why
    if why is None:
        return {}
    idle = {cause.label: why.idle[cause] for cause in IdleCause}
    exposed = why.exposed_communication + idle.pop("communication")
    parts = {"compute": digest.compute, "communication": exposed, "transfer": why.exposed_copy, **idle}
    return {name: ms(digest.per_step(times)) for name, times in parts.items()}
