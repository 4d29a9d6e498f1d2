"""Where did the GPU step's time go, why, and what is worth changing: answers from profiler recordings.

import traceanalyzer as ta

run = ta.load("trace.json.gz")            # or several ranks, or a folder
report = ta.analyze(run)                  # Summary, Metrics, Findings, Recommendations as a value
ta.compare("base.json.gz", "fix.json.gz") # what changed in the step time, and where it came from
ta.frame(run, "kernels")                  # a table as a pandas DataFrame
run.traces[0].device_ops.to_frame(run.traces[0].strings)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.version import __version__ as __version__

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pandas as pd

    from traceanalyzer.comparison.model import Comparison
    from traceanalyzer.report.model import Report
    from traceanalyzer.selection import Knowledge, Selection
    from traceanalyzer.trace import Run

__all__ = ["Knowledge", "Selection", "analyze", "annotate", "compare", "frame", "load"]


def load(*paths: str | Path | Sequence[str | Path]) -> Run:
    """Read the recordings of one run (files or folders, or lists of them, of any kind that the tool knows).

    Raises UnreadableInputError if nothing can be read; single ranks that cannot are in `Run.failures`.
    """
    from pathlib import Path

    from traceanalyzer.ingest import load as read

    return read([one for given in paths for one in ([given] if isinstance(given, str | Path) else given)])


def analyze(
    recording: Run | str | Path | Sequence[str | Path],
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    *,
    top: int = 30,
) -> Report:
    """The report of a run, given as loaded or by its paths.

    `selection` (`ta.Selection(rank=, device=, step=)`) takes a part of it; `knowledge` (`ta.Knowledge(classes=,
    hardware=, counters=)`) is what is known beside the recording; long tables have `top` rows. Raises
    TraceAnalyzerError.
    """
    from traceanalyzer.report.build import build_report

    return build_report(_run(recording), selection, knowledge, top)


def compare(a: Report | Run | str | Path | Sequence[str | Path], b: Any) -> Comparison:
    """What changed in the step time from A to B, and where it came from.

    Each side is a report, a run, or what names one: paths of a recording, a saved report, a stored run (`runs.db#42`).
    """
    from pathlib import Path

    from traceanalyzer.comparison.compare import compare_reports

    names = [str(side) if isinstance(side, str | Path) else name for side, name in ((a, "A"), (b, "B"))]
    return compare_reports(_report(a), _report(b), (names[0], names[1]))


def frame(
    recording: Run | str | Path | Sequence[str | Path],
    table: str,
    selection: Selection | None = None,
    knowledge: Knowledge | None = None,
    *,
    top: int | None = None,
    min_us: float = 0.0,
) -> pd.DataFrame:
    """A table (`gaps`, `ops`, `kernels`, `steps`, `syncs`, `copies`, `comm`) as a DataFrame.

    `selection` and `knowledge` as for `analyze`; `top` keeps the first rows (of gaps the longest), `min_us` leaves out
    shorter gaps. Raises ValueError for a table that there is not, naming those there are.
    """
    from dataclasses import fields

    import pandas as pd

    from traceanalyzer import tables

    names = [f.name for f in fields(tables.named(table).row)]
    return pd.DataFrame(
        tables.table(_run(recording), table, selection, knowledge, tables.Wanted(top, min_us)), columns=names
    )


def __getattr__(name: str) -> Any:
    """`annotate` (labels a phase for every recorder), `Selection` and `Knowledge`; imported on use, to start fast."""
    if name in ("Knowledge", "Selection"):
        from traceanalyzer import selection

        return getattr(selection, name)
    if name != "annotate":
        raise AttributeError(f"module 'traceanalyzer' has no attribute {name!r}")
    from traceanalyzer.collect.annotate import annotate

    return annotate


def _report(source: Any) -> Report:
    from pathlib import Path

    from traceanalyzer.comparison.reference import report_named
    from traceanalyzer.ingest import load as read
    from traceanalyzer.report.model import Report

    if isinstance(source, Report):
        return source
    return report_named(str(source), read) if isinstance(source, str | Path) else analyze(source)


def _run(recording: Run | str | Path | Sequence[str | Path]) -> Run:
    from traceanalyzer.trace import Run

    if isinstance(recording, Run):
        return recording
    return load(recording)
