"""What is worked out of a server's iterations on a tape, by hand."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from tests.replay.test_stretches import tape_of
from traceanalyzer.replay.iterations import Served
from traceanalyzer.replay.tape import Tape


def test_host_time_of_iterations_is_all_of_its_own_work() -> None:
    """Three iterations; what precedes a launch belongs to that one's, what launches for none counts
    for none."""
    nothing = np.zeros(5, np.int64)
    tape = replace(
        tape_of([(10, False), (20, True), (40, False), (80, False), (160, True)], []),
        loading=nothing + 5,
        profiling=nothing + 7,
        reading=nothing + 1000,
    )
    event = np.array([0, 0, 2, -1, 2], np.int32)
    served: Any = SimpleNamespace(found=range(3), _of_event=lambda _: event)
    each = 3 + 5 + 7  # work, loading and profiling of every event
    found = Served.host_ns(served, tape)
    assert found.tolist() == [10 + 20 + 2 * each, 0, 40 + 160 + 2 * each]


def test_an_event_belongs_to_the_iteration_that_it_launches_for() -> None:
    """Events that launch nothing belong with the next that does; those after the last with the
    last."""
    tape: Tape = tape_of([(1, False)] * 5, [(event, 0, 1, 0, 0, 0, 0, 0) for event in (1, 3)])
    served: Any = SimpleNamespace(of_op=np.array([4, 6], np.int32))
    assert Served._of_event(served, tape).tolist() == [4, 4, 6, 6, 6]
