"""A job as a document: one screen for who is on call, all of it as Markdown and as a page."""

from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from traceanalyzer.base import digits, plural
from traceanalyzer.fleet.job.model import Heat, Job, JobChange, JobCulprit, ends_of
from traceanalyzer.fleet.pipeline.document import slowdown_facts
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Facts,
    Paragraph,
    Section,
    Table,
    TextTable,
    Verdict,
)
from traceanalyzer.report.format import shorten
from traceanalyzer.report.printed import Printed

TITLE = "Fleet"
SHOWN_CHANGES = 5  # of a terminal's one screen
SHOWN_FILES = 2
SHOWN_RANKS = 8
SHOWN_NOTES = 1
ALL_NOTES = 50
DARKEST_SHARE = 0.2
"""Of the step, an excess that is painted darkest where no rank is named: a healthy job looks like one."""


def job_page(job: Job) -> Printed:
    """One screen for a terminal, all of it for Markdown and a page with the heat map."""
    values = {field.name: getattr(job, field.name) for field in fields(job) if field.name != "heat"}
    return Printed(
        Document(job.summary.headline, _sections(job)), values, screen=Document(TITLE, _screen(job))
    )


def _answer(job: Job) -> Verdict:
    ranks = job.ranks
    steady = sum(step.steady for step in job.steps)
    about = [
        f"{ranks.read:,} of {ranks.expected:,} ranks",
        f"{steady} {plural('step', steady)}" if steady else "no shared steps",
    ]
    if job.slowdown.s is not None:
        alike = "as fast as the median" if job.pipeline is None else "and stages alike"
        about.append(f"{job.slowdown.s:.2f}x slower than with all ranks {alike}")
    return Verdict(
        job.summary.headline, [f"{', '.join(about)}; confidence {job.summary.confidence:.0%}"]
    )


def _screen(job: Job) -> list[Section]:
    gains = [_gain(change) for change in job.changes[:SHOWN_CHANGES]]
    notes = [Paragraph(text, "yellow") for text in (*gone(job), *job.notes[:SHOWN_NOTES])]
    found = [
        Section(TITLE, [_answer(job)], untitled=True),
        Section("What the job gains", [Bullets(gains)] if gains else [], is_minor=True),
        Section("Worst ranks", [_worst(job.worst)] if job.culprits else [], is_minor=True),
        Section("Next", [Bullets(job_next_steps(job), ">"), *notes], is_minor=True),
    ]
    return [one for one in found if one.parts]


def _gain(change: JobChange) -> str:
    text = f"{change.what}: {digits(change.gain_ms)} ms a step"
    ends = ends_of(change)
    if ends:
        text += f" ({ends})"
    if change.explains is not None:
        text += f", {change.explains:.0%} of the slowdown"
    return text


def _worst(rows: Sequence[JobCulprit]) -> TextTable:
    headers = ["rank", "host", "stage", "gain ms", "90 % range", "last in", "cause"]
    texts = [
        [
            str(one.rank),
            shorten(one.host or "-", 14),
            "-" if one.stage is None else str(one.stage),
            digits(one.gain_ms),
            ends_of(one) or "-",
            f"{one.steps_share:.0%}",
            (one.cause or "-").replace("_", " "),
        ]
        for one in rows
    ]
    return TextTable(headers, [True, False, True, True, False, True, False], texts, is_whole=True)


def job_next_steps(job: Job) -> list[str]:
    """What to do now."""
    steps = [f"traceanalyzer analyze {one.path}" for one in (job.culprits or job.worst)[:1]]
    if job.culprits and job.culprits[0].cause == "slow_gpu" and job.culprits[0].host:
        steps.append(f"on {job.culprits[0].host}: nvidia-smi -q -d CLOCK,PERFORMANCE")
    return steps or ["traceanalyzer analyze ... -o fleet.html shows all ranks"]


def gone(job: Job) -> list[str]:
    """Who is missing, and which files could not be read, by name."""
    ranks = job.ranks
    lines = []
    if ranks.missing:
        shown = ", ".join(map(str, ranks.missing[:SHOWN_RANKS]))
        more = (
            f" and {len(ranks.missing) - SHOWN_RANKS:,} more"
            if len(ranks.missing) > SHOWN_RANKS
            else ""
        )
        lines.append(
            f"{len(ranks.missing):,} of {ranks.expected:,} ranks are missing: {shown}{more}"
        )
    for what, files in (("could not be read", ranks.unreadable), ("left out", ranks.left_out)):
        lines += [
            f"{what}: {shorten(one.path, 60)}: {shorten(one.why, 60)}"
            for one in files[:SHOWN_FILES]
        ]
        if len(files) > SHOWN_FILES:
            lines.append(f"{len(files) - SHOWN_FILES:,} more {what} (--format json)")
    return lines


def _sections(job: Job) -> list[Section]:
    ranks = job.ranks
    heat = job.heat
    # Where nobody is named, nothing is painted as if it were.
    darkest = 0.0 if job.culprits else DARKEST_SHARE * (job.summary.step_ms or 0.0)
    missing = gone(job)
    facts = [("ranks read", f"{ranks.read:,} of {ranks.expected:,}"), ("step", _basis(job))]
    facts += [("slowdown", f"{job.slowdown.s:.3f}")] if job.slowdown.s is not None else []
    found = (
        (
            True,
            Section(TITLE, [_answer(job), Facts.of(*facts), Bullets(missing) if missing else None]),
        ),
        (job.culprits, Section("Who holds it up", [Table(job.culprits)])),
        (job.changes, Section("What the job gains", [Table(job.changes)])),
        (True, Section("Next", [Bullets(job_next_steps(job))])),
        (heat, Section("Ranks and steps", [Drawing(partial(_picture, "heat", heat, darkest))])),
        (
            heat and heat.folded is not None,
            Section("Stages", [Drawing(partial(_picture, "stages", heat, darkest))]),
        ),
        (job.culprits, Section("Worst ranks", [Table(job.worst)])),
        (
            job.pipeline,
            Section("Pipeline", [slowdown_facts(job.pipeline) if job.pipeline else None]),
        ),
        (job.steps, Section("Steps", [Table(job.steps, limit=ALL_NOTES)], folded=True)),
        (job.notes, Section("Notes", [Bullets(job.notes[:ALL_NOTES])])),
    )
    return [section for holds, section in found if holds]


def _basis(job: Job) -> str:
    """The step that the answer speaks of."""
    if job.summary.step_ms is None:
        return "unknown"
    how = "without the profiler" if job.summary.basis == "unprofiled" else "as recorded"
    return f"{digits(job.summary.step_ms)} ms {how}"


def _picture(name: str, heat: Heat | None, darkest_ms: float) -> Any:
    from traceanalyzer.fleet.job import (
        pictures,
    )  # a page's parts take as long to load as the answer

    return heat and getattr(pictures, name)(heat, darkest_ms)
