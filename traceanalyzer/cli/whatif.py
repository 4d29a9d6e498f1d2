"""`traceanalyzer whatif`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.again import prints_again
from traceanalyzer.cli.formats import TABLE_FORMATS
from traceanalyzer.cli.options import Number, output_options, recordings, redact_options, selection_options

if TYPE_CHECKING:
    import re
    from pathlib import Path

    from traceanalyzer.analysis.replay.whatif import WhatIf
    from traceanalyzer.selection import Knowledge, Selection
    from traceanalyzer.trace import Run

LEAST_SPEEDUP = 1e-3
"""Work that takes longer than a thousand times its own is no question about this step."""
LEAST_BUCKET_MB, LARGEST_BUCKET_MB = 0.01, 1e6
"""Smaller than one parameter's gradient, larger than a GPU."""


@click.command(short_help="Predict the step time if something were different.")
@prints_again
@recordings
@selection_options
@click.option(
    "--speedup", "speedups", multiple=True, metavar="REGEX=N",
    help="Also predict the device work of matching kernels, operators, annotations, Python functions or modules "
    "(nn.Module: ...) N times faster; may be repeated.",
)  # fmt: skip
@click.option(
    "--bucket-mb", type=Number(LEAST_BUCKET_MB, LARGEST_BUCKET_MB), multiple=True, metavar="N",
    help="Also predict gradient buckets of N MB; may be repeated.",
)  # fmt: skip
@click.option("-v", "--full", is_flag=True, help="All scenarios, with what each assumes and why others are missing.")
@redact_options()
@output_options(TABLE_FORMATS)
def whatif(
    paths: tuple[str, ...],
    selection: Selection,
    knowledge: Knowledge,
    speedups: tuple[str, ...],
    bucket_mb: tuple[float, ...],
    full: bool,
    redact: bool,
    hidden_names: list[re.Pattern[str]],
    format_: str | None,
    file: Path | None,
) -> None:
    """Predict the step time under each of several scenarios, by replaying the recording.

    \b
    Examples:
      traceanalyzer whatif trace.json.gz
      traceanalyzer whatif trace.json.gz --speedup 'aten::bmm=2' --format json

    The steady steps are replayed event by event with their causes: what the host did before each launch, what it
    waited for, streams and what they wait for. How far the replay of the unchanged recording is off is said as
    fidelity. The profiler's cost is taken out (or fitted to a measured step time), then each scenario changes one
    thing. The range comes from how much the profiler's cost varies. The ranks of a run are replayed together: what
    one of them is spared shows on those that waited for it.
    """
    from traceanalyzer.cli.output import emit
    from traceanalyzer.cli.progress import working
    from traceanalyzer.cli.read import opened

    wanted = [_speedup(text) for text in speedups]
    output, run = opened(format_, file, TABLE_FORMATS, paths)
    from traceanalyzer.report.kept_predictions import kept_predictions
    from traceanalyzer.report.scenarios import ScenariosPage
    from traceanalyzer.selection import Asked

    with working("Replaying"):
        result = kept_predictions(Asked(run, selection, knowledge), wanted, bucket_mb)
    _warn_of_unmatched(wanted, result, run)
    if redact or hidden_names:
        from traceanalyzer.report.privacy.redact import redact_rows

        result = redact_rows(result, run, hidden_names)
    emit(ScenariosPage(result, full or output.file is not None), output)


def _warn_of_unmatched(wanted: list[tuple[str, float]], result: WhatIf, run: Run) -> None:
    """Say on standard error which patterns match no device work, with names that are like them."""
    from traceanalyzer.cli.output import warn

    left_out = {one.id for one in result.scenarios if one.step_ms is None}
    for pattern, factor in wanted:
        if f"{pattern}={factor:g}" in left_out:
            hint = names_like(pattern, run)
            warn(f"--speedup {pattern}: no device work has this name{hint}")


def names_like(pattern: str, run: Run) -> str:
    """A hint at operators and kernels of a run whose names are near a pattern; those with the most time if none is."""
    from difflib import get_close_matches

    from traceanalyzer.tables import table

    rows = [*table(run, "ops"), *table(run, "kernels")]
    names = list(dict.fromkeys(row.name for row in rows))
    short = {name.rpartition("::")[2]: name for name in names[::-1]}
    near = [short[one] for one in get_close_matches(pattern.rpartition("::")[2], short, 3, 0.5)]
    return f"; did you mean {', '.join(near)}?" if near else f"; the longest: {', '.join(names[:3])}" if names else ""


def _speedup(text: str) -> tuple[str, float]:
    import re

    name, _, factor = text.rpartition("=")
    try:
        value = float(factor)
        re.compile(name)
    except re.error as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint="--speedup") from error
    except ValueError:
        value = 0.0
    if not name or not value >= LEAST_SPEEDUP:
        raise click.BadParameter(
            f"{text!r} is not REGEX=N with N of at least {LEAST_SPEEDUP:g}", param_hint="--speedup"
        )
    return name, value
