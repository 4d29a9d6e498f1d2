"""The runs of a history for people: a table for each program of several runs, newest last, and one
of the programs of a single run."""

from collections.abc import Sequence

from traceanalyzer.base import dataclass, signed_share
from traceanalyzer.base.figures import metric
from traceanalyzer.history.programs import Program, programs_of, short_names
from traceanalyzer.history.runs import PROGRAM_TAGS, StoredRun, Tags
from traceanalyzer.report.document import Document, Paragraph, Part, Section, Table
from traceanalyzer.report.format import figure

NO_RUN = "No run matches."
MINUTES = len("2026-01-31T18:00")
BASES = {"measured": "stopwatch", "estimated": "estimate", "recorded": "recording"}
VERDICTS = {
    "faster": "faster",
    "likely_faster": "likely faster",
    "no_change": "within noise",
    "likely_slower": "likely slower",
    "slower": "slower",
    "not_comparable": "cannot tell",
}
"""What is said of a verdict of `compare`."""
OVER_RUNS = (
    "run",
    "when",
    "step_ms",
    "step_by",
    "change_share",
    "verdict",
    "idle_share",
    "bottleneck",
    "tags",
    "same_recording_as",
)
OF_ONE_RUN = (
    "program",
    *(name for name in OVER_RUNS if name != "when"),
    "when",
)
HOW_NAMED = "Runs of one program have its command or recording in common; --tag program=NAME says it otherwise."


@dataclass(frozen=True)
class ListedRun:
    """A run as people are shown it."""

    run: int = metric("number of the run: FILE#12 names run 12 of a history")
    program: str = metric("its command or recording, and what else sets it apart")
    when: str = metric("when it was stored, UTC; of a recording in a folder, when it was written")
    step_ms: float | None = metric("the step without the profiler where that is known")
    step_by: str = metric("what says the step: a stopwatch, an estimate, or the recording")
    change_share: float | None = metric("change of the step against the program's run before it")
    verdict: str = metric("what `compare` says of that change")
    idle_share: float | None = metric("share of the step without device work")
    bottleneck: str = metric("class of the bottleneck")
    tags: str = metric("its tags, but those that name the program")
    same_recording_as: int | None = metric("first run of the very same recording")


def runs_document(runs: Sequence[StoredRun]) -> Document:
    """The list; the program whose newest run is the newest stands last."""
    if not runs:
        return Document("Runs", [Section("Runs", [Paragraph(NO_RUN)], untitled=True)])
    programs = sorted(programs_of(runs), key=lambda one: one.last.run)
    names = short_names([one.name for one in programs])
    several = [one for one in programs if len(one.runs) > 1]
    alone = [one for one in programs if len(one.runs) == 1]
    sections = [Section("Runs", [Paragraph(_in_short(runs, programs))], untitled=True)]
    if alone:
        title = "Programs of one run" if several else "Runs"
        rows = [_listed(one.last, names[one.name]) for one in alone]
        sections.append(_section(title, [_table(rows, OF_ONE_RUN)]))
    for program in several:
        name = names[program.name]
        rows = [_listed(run, name) for run in program.runs]
        parts: list[Part] = [Paragraph(_course(program)), _table(rows, OVER_RUNS)]
        sections.append(_section(name or "Runs", parts))
    return Document("Runs", sections)


def _section(title: str, parts: Sequence[Part]) -> Section:
    return Section(title, parts, is_minor=True)


def _table(rows: Sequence[ListedRun], columns: Sequence[str]) -> Table:
    return Table(rows, chosen=columns, every_column_in="json")


def _listed(run: StoredRun, program: str) -> ListedRun:
    others = {key: value for key, value in run.tags.items() if key.lower() not in PROGRAM_TAGS}
    tags = Tags({key: value for key, value in others.items() if value not in run.program})
    return ListedRun(
        run=run.run,
        program=program,
        when=minutes(run.stored_at),
        step_ms=run.step_ms,
        step_by=BASES[run.step_basis] if run.step_ms is not None else "",
        change_share=run.change_share,
        verdict=verdict_words(run),
        idle_share=run.idle_share,
        bottleneck=run.bottleneck,
        tags=str(tags),
        same_recording_as=run.same_recording_as,
    )


def verdict_words(run: StoredRun) -> str:
    """What is said of a run's change; empty without one."""
    return VERDICTS.get(run.verdict or "", "")


def minutes(moment: str) -> str:
    """A moment to the minute, in one piece."""
    return moment[:MINUTES].replace("T", " ")


def _in_short(runs: Sequence[StoredRun], programs: Sequence[Program]) -> str:
    """How many runs of how many programs, and of which program the newest is."""
    if len(programs) == 1:
        return f"{len(runs)} runs of one program." if len(runs) > 1 else "One run."
    if len(programs) == len(runs):
        return f"{len(runs)} runs, each of a program of its own: none is compared. {HOW_NAMED}"
    return f"{len(runs)} runs of {len(programs)} programs; changes are against the program's run before."


def _course(program: Program) -> str:
    """The step of the first and the last run, and what the last change is."""
    steps_ms = program.steps_ms
    if not steps_ms:
        return "No run has steps."
    last = program.last
    first_ms, last_ms = (figure(ms, "ms") for ms in (steps_ms[0], steps_ms[-1]))
    course = f"Step: {first_ms} in the first of {len(program.runs)} runs, {last_ms} in the last"
    if last.change_share is None:
        return f"{course}."
    verdict = verdict_words(last)
    against = f"{signed_share(last.change_share)} against the one before"
    return f"{course} ({against}, {verdict})." if verdict else f"{course} ({against})."
