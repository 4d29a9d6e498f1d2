"""The rules, one visible list: each is `(measurements, free) -> drafts of findings`, and states its
own thresholds.

`free` are the device ops that no rule before it has claimed (`Draft.rows`); rules on other things
leave it alone."""

from collections.abc import Callable, Iterator

from traceanalyzer.diagnosis.draft import Draft
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.rules import (
    communication,
    device,
    evidence,
    host_causes,
    idle,
    nccl,
    passes,
    serving,
    timing,
    transfer,
)
from traceanalyzer.trace import Bool

RULES: tuple[Callable[[Measurements, Bool], Iterator[Draft]], ...] = (
    communication.straggler,
    idle.launch_bound,
    idle.launch_latency,
    idle.host_waits,
    idle.input_wait,
    host_causes.new_shapes,
    host_causes.host_causes,
    host_causes.counted_allocations,
    idle.host_work,
    communication.exposed_communication,
    transfer.exposed_copies,
    transfer.device_copies,
    transfer.many_small_copies,
    device.undersized,
    device.optimizer_passes,
    passes.regrown,
    passes.sorted_whole,
    passes.written_out_attention,
    passes.channels_last,
    device.memory_chains,
    device.fp32_matmul,
    device.small_products,
    device.misaligned,
    device.odd_channels,
    device.depthwise,
    device.wave_quantisation,
    passes.repeated_casts,
    passes.layout_copies,
    passes.uncoalesced,
    device.plain_compute,
    device.above_roofline,
    idle.profiler,
    host_causes.lost_kernels,
    host_causes.gpus_by_turns,
    idle.unexplained,
    evidence.unknown_work,
    evidence.api_only,
    evidence.cpu_only,
    serving.kv_cache_full,
    serving.requests_queue,
    serving.requests_preempted,
    serving.decodes_without_graphs,
    serving.late_first_token,
    serving.guesses_rejected,
    serving.decodes_read_memory,
    nccl.nccl_socket,
    nccl.nccl_no_gpudirect,
    nccl.nccl_no_p2p,
    nccl.nccl_few_channels,
    nccl.nccl_warnings,
    timing.slow_input,
    timing.two_kinds,
    timing.slow_outliers,
    timing.drifting,
    evidence.profiler_cost,
    evidence.spoiled,
)
"""The order decides who gets what. Each rule takes its headroom from one part of the step
(`Draft.part`) and its device ops from those that are still free; what an earlier rule took is gone,
so that no time is won twice. A rule that takes all of a part (`host_work`) therefore stands behind
those that take some of it (`new_shapes`), what removes kernels before what makes them faster, and
the sure before the likely. A new rule at the end gets what all others left; a test fails for one
that can never get anything.

Which findings are reported: with headroom from `MIN_SHARE` of the step on, without from
`MEDIUM_SHARE` on of the share that is the first piece of evidence, or where that is a text
(`diagnose.py`)."""
