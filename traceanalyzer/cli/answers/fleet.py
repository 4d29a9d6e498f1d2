"""`traceanalyzer fleet`."""

from contextlib import ExitStack
from pathlib import Path

import click

from traceanalyzer.cli import options
from traceanalyzer.cli.io.formats import REPORT_FORMATS, Output
from traceanalyzer.cli.options import FILE, Hidden, command


@command("fleet")
@click.argument("paths", metavar="PATH...", nargs=-1, type=click.Path())
@click.option(
    "--digests",
    "folder",
    metavar="DIR",
    help=(
        "Where digests of recordings are kept, and found by the next question. Default: the "
        "folder that `doctor cache` names."
    ),
)
@click.option(
    "--timing",
    "store",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help=(
        "Add PATHs, logs of step times, to the runs in DIR, and answer from all there: since "
        "when, drift, goodput."
    ),
)
@click.option("--run", metavar="ID", help="The run in DIR that they are of.")
@click.option(
    "--racks",
    **FILE,
    help=(
        "In which rack hosts stand, a line HOST RACK each: then also what the job gains "
        "without a rack."
    ),
)
@click.option(
    "-v", "--full", is_flag=True, help="Everything, with the first 100 rows of each table."
)
@options.cluster_options
@options.iteration_option
@options.limit_option
@options.reading_options
@options.quiet_option()
@options.redact_options()
@options.output_options(REPORT_FORMATS)
def fleet(
    paths: tuple[str, ...],
    folder: str | None,
    store: Path | None,
    run: str | None,
    racks: Path | None,
    full: bool,
    scheduler: str | None,
    workers: int | None,
    hidden: Hidden,
    output: Output,
) -> None:
    """Say which rank, host, link or stage holds up a job of many ranks, since when, and what it
    gains without."""
    from traceanalyzer.cli.io.output import emit
    from traceanalyzer.cli.io.progress import counting, working
    from traceanalyzer.cli.io.reports import cleaned

    files = [Path(path) for path in paths]
    if store is not None:
        from traceanalyzer.history.days.document import days_page

        days = cleaned(days_page(store, files, run), hidden)
        emit(days.in_full() if full else days, output)
        return
    if not paths:
        raise click.UsageError("Missing argument 'PATH...'.")
    from traceanalyzer.fleet.job.document import job_page
    from traceanalyzer.fleet.job.open import digests_folder, job_of
    from traceanalyzer.fleet.sources import source_of

    with ExitStack() as stack:
        done = stack.enter_context(counting("Digesting", "ranks"))
        source = source_of(paths)
        if source is not None:
            page = cleaned(source.page(files, done), hidden)
            emit(page.in_full() if full else page, output)
            return
        place = stack.enter_context(digests_folder(folder))
        via = None
        if scheduler or workers:
            from traceanalyzer.fleet.digests.cluster import cluster

            via = stack.enter_context(cluster(scheduler, workers))
        stack.enter_context(working("Comparing"))
        job = job_of(paths, place, done, via, hidden, racks)
    page = job_page(job)
    emit(page.in_full() if full else page, output)
