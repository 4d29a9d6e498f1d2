"""`traceanalyzer compile`: what torch.compile cost, where it broke, what it left."""

from pathlib import Path
from typing import Any

import click

from traceanalyzer.cli.io.formats import REPORT_FORMATS, Output
from traceanalyzer.cli.options import (
    FILE,
    Hidden,
    command,
    limit_option,
    output_options,
    redact_options,
)

_MS: dict[str, Any] = {"type": click.FloatRange(min=0, min_open=True), "metavar": "MS"}


@command("compile")
@click.argument("log", metavar="LOG_OR_DIR", type=click.Path())
@click.argument("trace", metavar="[TRACE]", required=False, type=click.Path())
@output_options(REPORT_FORMATS)
@click.option(
    "--step-ms",
    help="A steady step without the profiler, by a stopwatch. A capture knows it.",
    **_MS,
)
@click.option(
    "--eager-step-ms",
    help="The same without compilation: says after how many steps compilation has paid for itself.",
    **_MS,
)
@click.option(
    "--overlay",
    help=(
        "Also write the compile work as tracks on the trace's clock, to open beside it in Perfetto."
    ),
    **FILE,
)
@click.option(
    "-v",
    "--full",
    is_flag=True,
    help="All of it; without it a terminal shows the answer on one screen.",
)
@limit_option
@redact_options()
def compile(  # noqa: A001 (the command's name)
    log: str,
    trace: str | None,
    output: Output,
    step_ms: float | None,
    eager_step_ms: float | None,
    overlay: Path | None,
    full: bool,
    hidden: Hidden,
) -> None:
    """Say what torch.compile cost, where it broke and what it left eager."""
    from traceanalyzer.cli.io.output import check_writable, emit, write
    from traceanalyzer.cli.io.reports import cleaned, read_run
    from traceanalyzer.replay.compile.steps import StopwatchTimes
    from traceanalyzer.report.compile.build import compile_report, logs_and_run
    from traceanalyzer.report.compile.document import compile_document

    if overlay and hidden is not None:
        raise click.UsageError("--overlay keeps names and paths; leave out --redact")
    check_writable(overlay)
    logs, run = logs_and_run(Path(log), trace, lambda path: read_run([path]))
    if overlay is not None:
        from traceanalyzer.export.perfetto.compile_tracks import compile_tracks

        write(compile_tracks(logs, run), overlay)
    report = cleaned(compile_report(logs, run, StopwatchTimes(step_ms, eager_step_ms)), hidden, run)
    emit(compile_document(report, full or output.file is not None), output)
