"""The slowdown of a pipelined job as a document."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from traceanalyzer.analysis.ranks.pipeline.operations import Operations
from traceanalyzer.analysis.ranks.pipeline.slowdown import (
    PipelineSlowdown,
    PipelineStep,
    WorkerRow,
    pipeline,
    slowdown,
)
from traceanalyzer.base import (
    TraceAnalyzerError,
    UnreadableInputError,
    dataclass,
    definitions,
    plural,
)
from traceanalyzer.diagnosis.finding import Recommendation
from traceanalyzer.fleet.pipeline.judged import LEAST_SLOWDOWN, PipelineCause, causes_of
from traceanalyzer.fleet.pipeline.log_file import read_operations, recognise
from traceanalyzer.report.brief import first_screen, shown_path
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Fact,
    Facts,
    Item,
    Items,
    Paragraph,
    Section,
    Table,
    TextTable,
    Verdict,
)
from traceanalyzer.report.format import figure, number
from traceanalyzer.report.outline.gains import evidence_value, id_of, in_full, named
from traceanalyzer.report.outline.step_facts import EXPLAINED
from traceanalyzer.report.printed import Printed

__all__ = ["page", "recognise", "slowdown_facts"]

SHOWN = 5
ALONE = "slowdown with one as logged, all others ideal"
NO_FINDING = "No finding."
NOTHING = "Nothing found."
NO_ADVICE = "No change is known to help."
REPLAYS_BY = 0.05
"""A replay that is further from the recorded step tells that the log lacks something."""


def page(
    paths: Sequence[Path],
    progress: Callable[[int, int], None] | None = None,
) -> Printed:
    """The answer about a log of operations. Raises TraceAnalyzerError."""
    if len(paths) > 1:
        raise TraceAnalyzerError(f"{paths[1]}: a log of operations holds a whole job; give one")
    try:
        job = pipeline(read_operations(paths[0]))
    except TraceAnalyzerError as error:
        raise UnreadableInputError(f"{paths[0]}: {error}") from error
    ops = job.ops
    (slow, workers, steps) = slowdown(job)
    causes = causes_of(slow, workers)
    found = PipelineAnswer(_headline(slow, causes), ops, slow, workers, steps, causes)
    # The workers that explain the slowdown: what they gain is the gain of all of them together.
    gain = dict(zip(("gain_ms", "low_ms", "high_ms"), slow.without_worst_ms, strict=True))
    ranks = [rank for cause in causes for rank in cause.ranks]
    values = {
        "ranks": {
            "expected": ops.worker.size,
            "read": ops.worker.size,
            "unreadable": [],
            "missing": [],
        },
        "summary": {"headline": found.headline, "step_ms": slow.recorded_ms, "basis": "recorded"},
        "culprits": [{"rank": rank, "host": None, "cause": None, **gain} for rank in ranks],
        "slowdown": slow,
        "pipeline": {
            "dp": len(ops.worker),
            "pp": ops.stages,
            "vpp": int(ops.chunk.max()) + 1,
            "steps": len(steps),
        },
        "findings": [cause.finding for cause in causes],
        "recommendations": found.advice,
        "workers": workers,
        "steps": steps,
        "notes": found.notes,
    }
    document = Document(found.headline, _sections(found))
    return Printed(document, values, screen=_screen(found, str(paths[0])))


@dataclass(frozen=True)
class PipelineAnswer:
    """All that is said of a job."""

    headline: str
    ops: Operations
    slow: PipelineSlowdown
    workers: list[WorkerRow]
    steps: list[PipelineStep]
    causes: list[PipelineCause]

    @property
    def advice(self) -> list[Recommendation]:
        """What to change, the largest gain first."""
        return [cause.advice for cause in self.causes if cause.advice is not None]

    @property
    def notes(self) -> list[str]:
        """What was left out, and whether the replay is far from what was recorded."""
        slow = self.slow
        if abs(slow.simulated_ms / slow.recorded_ms - 1) <= REPLAYS_BY:
            return [*self.ops.notes]
        replayed = (
            f"Replayed, a step takes {figure(slow.simulated_ms, 'ms')}, as recorded "
            f"{figure(slow.recorded_ms, 'ms')}: operations overlap, or are missing from the log: "
            "gains are uncertain."
        )
        return [*self.ops.notes, replayed]

    @property
    def size(self) -> str:
        """Ranks, stages and steps."""
        dps = len(self.ops.worker)
        stages = self.ops.stages
        steps = len(self.steps)
        return (
            f"{dps} data-parallel {plural('rank', dps)}, {stages} {plural('stage', stages)}, "
            f"{steps} {plural('step', steps)}"
        )


def _headline(slow: PipelineSlowdown, causes: Sequence[PipelineCause]) -> str:
    times = f"{number(slow.s)}x"
    if not causes:
        return f"No straggler: a step takes {times} what it would with operations of a type alike."
    slower = f"{times} slower than with operations of a type alike."
    named = [cause for cause in causes if cause.is_large] or causes[:1]
    return " ".join([slower, *(f"{cause.words}." for cause in named)])


def _screen(found: PipelineAnswer, path: str) -> Document:
    """What a terminal gets unless it asks for all of it."""
    slow = found.slow
    times = (
        f"step {figure(slow.recorded_ms, 'ms')} as recorded, {figure(slow.ideal_ms, 'ms')} with "
        "operations of a type alike"
    )
    shown = shown_path(path, "LOG")
    about = [f"explain {cause.finding.id}" for cause in found.causes[:1]]
    return first_screen(
        found.headline,
        [f"{found.size}, {times}"],
        _changes(found),
        found.notes,
        [f"analyze {shown} --full", *about, f"analyze {shown} -o pipeline.html"],
    )


def _changes(found: PipelineAnswer) -> list[str]:
    """What to change, a line each."""
    slow = found.slow
    return [f"{_gain(slow, advice)} [{id_of(advice)}]  {advice.action}" for advice in found.advice]


def _sections(found: PipelineAnswer) -> list[Section]:
    slow = found.slow
    slowest = sorted(found.steps, key=lambda one: -one.s)
    items = [_finding(slow, cause) for cause in found.causes]
    explained = [Paragraph(EXPLAINED.format(cause.finding.id), "dim") for cause in found.causes[:1]]
    advice = [_explained(slow, one) for one in found.advice]
    return [
        Section("Summary", [Verdict(found.headline, [found.size]), Bullets(_changes(found))]),
        Section("Metrics", [slowdown_facts(slow)]),
        Section(
            f"Types and stages: {ALONE}",
            [_ratios("operations", slow.s_t), _ratios("stage", slow.s_stage)],
            is_minor=True,
        ),
        Section(
            f"Ranks: {ALONE}", [Table(found.workers, limit=SHOWN, defined=True)], is_minor=True
        ),
        Section("Slowest steps", [Table(slowest, limit=SHOWN, defined=True)], is_minor=True),
        Section("Findings", [Items(items) if items else NO_FINDING, *explained]),
        Section("Recommendations", [Items(advice) if advice else _no_advice(found)]),
        Section("Notes", [Bullets(found.notes)]),
    ]


def _no_advice(found: PipelineAnswer) -> str:
    return NOTHING if not found.causes else NO_ADVICE


def _finding(slow: PipelineSlowdown, cause: PipelineCause) -> Item:
    finding = cause.finding
    about = f"{finding.severity} · {finding.cls} · {finding.id}"
    if finding.headroom_ms is not None:
        share = figure(finding.headroom_ms / slow.recorded_ms, "share")
        about += f" · headroom {figure(finding.headroom_ms, 'ms')}, {share} of the step"
    evidence = [(one.metric, evidence_value(one), one.where) for one in finding.evidence]
    return Item(finding.title, [(about, "")], evidence=evidence)


def _explained(slow: PipelineSlowdown, advice: Recommendation) -> Item:
    gain = in_full(_gain(slow, advice), advice.effort, named(advice))
    how, _, assumed = advice.basis.partition(": ")
    return Item(advice.action, [(gain, "green"), (f"Assumes ({how}): {assumed}", "")])


def _gain(slow: PipelineSlowdown, advice: Recommendation) -> str:
    """What a step takes now and after it; the range is what nine of ten steps lie in."""
    now, *after = (
        figure(time_ms, "ms")
        for time_ms in (
            slow.recorded_ms,
            advice.predicted_step_ms,
            advice.low_ms,
            advice.high_ms,
        )
    )
    text = f"{now} → {after[0]} ({after[1]} to {after[2]}) per step"
    if advice.predicted_speedup is not None:
        text += f", {figure(advice.predicted_speedup, 'x')}"
    return f"{text}, may not help" if advice.may_not_help else text


def slowdown_facts(found: PipelineSlowdown) -> Facts:
    """The slowdown and what explains it, under the names of the paper and in words."""
    meaning = {one.name: one for one in definitions(PipelineSlowdown)}
    figures = (
        ("slowdown (S)", "s", figure(found.s, "x")),
        ("of it: worst 3% (M_W)", "m_w", _part_of_slowdown(found, found.m_w)),
        ("of it: last stage (M_S)", "m_s", _part_of_slowdown(found, found.m_s)),
        ("step as recorded", "recorded_ms", figure(found.recorded_ms, "ms")),
        ("step replayed", "simulated_ms", figure(found.simulated_ms, "ms")),
        ("step replayed, alike", "ideal_ms", figure(found.ideal_ms, "ms")),
    )
    return Facts([Fact(label, text, meaning[field].definition) for label, field, text in figures])


def _part_of_slowdown(found: PipelineSlowdown, share: float | None) -> str:
    """A share of the slowdown. Stages that are lighter than the mean make it exceed the whole, or
    fall below nothing: then it is all, or none, of it."""
    if share is None or found.s < LEAST_SLOWDOWN:
        return figure(None, "share")
    if share >= 1:
        return "all of it"
    return figure(share, "share") if share > 0 else "none of it"


def _ratios(name: str, slowdowns: Mapping[str, float]) -> TextTable:
    rows = [(one, number(value)) for one, value in slowdowns.items()][:SHOWN]
    return TextTable((name, "slowdown"), (False, True), rows, noun="types")
