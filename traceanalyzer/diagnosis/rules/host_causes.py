"""Findings on host work with a remedy of its own: first use, allocation, graphs, compilation, page
migration, changing shapes; and on kernels that the recording has lost."""

from collections.abc import Iterator
from typing import NamedTuple

from traceanalyzer.analysis.causes.causes import Causes
from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.groups.idle import MANAGED, detail_ms, longest_gaps_of
from traceanalyzer.analysis.tables.shape_rows import shape_changes as find_new_shapes
from traceanalyzer.base import ms
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding, share
from traceanalyzer.diagnosis.finding import Evidence
from traceanalyzer.diagnosis.ledger import Ledger
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.remedies.host import PREPARED, PREPARED_BEFORE
from traceanalyzer.replay.changes.warmup import graphs_kept
from traceanalyzer.replay.scenario import Scenario
from traceanalyzer.trace import Bool

BASIS = "this idle time gone, an upper bound"
ONCE = "this idle time gone, an upper bound; the program's start alone may have it"
LEAST_CALLS = 1.0
"""Pieces of memory that are allocated or freed a step, from which on a step does so each time. Steps
whose shapes stay ask for none once they have run a few times."""
CUDNN_BENCHMARK = "cudnn.benchmark"
"""The condition that says whether each new convolution is tried with all algorithms, or a heuristic
is asked."""
SCENARIOS = {
    IdleDetail.GRAPHS: Scenario(
        "graphs_kept", graphs_kept, "graphs are captured and updated ahead"
    ),
    IdleDetail.PAGE_MIGRATION: None,
    IdleDetail.MANAGED_LOOP: None,
}
"""What is replayed for remedies that the list of remedies does not have for these causes."""


class _Cause(NamedTuple):
    id: str
    what: str
    basis: str
    remedy: str


CAUSES = {
    IdleDetail.ALLOCATION: _Cause(
        "allocation", "idle during calls that allocate or free memory", BASIS, "avoid_allocations"
    ),
    IdleDetail.LOADING: _Cause(
        "first-use",
        "idle during first launches, module loading and set-up of libraries",
        ONCE,
        "warm_up",
    ),
    IdleDetail.GRAPHS: _Cause(
        "graph-building",
        "idle during capture, instantiation and update of graphs",
        BASIS,
        "fixed_shapes",
    ),
    IdleDetail.COMPILATION: _Cause("compilation", "idle during compilation", ONCE, "warm_up"),
    IdleDetail.PAGE_MIGRATION: _Cause(
        "page-migration", "idle in faults on managed memory", BASIS, "keep_on_device"
    ),
    IdleDetail.MANAGED_LOOP: _Cause(
        "managed-memory-loop",
        "idle during CPU work on managed memory between migrations",
        BASIS,
        "move_host_work",
    ),
}


def host_causes(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Idle time of host work that has a name of its own."""
    if m.ledger is None or m.step.idle is None:
        return
    for detail, cause in CAUSES.items():
        idle = min(_of_step_ms(m.causes, m.ledger, detail), m.step.idle.host)
        if idle <= 0:
            continue
        evidence = [share(m, idle, cause.what), *_longest(m, detail)]
        scenario = SCENARIOS.get(detail)
        alone = detail in SCENARIOS
        remedy = Proposal(said(cause.id), cause.basis, scenario, name=cause.remedy, alone=alone)
        yield finding(cause.id, "idle.host", idle, evidence, [remedy])


def _of_step_ms(causes: Causes, ledger: Ledger, detail: IdleDetail) -> float:
    """Idle time of a kind of host work in the step that the report speaks of. Of a pause before a
    migration the fault is migration, in the proportions of the recording."""
    kinds = MANAGED if detail in MANAGED else (detail,)
    recorded = sum(detail_ms(causes, kind) for kind in kinds)
    now = sum(ledger.detail_ms(kind) for kind in kinds)
    return detail_ms(causes, detail) * now / recorded if recorded else 0.0


def counted_allocations(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Memory that PyTorch's allocator asked of the device, or gave back, in each timed step, where the
    recorded steps have no idle time in such calls: what it takes is then not known."""
    stopwatch = m.trace.stopwatch
    calls = None if stopwatch is None else stopwatch.allocator
    if calls is None or calls.allocated + calls.freed < LEAST_CALLS:
        return
    if m.causes is not None and detail_ms(m.causes, IdleDetail.ALLOCATION) > 0:
        return
    moved = f"{calls.allocated:.1f} allocated, {calls.freed:.1f} freed"
    each = "a timed step, as PyTorch's allocator counts"
    evidence = [
        Evidence("pieces of device memory", moved, "", each),
        Evidence("the allocator waited for all streams", calls.emptied, "times", "a timed step"),
        Evidence("the allocator emptied its cache to ask again", calls.retries, "times", each),
    ]
    basis = "what these calls take is not in the recording"
    once = Proposal(
        said("allocation", "counted"), basis, name="avoid_allocations", bound=True, alone=True
    )
    yield finding("allocation", "idle.host", None, evidence, [once])


def lost_kernels(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Idle time during which kernels were launched that are not in the recording."""
    recorded = detail_ms(m.causes, IdleDetail.LOST)
    if m.step.idle is None or recorded <= 0:
        return
    idle = min(recorded, m.step.idle.other)
    what = "idle as recorded, with launches whose kernels are missing"
    yield finding(
        "lost-kernels", "idle.other", idle, [share(m, idle, what), *_longest(m, IdleDetail.LOST)]
    )


def gpus_by_turns(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Idle time during which another GPU of the process has its turn."""
    recorded = detail_ms(m.causes, IdleDetail.NEIGHBOUR)
    if m.step.idle is None or recorded <= 0:
        return
    idle = min(recorded, m.step.idle.other)
    what = "idle while another GPU of the process works"
    busy = [
        Evidence("GPU busy", ms(found.busy.total), "ms", f"GPU {device}, whole recording")
        for device, found in m.timed.activity.items()
    ]
    proposal = Proposal(said("gpus-by-turns"), "both GPUs busy all the time", bound=True)
    yield finding("gpus-by-turns", "idle.other", idle, [share(m, idle, what), *busy], [proposal])


def _longest(m: Measurements, detail: IdleDetail) -> list[Evidence]:
    return [
        Evidence("longest gap", length, "ms", text)
        for length, text in longest_gaps_of(m.causes, detail=detail)
    ]


def new_shapes(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """cuDNN's operators get inputs of other shapes from step to step, and the GPU idles while the
    host is in them."""
    changing = find_new_shapes(m.causes, PREPARED)
    if changing is None or m.step.idle is None or m.idle is None or m.idle.host <= 0:
        return
    idle_ms = changing.idle_ms * m.step.idle.host / m.idle.host
    setting = next((c.value for c in m.trace.conditions if c.name == CUDNN_BENCHMARK), "not known")
    evidence = [
        Evidence(
            "operators whose shapes change", ", ".join(changing.operators), "", "steady state"
        ),
        Evidence("idle during CPU work in them", changing.idle_ms, "ms", "per recorded step"),
        Evidence(
            "steps with other shapes than the one before",
            changing.changed,
            "",
            f"of {changing.steps} steady steps",
        ),
        Evidence("shapes", changing.shapes, "", "in the steady steps"),
        Evidence(CUDNN_BENCHMARK, setting, "", "conditions of the recording"),
    ]
    keep = Proposal(said("new-shapes"), PREPARED_BEFORE.basis, name="fixed_shapes")
    yield finding("new-shapes", "idle.host", idle_ms, evidence, [keep])
