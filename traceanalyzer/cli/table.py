"""The table commands: one for each table of `traceanalyzer/tables.py` with a command. Only their help stands here."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.cli.again import prints_again
from traceanalyzer.cli.formats import TABLE_FORMATS
from traceanalyzer.cli.options import (
    Number,
    output_options,
    quiet_option,
    recordings,
    redact_options,
    selection_options,
    top_option,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from traceanalyzer.selection import Knowledge, Selection

SHOWN_ROWS = 20
"""Rows that people are shown unless they ask for more; programs get all."""
SHOWN_TOTALS = 10
"""Rows that sum a table up, below it."""


@dataclass(frozen=True)
class Help:
    """What `--help` says about a table command."""

    short: str
    text: str


HELP = {
    "path": Help(
        "Show the critical path: what the step really waits for.",
        """List what carries the critical path: the one chain of causes that is as long as the step.

        \b
        Examples:
          traceanalyzer path trace.json.gz
          traceanalyzer path trace.json.gz --top 10 --format json

        Walked back from the end of the steady state: from each device op to what it waited for last (its launch, the op
        before it on its stream, an op of another stream), from a launch along the CPU to the last sync, and through
        that to the GPU again. Each moment of the step belongs to one segment, whose kind is one of compute,
        communication, copy, launch (dispatch, launch calls, latency), wait (from the end of the work that a sync waited
        for until the CPU went on, and operators that only read a value), input, host, profiler, other. What is not
        listed is hidden behind the path.
        """,
    ),
    "phases": Help(
        "Split the step into forward, backward, optimizer, data.",
        """List the phases of the step: forward, backward, optimizer, data loading, logging, checkpoints.

        \b
        Examples:
          traceanalyzer phases trace.json.gz
          traceanalyzer phases trace.json.gz --columns name,device_ms,waits

        A row is a range that the program or a library annotated (record_function, NVTX, Optimizer.step); where nothing
        is annotated, autograd tells forward, backward and optimizer. Device time is that of the work launched in it,
        whenever it ran; GPU idle is how long the GPU had nothing to do while the CPU was in it. `comm` has collectives,
        `metrics.communication` the tail behind the backward pass.
        """,
    ),
    "modules": Help(
        "List the model's modules with their GPU time.",
        """List the modules of the model: GPU time forward and backward, traffic, FLOPs, what bounds them.

        \b
        Examples:
          traceanalyzer modules trace.json.gz
          traceanalyzer modules trace.json.gz --sort self_ms --top 10

        A row is a class of modules at one place of the model (all twelve layers of a stack are one row), with the
        modules inside it. The backward pass counts for the module whose forward pass made it. Needs a recording with
        stacks (collect torch --stacks), or ranges around the modules. `kernels` and `ops` name the module, too.
        """,
    ),
    "gaps": Help(
        "List the GPU's idle gaps, each with its cause.",
        """List the stretches in which a GPU had no work, each with its cause.

        \b
        Examples:
          traceanalyzer gaps trace.json.gz --min-us 100
          traceanalyzer gaps trace.json.gz --all --format json

        A gap lies between two device ops of one GPU, with no kernel, copy or memset on any of its streams. Its
        cause is one of: launch (the CPU launched too slowly), sync (the CPU had blocked on the GPU, so nothing was
        queued), input (loading data), host (other work of the CPU), communication, profiler, other (the recording
        does not tell). Gaps come in time order; a terminal shows the longest ones.
        """,
    ),
    "ops": Help(
        "List operators by their device and host time.",
        """List the framework's operators, with their time on the CPU and on the GPU.

        \b
        Examples:
          traceanalyzer ops trace.json.gz --top 20
          traceanalyzer ops trace.json.gz --by-shape
          traceanalyzer ops trace.json.gz -o ops.csv

        A row is an operator (aten::mm, an annotation) in a mean steady step. Device time is that of the kernels and
        copies it launched: itself (self), or with the operators it calls (total). Host self time leaves out the
        operators and API calls inside it. Kernels without a recorded operator have their own row.
        """,
    ),
    "kernels": Help(
        "List GPU kernels by device time.",
        """List the GPU's kernels by name, most device time first.

        \b
        Examples:
          traceanalyzer kernels trace.json.gz --top 20
          traceanalyzer kernels trace.json.gz --step 12 --format markdown

        A row is a kernel in a mean steady step: calls, total time (kernels may run at the same time, so totals may sum
        to more than the step), the distribution of its durations, its class (gemm, attention, elementwise, ...),
        and the operator that launches most of its calls.
        """,
    ),
    "steps": Help(
        "List the steps with their budgets.",
        """List the recorded steps, each with the budget of its time.

        \b
        Examples:
          traceanalyzer steps trace.json.gz
          traceanalyzer steps rank*.json.gz --rank 3 --format csv

        A row is a step: its wall-clock time, and how that divides into compute, communication and copies that do not
        overlap with compute (exposed), and idle time, with the largest cause of that. Warm-up steps are left out
        of the steady state that all other figures of the tool are means of.
        """,
    ),
    "syncs": Help(
        "List the places where the CPU blocks on the GPU.",
        """List the places in the program where the CPU blocks on the GPU.

        \b
        Examples:
          traceanalyzer syncs trace.json.gz
          traceanalyzer syncs trace.json.gz --top 5 --format json

        A row is a place: the API call, the operators around it, and the Python frame where stacks were recorded.
        How long the CPU waits says little, because waiting for a busy GPU costs nothing; GPU idle is the time that
        the GPU stood still because the sync had emptied its queue. Rows come by that; benign ones cost next to
        nothing.
        """,
    ),
    "copies": Help(
        "List memory copies with their bandwidth.",
        """List the memory copies by direction, kind of memory and size.

        \b
        Examples:
          traceanalyzer copies trace.json.gz
          traceanalyzer copies trace.json.gz --device 1 --format csv

        A row is one sort of copy in a mean steady step: bytes, time, the bandwidth achieved, the part of the time
        that does not overlap with compute or collectives (exposed), and whether the CPU waits for it. Copies from or
        to pageable host memory are slow and block the CPU.
        """,
    ),
    "shapes": Help(
        "List operators whose input shapes change.",
        """List the operators whose input shapes change from step to step, with the shapes.

        \b
        Examples:
          traceanalyzer shapes trace.json.gz
          traceanalyzer shapes trace.json.gz --format csv

        A row is an operator with GPU work whose inputs are not the same in every steady step: the shapes of its largest
        input and in how many steps it has each, how many elements that are at least, in the middle and at most, and its
        GPU time in the shortest and in the longest step. Padding or bucketing to few shapes helps cuDNN's autotuning,
        torch.compile and the allocator; lengths that differ much waste padding.
        """,
    ),
    "counters": Help(
        "List the GPU counters that were sampled.",
        """List the counters of the GPU that the recorder sampled during the steady steps.

        \b
        Examples:
          traceanalyzer counters run.sqlite
          traceanalyzer counters run.sqlite --format csv

        A row is a counter of a GPU: its mean over the steps (idle time included), its mean while the GPU had work, and
        the largest sample. They come from nsys profile --gpu-metrics-devices=all. `kernels` and `steps` have the same
        counters by kernel and step; a kernel shorter than the sampling period is unsampled.
        """,
    ),
    "comm": Help(
        "List collectives with overlap and bandwidth.",
        """List the collectives by kind, process group and message size.

        \b
        Examples:
          traceanalyzer comm rank*.json.gz
          traceanalyzer comm trace.json.gz --rank 0 --format json

        A row is one sort of collective in a mean steady step: time of its kernels (waiting for other ranks
        included), the part that does not overlap with compute (exposed), and bandwidth where the recording tells the
        size: algorithm bandwidth is message bytes over time, bus bandwidth the same scaled by NCCL's factor for the
        number of ranks, which compares with a link's speed.
        """,
    ),
}
"""Of each command of a table. In the order of `--help`."""

ONLY = {
    "ops": click.option(
        "--by-shape", is_flag=True, help="A row for each operator and input shapes, not each operator."
    ),
    "gaps": click.option("--min-us", type=Number(min=0), default=0.0, metavar="N", help="Only gaps of at least N us."),
}
"""Options that one of them has alone."""


def table_command(name: str) -> click.Command:
    """The command that prints the table of that name."""

    def run(paths: tuple[str, ...], **options: Any) -> None:
        _print(name, paths, **options)

    decorated: Callable[..., None] = run
    for decorate in (
        output_options(TABLE_FORMATS),
        quiet_option(),
        redact_options(),
        _row_options,
        selection_options,
        recordings,
        prints_again,
    ):
        decorated = decorate(decorated)
    if name in ONLY:
        decorated = ONLY[name](decorated)
    about = HELP[name]
    return click.command(name, short_help=about.short, help=about.text)(decorated)


def _row_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in (
        click.option("--sort", metavar="COLUMN", help="Largest in this column first (names as in --format json)."),
        click.option("--columns", metavar="A,B,...", help="Only these columns (names as in --format json)."),
        click.option("--all", "everything", is_flag=True, help=f"All rows; a terminal shows {SHOWN_ROWS} of them."),
        top_option,
    ):
        command = option(command)
    return command


def _print(
    name: str,
    paths: Sequence[str],
    *,
    selection: Selection,
    knowledge: Knowledge,
    top: int | None,
    everything: bool,
    columns: str | None,
    sort: str | None,
    redact: bool,
    hidden_names: list[re.Pattern[str]],
    format_: str | None,
    file: Path | None,
    **wanted: Any,
) -> None:
    """Print a table of `traceanalyzer.tables`."""
    from traceanalyzer.cli.output import emit
    from traceanalyzer.cli.progress import working
    from traceanalyzer.cli.read import opened

    output, run = opened(format_, file, TABLE_FORMATS, paths)
    from traceanalyzer import tables
    from traceanalyzer.report.kept import kept_rows
    from traceanalyzer.selection import Asked

    table = tables.named(name)
    names = _columns(table.row, columns)
    _columns(table.row, sort)
    for_people = output.format in ("terminal", "markdown")
    top = SHOWN_ROWS if top is None and for_people and not everything and sort is None else top
    with working("Analyzing"):
        summed = tables.BY_NAME.get(table.totals or "") if for_people and columns is None else None
        parts = [(name, tables.Wanted(None if sort else top, **wanted))]
        parts += [(summed.name, tables.Wanted(SHOWN_TOTALS))] if summed else []
        rows, *others = kept_rows(Asked(run, selection, knowledge), *parts)
        totals = others[0] if others else []
    if sort:
        rows = sorted(rows, key=_by(sort))[: SHOWN_ROWS if top is None and for_people and not everything else top]
    if redact or hidden_names:
        from traceanalyzer.report.privacy.redact import redact_rows

        cleaned = redact_rows([*rows, *totals], run, hidden_names)
        rows, totals = cleaned[: len(rows)], cleaned[len(rows) :]
    from traceanalyzer.report.document import Rows

    below = Rows(summed.name, totals, summed.row, title=summed.title) if summed else None
    made = Rows(name, rows, table.row, none=table.none, columns=names, totals=below)
    cut = len(rows) == top and for_people
    emit(replace(made, remarks=(f"The first {top}; --all has the rest.",)) if cut else made, output)


def _columns(row: type[Any], text: str | None) -> list[str] | None:
    """The names of columns that an option gives. Raises UsageError, naming what there is."""
    if text is None:
        return None
    from dataclasses import fields

    from traceanalyzer.report.values import RENAMED

    known = {RENAMED.get(f.name, f.name): f.name for f in fields(row)}
    asked = [part.strip() for part in text.split(",")]
    for one in asked:
        if one not in known:
            raise click.UsageError(f"there is no column {one!r}; columns: {', '.join(known)}")
    return [known[one] for one in asked]


def _by(column: str) -> Callable[[Any], tuple[bool, Any]]:
    """Largest first, what was not recorded last."""

    def key(row: Any) -> tuple[bool, Any]:
        value = getattr(row, column, None)
        return value is None, -value if isinstance(value, int | float) else str(value)

    return key
