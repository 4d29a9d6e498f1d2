"""The options that commands share, and what they mean."""

import math
import re
from collections.abc import Callable, Sequence
from functools import cache, reduce, wraps
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from traceanalyzer.base import regex
from traceanalyzer.cli.io.formats import QUIET, arguments_of

Function = TypeVar("Function", bound="Callable[..., Any]")
Hidden = Sequence[re.Pattern[str]] | None
"""Names to hide beside paths, hosts and users; None: nothing is hidden."""
FILE: dict[str, Any] = {"type": click.Path(dir_okay=False, path_type=Path), "metavar": "FILE"}
"""Of options that name a file."""
_FIRST: dict[str, Any] = {"expose_value": False, "is_eager": True}
"""Of those that are in force before anything is read; commands do not get them."""
HELP_ALL = "traceanalyzer.help_all"
"""Where a context keeps that all options are asked for."""
SELDOM = {
    "--iteration",
    "--limit",
    "--jobs",
    "--no-cache",
    "--device",
    "--iteration-name",
    "--kernel-classes",
    "--hardware",
    "--ncu",
    "--flops",
    "--peak",
    "--pattern",
    "--max-chars",
    "--redact-name",
    "--tag",
    "--scheduler",
    "--workers",
    "--racks",
    "--timing",
    "--run",
    "--world-size",
}
"""Options that `--help` leaves to `--help-all`."""
LEAST_CHARS = 4_000  # a report's answer alone needs so many, with the longest of names in it


MOST_JOBS = 16  # of the processes that are started unasked: beyond, a disk seldom keeps up
_COUNT = regex(r"(\d{1,15})([KMG]?)")
_FACTORS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


LISTS = regex(r"\n\n([^\n]+:)\n  ")  # a heading and lines below it, which stay lines


def help_of(name: str) -> dict[str, Any]:
    """What `help/NAME.txt` says of a command: the line that lists it, then its `--help`, examples
    line by line."""
    file = Path(__file__).parent / "help" / f"{name}.txt"
    text = file.read_text(encoding="utf-8")
    short, _, rest = text.partition("\n\n")
    return {"short_help": short, "help": LISTS.sub(r"\n\n\b\n\1\n  ", rest)}


