"""A job as a document: one screen for who is on call, all of it as Markdown and as a page."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from traceanalyzer.base.figures import digits
from traceanalyzer.base.frozen import dataclass
from traceanalyzer.fleet.job.model import Culprit, Heat, Job
from traceanalyzer.fleet.job.ranges import ends_of
from traceanalyzer.report.document import (
    Bullets,
    Document,
    Drawing,
    Facts,
    Line,
    Part,
    Section,
    Table,
    TextTable,
    Verdict,
)
from traceanalyzer.report.format import figure, shorten
from traceanalyzer.report.html.charts import Chart
from traceanalyzer.report.html.frame import chart_place
from traceanalyzer.report.html.markup import Markup
from traceanalyzer.report.html.pictures.plot import Axis, Box, Plot, Rects
from traceanalyzer.report.printed import Printed, Result

TITLE = "Fleet"
SHOWN_CHANGES, SHOWN_FILES, SHOWN_RANKS, SHOWN_NOTES = 4, 2, 8, 1
"""Of a terminal's one screen."""
ALL_NOTES = 50
PATH = 60
ROW_PX, FEWEST_PX, LEAST_STRENGTH = 6, 160, 0.02
FOLDED_PX = 24


@dataclass(frozen=True)
class JobPage(Result):
    """The answer about a job."""

    job: Job

    @property
    def printed(self) -> Printed:
        """One screen in a terminal; all of it, with a the heat map, on a page."""
        screen = Document(TITLE, _screen(self.job))
        return Printed(Document(self.job.summary.headline, _sections(self.job)), values(self.job), screen=screen)


def values(job: Job) -> dict[str, Any]:
    """What other programs rely on."""
    return {
        "ranks": job.ranks,
        "summary": job.summary,
        "culprits": job.culprits,
        "changes": job.changes,
        "slowdown": job.slowdown,
        "worst": job.worst,
        "steps": job.steps,
        "notes": job.notes,
    }


def _answer(job: Job) -> list[Part | None]:
    ranks, steady = job.ranks, sum(step.steady for step in job.steps)
    about = [f"{ranks.read:,} of {ranks.expected:,} ranks", f"{steady} steps" if steady else "no shared steps"]
    if job.slowdown.s is not None:
        about.append(f"{job.slowdown.s:.2f}x slower than with all ranks as the middle one")
    return [Verdict(job.summary.headline, [f"{', '.join(about)}; confidence {job.summary.confidence:.0%}"])]


def _screen(job: Job) -> list[Section]:
    gains = [
        f"{one.what}: {digits(one.gain_ms)} ms a step"
        + (f" ({ends})" if (ends := ends_of(one)) else "")
        + (f", {one.explains:.0%} of the slowdown" if one.explains is not None else "")
        for one in job.changes[:SHOWN_CHANGES]
    ]
    found = [Section(TITLE, _answer(job), untitled=True)]
    found.append(Section("What the job gains", [Bullets(gains)] if gains else [], is_minor=True))
    found.append(Section("Worst ranks", [_worst(job.worst)] if job.worst else [], is_minor=True))
    last: list[Part | None] = [Bullets(next_steps(job), ">")]
    last += [Line(text, "yellow") for text in (*gone(job), *job.notes[:SHOWN_NOTES])]
    return [one for one in [*found, Section("Next", last, is_minor=True)] if one.parts]


def _worst(rows: Sequence[Culprit]) -> TextTable:
    headers = ["rank", "host", "stage", "gain ms", "90 % range", "last in", "cause"]
    texts = [
        [
            str(one.rank), shorten(one.host or "-", 14), "-" if one.stage is None else str(one.stage),
            digits(one.gain_ms), ends_of(one) or "-", f"{one.steps_share:.0%}",
            (one.cause or "-").replace("_", " "),
        ]
        for one in rows
    ]  # fmt: skip
    return TextTable(headers, [True, False, True, True, False, True, False], texts, is_whole=True)


def next_steps(job: Job) -> list[str]:
    """What to do now."""
    worst = (job.culprits or job.worst)[:1]
    steps = [f"traceanalyzer analyze {one.path}" for one in worst]
    if job.culprits and job.culprits[0].cause == "slow_gpu" and job.culprits[0].host:
        steps.append(f"on {job.culprits[0].host}: nvidia-smi -q -d CLOCK,PERFORMANCE")
    return steps or ["traceanalyzer fleet ... -o fleet.html shows all ranks"]


