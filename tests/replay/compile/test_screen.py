"""What the first screen on torch.compile says: each thing once, what a change gains before it."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.compile.judged import CompileAdvice, _replayed
from traceanalyzer.diagnosis.compile.measured import diagnose_compile
from traceanalyzer.diagnosis.finding import AtStart, Recommendation
from traceanalyzer.ingest.torch_log import read_logs
from traceanalyzer.replay.compile.measure import MUCH_LOGGING, _cost_of_the_log
from traceanalyzer.replay.compile.model import CudaGraphUse
from traceanalyzer.report.compile import compiled_rows
from traceanalyzer.report.compile.build import compile_report
from traceanalyzer.report.compile.document import compile_document
from traceanalyzer.report.compile.strip import CompileReport
from traceanalyzer.report.outline.gains import prediction

DATA = Path(__file__).parents[2] / "data" / "compile"


def report_of(name: str) -> CompileReport:
    return compile_report(read_logs(DATA / name))


def screen_of(report: CompileReport) -> str:
    return compile_document(report, full=False).terminal(100)


def test_of_a_failure_the_error_stands_once() -> None:
    report = report_of("clean.log.gz")
    compiled = replace(report.compiled, errors=["f (a.py:1): RuntimeError: broken backend"])
    failed = replace(report, compiled=compiled, diagnosis=diagnose_compile(compiled, None))
    text = screen_of(failed)
    assert text.count("broken backend") == 1
    assert "gain unknown [fix_compile_error]  Fix the error" in text


def test_a_clean_log_has_nothing_to_fix_and_no_notes() -> None:
    report = report_of("clean.log.gz")
    assert any("LOG_TLPARSE" in note for note in report.compiled.notes)
    text = screen_of(report)
    assert "recompilation.\nNothing found.\n\nNext:" in text


def test_what_is_wrong_stands_apart_from_what_to_change() -> None:
    text = screen_of(report_of("break_once.log.gz"))
    found, _, advice = text.partition("What to change")
    assert "What costs time\n1. Graph break:" in found
    assert "1. gain unknown [remove_graph_breaks]" in advice


@pytest.mark.parametrize(("share", "is_minor"), [(0.5, True), (2.0, False)])
def test_only_a_log_that_costs_much_is_worth_a_line(share: float, is_minor: bool) -> None:
    note = _cost_of_the_log(share * MUCH_LOGGING * 10.0, 10.0)
    assert isinstance(note, str)
    assert (type(note) is not str) is is_minor


def test_no_remedy_makes_the_step_longer() -> None:
    row = CudaGraphUse(
        used=False,
        wanted=True,
        recorded=0,
        rerecorded=0,
        skipped=["x"],
        skipped_graphs=1,
        predicted_step_ms=2.0,
        low_ms=1.0,
        high_ms=5.0,
    )
    found = _replayed(row, 4.0)
    assert (found["low_ms"], found["high_ms"], found["predicted_speedup"]) == (1.0, 4.0, 2.0)
    advice = CompileAdvice(id="x", remedy="x", cls="host", action="x", basis="", **found)
    assert advice.may_not_help(4.0)
    assert not advice.may_not_help(4.5)


def test_notes_that_change_nothing_are_drawn_in_every_form() -> None:
    report = report_of("clean.log.gz")
    printed = compile_document(report, full=True)
    for text in (printed.terminal(100), printed.markdown(), printed.html(), printed.json()):
        assert "own estimates" in text


def full_report(log: Path) -> str:
    result = CliRunner().invoke(cli, ["analyze", "--full", str(log)])
    assert result.exit_code == 0, result.output
    return result.output


def test_a_log_alone_says_its_findings_and_advice_once() -> None:
    text = full_report(DATA / "break_once.log.gz")
    titles = [line for line, under in pairwise(text.split("\n")) if under.startswith("──")]
    assert titles[:4] == ["Summary", "Metrics", "Findings", "Recommendations"]
    assert text.count("\n1. Graph break:") == 1
    assert "Nothing was measured" not in text
    assert "Compile time" in text.partition("Findings")[0]


def test_advice_on_the_start_says_what_it_makes_of_the_compilation() -> None:
    advice = Recommendation("recompilation", "host", "Pad.", None, None, "one compilation")
    known = replace(advice, at_start=AtStart(32.7, 7.56, 5.82, 11.6))
    report = ta.analyze(str(DATA / "clean.log.gz"))
    assert prediction(report, advice) == "gain unknown"
    assert prediction(report, known) == "32.7 → 7.56 s (5.82 to 11.6) of compilation"


def test_a_kernel_that_many_graphs_have_is_one_row() -> None:
    log = read_logs(DATA / "clean.log.gz")
    compiled = compile_report(log).compiled
    twice = [*compiled.kernels, *(replace(row, graph="other") for row in compiled.kernels)]
    shown = compiled_rows.rows_of_kernels(twice)
    assert len(shown) == len({row.name for row in compiled.kernels})
    assert shown[0].graphs == 2
    assert shown[0].line.startswith("compile_cases.py:")


def test_a_page_opens_with_what_to_change_and_markdown_has_the_four_parts() -> None:
    printed = compile_document(report_of("break_once.log.gz"), full=True)
    headings = [line[3:] for line in printed.markdown().splitlines() if line.startswith("## ")]
    assert headings == ["Summary", "Metrics", "Findings", "Recommendations", "Details"]
    page = printed.html()
    assert page.index("What to change") < page.index(">Metrics</h2>")
    assert page.index(">Findings</h2>") < page.index(">Recommendations</h2>")
    assert page.index(">Recommendations</h2>") < page.index(">Graph breaks</h3>")
