"""Reading recordings with a progress bar, once it is known that the result can be written."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from traceanalyzer.cli.io.output import from_stdin, named_as_given, warn_of_failures
from traceanalyzer.cli.io.process import keep_freed_memory
from traceanalyzer.cli.io.progress import progress
from traceanalyzer.ingest.places import all_fetched

if TYPE_CHECKING:
    from traceanalyzer.trace import Run


def read(paths: Sequence[str], pattern: str | None = None) -> "Run":
    """The run in the given files and folders; `pattern` describes lines of timing logs. Raises TraceAnalyzerError."""
    from traceanalyzer.ingest import load

    keep_freed_memory()
    with from_stdin(paths) as files, all_fetched(files) as (fetched, addresses), progress("Reading") as report_progress:
        run = load(fetched, progress=report_progress, pattern=pattern)
    given = {file: path for file, path in zip(files, paths, strict=True) if file != path}
    return named_as_given(run, addresses | given)


def opened(paths: Sequence[str], pattern: str | None = None, *, timeless: bool = False) -> "Run":
    """The same, with a warning for each of the files that could not be read. Raises TraceAnalyzerError; also where
    nothing given tells times, unless it may be `timeless`."""
    from traceanalyzer.base.errors import TraceAnalyzerError

    run = read(paths, pattern)
    if not timeless and run.traces and all(trace.is_companion for trace in run.traces):
        one = run.traces[0]
        what, command = ("a CUDA memory snapshot", "memory") if one.memory else ("a log of torch.compile", "compile")
        raise TraceAnalyzerError(
            f"{one.path}: {what}, which tells no times; give its trace, or ask `traceanalyzer {command} {one.path}`"
        )
    warn_of_failures(run)
    return run
