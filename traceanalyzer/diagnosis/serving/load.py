"""What the figures of a server under load say: whether requests wait, for what, and where their time
goes."""

from collections.abc import Iterator

from traceanalyzer.analysis.serving.figures import Serving
from traceanalyzer.base import MS_PER_S, digits
from traceanalyzer.trace import Percentiles

FULL = 0.9
"""From this share on the KV cache counts as full: servers keep some of it for the tokens of requests that
run, SGLang's own guide calls 0.9 well used."""
LEAST_QUEUED = 0.1
"""Requests that wait in fewer of the log's lines come in a burst."""
MOST_OF_TIME = 0.5  # of a request from end to end, from which its first token is the story
STALLED = 3.0
"""A tail of the time between tokens that is this many times the median is more than chance: prefill
of others, or preemption, stands between two tokens."""
MOST_PREFILLED = 16_384
"""Prompt tokens that servers prefill at a time at most, as they are set by default."""
MANY_PREFILLS = 4  # of that size, from which on most requests without a token must be in the queue
MEMORY_LIMITS = "memory for KV limits the batch"
LONG_MS = 10_000  # times from here on are said in seconds


def has_queue(s: Serving) -> bool:
    """Whether requests wait for most of a moment or for a good part of a log."""
    if not s.waiting_while_queued or s.waiting_while_queued < 1:
        return False
    return s.queued_share is None or s.queued_share >= LEAST_QUEUED


def is_full(s: Serving) -> bool:
    """Whether the KV cache is full while requests wait: nearly all in use, or too little left for one
    more request of the mean size."""
    used = s.kv_usage_while_queued_share
    if used is None:
        return False
    running = s.running_while_queued
    each = used / running if running else 0.0
    return used >= FULL or each > 1.0 - used


def so_many(count: float, singular: str, plural: str) -> str:
    """A mean count as it is shown, and the words for one or for several."""
    shown = digits(count)
    return f"{shown} {singular if shown == '1' else plural}"


def load_sentence(s: Serving) -> str:
    """How many requests wait, and for what; empty where that is not known."""
    running = running_sentence(s)
    if (
        has_queue(s)
        or not running
        or (s.waiting_requests_max is None and s.waiting_requests is None)
    ):
        return running
    seldom = "No request waits" if not s.waiting_requests_max else "Requests seldom wait"
    return f"{seldom}: {running}"


def running_sentence(s: Serving) -> str:
    """How many requests run, and those that wait where there is a queue; empty where that is not known."""
    if has_queue(s):
        return _of_queue(s)
    if s.running_requests is None:
        return ""
    is_known = s.kv_usage_share is not None
    cache = f", and the KV cache is {s.kv_usage_share:.0%} full" if is_known else ""
    running = digits(s.running_requests)
    verb = "runs" if running == "1" else "run"
    return f"{running} {verb} at a time{cache}."


def _of_queue(s: Serving) -> str:
    subject = so_many(s.waiting_while_queued or 0.0, "request waits", "requests wait")
    beside = so_many(s.running_while_queued or 0.0, "runs", "run")
    if s.queued_share is not None and s.queued_share < MOST_OF_TIME:
        subject = f"In {s.queued_share:.0%} of the log's lines {subject}"
    used = s.kv_usage_while_queued_share
    if used is None:
        return f"{subject} while {beside}."
    if is_full(s):
        return f"{subject} while {beside} and the KV cache is {used:.0%} full: {MEMORY_LIMITS}."
    return f"{subject} while {beside}, with {1 - used:.0%} of the KV cache free."


def moment_sentence(s: Serving) -> str:
    """What a queue at a moment waits for, where memory is what it waits for; empty elsewhere."""
    if not has_queue(s) or not is_full(s):
        return ""
    return f"{MEMORY_LIMITS[0].upper()}{MEMORY_LIMITS[1:]}."


