"""Who is to blame for the largest part of the step, in one sentence: kind of work, module, phase or
place."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from traceanalyzer.analysis.causes.idle_cause import IdleCause
from traceanalyzer.analysis.groups.bounds import which_memory_bound
from traceanalyzer.analysis.groups.idle import longest_gaps_of
from traceanalyzer.analysis.groups.limits import kernel_limits
from traceanalyzer.analysis.roofline.op_models.tensors import Precision
from traceanalyzer.analysis.tables.modules import OUTSIDE
from traceanalyzer.analysis.tables.phases import PhaseStats
from traceanalyzer.analysis.tables.syncs import SyncRow
from traceanalyzer.base import digits, regex
from traceanalyzer.diagnosis.finding import BottleneckClass
from traceanalyzer.diagnosis.ledger import Ledger, LedgerEntry
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.outside import sleep_of_host
from traceanalyzer.diagnosis.shares import MOSTLY

KNOWN_SHARE = 0.8
"""Shares of the bytes are shown where models know the traffic of this share of the computation's
time."""
NAMED_SHARE = 0.2  # what has less of the time or the bytes is not to blame
MOST_PLACES = 3  # that are named where no single one has much
LEAST_PLACE = 0.05  # share of the idle time that each of them has at least
OPERATOR = "aten::"
FRAME = regex(r"^(.+)\((\d{1,9})\): (.+)")
IN_PLAIN = {"layout": "layout copies"}
"""Classes of kernels whose names do not say what they do with memory."""
LEAST_TAIL = 0.01  # of the exposed communication: a smaller part is none to name
LEAST_MFU = 0.01  # below, matmuls are not what the program is about
ONE_FORMAT = 0.9  # share of the operations from which one number format speaks for all


def culprit(m: Measurements, bottleneck: BottleneckClass) -> str | None:
    """The sentence; None where nothing stands out, or the recording does not tell."""
    tell = _tellers().get(bottleneck)
    found = None if tell is None else tell(m)
    return None if found is None else f"{found}."


def _tellers() -> dict[BottleneckClass, Callable[[Measurements], str | None]]:
    """Who is to blame, by what the step is bound by."""
    return {
        "compute": lambda m: _at_mfu(m, _heaviest(m) or _module(m)),
        "memory": _of_memory,
        "launch": _of_launch,
        "sync": _of_sync,
        "communication": _of_communication,
        "transfer": _of_transfer,
        "host": _of_idle(IdleCause.HOST, "the CPU work"),
        "input": _of_idle(IdleCause.INPUT, "the wait for data"),
    }


def _of_memory(m: Measurements) -> str | None:
    """The kernels that move most of the bytes; where latency limits most of the compute time, those
    that take most of it; where few bytes are known, the memory-bound ones that do."""
    if m.rated.memo(kernel_limits).latency > MOSTLY:
        return _heaviest(m)
    return _heaviest(m, by_bytes=True) or _heaviest(m, memory_bound=True)


def _at_mfu(m: Measurements, who: str | None) -> str | None:
    """With the MFU behind it, of the peak of the one number format that nearly all matrix products
    are in."""
    used = m.utilisation
    if used is None or (used.mfu or 0.0) < LEAST_MFU:
        return who
    r = m.rated.roofline
    matrix = m.timed.steady_ops & m.linked.is_matrix
    rows = matrix & np.isfinite(r.flops[:])
    work = np.bincount(r.precision[rows], weights=r.flops[rows], minlength=1)
    most = int(work.argmax())
    peak = (
        f" of the {Precision(most).name.lower()} peak"
        if most and work[most] > ONE_FORMAT * work.sum()
        else ""
    )
    least = "at least " if m.mfu_is_least else ""
    reached = f"the step's MFU is {least}{used.mfu:.0%}{peak}"
    return f"{who}; {reached}" if who else f"T{reached[1:]}"


def _heaviest(m: Measurements, *, by_bytes: bool = False, memory_bound: bool = False) -> str | None:
    """The class of kernels (of those that are memory-bound) that takes most of the device's time, or
    moves most of the bytes where most are known."""
    rows = np.flatnonzero(m.timed.steady_ops & m.linked.is_compute & m.linked.is_kernel)
    time = (m.trace.device_ops.end - m.trace.device_ops.start)[rows].astype(np.float64)
    total = time.sum()
    weight = time * m.rated.memo(which_memory_bound)[rows] if memory_bound else time
    if by_bytes:
        traffic = m.rated.roofline.bytes[rows]
        known = np.isfinite(traffic)
        if not known.any() or time[known].sum() < KNOWN_SHARE * time.sum():
            return None
        rows = rows[known]
        weight = traffic[known]
        total = weight.sum()
    of_class = np.bincount(m.linked.op_class[rows], weights=weight)
    if not of_class.sum():
        return None
    most = int(of_class.argmax())
    share = float(of_class[most] / total)
    name = m.linked.classes.names[most]
    if share < NAMED_SHARE or (name == "other" and not by_bytes):
        return None
    if by_bytes:
        return f"{_most(share)} of the memory traffic is {IN_PLAIN.get(name, f'{name} kernels')}"
    of_which = f"memory-bound {name}" if memory_bound else name
    return f"{_most(share)} of the compute time is in {of_which} kernels"


def _module(m: Measurements) -> str | None:
    top = max(
        (row for row in m.modules if row.name != OUTSIDE), key=lambda row: row.self_ms, default=None
    )
    device = sum(row.self_ms for row in m.modules)
    if top is None or not device or top.self_ms < NAMED_SHARE * device:
        return None
    return f"{top.self_ms / device:.0%} of the GPU's time is in module {top.name}"


def _of_idle(cause: IdleCause, what: str) -> Callable[[Measurements], str | None]:
    """The place of the ledger's largest entry of this cause, with the lines of Python there."""

    def found(m: Measurements) -> str | None:
        if m.ledger is None:
            return None
        total = m.ledger.ms("idle", cause.label)
        loader = _loader(m) if cause is IdleCause.INPUT else ""
        largest = _largest_of(m.ledger, cause)
        if largest is None or not total:
            return None
        where = loader or _where(largest, _lines(m, cause))
        if where is None or largest.ms < NAMED_SHARE * total:
            return _several(_places_of(m.ledger, cause), total, what)
        asleep = cause is IdleCause.HOST and m.memo(sleep_of_host)
        return f"{_most(largest.ms / total)} of {'its wait' if asleep else what}: {where}"

    return found


