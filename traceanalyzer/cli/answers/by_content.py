"""What `analyze` answers from beside recordings and logs of one run: dumps of a hung job, digests of
ranks, logs of a pipeline's operations."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.base import UnreadableInputError
from traceanalyzer.cli.options import Hidden

if TYPE_CHECKING:
    from traceanalyzer.report.printed import Printed, Result
    from traceanalyzer.trace import Run


def other_page(paths: Sequence[str], hidden: Hidden, *, full: bool) -> "Result | None":
    """The page on what these paths hold; None where it is none of those kinds. Raises
    TraceAnalyzerError where it is one that cannot be read."""
    job = _job_page(paths, hidden)
    if job is not None:
        return job.in_full() if full else job
    if len(paths) == 1:
        return _hang_page(Path(paths[0]), hidden, full=full)
    return None


def memory_page(run: "Run", hidden: Hidden, *, full: bool) -> "Result | None":
    """The page on a memory snapshot that was given alone; None of anything else."""
    snapshots = [trace.memory for trace in run.traces if trace.is_companion]
    if len(run.traces) != 1 or run.logs or not snapshots or snapshots[0] is None:
        return None
    from traceanalyzer.report.memory.build import memory_report
    from traceanalyzer.report.memory.document import memory_document
    from traceanalyzer.report.memory.redact import redacted

    report = memory_report(snapshots[0])
    return memory_document(report if hidden is None else redacted(report, hidden), full)


def _job_page(paths: Sequence[str], hidden: Hidden) -> "Printed | None":
    from traceanalyzer.cli.io.progress import counting, working
    from traceanalyzer.cli.io.reports import cleaned
    from traceanalyzer.fleet.digests.files import holds_digests
    from traceanalyzer.fleet.sources import source_of

    with counting("Reading", "files") as done:
        source = source_of(paths)
        if source is not None:
            return cleaned(source.page([Path(path) for path in paths], done), hidden)
    if not all(map(holds_digests, paths)):
        return None
    from traceanalyzer.fleet.job.document import job_page
    from traceanalyzer.fleet.job.open import digests_folder, job_of

    with digests_folder(None) as folder, working("Comparing"):
        return job_page(job_of(paths, folder, None, None, hidden, None))


def _hang_page(folder: Path, hidden: Hidden, *, full: bool) -> "Result | None":
    from traceanalyzer.cli.io.progress import progress
    from traceanalyzer.fleet.hang.several import hang_page, hangs_in

    with suppress(UnreadableInputError), progress("Reading") as report_progress:
        return hang_page(hangs_in(folder, report_progress), hidden, full=full)
    return None
