"""`traceanalyzer memory`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.io.again import replays_output
from traceanalyzer.cli.io.formats import REPORT_FORMATS, Output
from traceanalyzer.cli.options import (
    Hidden,
    command,
    output_options,
    reading_options,
    redact_options,
)

if TYPE_CHECKING:
    from traceanalyzer.trace.snapshot import Snapshot


@command("memory")
@replays_output
@click.argument("snapshot", type=click.Path())
@click.argument("trace", required=False, type=click.Path())
@click.option(
    "--other",
    type=click.Path(path_type=Path),
    metavar="SNAPSHOT",
    help="Compare with another snapshot, line by line.",
)
@click.option(
    "--ranks",
    type=click.IntRange(min=2),
    default=8,
    show_default=True,
    metavar="N",
    help="Ranks to predict sharding over.",
)
@click.option(
    "-v",
    "--full",
    is_flag=True,
    help="All of it; without it a terminal shows the answer on one screen.",
)
@reading_options
@redact_options()
@output_options(REPORT_FORMATS, "other")
def memory(
    snapshot: str,
    trace: str | None,
    other: Path | None,
    ranks: int,
    full: bool,
    hidden: Hidden,
    output: Output,
) -> None:
    """Say what fills GPU memory at the peak, what grows, and why memory ran out."""
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.report.memory.build import memory_report
    from traceanalyzer.report.memory.model import UNTRACED

    second = None if other is None else _read(other)
    first = _read(Path(snapshot))
    beside = UNTRACED
    if trace is None:
        trace = _trace_in(Path(snapshot), first.path)
    if trace is not None:
        from traceanalyzer.cli.io.reports import read_run
        from traceanalyzer.report.memory.traced import traced

        beside = traced(read_run([trace]), first)
    report = memory_report(first, beside, second, ranks)
    del first, second
    from traceanalyzer.report.memory.document import memory_document  # after the history is freed
    from traceanalyzer.report.memory.redact import redacted

    shown = report if hidden is None else redacted(report, hidden)
    emit(memory_document(shown, full or output.file is not None), output)


def _read(path: Path) -> "Snapshot":
    """The snapshot, or the one in a folder. Raises UnreadableInputError where there is none, or
    more than one."""
    from traceanalyzer.cli.io.progress import progress
    from traceanalyzer.ingest.folders import snapshot_in
    from traceanalyzer.ingest.memory import read_snapshot

    file = snapshot_in(path)
    with progress("Reading") as report_progress:
        return read_snapshot(file, lambda share: report_progress(round(share * 1000), 1000))


def _trace_in(folder: Path, snapshot: str) -> str | None:
    """The recording in the snapshot's folder, where a folder was given: the only one, or that of
    the snapshot's rank."""
    if not folder.is_dir():
        return None
    from traceanalyzer.ingest.detect import is_companion
    from traceanalyzer.ingest.folders import recordings_in
    from traceanalyzer.ingest.run import rank_in_name

    found = [file for file in recordings_in(folder) if not is_companion(file)]
    if len(found) > 1:
        rank = rank_in_name(Path(snapshot))
        found = [file for file in found if rank is not None and rank_in_name(file) == rank]
    return str(found[0]) if len(found) == 1 else None
