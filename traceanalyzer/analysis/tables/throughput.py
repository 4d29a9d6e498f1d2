"""The figures that practitioners quote: work per second, and how much of the hardware that is.

Both are of the step that the report speaks of: without the profiler where that is known, else as
recorded."""

from functools import cached_property
from typing import Literal

import numpy as np

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.phases.training import ProgramStats
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.roofline.roofline_rows import (
    ENOUGH_SHARE,
    MODELLED_SHARE,
    RooflineStep,
)
from traceanalyzer.analysis.tables.step_figures import Step
from traceanalyzer.analysis.tables.timing import TimingStats
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import MS_PER_S, dataclass, metric, ratio, regex
from traceanalyzer.trace import F64, I64, RangeKind, StepAmounts, StepTimings

Source = Literal["given", "environment", "log", "loader"]
ATTENTION = "attention"
LEAST_UNKNOWN = 0.01  # share of the operations, below which twice as many change no figure shown
MOST_ROOM = 1000.0
"""Of a step with less computation than that nobody asks how much faster it could compute."""
LOADER_RANGE = regex(r"^enumerate\(DataLoader\)#")
REPLICATED = regex(
    r"(Distributed|FullySharded)DataParallel\.|^FSDP::|^torch::distributed::reducer|reducer::"
)
"""Each rank works through a batch of its own. Ranks of other kinds of parallelism share one."""
TERA = 1e12


@dataclass(frozen=True)
class Throughput:
    """Work per second. Amounts are those of one process: given (`--samples`, `--tokens`,
    `--flops`), from the capture's `environment.json`, its timing log, or the batch size of the
    loader."""

    steps_per_s: float | None = metric("steps a second; null without steps", "1/s")
    samples: float | None = metric(
        "samples that a step of this process works through; null unless given, in `environment.json`, in a log or seen "
        "at the loader"
    )
    samples_per_s: float | None = metric(
        "samples a second; null where the samples of a step are not known", "1/s"
    )
    ms_per_sample: float | None = metric(
        "step time over its samples; null where these are not known", "ms"
    )
    tokens: float | None = metric(
        "tokens of a step without padding; null unless given, in `environment.json` or in a log"
    )
    tokens_per_s: float | None = metric(
        (
            "effective tokens a second: padding left out; null where the tokens of a step "
            "are not known"
        ),
        "1/s",
    )
    padding_share: float | None = metric(
        "share of the computed tokens that are padding; null unless a log, or "
        "`environment.json`, says both"
    )
    source: Source | None = metric(
        "who says how much a step works through: `given`, `environment`, `log` or "
        "`loader`; null where nobody does"
    )
    tflop: float | None = metric(
        (
            "operations of a step, 1e12: those given, else those of operators with a model; "
            "null without either"
        ),
        "TFLOP",
    )
    tflops_per_s: float | None = metric(
        "those operations over the step time; null without them", "TFLOP/s"
    )
    flops_source: Literal["given", "modelled"] | None = metric(
        "whether the operations are `given` (by the user, `environment.json` or a log) "
        "or `modelled`; null without any"
    )
    micro_batch: float | None = metric(
        "samples of one forward pass: those of a step over its micro-steps; null where "
        "either is not known"
    )
    replicas: int | None = metric(
        "ranks that each work through samples of their own (data parallel); null where that cannot be told from other "
        "kinds of parallelism"
    )
    global_batch: float | None = metric(
        "samples of a step of all replicas: replicas x micro-batch x micro-steps; null "
        "where one of them is not known"
    )
    global_samples_per_s: float | None = metric(
        "samples a second of all replicas; null likewise", "1/s"
    )

    @property
    def is_given(self) -> bool:
        """Whether the operations of a step were given, not modelled."""
        return self.flops_source == "given"


@dataclass(frozen=True)
class Utilisation:
    """How much of the hardware a step uses."""

    mfu: float | None = metric(
        "model FLOP/s utilisation: operations given over the peak of the number format that most matrix kernels use "
        "(or --peak); else that of `roofline.mfu`, which is a lower bound where `roofline.modelled_share` is below "
        "0.9; null where neither operations nor peak are known",
        "share",
    )
    attainable_mfu: float | None = metric(
        "MFU if the step's computation ran at the roofline and nothing else took time; null without "
        "`roofline.ideal_ms`, and where the MFU is a lower bound",
        "share",
    )
    sol: float | None = metric(
        "speed of light: time of the step's computation at the roofline over the step time; null without "
        "`roofline.ideal_ms`",
        "share",
    )
    room: float | None = metric(
        (
            "the reciprocal: how many times faster the step could be at most; null where "
            "hardly any of it is computation"
        ),
        "x",
    )
    gpu_busy_share: float | None = metric(
        "share of the step with any device work; null without device work"
    )
    least_bandwidth_gbs: float | None = metric(
        "least traffic with the device memory that the step needs over the step time; "
        "null without models"
    )
    bandwidth_share: float | None = metric("that as a share of the memory's bandwidth")


