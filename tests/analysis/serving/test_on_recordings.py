"""Iterations of public recordings against a reading of the raw file that shares no code."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from traceanalyzer.diagnosis.measurements import measure
from traceanalyzer.diagnosis.serving.sentences import serving_values
from traceanalyzer.ingest import load

DATA = Path(__file__).parents[2] / "data" / "serving"
GPU = ("kernel", "gpu_memcpy", "gpu_memset")
SAID = {
    "vllm_decode": ("vllm", "decode", 32, 0, 32, 55086, "replayed"),
    "sglang_decode": ("sglang", "decode", 32, 0, 32, 32785, "replayed"),
    "vllm_piecewise": ("vllm", "mixed", 46, 8155, 37, 8430 + 34489, "piecewise"),
}


LEADING = {"sglang_decode": 1}
"""Ops of the scheduler's stream that ran while the GPU finished the iteration before, which is in another
recording."""


def brute_force(name: str) -> tuple[int, float, float, int, int]:
    """GPU rows, span, busy time (ms), graph launches and kernel launches of all that the file
    holds."""
    events: list[dict[str, Any]] = json.loads(
        gzip.decompress((DATA / f"{name}.json.gz").read_bytes())
    )["traceEvents"]
    rows = sorted((e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") in GPU)
    rows = rows[LEADING.get(name, 0) :]
    busy = 0.0
    reach = rows[0][0]
    for start, end in rows:
        busy += max(end - max(start, reach), 0)
        reach = max(reach, end)
    calls = [e["name"] for e in events if e.get("cat") in ("cuda_runtime", "cuda_driver")]
    graphs = sum("GraphLaunch" in call for call in calls)
    launches = sum("LaunchKernel" in call for call in calls)
    launches -= LEADING.get(name, 0)
    return len(rows), (reach - rows[0][0]) / 1e3, busy / 1e3, graphs, launches


@pytest.mark.parametrize("name", SAID)
def test_an_iteration_is_what_its_mark_and_the_raw_file_say(name: str) -> None:
    m = measure(load([DATA / f"{name}.json.gz"]).traces[0])
    (row,) = m.iterations
    said = (
        row.phase,
        row.requests,
        row.context_tokens,
        row.generation_tokens,
        row.kv_tokens,
        row.graph,
    )
    assert (serving_values(m)["server"], *said) == SAID[name]
    ops, span, busy, graphs, launches = brute_force(name)
    assert (row.gpu_ops, row.graph_launches, row.launches) == (ops, graphs, launches)
    assert (row.gpu_span_ms, row.gpu_busy_ms) == pytest.approx((span, busy), abs=1e-3)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("vllm_decode", "gpu"), ("sglang_decode", "gpu"), ("vllm_piecewise", "gpu")],
)
def test_what_limits_it(name: str, limit: str) -> None:
    m = measure(load([DATA / f"{name}.json.gz"]).traces[0])
    assert [phase.limit for phase in serving_values(m)["phases"]] == [limit]
