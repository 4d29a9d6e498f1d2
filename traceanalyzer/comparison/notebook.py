"""What a notebook shows: a report that draws itself, plots as Plotly figures, tables as DataFrames
with sound types."""

import typing
from collections.abc import Iterator, Sequence
from dataclasses import fields
from html import escape
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from traceanalyzer.base import NS_PER_MS, TraceAnalyzerError, dataclass, definitions
from traceanalyzer.base.files import replacing
from traceanalyzer.diagnosis.finding import Finding, Recommendation
from traceanalyzer.diagnosis.selection import MeasuredRanks, measured
from traceanalyzer.export.events import EVENTS
from traceanalyzer.ingest import load
from traceanalyzer.report.brief import brief
from traceanalyzer.report.build import report_of
from traceanalyzer.report.html import render_html
from traceanalyzer.report.html.details import Details
from traceanalyzer.report.html.made_details import details_of
from traceanalyzer.report.json import RENAMED
from traceanalyzer.report.model import Report
from traceanalyzer.report.outline import breakdown, opening
from traceanalyzer.report.page import ReportPage
from traceanalyzer.report.printed import WIDTH
from traceanalyzer.report.table_entries import table_named
from traceanalyzer.report.tables import in_lists
from traceanalyzer.report.timeline.lanes import Category
from traceanalyzer.trace import distinct

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

ColumnType = Literal["boolean", "Int64", "float64", "category", "object"]
FORMATS = {".html": "html", ".htm": "html", ".md": "markdown", ".json": "json", ".txt": "terminal"}
LISTS: dict[str, type[Any]] = {"findings": Finding, "recommendations": Recommendation}
"""Lists of a report that are tables as well."""
NS = "_ns"
MOMENTS = ("start_ns", "end_ns")  # columns of moments, which a frame has relative to its first one
ROWS = 30  # of a long table, as `analyze` has them


@dataclass(frozen=True)
class NotebookReport(Report):
    """A report as `ta.analyze` gives it: one line as text, the first screen in a notebook."""

    def __repr__(self) -> str:
        what = (
            brief(self.summary.headline)
            if opening.companion(self)
            else opening.step_times_in_words(self)
        )
        return f"<Report: {opening.verdict(self)}, {what}, {opening.recording(self)}>"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(ReportPage(self).terminal(WIDTH, colour=False))}</pre>"

    def to_markdown(self, *, full: bool = False) -> str:
        """The report as Markdown, as it is attached to an issue; all of it with `full`."""
        return ReportPage(self, full=full).markdown()

    def to_html(self) -> str:
        """The report as a page that stands alone."""
        return render_html(self, self.details)

    def save(self, path: str | Path) -> Path:
        """Write the report as its suffix says: .html (without the timeline: `analyze -o` has it),
        .md, .json, .txt.

        Raises TraceAnalyzerError for another suffix, or where the file cannot be written."""
        file = Path(path)
        page = ReportPage(self, full=True)
        form = FORMATS.get(file.suffix.lower())
        if form is None:
            raise TraceAnalyzerError(f"{file}: a report is saved as {', '.join(FORMATS)}")
        if form == "terminal":
            text = page.terminal(WIDTH, colour=False)
        else:
            text = self.to_html() if form == "html" else getattr(page, form)()
        try:
            with replacing(file) as out:
                out.write(text.encode("utf-8", "replace"))
        except OSError as error:
            raise TraceAnalyzerError(f"cannot write {file}: {error.strerror}") from error
        return file

    @property
    def details(self) -> Details:
        """What the page shows beyond the report: its timeline. Empty where the report was read from
        a file."""
        return getattr(self, "_details", Details())

    @property
    def plot(self) -> "Plots":
        """Plots of the report."""
        return Plots(self)


@dataclass(frozen=True)
class Plots:
    """Plots of a report as Plotly figures."""

    report: NotebookReport

    def budget(self) -> "go.Figure":
        """The step's wall-clock time by what the device did, idle time by cause."""
        import plotly.graph_objects as go

        parts = breakdown.finest(breakdown.budget(self.report))
        sideways = {"y": ["step"], "orientation": "h"}
        bars = [go.Bar(name=part.name, x=[part.ms], **sideways) for part in parts]
        return go.Figure(bars, {"barmode": "stack", "xaxis_title": "ms", "height": 220})

    def kernels(self, top: int = 15) -> "go.Figure":
        """Device time per step of the kernels that take the most."""
        import plotly.graph_objects as go

        rows = self.report.tables.get("kernels", [])[:top][::-1]
        bars = go.Bar(
            x=[row.total_ms for row in rows], y=[row.name for row in rows], orientation="h"
        )
        return go.Figure(bars, {"xaxis_title": "ms per step"})

    def roofline(self) -> "go.Figure":
        """Kernels by arithmetic intensity and throughput; empty where no kernel has both."""
        import plotly.graph_objects as go

        rows = [
            row for row in self.report.tables.get("kernels", []) if row.intensity and row.tflops
        ]
        marks = go.Scatter(
            x=[row.intensity for row in rows],
            y=[row.tflops for row in rows],
            text=[row.name for row in rows],
            mode="markers",
        )
        axes = {
            "xaxis": {"type": "log", "title": "FLOP per byte"},
            "yaxis": {"type": "log", "title": "TFLOP/s"},
        }
        return go.Figure(marks, axes)

    def timeline(self) -> "go.Figure":
        """The representative step: streams, idle gaps and host threads by lane, ms from its start;
        what each is on hover. Empty where the report was read from a file, or no events were
        recorded."""
        import plotly.graph_objects as go

        drawn = self.report.details.timelines
        if not drawn:
            return go.Figure()
        step = drawn[0]
        events = step.events
        titles = [f"{i}: {lane.title}" for i, lane in enumerate(step.lanes)]
        bars = []
        for category in distinct(events.category).tolist():
            rows = np.flatnonzero(events.category == category)
            bars.append(
                go.Bar(
                    name=Category(category).label,
                    base=events.start[rows] / NS_PER_MS,
                    x=(events.end[rows] - events.start[rows]) / NS_PER_MS,
                    y=[titles[lane] for lane in events.lane[rows].tolist()],
                    text=[step.names[name] for name in events.name[rows].tolist()],
                    textposition="none",
                    hovertemplate="%{text}<br>%{x:.4f} ms",
                    orientation="h",
                )
            )
        lanes = {"categoryorder": "array", "categoryarray": titles[::-1]}
        return go.Figure(
            bars, {"barmode": "overlay", "xaxis_title": "ms", "yaxis": lanes, "bargap": 0.05}
        )


