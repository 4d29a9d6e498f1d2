"""The vocabulary of a diagnosis: classes, evidence, findings, recommendations."""

from collections.abc import Mapping
from typing import Literal

from traceanalyzer.analysis.names import Framework
from traceanalyzer.analysis.tables.step_figures import Budget, Idle
from traceanalyzer.base import dataclass
from traceanalyzer.base.figures import metric as defined

BottleneckClass = Literal[
    "compute",
    "memory",
    "launch",
    "communication",
    "sync",
    "input",
    "host",
    "transfer",
    "inconclusive",
]
Severity = Literal["high", "medium", "low", "info"]
Basis = Literal["unprofiled", "recorded"]
MAX_CONFIDENCE = 0.95
REPLAYED = "replayed without the profiler"
BOUNDED = "not replayed; gains at most this"
"""How an estimate was made; what it assumes stands behind a colon."""
START_UP = "this is a start-up"
GPU_BUSY = "gpu-busy"
AGAINST: Mapping[str, str] = {
    "remove_syncs": "host-waits",
    "cuda_graph": "launch-bound",
    "compile": "launch-bound",
    "batch_calls": "launch-bound",
    "fuse_elementwise": "memory-chains",
    "fused_optimizer": "optimizer-not-fused",
    "fused_rnn": "launch-bound",
    "batched_matmul": "small-matmuls",
    "data_loader_workers": "input-wait",
    "copy_ahead": "exposed-copies",
    "pinned_memory": "exposed-copies",
    "keep_on_device": "exposed-copies",
    "copy_less": "exposed-copies",
    "tf32": "fp32-matmul",
    "low_precision": "fp32-matmul",
    "fused_attention": "attention-written-out",
    "channels_last": "channels-last",
    "pad_shapes": "misaligned-matmul",
    "no_recompute": GPU_BUSY,
    "freeze_parameters": GPU_BUSY,
    "sparse_gradients": GPU_BUSY,
    "no_sync_accumulation": "exposed-communication",
    "larger_buckets": "exposed-communication",
    "smaller_buckets": "exposed-communication",
    "compress_gradients": "exposed-communication",
    "overlap_communication": "exposed-communication",
    "keep_parameters": "exposed-communication",
    "prefetch_parameters": "exposed-communication",
    "smaller_messages": "exposed-communication",
    "fix_straggler": "straggler",
    "move_host_work": "host-work",
    "avoid_allocations": "host-work",
    "preallocate": "regrown-tensors",
    "warm_up": "host-work",
    "fixed_shapes": "new-shapes",
    "larger_batch": "launch-bound",
}
"""The finding that each remedy is against, where none in the report names it. It stands here, so that a
report is shown without what replays remedies."""
BASE_CONFIDENCE = 0.5  # confidence of a verdict whose margin over the runner-up is nil
MEDIUM_SHARE = 0.05
"""Findings of unknown headroom are reported from this share of the step up; others are `medium`
from here."""
HIGH_SHARE = 0.2  # findings from this share of the step on are `high`: worth a day's work


def begins_with_id(own: str, other: str) -> bool:
    """Whether an id is the other one, or goes on from it: advice `host-waits-1` is against the
    finding `host-waits`."""
    return f"{own}-".startswith(f"{other}-")


@dataclass(frozen=True)
class Words:
    """What to do, as a program in each framework can do it; None where it has no such thing."""

    pytorch: str
    cuda: str | None = None
    jax: str | None = None  # where it is not what programs in CUDA do
    effort: str | None = None  # where it is not what its remedy takes as a rule

    def of(self, framework: Framework) -> str | None:
        """The words for a program in that framework."""
        if framework is Framework.PYTORCH:
            return self.pytorch
        return self.jax or self.cuda if framework is Framework.JAX else self.cuda


def same_for_all(text: str) -> Words:
    """This text for every framework."""
    return Words(text, text)


