"""The map on a Dask cluster: tasks in a sliding window, tried again where a worker dies."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from queue import Empty, SimpleQueue
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
QUIET_S = 60.0
"""A cluster that lost workers and finishes nothing for so long is helped: a task may wait without
end for a worker that was killed."""


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
    """Digest the recordings, in their order. What fails for good is a failure of that recording;
    what a cluster that lost workers does not finish is done here."""
    waiting = iter(places)
    begun: dict[Any, RecordingPlace] = {}
    finished: SimpleQueue[Any] = SimpleQueue()
    by_url: dict[str, Made] = {}
    workers: dict[str, int] = client.ncores()

    def submit(count: int) -> None:
        for place in islice(waiting, count):
            key = f"digest-{place.url}-{place.stamp}"
            future = client.submit(make, place, folder, key=key, retries=RETRIES, pure=False)
            begun[future] = place
            future.add_done_callback(finished.put)

    submit(WINDOW * max(sum(workers.values()), 1))
    patience = QUIET_S
    while begun:
        try:
            future = finished.get(timeout=patience)
        except Empty:
            if patience and not _lost_workers(client, workers):
                continue
            patience = 0.0  # until the cluster finishes one
            place, outcome = _last(waiting, begun), None
        else:
            if future not in begun:  # taken back
                continue
            patience = QUIET_S
            place = begun.pop(future)
            outcome = _result(future, place)
            future.release()
            submit(1)
        by_url[place.url] = outcome or make(place, folder)._replace(in_place=True)
        report(len(by_url))
    return [by_url[place.url] for place in places]


def _result(future: Any, place: RecordingPlace) -> Made | None:
    """What a task that ended gave; None where the cluster lost it."""
    try:
        outcome: Made = future.result(timeout=QUIET_S)
    except Exception as error:  # of the task, or of the worker that it killed
        if future.status != "error":
            return None
        return Made(place.url, (), f"{place.url}: {type(error).__name__}: {error}")
    return outcome


def _lost_workers(client: Any, known: dict[str, int]) -> bool:
    """Whether a worker that was there is gone, or none is there. Those that came are known from now
    on."""
    try:
        left = client.ncores()
    except OSError:  # nor is the scheduler
        return True
    known |= left
    return not left or left.keys() < known.keys()


def _last(waiting: Iterator[RecordingPlace], begun: dict[Any, RecordingPlace]) -> RecordingPlace:
    """The recording that the cluster would come to last, which it no longer has to."""
    place = next(waiting, None)
    if place is None:
        future, place = begun.popitem()
        future.release()
    return place
