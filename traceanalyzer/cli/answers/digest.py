"""`traceanalyzer digest`."""

from collections.abc import Sequence

import click

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.cli.options import cluster_options, command, quiet_option, recordings


@command("digest")
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    required=True,
    help="Folder or address of the digests.",
)
@cluster_options
@quiet_option()
@recordings
def digest(
    paths: tuple[str, ...],
    folder: str,
    scheduler: str | None,
    workers: int | None,
) -> None:
    """Write what the comparison of ranks needs of each rank, a small file a rank (Parquet, about 10
    kB)."""
    write_digests(paths, folder, scheduler, workers)


def write_digests(
    paths: Sequence[str], folder: str, scheduler: str | None = None, workers: int | None = None
) -> None:
    """Digest the recordings, and say how many there are. Raises TraceAnalyzerError."""
    from traceanalyzer.cli.io.output import say, warn
    from traceanalyzer.cli.io.progress import counting
    from traceanalyzer.fleet.digests.cluster import cluster
    from traceanalyzer.fleet.digests.map import done_here, make_all
    from traceanalyzer.ingest.places import iterations_in, places_in

    places, failures = places_in(paths)
    with counting("Digesting", "ranks") as done, cluster(scheduler, workers) as via:
        written = make_all(places, folder, done, via)
    lines = [f"{one.path}: {one.message}" for one in failures] + [
        one.failure for one in written if one.failure
    ]
    for line in [*iterations_in(paths, places), *done_here(written), *lines]:
        warn(line)
    files = sum(len(one.digests) for one in written if not one.failure)
    found = sum(one.found for one in written)
    if not files:
        raise TraceAnalyzerError(
            lines[0] if len(lines) == 1 else f"none of {len(lines)} recordings could be read"
        )
    say(
        f"{files} digests in {folder} ({found} were there), {len(lines)} recordings "
        "could not be read"
    )