class Command(click.Command):
    """A command whose `--help` leaves out options that few need; `--help-all` has them."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its parameters and `--help-all`, which is shown where something is left out."""
        params = super().get_params(ctx)
        return [*params, _help_all_option(hidden=not any(map(_is_seldom, params)))]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The options; the seldom ones where all are asked for."""
        shown = []
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None and (ctx.meta.get(HELP_ALL) or not _is_seldom(param)):
                shown.append(record)
        with formatter.section("Options"):
            formatter.write_dl(shown)


def _is_seldom(param: click.Parameter) -> bool:
    return not SELDOM.isdisjoint(param.opts)


def _help_all(context: click.Context, _: click.Parameter, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        context.meta[HELP_ALL] = True
        click.echo(context.get_help())
        context.exit()


@cache
def _help_all_option(*, hidden: bool) -> click.Option:
    return click.Option(
        ["--help-all"],
        is_flag=True,
        callback=_help_all,
        hidden=hidden,
        help="Show this message with all options.",
        **_FIRST,
    )


def help_all_option(command: Function) -> Function:
    """For a group, or a command that leaves nothing out: who asks everywhere alike is answered."""
    return click.option(
        "--help-all",
        is_flag=True,
        callback=_help_all,
        hidden=True,
        help="Show this message with all options.",
        **_FIRST,
    )(command)


def command(name: str) -> Callable[[Callable[..., Any]], click.Command]:
    """A command with what is said `about` it."""
    return click.command(name, cls=Command, **help_of(name))


class Number(click.FloatRange):
    """A number in a range; `nan` lies in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number. Raises BadParameter."""
        try:
            number = float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is not a number.", param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return super().convert(value, param, ctx)


class Pair(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.3.1
    """One number above zero for both sides, or two: `64`, `2,64`."""

    name = "numbers"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, float]:
        """The numbers. Raises BadParameter."""
        if isinstance(value, tuple):
            return value
        numbers = [
            Number(min=0, min_open=True).convert(
                text,
                param,
                ctx,
            )
            for text in str(value).split(",")
        ]
        if len(numbers) > 2:
            self.fail(f"{value} is more than a number for A and one for B", param, ctx)
        return numbers[0], numbers[-1]


def recordings(command: Function) -> Function:
    """The recordings to read: `paths`; `--iteration`, `--limit`, `--jobs` and `--no-cache`."""
    decorated = iteration_option(limit_option(reading_options(command)))
    return click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=click.Path())(
        decorated
    )


def iteration_option(command: Function) -> Function:
    """`--iteration`."""
    return click.option(
        "--iteration",
        type=click.IntRange(min=0),
        callback=_iteration,
        metavar="N",
        **_FIRST,
        help=(
            "Which one to read of a folder with a folder for each iteration, or with repeats of a "
            "schedule. Default: the newest."
        ),
    )(command)


def _iteration(_: click.Context, __: click.Parameter, number: int | None) -> None:
    from traceanalyzer.base.reading import read_with

    read_with(iteration=number)


def _cache(_: click.Context, __: click.Parameter, without: bool) -> None:
    from traceanalyzer.base.reading import read_with

    read_with(cache=not without)


def _jobs(_: click.Context, __: click.Parameter, jobs: int | None) -> None:
    import os

    from traceanalyzer.base.reading import read_with

    usable = (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    )
    read_with(jobs=jobs or min(usable, MOST_JOBS))


def reading_options(command: Function) -> Function:
    """`--jobs` and `--no-cache`."""
    jobs = click.option(
        "--jobs",
        type=click.IntRange(min=1),
        callback=_jobs,
        metavar="N",
        **_FIRST,
        help=(
            "Read and analyze with N processes. Default: the CPU cores there are, "
            f"{MOST_JOBS} at most."
        ),
    )
    without = "Read the recording itself, and keep nothing of it; see `doctor cache`."
    return jobs(
        click.option("--no-cache", is_flag=True, callback=_cache, help=without, **_FIRST)(command)
    )


def cluster_options(command: Function) -> Function:
    """`--scheduler` and `--workers`: on which processes ranks are digested."""
    scheduler_help = "Digest on the Dask cluster of this scheduler (tcp://HOST:PORT)."
    workers_help = "Digest on a Dask cluster of N processes here."
    workers = click.option("--workers", type=click.IntRange(min=1), metavar="N", help=workers_help)
    return click.option("--scheduler", metavar="ADDRESS", help=scheduler_help)(workers(command))


def _quiet(context: click.Context, _: click.Parameter, quiet: bool) -> None:
    context.meta[QUIET] = quiet


def quiet_option(
    help_: str = "No progress and no warnings, only the result.",
) -> Callable[[Function], Function]:
    """`-q`, which the command does not get: `is_quiet` tells."""
    return click.option("-q", "--quiet", is_flag=True, callback=_quiet, help=help_, **_FIRST)


def limit_option(command: Function) -> Function:
    """`--limit NAME=N`."""
    return click.option(
        "--limit",
        "limits",
        multiple=True,
        metavar="NAME=N",
        callback=_limits,
        **_FIRST,
        help="Accept input beyond a limit that recordings stay below: size, ratio, log, side, report, text, digits, "
        "ranks; SECURITY.md has their values. N may end in K, M or G. May be repeated.",
    )(command)


def _limits(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> None:
    from dataclasses import fields

    from traceanalyzer.base.limits import InputLimits, raise_for_all

    known = [f.name for f in fields(InputLimits)]
    changes = {}
    for text in texts:
        name, number = text.partition("=")[::2]
        count = _COUNT.fullmatch(number)
        if name not in known or count is None:
            raise click.BadParameter(f"{text!r} is not NAME=N with one of {', '.join(known)}")
        changes[name] = int(count[1]) * _FACTORS[count[2]]
    raise_for_all(**changes)


def output_options(formats: Sequence[str], *also_read: str) -> Callable[[Function], Function]:
    """`--format` and `-o` as one `output`, of the formats that the command can write. It can be
    written, and overwrites none of the command's arguments, nor what the options `also_read`
    name."""
    how = "How to write it. Default: by the suffix of -o FILE, else terminal."

    def decorate(command: Function) -> Function:
        @wraps(command)
        def checked_first(
            *args: Any, format_: str | None, file: Path | None, **options: Any
        ) -> Any:
            from traceanalyzer.cli.io.output import checked

            more = [str(options[name]) for name in also_read if options[name] is not None]
            inputs = [*arguments_of(click.get_current_context()), *more]
            return command(*args, output=checked(format_, file, formats, inputs), **options)

        chosen = click.option("--format", "format_", type=click.Choice(formats), help=how)
        return cast("Function", chosen(output_option()(checked_first)))

    return decorate


def output_option(more: str = "") -> Callable[[Function], Function]:
    """`-o FILE` (as `file`); `more` goes on with its help."""
    return click.option(
        "-o", "--output", "file", help=f"Write to a file instead of standard output{more}.", **FILE
    )


def with_all(options: Sequence[Callable[[Any], Any]]) -> Callable[[Function], Function]:
    """Several options, in the order of `--help`."""
    return lambda command: reduce(lambda made, option: option(made), reversed(options), command)


def top_option(command: Function) -> Function:
    """`--top`, None where it is not given."""
    shown = "Show N rows (gaps: the N longest)."
    return click.option("--top", type=click.IntRange(min=1), metavar="N", help=shown)(command)


def pattern(text: str) -> re.Pattern[str]:
    """What an option gives. Raises BadParameter."""
    try:
        return re.compile(text)
    except re.error as error:
        raise click.BadParameter(f"{text!r} is not a regular expression: {error}") from error


def redact_options(*, by_default: bool = False) -> Callable[[Function], Function]:
    """`--redact` and `--redact-name` as one `hidden`. `by_default`, `--no-redact` switches it
    off."""
    help_ = "Remove file paths, hosts and user names, to publish the result."
    options = (
        click.option(
            "--redact/--no-redact", default=True, help=f"{help_} Done unless switched off."
        )
        if by_default
        else click.option("--redact", is_flag=True, help=help_),
        click.option(
            "--redact-name",
            "names",
            multiple=True,
            metavar="REGEX",
            callback=lambda _context, _parameter, texts: list(map(pattern, texts)),
            help="Also replace the kernel, operator and module names that match by kernel-1, name-1, ... "
            "Implies --redact; may be repeated.",
        ),
    )

    def decorate(command: Function) -> Function:
        @wraps(command)
        def redacting(
            *args: Any,
            redact: bool,
            names: list[re.Pattern[str]],
            **more: Any,
        ) -> Any:
            if by_default and names and not redact:
                raise click.UsageError("--redact-name and --no-redact exclude each other")
            return command(*args, hidden=names if redact or names else None, **more)

        return cast("Function", with_all(options)(redacting))

    return decorate


def _tags(
    _: click.Context,
    __: click.Parameter,
    texts: tuple[str, ...],
) -> dict[str, str]:
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
    return click.option(
        "--tag", "tags", multiple=True, metavar="KEY=VALUE", callback=_tags, help=help_
    )


def max_chars_option(command: Function) -> Function:
    """`--max-chars`, None where it is not given."""
    return click.option(
        "--max-chars",
        type=click.IntRange(min=LEAST_CHARS),
        metavar="N",
        help="Markdown of at most N characters (GitHub takes 65536): rows and whole sections go, the least important "
        "first, and it says which.",
    )(command)
