"""`traceanalyzer compare`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import click

from traceanalyzer.cli.io.again import prints_again
from traceanalyzer.cli.io.formats import PICTURED, TABLE_FORMATS, Output
from traceanalyzer.cli.options import Pair, limit_option, output_options, reading_options, redact_options
from traceanalyzer.cli.scope import Scope, selection_options


@click.command(short_help="Say what changed between two runs, and where it came from.")
@prints_again
@click.argument("a")
@click.argument("b")
@selection_options
@redact_options()
@output_options((*TABLE_FORMATS, *PICTURED))
@click.option(
    "--samples", type=Pair(), metavar="N[,N]", help="Samples of a step of one process, of A and of B where they differ."
)
@click.option("--tokens", type=Pair(), metavar="N[,N]", help="Tokens of a step likewise.")
@click.option("-v", "--full", is_flag=True, help="All of the comparison; without it a terminal shows the answer.")
@limit_option
@reading_options
def compare(
    a: str,
    b: str,
    samples: tuple[float, float] | None,
    tokens: tuple[float, float] | None,
    full: bool,
    scope: Scope,
    hidden: Sequence[re.Pattern[str]] | None,
    output: Output,
) -> None:
    """Say what changed in the step time from A to B, and where it came from.

    A and B are anything that `analyze` reads (a trace, a capture or the folder of several ranks; a quoted pattern
    such as 'base.rank*.json.gz' too), a report saved by `analyze --format json`, or a stored run (runs.db#42,
    runs.db#latest). They may come from different recorders.

    \b
    Examples:
      traceanalyzer compare base.json.gz fix.json.gz
      traceanalyzer compare main.json trace.json.gz --format markdown -o change.md
      traceanalyzer compare base.json.gz fix.json.gz -o change.html
      traceanalyzer compare small.json.gz large.json.gz --samples 2,64

    The difference of the mean steps is taken apart by what the time was spent on: operators and kernels (matched by
    operator, shapes and position in the step), exposed communication and copies, idle time by cause. The parts sum
    to the whole difference. Each has a 95 % interval over the steps (Welch); differences within it, or under 2 %,
    are called noise. Other GPUs, shapes, numbers of ranks and recorder options are named first. A page (.html) and a
    picture (.svg) show the parts as a waterfall from A to B, and the page a step of both on one time axis. Where the
    samples (or tokens) of a step are known of both and differ, the answer is the time for each.
    """
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.cli.io.sides import sides_of
    from traceanalyzer.comparison.compare import compare_reports
    from traceanalyzer.comparison.document import ComparisonPage
    from traceanalyzer.comparison.metrics import with_amounts

    sides = sides_of(a, b, *scope, drawn=output.format == "html")
    before, after = (
        with_amounts(side.report, samples and samples[i], tokens and tokens[i]) for i, side in enumerate(sides)
    )
    names, steps = (a, b), [side.step for side in sides]
    if hidden is not None:
        from traceanalyzer.report.privacy.redact import redact_with

        both: list[Any] = [after, steps]
        before, cleaned = redact_with(before, both, hidden)
        after, steps = cleaned
        names = ("A", "B")
    full = full or output.file is not None
    emit(ComparisonPage(compare_reports(before, after, names), steps, full), output)
