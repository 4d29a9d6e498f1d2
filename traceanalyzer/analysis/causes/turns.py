"""GPUs of one process that work by turns: each takes over what the one before has computed, as the
parts of a model that `device_map` spreads over them."""

import numpy as np

from traceanalyzer.analysis.algebra import IntervalSet, union
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.trace import CopyKind

BY_TURNS_SHARE = 0.9
"""From this share of their busy times on, during which no other GPU works, GPUs take turns."""
LEAST_BUSY_SHARE = 0.02
"""Of the busiest GPU's time: one that works less takes no part."""


def others_work(timed: Timed) -> dict[int, IntervalSet]:
    """For each GPU when the others work, where GPUs hand over to each other by copies and work by
    turns; empty elsewhere."""
    busy = {device: found.busy for device, found in timed.activity.items()}
    if len(busy) < 2 or not _hands_over(timed):
        return {}
    most = max(found.total for found in busy.values())
    busy = {d: found for d, found in busy.items() if found.total >= LEAST_BUSY_SHARE * most}
    if len(busy) < 2:
        return {}
    together = _together(list(busy.values()))
    if together.total < BY_TURNS_SHARE * sum(found.total for found in busy.values()):
        return {}
    return {
        device: _together([found for other, found in busy.items() if other != device])
        for device in busy
    }


def _hands_over(timed: Timed) -> bool:
    copies = np.count_nonzero(timed.trace.device_ops.copy_kind == CopyKind.PEER_TO_PEER)
    return bool(copies >= max(timed.steps.steady_count, 1))


def _together(sets: list[IntervalSet]) -> IntervalSet:
    return union(
        np.concatenate([one.start for one in sets]), np.concatenate([one.end for one in sets])
    )
