"""A job as a document: one screen for who is on call, all of it as Markdown and as a page."""

from collections.abc import Sequence
from dataclasses import fields, replace
from functools import partial
from typing import Any

from traceanalyzer.base import MinorNote, digits, plural
from traceanalyzer.fleet.job.changes import WORST, WORST_SHARE
from traceanalyzer.fleet.job.model import (
    Heat,
    Job,
    JobChange,
    JobCulprit,
    JobPart,
    ends_of,
)
from traceanalyzer.fleet.pipeline.document import slowdown_facts
from traceanalyzer.report.brief import LONGEST_OF_MORE, brief
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Facts,
    Item,
    Items,
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
SHOWN_ADVICE = 2
NO_FINDING = "No finding."
NO_ADVICE = "No known remedy is predicted to help."
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
        recorded = "" if job.recorded_ms is None else "as recorded, "
        about.append(f"{recorded}{job.slowdown.s:.2f}x slower than with all ranks {alike}")
    return Verdict(job.summary.headline, [", ".join(about), *_budget(job)])


def _budget(job: Job) -> list[str]:
    """Where the step goes, in a sentence; none where that is not known."""
    parts = [
        f"{one.part} {digits(one.time_ms)} ms ({one.share:.0%}{_made_of(job, one)})"
        for one in job.budget
        if not one.within
    ]
    step = f"{digits(job.summary.step_ms or 0.0)} ms step"
    return [f"Of each {step}: {', '.join(parts)}."] if parts else []


def _made_of(job: Job, outer: JobPart) -> str:
    """What a part consists of, behind its share: `: launch 44%, input 17%`."""
    parts = [
        f"{one.part} {one.share:.0%}"
        for one in job.budget
        if one.within and outer.part.endswith(one.within)
    ]
    return f": {', '.join(parts)}" if parts else ""


def _screen(job: Job) -> list[Section]:
    gains = [_gain(job, change) for change in gains_shown(job)[:SHOWN_CHANGES]]
    pressing = [text for text in job.notes if not isinstance(text, MinorNote)]
    notes = [Paragraph(text, "yellow") for text in (*gone(job), *pressing[:SHOWN_NOTES])]
    advice = _advice_of(job)
    found = [
        Section(TITLE, [_answer(job)], untitled=True),
        Section("What the job gains", [Bullets(gains)] if gains else [], is_minor=True),
        Section("What to change", [Bullets(advice)] if advice else [], is_minor=True),
        Section("Worst ranks", [_worst(job.worst)] if job.culprits else [], is_minor=True),
        Section("Next", [Bullets(job_next_steps(job), ">"), *notes], is_minor=True),
    ]
    return [one for one in found if one.parts]


def _advice_of(job: Job) -> list[str]:
    """What to change, a line each; none where nothing was analyzed."""
    lines = [
        f"{one.gain} [{one.id}]  {brief(one.action, LONGEST_OF_MORE)}"
        for one in job.recommendations[:SHOWN_ADVICE]
    ]
    return lines or ([NO_ADVICE] if job.budget else [])


def gains_shown(job: Job) -> list[JobChange]:
    """What the job would gain: the worst 3 % of its ranks are none where that is less than one."""
    enough = job.ranks.read * WORST_SHARE >= 1.0
    return [one for one in job.changes if enough or one.what != WORST]


def _gain(job: Job, change: JobChange) -> str:
    text = f"{change.what}: {digits(change.gain_ms)} ms a step"
    if job.recorded_ms is not None and change is not job.changes[0]:
        return f"{text} of the {digits(job.recorded_ms)} ms recorded"
    ends = ends_of(change)
    if ends:
        text += f" ({ends})"
    if change.explains is not None and job.recorded_ms is None:
        text += f", {change.explains:.0%} of the slowdown"
    return text


def _worst(rows: Sequence[JobCulprit]) -> TextTable:
    headers = ["rank", "host", "stage", "gain ms", "90 % range", "last in", "cause"]
    is_right = [True, False, True, True, False, True, False]
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
    return _of_known_columns(headers, is_right, texts)


def _of_known_columns(
    headers: Sequence[str], is_right: Sequence[bool], rows: Sequence[Sequence[str]]
) -> TextTable:
    """A table without the columns that are empty in every row."""
    known = [i for i in range(len(headers)) if any(row[i] != "-" for row in rows)]
    return TextTable(
        [headers[i] for i in known],
        [is_right[i] for i in known],
        [[row[i] for i in known] for row in rows],
        is_whole=True,
    )


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
    shown = gains_shown(job)
    facts = [("ranks read", f"{ranks.read:,} of {ranks.expected:,}"), ("step", _basis(job))]
    facts += [("slowdown", f"{job.slowdown.s:.2f}x")] if job.slowdown.s is not None else []
    metrics = (
        (job.budget, Section("Where the step goes", [Table(job.budget)])),
        (shown, Section(_gains_title(job), [Table(shown)])),
        (
            job.pipeline,
            Section("Pipeline", [slowdown_facts(job.pipeline) if job.pipeline else None]),
        ),
        (heat, Section("Ranks and steps", [Drawing(partial(_picture, "heat", heat, darkest))])),
        (
            heat and heat.folded is not None,
            Section("Stages", [Drawing(partial(_picture, "stages", heat, darkest))]),
        ),
        (job.steps, Section("Steps", [Table(job.steps, limit=ALL_NOTES)], folded=True)),
    )
    more = len(job.worst) > len(job.culprits) > 0
    return [
        Section("Summary", [_answer(job), Bullets(missing) if missing else None]),
        Section("Metrics", [Facts.of(*facts)]),
        *(replace(section, is_minor=True) for holds, section in metrics if holds),
        Section("Findings", [Table(job.culprits) if job.culprits else NO_FINDING]),
        *([Section("Worst ranks", [Table(job.worst)], is_minor=True)] if more else []),
        Section("Recommendations", [_recommended(job)]),
        Section("Next", [Bullets(job_next_steps(job))]),
        Section("Notes", [Bullets(job.notes[:ALL_NOTES])]),
    ]


def _recommended(job: Job) -> Items | str | None:
    """What to change, with what it gains; nothing where nothing was analyzed."""
    items = [
        Item(one.action, [(f"{one.gain}; id: {one.id}", "green")]) for one in job.recommendations
    ]
    if items:
        return Items(items, noun="recommendations")
    return NO_ADVICE if job.budget else None


def _gains_title(job: Job) -> str:
    """What the changes are of, where that is not the step of the answer."""
    if job.recorded_ms is None:
        return "What the job gains"
    return f"What the job gains of the {digits(job.recorded_ms)} ms step as recorded"


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
