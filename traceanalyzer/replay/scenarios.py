"""What the step would take if one thing were different: the scenarios that `whatif` answers. Each is a
small change of the tape."""

from dataclasses import replace

from traceanalyzer.replay.bounds import (
    at_roofline,
    communication_free,
    copies_hidden,
    input_ready,
    launches_free,
    no_host_syncs,
    no_host_work,
)
from traceanalyzer.replay.changes.communication.buckets import BucketSize
from traceanalyzer.replay.changes.communication.collectives import (
    MOST_OVERLAP_COST,
    OVERLAP_COST,
    on_own_stream_each,
)
from traceanalyzer.replay.changes.compiling import chains_compiled, functions_compiled
from traceanalyzer.replay.changes.fusion import ELEMENTWISE, PAIR, Reading, fusing
from traceanalyzer.replay.changes.optimizer import optimizer_by_lists, optimizer_fused
from traceanalyzer.replay.scenario import Scenario, buckets, combined, lower_median

NO_HOST_SYNCS = Scenario(
    "no_host_syncs",
    no_host_syncs,
    "the host never waits for the device, and operators that only read values, or have to (`nonzero`), are gone; what "
    "computes those values stays (`remove_syncs` drops it, and keeps the waits of copies from pageable memory)",
    kind="ideal",
    nearest="remove_syncs",
)
LAUNCHES_FREE = Scenario(
    "launches_free",
    launches_free,
    "dispatch and launches cost nothing; waits stay",
    kind="ideal",
    nearest="cuda_graph",
)
NO_HOST_SYNCS_LAUNCHES_FREE = replace(
    combined(NO_HOST_SYNCS, LAUNCHES_FREE),
    basis="no waits, and dispatch and launches cost nothing",
    nearest="remove_syncs+cuda_graph",
)
FUSED_ELEMENTWISE = Scenario(
    "fused_elementwise",
    chains_compiled(Reading.TYPICAL),
    "each run of elementwise kernels on the same data, launched back to back, is one: it moves what the largest of "
    "them moves, and has the arithmetic of all; the host calls one compiled function (upper end: one a run, which "
    "takes as long as its longest kernel)",
    optimistic=fusing(ELEMENTWISE, Reading.OPTIMISTIC),
    pessimistic=functions_compiled(Reading.PESSIMISTIC, PAIR, ELEMENTWISE),
    missing="no elementwise kernels are launched back to back",
    nearest="fuse_elementwise",
)
FUSED_OPTIMIZER = Scenario(
    "fused_optimizer",
    optimizer_fused,
    "Adam reads and writes everything once, in one launch for every few dozen tensors",
    missing="no step of an Adam that is not fused already was recorded",
)
FOREACH_OPTIMIZER = Scenario(
    "foreach_optimizer",
    optimizer_by_lists,
    "each of Adam's operators takes a few dozen tensors in one launch",
    missing="no step of an Adam that goes from tensor to tensor was recorded",
    nearest="fused_optimizer",
)
INPUT_READY = Scenario(
    "input_ready",
    input_ready,
    "input data is always ready",
    kind="ideal",
    nearest="data_loader_workers",
)
NO_HOST_WORK = Scenario(
    "no_host_work",
    no_host_work,
    "no host work between launches but dispatch",
    missing="CPU work before page migrations, which no call launches, cannot be replayed",
    kind="ideal",
    nearest="move_host_work",
)
COPIES_HIDDEN = Scenario(
    "copies_hidden",
    copies_hidden,
    (
        "copies run beside the rest and block nobody: the whole takes the longer of its "
        "copies and the rest"
    ),
    hides=lambda tape: tape.copy,
    kind="ideal",
    nearest="copy_ahead",
)
COMMUNICATION_FREE = Scenario(
    "communication_free",
    communication_free,
    (
        "collectives are free, with the copies into and out of their messages, and no rank "
        "waits for another"
    ),
    kind="ideal",
)
COMMUNICATION_OVERLAPPED = Scenario(
    "communication_overlapped",
    on_own_stream_each(OVERLAP_COST),
    (
        "collectives run beside the compute as far as that lasts, which becomes longer by "
        "half of their time"
    ),
    optimistic=on_own_stream_each(0.0),
    pessimistic=on_own_stream_each(MOST_OVERLAP_COST),
    kind="ideal",
    nearest="overlap_communication",
)


BUCKETS_DOUBLED = replace(
    buckets("buckets_doubled", BucketSize(factor=2.0)), nearest="larger_buckets"
)
BUCKETS_HALVED = replace(
    buckets("buckets_halved", BucketSize(factor=0.5)), nearest="smaller_buckets"
)
NO_STRAGGLER = Scenario(
    "no_straggler",
    lambda tape: tape if (tape.meeting >= 0).any() else None,
    "every rank takes as long as the middle one, and collectives only transfer",
    missing="it takes the recordings of several ranks that share collectives",
    step_of_run=lower_median,
    begin=lower_median,
    kind="ideal",
    nearest="fix_straggler",
)
AT_ROOFLINE = Scenario(
    "at_roofline",
    at_roofline,
    "each kernel whose work is known takes no longer than the GPU's limits allow; the others stay",
    missing="the work of the kernels, or the GPU's limits, are not known",
    kind="ideal",
)

SCENARIOS = (
    NO_HOST_SYNCS,
    LAUNCHES_FREE,
    NO_HOST_SYNCS_LAUNCHES_FREE,
    FUSED_ELEMENTWISE,
    FUSED_OPTIMIZER,
    FOREACH_OPTIMIZER,
    INPUT_READY,
    NO_HOST_WORK,
    COPIES_HIDDEN,
    COMMUNICATION_FREE,
    COMMUNICATION_OVERLAPPED,
    BUCKETS_DOUBLED,
    BUCKETS_HALVED,
    NO_STRAGGLER,
    AT_ROOFLINE,
)
"""What `whatif` answers, one list; more are made by `faster`, `less_compute` and `combined`."""
COMBINED = (
    NO_HOST_SYNCS,
    LAUNCHES_FREE,
    FUSED_ELEMENTWISE,
    FUSED_OPTIMIZER,
    INPUT_READY,
    NO_HOST_WORK,
    COPIES_HIDDEN,
    COMMUNICATION_OVERLAPPED,
)
"""Changes to a program that can be made together; the best few are also predicted at once."""
