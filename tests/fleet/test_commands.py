"""`digest` and `fleet` from the command line."""

from __future__ import annotations

import json
import sys

from tests.fleet.build import write_job
from traceanalyzer.base.extras import how_to_install


def test_digests_then_the_answer(tmp_path, run):
    write_job(tmp_path / "job", {3: 300})
    (tmp_path / "job" / "rank4.json.gz").write_bytes(b"\x1f\x8bcut")
    status, out, err = run("digest", str(tmp_path / "job"), "-o", str(tmp_path / "digests"))
    assert status == 0
    assert "4 digests in" in out
    assert err.count("\n") == 1
    assert "rank4.json.gz" in err
    status, out, _ = run("fleet", str(tmp_path / "digests"), "--format", "json")
    found = json.loads(out)
    assert status == 0
    assert (found["ranks"]["expected"], found["ranks"]["read"], found["ranks"]["missing"]) == (
        4,
        4,
        [],
    )
    assert found["ranks"]["unreadable"][0]["path"].endswith("rank4.json.gz")
    assert found["summary"]["basis"] == "unprofiled"
    (culprit,) = found["culprits"]
    assert (culprit["rank"], culprit["cause"]) == (3, "slow_gpu")
    assert 0.29 < culprit["low_ms"] <= culprit["gain_ms"] <= culprit["high_ms"] < 0.31
    assert run("fleet", str(tmp_path / "job"), "--format", "json")[1] == out


def test_analyze_of_the_same_ranks_says_the_same(tmp_path, run):
    write_job(tmp_path / "job", {3: 300})
    report = json.loads(run("analyze", str(tmp_path / "job"), "--format", "json")[1])
    (culprit,) = json.loads(run("fleet", str(tmp_path / "job"), "--format", "json")[1])["culprits"]
    (straggler,) = (one for one in report["findings"] if one["id"] == "straggler")
    gain = next(
        one["value"] for one in straggler["evidence"] if one["metric"].startswith("late at")
    )
    assert culprit["gain_ms"] == gain


def test_nothing_to_read_is_one_line(tmp_path, run):
    (tmp_path / "notes.txt").write_text("no trace")
    for command in (
        ["fleet", str(tmp_path / "notes.txt")],
        ["fleet", str(tmp_path / "gone")],
        ["fleet", str(tmp_path)],
    ):
        status, out, err = run(*command)
        assert (status, out) == (1, "")
        assert err.count("\n") == 1


def test_a_missing_extra_says_what_to_install(tmp_path, run, monkeypatch):
    write_job(tmp_path / "job", {})
    for name in [
        one for one in sys.modules if one.partition(".")[0] in ("pyarrow", "distributed", "fsspec")
    ]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("pyarrow", "distributed", "fsspec"):
        monkeypatch.setitem(sys.modules, name, None)
    digest = ["digest", str(tmp_path / "job"), "-o", str(tmp_path / "digests")]
    assert how_to_install("parquet") in run(*digest)[2]
    assert how_to_install("fleet") in run(*digest, "--workers", "1")[2]
    assert how_to_install("remote") in run("analyze", "s3://bucket/rank0.json.gz")[2]
    assert run("analyze", str(tmp_path / "job"))[0] == 0


def test_two_jobs_are_compared(tmp_path, run):
    for name, late in (("a", {3: 300}), ("b", {})):
        write_job(tmp_path / f"job{name}", late)
        run("digest", str(tmp_path / f"job{name}"), "-o", str(tmp_path / name))
    status, out, _ = run("compare", str(tmp_path / "a"), str(tmp_path / "b"), "--format", "json")
    found = json.loads(out)
    assert status == 0
    assert "rank 3 no longer holds up the job" in found["headline"]
    (row,) = found["culprits"]
    assert (row["rank"], row["cause_a"], row["gain_b_ms"]) == (3, "slow_gpu", 0.0)


def test_of_iterations_one_is_read(tmp_path, run):
    for number, late in ((100, {3: 300}), (200, {1: 300})):
        (tmp_path / "job").mkdir(exist_ok=True)
        write_job(tmp_path / "job" / f"iteration_{number}", late)
    for options, rank, name in (
        ([], 1, "iteration_200"),
        (["--iteration", "100"], 3, "iteration_100"),
    ):
        found = json.loads(run("fleet", str(tmp_path / "job"), *options, "--format", "json")[1])
        assert [one["rank"] for one in found["culprits"]] == [rank]
        assert f"{name} was read; --iteration N takes another." in found["notes"][0]
        _, out, err = run(
            "digest", str(tmp_path / "job"), *options, "-o", str(tmp_path / "digests")
        )
        assert "4 digests in" in out
        assert name in err


def test_digests_that_others_could_have_written_are_neither_read_nor_made(
    tmp_path, run, monkeypatch
):
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path))
    write_job(tmp_path / "job", {}, 2)
    assert run("fleet", str(tmp_path / "job"))[0] == 0
    kept = tmp_path / "traceanalyzer"
    for path in (kept / "digests").iterdir():
        path.write_bytes(b"another's")
    kept.chmod(0o777)
    status, out, _ = run("fleet", str(tmp_path / "job"), "--format", "json")
    assert (status, json.loads(out)["ranks"]["unreadable"]) == (0, [])
    assert {path.read_bytes() for path in (kept / "digests").iterdir()} == {b"another's"}


def test_all_of_a_job_has_the_four_parts(tmp_path, run):
    write_job(tmp_path / "job", {3: 300})
    status, out, _ = run("fleet", str(tmp_path / "job"), "--full")
    assert status == 0
    lines = out.splitlines()
    parts = [lines.index(part) for part in ("Summary", "Metrics", "Findings", "Recommendations")]
    assert parts == sorted(parts)
    screen = run("fleet", str(tmp_path / "job"))[1]
    assert len(screen.splitlines()) < len(lines)
