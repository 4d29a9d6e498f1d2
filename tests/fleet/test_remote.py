"""Recordings and digests in a store: an S3 server on this machine."""

from __future__ import annotations

import pytest

from tests.fleet.build import write_job
from traceanalyzer.base.errors import UnreadableInputError
from traceanalyzer.fleet.job.open import job_of
from traceanalyzer.ingest.places import all_fetched, places_in

server = pytest.importorskip("moto.server")
s3fs = pytest.importorskip("s3fs")


@pytest.fixture
def store(monkeypatch):
    """A bucket `runs`; gives the filesystem."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    host, port = running.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    s3fs.S3FileSystem.clear_instance_cache()
    files = s3fs.S3FileSystem()
    if files.exists("runs"):
        files.rm("runs", recursive=True)
    files.mkdir("runs")
    yield files
    s3fs.S3FileSystem.clear_instance_cache()
    running.stop()


def test_ranks_are_read_from_a_store_and_their_digests_kept_there(tmp_path, store):
    for path in write_job(tmp_path / "job", {2: 300}):
        store.put(str(path), f"runs/job/{path.name}")
    store.pipe("runs/job/rank4.json.gz", b"\x1f\x8bcut")
    first = job_of(["s3://runs/job"], "s3://runs/digests")
    assert [(one.rank, round(one.gain_ms, 2)) for one in first.culprits] == [(2, 0.3)]
    assert [one.path for one in first.ranks.unreadable] == ["s3://runs/job/rank4.json.gz"]
    before = {
        one["name"]: one["LastModified"]
        for one in store.ls("runs/digests", detail=True, refresh=True)
    }
    again = job_of(["s3://runs/job"], "s3://runs/digests")
    assert again.culprits == first.culprits
    assert {
        one["name"]: one["LastModified"]
        for one in store.ls("runs/digests", detail=True, refresh=True)
    } == before
    assert job_of(["s3://runs/digests"], "").culprits == first.culprits
    assert job_of(["s3://runs/job/rank?.json.gz"], "s3://runs/digests").culprits == first.culprits


def test_analyze_fetches_once_and_leaves_nothing(tmp_path, store, monkeypatch, run):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temp"))
    (tmp_path / "temp").mkdir()
    for path in write_job(tmp_path / "job", {2: 300}):
        store.put(str(path), f"runs/job/{path.name}")
    status, out, err = run("analyze", "s3://runs/job", "--format", "json")
    assert (status, err) == (0, "")
    assert '"s3://runs/job/rank2.json.gz"' in out
    assert "Rank 2 holds up the others" in out
    assert list((tmp_path / "temp").iterdir()) == []


def test_what_is_not_there_or_not_allowed_is_one_line(tmp_path, store, run, monkeypatch):
    status, _, err = run("analyze", "s3://runs/nothing.json.gz")
    assert status == 1
    assert err.count("\n") == 1
    assert "s3://runs/nothing.json.gz" in err

    async def forbidden(*_, **__):
        raise PermissionError("Access Denied")

    monkeypatch.setattr(s3fs.S3FileSystem, "_info", forbidden)
    s3fs.S3FileSystem.clear_instance_cache()
    places, failures = places_in(["s3://runs/job"])
    assert places == []
    assert "access denied (Access Denied); check its credentials" in failures[0].message
    with pytest.raises(UnreadableInputError, match="access denied"), all_fetched(["s3://runs/job"]):
        pass
    job = write_job(tmp_path / "job", {2: 300})
    found = job_of([*map(str, job), "s3://runs/secret"], str(tmp_path / "digests"))
    assert found.culprits[0].rank == 2
    assert found.ranks.unreadable[0].path == "s3://runs/secret"
