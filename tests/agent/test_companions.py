"""Answers on snapshots of memory and logs of torch.compile."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.recorded import ROOT
from traceanalyzer.agent import companions
from traceanalyzer.agent.answer import MOST_TOKENS, tokens
from traceanalyzer.agent.sources import Sources
from traceanalyzer.base import TraceAnalyzerError

DATA = ROOT / "tests" / "data"
SNAPSHOTS = sorted((DATA / "memory").glob("*.snapshot.pickle.gz"))
LOG, TRACE = (str(DATA / "compile" / f"break_once.{end}.gz") for end in ("log", "trace.json"))
COMPILED = str(ROOT / "sample_traces" / "compiled")


@pytest.fixture(scope="module")
def sources() -> Sources:
    return Sources()


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name)
def test_every_snapshot_is_answered_in_short(sources: Sources, path: Path) -> None:
    text = companions.memory(sources, str(path))
    answer = json.loads(text)
    assert tokens(text) <= MOST_TOKENS
    assert answer["devices"][0]["peak"]["value"] > 0
    assert (
        sum(answer["devices"][0]["at_peak_bytes"].values())
        == (answer["devices"][0]["peak"]["value"])
    )


def test_a_peak_has_its_lines_and_what_would_lower_it(sources: Sources) -> None:
    answer = json.loads(companions.memory(sources, str(DATA / "memory/base.snapshot.pickle.gz")))
    (device,) = answer["devices"]
    assert device["peak"]["value"] == 4_594_795_520
    assert device["growth"]["verdict"] == "steady"
    assert answer["sites"][0]["name"] == "memory_gpu.py:81 run"
    assert answer["sites"][0]["bytes"] == 1_061_617_664
    assert answer["changes"][0]["predicted_peak"]["value"] == 3_270_465_024
    assert answer["changes"][0]["predicted_step_ms"] is None


def test_a_leak_names_the_line_that_keeps(sources: Sources) -> None:
    path = DATA / "memory" / "oom_leak.snapshot.pickle.gz"
    answer = json.loads(companions.memory(sources, str(path)))
    assert answer["devices"][0]["out_of_memory"] == "leak"
    assert answer["devices"][0]["growth"]["verdict"] == "leak"
    assert answer["devices"][0]["growth"]["where"]


def test_a_trace_beside_a_snapshot_has_the_step(sources: Sources) -> None:
    snapshot, trace = (
        str(DATA / "memory" / f"kv_cat.base.{end}.gz") for end in ("snapshot.pickle", "trace.json")
    )
    alone, beside = (json.loads(companions.memory(sources, snapshot, more)) for more in ("", trace))
    assert beside["devices"][0]["peak"] == alone["devices"][0]["peak"]
    assert alone["step"]["value"] is None
    assert beside["step"]["value"] > 0


def test_a_break_has_its_line_and_with_a_trace_its_cost(sources: Sources) -> None:
    alone, traced = (json.loads(companions.compile(sources, LOG, more)) for more in ("", TRACE))
    (found,) = alone["graph_breaks"]
    assert found["where"].endswith("compile_cases.py:33")
    assert found["times"] == 1
    assert alone["recompiles"] == 0
    assert alone["step"] == {
        "value": None,
        "unit": "ms per step",
        "how": companions.NO_STEP,
    }
    assert traced["step"]["value"] == pytest.approx(4.32, abs=0.01)
    assert traced["changes"][0]["predicted"]["value"] == pytest.approx(2.23, abs=0.01)


def test_a_capture_without_a_log_does_not_say_that_nothing_broke(sources: Sources) -> None:
    text = companions.compile(sources, COMPILED)
    answer = json.loads(text)
    assert tokens(text) <= MOST_TOKENS
    assert answer["graph_breaks"] is None
    assert answer["recompilations"] is None
    assert answer["compile_time"] == {"value": None, "unit": "s", "how": companions.NO_LOG}


def test_what_is_neither_is_one_line(sources: Sources, tmp_path: Path) -> None:
    with pytest.raises(TraceAnalyzerError, match="no memory snapshot in this folder"):
        companions.memory(sources, str(tmp_path))
    with pytest.raises(TraceAnalyzerError, match="not a CUDA memory snapshot"):
        companions.memory(sources, TRACE)
    with pytest.raises(TraceAnalyzerError, match="not a structured log"):
        companions.compile(sources, str(SNAPSHOTS[0]))
