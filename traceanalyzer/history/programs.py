"""Programs of a history as a static list: the step over its runs as a small line, what the last run
takes, how it changed, and where more of it is."""

from collections.abc import Mapping, Sequence

from traceanalyzer.base import dataclass
from traceanalyzer.history.runs import StoredRun
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.markup import Markup, join, tag

LINE_WIDTH = 120
LINE_HEIGHT = 24
MARGIN = 3.0
"""Of the small line, px: half of the dot at its end."""
HEADS = ("program", "runs", "over its runs", "last step", "change", "bottleneck", "more")
FIGURES = ("runs", "last step", "change")
"""Heads of columns of figures, which end at the right."""


@dataclass(frozen=True)
class Program:
    """Runs of one program, oldest first."""

    name: str
    runs: list[StoredRun]

    @property
    def last(self) -> StoredRun:
        """Its newest run."""
        return self.runs[-1]

    @property
    def steps_ms(self) -> list[float]:
        """The step of each run that has one: without the profiler where that is known."""
        return [run.step_ms for run in self.runs if run.step_ms is not None]


def programs_of(runs: Sequence[StoredRun]) -> list[Program]:
    """The programs in the order of their first runs."""
    by_name: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_name.setdefault(run.program, []).append(run)
    return [Program(name, own) for name, own in by_name.items()]


def programs_list(
    programs: Sequence[Program], charts: Mapping[str, str], reports: Mapping[int, str]
) -> Markup:
    """The list as a table. `charts` has the id of a program's chart on the page, `reports` the
    address of a run's own page; both only where there is one."""
    heads = (
        tag("th", name, scope="col", class_="number" if name in FIGURES else None) for name in HEADS
    )
    head = tag("tr", *heads)
    rows = [_row(one, charts, reports) for one in programs]
    table = tag(
        "table", tag("caption", "Programs"), tag("thead", head), tag("tbody", *rows), class_="runs"
    )
    return tag("div", tag("div", table, class_="scroll"), class_="tabular")


def _row(program: Program, charts: Mapping[str, str], reports: Mapping[int, str]) -> Markup:
    steps_ms = program.steps_ms
    chart = charts.get(program.name)
    report = reports.get(program.last.run)
    links = [
        tag("a", "over the runs", href=f"#chart-{chart}") if chart else None,
        Markup(" · ") if chart and report else None,
        tag("a", "report", href=report) if report else None,
    ]
    return tag(
        "tr",
        tag("td", program.name or f"run {program.last.run}"),
        tag("td", f"{len(program.runs)}", class_="number"),
        tag("td", small_line(steps_ms) if len(steps_ms) > 1 else None),
        tag("td", figure(steps_ms[-1], "ms") if steps_ms else "-", class_="number"),
        tag("td", _change(steps_ms), class_="number"),
        tag("td", program.last.bottleneck),
        tag("td", join(*links)),
    )


def _change(steps_ms: Sequence[float]) -> str:
    if len(steps_ms) < 2 or not steps_ms[-2]:
        return ""
    return f"{steps_ms[-1] / steps_ms[-2] - 1:+.1%}"


def small_line(values: Sequence[float]) -> Markup:
    """Values as a line from zero up, with a dot at the last one; at least two."""
    top = max(*values, 0.0) or 1.0
    wide = (LINE_WIDTH - 2 * MARGIN) / (len(values) - 1)
    high = LINE_HEIGHT - 2 * MARGIN
    points = [
        (MARGIN + i * wide, LINE_HEIGHT - MARGIN - high * max(value, 0.0) / top)
        for i, value in enumerate(values)
    ]
    last_x, last_y = points[-1]
    return tag(
        "svg",
        tag(
            "polyline",
            points=" ".join(f"{x:.1f},{y:.1f}" for x, y in points),
            fill="none",
            style="stroke:var(--compute);stroke-width:1.5",
        ),
        tag("circle", cx=f"{last_x:.1f}", cy=f"{last_y:.1f}", r="2.5", style="fill:var(--compute)"),
        width=LINE_WIDTH,
        height=LINE_HEIGHT,
        role="img",
        aria_label=f"{figure(values[0], 'ms')} in the first run, {figure(values[-1], 'ms')} in the last",
    )
