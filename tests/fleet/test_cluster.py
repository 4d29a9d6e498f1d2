"""The map on a Dask cluster of this machine, whose workers die."""

from __future__ import annotations

import os
import random
import signal
import threading
import time

import pytest

from tests.fleet.build import write_job
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.fleet.digests.cluster import cluster
from traceanalyzer.fleet.digests.map import make_all
from traceanalyzer.fleet.job.open import job_of
from traceanalyzer.ingest.places import places_in

distributed = pytest.importorskip("distributed")


@pytest.fixture
def here():
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as local:
        yield local


def test_a_killed_worker_changes_nothing(tmp_path, here):
    write_job(tmp_path / "job", {5: 300}, world=16)
    (tmp_path / "job" / "rank16.json.gz").write_bytes(b"\x1f\x8bcut")
    expected = job_of([str(tmp_path / "job")], str(tmp_path / "alone"))
    for seed in range(3):
        draw = random.Random(seed)  # noqa: S311
        stop = threading.Event()

        def kill(stop=stop, draw=draw):
            time.sleep(draw.uniform(0.0, 0.2))
            workers = [worker.pid for worker in here.workers.values() if worker.pid]
            if not stop.is_set() and workers:
                os.kill(draw.choice(workers), signal.SIGKILL)

        killer = threading.Thread(target=kill)
        with cluster(here.scheduler_address, None) as via:
            killer.start()
            made = make_all(places_in([str(tmp_path / "job")])[0], str(tmp_path / f"d{seed}"), None, via)
            stop.set()
        killer.join()
        assert len(made) == 17
        assert [name for name in os.listdir(tmp_path / f"d{seed}") if name.endswith(".part")] == []
        found = job_of([str(tmp_path / f"d{seed}")], "")
        assert found.culprits == expected.culprits
        assert found.changes == expected.changes
        assert [one.path for one in found.ranks.unreadable] == [one.path for one in expected.ranks.unreadable]


def test_no_scheduler_is_one_line(monkeypatch):
    monkeypatch.setattr("traceanalyzer.fleet.digests.cluster.CONNECT_S", 0.5)
    with pytest.raises(TraceAnalyzerError, match="no Dask scheduler answers"), cluster("tcp://127.0.0.1:1", None):
        pass
