"""Advice for a server that launches kernel by kernel: the flag of its engine, one line."""

from __future__ import annotations

import pytest

import traceanalyzer as ta
from tests.recorded import ROOT
from traceanalyzer.diagnosis.effort import ONE_LINE


@pytest.fixture(scope="module")
def report():
    """vLLM, a prefill of 888 tokens without CUDA graphs."""
    return ta.analyze(ROOT / "tests" / "data" / "serving" / "vllm_eager.json.gz")


def test_a_graph_is_advised_in_the_flags_of_the_engine(report) -> None:
    (graph,) = [advice for advice in report.recommendations if advice.remedy == "cuda_graph"]
    assert "vLLM: without --enforce-eager" in graph.action
    assert "FULL_AND_PIECEWISE" in graph.action, "a prefill replays graphs of the model's parts"
    assert "torch.compile(" not in graph.action
    assert graph.effort == ONE_LINE


def test_its_iteration_is_the_published_one(report) -> None:
    (row,) = report.tables["iterations"]
    assert (row.phase, row.requests, row.context_tokens, row.graph) == ("prefill", 1, 888, "eager")
    assert (row.host_ms, row.gpu_span_ms, row.gpu_busy_ms) == pytest.approx(
        (87.4, 84.5, 11.6), abs=0.05
    )
    assert row.launches == 768
