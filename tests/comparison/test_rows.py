"""Calls apart from the time of a call, limits on rows, and the figures that `check` holds."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.comparison.build import part, report
from tests.report.reports import full
from traceanalyzer.comparison.compare import compare_reports
from traceanalyzer.comparison.limits import Limit, LimitError, check_limits
from traceanalyzer.comparison.side_by_side.by_row import rows_between

SAMPLES = sorted(
    path
    for path in (Path(__file__).resolve().parents[2] / "sample_traces").iterdir()
    if path.is_dir()
)


def with_kernels(*rows):
    (row, *_) = full().tables["kernels"]
    made = report(part(None, "gemm", 10.0))
    kernels = [replace(row, name=name, calls=calls, total_ms=ms) for name, calls, ms in rows]
    return replace(made, tables=made.tables | {"kernels": kernels, "kernel_classes": []})


def test_calls_count_apart_from_how_long_each_takes():
    a = with_kernels(("copy", 217.0, 0.8897), ("gemm", 4.0, 2.0))
    b = with_kernels(("copy", 1.0, 0.86), ("gemm", 4.0, 1.0))
    gemm, copy = rows_between(a, b, 10.0)["kernels"]
    assert copy.calls == "217 x 4.10 us → 1 x 860 us"
    assert (copy.difference_ms, copy.by_time_ms) == pytest.approx((-0.0297, 0.86 - 0.0041))
    assert (gemm.calls, gemm.by_time_ms) == ("4 x 500 us → 4 x 250 us", -1.0)
    assert compare_reports(a, b).rows["kernels"][0] == gemm


def test_a_row_below_those_of_the_other_report_is_not_called_gone():
    many = [(f"k{i}", 1.0, 10.0 - i * 0.1) for i in range(30)]
    names = [
        row.name
        for row in rows_between(with_kernels(*many), with_kernels(*many[1:]), 10.0).get(
            "kernels", []
        )
    ]
    assert names == ["k0"]
    assert rows_between(with_kernels(*many), with_kernels(*many, ("new", 1.0, 0.1)), 1.0) == {}


def outcome(of, name, text):
    (verdict,) = check_limits([Limit.of(name, "max", text)], of, None, None)
    return verdict.outcome


def test_limits_on_rows():
    of = with_kernels(("copy", 2.0, 0.5))
    assert outcome(of, "kernels.copy.device_ms", "0.4") == "breach"
    assert outcome(of, "kernels.copy.calls", "2") == "ok"
    assert outcome(of, "kernels.gone.device_ms", "0") == "ok"
    assert (
        outcome(with_kernels(*[(f"k{i}", 1.0, 1.0) for i in range(30)]), "kernels.x.calls", "1")
        == "missing"
    )
    with pytest.raises(LimitError, match="no figure"):
        outcome(of, "kernels.copy.colour", "1")


def test_limits_in_bytes():
    assert Limit.of("memory.peak", "max", "24 GB").value == 24e9
    assert Limit.of("memory.peak", "max", "1GiB").value == 2**30
    with pytest.raises(LimitError, match="no unit"):
        Limit.of("memory.peak", "max", "5% GB")
