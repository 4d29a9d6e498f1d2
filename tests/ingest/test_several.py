"""Several files read at once give what they give one after the other, byte for byte; no process is
left behind."""

from __future__ import annotations

import gzip
import os
import shutil
import signal
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
from traceanalyzer.base import parallel
from traceanalyzer.base.errors import TraceAnalyzerError
from traceanalyzer.base.parallel import children
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli import cli
from traceanalyzer.ingest import folders, load
from traceanalyzer.report.build import build_report
from traceanalyzer.report.json import render_json

RANKS = ranks("ranks2/straggler.base")
OTHERS = [
    recording("nsys/tiny_mlp_infer.base"),
    recording("kineto/gemm_fp32.base"),
    *sorted((ROOT / "sample_traces").rglob("*.jsonl"))[:2],
]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(folders, "LEAST_BYTES", 1)
    yield
    read_with(jobs=1)


def test_what_is_hidden_in_a_folder_is_no_recording(tmp_path: Path) -> None:
    steps = "".join(f'{{"step": {n}, "step_ms": 10.0}}\n' for n in range(20))
    for name in (".runs.jsonl", "steps.jsonl"):
        (tmp_path / name).write_text(steps)
    assert folders.recordings_in(tmp_path) == [tmp_path / "steps.jsonl"]


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
def in_this_process(work: Any, count: int) -> Any:
    """What the helpers do, without their processes: one file each in turn, and the rest is left to
    this one. Those of odd number die with their second file."""
    todo, numbers, _ = work.args
    helpers: list[Any] = [work() for _ in range(count)]
    found: list[list[Any]] = [[] for _ in helpers]
    for turn in range(len(todo) // 2 if count else 0):
        one = turn % count
        if one % 2 and found[one]:
            next(iter(numbers), None)
            continue
        with suppress(StopIteration):
            found[one].append(next(helpers[one]))
    yield [SimpleNamespace(values=lambda sent=sent: sent) for sent in found]


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
    assert all(process.exitcode == 0 for process in made)


def test_the_command_says_the_same_with_any_number_of_jobs(folder: Path) -> None:
    said = {
        CliRunner()
        .invoke(cli, ["analyze", str(folder), "--format", "json", "--no-cache", "--jobs", jobs])
        .stdout
        for jobs in ("1", "2", "4")
    }
    assert len(said) == 1
    assert said.pop().startswith("{")


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_files_by_any_number_of_jobs(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Ranks, other formats, logs, files that are cut off, replaced by rubbish, missing; workers
    that die."""
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
        patch.setattr(folders, "LEAST_BYTES", 1)
        patch.setattr(folders, "children", in_this_process)
        assert outcome(paths, data.draw(st.integers(2, 6))) == outcome(paths, 1)


def test_a_helper_that_is_killed_costs_nothing_but_time(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)

    one_after_the_other = outcome([folder], 1)
    made = noted_processes(monkeypatch)
    monkeypatch.setattr(folders, "_read_apart", killed)
    assert outcome([folder], 3) == one_after_the_other
    assert [process.exitcode for process in made] == [-signal.SIGKILL] * 2


def test_no_process_can_be_started(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise BlockingIOError("Resource temporarily unavailable")

    one_after_the_other = outcome([folder], 1)
    monkeypatch.setattr(children, "_started", none)
    assert outcome([folder], 3) == one_after_the_other


def test_an_interruption_ends_all(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Any:
        raise KeyboardInterrupt

    made = noted_processes(monkeypatch)
    monkeypatch.setattr(folders, "note_read", interrupted)
    with pytest.raises(KeyboardInterrupt):
        outcome([folder], 3)
    assert [process.exitcode is None for process in made] == [False, False]


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
    monkeypatch.setattr(folders, "LEAST_BYTES", parallel.LEAST_BYTES)
    read_with(jobs=16)
    assert folders.readers_of(RANKS) == 1
    assert folders.readers_of([]) == 1
    made = noted_processes(monkeypatch)
    outcome([folder], 16)
    assert made == []
    monkeypatch.setattr(folders, "text_bytes", lambda _: 17_500_000)
    assert folders.readers_of(RANKS * 2) == 2
    assert folders.readers_of(RANKS * 32) == 16


def test_progress_reaches_the_end(folder: Path) -> None:
    read_with(jobs=2)
    seen: list[tuple[int, int]] = []
    load([folder], progress=lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    assert all(0 <= done <= total for done, total in seen)


def test_a_file_called_like_the_others_that_is_none_is_named(tmp_path: Path) -> None:
    for file in RANKS:
        shutil.copy(file, tmp_path)
    (tmp_path / "straggler.base.rank2.json").write_text("hello")
    assert [(Path(one.path).name, one.rank) for one in load([tmp_path]).failures] == [
        ("straggler.base.rank2.json", 2)
    ]
