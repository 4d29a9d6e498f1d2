"""What the log of a server, a benchmark's summary or recorded decodes say about how it is loaded. None has a
headroom: what more requests at a time gain is not in such figures."""

from collections.abc import Iterator

from traceanalyzer.analysis.serving.cut import find_iterations
from traceanalyzer.analysis.serving.figures import Serving
from traceanalyzer.base import digits
from traceanalyzer.diagnosis.draft import Draft, Proposal, finding
from traceanalyzer.diagnosis.finding import Evidence, Words, same_for_all
from traceanalyzer.diagnosis.measurements import Measurements
from traceanalyzer.diagnosis.serving.faults import skew_sentence
from traceanalyzer.diagnosis.serving.load import FULL, MOST_OF_TIME, has_queue, is_full
from traceanalyzer.diagnosis.serving.phases import phases
from traceanalyzer.diagnosis.serving.sentences import SERVERS
from traceanalyzer.diagnosis.serving.switches import switches
from traceanalyzer.diagnosis.shares import device_class, step_shares
from traceanalyzer.trace import Bool

MANY_PREEMPTIONS = 0.05
"""Preemptions for each line of the log, or each request, from which on they are no exception; SGLang's guide
allows one a minute, of about sixty lines."""
LEAST_ACCEPTED = 1.2
"""Tokens that verifying gives a request an iteration, below which guessing takes about what it gains."""
MOSTLY_EAGER = 0.5  # share of the logged decodes without a CUDA graph
DECODES_SHARE = 0.5  # of the recorded iterations' time, from which decodes are what the server does
BUSY = 0.8
"""Share of a decode in which the GPU works, from which its own work decides: of others the host does."""
HOURS = "hours"  # more than a switch: other weights, or other GPUs
NOT_IN_FIGURES = "the figures say what requests wait for, not how many tokens/s more of them bring"
LOAD_EXPECTED = (
    "Send requests as users do (--request-rate N or --max-concurrency N): this benchmark sent all at once, and its "
    "TTFT is their queue"
)
LOG_SAYS = (
    "Analyse the server's log of that time: it says whether memory for KV or the size of the batch holds requests "
    "back"
)
READ_ONCE = (
    "a decode reads the weights once for all its requests, so that more of them, or fewer bits, cost less each; how "
    "much is not known from one batch"
)
WHILE_QUEUED = "mean of the lines in which requests wait"
AT_THAT_MOMENT = "when the figures were taken"


