"""`traceanalyzer cache`."""

import click

from traceanalyzer.cli.options import command


@command("cache")
@click.argument("action", type=click.Choice(("show", "clear")), default="show")
def cache(action: str) -> None:
    """Show or clear what is kept of recordings, so that the next question does not read again, nor
    work out again."""
    from traceanalyzer.base import plural
    from traceanalyzer.cli.io.output import say
    from traceanalyzer.ingest.cache.store import (
        ANSWER,
        VARIABLE,
        clear,
        kept_entries,
        place,
        why_not_trusted,
    )

    folder = place()
    if folder is None:
        click.echo(f"The cache is off ({VARIABLE} is empty, or there is no home folder).")
        return
    if not folder.is_dir():
        say(f"{folder}: empty")
        return
    why = why_not_trusted(folder)
    if why:
        raise click.ClickException(f"{folder}: not used, because {why}")
    found = clear(folder) if action == "clear" else kept_entries(folder)
    total = sum(entry.bytes for entry in found)
    answers = sum(entry.path.suffix == ANSWER for entry in found)
    counts = {"model": len(found) - answers, "answer": answers}
    counted = ", ".join(f"{count} {plural(what, count)}" for what, count in counts.items())
    done = " removed" if action == "clear" else ""
    say(f"{folder}: {counted}, {total / 1e6:,.1f} MB{done}")
