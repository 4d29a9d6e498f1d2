"""`traceanalyzer cache`."""

import click

MB = 1_000_000


@click.command(short_help="Show or clear what was kept of recordings read before.")
@click.argument("action", type=click.Choice(("show", "clear")))
def cache(action: str) -> None:
    """Show or clear what is kept of recordings, so that the next question does not read again, nor work out again.

    \b
    Examples:
      traceanalyzer cache show
      traceanalyzer cache clear

    A model holds what the analysis needs of a recording: times, ids, sizes and names of operators, kernels, ranges
    and, where they were recorded, lines of the program. An answer is a report or a table that was worked out from one.
    Only large recordings leave them, in a folder that only you can read; together they take at most 2 GiB, and what was
    used longest ago goes first. TRACEANALYZER_CACHE=DIR has it in DIR/traceanalyzer, TRACEANALYZER_CACHE= switches
    the cache off, --no-cache does so for one command.
    """
    from traceanalyzer.ingest.cache.store import ANSWER, VARIABLE, clear, entries, place, why_not_trusted

    folder = place()
    if folder is None:
        click.echo(f"The cache is off ({VARIABLE} is empty, or there is no home folder).")
        return
    if not folder.is_dir():
        click.echo(f"{folder}: empty")
        return
    if why := why_not_trusted(folder):
        raise click.ClickException(f"{folder}: not used, because {why}")
    found = clear(folder) if action == "clear" else entries(folder)
    total = sum(entry.bytes for entry in found)
    answers = sum(entry.path.suffix == ANSWER for entry in found)
    counted = f"{_counted(len(found) - answers, 'model')}, {_counted(answers, 'answer')}"
    click.echo(f"{folder}: {counted}, {total / MB:,.1f} MB{' removed' * (action == 'clear')}")


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"
