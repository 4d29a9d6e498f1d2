"""A kept answer is the one that would be worked out, byte for byte, and belongs to all that it
depends on."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.ingest.cache.asked import LEFT, assert_told_again, kept, told
from tests.recorded import EVERY_FILE, GPU, ROOT, label
from traceanalyzer.analysis.joined.knowledge import Knowledge
from traceanalyzer.base.reading import read_with
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis import selection
from traceanalyzer.diagnosis.question import Query
from traceanalyzer.diagnosis.remedies import advice
from traceanalyzer.ingest import load
from traceanalyzer.ingest.cache import answers, store
from traceanalyzer.ingest.cache.answers import answered_once
from traceanalyzer.report.build import build_report
from traceanalyzer.report.json import render_json
from traceanalyzer.report.kept_answers import kept_rows
from traceanalyzer.report.kept_report import kept_report
from traceanalyzer.report.table_entries import TABLES
from traceanalyzer.report.table_entries.kinds import RowFilter

SAMPLES = sorted((ROOT / "sample_traces").glob("*/trace*.gz")) + sorted(
    (ROOT / "sample_traces").glob("*/*.sqlite*")
)
RECORDED = [path for path in (*EVERY_FILE, *GPU, *SAMPLES) if "timing" not in path.parent.name]


@pytest.fixture(autouse=True)
def no_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was printed before (`test_pages.py`) would be printed before an answer is looked for."""
    monkeypatch.setattr("traceanalyzer.ingest.cache.pages.answered_page", lambda *_: None)
    for left in LEFT:
        monkeypatch.setattr(f"traceanalyzer.report.{left}.answered_page", lambda *_: None)


def refuse(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object) -> object:
        raise AssertionError("it was worked out, not read")

    for user in (advice, selection):
        monkeypatch.setattr(user, "measured", measured)


