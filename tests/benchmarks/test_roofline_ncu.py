"""The roofline against what Nsight Compute measured on an H200 (the measurement is kept here)."""

from __future__ import annotations

import csv

from benchmarks.ncu_cases import CASES, HELD_OUT, IMAGES, WARM
from benchmarks.ncu_record import COUNTERS, reduce_report
from benchmarks.roofline_ncu import STORED, Row, agreement, closeness, compare, markdown
from traceanalyzer.analysis.roofline.bounds import Bound
from traceanalyzer.ingest.ncu import read_counters

ROWS = compare()


def test_bound_class_agrees_on_nine_tenths_of_the_kernel_time() -> None:
    assert agreement(ROWS) >= 0.9
    assert agreement(row for row in ROWS if row.held_out) >= 0.85


def test_traffic_is_close_where_it_exceeds_the_cache() -> None:
    assert closeness(ROWS) >= 0.8
    assert closeness(row for row in ROWS if not row.held_out) >= 0.9


def test_every_kernel_belongs_to_a_case() -> None:
    assert {row.case for row in ROWS} <= {*CASES, *HELD_OUT, *IMAGES, *WARM}
    assert len(ROWS) == sum(len(read_counters(report)) for report in STORED.glob("*.csv"))


def test_the_table_says_what_was_compared() -> None:
    text = markdown(ROWS)
    assert "| mm bf16 8192 | nvjet" in text
    assert "(held out)" in text


def row(estimated: Bound, compute: float, memory: float) -> Row:
    return Row("add", "kernel", 1, estimated, 1.0, compute, memory, 1.0, 0.0)


def test_balanced_kernels_agree_with_either_and_idle_ones_with_latency() -> None:
    assert row(Bound.INSTRUCTIONS, 0.7, 0.65).agrees
    assert row(Bound.MEMORY, 0.7, 0.65).agrees
    assert not row(Bound.MEMORY, 0.8, 0.65).agrees
    assert not row(Bound.COMPUTE, 0.59, 0.1).agrees
    assert row(Bound.LATENCY, 0.59, 0.1).agrees


def test_a_report_is_reduced_to_what_is_compared() -> None:
    columns = ["ID", "Host Name", "Kernel Name", "Block Size", COUNTERS[0]]
    rows = [
        columns,
        [""] * 5,
        ["0", "secret", "void <unnamed>::softmax<(int)4>(float *)", "(1, 1, 1)", "5"],
    ]
    text = "==PROF== 1\n" + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    reduced = list(csv.reader(reduce_report(text).splitlines()))
    assert reduced[0] == ["ID", "Kernel Name", "Block Size", COUNTERS[0]]
    assert reduced[2] == ["0", "void softmax", "(1, 1, 1)", "5"]
