"""The iterations of a serving engine as rows: what each had to do, and what it cost."""

from collections.abc import Sequence

import numpy as np

from traceanalyzer.analysis.algebra import at, complement
from traceanalyzer.analysis.joined.linked import Linked
from traceanalyzer.analysis.names.api import ApiKind
from traceanalyzer.analysis.names.serving import iteration_phase
from traceanalyzer.analysis.serving.cut import Iterations, find_iterations
from traceanalyzer.analysis.serving.gap_causes import gap_causes
from traceanalyzer.analysis.serving.logged import Logged, logged
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import dataclass, metric, ms
from traceanalyzer.trace import F64, I64, StepTimings

PIECES = 4
"""A forward pass cut at each attention replays more graphs than this, a draft and its verification
fewer."""


@dataclass(frozen=True)
class IterationRow:
    """One iteration of a serving engine."""

    iteration: int = metric("index, in time order")
    start_ms: float | None = metric("when it begins on the host, since the first of them")
    phase: str | None = metric(
        "prefill, decode, mixed, verify or idle; null where its mark does not say", text="own"
    )
    requests: int | None = metric("requests of its batch")
    context_tokens: int | None = metric("prompt tokens that it prefills")
    generation_tokens: int | None = metric(
        "tokens of its decodes: one a request, more where guesses are verified"
    )
    kv_tokens: int | None = metric(
        "sum of its requests' lengths: what attention reads of the KV cache"
    )
    host_ms: float | None = metric("length of its mark on the host; the GPU may work for longer")
    gpu_span_ms: float | None = metric(
        "from the start of its first GPU operation to the end of its last one"
    )
    gpu_busy_ms: float | None = metric("time in it with any of its GPU operations (union)")
    period_ms: float | None = metric(
        "from the end of the previous one's GPU work to the end of its own"
    )
    host_idle_ms: float | None = metric(
        "GPU idle time of that (of the span, for the first) until the call that launches "
        "what ends it had returned"
    )
    gap_ms: float | None = metric(
        "GPU idle time from its end to the next iteration's first GPU operation"
    )
    gap_cause: str | None = metric("what the host did for most of that gap", text="own")
    graph: str | None = metric(
        (
            "replayed: its kernels come from CUDA graphs; piecewise: from graphs of parts of "
            "the model; eager: none"
        ),
        text="own",
    )
    gpu_ops: int | None = metric("its kernels, copies and memsets")
    launches: int | None = metric("kernels that it launched one by one")
    graph_launches: int | None = metric("graphs that it launched")
    logged_ms: float | None = metric("its time in the server's log")


def iteration_rows(timed: Timed) -> list[IterationRow]:
    """A row for each iteration; none where nothing marks one."""
    cut = timed.memo(find_iterations)
    if cut is None:
        return _of_log(timed.trace.step_timings) if timed.trace.only_step_times else []
    log = timed.memo(found_in_log)
    gap, cause = _gaps(timed.linked, cut)
    before = cut.before.tolist()
    origin = int(cut.host_start.min())
    graphs, plain = _launches(timed.linked, cut)
    rows = []
    for i, iteration in enumerate(cut.told):
        on_host = cut.host_start[i] >= 0
        on_device = len(cut.busy[i].start) > 0
        late = _late(timed.linked, cut, i, before[i])
        rows.append(
            IterationRow(
                iteration=i,
                start_ms=ms(cut.host_start[i] - origin) if on_host else None,
                phase=None if iteration.phase == "iteration" else iteration.phase,
                requests=iteration.requests,
                context_tokens=cut.splits[i].context_tokens,
                generation_tokens=cut.splits[i].generation_tokens,
                kv_tokens=iteration.kv_tokens,
                host_ms=ms(cut.host_end[i] - cut.host_start[i]) if on_host else None,
                gpu_span_ms=ms(cut.end[i] - cut.start[i]) if on_device else None,
                gpu_busy_ms=ms(cut.busy[i].total) if on_device else None,
                period_ms=_in_ms(cut.period_ns[i]),
                host_idle_ms=ms(late) if on_device else None,
                gap_ms=_in_ms(gap.get(i)),
                gap_cause=cause.get(i),
                graph=_graph(timed.linked, cut.rows[i], graphs[i]) if on_device else None,
                gpu_ops=len(cut.rows[i]),
                launches=plain[i],
                graph_launches=graphs[i],
                logged_ms=None if log is None else _in_ms(log.time_ns[i]),
            )
        )
    return rows


def by_phase(rows: Sequence[IterationRow]) -> dict[str, list[IterationRow]]:
    """The iterations of each phase; without those whose phase is not known."""
    found: dict[str, list[IterationRow]] = {}
    for row in rows:
        if row.phase is not None:
            found.setdefault(row.phase, []).append(row)
    return found


