"""What the table commands have in common: read, take the table, print it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traceanalyzer.cli.options import (
    TABLE_FORMATS,
    output_options,
    recordings,
    redact_options,
    selection_options,
    top_option,
)

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from traceanalyzer.cli.options import Output
    from traceanalyzer.selection import Knowledge, Selection


def table_command(command: Callable[..., None]) -> Callable[..., None]:
    """The arguments of a table command; they arrive as `paths` and keyword options for `print_table`."""
    return recordings(selection_options(top_option(redact_options()(output_options(TABLE_FORMATS)(command)))))


def print_table(
    name: str,
    row_type: type[Any],
    paths: Sequence[str],
    *,
    format_: str | None,
    file: Path | None,
    redact: bool,
    hidden_names: list[re.Pattern[str]],
    selection: Selection,
    knowledge: Knowledge,
    **rows_wanted: Any,
) -> None:
    """Print a table of `traceanalyzer.tables`; `rows_wanted` is what that takes to choose rows."""
    from traceanalyzer.cli.options import output_of
    from traceanalyzer.cli.output import check_writable, warn_of_failures, write
    from traceanalyzer.cli.read import read

    output = output_of(format_, file, TABLE_FORMATS, paths)
    check_writable(output.file)
    run = read(paths)
    warn_of_failures(run)
    from traceanalyzer.tables import table

    rows = table(run, name, selection, knowledge, **rows_wanted)
    if redact or hidden_names:
        from traceanalyzer.report.redact import redact_rows

        rows = redact_rows(rows, run, hidden_names)
    write(drawn_rows(name, rows, row_type, output), output.file)


def drawn_rows(name: str, rows: list[Any], row_type: type[Any], output: Output) -> str:
    """Rows of one dataclass as a document of the wanted format; `name` is their key in JSON."""
    from traceanalyzer.cli.output import terminal_width, with_colour
    from traceanalyzer.report import rows as drawn

    if output.format == "json":
        return drawn.rows_as_json(name, rows)
    if output.format == "csv":
        return drawn.rows_as_csv(rows, row_type)
    if output.format == "markdown":
        return drawn.rows_as_markdown(rows)
    return drawn.rows_as_terminal(rows, terminal_width(), with_colour(output.file))
