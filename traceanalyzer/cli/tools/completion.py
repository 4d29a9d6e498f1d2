"""`traceanalyzer completion`."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

from traceanalyzer.cli.options import command

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@command("completion")
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options and files."""
    from traceanalyzer.cli import cli
    from traceanalyzer.cli.io.output import write

    script = SHELLS[shell](cli, {}, "traceanalyzer", "_TRACEANALYZER_COMPLETE")
    write(script.source_template % script.source_vars() + "\n", None)
