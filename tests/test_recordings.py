"""Real recordings, whole: the class each one deserves, and what holds for any report."""

from __future__ import annotations

import json
import math
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "traces"
SAMPLES = sorted((ROOT / "tests" / "data" / "gpu").glob("*.json.gz"))
RECORDINGS = [
    *SAMPLES,
    *sorted(p for p in SHARED.glob("*/*") if p.suffix == ".gz" and "large" not in p.parts),
]
CLASSES = {
    "tests/data/gpu/launch_bound.json.gz": "launch",
    "tests/data/gpu/sync_bound.json.gz": "sync",
    "tests/data/gpu/input_bound.json.gz": "input",
    "tests/data/gpu/host_bound.json.gz": "host",
    "tests/data/gpu/compute_bound.json.gz": "compute",
    "tests/data/gpu/memory_bound.json.gz": "memory",
    "tests/data/gpu/transfer_bound.json.gz": "transfer",
    "tests/data/gpu/compiled.json.gz": "launch",
    "kineto/slow_dataloader.base.json.gz": "input",
    "kineto/item_every_layer.base.json.gz": "sync",
    "kineto/tiny_mlp_infer.base.json.gz": "launch",
    "kineto/vit_small_batch.base.json.gz": "launch",
    "kineto/python_between_ops.base.json.gz": "host",
    "kineto/manual_layernorm.base.json.gz": "memory",
    "kineto/adam_big.base.json.gz": "memory",
    "kineto/gemm_fp32.base.json.gz": "compute",
    "kineto/gpt_large_batch.base.json.gz": "compute",
    "ablations/input_dominant.base.json.gz": "input",
    "ablations/python_hidden.base.json.gz": "compute",
    "nsys/slow_dataloader.base.sqlite.gz": "input",
    "nsys/item_every_layer.base.sqlite.gz": "sync",
    "nsys/tiny_mlp_infer.base.sqlite.gz": "launch",
}


def recording(name: str) -> Path:
    path = ROOT / name if name.startswith("tests/") else SHARED / name
    if not path.exists():
        pytest.skip("the shared recordings are not here")
    return path


@pytest.mark.parametrize(("name", "expected"), CLASSES.items())
def test_the_class_of_a_recording(name: str, expected: str) -> None:
    summary = ta.analyze(recording(name)).summary
    assert summary.bottleneck == expected
    assert summary.confidence > 0.5


def numbers(value: object) -> list[float]:
    """Every float in the report."""
    if isinstance(value, float):
        return [value]
    if is_dataclass(value):
        return [n for f in fields(value) for n in numbers(getattr(value, f.name))]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else []
    return [n for item in items for n in numbers(item)]


@pytest.fixture(scope="module", params=RECORDINGS, ids=lambda p: f"{p.parent.name}/{p.name}")
def report(request: pytest.FixtureRequest) -> Report:
    return ta.analyze(request.param)


def test_every_figure_is_finite(report: Report) -> None:
    assert all(math.isfinite(n) for n in numbers(report))


def test_headroom_is_counted_once(report: Report) -> None:
    claimed = sum(f.headroom_ms or 0.0 for f in report.findings)
    if report.metrics.budget_ms is not None:
        b = report.metrics.budget_ms
        assert claimed <= b.compute + b.exposed_communication + b.exposed_copy + b.idle + 1e-6


def test_findings_and_recommendations_are_ranked(report: Report) -> None:
    headroom = [f.headroom_ms for f in report.findings if f.headroom_ms is not None]
    assert headroom == sorted(headroom, reverse=True)
    predicted = [r.predicted_step_ms for r in report.recommendations if r.predicted_step_ms is not None]
    assert predicted == sorted(predicted)
    assert len({r.id for r in report.recommendations}) == len(report.recommendations)
    endings = re.compile("-(and-launches|fused-optimizer|fused-kernels)$")
    assert {endings.sub("", r.id) for r in report.recommendations} <= {f.id for f in report.findings}


def test_every_finding_has_evidence(report: Report) -> None:
    assert all(f.evidence for f in report.findings)


def test_the_slower_rank_speaks_for_the_run() -> None:
    ranks = [recording(f"ranks2/straggler.base.rank{r}.json.gz") for r in (0, 1)]
    report = ta.analyze(ranks)
    assert report.summary.bottleneck == "compute"
    assert "straggler" in {f.id for f in report.findings}
    assert len(report.tables["ranks"]) == 2
    alone = ta.analyze(ranks[0])
    assert alone.summary.bottleneck == "communication"


def test_a_rank_that_cannot_be_read_is_reported_and_the_others_are_analysed(tmp_path: Path) -> None:
    broken = tmp_path / "rank1.json"
    broken.write_text("this is no trace")
    report = ta.analyze([recording("ranks2/straggler.base.rank0.json.gz"), broken])
    assert any("rank1.json" in note for note in report.notes)
    assert report.metrics.budget_ms is not None


@pytest.mark.parametrize("tool", ["slow_dataloader", "item_every_layer", "tiny_mlp_infer"])
def test_both_tools_see_the_same_program(tool: str) -> None:
    kineto = ta.analyze(recording(f"kineto/{tool}.base.json.gz"))
    nsys = ta.analyze(recording(f"nsys/{tool}.base.sqlite.gz"))
    assert kineto.summary.bottleneck == nsys.summary.bottleneck
    assert kineto.metrics.kernels_per_step == nsys.metrics.kernels_per_step


def test_the_samples_say_their_truth() -> None:
    """GPU-bound samples take as long with the profiler as without it."""
    manifest = json.loads((ROOT / "tests" / "data" / "gpu" / "manifest.json").read_text())
    for name in ("compute_bound", "memory_bound"):
        step = ta.analyze(ROOT / "tests" / "data" / "gpu" / f"{name}.json.gz").metrics.step_time_ms
        assert step is not None
        assert step.median == pytest.approx(manifest[name]["step_ms_unprofiled"], rel=0.05)
