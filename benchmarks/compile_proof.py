"""What `traceanalyzer compile` says of six seeded faults, against the stopwatch of the program without the fault.

python benchmarks/compile_gpu.py OUT       (on the GPU host)
python benchmarks/compile_proof.py OUT/compile_gpu.tar.gz
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from traceanalyzer.analysis.measure import Measurements
from traceanalyzer.ingest import load
from traceanalyzer.ingest.torch_log import read_logs
from traceanalyzer.report.compile.build import compile_report, joined

NAMED = {
    "dynamic_batch": "recompilation",
    "print": "graph-break",
    "item": "graph-break",
    "cache_bypass": "compile-cache",
    "autotune": "autotune",
    "cudagraphs": "cudagraphs-skipped",
}
"""The finding that each fault has to have."""
STARTS = {"dynamic_batch", "cache_bypass", "autotune"}
"""Faults of the start: the prediction is of the compile time. The others are of the step."""


def prove(folder: Path) -> list[str]:
    """A line of a table for each fault."""
    return [_line(folder, case, finding) for case, finding in NAMED.items() if (folder / f"{case}.fault.log").is_dir()]


def _line(folder: Path, case: str, finding: str) -> str:
    truths = {variant: _truth(folder, case, variant) for variant in ("fault", "fixed")}
    log = folder / f"{case}.fault.log"
    if case in STARTS:
        report = compile_report(read_logs(log))
        compiled, diagnosis = report.compiled, report.diagnosis
        measured = compile_report(read_logs(folder / f"{case}.fixed.log")).compiled.compile_s or 0.0
        before, unit = compiled.compile_s or 0.0, "s"
    else:
        trace = load([folder / f"{case}.fault.trace.json.gz"]).traces[0]
        trace = replace(trace, unprofiled_step_ns=round(truths["fault"]["steady_ms"] * 1e6))
        diagnosis = joined(read_logs(log), Measurements(trace)).diagnosis
        before, measured, unit = truths["fault"]["steady_ms"], truths["fixed"]["steady_ms"], "ms"
    advice = next((one for one in diagnosis.recommendations if one.id.startswith(finding)), None)
    if advice is None:
        return f"| {case} | not named | | | |"
    step = (advice.predicted_step_ms, advice.low_ms, advice.high_ms)
    start = (advice.predicted_compile_s, advice.low_s, advice.high_s)
    predicted, low, high = start if case in STARTS else step
    if predicted is None or low is None or high is None:
        return f"| {case} | {advice.id} | {before:.3g} {unit} | not predicted | {measured:.3g} {unit} | |"
    inside = "inside" if low <= measured <= high else "outside"
    return (
        f"| {case} | {advice.id} | {before:.3g} {unit} | {predicted:.3g} ({low:.3g} to {high:.3g}) {unit} "
        f"| {measured:.3g} {unit} | {inside} |"
    )


def _truth(folder: Path, case: str, variant: str) -> dict[str, Any]:
    """The truth of the last start."""
    files = sorted(folder.glob(f"{case}.{variant}.start*.truth.json"))
    values: dict[str, Any] = json.loads(files[-1].read_text())
    return values


def main() -> None:
    """Print the table."""
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as unpacked:
        folder = source
        if source.is_file():
            with tarfile.open(source) as archive:
                archive.extractall(unpacked, filter="data")
            folder = Path(unpacked) / "compile_gpu"
        print("| fault | named | with it | predicted without | measured without | |")
        print("|---|---|---:|---:|---:|---|")
        for line in prove(folder):
            print(line)


if __name__ == "__main__":
    main()