@pytest.mark.parametrize("path", RECORDED[::5], ids=label)
def test_reports_and_tables_come_back_as_they_were(
    path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = load([path])
    asked = Query(run)
    report = kept_report(asked)
    rows = kept_rows(asked, *((table.name, RowFilter()) for table in TABLES))
    assert len(kept(cache)) == 2
    refuse(monkeypatch)
    again = Query(load([path]))
    assert (kept_report(again), render_json(kept_report(again))) == (report, render_json(report))
    assert kept_rows(again, *((table.name, RowFilter()) for table in TABLES)) == rows


@pytest.mark.parametrize(
    "words",
    [
        ["analyze"],
        ["analyze", "--full"],
        ["analyze", "--format", "json"],
        ["analyze", "--format", "markdown"],
        ["analyze", "--redact"],
        ["gaps"],
        ["kernels", "--sort", "calls"],
        ["ops", "--by-shape", "--format", "csv"],
        ["whatif"],
        ["whatif", "--speedup", "gemm=2", "--format", "json"],
    ],
    ids=" ".join,
)
def test_commands_answer_without_working_out_again(
    words: list[str], cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert_told_again(words, trace_file, lambda: refuse(monkeypatch))


def test_a_page_is_the_same_with_a_kept_report(cache: Path, trace_file: Path) -> None:
    first = told("analyze", trace_file, "--format", "html")
    second = told("analyze", trace_file, "--format", "html")
    assert first == second


@pytest.mark.parametrize("path", RECORDED[2::10], ids=label)
def test_one_kept_report_serves_any_number_of_rows(path: Path, cache: Path) -> None:
    run = load([path])
    for top in (30, 300, 1):
        report = kept_report(Query(run), top)
        assert render_json(report) == render_json(build_report(run, top=top))
    assert len(kept(cache)) == 1
    assert kept_report(Query(run), 500) == build_report(run, top=500)
    assert len(kept(cache)) == 2


def test_knowledge_of_another_process_is_the_same(cache: Path, trace_file: Path) -> None:
    """One side of a comparison is worked out there, and asks with what it was sent."""
    report = kept_report(Query(load([trace_file]), None, Knowledge()))
    sent = pickle.loads(pickle.dumps(Knowledge()))  # noqa: S301
    assert kept_report(Query(load([trace_file]), None, sent)) == report
    assert len(kept(cache)) == 1


@pytest.mark.parametrize("words", ["--top 301", "--device 0", "--step 0", "--samples 8"])
def test_options_are_part_of_the_question(words: str, cache: Path, trace_file: Path) -> None:
    plain = told("analyze", trace_file, "--format", "json")
    read_with(cache=False)
    without = told("analyze", trace_file, "--format", "json", "--no-cache", *words.split())
    read_with(cache=True)
    assert told("analyze", trace_file, "--format", "json", *words.split()) == without
    assert told("analyze", trace_file, "--format", "json") == plain
    assert len(kept(cache)) == 2


def test_what_lies_beside_a_recording_is_part_of_the_question(cache: Path, tmp_path: Path) -> None:
    here = tmp_path / "capture"
    shutil.copytree(ROOT / "sample_traces" / "sync_bound", here)
    before = json.loads(told("analyze", here, "--format", "json"))
    assert before["metrics"]["unprofiled_source"] == "measured"
    (here / "unprofiled.rank0.json").unlink()
    after = json.loads(told("analyze", here, "--format", "json"))
    assert after["metrics"]["unprofiled_source"] == "estimated"


def test_the_program_is_part_of_the_question(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("analyze", trace_file)
    monkeypatch.setattr(answers, "program_state", lambda *_: "another version")
    told("analyze", trace_file)
    assert len(kept(cache)) == 2


def test_answers_that_depend_on_files_of_the_users_are_not_kept(
    cache: Path, trace_file: Path, tmp_path: Path
) -> None:
    mine = """
        [[gpu]]
        name = "Mine"
        source = "me"
        match = ["Mine"]
        memory_gb = [9]
        bandwidth_gbs = 9
        tensor = {}
        vector = {}
    """
    (tmp_path / "gpus.toml").write_text(mine)
    told("analyze", trace_file, "--hardware", tmp_path / "gpus.toml")
    assert kept(cache) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data + b" ",
        lambda data: data[:60] + b"x" + data[61:],
        lambda _: b"[" * 100_000,
    ],
)
def test_a_damaged_answer_is_worked_out_again(change, cache: Path, trace_file: Path) -> None:
    first = told("analyze", trace_file)
    (answer,) = kept(cache)
    sound = answer.read_bytes()
    answer.write_bytes(change(sound))
    assert told("analyze", trace_file) == first
    assert answer.read_bytes() == sound


def test_an_answer_to_another_question_is_refused(cache: Path, trace_file: Path) -> None:
    told("analyze", trace_file, "--format", "json", "--step", "0")
    (other,) = kept(cache)
    right = told("analyze", trace_file, "--format", "json")
    (mine,) = set(kept(cache)) - {other}
    shutil.copy(other, mine)
    assert told("analyze", trace_file, "--format", "json") == right


def test_an_answer_that_others_may_write_is_not_believed(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("analyze", trace_file)
    kept(cache)[0].chmod(0o666)
    refuse(monkeypatch)
    with pytest.raises(AssertionError):
        CliRunner().invoke(cli, ["analyze", str(trace_file)], catch_exceptions=False)


def test_what_would_not_come_back_as_it_was_is_not_kept(cache: Path, trace_file: Path) -> None:
    run = load([trace_file])
    for value, decode in (
        (float("nan"), json.loads),
        ((1, 2), json.loads),
        (1.0, lambda data: int(json.loads(data))),
    ):
        asked = answered_once(
            run, ("?", repr(value)), lambda value=value: value, json.dumps, decode
        )
        assert repr(asked) == repr(value)
    assert kept(cache) == []
    answered_once(run, ("?",), lambda: [1], json.dumps, json.loads)
    assert len(kept(cache)) == 1


def test_a_very_long_answer_is_not_kept(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "MOST_TEXT_BYTES", 1000)
    told("analyze", trace_file)
    assert kept(cache) == []


def test_a_full_disk_costs_nothing(
    cache: Path, trace_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told("gaps", trace_file)
    monkeypatch.setattr(store, "LEAST_FREE_BYTES", 1 << 62)
    before = kept(cache)
    told("analyze", trace_file)
    assert kept(cache) == before


def test_a_recording_that_is_not_kept_leaves_no_answer(cache: Path, trace_file: Path) -> None:
    read_with(cache=False)
    run = load([trace_file])
    read_with(cache=True)
    kept_report(Query(run))
    assert not kept(cache)