def kv_cache_full(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Requests wait while the memory for KV is in use."""
    s = m.serving
    if s is None or not has_queue(s) or not is_full(s) or _is_uneven(m):
        return
    where = _where(s)
    evidence = [
        Evidence(
            "KV cache in use while requests wait",
            s.kv_usage_while_queued_share,
            "share",
            where,
            FULL,
        ),
        *_queue(s),
    ]
    proposals = [
        _switch(m, "kv_cache_8_bits", "8-bits"),
        _switch(m, "kv_cache_memory", "memory"),
        _switch(m, "more_gpus", "gpus", effort=HOURS),
    ]
    yield finding("kv-cache-full", "none", None, evidence, proposals)


def requests_queue(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Requests wait although the KV cache has room."""
    s = m.serving
    if s is None or not has_queue(s) or is_full(s) or s.kv_usage_while_queued_share is None:
        return
    if _is_uneven(m):
        return
    most = s.running_requests_max or s.running_requests or 0.0
    free = 1.0 - s.kv_usage_while_queued_share
    evidence = [
        Evidence("KV cache free while requests wait", free, "share", _where(s), 1.0 - FULL),
        *_queue(s),
        Evidence(
            "most requests in the batch", int(most), "", "a limit of the batch where it stays there"
        ),
    ]
    proposals = [_switch(m, "more_requests", "batch")]
    if m.trace.logged_by == "sglang":
        proposals.insert(0, _switch(m, "earlier_admission", "admission"))
    yield finding("requests-queue", "none", None, evidence, proposals)


def requests_preempted(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Requests give their memory back and are computed again."""
    s = m.serving
    if s is None or not s.preemptions:
        return
    lines = len(m.trace.step_timings)
    chances = lines or s.requests
    if not chances or s.preemptions < MANY_PREEMPTIONS * chances:
        return
    count = digits(s.preemptions)
    where = f"in {lines:,} lines" if lines else f"of {digits(chances)} completed"
    evidence = [Evidence("requests taken out of the batch", count, "", where)]
    yield finding(
        "requests-preempted", "none", None, evidence, [_switch(m, "later_admission", "admission")]
    )


def decodes_without_graphs(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """The log says that decodes are launched kernel by kernel."""
    s = m.serving
    if s is None or s.graph_share is None or not m.trace.only_step_times:
        return
    eager = 1.0 - s.graph_share
    if eager < MOSTLY_EAGER:
        return
    evidence = [Evidence("logged decodes without a CUDA graph", eager, "share", "", MOSTLY_EAGER)]
    sizes = (
        ("smallest batch without", s.eager_batch_min),
        ("largest batch with one", s.graph_batch_max),
    )
    evidence += [
        Evidence(what, int(size), "", "requests that run")
        for what, size in sizes
        if size is not None
    ]
    yield finding(
        "decodes-without-graphs",
        "none",
        None,
        evidence,
        [_switch(m, "cuda_graphs", name="cuda_graph")],
    )


def late_first_token(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Most of a request's time is before its first token."""
    s = m.serving
    shares = [] if s is None else [s.ttft_share, s.in_queue_share]
    largest = max(filter(None, shares), default=0.0)
    if s is None or largest < MOST_OF_TIME:
        return
    if has_queue(s) and s.kv_usage_while_queued_share is not None:
        return  # what they wait for is known
    parts = (
        ("time before the first token", s.ttft_share),
        ("time in the queue", s.in_queue_share),
    )
    evidence = [
        Evidence(what, share, "share", "of a mean request", MOST_OF_TIME)
        for what, share in parts
        if share is not None
    ]
    counts = (
        ("requests before their first token", s.before_first_token),
        ("requests that decode", s.decoding),
    )
    evidence += [
        Evidence(what, count, "", "requests a second times their mean time")
        for what, count in counts
        if count is not None
    ]
    words = LOAD_EXPECTED if s.all_at_once else LOG_SAYS
    proposal = Proposal(same_for_all(words), NOT_IN_FIGURES)
    if s.engine == "tgi":  # whose log of requests this is
        proposal = _switch(m, "more_requests", "batch")
    yield finding("late-first-token", "none", None, evidence, [proposal])


def guesses_rejected(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Speculative decoding whose guesses are hardly ever right."""
    s = m.serving
    if s is None or s.accepted_length is None or s.accepted_length >= LEAST_ACCEPTED:
        return
    each = f"{s.accepted_length:.2f}"
    evidence = [
        Evidence("tokens a request gets of an iteration", each, "", f"below {LEAST_ACCEPTED}")
    ]
    yield finding("guesses-rejected", "none", None, evidence, [_switch(m, "fewer_guesses")])


def decodes_read_memory(m: Measurements, _free: Bool) -> Iterator[Draft]:
    """Recorded decodes that keep the GPU busy reading weights and KV."""
    shares = m.memo(step_shares) if m.iterations else None
    found = phases(m) if shares is not None else []
    if shares is None or not found or found[0].phase != "decode":
        return
    decode = found[0]
    total_ms = sum(phase.iterations * phase.iteration_ms for phase in found)
    is_most = decode.iterations * decode.iteration_ms >= DECODES_SHARE * total_ms
    is_busy = decode.busy_ms >= BUSY * decode.iteration_ms
    if not is_most or not is_busy or device_class(m, shares) != "memory" or not shares.limit_known:
        return
    requests = 0 if decode.requests is None else round(decode.requests)
    evidence = [
        Evidence("work that memory limits", shares.memory, "share", f"of the {m.timed.steps.unit}"),
        Evidence("requests of a decode", requests, "", "median"),
    ]
    proposals = [
        _switch(m, "more_requests", "batch", basis=READ_ONCE),
        _switch(m, "smaller_weights", "bits", basis=READ_ONCE, effort=HOURS),
    ]
    yield finding("decodes-read-memory", "none", None, evidence, proposals)


def _is_uneven(m: Measurements) -> bool:
    """Whether another engine could take the requests that wait: none needs a larger one."""
    return bool(skew_sentence(m.trace.step_timings))


def _queue(s: Serving) -> list[Evidence]:
    """How many requests wait, and run beside them."""
    where = _where(s)
    counts = (
        ("requests that wait", s.waiting_while_queued),
        ("requests that run", s.running_while_queued),
    )
    return [Evidence(what, count, "", where) for what, count in counts if count is not None]


def _where(s: Serving) -> str:
    return AT_THAT_MOMENT if s.source == "summary" else WHILE_QUEUED


def _engine(m: Measurements) -> str | None:
    """The engine that was recorded, or wrote the log, as switches name it."""
    cut = m.timed.memo(find_iterations)
    if cut is not None and cut.framework:
        return cut.framework
    names = {ours: theirs for theirs, ours in SERVERS.items()}
    engine = m.serving.engine if m.serving is not None else None
    return names.get(engine or m.trace.logged_by)


def _switch(
    m: Measurements,
    change: str,
    suffix: str = "",
    *,
    basis: str = NOT_IN_FIGURES,
    name: str | None = None,
    effort: str | None = None,
) -> Proposal:
    """A switch of the engine as a proposal of which nothing is predicted."""
    text = switches()[change].said(_engine(m))
    words = Words(text, text, effort=effort)
    return Proposal(words, basis, suffix=suffix and f"-{suffix}", name=name)