def _where(largest: LedgerEntry, lines: str) -> str | None:
    """Place of an entry of the ledger and lines of Python, as far as they are known."""
    place = largest.detail or largest.place
    return f"{place}, at {lines}" if place and lines else lines or place


def _several(places: Sequence[LedgerEntry], total_ms: float, what: str) -> str | None:
    """The largest places together, where no single one has much; None where these have not,
    either."""
    named = [one for one in places if one.place and one.ms >= LEAST_PLACE * total_ms]
    largest = sorted(named, key=lambda one: -one.ms)[:MOST_PLACES]
    together_ms = sum(one.ms for one in largest)
    if len(largest) < 2 or together_ms < NAMED_SHARE * total_ms:
        return None
    each = ", ".join(f"{one.place} {one.ms / total_ms:.0%}" for one in largest)
    return f"{_most(together_ms / total_ms)} of {what}: {each}"


def _loader(m: Measurements) -> str:
    """Who brings the data, where operators alone are known to wait for it; empty where the recording
    does not tell."""
    if m.loading is None or m.loading.workers is None or m.ledger is None:
        return ""
    largest = m.ledger.largest("idle", IdleCause.INPUT.label)
    if largest is None or not (largest.place or "").startswith(OPERATOR):
        return ""
    return "DataLoader with workers" if m.loading.workers else "DataLoader without workers"


def _largest_of(ledger: Ledger, cause: IdleCause) -> LedgerEntry | None:
    """The kind of host work with most idle time of this cause, wherever it is done, or the place
    with more; None where there is none."""
    largest = max(_places_of(ledger, cause), key=lambda entry: entry.ms, default=None)
    return largest if largest is not None and largest.ms > 0 else None


