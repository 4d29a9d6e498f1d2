"""NVTX ranges by domain and category, with their payloads."""

from __future__ import annotations

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base.figures import metric, ms
from traceanalyzer.base.frozen import dataclass

SHOWN_PAYLOADS = 4


@dataclass(frozen=True)
class RangeRow:
    """NVTX ranges of one name that have a domain, a category or a payload, in the steady steps."""

    rank: int | None = metric("rank of the process")
    domain: str | None = metric("NVTX domain; null for the default one")
    category: str | None = metric("category within it; null without")
    name: str | None = metric("name of the range; null without")
    count: float = metric("ranges a step")
    host_ms: float = metric("sum of their durations a step (nested ones again)", "ms")
    payloads: str | None = metric("their payloads, most frequent first; null without")


def range_rows(timed: Timed) -> list[RangeRow]:
    """A row for each domain, category and name, by time."""
    table, trace, steps = timed.trace.range_details, timed.trace, timed.steps.steady_count
    rows = np.flatnonzero(timed.steady_host(table.start))
    groups = Groups.of(table.domain[rows], table.category[rows], table.name[rows])
    total = groups.sum((table.end - table.start)[rows])
    found = []
    for group, members in enumerate(groups.rows):
        first = rows[members[0]]
        values, counts = np.unique(table.payload[rows[members]], return_counts=True)
        shown = [trace.strings[v] for v in values[np.argsort(-counts, kind="stable")].tolist() if v >= 0]
        more = f", {len(shown) - SHOWN_PAYLOADS} more" if len(shown) > SHOWN_PAYLOADS else ""
        found.append(
            RangeRow(
                rank=trace.rank,
                domain=trace.text(int(table.domain[first])),
                category=trace.text(int(table.category[first])),
                name=trace.text(int(table.name[first])),
                count=len(members) / steps,
                host_ms=ms(total[group]) / steps,
                payloads=", ".join(shown[:SHOWN_PAYLOADS]) + more if shown else None,
            )
        )
    return sorted(found, key=lambda row: -row.host_ms)
