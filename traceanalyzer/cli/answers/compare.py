"""`traceanalyzer compare`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli import options
from traceanalyzer.cli.io.again import replays_output
from traceanalyzer.cli.io.formats import PICTURED, TABLE_FORMATS, Output
from traceanalyzer.cli.options import Hidden, Pair, command
from traceanalyzer.cli.scope import Scope, selection_options

if TYPE_CHECKING:
    from traceanalyzer.cli.io.sides import ReadSide
    from traceanalyzer.comparison.document import ComparisonPage, Several
    from traceanalyzer.report.document import Section
    from traceanalyzer.report.printed import Printed


@command("compare")
@replays_output
@click.argument("runs", nargs=-1, required=True, metavar="A B...")
@selection_options
@options.redact_options()
@options.output_options((*TABLE_FORMATS, *PICTURED))
@click.option(
    "--samples",
    type=Pair(),
    metavar="N[,N]",
    help="Samples of a step of one process, of A and of B where they differ.",
)
@click.option("--tokens", type=Pair(), metavar="N[,N]", help="Tokens of a step likewise.")
@click.option(
    "-v",
    "--full",
    is_flag=True,
    help="All of the comparison; without it a terminal shows the answer.",
)
@options.limit_option
@options.reading_options
def compare(
    runs: tuple[str, ...],
    samples: tuple[float, float] | None,
    tokens: tuple[float, float] | None,
    full: bool,
    scope: Scope,
    hidden: Hidden,
    output: Output,
) -> None:
    """Say what changed in the step time from A to B, and where it came from."""
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.cli.io.reports import cleaned
    from traceanalyzer.cli.io.sides import runs_in
    from traceanalyzer.comparison.other_kinds import compared_kinds
    from traceanalyzer.fleet.job.versus import compared_jobs

    jobs = compared_jobs(runs, hidden)
    if jobs is not None:
        emit(jobs, output)
        return
    names = [name for run in runs for name in runs_in(run)]
    if len(names) < 2:
        raise click.UsageError(f"Missing argument 'B': what {runs[0]} is compared with")
    if len(names) > 2:
        if samples or tokens or output.format == "svg":
            raise click.UsageError("`--samples`, `--tokens` and pictures are of two runs")
        emit(_several(names, scope, hidden), output)
        return
    other = compared_kinds(names[0], names[1])
    if other is not None:
        if output.format == "svg":
            raise click.UsageError("pictures are of two recordings")
        emit(cleaned(other, hidden), output)
        return
    sides = _sides(names, scope, samples, tokens, drawn=output.format == "html")
    emit(_two(sides, names, hidden, full=full or output.file is not None), output)


def _sides(
    names: list[str],
    scope: Scope,
    samples: tuple[float, float] | None,
    tokens: tuple[float, float] | None,
    *,
    drawn: bool,
) -> "list[ReadSide]":
    """Both runs, analyzed, with the samples and tokens of their steps."""
    from traceanalyzer.cli.io.sides import sides_of
    from traceanalyzer.comparison.metrics import with_amounts

    sides = sides_of(names[0], names[1], *scope, drawn=drawn)
    result = []
    for i, side in enumerate(sides):
        step_samples = samples[i] if samples else None
        step_tokens = tokens[i] if tokens else None
        report = with_amounts(side.report, step_samples, step_tokens)
        result.append(side._replace(report=report))
    return result


def _two(
    sides: "Sequence[ReadSide]", names: list[str], hidden: Hidden, *, full: bool
) -> "ComparisonPage | Printed":
    """The second run compared with the first."""
    from traceanalyzer.cli.io.reports import cleaned_with
    from traceanalyzer.comparison.compare import compare_reports
    from traceanalyzer.comparison.document import ComparisonPage
    from traceanalyzer.comparison.servers.loads import compared_servers

    before, after = (side.report for side in sides)
    steps = [side.step for side in sides]
    before, (after, steps) = cleaned_with(before, (after, steps), hidden)
    shown = (names[0], names[1]) if hidden is None else ("A", "B")
    servers = compared_servers(before, after, shown)
    if servers is not None:
        return servers
    comparison = compare_reports(before, after, shown)
    return ComparisonPage(comparison, steps, full, _trials(names, hidden))


def _trials(names: list[str], hidden: Hidden) -> "list[Section]":
    """What the trials of both sides found, where one of them is the answer of a `try`."""
    from traceanalyzer.cli.io.reports import cleaned
    from traceanalyzer.trials.saved import compared_section, trials_in

    section = compared_section(*(cleaned(trials_in(name), hidden) for name in names))
    return [] if section is None else [section]


def _several(names: list[str], scope: Scope, hidden: Hidden) -> "Several | Printed":
    """Each run but the first compared with it."""
    from traceanalyzer.cli.io.reports import cleaned_with, report_of_reference
    from traceanalyzer.comparison.compare import compare_reports
    from traceanalyzer.comparison.document import Several
    from traceanalyzer.comparison.servers.loads import several_servers

    reports = [report_of_reference(name, *scope) for name in names]
    if hidden is not None:
        first, others = cleaned_with(reports[0], reports[1:], hidden)
        reports = [first, *others]
        names = [f"run {number}" for number in range(1, len(names) + 1)]
    servers = several_servers(reports, names)
    if servers is not None:
        return servers
    pairs = zip(reports[1:], names[1:], strict=True)
    return Several(
        [compare_reports(reports[0], report, (names[0], name)) for report, name in pairs]
    )
