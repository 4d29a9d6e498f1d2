"""What torch.compile did, in single figures of a report."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from traceanalyzer.ingest.cache.beside import have_compile_logs
from traceanalyzer.ingest.torch_log import logs_beside
from traceanalyzer.replay.compile.measure import measure_logs
from traceanalyzer.replay.compile.model import CompileStats

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report
    from traceanalyzer.trace.compile_log import CompileLog


def stats_of_logs(logs: "Sequence[CompileLog]") -> CompileStats:
    """The figures of logs."""
    compiled = measure_logs(logs)
    breaks = sum(row.count for row in compiled.graph_breaks)
    cache = compiled.cache
    hits, misses = (cache.hits, cache.misses) if cache else (None, None)
    return CompileStats(
        compiled.compile_s, compiled.graphs, breaks, compiled.recompiles, hits, misses
    )


def logs_of(recordings: Iterable[str]) -> "list[CompileLog]":
    """The logs of torch.compile in the capture. Most have none."""
    recordings = list(recordings)
    return logs_beside(recordings) if have_compile_logs(recordings) else []


def with_compile(report: "Report", logs: "Sequence[CompileLog]") -> "Report":
    """The report with the figures of the logs; as it is without any."""
    return (
        replace(report, metrics=replace(report.metrics, compile=stats_of_logs(logs)))
        if logs
        else report
    )