@dataclass(frozen=True, eq=False)
class _StepWork:
    """What a step works through, and in what time: what the columns are made of."""

    timed: Timed
    step_ms: float
    seconds: float  # of a step; 0 without steps
    amounts: StepAmounts
    source: Source | None
    modelled_flops: float | None  # of a step, by the roofline's models
    program: ProgramStats | None
    logged: TimingStats | None

    @property
    def flops(self) -> float | None:
        """Operations of a step."""
        given = self.amounts.flops
        return self.modelled_flops if given is None else given

    @property
    def own_samples(self) -> float | None:
        """Samples of a step of this process; a log may count those of all."""
        return self.amounts.samples if self.source != "log" else None

    @cached_property
    def replicas(self) -> int | None:
        """Ranks with samples of their own."""
        return _replicas(self.timed)

    @property
    def global_batch(self) -> float | None:
        """Samples of a step of all replicas."""
        own = self.own_samples
        return own * self.replicas if own is not None and self.replicas is not None else None


def _samples_per_s(work: _StepWork) -> float | None:
    logged = work.logged.samples_per_s if work.logged else None
    return ratio(work.amounts.samples, work.seconds) or logged


def _ms_per_sample(work: _StepWork) -> float | None:
    return ratio(work.step_ms, work.amounts.samples) if work.seconds else None


def _tokens_per_s(work: _StepWork) -> float | None:
    logged = work.logged.tokens_per_s if work.logged else None
    return ratio(work.amounts.tokens, work.seconds) or logged


def _padding_share(work: _StepWork) -> float | None:
    full = ratio(work.amounts.tokens, work.amounts.padded_tokens)
    return None if full is None else max(1.0 - full, 0.0)


def _flops_source(work: _StepWork) -> Literal["given", "modelled"] | None:
    if work.amounts.flops is not None:
        return "given"
    return None if work.flops is None else "modelled"


def _micro_batch(work: _StepWork) -> float | None:
    return ratio(work.own_samples, work.program.micro_steps) if work.program else None


def throughput(
    rated: WithRoofline,
    step: Step,
    roofline: RooflineStep | None,
    program: ProgramStats | None,
    logged: TimingStats | None,
) -> Throughput | None:
    """Work per second; None without steps."""
    seconds = step.step_ms / MS_PER_S if rated.timed.steps.found else 0.0
    if seconds <= 0 and logged is None:
        return None
    amounts, source = step_amounts(rated.timed)
    work = _StepWork(
        timed=rated.timed,
        step_ms=step.step_ms,
        seconds=seconds,
        amounts=amounts,
        source=source,
        modelled_flops=_modelled_flops(roofline),
        program=program,
        logged=logged,
    )
    tflop = ratio(work.flops, TERA)
    return Throughput(
        steps_per_s=None if rated.timed.trace.logged_epochs else ratio(1.0, seconds),
        samples=amounts.samples,
        samples_per_s=_samples_per_s(work),
        ms_per_sample=_ms_per_sample(work),
        tokens=amounts.tokens,
        tokens_per_s=_tokens_per_s(work),
        padding_share=_padding_share(work),
        source=source,
        tflop=tflop,
        tflops_per_s=ratio(tflop, seconds),
        flops_source=_flops_source(work),
        micro_batch=_micro_batch(work),
        replicas=work.replicas,
        global_batch=work.global_batch,
        global_samples_per_s=ratio(work.global_batch, seconds),
    )


def _modelled_flops(roofline: RooflineStep | None) -> float | None:
    """Operations of a step, where most of its computation has a model."""
    if roofline is None or roofline.tflop is None or roofline.modelled_share < ENOUGH_SHARE:
        return None
    return roofline.tflop * TERA


