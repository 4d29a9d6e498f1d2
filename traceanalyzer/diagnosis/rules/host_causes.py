"""Findings on host work with a remedy of its own: first use, allocation, graphs, compilation, page migration, changing
shapes; and on kernels that the recording has lost."""

from collections.abc import Iterator
from typing import NamedTuple

from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.groups.idle import detail_ms, longest_gaps
from traceanalyzer.analysis.tables.shape_rows import new_shapes as find_new_shapes
from traceanalyzer.diagnosis.draft import Draft, Proposal, share
from traceanalyzer.diagnosis.finding import Evidence, Words, everywhere
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.remedies.host import PREPARED, PREPARED_BEFORE
from traceanalyzer.replay.changes.warmup import graphs_kept
from traceanalyzer.replay.scenarios import Scenario
from traceanalyzer.trace import Bool

BASIS = "this idle time gone, an upper bound"
ONCE = "this idle time gone, an upper bound; the program's start alone may have it"
CUDNN_BENCHMARK = "cudnn.benchmark"
"""The condition that says whether each new convolution is tried with all algorithms, or a heuristic is asked."""

FIXED_SHAPES = Words(
    "Keep the shapes of convolutions and attention: crop, pad or bucket the inputs, generate with a static KV cache. "
    "Where they must change, leave torch.backends.cudnn.benchmark off, and cuDNN out of attention: "
    "torch.backends.cuda.enable_cudnn_sdp(False)."
)


class _Cause(NamedTuple):
    id: str
    title: str
    what: str
    action: str
    basis: str
    remedy: str | None


CAUSES = {
    IdleDetail.ALLOCATION: _Cause(
        "allocation",
        "The GPU waits while memory is allocated or freed",
        "idle during calls that allocate or free memory",
        "Do not allocate in the loop: keep buffers and reuse them, through a caching allocator (the framework's, "
        "or cudaMallocAsync with its pool's release threshold raised). Where a library allocates its workspace in each "
        "call, give it one (cuDNN, MIOpen: workspace limit or find mode).",
        BASIS,
        "avoid_allocations",
    ),
    IdleDetail.LOADING: _Cause(
        "first-use",
        "The GPU waits while kernels and libraries are loaded, at their first use",
        "idle during first launches, module loading and set-up of libraries",
        "Warm up before measuring and before serving: run each shape once. CUDA_MODULE_LOADING=EAGER moves loading of "
        "kernels to the start of the program.",
        ONCE,
        "warm_up",
    ),
    IdleDetail.GRAPHS: _Cause(
        "graph-building",
        "The GPU waits while CUDA graphs are captured, instantiated or updated",
        "idle during capture, instantiation and update of graphs",
        "Capture once and replay: fixed shapes and addresses, one graph for each shape kept; update a graph only where "
        "its parameters change.",
        BASIS,
        "fixed_shapes",
    ),
    IdleDetail.COMPILATION: _Cause(
        "compilation",
        "The GPU waits while code is compiled",
        "idle during compilation",
        "Compile ahead: warm up each shape, keep the compiler's cache between runs, mark sizes that change as dynamic.",
        ONCE,
        "warm_up",
    ),
    IdleDetail.PAGE_MIGRATION: _Cause(
        "page-migration",
        "The GPU waits while pages of managed memory move",
        "idle in faults on managed memory",
        "Move managed memory before it is touched: cudaMemPrefetchAsync to the side that needs it next, cudaMemAdvise "
        "(preferred location, read-mostly), or explicit copies of pinned memory.",
        BASIS,
        "keep_on_device",
    ),
    IdleDetail.MANAGED_LOOP: _Cause(
        "managed-memory-loop",
        "The GPU waits while the CPU works on managed memory",
        "idle during CPU work on managed memory between migrations",
        "Do on the GPU what the CPU does with this data (a loop that fills, checks or sums it): a kernel, or a "
        "library's reduction, and one result to the host. Prefetching shortens the faults, not the loop.",
        BASIS,
        "move_host_work",
    ),
}
SCENARIOS = {
    IdleDetail.GRAPHS: Scenario("graphs_kept", graphs_kept, "graphs are captured and updated ahead"),
    IdleDetail.PAGE_MIGRATION: None,
    IdleDetail.MANAGED_LOOP: None,
}
"""What is replayed for remedies that the list of remedies does not have for these causes."""
LOST = _Cause(
    "lost-kernels",
    "Kernels that were launched here are not in the recording: the GPU may have been busy",
    "idle as recorded, with launches whose kernels are missing",
    "",
    "",
    None,
)


def host_causes(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Idle time of host work that has a name of its own."""
    if m.idle is None or m.step.idle is None or m.idle.host <= 0:
        return
    for detail, cause in CAUSES.items():
        recorded = detail_ms(m.causes, detail)
        if recorded <= 0:
            continue
        # Without the profiler host work is as long as recorded in proportion to all of it.
        idle = min(recorded / m.idle.host, 1.0) * m.step.idle.host
        evidence = [share(m, idle, cause.what), *_longest(m, detail)]
        alone = detail in SCENARIOS
        remedy = Proposal(everywhere(cause.action), cause.basis, SCENARIOS.get(detail), name=cause.remedy, alone=alone)
        yield Draft(cause.id, "host", cause.title, "idle.host", idle, evidence, [remedy])


def lost_kernels(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Idle time during which kernels were launched that are not in the recording."""
    recorded = detail_ms(m.causes, IdleDetail.LOST)
    if m.step.idle is None or recorded <= 0:
        return
    idle = min(recorded, m.step.idle.other)
    evidence = [share(m, idle, LOST.what), *_longest(m, IdleDetail.LOST)]
    yield Draft(LOST.id, "inconclusive", LOST.title, "idle.other", idle, evidence)


def _longest(m: Measurements, detail: IdleDetail) -> Iterator[Evidence]:
    for length, text in longest_gaps(m.causes, detail=detail):
        yield Evidence("longest gap", length, "ms", text)


def new_shapes(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """cuDNN's operators get inputs of other shapes from step to step, and the GPU idles while the host is in them."""
    found = find_new_shapes(m.causes, PREPARED)
    if found is None or m.step.idle is None or m.idle is None or m.idle.host <= 0:
        return
    idle_ms = found.idle_ms * m.step.idle.host / m.idle.host
    setting = next((c.value for c in m.trace.conditions if c.name == CUDNN_BENCHMARK), "not known")
    evidence = [
        Evidence("operators whose shapes change", ", ".join(found.operators), "", "steady state"),
        Evidence("idle during CPU work in them", found.idle_ms, "ms", "per recorded step"),
        Evidence("steps with other shapes than the one before", found.changed, "", f"of {found.steps} steady steps"),
        Evidence("shapes", found.shapes, "", "in the steady steps"),
        Evidence(CUDNN_BENCHMARK, setting, "", "conditions of the recording"),
    ]
    keep = Proposal(FIXED_SHAPES, PREPARED_BEFORE.basis, name="fixed_shapes")
    title = "Changing input shapes make cuDNN re-plan inside the step"
    yield Draft("new-shapes", "host", title, "idle.host", idle_ms, evidence, [keep])
