"""`traceanalyzer whatif`."""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.io.again import replays_output
from traceanalyzer.cli.io.formats import TABLE_FORMATS, Output
from traceanalyzer.cli.io.process import load_numpy
from traceanalyzer.cli.options import (
    Hidden,
    Number,
    command,
    output_options,
    recordings,
    redact_options,
)
from traceanalyzer.cli.scope import Scope, scope_options
from traceanalyzer.cli.settings import Wanted, setting_options

if TYPE_CHECKING:
    from traceanalyzer.replay.prediction import WhatIf
    from traceanalyzer.trace import Run

LEAST_BUCKET_MB = 0.01  # smaller than one parameter's gradient, larger than a GPU
LARGEST_BUCKET_MB = 1e6


@command("whatif")
@replays_output
@recordings
@scope_options
@click.option(
    "--speedup",
    "speedups",
    multiple=True,
    metavar="REGEX=N",
    help="Also predict the device work of matching kernels, operators, annotations, Python functions or modules "
    "(nn.Module: ...) N times faster; may be repeated.",
)
@click.option(
    "--bucket-mb",
    type=Number(LEAST_BUCKET_MB, LARGEST_BUCKET_MB),
    multiple=True,
    metavar="N",
    help="Also predict gradient buckets of N MB; may be repeated.",
)
@setting_options
@click.option(
    "-v",
    "--full",
    is_flag=True,
    help="All scenarios, with what each assumes and why others are missing.",
)
@redact_options()
@output_options(TABLE_FORMATS)
def whatif(
    paths: tuple[str, ...],
    scope: Scope,
    speedups: tuple[str, ...],
    bucket_mb: tuple[float, ...],
    asked: Wanted,
    full: bool,
    hidden: Hidden,
    output: Output,
) -> None:
    """Predict the step time under each of several scenarios, or at other settings, by replaying the
    recording."""
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.report.scenarios import ScenariosPage

    wanted = [_speedup(text) for text in speedups]
    questions = asked.questions()
    if questions and (speedups or bucket_mb):
        raise click.UsageError("--speedup and --bucket-mb are of the run as it is, not of another")
    shown = partial(ScenariosPage, full=full or output.file is not None)
    is_usual = not (questions or speedups or bucket_mb) and hidden is None
    left = _left_by_report(paths, scope) if is_usual else None
    if left is not None:
        emit(shown(left), output)
        return
    load_numpy()
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.cli.io.reports import cleaned, opened

    run = opened(paths)
    if questions:
        from traceanalyzer.diagnosis.unmade import unmade
        from traceanalyzer.report.unmade import settings_page

        with working("Replaying"):
            rows = unmade(run, questions, *scope, price=asked.price)
        emit(settings_page(cleaned(rows, hidden, run)), output)
        return
    from traceanalyzer.diagnosis.question import Query
    from traceanalyzer.report.predictions.predicted import kept_predictions

    with working("Replaying"):
        result = kept_predictions(Query(run, *scope), wanted, bucket_mb)
    _check_named(wanted, result, run, hidden)
    emit(shown(cleaned(result, hidden, run)), output)


def _check_named(
    wanted: Sequence[tuple[str, float]], result: "WhatIf", run: "Run", hidden: Hidden
) -> None:
    """Raises BadParameter where a pattern matches no device work."""
    left_out = {one.id for one in result.scenarios if one.step_ms is None}
    for pattern, factor in wanted:
        if f"{pattern}={factor:g}" in left_out:
            unknown = f"no device work is named {pattern!r}{names_like(pattern, run, hidden)}"
            raise click.BadParameter(unknown, param_hint="--speedup")


def _left_by_report(paths: Sequence[str], scope: Scope) -> "WhatIf | None":
    """The predictions that a report on these recordings left."""
    from traceanalyzer.report.predictions.left import left_predictions, page_of_predictions

    return left_predictions(page_of_predictions(paths, *scope))


def names_like(pattern: str, run: "Run", hidden: Hidden) -> str:
    """A hint at operators and kernels of a run whose names are near a pattern; those with the most
    time if none is. What is hidden from reports is hidden here."""
    from difflib import get_close_matches

    from traceanalyzer.cli.io.reports import cleaned
    from traceanalyzer.report.tables import table

    operators = [row for row in table(run, "ops") if row.kind == "op"]
    rows = cleaned([*operators, *table(run, "kernels")], hidden, run)
    names = list(dict.fromkeys(row.name for row in rows))
    short = {name.rpartition("::")[2]: name for name in names[::-1]}
    near = [short[one] for one in get_close_matches(pattern.rpartition("::")[2], short, 3, 0.5)]
    return (
        f"; did you mean {', '.join(near)}?"
        if near
        else f"; the longest: {', '.join(names[:3])}"
        if names
        else ""
    )


def _speedup(text: str) -> tuple[str, float]:
    from traceanalyzer.replay.scenario import check_speedup

    name, _, times = text.rpartition("=")
    try:
        factor = float(times)
    except ValueError as error:
        wanted = f"{text!r} is not NAME=N, as aten::mm=2: how many times faster what is"
        raise click.BadParameter(wanted, param_hint="--speedup") from error
    try:
        check_speedup(name, factor)
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--speedup") from error
    return name, factor