def written(entry: str | dict[str, str], **figures: object) -> Words:
    """Words as an entry in TOML has them, with these figures in them: a text for every framework,
    or one for each, and the effort where it is not the usual one."""
    texts = {"pytorch": entry, "cuda": entry} if isinstance(entry, str) else entry
    joined = {name: " ".join(text.split()) for name, text in texts.items()}
    return Words(**{name: text.format(**figures) for name, text in joined.items()})


def severity_of(share: float | None) -> Severity:
    """By the share of the step, or of the memory peak, that removing the cause would save; None
    where unknown."""
    return (
        "info"
        if share is None
        else "high"
        if share >= HIGH_SHARE
        else "medium"
        if share >= MEDIUM_SHARE
        else "low"
    )


@dataclass(frozen=True)
class Evidence:
    """A measured figure that supports a finding; `threshold` is what it was compared with, if
    anything.

    A `value` that counts something is an int."""

    metric: str = defined("what was measured", text="sentence")
    value: int | float | str | None = defined(
        "its value; null where it could not be measured", text="sentence"
    )
    unit: str = defined("unit of the value, or empty", text="own")
    where: str = defined(
        "the place in the recording or in the program, or what the value is of", text="sentence"
    )
    threshold: float | None = defined(
        "what the value was compared with; null where there is nothing", default=None
    )


@dataclass(frozen=True)
class Finding:
    """Something that costs time, with the evidence. `headroom_ms` is counted once over all
    findings."""

    id: str = defined("name of the finding, for `explain`", text="own")
    cls: BottleneckClass = defined("class of bottleneck that it speaks for", text="own")
    title: str = defined("the finding in a sentence", text="sentence")
    severity: Severity = defined("by its share of the step", text="own")
    headroom_ms: float | None = defined(
        "time of the summary's step that removing the cause would save at most, no less than what advice on it gains; "
        "null where it is unknown",
        "ms",
    )
    evidence: list[Evidence] = defined("what supports it")


@dataclass(frozen=True)
class AsMuchWork:
    """The time of as much work as a step does now, where a step would do more: the step itself is
    not shorter."""

    time_ms: float = defined("time of as much work as a step does now", "ms")
    low_ms: float | None = defined("lower end of the 90 % range; null where it is unknown", "ms")
    high_ms: float | None = defined("upper end of it; null where it is unknown", "ms")
    speedup: float | None = defined("today's step time over it; null where it is unknown")

    @property
    def likely_ms(self) -> tuple[float, float | None, float | None]:
        """The time with its range."""
        return self.time_ms, self.low_ms, self.high_ms


@dataclass(frozen=True)
class AfterOthers:
    """The step that a change leads to with those that have to come before it."""

    remedies: list[str] = defined("the changes that have to come first", text="own")
    step_ms: float = defined("step time with all of them", "ms")
    low_ms: float | None = defined("lower end of the 90 % range; null where it is unknown", "ms")
    high_ms: float | None = defined("upper end of it; null where it is unknown", "ms")
    speedup: float | None = defined("today's step time over it; null where it is unknown")
    first_ms: float | None = defined(
        "step time with the changes alone that have to come first; null where it is unknown",
        "ms",
        default=None,
    )

    @property
    def likely_ms(self) -> tuple[float, float | None, float | None]:
        """The step time with its range."""
        return self.step_ms, self.low_ms, self.high_ms


@dataclass(frozen=True)
class AtStart:
    """What a change makes of the compilation at each start of the program."""

    now_s: float | None = defined("time in compilations today; null where it is unknown", "s")
    compile_s: float = defined("time in compilations with the change", "s")
    low_s: float | None = defined("lower end of its range; null where it is unknown", "s")
    high_s: float | None = defined("upper end of it; null where it is unknown", "s")


