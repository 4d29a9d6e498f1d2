"""A metric over runs as one HTML file that opens offline."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traceanalyzer.history.runs import MetricSeries


def metric_page(series: MetricSeries) -> str:
    """A line over the runs, from zero; a point's number, time and tags are shown where it is pointed at."""
    import plotly.graph_objects as go

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
