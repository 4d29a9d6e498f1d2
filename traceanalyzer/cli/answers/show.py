"""`traceanalyzer show`: a table of a recording."""

import click

from traceanalyzer.cli.options import help_all_option, help_of
from traceanalyzer.report.table_entries import BY_COMMAND


class ShownTables(click.Group):
    """The tables by name, each made on use."""

    def list_commands(self, _: click.Context) -> list[str]:
        """All tables."""
        return list(BY_COMMAND)

    def get_command(self, _: click.Context, name: str) -> click.Command | None:
        """The command that prints the table of that name."""
        if name not in BY_COMMAND:
            return None
        from traceanalyzer.cli.answers.table import table_command

        return table_command(name)


@click.group("show", cls=ShownTables, subcommand_metavar="TABLE PATH...", **help_of("show"))
@help_all_option
def show() -> None:
    """Print a table of a recording."""
