"""Findings on idle time: launching, syncs, input, host work, the profiler, and what the recording
does not tell."""

from collections.abc import Iterator

from traceanalyzer.analysis.causes.details import IdleDetail
from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.groups.idle import longest_gaps_of, queued_idle_ms
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.base import digits
from traceanalyzer.diagnosis import loader_advice
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding, share
from traceanalyzer.diagnosis.finding import BottleneckClass, Evidence, Words
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.remedies.host import instead_of_waits
from traceanalyzer.diagnosis.remedies.program import program
from traceanalyzer.diagnosis.remedies.remedy import text
from traceanalyzer.replay.scenarios import NO_HOST_SYNCS_LAUNCHES_FREE
from traceanalyzer.trace import Bool

PLACES = 3  # waiting places named in the evidence
BASIS = "all idle time after waits gone, an upper bound"
THEN_FASTER = "Remove the waits, then also issue the work faster: "
TOO_SLOW = "Without that the host stays too slow to keep the GPU busy."
AND_THEN = Words(
    (
        f"{THEN_FASTER}work without waits can be captured in a CUDA graph or compiled "
        f"(mode='reduce-overhead'). {TOO_SLOW}"
    ),
    f"{THEN_FASTER}work without waits can be captured in a CUDA graph. {TOO_SLOW}",
    f"{THEN_FASTER}put the loop into one jit (lax.scan). {TOO_SLOW}",
)
ALL_GONE = "this idle time gone, an upper bound"
LOAD_AHEAD = (
    "Load ahead: prepare the next input on another thread while the GPU works, in pinned memory (cudaHostAlloc), and "
    "copy it with cudaMemcpyAsync on a stream of its own."
)
LOAD_AHEAD_IN_JAX = (
    "Load ahead: prepare the next batch on another thread and put it on the GPU "
    "(jax.device_put) before it is needed."
)


