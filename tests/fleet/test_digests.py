"""Digests as files: the same comparison, small, found again, whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

import pyarrow.parquet as pq
import pytest

from tests.fleet.build import write_job
from tests.recorded import ranks
from traceanalyzer.analysis.ranks.compare import compare_ranks
from traceanalyzer.analysis.ranks.digested import digest_of
from traceanalyzer.base.reading import reading_as
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.fleet.digests import files, make
from traceanalyzer.fleet.digests.files import encoded, read_digests
from traceanalyzer.fleet.digests.make import digests_of
from traceanalyzer.fleet.digests.map import make_all
from traceanalyzer.ingest import load
from traceanalyzer.ingest.places import places_in

RUNS = [
    f"{program}.{side}"
    for program in ("ddp_accum_sync", "straggler", "tensor_parallel")
    for side in ("base", "fix")
]


@cache
def digested(run: str):
    return [one for path in ranks(f"ranks2/{run}") for one in digests_of(path, str(path))]


def read_back(folder, made, *, why=False):
    for i, one in enumerate(made):
        (folder / f"{i}{files.SUFFIX}").write_bytes(encoded(one))
    return list(read_digests(places_in([str(folder)], files.SUFFIX)[0], why=why))


@pytest.mark.parametrize("run", RUNS)
def test_digests_compare_as_recordings_do(run, tmp_path):
    recordings = [
        measure(trace).timed.memo(digest_of) for trace in load(ranks(f"ranks2/{run}")).traces
    ]
    assert compare_ranks(
        [one.digest for one in read_back(tmp_path, digested(run))]
    ) == compare_ranks(recordings)


@pytest.mark.parametrize("run", RUNS)
def test_why_a_rank_was_late_is_kept_and_adds_up(run, tmp_path):
    for one, back in zip(digested(run), read_back(tmp_path, digested(run), why=True), strict=True):
        digest = one.digest
        why = one.why
        idle = digest.steps.duration - digest.busy
        assert (why.idle.sum(axis=0) == idle).all()
        for name in (
            "compute_before",
            "idle_before",
            "idle",
            "exposed_communication",
            "exposed_copy",
        ):
            assert (getattr(why, name) == getattr(back.why, name)).all()
        assert (why.families, digest.groups) == (back.why.families, back.digest.groups)
        steady = digest.steps.steady
        assert (
            sum(family.time_ns for family in why.families)
            >= int(digest.compute[steady].sum()) * 0.9
        )


@pytest.mark.parametrize("run", RUNS)
def test_a_digest_is_small(run):
    for one in digested(run):
        assert len(encoded(one)) <= 15_000 + 50 * len(one.digest.calls)


def test_one_moved_call_is_seen(tmp_path):
    found = read_back(tmp_path, digested("straggler.base"))
    start = found[1].digest.calls.start.copy()
    start[-1] -= 1000
    object.__setattr__(found[1].digest.calls, "start", start)
    changed = compare_ranks([one.digest for one in found])
    assert changed != compare_ranks([one.digest for one in digested("straggler.base")])


def test_what_is_there_is_found_until_its_recording_changes(tmp_path):
    paths = write_job(tmp_path / "job", {1: 300})
    folder = str(tmp_path / "digests")
    first = make_all(places_in([str(tmp_path / "job")])[0], folder)
    again = make_all(places_in([str(tmp_path / "job")])[0], folder)
    assert [one.found for one in first] == [False] * 4
    assert [one.found for one in again] == [True] * 4
    assert [one.digests for one in again] == [one.digests for one in first]
    os.utime(paths[2], ns=(1, 1))
    third = make_all(places_in([str(tmp_path / "job")])[0], folder)
    assert [one.found for one in third] == [True, True, False, True]
    assert len(os.listdir(folder)) == 4  # the older one is gone


def test_a_digest_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    write_job(tmp_path / "job", {})
    (tmp_path / "digests").mkdir()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("traceanalyzer.base.files.Path.replace", full)
    with pytest.raises(OSError, match="No space"):
        make_all(places_in([str(tmp_path / "job")])[0], str(tmp_path / "digests"))
    assert os.listdir(tmp_path / "digests") == []


def test_what_an_interrupt_leaves_the_next_run_takes_up(tmp_path, monkeypatch):
    write_job(tmp_path / "job", {2: 300})
    places = places_in([str(tmp_path / "job")])[0]
    folder = tmp_path / "digests"
    whole = make.digests_of
    left = iter(range(2))

    def interrupted(*asked):
        if next(left, None) is None:
            raise KeyboardInterrupt
        return whole(*asked)

    monkeypatch.setattr(make, "digests_of", interrupted)
    with pytest.raises(KeyboardInterrupt), reading_as(jobs=1):
        make_all(places, str(folder))
    assert [name.endswith(files.SUFFIX) for name in os.listdir(folder)] == [True, True]
    monkeypatch.undo()
    assert [one.found for one in make_all(places, str(folder))] == [True, True, False, False]
    assert len(os.listdir(folder)) == 4


def test_what_is_no_digest_of_this_version_is_a_line(tmp_path, monkeypatch):
    one = digested("straggler.base")[0]
    (tmp_path / f"a{files.SUFFIX}").write_bytes(encoded(one)[:-40])
    (tmp_path / f"b{files.SUFFIX}").write_bytes(b"PAR1")
    (tmp_path / f"c{files.SUFFIX}").write_bytes(encoded(one))
    monkeypatch.setattr(files, "SCHEMA", 99)
    (tmp_path / f"d{files.SUFFIX}").write_bytes(encoded(one))
    monkeypatch.undo()
    a, b, c, d = read_digests(places_in([str(tmp_path)], files.SUFFIX)[0])
    assert "damaged digest" in a.why
    assert "damaged digest" in b.why
    assert c.digest.rank == 0
    assert f"another version (schema 99, here {files.SCHEMA})" in d.why
    table = pq.read_table(tmp_path / f"c{files.SUFFIX}")
    pq.write_table(table.replace_schema_metadata({}), tmp_path / f"e{files.SUFFIX}")
    *_, e = read_digests(places_in([str(tmp_path)], files.SUFFIX)[0])
    assert "no digest" in e.why


def test_damaged_bytes_never_raise(tmp_path):
    data = encoded(digested("straggler.base")[0])
    for at in range(0, len(data), 37):
        (tmp_path / f"x{files.SUFFIX}").write_bytes(
            data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :]
        )
        list(read_digests(places_in([str(tmp_path)], files.SUFFIX)[0]))


def test_a_digest_that_multiplies_is_refused_before_it_is_read(tmp_path, monkeypatch):
    write_job(tmp_path / "job", {})
    (tmp_path / "digests").mkdir()
    make_all(places_in([str(tmp_path / "job")])[0], str(tmp_path / "digests"))
    places = places_in([str(tmp_path / "digests")], files.SUFFIX)[0]
    assert all(isinstance(one, files.DigestedRank) for one in read_digests(places))
    monkeypatch.setattr(files, "LEAST_MADE", 10)
    monkeypatch.setattr(files, "MOST_RATIO", 0)
    for one in read_digests(places):
        assert isinstance(one, files.LeftOut)
        assert "bytes that would take" in one.why


FORKED = """
import os
import subprocess
import sys
import pyarrow
from traceanalyzer.fleet.digests.files import arrow
arrow()
arrow()
released = []
class Pool:
    def release_unused(self):
        released.append(os.getpid())
