"""The JSON of `analyze` as other programs were promised it, on every real recording at hand."""

from __future__ import annotations

import json
import math
import re
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from tests.analyzed import reported
from tests.recorded import EVERY, label, ranks
from traceanalyzer.cli import cli
from traceanalyzer.report.json import render_json
from traceanalyzer.report.page import ReportPage
from traceanalyzer.report.parts.hashed import hashed
from traceanalyzer.report.schema import report_schema

INPUTS = [[path] for path in EVERY if ".rank" not in path.name]
INPUTS += [
    ranks(run)
    for run in sorted({label(path).split(".rank")[0] for path in EVERY if ".rank" in path.name})
]

CLASSES = {
    "compute",
    "memory",
    "launch",
    "communication",
    "sync",
    "input",
    "host",
    "transfer",
    "inconclusive",
}
SOURCES = {"profiler_step", "nvtx", "annotation", "periodicity", "timing_log", "none"}
DEVICE = {
    "rank",
    "device",
    "name",
    "span_ms",
    "busy_ms",
    "idle_ms",
    "compute_ms",
    "communication_ms",
    "exposed_communication_ms",
    "copy_ms",
    "exposed_copy_ms",
    "kernels",
    "copies",
    "memsets",
    "gaps",
    "largest_gap_ms",
}
ISSUE_LIMIT = 65_536
"""Characters of a GitHub issue."""

every_input = pytest.mark.parametrize(
    "paths", INPUTS, ids=lambda paths: label(paths[0]), scope="module"
)


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@cache
def _report(*paths: Path) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(render_json(reported(*paths)), parse_constant=refuse)