@dataclass(frozen=True)
class Recommendation:
    """A concrete remedy for a finding and what it would bring at most; `basis` says how that was
    estimated."""

    id: str = defined("name of the finding that it is against", text="own")
    cls: BottleneckClass = defined("class of bottleneck of that finding", text="own")
    action: str = defined("what to do", text="sentence")
    predicted_step_ms: float | None = defined(
        "step time that it would lead to; null where it is unknown", "ms"
    )
    predicted_speedup: float | None = defined(
        "step time before it over the one after it; null where it is unknown"
    )
    basis: str = defined("how that was estimated", text="sentence")
    remedy: str | None = defined(
        "the change of the program by name; null where it has none", default=None, text="own"
    )
    low_ms: float | None = defined(
        (
            "lower end of the prediction's 90 % range: nine of ten stopwatch medians lie "
            "inside; null where it is unknown"
        ),
        "ms",
        default=None,
    )
    high_ms: float | None = defined("upper end of it; null where it is unknown", "ms", default=None)
    predicted_peak_bytes: int | None = defined(
        "most bytes of GPU memory allocated with it; null where it is not about memory",
        "bytes",
        default=None,
    )
    predicted_reserved_bytes: int | None = defined(
        "most bytes that the allocator reserves with it; null where it does not change them alone",
        "bytes",
        default=None,
    )
    as_much_work: AsMuchWork | None = defined(
        "what it leads to where a step would do more work, as a larger batch does; null otherwise",
        default=None,
    )
    together: AfterOthers | None = defined(
        "what it leads to where other changes have to come first; null otherwise", default=None
    )
    at_start: AtStart | None = defined(
        "what it makes of the time in compilations; null where it changes none", default=None
    )
    may_not_help: bool = defined(
        "whether the range of what is predicted holds a step as long as today's", default=False
    )
    instead: str | None = defined(
        "why it comes first although the verdict names another cause, or where its gain is although the budget has "
        "none of what it removes; null otherwise",
        default=None,
        text="sentence",
    )
    effort: str | None = defined(
        "what it takes of somebody who knows the program; null where it is not known",
        default=None,
        text="own",
    )

    @property
    def likely_ms(self) -> tuple[float | None, float | None, float | None]:
        """The predicted step time with its range."""
        return self.predicted_step_ms, self.low_ms, self.high_ms

    @property
    def gain_is_known(self) -> bool:
        """Whether it is predicted what it leads to: a step, as much work, or a step with others."""
        known = (self.predicted_speedup, self.as_much_work, self.together)
        return any(one is not None for one in known)


@dataclass(frozen=True)
class Summary:
    """The bottleneck class, how sure it is (0..1), and the answer in a sentence."""

    bottleneck: BottleneckClass = defined("what the step waits for most", text="own")
    confidence: float = defined("how sure that is, 0 to 1", "share")
    headline: str = defined("the answer in a sentence", text="sentence")
    basis: Basis = defined(
        "the step that summary, findings and recommendations speak of: `unprofiled` (without the profiler: measured, "
        "or replayed) or `recorded`",
        default="recorded",
    )
    step_ms: float | None = defined(
        "mean time of that step; null where no steps are known", "ms", default=None
    )
    culprit: str | None = defined(
        (
            "who is most to blame, in a sentence: kind of work, module, phase or place; null "
            "where nothing stands out"
        ),
        default=None,
        text="sentence",
    )
    beside: BottleneckClass | None = defined(
        (
            "the class of the part named beside the bottleneck, where there is no single "
            "cause; null otherwise"
        ),
        default=None,
    )
    budget_ms: Budget | None = defined(
        "that step by what the device did, summing to `step_ms`; null without device work",
        default=None,
    )
    idle_ms: Idle | None = defined(
        "its idle time by cause, summing to `budget_ms.idle`", default=None
    )
    idle_share: float | None = defined(
        "share of that step without device work", "share", default=None
    )


@dataclass(frozen=True)
class Diagnosis:
    """Verdict, findings by headroom, recommendations by predicted gain."""

    summary: Summary
    findings: list[Finding]
    recommendations: list[Recommendation]
