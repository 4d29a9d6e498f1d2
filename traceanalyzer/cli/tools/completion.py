"""`traceanalyzer completion`."""

import click
from click.shell_completion import BashComplete, FishComplete, ZshComplete

SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}


@click.command(short_help="Print a script that completes commands in your shell.")
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
def completion(shell: str) -> None:
    """Print a script that makes SHELL complete commands, options and files.

    \b
    Examples:
      traceanalyzer completion bash >> ~/.bashrc
      traceanalyzer completion zsh >> ~/.zshrc
      traceanalyzer completion fish > ~/.config/fish/completions/traceanalyzer.fish

    The output is shell code; it takes effect in the next shell.
    """
    from traceanalyzer.cli import cli
    from traceanalyzer.cli.io.output import write

    script = SHELLS[shell](cli, {}, "traceanalyzer", "_TRACEANALYZER_COMPLETE")
    write(script.source_template % script.source_vars() + "\n", None)
