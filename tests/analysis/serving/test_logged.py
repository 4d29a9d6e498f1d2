"""The server's own log: joined by order, batch and tokens, and left alone where that is not
certain."""

from __future__ import annotations

import numpy as np
import pytest

from traceanalyzer.analysis.names.serving import Split
from traceanalyzer.analysis.serving.logged import COLUMNS, logged
from traceanalyzer.trace import StepTimings


def log(*lines: tuple[int, int, float]) -> StepTimings:
    """Of prompt tokens, decodes and ms."""
    batches = [(int(tokens > 0), tokens, decodes, decodes) for tokens, decodes, _ in lines]
    columns = dict(zip(COLUMNS, zip(*batches, strict=True), strict=True))
    return StepTimings.from_columns(
        {**columns, "duration": [round(ms * 1e6) for _, _, ms in lines]}
    )


def of(tokens: int, decodes: int) -> Split:
    return Split(int(tokens > 0), tokens, decodes, decodes)


def test_the_recorded_part_of_a_log_is_found_by_its_batches() -> None:
    lines = [
        (0, 5, 5.0),
        (500, 4, 30.0),
        (0, 6, 12.0),
        (0, 5, 10.0),
        (0, 5, 10.0),
        (0, 5, 5.0),
        (9, 4, 9.0),
        (0, 5, 1.0),
    ]
    recorded = [of(500, 4), of(0, 6), of(0, 5), of(0, 5)]
    found = logged(log(*lines), recorded, np.array([np.nan, 12e6, 10e6, 10e6]))
    assert found is not None
    assert found.time_ns.tolist() == [30e6, 12e6, 10e6, 10e6]
    assert found.stretch == pytest.approx(2.0), (
        "the decode after another prefill is of other requests"
    )


def test_a_log_of_the_same_requests_without_the_profiler_tells_its_stretch() -> None:
    found = logged(
        log((500, 4, 30.0), (0, 5, 10.0), (0, 5, 10.0)),
        [of(500, 4), of(0, 5)],
        np.array([40e6, 15e6]),
    )
    assert found is not None
    assert found.stretch == pytest.approx(1.5)


def test_what_marks_do_not_say_may_be_anything() -> None:
    found = logged(
        log((500, 4, 30.0), (0, 5, 10.0)), [Split(1, None, 4, None), Split()], np.full(2, np.nan)
    )
    assert found is not None
    assert np.isfinite(found.time_ns).all()


@pytest.mark.parametrize(
    "recorded",
    [[of(0, 5)], [of(700, 4), of(0, 9)], [of(0, 5)] * 9],
    ids=["twice in it", "of another time", "longer"],
)
def test_a_log_that_does_not_tell_is_not_joined(recorded: list[Split]) -> None:
    assert (
        logged(
            log((500, 4, 30.0), (0, 5, 10.0), (0, 5, 10.0)),
            recorded,
            np.full(len(recorded), np.nan),
        )
        is None
    )


@pytest.mark.parametrize(
    ("recorded", "stacks", "joined"),
    [
        (9.0, False, False),
        (9.6, False, True),
        (23.0, False, True),
        (24.0, False, False),
        (24.0, True, True),
    ],
)
def test_a_log_of_another_server_is_not_joined(recorded: float, stacks: bool, joined: bool) -> None:
    lines = log((500, 4, 30.0), (0, 5, 10.0), (0, 5, 10.0))
    ms = np.array([np.nan, recorded, recorded])
    found = logged(lines, [of(500, 4), of(0, 5), of(0, 5)], ms * 1e6, stacks)
    assert found is not None
    assert bool(np.isfinite(found.time_ns).all()) is joined
    assert found.other_ms == (None if joined else pytest.approx((10.0, recorded)))
    assert joined or found.stretch is None
