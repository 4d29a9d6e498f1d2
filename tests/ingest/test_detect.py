"""The front door: which files are recordings, of what kind, whose rank, and what is said about the
others."""

from __future__ import annotations

import gzip
import os
import sqlite3
import subprocess
import sys

import pytest

from tests.kineto_builder import KinetoTrace
from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.ingest import load
from traceanalyzer.ingest.detect import detect
from traceanalyzer.ingest.run import _numbered
from traceanalyzer.trace import Process, Trace


def kernel_trace() -> KinetoTrace:
    t = KinetoTrace()
    t.kernel("k", 1, 1)
    return t


@pytest.fixture
def kineto_file(tmp_path):
    def write(name: str, rank: int | None = None):
        t = kernel_trace()
        return (t if rank is None else t.rank(rank)).write(tmp_path / name)

    return write


def database(path):
    with sqlite3.connect(path) as connection:
        connection.execute("create table x (y)")
    return path.read_bytes()


def message(paths) -> str:
    with pytest.raises(TraceAnalyzerError) as caught:
        load(paths)
    text = str(caught.value)
    assert "\n" not in text
    assert "Traceback" not in text
    return text


def test_the_kind_is_told_by_content(tmp_path):
    content = kernel_trace().json()
    sqlite = database(tmp_path / "made.sqlite")
    for i, (data, kind) in enumerate(
        [
            (content, "kineto"),
            (gzip.compress(content, mtime=0), "kineto"),
            (b"\xef\xbb\xbf \n" + content, "kineto"),
            (b'[{"name": "a", "ph": "X", "ts": 1, "dur": 1}]', "kineto"),
            (sqlite, "nsys"),
            (gzip.compress(sqlite, mtime=0), "nsys"),
        ]
    ):
        path = tmp_path / f"misleading{i}.txt"
        path.write_bytes(data)
        assert detect(path).name == kind


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty"),
        (gzip.compress(b"", mtime=0), "empty"),
        (b"\x1f\x8b\x08", "damaged"),
        (b"hello", "not a recording"),
        (b"\x7fELF\x00\x00\x00", "binary"),
        (b"\xff\xfe{\x00}\x00", "binary"),
        (b'{"a": 1}', "traceEvents"),
        (b"[1, 2, 3]", "traceEvents"),
        (b"{", "traceEvents"),
        (b"null", "not a recording"),
    ],
)
def test_what_is_not_a_recording(tmp_path, content, said):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    text = message([path])
    assert said in text
    assert str(path) in text


def test_missing_files_and_no_files(tmp_path):
    assert "no such file" in message([tmp_path / "gone.json"])
    assert "no input" in message([])


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission(kineto_file):
    path = kineto_file("t.json")
    path.chmod(0)
    assert "permission" in message([path])


def test_a_folder_is_every_recording_in_it(tmp_path, kineto_file):
    kineto_file("b.rank1.json.gz")
    kineto_file("a.rank0.json")
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "inner").mkdir()
    run = load([tmp_path])
    assert [trace.rank for trace in run.traces] == [0, 1]
    assert run.failures == ()


def test_a_folder_without_recordings(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert "no recording in this folder" in message([tmp_path])


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("trace_rank3.json", 3),
        ("rank_12.json.gz", 12),
        ("job.rank-2.pt.trace.json", 2),
        ("r7.json", 7),
        ("host-r0.json", 0),
        ("error5.json", None),
        ("r2d2.json", None),
    ],
)
def test_ranks_from_names_of_several_files(kineto_file, name, rank):
    traces = load([kineto_file(name), kineto_file("other.json")]).traces
    assert next(t.rank for t in traces if t.path.endswith(name)) == rank
    assert load([kineto_file(name)]).traces[0].rank is None


def test_the_recording_knows_its_rank_better_than_its_name(kineto_file):
    traces = load([kineto_file("rank0.json", 5), kineto_file("rank1.json", 4)]).traces
    assert [t.rank for t in traces] == [4, 5]


def test_two_recordings_of_one_rank_are_both_kept(kineto_file):
    traces = load(
        [kineto_file("a.json", 1), kineto_file("b.json", 1), kineto_file("c.json", 0)]
    ).traces
    assert [t.rank for t in traces] == [0, 1, 1]
    assert [t.health.notes for t in traces] == [(), *[("2 recordings claim rank 1.",)] * 2]


def test_one_unreadable_rank_does_not_stop_the_others(tmp_path, kineto_file):
    broken = tmp_path / "rank1.json"
    broken.write_bytes(b"")
    run = load([kineto_file("rank0.json"), broken, tmp_path / "gone.json"])
    assert len(run.traces) == 1
    assert [f.path for f in run.failures] == [str(broken), str(tmp_path / "gone.json")]
    assert "empty" in run.failures[0].message


def test_when_no_rank_can_be_read_the_first_says_why(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path in paths:
        path.write_bytes(b"")
    assert "1 more" in message(paths)


def test_the_same_file_twice_is_read_once(kineto_file):
    path = kineto_file("a.json")
    assert len(load([path, path, path.parent]).traces) == 1


def test_progress_counts_bytes_to_the_total(kineto_file):
    paths = [kineto_file("a.json"), kineto_file("b.json.gz")]
    total = sum(path.stat().st_size for path in paths)
    seen = []
    load(paths, progress=lambda done, of: seen.append((done, of)))
    assert {of for _, of in seen} == {total}
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1][0] == total


def test_reading_a_trace_imports_no_heavy_library(kineto_file):
    program = "import sys; from traceanalyzer.ingest import load; load([sys.argv[1]]); print(*sys.modules)"
    modules = subprocess.check_output(
        [sys.executable, "-c", program, str(kineto_file("a.json"))], text=True
    ).split()
    assert not {"pandas", "plotly", "torch", "rich", "traceanalyzer.ingest.sqlite.database"} & set(
        modules
    )


def test_errors_name_the_type_that_callers_catch(tmp_path):
    with pytest.raises(UnreadableInputError):
        load([tmp_path / "gone"])


def test_a_pattern_reads_a_log_of_no_known_kind(tmp_path):
    log = tmp_path / "mine.log"
    log.write_text("".join(f"ran 12.{i} ms no. {i}\n" for i in range(5)))
    with pytest.raises(UnreadableInputError, match="not a recording of any known kind"):
        load([log])
    run = load([log], pattern=r"ran (?P<iter_ms>[\d.]+) ms no. (?P<step>\d+)")
    assert run.traces[0].source == "timing_log"
    assert len(run.traces[0].step_timings) == 5


def test_exports_without_ranks_are_numbered_over_all_files():
    """Two nodes, two processes each: an export numbers its own processes, and all exports begin at
    0."""
    made = [
        Trace(
            f"node{node}", "nsys", [], Process(pid=10 + i, rank=i, host=f"h{node}", numbered=True)
        )
        for node in (1, 0)
        for i in (1, 0)
    ]
    numbered = _numbered(made)
    assert [(t.path, t.process.pid, t.rank) for t in numbered] == [
        ("node0", 10, 0),
        ("node0", 11, 1),
        ("node1", 10, 2),
        ("node1", 11, 3),
    ]
    assert "numbered by host, file and process" in numbered[0].health.notes[0]
    assert _numbered(made[:2]) == made[:2], "one file keeps its own"
