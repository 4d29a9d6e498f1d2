"""Timelines made by hand."""

from __future__ import annotations

import numpy as np

from traceanalyzer.report.timeline.lanes import DrawnEvents, Lane, Shown, Timeline


def timeline(count=10, names=("a", "b"), detail=("why",)):
    """Events of 1, 2, 3, ... ns one after the other, names in turn; every third has a detail."""
    index = np.arange(count)
    events = {
        "lane": np.zeros(count),
        "category": np.zeros(count),
        "start": index * 100,
        "end": index * 101 + 1,
        "name": index % len(names),
        "detail": np.where(index % 3 == 0, 0, -1),
    }
    return Timeline(
        step=0,
        origin_ns=0,
        extent=(0, 100 * count),
        window=(0, 100 * count),
        lanes=[Lane("GPU 0 stream 7")],
        names=list(names),
        detail=list(detail),
        events=DrawnEvents.from_columns(events),
        shown=[Shown("device ops", count, count + 5)],
    )
