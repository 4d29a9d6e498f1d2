"""The map on a Dask cluster: tasks in a sliding window, tried again where a worker dies."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.base.extras import how_to_install
from traceanalyzer.fleet.digests.files import Made
from traceanalyzer.fleet.digests.make import make
from traceanalyzer.fleet.digests.map import Cluster
from traceanalyzer.ingest.places import RecordingPlace

NO_PAGES: dict[str, list[Any]] = {
    f"distributed.{server}.http.routes": [] for server in ("scheduler", "worker")
}
"""A scheduler runs whatever it is sent, and its pages show paths: another user of this machine gets
neither."""
WINDOW = 4  # tasks that wait for a core
RETRIES = 2
CONNECT_S = 20


@contextmanager
def cluster(scheduler: str | None, workers: int | None) -> Iterator[Cluster | None]:
    """How recordings are digested: on the cluster of a scheduler's address, on one of so many
    processes of this machine, or None of both. Raises TraceAnalyzerError."""
    if scheduler is None and workers is None:
        yield None
        return
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.security import Security

        own = None if scheduler else Security.temporary()
    except ImportError as error:
        needs = f"a cluster needs dask.distributed and cryptography: {how_to_install('fleet')}"
        raise TraceAnalyzerError(needs) from error
    try:
        with dask.config.set(NO_PAGES):
            local = own and LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host="127.0.0.1",
                dashboard_address=None,
                security=own,
            )
        client = Client(local or scheduler, timeout=CONNECT_S)
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise TraceAnalyzerError(
            f"{scheduler}: no Dask scheduler answers there ({reason})"
        ) from error
    try:
        yield lambda places, folder, report: over_cluster(client, places, folder, report)
    finally:
        client.close()
        if local is not None:
            local.close()


def over_cluster(
    client: Any, places: Sequence[RecordingPlace], folder: str, report: Callable[[int], None]
) -> list[Made]:
    """Digest the recordings, in their order. What fails for good is a failure of that recording."""
    from distributed import as_completed

    waiting = iter(places)

    def submit(place: RecordingPlace) -> Any:
        return client.submit(
            make,
            place,
            folder,
            key=f"digest-{place.url}-{place.stamp}",
            retries=RETRIES,
            pure=False,
        )

    window = WINDOW * max(sum(client.ncores().values()), 1)
    begun = {submit(place): place for place in islice(waiting, window)}
    by_url: dict[str, Made] = {}
    pool = as_completed(list(begun), raise_errors=False)
    for future in pool:
        place = begun.pop(future)
        try:
            by_url[place.url] = future.result()
        except Exception as error:  # of the task, or of the worker that it killed
            by_url[place.url] = Made(place.url, (), f"{place.url}: {type(error).__name__}: {error}")
        future.release()
        report(len(by_url))
        for following in islice(waiting, 1):
            more = submit(following)
            begun[more] = following
            pool.add(more)
    return [by_url[place.url] for place in places]
