"""The list of commands, and the one place that turns an error into an exit status.

Modules are imported when their command is used, and import what they need inside it, so that
`--help` answers at once."""

import sys
import warnings
from importlib import import_module
from keyword import iskeyword
from pathlib import Path
from typing import NoReturn

import click

from traceanalyzer import __version__
from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.cli.commands import COMMANDS, GROUPS, OLD, package_of
from traceanalyzer.cli.options import help_all_option
from traceanalyzer.report.table_entries import BY_COMMAND

FAILED = 1
USAGE = 2
INTERRUPTED = 130


class Commands(click.Group):
    """The commands by name, each imported on use."""

    def list_commands(self, _: click.Context) -> list[str]:
        """The commands in sight."""
        return list(COMMANDS)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in their groups."""
        widest = max(map(len, COMMANDS))
        for group in GROUPS:
            rows = []
            for name in group.commands:
                command = self.get_command(ctx, name)
                if command is not None:
                    rows.append((name.ljust(widest), command.get_short_help_str(70)))
            with formatter.section(group.title):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that is named first; a file in its place is analyzed. Raises UsageError."""
        name = args[0]
        if name in OLD:
            _say_new_name(name, args)
        if name in OLD or name in COMMANDS or (name.startswith("-") and name != "-"):
            return super().resolve_command(ctx, args)
        if name == "-" or Path(name).exists() or "://" in name:
            return "analyze", self.get_command(ctx, "analyze"), args
        if "/" in name or "." in name:
            refusal = (
                f"{name}: no such file, and no command; a command comes first: traceanalyzer "
                "analyze FILE"
            )
            raise click.UsageError(refusal, ctx)
        from difflib import get_close_matches

        near = get_close_matches(name.lower(), [*COMMANDS, *OLD], 1)
        hint = (
            f"did you mean `traceanalyzer {OLD.get(near[0], near[0])}`?"
            if near
            else f"commands: {', '.join(COMMANDS)}"
        )
        raise click.UsageError(f"there is no command {name!r}; {hint}", ctx)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """The command of that name."""
        if name not in COMMANDS and name not in OLD:
            return None
        if name in BY_COMMAND:
            from traceanalyzer.cli.answers.table import table_command

            return table_command(name)
        # `try` is a word of Python's
        attribute = f"{name}_" if iskeyword(name) else name
        module = import_module(f"traceanalyzer.cli.{package_of(name)}.{attribute}")
        found: click.Command = getattr(module, attribute)
        return found


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@help_all_option
@click.version_option(__version__, prog_name="traceanalyzer", message="%(prog)s %(version)s")
def cli() -> None:
    """Say where the GPU step's time went, why, and what is worth changing.

    Answers come from files alone, on any machine, without a GPU: traces of PyTorch's profiler, Nsight
    Systems exports, folders of ranks, dumps of a hang, memory snapshots, logs and pasted texts (`-`).

    \b
    Start with:
      traceanalyzer analyze trace.json.gz
      traceanalyzer gaps run.sqlite"""
    from traceanalyzer.base.files import forget_reads

    forget_reads()
    # Figures that cannot be worked out are said to be missing; how numpy puts it helps nobody.
    warnings.simplefilter("ignore", RuntimeWarning)


def run_command(words: list[str]) -> NoReturn:
    """Run the command of these words and leave with its exit status."""
    try:
        status = cli.main(words, prog_name="traceanalyzer", standalone_mode=False, obj=tuple(words))
    except click.UsageError as error:
        if isinstance(error, click.exceptions.NoArgsIsHelpError):
            error.show()
            sys.exit(USAGE)
        _say(error.format_message())
        if error.ctx is not None:
            click.echo(f"Try: {error.ctx.command_path} --help", err=True)
        sys.exit(USAGE)
    except click.Abort:
        sys.exit(INTERRUPTED)
    except (click.ClickException, TraceAnalyzerError, MemoryError, OSError) as error:
        _say(_message(error))
        sys.exit(FAILED)
    sys.exit(status if isinstance(status, int) else 0)


def _say_new_name(name: str, args: list[str]) -> None:
    """Once, at a terminal, unless asked to be quiet: scripts go on as they were."""
    from traceanalyzer.cli.io.stdout import is_terminal

    quiet = not {"-q", "--quiet"}.isdisjoint(args)
    if not quiet and is_terminal(sys.stderr):
        click.echo(f"traceanalyzer: `{name}` is now `{OLD[name]}`", err=True)


def _message(error: Exception) -> str:
    """What is said of an error that ends a command."""
    if isinstance(error, click.ClickException):
        return error.format_message()
    if isinstance(error, MemoryError):
        return "out of memory: the input is too large for this machine"
    return (
        f"{error.filename}: {error.strerror}"
        if isinstance(error, OSError) and error.filename
        else str(error)
    )


def _say(message: str) -> None:
    from traceanalyzer.report.format import plain

    line = " ".join(plain(message).split())
    click.echo(f"traceanalyzer: error: {line}", err=True)
