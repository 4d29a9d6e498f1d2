"""A metric over runs as a document: bars, a chart for an issue, or one HTML file that opens offline."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from traceanalyzer.history.plot import bars
from traceanalyzer.history.runs import MetricValue
from traceanalyzer.report.document import Document, Rows
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown.mermaid import bar_chart

if TYPE_CHECKING:
    from traceanalyzer.history.runs import MetricSeries

NO_RUN = "No run matches."


@dataclass(frozen=True)
class MetricPage(Document):
    """A metric over runs."""

    series: MetricSeries

    def terminal(self, width: int, colour: bool) -> str:
        """Bars, then the values."""
        drawn = bars(self.series, width)
        table = self._rows().terminal(width, colour)
        return f"{drawn}\n{table}" if self.series.values else table

    def markdown(self) -> str:
        """A chart, then the values."""
        values = [(str(v.run), v.value) for v in self.series.values]
        chart = bar_chart(self.series.metric, "run", self.series.unit, values) if values else []
        return "\n".join([*chart, "", self._rows().markdown()]) if chart else self._rows().markdown()

    def json(self) -> str:
        """The series."""
        return dump(self.series)

    def csv(self) -> str:
        """A run a row."""
        return self._rows().csv()

    def html(self) -> str:
        """A line over the runs, from zero; a point's number, time and tags are shown where it is pointed at."""
        import plotly.graph_objects as go

        series = self.series
        line = go.Scatter(
            x=[v.run for v in series.values],
            y=[v.value for v in series.values],
            customdata=[[v.stored_at, escape(str(v.tags))] for v in series.values],
            mode="lines+markers",
            hovertemplate="run %{x}: %{y}<br>%{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        )
        title = escape(f"{series.metric} ({series.unit})" if series.unit else series.metric)
        layout = {"title": title, "xaxis_title": "run", "yaxis_title": title, "yaxis_rangemode": "tozero"}
        page: str = go.Figure(line, layout).to_html(include_plotlyjs=True)
        return page

    def _rows(self) -> Rows:
        return Rows("values", self.series.values, MetricValue, none=NO_RUN)
