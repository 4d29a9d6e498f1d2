"""A server's log alone: its iterations by kind, in a server's words."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.recorded import ROOT
from traceanalyzer.report.terminal.screen import render_screen, render_terminal

if TYPE_CHECKING:
    from pathlib import Path

    from traceanalyzer.report.model import Report

DATA = ROOT / "tests" / "data"
TRAINING = re.compile(
    r"\b(train\w*|epoch|optimizer|loss|gradient|loader|collect torch)\b", re.IGNORECASE
)


def iterations(path: Path, mixed_ms: float) -> Report:
    """200 iterations, one in ten with prompts, the first slower than others of its kind."""
    lines = []
    for i in range(200):
        prompts = i % 10 == 9
        work = "1 context requests, 512" if prompts else "0 context requests, 0"
        time_ms = mixed_ms if prompts else 30.0 if i == 0 else 10.0
        lines.append(
            f"INFO Iteration({i}): {work} context tokens, 8 generation requests, 8 generation "
            f"tokens, iteration elapsed time: {time_ms} ms\n"
        )
    path.write_text("".join(lines))
    return ta.analyze(path)


def test_kinds_are_told_apart_and_nothing_is_left_out_as_a_warm_up(tmp_path: Path) -> None:
    report = iterations(tmp_path / "server.log", 80.0)
    said = report.summary.headline
    assert "200 iterations: 180 decode, median 10 ms (p99 10 ms); 20 mixed, median 80 ms" in said
    assert "/start_profile" in said
    assert report.metrics.step_time_ms is not None
    assert report.metrics.step_time_ms.count == 200
    assert report.summary.step_ms == pytest.approx((179 * 10 + 30 + 20 * 80) / 200)
    assert not report.findings, "prompts are no outliers"
    assert not TRAINING.search(f"{said} {' '.join(report.notes)}")


def test_decodes_that_wait_for_prompts_have_a_flag(tmp_path: Path) -> None:
    for mixed_ms, is_told in ((80.0, True), (11.0, False)):
        notes = iterations(tmp_path / f"{mixed_ms}.log", mixed_ms).notes
        told = [note for note in notes if "--max-num-batched-tokens" in note]
        assert bool(told) == is_told
        assert all("take 80 ms, without them 10 ms" in note for note in told)


def test_a_log_of_batches_without_times_says_load_and_rate(tmp_path: Path) -> None:
    path = tmp_path / "server.log"
    path.write_text(
        "[2026-01-01 00:00:00] Decode batch, #running-req: 5, #token: 5125, token usage: 0.1, "
        "cuda graph: True, gen throughput (token/s): 476.2, #queue-req: 0\n" * 3
    )
    report = ta.analyze(path)
    load = "No request waits: 5 run at a time, and the KV cache is 10% full."
    assert report.summary.headline.startswith(f"{load} 476 generated tokens/s.")
    assert not TRAINING.search(report.summary.headline)
    screen = render_screen(report)
    assert screen.startswith("SERVING")
    assert "steps" not in screen


@pytest.mark.parametrize(
    ("name", "flags"),
    [
        ("vllm.log", "--profiler-config"),
        ("vllm_iterations.log", "--profiler-config"),
        ("sglang.log", "SGLANG_TORCH_PROFILER_DIR=DIR"),
        ("tensorrt_llm.log", "TLLM_PROFILE_START_STOP="),
        ("tensorrt_llm_metrics.jsonl", "TLLM_PROFILE_START_STOP="),
    ],
)
def test_each_engines_log_names_the_flags_of_its_own_profiler(name: str, flags: str) -> None:
    report = ta.analyze(DATA / "timing" / name)
    assert flags in report.summary.headline
    assert not TRAINING.search(render_terminal(report).partition("How to reproduce")[0])


@pytest.mark.parametrize(
    ("name", "recorder"),
    [("maxtext.log", "jax"), ("llm_c.log", "nsys"), ("keras.log", "nsys"), ("plain.log", "torch")],
)
def test_a_log_of_another_framework_is_not_sent_to_pytorchs_profiler(
    name: str, recorder: str
) -> None:
    said = ta.analyze(DATA / "timing" / name).summary.headline
    assert re.findall(r"`traceanalyzer collect (\w+)`", said) in ([recorder], [])


def test_a_summary_of_a_benchmark_names_the_engines_profilers() -> None:
    for name in ("vllm.txt", "trtllm.txt"):
        screen = " ".join(render_screen(ta.analyze(DATA / "texts" / name)).split())
        assert "with the engine's own profiler (vLLM and SGLang: /start_profile" in screen
