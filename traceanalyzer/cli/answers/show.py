"""`traceanalyzer show`: a table of a recording."""

import click

from traceanalyzer.cli.options import help_all_option, help_of
from traceanalyzer.report.table_entries import BY_COMMAND

OTHER_WORDS = {
    "collectives": "comm",
    "communication": "comm",
    "nccl": "comm",
    "critical_path": "path",
    "operators": "ops",
    "idle": "gaps",
    "waits": "syncs",
    "memcpy": "copies",
    "transfers": "copies",
    "layers": "modules",
    "requests": "iterations",
}
"""What users call a table, and its name."""
ELSEWHERE = {
    "memory": "`traceanalyzer analyze SNAPSHOT` says what fills GPU memory; of a trace "
    "with allocator events `traceanalyzer show ops TRACE --sort memory` says what each operator holds",
    "ranks": "`traceanalyzer analyze DIR` compares ranks",
    "findings": "`traceanalyzer analyze PATH` has them",
    "recommendations": "`traceanalyzer analyze PATH` has them",
}
"""What users look for among the tables, and where it is."""


class ShownTables(click.Group):
    """The tables by name, each made on use."""

    def list_commands(self, _: click.Context) -> list[str]:
        """All tables."""
        return list(BY_COMMAND)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The table that is named first. Raises UsageError, with the tables that there are."""
        if args[0] in BY_COMMAND or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        asked = args[0].lower().replace("-", "_")
        if asked in ELSEWHERE:
            raise click.UsageError(f"there is no table {args[0]!r}; {ELSEWHERE[asked]}", ctx)
        words = {**{name: name for name in BY_COMMAND}, **OTHER_WORDS}
        near = get_close_matches(asked, words, 1)
        hint = f"did you mean {words[near[0]]}?" if near else f"tables: {', '.join(BY_COMMAND)}"
        raise click.UsageError(f"there is no table {args[0]!r}; {hint}", ctx)

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
