"""Where did the GPU step's time go, why, and what is worth changing: answers from profiler
recordings.

import traceanalyzer as ta

run = ta.load("trace.json.gz")            # or several ranks, or a folder
report = ta.analyze(run)                  # Summary, Metrics, Findings, Recommendations as a value
ta.compare("base.json.gz", "fix.json.gz") # what changed in the step time, and where it came from
ta.frame(run, "kernels")                  # a table as a pandas DataFrame
ta.frames(run)                            # all of them, events and measurements, by name
run.traces[0].device_ops.to_frame(run.traces[0].strings)"""

from typing import TYPE_CHECKING, Any

from traceanalyzer.version import __version__ as __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    import pandas as pd

    from traceanalyzer.analysis.joined.knowledge import Knowledge
    from traceanalyzer.comparison.model import Comparison
    from traceanalyzer.comparison.notebook import NotebookReport
    from traceanalyzer.diagnosis.part_of_run import Selection
    from traceanalyzer.replay.prediction import WhatIf
    from traceanalyzer.replay.unmade.answer import Unmade
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.printed import Printed
    from traceanalyzer.trace import Run

__all__ = [
    "Knowledge",
    "Selection",
    "analyze",
    "annotate",
    "compare",
    "frame",
    "frames",
    "load",
    "predict",
    "whatif",
]


def load(*paths: "str | Path | Sequence[str | Path]") -> "Run":
    """Read the recordings of one run (files or folders, or lists of them, of any kind that the tool
    knows).

    Raises UnreadableInputError if nothing can be read; single ranks that cannot are in
    `Run.failures`."""
    from pathlib import Path

    from traceanalyzer.ingest import load as read

    return read(
        [one for given in paths for one in ([given] if isinstance(given, str | Path) else given)]
    )


def analyze(
    recording: "Run | str | Path | Sequence[str | Path]",
    selection: "Selection | None" = None,
    knowledge: "Knowledge | None" = None,
    *,
    top: int = 30,
) -> "NotebookReport":
    """The report of a run, given as loaded or by its paths.

    `selection` (`ta.Selection(rank=, device=, step=)`) takes a part of it; `knowledge`
    (`ta.Knowledge(classes=, hardware=, counters=)`) is what is known beside the recording; long
    tables have `top` rows. Raises TraceAnalyzerError."""
    from traceanalyzer.comparison.notebook import shown
    from traceanalyzer.diagnosis.selection import measured
    from traceanalyzer.report.build import report_of

    measured_run = measured(_run(recording), selection, knowledge)
    return shown(report_of(measured_run, top), measured_run)


def whatif(
    recording: "Run | str | Path | Sequence[str | Path]",
    selection: "Selection | None" = None,
    knowledge: "Knowledge | None" = None,
    *,
    speedups: "Mapping[str, float] | None" = None,
) -> "WhatIf":
    """What the step would take under each scenario, as `traceanalyzer whatif` prints it.

    `speedups` maps regular expressions to factors: the device work of what they match becomes that
    many times faster. Raises TraceAnalyzerError where there is nothing to replay."""
    from traceanalyzer.diagnosis.remedies.advice import predictions

    return predictions(
        _run(recording), selection, knowledge, speedups=list((speedups or {}).items())
    )


def predict(
    recording: "Run | str | Path | Sequence[str | Path]",
    selection: "Selection | None" = None,
    knowledge: "Knowledge | None" = None,
    *,
    batch: str | None = None,
    length: str | None = None,
    precision: str | None = None,
    gpu: str | None = None,
    ranks: str | None = None,
    batch_now: int | None = None,
    price: float | None = None,
) -> "list[Unmade]":
    """The step of a run that was never made, one for each combination of values with commas between
    them, as `traceanalyzer whatif --batch 2x,64 --length 8192 --gpu H200` prints it.

    `batch_now` is the recorded batch where shapes do not tell it, `price` that of the GPU an hour.
    Raises TraceAnalyzerError where the recording does not tell, ValueError for a value that makes
    no sense."""
    from traceanalyzer.diagnosis.unmade import unmade
    from traceanalyzer.replay.unmade.sweep import questions_of

    questions = questions_of(
        batch=batch,
        length=length,
        precision=precision,
        gpu=gpu,
        ranks=ranks,
        batch_now=batch_now,
    )
    return unmade(_run(recording), questions, selection, knowledge, price=price)


