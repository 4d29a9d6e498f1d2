"""Several files read at once give what they give one after the other, byte for byte; no process is left behind."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.processes import noted_processes
from tests.recorded import ROOT, ranks, recording
from traceanalyzer.cli import cli
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import file_worker, load, processes, several
from traceanalyzer.reading import read_with
from traceanalyzer.report.build import build_report
from traceanalyzer.report.json import render_json

RANKS = ranks("ranks2/straggler.base")
OTHERS = [
    recording("nsys/tiny_mlp_infer.base"),
    recording("kineto/gemm_fp32.base"),
    *sorted((ROOT / "sample_traces").rglob("*.jsonl"))[:2],
]
SLEEPER = """
import os, sys, time
from traceanalyzer.ingest.processes import requests
def main():
    requests()
    print(os.getpid(), flush=True)
    time.sleep(600)
"""


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(several, "LEAST_BYTES", 1)
    yield
    read_with(jobs=1)


def outcome(paths: list[Path], jobs: int) -> str:
    """The report, or the error, and what could not be read."""
    read_with(jobs=jobs)
    try:
        run = load(paths)
    except TraceAnalyzerError as error:
        return f"{type(error).__name__}: {error}"
    try:
        return render_json(build_report(run)) + repr(run.failures)
    except TraceAnalyzerError as error:
        return f"{error} {run.failures} {run.traces}"


@contextmanager
def in_this_process(_: str, arguments: list[Any], __: float) -> Any:
    """What the workers do, in threads: those of odd number die with their second file."""
    pipes = [(os.pipe(), os.pipe()) for _ in arguments]
    ends = [SimpleNamespace(stdin=os.fdopen(a[1], "wb"), stdout=os.fdopen(b[0], "rb")) for a, b in pipes]

    def work(number: int, source: int, target: int) -> None:
        with open(source, "rb") as requests, open(target, "wb") as answers:
            for count, request in enumerate(requests):
                if count and number % 2:
                    answers.write(b"\x09\x00\x00\x00\x00\x00\x00\x00TA")
                    return
                file_worker.answer(request, answers)

    threads = [threading.Thread(target=work, args=(i, a[0], b[1])) for i, (a, b) in enumerate(pipes)]
    for thread in threads:
        thread.start()
    try:
        yield ends
    finally:
        for one in ends:
            with suppress(OSError):  # the worker has died
                one.stdin.close()
        for thread in threads:
            thread.join()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two ranks, one under a name that is no text, and a file with nothing to be read."""
    shutil.copy(RANKS[0], os.fsencode(tmp_path) + b"/odd\xff.rank0.json.gz")
    shutil.copy(RANKS[1], tmp_path)
    (tmp_path / "damaged.json.gz").write_bytes(gzip.compress(b'{"traceEvents": [{"ph": "X", "na'))
    return tmp_path


def test_files_are_read_by_other_processes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_after_the_other = outcome([folder], 1)
    made = noted_processes(monkeypatch)
    assert outcome([folder], 3) == one_after_the_other
    assert len(made) == 2
    assert all(process.returncode is not None for process in made)


