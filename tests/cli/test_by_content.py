"""`analyze` of what is no recording of one process: dumps of a hung job, digests, snapshots."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from tests.fleet.build import write_job

DATA = Path(__file__).parents[1] / "data"
SNAPSHOT = DATA / "memory" / "kv_cat.base.snapshot.pickle.gz"


def test_a_folder_of_dumps_is_answered_as_hang_does(run, tmp_path):
    with tarfile.open(DATA / "hangs" / "hangs.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    dumps = tmp_path / "nvidia" / "lock_gil_1st"
    status, out, err = run("analyze", dumps, "--format", "json")
    assert (status, err) == (0, "")
    assert json.loads(out) == json.loads(run("hang", dumps, "--format", "json")[1])


def test_digests_are_answered_as_fleet_does(run, tmp_path):
    write_job(tmp_path / "traces", {2: 300})
    folder = tmp_path / "digests"
    assert run("export", tmp_path / "traces", "--digests", "-o", folder)[0] == 0
    status, out, _ = run("analyze", folder, "--format", "json")
    assert status == 0
    culprits = json.loads(out)["culprits"]
    assert [one["rank"] for one in culprits] == [2]
    assert culprits == json.loads(run("fleet", folder, "--format", "json", "-q")[1])["culprits"]


def test_all_of_a_snapshot_alone_is_its_ledger(run):
    status, out, err = run("analyze", SNAPSHOT, "--full")
    assert (status, err) == (0, "")
    assert out == run("memory", SNAPSHOT, "--full")[1]


def test_what_is_neither_is_refused_as_before(run, tmp_path):
    (tmp_path / "notes.txt").write_text("nothing of interest")
    status, out, err = run("analyze", tmp_path)
    assert (status, out) == (1, "")
    assert "no recording in this folder" in err


def test_export_writes_by_the_name_of_the_file(run, tmp_path):
    sample = DATA / "gpu" / "sync_bound.json.gz"
    for name in ("a.sqlite", "a.json", "a.json.gz"):
        assert run("export", sample, "-o", tmp_path / name)[0] == 0
        assert (tmp_path / name).stat().st_size > 0
    status, _, err = run("export", sample)
    assert status == 2
    assert "--open" in err
    assert run("export", sample, "-o", tmp_path / "a.txt")[0] == 2
