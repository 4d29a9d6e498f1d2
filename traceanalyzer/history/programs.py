"""Programs of a history as a static list: the step over its runs as a small line, what the last run
takes, and how it changed."""

from collections.abc import Mapping, Sequence

from traceanalyzer.base import dataclass, signed_share
from traceanalyzer.history.runs import PARTS, StoredRun
from traceanalyzer.report.format import figure
from traceanalyzer.report.html.markup import Markup, tag

LINE_WIDTH = 120
LINE_HEIGHT = 24
MARGIN = 3.0
"""Of the small line, px: half of the dot at its end."""
KINDS = {
    "program": None,
    "runs": "number",
    "over its runs": None,
    "last step": "number",
    "change": "number",
    "bottleneck": None,
    "chart": None,
}
"""The columns of the list, each with the class of its cells."""


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
    kinds = dict(KINDS)
    if not charts:
        del kinds["chart"]
    names = short_names([one.name for one in programs])
    rows = []
    for program in programs:
        cells = [*_cells(program, names[program.name]), _to_chart(charts.get(program.name))]
        rows.append(
            tag(
                "tr",
                *(
                    tag("td", cell, class_=kind)
                    for cell, kind in zip(cells, kinds.values(), strict=False)
                ),
            )
        )
    heads = [tag("th", name, scope="col", class_=kind) for name, kind in kinds.items()]
    table = tag(
        "table",
        tag("caption", "Programs"),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *rows),
        class_="runs",
    )
    return tag("div", tag("div", table, class_="scroll"), class_="tabular")


def _cells(program: Program, name: str) -> list[str | Markup | None]:
    """The cells of a program, in the order of `KINDS`, but the last."""
    steps_ms = program.steps_ms
    last = program.last
    change = "" if last.change_share is None else signed_share(last.change_share)
    return [
        name or f"run {last.run}",
        f"{len(program.runs)}",
        small_line(steps_ms) if len(steps_ms) > 1 else None,
        figure(steps_ms[-1], "ms") if steps_ms else None,
        change,
        last.bottleneck,
    ]


def _to_chart(place: str | None) -> Markup | None:
    return tag("a", "over the runs", href=f"#chart-{place}") if place else None


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