pyarrow.default_memory_pool = Pool
if os.fork() == 0:
    os._exit(0)
os.wait()
print(len(released))
"""


def test_what_arrow_keeps_is_handed_back_before_a_fork():
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True)
    assert done.stdout == "1\n", done.stderr


def test_a_refusal_is_made_again_by_another_program(tmp_path, monkeypatch):
    job = tmp_path / "job"
    paths = write_job(job, {})
    folder = tmp_path / "digests"
    places = places_in([str(job)])[0]
    monkeypatch.setattr(
        make, "digests_of", lambda path, url: [files.LeftOut(url, "a mistake of the reader")]
    )
    with reading_as(jobs=1):
        make_all(places, str(folder))
    monkeypatch.undo()
    assert [one.found for one in make_all(places, str(folder))] == [True] * len(paths)

    monkeypatch.setattr(files, "program_state", lambda _: "the program, mended")
    assert [one.found for one in make_all(places, str(folder))] == [False] * len(paths)
    ranks_found = list(read_digests(places_in([str(folder)], files.SUFFIX)[0]))
    assert [type(one) for one in ranks_found] == [files.DigestedRank] * len(paths)

    monkeypatch.setattr(files, "program_state", lambda _: "the program, changed again")
    assert [one.found for one in make_all(places, str(folder))] == [True] * len(paths)


def test_a_failure_without_a_word_is_told_as_one(tmp_path):
    path = tmp_path / f"rank3{files.SUFFIX}"
    path.write_bytes(encoded(files.LeftOut("rank3.json", " ")))
    (one,) = read_digests(places_in([str(path)], files.SUFFIX)[0])
    assert one.why == files.NO_REASON