def numbers(value, where=""):
    """Every number of a document with its place."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from numbers(item, f"{where}.{key}")
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item, f"{where}[]")
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield where, value


@every_input
def test_every_promised_key_is_there(paths):
    report = _report(*paths)
    Draft202012Validator(report_schema()).validate(report)
    assert report["schema_version"] == 2
    assert set(report["tool"]) >= {"name", "version"}
    assert len(report["inputs"]) >= len(paths)
    for item in report["inputs"]:
        assert set(item) >= {"path", "kind", "rank", "devices", "health"}
        assert item["kind"] in {"kineto", "nsys", "timing_log"}
        assert set(item["health"]) >= {
            "events",
            "skipped",
            "repaired",
            "lost",
            "clipped",
            "truncated",
            "notes",
        }
    assert set(report["summary"]) >= {"bottleneck", "confidence", "headline", "basis", "step_ms"}
    assert report["summary"]["basis"] in {"unprofiled", "recorded"}
    assert report["summary"]["bottleneck"] in CLASSES
    metrics = report["metrics"]
    assert metrics["step_source"] in SOURCES
    assert set(metrics) >= {
        "step_time_ms",
        "unprofiled_step_time_ms",
        "kernels_per_step",
        "launches_per_step",
        "gpu_busy_share",
        "gpu_idle_share",
        "budget_ms",
        "idle_ms",
        "communication",
    }
    assert set(metrics["budget_ms"]) == {"compute", "exposed_communication", "exposed_copy", "idle"}
    assert set(metrics["idle_ms"]) == {
        "launch",
        "sync",
        "input",
        "host",
        "communication",
        "profiler",
        "other",
    }
    assert set(metrics["communication"]) >= {"total_ms", "exposed_ms", "overlap_share"}
    if metrics["step_time_ms"]:
        assert set(metrics["step_time_ms"]) >= {
            "count",
            "mean",
            "median",
            "std",
            "min",
            "max",
            "p95",
            "p99",
        }
    for row in report["devices"]:
        assert set(row) >= DEVICE


@every_input
def test_the_step_without_the_profiler_is_partitioned_like_the_recorded_one(paths):
    report = _report(*paths)
    summary = report["summary"]
    known = report["metrics"]["unprofiled"]
    assert (summary["basis"] == "unprofiled") is (known is not None)
    if known is None:
        assert any("without the profiler" in note for note in report["notes"])
        return
    assert known["source"] in {"measured", "estimated"}
    assert known["step_time_ms"] == summary["step_ms"]
    assert known["low_ms"] < known["step_time_ms"] < known["high_ms"]
    assert sum(known["budget_ms"].values()) == pytest.approx(known["step_time_ms"], rel=1e-3)
    assert sum(known["idle_ms"].values()) == pytest.approx(
        known["budget_ms"]["idle"], rel=1e-3, abs=1e-9
    )
    if known["source"] == "estimated":
        assert known["step_time_ms"] <= report["metrics"]["step_time_ms"]["mean"] * (1 + 1e-9)


@every_input
def test_figures_are_possible(paths):
    report = _report(*paths)
    assert 0 <= report["summary"]["confidence"] <= 1
    for where, value in numbers(report):
        assert math.isfinite(value), where
        if where.endswith("_share"):
            assert -1e-9 <= value <= 1 + 1e-9, where
        if where.endswith(("_ms", "_us", "_bytes")):
            assert value >= 0, where
    step = report["metrics"]["step_time_ms"]
    if step:
        assert step["min"] <= step["median"] <= step["p95"] <= step["p99"] <= step["max"]


@every_input
def test_findings_share_one_step_and_come_in_order(paths):
    report = _report(*paths)
    step = report["summary"]["step_ms"]
    headroom = [finding["headroom_ms"] for finding in report["findings"]]
    known = [value for value in headroom if value is not None]
    assert known == sorted(known, reverse=True)
    assert None not in headroom[: len(known)]
    if step:
        assert sum(known) <= step * (1 + 1e-5)
    for finding in report["findings"]:
        assert finding["class"] in CLASSES
        assert finding["evidence"]
        for evidence in finding["evidence"]:
            assert set(evidence) >= {"metric", "value", "unit", "where"}
    ids = [finding["id"] for finding in report["findings"]]
    assert len(set(ids)) == len(ids)


@every_input
def test_recommendations_are_of_findings_and_come_in_order(paths):
    report = _report(*paths)
    step = report["summary"]["step_ms"]
    classes = {finding["class"] for finding in report["findings"]}
    predicted = [item["predicted_step_ms"] for item in report["recommendations"]]
    known = [value for value in predicted if value is not None]
    assert known == sorted(known)
    for item in report["recommendations"]:
        assert set(item) >= {
            "id",
            "class",
            "action",
            "predicted_step_ms",
            "predicted_speedup",
            "basis",
            "remedy",
            "low_ms",
            "high_ms",
        }
        assert item["class"] in classes
        assert item["action"]
        assert item["basis"]
        if item["predicted_step_ms"] is not None:
            assert item["predicted_step_ms"] > 0
            assert item["predicted_speedup"] >= 1 - 1e-6
            assert item["predicted_speedup"] * item["predicted_step_ms"] == pytest.approx(
                step, rel=1e-5
            )
            assert item["low_ms"] < item["predicted_step_ms"] < item["high_ms"]


@every_input
def test_markdown_fits_an_issue_and_reads_well(paths):
    text = ReportPage(reported(*paths)).markdown()
    assert len(text) <= ISSUE_LIMIT
    for heading in ("Summary", "Metrics", "Findings", "Recommendations"):
        assert re.search(rf"^#+ {heading}", text, re.MULTILINE), heading
    assert not re.search(r"\b(nan|inf|None)\b", text)
    assert not re.search(r"\d\.\d{8,}", text), "a float with all its digits"


@pytest.mark.parametrize("paths", INPUTS[::10], ids=lambda paths: label(paths[0]))
def test_the_command_prints_these_documents(paths):
    words = ["analyze", *map(str, paths), "--format"]
    report = hashed(reported(*paths))
    assert run(*words, "json") == render_json(report)
    assert run(*words, "markdown").rstrip("\n") == ReportPage(report).markdown().rstrip("\n")


@every_input
def test_gaps_have_the_promised_shape(paths):
    gaps = json.loads(run("gaps", *map(str, paths), "--format", "json", "--min-us", "10"))["gaps"]
    for gap in gaps:
        assert set(gap) == {"rank", "device", "start_ns", "duration_ns", "step", "cause", "detail"}
        assert gap["duration_ns"] >= 10_000
        assert isinstance(gap["start_ns"], int)
    starts = [gap["start_ns"] for gap in gaps]
    assert starts == sorted(starts)