def _places_of(ledger: Ledger, cause: IdleCause) -> list[LedgerEntry]:
    """Idle time of this cause by kind of host work, wherever it is done, else by place."""
    by_detail: dict[str, float] = {}
    for entry in ledger.of("idle", cause.label):
        if entry.detail is not None:
            by_detail[entry.detail] = by_detail.get(entry.detail, 0.0) + entry.ms
    kinds = [LedgerEntry("idle", cause.label, None, name, ms) for name, ms in by_detail.items()]
    places = [
        entry if not (entry.place or "(").startswith("(") else replace(entry, place=None)
        for entry in ledger.of("idle", cause.label)
        if entry.detail is None
    ]
    return [*kinds, *places]


def _lines(m: Measurements, cause: IdleCause) -> str:
    """The functions of Python that the host was in during the longest gap of a cause."""
    told = longest_gaps_of(m.causes, cause, count=1)
    if not told:
        return ""
    gap = told[0][1].partition("; ended by")[0]
    return gap.partition(" at ")[2]


def _of_launch(m: Measurements) -> str | None:
    """The phase in which most of the GPU's idle time falls, else the operator."""
    return _phase_of_launch(m) or _of_idle(IdleCause.LAUNCH, "the launch overhead")(m)


def _phase_of_launch(m: Measurements) -> str | None:
    """The phase in which most of the GPU's idle time falls."""
    rows = [(_idle_ms(row), row) for row in m.phase_rows if row.role is not None and _idle_ms(row)]
    known = m.step.idle if m.idle_left is not None else m.idle
    if not rows or known is None or not known.total:
        return None
    idle_ms, top = max(rows, key=lambda one: one[0])
    share = idle_ms / known.total
    if share < NAMED_SHARE:
        return None
    phase = f"the {top.role} pass" if top.name in ("forward", "backward") else top.name
    return f"{_most(share)} of the idle time is in {phase}"


def _idle_ms(row: SyncRow | PhaseStats) -> float:
    """Idle time of the step that the report speaks of; as recorded where no other is known."""
    known = row.unprofiled_idle_ms
    return (row.gpu_idle_ms or 0.0) if known is None else known


def _of_sync(m: Measurements) -> str | None:
    """The place whose waits cost the GPU most."""
    costly = [row for row in m.syncs if not row.benign]
    if not costly:
        return None
    top = max(costly, key=_idle_ms)
    called = top.op.split(" > ")[0] if top.op else top.call
    where = f"{called} in {function_at(top.python)}" if top.python else called
    when = (
        ""
        if top.phase is None
        else f" {top.phase}"
        if top.phase.startswith("between")
        else f" in {top.phase}"
    )
    idle = sum(map(_idle_ms, costly))
    times = f"{digits(top.calls, 4)} times {m.timed.steps.per}"
    return (
        f"{_most(_idle_ms(top) / idle)} of the syncs' idle time: {where}, {times}{when}"
        if idle
        else None
    )


def _of_communication(m: Measurements) -> str | None:
    """The collective with the most exposed time, and the tail."""
    time = m.communication
    rows = m.collectives
    if time is None or not rows or not time.exposed_ms:
        return None
    top = rows[0]
    size = f" of {digits(top.message_bytes / 1e6)} MB" if top.message_bytes else ""
    share = min(top.exposed_ms / time.exposed_ms, 1.0)
    tail = ""
    if time.tail_ms is not None and time.tail_ms >= LEAST_TAIL * time.exposed_ms:
        tail = f", {time.tail_ms / time.exposed_ms:.0%} after the backward pass"
    return f"{_most(share)} of the exposed communication is {top.collective}{size}{tail}"


def _of_transfer(m: Measurements) -> str | None:
    rows = m.copies
    exposed = sum(row.exposed_ms for row in m.copies)
    if not rows or not exposed:
        return None
    top = rows[0]
    memory = f" ({top.source_memory} memory)" if top.source_memory == "pageable" else ""
    return (
        f"{_most(top.exposed_ms / exposed)} of the exposed copies: {top.direction}{memory}, "
        f"{top.size}"
    )


def function_at(frame: str) -> str:
    """A frame as a recorder names it, `train.py(59): step`, which is where the function is defined,
    in words: `step (defined at train.py:59)`."""
    found = FRAME.fullmatch(frame)
    return f"{found[3]} (defined at {found[1]}:{found[2]})" if found else frame


def _most(share: float) -> str:
    text = f"{min(share, 1.0):.0%}"
    return "All" if text == "100%" else text