def compare(
    a: "Report | Run | str | Path | Sequence[str | Path]", b: Any
) -> "Comparison | Printed":
    """What changed in the step time from A to B, and where it came from.

    Each side is a report, a run, or what names one: paths of a recording, a saved report, a stored
    run (`runs.db#42`). Of two memory snapshots, logs of torch.compile, or servers under load (summaries of
    benchmarks, logs without times) it is what `traceanalyzer compare` prints: `values` has figures.
    """
    from pathlib import Path

    from traceanalyzer.comparison.other_kinds import compared_kinds

    if isinstance(a, str | Path) and isinstance(b, str | Path):
        other = compared_kinds(str(a), str(b))
        if other is not None:
            return other
    from traceanalyzer.comparison.compare import compare_reports
    from traceanalyzer.comparison.servers.loads import compared_servers

    names = [
        str(side) if isinstance(side, str | Path) else name for side, name in ((a, "A"), (b, "B"))
    ]
    before, after = _report(a), _report(b)
    servers = compared_servers(before, after, (names[0], names[1]))
    return servers or compare_reports(before, after, (names[0], names[1]))


def frame(
    source: "Report | Run | str | Path | Sequence[str | Path]",
    table: str,
    selection: "Selection | None" = None,
    knowledge: "Knowledge | None" = None,
    *,
    top: int | None = None,
    min_us: float = 0.0,
) -> "pd.DataFrame":
    """A table of a recording as a DataFrame: its events (`device_ops`, `api_calls`, `host_ranges`,
    `memory_events`), measurements (`gaps`, `ops`, `kernels`, ...), `findings` or `recommendations`.

    A report has all but the events. `selection` and `knowledge` as for `analyze`; `top` keeps the
    first rows (of gaps the longest), `min_us` leaves out shorter gaps. Moments are ms from the
    first of them, of events ns on the recording's clock; `frame.attrs` has the definitions. Raises
    ValueError for a table that there is not, naming those there are."""
    from traceanalyzer.comparison import notebook
    from traceanalyzer.diagnosis.selection import measured
    from traceanalyzer.export.events import EVENTS
    from traceanalyzer.export.tables import events_frame
    from traceanalyzer.report import tables
    from traceanalyzer.report.model import Report
    from traceanalyzer.report.table_entries.kinds import RowFilter

    if isinstance(source, Report):
        rows, row = notebook.table_of(source, table)
        return notebook.as_frame(rows[:top], row)
    if table in EVENTS:
        return events_frame(measured(_run(source), selection, knowledge), table)[:top]
    if table in notebook.LISTS:
        return frame(analyze(source, selection, knowledge), table, top=top)
    row = notebook.row_type(table)
    wanted = RowFilter(top, min_us)
    return notebook.as_frame(tables.table(_run(source), table, selection, knowledge, wanted), row)


def frames(
    recording: "Run | str | Path | Sequence[str | Path]",
    selection: "Selection | None" = None,
    knowledge: "Knowledge | None" = None,
) -> "dict[str, pd.DataFrame]":
    """Everything in a recording as DataFrames, by name: events (ns on the recording's clock) and
    every table of measurements, each as `frame` gives it, with `attrs["definitions"]`. Raises
    TraceAnalyzerError."""
    from traceanalyzer.comparison import notebook
    from traceanalyzer.diagnosis.selection import measured
    from traceanalyzer.export.events import EVENTS
    from traceanalyzer.export.tables import events_frame
    from traceanalyzer.report import tables
    from traceanalyzer.report.table_entries import TABLES
    from traceanalyzer.report.table_entries.kinds import RowFilter

    measured_run = measured(_run(recording), selection, knowledge)
    found = {name: events_frame(measured_run, name) for name in EVENTS}
    for table in TABLES:
        rows = tables.measured_rows(measured_run, table.name, RowFilter())
        found[table.name] = notebook.as_frame(rows, table.row)
    return found


def load_ipython_extension(shell: Any) -> None:
    """What `%load_ext traceanalyzer` calls: the magic `%traceanalyzer`."""
    from traceanalyzer.integrations.magic import register

    register(shell)


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """`annotate` (labels a phase for every recorder), `Selection` and `Knowledge`; imported on use,
    to start fast."""
    if name in ("Knowledge", "Selection"):
        from traceanalyzer.diagnosis import selection

        return getattr(selection, name)
    if name != "annotate":
        raise AttributeError(f"module 'traceanalyzer' has no attribute {name!r}")
    from traceanalyzer.collect.annotate import annotate

    return annotate


def _report(source: Any) -> "Report":
    from pathlib import Path

    from traceanalyzer.comparison.reference import report_named
    from traceanalyzer.ingest import load as read
    from traceanalyzer.report.model import Report

    if isinstance(source, Report):
        return source
    return report_named(str(source), read) if isinstance(source, str | Path) else analyze(source)


def _run(recording: "Run | str | Path | Sequence[str | Path]") -> "Run":
    from traceanalyzer.trace import Run

    if isinstance(recording, Run):
        return recording
    return load(recording)
