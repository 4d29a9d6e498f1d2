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
from tests.analyzed import reported
from tests.recorded import EVERY, GPU, ROOT, label, recording

if TYPE_CHECKING:
    from traceanalyzer.report.model import Report

CLASSES = {
    "gpu/launch_bound": "launch",
    "gpu/sync_bound": "sync",
    "gpu/input_bound": "input",
    "gpu/host_bound": "host",
    "gpu/compute_bound": "compute",
    "gpu/memory_bound": "memory",
    "gpu/transfer_bound": "transfer",
    "gpu/compiled": "launch",
    "kineto/slow_dataloader.base": "input",
    "kineto/item_every_layer.base": "sync",
    "kineto/tiny_mlp_infer.base": "launch",
    "kineto/vit_small_batch.base": "launch",
    "kineto/python_between_ops.base": "host",
    "kineto/manual_layernorm.base": "memory",
    "kineto/adam_big.base": "memory",
    "kineto/gemm_fp32.base": "compute",
    "kineto/gpt_large_batch.base": "compute",
    "ablations/python_hidden.base": "compute",
    "nsys/slow_dataloader.base": "input",
    "nsys/item_every_layer.base": "sync",
    "nsys/tiny_mlp_infer.base": "launch",
}
BY_NAME = {label(path): path for path in (*GPU, *EVERY)}


@pytest.mark.parametrize(("name", "expected"), CLASSES.items())
def test_the_class_of_a_recording(name: str, expected: str) -> None:
    summary = reported(BY_NAME[name]).summary
    assert summary.bottleneck == expected
    assert summary.confidence > 0.5


def test_where_faster_kernels_gain_nothing_the_reason_is_said() -> None:
    headline = reported(BY_NAME["kineto/python_between_ops.fix"]).summary.headline
    assert headline.endswith(
        "; faster kernels alone would not shorten it, because the CPU takes as long."
    )


def numbers(value: object) -> list[float]:
    """Every float in the report."""
    if isinstance(value, float):
        return [value]
    if is_dataclass(value):
        return [n for f in fields(value) for n in numbers(getattr(value, f.name))]
    items = (
        value.values()
        if isinstance(value, dict)
        else value
        if isinstance(value, list | tuple)
        else []
    )
    return [n for item in items for n in numbers(item)]


@pytest.fixture(scope="module", params=[*GPU, *EVERY], ids=label)
def report(request: pytest.FixtureRequest) -> Report:
    return reported(request.param)


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
    predicted = [
        r.predicted_step_ms for r in report.recommendations if r.predicted_step_ms is not None
    ]
    assert predicted == sorted(predicted)
    assert len({(r.id, r.remedy, r.action) for r in report.recommendations}) == len(
        report.recommendations
    )
    endings = re.compile("-(and-launches|fused-optimizer|fused-kernels|less)$")
    assert {endings.sub("", r.id) for r in report.recommendations} <= {
        f.id for f in report.findings
    }


def test_every_finding_has_evidence(report: Report) -> None:
    assert all(f.evidence for f in report.findings)


def test_the_slower_rank_speaks_for_the_run() -> None:
    ranks = [recording(f"ranks2/straggler.base.rank{r}") for r in (0, 1)]
    report = reported(*ranks)
    assert report.summary.bottleneck == "compute"
    assert "straggler" in {f.id for f in report.findings}
    assert len(report.tables["ranks"]) == 2
    alone = reported(ranks[0])
    assert alone.summary.bottleneck == "communication"


def test_a_rank_that_cannot_be_read_is_reported_and_the_others_are_analysed(tmp_path: Path) -> None:
    broken = tmp_path / "rank1.json"
    broken.write_text("this is no trace")
    report = ta.analyze([recording("ranks2/straggler.base.rank0"), broken])
    assert any("rank1.json" in note for note in report.notes)
    assert report.metrics.budget_ms is not None


@pytest.mark.parametrize("tool", ["slow_dataloader", "item_every_layer", "tiny_mlp_infer"])
def test_both_tools_see_the_same_program(tool: str) -> None:
    kineto = reported(recording(f"kineto/{tool}.base"))
    nsys = reported(recording(f"nsys/{tool}.base"))
    assert kineto.summary.bottleneck == nsys.summary.bottleneck
    assert kineto.metrics.kernels_per_step == nsys.metrics.kernels_per_step


def test_the_samples_say_their_truth() -> None:
    """GPU-bound samples take as long with the profiler as without it."""
    manifest = json.loads((ROOT / "tests" / "data" / "gpu" / "manifest.json").read_text())
    for name in ("compute_bound", "memory_bound"):
        step = reported(ROOT / "tests" / "data" / "gpu" / f"{name}.json.gz").metrics.step_time_ms
        assert step is not None
        assert step.median == pytest.approx(manifest[name]["step_ms_unprofiled"], rel=0.05)
