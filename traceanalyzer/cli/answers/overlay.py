"""`traceanalyzer overlay`."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from traceanalyzer.cli.options import Hidden, command, output_option, recordings, redact_options
from traceanalyzer.cli.scope import Scope, selection_options

if TYPE_CHECKING:
    from traceanalyzer.export.perfetto.tracks import Overlay


@command("overlay")
@recordings
@selection_options
@click.option(
    "--merge",
    is_flag=True,
    help="Put the recording's own events into the same file (Kineto traces).",
)
@redact_options()
@output_option("; one that ends in .gz is compressed")
def overlay(
    paths: tuple[str, ...], merge: bool, hidden: Hidden, file: Path | None, scope: Scope
) -> None:
    """Write what the analysis found as a Chrome trace for Perfetto, on the recording's own
    clock."""
    write_overlay(paths, file, scope, hidden, merge=merge)


def write_overlay(
    paths: tuple[str, ...], file: Path | None, scope: Scope, hidden: Hidden, *, merge: bool
) -> None:
    """Write the overlay, with the recording's own events where they are to be merged. Raises
    UsageError, TraceAnalyzerError."""
    from traceanalyzer.cli.io.output import checked, write, write_pieces
    from traceanalyzer.cli.io.reports import cleaned, opened

    if merge and hidden is not None:
        raise click.UsageError("--merge copies the recording as it is; it cannot be redacted")
    checked("json", file, ("json",), paths)
    run = opened(paths)
    from traceanalyzer.export.perfetto.chrome_trace import overlay_pieces
    from traceanalyzer.export.perfetto.overlay import build_overlay

    overlay = cleaned(build_overlay(run, *scope), hidden, run)
    pieces = merged_pieces(overlay) if merge else overlay_pieces(overlay)
    if file is None:
        write(b"".join(pieces).decode("utf-8", "replace"), None)
    else:
        write_pieces(gzipped(pieces) if file.suffix == ".gz" else pieces, file)


def merged_pieces(recording_overlay: "Overlay") -> Iterator[bytes]:
    """The recording with its overlay, a piece at a time. Raises TraceAnalyzerError where it cannot
    be merged."""
    from traceanalyzer.base.errors import TraceAnalyzerError
    from traceanalyzer.export.perfetto.chrome_trace import merged_traces
    from traceanalyzer.ingest.stream import open_stream

    if not recording_overlay.opens_in_viewer:
        raise TraceAnalyzerError(
            f"{recording_overlay.path}: only Kineto traces can be merged with their overlay; "
            "leave out --merge"
        )
    with open_stream(Path(recording_overlay.path)) as stream:
        yield from merged_traces(recording_overlay, iter(stream.read, b""))


def gzipped(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The pieces as gzip, compressed while the next pieces are made."""
    from isal import isal_zlib

    from traceanalyzer.base.parallel import pipelined

    packer = isal_zlib.compressobj(wbits=31)  # the largest window with a gzip head
    yield from pipelined(packer.compress, pieces)
    yield packer.flush()
