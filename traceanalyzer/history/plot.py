"""A metric over runs drawn with text: one bar a run, from zero, so that lengths can be compared."""

from traceanalyzer.history.runs import MetricSeries
from traceanalyzer.report.format import number, scale_for, scaled, shorten

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
