"""The map on a Dask cluster of this machine, whose workers die."""

from __future__ import annotations

import os
import random
import signal
import socket
import ssl
import threading
import time
import urllib.request
from contextlib import suppress

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
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None
    ) as local:
        yield local


def test_a_killed_worker_changes_nothing(tmp_path, here):
    write_job(tmp_path / "job", {5: 300}, world=16)
    (tmp_path / "job" / "rank16.json.gz").write_bytes(b"\x1f\x8bcut")
    expected = job_of([str(tmp_path / "job")], str(tmp_path / "alone"))
    for seed in range(2):
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
            made = make_all(
                places_in([str(tmp_path / "job")])[0], str(tmp_path / f"d{seed}"), None, via
            )
            stop.set()
        killer.join()
        assert len(made) == 17
        assert [name for name in os.listdir(tmp_path / f"d{seed}") if name.endswith(".part")] == []
        found = job_of([str(tmp_path / f"d{seed}")], "")
        assert found.culprits == expected.culprits
        assert found.changes == expected.changes
        assert [one.path for one in found.ranks.unreadable] == [
            one.path for one in expected.ranks.unreadable
        ]


def listening():
    """Addresses at which this process and those that it started listen."""
    from psutil import Process

    return {
        connection.laddr[:2]
        for process in (Process(), *Process().children(recursive=True))
        for connection in process.net_connections("inet")
        if connection.status == "LISTEN"
    }


def greeting(address, certificate=None):
    """What a stranger hears who connects, with a certificate of his own or without."""
    try:
        with socket.create_connection(address, 5) as plain:
            plain.settimeout(0.5)
            return (certificate.wrap_socket(plain) if certificate else plain).recv(1)
    except OSError:
        return b""


def test_nobody_else_gets_into_a_cluster_of_this_machine():
    """A scheduler runs what it is sent: one that listens to all users of a machine is theirs."""
    stranger = distributed.Security.temporary().get_connection_args("client")["ssl_context"]
    stranger.check_hostname = False
    stranger.verify_mode = ssl.CERT_NONE
    before = listening()
    heard = []
    with cluster(None, 1):
        opened = listening() - before
        for host, port in opened:
            heard += [greeting((host, port)), greeting((host, port), stranger)]
            with (
                suppress(OSError, ValueError),
                urllib.request.urlopen(f"http://{host}:{port}/info/main/workers.html"),
            ):
                heard.append(b"a page")
    assert ({host for host, _ in opened}, set(heard)) == ({"127.0.0.1"}, {b""})
    assert len(opened) > 3
    assert listening() <= before


def test_no_scheduler_is_one_line(monkeypatch):
    monkeypatch.setattr("traceanalyzer.fleet.digests.cluster.CONNECT_S", 0.5)
    with (
        pytest.raises(TraceAnalyzerError, match="no Dask scheduler answers"),
        cluster("tcp://127.0.0.1:1", None),
    ):
        pass
