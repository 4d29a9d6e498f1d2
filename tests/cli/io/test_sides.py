"""Both sides of a comparison at once give what they give one after the other, byte for byte."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.processes import noted_processes
from tests.recorded import recording
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli.io import sides
from traceanalyzer.ingest.cache import identity


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Two recordings and a file that is none; any size is worth a process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sides, "LEAST_BYTES", 1)
    for name, target in (("base", "a"), ("fix", "b")):
        shutil.copy(recording(f"kineto/gemm_fp32.{name}"), tmp_path / f"{target}.json.gz")
    Path("rubbish.json").write_text("rubbish")
    yield tmp_path
    read_with(jobs=1)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    return noted_processes(monkeypatch)


@pytest.mark.parametrize("format_", ["json", "html"])
def test_the_same_with_any_number_of_jobs(
    format_: str, files: Path, run: Any, started: list[Any]
) -> None:
    said = []
    for jobs in (1, 2, 3):
        run(
            "compare",
            "a.json.gz",
            "b.json.gz",
            "-o",
            f"{jobs}.{format_}",
            "--no-cache",
            "--jobs",
            jobs,
        )
        said.append((files / f"{jobs}.{format_}").read_bytes())
    assert said == [said[0]] * 3
    assert [process.exitcode for process in started] == [0, 0]


def test_what_was_worked_out_before_needs_no_process(
    files: Path, run: Any, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRACEANALYZER_CACHE", str(files / "kept"))
    for name, value in (("LEAST_BYTES", 0), ("LEAST_PACKED_BYTES", 0), ("SETTLED_S", -1)):
        monkeypatch.setattr(identity, name, value)
    for file in ("a.json.gz", "b.json.gz"):
        run("analyze", file)
    together = run("compare", "a.json.gz", "b.json.gz", "--jobs", 2, "--format", "json")
    assert started == []
    assert together == run(
        "compare", "a.json.gz", "b.json.gz", "--no-cache", "--jobs", 1, "--format", "json"
    )
    run("compare", "a.json.gz", "b.json.gz", "--jobs", 2, "--step", 1)
    assert len(started) == 1


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("rubbish.json", "b.json.gz"),
        ("a.json.gz", "rubbish.json"),
        ("rubbish.json", "rubbish.json"),
    ],
)
def test_what_is_wrong_is_said_as_by_one(a: str, b: str, files: Path, run: Any) -> None:
    alone, together = (run("compare", a, b, "--no-cache", "--jobs", jobs) for jobs in (1, 2))
    assert together == alone
    assert alone[0] == 1


def test_a_step_that_there_is_not(files: Path, run: Any) -> None:
    alone, together = (
        run("compare", "a.json.gz", "b.json.gz", "--step", 999, "--jobs", jobs) for jobs in (1, 2)
    )
    assert together == alone


def test_a_process_that_dies_costs_nothing_but_time(
    files: Path, run: Any, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = run("compare", "a.json.gz", "b.json.gz", "--format", "json", "--no-cache", "--jobs", 1)
    here = os.getpid()
    side = sides._side

    def killed(*given: Any) -> Any:
        if os.getpid() != here:
            os.kill(os.getpid(), signal.SIGKILL)
        return side(*given)

    monkeypatch.setattr(sides, "_side", killed)
    assert (
        run("compare", "a.json.gz", "b.json.gz", "--format", "json", "--no-cache", "--jobs", 2)
        == alone
    )
    assert len(started) == 1


def test_an_interruption_ends_both(
    files: Path, run: Any, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(sides, "_side", interrupted)
    status, _, error = run("compare", "a.json.gz", "b.json.gz", "--jobs", 2)
    assert status != 0
    assert "Traceback" not in error
    assert [process.exitcode is None for process in started] == [False]


def test_what_was_read_is_not_overwritten(files: Path, run: Any, started: list[Any]) -> None:
    before = (files / "a.json.gz").read_bytes()
    status, _, _ = run(
        "compare", "a.json.gz", "b.json.gz", "--format", "json", "-o", "a.json.gz", "--jobs", 2
    )
    assert status != 0
    assert (files / "a.json.gz").read_bytes() == before


def test_folders_and_small_files_are_read_by_this_process(files: Path) -> None:
    read_with(jobs=4)
    assert sides._worth_a_process("a.json.gz", "b.json.gz")
    assert not sides._worth_a_process("a.json.gz", ".")
    assert not sides._worth_a_process("runs.db#42", "b.json.gz")
    read_with(jobs=1)
    assert not sides._worth_a_process("a.json.gz", "b.json.gz")