def story(s: Serving) -> str:
    """Where most of a request's time goes, where that is before its first token; empty elsewhere."""
    first = s.ttft_ms
    latency = s.latency_ms
    if first is None or latency is None or (s.ttft_share or 0.0) < MOST_OF_TIME:
        return ""
    for statistic in ("median", "mean"):
        before = getattr(first, statistic)
        total = getattr(latency, statistic)
        if before is not None and total is not None and before >= MOST_OF_TIME * total:
            return (
                f"Most of a request's time is before its first token: TTFT {statistic} "
                f"{_of(before, total)} end to end."
            )
    return ""


def _of(part_ms: float, whole_ms: float) -> str:
    if whole_ms >= LONG_MS:
        return f"{digits(part_ms / MS_PER_S)} s of {digits(whole_ms / MS_PER_S)} s"
    return f"{digits(part_ms)} ms of {digits(whole_ms)} ms"


def summary_notes(s: Serving) -> Iterator[str]:
    """What follows from the figures of a benchmark's summary."""
    yield from _where_requests_are(s)
    if s.all_at_once:
        yield (
            "The benchmark sent all requests at once (request rate inf): TTFT is its own queue, not what users "
            "of a smaller load see."
        )
    yield from _queue_alone(s)
    yield from _tails(s)
    yield from engine_notes(s)


def _where_requests_are(s: Serving) -> Iterator[str]:
    """Requests before and behind their first token, by Little's law."""
    if s.concurrency is None:
        if s.decoding is not None:
            yield f"About {so_many(s.decoding, 'request', 'requests')} decode at a time."
        return
    if s.running_requests is not None:
        return
    counted = (
        f"About {so_many(s.concurrency, 'request is', 'requests are')} in the server at a time"
    )
    before, decoding = s.before_first_token, s.decoding
    if before is None or decoding is None:
        yield f"{counted}."
        return
    yield (
        f"{counted}: {digits(before)} before their first token (queue and prefill), {digits(decoding)} "
        "decoding."
    )
    tokens = before * (s.prompt_tokens or 0.0)
    if tokens >= MANY_PREFILLS * MOST_PREFILLED:
        yield (
            f"Those before their first token have {digits(tokens)} prompt tokens; servers prefill {MOST_PREFILLED:,} "
            "at a time at most by default: most of these requests are in the queue."
        )


def _queue_alone(s: Serving) -> Iterator[str]:
    """The queue's part of the time to the first token, where the server says both."""
    queued = s.queue_ms.mean if s.queue_ms is not None else None
    first = s.ttft_ms.mean if s.ttft_ms is not None else None
    if queued is not None and first:
        yield f"Of the TTFT ({digits(first)} ms) a request is in the queue for {digits(queued)} ms (means)."


def _tails(s: Serving) -> Iterator[str]:
    """The slowest hundredth, where chance does not explain it."""
    between = _tail(s.itl_ms)
    if between is not None:
        yield (
            f"ITL is {between} the median: prefill of other requests, or preemption, comes between tokens "
            "(chunked prefill)."
        )
    first = _tail(s.ttft_ms)
    if first is not None and not story(s):
        yield f"TTFT is {first} the median: a queue before the prefill, or longer prompts."


def _tail(times: Percentiles | None) -> str | None:
    """`141 ms for one in a hundred, 4.5 times`; None where it is no long one."""
    if times is None or times.p99 is None or not times.median:
        return None
    factor = times.p99 / times.median
    return (
        f"{digits(times.p99)} ms for one in a hundred, {factor:.1f} times"
        if factor >= STALLED
        else None
    )


def engine_notes(s: Serving) -> Iterator[str]:
    """What of the prompts is found in the cache, and what guesses come to."""
    if s.accepted_length is not None:
        right = f" ({s.accepted_share:.0%} of the guesses are right)" if s.accepted_share else ""
        yield (
            f"Speculative decoding gives a request {s.accepted_length:.2f} tokens an iteration{right}."
        )
    if s.prefix_hit_share:
        yield f"{s.prefix_hit_share:.0%} of the prompt tokens are found in the prefix cache."
