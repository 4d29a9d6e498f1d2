"""Iterations by phase and by how they reach the GPU: percentiles, the tail and its cause."""

from __future__ import annotations

from dataclasses import fields

import pytest

from traceanalyzer.analysis.serving.kinds import NOT_SHOWN, iteration_kinds
from traceanalyzer.analysis.serving.rows import IterationRow

NOTHING = {field.name: None for field in fields(IterationRow)}


def row(number: int, period: float, busy: float, idle: float, **more: object) -> IterationRow:
    values = {"phase": "decode", "graph": "replayed", **more}
    figures = {"period_ms": period, "gpu_busy_ms": busy, "host_idle_ms": idle}
    return IterationRow(**(NOTHING | {"iteration": number, **figures, **values}))  # type: ignore[arg-type]


def usual(count: int, start: int = 0, **more: object) -> list[IterationRow]:
    return [row(start + i, 10.0, 9.0, 1.0, **more) for i in range(count)]


def test_each_phase_and_way_is_a_kind_with_its_percentiles() -> None:
    rows = [*usual(20), *usual(5, 20, graph="eager"), *usual(5, 25, phase="prefill")]
    found = iteration_kinds(rows)
    assert [(kind.phase, kind.graph, kind.iterations) for kind in found] == [
        ("decode", "replayed", 20),
        ("decode", "eager", 5),
        ("prefill", "replayed", 5),
    ]
    assert (found[0].p50_ms, found[0].p99_ms, found[0].slow, found[0].cause) == (
        10.0,
        10.0,
        0,
        None,
    )


@pytest.mark.parametrize(
    ("slow", "cause"),
    [
        (row(20, 30.0, 9.0, 21.0), "waiting for the CPU"),
        (row(20, 30.0, 29.0, 1.0), "work of the GPU"),
        (row(20, 30.0, 9.0, 1.0), NOT_SHOWN),
    ],
)
def test_the_tail_has_a_cause(slow: IterationRow, cause: str) -> None:
    (kind,) = iteration_kinds([*usual(20), slow])
    assert (kind.slow, kind.slowest, kind.most_ms) == (1, 20, 30.0)
    assert (kind.cause, kind.cause_ms) == (cause, pytest.approx(20.0))


def test_a_log_has_times_and_no_cause() -> None:
    times = [10.0] * 20 + [40.0]
    rows = [
        IterationRow(**(NOTHING | {"iteration": i, "phase": "decode", "logged_ms": time}))  # type: ignore[arg-type]
        for i, time in enumerate(times)
    ]
    (kind,) = iteration_kinds(rows)
    assert (kind.graph, kind.p50_ms, kind.most_ms, kind.slow, kind.cause) == (
        None,
        10.0,
        40.0,
        1,
        None,
    )
    assert iteration_kinds([IterationRow(**(NOTHING | {"iteration": 0}))]) == []  # type: ignore[arg-type]
