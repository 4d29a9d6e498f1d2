"""A metric over runs as a document: bars, a chart for an issue, or one HTML file that opens offline."""

from traceanalyzer.base import dataclass
from traceanalyzer.history.html import metric_page, runs_page
from traceanalyzer.history.runs import MetricSeries, MetricValue, StoredRun
from traceanalyzer.report.format import DEFAULT_WIDTH, number, scale_for, scaled, shorten
from traceanalyzer.report.json import dump
from traceanalyzer.report.markdown.mermaid import bar_chart
from traceanalyzer.report.printed import Result, Rows

NO_RUN = "No run matches."


@dataclass(frozen=True)
class MetricPage(Result):
    """A metric over runs."""

    series: MetricSeries

    def terminal(self, width: int = DEFAULT_WIDTH, colour: bool = False) -> str:
        """Bars, then the values."""
        drawn = bars(self.series, width)
        table = self.printed.terminal(width, colour)
        return f"{drawn}\n{table}" if self.series.values else table

    def markdown(self) -> str:
        """A chart, then the values."""
        values = [(str(v.run), v.value) for v in self.series.values]
        chart = bar_chart(self.series.metric, "run", self.series.unit, values) if values else []
        return "\n".join([*chart, "", self.printed.markdown()]) if chart else self.printed.markdown()

    def json(self) -> str:
        """The series."""
        return dump(self.series)

    def html(self) -> str:
        """A line over the runs, what runs vary by, and where it changed; a point says its run, time and tags."""
        return metric_page(self.series)

    @property
    def printed(self) -> Rows:
        """A run a row."""
        return Rows("values", self.series.values, MetricValue, none=NO_RUN)


@dataclass(frozen=True)
class RunsPage(Result):
    """The stored runs."""

    rows: Rows
    runs: list[StoredRun]
    series: list[MetricSeries]
    """What the page draws of them; see `runs_page`."""

    @property
    def printed(self) -> Rows:
        """The table."""
        return self.rows

    def html(self) -> str:
        """Budgets and metrics over the runs, then the table."""
        return runs_page(self.runs, self.series)


LEAST_BAR = 10
"""Columns: in fewer, bars cannot be told apart."""
TAGS_WIDTH = 30
BAR, NEGATIVE = "█", "░"


def bars(series: MetricSeries, width: int) -> str:
    """Lines of at most `width` columns: run, tags, bar, figure. Empty where there are no values."""
    if not series.values:
        return ""
    largest = max(abs(v.value) for v in series.values)
    scale = scale_for(largest, series.unit)
    names = [shorten(f"#{v.run} {v.tags}".strip(), TAGS_WIDTH) for v in series.values]
    figures = [number(scaled(v.value, scale)) for v in series.values]
    room = max(width - max(map(len, names)) - max(map(len, figures)) - 2, LEAST_BAR)
    lines = [f"{series.metric} ({scale.label})" if scale.label else series.metric]
    for name, text, value in zip(names, figures, series.values, strict=True):
        bar = (BAR if value.value >= 0 else NEGATIVE) * round(room * abs(value.value) / (largest or 1))
        lines.append(f"{name:<{max(map(len, names))}} {bar:<{room}} {text:>{max(map(len, figures))}}".rstrip())
    return "\n".join(lines) + "\n"
