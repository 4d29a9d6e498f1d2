"""What the summary of a serving benchmark, or the figures that a server exposes, say."""

from traceanalyzer.base import dataclass, metric


@dataclass(frozen=True)
class Percentiles:
    """A latency of requests; None: it is not said."""

    mean: float | None = metric("mean over the requests", "ms", default=None)
    median: float | None = metric("median", "ms", default=None)
    p90: float | None = metric("90th percentile", "ms", default=None)
    p95: float | None = metric("95th percentile", "ms", default=None)
    p99: float | None = metric("99th percentile", "ms", default=None)
    min: float | None = metric("shortest", "ms", default=None)

    @property
    def typical(self) -> float | None:
        """The median, else the mean."""
        return self.mean if self.median is None else self.median

    @property
    def statistic(self) -> str:
        """Which of the two that is."""
        return "mean" if self.median is None else "median"


@dataclass(frozen=True)
class ServingSummary:
    """What is said of a server under load; None: it is not said. Times are of requests, ms."""

    ttft: Percentiles | None = None
    tpot: Percentiles | None = None
    itl: Percentiles | None = None
    latency: Percentiles | None = None
    queue: Percentiles | None = None  # before their prefill, where the server itself says it
    requests_per_s: float | None = None
    output_tokens_per_s: float | None = None
    prompt_tokens_per_s: float | None = None
    total_tokens_per_s: float | None = None
    requests: float | None = None  # completed
    failed: float | None = None
    prompt_tokens: float | None = None  # of a mean request
    output_tokens: float | None = None
    concurrency: float | None = None  # requests in the server, as measured
    max_concurrency: float | None = None  # requests that the benchmark keeps in the server at most
    request_rate: float | None = None  # requests that it sends a second
    all_at_once: bool | None = None  # whether it sends all without waiting
    accepted_length: float | None = None
    accepted_share: float | None = None
    running: float | None = None  # requests in the batch and waiting for it, at a moment
    waiting: float | None = None
    kv_usage: float | None = None
    prefix_hit_share: float | None = None
    preemptions: float | None = None
    model: str | None = None
    engine: str | None = None  # as a log's `written_by`
