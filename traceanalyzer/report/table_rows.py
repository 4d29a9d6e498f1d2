"""What the rows of a report's tables are: one visible list, for reading a saved report and for its JSON schema."""

from __future__ import annotations

from typing import Any

from traceanalyzer.analysis.budget import StepRow
from traceanalyzer.analysis.communication import CollectiveStats
from traceanalyzer.analysis.copies import CopyStats
from traceanalyzer.analysis.gap_rows import GapHistogramRow, GapRow
from traceanalyzer.analysis.kernels import ClassStats, KernelStats
from traceanalyzer.analysis.ops import OpStats
from traceanalyzer.analysis.phases import PhaseStats
from traceanalyzer.analysis.ranks import RankRow
from traceanalyzer.analysis.replay.path_rows import PathRow
from traceanalyzer.analysis.skew import CollectiveSkew
from traceanalyzer.analysis.syncs import SyncRow
from traceanalyzer.trace import Condition

TABLE_ROWS: dict[str, type[Any]] = {
    "ranks": RankRow,
    "steps": StepRow,
    "critical_path": PathRow,
    "phases": PhaseStats,
    "gaps": GapRow,
    "gap_histogram": GapHistogramRow,
    "syncs": SyncRow,
    "kernel_classes": ClassStats,
    "kernels": KernelStats,
    "ops": OpStats,
    "copies": CopyStats,
    "collectives": CollectiveStats,
    "skew": CollectiveSkew,
    "conditions": Condition,
}
"""Row type of each table that `build_report` makes, in the report's order."""
