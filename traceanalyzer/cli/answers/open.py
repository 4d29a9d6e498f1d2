"""`traceanalyzer open`."""

import tempfile
from pathlib import Path

import click

from traceanalyzer.cli.options import command, recordings
from traceanalyzer.cli.scope import Scope, selection_options


@command("open")
@recordings
@selection_options
def open_(paths: tuple[str, ...], scope: Scope) -> None:
    """Serve the recording, with what the analysis found as tracks above it, to ui.perfetto.dev, and
    print the link."""
    serve(paths, scope)


def serve(paths: tuple[str, ...], scope: Scope) -> None:
    """Serve it until the page has read it. Raises TraceAnalyzerError."""
    from traceanalyzer.cli.answers.overlay import merged_pieces
    from traceanalyzer.cli.io.output import write_pieces
    from traceanalyzer.cli.io.progress import working
    from traceanalyzer.cli.io.reports import opened
    from traceanalyzer.export.perfetto.chrome_trace import overlay_pieces
    from traceanalyzer.export.perfetto.overlay import build_overlay
    from traceanalyzer.export.perfetto.serve import OneFile

    run = opened(paths)
    with (
        tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder,
        OneFile(Path(folder) / "trace.json") as server,
    ):
        with working("Analyzing"):
            overlay = build_overlay(run, *scope)
            del run
            write_pieces(
                merged_pieces(overlay) if overlay.opens_in_viewer else overlay_pieces(overlay),
                server.file,
            )
        click.echo(f"Open in a browser (ends when it has been read, or on Ctrl-C):\n{server.link}")
        server.until_fetched()


open = open_  # noqa: A001 - the command's name
