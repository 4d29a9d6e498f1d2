"""What the rows of a report's tables are: one visible list, for reading a saved report and for its JSON schema."""

from __future__ import annotations

from typing import Any

from traceanalyzer.analysis.memory.measure import Site
from traceanalyzer.analysis.ranks.compare import RankRow
from traceanalyzer.analysis.ranks.skew import CollectiveSkew
from traceanalyzer.analysis.tables.budget import StepRow
from traceanalyzer.analysis.tables.collectives import CollectiveStats
from traceanalyzer.analysis.tables.copies import CopyStats
from traceanalyzer.analysis.tables.gap_rows import GapHistogramRow, GapRow
from traceanalyzer.analysis.tables.kernels import ClassStats, KernelStats
from traceanalyzer.analysis.tables.ops import OpStats
from traceanalyzer.analysis.tables.path_rows import PathRow
from traceanalyzer.analysis.tables.phases import PhaseStats
from traceanalyzer.analysis.tables.syncs import SyncRow
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
    "memory": Site,
    "collectives": CollectiveStats,
    "skew": CollectiveSkew,
    "conditions": Condition,
}
"""Row type of each table that `build_report` makes, in the report's order."""