def gone(job: Job) -> list[str]:
    """Who is missing, and which files could not be read, by name."""
    ranks = job.ranks
    lines = []
    if ranks.missing:
        shown = ", ".join(map(str, ranks.missing[:SHOWN_RANKS]))
        more = f" and {len(ranks.missing) - SHOWN_RANKS:,} more" if len(ranks.missing) > SHOWN_RANKS else ""
        lines.append(f"{len(ranks.missing):,} of {ranks.expected:,} ranks are missing: {shown}{more}")
    for what, files in (("could not be read", ranks.unreadable), ("left out", ranks.left_out)):
        lines += [f"{what}: {shorten(one.path, PATH)}: {shorten(one.why, PATH)}" for one in files[:SHOWN_FILES]]
        if len(files) > SHOWN_FILES:
            lines.append(f"{len(files) - SHOWN_FILES:,} more {what} (--format json)")
    return lines


def _sections(job: Job) -> list[Section]:
    ranks = job.ranks
    facts = [("ranks read", f"{ranks.read:,} of {ranks.expected:,}"), ("basis", job.summary.basis)]
    facts += [("slowdown", f"{job.slowdown.s:.3f}")] if job.slowdown.s is not None else []
    lists = [Bullets(gone(job))] if gone(job) else []
    found = [
        Section(TITLE, [*_answer(job), Facts.of(*facts), *lists]),
        Section("Who holds it up", [Table(job.culprits)] if job.culprits else []),
        Section("What the job gains", [Table(job.changes)] if job.changes else []),
        Section("Next", [Bullets(next_steps(job))]),
        Section("Ranks and steps", [Drawing(partial(_heat, job.heat))] if job.heat is not None else []),
        Section("Stages", [Drawing(partial(_stages, job.heat))] if job.heat and job.heat.folded is not None else []),
        Section("Worst ranks", [Table(job.worst)] if job.worst else []),
        Section("Steps", [Table(job.steps, limit=ALL_NOTES)] if job.steps else [], folded=True),
        Section("Notes", [Bullets(job.notes[:ALL_NOTES])] if job.notes else []),
    ]
    return [section for section in found if section.parts]


def _heat(heat: Heat) -> Markup | None:
    most = float(heat.excess_ms.max())
    if most <= 0:
        return None
    boxes = [
        Box(x - 0.5, x + 0.5, y - 0.5, y + 0.5, f"{heat.names[y]}, {heat.steps[x]}: {figure(value, 'ms')}",
            strength=value / most)
        for y, row in enumerate(heat.excess_ms.tolist())
        for x, value in enumerate(row)
        if value >= LEAST_STRENGTH * most
    ]  # fmt: skip
    caption = (
        "How much longer each rank works before its collectives than the middle one of those alike, step by step; the "
        f"darkest is {figure(most, 'ms')}. Rows are in the order of stage, host and rank."
    )
    names = _sparse(heat.names, heat.excess_ms.max(axis=1).tolist())
    plot = Plot(
        [Rects("excess", "high", boxes)], Axis("step", names=_thinned(heat.steps)), Axis(names=names), down=True
    )
    height = max(FEWEST_PX, ROW_PX * len(heat.names) + 80)
    return chart_place(Chart("heat", "Excess by rank and step", caption, plot, height))


WORST_NAMED, LABELS = 5, 16


def _sparse(names: Sequence[str], worst: Sequence[float]) -> list[str]:
    """Names of some rows, and of the worst ones."""
    every = max(len(names) // LABELS, 1)
    first = sorted(range(len(names)), key=lambda i: -worst[i])[:WORST_NAMED]
    kept = {i for i in range(0, len(names), every) if all(abs(i - one) >= every // 2 for one in first)} | set(first)
    return [name.partition(" (")[0] if i in kept else "" for i, name in enumerate(names)]


def _thinned(names: Sequence[str]) -> list[str]:
    every = max(len(names) // LABELS, 1)
    return [name if i % every == 0 else "" for i, name in enumerate(names)]


def _stages(heat: Heat) -> Markup | None:
    folded = heat.folded
    if folded is None or folded.max() <= 0:
        return None
    most = float(folded.max())
    boxes = [
        Box(x - 0.5, x + 0.5, y - 0.5, y + 0.5, f"stage {y}, place {x}: {figure(value, 'ms')}", strength=value / most)
        for y, row in enumerate(folded.tolist())
        for x, value in enumerate(row)
        if value >= LEAST_STRENGTH * most
    ]
    caption = "The same as a mean over the steps: stages from top to bottom, the ranks of each from left to right."
    names = [f"stage {i}" for i in range(len(folded))]
    plot = Plot([Rects("excess", "high", boxes)], Axis("place in the stage", range=(-0.5, folded.shape[1] - 0.5)),
                Axis(names=names), down=True)  # fmt: skip
    return chart_place(Chart("stages", "Excess by stage", caption, plot, 80 + FOLDED_PX * len(names)))
