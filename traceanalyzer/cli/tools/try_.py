"""`traceanalyzer try`: the advice, applied to the program from outside and timed."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.cli.options import Number, help_all_option, help_of
from traceanalyzer.cli.tools.collect import COMMAND

if TYPE_CHECKING:
    from traceanalyzer.trials.find import Search

UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
BUDGET = "10m"
FOUND = 3
INTERRUPTED = 130
DOES_NOT_SUPPORT = "  not here: "


class Duration(click.ParamType):  # type: ignore[type-arg]  # not generic in click 8.3.1
    """Seconds, or a number with its unit: 90, 90s, 10m, 1h."""

    name = "duration"

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        """Seconds. Raises BadParameter."""
        if isinstance(value, float):
            return value
        text = str(value).strip()
        unit = UNITS.get(text[-1:])
        try:
            seconds = float(text[:-1] if unit else text) * (unit or 1.0)
        except ValueError:
            seconds = 0.0
        if seconds <= 0:
            self.fail(f"{value!r} is no duration: 90s, 10m, 1h", param, ctx)
        return seconds


@click.command("try", context_settings=COMMAND, **help_of("try"))
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND...")
@help_all_option
@click.option("--budget", type=Duration(), default=BUDGET, show_default=True, help="Time for all.")
@click.option("--only", metavar="IDS", help="Try these switches alone, separated by commas.")
@click.option("--without", metavar="IDS", help="Leave these switches out.")
@click.option(
    "--list", "listed", is_flag=True, help="List the switches; with a command, those it supports."
)
@click.option("-C", "--folder", metavar="DIR", help="Folder of the runs; by default try-DATE-TIME.")
@click.option("--resume", metavar="DIR", help="Go on where an earlier one in this folder ended.")
@click.option("-o", "--output", metavar="FILE", help="Also write the answer as Markdown.")
@click.option("--step-on", metavar="REGEX", help="Function whose calls are the steps.")
@click.option(
    "--fail-above",
    type=Number(min=0),
    metavar="PERCENT",
    help="Exit status 3 where the step could be so much shorter.",
)
def try_(
    words: tuple[str, ...],
    budget: float,
    only: str | None,
    without: str | None,
    listed: bool,
    folder: str | None,
    resume: str | None,
    output: str | None,
    step_on: str | None,
    fail_above: float | None,
) -> None:
    """Apply the advice to a program and time it."""
    from traceanalyzer.cli.io.output import check_writable
    from traceanalyzer.collect.run import as_command, echo_line
    from traceanalyzer.trials.find import Search
    from traceanalyzer.trials.session import Options, command_of

    if listed and not words:
        click.echo(_all_switches())
        return
    asked = tuple(as_command(words)) if words else ()
    if resume is not None:
        asked = command_of(Path(resume), asked)
    if not asked:
        raise click.UsageError("give the command that runs the program: try -- python train.py")
    check_writable(Path(output) if output is not None else None)
    options = Options(
        command=asked,
        folder=Path(resume or folder or time.strftime("try-%Y%m%d-%H%M%S")),
        budget_s=budget,
        step_on=step_on,
        only=_ids(only),
        without=_ids(without),
    )
    search = Search(options, echo_line, resume=resume is not None)
    status = 0
    try:
        candidates, left = search.look()
        if listed:
            click.echo(_supported(candidates, left))
            return
        search.search()
        ended = ""
    except KeyboardInterrupt:
        search.interrupted()
        status = INTERRUPTED
        ended = f"Ended early; go on: traceanalyzer try --resume {options.folder}"
        if not search.knows_base:
            click.echo(f"Nothing is known yet. {ended}")
            raise SystemExit(status) from None
    _tell(search, options.folder, output, ended, shlex.join(asked))
    answer = search.answer(ended)
    if not status and fail_above is not None and answer.saved_share * 100 >= fail_above:
        status = FOUND
    raise SystemExit(status)


def _tell(search: "Search", folder: Path, output: str | None, ended: str, words: str) -> None:
    from traceanalyzer.cli.io.output import say
    from traceanalyzer.trials import find
    from traceanalyzer.trials import words as told

    answer = search.answer(ended)
    click.echo(told.screen(answer), nl=False)
    path = find.save(answer, folder)
    say(f"All of it: {path}")
    if output is not None:
        again = f"traceanalyzer try -- {words}"
        try:
            Path(output).write_text(told.markdown(answer, find.environment_of(folder), again))
        except OSError as error:
            raise TraceAnalyzerError(f"{output}: {error.strerror}") from error


def _ids(text: str | None) -> tuple[str, ...]:
    """Ids of switches. Raises UsageError for one that is not in the table."""
    from traceanalyzer.trials.switches import BY_ID

    ids = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    unknown = [name for name in ids if name not in BY_ID]
    if unknown:
        raise click.UsageError(f"no switch {unknown[0]!r}; --list names them")
    return ids


def _all_switches() -> str:
    from traceanalyzer.trials.switches import SWITCHES

    widest = max(len(switch.id) for switch in SWITCHES)
    return "\n".join(f"{switch.id.ljust(widest)}  {switch.write}" for switch in SWITCHES)


def _supported(candidates: Any, left: Any) -> str:
    widest = max(len(one.switch.id) for one in (*candidates, *left))
    lines = []
    for candidate in candidates:
        promise = (
            f"promised {candidate.promise.step_ms:.3g} ms" if candidate.promise else "no figure"
        )
        lines.append(f"{candidate.switch.id.ljust(widest)}  {promise}: {candidate.switch.write}")
    lines += [f"{one.switch.id.ljust(widest)}{DOES_NOT_SUPPORT}{one.why}" for one in left]
    return "\n".join(lines)