def figure_column(rows: Sequence[IterationRow], figure: str) -> F64:
    """A figure of each iteration; NaN where it is not known."""
    return np.array([getattr(row, figure) for row in rows], np.float64)


def found_in_log(timed: Timed) -> Logged | None:
    """What the server's log says of the recorded iterations; None without one of them."""
    found = timed.memo(find_iterations)
    log = timed.trace.step_timings
    if found is None or not log.of_server:
        return None
    return logged(log, found.splits, found.period_ns, timed.trace.collected.stacks)


def _of_log(log: StepTimings) -> list[IterationRow]:
    """The iterations of a server's log alone."""
    columns = (
        log.start,
        log.context_requests,
        log.context_tokens,
        log.generation_requests,
        log.generation_tokens,
    )
    of_recording = (
        "host_ms gpu_span_ms gpu_busy_ms period_ms host_idle_ms gap_ms gap_cause graph "
        "gpu_ops launches"
    )
    none: dict[str, None] = dict.fromkeys([*of_recording.split(), "graph_launches"])
    lines = zip(
        *(column.tolist() for column in (*columns, log.kv_tokens, log.duration)), strict=True
    )
    return [
        IterationRow(
            iteration=i,
            start_ms=ms(start),
            phase=iteration_phase(prefills, decodes) if min(prefills, decodes) >= 0 else None,
            requests=prefills + decodes if min(prefills, decodes) >= 0 else None,
            context_tokens=_known(context),
            generation_tokens=_known(tokens),
            kv_tokens=_known(kv),
            **none,
            logged_ms=ms(time) if time > 0 else None,
        )
        for i, (start, prefills, context, decodes, tokens, kv, time) in enumerate(
            lines if log.of_server else ()
        )
        if max(prefills, decodes) >= 0  # other lines say something of the server
    ]


def _in_ms(ns: float | None) -> float | None:
    return None if ns is None or np.isnan(ns) else ms(ns)


def _known(count: int) -> int | None:
    return None if count < 0 else count


def _gaps(linked: Linked, found: Iterations) -> tuple[dict[int, int], dict[int, str]]:
    """Idle time behind each iteration that has another behind it, and its cause; 0 has none."""
    worked = np.flatnonzero(found.start >= 0)
    gap = dict[int, int]()
    cause = dict[int, str]()
    begins = found.start[worked][1:]
    ends = np.maximum.accumulate(found.end[worked])[:-1]
    idle = np.flatnonzero(begins > ends)
    starts = linked.trace.device_ops.start
    own_ops = [found.rows[i] for i in worked[1:]]
    first = np.array([rows[starts[rows].argmin()] for rows in own_ops], int)
    idle_ns = np.maximum(begins - ends, 0)
    gap.update(zip(worked[:-1].tolist(), idle_ns.tolist(), strict=True))
    causes = gap_causes(linked, ends[idle], begins[idle], first[idle])
    cause.update(zip(worked[idle].tolist(), causes, strict=True))
    return gap, cause


def _late(linked: Linked, found: Iterations, i: int, before: int) -> int:
    """Idle time of an iteration, since the end of the one before it, in which what came next was
    not yet launched."""
    rows = found.rows[i]
    begin = int(found.start[i])
    ops = linked.trace.device_ops
    if not len(rows):
        return 0
    since = min(before, begin) if before >= 0 else begin
    idle = complement((since, int(found.end[i])), found.busy[i])
    rows = rows[np.argsort(ops.start[rows], kind="stable")]
    call = linked.launch[rows[np.searchsorted(ops.start[rows], idle.end)]]
    returned = at(linked.trace.api_calls.end, call, 0)
    return int((np.clip(returned, idle.start, idle.end) - idle.start).sum())


def _launches(linked: Linked, found: Iterations) -> tuple[list[int], list[int]]:
    """Graph launches, and kernel launches, of each iteration."""
    calls = [np.unique(linked.launch[rows]) for rows in found.rows]
    kinds = [linked.api_kind[of[of >= 0]] for of in calls]
    graphs = [int((kind == ApiKind.GRAPH_LAUNCH).sum()) for kind in kinds]
    plain = [int((kind == ApiKind.LAUNCH).sum()) for kind in kinds]
    return graphs, plain


def _graph(linked: Linked, rows: I64, graphs: int) -> str:
    """How the work reached the device; a recording without calls may still say which graph an op
    ran in."""
    if graphs == 0:
        return "replayed" if (linked.trace.device_ops.graph[rows] > 0).any() else "eager"
    plain = linked.launch[rows[linked.is_kernel[rows]]]
    plain = plain[plain >= 0]
    is_graph = linked.api_kind[plain] == ApiKind.GRAPH_LAUNCH
    order = is_graph[np.argsort(linked.trace.api_calls.start[plain], kind="stable")]
    return "piecewise" if (order[1:] & ~order[:-1]).sum() >= PIECES else "replayed"
