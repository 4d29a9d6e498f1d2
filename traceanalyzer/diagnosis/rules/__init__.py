"""The rules, one visible list: each is `(measurements, free) -> drafts of findings`, and states its own thresholds.

`free` are the device ops that no rule before it has claimed (`Draft.rows`); rules on other things leave it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traceanalyzer.diagnosis.rules.api_only import api_only
from traceanalyzer.diagnosis.rules.attention import written_out_attention
from traceanalyzer.diagnosis.rules.communication import exposed_communication
from traceanalyzer.diagnosis.rules.conditions import profiler_cost, spoiled
from traceanalyzer.diagnosis.rules.device import above_roofline, memory_chains, optimizer_passes, plain_compute
from traceanalyzer.diagnosis.rules.host_causes import host_causes, lost_kernels
from traceanalyzer.diagnosis.rules.idle import (
    host_work,
    input_wait,
    launch_bound,
    launch_latency,
    profiler,
    unexplained,
)
from traceanalyzer.diagnosis.rules.layout import channels_last, layout_copies, repeated_casts
from traceanalyzer.diagnosis.rules.matrix import (
    fp32_matmul,
    misaligned,
    odd_channels,
    small_products,
    wave_quantisation,
)
from traceanalyzer.diagnosis.rules.new_shapes import new_shapes
from traceanalyzer.diagnosis.rules.ranks import straggler
from traceanalyzer.diagnosis.rules.small_copies import many_small_copies
from traceanalyzer.diagnosis.rules.sorts import sorted_whole
from traceanalyzer.diagnosis.rules.strided import uncoalesced
from traceanalyzer.diagnosis.rules.sync import host_waits
from traceanalyzer.diagnosis.rules.timing import drifting, slow_input, slow_outliers, two_kinds
from traceanalyzer.diagnosis.rules.transfer import device_copies, exposed_copies
from traceanalyzer.diagnosis.rules.unknown_kernels import unknown_work

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traceanalyzer.analysis.measure import Measurements
    from traceanalyzer.diagnosis.draft import Draft
    from traceanalyzer.trace import Bool

RULES: tuple[Callable[[Measurements, Bool], Iterator[Draft]], ...] = (
    straggler,
    launch_bound,
    launch_latency,
    host_waits,
    input_wait,
    new_shapes,
    host_causes,
    host_work,
    exposed_communication,
    exposed_copies,
    device_copies,
    many_small_copies,
    optimizer_passes,
    sorted_whole,
    written_out_attention,
    channels_last,
    memory_chains,
    fp32_matmul,
    small_products,
    misaligned,
    odd_channels,
    wave_quantisation,
    repeated_casts,
    layout_copies,
    uncoalesced,
    plain_compute,
    above_roofline,
    profiler,
    lost_kernels,
    unexplained,
    unknown_work,
    api_only,
    slow_input,
    two_kinds,
    slow_outliers,
    drifting,
    profiler_cost,
    spoiled,
)
"""The order decides who gets what. Each rule takes its headroom from one part of the step (`Draft.part`) and its device
ops from those that are still free; what an earlier rule took is gone, so that no time is won twice. A rule that takes
all of a part (`host_work`) therefore stands behind those that take some of it (`new_shapes`), what removes kernels
before what makes them faster, and the sure before the likely. A new rule at the end gets what all others left; a test
fails for one that can never get anything.

Which findings are told: with headroom from `MIN_SHARE` of the step on, without from `MEDIUM_SHARE` on of the share that
is the first piece of evidence, or where that is a text (`diagnose.py`).
"""
