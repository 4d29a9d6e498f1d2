"""Snapshots and logs of torch.compile given to `analyze`, alone or with the trace that they go
with."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import traceanalyzer as ta
from tests.replay.compile.test_with_trace import broken_log, broken_trace, written
from traceanalyzer.agent import verbs
from traceanalyzer.agent.sources import Sources
from traceanalyzer.cli import cli

DATA = Path(__file__).parents[1] / "data" / "memory"
TRACE = DATA / "kv_cat.base.trace.json.gz"
SNAPSHOT = DATA / "kv_cat.base.snapshot.pickle.gz"


def run(*arguments: object) -> str:
    result = CliRunner().invoke(cli, ["analyze", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def report(*paths: object) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run(*paths, "--format", "json"))
    return found


def test_a_snapshot_alone_has_its_findings_and_no_verdict_on_time() -> None:
    found = report(SNAPSHOT)
    assert [one["kind"] for one in found["inputs"]] == ["memory_snapshot"]
    assert (found["summary"]["bottleneck"], found["summary"]["step_ms"]) == ("inconclusive", None)
    assert found["metrics"]["memory"]["peak"] == 1651509248
    assert [one["id"] for one in found["findings"]] == ["memory-growth"]
    assert {one["remedy"] for one in found["recommendations"]} == {
        "expandable_segments",
        "avoid_allocations",
    }


def test_with_a_trace_its_line_stands_in_the_place_of_the_operator() -> None:
    alone = report(TRACE)
    both = report(TRACE, SNAPSHOT)
    assert alone["metrics"]["memory"]["growth_at"] == "aten::cat"
    assert both["metrics"]["memory"]["growth_at"] == "memory_cases.py:72 fwd"
    assert (
        alone["metrics"]["memory"]["growth_per_step"]
        == both["metrics"]["memory"]["growth_per_step"]
        == 64 << 20
    )
    assert [one["kind"] for one in both["inputs"]] == ["kineto", "memory_snapshot"]
    assert "memory_cases.py:72 fwd" in run(TRACE, SNAPSHOT)


def test_a_log_alone_and_with_its_trace(tmp_path: Path) -> None:
    log = broken_log(tmp_path)
    alone = report(log)
    assert [one["kind"] for one in alone["inputs"]] == ["torch_log"]
    assert "1 graph break" in alone["summary"]["headline"]
    assert [one["remedy"] for one in alone["recommendations"]] == ["remove_graph_breaks"]
    trace = written(tmp_path, broken_trace())
    both = report(trace, log)
    assert both["recommendations"][0]["remedy"] == "remove_graph_breaks"
    assert both["compile"]["compile_s"] == 2.0
    text = run(trace, log)
    assert "Graph break" in text
    assert "--full: all about torch.compile." in text
    assert "`analyze TRACE LOG`: what it costs a step" in run(log)


def test_a_folder_of_nothing_else_is_read(tmp_path: Path) -> None:
    shutil.copy(SNAPSHOT, tmp_path / "a.pickle.gz")
    assert run(tmp_path).startswith("GPU MEMORY")


def test_python_and_agents_know_them() -> None:
    made = ta.analyze(str(SNAPSHOT))
    assert made.metrics.memory is not None
    assert made.metrics.memory.growth == "growth"
    answer = json.loads(verbs.diagnose(Sources(), str(SNAPSHOT)))
    assert "GiB allocated at the peak" in json.dumps(answer)


@pytest.mark.parametrize("data", [b"\x80\x04\x95segments.", b"\x80\x05segments" + bytes(100)])
def test_a_damaged_snapshot_is_refused_in_one_line(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "snapshot.pickle").write_bytes(data)
    result = CliRunner().invoke(cli, ["analyze", str(tmp_path / "snapshot.pickle")])
    assert result.exit_code == 1
    assert "not a CUDA memory snapshot that can be read safely" in str(
        result.exception or result.output
    )


@pytest.mark.parametrize("command", ["gaps", "syncs", "ops", "whatif"])
def test_what_tells_no_times_is_not_said_to_have_none(command: str) -> None:
    result = CliRunner().invoke(cli, [command, str(SNAPSHOT)])
    assert result.exit_code == 1
    assert "which tells no times; give its trace, or ask `traceanalyzer analyze" in str(
        result.exception or result.output
    )


def test_two_snapshots_are_compared_by_python_and_agents() -> None:
    found = ta.compare(SNAPSHOT, SNAPSHOT)
    assert repr(found).startswith("No change of the peak: peak 1.54 GiB → 1.54 GiB (+0.0%)")
    told = json.loads(verbs.compare(Sources(), str(SNAPSHOT), str(SNAPSHOT)))
    assert told["figures"][0] == {"name": "peak", "a": "1.54 GiB", "b": "1.54 GiB"}
    assert "1.54 GiB allocated at the peak" in repr(ta.analyze(SNAPSHOT))
