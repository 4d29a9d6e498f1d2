"""The roofline on every recording with shapes: nearly all is modelled, and what is above it is
explained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analyzed import reported
from tests.recorded import KINETO, label, recording

RECORDINGS = [path for path in KINETO if path.parent.name in ("kineto", "ranks2")]
MODELLED = 0.9
"""Share of compute-kernel time that has FLOPs and bytes (the bar)."""


@pytest.mark.parametrize("path", RECORDINGS, ids=label)
def test_every_recording(path: Path) -> None:
    report = reported(path)
    roofline = report.metrics.roofline
    if roofline is None:
        assert "tiny_mlp_infer.fix" in path.name  # a CUDA graph: its kernels belong to no operator
        return
    assert roofline.gpu == "H200 SXM"
    assert roofline.modelled_share >= MODELLED or "tiny_mlp_infer.fix" in path.name
    assert roofline.ideal_ms is not None
    assert roofline.headroom_ms is not None
    assert 0 <= (roofline.mfu or 0) <= 1
    assert 0 <= (roofline.bandwidth_share or 0) <= 1
    above = [row.name for row in report.tables["kernels"] if row.sol is not None and row.sol > 1]
    told = {finding.id for finding in report.findings}
    assert not above or "above-roofline" in told
    assert sum(f.headroom_ms or 0 for f in report.findings) <= report.metrics.step_time_ms.mean * (
        1 + 1e-6
    )


def test_products_in_tf32_are_predicted() -> None:
    """The recorded fix took 5.35 ms a step (manifest)."""
    report = reported(recording("kineto/gemm_fp32.base"))
    (advice,) = [r for r in report.recommendations if r.remedy == "tf32"]
    assert advice.predicted_step_ms == pytest.approx(5.35, rel=0.1)
