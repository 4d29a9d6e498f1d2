"""`traceanalyzer try`: the advice, applied to the program from outside and timed."""

import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from traceanalyzer.base import TraceAnalyzerError, digits
from traceanalyzer.cli.options import Number, help_all_option, help_of
from traceanalyzer.cli.tools.collect import COMMAND

if TYPE_CHECKING:
    from traceanalyzer.trials.answer import Answer
    from traceanalyzer.trials.session import Options

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
    command = tuple(as_command(words)) if words else ()
    if resume is not None:
        command = command_of(Path(resume), command)
    if not command:
        raise click.UsageError("give the command that runs the program: try -- python train.py")
    check_writable(Path(output) if output is not None else None)
    options = Options(
        command=command,
        folder=Path(resume or folder or time.strftime("try-%Y%m%d-%H%M%S")),
        budget_s=budget,
        step_on=step_on,
        only=_ids(only),
        without=_ids(without),
    )
    search = Search(options, echo_line, resume=resume is not None)
    ended_early = ""
    try:
        candidates, left = search.look()
        if listed:
            click.echo(_supported(candidates, left))
            return
        search.search()
    except KeyboardInterrupt:
        search.interrupted()
        ended_early = f"Ended early; go on: traceanalyzer try --resume {options.folder}"
        if not search.knows_base:
            click.echo(f"Nothing is known yet. {ended_early}")
            raise SystemExit(INTERRUPTED) from None
    answer = search.answer(ended_early)
    _show(answer, options)
    if output is not None:
        _write(answer, options, output)
    if ended_early:
        raise SystemExit(INTERRUPTED)
    is_too_slow = fail_above is not None and answer.saved_share * 100 >= fail_above
    raise SystemExit(FOUND if is_too_slow else 0)


def _show(answer: "Answer", options: "Options") -> None:
    """Print the answer, and keep it in the folder of the runs."""
    from traceanalyzer.cli.io.output import say
    from traceanalyzer.trials import find
    from traceanalyzer.trials.words import screen

    click.echo(screen(answer), nl=False)
    say(f"All of it: {find.save(answer, options.folder)}")


def _write(answer: "Answer", options: "Options", output: str) -> None:
    """Write the answer as Markdown, with the command that asks again."""
    from traceanalyzer.trials.find import environment_of
    from traceanalyzer.trials.words import markdown

    again = f"traceanalyzer try -- {shlex.join(options.command)}"
    try:
        Path(output).write_text(markdown(answer, environment_of(options.folder), again))
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
    """The switches that the program supports, and those that it does not."""
    widest = max(len(entry.switch.id) for entry in (*candidates, *left))
    lines = []
    for candidate in candidates:
        promise = (
            f"promised {digits(candidate.promise.step_ms)} ms" if candidate.promise else "no figure"
        )
        lines.append(f"{candidate.switch.id.ljust(widest)}  {promise}: {candidate.switch.write}")
    lines += [f"{entry.switch.id.ljust(widest)}{DOES_NOT_SUPPORT}{entry.why}" for entry in left]
    return "\n".join(lines)
