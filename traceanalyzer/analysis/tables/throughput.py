"""The figures that practitioners quote: work per second, and how much of the hardware that is.

Both are of the step that the report speaks of: without the profiler where that is known, else as
recorded."""

import re
from typing import Literal

import numpy as np

from traceanalyzer.analysis.algebra import texts_where
from traceanalyzer.analysis.phases.training import ProgramStats
from traceanalyzer.analysis.roofline.op_models import Precision
from traceanalyzer.analysis.roofline.rated import WithRoofline
from traceanalyzer.analysis.tables.budget import Step
from traceanalyzer.analysis.tables.roofline_rows import ENOUGH_SHARE, RooflineStep
from traceanalyzer.analysis.tables.timing import TimingStats
from traceanalyzer.analysis.time.timed import Timed
from traceanalyzer.base import MS_PER_S, dataclass, metric, ratio
from traceanalyzer.trace import F64, I64, RangeKind, StepAmounts, StepTimings

Source = Literal["given", "environment", "log", "loader"]
MOST_ROOM = 1000.0
"""Of a step with less computation than that nobody asks how much faster it could compute."""
LOADER_RANGE = re.compile(r"^enumerate\(DataLoader\)#")
REPLICATED = re.compile(
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


@dataclass(frozen=True)
class Utilisation:
    """How much of the hardware a step uses."""

    mfu: float | None = metric(
        "model FLOP/s utilisation: operations given over the peak of the number format that most matrix kernels use "
        "(or --peak); else that of `roofline.mfu`; null where neither operations nor peak are known",
        "share",
    )
    attainable_mfu: float | None = metric(
        "MFU if the step's computation ran at the roofline and nothing else took time; null without "
        "`roofline.ideal_ms`",
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
    flops = amounts.flops
    given = amounts.flops is not None
    if (
        flops is None
        and roofline
        and roofline.tflop is not None
        and roofline.modelled_share >= ENOUGH_SHARE
    ):
        flops = roofline.tflop * TERA
    full = ratio(amounts.tokens, amounts.padded_tokens)
    tflop = ratio(flops, TERA)
    replicas = _replicas(rated.timed)
    own = amounts.samples if source != "log" else None
    total = own * replicas if own is not None and replicas is not None else None
    return Throughput(
        steps_per_s=ratio(1.0, seconds),
        samples=amounts.samples,
        samples_per_s=ratio(amounts.samples, seconds) or (logged.samples_per_s if logged else None),
        ms_per_sample=ratio(step.step_ms, amounts.samples) if seconds else None,
        tokens=amounts.tokens,
        tokens_per_s=ratio(amounts.tokens, seconds) or (logged.tokens_per_s if logged else None),
        padding_share=None if full is None else max(1.0 - full, 0.0),
        source=source,
        tflop=tflop,
        tflops_per_s=ratio(tflop, seconds),
        flops_source="given" if given else None if flops is None else "modelled",
        micro_batch=ratio(own, program.micro_steps) if program else None,
        replicas=replicas,
        global_batch=total,
        global_samples_per_s=ratio(total, seconds),
    )


def utilisation(
    rated: WithRoofline, step: Step, roofline: RooflineStep | None, recorded_ms: float
) -> Utilisation | None:
    """How much of the hardware the step uses; None without steps, and without device work where
    operations and peak are not given."""
    if not rated.timed.steps.found or step.step_ms <= 0:
        return None
    mfu = ratio(
        ratio(step_amounts(rated.timed)[0].flops, step.step_ms / MS_PER_S), peak_flops_per_s(rated)
    )
    if rated.timed.device is None and mfu is None:
        return None
    faster = ratio(step.step_ms, recorded_ms)
    modelled, ideal, traffic, bandwidth = (
        (roofline.mfu, roofline.ideal_ms, roofline.traffic_gb, roofline.bandwidth_share)
        if roofline
        else (None,) * 4
    )
    mfu = ratio(modelled, faster) if mfu is None else mfu
    sol = ratio(ideal, step.step_ms)
    return Utilisation(
        mfu=mfu,
        attainable_mfu=ratio(mfu, sol),
        sol=sol,
        room=1.0 / sol if sol and sol * MOST_ROOM >= 1 else None,
        gpu_busy_share=None if step.budget is None else 1.0 - step.budget.idle / step.step_ms,
        least_bandwidth_gbs=ratio(traffic, step.step_ms / MS_PER_S),
        bandwidth_share=ratio(bandwidth, faster),
    )


def step_amounts(timed: Timed) -> tuple[StepAmounts, Source | None]:
    """What a step works through, and who says so: the user, else `environment.json`, else the log,
    else the loader."""
    for source, amounts in (
        ("given", timed.linked.knowledge.amounts),
        ("environment", timed.trace.amounts),
        ("log", logged_amounts(timed.trace.step_timings)),
        ("loader", StepAmounts(samples=_loaded(timed))),
    ):
        if amounts != StepAmounts():
            return amounts, source  # type: ignore[return-value]  # the literals above
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
