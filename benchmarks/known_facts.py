"""What is known of recordings, and whether reports say so: `python -m benchmarks.known_facts`.

`classes`: the bottleneck of programs that were made to have it, or on which somebody who had not
read the tool settled before: those of `tests/test_recordings.py` and `tests/test_samples.py`, and
`../shared/more/first_sight` (unpacked into a folder of its own). `facts`: figures of other people's
recordings, counted by programs that share no code with this one (`../shared/more/formats`,
`formats_more`), or said by those who made them (`../shared/more/manifest.json`).
"""

from __future__ import annotations

import argparse
import json
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from traceanalyzer.base import TraceAnalyzerError
from traceanalyzer.ingest import load
from traceanalyzer.report.build import build_report
from traceanalyzer.report.model import Report

ROOT = Path(__file__).resolve().parents[1]
MORE = ROOT.parent / "shared" / "more"
FORMATS = ("formats", "formats_more")
NEAR = 0.01
"""Relative error of a figure that somebody wrote down."""


@dataclass(frozen=True)
class Score:
    """Whether a report says what is known."""

    what: str
    expected: str
    said: str
    right: bool


def classes() -> Iterator[Score]:
    """The class of each program whose bottleneck is known."""
    from tests import test_recordings, test_samples

    for name, expected in test_recordings.CLASSES.items():
        yield _of_class(name, {expected}, test_recordings.BY_NAME[name])
    for name, expected in test_samples.CLASSES.items():
        yield _of_class(f"sample_traces/{name}", {expected}, ROOT / "sample_traces" / name)
    packed = MORE / "first_sight" / "recordings.tar.xz"
    if not packed.exists():
        return
    cases = json.loads((MORE / "first_sight" / "manifest.json").read_text())["cases"]
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        for name, case in cases.items():
            (found,) = Path(folder).glob(f"*/{name}.base")
            yield _of_class(f"first_sight/{name}", set(case["classes_accepted"]), found)


def _of_class(name: str, accepted: set[str], path: Path) -> Score:
    said = build_report(load([path])).summary.bottleneck
    return Score(name, " or ".join(sorted(accepted)), said, said in accepted)


def facts() -> Iterator[Score]:
    """Figures of other people's recordings."""
    for folder in FORMATS:
        manifest = MORE / folder / "manifest.json"
        if manifest.exists():
            for name, file in json.loads(manifest.read_text())["files"].items():
                yield from _golden(MORE / folder / name, file.get("golden", {}))
    if (MORE / "public").exists():
        for said in PUBLIC:
            yield said.score()


def _golden(path: Path, golden: dict[str, Any]) -> Iterator[Score]:
    """Kernels, copies, busy time and span of each device."""
    if not path.exists():
        return
    name = f"{path.parent.name}/{path.name}"
    try:
        report = build_report(load([path]))
    except TraceAnalyzerError as error:
        counted = any(golden.get(figure) for figure in ("kernels", "busy_union_ns"))
        yield Score(name, "a report" if counted else "a refusal", str(error), right=not counted)
        return
    devices = report.devices
    for figure in ("kernels", "copies"):
        if figure in golden:
            total = sum(getattr(one, figure) for one in devices)
            if not devices and figure == "kernels":  # a table of sums has no devices
                total = round(sum(row.calls for row in report.tables.get("kernels", [])))
            yield _of_figure(f"{name} {figure}", golden[figure], total, near=0.0)
    for figure, field in (("busy_union_ns", "busy_ms"), ("span_ns", "span_ms")):
        known = golden.get(figure)
        if isinstance(known, dict):
            expected = sum(known.values()) / 1e6
            total = sum(getattr(one, field) for one in devices)
            yield _of_figure(f"{name} {field}", expected, total, near=1e-6)


def _of_figure(what: str, expected: float, said: float | None, near: float = NEAR) -> Score:
    right = said is not None and abs(said - expected) <= near * abs(expected)
    return Score(what, f"{expected:,.6g}", "nothing" if said is None else f"{said:,.6g}", right)


@dataclass(frozen=True)
class Public:
    """A figure that those who made a recording say of it."""

    path: str
    what: str
    expected: float
    of: Callable[[Report], float | None]
    near: float = NEAR

    def score(self) -> Score:
        """Whether the report has it."""
        path = MORE / self.path
        paths = sorted(path.glob("*.gz")) if path.is_dir() else [path]
        said = self.of(build_report(load(paths)))
        return _of_figure(f"{self.path} {self.what}", self.expected, said, self.near)


def _device(report: Report, field: str) -> float:
    return float(sum(getattr(one, field) for one in report.devices))


def _rank(report: Report, rank: int, field: str) -> float | None:
    row = next((one for one in report.tables["ranks"] if one.rank == rank), None)
    return None if row is None else getattr(row, field)


def _phase(report: Report, name: str) -> float | None:
    rows = [row for row in report.tables.get("phases", []) if name in row.name]
    return max((row.host_ms for row in rows), default=None)


def _steps_longer_than(report: Report, least_ms: float) -> float:
    return float(sum(row.duration_ms > least_ms for row in report.tables["steps"]))


PUBLIC = (
    Public(
        "public/TraceLens-vllm_decode_full.json.gz",
        "device span, ms",
        10.74,
        lambda report: _device(report, "span_ms"),
    ),
    Public(
        "public/TraceLens-vllm_decode_full.json.gz",
        "busy, ms",
        10.72,
        lambda report: _device(report, "busy_ms"),
    ),
    Public(
        "public/TraceLens-vllm_decode_full.json.gz",
        "device rows",
        434,
        lambda report: sum(_device(report, one) for one in ("kernels", "copies", "memsets")),
        0.0,
    ),
    Public(
        "public/TraceLens-b200_eager.json.gz",
        "device span, ms",
        84.5,
        lambda report: _device(report, "span_ms"),
    ),
    Public(
        "public/TraceLens-b200_eager.json.gz",
        "busy, ms",
        11.6,
        lambda report: _device(report, "busy_ms"),
    ),
    Public(
        "public/param-dlrm",
        "waiting of rank 7, ms",
        1.53,
        lambda report: _rank(report, 7, "waiting_ms"),
    ),
    Public(
        "public/param-dlrm",
        "waiting of rank 3, ms",
        9.57,
        lambda report: _rank(report, 3, "waiting_ms"),
    ),
    Public(
        "public/TraceLens-mi300_ddp_resnet18_no_pool.json.gz",
        "steps of over a second",
        3,
        lambda report: _steps_longer_than(report, 1000.0),
        0.0,
    ),
    Public(
        "public/param-resnet_kineto.json.gz",
        "steps in all",
        29,
        lambda report: float(len(report.tables["steps"])),
        0.0,
    ),
    Public(
        "nsys/jax_train.sqlite.gz",
        "step without the profiler, ms",
        0.3608,
        lambda report: report.summary.step_ms,
        0.05,
    ),
    Public(
        "nsys/public_h100_2gpu_1s.sqlite.gz",
        "busy share of the device that copies",
        0.993,
        lambda report: max(one.busy_ms / one.span_ms for one in report.devices if one.span_ms),
    ),
)


def main() -> None:
    """Score both, or one."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("which", nargs="?", choices=("classes", "facts"))
    which = parser.parse_args().which
    for name, scored in (("classes", classes), ("facts", facts)):
        if which in (None, name):
            scores = list(scored())
            for one in scores:
                if not one.right:
                    print(f"{one.what}: {one.said}, known: {one.expected}")
            print(f"{name}: {sum(one.right for one in scores)} of {len(scores)} right")


if __name__ == "__main__":
    main()
