"""The nsys reader on files that are not what they should be, and what it does to the files it
reads."""

from __future__ import annotations

import gzip
import hashlib
import random
import sqlite3
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from tests.nsys_builder import Export, small_run
from traceanalyzer.base.errors import TraceAnalyzerError, UnreadableInputError
from traceanalyzer.ingest import nsys

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "export.sqlite"


def long_export(target: Path) -> Path:
    """An export of many pages."""
    export = small_run("3.24.0")
    for i in range(5000):
        export.kernel(1000 + 20 * i, 1010 + 20 * i, correlationId=10 + i)
    return export.write(target)


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TABLE photos (id INTEGER)",
        # nvprof's: no StringIds
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (_id_ INTEGER, start INTEGER)",
        "CREATE TABLE StringIds (id INTEGER, value TEXT)",
    ],
)
def test_another_tools_database(statement: str, target: Path) -> None:
    db = sqlite3.connect(target)
    db.execute(statement)
    db.commit()
    db.close()
    with pytest.raises(UnreadableInputError, match="not an Nsight Systems export") as caught:
        nsys.read(target)
    assert "\n" not in str(caught.value)


def test_a_truncated_database_gives_what_is_left(target: Path) -> None:
    data = long_export(target).read_bytes()
    target.write_bytes(data[: len(data) // 2])
    (trace,) = nsys.read(target)
    assert 100 < len(trace.device_ops) < 5004
    assert trace.health.truncated
    assert any("damaged" in note for note in trace.health.notes)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.05, 0.1, 0.3, 0.6, 0.9, 0.99])
def test_a_database_cut_anywhere_gives_a_trace_or_one_line(share: float, target: Path) -> None:
    data = long_export(target).read_bytes()
    target.write_bytes(data[: max(20, int(len(data) * share))])
    try:
        message = "".join(nsys.read(target)[0].health.notes)
    except TraceAnalyzerError as error:
        message = str(error)
    assert "damaged" in message or "cut off" in message
    assert "\n" not in message


def test_a_cut_gzipped_export_gives_what_is_left(target: Path) -> None:
    packed = gzip.compress(long_export(target).read_bytes())
    target.write_bytes(packed[: len(packed) // 2])
    assert nsys.recognise(packed[:100], target)
    (trace,) = nsys.read(target)
    assert trace.health.truncated


def test_other_gzipped_files_are_not_recognised(target: Path) -> None:
    target.write_bytes(gzip.compress(b'{"traceEvents": []}'))
    assert not nsys.recognise(target.read_bytes(), target)
    target.write_bytes(b"\x1f\x8bgarbage")
    assert not nsys.recognise(target.read_bytes(), target)


@pytest.mark.parametrize("journal", ["DELETE", "WAL"])
def test_the_file_is_never_changed(journal: str, target: Path) -> None:
    small_run("3.24.0").write(target)
    db = sqlite3.connect(target)
    db.execute(f"PRAGMA journal_mode = {journal}")
    db.close()
    before = (hashlib.sha256(target.read_bytes()).digest(), target.stat().st_mtime_ns)
    nsys.read(target)
    assert (hashlib.sha256(target.read_bytes()).digest(), target.stat().st_mtime_ns) == before
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def test_a_file_that_may_not_be_written(target: Path) -> None:
    small_run("3.24.0").write(target)
    target.chmod(stat.S_IRUSR)
    assert nsys.read(target)


def test_names_with_characters_special_to_uris(tmp_path: Path) -> None:
    assert nsys.read(small_run("3.24.0").write(tmp_path / "a?mode=rwc#b %41.sqlite"))


class TestReports:
    @pytest.fixture
    def report(self, tmp_path: Path) -> Path:
        path = tmp_path / "run.nsys-rep"
        path.write_bytes(b"\x00some report\xff")
        return path

    def install(self, folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """Put a program called `nsys` on the PATH."""
        folder.mkdir()
        program = folder / "nsys"
        program.write_text(f"#!{sys.executable}\n{script}")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))

    def test_without_nsys(
        self, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("PATH", str(tmp_path))
        assert nsys.recognise(report.read_bytes(), report)
        assert not nsys.recognise(b'{"traceEvents": []}', report)
        with pytest.raises(UnreadableInputError, match=r"nsys export --type sqlite run\.nsys-rep"):
            nsys.read(report)

    def test_with_nsys(self, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        made = small_run("3.24.0").write(tmp_path / "made.sqlite")
        script = f"import shutil, sys\nshutil.copy({str(made)!r}, sys.argv[sys.argv.index('--output') + 1])\n"
        self.install(tmp_path / "bin", script, monkeypatch)
        (trace,) = nsys.read(report)
        assert trace.path == str(report)
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "bin",
            "made.sqlite",
            "run.nsys-rep",
        ]

    def test_with_an_nsys_that_knows_no_blobs(
        self, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = small_run("3.24.0").write(tmp_path / "made.sqlite")
        script = (
            "import shutil, sys\nif '--include-blobs' in sys.argv: sys.exit(1)\n"
            f"shutil.copy({str(made)!r}, sys.argv[sys.argv.index('--output') + 1])\n"
        )
        self.install(tmp_path / "bin", script, monkeypatch)
        assert nsys.read(report)

    def test_with_an_nsys_that_fails(
        self, report: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.install(
            tmp_path / "bin",
            "import sys\nsys.exit('TOKEN=hunter2 in the environment')\n",
            monkeypatch,
        )
        with pytest.raises(UnreadableInputError, match="could not export") as caught:
            nsys.read(report)
        assert "hunter2" not in str(caught.value)


def test_damage_is_named_by_table(target: Path) -> None:
    data = bytearray(long_export(target).read_bytes())
    page = 4096
    for start in range(20 * page, len(data) - page, 40 * page):
        data[start : start + page] = b"\xff" * page
    target.write_bytes(bytes(data))
    (trace,) = nsys.read(target)
    assert trace.health.truncated
    assert any("CUPTI_ACTIVITY_KIND_KERNEL" in note for note in trace.health.notes)


def test_an_empty_export_of_another_kind_of_event(target: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="record with"):
        nsys.read(Export().captured("CAPTURE_EVENT_TYPE", "OSRuntime").write(target))


@pytest.mark.parametrize("seed", range(20))
def test_random_damage_never_ends_in_another_exception(seed: int, target: Path) -> None:
    chance = random.Random(seed)  # noqa: S311 not for cryptography
    data = bytearray(small_run("3.25.0").write(target).read_bytes())
    for _ in range(chance.choice((1, 10, 100))):
        data[chance.randrange(len(data))] = chance.randrange(256)
    target.write_bytes(bytes(data))
    with suppress(TraceAnalyzerError):
        assert nsys.read(target)
