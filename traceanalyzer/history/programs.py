"""Programs of a history as a static list: the step over its runs as a small line, what the last run
takes, and how it changed."""

from collections.abc import Mapping, Sequence

from traceanalyzer.base import dataclass
from traceanalyzer.history.runs import PARTS, StoredRun
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.markup import Markup, tag

LINE_WIDTH = 120
LINE_HEIGHT = 24
MARGIN = 3.0
"""Of the small line, px: half of the dot at its end."""


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


def short_names(names: Sequence[str]) -> dict[str, str]:
    """The names without the parts that all of them have."""
    parts = {name: name.split(PARTS) for name in names}
    if len(parts) < 2:
        return {name: name for name in parts}
    common = set(next(iter(parts.values())))
    for own in parts.values():
        common &= set(own)
    return {
        name: PARTS.join(part for part in own if part not in common) or name
        for name, own in parts.items()
    }


def programs_list(programs: Sequence[Program], charts: Mapping[str, str]) -> Markup | None:
    """The list as a table, where some program has several runs. `charts` has the id of a program's
    chart on the page, where there is one."""
    if all(len(one.runs) == 1 for one in programs):
        return None
    columns = [column for column in _columns(programs, charts) if any(column.cells)]
    head = tag("tr", *(column.head for column in columns))
    rows = [
        tag(
            "tr",
            *(
                tag("td", cell, class_=column.kind)
                for cell, column in zip(row, columns, strict=True)
            ),
        )
        for row in zip(*(column.cells for column in columns), strict=True)
    ]
    table = tag(
        "table", tag("caption", "Programs"), tag("thead", head), tag("tbody", *rows), class_="runs"
    )
    return tag("div", tag("div", table, class_="scroll"), class_="tabular")


@dataclass(frozen=True)
class _Column:
    """A column of the list."""

    name: str
    cells: Sequence[str | Markup | None]
    is_figure: bool = False

    @property
    def kind(self) -> str | None:
        """The class of its cells: figures end at the right."""
        return "number" if self.is_figure else None

    @property
    def head(self) -> Markup:
        return tag("th", self.name, scope="col", class_=self.kind)


def _columns(programs: Sequence[Program], charts: Mapping[str, str]) -> list[_Column]:
    steps_ms = [one.steps_ms for one in programs]
    places = [charts.get(one.name) for one in programs]
    names = short_names([one.name for one in programs])
    return [
        _Column("program", [names[one.name] or f"run {one.last.run}" for one in programs]),
        _Column("runs", [f"{len(one.runs)}" for one in programs], is_figure=True),
        _Column("over its runs", [small_line(own) if len(own) > 1 else None for own in steps_ms]),
        _Column(
            "last step",
            [figure(own[-1], "ms") if own else None for own in steps_ms],
            is_figure=True,
        ),
        _Column("change", [_change(own) for own in steps_ms], is_figure=True),
        _Column("bottleneck", [one.last.bottleneck for one in programs]),
        _Column(
            "chart",
            [
                tag("a", "over the runs", href=f"#chart-{place}") if place else None
                for place in places
            ],
        ),
    ]


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
