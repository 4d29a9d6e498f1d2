"""The options that commands share, and what they mean."""

from __future__ import annotations

import math
import re
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Function = TypeVar("Function", bound="Callable[..., Any]")

LEAST_CHARS = 4_000
"""A report's answer alone needs so many, with the longest of names in it."""


class Number(click.FloatRange):
    """A number in a range; `nan` lies in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises BadParameter."""
        try:
            float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number.", param, ctx)
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


class Pair(click.ParamType):  # type: ignore[type-arg]  # generic in click 8.3 alone
    """One number above zero for both sides, or two: `64`, `2,64`."""

    name = "numbers"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, float]:
        """The numbers. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        numbers = [Number(min=0, min_open=True).convert(text, param, ctx) for text in str(value).split(",")]
        if len(numbers) > 2:
            self.fail(f"{value} is more than a number for A and one for B", param, ctx)
        return numbers[0], numbers[-1]


def recordings(command: Function) -> Function:
    """The recordings to read: `paths`; `--limit`, `--jobs` and `--no-cache`."""
    decorated = limit_option(reading_options(command))
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())(decorated)


def _cache(_: click.Context, __: click.Parameter, without: bool) -> None:
    from traceanalyzer.reading import read_with

    read_with(cache=not without)


MOST_JOBS = 16
"""Of the processes that are started unasked: beyond, a disk seldom keeps up."""


def _jobs(_: click.Context, __: click.Parameter, jobs: int | None) -> None:
    import os

    from traceanalyzer.reading import read_with

    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    read_with(jobs=jobs or min(usable, MOST_JOBS))


def reading_options(command: Function) -> Function:
    """`--jobs` and `--no-cache`, which are in force before anything is read; the command does not get them."""
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        callback=_jobs,
        expose_value=False,
        is_eager=True,
        metavar="N",
        help=f"Read and analyze with N processes. Default: the CPU cores there are, {MOST_JOBS} at most.",
    )
    cache = click.option(
        "--no-cache",
        is_flag=True,
        callback=_cache,
        expose_value=False,
        is_eager=True,
        help="Read the recording itself, and keep nothing of it; see `cache`.",
    )
    return jobs(cache(command))


def _quiet(context: click.Context, _: click.Parameter, quiet: bool) -> None:
    context.meta[QUIET] = quiet


QUIET = "traceanalyzer.quiet"


def is_quiet() -> bool:
    """Whether `-q` was given to the command that runs."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(QUIET))


def quiet_option(help_: str = "No progress and no warnings, only the result.") -> Callable[[Function], Function]:
    """`-q`, which the command does not get: `is_quiet` tells."""
    return click.option("-q", "--quiet", is_flag=True, callback=_quiet, expose_value=False, is_eager=True, help=help_)


def limit_option(command: Function) -> Function:
    """`--limit NAME=N`, which is in force before anything is read; the command does not get it."""
    return click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=N",
        callback=_limits,
        expose_value=False,
        is_eager=True,
        help="Accept input beyond a limit that recordings stay below: size, ratio, log, side, report, text, digits, "
        "ranks; the README has their values. N may end in K, M or G. May be repeated.",
    )(command)


