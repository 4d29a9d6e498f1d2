"""The step of a run that was never made: how long it takes, how far that may be off, and what it
rests on."""

import numpy as np

from traceanalyzer.base import MEMORY, MS_PER_S, dataclass, metric
from traceanalyzer.replay.unmade.curve import limits_on
from traceanalyzer.replay.unmade.dimensions import NO_LENGTH, dimensions_of
from traceanalyzer.replay.unmade.made import PlannedTape, RunPlan
from traceanalyzer.replay.unmade.memory import Levels, growth_of_kept, peak_bytes
from traceanalyzer.replay.unmade.question import Question, QuestionError
from traceanalyzer.replay.unmade.ranks import data_parallel
from traceanalyzer.replay.unmade.recorded_sizes import Dimensions
from traceanalyzer.replay.unmade.resized import Sizes
from traceanalyzer.replay.unmade.run import UnmadeRun, gpu_limit_from
from traceanalyzer.replay.unmade.target import gpu_named, memory_bytes
from traceanalyzer.replay.whatif import UNFAITHFUL, Replay
from traceanalyzer.trace import Bool
from traceanalyzer.trace.hardware import Hardware

MILLION = 1e6
SECONDS_PER_HOUR = 3600.0
NO_PRICE = "no price: neither tokens nor samples are known, and a row of a matrix is none of them"


@dataclass(frozen=True, eq=False)
class Known:
    """What a prediction starts from."""

    replay: Replay
    levels: Levels | None = None
    mfu: float | None = None
    samples: float | None = None
    """Samples of a step as the user or the program says; None: what the shapes say."""
    micro_steps: float = 1.0


@dataclass(frozen=True)
class Unmade:
    """The step of a run that was never made."""

    setting: str = metric("what is different", text="sentence")
    step_ms: float = metric("predicted step time without a profiler")
    low_ms: float = metric("lower end of the 90 % range")
    high_ms: float = metric("upper end of it")
    gpu_ms: float = metric("predicted step time where the host takes none of it")
    now_ms: float = metric("step time of the recorded program without a profiler")
    batch: int | None = metric(
        "samples, or rows of the first layer's input, of one pass; null where the shapes do not tell"
    )
    length: int | None = metric("tokens of a sequence; null where nothing is a sequence")
    samples_per_s: float | None = metric(
        "samples a second of all ranks; null where they are not known, as rows of a matrix are no "
        "samples",
        "1/s",
    )
    ms_per_sample: float | None = metric("step time over the samples of all ranks", "ms")
    tokens_per_s: float | None = metric("tokens a second of all ranks", "1/s")
    bottleneck: str = metric("what limits that step", text="sentence")
    gpu_limit_from: int | None = metric(
        "batch from which on the GPU is the limit; null where it is already, or never"
    )
    peak_bytes: int | None = metric(
        "peak of GPU memory; null where the recording does not have it", MEMORY
    )
    fits: bool | None = metric("whether that fits the GPU; null where one of them is not known")
    mfu: float | None = metric("MFU at that step; null where today's is not known", "share")
    price_per_million_tokens: float | None = metric(
        "price of a million tokens (samples where nothing is a token), in the currency of --price; "
        "null without it, and where neither is known",
        default=None,
    )
    now_ms_per_sample: float | None = metric(
        "time per sample of the recorded program without a profiler; null where the samples are not "
        "known",
        default=None,
    )
    work_gain: float | None = metric(
        "samples (or rows) a second of all ranks over those of now; null where they are not known",
        default=None,
    )
    ranks: int = metric("ranks that work on samples of their own", default=1)
    basis: list[str] = metric("what it rests on", text="sentence", default_factory=list)


def predicted(known: Known, question: Question, price: float | None = None) -> Unmade:
    """The step under the settings asked for. Raises QuestionError where the recording does not
    tell."""
    replay = known.replay
    if not replay.faithful:
        raise QuestionError(f"nothing is predicted: {UNFAITHFUL}")
    plan, now = run_plan_of(replay, question)
    run = UnmadeRun(replay, plan)
    step = run.step_ms()
    low, high = run.range_ms(step)
    sizes = plan.sizes
    work_now = _work_of(known, now, None, data_parallel(replay.typical[0]))
    work = _work_of(known, now, sizes, question.ranks or work_now.ranks)
    samples = work.samples
    batch = None if now is None else now.batch
    length = None if now is None else now.context
    if sizes is not None:
        batch = sizes.batch
        length = sizes.length
    tokens = _tokens(samples, length, now)
    peak = _peak(known, run.parts[0])
    return Unmade(
        setting=str(question),
        step_ms=step,
        low_ms=low,
        high_ms=high,
        gpu_ms=min(run.gpu_ms, step),
        now_ms=replay.base_ms,
        batch=batch,
        length=length,
        samples_per_s=None if samples is None else samples * MS_PER_S / step,
        ms_per_sample=_each(step, samples),
        tokens_per_s=None if tokens is None else tokens * MS_PER_S / step,
        bottleneck=run.bottleneck(step),
        gpu_limit_from=gpu_limit_from(replay, plan, now, run.gpu_share(step)),
        peak_bytes=peak,
        fits=_fits(peak, _room(replay, plan.gpu)),
        mfu=_mfu(known, run.parts[0], step),
        price_per_million_tokens=_price(price, step * work.ranks, tokens or samples),
        now_ms_per_sample=_each(replay.base_ms, work_now.samples),
        work_gain=_gain(_each(replay.base_ms, work_now.amount), _each(step, work.amount)),
        ranks=work.ranks,
        basis=[
            *_basis(known, plan, now, run.parts[0].basis),
            *([NO_PRICE] if price is not None and not (tokens or samples) else []),
        ],
    )


