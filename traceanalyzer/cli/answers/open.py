"""`traceanalyzer open`."""

import tempfile
from pathlib import Path

import click

from traceanalyzer.cli.options import recordings
from traceanalyzer.cli.scope import Scope, selection_options


@click.command("open", short_help="Show the recording with the findings in Perfetto.")
@recordings
@selection_options
def open_(paths: tuple[str, ...], scope: Scope) -> None:
    """Serve the recording, with what the analysis found as tracks above it, to ui.perfetto.dev, and print the link.

    \b
    Examples:
      traceanalyzer open trace.json.gz
      traceanalyzer open rank0.json.gz rank1.json.gz --rank 1

    The file is made as `overlay --merge` makes it (of an nsys export, which Perfetto does not open, the overlay alone).
    It is served on 127.0.0.1:9001, the one address that Perfetto's page reads from, to that page and to nothing else,
    and stays on this machine: the page reads it within the browser. The command ends when the page has it, after 15
    minutes in which it does not, or on Ctrl-C. On a machine without a browser: ssh -L 9001:127.0.0.1:9001 HOST.
    """
    from traceanalyzer.cli.answers.overlay import merged_pieces
    from traceanalyzer.cli.io.output import write_pieces
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.cli.io.read import opened
    from traceanalyzer.export.perfetto.overlay import build_overlay
    from traceanalyzer.export.perfetto.overlay_json import overlay_pieces
    from traceanalyzer.export.perfetto.serve import OneFile

    run = opened(paths)
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder, OneFile(Path(folder) / "trace.json") as server:
        with working("Analyzing"):
            made = build_overlay(run, *scope)
            del run
            write_pieces(merged_pieces(made) if made.opens_in_viewer else overlay_pieces(made), server.file)
        click.echo(f"Open in a browser (ends when it has been read, or on Ctrl-C):\n{server.link}")
        server.until_fetched()


open = open_  # noqa: A001 - the command's name
