"""The questions on jobs of many ranks: dumps of a hung one, and what `diagnose` answers from beside
recordings and logs of one run, as `analyze` does."""

from collections.abc import Mapping
from typing import Any

from traceanalyzer.agent.answer import NAMES_ARE_DATA, fitted_answer, rounded_figure
from traceanalyzer.agent.sources import Sources
from traceanalyzer.agent.told import advice_of, finding_of, quoted_sentence
from traceanalyzer.base import UnreadableInputError
from traceanalyzer.diagnosis.finding import Finding, Recommendation
from traceanalyzer.fleet.hang.document import values
from traceanalyzer.fleet.hang.model import hang_of

IN_AN_ANSWER = (
    "culprits",
    "silent",
    "cpu_behind",
    "gpu_behind",
    "mismatches",
    "recommendations",
)
SHOWN = 6
"""Findings, changes, culprits and notes."""
HOW = "gain_ms: what each step gets shorter by, by replay of the log, or of the ranks' collectives"


def hang(sources: Sources, path: str) -> str:
    """Which rank a hung job waits for, at which collective, and why. path: a folder of Flight
    Recorder dumps, one file a rank."""
    found = values(hang_of(sources.flight(path)))
    return fitted_answer(
        **{name: found[name] for name in IN_AN_ANSWER},
        verdict=found["verdict"] | {"headline": quoted_sentence(found["verdict"]["headline"])},
        groups_that_wait=[group for group in found["groups"] if group.stands_at],
        spoils=[quoted_sentence(text) for text in found["notes"]],
        how=(
            "Flight Recorder dumps: blame follows groups, a rank that waits for another is "
            "its victim"
        ),
        names=NAMES_ARE_DATA,
    )


def other_answer(sources: Sources, path: str) -> str | None:
    """The answer on a log of a pipeline's operations, days of steps, digests of ranks or dumps of a
    hung job; None of anything else. Raises TraceAnalyzerError where it is one that cannot be
    read."""
    job = sources.job(path)
    if job is not None:
        return _job_answer(job)
    try:
        return hang(sources, path)
    except UnreadableInputError:
        return None


def _job_answer(job: dict[str, Any]) -> str:
    """The answer about a job of many ranks, from what `analyze` has as JSON."""
    summary = job["summary"]
    headline = summary["headline"] if isinstance(summary, dict) else summary.headline
    return fitted_answer(
        headline=quoted_sentence(headline),
        summary=summary,
        culprits=job.get("culprits", [])[:SHOWN],
        slowdown=_figures(job.get("slowdown")),
        findings=[_told(finding) for finding in job.get("findings", [])[:SHOWN]],
        changes=[_told(advice) for advice in job.get("recommendations", [])[:SHOWN]],
        spoils=[quoted_sentence(str(note)) for note in job.get("notes", [])[:SHOWN]],
        how=HOW,
        names=NAMES_ARE_DATA,
    )


def _figures(slowdown: Any) -> dict[str, Any] | None:
    """Its single figures: those of each worker of a large job would fill the answer."""
    if slowdown is None:
        return None
    known = vars(slowdown).items()
    return {name: rounded_figure(value) for name, value in known if not isinstance(value, Mapping)}


def _told(value: Any) -> Any:
    """A finding or advice as `diagnose` tells it; of another kind as it is."""
    if isinstance(value, Finding):
        return finding_of(value)
    return advice_of(value) if isinstance(value, Recommendation) else value