def test_the_command_says_the_same_with_any_number_of_jobs(folder: Path) -> None:
    said = {
        CliRunner().invoke(cli, ["analyze", str(folder), "--format", "json", "--no-cache", "--jobs", jobs]).stdout
        for jobs in ("1", "2", "4")
    }
    assert len(said) == 1
    assert said.pop().startswith("{")


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_files_by_any_number_of_jobs(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Ranks, other formats, logs, files that are cut off, replaced by rubbish, missing; workers that die."""
    into = tmp_path_factory.mktemp("several")
    sources = data.draw(st.lists(st.sampled_from([*RANKS, *OTHERS]), min_size=2, max_size=5))
    paths = []
    for number, source in enumerate(sources):
        path = into / f"{number}.{source.name}"
        match data.draw(st.sampled_from(["whole", "whole", "whole", "cut", "rubbish", "missing"])):
            case "whole":
                shutil.copy(source, path)
            case "cut":
                path.write_bytes(source.read_bytes()[: data.draw(st.integers(0, 60_000))])
            case "rubbish":
                path.write_bytes(b"rubbish")
        paths.append(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(several, "LEAST_BYTES", 1)
        patch.setattr(several, "running", in_this_process)
        assert outcome(paths, data.draw(st.integers(2, 6))) == outcome(paths, 1)


def test_a_worker_that_is_killed_costs_nothing_but_time(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one_after_the_other = outcome([folder], 1)
    made = noted_processes(monkeypatch)
    answered = several.answered

    def killed(*given: Any) -> Any:
        for process in made:
            process.send_signal(signal.SIGKILL)
        return answered(*given)

    monkeypatch.setattr(several, "answered", killed)
    assert outcome([folder], 3) == one_after_the_other
    assert [process.returncode for process in made] == [-signal.SIGKILL] * 2


def test_no_process_can_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise BlockingIOError("Resource temporarily unavailable")

    one_after_the_other = outcome([folder], 1)
    monkeypatch.setattr(subprocess, "Popen", none)
    assert outcome([folder], 3) == one_after_the_other


def test_an_interruption_ends_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    made = noted_processes(monkeypatch)
    monkeypatch.setattr(several.Files, "_wait_for", interrupted)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        outcome([folder], 3)
    assert [process.poll() is None for process in made] == [False, False]
    assert threading.active_count() == before


def test_a_worker_is_interrupted_in_its_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    with processes.running("sleeper", [()], 60) as (worker,):
        assert worker.stdout is not None
        assert int(worker.stdout.readline()) == worker.pid
        begun = time.monotonic()
    assert time.monotonic() - begun < 30
    assert worker.returncode not in (None, -signal.SIGKILL)


def test_a_worker_ends_with_the_process_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "sleeper.py").write_text(SLEEPER)
    program = (
        f"import sys\nsys.path.append({str(tmp_path)!r})\nfrom traceanalyzer.ingest.processes import running\n"
        "with running('sleeper', [()]) as (worker,):\n    print(worker.stdout.readline().decode(), flush=True)\n"
        "    input()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    for _ in range(300):
        if not alive(worker):
            return
        time.sleep(0.1)
    raise AssertionError("it is left")


def test_a_worker_prints_nothing_of_what_is_yet_to_be_printed(tmp_path: Path) -> None:
    (tmp_path / "quick.py").write_text("def main():\n    print('made')\n")
    program = (
        f"import sys\nsys.path.append({str(tmp_path)!r})\nfrom traceanalyzer.ingest.processes import running\n"
        "print('once')\nprint('told once', file=sys.stderr)\n"
        "with running('quick', [()] * 3) as workers:\n    print([one.stdout.read() for one in workers])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["once", str([b"made\n"] * 3)]
    assert done.stderr.splitlines() == ["told once"]


def alive(pid: int) -> bool:
    """Whether the process runs; one that has ended and that nobody asked about does not."""
    try:
        os.kill(pid, 0)
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
    except OSError:
        return False


def test_a_file_that_is_kept_is_given_to_nobody(
    folder: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    from traceanalyzer.ingest.cache import identity

    monkeypatch.setenv("TRACEANALYZER_CACHE", str(tmp_path_factory.mktemp("cache") / "kept"))
    for name, value in (("LEAST_BYTES", 0), ("LEAST_PACKED_BYTES", 0), ("SETTLED_S", -1)):
        monkeypatch.setattr(identity, name, value)
    (folder / "damaged.json.gz").unlink()
    read_with(cache=True)
    try:
        first = outcome([folder], 1)
        made = noted_processes(monkeypatch)
        assert outcome([folder], 4) == first
        assert made == []
    finally:
        read_with(cache=False)


def test_small_files_are_not_worth_a_process(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(several, "LEAST_BYTES", processes.LEAST_BYTES)
    read_with(jobs=16)
    assert several.readers_of(RANKS) == 1
    assert several.readers_of([]) == 1
    made = noted_processes(monkeypatch)
    outcome([folder], 16)
    assert made == []
    monkeypatch.setattr(several, "text_bytes", lambda _: 17_500_000)
    assert several.readers_of(RANKS * 2) == 2
    assert several.readers_of(RANKS * 32) == 16


def test_progress_reaches_the_end(folder: Path) -> None:
    read_with(jobs=2)
    seen: list[tuple[int, int]] = []
    load([folder], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert all(0 <= done <= total for done, total in seen)
