"""`traceanalyzer compile`: what torch.compile cost, where it broke, what it left."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.cli.options import REPORT_FORMATS, output_options

if TYPE_CHECKING:
    from traceanalyzer.analysis.compile.model import Compiled
    from traceanalyzer.cli.options import Output
    from traceanalyzer.diagnosis.compile import CompileDiagnosis


@click.command("compile", short_help="Say what torch.compile cost and where it broke.")
@click.argument("log", metavar="LOG_OR_DIR", type=click.Path())
@click.argument("trace", metavar="[TRACE]", required=False, type=click.Path())
@output_options(REPORT_FORMATS)
@click.option(
    "--overlay",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write the compile work as tracks on the trace's clock, to open beside it in Perfetto.",
)
def compile(log: str, trace: str | None, format_: str | None, file: Path | None, overlay: Path | None) -> None:  # noqa: A001 (the command's name)
    """Say what torch.compile cost, where it broke and what it left eager.

    LOG_OR_DIR is what TORCH_TRACE=FOLDER wrote: a log, or the folder (one log a rank). TRACE is a recording of the
    same program: it adds what each graph break costs the GPU, the compiled share of the step, the time and source
    lines of kernels. Given a trace alone, the command says what that can tell.

    \b
    Examples:
      traceanalyzer compile compile_logs/
      traceanalyzer compile compile_logs/ trace.json.gz
      traceanalyzer compile log.txt trace.json.gz --format json
      traceanalyzer compile compile_logs/ trace.json.gz -o compile.html
      traceanalyzer compile compile_logs/ trace.json.gz --overlay compile.json
    """
    from traceanalyzer.cli.options import output_of
    from traceanalyzer.cli.output import check_writable, is_terminal, write
    from traceanalyzer.compiled import compile_report

    output = output_of(format_, file, REPORT_FORMATS, [log, *([trace] if trace else [])])
    check_writable(output.file)
    check_writable(overlay)
    if output.format == "html" and output.file is None and is_terminal(sys.stdout):
        raise click.UsageError("an HTML report is for a browser: say where to write it with -o FILE")
    if overlay is not None:
        from traceanalyzer.perfetto.compiled_overlay import compile_overlay

        write(compile_overlay(Path(log), Path(trace) if trace else None), overlay)
    compiled, diagnosis, inputs = compile_report(Path(log), Path(trace) if trace else None)
    write(_drawn(compiled, diagnosis, inputs, output), output.file)


def _drawn(compiled: Compiled, diagnosis: CompileDiagnosis, inputs: list[dict[str, Any]], output: Output) -> str:
    from traceanalyzer.cli.output import terminal_width, with_colour
    from traceanalyzer.report import compiled_render as render

    if output.format == "json":
        return render.as_json(compiled, diagnosis, inputs)
    if output.format == "markdown":
        return render.as_markdown(compiled, diagnosis)
    if output.format == "html":
        return render.as_html(compiled, diagnosis)
    return render.as_terminal(compiled, diagnosis, terminal_width(), with_colour(output.file))
