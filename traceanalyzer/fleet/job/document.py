"""A job as a document: one screen for who is on call, all of it as Markdown and as a page."""

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import PurePath
from typing import Any

from traceanalyzer.base import MinorNote, plural, span
from traceanalyzer.fleet.job.changes import ALIKE, MEDIAN, WORST, WORST_SHARE
from traceanalyzer.fleet.job.model import (
    WORDS,
    Cause,
    Heat,
    Job,
    JobChange,
    JobCulprit,
    JobPart,
    ends_of,
)
from traceanalyzer.fleet.pipeline.document import slowdown_facts
from traceanalyzer.report.brief import CHANGES, LONGEST, LONGEST_OF_MORE, brief
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
from traceanalyzer.report.outline.gains import NO_SUM
from traceanalyzer.report.printed import Printed

TITLE = "Fleet"
SHOWN_CHANGES = 5  # of a terminal's one screen
SHOWN_ADVICE = 3
DO: Mapping[Cause | None, str] = {
    "slow_gpu": "Check the GPU {of_rank}: clocks, temperature, other processes",
    "more_work": "Even out the work: look for what more the program {of_rank} does",
    "slow_host": "Look at the CPU {of_rank}: its load, the cores it may use, slow Python",
    "input": "Look at the loader {of_rank}: its storage, its workers",
    "slow_link": "Check the links {of_rank}: nccl-tests between its host and another",
    "heavy_stage": "Move layers from the stage {of_rank} to the others",
    None: "Record the step {of_rank} with Python stacks: its digest does not tell why it is late",
}
"""What to do about a cause where the recordings are not here."""
PLACES = ("without host ", "without rack ")
WIDEST = (MEDIAN, ALIKE)
"""What the slowdown is measured by: all of it, which says nothing."""
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
    step_ms = job.summary.step_ms or 0.0
    parts = [
        f"{one.part} {span(one.time_ms, step_ms)} ({one.share:.0%}{_made_of(job, one)})"
        for one in job.budget
        if not one.within
    ]
    return [f"Of each {span(step_ms)} step: {', '.join(parts)}."] if parts else []


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
        Section(_advice_title(job), [Bullets(advice)] if advice else [], is_minor=True),
        Section(_gains_title(job), [Bullets(gains)] if gains else [], is_minor=True),
        # Of a single rank the sentences above say all of it.
        Section(
            "Worst ranks",
            [_worst(job.worst)] if job.culprits and len(job.worst) > 1 else [],
            is_minor=True,
        ),
        Section("Next", [Bullets(job_next_steps(job), ">"), *notes], is_minor=True),
    ]
    return [one for one in found if one.parts]


def _advice_title(job: Job) -> str:
    known = [one for one in job.recommendations[:SHOWN_ADVICE] if one.gain_is_known]
    return f"{CHANGES} ({NO_SUM})" if len(known) > 1 else CHANGES


def _advice_of(job: Job) -> list[str]:
    """What to change, a line each; none where nothing was analyzed."""
    longest = [LONGEST, *[LONGEST_OF_MORE] * (SHOWN_ADVICE - 1)]
    lines = [
        f"{advice.gain} [{advice.id}]  {brief(advice.action, most)}"
        for advice, most in zip(job.recommendations, longest, strict=False)
    ]
    if lines or job.budget:
        return lines or [NO_ADVICE]
    return [_by_cause(culprit) for culprit in job.culprits[:1]]


def _by_cause(culprit: JobCulprit) -> str:
    """What to do about a rank of which only the digest is here."""
    of_rank = "of the job" if culprit.rank is None else f"of rank {culprit.rank}"
    saves = f"{span(culprit.gain_ms)} of each step to gain"
    return f"{DO[culprit.cause].format(of_rank=of_rank)} ({saves})"


def gains_shown(job: Job) -> list[JobChange]:
    """What the job would gain: the worst 3 % of its ranks are none where that is less than one, and a
    place that gains what its rank alone does is not said twice."""
    enough = job.ranks.read * WORST_SHARE >= 1.0
    shown: list[JobChange] = []
    for change in job.changes:
        is_said = any(_gains_alike(change, other) for other in shown)
        if not is_said and (enough or change.what != WORST):
            shown.append(change)
    return shown


def _gains_alike(change: JobChange, other: JobChange) -> bool:
    """Whether a host or a rack gains what something before it does."""
    is_place = change.what.startswith(PLACES)
    return is_place and span(change.gain_ms) == span(other.gain_ms)