def utilisation(
    rated: WithRoofline, step: Step, roofline: RooflineStep | None, recorded_ms: float
) -> Utilisation | None:
    """How much of the hardware the step uses; None without steps, and without device work where
    operations and peak are not given."""
    if not rated.timed.steps.found or step.step_ms <= 0:
        return None
    seconds = step.step_ms / MS_PER_S
    given = ratio(step_amounts(rated.timed)[0].flops, seconds)
    mfu = ratio(given, peak_flops_per_s(rated))
    if rated.timed.device is None and mfu is None:
        return None
    faster = ratio(step.step_ms, recorded_ms)
    if mfu is None and roofline is not None:
        mfu = ratio(roofline.mfu, faster)
    sol = ratio(roofline.ideal_ms, step.step_ms) if roofline else None
    is_least = mfu_is_least(roofline, is_given=given is not None) or (
        given is None and masks_are_unknown(rated)
    )
    return Utilisation(
        mfu=mfu,
        attainable_mfu=None if is_least else ratio(mfu, sol),
        sol=sol,
        room=1.0 / sol if sol and sol * MOST_ROOM >= 1 else None,
        gpu_busy_share=None if step.budget is None else 1.0 - step.budget.idle / step.step_ms,
        least_bandwidth_gbs=ratio(roofline.traffic_gb, seconds) if roofline else None,
        bandwidth_share=ratio(roofline.bandwidth_share, faster) if roofline else None,
    )


def mfu_is_least(roofline: RooflineStep | None, *, is_given: bool) -> bool:
    """Whether the MFU is a lower bound: operations were not given, and kernels without a model do
    some that are not counted."""
    return not is_given and roofline is not None and roofline.modelled_share < MODELLED_SHARE


def masks_are_unknown(rated: WithRoofline) -> bool:
    """Whether attention that does a part of the operations worth telling counts as causal, the
    least it can do, as its arguments' values were not recorded."""
    if ATTENTION not in rated.linked.classes.names:
        return False
    operations = np.where(rated.timed.steady_ops, np.nan_to_num(rated.roofline.flops[:]), 0.0)
    row = rated.roofline.row
    is_attention = rated.linked.op_class == rated.linked.classes.index(ATTENTION)
    of_operator = is_attention & (row >= 0)
    values = rated.trace.host_ranges.concrete[row[of_operator]]
    unknown = operations[of_operator][values < 0].sum()
    return bool(unknown > LEAST_UNKNOWN * operations.sum())


def step_amounts(timed: Timed) -> tuple[StepAmounts, Source | None]:
    """What a step works through, and who says so: the user, else `environment.json`, else the log,
    else the loader."""
    told: dict[Source, StepAmounts] = {
        "given": timed.linked.knowledge.amounts,
        "environment": timed.trace.amounts,
        "log": logged_amounts(timed.trace.step_timings),
        "loader": StepAmounts(samples=_loaded(timed)),
    }
    for source, amounts in told.items():
        if amounts != StepAmounts():
            return amounts, source
    return StepAmounts(), None


def logged_amounts(log: StepTimings) -> StepAmounts:
    """Means of what a log's lines say of their steps."""

    def mean(values: I64 | F64) -> float | None:
        known = values[values > 0]
        return float(known.mean()) if len(known) else None

    return StepAmounts(
        mean(log.samples), mean(log.tokens), mean(log.padded_tokens), mean(log.flops)
    )


def _loaded(timed: Timed) -> float | None:
    """Batches that a steady step takes from the loader, times their size."""
    size = timed.trace.batch_size
    ranges = timed.trace.host_ranges
    if size is None or not timed.steps.found:
        return None
    named = texts_where(timed.trace.strings, LOADER_RANGE.match)[ranges.name] & (
        ranges.kind == RangeKind.ANNOTATION
    )
    batches = int((named & timed.steady_host(ranges.start)).sum())
    return size * batches / timed.steps.steady_count if batches else None


def peak_flops_per_s(rated: WithRoofline) -> float | None:
    """What the GPU can do a second in the number format of most of its matrix kernels' time, or
    what the user says; None where the GPU or the format is not known."""
    if rated.linked.knowledge.peak_flops_per_s is not None:
        return rated.linked.knowledge.peak_flops_per_s
    gpu = rated.linked.gpus.get(-1 if rated.timed.device is None else rated.timed.device)
    ops = rated.trace.device_ops
    precision = rated.roofline.precision
    rows = np.flatnonzero(
        rated.linked.is_matrix & rated.timed.steady_ops & (precision != Precision.UNKNOWN)
    )
    if gpu is None or not len(rows):
        return None
    time = np.bincount(precision[rows], weights=(ops.end - ops.start)[rows])
    return gpu.matrix_peak(Precision(int(time.argmax())).name.lower())


def _replicas(timed: Timed) -> int | None:
    """Ranks with samples of their own: all of the world, where its ranks are replicas and no
    smaller group of them is recorded (which other kinds of parallelism have)."""
    world = timed.trace.process.world_size
    groups = timed.trace.collectives.group_size
    if world is None or world <= 1:
        alone = world == 1 or not timed.linked.is_communication.any()
        return 1 if alone and len(timed.activity) == 1 else None
    smaller = bool(((groups > 1) & (groups < world)).any())
    return world if any(map(REPLICATED.search, timed.trace.strings)) and not smaller else None
