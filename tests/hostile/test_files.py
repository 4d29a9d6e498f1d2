"""Nothing that was read is overwritten; what is written is whole, or as it was."""

from __future__ import annotations

import itertools
import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.test_recordings import small
from traceanalyzer.base import files
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.cli import main


@pytest.fixture(autouse=True)
def _forgotten():
    files.forget_reads()
    yield
    files.forget_reads()


@pytest.fixture
def capture(tmp_path):
    folder = tmp_path / "cap"
    folder.mkdir()
    small().write(folder / "trace.rank0.json.gz")
    (folder / "environment.json").write_text('{"variables": {"OMP_NUM_THREADS": "8"}}')
    (folder / "unprofiled.rank0.json").write_text('{"step_time_ms": 0.9}')
    (folder / "nvml.rank0.jsonl").write_text('{"gpu": 0, "sm_clock_mhz": 1980}\n')
    (folder / "memory.rank0.pickle").write_bytes(b"\x80\x02}.")
    return folder


def status(*arguments):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in arguments])
    return ended.value.code


NEIGHBOURS = [
    "environment.json",
    "unprofiled.rank0.json",
    "nvml.rank0.jsonl",
    "memory.rank0.pickle",
    "trace.rank0.json.gz",
]


@pytest.mark.parametrize("name", NEIGHBOURS)
@pytest.mark.parametrize(
    "command", [["analyze", "--format", "json"], ["overlay"], ["gaps", "--format", "json"]]
)
def test_a_neighbour_of_a_capture_is_not_overwritten(capture, name, command):
    before = (capture / name).read_bytes()
    assert status(*command, capture, "-o", capture / name) in (1, 2)
    assert (capture / name).read_bytes() == before


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("--ncu", '"ID","Kernel Name"\n"",""\n"0","k"\n'),
        ("--hardware", ""),
        ("--kernel-classes", ""),
    ],
)
def test_a_file_given_with_an_option_is_not_overwritten(capture, tmp_path, option, text):
    file = tmp_path / "given.txt"
    file.write_text(text)
    assert status("analyze", capture, option, file, "-o", file, "--format", "json") in (1, 2)
    assert file.read_text() == text


def test_a_hard_link_to_what_was_read_is_not_overwritten(capture, tmp_path):
    other = tmp_path / "other.json"
    os.link(capture / "environment.json", other)
    assert status("analyze", capture, "-o", other) == 1
    assert other.read_text().startswith('{"variables"')


def test_what_came_by_standard_input_is_not_overwritten(capture):
    recording = capture / "trace.rank0.json.gz"
    before = recording.read_bytes()
    for name in (recording, capture / "link.json"):
        command = [
            sys.executable,
            "-m",
            "traceanalyzer",
            "analyze",
            "-",
            "-o",
            str(name),
            "--format",
            "json",
        ]
        with recording.open("rb") as given:
            done = subprocess.run(command, stdin=given, capture_output=True, text=True, check=False)
        assert (done.returncode, "it was read for this result" in done.stderr) == (1, True)
        assert recording.read_bytes() == before
        (capture / "link.json").unlink(missing_ok=True)
        (capture / "link.json").symlink_to(recording)


