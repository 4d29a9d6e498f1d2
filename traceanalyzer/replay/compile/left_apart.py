"""What inductor did not fuse, and why."""

from __future__ import annotations

from collections import defaultdict

from traceanalyzer.replay.compile.model import NotFusedRow
from traceanalyzer.trace.compile_log import CompileLog, NotFused

NOTHING_IN_COMMON = "no shared data"
"""Fusing these would save a launch and no memory traffic."""


def not_fused_rows(log: CompileLog) -> list[NotFusedRow] | None:
    """The pairs left apart by reason, most frequent first and those with nothing in common last; None where the log
    does not say."""
    if log.not_fused is None:
        return None
    found: dict[str, list[NotFused]] = defaultdict(list)
    for pair in log.not_fused:
        found[pair.reason].append(pair)
    rows = [
        NotFusedRow(reason, len(pairs), pairs[0].first, pairs[0].second, sorted({p.compile_id for p in pairs}))
        for reason, pairs in found.items()
    ]
    return sorted(rows, key=lambda row: (row.reason == NOTHING_IN_COMMON, -row.pairs))