def launch_bound(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The host issues work more slowly than the device does it."""
    if m.step.idle is None:
        return
    idle = m.step.idle.launch - _between_queued_ms(m)
    if idle <= 0:
        return
    less = "pauses between queued ops" if idle < m.step.idle.launch else ""
    evidence = [share(m, idle, "idle while the CPU launches", less=less)]
    if m.host is not None:
        where = "launching threads" + ", per recorded step" * m.timed.steps.found
        evidence.append(Evidence("CPU time spent launching", m.host.dispatch_ms, "ms", where))
    evidence += _launch_evidence(m)
    words = said("launch-bound")
    captured = program(m).in_graphs
    action = said("launch-bound", "more_in_graphs") if captured else words
    already_whole = (
        captured and m.launches is not None and m.launches.graph_launches <= 1.0
    )  # the step is a single graph
    proposals = [] if already_whole else [Proposal(action, ALL_GONE, name="cuda_graph")]
    yield finding("launch-bound", "idle.launch", idle, evidence, proposals, words=words)


def launch_latency(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The next op was queued, and the device still paused before it."""
    idle = _between_queued_ms(m)
    if idle <= 0:
        return
    evidence = [share(m, idle, "idle between ops that were already queued"), *_launch_evidence(m)]
    words = said("launch-latency")
    fuse = Proposal(words, "pauses between queued kernels, an upper bound", name="fuse_elementwise")
    # a graph's kernels wait for each other on the device: what fuses them says so itself
    proposals = [] if program(m).in_graphs else [fuse]
    yield finding("launch-latency", "idle.launch", idle, evidence, proposals, words=words)


def _between_queued_ms(m: Measurements) -> float:
    """Idle time of a step between ops that had been queued: the device's own, so the same with and
    without profiler."""
    return 0.0 if m.step.idle is None else min(queued_idle_ms(m.causes), m.step.idle.launch)


def _launch_evidence(m: Measurements) -> list[Evidence]:
    stats = m.launches
    if stats is None:
        return []
    return [
        Evidence(
            f"kernels {m.timed.steps.per}",
            stats.kernels,
            "",
            "steady state" if m.timed.steps.found else "",
        ),
        Evidence("mean kernel duration", stats.kernel_mean_us, "us", "steady state"),
        Evidence("mean launch call", stats.launch_mean_us, "us", "steady state, profiler attached"),
    ]


def input_wait(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The device ran dry while the host loaded data."""
    idle = m.step.idle
    if idle is None or idle.input <= 0:
        return
    loading = [p for p in m.phase_rows if p.is_input]
    evidence = [share(m, idle.input, "idle while input data is awaited")]
    evidence += [Evidence("time in input loading", p.host_ms, "ms", p.name) for p in loading[:2]]
    evidence += loader_advice.evidence(m, m.loading) if m.loading is not None else ()
    evidence += [
        Evidence("longest gap", d, "ms", text)
        for d, text in longest_gaps_of(m.causes, IdleCause.INPUT)
    ]
    basis = (
        "idle time while data was awaited; assumes that loading can be hidden behind GPU "
        "work completely"
    )
    words = loader_advice.load_ahead(m, LOAD_AHEAD, LOAD_AHEAD_IN_JAX)
    ahead = Proposal(words, basis, name="data_loader_workers")
    yield finding("input-wait", "idle.input", idle.input, evidence, [ahead], words=words)


def host_work(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The device ran dry during long stretches of other host work."""
    idle = m.step.idle
    if idle is None or idle.host <= 0 or m.ledger is None:
        return
    unnamed = [one for one in m.ledger.of("idle", "host") if one.detail is None]
    left = float(sum(one.ms for one in unnamed))
    if left <= 0:
        return
    evidence = [share(m, left, "idle during other CPU work between launches")]
    if m.host is not None:
        where = f"stretches from 0.1 ms on, {m.timed.steps.per}"
        evidence.append(Evidence("CPU work without API calls", m.host.work_ms, "ms", where))
    gaps = longest_gaps_of(m.causes, IdleCause.HOST, IdleDetail.NONE)
    evidence += [Evidence("longest gap", d, "ms", text) for d, text in gaps]
    yield finding("host-work", "idle.host", left, evidence, basis=ALL_GONE, name="move_host_work")


def profiler(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The profiler's own work made the device idle."""
    idle = m.step.idle
    if idle is None or idle.profiler <= 0:
        return
    evidence = [share(m, idle.profiler, "idle during the profiler's own work")]
    yield finding("profiler", "idle.profiler", idle.profiler, evidence)


def unexplained(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Idle time whose cause the recording does not show."""
    idle = m.step.idle
    if idle is None or idle.other <= 0:
        return
    evidence = [share(m, idle.other, "idle for reasons not recorded")]
    evidence += [
        Evidence("longest gap", d, "ms", text)
        for d, text in longest_gaps_of(m.causes, IdleCause.OTHER)
    ]
    yield finding("idle-unexplained", "idle.other", idle.other, evidence)


def host_waits(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Waits that emptied the launch queue, so that the device idled until the host had caught
    up."""
    idle = m.step.idle
    if idle is None or idle.sync <= 0:
        return
    costly = [row for row in m.syncs if not row.benign] or m.syncs
    per = m.timed.steps.per
    each = m.timed.steps.each
    evidence = [
        share(m, idle.sync, "idle after the queue was drained by a sync"),
        Evidence(f"waits {per}", sum(r.calls for r in costly), "", "calls that block on the GPU"),
        *(
            Evidence("CPU blocked in the recording", r.host_wait_ms, "ms", _where(r, each))
            for r in costly[:PLACES]
        ),
    ]
    larger: BottleneckClass = "launch" if idle.launch > idle.sync else "sync"
    words = said("host-waits")
    how = instead_of_waits(m)
    waits = Words(text("remove_syncs", how), words.cuda, words.jax) if how == "coalesce" else words
    proposals = [
        Proposal(waits, BASIS, name="remove_syncs"),
        Proposal(
            AND_THEN,
            BASIS,
            NO_HOST_SYNCS_LAUNCHES_FREE,
            suffix="-and-launches",
            cls=larger,
            name="cuda_graph",
        ),
    ]
    yield finding("host-waits", "idle.sync", idle.sync, evidence, proposals, words=waits)


def _where(row: SyncRow, each: str) -> str:
    """The place in the program: the call, the operators around it, the phase, the line."""
    phase = (
        row.phase if row.phase is None or row.phase.startswith("between ") else f"phase {row.phase}"
    )
    parts = (
        f"{row.call}, {digits(row.calls, 4)}{each}",
        row.op and f"in {row.op}",
        phase,
        row.python,
    )
    return ", ".join(part for part in parts if part)
