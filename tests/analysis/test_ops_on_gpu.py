"""Recordings' operators against what torch.profiler's key_averages() said on the GPU they were
recorded on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from traceanalyzer.analysis.tables.ops import OpStats, op_stats
from traceanalyzer.analysis.time.steps import whole_recording
from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.ingest import load

ROOT = Path(__file__).resolve().parents[2]
GPU = ROOT / "tests" / "data" / "gpu"
SAID = sorted(path for path in GPU.glob("*.json") if path.name != "manifest.json")
ROUNDING_US = 1.0
MS = 1e3


def figures(row: OpStats) -> dict[str, float]:
    return {
        "count": row.calls,
        "cpu_us": row.host_total_ms * MS,
        "self_cpu_us": row.host_self_ms * MS,
        "device_us": (row.device_mean_us or 0.0)
        * row.calls,  # there a call inside one of its name counts again
        "self_device_us": row.device_self_ms * MS,
    }


@pytest.mark.parametrize("path", SAID, ids=lambda p: p.stem)
def test_operators_agree_with_key_averages(path: Path) -> None:
    ctx = measure(load([GPU / f"{path.stem}.json.gz"]).traces[0])
    ctx.timed.__dict__["steps"] = whole_recording(ctx.linked)
    measured = {row.name: figures(row) for row in op_stats(ctx.rated)}
    compared = 0
    for said in json.loads(path.read_text()):
        if said["name"].startswith("cu"):
            continue  # API calls are rows of key_averages(), not of `ops`
        expected = {k: v for k, v in said.items() if k != "name"}
        assert measured[said["name"]] == pytest.approx(expected, rel=0.01, abs=ROUNDING_US), said[
            "name"
        ]
        compared += 1
    assert compared >= 3
