"""`traceanalyzer explain`."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from traceanalyzer.cli import cli
from traceanalyzer.diagnosis.pages import finding_pages
from traceanalyzer.diagnosis.remedies import REMEDIES
from traceanalyzer.replay.scenarios import SCENARIOS
from traceanalyzer.report.explain import THRESHOLD, page_in_words


def explain(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["explain", *words])
    return result.exit_code, result.output


def test_a_finding_is_explained_without_the_marks_of_the_generator() -> None:
    status, text = explain("condition-gpu-0-throttling")
    assert status == 0
    assert text.startswith("condition: ")
    assert "<!--" not in text


def test_a_page_is_printed_without_markdown_and_thresholds_are_numbers() -> None:
    text = explain("host-waits")[1]
    assert text.startswith("host-waits: The CPU blocks on the GPU")
    assert "fewer than 16 launches" in text
    for page in finding_pages().values():
        printed = page_in_words(page)
        prose = "".join(f"{line}\n" for line in printed.splitlines() if line[:1] != " ")
        assert not {"`", "**", "```", "## "} & set(re.findall(r"`+|\*\*|^## ", prose, re.M)), (
            page.id
        )
        assert not [name for name, _ in THRESHOLD.findall(page.text) if name in printed], page.id


def test_of_several_definitions_the_words_are_first_then_that_of_the_first_screen() -> None:
    first, second = explain("MFU")[1].split("MFU: ")[1:3]
    assert "`of 47% reachable`" in first
    assert second.endswith("which `analyze` shows first\n")


def test_all_findings_are_listed() -> None:
    status, text = explain()
    assert status == 0
    assert "launch-bound" in {line.split()[0] for line in text.splitlines()}
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("name", [one.id for one in (*SCENARIOS, *REMEDIES)])
def test_what_whatif_predicts_is_explained(name: str) -> None:
    status, text = explain(name)
    assert status == 0
    assert "\nPredicted by `traceanalyzer whatif PATH`.\n" in text


def test_changes_made_together_are_explained_one_by_one() -> None:
    status, text = explain("remove_syncs+cuda_graph")
    assert status == 0
    assert text.startswith("remove_syncs: The CPU no longer waits")
    assert "\ncuda_graph: All launches" in text


def test_an_unknown_finding_is_a_usage_error() -> None:
    status, text = explain("slowness")
    assert status == 2
    assert "there is no finding, metric or column 'slowness'" in text
    assert "did you mean launch-bound?" in explain("launch_bond")[1]
    assert "did you mean" not in explain("foo")[1]


def test_a_metric_is_explained_with_its_place_and_unit() -> None:
    status, text = explain("gpu_busy_share")
    assert status == 0
    assert "(share)" in text
    assert "in metrics" in text
    assert explain("budget_ms.idle")[0] == 0


def test_a_word_of_several_needs_no_quotes() -> None:
    status, text = explain("close", "call")
    assert (status, text) == explain("close call")
    assert text.startswith("close call: How sure the verdict is")


def test_a_change_says_what_to_do_and_what_its_replay_assumes() -> None:
    _, out = explain("pinned_memory")
    assert "pinned_memory: Copies use page-locked host memory" in out
    assert "What to do: one of these" in out
    assert "\n- Pin host memory:" in out
    assert "Its replay assumes:\n- " in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("width", [80, 100])
def test_all_that_is_explained_has_the_width_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    for name in ("host-waits", "launch-bound", "exposed-communication", "MFU", "warm_up"):
        lines = [line for line in explain(name)[1].splitlines() if not line.startswith("  ")]
        assert max(map(len, lines)) <= width, name


@pytest.mark.parametrize("word", ["below 2%", "within noise", "noise as recorded"])
def test_words_of_a_comparison_are_known(word: str) -> None:
    assert explain(word)[0] == 0
