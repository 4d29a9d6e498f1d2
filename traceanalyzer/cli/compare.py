"""`traceanalyzer compare`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.options import TABLE_FORMATS, output_options, redact_options, selection_options

if TYPE_CHECKING:
    import re
    from pathlib import Path

    from traceanalyzer.cli.options import Output
    from traceanalyzer.comparison.model import Comparison
    from traceanalyzer.selection import Knowledge, Selection


@click.command(short_help="Say what changed between two runs, and where it came from.")
@click.argument("a")
@click.argument("b")
@selection_options
@redact_options()
@output_options(TABLE_FORMATS)
def compare(
    a: str,
    b: str,
    selection: Selection,
    knowledge: Knowledge,
    redact: bool,
    hidden_names: list[re.Pattern[str]],
    format_: str | None,
    file: Path | None,
) -> None:
    """Say what changed in the step time from A to B, and where it came from.

    A and B are anything that `analyze` reads (a trace, a capture or the folder of several ranks; a quoted pattern
    such as 'base.rank*.json.gz' too), a report saved by `analyze --format json`, or a stored run (runs.db#42,
    runs.db#latest). They may come from different recorders.

    \b
    Examples:
      traceanalyzer compare base.json.gz fix.json.gz
      traceanalyzer compare main.json trace.json.gz --format markdown -o change.md

    The difference of the mean steps is taken apart by what the time was spent on: operators and kernels (matched by
    operator, shapes and position in the step), exposed communication and copies, idle time by cause. The parts sum
    to the whole difference. Each has a 95 % interval over the steps (Welch); differences within it, or under 2 %,
    are called noise. Other GPUs, shapes, numbers of ranks and recorder options are named first.
    """
    from traceanalyzer.cli.options import output_of
    from traceanalyzer.cli.output import check_writable, write
    from traceanalyzer.cli.reports import report_named
    from traceanalyzer.comparison.compare import compare_reports

    output = output_of(format_, file, TABLE_FORMATS, (a, b))
    check_writable(output.file)
    before, after = (report_named(side, selection, knowledge) for side in (a, b))
    names = (a, b)
    if redact or hidden_names:
        from traceanalyzer.report.redact import redact_with

        before, after = redact_with(before, after, hidden_names)
        names = ("A", "B")
    write(_drawn(compare_reports(before, after, names), output), output.file)


def _drawn(comparison: Comparison, output: Output) -> str:
    from traceanalyzer.cli.output import terminal_width, with_colour
    from traceanalyzer.comparison import render
    from traceanalyzer.report.json import dump

    if output.format == "json":
        return dump(comparison)
    if output.format == "csv":
        return render.comparison_as_csv(comparison)
    if output.format == "markdown":
        return render.comparison_as_markdown(comparison)
    return render.comparison_as_terminal(comparison, terminal_width(), with_colour(output.file))