def test_what_a_shell_pipes_in_is_a_recording(capture):
    command = (
        f"{sys.executable} -m traceanalyzer compare <(cat {capture}/trace*) {capture} --format json"
    )
    done = subprocess.run(["/bin/bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["step"]["difference_ms"] == 0


PIPE = "pipe"
RECORDING = "recording"


@pytest.mark.parametrize(
    "command",
    [
        *(
            ["analyze", RECORDING, option, PIPE]
            for option in ("--hardware", "--ncu", "--kernel-classes")
        ),
        *(
            [name, PIPE]
            for name in ("analyze", "gaps", "overlay", "memory", "compile", "hang", "history")
        ),
        ["compare", PIPE, RECORDING],
        ["compare", RECORDING, PIPE],
        ["check", PIPE, "--max", "gpu_idle_share=1"],
        ["check", RECORDING, "--policy", PIPE],
        ["memory", PIPE, "--other", PIPE],
    ],
    ids=" ".join,
)
def test_a_pipe_that_nobody_writes_is_not_waited_for(capture, tmp_path, command, capsys):
    os.mkfifo(tmp_path / "pipe")
    given = {PIPE: tmp_path / "pipe", RECORDING: capture}
    assert status(*(given.get(word, word) for word in command)) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_a_command_made_on_its_way_goes_when_it_is_ended(capture, tmp_path, number):
    """A spooled recording, while the reader waits for the rest of it."""
    command = [sys.executable, "-m", "traceanalyzer", "analyze", "-"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, env={**os.environ, "TMPDIR": str(tmp_path)}
    ) as running:
        while not list(tmp_path.glob("traceanalyzer-*/*")):
            assert running.poll() is None
        running.send_signal(number)
        assert running.wait(20) == 128 + number
    assert list(tmp_path.glob("traceanalyzer-*")) == []


def test_a_new_file_and_one_of_an_earlier_command_are_written(capture, tmp_path):
    first = tmp_path / "a.json"
    second = tmp_path / "b.md"
    assert status("analyze", capture, "-o", first) == 0
    assert status("compare", first, first, "-o", second, "--format", "markdown") == 0
    assert status("analyze", capture, "-o", first) == 0
    assert json.loads(first.read_text())["schema_version"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.json", "b.md", "cap"]


def test_a_write_that_fails_leaves_the_old_file_whole_and_no_other(tmp_path):
    target = tmp_path / "report.html"
    target.write_text("old")
    target.chmod(0o640)

    def on_a_full_disk():
        with files.replacing(target) as file:
            file.write(b"x" * 100_000)
            raise OSError("disk full")

    with pytest.raises(OSError, match="full"):
        on_a_full_disk()
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert target.read_text() == "old"
    with files.replacing(target) as file:
        file.write(b"new")
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_only_what_replaces_a_file_waits_for_the_disk(tmp_path, monkeypatch):
    waited = []
    monkeypatch.setattr(files.os, "fsync", waited.append)
    for expected in (0, 1):
        with files.replacing(tmp_path / "report.html") as file:
            file.write(b"new")
        assert len(waited) == expected


def test_a_link_stays_a_link(tmp_path):
    target = tmp_path / "real.txt"
    link = tmp_path / "link.txt"
    target.write_text("old")
    link.symlink_to(target)
    with files.replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_device_is_written_as_it_is():
    with files.replacing(files.Path("/dev/null")) as file:
        file.write(b"x")


def test_a_store_that_fails_leaves_no_report_and_no_store(capture, tmp_path, monkeypatch):
    from traceanalyzer.history import runs

    def broken(*_, **__):
        raise TraceAnalyzerError("the disk is full")

    monkeypatch.setattr(runs, "store_report", broken)
    report = tmp_path / "r.json"
    db = tmp_path / "runs.db"
    report.write_text("old")
    assert status("analyze", capture, "-o", report, "--store", db) == 1
    assert report.read_text() == "old"
    assert not db.exists()


def test_a_report_that_cannot_be_written_stores_nothing(capture, tmp_path, monkeypatch):
    from traceanalyzer.cli.io import output

    monkeypatch.setattr(
        output, "replacing", lambda path: files.replacing(tmp_path / "missing" / path.name)
    )
    db = tmp_path / "runs.db"
    assert status("analyze", capture, "-o", tmp_path / "r.json", "--store", db) == 1
    assert not db.exists()


def test_what_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"x" * 100)
    assert files.read_whole(path, 100)
    with pytest.raises(TraceAnalyzerError, match="larger"):
        files.read_whole(path, 99)


@pytest.mark.parametrize("text", ["size", "size=x", "other=1", "size=-1"])
def test_a_limit_that_there_is_not(capture, text):
    assert status("analyze", capture, "--limit", text) == 2


def test_limits_are_raised_by_an_option(capture):
    assert (
        status("analyze", capture, "--limit", "size=4G", "--limit", "ranks=2M", "--format", "json")
        == 0
    )


@pytest.mark.parametrize(
    "output", [["-o", "report.md", "--full"], ["--store", "runs.db"]], ids=["report", "store"]
)
def test_a_write_that_the_system_breaks_off_leaves_the_old_file_whole(capture, tmp_path, output):
    """The system itself refuses every byte beyond the first 2,000 of a file, as it does on a full
    disk."""
    old = tmp_path / output[1]
    command = [sys.executable, "-m", "traceanalyzer", "analyze", str(capture), *output]
    subprocess.run([*command], cwd=tmp_path, check=True, capture_output=True)
    before = old.read_bytes()
    files_before = sorted(tmp_path.iterdir())

    def limited():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, preexec_fn=limited
    )
    assert done.returncode == 1
    assert len(done.stderr.strip().splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert old.read_bytes() == before
    assert sorted(tmp_path.iterdir()) == files_before


def test_nothing_is_left_where_an_interrupt_comes_while_a_file_is_removed(tmp_path, monkeypatch):
    whole = Path.unlink
    count = itertools.count()
    part = files.replacing(tmp_path / "a")

    def unlink(path, missing_ok=False):
        if not next(count):
            raise KeyboardInterrupt
        whole(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    part.__enter__().write(b"half")
    with pytest.raises(KeyboardInterrupt):
        part.__exit__(OSError, OSError(), None)
    assert not list(tmp_path.iterdir())
