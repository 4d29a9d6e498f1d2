"""What is wrong with a server is said before its load: it died, it stalled, requests failed, an engine idles."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests import serving_texts as texts
from traceanalyzer.cli import cli
from traceanalyzer.report.terminal.screen import render_screen

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report.model import Report

QUIET = texts.vllm_log(48, 0, 31.0, 0.0).replace("812.0", "0.0")


def analyzed(tmp_path: Path, text: str) -> Report:
    path = tmp_path / "server.log"
    path.write_text(text, encoding="utf-8")
    return ta.analyze(path)


def engine(text: str, number: int) -> str:
    """The lines as another of several engines writes them."""
    return text.replace("Engine 000", f"Engine {number:03}").replace(" TP0", f" DP{number} TP0")


@pytest.mark.parametrize("silent", [QUIET * 2, QUIET.replace("Running: 48", "Running: 3")])
def test_a_server_that_gives_no_token_stalled(tmp_path: Path, silent: str) -> None:
    report = analyzed(tmp_path, texts.vllm_log(48, 0, 31.0, 2000.0) + silent)
    count = silent.count("\n")
    assert report.summary.headline.startswith(f"Stalled: in the last {count} lines on its load ")
    assert "No request waits" not in report.summary.headline
    load = report.metrics.serving
    assert load is not None
    assert load.output_tokens_per_s == pytest.approx(3 * 2000.0 / (3 + count))
    assert load.prompt_tokens_per_s == pytest.approx(3 * 812.0 / (3 + count))
    assert report.metrics.timing is not None
    assert report.metrics.timing.tokens_per_s == load.output_tokens_per_s


def test_a_stall_that_ends_is_told_as_one(tmp_path: Path) -> None:
    busy = texts.vllm_log(48, 0, 31.0)
    headline = analyzed(tmp_path, busy + QUIET + busy).summary.headline
    assert headline.startswith("Stalled: in 3 lines in a row on its load 48 requests run")


def test_an_idle_server_and_a_long_prefill_are_no_stall(tmp_path: Path) -> None:
    busy = texts.vllm_log(48, 0, 31.0, 2000.0)
    for quiet in (QUIET.replace("Running: 48", "Running: 0"), QUIET[: 2 * len(QUIET) // 3]):
        report = analyzed(tmp_path, busy + quiet)
        assert report.summary.headline.startswith("No request waits")
    report = analyzed(tmp_path, busy + QUIET.replace("Running: 48", "Running: 0"))
    assert report.metrics.serving is not None
    assert report.metrics.serving.output_tokens_per_s == 2000.0, "idle lines do not count"


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (texts.vllm_log(48, 0, 31.0) + texts.VLLM_DIED.format(n=4), "RuntimeError: CUDA error"),
        (texts.sglang_log(48, 0, 0.3) + texts.SGLANG_DIED, "ValueError: token_to_kv_pool leaks"),
    ],
)
def test_a_server_that_died_is_said_first(tmp_path: Path, text: str, error: str) -> None:
    headline = analyzed(tmp_path, text).summary.headline
    start = f"The log ends with an error. The engine died. {error}"
    assert headline.startswith(start)
    assert "No request waits" not in headline
    again = analyzed(tmp_path, text + texts.vllm_log(48, 0, 31.0) + texts.sglang_log(48, 0, 0.3))
    assert not again.summary.headline.startswith("The log ends"), "it was started again"


def test_sizes_in_the_message_of_a_failed_allocation_are_no_peak(tmp_path: Path) -> None:
    message = (
        "ERROR torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB. GPU 0 has a total capacity of "
        "79.11 GiB of which 1.20 GiB is free. Of the allocated memory 74.06 GiB is allocated by PyTorch, with 480.00 "
        "MiB allocated in private pools (e.g., CUDA Graphs), and 1.01 GiB is reserved by PyTorch but unallocated.\n"
    )
    report = analyzed(tmp_path, texts.vllm_log(48, 0, 31.0) + message)
    assert report.summary.headline.startswith("The log ends with an error. The message of an alloc")
    assert "480" not in render_screen(report)
    survived = analyzed(tmp_path, message + texts.vllm_log(48, 0, 31.0))
    assert survived.summary.headline.startswith("No request waits")
    assert not any("ends with an error" in note for note in survived.notes)


def test_failed_requests_are_on_the_first_screen(tmp_path: Path) -> None:
    screen = render_screen(analyzed(tmp_path, texts.vllm_bench(12, 988)))
    assert "\n988 of 1,000 requests failed: figures are of the others." in screen
    report = analyzed(tmp_path, texts.vllm_bench(0, 1000))
    assert report.summary.headline.startswith("All 1,000 requests failed.")
    written = '{"completed": 0, "failed": 7, "request_throughput": 0.0, "mean_ttft_ms": 0.0}'
    assert analyzed(tmp_path, written).summary.headline.startswith("All 7 requests failed.")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (texts.vllm_log(20, 0, 30.0, 1900.0), texts.vllm_log(60, 0, 30.0, 1800.0)),
        (texts.sglang_log(20, 0, 0.3), texts.sglang_log(60, 0, 0.3)),
    ],
)
def test_rates_of_several_engines_are_summed(tmp_path: Path, one: str, other: str) -> None:
    alone = [analyzed(tmp_path, text).metrics.serving for text in (one, other)]
    report = analyzed(tmp_path, engine(one, 0) + engine(other, 1))
    load = report.metrics.serving
    assert load is not None
    assert load.engines == 2
    assert load.running_requests == 40
    assert load.concurrency == 80
    rates = [each.output_tokens_per_s for each in alone if each is not None]
    assert load.output_tokens_per_s == pytest.approx(sum(filter(None, rates)))
    assert "These are means of 2 engines" in report.summary.headline


@pytest.mark.parametrize(
    ("full", "idle", "even"),
    [
        (
            texts.vllm_log(128, 90, 97.0),
            texts.vllm_log(4, 0, 30.0),
            texts.vllm_log(120, 70, 96.0),
        ),
        (
            texts.sglang_log(128, 90, 0.97),
            texts.sglang_log(4, 0, 0.3),
            texts.sglang_log(120, 70, 0.96),
        ),
    ],
)
def test_an_engine_with_room_beside_a_full_one_is_told(
    tmp_path: Path, full: str, idle: str, even: str
) -> None:
    report = analyzed(tmp_path, engine(full, 0) + engine(idle, 1))
    start = (
        "Engine 1 has room: it runs 4 and none waits there, while engine 0 runs 128 and 90 wait."
    )
    assert report.summary.headline.startswith(start)
    assert not report.findings, "no larger engine is needed"
    report = analyzed(tmp_path, engine(full, 0) + engine(even, 1))
    assert [one.id for one in report.findings] == ["kv-cache-full"]


def test_a_table_that_is_whole_is_not_called_cut(tmp_path: Path) -> None:
    path = tmp_path / "summary.txt"
    path.write_text(texts.VLLM_METRICS, encoding="utf-8")
    shown = CliRunner().invoke(cli, ["show", "serving", str(path), "--format", "json"]).output
    count = shown.count('"figure"')
    for top, is_cut in ((count, False), (count - 1, True)):
        result = CliRunner().invoke(cli, ["show", "serving", str(path), "--top", str(top)])
        assert (f"The first {top};" in result.output) == is_cut
