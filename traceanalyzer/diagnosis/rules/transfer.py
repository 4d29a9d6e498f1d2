"""Findings on memory copies."""

from collections import defaultdict
from collections.abc import Iterator

from traceanalyzer.analysis.groups.input_loading import MANY, small_copies
from traceanalyzer.analysis.tables.copies import CopyStats
from traceanalyzer.base import digits
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding, share
from traceanalyzer.diagnosis.finding import Evidence, Words, same_for_all
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.pages import said
from traceanalyzer.diagnosis.shares import WITHIN, copied_within_gpu_ms
from traceanalyzer.trace import Bool
from traceanalyzer.trace.hardware import GIGA

ROWS = 3  # kinds of copies named in the evidence
TOO_LONG_TO_HIDE = 0.5  # a step with less than this share for all but its copies cannot hide them
SLOW_LINK = 0.5  # large pinned copies reach 0.8 of a PCIe link's rate and more
BACK = "device to host"
PIN = "Pin the host memory (pin_memory=True); pageable copies are slow and block the host. "
TOGETHER = "one copy instead of all small ones; what that gains was not replayed"
HIDE = (
    "Copy on a side stream with non_blocking=True while earlier work computes; send less "
    "(smaller types, compute on the GPU what can be)."
)
HIDE_IN_CUDA = (
    "Copy on a stream of its own with cudaMemcpyAsync and pinned memory (cudaHostAlloc) while kernels run; send less: "
    "smaller types, or keep the data on the GPU."
)
HIDE_IN_JAX = (
    "Keep what steps pass on to each other on the GPU, and donate it (jax.jit(f, donate_argnums=0)): a donated buffer "
    "is written in place, not copied. Put inputs on the GPU ahead of their use (jax.device_put)."
)


def exposed_copies(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Copies while nothing else ran on the device."""
    budget = m.step.budget
    if budget is None:
        return
    exposed = budget.exposed_copy - min(copied_within_gpu_ms(m), budget.exposed_copy)
    if exposed <= 0:
        return
    evidence = [share(m, exposed, "copies that overlap with nothing")]
    between = [row for row in m.copies if row.direction != WITHIN]
    shown = sorted(between, key=lambda row: -row.exposed_ms)[:ROWS]
    for row in shown:
        ends = f"{row.source_memory or 'not recorded'} to {row.target_memory or 'not recorded'}"
        known = row.source_memory is not None or row.target_memory is not None
        where = ", ".join([row.direction, *[ends] * known, row.size])
        evidence.append(Evidence("exposed copy time", row.exposed_ms, "ms", where))
        if row.bandwidth_gbs is not None:
            evidence.append(
                Evidence("achieved bandwidth", row.bandwidth_gbs, "GB/s", where + _of_link(m, row))
            )
    proposals = _proposals(m, between, shown, exposed)
    yield finding(
        "exposed-copies", "exposed_copy", exposed, evidence, proposals, words=proposals[-1].action
    )


def _of_link(m: Measurements, row: CopyStats) -> str:
    """That large copies of pinned memory are far slower than the link of this GPU, where they
    are."""
    gpu = None if m.timed.device is None else m.linked.gpus[m.timed.device]
    pinned = "pinned" in (row.source_memory, row.target_memory) and row.size.startswith("over")
    if (
        not pinned
        or gpu is None
        or not gpu.host
        or (row.bandwidth_gbs or gpu.host) * GIGA >= SLOW_LINK * gpu.host
    ):
        return ""
    return (
        f"; its link carries {digits(gpu.host / GIGA)} GB/s: fewer lanes, an older slot, or "
        "others use it"
    )


def _proposals(
    m: Measurements, between: list[CopyStats], shown: list[CopyStats], exposed: float
) -> list[Proposal]:
    """To hide the copies; first to send less, where they take longer than the rest of the step,
    which hides them."""
    pageable = any("pageable" in (row.source_memory, row.target_memory) for row in shown)
    totals: dict[tuple[int | None, int, str], float] = defaultdict(float)
    for row in between:
        totals[row.rank, row.device, row.direction] += row.total_ms
    # A link moves one copy at a time.
    least = max(*totals.values(), 0.0, m.step.step_ms - exposed)
    words = Words(PIN + HIDE if pageable else HIDE, HIDE_IN_CUDA, HIDE_IN_JAX)
    basis = "copies hidden behind the rest: all takes the longer of the two"
    hidden = Proposal(
        words, basis, name="pinned_memory" if pageable else "copy_ahead", least_ms=least
    )
    if exposed <= (1.0 - TOO_LONG_TO_HIDE) * m.step.step_ms:
        return [hidden]
    most = m.step.step_ms - least
    basis = (
        f"the copies take longer than all else, which can hide at most {digits(most)} of "
        f"their {digits(exposed)} ms"
    )
    back = sum(row.exposed_ms for row in between if row.direction == BACK)
    name = "copy_less" if back > exposed / 2 else None
    return [
        Proposal(said("exposed-copies", "less"), basis, suffix="-less", bound=True, name=name),
        hidden,
    ]


def device_copies(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Copies within the device while nothing else ran on it: traffic of its memory."""
    exposed = copied_within_gpu_ms(m)
    if m.step.budget is None or exposed <= 0:
        return
    evidence = [share(m, exposed, "copies within the GPU that overlap with nothing")]
    rows = sorted(
        (row for row in m.copies if row.direction == WITHIN), key=lambda row: -row.exposed_ms
    )
    shown = ((row.exposed_ms, f"{row.op or row.call or WITHIN}, {row.size}") for row in rows[:ROWS])
    evidence += [
        Evidence("exposed copy time", exposed_ms, "ms", where) for exposed_ms, where in shown
    ]
    action = (
        "Copy less within the GPU: write results where they are needed, views instead of "
        "copies, no concatenation."
    )
    less = Proposal(same_for_all(action), "copies within the GPU gone, an upper bound")
    yield finding("device-copies", "exposed_copy", exposed, evidence, [less])


def many_small_copies(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The step sends many small tensors to the GPU one by one. What they cost is idle time that
    other findings have, so no headroom is claimed."""
    copies = small_copies(m.timed)
    if copies is None or m.mean_step_ms <= 0:
        return
    host = copies.host_ms / m.mean_step_ms
    unit = m.timed.steps.unit
    evidence = [
        Evidence("CPU time in small copies", host, "share", f"of the recorded {unit}"),
        Evidence(
            "small copies to the GPU", copies.a_step, "", f"{m.timed.steps.per}, up to 64 kB", MANY
        ),
        Evidence("median size", copies.median_bytes, "bytes", copies.operator or "API calls"),
        Evidence("their time on the GPU", copies.device_ms, "ms", m.timed.steps.per),
    ]
    yield finding(
        "small-copies",
        "none",
        None,
        evidence,
        [Proposal(said("small-copies"), TOGETHER, name="batch_calls", bound=True)],
    )
