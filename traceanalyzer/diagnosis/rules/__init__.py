"""The rules, one visible list: each is `Measurements -> drafts of findings`, and states its own thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.rules.communication import exposed_communication
from traceanalyzer.diagnosis.rules.computation import above_roofline, computation
from traceanalyzer.diagnosis.rules.conditions import profiler_cost, spoiled
from traceanalyzer.diagnosis.rules.device import plain_compute
from traceanalyzer.diagnosis.rules.idle import (
    host_work,
    input_wait,
    launch_bound,
    launch_latency,
    profiler,
    unexplained,
)
from traceanalyzer.diagnosis.rules.new_shapes import new_shapes
from traceanalyzer.diagnosis.rules.sync import host_waits
from traceanalyzer.diagnosis.rules.timing import drifting, slow_input, slow_outliers, two_kinds
from traceanalyzer.diagnosis.rules.transfer import exposed_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.draft import Draft

RULES: tuple[Callable[[Measurements], Iterable[Draft]], ...] = (
    launch_bound,
    launch_latency,
    host_waits,
    input_wait,
    new_shapes,
    host_work,
    exposed_communication,
    exposed_copies,
    computation,
    plain_compute,
    above_roofline,
    profiler,
    unexplained,
    slow_input,
    two_kinds,
    slow_outliers,
    drifting,
    profiler_cost,
    spoiled,
)