def shown(report: Report, measured_run: MeasuredRanks | None = None) -> NotebookReport:
    """The report as a notebook shows it; `measured_run` is what it was made from, for its page."""
    values = {f.name: getattr(report, f.name) for f in fields(Report)}
    result = NotebookReport(**values | {"tables": in_lists(report.tables)})
    if measured_run is not None:
        object.__setattr__(result, "_details", details_of(measured_run))
    return result


def shown_of(paths: Sequence[str | Path], top: int = ROWS) -> NotebookReport:
    """The report of the recordings of one run, as a notebook shows it. Raises
    TraceAnalyzerError."""
    ranks = measured(load(paths))
    return shown(report_of(ranks, top), ranks)


def table_of(report: Report, name: str) -> tuple[Sequence[Any], type[Any]]:
    """Rows and row type of a table, or of the findings or recommendations, that a report holds.
    Raises ValueError."""
    if name in LISTS:
        return getattr(report, name), LISTS[name]
    if name in EVENTS:
        raise ValueError(f"a report does not hold {name}: give the recording")
    row = row_type(name)
    return report.tables.get(table_named(name).name, []), row


def row_type(name: str) -> type[Any]:
    """The row type of a table. Raises ValueError for one that there is not, naming those there
    are."""
    try:
        return table_named(name).row
    except ValueError as error:
        raise ValueError(f"{error}, {', '.join((*LISTS, *EVENTS))}") from error


def as_frame(rows: Sequence[Any], row: type[Any]) -> "pd.DataFrame":
    """Rows of a dataclass as a DataFrame: nullable integers, texts as categories, times in ms,
    moments from the first. Columns have the same types whatever the rows hold, also without any.

    `frame.attrs["definitions"]` has the meaning and unit of each column, `attrs["origin_ns"]` what
    moments count from.
    """
    import pandas as pd

    columns = {f.name: [getattr(one, f.name) for one in rows] for f in fields(row)}
    moments = chain.from_iterable(columns.get(name, []) for name in MOMENTS)
    origin = min((at for at in moments if at is not None), default=0)
    types = typing.get_type_hints(row)
    frame = pd.DataFrame(
        {_shown(name): _values(name, values, origin) for name, values in columns.items()}
    )
    for name in columns:
        kind: ColumnType = "float64" if name.endswith(NS) else _kind(types[name])
        frame[_shown(name)] = frame[_shown(name)].astype(kind)
    frame.attrs = {"definitions": _meanings(row), "origin_ns": origin}
    return frame


def _meanings(row: type[Any]) -> dict[str, str]:
    units = [(d, "ms" if d.name.endswith(NS) else d.unit) for d in definitions(row)]
    return {
        _shown(d.name): f"{d.definition} ({unit})" if unit else d.definition for d, unit in units
    }


def _shown(name: str) -> str:
    return f"{name.removesuffix(NS)}_ms" if name.endswith(NS) else RENAMED.get(name, name)


def _values(name: str, values: list[Any], origin: int) -> list[Any]:
    base = origin if name in MOMENTS else 0
    return (
        [v if v is None else (v - base) / NS_PER_MS for v in values]
        if name.endswith(NS)
        else values
    )


def _kind(hint: Any) -> ColumnType:
    """The type of a column by what its rows declare, whatever they hold: texts are categories,
    lists objects."""
    parts = set(_declared(hint))
    if parts == {int, float}:
        return "float64"
    known: dict[Any, ColumnType] = {
        bool: "boolean",
        int: "Int64",
        float: "float64",
        str: "category",
    }
    return known.get(parts.pop(), "object") if len(parts) == 1 else "object"


def _declared(hint: Any) -> Iterator[Any]:
    """The types of a hint, without that of None; those of the values of a Literal."""
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        yield from map(type, typing.get_args(hint))
    elif origin in (typing.Union, UnionType):
        for part in typing.get_args(hint):
            yield from _declared(part)
    elif hint is not NoneType:
        yield hint