def run_plan_of(replay: Replay, question: Question) -> tuple[RunPlan, Dimensions | None]:
    """What changes, and the recorded sizes where shapes tell them. Raises QuestionError."""
    rated = replay.typical[0].source
    now = _dimensions(replay, question)
    sizes = None
    if question.changes_shapes and now is not None:
        sizes = _sizes(question, now)
    gpu = None
    if question.gpu is not None:
        gpu = gpu_named(question.gpu, rated.linked.knowledge.hardware)
        if not any(rated.linked.gpus.values()):
            raise QuestionError("the recorded GPU is not in the table: what it can do is not known")
    return RunPlan(sizes, question.precision, gpu, question.ranks), now


def _sizes(question: Question, now: Dimensions) -> Sizes | None:
    """The sizes asked for; None where they are the recorded ones."""
    length = now.context
    if question.length is not None:
        if length is None:
            raise QuestionError(NO_LENGTH)
        length = question.length.from_size(length)
    batch = question.batch.from_size(now.batch) if question.batch else now.batch
    return None if (batch, length) == (now.batch, now.context) else Sizes(now, batch, length)


def _dimensions(replay: Replay, question: Question) -> Dimensions | None:
    rated = replay.typical[0].source
    if question.changes_shapes:
        return dimensions_of(rated, question.batch_now)
    try:
        return dimensions_of(rated, question.batch_now)
    except QuestionError:
        return None


@dataclass(frozen=True)
class AllWork:
    """What all ranks do in a step."""

    amount: float | None  # samples, or rows; None where neither is known
    samples: float | None  # None where they are not known, as of rows
    ranks: int  # that work on samples of their own


def _work_of(known: Known, now: Dimensions | None, sizes: Sizes | None, ranks: int) -> AllWork:
    each = _of_a_rank(known, now, sizes)
    if each is None:
        return AllWork(None, None, ranks)
    are_rows = known.samples is None and now is not None and now.rows
    amount = each * ranks
    return AllWork(amount, None if are_rows else amount, ranks)


def _of_a_rank(known: Known, now: Dimensions | None, sizes: Sizes | None) -> float | None:
    """Samples, or rows, of a step of one rank; None where they are not known."""
    if known.samples is not None:
        return known.samples * (sizes.batch_ratio if sizes else 1.0)
    if now is None:
        return None
    return (sizes.batch if sizes else now.batch) * known.micro_steps


def _each(step_ms: float, samples: float | None) -> float | None:
    return step_ms / samples if samples else None


def _gain(now_each: float | None, each: float | None) -> float | None:
    return now_each / each if now_each and each else None


def _tokens(samples: float | None, length: int | None, now: Dimensions | None) -> float | None:
    if samples is None or now is None or length is None:
        return None
    return samples if now.is_decode else samples * length


def _peak(known: Known, part: PlannedTape) -> int | None:
    if known.levels is None:
        return None
    return peak_bytes(known.levels, growth_of_kept(part.tape, part.loads))


def _fits(peak: int | None, room: float | None) -> bool | None:
    return None if peak is None or room is None else peak <= room


def _room(replay: Replay, gpu: Hardware | None) -> float | None:
    if gpu is not None:
        return memory_bytes(gpu)
    return next(
        (d.memory_bytes for d in replay.typical[0].source.trace.devices if d.memory_bytes), None
    )


def _mfu(known: Known, part: PlannedTape, step: float) -> float | None:
    if known.mfu is None or not step:
        return None
    mfu = known.mfu * part.loads.flops_ratio * known.replay.base_ms / step
    now = part.loads.now
    matrix = part.tape.source.linked.is_matrix[part.tape.row] & np.isfinite(now.flops)
    if matrix.any():
        mean_peak = _mean_peak(part, matrix)
        mfu *= mean_peak
    return mfu if mfu <= 1.0 else None


def _mean_peak(part: PlannedTape, matrix: Bool) -> float:
    """The recorded peak over that asked for, by the products' operations."""
    weight = np.nan_to_num(part.loads.then.flops[matrix])
    peaks = limits_on(part.tape, part.tape.source.linked.gpus).peak[matrix]
    ratio = np.nan_to_num(peaks / part.limits.peak[matrix], nan=1.0)
    return float((ratio * weight).sum() / weight.sum()) if weight.any() else 1.0


def _price(price: float | None, step: float, amount: float | None) -> float | None:
    if price is None or not amount:
        return None
    return price / SECONDS_PER_HOUR * step / MS_PER_S / amount * MILLION


def _basis(known: Known, plan: RunPlan, now: Dimensions | None, of_ranks: str) -> list[str]:
    measured = known.replay.measured is not None
    step = "timed without the profiler" if measured else "estimated from the trace"
    found = [f"the step now is {step}; the host's time per launch stays as it is"]
    if plan.sizes is not None and now is not None:
        found.append(
            f"batch {now.batch}"
            + (f", length {now.context}" if now.context else "")
            + f" from {now.basis}; each kernel's work at both sizes from its operator's shapes"
        )
    if plan.precision is not None:
        found.append(f"products in {plan.precision}, the tensors between them as autocast has them")
    if plan.gpu is not None:
        found.append(f"limits of {plan.gpu.name}: {plan.gpu.source}")
    return [*found, of_ranks] if of_ranks else found
