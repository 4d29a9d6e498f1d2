"""Domains, categories and payloads of NVTX ranges, and sampled counters, from the export to the
table."""

from __future__ import annotations

import gzip
import sqlite3
from collections import Counter
from typing import TYPE_CHECKING

import pytest

import traceanalyzer as ta
from tests.nsys_builder import SCHEMAS, Export, global_tid
from tests.recorded import NSYS, label
from traceanalyzer.report.tables import table

if TYPE_CHECKING:
    from pathlib import Path

DOMAIN = 75
CATEGORY = 33


def export(schema: str) -> Export:
    """Twice a range of a domain and category with a payload, one of neither, and one of a domain
    without a name."""
    made = Export(schema)
    tid = global_tid()
    made.nvtx(1, None, "MyLibrary", eventType=DOMAIN, domainId=3)
    made.nvtx(2, None, "io", eventType=CATEGORY, domainId=3, category=7)
    for i in range(2):
        at = 1000 + 1000 * i
        made.nvtx(at, at + 1000, f"step {i}", globalTid=tid)
        made.nvtx(at + 100, at + 300, "load", domainId=3, category=7, int64Value=40 + i)
        made.nvtx(at + 400, at + 450, "plain")
        made.nvtx(at + 460, at + 470, None, textId=made.text("scored"), domainId=5, doubleValue=0.5)
        made.call(at + 500, at + 510, "cudaLaunchKernel_v7000", i + 1).kernel(
            at + 520, at + 900, correlationId=i + 1
        )
    return made


@pytest.mark.parametrize("schema", SCHEMAS)
def test_domains_categories_and_payloads_are_kept(tmp_path: Path, schema: str) -> None:
    run = ta.load(str(export(schema).write(tmp_path / "run.sqlite")))
    load, scored = table(run, "nvtx")
    assert (load.domain, load.category, load.name, load.payloads) == (
        "MyLibrary",
        "io",
        "load",
        "40, 41",
    )
    assert (load.count, load.host_ms) == (
        1,
        pytest.approx(200e-6),
    )  # of each of the two marked steps
    assert (scored.domain, scored.category, scored.name, scored.payloads) == (
        "#5",
        None,
        "scored",
        "0.5",
    )
    names = {run.traces[0].strings[code] for code in run.traces[0].host_ranges.name}
    assert {"load", "plain", "scored"} <= names


def test_a_range_whose_end_is_no_number_has_no_details(tmp_path: Path) -> None:
    path = export("3.24.0").write(tmp_path / "run.sqlite")
    with sqlite3.connect(path) as db:
        db.execute("UPDATE NVTX_EVENTS SET end = 'later' WHERE start = 1100")
    (trace,) = ta.load(str(path)).traces
    assert 100 not in (trace.range_details.start - trace.host_ranges.start.min()).tolist()
    assert (trace.range_details.end >= trace.range_details.start).all()


@pytest.mark.parametrize("path", NSYS, ids=label)
def test_recordings_by_hand(path: Path, tmp_path: Path) -> None:
    raw = tmp_path / "raw.sqlite"
    raw.write_bytes(gzip.decompress(path.read_bytes()))
    with sqlite3.connect(raw) as db:
        ranges = "eventType IN (59, 60, 70, 71) AND end >= start AND (domainId > 0 OR category > 0)"
        rows = db.execute(f"SELECT end - start FROM NVTX_EVENTS WHERE {ranges}").fetchall()
    details = [trace.range_details for trace in ta.load(str(path)).traces]
    assert sum(len(one) for one in details) == len(rows)
    found = Counter(length for one in details for length in (one.end - one.start).tolist())
    assert found == Counter(length for (length,) in rows)


def test_sampled_counters_end_to_end(tmp_path: Path) -> None:
    made = export("3.24.0")
    made.add("TARGET_INFO_GPU", id=2, name="GPU A", busLocation="0000:c1:00.0", cuDevice=0)
    made.add("TARGET_INFO_CUDA_DEVICE", gpuId=2, cudaId=0, pid=1000)
    names = (
        "SMs Active [Throughput %]",
        "DRAM Read Bandwidth [Throughput %]",
        "DRAM Write Bandwidth [Throughput %]",
    )
    for number, (name, value) in enumerate(zip(names, (90, 30, 10), strict=True)):
        made.add("TARGET_INFO_GPU_METRICS", typeId=0x700002, metricId=number, metricName=name)
        for at in range(1000, 3001, 100):
            made.add("GPU_METRICS", timestamp=at, typeId=0x700002, metricId=number, value=value)
    report = ta.analyze(str(made.write(tmp_path / "run.sqlite")))
    counters = report.metrics.counters
    assert counters is not None
    shares = (counters.sm_active_share, counters.dram_share)
    assert shares == (pytest.approx(0.9), pytest.approx(0.4))
    assert counters.tensor_active_share is None
    assert counters.period_us == pytest.approx(0.1)
    (kernel,) = report.tables["kernels"]
    assert (kernel.sampled_sm_share, kernel.sampled_dram_share) == (
        pytest.approx(0.9),
        pytest.approx(0.4),
    )
    assert kernel.samples == 3  # of 380 ns, begun 20 after a sample: three whole periods a step
    assert [row.counter for row in report.tables["counters"]] == [
        "DRAM Read Bandwidth",
        "DRAM Write Bandwidth",
        "SMs Active",
    ]