_COUNT = re.compile(r"(\d{1,15})([KMG]?)")
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def _limits(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> None:
    from dataclasses import fields

    from traceanalyzer.limits import Limits, raise_for_all

    known = [f.name for f in fields(Limits)]
    changes = {}
    for text in texts:
        name, number = text.partition("=")[::2]
        count = _COUNT.fullmatch(number)
        if name not in known or count is None:
            raise click.BadParameter(f"{text!r} is not NAME=N with one of {', '.join(known)}")
        changes[name] = int(count[1]) * _FACTORS[count[2]]
    raise_for_all(**changes)


def output_options(formats: Sequence[str]) -> Callable[[Function], Function]:
    """`--format` and `-o` as one `output`, of the formats that the command can write."""

    def decorate(command: Function) -> Function:
        chosen = click.option(
            "--format",
            "format_",
            type=click.Choice(formats),
            help="How to write it. Default: by the suffix of -o FILE, else terminal.",
        )
        return chosen(output_option()(command))

    return decorate


def output_option(more: str = "") -> Callable[[Function], Function]:
    """`-o FILE` (as `file`); `more` goes on with its help."""
    return click.option(
        "-o",
        "--output",
        "file",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        help=f"Write to a file instead of standard output{more}.",
    )


def _kernel_classes(_: click.Context, __: click.Parameter, file: Path | None) -> Any:
    """The rules of a user's file before the built-in ones; None without a file."""
    if file is None:
        return None
    from traceanalyzer.analysis.names.kernel_classes import KernelClasses

    return KernelClasses.load(file)


def _hardware(_: click.Context, __: click.Parameter, file: Path | None) -> Any:
    """The GPUs of a user's file before the built-in ones; None without a file."""
    if file is None:
        return None
    from traceanalyzer.hardware import HardwareTable

    return HardwareTable.load(file)


def _counters(_: click.Context, __: click.Parameter, file: Path | None) -> Any:
    """The kernels of an Nsight Compute report; None without a file."""
    if file is None:
        return None
    from traceanalyzer.ingest.ncu import read_counters

    return tuple(read_counters(file))


def selection_options(command: Function) -> Function:
    """`--rank`, `--device`, `--step` as one `selection`; `--kernel-classes`, `--hardware` and `--ncu` as one
    `knowledge`."""

    @wraps(command)
    def narrowed(
        *args: Any,
        rank: int | None,
        device: int | None,
        step: int | None,
        classes: Any,
        hardware: Any,
        counters: Any,
        **options: Any,
    ) -> Any:
        from traceanalyzer.cli.numerics import load_numpy

        load_numpy()
        from traceanalyzer.selection import Knowledge, Selection

        given = {"classes": classes, "hardware": hardware, "counters": counters}
        knowledge = Knowledge(**{name: value for name, value in given.items() if value is not None})
        return command(*args, selection=Selection(rank, device, step), knowledge=knowledge, **options)

    number = click.IntRange(min=0)
    for option in (
        click.option(
            "--ncu",
            "counters",
            type=click.Path(dir_okay=False, path_type=Path),
            callback=_counters,
            metavar="FILE",
            help="Nsight Compute's report of the same kernels (ncu --csv, pages raw or details; .ncu-rep where ncu is "
            "installed): what it measured replaces the estimates.",
        ),
        click.option(
            "--hardware",
            type=click.Path(dir_okay=False, path_type=Path),
            callback=_hardware,
            metavar="FILE",
            help="TOML with peak FLOP/s and bandwidth of more GPUs; takes precedence over the built-in ones.",
        ),
        click.option(
            "--kernel-classes",
            "classes",
            type=click.Path(dir_okay=False, path_type=Path),
            callback=_kernel_classes,
            metavar="FILE",
            help="TOML with custom kernel classes; takes precedence over the built-in rules.",
        ),
        click.option("--step", type=number, metavar="N", help="Only this step (its index, as `steps` lists it)."),
        click.option("--device", type=number, metavar="N", help="Only this GPU (its CUDA ordinal)."),
        click.option("--rank", type=number, metavar="N", help="Only this rank."),
    ):
        narrowed = option(narrowed)
    return cast("Function", narrowed)


def amount_options(command: Function) -> Function:
    """`--samples`, `--tokens`, `--flops` and `--peak`, as part of `knowledge`: apply inside `selection_options`."""

    @wraps(command)
    def informed(
        *args: Any, knowledge: Any, samples: float | None, tokens: float | None, flops: float | None,
        peak: float | None, **options: Any
    ) -> Any:  # fmt: skip
        from dataclasses import replace

        from traceanalyzer.trace import StepAmounts

        known = replace(
            knowledge,
            amounts=StepAmounts(samples=samples, tokens=tokens, flops=flops),
            peak_flops_per_s=None if peak is None else peak * 1e12,
        )
        return command(*args, knowledge=known, **options)

    for name, help_ in (
        ("peak", "What MFU is a share of, TFLOP/s (default: the datasheet's dense peak)."),
        ("flops", "Operations that the model needs for a step of one process, e.g. 4.2e15; gives TFLOP/s and MFU."),
        ("tokens", "Tokens of a step of one process, without padding; gives tokens/s."),
        ("samples", "Samples of a step of one process, all micro-batches together; gives samples/s and ms a sample."),
    ):
        informed = click.option(f"--{name}", type=Number(min=0, min_open=True, max=1e24), metavar="N", help=help_)(
            informed
        )
    return cast("Function", informed)


def top_option(command: Function) -> Function:
    """`--top`, None where it is not given."""
    return click.option("--top", type=click.IntRange(min=1), metavar="N", help="Show N rows (gaps: the N longest).")(
        command
    )


def _patterns(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> list[re.Pattern[str]]:
    try:
        return [re.compile(text) for text in texts]
    except re.error as error:
        raise click.BadParameter(f"{error.pattern!r} is not a regular expression: {error}") from error


def redact_options(*, by_default: bool = False) -> Callable[[Function], Function]:
    """`--redact` (as `redact`) and `--redact-name` (as `hidden_names`); `by_default`, `--no-redact` switches it off."""
    help_ = "Remove file paths, hosts and user names, to publish the result."
    names = click.option(
        "--redact-name",
        "hidden_names",
        multiple=True,
        metavar="REGEX",
        callback=_patterns,
        help="Also replace the kernel, operator and module names that match by kernel-1, name-1, ... "
        "Implies --redact; may be repeated.",
    )
    if by_default:
        chosen = click.option("--redact/--no-redact", default=True, help=f"{help_} Done unless switched off.")
    else:
        chosen = click.option("--redact", is_flag=True, help=help_)
    return lambda command: chosen(names(command))


def _tags(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    tags = {}
    for text in texts:
        key, equals, value = text.partition("=")
        # A `#` would end the file's name in a reference such as runs.db#branch=main.
        if not key or not equals or "#" in text:
            raise click.BadParameter(f"{text!r} is not KEY=VALUE, without #")
        tags[key] = value
    return tags


def tag_option(help_: str) -> Callable[[Function], Function]:
    """`--tag KEY=VALUE`, repeated, as a dict `tags`."""
    return click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", callback=_tags, help=help_)


def max_chars_option(command: Function) -> Function:
    """`--max-chars`, None where it is not given."""
    return click.option(
        "--max-chars",
        type=click.IntRange(min=LEAST_CHARS),
        metavar="N",
        help="Markdown of at most N characters (GitHub takes 65536): rows and whole sections go, the least important "
        "first, and it says which.",
    )(command)
