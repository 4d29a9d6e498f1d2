"""Host time in API calls over the whole recording, by name."""

from typing import NamedTuple

import numpy as np

from traceanalyzer.analysis.algebra.grouping import Groups
from traceanalyzer.analysis.joined.launched import is_nested
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.base.figures import ms

SHOWN = 5


class ApiTime(NamedTuple):
    """Calls of one name."""

    name: str
    calls: int
    ms: float


def api_times(linked: Linked) -> list[ApiTime]:
    """The calls with the most host time; calls made by others do not count again."""
    calls = linked.trace.api_calls
    rows = np.flatnonzero(~linked.memo(is_nested))
    groups = Groups.of(calls.name[rows])
    time = groups.sum((calls.end - calls.start)[rows])
    order = np.argsort(-time, kind="stable")[:SHOWN]
    names = calls.name[rows][groups.first]
    return [ApiTime(linked.trace.strings[names[i]], int(groups.count[i]), ms(time[i])) for i in order.tolist()]
