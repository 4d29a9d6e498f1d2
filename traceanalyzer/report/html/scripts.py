"""What a page carries in itself: its style sheet and scripts, and Plotly."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from traceanalyzer.report.html.markup import Markup


def asset(name: str) -> Markup:
    """A file of the page's own."""
    return Markup((files("traceanalyzer.report.html") / "assets" / name).read_text(encoding="utf-8"))


@cache
def plotly() -> Markup:
    """Plotly as a script."""
    from plotly.offline import get_plotlyjs

    # An older Plotly may hold the end tag in a string of its own.
    return Markup(get_plotlyjs().replace("</script", "<\\/script"))