def _gain(job: Job, change: JobChange) -> str:
    """What a step gets shorter by. Gains of recorded times are a share where the answer speaks of
    the step without the profiler."""
    if job.recorded_ms is not None and change is not job.changes[0]:
        return f"{change.what}: {change.gain_ms / job.recorded_ms:.0%} shorter, as recorded"
    text = f"{change.what}: {span(change.gain_ms)} shorter"
    ends = ends_of(change)
    if ends:
        text += f" ({ends})"
    if change.explains is not None and job.recorded_ms is None and change.what not in WIDEST:
        text += f", {change.explains:.0%} of the slowdown"
    return text


def _worst(rows: Sequence[JobCulprit]) -> TextTable:
    headers = ["rank", "host", "stage", "costs a step", "90 % range", "last in", "cause"]
    is_right = [True, False, True, True, False, True, False]
    texts = [
        [
            str(one.rank),
            shorten(one.host or "-", 14),
            "-" if one.stage is None else str(one.stage),
            span(one.gain_ms),
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
    if not job.culprits:
        return [f"traceanalyzer fleet {_folder(job)} -o fleet.html    # all ranks and steps"]
    worst = job.culprits[0]
    steps = [f"traceanalyzer analyze {worst.path}"]
    if worst.cause == "slow_gpu":
        where = f"on {worst.host}" if worst.host else f"on the host of rank {worst.rank}"
        steps.append(f"{where}: nvidia-smi -q -d CLOCK,PERFORMANCE")
    return steps


def _folder(job: Job) -> str:
    """The folder that the ranks are in; three dots where there is none in common."""
    folders = {str(PurePath(row.path).parent) for row in job.worst}
    return folders.pop() if len(folders) == 1 else "..."


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
    gains = [_gain(job, change) for change in gains_shown(job)]
    facts = [("ranks read", f"{ranks.read:,} of {ranks.expected:,}"), ("step", _basis(job))]
    facts += [("slowdown", f"{job.slowdown.s:.2f}x")] if job.slowdown.s is not None else []
    metrics = (
        (job.budget, Section("Where the step goes", [Table(job.budget)])),
        (gains, Section(_gains_title(job), [Bullets(gains)])),
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
        Section("Summary", [_answer(job), Bullets(_advice_of(job)), Bullets(missing)]),
        Section("Metrics", [Facts.of(*facts)]),
        *(replace(section, is_minor=True) for holds, section in metrics if holds),
        Section("Findings", [_culprits(job) if job.culprits else NO_FINDING]),
        *([Section("Worst ranks", [Table(job.worst)], is_minor=True)] if more else []),
        Section("Recommendations", [_recommended(job)]),
        Section("Next", [Bullets(job_next_steps(job))]),
        Section("Notes", [Bullets(job.notes[:ALL_NOTES])]),
    ]


def _recommended(job: Job) -> Items | str:
    """What to change, with what it gains; by the cause alone where nothing was analyzed."""
    items = [
        Item(one.action, [(f"{one.gain}; id: {one.id}", "green")]) for one in job.recommendations
    ]
    if not items and not job.budget:
        items = [Item(_by_cause(culprit)) for culprit in job.culprits[:1]]
    return Items(items, noun="recommendations") if items else NO_ADVICE


def _culprits(job: Job) -> Items:
    """The ranks that hold up the job, with what they cost and how that is known."""
    return Items([_culprit(job, culprit) for culprit in job.culprits], noun="ranks")


def _culprit(job: Job, culprit: JobCulprit) -> Item:
    on = f" on {culprit.host}" if culprit.host else ""
    who = "The job" if culprit.rank is None else f"Rank {culprit.rank}{on}"
    ends = ends_of(culprit)
    cost = span(culprit.gain_ms)
    evidence = [("costs a step", f"{cost} ({ends})" if ends else cost, "")]
    evidence.append(("comes last", f"{culprit.steps_share:.0%}", "of the steps"))
    since = f"since {culprit.since}" if culprit.since else ""
    evidence.append(("pattern", culprit.pattern, since))
    if culprit.stage is not None:
        evidence.append(("stage", f"{culprit.stage}", "of the pipeline"))
    evidence.append(("recording", culprit.path, ""))
    return Item(f"{who}: {WORDS[culprit.cause]}", evidence=evidence)


def _gains_title(job: Job) -> str:
    """What the changes are of."""
    step_ms = job.summary.step_ms if job.recorded_ms is None else None
    of_step = f" of {span(step_ms)}" if step_ms else ""
    return f"How much shorter each step{of_step} gets"


def _basis(job: Job) -> str:
    """The step that the answer speaks of."""
    if job.summary.step_ms is None:
        return "unknown"
    how = "without the profiler" if job.summary.basis == "unprofiled" else "as recorded"
    return f"{span(job.summary.step_ms)} {how}"


def _picture(name: str, heat: Heat | None, darkest_ms: float) -> Any:
    from traceanalyzer.fleet.job import (
        pictures,
    )  # a page's parts take as long to load as the answer

    return heat and getattr(pictures, name)(heat, darkest_ms)
